"""The best design we know: per-record probabilities, the split of the budget and the regions, chosen together.

f of everything redacted so far is linear in the probabilities of each single record, so a linear programme over small
steps improves all of them at once; how much of the budget each side gets, for each pair of values, is a variable of the
same programme. It starts from windows, and from the regions of several splits of the budget. Every step is checked by
the exact leakage, and the result is never worse than the other methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Mask, Matrix, Vector
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.redaction.design import Block, Design, RedactionProblem, blocks_of, design_of
from pufferdp.bounds.redaction.methods import (
    ALMOST,
    MarkedRecords,
    PrivateCluster,
    best_window,
    combine,
    numerical,
    numerical_designs,
    splits,
    window,
)

POLISHED = 4
"""Designs that are improved by linear programmes: better starts end better, and each takes a while."""
MOST_FREE = 400
"""With more free probabilities than this the linear programmes take too long, and constant ones are kept."""
STEPS = 25
"""Linear programmes for each design: gains are below 1e-5 records by then."""


def optimal(hiding: RedactionProblem) -> Design:
    """The design that releases most, among all that are tried, and never less than any other method does."""
    rivals = combine(hiding, "3r-optimal", _best), window(hiding), numerical(hiding)
    best = max(rivals, key=lambda design: design.utility)
    return Design(hiding=hiding, method="3r-optimal", blocks=best.blocks)


def _best(cluster: PrivateCluster) -> MarkedRecords:
    """The best design of one cluster: windows, regions and open values, the best of them improved."""
    hiding = cluster.hiding
    first, marks = best_window(cluster)
    starts, shares = [(first, marks)], splits(cluster)
    if marks.size <= MOST_FREE:  # around wider windows there is little to gain
        starts += [_open_values(cluster, first - more, first + len(marks) - 1 + more) for more in range(3)]
        shares += [(n / 8 * hiding.epsilon, (1 - n / 8) * hiding.epsilon) for n in range(1, 8)]
        if hiding.adversary is not Adversary.BDP:  # a design against an adversary who knows any records serves too
            starts.append(_best(replace(cluster, hiding=replace(hiding, adversary=Adversary.BDP, known=()))))
    starts += numerical_designs(cluster, shares)
    starts.sort(key=lambda start: cluster.released(*start))
    different = {(first, (marks < 1).tobytes()): (first, marks) for first, marks in starts}
    improved = [(first, polish(cluster, first, marks)) for first, marks in [*different.values()][-POLISHED:]]
    return max(improved, key=lambda design: cluster.released(*design))


def _open_values(cluster: PrivateCluster, first: int, last: int) -> MarkedRecords:
    """A window with every value open that the guarantee allows, from the farthest record inwards, and one q for all."""
    first, last = max(first, 1), min(last, cluster.hiding.length)
    marks = np.ones((last - first + 1, cluster.hiding.chain.size))
    distance = np.array([min(abs(row - p) for p in cluster.private) for row in range(first, last + 1)])
    for row in np.argsort(-distance, kind="stable"):
        for value in np.argsort(-cluster.hiding.chain.stationary, kind="stable") if distance[row] else ():
            marks[row, value] = ALMOST
            if not cluster.keeps(first, marks):
                marks[row, value] = 1.0
    lowest = np.where(marks < 1, 0.0, marks)
    return first, lowest + cluster.least_share(first, lowest, marks) * (marks - lowest)


def polish(cluster: PrivateCluster, first: int, marks: Matrix) -> Matrix:
    """Better probabilities for all that are strictly between 0 and 1: linear programmes, each step checked exactly."""
    trust, best = 0.25, cluster.released(first, marks)
    free = (marks > 0) & (marks < 1)
    for _ in range(STEPS):
        free = free & (marks < 1)
        if not 0 < free.sum() <= MOST_FREE or trust < 1e-5:
            break
        step = _best_step(cluster, first, marks, free, trust)
        changed = marks.copy()
        if step is not None:
            changed[free] = np.clip(changed[free] + step, 0.0, 1.0)
        if not cluster.keeps(first, changed):
            redacted = np.where(free, 1.0, changed)
            changed = changed + cluster.least_share(first, changed, redacted) * (redacted - changed)
        gain = cluster.released(first, changed) - best
        if gain <= 0 or not cluster.keeps(first, changed):
            trust *= 0.4
            continue
        marks, best, trust = changed, best + gain, min(0.5, trust * 1.5)
        if gain < 1e-5:
            break
    # What the programme leaves of marks that are hardly ever drawn is none, where the others can make up for it.
    shorter = np.where(marks < 1e-6, 0.0, marks)
    shorter += cluster.least_share(first, shorter, np.ceil(shorter)) * (np.ceil(shorter) - shorter)
    good = cluster.keeps(first, shorter) and cluster.released(first, shorter) > cluster.released(first, marks) - 1e-5
    return shorter if good else marks


def _best_step(cluster: PrivateCluster, first: int, marks: Matrix, free: Mask, trust: float) -> Vector | None:
    """The change of the free probabilities that releases most, to first order, within the budget and the trust region.

    Besides the step, the programme has two variables for each secret and pair of values: the largest log-ratio of the
    left side and of the right. Every outcome stays below its side's, and the two add up to at most epsilon.
    """
    from scipy.optimize import linprog

    count, epsilon = int(free.sum()), cluster.hiding.epsilon
    # One design for each free probability, a little larger there: differences give every slope at once.
    rise = 1e-4 * marks[free] + 1e-9
    designs = np.repeat(marks[None], count + 1, axis=0)
    designs[np.arange(1, count + 1), *np.nonzero(free)] += rise
    rows: list[Vector] = []
    tops: list[int] = []
    bounds: list[float] = []
    pairs = 0
    for start, end in cluster.secrets:
        left, right = cluster.hiding.sides((start, end))
        before, after = designs[:, : start - first][:, ::-1], designs[:, end - first + 1 :]
        each = [left.ratios(before), right.ratios(after)]
        # One record: both sides are about one pair of values. Several: any two pairs may come together, or nearly.
        apart = np.argwhere(~np.eye(cluster.hiding.chain.size, dtype=bool))
        for group in [[pair] for pair in apart] if start == end else [apart]:
            for side, ratios in enumerate(each):
                values = np.concatenate([ratios[:, x, y] for x, y in group], axis=-1)
                with np.errstate(invalid="ignore"):
                    slopes = (values[1:] - values[0]) / rise[:, None]
                # A ratio that is infinite is about a value that cannot be beside what is known: no limit on the step.
                near = np.isfinite(slopes).all(axis=0) & (values[0] >= values[0].max() - 1.0)
                rows.extend(slopes.T[near])
                bounds.extend(-values[0][near])
                tops.extend([2 * pairs + side] * int(near.sum()))
            pairs += 1
    if not rows:
        return None
    limits = np.zeros((len(rows) + pairs, count + 2 * pairs))
    limits[: len(rows), :count] = rows
    limits[np.arange(len(rows)), count + np.array(tops)] = -1.0
    for n in range(pairs):
        limits[len(rows) + n, count + 2 * n : count + 2 * n + 2] = 1.0
    gain = np.broadcast_to(cluster.hiding.chain.stationary, marks.shape)[free]
    solution = linprog(
        np.concatenate([gain, np.zeros(2 * pairs)]),
        A_ub=limits,
        b_ub=np.concatenate([bounds, np.full(pairs, epsilon)]),
        bounds=[(max(-trust, -q), min(trust, 1 - q)) for q in marks[free]] + [(None, None)] * (2 * pairs),
        method="highs",
    )
    return None if solution.x is None else np.asarray(solution.x[:count])


def redesign_with(previous: Design, private: Sequence[int], epsilon: float, *, window: bool = False) -> Design:
    """The design of both publications: old and new private records hidden, no record less released than before.

    With ``window`` records are released whatever they hold, or not.
    """
    hiding = replace(previous.hiding, private=(*previous.hiding.private, *private), epsilon=epsilon)
    for p in hiding.private:
        if not (previous.of(p) == 1).all():
            raise NotApplicableError(
                f"record {p} may have been released by the earlier publication; what is known cannot be hidden", value=p
            )
    earlier = Design(hiding=hiding, method=previous.method, blocks=previous.blocks)
    if earlier.leakage > epsilon:
        raise NotApplicableError(
            f"the earlier publication alone leaks {earlier.leakage:.4g} about these records, more than epsilon = "
            f"{epsilon:g}; only a larger epsilon can still be guaranteed",
            value=earlier.leakage,
        )
    method = "window" if window else "3r-optimal"
    parts = [_rebuild(previous, hiding, _release_rows)]
    if not window:
        wanted = optimal(hiding)
        parts.append(_rebuild(previous, hiding, lambda cluster, block: _step_towards(cluster, block, wanted)))
    designs = [design for part in parts if (design := design_of(hiding, method, part)) is not None]
    best = max([earlier, *designs], key=lambda design: design.utility)
    return Design(hiding=hiding, method=method, blocks=best.blocks)


def _rebuild(
    previous: Design, hiding: RedactionProblem, change: Callable[[PrivateCluster, Block], Matrix]
) -> list[Block]:
    """The blocks of an earlier design, each changed for the private records that it holds."""
    out: list[Block] = []
    for block in previous.blocks:
        inside = tuple(p for p in hiding.private if block.first <= p <= block.last)
        out += blocks_of(hiding, block.first, change(PrivateCluster(hiding=hiding, private=inside), block))
    return out


def _step_towards(cluster: PrivateCluster, block: Block, wanted: Design) -> Matrix:
    """The way from a published block to the joint design, as far as both together keep the guarantee."""
    aim = np.minimum(block.marks, np.array([wanted.of(row) for row in range(block.first, block.last + 1)]))
    back = cluster.least_share(block.first, aim, block.marks)
    return np.asarray(np.minimum(aim + back * (block.marks - aim), block.marks))


def _release_rows(cluster: PrivateCluster, block: Block) -> Matrix:
    """A block with whole records released, the farthest from a private one first, where that keeps the guarantee."""
    marks = np.array(block.marks)
    distance = [min(abs(row - p) for p in cluster.private) for row in range(block.first, block.last + 1)]
    for row in np.argsort(np.negative(distance), kind="stable"):
        if distance[row]:
            released = marks.copy()
            released[row] = 0.0
            marks = released if cluster.keeps(block.first, released) else marks
    return marks
