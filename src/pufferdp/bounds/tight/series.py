"""Series with an end: losses that differ from record to record, kernels that differ from step to step, every record.

Theorem 2: given its target, both sides of a record are independent. What the worst algorithm leaks about record i is
its own loss τ_i and what each side adds, for the worst pair of values, and for each side the worst of its ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.any_start import Before, worst_starts
from pufferdp.bounds.tight.attack import SideAttack, TightLeakage, questions_of, two_state_questions
from pufferdp.bounds.tight.inputs import Chain
from pufferdp.bounds.tight.many_series import LongLane
from pufferdp.bounds.tight.odds import largest_log_odds, odds_sides
from pufferdp.bounds.tight.outlook import MOST_LOSS, OPEN_END, Bracket, Lasting, Outlook, Rows, scaled, slow_questions
from pufferdp.bounds.tight.sides import solve
from pufferdp.bounds.tight.steady import MOST_ENDS, MOST_SPENT, Steady, SteadySeries, WholeSeries
from pufferdp.bounds.tight.two_series import SideTables, side_tables

WIDTH: Final = 1e-10
"""How narrow brackets are by default, as a share of the leakage."""
_TINY: Final = 1e-250
_RARE: Final = 1e-12
"""Moves that are rarer are left to the general way, which follows their rounding."""
_STEADY_ROOM: Final = 1e-11
"""For rounding, beside the width."""
_NEAR_START: Final = 256
"""Records behind the first one up to which its law is looked at, where it may be any."""
_FEW: Final = 8
_LONG: Final = 128
"""Records from which on all of them are followed side by side."""
_LONG_WIDTH: Final = 1e-7
_GUESS: Final = 0.9
_NEWTON: Final = 12
_NEAR_BEST: Final = 0.97
_NEAR_DEPTH: Final = 8
_SOME: Final = 64
_FADES: Final = 128
"""Distances that a first guess looks at."""
_BLOCK: Final = 512
_WARM: Final = 64


@dataclass(frozen=True, eq=False)
class Lanes:
    """Both sides of all records of a series: kernels outwards, in the order in which a lane meets them.

    Record i has offset n − 1 − i before it, and offset i behind it.
    """

    before: Floats
    """(m, k, k): the chain read backwards from the last record; m = 1: the same everywhere."""
    after: Floats
    """(m, k, k)."""
    possible: Mask
    """(n, k): the values that each record can have."""
    any_start: bool
    """Whether the first record may have any law: then ``before`` is turned round and no more."""

    @property
    def outlook_kernels(self) -> Floats:
        """(2, m, k, k)."""
        if len(self.before) == len(self.after):
            return np.stack([self.before, self.after])
        n = len(self.possible)
        steps = np.arange(max(n - 1, 1))
        return np.stack([self.before[steps % len(self.before)], self.after[steps % len(self.after)]])


def lanes(chain: Chain, n: int) -> Lanes:
    """Both sides of a series of n records."""
    steps = max(n - 1, 1)
    possible = inputs.supports(chain, n)
    backwards = np.arange(steps)[::-1] % chain.period
    if chain.start is None:
        turned = chain.kernels.swapaxes(1, 2)
        if chain.period == 1 and possible.all():
            return Lanes(turned, chain.kernels, possible, True)
        # A value that a record cannot have cannot be known there either.
        before = turned[backwards] * possible[:steps][::-1][:, None, :]
        return Lanes(before, chain.kernels, possible, True)
    if chain.stationary and chain.period == 1:
        return Lanes(_reversed(chain.start, chain.kernels[0])[0][None], chain.kernels, possible, False)
    before = _all_reversed(chain, steps)[::-1]
    return Lanes(before, chain.kernels, possible, False)


def _reversed(law: Floats, kernel: Floats) -> tuple[Floats, Floats]:
    """Where a record came from, given its value; and its law."""
    joint = law[:, None] * kernel
    after = joint.sum(axis=0)
    return np.divide(joint.T, after[:, None], out=np.zeros_like(joint), where=after[:, None] > 0), after


def _all_reversed(chain: Chain, steps: int) -> Floats:
    """The chain read backwards at every step, in the order of the series."""
    assert chain.start is not None
    out, law = np.empty((steps, chain.size, chain.size)), chain.start
    for t in range(steps):
        out[t], law = _reversed(law, chain.kernels[t % chain.period])
        if (law[law > 0] < _TINY).any():
            return _all_reversed_in_logs(chain, steps)
    return out


def _all_reversed_in_logs(chain: Chain, steps: int) -> Floats:
    """The same where some values become too rare for a double."""
    assert chain.start is not None
    out = np.empty((steps, chain.size, chain.size))
    with np.errstate(divide="ignore"):
        law, kernels = np.log(chain.start), np.log(chain.kernels)
    for t in range(steps):
        joint = law[:, None] + kernels[t % chain.period]
        top = joint.max(axis=0)
        shift = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            law = np.log(np.exp(joint - shift).sum(axis=0)) + shift
        out[t] = np.exp(joint - np.where(np.isfinite(law), law, np.inf)).T
    return out


@dataclass(frozen=True, kw_only=True, eq=False)
class SeriesLeakage:
    """What a series leaks about each of its records, whatever the algorithm."""

    losses: Floats
    """The DP loss of each record."""
    lower: Floats
    """Some algorithm with these losses leaks as much about each record."""
    upper: Floats
    """None leaks more."""
    likelier: Ints
    """The value that the worst algorithm speaks for, record by record."""
    other: Ints
    """And against which; the same number where a record has one value only."""
    adversary: str
    ends: tuple[Ints, Ints] = field(repr=False)
    """Distances and values of the ends behind ``lower``, (2, n) each: before and after."""
    added: Floats = field(repr=False)
    """(2, n): what each side adds, at least."""
    mu: Floats = field(repr=False)
    """(2, n): log μ of the passes behind it; 0 for two states, whose questions are known."""

    @property
    def value(self) -> float:
        """No algorithm with these losses leaks more about any record."""
        return float(self.upper.max())

    @property
    def worst(self) -> int:
        """The record that leaks most, counted from 1; the first of those that leak as much up to rounding."""
        most = float(self.lower.max())
        return int(np.argmax(self.lower >= most - WIDTH * (1 + most))) + 1


def leakage_of_losses(
    transition: npt.ArrayLike,
    losses: npt.ArrayLike,
    *,
    start: str | npt.ArrayLike = "stationary",
    adversary: str = "bdp",
    each: bool = True,
    width: float = WIDTH,
) -> SeriesLeakage:
    """What any algorithm with these DP losses, one for each record, leaks about each record of a chain.

    >>> activity = [[0.882, 0.118], [0.305, 0.695]]
    >>> found = leakage_of_losses(activity, [0.1, 0.0, 0.3, 0.2, 0.0, 0.1], start=[0.9, 0.1])
    >>> round(found.value, 6), found.worst
    (0.455593, 3)

    Args:
        transition: one table, or several that follow each other, again and again if they are too few.
        losses: one a record.
        start: the law of the first record, "stationary" or "any".
        adversary: bdp, pufferfish or dp.
        each: whether every record's bracket is to be narrow, or only that of the worst one: for many states and very
            long series that is much quicker.
        width: how narrow brackets are to be, as a share; no less than 1e-7 for long series of many states.
    """
    chain = inputs.chain(transition, start)
    return series_leakage(chain, inputs.losses(losses), inputs.adversary(adversary), width, largest=not each)


def series_leakage(
    chain: Chain, losses: Floats, adversary: str, width: float = WIDTH, *, sides: str = "both", largest: bool = False
) -> SeriesLeakage:
    """The same for a chain and losses that have been checked.

    ``sides`` may be before, after or both. Where only the ``largest`` counts, upper ends of other records may be as
    large as that.
    """
    n = len(losses)
    both = lanes(chain, n)
    certain = bool((both.possible.sum(axis=1) < 2).all())
    if adversary == "dp" or certain or chain.independent or n == 1:
        return _own(both, losses, adversary)
    if chain.size == 2:
        return _of_two(both, losses, adversary, width, sides)
    found = _of_many(both, np.minimum(losses, MOST_LOSS), adversary, width, sides, largest)
    return found if (losses <= MOST_LOSS).all() else _with_cut_losses(both, found, losses)


def steady_series(chain: Chain, n: int, adversary: str) -> SteadySeries | None:
    """The same for equal losses, where a chain keeps its law and its pairs of values are few; None for others."""
    k = chain.size
    few = k * (k - 1) * n * (k + 1) <= MOST_ENDS
    if k < 3 or n < 2 or chain.period > 1 or not (chain.stationary and chain.primitive and few):
        return None
    both = lanes(chain, n)
    if not both.possible.all() or (both.after[both.after > 0] < _RARE).any():
        return None
    return SteadySeries(both.before[0], both.after[0], n, adversary == "bdp")


def of_steady(series: SteadySeries, loss: float, adversary: str, width: float) -> SeriesLeakage | None:
    """What it leaks about each record; None where losses are too large for it."""
    if loss * series.n > MOST_SPENT or loss == 0:
        return None
    found = series.at(loss, width)
    if found.upper.max() > found.lower.max() * (1 + 10 * width) + _STEADY_ROOM:
        return None
    return of_records(found, loss, adversary)


def of_whole(series: WholeSeries, loss: float) -> SeriesLeakage | None:
    """The same for a long series; the ends of its worst record alone are told."""
    return of_records(series.at(loss), loss, series.adversary) if series.serves(loss) else None


def of_records(found: Steady, loss: float, adversary: str) -> SeriesLeakage:
    """What was found for each record."""
    return SeriesLeakage(
        losses=np.full(len(found.lower), loss),
        lower=found.lower,
        upper=found.upper,
        likelier=found.likelier,
        other=found.other,
        adversary=adversary,
        ends=(found.distance, found.state),
        added=found.added,
        mu=found.mu,
    )


def _with_cut_losses(both: Lanes, found: SeriesLeakage, losses: Floats) -> SeriesLeakage:
    """Records that spend more than was counted leak the rest of their own loss, and others show that at most."""
    rest, alive = losses - found.losses, found.likelier != found.other
    kernels, shown = (both.before, both.after), rest.sum() - rest
    if not both.any_start and (both.after > 0).all():
        least = min(float(kernel[kernel > 0].min()) for kernel in kernels)
        shown = np.minimum(shown, int((rest > 0).sum()) * beyond_cut(both.possible.shape[1], least))
    upper = np.where(alive, np.minimum(found.upper + rest + shown, losses.sum()), 0.0)
    return replace(found, losses=losses, lower=np.where(alive, found.lower + rest, 0.0), upper=upper)


def beyond_cut(states: int, least: float) -> float:
    """What a side may add where one of its records spends more than is counted, in a chain without zeros.

    Why: docs/theory/tight.md, "Very large losses".
    """
    return float(np.log1p((states - 1) * np.exp(-MOST_LOSS - 2 * np.log(least))))


def _own(both: Lanes, losses: Floats, adversary: str) -> SeriesLeakage:
    """Nobody learns from other records."""
    first = both.possible.argmax(axis=1)
    last = both.possible.shape[1] - 1 - both.possible[:, ::-1].argmax(axis=1)
    found = np.where(first < last, losses, 0.0)
    ends = np.zeros((2, len(losses)), dtype=np.int64)
    return SeriesLeakage(
        losses=losses,
        lower=found,
        upper=found,
        likelier=first,
        other=last,
        adversary=adversary,
        ends=(ends, ends - 1),
        added=np.zeros((2, len(losses))),
        mu=np.zeros((2, len(losses))),
    )


def _of_two(both: Lanes, losses: Floats, adversary: str, width: float, sides: str) -> SeriesLeakage:
    alive: Mask = np.asarray(both.possible.all(axis=1))
    known, one = adversary == "bdp", np.ones(2)
    tables = []
    for side, kernels, order in (("before", both.before, slice(None, None, -1)), ("after", both.after, slice(None))):
        if sides in ("both", side):
            end = None if side == "before" and both.any_start else one
            table = side_tables(kernels, losses[order], end, known, alive[order], width)
            bounds, ends = (
                (table.lower[:, order], table.upper[:, order]),
                (table.distance[:, order], table.state[:, order]),
            )
            tables.append(SideTables(*bounds, *ends))
    lower, upper = (losses + np.sum([getattr(t, name) for t in tables], axis=0) for name in ("lower", "upper"))
    pair = upper.argmax(axis=0)[None]
    at = np.arange(len(losses))
    nearest = [np.zeros((2, len(losses)), dtype=np.int64), np.full((2, len(losses)), -1)]
    added = np.zeros((2, len(losses)))
    for lane, table in enumerate(tables if len(tables) == 2 else [tables[0], tables[0]]):
        nearest[0][lane] = table.distance[pair[0], at]
        nearest[1][lane] = table.state[pair[0], at]
        added[lane] = np.where(alive, table.lower[pair[0], at], 0.0)
    return SeriesLeakage(
        losses=losses,
        lower=np.where(alive, lower.max(axis=0), 0.0),
        upper=np.where(alive, upper.max(axis=0), 0.0),
        likelier=np.where(alive, pair[0], 0),
        other=np.where(alive, 1 - pair[0], 0),
        adversary=adversary,
        ends=(nearest[0], nearest[1]),
        added=added,
        mu=np.zeros_like(added),
    )


def _of_many(both: Lanes, losses: Floats, adversary: str, width: float, sides: str, largest: bool) -> SeriesLeakage:
    """Many states: the likeliest worst pair of every record first, then whatever could leak more."""
    n, k = both.possible.shape
    here = {"before": [0], "after": [1], "both": [0, 1]}[sides]
    kernels = both.outlook_kernels[here]
    along = np.stack([losses[::-1][1:], losses[1:]])[here]
    x, y = np.nonzero(~np.eye(k, dtype=bool))
    record, pair = np.nonzero(both.possible[:, x] & both.possible[:, y])
    offsets = np.stack([n - 1 - record, record])[here]
    rows = Rows(offsets, n - 1 - offsets, along, x[pair], y[pair])
    own = losses[record]
    if both.any_start and 0 in here:
        found = _any_start(both, kernels, rows, own, adversary, width, largest)
        return _collect(rows, record, losses, adversary, [(np.arange(len(rows)), found)], here)
    look = Outlook(kernels, np.ones((len(here), k)), adversary == "bdp", False)
    if n > _LONG:
        search = _Long(look, rows, record, own, _long_lanes(both, losses, here, look.known), here, width)
        if not largest:
            return _collect(rows, record, losses, adversary, search.each(np.arange(len(rows))), here)
        bounds = _odds_bounds(both, losses, sides)
        parts, proved = search.largest(bounds)
        return _collect(rows, record, losses, adversary, parts, here, np.minimum(bounds, proved))
    likely = first_order(kernels, rows)
    lasting = _lasting(kernels, along, look.end)
    parts = worst_pairs(look, rows, record, own, likely, lasting, width, largest=largest)
    return _collect(rows, record, losses, adversary, parts, here)


def _long_lanes(both: Lanes, losses: Floats, here: list[int], known: bool) -> list[LongLane]:
    after, steps = both.after, np.arange(len(losses) - 1)
    if len(after) > 1:  # kernels come again and again, one for each step
        after = after[steps % len(after)]
    orders = [(both.before, losses[::-1]), (after, losses)]
    return [LongLane(*orders[lane], known) for lane in here]


def _odds_bounds(both: Lanes, losses: Floats, sides: str) -> Floats:
    """The closed form for each record: it holds for every adversary."""
    steps = np.array([largest_log_odds(kernel) for kernel in both.after])
    if len(steps) != len(losses) - 1:
        steps = steps[np.arange(len(losses) - 1) % len(steps)]
    before, after = odds_sides(losses, steps)
    return np.asarray(losses + before * (sides != "after") + after * (sides != "before"))


class _Long:
    """Long series: what is reached first, then proofs for all pairs of records, then what has no quick proof."""

    def __init__(
        self,
        look: Outlook,
        rows: Rows,
        record: Ints,
        own: Floats,
        lanes_of: list[LongLane],
        here: list[int],
        width: float,
    ) -> None:
        self.look, self.rows, self.record, self.own, self.lanes = look, rows, record, own, lanes_of
        self.width = max(width, _LONG_WIDTH)
        n = lanes_of[0].n
        self.places = [n - 1 - record if side == 0 else record for side in here]
        self.likely = first_order(look.kernels, rows)
        self.far = max(lane.forgets(_LONG_WIDTH / 10) for lane in lanes_of)

    def each(self, at: Ints, need: float = 0.0) -> list[tuple[Ints, Bracket]]:
        """Brackets of some rows: every record's worst pair to the width, others as far as they could leak more."""
        record, own, n = self.record[at], self.own[at], self.lanes[0].n
        found = self._reached(at)
        best = np.full(n, need)
        np.maximum.at(best, record, own + found.lower.sum(axis=0))
        top = (best * (1 + 0.8 * self.width))[record]
        levels = found.lower + (top - own - found.lower.sum(axis=0)) / len(self.lanes)
        proved = self._proved(at, levels, (found.distance, found.state))
        found.upper[:] = levels + 1e-12
        rest = np.flatnonzero(~proved)
        parts = [(at[proved], found.pick(proved))]
        if len(rest):
            lasting = _lasting(self.look.kernels, self.rows.losses, self.look.end)
            rows = self.rows.pick(at[rest])
            out = solve(self.look, rows, own=own[rest], need=top[rest], lasting=lasting, width=self.width)
            parts.append((at[rest], out))
        return parts

    def largest(self, bounds: Floats) -> tuple[list[tuple[Ints, Bracket]], float]:
        """Brackets of those rows that could be the worst; and what all others are proved to leak at most."""
        score = self.own + self.likely.sum(axis=0)
        tried = np.zeros(self.lanes[0].n, dtype=bool)
        tried[self.record[np.argpartition(-score, min(_SOME, len(score) - 1))[:_SOME]]] = True
        parts = self.each(np.flatnonzero(tried[self.record]))
        best = max(float((self.own[at] + part.lower.sum(axis=0)).max(initial=0.0)) for at, part in parts)
        goal = best * (1 + 0.5 * self.width)
        rest = np.flatnonzero((bounds > best)[self.record] & ~tried[self.record])
        if len(rest):
            total = self.likely[:, rest].sum(axis=0)
            even = np.full(total.shape, 1 / len(self.lanes))
            shares = np.where(total > 0, self.likely[:, rest] / np.where(total > 0, total, 1.0), even)
            levels = (goal - self.own[rest]) * shares
            open_ends = np.zeros(levels.shape, dtype=np.int64), np.full(levels.shape, OPEN_END)
            rest = rest[~((levels > 0).all(axis=0) & self._proved(rest, levels, open_ends))]
        if len(rest):
            parts += self.each(rest, best)
        return parts, goal

    def _proved(self, at: Ints, levels: Floats, ends: tuple[Ints, Ints]) -> Mask:
        proved = np.ones(len(at), dtype=bool)
        for i, lane in enumerate(self.lanes):
            left = np.flatnonzero(proved)
            rows = at[left]
            end = ends[0][i, left], ends[1][i, left]
            place, x, y = self.places[i][rows], self.rows.x[rows], self.rows.y[rows]
            proved[left] = lane.proves(place, x, y, levels[i, left], 8 * self.far, end)
        return proved

    def _reached(self, at: Ints) -> Bracket:
        """Lower ends by Newton's method: a few passes for all rows, more for those near the best of their record."""
        found = _empty_bracket(len(self.lanes), len(at))
        asks, every = np.zeros(found.lower.shape), np.arange(len(at))
        guess, record, own = self.likely[:, at] * _GUESS, self.record[at], self.own[at]
        for shift in (1.0, 0.4, 1.6) if self.look.known else (1.0,):
            self._climb(at, every, guess * shift, found, asks, _NEAR_DEPTH)
        best, close = np.zeros(self.lanes[0].n), every
        for _ in range(_NEWTON):
            total = own + found.lower.sum(axis=0)
            np.maximum.at(best, record, total)
            close = close[total[close] >= _NEAR_BEST * best[record[close]]]
            before = found.lower[:, close].sum(axis=0)
            self._climb(at, close, asks[:, close], found, asks, self.far)
            close = close[found.lower[:, close].sum(axis=0) > before * (1 + _LONG_WIDTH / 20)]
            if not len(close):
                break
        return found

    def _climb(self, at: Ints, some: Ints, logs: Floats, found: Bracket, asks: Floats, depth: int) -> None:
        """One pass of some rows at these μ; better ends are kept, with the μ that they ask for."""
        for i, lane in enumerate(self.lanes):
            rows = at[some]
            reached = lane.reach(self.places[i][rows], self.rows.x[rows], self.rows.y[rows], logs[i], depth)
            better = reached.lower > found.lower[i, some]
            to = some[better]
            found.lower[i, to], asks[i, to] = reached.lower[better], reached.asks[better]
            found.distance[i, to], found.state[i, to] = reached.distance[better], reached.state[better]
            found.mu[i, to] = reached.mu[better]


