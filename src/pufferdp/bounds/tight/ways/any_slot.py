"""Short series of a clock that may begin with any of its slots: every slot, record and pair of values at once.

In the law that the kernels keep, what the records before a target say depends on its slot and their number alone, as it
does after it. So a row is a target's slot, the number of records before it and a pair of values; the rest of the n
records lie after it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints
from pufferdp.bounds.tight.attack import Place, SideAttack, TightLeakage, questions_of
from pufferdp.bounds.tight.many_states import ManyStates
from pufferdp.bounds.tight.outlook import MOST_LOSS, Bracket, Rows
from pufferdp.bounds.tight.sides import solve

_MOST_ENDS: Final = 1_200_000
"""Ends of all rows, so that an inverse takes seconds."""
_FORGOTTEN: Final = 8
"""Series of so many times the distance at which most is forgotten leak what one without end does."""
_ROUGH: Final = 0.05
_NEAR_BEST: Final = 0.99
"""Rows that leak so much of the most are asked first at another loss."""


class AnySlotCurve:
    """One clock, n records, whatever slot the first of them has."""

    share: float = 1e-9

    def __init__(self, place: Place, search: ManyStates, length: int) -> None:
        self.place, self.search, self.length = place, search, length
        rows = search.rows
        before = np.repeat(np.arange(length), len(rows))
        self.rows = Rows(
            np.tile(rows.offsets, (1, length)),
            np.stack([before, length - 1 - before]),
            np.zeros((2, 1)),
            np.tile(rows.x, length),
            np.tile(rows.y, length),
        )
        self._near = self._middle = np.flatnonzero(before == (length - 1) // 2)

    def likely(self, epsilon: float) -> float:
        """A loss that leaks about so much."""
        return self.search.likely(epsilon)

    def misled(self, _: float) -> bool:
        """Rows that were not asked leak more, never less."""
        return False

    def forget(self) -> None:
        """A search begins anew."""
        self._near = self._middle

    def _sides(self, at: Ints, loss: float, need: float, width: float) -> tuple[Bracket, Floats, Floats]:
        """Brackets of some rows, and what these leak at least and at most."""
        rows = replace(self.rows.pick(at), losses=np.full((2, 1), loss))
        found = solve(self.search.look, rows, own=loss, need=need, width=width, first=max(1, self.length - 1))
        return found, loss + found.lower.sum(axis=0), loss + found.upper.sum(axis=0)

    def quick(self, loss: float) -> float:
        """What the rows leak that leaked most the last time."""
        if loss == 0:
            return 0.0
        if loss > MOST_LOSS:
            return self.worst(loss).upper
        return float(self._sides(self._near, loss, -np.inf, self.share)[1].max())

    def worst(self, loss: float) -> TightLeakage:
        """The leakage, and who learns it: rows that are proved to leak less than the best so far are left."""
        if loss == 0:
            return self.place.result(0.0, (0.0, 0.0), (0, 0), record=1)
        if loss > MOST_LOSS:  # more than a pass can count: a record adds no more than it spends
            cut, rest = self.worst(MOST_LOSS), loss - MOST_LOSS
            upper = min(cut.upper + rest * self.length, loss * self.length)
            return replace(cut, dp_loss=loss, lower=cut.lower + rest, upper=upper)
        need = float(self._sides(self._near, loss, -np.inf, _ROUGH)[1].max())
        found, least, most = self._sides(np.arange(len(self.rows)), loss, need, self.share)
        row = int(least.argmax())
        self._near = np.flatnonzero(least >= _NEAR_BEST * least[row])
        return self._attack(loss, row, found, (float(least[row]), min(float(most.max()), loss * self.length)))

    def _attack(self, loss: float, row: int, found: Bracket, bracket: tuple[float, float]) -> TightLeakage:
        x, y, phase = int(self.rows.x[row]), int(self.rows.y[row]), int(self.rows.offsets[1, row])
        records = self.rows.records[:, row].tolist()
        period, chain = self.place.chain.period, self.place.chain
        kernels = np.roll(self.search.before, phase - period, axis=0), np.roll(chain.kernels, -phase, axis=0)
        sides = []
        for lane in (0, 1):
            distance, state = int(found.distance[lane, row]), int(found.state[lane, row])
            count = distance - 1 if state >= 0 else records[lane]
            log_mu, known = float(found.mu[lane, row]), (distance, state) if state >= 0 else None
            asked = questions_of(kernels[lane], np.array([loss]), x, y, log_mu, count)
            added = float(found.lower[lane, row])
            sides.append(SideAttack(added=added, known=known, records=count, questions=asked))
        return self.place.result(loss, bracket, (x, y), (sides[0], sides[1]), record=records[0] + 1, phase=phase)


def any_slot(place: Place, length: int) -> AnySlotCurve | None:
    """None for what has too many slots, records or values."""
    if not place.chain.primitive or length < 2:
        return None
    search = ManyStates(place.chain, place.known, None)
    ends = len(search.rows) * length * length * (place.chain.size * place.known + 1)
    if search.bounded or ends > _MOST_ENDS or length > _FORGOTTEN * search.first_depth:
        return None
    return AnySlotCurve(place, search, length)
