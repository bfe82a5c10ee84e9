"""The tight curve of two states and one kernel."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.attack import Place, SideAttack, TightLeakage, two_state_questions
from pufferdp.bounds.tight.outlook import MOST_LOSS
from pufferdp.bounds.tight.series import attack_on, series_leakage
from pufferdp.bounds.tight.two_states import (
    End,
    Lane,
    LostError,
    Reach,
    TwoSides,
    rounding,
    worst_sides,
    worst_split,
)

_EXPLICIT: Final = 512
"""Series up to this length are worked out record by record where a closed form loses its digits."""
_STORED: Final = 1 << 22
"""Records on a side of two states that repel each other that are looked at one by one."""
_ONE_BY_ONE: Final = 1 << 11
"""And of those that attract each other; of more some are looked at that stand for all."""
_DIGITS: Final = 1e-15
"""Brackets cannot become narrower than rounding lets them."""
_FILLS: Final = 2
"""Records after which a chain of two states has been everywhere, if it ever is."""


class TwoStateCurve:
    """Two states and one kernel: closed forms."""

    def __init__(self, place: Place) -> None:
        self.place = place
        kernel, start = place.chain.kernels[0], place.chain.start
        apart = float(kernel[1, 0] - kernel[0, 1])
        self.after = Lane(kernel, np.ones(2), place.known, apart=apart)
        # A stationary chain of two states reads the same backwards.
        possible = inputs.supports(place.chain, _FILLS)
        self.before = (
            self.after
            if place.chain.stationary
            else Lane(kernel.T, start, place.known, None if possible.all() else possible, apart)
        )
        slow = abs(float(kernel[0, 0] + kernel[1, 1] - 1))
        self._first = max(64, 1 << math.ceil(math.log2(min(24 / max(1 - slow, 1e-9), _STORED))))
        self._most = _ONE_BY_ONE if self.after.followed else _STORED
        # No search gets nearer than the rounding of its products, and a slow chain needs many.
        self.share = max(1e-11, rounding(min(self._first, place.length or _STORED, self._most)))
        self._plain: dict[tuple[int, int], Floats] = {}

    def likely(self, epsilon: float) -> float:
        """A loss that leaks about so much."""
        slope = self.quick(1e-6) / 1e-6
        return epsilon / max(slope, 1.0) if math.isfinite(slope) else epsilon / 2

    def quick(self, loss: float) -> float:
        """The leakage, without a proof."""
        try:
            return self._at(loss, proof=False).upper
        except LostError:
            return self._in_logs(loss).upper

    def _in_logs(self, loss: float) -> TightLeakage:
        """Where weights are too far apart for a double: record by record; of a long series, what bounds it."""
        length, chain = self.place.length, self.place.chain
        if length is not None and length <= _EXPLICIT:
            each = series_leakage(chain, np.full(length, loss), self.place.adversary)
            one = attack_on(chain, each, each.worst)
            bracket = float(each.lower.max()), float(each.upper.max())
            return self.place.result(
                loss, bracket, (one.likelier, one.other), (one.before, one.after), record=one.record
            )
        group = math.inf if length is None else loss * length
        return self.place.result(loss, (loss, min(group, self.place.by_odds(loss))), (0, 1))

    def _reaches(self, loss: float, records: int) -> tuple[Reach, Reach]:
        out = []
        for lane in (self.before, self.after):
            key = id(lane), records
            if key not in self._plain:
                self._plain[key] = lane.plain(records)
            out.append(lane.reach(loss, self._plain[key]))
            if self.before is self.after:
                return out[0], out[0]
        return out[0], out[1]

    def _at(self, loss: float, proof: bool = True) -> TwoSides:
        """What is leaked, and at which ends of both sides."""
        length = self.place.length
        if loss > MOST_LOSS:  # its exponential would be no number: a record adds no more than it spends
            if length is not None and length <= _EXPLICIT:
                raise LostError
            cut, rest, records = self._at(MOST_LOSS, proof), loss - MOST_LOSS, length or math.inf
            upper = min(cut.upper + rest * records, loss * records, self.place.by_odds(loss)) if cut.upper > 0 else 0.0
            return replace(cut, lower=cut.lower + rest * (upper > 0), upper=upper)
        most, records = min(length or self._most, self._most), self._first
        while True:
            if records * 2 > most:
                records = most
            if records == _ONE_BY_ONE != length and self.after.followed:
                return self._some(loss, proof)
            left, right = self._reaches(loss, records)
            if left.lost or right.lost:
                raise LostError
            if length == records:
                sums = left.by_length + right.by_length[:, ::-1]
                pair, at = (int(v) for v in np.unravel_index(int(sums.argmax()), sums.shape))
                ends = left.end(pair, at), right.end(pair, length - 1 - at)
                value = loss + float(sums[pair, at])
                if value == -math.inf:
                    return TwoSides(0.0, 0.0, 0, ends)
                return TwoSides(value, min(value + rounding(records), loss * length), pair, ends)
            both = left.by_length.max(axis=1) + right.by_length.max(axis=1)
            pair = int(both.argmax())
            lower, upper = loss + float(both[pair]), loss + float((left.upper + right.upper).max())
            # What rounding is given anyway is no reason to look at more records.
            if upper - lower <= max(self.share * lower, _DIGITS, rounding(records)) or records == most:
                upper += rounding(records)
                ends = (
                    left.end(pair, int(left.by_length[pair].argmax())),
                    right.end(pair, int(right.by_length[pair].argmax())),
                )
                return TwoSides(lower, upper if length is None else min(upper, loss * length), pair, ends)
            records *= 4

    def _some(self, loss: float, proof: bool) -> TwoSides:
        """Chains that hardly move: some numbers of records stand for all."""
        length = self.place.length
        if length is None:
            sides = worst_sides((self.before, self.after), loss, self.share, proof)
        else:
            sides = worst_split(self.before, self.after, loss, length, self.share, proof)
        upper = loss + (sides.upper if proof else sides.lower)
        return replace(sides, lower=loss + sides.lower, upper=upper if length is None else min(upper, loss * length))

    def worst(self, loss: float) -> TightLeakage:
        """The leakage, and who learns it."""
        try:
            found = self._at(loss)
        except LostError:
            return self._in_logs(loss)
        pair = found.pair
        x, y = (pair, 1 - pair) if found.upper > 0 or self.place.chain.start is None else (0, 0)
        before, after = (
            self._side(lane, end, x) for lane, end in zip((self.before, self.after), found.ends, strict=True)
        )
        record = found.ends[0].records + 1
        return self.place.result(loss, (found.lower, found.upper), (x, y), (before, after), record=record)

    def misled(self, _: float) -> bool:
        """Whether ``quick`` said too much, and has learned to say less."""
        return False

    def _side(self, lane: Lane, end: End, x: int) -> SideAttack:
        known = (end.distance, end.state) if end.state >= 0 else None
        count = end.distance - 1 if end.state >= 0 else end.distance
        return SideAttack(
            added=end.added, known=known, records=count, questions=two_state_questions(lane.stays, x, count)
        )
