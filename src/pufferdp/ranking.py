"""Candidates for one problem, the best first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pufferdp.errors import ParameterError
from pufferdp.report.paged import Paged


class Ranked(Protocol):
    """A mechanism on a problem."""

    @property
    def mechanism(self) -> str:
        """Its name."""

    @property
    def applies(self) -> bool:
        """Whether it keeps the promise."""


C = TypeVar("C", bound=Ranked)


@dataclass(frozen=True, kw_only=True)
class Ranking(Paged, Generic[C]):
    """What a plan is: candidates, those with the least expected error first."""

    candidates: tuple[C, ...]

    @property
    def best(self) -> C:
        """The least expected error among those that keep the promise."""
        return next(c for c in self.candidates if c.applies)

    def candidate(self, mechanism: str) -> C:
        """A candidate by name."""
        for candidate in self.candidates:
            if candidate.mechanism == mechanism:
                return candidate
        known = ", ".join(sorted(c.mechanism for c in self.candidates))
        raise ParameterError(f"mechanism is {mechanism!r}; it must be one of {known}", value=mechanism)
