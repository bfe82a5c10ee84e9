"""Bounds on the ratios of weights while the records of a stream are passed; see ``streams``.

D(x,y) bounds log w(x)/w(y) over all weights that some outputs lead to. With two states they are an interval, so D
follows exactly from the D before. With more states D is an upper bound: the largest quotient of two rows over the
weights that D allows. It is never above the recursion of Cao, Yoshikawa, Xiao & Xiong (2017), which keeps one number
in place of a table.
"""

from __future__ import annotations

import itertools
import math
from typing import Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

SLACK: Final = 1e-11
"""Added to a bound that is to hold for ever, so that a step keeps it."""
_LARGE: Final = 600.0
_SAFE: Final = 100.0
"""Products of a few likelihoods that differ by no more than exp of this stay within doubles."""
_PRODUCTS: Final = 220
"""How many products of matrices a step may look at."""
_ALL_SETS: Final = 5
"""States up to which every set of them is looked at."""


class Moves:
    """Bounds on the ratios of weights, before a step to after it: the worst of several matrices."""

    def __init__(self, tables: Array) -> None:
        self.size = tables.shape[-1]
        if self.size == 2:
            self._of_two = [tables[:, x, y, None] for x in (0, 1) for y in (0, 1)]
            return
        c, d = np.broadcast_arrays(tables[:, :, None, :], tables[:, None, :, :])
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.nan_to_num(c / d, nan=0.0, posinf=np.inf)
        # A quotient of linear functions over a box is largest where the coordinates with the largest share are at
        # their upper ends and the others at their lower ends: k+1 corners.
        self._order = np.argsort(-share, axis=-1)
        self._top, self._bottom = (np.take_along_axis(rows, self._order, axis=-1) for rows in (c, d))

    def __call__(self, bounds: Array, loss: float | Array) -> Array:
        """Tables after a record that spent ``loss``, one a start; or a loss for each of them."""
        return self._two(bounds, loss) if self.size == 2 else self._many(bounds, loss)

    def _two(self, bounds: Array, loss: float | Array) -> Array:
        """The ratio of two weights moves by a Möbius map, and an interval to an interval."""
        ends = np.stack([bounds[:, 0, 1] + loss, -bounds[:, 1, 0] - loss])[:, None, :]
        a, b, c, d = self._of_two
        falls, above = np.exp(-np.abs(ends)), ends > 0
        top, bottom = np.where(above, a + b * falls, a * falls + b), np.where(above, c + d * falls, c * falls + d)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.log(top) - np.log(bottom)
        out: Array = np.zeros(bounds.shape)
        out[:, 0, 1], out[:, 1, 0] = found.max(axis=(0, 1)), -found.min(axis=(0, 1))
        return out

    def _many(self, bounds: Array, loss: float | Array) -> Array:
        k = self.size
        wide = bounds + np.asarray(loss)[..., None, None] * (1 - np.eye(k))
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

    def _quotient(self, high: Array, low: Array) -> Array:
        """The largest log-quotient of two rows over boxes."""
        top, bottom = _corners(self._top, high, low), _corners(self._bottom, high, low)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(top > 0, np.log(top) - np.log(bottom), -np.inf).max(axis=-1))


class Deep:
    """Bounds step by step where every step spends the same: several records in one product make them tight.

    The first records are passed one output at a time, exactly; later ones from the bound that is a whole product ago.
    """

    def __init__(self, table: Array, starts: Array, loss: float) -> None:
        favours = np.exp((extreme_sets(len(table)) - 1) * min(loss, _SAFE))
        self._steps = table[None] * favours[:, None, :]
        # Only where every set of values is looked at do products bound all likelihoods.
        several = 2 < len(table) <= _ALL_SETS and loss < _SAFE
        self._deep = max(1, int(math.log(_PRODUCTS) / math.log(len(favours)))) if several else 1
        products = self._steps
        for _ in range(self._deep - 1):
            products = _scaled_all(np.einsum("axy,byz->abxz", self._steps, products).reshape(-1, *table.shape))
        self._moves = Moves(products) if self._deep > 1 else Moves(table[None])
        self._loss = 0.0 if self._deep > 1 else loss
        self._exact: Array = starts[:, None, :]
        self._past = [pair_logs(starts)]

    @property
    def now(self) -> Array:
        """A table of bounds for each start."""
        return self._past[-1]

    def step(self) -> None:
        """One more record."""
        if len(self._past) <= self._deep and self._deep > 1:
            tried = np.einsum("zxy,sny->snzx", self._steps, self._exact)
            self._exact = scaled(tried.reshape(len(tried), -1, tried.shape[-1]))
            self._past.append(pair_logs(self._exact).max(axis=1))
        else:
            self._past.append(self._moves(self._past[-self._deep], self._loss))
        self._past = self._past[-self._deep - 1 :] if len(self._past) > 2 * self._deep else self._past

    def ceiling(self, starts: slice) -> Array | None:
        """A bound on this and every later table of some starts; None where none is found."""
        if len(self._past) <= self._deep:
            return None
        recent = np.max([table[starts].max(axis=0) for table in self._past[-self._deep :]], axis=0)
        bound = recent + SLACK * (1 - np.eye(len(recent)))
        # What a whole product keeps inside once stays inside for ever.
        return bound if (self._moves(bound[None], self._loss)[0] <= bound).all() else None


def extreme_sets(k: int) -> Array:
    """Sets of values that an output may speak for, none and all left out; with many values some of them."""
    if k <= _ALL_SETS:
        return np.array([s for s in itertools.product((0.0, 1.0), repeat=k) if 0 < sum(s) < k])
    return np.concatenate([np.eye(k), 1 - np.eye(k)])


def _scaled_all(products: Array) -> Array:
    return np.asarray(products / products.max(axis=(1, 2), keepdims=True))


def _corners(rows: Array, high: Array, low: Array) -> Array:
    """Sums over the k+1 corners: the first j coordinates high, the rest low."""
    ups, downs = np.cumsum(rows * high, axis=-1), np.cumsum((rows * low)[..., ::-1], axis=-1)[..., ::-1]
    zero = np.zeros((*ups.shape[:-1], 1))
    return np.asarray(np.concatenate([zero, ups], axis=-1) + np.concatenate([downs, zero], axis=-1))


def pair_logs(vectors: Array) -> Array:
    """Log v(x)/v(y) along the last axis; 0/0 counts as -inf."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(vectors)
        found = logs[..., :, None] - logs[..., None, :]
    return np.asarray(np.where(np.isnan(found), -np.inf, found))


def scaled(vectors: Array) -> Array:
    """Each vector with a largest entry of 1; one of zeros stays so."""
    top = vectors.max(axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(top > 0, top, 1.0))
