"""One verb for one answer, for a table and for a measurement: what is asked says which it is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Required, Unpack, overload

from pufferdp.basics import checks
from pufferdp.basics.errors import ParameterError
from pufferdp.models.files.json import ModelLike
from pufferdp.models.units import Unit
from pufferdp.publish.answers.publication import Release
from pufferdp.publish.answers.publication import release as release_answer
from pufferdp.publish.answers.queries import Query, asks_table
from pufferdp.publish.answers.secrets import SecretsLike
from pufferdp.publish.series import ReleaseOptions, as_asked

if TYPE_CHECKING:
    from pufferdp.publish.measurements.publication import MeasurementRelease
    from pufferdp.publish.tables.publication import ReserveSpace, TableRelease
    from pufferdp.publish.tables.questions import Question

    Asked = str | Query | Question
    Listed = list[str] | list[Query] | list[Asked] | tuple[Asked, ...]


_NOT_FOR_TABLES: Final = {
    "delta": ", whose questions are answered with noise that needs none",
    "unit": ", whose guarantee is about single records",
    "mechanism": ", whose questions have a mechanism each, for one loss by the lowest curve",
}
"""Why something does not go with a table, where that can be said."""


_OF_ANSWERS: Final = ("secrets", "mechanism", "delta", "unit")
_OF_QUERIES: Final = ("secrets", "mechanism", "unit", "beta")


class Request(ReleaseOptions, total=False):
    """What a release takes besides the data, the query and the groups; see ``release``."""

    model: Required[ModelLike]
    epsilon: Required[float]
    adversary: str
    clip: tuple[float, float] | None
    secrets: SecretsLike | None
    mechanism: str | None
    beta: float
    delta: float
    unit: str | int | timedelta | Unit | None
    reserved_space: ReserveSpace | None


@overload
def release(data: object, *, measurement: object, **request: Unpack[Request]) -> MeasurementRelease: ...
@overload
def release(data: object, *, query: str | Query, per: None = None, **request: Unpack[Request]) -> Release: ...
@overload
def release(
    data: object,
    *,
    query: Listed | Question,
    per: str | Sequence[str] | None = None,
    groups: str | Sequence[str] | None = None,
    split: Sequence[float] | None = None,
    sizes: str = "exact",
    **request: Unpack[Request],
) -> TableRelease: ...
@overload
def release(
    data: object,
    *,
    query: Asked | Sequence[Asked],
    per: str | Sequence[str],
    groups: str | Sequence[str] | None = None,
    split: Sequence[float] | None = None,
    sizes: str = "exact",
    **request: Unpack[Request],
) -> TableRelease: ...
def release(
    data: object,
    *,
    query: Asked | Sequence[Asked] | None = None,
    measurement: object | None = None,
    per: str | Sequence[str] | None = None,
    groups: str | Sequence[str] | None = None,
    split: Sequence[float] | None = None,
    sizes: str = "exact",
    **request: Unpack[Request],
) -> Release | TableRelease | MeasurementRelease:
    """Release one answer, a table of answers, or what a DP algorithm of one's own returns.

    One query of all records together is an answer, made by the best mechanism for it. Several queries (a list), a query
    of each group (``per``) or one that tables alone have make a table, for one guarantee. An OpenDP measurement
    (``measurement``) is run on the values of the column, and what its map states is carried over by a leakage curve.

    Args:
        data: a Series, or what it is made of: a CSV or Parquet file, a folder or pattern of them, the URL of a
            PostgreSQL table, a SQLite table (``FILE::TABLE``), a frame of pandas, polars, pyarrow, DuckDB or Spark,
            columns or rows by name, or the values themselves.
        query: a Query, its name as on the command line, or a list of them.
        measurement: in place of a query, an OpenDP measurement on a vector of the column's values.
        per: a row for each ``person`` of ``by``, each value of a public column, each ``day``, ``hour`` or ``week``, or
            for each of one of the first two and a period.
        groups: the people or values that get a row; by default those in the data.
        split: the weight of each query of a table in its DP loss; all the same by default.
        sizes: of a table: ``exact`` publishes how many records each group has, ``hidden`` does not.
        model: the model or class the guarantee is for: a model, the path of its file, its content, or a fit.
        epsilon: the guarantee, of a table for all of it; with a measurement the most that may be guaranteed.
        adversary: ``bdp`` (knows any set of records, the default), ``pufferfish`` (none) or ``dp`` (all others).
        clip: range of the numbers of a sum or mean.
        secrets: of one answer: secrets of one's own and their pairs; by default every record's value is a secret.
        mechanism: of one answer: a mechanism by name; the best that applies by default.
        beta: accuracy is certified at probability 1−beta, which is 0.95 by default.
        delta: of one answer: what the guarantee may add to every probability; above 0 it lets Gaussian noise take part.
        unit: of one answer: a period whose records are one secret together: hour, day, week, a duration, or a number of
            records.
        reserved_space: called with about how many bytes a table has as CSV, before it is charged; may refuse.
        column, order, by, restart, missing, independent, first, last, bins, id: how the data are read, as for
            ``Series``.
        sampler: where noise comes from; the operating system by default.
        ledger: where the release is charged before its noise is drawn: a Ledger, its file or its URL.
        dataset: which data set of the ledger.
        accept_misfit: release although the data contradict the model; the guarantee and the certificate state it.
        progress: called with a few words before each step.
    """
    checks.refuse_unknown(request, Request)
    if (query is None) == (measurement is None):
        raise ParameterError("give either a query or a measurement")
    own: dict[str, Any] = {name: value for name, value in request.items() if name not in ReleaseOptions.__annotations__}
    options = {name: value for name, value in request.items() if name not in own}
    series, run = as_asked(data, options)
    of_tables = {"per": per, "groups": groups, "split": split, "sizes": None if sizes == "exact" else sizes}
    reserve = own.pop("reserved_space", None)
    if query is None:
        no_table = {**of_tables, "id": series.id, "sampler": options.get("sampler")}
        for name, value in {**no_table, **{name: own.pop(name, None) for name in _OF_QUERIES}}.items():
            if value is not None:
                raise ParameterError(f"{name} does not go with a measurement, which draws its own noise: leave it out")
        from pufferdp.publish.measurements.publication import release_measurement

        return release_measurement(series, measurement=measurement, **own, **run)
    if not asks_table(query, per):
        assert isinstance(query, (str, Query))
        if any(value is not None for value in of_tables.values()):
            raise ParameterError(
                "groups, split and sizes go with a table: say what its groups are with per=, or ask several queries"
            )
        return release_answer(series, query=query, **own, **run)
    for name, value in {"id": series.id, **{name: own.pop(name, None) for name in _OF_ANSWERS}}.items():
        if value:
            raise ParameterError(
                f"{name} goes with one query of all records together, not with a table{_NOT_FOR_TABLES.get(name, '')}: "
                "leave it out",
                value=value,
            )
    from pufferdp.publish.tables.publication import release_table

    return release_table(
        series, query=query, per=per, groups=groups, split=split, sizes=sizes, reserved_space=reserve, **own, **run
    )
