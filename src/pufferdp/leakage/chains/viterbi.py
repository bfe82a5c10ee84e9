"""The best whole path through a hidden chain (Viterbi), fast without a compiler; and many short series at once.

Two states: the difference of the two best log-weights moves by d ↦ clip(d, low, high) + shift, and such maps compose
to such maps. So a series is cut into blocks and all blocks are passed at once, first as maps, then as numbers, like in
``hidden``. A difference beyond a limit says which state came before, one between them says "the same", so the path
itself is read without a loop. A chain with negative correlation becomes one with positive correlation when the names of
the two states are swapped at every other record. More states, or zeros: max-plus matrices in blocks.
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
"""Blocks are this many times as many as they are long."""
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
    n, k = len(outputs), len(transition)
    length = max(1, math.isqrt(n // _OUTER))
    blocks = -(-n // length)
    filled = np.full(blocks * length, channel.shape[1], dtype=np.intp)  # one output more, for places past the end
    filled[:n] = outputs
    places = np.ascontiguousarray(filled.reshape(blocks, length).T)
    with np.errstate(divide="ignore"):
        moves, first = np.log(transition), np.log(start)
        says = np.concatenate([np.log(channel).T, np.zeros((1, k))])
    weights = _firsts(places, first, moves, says) + says[places[0]]
    came = np.empty((length, blocks, k), dtype=np.intp)
    stay = np.where(np.eye(k, dtype=bool), 0.0, -np.inf)
    for t in range(1, length):
        sums = weights[:, :, None] + moves
        if places[t, -1] == channel.shape[1]:
            sums[-1] = weights[-1][:, None] + stay  # past the end nothing moves, or moves would count
        came[t] = sums.argmax(axis=1)
        weights = sums.max(axis=1) + says[places[t]]
    came[0, 1:] = (weights[:-1, :, None] + moves).argmax(axis=1)
    if not np.isfinite(weights[-1].max()):
        raise _impossible()
    # Where each block comes from, for each state it may end in; then where it does end.
    current = np.tile(np.arange(k), (blocks, 1))
    for t in range(length - 1, -1, -1):
        if t or blocks > 1:
            current[t == 0 :] = np.take_along_axis(came[t], current, axis=1)[t == 0 :]
    ends = np.empty(blocks, dtype=np.intp)
    ends[-1] = weights[-1].argmax()
    for i in range(blocks - 1, 0, -1):
        ends[i - 1] = current[i, ends[i]]
    path, at = np.empty((length, blocks), dtype=np.intp), ends
    for t in range(length - 1, -1, -1):
        path[t] = at
        if t:
            at = came[t, np.arange(blocks), at]
    return np.asarray(path.T.ravel()[:n])


def _firsts(places: npt.NDArray[np.intp], first: Floats, moves: Floats, says: Floats) -> Floats:
    """The best log-weights of the first record of each block, its own output left out: max-plus products of blocks."""
    length, blocks = places.shape
    whole = moves + says[places[0]][:, None, :]
    for t in range(1, length):
        whole = (whole[:, :, :, None] + moves).max(axis=2) + says[places[t]][:, None, :]
    at = first + says[places[0, 0]]  # a law comes before the first block, not a record
    for z in places[1:, 0]:
        at = (at[:, None] + moves).max(axis=0) + says[z]
    out = np.empty((blocks, len(moves)))
    out[0] = first
    for i in range(1, blocks):
        if not np.isfinite(at.max()):
            raise _impossible()
        at = at - at.max()
        out[i] = (at[:, None] + moves).max(axis=0)
        at = (at[:, None] + whole[i]).max(axis=0)
    return out


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
