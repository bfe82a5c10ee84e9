"""A ledger of each kind to start from."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.servers import postgres

__all__ = ["fresh_database", "place", "postgres"]

_NUMBERS = itertools.count()


def fresh_database(url: str) -> str:
    """The URL of an empty database on the server."""
    import psycopg

    name = f"ledger{next(_NUMBERS)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{url.removesuffix('postgres')}{name}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.servers)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger can be made."""
    if request.param == "sqlite":
        return str(tmp_path / "books.db")
    return fresh_database(request.getfixturevalue("postgres"))
