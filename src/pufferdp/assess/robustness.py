"""What a guarantee is worth against an adversary who uses another model than the one it was made for.

Two bounds hold, and the smaller one is the guarantee against that adversary:

- For every mechanism that guarantees epsilon under the model: epsilon + 2Δ, where Δ is the distance of the other model
  from the class (Song et al. 2017, Theorem 2.4; see bounds/distributions/divergence.py). It grows with the series.
- For DP noise that was calibrated to guarantee epsilon under the model: what an algorithm with the DP epsilon of that
  noise leaks under the other model.

Both are about an adversary who knows no record, and about the value of each record, or secrets of your own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import ModelError, NotApplicableError, ParameterError
from pufferdp.basics.paged import Paged, json_values
from pufferdp.basics.progress import Progress, silent
from pufferdp.basics.words import number
from pufferdp.bounds.curve_forms import EVERY_ALGORITHM, Curve
from pufferdp.bounds.curves import curves, lowest
from pufferdp.bounds.distributions.base import inside
from pufferdp.bounds.distributions.divergence import (
    Divergence,
    chain_divergence,
    divergence_given,
    outcome_divergence,
    side_by_side,
)
from pufferdp.models.base import Model, RecordModel, records_of
from pufferdp.models.chain import MarkovChain, SeriesModel, series_of
from pufferdp.models.files.json import ModelLike, as_model
from pufferdp.models.hidden import is_hidden
from pufferdp.publish.answers.secrets import Secrets, SecretsLike, as_secrets

_MOST_WORK: Final = 2**32
"""Records times squared states: about two minutes."""


@dataclass(frozen=True, kw_only=True)
class Robustness(Paged):
    """The guarantee against an adversary who uses another model. Prints as sentences.

    >>> model, other = (MarkovChain(transition=[[p, 1 - p], [0.4, 0.6]]) for p in (0.9, 0.88))
    >>> left = robustness(model, other, epsilon=1, length=10)
    >>> round(left.delta, 4), round(left.epsilon, 4), round(left.leakage_under_other, 2), round(left.guarantee, 2)
    (0.9116, 2.8232, 0.94, 0.94)
    """

    guaranteed: float
    """The epsilon that is guaranteed under the model."""
    delta: float
    """The distance of the other model from the nearest model of the class; inf where one rules out what the other
    allows."""
    record: int | str | None
    """The record that decides the distance: its position in a series, or its name. None where the class contains the
    other model."""
    value: str | None
    """The state of that record that decides."""
    exact: bool
    """False: delta is an upper bound, and another model of the class may be nearer."""
    reason: str | None = None
    """Why delta is infinite, if it is."""
    secret: str | None = None
    """Of secrets of your own the one that decides."""
    dp_epsilon: float | None = None
    """The DP epsilon of the noise; None where no DP noise is known to give this guarantee."""
    leakage_under_other: float | None = None
    """What any algorithm with this DP epsilon leaks at most under the other model; None where no bound is known."""
    leakage_reason: str | None = None
    """Why ``leakage_under_other`` is None, if it is."""
    holds_for: str | None = None
    """The DP algorithms that ``leakage_under_other`` bounds; None: all of them."""

    @property
    def epsilon(self) -> float:
        """The bound for every mechanism with this guarantee: guaranteed + 2·delta."""
        return self.guaranteed + 2 * self.delta

    @property
    def guarantee(self) -> float:
        """The guarantee of DP noise with ``dp_epsilon`` against the other model: the smaller of the two bounds."""
        return self.epsilon if self.leakage_under_other is None else min(self.epsilon, self.leakage_under_other)

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp robustness --json`` prints; infinite numbers are null, and ``reason`` says why."""
        names = (
            "delta epsilon leakage_under_other leakage_reason dp_epsilon holds_for guarantee guaranteed record value "
            "secret exact reason"
        )
        return {**json_values(self, names), "adversary": str(Adversary.PUFFERFISH)}


