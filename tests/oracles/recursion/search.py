"""The search over μ: brackets of both sides of targets, narrowed until the worst target is known to a tolerance.

A target adds up its own loss and both of its sides (Theorem 2). Each side has a profile: for every end the smallest
upper and the largest lower bound of all passes so far. A search starts with μ that are spread evenly, and goes on with
μ at the levels that matter: where an end would have to be bounded for its target to stay within the goal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from tests.oracles.recursion.passes import Lane, Rows, follow, reach, schedule

GRID: Final = 24
"""Values of μ that are followed together: the cost of a pass grows with their number, the number of passes falls."""
_SCREEN: Final = 12
"""The same where a target must only be shown to leak no more than another one."""
_STALLED: Final = 0.01
"""A pass that lowers the bound by a smaller share of the tolerance has met the error of blocks, or the rounding."""
_ROUNDS: Final = 12
"""Passes after which a bracket that is still open is given back as it is."""
_LARGEST_LOG: Final = 600.0
"""Logarithms of μ that are tried: beyond them group privacy is the bound."""
_REACHED: Final = 4
"""Targets whose worst algorithms are followed where blocks give upper bounds only."""
ENDLESS: Final = 1 << 40
"""The number of records on a side that has no end."""


@dataclass(frozen=True, eq=False)
class Targets:
    """Records that are attacked, each with a pair of values and two sides.

    A side is a row of its profile and a number of records. Targets may share rows.
    """

    own: Floats
    """(J,): the target's own loss."""
    row: Ints
    """(2, J): rows of the profiles before and after."""
    records: Ints
    """(2, J): records on either side; ``ENDLESS``: any number."""

    def pick(self, at: Ints | Mask) -> Targets:
        """Return some of the targets."""
        return Targets(self.own[at], self.row[:, at], self.records[:, at])


class Profile:
    """What is known about all ends of one side of some rows; logarithms, ends as in ``recursion.Ends``."""

    def __init__(self, lane: Lane, rows: Rows, depth: int, resolution: int) -> None:
        self.lane, self.rows = lane, rows
        self.schedule = schedule(depth, resolution if lane.uniform else depth)
        self.sizes: Ints = np.array([size for number, size in self.schedule for _ in range(number)], dtype=np.int64)
        self.last: Ints = np.cumsum(self.sizes)
        shape = (len(rows), len(self.sizes), lane.size + 1)
        self.lower, self.upper = np.full(shape, -np.inf), np.full(shape, np.inf)
        self.prior, self.best = np.zeros(shape), np.zeros(shape)
        self.tail = np.full(shape[:2], np.inf)

    def learn(self, at: Ints, log_mu: Floats, level: Floats, tolerance: float) -> None:
        """Follow some rows at new μ until all ends beyond a step are bounded by the level of the row, (Q, S + 1)."""
        for ends in follow(self.lane, self.rows.pick(at), log_mu, self.schedule):
            where = np.ix_(at, np.arange(ends.first, ends.first + len(ends.lower)))
            lower, best, upper, prior = (np.swapaxes(a, 0, 1) for a in (ends.lower, ends.best, ends.upper, ends.prior))
            better = lower > self.lower[where]
            self.lower[where] = np.where(better, lower, self.lower[where])
            self.best[where] = np.where(better, best, self.best[where])
            self.upper[where] = np.minimum(self.upper[where], upper)
            self.prior[where] = prior
            self.tail[where] = np.minimum(self.tail[where], ends.tail.T)
            last = ends.first + len(ends.lower) - 1
            reached = self.lower[at, : last + 1].max(axis=(1, 2))
            if (self.tail[at, last] <= np.maximum(level[at, last + 1], reached)).all():
                break
            if ends.decided and (ends.spread[-1] <= tolerance / 8 * reached).all():
                break

    def reach(self, at: Ints, log_mu: Floats) -> None:
        """Follow explicit algorithms for some rows, one μ each, where blocks give no lower bounds."""
        lower = reach(self.lane, self.rows.pick(at), log_mu, self.schedule)
        better = lower > self.lower[at]
        self.lower[at] = np.where(better, lower, self.lower[at])
        self.best[at] = np.where(better, log_mu[:, None, None], self.best[at])

    def bounds(self) -> Floats:
        """Upper bounds of all ends, (Q, S, k + 1), those that no pass has reached bounded by the tails before them."""
        beyond = np.minimum.accumulate(self.tail, axis=1)[:, :-1]
        out = self.upper.copy()
        out[:, 1:] = np.minimum(out[:, 1:], beyond[:, :, None])
        return out

    def by_records(self, ends: Floats, beyond: Floats) -> tuple[Floats, Floats]:
        """What a side adds by its number of records: (Q, S + 1) for step 0, 1, …, and (Q,) without end."""
        known = (
            np.maximum.accumulate(ends[..., :-1].max(axis=2), axis=1) if self.lane.known else np.zeros(ends.shape[:2])
        )
        side = np.maximum(np.maximum(known, ends[..., -1]), 0.0)
        side = np.concatenate([np.zeros((len(side), 1)), side], axis=1)
        return side, np.maximum(side.max(axis=1), beyond)

    def step_of(self, records: Ints, *, whole: bool = False) -> Ints:
        """The step that contains a number of records, or the last whole one before: 0 for none, −1 beyond all steps."""
        found = np.searchsorted(self.last, records, side="right") if whole else np.searchsorted(self.last, records) + 1
        return np.where(records == 0, 0, np.where(records > self.last[-1], -1, found))


