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

Who knows all other records has windows of no unknown record, and there is nothing wider to bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.checks import Adversary
from pufferdp.errors import NotApplicableError, ParameterError
from pufferdp.leakage.ratios import largest_ratios, ratios_of
from pufferdp.leakage.starts import Supports, start_of
from pufferdp.models.markov import MarkovChain

Floats = npt.NDArray[np.float64]

_FIRST: Final = 24
"""Unknown records to a side that are looked at first; more only where the bracket stays open."""
_MOST: Final = 400
_CLOSED: Final = 1e-10
"""The bracket is closed when its ends are this near, relative to the leakage."""
_DEEP: Final = 600.0
"""exp(-700) is the end of doubles: windows are no wider than the noise can be told from 0 across."""


@dataclass(frozen=True)
class Informed:
    """Who learns most: how much is unknown around the target, what is known at the ends, and what gives it away."""

    left: int
    """Unknown records to the left of the target."""
    right: int
    left_end: int | None
    """State of the known record left of the window; None where the window reaches the first record."""
    right_end: int | None
    likelier: int
    """The state of the target that the output speaks for, and"""
    other: int
    """the one it speaks against."""
    output: int
    """The sum over the window, counted from the smallest possible, that an adversary would like to see."""


@dataclass(frozen=True)
class Leakage:
    """A bracket around the leakage: it is at least ``lower``, reached by ``adversary``, and at most ``upper``."""

    lower: float
    upper: float
    adversary: Informed | None


