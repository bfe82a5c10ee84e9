"""Exactly what a sum plus Laplace noise leaks about one record of a chain, whatever else the adversary knows.

Records beyond the nearest known one on either side say nothing more, so an adversary is a window of unknown records
around the target: so many to the left, so many to the right, and at either end a known record or the end of the series.
Given the target and both ends, the sum in the window has a law that a small dynamic programme gives. Between two whole
numbers the ratio of two densities of the output is monotone, and beyond the support it is constant, so its largest
value is reached at a whole number of the support: exact, no sampling. Laplace and discrete Laplace noise have the same
ratios there.

Wider windows. Given the record b to the right of the target, everything beyond is independent of the target. So for
every right side with b or more unknown records

    Leak(left, longer) ≤ max over v of Leak(left, b−1 unknown, then v) + F_b(x,x') + max(0, F_{b+1}(x',x)),

F_b(x,x') = max over y of log P^b(x,y)/P^b(x',y); on the left the same with columns of powers. That closes a bracket
around the leakage whatever the length of the series.

Side by side. Let D(x,x') of one side be the same with the sum over that side alone. Given the target the sides are
independent, so for each sum of the left side the right one may be exchanged at the price of D, then the left side, then
the target: a window leaks at most D_left + D_right + tau·|step(x) − step(x')|. An output beyond all sums is reached by
products, so there the sum of the three is the leakage itself. Mostly the two agree, and no window need be looked at.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Mask
from pufferdp.basics.errors import NotApplicableError
from pufferdp.leakage.chains.powers import largest_ratios, ratios_of
from pufferdp.leakage.chains.starts import Supports
from pufferdp.models.chain import MarkovChain

_FIRST: Final = 2.5e5
"""So many ratios are taken at first: 24 unknown records to a side for two states and a count."""
_MOST: Final = 6e7
"""So many where the bracket stays open, about a second: 150 unknown records to a side for two states and a count,
34 for six states."""
_MOST_SIDES: Final = 3e7
"""So many pairs of sides are put together: a thousand unknown records to a side for two states, 130 for six."""
_MOST_NUMBERS: Final = 6e6
"""So many densities of a side are looked at, about half a second: of a thousand unknown records to a side for two
states and a count, of 15 for three states whose values lie two thousand steps apart."""
_MOST_WORK: Final = 8e8
"""So much work may be done until one question is answered: five to ten seconds."""
_DENSITY: Final = 8
"""A density of a side takes about so many times as long as a ratio of a window or a pair of sides."""
_NARROW: Final = 4
"""Fewer unknown records to a side are not worth a look of their own."""
_CLOSED: Final = 1e-10
"""The bracket is closed when its ends are this near, relative to the leakage."""
_DEEP: Final = 400.0
"""Windows are no wider than exp(-400), so that a density times the smallest mass is well above the least double."""
_TINY: Final = 1e-120
_LEAST: Final = 1e-20
"""No step is smaller than this, so no mass falls from above _TINY to 0 unseen."""
_LINE: Final = 96
"""Shorter rows of numbers slow numpy down."""
_AT_ONCE: Final = 100_000
"""Sides of windows are looked at together up to so many numbers: few calls where windows are small, and no more than a
cache holds where they are large."""


@dataclass(frozen=True)
class Informed:
    """Who learns most: how much is unknown around the target, what is known at the ends, and what gives it away."""

    left: int
    """Unknown records to the left of the target."""
    right: int
    """Unknown records to the right of the target."""
    left_end: int | None
    """State of the known record left of the window; None where the window reaches the first record."""
    right_end: int | None
    """State of the known record right of the window; None where the window reaches the last record."""
    likelier: int
    """The state of the target that the output speaks for."""
    other: int
    """The state of the target that it speaks against."""
    output: int
    """The sum over the window, counted from the smallest possible, that an adversary would like to see."""


@dataclass(frozen=True)
class Leakage:
    """A bracket around the leakage: it is at least ``lower``, reached by ``adversary``, and at most ``upper``."""

    lower: float
    upper: float
    adversary: Informed | None

    @property
    def closed(self) -> bool:
        """Whether the bracket has closed, so that either end is the leakage."""
        return self.upper - self.lower <= _CLOSED * max(self.lower, 1e-3)


@dataclass(frozen=True)
class _Side:
    """What one side leaks of the target: [likelier, other, (unknown, end)]."""

    most: Floats
    """At the worst output."""
    corners: Floats
    """At outputs below all sums, and above them: one more axis in front."""
    possible: Mask
    """Whether both values are."""


class Work:
    """What was looked at until a question was answered, of all windows together: counted, so the same everywhere."""

    def __init__(self) -> None:
        self.done = 0.0

    def add(self, numbers: float) -> None:
        """So many more are about to be looked at. Raises NotApplicableError where they are too many."""
        if self.done + numbers > _MOST_WORK:
            raise NotApplicableError(
                f"would look at more than {_MOST_WORK:.0e} numbers: the values of the states lie too many steps apart, "
                "or there are too many states, chains or lengths"
            )
        self.done += numbers


class WindowLeakage:
    """Sums of ``steps[state]`` over a chain with a definite start, plus noise of scale 1/tau steps."""

    def __init__(self, chain: MarkovChain, length: int, steps: npt.ArrayLike, work: Work | None = None) -> None:
        if chain.any_start:
            raise NotApplicableError("exact leakage needs a chain with a definite start")
        self.chain, self.length = chain, length
        self._work = work
        self.steps = np.asarray(steps, dtype=np.int64) - int(np.min(np.asarray(steps)))
        self.start = chain.stationary if chain.given_start is None else chain.given_start
        self._span = max(1, int(self.steps.max()))
        self._fitting: dict[int, Mask] = {}
        self._needed = self._sides_needed = _NARROW  # how wide windows and sides had to be the last time
        for table in (chain.transition, self.start):
            _refuse_below(table, _LEAST)

    def at(self, dp_loss: float) -> Leakage:
        """The leakage when the noise has scale 1/tau."""
        deepest = (_DEEP / dp_loss / self._span - 1) / 2 if dp_loss > 0 else math.inf
        if deepest < 0:  # hardly any noise: nothing better is known than that all records together move the sum
            return Leakage(0.0, self._all_records(dp_loss), None)
        sides = self._by_sides(dp_loss, deepest)
        if sides.closed:
            return sides
        widest = int(min(self.length - 1, self._width(_MOST), deepest))
        wide = min(max(self._needed, self._width(_FIRST)), widest)
        while True:
            self._count(self._each_window * max(wide, 1) ** 3)
            windows = self._windows(dp_loss, wide)
            best = windows if windows.lower >= sides.lower else sides
            leakage = Leakage(best.lower, max(best.lower, min(windows.upper, sides.upper)), best.adversary)
            if wide == widest or leakage.closed:
                self._needed = wide
                return leakage
            wide = min(int(wide * 1.4) + 1, widest)

    def _by_sides(self, dp_loss: float, deepest: float) -> Leakage:
        """A bracket from the leakage of single sides, as wide as it takes to close it, or as can be looked at."""
        k = self.chain.size
        pairs, densities = max(1, k * (k - 1) * (k + 1) ** 2), k * (k + 1) * self._span
        most = math.sqrt(min(_MOST_SIDES / pairs, _MOST_NUMBERS / densities))
        widest = int(min(self.length - 1, most, deepest))
        wide = min(max(self._sides_needed, _NARROW), widest)
        while True:
            self._count((pairs + _DENSITY * densities) * max(wide, 1) ** 2)
            leakage = self._sides(dp_loss, wide)
            if wide == widest or leakage.closed:
                self._sides_needed = wide
                return leakage
            wide = min(2 * wide, widest)

    def _sides(self, dp_loss: float, wide: int) -> Leakage:
        """The bracket from sides of up to ``wide`` unknown records, and from a bound on wider ones."""
        k, moves = self.chain.size, np.asarray(self.chain.transition)
        fall = np.exp(-dp_loss * np.arange(self._span * wide + 1))
        left = self._one_side(moves.T, np.concatenate([moves, self.start[None]]).T, fall, wide)
        right = self._one_side(moves, np.concatenate([moves, np.ones((k, 1))], axis=1), fall, wide)
        unfit = ~self.fits(wide).reshape((wide + 1) * (k + 1), -1)
        sides, tables = (right, left), np.empty((2, *unfit.shape))
        ends = np.arange((wide + 1) * (k + 1))
        known, widest = ends % (k + 1) < k, ends // (k + 1) == wide
        best, most, adversary = 0.0, 0.0, None
        edge = {side: np.zeros((k, k)) for side in ("left", "right", "both")}
        for x, y in itertools.permutations(range(k), 2):
            own = dp_loss * float(self.steps[x] - self.steps[y])
            ways = [np.where(side.possible[x, y], (side.most[x, y], *side.corners[:, x, y]), -np.inf) for side in sides]
            above = np.add(ways[0][0][:, None], ways[1][0], out=tables[0])
            above += abs(own)
            np.copyto(above, -np.inf, where=unfit)
            largest = float(above.max())
            if largest == -np.inf:
                continue
            most = max(most, largest)
            for corner, sign in ((0, -1), (1, 1)):
                reached = np.add(ways[0][1 + corner][:, None], ways[1][1 + corner], out=tables[1])
                np.copyto(reached, -np.inf, where=unfit)
                place = int(np.argmax(reached))
                if float(reached.flat[place]) + sign * own > best:
                    best = float(reached.flat[place]) + sign * own
                    at_right, at_left = divmod(place, reached.shape[1])
                    unknown = (at_left // (k + 1), at_right // (k + 1))
                    states = [None if end == k else int(end) for end in (at_left % (k + 1), at_right % (k + 1))]
                    output = corner * self._span * (sum(unknown) + 1)
                    adversary = Informed(*unknown, states[0], states[1], x, y, output)
            if wide < self.length - 1:
                outer = known & widest
                edge["left"][x, y] = math.exp(above[:, outer].max(initial=-math.inf))
                edge["right"][x, y] = math.exp(above[outer].max(initial=-math.inf))
                edge["both"][x, y] = math.exp(above[np.ix_(outer, outer)].max(initial=-math.inf))
        if wide < self.length - 1:
            most = max(most, min(self.tail(edge, wide), self._all_records(dp_loss)))
        return Leakage(best, max(best, most), adversary)

    def _one_side(self, moves: Floats, ends: Floats, fall: Floats, wide: int) -> _Side:
        """The leakage of the sum over one side, for every number of unknown records and every end."""
        k, mass = self.chain.size, ends
        now = ends[:, None, None, :] * fall[:, None]
        shape = (k, k, (wide + 1) * (k + 1))
        nothing = np.full((2, *shape), -np.inf)
        side = _Side(nothing[0].copy(), nothing, np.zeros(shape, dtype=np.bool_))
        together, waiting, masses = max(1, _AT_ONCE // now.size), list[Floats](), list[Floats]()
        for unknown in range(wide + 1):
            waiting.append(now)
            masses.append(mass)
            if len(waiting) == together or unknown == wide:
                last = (unknown + 1) * (k + 1)
                _compare(side, slice(last - len(waiting) * (k + 1), last), waiting, masses)
                waiting, masses = [], []
            if unknown < wide:
                now, mass = _moved(moves, _shifted(now, self.steps, fall)), moves @ mass
        return side

    def _width(self, ratios: float) -> int:
        """How many unknown records to a side can be looked at: W² windows with their ends, sums up to 2W steps."""
        return int((ratios / self._each_window) ** (1 / 3))

    @property
    def _each_window(self) -> int:
        """Ratios of a window of one record, for every end and every pair of values."""
        k = self.chain.size
        return max(1, k * (k - 1) * (k + 1) ** 2 * self._span)

    def _count(self, numbers: float) -> None:
        if self._work is not None:
            self._work.add(numbers)

    def _all_records(self, dp_loss: float) -> float:
        """All records together move the sum by no more than this, whatever is known."""
        return dp_loss * self.length * int(self.steps.max())

    def _windows(self, dp_loss: float, wide: int) -> Leakage:
        """The leakage of all windows with up to ``wide`` unknown records to a side, and a bound on wider ones."""
        k = self.chain.size
        top = int(self.steps.max()) * (min(2 * wide, self.length - 1) + 1)
        fall = np.exp(-dp_loss * np.arange(top + 1))  # how the density of the noise falls, at whole steps
        rows, known = self._left_sides(fall, wide)
        fits = self.fits(wide)
        best, adversary = 1.0, None
        edge = {side: np.zeros((k, k)) for side in ("left", "right", "both")}  # the widest windows, for the tail
        for first_left, first_right, density, possible in self._densities(rows, fall, wide):
            rights, lefts = len(density), density.shape[-1] // (k + 1)
            here = slice(first_left, first_left + lefts)
            fit = fits[first_right : first_right + rights, :, here]
            for x, y in itertools.combinations(range(k), 2):
                both = fit & (possible[:, :, x] & possible[:, :, y])[..., None, None] & known[x, here] & known[y, here]
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio = density[:, :, x] / density[:, :, y]
                    largest = ((x, y, ratio.max(axis=2)), (y, x, 1 / ratio.min(axis=2)))
                for likelier, other, most in largest:
                    shift = np.where(both, most.reshape(both.shape), 0.0)
                    place = int(np.argmax(shift))
                    if shift.flat[place] > best:
                        best = float(shift.flat[place])
                        right, v, left, u = (int(i) for i in np.unravel_index(place, shift.shape))
                        seen = ratio[right, v, :, left * (k + 1) + u]
                        seen = seen if likelier == x else 1 / seen
                        at = int(np.argmax(seen >= best * (1 - 1e-12)))  # the first: beyond the support all are alike
                        ends = (None if u == k else u, None if v == k else v)
                        adversary = Informed(first_left + left, first_right + right, *ends, likelier, other, at)
                    widest_left, widest_right = first_left + lefts > wide, first_right + rights > wide
                    if widest_left:
                        edge["left"][likelier, other] = max(edge["left"][likelier, other], shift[:, :, -1, :k].max())
                    if widest_right:
                        edge["right"][likelier, other] = max(edge["right"][likelier, other], shift[-1, :k].max())
                    if widest_left and widest_right:
                        edge["both"][likelier, other] = shift[-1, :k, -1, :k].max()
        lower = math.log(best)
        if wide >= self.length - 1:
            return Leakage(lower, lower, adversary)
        return Leakage(lower, max(lower, min(self.tail(edge, wide), self._all_records(dp_loss))), adversary)

    def _left_sides(self, fall: Floats, wide: int) -> tuple[Floats, Mask]:
        """Smoothed mass of the sum up to the target, given target and left end: [target, sum, (unknown, end)].

        And what is possible: [target, unknown, end].
        """
        moves = self.chain.transition
        mass = np.concatenate([moves, self.start[None]]).T  # [target, end]
        now = mass[:, None, None, :] * fall[:, None]
        sides, masses = [now], [mass]
        for _ in range(wide):
            now = _moved(moves.T, _shifted(now, self.steps, fall))
            mass = moves.T @ mass
            sides.append(now)
            masses.append(mass)
        whole, weight = np.stack(sides, axis=3)[:, 0], np.stack(masses, axis=1)
        _refuse_below(weight, _TINY)
        with np.errstate(divide="ignore", invalid="ignore"):
            whole = whole / weight[:, None]
        whole = np.where(weight[:, None] > 0, whole, 0.0).reshape(len(moves), len(fall), -1)
        return _shifted(whole[:, None], self.steps, fall)[:, 0], weight > 0

    def _densities(self, rows: Floats, fall: Floats, wide: int) -> Iterator[tuple[int, int, Floats, Mask]]:
        """Densities of the noisy sum over all windows, so many left and right sides at a time as a cache holds.

        The first numbers of unknown records to the left and right, then as from the right sides.
        """
        k = self.chain.size
        lefts = max(_LINE // (k + 1), _AT_ONCE // (k * k * (k + 1) * len(fall)), 1)
        for first in range(0, wide + 1, lefts):
            last = min(first + lefts, wide + 1) - 1
            top = int(self.steps.max()) * (last + wide + 1)  # no sum of these windows is larger
            part = rows[:, : top + 1, first * (k + 1) : (last + 1) * (k + 1)]
            for side in self._right_sides(part, fall, wide):
                yield first, *side

    def _right_sides(self, rows: Floats, fall: Floats, wide: int) -> Iterator[tuple[int, Floats, Mask]]:
        """Densities of the noisy sum over windows with these left sides, some right sides at a time.

        The first number of unknown records to the right, densities [unknown, end, target, sum, (unknown, end)] and
        what is possible: [unknown, end, target].
        """
        k, moves = self.chain.size, self.chain.transition
        ends = np.concatenate([moves, np.ones((k, 1))], axis=1).T
        now, mass = (
            np.zeros((k, *rows.shape)),
            np.eye(k),
        )  # [last state, target, …]: the right side begins at the target
        now[range(k), range(k)] = rows
        together = max(1, _AT_ONCE // now.size)
        waiting, masses = [], []
        for right in range(wide + 1):
            waiting.append(now)
            masses.append(mass)
            if len(waiting) == together or right == wide:
                weight = np.matmul(ends, np.stack(masses))
                _refuse_below(weight, _TINY)
                density = np.matmul(ends, np.stack(waiting).reshape(len(waiting), k, -1))
                density = density.reshape(len(waiting), k + 1, *rows.shape)
                with np.errstate(divide="ignore", invalid="ignore"):
                    density /= weight[..., None, None]
                yield right + 1 - len(waiting), density, weight > 0
                waiting, masses = [], []
            if right < wide:
                now, mass = _shifted(_moved(moves.T, now), self.steps, fall), moves.T @ mass

    def fits(self, wide: int) -> Mask:
        """Which windows fit into the series: [unknown to the right, right end, unknown to the left, left end].

        The last end of each kind is none at all.
        """
        if wide not in self._fitting:
            k, n = self.chain.size, self.length
            unknown = np.arange(wide + 1)
            latest = n - 2 - unknown[:, None] - unknown  # the last place for the left end that leaves one for the right
            fits = np.zeros((wide + 1, k + 1, wide + 1, k + 1), dtype=np.bool_)
            fits[:, :k, :, k] = (latest >= 0)[:, None]
            fits[:, k, :, k] = latest == -1
            fits[:, :k, :, :k] = (self._first <= latest[..., None])[:, None]
            low = max(0, n - 2 - 2 * wide)
            possible = np.array([self._supports.at(place + 1) for place in range(low, max(low + 1, n - 1))])
            fits[:, k, :, :k] = possible[np.maximum(latest - low, 0)] & (latest >= 0)[..., None]
            self._fitting[wide] = fits
        return self._fitting[wide]

    @cached_property
    def _supports(self) -> Supports:
        return Supports(self.start > 0, self.chain.transition > 0)

    @cached_property
    def _first(self) -> npt.NDArray[np.int64]:
        """The first record that can have each state; later than any record where none can."""
        first = np.full(self.chain.size, np.iinfo(np.int64).max)
        for position in range(min(self.length, self.chain.size), 0, -1):  # who comes at all comes within k steps
            first[self._supports.at(position)] = position
        return first

    def tail(self, edge: dict[str, Floats], wide: int) -> float:
        """What windows wider than ``wide`` can leak at most."""
        powers, shape = ratios_of(self.chain).powers, (self.chain.size, self.chain.size)
        logs = [powers.log(wide + 1 + more) for more in (0, 1)]
        rows, columns = ([largest_ratios(m).reshape(shape) for m in ms] for ms in ([m.T for m in logs], logs))
        right = _plus(rows[0], np.maximum(0.0, rows[1].T))
        # No 0 on the left: with nothing known the marginals stand in, and their ratio is a mean of these.
        left = _plus(columns[0], columns[1].T)
        worst = -math.inf
        for side, more in (("right", right), ("left", left), ("both", _plus(left, right))):
            with np.errstate(divide="ignore"):
                # No end so near may leave both values possible where one farther away does: infinite where it may.
                whole = np.where((edge[side] > 0) | (more == np.inf), _plus(np.log(edge[side]), more), -np.inf)
            np.fill_diagonal(whole, -np.inf)
            worst = max(worst, float(whole.max()))
        return worst


def _compare(side: _Side, here: slice, densities: list[Floats], masses: list[Floats]) -> None:
    """Enter what some numbers of unknown records tell: few are looked at together, as many as a cache holds."""
    k = len(masses[0])
    weight = np.stack(masses, axis=1).reshape(k, -1)
    _refuse_below(weight, _TINY)
    density = np.stack(densities, axis=3)[:, 0].reshape(k, -1, weight.shape[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(density / weight[:, None])
    for x, y in itertools.combinations(range(k), 2):
        both = (weight[x] > 0) & (weight[y] > 0)
        with np.errstate(invalid="ignore"):
            ratio = logs[x] - logs[y]
        for a, b, signed in ((x, y, ratio), (y, x, -ratio)):
            side.possible[a, b, here] = both
            side.most[a, b, here] = np.where(both, signed.max(axis=0, initial=-math.inf), -np.inf)
            side.corners[:, a, b, here] = np.where(both, signed[[0, -1]], -np.inf)


def _moved(moves: Floats, now: Floats) -> Floats:
    """One step of the chain: the first axis is the state."""
    return np.asarray((moves @ now.reshape(len(moves), -1)).reshape(now.shape))


def _shifted(smooth: Floats, steps: npt.NDArray[np.int64], fall: Floats) -> Floats:
    """Densities [state, :, sum, :], each state's moved up by its step; below its support one falls geometrically."""
    out = np.empty_like(smooth)
    for x, step in enumerate(steps.tolist()):
        out[x, :, step:] = smooth[x, :, : smooth.shape[2] - step]
        if step:
            out[x, :, :step] = smooth[x, :, :1] * fall[step:0:-1, None]
    return out


def _plus(a: Floats, b: Floats) -> Floats:
    """The sum of two log-ratios; one that is infinite stays so."""
    with np.errstate(invalid="ignore"):
        return np.where((a == np.inf) | (b == np.inf), np.inf, a + b)


def _refuse_below(probabilities: Floats, least: float) -> None:
    """What is smaller might be lost among the doubles, and with it a case that is possible."""
    if ((probabilities > 0) & (probabilities < least)).any():
        raise NotApplicableError(f"a probability is below {least:g}; exact leakage would not be exact")
