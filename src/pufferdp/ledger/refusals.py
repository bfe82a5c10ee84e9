"""What a ledger refuses, and what would be possible instead."""

from __future__ import annotations

import math
from typing import Any

from pufferdp.checks import LARGEST, SMALLEST_EPSILON
from pufferdp.errors import BudgetError, RefusedError
from pufferdp.ledger.charges import Charge
from pufferdp.ledger.totals import Rule, State


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
        said = f"has spent a DP loss of {down(state.spent)} of at most {budget:g}"
        return BudgetError(f"data set {name!r} {said}, and this fit needs {charge.dp_loss:.4g}: spend less on it")
    leakage = rule.leakage(state)
    needs = "a DP loss without end" if math.isinf(charge.dp_loss) else f"a DP loss of {up(charge.dp_loss)}"
    said = (
        f"data set {name!r} has leaked at most {up(leakage)} of its budget {budget:g}, {down(budget - leakage)} is left"
    )
    if state.private is not None and math.isinf(state.spent):
        return BudgetError(
            f"{said}, but it was redacted with probabilities that depend on values, and no curve of its model holds "
            "after that: make a data set with the model that redact --tilted writes and the budget that is left",
            value=name,
        )
    if charge.private is not None and math.isinf(charge.dp_loss):
        return BudgetError(
            f"{said}; this redaction depends on values, and nothing may be released before or after it: redact with "
            "--method window, or make another data set",
            value=name,
        )
    if math.isinf(state.spent):
        return BudgetError(
            f"{said}, but its only release gave an answer that no DP loss bounds, and nothing adds to such an answer: "
            "the data set is used up",
            value=name,
        )
    left = rule.allowed(state.after(charge, "")) - state.spent
    if charge.leakage:
        return BudgetError(f"{said}; this redaction leaks {up(charge.leakage)}: redact more", value=name)
    if left <= 0:
        alone = "; a promise of its own counts for a single release only" if state.epsilon is not None else ""
        return BudgetError(
            f"{said}, and in DP loss nothing is left ({up(state.spent)} was spent){alone}: no release fits", value=name
        )
    parts = [f"{said}, in DP loss {down(left)}; this release needs {needs}"]
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