class WindowLeakage:
    """Sums of ``steps[state]`` over a chain with a definite start, plus noise of scale 1/tau steps."""

    def __init__(
        self, chain: MarkovChain, length: int, steps: npt.ArrayLike, adversary: Adversary = Adversary.BDP
    ) -> None:
        if adversary is Adversary.PUFFERFISH:
            raise ParameterError("who knows no record has no window; use NothingKnown")
        if chain.any_start:
            raise NotApplicableError("exact leakage needs a chain with a definite start")
        self.chain, self.length, self.adversary = chain, length, adversary
        self.steps = np.asarray(steps, dtype=np.int64) - int(np.min(np.asarray(steps)))
        self.start = chain.stationary if chain.given_start is None else chain.given_start

    def at(self, tau: float) -> Leakage:
        """The leakage when the noise has scale 1/tau."""
        if self.adversary is Adversary.DP:
            found = self._windows(tau, 0)
            return replace(found, upper=found.lower)
        limit = self.length - 1
        span = max(1, int(self.steps.max()))
        deepest = max(1, int((_DEEP / tau / span - 1) / 2)) if tau > 0 else _MOST
        wide = min(_FIRST, limit)
        while True:
            found = self._windows(tau, min(wide, limit))
            open_end = found.upper - found.lower > _CLOSED * max(found.lower, 1e-3)
            if not open_end or wide >= min(limit, _MOST, deepest):
                return found
            wide = min(int(wide * 1.6) + 1, limit, _MOST, deepest)

    def _windows(self, tau: float, wide: int) -> Leakage:
        k, n = self.chain.size, self.length
        q = math.exp(-tau)
        moves, steps = self.chain.transition, self.steps
        top = int(steps.max()) * (min(2 * wide, n - 1) + 1)
        forward = self._left_sides(q, wide, top)
        rows, mass = self._with_target(forward, q)
        ends = np.concatenate([moves, np.ones((k, 1))], axis=1).T
        best, who = 0.0, None
        pairs = [(x, y) for x in range(k) for y in range(k) if x != y]
        edge = {}  # leakage of the widest windows by pair, for the tail
        for right in range(wide + 1):
            density, weight = np.matmul(ends, rows), np.matmul(ends, mass[..., None])[..., 0]
            with np.errstate(divide="ignore", invalid="ignore"):
                density = density / weight[..., None]
            allowed = self._allowed(wide, right)
            for x, y in pairs:
                both = allowed & (weight[:, :, x] > 0) & (weight[:, :, y] > 0)
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio = np.where(both, (density[:, :, x] / density[:, :, y]).max(axis=-1), 0.0)
                worst = float(ratio.max())
                if worst > 0 and math.log(worst) > best:
                    best = math.log(worst)
                    left, u, v = (int(i) for i in np.unravel_index(int(np.argmax(ratio)), ratio.shape))
                    at = int(np.argmax(density[left, u, x, v] / density[left, u, y, v]))
                    who = Informed(left, right, None if u == k else u, None if v == k else v, x, y, at)
                closed = ratio[:, :, :k]
                if right == wide:
                    edge["right", x, y] = closed.max()
                    edge["both", x, y] = closed[wide, :k].max()
                edge["left", x, y] = max(edge.get(("left", x, y), 0.0), ratio[wide, :k].max())
            if right < wide:
                rows = np.matmul(moves.T, rows)
                rows = np.stack([_shift(rows[..., z, :], int(steps[z]), q) for z in range(k)], axis=-2)
                mass = mass @ moves
        # All records together move the sum by no more than this, whatever is known.
        most = tau * n * int(steps.max())
        upper = best if wide >= n - 1 else max(best, min(self._tail(edge, wide, pairs), most))
        return Leakage(best, upper, who)

    def _left_sides(self, q: float, wide: int, top: int) -> tuple[Floats, Floats]:
        """Smoothed mass of the sum over the left side, jointly with the target: [unknown, end, target, sum]."""
        k, moves = self.chain.size, self.chain.transition
        mass = np.concatenate([moves, self.start[None]])
        now = mass[:, :, None] * q ** np.arange(top + 1)
        sides, masses = [now], [mass]
        for _ in range(wide):
            moved = np.stack([_shift(now[:, x], int(self.steps[x]), q) for x in range(k)], axis=1)
            now = np.matmul(moves.T, moved)
            mass = mass @ moves
            sides.append(now)
            masses.append(mass)
        return np.array(sides), np.array(masses)

    def _with_target(self, sides: tuple[Floats, Floats], q: float) -> tuple[Floats, Floats]:
        """Rows [unknown, end, target] × [last state, sum]: the right side begins at the target itself."""
        k = self.chain.size
        smooth, mass = sides
        rows = np.zeros((*smooth.shape[:3], k, smooth.shape[3]))
        masses = np.zeros((*mass.shape, k))
        for x in range(k):
            rows[:, :, x, x] = _shift(smooth[:, :, x], int(self.steps[x]), q)
            masses[:, :, x, x] = mass[:, :, x]
        return rows, masses

    def _allowed(self, wide: int, right: int) -> npt.NDArray[np.bool_]:
        """Which windows fit into the series: [unknown to the left, left end, right end]; the last end is none."""
        k, n = self.chain.size, self.length
        fits = np.zeros((wide + 1, k + 1, k + 1), dtype=bool)
        for left in range(wide + 1):
            latest = n - left - right - 2  # the last place for the left end that leaves one for the right end
            fits[left, k, :k] = latest >= 0
            fits[left, k, k] = left + right + 1 == n
            fits[left, :k, :k] = (self._first <= latest)[:, None]
            if latest >= 0:
                fits[left, :k, k] = self._supports.at(latest + 1)
        return fits

    @cached_property
    def _supports(self) -> Supports:
        return start_of(self.chain, ratios_of(self.chain), self.length).supports

    @cached_property
    def _first(self) -> npt.NDArray[np.int64]:
        """The first record that can have each state; later than any record where none can."""
        first = np.full(self.chain.size, np.iinfo(np.int64).max)
        for position in range(min(self.length, self.chain.size), 0, -1):  # who comes at all comes within k steps
            first[self._supports.at(position)] = position
        return first

    def _tail(self, edge: dict[tuple[str, int, int], float], wide: int, pairs: list[tuple[int, int]]) -> float:
        """What windows wider than ``wide`` can leak at most."""
        powers, shape = ratios_of(self.chain).powers, (self.chain.size, self.chain.size)
        logs = [powers.log(wide + 1 + more) for more in (0, 1)]
        rows, columns = ([largest_ratios(m).reshape(shape) for m in ms] for ms in ([m.T for m in logs], logs))
        worst = 0.0
        for x, y in pairs:
            right = _plus(rows[0][x, y], max(0.0, rows[1][y, x]))
            # No 0 on the left: with nothing known the marginals stand in, and their ratio is a mean of these.
            left = _plus(columns[0][x, y], columns[1][y, x])
            for side, more in (("right", right), ("left", left), ("both", _plus(left, right))):
                if edge[side, x, y] > 0:
                    worst = max(worst, math.log(edge[side, x, y]) + more)
                elif more == np.inf:  # no end so near leaves both values possible; one farther away may
                    worst = np.inf
        return worst


def _shift(smooth: Floats, step: int, q: float) -> Floats:
    """The density moved up by a step; below its support it falls geometrically."""
    if step == 0:
        return smooth
    out = np.empty_like(smooth)
    out[..., step:] = smooth[..., :-step]
    out[..., :step] = smooth[..., :1] * q ** np.arange(step, 0, -1)
    return out


def _plus(a: float, b: float) -> float:
    """The sum of two log-ratios; one that is infinite stays so."""
    return math.inf if math.inf in (a, b) else float(a + b)
