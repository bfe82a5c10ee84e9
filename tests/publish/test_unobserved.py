"""Series with unobserved steps: the chain goes on past them, and no command may guarantee less than that leaks."""

from __future__ import annotations

import itertools
import math
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pufferdp
from pufferdp.basics.errors import DataError, NotApplicableError, ParameterError
from pufferdp.models.ar1 import Ar1
from pufferdp.models.chain import MarkovChain
from pufferdp.models.clock import MarkovClock
from pufferdp.models.hidden import HiddenMarkov
from pufferdp.models.hidden_states import HiddenStates
from pufferdp.publish.noise import SeededSampler
from tests.oracles import algorithms, chains, flips, records, redaction
from tests.strategies import examples, random_distribution, random_transition
from tests.tolerance import safe_loss

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
SEEDS = st.integers(0, 10**6)


def draw_path(generator: np.random.Generator, chain: MarkovChain, distribution: np.ndarray, length: int) -> list[int]:
    path = [int(generator.choice(chain.size, p=distribution))]
    while len(path) < length:
        path.append(int(generator.choice(chain.size, p=chain.transition[path[-1]])))
    return path


def random_case(seed: int, states: int, length: int) -> tuple[MarkovChain, np.ndarray, list[str | None], list[int]]:
    """A chain with its start, a series of it with unobserved steps, and where it has records."""
    generator = np.random.default_rng(seed)
    given_distribution = random_distribution(generator, states)
    table = random_transition(generator, states)
    start: Any = given_distribution if generator.random() < 0.5 else "stationary"
    chain = MarkovChain(transition=table, start=start, states=[f"s{n}" for n in range(states)])
    distribution = given_distribution if chain.given_start is not None else chain.stationary
    path = draw_path(generator, chain, distribution, length)
    there = sorted(generator.choice(length, size=int(generator.integers(1, length)), replace=False).tolist())
    values = [f"s{x}" if t in there else None for t, x in enumerate(path)]
    return chain, distribution, values, there


QUERIES = st.sampled_from(["histogram", "count:s0"])
LONGEST = {2: 6, 3: 4}
"""Records of a series of so many states that programmes over all algorithms are solved for."""


@pytest.mark.slow
@settings(max_examples=examples(16))
@given(seed=SEEDS, states=st.integers(2, 3), length=st.integers(2, 6), query=QUERIES)
@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
def test_many_releases_with_holes(seed: int, states: int, length: int, query: str, adversary: str) -> None:
    check_release(seed, states, min(length, LONGEST[states]), query, adversary)


def check_release(seed: int, states: int, length: int, query: str, adversary: str) -> None:
    chain, distribution, values, there = random_case(seed, states, length)
    frame = pl.DataFrame({"state": pl.Series(values, dtype=pl.String)})
    made = pufferdp.release(
        frame, model=chain, column="state", query=query, epsilon=1, adversary=adversary, missing="keep"
    )
    certificate = made.certificate
    assert certificate.data.unobserved is not None
    assert pufferdp.verify(certificate.to_dict()).valid
    # As any algorithm with its loss: nothing is spent on what is missing.
    losses = [1 / certificate.calibration.sigma if t in there else 0.0 for t in range(length)]
    for target in range(length):
        assert algorithms.chain_leakage([chain.transition], distribution, losses, target, adversary) <= 1 + 1e-7
    if query == "histogram" and certificate.noise.balanced:
        return  # the oracle of answers has independent noise
    # As the noisy answer itself.
    joint = records.chain_joint(chain.transition, distribution, length).astype(float)
    grid = np.indices(joint.shape)
    counted = range(states) if query == "histogram" else (0,)
    exact = np.stack([sum((grid[t] == x).astype(float) for t in there) for x in counted], axis=-1)
    leaks = records.leakage(joint, exact, certificate.noise.scale, everyone=adversary == "bdp")
    assert leaks <= 1 + 1e-7


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
def test_releases_of_hidden_states_with_holes(seed: int, adversary: str) -> None:
    generator = np.random.default_rng([seed, 5])
    of = (0, 1, 1) if seed % 2 else (0, 1, 0, 1)
    table = 0.02 + generator.dirichlet(np.full(len(of), 0.5), size=len(of))
    table /= table.sum(axis=1, keepdims=True)
    model = HiddenStates(transition=table, of=of, states=["a", "b"])
    there = sorted(generator.choice(4, size=2 + seed % 2, replace=False).tolist())
    values = ["ab"[int(generator.integers(2))] if t in there else None for t in range(4)]
    frame = pl.DataFrame({"state": pl.Series(values, dtype=pl.String)})
    options: dict[str, Any] = {"column": "state", "query": "count:a", "epsilon": 1, "adversary": adversary}
    made = pufferdp.release(frame, model=model, **options, missing="keep", mechanism="curve-potential").certificate
    assert pufferdp.verify(made.to_dict()).valid
    joint = algorithms.hidden_table(table[None], np.eye(2)[list(of)], model.distributions[0], 4)
    losses = [1 / made.calibration.sigma if t in there else 0.0 for t in range(4)]
    who = "every" if adversary == "bdp" else adversary
    assert max(algorithms.joint_leakage(joint, losses, target, who) for target in range(4)) <= 1 + 1e-7


