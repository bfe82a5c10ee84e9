"""A file that is held in memory: read as the file would be, written again as text, never kept on a disk."""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pufferdp.basics.errors import DataError
from pufferdp.basics.frames import csv_text
from pufferdp.basics.scratch import scratch
from pufferdp.basics.words import a_kind
from pufferdp.data.parts import Parts

PARQUET: Final = ".parquet"
ENDINGS: Final = (".csv", ".tsv", ".txt", PARQUET)


@dataclass(frozen=True, eq=False, repr=False)
class MemoryFile:
    """The name and the bytes of a .csv, .tsv, .txt or .parquet file. Goes wherever a frame goes."""

    name: str
    content: bytes

    def __post_init__(self) -> None:
        if not self.name.lower().endswith(ENDINGS):
            raise DataError(f"{self.name!r} must end in one of {', '.join(ENDINGS)}; save it as CSV", value=self.name)
        if not self.content.strip():
            raise DataError(f"{self.name!r} is empty; a header and at least one row are needed", value=self.name)

    def __repr__(self) -> str:
        return f"MemoryFile({self.name!r}, {len(self.content):,} bytes)"

    @contextmanager
    def parts(self) -> Iterator[Parts]:
        """A path that leads to the bytes while the block runs. On Linux no disk is touched.

        Elsewhere DuckDB needs a file; it is readable by its owner alone and gone when the block ends.
        """
        text, tabs = not self.name.lower().endswith(PARQUET), self.name.lower().endswith(".tsv")
        if sys.platform == "linux":
            handle = os.memfd_create("pufferdp")
            try:
                with os.fdopen(os.dup(handle), "wb") as out:
                    out.write(self.content)
                yield Parts(name=self.name, paths=(f"/proc/self/fd/{handle}",), text=text, tabs=tabs)
            finally:
                os.close(handle)
        else:
            with scratch() as folder:
                path = folder / "upload"
                path.write_bytes(self.content)
                yield Parts(name=self.name, paths=(str(path),), text=text, tabs=tabs)

    def written(self, header: list[str], rows: Iterator[tuple[object, ...]]) -> MemoryFile:
        """A text file of this name with other rows; None becomes an empty field, which reads as missing again."""
        text = csv_text(itertools.chain([header], rows), "\t" if self.name.lower().endswith(".tsv") else ",")
        stem, ending = os.path.splitext(self.name)
        name = f"{stem}.csv" if ending.lower() == PARQUET else self.name
        return MemoryFile(name, text.encode())


_VALUES: Final = "value"
"""What a column is called whose values come without a name."""


def table_of(data: object, column: object) -> tuple[object, str | None, str | None]:
    """The data as a table, the column of its values where it has no other, and the column that was its time index."""
    table, single = _tabulated(data, column)
    table, index = _with_time_index(table)
    return table, single, index


def _with_time_index(table: Any) -> tuple[object, str | None]:
    """A pandas frame whose time index has become a column, and the name of that column; other tables as they are.

    Engines read columns alone and would lose the index. Of an index with several levels every level becomes a column,
    and none of them is the order by itself. Time differences become seconds.
    """
    index: Any = getattr(table, "index", None)
    if not hasattr(index, "to_frame") or not hasattr(table, "reset_index"):
        return table, None
    import narwhals as nw

    from pufferdp.data.times import frame_times

    elapsed = hasattr(index, "total_seconds")
    index = index.total_seconds() if elapsed else index
    index = index.to_timestamp() if hasattr(index, "to_timestamp") else index  # periods
    names = ["time" if name is None else str(name) for name in index.names]
    names = [f"index_{name}" if name in table.columns else name for name in names]
    levels = index.to_frame(index=False).set_axis(names, axis=1)
    if not elapsed and not frame_times(nw.from_native(levels)):
        return table, None
    return levels.join(table.reset_index(drop=True)), names[0] if len(names) == 1 else None


def has_unsorted_index(table: Any) -> bool:
    """Whether a pandas frame has an index of numbers that does not rise: its rows were moved, and stand in no order."""
    index = table.index if hasattr(table, "reset_index") else None  # a column of Spark may be called index
    numbers = getattr(getattr(index, "dtype", None), "kind", "") in ("i", "u", "f")
    return numbers and not getattr(index, "is_monotonic_increasing", True)


def _tabulated(data: object, column: object) -> tuple[object, str | None]:
    """The data as a table, and the column where it has no other: columns and rows by name, and values, become one.

    What is in Python's lists is read as the same text in a file would be. Everything else is left as it is.
    """
    to_frame, ndim = getattr(data, "to_frame", None), getattr(data, "ndim", None)
    if callable(to_frame) and hasattr(data, "dtype") and not hasattr(data, "columns"):  # a series of pandas or polars
        name = column if isinstance(column, str) else getattr(data, "name", None) or _VALUES
        return to_frame(name), str(name)
    if isinstance(data, Mapping):
        return _from_columns({str(name): values for name, values in data.items()}), None
    if isinstance(data, (list, tuple)) and data and all(isinstance(row, Mapping) for row in data):
        names = list(data[0])
        return _from_columns({str(name): [row.get(name) for row in data] for name in names}), None
    if isinstance(data, (list, tuple, range)) or (ndim is not None and not hasattr(data, "columns")):
        name = column if isinstance(column, str) else _VALUES
        values = _listed(data, "the data")
        return _from_columns({name: values, "record" if name != "record" else "row": range(1, len(values) + 1)}), name
    if isinstance(data, Iterator):
        raise DataError(f"the data is {a_kind(data)}, which can be read once only: make a list of it", value=type(data))
    return data, None


def _from_columns(columns: Mapping[str, Any]) -> MemoryFile:
    """Columns of equal length as a file in memory."""
    listed = {name: _listed(values, f"the column {name!r}") for name, values in columns.items()}
    lengths = {len(values) for values in listed.values()}
    if lengths == {0}:
        raise DataError("the data has no rows; at least one record is needed")
    if len(lengths) != 1:
        sizes = ", ".join(f"{name} {len(values)}" for name, values in list(listed.items())[:4]) or "none"
        raise DataError(
            f"the columns have these numbers of values: {sizes}; all must have the same number, one or more"
        )
    try:
        content = csv_text([listed, *zip(*listed.values(), strict=True)]).encode()
    except ValueError:  # a lone surrogate, or a whole number of thousands of digits
        raise DataError("the data has a value that no file can hold: half a character, or too many digits") from None
    return MemoryFile("data.csv", content)


def _listed(values: Any, what: str) -> list[object]:
    """Values as a file would have them: nothing where one is missing."""
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if isinstance(values, (str, bytes)) or (not isinstance(values, Sequence) and not hasattr(values, "tolist")):
        raise DataError(f"{what} is {a_kind(values)}; it must be a list of values", value=type(values))
    if getattr(values, "ndim", 1) == 0:
        raise DataError(f"{what} is a single value; it must be a list of values", value=values)
    plain = values.astype(str).tolist() if kind == "M" else values.tolist() if hasattr(values, "tolist") else values
    if any(isinstance(value, (list, tuple, dict, set)) for value in plain):
        raise DataError(f"{what} has lists in it; it must be a list of single values", value=type(values))
    gone = (None, "NaT")
    return ["" if value in gone or (isinstance(value, float) and math.isnan(value)) else value for value in plain]
