"""Every row of a source with its state, in the order of the rows, and a file with the states replaced."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import narwhals as nw
import numpy as np
import numpy.typing as npt

from pufferdp.data import files
from pufferdp.data.expressions import coded
from pufferdp.data.layout import Coding, Columns, Layout, columns_of
from pufferdp.data.parts import identifier, literal
from pufferdp.data.series import Series
from pufferdp.data.sources import Source, integers, open_source
from pufferdp.data.tables import Table, table_of
from pufferdp.errors import DataError

Codes = npt.NDArray[np.int16]
CHUNK: Final = 1 << 20
"""Rows brought to Python at a time."""
ENDINGS: Final = (".csv", ".csv.gz", ".parquet")


def row_codes(source: Source, layout: Layout, coding: Coding) -> Codes:
    """The state of each row of a frame; negative where it is missing. A table without row order is sorted first."""
    by_order = isinstance(source, duckdb.DuckDBPyRelation)
    columns = columns_of(layout) if by_order else Columns(roles={"value": layout.column}, key="order")
    plain = layout if by_order else Layout(column=layout.column, missing=layout.missing)
    frame = coded(table_of(open_source(source, columns), plain), coding)
    people = ["person"] if by_order and layout.by is not None else []
    (found,) = integers(frame.sort(*people, "order").select("code"))
    return found.astype(np.int16)


@dataclass(frozen=True, kw_only=True, repr=False)
class FileRows:
    """The rows of a file, kept by DuckDB: in memory, or on disk where that is too small."""

    connection: duckdb.DuckDBPyConnection
    table: Table
    layout: Layout

    @classmethod
    @files.reading()
    def of(cls, path: str | os.PathLike[str], layout: Layout) -> FileRows:
        """Read a file once: the column, and those that say whose and when a row is, as they are written."""
        kept = {"when": layout.order, "person": layout.by}
        columns = Columns(
            roles={"value": layout.column, **{role: name for role, name in kept.items() if name is not None}},
            key="order",
        )
        connection = files.load_files(Path(path), columns)
        plain = Layout(column=layout.column, missing=layout.missing)
        table = table_of(nw.from_native(connection.table("series")), plain)
        return cls(connection=connection, table=table, layout=layout)

    @property
    def series(self) -> Series:
        """The rows as one chain, in their order."""
        return Series(table=self.table)

    @files.reading()
    def chunks(self, coding: Coding) -> Iterator[Codes]:
        """The states, so many rows at a time."""
        frame = coded(self.table, coding)
        total = int(self.connection.execute("SELECT count(*) FROM series").fetchall()[0][0])
        for begin in range(1, total + 1, CHUNK):
            part = frame.filter((nw.col("order") >= begin) & (nw.col("order") < begin + CHUNK))
            order, codes = integers(part.select("order", "code"))
            if (np.diff(order) <= 0).any():
                codes = codes[np.argsort(order)]
            yield codes.astype(np.int16)

    @files.reading("the output")
    def write(
        self, path: str | os.PathLike[str], coding: Coding, labels: tuple[str, ...], change: Callable[[Codes], Codes]
    ) -> None:
        """The same rows with changed states, as names; whole or not at all. Other columns are not written."""
        self.connection.execute("CREATE OR REPLACE TEMP TABLE changed (code SMALLINT)")
        for codes in self.chunks(coding):
            piece: dict[str, Any] = {"code": change(codes)}
            self.connection.register("piece", piece)
            self.connection.execute("INSERT INTO changed SELECT code FROM piece")
            self.connection.unregister("piece")
        names = {"person": self.layout.by, "when": self.layout.order}
        said = ", ".join(literal(label) for label in labels)
        kept = [f"{identifier(role)} AS {identifier(name)}" for role, name in names.items() if name is not None]
        name = identifier(self.layout.column)
        column = f"CASE WHEN code < 0 THEN NULL ELSE ([{said}])[code + 1] END AS {name}"
        query = f"SELECT {', '.join([*kept, column])} FROM series POSITIONAL JOIN changed"
        target = Path(path)
        beside = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            self.connection.execute(f"COPY ({query}) TO {literal(str(beside))} ({_options(target)})")
            beside.replace(target)
        except OSError as error:
            raise DataError(f"out {str(path)!r} cannot be written: {error.strerror}", value=path) from None
        finally:
            with suppress(OSError):
                beside.unlink()


def _options(path: Path) -> str:
    name = path.name.lower()
    if name.endswith(".parquet"):
        return "FORMAT parquet"
    return "FORMAT csv, HEADER" + (", COMPRESSION gzip" if name.endswith(".gz") else "")
