"""What a data set refuses, with the value, the rule and the way out: other models, other records, too much."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from pufferdp.basics.checks import LARGEST, SMALLEST_EPSILON
from pufferdp.basics.errors import BudgetError, RefusedError
from pufferdp.bounds.curve_forms import Lowest
from pufferdp.data.ranges import EVERYTHING, Ranges, moment_text
from pufferdp.ledger.charge import Charge
from pufferdp.ledger.record_sums import Piece, RecordSums, add_up
from pufferdp.ledger.segments import ends_of, segment_text
from pufferdp.ledger.totals import Rule, State, charged_on, left_over


def refuse_other_width(name: str, state: State, charge: Charge) -> None:
    """The guarantee about real numbers is for values one clipping width apart, so a data set has one width."""
    if charge.width is not None and state.width is not None and charge.width != state.width:
        raise RefusedError(
            f"the clipping width is {charge.width:.15g}, and data set {name!r} keeps its guarantee for values at most "
            f"{state.width:.15g} apart: clip to a range of that width, or make another data set",
            value=charge.width,
        )


def refuse_other_model(
    name: str, definition: dict[str, Any], state: State, model: str | None, adversary: str | None
) -> None:
    """A data set has one model and one adversary; losses add up for any, but the total is read for these."""
    if model is not None and model != state.model:
        raise RefusedError(
            f"the release is for the model {model[:12]}…, and data set {name!r} keeps its budget for "
            f"{state.model[:12]}…: a total is for one model, so release with that one (bins included), or make "
            "another data set",
            value=model,
        )
    if adversary is not None and adversary != definition["adversary"]:
        raise RefusedError(
            f"the release is for the adversary {adversary}, and data set {name!r} keeps its budget for "
            f"{definition['adversary']}: release with adversary={definition['adversary']!r}, or make another data set",
            value=adversary,
        )


def refuse_other_secrets(name: str, definition: dict[str, Any], state: State, charge: Charge) -> None:
    """Redactions: all of one data set keep the same records private, and leakages add for those who know records."""
    if charge.private is not None and definition.get("unit") is not None:
        raise RefusedError(
            f"what a redaction leaks is about records, and the budget of data set {name!r} is about whole periods "
            f"({definition['unit']['name']}): charge it to a data set without a unit",
            value=charge.private,
        )
    if charge.together is not None:
        _refuse_other_earlier(name, state, charge)
        return
    if charge.private is None or state.private is None:
        return
    if charge.private != state.private:
        raise RefusedError(
            f"the redaction keeps {charge.private} private, and data set {name!r} keeps {state.private}: what was "
            "released before is no longer secret, so redact for the same records, or design both redactions together "
            "with after= and published=",
            value=charge.private,
        )
    if definition["adversary"] == "pufferfish":
        raise RefusedError(
            f"data set {name!r} was redacted before, and what a second redaction leaks was computed for one who "
            "knows no record, and everybody knows some by now: design both together with after= and published=, or "
            "keep the budget for bdp",
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
            f"leaked {up(leaked or 0.0)}: name the certificate of the last redaction with after=",
            value=charge.together,
        )


def refuse_other_ranges(name: str, state: State, ranges: Ranges) -> None:
    """A record is known by its person and its place in the order; both must mean the same in every charge."""
    for what, before, now in (("order", state.order, ranges.order), ("by", state.by, ranges.by)):
        if before is not None and now is not None and before != now:
            raise RefusedError(
                f"{what} is {now!r}, and data set {name!r} knows its records by {before!r}: read with "
                f"{what}={before!r}, or charge every record by leaving out {what}=",
                value=now,
            )
    if state.order is not None and ranges.order is not None and state.unit != ranges.unit:
        kinds = {"number": "numbers", "time": "times without a time zone", "utc": "times in universal time"}
        raise RefusedError(
            f"the column {ranges.order!r} holds {kinds[ranges.unit]}, and data set {name!r} was charged on "
            f"{kinds[str(state.unit)]}: which records are the same cannot be told, so bring the column to the same "
            "kind, or charge every record by leaving out order=",
            value=ranges.unit,
        )


def refuse_delta(name: str, definition: dict[str, Any], delta: float) -> None:
    """A pure budget allows no delta."""
    if delta and not definition.get("delta"):
        raise RefusedError(
            f"the release has a delta of {delta:g}, and data set {name!r} keeps a pure budget: leave delta= out, or "
            "make a data set with budget= and delta=",
            value=delta,
        )


def span_words(piece: Piece, state: State) -> str:
    """A segment for people: `` from … to …`` or `` on …``; nothing for all of time."""
    unit = state.unit or "number"
    words = segment_text(*(moment_text(end, unit) for end in ends_of(piece[0], piece[1], unit)))
    return f" {words}" if words else ""


def over_budget(
    name: str,
    definition: dict[str, Any],
    state: State,
    then: State,
    charge: Charge,
    rule: Rule,
    sums: RecordSums,
    made_for: Rule | None = None,
) -> BudgetError:
    """What is left on the records that were read, and what would fit.

    Args:
        name: of the data set.
        definition: of the data set.
        state: before the charge.
        then: the state that there would be.
        charge: what does not fit.
        rule: of the data set.
        sums: of single records, before the charge.
        made_for: the rule of the data set that is charged, where it is another one of the same records.
    """
    budget = definition["budget"]
    spent, place = state.spent, ""
    if state.has_ranges and charged_on(charge) != EVERYTHING:
        worst = sums.largest(charge.ranges)
        spent, place = add_up(state.everywhere or 0.0, worst[2]), span_words(worst, state)
    leakage = rule.leakage(replace(state, spent=spent, longest=then.longest)) if place else rule.leakage(state)
    needs = "a DP loss without end" if math.isinf(charge.dp_loss) else f"a DP loss of {up(charge.dp_loss)}"
    words = (
        f"data set {name!r} has leaked at most {up(leakage)} of its budget {budget:g}{place}, "
        f"{down(left_over(budget, leakage, rule.searched(then)))} is left{' there' if place else ''}"
    )
    if state.private is not None and math.isinf(state.spent):
        return BudgetError(
            f"{words}, but it was redacted with probabilities that depend on values, and no curve of its model holds "
            "after that: make a data set with the tilted model and the budget that is left",
            value=name,
        )
    if charge.private is not None and math.isinf(charge.dp_loss):
        return BudgetError(
            f"{words}; this redaction depends on values, and nothing may be released before or after it: redact with "
            "method='window', or make another data set",
            value=name,
        )
    if math.isinf(state.spent):
        return BudgetError(
            f"{words}, but its only release gave an answer that no DP loss bounds, and nothing adds to such an answer: "
            "the data set is used up",
            value=name,
        )
    left = rule.left(then, spent) or 0.0
    if charge.leakage:
        return BudgetError(f"{words}; this redaction leaks {up(charge.leakage)}: redact more", value=name)
    if left <= 0:
        alone = "; a guarantee of its own counts for a single release only" if state.epsilon is not None else ""
        return BudgetError(
            f"{words}, and in DP loss nothing is left ({up(spent)} was spent){alone}: no release fits",
            value=name,
        )
    if charge.dp_loss <= left and charge.dp_delta:
        remaining = max(0.0, rule.allowed_delta(then) - state.deltas)
        return BudgetError(
            f"{words}, in DP loss {down(left)}, and its delta {definition['delta']:g} leaves {down(remaining)} "
            f"in DP; this release needs {up(charge.dp_delta)}: ask for a smaller delta=, or for none",
            value=name,
        )
    parts = [f"{words}, in DP loss {down(left)}; this release needs {needs}"]
    lipschitz = charge.facts.get("lipschitz")
    if charge.kind == "fit":
        parts.append(f"dp_epsilon={down(left)} would fit")
    elif isinstance(lipschitz, (int, float)):
        parts.append(f"noise of scale {up(lipschitz / left)} would fit")
    fits = fitting(made_for or rule, charge, left)
    if fits is not None:
        epsilon, mechanism = fits
        alone = f"as with epsilon={epsilon:.10g}, mechanism='{mechanism}'"
        parts.append(f"epsilon={epsilon:.10g} would fit" if charge.kind == "table" else alone)
    if charge.kind == "flip":
        others = len(charge.facts["channel"]) - 1
        parts.append(f"records that change with a probability of {up(others / (others + math.exp(left)))} would fit")
    return BudgetError(f"{parts[0]}: {', '.join(parts[1:]) or 'spend less on it'}", value=name, left=left)


def fitting(rule: Rule, charge: Charge, left: float) -> tuple[float, str] | None:
    """An epsilon and a mechanism whose DP loss is no more than ``left``, for a release like this one."""
    if charge.kind not in ("additive", "table") or left > LARGEST:
        return None
    return _largest_guarantee(rule.curve(charge.longest, charge.width is not None), left)


@dataclass(frozen=True)
class Remaining:
    """What is left for one more release."""

    dp_loss: float
    epsilon: float | None
    """The largest guarantee that fits by a curve; None where none does."""
    mechanism: str | None


def remaining_for(rule: Rule, then: State, spent: float, most: float = math.inf) -> Remaining:
    """What is left beside what was spent, read for the state that there would be; no more than ``most``."""
    left = min(rule.left(then, spent) or 0.0, most)
    guarantee = _largest_guarantee(rule.curve_at(then), left) if 0 < left <= LARGEST else None
    if guarantee is not None and not spent and not then.added and left < most:
        guarantee = rule.budget, guarantee[1]  # all of it, and not a little less
    return Remaining(left, *(guarantee or (None, None)))


def _largest_guarantee(curve: Lowest, left: float) -> tuple[float, str] | None:
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