@dataclass(frozen=True, eq=False)
class Found:
    """The brackets of some targets after a search."""

    lower: Floats
    upper: Floats


class Search:
    """Profiles of both sides of some targets. Both may be one profile, where the chain is the same read backwards."""

    def __init__(self, sides: tuple[Profile, Profile], targets: Targets, guess: Floats) -> None:
        self.sides, self.targets, self.guess = sides, targets, guess
        self.steps = [side.step_of(targets.records[i]) for i, side in enumerate(sides)]
        # Inside a block nothing is known to be reached but what the steps before it reach.
        self.whole_steps = [side.step_of(targets.records[i], whole=True) for i, side in enumerate(sides)]
        self.which = (1,) if sides[0] is sides[1] else (0, 1)

    def _values(self, side: int, step: Ints, ends: Floats, beyond: Floats) -> Floats:
        """What one side adds to each target, (J,)."""
        by_records, endless = self.sides[side].by_records(ends, beyond)
        row = self.targets.row[side]
        return np.where(step < 0, endless[row], by_records[row, step])

    def brackets(self) -> tuple[list[Floats], list[Floats]]:
        """What each side adds to each target at least and at most: two lists of (J,)."""
        lower, upper = [], []
        for i, side in enumerate(self.sides):
            nothing = np.zeros(len(side.rows))
            lower.append(self._values(i, self.whole_steps[i], side.lower, nothing))
            upper.append(self._values(i, self.steps[i], side.bounds(), side.tail.min(axis=1)))
        return lower, upper

    def run(self, tolerance: float, floor: float = 0.0) -> Found:
        """Narrow the brackets until the largest upper end is within the tolerance of the largest lower end.

        Where a ``floor`` is known to be leaked elsewhere, it is enough that no target leaks more.
        """
        grids = [np.zeros((0, 1)), np.zeros((0, 1))]
        rows: list[Ints] = [np.arange(len(side.rows)) for side in self.sides]
        levels = [np.full((len(s.rows), len(s.sizes) + 1), -np.inf) for s in self.sides]
        for i in self.which:
            guess, total = self.guess[i], self.guess.sum(axis=0)
            if floor:
                guess = (floor * (1 + tolerance / 2) - float(self.targets.own.max())) * guess / total
                levels[i][:] = guess[:, None]
            grids[i] = _first_grid(self.sides[i], guess, _SCREEN if floor else GRID)
        before = math.inf
        for attempt in range(_ROUNDS):
            for i in self.which:
                if len(rows[i]):
                    self.sides[i].learn(rows[i], grids[i], levels[i], tolerance)
            if not floor or attempt > 2:
                self._reach()
            lower, upper = self.brackets()
            total = self.targets.own + lower[0] + lower[1]
            most = self.targets.own + upper[0] + upper[1]
            best, worst = max(floor, float(total.max())), float(most.max())
            if worst <= best * (1 + tolerance) or (attempt > 2 and worst >= before * (1 - _STALLED * tolerance)):
                break
            before = worst
            for i in self.which:
                levels[i] = self._levels(i, lower, upper, best * (1 + 0.8 * tolerance))
                rows[i], grids[i] = _next_grid(self.sides[i], levels[i])
        return Found(total, most)

    def _reach(self) -> None:
        """Lower bounds of the worst targets where sides are followed in blocks, which give upper bounds only."""
        if all(side.sizes.max(initial=1) == 1 for side in self.sides):
            return
        _, upper = self.brackets()
        order = np.argsort(-(self.targets.own + upper[0] + upper[1]))[:_REACHED]
        for i in self.which:
            side = self.sides[i]
            at = np.unique(self.targets.row[i, order])
            ends = side.bounds()[at]
            if not side.lane.known:
                ends = ends[..., -1:]
            ends = np.where(np.isfinite(side.upper[at][..., -ends.shape[2] :]), ends, -np.inf)
            flat = ends.reshape(len(at), -1).argmax(axis=1)
            prior = side.prior[at][..., -ends.shape[2] :].reshape(len(at), -1)
            pick = np.arange(len(at))
            side.reach(at, ends.reshape(len(at), -1)[pick, flat] - prior[pick, flat])

    def _levels(self, side: int, lower: list[Floats], upper: list[Floats], goal: float) -> Floats:
        """The level at which each end of a side must be bounded, (Q, S + 1): the last for all beyond."""
        own, other = self.targets.own, 1 - side
        slack = np.maximum(goal - own - lower[0] - lower[1], 0.0) / 2
        need = np.maximum(lower[side] + slack, goal - own - upper[other])
        profile = self.sides[side]
        out = np.full((len(profile.rows), len(profile.sizes) + 1), np.inf)
        some = self.steps[side] != 0  # a side without records adds nothing
        step = np.where(self.steps[side] < 0, len(profile.sizes), self.steps[side] - 1)[some]
        np.minimum.at(out, (self.targets.row[side][some], step), need[some])
        if profile.lane.known or (self.steps[side] < 0).any():
            out = np.minimum.accumulate(out[:, ::-1], axis=1)[:, ::-1]
        return out


