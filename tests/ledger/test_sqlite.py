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
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from pufferdp import Charge, Ledger
from pufferdp.basics.errors import LedgerError
from tests.ledger.forks import exit_code, in_child, start_child
from tests.ledger.races import CHAIN
from tests.ledger.test_moves import releases

SMALL = Charge(kind="dp", dp_loss=0.01, longest=50)
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with one data set, closed."""
    made = tmp_path / "books.db"
    with Ledger(made, create=True) as ledger:
        ledger.create("week", model=CHAIN, adversary="dp", budget=100.0)
    return made


def told(pipe: int) -> bytes:
    """A byte from another process; nothing where none comes."""
    return os.read(pipe, 1) if select.select([pipe], [], [], 20)[0] else b""


def test_full_synchronous_and_a_journal(path: Path) -> None:
    with Ledger(path) as ledger:
        connection = ledger.store.connection
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("truncate",)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_everything_is_on_disk_before_a_charge_returns(path: Path, tmp_path: Path) -> None:
    """In this order: the journal, the pages of the file, the empty journal; each is waited for before the next."""
    script = f"""
    import os
    from pufferdp import Charge, Ledger
    with Ledger({str(path)!r}) as ledger:
        for _ in range(5):
            ledger.charge("week", Charge(kind="dp", dp_loss=0.01, longest=50))
            os.write(1, b"charged")
    """
    calls = "trace=fdatasync,fsync,write,pwrite64,ftruncate,unlink"
    trace = ["strace", "-f", "-y", "-e", calls, "-o", str(tmp_path / "trace")]
    done = subprocess.run([*trace, sys.executable, "-c", textwrap.dedent(script)], capture_output=True, timeout=60)
    if b"ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    dirty, acknowledged, emptied = set[str](), 0, 0
    for line in (tmp_path / "trace").read_text(errors="replace").splitlines():
        if write := re.search(r"(pwrite64|ftruncate)\(\d+<([^>]*books\.db(?:-journal)?)>", line):
            if write[2].endswith("books.db"):
                assert f"{path}-journal" not in dirty, "a page was written before the journal was on disk"
            elif write[1] == "ftruncate":
                assert str(path) not in dirty, "the journal was emptied before the pages were on disk"
                emptied += 1
            dirty.add(write[2])
        elif synced := re.search(r"(?:fdatasync|fsync)\(\d+<([^>]*)>\)\s+= 0", line):
            dirty.discard(synced[1])
        elif '"charged"' in line:
            acknowledged += 1
            assert not dirty, "acknowledged before it was on disk"
    assert acknowledged == 5 and emptied >= 5


def test_a_charge_is_in_the_file_itself(path: Path, tmp_path: Path) -> None:
    """No file beside the ledger holds any of an acknowledged charge."""
    with Ledger(path) as ledger:
        for n in range(1, 6):
            receipt = ledger.charge("week", SMALL)
            alone = tmp_path / f"alone{n}.db"
            shutil.copy(path, alone)
            with closing(sqlite3.connect(alone)) as copy:
                rows = copy.execute("SELECT position, hash FROM ledger_entries ORDER BY position").fetchall()
            assert len(rows) == n
            assert rows[-1] == (receipt.position, receipt.head)


def test_a_reader_sees_one_moment_and_a_charge_waits_for_it(path: Path) -> None:
    with Ledger(path, wait=0.2) as ledger, Ledger(path) as other:
        with other.store.reading() as session:
            assert list(session.rows("SELECT count(*) FROM ledger_entries")) == [(0,)]
            with pytest.raises(LedgerError, match=r"busy for 0\.2 s, and nothing was charged"):
                ledger.charge("week", SMALL)
            assert list(session.rows("SELECT count(*) FROM ledger_entries")) == [(0,)]
        ledger.charge("week", SMALL)
    assert releases(path) == 1


def test_no_charge_waits_for_a_long_computation(path: Path) -> None:
    """Verify and export read a copy."""
    with Ledger(path, wait=0.2) as ledger, Ledger(path) as other, other.store.snapshot() as session:
        ledger.charge("week", SMALL)
        assert list(session.rows("SELECT count(*) FROM ledger_entries")) == [(0,)]
    assert releases(path) == 1


@posix
def test_files_beside_a_ledger_can_be_deleted_while_it_is_used(path: Path) -> None:
    """Every acknowledged charge is there afterwards, and no charge fails because of it."""
    ready, answers = os.pipe(), os.pipe()

    def work() -> None:
        with Ledger(path) as ledger:
            os.write(ready[1], b"x")
            for _ in range(15):
                os.write(answers[1], f"{ledger.charge('week', SMALL).head}\n".encode())

    children = [start_child(work) for _ in range(3)]
    for _ in children:
        assert told(ready[0]) == b"x"
    deleted, deadline = 0, time.monotonic() + 60
    while any(os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None for child in children):
        assert time.monotonic() < deadline
        for beside in ("-journal", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(f"{path}{beside}")
                deleted += 1
    assert [exit_code(child) for child in children] == [0, 0, 0]
    os.close(answers[1])
    with os.fdopen(answers[0]) as lines:
        heads = lines.read().split()
    assert len(heads) == len(set(heads)) == 45 and deleted
    with Ledger(path) as ledger:
        assert ledger.dataset("week").releases == 45
        assert all(ledger.verify(head).valid for head in (heads[0], heads[-1]))
    for end in ready:
        os.close(end)


@posix
def test_a_journal_that_a_crash_left_and_somebody_deleted(path: Path) -> None:
    """The charge was never acknowledged. Half of its pages are in the file: verify finds it, no charge is made on it,
    or nothing of the charge is there. There are never fewer charges than were acknowledged without a word."""
    with Ledger(path) as ledger:
        for _ in range(40):
            head = ledger.charge("week", SMALL).head
    whole = path.read_bytes()
    with Ledger(path) as ledger:
        ledger.charge("week", SMALL)
    after = path.read_bytes()
    page = 4096
    changed = [at for at in range(0, len(after), page) if after[at : at + page] != whole[at : at + page]]
    assert len(changed) >= 3
    for written in changed:
        content = bytearray(whole.ljust(len(after), b"\0"))
        content[written : written + page] = after[written : written + page]
        path.write_bytes(content)
        try:
            with Ledger(path) as ledger:
                problems = ledger.verify(head).problems
                spent = ledger.dataset("week").spent_dp
        except LedgerError:
            continue
        assert problems or spent >= 0.4 - 1e-9


def test_nothing_is_left_beside_a_ledger_that_is_closed(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.charge("week", SMALL)
    assert sorted(p.name for p in path.parent.iterdir()) == ["books.db"]


@posix
def test_a_charge_that_a_killed_process_had_not_finished_is_taken_back(path: Path) -> None:
    """The next one to open the ledger puts the old pages back, from the journal."""

    def work() -> None:
        with Ledger(path) as ledger:
            for _ in range(7):
                ledger.charge("week", SMALL)
            with ledger.store.writing() as session:
                session.run("PRAGMA cache_size = 1")
                session.run("PRAGMA cache_spill = 1")
                session.many("INSERT INTO ledger_people VALUES (?, ?)", [(str(n), "x" * 4000) for n in range(200)])
                os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(work) == -signal.SIGKILL
    assert Path(f"{path}-journal").stat().st_size > 0
    assert path.stat().st_size > 400_000  # pages of it are in the file
    assert releases(path) == 7
    assert not Path(f"{path}-journal").exists()


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


def test_a_ledger_that_somebody_gave_a_log_loses_it(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    with Ledger(path) as ledger:
        ledger.charge("week", SMALL)
        assert ledger.store.connection.execute("PRAGMA journal_mode").fetchone() == ("truncate",)
    assert releases(path) == 1


def test_a_database_that_is_no_ledger_is_left_as_it_is(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE t (a)")
        other.commit()
    before = (tmp_path / "other.db").read_bytes()
    with pytest.raises(LedgerError, match="holds no ledger"):
        Ledger(tmp_path / "other.db")
    assert (tmp_path / "other.db").read_bytes() == before


_ENDLESS = "WITH RECURSIVE n (a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n)"


@pytest.mark.parametrize(
    "statements",
    [
        [f"CREATE VIEW ledger_version AS {_ENDLESS} SELECT a AS version FROM n"],
        [
            "DROP TABLE ledger_models",
            f"CREATE VIEW ledger_models AS {_ENDLESS} SELECT a AS sha256, a AS content FROM n",
        ],
        ["CREATE TRIGGER t AFTER INSERT ON ledger_entries BEGIN DELETE FROM ledger_problems; END"],
        ["CREATE TABLE more (a)"],
    ],
)
def test_a_file_with_anything_but_the_tables_of_a_ledger_is_rejected(
    path: Path, tmp_path: Path, statements: list[str]
) -> None:
    """Before anything is read: a view may have no end."""
    place = tmp_path / "other.db" if "ledger_version" in statements[0] else path
    with closing(sqlite3.connect(place)) as other:
        for statement in statements:
            other.execute(statement)
        other.commit()
    with pytest.raises(LedgerError, match=r"is not as a ledger is made: (no ledger has|the table)"):
        Ledger(place)


def test_ctrl_c_ends_a_long_statement(path: Path) -> None:
    with Ledger(path) as ledger:

        def read() -> None:
            with ledger.store.reading():
                ledger.store._steps_left = 10**15
                threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
                ledger.store.connection.execute(f"{_ENDLESS} SELECT max(a) FROM n").fetchall()

        with pytest.raises(KeyboardInterrupt):
            read()
        assert ledger.charge("week", SMALL).position == 1


def test_a_statement_has_no_more_steps_than_the_file_has_bytes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pufferdp.ledger.store.sqlite._WATCHED", 1000)
    with Ledger(path) as ledger:
        with pytest.raises(LedgerError, match="pages lead in a circle"), ledger.store.reading() as session:
            list(session.rows(f"{_ENDLESS} SELECT max(a) FROM n"))
        assert ledger.charge("week", SMALL).position == 1


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


def as_reader(path: Path, work: Callable[[Ledger], None], opens: Callable[[], None] | None = None) -> int:
    """What a user does who may not write the file; ``opens`` is done in place of opening it."""
    path.chmod(0o444)

    def run() -> None:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        if opens is not None:
            opens()
            return
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
    shown.parent.chmod(0o777)
    ready, done = os.pipe(), os.pipe()

    def write() -> None:
        with Ledger(shown) as ledger:
            ledger.charge("week", SMALL)
            os.write(ready[1], b"x")
            told(done[0])

    writer = start_child(write)
    assert told(ready[0]) == b"x"
    before = {p.name: p.stat().st_uid for p in shown.parent.iterdir()}
    assert sorted(before) == ["books.db", "books.db-journal"]

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
@pytest.mark.parametrize("mode", [0o777, 0o555])
def test_a_journal_that_only_its_owner_can_take_back(shown: Path, mode: int) -> None:
    """Left by a crash in the middle of a charge. Who may only read is told so, and leaves everything as it is."""

    def work() -> None:
        with Ledger(shown) as ledger, ledger.store.writing() as session:
            session.run("PRAGMA cache_size = 1")
            session.many("INSERT INTO ledger_people VALUES (?, ?)", [(str(n), "x" * 4000) for n in range(200)])
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(work) == -signal.SIGKILL
    shown.parent.chmod(mode)
    before = {p.name: p.read_bytes() for p in shown.parent.iterdir()}

    def read() -> None:
        with pytest.raises(LedgerError, match="cut off by a crash; open it once with write permission"):
            Ledger(shown)

    assert as_reader(shown, lambda ledger: None, read) == 0
    assert {p.name: p.read_bytes() for p in shown.parent.iterdir()} == before
    shown.parent.chmod(0o777)
    shown.chmod(0o644)
    assert releases(shown) == 1


def test_files_beside_a_ledger_have_its_permissions(path: Path) -> None:
    path.chmod(0o640)
    with Ledger(path) as ledger:
        ledger.charge("week", SMALL)
        beside = [p for p in path.parent.iterdir() if p != path]
        assert [p.name for p in beside] == ["books.db-journal"]
        assert {stat.S_IMODE(p.stat().st_mode) for p in beside} == {0o640}


# Forks


@posix
def test_a_child_outlives_its_parent_and_loses_nothing(path: Path) -> None:
    """The parent had the ledger open. Were its connection still there, the child would hold no lock of its own."""
    ready, done = os.pipe(), os.pipe()

    def parent() -> None:
        ledger = Ledger(path)
        ledger.charge("week", SMALL)
        if os.fork() == 0:
            with ledger:
                ledger.dataset("week")  # connected
                os.write(ready[1], b"x")
                told(done[0])
                ledger.charge("week", SMALL)
                os.write(ready[1], b"y")
                told(done[0])
            os._exit(0)

    assert in_child(parent) == 0  # it has ended; its child has not
    assert told(ready[0]) == b"x"
    assert releases(path) == 1
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
