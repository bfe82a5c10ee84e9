"""The worst record of a chain and its best quilt: max over records, min over quilts (Song et al. 2017, MQMExact).

Quilts of record i of T: {i−a, i+b} with a+b−1 records inside, {i−a} with T−i+a, {i+b} with i+b−1, and the empty one
with T. Records are searched by branch and bound: for a range of records one quilt gives an upper bound on all of them.
A two-sided quilt with an end outside the series is no better than the one-sided quilt that is left of it, which has
fewer records inside and less influence. So one bound serves a range up to the ends of the series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats, Mask
from pufferdp.bounds.chains.powers import ratios_of
from pufferdp.bounds.chains.starts import NodeRange, Start
from pufferdp.bounds.quilts.search import TOLERANCE, Objective, Quilt, Side, best_quilt
from pufferdp.models.chain import MarkovChain

_MOST_CUTS: Final = 400
"""Ranges of records that are cut; those that are left then count with their bound, which holds for all their records.

It is reached in long series that are short for the mixing time of their chain and have a given start."""


@dataclass(frozen=True)
class WorstRecord(Quilt):
    """The record that decides, and its active quilt."""

    node: int
    """Position of the record, counted from 1."""


def worst_record(chain: MarkovChain, length: int, objective: Objective, adversary: Adversary) -> WorstRecord:
    """Max over records, min over quilts."""
    influences = _ChainInfluences(chain, length, adversary)
    return _worst_of_ranges(influences.first_ranges(), influences.best_quilt, length, objective)


def worst_record_by_distance(left: Side, right: Side, length: int, objective: Objective) -> WorstRecord:
    """Max over records, min over quilts, where the influence depends on the distances alone (MQMApprox)."""

    def best(nodes: NodeRange, objective: Objective, trivial: Quilt) -> Quilt:
        most = (nodes.first - 1 if nodes.single else length, length - nodes.first)
        return best_quilt((left, right), objective, (nodes.last, length - nodes.first + 1), most, trivial)

    return _worst_of_ranges([NodeRange(1, length, 1)], best, length, objective)


def _worst_of_ranges(
    ranges: Sequence[NodeRange],
    best: Callable[[NodeRange, Objective, Quilt], Quilt],
    length: int,
    objective: Objective,
) -> WorstRecord:
    """The worst record: a range is cut while its bound passes the worst record so far, its middle record first."""
    trivial = Quilt(float(objective(length, 0.0)), None, None, length, 0.0)
    worst, bound, cuts, stack = WorstRecord(-np.inf, None, None, 0, 0.0, 0), -np.inf, 0, list(ranges)
    while stack:
        nodes = stack.pop()
        quilt = best(nodes, objective, trivial)
        if quilt.value <= worst.value * (1 + TOLERANCE):
            bound = max(bound, quilt.value)
        elif nodes.single or cuts == _MOST_CUTS:
            worst = WorstRecord(**vars(quilt), node=nodes.first)
        else:
            stack += _parts(nodes)
            cuts += 1
    # Records that were not looked at may pass the worst one by the tolerance: they count with their bound.
    return replace(worst, value=max(worst.value, bound))


def _parts(nodes: NodeRange) -> Iterator[NodeRange]:
    """The records before and after the middle one of a range, geometric where it is wide, and the middle one last."""
    wide = nodes.last > 8 * nodes.first and nodes.first > 1
    middle = int((nodes.first * nodes.last) ** 0.5) if wide else (nodes.first + nodes.last) // 2
    middle = nodes.first + (middle - nodes.first) // nodes.step * nodes.step
    if nodes.first < middle:
        yield NodeRange(nodes.first, middle - nodes.step, nodes.step)
    if middle < nodes.last:
        yield NodeRange(middle + nodes.step, nodes.last, nodes.step)
    yield NodeRange(middle, middle, nodes.step)


class _ChainInfluences:
    """The influence of the records of a chain on the ends of their quilts."""

    def __init__(self, chain: MarkovChain, length: int, adversary: Adversary) -> None:
        self.ratios, self.length = ratios_of(chain), length
        self.start = Start(chain, self.ratios, length)
        self.everyone = adversary is Adversary.BDP
        # The positions of the pairs (x',x) in the order of the pairs (x,x').
        self.turned = np.arange(chain.size**2).reshape(chain.size, -1).T.ravel()

    def first_ranges(self) -> list[NodeRange]:
        """Records before the supports repeat one by one, then one range for each set in their cycle."""
        supports, last = self.start.supports, self.length
        alone = 1 if self.start.same_everywhere else min(last, max(supports.settled, 2))
        cycle = range(alone, min(last, alone + supports.period - 1) + 1)
        rest = [NodeRange(i, i + (last - i) // supports.period * supports.period, supports.period) for i in cycle]
        return [*(NodeRange(i, i, 1) for i in range(1, alone)), *rest]

    def best_quilt(self, nodes: NodeRange, objective: Objective, trivial: Quilt) -> Quilt:
        """The best quilt of one record, or one that bounds every record of a range."""
        reach = self.length if self.start.same_everywhere and not nodes.single else nodes.first - 1
        most = (reach, self.length - nodes.first)
        absent = (nodes.last, self.length - nodes.first + 1)
        quilt = best_quilt((self.left(nodes), self.right(nodes)), objective, absent, most, trivial)
        if quilt is trivial:
            return trivial
        # The rounding of the ratios counts against the quilt.
        slack = sum(self.ratios.powers.slack(n) for n in (quilt.left, quilt.right) if n) * (3 if self.everyone else 2)
        value = float(objective(quilt.nearby, quilt.influence + slack))
        return replace(quilt, value=value, influence=quilt.influence + slack) if value < trivial.value else trivial

    def left(self, nodes: NodeRange) -> Side:
        """Influence on a left end: max over its values of log P^a(z,x)/P^a(z,x'), and the ratio of the marginals.

        An adversary who knows records may know the value of the record beyond the end in place of the marginal.
        """
        supports, same = self.start.supports, self.start.same_everywhere
        valid, tilt, turned = self._valid(nodes), self.start.tilt(nodes), self.turned
        farthest = nodes.first - 1 if nodes.single else max(nodes.last - 1, 1)

        def at(n: int) -> Floats:
            beyond = tilt
            if self.everyone and n < farthest:
                seen = supports.at(1) if same else supports.over(nodes, n + 1)
                beyond = np.maximum(tilt, self.ratios.backward(n + 1, seen)[turned])
            with np.errstate(invalid="ignore"):
                total = self.ratios.backward(n, supports.at(1) if same else supports.over(nodes, n)) + beyond
            return np.where(valid, np.maximum(total, 0.0) if self.everyone else total, -np.inf)

        return lambda distances: np.stack([at(n) for n in distances.tolist()])

    def right(self, nodes: NodeRange) -> Side:
        """Influence on a right end: max over its values of log P^b(x,y)/P^b(x',y)."""
        valid, farthest, turned = self._valid(nodes), self.length - nodes.first, self.turned

        def at(n: int) -> Floats:
            total = self.ratios.forward(n)
            if self.everyone and n < farthest:
                with np.errstate(invalid="ignore"):
                    total = total + np.maximum(self.ratios.forward(n + 1)[turned], 0.0)
            return np.where(valid, np.maximum(total, 0.0) if self.everyone else total, -np.inf)

        return lambda distances: np.stack([at(n) for n in distances.tolist()])

    def _valid(self, nodes: NodeRange) -> Mask:
        support = self.start.supports.at(nodes.first)
        return np.asarray((support[:, None] & support[None, :]).ravel())


@lru_cache(maxsize=32)
def worst_of_chains(
    chains: tuple[MarkovChain, ...], length: int, objective: Objective, adversary: Adversary
) -> WorstRecord:
    """The worst record of the worst chain. Cached: the quilt mechanism and the quilt bound need the same value."""
    return max((worst_record(chain, length, objective, adversary) for chain in chains), key=lambda worst: worst.value)
