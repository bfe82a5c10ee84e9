"""How far two beliefs lie apart once a secret is known: the Delta of Song et al. 2017, Theorem 2.4.

A mechanism that promises epsilon to those who believe θ promises epsilon + 2Δ to those who believe θ~, where

    Δ = max over secrets s of max( D∞(θ~|s ‖ θ|s), D∞(θ|s ‖ θ~|s) ),   D∞(p ‖ q) = max over p(x) > 0 of log p(x)/q(x).

A secret is "record i has value a". Which secrets count follows from the proof. The belief's promise is about pairs of
secrets that are possible under the BELIEF, so those count, and no others: what only θ holds possible is no secret to
somebody who rules it out. If θ gives such a secret probability 0, the promise made to θ says nothing about it, and Δ is
infinite. An outcome that both rule out is skipped (0/0), one that exactly one of them rules out is infinite (x/0).
Conditioning cannot be left out: the value without it can be too small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Mask, Vector
from pufferdp.basics.errors import ModelError
from pufferdp.leakage.laws.base import Logs
from pufferdp.models.base import RecordModel
from pufferdp.models.chain import MarkovChain


def side_by_side(model: RecordModel, belief: RecordModel) -> Iterator[tuple[npt.NDArray[np.int64], Vector, Vector]]:
    """For each member of the class: all outcomes, and the laws of the belief and of the member over them."""
    order = _same_records(model, belief)
    rows, ours = belief.outcomes()
    columns = []
    for i, j in enumerate(order):
        domain, theirs = model.domains[i], belief.domains[j]
        columns.append(np.array([domain.index(state) for state in theirs])[rows[:, j]])
    rows = np.stack(columns, axis=1)
    for member in model.beliefs:
        others, theirs_law = member.outcomes()
        outcomes, place = np.unique(np.concatenate([rows, others]), axis=0, return_inverse=True)
        laws = np.zeros((2, len(outcomes)))
        np.add.at(laws[0], place.ravel()[: len(rows)], ours)
        np.add.at(laws[1], place.ravel()[len(rows) :], theirs_law)
        yield outcomes, laws[0], laws[1]


def _same_records(model: RecordModel, belief: RecordModel) -> list[int]:
    """Where the belief has the records of the model; refused where records or states differ."""
    for side, has, other in (("belief", belief, model), ("model", model, belief)):
        missing = [r for r in other.records if r not in has.records]
        if missing:
            raise ModelError(f"the {side} has no record {missing[0]!r}; model and belief must have the same records")
    order = [belief.position(record) for record in model.records]
    for i, j in enumerate(order):
        if set(model.domains[i]) != set(belief.domains[j]):
            ours, theirs = ", ".join(model.domains[i][:10]), ", ".join(belief.domains[j][:10])
            raise ModelError(
                f"record {model.records[i]!r} has the states {theirs} in the belief and {ours} in the model; "
                "they must agree"
            )
    return order


Times = Callable[[Logs, Logs], Logs]

_CELLS: Final = 2**17
_SMALL: Final = 1e-250


def block_sizes(length: int, states: int, columns: int = 1) -> list[int]:
    """Lengths of the blocks that make up ``length`` records: a power of two each but the last."""
    block = 256
    while 2 * block * states * columns <= _CELLS:
        block *= 2
    return [block] * (length // block) + [length % block] * (length % block > 0)


def longest(rows: Logs, matrix: Logs) -> Logs:
    """max_x rows[x] + matrix[x, y], for every column of ``rows`` at once."""
    return np.stack([(rows + matrix[:, y, None]).max(axis=0) for y in range(len(matrix))])


def log_product(rows: Logs, matrix: Logs) -> Logs:
    """Log Σ_x exp(rows[x] + matrix[x, y]), for every column of ``rows`` at once."""
    top = rows.max(axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    linear = np.exp(matrix).T @ np.exp(rows - shift)
    with np.errstate(divide="ignore"):
        out = np.log(linear) + shift
    small = linear < _SMALL
    if small.any():  # a sum this small may have lost terms to underflow: take it in logarithms, where anything leads
        small &= (np.isfinite(matrix).T.astype(float) @ np.isfinite(rows).astype(float)) > 0.5
        for y in np.flatnonzero(small.any(axis=1)):
            at = np.flatnonzero(small[y])
            terms = rows[:, at] + matrix[:, y, None]
            peak = terms.max(axis=0)
            out[y, at] = np.log(np.exp(terms - peak).sum(axis=0)) + peak
    return np.asarray(out)


class Lines:
    """v, v·M, v·M², … for one matrix M in one algebra; a state an axis, several v side by side."""

    def __init__(self, matrix: Logs, times: Times, most: int) -> None:
        self._times, self._powers = times, [matrix]
        while 2 ** len(self._powers) <= most:
            half = self._powers[-1]
            self._powers.append(times(half.T, half).T)

    def rows(self, first: Logs, count: int) -> Logs:
        """The first ``count`` of them from ``first`` (states × columns) on: states × count × columns."""
        table, columns = first, first.shape[1]
        for power in self._powers:
            missing = count * columns - table.shape[1]
            if missing <= 0:
                break
            table = np.concatenate([table, self._times(table[:, :missing], power)], axis=1)
        return table[:, : count * columns].reshape(len(first), count, columns)

    def after(self, first: Logs, steps: int) -> Logs:
        """The one that stands ``steps`` further, at most the ``most`` of the making."""
        for bit, power in enumerate(self._powers):
            if steps >> bit & 1:
                first = self._times(first, power)
        return first


_SETTLED: Final = 1e-12
_TIE: Final = 1e-9


@dataclass(frozen=True)
class Divergence:
    """Δ between a belief and one model, and the secret that decides it."""

    value: float
    record: int
    """Position of the record, counted from 1."""
    state: int
    """The value that it has, as the number of a state, from 0."""
    exact: bool = True
    """False: an upper bound, because the model may take a start that comes closer."""
    reason: str | None = None
    """Why it is infinite, if it is."""


def log_of(probabilities: npt.ArrayLike) -> Logs:
    """Logarithms, -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.asarray(probabilities, dtype=float)))


