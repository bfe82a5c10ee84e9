"""The least of an objective over quilts, exactly, without looking at every quilt.

A quilt around a record leaves ``nearby`` records inside and pays the ``influence`` of the record on its ends. The
mechanism minimises nearby/(ε − influence), the curve nearby·τ + influence: both rise with both. Influence falls as an
end moves away, so a whole rectangle of quilts [a0,a1]×[b0,b1] is at least objective(nearby(a0,b0), influence(a1,b1)),
and branch and bound over rectangles finds the very minimum that a loop over all quilts finds.

The influence is a maximum over pairs of values, and few of them decide. So only the coarse cuts look at all pairs; then
the pairs that were seen to decide are solved alone (fewer pairs, less influence: a lower bound), the answer is checked
against all pairs, and a pair that breaks it joins, until none does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.leakage.chains.powers import Ratios, turned_pairs

_FEW: Final = 40
"""Cells are cut with all pairs of values in view up to this many; then the deciding pairs take over."""
_DENSE: Final = 200_000
"""Boxes of up to so many quilts are looked at whole when few pairs count."""
_MOST_CELLS: Final = 1 << 18
"""More cells than this are cut no further. It takes a chain that hardly forgets, in a series without end. The best
quilt so far is one of those that are looked for, so its value is a bound all the same."""
_LINE: Final = 2**18
"""One pair is followed over at most so many distances at once; wider boxes are cut further first."""
SHORT_LINE: Final = 2**16
"""The same where the influence is a formula of the distance, so that cutting further costs little."""


class Objective(Protocol):
    """What is minimised over quilts; rises with both arguments. Its hash lets a search be kept."""

    def __hash__(self) -> int: ...

    def __call__(self, nearby: npt.ArrayLike, influence: npt.ArrayLike) -> Floats:
        """The value of quilts with so many records inside and so much influence on their ends."""

    def scalar(self, nearby: float, influence: float) -> float:
        """The value of a single quilt, without the cost of arrays."""

    def most_nearby(self, value: float) -> float:
        """The largest ``nearby`` with which a quilt of no influence at all stays below ``value``."""

    def price(self, value: float) -> float:
        """τ such that a quilt is below ``value`` exactly when nearby·τ + influence is below a constant."""


@dataclass(frozen=True)
class Score:
    """The score of the Markov Quilt Mechanism (Song et al. 2017, Algorithm 2): nearby/(ε − influence)."""

    epsilon: float

    def __call__(self, nearby: npt.ArrayLike, influence: npt.ArrayLike) -> Floats:
        """The noise this quilt needs, infinite where the influence is ε or more."""
        room = self.epsilon - np.asarray(influence, dtype=float)
        # 1e-290 only keeps the division quiet where the result is infinite anyway.
        return np.asarray(np.where(room > 0, np.asarray(nearby, dtype=float) / np.maximum(room, 1e-290), np.inf))

    def scalar(self, nearby: float, influence: float) -> float:
        """The noise that a single quilt needs, without the cost of arrays."""
        return nearby / (self.epsilon - influence) if influence < self.epsilon else np.inf

    def most_nearby(self, value: float) -> float:
        """Without influence the score is nearby/ε."""
        return value * self.epsilon

    def price(self, value: float) -> float:
        """nearby/(ε − influence) < value  ⇔  nearby/value + influence < ε."""
        return 1.0 / value


class QuiltSide(Protocol):
    """The influence on one end of a quilt, for every pair of values, by distance; falls with the distance."""

    def at(self, distances: Ints, pairs: Ints | None) -> Floats:
        """One row a distance, one column a pair; all pairs when ``pairs`` is None."""

    def peaks(self, distances: Ints) -> Floats:
        """The largest influence over all pairs at each distance."""

    def along(self, low: int, high: int, pair: int) -> Floats:
        """The influence for one pair at the distances low..high."""


@dataclass(frozen=True)
class _Table:
    """A side for a few pairs at all distances from ``low``."""

    low: int
    values: Floats

    def at(self, distances: Ints, pairs: Ints | None) -> Floats:
        rows = self.values[distances - self.low]
        return rows if pairs is None else rows[:, pairs]

    def peaks(self, distances: Ints) -> Floats:
        return np.asarray(self.at(distances, None).max(axis=1))

    def along(self, low: int, high: int, pair: int) -> Floats:
        return self.values[low - self.low : high + 1 - self.low, pair]


@dataclass(frozen=True)
class BestQuilt:
    """The best quilt that a search found: distances of its ends (None: no such end) and what it costs."""

    value: float
    left: int | None
    right: int | None
    nearby: int
    influence: float


def one_sided(
    side: QuiltSide,
    objective: Objective,
    inside: int,
    most: int,
    to_the_right: bool,
    limit: float = np.inf,
    line: int = _LINE,
) -> BestQuilt:
    """The best quilt with one end at distance 1..most and ``inside`` + distance inside, if one is below ``limit``."""
    best = BestQuilt(limit, None, None, 0, np.inf)

    def look_at(distances: Ints) -> None:
        nonlocal best
        influence = side.peaks(distances)
        values = objective(inside + distances, influence)
        n = int(np.argmin(values))
        if values[n] < best.value:
            end = int(distances[n])
            left, right = (None, end) if to_the_right else (end, None)
            best = BestQuilt(float(values[n]), left, right, inside + end, float(influence[n]))

    lows, highs = _dyadic(most)
    near = objective(inside + lows, 0.0) < best.value
    lows, highs = lows[near], highs[near]
    if not len(lows):
        return best
    first = np.array([int(np.argmax(side.at(lows[:1], None)[0]))])  # one pair of values will do for the coarse cuts
    guess = objective(inside + highs, side.at(highs, first)[:, 0])
    look_at(highs[[int(np.argmin(guess))]])
    while len(lows):
        # A cell is open while its first distance, with the influence of its last, could beat the best quilt.
        open_cells = objective(inside + lows, side.at(highs, first)[:, 0]) < best.value
        lows, highs = lows[open_cells], highs[open_cells]
        if not len(lows) or int(highs.max() - lows.min()) < line:
            break
        lows, highs = _halve(lows, highs)
        guess = objective(inside + highs, side.at(highs, first)[:, 0])
        look_at(highs[[int(np.argmin(guess))]])
    if not len(lows):
        return best
    low, high = int(lows.min()), int(highs.max())
    distances = np.arange(low, high + 1)
    influence, deciding = np.full(len(distances), -np.inf), set[int]()
    at = (best.right if to_the_right else best.left) or high
    while True:  # as in _by_pairs: the pairs that decide are solved alone, then checked against all
        pair = int(np.argmax(side.at(np.array([at]), None)[0]))
        if pair in deciding:
            return best
        deciding.add(pair)
        influence = np.maximum(influence, side.along(low, high, pair))
        values = objective(inside + distances, influence)
        at = int(distances[int(np.argmin(values))])
        if not values.min() < best.value:
            return best
        look_at(np.array([at]))


def two_sided(
    left: QuiltSide, right: QuiltSide, objective: Objective, most: tuple[int, int], limit: float, *, close: bool = False
) -> BestQuilt:
    """The best quilt with ends at distances 1..most on both sides, if one is below ``limit``.

    ``close`` says that the limit is a good one already, so that no first guess is needed.
    """
    best = BestQuilt(limit, None, None, 0, np.inf)
    if min(most) < 1:
        return best
    if not close:
        best = diagonal(left, right, objective, min(most), limit)
    a, b = _dyadic(min(most[0], _cut(objective, best))), _dyadic(min(most[1], _cut(objective, best)))
    grid = np.meshgrid(np.arange(len(a[0])), np.arange(len(b[0])), indexing="ij")
    i, j = grid[0].ravel(), grid[1].ravel()
    cells = np.stack([a[0][i], a[1][i], b[0][j], b[1][j]], axis=1)
    # One pair at all distances costs about as much as all pairs at one distance where the span is half their number.
    span = max(64, left.at(np.array([1]), None).shape[1] // 2)
    best, cells = _branch(left, right, objective, cells, best, stop=_FEW, span=span)
    return _by_pairs(left, right, objective, cells, best) if len(cells) else best


def _branch(
    left: QuiltSide, right: QuiltSide, objective: Objective, cells: Ints, best: BestQuilt, *, stop: int, span: int
) -> tuple[BestQuilt, Ints]:
    """Cut cells until none can beat the best quilt, or until they are more than ``stop`` or lie within ``span``."""
    while len(cells):
        cells = cells[objective(cells[:, 0] + cells[:, 2] - 1, 0.0) < best.value]
        if not len(cells) or _span(cells) <= span:
            break
        influence = _influence(left, right, cells[:, 1], cells[:, 3])
        nearby = cells[:, 1] + cells[:, 3] - 1
        values = objective(nearby, influence)
        at = int(np.argmin(values))
        if values[at] < best.value:
            a1, b1 = int(cells[at, 1]), int(cells[at, 3])
            best = BestQuilt(float(values[at]), a1, b1, int(nearby[at]), float(influence[at]))
        single = (cells[:, 0] == cells[:, 1]) & (cells[:, 2] == cells[:, 3])
        cells = cells[(objective(cells[:, 0] + cells[:, 2] - 1, influence) < best.value) & ~single]
        if len(cells) > stop and _span(cells) < _LINE:
            break
        if len(cells) > _MOST_CELLS:
            return best, cells[:0]
        cells = _quarter(cells)
    return best, cells


def _by_pairs(left: QuiltSide, right: QuiltSide, objective: Objective, cells: Ints, best: BestQuilt) -> BestQuilt:
    """The minimum over the box around the open cells, from as few pairs of values as decide it."""
    (a0, b0), (a1, b1) = cells[:, [0, 2]].min(axis=0), cells[:, [1, 3]].max(axis=0)
    at_best = (min(max(best.left or 0, a0), a1), min(max(best.right or 0, b0), b1))
    deciding = [_deciding(left, right, *at_best)]
    columns: list[tuple[Floats, Floats]] = []
    while True:
        pair = deciding[-1]
        columns.append((left.along(int(a0), int(a1), pair), right.along(int(b0), int(b1), pair)))
        tables = (
            _Table(int(a0), np.stack([c[0] for c in columns], axis=1)),
            _Table(int(b0), np.stack([c[1] for c in columns], axis=1)),
        )
        relaxed = _relaxed(*tables, objective, cells, best.value)
        if relaxed.left is None or relaxed.right is None:
            return best
        influence = float(_influence(left, right, np.array([relaxed.left]), np.array([relaxed.right]))[0])
        value = objective.scalar(relaxed.nearby, influence)
        if value < best.value:
            best = BestQuilt(value, relaxed.left, relaxed.right, relaxed.nearby, influence)
        pair = _deciding(left, right, relaxed.left, relaxed.right)
        if pair in deciding:  # nothing beats the relaxed quilt, and it costs what it seemed to cost
            return best
        deciding.append(pair)


def _span(cells: Ints) -> int:
    """Distances covered by the box around the cells, on both sides together."""
    return int(cells[:, [1, 3]].max(axis=0).sum() - cells[:, [0, 2]].min(axis=0).sum())


def _deciding(left: QuiltSide, right: QuiltSide, a: int, b: int) -> int:
    """The pair with the largest influence; of pairs that tie up to rounding the first, so that lines are reused."""
    every = left.at(np.array([a]), None)[0] + right.at(np.array([b]), None)[0]
    return int(np.argmax(every >= every.max() - 1e-12))


def _relaxed(left: _Table, right: _Table, objective: Objective, cells: Ints, limit: float) -> BestQuilt:
    """The best quilt in the cells' box when only the pairs of the tables count."""
    best = BestQuilt(limit, None, None, 0, np.inf)
    a = np.arange(left.low, left.low + len(left.values))
    b = np.arange(right.low, right.low + len(right.values))
    if left.values.shape[1] > 1:
        if len(a) * len(b) > _DENSE:
            return _branch(left, right, objective, cells, best, stop=2**62, span=-1)[0]
        both = np.maximum.reduce([x[:, None] + y for x, y in zip(left.values.T, right.values.T, strict=True)])
        values = objective(a[:, None] + b - 1, both)
        i, j = np.unravel_index(int(np.argmin(values)), values.shape)
        if values[i, j] < limit:
            best = BestQuilt(float(values[i, j]), int(a[i]), int(b[j]), int(a[i] + b[j] - 1), float(both[i, j]))
        return best
    while True:  # one pair: the two ends are chosen apart, and the price settles in a few rounds (Dinkelbach)
        dp_loss = objective.price(best.value)
        m, n = int(np.argmin(a * dp_loss + left.values[:, 0])), int(np.argmin(b * dp_loss + right.values[:, 0]))
        nearby, influence = int(a[m] + b[n] - 1), float(left.values[m, 0] + right.values[n, 0])
        value = objective.scalar(nearby, influence)
        if not value < best.value:
            return best
        best = BestQuilt(value, int(a[m]), int(b[n]), nearby, influence)


