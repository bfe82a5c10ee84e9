"""A ledger in a file: what is on disk, who may read it, what a crash or a fork leaves behind."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pufferdp import Charge, Ledger
from pufferdp.basics.errors import LedgerError
from pufferdp.ledger.store.sqlite import SqliteStore
from tests.ledger.forks import exit_code, in_child, start_child
from tests.ledger.races import CHAIN

SMALL = Charge(kind="dp", dp_loss=0.01, longest=50)
GOLDEN = Path(__file__).parents[1] / "golden"
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with one data set, closed."""
    made = tmp_path / "books.db"
    with Ledger(made, create=True) as ledger:
        ledger.create("week", model=CHAIN, adversary="dp", budget=100.0)
    return made


def releases(path: Path) -> int:
    with Ledger(path) as ledger:
        assert ledger.verify().valid
        return ledger.dataset("week").releases


def told(pipe: int) -> bytes:
    """A byte from another process; nothing where none comes."""
    return os.read(pipe, 1) if select.select([pipe], [], [], 20)[0] else b""


def test_full_synchronous_and_a_log(path: Path) -> None:
    with Ledger(path) as ledger:
        connection = ledger.store.connection
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_the_log_is_on_disk_before_a_charge_returns(path: Path, tmp_path: Path) -> None:
    """Every write to the log is followed by a wait for the disk, before anybody is told."""
    script = f"""
    import os
    from pufferdp import Charge, Ledger
    with Ledger({str(path)!r}) as ledger:
        for _ in range(5):
            ledger.charge("week", Charge(kind="dp", dp_loss=0.01, longest=50))
            os.write(1, b"charged")
    """
    trace = ["strace", "-f", "-y", "-e", "trace=fdatasync,fsync,write,pwrite64", "-o", str(tmp_path / "trace")]
    done = subprocess.run([*trace, sys.executable, "-c", textwrap.dedent(script)], capture_output=True, timeout=60)
    if b"ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    dirty, told = False, 0
    for line in (tmp_path / "trace").read_text(errors="replace").splitlines():
        if re.search(r"pwrite64\(\d+<[^>]*-wal>", line):
            dirty = True
        elif re.search(r"(fdatasync|fsync)\(\d+<[^>]*-wal>\)\s+= 0", line):
            dirty = False
        elif '"charged"' in line:
            told += 1
            assert not dirty, "acknowledged before it was on disk"
    assert told == 5


def test_a_charge_is_in_the_file_itself_when_nobody_reads(path: Path, tmp_path: Path) -> None:
    """A log that is deleted takes no acknowledged charge with it."""
    with Ledger(path) as ledger:
        for n in range(1, 6):
            receipt = ledger.charge("week", SMALL)
            alone = tmp_path / f"alone{n}.db"
            shutil.copy(path, alone)
            with closing(sqlite3.connect(alone)) as copy:
                rows = copy.execute("SELECT position, hash FROM ledger_entries ORDER BY position").fetchall()
            assert len(rows) == n
            assert rows[-1] == (receipt.position, receipt.head)


def test_a_reader_keeps_charges_in_the_log_and_the_next_one_takes_them_in(path: Path, tmp_path: Path) -> None:
    with Ledger(path) as ledger, Ledger(path) as other:
        with other.store.reading() as session:
            assert list(session.rows("SELECT count(*) FROM ledger_entries")) == [(0,)]
            ledger.charge("week", SMALL)
            assert list(session.rows("SELECT count(*) FROM ledger_entries")) == [(0,)]  # one moment
        ledger.charge("week", SMALL)
        shutil.copy(path, tmp_path / "alone.db")
    assert releases(tmp_path / "alone.db") == 2