def _empty_bracket(lanes_of: int, n: int) -> Bracket:
    shape = (lanes_of, n)
    ends = np.zeros(shape, dtype=np.int64), np.full(shape, OPEN_END)
    return Bracket(np.zeros(shape), np.zeros(shape), *ends, np.zeros(shape))


def worst_pairs(
    look: Outlook,
    rows: Rows,
    record: Ints,
    own: Floats,
    likely: Floats,
    lasting: Lasting | None,
    width: float,
    *,
    largest: bool = False,
) -> list[tuple[Ints, Bracket]]:
    """Brackets of all rows: the likeliest of each record first, the others as far as they could leak more."""
    if largest:
        first = np.argsort(-(own + likely.sum(axis=0)), kind="stable")[:_FEW]
    else:
        order = np.lexsort((-likely.sum(axis=0), record))
        first = order[np.unique(record[order], return_index=True)[1]]
    out = solve(look, rows.pick(first), own=own[first], guess=likely[:, first], lasting=lasting, width=width)
    total = np.full(int(record.max(initial=0)) + 1, -np.inf)
    np.maximum.at(total, record[first], own[first] + out.upper.sum(axis=0))
    rest = np.setdiff1d(np.arange(len(rows)), first)
    need = np.full(len(rest), total.max()) if largest else total[record[rest]]
    other = solve(look, rows.pick(rest), own=own[rest], need=need, lasting=lasting, width=width)
    return [(first, out), (rest, other)]


