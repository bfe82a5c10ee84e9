"""The one rule: total leakage is the leakage curve at the largest DP loss that any record was charged.

Guarantees of Bayesian DP and Pufferfish do not add up (docs/guide/budget.md has two examples), DP losses do, record by
record. What leaks grows with the loss of every record, so the curve of the data set's model and adversary, read once at
the largest sum, holds for all records. It is read at the longest chain ever released from; where charges are about
different segments these are parts of a longer series, and it is read for a series without end. A single release keeps
its own guarantee.

With deltas: a release that is (loss, delta)-DP on some records is (larger loss, larger delta)-DP on all. So all
releases together are (M, D)-DP with M and D the largest sums of any record, and Theorem 3 carries that pair over
(bounds/approximate.py).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.checks import LARGEST, MOST_RECORDS, SMALLEST_EPSILON
from pufferdp.basics.files import canonical_json
from pufferdp.bounds.approximate import allowed_loss, carried_delta
from pufferdp.bounds.curve_forms import EVERY_ALGORITHM, Lowest, OfRecords
from pufferdp.bounds.curves import CURVES, curve, curves, lowest
from pufferdp.bounds.tight.series import TOLERANCE
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.ledger.charge import Charge
from pufferdp.ledger.flow_budget import add_taus, reading_of
from pufferdp.ledger.record_sums import DELTA, LOSS, RecordSums, add_up
from pufferdp.models.base import Model
from pufferdp.models.units import Unit


@dataclass(frozen=True, slots=True)
class State:
    """Where a data set stands after some rows."""

    head: str
    """Hash of the last row; of the definition before there is any."""
    model: str
    """The digest of the data set's model."""
    releases: int = 0
    """How many releases were charged so far."""
    spent: float = 0.0
    """The largest sum of DP losses of any record, never rounded down."""
    longest: int = 0
    """Records in the longest chain ever released from."""
    epsilon: float | None = None
    """The own guarantee of the only release, while there is one."""
    width: float | None = None
    """The clipping width of sums and means of real numbers."""
    clipped: bool = True
    """Whether every release so far was such a sum or mean."""

    added: float = 0.0
    """What redactions by window leak about the private records."""
    private: str | None = None
    """The records that the guarantee is about once a redaction has released others; None: all."""

    tau: float = 0.0
    """Sum of the total variations of transition flows."""
    reading: str | None = None
    """Which records they are of: digest of the lengths of the chains."""

    everywhere: float | None = None
    """What of ``spent`` was charged on every record; None: all of it."""
    deltas: float = 0.0
    """The largest sum of deltas of any record."""
    deltas_everywhere: float | None = None
    """What of it was charged on every record; None: all of it."""
    delta: float = 0.0
    """Beside ``epsilon``: the own delta of the only release."""
    order: str | None = None
    """The column that segments are of, once there is one."""
    unit: str | None = None
    """What segments are measured in."""
    by: str | None = None
    """The column that says whose a record is, once there is one."""
    crowds: int = 0
    """Sets of people with sums of their own."""

    @property
    def position(self) -> int:
        """The number of the last row; 0 before there is any."""
        return self.releases

    @property
    def has_ranges(self) -> bool:
        """Whether anything was charged on less than everything."""
        return self.order is not None or self.by is not None

    @property
    def spent_on_all(self) -> float:
        """What was charged on every record."""
        return self.spent if self.everywhere is None else self.everywhere

    def spent_on(self, ranges: Ranges, sums: RecordSums) -> float:
        """The largest sum of DP losses of any of these records."""
        return add_up(self.spent_on_all, sums.largest(ranges)[2]) if self.has_ranges else self.spent_on_all

    def after(self, charge: Charge, head: str, sums: RecordSums | None = None) -> State:
        """The state after one more charge, which is added to the sums of single records where it has ranges.

        A redaction that was designed together with the one before leaks what both do: it takes that one's place.
        """
        joint, first = charge.together is not None, self.releases == 0
        then = replace(
            self,
            head=head,
            releases=self.releases + 1,
            epsilon=charge.epsilon if first or (joint and self.epsilon is not None) else None,
            delta=charge.delta if first else 0.0,
            width=charge.width if self.width is None else self.width,
            clipped=self.clipped and (charge.width is not None or charge.private is not None),
        )
        if charged_on(charge) != EVERYTHING:
            assert sums is not None
            return self._on_ranges(then, charge, sums)
        if charge.tau is not None:
            then = replace(then, tau=add_taus(self.tau, charge.tau), reading=reading_of(charge.facts))
        mixed = self.has_ranges and charge.dp_loss > 0 and charge.tau is None
        return replace(
            then,
            spent=add_up(self.spent, charge.dp_loss),
            longest=MOST_RECORDS if mixed else max(self.longest, charge.longest),
            added=max(self.added, charge.leakage) if joint else add_up(self.added, charge.leakage),
            private=charge.private if self.private is None or joint else self.private,
            everywhere=None if self.everywhere is None else add_up(self.everywhere, charge.dp_loss),
            deltas=add_up(self.deltas, charge.dp_delta),
            deltas_everywhere=(
                None if self.deltas_everywhere is None else add_up(self.deltas_everywhere, charge.dp_delta)
            ),
        )

    def _on_ranges(self, then: State, charge: Charge, sums: RecordSums) -> State:
        """The state after a charge on some records only, as far as it is known without ranges."""
        ranges, everywhere = charge.ranges, self.spent_on_all
        deltas_everywhere = self.deltas if self.deltas_everywhere is None else self.deltas_everywhere
        # Records on other segments belong to the same series: it is longer than any of them, nobody knows how long.
        endless = self.longest == MOST_RECORDS or everywhere > 0 or sums.several(ranges)
        largest = sums.charge(ranges, amounts_of(charge))
        return replace(
            then,
            spent=max(self.spent, add_up(everywhere, largest[LOSS])),
            longest=MOST_RECORDS if endless else max(self.longest, charge.longest),
            everywhere=everywhere,
            deltas=max(self.deltas, add_up(deltas_everywhere, largest.get(DELTA, 0.0))),
            deltas_everywhere=deltas_everywhere,
            order=ranges.order if self.order is None else self.order,
            unit=ranges.unit if self.order is None and ranges.order is not None else self.unit,
            by=ranges.by if self.by is None else self.by,
            crowds=sums.crowds,
        )

    def to_json(self) -> str:
        """Canonical JSON; an infinite loss is null."""
        raw = {name: getattr(self, name) for name in self.__slots__}
        raw["spent"] = self.spent if math.isfinite(self.spent) else None
        return canonical_json(raw)

    @classmethod
    def from_json(cls, text: str) -> State:
        """The state that was written."""
        raw = json.loads(text)
        raw["spent"] = math.inf if raw["spent"] is None else float(raw["spent"])
        return cls(**raw)