def test_every_second_value_missing_is_not_the_chain_without_holes() -> None:
    # Of records that alternate a count without unobserved steps leaks its loss and no more; one of every second record
    # does not.
    chain = MarkovChain(transition=[[0.1, 0.9], [0.8, 0.2]], states=["a", "b"])
    whole = pl.DataFrame({"state": ["a", "b"] * 10})
    unobserved = pl.DataFrame({"state": ["a", None] * 10})
    options: dict[str, Any] = {"model": chain, "column": "state", "query": "count:a", "epsilon": 1}
    assert pufferdp.release(whole, **options).certificate.mechanism.name == "exact-laplace"
    made = pufferdp.release(unobserved, **options, missing="keep").certificate
    assert made.mechanism.name != "exact-laplace"
    steps = records.chain_joint(chain.transition @ chain.transition, chain.stationary, 6).astype(float)
    exact = (np.indices(steps.shape) == 0).sum(axis=0)[..., None].astype(float)
    assert records.leakage(steps, exact, 1.0, everyone=True) > 1.5  # what exact-laplace took for 1
    assert records.leakage(steps, exact, made.noise.scale, everyone=True) <= 1
    with pytest.raises(NotApplicableError, match="some are missing between those read"):
        pufferdp.release(unobserved, **options, missing="keep", mechanism="exact-laplace")


def test_the_noise_is_hardly_more_than_is_needed() -> None:
    chain = MarkovChain(transition=ACTIVITY, states=["rest", "active"])
    frame = pl.DataFrame({"state": ["rest", "active", None] + ["rest"] * 60})
    made = pufferdp.release(frame, model=chain, column="state", query="histogram", epsilon=1, missing="keep")
    loss = 1 / made.certificate.calibration.sigma
    losses = [0.0] + [loss] * 50
    exact = pufferdp.leakage_of_losses(chain, losses, adversary="bdp").leakage.max()
    assert 0.99 < exact <= 1
    less = pufferdp.leakage_of_losses(chain, [tau / 0.9 for tau in losses], adversary="bdp").leakage.max()
    assert less > 1.05


