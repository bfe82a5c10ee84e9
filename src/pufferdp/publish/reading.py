"""From data to the exact counts an answer is made of. Exact numbers stay in here and in ``releasing``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.errors import (
    CertificateError,
    DataError,
    NotApplicableError,
    ParameterError,
    PufferdpError,
    ValuesError,
)
from pufferdp.basics.words import normalised_identity
from pufferdp.data.layout import Coding, Counts, Layout, check_pair_states, hides_values, read_distance
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.data.series import KeyedRecords, Series, open_series
from pufferdp.models.ar1 import Ar1, ar1_of
from pufferdp.models.base import Lengths, Model, RecordModel, records_of
from pufferdp.models.chain import MarkovChain, Move, SeriesModel, bin_names, chains_of, series_of
from pufferdp.models.clock import MarkovClock, clock_of
from pufferdp.models.gaussian import NumberModel, numbers_of
from pufferdp.models.hidden import hidden_of, is_hidden
from pufferdp.models.units import Unit
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.stated_reading import stated_lengths

_WAY_OUT: Final = "correct the data, or use a model that allows it (a fit with prior=0.5 allows every move)"
_NUMBERS: Final = Coding(labels=("number",), bins=(-sys.float_info.max, sys.float_info.max))
"""Any number will do where nothing but a sum is asked."""
States = list[npt.NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True)
class Reading(Layout):
    """How data is read: where the series is in its table, and which record a row is for models that are not series."""

    id: str | None = None
    """The column that says which record a row is, for models that are not series."""

    @classmethod
    def stated(cls, data: Any) -> Reading:
        """As a certificate states it."""
        return cls(column=data.column, order=data.order, by=data.by, restart=data.gap, missing=data.missing, id=data.id)

    def check(self, model: Model, unit: Unit | None = None) -> None:
        """Refuse a way of reading that does not go with the model and the unit, before any data is read."""
        layout: dict[str, str | float | None] = {"order": self.order, "by": self.by, "restart": self.restart}
        for name, place in (("from", self.first), ("to", self.last)):
            if place is not None:
                layout[name] = str(place)
        model.check_reading(layout, self.missing, self.id)
        self._check_restart(model, unit)
        check_pair_states(self.column, model.labels)

    def _check_restart(self, model: Model, unit: Unit | None) -> None:
        """Refuse a gap that every record lies behind, and one in the whole series of a person."""
        if self.restart is None:
            return
        gap, step = read_distance(self.restart, "restart"), read_distance(model.step or self.restart, "step")
        if gap.is_duration == step.is_duration and gap.amount < step.amount:
            raise ParameterError(
                f"restart is {self.restart} and the model's step is {model.step}; every record comes more than that "
                "after the one before, so all would count as independent, and the model says that they are not: use "
                "a gap longer than a step",
                value=self.restart,
            )
        if unit is not None and unit.unlimited:
            raise ParameterError(
                f"unit is {unit.name}, and all records of a {unit.name} are one secret, whatever lies between: "
                "leave restart= out",
                value=unit.name,
            )


def check_stated(data: Any, model: Model, unit: Unit | None = None) -> None:
    """Refuse what a certificate says of the reading where it does not go with the model or with its chains."""
    if data.id == "":
        raise CertificateError("data.id is ''; it must be the name of a column")
    try:
        reading = Reading.stated(data)
        reading.check(model, unit)
        model.check_groups(reading.by, stated_lengths(data.lengths))
    except PufferdpError as error:
        raise CertificateError(f"the data cannot have been read like this: {error}") from None


@dataclass(frozen=True, kw_only=True, repr=False)
class WasRead:
    """What was read: public here, and secret in what subclasses add. Only ``facts`` is ever printed."""

    lengths: Lengths
    facts: dict[str, Any]
    """How the data was read, as a certificate states it."""
    ranges: Ranges = EVERYTHING
    """Which records were read, by time and by person."""
    unobserved: bool = False
    """Whether records of a chain are missing."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.facts})"

    @property
    def public(self) -> dict[str, Any]:
        """The public fields, for another subclass."""
        return {each.name: getattr(self, each.name) for each in fields(WasRead)}


@dataclass(frozen=True, kw_only=True, repr=False)
class Exact(WasRead):
    """What an answer needs of the data."""

    histogram: tuple[int, ...] = ()
    """How many records have each label of the model."""
    clipped: Fraction | None = None
    """The sum of the clipped numbers, where the data and not the model has them."""
    states: Callable[[], States] = list
    """The records themselves, for a function of one's own."""
    numbers: npt.NDArray[np.float64] | None = None
    """The clipped number of each record, for a query that needs more than their sum."""


