"""What is left of a promise against somebody who believes something else (Song et al. 2017, Theorem 2.4).

A promise epsilon is made to those who believe a model of the class. Somebody with another belief gets epsilon + 2Δ,
where Δ is the distance of that belief from the class (see leakage/divergence.py). The theorem is about an adversary who
knows no record and about the secrets of the promise: "record i has value a", or secrets of your own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import ModelError, NotApplicableError, ParameterError
from pufferdp.basics.paged import Paged
from pufferdp.leakage.laws.base import inside
from pufferdp.leakage.laws.divergence import (
    Divergence,
    chain_divergence,
    divergence_given,
    outcome_divergence,
    side_by_side,
)
from pufferdp.models.base import Model, RecordModel, records_of
from pufferdp.models.chain import MarkovChain, SeriesModel, series_of
from pufferdp.models.files.json import ModelLike, as_model
from pufferdp.models.hidden import hidden_of
from pufferdp.publish.answers.secrets import Secrets, SecretsLike, as_secrets

_MOST_WORK: Final = 2**32
"""Records times squared states: about two minutes."""


@dataclass(frozen=True, kw_only=True)
class Robustness(Paged):
    """What is left of a promise against one belief. Prints as sentences.

    >>> model, belief = (MarkovChain(transition=[[p, 1 - p], [0.4, 0.6]]) for p in (0.9, 0.88))
    >>> left = robustness(model, belief, epsilon=1, length=10)
    >>> round(left.delta, 4), round(left.epsilon, 4)
    (0.9116, 2.8232)
    """

    promised: float
    """The epsilon promised to those who believe the model."""
    delta: float
    """How far the belief lies from the nearest model of the class; inf where one rules out what the other allows."""
    record: int | str | None
    """The record that decides: its position in a series, or its name. None where the belief is in the class."""
    value: str | None
    """The state of that record that decides."""
    exact: bool
    """False: delta is an upper bound, and the nearest model of the class may be nearer."""
    reason: str | None = None
    """Why delta is infinite, if it is."""
    secret: str | None = None
    """Of secrets of your own the one that decides."""

    @property
    def epsilon(self) -> float:
        """The promise that is left: promised + 2·delta."""
        return self.promised + 2 * self.delta

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp robustness --json`` prints; infinite numbers are null, and ``reason`` says why."""
        finite = math.isfinite(self.delta)
        return {
            "delta": self.delta if finite else None,
            "epsilon": self.epsilon if finite else None,
            "promised": self.promised,
            "record": self.record,
            "value": self.value,
            "secret": self.secret,
            "exact": self.exact,
            "reason": self.reason,
            "adversary": str(Adversary.PUFFERFISH),
        }


def robustness(
    model: ModelLike,
    belief: ModelLike,
    *,
    epsilon: float,
    length: int | None = None,
    secrets: SecretsLike | None = None,
) -> Robustness:
    """What is left of a promise to ``model`` against ``belief``.

    Args:
        model: the model or class the promise is made for.
        belief: what somebody else believes; of a list of beliefs the worst counts.
        epsilon: the promise.
        length: records in the series, for chains; other models know their records.
        secrets: secrets of your own, for models that know their records; by default every record's value.
    """
    model, belief = as_model(model), as_model(belief, "belief")
    promised = checks.epsilon(epsilon)
    series = series_of(model)
    if series is not None:
        if secrets is not None:
            raise ParameterError("secrets of your own are compared over tables and networks, not over series")
        divergence, names = closest(series, belief, length).divergence, model.labels
        record: int | str = divergence.record
    else:
        if model.real_valued:
            raise ModelError(f"the model is {model!r}; beliefs are compared over records with states", value=model)
        if length is not None:
            raise ParameterError(f"length is {length}, but the model knows its own records; leave it out", value=length)
        ours, theirs = records_of(model), records_of(belief)
        if theirs is None:
            raise ModelError(
                f"the belief is {belief!r}; it must be about single records, as the model is", value=belief
            )
        if ours is None:
            return _any_groups(model, theirs, promised)
        own = as_secrets(secrets)
        if own is not None:
            return _own_secrets(ours, theirs, own, promised)
        divergence = max((_table(ours, candidate) for candidate in theirs.beliefs), key=lambda d: d.value)
        record, names = ours.records[divergence.record - 1], ours.domains[divergence.record - 1]
    nothing = divergence.value == 0
    return Robustness(
        promised=promised,
        delta=divergence.value,
        record=None if nothing else record,
        value=None if nothing else names[divergence.state],
        exact=divergence.exact,
        reason=divergence.reason,
    )


