"""The one rule: total leakage is the leakage curve at the summed DP loss; a single release keeps its own promise.

Guarantees of Bayesian DP and Pufferfish do not add up (docs/guide/budget.md has two examples), DP losses do. So losses
are added, and the curve of the data set's model and adversary is read once, at the longest chain ever released from.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.checks import LARGEST, SMALLEST_EPSILON
from pufferdp.basics.errors import BudgetError, RefusedError
from pufferdp.basics.files import canonical_json
from pufferdp.leakage.curves import EVERY_ALGORITHM, Lowest, curve, curves, lowest
from pufferdp.ledger.charge import Charge
from pufferdp.ledger.flow_budget import add_taus, reading_of
from pufferdp.models.base import Model


@dataclass(frozen=True, slots=True)
class State:
    """Where a data set stands after some rows."""

    head: str
    """Hash of the last row; of the definition before there is any."""
    model: str | None
    """Digest of the model; None until one is adopted."""
    position: int = 0
    """Rows so far, adopted models among them."""
    releases: int = 0
    """Charges so far: rows without the adopted models."""
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
        """The state after one more charge.

        A redaction that was designed together with the one before leaks what both do: it takes that one's place.
        """
        joint = charge.together is not None
        return State(
            head,
            self.model,
            self.position + 1,
            self.releases + 1,
            add_up(self.spent, charge.dp_loss),
            max(self.longest, charge.longest),
            charge.epsilon if self.releases == 0 or (joint and self.epsilon is not None) else None,
            charge.width if self.width is None else self.width,
            self.clipped and (charge.width is not None or charge.private is not None),
            max(self.added, charge.leakage) if joint else add_up(self.added, charge.leakage),
            charge.private if self.private is None or joint else self.private,
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
        longest = longest if self.model.needs_length else 0
        adversary = Adversary.BDP if redacted and self.adversary is Adversary.PUFFERFISH else self.adversary
        key = longest, clipped, redacted
        if key not in self._curves:
            alone = curve("independent", self.model, longest or None, adversary)
            # Nothing lies below the DP loss itself, so where it is the leakage no other curve is looked for.
            curves_by_name = {alone.name: alone} if alone.applies else curves(self.model, longest or None, adversary)
            candidates = {name: c for name, c in curves_by_name.items() if clipped or c.holds_for == EVERY_ALGORITHM}
            self._curves[key] = lowest(candidates)
        return self._curves[key]

    def allowed(self, state: State) -> float:
        """The most DP loss that all releases may have together; below 0 where redactions alone pass the budget."""
        redacted = state.private is not None
        key = state.longest, state.clipped, redacted, state.added
        if key not in self._allowed:
            rest = min(self.budget, LARGEST) - state.added
            if state.added:
                rest = math.nextafter(rest, -math.inf)  # the difference may be rounded up
            loss = self.curve(state.longest, state.clipped, redacted).inverse(rest) if rest > 0 else 0.0
            self._allowed[key] = loss if state.added <= self.budget else -math.inf
        return self._allowed[key]

    def leakage(self, state: State) -> float:
        """The most that all releases up to this state leak together."""
        if not state.releases:
            return 0.0
        own = math.inf if state.epsilon is None else state.epsilon
        if state.spent > LARGEST:
            return own
        curve = self.curve(state.longest, state.clipped, state.private is not None)
        return min(own, add_up(state.added, curve(state.spent)))

    def in_budget(self, state: State) -> bool:
        """Whether a state keeps the budget. Curves never fall, so the inverse answers for every smaller loss."""
        if state.epsilon is not None and state.epsilon <= self.budget:
            return True
        return state.spent <= self.allowed(state)

    def left(self, state: State) -> float | None:
        """The DP loss that one more release may have; None before anybody knows how long the chains are."""
        if not state.longest and self.model.needs_length:
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


def refuse_other_model(
    name: str, definition: dict[str, Any], state: State, model: str | None, adversary: str | None
) -> None:
    """A data set has one model and one adversary; losses add up for any, but the total is read for these."""
    if model is not None and state.model is None:
        raise RefusedError(
            f"data set {name!r} has no model yet, so nothing can be said about what a release leaks: "
            f"fit one with fit --dp-epsilon, or make the data set with a model",
            value=name,
        )
    if model is not None and model != state.model:
        raise RefusedError(
            f"the release is for the model {model[:12]}…, and data set {name!r} keeps its budget for "
            f"{str(state.model)[:12]}…: a total is for one model, so release with that one (bins included), or make "
            "another data set",
            value=model,
        )
    if adversary is not None and adversary != definition["adversary"]:
        raise RefusedError(
            f"the release is for the adversary {adversary}, and data set {name!r} keeps its budget for "
            f"{definition['adversary']}: release with --adversary {definition['adversary']}, or make another data set",
            value=adversary,
        )


def refuse_other_secrets(name: str, definition: dict[str, Any], state: State, charge: Charge) -> None:
    """Redactions: all of one data set keep the same records private, and leakages add for those who know records."""
    if charge.together is not None:
        _refuse_other_earlier(name, state, charge)
        return
    if charge.private is None or state.private is None:
        return
    if charge.private != state.private:
        raise RefusedError(
            f"the redaction keeps {charge.private} private, and data set {name!r} keeps {state.private}: what was "
            "released before is no secret any more, so redact for the same records, or design both redactions together "
            "with --after and --published",
            value=charge.private,
        )
    if definition["adversary"] == "pufferfish":
        raise RefusedError(
            f"data set {name!r} was redacted before, and what a second redaction leaks was computed for somebody who "
            "knows no record, which nobody is any more: design both together with --after and --published, or keep the "
            "budget for bdp",
            value=charge.private,
        )


def _refuse_other_earlier(name: str, state: State, charge: Charge) -> None:
    """Two redactions designed together leak what was computed, if the first is the only one before."""
    before = charge.facts.get("earlier", 0.0)
    leaked = state.epsilon if state.spent > LARGEST else state.added
    if state.private != charge.together or before is None or leaked is None or leaked > max(before, SMALLEST_EPSILON):
        raise RefusedError(
            f"the redaction was designed together with one that keeps {charge.together} private and leaks "
            f"{up(before or 0.0)}; data set {name!r} keeps {state.private or 'every record'} private and redactions "
            f"leaked {up(leaked or 0.0)}: name the certificate of the last redaction with --after",
            value=charge.together,
        )


def over_budget(name: str, definition: dict[str, Any], state: State, charge: Charge, rule: Rule | None) -> BudgetError:
    """What is left, and what would fit."""
    budget = definition["budget"]
    if rule is None:
        words = f"has spent a DP loss of {down(state.spent)} of at most {budget:g}"
        return BudgetError(f"data set {name!r} {words}, and this fit needs {charge.dp_loss:.4g}: spend less on it")
    leakage = rule.leakage(state)
    needs = "a DP loss without end" if math.isinf(charge.dp_loss) else f"a DP loss of {up(charge.dp_loss)}"
    words = (
        f"data set {name!r} has leaked at most {up(leakage)} of its budget {budget:g}, {down(budget - leakage)} is left"
    )
    if state.private is not None and math.isinf(state.spent):
        return BudgetError(
            f"{words}, but it was redacted with probabilities that depend on values, and no curve of its model holds "
            "after that: make a data set with the model that redact --tilted writes and the budget that is left",
            value=name,
        )
    if charge.private is not None and math.isinf(charge.dp_loss):
        return BudgetError(
            f"{words}; this redaction depends on values, and nothing may be released before or after it: redact with "
            "--method window, or make another data set",
            value=name,
        )
    if math.isinf(state.spent):
        return BudgetError(
            f"{words}, but its only release gave an answer that no DP loss bounds, and nothing adds to such an answer: "
            "the data set is used up",
            value=name,
        )
    left = rule.allowed(state.after(charge, "")) - state.spent
    if charge.leakage:
        return BudgetError(f"{words}; this redaction leaks {up(charge.leakage)}: redact more", value=name)
    if left <= 0:
        alone = "; a promise of its own counts for a single release only" if state.epsilon is not None else ""
        return BudgetError(
            f"{words}, and in DP loss nothing is left ({up(state.spent)} was spent){alone}: no release fits",
            value=name,
        )
    parts = [f"{words}, in DP loss {down(left)}; this release needs {needs}"]
    lipschitz = charge.facts.get("lipschitz")
    if isinstance(lipschitz, (int, float)):
        parts.append(f"noise of scale {up(lipschitz / left)} would fit")
    fits = fitting(rule, charge, left)
    if fits is not None:
        epsilon, mechanism = fits
        parts.append(f"as with --epsilon {epsilon:.10g} --mechanism {mechanism}")
    if charge.kind == "flip":
        others = len(charge.facts["channel"]) - 1
        parts.append(f"records that change with a probability of {up(others / (others + math.exp(left)))} would fit")
    return BudgetError(f"{parts[0]}: {', '.join(parts[1:]) or 'spend less on it'}", value=name, left=left)


def fitting(rule: Rule, charge: Charge, left: float) -> tuple[float, str] | None:
    """An epsilon and a mechanism whose DP loss is no more than ``left``, for a release like this one."""
    if charge.kind != "additive" or left > LARGEST:
        return None
    curve = rule.curve(charge.longest, charge.width is not None)
    # A little less, so that the loss that belongs to it is less than what is left.
    epsilon = _digits(curve(left) * (1 - 1e-9), math.floor)
    which = curve.which(left)
    if epsilon < 1e-9 or not 0 < which.inverse(epsilon) < left:
        return None
    return epsilon, f"curve-{which.name}"


def up(value: float) -> str:
    """Four digits, never less than the value."""
    return f"{_digits(value, math.ceil):.10g}" if 0 < value < math.inf else f"{value:g}"


def down(value: float) -> str:
    """Four digits, never more than the value."""
    return f"{_digits(value, math.floor):.10g}" if 0 < value < math.inf else f"{max(value, 0):g}"


def _digits(value: float, way: Any) -> float:
    if value <= 0:
        return 0.0
    places = 3 - math.floor(math.log10(value))
    return float(way(value * 10.0**places) / 10.0**places)
