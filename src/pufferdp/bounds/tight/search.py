"""The search over μ: brackets of both sides of targets, narrowed until the worst target is known to a tolerance.

A target adds up its own loss and both of its sides (Theorem 2). Each side has a profile: for every end the smallest
upper and the largest lower bound of all passes so far. A search starts with μ that are spread evenly. It goes on with μ
at the levels where an end must be bounded for its target to stay within the goal, and cuts the blocks of records in
which that is not yet shown. The goal is the best lower bound, widened by the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask, distinct
from pufferdp.bounds.tight.recursion import TINY, Pass, Rows, Side, block_size, follow, reached

GRID: Final = 48
"""Values of μ that are followed together: the cost of a pass grows with their number, the number of passes falls."""
_ROUNDS: Final = 40
"""Passes after which a bracket that is still open is given back as it is."""
ENDLESS: Final = int(np.iinfo(np.int64).max)
"""The number of records on a side that has no end, larger than any other."""


@dataclass(frozen=True, eq=False)
class Targets:
    """Records that are attacked, each with a pair of values and two sides, which are rows of the two profiles."""

    own: Floats
    """(J,): the target's own loss."""
    row: Ints
    """(J,): the row of both profiles."""
    records: Ints
    """(2, J): records on either side; ``ENDLESS``: any number."""
    group: Ints
    """(J,): targets of a group are compared: only the largest leakage of each group is wanted."""


class End(NamedTuple):
    """The end of a side that an explicit algorithm reaches."""

    distance: int = 0
    """The distance of its record; 0: nothing is asked."""
    state: int = -1
    """The known state; −1: an open end."""
    added: float = 0.0
    """What an explicit algorithm adds there."""
    log_mu: float = 0.0
    """The logarithm of μ of its questions."""


