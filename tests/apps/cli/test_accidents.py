"""Errors that nobody foresaw, anywhere in a verb that charges: no words that repeat data, no charge untold."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import duckdb
import numpy as np
import pytest

import pufferdp
from pufferdp import DeliveryError, Ledger, Query, QueryError, Series, UnknownChargeError
from pufferdp.apps.start_up import _unraised
from pufferdp.basics import unexpected
from pufferdp.data import series as counted
from pufferdp.ledger.store.sqlite import SqliteStore
from pufferdp.models.files.json import model_from_dict
from pufferdp.publish import noise
from pufferdp.publish.answers.publication import Release
from pufferdp.publish.kind import Kind
from pufferdp.publish.noise import SystemSampler
from pufferdp.publish.signatures import Signer
from tests.apps.cli.conftest import CHAIN, Result, Run, series, write
from tests.apps.cli.test_delivery import VERBS, Verb, charges, check_whole, told
from tests.publish.test_signatures import keys

SECRET = "patient-4711"
"""What the words of a library's error would repeat."""
ERRORS: dict[str, Callable[[], Exception]] = {
    "a conversion": lambda: ValueError(f"could not convert string to float: '{SECRET}'"),
    "memory": lambda: MemoryError(SECRET),
    "a full disk": lambda: OSError(errno.ENOSPC, f"no space for {SECRET}"),
    "the engine": lambda: duckdb.ConversionException(f"Could not convert string '{SECRET}' to INT32"),
}


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "people.json": {"ann": CHAIN, "bob": CHAIN}, "d.csv": series()})


@pytest.fixture(params=VERBS)
def verb(request: pytest.FixtureRequest, run: Run) -> Verb:
    """Each verb that charges, with its data sets made."""
    for words in VERBS[request.param].create:
        assert run(*words).code == 0
    return VERBS[request.param]


@pytest.fixture
def release(run: Run) -> Verb:
    assert run(*VERBS["release"].create[0]).code == 0
    return VERBS["release"]


def failing(error: Callable[[], Exception]) -> Callable[..., Any]:
    def fail(*args: object, **options: object) -> Any:
        raise error()

    return fail