def test_nothing_is_left_beside_a_ledger_that_is_closed(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.charge("week", SMALL)
    assert sorted(p.name for p in path.parent.iterdir()) == ["books.db"]


@posix
def test_what_a_killed_process_left_in_the_log_counts(path: Path) -> None:
    def work() -> None:
        with Ledger(path) as ledger, Ledger(path) as other, other.store.reading() as session:
            list(session.rows("SELECT count(*) FROM ledger_entries"))  # so that it cannot be taken in
            for _ in range(7):
                ledger.charge("week", SMALL)
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(work) == -signal.SIGKILL
    assert Path(f"{path}-wal").stat().st_size > 0
    assert releases(path) == 7
    assert not Path(f"{path}-wal").exists()


def test_a_process_that_holds_the_ledger_too_long_is_not_waited_for(path: Path) -> None:
    with Ledger(path, wait=0.3) as ledger, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(LedgerError, match=r"busy for 0\.3 s, and nothing was charged"):
            ledger.charge("week", SMALL)
        assert time.monotonic() - began >= 0.3
        assert ledger.dataset("week").releases == 0  # reading waits for nobody
        other.execute("ROLLBACK")
        ledger.charge("week", SMALL)
        assert ledger.dataset("week").releases == 1


@posix
def test_a_disk_that_is_full(path: Path) -> None:
    """The charge is refused, nothing is charged, and the ledger goes on once there is room."""
    resource = pytest.importorskip("resource")

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with Ledger(path) as ledger:
            ledger.charge("week", SMALL)
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))
            with pytest.raises(LedgerError, match="cannot be used"):
                ledger.charge("week", SMALL)
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            assert ledger.dataset("week").releases == 1
            assert ledger.charge("week", SMALL).position == 2

    assert in_child(work) == 0
    assert releases(path) == 2


