"""What there is to say of a plan, a released answer and the answers of a fleet."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.words import interval_text, number
from pufferdp.models.units import Unit
from pufferdp.publish.answers import estimate
from pufferdp.publish.certificate import adversary_text
from pufferdp.publish.verdict import certified_verdict
from pufferdp.report.charts import Axis, BarKind, Bars, Chart, Layer, Line, Points, Range, Rule, Text
from pufferdp.report.page import Block, Figure, Medium, Page, Section, Table, Words
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
    low, span = 10.0**least, math.log10(max(errors, default=10.0 ** (least + 1))) - least
    layers: list[Layer] = []
    spoken = []
    for y, (c, error) in enumerate(zip(shown, errors, strict=True)):
        best = c["mechanism"] == plan["best"]
        kind: BarKind = "full" if best else "pale" if c["applies"] else "hatched"
        note = {"full": "best", "hatched": "no guarantee"}.get(kind, "")
        layers.append(Bars(at=(y,), values=(error,), kind=kind, start=low))
        layers.append(Text(x=error, y=y, words="  ".join(filter(None, (number(error), note))), align="left", right=5))
        spoken.append(f"{c['mechanism']} {number(error)}" + (f" ({note})" if note else ""))
    title = plan["query"] + (f", {plan['records']:,} records" if plan["records"] else "")
    if "tau" in plan:
        title += f", tau {plan['tau']:g}, eta {plan['eta']:g}, {plan['privacy']} privacy"
    else:
        title += f", epsilon {plan['epsilon']:g}{_beside(plan)}, adversary {plan['adversary']}"
    return Chart(
        title=title,
        x=Axis(
            name="expected error (sum over all numbers of the answer)",
            scale="log",
            low=low,
            high=10.0 ** min(300.0, least + 1.45 * span),  # space for the number beside the longest bar
        ),
        y=Axis(scale="names", names=tuple(c["mechanism"] for c in shown)),
        layers=tuple(layers),
        alt=f"Expected error of each mechanism for {title}: {'; '.join(reversed(spoken))}.",
        height=1.3 + 0.42 * len(shown),
    )


def release_chart(certificate: dict[str, Any]) -> Chart:
    """The released numbers with the range in which, all together, the true ones lie."""
    answer = as_list(certificate["answer"])
    labels, accuracy, guarantee = certificate["labels"], certificate["accuracy"], certificate["guarantee"]
    alpha, sure = accuracy["alpha"], f"{1 - accuracy['beta']:.4g}"
    places = tuple(float(n) for n in range(len(answer)))
    spoken = "; ".join(f"{label} {number(value)}" for label, value in zip(labels, answer, strict=True))
    return Chart(
        title=f"epsilon {guarantee['epsilon']:g}{_beside(guarantee)}, adversary {guarantee['adversary']}, "
        f"{certificate['mechanism']['name']}; whiskers hold all true values with probability {sure}",
        x=Axis(scale="names", names=tuple(labels)),
        y=Axis(name=certificate["query"]["name"]),
        layers=(
            Bars(at=places, values=tuple(answer), kind="pale"),
            Range(at=places, low=tuple(v - alpha for v in answer), high=tuple(v + alpha for v in answer)),
            Rule(at=0.0),
        ),
        alt=f"The released {certificate['query']['name']}: {spoken}. With probability {sure} every number errs by less "
        f"than {number(alpha)}.",
        width=min(max(5.0, 1.6 + 0.5 * len(answer)), 11.0),
        height=4.0,
    )


def page_from_certificate(certificate: dict[str, Any], comparison: PlainDp | None = None) -> Page:
    """A released answer, from its certificate."""
    g, query, noise = (certificate[name] for name in ("guarantee", "query", "noise"))
    # The certificate says itself where the guarantee is about values within the clipping width.
    width = query["clip"][1] - query["clip"][0] if query["clip"] and "differ by at most" in g["secrets"] else None
    about = common.secret_words(g["framework"] is not None, width, g.get("unit"))
    delta = g.get("delta", 0.0)
    guarantee = common.guarantee_words(g["epsilon"], g["knows"], "these numbers", **about, delta=delta)
    words = Words(common.guarantee_sentences(certificate), Medium.TERMINAL)
    balanced = ", adding up to 0" if noise.get("balanced") else ""
    decides = what_decides({**certificate["calibration"], "mechanism": certificate["mechanism"]["name"]})
    lipschitz = number(query["lipschitz"])
    return common.certificate_page(
        certificate,
        title=f"Private release: {query['name']} of {certificate['data']['column']}",
        lead=f", epsilon {number(g['epsilon'])}{_beside(g)}",
        verdict=(certified_verdict(certificate).sentence,),
        sections=(
            Section(title="The guarantee", blocks=(guarantee,)),
            Section(title="The accuracy", blocks=_accuracy(certificate)),
            Section(title="In the words of the certificate", blocks=(words,)),
            *common.plain_dp(comparison, g["epsilon"], "this release"),
        ),
        facts=(
            ("noise", f"{noise['kind']}{balanced}, scale {number(noise['scale'])}, Lipschitz constant {lipschitz}"),
            ("what decides", decides),
            *_surprise(certificate),
        ),
    )


def guarantee_blocks(certificate: dict[str, Any]) -> tuple[Block, ...]:
    """What the certificate of an answer guarantees."""
    return (Words(common.guarantee_sentences(certificate)),)


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


def _surprise(certificate: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Where the model hardly explains the answer: how likely it thinks the number that lies furthest out."""
    model_estimate, labels = certificate["model_estimate"], certificate["labels"]
    if model_estimate is None or not estimate.hardly_explained(model_estimate["surprise"]):
        return ()
    far = as_list(model_estimate["surprise"])
    least = min(far)
    rare = f"at most {number(least)}" if least <= estimate.LEAST_SURPRISE else number(least)
    return (("surprise", f"{labels[far.index(least)]}: under the model one so far out has probability {rare}"),)


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
        below=f"… and {more:,} more" if more else "",
    )
    return Page(
        title=f"Private releases for {count}",
        sections=(Section(title="The releases", blocks=(table, Words(tuple(words)))),),
        data=content,
        kind="fleet",
    )


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


