"""What a stream leaks about one record: at step t an algorithm uses record t alone and spends e_t of DP on it.

Whatever the algorithm, the output of step t has a likelihood b(x) for each value x of record t, and no two of them are
further apart than a factor exp(e_t). Given the record, the outputs before, at and after it are independent, so the
log-likelihood ratio between two values x and y is a sum of three terms, and each can be made as large as possible on
its own: e_t, and for each side the largest log w(x)/w(y), where one more record changes the weights to
w <- T diag(b) w, T = P after the target and P' before it. A known record is another start of the weights, and what its
value says by itself is divided out.

With two states the result is exact, and the worst algorithm is randomised response; with more it is an upper bound
(docs/theory/streams.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats
from pufferdp.leakage.streams.bounds import SLACK, Deep, Moves, Products, pair_logs, scaled

_FORGOTTEN: Final = 1e-13
_LONGEST: Final = 1000
"""Chains that take longer to forget are followed step by step."""
_SEARCHED: Final = 4000
_BLOCKS: Final = 1000
_AT_ONCE: Final = 4_000_000
"""Numbers in a table of bounds, so that memory stays bounded."""


class Windows:
    """What a side adds at every target beyond the first few; ``near`` records are looked at one by one."""

    def __init__(self, side: StreamSide, losses: Floats) -> None:
        self._side, self._losses, self._moves = side, losses, Moves(side.table[None])
        self._ceiling, first = _ceiling(side, float(losses.max()))
        warm = _warm(side)
        self.near = None if self._ceiling is None or warm is None else first + warm
        self._warm = warm or 0

    def tables(self, tell: Callable[[int], None]) -> Floats:
        """Tables for ``near`` records and more on the side."""
        assert self.near is not None
        near, n = self.near, len(self._losses)
        far = self._far(near, n)
        bases = self._side.table.T.copy()
        for _ in range(near - 1):
            bases = scaled(bases @ self._side.table.T)
        faded = (-pair_logs(bases)).max(axis=0)
        if not self._side.everyone:
            return np.asarray(far - pair_logs(self._side.nothing) if self._side.fixed else far + faded)
        out = np.asarray(far + faded)
        size = max(near, _AT_ONCE // len(bases) ** 4)
        for low in range(near, n + 1, size):
            tell(low)
            high = min(n + 1, low + size)
            part = out[low - near : high - near]
            np.maximum(part, self._known(low, high), out=part)
        return out

    def _far(self, near: int, n: int) -> Floats:
        """Bounds for every start at least ``near`` away, for the targets from ``near`` to n: blocks side by side."""
        long = -(-(n + 1 - near) // _BLOCKS)
        starts = near + long * np.arange(-(-(n + 1 - near) // long))
        assert self._ceiling is not None
        tables = np.repeat(self._ceiling[None], len(starts), axis=0)
        out: Floats = np.empty((long, *tables.shape))
        padded = np.concatenate([self._losses, np.zeros(long)])
        for step in range(-self._warm, long):
            if step >= 0:
                out[step] = tables
            tables = self._moves(tables, padded[starts + step])
        return out.swapaxes(0, 1).reshape(-1, *tables.shape[1:])[: n + 1 - near]

    def _known(self, low: int, high: int) -> Floats:
        """The worst known record nearer than that, for some targets."""
        assert self.near is not None
        table, k = self._side.table, len(self._side.table)
        bases = scaled(table.T)
        first = low - self.near + 1
        bounds = np.repeat(pair_logs(bases)[None], high - first, axis=0)
        best: Floats = np.full((high - low, k, k), -np.inf)
        for distance in range(1, self.near + 1):
            alive = (bases[:, :, None] > 0) & (bases[:, None, :] > 0)
            said = np.where(alive, pair_logs(bases), 0.0)
            here = np.where(alive, bounds[low - first - distance + 1 :] - said, -np.inf)
            np.maximum(best, here.max(axis=1), out=best)
            # The target moves on by one record, and the known one stays.
            losses = np.repeat(self._losses[first + distance - 1 : high - 1], len(bases))
            moved = self._moves(bounds[:-1].reshape(-1, k, k), losses)
            bounds, bases = moved.reshape(-1, len(bases), k, k), scaled(bases @ table.T)
        return best


def _ceiling(side: StreamSide, loss: float) -> tuple[Floats | None, int]:
    """A bound on the tables of all starts from some distance on, where no step spends more than ``loss``."""
    bases = scaled(np.concatenate([side.nothing[None], side.table.T]))
    bounds = Deep(Products(side.table, loss), bases)
    for distance in range(1, _SEARCHED):
        bounds.step()
        found = bounds.ceiling(slice(None)) if distance % 4 == 0 else None
        if found is not None:
            return found, distance + 1  # a known record starts one step away
    return None, 0


def _warm(side: StreamSide) -> int | None:
    """Records after which a start is forgotten; None where that takes too long, or may never be."""
    if not (side.table > 0).all():
        return None
    ratios = pair_logs(side.table.T)
    keeps = math.tanh(float((ratios.max(axis=0) - ratios.min(axis=0)).max()) / 4)
    steps = 1 if keeps == 0 else math.ceil(math.log(_FORGOTTEN) / math.log(keeps))
    return steps if steps <= _LONGEST else None


WINDOW: Final = 256
"""Known records farther away are bounded together where the losses change from step to step."""
_MOST: Final = 20_000
"""Distances looked at where all losses are equal; those beyond are bounded together."""
_SURE: Final = 1e-10
"""Distances beyond which the bound is no larger by more than this are not looked at."""
_LONG: Final = 1000
_ROUNDING: Final = 4e-16
"""More than the rounding of one step."""


@dataclass(frozen=True)
class StreamSide:
    """One side of the target: how weights move, where they start, and who may know records there."""

    table: Floats
    """P after the target, P' before it."""
    nothing: Floats
    """The weights where no record of the side is passed: 1 after the target, the law of the first record before it."""
    everyone: bool
    """Whether the adversary may know records."""
    fixed: bool
    """Whether a step leaves the start as it is: always after the target, before it for a stationary start."""

    def constant(self, loss: float, records: int | None) -> Reach:
        """What the side adds where every step spends the same, by the number of its records; None: for ever."""
        k = len(self.table)
        bases = scaled(np.concatenate([self.nothing[None], self.table.T[self.table.any(axis=0)]]))
        shown = slice(None) if self.everyone else slice(1)
        bounds = Deep(Products(self.table, loss), bases[shown])
        met, ever = np.full((k, k), -np.inf), np.full((k, k), -np.inf)
        found: list[Floats] = []
        for m in range((_MOST if records is None else min(records, _MOST)) + 1):
            alive = _alive(bases[shown])
            added = np.where(alive, bounds.now - np.where(alive, pair_logs(bases[shown]), 0.0), -np.inf)
            found.append(_within(np.maximum(added[0], met), m, m * loss))
            ever = np.maximum(ever, found[-1])
            if self.everyone:  # with m hidden records between, the known one needs one record more
                met = np.maximum(met, added[1:].max(axis=0))
            if (records is None or records > m) and m % 4 == 3:
                tail = self._tail(bounds, bases)
                if tail is not None and (tail <= np.maximum(ever, met) + _SURE).all():
                    return Reach(found, np.maximum(np.maximum(ever, met), tail))
            bounds.step()
            bases = scaled(bases @ self.table.T)
        return Reach(found, None)

    def _tail(self, bounds: Deep, bases: Floats) -> Floats | None:
        """A bound for this and every larger number of records; None where none is found."""
        if not (bases > 0).all():
            return None
        ceiling = bounds.ceiling(slice(None))
        return None if ceiling is None else np.asarray(ceiling + self._faded(bases))

    def _faded(self, bases: Floats) -> Floats:
        """The least that a start says by itself from here on: mediants of what known records say now."""
        if self.fixed and not self.everyone:
            return -pair_logs(bases[0])
        return np.asarray((-pair_logs(bases[1:])).max(axis=0))

    def varying(self, losses: Floats, possible: npt.NDArray[np.bool_], tell: Callable[[int], None]) -> Floats:
        """The same for losses that change: table m is for the first m records of the side, the farthest first.

        ``possible`` says which values each of them can have.
        """
        changes = np.count_nonzero(np.diff(losses))
        if len(losses) > _LONG and changes * WINDOW > len(losses) and possible.all():
            # Hardly a run is long enough to be jumped over: many targets at once.
            windows = Windows(self, losses)
            if windows.near is not None and windows.near < len(losses):
                few = windows.near
                return np.concatenate(
                    [
                        _Varying(self).tables(losses[:few], possible[:few], tell)[:few],
                        self._cut(windows.tables(tell), losses, few),
                    ]
                )
        return _Varying(self).tables(losses, possible, tell)

    def _cut(self, tables: Floats, losses: Floats, first: int) -> Floats:
        """Cut to group privacy, as ``_within`` does, for all targets from one on."""
        spent = np.concatenate([[0.0], np.cumsum(losses)])[first:, None, None]
        return np.asarray(np.minimum(tables + np.where(tables > 0, _ROUNDING * _MOST, 0.0), spent))


