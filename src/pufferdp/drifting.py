"""How fast a promise wears out while one transition probability of the world drifts away from the model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from pufferdp import checks
from pufferdp.beliefs import Closest, closest
from pufferdp.errors import ModelError, ParameterError
from pufferdp.models.classes import BinaryInterval, MarkovInterval, Model, SeriesModel
from pufferdp.models.markov import MarkovChain

_POINTS: Final = 12
_NEAR: Final = 1e-9


@dataclass(frozen=True)
class DriftPoint:
    """One place on the way."""

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
    chain = _middle(model) if base is None else base
    x, y = _entry(chain, state_from, state_to)
    return _way(model, chain, (x, y), upto, promised, length, checks.length(points, "points", least=2))


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
    down, up = (_way(model, near.chain, (x, y), end, promised, near.length) for end in ends)
    on_line = 0 < there < 1 and _same(_moved(near.chain, x, y, there), near.belief)
    found = near.divergence.value
    return Drift(
        promised=promised,
        length=near.length,
        state_from=labels[x],
        state_to=labels[y],
        probability=here,
        points=tuple(down[:0:-1] + up),
        belief=DriftPoint(there, found, promised + 2 * found) if on_line else None,
    )


def _way(
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
        delta = closest(model, _moved(chain, *entry, p), length).divergence.value
        out.append(DriftPoint(p, delta, promised + 2 * delta))
    return out


def _moved(chain: MarkovChain, x: int, y: int, p: float) -> MarkovChain:
    """The chain with probability p from x to y, the rest of the row rescaled."""
    table = np.array(chain.transition)
    if p != table[x, y]:
        table[x] *= (1 - p) / (1 - table[x, y])
        table[x, y] = p
    return replace(chain, transition=table, fitted=None)


def _middle(model: SeriesModel) -> MarkovChain:
    if isinstance(model, BinaryInterval):
        stay = (model.low + model.high) / 2
        return MarkovChain(transition=np.array([[stay, 1 - stay], [1 - stay, stay]]), states=model.states)
    if isinstance(model, MarkovInterval):
        # On the way from low to high every row passes 1 once, and stays inside the box.
        low, room = model.low, model.high - model.low
        share = (1 - low.sum(axis=1, keepdims=True)) / np.maximum(room.sum(axis=1, keepdims=True), 1e-300)
        return MarkovChain(transition=low + share * room, states=model.states)
    return model.chains[0]


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


def _same(one: MarkovChain, other: MarkovChain) -> bool:
    """Whether two chains agree up to rounding, the start included."""
    if not np.allclose(one.transition, other.transition, rtol=_NEAR, atol=_NEAR):
        return False
    if one.given_start is None or other.given_start is None:
        return one.given_start is other.given_start and one.any_start == other.any_start
    return bool(np.allclose(one.given_start, other.given_start, rtol=_NEAR, atol=_NEAR))
