"""The tight curve of many states: which of several ways serves a series, and what it finds."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np

from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.attack import Place, SideAttack, TightLeakage, questions_of
from pufferdp.bounds.tight.long.any_start import any_start_series
from pufferdp.bounds.tight.long.slow_series import WIDTH, SlowSeries, slow_series
from pufferdp.bounds.tight.long.transient import TransientSeries, transient_series
from pufferdp.bounds.tight.long.turns import turns
from pufferdp.bounds.tight.many_states import Found, ManyStates
from pufferdp.bounds.tight.odds import OddsCurve
from pufferdp.bounds.tight.outlook import LASTING, MOST_LOSS
from pufferdp.bounds.tight.series import (
    SeriesLeakage,
    attack_on,
    beyond_cut,
    of_records,
    of_steady,
    of_whole,
    series_leakage,
    steady_series,
)
from pufferdp.bounds.tight.steady import LONG_WIDTH, MOST_SPENT, whole_series

EXPLICIT: Final = 512
"""Series of many states up to this length are worked out record by record."""
_SHORT: Final = 1 << 14
"""Series of more are never short, however slowly their chain forgets."""
_FORGOTTEN: Final = 64
"""Series of so many times the distance at which most is forgotten have no end for whoever stands in the middle."""
_REMEMBERED: Final = {"bdp": 24, "pufferfish": 40}
"""Series of fewer forgetting times are worked out record by record at once: their end is felt in the middle. Of longer
ones that is done where what a series without end leaks is too much. Known records leave what is beyond them aside."""
_SIDE_BY_SIDE: Final = 16
"""Series of so many records that begin with a law are worked out for all of them at once."""
_FOLLOWED: Final = 48
"""Series of so many records are followed for all pairs of values at once, where the first may have any law."""
_QUICK: Final = 64
"""Chains of few states that forget within so many records are looked at without their ends first."""
_FEW_RECORDS: Final = 1_500
"""Series of slow chains with no more records for each state are worked out record by record."""
_STAYS: Final = 0.99
"""Series of more than a few states are worked out record by record, where that can be done, if one is left sooner."""
_FEW_STATES: Final = 3
_EXACT: Final = 1e-9
"""How narrow brackets of short series are at least, as a share."""
_CLOSED: Final = 4e-7
"""Brackets that are wider, as a share, are worked out record by record where that can be done."""
_LISTED: Final = 64
"""Questions listed where they go on without end."""


class ManyStateCurve:
    """Many states: one by one where the series is short, as a chain without end where it is long."""

    def __init__(self, place: Place) -> None:
        self.place = place
        chain, length = place.chain, place.length
        self.long = ManyStates(chain, place.known, length) if chain.primitive else None
        self.short = length is not None and (self.long is None or length <= min(2 * self.long.first_depth, _SHORT))
        self.endless: ManyStates | None = None
        """The series without end, where it may begin with any kernel: one that begins with the first proves nothing.
        And where the series itself ends before the chain has forgotten."""
        self.anywhere = False
        """Whether the series may begin with any kernel: records of one that begins with the first say nothing then."""
        self.share = self.long.width if self.long is not None else 1e-9
        self.steady = None
        if self.short and length is not None and length <= EXPLICIT:
            self.share = min(self.share, _EXACT)
            self.steady = steady_series(chain, length, place.adversary)
        forgets = self.long.first_depth if self.long is not None and chain.stationary and chain.period == 1 else 0
        if length is not None and EXPLICIT < length <= _FORGOTTEN * forgets:
            # Too long to be worked out record by record, and too short for the chain to forget: one that goes on
            # without end leaks no less, and is known exactly.
            self.short, self.endless = False, ManyStates(chain, place.known, None)
        self.whole = None
        if self.long is not None and length is not None and EXPLICIT < length <= _FORGOTTEN * self.long.first_depth:
            self.whole = whole_series(chain, length, place.adversary)
        if self.short and self.steady is None and length is not None and _SIDE_BY_SIDE <= length <= EXPLICIT:
            self.whole = whole_series(chain, length, place.adversary)
        if self.whole is not None and length is not None and length <= EXPLICIT:
            self.whole.width = _EXACT
        self.at_once = self.whole is not None and (
            self.short or (self.long is not None and self.whole.n < _REMEMBERED[place.adversary] * self.long.forgets)
        )
        """Whether the series ends before the chain has forgotten, so that no other way needs to be tried."""
        if self.at_once and self.whole is not None:
            self.share = self.whole.width
        self.drained = self._transient_series()
        """All records of a chain with states that are left for good."""
        if self.drained is not None:
            self.share = self.drained.width
        self.free = any_start_series(chain, length, place.known) if length is None or length >= _FOLLOWED else None
        """The worst law of the first record, where it may have any."""
        forgets_soon = self.long is not None and self.long.first_depth <= _QUICK
        if self.free is not None and (forgets_soon or (length is not None and length <= EXPLICIT)):
            self.free.width = _EXACT
        self.turns = turns(chain, length, place.adversary) if length is None or length > EXPLICIT else None
        """All records of a chain that goes round in a cycle, where it begins in one part of it."""
        if self.turns is not None:
            self.share = LONG_WIDTH
        self.free_at_once = self.free is not None and (self.short or not forgets_soon or chain.size > _FEW_STATES)
        if self.free is not None and self.free_at_once:
            self.share = self.free.width
        self.slow = self._slow_series()
        """All records of a chain that forgets slowly."""
        if self.slow is not None:
            self.share = WIDTH
        self._stays_open, self._by_records, self._own_share = -1.0, False, self.share
        """The loss at which a series without end was last found to leak too much, and whether a search knows that."""

    def _transient_series(self) -> TransientSeries | None:
        chain, length = self.place.chain, self.place.length
        if length is None or length < _SIDE_BY_SIDE or self.long is not None or self.whole is not None:
            return None
        if length > EXPLICIT and not inputs.tells_ever_more(chain):
            return None
        found = transient_series(chain, length, self.place.adversary)
        if found is not None and length <= EXPLICIT:
            found.width = _EXACT
        return found

    def _slow_series(self) -> SlowSeries | None:
        chain, length, known = self.place.chain, self.place.length, self.place.known
        if length is not None and length <= _FEW_RECORDS * chain.size:
            return None
        if self.whole is not None and chain.size > _FEW_STATES and chain.kernels[0].diagonal().min() < _STAYS:
            return None
        return slow_series(chain, length, known)

    def forget(self) -> None:
        """A search begins anew."""
        if self._by_records:
            self._by_records, self.share = False, self._own_share
        for search in (self.search, self.whole, self.drained, self.slow):
            if search is not None:
                search.forget()

    def misled(self, loss: float) -> bool:
        """Whether ``quick`` said too much, and has learned to say less."""
        if self._by_records or self._stays_open != loss:
            return False
        self._by_records, self._own_share, self.share = True, self.share, LONG_WIDTH
        return True

    def likely(self, epsilon: float) -> float:
        """A loss that leaks about so much."""
        if self.drained is not None and self.place.length is not None:
            return epsilon / self.place.length
        if self.slow is not None:
            return self.slow.likely(epsilon)
        return epsilon / 4 if self.long is None else self.long.likely(epsilon)

    def quick(self, loss: float) -> float:
        """The leakage, without a proof."""
        if self.drained is not None and self.drained.serves(loss):
            return self.drained.quick(loss)
        if loss > MOST_LOSS:
            return self.worst(loss).upper
        if self.slow is not None and self.slow.serves(loss):
            return self.slow.quick(loss)
        if (self.at_once or self._by_records) and self.whole is not None and self.whole.serves(loss):
            return self.whole.quick(loss)
        if self.free_at_once and self.free is not None and self.free.serves(loss):
            return self.free.quick(loss)
        if self.turns is not None and self.turns.serves(loss):
            return self.turns.quick(loss)
        if self.endless is not None and self.place.length is not None:
            return min(self.endless.quick(loss), self.place.length * loss)
        if self.short or self.long is None:
            if self.steady is not None and 0 < loss <= MOST_SPENT / self.steady.n:
                return self.steady.quick(loss, self.share)
            if self.place.length is not None and self.place.length > EXPLICIT and self.place.chain.start is not None:
                return self._long_bound(loss, self.place.length)
            return float(self._each(loss)[0].lower.max())
        return self.long.quick(loss)

    def _each(self, loss: float) -> tuple[SeriesLeakage, float]:
        """Every record; of a series that does not forget its first ones, and what group privacy says of the rest."""
        length = self.place.length
        if self.steady is not None:
            steady = of_steady(self.steady, loss, self.place.adversary, self.share)
            if steady is not None:
                return steady, float(steady.upper.max())
        some = min(length or EXPLICIT, EXPLICIT)
        found = series_leakage(self.place.chain, np.full(some, loss), self.place.adversary, self.share, largest=True)
        if length is None:
            return found, math.inf if loss > 0 else 0.0
        if some == length:
            return found, float(found.upper.max())
        upper = self._long_bound(loss, length)
        if self.place.chain.start is not None:
            return found, upper
        # Any law is allowed: also that of the first of so many records around a target, wherever it is.
        return found, min(float(found.upper.max()) + (length - some) * loss, upper)

    def _long_bound(self, loss: float, length: int) -> float:
        """Of a series that is not worked out record by record: group privacy and the closed form."""
        return min(length * loss, self._closed_form(loss))

    @cached_property
    def _beyond_cut(self) -> float:
        """What both sides may add where records spend more than is counted."""
        chain = self.place.chain
        if chain.start is None or not (chain.kernels > 0).all():
            return math.inf
        least = min(float(chain.kernels.min()), float(chain.start[chain.start > 0].min()))
        return 2 * beyond_cut(chain.size, least)

    @cached_property
    def _closed_form(self) -> OddsCurve:
        kernels = self.place.chain.kernels
        return OddsCurve.of_chains([kernels if len(kernels) > 1 else kernels[0]], length=self.place.length)

    def worst(self, loss: float) -> TightLeakage:
        """The leakage, and who learns it."""
        if self.drained is not None and (exact := self._of_transient(loss, self.drained)) is not None:
            return exact
        if loss > MOST_LOSS:  # more than a pass can count: a record adds no more than it spends
            cut, rest, length = self.worst(MOST_LOSS), loss - MOST_LOSS, self.place.length
            upper = math.inf if length is None else min(cut.upper + rest * length, loss * length)
            upper = min(upper, self.place.by_odds(loss), cut.upper + rest + self._beyond_cut)
            return replace(cut, dp_loss=loss, lower=cut.lower + rest, upper=upper) if cut.upper > 0 else cut
        if self.slow is None or not self.slow.serves(loss):
            return self._otherwise(loss)
        found = self._of_slow(loss, self.slow)
        if found.upper <= found.lower * (1 + _CLOSED):
            return found
        other = self._otherwise(loss)  # states that are left soon: spans of known records say little there
        return replace(max(found, other, key=lambda one: one.lower), upper=min(found.upper, other.upper))

    def _otherwise(self, loss: float) -> TightLeakage:
        """Chains that forget soon, and those of which leaps say little."""
        if self.at_once and (exact := self._recorded(loss)) is not None:
            return exact
        if self.free_at_once and (exact := self._of_any_start(loss)) is not None:
            return exact
        if self.turns is not None and self.turns.serves(loss):
            found_turns, upper = self.turns.at(loss)
            return self._of_records(loss, of_records(found_turns, loss, self.place.adversary), upper)
        if self.long is not None and not self.short:
            if not self.long.closed_form:
                self.long.forget()
            if self.endless is not None and self.place.length is not None:
                found = self._of_endless(loss, self.endless, self.place.length)
            else:
                found = self.long.at(loss)
            length = self.place.length
            closed = found.upper <= found.lower * (1 + max(10 * self.long.width, _CLOSED))
            if not closed and (exact := self._recorded(loss)) is not None:
                self._stays_open = loss
                return exact
            if not closed and (exact := self._of_any_start(loss)) is not None:
                return exact
            if not closed and length is not None and length > EXPLICIT:
                return self._attack(loss, replace(found, upper=min(found.upper, self._long_bound(loss, length))))
            if closed or length is None or self.anywhere:
                return self._attack(loss, found)
        each, upper = self._each(loss)
        return self._of_records(loss, each, upper)

    def _recorded(self, loss: float) -> TightLeakage | None:
        """Every record of a long series; None where that cannot be done."""
        each = None if self.whole is None else of_whole(self.whole, loss)
        if each is None or (self.short and each.upper.max() > each.lower.max() * (1 + _CLOSED)):
            return None
        return self._of_records(loss, each, float(each.upper.max()))

    def _of_transient(self, loss: float, series: TransientSeries) -> TightLeakage | None:
        """Chains with states that are left for good; None where short series are better worked out one by one."""
        if loss == 0:
            return self.place.result(0.0, (0.0, 0.0), (0, 0), record=1)
        found = series.attack(loss)
        if series.length <= EXPLICIT and found.upper > found.lower * (1 + _CLOSED):
            return None
        return self.place.result(loss, (found.lower, found.upper), found.pair, found.sides, record=found.record)

    def _of_slow(self, loss: float, series: SlowSeries) -> TightLeakage:
        """All records of a chain that forgets slowly."""
        series.forget()
        found, length = series.at(loss), self.place.length
        (x, y), sides = found.pair, list[SideAttack]()
        before = found.records
        after = None if length is None or before is None else length - 1 - before
        for kernel, records, end in zip(series.kernels, (before, after), found.sides, strict=True):
            distance, state, added, log_mu = end
            count = distance - 1 if state >= 0 else records
            asked = log_mu if state >= 0 else added
            questions = questions_of(kernel[None], np.array([loss]), x, y, asked, _LISTED if count is None else count)
            known = (distance, state) if state >= 0 else None
            sides.append(SideAttack(added=added, known=known, records=count, questions=questions if added > 0 else ()))
        record = None if before is None else before + 1
        return self.place.result(loss, (found.lower, found.upper), (x, y), (sides[0], sides[1]), record=record)

    def _of_any_start(self, loss: float) -> TightLeakage | None:
        """The worst law of the first record; None where that cannot be done."""
        if self.free is None or not self.free.serves(loss):
            return None
        found, length = self.free.at(loss), self.place.length
        (x, y), (distance, state, log_mu) = found.pair, found.after
        rest = None if length is None else length - 1 - found.records
        count = distance - 1 if state >= 0 else rest
        asked = questions_of(
            self.place.chain.kernels,
            np.array([loss]),
            x,
            y,
            log_mu if state >= 0 else found.added[1],
            _LISTED if count is None else count,
        )
        sides = (
            SideAttack(added=found.added[0], known=None, records=found.records, questions=(), first_law=found.law),
            SideAttack(
                added=found.added[1],
                known=(distance, state) if state >= 0 else None,
                records=count,
                questions=asked if found.added[1] > 0 else (),
            ),
        )
        record = None if length is None else found.records + 1
        return self.place.result(loss, (found.lower, found.upper), (x, y), sides, record=record)

    def _of_records(self, loss: float, each: SeriesLeakage, upper: float) -> TightLeakage:
        """The worst of all records."""
        one = attack_on(self.place.chain, each, each.worst)
        pair, sides = (one.likelier, one.other), (one.before, one.after)
        bracket = float(each.lower.max()), upper
        return self.place.result(loss, bracket, pair, sides, record=one.record, phase=one.phase)

    def _of_endless(self, loss: float, endless: ManyStates, length: int) -> Found:
        """What a series without end leaks, and what this one does at least, wherever it begins."""
        assert self.long is not None
        if not endless.closed_form:
            endless.forget()
        found = endless.at(loss)
        upper = min(found.upper, length * loss)  # group privacy
        # Otherwise a record in the middle has as much around it.
        if found.distance.max() > (length - 1) // 2 or (found.state == LASTING).any():
            reached = self.long.climb(loss)
            if upper > reached * (1 + _CLOSED):
                reached = max(reached, self.long.reached_by(loss, found))
            found = replace(found, lower=min(reached, upper))
        return replace(found, upper=upper)

    @property
    def search(self) -> ManyStates | None:
        """What is asked for brackets of long series."""
        return self.long if self.endless is None else self.endless

    def _attack(self, loss: float, found: Found) -> TightLeakage:
        assert self.long is not None
        rows, chain = self.long.rows, self.place.chain
        x, y = int(rows.x[found.row]), int(rows.y[found.row])
        phase = int(rows.offsets[-1, found.row])
        kernels = (
            np.roll(self.long.before, -((-phase) % chain.period), axis=0),
            np.roll(chain.kernels, -phase, axis=0),
        )
        sides = []
        for lane in (0, 1):
            distance, state = int(found.distance[lane]), int(found.state[lane])
            count = self.place.room(distance, state)
            log_mu = float(found.mu[lane])
            if state == LASTING:  # what goes on for ever is best asked at the quotient that it reaches
                log_mu, count_listed = self.long.reached(lane, x, y, float(found.added[lane])), _LISTED
            else:
                count_listed = int(count or 0)
            asked = questions_of(kernels[lane], np.array([loss]), x, y, log_mu, count_listed)
            law = found.starts if lane == 0 else ()
            sides.append(
                SideAttack(
                    added=float(found.added[lane]),
                    known=(distance, state) if state >= 0 else None,
                    records=count,
                    questions=() if law else asked,
                    first_law=law,
                )
            )
        length = self.place.length
        record = None
        if length is not None:
            far = (found.state == LASTING).any()
            record = (length + 1) // 2 if far else int(found.distance[0]) + 1
        return self.place.result(
            loss,
            (found.lower, found.upper),
            (x, y),
            (sides[0], sides[1]),
            record=record,
            phase=phase if chain.period > 1 else None,
        )
