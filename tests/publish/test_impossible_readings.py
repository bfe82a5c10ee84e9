"""Forged certificates whose records, pieces, gaps, steps and ranges are not possible together.

Each certificate is released honestly from many short independent pieces, which need little noise. Then its reading is
changed so that the same noise seems to belong to one series of a week, and the hash is made anew.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

import polars as pl
import pytest

import pufferdp
from pufferdp.models.chain import MarkovChain, series_of
from pufferdp.models.files.json import model_digest, model_from_dict
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.reading import assumptions
from tests.publish.measurements.test_measurements import counts

ROWS: Final = 2016
STATES: Final = ["rest", "active"] * (ROWS // 2)
MONDAY: Final = datetime(2024, 1, 1)
TIMES: Final = [MONDAY + timedelta(minutes=5 * n) for n in range(ROWS)]
CHAIN: Final = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["rest", "active"])
STEPPED: Final = MarkovChain(transition=CHAIN.transition, states=CHAIN.states, step="5min")
PEOPLE: Final = pl.DataFrame({"who": [f"p{n:04}" for n in range(ROWS)], "t": TIMES, "s": STATES})
PAIRS: Final = PEOPLE.with_columns(who=pl.Series([f"p{n // 2:04}" for n in range(ROWS)]))
WEEK: Final = {"from": "2024-01-01T00:00:00", "to": "2024-01-07T23:55:00", "by": None}
HOUR: Final = {**WEEK, "to": "2024-01-01T00:55:00"}
READ: Final[dict[str, Any]] = {"model": CHAIN, "column": "s", "order": "t"}
CUT: Final[dict[str, Any]] = {**READ, "by": "who", "independent": True}

KINDS: Final[dict[str, Callable[..., Any]]] = {
    "answer": lambda data, **more: pufferdp.release(data, query="histogram", epsilon=1, **more),
    "table": lambda data, **more: pufferdp.release(data, query=["histogram"], epsilon=1, **more),
    "measurement": lambda data, **more: pufferdp.release(data, measurement=counts(20.0), epsilon=3, **more),
    "flip": lambda data, **more: pufferdp.flip(data, epsilon=1, **more),
    "redaction": lambda data, **more: pufferdp.redact(data, private=[10], epsilon=1, **more),
    "flow": lambda data, **more: pufferdp.flow(data, eta=0.05, tau=0.1, **more),
}


@cache
def released(kind: str, whole: bool = False) -> dict[str, Any]:
    """The certificate of many people, or of one series at the model's step."""
    people = PAIRS if kind == "flow" else PEOPLE
    made = KINDS[kind](PEOPLE, **{**READ, "model": STEPPED}) if whole else KINDS[kind](people, **CUT)
    content: dict[str, Any] = made.certificate.to_dict()
    assert pufferdp.verify(content).valid
    return content