def robustness(
    model: ModelLike,
    alternative: ModelLike,
    *,
    epsilon: float,
    length: int | None = None,
    secrets: SecretsLike | None = None,
    dp_epsilon: float | None = None,
) -> Robustness:
    """The guarantee that is left against an adversary who uses another model.

    Args:
        model: the model or class for which the guarantee was made.
        alternative: the model that the adversary uses; of a class the worst model counts.
        epsilon: the guarantee under ``model``.
        length: records in the series, for chains; other models know their records.
        secrets: secrets of your own, for models that know their records; by default every record's value.
        dp_epsilon: the DP epsilon of the noise, where it is known; by default the largest one that guarantees
            ``epsilon`` under ``model`` for every DP algorithm.
    """
    model, alternative = as_model(model), as_model(alternative, "alternative")
    guaranteed = checks.epsilon(epsilon)
    spent = None if dp_epsilon is None else checks.epsilon(dp_epsilon, "dp_epsilon")
    bound = _distance_bound(model, alternative, guaranteed, length, secrets)
    if secrets is not None:
        reason = "leakage bounds are about the value of a record, not about secrets of your own"
        return replace(bound, leakage_reason=reason)
    try:
        algorithms = EVERY_ALGORITHM
        if model.real_valued:  # what the lowest bound holds for
            algorithms = lowest(curves(model, length, Adversary.PUFFERFISH)).holds_for
        if spent is None:
            spent = _lowest_curve(model, length, algorithms).inverse(guaranteed)
        if not spent > 0:
            raise NotApplicableError(f"no DP noise is known to guarantee epsilon {number(guaranteed)} under the model")
        leaks = _lowest_curve(alternative, length, algorithms)(spent)
        narrower = None if algorithms == EVERY_ALGORITHM else algorithms
        return replace(bound, dp_epsilon=spent, leakage_under_other=leaks, holds_for=narrower)
    except NotApplicableError as error:
        return replace(bound, leakage_reason=str(error))


def _lowest_curve(model: Model, length: int | None, holds_for: str) -> Curve:
    """The lowest bound for some DP algorithms, or for all, on what an adversary learns who knows no record.

    Noise that was calibrated for an adversary who knows some records has a smaller DP epsilon, and leaks less.
    """
    bounds = curves(model, length, Adversary.PUFFERFISH)
    return lowest({name: curve for name, curve in bounds.items() if curve.holds_for in (EVERY_ALGORITHM, holds_for)})


def _distance_bound(
    model: Model, alternative: Model, guaranteed: float, length: int | None, secrets: SecretsLike | None
) -> Robustness:
    """The bound of Theorem 2.4, which holds for every mechanism with the guarantee."""
    series = series_of(model)
    if series is not None and secrets is not None:
        raise ParameterError("secrets of your own are compared over tables and networks, not over series")
    if length is not None and not model.takes_length:
        raise ParameterError(f"length is {length}, but the model knows its own records; leave it out", value=length)
    if (reason := _no_distance(model, alternative)) is not None:
        return Robustness(guaranteed=guaranteed, delta=math.inf, record=None, value=None, exact=False, reason=reason)
    if series is not None:
        divergence, names = closest(series, alternative, length).divergence, model.labels
        record: int | str = divergence.record
    else:
        ours, theirs = records_of(model), records_of(alternative)
        if theirs is None:
            raise ModelError(
                f"the alternative is {alternative!r}; it must be about single records, as the model is",
                value=alternative,
            )
        if ours is None:
            return _any_groups(model, theirs, guaranteed)
        own = as_secrets(secrets)
        if own is not None:
            return _own_secrets(ours, theirs, own, guaranteed)
        divergence = max((_table(ours, candidate) for candidate in theirs.alternatives), key=lambda d: d.value)
        record, names = ours.records[divergence.record - 1], ours.domains[divergence.record - 1]
    contained = divergence.value == 0
    return Robustness(
        guaranteed=guaranteed,
        delta=divergence.value,
        record=None if contained else record,
        value=None if contained else names[divergence.state],
        exact=divergence.exact,
        reason=divergence.reason,
    )


