"""Chains whose tight curve is a straight line: no record tells of another, or each tells all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.attack import NOTHING, Place, SideAttack, TightLeakage


@dataclass(frozen=True, eq=False)
class AloneCurve:
    """Nobody learns from other records: each leaks its own loss, if it has two values."""

    place: Place
    share: float = 0.0

    def likely(self, epsilon: float) -> float:
        """A loss that leaks about so much."""
        return epsilon

    def quick(self, loss: float) -> float:
        """The leakage, without a proof."""
        return self.worst(loss).upper

    def worst(self, loss: float) -> TightLeakage:
        """The leakage, and who learns it."""
        chain, length = self.place.chain, self.place.length
        steps = chain.size * chain.period + chain.period
        possible = inputs.supports(chain, min(steps, length) if length else steps)
        two = possible.sum(axis=1) > 1
        if not two.any():
            return self.place.result(loss, (0.0, 0.0), (0, 0), record=1)
        at = int(two.argmax())
        x, y = (int(v) for v in np.flatnonzero(possible[at])[:2])
        return self.place.result(loss, (loss, loss), (x, y), record=at + 1)

    def misled(self, _: float) -> bool:
        """Whether ``quick`` said too much, and has learned to say less."""
        return False


@dataclass(frozen=True, eq=False)
class GroupedCurve:
    """A chain that never forgets its class, or where it is in its cycle: every record says the same again.

    So does one in which each state leads to another one for sure, whatever its start. Values of different classes have
    no future and no past in common, so that all losses add up, as in group privacy.
    """

    place: Place
    share: float = 0.0
    exact: bool = True
    """Whether as much is leaked; otherwise it is a bound, and what is spent on a record alone is leaked."""
    apart: tuple[int, int, int] | None = None
    """A record and two of its values that all other records tell apart."""

    def likely(self, epsilon: float) -> float:
        """A loss that leaks about so much."""
        return epsilon / (self.place.length or 2)

    def quick(self, loss: float) -> float:
        """The leakage, without a proof."""
        length = self.place.length
        if loss == 0:
            return 0.0
        return math.inf if length is None else loss * length

    def worst(self, loss: float) -> TightLeakage:
        """The leakage, and who learns it."""
        value, length = self.quick(loss), self.place.length
        reach = (self.place.chain.whole > 0).astype(float)
        for _ in range(self.place.chain.size.bit_length() * 2 + 8):
            reach = np.minimum(reach @ reach, 1.0)
        apart = np.argwhere(reach @ reach.T == 0)
        x, y = (int(v) for v in apart[0]) if len(apart) else (0, 1)
        records = None if length is None else length - 1
        after = SideAttack(
            added=math.inf if length is None else loss * (length - 1), known=None, records=records, questions=()
        )
        bracket, before, record = (value if self.exact else loss, value), NOTHING, 1
        if self.apart is not None and length is not None:
            record, x, y = self.apart
            before, after = (
                SideAttack(added=loss * count, known=None, records=count, questions=())
                for count in (record - 1, length - record)
            )
        return self.place.result(loss, bracket, (x, y), (before, after), record=record)

    def misled(self, _: float) -> bool:
        """Whether ``quick`` said too much, and has learned to say less."""
        return False
