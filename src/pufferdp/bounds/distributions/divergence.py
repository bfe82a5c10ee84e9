"""The divergence of two models given a secret: the Delta of Song et al. 2017, Theorem 2.4.

A mechanism that guarantees epsilon against an adversary who uses θ guarantees epsilon + 2Δ against one who uses θ~:

    Δ = max over secrets s of max( D∞(θ~|s ‖ θ|s), D∞(θ|s ‖ θ~|s) ),   D∞(p ‖ q) = max over p(x) > 0 of log p(x)/q(x).

θ~ is called the alternative model here, θ the model. A secret is "record i has value a". Which secrets count follows
from the proof. The guarantee is about pairs of secrets that are possible under θ~, so those count, and no others: a
value that only θ holds possible is no secret to an adversary who rules it out. If θ gives such a secret probability 0,
the guarantee for θ says nothing about it, and Δ is infinite. An outcome that both rule out is skipped (0/0), one that
exactly one of them rules out is infinite (x/0). Conditioning cannot be left out: the value without it can be too small.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Mask, Matrix, Vector
from pufferdp.basics.errors import ModelError
from pufferdp.bounds.chains.starts import first_distribution
from pufferdp.bounds.distributions.base import Logs, log_sum
from pufferdp.models.base import RecordModel
from pufferdp.models.chain import MarkovChain


def side_by_side(
    model: RecordModel, alternative: RecordModel
) -> Iterator[tuple[npt.NDArray[np.int64], Vector, Vector]]:
    """For each member of the class: all outcomes, and their probabilities under the alternative and the member."""
    order = _same_records(model, alternative)
    rows, ours = alternative.outcomes()
    columns = []
    for i, j in enumerate(order):
        domain, theirs = model.domains[i], alternative.domains[j]
        columns.append(np.array([domain.index(state) for state in theirs])[rows[:, j]])
    rows = np.stack(columns, axis=1)
    for member in model.record_models:
        others, masses = member.outcomes()
        outcomes, place = np.unique(np.concatenate([rows, others]), axis=0, return_inverse=True)
        both = np.zeros((2, len(outcomes)))
        np.add.at(both[0], place.ravel()[: len(rows)], ours)
        np.add.at(both[1], place.ravel()[len(rows) :], masses)
        yield outcomes, both[0], both[1]


def _same_records(model: RecordModel, alternative: RecordModel) -> list[int]:
    """Where the alternative has the records of the model; rejected where records or states differ."""
    for side, has, other in (("alternative", alternative, model), ("model", model, alternative)):
        missing = [r for r in other.records if r not in has.records]
        if missing:
            raise ModelError(f"the {side} has no record {missing[0]!r}; both models must have the same records")
    order = [alternative.position(record) for record in model.records]
    for i, j in enumerate(order):
        if set(model.domains[i]) != set(alternative.domains[j]):
            ours, theirs = ", ".join(model.domains[i][:10]), ", ".join(alternative.domains[j][:10])
            raise ModelError(
                f"record {model.records[i]!r} has the states {theirs} in the alternative and {ours} in the model; "
                "they must agree"
            )
    return order


_TIE: Final = 1e-9
"""Of records whose divergences differ by no more, the first is named: rounding must not choose."""


@dataclass(frozen=True)
class Divergence:
    """Δ between an alternative and one model, and the secret that decides it."""

    value: float
    record: int
    """Position of the record, counted from 1."""
    state: int
    """The value that it has, as the number of a state, from 0."""
    exact: bool = True
    """False: an upper bound, because the model may take a start that comes closer."""
    reason: str | None = None
    """Why it is infinite, if it is."""


def divergence_given(alternative: npt.ArrayLike, model: npt.ArrayLike, event: npt.ArrayLike | None = None) -> float:
    """The larger D∞ of two distributions over the same outcomes given an event, which masks outcomes.

    >>> round(float(np.exp(divergence_given([0.9, 0.05, 0.05], [0.01, 0.95, 0.04]))), 4)
    90.0
    >>> not_the_third = [True, True, False]
    >>> round(float(np.exp(divergence_given([0.9, 0.05, 0.05], [0.01, 0.95, 0.04], not_the_third))), 4)
    90.9474
    """
    p, q = np.asarray(alternative, dtype=float), np.asarray(model, dtype=float)
    if event is not None:
        inside = np.asarray(event, dtype=bool)
        p, q = p[inside], q[inside]
    if p.sum() <= 0:
        return 0.0  # impossible under the alternative: no secret to it
    if ((p > 0) != (q > 0)).any():
        return np.inf
    both = p > 0
    ratio = np.log(p[both]) - np.log(q[both])
    tilt = np.log(p.sum()) - np.log(q.sum())
    return float(max(ratio.max() - tilt, tilt - ratio.min(), 0.0))


def outcome_divergence(outcomes: npt.NDArray[np.int64], alternative: Vector, model: Vector) -> Divergence:
    """The Δ of two distributions over the same outcomes, rows of state numbers; every record and value is a secret."""
    worst = Divergence(0.0, 1, 0)
    for i, states in enumerate(outcomes.T):
        for a in np.unique(states[alternative > 0]):
            given = states == a
            value = divergence_given(alternative, model, given)
            if np.isinf(value):
                ours = (given & (alternative > 0) & (model <= 0)).any()
                allows, forbids = ("alternative", "model") if ours else ("model", "alternative")
                reason = f"the {allows} holds an outcome possible that the {forbids} rules out"
                return Divergence(value, i + 1, int(a), reason=reason)
            if value > worst.value:
                worst = Divergence(value, i + 1, int(a))
    return worst


def chain_divergence(alternative: MarkovChain, model: MarkovChain, length: int) -> Divergence:
    """Two chains over the same states, for a series of ``length`` records, in O(length·k²).

    D∞ given x_i = a is the longest path through (i, a), weighted with log-ratios of the two chains, less the log-ratio
    of their marginals at i. Forward and backward longest paths give it for all i and a at once.

    Starts. Both definite: exact. A model with any start takes the start of the alternative: it is in the class, and
    some other start may come closer, so the value is an upper bound. Both any: one start on both sides, whichever it
    is; the value is the supremum over all starts, again an upper bound on the Δ of the class. Only the alternative any:
    it is a class of its own, and the supremum over its starts counts.

    Rounding: logarithms of marginals are right to about length·k·2^-53, longest paths to a relative 2^-47.
    """
    start = _start(alternative)
    other = start if model.any_start else _start(model)
    if np.array_equal(alternative.transition, model.transition) and np.array_equal(start, other):
        return Divergence(0.0, 1, 0)  # one distribution: rounding must not make a difference
    clash = _clash(alternative, model, start, other, length)
    if clash is not None:
        return clash
    if alternative.any_start and not model.any_start:
        # Among its starts are the points. They rule out every other first state, so Δ is finite only where no two first
        # states of the model can lead to one secret: for one record, or where each state has one predecessor. Such a
        # chain is a permutation; given one record both know the rest, and Δ is 0.
        several = (model.transition > 0).sum(axis=0) > 1
        if length == 1 or not several.any():
            return Divergence(0.0, 1, 0)
        reason = "the alternative leaves the first record open, the model does not: certainty about it rules out more"
        return Divergence(np.inf, 2, int(np.argmax(several)), reason=reason)
    first, weights = _log_ratio(start, other), _log_ratio(alternative.transition, model.transition)
    tilt = _tilts(alternative, model, start, other, length)
    up, down = _longest_through(first, weights, length), _longest_through(_negated(first), _negated(weights), length)
    with np.errstate(invalid="ignore"):
        divergences = np.where(up > -np.inf, np.maximum(up + tilt[0], down + tilt[1]), -np.inf)
    value = max(0.0, float(divergences.max()))
    i, state = divmod(int(np.argmax(np.isclose(divergences, value, rtol=_TIE, atol=_TIE))), alternative.size)
    return Divergence(value, i + 1, state, exact=value == 0 or not model.any_start)


def _start(chain: MarkovChain) -> Vector:
    """The distribution of the first record; for any start a weight of 1 on each state, so that all are possible."""
    return np.ones(chain.size) if chain.any_start else first_distribution(chain)


def _log_ratio(p: Vector, q: Vector) -> Logs:
    """Log p/q where both are positive; -inf elsewhere, where no common path leads."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((p > 0) & (q > 0), np.log(p) - np.log(q), -np.inf)


