"""A ledger's file that is moved, replaced or deleted while it is open: works, or is refused before the charge."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from pufferdp import Charge, Ledger, LedgerError, UnknownChargeError
from pufferdp.ledger.store.sqlite import SqliteStore
from tests.ledger.forks import in_child
from tests.ledger.races import CHAIN

SMALL = Charge(kind="dp", dp_loss=0.01, longest=50)


def make(path: Path) -> Path:
    with Ledger(path, create=True) as ledger:
        ledger.create("week", model=CHAIN, adversary="dp", budget=100.0)
    return path


def releases(path: Path) -> int:
    with Ledger(path) as ledger:
        assert ledger.verify().valid
        return ledger.dataset("week").releases


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    return make(tmp_path / "here" / "books.db")


def renamed(path: Path) -> Path:
    return path.rename(path.with_name("moved.db"))


def folder_renamed(path: Path) -> Path:
    return path.parent.rename(path.parent.with_name("there")) / path.name


def replaced(path: Path) -> Path:
    other = make(path.with_name("other.db"))
    shutil.copy(path, path.with_name("old.db"))
    return other.rename(path)


def replaced_by_its_backup(path: Path) -> Path:
    """The same rows, in another file."""
    shutil.copy(path, path.with_name("backup.db"))
    return path.with_name("backup.db").rename(path)


def deleted(path: Path) -> None:
    path.unlink()


MOVES = [renamed, folder_renamed, replaced, replaced_by_its_backup, deleted]


@pytest.mark.parametrize("move", MOVES)
def test_moved_between_two_charges(path: Path, move: Callable[[Path], Path | None]) -> None:
    """What was acknowledged is in the file, wherever it is now; nothing more is charged, there or anywhere else."""
    with Ledger(path) as ledger:
        ledger.charge("week", SMALL)
        now = move(path)
        with pytest.raises(LedgerError, match="moved, replaced or deleted while it was open, and nothing was charged"):
            ledger.charge("week", SMALL)
        with pytest.raises(LedgerError, match="nothing was read"):
            ledger.dataset("week")
        with pytest.raises(LedgerError, match="nothing was read"):
            ledger.find("x")
    if now is not None:
        assert releases(now) == (0 if move is replaced else 1)


@pytest.mark.parametrize("move", MOVES)
def test_moved_in_the_middle_of_a_charge(path: Path, move: Callable[[Path], Path | None]) -> None:
    """After the last look at the path and before the commit: the charge is not acknowledged."""
    with Ledger(path) as ledger:
        ledger.charge("week", SMALL)

        class MovingStore(SqliteStore):
            def _commit(self, connection: sqlite3.Connection, identity: str | None) -> None:
                move(path)
                super()._commit(connection, identity)

        ledger.store.__class__ = MovingStore
        with pytest.raises(UnknownChargeError, match=r"during a charge; whether charge mine was made is not known"):
            ledger.charge("week", SMALL, identity="mine")


def test_moved_and_moved_back(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.charge("week", SMALL)
        path.rename(path.with_name("moved.db"))
        with pytest.raises(LedgerError, match="nothing was charged"):
            ledger.charge("week", SMALL)
        path.with_name("moved.db").rename(path)
        ledger.charge("week", SMALL)
    assert releases(path) == 2


def test_replaced_while_nothing_was_connected(path: Path) -> None:
    """A connection is closed before a fork and opened again: it must lead to the same file."""
    with Ledger(path) as ledger:
        ledger.charge("week", SMALL)
        ledger.close()
        replaced(path)
        with pytest.raises(LedgerError, match="nothing was read or charged"):
            ledger.charge("week", SMALL)
    assert releases(path) == 0


def test_through_a_symbolic_link_that_is_turned(path: Path, tmp_path: Path) -> None:
    """The file is the one that the link led to when it was opened."""
    link, other = tmp_path / "link.db", make(tmp_path / "other.db")
    link.symlink_to(path)
    with Ledger(link) as ledger, Ledger(path) as direct:
        ledger.charge("week", SMALL)
        direct.charge("week", SMALL)
        link.unlink()
        link.symlink_to(other)
        ledger.charge("week", SMALL)
        ledger.close()
        ledger.charge("week", SMALL)
        assert direct.dataset("week").releases == 4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["here", "link.db", "other.db"]
    assert releases(other) == 0
    assert releases(path) == 4


def test_by_a_relative_path_before_a_change_of_folder(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is a ledger of the same name in the other folder."""
    (tmp_path / "there").mkdir()
    other = make(tmp_path / "there" / "books.db")
    monkeypatch.chdir(path.parent)
    with Ledger("books.db") as ledger:
        monkeypatch.chdir(other.parent)
        ledger.charge("week", SMALL)
        ledger.close()  # and opened again
        ledger.charge("week", SMALL)
        if hasattr(os, "fork"):
            assert in_child(lambda: ledger.charge("week", SMALL)) == 0
    assert releases(path) == (3 if hasattr(os, "fork") else 2)
    assert releases(other) == 0


def test_a_second_name_for_the_same_file_is_refused(path: Path) -> None:
    """Two names have two journals, and a crash under one is not seen under the other."""
    second = path.with_name("second.db")
    os.link(path, second)
    for name in (path, second):
        with pytest.raises(LedgerError, match="one of 2 hard links"):
            Ledger(name)
    second.unlink()
    with Ledger(path) as ledger:
        ledger.charge("week", SMALL)
        os.link(path, second)
        with pytest.raises(LedgerError, match="one of 2 hard links"):
            Ledger(second)
        ledger.charge("week", SMALL)
    second.unlink()
    assert releases(path) == 2


def test_no_ledger_is_made_beside_the_journal_of_one_that_was_moved(path: Path) -> None:
    """SQLite would delete the journal, without which the other ledger cannot be put right."""
    Path(f"{path}-journal").write_bytes(b"pages")
    path.rename(path.with_name("moved.db"))
    with pytest.raises(LedgerError, match=r"its journal .* does: the ledger was moved or deleted without it"):
        Ledger(path, create=True)
