"""Targets of a series and the driver of the search: equal losses at any position, or a loss of its own for each record.

Theorem 2: given its target, both sides of a record are independent. What the worst-case algorithm leaks about record i
is its own loss τ_i and what each side adds, for the worst pair of values, and for each side the worst of its ends.

Pairs are ordered by what they add at small losses: the sum over distances of the loss times the total variation between
the distributions given either value. The first pairs are searched; the others need only be shown to leak no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask, distinct
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.attack import SideAttack, TightLeakage, questions_of
from pufferdp.bounds.tight.inputs import Chain
from pufferdp.bounds.tight.recursion import Rows, Side, best_first_distribution, follow
from pufferdp.bounds.tight.search import ENDLESS, GRID, End, Profile, Search, Targets, first_grid, quick_bounds

TOLERANCE: Final = 1e-3
"""The upper end of a bracket is larger than the lower one by at most this share."""
_FIRST: Final = 6
"""Pairs that are searched before the others are compared with them."""
_CHUNK: Final = 256
"""Rows that are searched together."""


def reversed_kernel(distribution: Floats, kernel: Floats) -> Floats:
    """The distribution of a record given the next one; rows of values that the next one cannot have are 0."""
    joint = distribution[:, None] * kernel
    after = joint.sum(axis=0)
    return np.asarray(np.divide(joint.T, after[:, None], out=np.zeros_like(joint), where=after[:, None] > 0))


@dataclass(frozen=True, eq=False)
class Problem:
    """All targets of a series: a row for each pair of values that a record can have."""

    sides: tuple[Side, Side]
    """Before and after the targets."""
    rows: tuple[Rows, Rows]
    own: Floats
    """(N,): the target's own loss."""
    group: Ints
    """(N,): the largest leakage of each group is wanted."""
    records: Ints | None
    """(2, N): records on either side of each target; None: targets at every position of a series."""
    length: int | None
    """Records of the series; None: without end."""
    possible: Mask | None = None
    """(t, k): values that the first records can have, where positions differ; later ones are as the last."""
    positions: Ints | None = None
    """(2, P): records before and after targets, where some positions are asked for; each is a group of its own."""

    def __len__(self) -> int:
        return len(self.own)

    @cached_property
    def alike(self) -> bool:
        """Whether both sides are the same."""
        (a, b), (c, d) = self.sides, self.rows
        if a.weights is None or b.weights is None or a.kernels.shape != b.kernels.shape:
            return False
        same = np.allclose(a.kernels, b.kernels, rtol=1e-13, atol=0) and (a.weights == b.weights).all()
        plain = self.records is None and self.positions is None
        return bool(same and a.uniform and plain and (c.offsets == d.offsets).all())

    @cached_property
    def slopes(self) -> Floats:
        """What each side adds at small losses, (2, N)."""
        found = np.array(
            [small_loss_slope(side, rows, self.length) for side, rows in zip(self.sides, self.rows, strict=True)]
        )
        return found if self.records is None else np.where(self.records == 0, 1e-15, found)

    @cached_property
    def likely(self) -> Floats:
        """About what each row leaks, to order them, (N,). Of equal slopes those of a rare value leak more."""
        far = self.sides[1].at_distance(1 << 10)
        share = far.sum(axis=1) / far.sum(axis=(1, 2))[:, None].clip(1e-300)
        rows = self.rows[1]
        return np.asarray(self.own + self.slopes.sum(axis=0) * (1 - 0.02 * share[rows.offsets % len(far), rows.x]))

    def longest(self, side: int, at: Ints) -> Ints:
        """The most records on a side of some rows; ``ENDLESS`` without end."""
        if self.records is not None:
            return np.asarray(self.records[side, at])
        return np.full(len(at), ENDLESS if self.length is None else self.length - 1)

    def targets(self, at: Ints, cuts: Ints) -> Targets:
        """The targets of some rows, with positions where what a side adds may change."""
        if self.records is not None:
            return Targets(self.own[at], np.arange(len(at)), self.records[:, at], self.group[at])
        places = self._positions(cuts) if self.positions is None else self.positions
        row, place = np.repeat(np.arange(len(at)), places.shape[1]), np.tile(np.arange(places.shape[1]), len(at))
        if self.possible is not None:
            values = self.possible[places[0].clip(max=len(self.possible) - 1)]
            x, y = self.rows[1].x[at], self.rows[1].y[at]
            real = values[place, x[row]] & values[place, y[row]]
            row, place = row[real], place[real]
        group = self.group[at][row] if self.positions is None else place
        return Targets(self.own[at][row], row, places[:, place], group)

    def _positions(self, cuts: Ints) -> Ints:
        """Numbers of records before and after targets, (2, P)."""
        if self.length is not None:
            before = distinct(np.concatenate([cuts, self.length - 1 - cuts]))
            before = before[(before >= 0) & (before < self.length)]
            return np.stack([before, self.length - 1 - before])
        if self.sides[0].monotone:
            return np.full((2, 1), ENDLESS)
        before = np.append(cuts, ENDLESS)
        return np.stack([before, np.full(len(before), ENDLESS)])