def read_exact(data: object, model: Model, query: Query, reading: Reading) -> Exact:
    """Read what a query needs of the data under a model."""
    records, numbers = records_of(model), numbers_of(model)
    if records is not None:
        return _of_records(data, records, reading)
    if numbers is not None:
        return _of_families(data, numbers, query, reading)
    autoregressive = ar1_of(model)
    if autoregressive is not None:
        return _of_numbers(data, autoregressive, query, reading)
    return _of_series(data, model, query, reading)


def refuse_impossible(model: Model, read: Exact) -> None:
    """Refuse data that the model rules out, where an answer is published as it is, or nearly, because of the model."""
    if not model.possible(read.states()):
        raise ValuesError(
            "the model rules out what is in the data, and only the model says that hardly any noise is needed; "
            "correct one of them, or name another mechanism with mechanism="
        )


def _of_records(data: object, model: RecordModel, reading: Reading) -> Exact:
    from pufferdp.data.records import read_records  # series are read without it

    states = read_records(data, column=reading.column, id=reading.id, records=model.records, domains=model.domains)
    tally = dict.fromkeys(model.labels, 0)
    for i, state in enumerate(states.tolist()):
        tally[model.domains[i][state]] += 1
    lengths = ((len(model.records), 1),)
    return Exact(
        lengths=lengths,
        histogram=tuple(tally.values()),
        states=lambda: [states],
        facts=facts_of(reading, model, lengths),
    )


def _of_families(data: object, model: NumberModel, query: Query, reading: Reading) -> Exact:
    from pufferdp.data.families import read_families  # series of states are read without it

    assert query.clip is not None  # refused before, by the query
    families = read_families(
        data, column=reading.column, by=reading.by, id=reading.id, records=model.names, clip=query.clip
    )
    model.check_groups(reading.by, families.lengths)
    return Exact(
        lengths=families.lengths,
        clipped=families.clipped,
        facts=facts_of(reading, model, families.lengths),
    )


def _of_numbers(data: object, model: Ar1, query: Query, reading: Reading) -> Exact:
    from pufferdp.data.families import read_number_series  # series of states are read without it

    assert query.clip is not None  # refused before, by the query
    read = read_number_series(data, reading)
    counts = read.counts
    check_people(model, read.series, counts.records)
    check_restarts(reading, counts)
    return Exact(
        lengths=counts.lengths,
        clipped=read.clipped(*query.clip),
        facts=facts_of(reading, model, counts.lengths, counts.missing, counts.ranges, counts.unobserved),
        ranges=counts.ranges,
    )


def _of_series(data: object, model: Model, query: Query, reading: Reading) -> Exact:
    series, numbers = open_series(data, reading), query.reads_numbers(model)
    coding = _NUMBERS if numbers and model.arbitrary is not None else coding_of(model)
    counts = series.counts(coding, clip=query.clip if numbers else None, ranges=True)
    exact = exact_of(model, counts, reading, coding is _NUMBERS, lambda: states_of(model, coding, series))
    check_people(model, series, counts.records)
    check_moves(model, series)
    return (
        replace(exact, numbers=series.keyed(coding, clip=query.clip).numbers) if numbers and query.reads_each else exact
    )


def read_keyed(
    data: object, model: Model, reading: Reading, clip: tuple[float, float] | None
) -> tuple[Exact, KeyedRecords]:
    """What every question needs of a series, and each of its records, in numbers of the model's states."""
    series, coding = open_series(data, reading), coding_of(model)
    counts = series.counts(coding, clip=clip, ranges=True)
    exact = exact_of(model, counts, reading)
    check_people(model, series, counts.records)
    check_moves(model, series)
    keyed = series.keyed(coding, clip=clip)
    return exact, replace(
        keyed, codes=np.zeros_like(keyed.codes) if hides_values() else _places(model, coding)[keyed.codes]
    )


def _places(model: Model, coding: Coding) -> npt.NDArray[np.int64]:
    """The model's number of each state of the coding; -1 for one that the model leaves out, which is refused."""
    names = [model.labels.index(name) if name in model.labels else -1 for name in coding.labels]
    return np.array(names, dtype=np.int64)