def _no_distance(model: Model, alternative: Model) -> str | None:
    """Why no distance is computed between two models of the same records; None where it is. Rejects other records."""
    if model.real_valued or alternative.real_valued:
        if not (model.real_valued and alternative.real_valued):
            numbers, states = (model, alternative) if model.real_valued else (alternative, model)
            raise ModelError(
                f"{numbers!r} is about numbers and {states!r} about states; compare models of the same records",
                value=alternative,
            )
        if model.takes_length != alternative.takes_length:
            raise ModelError(
                f"{alternative!r} and {model!r} are not about the same records; compare two series, or two lists",
                value=alternative,
            )
        return "distances are computed between models of states, and these are models of numbers"
    ours, theirs = series_of(model), series_of(alternative)
    if ours is None or theirs is None:
        return None
    _check_states(ours.labels, theirs.labels)
    size = len(ours.labels)
    uniform = MarkovChain(transition=np.full((size, size), 1 / size), states=ours.labels)
    is_box = ours.nearest(uniform) is not None
    compared = {"the model": bool(ours.chains) or is_box, "the alternative": bool(theirs.chains)}
    for (name, possible), series in zip(compared.items(), (ours, theirs), strict=True):
        if is_hidden(series) or not possible:
            return f"distances are computed between chains, and {name} is {series!r}"
    return None


@dataclass(frozen=True)
class Closest:
    """An alternative and the nearest chain of the class, over the same states in the same order."""

    divergence: Divergence
    chain: MarkovChain
    alternative: MarkovChain
    length: int


def closest(model: SeriesModel, alternative: Model, length: int | None) -> Closest:
    """The distance of an alternative from a class of chains; of several alternatives the one that is farthest."""
    other = series_of(alternative)
    if other is None:
        raise ModelError(
            f"the alternative is {alternative!r}; it must be about a series, as the model is", value=alternative
        )
    if is_hidden(model):
        raise ModelError(
            f"the model is {model!r}; alternatives are compared with chains, record by record", value=model
        )
    if not other.chains:
        raise ModelError(
            f"the alternative is {alternative!r}; it must be one chain, or a list of chains", value=alternative
        )
    if length is None:
        raise ParameterError("length is missing; a chain needs the number of records in the series")
    length = checks.length(length)
    most = _MOST_WORK // model.size**2
    if length > most:
        raise ParameterError(f"length is {length}; with {model.size} states it can be at most {most:,}", value=length)
    alternatives = [_in_order(chain, model.labels) for chain in other.chains]
    return max((_nearest(model, chain, length) for chain in alternatives), key=lambda c: c.divergence.value)


def _nearest(model: SeriesModel, alternative: MarkovChain, length: int) -> Closest:
    chain = model.nearest(alternative)
    tried = [
        Closest(
            chain_divergence(alternative, candidate, length),
            replace(candidate, start=alternative.start) if chain is not None or candidate.any_start else candidate,
            alternative,
            length,
        )
        for candidate in (model.chains if chain is None else (chain,))
    ]
    if not tried:
        raise NotApplicableError(f"the model is {model!r}; models are compared with chains that can be listed")
    best = min(tried, key=lambda c: c.divergence.value)
    # In a box, clipped rows are near ones and not the nearest series. In a list, a chain whose own distance is only
    # bounded may be nearer than the best. Only 0 is exact in both, and infinity in a box.
    if chain is not None:
        exact = best.divergence.value in (0.0, math.inf)
    else:
        exact = best.divergence.value == 0 or all(c.divergence.exact for c in tried)
    return replace(best, divergence=replace(best.divergence, exact=exact))