def small_loss_slope(side: Side, rows: Rows, length: int | None) -> Floats:
    """Losses times total variations, summed over distances, (N,); uniform sides are read where distances double."""
    m, total, before, distance, power = len(side.kernels), np.zeros(len(rows)), 0, 1, side.kernels
    most = min(1 << 40 if side.uniform else 64, length or ENDLESS)
    kinds, which = np.unique((rows.offsets % m * side.size + rows.x) * side.size + rows.y, return_inverse=True)
    pairs = np.unravel_index(kinds, (m, side.size, side.size))
    while before < most:
        distributions = power / power.sum(axis=2, keepdims=True).clip(1e-300)
        apart = np.abs(distributions[pairs[0], pairs[1]] - distributions[pairs[0], pairs[2]]).sum(axis=1) / 2
        losses = side.losses[(rows.offsets + distance - 1) % len(side.losses)]
        total += apart[which.reshape(-1)] * (min(distance, most) - before) * losses
        if apart.max(initial=0.0) < (1e-9 if side.uniform else 1e-3):
            break
        before, distance = distance, 2 * distance if side.uniform else distance + 1
        power = power @ (power if side.uniform else side.kernels[(np.arange(m) + before) % m])
        power = power / power.max(axis=(1, 2), keepdims=True)
    return total + 1e-12


@dataclass(frozen=True, eq=False)
class Solution:
    """Brackets of each group, and the ends behind the lower ones."""

    lower: Floats
    """(groups,): some algorithm leaks as much."""
    upper: Floats
    """(groups,): none leaks more."""
    row: Ints
    """(groups,): the row of the problem that reaches the lower end; −1: the loss alone."""
    records: Ints
    """(2, groups): records on either side of it."""
    ends: list[tuple[End, ...]]
    """The ends of both sides of each group."""