def check_people(model: Model, series: Series, records: int) -> None:
    """Refuse a column that cuts a series into pieces which do not look like people, unless the caller vouches for it.

    How many records each value has, and in which order they come, is public.
    """
    layout = series.layout
    if layout.by is None or layout.independent or (series_of(model) is None and ar1_of(model) is None):
        return
    sizes = series.sizes()
    people, single = len(sizes), sum(size == 1 for size in sizes.values())
    way_out = f"where you assume that different values of {layout.by!r} are independent all the same, say so with "
    way_out += "independent=True"
    if single and people > 1:
        raise DataError(
            f"{single} of {people} values of {layout.by!r} have one record only; leave them out, or, {way_out}",
            value=single,
        )
    if people > 1 and people > records / 10:
        raise DataError(
            f"the column {layout.by!r} has {people} values on {records} records; each counts as independent of the "
            f"others, and so many look like pieces of a few: {way_out}",
            value=people,
        )
    spellings: dict[str, str] = {}
    for name in sorted(sizes):
        if (other := spellings.setdefault(normalised_identity(name), name)) != name:
            raise DataError(
                f"{other!r} and {name!r} in {layout.by!r} look like one ID; write it in one way, or, {way_out}",
                value=name,
            )
    if layout.order is not None and people > 1 and series.alternates(records):
        raise DataError(
            f"the values of {layout.by!r} alternate along {layout.order!r}, as if one series were cut into several; "
            f"{way_out}",
            value=layout.by,
        )


def check_moves(model: Model, series: Series) -> None:
    """Refuse data with a move that the model calls impossible: its guarantee says nothing about them.

    A release therefore reveals that there is none; certificates say so.
    """
    prior = series_of(model)
    if prior is not None and prior.rules_out:
        check_moves_of_people({None: prior}, series, coding_of(model))


def check_moves_of_people(models: Mapping[str | None, SeriesModel], series: Series, coding: Coding) -> None:
    """The same where each person has a model of their own; under None: the one model of everybody.

    The states of the coding are those of all models together.
    """
    if hides_values():
        return
    telling = {person: model for person, model in models.items() if model.rules_out}
    clocks = {person: clock for person, model in telling.items() if (clock := clock_of(model)) is not None}
    hidden: dict[str | None, SeriesModel] = {person: model for person, model in telling.items() if is_hidden(model)}
    others = {person: telling[person] for person in telling.keys() - clocks.keys() - hidden.keys()}
    for period, slots in {(clock.period, clock.steps) for clock in clocks.values()}:
        for person, slot_moves in series.slot_moves_of_people(coding, period, slots).items():
            clock = clocks.get(None, clocks.get(person))
            if clock is not None and (clock.period, clock.steps) == (period, slots):
                _refuse_slots(clock, slot_moves, coding)
    if hidden:
        for person, path, steps in series.timed_paths(coding):
            model = hidden.get(None, hidden.get(person))
            if model is not None:
                _refuse_path(model, path, steps, coding, series.layout.is_part)
    if others:
        moves = series.moves(coding)
        if None in others:  # one chain of a class for everybody
            moves = {"": {move for own in moves.values() for move in own}}
        for person, own in moves.items():
            model = others.get(None, others.get(person))
            if model is None:
                continue
            inside = series.layout.is_part and any(chain.given_start is not None for chain in model.chains)
            # The start is for the first record of the whole series.
            refuse_moves(model, {move for move in own if move[0] >= 0} if inside else own, coding)


def _refuse_path(
    model: SeriesModel, path: npt.NDArray[np.int64], steps: npt.NDArray[np.int64], coding: Coding, part: bool
) -> None:
    """Refuse a chain that no path of hidden states gives."""
    hidden = hidden_of(model)
    if hidden is None:
        return
    own = _places(model, coding)[path]
    wrong = hidden.ways.first_impossible(own, steps, inside=part and hidden.hidden_chain.given_start is not None)
    if wrong is None:
        return
    names = [repr(model.labels[x]) for x in own[max(0, wrong - 2) : wrong + 1].tolist()]
    what = f"a chain that begins with {names[0]}" if not wrong else f"{names[-1]} after {', '.join(names[:-1])}"
    what += f", {steps[wrong]} steps later" if wrong and steps[wrong] > 1 else ""
    raise _impossible(f"{what}, and with what went before", model.labels[int(own[wrong])])


def _impossible(what: str, state: str) -> ValuesError:
    return ValuesError(
        f"the data has {what} the model calls that impossible: its guarantee says nothing about such data; {_WAY_OUT}",
        value=state,
    )


