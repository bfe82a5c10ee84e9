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
from pufferdp.leakage.additive.sides import DEEP, TINY, Fit, corner_side, one_side, refuse_below
from pufferdp.leakage.chains.powers import largest_ratios, ratios_of
from pufferdp.leakage.chains.starts import Supports
from pufferdp.models.chain import MarkovChain

_FIRST: Final = 2.5e5
"""So many ratios are taken at first: 24 unknown records to a side for two states and a count."""
_MOST: Final = 6e7
"""So many where the bracket stays open, about a second: 150 unknown records to a side for two states and a count,
34 for six states."""
_MOST_SIDES: Final = 3e7
"""So many pairs of sides are put together one by one, where the states possible change from record to record."""
_MOST_NUMBERS: Final = 1.2e7
"""So many densities of a side are looked at, a fifth of a second: of a thousand unknown records to a side for three
states and a count, of 22 for three states whose values lie two thousand steps apart."""
_MOST_WORK: Final = 8e8
"""So much work may be done until one question is answered: five to ten seconds."""
_DENSITY: Final = 8
"""A density of a side takes about so many times as long as a ratio of a window or a pair of sides."""
_NARROW: Final = 4
"""Fewer unknown records to a side are not worth a look of their own."""
_CLOSED: Final = 1e-10
"""The bracket is closed when its ends are this near, relative to the leakage."""
_OPEN: Final = 1e-6
"""What is above what is allowed by more than this share is not taken for it, whoever reads the bracket."""
_LEAST: Final = 1e-20
"""No step is smaller than this, so no mass falls from above ``TINY`` to 0 unseen."""
_AT_ONCE: Final = 100_000
"""Windows are looked at together up to so many numbers: few calls where they are small, and no more than a cache holds
where they are large."""
_LINE: Final = 96
"""Shorter rows of numbers slow numpy down."""


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
        return self._within(_CLOSED)

    @property
    def nearly_closed(self) -> bool:
        """Whether it has closed but for rounding."""
        return self._within(2 * _CLOSED)

    def _within(self, share: float) -> bool:
        return self.upper - self.lower <= share * max(self.lower, 1e-3)


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
        self._fitting_sides: dict[int, list[Fit]] = {}
        self._needed = self._sides_needed = _NARROW  # how wide windows and sides had to be the last time
        for table in (chain.transition, self.start):
            refuse_below(table, _LEAST)

    def at(self, dp_loss: float) -> Leakage:
        """The leakage when the noise has scale 1/tau."""
        if (
            self._deepest(dp_loss) < 0
        ):  # hardly any noise: nothing better is known than that all records together move the sum
            return Leakage(0.0, self._all_records(dp_loss), None)
        sides = self._by_sides(dp_loss)
        if sides.closed:
            return sides
        widest = self._widest_window(dp_loss)
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

    def at_least(self, dp_loss: float) -> float | None:
        """What outputs beyond all sums tell: quick, mostly the leakage itself. None where doubles do not hold it."""
        corners = self._corner_sides(dp_loss, self._widest_side(dp_loss))
        return None if corners is None else self._reached(*corners, dp_loss)

    def open_at(self, dp_loss: float, allowed: float) -> Leakage | None:
        """A bracket around what is allowed, where it is clear beforehand that none looked at would decide; or None.

        Asked where outputs beyond all sums just leak what is allowed. The bound on wider windows is too large then, if
        what such outputs tell is put in place of the widest windows looked at, whichever way; and no window that is
        looked at output by output leaks too much, because its sides do not.
        """
        narrow, wide = self._widest_window(dp_loss), self._widest_side(dp_loss)
        if wide >= self.length - 1 or wide < narrow:
            return None
        for width in (narrow, wide):
            corners = self._corner_sides(dp_loss, width)
            if corners is None or self._corner_tail(*corners, dp_loss) <= allowed * (1 + _OPEN):
                return None
        assert corners is not None
        self._count(_DENSITY * self._each_density * max(narrow, 1) ** 2)
        _, most, tail, _ = self._from_sides(dp_loss, narrow)
        reached = self._reached(*corners, dp_loss)
        return None if max(reached, most) > allowed or tail <= allowed else Leakage(reached, tail, None)

    def _corner_sides(self, dp_loss: float, wide: int) -> tuple[Floats, Floats] | None:
        """From outputs beyond all sums: what the sides tell."""
        left, right = (corner_side(*way, self.steps, dp_loss, wide) for way in self._ways)
        return None if left is None or right is None else (left, right)

    def _reached(self, left: Floats, right: Floats, dp_loss: float) -> float:
        """What outputs beyond all sums tell of windows with such sides."""
        own = self._own(dp_loss)
        return max(0.0, float((self._largest(left, right) + np.stack([-own, own])).max()))

    def _corner_tail(self, left: Floats, right: Floats, dp_loss: float) -> float:
        """At least so much is said of windows wider than these."""
        return self._tail_of(left.max(axis=0), right.max(axis=0), dp_loss)

    def _may_close(self, dp_loss: float, wide: int) -> bool:
        """Whether sides of up to ``wide`` unknown records can close the bracket, for all that their corners say."""
        corners = self._corner_sides(dp_loss, wide)
        if corners is None:
            return True
        reached = self._reached(*corners, dp_loss)
        return Leakage(reached, max(reached, self._corner_tail(*corners, dp_loss)), None).nearly_closed

    def _by_sides(self, dp_loss: float) -> Leakage:
        """A bracket from the leakage of single sides, as wide as it takes to close it, or as can be looked at."""
        widest = self._widest_side(dp_loss)
        wide = min(max(self._sides_needed, _NARROW), widest)
        while True:
            if wide < widest and not self._may_close(dp_loss, wide):
                wide = min(2 * wide, widest)
                continue
            self._count(_DENSITY * self._each_density * max(wide, 1) ** 2)
            leakage = self._sides(dp_loss, wide)
            if wide == widest or leakage.closed:
                self._sides_needed = wide
                return leakage
            wide = min(2 * wide, widest)

    def _widest_side(self, dp_loss: float) -> int:
        """So many unknown records to a side are looked at."""
        k = self.chain.size
        most = _MOST_NUMBERS / self._each_density
        if not self._always_possible:
            most = min(most, _MOST_SIDES / max(1, k * (k - 1) * (k + 1) ** 2))
        return int(min(self.length - 1, math.sqrt(most), max(0.0, self._deepest(dp_loss))))

    def _widest_window(self, dp_loss: float) -> int:
        """So many, where windows are looked at output by output."""
        return int(min(self.length - 1, self._width(_MOST), self._deepest(dp_loss)))

    def _deepest(self, dp_loss: float) -> float:
        """So many, before densities fall below what a double can hold; below 0: there is hardly any noise."""
        return (DEEP / dp_loss / self._span - 1) / 2 if dp_loss > 0 else math.inf

    def _sides(self, dp_loss: float, wide: int) -> Leakage:
        """The bracket from sides of up to ``wide`` unknown records, and from a bound on wider ones."""
        best, most, tail, adversary = self._from_sides(dp_loss, wide)
        return Leakage(best, max(best, most, tail), adversary)

    def _from_sides(self, dp_loss: float, wide: int) -> tuple[float, float, float, Informed | None]:
        """What windows with such sides leak at least and at most, what wider ones do at most, and who learns it."""
        left, right = (one_side(*way, self.steps, dp_loss, wide) for way in self._ways)
        own = self._own(dp_loss)
        reached = self._largest(left.corners, right.corners) + np.stack([-own, own])
        corner, x, y = (int(i) for i in np.unravel_index(int(np.argmax(reached)), reached.shape))
        best, adversary = float(reached[corner, x, y]), None
        if best > 0:
            a, u, b, v = self._place(left.corners[corner, x, y], right.corners[corner, x, y])
            ends = [None if end == self.chain.size else end for end in (u, v)]
            adversary = Informed(a, b, ends[0], ends[1], x, y, corner * self._span * (a + b + 1))
        most = float((self._largest(left.most, right.most) + np.abs(own)).max())
        tail = -math.inf if wide >= self.length - 1 else self._tail_of(left.most, right.most, dp_loss)
        return max(0.0, best), most, tail, adversary

    @cached_property
    def _ways(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """To the left and to the right: the moves away from the target, and how a side ends; the last way is open."""
        k, moves = self.chain.size, np.asarray(self.chain.transition)
        left = np.ascontiguousarray(moves.T), np.concatenate([moves, self.start[None]]).T
        return left, (moves, np.concatenate([moves, np.ones((k, 1))], axis=1))

    def _own(self, dp_loss: float) -> Floats:
        """By how much the target itself makes a large output likelier: [likelier, other]."""
        return np.asarray(dp_loss * np.subtract.outer(self.steps, self.steps))

    def _tail_of(self, left: Floats, right: Floats, dp_loss: float) -> float:
        """The bound on windows wider than these, from what the widest of these leak, side by side."""
        k, wide, edge, own = self.chain.size, left.shape[-2] - 1, {}, np.abs(self._own(dp_loss))
        outer = [np.full_like(side, -np.inf) for side in (left, right)]
        for part, side in zip(outer, (left, right), strict=True):
            part[..., wide, :k] = side[..., wide, :k]
        for name, pair in (("left", (outer[0], right)), ("right", (left, outer[1])), ("both", (outer[0], outer[1]))):
            with np.errstate(over="ignore"):
                edge[name] = np.exp(self._largest(*pair) + own)
        return min(self.tail(edge, wide), self._all_records(dp_loss))

    def _largest(self, left: Floats, right: Floats) -> Floats:
        """The largest sum of two sides that fit into the series together: […, likelier, other]."""
        return np.asarray(np.max([fit.largest(left, right) for fit in self._fits(left.shape[-2] - 1)], axis=0))

    def _place(self, left: Floats, right: Floats) -> tuple[int, int, int, int]:
        """Where one pair of values has it: unknown records and end, left and right."""
        largest = float(self._largest(left, right))
        return next(filter(None, (fit.place(left, right, largest) for fit in self._fits(len(left) - 1))))

    def _fits(self, wide: int) -> list[Fit]:
        """Which sides fit into the series together (see ``fits``): what is possible depends on both together alone."""
        if wide not in self._fitting_sides:
            k, n, unknown = self.chain.size, self.length, np.arange(2 * wide + 1)
            latest, known = n - 2 - unknown, tuple(range(k))
            found: dict[tuple[bytes, tuple[int, ...]], list[int]] = {}
            for u in known:
                found.setdefault(((self._first[u] <= latest).tobytes(), known), []).append(u)
                there = latest >= 0
                if not self._always_possible:
                    there[there] = [bool(self._supports.at(int(place) + 1)[u]) for place in latest[there]]
                found.setdefault((there.tobytes(), (k,)), []).append(u)
            found.setdefault(((latest >= 0).tobytes(), known), []).append(k)
            found.setdefault(((latest == -1).tobytes(), (k,)), []).append(k)
            self._fitting_sides[wide] = [
                Fit(tuple(left), right, np.frombuffer(mask, dtype=np.bool_)) for (mask, right), left in found.items()
            ]
        return self._fitting_sides[wide]

    @cached_property
    def _always_possible(self) -> bool:
        """Whether every record can have every state."""
        return bool((self.start > 0).all() and (np.asarray(self.chain.transition) > 0).any(axis=0).all())

    def _width(self, ratios: float) -> int:
        """How many unknown records to a side can be looked at: W² windows with their ends, sums up to 2W steps."""
        return int((ratios / self._each_window) ** (1 / 3))

    @property
    def _each_window(self) -> int:
        """Ratios of a window of one record, for every end and every pair of values."""
        k = self.chain.size
        return max(1, k * (k - 1) * (k + 1) ** 2 * self._span)

    @property
    def _each_density(self) -> int:
        """Densities of a side of one record, for every end and value."""
        return self.chain.size * (self.chain.size + 1) * self._span

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
        refuse_below(weight, TINY)
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
                refuse_below(weight, TINY)
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
