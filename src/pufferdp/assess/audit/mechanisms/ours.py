"""What an audit needs of a mechanism: it runs on many data sets at once, each run with fresh randomness."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from pufferdp.assess.attack.attack import channel_of
from pufferdp.assess.dp import leakage_of
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats, Matrix
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.bounds.redaction.design import Design
from pufferdp.models.base import Model
from pufferdp.models.simulate import draw_moves
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.flips.plan import flip_bound, flip_chains

Records = npt.NDArray[np.float64] | npt.NDArray[np.int64]
"""One data set a row: state numbers for models with states, values for real records."""
Outputs = npt.NDArray[np.float64]
"""One output a row, of d numbers."""


@runtime_checkable
class AuditedMechanism(Protocol):
    """Anything that turns data into output: a function, a command, another library's object."""

    @property
    def name(self) -> str:
        """What reports and JSON call the mechanism."""

    @property
    def dp_loss(self) -> float | None:
        """The DP loss it claims, towards a change of one record; None where it claims none."""

    def run(self, records: Records) -> Outputs:
        """One output for each row of records, shape (m, n) to (m, d); failures are pufferdp errors."""


_GRID: Final = 20
"""Noise is rounded to the scale's power of two over 2^20."""


class KnownMechanism(AuditedMechanism, Protocol):
    """A mechanism whose leakage can be computed."""

    @property
    def targets(self) -> tuple[int, ...] | None:
        """Positions of the records it protects; None: every one."""

    def leakage(self, adversary: Adversary) -> tuple[float | None, float | None]:
        """The exact leakage and an upper bound; None where there is none."""


@dataclass(eq=False, kw_only=True)
class NoisyQuery:
    """The answer to a query with Laplace noise of scale L/tau on every number."""

    model: Model
    query: Query
    records: int
    dp_loss: float
    generator: np.random.Generator = field(repr=False)
    targets: tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        """The mechanism as the command line spells it."""
        return f"laplace:{self.query.name}"

    @cached_property
    def scale(self) -> float:
        """Of the noise on each number."""
        return self.query.on(self.model, self.records).lipschitz / self.dp_loss

    def run(self, records: Records) -> Outputs:
        """The exact answers with fresh noise on each, rounded to a grid.

        The last bits of a double plus a double give the exact answer away (Mironov 2012), and an audit sees it.
        """
        exact = self._answers(records)
        grid = 2.0 ** (math.floor(math.log2(self.scale)) - _GRID)
        return np.asarray(np.round((exact + self.generator.laplace(0.0, self.scale, exact.shape)) / grid) * grid)

    def leakage(self, adversary: Adversary) -> tuple[float | None, float | None]:
        """Exactly for a count, a sum or a mean; otherwise only curves speak."""
        if self.model.real_valued or self.query.each_state:
            return None, None
        length = self.records if self.model.needs_length else None
        report = leakage_of(
            self.model, dp_epsilon=self.dp_loss, length=length, query=self.query, adversary=str(adversary)
        )
        return report.exact, report.exact if report.between is None else report.between[1]

    @property
    def added(self) -> Floats:
        """What a record of each state adds to each number of the answer."""
        return self._columns * self._share

    @property
    def _share(self) -> float:
        return float(self.query.share(self.records))

    def _answers(self, records: Records) -> Outputs:
        share = self._share
        if self.model.real_valued:
            assert self.query.clip is not None  # checked where the query meets the model
            return np.asarray(np.clip(records, *self.query.clip).sum(axis=1, keepdims=True) * share)
        columns = self._columns
        domains = self.model.domains
        if domains is not None:
            places = [{label: n for n, label in enumerate(self.model.labels)}[s] for d in domains for s in d]
            begins = np.concatenate([[0], np.cumsum([len(domain) for domain in domains])])
            numbers = np.asarray(records, dtype=np.int64) + begins[:-1]
            return np.asarray(columns[np.array(places)][numbers].sum(axis=1) * share)
        counts = np.stack([(records == x).sum(axis=1) for x in range(self.model.size)], axis=1)
        return np.asarray(counts @ columns * share)

    @cached_property
    def _columns(self) -> Floats:
        """What each label adds to each number of the answer."""
        if self.query.each_state:
            return np.eye(self.model.size)
        return np.array(self.query.numbers(self.model), dtype=float)[:, None]


