"""What a redaction writes beside the column it is about, and private records that are named by their times."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferdp
from pufferdp.basics.errors import DataError, NotApplicableError, ParameterError, PufferdpError
from pufferdp.data.memory import MemoryFile
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.redaction.private import PrivateRecords
from tests.strategies import examples

CHAIN = MarkovChain(transition=[[0.8, 0.2], [0.5, 0.5]], states=("rest", "active"))
USUAL: dict[str, Any] = {"model": CHAIN, "column": "activity", "epsilon": 1.0, "method": "window"}
START = datetime(2024, 5, 1)


def table(days: int = 3, step: int = 30) -> pd.DataFrame:
    """Half-hours of some days, with columns that tell where somebody was."""
    count = days * 24 * 60 // step
    times = [START + timedelta(minutes=step * n) for n in range(count)]
    values = [CHAIN.labels[int(n % 5 == 0)] for n in range(count)]
    return pd.DataFrame(
        {"latitude": [50 + n / 1000 for n in range(count)], "time": times, "activity": values, "longitude": 7.0}
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "d.csv"
    table().to_csv(path, index=False)
    return path


def write(data: pd.DataFrame, kind: str, folder: Path) -> tuple[Any, dict[str, Any]]:
    """The data as one kind of source, and where the redaction of it goes."""
    if kind in ("csv", "parquet"):
        path = folder / f"d.{kind}"
        data.to_csv(path, index=False) if kind == "csv" else data.to_parquet(path)
        return path, {"out": folder / f"o.{kind}"}
    if kind == "memory":
        return MemoryFile("d.csv", data.to_csv(index=False).encode()), {}
    return {"pandas": data, "polars": pl.from_pandas(data), "lazy": pl.from_pandas(data).lazy()}[kind], {}


def columns_of(kind: str, result: pufferdp.Redaction, more: dict[str, Any]) -> list[str]:
    if kind == "csv":
        return list(pd.read_csv(more["out"]).columns)
    if kind == "parquet":
        return list(pd.read_parquet(more["out"]).columns)
    if kind == "memory":
        return str(result.data.content.decode().splitlines()[0]).split(",")
    return list(result.data.collect_schema().names() if kind == "lazy" else result.data.columns)


@pytest.mark.parametrize("kind", ["csv", "parquet", "memory", "pandas", "polars", "lazy"])
@pytest.mark.parametrize(
    ("named", "keep", "written"),
    [
        ({"order": "rows"}, [], ["activity"]),
        ({"order": "time"}, [], ["time", "activity"]),
        ({"order": "time"}, ["longitude", "time"], ["time", "activity", "longitude"]),
        ({"order": "rows"}, ["longitude", "latitude"], ["latitude", "activity", "longitude"]),
    ],
)
def test_only_named_columns_come_out(
    kind: str, named: dict[str, Any], keep: list[str], written: list[str], tmp_path: Path
) -> None:
    data, more = write(table(1), kind, tmp_path)
    result = pufferdp.redact(data, private=[7], keep=keep, **USUAL, **named, **more)
    assert columns_of(kind, result, more) == written
    kept = [name for name in written if name in ("latitude", "longitude")]
    assert result.to_dict()["kept"] == list(result.kept) == kept
    assert sorted(result.columns or ()) == sorted(written)
    assert result.certificate is not None
    content = json.loads(json.dumps(result.certificate.to_dict()))
    assert content["data"]["kept"] == kept
    assert pufferdp.verify(content).valid
    believes = "tells nothing about 'activity'" if len(kept) == 1 else "tell nothing about 'activity'"
    assert (believes in content["guarantee"]["statement"]) == bool(kept)
    assert any("the guarantee does not cover" in fact for fact in content["public"]) == bool(kept)
    assert ("The guarantee does not cover the kept" in " ".join(str(result).split())) == bool(kept)


def test_a_place_of_the_hidden_hour_is_not_in_the_file(file: Path, tmp_path: Path) -> None:
    pufferdp.redact(file, private=[7], order="time", out=tmp_path / "o.csv", **USUAL)
    assert "50.006" in file.read_text()
    assert "50.006" not in (tmp_path / "o.csv").read_text()


@pytest.mark.parametrize(
    ("keep", "said"),
    [(["lattitude"], "there is no column 'lattitude' to keep.*did you mean 'latitude'"), ([""], "name of a column")],
)
def test_columns_that_are_not_there_are_refused(keep: list[str], said: str, file: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        pufferdp.redact(file, private=[7], order="rows", keep=keep, out=tmp_path / "o.csv", **USUAL)
    assert not (tmp_path / "o.csv").exists()


def test_a_certificate_cannot_hide_what_was_kept(file: Path, tmp_path: Path) -> None:
    """Where the list of kept columns is changed, the guarantee and the public facts no longer follow."""
    result = pufferdp.redact(file, private=[7], order="rows", keep=["latitude"], out=tmp_path / "o.csv", **USUAL)
    assert result.certificate is not None
    for kept in ([], ["latitude", "longitude"], ["activity"], ["latitude", "latitude"]):
        content = json.loads(json.dumps(result.certificate.to_dict()))
        content["data"]["kept"] = kept
        content["sha256"] = content_hash(content)
        assert not pufferdp.verify(content).valid


# ---- times ----


def rows(data: object, private: Any, **more: Any) -> tuple[int, ...]:
    usual = {**USUAL, "adversary": "dp", "order": "time"}
    result = pufferdp.redact(data, private=private, **{**usual, **more})
    assert result.certificate is not None
    assert pufferdp.verify(result.certificate).valid
    assert result.certificate.guarantee.private == list(result.private)
    return result.private


@pytest.mark.parametrize(
    ("private", "hidden"),
    [
        ("2024-05-02T08:00", [65]),
        ("2024-05-02 08:00:00", [65]),
        ("2024-05-02T08:00..2024-05-02T09:00", [65, 66, 67]),  # both ends
        ("2024-05-02T08:01..2024-05-02T08:59", [66]),
        ("2024-05-01", list(range(1, 49))),
        ("2024-05-02..2024-05-03", list(range(49, 145))),
        (["2024-05-01T00:00", 5, "140-141"], [1, 5, 140, 141]),
        ("3,2024-05-01T00:00..2024-05-01T01:00", [1, 2, 3]),
        (date(2024, 5, 3), list(range(97, 145))),
        ([datetime(2024, 5, 1, 0, 30)], [2]),
        ("2024-05-03T23:30..2030-01-01", [144]),
    ],
)
def test_times_are_rows(private: Any, hidden: list[int]) -> None:
    assert rows(table(), private) == tuple(hidden)


@settings(max_examples=examples(8))
@given(low=st.integers(-50, 200), length=st.integers(0, 60), shuffle=st.integers(0, 2**16))
def test_a_range_of_times_is_the_rows_inside(low: int, length: int, shuffle: int) -> None:
    """By minutes, in whatever order the rows are; a range without a row is refused."""
    frame = table(2).sample(frac=1, random_state=shuffle).reset_index(drop=True)
    first, last = START + timedelta(minutes=20 * low), START + timedelta(minutes=20 * (low + length))
    inside = tuple(n for n, time in enumerate(frame["time"], start=1) if first <= time <= last)
    asked = f"{first.isoformat()}..{last.isoformat()}"
    if inside:
        assert sorted(rows(frame, asked)) == list(inside)
    else:
        with pytest.raises(ParameterError, match="no row has 'time' there"):
            rows(frame, asked)


def test_times_with_a_zone_are_told_apart() -> None:
    frame = table(1)
    frame["time"] = frame["time"].dt.tz_localize("Europe/Berlin")
    assert rows(frame, "2024-05-01T02:00Z") == (9,)  # two hours later in Berlin
    assert rows(frame, "2024-05-01+02:00") == tuple(range(1, 49))
    with pytest.raises(DataError, match="'2024-05-01' has no time zone"):  # the UTC day would be hidden, not Berlin's
        rows(frame, "2024-05-01")
    assert rows(frame, datetime(2024, 5, 1, 2, tzinfo=UTC)) == (9,)
    with pytest.raises(DataError, match="without a time zone"):
        rows(table(1), "2024-05-01T02:00Z")


def test_a_day_is_hidden_for_everybody() -> None:
    both = pd.concat([table(2).assign(who=who) for who in ("ann", "bob")], ignore_index=True)
    hidden = rows(both, "2024-05-02", by="who", independent=True)
    assert sorted(hidden) == [*range(49, 97), *range(145, 193)]


@pytest.mark.parametrize(
    ("private", "more", "error", "said"),
    [
        ("2024-05-02", {"order": None}, ParameterError, "no column says when a record is: name it with order="),
        ("2024-05-02", {"order": "latitude"}, NotApplicableError, "holds numbers: name rows"),
        ("2024-05-09", {}, ParameterError, "'2024-05-09', and no row has 'time' there"),
        ("2024-05-02T08:10", {}, ParameterError, r"or a range A\.\.B"),
        ("2024-05-03..2024-05-02", {}, ParameterError, "the first time comes first"),
        ("2024-05-02..", {}, ParameterError, "is not a date or a time"),
        ("..2024-05-02", {}, ParameterError, "is not a date or a time"),
        ("noon..midnight", {}, ParameterError, "'noon' is not a date or a time"),
        ("2024-13-02", {}, ParameterError, "'2024-13-02' is not a date or a time"),
        ("5..9", {}, ParameterError, "rows go as 100-111"),
        ("noon", {}, ParameterError, "private is 'noon'"),
        ([2.5], {}, ParameterError, "private row is 2.5"),
        ("1-20000", {}, ParameterError, "at most 10,000 rows"),
    ],
)
def test_refusals(private: Any, more: dict[str, Any], error: type[PufferdpError], said: str) -> None:
    with pytest.raises(error, match=said):
        rows(table(), private, **more)


def test_known_rows_and_times_do_not_meet() -> None:
    asked = {"adversary": "pufferfish", "known": [65]}
    with pytest.raises(ParameterError, match="private and known"):
        rows(table(), "2024-05-02T08:00", **asked)
    assert rows(table(), "2024-05-02T09:00", **asked) == (67,)


def test_a_design_has_rows_alone() -> None:
    with pytest.raises(ParameterError, match="a design reads no data"):
        pufferdp.plan_redaction(CHAIN, length=10, private=["2024-05-02"], epsilon=1)
    assert pufferdp.plan_redaction(CHAIN, length=10, private="3-4", epsilon=1, method="window").private == (3, 4)


@given(st.text(alphabet="0123456789-.T:, Z", max_size=24))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        asked = PrivateRecords.parse(text)
    except PufferdpError:
        return
    assert asked.rows or asked.times
