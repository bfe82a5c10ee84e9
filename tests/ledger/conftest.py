"""A ledger of each kind to start from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger.servers import server, why_not

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server started for the tests."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with server() as url:
        yield url


def fresh_database(url: str) -> str:
    """The URL of an empty database on the server."""
    import psycopg

    name = f"ledger{next(_NUMBERS)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return url.replace("/postgres?", f"/{name}?")


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger can be made."""
    if request.param == "sqlite":
        return str(tmp_path / "books.db")
    return fresh_database(request.getfixturevalue("postgres"))