@pytest.mark.slow
@settings(max_examples=examples(16))
@given(seed=SEEDS, states=st.integers(2, 3), length=st.integers(2, 6))
@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
def test_redactions_with_holes(seed: int, states: int, length: int, adversary: str) -> None:
    generator, length = np.random.default_rng(seed), min(length, {2: 6, 3: 5}[states])
    table = random_transition(generator, states)
    chain = MarkovChain(transition=table, states=[f"s{n}" for n in range(states)])
    assume(chain.irreducible)
    path = draw_path(generator, chain, chain.stationary, length)
    there = sorted(generator.choice(length, size=int(generator.integers(1, length)), replace=False).tolist())
    values = [f"s{x}" if t in there else None for t, x in enumerate(path)]
    private = int(generator.integers(length))
    made = pufferdp.redact(
        pl.DataFrame({"state": pl.Series(values, dtype=pl.String)}),
        model=chain,
        column="state",
        private=[private + 1],
        epsilon=0.5,
        adversary=adversary,
        missing="keep",
    )
    marks = np.array(made.probabilities())
    marks[[t for t in range(length) if t not in there]] = 1.0
    worst = redaction.worst_leakage if adversary == "bdp" else redaction.leakage
    assert worst(table, chain.stationary, marks, private) <= 0.5 + 1e-7
    assert [t for t, x in enumerate(made.data["state"]) if x is None] == [
        t for t in range(length) if t not in there and made.data["state"][t] != "*"
    ]


def test_a_missing_value_beside_what_is_hidden_changes_nothing() -> None:
    chain = MarkovChain(transition=[[0.98, 0.02], [0.02, 0.98]], states=["rest", "active"])
    values: list[str | None] = ["rest"] * 41
    values[18], values[22] = None, None
    options: dict[str, Any] = {"model": chain, "column": "state", "private": [21], "epsilon": 1}
    made = pufferdp.redact(pl.DataFrame({"state": values}), **options, missing="keep")
    whole = pufferdp.redact(pl.DataFrame({"state": ["rest"] * 41}), **options)
    assert made.leakage == pytest.approx(whole.leakage)
    assert np.array_equal(np.array(made.probabilities()), np.array(whole.probabilities()))


@pytest.mark.parametrize("engine", ["polars", "file"])
def test_rows_that_are_not_there_are_missing_values_to_a_redaction(engine: str, tmp_path: Path) -> None:
    chain = MarkovChain(transition=[[0.9, 0.1], [0.2, 0.8]], states=["rest", "active"], step="1h")
    times = pl.datetime_range(datetime(2024, 1, 1), datetime(2024, 1, 4), "1h", eager=True)
    values = pl.Series(["rest" if n % 7 < 4 else "active" for n in range(len(times))])
    gone = [3, 19, 20, 22, 40, 41, 42, 43, 44]
    there = pl.Series([n not in gone for n in range(len(times))])
    # The rows stand in another order than the series, so that neither places nor times number them.
    whole = pl.DataFrame({"t": times, "state": pl.select(pl.when(there).then(values)).to_series()}).reverse()
    less = whole.filter(pl.col("state").is_not_null())
    made = {}
    for name, frame in (("null", whole), ("gone", less)):
        data: Any = frame
        if engine == "file":
            data = tmp_path / f"{name}.csv"
            frame.write_csv(data)
        made[name] = pufferdp.redact(
            data, model=chain, column="state", order="t", missing="keep", epsilon=0.3, adversary="pufferfish",
            private=["2024-01-01T21:00"], sampler=SeededSampler(4),
            **({"out": tmp_path / f"{name}.out.csv"} if engine == "file" else {}),
        )  # fmt: skip
    null, gone_ = made["null"], made["gone"]
    assert (gone_.leakage, gone_.utility) == (null.leakage, null.utility)
    assert [block.marks.tolist() for block in gone_.segments] == [block.marks.tolist() for block in null.segments]
    assert any(0 < mark < 1 for block in null.segments for mark in block.marks.ravel())
    out = {
        name: pl.read_csv(tmp_path / f"{name}.out.csv") if engine == "file" else one.data for name, one in made.items()
    }
    assert out["gone"].equals(out["null"].filter(pl.col("state").is_not_null()))
    assert (out["gone"]["state"] == "*").sum() > 1
    assert [out["gone"]["state"][row - 1] for row in gone_.private] == ["*"]
    listed = [row for block in gone_.blocks for row in range(block.first, block.last + 1)]
    assert max(listed) <= len(less)
    assert pufferdp.verify(gone_.certificate).valid