def _any_start(
    both: Lanes, kernels: Floats, rows: Rows, own: Floats, adversary: str, width: float, largest: bool
) -> Bracket:
    """Any law of the first record: looked at where it is near, and bounded with all other far ends where it is not."""
    end = np.ones((len(kernels), kernels.shape[-1]))
    end[0] = 0.0
    law = inputs.stationary_law(both.after[0]) if len(both.after) == 1 else None
    lasting, tends_to = None, None
    if law is not None and (law > 0).all():  # among the laws is the one that the chain keeps
        tends_to = end.copy()
        tends_to[0] = law
        lasting = _lasting(kernels, rows.losses, tends_to)
    look = Outlook(kernels, end, adversary == "bdp", False, tends_to=tends_to)
    found = solve(look, rows, own=own, lasting=lasting, width=width, longest=_NEAR_START)
    near = np.flatnonzero((rows.records[0] > 0) & (rows.records[0] <= _NEAR_START))
    if len(near):
        m = len(both.before)
        before = Before(
            both.before if m == 1 else both.before[np.arange(m) % m],
            rows.losses[0],
            rows.offsets[0, near],
            rows.records[0, near],
            False,
            rows.x[near],
            rows.y[near],
        )
        beside = None
        if largest:
            least, most = (own[near] + part[1:, near].sum(axis=0) for part in (found.lower, found.upper))
            beside = least, most
        reached = float((own + found.lower.sum(axis=0)).max())
        starts = worst_starts(before, width, each=True, beside=beside, reached=reached)
        better = starts.lower[:, 0] > found.lower[0, near]
        found.lower[0, near] = np.maximum(found.lower[0, near], starts.lower[:, 0])
        found.upper[0, near] = np.maximum(found.upper[0, near], starts.upper[:, 0])
        found.distance[0, near[better]] = rows.records[0, near[better]]
        found.state[0, near[better]] = OPEN_END
    return found


