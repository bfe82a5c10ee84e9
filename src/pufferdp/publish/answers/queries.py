"""What is asked, with its Lipschitz constant: the most the answer moves, in L1, when one record changes.

A query is a subclass of ``Query``, known by its word once it is defined. Plans, releases, tables, certificates and
ledgers ask it for what they need, so a new one is a class in a file of its own (``variance.py``).
"""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Final, Self

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats, exact_sum
from pufferdp.basics.errors import QueryError
from pufferdp.basics.words import did_you_mean, quoted_value
from pufferdp.models.base import Model
from pufferdp.publish.noise import NoiseKind

Range = tuple[float, float]
_QUERIES: dict[str, type[Query]] = {}
"""The queries that are defined, by their words."""


@dataclass(frozen=True, kw_only=True)
class Query(ABC):
    """A query. ``Query.parse("count:active")`` reads the command line's spelling."""

    word: ClassVar[str]
    """Its name, up to the colon."""
    noun: ClassVar[str]
    """What a number of its answer is called."""
    counts_states: ClassVar[bool] = False
    """Whether the answer is made of whole counts, so that discrete noise serves."""
    each_state: ClassVar[bool] = False
    """Whether the answer has a number for each state."""
    adds_up: ClassVar[bool] = False
    """Whether the answer is one number, to which each record adds what ``numbers`` says of its state."""
    averaged: ClassVar[bool] = False
    """Whether the answer is divided by the number of records."""
    reads_each: ClassVar[bool] = False
    """Whether it needs each number of the data, and not their sum alone."""

    clip: Range | None = None
    """Queries of numbers: numbers are clipped to this range first."""

    def __init_subclass__(cls) -> None:
        if "word" in vars(cls):
            _QUERIES[cls.word] = cls

    @classmethod
    def parse(cls, text: str, *, clip: Range | None = None) -> Query:
        """Read ``count:STATE``, ``histogram``, ``frequency``, ``sum``, ``mean``, ``variance`` or ``flow``."""
        if not isinstance(text, str):
            raise QueryError(f"query is {quoted_value(text)}; it must be the name of a query", value=text)
        word, colon, rest = text.partition(":")
        kind = query_kind(word)
        if kind is None or (colon and not kind.takes_state):
            kinds = query_kinds()
            known = ", ".join("count:STATE" if name == "count" else name for name in kinds)
            raise QueryError(f"query is {text!r}; it must be one of {known}{near_query(text, kinds)}", value=text)
        return kind.read(rest, clip)

    takes_state: ClassVar[bool] = False
    """Whether its name goes on with a state behind a colon."""

    @classmethod
    def read(cls, rest: str, clip: Range | None) -> Self:
        """The query from what stands behind its word, and the clipping range."""
        return cls(clip=clip)

    @classmethod
    def of(cls, query: object, *, clip: Range | None = None) -> Query:
        """The query that is meant: itself, or the one of this name."""
        if isinstance(query, str):
            return cls.parse(query, clip=clip)
        if isinstance(query, Query):
            return query
        more = "; several make a table: plan_table() or release()" if isinstance(query, (list, tuple)) else ""
        raise QueryError(
            f"query is {quoted_value(query)}; it must be the name of a query, or a Query{more}", value=query
        )

    @classmethod
    def of_function(
        cls,
        function: Callable[[Sequence[Any]], float | Sequence[float]],
        lipschitz: float,
        coordinates: int = 1,
        euclidean: float | None = None,
    ) -> Query:
        """Any function of the chains whose answer moves by at most ``lipschitz`` in L1 when one record changes.

        ``euclidean`` is the same in L2, where that is less: of many numbers that one record moves, Gaussian noise is
        then the better one.
        """
        return FunctionQuery(function=function, declared=lipschitz, coordinates=coordinates, euclidean=euclidean)

    @property
    def name(self) -> str:
        """The command line's spelling."""
        return self.word

    @property
    def divided(self) -> str | None:
        """Its name, where the answer is divided by the number of records."""
        return self.word if self.averaged else None

    def share(self, records: int) -> Fraction:
        """What one count, or one unit of a sum, is in the answer's units."""
        return Fraction(1, records) if self.averaged and records else Fraction(1)

    def on(self, model: Model, records: int) -> BoundQuery:
        """The query on so many records under a model; refuses a pair that does not fit."""
        if model.real_valued and not self.of_real_numbers:
            raise QueryError(
                f"{self.name} is about states, and the records of this model are real numbers: ask for sum or mean "
                "with clip=(A, B)",
                value=self.name,
            )
        return self.bound(model, 1 / records if self.averaged else 1.0)

    of_real_numbers: ClassVar[bool] = False
    """Whether it is worked out for records that are real numbers: a record that moves by d moves the answer by at most
    d times L over the width of the range."""

    @abstractmethod
    def bound(self, model: Model, unit: float) -> BoundQuery:
        """The query under a model; ``unit`` is what one count, or one unit of a sum, is in the answer's units."""

    @abstractmethod
    def limits(self, range_: Range | None, records: int) -> Range | None:
        """Between what each number of the answer lies, for numbers in a range; None where nobody knows."""

    def numbers(self, model: Model) -> tuple[float, ...] | None:
        """The number that each label adds to the answer, before it is divided; None where labels add none."""
        return None

    def reads_numbers(self, model: Model) -> bool:
        """Whether the numbers are those in the data, clipped, and not those of the states."""
        if self.clip is None:
            return False
        return state_values(model) is None or model.placeholder_states

    def check_released(self, records: int, numbers: Sequence[Any], balanced: bool) -> None:
        """Refuse numbers that no draw could have made. With ``balanced`` counts must add up to the records."""
        if any(type(number) is not float for number in numbers):
            raise QueryError(f"the answer to {self.name} must be decimal numbers")


