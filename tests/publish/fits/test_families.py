"""Hidden states fitted by expectation and maximisation, and the choice of a family on held-out records."""

from __future__ import annotations

import itertools
import math
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pufferdp import HiddenStates, MarkovChain, MarkovClock, ParameterError, fit
from pufferdp.models.simulate import sample_chain, seeded
from pufferdp.publish.fits.expectation import Estimate, Observed, _Search, _starting_point, fit_hidden, log_scores
from pufferdp.publish.fits.families import Candidates, FamilyChoice, History

TWO_KINDS = HiddenStates(
    transition=[
        [0.97, 0.01, 0.01, 0.01],
        [0.02, 0.55, 0.03, 0.40],
        [0.01, 0.01, 0.96, 0.02],
        [0.03, 0.42, 0.01, 0.54],
    ],
    of=[0, 0, 1, 1],
    states=["rest", "active"],
)
CHAIN = MarkovChain([[0.9, 0.1], [0.2, 0.8]], states=["rest", "active"])


def bits(estimate: Estimate, observed: Observed, half: int) -> float:
    """Held-out bits a record of one series, from a time step on."""
    (scores,) = log_scores(estimate, observed)
    return float(-scores[half:][observed.series[0][half:] >= 0].mean() / math.log(2))


def test_every_step_gains_likelihood() -> None:
    observed = Observed(series=[TWO_KINDS.sample(45, 1), TWO_KINDS.sample(30, 2)], values=2)
    search = _Search(observed.segments(1, 2), (0, 0, 1, 1), _starting_point(observed, 2, 1, None, 0), 0.0)
    before = -math.inf
    for steps in range(1, 40):
        search.run(steps, gain=0.0)
        assert search.log_likelihood >= before - 1e-3  # entries below 1e-6 are raised
        before = search.log_likelihood


def test_the_likelihood_is_that_of_enumeration() -> None:
    row = np.array([0, 1, 1, -1, 0, 1])
    made = fit_hidden(Observed(series=[row], values=2), 2, steps=30)
    model = HiddenStates(transition=made.kernels[0], of=made.of)
    (scores,) = log_scores(made, Observed(series=[row], values=2))
    enumerated = 0.0
    for path in itertools.product(range(4), repeat=6):
        if all(x in (-1, made.of[z]) for z, x in zip(path, row, strict=True)):
            p = model.distributions[0, path[0]]
            for a, b in itertools.pairwise(path):
                p *= made.kernels[0, a, b]
            enumerated += p
    assert scores.sum() == pytest.approx(math.log(enumerated), abs=1e-9)
    assert made.kernels.min() >= 1e-6


def test_one_hidden_state_a_value_is_the_chain_of_counts() -> None:
    path = sample_chain(CHAIN, 400, 1, seeded(3))[0]
    made = fit_hidden(Observed(series=[path], values=2), 1)
    counts = np.zeros((2, 2))
    np.add.at(counts, (path[:-1], path[1:]), 1)
    assert made.kernels[0] == pytest.approx(counts / counts.sum(axis=1, keepdims=True), abs=1e-5)


def is_close(model: HiddenStates, records: np.ndarray) -> bool:
    """Whether the fit is at least as likely as the truth, up to half a unit for each of its parameters."""
    names = list(model.labels)
    codes = [names.index(("rest", "active")[x]) for x in records]
    return model.log_likelihood([codes]) > TWO_KINDS.log_likelihood([records.tolist()]) - 8


@pytest.mark.slow
def test_first_order_data_get_a_chain() -> None:
    """At most 2 of 20 runs choose another family: an error rate of 10 % at most."""
    wrong = 0
    for seed in range(20):
        path = sample_chain(CHAIN, 5000, 1, seeded(seed))[0]
        made = fit([CHAIN.labels[x] for x in path], checks=False)
        wrong += not isinstance(made.model, MarkovChain)
    assert wrong <= 2


def test_a_daily_rhythm_is_found() -> None:
    hours = np.arange(24 * 120)
    generator = seeded(4)
    day = [MarkovChain([[0.9, 0.1], [0.5, 0.5]]), MarkovChain([[0.3, 0.7], [0.1, 0.9]])]
    state, out = 0, []
    for hour in hours:
        state = int(generator.random() < day[int(hour % 24 >= 12)].transition[state, 1])
        out.append("ab"[state])
    frame = pd.DataFrame({"t": pd.date_range("2024-01-01", periods=len(out), freq="h"), "s": out})
    made = fit(frame, column="s", order="t")
    assert isinstance(made.model, MarkovClock) and made.zone is not None


def test_few_records_and_other_fits_give_a_chain_and_the_reason() -> None:
    path = [CHAIN.labels[x] for x in sample_chain(CHAIN, 500, 1, seeded(1))[0]]
    assert "cannot be detected with 500 records" in " ".join(str(fit(path)).split())
    assert "A class with a confidence" in str(fit(path, confidence=0.9))
    assert "A private fit compares no families" in str(fit(path, dp_epsilon=1.0, states=["rest", "active"]))


