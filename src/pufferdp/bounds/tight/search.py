"""The search over μ: brackets of both sides of targets, narrowed until the worst target is known to a tolerance.

A target adds up its own loss and both of its sides (Theorem 2). Each side has a profile: for every end the smallest
upper and the largest lower bound of all passes so far. A search starts with μ that are spread evenly. It goes on with μ
at the levels where an end must be bounded for its target to stay within the goal, and halves the blocks of records in
which that is not yet shown. The goal is the best lower bound, widened by the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.bounds.tight.recursion import TINY, Pass, Rows, Side, block_size, explicit

_LEVELS: Final = np.array([0.33, 0.5, 0.67, 0.83, 1.0, 1.2])
"""Shares of a guess at which ends are bounded first."""
GRID: Final = 48
"""Values of μ that are followed together: the cost of a pass grows with their number, the number of passes falls."""
_ROUNDS: Final = 40
"""Passes after which a bracket that is still open is given back as it is."""
_HOPELESS: Final = 300.0
"""A leakage that is larger says that everything is learned: it is given back as it is."""
_CELLS: Final = 1 << 16
"""Numbers that are worked on together: enough to hide the cost of a call, few enough for the cache."""
_STATES: Final = 6
"""States whose ends explicit algorithms are improved for."""
ENDLESS: Final = -1
"""The number of records on a side that has no end."""


@dataclass(frozen=True, eq=False)
class Targets:
    """Records that are attacked, each with a pair of values and two sides, which are rows of the two profiles."""

    own: Floats
    """(J,): the target's own loss."""
    row: Ints
    """(2, J): rows of the profiles before and after."""
    records: Ints
    """(2, J): records on either side; ``ENDLESS``: any number."""
    group: Ints
    """(J,): targets of a group are compared: only the largest leakage of each group is wanted."""