def _collect(
    rows: Rows,
    record: Ints,
    losses: Floats,
    adversary: str,
    parts: list[tuple[Ints, Bracket]],
    here: list[int],
    bounds: Floats | None = None,
) -> SeriesLeakage:
    """The worst pair of every record; rows without a bracket leak no more than the bounds of their records."""
    n, many = len(losses), len(rows)
    lower, upper = np.zeros(many), np.full(many, -np.inf)
    distance, state = np.zeros((2, many), dtype=np.int64), np.full((2, many), -1)
    added, mu = np.zeros((2, many)), np.zeros((2, many))
    for at, found in parts:
        lower[at], upper[at] = (losses[record[at]] + part.sum(axis=0) for part in (found.lower, found.upper))
        to = np.ix_(np.array(here), at)
        distance[to], state[to], added[to], mu[to] = found.distance, found.state, found.lower, found.mu
    if bounds is not None:
        upper = np.where(np.isneginf(upper), bounds[record], upper)
        lower = np.maximum(lower, losses[record])
    most, least = np.zeros(n), np.zeros(n)
    np.maximum.at(most, record, upper)
    np.maximum.at(least, record, lower)
    order = np.lexsort((-lower, record))
    seen, at = np.unique(record[order], return_index=True)
    worst = order[at]
    likelier, other = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    likelier[seen], other[seen] = rows.x[worst], rows.y[worst]
    ends = np.zeros((2, n), dtype=np.int64), np.full((2, n), -1)
    ends[0][:, seen], ends[1][:, seen] = distance[:, worst], state[:, worst]
    parts_of = np.zeros((2, 2, n))
    parts_of[0][:, seen], parts_of[1][:, seen] = added[:, worst], mu[:, worst]
    return SeriesLeakage(
        losses=losses,
        lower=least,
        upper=most,
        likelier=likelier,
        other=other,
        adversary=adversary,
        ends=ends,
        added=parts_of[0],
        mu=parts_of[1],
    )