def test_a_ledger_with_a_rollback_journal_is_given_a_log(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    with Ledger(path) as ledger:
        ledger.charge("week", SMALL)
        assert ledger.store.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert releases(path) == 1


def test_a_database_that_is_no_ledger_is_left_as_it_is(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE t (a)")
        other.commit()
    before = (tmp_path / "other.db").read_bytes()
    with pytest.raises(LedgerError, match="holds no ledger"):
        Ledger(tmp_path / "other.db")
    assert (tmp_path / "other.db").read_bytes() == before


def test_a_file_system_without_shared_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's way with lock files has no shared memory either."""
    plain = SqliteStore._connect_with
    monkeypatch.setattr(SqliteStore, "_connect_with", lambda self, how: plain(self, how + "&vfs=unix-dotfile"))
    with pytest.raises(LedgerError, match="file system without shared memory"):
        Ledger(tmp_path / "books.db", create=True)


def test_a_ledger_of_version_0_1_goes_on(tmp_path: Path) -> None:
    """With what that version left beside it, which nobody touches."""
    path, beside = tmp_path / "books.db", [tmp_path / "books.db-queue", tmp_path / "books.db-queue.sock"]
    shutil.copy(GOLDEN / "ledger-v1.db", path)
    for leftover in beside:
        leftover.touch()
    with Ledger(path) as ledger:
        assert ledger.verify().valid
        before = ledger.dataset("answers") if "answers" in ledger.names() else ledger.dataset(ledger.names()[0])
        receipt = ledger.charge(before.name, Charge(kind="dp", dp_loss=1e-6, longest=2))
        assert (receipt.position, receipt.previous) == (before.position + 1, before.head)
        assert ledger.verify(head=before.head).valid
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([path.name, *(p.name for p in beside)])


def test_a_relative_path_and_another_folder(
    path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    with Ledger("books.db") as ledger:
        monkeypatch.chdir(tmp_path_factory.mktemp("other"))
        ledger.close()
        ledger.charge("week", SMALL)
    assert releases(path) == 1
    link = Path.cwd() / "link.db"
    link.symlink_to(path)
    assert releases(link) == 1


def test_a_file_that_is_gone_is_missed(path: Path) -> None:
    with Ledger(path, create=True) as ledger:
        ledger.close()
        path.unlink()
        with pytest.raises(LedgerError, match="moved, replaced or deleted"):
            ledger.charge("week", SMALL)
    assert not path.exists()


# Who may only read


@pytest.fixture
def shown() -> Iterator[Path]:
    """A ledger in a folder that everybody may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    with Ledger(folder / "books.db", create=True) as ledger:
        ledger.create("week", model=CHAIN, adversary="dp", budget=100.0)
        ledger.charge("week", SMALL)
    yield folder / "books.db"
    folder.chmod(0o755)
    shutil.rmtree(folder)


def as_reader(path: Path, work: Callable[[Ledger], None]) -> int:
    """What a user does who may not write the file."""
    path.chmod(0o444)

    def run() -> None:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        with Ledger(path) as ledger:
            work(ledger)

    return in_child(run)


def read_all(ledger: Ledger) -> None:
    assert ledger.dataset("week").releases == 1
    assert ledger.verify().valid
    with pytest.raises(LedgerError, match="cannot be written to by this user"):
        ledger.charge("week", SMALL)


@posix
@pytest.mark.parametrize("mode", [0o777, 0o555])
def test_who_may_only_read_leaves_nothing_behind(shown: Path, mode: int) -> None:
    shown.parent.chmod(mode)
    assert as_reader(shown, read_all) == 0
    assert [p.name for p in shown.parent.iterdir()] == ["books.db"]


@posix
def test_who_may_only_read_finds_bytes_after_the_last_page(shown: Path) -> None:
    with shown.open("ab") as out:
        out.write(b"x")

    def read(ledger: Ledger) -> None:
        assert ledger.verify().problems == ("the file has 1 bytes after its last page",)

    assert as_reader(shown, read) == 0


@posix
def test_a_reader_beside_a_writer(shown: Path) -> None:
    """The writer's last charge is in its log."""
    shown.parent.chmod(0o777)
    ready, done = os.pipe(), os.pipe()

    def write() -> None:
        with Ledger(shown) as ledger, Ledger(shown) as other:
            with other.store.reading() as session:
                list(session.rows("SELECT count(*) FROM ledger_entries"))
                ledger.charge("week", SMALL)
            os.write(ready[1], b"x")
            told(done[0])

    writer = start_child(write)
    assert told(ready[0]) == b"x"
    before = {p.name: p.stat().st_uid for p in shown.parent.iterdir()}
    assert len(before) == 3

    def read(ledger: Ledger) -> None:
        assert ledger.dataset("week").releases == 2
        assert ledger.verify().valid

    assert as_reader(shown, read) == 0
    assert {p.name: p.stat().st_uid for p in shown.parent.iterdir()} == before
    os.write(done[1], b"x")
    assert exit_code(writer) == 0
    shown.chmod(0o644)
    assert releases(shown) == 2
    for end in (*ready, *done):
        os.close(end)


@posix
def test_a_ledger_that_is_written_while_it_is_read_without_locks(shown: Path) -> None:
    shown.parent.chmod(0o777)

    def read(ledger: Ledger) -> None:
        def slowly() -> None:
            with ledger.store.reading() as session:
                list(session.rows("SELECT * FROM ledger_entries"))
                os.write(ready[1], b"x")
                os.read(done[0], 1)

        with pytest.raises(LedgerError, match="written to while it was read"):
            slowly()
        assert ledger.dataset("week").releases == 2  # a new look

    ready, done = os.pipe(), os.pipe()

    def write() -> None:
        told(ready[0])
        shown.chmod(0o644)
        time.sleep(0.02)  # past the grain of the file system's clock
        with Ledger(shown) as ledger:
            ledger.charge("week", SMALL)
        os.write(done[1], b"x")

    writer = start_child(write)
    assert as_reader(shown, read) == 0
    assert exit_code(writer) == 0
    for end in (*ready, *done):
        os.close(end)


@posix
@pytest.mark.parametrize("with_index", [True, False])
@pytest.mark.parametrize("mode", [0o777, 0o555])
def test_a_log_that_only_its_owner_can_take_in(shown: Path, with_index: bool, mode: int) -> None:
    """Left by a crash. Somebody who may only read sees what is in it, and leaves everything as it is."""

    def work() -> None:
        with Ledger(shown) as ledger, Ledger(shown) as other, other.store.reading() as session:
            list(session.rows("SELECT count(*) FROM ledger_entries"))
            ledger.charge("week", SMALL)
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(work) == -signal.SIGKILL
    if not with_index:
        Path(f"{shown}-shm").unlink()
    shown.parent.chmod(mode)
    before = {p.name: p.read_bytes() for p in shown.parent.iterdir() if not p.name.endswith("-shm")}

    def read(ledger: Ledger) -> None:
        assert ledger.dataset("week").releases == 2
        assert ledger.verify().valid
        with pytest.raises(LedgerError, match="cannot be written to by this user"):
            ledger.charge("week", SMALL)

    assert as_reader(shown, read) == 0
    assert {p.name: p.read_bytes() for p in shown.parent.iterdir() if not p.name.endswith("-shm")} == before
    shown.chmod(0o644)
    assert releases(shown) == 2


@pytest.mark.slow
@posix
@pytest.mark.parametrize("mode", [0o777, 0o555])
def test_an_old_ledger_is_shown_without_bringing_it_up_to_date(shown: Path, mode: int) -> None:
    """Its tables are brought up to date in memory."""
    shutil.copy(GOLDEN / "ledger-v1.db", shown)
    before = shown.read_bytes()
    shown.parent.chmod(mode)

    def read(ledger: Ledger) -> None:
        checked = ledger.verify()
        assert checked.valid, checked.problems
        assert checked.releases == 7
        assert ledger.find("nobody") == ()
        assert [ledger.dataset(name).name for name in ledger.names()] == list(ledger.names())

    assert as_reader(shown, read) == 0
    assert shown.read_bytes() == before
    assert [p.name for p in shown.parent.iterdir()] == ["books.db"]


def test_files_beside_a_ledger_have_its_permissions(path: Path) -> None:
    path.chmod(0o640)
    with Ledger(path) as ledger:
        ledger.charge("week", SMALL)
        beside = [p for p in path.parent.iterdir() if p != path]
        assert sorted(p.name for p in beside) == ["books.db-shm", "books.db-wal"]
        assert {stat.S_IMODE(p.stat().st_mode) for p in beside} == {0o640}


# Forks


@posix
def test_a_child_outlives_its_parent_and_loses_nothing(path: Path) -> None:
    """The parent had the ledger open. Were its connection still there, the child would hold no lock of its own, and
    whoever closes the ledger next would delete the log that the child writes to."""
    ready, done = os.pipe(), os.pipe()

    def parent() -> None:
        ledger = Ledger(path)
        ledger.charge("week", SMALL)
        if os.fork() == 0:
            with ledger, Ledger(path) as other, other.store.reading() as session:
                list(session.rows("SELECT count(*) FROM ledger_entries"))  # the log cannot be taken in
                ledger.dataset("week")  # connected
                os.write(ready[1], b"x")
                told(done[0])
                ledger.charge("week", SMALL)
                os.write(ready[1], b"y")
                told(done[0])
            os._exit(0)

    assert in_child(parent) == 0  # it has ended; its child has not
    assert told(ready[0]) == b"x"
    assert releases(path) == 1  # opened and closed: the last one, were it not for the child
    os.write(done[1], b"x")
    assert told(ready[0]) == b"y"
    assert releases(path) == 2
    os.write(done[1], b"x")
    for end in (*ready, *done):
        os.close(end)


@posix
def test_a_fork_in_the_middle_of_a_transaction_is_refused_in_the_child(path: Path) -> None:
    with Ledger(path) as ledger:
        with ledger.store.reading() as session:
            list(session.rows("SELECT count(*) FROM ledger_entries"))

            def work() -> None:
                with pytest.raises(LedgerError, match="was in use when this process was forked"):
                    ledger.charge("week", SMALL)
                with pytest.raises(LedgerError, match="was in use when this process was forked"):
                    Ledger(path)

            assert in_child(work) == 0
        ledger.charge("week", SMALL)
    assert releases(path) == 1
