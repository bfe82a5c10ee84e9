"""A charge has an identity: it can be asked for, and is not made twice."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from pufferdp import Charge, Ledger, LedgerError, ParameterError, RefusedError, UnknownChargeError, release, verify
from pufferdp.ledger.history import export_ledger, import_ledger, read_export
from pufferdp.ledger.identity import new_identity
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.noise import SeededSampler
from tests.ledger.races import CHAIN

SMALL = Charge(kind="dp", dp_loss=0.01, longest=50)
OTHER = Charge(kind="dp", dp_loss=0.02, longest=50)


@pytest.fixture
def ledger(place: str) -> Iterator[Ledger]:
    with Ledger(place, create=True) as made:
        made.create("week", model=CHAIN, adversary="dp", budget=1.0)
        made.create("month", model=CHAIN, adversary="dp", budget=1.0)
        yield made


def test_every_charge_has_one_and_is_found_by_it(ledger: Ledger, place: str) -> None:
    receipts = [ledger.charge("week", SMALL) for _ in range(3)]
    assert len({receipt.identity for receipt in receipts}) == 3
    with Ledger(place) as other:
        for receipt in receipts:
            assert receipt.identity is not None
            assert other.find(receipt.identity) == (receipt,)
        assert other.find(new_identity()) == ()
        assert other.verify().valid


def test_a_retry_does_not_charge_twice(ledger: Ledger, place: str) -> None:
    first = ledger.charge("week", SMALL, identity="daily-2026-11-16")
    with Ledger(place) as other:
        assert other.charge("week", SMALL, identity="daily-2026-11-16") == first
        ledger.charge("week", SMALL)
        assert other.charge("week", SMALL, identity="daily-2026-11-16") == first
        assert other.dataset("week").releases == 2
        assert other.verify().valid


def test_a_retry_of_charges_made_together(ledger: Ledger) -> None:
    charges = [("week", SMALL), ("month", OTHER), ("week", OTHER)]
    first = ledger.charge_many(charges, identity="fleet")
    assert [receipt.identity for receipt in first] == ["fleet/1", "fleet/2", "fleet/3"]
    assert ledger.charge_many(charges, identity="fleet") == first
    assert ledger.find("fleet") == tuple(first)
    assert ledger.find("fleet/2") == (first[1],)
    assert (ledger.dataset("week").releases, ledger.dataset("month").releases) == (2, 1)


@pytest.mark.parametrize(
    "charges", [[("month", SMALL)], [("week", OTHER)], [("week", SMALL), ("week", SMALL)]], ids=["name", "loss", "two"]
)
def test_an_identity_of_another_charge_is_refused(ledger: Ledger, charges: list[tuple[str, Charge]]) -> None:
    ledger.charge("week", SMALL, identity="mine")
    with pytest.raises(RefusedError, match="identity mine belongs to another charge: row 1 of data set 'week'"):
        ledger.charge_many(charges, identity="mine")
    assert (ledger.dataset("week").releases, ledger.dataset("month").releases) == (1, 0)


@pytest.mark.parametrize("identity", ["", "a/1", "-a", "ä", "a b", "a" * 101, "a\n", 7])
def test_identities_that_cannot_be(ledger: Ledger, identity: str) -> None:
    with pytest.raises(ParameterError, match="identity is"):
        ledger.charge("week", SMALL, identity=identity)
    assert ledger.dataset("week").releases == 0


def test_a_refused_charge_leaves_no_identity(ledger: Ledger) -> None:
    with pytest.raises(RefusedError):
        ledger.charge("week", Charge(kind="dp", dp_loss=3.0, longest=50), identity="dear")
    assert ledger.find("dear") == ()
    assert ledger.charge("week", SMALL, identity="dear").position == 1


def test_a_commit_that_fails_is_asked_for_by_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fails while it is waited for: the charge may be in the log or not, and the message says how to ask."""
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", model=CHAIN, adversary="dp", budget=1.0)

        class Failing:
            def __init__(self, connection: sqlite3.Connection) -> None:
                self._connection = connection

            def __getattr__(self, name: str) -> object:
                return getattr(self._connection, name)

            def execute(self, sql: str, *values: object) -> object:
                done = self._connection.execute(sql, *values)
                if sql == "COMMIT":
                    error = sqlite3.OperationalError("disk I/O error")
                    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
                    raise error
                return done

        ledger.store._connection = Failing(ledger.store.connection)
        with pytest.raises(UnknownChargeError, match=r"not known: ask with Ledger\.find\('mine'\)") as caught:
            ledger.charge("week", SMALL, identity="mine")
        assert (caught.value.identity, caught.value.exit_code) == ("mine", 1)
        ledger.store._connection = ledger.store._connection._connection
        (found,) = ledger.find("mine")
        assert ledger.charge("week", SMALL, identity="mine") == found
        assert ledger.dataset("week").releases == 1