def _in_order(chain: MarkovChain, labels: tuple[str, ...]) -> MarkovChain:
    """A chain with its states in the order of the labels; refused where it has other states."""
    if chain.labels == labels:
        return chain
    _check_states(labels, chain.labels)
    order = [chain.labels.index(label) for label in labels]
    start = chain.start if chain.given_start is None else chain.given_start[order]
    return MarkovChain(transition=chain.transition[np.ix_(order, order)], start=start, states=labels)


def _check_states(ours: tuple[str, ...], theirs: tuple[str, ...]) -> None:
    """Reject an alternative with other states."""
    if set(ours) != set(theirs):
        named = (", ".join(labels[:10]) for labels in (theirs, ours))
        raise ModelError("the alternative has the states {}; the model has {}, and they must agree".format(*named))


def _table(model: RecordModel, alternative: RecordModel) -> Divergence:
    """The distance of an alternative over a list of records from the nearest member of a class."""
    return min(
        (outcome_divergence(*distributions) for distributions in side_by_side(model, alternative)),
        key=lambda d: d.value,
    )


def _own_secrets(model: RecordModel, alternative: RecordModel, secrets: Secrets, guaranteed: float) -> Robustness:
    """The distance of an alternative from the nearest member of a class, given each of the secrets that were named."""
    worst, decides = 0.0, None
    cells = {secret.name: secret.cells(model) for secret in secrets.secrets}
    for candidate in alternative.alternatives:
        nearest: tuple[float, str | None] = (math.inf, None)
        for outcomes, ours, theirs in side_by_side(model, candidate):
            given = [(divergence_given(ours, theirs, inside(outcomes, cells[name])), name) for name in cells]
            nearest = min(nearest, max(given, key=lambda g: g[0]), key=lambda g: g[0])
        if nearest[0] >= worst:
            worst, decides = nearest
    return Robustness(
        guaranteed=guaranteed,
        delta=worst,
        record=None,
        value=None,
        exact=True,
        reason="one of the two holds an outcome possible that the other rules out" if math.isinf(worst) else None,
        secret=decides if worst > 0 else None,
    )


def _any_groups(model: Model, alternative: RecordModel, guaranteed: float) -> Robustness:
    """A class that limits only the size of groups: the alternative is in it, or its distance is not known."""
    unknown = [label for label in alternative.labels if label not in model.labels]
    if unknown:
        known = ", ".join(model.labels[:10])
        raise ModelError(f"the alternative has a state {unknown[0]!r}; the model has only {known}", value=unknown[0])
    widest = max(len(together) for candidate in alternative.alternatives for together in candidate.components)
    if model.arbitrary is None or widest > model.arbitrary:
        raise NotApplicableError(
            f"the alternative lets {widest} records depend on each other and the model at most {model.arbitrary or 1}; "
            "how far it lies from such a class is not known"
        )
    return Robustness(guaranteed=guaranteed, delta=0.0, record=None, value=None, exact=True)


_POINTS: Final = 12
"""Points of the figure on either side of the model."""


