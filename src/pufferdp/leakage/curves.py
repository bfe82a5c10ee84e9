"""Leakage curves: from the DP loss of any algorithm to a bound on what it leaks about one record of correlated data.

A curve takes tau and bounds the leakage of every tau-DP algorithm, for one class of models, one length and one
adversary; curves for real-valued records hold for fewer algorithms and say for which. DP is pure here, and neighbours
differ in the value of one record. DP losses add up, leakages do not: add the losses first, then read the curve once.
Its inverse says how much DP loss may be spent.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.checks import LARGEST
from pufferdp.errors import NotApplicableError, ParameterError
from pufferdp.leakage.search import Floats, Objective, Score

EVERY_ALGORITHM: Final = "every pure DP algorithm"

Worst = Callable[[Objective], float]
"""Max over models and records of the min over quilts of an objective."""


@dataclass(frozen=True)
class Spent:
    """What a quilt lets through when ``tau`` of DP is spent: nearby·tau by group privacy, and the influence."""

    tau: float

    def __call__(self, nearby: npt.ArrayLike, influence: npt.ArrayLike) -> Floats:
        """The leakage that each quilt allows."""
        return np.asarray(np.asarray(nearby, dtype=float) * self.tau + np.asarray(influence, dtype=float))

    def one(self, nearby: float, influence: float) -> float:
        """The same for one quilt."""
        return nearby * self.tau + influence

    def most_nearby(self, value: float) -> float:
        """Without influence the leakage is nearby·tau."""
        return value / self.tau

    def price(self, value: float) -> float:
        """Every record inside costs tau, whatever the value."""
        return self.tau


@dataclass(frozen=True, eq=False)
class Curve(ABC):
    """An upper bound on the leakage of any tau-DP algorithm, as a function of tau; it never falls."""

    name: str
    theorem: str
    """Where the bound comes from."""
    holds_for: str = field(default=EVERY_ALGORITHM, kw_only=True)
    """The algorithms that it bounds, in words."""
    note: str = field(default="", kw_only=True)
    """What else must be said of it."""

    @property
    def applies(self) -> bool:
        """Whether there is such a bound for the model and the adversary."""
        return True

    def __call__(self, tau: float) -> float:
        """The most that an algorithm with this DP loss leaks. One that spends nothing leaks nothing."""
        tau = _loss(tau, "dp_epsilon")
        return self._value(tau) if tau > 0 else 0.0

    def inverse(self, epsilon: float) -> float:
        """The largest DP loss whose value is at most ``epsilon``, rounded down; 0 where there is none."""
        epsilon = _loss(epsilon, "target")
        tau, step = self._most(epsilon), 2.0**-53
        while tau > 0 and self(tau) > epsilon:  # what is returned has been checked
            tau, step = tau * (1 - step), min(1.0, 4 * step)
        return max(tau, 0.0)

    def noise_factor(self, epsilon: float) -> float:
        """How many times as wide as for independent records the noise must be to leak at most ``epsilon``."""
        loss = self.inverse(epsilon)
        return epsilon / loss if loss > 0 else math.inf

    @abstractmethod
    def _value(self, tau: float) -> float:
        """The curve above 0."""

    @abstractmethod
    def _most(self, epsilon: float) -> float:
        """The inverse, up to rounding."""


@dataclass(frozen=True, eq=False)
class Line(Curve):
    """factor·tau + extra."""

    factor: float
    extra: float = 0.0

    def _value(self, tau: float) -> float:
        return self.factor * tau + self.extra

    def _most(self, epsilon: float) -> float:
        return (epsilon - self.extra) / self.factor


@dataclass(frozen=True, eq=False)
class QuiltCurve(Curve):
    """The worst record's best quilt: records inside cost tau each, the ends their influence."""

    worst: Worst

    def _value(self, tau: float) -> float:
        return self.worst(Spent(tau))

    def _most(self, epsilon: float) -> float:
        # nearby·tau + influence ≤ epsilon is tau ≤ (epsilon − influence)/nearby: the score turned round, one search.
        score = self.worst(Score(epsilon)) if epsilon > 0 else math.inf
        return 1 / score


@dataclass(frozen=True, eq=False)
class Lowest(Curve):
    """The pointwise minimum of several curves: each is a bound, so the least of them is one."""

    parts: tuple[Curve, ...]

    def which(self, tau: float) -> Curve:
        """The curve that is lowest at tau."""
        return min(self.parts, key=lambda curve: curve(tau))

    def _value(self, tau: float) -> float:
        return min(curve(tau) for curve in self.parts)

    def _most(self, epsilon: float) -> float:
        return max(curve.inverse(epsilon) for curve in self.parts)


@dataclass(frozen=True, eq=False)
class Absent(Curve):
    """A curve that does not apply: it knows the reason, and refuses to be read."""

    reason: str
    foreign: bool = False
    """Whether it is about another kind of model."""

    @property
    def applies(self) -> bool:
        """It does not."""
        return False

    def _value(self, tau: float) -> float:
        raise NotApplicableError(f"the {self.name} curve does not apply: {self.reason}")

    def _most(self, epsilon: float) -> float:
        return self._value(epsilon)


def _loss(value: float, name: str) -> float:
    if not 0 <= value <= LARGEST:
        raise ParameterError(f"{name} is {value:g}; it must be a number from 0 to {LARGEST:g}", value=value)
    return float(value)