def forged(content: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy with another reading, whose assumptions, statement and hash go with it; None takes ``ranges`` away."""
    out = copy.deepcopy(content)
    data, before = out["data"], content["data"]["assumptions"]
    data |= {key: value for key, value in changes.items() if key != "ranges"}
    ranges = changes.get("ranges", data.get("ranges"))
    data.pop("ranges", None)
    data |= {} if ranges is None else {"ranges": ranges}
    data |= {"assumptions": []}
    data["assumptions"] = assumptions(data, series_of(model_from_dict(out["model"])))
    sentences = ["".join(f" Assumption: {text}." for text in listed) for listed in (before, data["assumptions"])]
    told = sentences[0] if before else ""
    statement = out["guarantee"]["statement"].removesuffix(told)
    out["guarantee"]["statement"] = statement + (sentences[-1] if data["assumptions"] else "")
    out["sha256"] = content_hash(out)
    return out


def week(part: dict[str, Any] = WEEK) -> dict[str, Any]:
    return {"order": "t", "unit": "time", "by": None, "parts": [part]}


def without_independence(content: dict[str, Any]) -> dict[str, Any]:
    """The certificate without the assumption, as if nobody had made it."""
    out = copy.deepcopy(content)
    out["data"].pop("independent", None)
    return out


def problems(content: dict[str, Any]) -> str:
    found = pufferdp.verify(content)
    assert not found.valid
    return " | ".join(found.problems)


@pytest.mark.parametrize("kind", KINDS)
def test_more_gaps_than_a_week_has(kind: str) -> None:
    content = without_independence(released(kind))
    chains = content["data"]["lengths"][0][1]
    told = problems(forged(content, by=None, gap="8h", ranges=week()))
    assert f"data.lengths has {chains} chains with more than 8h (data.gap) between them; data.ranges spans" in told
    assert "in which at most 21 fit" in told
    crumbs = f"data.gap is 8h and cuts 2016 records into {chains} chains: that these are independent"
    assert (crumbs in told) == (kind != "flow")  # of a flow each chain has two records


@pytest.mark.parametrize("kind", KINDS)
def test_gaps_do_not_fit_even_where_independence_is_assumed(kind: str) -> None:
    told = problems(forged(released(kind), by=None, gap="8h", ranges=week()))
    assert "at most 21 fit" in told
    assert "data.independent must state it" not in told


@pytest.mark.parametrize("kind", KINDS)
def test_people_without_their_ranges(kind: str) -> None:
    told = problems(forged(released(kind), ranges=None))
    assert "data.ranges is missing; data.by is 'who', and so the ranges must be stated" in told


@pytest.mark.parametrize("kind", KINDS)
def test_many_people_without_the_assumption_that_they_are_independent(kind: str) -> None:
    content = without_independence(released(kind))
    chains = content["data"]["lengths"][0][1]
    told = problems(forged(content))
    assert f"data.by is 'who' and cuts 2016 records into {chains} people: that these are independent" in told


@pytest.mark.parametrize("kind", KINDS)
def test_the_assumption_is_a_part_of_the_guarantee(kind: str) -> None:
    content = released(kind)
    assert content["data"]["independent"] is True
    assert "of these pieces are independent, however short they are" in content["guarantee"]["statement"]


@pytest.mark.parametrize("kind", KINDS)
def test_records_that_do_not_fit_into_an_hour(kind: str) -> None:
    told = problems(forged(released(kind, whole=True), ranges=week(HOUR)))
    assert "data.records is 2016 with data.unobserved 0 in 1 chains: at data.step 5min that takes 10075min" in told
    assert "and data.ranges spans 55min" in told


@pytest.mark.parametrize("kind", KINDS)
def test_ten_records_in_a_week_without_a_missing_one(kind: str) -> None:
    told = problems(forged(released(kind, whole=True), records=10, lengths=[[10, 1]], **rows(kind, 10)))
    assert "data.unobserved is 0; data.ranges has 2016 steps of 5min (data.step), and data.records is 10" in told
    assert "so 2006 must be missing" in told


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stepped", [True, False])
def test_a_million_million_records_in_a_week(kind: str, stepped: bool) -> None:
    count, part = 10**12, {} if stepped else {"by": None, "ranges": week()}
    content = without_independence(released(kind, whole=stepped))
    if kind == "flip":  # whose channel is for any length, as that of a stream
        content["channel"]["length"] = None
    told = problems(forged(content, records=count, lengths=[[count, 1]], **part, **rows(kind, count)))
    assert "data.records is 1000000000000" in told


def rows(kind: str, count: int) -> dict[str, Any]:
    """What a redaction says of its positions as well."""
    return {"rows": count, "chains": [[1, count]]} if kind == "redaction" else {}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"step": None}, "data.step is None; the model's step and data.order require '5min'"),
        ({"step": "1min"}, "data.step is '1min'"),
        ({"gap": 3.0}, "data.gap is 3.0, and data.ranges has the unit 'time'"),
        ({"independent": True}, "neither data.by nor data.gap cuts the series"),
        ({"lengths": [[1008, 1], [1008, 1]]}, "with the lengths rising"),
        ({"lengths": [[-1008, 1], [3024, 1]]}, "both 1 or more"),
        ({"ranges": week({**WEEK, "to": None})}, "a range without ends"),
        ({"ranges": {**week(), "unit": "number"}}, "is not a number"),
        ({"ranges": week({**WEEK, "to": WEEK["from"]})}, "data.ranges spans 0d"),
        ({"ranges": {**week(), "parts": [WEEK, WEEK]}}, "has 2 ranges and names nobody"),
        ({"part": True, "order": None, "ranges": None, "step": None}, "data.part is true, and data.order is null"),
    ],
)
def test_fields_that_do_not_go_together(changes: dict[str, Any], words: str) -> None:
    assert words in problems(forged(released("answer", whole=True), **changes))


def test_a_fit_of_more_chains_than_records() -> None:
    content = copy.deepcopy(released("answer", whole=True))
    model = {**content["model"], "fitted": {"column": "s", "records": 5, "chains": 7, "left_out": []}}
    content |= {"model": model, "model_sha256": model_digest(model_from_dict(model))}
    assert "model.fitted.chains is 7; it must be from 1 to model.fitted.records, which is 5" in problems(
        {**content, "sha256": content_hash(content)}
    )


def gappy(values: bool = False, tenths: bool = False) -> pl.DataFrame:
    """Two people with missing rows and a gap of ten hours; with missing values at the end, or in decimal numbers."""
    frame = pl.DataFrame({"t": TIMES[:600], "s": STATES[:600]}).with_row_index("n")
    frame = frame.filter(~pl.col("n").is_in([5, 6, 300]) & ~pl.col("n").is_between(400, 520))
    frame = frame.with_columns(s=pl.when(pl.col("n") > 590).then(None).otherwise(pl.col("s"))) if values else frame
    frame = frame.with_columns(t=pl.col("n") * 0.1) if tenths else frame
    return pl.concat([frame.with_columns(who=pl.lit(name)) for name in ("ann", "bob")])


@pytest.mark.parametrize(
    ("frame", "step", "restart"),
    [
        ({}, "5min", "8h"),
        ({}, "5min", None),
        ({}, None, "10min"),
        ({"values": True}, "5min", "8h"),
        ({"values": True}, "5min", None),
        ({"values": True}, None, None),
        ({"tenths": True}, 0.1, 0.5),
    ],
)
@pytest.mark.parametrize("kind", ["answer", "flip", "flow", "redaction"])
def test_what_is_possible_is_not_rejected(kind: str, frame: dict[str, bool], step: Any, restart: Any) -> None:
    model = MarkovChain(transition=CHAIN.transition, states=CHAIN.states, step=step)
    options: dict[str, Any] = {**READ, "model": model, "by": "who", "missing": "keep", "restart": restart}
    found = pufferdp.verify(KINDS[kind](gappy(**frame), **options).certificate.to_dict())
    assert found.valid, found.problems