@dataclass(frozen=True, kw_only=True)
class _CountingQuery(Query):
    """Counts of states, or shares of them."""

    counts_states = True

    def __post_init__(self) -> None:
        if self.clip is not None:
            raise QueryError(
                f"clip goes with numbers, as for sum and mean; {self.word} counts states and has nothing to clip"
            )

    def limits(self, range_: Range | None, records: int) -> Range:
        """Between no record and all records."""
        return 0.0, 1.0 if self.averaged else float(records)

    def check_released(self, records: int, numbers: Sequence[Any], balanced: bool) -> None:
        """Counts are whole, shares are whole numbers over the records, and balanced ones add up to the records."""
        if self.averaged:
            super().check_released(records, numbers, balanced)
        elif any(type(number) is not int for number in numbers):
            raise QueryError(f"the answer to {self.name} must be whole numbers")
        counts, slack = list(numbers), 0.0
        if self.averaged:
            counts = [round(Fraction(share) * records) for share in numbers]
            if any(count / records != share for count, share in zip(counts, numbers, strict=True)):
                raise QueryError(f"the answer to {self.name} must be whole numbers over the {records} records")
            # A share of very many counts is rounded, and several whole numbers have the same.
            slack = math.fsum(map(math.ulp, numbers)) * records
        if balanced and abs(sum(counts) - records) > math.floor(slack):
            raise QueryError(
                f"the answer to {self.name} does not add up to the number of records, as its noise makes it do"
            )