def _first_grid(side: Profile, guess: Floats, many: int) -> Floats:
    """Values of log μ for every row, (Q, G): around the prior ratios of the first step, and up to a guess."""
    kernel = side.lane.kernels[side.rows.offsets % len(side.lane.kernels)]
    at = np.arange(len(side.rows))
    with np.errstate(divide="ignore", invalid="ignore"):
        prior = np.log(kernel[at, side.rows.y]) - np.log(kernel[at, side.rows.x])
    finite = np.isfinite(prior)
    high = np.where(finite, prior, 0.0).max(axis=1).clip(0, 50) if side.lane.known else np.zeros(len(at))
    low = np.where(finite, prior, 0.0).min(axis=1).clip(-50, 0) if side.lane.known else np.zeros(len(at))
    even = np.linspace(0.0, 1.0, many // 2 if side.lane.known else many - 3)
    near = np.concatenate([even, [1.5, 2.5, 5.0]]) * guess[:, None]
    if not side.lane.known:
        return _sorted(near)
    wide = -high[:, None] + np.linspace(0.0, 1.0, many // 2 - 3) * (guess - low + high)[:, None]
    return _sorted(np.concatenate([wide, near], axis=1))


def _sorted(grid: Floats) -> Floats:
    return np.sort(np.clip(grid, -_LARGEST_LOG, _LARGEST_LOG), axis=1)


def _next_grid(side: Profile, levels: Floats) -> tuple[Ints, Floats]:
    """Rows with ends that are not yet bounded by their level, and new values of log μ for them."""
    ends, tails = side.bounds(), np.minimum.accumulate(side.tail, axis=1)
    if not side.lane.known:
        ends = ends[..., -1:]
    prior = side.prior[..., -ends.shape[2] :]
    lower = side.lower[..., -ends.shape[2] :]
    rows, grids = [], []
    for q in range(len(side.rows)):
        level = np.repeat(levels[q, :-1, None], ends.shape[2], axis=1)
        wanted = (ends[q] > level) & (ends[q] > 0)
        seen = wanted & np.isfinite(side.upper[q, :, -ends.shape[2] :])
        open_tail = tails[q, -1] > levels[q, -1]
        if not wanted.any() and not open_tail:
            continue
        parts = []
        if seen.any():
            excess, where = ends[q][seen] - level[seen], prior[q][seen]
            need, top = level[seen], ends[q][seen]
            worst = np.argsort(-excess)[: GRID // 4]
            spread = np.argsort(where)[np.linspace(0, len(where) - 1, GRID // 4).astype(int)]
            for some in (worst, spread):
                parts += [
                    need[some] - where[some],
                    (need[some] + np.minimum(top[some], 2 * need[some] + 1)) / 2 - where[some],
                ]
            reached = np.argsort(-lower[q][seen])[:2]
            parts.append(lower[q][seen][reached] - where[reached])
        if open_tail or (wanted & ~seen).any():
            finite = levels[q][np.isfinite(levels[q])]
            need = levels[q, -1] if np.isfinite(levels[q, -1]) else float(finite.max(initial=0.0))
            reached = max(float(lower[q].max()), 0.0)
            top = tails[q, -1] if np.isfinite(tails[q, -1]) else 4 * max(need, reached) + 0.1
            spread = reached + (max(top, need) - reached) * np.array(
                [1e-5, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.45, 0.65]
            )
            parts += [spread, np.array([reached, need])]
        new = np.unique(np.concatenate(parts))
        rows.append(q)
        grids.append(new)
    width = max((len(g) for g in grids), default=1)
    padded = [np.concatenate([g, np.full(width - len(g), g[-1] + 1.0)]) for g in grids]
    return np.array(rows, dtype=np.int64), _sorted(np.array(padded).reshape(len(rows), width))
