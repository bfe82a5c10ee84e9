"""What there is to say of a plan, a released answer and the answers of a fleet."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.words import interval_text, number
from pufferdp.models.units import Unit
from pufferdp.publish.answers import estimate
from pufferdp.publish.answers.certificate import statement
from pufferdp.publish.verdict import certified_verdict
from pufferdp.report.charts import Axis, Bar, BarKind, Bars, Chart, Line, Range, Rule, bar_chart, interval_chart, points
from pufferdp.report.page import Block, Figure, Medium, Page, Table, Words
from pufferdp.report.pages import common
from pufferdp.report.pages.leakage import multiplied

if TYPE_CHECKING:
    from pufferdp.assess.comparison import PlainDp
    from pufferdp.publish.answers.fleet import Fleet
    from pufferdp.publish.answers.plan import Plan
    from pufferdp.publish.answers.problem import Problem

REASONS: Final = "see text(verbose=True) or to_dict() for the reasons"
MOST_PEOPLE: Final = 20
"""Of a larger fleet the first are shown."""


def plan_comparison(plan: dict[str, Any]) -> Chart:
    """Expected error of each mechanism as bars: the best full, striped where there is no guarantee. Flows, too."""
    shown = [c for c in shown_candidates(plan["candidates"])[0] if c["expected_l1_error"]][::-1]
    errors = [c["expected_l1_error"] for c in shown]
    # As exponents: between the errors of an epsilon of 1000 and of group privacy lie more powers than a number holds.
    least = max(-300, math.floor(math.log10(min(errors, default=1.0)) - 0.1))
    span = math.log10(max(errors, default=10.0 ** (least + 1))) - least
    bars = []
    for c in shown:
        kind: BarKind = "full" if c["mechanism"] == plan["best"] else "pale" if c["applies"] else "hatched"
        note = {"full": " (best)", "hatched": " (no guarantee)"}.get(kind, "")
        error = c["expected_l1_error"]
        bars.append(Bar(name=c["mechanism"], value=error, kind=kind, words=f"{number(error)}{note}"))
    title = plan["query"] + (f", {plan['records']:,} records" if plan["records"] else "")
    if "tau" in plan:
        title += f", tau {plan['tau']:g}, eta {plan['eta']:g}, {plan['privacy']} privacy"
    else:
        title += f", epsilon {plan['epsilon']:g}{_beside(plan)}, adversary {plan['adversary']}"
    # Space for the number beside the longest bar.
    low, high = 10.0**least, 10.0 ** min(300.0, least + 1.45 * span)
    axis = Axis(name="expected error (sum over all numbers of the answer)", scale="log", low=low, high=high)
    return bar_chart(bars, axis, title=title, alt=f"Expected error of each mechanism for {title}")


def release_chart(certificate: dict[str, Any]) -> Chart:
    """The released numbers with the range in which, all together, the true ones lie."""
    answer = as_list(certificate["answer"])
    labels, accuracy, guarantee = certificate["labels"], certificate["accuracy"], certificate["guarantee"]
    alpha, sure, query = accuracy["alpha"], f"{1 - accuracy['beta']:.4g}", certificate["query"]["name"]
    spoken = "; ".join(f"{label} {number(value)}" for label, value in zip(labels, answer, strict=True))
    return interval_chart(
        labels,
        answer,
        ([value - alpha for value in answer], [value + alpha for value in answer]),
        Axis(name=query),
        Rule(at=0.0),
        title=f"epsilon {guarantee['epsilon']:g}{_beside(guarantee)}, adversary {guarantee['adversary']}, "
        f"{certificate['mechanism']['name']}; whiskers hold all true values with probability {sure}",
        alt=f"The released {query}: {spoken}. With probability {sure} every number errs by less than {number(alpha)}.",
    )


def page_from_certificate(certificate: dict[str, Any], comparison: PlainDp | None = None) -> Page:
    """A released answer, from its certificate."""
    g, query = certificate["guarantee"], certificate["query"]["name"]
    return common.certificate_page(
        certificate,
        title=f"Private release: {query} of {certificate['data']['column']}",
        lead=f", epsilon {number(g['epsilon'])}{_beside(g)}",
        verdict=(certified_verdict(certificate).sentence,),
        accuracy=_accuracy(certificate),
        own=(common.noise_sentence(certificate),),
        otherwise=common.plain_dp(comparison, g["epsilon"], "this release"),
    )


def _accuracy(certificate: dict[str, Any]) -> tuple[Block, ...]:
    accuracy = certificate["accuracy"]
    errors = (
        f"With probability {1 - accuracy['beta']:.4g} every released number errs by less than "
        f"{number(accuracy['alpha'])}. The expected error, added up over all numbers, is "
        f"{number(certificate['expected_l1_error'])}."
    )
    return (
        Words((errors,), Medium.PAGES),
        _released(certificate),
        *_if_the_model_is_right(certificate),
        Figure(make=lambda: release_chart(certificate), caption="The released numbers and the range of the true ones."),
    )


def _released(certificate: dict[str, Any]) -> Table:
    """The released numbers and their ranges, which hold without the model."""
    ranges = estimate.intervals(certificate)
    sure = f"{100 * ranges.probability:.4g} %"
    head = [certificate["query"]["name"].partition(":")[0], "released", f"{sure} interval"]
    columns = [_numbers(certificate["answer"]), _intervals(ranges.each.low, ranges.each.high)]
    if len(certificate["labels"]) > 1:
        head.append(f"{sure} simultaneous interval")
        columns.append(_intervals(ranges.all.low, ranges.all.high))
    head.append("adjusted")
    cells = [certificate["labels"], *columns, _numbers(certificate["estimate"])]
    caption = (
        "The released numbers, with confidence intervals from the noise alone, valid whether or not the model holds. "
        "Adjusted: the nearest possible answer"
    )
    return Table(caption=caption, head=tuple(head), rows=tuple(zip(*cells, strict=True)), least=8)


def _if_the_model_is_right(certificate: dict[str, Any]) -> tuple[Block, ...]:
    """The posterior, or why it is not shown; nothing where a warning says that the model hardly explains the answer."""
    model_estimate = certificate["model_estimate"]
    if model_estimate is None:
        return (Words((f"No model-based estimate: {estimate.why_no_model_estimate(certificate)}.",)),)
    if estimate.hardly_explained(model_estimate["surprise"]):
        return ()
    if unknown := estimate.why_not_shown(certificate):
        return (Words((f"No model-based estimate shown: {unknown}.",)),)
    credible = f"{100 * model_estimate['probability']:.4g} % credible interval"
    head = (certificate["query"]["name"].partition(":")[0], "posterior mean", credible)
    means, ranges = _numbers(model_estimate["mean"]), _intervals(model_estimate["low"], model_estimate["high"])
    rows = tuple(zip(certificate["labels"], means, ranges, strict=True))
    caption = "Model-based estimate, valid only if the model holds"
    return (Table(caption=caption, head=head, rows=rows, least=8),)


def _numbers(value: Any) -> list[str]:
    """One number or several, in words."""
    return [number(v) for v in as_list(value)]


def _intervals(low: Any, high: Any) -> list[str]:
    """One interval or several, in words."""
    return [interval_text(*ends) for ends in zip(as_list(low), as_list(high), strict=True)]


def as_list(value: Any) -> list[Any]:
    """One number or several, as several."""
    return value if isinstance(value, list) else [value]


def fleet_page(fleet: Fleet) -> Page:
    """The answers of a fleet, the first of them where there are many."""
    content = fleet.to_dict()
    releases = content["releases"]
    rows = []
    for release in releases[:MOST_PEOPLE]:
        certificate, answers = release["certificate"], as_list(release["answer"])
        shown = ", ".join(number(a) for a in answers[:4]) + (", …" if len(answers) > 4 else "")
        scale = number(certificate["noise"]["scale"])
        rows.append((release["person"], f"{certificate['data']['records']:,}", scale, shown))
    more = len(releases) - len(rows)
    count = f"{len(releases):,} {'person' if len(releases) == 1 else 'people'}"
    words = [f"{count}, each with the noise of their own model."]
    if content["absent"]:
        words.append(f"With a model and without a record: {', '.join(content['absent'][:10])}.")
    table = Table(
        caption="The released answers",
        head=("person", "records", "noise scale", "answer"),
        rows=tuple(rows),
        below=common.rows_left_out(more),
    )
    title = f"Private releases for {count}"
    return common.single_page(title, "The releases", table, Words(tuple(words)), data=content, kind="fleet")


def plan_verdict(plan: Plan, refused: Sequence[str] = ()) -> tuple[str, ...]:
    """Whether a release is possible and accurate enough to be useful, and what to do where it is not.

    ``refused`` are mechanisms that do not fit the budget of a ledger.
    """
    applying = [c for c in plan.candidates if c.applies]
    best = next((c for c in applying if c.mechanism not in refused), None)
    if not applying:
        return (
            "Not possible: no mechanism gives this guarantee here.",
            "Ask another query, choose another adversary, or use another model.",
        )
    if best is None:
        return (
            "Over budget: every mechanism that applies spends more than the budget has left.",
            "Lower ε, use other records, or use another data set.",
        )
    other = f"{best.mechanism} fits the remaining budget; {applying[0].mechanism} does not."
    return (plan.verdict_on(best).sentence, *([] if best is applying[0] else [other]))


def plan_guarantee(plan: Plan) -> str:
    """What a release by this plan would guarantee."""
    deltas = (c.get("delta", 0.0) for c in plan.to_dict()["candidates"] if c["applies"])
    return statement(plan.problem, next(deltas, 0.0))


def plan_page(plan: Plan, comparison: PlainDp | None = None, refused: Sequence[str] = ()) -> Page:
    """A plan: before any data is read."""
    content, problem = plan.to_dict(), plan.problem
    best = next((c for c in content["candidates"] if c["mechanism"] == content["best"]), None)
    limit = content["limit"]
    warnings = (hopeless(limit),) if limit is not None and limit["hopeless"] else ()
    accuracy = _candidates(content, best, warnings)
    return common.planned_page(
        content["query"],
        f"{_records(content)}epsilon {number(content['epsilon'])}{_beside(content)}",
        common.parts(
            (plan_guarantee(plan),), accuracy, *common.plain_dp(comparison, problem.epsilon, "a release by this plan")
        ),
        content,
        verdict=plan_verdict(plan, refused),
        opening=tuple(filter(None, (_plan_title(content), content.get("zone"), content["model_checks"]))),
        facts=(
            *common.plan_facts(problem.adversary, comparison),
            ("what decides", what_decides(best) if best else ""),
            *(("does not apply", reason) for reason in reasons(content)),
        ),
        warnings=warnings,
    )


def _beside(guaranteed: dict[str, Any]) -> str:
    """What a guarantee has beside its epsilon: a delta, or a period that it is about."""
    delta = f", delta {guaranteed['delta']:g}" if "delta" in guaranteed else ""
    delta += f" about {Unit(**guaranteed['unit']).words}" if "unit" in guaranteed else ""
    return delta + (f" about {guaranteed['secret']['words']}" if "secret" in guaranteed else "")


def _records(plan: dict[str, Any]) -> str:
    return f"{plan['records']:,} records, " if plan["records"] else ""


def _plan_title(plan: dict[str, Any]) -> str:
    over = f" over {plan['records']:,} records" if plan["records"] else ""
    knows = Adversary(plan["adversary"]).knows
    title = (
        f"{plan['query']}{over}, epsilon {number(plan['epsilon'])}{_beside(plan)}, for an adversary who knows {knows}"
    )
    if plan["secrets"]:
        title += "; secrets: " + "; ".join(f"{a} against {b}" for a, b in plan["secrets"])
    return title


def candidates_table(
    caption: str,
    plan: dict[str, Any],
    candidates: Sequence[dict[str, Any]],
    columns: Mapping[str, str],
    media: Medium = Medium.ALL,
) -> Table:
    """Mechanisms of a plan, with some of their numbers and the error bound."""
    beta = next((c["accuracy"]["beta"] for c in plan["candidates"] if c["accuracy"]), 0.05)
    rows = []
    for c in candidates:
        mark = "best" if c["mechanism"] == plan["best"] else "yes" if c["applies"] else "no"
        alpha = c["accuracy"]["alpha"] if c["accuracy"] else None
        rows.append((c["mechanism"], mark, *(number(c[name]) for name in columns), number(alpha)))
    head = ("mechanism", "applies", *columns.values(), f"{100 * (1 - beta):.4g} % error bound")
    return Table(caption=caption, head=head, rows=tuple(rows), left=2, media=media)


def _candidates(plan: dict[str, Any], best: dict[str, Any] | None, warnings: tuple[str, ...]) -> tuple[Block, ...]:
    shown, alike = shown_candidates(plan["candidates"])
    applying = [c for c in shown if c["applies"]]
    words = (
        ""
        if best is None
        else (
            f"The best mechanism is {best['mechanism']}: its error, added up over all numbers of the answer, is "
            f"expected to be {number(best['expected_l1_error'])}."
        )
    )
    columns = {"scale": "noise scale", "expected_l1_error": "expected error"}
    with_delta = tuple(
        f"{c['mechanism']} uses the delta of {c['delta']:g}; the others need none." for c in shown if "delta" in c
    )
    absent = sum(not c["applies"] for c in plan["candidates"])
    same = f"As much noise as one above: {', '.join(alike)}." if alike else ""
    notes: tuple[tuple[tuple[str, ...], Medium, str], ...] = (
        (_sentences(*(what_decides(c) for c in applying)), Medium.VERBOSE, ""),
        (_sentences(multiplied(plan["multiplies"])), Medium.TERMINAL, ""),
        (with_delta, Medium.TERMINAL, ""),
        (warnings, Medium.TERMINAL, ""),
        (_sentences(same), Medium.VERBOSE, ""),
        (reasons(plan), Medium.VERBOSE, "Does not apply:"),
        (_sentences(not_applying(absent)), Medium.BRIEF | Medium.NOTEBOOK, ""),
    )
    figure = Figure(make=lambda: plan_comparison(plan), caption=striped(plan))
    brief, whole = Medium.BRIEF | Medium.NOTEBOOK, Medium.VERBOSE | Medium.REPORT
    return (
        Words(_sentences(words), Medium.PAGES),
        candidates_table("The mechanisms that apply", plan, applying, columns, brief),
        candidates_table("Every mechanism on this problem", plan, shown, columns, whole),
        *((figure,) if any(c["expected_l1_error"] for c in shown) else ()),
        *(Words(sentences, media, heading) for sentences, media, heading in notes if sentences),
    )


def reasons(plan: dict[str, Any]) -> tuple[str, ...]:
    """Why mechanisms of a plan do not apply."""
    return tuple(f"{c['mechanism']}: {c['reason']}." for c in plan["candidates"] if c["reason"])


def _sentences(*sentences: str) -> tuple[str, ...]:
    return tuple(filter(None, sentences))


def striped(plan: dict[str, Any]) -> str:
    """What stripes mean in the chart of a plan; empty where no bar has any."""
    drawn = (c for c in shown_candidates(plan["candidates"])[0] if c["expected_l1_error"])
    return "" if all(c["applies"] for c in drawn) else "Striped: a mechanism that does not apply."


def not_applying(count: int) -> str:
    """How many mechanisms were left out, and where their reasons are."""
    return f"{count} {'mechanism does' if count == 1 else 'mechanisms do'} not apply: {REASONS}." if count else ""


def hopeless(limit: dict[str, Any]) -> str:
    """That no mechanism can do well, with the number, and what would help."""
    return (
        f"No mechanism can do well here: two data sets whose answers are {number(limit['apart'])} apart must look "
        f"alike, so for one of them an error of {number(limit['error'])} or more has a probability of at least "
        f"{limit['probability']:.2g}, whatever the mechanism. What would help: {limit['way_out']}."
    )


def shown_candidates(candidates: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """The candidates people look at, and the curves that need as much noise as one of them."""
    shown = [c for c in candidates if not c["mechanism"].startswith("curve-")]
    alike = []
    for c in (c for c in candidates if c["mechanism"].startswith("curve-") and c["applies"]):
        if any(other["applies"] and math.isclose(c["scale"], other["scale"], rel_tol=1e-9) for other in shown):
            alike.append(c["mechanism"])
        else:
            shown.append(c)
    return [c for c in candidates if c in shown], alike


def what_decides(candidate: dict[str, Any]) -> str:
    """What the noise of a mechanism rests on, in one sentence; empty where it does not say so."""
    quilt, transport, name = candidate["quilt"], candidate["transport"], candidate["mechanism"]
    if transport is not None and transport["first"] is None:
        return f"{name}: the answer does not depend on any secret, so it needs no noise."
    if transport is not None:
        far = number(transport["distance"])
        return f"{name} rests on: {transport['first']} or {transport['second']}, answers {far} apart."
    if quilt is None:
        return ""
    ends = ", ".join(str(end) for end in quilt["ends"]) or "none"
    rests = (
        f"{name} rests on: record {quilt['node']}, {number(quilt['nearby'])} nearby, ends {ends} "
        f"(influence {number(quilt['influence'])})."
    )
    if quilt["skipped"]:
        rests += f" {quilt['skipped']:,} quilts were too large to compute and left out."
    return rests


def posterior_chart(problem: Problem, noisy: float, scale: float) -> Chart:
    """Prior and posterior of an answer of one number, as bars; the noisy answer as a line."""
    posterior = estimate.answer_posterior(problem, noisy, scale)
    width = min((b - a for a, b in itertools.pairwise(posterior.points)), default=1.0)
    height = max(posterior.after) * 1.08
    low, high = posterior.low, posterior.high
    interval = f"{100 * estimate.PROBABILITY:g} % credible interval {number(low)}–{number(high)}"
    model_estimate = f"posterior mean {number(posterior.mean)}; {interval}"
    what = f"{problem.query.name}, {problem.records:,} records, noise of scale {number(scale)}"
    return Chart(
        title="pale: what the model alone expects",
        x=Axis(name=what),
        y=Axis(name="probability", low=0.0, high=height * 1.45),
        layers=(
            Bars(at=posterior.points, values=posterior.before, kind="pale", width=width),
            Line(x=posterior.points, y=posterior.after, step=True, label="the model and the noisy answer together"),
            Rule(at=noisy, along="x", series=1, label=f"the noisy answer, {number(noisy)}"),
            Range(at=(height,), low=(low,), high=(high,), along="x"),
            points([(posterior.mean, height)], label=model_estimate),
        ),
        alt=f"Prior and posterior of {what}, before and after the noisy answer {number(noisy)}: {model_estimate}.",
        legend="upper left",
    )