@dataclass(frozen=True)
class Reach:
    """What a side adds, by the number of its records; beyond the list ``ever``, or all that was spent."""

    tables: list[Floats]
    ever: Floats | None

    def at(self, m: int, loss: float) -> Floats:
        """With m records on the side."""
        if m < len(self.tables):
            return self.tables[m]
        if self.ever is not None:
            return _within(self.ever, m, m * loss)
        return np.where(self.tables[-1] > -np.inf, m * loss, -np.inf)


@dataclass
class _Varying:
    """Every known record near the target has a table of its own; those farther away share one."""

    side: StreamSide
    none: Floats = field(init=False)
    base: Floats = field(init=False)
    near: Floats = field(init=False)
    bases: Floats = field(init=False)
    old: Floats = field(init=False)

    def __post_init__(self) -> None:
        table, k = self.side.table, len(self.side.table)
        self.moves, self.base = Moves(table[None]), self.side.nothing
        self.none = pair_logs(self.base)[None]
        self.near, self.bases = np.empty((0, k, k)), np.empty((0, k))
        self.ages: list[int] = []
        self.old = np.full((1, k, k), -np.inf)
        self.window, self.faded = _window(self.side)

    def tables(self, losses: Floats, possible: npt.NDArray[np.bool_], tell: Callable[[int], None]) -> Floats:
        n, k = len(losses), len(self.base)
        out: Floats = np.empty((n + 1, k, k))
        ends = np.append(np.flatnonzero(np.diff(losses)) + 1, n)  # where a run of equal losses ends
        m, spent, began = 0, 0.0, 0
        while m < n:
            out[m] = _within(self.value(), m, spent)
            tell(m)
            end = int(ends[np.searchsorted(ends, m, side="right")])
            loss = float(losses[m])
            if m - began > self.window + 1 and end - m > 8 and m % 8 == 0 and possible[m - self.window : end].all():
                settled = self.settled(loss)
                if settled is not None:
                    out[m:end] = np.minimum(settled, np.where(np.isfinite(settled), spent + loss * (end - m), settled))
                    self.base = scaled(np.linalg.matrix_power(self.side.table, end - m) @ self.base)
                    spent, m = spent + loss * (end - m), end
                    began = m
                    continue
            self.step(loss, possible[m])
            spent, m = spent + loss, m + 1
            if m == end:
                began = m
        out[n] = _within(self.value(), n, spent)
        return out

    def value(self) -> Floats:
        """What the side adds now, over all who know none or some of its records."""
        alive = _alive(self.base[None])
        found = [np.where(alive, self.none - np.where(alive, pair_logs(self.base), 0.0), -np.inf)[0]]
        if len(self.near):
            alive = _alive(self.bases)
            said = np.where(alive, pair_logs(self.bases), 0.0)
            found.append(np.where(alive, self.near - said, -np.inf).max(axis=0))
        if (self.old > -np.inf).any():
            found.append(np.where(self.old[0] > -np.inf, self.old[0] + self.faded, -np.inf))
        return np.asarray(np.max(found, axis=0))

    def step(self, loss: float, possible: npt.NDArray[np.bool_]) -> None:
        """One more record."""
        table = self.side.table
        self.none, self.base = self.moves(self.none, loss), scaled(table @ self.base)
        if not self.side.everyone:
            return
        if len(self.near):
            self.near, self.bases = self.moves(self.near, loss), scaled(self.bases @ table.T)
        if (self.old > -np.inf).any():
            self.old = self.moves(self.old, loss)
        known = table.T[possible & table.any(axis=0)]
        self.near = np.concatenate([self.near, pair_logs(known)])
        self.bases = np.concatenate([self.bases, scaled(known)])
        self.ages.append(len(known))
        if len(self.ages) > self.window:  # the oldest joins those that are bounded together
            gone = self.ages.pop(0)
            self.old = np.maximum(self.old, self.near[:gone].max(axis=0, initial=-np.inf)[None])
            self.near, self.bases = self.near[gone:], self.bases[gone:]

    def settled(self, loss: float) -> Floats | None:
        """A bound for as long as the same loss is spent, where it is no larger than now; the tables are moved to it."""
        now, k = self.value(), len(self.base)
        slack = SLACK * (1 - np.eye(k))
        none, old = self.none + slack, self.old + slack
        if not (self.moves(none, loss) <= none).all():
            return None
        if (old > -np.inf).any() and not (self.moves(old, loss) <= old).all():
            return None
        said = -pair_logs(self.base) if self.side.fixed else self.faded
        far = np.where(old[0] > -np.inf, old[0] + self.faded, -np.inf)
        bound = np.maximum(now, np.maximum(none[0] + said, far))
        if not (bound <= now + 10 * _SURE).all():
            return None
        self.none, self.old = none, old
        return np.asarray(bound)


