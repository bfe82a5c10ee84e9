"""How much a series leaks whose records pass a channel one by one: any number of states, as a certified bracket.

As for two states (``flips``) the log-likelihood ratio of an output between X_i = x and X_i = y is a sum: the output
of the record itself, and for each side the ratio w(x)/w(y) of a vector of weights. Every passed record moves it by w
← T·diag(B[:,z])·w, T = P after the target and P' before it. A known record is another start of the vector, and what
its value says by itself is divided out. For more than two states the vectors that outputs can lead to have no largest
element, so:

* The lower end is the ratio of an output that was found, by a search that keeps the best few for each pair of values.
* The upper end is proved. D bounds the pairwise ratios: w(x)/w(y) ≤ exp D(x,y) for every vector that some output
  leads to. Scaled so that w(r) = 1, such a vector lies in the box exp(−D(r,y)) ≤ w(y) ≤ exp D(y,r). After the next
  records its ratio is (c·w)/(d·w), rows of a product of matrices. The largest value of a quotient of linear functions
  over a box is attained where the coordinates with the largest c/d are at their upper ends and all others at their
  lower ends: one of k+1 corners, all of which are looked at. Each reference r gives a bound; the smallest counts, and
  the largest over all outputs is the new D. Taking several records in one product (all outputs of them) makes it as
  tight as wanted.
* Distances without end: if one step does not raise C, C bounds every vector inside it for ever.

Every quantity is computed in doubles, with a relative error of about 1e-13; ``SLACK`` is added to the upper end for
it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats, Matrix
from pufferdp.basics.errors import ModelError, NotApplicableError
from pufferdp.models.chain import MarkovChain

SLACK: Final = 1e-9
"""Added to upper ends: far more than rounding can amount to."""
_PRODUCTS: Final = 90
"""How many products of matrices a step may look at."""
_MOST: Final = 400
"""Distances looked at; further ones are bounded together."""
_KEPT: Final = 6
"""Outputs kept for each pair of values by the search for the lower end."""
_LARGE: Final = 600.0
_TINY: Final = 2.0**-1022


@dataclass(frozen=True)
class Bracket:
    """The loss lies between these."""

    lower: float
    """Reached by an output that was found."""
    upper: float
    """Proved for every output and every adversary of the kind."""


def channel_loss(
    chain: MarkovChain, channel: Matrix, length: int | None, adversary: Adversary, *, products: int = _PRODUCTS
) -> Bracket:
    """A bracket of the loss of a series of this length, or of an endless one (its lower end is that of a long one)."""
    chain, table = _possible(chain, np.asarray(channel, dtype=float))
    k = chain.size
    if k == 1:
        return Bracket(0.0, 0.0)
    own = _own(table)
    if not np.isfinite(own).all():
        return Bracket(math.inf, math.inf)
    if adversary is Adversary.DP:
        return Bracket(float(own.max()), float(own.max()))
    if (length is None or length > _MOST) and not chain.primitive:
        # Where states keep returning in turn, outputs say which turn it is, ever more surely.
        return Bracket(float(own.max()), math.inf)
    everyone = adversary is Adversary.BDP
    moves, given = np.asarray(chain.transition), chain.given_start
    law = np.asarray(chain.stationary if given is None else given)
    records = None if length is None else length - 1
    after = _side(moves, np.ones(k), moves, everyone, table, records, products)
    before = _side(moves.T, law, moves.T, everyone, table, records, products, moving=given is not None)
    if length is None or length > _MOST:
        # The loss never falls with the length: a series of _MOST records is a lower end, an endless one an upper.
        m = min(len(before.lower), len(after.lower)) - 1
        lower = own + before.lower[m] + after.lower[m]
        upper = own + before.ever + after.ever
    else:
        each = range(length)
        lower = own + np.max([before.lower[i] + after.lower[length - 1 - i] for i in each], axis=0)
        upper = own + np.max([before.upper[i] + after.upper[length - 1 - i] for i in each], axis=0)
    off = ~np.eye(k, dtype=bool)
    return Bracket(max(0.0, float(lower[off].max())), max(0.0, float(upper[off].max())) + SLACK)


def randomised_response(k: int, rho: float) -> Matrix:
    """Keep a record with probability 1−ρ, otherwise any other state, all alike."""
    return np.where(np.eye(k, dtype=bool), 1 - rho, rho / (k - 1))


def _possible(chain: MarkovChain, table: Floats) -> tuple[MarkovChain, Floats]:
    """The chain on the states that occur, and the outputs that they can lead to."""
    if chain.any_start:
        raise NotApplicableError(
            "start is any, and with more than two states no bound is proved that holds for every start; "
            'use start "stationary", give the law of the first record, or join states until there are two'
        )
    if len(chain.closed_classes) > 1:
        raise NotApplicableError(
            f"the chain falls into {len(chain.closed_classes)} parts that never meet, and outputs tell them apart "
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


def _own(table: Floats) -> Floats:
    """What the output of the record itself says: the largest log B(x,z)/B(y,z)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(table)
        ratios = logs[:, None, :] - logs[None, :, :]
    return np.asarray(np.nanmax(np.where((table[:, None, :] > 0), ratios, -np.inf), axis=2))


