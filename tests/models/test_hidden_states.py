"""Chains on hidden states that show one record value each: probabilities by enumeration, files, and other forms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from pufferdp import (
    HiddenMarkov,
    HiddenStates,
    MarkovChain,
    MarkovClock,
    ModelError,
    NotApplicableError,
    PufferdpError,
    design_flips,
    fit,
    load_model,
    plan_redaction,
    release,
    save_model,
)
from pufferdp.bounds.curves import best_curve, curves
from pufferdp.models.clock import clock_of
from pufferdp.models.files.json import model_from_dict, model_to_dict
from pufferdp.models.hidden import hidden_of, is_hidden
from pufferdp.models.simulate import hidden_log_probability, seeded
from pufferdp.publish.answers.estimate import answer_prior
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from tests.bounds.hidden.test_memory import all_pairs, second_order_table

TABLE = np.array([[[0.9, 0.1], [0.4, 0.6]], [[0.6, 0.4], [0.2, 0.8]]])
SECOND = HiddenStates.of_order(TABLE, states=["rest", "active"], values=[0, 1])
SPLIT = HiddenStates(
    transition=[[0.8, 0.1, 0.05, 0.05], [0.05, 0.9, 0.03, 0.02], [0.2, 0.1, 0.6, 0.1], [0.0, 0.2, 0.1, 0.7]],
    of=[0, 0, 1, 1],
    states=["off", "on"],
)
BY_HOUR = HiddenStates(
    transition=[SPLIT.transition, np.roll(SPLIT.transition, (2, 2), (0, 1))],
    of=[0, 0, 1, 1],
    states=["off", "on"],
    step="12h",
    period="24h",
)
PATH = SECOND.sample(3000, 4)
FRAME = pd.DataFrame({"state": [SECOND.labels[x] for x in PATH]})


def enumerated(model: HiddenStates, records, first: int = 0) -> float:
    """P(records) as the sum over all paths of hidden states; -1 is a missing observation."""
    kernels, total = model.kernels, 0.0
    for path in itertools.product(range(len(model.of)), repeat=len(records)):
        if any(x not in (-1, model.of[z]) for z, x in zip(path, records, strict=True)):
            continue
        p = model.distributions[first % len(kernels), path[0]]
        for t, (a, b) in enumerate(itertools.pairwise(path)):
            p *= kernels[(first + t) % len(kernels), a, b]
        total += p
    return total


@pytest.mark.parametrize(
    "model",
    [
        SECOND,
        SPLIT,
        HiddenStates.semi_markov([[0.5, 0.2], [0.3, 0.9]], [[0, 1], [1, 0]], ages=[1, 3]),
        HiddenStates.of_hidden_markov(
            HiddenMarkov(transition=[[0.9, 0.1], [0.2, 0.8]], emission=[[0.8, 0.2], [0.0, 1.0]])
        ),
        HiddenStates(transition=[[0, 1, 0], [0, 0, 1], [1, 0, 0]], of=[0, 0, 1], start=[1, 0, 0]),
        BY_HOUR,
    ],
    ids=["order 2", "split", "semi-Markov", "hidden Markov", "zeros", "time of day"],
)
def test_probabilities_are_those_of_enumeration(model: HiddenStates) -> None:
    for length in (1, 4):
        rows = list(itertools.product((-1, *range(model.size)), repeat=length))
        for first in range(model.steps):
            logs = [model.log_likelihood([row], slots=[first]) for row in rows]
            assert np.exp(logs) == pytest.approx([enumerated(model, row, first) for row in rows], abs=1e-14)
            whole = [math.exp(log) for row, log in zip(rows, logs, strict=True) if -1 not in row]
            assert sum(whole) == pytest.approx(1.0)


def test_a_chain_of_second_order_has_the_probabilities_of_its_table() -> None:
    joint = second_order_table(TABLE, all_pairs(TABLE).start_distribution.reshape(2, 2), 4)
    for row in itertools.product(range(2), repeat=4):
        assert math.exp(SECOND.log_likelihood([row])) == pytest.approx(joint[row])


def test_a_semi_markov_chain_leaves_with_its_age() -> None:
    model = HiddenStates.semi_markov([[0.5, 0.2], [0.3, 0.9]], [[0, 1], [1, 0]], ages=[1, 3], start=[1, 0, 0, 0, 0, 0])
    # Ages 1 and 2 leave with probability 0.5, ages from 3 on with 0.2.
    assert math.exp(model.log_likelihood([[0, 0, 0, 0, 1]])) == pytest.approx(0.5 * 0.5 * 0.8 * 0.2)


def test_an_order_with_unvisited_nodes_leaves_them_out() -> None:
    absorbed = HiddenStates.of_order([[[0.5, 0.5], [0.0, 1.0]], [[0.5, 0.5], [0.0, 1.0]]])
    assert len(absorbed.of) == 4  # 0 is never visited in the long run, and keeps its hidden states
    assert len(HiddenStates.of_order([[[0.5, 0.5], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]], start="any").of) == 4
    cyclic = HiddenStates.of_order([[[0.5, 0.5], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]])
    assert len(cyclic.of) == 3  # 1 never follows 1
    assert math.exp(cyclic.log_likelihood([[0, 1, 0]])) > 0


def test_filter_and_smoother_are_those_of_enumeration() -> None:
    row = [0, -1, 1, 1, -1, 0]
    for model, first in ((SPLIT, 0), (BY_HOUR, 1)):
        (filtered,), (smoothed,) = (f([row], slots=[first]) for f in (model.filter, model.smooth))
        kernels = model.kernels
        joint = np.zeros((len(row), len(model.of)))
        for path in itertools.product(range(len(model.of)), repeat=len(row)):
            if any(x not in (-1, model.of[z]) for z, x in zip(path, row, strict=True)):
                continue
            p = model.distributions[first % len(kernels), path[0]]
            for t, (a, b) in enumerate(itertools.pairwise(path)):
                p *= kernels[(first + t) % len(kernels), a, b]
            joint[np.arange(len(row)), path] += p
        assert smoothed == pytest.approx(joint / joint.sum(axis=1, keepdims=True))
        assert filtered[-1] == pytest.approx(smoothed[-1])
        assert filtered.sum(axis=1) == pytest.approx(1.0)


def test_several_series_are_independent() -> None:
    rows = [[0, 1, 1], [1], [0, 0, -1, 1, 1]]
    assert SPLIT.log_likelihood(rows) == pytest.approx(sum(SPLIT.log_likelihood([row]) for row in rows))
    assert [len(part) for part in SPLIT.smooth(rows)] == [3, 1, 5]


def test_sampled_records_have_the_probabilities_of_the_model() -> None:
    drawn = BY_HOUR.draw(3, 40_000, seeded(1), 1)
    for row in itertools.product(range(2), repeat=3):
        share = float((drawn == row).all(axis=1).mean())
        assert share == pytest.approx(enumerated(BY_HOUR, row, 1), abs=0.012)
    assert SPLIT.sample(5, 3).tolist() == SPLIT.sample(5, np.random.default_rng(3)).tolist()


@pytest.mark.parametrize("model", [SECOND, SPLIT, BY_HOUR], ids=["order 2", "split", "time of day"])
def test_a_file_has_everything(model: HiddenStates, tmp_path) -> None:
    checked = model_from_dict({**model_to_dict(model), "checks": {"records": 3000, "families": ["chain"]}})
    save_model(checked, tmp_path / "m.json")
    back = load_model(tmp_path / "m.json")
    assert model_to_dict(back) == model_to_dict(checked)
    assert back.checks == {"records": 3000, "families": ["chain"]}


def test_models_are_equal_by_their_content() -> None:
    again = HiddenStates.of_order(TABLE, states=["rest", "active"], values=[0, 1], fitted={"records": 3})
    assert again == SECOND and hash(again) == hash(SECOND) and again in {SECOND}
    assert HiddenStates.of_order(TABLE, states=["rest", "busy"], values=[0, 1]) != SECOND
    chain = MarkovChain([[0.9, 0.1], [0.4, 0.6]])
    assert chain == MarkovChain([[0.9, 0.1], [0.4, 0.6]], checks={"records": 1}) != SECOND
    assert chain != "chain"


def test_the_repr_counts_hidden_states() -> None:
    assert repr(SPLIT) == "HiddenStates(4 hidden states: off 2, on 2; start stationary)"
    assert repr(BY_HOUR).endswith("off 2, on 2; 2 slots in 24h, steps of 12h; start stationary)")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"of": [0, 0, 1]}, "of has 3 entries; transition has 4 hidden states"),
        ({"of": [0, 0, 2, 2]}, "of has the value 2; states names the values 0 to 1"),
        ({"of": [0, 0, 0, 0]}, "no hidden state shows the value 'on'"),
        ({"of": [0, 0, -1, 1]}, "of is .*; it must hold the number of a record value"),
        ({"transition": [[0.5, 0.4], [0.5, 0.5]]}, "row 1 of transition sums to 0.9"),
        ({"transition": [[[0.5, 0.5], [0.5, 0.5]]]}, "transition holds 1 matrices and period is missing"),
        ({"period": "24h", "step": "1h"}, "with a period it must be a list of square matrices"),
        ({"start": "never"}, "start is 'never'"),
        ({"start": [0.5, 0.5]}, "start has 2 probabilities"),
        ({"checks": {"x": math.nan}}, "checks"),
        ({"checks": [1]}, "checks is"),
        ({"emission": 3}, "emission is not a key known here"),
    ],
)
def test_wrong_files_are_rejected(change, words) -> None:
    with pytest.raises(ModelError, match=words):
        model_from_dict(model_to_dict(SPLIT) | change)


def test_wrong_constructions_are_rejected() -> None:
    with pytest.raises(ModelError, match="table is 2×3"):
        HiddenStates.of_order([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])
    with pytest.raises(ModelError, match=r"row 1, 2 of table sums to 0.9"):
        HiddenStates.of_order([[[0.5, 0.5], [0.5, 0.4]], [[0.5, 0.5], [0.5, 0.5]]])
    with pytest.raises(ModelError, match=r"jump\[1\]\[1\] is 1"):
        HiddenStates.semi_markov([[0.5], [0.5]], [[0, 1], [0, 1]])
    with pytest.raises(ModelError, match="ages is"):
        HiddenStates.semi_markov([[0.5], [0.5]], [[0, 1], [1, 0]], ages=[2])
    with pytest.raises(ModelError, match="leave is 1×1"):
        HiddenStates.semi_markov([[0.5]], [[0, 1], [1, 0]])
    with pytest.raises(ModelError, match="begins at any of its slots"):
        HiddenStates(transition=BY_HOUR.transition, of=BY_HOUR.of, step="12h", period="24h", start="any")
    with pytest.raises(ModelError, match="record 2 is 5"):
        SPLIT.log_likelihood([[0, 5]])
    with pytest.raises(ModelError, match="probability 0"):
        HiddenStates(transition=[[1, 0], [0, 1]], of=[0, 1]).filter([[0, 1]])


def test_one_hidden_state_for_each_value_is_the_chain() -> None:
    table = np.array([[0.9, 0.1], [0.4, 0.6]])
    model = HiddenStates(transition=table[::-1, ::-1], of=[1, 0], states=["a", "b"])
    chain = MarkovChain(table, states=["a", "b"])
    assert model.chain == chain and model.chains == (chain,) and hidden_of(model) is None
    applying = [[name for name, curve in curves(same, 100).items() if curve.applies] for same in (model, chain)]
    assert applying[0] == applying[1]
    assert best_curve(model, 100)(0.5) == best_curve(chain, 100)(0.5)
    clock = HiddenStates(transition=[table, table[::-1]], of=[0, 1], step="12h", period="24h")
    assert clock_of(clock) == MarkovClock(transitions=[table, table[::-1]], step="12h", period="24h")
    assert best_curve(clock, 100)(0.5) == best_curve(clock_of(clock), 100)(0.5)
    assert HiddenStates(transition=[table, table], of=[0, 1], step="12h", period="24h").chain is not None


def test_a_time_of_day_model_is_never_taken_for_a_chain_of_records() -> None:
    assert is_hidden(BY_HOUR) and clock_of(BY_HOUR) is None and BY_HOUR.chains == ()
    with pytest.raises(NotApplicableError, match="hidden states by time of day are not supported here"):
        hidden_of(BY_HOUR)
    assert [name for name, curve in curves(BY_HOUR, 100).items() if curve.applies] == ["general", "potential"]
    with pytest.raises(PufferdpError, match="order is missing"):
        release([*"ab"], model=BY_HOUR, query="histogram", epsilon=1.0)


def test_the_distribution_of_a_count_is_that_of_enumeration() -> None:
    joint = second_order_table(TABLE, all_pairs(TABLE).start_distribution.reshape(2, 2), 5)
    expected = np.bincount(np.indices(joint.shape).sum(axis=0).ravel(), joint.ravel(), 6)
    prior = answer_prior(Problem(model=SECOND, query=Query.parse("count:active"), lengths=((5, 1),), epsilon=1.0))
    assert prior is not None
    assert prior.distribution.masses == pytest.approx(expected, abs=1e-12)


def test_hidden_markov_models_agree() -> None:
    hidden = HiddenMarkov(transition=[[0.9, 0.1], [0.2, 0.8]], emission=[[0.8, 0.2], [0.3, 0.7]])
    pairs = HiddenStates.of_hidden_markov(hidden)
    row = [0, 1, 1, 0, 0]
    assert pairs.log_likelihood([row]) == pytest.approx(hidden_log_probability(hidden, 5, dict(enumerate(row))))
    assert pairs.start == "stationary"


@pytest.mark.slow
def test_a_fit_counts_what_follows_pairs() -> None:
    fitted = fit(FRAME, column="state", states=["rest", "active"], memory=2)
    counts = np.zeros((2, 2, 2))
    np.add.at(counts, (PATH[:-2], PATH[1:-1], PATH[2:]), 1)
    first = counts.sum(axis=0) + 0.5
    expected = counts + 0.5 * 2 * first / first.sum(axis=1, keepdims=True)
    assert fitted.model.second_order == pytest.approx(expected / expected.sum(axis=2, keepdims=True))
    assert fitted.lent_rows == ()
    smooth = fit(FRAME, column="state", states=["rest", "active"], memory=2, prior=2.0).model
    assert smooth.second_order == pytest.approx((counts + 2) / (counts + 2).sum(axis=2, keepdims=True))


def test_a_chain_of_higher_order_has_no_impossible_moves() -> None:
    """A bound rests on ratios of transition probabilities: c was never seen after a, nor anything after b and a."""
    table = fit([*"abc" * 7], memory=2).model.second_order
    assert table.min() > 0
    assert table[1, 0] == pytest.approx(table[2, 0], abs=0.25)


def test_people_are_not_joined() -> None:
    rows = pd.DataFrame({"who": ["x"] * 3 + ["y"] * 3, "t": [1, 2, 3] * 2, "s": list("abaaba")})
    alone = fit(rows, column="s", by="who", order="t", memory=2, prior=1.0, independent=True).model
    assert alone.second_order[0, 1] == pytest.approx([3 / 4, 1 / 4])
    assert alone.second_order[1, 0] == pytest.approx([1 / 2, 1 / 2])


@pytest.mark.parametrize("model", [SECOND, BY_HOUR], ids=["order 2", "time of day"])
@pytest.mark.parametrize(
    "command",
    [
        lambda model: design_flips(model, epsilon=1.0, length=20),
        lambda model: plan_redaction(model, private=[3], epsilon=1.0, length=20),
    ],
    ids=["flip", "redact"],
)
def test_other_commands_give_a_reason(command, model) -> None:
    with pytest.raises(PufferdpError, match=r"HiddenStates|clock"):
        command(model)