@dataclass(frozen=True)
class Closest:
    """A belief and the chain of the class that was found nearest to it, over the same states in the same order."""

    divergence: Divergence
    chain: MarkovChain
    belief: MarkovChain
    length: int


def closest(model: SeriesModel, belief: Model, length: int | None) -> Closest:
    """The distance of a belief from a class of chains; of several beliefs the one that is farthest."""
    other = series_of(belief)
    if other is None:
        raise ModelError(f"the belief is {belief!r}; it must be about a series, as the model is", value=belief)
    if hidden_of(model) is not None:
        raise ModelError(f"the model is {model!r}; beliefs are compared with chains, record by record", value=model)
    if not other.chains:
        raise ModelError(f"the belief is {belief!r}; it must be one chain, or a list of chains", value=belief)
    if length is None:
        raise ParameterError("length is missing; a chain needs the number of records in the series")
    length = checks.length(length)
    most = _MOST_WORK // model.size**2
    if length > most:
        raise ParameterError(f"length is {length}; with {model.size} states it can be at most {most:,}", value=length)
    beliefs = [_in_order(chain, model.labels) for chain in other.chains]
    return max((_nearest(model, chain, length) for chain in beliefs), key=lambda c: c.divergence.value)


def _nearest(model: SeriesModel, belief: MarkovChain, length: int) -> Closest:
    chain = model.nearest(belief)
    if chain is not None:
        divergence = chain_divergence(belief, chain, length)
        # Clipped rows are near ones, not the nearest series: nothing between 0 and infinity is more than a bound.
        return Closest(
            replace(divergence, exact=divergence.value in (0.0, math.inf)),
            replace(chain, start=belief.start),
            belief,
            length,
        )
    tried = [
        Closest(
            chain_divergence(belief, chain, length),
            replace(chain, start=belief.start) if chain.any_start else chain,
            belief,
            length,
        )
        for chain in model.chains
    ]
    if not tried:
        raise NotApplicableError(f"the model is {model!r}; beliefs are compared with chains that can be listed")
    best = min(tried, key=lambda c: c.divergence.value)
    # An upper bound somewhere in the list: the chain it belongs to may be nearer than the one that was found.
    exact = best.divergence.value == 0 or all(c.divergence.exact for c in tried)
    return replace(best, divergence=replace(best.divergence, exact=exact))


def _in_order(chain: MarkovChain, labels: tuple[str, ...]) -> MarkovChain:
    """A chain with its states in the order of the labels; refused where it has other states."""
    if chain.labels == labels:
        return chain
    if set(chain.labels) != set(labels):
        ours, theirs = ", ".join(labels[:10]), ", ".join(chain.labels[:10])
        raise ModelError(f"the belief has the states {theirs}; the model has {ours}, and they must agree")
    order = [chain.labels.index(label) for label in labels]
    start = chain.start if chain.given_start is None else chain.given_start[order]
    return MarkovChain(transition=chain.transition[np.ix_(order, order)], start=start, states=labels)


def _table(model: RecordModel, belief: RecordModel) -> Divergence:
    """The distance of a belief over a list of records from the nearest member of a class."""
    return min((outcome_divergence(*laws) for laws in side_by_side(model, belief)), key=lambda d: d.value)


def _own_secrets(model: RecordModel, belief: RecordModel, secrets: Secrets, promised: float) -> Robustness:
    """The distance of a belief from the nearest member of a class, given each of the secrets that were named."""
    worst, decides = 0.0, None
    cells = {secret.name: secret.cells(model) for secret in secrets.secrets}
    for candidate in belief.beliefs:
        nearest: tuple[float, str | None] = (math.inf, None)
        for outcomes, ours, theirs in side_by_side(model, candidate):
            given = [(divergence_given(ours, theirs, inside(outcomes, cells[name])), name) for name in cells]
            nearest = min(nearest, max(given, key=lambda g: g[0]), key=lambda g: g[0])
        if nearest[0] >= worst:
            worst, decides = nearest
    return Robustness(
        promised=promised,
        delta=worst,
        record=None,
        value=None,
        exact=True,
        reason="one of the two holds an outcome possible that the other rules out" if math.isinf(worst) else None,
        secret=decides if worst > 0 else None,
    )