@pytest.mark.slow
@settings(max_examples=examples(10))
@given(seed=SEEDS, length=st.integers(2, 5))
@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
def test_flips_with_holes(seed: int, length: int, adversary: str) -> None:
    chain, distribution, values, there = random_case(seed, 2, length)
    frame = pl.DataFrame({"state": pl.Series(values, dtype=pl.String)})
    try:
        made = pufferdp.flip(frame, model=chain, column="state", epsilon=1, adversary=adversary, missing="keep")
    except NotApplicableError:  # the chain never forgets, and how long it is need not be public
        assume(False)
    assert made.certificate.channel.length is None
    assert pufferdp.verify(made.certificate.to_dict()).valid
    joint = flips.joint(chain.transition, distribution, np.array(made.certificate.channel.matrix), length)
    hidden = tuple(length + t for t in range(length) if t not in there)
    leaks = flips.table_loss(joint.sum(axis=hidden), length, 2, everyone=adversary == "bdp")
    assert max(leaks.values()) <= 1 + 1e-7


def test_a_flow_counts_single_steps() -> None:
    chain = MarkovChain(transition=ACTIVITY, states=["rest", "active"])
    frame = pl.DataFrame({"state": ["rest", None, "active", "rest", "rest"] * 20})
    made = pufferdp.flow(frame, model=chain, column="state", eta=0.1, tau=0.1, privacy="record", missing="keep")
    assert made.certificate.data.lengths == [[1, 1], [3, 1], [4, 19]]
    assert made.certificate.query.transitions == 2 + 3 * 19
    assert pufferdp.verify(made.certificate.to_dict()).valid


ABSORBING = MarkovChain(transition=[[0.9, 0.1, 0], [0, 0.8, 0.2], [0.3, 0, 0.7]], states=["a", "b", "c"])


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (["a", "c"], "a move from 'a' to 'c' in 1 step,"),
        (["a", None, "c", "b"], "a move from 'c' to 'b' in 1 step,"),
        pytest.param(["a", None, "c"], None, marks=pytest.mark.slow),  # by way of b
        pytest.param(["c", None, "b"], None, marks=pytest.mark.slow),
        (["a", "b", "c", "a"], None),
    ],
)
def test_moves_that_the_model_calls_impossible(values: list[str | None], says: str | None) -> None:
    frame = pl.DataFrame({"state": values})
    verbs = [
        lambda: (
            pufferdp.release(
                frame, model=ABSORBING, column="state", query="histogram", epsilon=1, missing="keep"
            ).certificate
        ),
        lambda: pufferdp.flip(frame, model=ABSORBING, column="state", epsilon=1, missing="keep").certificate,
        lambda: (
            pufferdp.redact(frame, model=ABSORBING, column="state", private=[1], epsilon=1, missing="keep").certificate
        ),
    ]
    for verb in verbs:
        if says is not None:
            with pytest.raises(DataError, match=says):
                verb()
        else:
            assert pufferdp.verify(verb().to_dict()).valid


def test_a_first_record_that_the_model_calls_impossible() -> None:
    chain = MarkovChain(transition=ACTIVITY, states=["rest", "active"], start=[1, 0])
    with pytest.raises(DataError, match="a chain that begins with 'active', and the model calls that impossible"):
        pufferdp.release(
            pl.DataFrame({"state": ["active", "rest"]}), model=chain, column="state", query="histogram", epsilon=1
        )


def test_patterns_of_many_steps_are_those_of_powers() -> None:
    generator = np.random.default_rng(4)
    for _ in range(20):
        table = random_transition(generator, 4)
        chain = MarkovChain(transition=table, start="any")
        for steps in range(1, 9):
            power = chains.power((table > 0).astype(float), steps) > 0
            for x, y in np.ndindex(4, 4):
                assert chain.allows([(x, y, steps)]) == power[x][y]


