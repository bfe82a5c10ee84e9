"""Leakage of a sum over a Markov chain plus Laplace noise, to an adversary who may know any set of records.

Records beyond the nearest known one on either side carry no further information, so an adversary is a window of unknown
records around the target: a number to the left, a number to the right, and at either end a known record or the end of
the series. Two bounds enclose the leakage of all windows.

Sides. Let D(x,x') be the largest log-likelihood ratio of the noisy sum over one side. Given the target the sides are
independent: exchange the right side at the price of D_right, then the left side, then the target itself. A window leaks
at most D_left + D_right + τ·|step(x) − step(x')|. An output beyond all sums reaches the sum of its three parts.

Windows. Given the target and both ends, the sum over a window has a distribution that a dynamic programme gives. The
largest ratio of two densities of the output is at a possible sum, so its leakage is exact, at a higher price.

Wider windows. Given the record b to the right of the target, everything beyond is independent of the target. So a wider
window leaks at most what one with b − 1 unknown records leaks, and ratios of b-step transition probabilities. This
closes the bracket whatever the length of the series (docs/theory/windows.md).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.additive.sides import DEEP, TINY, one_side, reject_below
from pufferdp.bounds.chains.powers import largest_ratios, ratios_of
from pufferdp.bounds.chains.starts import Supports, first_distribution
from pufferdp.models.chain import MarkovChain

_MOST_NUMBERS: Final = 1.2e7
"""Densities in one table, of all sides or of all windows: a fifth of a second."""
_MOST_WORK: Final = 4e8
"""Densities computed until one question is answered: five to ten seconds."""
TOLERANCE: Final = 1e-7
"""A bracket is closed when its ends differ by no more than this, relative to the leakage."""


@dataclass(frozen=True)
class WindowAdversary:
    """An adversary: the unknown records around the target, the known records at their ends, and the worst output."""

    left: int
    """Unknown records to the left of the target."""
    right: int
    """Unknown records to the right of the target."""
    left_end: int | None
    """State of the known record left of the window; None where the window reaches the first record."""
    right_end: int | None
    """State of the known record right of the window; None where the window reaches the last record."""
    likelier: int
    """The state of the target that the output is evidence for."""
    other: int
    """The state of the target that the output is evidence against."""
    output: int
    """The sum over the window, counted from the smallest possible, with the largest likelihood ratio."""


@dataclass(frozen=True)
class Leakage:
    """A bracket around the leakage: at least ``lower``, which ``adversary`` reaches, and at most ``upper``."""

    lower: float
    upper: float
    adversary: WindowAdversary | None

    @property
    def closed(self) -> bool:
        """Whether either end is the leakage up to the tolerance."""
        return is_closed(self.lower, self.upper)


def is_closed(lower: float, upper: float) -> bool:
    """Whether the ends of a bracket around a leakage differ by the tolerance at most."""
    return upper - lower <= TOLERANCE * max(lower, 1e-3)


class Work:
    """A counter of the densities computed for one question, over all chains and lengths; the same on every machine."""

    def __init__(self) -> None:
        self.begin()

    def begin(self, allowed: float = math.inf) -> None:
        """Begin a question: how much leaks, or only whether it is more than what is allowed."""
        self.done, self.allowed = 0.0, allowed

    def decides(self, leakage: Leakage) -> bool:
        """Whether a bracket answers the question."""
        asked = math.isfinite(self.allowed)
        return leakage.closed or (asked and (leakage.lower > self.allowed or leakage.upper <= self.allowed))

    def add(self, numbers: float) -> None:
        """Count numbers that are about to be computed. Raises NotApplicableError where they are too many."""
        if self.done + numbers > _MOST_WORK:
            raise NotApplicableError(
                f"would compute more than {_MOST_WORK:.0e} numbers: the values of the states lie too many steps apart, "
                "or there are too many states, chains or lengths"
            )
        self.done += numbers


class Windows:
    """The windows of a series: which are possible, and what those leak that are wider than the ones examined.

    Ends are states of a known record; one more end, the last, stands for the end of the series.
    """

    def __init__(self, chain: MarkovChain, length: int, steps: npt.ArrayLike) -> None:
        if chain.any_start:
            raise NotApplicableError("exact leakage needs a chain with a definite start")
        self.chain, self.length = chain, length
        self.steps = np.asarray(steps, dtype=np.int64) - int(np.min(np.asarray(steps)))
        self.span = int(self.steps.max())
        self.start = first_distribution(chain)
        k, moves = chain.size, np.asarray(chain.transition)
        for table in (moves, self.start):
            reject_below(table, TINY ** (1 / 6))  # no product of six falls from above TINY to 0 unseen
        left = np.ascontiguousarray(moves.T), np.concatenate([moves, self.start[None]]).T
        self.ways = left, (moves, np.concatenate([moves, np.ones((k, 1))], axis=1))
        """To the left and to the right: transition probabilities away from the target, and [last record, end]."""
        self._supports = Supports(self.start > 0, chain.transition > 0)

    def totals(self, wide: int) -> dict[tuple[int, int], Mask]:
        """Which numbers of unknown records, of both sides together, are possible for each left and right end."""
        k, latest = self.chain.size, self.length - 2 - np.arange(2 * wide + 1)
        # ``latest`` is the last position of a known left end (0: none) that leaves a record for a right end.
        out = {(k, k): latest == -1} | {(k, v): latest >= 0 for v in range(k)}
        early = np.array([self._supports.at(position) for position in range(1, k + 1)])
        late = np.array([self._supports.at(max(int(place), 0) + 1) for place in latest])
        for u in range(k):
            # A state that is possible at all is possible at one of the first k records.
            first = 1 + int(early[:, u].argmax()) if early[:, u].any() else self.length
            out |= {(u, v): latest >= first for v in range(k)} | {(u, k): late[:, u] & (latest >= 0)}
        return out

    def forgotten(self, wide: int) -> float:
        """What windows with more than ``wide`` unknown records add at most to narrower ones that leak nothing."""
        if wide >= self.length - 1:
            return 0.0
        return self.tail(
            {side: np.zeros((self.chain.size, self.chain.size)) for side in ("left", "right", "both")}, wide
        )

    def tail(self, edges: dict[str, Floats], wide: int) -> float:
        """The largest leakage of windows with more than ``wide`` unknown records on a side.

        Args:
            edges: leakage [likelier, other] of windows of exactly ``wide`` unknown records and then a known one, on the
                "left", on the "right" and on "both" sides; -inf where there is none.
            wide: the number of unknown records.
        """
        powers, shape = ratios_of(self.chain).powers, (self.chain.size, self.chain.size)
        logs = [powers.log(wide + 1 + more) for more in (0, 1)]
        rows, columns = ([largest_ratios(m).reshape(shape) for m in ms] for ms in ([m.T for m in logs], logs))
        right = _add(rows[0], np.maximum(0.0, rows[1].T))
        # No 0 on the left: where the series begins, the ratio of marginals is a mean of these.
        left = _add(columns[0], columns[1].T)
        worst = -math.inf
        for side, more in (("right", right), ("left", left), ("both", _add(left, right))):
            # Infinite where no end at this distance, but one farther away, leaves both values possible.
            whole = np.where((edges[side] > -np.inf) | (more == np.inf), _add(edges[side], more), -np.inf)
            np.fill_diagonal(whole, -np.inf)
            worst = max(worst, float(whole.max()))
        return worst


class WindowLeakage:
    """Leakage of sums of ``steps[state]`` over a chain with a definite start, plus noise of scale 1/dp_loss steps."""

    def __init__(self, chain: MarkovChain, length: int, steps: npt.ArrayLike, work: Work | None = None) -> None:
        self._windows, self._work = Windows(chain, length, steps), Work() if work is None else work

    def at(self, dp_loss: float) -> Leakage:
        """A bracket around the leakage; open only where a closed one would take too long."""
        windows, k = self._windows, self._windows.chain.size
        span = max(1, windows.span)
        longest = self._longest(dp_loss)
        if longest < 0:
            return Leakage(0.0, self._all_records(dp_loss), None)
        sides = self._widen(self.by_sides, dp_loss, longest, k * (k + 1) * span, 2)
        if self._work.decides(sides):
            return sides
        exact = self._widen(self.by_windows, dp_loss, longest, 2 * k * (k + 1) ** 2 * span, 3)
        best = exact if exact.lower >= sides.lower else sides
        return Leakage(best.lower, max(best.lower, min(exact.upper, sides.upper)), best.adversary)

    def _all_records(self, dp_loss: float) -> float:
        """The leakage by group privacy over all records, which move the sum no farther together."""
        return dp_loss * self._windows.length * self._windows.span

    def _longest(self, dp_loss: float) -> int:
        """The most unknown records to a side whose densities are normal doubles; negative with hardly any noise."""
        records = self._windows.length - 1
        if dp_loss * max(1, self._windows.span) * (2 * records + 1) <= DEEP:
            return records
        return math.floor((DEEP / dp_loss / max(1, self._windows.span) - 1) / 2)

    def _widen(
        self, bracket: Callable[[float, int], Leakage], dp_loss: float, longest: int, each: int, power: int
    ) -> Leakage:
        """The bracket with twice as many unknown records to a side each time, until it closes.

        ``each``: densities for one unknown record to a side; their number grows with that ``power`` of the records.
        """
        widest = min(longest, int((_MOST_NUMBERS / each) ** (1 / power)))
        wide = min(4, widest)
        while True:
            self._work.add(each * max(wide, 1) ** power)
            leakage = bracket(dp_loss, wide)
            if wide == widest or self._work.decides(leakage):
                return leakage
            if self._windows.forgotten(widest) > self._work.allowed:
                raise NotApplicableError("records influence others farther away than any window that can be examined")
            wide = min(2 * wide, widest)

    def by_sides(self, dp_loss: float, wide: int) -> Leakage:
        """A bracket from sides of up to ``wide`` unknown records, and from a bound on wider ones."""
        left, right = (one_side(*way, self._windows.steps, dp_loss, wide) for way in self._windows.ways)
        # The log-likelihood ratio of an output above all sums from the target itself: [likelier, other].
        own, k = dp_loss * np.subtract.outer(self._windows.steps, self._windows.steps), self._windows.chain.size
        reached = self._join(left.corners, right.corners) + np.stack([-own, own])
        corner, x, y = (int(i) for i in np.unravel_index(int(np.argmax(reached)), reached.shape))
        lower, adversary = float(reached[corner, x, y]), None
        if lower > 0 and math.isinf(self._work.allowed):  # who it is, is asked of the leakage alone
            a, u, b, v = self._argmax(left.corners[corner, x, y], right.corners[corner, x, y])
            ends = [None if end == k else end for end in (u, v)]
            adversary = WindowAdversary(a, b, ends[0], ends[1], x, y, corner * self._windows.span * (a + b + 1))
        upper = float((self._join(left.largest, right.largest) + np.abs(own)).max())
        upper = max(upper, self._tail(left.largest, right.largest, np.abs(own)))
        return Leakage(max(0.0, lower), max(0.0, lower, min(upper, self._all_records(dp_loss))), adversary)

    def _tail(self, left: Floats, right: Floats, own: Floats) -> float:
        """The bound on wider windows, from sides [likelier, other, unknown, end] added up; -inf where none is wider."""
        wide, k = left.shape[2] - 1, self._windows.chain.size
        if wide >= self._windows.length - 1:
            return -math.inf
        outer = [np.full_like(side, -np.inf) for side in (left, right)]
        for widest, side in zip(outer, (left, right), strict=True):
            widest[:, :, wide, :k] = side[:, :, wide, :k]
        pairs = {"left": (outer[0], right), "right": (left, outer[1]), "both": (outer[0], outer[1])}
        return self._windows.tail({name: self._join(*pair) + own for name, pair in pairs.items()}, wide)

    def by_windows(self, dp_loss: float, wide: int) -> Leakage:
        """A bracket from every window of up to ``wide`` unknown records a side, and from a bound on wider ones."""
        return WindowCounts(self._windows, wide).bracket(dp_loss)

    def _join(self, left: Floats, right: Floats) -> Floats:
        """The largest sum of two sides […, unknown, end] that are possible together."""
        wide = left.shape[-2] - 1
        best = np.full(left.shape[:-2], -np.inf)
        for (u, v), total in self._windows.totals(wide).items():
            best = np.maximum(best, _largest_sum(left[..., u], right[..., v], total))
        return best

    def _argmax(self, left: Floats, right: Floats) -> tuple[int, int, int, int]:
        """The unknown records and the end on the left and on the right whose sum [unknown, end] is largest."""
        wide, best, where = len(left) - 1, -math.inf, (0, 0, 0, 0)
        for (u, v), total in self._windows.totals(wide).items():
            for a in range(wide + 1):
                sums = np.where(total[a : a + wide + 1], left[a, u] + right[:, v], -np.inf)
                if sums.max() > best:
                    best, where = float(sums.max()), (a, u, int(sums.argmax()), v)
        return where


def _largest_sum(left: Floats, right: Floats, totals: Mask) -> Floats:
    """The largest left[…, a] + right[…, b] over all a and b for which totals[a + b] is true."""
    wide, best = left.shape[-1] - 1, np.full(left.shape[:-1], -np.inf)
    limit = len(totals) if totals.all() else int(totals.argmin())  # all totals below the limit are possible
    if limit:
        running = np.maximum.accumulate(right, axis=-1)
        a = np.arange(min(limit - 1, wide) + 1)
        best = (left[..., a] + running[..., np.minimum(limit - 1 - a, wide)]).max(axis=-1)
    for total in limit + np.flatnonzero(totals[limit:]):
        a = np.arange(max(0, total - wide), min(total, wide) + 1)
        best = np.maximum(best, (left[..., a] + right[..., total - a]).max(axis=-1))
    return best


class WindowCounts:
    """Distributions of the sum over every window of up to ``wide`` unknown records to a side."""

    def __init__(self, windows: Windows, wide: int) -> None:
        self._windows, self._wide = windows, wide
        k, span = windows.chain.size, windows.span
        (left, left_mass), (right, right_mass) = (_side_counts(*way, windows.steps, wide) for way in windows.ways)
        possible = (left_mass[:, :, None] > 0) & (right_mass[:, None] > 0)  # [value, left, right]
        unknown, ends = np.divmod(np.arange((wide + 1) * (k + 1)), k + 1)
        totals = windows.totals(wide)
        allowed = np.array([[totals[u, v] for v in range(k + 1)] for u in range(k + 1)])
        fits = allowed[ends[:, None], ends, unknown[:, None] + unknown] & (possible.sum(axis=0) > 1)
        at_right, at_left = np.nonzero(fits.T)  # sorted by the right side
        self._left, self._right = (unknown[at_left], ends[at_left]), (unknown[at_right], ends[at_right])
        sums = left.shape[2]
        pmf = np.zeros((len(at_left), k, 2 * sums - 1 + span))
        firsts = np.searchsorted(at_right, np.arange(right.shape[1] + 1))
        for x, step in enumerate(windows.steps.tolist()):
            # Convolution with a right side is a product with its Toeplitz matrix [left sum, sum].
            padded = np.pad(right[x], ((0, 0), (sums - 1, sums - 1)))
            toeplitz = np.lib.stride_tricks.sliding_window_view(padded, 2 * sums - 1, axis=1)[:, ::-1]
            for r, matrix in enumerate(toeplitz):
                here = slice(firsts[r], firsts[r + 1])
                sums_of_both = left[x, at_left[here]] @ np.ascontiguousarray(matrix)
                pmf[here, x, step : step + 2 * sums - 1] = sums_of_both
        self._pmf, self._possible = pmf, possible[:, at_left, at_right].T  # [window, value, sum], [window, value]
        self._pairs = tuple(itertools.permutations(range(k), 2))

    def bracket(self, dp_loss: float) -> Leakage:
        """A bracket around the leakage with Laplace noise, and the adversary who reaches its lower end."""
        largest = self._largest(dp_loss)
        lower = max(0.0, float(largest.max(initial=0.0)))
        if lower == 0:
            return Leakage(0.0, self._upper(largest), None)
        pair, n = (int(i) for i in np.unravel_index(int(np.argmax(largest)), largest.shape))
        x, y = self._pairs[pair]
        density = _densities(self._pmf[n], dp_loss)
        # The first output of those that are equal up to rounding: beyond the support all ratios are constant.
        output = int(np.argmax(np.log(density[x] / density[y]) >= lower - 1e-12))
        (a, u), (b, v) = ((int(side[0][n]), int(side[1][n])) for side in (self._left, self._right))
        ends = [None if end == self._windows.chain.size else end for end in (u, v)]
        return Leakage(lower, self._upper(largest), WindowAdversary(a, b, ends[0], ends[1], x, y, output))

    def _largest(self, dp_loss: float) -> Floats:
        """The largest log-likelihood ratio of an output, for every pair of values and window: [pair, window]."""
        out = np.full((len(self._pairs), len(self._pmf)), -np.inf)
        for here in np.array_split(np.arange(len(self._pmf)), 64):  # in parts, which keeps temporary tables small
            with np.errstate(divide="ignore"):
                logs = np.log(_densities(self._pmf[here], dp_loss))
            for pair, (x, y) in enumerate(self._pairs):
                both = self._possible[here, x] & self._possible[here, y]
                with np.errstate(invalid="ignore"):
                    out[pair, here] = np.where(both[:, None], logs[:, x] - logs[:, y], -np.inf).max(axis=1)
        return out

    def _upper(self, largest: Floats) -> float:
        """The largest leakage, from that of every pair of values and window: [pair, window]."""
        most, k = max(0.0, float(largest.max(initial=0.0))), self._windows.chain.size
        if self._wide >= self._windows.length - 1:
            return most
        at_edge = [(unknown == self._wide) & (end < k) for unknown, end in (self._left, self._right)]
        edges = {}
        for name, widest in (("left", at_edge[0]), ("right", at_edge[1]), ("both", at_edge[0] & at_edge[1])):
            edges[name] = np.full((k, k), -np.inf)
            for pair, (x, y) in enumerate(self._pairs):
                edges[name][x, y] = largest[pair, widest].max(initial=-np.inf)
        return max(most, self._windows.tail(edges, self._wide))


def _densities(pmf: Floats, dp_loss: float) -> Floats:
    """Densities of sums plus Laplace noise at the possible sums, up to a common factor: […, output] from […, sum].

    Two exponential filters, one from either end. Discrete Laplace noise has the same likelihood ratios.
    """
    fall, out = math.exp(-dp_loss), pmf.copy()
    above = np.zeros(pmf.shape[:-1])
    for s in range(1, pmf.shape[-1]):
        out[..., s] += fall * out[..., s - 1]
    for s in range(pmf.shape[-1] - 2, -1, -1):
        above = fall * (above + pmf[..., s + 1])
        out[..., s] += above
    return out


def _side_counts(moves: Floats, ends: Floats, steps: Ints, wide: int) -> tuple[Floats, Floats]:
    """The distribution of the sum over one side given the target and its end: [target, (unknown, end), sum].

    And the probability of the end given the target: [target, (unknown, end)].
    """
    (k, kinds), top = ends.shape, wide * int(steps.max()) + 1
    now = np.zeros((k, kinds, top))
    now[:, :, 0] = ends
    sides = [now]
    for _ in range(wide):
        moved = np.zeros_like(now)
        for x, step in enumerate(steps.tolist()):
            moved[x, :, step:] = now[x, :, : top - step]
        now = np.tensordot(moves, moved, axes=1)
        sides.append(now)
    joint = np.stack(sides, axis=1).reshape(k, (wide + 1) * kinds, top)
    mass = joint.sum(axis=2)
    reject_below(mass, TINY)
    return np.asarray(joint / np.where(mass > 0, mass, 1.0)[..., None]), mass


def _add(a: Floats, b: Floats) -> Floats:
    """The sum of two log-ratios; an infinite one stays infinite."""
    with np.errstate(invalid="ignore"):
        return np.where((a == np.inf) | (b == np.inf), np.inf, a + b)
