"""Publications from a segment of a series: what they certify and charge, and that the guarantee holds for all of it."""

from __future__ import annotations

import copy
import io
import itertools
import json
import math
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferdp
from pufferdp import Ledger, MarkovChain, flip, flow, release, verify
from pufferdp.basics.checks import MOST_RECORDS
from pufferdp.basics.errors import DataError, NotApplicableError, ParameterError, RefusedError
from pufferdp.bounds.curves import curve
from pufferdp.bounds.orbits import Privacy, our_noise
from pufferdp.data.ranges import EVERYTHING, Range, Ranges
from pufferdp.ledger.charge import Charge
from pufferdp.ledger.flow_budget import FlowBudget
from pufferdp.publish.answers.fleet import release_fleet
from pufferdp.publish.certificate import GOES_ON, content_hash
from pufferdp.publish.fits.publication import fit
from pufferdp.publish.flips.estimate import posterior_of_flips
from pufferdp.publish.flips.plan import design_flips
from pufferdp.publish.flips.publication import flip_stream
from pufferdp.publish.noise import SeededSampler
from pufferdp.publish.redaction.publication import redact
from tests.oracles.flips import joint, table_loss
from tests.oracles.flows import w1
from tests.strategies import SEEDS, chains, examples, random_distribution, random_transition
from tests.tolerance import SEARCHED

CHAIN = MarkovChain(transition=[[0.8, 0.2], [0.35, 0.65]], states=["rest", "active"])
DAY = {"first": "2024-05-02", "last": "2024-05-02"}
USUAL: dict[str, Any] = {"model": CHAIN, "column": "state", "order": "time"}


def week(people: int = 1) -> pl.DataFrame:
    """A value an hour for a week, the first and the last day of it no states at all."""
    generator = np.random.default_rng(3)
    time = np.tile(np.datetime64("2024-05-01") + np.arange(7 * 24).astype("timedelta64[h]"), people)
    state = generator.choice(["rest", "active"], len(time)).astype(object)
    state[(time < np.datetime64("2024-05-02")) | (time >= np.datetime64("2024-05-07"))] = "broken"
    who = np.repeat([f"p{n}" for n in range(people)], 7 * 24)
    return pl.DataFrame({"who": who, "time": time.astype("datetime64[us]"), "state": state.tolist()})


def forged(certificate: dict[str, Any], change: Any) -> list[str]:
    """The problems of a certificate that was changed and hashed anew."""
    content = copy.deepcopy(certificate)
    change(content)
    content["sha256"] = content_hash(content)
    return list(verify(content).problems)


def charges(ledger: Ledger, dataset: str) -> list[Charge]:
    """What a ledger keeps, read back."""
    query = "SELECT content FROM ledger_entries JOIN ledger_problems ON problem = sha256 WHERE dataset = ?"
    with ledger.store.reading() as session:
        contents = [row[0] for row in session.rows(f"{query} ORDER BY position", dataset)]
    return [Charge.from_content(text, "model", "bdp") for text in contents]


# ---- answers ----


@pytest.mark.parametrize("query", ["histogram", "count:rest", "frequency"])
@pytest.mark.parametrize("adversary", ["bdp", "pufferfish", "dp"])
def test_a_day_is_released_from_the_whole_file(query: str, adversary: str) -> None:
    made = release(week(), query=query, epsilon=1, adversary=adversary, **USUAL, **DAY).certificate.to_dict()
    assert verify(made).valid, verify(made).problems
    assert made["data"]["records"] == 24
    assert made["data"]["part"] is True
    assert made["data"]["ranges"] == {
        "order": "time",
        "unit": "time",
        "by": None,
        "parts": [{"from": "2024-05-02T00:00:00", "to": "2024-05-02T23:00:00", "by": None}],
    }
    assert GOES_ON in made["guarantee"]["statement"]
    assert "which segment of the series was read" in made["public"]
    with pytest.raises(DataError, match="'broken' at time 2024-05-01 00:00:00 is not a state"):
        release(week(), query=query, epsilon=1, adversary=adversary, **USUAL)


def test_the_noise_is_that_of_an_endless_series() -> None:
    made = release(week(), query="histogram", epsilon=1, **USUAL, **DAY).certificate
    loss = curve("tight", CHAIN, MOST_RECORDS).inverse(1.0)
    # The closed form of two states is the tight bound, which is known to a tolerance.
    assert made.mechanism.name in ("curve-odds", "curve-tight")
    assert made.calibration.sigma == pytest.approx(1 / loss, rel=SEARCHED)
    whole = release(week().filter(pl.col("time").dt.day() == 2), query="histogram", epsilon=1, **USUAL).certificate
    assert whole.calibration.sigma < made.calibration.sigma
    assert whole.data.part is None
    assert whole.data.ranges is not None  # what was read is said of every ordered series
    assert GOES_ON not in whole.guarantee.statement


