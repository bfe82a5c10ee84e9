"""A Markov chain on hidden states, each of which shows one record value without error.

Chains of order m, semi-Markov chains with binned ages, regimes and hidden Markov models are written in this form. The
adversary knows records and never hidden states.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Mask, Matrix, read_only
from pufferdp.basics.checks import length as whole
from pufferdp.basics.errors import ModelError, NotApplicableError
from pufferdp.basics.words import quoted_value, shape_text
from pufferdp.models.base import LayoutOptions, Outcomes
from pufferdp.models.chain import (
    MarkovChain,
    Start,
    StatesFile,
    check_distribution,
    number_array,
    probability_rows,
    time_step,
)
from pufferdp.models.clock import MarkovClock, Tables, check_clock_reading, share_evenly, steps_in
from pufferdp.models.files.json import Row
from pufferdp.models.hidden import HiddenMarkov, HiddenSeries
from pufferdp.models.recursions.filtering import Codes, Forward, Recursion, Segments, cut, smoothed

if TYPE_CHECKING:
    from pufferdp.models.simulate import Generator


class _StatesOfFile(StatesFile):
    type: Literal["hidden_states"]
    transition: list[Row] | list[list[Row]]
    of: list[int]
    period: str | float | None = None
    start: str | Row = "stationary"


@dataclass(frozen=True, kw_only=True, eq=False)
class HiddenStates(HiddenSeries):
    """A Markov chain on hidden states, each of which shows one record value; optionally by time of day.

    With one hidden state for each value it is the `MarkovChain` (or `MarkovClock`) of the records.

    >>> table = [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]
    >>> HiddenStates(transition=table, of=[0, 0, 1], states=["off", "on"])
    HiddenStates(3 hidden states: off 2, on 1; start stationary)
    """

    file_type: ClassVar[str | None] = "hidden_states"

    transition: npt.NDArray[np.float64]
    """Row z holds the probabilities of the next hidden state after hidden state z; with ``period`` a list of such
    matrices, which share the period evenly from its beginning on."""
    of: tuple[int, ...]
    """The record value that each hidden state shows, as a number 0..k-1."""
    start: Start = "stationary"
    """``"stationary"``, ``"any"`` (the guarantee holds for every start) or the distribution of the first hidden
    state."""
    period: str | float | None = None
    """The time after which the matrices repeat, such as ``"24h"``; None for one matrix at all times."""

    def __post_init__(self) -> None:
        tables = self._checked_tables()
        h = tables.shape[-1]
        of = _shown_values(self.of, h, self.states)
        k = max(of) + 1
        if self.period is not None and not (isinstance(self.start, str) and self.start == "stationary"):
            raise ModelError(
                f"start is {quoted_value(self.start)}; a time-of-day model begins at any of its slots, in the "
                'distribution that repeats with the period: leave start out, or set it to "stationary"',
                value=self.start,
            )
        checked = {
            "transition": tables,
            "of": of,
            "start": MarkovChain(transition=np.eye(h), start=self.start).start,
            "period": time_step(self.period),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        self.check_states(k)

    def _checked_tables(self) -> npt.NDArray[np.float64]:
        """The matrix, or the matrices of a period; rejects matrices without a period and a period without matrices."""
        tables = number_array(self.transition, "transition")
        if self.period is None:
            if tables.ndim == 3:
                raise ModelError(
                    f"transition holds {len(tables)} matrices and period is missing; several matrices share a period: "
                    'set period, such as "24h", and step',
                    value=shape_text(tables.shape),
                )
            return probability_rows(tables, "transition")
        if tables.ndim != 3 or not tables.size:
            raise ModelError(
                f"transition is {shape_text(tables.shape)} and period is {self.period}; with a period it must be a "
                "list of square matrices, one for each slot: make it a list, or leave out period",
                value=shape_text(tables.shape),
            )
        share_evenly(len(tables), self.period, self.step)
        rows = [probability_rows(table, f"matrix {n} of transition") for n, table in enumerate(tables, start=1)]
        return read_only(np.stack(rows))

    @classmethod
    def of_order(cls, table: npt.ArrayLike, *, start: Start = "stationary", **names: Any) -> HiddenStates:
        """The chain of order m whose next record has the distribution ``table[x1]..[xm]``, oldest record first.

        A hidden state is the last m records. Hidden states that a stationary chain never visits are left out.

        Args:
            table: an array with m + 1 axes of one length: the last m records, then the next one.
            start: ``"stationary"``, ``"any"``, or the distribution of the first m records, k^m numbers in row order.
            **names: ``states``, ``values``, ``bins``, ``step``, ``fitted`` and ``checks``, as for any model.
        """
        cells = number_array(table, "table")
        if cells.ndim < 2 or len(set(cells.shape)) != 1 or cells.size == 0:
            raise ModelError(
                f"table is {shape_text(cells.shape)}; it must have one axis for each of the last records and one for "
                "the next, all as long as there are record values",
                value=shape_text(cells.shape),
            )
        k, order = len(cells), cells.ndim - 1
        nodes = list(itertools.product(range(k), repeat=order))
        number = {node: n for n, node in enumerate(nodes)}
        moves = np.zeros((len(nodes), len(nodes)))
        for node in nodes:
            check_distribution(cells[node], f"row {', '.join(str(x + 1) for x in node)} of table")
            for y in range(k):
                moves[number[node], number[(*node[1:], y)]] = cells[(*node, y)]
        made = cls(transition=moves, of=tuple(node[-1] for node in nodes), start=start, **names)
        return made._without_unvisited()

    @classmethod
    def semi_markov(
        cls,
        leave: Sequence[Sequence[float]] | Matrix,
        jump: Sequence[Sequence[float]] | Matrix,
        *,
        ages: Sequence[int] | None = None,
        start: Start = "stationary",
        **names: Any,
    ) -> HiddenStates:
        """The semi-Markov chain that leaves a value with a probability that depends on the time spent in it.

        A hidden state is a value and the number of records since it was entered, counted up to the last age.

        Args:
            leave: ``leave[x][j]`` is the probability that a record in its j-th age bin is the last one with value x.
            jump: ``jump[x][y]`` is the probability that y follows when x is left; ``jump[x][x]`` is 0.
            ages: the first age of each bin, 1 in front, rising; by default 1, 2, 3, … one age a bin.
            start: ``"stationary"``, ``"any"``, or the distribution over values and ages, all ages of a value in a row.
            **names: ``states``, ``values``, ``bins``, ``step``, ``fitted`` and ``checks``, as for any model.
        """
        ends, moves = number_array(leave, "leave"), probability_rows(jump, "jump")
        k = len(moves)
        if ends.ndim != 2 or len(ends) != k or not ends.size or not ((ends >= 0) & (ends <= 1)).all():
            raise ModelError(
                f"leave is {shape_text(ends.shape)}; it must have a row for each of the {k} values with a probability "
                "between 0 and 1 for each age bin",
                value=leave,
            )
        if np.diagonal(moves).any() and k > 1:
            x = int(np.flatnonzero(np.diagonal(moves))[0])
            raise ModelError(
                f"jump[{x}][{x}] is {moves[x, x]:g}; a value that is left is followed by another one: set it to 0",
                value=float(moves[x, x]),
            )
        firsts = tuple(range(1, ends.shape[1] + 1)) if ages is None else tuple(int(age) for age in ages)
        if len(firsts) != ends.shape[1] or firsts[0] != 1 or any(a >= b for a, b in itertools.pairwise(firsts)):
            raise ModelError(
                f"ages is {quoted_value(firsts)}; it must hold {ends.shape[1]} rising whole numbers, one for each age "
                "bin, beginning with 1",
                value=ages,
            )
        oldest = firsts[-1]
        bins = np.searchsorted(firsts, np.arange(1, oldest + 1), side="right") - 1
        table = np.zeros((k * oldest, k * oldest))
        for x in range(k):
            for age in range(oldest):
                node, left = x * oldest + age, ends[x, bins[age]]
                table[node, x * oldest + min(age + 1, oldest - 1)] += 1 - left
                table[node, np.arange(k) * oldest] += left * moves[x]
        return cls(transition=table, of=tuple(np.repeat(np.arange(k), oldest).tolist()), start=start, **names)

    @classmethod
    def of_hidden_markov(cls, model: HiddenMarkov) -> HiddenStates:
        """The hidden Markov model with hidden states that are pairs of its hidden state and the value emitted.

        Where the start is ``"any"``, it is any distribution of pairs, which includes all starts of the given model.
        """
        pairs = model.pair_chain
        stationary = isinstance(model.start, str) and model.start == "stationary"
        return cls(
            transition=pairs.transition,
            of=tuple(model.pair_records.tolist()),
            start="stationary" if stationary else pairs.start,
            **model.names,
        )

    def _without_unvisited(self) -> HiddenStates:
        """The model without hidden states of stationary probability 0, where every value keeps a hidden state."""
        if not (isinstance(self.start, str) and self.start == "stationary"):
            return self
        kept = np.flatnonzero(MarkovChain(transition=self.transition).stationary > 0)
        if len(kept) == len(self.of) or {self.of[z] for z in kept} != set(self.of):
            return self
        return replace(self, transition=self.transition[np.ix_(kept, kept)], of=tuple(self.of[z] for z in kept))

    @property
    def size(self) -> int:
        """The number of record values."""
        return max(self.of) + 1

    @cached_property
    def kernels(self) -> Tables:
        """The transition matrix of each step of the period, (steps, h, h); one for a model without a period."""
        if not self._by_time:
            return read_only(self.transition.reshape(-1, *self.transition.shape[-2:])[:1])
        assert self.period is not None
        return read_only(np.repeat(self.transition, self.steps // len(self.transition), axis=0))

    @property
    def steps(self) -> int:
        """The number of time steps in a period; 1 where one matrix holds at all times."""
        return steps_in(self.period, self.step) if self._by_time and self.period is not None else 1

    @property
    def _by_time(self) -> bool:
        """Whether the matrices of the period differ."""
        return self.transition.ndim == 3 and bool((self.transition != self.transition[0]).any())

    @property
    def rhythm(self) -> Tables | None:
        """The matrix between HIDDEN states of each step of the period, (steps, h, h); None where all are equal.

        Only where `clock` is not None they are matrices between records.
        """
        if self.clock is not None:
            return self.clock.rhythm
        return self.kernels if self._by_time else None

    @property
    def _plain(self) -> bool:
        """Whether every record value has one hidden state."""
        return len(self.of) == self.size

    @cached_property
    def chain(self) -> MarkovChain | None:
        """The chain of the records, where each value has one hidden state and one matrix holds at all times."""
        if not self._plain or self._by_time:
            return None
        place = np.argsort(self.of)
        start = self.start if isinstance(self.start, str) else np.asarray(self.start)[place]
        return MarkovChain(transition=self.kernels[0][np.ix_(place, place)], start=start, **self.names)

    @property
    def chains(self) -> tuple[MarkovChain, ...]:
        """The chain of the records, where there is one."""
        return () if self.chain is None else (self.chain,)

    @cached_property
    def clock(self) -> MarkovClock | None:
        """The time-of-day chain of the records, where each value has one hidden state and matrices differ."""
        if not self._plain or not self._by_time:
            return None
        assert self.period is not None
        place = np.argsort(self.of)
        tables = self.transition[:, place][:, :, place]
        return MarkovClock(transitions=tables, period=self.period, **self.names)

    @cached_property
    def hidden(self) -> HiddenMarkov:
        """The hidden Markov model that emits the value of its hidden state; for one matrix at all times.

        Raises:
            NotApplicableError: where the matrices differ by time of day.
        """
        if self._by_time:
            raise NotApplicableError("hidden states by time of day are not supported here; use a model without period")
        return HiddenMarkov(
            transition=self.kernels[0], emission=np.eye(self.size)[list(self.of)], start=self.start, **self.names
        )

    @property
    def hidden_steps(self) -> tuple[npt.NDArray[np.float64], Sequence[int], Start]:
        """States that each show one record value: a matrix for each step of a period, the values, and the start."""
        return self.kernels, self.of, self.start

    @property
    def second_order(self) -> npt.NDArray[np.float64] | None:
        """``table[x][y]``, the distribution of the next record after x and y, where hidden states are all pairs."""
        k = self.size
        if self._by_time or self.of != tuple(range(k)) * k or k == 1:
            return None
        moves = self.kernels[0].reshape(k, k, k, k)  # from the pair (x, y) to the pair (v, z)
        table = np.einsum("xyyz->xyz", moves)
        return table if np.count_nonzero(moves) == np.count_nonzero(table) else None

    @property
    def not_listed(self) -> str:
        """Why there is no chain of the records."""
        return "a record value has several hidden states, so no record shows all that its neighbours depend on"

    @cached_property
    def distributions(self) -> Matrix:
        """(steps, h): the distribution of the hidden state at each step of the period; the start of a model without.

        Where the start is ``"any"`` it is the stationary one.
        """
        if self.period is None:
            chain = MarkovChain(transition=self.transition, start=self.start)
            return read_only((chain.stationary if chain.given_start is None else chain.given_start)[None])
        whole = np.eye(len(self.of))
        for kernel in self.kernels:
            whole = whole @ kernel
        out = [MarkovChain(transition=whole / whole.sum(axis=1, keepdims=True)).stationary]
        for kernel in self.kernels[:-1]:
            out.append(out[-1] @ kernel)
        return read_only(np.array(out))

    def dependent(self, longest: int) -> int:
        """A whole series, unless the next hidden state never depends on the one before it."""
        forgets = bool((self.kernels == self.kernels[:, :1]).all())
        return 1 if longest == 1 or self.size == 1 or forgets else longest

    @property
    def supports(self) -> tuple[tuple[Mask, Mask], ...]:
        """Which values may follow each other at some time, whatever came before, and which may come first."""
        shown = np.eye(self.size)[list(self.of)]
        follow = shown.T @ (self.kernels > 0).any(axis=0).astype(float) @ shown > 0
        first = np.ones(self.size, dtype=bool)
        if not (isinstance(self.start, str) and self.start == "any"):
            first = (self.distributions > 0).any(axis=0).astype(float) @ shown > 0
        return ((np.asarray(follow), np.asarray(first)),)

    @property
    def rules_out(self) -> bool:
        """Whether some series of records is impossible; by time of day, whether that cannot be excluded."""
        if not self._by_time:
            return super().rules_out
        shown = np.eye(self.size)[list(self.of)]
        return not bool((self.kernels @ shown > 0).all() and (self.distributions @ shown > 0).all())

    def possible(self, rows: Sequence[npt.NDArray[np.int64]]) -> bool:
        """Whether these series have positive probability; by time of day, whether no series is impossible."""
        return not self.rules_out if self._by_time else super().possible(rows)

    def check_reading(self, layout: LayoutOptions, missing: str, id: str | None) -> None:
        """Reject an ``id``; a time-of-day model takes the slot of a record from the order column."""
        super().check_reading(layout, missing, id)
        if self._by_time:
            check_clock_reading(layout)

    def public_facts(self, records: int) -> list[str]:
        """What a release takes to be public; a time-of-day model adds when the records were taken."""
        facts = super().public_facts(records)
        return [*facts, f"the time of each record within {self.period}"] if self._by_time else facts

    def to_dict(self) -> dict[str, Any]:
        """The content of the model's file."""
        start = self.start if isinstance(self.start, str) else [float(p) for p in self.start]
        own: dict[str, Any] = {"of": list(self.of), "transition": self.transition.tolist(), "start": start}
        return self.file_content(**(own if self.period is None else {**own, "period": self.period}))

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> HiddenStates:
        """The model of a ``hidden_states`` file."""
        content = _StatesOfFile.model_validate(raw)
        return cls(
            transition=number_array(content.transition, "transition"),
            of=tuple(content.of),
            start=content.start,
            period=content.period,
            **content.common(),
        )

    def __repr__(self) -> str:
        many = np.bincount(self.of)
        names = ", ".join(f"{name} {n}" for name, n in zip(self.labels[:6], many[:6], strict=True))
        names += ", …" if self.size > 6 else ""
        start = self.start if isinstance(self.start, str) else "given"
        slots = "" if self.period is None else f"; {len(self.transition)} slots in {self.period}, steps of {self.step}"
        return f"HiddenStates({len(self.of)} hidden state{'s' * (len(self.of) != 1)}: {names}{slots}; start {start})"

    # Series of records: drawn, and the hidden states behind them.

    def sample(self, length: int, seed: int | Generator | None = None, *, slot: int = 0) -> Outcomes:
        """One simulated series, as numbers of record values.

        The numbers are for simulation; they are not noise of a release.

        Args:
            length: the number of records.
            seed: a seed, or numpy's generator.
            slot: the step of the period at which the first record is taken.
        """
        from pufferdp.models.simulate import seeded

        return np.asarray(self.draw(length, 1, seeded(seed), slot)[0])

    def draw(self, length: int, size: int, generator: Generator, slot: int = 0) -> Outcomes:
        """Independent simulated series, (size, length), whose first records lie at one step of the period."""
        from pufferdp.models.simulate import draw_alike, draw_moves

        size, length = whole(size, "size", least=0), whole(length)
        self._check_start()
        of, drawn = np.asarray(self.of), np.zeros((length, size), dtype=np.int64)
        hidden = draw_alike(self.distributions[slot % self.steps], size, generator)
        drawn[0] = of[hidden]
        for t in range(1, length):
            hidden = draw_moves(hidden, self.kernels[(slot + t - 1) % self.steps], generator)
            drawn[t] = of[hidden]
        return drawn.T

    def _check_start(self) -> None:
        """Reject a start that is no distribution."""
        if isinstance(self.start, str) and self.start == "any":
            raise ModelError('start is "any", which is no distribution; give the model a start or "stationary"')

    def log_likelihood(self, series: Sequence[Sequence[int]], *, slots: Sequence[int] | None = None) -> float:
        """The log of the probability of independent series of record values; -1 is a missing observation.

        Args:
            series: one or more series, each as numbers of record values.
            slots: for a time-of-day model, the step of the period of the first record of each series.
        """
        segments, forward = self._filtered(series, slots)
        return forward.log_likelihood(segments)

    def filter(self, series: Sequence[Sequence[int]], *, slots: Sequence[int] | None = None) -> list[Floats]:
        """For each series the distribution of each hidden state given the records up to it, (length, h)."""
        segments, forward = self._filtered(series, slots)
        _check_possible(segments, forward)
        return segments.joined(forward.weights)

    def smooth(self, series: Sequence[Sequence[int]], *, slots: Sequence[int] | None = None) -> list[Floats]:
        """For each series the distribution of each hidden state given all its records, (length, h)."""
        segments, forward = self._filtered(series, slots)
        _check_possible(segments, forward)
        return segments.joined(smoothed(forward, self.recursion.backward(segments, forward)))

    @cached_property
    def recursion(self) -> Recursion:
        """The forward and backward recursions of this model."""
        return Recursion(self.kernels, self.of, self.distributions)

    def _filtered(self, series: Sequence[Sequence[int]], slots: Sequence[int] | None) -> tuple[Segments, Forward]:
        self._check_start()
        if slots is not None and len(slots) != len(series):
            raise ModelError(f"slots has {len(slots)} entries; there are {len(series)} series", value=slots)
        rows = [_codes(row, self.size) for row in series]
        segments = cut(rows, first_slots=slots, period=self.steps)
        return segments, self.recursion.forward(segments)