def _move_text(model: SeriesModel, before: int, code: int, steps: int) -> str:
    """A move in words; of no steps, or from no state, the beginning of a chain."""
    to = repr(model.labels[code])
    if before < 0 or not steps:
        return f"a chain that begins with {to}"
    return f"a move from {model.labels[before]!r} to {to} in {steps} step{'s' * (steps > 1)}"


def _refuse_slots(model: MarkovClock, moves: Iterable[tuple[int, int, int, int]], coding: Coding) -> None:
    """Refuse what a clock calls impossible: it depends on the time."""
    if not model.rules_out:
        return
    place = {n: model.labels.index(name) for n, name in enumerate(coding.labels) if name in model.labels}
    for slot, before, code, steps in sorted(moves):
        x, y = place.get(before, 0), place[code]
        if not model.allows_at(slot, x, y, steps):
            when = f"at step {slot + 1} of {model.steps} of its {model.period}, and"
            raise _impossible(f"{_move_text(model, x, y, steps)} {when}", model.labels[y])


def refuse_moves(model: SeriesModel, moves: Iterable[Move], coding: Coding | None = None) -> None:
    """Refuse these moves, in numbers of the coding's states, where the model calls one of them impossible."""
    labels = (coding or coding_of(model)).labels
    place = {n: model.labels.index(name) for n, name in enumerate(labels) if name in model.labels}
    own = sorted((place.get(before, -1), place[code], steps) for before, code, steps in moves)
    if model.allows(own):
        return
    wrong = next((move for move in own if not model.allows([move])), None)
    if wrong is None:
        raise ValuesError(
            "no chain of the class can make all the moves of the data; correct the data, or use a class that "
            "has such a chain"
        )
    before, code, steps = wrong
    raise _impossible(f"{_move_text(model, before, code, steps)}, and", model.labels[code])


