"""One process writes for all who wait: every request is settled, whoever dies."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pufferdp import Charge, Ledger
from pufferdp.basics.errors import LedgerError
from pufferdp.ledger.store.group_commit import Turns
from tests.ledger.races import CHAIN

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere everybody takes the lock in turn")


def writer(book: Path) -> Callable[[list[bytes]], list[bytes]]:
    """Writes requests to a file, a line for each batch, and says who wrote."""

    def write(requests: list[bytes]) -> list[bytes]:
        with book.open("ab") as out:
            out.write(b" ".join(requests) + b"\n")
        return [b"done " + request for request in requests]

    return write


def nothing() -> None:
    """No disk to wait for."""


@contextlib.contextmanager
def processes(work: Callable[[int], None], n: int) -> Iterator[list[multiprocessing.process.BaseProcess]]:
    def run(k: int) -> None:
        work(k)
        os._exit(0)

    made: list[multiprocessing.process.BaseProcess] = [
        multiprocessing.get_context("fork").Process(target=run, args=(k,)) for k in range(n)
    ]
    for one in made:
        one.start()
    try:
        yield made
    finally:
        for one in made:
            one.join(60)
            one.kill()


def test_every_request_is_settled_once_and_answered(tmp_path: Path) -> None:
    book, many, each = tmp_path / "book", 12, 40

    def work(k: int) -> None:
        turns = Turns(str(tmp_path / "queue"), 60)
        for n in range(each):
            request = f"{k}-{n}".encode()
            assert turns.share(request, writer(book), lambda: time.sleep(0.001)) == b"done " + request

    with processes(work, many) as workers:
        pass
    assert [one.exitcode for one in workers] == [0] * many
    written = book.read_bytes().split()
    assert sorted(written) == sorted(f"{k}-{n}".encode() for k in range(many) for n in range(each))
    assert len(book.read_bytes().splitlines()) < len(written)  # some were settled together


def test_who_has_no_answer_from_a_holder_that_was_killed_asks_again(tmp_path: Path) -> None:
    book, killed = tmp_path / "book", tmp_path / "killed"

    def write(requests: list[bytes]) -> list[bytes]:
        if len(requests) > 2 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.002)
        return writer(book)(requests)

    def work(k: int) -> None:
        turns = Turns(str(tmp_path / "queue"), 60)
        for n in range(20):
            request = f"{k}-{n}".encode()
            assert turns.share(request, write, nothing) == b"done " + request

    with processes(work, 8) as workers:
        pass
    assert killed.exists()
    assert sorted(one.exitcode or 0 for one in workers) == [-signal.SIGKILL] + [0] * 7
    answered = {f"{k}-{n}".encode() for k, one in enumerate(workers) if one.exitcode == 0 for n in range(20)}
    assert answered <= set(book.read_bytes().split())


def held(tmp_path: Path, meanwhile: Callable[[str], None]) -> bytes:
    """What a holder is answered when something happens at its socket while it writes."""

    def write(requests: list[bytes]) -> list[bytes]:
        meanwhile(str(tmp_path / "queue.sock"))
        return writer(tmp_path / "book")(requests)

    return Turns(str(tmp_path / "queue"), 2).share(b"own", write, nothing)


def test_an_heir_that_dies_lets_the_lock_go(tmp_path: Path) -> None:
    heirs = []

    def come(address: str) -> None:
        heir = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        heir.connect(address)
        heirs.append(heir)  # it sends nothing: it is slow

    assert held(tmp_path, come) == b"done own"
    with pytest.raises(LedgerError, match=r"busy for 0\.1 s"):  # the heir has the lock, though it has not looked
        Turns(str(tmp_path / "queue"), 0.1).share(b"next", writer(tmp_path / "book"), nothing)
    heirs[0].close()
    assert Turns(str(tmp_path / "queue"), 2).share(b"next", writer(tmp_path / "book"), nothing) == b"done next"


def test_who_gave_up_is_no_heir(tmp_path: Path) -> None:
    def come_and_go(address: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as gone:
            gone.connect(address)
            gone.send(b"gone")

    assert held(tmp_path, come_and_go) == b"done own"
    assert Turns(str(tmp_path / "queue"), 0.5).share(b"next", writer(tmp_path / "book"), nothing) == b"done next"


def test_a_transaction_that_fails_is_told_to_nobody_as_done(tmp_path: Path) -> None:
    asked = []

    def fail(requests: list[bytes]) -> list[bytes]:
        asked.append(requests)
        raise OSError("disk full")

    turns = Turns(str(tmp_path / "queue"), 2)
    with pytest.raises(OSError, match="disk full"):
        turns.share(b"own", fail, nothing)
    assert asked == [[b"own"]]
    assert turns.share(b"own", writer(tmp_path / "book"), nothing) == b"done own"  # and the lock was let go


def test_who_waits_for_the_lock_itself_gets_it(tmp_path: Path) -> None:
    """Making a data set is not kept waiting by those who charge without end."""
    done = threading.Event()

    def work(k: int) -> None:
        turns, until = Turns(str(tmp_path / "queue"), 60), time.monotonic() + 10
        while time.monotonic() < until and not (tmp_path / "stop").exists():
            turns.share(b"x", writer(tmp_path / "book"), nothing)

    with processes(work, 6):
        time.sleep(0.3)
        with Turns(str(tmp_path / "queue"), 8).turn():
            done.set()
        (tmp_path / "stop").touch()
    assert done.is_set()


def test_the_socket_of_another_user_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder for everybody, anybody could answer "done" where nothing was charged."""
    address = str(tmp_path / "queue.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
        other.bind(address)
        other.listen()

        def lie() -> None:
            with contextlib.suppress(OSError), other.accept()[0] as asker:
                asker.recv(100)
                asker.send(b"lie")

        liar = threading.Thread(target=lie)
        liar.start()
        mine = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: mine + 1)
        said = Turns(str(tmp_path / "queue"), 2).share(b"own", writer(tmp_path / "book"), nothing)
        liar.join()
    assert said == b"done own"


def test_a_ledger_with_a_long_name_is_charged_without_a_socket(tmp_path: Path) -> None:
    place = tmp_path / ("x" * 120)
    with Ledger(place, create=True) as ledger:
        assert not ledger.store.shares
        ledger.create("week", model=CHAIN, budget=1.0)
        ledger.charge("week", Charge(kind="dp", dp_loss=0.01, longest=50))
        assert ledger.dataset("week").releases == 1
        assert ledger.verify().valid
