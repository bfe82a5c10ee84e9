"""What a sanitised series says of the true one: forward–backward over a hidden chain, fast without a compiler.

A series is cut into blocks of equal length, and all blocks are passed at once, one place at a time: first as products
of matrices (what a block does to any start), then, once the start and the end of each block are known, as vectors.
Every vector is scaled as it goes, so nothing under- or overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Matrix, Vector
from pufferdp.basics.errors import DataError

Codes = npt.NDArray[np.integer]

_OUTER: Final = 16
"""Blocks are this many times as many as they are long: a step over many blocks costs little more than over few."""


def posterior(outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> Floats:
    """P(X_t = x | all outputs), one row a record. ``start`` is the law of the first record."""
    n, k = len(outputs), len(transition)
    if n == 0:
        return np.zeros((0, k))
    if k == 2 and all((np.asarray(table) > 0).all() for table in (start, transition, channel)):
        return _two_states(outputs, start, transition, channel)
    blocks, length = _shape(n)
    filled = np.full(blocks * length, channel.shape[1], dtype=np.intp)  # one output more, for places past the end
    filled[:n] = outputs
    places = np.ascontiguousarray(filled.reshape(blocks, length).T)
    likely = np.concatenate([channel.T, np.ones((1, k))])
    moves = [np.asarray(transition * row) for row in likely]  # P·diag(B[:,z])
    whole = _blocks(places, moves)
    # P(x_1, z_1) is a step from a record before the first whose next law is the start, whatever it was.
    firsts = _prefix(whole[1:], _first(places[:, 0], start, likely, moves))
    lasts = _suffix(whole)
    forward = _forward(places, firsts, start, transition, likely)
    out = _backward(places, lasts, moves, forward)
    total = out.sum(axis=-1, keepdims=True)
    if not (total > 0).all():
        raise DataError("the series cannot come from this model: an output it rules out is in it")
    out /= total
    return np.asarray(out.transpose(1, 0, 2).reshape(-1, k)[:n])


def _two_states(outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> Floats:
    """Both passes with ratios of two weights: every table is positive, so no ratio leaves the range of doubles."""
    (p, q), (r, s) = np.asarray(transition).tolist()
    n = len(outputs)
    blocks, length = _shape(n)
    says = np.append(channel[0] / channel[1], 1.0)  # of a 0 against a 1; past the end nothing
    filled = np.full(blocks * length, says[-1])
    filled[:n] = says[outputs]
    places = np.ascontiguousarray(filled.reshape(blocks, length).T)
    # What a block does to any start: rows (a, b) and (c, d) of a product, the second column scaled to no factor.
    a, b, c, d = p * places[0], np.full(blocks, q), r * places[0], np.full(blocks, s)
    for t in range(1, length):
        z = places[t]
        a, b, c, d = (a * p + b * r) * z, a * q + b * s, (c * p + d * r) * z, c * q + d * s
        if t % 8 == 7:
            scale = 1 / (a + b + c + d)
            a, b, c, d = a * scale, b * scale, c * scale, d * scale
    # The weights before the first record are those that make the start its law: P is passed once in every block.
    before, after = np.empty(blocks), np.empty(blocks)
    current = start[0] / start[1] * places[0, 0]
    for z in places[1:, 0].tolist():
        current = (current * p + r) / (current * q + s) * z
    rows = np.stack([a, b, c, d], axis=1).tolist()
    before[0] = start[0] / start[1]
    for i in range(1, blocks):
        a0, b0, c0, d0 = rows[i]
        before[i] = (current * p + r) / (current * q + s)
        current = (current * a0 + c0) / (current * b0 + d0)
    current = 1.0
    for i in range(blocks - 1, -1, -1):
        after[i] = current
        a0, b0, c0, d0 = rows[i]
        current = (a0 * current + b0) / (c0 * current + d0)
    odds = np.empty((length, blocks))
    ratio = before * places[0]
    odds[0] = ratio
    for t in range(1, length):
        ratio = (ratio * p + r) / (ratio * q + s) * places[t]
        odds[t] = ratio
    ratio = after
    for t in range(length - 1, -1, -1):
        odds[t] *= ratio
        if t:
            ratio = ratio * places[t]
            ratio = (ratio * p + q) / (ratio * r + s)
    out = np.empty((n, 2))
    odds = odds.T.ravel()[:n]
    out[:, 1] = 1 / (1 + odds)
    out[:, 0] = odds * out[:, 1]
    return out


def _shape(n: int) -> tuple[int, int]:
    length = max(1, math.isqrt(n // _OUTER))
    return -(-n // length), length


def _stack(places: npt.NDArray[np.intp], moves: list[Floats]) -> Callable[[int], Floats]:
    table = np.stack(moves)
    return lambda t: table[places[t]]


def _blocks(places: npt.NDArray[np.intp], moves: list[Floats]) -> Floats:
    """The product of the matrices of each block, scaled."""
    at = _stack(places, moves)
    out = at(0)
    for t in range(1, len(places)):
        out = out @ at(t)
        if t % 8 == 7:
            out = out / np.maximum(out.max(axis=(1, 2), keepdims=True), 1e-300)
    return out


def _first(column: npt.NDArray[np.intp], start: Vector, likely: Floats, moves: list[Floats]) -> Floats:
    """The weights at the end of the first block."""
    weights = np.asarray(start) * likely[column[0]]
    for z in column[1:]:
        weights = weights @ moves[z]
        weights = weights / max(weights.max(), 1e-300)
    return np.asarray(weights)


def _prefix(whole: Floats, first: Floats) -> list[Floats]:
    """The weights at the end of each block but the last: the next block starts from there."""
    out = [first]
    for block in whole[:-1] if len(whole) else []:
        weights = out[-1] @ block
        out.append(weights / max(weights.max(), 1e-300))
    return out


def _suffix(whole: Floats) -> Floats:
    """What all later blocks say of the last record of each block."""
    out = [np.ones(whole.shape[1])]
    for block in whole[:0:-1]:
        weights = block @ out[-1]
        out.append(weights / max(weights.max(), 1e-300))
    return np.array(out[::-1])


def _forward(
    places: npt.NDArray[np.intp], firsts: list[Floats], start: Vector, transition: Matrix, likely: Floats
) -> Floats:
    """P(x_t, z up to t), scaled, for every place of every block."""
    blocks = places.shape[1]
    out = np.empty((len(places), blocks, len(start)))
    priors = np.array([np.asarray(start), *(np.asarray(w @ transition) for w in firsts[: blocks - 1])])
    current = priors * likely[places[0]]
    out[0] = current
    for t in range(1, len(places)):
        current = current @ transition
        current *= likely[places[t]]
        current /= np.maximum(current.max(axis=1, keepdims=True), 1e-300)
        out[t] = current
    return out


def _backward(places: npt.NDArray[np.intp], lasts: Floats, moves: list[Floats], forward: Floats) -> Floats:
    """The forward weights times what later outputs say, in place."""
    at, current = _stack(places, moves), lasts
    for t in range(len(places) - 1, -1, -1):
        forward[t] *= current
        if t:
            step = at(t)
            current = np.einsum("bxy,by->bx", step, current)
            current /= np.maximum(current.max(axis=1, keepdims=True), 1e-300)
    return forward
