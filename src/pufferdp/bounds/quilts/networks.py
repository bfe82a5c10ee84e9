"""The worst record of a network and its best Markov quilt (Song et al. 2017), for an adversary who knows no record.

A quilt is a set N of records around the protected record, and its boundary Q in the MORAL graph: Q then separates N
from all other records (deleting arcs of the directed graph is not enough, because a common child links its parents).
For a given N the boundary is the best Q. The influence on Q falls as N grows, since records beyond Q depend on the
protected record through Q only. Sets N within a distance of the record are tried first: they are near the best in
large networks. Then all connected sets follow, the lightest first, until even a quilt without influence
would cost more than the best. Every quilt bounds the leakage, so a search that ends early gives more noise, never too
little.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.chains.powers import largest_ratios
from pufferdp.bounds.quilts.search import Objective
from pufferdp.models.inference import JunctionTree, connected

MOST_STATES: Final = 10**6
"""Quilts with more joint states are skipped."""
_MOST_WORK: Final = 10**9
"""Probabilities computed for all records together, some ten seconds; at most 1/25 of them for one record."""
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
    """Max over records, min over quilts. Cached: the quilt mechanism and the quilt bound need the same value."""
    worst, share = None, _MOST_WORK // max(25, len(tree.sizes))
    for component in connected(tree.links):
        for record in component:
            search = _QuiltSearch(tree, weights, objective, record, component)
            quilt = search.run(worst.value if worst else -math.inf, share)
            worst = quilt if worst is None or quilt.value > worst.value else worst
    assert worst is not None
    return worst


class _QuiltSearch:
    """The search for the best quilt of one record among the records of its connected component."""

    def __init__(
        self,
        tree: JunctionTree,
        weights: Sequence[float],
        objective: Objective,
        record: int,
        component: tuple[int, ...],
    ) -> None:
        self.tree, self.weights, self.objective = tree, weights, objective
        self.record, self.component = record, component
        everything = _weight(weights, component)
        self.best = NetworkQuilt(float(objective(everything, 0.0)), tree.names[record], (), everything, 0.0, 0)
        self.skipped, self._tried = 0, set[frozenset[int]]()

    def run(self, floor: float, most_work: int) -> NetworkQuilt:
        """The best quilt, or the first one whose cost is at most ``floor``: another record then decides."""
        begin = self.tree.work
        for tries, inside in enumerate(itertools.chain(self._by_distance(), self._grown())):
            # A try costs as much as some hundred probabilities, besides those that it computes.
            if self.best.value <= floor or self.tree.work - begin + 500 * tries > most_work:
                break
            self._try(inside)
        return replace(self.best, skipped=self.skipped)

    def _try(self, inside: frozenset[int]) -> None:
        nearby = _weight(self.weights, inside)
        if inside in self._tried or float(self.objective(nearby, 0.0)) >= self.best.value:
            return
        self._tried.add(inside)
        ends = sorted(self._boundary(inside))
        try:
            if math.prod(self.tree.sizes[v] for v in ends) > MOST_STATES:
                raise NotApplicableError("the quilt has too many joint states")
            influence = network_influence(self.tree, self.record, ends)
        except NotApplicableError:  # the quilt, or a table on the way to its distribution, is too large
            self.skipped += 1
            return
        value = float(self.objective(nearby, influence))
        if value < self.best.value:
            names = tuple(self.tree.names[v] for v in ends)
            self.best = NetworkQuilt(value, self.best.node, names, nearby, influence, 0)

    def _boundary(self, inside: Collection[int]) -> frozenset[int]:
        return frozenset(w for v in inside for w in self.tree.links[v]) - frozenset(inside)

    def _by_distance(self) -> Iterator[frozenset[int]]:
        """All records within a distance."""
        ball, ring = {self.record}, set(self.tree.links[self.record])
        while ring:
            yield frozenset(ball)
            ball |= ring
            ring = {w for v in ring for w in self.tree.links[v]} - ball

    def _grown(self) -> Iterator[frozenset[int]]:
        """Connected sets around the record, the lightest first."""
        heap: list[tuple[float, int, tuple[int, ...]]] = [(self.weights[self.record], 1, (self.record,))]
        known = {frozenset((self.record,))}
        while heap and float(self.objective(heap[0][0], 0.0)) < self.best.value:
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