def _cut(objective: Objective, best: BestQuilt) -> int:
    return int(min(objective.most_nearby(best.value) + 2, 2**53)) if np.isfinite(best.value) else 2**53


def diagonal(left: QuiltSide, right: QuiltSide, objective: Objective, most: int, limit: float) -> BestQuilt:
    """A first good quilt below ``limit``: equal distances 1, 2, 4, … until the records inside alone cost more."""
    best, distance, deciding = BestQuilt(limit, None, None, 0, np.inf), 1, np.array([0])
    while distance <= most and objective.scalar(2 * distance - 1, 0.0) < best.value:
        at = np.array([distance])
        # One pair first: where it alone is too much, the others need not be asked.
        alone = float((left.at(at, deciding) + right.at(at, deciding))[0, 0])
        if distance == 1 or objective.scalar(2 * distance - 1, alone) < best.value:
            every = (left.at(at, None) + right.at(at, None))[0]
            deciding = np.array([int(np.argmax(every))])
            value = objective.scalar(2 * distance - 1, float(every.max()))
            if value < best.value:
                best = BestQuilt(value, distance, distance, 2 * distance - 1, float(every.max()))
        distance *= 2
    return best


def _influence(left: QuiltSide, right: QuiltSide, a: Ints, b: Ints) -> Floats:
    ua, ia = np.unique(a, return_inverse=True)
    ub, ib = np.unique(b, return_inverse=True)
    on_left, on_right = left.at(ua, None), right.at(ub, None)
    out = np.empty(len(a))
    step = max(1, 4_000_000 // on_left.shape[1])
    for s in range(0, len(a), step):
        out[s : s + step] = (on_left[ia[s : s + step]] + on_right[ib[s : s + step]]).max(axis=1)
    return out


def _dyadic(most: int) -> tuple[Ints, Ints]:
    """1..most cut at the powers of two."""
    edges = [1 << n for n in range(most.bit_length())] if most >= 1 else []
    lows = np.array(edges, dtype=np.int64)
    return lows, np.array([*(e - 1 for e in edges[1:]), most] if edges else [], dtype=np.int64)


def _halve(lows: Ints, highs: Ints) -> tuple[Ints, Ints]:
    middle = (lows + highs) // 2
    lows, highs = np.concatenate([lows, middle + 1]), np.concatenate([middle, highs])
    return lows[lows <= highs], highs[lows <= highs]


def _quarter(cells: Ints) -> Ints:
    a0, a1, b0, b1 = cells.T
    am, bm = (a0 + a1) // 2, (b0 + b1) // 2
    parts = np.concatenate(
        [
            np.stack([a0, am, b0, bm], axis=1),
            np.stack([am + 1, a1, b0, bm], axis=1),
            np.stack([a0, am, bm + 1, b1], axis=1),
            np.stack([am + 1, a1, bm + 1, b1], axis=1),
        ]
    )
    return parts[(parts[:, 0] <= parts[:, 1]) & (parts[:, 2] <= parts[:, 3])]


class _ChainSide(ABC):
    """A side of a quilt in a chain: from a table where there is one, distance by distance otherwise."""

    def __init__(self) -> None:
        self._peaks: dict[int, float] = {}

    def peaks(self, distances: Ints) -> Floats:
        """The largest influence over all pairs, remembered."""
        new = [n for n in distances.tolist() if n not in self._peaks]
        if new:
            self._peaks.update(zip(new, self.at(np.array(new), None).max(axis=1).tolist(), strict=True))
        return np.array([self._peaks[n] for n in distances.tolist()])

    def at(self, distances: Ints, pairs: Ints | None) -> Floats:
        """One row a distance, one column a pair."""
        table = self._from_tables(distances)
        if table is not None:
            return table if pairs is None else table[:, pairs]
        return np.stack([self._at_distance(int(n), pairs) for n in distances])

    @abstractmethod
    def _from_tables(self, distances: Ints) -> Floats | None:
        """All pairs at many distances, or None where there is no table for them."""

    @abstractmethod
    def _at_distance(self, distance: int, pairs: Ints | None) -> Floats:
        """These pairs at one distance, all where ``pairs`` is None."""


class LeftSide(_ChainSide):
    """Influence on a left end, for one record or, as an upper bound, for a range of them."""

    def __init__(
        self,
        ratios: Ratios,
        *,
        marginal: Floats,
        valid: Mask,
        seen: Callable[[int], Mask],
        steady: int,
        beyond: int | None,
    ) -> None:
        super().__init__()
        self._ratios, self._marginal, self._valid, self._seen = ratios, marginal, valid, seen
        self._steady = steady  # up to this distance the same values are possible
        self._beyond = beyond  # distance of the farthest record on the left; None for K empty

    def _from_tables(self, distances: Ints) -> Floats | None:
        """From tables only where the values possible at the end do not change and none is ruled out."""
        seen = self._seen(1) if int(distances.max()) + 1 <= self._steady else None
        rows = None if seen is None else self._ratios.rows("backward", distances, seen)
        if rows is None:
            return None
        if self._beyond is None:
            with np.errstate(invalid="ignore"):
                return np.where(self._valid, rows + self._marginal, -np.inf)
        far = self._ratios.rows("backward", distances + 1, seen)
        if far is None:
            return None
        far = np.where((distances + 1 <= self._beyond)[:, None], far[:, turned_pairs(self._ratios.size)], -np.inf)
        with np.errstate(invalid="ignore"):
            return np.where(self._valid, np.maximum(rows + np.maximum(far, self._marginal), 0.0), -np.inf)

    def along(self, low: int, high: int, pair: int) -> Floats:
        """One pair at the distances low..high."""
        far = 0 if self._beyond is None else 1
        line_high = min(high, self._steady - far)  # up to here one set of values is possible at the left end
        line = None
        if line_high >= low and self._valid[pair]:
            line = self._ratios.along("backward", pair, low, line_high + far, self._seen(low))
        if line is None:
            return np.asarray(self.at(np.arange(low, high + 1), np.array([pair]))[:, 0])
        if self._beyond is None:
            steady = line[0] + self._marginal[pair]
        else:
            beyond = np.where(np.arange(low + 1, line_high + 2) <= self._beyond, line[1][1:], -np.inf)
            steady = np.maximum(line[0][:-1] + np.maximum(beyond, self._marginal[pair]), 0.0)
        if line_high == high:
            return np.asarray(steady)
        return np.append(steady, self.at(np.arange(line_high + 1, high + 1), np.array([pair]))[:, 0])

    def _at_distance(self, distance: int, pairs: Ints | None) -> Floats:
        valid = self._valid if pairs is None else self._valid[pairs]
        beyond = self._marginal if pairs is None else self._marginal[pairs]
        if self._beyond is not None and distance < self._beyond:
            round_ = turned_pairs(self._ratios.size, pairs)
            beyond = np.maximum(beyond, self._ratios.backward(distance + 1, self._seen(distance + 1), round_))
        end = self._ratios.backward(distance, self._seen(distance), pairs)
        with np.errstate(invalid="ignore"):
            total = end + beyond
        if self._beyond is not None:
            total = np.maximum(total, 0.0)
        return np.where(valid, total, -np.inf)


class RightSide(_ChainSide):
    """Influence on a right end."""

    def __init__(self, ratios: Ratios, *, valid: Mask, beyond: int | None) -> None:
        super().__init__()
        self._ratios, self._valid, self._beyond = ratios, valid, beyond

    def _from_tables(self, distances: Ints) -> Floats | None:
        """From tables only where no value is ruled out."""
        rows = self._ratios.rows("forward", distances, None)
        if rows is None or self._beyond is None:
            return None if rows is None else np.where(self._valid, rows, -np.inf)
        far = self._ratios.rows("forward", distances + 1, None)
        if far is None:
            return None
        far = np.where((distances + 1 <= self._beyond)[:, None], far[:, turned_pairs(self._ratios.size)], 0.0)
        return np.where(self._valid, np.maximum(rows + np.maximum(far, 0.0), 0.0), -np.inf)

    def along(self, low: int, high: int, pair: int) -> Floats:
        """One pair at the distances low..high."""
        far = 0 if self._beyond is None else 1
        line = self._ratios.along("forward", pair, low, high + far, None)
        if line is None or not self._valid[pair]:
            return np.asarray(self.at(np.arange(low, high + 1), np.array([pair]))[:, 0])
        if self._beyond is None:
            return line[0]
        beyond = np.where(np.arange(low + 1, high + 2) <= self._beyond, line[1][1:], 0.0)
        return np.maximum(line[0][:-1] + np.maximum(beyond, 0.0), 0.0)

    def _at_distance(self, distance: int, pairs: Ints | None) -> Floats:
        valid = self._valid if pairs is None else self._valid[pairs]
        total = self._ratios.forward(distance, pairs)
        if self._beyond is not None:
            if distance < self._beyond:
                far = self._ratios.forward(distance + 1, turned_pairs(self._ratios.size, pairs))
                with np.errstate(invalid="ignore"):
                    total = total + np.maximum(far, 0.0)
            total = np.maximum(total, 0.0)
        return np.where(valid, total, -np.inf)