def _shown_values(of: object, h: int, states: Sequence[str] | None) -> tuple[int, ...]:
    """The value of each hidden state; rejects a wrong number of them, and values that no hidden state shows."""
    values = of.tolist() if isinstance(of, np.ndarray) else of
    whole = isinstance(values, (list, tuple)) and all(isinstance(v, int) and not isinstance(v, bool) for v in values)
    if not isinstance(values, (list, tuple)) or not whole or any(v < 0 for v in values):
        raise ModelError(
            f"of is {quoted_value(of)}; it must hold the number of a record value, 0 or more, for each hidden state",
            value=of,
        )
    if len(values) != h:
        raise ModelError(f"of has {len(values)} entries; transition has {h} hidden states: give one for each", value=of)
    many = (
        len(states) if isinstance(states, (Sequence, np.ndarray)) and not isinstance(states, str) else max(values) + 1
    )
    if max(values) >= many:
        raise ModelError(f"of has the value {max(values)}; states names the values 0 to {many - 1}: name all", value=of)
    missing = sorted(set(range(many)) - set(values))
    if missing:
        name = repr(str(states[missing[0]])) if states is not None else str(missing[0])
        raise ModelError(f"no hidden state shows the value {name}; add one, or leave the value out", value=of)
    return tuple(values)


def _codes(row: Sequence[int], size: int) -> Codes:
    codes = np.asarray(row)
    if codes.ndim != 1 or not len(codes) or codes.dtype.kind not in "iu":
        raise ModelError("a series must be a list of one or more numbers of record values", value=row)
    wrong = np.flatnonzero((codes < -1) | (codes >= size))
    if len(wrong):
        raise ModelError(
            f"record {wrong[0] + 1} is {codes[wrong[0]]}; it must be a record value from 0 to {size - 1}, or -1 for a "
            "missing observation",
            value=int(codes[wrong[0]]),
        )
    return codes.astype(np.int64)


def _check_possible(segments: Segments, forward: Forward) -> None:
    if not (forward.likelihoods[segments.used] > 0).all():
        raise ModelError("the model gives these records probability 0, so no hidden states can be behind them")
