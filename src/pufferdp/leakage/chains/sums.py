"""The law of a sum over Markov chains with nothing known, at a cost that grows with the range of the sum alone.

Steps are whole numbers, so the sum S has a generating function E[z^S] = start·Z·(PZ)^(n−1)·1 with Z = diag(z^step). Its
values at the roots of unity are the Fourier transform of the law: matrix powers by repeated squaring, or one record
after the other where chains are short, and one transform back. Independent chains multiply theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import NotApplicableError
from pufferdp.leakage.laws.base import UNIT, Cell, Logs, RecordLaws, log_convolve, log_step, log_sum, normal
from pufferdp.models.chain import MarkovChain
from pufferdp.models.clock import MarkovClock

Transform = npt.NDArray[np.complex128]

_WIDEST: Final = 2**22
"""Sums with more possible values than this are refused: their laws alone would take tens of megabytes each."""
_MOST_WORK: Final = 10**10
"""Products, counted with what a call costs besides: a few seconds, enough for a million records of two states."""
_CALL: Final = 350
"""What the product of two small matrices costs besides its multiplications, in multiplications (measured)."""
_COPY: Final = 16
"""What copying a number costs besides, in the same."""
_CHUNK: Final = 2**14
"""Entries of the matrices that are raised together: they stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class TotalLaw:
    """Masses of the sums 0, 1, 2 and so on."""

    masses: Floats
    rounding: float = 0.0
    """How far each mass may be off. Masses below it cannot be told from 0, and are 0."""