def plan_guarantee(plan: Plan) -> Words:
    """What a release by this plan would guarantee."""
    problem, content, sees = plan.problem, plan.to_dict(), "an answer released by this plan"
    best = next((c for c in content["candidates"] if c["mechanism"] == content["best"]), None)
    clip = problem.query.clip
    width = clip[1] - clip[0] if clip is not None and problem.model.real_valued else None
    about = common.secret_words(problem.secrets is not None, width, content.get("unit"), content.get("secret"))
    delta = 0.0 if best is None else best.get("delta", 0.0)
    return common.guarantee_words(problem.epsilon, problem.adversary.knows, sees, **about, delta=delta)


def plan_page(plan: Plan, comparison: PlainDp | None = None, refused: Sequence[str] = ()) -> Page:
    """A plan: before any data is read."""
    content, problem = plan.to_dict(), plan.problem
    best = next((c for c in content["candidates"] if c["mechanism"] == content["best"]), None)
    bounded = f"probabilities, but for a delta of {best['delta']:g}," if best and "delta" in best else "odds"
    limit = content["limit"]
    warnings = (hopeless(limit),) if limit is not None and limit["hopeless"] else ()
    reasons = tuple(f"{c['mechanism']}: {c['reason']}." for c in content["candidates"] if c["reason"])
    digest = () if comparison is None else (("model", f"SHA-256 {comparison.model_sha256}"),)
    return Page(
        title=f"Plan: {content['query']}",
        lead=f"{_records(content)}epsilon {number(content['epsilon'])}{_beside(content)}; no data was read",
        verdict=plan_verdict(plan, refused),
        opening=tuple(filter(None, (_plan_title(content), content.get("zone"), content["model_checks"]))),
        sections=(
            Section(title="The guarantee", blocks=(plan_guarantee(plan),)),
            Section(title="The accuracy", blocks=_candidates(content, best, warnings)),
            *common.plain_dp(comparison, problem.epsilon, "a release by this plan"),
        ),
        words=(
            f"A release by this plan changes {bounded} by at most a factor of {common.odds(problem.epsilon)}. "
            f"{adversary_text(problem.adversary.knows)} The certificate of the release has the exact guarantee; "
            "a plan guarantees nothing.",
        ),
        facts=(
            ("adversary", f"{content['adversary']}: knows {problem.adversary.knows}"),
            *digest,
            ("what decides", what_decides(best) if best else ""),
            *(("does not apply", reason) for reason in reasons),
        ),
        warnings=warnings,
        data=content,
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


def _candidates(plan: dict[str, Any], best: dict[str, Any] | None, warnings: tuple[str, ...]) -> tuple[Block, ...]:
    beta = next((c["accuracy"]["beta"] for c in plan["candidates"] if c["accuracy"]), 0.05)
    shown, alike = shown_candidates(plan["candidates"])
    rows = []
    for c in shown:
        mark = "best" if c["mechanism"] == plan["best"] else "yes" if c["applies"] else "no"
        alpha = c["accuracy"]["alpha"] if c["accuracy"] else None
        rows.append((c["mechanism"], mark, number(c["scale"]), number(c["expected_l1_error"]), number(alpha)))
    words = (
        ""
        if best is None
        else (
            f"The best mechanism is {best['mechanism']}: its error, added up over all numbers of the answer, is "
            f"expected to be {number(best['expected_l1_error'])}."
        )
    )
    head = ("mechanism", "applies", "noise scale", "expected error", f"{100 * (1 - beta):.4g} % error bound")
    reasons = tuple(f"{c['mechanism']}: {c['reason']}." for c in plan["candidates"] if c["reason"])
    with_delta = tuple(
        f"{c['mechanism']} uses the delta of {c['delta']:g}; the others need none." for c in shown if "delta" in c
    )
    absent = sum(not c["applies"] for c in plan["candidates"])
    same = f"As much noise as one above: {', '.join(alike)}." if alike else ""
    notes: tuple[tuple[tuple[str, ...], Medium, str], ...] = (
        (_sentences(*(what_decides(c) for c in shown if c["applies"])), Medium.VERBOSE, ""),
        (_sentences(multiplied(plan["multiplies"])), Medium.TERMINAL, ""),
        (with_delta, Medium.TERMINAL, ""),
        (warnings, Medium.TERMINAL, ""),
        (_sentences(same), Medium.VERBOSE, ""),
        (reasons, Medium.VERBOSE, "Does not apply:"),
        (_sentences(not_applying(absent)), Medium.BRIEF | Medium.NOTEBOOK, ""),
    )
    figure = Figure(make=lambda: plan_comparison(plan), caption=striped(plan))
    applying = tuple(row for row in rows if row[1] != "no")
    brief, whole = Medium.BRIEF | Medium.NOTEBOOK, Medium.VERBOSE | Medium.REPORT
    return (
        Words(_sentences(words), Medium.PAGES),
        Table(caption="The mechanisms that apply", head=head, rows=applying, left=2, media=brief),
        Table(caption="Every mechanism on this problem", head=head, rows=tuple(rows), left=2, media=whole),
        *((figure,) if any(c["expected_l1_error"] for c in shown) else ()),
        *(Words(sentences, media, heading) for sentences, media, heading in notes if sentences),
    )


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
            Points(x=(posterior.mean,), y=(height,), label=model_estimate),
        ),
        alt=f"Prior and posterior of {what}, before and after the noisy answer {number(noisy)}: {model_estimate}.",
        legend="upper left",
    )