def divergence_given(belief: npt.ArrayLike, model: npt.ArrayLike, event: npt.ArrayLike | None = None) -> float:
    """max(D∞(belief|E ‖ model|E), D∞(model|E ‖ belief|E)) for two laws over the same outcomes; E is a mask of them.

    >>> round(float(np.exp(divergence_given([0.9, 0.05, 0.05], [0.01, 0.95, 0.04]))), 4)
    90.0
    >>> not_the_third = [True, True, False]
    >>> round(float(np.exp(divergence_given([0.9, 0.05, 0.05], [0.01, 0.95, 0.04], not_the_third))), 4)
    90.9474
    """
    p, q = np.asarray(belief, dtype=float), np.asarray(model, dtype=float)
    if event is not None:
        inside = np.asarray(event, dtype=bool)
        p, q = p[inside], q[inside]
    if p.sum() <= 0:
        return 0.0  # impossible under the belief: no secret to it
    if ((p > 0) != (q > 0)).any():
        return np.inf
    both = p > 0
    ratio = np.log(p[both]) - np.log(q[both])
    tilt = np.log(p.sum()) - np.log(q.sum())
    return float(max(ratio.max() - tilt, tilt - ratio.min(), 0.0))


def outcome_divergence(outcomes: npt.NDArray[np.int64], belief: Vector, model: Vector) -> Divergence:
    """Two laws over the same outcomes, one row of state numbers each; every record and value is a secret."""
    worst = Divergence(0.0, 1, 0)
    for i, states in enumerate(outcomes.T):
        for a in np.unique(states[belief > 0]):
            given = states == a
            value = divergence_given(belief, model, given)
            if np.isinf(value):
                sides = ("belief", "model") if (given & (belief > 0) & (model <= 0)).any() else ("model", "belief")
                reason = f"the {sides[0]} holds an outcome possible that the {sides[1]} rules out"
                return Divergence(value, i + 1, int(a), reason=reason)
            if value > worst.value:
                worst = Divergence(value, i + 1, int(a))
    return worst