def solve(problem: Problem, tolerance: float = TOLERANCE) -> Solution:
    """Bracket the largest leakage of each group, with ends that differ by at most the tolerance, as a share."""
    groups = int(problem.group.max(initial=0)) + 1 if problem.positions is None else problem.positions.shape[1]
    out = _empty(problem, groups)
    if not len(problem):
        return out
    if problem.positions is not None:  # every pair may be the worst one somewhere
        _search(problem, np.arange(len(problem)), tolerance, out, last=True)
        return out
    likely = problem.likely
    order = np.lexsort((-likely, problem.group))
    rank = np.arange(len(order)) - np.searchsorted(problem.group[order], problem.group[order])
    first = rank < (_FIRST if groups == 1 else 1)
    chosen, waiting = order[first], order[~first]
    chosen = chosen[np.argsort(-likely[chosen], kind="stable")]
    rest = [_search(problem, at, tolerance, out, last=False) for at in _chunks(chosen, _CHUNK)]
    rest += [_above(problem, at, tolerance, out) for at in _chunks(waiting, (1 << 14) // problem.sides[0].size + 1)]
    left = np.concatenate(rest)
    for at in _chunks(left[np.argsort(-likely[left], kind="stable")], _CHUNK // 8 if groups == 1 else _CHUNK):
        _search(problem, at, tolerance, out, last=True)
    return out


def lower_ends(problem: Problem, at: Ints, tolerance: float, hints: list[tuple[Floats, Ints]]) -> Floats:
    """What explicit algorithms leak through some rows: the questions of μ that are improved by turns (Dinkelbach 1967).

    ``hints`` has the best log μ and the steps of both sides at another loss, or is empty; it gets those found here.
    """
    search = _new_search(problem, at, tolerance)
    sides = [search.sides[i] for i in search.which]
    for i, profile in zip(search.which, sides, strict=True):
        if len(hints) < len(sides):
            levels = search.guess[i][:, None] * np.array([0.33, 0.7, 1.0])
            hints.append((first_grid(profile.side, profile.rows, levels, (1, 2, 4)), profile.sizes))
    for n, profile in enumerate(sides):
        log_mu, sizes = hints[n]
        profile.append_steps(sizes)
        hints[n] = profile.climb(log_mu) if profile.depth else log_mu, profile.sizes
    search.place_targets()
    search.measure()
    out = problem.own[at].copy()
    np.maximum.at(out, search.targets.row, search.lower)
    return out


def _new_search(problem: Problem, at: Ints, tolerance: float) -> Search:
    """A search of some rows of which nothing is known; sides that are alike share a profile."""
    exact = problem.records is not None
    before, after = (
        Profile(problem.sides[i], problem.rows[i].pick(at), problem.longest(i, at), tolerance, exact, possible)
        for i, possible in enumerate((problem.possible, None))
    )
    guess = np.minimum(1.2 * problem.slopes[:, at] + 0.01, 4.0)
    return Search((after if problem.alike else before, after), lambda cuts: problem.targets(at, cuts), guess)


def _chunks(rows: Ints, size: int) -> Iterator[Ints]:
    return (rows[i : i + size] for i in range(0, len(rows), size))


def _empty(problem: Problem, groups: int) -> Solution:
    """Every group leaks the loss of its own record, if that has two values."""
    own = np.zeros(groups)
    if problem.positions is None:
        np.maximum.at(own, problem.group, problem.own)
    elif len(problem):
        own[:] = problem.own.max()
    row = np.full(groups, -1, dtype=np.int64)
    order = np.argsort(problem.own, kind="stable")
    row[problem.group[order]] = order
    return Solution(own.copy(), own, row, np.zeros((2, groups), dtype=np.int64), [(End(), End())] * groups)


def _above(problem: Problem, at: Ints, tolerance: float, out: Solution) -> Ints:
    """Rows that are not shown to leak at most what their group leaks; the group's upper end covers the others.

    A few μ are enough for most rows. What they miss is covered more finely for the others.
    """
    goal = out.lower[problem.group[at]] * (1 + 0.9 * tolerance)
    headroom, exact = goal - problem.own[at], problem.records is not None
    level = headroom * problem.slopes[0, at] / problem.slopes[:, at].sum(axis=0)
    levels = np.array([level, headroom - level])
    sides = (1,) if problem.alike else (0, 1)
    grids = [first_grid(problem.sides[i], problem.rows[i].pick(at), levels[i][:, None], (1, 2.5)) for i in (0, 1)]
    for fine in (4 * tolerance, tolerance, tolerance):
        added, missing = np.full((2, len(at)), np.inf), {}
        for i in sides:
            rows, longest = problem.rows[i].pick(at), problem.longest(i, at)
            added[i], missing[i] = quick_bounds(problem.sides[i], rows, levels[i], longest, exact, fine, grids[i])
            if problem.alike:
                added[0] = added[1]
        leaks = problem.own[at] + added.sum(axis=0)
        settled = leaks <= out.lower[problem.group[at]] * (1 + tolerance)
        np.maximum.at(out.upper, problem.group[at[settled]], leaks[settled])
        if settled.all():
            return at[:0]
        at, levels = at[~settled], levels[:, ~settled]
        for i in sides:
            low, high = missing[i][:, ~settled, None]
            around = 0.02 * levels[i][:, None]
            low, high = np.minimum(low, high) - around, np.maximum(low, high) + around
            more = low + np.linspace(0.0, 1.0, GRID // 6) * (high - low)
            grids[i] = np.sort(np.concatenate([grids[i][~settled], more.clip(-600, 600)], axis=1), axis=1)
    return at


def _search(problem: Problem, at: Ints, tolerance: float, out: Solution, *, last: bool) -> Ints:
    """Search some rows, and write what was found into the solution; return rows that stay open unless it is the last.

    Rows that stay open may be closed later, when more is known to leak elsewhere.
    """
    search = _new_search(problem, at, tolerance)
    search.run(tolerance, out.lower)
    targets = search.targets
    best = search.best(out.lower)[targets.group]
    closed = (search.upper <= best * (1 + tolerance)) | last
    np.maximum.at(out.upper, targets.group[closed], search.upper[closed])
    reached = np.flatnonzero((search.lower >= best) & (search.lower > out.lower[targets.group]))
    for group, first in zip(*np.unique(targets.group[reached], return_index=True), strict=True):
        target = reached[first]
        out.lower[group], out.row[group] = search.lower[target], at[targets.row[target]]
        out.records[:, group] = targets.records[:, target]
        sides = zip(search.sides, targets.records[:, target].tolist(), strict=True)
        out.ends[group] = tuple(side.best_end(int(targets.row[target]), records) for side, records in sides)
    return np.asarray(at[distinct(targets.row[~closed])])


def steady_problem(
    chain: Chain,
    loss: float,
    adversary: str,
    length: int | None,
    last_losses: tuple[float | None, float | None] = (None, None),
) -> Problem:
    """The same loss on every record: pairs of values at every position; of several kernels at every slot."""
    known, k, m = adversary == "bdp", chain.size, chain.period
    losses, ones = np.array([loss]), np.ones(k)
    after = Side(chain.kernels, losses, ones, known, last_losses[1])
    possible = None
    if chain.stationary:
        marginals = chain.marginals
        backwards = np.array([reversed_kernel(marginals[t], chain.kernels[t]) for t in range(m)])[::-1]
        before = Side(np.ascontiguousarray(backwards), losses, ones, known, last_losses[0])
        slot, x, y = _unlike_pairs(chain, marginals > 0)
    else:
        before = Side(chain.kernels.swapaxes(1, 2).copy(), losses, chain.start, known, last_losses[0])
        possible = first_values(chain, length)
        many = (k * k + 2) * m
        _, x, y = _unlike_pairs(chain, inputs.supports(chain, many if length is None else min(many, length)))
        x, y = np.unique(np.stack([x, y]), axis=1)
        slot = np.zeros_like(x)
    rows = Rows((m - slot) % m, x, y), Rows(slot, x, y)
    own = np.full(len(x), float(loss))
    return Problem((before, after), rows, own, np.zeros(len(x), dtype=np.int64), None, length, possible)


def first_values(chain: Chain, length: int | None) -> Mask:
    """Values of the first records, (t, k), up to one from which on they stay the same, or are any that come again."""
    many = (chain.size * chain.size + 2) * chain.period
    found = inputs.supports(chain, many if length is None else min(many, length))
    if len(found) == many:
        found[-1] = found[-chain.size * chain.period :].any(axis=0)
    changes = np.flatnonzero((found != found[-1]).any(axis=1))
    return found[: int(changes.max(initial=-1)) + 2]


def _unlike_pairs(chain: Chain, possible: Mask) -> tuple[Ints, Ints, Ints]:
    """Slot or record and both values of all pairs; of those that swaps of interchangeable states make alike, one."""
    x, y = np.nonzero(~np.eye(chain.size, dtype=bool))
    at, pair = np.nonzero(possible[:, x] & possible[:, y])
    x, y = x[pair], y[pair]
    kinds = (at * chain.size + chain.interchangeable[x]) * chain.size + chain.interchangeable[y]
    first = np.sort(np.unique(kinds, return_index=True)[1])
    return at[first], x[first], y[first]


def losses_problem(chain: Chain, losses: Floats, adversary: str, sides: str = "both", each: bool = True) -> Problem:
    """A loss of its own for each record: pairs of values of every record."""
    n, m, known, ones = len(losses), chain.period, adversary == "bdp", np.ones(chain.size)
    record, x, y = _unlike_pairs(chain, inputs.supports(chain, n))
    after = Side(chain.kernels, losses[1:] if n > 1 else np.zeros(1), ones, known)
    weights: Floats | None = ones
    if chain.stationary and m == 1:
        assert chain.start is not None
        kernels = reversed_kernel(chain.start, chain.kernels[0])[None]
    else:
        kernels, weights = chain.kernels[(n - 2 - np.arange(m)) % m].swapaxes(1, 2).copy(), chain.start
    before = Side(kernels, losses[-2::-1] if n > 1 else np.zeros(1), weights, known)
    rows = Rows(n - 1 - record, x, y), Rows(record, x, y)
    records = np.stack([record, n - 1 - record])
    records[{"both": (), "before": (1,), "after": (0,)}[sides], :] = 0
    possible = None if chain.stationary else first_values(chain, n)
    group = record if each else np.zeros_like(record)
    return Problem((before, after), rows, losses[record], group, records, n, possible)


@dataclass(frozen=True, kw_only=True, eq=False)
class SeriesLeakage:
    """What a series leaks about each of its records, whatever the algorithm."""

    lower: Floats
    """Some algorithm with these losses leaks as much about each record."""
    upper: Floats
    """No algorithm leaks more about it."""
    attack: TightLeakage
    """The worst-case adversary and algorithm for the record with the largest lower end."""

    @property
    def value(self) -> float:
        """No algorithm with these losses leaks more about any record."""
        return float(self.upper.max())


def series_leakage(
    chain: Chain,
    losses: Floats,
    adversary: str,
    tolerance: float | None = None,
    *,
    sides: str = "both",
    each: bool = True,
) -> SeriesLeakage:
    """What any algorithm with these DP losses leaks about each record of a chain.

    >>> chain = inputs.chain([[0.882, 0.118], [0.305, 0.695]], [0.9, 0.1])
    >>> found = series_leakage(chain, np.array([0.1, 0.0, 0.3, 0.2, 0.0, 0.1]), "bdp", tolerance=1e-9)
    >>> round(found.value, 6), found.attack.record
    (0.455593, 3)

    Args:
        chain: the chain; several kernels follow each other, again and again if they are too few.
        losses: one a record.
        adversary: bdp, pufferfish or dp.
        tolerance: how near both ends of a bracket are to be, as a share; None: 1e-3.
        sides: whether algorithms read the records before, after, or on both sides of the target.
        each: whether every record has a bracket of its own, or all have that of the worst one, which is quicker.
    """
    n = len(losses)
    problem = losses_problem(chain, losses, adversary, sides, each)
    two_values = inputs.supports(chain, n).sum(axis=1) > 1
    own = np.where(two_values, losses, 0.0)
    alone = adversary == "dp" or chain.independent or n == 1 or not two_values.any()
    found = _empty(problem, n if each else 1) if alone else solve(problem, tolerance or TOLERANCE)
    attack = attack_of(chain, problem, found, int(np.argmax(found.lower)), adversary)
    if alone:
        return SeriesLeakage(lower=own, upper=own, attack=attack)
    if each:
        spent = {"both": losses.sum(), "before": np.cumsum(losses), "after": np.cumsum(losses[::-1])[::-1]}[sides]
        lower, upper = (np.pad(part, (0, n - len(part))) for part in (found.lower, found.upper))
        upper = np.minimum(upper, np.where(two_values, spent, 0.0))
        return SeriesLeakage(lower=np.minimum(lower, upper), upper=upper, attack=attack)
    if attack.record is not None:
        own[attack.record - 1] = max(own[attack.record - 1], attack.lower)
    return SeriesLeakage(lower=own, upper=np.where(two_values, found.upper[0], 0.0), attack=attack)


def attack_of(chain: Chain, problem: Problem, found: Solution, group: int, adversary: str) -> TightLeakage:
    """The worst-case adversary and algorithm of one group, in the numbers of the chain's states."""
    row, each = int(found.row[group]), problem.records is not None
    attack = TightLeakage(
        dp_loss=0.0,
        lower=float(found.lower[group]),
        upper=float(found.upper[group]),
        adversary=adversary,
        length=problem.length,
        record=1 if each else None,
        phase=0 if chain.period > 1 else None,
    )
    if row < 0:
        return attack
    target, before = problem.rows[1].pick(np.array([row])), int(found.records[0, group])
    slot = int(target.offsets[0])
    return replace(
        attack,
        dp_loss=float(problem.own[row]),
        record=slot + 1 if each else None if problem.length is None else before + 1,
        phase=slot % chain.period if chain.period > 1 else None,
        likelier=int(target.x[0]),
        other=int(target.y[0]),
        before=_side_attack(problem, found, group, 0),
        after=_side_attack(problem, found, group, 1),
    )


def _side_attack(problem: Problem, found: Solution, group: int, i: int) -> SideAttack:
    """One side of the worst target: the end that is reached, and the questions up to it."""
    side, end = problem.sides[i], found.ends[group][i]
    is_open = end.state < 0
    count = end.distance if is_open else end.distance - 1
    if end.added <= 0 or count < 1:
        return SideAttack()
    rows = problem.rows[i].pick(found.row[group : group + 1])
    offset = int(rows.offsets[0])
    kernels, losses = (np.roll(part, -(offset % len(part)), axis=0) for part in (side.kernels, side.losses))
    endless = is_open and problem.records is None and int(found.records[i, group]) == ENDLESS
    return SideAttack(
        added=end.added,
        known=None if is_open else (end.distance, end.state),
        records=None if endless else count,
        questions=questions_of(kernels, losses, int(rows.x[0]), int(rows.y[0]), end.log_mu, count),
        first_distribution=_first_distribution(side, rows, end) if is_open and side.weights is None else (),
    )


def _first_distribution(side: Side, rows: Rows, end: End) -> tuple[tuple[int, float], ...]:
    """The worst distribution of the first record, where any is allowed."""
    steps = np.ones(end.distance, dtype=np.int64)
    *_, (asked, plain, losses, _) = follow(side, rows, np.array([[end.log_mu]]), steps, 0.0)
    n, d = asked[-1, 0, 0]
    damp = np.where(n > d * np.exp(end.log_mu), 1.0, np.exp(-losses[-1, 0]))
    states, share = best_first_distribution(*(part[None] for part in (n * damp, d * damp, *plain[-1, 0])))[1:]
    pairs = ((int(states[0, 0]), float(share[0])), (int(states[0, 1]), float(1 - share[0])))
    return pairs if states[0, 0] != states[0, 1] else ((int(states[0, 0]), 1.0),)
