"""What is asked, with its Lipschitz constant: the most the answer moves, in L1, when one record changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any

from pufferdp.basics import checks
from pufferdp.basics.errors import QueryError
from pufferdp.basics.words import did_you_mean, quoted_value
from pufferdp.models.base import Model
from pufferdp.publish.noise import NoiseKind


class QueryKind(StrEnum):
    """The queries there are."""

    COUNT = "count"
    HISTOGRAM = "histogram"
    FREQUENCY = "frequency"
    SUM = "sum"
    MEAN = "mean"
    FLOW = "flow"
    """Shares of transitions: ``pufferdp flow`` releases them; no mechanism does for an epsilon."""
    FUNCTION = "function"


@dataclass(frozen=True, kw_only=True)
class Query:
    """A query. ``Query.parse("count:active")`` reads the command line's spelling."""

    kind: QueryKind
    """Which of the queries it is; the other fields are for some kinds alone."""
    state: str | None = None
    """The state that is counted."""
    clip: tuple[float, float] | None = None
    """Sums and means: numbers are clipped to this range first."""
    function: Callable[[Sequence[Any]], float | Sequence[float]] | None = field(default=None, repr=False)
    """A function of the chains (one array of state numbers each); trusted to move by at most ``declared``."""
    declared: float | None = None
    """The Lipschitz constant its author declares for the doubles that ``function`` returns, rounding included."""
    coordinates: int = 1
    """How many numbers ``function`` returns."""
    euclidean: float | None = None
    """The same as ``declared`` in L2, which Gaussian noise goes by; never more than it, and without it the same."""

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "kind", QueryKind(self.kind))
        except ValueError:
            raise QueryError(
                f"kind is {quoted_value(self.kind)}; it must be one of {', '.join(QueryKind)}", value=self.kind
            ) from None
        if (self.kind is QueryKind.COUNT) != (self.state is not None):
            raise QueryError("a count names its state, as in count:active, and no other query does")
        if self.clip is not None:
            if self.kind not in (QueryKind.SUM, QueryKind.MEAN):
                raise QueryError(f"clip goes with sum and mean; {self.kind} counts states and has nothing to clip")
            object.__setattr__(self, "clip", checks.clip_pair(self.clip))
        if self.kind is QueryKind.FUNCTION:
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

    @classmethod
    def parse(cls, text: str, *, clip: tuple[float, float] | None = None) -> Query:
        """Read ``count:STATE``, ``histogram``, ``frequency``, ``sum``, ``mean`` or ``flow``."""
        if not isinstance(text, str):
            raise QueryError(f"query is {quoted_value(text)}; it must be the name of a query", value=text)
        name, colon, state = text.partition(":")
        if name == "count" and not state:
            raise QueryError(f"query is {text!r}; a count names its state, as in count:active", value=text)
        kinds = [k for k in QueryKind if k is not QueryKind.FUNCTION]
        if name not in kinds or bool(colon) != (name == "count"):
            known = "count:STATE, histogram, frequency, sum, mean, flow"
            raise QueryError(f"query is {text!r}; it must be one of {known}{near_query(text, kinds)}", value=text)
        return cls(kind=QueryKind(name), state=state or None, clip=clip)

    @classmethod
    def of(cls, query: object, *, clip: tuple[float, float] | None = None) -> Query:
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
        return cls(
            kind=QueryKind.FUNCTION, function=function, declared=lipschitz, coordinates=coordinates, euclidean=euclidean
        )

    @property
    def name(self) -> str:
        """The command line's spelling."""
        return f"count:{self.state}" if self.state is not None else str(self.kind)

    @property
    def counts_states(self) -> bool:
        """Whether the answer is made of whole counts, so that discrete noise serves."""
        return self.kind in (QueryKind.COUNT, QueryKind.HISTOGRAM, QueryKind.FREQUENCY)

    @property
    def divided(self) -> str | None:
        """Its kind in words, where the answer is divided by the number of records."""
        return str(self.kind) if self.kind in (QueryKind.FREQUENCY, QueryKind.MEAN) else None

    def on(self, model: Model, records: int) -> BoundQuery:
        """The query on so many records under a model; refuses a pair that does not fit."""
        if self.kind is QueryKind.FLOW:
            raise QueryError(
                "flow is guaranteed in total variation, with eta= and tau=, and not for an epsilon: plan it with "
                "plan_flow(), release it with flow()",
                value=self.name,
            )
        if model.real_valued and (self.counts_states or self.kind is QueryKind.FUNCTION):
            raise QueryError(
                f"{self.name} is about states, and the records of this model are real numbers: ask for sum or mean "
                "with clip=(A, B)",
                value=self.name,
            )
        if self.state is not None and self.state not in model.labels:
            known = ", ".join(model.labels[:10])
            raise QueryError(f"state {self.state!r} is not in the model; it has {known}", value=self.state)
        if self.counts_states:
            single = self.kind is QueryKind.COUNT
            unit = 1 / records if self.kind is QueryKind.FREQUENCY else 1.0
            # One record that changes moves a count by 1, and in a histogram leaves one bin and enters another.
            return BoundQuery(
                query=self,
                lipschitz=(1.0 if single else 2.0) * unit,
                labels=(self.state or "",) if single else model.labels,
                noise=NoiseKind.DISCRETE_LAPLACE,
                unit=unit,
                range=None,
                moves=self._moves(model),
                extent=self._extent(model, unit),
                balanced=not single and len(model.labels) > 1,
            )
        if self.kind is QueryKind.FUNCTION:
            labels = tuple(str(n) for n in range(self.coordinates)) if self.coordinates > 1 else ("answer",)
            lipschitz = float(self.declared or 0.0)
            return BoundQuery(
                query=self, lipschitz=lipschitz, labels=labels, noise=NoiseKind.LAPLACE, unit=1.0, range=None
            )
        low, high = self._range(model)
        moves = self._moves(model)
        share = 1 / records if self.kind is QueryKind.MEAN else 1.0
        return BoundQuery(
            query=self,
            lipschitz=(high - low if moves is None else max(moves)) * share,
            labels=(str(self.kind),),
            noise=NoiseKind.LAPLACE,
            unit=1.0,
            range=(low, high),
            moves=None if moves is None else tuple(m / max(moves) for m in moves),
            extent=self._extent(model, share),
        )

    def numbers(self, model: Model) -> tuple[float, ...] | None:
        """The number that each label adds to a count, a sum or a mean; None where the data alone has numbers."""
        if self.kind is QueryKind.COUNT:
            return tuple(float(label == self.state) for label in model.labels)
        values = state_values(model)
        if values is None or self.clip is None:
            return values
        return tuple(min(max(v, self.clip[0]), self.clip[1]) for v in values)

    def reads_numbers(self, model: Model) -> bool:
        """Whether the numbers of a sum or mean are those in the data, clipped, and not those of the states."""
        if self.clip is None:
            return False
        return state_values(model) is None or model.placeholder_states

    def _extent(self, model: Model, unit: float) -> tuple[tuple[float, float], ...] | None:
        """The least and the most each coordinate can be, where records have states of their own."""
        if model.domains is None:
            return None
        if self.kind in (QueryKind.HISTOGRAM, QueryKind.FREQUENCY):
            columns = [[float(label == other) for other in model.labels] for label in model.labels]
        else:
            columns = [list(self.numbers(model) or ())]
        out = []
        for column in columns:
            value = dict(zip(model.labels, column, strict=True))
            low = math.fsum(min(value[s] for s in domain) for domain in model.domains)
            high = math.fsum(max(value[s] for s in domain) for domain in model.domains)
            out.append((low * unit, high * unit))
        return tuple(out)

    def _moves(self, model: Model) -> tuple[float, ...] | None:
        """How far each record can move the answer, where records have states of their own."""
        if model.domains is None:
            return None
        if self.kind in (QueryKind.HISTOGRAM, QueryKind.FREQUENCY):
            moves = tuple(float(len(domain) > 1) for domain in model.domains)
        else:
            numbers = self.numbers(model)
            if numbers is None:
                raise QueryError(f"{self.kind} needs numbers: give the model a value for each state")
            value = dict(zip(model.labels, numbers, strict=True))
            moves = tuple(max(value[s] for s in domain) - min(value[s] for s in domain) for domain in model.domains)
        if max(moves) == 0:
            raise QueryError(f"no record of the model can move the answer to {self.name}; it tells nothing")
        return moves

    def _range(self, model: Model) -> tuple[float, float]:
        values = None if self.reads_numbers(model) else state_values(model)
        named = model.domains is not None
        if self.clip is None and model.real_valued:
            raise QueryError(f"{self.kind} needs a range: a real number can be anything, so clip it with clip=(A, B)")
        if values is None and (self.clip is None or named):
            way_out = "" if named else ", or a range with clip=(A, B)"
            raise QueryError(f"{self.kind} needs numbers: give the model a value for each state{way_out}")
        if values is None:
            assert self.clip is not None
            return self.clip
        if self.clip is not None:
            values = tuple(min(max(v, self.clip[0]), self.clip[1]) for v in values)
        if max(abs(v) for v in values) > checks.LARGEST:
            raise QueryError(
                f"a state has a value beyond {checks.LARGEST:g}; sums and noise are too large for a double"
            )
        if min(values) == max(values):
            raise QueryError(f"every state has the value {values[0]:g}; the {self.kind} tells nothing")
        return min(values), max(values)