class Profile:
    """What is known about all ends of one side of some rows, as logarithms; ends as in ``recursion.Ends``."""

    def __init__(
        self, side: Side, rows: Rows, records: Ints, tolerance: float, exact: bool, possible: Mask | None = None
    ) -> None:
        """Nothing is known at first. Each row has ``exact``ly some number of ``records``, (Q,), or at most as many.

        ``possible``, (t, k), are the values that the farthest records can have, the last one first; None: all.
        """
        self.side, self.rows, self.tolerance, self.exact = side, rows, tolerance, exact and not side.monotone
        self.possible = np.ones((1, side.size), dtype=bool) if possible is None else possible
        self.records, self.endless = _followed_records(side, records), records == ENDLESS
        self.mixtures, self.followed = GRID // 2, 0
        self.depth = int(self.records.max(initial=0))
        self._set_steps(np.zeros(0, dtype=np.int64))
        shape = (len(rows), 0, side.size + 1)
        self.lower, self.upper, self.prior, self.best, self.edge = (np.zeros(shape) for _ in range(5))
        self.tail, self.far = np.zeros(shape[:2]), np.zeros(len(rows))

    def _set_steps(self, sizes: Ints) -> None:
        """Steps with these numbers of records, (S,): their first records, and the distance behind all of them."""
        self.sizes, self.first, self.end = sizes, 1 + np.cumsum(sizes) - sizes, 1 + int(sizes.sum())

    def _extend(self, steps: int) -> int:
        """Extend the arrays by some steps; return their number."""
        new: list[int] = []
        distance = self.end
        while len(new) < steps and distance <= self.depth:
            new.append(block_size(self.side, distance, self.depth - distance + 1))
            distance += new[-1]
        self.append_steps(np.array(new, dtype=np.int64))
        return len(self.sizes)

    def append_steps(self, new: Ints) -> None:
        """Extend the arrays by steps with these numbers of records."""
        if len(new):
            self._set_steps(np.append(self.sizes, new))
            nothing = np.zeros((len(self.rows), len(new), self.side.size + 1))
            upper = edge = nothing + np.append(np.full(self.side.size, np.inf if self.side.known else -np.inf), np.inf)
            if self.side.uniform:
                upper = nothing + self._group_privacy((self.first + self.sizes - 1)[-len(new) :])
                edge = nothing + self._group_privacy(self.first[-len(new) :])
            if self.exact:  # known values that are possible, and the last open end
                near = self.possible[np.clip(self.records[:, None] - self.first, 0, len(self.possible) - 1)]
                last = np.arange(len(self.sizes)) == self.step_of(self.records)[:, None] - 1
                last |= self.endless[:, None]
                counts = np.concatenate([near | (self.sizes > 1)[:, None], last[..., None]], axis=2)
                upper = np.where(counts[:, -len(new) :], upper, -np.inf)
            old = (self.lower, self.upper, self.prior, self.best, self.edge)
            added = (nothing - np.inf, upper, nothing, nothing, edge)
            self.lower, self.upper, self.prior, self.best, self.edge = (
                np.concatenate(pair, axis=1) for pair in zip(old, added, strict=True)
            )
            self.tail = np.concatenate([self.tail, nothing[..., 0] + np.inf], axis=1)

    def _group_privacy(self, distances: Ints) -> Floats:
        """What group privacy bounds at the ends of records at some distances of a uniform side, (S, k + 1)."""
        spent = (distances - 1)[:, None] * self.side.losses[0]
        known = np.repeat(spent if self.side.known else spent - np.inf, self.side.size, axis=1)
        return np.concatenate([known, spent + self.side.last_losses(self.side.losses)[:1]], axis=1)

    def learn(self, at: Ints, log_mu: Floats, level: Floats, free: Floats, wanted: Mask) -> None:
        """Follow some rows at new μ, until all ends beyond are bounded by the level of the row, (Q,).

        Ends need not be read where group privacy bounds them by what is ``free``, (Q,), and at steps that are not
        ``wanted``; the last entry of the mask stands for all later steps.
        """
        work, s = Pass(self.side, self.rows.pick(at), log_mu, self.tolerance), 0
        enough = np.maximum(level, self.reached())[at]
        while wanted[s:].any() or wanted[-1]:
            if s == len(self.sizes) and self._extend(32) == s:
                break
            size, number = int(self.sizes[s]), 1
            known = self.side.uniform and (work.spent + size * work.losses <= free[at]).all()
            if known or not wanted[min(s, len(wanted) - 1)]:
                work.skip(size)
                s += 1
                continue
            if size == 1:
                number = int(np.argmax(np.append(self.sizes[s : s + work.together()] != 1, True)))
            ends = work.singles(number) if size == 1 else work.block(size)
            where = np.ix_(at, np.arange(s, s + number))
            self.upper[where] = np.minimum(np.swapaxes(ends.upper, 0, 1), self.upper[where])
            self.edge[where] = np.minimum(np.swapaxes(ends.edge, 0, 1), self.edge[where])
            self.prior[where] = np.swapaxes(ends.prior, 0, 1)
            self.tail[where] = np.minimum(self.tail[where], ends.tail.T)
            self.far[at] = np.where(np.isfinite(ends.largest[-1]), ends.largest[-1], 0.0)
            s += number
            beyond = self.tail[at, s - 1] <= enough
            flat = ends.decided[-1] & (ends.spread[-1] <= self.tolerance / 8 * np.minimum(self.tail[at, s - 1], 1e9))
            if (beyond | flat | (work.distance > self.records[at])).all():
                break
        self.followed = max(self.followed, s)

    def ask(self, at: Ints, log_mu: Floats) -> None:
        """Follow explicit algorithms for some rows, at several μ each, (Q, G)."""
        if not self.side.monotone:  # the open end of a given start is reached at exactly its number of records
            while self.end <= min(int(self.records[at].max(initial=0)), 1 << 12):
                self._extend(32)
        first, row = 0, np.arange(len(at))[:, None, None]
        for records in follow(self.side, self.rows.pick(at), log_mu, self.sizes, self.tolerance):
            lower, prior = reached(self.side, log_mu, *records)
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
                self._extend(max(128, len(self.sizes)))
            self.ask(every, log_mu)
            # The best μ of an end is the quotient that is reached, divided by its prior ratio (Dinkelbach 1967).
            pick = self.lower.argmax(axis=1)[:, None]
            ends, prior = (np.take_along_axis(part, pick, axis=1)[:, 0] for part in (self.lower, self.prior))
            value, likely = np.maximum(ends.max(axis=1), 0.0), np.argsort(-ends, axis=1)[:, : GRID // 8]
            ends, prior = (np.take_along_axis(part, likely, axis=1) for part in (ends, prior))
            log_mu = np.where(np.isfinite(ends), ends, 0.0) - prior
            if (value <= best * (1 + self.tolerance / 4)).all():
                # Ends are read at the first records of blocks: shorter ones around the best end say more.
                near = self.lower.max(axis=2).argmax(axis=1)[:, None] - np.array([0, 1])
                coarse = self.sizes > np.maximum(self.first, 64) * max(1 / 64, 4 * self.tolerance)
                steps = np.isin(np.arange(len(self.sizes)), near) & coarse
                if not steps.any():
                    break
                self.split(np.where(steps, 4, 1))
            best = np.maximum(value, best)
        return log_mu

    def split(self, parts: Ints) -> None:
        """Cut blocks of records into some parts, powers of two, (S,); bounds of a block hold for each part."""
        parts = np.minimum(self.sizes, parts)
        if (parts == 1).all():
            return  # as on sides whose losses change, which have no blocks
        source = np.repeat(np.arange(len(self.sizes)), parts)
        begins = np.concatenate([[True], source[1:] != source[:-1]])
        self.followed = int((source < self.followed).sum())
        self._set_steps(np.repeat(self.sizes // parts, parts))
        self.lower = np.where(begins[:, None], self.lower[:, source], -np.inf)
        self.prior, self.best = self.prior[:, source], self.best[:, source]
        self.upper = np.minimum(self.upper[:, source], self._group_privacy(self.first + self.sizes - 1))
        self.edge = np.where((parts > 1)[source][:, None], self._group_privacy(self.first), self.edge[:, source])
        last = np.concatenate([begins[1:], [True]])
        self.tail = np.where(last, self.tail[:, source], np.inf)

    def bounds(self) -> Floats:
        """Upper bounds of all ends, (Q, S, k + 1), each also bounded by the tails before it."""
        out = self.upper.copy()
        beyond = np.minimum.accumulate(self.tail, axis=1)[:, :-1]
        out[:, 1:] = np.minimum(out[:, 1:], np.where(np.isneginf(out[:, 1:]), np.inf, beyond[:, :, None]))
        return out

    def reached(self) -> Floats:
        """What algorithms add at ends that count for every longer side too, (Q,)."""
        last = None if self.side.monotone or self.exact else -1
        return np.asarray(self.lower[..., :last].max(axis=(1, 2), initial=0.0))

    def beyond(self) -> tuple[Mask, Floats]:
        """Which rows have ends beyond all steps, and what no algorithm adds there, (Q,) each."""
        return self.endless | (self.end <= self.records), self.tail.min(axis=1, initial=np.inf)

    def _value(self, ends: Floats, beyond: Floats | float, row: Ints, records: Ints, ended: Mask) -> Floats:
        """What a side adds, (J,), for some rows and numbers of records: its open end, or a record that may be known.

        Open ends count where the series has ``ended`` at a record that was read, (J,).
        """
        near, none = len(self.possible) - 1, np.zeros((len(ends), 1))
        known = np.where(self.possible[-1], ends[..., :-1], -np.inf).max(axis=2, initial=-np.inf)
        known = np.maximum.accumulate(np.concatenate([none - np.inf, known, none - np.inf], axis=1), axis=1)
        every = np.maximum(known[:, -1], np.maximum(ends[..., -1].max(axis=1, initial=0.0), beyond))
        open_end = np.concatenate([none, ends[..., -1], every[:, None]], axis=1)
        out = np.where(ended, open_end[row, self.step_of(records)], 0.0)
        out = np.maximum(out, known[row, self.step_of(np.maximum(records - near, 0))])
        for j in range(near):  # record j of the series is known, and can have few values
            step = self.step_of(np.maximum(records - j, 0))
            inside = (step > 0) & (step <= len(self.sizes))
            value = np.where(self.possible[j], ends[row, np.where(inside, step - 1, 0), :-1], -np.inf).max(axis=1)
            out = np.where(inside, np.maximum(out, value), out)
        return np.asarray(np.maximum(out, 0.0))

    def step_of(self, records: Ints) -> Ints:
        """The number of the step that holds a record, from 1 on; 0: no record, the number of steps + 1: beyond all."""
        return np.searchsorted(np.append(self.first, self.end), records, side="right")

    def limits(self, row: Ints, records: Ints) -> tuple[Floats, Floats]:
        """What a side adds at least and at most, (J,) each, for some rows and numbers of records."""
        if not len(self.sizes):
            return np.zeros(len(row)), np.zeros(len(row))
        more, tail = self.beyond()
        always = np.ones(len(row), dtype=bool)
        # Unless longer sides add as much, an open end is reached at exactly its number of records.
        read = always if self.side.monotone else (records == ENDLESS) | np.isin(records, self.first)
        upper = self._value(self.bounds(), np.where(more, tail, 0.0), row, records, always)
        return self._value(self.lower, 0.0, row, records, read), upper

    def best_end(self, row: int, records: int) -> End:
        """The end behind the lower bound of a row with some number of records."""
        first = self.first[: np.searchsorted(self.first, records, side="right")]
        ends = self.lower[row, : len(first)].copy()
        place = np.clip(records - first, 0, len(self.possible) - 1)
        ends[:, :-1] = np.where(self.possible[place], ends[:, :-1], -np.inf)
        if not self.side.monotone and records != ENDLESS:
            ends[first != records, -1] = -np.inf
        if ends.max(initial=0.0) <= 0:
            return End()
        step, state = np.unravel_index(int(ends.argmax()), ends.shape)
        value, log_mu = float(ends[step, state]), float(self.best[row, step, state])
        return End(int(first[step]), -1 if state == self.side.size else int(state), value, log_mu)


class Search:
    """Profiles of both sides of some targets. Both may be one profile, where the chain is the same read backwards."""

    def __init__(self, sides: tuple[Profile, Profile], make_targets: Callable[[Ints], Targets], guess: Floats) -> None:
        self.sides, self.make_targets, self.guess = sides, make_targets, guess
        self.which = (1,) if sides[0] is sides[1] else (0, 1)
        self.place_targets()

    def place_targets(self) -> None:
        """Place targets at the numbers of records at which what a side adds may change."""
        first = np.concatenate([side.first for side in self.sides])
        self.targets = self.make_targets(distinct(np.concatenate([[0], first, np.maximum(first - 1, 0)])))
        self.lower = self.upper = self.targets.own

    def measure(self) -> tuple[Floats, Floats]:
        """What each side adds to each target at least and at most, (2, J) each."""
        limits = [self.sides[i].limits(self.targets.row, self.targets.records[i]) for i in (0, 1)]
        lower, upper = np.swapaxes(limits, 0, 1)
        self.lower, self.upper = self.targets.own + lower.sum(axis=0), self.targets.own + upper.sum(axis=0)
        return lower, upper

    def best(self, floor: Floats) -> Floats:
        """The largest lower end of each group, and no less than its floor, (groups,)."""
        best = floor.copy()
        np.maximum.at(best, self.targets.group, self.lower)
        return best

    def run(self, tolerance: float, floor: Floats) -> None:
        """Narrow the brackets until the largest upper end of each group is near its largest lower end.

        Where a ``floor`` of a group, (groups,), is known to be leaked, it is enough that no target leaks more.
        """
        rows: list[Ints] = [np.arange(len(side.rows)) for side in self.sides]
        grids = [
            first_grid(side.side, side.rows, self.guess[i][:, None] * np.linspace(1 / 3, 1.2, GRID // 8), (1, 2, 4, 8))
            for i, side in enumerate(self.sides)
        ]
        levels, wanted = [np.full(len(side.rows), -np.inf) for side in self.sides], [np.ones(1, dtype=bool)] * 2
        excess: list[float] = []
        for _ in range(_ROUNDS):
            for i in self.which:
                if len(rows[i]):
                    free = np.where(np.isfinite(levels[i]), levels[i], self.guess[i] / 3)
                    self.sides[i].learn(rows[i], grids[i], levels[i], free, wanted[i])
            self.place_targets()
            self.measure()
            self._ask(floor)
            lower, upper = self.measure()
            best = self.best(floor)
            goal = best[self.targets.group] * (1 + 0.9 * tolerance)
            wide = self.upper > best[self.targets.group] * (1 + tolerance)
            if not wide.any() or best.min() > -np.log(TINY) / 2:
                return  # near enough, or so large that everything is learned
            excess.append(float((self.upper - best[self.targets.group])[wide].max()))
            if len(excess) > 4 and excess[-1] > 0.9 * excess[-3]:
                return  # blocks, rounding, or a chain that never forgets: no more is to be had
            wide, stuck = self.upper > goal, len(excess) > 1 and excess[-1] > 0.9 * excess[-2]
            for i in self.which:
                side, need = self.sides[i], self._need(i, wide, goal, lower, upper, share=0.0 if stuck else 0.5)
                levels[i], ends = need.min(axis=1), side.bounds()
                open_ends = (ends > need[:, :-1, None]) & (ends > 0)
                rows[i], grids[i], tail_open = next_grid(side, need, open_ends)
                level = need[:, :-1, None]
                with np.errstate(invalid="ignore", divide="ignore"):
                    loose = (ends - side.edge) / np.maximum(level - side.edge, tolerance / 2 * level)
                loose = np.where(open_ends & (len(side.sizes) < 1 << 12), np.nan_to_num(loose, nan=1.0), 1.0)
                # What bounds inside a block are above those at its ends falls with the square of its size.
                halvings = np.log2(np.clip(loose.max(axis=(0, 2), initial=1.0), 1.0, 256.0)) / 2
                parts = 2 ** np.ceil(halvings).astype(np.int64)
                open_steps = np.repeat(open_ends.any(axis=(0, 2)), np.minimum(side.sizes, parts))
                wanted[i] = np.append(open_steps, tail_open)
                side.split(parts)
            if not any(len(rows[i]) for i in self.which):
                return

    def _ask(self, floor: Floats) -> None:
        """Lower bounds for the rows whose targets have the largest upper ends."""
        best = self.best(floor)
        open_rows = distinct(self.targets.row[self.upper > best[self.targets.group]])
        for side in (self.sides[i] for i in self.which):
            at, bounds = open_rows, np.where(np.isfinite(side.upper), side.bounds(), -np.inf)
            if not len(at) or not len(side.sizes):
                continue
            if len(at) > 64 and len(best) == 1:
                at = at[np.argsort(-bounds[at].max(axis=(1, 2)))[:64]]
            # An algorithm reaches its own μ wherever the vector is still positive, so μ are tried between both ends.
            levels = []
            for values in (bounds, side.lower):
                flat, prior = (part[at].reshape(len(at), -1) for part in (values, side.prior))
                pick = flat.argmax(axis=1)[:, None]
                top, prior = (np.take_along_axis(part, pick, axis=1) for part in (flat, prior))
                levels.append(np.clip(np.where(np.isfinite(top), top, 0.0) - prior, -600, 600))
            high, reached = levels
            low = np.minimum(high, reached)
            between = low + (high - low) * np.array([0.15, 0.45, 0.75, 0.95])
            side.ask(at, np.concatenate([between, high, reached], axis=1))

    def _need(self, side: int, wide: Mask, goal: Floats, lower: Floats, upper: Floats, share: float) -> Floats:
        """The level at which the ends of each step must be bounded, (Q, S + 1): the last for all beyond."""
        left, profile = (goal - self.targets.own)[wide], self.sides[side]
        slack = share * np.maximum(left - lower[:, wide].sum(axis=0), 0.0)  # for each side beyond its lower end
        need = np.maximum(lower[side, wide] + slack, left - upper[1 - side, wide])
        step = profile.step_of(self.targets.records[side, wide])
        out = np.full((len(profile.rows), len(profile.sizes) + 1), np.inf)
        some = step > 0
        np.minimum.at(out, (self.targets.row[wide][some], step[some] - 1), need[some])
        if profile.side.known or (step == len(profile.sizes) + 1).any():
            out = np.minimum.accumulate(out[:, ::-1], axis=1)[:, ::-1]
        return out


def _followed_records(side: Side, records: Ints) -> Ints:
    """How many records are followed at most; without end as many as it takes to forget the target, or give up."""
    return np.where(records == ENDLESS, 1 << (48 if side.uniform else 13), records)


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


def next_grid(side: Profile, need: Floats, open_ends: Mask) -> tuple[Ints, Floats, bool]:
    """Rows with ends that are not yet bounded by their level, new values of log μ for them, and whether to go farther.

    An end at level e and with prior ratio r is bounded by a pass at μ = e/r, so μ cover what the open ends of a row
    need, and more thinly what they are known to have at most.
    """
    if not len(side.sizes):
        return np.zeros(0, dtype=np.int64), np.zeros((0, 1)), False
    more, tails = side.beyond()
    seen = open_ends & (np.arange(len(side.sizes)) < side.followed)[:, None]
    tail_open = (more & (tails > need[:, -1])) | (open_ends & ~seen).any(axis=(1, 2))
    level, after = need[:, :-1, None], np.concatenate([side.prior[:, 1:], side.prior[:, -1:]], axis=1)
    after = np.where((side.sizes > 1)[:, None], after, side.prior)
    least, most = np.minimum(side.prior, after), np.maximum(side.prior, after)
    if side.side.weights is None:  # mixtures of values have every prior ratio between those of the values
        least[..., -1], most[..., -1] = side.prior[..., :-1].min(axis=2), side.prior[..., :-1].max(axis=2)
    ends = side.bounds()
    with np.errstate(invalid="ignore"):
        headroom = np.clip(ends - level, side.tolerance * level, 0.05 * level)
        wants = [np.where(seen, part, np.nan) for part in (level - headroom - most, level - least)]
        top = np.where(seen, np.minimum(ends, 2 * level + 1) - least, -np.inf).max(axis=(1, 2))
    added = side.reached()
    wanted = np.maximum(np.where(np.isfinite(need), need, 0.0).max(axis=1), added)
    tail = np.where(np.isfinite(tails), np.maximum(tails, wanted), 4 * wanted + 0.1)
    last = np.where(np.isfinite(need[:, -1]), need[:, -1], wanted)
    beyond = np.where(tail_open[:, None], np.stack([added, last, wanted], axis=1) - side.far[:, None], np.nan)
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
        even = first + (top - first) * np.linspace(0, 1, side.mixtures)
        tails = np.where(np.isnan(beyond[rows]), first, beyond[rows])
        return rows, _sorted(np.concatenate([even, above, tails], axis=1)), bool(tail_open.any())
    even = np.rint(np.linspace(0, 1, GRID // 2) * (count - 1)).astype(int)
    parts = [np.take_along_axis(part, even, axis=1) for part in (low, high)]
    parts += [first + (end - first) * np.linspace(0, 1, GRID // 3) for end in (last, top)]
    return rows, _sorted(np.concatenate([*parts, above], axis=1)), bool(tail_open.any())


def quick_bounds(
    side: Side, rows: Rows, level: Floats, records: Ints, exact: bool, tolerance: float, grid: Floats
) -> tuple[Floats, Floats]:
    """What rows add at most, (Q,), by one pass, +∞ where that shows nothing; and where μ are missing, (2, Q).

    The pass, at the values of log μ of a ``grid``, (Q, G), is left once all farther ends are bounded by the ``level``,
    (Q,). A series ends behind ``exact``ly so many ``records``, (Q,), or may end before.
    """
    out, at = np.where(records == 0, 0.0, np.inf), np.flatnonzero(records != 0)
    most = _followed_records(side, records)
    depth, top = int(most.max(initial=0)), np.zeros(len(rows))
    missing = np.array([grid[:, -1], grid[:, 0]])
    work, longest = Pass(side, rows.pick(at), grid[at], tolerance), depth
    while len(at) and work.distance <= depth:
        first = work.distance
        size = block_size(side, first, min(longest, depth - first + 1))
        behind = work.spent + size * work.losses
        if (behind <= level[at]).all():
            work.skip(size)
            top[at] = behind
            continue
        before = copy(work)
        ends = work.singles(min(work.together(), depth - first + 1)) if size == 1 else work.block(size)
        if size > 1 and ((ends.upper > level[at][:, None]) & (ends.edge <= level[at][:, None])).any():
            work, longest = before, size // 2  # bounds inside the block are too far above those at its ends
            continue
        longest = 2 * size
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
