"""Exactly what a count plus whole noise of any law leaks, and the law with the least expected error.

A count moves by whole steps, so noise on it needs no shape but a probability for each whole number. Beyond a reach it
falls geometrically, so that finitely many outputs decide: further out all ratios are alike. For a window of unknown
records (see ``windows``) the law of its sum given the target is known, the density of the output is linear in the law
of the noise, and so is the promise: density given x ≤ e^ε · density given x'. The least expected error is therefore a
linear programme. It has a row for every window, every output and every pair of values; those that are needed are found
one by one. What comes out is checked again by all windows, whatever the solver says.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Mask
from pufferdp.basics.errors import NotApplicableError
from pufferdp.leakage.additive.windows import WindowLeakage
from pufferdp.leakage.laws.base import AnswerLaws
from pufferdp.models.chain import MarkovChain

_MOST_PRODUCTS: Final = 1.5e9
"""For one look at all windows: about a second."""
_ROUNDING: Final = 1e-11
"""More than rounding takes from a leakage: sums of some hundred positive products."""
_MOST_WORK: Final = 2.2e9
"""Products of all looks, after which the programme is left as it is: some seconds."""
_ONE_LOOK: Final = 3e7
"""What solving a programme costs, in products."""
_MIXED: Final = 1e-6
"""The share of geometric noise in every law."""
_MOST_ROWS: Final = 6000
"""Of more rows those are dropped that are farthest from deciding; they come back where they are missed."""
_ROWS: Final = 600
"""Rows added at a time for each pair of values, besides one for every output."""
_SETTLED: Final = 2e-7
"""A promise that is missed by less counts as kept while the programme is solved: its solver is no more exact."""
_HALVES: Final = 8
"""How often the way to a law that does not keep the promise is halved."""
_TINY: Final = 1e-200
_AT_ONCE: Final = 2_000_000
"""Densities looked at together."""


@dataclass(frozen=True, eq=False)
class WholeNoise:
    """Noise on a count: a probability for each whole number from −reach to reach, and geometric tails beyond."""

    masses: Floats
    """From −reach to reach."""
    tails: tuple[float, float]
    """Everything below −reach, and everything above reach."""
    ratio: float
    """Of neighbours in either tail, the outer to the inner."""

    @property
    def reach(self) -> int:
        """How far out the masses are listed."""
        return len(self.masses) // 2

    def at(self, numbers: npt.NDArray[np.int64]) -> Floats:
        """The probability of whole numbers."""
        inside = np.clip(numbers + self.reach, 0, len(self.masses) - 1)
        beyond = np.abs(numbers) - self.reach - 1
        outer = np.where(numbers < 0, *self.tails) * (1 - self.ratio) * self.ratio ** np.maximum(beyond, 0)
        return np.asarray(np.where(beyond < 0, self.masses[inside], outer))

    @cached_property
    def dp_loss(self) -> float:
        """The largest log-ratio of two neighbours: what differential privacy counts for one record."""
        around = np.arange(-self.reach - 2, self.reach + 3)
        with np.errstate(divide="ignore"):
            logs = np.log(self.at(around))
        return float(np.abs(np.diff(logs)).max()) + _ROUNDING

    @property
    def expected_absolute(self) -> float:
        """E|Z|."""
        inner = float(np.abs(np.arange(-self.reach, self.reach + 1)) @ self.masses)
        return inner + sum(self.tails) * (self.reach + 1 + self.ratio / (1 - self.ratio))


class ConditionalLaws:
    """Laws of a count given each value of a target, one set for each adversary, and how noise hides them."""

    def __init__(self, laws: Floats, possible: Mask, rounding: float = 0.0) -> None:
        self.laws = laws
        """[adversary, value, count]."""
        self.possible = possible
        """Which values the target can have: [adversary, value]."""
        self.rounding = rounding
        self.pairs = tuple(itertools.permutations(range(laws.shape[1]), 2))

    def products(self, reach: int) -> float:
        """What one look at all outputs costs."""
        return float(self.laws.size * (2 * reach + self.laws.shape[2] + 2))

    def outputs(self, reach: int) -> npt.NDArray[np.int64]:
        """Every output that matters: beyond them ratios stay as they are."""
        return np.arange(-reach - 1, reach + self.laws.shape[2] + 1)

    def ratios(self, noise: WholeNoise) -> Iterator[tuple[slice, int, Floats]]:
        """Log-ratios of the densities of outputs: some adversaries at a time, a pair of values, [adversary, output]."""
        outputs, counts = self.outputs(noise.reach), np.arange(self.laws.shape[2])
        shape = noise.at(outputs[None, :] - counts[:, None])
        together = max(1, _AT_ONCE // (len(outputs) * self.laws.shape[1]))
        for first in range(0, len(self.laws), together):
            here = slice(first, first + together)
            with np.errstate(divide="ignore"):
                logs = np.log(self.laws[here] @ shape)
            for pair, (x, y) in enumerate(self.pairs):
                both = self.possible[here, x] & self.possible[here, y]
                with np.errstate(invalid="ignore"):
                    yield here, pair, np.where(both[:, None], logs[:, x] - logs[:, y], -np.inf)

    def largest(self, noise: WholeNoise) -> Floats:
        """The largest log-ratio of every adversary: [pair, adversary]."""
        out = np.full((len(self.pairs), len(self.laws)), -np.inf)
        for here, pair, ratios in self.ratios(noise):
            out[pair, here] = ratios.max(axis=1)
        return out

    def upper(self, noise: WholeNoise) -> float:
        """What leaks at most."""
        return max(0.0, float(self.largest(noise).max(initial=0.0))) + 2 * self.rounding + _ROUNDING


class WindowLaws(ConditionalLaws):
    """Every window of a chain with up to ``wide`` unknown records to a side; wider ones are bounded."""

    def __init__(self, chain: MarkovChain, length: int, steps: npt.NDArray[np.int64], wide: int) -> None:
        self._window = WindowLeakage(chain, length, steps)
        self._wide, self._whole = wide, wide >= length - 1
        k, moves, start = chain.size, np.asarray(chain.transition), self._window.start
        left, left_weight = _side_laws(moves.T, np.concatenate([moves, start[None]]).T, steps, wide)
        right, right_weight = _side_laws(moves, np.concatenate([moves, np.ones((k, 1))], axis=1), steps, wide)
        possible = (left_weight[:, None] > 0) & (right_weight[:, :, None] > 0)  # [value, right, left]
        sides = (wide + 1) * (k + 1)
        fits = self._window.fits(wide).reshape(sides, sides) & (possible.sum(axis=0) > 1)
        at_right, at_left = np.nonzero(fits)
        counts, span = left.shape[2], int(steps.max())
        laws = np.zeros((len(at_left), k, 2 * counts - 1 + span))
        for x in range(k):
            both = np.zeros((len(at_left), 2 * counts - 1))
            for more in range(counts):
                both[:, more : more + counts] += right[x, at_right, more][:, None] * left[x, at_left]
            laws[:, x, steps[x] : steps[x] + both.shape[1]] = both
        super().__init__(laws, possible[:, at_right, at_left].T)
        # The widest windows with a known end there bound those that are wider still.
        self._edges = {
            "left": (at_left // (k + 1) == wide) & (at_left % (k + 1) < k),
            "right": (at_right // (k + 1) == wide) & (at_right % (k + 1) < k),
        }
        self._edges["both"] = self._edges["left"] & self._edges["right"]

    def upper(self, noise: WholeNoise) -> float:
        """What leaks at most: to those who know the ends of windows, and to all whose windows are wider."""
        largest = self.largest(noise)
        most = max(0.0, float(largest.max(initial=0.0)))
        if not self._whole:
            k = self.laws.shape[1]
            edges = {side: np.zeros((k, k)) for side in self._edges}
            for side, widest in self._edges.items():
                for pair, (x, y) in enumerate(self.pairs):
                    edges[side][x, y] = math.exp(largest[pair, widest].max(initial=-math.inf))
            most = max(most, self._window.tail(edges, self._wide))
        return most + _ROUNDING


def width_of(chain: MarkovChain, length: int, steps: npt.NDArray[np.int64], share: float) -> int:
    """How many unknown records to a side are looked at, so that wider windows add at most ``share`` to a leakage."""
    window, k = WindowLeakage(chain, length, steps), chain.size
    even = {side: np.ones((k, k)) for side in ("left", "right", "both")}
    wide = 1
    while wide < length - 1 and window.tail(even, wide) > share:
        wide += 1 + wide // 8
        if (wide + 1) ** 2 * (k + 1) ** 2 * k * (2 * wide + 2) ** 2 > _MOST_PRODUCTS:
            raise NotApplicableError(
                f"records show in others {wide} steps away, and all windows as wide take too long to look at"
            )
    return min(wide, length - 1)


def record_laws(laws: AnswerLaws) -> ConditionalLaws:
    """For somebody who knows no record: the laws given each value of each record."""
    rows = list(laws.records())
    values, points = max(len(row.states) for row in rows), np.asarray(laws.points, dtype=np.int64)
    table, possible = np.zeros((len(rows), values, int(points.max()) + 1)), np.zeros((len(rows), values), dtype=bool)
    for n, row in enumerate(rows):
        table[n, : len(row.states), points] = np.exp(row.logs).T
        possible[n, : len(row.states)] = True
    return ConditionalLaws(table, possible, laws.error)


def _side_laws(moves: Floats, ends: Floats, steps: npt.NDArray[np.int64], wide: int) -> tuple[Floats, Floats]:
    """The law of the sum over one side given the target: [target, (unknown, end), sum]; and how likely its end is."""
    k, top = len(moves), wide * int(steps.max()) + 1
    now = np.zeros((k, k + 1, top))
    now[:, :, 0] = ends
    sides = [now]
    for _ in range(wide):
        moved = np.zeros_like(now)
        for x, step in enumerate(steps.tolist()):
            moved[x, :, step:] = now[x, :, : top - step]
        now = np.tensordot(moves, moved, axes=1)
        sides.append(now)
    laws = np.stack(sides, axis=1).reshape(k, (wide + 1) * (k + 1), top)
    weights = laws.sum(axis=2)
    if ((weights > 0) & (weights < _TINY)).any():
        raise NotApplicableError(f"a window has a probability below {_TINY:g}; its law would not be exact")
    return np.asarray(laws / np.where(weights > 0, weights, 1.0)[..., None]), weights


def least_error(tables: Sequence[ConditionalLaws], epsilon: float, loss: float, reach: int) -> WholeNoise:
    """The law with the least expected error that keeps epsilon, up to what the solver lets pass.

    Where that takes too long, Laplace noise is moved towards the last solution as far as epsilon is kept.

    Args:
        tables: whom the promise is for.
        epsilon: what may leak, and what one record alone may show when all others are known.
        loss: a DP loss at which geometric noise keeps epsilon: as fast do the tails fall.
        reach: how far out each whole number has a probability of its own.
    """
    programme, work = _Programme(epsilon, loss, reach), 0.0
    outside = programme.solve()
    while sum([programme.add(table, outside) for table in tables]):
        outside = programme.solve()
        work += sum(table.products(reach) + _ONE_LOOK for table in tables)
        if work > _MOST_WORK:
            return _toward(geometric(loss, reach), outside, tables, epsilon)
    return outside


def _toward(inside: WholeNoise, outside: WholeNoise, tables: Sequence[ConditionalLaws], epsilon: float) -> WholeNoise:
    """From a law that keeps epsilon towards one that does not, as far as it is kept: those that keep it are convex."""
    for _ in range(_HALVES):
        middle = _mixed(inside, outside)
        if all(float(table.largest(middle).max(initial=0.0)) <= epsilon for table in tables):
            inside = middle
        else:
            outside = middle
    return inside


def geometric(loss: float, reach: int) -> WholeNoise:
    """Discrete Laplace noise as such a law."""
    q, numbers = math.exp(-loss), np.arange(-reach, reach + 1)
    tail = q ** (reach + 1) / (1 + q)
    return WholeNoise((1 - q) / (1 + q) * q ** np.abs(numbers).astype(float), (tail, tail), q)


def _mixed(one: WholeNoise, other: WholeNoise) -> WholeNoise:
    """Each half of the time; both have tails of one ratio."""
    tails = [(a + b) / 2 for a, b in zip(one.tails, other.tails, strict=True)]
    return WholeNoise((one.masses + other.masses) / 2, (tails[0], tails[1]), one.ratio)


class _Programme:
    """The linear programme with the rows found so far.

    Its unknowns are masses over those of the last solution: they are of one size, so that the solver, which takes
    coefficients below 1e-9 for 0 and lets a row be missed by 1e-7, sees tiny masses as well as large ones. Beyond the
    reach a mass belongs to the unknown at the nearest end.
    """

    def __init__(self, epsilon: float, loss: float, reach: int) -> None:
        self._epsilon, self._loss, self._reach, self._ratio = epsilon, loss, reach, math.exp(-loss)
        size = 2 * reach + 1
        self._numbers = np.abs(np.arange(-reach, reach + 1)).astype(float)
        # Geometric noise keeps the promise, so a little of it mixed in does no harm, and keeps every mass above 0.
        self._sizes = np.exp(-loss * self._numbers)
        self._sizes /= self._sizes.sum()
        self._least = _MIXED * self._sizes
        # One record alone, all others known: neighbours differ by a factor of at most e^epsilon.
        one, next_one = np.eye(size - 1, size), np.eye(size - 1, size, 1)
        self._always = np.concatenate([one - math.exp(epsilon) * next_one, next_one - math.exp(epsilon) * one])
        self._rows = np.zeros((0, size))

    def add(self, table: ConditionalLaws, noise: WholeNoise) -> int:
        """Add the rows that the noise misses: of the worst adversaries, and of the worst one at every output."""
        outputs, allowed = table.outputs(self._reach), self._epsilon + _SETTLED
        missed: list[dict[tuple[int, int], float]] = [{} for _ in table.pairs]
        for here, pair, ratios in table.ratios(noise):
            for axis in (0, 1):
                values, places = ratios.max(axis=axis), ratios.argmax(axis=axis)
                for n in np.flatnonzero(values > allowed).tolist():
                    adversary, output = (int(places[n]), n) if axis == 0 else (n, int(places[n]))
                    missed[pair][adversary + here.start, output] = float(values[n])
        for (x, y), found in zip(table.pairs, missed, strict=True):
            worst = sorted(found, key=lambda place: -found[place])[: _ROWS + len(outputs)]
            if worst:
                gaps = np.stack([table.laws[n, x] - math.exp(self._epsilon) * table.laws[n, y] for n, _ in worst])
                self._rows = np.concatenate([self._rows, self._rows_of(gaps, outputs[[o for _, o in worst]])])
        return sum(len(found) for found in missed)

    def _rows_of(self, gaps: Floats, outputs: npt.NDArray[np.int64]) -> Floats:
        """Density given one value minus e^epsilon times that given the other, by masses."""
        numbers = outputs[:, None] - np.arange(gaps.shape[1])
        inside = np.clip(numbers, -self._reach, self._reach)
        rows = np.zeros((len(gaps), 2 * self._reach + 1))
        falls = self._ratio ** np.abs(numbers - inside)
        np.add.at(rows, (np.arange(len(gaps))[:, None], inside + self._reach), gaps * falls)
        return rows

    def solve(self) -> WholeNoise:
        """The best law under the rows so far."""
        from scipy.optimize import linprog  # half a second to import

        beyond = np.zeros_like(self._sizes)
        beyond[[0, -1]] = self._ratio / (1 - self._ratio)
        rows = _scaled(np.concatenate([self._always, self._rows]) * self._sizes)
        done = linprog(
            (self._numbers * (1 + beyond) + beyond / (1 - self._ratio)) * self._sizes,
            A_ub=rows,
            b_ub=np.zeros(len(rows)),
            A_eq=((1 + beyond) * self._sizes)[None],
            b_eq=[1.0],
            bounds=[(float(least), None) for least in self._least / self._sizes],
            method="highs",
        )
        if done.x is None:
            raise NotApplicableError(f"the linear programme of the noise has no solution: {done.message}")
        if len(self._rows) > _MOST_ROWS:
            slack = -(rows[len(self._always) :] @ done.x)
            self._rows = self._rows[slack <= np.partition(slack, _MOST_ROWS // 2)[_MOST_ROWS // 2]]
        masses = _no_steeper(np.maximum(done.x * self._sizes, self._least), self._epsilon)
        tails = masses[[0, -1]] * self._ratio / (1 - self._ratio)
        total = float(masses.sum() + tails.sum())
        self._sizes = masses / total
        return WholeNoise(self._sizes, (float(tails[0]) / total, float(tails[1]) / total), self._ratio)


def _no_steeper(masses: Floats, loss: float) -> Floats:
    """The least masses from these on of which neighbours differ by a factor of at most e^loss."""
    out, fall = masses.copy(), math.exp(-loss)
    for n in range(1, len(out)):
        out[n] = max(out[n], out[n - 1] * fall)
    for n in range(len(out) - 2, -1, -1):
        out[n] = max(out[n], out[n + 1] * fall)
    return out


def _scaled(rows: Floats) -> Floats:
    """Rows whose largest entry is 1, its sign apart."""
    return np.asarray(rows / np.abs(rows).max(axis=1, keepdims=True))
