"""The best design we know: per-record probabilities, the split of the budget and the regions, chosen together.

The law of everything redacted so far is linear in the probabilities of each single record, so a linear programme over
small steps improves all of them at once; how much of the budget each side gets, for each pair of values, is a variable
of the same programme. Regions are tried: a few windows, and inside each a few ways to share what the window leaves of
the budget. Every step is checked by the exact leakage, and what is returned is never worse than the other methods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Mask, Matrix, Vector
from pufferdp.basics.errors import NotApplicableError
from pufferdp.leakage.redaction.design import Block, Design, RedactionProblem, Span, blocks_of, design_of, leakages
from pufferdp.leakage.redaction.methods import (
    MarkedRecords,
    combine,
    numerical,
    numerical_designs,
    relaxed,
    relaxed_designs,
    window,
    windows,
)
from pufferdp.leakage.redaction.regions import PrivateCluster
from pufferdp.leakage.redaction.sides import RedactionSide, log_ratios, shifted

SHARES = (0.5, 0.0, 1.0)
"""How what a window leaves of the budget is shared between the sides, at the start; and where one more value fits."""
MOST_SHARES, FEW_SHARES, SHORT = 12, 4, 8
"""How many of those, around windows of up to so many records and around wider ones, where each matters less."""
WINDOWS = 6
POLISHED = 3
LONG = 400
"""Around longer windows only a few designs are looked at: there is little to gain, and each takes long."""
MOST_FREE = 400
"""With more free probabilities than this the linear programmes take too long, and constant ones are kept."""
MOST_BINDING = 4
STEPS, FEW = 25, 6
HARDLY = 1e-3
"""Smaller probabilities are tried without."""
OPEN = 1 - 2.0**-20
"""A probability near 1: the value can be seen, and hardly ever is."""


def optimal(hiding: RedactionProblem) -> Design:
    """The design that releases most, among all that are tried, and never less than any other method does."""
    rivals = [window(hiding), numerical(hiding)]
    if hiding.adversary is Adversary.PUFFERFISH and not hiding.known:
        rivals += [relaxed(hiding), relaxed(hiding, each=True)]
    own = combine(hiding, "3r-optimal", _best)
    if len(hiding.private) > 1:
        own = _jointly(own)
    best = max([own, *rivals], key=lambda design: design.utility)
    return Design(hiding=hiding, method="3r-optimal", blocks=best.blocks)


def _best(cluster: PrivateCluster, polished: int = POLISHED) -> MarkedRecords:
    starts = sorted(_starts(cluster), key=lambda start: -cluster.released(*start[:2]))
    candidates: list[tuple[int, Matrix, Mask]] = []
    seen: list[float] = []
    for first, marks, free in starts:
        value = cluster.released(first, marks)
        if len(candidates) < polished and not any(abs(value - other) < 1e-9 for other in seen):
            seen.append(value)
            candidates.append((first, polish(cluster, first, marks, free), free))
    best = max(candidates, key=lambda start: cluster.released(*start[:2]))
    return _tidy(cluster, *_widen(cluster, *best))


def _tidy(cluster: PrivateCluster, first: int, marks: Matrix) -> MarkedRecords:
    """Records that are hardly ever redacted are released, where that keeps the promise: the rule gets shorter."""
    small = (marks > 0) & (marks < HARDLY)
    rows = np.flatnonzero(small.any(axis=1))
    for group in [rows, *rows[:, None]]:  # all at once, or one after the other
        open_ = np.zeros(marks.shape, dtype=bool)
        open_[group] = small[group]
        tried = np.where(open_, 0.0, marks)
        if cluster.keeps(first, tried):
            marks, small = tried, small & ~open_
    return first, marks


def _widen(cluster: PrivateCluster, first: int, marks: Matrix, free: Mask) -> MarkedRecords:
    """Move the ends outwards as long as that helps: common values stay free there, and marks say less further away."""
    better = bool(free.any())
    while better:
        better = False
        for left, right in ((0, 1), (1, 0), (1, 1)):
            if first - left < 1 or first + len(marks) - 1 + right > cluster.hiding.length:
                continue
            wider = np.concatenate([marks[:left], marks, marks[len(marks) - right :]])
            open_ = np.concatenate([free[:left], free, free[len(marks) - right :]])
            if not open_[0].any() * left and not open_[-1].any() * right:
                continue
            rise = np.where(open_, 1.0 - wider, 0.0)
            if not cluster.keeps(first - left, wider + OPEN * rise):
                continue
            start = wider + cluster.least(first - left, wider, rise, OPEN, rounds=3) * rise
            polished = polish(cluster, first - left, start, open_, FEW)
            if cluster.released(first - left, polished) > cluster.released(first, marks) + 1e-4:
                polished = polish(cluster, first - left, polished, open_)
                first, marks, free, better = first - left, polished, open_, True
                break
    return first, marks


def _starts(cluster: PrivateCluster) -> Iterator[tuple[int, Matrix, Mask]]:
    """Designs with one probability for all values that may be seen, and which values those are."""
    best = -np.inf
    for first, marks in numerical_designs(cluster):
        best = max(best, cluster.released(first, marks))
        yield first, marks, (marks < 1) & (marks > 0)
    if cluster.hiding.adversary is Adversary.PUFFERFISH and not cluster.hiding.known:
        for first, marks in relaxed_designs(cluster, each=True):
            if cluster.keeps(first, marks):
                yield first, marks, (marks < 1) & (marks > 0)
    pairs = windows(cluster, more=1)[:WINDOWS]
    long = sum(pairs[0]) > LONG
    pairs = pairs[:1] if long else pairs
    if cluster.hiding.adversary is Adversary.BDP and not long:
        yield _from_less_known(cluster, *pairs[0])
    i, j = pairs[0]
    first, base = cluster.stretch(*(np.ones((n, cluster.hiding.chain.size)) for n in pairs[0]))
    best = max(best, cluster.released(first, base))
    yield first, base, np.zeros(base.shape, dtype=bool)
    # One step outside, where common values may still be seen; one step inside the smallest window, where marks may
    # take back some of what a release says.
    around = () if long else ((i, j + 1), (i + 1, j), (i + 1, j + 1), (i - 1, j), (i, j - 1))
    most = [side.records for side in cluster.sides]
    pairs += [pair for pair in around if 0 <= pair[0] <= most[0] and 0 <= pair[1] <= most[1] and pair not in pairs]
    reach = [max(pair[side] for pair in pairs) + cluster.last - cluster.first for side in (0, 1)]
    wholes = [cluster.wholes(reach[n], n) for n in (0, 1)]
    entries = [_entries(side, max(pair[n] for pair in pairs)) for n, side in enumerate(cluster.sides)]
    looked: set[tuple[int, int, bytes]] = set()
    for pair in pairs:
        needs = _needs(cluster, pair, wholes, entries)
        for share in _shares(needs, pair, long):
            # A value fits where its share is enough, to rounding; whatever is tried is checked by the exact leakage.
            allowed = (needs[0] <= share + 1e-12), (needs[1] <= 1 - share + 1e-12)
            first, base = cluster.stretch(*(np.where(a, 0.0, 1.0) for a in allowed))
            key = first, len(base), np.packbits(base > 0).tobytes()
            # With every free probability at 0 it could release no more.
            if key in looked or not (base < 1).any() or cluster.released(first, base) <= best:
                continue
            looked.add(key)
            least = _scan(cluster, first, base)
            if least is not None:
                marks = base + least * (1 - base)
                best = max(best, cluster.released(first, marks))
                yield first, marks, (base < 1)


def _from_less_known(cluster: PrivateCluster, left: int, right: int) -> tuple[int, Matrix, Mask]:
    """The best design against somebody who knows no record, with as much more redaction as the others need.

    Where it already keeps the promise towards everybody, nothing is better.
    """
    easier = replace(cluster, hiding=replace(cluster.hiding, adversary=Adversary.PUFFERFISH))
    start, soft = _best(easier, POLISHED if left + right <= SHORT else 1)
    first, whole = cluster.stretch(*(np.ones((n, cluster.hiding.chain.size)) for n in (left, right)))
    low, high = min(first, start), max(first + len(whole), start + len(soft))
    marks = np.zeros((high - low, cluster.hiding.chain.size))
    marks[start - low : start - low + len(soft)] = soft
    # Everything redacted is a window, at least as wide as one that serves.
    least = cluster.least(low, marks, 1.0 - marks)
    marks = marks + least * (1.0 - marks)
    return low, marks, (marks < 1) & (marks > 0)


def _entries(side: RedactionSide, most: int) -> Matrix:
    """What a first release at each distance says: (distance, x, x', value), with what a known record adds."""
    out, law = [], side.kernel
    for t in range(1, most + 1):
        out.append(shifted(log_ratios(law), side.after(t)))
        law = law @ side.kernel
    return np.array(out).reshape(most, side.size, side.size, side.size)


def _needs(
    cluster: PrivateCluster, pair: tuple[int, int], wholes: list[Matrix], entries: list[Matrix]
) -> tuple[Matrix, Matrix]:
    """How much of the slack of a window each value at each distance needs to be seen, on each side: 0 to 1, or more."""
    out = []
    for n, (own, other) in enumerate((pair, pair[::-1])):
        nothing = np.zeros(wholes[n][0].shape)
        secret = cluster.secrets[-n]  # the first one is nearest to the left, the last one to the right
        middle = secret[0] - cluster.first if n else cluster.last - secret[1]
        here = nothing if own == cluster.sides[n].records else wholes[n][own]
        there = nothing if other == cluster.sides[1 - n].records else wholes[1 - n][other + middle]
        there = cluster.hiding.seen_from_last(secret, there) if n else cluster.hiding.seen_from_first(secret, there)
        slack = np.maximum(cluster.hiding.epsilon - here - there, 0.0)[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):
            more = entries[n][:own] - here[..., None]
            share = np.where(more <= 0, 0.0, more / slack)
        out.append(np.asarray(share.max(axis=(1, 2))))
    return out[0], out[1]


def _shares(needs: tuple[Matrix, Matrix], pair: tuple[int, int], long: bool) -> list[float]:
    """Which shares of the slack to give to the left: the usual ones, and those at which one more value fits."""
    if min(pair) == 0:
        return [1.0 if pair[0] else 0.0]
    if long:
        return [SHARES[0]]
    just = np.unique(np.concatenate([needs[0].ravel(), 1 - needs[1].ravel()]))
    just = just[(just > 0) & (just < 1)]
    most = MOST_SHARES if sum(pair) <= SHORT else FEW_SHARES
    if len(just) > most:
        just = just[np.linspace(0, len(just) - 1, most).astype(int)]
    return [*SHARES, *just.tolist()]


def _scan(cluster: PrivateCluster, first: int, base: Matrix) -> float | None:
    """The smallest constant probability that keeps the promise, or None."""
    rise = 1.0 - base
    grid = np.append(np.linspace(0.0, 1.0, 33)[:-1], OPEN)
    fine = cluster.keeps(first, np.clip(base + grid[:, None, None] * rise, 0.0, 1.0))
    if not fine.any():
        return None
    at = int(np.argmax(fine))
    if at == 0:
        return 0.0
    below = base + grid[at - 1] * rise
    return float(
        grid[at - 1]
        + cluster.least(first, below, (grid[at] - grid[at - 1]) * rise, rounds=2) * (grid[at] - grid[at - 1])
    )


def polish(cluster: PrivateCluster, first: int, marks: Matrix, free: Mask, steps: int = STEPS) -> Matrix:
    """Better probabilities for the free entries, by linear programmes over small steps, each checked exactly."""
    law = cluster.hiding.chain.stationary
    trust, best = 0.25, cluster.released(first, marks)
    for _ in range(steps):
        free = free & (marks < 1)
        count = int(free.sum())
        if not 0 < count <= MOST_FREE or trust < 1e-5:
            break
        step = _programme(cluster, first, marks, free, trust, np.broadcast_to(law, marks.shape)[free])
        if step is None:
            trust *= 0.4
            continue
        new = marks.copy()
        new[free] = np.clip(new[free] + step, 0.0, 1.0)
        if not cluster.keeps(first, new):
            rise = np.where(free, 1.0 - new, 0.0)
            s = cluster.least(first, new, rise, rounds=5)
            new = np.clip(new + s * rise, 0.0, 1.0)
        value = cluster.released(first, new)
        if value <= best or not cluster.keeps(first, new):
            trust *= 0.4
            continue
        small = value - best < 1e-5
        marks, best = new, value
        if small:
            break
        trust = min(0.5, trust * 1.5)
    return marks


def _programme(
    cluster: PrivateCluster, first: int, marks: Matrix, free: Mask, trust: float, gain: Matrix
) -> Vector | None:
    """The step that releases most, to first order, within the budget and the trust region."""
    from scipy.optimize import linprog

    size, count = cluster.hiding.chain.size, int(free.sum())
    number = np.full(free.shape, -1)
    number[free] = np.arange(count)
    rows, bounds, budgets = [], [], []
    extra = 0  # variables beyond the step: the largest log-ratio of each side, for each pair of values
    apart = [(int(x), int(y)) for x, y in zip(*np.where(~np.eye(size, dtype=bool)), strict=True)]
    for secret in _binding(cluster, first, marks):
        left, right = cluster.hiding.sides(secret)
        parts = []
        for side, part in ((left, slice(None, secret[0] - first)), (right, slice(secret[1] - first + 1, None))):
            turn = slice(None, None, -1 if side is left else 1)
            values, slopes = side.gradients(marks[part][turn], free[part][turn])
            parts.append((values, slopes, number[part][turn][free[part][turn]]))
        tops = [values.max(axis=0) for values, _, _ in parts]
        # One record: both sides are about the same pair of values. Several: any two pairs may come together, or nearly.
        for pairs in [[pair] for pair in apart] if secret[0] == secret[1] else [apart]:
            for (values, slopes, index), top in zip(parts, tops, strict=True):
                most = max(top[x, y] for x, y in pairs)
                for x, y in pairs:
                    for o in np.flatnonzero(values[:, x, y] >= most - 1.0):
                        slope = slopes[o, x] - slopes[o, y]
                        # A ratio that is infinite is about a value that cannot be beside what is known: no secret, and
                        # no limit on the step. Every step is checked exactly afterwards.
                        if not (np.isfinite(values[o, x, y]) and np.isfinite(slope).all()):
                            continue
                        row = np.zeros(count)
                        row[index] = slope
                        rows.append((row, extra))
                        bounds.append(-values[o, x, y])
                extra += 1
            budgets.append(extra - 2)
    if not rows:
        return None
    limits = np.zeros((len(rows) + len(budgets), count + extra))
    for n, (row, top) in enumerate(rows):
        limits[n, :count], limits[n, count + top] = row, -1.0
    for n, budget in enumerate(budgets):
        limits[len(rows) + n, count + budget : count + budget + 2] = 1.0
    now = marks[free]
    reach = [(max(-trust, -q), min(trust, 1 - q)) for q in now]
    solution = linprog(
        np.concatenate([gain, np.zeros(extra)]),
        A_ub=limits,
        b_ub=np.concatenate([bounds, np.full(len(budgets), cluster.hiding.epsilon)]),
        bounds=reach + [(None, None)] * extra,
        method="highs",
    )
    return None if solution.x is None else np.asarray(solution.x[:count])


def _binding(cluster: PrivateCluster, first: int, marks: Matrix) -> list[Span]:
    """The secrets that are hardest to hide; the others are looked at when a step is checked."""
    if len(cluster.looked_at) <= MOST_BINDING:
        return list(cluster.looked_at)
    leaks = {secret: float(leakages(cluster.hiding, secret, first, marks)) for secret in cluster.secrets}
    return sorted(leaks, key=lambda secret: -leaks[secret])[:MOST_BINDING]


def _jointly(design: Design) -> Design:
    """Polish blocks that hold several private records, for all of them together."""
    hiding = design.hiding
    blocks: list[Block] = []
    for block in design.blocks:
        inside = tuple(p for p in hiding.private if block.first <= p <= block.last)
        free = (block.marks < 1) & (block.marks > 0)
        marks = polish(PrivateCluster(hiding=hiding, private=inside), block.first, np.array(block.marks), free)
        blocks += blocks_of(hiding, block.first, marks)
    return design_of(hiding, design.method, blocks) or design


def redesign_with(previous: Design, private: Sequence[int], epsilon: float, *, window: bool = False) -> Design:
    """The design of both publications: old and new private records hidden, no record less released than before.

    With ``window`` records are released whatever they hold, or not.
    """
    before = previous.hiding
    hiding = RedactionProblem(
        chain=before.chain,
        length=before.length,
        private=(*before.private, *private),
        epsilon=epsilon,
        adversary=before.adversary,
        known=before.known,
        whole=before.whole,
    )
    for p in hiding.private:
        if not (previous.of(p) == 1).all():
            raise NotApplicableError(
                f"record {p} may have been released by the earlier publication; what is known cannot be hidden", value=p
            )
    earlier = Design(hiding=hiding, method=previous.method, blocks=previous.blocks)
    if earlier.leakage > epsilon:
        raise NotApplicableError(
            f"the earlier publication alone leaks {earlier.leakage:.4g} about these records, more than epsilon = "
            f"{epsilon:g}; only a larger epsilon can still be promised",
            value=earlier.leakage,
        )
    method = "window" if window else "3r-optimal"
    parts = [_release_rows(previous, hiding)] + ([] if window else [_step_towards(previous, optimal(hiding), hiding)])
    designs = [design for part in parts if (design := design_of(hiding, method, part)) is not None]
    best = max([earlier, *designs], key=lambda design: design.utility)
    return Design(hiding=hiding, method=method, blocks=best.blocks)


def _step_towards(previous: Design, wanted: Design, hiding: RedactionProblem) -> list[Block]:
    """The way from what was published to the joint design, as far as both together keep the promise."""
    out: list[Block] = []
    for b in previous.blocks:
        cluster = PrivateCluster(hiding=hiding, private=tuple(p for p in hiding.private if b.first <= p <= b.last))
        aim = np.minimum(b.marks, np.array([wanted.of(row) for row in range(b.first, b.last + 1)]))
        back = cluster.least(b.first, aim, b.marks - aim)
        out += blocks_of(hiding, b.first, np.minimum(aim + back * (b.marks - aim), b.marks))
    return out


def _release_rows(previous: Design, hiding: RedactionProblem) -> list[Block]:
    """Whole records released, those farthest from a private one first, where that keeps the promise."""
    out: list[Block] = []
    for b in previous.blocks:
        cluster = PrivateCluster(hiding=hiding, private=tuple(p for p in hiding.private if b.first <= p <= b.last))
        marks = np.array(b.marks)
        rows = [row for row in range(b.first, b.last + 1) if row not in hiding.private]
        for row in sorted(rows, key=lambda row: -min(abs(row - p) for p in cluster.private)):
            tried = marks.copy()
            tried[row - b.first] = 0.0
            if cluster.keeps(b.first, tried):
                marks = tried
        out += blocks_of(hiding, b.first, marks)
    return out