_NEAR: Final = 1e-6
SEARCHED: Final = 4 * TOLERANCE
"""As a share of a total: what the search for the largest loss leaves over, which ends elsewhere on another way."""


def charged_on(charge: Charge) -> Ranges:
    """The records that a charge is counted on. What is not a finite loss counts for the whole data set."""
    return charge.ranges if 0 < charge.dp_loss < math.inf and charge.tau is None else EVERYTHING


def amounts_of(charge: Charge) -> dict[str, float]:
    """What a charge adds to the sums of its records."""
    return {LOSS: charge.dp_loss} | ({DELTA: charge.dp_delta} if charge.dp_delta else {})


def left_over(total: float, used: float, share: float = 0.0) -> float:
    """What is left of a total; nothing where it is less than any release can state, or than a share of the total."""
    rest = total - used
    return rest if rest >= max(SMALLEST_EPSILON, share * total) else 0.0


class Rule:
    """The leakage curve of one data set, read backwards and forwards. What was computed is kept."""

    def __init__(
        self, model: Model, adversary: Adversary, budget: float, delta: float = 0.0, unit: Unit | None = None
    ) -> None:
        self.model, self.adversary, self.budget, self.delta, self.unit = model, adversary, budget, delta, unit
        self._curves: dict[tuple[int, bool, bool], Lowest] = {}
        self._allowed: dict[tuple[int, bool, bool, float], tuple[float, float]] = {}

    @classmethod
    def of(cls, definition: Mapping[str, Any], model: Model) -> Rule:
        """The rule of a data set with this definition."""
        unit = None if definition.get("unit") is None else Unit(**definition["unit"])
        adversary = checks.adversary(definition["adversary"])
        return cls(model, adversary, definition["budget"], definition.get("delta") or 0.0, unit)

    def curve(self, longest: int, clipped: bool, redacted: bool = False) -> Lowest:
        """The lowest curve for chains of this length; the Gaussian ones only where every release was clipped.

        After a redaction by window everybody knows the records it released, so an adversary who knew none becomes one
        who knows some: the curve is the one for any set of known records.
        """
        longest = longest if self.model.needs_length else 0
        if self.unit is not None:
            return self._unit_curve(self.unit)
        adversary = Adversary.BDP if redacted and self.adversary is Adversary.PUFFERFISH else self.adversary
        key = longest, clipped, redacted
        if key not in self._curves:
            alone = curve("independent", self.model, longest or None, adversary)
            # Nothing lies below the DP loss itself, so where it is the leakage no other curve is looked for.
            curves_by_name = {alone.name: alone} if alone.applies else curves(self.model, longest or None, adversary)
            candidates = {name: c for name, c in curves_by_name.items() if clipped or c.holds_for == EVERY_ALGORITHM}
            self._curves[key] = lowest(candidates)
        return self._curves[key]

    def _unit_curve(self, unit: Unit) -> Lowest:
        """For a budget about whole periods: a loss of records is one of their period, as often as it has records.

        Of series without end, so that a period may lie in two of them.
        """
        from pufferdp.bounds.units.curves import unit_curve

        key = 0, False, False
        if key not in self._curves:
            m = unit.records
            of_blocks = {name: unit_curve(name, self.model, None, self.adversary, m, spread=m) for name in CURVES}
            applying = {name: c for name, c in of_blocks.items() if c.applies}
            of_records = {name: OfRecords(name, c.theorem, c, unit.records) for name, c in applying.items()}
            self._curves[key] = lowest(of_records or of_blocks)
        return self._curves[key]

    def own_guarantee(self, state: State) -> float | None:
        """What the only release guarantees itself; it is about records, and says nothing about whole periods."""
        return None if self.unit is not None else state.epsilon

    def curve_at(self, state: State) -> Lowest:
        """The curve that the total of a state is read from."""
        return self.curve(state.longest, state.clipped, state.private is not None)

    def allowed(self, state: State) -> float:
        """The most DP loss that any record may be charged; below 0 where redactions alone pass the budget."""
        return self._allowed_pair(state)[0]

    def allowed_delta(self, state: State) -> float:
        """The most delta that any record may be charged beside the loss that is allowed."""
        return self._allowed_pair(state)[1]

    def _allowed_pair(self, state: State) -> tuple[float, float]:
        key = state.longest, state.clipped, state.private is not None, state.added
        if key not in self._allowed:
            rest = min(self.budget, LARGEST) - state.added
            if state.added:
                rest = math.nextafter(rest, -math.inf)  # the difference may be rounded up
            if state.added > self.budget:
                self._allowed[key] = -math.inf, 0.0
            elif rest <= 0:
                self._allowed[key] = 0.0, 0.0
            elif self.delta:
                self._allowed[key] = allowed_loss(self.curve_at(state), rest, self.delta)
            else:
                self._allowed[key] = self.curve_at(state).inverse(rest), 0.0
        return self._allowed[key]

    def leakage(self, state: State) -> float:
        """The most that all releases up to this state leak together, beside ``leaked_delta``."""
        return self._leaked(state)[0]

    def leaked_delta(self, state: State) -> float:
        """The delta beside ``leakage``."""
        return self._leaked(state)[1]

    def _leaked(self, state: State) -> tuple[float, float]:
        if not state.releases:
            return 0.0, 0.0
        own = self.own_guarantee(state)
        pairs = [] if own is None else [(own, state.delta)]
        if state.spent <= LARGEST:
            pairs.append(self._carried(state, state.spent))
            if state.deltas and self._holds_when_raised(state):
                # A larger loss on every record may go with a smaller delta, and still keep the budget.
                pairs.append(self._carried(state, self.allowed(state)))
        # Each pair holds. The least epsilon whose delta is in the budget, if there is one.
        return min(pairs, key=lambda pair: (pair[1] > self.delta, pair[0]), default=(math.inf, 0.0))

    def _carried(self, state: State, loss: float) -> tuple[float, float]:
        """What leaks where no record has lost more than this."""
        leaks = self.curve_at(state)(loss)
        return add_up(state.added, leaks), carried_delta(loss, state.deltas, leaks)

    def _holds_when_raised(self, state: State) -> bool:
        return state.spent <= self.allowed(state) and state.deltas <= self.allowed_delta(state)

    def in_budget(self, state: State, charged: bool = False) -> bool:
        """Whether a state keeps the budget. Curves never fall, so the inverse answers for every smaller loss.

        A new charge leaves the tolerance of the bound over, so that it also fits when it has been ``charged``.
        """
        own = self.own_guarantee(state)
        if own is not None and own <= self.budget and state.delta <= self.delta:
            return True
        if not state.deltas or state.spent > self.allowed(state):
            return state.spent <= self.allowed(state) or self._barely_in_budget(state, charged)
        return self._holds_when_raised(state) or self._carried(state, state.spent)[1] <= self.delta

    def _barely_in_budget(self, state: State, charged: bool) -> bool:
        """Inverses are found up to a tolerance; a loss that is larger by no more than that is read from the curve."""
        spare = self.searched(state)
        if state.spent > min(LARGEST, self.allowed(state) * (1 + spare + _NEAR)):
            return False
        leaks, delta = self._carried(state, state.spent)
        return leaks <= self.budget / (1 + min(spare, TOLERANCE) * (not charged)) and delta <= self.delta

    def searched(self, state: State) -> float:
        """The share of a total that a search leaves over; 0 where the tight bound does not apply."""
        return SEARCHED if any(part.name == "tight" for part in self.curve_at(state).parts) else 0.0

    def left(self, state: State, spent: float | None = None) -> float | None:
        """The DP loss that one more release may have on records that were charged ``spent``, by default on any.

        None before anybody knows how long the chains are.
        """
        if not state.longest and self.model.needs_length:
            return None
        return left_over(self.allowed(state), state.spent if spent is None else spent, self.searched(state))

    def left_delta(self, state: State) -> float | None:
        """The delta of DP that one more release may have beside any loss that is left."""
        if not state.longest and self.model.needs_length:
            return None
        return max(0.0, self.allowed_delta(state) - state.deltas)