def _any_groups(model: Model, belief: RecordModel, promised: float) -> Robustness:
    """A class that says only how many records may be correlated: a belief is in it, or its distance is not known."""
    unknown = [label for label in belief.labels if label not in model.labels]
    if unknown:
        known = ", ".join(model.labels[:10])
        raise ModelError(f"the belief has a state {unknown[0]!r}; the model has only {known}", value=unknown[0])
    widest = max(len(together) for candidate in belief.beliefs for together in candidate.components)
    if model.arbitrary is None or widest > model.arbitrary:
        raise NotApplicableError(
            f"the belief lets {widest} records depend on each other and the model at most {model.arbitrary or 1}; "
            "how far it lies from such a class is not known"
        )
    return Robustness(promised=promised, delta=0.0, record=None, value=None, exact=True)


_POINTS: Final = 12
_NEAR: Final = 1e-9


@dataclass(frozen=True)
class DriftPoint:
    """How far a belief is from the class when one transition probability has drifted so far."""

    probability: float
    """Where the transition probability has got to."""
    delta: float
    epsilon: float
    """What is left there: promised + 2·delta."""

    def to_dict(self) -> dict[str, float | None]:
        """Infinite numbers are null."""
        finite = math.isfinite(self.delta)
        return {
            "probability": self.probability,
            "delta": self.delta if finite else None,
            "epsilon": self.epsilon if finite else None,
        }


@dataclass(frozen=True, kw_only=True)
class Drift:
    """A line of beliefs through a model: one transition probability moves, the rest of its row is rescaled."""

    promised: float
    length: int
    state_from: str
    state_to: str
    probability: float
    """Where the model has the probability."""
    points: tuple[DriftPoint, ...]
    belief: DriftPoint | None
    """The belief, if it lies on the line."""

    def to_dict(self) -> dict[str, Any]:
        """The key ``drift`` of ``pufferdp robustness --json``."""
        return {
            "from": self.state_from,
            "to": self.state_to,
            "promised": self.promised,
            "length": self.length,
            "probability": self.probability,
            "points": [p.to_dict() for p in self.points],
            "belief": self.belief.to_dict() if self.belief else None,
        }


def drift(
    model: SeriesModel,
    *,
    epsilon: float,
    length: int,
    state_from: str,
    state_to: str,
    upto: float,
    base: MarkovChain | None = None,
    points: int = _POINTS,
) -> list[DriftPoint]:
    """What is left while one transition probability drifts from where the model has it to ``upto``.

    Args:
        model: the model or class the promise is made for.
        epsilon: the promise.
        length: records in the series.
        state_from: the row of the probability that drifts.
        state_to: its column; the rest of the row is rescaled.
        upto: where the probability ends.
        base: the chain that drifts; without it the model's own, the first of a list or the middle of an interval.
        points: how many places on the way, both ends included.
    """
    promised = checks.epsilon(epsilon)
    if not 0 <= upto <= 1:
        raise ParameterError(f"upto is {upto:g}; a probability lies between 0 and 1", value=upto)
    chain = model.middle if base is None else base
    x, y = _entry(chain, state_from, state_to)
    return _drift_points(model, chain, (x, y), upto, promised, length, checks.length(points, "points", least=2))


