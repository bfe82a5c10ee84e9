"""Long streams whose losses change all the time: many targets at once, each with the records near it.

A chain forgets: weights that start W records away have forgotten their start up to tanh(d/4)^W (Birkhoff), whatever
the outputs. So the far starts of a target share one table, begun at a bound for all of them, and targets can be
followed in blocks side by side. Known records nearer than W have a table for every distance. Bounds only: what has not
been forgotten makes them larger, never smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from pufferdp.leakage.stream_bounds import Array, Deep, Moves, Products, pair_logs, scaled

if TYPE_CHECKING:
    from pufferdp.leakage.streams import Side

_FORGOTTEN: Final = 1e-13
_LONGEST: Final = 1000
"""Chains that take longer to forget are followed step by step."""
_SEARCHED: Final = 4000
_BLOCKS: Final = 1000
_AT_ONCE: Final = 4_000_000
"""Numbers in a table of bounds, so that memory stays bounded."""


class Windows:
    """What a side adds at every target beyond the first few; ``near`` records are looked at one by one."""

    def __init__(self, side: Side, losses: Array) -> None:
        self._side, self._losses, self._moves = side, losses, Moves(side.table[None])
        self._ceiling, first = _ceiling(side, float(losses.max()))
        warm = _warm(side)
        self.near = None if self._ceiling is None or warm is None else first + warm
        self._warm = warm or 0

    def tables(self, tell: Callable[[int], None]) -> Array:
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

    def _far(self, near: int, n: int) -> Array:
        """Bounds for every start at least ``near`` away, for the targets from ``near`` to n: blocks side by side."""
        long = -(-(n + 1 - near) // _BLOCKS)
        starts = near + long * np.arange(-(-(n + 1 - near) // long))
        assert self._ceiling is not None
        tables = np.repeat(self._ceiling[None], len(starts), axis=0)
        out: Array = np.empty((long, *tables.shape))
        padded = np.concatenate([self._losses, np.zeros(long)])
        for step in range(-self._warm, long):
            if step >= 0:
                out[step] = tables
            tables = self._moves(tables, padded[starts + step])
        return out.swapaxes(0, 1).reshape(-1, *tables.shape[1:])[: n + 1 - near]

    def _known(self, low: int, high: int) -> Array:
        """The worst known record nearer than that, for some targets."""
        assert self.near is not None
        table, k = self._side.table, len(self._side.table)
        bases = scaled(table.T)
        first = low - self.near + 1
        bounds = np.repeat(pair_logs(bases)[None], high - first, axis=0)
        best: Array = np.full((high - low, k, k), -np.inf)
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


def _ceiling(side: Side, loss: float) -> tuple[Array | None, int]:
    """A bound on the tables of all starts from some distance on, where no step spends more than ``loss``."""
    bases = scaled(np.concatenate([side.nothing[None], side.table.T]))
    bounds = Deep(Products(side.table, loss), bases)
    for distance in range(1, _SEARCHED):
        bounds.step()
        found = bounds.ceiling(slice(None)) if distance % 4 == 0 else None
        if found is not None:
            return found, distance + 1  # a known record starts one step away
    return None, 0


def _warm(side: Side) -> int | None:
    """Records after which a start is forgotten; None where that takes too long, or may never be."""
    if not (side.table > 0).all():
        return None
    ratios = pair_logs(side.table.T)
    keeps = math.tanh(float((ratios.max(axis=0) - ratios.min(axis=0)).max()) / 4)
    steps = 1 if keeps == 0 else math.ceil(math.log(_FORGOTTEN) / math.log(keeps))
    return steps if steps <= _LONGEST else None
