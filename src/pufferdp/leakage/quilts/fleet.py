"""The worst record of many two-state chains at once, each with its own length: quilt-exact for a fleet of models.

A chain with two states is reversible, so from its stationary start a quilt's left end at distance n is influenced as
much as a right end there: one table f_n(x,x') = max_y log P^n(x,y)/P^n(x',y) serves both, and for an adversary who may
know the record beyond an end h_n(x,x') = f_n(x,x') + f_{n+1}(x',x). Both fall with n (docs/theory/search.md). Then

- a record's two-sided quilts are bounded by the unrestricted minimum U over both distances, whether or not they fit;
- without a left end the noise R(i) rises along the chain, without a right end it falls, each the mirror of the other;
- so the middle record decides: σ = min(T/ε, U, R(⌊(T+1)/2⌋)).

For one pair (x,x') the two ends of the best quilt are chosen apart from each other and alike, so its U is a minimum
over one distance. Where one pair decides at all distances that is the whole of it (then the bound over pairs meets the
quilt that was found); where the two take turns, as in chains that alternate, all pairs of distances are looked at.

Someone who knows records knows none beyond the ends of the chain, so a quilt that ends there is cheaper than h says.
Chains slow enough for that to matter, starts that are not stationary, and entries too small for products of doubles
are left to the search for one chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.leakage.chains.powers import UNIT
from pufferdp.leakage.quilts.chains import WorstRecord, worst_record
from pufferdp.leakage.quilts.search import Score
from pufferdp.models.chain import MarkovChain

_AT_ONCE: Final = 2**15
_TINY: Final = 1e-140
"""Positive entries below this may underflow when powers are multiplied."""
_CELLS: Final = 2**18
"""Numbers in a table that is looked at whole: 2 MB."""
_WIDEST: Final = 1024
"""Where two pairs of values take turns, chains with wider quilts than this are searched one at a time."""


def worst_of_each(
    chains: Sequence[MarkovChain], lengths: Sequence[int], epsilon: float, adversary: Adversary
) -> list[WorstRecord]:
    """The worst record of each chain and its best quilt, as ``worst_record`` finds it with the score of quilts."""
    everyone = adversary is Adversary.BDP
    quick = [n for n, chain in enumerate(chains) if chain.size == 2 and _is_stationary(chain)]
    worst: list[WorstRecord | None] = [None] * len(chains)
    for s in range(0, len(quick), _AT_ONCE):
        part = quick[s : s + _AT_ONCE]
        tables = np.stack([chains[n].transition for n in part])
        results = _Pass(tables, np.array([lengths[n] for n in part]), epsilon, everyone).results()
        for n, result in zip(part, results, strict=True):
            worst[n] = result
    return [record or _search_alone(chains[n], lengths[n], epsilon, adversary) for n, record in enumerate(worst)]


def _is_stationary(chain: MarkovChain) -> bool:
    return isinstance(chain.start, str) and chain.start == "stationary"


def sigmas(transitions: Floats, lengths: Ints, epsilon: float, adversary: Adversary) -> Floats:
    """σ of many stationary two-state chains, one (2,2) table each."""
    everyone = adversary is Adversary.BDP
    out = np.empty(len(transitions))
    for s in range(0, len(transitions), _AT_ONCE):
        part = slice(s, s + _AT_ONCE)
        run = _Pass(transitions[part], lengths[part], epsilon, everyone)
        out[part] = run.best
        for n in np.flatnonzero(run.open) + s:
            out[n] = _search_alone(MarkovChain(transition=transitions[n]), int(lengths[n]), epsilon, adversary).value
    return out


def _search_alone(chain: MarkovChain, length: int, epsilon: float, adversary: Adversary) -> WorstRecord:
    worst = worst_record(chain, length, Score(epsilon), adversary)
    assert worst is not None
    return worst


@dataclass
class _Best:
    """The best quilt so far of each chain; 0 stands for an end that is not there."""

    value: Floats
    left: Ints
    right: Ints
    influence: Floats

    def improve(self, at: Ints, value: Floats, left: Ints | int, right: Ints | int, influence: Floats) -> None:
        """Take these quilts of the chains ``at`` where they are better."""
        better = value < self.value[at]
        if better.any():
            at, influence = at[better], influence[better]
            self.value[at], self.influence[at] = value[better], influence
            self.left[at] = left if isinstance(left, int) else left[better]
            self.right[at] = right if isinstance(right, int) else right[better]


class _Pass:
    """All distances for a stack of chains, those that no wider quilt can help dropping out."""

    def __init__(self, transitions: Floats, lengths: Ints, epsilon: float, everyone: bool) -> None:
        self._tables = transitions.reshape(-1, 4).T  # entries (0,0), (0,1), (1,0), (1,1), a column a chain
        self._lengths, self._middle = lengths, (lengths + 1) // 2
        self._score, self._everyone = Score(epsilon), everyone
        count, none = len(transitions), np.zeros(len(transitions), dtype=np.int64)
        self._quilts = _Best(self._score(lengths, 0.0), none, none.copy(), np.zeros(count))
        leaves = self._tables[1:3] > 0
        # A state that is never left is the only value there is, and then nothing can be told apart.
        constant = leaves[0] ^ leaves[1]
        self.open: Mask = ((self._tables > 0) & (self._tables < _TINY)).any(axis=0) & ~constant
        self._constant(np.flatnonzero(constant))
        at = np.flatnonzero(~constant & ~self.open)
        alone = self._equal_distances(at)
        self._unequal_distances(at[alone[at].max(axis=1, initial=-np.inf) < self.best[at]])
        if everyone:
            self._near_the_ends(at)

    @property
    def best(self) -> Floats:
        """σ of each chain that is not ``open``."""
        return self._quilts.value

    def results(self) -> list[WorstRecord | None]:
        """The worst record of each chain; None where it must be searched alone."""
        left, right = self._quilts.left, self._quilts.right
        inside = np.where(right > 0, right - 1 + np.where(left > 0, left, self._middle), self._lengths)
        columns = (self.best, self._middle, left, right, inside, self._quilts.influence, self.open)
        return [
            None if skip else WorstRecord(value, node, a or None, b or None, nearby, influence)
            for value, node, a, b, nearby, influence, skip in zip(*(c.tolist() for c in columns), strict=True)
        ]

    def _constant(self, at: Ints) -> None:
        """One value: the nearest ends will do, at no cost but the rounding that is counted."""
        for left, right in ((0, 1), (1, 1)):
            fits = at[self._lengths[at] > left + right]
            slack = np.full(len(fits), (left + right) * self._slack(1))
            inside = left if left else self._middle[fits]
            self._quilts.improve(fits, self._score(inside, slack), left, right, slack)

    def _equal_distances(self, at: Ints) -> Floats:
        """Quilts with one end, or both equally far; returns U for each pair of values alone, which is never above U."""
        alone = np.full((len(self.best), 2), np.inf)
        distances = _Distances(self._tables[:, at], self._everyone)
        while len(at):
            n, influence = distances.number, distances.influence() + self._slack(distances.number)
            most = influence.max(axis=0)
            for pair in (0, 1):
                alone[at, pair] = np.minimum(alone[at, pair], self._score(2 * n - 1, 2 * influence[pair]))
            self._quilts.improve(at, self._score(self._middle[at] + n - 1, most), 0, n, most)
            self._quilts.improve(at, self._score(2 * n - 1, 2 * most), n, n, 2 * most)
            least = np.minimum(2 * n + 1, self._middle[at] + n)
            keep = self._score(least, 0.0) < self.best[at]
            at = at[keep]
            distances.step(keep)
        return alone

    def _unequal_distances(self, at: Ints) -> None:
        """Quilts whose ends are not equally far, where neither pair of values decides alone."""
        widest = np.ceil(self._score.most_nearby(1.0) * self.best[at]).astype(np.int64)
        self.open[at[widest > _WIDEST]] = True
        low = 0
        for high in (16, 64, 256, _WIDEST):
            bucket, low = at[(low < widest) & (widest <= high)], high
            step = max(1, _CELLS // high)
            for some in (bucket[s : s + step] for s in range(0, len(bucket), step)):
                distances, rows = _Distances(self._tables[:, some], self._everyone), []
                for n in range(1, high + 1):
                    rows.append(distances.influence() + self._slack(n))
                    distances.step(None)
                self._in_windows(some, np.stack(rows, axis=2))

    def _in_windows(self, at: Ints, table: Floats) -> None:
        """The best quilt of each chain from a table (pair, chain, distance).

        A quilt below the best value needs nearby/value + influence below ε for each pair alone, whatever its other
        end: that leaves a window of distances, and all pairs of distances in it are looked at.
        """
        numbers, price = np.arange(1, table.shape[2] + 1), 1.0 / self.best[at]
        line = table + numbers * price[:, None]
        room = (self._score.epsilon + price)[:, None] - line.min(axis=2)[..., None]
        useful = (line < room + 1e-12).all(axis=0)  # 1e-12: more than rounding can hide
        first = useful.argmax(axis=1)
        width = np.where(useful.any(axis=1), len(numbers) - useful[:, ::-1].argmax(axis=1) - first, 0)
        low = 0
        for high in (4, 16, 64, 256, _WIDEST):
            some, low = np.flatnonzero((low < width) & (width <= high)), high
            step = max(1, _CELLS // high**2)
            for row in (some[s : s + step] for s in range(0, len(some), step)):
                places = np.minimum(first[row, None] + np.arange(high), len(numbers) - 1)
                sides = table[:, row[:, None], places]
                influence = (sides[:, :, :, None] + sides[:, :, None, :]).max(axis=0).reshape(len(row), -1)
                nearby = (numbers[places][:, :, None] + numbers[places][:, None, :] - 1).reshape(len(row), -1)
                values = self._score(nearby, influence)
                which, each = values.argmin(axis=1), np.arange(len(row))
                ends = numbers[places[each, which // high]], numbers[places[each, which % high]]
                left, right = np.maximum(*ends), np.minimum(*ends)
                self._quilts.improve(at[row], values[each, which], left, right, influence[each, which])

    def _near_the_ends(self, at: Ints) -> None:
        """Leave alone those for which a quilt that ends with the chain, beyond which nothing is known, may be better.

        At the middle record such a quilt has at least that end's distance inside and at least its influence f.
        """
        slow = at[self._score(self._middle[at] - 1, 0.0) < self.best[at]]
        for ends in (self._middle - 1, self._lengths - self._middle):
            for n in np.unique(ends[slow]).tolist():
                these = slow[ends[slow] == n]
                if n > 0:
                    power = np.linalg.matrix_power(self._tables[:, these].T.reshape(-1, 2, 2), n)
                    influence = _ratios(power.reshape(-1, 4).T).max(axis=0) - self._slack(n)
                    self.open[these[self._score(n, influence) < self.best[these]]] = True

    def _slack(self, n: int) -> float:
        """The rounding of the ratios at a distance, counted against the quilt as the search for one chain does."""
        return (3 if self._everyone else 2) * (2.0 * (n + 1) * 4 * UNIT + 4 * UNIT)


class _Distances:
    """The powers of a stack of chains, one after the other, and the influence at that distance for both pairs."""

    def __init__(self, tables: Floats, everyone: bool) -> None:
        self.number, self._everyone = 1, everyone
        self._once, self._power = tables, tables
        self._ratios = _ratios(tables)
        self._next: tuple[Floats, Floats] | None = None

    def influence(self) -> Floats:
        """f_n, or h_n for those who may know the record beyond; a row a pair."""
        if not self._everyone:
            return self._ratios
        return np.asarray(self._ratios + self._further()[1][::-1])

    def step(self, keep: Mask | None) -> None:
        """On to the next distance, with the chains that are kept."""
        power, ratios = self._further()
        if keep is not None and not keep.all():
            power, ratios, self._once = power[:, keep], ratios[:, keep], self._once[:, keep]
        self._power, self._ratios, self._next = power, ratios, None
        self.number += 1

    def _further(self) -> tuple[Floats, Floats]:
        if self._next is None:
            (a, b, c, d), (p, q, r, s) = self._power, self._once
            power = np.stack([a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s])
            self._next = power, _ratios(power)
        return self._next


def _ratios(power: Floats) -> Floats:
    """f(0,1) and f(1,0): the largest log-ratio of the rows of P^n, both ways round. No column of it is 0."""
    with np.errstate(divide="ignore"):
        logs = np.log(power[:2] / power[2:])
    # Rows are laws, so the largest ratio is 1 or more but for rounding.
    return np.asarray(np.maximum(np.stack([logs.max(axis=0), -logs.min(axis=0)]), 0.0))