def test_forged_certificates_are_found() -> None:
    made = release(week(2), query="histogram", epsilon=1, by="who", **USUAL, **DAY).certificate.to_dict()

    def parts(content: dict[str, Any]) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = content["data"]["ranges"]["parts"]
        return listed

    def without_part(content: dict[str, Any]) -> None:
        del content["data"]["part"]

    def set_part(**values: Any) -> Any:
        return lambda content: parts(content)[0].update(values)

    assert any("guarantee.statement" in problem for problem in forged(made, without_part))
    assert parts(made) == [{"from": "2024-05-02T00:00:00", "to": "2024-05-02T23:00:00", "by": ["p0", "p1"]}]
    wrong = {
        "the first must come first": set_part(**{"from": "2024-05-03T00:00:00"}),
        "not written as a release writes it": set_part(**{"from": "2024-05-02"}),
        "a range without ends": set_part(to=None),
        "different names, sorted": set_part(by=["p1", "p0"]),
        "names 3 people; data.lengths has 2 chains": set_part(by=["p0", "p1", "p2"]),
        "does not say whose": set_part(by=None),
        "about other columns": lambda content: content["data"]["ranges"].update(order="when"),
        "unit is 'days'": lambda content: content["data"]["ranges"].update(unit="days"),
        "there is no range": lambda content: content["data"]["ranges"].update(parts=[]),
        "names a person twice": lambda content: parts(content).append(copy.deepcopy(parts(content)[0])),
    }
    for words, change in wrong.items():
        assert any(words in problem for problem in forged(made, change)), words
    # Nobody can tell which day it was.
    assert not forged(made, set_part(**{"from": "2024-05-02T01:00:00"}))
    assert any("data.ranges is missing" in text for text in forged(made, lambda content: content["data"].pop("ranges")))


def test_a_charge_says_which_records_were_read(tmp_path: Path) -> None:
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", budget=5.0, model=CHAIN)
        made = release(
            week(2), query="histogram", epsilon=1, by="who", ledger=ledger, dataset="week", **USUAL, **DAY
        ).certificate.to_dict()
        (charge,) = charges(ledger, "week")
        assert charge.ranges == Ranges.from_dict(made["data"]["ranges"])
        assert [part.people for part in charge.ranges.parts] == [("p0", "p1")]
        assert charge.longest == MOST_RECORDS
        assert charge.facts["part"] is True
        assert ledger.verify().valid, ledger.verify().problems
    assert verify(made, head=made["ledger"]["head"]).valid
    moved = forged(made, lambda content: content["data"]["ranges"]["parts"][0].update({"from": "2024-05-02T01:00:00"}))
    assert len(moved) == 1
    assert "it is not the hash of a row that charges this release" in moved[0]


def test_a_charge_of_everything_is_what_it_always_was() -> None:
    charge = Charge(kind="dp", dp_loss=1.0, longest=3)
    assert charge.ranges == EVERYTHING
    assert "ranges" not in json.loads(charge.content)
    some = Charge(kind="dp", dp_loss=1.0, longest=3, ranges=Ranges(order="n", parts=(Range(first=1, last=2),)))
    assert Charge.from_content(some.content, None, None) == some
    assert some.problem != charge.problem


def test_fleets_charge_each_person_with_their_own_segment(tmp_path: Path) -> None:
    rows = week(3).filter((pl.col("who") != "p1") | (pl.col("time").dt.hour() >= 6))
    models = {f"p{n}": CHAIN for n in range(4)}
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        for person in models:
            ledger.create(f"all/{person}", budget=3.0, model=CHAIN)
        made = release_fleet(
            rows,
            models=models,
            column="state",
            by="who",
            order="time",
            query="histogram",
            epsilon=1,
            ledger=ledger,
            dataset="all",
            first="2024-05-02",
            last="2024-05-03",
        )
        assert made.absent == ("p3",)
        for person, release_of in made.releases.items():
            (charge,) = charges(ledger, f"all/{person}")
            assert [part.people for part in charge.ranges.parts] == [(person,)]
            assert verify(release_of.certificate).valid, verify(release_of.certificate).problems
            assert release_of.certificate.data.part is True
        first = charges(ledger, "all/p1")[0].ranges.to_dict()["parts"][0]["from"]
        assert first == "2024-05-02T06:00:00"
        assert ledger.verify().valid, ledger.verify().problems


