"""Leakage of a series whose records pass a channel one by one: a proved upper bound, for any number of states.

As for two states the log-likelihood ratio of an output between X_i = x and X_i = y is a sum: the output of the record
itself, and for each side the log-ratio of w(x) and w(y), a vector of weights. Every record passed moves it by
w ← T·diag(B[:,z])·w, with T = P after the target and T = P' before it. A known record is another start of the vector,
and the evidence of its value is divided out. For more than two states the vectors that outputs lead to have no largest
element, so boxes around them are passed on:

* D bounds the pairwise ratios: w(x)/w(y) ≤ exp D(x,y) for every vector that some output leads to. Scaled so that
  w(r) = 1, the vector lies in a box. After the next records its ratio is a quotient of linear functions, which is
  largest at one of k+1 corners (docs/theory/flips.md). Each reference r gives a bound; the smallest counts, and the
  largest over all outputs is the new D. Passing several records in one product tightens the bound.
* Endless series: if one step does not raise D, D bounds every later vector.

Sums of positive numbers have a relative error of about 1e-13; ``SLACK`` is added for it.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats, Matrix
from pufferdp.basics.errors import ModelError, NotApplicableError
from pufferdp.bounds.chains.powers import log_ratios
from pufferdp.models.chain import MarkovChain

SLACK: Final = 1e-9
"""Added to every bound: far more than the rounding error."""
_PRODUCTS: Final = 90
"""Products of matrices that a step examines; more make the bound tighter and slower."""
_MOST: Final = 400
"""Distances examined one by one; longer ones are bounded together."""


def channel_loss(
    chain: MarkovChain, channel: Matrix, length: int | None, adversary: Adversary, *, products: int = _PRODUCTS
) -> float:
    """An upper bound on the loss of a series of this length, or of an endless one (None)."""
    chain, table = _restrict(chain, np.asarray(channel, dtype=float))
    k = chain.size
    if k == 1:
        return 0.0
    own = log_ratios(table.T).max(axis=0)
    if not np.isfinite(own).all():
        return math.inf
    if adversary is Adversary.DP:
        return float(own.max())
    endless = length is None or length > _MOST
    if endless and not chain.primitive:
        return math.inf  # outputs reveal the phase of a periodic chain ever more surely
    moves, given = np.asarray(chain.transition), chain.given_start
    start = np.asarray(chain.stationary if given is None else given)
    last = _MOST if length is None or endless else length - 1
    knows = adversary is Adversary.BDP
    after = _Side(moves, np.ones(k), table, products, knows=knows, fades=False)
    before = _Side(moves.T, start, table, products, knows=knows, fades=given is not None and not knows)
    if endless:
        upper = own + before.supremum(last) + after.supremum(last)  # the loss never falls with the length
    else:
        left, right = (np.array([side.next() for _ in range(last + 1)]) for side in (before, after))
        upper = own + (left + right[::-1]).max(axis=0)
    return max(0.0, float(upper[~np.eye(k, dtype=bool)].max())) + SLACK


def randomised_response(k: int, rho: float) -> Matrix:
    """The channel that keeps a record with probability 1−ρ and otherwise draws another state uniformly."""
    return np.where(np.eye(k, dtype=bool), 1 - rho, rho / (k - 1))


def _restrict(chain: MarkovChain, table: Floats) -> tuple[MarkovChain, Floats]:
    """The chain on the states that occur, and the channel without outputs that cannot occur."""
    if chain.any_start:
        raise NotApplicableError(
            "start is any, and with more than two states no bound is proved that holds for every start; "
            'use start "stationary", give the distribution of the first record, or join states until there are two'
        )
    if len(chain.closed_classes) > 1:
        raise NotApplicableError(
            f"the chain falls into {len(chain.closed_classes)} parts that never meet, and outputs distinguish them "
            "sooner or later; give each part its own model"
        )
    if table.ndim != 2 or len(table) != chain.size:
        raise ModelError(f"the channel has {len(table)} rows; the chain has {chain.size} states: one row each")
    there = chain.stationary > 0
    if chain.given_start is not None:
        if not there.all():
            gone = ", ".join(name for name, occurs in zip(chain.labels, there, strict=True) if not occurs)
            raise NotApplicableError(
                f"start is given, and the chain leaves {gone} for good; with more than two states use a chain that "
                'comes back to every state, or start "stationary"'
            )
        return chain, table[:, (table > 0).any(axis=0)]
    table = table[there]
    restricted = MarkovChain(transition=chain.transition[np.ix_(there, there)])
    return restricted, table[:, (table > 0).any(axis=0)]


class _Side:
    """Bounds on the pairwise log-likelihood ratios of one side, for 0, 1, 2 and so on records on it.

    Args:
        moves: transition probabilities from the target to the side.
        start: weights of the last record where no record on the side is known.
        table: the channel, [state, output].
        products: the number of products of matrices in a step.
        knows: whether the nearest known record may be at any distance with any value.
        fades: whether the distribution of a record changes with its position, as after a given start.
    """

    def __init__(self, moves: Floats, start: Floats, table: Floats, products: int, *, knows: bool, fades: bool) -> None:
        self._moves, k = moves, len(moves)
        # A known value is a start too; where a given start rules values out the bound allows for them all the same.
        self._bases = np.concatenate([start[None], moves.T]) if knows else start[None]
        # Evidence of positions fades: that of known values bounds it.
        self._fading = moves.T if fades else np.empty((0, k))
        self._steps = moves[None] * table.T[:, None, :]  # one matrix for each output: T·diag(B[:,z])
        self._deep = max(1, int(math.log(products) / math.log(max(2, len(self._steps)))))
        self._vectors = self._bases[:, None, :]  # every vector that outputs lead to, while they are few
        self._bounds: list[Floats] = []  # D for each start, by the number of records passed
        self._nearest = np.full((k, k), -np.inf)

    def next(self) -> Floats:
        """The bound [x, y] for one more record on the side, the first time for none."""
        if self._bounds:
            self._bases, self._fading = self._bases @ self._moves.T, self._fading @ self._moves.T
            if len(self._bounds) <= self._deep:
                vectors = np.einsum("zxy,sny->snzx", self._steps, self._vectors)
                vectors = vectors.reshape(len(vectors), -1, vectors.shape[-1])
                self._vectors = vectors / vectors.max(axis=-1, keepdims=True)
        exact = len(self._bounds) <= self._deep
        self._bounds.append(
            log_ratios(self._vectors).max(axis=1) if exact else self._cone.image(self._bounds[-self._deep])
        )
        # A value that a start rules out is no secret there.
        alive = (self._bases[:, :, None] > 0) & (self._bases[:, None, :] > 0)
        added = np.where(alive, self._bounds[-1] - np.where(alive, log_ratios(self._bases), 0.0), -np.inf)
        bound: Floats = np.maximum(added[0], self._nearest)
        if len(added) > 1:  # with this many records before it, the known record needs one more
            self._nearest = np.maximum(self._nearest, added[1:].max(axis=0))
        return bound

    def supremum(self, last: int) -> Floats:
        """A bound [x, y] for any number of records, from up to ``last`` of them and a bound on more."""
        most = np.full_like(self._nearest, -np.inf)
        for records in range(last + 1):
            most = np.maximum(most, self.next())
            if records % 4 == 3 or records == last:
                tail, reached = self._tail(), np.maximum(most, self._nearest)
                if records == last or (tail <= reached + SLACK).all():
                    return np.asarray(np.maximum(reached, tail))
        raise AssertionError("the last number of records returns")

    def _tail(self) -> Floats:
        """A bound for this number of records and every larger one; infinite where none is found."""
        bound: Floats = np.max([table.max(axis=0) for table in self._bounds[-self._deep :]], axis=0)
        starts = np.concatenate([self._bases, self._fading])
        if len(self._bounds) > self._deep and (starts > 0).all():
            for _ in range(4):
                # Once D contains its image it bounds every later vector. The image of a wider D grows by less than D.
                wider = np.maximum(bound, self._cone.image(bound[None])[0])
                if (wider <= bound).all():
                    # The evidence of a start only fades: later ratios are means of these.
                    return np.asarray(bound + log_ratios(starts).transpose(0, 2, 1).max(axis=0))
                bound = wider + 0.3 * SLACK
        return np.full(bound.shape, np.inf)

    @cached_property
    def _cone(self) -> _Cone:
        products = self._steps
        for _ in range(self._deep - 1):
            products = np.einsum("axy,byz->abxz", self._steps, products).reshape(-1, *products.shape[1:])
            products = products / products.max(axis=(1, 2), keepdims=True)
        return _Cone(products)


class _Cone:
    """The largest pairwise ratios of A·w over all products A and all weights w within bounds on their own ratios."""

    def __init__(self, products: Floats) -> None:
        c, d = np.broadcast_arrays(products[:, :, None, :], products[:, None, :, :])
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.nan_to_num(c / d, nan=0.0, posinf=np.inf)
        order = np.argsort(-share, axis=-1)  # c/d decides the order of the corners: largest first
        tables = (np.take_along_axis(c, order, axis=-1), np.take_along_axis(d, order, axis=-1), order)
        # [place in the order, product, x, y]: each place is one piece of memory.
        self._c, self._d, self._order = (np.ascontiguousarray(np.moveaxis(table, -1, 0)) for table in tables)

    def image(self, bounds: Floats) -> Floats:
        """Bounds [start, x, y] on the ratios of A·w from bounds on those of w."""
        k = bounds.shape[-1]
        out: Floats = np.empty(bounds.shape)
        for s, bound in enumerate(bounds):
            best = np.full(self._c.shape[1:], np.inf)
            for r in range(k):
                if (bound[:, r] < 600).all():  # exp(600) and its products are doubles; larger boxes bound nothing
                    np.minimum(best, self._largest(np.exp(bound[:, r]), np.exp(-bound[r])), out=best)
            with np.errstate(divide="ignore"):
                out[s] = np.log(best.max(axis=0))
        out[:, np.arange(k), np.arange(k)] = 0.0
        return out

    def _largest(self, high: Floats, low: Floats) -> Floats:
        """The largest quotient of the k+1 corners: weights high up to a place in the order, and low beyond."""
        low = np.minimum(low, high)[self._order]
        top, bottom = (self._c * low).sum(axis=0), (self._d * low).sum(axis=0)
        more = high[self._order] - low
        best = _quotient(top, bottom)
        for place in range(len(more)):
            top += self._c[place] * more[place]
            bottom += self._d[place] * more[place]
            np.maximum(best, _quotient(top, bottom), out=best)
        return best


def _quotient(top: Floats, bottom: Floats) -> Floats:
    """The quotient, 0 for 0/0, and at least the least normal double where positive: it is an upper bound."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        return np.asarray(np.where(top > 0, np.maximum(top / bottom, np.finfo(float).tiny), 0.0))
