"""What every mechanism does: turn a problem into a calibration, or say why it does not apply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from pufferdp import checks
from pufferdp.checks import Adversary
from pufferdp.errors import NotApplicableError, ParameterError
from pufferdp.leakage.quilts import WorstRecord
from pufferdp.models.classes import Model
from pufferdp.noise import NoiseLaw
from pufferdp.queries import BoundQuery, Query

Lengths = tuple[tuple[int, int], ...]
"""Independent chains: (length, how many of that length)."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One release to be planned: what is believed, what is asked, what is promised to whom."""

    model: Model
    query: Query
    lengths: Lengths
    epsilon: float
    adversary: Adversary = Adversary.BDP

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checks.epsilon(self.epsilon))
        object.__setattr__(self, "adversary", checks.adversary(self.adversary))
        if not self.lengths:
            raise ParameterError("there is no chain; a release needs at least one record")
        for length, count in self.lengths:
            checks.length(length)
            checks.length(count, "number of chains")
        _ = self.bound  # a query that does not fit the model is refused here, before any data is read

    @property
    def records(self) -> int:
        """Records in all chains together."""
        return sum(length * count for length, count in self.lengths)

    @property
    def longest(self) -> int:
        """Records in the longest chain. Noise never falls as a chain grows, so it decides."""
        return max(length for length, _ in self.lengths)

    @cached_property
    def bound(self) -> BoundQuery:
        """The query on this model and these records."""
        return self.query.on(self.model, self.records)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The noise that keeps a promise, and everything that explains it."""

    mechanism: str
    theorem: str
    """Where the guarantee comes from."""
    sigma: float
    """Noise multiplier: the scale for a query with Lipschitz constant 1."""
    lipschitz: float
    """L of the query."""
    law: NoiseLaw
    """The noise that will be drawn."""
    quilt: WorstRecord | None = None
    """The record that decides and its active quilt, for quilt mechanisms."""

    @property
    def scale(self) -> float:
        """Noise scale of one coordinate in the answer's units: L·σ."""
        return self.law.scale


class Mechanism(ABC):
    """A way to choose noise. Subclasses say how much, or raise NotApplicableError with the reason."""

    name: ClassVar[str]
    theorem: ClassVar[str]

    @abstractmethod
    def multiplier(self, problem: Problem) -> tuple[float, WorstRecord | None]:
        """σ and, for quilts, what it rests on. Raises NotApplicableError when there is no guarantee."""

    def calibrate(self, problem: Problem) -> Calibration:
        """The noise for this problem. Raises NotApplicableError when there is no guarantee."""
        sigma, quilt = self.multiplier(problem)
        return self.with_multiplier(problem, sigma, quilt)

    def with_multiplier(self, problem: Problem, sigma: float, quilt: WorstRecord | None = None) -> Calibration:
        """A calibration at a given σ."""
        bound = problem.bound
        law = NoiseLaw(kind=bound.noise, scale=bound.lipschitz * sigma, coordinates=len(bound.labels), unit=bound.unit)
        return Calibration(
            mechanism=self.name,
            theorem=self.theorem,
            sigma=sigma,
            lipschitz=bound.lipschitz,
            law=law,
            quilt=quilt,
        )


def refuse_known_records(problem: Problem) -> None:
    """For mechanisms whose proof is for an adversary who knows no record."""
    if problem.adversary is not Adversary.PUFFERFISH:
        raise NotApplicableError("holds only for an adversary who knows no record")