def _negated(weights: Logs) -> Logs:
    """The weights of the inverse ratio; where nothing leads, nothing leads."""
    return np.where(np.isfinite(weights), -weights, -np.inf)


def _longest_through(first: Logs, weights: Logs, length: int) -> Logs:
    """The longest path through each state at each record: [record, state]."""
    forward, backward = [first], [np.zeros(len(first))]
    for _ in range(length - 1):
        forward.append((forward[-1][:, None] + weights).max(axis=0))
        backward.append((weights + backward[-1]).max(axis=1))
    return np.array(forward) + np.array(backward[::-1])


def _tilts(
    alternative: MarkovChain, model: MarkovChain, start: Vector, other: Vector, length: int
) -> tuple[Logs, Logs]:
    """Log m(a)/m~(a) and log m~(a)/m(a) of the marginals, [record, state], or their suprema over a common start.

    Any start μ on both sides: m_i(a)/m~_i(a) = Σ_y μ(y)·P^(i-1)(y,a) / Σ_y μ(y)·P~^(i-1)(y,a) is a weighted mean of
    the ratios P^(i-1)(y,a)/P~^(i-1)(y,a), so it is at most the largest, reached at the μ that sits on that y alone. The
    paths compared with it may start at any state in the support of μ. Put mass η on the start z of the longest path and
    1-η on y: as η falls to 0 the path stays and the ratio tends to its largest. So the sum of the two maxima is the
    supremum itself, not only a bound.
    """
    fronts = [np.eye(alternative.size)] * 2 if alternative.any_start else [start[None], other[None]]
    walks = [_marginals(chain, front, length) for chain, front in zip((alternative, model), fronts, strict=True)]
    up, down = [], []
    for ours, theirs in zip(*walks, strict=True):
        with np.errstate(invalid="ignore"):
            ratio = ours - theirs
        ratio = np.where(np.isnan(ratio), -np.inf, ratio)  # 0/0: this start does not lead here
        up.append(_negated(ratio).max(axis=0))
        down.append(ratio.max(axis=0))
    return np.array(up), np.array(down)


