"""The forms of a leakage curve: straight, by quilts, tight, from odds, for blocks; the lowest of several, and none.

A curve takes tau and bounds the leakage of every tau-DP algorithm; its inverse says how much DP loss may be spent.
Which curves there are for a model is in ``bounds/curves.py``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats
from pufferdp.basics.checks import LARGEST
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.inverse import LeakageBound
from pufferdp.bounds.quilts.search import Objective, Score
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.attack import TightLeakage
from pufferdp.bounds.tight.chain import TightCurve

EVERY_ALGORITHM: Final = "every pure DP algorithm"
_TINY: Final = 1e-6
"""A DP loss at which the closed form has its slope at 0."""
SMALL_LOSS: Final = 0.01
"""A small DP loss, at which slopes are read."""

Worst = Callable[[Objective], float]
"""Max over models and records of the min over quilts of an objective."""


class OtherKindError(NotApplicableError):
    """A bound for another kind of model."""


@dataclass(frozen=True)
class Spent:
    """What a quilt lets through when ``tau`` of DP is spent: nearby·tau by group privacy, and the influence."""

    dp_loss: float

    def __call__(self, nearby: npt.ArrayLike, influence: npt.ArrayLike) -> Floats:
        """The leakage that each quilt allows."""
        return np.asarray(np.asarray(nearby, dtype=float) * self.dp_loss + np.asarray(influence, dtype=float))


@dataclass(frozen=True, eq=False)
class Curve(LeakageBound):
    """An upper bound on the leakage of any tau-DP algorithm, by name."""

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

    def __call__(self, dp_loss: float) -> float:
        """The most that an algorithm with this DP loss leaks."""
        return super().__call__(inputs.loss(dp_loss, "dp_epsilon"))

    def inverse(self, epsilon: float) -> float:
        """The largest DP loss whose value is at most ``epsilon``, rounded down; 0 where there is none."""
        epsilon = inputs.loss(epsilon, "target")
        dp_loss, step = self._most(epsilon), 2.0**-53
        while dp_loss > 0 and (leaks := self(dp_loss)) > epsilon:  # what is returned has been checked
            dp_loss, step = dp_loss * (epsilon / leaks) * (1 - step), min(1.0, 4 * step)
        return max(dp_loss, 0.0)

    @property
    def slope(self) -> float:
        """By how much correlation multiplies a small DP loss, at most: 0.01."""
        return self(SMALL_LOSS) / SMALL_LOSS

    def noise_factor(self, epsilon: float) -> float:
        """How many times as wide as for independent records the noise must be to leak at most ``epsilon``."""
        loss = self.inverse(epsilon)
        return epsilon / loss if loss > 0 else math.inf

    @abstractmethod
    def _most(self, epsilon: float) -> float:
        """The inverse, up to rounding."""


@dataclass(frozen=True, eq=False)
class Line(Curve):
    """A straight line, factor·tau + extra."""

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
class TightBound(Curve):
    """What the worst algorithm leaks on the worst chain of a list: no curve for every algorithm lies below it."""

    tight: TightCurve

    def worst(self, dp_loss: float) -> TightLeakage:
        """The worst-case adversary and the worst-case questions."""
        return self.tight.leakage(inputs.loss(dp_loss, "dp_epsilon"))

    def _value(self, tau: float) -> float:
        # Where no record has two values there is nothing to learn; the curve stays a curve, and is not below the loss.
        return max(self.tight(tau), tau)

    def _most(self, epsilon: float) -> float:
        return self.tight.inverse(epsilon) if epsilon > 0 else 0.0


@dataclass(frozen=True, eq=False)
class WorstBound(Curve):
    """The largest of the bounds of several models."""

    members: tuple[LeakageBound, ...]

    def _value(self, tau: float) -> float:
        return max(bound(tau) for bound in self.members)

    def _most(self, epsilon: float) -> float:
        return min(bound.inverse(epsilon) for bound in self.members) if epsilon > 0 else 0.0


@dataclass(frozen=True, eq=False)
class OddsBound(WorstBound):
    """The closed form from the largest odds ratio."""

    @property
    def factor(self) -> float:
        """No DP loss is multiplied by more: for a chain the square root of the largest odds ratio of a step."""
        return self(_TINY) / _TINY


@dataclass(frozen=True, eq=False)
class OfRecords(Curve):
    """A curve for blocks, read at the DP loss of single records: all records of a block may change at once."""

    of_blocks: Curve
    records: int

    def _value(self, tau: float) -> float:
        lost = self.records * tau
        return self.of_blocks(lost) if lost <= LARGEST else math.inf

    def _most(self, epsilon: float) -> float:
        return self.of_blocks.inverse(epsilon) / self.records


@dataclass(frozen=True, eq=False)
class Lowest(Curve):
    """The pointwise minimum of several curves: each is a bound, so the least of them is one."""

    parts: tuple[Curve, ...]

    def which(self, dp_loss: float) -> Curve:
        """The curve that is lowest at tau."""
        return min(self.parts, key=lambda curve: curve(dp_loss))

    def _value(self, tau: float) -> float:
        return min(curve(tau) for curve in self.parts)

    def _most(self, epsilon: float) -> float:
        return max(curve.inverse(epsilon) for curve in self.parts)


@dataclass(frozen=True, eq=False)
class Absent(Curve):
    """A bound that does not apply to the model, with the reason."""

    reason: str
    foreign: bool = False
    """Whether it is about another kind of model."""

    @property
    def applies(self) -> bool:
        """Never: there is only the reason why not."""
        return False

    def _value(self, tau: float) -> float:
        raise NotApplicableError(f"the {self.name} curve does not apply: {self.reason}")

    def _most(self, epsilon: float) -> float:
        return self._value(epsilon)