def exact_of(
    model: Model,
    counts: Counts,
    reading: Reading,
    only_numbers: bool = False,
    states: Callable[[], States] = list,
) -> Exact:
    """What an answer needs of the counts of a series; refuses those that do not go with the model."""
    check_start(model, counts)
    check_restarts(reading, counts)
    model.check_groups(reading.by, counts.lengths)
    return Exact(
        lengths=counts.lengths,
        histogram=() if only_numbers else histogram_of(model, counts),
        clipped=counts.clipped,
        states=states,
        unobserved=counts.missing + counts.unobserved > 0,
        facts=facts_of(
            reading,
            model,
            counts.lengths,
            counts.missing,
            counts.ranges,
            counts.unobserved,
            within_bins=counts.clipped is not None and model.bins is not None,
        ),
        ranges=counts.ranges,
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class ExactFlow(WasRead):
    """What a flow needs: transitions counted."""

    transitions: npt.NDArray[np.int64]
    """How often each state of the model follows each other one."""


def read_flow(data: object, model: MarkovChain, reading: Reading, centre_only: bool) -> ExactFlow:
    """Count the transitions of all chains; none leads across an unobserved step.

    The bounds count the transitions that are seen, whether or not a chain runs on between them (docs/theory/flow.md).
    """
    coding = coding_of(model)
    series = open_series(data, reading)
    counts = series.counts(coding, transitions=True, ranges=True, pieces=True)
    check_people(model, series, counts.records)
    # Unobserved steps cut pieces too.
    check_restarts(reading, replace(counts, restarts=max(0, counts.restarts - counts.unobserved)))
    if centre_only:  # other chains of the orbit may move where its centre does not
        check_moves(model, series)
    check_start(model, counts)
    histogram_of(model, counts)  # refuses records in bins that the model leaves out
    assert counts.transitions is not None
    indices = [coding.labels.index(name) for name in model.labels]
    return ExactFlow(
        transitions=np.array(counts.transitions, dtype=np.int64)[np.ix_(indices, indices)],
        lengths=counts.lengths,
        facts=facts_of(reading, model, counts.lengths, counts.missing, counts.ranges, counts.unobserved),
        ranges=counts.ranges,
    )


def facts_of(
    layout: Reading,
    model: Model,
    lengths: Sequence[tuple[int, int]],
    dropped: int = 0,
    ranges: Ranges = EVERYTHING,
    unobserved: int = 0,
    within_bins: bool = False,
) -> dict[str, Any]:
    """How the data was read, as a certificate says it: public."""
    series = series_of(model) or ar1_of(model)
    gap, step = (float(value) if isinstance(value, int) else value for value in (layout.restart, layout.step))
    facts = {
        "column": layout.column,
        "id": layout.id,
        "order": layout.order,
        **({"rows_in_order": True} if layout.rows_in_order and series is not None else {}),
        "by": layout.by,
        "gap": gap,  # what follows a longer one is assumed to be independent
        "missing": layout.missing,
        "records": sum(length * count for length, count in lengths),
        "lengths": [list(pair) for pair in lengths],
        "dropped": dropped,
        **({} if ranges == EVERYTHING else {"ranges": ranges.to_dict()}),
        **({"part": True} if layout.is_part else {}),
        "unobserved": unobserved,
        **({} if step is None or layout.order is None else {"step": step}),
        **({"independent": True} if layout.independent else {}),
    }
    return {**facts, "assumptions": assumptions(facts, series, within_bins)}


def assumptions(facts: Mapping[str, Any], series: SeriesModel | Ar1 | None, within_bins: bool = False) -> list[str]:
    """What a guarantee rests on besides the model, because of how the data was read.

    ``within_bins``: numbers are released, and the model speaks of the bins that they lie in alone.
    """
    out = []
    if facts["by"] is not None:
        out.append(f"different values of {facts['by']!r} are independent")
    if facts["gap"] is not None:
        gap = facts["gap"] if isinstance(facts["gap"], str) else f"{facts['gap']:g}"
        out.append(f"what follows a gap of more than {gap} in {facts['order']!r} is independent of what went before")
    if facts.get("rows_in_order"):
        out.append("the rows are in time order")
    if facts.get("independent"):
        chains = sum(count for _, count in facts["lengths"])
        out.append(f"all {chains:,} of these pieces are independent, however short they are")
    if series is not None and facts.get("step") is None:
        apart = "at least" if series.real_valued else "exactly"
        out.append(f"consecutive rows are {apart} one model time step apart")
    if isinstance(series, SeriesModel) and series.rhythm is not None:
        hours = "UTC hours" if facts.get("ranges", {}).get("unit") == "utc" else f"those written in {facts['order']!r}"
        out.append(f"the hours of the model are {hours}")
    if facts.get("kept"):
        tell = "tell" if len(facts["kept"]) > 1 else "tells"
        out.append(f"the kept {columns_text(facts['kept'])} {tell} nothing about {facts['column']!r}")
    if within_bins:
        out.append("given the bins, where a number lies inside its bin is independent of everything else")
    return out


def columns_text(names: Sequence[str]) -> str:
    """Columns in words: columns 'lat' and 'lon'."""
    *others, last = map(repr, names)
    return f"columns {', '.join(others)} and {last}" if others else f"column {last}"


def moves_fact(facts: Mapping[str, Any], model: Model) -> list[str]:
    """What everybody knows of data that was not refused, where the model rules something out."""
    series = series_of(model)
    if series is None or not series.rules_out:
        return []
    return ["that the data make no move which the model calls impossible: such data are refused"]


def assumption_text(facts: Mapping[str, Any]) -> str:
    """The assumptions that end a guarantee, a sentence each."""
    return "".join(f" Assumption: {assumption}." for assumption in facts["assumptions"])


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
        if count and name not in model.labels and not hides_values():
            raise ValuesError(
                f"a record lies in {name}, a state the model leaves out; fit it on data that leaves this state, "
                "or use wider bins",
                value=name,
            )
    return tuple(by_name[name] for name in model.labels)


def states_of(model: Model, coding: Coding, series: Series) -> States:
    """The records of each chain in numbers of the model's states, which calibrations go by, and not of the coding's.

    Only for data that ``histogram_of`` let pass: no record lies in a bin that the model leaves out.
    """
    paths = series.states(coding)
    if coding.labels == model.labels:
        return paths
    place = _places(model, coding)
    return [place[path] for path in paths]


def check_restarts(layout: Layout, counts: Counts) -> None:
    """Refuse a gap so short that it cuts a series into crumbs which all count as independent, unless vouched for.

    Where the gaps lie is public.
    """
    if counts.restarts and not layout.independent and 2 * (counts.restarts + 1) > counts.records:
        raise DataError(
            f"restart is {layout.restart} and cuts {counts.records} records into {counts.restarts + 1} chains or more, "
            "each taken for independent of the others; use a longer gap, or, where you assume that all the same, say "
            "so with independent=True",
            value=counts.restarts,
        )


def check_start(model: Model, counts: Counts) -> None:
    """Refuse a distribution of the first record where chains begin after gaps."""
    if counts.restarts and any(chain.given_start is not None for chain in chains_of(model)):
        raise NotApplicableError(
            f"{counts.restarts} chain(s) begin after a gap, and the model's start is for the first record only; "
            'use start "stationary" or "any"'
        )