def work(size: int, lengths: Sequence[tuple[int, int]], widest: int) -> float:
    """What the law costs, in products, for chains of ``size`` states whose records add at most ``widest`` steps."""
    width = widest * sum(length * count for length, count in lengths) + 1
    if _is_short(size, lengths):
        return (width // 2 + 1) * max(length for length, _ in lengths) * size * (size + _COPY)
    bits = max(length for length, _ in lengths).bit_length()
    rows = len(lengths) * (bits * size * (size + _COPY) + _CALL)
    return (width // 2 + 1) * (bits * (size**3 + _CALL) + rows)


def _is_short(size: int, lengths: Sequence[tuple[int, int]]) -> bool:
    """Whether passing every record costs fewer products than raising matrices."""
    longest = max(length for length, _ in lengths)
    return longest <= size * longest.bit_length()


def chain_total(
    chain: MarkovChain, lengths: Sequence[tuple[int, int]], steps: npt.NDArray[np.int64], share: int = 1
) -> TotalLaw:
    """The law of the sum of ``steps[state]`` over independent chains: (length, how many).

    Needs a definite start. Raises NotApplicableError where it would take more than a ``share``-th of the time allowed.
    """
    if chain.any_start:
        raise NotApplicableError("the chain may start anywhere, so the answer has no one law")
    records = sum(length * count for length, count in lengths)
    width = int(steps.max()) * records + 1
    cost = work(chain.size, lengths, int(steps.max())) * share
    if width > _WIDEST or cost > _MOST_WORK:
        raise NotApplicableError(
            f"the law of the answer over {records:,} records of {chain.size} states takes too many products "
            f"({cost:.1g}; the limit is {_MOST_WORK:.0g}) or has more than {_WIDEST:,} places"
        )
    points = _smooth(width)
    # The law is real, so half of the roots are enough.
    half = np.arange(points // 2 + 1)
    short = _is_short(chain.size, lengths)
    transform = _record_by_record if short else _raised
    together = max(1, _CHUNK // (chain.size * (1 if short else chain.size + len(lengths))))
    parts = []
    for at in range(0, len(half), together):
        # Whole turns are taken off in whole numbers: no accuracy is lost to large angles.
        z = np.exp(-2j * np.pi / points * (half[at : at + together, None] * steps % points))
        parts.append(transform(chain, lengths, z))
    masses = np.fft.irfft(np.concatenate(parts), points)[:width]
    # Every record adds rounding of about k·2^-53 to the transform, relative to its size, and the mean size of the
    # transform is about the largest mass. An estimate, not a bound; tests hold it against laws known to all digits.
    rounding = float(4 * (records + 16) * chain.size * 2.0**-53 * masses.max())
    masses = np.where(masses > rounding, masses, 0.0)
    return TotalLaw(masses / masses.sum(), rounding)


def clock_total(
    clock: MarkovClock, lengths: Sequence[tuple[int, int]], steps: npt.NDArray[np.int64], share: int = 1
) -> TotalLaw:
    """The same for a clock, where every slot may be that of a chain's first record, each as likely as the others.

    Steps of one table are taken at once, and rounds of tables by repeated squaring.
    """
    records = sum(length * count for length, count in lengths)
    width, slots, k = int(steps.max()) * records + 1, len(clock.transitions), clock.size
    each = clock.steps // slots
    bits = sum(length.bit_length() for length, _ in lengths) + each.bit_length() * len(lengths)
    cost = (width // 2 + 1) * slots * (k**3 + _CALL) * bits * share
    if width > _WIDEST or cost > _MOST_WORK:
        raise NotApplicableError(
            f"the law of the answer over {records:,} records of {k} states and {slots} slots takes too many products "
            f"({cost:.1g}; the limit is {_MOST_WORK:.0g}) or has more than {_WIDEST:,} places"
        )
    points = _smooth(width)
    half, together, parts = np.arange(points // 2 + 1), max(1, _CHUNK // (slots * k * k)), []
    for at in range(0, len(half), together):
        z = np.exp(-2j * np.pi / points * (half[at : at + together, None] * steps % points))
        parts.append(_rounds(clock, each, lengths, z))
    masses = np.fft.irfft(np.concatenate(parts), points)[:width]
    rounding = float(4 * (records + 16) * k * 2.0**-53 * masses.max())
    masses = np.where(masses > rounding, masses, 0.0)
    return TotalLaw(masses / masses.sum(), rounding)


def _rounds(clock: MarkovClock, each: int, lengths: Sequence[tuple[int, int]], z: Transform) -> Transform:
    """E[z^S] of a clock for each row of ``z``: the mean over chains that begin with any of its slots."""
    step = clock.transitions[:, None] * z[None, :, None, :]  # (slots, z, k, k)
    slot, slots = np.arange(len(step)), len(step)
    first = clock.laws[::each][:, None, None, :] * z[None, :, None, :]
    out = np.ones(len(z), dtype=complex)
    for length, count in lengths:
        whole, rest = divmod(length - 1, each)
        rows, power, now = first, np.linalg.matrix_power(step, each), 0
        for bit in range(whole.bit_length()):
            if whole >> bit & 1:
                rows, now = rows @ power[(slot + now) % slots], now + (1 << bit)
            power = power @ power[(slot + (1 << bit)) % slots]
        rows = rows @ np.linalg.matrix_power(step, rest)[(slot + now) % slots]
        out *= rows.sum(axis=(2, 3)).mean(axis=0) ** count
    return out


def _smooth(width: int) -> int:
    """The smallest number from ``width`` with no prime factor above 5: transforms of such lengths are quick."""
    best = 1 << (width - 1).bit_length()
    five = 1
    while five < best:
        odd = five
        while odd < best:
            best = min(best, odd << (-(-width // odd) - 1).bit_length())
            odd *= 3
        five *= 5
    return best


def _raised(chain: MarkovChain, lengths: Sequence[tuple[int, int]], z: Transform) -> Transform:
    """E[z^S] for each row of ``z``, the factors of the states: powers of a matrix by repeated squaring."""
    power = chain.transition * z[:, None, :]
    rows = np.repeat((_start(chain) * z)[:, None, :], len(lengths), axis=1)
    moves = np.array([length - 1 for length, _ in lengths])
    for bit in range(int(moves.max()).bit_length()):
        if bit:
            power = power @ power
        now = np.flatnonzero(moves >> bit & 1)
        if len(now):
            rows[:, now] = rows[:, now] @ power
    return np.asarray(np.prod(rows.sum(axis=2) ** [count for _, count in lengths], axis=1))


def _record_by_record(chain: MarkovChain, lengths: Sequence[tuple[int, int]], z: Transform) -> Transform:
    """E[z^S] for all rows of ``z`` at once, a step of the chain at a time: cheaper for short chains."""
    out, rows, at = np.ones(len(z), dtype=complex), _start(chain) * z, 1
    transition = chain.transition.astype(complex)
    for length, count in sorted(lengths):
        for _ in range(length - at):
            rows = rows @ transition * z
        at = length
        out *= rows.sum(axis=1) ** count
    return out


def _start(chain: MarkovChain) -> Floats:
    return chain.stationary if chain.given_start is None else chain.given_start


class ChainLaws:
    """Sums of ``steps[state]`` over a chain of given length, and over other chains, whose law is ``rest``."""

    def __init__(self, chain: MarkovChain, length: int, steps: Sequence[int], rest: Logs | None = None) -> None:
        self.chain, self.length, self.rest = chain, length, rest
        self.steps = np.asarray(steps, dtype=np.int64)
        self.width = int(self.steps.max()) * length + 1

    @property
    def points(self) -> npt.NDArray[np.int64]:
        """The values of the sum."""
        return np.arange(self.width + (0 if self.rest is None else len(self.rest) - 1))

    @property
    def error(self) -> float:
        """A bound on the relative error of every mass: rounding of products and sums, and of logarithms."""
        moves, starts = self.chain.transition, np.exp(np.concatenate(self.starts))
        deepest = -self.length * float(np.log(moves[moves > 0].min())) - float(np.log(starts[starts > 0].min()))
        products = self.length * (self.chain.size + 6) + 2 * len(self.points)
        return (products + 2 * (self.length + 8) * (deepest + 1)) * UNIT

    @property
    def starts(self) -> tuple[Logs, ...]:
        """Log laws of the first record: one, or every point where the chain may start anywhere."""
        with np.errstate(divide="ignore"):
            if self.chain.any_start:
                return tuple(np.log(np.eye(self.chain.size)))
            law = self.chain.stationary if self.chain.given_start is None else self.chain.given_start
            return (np.log(law),)

    def records(self) -> Iterator[RecordLaws]:
        """The laws given each value of each record in turn."""
        after = self._backward()
        before = [self._forward(start) for start in self.starts]
        for i in range(self.length):
            states, rows = [], []
            for forward in [next(walk) for walk in before]:
                for a in range(self.chain.size):
                    if np.isfinite(forward[a]).any():
                        states.append(a)
                        rows.append(self._with_rest(log_convolve(forward[a], after[i][a])[: self.width]))
            yield RecordLaws(i, tuple(states), normal(np.array(rows)))

    def event(self, cells: Sequence[Cell]) -> Logs | None:
        """The laws given that one of these conditions holds: one for each start under which it can."""
        rows = []
        for start in self.starts:
            laws = [log_sum(list(self._forward(start, cell))[-1], axis=0) for cell in cells]
            row = np.logaddexp.reduce(laws)
            if np.isfinite(row).any():
                rows.append(self._with_rest(row))
        return normal(np.array(rows)) if rows else None

    def total(self) -> Logs:
        """The law of the sum with nothing known; needs a definite start."""
        laws = self.event([{}])
        assert laws is not None
        return np.asarray(laws[0])

    def _with_rest(self, row: Logs) -> Logs:
        return row if self.rest is None else log_convolve(row, self.rest)

    def _forward(self, start: Logs, evidence: Mapping[int, Sequence[int]] | None = None) -> Iterator[Logs]:
        """Log P(X_i = state, sum up to i) for i = 0, 1 and so on."""
        known = evidence or {}
        now = np.full((self.chain.size, self.width), -np.inf)
        for x, step in enumerate(self.steps):
            now[x, step] = start[x]
        for i in range(self.length):
            if i:
                now = self._shift(log_step(now, self.chain.transition))
            if i in known:
                others = [x for x in range(self.chain.size) if x not in known[i]]
                now[others] = -np.inf
            yield now

    def _backward(self) -> list[Logs]:
        """Log P(sum after i | X_i = state) for every i."""
        now = np.full((self.chain.size, self.width), -np.inf)
        now[:, 0] = 0.0
        out = [now]
        for _ in range(self.length - 1):
            now = log_step(self._shift(now), self.chain.transition.T)
            out.append(now)
        return out[::-1]

    def _shift(self, logs: Logs) -> Logs:
        """Add each state's step to the sum."""
        out = np.full_like(logs, -np.inf)
        for x, step in enumerate(self.steps):
            out[x, step:] = logs[x, : self.width - step]
        return out