def _window(side: StreamSide) -> tuple[int, Floats]:
    """How many known records to keep apart, and the most that those farther away take back by themselves."""
    bases = side.table.T[side.table.any(axis=0)]
    distance = 1
    while distance < WINDOW and not _alike(bases):
        distance, bases = distance + 1, scaled(bases @ side.table.T)
    if not (bases > 0).all():
        # Where some value is still impossible nothing can be said: an infinite bound, cut to the losses in all.
        return distance, np.full((len(side.table),) * 2, np.inf)
    return distance, np.asarray((-pair_logs(bases)).max(axis=0))


def _alike(bases: Floats) -> bool:
    """Whether all starts say the same by themselves."""
    said = pair_logs(bases)
    return bool((bases > 0).all() and (said.max(axis=0) - said.min(axis=0) <= 1e-12).all())


def _within(table: Floats, m: int, spent: float) -> Floats:
    """Cut to group privacy over the records that are passed, with room for rounding; impossible pairs stay so."""
    room = np.where(table > 0, _ROUNDING * min(m, _MOST), 0.0)
    return np.where(table > -np.inf, np.minimum(table + room, spent), -np.inf)


def _alive(bases: Floats) -> npt.NDArray[np.bool_]:
    """Which pairs of values a start leaves possible."""
    return (bases[:, :, None] > 0) & (bases[:, None, :] > 0)


def largest(table: Floats) -> float:
    """The largest entry of two different values; 0 where no two are possible."""
    found = float(table[~np.eye(len(table), dtype=bool)].max(initial=-math.inf))
    return found if found > -math.inf else 0.0
