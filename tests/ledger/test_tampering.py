"""Whatever is changed in the rows of a ledger, ``verify`` finds it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp import Charge, Ledger, LedgerError, MarkovChain, release
from pufferdp.ledger import hash_chain
from pufferdp.ledger.charge import flip_charge
from pufferdp.ledger.store.schema import TABLES
from pufferdp.ledger.totals import State
from pufferdp.publish.noise import SeededSampler

CHAIN = MarkovChain(transition=[[0.7, 0.3], [0.4, 0.6]], states=["rest", "active"])
FRAME = pd.DataFrame({"state": ["rest", "active", "active", "rest", "rest"]})


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two data sets, six rows, four different charges."""
    path = tmp_path_factory.mktemp("ledger") / "books.db"
    with Ledger(path, create=True) as ledger:
        ledger.create("a", model=CHAIN, adversary="bdp", budget=5.0)
        ledger.create("b", model=CHAIN, adversary="pufferfish", budget=5.0)
        asked = {"model": CHAIN, "column": "state", "query": "count:active", "mechanism": "group"}
        for epsilon in (0.5, 0.5, 1.0):
            release(FRAME, **asked, epsilon=epsilon, ledger=ledger, dataset="a", sampler=SeededSampler(1))
        ledger.charge("a", flip_charge([[0.6, 0.4], [0.4, 0.6]], longest=5))
        ledger.charge("b", Charge(kind="fit", dp_loss=0.5, longest=5, facts={"lipschitz": 4.0, "scale": 8.0}))
        ledger.charge("b", Charge(kind="dp", dp_loss=0.1, longest=5))
        assert ledger.verify().valid
    return path


@contextmanager
def copied(original: Path) -> Iterator[tuple[Path, sqlite3.Connection]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "books.db"
        shutil.copy(original, path)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            yield path, connection


def found(path: Path, head: str | None = None) -> tuple[str, ...]:
    """What is wrong with a ledger: problems, or that it cannot be opened at all."""
    try:
        with Ledger(path) as ledger:
            return ledger.verify(head).problems
    except LedgerError as error:
        return (str(error),)


def cells(path: Path) -> list[tuple[str, int, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return [
            (table, rowid, column)
            for table, described in TABLES.items()
            for (rowid,) in connection.execute(f"SELECT rowid FROM {table}")
            for column in described.columns
        ]


@given(st.data())
def test_every_edit_of_one_byte(original: Path, data: st.DataObject) -> None:
    table, rowid, column = data.draw(st.sampled_from(cells(original)))
    with copied(original) as (path, connection):
        (value,) = connection.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (rowid,)).fetchone()
        if isinstance(value, int):
            changed: object = value ^ (1 << data.draw(st.integers(0, 62)))
            sql = f"UPDATE OR REPLACE {table} SET {column} = ? WHERE rowid = ?"
        else:
            raw = bytearray(value.encode())
            at = data.draw(st.integers(0, len(raw) - 1))
            raw[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != raw[at]))
            changed = bytes(raw)
            sql = f"UPDATE OR REPLACE {table} SET {column} = CAST(? AS TEXT) WHERE rowid = ?"
        connection.execute(sql, (changed, rowid))
        connection.close()
        assert found(path), (table, column, value, changed)


def test_an_unchanged_copy_is_valid(original: Path) -> None:
    with copied(original) as (path, connection):
        connection.close()
        assert not found(path)


def content_of(connection: sqlite3.Connection, problem: object) -> str:
    sql = "SELECT content FROM ledger_problems WHERE sha256 = ?"
    return str(connection.execute(sql, (problem,)).fetchone()[0])


def identity_of(connection: sqlite3.Connection, name: str, position: object) -> str:
    sql = "SELECT identity FROM ledger_entries WHERE dataset = ? AND position = ?"
    return str(connection.execute(sql, (name, position)).fetchone()[0])


def rows_of(connection: sqlite3.Connection, name: str) -> list[tuple[object, ...]]:
    sql = "SELECT position, created, problem, hash FROM ledger_entries WHERE dataset = ? ORDER BY position"
    return list(connection.execute(sql, (name,)))


@pytest.mark.parametrize("first", range(1, 5))
@pytest.mark.parametrize("second", range(1, 5))
@pytest.mark.parametrize("with_hash", [True, False])
def test_every_swap(original: Path, first: int, second: int, with_hash: bool) -> None:
    with copied(original) as (path, connection):
        rows = {row[0]: row[1:] for row in rows_of(connection, "a")}
        for at, content in ((first, rows[second]), (second, rows[first])):
            columns = "created = ?, problem = ?" + (", hash = ?" if with_hash else "")
            values = (*content[: 3 if with_hash else 2], at)
            connection.execute(f"UPDATE ledger_entries SET {columns} WHERE dataset = 'a' AND position = ?", values)
        connection.close()
        # Two rows alike but for their hashes: to swap all but the hash changes nothing.
        same = rows[first] == rows[second] or (not with_hash and rows[first][:2] == rows[second][:2])
        assert bool(found(path)) is not same


@pytest.mark.parametrize(("name", "position"), [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 1), ("b", 2)])
@pytest.mark.parametrize("closed_up", [True, False])
def test_every_removed_row(original: Path, name: str, position: int, closed_up: bool) -> None:
    with copied(original) as (path, connection):
        connection.execute("DELETE FROM ledger_entries WHERE dataset = ? AND position = ?", (name, position))
        if closed_up:
            sql = "UPDATE ledger_entries SET position = position - 1 WHERE dataset = ? AND position > ?"
            connection.execute(sql, (name, position))
        connection.close()
        assert found(path)


