"""The tight bound of a chain that keeps its distribution, with the same loss on every record, of any length or none.

Pairs of values are ordered by what they add at small losses: the sum over distances of the total variation between the
distributions given either value. The first few pairs are searched; the others need only be shown to leak no more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Ints
from pufferdp.bounds.tight.inputs import stationary_law
from tests.oracles.recursion.passes import Lane, Rows, schedule
from tests.oracles.recursion.search import ENDLESS, Found, Profile, Search, Targets

_FIRST: Final = 4
"""Pairs that are searched together before others are compared with them."""
_COARSE, _FINE = 32, 512
"""Resolutions of blocks: a bound is wider by about 0.4/resolution, as a share."""
_DEEPEST: Final = 1 << 22
"""Records on a side that are looked at: a chain that remembers longer is bounded by the closed form."""
_CELLS: Final = 1 << 22
"""Ends of a profile, for all pairs that are looked at together."""


@dataclass(frozen=True, eq=False)
class _Solved:
    """A search after its last pass, and the numbers of its pairs."""

    search: Search
    found: Found
    pairs: Ints


class SteadyChain:
    """The tight bound of one chain with its stationary start, for one length and one adversary."""

    def __init__(
        self, transition: npt.ArrayLike, length: int | None = None, adversary: str = "bdp", tolerance: float = 1e-3
    ) -> None:
        after = np.asarray(transition, dtype=float)
        start = stationary_law(after)
        before = (start[:, None] * after).T / start[:, None]
        ones, known = np.ones(len(after)), adversary == "bdp"
        self.length, self.tolerance = length, tolerance
        self.alike = bool(np.allclose(before, after, rtol=1e-13, atol=0))
        self.lanes = tuple(Lane(kernel[None], ones, known) for kernel in (after if self.alike else before, after))
        self.x, self.y = np.nonzero(~np.eye(len(after), dtype=bool))

    @cached_property
    def _slopes(self) -> Floats:
        """What either side adds at small losses, as a share of the loss, (2, pairs)."""
        out = np.zeros((2, len(self.x)))
        for i, lane in enumerate(self.lanes):
            power, far, before = lane.kernels[0], 1, 0
            most = _DEEPEST if self.length is None else self.length
            while far < 2 * most:
                apart = np.array([np.abs(power[x] - power[y]).sum() / 2 for x, y in zip(self.x, self.y, strict=True)])
                out[i] += apart * (min(far, most) - before)
                if apart.max() < 1e-9:
                    break
                power, far, before = power @ power, 2 * far, far
        return out + 1e-12

    def _depth(self, loss: float) -> int:
        """Records on a side that matter: those until the chain has forgotten, to a share of the tolerance."""
        most = _DEEPEST if self.length is None else min(self.length - 1, _DEEPEST)
        power, far = self.lanes[1].kernels[0], 1
        while far < most:
            if power.min() > 0:
                spread = float(np.log(power.max(axis=0) / power.min(axis=0)).max())
                if spread <= max(self.tolerance * loss / 16, 1e-13):
                    break
            power, far = power @ power, 2 * far
        # At large losses a vector near its root takes longer to decide than the chain to forget.
        return min(max(4 * far, 256), most)

    def _search(self, pairs: Ints, loss: float, resolution: int) -> Search:
        """The search for some pairs."""
        depth, length, count = self._depth(loss), self.length, len(pairs)
        rows = Rows(np.zeros(count, dtype=np.int64), self.x[pairs], self.y[pairs], np.full(count, loss))
        after = Profile(self.lanes[1], rows, depth, resolution)
        before = after if self.alike else Profile(self.lanes[0], rows, depth, resolution)
        if length is None or length - 1 > 2 * depth:
            records = np.full((2, 1), ENDLESS)
        else:
            # What a side adds changes at the last record of a step: those numbers, and the next ones, are enough.
            last = np.concatenate([[0], after.last])
            cuts = np.concatenate([last, last + 1])
            left = np.unique(np.concatenate([cuts, length - 1 - cuts]))
            left = left[(left >= 0) & (left < length)]
            records = np.stack([left, length - 1 - left])
        many = records.shape[1]
        row = np.repeat(np.arange(count), many)
        targets = Targets(np.full(count * many, loss), np.stack([row, row]), np.tile(records, count))
        guess = np.minimum(1.2 * self._slopes[:, pairs] * loss + 0.01, 4.0)
        return Search((before, after), targets, guess)

    def _chunks(self, loss: float, resolution: int) -> int:
        """Pairs whose ends fit into memory together."""
        steps = sum(number for number, _ in schedule(self._depth(loss), resolution))
        return max(1, min(256, _CELLS // (steps * (self.lanes[1].size + 1))))

    def _first(self, loss: float) -> _Solved:
        """The worst of the pairs that come first by their slopes."""
        order = np.argsort(-self._slopes.sum(axis=0), kind="stable")[:_FIRST]
        slow = self._depth(loss) > 2 * _FINE
        search = self._search(order, loss, _COARSE if slow else _FINE)
        found = search.run(max(self.tolerance, 0.02) if slow else self.tolerance)
        if slow:
            best = np.array([order[search.targets.row[1, int(found.lower.argmax())]]])
            search = self._search(best, loss, _FINE)
            found, order = search.run(self.tolerance), best
        return _Solved(search, found, order)

    def bracket(self, loss: float) -> tuple[float, float]:
        """What the worst algorithm leaks with this loss on every record: at least and at most."""
        best = self._first(loss)
        upper, every = float(best.found.upper.max()), np.argsort(-self._slopes.sum(axis=0), kind="stable")
        waiting = every[~np.isin(every, best.pairs)]
        for resolution in (_COARSE, _FINE):
            rest, many = [], self._chunks(loss, resolution)
            for low in range(0, len(waiting), many):
                pairs = waiting[low : low + many]
                search = self._search(pairs, loss, resolution)
                floor = float(best.found.lower.max())
                found = search.run(self.tolerance, floor)
                above = np.unique(search.targets.row[1, found.upper > floor * (1 + self.tolerance)])
                if float(found.lower.max()) > floor:
                    best = _Solved(search, found, pairs)
                if resolution == _FINE or self._depth(loss) <= 2 * _COARSE:
                    upper = max(upper, float(found.upper.max()))
                else:
                    settled = found.upper[~np.isin(search.targets.row[1], above)]
                    upper = max(upper, float(settled.max(initial=0.0)))
                    rest.append(pairs[above])
            waiting = np.concatenate(rest) if rest else np.zeros(0, dtype=np.int64)
        lower = float(best.found.lower.max())
        group = math.inf if self.length is None else loss * self.length
        return min(lower, group), min(upper, group)