def check_released(query: Query, records: int, numbers: Sequence[Any], balanced: bool) -> None:
    """Refuse numbers that no draw could have made: a count that is not whole, shares of other than whole numbers.

    With ``balanced`` they must add up to the records, as their noise makes them do.
    """
    whole = query.kind in (QueryKind.COUNT, QueryKind.HISTOGRAM)
    if any(type(number) is not (int if whole else float) for number in numbers):
        raise QueryError(f"the answer to {query.name} must be {'whole' if whole else 'decimal'} numbers")
    counts, slack = list(numbers), 0.0
    if query.kind is QueryKind.FREQUENCY:
        counts = [round(Fraction(share) * records) for share in numbers]
        if any(count / records != share for count, share in zip(counts, numbers, strict=True)):
            raise QueryError(f"the answer to {query.name} must be whole numbers over the {records} records")
        # A share of very many counts is rounded, and several whole numbers have the same.
        slack = math.fsum(map(math.ulp, numbers)) * records
    if balanced and abs(sum(counts) - records) > math.floor(slack):
        raise QueryError(
            f"the answer to {query.name} does not add up to the number of records, as its noise makes it do"
        )


def asks_table(query: object, per: object) -> bool:
    """Whether these queries of these groups make a table, and not one answer: see ``publish/tables``."""
    if per or not isinstance(query, (str, Query)):
        return True
    return isinstance(query, str) and query.partition(":")[0] not in list(QueryKind)


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