def test_a_short_part_of_a_fleet_falls_back_to_group_privacy() -> None:
    rows = pl.DataFrame({"who": ["a", "a", "a"], "n": [1, 2, 3], "state": ["rest", "active", "rest"]})
    options: dict[str, Any] = {"query": "histogram", "epsilon": 1, "column": "state", "order": "n", "by": "who"}
    fleet = release_fleet(rows, models={"a": CHAIN}, first=1, last=2, **options)
    assert fleet.releases["a"].certificate.calibration.sigma == pytest.approx(2.0)


def test_a_start_that_is_given_has_no_posterior_in_a_part() -> None:
    started = MarkovChain(transition=CHAIN.transition, states=CHAIN.labels, start=[1.0, 0.0])
    made = release(week(), query="count:rest", epsilon=1, **{**USUAL, "model": started}, **DAY)
    assert made.model_estimate is None
    assert verify(made.certificate).valid
    flipped = flip(week(), epsilon=2, **{**USUAL, "model": started}, **DAY)
    assert verify(flipped.certificate).valid
    with pytest.raises(NotApplicableError, match="for the first record of the series, and this is a later part"):
        posterior_of_flips(pl.DataFrame({"time": week()["time"][:24], "state": flipped.values}), flipped.certificate)


def test_models_that_are_no_series_take_no_segment() -> None:
    table = pufferdp.JointTable(values=[0, 1], outcomes=[[0, 1], [1, 1]], probabilities=[0.5, 0.5])
    with pytest.raises(ParameterError, match="order is 't'; it is for series, and this model names its records"):
        release(
            pl.DataFrame({"x": ["0", "1"]}), model=table, column="x", query="count:1", epsilon=1, first=3, order="t"
        )


# ---- flips, flows, fits, redactions ----


@pytest.mark.slow
@settings(max_examples=examples(20), deadline=None)
@given(
    chain=chains(most_states=2, starts=("stationary", "given")),
    epsilon=st.sampled_from([0.5, 2.0]),
    length=st.integers(1, 3),
)
def test_no_flipped_part_leaks_more_than_guaranteed(chain: MarkovChain, epsilon: float, length: int) -> None:
    if chain.size < 2:
        return
    n, distribution = 5, chain.stationary if chain.given_start is None else chain.given_start
    try:
        design = design_flips(chain, epsilon, length=None)
    except NotApplicableError:  # chains that never forget, or have nothing to hide
        return
    table = joint(chain.transition, distribution, design.channel, n)
    for first in range(n - length + 1):
        outside = tuple(n + t for t in range(n) if not first <= t < first + length)
        losses = table_loss(table.sum(axis=outside), n, 2)
        assert max(losses.values()) <= epsilon * (1 + 1e-9)


def test_a_flipped_day(tmp_path: Path) -> None:
    week(2).write_csv(tmp_path / "week.csv")
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", budget=50.0, model=CHAIN)
        options: dict[str, Any] = {"epsilon": 2, "by": "who", **USUAL, **DAY}
        made = flip(
            tmp_path / "week.csv", out=tmp_path / "out.csv", ledger=ledger, dataset="week", **options
        ).certificate.to_dict()
        (charge,) = charges(ledger, "week")
        assert ledger.verify().valid, ledger.verify().problems
    out = pl.read_csv(tmp_path / "out.csv", try_parse_dates=True)
    assert out.columns == ["who", "time", "state"]
    assert set(out["time"].dt.date()) == {date(2024, 5, 2)}
    assert len(out) == 48
    assert verify(made, head=made["ledger"]["head"]).valid
    assert (made["channel"]["length"], made["data"]["part"], made["data"]["records"]) == (None, True, 48)
    assert charge.ranges == Ranges.from_dict(made["data"]["ranges"])
    assert charge.longest == MOST_RECORDS
    assert GOES_ON in made["guarantee"]["statement"]

    def shortened(content: dict[str, Any]) -> None:
        content["channel"]["length"] = 24

    assert any("goes on before and after what was read" in problem for problem in forged(made, shortened))
    assert len(flip(week(2), **options).values) == 48


