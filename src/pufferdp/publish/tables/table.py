"""A table of released numbers: its columns, its rows, and the bytes that its hash is over."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pufferdp.basics.errors import CertificateError
from pufferdp.basics.files import parse_json
from pufferdp.basics.frames import csv_text, frame, quote_formula, unquote_formula
from pufferdp.data.rewrite import csv_to_parquet, parquet_rows

Cell = str | int | float | None
"""The name of a group, or a number; None where there is no such number."""
RECORDS: Final = "records"
"""The column that says how many records a group has; empty where that is hidden."""


@dataclass(frozen=True)
class ReleasedTable:
    """A row for each group: what it is called, how many records it has (None: hidden), and the released numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def to_csv(self) -> bytes:
        """The one spelling that is hashed: comma separated, numbers with all their digits, nothing where none is.

        Names that a spreadsheet would run as formulas have a single quote before them.
        """
        return _bytes([quote_formula(cell) for cell in row] for row in (self.columns, *self.rows))

    @property
    def sha256(self) -> str:
        """The hash of its spelling as CSV."""
        return hashlib.sha256(self.to_csv()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The table in the types of JSON."""
        return {"columns": list(self.columns), "rows": [list(row) for row in self.rows]}

    def column(self, name: str) -> list[Cell]:
        """The cells of the column of this name."""
        at = self.columns.index(name)
        return [row[at] for row in self.rows]

    def to_frame(self, backend: str | None = None) -> Any:
        """A pandas or polars frame; of the library that is named, or that is there."""
        return frame(self.columns, self.rows, backend)

    def write(self, path: str | os.PathLike[str], ending: str) -> None:
        """Write the table as CSV or as Parquet."""
        if ending == ".csv":
            Path(path).write_bytes(self.to_csv())
            return
        _write_parquet(self, Path(path))


def read_released(path: str | os.PathLike[str]) -> ReleasedTable:
    """A table as a release wrote it: CSV, Parquet, or the JSON that also has the certificate."""
    name = str(path)
    try:
        if not name.lower().endswith((".csv", ".parquet")):
            raw = parse_json(Path(path).read_text(encoding="utf-8-sig"))
            table = raw["table"]
            return ReleasedTable(tuple(table["columns"]), tuple(tuple(row) for row in table["rows"]))
        if name.lower().endswith(".parquet"):
            return _read_parquet(name)
        lines = list(csv.reader(io.StringIO(Path(path).read_bytes().decode("utf-8-sig", "surrogatepass"), newline="")))
    except OSError as error:
        raise CertificateError(f"table {name!r} cannot be read: {error.strerror}", value=path) from None
    except (ValueError, KeyError, TypeError, csv.Error):
        raise CertificateError(f"{name!r} is not a table as a release writes it", value=path) from None
    if not lines:
        raise CertificateError(f"table {name!r} is empty", value=path)
    head, *rows = lines
    keys = head.index(RECORDS) if RECORDS in head else len(head)
    cells = tuple((*map(unquote_formula, row[:keys]), *(_number(text) for text in row[keys:])) for row in rows)
    return ReleasedTable(tuple(map(unquote_formula, head)), cells)


def _bytes(rows: Iterable[Iterable[object]]) -> bytes:
    return csv_text(rows).encode("utf-8", "surrogatepass")


def _number(text: str) -> Cell:
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _write_parquet(table: ReleasedTable, path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="pufferdp-") as folder:
        source, target = Path(folder) / "table.csv", Path(folder) / "table.parquet"
        source.write_bytes(_bytes((table.columns, *table.rows)))
        csv_to_parquet(source, {name: _kind(table.column(name)) for name in table.columns}, target)
        shutil.copyfile(target, path)


def _kind(cells: Sequence[Cell]) -> str:
    """DuckDB's type of a column."""
    kinds = {type(cell) for cell in cells if cell is not None}
    return "VARCHAR" if str in kinds else "BIGINT" if kinds <= {int} and kinds else "DOUBLE"


def _read_parquet(name: str) -> ReleasedTable:
    columns, rows = parquet_rows(Path(name))
    return ReleasedTable(tuple(columns), tuple(rows))
