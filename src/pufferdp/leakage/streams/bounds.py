"""Bounds on the ratios of weights while the records of a stream are passed; see ``streams``.

D(x,y) bounds log w(x)/w(y) over all weights that some outputs lead to. With two states they are an interval, so D
follows exactly from the D before. With more states D is an upper bound: the largest quotient of two rows over the
weights that D allows. It is never above the recursion of Cao, Yoshikawa, Xiao & Xiong (2017), which keeps one number
in place of a table.
"""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats

SLACK: Final = 1e-11
"""Added to a bound that is to hold for ever, so that a step keeps it."""
_LARGE: Final = 600.0
_SAFE: Final = 100.0
"""Products of a few likelihoods that differ by no more than exp of this stay within doubles."""
_PRODUCTS: Final = 40
"""How many products of matrices a step may look at."""
_FEW: Final = 4
"""States up to which every extreme ray of the weights may be looked at."""
_CANDIDATES: Final = 3000
"""Candidates for rays, times matrices, that a step may look at."""
Edge = tuple[int, int, bool]
"""A value that is known, a new one, and whether that is as large as its bound allows or as small."""
_ALL_SETS: Final = 5
"""States up to which every set of them is looked at."""


class Moves:
    """Bounds on the ratios of weights, before a step to after it: the worst of several matrices."""

    def __init__(self, tables: Floats) -> None:
        self.size = tables.shape[-1]
        if self.size == 2:
            self._of_two = [tables[:, x, y, None] for x in (0, 1) for y in (0, 1)]
            return
        self._tables = tables
        self._trees = _trees(self.size) if self.size <= _FEW else ()
        self._few = 0 < len(self._trees) * len(tables) <= _CANDIDATES
        c, d = np.broadcast_arrays(tables[:, :, None, :], tables[:, None, :, :])
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.nan_to_num(c / d, nan=0.0, posinf=np.inf)
        # A quotient of linear functions over a box is largest where the coordinates with the largest share are at
        # their upper ends and the others at their lower ends: k+1 corners.
        self._order = np.argsort(-share, axis=-1)
        self._top, self._bottom = (np.take_along_axis(rows, self._order, axis=-1) for rows in (c, d))

    def __call__(self, bounds: Floats, loss: float | Floats) -> Floats:
        """Tables after a record that spent ``loss``, one a start; or a loss for each of them."""
        return self._two(bounds, loss) if self.size == 2 else self._many(bounds, loss)

    def _two(self, bounds: Floats, loss: float | Floats) -> Floats:
        """The ratio of two weights moves by a Möbius map, and an interval to an interval."""
        ends = np.stack([bounds[:, 0, 1] + loss, -bounds[:, 1, 0] - loss])[:, None, :]
        a, b, c, d = self._of_two
        falls, above = np.exp(-np.abs(ends)), ends > 0
        top, bottom = np.where(above, a + b * falls, a * falls + b), np.where(above, c + d * falls, c * falls + d)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.log(top) - np.log(bottom)
        out: Floats = np.zeros(bounds.shape)
        out[:, 0, 1], out[:, 1, 0] = found.max(axis=(0, 1)), -found.min(axis=(0, 1))
        return out

    def _many(self, bounds: Floats, loss: float | Floats) -> Floats:
        k = self.size
        wide = bounds + np.asarray(loss)[..., None, None] * (1 - np.eye(k))
        if self._few and float(np.abs(wide).max()) < _LARGE:
            return self._rays(wide)
        turned = np.swapaxes(wide, 1, 2)
        # Weights scaled to w(r) = 1 lie in a box; every reference r gives a bound, the smallest counts.
        open_box = np.max(turned, axis=2) >= _LARGE
        with np.errstate(over="ignore"):
            high, low = np.exp(np.minimum(turned, _LARGE)), np.exp(-wide)
        low = np.minimum(low, high)
        found = self._quotient(high[:, :, self._order], low[:, :, self._order])
        best = np.where(np.expand_dims(open_box, (2, 3, 4)), np.inf, found).min(axis=1)
        # And the largest ratio of all as a bound on each (Cao et al. 2017): weights between 1 and that.
        largest = np.expand_dims(wide.max(axis=(1, 2)), (1, 2, 3))
        uniform = np.exp(np.minimum(largest, _LARGE))[..., None] * np.ones(k)
        found = self._quotient(uniform, np.ones_like(uniform))
        best = np.where(largest < _LARGE, np.minimum(best, found), best).max(axis=1)
        best[:, np.arange(k), np.arange(k)] = 0.0
        return np.asarray(best)

    def _rays(self, wide: Floats) -> Floats:
        """The largest quotients over all weights that the bounds allow: at their extreme rays.

        On an extreme ray the bounds that are reached link all values: they hold a spanning tree. Every tree gives a
        candidate, and those that break no other bound are the extreme rays.
        """
        logs = np.zeros((len(wide), len(self._trees), self.size))
        for at, tree in enumerate(self._trees):
            for known, new, rises in tree:
                logs[:, at, new] = logs[:, at, known] + (wide[:, new, known] if rises else -wide[:, known, new])
        apart = logs[..., :, None] - logs[..., None, :]
        # Rounding must not lose one; to keep one too many makes the bound larger by no more than this.
        broken = np.max(apart - wide[:, None], axis=(2, 3)) > SLACK
        weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
        moved = np.einsum("nxy,sty->stnx", self._tables, weights)
        found = pair_logs(moved).max(axis=2)
        found = np.where(np.expand_dims(broken, (2, 3)), -np.inf, found).max(axis=1)
        found[:, np.arange(self.size), np.arange(self.size)] = 0.0
        return np.asarray(found)

    def _quotient(self, high: Floats, low: Floats) -> Floats:
        """The largest log-quotient of two rows over boxes."""
        top, bottom = _corners(self._top, high, low), _corners(self._bottom, high, low)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(top > 0, np.log(top) - np.log(bottom), -np.inf).max(axis=-1))