@dataclass(frozen=True, kw_only=True)
class CountQuery(_CountingQuery):
    """How many records have a state."""

    word = "count"
    noun = "count"
    takes_state = True
    adds_up = True

    state: str
    """The state that is counted."""

    @classmethod
    def read(cls, rest: str, clip: Range | None) -> Self:
        """The count of the state behind the colon."""
        if not rest:
            raise QueryError("query is 'count'; a count names its state, as in count:active", value="count")
        return cls(state=rest, clip=clip)

    @property
    def name(self) -> str:
        """The word, a colon and the state."""
        return f"{self.word}:{self.state}"

    def numbers(self, model: Model) -> tuple[float, ...]:
        """1 for the state that is counted, and 0 for others."""
        return tuple(float(label == self.state) for label in model.labels)

    def bound(self, model: Model, unit: float) -> BoundQuery:
        """One record that changes moves a count by 1."""
        if self.state not in model.labels:
            known = ", ".join(model.labels[:10])
            raise QueryError(f"state {self.state!r} is not in the model; it has {known}", value=self.state)
        numbers = self.numbers(model)
        return BoundQuery(
            query=self,
            lipschitz=1.0,
            labels=(self.state,),
            noise=NoiseKind.DISCRETE_LAPLACE,
            unit=1.0,
            range=None,
            moves=_moves(self, model, _spans(model, numbers)),
            extent=_extents(model, [numbers], 1.0),
        )


class HistogramQuery(_CountingQuery):
    """How many records have each state."""

    word = "histogram"
    noun = "count"
    each_state = True

    def bound(self, model: Model, unit: float) -> BoundQuery:
        """One record that changes leaves one bin and enters another."""
        domains, columns = model.domains, [[float(label == other) for other in model.labels] for label in model.labels]
        spans = None if domains is None else [float(len(domain) > 1) for domain in domains]
        return BoundQuery(
            query=self,
            lipschitz=2.0 * unit,
            labels=model.labels,
            noise=NoiseKind.DISCRETE_LAPLACE,
            unit=unit,
            range=None,
            moves=_moves(self, model, spans),
            extent=_extents(model, columns, unit),
            balanced=len(model.labels) > 1,
        )


class FrequencyQuery(HistogramQuery):
    """Which share of the records has each state."""

    word = "frequency"
    noun = "share"
    averaged = True


@dataclass(frozen=True, kw_only=True)
class NumberQuery(Query):
    """One number made of the numbers of records."""

    def __post_init__(self) -> None:
        if self.clip is not None:
            object.__setattr__(self, "clip", checks.clip_pair(self.clip))

    def move(self, span: float, width: float) -> float:
        """How far a record whose numbers are a span apart moves the total, for numbers in a range of this width."""
        return span

    @abstractmethod
    def total(self, numbers: Floats, counts: Sequence[int] | None = None) -> Fraction:
        """The exact answer before it is divided, from numbers, and how many records have each (None: one)."""

    def bound(self, model: Model, unit: float) -> BoundQuery:
        """L follows from the range of the numbers; of named records from the numbers that each can have."""
        low, high = self._range(model)
        spans = None if model.domains is None else _spans(model, self.clipped_values(model))
        moves = None if spans is None else [self.move(span, high - low) for span in spans]
        numbers = self.numbers(model)
        return BoundQuery(
            query=self,
            lipschitz=(self.move(high - low, high - low) if moves is None else max(moves)) * unit,
            labels=(self.word,),
            noise=NoiseKind.LAPLACE,
            unit=1.0,
            range=(low, high),
            moves=_moves(self, model, moves),
            extent=None if numbers is None else _extents(model, [numbers], unit),
        )

    def clipped_values(self, model: Model) -> tuple[float, ...] | None:
        """The number of each state, clipped; None where the data alone has numbers."""
        values = state_values(model)
        if values is None or self.clip is None:
            return values
        return tuple(min(max(v, self.clip[0]), self.clip[1]) for v in values)

    def _range(self, model: Model) -> Range:
        values = None if self.reads_numbers(model) else self.clipped_values(model)
        named = model.domains is not None
        if self.clip is None and model.real_valued:
            raise QueryError(f"{self.word} needs a range: a real number can be anything, so clip it with clip=(A, B)")
        if values is None and (self.clip is None or named):
            way_out = "" if named else ", or a range with clip=(A, B)"
            raise QueryError(f"{self.word} needs numbers: give the model a value for each state{way_out}")
        if values is None:
            assert self.clip is not None
            return self.clip
        if max(abs(v) for v in values) > checks.LARGEST:
            raise QueryError(
                f"a state has a value beyond {checks.LARGEST:g}; sums and noise are too large for a double"
            )
        if min(values) == max(values):
            raise QueryError(f"every state has the value {values[0]:g}; the {self.word} tells nothing")
        return min(values), max(values)


