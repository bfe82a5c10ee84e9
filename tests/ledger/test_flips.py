"""Whatever is changed in the bytes of a ledger's file, or beside its tables, ``verify`` finds it, and in words."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.ledger.flips import change, make, verdict
from tests.ledger.test_tampering import found


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flips") / "books.db"
    make(path, 4)
    return path


def assert_all_found(original: Path, path: Path, places: list[int], seed: int) -> int:
    """No effective change of a byte passes, and none ends in anything but words; how many were effective."""
    masks, effective = random.Random(seed), 0
    for at in places:
        mask = masks.randrange(1, 256)
        matters = change(original, at, mask, path)
        said = verdict(path)
        assert said == "found" or (said == "valid" and not matters), (at, mask, said)
        effective += matters
    return effective


def test_an_unchanged_copy_is_valid(original: Path, tmp_path: Path) -> None:
    assert verdict(shutil.copy(original, tmp_path / "books.db")) == "valid"


def test_bytes_of_the_list_of_tables(original: Path, tmp_path: Path) -> None:
    """The first page: names and text of tables and indexes, where ``quick_check`` sees nothing."""
    size = original.read_bytes().index(b"CREATE TABLE ledger_version")
    places = random.Random(1).sample(range(size - 500, size + 80), 12)
    assert assert_all_found(original, tmp_path / "books.db", places, 1) >= 10


def test_bytes_of_an_index(original: Path, tmp_path: Path) -> None:
    """A name in an index that is not the one in the table."""
    content = original.read_bytes()
    with closing(sqlite3.connect(original)) as connection:
        sql = "SELECT rootpage FROM sqlite_master WHERE type = 'index'"
        roots = [page for (page,) in connection.execute(sql)]
    places = [(page - 1) * 4096 + 4096 - offset for page in roots for offset in (3, 9)]
    places = [at for at in places if content[at]]
    assert assert_all_found(original, tmp_path / "books.db", places, 2) >= 5


@pytest.mark.slow
def test_bytes_anywhere(original: Path, tmp_path: Path) -> None:
    """``python -m tests.ledger.flips`` tries every one."""
    size = original.stat().st_size
    places = [*range(0, 100, 6), *random.Random(3).sample(range(size), 60)]
    assert assert_all_found(original, tmp_path / "books.db", places, 3) >= 10


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("CREATE TABLE more (a)", "no ledger has the table 'more'"),
        ("CREATE VIEW v AS SELECT * FROM ledger_entries", "no ledger has the view 'v'"),
        ("CREATE INDEX i ON ledger_entries (created)", "no ledger has the index 'i'"),
        (
            "CREATE TRIGGER t AFTER INSERT ON ledger_entries BEGIN DELETE FROM ledger_problems; END",
            "no ledger has the trigger 't'",
        ),
        ("ANALYZE", "no ledger has the table 'sqlite_stat1'"),
        ("ALTER TABLE ledger_entries ADD COLUMN note TEXT", "'ledger_entries' is not as a ledger makes it"),
        ("DROP TABLE ledger_people", "is missing"),
        ("PRAGMA user_version = 7", "user version is 7"),
        ("PRAGMA application_id = 7", "application id is 7"),
        ("UPDATE ledger_models SET content = CAST(content AS BLOB)", "value of another type"),
        ("UPDATE ledger_version SET rowid = 5", "version is written as"),
    ],
)
def test_what_does_not_belong_there(original: Path, tmp_path: Path, change: str, words: str) -> None:
    path = Path(shutil.copy(original, tmp_path / "books.db"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(change)
    problems = found(path)
    assert problems
    assert any(word in problems[0] for word in words.split("|")), problems


def test_a_table_whose_text_was_edited(original: Path, tmp_path: Path) -> None:
    """A type that lets numbers in; SQLite's own check has nothing to say about it."""
    path = Path(shutil.copy(original, tmp_path / "books.db"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, 'state TEXT', 'state BLOB')")
    assert "the table 'ledger_datasets' is not as a ledger makes it" in found(path)[0]


def test_bytes_after_the_last_page(original: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(original, tmp_path / "books.db"))
    with path.open("ab") as out:
        out.write(b"x" * 4096)
    assert found(path) == ("the file has 4096 bytes after its last page",)


def test_a_free_page_that_holds_something(original: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(original, tmp_path / "books.db"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE more (a)")
        connection.execute("INSERT INTO more VALUES (zeroblob(20000))")
        connection.execute("DROP TABLE more")
    assert not found(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("CREATE TABLE more (a)")
        connection.execute("INSERT INTO more VALUES (randomblob(20000))")
        connection.execute("DROP TABLE more")
    assert "belongs to no table, and is not empty" in found(path)[0]
