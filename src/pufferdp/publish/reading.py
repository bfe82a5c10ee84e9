"""From data to the exact counts an answer is made of. Exact numbers stay in here and in ``releasing``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.errors import DataError, NotApplicableError
from pufferdp.data.families import read_families, read_number_series
from pufferdp.data.layout import Coding, Counts, Layout
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.data.records import read_records
from pufferdp.data.series import open_series
from pufferdp.models.ar1 import Ar1, ar1_of
from pufferdp.models.base import LayoutOptions, Lengths, Model, RecordModel, records_of
from pufferdp.models.chain import MarkovChain, bin_names, chains_of
from pufferdp.models.gaussian import NumberModel, numbers_of
from pufferdp.publish.answers.queries import Query

_NUMBERS: Final = Coding(labels=("number",), bins=(-sys.float_info.max, sys.float_info.max))
"""Any number will do where nothing but a sum is asked."""
States = list[npt.NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True, repr=False)
class Exact:
    """What was read. Never printed: ``facts`` alone is public."""

    lengths: Lengths
    histogram: tuple[int, ...]
    """How many records have each label of the model."""
    clipped: Fraction | None
    """The sum of the clipped numbers, where the data and not the model has them."""
    states: Callable[[], States]
    """The records themselves, for a function of one's own."""
    facts: dict[str, Any]
    """How the data was read: public."""
    ranges: Ranges = EVERYTHING
    """Which records were read: public."""
    fingerprint: dict[str, int] = field(default_factory=dict)
    """What stands for the data of a series of real numbers, where it is compared with those of a fit."""

    def __repr__(self) -> str:
        return f"Exact({self.facts})"


def read_exact(data: object, model: Model, query: Query, layout: Layout, id: str | None) -> Exact:
    """Read what a query needs."""
    records, numbers = records_of(model), numbers_of(model)
    if records is not None:
        return _of_records(data, records, layout, id)
    if numbers is not None:
        return _of_families(data, numbers, query, layout, id)
    autoregressive = ar1_of(model)
    if autoregressive is not None:
        return _of_numbers(data, autoregressive, query, layout)
    return _of_series(data, model, query, layout)


def check_reading(model: Model, layout: LayoutOptions, missing: str, id: str | None) -> None:
    """Refuse ways of reading (order, by, gap) that do not go with the model, before any data is read."""
    model.check_reading(layout, missing, id)


def check_groups(model: Model, by: str | None, lengths: Sequence[Sequence[int]]) -> None:
    """Refuse groups that are larger than the model allows, where a column tells them apart."""
    model.check_groups(by, lengths)


def refuse_impossible(model: Model, read: Exact) -> None:
    """Refuse data that the model rules out, where an answer is published exactly because the model fixes it."""
    if not model.possible(read.states()):
        raise DataError(
            "the model rules out what is in the data, and only the model says that no noise is needed; "
            "correct one of them, or name another mechanism with --mechanism"
        )


def _of_records(data: object, model: RecordModel, layout: Layout, id: str | None) -> Exact:
    states = read_records(data, column=layout.column, id=id, records=model.records, domains=model.domains)
    tally = dict.fromkeys(model.labels, 0)
    for i, state in enumerate(states.tolist()):
        tally[model.domains[i][state]] += 1
    return Exact(
        lengths=((len(model.records), 1),),
        histogram=tuple(tally.values()),
        clipped=None,
        states=lambda: [states],
        facts=facts_of(layout, id, ((len(model.records), 1),), 0),
    )


def _of_families(data: object, model: NumberModel, query: Query, layout: Layout, id: str | None) -> Exact:
    assert query.clip is not None  # refused before, by the query
    families = read_families(data, column=layout.column, by=layout.by, id=id, records=model.names, clip=query.clip)
    check_groups(model, layout.by, families.lengths)
    return Exact(
        lengths=families.lengths,
        histogram=(),
        clipped=families.clipped,
        states=lambda: [],
        facts=facts_of(layout, id, families.lengths, 0),
    )


def _of_numbers(data: object, model: Ar1, query: Query, layout: Layout) -> Exact:
    assert query.clip is not None  # refused before, by the query
    read = read_number_series(data, layout, model.step)
    return Exact(
        lengths=read.lengths,
        histogram=(),
        clipped=read.clipped(*query.clip),
        states=lambda: [],
        facts=facts_of(layout, None, read.lengths, read.missing, read.ranges),
        ranges=read.ranges,
        fingerprint=read.fingerprint,
    )