class SumQuery(NumberQuery):
    """The sum of the numbers of all records."""

    word = "sum"
    noun = "sum"
    adds_up = True
    of_real_numbers = True

    def numbers(self, model: Model) -> tuple[float, ...] | None:
        """The number of each state, clipped."""
        return self.clipped_values(model)

    def total(self, numbers: Floats, counts: Sequence[int] | None = None) -> Fraction:
        """Their sum, which does not depend on the order of the records."""
        if counts is None:
            return exact_sum(numbers)
        return sum((n * Fraction(v) for n, v in zip(counts, numbers, strict=True)), Fraction(0))

    def limits(self, range_: Range | None, records: int) -> Range | None:
        """All records at either end of the range."""
        return None if range_ is None else (range_[0] * records, range_[1] * records)


class MeanQuery(SumQuery):
    """The mean of the numbers of all records."""

    word = "mean"
    noun = "mean"
    averaged = True

    def limits(self, range_: Range | None, records: int) -> Range | None:
        """The range that the numbers lie in."""
        return range_


class FlowQuery(Query):
    """Shares of transitions: ``pufferdp flow`` releases them; no mechanism does for an epsilon."""

    word = "flow"
    noun = "share"
    of_real_numbers = True

    def bound(self, model: Model, unit: float) -> BoundQuery:
        """Refused: its guarantee is another one."""
        raise QueryError(
            "flow is guaranteed in total variation, with eta= and tau=, and not for an epsilon: plan it with "
            "plan_flow(), release it with flow()",
            value=self.name,
        )

    def limits(self, range_: Range | None, records: int) -> Range:
        """Shares lie between 0 and 1."""
        return 0.0, 1.0


@dataclass(frozen=True, kw_only=True)
class FunctionQuery(Query):
    """A function of one's own, whose Lipschitz constant its author declares."""

    word = "function"
    noun = "number"

    function: Callable[[Sequence[Any]], float | Sequence[float]] = field(repr=False)
    """A function of the chains (one array of state numbers each); trusted to move by at most ``declared``."""
    declared: float
    """The Lipschitz constant its author declares for the doubles that ``function`` returns, rounding included."""
    coordinates: int = 1
    """How many numbers ``function`` returns."""
    euclidean: float | None = None
    """The same as ``declared`` in L2, which Gaussian noise goes by; never more than it, and without it the same."""

    def __post_init__(self) -> None:
        if not callable(self.function) or self.declared is None:
            raise QueryError("a function query needs the function and its declared Lipschitz constant")
        if not (math.isfinite(self.declared) and self.declared > 0):
            raise QueryError(f"the declared constant is {self.declared}; it must be a finite number above 0")
        checks.length(self.coordinates, "coordinates")
        if self.euclidean is not None and not 0 < self.euclidean <= self.declared:
            raise QueryError(
                f"the declared constant in L2 is {self.euclidean}; it must lie above 0 and be at most the one in "
                f"L1, {self.declared:g}",
                value=self.euclidean,
            )

    def bound(self, model: Model, unit: float) -> BoundQuery:
        """What its author has declared."""
        labels = tuple(str(n) for n in range(self.coordinates)) if self.coordinates > 1 else ("answer",)
        lipschitz = float(self.declared)
        return BoundQuery(query=self, lipschitz=lipschitz, labels=labels, noise=NoiseKind.LAPLACE, unit=1.0, range=None)

    def limits(self, range_: Range | None, records: int) -> None:
        """Nobody knows what a function can return."""