def _marginals(chain: MarkovChain, front: Matrix, length: int) -> Iterator[Logs]:
    """The logarithm of the distribution of each record in turn, for each row of first distributions."""
    with np.errstate(divide="ignore"):
        rows, moves = np.log(front), np.log(chain.transition)
    stationary = np.array_equal(front[0], chain.stationary)
    for _ in range(length):
        yield rows
        if not stationary:  # a stationary distribution stays, without rounding
            rows = log_sum(rows[:, :, None] + moves, axis=1)


def _clash(
    alternative: MarkovChain, model: MarkovChain, ours: Vector, theirs: Vector, length: int
) -> Divergence | None:
    """The first secret of the alternative given which one of the two rules out what the other holds possible.

    Three sets of states are followed from record to record: those the alternative can be in, those the model can be in,
    and those the model can come to on a way that the alternative rules out. Without a clash the first lies in the
    second and off the third, and all ways through a secret of the alternative are common to both.
    """
    names, steps, steps_ = alternative.labels, alternative.transition > 0, model.transition > 0
    only, only_ = steps & ~steps_, steps_ & ~steps
    sets = np.stack([ours > 0, theirs > 0, (theirs > 0) & ~(ours > 0)])
    seen: set[bytes] = set()
    for record in range(1, length + 1):
        here, there, astray = sets
        for wrong, reason in (
            (here & ~there, "the alternative holds {x} possible as record {i}; the model rules it out"),
            (here & astray, "the model can come to {x} at record {i} in a way that the alternative rules out"),
        ):
            if wrong.any():
                x = int(np.argmax(wrong))
                return Divergence(np.inf, record, x, reason=reason.format(x=names[x], i=record))
        if record == length:
            return None
        for extra, allows, forbids in ((only, "alternative", "model"), (only_, "model", "alternative")):
            wrong_steps = extra & here[:, None]
            if wrong_steps.any():
                x, y = (int(n) for n in np.argwhere(wrong_steps)[0])
                reason = f"the {allows} lets {names[y]} follow {names[x]}; the {forbids} rules it out"
                return Divergence(np.inf, record, x, reason=reason)
        sets = np.stack([_next(here, steps), _next(there, steps_), _next(astray, steps_) | _next(there, only_)])
        if sets.tobytes() in seen:  # a whole cycle has been walked, nothing new comes
            return None
        seen.add(sets.tobytes())
    return None


def _next(states: Mask, steps: Mask) -> Mask:
    return np.asarray(steps[states].any(axis=0), dtype=np.bool_)