# What a guarantee believes.


def people(count: int, each: int, **more: list[Any]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "who": [f"p{n}" for n in range(count) for _ in range(each)],
            "when": [t for _ in range(count) for t in range(each)],
            "state": ["rest", "active"] * (count * each // 2),
            **more,
        }
    )


CHAIN = MarkovChain(transition=ACTIVITY, states=["rest", "active"])
ASKED: dict[str, Any] = {"model": CHAIN, "column": "state", "query": "histogram", "epsilon": 1}


def test_beliefs_stand_in_the_guarantee() -> None:
    made = pufferdp.release(people(2, 40), **ASKED, order="when", by="who", restart=8).certificate
    assumptions = [
        "different values of 'who' are independent",
        "what follows a gap of more than 8 in 'when' is independent of what went before",
        "consecutive rows are exactly one model time step apart",
    ]
    assert made.data.assumptions == assumptions
    assert made.guarantee.statement.endswith("".join(f" Assumption: {text}." for text in assumptions))
    with_step = {**ASKED, "model": MarkovChain(transition=ACTIVITY, states=["rest", "active"], step=1)}
    made = pufferdp.release(people(1, 40), **with_step, order="when").certificate
    assert (made.data.step, made.data.assumptions) == (1, [])


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (people(20, 4), "has 20 values on 80 records"),
        (people(2, 40).head(41), "1 of 2 values of 'who' have one record only"),
        (people(1, 80, who=["Bo"] * 40 + ["bo "] * 40), "'Bo' and 'bo ' in 'who' look like one ID"),
        (people(1, 80, who=["even", "odd"] * 40), "the values of 'who' alternate along 'when'"),
    ],
)
def test_people_who_do_not_look_like_people(frame: pl.DataFrame, says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        pufferdp.release(frame, **ASKED, order="when", by="who")
    assert "independent=True" in str(caught.value)
    made = pufferdp.release(frame, **ASKED, order="when", by="who", independent=True)
    assert pufferdp.verify(made.certificate.to_dict()).valid


def test_a_ledger_takes_holes_for_a_longer_series(tmp_path: Any) -> None:
    ledger = pufferdp.Ledger(tmp_path / "books.db", create=True)
    ledger.create("week", model=CHAIN, budget=1.5)
    frame = pl.DataFrame({"state": ["rest", None, "active", "rest"] * 5})
    made = pufferdp.release(frame, **ASKED, missing="keep", ledger=ledger, dataset="week")
    assert made.certificate.ledger is not None
    assert ledger.verify().valid
    assert ledger.dataset("week").leakage == safe_loss(1.0)
    assert math.isfinite(made.certificate.noise.scale)


# What a model calls impossible although each pair of neighbours is possible, and at one time of the day alone.

SECOND_ORDER = HiddenStates.of_order([[[0.5, 0.5], [0.5, 0.5]], [[1, 0], [0.5, 0.5]]], states=["a", "b"])
CYCLE = HiddenMarkov(
    transition=[[0.1, 0.9, 0], [0, 0.1, 0.9], [0.9, 0, 0.1]], emission=[[1, 0], [1, 0], [0, 1]], states=["a", "b"]
)
HOURS = MarkovClock(transitions=[[[0.5, 0.5], [0, 1]], [[0.5, 0.5], [0.5, 0.5]]], step=1, period=2, states=["a", "b"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "values", "says"),
    [
        (SECOND_ORDER, ["b", "a", "b"], "the data has 'b' after 'b', 'a', and with what went before"),
        (SECOND_ORDER, ["b", "a", "a", "b"], None),
        (SECOND_ORDER, ["b", None, "b", "b"], None),
        (SECOND_ORDER, ["b", "a", None, "b"], None),
        (SECOND_ORDER, [None, "b", "a", "b"], "the data has 'b' after 'b', 'a', and with what went before"),
        (CYCLE, ["b", "a", "b"], "the data has 'b' after 'b', 'a', and"),
        (CYCLE, ["b", "a", None, "b"], None),
        (CYCLE, ["b", None, None, "b", "a", "b"], "the data has 'b' after 'b', 'a', and"),
    ],
)
def test_histories_that_the_model_calls_impossible(
    model: HiddenStates | HiddenMarkov, values: list[str | None], says: str | None
) -> None:
    frame = pl.DataFrame({"state": values, "who": ["p"] * len(values)})
    options: dict[str, Any] = {"column": "state", "query": "histogram", "epsilon": 1, "missing": "keep"}
    verbs = [
        lambda: pufferdp.release(frame, model=model, **options),
        lambda: pufferdp.release(frame, model=model, **options, by="who", per="who"),
        lambda: pufferdp.release_fleet(frame, models={"p": model}, by="who", **options),
    ]
    for verb in verbs:
        if says is None:
            assert verb()
        else:
            with pytest.raises(DataError, match=says):
                verb()


def test_whether_a_hidden_series_is_possible_is_what_its_probability_says() -> None:
    generator = np.random.default_rng(20)
    for _ in range(60):
        hidden, values, length = generator.integers(2, 4, size=3)
        emission = np.where(generator.random((hidden, values)) < 0.4, 0.0, 1.0)
        emission[emission.sum(axis=1) == 0] = 1
        model = HiddenMarkov(
            transition=random_transition(generator, int(hidden)), emission=emission / emission.sum(axis=1)[:, None]
        )
        gaps = generator.integers(1, 4, size=length + 1)
        gaps[0] -= 1
        impossible = False
        for path in itertools.product(range(values), repeat=length + 1):
            now = model.start_distribution
            for record, apart in zip(path, gaps, strict=True):
                now = (now @ np.linalg.matrix_power(model.transition, int(apart))) * model.emission[:, record]
            impossible |= not now.any()
            assert (model.ways.first_impossible(np.array(path), gaps) is None) == bool(now.any())
        assert model.rules_out or not impossible


@pytest.mark.parametrize(("first", "says"), [(0, "a move from 'b' to 'a' in 1 step at step 1 of 2"), (1, None)])
def test_a_fleet_of_clocks_looks_at_the_time_of_a_move(first: int, says: str | None) -> None:
    frame = pl.DataFrame({"when": [first, first + 1], "state": ["b", "a"], "who": ["p", "p"]})
    options: dict[str, Any] = {"column": "state", "query": "histogram", "epsilon": 1, "order": "when", "by": "who"}
    for verb in (
        lambda: pufferdp.release_fleet(frame, models={"p": HOURS}, **options),
        lambda: pufferdp.release(frame, model=HOURS, **options),
    ):
        if says is None:
            assert verb()
        else:
            with pytest.raises(DataError, match=says):
                verb()


def test_a_fleet_refuses_what_does_not_look_like_people() -> None:
    options = {**ASKED, "order": "when", "by": "who"}
    del options["model"]
    frame = people(1, 80, who=["even", "odd"] * 40)
    models = {"even": CHAIN, "odd": CHAIN}
    with pytest.raises(DataError, match="the values of 'who' alternate along 'when'"):
        pufferdp.release_fleet(frame, models=models, **options)
    assert pufferdp.release_fleet(frame, models=models, **options, independent=True).releases


def test_hours_of_the_day_are_no_people() -> None:
    # Twelve records each time, and every day again.
    frame = people(1, 1440, who=[f"hour {t // 12 % 24}" for t in range(1440)])
    with pytest.raises(DataError, match="the values of 'who' alternate along 'when'"):
        pufferdp.release(frame, **ASKED, order="when", by="who")
    in_turn = people(1, 1440, who=[f"person {t // 60}" for t in range(1440)])
    assert pufferdp.release(in_turn, **ASKED, order="when", by="who")


def test_numbers_of_people_who_do_not_look_like_people() -> None:
    frame = pl.DataFrame({"when": range(80), "who": ["even", "odd"] * 40, "rate": [70.0, 71.0] * 40})
    options: dict[str, Any] = {"model": Ar1(coefficient=0.9, sd=1.0, mean=70.0), "column": "rate", "clip": (60, 80)}
    with pytest.raises(DataError, match="the values of 'who' alternate along 'when'"):
        pufferdp.release(frame, **options, query="sum", epsilon=1, order="when", by="who")


def test_a_gap_that_every_record_lies_behind() -> None:
    stepped = MarkovChain(transition=ACTIVITY, states=["rest", "active"], step=5)
    frame = pl.DataFrame({"when": range(0, 400, 5), "state": ["rest", "active"] * 40})
    options: dict[str, Any] = {"column": "state", "order": "when", "epsilon": 1}
    for verb in (
        lambda model, **more: pufferdp.release(frame, model=model, query="histogram", **options, **more),
        lambda model, **more: pufferdp.flip(frame, model=model, **options, **more),
        lambda model, **more: pufferdp.redact(frame, model=model, private=[3], **options, **more),
    ):
        with pytest.raises(ParameterError, match=r"restart is 1 and the model's step is 5.0; every record comes more"):
            verb(stepped, restart=1)
        with pytest.raises(DataError, match="restart is 1 and cuts 80 records into 80 chains"):
            verb(CHAIN, restart=1)
        assert verb(CHAIN, restart=1, independent=True)
        assert verb(CHAIN, restart=5)


def test_a_clock_of_whole_numbers_can_be_verified() -> None:
    frame = pl.DataFrame({"when": range(6), "state": ["a", "b", "b", "b", "a", "a"]})
    clock = MarkovClock(transitions=[ACTIVITY, ACTIVITY[::-1]], step=1, period=2, states=["a", "b"])
    made = pufferdp.release(frame, model=clock, column="state", order="when", query="count:a", epsilon=1)
    assert pufferdp.verify(made.certificate.to_dict()).problems == ()


@pytest.mark.slow
@settings(max_examples=examples(16))
@given(seed=SEEDS, states=st.integers(2, 3), length=st.integers(1, 4), slots=st.integers(2, 3))
@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
def test_clocks_with_holes(seed: int, states: int, length: int, slots: int, adversary: str) -> None:
    """By the curve: a noisy count of two states that repel each other leaks less than the worst algorithm."""
    generator = np.random.default_rng(seed)
    tables = [random_transition(generator, states) for _ in range(slots)]
    clock = MarkovClock(transitions=tables, step=1, period=slots, states=[f"s{n}" for n in range(states)])
    phase = int(generator.integers(slots))
    path = [int(generator.choice(states, p=clock.distributions[phase]))]
    while len(path) < length:
        path.append(int(generator.choice(states, p=clock.tables[(phase + len(path) - 1) % slots][path[-1]])))
    # A series begins with its first row and ends with its last: unobserved steps lie between them.
    some = generator.choice(length, size=int(generator.integers(1, length + 1)), replace=False)
    there = sorted({0, length - 1, *some.tolist()})
    frame = pl.DataFrame({"when": [phase + t - 2 * slots for t in there], "state": [f"s{path[t]}" for t in there]})
    made = pufferdp.release(
        frame,
        model=clock,
        column="state",
        order="when",
        query="histogram",
        epsilon=1,
        adversary=adversary,
        mechanism="curve-tight",
        missing="keep",
    ).certificate
    losses = [1 / made.calibration.sigma if t in there else 0.0 for t in range(length)]
    kernels = [clock.tables[(phase + t) % slots] for t in range(max(1, length - 1))]
    for target in range(length):
        assert algorithms.chain_leakage(kernels, clock.distributions[phase], losses, target, adversary) <= 1 + 1e-7