@pytest.mark.parametrize("kept", range(4))
def test_every_dropped_tail_with_the_head_at_hand(original: Path, kept: int) -> None:
    """Cut off and made consistent: nothing in the ledger itself can tell, the head in a certificate can."""
    with copied(original) as (path, connection):
        rows = rows_of(connection, "a")
        (definition,) = connection.execute("SELECT definition FROM ledger_datasets WHERE name = 'a'").fetchone()
        state = State(hash_chain.digest(definition), json.loads(definition)["model"])
        for position, created, problem, head in rows[:kept]:
            content = content_of(connection, problem)
            identity = identity_of(connection, "a", position)
            assert hash_chain.link(state.head, position, created, problem, identity) == head
            state = state.after(Charge.from_content(content, state.model, "bdp"), str(head))
        connection.execute("DELETE FROM ledger_entries WHERE dataset = 'a' AND position > ?", (kept,))
        connection.execute("UPDATE ledger_datasets SET state = ? WHERE name = 'a'", (state.to_json(),))
        connection.close()
        assert not found(path)
        for position, _, _, head in rows:
            assert bool(found(path, str(head))) is (position > kept)


def test_a_data_set_that_was_taken_out(original: Path) -> None:
    with copied(original) as (path, connection):
        head = str(rows_of(connection, "a")[-1][3])
        connection.execute("DELETE FROM ledger_datasets WHERE name = 'a'")
        connection.execute("DELETE FROM ledger_entries WHERE dataset = 'a'")
        connection.close()
        assert not found(path)
        assert "cut off" in found(path, head)[0]


@pytest.mark.parametrize(("row", "key", "value"), [(1, "dp_loss", 0.01), (1, "sigma", 500.0), (4, "dp_loss", 0.01)])
def test_a_forger_who_mends_every_hash_is_found_by_the_charge(original: Path, row: int, key: str, value: float) -> None:
    """A charge made smaller, with digest, chain and totals computed anew: what it charges does not follow."""
    with copied(original) as (path, connection):
        rows = rows_of(connection, "a")
        (definition,) = connection.execute("SELECT definition FROM ledger_datasets WHERE name = 'a'").fetchone()
        state = State(hash_chain.digest(definition), json.loads(definition)["model"])
        identities = {position: identity_of(connection, "a", position) for position, *_ in rows}
        connection.execute("DELETE FROM ledger_entries WHERE dataset = 'a'")
        for position, created, problem, _ in rows:
            content = content_of(connection, problem)
            if position == row:
                raw = json.loads(content)
                (raw if key == "dp_loss" else raw["facts"])[key] = value
                content = hash_chain.canonical_json(raw)
                problem = hash_chain.digest(content)
                connection.execute("INSERT INTO ledger_problems VALUES (?, ?)", (problem, content))
            head = hash_chain.link(state.head, int(position), str(created), str(problem), identities[position])
            state = state.after(Charge.from_content(content, state.model, "bdp"), head)
            values = ("a", position, created, problem, identities[position], head)
            connection.execute("INSERT INTO ledger_entries VALUES (?, ?, ?, ?, ?, ?)", values)
        connection.execute("UPDATE ledger_datasets SET state = ? WHERE name = 'a'", (state.to_json(),))
        connection.close()
        problems = found(path)
        assert len(problems) == 1
        assert "recomputed it is" in problems[0]


def test_a_ledger_over_its_budget_is_found(original: Path) -> None:
    """Somebody raises nothing but writes a row that the ledger would have refused."""
    with copied(original) as (path, connection):
        (text,) = connection.execute("SELECT state FROM ledger_datasets WHERE name = 'a'").fetchone()
        state = State.from_json(text)
        charge = Charge(kind="dp", dp_loss=40.0, longest=5)
        head = hash_chain.link(state.head, 5, "2026-01-01T00:00:00+00:00", charge.problem, "x")
        connection.execute("INSERT INTO ledger_problems VALUES (?, ?)", (charge.problem, charge.content))
        values = ("a", 5, "2026-01-01T00:00:00+00:00", charge.problem, "x", head)
        connection.execute("INSERT INTO ledger_entries VALUES (?, ?, ?, ?, ?, ?)", values)
        after = state.after(charge, head).to_json()
        connection.execute("UPDATE ledger_datasets SET state = ? WHERE name = 'a'", (after,))
        connection.close()
        assert "over the budget 5" in found(path)[0]


def test_a_head_that_is_no_hash(original: Path) -> None:
    with Ledger(original) as ledger, pytest.raises(LedgerError, match="64 hexadecimal digits"):
        ledger.verify("abc")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ledger_entries SET created = '2020-01-01T00:00:00+00:00' WHERE position = 2",
        "UPDATE ledger_datasets SET definition = replace(definition, '\"budget\":5', '\"budget\":6')",
        "UPDATE ledger_problems SET content = replace(content, '0.1', '0.2')",
        "DELETE FROM ledger_entries WHERE position = 1",
        "UPDATE ledger_models SET content = replace(content, '0.7', '0.8')",
    ],
)
def test_on_a_server_as_well(postgres: str, change: str) -> None:
    from tests.ledger.conftest import fresh_database

    with Ledger(fresh_database(postgres), create=True) as ledger:
        ledger.create("a", model=CHAIN, adversary="bdp", budget=5.0)
        for _ in range(3):
            ledger.charge("a", Charge(kind="dp", dp_loss=0.1, longest=5))
        assert ledger.verify().valid
        with ledger.store.writing() as session:
            session.run(change)
        assert not ledger.verify().valid