def shown(error: BaseException) -> str:
    """All that Python prints of an error that nobody catches, the chain of its causes included."""
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("error", ERRORS)
def test_the_words_of_an_error_before_the_charge(
    error: str, release: Verb, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a traceback, with the record that a library could not convert in its last line."""
    monkeypatch.setattr(counted.Series, "counts", failing(ERRORS[error]))
    result = run(*release.asked("--out", "out.json", "--json"))
    assert result.code == 1
    assert SECRET not in result.out + result.err
    assert "Traceback" not in result.err
    assert result.out == "" and charges() == [] and not Path("out.json").exists()


def test_where_an_error_came_from_is_told(release: Verb, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pufferdp.publish.answers.publication.read_exact", failing(ERRORS["a conversion"]))
    *_, last = run(*release.asked()).err.splitlines()
    assert last.startswith("pufferdp: an error in pufferdp, ValueError (publish/answers/publication.py, line ")
    assert "charged" not in last


@pytest.mark.parametrize("error", ["a conversion", "a full disk"])
def test_a_certificate_that_cannot_be_made(
    error: str, verb: Verb, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was said that nothing was released, also where a series lay in its place; a drawn answer was lost."""
    monkeypatch.setattr(Kind, "certify", failing(ERRORS[error]))
    result = run(*verb.asked())
    assert result.code == 1
    assert SECRET not in result.out + result.err
    assert "charged (row 1), and then no certificate could be made" in result.err
    assert len(charges()) == len(verb.create)
    if verb.series:
        assert "series is in 'series.csv'" in result.err
        assert Path("series.csv").read_text().startswith("activity\n")
    else:
        drawn = ("noisy answer is [", "noisy table is [", "noisy flow is [", "noisy counts of moves, in the order of")
        assert any(words in result.err for words in drawn)


def test_python_has_what_was_drawn(release: Verb, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kind, "certify", failing(ERRORS["a conversion"]))
    asked: dict[str, Any] = {"model": model_from_dict(CHAIN), "query": "histogram", "epsilon": 1.0}
    with pytest.raises(DeliveryError) as caught:
        pufferdp.release(Series("d.csv", "activity", order="rows"), **asked, ledger="books.db", dataset="week")
    assert isinstance(caught.value.value, list) and len(caught.value.value) == 2
    assert SECRET not in shown(caught.value)


def test_an_answer_that_cannot_be_put_into_words(release: Verb, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was charged, made and lost: what it says of itself was worked out before it was delivered."""
    monkeypatch.setattr(Release, "to_dict", failing(ERRORS["memory"]))
    result = run(*release.asked())
    assert result.code == 1
    assert SECRET not in result.out + result.err
    certificate = told(result)["certificate"]
    assert [certificate["ledger"]["head"]] == charges() and pufferdp.verify(certificate).valid


def test_a_signature_that_fails(release: Verb, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was charged, made and lost."""
    keys(Path(), "hospital")
    monkeypatch.setattr(Signer, "sign", failing(ERRORS["a conversion"]))
    result = run(*release.asked("--out", "out.json", "--sign", "hospital.pem"))
    assert result.code == 1
    assert "the certificate could not be signed: ValueError" in result.err
    check_whole(json.loads(Path("out.json").read_text()), release)


@pytest.mark.parametrize("error", ["a conversion", "the engine"])
def test_an_error_between_the_charge_and_its_receipt(
    error: str, release: Verb, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a traceback that did not say that anything had been charged."""
    commit = SqliteStore._commit

    def made(self: SqliteStore, *arguments: Any) -> None:
        commit(self, *arguments)
        raise ERRORS[error]()

    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "_commit", made)
        result = run(*release.asked())
    assert result.code == 1
    assert SECRET not in result.err
    assert "ask with ledger show --charge " in result.err
    identity = result.err.split("--charge ")[1].split()[0].strip(".;\n'")
    with Ledger("books.db") as ledger:
        assert len(ledger.find(identity)) == 1
    monkeypatch.setattr(SqliteStore, "_commit", made)
    asked: dict[str, Any] = {"model": model_from_dict(CHAIN), "query": "histogram", "epsilon": 1.0}
    with pytest.raises(UnknownChargeError):
        pufferdp.release(Series("d.csv", "activity", order="rows"), **asked, ledger="books.db", dataset="week")


def test_a_ledger_that_cannot_be_closed(release: Verb, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    close = SqliteStore.close

    def closed(self: SqliteStore) -> None:
        close(self)
        raise ERRORS["a full disk"]()

    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "close", closed)
        result = run(*release.asked("--json"))
    assert result.code == 0
    check_whole(result.json, release)


def test_noise_that_does_not_load(release: Verb, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenDP was loaded behind the charge: a broken one cost the answer."""
    monkeypatch.setattr(noise, "_opendp", failing(lambda: ImportError(SECRET)))
    result = run(*release.asked())
    assert result.code == 2
    assert "OpenDP does not load" in result.err
    assert SECRET not in result.err
    assert charges() == []


@pytest.mark.parametrize("kind", ["raises", "no number"])
def test_a_function_that_fails_on_the_data(kind: str, release: Verb) -> None:
    """Its error, which quotes a record, was shown as the cause."""

    def own(chains: Any) -> Any:
        if kind == "raises":
            raise KeyError(f"{SECRET} is {np.asarray(chains[0])}")
        return SECRET

    query = Query.of_function(own, 1.0, 1)
    asked: dict[str, Any] = {"model": model_from_dict(CHAIN), "query": query, "epsilon": 1.0}
    series = Series("d.csv", "activity", order="rows")
    with pytest.raises(QueryError, match="the function failed on the data") as alone:
        pufferdp.release(series, **asked, mechanism="group")
    # What fails depends on the values, so that it is told after the charge.
    with pytest.raises(DeliveryError, match=r"charged \(row 1\).*the function failed on the data") as caught:
        pufferdp.release(series, **asked, mechanism="group", ledger="books.db", dataset="week")
    assert SECRET not in shown(alone.value) + shown(caught.value)
    assert len(charges()) == 1


def test_one_of_many_people_whose_noise_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody was charged, and nobody got an answer."""
    verb, draw, calls = VERBS["fleet"], SystemSampler.discrete_laplace, [0]
    for words in verb.create:
        run(*words)

    def second(self: SystemSampler, exact: list[int], scale: float) -> list[int]:
        calls[0] += 1
        if calls[0] == 2:
            raise ERRORS["a conversion"]()
        return draw(self, exact, scale)

    monkeypatch.setattr(SystemSampler, "discrete_laplace", second)
    result = run(*verb.asked("--out", "out.json"))
    assert (result.code, SECRET in result.err) == (1, False)
    assert "data set 'week/bob' was charged (row 1), and then nothing was released" in result.err
    (made,) = json.loads(Path("out.json").read_text())["releases"]
    assert made["person"] == "ann" and pufferdp.verify(made["certificate"]).valid


class Broken(io.BytesIO):
    """A stream whose reader fails after some lines."""

    def __init__(self, error: Callable[[], Exception]) -> None:
        super().__init__(b"activity\n" + b"rest\nactive\n" * 5)
        self._error = error

    def __iter__(self) -> Iterator[bytes]:
        yield from self.getvalue().splitlines(keepends=True)
        raise self._error()

    def read(self, size: int | None = -1) -> bytes:
        return super().read(size) or self._fail()

    read1 = read

    def readline(self, size: int | None = -1) -> bytes:
        return super().readline(size) or self._fail()

    def _fail(self) -> bytes:
        raise self._error()


@pytest.mark.parametrize("error", ERRORS)
def test_a_reader_that_fails_in_the_middle_of_a_stream(error: str, release: Verb) -> None:
    """What the system says of it was taken from the error, whoever had written that; and the cause was chained."""
    sink = io.BytesIO()
    with pytest.raises(DeliveryError, match="the stream ended after") as caught:
        pufferdp.flip_stream(
            Broken(ERRORS[error]),
            sink,
            model=model_from_dict(CHAIN),
            column="activity",
            epsilon=1.0,
            ledger="books.db",
            dataset="week",
        )
    assert SECRET not in shown(caught.value)
    assert caught.value.result is not None


def test_what_nobody_can_be_told_of_is_told_without_words(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors in threads, and in objects that are taken apart, are printed by Python itself."""
    try:
        raise ERRORS["a conversion"]()
    except ValueError as error:
        _unraised(type("Hook", (), {"exc_value": error})())
    assert capsys.readouterr().err == "pufferdp: an error in pufferdp, ValueError\n"
    assert unexpected.system_reason(OSError(SECRET)) == "OSError"


# ---- everywhere ----

ANYWHERE = ("a conversion", "the engine")
"""Errors whose words may repeat data. Those of the system and of memory, anywhere but in a reader of one's own, have
their own words, which are told."""
SOURCE = os.path.dirname(pufferdp.__file__)
MACHINERY = ("interrupts.py", "signs.py", "unexpected.py")
"""What holds signals back, teaches the terminal its signs and tells of errors: only calls of the system in it fail."""


class Fault:
    """Raises at one call of one of our functions; counts them all."""

    def __init__(self, place: tuple[Any, int] | None, error: Callable[[], Exception]) -> None:
        self.place, self.error, self.calls, self.raised = place, error, Counter[Any](), False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        # An error in a generator expression may come when it is taken apart, which is no call.
        if event != "call" or not code.co_filename.startswith(SOURCE) or code.co_name == "<genexpr>":
            return
        if code.co_filename.endswith(MACHINERY):
            return
        key = code.co_filename, code.co_firstlineno
        self.calls[key] += 1
        if self.place == (key, self.calls[key]):
            self.raised = True
            sys.setprofile(None)
            raise self.error()


def run_with(fault: Fault, run: Run, *words: str) -> Result:
    sys.setprofile(fault)
    try:
        return run(*words)
    finally:
        sys.setprofile(None)


@pytest.mark.slow
@pytest.mark.parametrize("name", VERBS)
def test_an_error_at_any_call(name: str, run: Run, folder: Path) -> None:
    """At the first and the last call of functions drawn at random: nothing repeated, no charge untold, none lost."""
    verb, draw = VERBS[name], random.Random(22)
    words = verb.asked("--certificate", "c.json") if verb.series else verb.asked("--out", "out.json")
    for create in verb.create:
        assert run(*create).code == 0
    fresh = {path.name: path.read_bytes() for path in folder.iterdir()}

    def again() -> None:
        for path in folder.iterdir():
            if path.is_file():
                path.unlink()
        for file, content in fresh.items():
            (folder / file).write_bytes(content)

    run(*words)  # so that what is kept in memory is there from the start
    again()
    probe = Fault(None, ERRORS["memory"])
    assert run_with(probe, run, *words).code == 0
    places = [(key, 1) for key in probe.calls] + [(key, count) for key, count in probe.calls.items() if count > 1]
    told_of = 0
    for place in draw.sample(places, 12):
        again()
        fault = Fault(place, ERRORS[draw.choice(ANYWHERE)])
        result = run_with(fault, run, *words)
        if not fault.raised:
            continue
        assert SECRET not in result.out + result.err, place
        charged = len(charges())
        assert charged in (0, len(verb.create)), place
        if not charged and result.code:
            assert result.out == "" and {path.name for path in folder.iterdir()} <= {
                *fresh,
                "books.db-wal",
                "books.db-shm",
            }
        if charged and result.code:
            assert "charge" in result.err, (place, result.err)
        told_of += result.code != 0
    assert told_of > 2
