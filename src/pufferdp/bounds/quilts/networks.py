"""The worst record of a network and its best quilt, for an adversary who knows no record.

A quilt is a set N of records around the one that is protected, and its boundary Q in the MORAL graph: Q then separates
N from all the rest (deleting arcs of the drawn graph is not enough, because a common child links its parents). For a
given N the boundary is the best Q. Influence falls as N grows: what lies behind Q depends on the record through Q only.
So sets N are grown from the record itself, the lightest first, until even a quilt without influence could not help;
before that come the boundaries by distance, and parts of them, which are the ones that help in large networks.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.chains.powers import largest_ratios
from pufferdp.bounds.quilts.search import Objective
from pufferdp.models.inference import JunctionTree, connected

MOST_STATES: Final = 10**6
"""Quilts with more joint states are left out; the quilt without ends keeps the answer sound."""
_MOST_WORK: Final = 4 * 10**7
"""So many probabilities are computed for one record; then its best quilt so far is taken. Sound, perhaps loose."""
_MOST_IN_ALL: Final = 10**9
"""So many are computed for all records together, some ten seconds."""
_FIRST: Final = 500_000
"""What a record may spend at first."""
_QUESTION: Final = 20_000
"""What a question about a quilt costs besides, in probabilities."""
_LOOK: Final = 500
"""What it costs to see that a question need not be asked, in probabilities."""
_ROUNDING: Final = 1e-12
"""More than rounding can take from an influence: sums and products of positive numbers, a few thousand at most."""


@dataclass(frozen=True)
class NetworkQuilt:
    """The record that decides, and its active quilt."""

    value: float
    """The objective at the active quilt: the noise multiplier σ for a score."""
    node: str
    """Name of the record that decides."""
    ends: tuple[str, ...]
    """The records of the quilt."""
    nearby: float
    """Records inside the quilt, each weighed by how far it can move the answer."""
    influence: float
    """Influence of the record on the ends."""
    skipped: int
    """Quilts of this record that were left out: over a million joint states, or tables too large on the way."""


@lru_cache(maxsize=8)
def worst_network_record(tree: JunctionTree, weights: tuple[float, ...], objective: Objective) -> NetworkQuilt:
    """Max over records, min over quilts. Kept: the quilt mechanism and the quilt curve ask for the same.

    Every record starts with the quilt without ends. The record that needs most is searched further, a little at a
    time, until the one that needs most has been searched as far as it will be: the others need no more than that.
    """
    searches = [
        _Search(tree, weights, objective, i, component) for component in connected(tree.links) for i in component
    ]
    ranked = [(-search.best[0], search.record, search) for search in searches]
    heapq.heapify(ranked)
    begun = tree.work
    while True:
        _, record, search = ranked[0]
        if search.done:
            return search.result()
        search.further(0 if tree.work - begun > _MOST_IN_ALL else max(_FIRST, 3 * search.work))
        heapq.heapreplace(ranked, (-search.best[0], record, search))


class _Search:
    """The search for the best quilt of one record, which can be halted and resumed."""

    def __init__(
        self, tree: JunctionTree, weights: Sequence[float], objective: Objective, record: int, home: tuple[int, ...]
    ) -> None:
        self.tree, self.weights, self.objective, self.record, self.home = tree, weights, objective, record, home
        value = objective.scalar(_weight(weights, home), 0.0)
        self.best = (value, frozenset[int](), _weight(weights, home), 0.0)
        self.skipped, self.work, self.done = 0, 0, False
        self._seen: set[frozenset[int]] = set()
        self._sets = itertools.chain(self._by_distance(), self._grown())

    def further(self, work: int) -> None:
        """Try quilts until so much more work is done, or until there are no more, or enough."""
        upto = min(self.work + work, _MOST_WORK)
        while self.work < upto:
            inside = next(self._sets, None)
            if inside is None:
                break
            self._try(inside)
            self.work += _LOOK
        else:
            self.done = upto == _MOST_WORK or work == 0
            return
        self.done = True

    def result(self) -> NetworkQuilt:
        """The best quilt so far."""
        value, ends, nearby, influence = self.best
        names = self.tree.names
        return NetworkQuilt(
            value, names[self.record], tuple(names[v] for v in sorted(ends)), nearby, influence, self.skipped
        )

    def _try(self, inside: frozenset[int]) -> None:
        nearby = _weight(self.weights, inside)
        ends = self._boundary(inside)
        if inside in self._seen or self.objective.scalar(nearby, 0.0) >= self.best[0]:
            return
        self._seen.add(inside)
        states = math.prod(self.tree.sizes[v] for v in ends)
        if states > MOST_STATES:
            self.skipped += 1
            return
        before = self.tree.work
        try:
            influence = network_influence(self.tree, self.record, sorted(ends))
        except NotApplicableError:  # the tables on the way are larger than the quilt
            self.skipped += 1
            return
        finally:
            self.work += self.tree.work - before + _QUESTION
        value = self.objective.scalar(nearby, influence)
        if value < self.best[0]:
            self.best = (value, ends, nearby, influence)

    def _boundary(self, inside: Collection[int]) -> frozenset[int]:
        return frozenset(w for v in inside for w in self.tree.links[v]) - frozenset(inside)

    def _by_distance(self) -> Iterator[frozenset[int]]:
        """All within a distance; and all but some of the pieces that a ring at that distance cuts off."""
        ball, ring = {self.record}, set(self.tree.links[self.record])
        everything = set(self.home)
        while ring:
            yield frozenset(ball)
            outside = connected(self.tree.links, everything - ball - ring)
            pieces = sorted(outside, key=lambda c: -_weight(self.weights, c))
            cut: set[int] = set()
            for piece in pieces[:20]:
                for far in (set(piece), cut | set(piece)):
                    yield self._without(far)
                cut |= set(piece)
            ball |= ring
            ring = {w for v in ring for w in self.tree.links[v]} - ball

    def _without(self, far: set[int]) -> frozenset[int]:
        """The set around the record that is left when everything in ``far`` is to be fenced off."""
        fence = {w for v in far for w in self.tree.links[v]} - far
        return frozenset(self._reached(set(self.home) - far - fence))

    def _reached(self, among: set[int]) -> set[int]:
        records, stack = {self.record}, [self.record]
        while stack:
            for w in self.tree.links[stack.pop()]:
                if w in among and w not in records:
                    records.add(w)
                    stack.append(w)
        return records

    def _grown(self) -> Iterator[frozenset[int]]:
        """Connected sets around the record, the lightest first."""
        heap: list[tuple[float, int, tuple[int, ...]]] = [(self.weights[self.record], 1, (self.record,))]
        known = {frozenset((self.record,))}
        while True:
            if not heap or self.objective.scalar(heap[0][0], 0.0) >= self.best[0]:
                return
            _, _, members = heapq.heappop(heap)
            inside = frozenset(members)
            yield inside
            for w in self._boundary(inside):
                wider = inside | {w}
                if wider not in known:
                    known.add(wider)
                    heapq.heappush(heap, (_weight(self.weights, wider), len(wider), tuple(sorted(wider))))


def network_influence(tree: JunctionTree, record: int, ends: Sequence[int]) -> float:
    """The largest log-ratio of P(ends | record = a) to P(ends | record = b); only possible values count."""
    if not ends:
        return 0.0
    table = tree.joint((record, *ends)).reshape(tree.sizes[record], -1)
    table = table[table.sum(axis=1) > 0]
    with np.errstate(divide="ignore"):
        logs = np.log(table) - np.log(table.sum(axis=1, keepdims=True))
    worst = float(largest_ratios(logs.T).max())
    return worst + _ROUNDING if math.isfinite(worst) else math.inf


def _weight(weights: Sequence[float], records: Collection[int]) -> float:
    return math.fsum(weights[v] for v in records)
