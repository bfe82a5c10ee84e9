"""One verb for one answer, for a table and for a measurement: what is asked says which it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Required, TypedDict, Unpack, overload

from pufferdp.basics.errors import ParameterError
from pufferdp.basics.progress import Progress
from pufferdp.data.layout import Place
from pufferdp.models.bins import Bins
from pufferdp.models.files.json import ModelLike
from pufferdp.models.units import Unit
from pufferdp.publish.answers.publication import Release
from pufferdp.publish.answers.publication import release as release_answer
from pufferdp.publish.answers.queries import Query, asks_table
from pufferdp.publish.answers.secrets import SecretsLike
from pufferdp.publish.noise import Sampler
from pufferdp.publish.series import Series

if TYPE_CHECKING:
    from pufferdp.ledger.ledger import Ledger
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


class Request(TypedDict, total=False):
    """What a release takes besides the data, the query and the groups; see ``release``."""

    model: Required[ModelLike]
    column: str | Sequence[str] | None
    epsilon: Required[float]
    adversary: str
    order: str | None
    by: str | None
    restart: str | float | timedelta | None
    missing: str
    independent: bool
    first: Place | None
    last: Place | None
    bins: Bins | None
    id: str | None
    secrets: SecretsLike | None
    clip: tuple[float, float] | None
    mechanism: str | None
    beta: float
    delta: float
    unit: str | int | timedelta | Unit | None
    sampler: Sampler | None
    ledger: Ledger | str | os.PathLike[str] | None
    dataset: str | None
    accept_misfit: bool
    reserved_space: ReserveSpace | None
    progress: Progress | None


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
    model: ModelLike,
    column: str | Sequence[str] | None = None,
    query: Asked | Sequence[Asked] | None = None,
    epsilon: float,
    measurement: object | None = None,
    per: str | Sequence[str] | None = None,
    groups: str | Sequence[str] | None = None,
    split: Sequence[float] | None = None,
    sizes: str = "exact",
    adversary: str = "bdp",
    order: str | None = None,
    by: str | None = None,
    restart: str | float | timedelta | None = None,
    missing: str = "refuse",
    independent: bool = False,
    first: Place | None = None,
    last: Place | None = None,
    bins: Bins | None = None,
    id: str | None = None,
    secrets: SecretsLike | None = None,
    clip: tuple[float, float] | None = None,
    mechanism: str | None = None,
    beta: float = 0.05,
    delta: float = 0.0,
    unit: str | int | timedelta | Unit | None = None,
    sampler: Sampler | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    accept_misfit: bool = False,
    reserved_space: ReserveSpace | None = None,
    progress: Progress | None = None,
) -> Release | TableRelease | MeasurementRelease:
    """Release one answer, a table of answers, or what a DP algorithm of one's own returns.

    One query of all records together is an answer, made by the best mechanism for it. Several queries (a list), a query
    of each group (``per``) or one that tables alone have make a table, for one guarantee. An OpenDP measurement
    (``measurement``) is run on the values of the column, and what its map states is carried over by a leakage curve.

    Args:
        data: a Series, or what it is made of: a CSV or Parquet file, a folder or pattern of them, the URL of a
            PostgreSQL table, a SQLite table (``FILE::TABLE``), a frame of pandas, polars, pyarrow, DuckDB or Spark,
            columns or rows by name, or the values themselves.
        model: the model or class the guarantee is for: a model, the path of its file, its content, or a fit.
        column: the column with states or numbers; ``"a,b"`` or two names read the states of both as pairs.
        query: a Query, its name as on the command line, or a list of them.
        epsilon: the guarantee, of a table for all of it; with a measurement the most that may be guaranteed.
        measurement: in place of a query, an OpenDP measurement on a vector of the column's values.
        per: a row for each ``person`` of ``by``, each value of a public column, each ``day``, ``hour`` or ``week``, or
            for each of one of the first two and a period.
        groups: the people or values that get a row; by default those in the data.
        split: the weight of each query of a table in its DP loss; all the same by default.
        sizes: of a table: ``exact`` publishes how many records each group has, ``hidden`` does not.
        adversary: ``bdp`` (knows any set of records), ``pufferfish`` (none) or ``dp`` (all others).
        order: the column to sort by, or ``"rows"``, as in ``Series``.
        by: the column that tells people apart: one independent chain each.
        restart: what follows a longer gap in ``order`` is assumed to be independent of what went before: ``"8h"`` or a
            number in its unit. Without it the chain goes on past every gap.
        missing: ``"refuse"``, or ``"keep"``: a missing value is an unobserved time step.
        independent: that the values of ``by`` are independent, although they do not look like people.
        first: read only the records from this place of ``order`` on, itself included: a number, a date or a time.
        last: read only those up to this place, itself included; a date is the whole day. With either, the series goes
            on before and after what is read, and the guarantee is for all of it.
        bins: edges that turn numbers into states, where the model has none.
        id: for models that are not chains, the column that says which record a row is.
        secrets: of one answer: secrets of one's own and their pairs; by default every record's value is a secret.
        clip: range of the numbers of a sum or mean.
        mechanism: of one answer: a mechanism by name; the best that applies by default.
        beta: accuracy is certified at probability 1−beta.
        delta: of one answer: what the guarantee may add to every probability; above 0 it lets Gaussian noise take part.
        unit: of one answer: a period whose records are one secret together: hour, day, week, a duration, or a number of
            records.
        sampler: where noise comes from; the operating system by default.
        ledger: where the release is charged before its noise is drawn: a Ledger, its file or its URL.
        dataset: which data set of the ledger.
        accept_misfit: release although the data contradict the model; the guarantee and the certificate state it.
        reserved_space: called with about how many bytes a table has as CSV, before it is charged; may refuse.
        progress: called with a few words before each step.
    """
    series = Series.of(
        data,
        column=column,
        order=order,
        by=by,
        restart=restart,
        missing=missing,
        independent=independent,
        first=first,
        last=last,
        bins=bins,
        id=id,
    )
    request: dict[str, Any] = {
        "model": model,
        "epsilon": epsilon,
        "adversary": adversary,
        "clip": clip,
        "beta": beta,
        "sampler": sampler,
        "ledger": ledger,
        "dataset": dataset,
        "accept_misfit": accept_misfit,
        "progress": progress,
    }
    if (query is None) == (measurement is None):
        raise ParameterError("give either a query or a measurement")
    if query is None:
        others: dict[str, Any] = {
            "per": per,
            "groups": groups,
            "split": split,
            "sizes": None if sizes == "exact" else sizes,
            "id": series.id,
            "secrets": secrets,
            "mechanism": mechanism,
            "unit": unit,
        }
        for name, value in {**others, "sampler": sampler}.items():
            if value is not None:
                raise ParameterError(f"{name} does not go with a measurement, which draws its own noise: leave it out")
        for name in ("beta", "sampler"):
            del request[name]
        from pufferdp.publish.measurements.publication import release_measurement

        return release_measurement(series, measurement=measurement, delta=delta, **request)
    for_answers: dict[str, Any] = {"secrets": secrets, "mechanism": mechanism, "delta": delta, "unit": unit}
    if not asks_table(query, per):
        assert isinstance(query, (str, Query))
        if groups is not None or split is not None or sizes != "exact":
            raise ParameterError(
                "groups, split and sizes go with a table: say what its groups are with per=, or ask several queries"
            )
        return release_answer(series, query=query, **request, **for_answers)
    for name, value in {"id": series.id, **for_answers}.items():
        if value:
            raise ParameterError(
                f"{name} goes with one query of all records together, not with a table{_NOT_FOR_TABLES.get(name, '')}: "
                "leave it out",
                value=value,
            )
    from pufferdp.publish.tables.publication import release_table

    return release_table(
        series, query=query, per=per, groups=groups, split=split, sizes=sizes, reserved_space=reserved_space, **request
    )
