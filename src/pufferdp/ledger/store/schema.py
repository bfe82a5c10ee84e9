"""The tables of a ledger, in one place: what they hold, by what their rows are ordered, and how they are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

VERSION: Final = 2
"""The version of the tables; a ledger of any other is rejected."""
TEXT: Final = "TEXT"
INTEGER: Final = "BIGINT"
REAL: Final = "DOUBLE PRECISION"
BYTES: Final = "BYTEA"
STORAGE_CLASS: Final = {TEXT: "text", INTEGER: "integer", REAL: "real", BYTES: "blob"}
"""What SQLite calls values of each type."""


@dataclass(frozen=True)
class Table:
    """One table of a ledger: its columns and its keys."""

    columns: Mapping[str, str]
    """The type of each column; none of them is ever null."""
    key: tuple[str, ...]
    """Its primary key; by these columns its rows are ordered in an export."""
    unique: str = ""
    """A column beside the key whose values no two rows share."""
    derived: bool = False
    """Whether it follows from the others, and is left out of an export."""
    indexed: tuple[str, str] = ("", "")
    """An index beside that of the key: its name and its columns."""

    def statements(self, name: str) -> Iterator[str]:
        """How the table is made. SQLite keeps this text, and it is compared when a ledger is opened."""
        columns = [
            f"{c} {kind} PRIMARY KEY" if self.key == (c,) else f"{c} {kind} NOT NULL" + " UNIQUE" * (c == self.unique)
            for c, kind in self.columns.items()
        ]
        columns += [f"PRIMARY KEY ({', '.join(self.key)})"] if len(self.key) > 1 else []
        yield f"CREATE TABLE {name} ({', '.join(columns)})"
        if self.indexed[0]:
            yield f"CREATE INDEX {self.indexed[0]} ON {name} ({self.indexed[1]})"


_CONTENTS: Final = Table({"sha256": TEXT, "content": TEXT}, ("sha256",))
"""A table of texts, each by its digest."""
TABLES: Final = {
    "ledger_version": Table({"version": INTEGER}, ()),
    "ledger_models": _CONTENTS,
    "ledger_problems": _CONTENTS,
    "ledger_people": _CONTENTS,
    # The normalised name is unique, so that no other spelling of a name gets a budget of its own.
    "ledger_datasets": Table(
        {"name": TEXT, "normalised": TEXT, "definition": TEXT, "state": TEXT}, ("name",), unique="normalised"
    ),
    "ledger_entries": Table(
        {"dataset": TEXT, "position": INTEGER, "created": TEXT, "problem": TEXT, "identity": TEXT, "hash": TEXT},
        ("dataset", "position"),
        unique="identity",
    ),
    # What single records were charged, which follows from the rows.
    "ledger_members": Table(
        {"dataset": TEXT, "person": TEXT, "crowd": INTEGER},
        ("dataset", "person"),
        derived=True,
        indexed=("ledger_crowds", "dataset, crowd"),
    ),
    "ledger_sums": Table(
        {"dataset": TEXT, "quantity": TEXT, "crowd": INTEGER, "cut": BYTES, "value": REAL},
        ("dataset", "quantity", "crowd", "cut"),
        derived=True,
    ),
}
"""Every table by name, in the order in which rows can be put in."""


def statements() -> list[str]:
    """The statements that make all tables."""
    first, *others = [statement for name, table in TABLES.items() for statement in table.statements(name)]
    return [first, f"INSERT INTO ledger_version (version) VALUES ({VERSION})", *others]
