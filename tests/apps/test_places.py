"""Places that are written: names for people, files moved without replacing, and signals that wait."""

from __future__ import annotations

import errno
import os
import signal
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp.apps.outputs import file_names
from pufferdp.basics import places
from pufferdp.basics.errors import ParameterError
from pufferdp.basics.interrupts import Interrupted, held, interruptible, until_delivered
from pufferdp.basics.places import check_place, named_files, normalised_name
from tests.ledger.forks import in_child


@given(st.lists(st.text(alphabet=st.characters(), max_size=300), unique=True, max_size=8))
def test_every_title_has_a_file_of_its_own(titles: list[str]) -> None:
    names = file_names(titles)
    assert list(names) == titles
    assert len({normalised_name(name) for name in names.values()}) == len(titles)
    for name in names.values():
        assert name.isascii() and name.endswith(".json") and len(name) <= 250
        assert not set(name) & set('/\\\0:*?"<>|\n') and name[0] != "."


@given(st.text(alphabet="aAbB. ", max_size=4), st.text(alphabet="aAbB. ", max_size=4))
def test_names_that_differ_in_case_differ_in_more(one: str, other: str) -> None:
    names = file_names({one, other})
    assert len({name.casefold() for name in names.values()}) == len({one, other})


@pytest.mark.parametrize("links", [True, False])
def test_a_file_is_moved_to_a_free_place_only(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    if not links:  # as on FAT
        monkeypatch.setattr(os, "link", refuse)
    source, target = tmp_path / "new", tmp_path / "target"
    source.write_text("new")
    target.write_text("old")
    with pytest.raises(FileExistsError):
        places.move(source, target, overwrite=False)
    assert (source.read_text(), target.read_text()) == ("new", "old")
    target.unlink()
    places.move(source, target, overwrite=False)
    assert target.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    source.write_text("newer")
    places.move(source, target, overwrite=True)
    assert target.read_text() == "newer"


def test_a_move_that_fails_leaves_no_empty_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    (tmp_path / "new").write_text("new")
    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(PermissionError):
        places.move(tmp_path / "new", tmp_path / "target", overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_half_a_file_is_never_seen(tmp_path: Path) -> None:
    place = check_place(tmp_path / "x.json", "out")

    def write(path: Path) -> None:
        path.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left"):
        place.fill(write)
    assert list(tmp_path.iterdir()) == []


def test_room_is_kept_and_given_back(tmp_path: Path) -> None:
    place = check_place(tmp_path / "x.csv", "out")
    with place.with_space(5000) as roomy:
        (reserved,) = tmp_path.iterdir()
        assert reserved.stat().st_size == 5000 and reserved.stat().st_blocks * 512 >= 5000
        assert reserved.suffix == ".csv"
        roomy.fill(lambda path: path.write_text("whole"))
        assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
    assert (tmp_path / "x.csv").read_text() == "whole"
    with check_place(tmp_path / "y.csv", "out").with_space(10):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


def test_case_is_told_apart_where_the_folder_does(tmp_path: Path) -> None:
    upper = check_place(tmp_path / "A.json", "out")
    lower = check_place(tmp_path / "a.json", "report")
    if places.ignores_case(tmp_path):
        with pytest.raises(ParameterError, match="the same file"):
            places.check_apart([upper, lower])
    else:
        places.check_apart([upper, lower])


def test_a_folder_that_ignores_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "ignores_case", lambda folder: True)
    pair = [check_place(tmp_path / name, name) for name in ("É.json", "e\u0301.json")]
    with pytest.raises(ParameterError, match="the same file"):
        places.check_apart(pair)
    (tmp_path / "books.db").touch()
    with pytest.raises(ParameterError, match="belongs to the ledger"):
        check_place(tmp_path / "BOOKS.DB-WAL", "out", ledger=str(tmp_path / "books.db"))


def test_the_files_of_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts" / "day=1").mkdir(parents=True)
    for name in ("a.csv", "b.csv", "w.sqlite", "parts/day=1/x.parquet"):
        (tmp_path / name).touch()
    assert named_files("a.csv") == ["a.csv"]
    assert named_files("[ab].csv") == ["a.csv", "b.csv"]
    assert named_files("parts") == ["parts/day=1/x.parquet"]
    assert named_files("w.sqlite::visits")[0] == "w.sqlite"
    for source in ("-", "postgresql://x/y?table=z", "none.csv", "x" * 5000, "a\0b", None, object()):
        assert named_files(source) == []
    with pytest.raises(ParameterError, match="the data itself"):
        check_place("b.csv", "out", overwrite=True, sources={"the data": named_files("*.csv")})
    with pytest.raises(ParameterError, match="not a possible file name"):
        check_place("a\0b", "out")


def test_signals_wait_for_the_end_of_the_block() -> None:
    steps = []

    def work() -> None:
        signal.raise_signal(signal.SIGINT)
        steps.append("still here")
        with held():
            signal.raise_signal(signal.SIGTERM)
        steps.append("and here")

    with pytest.raises(KeyboardInterrupt), held():
        work()
    assert steps == ["still here", "and here"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signals_wait_until_delivered() -> None:
    with until_delivered() as came:
        with held():
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert came == [signal.SIGTERM, signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt), until_delivered():
        signal.raise_signal(signal.SIGINT)  # nothing was held yet


def test_a_signal_ends_what_may_be_interrupted() -> None:
    with until_delivered() as came, held():
        with pytest.raises(Interrupted) as stop, interruptible():
            signal.raise_signal(signal.SIGTERM)
        assert stop.value.number == signal.SIGTERM
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(Interrupted), interruptible():
            raise AssertionError("it had come already")
        with pytest.raises(Interrupted), interruptible(), held():  # as a charge in the middle of a stream
            signal.raise_signal(signal.SIGINT)
    assert came == []


def test_other_threads_get_no_signals() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with until_delivered(), held(), interruptible():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    "name", ["QUIT", "USR1", "USR2", "ALRM", "VTALRM", "PROF", "XCPU", "IO", "SYS", "RTMIN", "TERM"]
)
def test_every_signal_that_ends_a_process_waits(name: str, tmp_path: Path) -> None:
    """Only three were held: any other ended the process in the middle of a charge, without a word."""
    number = getattr(signal, f"SIG{name}")

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(number, signal.SIG_DFL)
        with held():
            signal.raise_signal(number)
            (tmp_path / "delivered").touch()

    resource = pytest.importorskip("resource")
    assert in_child(work) == -number
    assert (tmp_path / "delivered").exists()
