"""The one rule: total leakage is the leakage curve at the summed DP loss; a single release keeps its own promise.

Guarantees of Bayesian DP and Pufferfish do not add up (docs/guide/budget.md has two examples), DP losses do. So losses
are added, and the curve of the data set's model and adversary is read once, at the longest chain ever released from.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace

from pufferdp.checks import LARGEST, Adversary
from pufferdp.errors import RefusedError
from pufferdp.leakage.bounds import curve, curves, lowest
from pufferdp.leakage.curves import EVERY_ALGORITHM, Lowest
from pufferdp.ledger.charges import Charge
from pufferdp.ledger.variation import add_taus, reading_of
from pufferdp.models.classes import Model, SeriesModel
from pufferdp.models.files import canonical_json


@dataclass(frozen=True, slots=True)
class State:
    """Where a data set stands after some rows."""

    head: str
    """Hash of the last row."""
    model: str | None
    """Digest of the model; None until one is adopted."""
    position: int = 0
    """Rows so far."""
    releases: int = 0
    """Charges so far."""
    spent: float = 0.0
    """Sum of the DP losses, never rounded down."""
    longest: int = 0
    """Records in the longest chain ever released from."""
    epsilon: float | None = None
    """The own promise of the only release, while there is one."""
    width: float | None = None
    """The clipping width of sums and means of real numbers."""
    clipped: bool = True
    """Whether every release so far was such a sum or mean."""

    added: float = 0.0
    """What redactions by window leak about the private records."""
    private: str | None = None
    """The records that the promise is about once a redaction has released others; None: all."""

    tau: float = 0.0
    """Sum of the total variations of transition flows."""
    reading: str | None = None
    """Which records they are of: digest of the lengths of the chains."""

    def after(self, charge: Charge, head: str) -> State:
        """The state after one more charge."""
        return State(
            head,
            self.model,
            self.position + 1,
            self.releases + 1,
            add_up(self.spent, charge.dp_loss),
            max(self.longest, charge.longest),
            charge.epsilon if self.releases == 0 else None,
            charge.width if self.width is None else self.width,
            self.clipped and (charge.width is not None or charge.private is not None),
            add_up(self.added, charge.leakage),
            charge.private if self.private is None else self.private,
            self.tau if charge.tau is None else add_taus(self.tau, charge.tau),
            self.reading if charge.tau is None else reading_of(charge.facts),
        )

    def adopting(self, model: str, head: str) -> State:
        """The state after a model was adopted."""
        return replace(self, head=head, position=self.position + 1, model=model)

    def to_json(self) -> str:
        """Canonical JSON; an infinite loss is null."""
        raw = {name: getattr(self, name) for name in self.__slots__}
        raw["spent"] = self.spent if math.isfinite(self.spent) else None
        if self.reading is None:  # no flow: as it was written before there were any
            del raw["tau"], raw["reading"]
        return canonical_json(raw)

    @classmethod
    def from_json(cls, text: str) -> State:
        """The state that was written."""
        raw = json.loads(text)
        raw["spent"] = math.inf if raw["spent"] is None else float(raw["spent"])
        return cls(**raw)


def add_up(a: float, b: float) -> float:
    """A + b, rounded up where it is not exact (Knuth's two-sum tells)."""
    total = a + b
    if math.isinf(total):
        return total
    back = total - a
    error = (a - (total - back)) + (b - back)
    return math.nextafter(total, math.inf) if error > 0 else total


class Rule:
    """The leakage curve of one data set, read backwards and forwards. What was computed is kept."""

    def __init__(self, model: Model, adversary: Adversary, budget: float) -> None:
        self.model, self.adversary, self.budget = model, adversary, budget
        self._curves: dict[tuple[int, bool, bool], Lowest] = {}
        self._allowed: dict[tuple[int, bool, bool, float], float] = {}

    def curve(self, longest: int, clipped: bool, redacted: bool = False) -> Lowest:
        """The lowest curve for chains of this length; the Gaussian ones only where every release was clipped.

        After a redaction by window everybody knows the records it released, so an adversary who knew none becomes one
        who knows some: the curve is the one for any set of known records.
        """
        longest = longest if isinstance(self.model, SeriesModel) else 0
        who = Adversary.BDP if redacted and self.adversary is Adversary.PUFFERFISH else self.adversary
        key = longest, clipped, redacted
        if key not in self._curves:
            alone = curve("independent", self.model, longest or None, who)
            # Nothing lies below the DP loss itself, so where it is the leakage no other curve is looked for.
            found = {alone.name: alone} if alone.applies else curves(self.model, longest or None, who)
            kept = {name: c for name, c in found.items() if clipped or c.holds_for == EVERY_ALGORITHM}
            self._curves[key] = lowest(kept)
        return self._curves[key]

    def allowed(self, state: State) -> float:
        """The most DP loss that all releases may have together; below 0 where redactions alone pass the budget."""
        redacted = state.private is not None
        key = state.longest, state.clipped, redacted, state.added
        if key not in self._allowed:
            rest = min(self.budget, LARGEST) - state.added
            if state.added:
                rest = math.nextafter(rest, -math.inf)  # the difference may be rounded up
            found = self.curve(state.longest, state.clipped, redacted).inverse(rest) if rest > 0 else 0.0
            self._allowed[key] = found if state.added <= self.budget else -math.inf
        return self._allowed[key]

    def leakage(self, state: State) -> float:
        """The total so far."""
        if not state.releases:
            return 0.0
        own = math.inf if state.epsilon is None else state.epsilon
        if state.spent > LARGEST:
            return own
        curve = self.curve(state.longest, state.clipped, state.private is not None)
        return min(own, add_up(state.added, curve(state.spent)))

    def within(self, state: State) -> bool:
        """Whether a state keeps the budget. Curves never fall, so the inverse answers for every smaller loss."""
        if state.epsilon is not None and state.epsilon <= self.budget:
            return True
        return state.spent <= self.allowed(state)

    def left(self, state: State) -> float | None:
        """The DP loss that one more release may have; None before anybody knows how long the chains are."""
        if not state.longest and isinstance(self.model, SeriesModel):
            return None
        return max(0.0, self.allowed(state) - state.spent)


def refuse_other_width(name: str, state: State, charge: Charge) -> None:
    """The promise about real numbers is for values one clipping width apart, so a data set has one width."""
    if charge.width is not None and state.width is not None and charge.width != state.width:
        raise RefusedError(
            f"the clipping width is {charge.width:.15g}, and data set {name!r} keeps its promise for values at most "
            f"{state.width:.15g} apart: clip to a range of that width, or make another data set",
            value=charge.width,
        )