_ELSEWHERE: Final = {"variance": "pufferdp.publish.answers.variance"}
"""Queries of the package that are loaded when one is asked for by name."""


def query_kind(word: str) -> type[Query] | None:
    """The query of this word, also of another package; a function of one's own has no name to ask by."""
    if word in _ELSEWHERE and word not in _QUERIES:
        importlib.import_module(_ELSEWHERE[word])
    found = _QUERIES.get(word)
    return None if found is FunctionQuery else found


def query_kinds() -> dict[str, type[Query]]:
    """The queries by their words, with flow at the end, which is asked for in another way."""
    for word in _ELSEWHERE:
        query_kind(word)
    named = {word: query for word, query in _QUERIES.items() if query not in (FunctionQuery, FlowQuery)}
    return {**named, FlowQuery.word: FlowQuery}


def asks_table(query: object, per: object) -> bool:
    """Whether these queries of these groups make a table, and not one answer: see ``publish/tables``."""
    if per or not isinstance(query, (str, Query)):
        return True
    return isinstance(query, str) and query_kind(query.partition(":")[0]) is None


def _spans(model: Model, numbers: Sequence[float] | None) -> list[float] | None:
    """How far the numbers of each record's states are apart, where records have states of their own."""
    if model.domains is None or numbers is None:
        return None
    value = dict(zip(model.labels, numbers, strict=True))
    return [max(value[s] for s in domain) - min(value[s] for s in domain) for domain in model.domains]


def _moves(query: Query, model: Model, moves: Sequence[float] | None) -> tuple[float, ...] | None:
    """How far each record can move the answer, as a share of the farthest, where records have states of their own."""
    if model.domains is None:
        return None
    if moves is None or max(moves) == 0:
        raise QueryError(f"no record of the model can move the answer to {query.name}; it tells nothing")
    return tuple(move / max(moves) for move in moves)


def _extents(model: Model, columns: Sequence[Sequence[float]], unit: float) -> tuple[Range, ...] | None:
    """The least and the most each number of a sum can be, where records have states of their own."""
    if model.domains is None:
        return None
    out = []
    for column in columns:
        value = dict(zip(model.labels, column, strict=True))
        low = math.fsum(min(value[s] for s in domain) for domain in model.domains)
        high = math.fsum(max(value[s] for s in domain) for domain in model.domains)
        out.append((low * unit, high * unit))
    return tuple(out)


def state_values(model: Model) -> tuple[float, ...] | None:
    """The number each state stands for: the model's values, or 0..k-1 for states without names and bins."""
    if model.values is not None:
        return model.values
    if model.size and model.bins is None and model.labels == tuple(str(j) for j in range(model.size)):
        return tuple(float(j) for j in range(model.size))
    return None


@dataclass(frozen=True, kw_only=True)
class BoundQuery:
    """A query on a series of known length under a known model."""

    query: Query
    lipschitz: float
    """L: the most the answer moves in L1 when one record changes."""
    labels: tuple[str, ...]
    """What each coordinate of the answer is."""
    noise: NoiseKind
    """Which distribution the noise has: a discrete one where the answer is counts."""
    unit: float
    """Size of one count in the answer's units."""
    range: tuple[float, float] | None
    """Sums and means: smallest and largest number of one record."""
    moves: tuple[float, ...] | None = None
    """How far each record can move the answer, as a share of L, where records differ."""
    extent: tuple[tuple[float, float], ...] | None = None
    """The least and the most each coordinate can be, where records differ."""
    balanced: bool = False
    """Whether the coordinates add up to a public number, that of the records: their noise then adds up to 0."""


def near_query(text: str, kinds: Iterable[str]) -> str:
    """A hint for a query that nobody knows: the nearest name, or that several are not one."""
    if "," in text:
        return "; ask for several one by one, without commas"
    name, colon, rest = text.partition(":")
    return did_you_mean(name, kinds).replace("'?", f"{colon}{rest}'?")
