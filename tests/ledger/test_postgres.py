"""A ledger on a server: ``wait`` and charges hold, whatever the server's defaults, its locks and the network do."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pufferdp import Charge, Ledger, LedgerError, UnknownChargeError
from tests.ledger.conftest import fresh_database
from tests.ledger.races import CHAIN
from tests.proxy import proxy

pytestmark = pytest.mark.servers

SMALL = Charge(kind="dp", dp_loss=0.01, longest=50)


@pytest.fixture
def url(postgres: str) -> str:
    """A ledger with one data set, and one charge in it."""
    made = fresh_database(postgres)
    with Ledger(made, create=True) as ledger:
        ledger.create("week", model=CHAIN, adversary="dp", budget=100.0)
        ledger.charge("week", SMALL)
    return made


def releases(url: str) -> int:
    with Ledger(url) as ledger:
        assert ledger.verify().valid
        return ledger.dataset("week").releases


@contextmanager
def session(url: str) -> Iterator[Any]:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@contextmanager
def ends() -> Iterator[None]:
    """What stands in it does not wait for ever: it has so much time that only a hang needs more."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 100


def test_a_lock_that_somebody_holds_is_waited_for_and_no_longer(url: str) -> None:
    with Ledger(url, wait=2) as ledger, session(url) as other, other.transaction():
        other.execute("SELECT * FROM ledger_datasets FOR UPDATE")
        began = time.monotonic()
        with ends(), pytest.raises(LedgerError, match="busy for 2 s, and nothing was charged"):
            ledger.charge("week", SMALL)
        assert time.monotonic() - began >= 1.9
    assert releases(url) == 1


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
def test_defaults_of_the_server_do_not_matter(url: str, level: str) -> None:
    """Ten threads, each with a connection; with the server's own level all but one at a time would fail."""
    with session(url) as other:
        name = url.rpartition("/")[2]
        for setting in (
            f"default_transaction_isolation = '{level}'",
            "default_transaction_read_only = on",
            "default_transaction_deferrable = on",
            "statement_timeout = '300ms'",
            "lock_timeout = '300ms'",
            "idle_in_transaction_session_timeout = '300ms'",
            "synchronous_commit = off",
        ):
            other.execute(f"ALTER DATABASE {name} SET {setting}")
    failed = []

    def work() -> None:
        try:
            with Ledger(url) as ledger:
                for _ in range(5):
                    ledger.charge("week", SMALL)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(10)]
    with Ledger(url) as ledger, ledger.store.writing() as rows:
        list(rows.rows("SELECT * FROM ledger_datasets FOR UPDATE"))
        for thread in threads:
            thread.start()
        time.sleep(0.7)  # longer than the server's own timeouts
    for thread in threads:
        thread.join()
    assert not failed
    assert releases(url) == 51


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_a_transaction_that_the_server_gave_up_is_tried_again(url: str, state: str) -> None:
    """Twice a serialisation failure or a deadlock, then none."""
    with session(url) as other:
        other.execute("CREATE SEQUENCE attempts")
        other.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('attempts') < 3 THEN "
            f"RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END IF; RETURN NEW; END $$"
        )
        other.execute("CREATE TRIGGER t BEFORE INSERT ON ledger_entries FOR EACH ROW EXECUTE FUNCTION fail()")
        with Ledger(url) as ledger:
            assert ledger.charge("week", SMALL).position == 2
            assert ledger.verify().problems == ("no ledger has the trigger 't', and the table 'ledger_entries' does",)
            other.execute("DROP TRIGGER t ON ledger_entries")
            assert ledger.verify().valid
    assert releases(url) == 2


def test_failures_without_end_are_given_up(url: str) -> None:
    with session(url) as other:
        other.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$"
        )
        other.execute("CREATE TRIGGER t BEFORE INSERT ON ledger_entries FOR EACH ROW EXECUTE FUNCTION fail()")
        with Ledger(url, wait=1) as ledger, ends(), pytest.raises(LedgerError, match="nothing was charged"):
            ledger.charge("week", SMALL)
        other.execute("DROP TRIGGER t ON ledger_entries")
    assert releases(url) == 1


