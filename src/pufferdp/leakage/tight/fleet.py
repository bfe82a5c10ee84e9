"""The tight curve of many two-state chains at once, each with its own length: the loss that each may spend.

As for one chain (``two_states``), the quotient of the weights of both states moves by a Möbius map when a record is
passed. Here the maps of all chains take a step together, and so do the secant steps of their inverses. Everything is
for chains that start stationary: both sides of a target are alike then. Chains with an entry of 0, and those that
forget so slowly that a side needs thousands of records, are left to the curve for one chain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.leakage.tight.chain import TightCurve
from pufferdp.leakage.tight.two_states import rounding

_SHARE: Final = 1e-11
"""How narrow a bracket must be, as for one chain."""
_TINY: Final = 1e-100
"""Chains with a smaller entry are worked out one at a time."""
_LARGEST: Final = 150.0
"""Larger promises are, too: the squares of their gains leave the range of a double."""
_FEWEST, _MOST = 64, 4096
"""Records on a side that are looked at together."""
_CELLS, _MOST_CELLS = 2**20, 2**22
"""Numbers in a table that is looked at whole: 8 MB, and 32 MB where that is few chains."""
_MANY: Final = 1024
"""Chains that take their steps together, so that a step costs little more than its arithmetic."""
_GROUP: Final = 4
"""Records up to which group privacy is looked at: rounding alone can be above it, where the chain adds nothing."""
_TRIES: Final = 60
_SMALL: Final = 1e-6
"""A loss at which the slope of a curve shows."""


def losses_of_each(transitions: Floats, lengths: Ints, epsilon: float, adversary: Adversary) -> Floats:
    """The largest DP loss of each chain, one (2,2) table each: ``TightCurve(…).inverse(epsilon)``, to 1e-9."""
    if adversary is Adversary.DP:
        return np.array([_alone(t, int(n), epsilon, adversary) for t, n in zip(transitions, lengths, strict=True)])
    out = np.full(len(transitions), np.nan)
    for longer in (1, 4, 16) if epsilon <= _LARGEST else ():
        left = np.flatnonzero(np.isnan(out))
        for some, records in _batches(transitions[left], lengths[left], longer):
            at = left[some]
            batch = _Batch.of(transitions[at], lengths[at], records, adversary is Adversary.BDP)
            out[at] = batch.inverse(epsilon)
    for n in np.flatnonzero(np.isnan(out)):
        out[n] = _alone(transitions[n], int(lengths[n]), epsilon, adversary)
    return out


def _alone(transition: Floats, length: int, epsilon: float, adversary: Adversary) -> float:
    return TightCurve(transition, length=length, adversary=str(adversary)).inverse(epsilon)


def _batches(transitions: Floats, lengths: Ints, longer: int) -> Iterator[tuple[Ints, int]]:
    """Chains that need about as many records on a side, and how many, or so many times more; not all at once."""
    slow = np.abs(transitions[:, 0, 0] + transitions[:, 1, 1] - 1)
    needed = longer * np.maximum(_FEWEST, 2 ** np.ceil(np.log2(24 / np.maximum(1 - slow, 1e-9))))
    # A short series is looked at whole: as many records as the next power of two.
    whole = 2 ** np.ceil(np.log2(np.maximum(lengths, 2)))
    records = np.where(lengths < 2 * needed, whole, needed).astype(np.int64)
    possible = (transitions > _TINY).all(axis=(1, 2)) & (records <= _MOST)
    stays = _stays(transitions)
    for count in np.unique(records[possible]):
        cells = 6 * int(count)
        step = max(_CELLS // cells, min(_MANY, _MOST_CELLS // cells))
        for kind in (stays, ~stays):
            at = np.flatnonzero(possible & (records == count) & kind)
            for s in range(0, len(at), step):
                yield at[s : s + step], int(count)


def _stays(transitions: Floats) -> Mask:
    """Which chains have records that tend to be as the one before."""
    moves = transitions[:, 0, 1] * transitions[:, 1, 0]
    return np.asarray(transitions[:, 0, 0] * transitions[:, 1, 1] >= moves)


@dataclass(frozen=True, eq=False)
class _Maps:
    """A Möbius map r → (a·r + b)/(c·r + d) for both pairs of values of every chain: (2, N) each."""

    a: Floats
    b: Floats
    c: Floats
    d: Floats

    def __call__(self, quotients: Floats) -> Floats:
        """Of quotients (E, 2, N), where E are the ends of a side."""
        return np.asarray((self.a * quotients + self.b) / (self.c * quotients + self.d))

    def after(self, first: _Maps) -> _Maps:
        """First the other map, then this."""
        return _Maps(
            self.a * first.a + self.b * first.c,
            self.a * first.b + self.b * first.d,
            self.c * first.a + self.d * first.c,
            self.c * first.b + self.d * first.d,
        )

    def asking(self, first: Floats, second: Floats) -> _Maps:
        """Pass a record whose values have these weights."""
        return _Maps(self.a * first, self.b * second, self.c * first, self.d * second)

    @property
    def fixed(self) -> Floats:
        """The quotient that repeated steps tend to; all entries are positive."""
        root = (self.a + self.d + np.sqrt((self.a - self.d) ** 2 + 4 * self.b * self.c)) / 2
        return np.asarray(np.where(self.a >= self.d, (root - self.d) / self.c, self.b / (root - self.a)))


@dataclass(frozen=True, eq=False)
class _Batch:
    """Chains that all tend to stay or all tend to change, their sides looked at over the same number of records."""

    plain: _Maps
    lengths: Ints
    stays: bool
    known: bool
    said: Floats
    """(records, E, 2, N): what the kernel does alone."""

    @classmethod
    def of(cls, transitions: Floats, lengths: Ints, records: int, known: bool) -> _Batch:
        """Each table with either value in front."""
        (a, b), (c, d) = transitions.transpose(1, 2, 0)
        plain = _Maps(np.stack([a, d]), np.stack([b, c]), np.stack([c, b]), np.stack([d, a]))
        said = np.empty((records, 3 if known else 1, 2, len(transitions)))
        said[0] = cls._ends(plain, known)
        for n in range(1, records):
            said[n] = plain(said[n - 1])
        return cls(plain, lengths, bool(_stays(transitions)[0]), known, said)

    @staticmethod
    def _ends(plain: _Maps, known: bool) -> Floats:
        """Quotients at the end of a side: the end of the series, then both values of a known record."""
        series = np.ones_like(plain.a)
        return np.stack([series, plain.a / plain.c, plain.b / plain.d] if known else [series])

    def leakage(self, losses: Floats) -> tuple[Floats, Floats]:
        """A bracket for every chain at a loss of its own."""
        gain, records = np.exp(losses), len(self.said)
        ones = np.ones_like(gain)
        stay = self.plain.asking(gain, ones)
        # Where a chain tends to change, the record next to the target is asked for the other value, and so in turns.
        near = stay if self.stays else self.plain.asking(ones, gain)
        turn = stay if self.stays else near.after(stay)
        short = self.lengths <= records
        sides = np.empty((records if short.any() else 0, 2, len(losses)))
        reached = before = self._ends(self.plain, self.known)
        most, ends = np.zeros((2, len(losses))), np.zeros((2, len(losses)))
        most_beyond = np.zeros((2, len(losses)))
        up, down = turn.fixed, self.plain.fixed
        for n in range(records):
            if n:
                before, reached = reached, near(reached) if n == 1 else turn(reached if self.stays else before)
            shown = reached / self.said[n]
            side = np.maximum(shown[0], ends) if self.known else shown[0]
            if n < _GROUP:  # no more than group privacy: n records that spend their loss
                side = np.minimum(side, np.exp(n * losses))
            if len(sides):
                sides[n] = side
            most = np.maximum(most, side)
            if self.known:
                ends = np.maximum(ends, shown[1:].max(axis=0))
            if n >= records - 2:
                # Every second quotient moves towards its fixed point without turning back.
                farther = np.maximum(reached, up) / np.minimum(self.said[n], down)
                most_beyond = np.maximum(most_beyond, farther.max(axis=0))
        with np.errstate(divide="ignore"):
            lower = losses + 2 * np.log(most).max(axis=0)
            upper = losses + 2 * np.log(np.maximum(most, most_beyond)).max(axis=0)
        for chain in np.flatnonzero(short):
            whole = sides[: self.lengths[chain], :, chain]
            lower[chain] = upper[chain] = losses[chain] + math.log(float((whole * whole[::-1]).max()))
        return lower, np.minimum(upper + rounding(records), losses * self.lengths)

    def inverse(self, epsilon: float) -> Floats:
        """The largest loss of each chain, seen to leak no more than epsilon; NaN where it was not found."""
        wanted = epsilon * (1 - 1.6 * _SHARE)
        slope = self.leakage(np.full(len(self.lengths), _SMALL))[1] / _SMALL
        losses = epsilon / np.maximum(slope, 1.0)
        found = np.full(len(losses), np.nan)
        last: tuple[Floats, Floats] | None = None
        for _ in range(_TRIES):
            lower, upper = self.leakage(losses)
            miss = np.log(upper / wanted)
            near = (np.abs(miss) <= _SHARE / 2) & (upper <= epsilon) & (upper - lower <= 4 * _SHARE * upper)
            found = np.where(near & np.isnan(found), losses, found)
            if (np.abs(miss) <= _SHARE / 2).all():
                break
            slopes = np.ones_like(miss)
            if last is not None:
                with np.errstate(divide="ignore", invalid="ignore"):
                    slopes = (miss - last[1]) / (np.log(losses) - last[0])
                slopes = np.clip(np.where(np.isfinite(slopes), slopes, 1.0), 0.2, 5.0)
            last = np.log(losses), miss
            losses = np.where(np.isnan(found), losses * np.exp(-miss / slopes), losses)
        return found
