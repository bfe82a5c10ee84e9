"""Privatised series: files, frames and streams in, the same rows out, and a certificate that can be recomputed."""

from __future__ import annotations

import copy
import csv
import io
import json
import os
import select
import threading
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pufferdp
from pufferdp.basics.frames import csv_text
from pufferdp.data.csv_stream import change_lines
from pufferdp.data.layout import Coding, Layout
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.noise import SeededSampler

CHAIN = pufferdp.MarkovChain(transition=[[0.8, 0.2], [0.35, 0.65]], states=["rest", "active"])
THREE = pufferdp.MarkovChain(transition=[[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])
USUAL: dict[str, Any] = {"model": CHAIN, "column": "state", "epsilon": 2.0}


def people(rows: int = 60) -> pandas.DataFrame:
    generator = np.random.default_rng(5)
    return pandas.DataFrame(
        {
            "who": [f"p{n % 3}" for n in range(rows)],
            "t": [n // 3 for n in range(rows)],
            "note": ["secret, active"] * rows,
            "state": generator.choice(["rest", "active"], rows),
        }
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    people().to_parquet("people.parquet")
    people()[["state"]].to_csv("one.csv", index=False)
    return tmp_path


# ---- designs ----


def test_a_design_that_is_worse_than_one_word_says_so():
    """A state that is nearly always there: publishing it for every record is wrong less often than strong flips."""
    rare = pufferdp.MarkovChain(transition=[[0.95, 0.05], [0.33, 0.67]], states=["off", "on"])
    share = 0.05 / 0.38
    strong, weak = (pufferdp.design_flips(rare, epsilon, length=100) for epsilon in (4.0, 9.0))
    assert strong.expected_noise > strong.constant.error > weak.expected_noise
    for design in (strong, weak):
        assert design.constant.state == "off"
        assert design.constant.error == pytest.approx(share)
        assert design.to_dict()["constant"] == {"state": "off", "error": design.constant.error}
    assert "'off' for every record is wrong for 13.16 % of them, and leaks nothing" in " ".join(str(strong).split())
    assert "every record is wrong" not in str(weak)
    frame = pandas.DataFrame({"state": ["off", "on"] * 20})
    done = pufferdp.flip(frame, model=rare, column="state", epsilon=4.0)
    assert "'off' for every record" in " ".join(str(done).split())
    # Of a class the worst chain counts.
    other = pufferdp.MarkovChain(transition=[[0.8, 0.2], [0.4, 0.6]], states=["off", "on"])
    both = pufferdp.design_flips(pufferdp.MarkovClass(models=(rare, other)), 4.0, length=100)
    assert both.constant.error == pytest.approx(1 / 3)


def test_a_design_shows_what_the_command_line_guarantees():
    found = pufferdp.design_flips(CHAIN, 2.0, length=100)
    assert set(found.to_dict()) >= {"rho", "loss", "expected_noise"}
    assert found.rho == pytest.approx([0.33292, 0.27732], abs=1e-5)
    assert found.loss <= 2.0
    assert found.expected_noise == pytest.approx(float(CHAIN.stationary @ found.rho))
    assert found.dp_loss == pytest.approx(float(np.log((1 - found.rho[0]) / found.rho[1])))


def test_noise_rises_with_the_length_and_with_what_is_known():
    noise = [pufferdp.design_flips(CHAIN, 1.0, length=n).expected_noise for n in (1, 2, 10, 1000)]
    assert noise == sorted(noise)
    assert pufferdp.design_flips(CHAIN, 1.0).expected_noise >= noise[-1] - 1e-12
    by = [pufferdp.design_flips(CHAIN, 1.0, adversary=a).expected_noise for a in ("dp", "pufferfish", "bdp")]
    assert by == sorted(by)


def test_many_states_get_a_matrix():
    found = pufferdp.design_flips(THREE, 2.0, length=8)
    assert np.array(found.rho).shape == (3, 3)
    assert np.array(found.rho).sum(axis=1) == pytest.approx(1)
    assert found.loss <= 2.0


def test_classes_and_starts_are_sound_or_refused():
    both = pufferdp.MarkovClass(
        models=(CHAIN, pufferdp.MarkovChain(transition=[[0.9, 0.1], [0.1, 0.9]], states=["rest", "active"]))
    )
    each = [pufferdp.design_flips(m, 2.0, length=20).expected_noise for m in both.models]
    assert pufferdp.design_flips(both, 2.0, length=20).loss <= 2.0
    assert pufferdp.design_flips(both, 2.0, length=20).expected_noise >= min(each)
    anywhere = pufferdp.MarkovChain(transition=CHAIN.transition, start="any")
    assert pufferdp.design_flips(anywhere, 2.0).expected_noise >= pufferdp.design_flips(CHAIN, 2.0).expected_noise
    for model, reason in (
        (pufferdp.BinaryInterval(low=0.3, high=0.7), "infinitely many chains"),
        (pufferdp.AnyGroups(largest=3), "only series"),
        (pufferdp.MarkovChain(transition=THREE.transition, start="any"), "give the distribution of the first record"),
    ):
        with pytest.raises(pufferdp.NotApplicableError, match=reason):
            pufferdp.design_flips(model, 1.0, length=5)
    given = pufferdp.MarkovChain(transition=THREE.transition, start=[0.5, 0.25, 0.25])
    assert pufferdp.design_flips(given, 1.0, length=5).loss <= 1.0
    with pytest.raises(pufferdp.ModelError, match="one state"):
        pufferdp.design_flips(pufferdp.MarkovChain(transition=[[1.0]]), 1.0)


# ---- files, frames, streams ----


@pytest.mark.parametrize("source", ["people.csv", "people.parquet"])
@pytest.mark.parametrize("out", ["out.csv", "out.csv.gz", "out.parquet"])
def test_a_file_keeps_its_rows_and_only_the_columns_that_were_named(source: str, out: str, folder: Path):
    done = pufferdp.flip(source, out=out, by="who", order="t", sampler=SeededSampler(1), **USUAL)
    written = pandas.read_parquet(out) if out.endswith("parquet") else pandas.read_csv(out)
    assert list(written.columns) == ["who", "t", "state"]
    assert written["who"].tolist() == people()["who"].tolist()
    assert written["t"].astype(int).tolist() == people()["t"].tolist()
    assert set(written["state"]) == {"rest", "active"}
    assert 0 < (written["state"] != people()["state"]).sum() < 60
    assert done.certificate.data.lengths == [[20, 3]]
    assert done.certificate.channel.length == 20
    assert done.states is None
    assert not list(folder.glob(".*part"))


def test_every_way_in_gives_the_same_series(folder: Path):
    """One seed: a file through lines, through the engine, frames and a stream differ in nothing."""
    frame = people()[["state"]]
    inputs: list[Any] = ["one.csv", frame, polars.from_pandas(frame), polars.from_pandas(frame).to_arrow()]
    found = [pufferdp.flip(data, sampler=SeededSampler(7), **USUAL).values for data in inputs]
    pufferdp.flip("one.csv", out="lines.csv", sampler=SeededSampler(7), **USUAL)
    found.append(pandas.read_csv("lines.csv")["state"].tolist())
    table = duckdb.from_df(people().assign(n=range(60)))
    found.append(pufferdp.flip(table, order="n", sampler=SeededSampler(7), **USUAL).values)
    assert all(values == found[0] for values in found)
    assert found[0] != frame["state"].tolist()


def test_a_stream_goes_through_in_order(folder: Path):
    sink = io.BytesIO()
    with open("people.csv", "rb") as source:
        done = pufferdp.flip_stream(source, sink, by="who", order="t", sampler=SeededSampler(2), **USUAL)
    lines = sink.getvalue().decode().splitlines()
    assert lines[0] == "who,t,state"
    assert [line.rsplit(",", 1)[0] for line in lines[1:]] == [f"p{n % 3},{n // 3}" for n in range(60)]
    assert done.certificate.channel.length is None
    assert done.certificate.data.records == 60
    assert pufferdp.verify(done.certificate).valid


def test_a_stream_of_many_blocks_and_without_a_last_line_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pufferdp.data.csv_stream._BLOCK", 64)
    rows = ["rest", "active"] * 100
    for text in ("state\n" + "\n".join(rows), "state\r\n" + "\r\n".join(rows) + "\r\n"):
        sink = io.BytesIO()
        pufferdp.flip_stream(io.BytesIO(text.encode()), sink, sampler=SeededSampler(2), **{**USUAL, "epsilon": 300.0})
        assert sink.getvalue().decode().splitlines() == ["state", *rows]  # hardly a flip at this epsilon


def test_a_slow_device_gets_its_records_as_they_come():
    """Each record is out, and flushed, before the next is asked for; parts of lines wait for their end."""
    parts = [b"state\n", b"rest\n", b"act", b"ive\nrest\n", b"rest"]
    seen: list[int] = []

    class Slow(io.BytesIO):
        def read1(self, size: int = -1) -> bytes:
            seen.append(sink.flushed.count(b"\n"))
            return parts.pop(0) if parts else b""

    class Sink(io.BytesIO):
        flushed = b""

        def flush(self) -> None:
            self.flushed = self.getvalue()

    sink = Sink()
    pufferdp.flip_stream(Slow(), sink, **USUAL)
    assert seen == [0, 0, 2, 2, 4, 4]  # lines out, with the header, whenever more is read
    assert sink.flushed.count(b"\n") == 5


def test_quoted_records_are_answered_while_the_pipe_stays_open():
    """One record in, one record out, whether its fields are quoted or go on over lines."""
    from_device, to_stream = os.pipe()
    from_stream, to_reader = os.pipe()
    with (
        os.fdopen(from_device, "rb") as source,
        os.fdopen(to_reader, "wb") as sink,
        os.fdopen(from_stream, "rb") as out,
    ):
        stream = threading.Thread(
            target=pufferdp.flip_stream,
            args=(source, sink),
            kwargs={**USUAL, "by": "who", "epsilon": 300.0, "sampler": SeededSampler(2)},
        )
        stream.start()
        os.write(to_stream, b"who,state\n")
        answers = []
        try:
            for record in (b'"ann",rest\n', b"bob,active\n", b'"a,\n""b""",rest\n', b"ann,active\n"):
                for at in range(len(record)):  # byte by byte: parts of a record wait for its end
                    os.write(to_stream, record[at : at + 1])
                heard = b""
                while heard.count(b"\n") < record.count(b"\n") + (not answers):  # the header comes with the first
                    assert select.select([out], [], [], 10)[0], f"no answer to {record!r}"
                    heard += os.read(out.fileno(), 1000)
                answers.append(heard)
        finally:
            os.close(to_stream)
            stream.join(10)
    assert answers == [b"who,state\nann,rest\n", b"bob,active\n", b'"a,\n""b""",rest\n', b"ann,active\n"]


NAMES = st.text(st.sampled_from('ab,"\n\r \x0b\u2028é'), max_size=6)


@given(st.lists(st.tuples(NAMES, st.sampled_from(["rest", "active"])), min_size=1, max_size=8), st.integers(1, 9))
def test_a_stream_reads_what_the_csv_module_reads_however_its_bytes_come(rows: list[tuple[str, str]], size: int):
    text = csv_text([("who", "state"), *rows])

    class Pieces(io.BytesIO):
        def read1(self, _: int | None = -1) -> bytes:
            return super().read(size)

    sink = io.BytesIO()
    layout, coding = Layout(column="state", by="who"), Coding(labels=("active", "rest"), bins=None)
    change_lines(Pieces(text.encode()), sink, layout, coding, coding.labels, lambda codes: codes)
    assert sink.getvalue().decode() == text
    assert list(csv.reader(io.StringIO(text, newline="")))[1:] == [list(row) for row in rows]


def test_a_quote_that_is_never_closed_is_rejected():
    with pytest.raises(pufferdp.DataError, match=r"after line 2: .* a quote is not closed"):
        pufferdp.flip_stream(io.BytesIO(b'state\nrest\n"active\nrest\n'), io.BytesIO(), **USUAL)


def test_missing_values_stay_missing(folder: Path):
    (folder / "gaps.csv").write_text("state\nrest\n\nactive\nNA\nrest\n".replace("\n\n", "\nnull\n"))
    with pytest.raises(pufferdp.DataError, match="missing"):
        pufferdp.flip("gaps.csv", out="o.csv", **USUAL)
    assert not (folder / "o.csv").exists()
    done = pufferdp.flip("gaps.csv", missing="keep", **USUAL)
    assert [v is None for v in done.values] == [False, True, False, True, False]
    assert (done.certificate.data.lengths, done.certificate.data.unobserved) == ([[3, 1]], 2)
    sink = io.BytesIO()
    with open("gaps.csv", "rb") as source:
        pufferdp.flip_stream(source, sink, missing="keep", **USUAL)
    assert [line == "" for line in sink.getvalue().decode().split("\n")[1:6]] == [False, True, False, True, False]


def test_numbers_become_the_names_of_their_bins(folder: Path):
    model = pufferdp.MarkovChain(transition=CHAIN.transition, bins=[0, 10, 20], states=["low", "high"])
    (folder / "n.csv").write_text("x\n" + "3\n17.5\n20\n" * 20)
    (folder / "o.csv").unlink(missing_ok=True)
    pufferdp.flip("n.csv", model=model, column="x", epsilon=300.0, out="o.csv")
    assert (folder / "o.csv").read_text() == "x\n" + "low\nhigh\nhigh\n" * 20


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("state\nrest\nasleep\n", "'asleep' on line 3 is not a state"),
        ("state,t\nrest,1\nactive\n", "line 3 has 1 fields"),
        ("other\nrest\n", "no column 'state'"),
        ("", "empty"),
        ("state\n", "no records"),
        ('state,t\n"rest",1\nrest,1,2\n', "line 3 has 3 fields"),
    ],
)
def test_streams_that_cannot_be_used(text: str, reason: str):
    with pytest.raises(pufferdp.DataError, match=reason):
        pufferdp.flip_stream(io.BytesIO(text.encode()), io.BytesIO(), **USUAL)


def test_what_is_refused_before_anything_is_read(folder: Path):
    given = pufferdp.MarkovChain(transition=CHAIN.transition, states=["rest", "active"], start=[0.5, 0.5])
    with pytest.raises(pufferdp.NotApplicableError, match="start"):
        pufferdp.flip("people.csv", by="who", order="t", restart=0.5, out="o.csv", **{**USUAL, "model": given})
    with pytest.raises(pufferdp.NotApplicableError, match="start"):
        pufferdp.flip_stream(io.BytesIO(b"state\nrest\n"), io.BytesIO(), by="who", **{**USUAL, "model": given})
    with pytest.raises(pufferdp.ParameterError, match="for files"):
        pufferdp.flip(people(), out="o.csv", **USUAL)
    with pytest.raises(pufferdp.ParameterError, match="epsilon"):
        pufferdp.flip("people.csv", **{**USUAL, "epsilon": -1})
    with pytest.raises(pufferdp.ParameterError, match="out"):
        pufferdp.flip("people.csv", out="o.xlsx", **USUAL)


# ---- certificates ----


def test_a_certificate_verifies_and_says_that_it_is_for_one_release(folder: Path):
    done = pufferdp.flip("one.csv", **USUAL)
    raw = json.loads(json.dumps(done.certificate.to_dict()))
    assert pufferdp.verify(raw).valid
    assert "one release" in raw["once"]
    assert raw["warnings"] == []
    assert pufferdp.flip("one.csv", sampler=SeededSampler(1), **USUAL).certificate.warnings == ["unsafe: seeded"]


def changed(raw: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A certificate with one thing changed and a hash that fits again."""
    out = copy.deepcopy(raw)
    part = out
    *way, last = path.split(".")
    for key in way:
        part = part[key]
    part[last] = value
    out["sha256"] = content_hash(out)
    return out


@pytest.mark.parametrize("stay", [0.9, 0.1])
@pytest.mark.parametrize("adversary", ["bdp", "dp"])
def test_a_guarantee_of_any_size_is_designed_for(stay: float, adversary: str):
    """Above 745 the share of flips is no double any more, and the search for a share never ended."""
    chain = pufferdp.MarkovChain(transition=[[stay, 1 - stay], [1 - stay, stay]])
    most = pufferdp.design_flips(chain, 600.0, length=4, adversary=adversary)
    for epsilon in (746.0, 1e18):
        design = pufferdp.design_flips(chain, epsilon, length=4, adversary=adversary)
        assert 0 < most.dp_loss <= design.dp_loss <= epsilon