@pytest.mark.parametrize(
    ("word", "action"),
    [
        (b"BEGIN", "lose"),
        (b"BEGIN", "pass"),
        (b"FOR UPDATE", "lose"),
        (b"INSERT INTO ledger_entries", "pass"),
        (b"UPDATE ledger_datasets", "pass"),
        (b"COMMIT\0", "lose"),
        (b"COMMIT\0", "pass"),
    ],
)
def test_a_connection_that_is_cut_is_replaced(
    url: str, word: bytes, action: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whether the commit arrived or not, the charge is made once, and its receipt is the row that is there."""
    with proxy(url) as (between, through), Ledger(through, wait=10) as ledger:
        before = between.connections
        between.once(word, action)
        receipt = ledger.charge("week", SMALL)
        assert between.connections > before
        assert receipt.position == 2
        assert receipt.identity is not None
        assert ledger.find(receipt.identity) == (receipt,)
        assert ledger.charge("week", SMALL).position == 3
        assert ledger.verify(receipt.head).valid
    assert releases(url) == 3
    assert len(capfd.readouterr().err.splitlines()) < 5


def test_reading_goes_on_after_the_server_cut_every_connection(url: str) -> None:
    with Ledger(url) as ledger:
        with session(url) as other:
            name = url.rpartition("/")[2]
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
                (name,),
            )
        assert ledger.dataset("week").releases == 1
        with ledger.store.writing() as rows:
            assert list(rows.rows("SELECT count(*) FROM ledger_entries")) == [(1,)]


def test_a_network_that_freezes_during_the_commit(url: str) -> None:
    """Nobody can tell whether it arrived. The error says so, and when the network is back the ledger can be asked."""
    with proxy(url) as (between, through), Ledger(through, wait=2) as ledger:
        between.once(b"COMMIT\0", "freeze")
        with ends(), pytest.raises(UnknownChargeError, match=r"ask with Ledger\.find\('mine'\)") as caught:
            ledger.charge("week", SMALL, identity="mine")
        assert caught.value.identity == "mine"
        between.thaw()
        assert ledger.find("mine") == ()
        assert ledger.charge("week", SMALL, identity="mine").position == 2
    assert releases(url) == 2


def test_a_network_that_freezes_before_the_commit(url: str) -> None:
    with proxy(url) as (between, through), Ledger(through, wait=2) as ledger:
        between.once(b"FOR UPDATE", "freeze")
        with ends(), pytest.raises(LedgerError, match="nothing was charged"):
            ledger.charge("week", SMALL)
        between.thaw()
        ledger.charge("week", SMALL)
    assert releases(url) == 2


@pytest.mark.skipif(os.getuid() != 0, reason="needs the right to stop a process of the server")
def test_a_server_process_that_is_stopped(url: str) -> None:
    """The system goes on answering for it, so that no timeout of the network ends the wait."""
    with Ledger(url, wait=2) as ledger:
        (pid,) = ledger.store.connection.execute("SELECT pg_backend_pid()").fetchone()
        os.kill(pid, signal.SIGSTOP)
        try:
            with ends(), pytest.raises(LedgerError, match="does not answer; nothing was charged"):
                ledger.charge("week", SMALL)
            with ends():
                assert ledger.dataset("week").releases == 1  # by another connection
            ledger.charge("week", SMALL)
        finally:
            os.kill(pid, signal.SIGCONT)
    assert releases(url) == 2


def test_whether_a_charge_was_made_is_not_answered_while_it_may_still_be(url: str) -> None:
    """The first attempt hangs just before its end: whoever asks waits for it, and is told in the end."""
    from pufferdp.ledger.store.postgres import _key

    with session(url) as other, Ledger(url, wait=1) as ledger:
        with other.transaction():
            other.execute("SELECT pg_advisory_xact_lock(%s)", (_key("mine"),))  # as the attempt does
            with ends(), pytest.raises(LedgerError, match="whether charge mine was made is not known: ask again"):
                ledger.find("mine")
        assert ledger.find("mine") == ()


def test_a_client_that_hangs_in_the_middle_of_a_charge_is_ended_by_the_server(url: str) -> None:
    """A computer that went to sleep, say. Others have their turn, and it is told that nothing was charged."""
    with Ledger(url, wait=1) as hanging, Ledger(url, wait=10) as ledger:

        def hang() -> None:
            with hanging.store.writing() as rows:
                list(rows.rows("SELECT * FROM ledger_datasets FOR UPDATE"))
                with ends():
                    ledger.charge("week", SMALL)

        with pytest.raises(LedgerError, match="nothing was charged"):
            hang()
    assert releases(url) == 2


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE ledger_entries ADD COLUMN note TEXT",
        "ALTER TABLE ledger_entries ALTER COLUMN created DROP NOT NULL",
        "ALTER TABLE ledger_entries ALTER COLUMN created SET DEFAULT 'yesterday'",
        "ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_identity_key",
        "ALTER TABLE ledger_problems ALTER COLUMN content TYPE varchar(50000)",
        "CREATE RULE r AS ON UPDATE TO ledger_datasets DO INSTEAD NOTHING",
        "CREATE POLICY p ON ledger_entries USING (position < 2)",
    ],
)
def test_a_changed_table_is_found(url: str, change: str) -> None:
    with session(url) as other, Ledger(url) as ledger:
        assert ledger.verify().valid
        other.execute(change)
        assert "a ledger makes it" in str(ledger.verify().problems) or "no ledger has" in str(ledger.verify().problems)
