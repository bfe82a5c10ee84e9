"""The best whole path through a hidden chain (Viterbi), fast without a compiler; and many short series at once.

Two states: the difference of the two best log-weights moves by d ↦ clip(d, low, high) + shift, and such maps compose
to such maps. So a series is cut into blocks and all blocks are passed at once, first as maps, then as numbers, like in
``hidden``. A difference beyond a limit says which state came before, one between them says "the same", so the path
itself is read without a loop. A chain with negative correlation becomes one with positive correlation when the names of
the two states are swapped at every other record. Up to five states, or zeros: blocks that are passed from each state.
More states: blocks that are passed as if nothing came before them, and mended where something did. Chains that hardly
ever leave a state: blocks in which the best path moves once at most.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Matrix, Vector
from pufferdp.basics.errors import DataError
from pufferdp.leakage.chains.forward_backward import Codes

_OUTER: Final = 16
"""Blocks of two states are this many times as many as they are long."""
_AT_ONCE: Final = 2**18
"""Sums of weights and moves that are made at once where there are more states; more of them leave the cache."""
_MOST_BLOCKS: Final = 2**11
_FEW_STATES: Final = 5
"""So few states are passed from each of them at less cost than longer blocks have."""
_SHORTEST: Final = 128
_SHORT: Final = 1024
"""Records of a block, at least, where there are more blocks than one: with few states, and with more."""
_LONGER: Final = 4
"""How many times as long blocks become where too many were too short."""
_LEVEL: Final = 16
"""Weights are levelled, and compared, at every such place."""
_ROUNDING: Final = 1e-11
"""Levelled weights are exact to this. A path that is not the best by no more than this a block counts as the best."""
_TURNS: Final = 6
_FEW: Final = 8
"""Longer blocks are tried after so many turns, or when one block in so many is still wrong after the first."""
_STUCK: Final = (128, 64, 32, 16)
"""Records of a block in which a path moves once at most, longest first."""
_WORTH: Final = 3000
"""Sums in such a block, at least: one block follows the other, so that short ones of few states are dear."""
_TOGETHER: Final = 2**14
"""Sums of one state in blocks that are looked at together: what is in the cache."""
_SAMPLE: Final = 32
"""One block in so many is looked at first."""
States = npt.NDArray[np.intp]


def best_path(outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> States:
    """The most probable series of states given all outputs. ``start`` is the law of the first record."""
    if len(outputs) == 0:
        return np.zeros(0, dtype=np.intp)
    if len(transition) == 2 and all((np.asarray(table) > 0).all() for table in (start, transition, channel)):
        return _two_states(outputs, start, transition, channel)
    return _any_states(outputs, start, transition, channel)


def path_log_probability(path: Codes, outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> float:
    """Log P(path and outputs)."""
    with np.errstate(divide="ignore"):
        moves, says = np.log(transition)[path[:-1], path[1:]], np.log(channel)[path, outputs]
        return float(np.log(start)[path[0]] + moves.sum() + says.sum())


# ---- two states ----


def _two_states(outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> States:
    n = len(outputs)
    logs = np.log(transition)
    alternating = logs[0, 0] + logs[1, 1] < logs[0, 1] + logs[1, 0]
    length = max(2, math.isqrt(n // _OUTER))
    length += length % 2 if alternating else 0  # names are swapped at the same places of every block
    blocks = -(-n // length)
    # From a record of even place to one of odd place, and back; the names at odd places may be swapped.
    steps = [_limits(logs[:, ::-1]), _limits(logs[::-1])] if alternating else [_limits(logs)] * 2
    says = np.append(np.log(channel[0]) - np.log(channel[1]), 0.0)  # past the end nothing
    kinds = np.full(blocks * length, len(says) - 1, dtype=np.min_scalar_type(len(says)))
    kinds[:n] = outputs
    places = kinds.reshape(blocks, length).T
    # What a record adds: the shift of the step to it, and what its output says.
    shifts = [steps[1][2], steps[0][2]]
    if alternating:
        added = np.empty(places.shape)
        added[0::2], added[1::2] = (says + shifts[0])[places[0::2]], (shifts[1] - says)[places[1::2]]
    else:
        added = np.take(says + shifts[0], np.ascontiguousarray(places))
    first = math.log(start[0]) - math.log(start[1]) - shifts[0]  # nothing was before it: no step, no shift
    differences = _differences(added, [step[:2] for step in steps], first)
    # What each difference says of the state before a step: 1 for state 0, -1 for state 1, 0 for "the same".
    decided = np.empty(differences.shape, dtype=np.int8)
    for half in (0, 1):
        low, high, _ = steps[half]
        np.subtract(differences[half::2] >= high, differences[half::2] < low, out=decided[half::2], dtype=np.int8)
    # The last record has nobody after it: the larger weight decides.
    last = (n - 1) % length, (n - 1) // length
    decided[last] = 1 if differences[last] >= 0 else -1
    flat = decided.T.ravel()[:n]
    known = np.flatnonzero(flat)
    named = flat[known] < 0
    path = np.repeat(named, np.diff(known, prepend=-1)).astype(np.intp)  # a state holds back to the known one before
    if alternating:
        place = np.arange(n) % length
        path ^= place & 1
    return path


def _limits(logs: Floats) -> tuple[float, float, float]:
    """Of d ↦ max(d+p, r) − max(d+q, s) = clip(d, r−p, s−q) + p − s, for p + s ≥ q + r."""
    (p, q), (r, s) = logs.tolist()
    return r - p, max(s - q, r - p), p - s


def _differences(added: Floats, limits: list[tuple[float, float]], first: float) -> Floats:
    """The difference at every place of every block.

    The largest and the smallest start of a block soon lead to the same difference, because both meet the same limit.
    From there on every start does. So most places need one pass; those before are passed again from the end of the
    block before, and where blocks are too short for that they are passed one after the other.
    """
    length, blocks = added.shape
    out = np.empty((length, blocks))
    low, high = limits[(length - 1) % 2]
    ends = np.empty((2, blocks))
    ends[0], ends[1] = low, high
    ends[:, 0] = first
    met = length
    for t in range(length):
        if t:
            low, high = limits[(t - 1) % 2]
            np.maximum(ends, low, out=ends)
            np.minimum(ends, high, out=ends)
        ends += added[t]
        if t % 8 == 7 and np.array_equal(ends[0], ends[1]):
            met = t
            break
    if met < length:
        out[met] = ends[0]
        _pass(added, limits, out, met + 1, length)
        starts = np.append(first, out[-1, :-1])
    else:
        starts = _one_by_one(added, limits, first)
    low, high = limits[(length - 1) % 2]
    starts[1:] = np.minimum(np.maximum(starts[1:], low), high)
    out[0] = starts + added[0]
    _pass(added, limits, out, 1, met)
    return out


def _pass(added: Floats, limits: list[tuple[float, float]], out: Floats, begin: int, end: int) -> None:
    for t in range(begin, end):
        low, high = limits[(t - 1) % 2]
        row = out[t]
        np.maximum(out[t - 1], low, out=row)
        np.minimum(row, high, out=row)
        row += added[t]


def _one_by_one(added: Floats, limits: list[tuple[float, float]], first: float) -> Floats:
    """The difference at the end of the block before each block, from one map clip(d, low, high) + shift a block."""
    length, blocks = added.shape
    low, high, shift = np.full(blocks, -np.inf), np.full(blocks, np.inf), np.array(added[0])
    for t in range(1, length):
        under, over = (limit - shift for limit in limits[(t - 1) % 2])
        low = np.minimum(np.maximum(low, under), over)
        high = np.minimum(np.maximum(high, under), over)
        shift += added[t]
    out, current = np.empty(blocks), first
    a, b = limits[(length - 1) % 2]
    for i, (lo, hi, by) in enumerate(zip(low.tolist(), high.tolist(), shift.tolist(), strict=True)):
        out[i] = current
        begin = current if i == 0 else min(max(current, a), b)
        current = min(max(begin, lo), hi) + by
    return out


# ---- any number of states ----


def _any_states(outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> States:
    """Blocks of records, all passed at once.

    Few states: each block is passed from each single state, which tells what any start of it leads to, until the best
    paths from all of them pass through one state: from there on one pass is enough. The way back likewise.
    More states: blocks are passed as if nothing were known of what came before. From where the best paths from all
    states pass through one, the weights differ from the true ones by a constant, which decides nothing. So a second
    pass, from the end of the block before, soon meets the first one and can stop. Where too many blocks are too short
    for that, blocks are made longer; a single one is always right. The way back is found likewise: from the best end of
    each block, then again where the next block disagrees.
    """
    with np.errstate(divide="ignore"):
        moves, first = np.log(transition), np.log(start)
        says = np.concatenate([np.log(channel).T, np.zeros((1, len(moves)))]).T  # past the end nothing is said
    few = len(moves) <= _FEW_STATES
    for length in _STUCK:
        if length * moves.size >= _WORTH and (path := _stuck(outputs, first, moves, says[:, :-1], length)) is not None:
            return path
    most = max(1, min(_MOST_BLOCKS, _AT_ONCE // len(moves) ** (3 if few else 2)))
    blocks = min(most, max(1, len(outputs) // (_SHORTEST if few else _SHORT)))
    while (found := _path_in_blocks(outputs, first, moves, says, blocks, few)) is None:
        blocks = max(1, blocks // _LONGER)
    return found


def _path_in_blocks(
    outputs: Codes, first: Floats, moves: Floats, says: Floats, blocks: int, few: bool
) -> States | None:
    """The best path by so many blocks; none where too many of them are too short."""
    n = len(outputs)
    length = -(-n // blocks)
    blocks = -(-n // length)
    kinds = np.full(blocks * length, says.shape[1] - 1, dtype=np.intp)
    kinds[:n] = outputs
    places = np.ascontiguousarray(kinds.reshape(blocks, length).T)
    step = _Step(moves, says, blocks * (len(moves) if few else 1))
    last = (n - 1) % length
    path: States | None
    if few:
        path = _few_states(step, places, first, last)
    else:
        begin = np.zeros((len(moves), blocks))
        begin[:, 0] = first
        weights = _weights(step, places, begin)
        path = None if weights is None else _traced_back(weights, moves, last)
    return None if path is None else np.asarray(path.T.ravel()[:n])


class _Step:
    """From the weights of one record to those of the next, for up to so many blocks, in memory that is used again."""

    def __init__(self, moves: Floats, says: Floats, blocks: int) -> None:
        self.moves, self.says = moves, says
        self._sums, self._said = np.empty(moves.size * blocks), np.empty(len(moves) * blocks)

    def move(self, weights: Floats, out: Floats | None = None) -> Floats:
        """The largest ``weights[i] + moves[i, j]`` over i, for each j: blocks lie along the last axis."""
        k, blocks = weights.shape
        sums = self._sums[: k * k * blocks].reshape(k, k, blocks)
        np.add(weights[:, None, :], self.moves[:, :, None], out=sums)
        return np.asarray(np.maximum.reduce(sums, axis=0, out=out))

    def mark(self, best: Floats, out: npt.NDArray[np.int8]) -> None:
        """The first i of the largest sums that ``move`` has just found."""
        k, blocks = best.shape
        less = (self._sums[: k * k * blocks].reshape(k, k, blocks) != best).view(np.int8)
        out[:] = less[-2] if k > 1 else 0
        for i in range(k - 3, -1, -1):  # one more than the first of those after i, unless i itself is one
            out += 1
            out *= less[i]

    def hear(self, places: States) -> Floats:
        """What the outputs at one place say of each state."""
        said = self._said[: len(self.says) * len(places)].reshape(len(self.says), len(places))
        return np.take(self.says, places, axis=1, out=said, mode="clip")


def _levelled(weights: Floats) -> Floats:
    """Weights below the largest of their block: sums stay small, so that rounding does."""
    most = weights.max(axis=0)
    if not np.isfinite(most).all():
        # A block that nothing was known of had every state before it: no series gives its outputs.
        raise _impossible()
    return np.asarray(weights - most)


def _weights(step: _Step, places: States, begin: Floats) -> Floats | None:
    """The best log-weights [place, state, block], up to a constant for each record."""
    length, blocks = places.shape
    weights = np.empty((length, len(begin), blocks))
    weights[0] = begin
    for t in range(length):
        current = weights[t]
        if t:
            step.move(weights[t - 1], out=current)
        current += step.hear(places[t])
        if t % _LEVEL == _LEVEL - 1 or t == length - 1:
            current[:] = _levelled(current)
    late = np.arange(1, blocks)
    turn = 0
    while True:
        true = step.move(weights[-1][:, late - 1])
        off = ~_same(true, begin[:, late])
        wrong = int(np.count_nonzero(off))
        if wrong == 0:
            return weights
        if turn and _too_many(wrong, blocks, turn):
            return None
        if 2 * wrong < len(late):  # all of them lie side by side, which is faster than a choice
            late, true = late[off], true[:, off]
        turn += 1
        begin[:, late] = true
        late = _pass_again(step, weights, places, late, true) + 1
        late = late[late < blocks]


def _pass_again(step: _Step, weights: Floats, places: States, late: States, current: Floats) -> States:
    """Blocks ``late`` once more from other weights, until they meet those of the pass before; those that never do."""
    at = _side_by_side(late)
    for t in range(len(weights)):
        if t:
            current = step.move(current)
        current += step.hear(places[t, at])
        if t % _LEVEL == _LEVEL - 1 or t == len(weights) - 1:
            current = _levelled(current)
            off = ~_same(current, weights[t][:, at])
            if not off.any():
                return late[:0]
            if 2 * np.count_nonzero(off) < len(late):
                late, current = late[off], current[:, off]
                at = _side_by_side(late)
        weights[t][:, at] = current
    return late


def _side_by_side(places: States) -> States | slice:
    """The same places as a slice where they are one."""
    begin, end = int(places[0]), int(places[-1]) + 1
    return slice(begin, end) if end - begin == len(places) else places


def _same(a: Floats, b: Floats) -> npt.NDArray[np.bool_]:
    """Whether two columns of weights differ by a constant. States that both rule out count for nothing."""
    with np.errstate(invalid="ignore"):
        gap = a - b
    neither = np.isnan(gap)
    with np.errstate(invalid="ignore"):
        spread = np.where(neither, -np.inf, gap).max(axis=0) - np.where(neither, np.inf, gap).min(axis=0)
    return np.asarray(spread <= _ROUNDING)


def _traced_back(weights: Floats, moves: Floats, last: int) -> States | None:
    """The path [place, block] from the best weights of its ``last`` record, in the last block."""
    length, _, blocks = weights.shape
    path = np.empty((length, blocks), dtype=np.intp)
    path[-1] = weights[-1].argmax(axis=0)
    sums = np.empty(weights.shape[1:])
    for t in range(length - 1, -1, -1):
        if t < length - 1:
            np.take(moves, path[t + 1], axis=1, out=sums, mode="clip")
            sums += weights[t]
            sums.argmax(axis=0, out=path[t])
        if t == last:
            path[t, -1] = _levelled(weights[t][:, -1:]).argmax()
    late = np.arange(blocks - 1)
    turn = 0
    while True:
        true = _came_from(weights[-1][:, late], moves, path[0, late + 1])
        off = true != path[-1, late]
        late, current = late[off], true[off]
        if len(late) == 0:
            return path
        if turn and _too_many(len(late), blocks, turn):
            return None
        turn += 1
        for t in range(length - 1, -1, -1):
            if t < length - 1:
                current = _came_from(weights[t][:, late], moves, current)
            off = current != path[t, late]
            late, current = late[off], current[off]
            if len(late) == 0:
                break
            path[t, late] = current
        late = late[late > 0] - 1


def _came_from(weights: Floats, moves: Floats, states: States) -> States:
    """The state before, for each block whose next record is in the state given."""
    return np.asarray((weights + moves[:, states]).argmax(axis=0))


def _too_many(late: int, blocks: int, turn: int) -> bool:
    """Whether longer blocks are better than another turn."""
    return turn >= _TURNS or late > blocks // _FEW


# ---- chains that hardly ever leave a state ----


def _stuck(outputs: Codes, first: Floats, moves: Floats, says: Floats, length: int) -> States | None:
    """The best path by blocks of so many records, in each of which it moves once at most; None where it may twice.

    Say C_i(u) is what staying in i up to record u of a block weighs, and e_ij what a move weighs beside staying in j.
    From a by c to b weighs no more than from a to b at the first of both moves where e_ac + e_cb + r ≤ e_ab, with r the
    range of C_c − C_b in the block (and e_aa = 0: back to a weighs no more than staying). If that holds for all three
    states, moves can be taken away one by one until one is left: then what leads from i to j is the largest
    C_i(u) − C_j(u) over the places u of the move.
    """
    n, k = len(outputs) - 1, len(moves)
    if n < 2 * length or not (np.isfinite(moves).all() and np.isfinite(says).all()):
        return None
    stay = np.diagonal(moves)
    move = moves - stay
    np.fill_diagonal(move, 0.0)
    room = _room(move) - _ROUNDING
    if room <= 0 or (move > 0).any():
        return None
    blocks = -(-n // length)
    kinds = np.full(blocks * length, says.shape[1], dtype=np.intp)
    kinds[:n] = outputs[1:]
    places = np.ascontiguousarray(kinds.reshape(blocks, length).T)
    adds = np.concatenate([says + stay[:, None], np.zeros((k, 1))], axis=1)  # past the end nothing is added
    through = np.empty((blocks, k, k))
    some = _TOGETHER // length
    gap = np.empty((length - 1, some))
    # Where some blocks in the middle move twice, the others need not be looked at.
    middle = blocks // 2, min(blocks, blocks // 2 + max(1, min(some, blocks // _SAMPLE)))
    for low, high in [middle, *((at, min(at + some, blocks)) for at in range(0, blocks, some))]:
        part = slice(low, high)
        stays = np.cumsum(np.take(adds, places[:, part], axis=1), axis=1)
        most = np.zeros((k, k, stays.shape[2]))
        for i in range(k):
            for j in range(i + 1, k):  # past the last record nobody moves
                table = np.subtract(stays[i, :-1], stays[j, :-1], out=gap[:, : stays.shape[2]])
                np.maximum.reduce(table, axis=0, initial=0.0, out=most[i, j])
                np.minimum.reduce(table, axis=0, initial=0.0, out=most[j, i])
            np.negative(most[i + 1 :, i], out=most[i + 1 :, i])
        if (most + most.swapaxes(0, 1)).max() > room:
            return None
        most += move[:, :, None]
        most += stays[:, -1] - stays[:, -1].max(axis=0)
        through[part] = most.transpose(2, 0, 1)
    return _joined(outputs, first + says[:, outputs[0]], through, places, adds)


def _room(move: Floats) -> float:
    """The least that a move beside staying weighs more than two moves that lead to the same state."""
    k, least = len(move), math.inf
    for c in range(k):
        other = move - move[:, c, None] - move[c]
        rest = np.arange(k) != c
        least = min(least, float(other[np.ix_(rest, rest)].min()))
    return least


def _joined(outputs: Codes, first: Floats, through: Floats, places: States, adds: Floats) -> States:
    """The best path through blocks, each with what leads through it from state to state."""
    (length, blocks), k = places.shape, len(first)
    weights, sums = np.empty((blocks + 1, k)), np.empty((k, k))
    weights[0] = first
    for b in range(blocks):
        np.add(weights[b][:, None], through[b], out=sums)
        np.maximum.reduce(sums, axis=0, out=weights[b + 1])
    came = np.empty((blocks, k), dtype=np.intp)
    for low in range(0, blocks, _MOST_BLOCKS):
        part = slice(low, low + _MOST_BLOCKS)
        came[part] = (weights[:-1][part, :, None] + through[part]).argmax(axis=1)
    ends = [int(weights[-1].argmax())]
    for before in came[::-1].tolist():
        ends.append(before[ends[-1]])
    states = np.array(ends[::-1])
    path = np.repeat(states[1:], length).reshape(blocks, length)
    moved = np.flatnonzero(states[1:] != states[:-1])
    for low in range(0, len(moved), _MOST_BLOCKS):
        at = moved[low : low + _MOST_BLOCKS]
        old, new = states[at], states[at + 1]
        gap = np.zeros((length, len(at)))  # before each record
        np.cumsum((adds[old, places[:-1, at]] - adds[new, places[:-1, at]]), axis=0, out=gap[1:])
        late = np.arange(length) < gap.argmax(axis=0)[:, None]
        path[at] = np.where(late, old[:, None], new[:, None])
    return np.concatenate([states[:1], path.ravel()])[: len(outputs)]


# ---- few states ----


def _few_states(step: _Step, places: States, first: Floats, last: int) -> States:
    """The best path [place, block] for few states; it ends at place ``last`` of the last block."""
    length, blocks = places.shape
    k = len(first)
    current = np.full((k, k, blocks), -np.inf)  # [state now, state at first, block]
    current[np.arange(k), np.arange(k)] = 0
    current[:, :, 0] = first[:, None]  # what came before the first block is known
    met = length - 1
    for t in range(length):
        if t:
            current = step.move(current.reshape(k, -1)).reshape(k, k, blocks)
        current += step.hear(places[t])[:, None, :]
        if t % _LEVEL == _LEVEL - 1:
            current = _levelled(current.reshape(k * k, blocks)).reshape(k, k, blocks)
            if t < length - 1 and _same(current[:, 1:], current[:, :1]).all():
                met = t
                break
    came = np.empty((length + 1, k, blocks), dtype=np.int8)  # the state before each state
    begin, final = np.empty((k, blocks)), 0

    def onward(weights: Floats, start: int, end: int) -> Floats:
        nonlocal final
        for t in range(start, end):
            if t:
                weights = step.move(weights)
                step.mark(weights, came[t])
            weights += step.hear(places[t])
            if t % _LEVEL == _LEVEL - 1 or t == length - 1:
                weights = _levelled(weights)
            if t == last:
                final = int(_levelled(weights[:, -1:]).argmax())
        return weights

    if met < length - 1:
        ends = onward(_levelled(current[:, 0]), met + 1, length)
        begin[:, 1:] = step.move(ends)[:, :-1]
    else:
        begin[:, 1:] = _begins(step.move(current.reshape(k, -1)).reshape(k, k, blocks))
    begin[:, 0] = first
    again = onward(begin, 0, met + 1)
    step.mark(step.move(ends if met < length - 1 else again), came[length])  # from a block to the next one
    return _traced_from_each(came, final, last)


def _begins(through: Floats) -> Floats:
    """The weights after each block but the last: blocks are joined to two, four, eight of them."""
    k, _, blocks = through.shape
    gap = 1
    while True:
        through = _levelled(through.reshape(k * k, blocks)).reshape(k, k, blocks)
        if gap >= blocks:
            return np.asarray(through[:, 0, :-1])
        joined = through[:, 0, None, gap:] + through[None, 0, :, :-gap]
        for i in range(1, k):
            np.maximum(joined, through[:, i, None, gap:] + through[None, i, :, :-gap], out=joined)
        through[:, :, gap:] = joined
        gap *= 2


def _traced_from_each(came: npt.NDArray[np.int8], final: int, last: int) -> States:
    """The path [place, block]: back from each end of each block to where that block begins, then from the true end."""
    length, k, blocks = len(came) - 1, *came.shape[1:]
    column = np.arange(blocks)

    def back(states: States, path: npt.NDArray[np.int8] | None) -> States:
        for t in range(length - 1, -1, -1):
            if t == last:
                states[..., -1] = final
            if path is not None:
                path[t] = states
            if t % _LEVEL == 0 and len(states) == k and path is None and (states[1:] == states[:1]).all():
                states = states[:1]
            if t:
                places = np.multiply(states, blocks, dtype=np.intp)
                places += column
                states = came[t].ravel().take(places)
        return states

    begins = np.broadcast_to(back(np.repeat(np.arange(k)[:, None], blocks, axis=1), None), (k, blocks))
    before = came[length][begins[:, 1:], column[:-1]]
    ends = [0]
    for states in before.T[::-1].tolist():
        ends.append(states[ends[-1]])
    path = np.empty((length, blocks), dtype=np.int8)
    back(np.array(ends[::-1]), path)
    return path.astype(np.intp)


def _impossible() -> DataError:
    return DataError("the series cannot come from this model: an output it rules out is in it")


# ---- many series of one length ----


def posterior_rows(outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> Floats:
    """P(X_t = x | all outputs of its row): one series a row, states along the last axis."""
    likely = np.asarray(channel).T[outputs]
    out = np.empty(likely.shape)
    out[:, 0] = _scaled(start * likely[:, 0])
    for t in range(1, outputs.shape[1]):
        out[:, t] = _scaled((out[:, t - 1] @ transition) * likely[:, t])
    after = np.ones(out[:, 0].shape)
    for t in range(outputs.shape[1] - 2, -1, -1):
        after = _scaled((after * likely[:, t + 1]) @ transition.T)
        out[:, t] = _scaled(out[:, t] * after)
    return out


def best_path_rows(outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> States:
    """The most probable series of states of each row."""
    with np.errstate(divide="ignore"):
        moves, says = np.log(transition), np.log(channel).T[outputs]
        weights = np.log(start) + says[:, 0]
    rows, n = outputs.shape
    came = np.empty((n, rows, len(moves)), dtype=np.intp)
    for t in range(1, n):
        sums = weights[:, :, None] + moves
        came[t] = sums.argmax(axis=1)
        weights = sums.max(axis=1) + says[:, t]
    if not np.isfinite(weights.max(axis=1)).all():
        raise _impossible()
    path = np.empty((rows, n), dtype=np.intp)
    path[:, -1] = weights.argmax(axis=1)
    for t in range(n - 1, 0, -1):
        path[:, t - 1] = came[t, np.arange(rows), path[:, t]]
    return path


def _scaled(weights: Floats) -> Floats:
    total = weights.sum(axis=1, keepdims=True)
    if not (total > 0).all():
        raise _impossible()
    return np.asarray(weights / total)