def first_order(kernels: Floats, rows: Rows) -> Floats:
    """What sides add where losses are small, (lanes, R): losses times total variations at their distances."""
    k = kernels.shape[-1]
    out = np.zeros(rows.offsets.shape)
    pairs, which = np.unique(rows.x * k + rows.y, return_inverse=True)
    for lane, mean in enumerate(kernels.mean(axis=1)):
        power, apart = np.eye(k), list[Floats]()
        while len(apart) < _FADES and (not apart or apart[-1].max() >= 1e-3):
            power = power @ mean
            apart.append(np.abs(power[pairs // k] - power[pairs % k]).sum(axis=1) / 2)
        fades = np.array(apart).T
        losses = rows.losses[lane]
        padded = np.concatenate([losses, np.full(fades.shape[1], losses[0] if len(losses) == 1 else 0.0)])
        table = np.array([np.correlate(padded, fade, "valid") for fade in fades])
        out[lane] = table[which, np.minimum(rows.offsets[lane], table.shape[1] - 1)]
    return out


def _lasting(kernels: Floats, along: Floats, end: Floats) -> Lasting | None:
    """Weights of two lasting questions by position: blocks of a lane side by side, each begun a little early."""
    lanes_of, m = kernels.shape[:2]
    n = along.shape[1]
    found = []
    for lane in range(lanes_of):
        mean = kernels[lane].mean(axis=0)
        cycles = slow_questions(mean)
        if not cycles:
            return None
        gains = np.exp(np.minimum(along[lane], MOST_LOSS))
        firsts = np.arange(0, n, _BLOCK)
        weights = np.tile(end[lane], (n + 1, 2, 1))
        now = np.tile(end[lane], (len(firsts), 2, 1))
        for step in range(min(_BLOCK, n) + _WARM - 1, -1, -1):
            at = firsts + step
            inside = at < n
            safe = np.minimum(at, n - 1)
            asked = np.stack([cycle[step % len(cycle)] for cycle in cycles])
            moved = now * np.where(asked, gains[safe][:, None, None], 1.0)
            moved = (kernels[lane][safe % m][:, None] @ moved[..., None])[..., 0]
            now = np.where(inside[:, None, None], scaled(moved, (2,)), now)
            if step < _BLOCK:
                weights[at[inside]] = now[inside]
        found.append(weights)
    return Lasting(np.array(found))


def attack_on(chain: Chain, found: SeriesLeakage, record: int) -> TightLeakage:
    """The worst algorithm and adversary behind the lower end of one record, counted from 1."""
    at, n = record - 1, len(found.losses)
    both = lanes(chain, n)
    pair = int(found.likelier[at]), int(found.other[at])
    before, after = (
        _attack_side(chain, found, at, lane, _outwards(both, lane, n - 1 - at if lane == 0 else at)) for lane in (0, 1)
    )
    return TightLeakage(
        dp_loss=float(found.losses[at]),
        lower=float(found.lower[at]),
        upper=float(found.upper[at]),
        adversary=found.adversary,
        length=n,
        model=0,
        record=record,
        phase=at % chain.period if chain.period > 1 else None,
        likelier=pair[0],
        other=pair[1],
        before=before,
        after=after,
    )


def _outwards(both: Lanes, lane: int, offset: int) -> Floats:
    """Kernels from a record on, outwards."""
    kernels = both.after if lane else both.before
    return np.roll(kernels, -offset, axis=0) if len(kernels) > 1 else kernels


def _attack_side(chain: Chain, found: SeriesLeakage, at: int, lane: int, kernels: Floats) -> SideAttack:
    """One side: the end that was found to be worst, and the questions up to it."""
    losses = found.losses[at + 1 :] if lane else found.losses[:at][::-1]
    pair = int(found.likelier[at]), int(found.other[at])
    distance, state = int(found.ends[0][lane, at]), int(found.ends[1][lane, at])
    added = float(found.added[lane, at])
    count = max(distance - 1, 0) if state >= 0 else len(losses)
    if pair[0] == pair[1] or added <= 0:
        count = 0
    questions: tuple[tuple[int, ...], ...] = ()
    if count and chain.size == 2 and chain.period == 1:
        (a, b), (c, d) = chain.kernels[0]
        asked = two_state_questions(bool(a * d >= b * c), pair[0], count)
        questions = tuple(one if loss > 0 else () for one, loss in zip(asked, losses, strict=False))
    elif count and chain.size > 2 and not (chain.start is None and lane == 0 and state < 0):
        # The worst law of the first record has questions of its own, which are not followed.
        # The end of the series says nothing by itself: what is added is the quotient that its questions reach.
        log_mu = float(found.mu[lane, at]) if state >= 0 else added
        questions = questions_of(kernels, losses[:count], *pair, log_mu, count)
    return SideAttack(
        added=added,
        known=(distance, state) if state >= 0 else None,
        records=count,
        questions=questions,
    )