def drift_towards(
    model: SeriesModel,
    belief: Model,
    *,
    epsilon: float,
    length: int | None,
    entry: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Drift:
    """The line through the chain of the class nearest to a belief, far enough to both sides to reach the belief.

    Args:
        model: the model or class the promise is made for.
        belief: what somebody else believes.
        epsilon: the promise.
        length: records in the series.
        entry: the probability that drifts, ``FROM:TO``; without it the one in which model and belief differ most.
        progress: called with a few words before the long part.
    """
    promised = checks.epsilon(epsilon)
    near = closest(model, belief, length)
    x, y = _widest(near) if entry is None else _entry(near.chain, *_names(entry, near.chain.labels))
    here, there = (float(c.transition[x, y]) for c in (near.chain, near.belief))
    labels = near.chain.labels
    if not 0 < here < 1:
        raise ParameterError(
            f"the model gives {labels[x]}:{labels[y]} probability {here:g}; however little it drifts, nothing is left",
            value=entry,
        )
    if progress is not None:
        progress("following the drift")
    reach = max(1.5 * abs(there - here), min(here, 1 - here) / 4)
    ends = max(here - reach, here / 10), min(here + reach, 1 - (1 - here) / 10)
    down, up = (_drift_points(model, near.chain, (x, y), end, promised, near.length) for end in ends)
    on_line = 0 < there < 1 and _chains_agree(_with_entry(near.chain, x, y, there), near.belief)
    delta = near.divergence.value
    return Drift(
        promised=promised,
        length=near.length,
        state_from=labels[x],
        state_to=labels[y],
        probability=here,
        points=tuple(down[:0:-1] + up),
        belief=DriftPoint(there, delta, promised + 2 * delta) if on_line else None,
    )


def _drift_points(
    model: SeriesModel,
    chain: MarkovChain,
    entry: tuple[int, int],
    upto: float,
    promised: float,
    length: int,
    points: int = _POINTS,
) -> list[DriftPoint]:
    out = []
    for p in np.linspace(float(chain.transition[entry]), upto, points).tolist():
        delta = closest(model, _with_entry(chain, *entry, p), length).divergence.value
        out.append(DriftPoint(p, delta, promised + 2 * delta))
    return out


def _with_entry(chain: MarkovChain, x: int, y: int, p: float) -> MarkovChain:
    """The chain with probability p from x to y, the rest of the row rescaled."""
    table = np.array(chain.transition)
    if p != table[x, y]:
        table[x] *= (1 - p) / (1 - table[x, y])
        table[x, y] = p
    return replace(chain, transition=table, fitted=None)


def _entry(chain: MarkovChain, state_from: str, state_to: str) -> tuple[int, int]:
    """Row and column of a probability that can drift."""
    for state in (state_from, state_to):
        if state not in chain.labels:
            known = ", ".join(chain.labels[:10])
            raise ModelError(f"there is no state {state!r} to drift; the model has {known}", value=state)
    x, y = chain.labels.index(state_from), chain.labels.index(state_to)
    if chain.transition[x, y] == 1:
        raise ParameterError(
            f"{state_from} is always followed by {state_to}; the rest of its row is empty and cannot be rescaled",
            value=(state_from, state_to),
        )
    return x, y


def _names(entry: str, labels: tuple[str, ...]) -> tuple[str, str]:
    """FROM:TO, where the names of states may hold colons themselves."""
    cuts = [n for n, letter in enumerate(entry) if letter == ":"]
    pairs = [(entry[:n], entry[n + 1 :]) for n in cuts]
    known = [pair for pair in pairs if set(pair) <= set(labels)]
    if len(known) != 1:
        some = ", ".join(labels[:10])
        raise ParameterError(f"drift is {entry!r}; it must be FROM:TO with two of the states {some}", value=entry)
    return known[0]


def _widest(near: Closest) -> tuple[int, int]:
    """The probability in which model and belief differ most, among those that can drift."""
    here = near.chain.transition
    gap = np.where((here > 0) & (here < 1), abs(here - near.belief.transition), -1.0)
    if gap.max() < 0:
        raise ParameterError("every step of the model is certain; there is no probability that could drift")
    x, y = divmod(int(np.argmax(gap)), len(here))
    return x, y


def _chains_agree(chain: MarkovChain, other: MarkovChain) -> bool:
    """Whether two chains agree up to rounding, the start included."""
    if not np.allclose(chain.transition, other.transition, rtol=_NEAR, atol=_NEAR):
        return False
    if chain.given_start is None or other.given_start is None:
        return chain.given_start is other.given_start and chain.any_start == other.any_start
    return bool(np.allclose(chain.given_start, other.given_start, rtol=_NEAR, atol=_NEAR))
