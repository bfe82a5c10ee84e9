"""Files of a stranger that are made to take long to read: each took seconds, minutes or hours."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import pufferdp
from pufferdp.basics import files
from pufferdp.basics.errors import CertificateError, PufferdpError
from pufferdp.basics.files import JsonRuleError, check_values, parse_json
from pufferdp.ledger.history import read_export
from pufferdp.models.files.fleet import load_models
from pufferdp.publish import verify as verification
from pufferdp.publish.answers import estimate
from pufferdp.publish.answers.problem import Remembered
from pufferdp.publish.answers.secrets import load_secrets
from pufferdp.publish.certificate import embedded_certificate, parse_certificate

GOLDEN = Path(__file__).parents[1] / "golden"


HANG = 100.0
"""Seconds of processor time: what takes less than one and had grown with the square of the file took hours."""


def seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


@pytest.mark.parametrize("unit", ["<a ", "</", "<!", "<![CDATA[", "<script id=certificate ", "<a a=b ", " id "])
def test_a_report_of_tags_that_never_end(unit: str) -> None:
    """32 kB of them took ten seconds by Python's reader of HTML, and twice as many eight times as long."""
    text = "<!doctype html>" + unit * (2**19 // len(unit))

    def read() -> None:
        with pytest.raises(CertificateError, match="no certificate"):
            embedded_certificate(text)

    assert seconds(read) < HANG


@pytest.mark.parametrize(
    "tag", ['<script id="certificate">', "<SCRIPT type=x ID = 'certificate'>", "<script id=certificate/>"]
)
def test_the_certificate_of_a_report_is_found_however_its_tag_is_written(tag: str) -> None:
    assert embedded_certificate(f"<!doctype html><script>1</script><p id=certificate>{tag}{{}}</script>") == "{}"


def test_a_name_that_comes_twice_among_many() -> None:
    """Each name was counted by itself."""
    text = json.dumps({f"n{i}": 0 for i in range(200_000)})[:-1] + ', "z": 1, "z": 2}'

    def read() -> None:
        with pytest.raises(JsonRuleError, match="'z' is given twice"):
            parse_json(text)

    assert seconds(read) < HANG  # by itself: four seconds for 20,000 of them


def test_a_table_of_many_entries_is_looked_at_a_level_at_a_time() -> None:
    """Of the eight seconds that a network with a node of twenty parents took, five were spent here."""
    table, calls, before = np.full((2,) * 16, 0.5).tolist(), 0, sys.getprofile()

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        check_values(table, CertificateError, "it")
    finally:
        sys.setprofile(before)
    assert calls < 1000  # of 65,536 entries


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (2**63, "beyond 2\\^63"),
        (-(2**63) - 1, "beyond 2\\^63"),
        ("a\ud800", "not Unicode"),
        (float("nan"), "holds nan"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [1, [0.5, v], {}], lambda v: {"a": [{"b": (v, "x")}]}])
def test_what_no_file_can_hold_is_found_at_any_depth(value: Any, words: str, wrap: Callable[[Any], Any]) -> None:
    with pytest.raises(CertificateError, match=words):
        check_values(wrap(value), CertificateError, "it", finite=True)
    check_values(wrap(2**63 - 1), CertificateError, "it", finite=True)


def test_nor_in_a_name() -> None:
    with pytest.raises(CertificateError, match="not Unicode"):
        check_values([{"a\ud800": 1}], CertificateError, "it")


def test_reading_is_a_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    read, path = verification._content, GOLDEN / "answer-pedigree.json"
    assert pufferdp.verify(path, seconds=20).valid  # loads what is needed

    def slowly(certificate: object) -> Any:
        began = time.thread_time()
        while time.thread_time() - began < 0.4:
            pass
        return read(certificate)

    monkeypatch.setattr(verification, "_content", slowly)
    with pytest.raises(CertificateError, match=r"takes more than 0\.1 s"):
        pufferdp.verify(path, seconds=0.1)


def test_a_posterior_of_too_many_pairs_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hidden chain with a hundred states and a hundred values the chain of pairs takes 3 GB."""
    rows = np.full((2, 2), 0.5)
    model = pufferdp.HiddenMarkov(transition=rows, emission=[[0.8, 0.2], [0.3, 0.7]], states=("a", "b"))
    options: dict[str, Any] = {"model": model, "column": "s", "query": "count:a", "epsilon": 1}
    frame = pl.DataFrame({"s": ["a", "b"] * 4})
    assert pufferdp.release(frame, **options).model_estimate is not None
    monkeypatch.setattr(estimate, "_MOST_PAIRS", 3)
    monkeypatch.setattr(estimate, "_PRIORS", Remembered(64))
    assert pufferdp.release(frame, **options).model_estimate is None


@pytest.mark.parametrize("unit", ["[],", "[[[[]]]],", '{"a":0},', "0,", '"",', '"\\"",'])
def test_a_file_of_many_values_is_refused_before_it_is_parsed(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """32 MiB of them took five seconds and 1.4 GB, and as names of one object 2.7 GB and minutes."""
    text = f'{{"schema": "pufferdp-certificate/3", "answer": [{unit * ((2**25 - 60) // len(unit))}0]}}'
    monkeypatch.delattr(files.json, "loads")
    with pytest.raises(JsonRuleError, match="more than 2,097,152 values and names, the most that are read"):
        parse_certificate(text, "the file")


def test_every_file_of_a_stranger_has_the_same_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_VALUES", 1000)
    path = tmp_path / "x.json"
    path.write_text(json.dumps({f"n{n}": 0 for n in range(501)}))
    for read in (pufferdp.verify, pufferdp.load_model, read_export, load_models, load_secrets):
        with pytest.raises(PufferdpError, match="more than 1,000 values and names, the most that are read"):
            read(path)


def test_what_stands_in_quotes_is_no_value() -> None:
    """An export of a ledger keeps the JSON of its charges as text."""
    texts = ['{"a":[1,2],"b":{}}' * 2**15, '\\" , : [', "\\"]
    assert parse_json(json.dumps(texts * 9)) == texts * 9


def test_many_names_that_do_not_belong_there_are_not_listed() -> None:
    content = json.loads((GOLDEN / "answer-gk16.json").read_text()) | {f"n{n}": 0 for n in range(20_000)}
    assert pufferdp.verify(content).problems == ("the content has 20,000 values that do not belong there",)


def test_a_long_certificate_of_short_rows_is_parsed() -> None:
    """A network's table of a million rows has the shortest that a model has."""
    rows = "[.2,.8],".replace(".", "0.") * 2**18
    assert len(parse_certificate(f'{{"model": [{rows}[0]]}}', "the file")["model"]) == 2**18 + 1
