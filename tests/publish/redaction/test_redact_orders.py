"""Redactions of series that are not in row order: sorted, told apart by person, with gaps and missing values."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferdp
from pufferdp.basics.errors import DataError, ParameterError
from pufferdp.bounds.redaction.design import RedactionProblem
from pufferdp.data.layout import Layout
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.noise import SeededSampler
from pufferdp.publish.redaction.kind import redaction_mechanism
from pufferdp.publish.redaction.tilt import tilted_from_file
from tests.strategies import examples

CHAIN = MarkovChain(transition=[[0.8, 0.2], [0.5, 0.5]], states=("rest", "active"))
USUAL: dict[str, Any] = {"model": CHAIN, "column": "activity", "epsilon": 0.8}
READ: dict[str, Any] = {"order": "time", "by": "who", "restart": 2, "missing": "keep"}


def table(generator: np.random.Generator, records: int) -> pd.DataFrame:
    """People with gaps and missing values, their rows mixed."""
    rows = []
    for who in ("ann", "bob", "cid"):
        times = np.cumsum(generator.choice([1, 2, 3], size=records, p=[0.7, 0.2, 0.1]))
        rows += [(who, int(t), CHAIN.labels[int(generator.random() < 0.3)]) for t in times]
    frame = pd.DataFrame(rows, columns=["who", "time", "activity"])
    frame.loc[generator.random(len(frame)) < 0.05, "activity"] = None
    return frame.sample(frac=1, random_state=int(generator.integers(2**31))).reset_index(drop=True)


def chains_of(frame: pd.DataFrame) -> list[list[int]]:
    """The rows of each chain, counted from 1, in the order of time: the plain way."""
    out: list[list[int]] = []
    for _, part in frame.groupby("who"):
        before = None
        for row, time in part.sort_values("time")[["time"]].itertuples():
            if before is None or time - before > READ["restart"]:
                out.append([])
            out[-1].append(row + 1)
            before = time
    return out


@pytest.mark.slow
@settings(max_examples=examples(12))
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(["file", "parquet", "pandas", "polars"]))
def test_rows_are_found_by_their_number_whatever_the_order(seed: int, kind: str, tmp_path_factory: Any) -> None:
    generator = np.random.default_rng(seed)
    frame = table(generator, 25)
    chains = chains_of(frame)
    there = {row for chain in chains for row in chain if isinstance(frame["activity"][row - 1], str)}
    private = sorted(int(row) for row in generator.choice(sorted(there), size=3, replace=False))
    expected: set[int] = set()
    for chain in chains:
        inside = tuple(n for n, row in enumerate(chain, start=1) if row in private)
        if inside:
            hiding = RedactionProblem(chain=CHAIN, length=len(chain), private=inside, epsilon=0.8)
            marks = np.array(redaction_mechanism("window").design(hiding).probabilities())
            expected |= {row for row, mark in zip(chain, marks, strict=True) if mark[0] == 1 and row in there}
    folder: Path = tmp_path_factory.mktemp("rows")
    how = {**USUAL, **READ, "private": private, "method": "window"}
    if kind in ("file", "parquet"):
        ending = ".csv" if kind == "file" else ".parquet"
        data, out = folder / f"d{ending}", folder / f"o{ending}"
        frame.to_csv(data, index=False) if kind == "file" else frame.to_parquet(data)
        result = pufferdp.redact(data, out=out, **how)
        got = pd.read_csv(out) if kind == "file" else pd.read_parquet(out)
    else:
        result = pufferdp.redact(frame if kind == "pandas" else pl.from_pandas(frame), **how)
        got = result.data if kind == "pandas" else result.data.to_pandas()
    assert {n for n, value in enumerate(got["activity"], start=1) if value == "*"} == expected
    assert got[["who", "time"]].equals(frame[["who", "time"]])  # the rows stay where they are
    kept = [n for n in range(len(frame)) if n + 1 not in expected]
    assert got["activity"].iloc[kept].fillna("-").tolist() == frame["activity"].iloc[kept].fillna("-").tolist()
    assert sorted(result.private) == private
    assert {b.first + n for b in result.blocks for n in range(len(b.marks))} & there == expected
    assert result.certificate is not None
    assert pufferdp.verify(json.loads(json.dumps(result.certificate.to_dict()))).valid


def test_probabilities_follow_the_records_and_not_the_rows(tmp_path: Path) -> None:
    """A file backwards is the same series: the same draws, mirrored rows, the same rule and model for the rest."""
    values = [CHAIN.labels[int(n % 3 == 0)] for n in range(40)]
    forward = pd.DataFrame({"time": range(40), "activity": values})
    forward.to_csv(tmp_path / "f.csv", index=False)
    forward[::-1].to_csv(tmp_path / "b.csv", index=False)
    how = {**USUAL, "method": "3r-numerical", "epsilon": 1.0}
    one = pufferdp.redact(
        tmp_path / "f.csv", out=tmp_path / "fo.csv", private=[18], keep=["time"], sampler=SeededSampler(3), **how
    )
    two = pufferdp.redact(
        tmp_path / "b.csv", out=tmp_path / "bo.csv", private=[23], order="time", sampler=SeededSampler(3), **how
    )
    assert pd.read_csv(tmp_path / "bo.csv")[::-1].reset_index(drop=True).equals(pd.read_csv(tmp_path / "fo.csv"))
    assert one.leakage == two.leakage
    assert two.probabilities() == one.probabilities()[::-1]
    assert two.certificate is not None
    assert (two.certificate.guarantee.private, two.certificate.data.private) == ([23], [18])
    tilted = tilted_from_file(two, tmp_path / "bo.csv", Layout(column="activity", order="time"))
    plain = tilted_from_file(one, tmp_path / "fo.csv", Layout(column="activity"))
    assert tilted.records == tuple(str(41 - int(row)) for row in plain.records)  # named by their rows
    for a, b in zip(tilted.nodes, plain.nodes, strict=True):
        assert np.array_equal(a.table, b.table)
    rule = two.rule()
    (block,) = [b for b in rule["blocks"] if b["first"] <= 23 < b["first"] + len(b["thresholds"])]
    assert block["thresholds"][23 - block["first"]] == [str(2**64)] * 2


def test_many_scattered_rows_are_marked_and_stay_in_order(tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    frame = pd.DataFrame({"time": generator.permutation(3000), "activity": generator.choice(CHAIN.labels, 3000)})
    frame.to_csv(tmp_path / "d.csv", index=False)
    private = sorted((generator.choice(3000, size=400, replace=False) + 1).tolist())
    how = {**USUAL, "private": private, "order": "time", "method": "window", "adversary": "dp"}
    pufferdp.redact(tmp_path / "d.csv", out=tmp_path / "o.csv", **how)
    frame.loc[[row - 1 for row in private], "activity"] = "*"
    assert pd.read_csv(tmp_path / "o.csv").equals(frame)
    got = pufferdp.redact(pl.from_pandas(pd.read_csv(tmp_path / "d.csv")), **how).data
    assert got["activity"].to_list() == frame["activity"].tolist()


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"private": [9], "order": "time"}, ParameterError, "the data has 6 rows"),
        ({"private": [1], "restart": 2}, DataError, "no order column"),
        ({"private": [1], "order": "nowhere"}, DataError, "nowhere"),
        ({"private": [1], "order": "twice"}, DataError, "without ties"),
    ],
)
def test_refusals(more: dict[str, Any], error: type[Exception], said: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "time": [5, 3, 1, 2, 6, 9],
            "twice": [1, 1, 2, 3, 4, 5],
            "activity": ["rest", "rest", "active", None, *["rest"] * 2],
        }
    )
    frame.to_csv(tmp_path / "d.csv", index=False)
    with pytest.raises(error, match=said):
        pufferdp.redact(tmp_path / "d.csv", out=tmp_path / "o.csv", missing="keep", **{**USUAL, **more})
    assert not (tmp_path / "o.csv").exists()


def test_tables_without_row_order_are_refused() -> None:
    relation = duckdb.from_df(pd.DataFrame({"time": [1, 2], "activity": ["rest", "rest"]}))
    with pytest.raises(DataError, match="rows are named by their number"):
        pufferdp.redact(relation, private=[1], order="time", **USUAL)


@pytest.mark.parametrize("rows", ["without a value", "not there"])
@pytest.mark.parametrize("gone", [(), (1,), (2,), (5,), (2, 5), (3, 5), (1, 2, 6), (2, 3, 4, 5)])
def test_a_tilted_model_beside_missing_values_is_the_distribution_of_the_marks(
    gone: tuple[int, ...], rows: str, tmp_path: Path
) -> None:
    """By enumeration: a missing value beside a mark was taken for the last of the states."""
    chain = MarkovChain(transition=[[0.8, 0.2], [0.4, 0.6]], states=("rest", "active"), step=1)
    values = [None if t in gone else ("rest", "active", "active", "rest")[t % 4] for t in range(8)]
    frame = pd.DataFrame({"time": range(8), "activity": values})
    frame = frame if rows == "without a value" else frame.dropna().reset_index(drop=True)
    frame.to_csv(tmp_path / "d.csv", index=False)
    row = int(frame.index[frame["time"] == (4 if 4 not in gone else 3 if 3 not in gone else 6)][0]) + 1
    made = pufferdp.redact(
        tmp_path / "d.csv", out=tmp_path / "o.csv", model=chain, column="activity", order="time", missing="keep",
        private=[row], epsilon=1.0, adversary="pufferfish", sampler=SeededSampler(2),
    )  # fmt: skip
    shown = pd.read_csv(tmp_path / "o.csv")
    tilted = tilted_from_file(made, tmp_path / "o.csv", Layout(column="activity", order="time", missing="keep"))
    marked = {int(t): n + 1 for n, (t, value) in enumerate(shown.itertuples(index=False)) if value == "*"}
    assert tilted.records == tuple(map(str, marked.values()))
    weights = np.ones((8, 2))
    for t, value in shown.itertuples(index=False):
        if value in chain.labels:
            weights[t] = [value == label for label in chain.labels]
    for block in made.segments:
        for t, marks in enumerate(block.marks, start=block.first - 1):
            if t in marked:
                weights[t] = marks
    joint = np.zeros((2,) * len(marked))
    for path in np.ndindex(*(2,) * 8):
        chance = chain.stationary[path[0]] * np.prod([weights[t, x] for t, x in enumerate(path)])
        chance *= np.prod([chain.transition[a, b] for a, b in itertools.pairwise(path)])
        joint[tuple(path[t] for t in marked)] += chance
    found = tilted.distribution(*tilted.records)
    assert found == pytest.approx(joint / joint.sum(), abs=1e-12)