def _of_series(data: object, model: Model, query: Query, layout: Layout) -> Exact:
    series, numbers = open_series(data, layout), query.reads_numbers(model)
    coding = _NUMBERS if numbers and model.arbitrary is not None else coding_of(model)
    counts = series.counts(coding, clip=query.clip if numbers else None, ranges=True)
    return exact_of(model, counts, layout, coding is _NUMBERS, lambda: series.states(coding))


def exact_of(
    model: Model,
    counts: Counts,
    layout: Layout,
    only_numbers: bool = False,
    states: Callable[[], States] = lambda: [],
) -> Exact:
    """What an answer needs of the counts of a series; refuses those that do not go with the model."""
    check_start(model, counts)
    check_groups(model, layout.by, counts.lengths)
    return Exact(
        lengths=counts.lengths,
        histogram=() if only_numbers else histogram_of(model, counts),
        clipped=counts.clipped,
        states=states,
        facts=facts_of(layout, None, counts.lengths, counts.missing, counts.ranges),
        ranges=counts.ranges,
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class ExactFlow:
    """Transitions counted. Never printed: ``facts`` alone is public."""

    transitions: npt.NDArray[np.int64]
    """How often each state of the model follows each other one."""
    lengths: Lengths
    histogram: tuple[int, ...]
    facts: dict[str, Any]
    """How the data was read: public."""
    ranges: Ranges = EVERYTHING
    """Which records were read: public."""

    def __repr__(self) -> str:
        return f"ExactFlow({self.facts})"


def read_flow(data: object, model: MarkovChain, layout: Layout) -> ExactFlow:
    """Count the transitions of all chains; none leads across a gap or a missing value."""
    coding = coding_of(model)
    counts = open_series(data, layout).counts(coding, transitions=True, ranges=True)
    check_start(model, counts)
    histogram = histogram_of(model, counts)
    assert counts.transitions is not None
    indices = [coding.labels.index(name) for name in model.labels]
    return ExactFlow(
        transitions=np.array(counts.transitions, dtype=np.int64)[np.ix_(indices, indices)],
        lengths=counts.lengths,
        histogram=histogram,
        facts=facts_of(layout, None, counts.lengths, counts.missing, counts.ranges),
        ranges=counts.ranges,
    )


def facts_of(
    layout: Layout,
    id: str | None,
    lengths: Sequence[tuple[int, int]],
    dropped: int,
    ranges: Ranges = EVERYTHING,
) -> dict[str, Any]:
    """How the data was read: public."""
    return {
        "column": layout.column,
        "id": id,
        "order": layout.order,
        "by": layout.by,
        "gap": float(layout.gap) if isinstance(layout.gap, int) else layout.gap,  # as a certificate keeps it
        "missing": layout.missing,
        "records": sum(length * count for length, count in lengths),
        "lengths": [list(pair) for pair in lengths],
        "dropped": dropped,
        **({} if ranges == EVERYTHING else {"ranges": ranges.to_dict()}),
        **({"part": True} if layout.is_part else {}),
    }


def coding_of(model: Model) -> Coding:
    """How cells become states: by name, or by the model's bins."""
    if model.bins is not None and len(model.bins) != model.size + 1:
        return Coding(labels=bin_names(model.bins), bins=model.bins)
    return Coding(labels=model.labels, bins=model.bins)


def histogram_of(model: Model, counts: Counts) -> tuple[int, ...]:
    """Exact counts of the model's states; refuses a record in a bin that the model leaves out."""
    names = coding_of(model).labels
    if names == model.labels:
        return counts.histogram
    by_name = dict(zip(names, counts.histogram, strict=True))
    for name, count in by_name.items():
        if count and name not in model.labels:
            raise DataError(
                f"a record lies in {name}, a state the model leaves out; fit it on data that leaves this state, "
                "or use wider bins",
                value=name,
            )
    return tuple(by_name[name] for name in model.labels)


def check_start(model: Model, counts: Counts) -> None:
    """Refuse a law of the first record where chains begin after gaps."""
    if counts.gaps and any(chain.given_start is not None for chain in chains_of(model)):
        raise NotApplicableError(
            f"{counts.gaps} chain(s) begin after a gap, and the model's start law is for the first record only; "
            'use start "stationary" or "any"'
        )