def chain_divergence(belief: MarkovChain, model: MarkovChain, length: int) -> Divergence:
    """Two chains over the same states, for a series of ``length`` records, in O(length·k²).

    D∞ given x_i = a is the longest path through (i, a), weighted with log-ratios of the two chains, less the log-ratio
    of their marginals at i. Forward and backward longest paths give it for all i and a at once.

    Starts. Both definite: exact. A model with any start takes the law the belief starts with: it is in the class, and
    some other start may come closer, so the value is an upper bound. Both any: the same law on both sides, whichever
    it is; the value is the supremum over all laws, again an upper bound on the Δ of the class. Only the belief any: it
    is a class of its own, and the supremum over its starts counts.

    Rounding: logarithms of marginals are right to about length·k·2^-53, longest paths to a relative 2^-47.
    """
    if belief.any_start and not model.any_start:
        return _open_start(belief, model, length)
    start = _start(belief)
    other = start if model.any_start else _start(model)
    if np.array_equal(belief.transition, model.transition) and np.array_equal(start, other):
        return Divergence(0.0, 1, 0)  # the same law: rounding must not tell them apart
    clash = _clash(belief, model, start, other, length)
    if clash is not None:
        return clash
    first, sizes = _ratio(start, other), block_sizes(length, belief.size, belief.size if belief.any_start else 1)
    weights = _ratio(belief.transition, model.transition)
    tilts = _tilts(belief, model, start, other, sizes)
    forth, back = _longest(weights, first, sizes), _longest(_negated(weights), _negated(first), sizes)
    value, record, state, done = 0.0, 1, 0, 0
    for up, down, (tilt_up, tilt_down) in zip(forth, back, tilts, strict=True):
        with np.errstate(invalid="ignore"):
            divergences = np.where(up > -np.inf, np.maximum(up + tilt_up, down + tilt_down), -np.inf)
        best = float(divergences.max())
        if best > value + _TIE * max(1.0, value):  # of records that tie, the first: rounding must not choose
            i, state = divmod(int(np.argmax(np.isclose(divergences.T, best, rtol=_TIE, atol=_TIE))), belief.size)
            record = done + i + 1
        value = max(value, best)
        done += divergences.shape[1]
    return Divergence(value, record, state, exact=value == 0 or not model.any_start)


def _start(chain: MarkovChain) -> Vector:
    """The law of the first record; for any start a weight of 1 on each state, which leaves all of them possible."""
    if chain.any_start:
        return np.ones(chain.size)
    return chain.stationary if chain.given_start is None else chain.given_start