class Profile:
    """What is known about all ends of one side of some rows, as logarithms; ends as in ``recursion.Ends``."""

    def __init__(self, side: Side, rows: Rows, records: Ints, tolerance: float, possible: Mask | None = None) -> None:
        """Nothing is known at first.

        Args:
            side: the side.
            rows: its rows.
            records: how many records each row has at most, (Q,).
            tolerance: how near both ends of a bracket are to be, as a share.
            possible: (t, k): values that the farthest records can have, the last one first; None: all.
        """
        self.side, self.rows, self.tolerance = side, rows, tolerance
        self.possible = np.ones((1, side.size), dtype=bool) if possible is None else possible
        self.records = np.where(records == ENDLESS, 1 << (48 if side.uniform else 13), records)
        self.endless = records == ENDLESS
        self.mixtures, self.followed = GRID // 2, 0
        self.depth = int(self.records.max(initial=0))
        self.sizes: Ints = np.zeros(0, dtype=np.int64)
        self.first: Ints = np.zeros(0, dtype=np.int64)
        shape = (len(rows), 0, side.size + 1)
        self.lower, self.upper, self.prior, self.best, self.loose = (np.zeros(shape) for _ in range(5))
        self.tail, self.far = np.zeros(shape[:2]), np.zeros(len(rows))

    def _extend(self, steps: int) -> int:
        """Make room for some more steps; return how many there are."""
        new: list[int] = []
        distance = int(self.first[-1] + self.sizes[-1]) if len(self.sizes) else 1
        while len(new) < steps and distance <= self.depth:
            new.append(block_size(self.side, distance, self.depth - distance + 1))
            distance += new[-1]
        if new:
            self._set_steps(np.concatenate([self.sizes, new]).astype(np.int64))
            q, k = len(self.rows), self.side.size + 1
            more = (q, len(new), k)
            self.lower = np.concatenate([self.lower, np.full(more, -np.inf)], axis=1)
            self.upper = np.concatenate([self.upper, np.full(more, np.inf)], axis=1)
            if self.side.uniform:  # group privacy
                known = (self.first + self.sizes - 2)[-len(new) :, None] * self.side.losses[0]
                last = self.side.losses[0] if self.side.last_loss is None else self.side.last_loss
                near = np.repeat(known, k - 1, axis=1) if self.side.known else np.full((len(new), k - 1), -np.inf)
                self.upper[:, -len(new) :] = np.concatenate([near, known + last], axis=1)
            self.prior, self.best, self.loose = (
                np.concatenate([a, np.zeros(more)], axis=1) for a in (self.prior, self.best, self.loose)
            )
            self.tail = np.concatenate([self.tail, np.full(more[:2], np.inf)], axis=1)
        return len(self.sizes)

    def _set_steps(self, sizes: Ints) -> None:
        self.sizes = sizes
        self.first = 1 + np.cumsum(sizes) - sizes

    def learn(self, at: Ints, log_mu: Floats, level: Floats, free: Floats) -> None:
        """Follow some rows at new μ, until all ends beyond are bounded by the level of the row, (Q,).

        Ends need not be read where group privacy bounds them by what is ``free``, (Q,).
        """
        work, s = Pass(self.side, self.rows.pick(at), log_mu, self.tolerance), 0
        while True:
            if s >= len(self.sizes) and self._extend(32) == s:
                return
            if self.side.uniform and (work.spent + self.sizes[s] * work.losses <= free[at]).all():
                work.skip(int(self.sizes[s]))
                s += 1
                self.followed = max(self.followed, s)
                continue
            if self.sizes[s] == 1:
                most = work.together(_CELLS)
                number = int(np.argmax(np.append(self.sizes[s : s + most] != 1, True)))
                ends = work.singles(number)
            else:
                number, ends = 1, work.block(int(self.sizes[s]))
            where = np.ix_(at, np.arange(s, s + number))
            upper, loose, before = np.swapaxes(ends.upper, 0, 1), np.swapaxes(ends.loose, 0, 1), self.upper[where]
            self.loose[where] = np.where(upper <= before + 1e-9, loose, self.loose[where])
            self.upper[where], self.prior[where] = np.minimum(upper, before), np.swapaxes(ends.prior, 0, 1)
            self.tail[where] = np.minimum(self.tail[where], ends.tail.T)
            self.far[at] = np.where(np.isfinite(ends.largest[-1]), ends.largest[-1], 0.0)
            s += number
            self.followed = max(self.followed, s)
            reached = np.maximum(self.lower[at, :s].max(axis=(1, 2)), 0.0)
            beyond = self.tail[at, s - 1] <= np.maximum(level[at], reached)
            flat = ends.decided[-1] & (ends.spread[-1] <= self.tolerance / 8 * np.minimum(self.tail[at, s - 1], 1e9))
            if (beyond | flat | (work.distance > self.records[at])).all():
                return

    def ask(self, at: Ints, log_mu: Floats) -> None:
        """Follow explicit algorithms for some rows, at several μ each, (Q, G)."""
        first, row = 0, np.arange(len(at))[:, None, None]
        for lower, prior in explicit(self.side, self.rows.pick(at), log_mu, self.sizes, self.tolerance):
            where = np.ix_(at, np.arange(first, first + len(lower)))
            before = self.lower[where]
            which = np.swapaxes(lower.argmax(axis=2), 0, 1)
            value = np.minimum(np.swapaxes(lower.max(axis=2), 0, 1), self.upper[where])
            self.lower[where] = np.maximum(value, before)
            self.best[where] = np.where(value > before, log_mu[row, which], self.best[where])
            columns = slice(None, -1 if self.side.monotone or self.side.weights is None else None)
            self.prior[(*where, columns)] = np.swapaxes(prior, 0, 1)[..., columns]
            first += len(lower)

    def climb(self, log_mu: Floats) -> Floats:
        """Raise the lower bounds of all rows: explicit algorithms at some μ, then around the best; return those."""
        every, best = np.arange(len(self.rows)), np.zeros(len(self.rows))
        for _ in range(_ROUNDS):
            spread = np.ptp(self.prior[:, -1, :-1], axis=1) if len(self.sizes) else np.full(len(best), np.inf)
            if (spread > self.tolerance / 8 * best).any() and len(self.sizes) < 1 << 13:
                self._extend(128)
            self.ask(every, log_mu)
            # The best μ of an end is the quotient that is reached, divided by its prior ratio (Dinkelbach 1967).
            pick = self.lower.argmax(axis=1)[:, None]
            ends, prior = (np.take_along_axis(part, pick, axis=1)[:, 0] for part in (self.lower, self.prior))
            value, likely = np.maximum(ends.max(axis=1), 0.0), np.argsort(-ends, axis=1)[:, :_STATES]
            ends, prior = (np.take_along_axis(part, likely, axis=1) for part in (ends, prior))
            log_mu = np.where(np.isfinite(ends), ends, 0.0) - prior
            if (value <= best * (1 + self.tolerance / 16)).all():
                break
            best = value
        return log_mu

    def split(self, steps: Mask) -> None:
        """Cut blocks of records into four; bounds of a block hold for each part."""
        parts = np.where(steps, np.minimum(self.sizes, 4), 1)
        source = np.repeat(np.arange(len(self.sizes)), parts)
        begins = np.concatenate([[True], source[1:] != source[:-1]])
        self.followed = int((source < self.followed).sum())
        self._set_steps(np.repeat(self.sizes // parts, parts))
        self.lower = np.where(begins[:, None], self.lower[:, source], -np.inf)
        self.upper, self.prior, self.best, self.loose = (
            a[:, source] for a in (self.upper, self.prior, self.best, self.loose)
        )
        last = np.concatenate([begins[1:], [True]])
        self.tail = np.where(last, self.tail[:, source], np.inf)

    def bounds(self) -> Floats:
        """Upper bounds of all ends, (Q, S, k + 1), each also bounded by the tails before it."""
        out = self.upper.copy()
        beyond = np.minimum.accumulate(self.tail, axis=1)[:, :-1]
        out[:, 1:] = np.minimum(out[:, 1:], np.where(np.isneginf(out[:, 1:]), np.inf, beyond[:, :, None]))
        return out

    def _value(self, ends: Floats, beyond: Floats, row: Ints, records: Ints) -> Floats:
        """What a side adds, (J,), for some rows and numbers of records: its open end, or a record that may be known."""
        count, steps = ends.shape[:2]
        near = len(self.possible) - 1
        known = np.where(self.possible[-1], ends[..., :-1], -np.inf).max(axis=2, initial=-np.inf)
        none = np.full((count, 1), -np.inf)
        known = np.concatenate([none, np.maximum.accumulate(known, axis=1), known.max(axis=1, keepdims=True)], axis=1)
        every = np.maximum(known[:, -1], np.maximum(ends[..., -1].max(axis=1, initial=0.0), beyond))
        open_end = np.concatenate([np.zeros((count, 1)), ends[..., -1], every[:, None]], axis=1)
        far = np.where(records == ENDLESS, ENDLESS, np.maximum(records - near, 0))
        out = np.maximum(open_end[row, self.step_of(records)], known[row, self.step_of(far)])
        for j in range(near):  # record j of the series is known, and can have few values
            step = np.where((records == ENDLESS) | (records <= j), 0, self.step_of(np.maximum(records - j, 0)))
            inside = (step > 0) & (step <= steps)
            value = np.where(self.possible[j], ends[row, np.where(inside, step - 1, 0), :-1], -np.inf).max(axis=1)
            out = np.where(inside, np.maximum(out, value), out)
        return np.asarray(np.maximum(out, 0.0))

    def step_of(self, records: Ints) -> Ints:
        """The number of the step that holds a record, from 1 on; 0: no record, the number of steps + 1: beyond all."""
        step = np.searchsorted(self.first, records, side="right")
        beyond = records >= (self.first[-1] + self.sizes[-1] if len(self.sizes) else 1)
        return np.where(records == 0, 0, np.where((records == ENDLESS) | beyond, len(self.sizes) + 1, step))

    def limits(self, row: Ints, records: Ints) -> tuple[Floats, Floats]:
        """What a side adds at least and at most, (J,) each, for some rows and numbers of records."""
        nothing = np.zeros(len(self.rows))
        if not len(self.sizes):
            return nothing[row], nothing[row]
        tail = np.minimum.accumulate(self.tail, axis=1)[:, -1]
        tail = np.where(self.endless | (self.first[-1] + self.sizes[-1] <= self.records), tail, 0.0)
        lower, step = self.lower, self.step_of(records)
        if not self.side.monotone:  # an open end is reached at exactly its number of records
            first = self.first[(step - 1).clip(0, len(self.first) - 1)]
            exact = (records == ENDLESS) | (step == 0) | (first == records)
            closed = lower.copy()
            closed[..., -1] = -np.inf
            low = np.where(exact, self._value(lower, nothing, row, records), self._value(closed, nothing, row, records))
        else:
            low = self._value(lower, nothing, row, records)
        return low, self._value(self.bounds(), tail, row, records)

    def best_end(self, row: int, records: int) -> tuple[int, int, float, float]:
        """Distance, state (−1: open end), value and log μ of the end behind a lower bound; distance 0: nothing."""
        steps = len(self.sizes) if records == ENDLESS else int(np.searchsorted(self.first, records, side="right"))
        ends = self.lower[row, :steps].copy()
        if records != ENDLESS:
            place = np.clip(records - self.first[:steps], 0, len(self.possible) - 1)
            ends[:, :-1] = np.where(self.possible[place], ends[:, :-1], -np.inf)
            if not self.side.monotone:
                ends[self.first[:steps] != records, -1] = -np.inf
        if steps == 0 or ends.max() <= 0:
            return 0, -1, 0.0, 0.0
        step, state = np.unravel_index(int(ends.argmax()), ends.shape)
        value, log_mu = float(ends[step, state]), float(self.best[row, step, state])
        return int(self.first[step]), -1 if state == self.side.size else int(state), value, log_mu


class Search:
    """Profiles of both sides of some targets. Both may be one profile, where the chain is the same read backwards."""

    def __init__(
        self, sides: tuple[Profile, Profile], targets: Callable[[Ints], Targets], guess: tuple[Floats, Floats]
    ) -> None:
        self.sides, self.make_targets, self.guess = sides, targets, guess
        self.which = (1,) if sides[0] is sides[1] else (0, 1)
        self.targets = targets(self._cuts())
        self.lower = self.upper = self.targets.own

    def _cuts(self) -> Ints:
        """Numbers of records at which what a side adds may change."""
        first = np.concatenate([side.first for side in self.sides])
        return np.unique(np.concatenate([[0], first, np.maximum(first - 1, 0)]))

    def measure(self) -> tuple[list[Floats], list[Floats]]:
        """What each side adds to each target at least and at most: two lists of (J,)."""
        lower, upper = [], []
        for i, side in enumerate(self.sides):
            least, most = side.limits(self.targets.row[i], self.targets.records[i])
            lower.append(least)
            upper.append(most)
        self.lower = self.targets.own + lower[0] + lower[1]
        self.upper = self.targets.own + upper[0] + upper[1]
        return lower, upper

    def run(self, tolerance: float, floor: Floats) -> None:
        """Narrow the brackets until the largest upper end of each group is near its largest lower end.

        Where a ``floor`` of a group, (groups,), is known to be leaked, it is enough that no target leaks more.
        """
        rows: list[Ints] = [np.arange(len(side.rows)) for side in self.sides]
        grids = [
            first_grid(side.side, side.rows, self.guess[i][:, None] * _LEVELS, (1, 2, 4, 8))
            for i, side in enumerate(self.sides)
        ]
        levels, excess = [np.full(len(side.rows), -np.inf) for side in self.sides], list[float]()
        for _ in range(_ROUNDS):
            for i in self.which:
                if len(rows[i]):
                    free = np.where(np.isfinite(levels[i]), levels[i], self.guess[i] / 3)
                    self.sides[i].learn(rows[i], grids[i], levels[i], free)
            self.targets = self.make_targets(self._cuts())
            self.measure()
            self._ask(floor)
            lower, upper = self.measure()
            best = floor.copy()
            np.maximum.at(best, self.targets.group, self.lower)
            goal = best[self.targets.group] * (1 + 0.9 * tolerance)
            wide = self.upper > best[self.targets.group] * (1 + tolerance)
            if not wide.any() or best.min() > _HOPELESS:
                return
            excess.append(float((self.upper - best[self.targets.group])[wide].max()))
            if len(excess) > 4 and excess[-1] > 0.9 * excess[-3]:
                return  # blocks, rounding, or a chain that never forgets: no more is to be had
            wide = self.upper > goal
            for i in self.which:
                need = self._need(i, wide, goal, lower, upper)
                levels[i] = need.min(axis=1)
                open_ends = self._open_ends(self.sides[i], need)
                rows[i], grids[i] = next_grid(self.sides[i], need, open_ends)
                loose = open_ends & (self.sides[i].loose > tolerance / 2 * need[:, :-1, None])
                if loose.any() and len(self.sides[i].sizes) < 1 << 12:
                    self.sides[i].split((self.sides[i].sizes > 1) & loose.any(axis=(0, 2)))
            if not any(len(rows[i]) for i in self.which):
                return

    def _ask(self, floor: Floats) -> None:
        """Lower bounds for the rows whose targets have the largest upper ends."""
        best = floor.copy()
        np.maximum.at(best, self.targets.group, self.lower)
        open_targets = self.upper > best[self.targets.group]
        for i in self.which:
            side = self.sides[i]
            at = np.unique(self.targets.row[i, open_targets])
            if not len(at) or not len(side.sizes):
                continue
            bounds = np.where(np.isfinite(side.upper[at]), side.bounds()[at], -np.inf)
            if len(at) > 64 and len(best) == 1:
                at = at[np.argsort(-bounds.max(axis=(1, 2)))[:64]]
                bounds = np.where(np.isfinite(side.upper[at]), side.bounds()[at], -np.inf)
            # An algorithm reaches its own μ wherever the vector is still positive, so μ are tried between both ends.
            levels = []
            for values in (bounds, side.lower[at]):
                flat = values.reshape(len(at), -1)
                pick = flat.argmax(axis=1)
                prior = side.prior[at].reshape(len(at), -1)[np.arange(len(at)), pick]
                top = flat[np.arange(len(at)), pick]
                levels.append(np.clip(np.where(np.isfinite(top), top, 0.0) - prior, -600, 600))
            high, low = levels[0][:, None], np.minimum(levels[0], levels[1])[:, None]
            side.ask(
                at,
                np.concatenate(
                    [low + (high - low) * np.array([0.15, 0.45, 0.75, 0.95]), high, levels[1][:, None]], axis=1
                ),
            )

    def _need(self, side: int, wide: Mask, goal: Floats, lower: list[Floats], upper: list[Floats]) -> Floats:
        """The level at which the ends of each step must be bounded, (Q, S + 1): the last for all beyond."""
        own, other, profile = self.targets.own[wide], 1 - side, self.sides[side]
        slack = np.maximum(goal[wide] - own - lower[0][wide] - lower[1][wide], 0.0) / 2
        need = np.maximum(lower[side][wide] + slack, goal[wide] - own - upper[other][wide])
        step = profile.step_of(self.targets.records[side][wide])
        out = np.full((len(profile.rows), len(profile.sizes) + 1), np.inf)
        some = step > 0
        np.minimum.at(out, (self.targets.row[side][wide][some], step[some] - 1), need[some])
        if profile.side.known or (step == len(profile.sizes) + 1).any():
            out = np.minimum.accumulate(out[:, ::-1], axis=1)[:, ::-1]
        return out

    @staticmethod
    def _open_ends(side: Profile, need: Floats) -> Mask:
        """Ends that are not yet bounded by their level, (Q, S, k + 1)."""
        ends = side.bounds()
        return np.asarray((ends > need[:, :-1, None]) & (ends > 0))


def first_grid(side: Side, rows: Rows, levels: Floats, times: tuple[float, ...]) -> Floats:
    """Values of log μ for every row, (Q, G), that bound ends at some levels, (Q, L).

    An end at level e and with prior ratio r is bounded by a pass at μ = e/r. Nearer records than the first level
    divided by the loss add less whatever is asked (group privacy). The prior ratios that matter are the extreme ones
    at that distance, and at multiples of it.
    """
    parts = [levels] if side.monotone else []
    if side.monotone and side.known and levels.shape[1] == 1:
        parts += [0.97 * levels, 0.995 * levels]  # far ends have prior ratios close to 1
    if side.known or not side.monotone:
        near = float(levels[:, 0].min(initial=1.0)) / max(float(side.losses.mean()), TINY)
        for number, time in enumerate(times):
            power = side.at_distance(max(1, int(min(near * time, 1 << 40))))
            which = rows.offsets % len(power)
            with np.errstate(divide="ignore", invalid="ignore"):
                prior = np.log(power[which, rows.y]) - np.log(power[which, rows.x])
            prior = np.where(np.isfinite(prior), prior.clip(-50, 50), 0.0)
            parts += [levels - prior.max(axis=1)[:, None], levels - prior.min(axis=1)[:, None]]
            if number == 0:
                parts.append(levels - np.median(prior, axis=1)[:, None])
    parts.append(levels[:, -1:] * np.array([1.5, 3.0]) - (np.median(prior, axis=1)[:, None] if side.known else 0.0))
    return _sorted(np.concatenate(parts, axis=1))


def _sorted(grid: Floats) -> Floats:
    """Beyond logarithms of ±600 group privacy is the bound."""
    return np.sort(np.clip(grid, -600.0, 600.0), axis=1)


def next_grid(side: Profile, need: Floats, open_ends: Mask) -> tuple[Ints, Floats]:
    """Rows with ends that are not yet bounded by their level, and new values of log μ for them.

    An end at level e and with prior ratio r is bounded by a pass at μ = e/r, so μ cover what the open ends of a row
    need, and more thinly what they are known to have at most.
    """
    if not len(side.sizes):
        return np.zeros(0, dtype=np.int64), np.zeros((0, 1))
    tails = np.minimum.accumulate(side.tail, axis=1)[:, -1]
    more = side.endless | (side.first[-1] + side.sizes[-1] <= side.records)
    seen = open_ends & (np.arange(len(side.sizes)) < side.followed)[:, None]
    tail_open = (more & (tails > need[:, -1])) | (open_ends & ~seen).any(axis=(1, 2))
    level, after = need[:, :-1, None], np.concatenate([side.prior[:, 1:], side.prior[:, -1:]], axis=1)
    after = np.where((side.sizes > 1)[:, None], after, side.prior)
    least, most = np.minimum(side.prior, after), np.maximum(side.prior, after)
    if side.side.weights is None:  # mixtures of values have every prior ratio between those of the values
        least[..., -1], most[..., -1] = side.prior[..., :-1].min(axis=2), side.prior[..., :-1].max(axis=2)
    ends = side.bounds()
    with np.errstate(invalid="ignore"):
        room = np.clip(ends - level, side.tolerance * level, 0.05 * level)
        wants = [np.where(seen, part, np.nan) for part in (level - room - most, level - least)]
        top = np.where(seen, np.minimum(ends, 2 * level + 1) - least, -np.inf).max(axis=(1, 2))
    reached = side.lower.max(axis=(1, 2), initial=0.0)
    wanted = np.maximum(np.where(np.isfinite(need), need, 0.0).max(axis=1), reached)
    tail = np.where(np.isfinite(tails), np.maximum(tails, wanted), 4 * wanted + 0.1)
    beyond = np.where(tail_open[:, None], np.stack([reached, wanted], axis=1) - side.far[:, None], np.nan)
    wants = [np.concatenate([part.reshape(len(top), -1), beyond], axis=1) for part in wants]
    top = np.where(tail_open, np.maximum(top, tail - side.far), top)
    rows = np.flatnonzero(~np.isnan(wants[0]).all(axis=1))
    low, high = (np.sort(part[rows], axis=1) for part in wants)  # what is not wanted comes last
    count = (~np.isnan(low)).sum(axis=1)[:, None]
    first, last = low[:, :1], np.take_along_axis(high, count - 1, axis=1)
    top = np.maximum(top[rows, None], last)
    above = top + wanted[rows, None] * np.array([0.01, 0.05, 0.25])
    if side.side.weights is None:  # a first value may have any distribution, and so any prior ratio between
        side.mixtures = min(2 * side.mixtures, 16 * GRID)
        return rows, _sorted(np.concatenate([first + (top - first) * np.linspace(0, 1, side.mixtures), above], axis=1))
    even = np.rint(np.linspace(0, 1, GRID // 2) * (count - 1)).astype(int)
    parts = [np.take_along_axis(part, even, axis=1) for part in (low, high)]
    parts += [first + (end - first) * np.linspace(0, 1, GRID // 3) for end in (last, top)]
    return rows, _sorted(np.concatenate([*parts, above], axis=1))


def quick_bounds(
    side: Side, rows: Rows, level: Floats, records: Ints, exact: bool, tolerance: float, grid: Floats
) -> tuple[Floats, Floats]:
    """What rows add at most, (Q,), by one pass, +∞ where that shows nothing; and where μ are missing, (2, Q).

    Args:
        side: the side.
        rows: its rows.
        level: ends need not be read, and farther ones not be followed, once they are bounded by this, (Q,).
        records: how many records each row has at most, (Q,).
        exact: whether a series ends behind exactly that many records, or may end before.
        tolerance: for blocks of records.
        grid: values of log μ, (Q, G).
    """
    out, at = np.where(records == 0, 0.0, np.inf), np.flatnonzero(records != 0)
    most = np.where(records == ENDLESS, 1 << (48 if side.uniform else 13), records)
    depth, top = int(most.max(initial=0)), np.zeros(len(rows))
    missing = np.array([grid[:, -1], grid[:, 0]])
    work = Pass(side, rows.pick(at), grid[at], tolerance)
    while len(at) and work.distance <= depth:
        first = work.distance
        size = block_size(side, first, depth - first + 1)
        behind = work.spent + size * work.losses
        if side.uniform and (behind <= level[at]).all():
            work.skip(size)
            top[at] = behind
            continue
        some = min(work.together(_CELLS), depth - first + 1)
        ends = work.singles(some) if size == 1 else work.block(size)
        upper, distances = ends.upper, np.arange(first, first + len(ends.upper))[:, None]
        if exact and not side.monotone:
            ends_here = (distances == most[at]) | (records[at] == ENDLESS)
            upper[..., -1] = np.where(ends_here, upper[..., -1], -np.inf)
        upper = np.where((distances <= most[at])[..., None], upper, -np.inf)
        top[at] = np.maximum(top[at], upper.max(axis=(0, 2)))
        wanted, high = level[at][:, None] - ends.prior, upper > level[at][:, None]
        missing[0, at] = np.minimum(missing[0, at], np.where(high, wanted, np.inf).min(axis=(0, 2)))
        missing[1, at] = np.maximum(missing[1, at], np.where(high, wanted, -np.inf).max(axis=(0, 2)))
        over = (work.distance > most[at]) & (records[at] != ENDLESS)
        tail = np.where(over, 0.0, ends.tail[-1])
        flat = ends.decided[-1] & (ends.spread[-1] <= tolerance / 8 * level[at])  # farther ends say nothing new
        done = (tail <= np.maximum(level[at], top[at])) | flat
        out[at[done]] = np.maximum(top[at], tail)[done]
        keep = ~(done | (ends.decided[-1] & np.isinf(ends.tail[-1])))
        at = at[keep]
        work.keep(keep)
        largest, spread = ends.largest[-1][keep], ends.spread[-1][keep]
        finite = np.isfinite(largest) & np.isfinite(spread)
        low, high = level[at] - np.where(finite, largest, 0.0), np.where(finite, spread, 0.0)
        work.narrow(np.where(finite, low, -np.inf), np.where(finite, low + high, np.inf))
    return np.asarray(out), missing
