"""A table whose rows are named records: nodes of a network, members of a family, positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from pufferdp.basics.errors import DataError, ValuesError
from pufferdp.basics.words import rows_text, shorten
from pufferdp.data.files import reading
from pufferdp.data.layout import Columns, hides_values
from pufferdp.data.matching import comparable, keys_of, quoted, shown
from pufferdp.data.sources import Frame, Source, open_source, rows


@reading()
def read_records(
    source: Source,
    *,
    column: str,
    id: str | None,
    records: Sequence[str],
    domains: Sequence[tuple[str, ...]],
) -> NDArray[np.int64]:
    """EXACT: the state of each record, as an index into its own domain, in the order of the records.

    Args:
        source: A file or a frame, as for a series, with one row for each record.
        column: The column with the states.
        id: The column that says which record a row is. None: the first row is the first record, and so on.
        records: The names of the records.
        domains: The states of each record.
    """
    roles = {"value": column} if id is None else {"value": column, "id": id}
    columns = Columns(roles=roles, key="id")
    frame = open_source(source, columns)
    _check_size(frame, columns, len(records))
    cells = _cells(frame.sort("order") if columns.numbered else frame, columns)
    states = cells["value"]
    if id is not None:
        states = states.take(_rows_of(cells["id"], id, records))
    return _codes(states, column, records, domains)


@dataclass(frozen=True, kw_only=True)
class _Cells:
    """A column in Python, once it is known to be no longer than the model."""

    values: Sequence[Any]
    keys: Sequence[Any]
    """The values as they are looked up: text, or doubles."""
    text: bool

    def take(self, places: Sequence[int]) -> _Cells:
        """These rows, in this order."""
        return _Cells(
            values=[self.values[place] for place in places],
            keys=[self.keys[place] for place in places],
            text=self.text,
        )

    def find(self, row: int, names: Sequence[str], keys: dict[Any, int]) -> int | None:
        """Which of the names the value of a row is."""
        index = keys.get(self.keys[row])
        value = self.values[row]
        if index is None or not isinstance(value, (int, Decimal)) or -(2**53) < value < 2**53:
            return index
        # From here on doubles skip integers: a name that is merely near must not do.
        return index if Decimal(names[index]) == value else None


def _check_size(frame: Frame, columns: Columns, size: int) -> None:
    """Compare the numbers of rows and records where the rows are, before any of them is fetched."""
    ((count,),) = rows(frame.select(nw.len().alias("count")))
    if not count:
        raise DataError(f"the data has no rows; one for each of the {size} records of the model is needed")
    sizes = f"the data has {count} rows and the model {size} records"
    if count > size:
        raise DataError(
            f"{sizes}; each record has one row: drop the extra rows, or use a model of all of them",
            value=count,
        )
    if columns.numbered and count < size:
        raise DataError(
            f"{sizes}; in row order there must be as many: add the missing rows, "
            "or name the column that says which record a row is, with id=",
            value=count,
        )


def _cells(frame: Frame, columns: Columns) -> dict[str, _Cells]:
    """Fetch the columns by role, all in one query: without an order two queries may differ in theirs."""
    schema = frame.collect_schema()
    compared = {
        role: comparable(schema[role], role, name, "states" if role == "value" else "ids")
        for role, name in columns.roles.items()
    }
    picked = [
        expression
        for role, column in compared.items()
        for expression in (column.value.alias(role), column.key.alias(f"{role}_key"))
    ]
    fetched = list(zip(*rows(frame.select(*picked)), strict=True))
    return {
        role: _Cells(values=fetched[2 * place], keys=fetched[2 * place + 1], text=column.text)
        for place, (role, column) in enumerate(compared.items())
    }


def _rows_of(ids: _Cells, id: str, records: Sequence[str]) -> list[int]:
    """For each record its row; refuse ids that do not match the records one to one."""
    missing = sum(value is None for value in ids.values)
    if missing:
        raise DataError(
            f"the id column {id!r} is missing in {rows_text(missing)}; every row must say which record it is: "
            "fill it in or drop those rows"
        )
    keys = keys_of(records, text=ids.text, what="records")
    row_of: dict[int, int] = {}
    for row, value in enumerate(ids.values):
        record = ids.find(row, records, keys)
        if record is None:
            raise DataError(
                f"{shown(value)} in the id column {id!r} is not a record of the model; the records are "
                f"{shorten(list(records))}: correct the id or drop the row",
                value=value,
            )
        if record in row_of:
            raise DataError(
                f"{shown(value)} is in the id column {id!r} more than once; each record has one row: drop the others",
                value=value,
            )
        row_of[record] = row
    absent = [name for record, name in enumerate(records) if record not in row_of]
    if absent:
        raise DataError(
            f"{len(absent)} of the {len(records)} records of the model have no row, first {quoted(absent[0])}; "
            "every record needs one: add the rows, or use a model without those records",
            value=absent[0],
        )
    return [row_of[record] for record in range(len(records))]


def _codes(
    states: _Cells, column: str, records: Sequence[str], domains: Sequence[tuple[str, ...]]
) -> NDArray[np.int64]:
    """The index of each state in the domain of its record; the rows are in the order of the records."""
    missing = [name for name, value in zip(records, states.values, strict=True) if value is None]
    if missing:
        raise DataError(
            f"{column!r} is missing in {rows_text(len(missing))}, first for record {quoted(missing[0])}; "
            "every record needs a state: fill it in",
            value=missing[0],
        )
    keys = {domain: keys_of(domain, text=states.text) for domain in dict.fromkeys(domains)}
    codes = np.empty(len(records), dtype=np.int64)
    for row, (name, domain) in enumerate(zip(records, domains, strict=True)):
        code = 0 if hides_values() else states.find(row, domain, keys[domain])
        if code is None:
            value = states.values[row]
            raise ValuesError(
                f"{shown(value)} is not a state of record {quoted(name)}; its states are {shorten(domain)}: "
                "correct the value, or add the state to the model",
                value=value,
            )
        codes[row] = code
    return codes