@dataclass
class _ChannelSide:
    """Pairwise log-ratios by the number of records on a side; ``ever`` bounds them for any number."""

    lower: list[Floats]
    upper: list[Floats]
    ever: Floats


def _side(
    moves: Floats,
    nothing: Floats,
    known: Floats,
    everyone: bool,
    table: Floats,
    records: int | None,
    products: int,
    moving: bool = False,
) -> _ChannelSide:
    """What one side adds: no record known, or (for everyone) the nearest known one at any distance with any value.

    Columns of ``known`` are the starts after one step from a known value. ``moving``: the law of a record whose side is
    hidden depends on how many records that is. Where a given start rules out values, some
    known ones cannot be: the upper end allows for them, and the lower end does without known records.
    """
    k = len(moves)
    steps = moves[None] * table.T[:, None, :]  # one matrix an output: T·diag(B[:,z])
    deep = max(1, int(math.log(products) / math.log(max(2, len(steps)))))
    block = _products(steps, deep)
    starts = np.concatenate([nothing[None], known.T]) if everyone else nothing[None]
    # A law that moves says other things at other distances. Known values bound them all, if they are not starts anyway.
    fading = known.T if moving and not everyone else np.empty((0, k))
    sure = bool((nothing > 0).all())
    bases, upper = starts.copy(), _Upper(starts, steps, block, deep)
    searches = [_Search(start, k) for start in starts]
    side = _ChannelSide([], [], np.full((k, k), np.inf))
    met_low, met_high = np.full((k, k), -np.inf), np.full((k, k), -np.inf)
    ever = np.full((k, k), -np.inf)
    most = _MOST if records is None else min(records, _MOST)
    for m in range(most + 1):
        # A value that a start rules out is no secret there.
        alive = (bases[:, :, None] > 0) & (bases[:, None, :] > 0)
        prior = np.where(alive, _ratios(bases), 0.0)
        low = np.where(alive, np.array([s.best for s in searches]) - prior, -np.inf)
        high = np.where(alive, upper.now - prior, -np.inf)
        side.lower.append(np.maximum(low[0], met_low))
        side.upper.append(np.maximum(high[0], met_high))
        ever = np.maximum(ever, side.upper[-1])
        if everyone:  # with m hidden records between, the known one needs one record more
            met_high = np.maximum(met_high, high[1:].max(axis=0))
            met_low = np.maximum(met_low, low[1:].max(axis=0)) if sure else met_low
        if (records is None or records > _MOST) and (m % 4 == 3 or m == most):
            tail = upper.tail(np.concatenate([prior, _ratios(fading)]), bool(alive.all() and (fading > 0).all()))
            if m == most or (tail <= np.maximum(ever, met_high) + SLACK).all():
                side.ever = np.maximum(np.maximum(ever, met_high), tail)
                break
        bases, fading = bases @ moves.T, fading @ moves.T
        upper.step()
        for s in searches:
            s.step(steps)
    return side


class _Upper:
    """Proved bounds on the pairwise ratios, several records a product where there are as many."""

    def __init__(self, starts: Floats, steps: Floats, block: Floats, deep: int) -> None:
        self._exact, self._steps, self._deep = starts[:, None, :], steps, deep
        self._block = block
        self._past: list[Floats] = [_ratios(starts)]

    @cached_property
    def _cone(self) -> _Cone:
        return _Cone(self._block)

    @property
    def now(self) -> Floats:
        """A table of bounds for each start."""
        return self._past[-1]

    def step(self) -> None:
        """One more record: from the table that is a whole product ago; exactly while there are few outputs."""
        if len(self._past) <= self._deep:
            # Every output of the records passed so far, one by one.
            self._exact = np.einsum("zxy,sny->snzx", self._steps, self._exact).reshape(
                len(self._exact), -1, self._exact.shape[-1]
            )
            self._exact /= self._exact.max(axis=-1, keepdims=True)
            self._past.append(_ratios(self._exact).max(axis=1))
        else:
            self._past.append(self._cone.within(self._past[-self._deep]))

    def tail(self, prior: Floats, alive: bool) -> Floats:
        """A bound for this and every larger distance; infinite where none is found.

        ``said``: what each start says by itself, and what each known value does.
        """
        recent = np.max([table.max(axis=0) for table in self._past[-self._deep :]], axis=0)
        nothing: Floats = np.full(recent.shape, np.inf)
        if len(self._past) <= self._deep or not alive:
            return nothing
        bound = recent
        for _ in range(4):
            # C ⊇ step(C): inside for ever. A step shrinks what is added to C, so a little more is soon enough.
            wider = np.maximum(bound, self._cone.within(bound[None])[0])
            if (wider <= bound).all():
                # What a known value says by itself only fades: mediants of the ratios before. So does what a start
                # says: a mediant of those.
                return np.asarray(bound + np.max(-prior, axis=0))
            bound = wider + 0.3 * SLACK
        return nothing


