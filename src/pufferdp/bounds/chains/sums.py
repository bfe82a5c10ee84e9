"""The distribution of a sum over Markov chains with nothing known, at a cost that grows with the range of the sum.

Steps are whole numbers, so the sum S has a generating function E[z^S] = start·Z·(PZ)^(n−1)·1 with Z = diag(z^step). Its
values at the roots of unity are the Fourier transform of the distribution: matrix powers by repeated squaring and one
transform back. Independent chains multiply theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.chains.starts import first_distribution
from pufferdp.bounds.distributions.base import (
    UNIT,
    Cell,
    Logs,
    RecordDistributions,
    log_convolve,
    log_step,
    log_sum,
    normal,
)
from pufferdp.models.chain import MarkovChain
from pufferdp.models.clock import MarkovClock

Transform = npt.NDArray[np.complex128]

_WIDEST: Final = 2**22
"""Sums with more possible values than this are rejected: their distributions would take tens of megabytes each."""
_MOST_WORK: Final = 10**10
"""Products, counted with what a call costs besides: a few seconds, enough for a million records of two states."""
_CHUNK: Final = 2**14
"""Entries of the matrices that are raised together: they stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class SumDistribution:
    """Masses of the sums 0, 1, 2 and so on."""

    masses: Floats
    rounding: float = 0.0
    """How far each mass may be off. Masses below it are indistinguishable from 0, and are 0."""


def chain_total(
    chain: MarkovChain, lengths: Sequence[tuple[int, int]], steps: npt.NDArray[np.int64], share: int = 1
) -> SumDistribution:
    """The distribution of the sum of ``steps[state]`` over independent chains: (length, how many).

    Needs a definite start. Raises NotApplicableError where it would take more than a ``share``-th of the time allowed.
    """
    if chain.any_start:
        raise NotApplicableError("the chain may have any start, so the answer has no one distribution")
    return _total(first_distribution(chain)[None], chain.transition[None], 1, lengths, steps, share)


def clock_total(
    clock: MarkovClock, lengths: Sequence[tuple[int, int]], steps: npt.NDArray[np.int64], share: int = 1
) -> SumDistribution:
    """The distribution of the sum over chains of a clock whose first record is in any slot, all equally likely."""
    each = clock.steps // len(clock.transitions)
    return _total(clock.distributions[::each], clock.transitions, each, lengths, steps, share)


def _total(
    first: Floats,
    transitions: Floats,
    each: int,
    lengths: Sequence[tuple[int, int]],
    steps: npt.NDArray[np.int64],
    share: int,
) -> SumDistribution:
    """The mean over slots of the distribution of the sum, where each table holds for ``each`` steps in turn."""
    slots, k = first.shape
    records = sum(length * count for length, count in lengths)
    width = int(steps.max()) * records + 1
    bits = sum(length.bit_length() + each.bit_length() - 1 for length, _ in lengths)
    # 350: what a product of two small matrices costs besides its multiplications, in multiplications (measured).
    cost = (width // 2 + 1) * slots * (k**3 + 350) * bits * share
    if width > _WIDEST or cost > _MOST_WORK:
        raise NotApplicableError(
            f"the distribution of the answer over {records:,} records of {k} states takes too many products "
            f"({cost:.1g}; the limit is {_MOST_WORK:.0g}) or has more than {_WIDEST:,} values"
        )
    # Transforms of lengths without large prime factors are fast.
    points = min(odd << (-(-width // odd) - 1).bit_length() for odd in (1, 3, 5, 9, 15))
    roots = np.arange(points // 2 + 1)  # masses are real, so half of the roots are enough
    together, parts = max(1, _CHUNK // (slots * k * k)), []
    for at in range(0, len(roots), together):
        # Whole turns are taken off in whole numbers: no accuracy is lost to large angles.
        z = np.exp(-2j * np.pi / points * (roots[at : at + together, None] * steps % points))
        parts.append(_transform(first, transitions, each, lengths, z))
    masses = np.fft.irfft(np.concatenate(parts), points)[:width]
    # Every record adds rounding of about k·2^-53 to the transform, relative to its size, and the mean size of the
    # transform is about the largest mass. An estimate, not a bound; tests compare it with exact distributions.
    rounding = float(4 * (records + 16) * k * UNIT * masses.max())
    masses = np.where(masses > rounding, masses, 0.0)
    return SumDistribution(masses / masses.sum(), rounding)


def _transform(
    first: Floats, transitions: Floats, each: int, lengths: Sequence[tuple[int, int]], z: Transform
) -> Transform:
    """E[z^S] for each row of ``z``, the factors of the states: the mean over chains that begin with any slot."""
    step = transitions[:, None] * z[None, :, None, :]  # (slots, z, k, k)
    slot, slots = np.arange(len(step)), len(step)
    out = np.ones(len(z), dtype=complex)
    for length, count in lengths:
        turns, rest = divmod(length - 1, each)
        rows, power, now = first[:, None, None, :] * z[None, :, None, :], np.linalg.matrix_power(step, each), 0
        for bit in range(turns.bit_length()):
            if bit:
                power = power @ power[(slot + (1 << (bit - 1))) % slots]
            if turns >> bit & 1:
                rows, now = rows @ power[(slot + now) % slots], now + (1 << bit)
        if rest:
            rows = rows @ np.linalg.matrix_power(step, rest)[(slot + now) % slots]
        out *= rows.sum(axis=(2, 3)).mean(axis=0) ** count
    return out


class ChainSums:
    """Sums of ``steps[state]`` over a chain of given length, and over other chains, whose distribution is ``rest``."""

    def __init__(self, chain: MarkovChain, length: int, steps: Sequence[int], rest: Logs | None = None) -> None:
        self.chain, self.length, self.rest = chain, length, rest
        self.steps = np.asarray(steps, dtype=np.int64)
        self.width = int(self.steps.max()) * length + 1

    @property
    def points(self) -> npt.NDArray[np.int64]:
        """The possible values of the sum, rising, those of ``rest`` added."""
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
        """Log distributions of the first record: one, or every point where the chain has any start."""
        with np.errstate(divide="ignore"):
            if self.chain.any_start:
                return tuple(np.log(np.eye(self.chain.size)))
            return (np.log(first_distribution(self.chain)),)

    def records(self) -> Iterator[RecordDistributions]:
        """The distributions given each value of each record in turn."""
        after = self._backward()
        before = zip(*(self._forward(start) for start in self.starts), strict=True)
        for i, forwards in enumerate(before):
            both = [(a, forward[a]) for forward in forwards for a in range(self.chain.size)]
            possible = [(a, logs) for a, logs in both if np.isfinite(logs).any()]
            rows = [self._with_rest(log_convolve(logs, after[i][a])[: self.width]) for a, logs in possible]
            yield RecordDistributions(i, tuple(a for a, _ in possible), normal(np.array(rows)))

    def event(self, cells: Sequence[Cell]) -> Logs | None:
        """The distributions given that one of these conditions holds: one for each start under which it can."""
        rows = []
        for start in self.starts:
            parts = [log_sum(list(self._forward(start, cell))[-1], axis=0) for cell in cells]
            row = np.logaddexp.reduce(parts)
            if np.isfinite(row).any():
                rows.append(self._with_rest(row))
        return normal(np.array(rows)) if rows else None

    def total(self) -> Logs:
        """The distribution of the sum with nothing known; needs a definite start."""
        rows = self.event([{}])
        assert rows is not None
        return np.asarray(rows[0])

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
