"""Flipped series that are charged: before a record is flipped, before anything is written."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pufferdp import (
    BudgetError,
    DataError,
    DeliveryError,
    Flip,
    Ledger,
    LedgerError,
    MarkovChain,
    ParameterError,
    RefusedError,
    flip,
    flip_stream,
    verify,
)
from pufferdp.ledger.charge import channel_loss, flip_charge
from pufferdp.models.files.json import model_digest
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.noise import SeededSampler
from tests.ledger.rows import assert_other_rows_are_found_out

CHAIN = MarkovChain(transition=[[0.7, 0.3], [0.4, 0.6]], states=["rest", "active"])
STATES = ["rest", "active", "active", "rest", "rest", "active", "rest", "rest"] * 10
FRAME = pd.DataFrame({"state": STATES, "t": range(80)})
TEXT = "state\n" + "\n".join(STATES) + "\n"
ASKED: dict[str, Any] = {"model": CHAIN, "column": "state"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "books.db"
    with Ledger(made, create=True) as ledger:
        ledger.create("week", model=CHAIN, adversary="bdp", budget=3.0)
    (tmp_path / "d.csv").write_text(TEXT)
    FRAME.to_parquet(tmp_path / "d.parquet")
    return made


def standing(path: Path, name: str = "week") -> tuple[int, float]:
    with Ledger(path) as ledger:
        found = ledger.dataset(name)
    return found.releases, found.spent_dp


def ways(path: Path, **more: Any) -> dict[str, Any]:
    """Every way in: a frame, a file by lines, a file with an order, a stream."""
    folder, asked = path.parent, {**ASKED, "epsilon": 0.4, "ledger": path, "dataset": "week", **more}
    return {
        "frame": lambda: flip(FRAME, **asked),
        "lines": lambda: flip(folder / "d.csv", out=folder / "o.csv", overwrite=True, **asked),
        "parquet": lambda: flip(folder / "d.parquet", out=folder / "o.parquet", overwrite=True, order="t", **asked),
        "stream": lambda: flip_stream(io.BytesIO(TEXT.encode()), Sink(folder / "s.csv"), **asked),
    }


class Sink(io.BytesIO):
    """A stream whose bytes are in a file as soon as there are any."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def write(self, text: Any) -> int:
        with self._path.open("ab") as file:
            file.write(text)
        return len(text)


WAYS = ["frame", "lines", "parquet", "stream"]


@pytest.mark.parametrize("way", WAYS)
def test_the_certificate_names_the_row(way: str, path: Path) -> None:
    first, second = (ways(path)[way]().certificate for _ in range(2))
    assert (first.ledger.position, second.ledger.position) == (1, 2)
    assert second.ledger.previous == first.ledger.head
    loss = channel_loss(first.channel.matrix)
    assert loss >= first.channel.dp_loss
    releases, spent = standing(path)
    assert releases == 2
    assert 2 * loss <= spent <= 2 * loss * (1 + 1e-15)
    for certificate in (first, second):
        assert "one release" not in certificate.once
        assert verify(certificate).valid, verify(certificate).problems
        assert verify(certificate, head=certificate.ledger.head).valid
        assert not verify(certificate, head="0" * 64).valid
        with Ledger(path) as ledger:
            found = ledger.verify(certificate.ledger.head)
            assert (found.valid, found.releases, found.recomputed, found.unchecked) == (True, 2, 1, ())


def test_without_a_ledger_the_guarantee_is_for_one_release(path: Path) -> None:
    plain = flip(FRAME, **ASKED, epsilon=0.4).certificate
    assert plain.ledger is None
    assert "one release" in plain.once
    assert not verify(plain, head="0" * 64).valid
    charged = flip(FRAME, **ASKED, epsilon=0.4, ledger=path, dataset="week").certificate.to_dict()
    for change in ({"ledger": None}, {"once": plain.once}):
        changed = {**charged, **change}
        changed["sha256"] = content_hash(changed)
        assert not verify(changed).valid


def test_a_row_of_another_series_is_found_out(path: Path) -> None:
    raw = flip(FRAME, **ASKED, epsilon=0.4, ledger=path, dataset="week").certificate.to_dict()
    other = flip(FRAME, **ASKED, epsilon=0.3, ledger=path, dataset="week").certificate.to_dict()
    assert_other_rows_are_found_out(raw, other)