class Products:
    """Several records in one matrix, for every extreme likelihood of each, where every step spends the same."""

    def __init__(self, table: Floats, loss: float) -> None:
        favours = np.exp((extreme_sets(len(table)) - 1) * min(loss, _SAFE))
        self.steps = table[None] * favours[:, None, :]
        # Only where every set of values is looked at do products bound all likelihoods.
        self.several = 2 < len(table) <= _ALL_SETS and loss < _SAFE
        self.deep = max(1, int(math.log(_PRODUCTS) / math.log(len(favours)))) if self.several else 1
        products = self.steps
        for _ in range(self.deep - 1):
            products = _scaled_all(np.einsum("axy,byz->abxz", self.steps, products).reshape(-1, *table.shape))
        self._moves, self._loss = (Moves(products), 0.0) if self.several else (Moves(table[None]), loss)

    def __call__(self, bounds: Floats) -> Floats:
        """Tables after so many records, one a start."""
        return self._moves(bounds, self._loss)


class Deep:
    """Bounds step by step where every step spends the same.

    The first records are passed one output at a time, exactly; later ones from the bound that is a whole product ago.
    """

    def __init__(self, products: Products, starts: Floats) -> None:
        self._products, self._deep = products, products.deep
        self._exact: Floats = starts[:, None, :]
        self._past = [pair_logs(starts)]

    @property
    def now(self) -> Floats:
        """A table of bounds for each start."""
        return self._past[-1]

    def step(self) -> None:
        """One more record."""
        if len(self._past) <= self._deep and self._products.several:
            tried = np.einsum("zxy,sny->snzx", self._products.steps, self._exact)
            self._exact = scaled(tried.reshape(len(tried), -1, tried.shape[-1]))
            self._past.append(pair_logs(self._exact).max(axis=1))
        else:
            self._past.append(self._products(self._past[-self._deep]))
        self._past = self._past[-self._deep - 1 :] if len(self._past) > 2 * self._deep else self._past

    def ceiling(self, starts: slice) -> Floats | None:
        """A bound on this and every later table of some starts; None where none is found."""
        if len(self._past) <= self._deep:
            return None
        recent = np.max([table[starts].max(axis=0) for table in self._past[-self._deep :]], axis=0)
        bound = recent + SLACK * (1 - np.eye(len(recent)))
        # What a whole product keeps inside once stays inside for ever.
        return bound if (self._products(bound[None])[0] <= bound).all() else None


def extreme_sets(k: int) -> Floats:
    """Sets of values that an output may speak for, none and all left out; with many values some of them."""
    sets = every_set(k)
    return np.concatenate([np.eye(k), 1 - np.eye(k)]) if sets is None else sets


def every_set(k: int) -> Floats | None:
    """All of them, where they are few."""
    if k > _ALL_SETS:
        return None
    return np.array([s for s in itertools.product((0.0, 1.0), repeat=k) if 0 < sum(s) < k])


def _scaled_all(products: Floats) -> Floats:
    return np.asarray(products / products.max(axis=(1, 2), keepdims=True))


@cache
def _trees(k: int) -> tuple[tuple[Edge, ...], ...]:
    """Spanning trees of k values, grown from the first."""
    found: dict[frozenset[Edge], tuple[Edge, ...]] = {}

    def grow(seen: tuple[int, ...], edges: tuple[Edge, ...]) -> None:
        if len(seen) == k:
            found.setdefault(frozenset(edges), edges)  # the order in which a tree is grown does not matter
            return
        for known, new, rises in itertools.product(seen, set(range(k)) - set(seen), (False, True)):
            grow((*seen, new), (*edges, (known, new, rises)))

    grow((0,), ())
    return tuple(found.values())


def _corners(rows: Floats, high: Floats, low: Floats) -> Floats:
    """Sums over the k+1 corners: the first j coordinates high, the rest low."""
    ups, downs = np.cumsum(rows * high, axis=-1), np.cumsum((rows * low)[..., ::-1], axis=-1)[..., ::-1]
    zero = np.zeros((*ups.shape[:-1], 1))
    return np.asarray(np.concatenate([zero, ups], axis=-1) + np.concatenate([downs, zero], axis=-1))


def pair_logs(vectors: Floats) -> Floats:
    """Log v(x)/v(y) along the last axis; 0/0 counts as -inf."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(vectors)
        found = logs[..., :, None] - logs[..., None, :]
    return np.asarray(np.where(np.isnan(found), -np.inf, found))


def scaled(vectors: Floats) -> Floats:
    """Each vector with a largest entry of 1; one of zeros stays so."""
    top = vectors.max(axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(top > 0, top, 1.0))
