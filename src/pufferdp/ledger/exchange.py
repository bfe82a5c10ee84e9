"""A ledger as one JSON file, and back: for backups, and from a file to PostgreSQL."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Final

from pufferdp.errors import LedgerError, ModelError
from pufferdp.ledger.chain import can_be_name
from pufferdp.ledger.checking import check_contents
from pufferdp.ledger.store import Session
from pufferdp.models.files import found_text, read_json, write_whole

if TYPE_CHECKING:
    from pufferdp.ledger.accounts import Ledger

SCHEMA: Final = "pufferdp-ledger-export/1"
_COLUMNS: Final = {
    "models": ("sha256", "content"),
    "problems": ("sha256", "content"),
    "datasets": ("name", "definition", "state"),
    "entries": ("dataset", "position", "created", "problem", "hash"),
}
_UNKEPT: Final = re.compile("[\\0\\ud800-\\udfff]")
"""Characters that JSON can spell and no database keeps."""


def export_ledger(ledger: Ledger, out: str | os.PathLike[str]) -> dict[str, Any]:
    """Write every row, as of one moment."""
    content: dict[str, Any] = {"schema": SCHEMA}
    with ledger.store.reading() as session:
        for table, columns in _COLUMNS.items():
            key = ", ".join(columns[: 2 if table == "entries" else 1])
            sql = f"SELECT {', '.join(columns)} FROM ledger_{table} ORDER BY {key}"
            content[table] = [list(row) for row in session.rows(sql)]
    write_whole(out, json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n")
    return _summary(content)


def read_export(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of an export, its shape checked."""
    try:
        raw = read_json(path, "ledger export")
    except ModelError as error:
        raise LedgerError(str(error), value=path) from None
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        found = raw.get("schema") if isinstance(raw, dict) else None
        raise LedgerError(f"{str(path)!r} is not a ledger export: its schema is {found_text(found)}, not {SCHEMA!r}")
    for table, columns in _COLUMNS.items():
        rows = raw.get(table)
        kinds: list[type] = [int if name == "position" else str for name in columns]
        if not isinstance(rows, list) or not all(_is_row(row, kinds) for row in rows):
            raise LedgerError(f"{str(path)!r}: {table} must be a list of rows of {', '.join(columns)}", value=path)
    return raw


def _is_row(row: object, kinds: list[type]) -> bool:
    if not isinstance(row, list) or [type(value) for value in row] != kinds:
        return False
    return not any(isinstance(value, str) and _UNKEPT.search(value) for value in row)


def import_ledger(ledger: Ledger, content: dict[str, Any]) -> dict[str, Any]:
    """Add the data sets of an export. It is refused whole where a hash or a charge does not hold."""
    with ledger.store.writing() as session:
        for table, columns in _COLUMNS.items():
            again = " ON CONFLICT DO NOTHING" if columns[0] == "sha256" else ""
            marks = ", ".join("?" * len(columns))
            sql = f"INSERT INTO ledger_{table} ({', '.join(columns)}) VALUES ({marks}){again}"
            if table == "datasets":
                _refuse_names(session, [row[0] for row in content[table]])
            session.many(sql, content[table])
        problems = check_contents(session)
        if problems:
            raise LedgerError(f"the export does not hold, and nothing was imported: {problems[0]}")
    return _summary(content)


def _refuse_names(session: Session, names: list[str]) -> None:
    before = set[str]()
    for name in names:
        if not can_be_name(name):
            raise LedgerError(f"the export has a data set {name!r}; a name must be printable characters", value=name)
        if name in before or list(session.rows("SELECT name FROM ledger_datasets WHERE name = ?", name)):
            raise LedgerError(f"data set {name!r} is in the ledger already; import into another", value=name)
        before.add(name)


def _summary(content: dict[str, Any]) -> dict[str, Any]:
    return {"datasets": [row[0] for row in content["datasets"]], "rows": len(content["entries"])}