@pytest.mark.parametrize("way", WAYS)
def test_the_charge_is_there_before_a_record_is_flipped_or_written(way: str, path: Path) -> None:
    """A sampler that fails stands for a crash: the series is lost, the charge is not."""
    before = sorted(p.name for p in path.parent.iterdir() if "books" not in p.name)

    class Crash(SeededSampler):
        def bytes(self, count: int) -> bytes:
            assert standing(path)[0] == 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ways(path, sampler=Crash(1))[way]()
    assert standing(path)[0] == 1
    written = {p.name: p.read_bytes() for p in path.parent.iterdir() if "books" not in p.name}
    # A stream has written its header by then, after the charge; a file is whole or not there.
    assert written.pop("s.csv", b"state\n") == b"state\n"
    assert sorted(written) == before


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_drawn_written_or_charged_when_it_is_too_much(way: str, path: Path) -> None:
    class Never(SeededSampler):
        def bytes(self, count: int) -> bytes:
            raise AssertionError

    flip(FRAME, **ASKED, epsilon=1, ledger=path, dataset="week")
    spent = standing(path)
    before = sorted(p.name for p in path.parent.iterdir())
    with pytest.raises(BudgetError) as caught:
        ways(path, sampler=Never(1), epsilon=2.5)[way]()
    assert standing(path) == spent
    assert sorted(p.name for p in path.parent.iterdir()) == before
    found = re.search(r"a probability of (\S+) would fit, as with epsilon=(\S+)$", str(caught.value))
    assert found, caught.value
    done = ways(path, epsilon=float(found[2]))[way]()
    assert float(found[1]) == pytest.approx(1 / (1 + math.exp(caught.value.left)), abs=1e-4)
    assert channel_loss(done.certificate.channel.matrix) == pytest.approx(caught.value.left, rel=0.02)
    with Ledger(path) as ledger:
        assert ledger.dataset("week").leakage <= 3.0
        assert ledger.verify().valid


def test_nothing_is_charged_when_a_series_is_refused_or_wrong(path: Path) -> None:
    asked = {**ASKED, "epsilon": 0.4, "ledger": path, "dataset": "week"}
    bad, out = path.parent / "bad.csv", path.parent / "o.csv"
    bad.write_text("state\n" + "rest\n" * 900_000 + "\n")  # in its second block
    with pytest.raises(DataError, match="missing"):
        flip(bad, out=out, **asked)
    with pytest.raises(DataError, match="missing"):
        flip(pd.DataFrame({"state": ["rest", None]}), **asked)
    for text, reason in [("x\nrest\n", "no column"), ("state\n", "no records")]:
        sink = io.BytesIO()
        with pytest.raises(DataError, match=reason):
            flip_stream(io.BytesIO(text.encode()), sink, **asked)
        assert sink.getvalue() == b""
    other = MarkovChain(transition=[[0.6, 0.4], [0.4, 0.6]], states=["rest", "active"])
    for change, kind, reason in [
        ({"adversary": "dp"}, RefusedError, "adversary='bdp'"),
        ({"model": other}, RefusedError, "a total is for one model"),
        ({"dataset": "month"}, LedgerError, "no data set 'month'"),
        ({"dataset": None}, ParameterError, "dataset is missing"),
        ({"ledger": None}, ParameterError, "there is no ledger"),
    ]:
        with pytest.raises(kind, match=reason):
            flip("no such file.csv", **{**asked, **change})
        with pytest.raises(kind, match=reason):
            flip_stream(io.BytesIO(b""), io.BytesIO(), **{**asked, **change})
    assert not out.exists()
    assert standing(path) == (0, 0.0)
    bad.write_text("state\n" + "rest\n" * 900_000 + "asleep\n")
    with pytest.raises(DeliveryError, match=r"was charged \(row 1\), and then nothing was released: 'asleep'"):
        flip(bad, out=out, **asked)
    assert not out.exists()
    assert standing(path)[0] == 1


@pytest.mark.parametrize("longest", [80, 2**53])
def test_a_guarantee_that_the_channel_does_not_keep_is_found(path: Path, longest: int) -> None:
    """A single release may rest on its own guarantee, so that has to be true."""
    with Ledger(path) as ledger:
        about = {"longest": longest, "model": model_digest(CHAIN), "adversary": "bdp"}
        honest = flip(FRAME, **ASKED, epsilon=1).certificate.channel.matrix
        ledger.charge("week", flip_charge(honest, epsilon=1.001, **about))
        assert ledger.verify().valid
        ledger.create("other", model=CHAIN, adversary="bdp", budget=3.0)
        ledger.charge("other", flip_charge(honest, epsilon=0.9, **about))
        (problem,) = ledger.verify().problems
        assert "guarantees 0.9; recomputed it leaks up to" in problem


def test_a_stream_that_breaks_later_stays_charged(path: Path) -> None:
    """What came out before has been seen, so the charge is right."""
    text = "state\n" + "rest\n" * 900_000 + "asleep\n"
    sink = io.BytesIO()
    with pytest.raises(DeliveryError, match="asleep") as stop:
        flip_stream(io.BytesIO(text.encode()), sink, **ASKED, epsilon=0.4, ledger=path, dataset="week")
    assert len(sink.getvalue()) > 1000
    assert isinstance(stop.value.result, Flip)
    assert verify(stop.value.result.certificate).valid
    assert stop.value.result.certificate.data.records == len(sink.getvalue().splitlines()) - 1
    assert standing(path)[0] == 1


def test_a_stream_counts_for_any_length(path: Path) -> None:
    ways(path)["stream"]()
    with Ledger(path) as ledger:
        assert ledger.dataset("week").longest == 2**53
    ways(path)["frame"]()
    with Ledger(path) as ledger:
        assert 0.4 < ledger.dataset("week").leakage <= 3