def _ratio(p: Vector, q: Vector) -> Logs:
    """Log p/q where both are positive; -inf elsewhere, where no common path leads."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((p > 0) & (q > 0), np.log(p) - np.log(q), -np.inf)


def _negated(weights: Logs) -> Logs:
    """The weights of the ratio turned round; where nothing leads, nothing leads."""
    return np.where(np.isfinite(weights), -weights, -np.inf)


def _longest(weights: Logs, first: Logs, sizes: list[int]) -> Iterator[Logs]:
    """The longest path through each state at each record: states × records, block by block."""
    ahead, behind = Lines(weights, longest, max(sizes)), Lines(weights.T, longest, max(sizes))
    ends = [np.zeros((len(first), 1))]  # longest path from the end of each block to the end of all, last block first
    for size in reversed(sizes[1:]):
        ends.append(behind.after(ends[-1], size))
    front = first[:, None]
    for size in sizes:
        yield ahead.rows(front, size)[:, :, 0] + behind.rows(ends.pop(), size)[:, ::-1, 0]
        front = ahead.after(front, size)


def _tilts(
    belief: MarkovChain, model: MarkovChain, start: Vector, other: Vector, sizes: list[int]
) -> Iterator[tuple[Logs, Logs]]:
    """Log m(a)/m~(a) and log m~(a)/m(a) of the marginals, or their suprema over a start that both share.

    Any start μ on both sides: m_i(a)/m~_i(a) = Σ_y μ(y)·P^(i-1)(y,a) / Σ_y μ(y)·P~^(i-1)(y,a) is a weighted mean of
    the ratios P^(i-1)(y,a)/P~^(i-1)(y,a), so it is at most the largest, reached at the μ that sits on that y alone. The
    paths compared with it may start anywhere in the support of μ. Put mass η on the start z of the longest path and
    1-η on y: as η falls to 0 the path stays and the ratio tends to its largest. So the sum of the two maxima is the
    supremum itself, not only a bound.
    """
    if not belief.any_start:
        pairs = zip(_marginals(belief, start, sizes), _marginals(model, other, sizes), strict=True)
        for ours, theirs in pairs:
            with np.errstate(invalid="ignore"):
                yield theirs - ours, ours - theirs
        return
    lines = [Lines(log_of(chain.transition), log_product, max(sizes)) for chain in (belief, model)]
    fronts = [log_of(np.eye(belief.size))] * 2  # log P^n(y, a), a first
    for at, size in enumerate(sizes):
        if all(_spread(front) <= _SETTLED for front in fronts):
            # Later rows of a power are means of its rows now, so they stay between their extremes: a bound, and exact
            # up to _SETTLED, for all records to come.
            (low, high), (low_, high_) = ((front.min(axis=1), front.max(axis=1)) for front in fronts)
            with np.errstate(invalid="ignore"):
                settled = (high_ - low)[:, None], (high - low_)[:, None]
            for rest in sizes[at:]:
                shape = (belief.size, rest)
                yield np.broadcast_to(settled[0], shape), np.broadcast_to(settled[1], shape)
            return
        ours, theirs = (line.rows(front, size) for line, front in zip(lines, fronts, strict=True))
        with np.errstate(invalid="ignore"):
            ratio = ours - theirs
        ratio = np.where(np.isnan(ratio), -np.inf, ratio)  # 0/0: this start does not lead here
        yield _negated(ratio).max(axis=2), ratio.max(axis=2)
        fronts = [line.after(front, size) for line, front in zip(lines, fronts, strict=True)]


def _spread(logs: Logs) -> float:
    """The largest log-ratio between two starts, over all states; 0 where no start leads."""
    with np.errstate(invalid="ignore"):
        spread = logs.max(axis=1) - logs.min(axis=1)
    return float(np.where(np.isnan(spread), 0.0, spread).max())


def _marginals(chain: MarkovChain, start: Vector, sizes: list[int]) -> Iterator[Logs]:
    """The logarithm of the law of each record: states × records, block by block."""
    front = log_of(start)[:, None]
    if start is chain.stationary:
        for size in sizes:
            yield np.broadcast_to(front, (chain.size, size))
        return
    lines = Lines(log_of(chain.transition), log_product, max(sizes))
    for size in sizes:
        yield lines.rows(front, size)[:, :, 0]
        front = lines.after(front, size)


def _clash(belief: MarkovChain, model: MarkovChain, ours: Vector, theirs: Vector, length: int) -> Divergence | None:
    """The first secret of the belief given which one of the two rules out what the other holds possible.

    Three sets of states are followed from record to record: those the belief can be in, those the model can be in, and
    those the model can come to on a way that the belief rules out. Without a clash the first lies in the second and off
    the third, and all ways through a secret of the belief are common to both.
    """
    names, steps, steps_ = belief.labels, belief.transition > 0, model.transition > 0
    only, only_ = steps & ~steps_, steps_ & ~steps
    sets = np.stack([ours > 0, theirs > 0, (theirs > 0) & ~(ours > 0)])
    seen, wait, waited = sets, 1, 0
    for record in range(1, length + 1):
        here, there, astray = sets
        for wrong, reason in (
            (here & ~there, "the belief holds {x} possible as record {i}; the model rules it out"),
            (here & astray, "the model can come to {x} at record {i} in a way that the belief rules out"),
        ):
            if wrong.any():
                x = int(np.argmax(wrong))
                return Divergence(np.inf, record, x, reason=reason.format(x=names[x], i=record))
        if record == length:
            return None
        for extra, allows, forbids in ((only, "belief", "model"), (only_, "model", "belief")):
            wrong_steps = extra & here[:, None]
            if wrong_steps.any():
                x, y = (int(n) for n in np.argwhere(wrong_steps)[0])
                reason = f"the {allows} lets {names[y]} follow {names[x]}; the {forbids} rules it out"
                return Divergence(np.inf, record, x, reason=reason)
        sets = np.stack([_next(here, steps), _next(there, steps_), _next(astray, steps_) | _next(there, only_)])
        if np.array_equal(sets, seen):  # Brent 1980: a whole cycle has been walked, nothing new comes
            return None
        waited += 1
        if waited == wait:
            seen, wait, waited = sets, 2 * wait, 0
    return None


def _next(states: Mask, steps: Mask) -> Mask:
    return np.asarray(steps[states].any(axis=0), dtype=np.bool_)


def _open_start(belief: MarkovChain, model: MarkovChain, length: int) -> Divergence:
    """A belief with any start against a model with one: the supremum over the starts of the belief.

    Among them are the points. They rule out every other first state, so Δ is finite only where no two first states of
    the model can lead to one secret: for one record, or where each state has one predecessor. Such a chain is a
    permutation; given one record both beliefs know the rest, and Δ is 0.
    """
    clash = _clash(belief, model, _start(belief), _start(model), length)
    if clash is not None:
        return clash
    several = (model.transition > 0).sum(axis=0) > 1
    if length > 1 and several.any():
        reason = "the belief leaves the first record open, and the model does not: whoever is sure of it rules out more"
        return Divergence(np.inf, 2, int(np.argmax(several)), reason=reason)
    return Divergence(0.0, 1, 0)