@pytest.mark.slow
def test_families_by_hand() -> None:
    path = [TWO_KINDS.labels[x] for x in TWO_KINDS.sample(3000, 2)]
    plain = partial(fit, path, checks=False)
    chain = plain(family="chain").model
    assert isinstance(chain, MarkovChain)
    three = plain(hidden=3).model
    assert isinstance(three, HiddenStates) and len(three.of) == 6
    assert plain(hidden=1).model == chain
    third = plain(family="memory", memory=3, prior=0.5).model
    assert isinstance(third, HiddenStates) and len(third.of) == 8
    assert len(plain(family="memory").model.of) == 4
    chosen = plain(family="hidden")
    assert isinstance(chosen.model, HiddenStates) and {score.kinds for score in chosen.families} == {2, 3, 4}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"family": "tree"}, "family is 'tree'; it must be one of"),
        ({"family": "chain", "memory": 2}, "memory= belongs to another family"),
        ({"family": "ar1", "clock": "hour"}, "clock= belongs to another family"),
        ({"memory": 2, "clock": "hour"}, "clock is hour and memory is 2"),
        ({"memory": 2, "hidden": 2}, "hidden is 2 and memory is 2"),
        ({"hidden": 2.5}, "hidden is 2.5; it must be a whole number"),
        ({"hidden": 2, "confidence": 0.9}, "family is hidden and confidence is 0.9"),
        ({"memory": 2, "dp_epsilon": 1.0}, "family is memory and dp_epsilon is 1"),
    ],
)
def test_contradictions_are_rejected(options, words) -> None:
    with pytest.raises(ParameterError, match=words):
        fit(["a", "b"] * 20, states=["a", "b"], **options)


def test_people_and_missing_observations() -> None:
    """People begin anew, and a missing observation is a step of which nothing is known."""
    rows = TWO_KINDS.draw(300, 12, seeded(3))
    frame = pd.DataFrame({"who": np.repeat(np.arange(12), 300), "t": np.tile(np.arange(300), 12), "s": rows.ravel()})
    frame["s"] = [None if n % 50 == 20 else "rb"[x] for n, x in enumerate(frame["s"])]
    made = fit(frame, column="s", order="t", by="who", missing="keep", checks=False)
    assert made.comparison.clusters == "people"
    assert made.comparison.chosen is not None and made.comparison.chosen.family == "hidden"


def halves(codes: np.ndarray, values: int, half: int) -> list[float]:
    """Held-out bits of one to three hidden states a value, fitted on the first half of one series."""
    out: list[float] = []
    previous = None
    for kinds in (1, 2, 3):
        previous = fit_hidden(Observed(series=[codes[:half]], values=values), kinds, begin=previous)
        out.append(bits(previous, Observed(series=[codes], values=values), half))
    return out


@pytest.mark.slow
@pytest.mark.parametrize(("person", "known"), [("N10", (0.9782, 0.9487, 0.9189))])
def test_held_out_bits_of_heart_rates(shared_data: Path, person: str, known: tuple[float, ...]) -> None:
    """Bins are quarters of the first half. The search ends in another place for three, and may be .02 worse."""
    beats = np.loadtxt(shared_data / "heart" / f"{person}.txt")[:, 1]
    half = len(beats) // 2
    codes = np.digitize(beats, np.quantile(beats[:half], [0.25, 0.5, 0.75]))
    for found, study in zip(halves(codes, 4, half), known, strict=True):
        assert found <= study + 0.02


def test_nothing_of_the_second_half_is_used_to_fit() -> None:
    row = np.arange(100) % 2
    history = History(observed=Observed(series=[row, row[:50]], values=2), persons=[0, 1], by_person=True, days=None)
    tests = history.test_steps()
    assert [int(mask.sum()) for mask in tests] == [50, 25]
    assert [len(part) for part in history.training(tests).series] == [50, 25]
    comparison = FamilyChoice(history=history, candidates=Candidates(kinds=(1,))).compare()
    assert comparison.chosen is not None and comparison.chosen.bits == pytest.approx(0.0, abs=1e-3)


def test_too_many_sequences_are_rejected() -> None:
    with pytest.raises(ParameterError, match="memory is 8; with 3 states that is 6,561 sequences"):
        fit(list("abcabcab") * 5, memory=8)


@pytest.mark.parametrize("sizes", [(1000,), (200, 1200), (50, 2000, 50)])
def test_about_half_of_the_records_are_held_out(sizes):
    """Also where an interruption leaves a short first series: once nothing was held out, and no family compared."""
    rows = [TWO_KINDS.sample(size, n) for n, size in enumerate(sizes)]
    days = [np.arange(size) // 100 + 40 * n for n, size in enumerate(sizes)]
    for given in (None, days):
        observed = Observed(series=rows, values=2)
        history = History(observed=observed, persons=[0] * len(rows), by_person=False, days=given)
        masks = history.test_steps()
        assert 0.25 <= sum(int(mask.sum()) for mask in masks) / sum(sizes) <= 0.75
        flat = np.concatenate(masks)
        assert (np.diff(flat.astype(int)) >= 0).all()  # the later records


@pytest.mark.slow
def test_the_table_shows_what_the_chosen_family_costs_and_what_the_chain_would_reveal():
    codes = TWO_KINDS.sample(8000, 5)
    made = fit([TWO_KINDS.states[x] for x in codes], order="rows", states=list(TWO_KINDS.states))
    assert made.comparison.chosen is not None and made.comparison.chosen.family == "hidden"
    assert isinstance(made.model, HiddenStates) and is_close(made.model, codes)
    assert "hidden, 2 a value" in str(made) and "chosen" in str(made)
    assert made.to_dict()["families"][0]["family"] == "chain"
    scores = {score.name: score for score in made.families}
    (chosen,) = (score for score in made.families if score.chosen)
    assert chosen.kinds == 2
    assert chosen.noise > 1.2 * scores["chain"].noise
    assert chosen.effective <= 1.1 < scores["chain"].effective
    assert f"e^{chosen.effective:.2f}" in str(made)
