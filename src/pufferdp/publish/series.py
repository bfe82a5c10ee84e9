"""A series as people name it: the data, which column, in which order, whose. The one place where that is checked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict, cast

from pufferdp.basics import checks
from pufferdp.basics.errors import DataError, ParameterError
from pufferdp.basics.progress import Progress, silent
from pufferdp.data.layout import ROWS, Place, column_name, distance_text, place_of
from pufferdp.data.memory import has_unsorted_index, table_of
from pufferdp.models.ar1 import ar1_of
from pufferdp.models.base import Model
from pufferdp.models.bins import Bins, bins_text, with_bins
from pufferdp.models.chain import series_of
from pufferdp.models.files.json import ModelLike, as_model
from pufferdp.publish.noise import Sampler, SystemSampler
from pufferdp.publish.pipeline import Account
from pufferdp.publish.reading import Reading

if TYPE_CHECKING:
    from pufferdp.ledger.ledger import Ledger


class SeriesOptions(TypedDict, total=False):
    """How data are read: what every verb takes beside the data, with the meaning that it has for a ``Series``."""

    column: str | Sequence[str] | None
    order: str | None
    by: str | None
    restart: str | float | timedelta | None
    missing: str
    independent: bool
    first: Place | None
    last: Place | None
    bins: Bins | None
    id: str | None


class ReleaseOptions(SeriesOptions, total=False):
    """What every release takes besides what is asked."""

    sampler: Sampler | None
    """Where randomness comes from; the operating system by default."""
    ledger: Ledger | str | os.PathLike[str] | None
    """Where the release is charged before anything is drawn: a Ledger, its file or its URL."""
    dataset: str | None
    """Which data set of the ledger."""
    accept_misfit: bool
    """Release although the data contradict the model; the guarantee and the certificate state it."""
    progress: Progress | None
    """Called with a few words before each step."""


class Run(TypedDict):
    """The fields that every publication has besides what is asked."""

    account: Account
    sampler: Sampler
    accept_misfit: bool
    progress: Progress


def run_of(options: ReleaseOptions) -> Run:
    """Who draws, and where it is charged; refuses what is no option."""
    checks.refuse_unknown(options, ReleaseOptions)
    return {
        "account": Account(options.get("ledger"), options.get("dataset")),
        "sampler": options.get("sampler") or SystemSampler(),
        "accept_misfit": options.get("accept_misfit", False),
        "progress": options.get("progress") or silent,
    }


def as_asked(data: object, options: Mapping[str, Any]) -> tuple[Series, Run]:
    """The series that options make of the data, who draws, and where it is charged."""
    run = run_of(cast(ReleaseOptions, options))
    return Series.of(
        data, **{name: options[name] for name in options.keys() & SeriesOptions.__annotations__.keys()}
    ), run


@dataclass(frozen=True, eq=False, repr=False)
class Series:
    """A column of data and how it is read. Every verb that reads data takes one in place of the data.

    Args:
        data: a CSV or Parquet file, a folder or pattern of them, the URL of a PostgreSQL table, a SQLite table
            (``FILE::TABLE``), a pandas, polars, pyarrow, DuckDB or Spark frame, columns by name, rows by name, or the
            values themselves: a list, a numpy array, a pandas or polars series.
        column: the column with states or numbers; two names read the states of both as pairs.
        order: the column to sort by. Without it the time index of a pandas object is the order, and other data are
            taken in row order where no column holds times and an index of numbers rises. ``"rows"`` states that the
            rows are in time order.
        by: the column that tells people apart: one independent chain each.
        restart: what follows a longer gap in ``order`` is assumed to be independent of what went before.
        missing: ``"refuse"``, or ``"keep"``: a missing value is an unobserved time step.
        independent: that the values of ``by`` are independent, although they do not look like people.
        first: read only the records from this place of ``order`` on, itself included.
        last: read only those up to this place, itself included; a date is the whole day.
        bins: edges that turn numbers into states, where the model has none.
        id: for models that are not chains, the column that says which record a row is.
    """

    data: object
    column: str | Sequence[str] | None = None
    _: KW_ONLY
    order: str | None = None
    by: str | None = None
    restart: str | float | timedelta | None = None
    missing: str = "refuse"
    independent: bool = False
    first: Place | None = None
    last: Place | None = None
    bins: Bins | None = None
    id: str | None = None
    index_order: bool = field(default=False, init=False)
    """Whether the order is the time index of a pandas object."""

    def __post_init__(self) -> None:
        data, single, index = table_of(self.data, self.column)
        column = self.column if self.column is not None else single
        if data is None:
            raise DataError("the data is None; it must be a file, a frame, a table or a list of values")
        if column is None:
            raise DataError("column is missing; name the column with states or numbers: column=")
        values: dict[str, object] = {
            "data": data,
            "column": column_name(column),
            "order": index if self.order is None else self.order,
            "index_order": index is not None and self.order is None,
            "restart": None if self.restart is None else distance_text(self.restart),
            "first": place_of("first", self.first),
            "last": place_of("last", self.last),
            "bins": bins_text(self.bins),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        checks.flag(self.independent, "independent")
        self._reading()  # refuses a way of reading that there is not

    @classmethod
    def of(cls, data: object, **given: Any) -> Series:
        """The series that is given, or the one that the data and the parameters make; never both."""
        if not isinstance(data, Series):
            return cls(data, **given)
        defaults = {each.name: each.default for each in fields(cls)}
        twice = next((name for name, value in given.items() if value != defaults[name]), None)
        if twice is not None:
            raise ParameterError(
                f"{twice} is given beside a Series, which says how it is read: say it there", value=twice
            )
        return data

    def __repr__(self) -> str:
        shown = str(os.fspath(self.data)) if isinstance(self.data, (str, os.PathLike)) else type(self.data).__name__
        others = [(f.name, getattr(self, f.name), f.default) for f in fields(self) if f.name != "data" and f.init]
        parts = [f"{name}={value!r}" for name, value, default in others if value != default]
        return f"Series({shown!r}, {', '.join(parts)})"

    @property
    def named(self) -> str:
        """The column, or both columns of a pair, as text."""
        assert isinstance(self.column, str)
        return self.column

    def reading(self, model: Model | None = None) -> Reading:
        """How it is read for a model, whose step says where rows are missing; rejects rows that are in no order."""
        unordered = model is not None and series_of(model) is None and ar1_of(model) is None
        if self.order is None and not unordered and has_unsorted_index(self.data):
            raise DataError(
                "the index of the data does not rise from row to row, and no order is given; rows that were moved are "
                "not taken as they come: sort by a column with order=, or by the index with .sort_index(), or state "
                f"that the rows already are in time order with order={ROWS!r}"
            )
        return self._reading(model, unordered)

    def _reading(self, model: Model | None = None, unordered: bool = False) -> Reading:
        assert not isinstance(self.restart, timedelta)
        return Reading(
            column=self.named,
            order=None if self.order == ROWS or (unordered and self.index_order) else self.order,
            rows_in_order=self.order == ROWS or unordered,
            by=self.by,
            restart=self.restart,
            missing=self.missing,
            independent=self.independent,
            id=self.id,
            first=self.first,
            last=self.last,
            step=None if model is None else model.step,
        )

    def model(self, model: ModelLike) -> Model:
        """The model, with the bins of this series where it has none."""
        return with_bins(as_model(model), self.bins)
