"""A ledger's file that is moved, replaced or deleted while it is open: works, or is refused before the charge."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
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


def log_deleted(path: Path) -> Path:
    Path(f"{path}-wal").unlink()
    return path


MOVES = [renamed, folder_renamed, replaced, replaced_by_its_backup, deleted, log_deleted]


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
    if not path.exists():
        assert not any(p.stat().st_size for p in path.parent.glob("books.db-wal"))


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


def test_the_log_of_a_replaced_ledger_is_not_deleted_by_its_old_user(path: Path) -> None:
    """Whoever closes the old file last must not take the new one's log away, which has the same name."""
    old = Ledger(path)
    old.charge("week", SMALL)
    replaced(path)
    Path(f"{path}-wal").rename(path.with_name("old-wal"))
    Path(f"{path}-shm").rename(path.with_name("old-shm"))
    with Ledger(path) as new, Ledger(path) as reader:
        with reader.store.reading() as session:
            list(session.rows("SELECT count(*) FROM ledger_entries"))  # so that the charge stays in the log
            new.charge("week", SMALL)
            old.close()
            assert Path(f"{path}-wal").stat().st_size > 0
        new.charge("week", SMALL)
    assert releases(path) == 2


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
    """Two names have two logs, and a charge under one is not seen under the other."""
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


def test_no_ledger_is_made_beside_the_log_of_one_that_was_moved(path: Path) -> None:
    """SQLite would delete the log, and with it charges that were acknowledged."""
    with Ledger(path) as ledger, Ledger(path) as reader, reader.store.reading() as session:
        list(session.rows("SELECT count(*) FROM ledger_entries"))
        receipt = ledger.charge("week", SMALL)
        path.rename(path.with_name("moved.db"))
        with pytest.raises(LedgerError, match=r"its log .* does: the ledger was moved or deleted without it"):
            Ledger(path, create=True)
        path.with_name("moved.db").rename(path)
    with Ledger(path) as ledger:
        assert ledger.verify(receipt.head).valid


def test_what_only_a_head_can_find(path: Path, tmp_path: Path) -> None:
    """Somebody reads while a charge is made, and the machine stops; the log, which alone has the charge, is deleted."""
    with Ledger(path) as ledger, Ledger(path) as reader, reader.store.reading() as session:
        list(session.rows("SELECT count(*) FROM ledger_entries"))
        receipt = ledger.charge("week", SMALL)
        shutil.copy(path, tmp_path / "stopped.db")  # without the log
    with Ledger(tmp_path / "stopped.db") as stopped:
        assert stopped.verify().valid
        assert "cut off before it" in stopped.verify(receipt.head).problems[0]


def test_a_log_that_is_deleted_or_cut_after_a_crash(path: Path, tmp_path: Path) -> None:
    """Every charge that was acknowledged while nobody was reading is in the file itself; the last one was not."""
    with Ledger(path) as ledger, Ledger(path) as reader:
        for n in range(1, 4):
            with reader.store.reading() as session:
                list(session.rows("SELECT count(*) FROM ledger_entries"))  # so that the log cannot be emptied
                ledger.charge("week", SMALL)
            receipt = ledger.charge("week", SMALL)
            with reader.store.reading() as session:
                list(session.rows("SELECT count(*) FROM ledger_entries"))
                later = ledger.charge("week", SMALL)
                log = Path(f"{path}-wal").read_bytes()
                assert later.head != receipt.head and len(log) > 4096
                shutil.copy(path, tmp_path / "stopped.db")
            for length in (0, 32, 4096, len(log) - 1):
                copy = tmp_path / f"{n}-{length}.db"
                shutil.copy(tmp_path / "stopped.db", copy)
                Path(f"{copy}-wal").write_bytes(log[:length])
                with Ledger(copy) as stopped:
                    assert stopped.verify(receipt.head).valid
                    assert stopped.dataset("week").releases >= 3 * n - 1


def test_a_trigger_that_somebody_put_in_is_found(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TRIGGER t AFTER INSERT ON ledger_entries BEGIN DELETE FROM ledger_problems; END")
    with Ledger(path) as ledger:
        assert ledger.verify().problems == ("no ledger has the trigger 't', and this file does",)


def test_the_log_is_emptied_unless_there_is_much_to_do(path: Path) -> None:
    log = Path(f"{path}-wal")
    with Ledger(path) as ledger:
        ledger.charge("week", SMALL)
        assert log.stat().st_size == 0
        ledger.charge("week", SMALL)
        assert log.stat().st_size > 0  # kept for the next one, though all of it is in the file
        ledger.store._last -= 10
        ledger.charge("week", SMALL)
        assert log.stat().st_size == 0
    assert releases(path) == 3