@dataclass(eq=False, kw_only=True)
class FlippedSeries:
    """A series with every record passed through a channel."""

    model: Model
    channel: Matrix
    records: int
    generator: np.random.Generator = field(repr=False)
    targets: tuple[int, ...] | None = None
    name: str = "flip"

    @cached_property
    def dp_loss(self) -> float:
        """The largest log-ratio inside a column of the channel."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(self.channel)
            return float(np.nanmax(logs[:, None, :] - logs[None, :, :]))

    def run(self, records: Records) -> Outputs:
        """One number a record: the state that is published."""
        return draw_moves(np.asarray(records, dtype=np.int64), self.channel, self.generator).astype(float)

    def leakage(self, adversary: Adversary) -> tuple[float | None, float | None]:
        """Exactly for two states, a bound for more."""
        bound = flip_bound(flip_chains(self.model), self.channel, self.records, adversary)
        return (bound if len(self.channel) == 2 else None), bound


@dataclass(eq=False, kw_only=True)
class RedactedSeries:
    """A series with records left out by a design; they are shown as -1."""

    design: Design
    generator: np.random.Generator = field(repr=False)
    name: str = "redact"
    dp_loss: float | None = None
    """It spends no DP: released records are exact."""

    @cached_property
    def targets(self) -> tuple[int, ...]:
        """Positions of the private records, counted from 0."""
        return tuple(p - 1 for p in self.design.hiding.private)

    @cached_property
    def _marks(self) -> Floats:
        return np.array(self.design.probabilities())

    def run(self, records: Records) -> Outputs:
        """One number a record: its state, or -1."""
        states = np.asarray(records, dtype=np.int64)
        chances = self._marks[np.arange(states.shape[1]), states]
        return np.where(self.generator.random(states.shape) < chances, -1.0, states)

    def leakage(self, adversary: Adversary) -> tuple[float | None, float | None]:
        """Exactly, from the design."""
        leakage = self.design.leakage_to(adversary)
        return leakage, leakage


def known_mechanism(
    spec: str,
    model: Model,
    length: int | None,
    dp_loss: float | None,
    generator: np.random.Generator,
    clip: tuple[float, float] | None = None,
) -> KnownMechanism:
    """From the command line's spelling: ``laplace:QUERY``, ``flip:R0,R1`` or ``redact:ROW:EPSILON``."""
    kind, _, rest = spec.partition(":")
    if kind in _SPELLINGS and (not rest or (kind == "redact" and not rest.partition(":")[2])):
        raise ParameterError(f"mechanism is {spec!r}; write it as {_SPELLINGS[kind]}", value=spec)
    if kind == "laplace":
        if dp_loss is None:
            raise ParameterError("dp_epsilon is missing; laplace needs the DP loss that its noise is for: dp_epsilon=")
        query = Query.parse(rest, clip=clip)
        made = NoisyQuery(
            model=model, query=query, records=_records(model, length), dp_loss=dp_loss, generator=generator
        )
        _ = made.scale  # refuses a query that does not fit the model
        return made
    if kind in ("flip", "redact") and (length is None or not model.needs_length):
        raise NotApplicableError(f"{kind} publishes a series: it needs a chain and its length")
    if kind == "flip":
        return FlippedSeries(
            model=model, channel=channel_of(_numbers(rest), model), records=length or 0, generator=generator
        )
    if kind == "redact":
        from pufferdp.publish.redaction.plan import plan_redaction

        row, _, epsilon = rest.partition(":")
        numbers = _numbers(f"{row},{epsilon}")
        plan = plan_redaction(model, length=length or 0, private=[int(numbers[0])], epsilon=numbers[1])
        return RedactedSeries(design=plan.designs[0][1], generator=generator)
    raise ParameterError(
        f"mechanism is {spec!r}; it must be laplace:QUERY, flip:R0,R1, redact:ROW:EPSILON, python:MODULE:FUNCTION or "
        "command:COMMAND",
        value=spec,
    )


_SPELLINGS: Final = {
    "laplace": "laplace:QUERY, such as laplace:histogram or laplace:count:STATE",
    "flip": "flip:R0,R1, the probability of a flip for each state, such as flip:0.1,0.2",
    "redact": "redact:ROW:EPSILON, such as redact:100:1",
}


def _records(model: Model, length: int | None) -> int:
    if length is not None:
        return length
    if model.takes_length:
        raise ParameterError("length is missing; a chain needs the number of records: give it with length=")
    return sum(records * count for records, count in model.lengths(()))


def _numbers(text: str) -> Sequence[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = [math.nan]
    if not all(math.isfinite(v) for v in numbers):
        raise ParameterError(f"{text!r} must be numbers separated by commas", value=text)
    return numbers
