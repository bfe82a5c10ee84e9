"""The tables of a ledger, in one place: how they are made, what they hold, and by what their rows are ordered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

VERSION: Final = 2
"""The version of the tables; a ledger of any other is rejected."""
STATEMENTS: Final = (
    "CREATE TABLE ledger_version (version BIGINT NOT NULL)",
    f"INSERT INTO ledger_version (version) VALUES ({VERSION})",
    "CREATE TABLE ledger_models (sha256 TEXT PRIMARY KEY, content TEXT NOT NULL)",
    "CREATE TABLE ledger_problems (sha256 TEXT PRIMARY KEY, content TEXT NOT NULL)",
    # Lists of people by their digest.
    "CREATE TABLE ledger_people (sha256 TEXT PRIMARY KEY, content TEXT NOT NULL)",
    # The normalised name is unique, so that no other spelling of a name gets a budget of its own.
    "CREATE TABLE ledger_datasets (name TEXT PRIMARY KEY, normalised TEXT NOT NULL UNIQUE, "
    "definition TEXT NOT NULL, state TEXT NOT NULL)",
    "CREATE TABLE ledger_entries (dataset TEXT NOT NULL, position BIGINT NOT NULL, created TEXT NOT NULL, "
    "problem TEXT NOT NULL, identity TEXT NOT NULL UNIQUE, hash TEXT NOT NULL, PRIMARY KEY (dataset, position))",
    # What single records were charged, which follows from the rows.
    "CREATE TABLE ledger_members (dataset TEXT NOT NULL, person TEXT NOT NULL, crowd BIGINT NOT NULL, "
    "PRIMARY KEY (dataset, person))",
    "CREATE INDEX ledger_crowds ON ledger_members (dataset, crowd)",
    "CREATE TABLE ledger_sums (dataset TEXT NOT NULL, quantity TEXT NOT NULL, crowd BIGINT NOT NULL, "
    "cut BYTEA NOT NULL, value DOUBLE PRECISION NOT NULL, PRIMARY KEY (dataset, quantity, crowd, cut))",
)
"""How the tables are made. SQLite keeps this text, and it is compared when a ledger is opened."""


@dataclass(frozen=True)
class Table:
    """A table of a ledger."""

    columns: tuple[str, ...]
    key: tuple[str, ...]
    """Its primary key; by these columns its rows are ordered in an export."""
    integers: tuple[str, ...] = ()
    """Columns that are whole numbers; those that are nothing else are text."""
    reals: tuple[str, ...] = ()
    """Columns that are doubles."""
    blobs: tuple[str, ...] = ()
    """Columns that are bytes."""
    unique: tuple[str, ...] = ()
    """Columns beside the key whose values no two rows share."""
    derived: bool = False
    """Whether it follows from the others, and is left out of an export."""

    def kind(self, column: str) -> str:
        """The type of a column: integer, real, blob or text."""
        kinds = {"integer": self.integers, "real": self.reals, "blob": self.blobs}
        return next((kind for kind, columns in kinds.items() if column in columns), "text")


TABLES: Final = {
    "ledger_version": Table(("version",), (), integers=("version",)),
    "ledger_models": Table(("sha256", "content"), ("sha256",)),
    "ledger_problems": Table(("sha256", "content"), ("sha256",)),
    "ledger_people": Table(("sha256", "content"), ("sha256",)),
    "ledger_datasets": Table(("name", "normalised", "definition", "state"), ("name",), unique=("normalised",)),
    "ledger_entries": Table(
        ("dataset", "position", "created", "problem", "identity", "hash"),
        ("dataset", "position"),
        integers=("position",),
        unique=("identity",),
    ),
    "ledger_members": Table(("dataset", "person", "crowd"), ("dataset", "person"), integers=("crowd",), derived=True),
    "ledger_sums": Table(
        ("dataset", "quantity", "crowd", "cut", "value"),
        ("dataset", "quantity", "crowd", "cut"),
        integers=("crowd",),
        reals=("value",),
        blobs=("cut",),
        derived=True,
    ),
}
"""Every table by name, in the order in which rows can be put in."""