def test_a_stream_is_charged_for_the_segment_that_is_asked_for(tmp_path: Path) -> None:
    source, sink = io.BytesIO(week().write_csv(None).encode()), io.BytesIO()
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", budget=50.0, model=CHAIN)
        made = flip_stream(
            source, sink, epsilon=2, ledger=ledger, dataset="week", sampler=SeededSampler(1), **USUAL, **DAY
        ).certificate.to_dict()
        (charge,) = charges(ledger, "week")
    assert len(sink.getvalue().splitlines()) == 25
    assert verify(made, head=made["ledger"]["head"]).valid, verify(made).problems
    assert made["data"]["ranges"]["parts"] == [
        {"from": "2024-05-02T00:00:00", "to": "2024-05-02T23:59:59.999999999", "by": None}
    ]
    assert charge.ranges == Ranges.from_dict(made["data"]["ranges"])


@settings(max_examples=examples(15), deadline=None)
@given(seed=SEEDS)
def test_a_flow_of_a_part_moves_no_further_than_its_noise_is_for(seed: int) -> None:
    """Given a record, another value of the next one: by linear programmes over all couplings, wherever the two lie."""
    generator = np.random.default_rng(seed)
    P = np.clip(random_transition(generator, 2), 0.02, 0.98)
    P = P / P.sum(axis=1, keepdims=True)
    distribution, n, first, last = random_distribution(generator, 2), 7, 2, 5
    noise = our_noise(P, last - first, eta=0.0, tau=0.1, privacy=Privacy.RECORD, centre_only=True)
    for r, x in itertools.product(range(n - 1), range(2)):
        distributions = [part_flow_distribution(P, distribution, n, first, last, {r: x, r + 1: v}) for v in range(2)]
        if all(distributions):
            assert w1(*distributions) <= noise.record * (1 + 1e-9)


def part_flow_distribution(
    P: Any, distribution: Any, n: int, first: int, last: int, given: dict[int, int]
) -> dict[tuple[int, ...], float]:
    """The distribution of the transitions from record ``first`` to ``last`` (from 0), given some records of n."""
    out: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(len(distribution)), repeat=n):
        if any(path[t] != v for t, v in given.items()):
            continue
        chance = distribution[path[0]] * math.prod(P[a][b] for a, b in itertools.pairwise(path))
        if chance > 0:
            moves = [0] * len(distribution) ** 2
            for a, b in itertools.pairwise(path[first : last + 1]):
                moves[a * len(distribution) + b] += 1
            out[tuple(moves)] = out.get(tuple(moves), 0.0) + chance
    total = math.fsum(out.values())
    return {key: chance / total for key, chance in out.items()}


def test_flows_of_other_days_are_flows_of_other_records(tmp_path: Path) -> None:
    guarantee: dict[str, Any] = {"eta": 0.01, "tau": 0.1}
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", model=CHAIN, budget=FlowBudget(tau=0.5, eta=0.01))
        options: dict[str, Any] = {"ledger": ledger, "dataset": "week", **guarantee, **USUAL}
        made = flow(week(), **options, **DAY).certificate.to_dict()
        assert verify(made, head=made["ledger"]["head"]).valid, verify(made).problems
        assert made["data"]["part"] is True
        assert made["data"]["ranges"]["parts"][0]["from"] == "2024-05-02T00:00:00"
        flow(week(), **options, **DAY)
        with pytest.raises(RefusedError, match="the flow covers other chains than"):
            flow(week(), first="2024-05-03", last="2024-05-03", **options)
        assert [charge.ranges for charge in charges(ledger, "week")] == [Ranges.from_dict(made["data"]["ranges"])] * 2
        assert ledger.verify().valid, ledger.verify().problems


def test_a_private_fit_of_a_segment(tmp_path: Path) -> None:
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", budget=50.0, model=USUAL["model"])
        options: dict[str, Any] = {"column": "state", "order": "time", "states": ["rest", "active"], **DAY}
        fit(week(), dp_epsilon=1.0, ledger=ledger, dataset="week", **options)
        (charge,) = charges(ledger, "week")
        assert (charge.dp_loss, charge.longest) == (1.0, MOST_RECORDS)
        assert charge.ranges.to_dict()["parts"][0]["to"] == "2024-05-02T23:00:00"
        assert ledger.verify().valid, ledger.verify().problems
    found = fit(week(), column="state", order="time", first="2024-05-02", last="2024-05-06")
    assert found.model.labels == ("active", "rest")
    assert found.model.fitted is not None
    assert found.model.fitted["records"] == 5 * 24


def test_a_redaction_is_of_a_whole_series(tmp_path: Path) -> None:
    with pytest.raises(NotApplicableError, match=r"not of a segment from 2024-05-02 to .*keep the rows of the"):
        redact(week(), private=[30], epsilon=1, **USUAL, **DAY)