def test_the_certificate_of_a_release_has_it(tmp_path: Path) -> None:
    frame = pd.DataFrame({"state": ["0", "1", "1", "0", "0"]})
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", model=CHAIN, adversary="bdp", budget=5.0)
        done = release(
            frame, model=CHAIN, column="state", query="count:1", epsilon=1.0, ledger=ledger, dataset="week",
            sampler=SeededSampler(1),
        )  # fmt: skip
        raw = done.certificate.to_dict()
        (receipt,) = ledger.find(raw["ledger"]["identity"])
    assert receipt.to_dict() == raw["ledger"]
    assert verify(raw).valid
    for changed in (
        raw["ledger"] | {"identity": "another"},
        {k: v for k, v in raw["ledger"].items() if k != "identity"},
    ):
        forged = {**raw, "ledger": changed}
        forged["sha256"] = content_hash(forged)
        assert not verify(forged).valid


def test_identities_are_exported_and_imported(ledger: Ledger, tmp_path: Path) -> None:
    first = ledger.charge("week", SMALL, identity="mine")
    export_ledger(ledger, tmp_path / "out.json")
    with Ledger(tmp_path / "copy.db", create=True) as copy:
        import_ledger(copy, read_export(tmp_path / "out.json"))
        assert copy.find("mine") == (first,)
        assert copy.charge("week", SMALL, identity="mine") == first
    raw = json.loads((tmp_path / "out.json").read_text())
    raw["entries"][0][4] = "yours"
    (tmp_path / "out.json").write_text(json.dumps(raw))
    with Ledger(tmp_path / "other.db", create=True) as other, pytest.raises(LedgerError, match="nothing was imported"):
        import_ledger(other, read_export(tmp_path / "out.json"))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ledger_entries SET identity = 'yours' WHERE position = 2",
        "UPDATE ledger_entries SET identity = '' WHERE position = 3",
    ],
)
def test_a_changed_identity_is_found(ledger: Ledger, change: str) -> None:
    for _ in range(3):
        ledger.charge("week", SMALL)
    assert ledger.verify().valid
    with ledger.store.writing() as session:
        session.run(change)
    assert not ledger.verify().valid


def test_a_ledger_without_a_charge_that_was_acknowledged_here_is_refused(tmp_path: Path) -> None:
    """The same file with older content: a backup that was copied over it while it was open."""
    path = tmp_path / "books.db"
    with Ledger(path, create=True) as ledger:
        ledger.create("week", model=CHAIN, adversary="dp", budget=1.0)
        ledger.charge("week", SMALL)
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(tmp_path / "backup.db")) as backup:
            source.backup(backup)
        ledger.charge("week", SMALL)
        with closing(sqlite3.connect(tmp_path / "backup.db")) as backup, closing(sqlite3.connect(path)) as target:
            backup.backup(target)
        with pytest.raises(LedgerError, match="row 2, which was charged here, is no longer in the ledger"):
            ledger.charge("week", SMALL)
        assert ledger.dataset("week").releases == 1