class _Search:
    """Weights after outputs that speak strongly for one value against another."""

    def __init__(self, start: Floats, k: int) -> None:
        self._kept, self._k = start[None], k

    @property
    def best(self) -> Floats:
        """The largest log-ratio found for each pair."""
        return np.asarray(_ratios(self._kept).max(axis=0))

    def step(self, steps: Floats) -> None:
        """One more record: all its outputs, and the best few for each pair are kept."""
        tried = np.einsum("zxy,ny->nzx", steps, self._kept).reshape(-1, self._k)
        tried /= tried.max(axis=1, keepdims=True)
        ratios = _ratios(tried).reshape(len(tried), -1)
        if len(tried) > _KEPT:
            rank = np.argpartition(-ratios, _KEPT - 1, axis=0)[:_KEPT]
            tried = tried[np.unique(rank)]
        self._kept = tried


def _ratios(vectors: Floats) -> Floats:
    """Log w(x)/w(y) along the last axis; 0/0 counts as -inf."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(vectors)
        ratios = logs[..., :, None] - logs[..., None, :]
    return np.asarray(np.where(np.isnan(ratios), -np.inf, ratios))


def _products(steps: Floats, deep: int) -> Floats:
    """All products of ``deep`` matrices, each scaled to a largest entry of 1."""
    out = steps
    for _ in range(deep - 1):
        out = np.einsum("axy,byz->abxz", steps, out).reshape(-1, *steps.shape[1:])
        out = out / out.max(axis=(1, 2), keepdims=True)
    return np.asarray(out)


class _Cone:
    """The largest pairwise ratios of A·w over all products A and all weights w within bounds on their own ratios."""

    def __init__(self, products: Floats) -> None:
        n, k, _ = products.shape
        c, d = products[:, :, None, :], products[:, None, :, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.nan_to_num(np.broadcast_to(c, (n, k, k, k)) / d, nan=0.0, posinf=np.inf)
        # c/d for every pair of rows decides the order of the corners: largest first.
        order = np.argsort(-share, axis=-1)
        self._c, self._d, self._order = (  # (place, product, row, row): each place is one piece of memory
            np.ascontiguousarray(np.moveaxis(table, -1, 0))
            for table in (
                np.take_along_axis(np.broadcast_to(c, order.shape), order, axis=-1),
                np.take_along_axis(np.broadcast_to(d, order.shape), order, axis=-1),
                order,
            )
        )

    def within(self, bounds: Floats) -> Floats:
        """One table a start."""
        k = bounds.shape[-1]
        out: Floats = np.empty(bounds.shape)
        for s, bound in enumerate(bounds):
            best = np.full(self._c.shape[1:], np.inf)
            for r in range(k):
                # A box that is open to infinity bounds nothing; a weight that is 0 has both ends at 0.
                if (bound[:, r] < _LARGE).all():
                    np.minimum(best, self._largest(np.exp(bound[:, r]), np.exp(-bound[r])), out=best)
            with np.errstate(divide="ignore"):
                out[s] = np.log(best.max(axis=0))
        index = np.arange(k)
        out[:, index, index] = 0.0
        return out

    def _largest(self, high: Floats, low: Floats) -> Floats:
        """The largest quotient of the k+1 corners: the first so many weights high, the rest low."""
        low = np.minimum(low, high)[self._order]
        top, bottom = (self._c * low).sum(axis=0), (self._d * low).sum(axis=0)
        more = high[self._order] - low
        best = _quotient(top, bottom)
        for place in range(len(more)):  # sums of what is positive: nothing is lost to rounding
            top += self._c[place] * more[place]
            bottom += self._d[place] * more[place]
            np.maximum(best, _quotient(top, bottom), out=best)
        return best


def _quotient(top: Floats, bottom: Floats) -> Floats:
    """Nothing over nothing counts as nothing; what is above 0 stays so, however small: it is a bound."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        return np.asarray(np.where(top > 0, np.maximum(top / bottom, _TINY), 0.0))