@dataclass(frozen=True)
class DriftPoint:
    """The bound against a model in which one transition probability has drifted."""

    probability: float
    delta: float
    epsilon: float
    """The bound there: guaranteed + 2·delta."""

    def to_dict(self) -> dict[str, float | None]:
        """Infinite numbers are null."""
        return json_values(self, "probability delta epsilon")


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Models on a line through the model: one transition probability moves, the rest of its row is rescaled."""

    guaranteed: float
    length: int
    state_from: str
    state_to: str
    probability: float
    """Where the model has the probability."""
    points: tuple[DriftPoint, ...]
    alternative: DriftPoint | None
    """The other model, if it lies on the line."""

    def to_dict(self) -> dict[str, Any]:
        """The key ``drift`` of ``pufferdp robustness --json``."""
        values = json_values(self, "guaranteed length probability points alternative")
        return {"from": self.state_from, "to": self.state_to, **values}


def drift_towards(
    model: SeriesModel,
    alternative: Model,
    *,
    epsilon: float,
    length: int | None,
    entry: str | None = None,
    progress: Progress = silent,
) -> Drift:
    """The bounds along a line through the chain of the class nearest to another model, to both sides of it.

    Args:
        model: the model or class for which the guarantee was made.
        alternative: the model that the adversary uses.
        epsilon: the guarantee under ``model``.
        length: records in the series.
        entry: the probability that drifts, ``FROM:TO``; without it the one in which the two models differ most.
        progress: called with a few words before the long part.
    """
    guaranteed = checks.epsilon(epsilon)
    near = closest(model, alternative, length)
    labels = near.chain.labels
    x, y = _widest(near) if entry is None else _drifting_entry(entry, near.chain)
    here, there = (float(c.transition[x, y]) for c in (near.chain, near.alternative))
    progress("following the drift")
    reach = max(1.5 * abs(there - here), min(here, 1 - here) / 4)
    ends = max(here - reach, here / 10), min(here + reach, 1 - (1 - here) / 10)

    def bound(probability: float, drifted: Closest) -> DriftPoint:
        delta = drifted.divergence.value
        return DriftPoint(probability, delta, guaranteed + 2 * delta)

    places = np.concatenate([np.linspace(ends[0], here, _POINTS), np.linspace(here, ends[1], _POINTS)[1:]]).tolist()
    on_line = 0 < there < 1 and _chains_agree(_with_entry(near.chain, x, y, there), near.alternative)
    return Drift(
        guaranteed=guaranteed,
        length=near.length,
        state_from=labels[x],
        state_to=labels[y],
        probability=here,
        points=tuple(bound(p, closest(model, _with_entry(near.chain, x, y, p), near.length)) for p in places),
        alternative=bound(there, near) if on_line else None,
    )


def _with_entry(chain: MarkovChain, x: int, y: int, p: float) -> MarkovChain:
    """The chain with probability p from x to y, the rest of the row rescaled."""
    table = np.array(chain.transition)
    if p != table[x, y]:
        table[x] *= (1 - p) / (1 - table[x, y])
        table[x, y] = p
    return replace(chain, transition=table, fitted=None)


def _drifting_entry(entry: str, chain: MarkovChain) -> tuple[int, int]:
    """Row and column of a probability FROM:TO that can drift; the names of states may hold colons themselves."""
    labels = chain.labels
    pairs = [(entry[:n], entry[n + 1 :]) for n, letter in enumerate(entry) if letter == ":"]
    known = [pair for pair in pairs if set(pair) <= set(labels)]
    if len(known) != 1:
        some = ", ".join(labels[:10])
        raise ParameterError(f"drift is {entry!r}; it must be FROM:TO with two of the states {some}", value=entry)
    x, y = (labels.index(state) for state in known[0])
    here = float(chain.transition[x, y])
    if not 0 < here < 1:
        raise ParameterError(
            f"drift is {entry!r}, and the model gives it probability {here:g}; choose one that is neither 0 nor 1",
            value=entry,
        )
    return x, y


def _widest(near: Closest) -> tuple[int, int]:
    """The probability in which the two models differ most, among those that can drift."""
    here = near.chain.transition
    gap = np.where((here > 0) & (here < 1), abs(here - near.alternative.transition), -1.0)
    if gap.max() < 0:
        raise ParameterError("every step of the model is certain; there is no probability that could drift")
    x, y = divmod(int(np.argmax(gap)), len(here))
    return x, y


def _chains_agree(chain: MarkovChain, other: MarkovChain) -> bool:
    """Whether two chains agree up to rounding, the start included."""
    same = partial(np.allclose, rtol=1e-9, atol=1e-9)
    if not same(chain.transition, other.transition):
        return False
    if chain.given_start is None or other.given_start is None:
        return chain.given_start is other.given_start and chain.any_start == other.any_start
    return bool(same(chain.given_start, other.given_start))
