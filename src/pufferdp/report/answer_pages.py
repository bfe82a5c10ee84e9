"""What a report says of a plan and of a released answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pufferdp.models.files import model_digest, model_from_dict
from pufferdp.report.blocks import Block, Shown, Table
from pufferdp.report.figures import plan_comparison, release_chart
from pufferdp.report.pages import Page, Section, leaks_otherwise, made_by, odds, promise, protected
from pufferdp.report.text import hopeless, listed, number, shown_candidates, surprise, what_decides

if TYPE_CHECKING:
    from pufferdp.planning import Plan


def answer_page(certificate: dict[str, Any], brief: bool = False) -> Page:
    """A released answer; in brief, without what leaks otherwise, which takes a while."""
    g, query, data = certificate["guarantee"], certificate["query"], certificate["data"]
    own = g["framework"] is not None
    longest = max((length for length, _ in data["lengths"]), default=None)
    model = model_from_dict(certificate["model"])
    about = protected(model, own, query["clip"])
    asked = None if query["clip"] else query["name"]
    otherwise = (
        () if brief else leaks_otherwise(model, g["epsilon"], g["adversary"], longest, asked, "this release", own)
    )
    noise = certificate["noise"]
    return Page(
        title=f"Private release: {query['name']} of {data['column']}",
        lead=f"{data['records']:,} records, epsilon {number(g['epsilon'])}, {certificate['created'][:10]}",
        sections=(
            Section(title="The promise", blocks=(promise(g["epsilon"], g["knows"], "these numbers", **about),)),
            Section(title="The accuracy", blocks=_accuracy(certificate)),
            *otherwise,
        ),
        words=(
            g["statement"],
            f"Protected: {g['secrets']}.",
            *(f"Taken to be public: {p}." for p in certificate["public"]),
        ),
        facts=(
            *made_by(certificate),
            ("adversary", f"{g['adversary']}: knows {g['knows']}"),
            (
                "noise",
                f"{noise['kind']}, scale {number(noise['scale'])}, Lipschitz constant {number(query['lipschitz'])}",
            ),
            (
                "what decides",
                what_decides({**certificate["calibration"], "mechanism": certificate["mechanism"]["name"]}),
            ),
        ),
        warnings=(*certificate["warnings"], *surprise(certificate)),
        data=certificate,
        certified=True,
    )


def _accuracy(certificate: dict[str, Any]) -> tuple[Block, ...]:
    accuracy, denoised = certificate["accuracy"], certificate["denoised"]
    head = [certificate["query"]["name"].partition(":")[0], "released", "nearest possible"]
    columns: list[list[str]] = [certificate["labels"]]
    columns += [[number(v) for v in listed(certificate[name])] for name in ("answer", "estimate")]
    if denoised is not None:
        head += ["denoised", f"{100 * denoised['probability']:.4g} % between", "and"]
        columns += [[number(v) for v in listed(denoised[name])] for name in ("mean", "low", "high")]
    said = (
        f"With probability {1 - accuracy['beta']:.4g} every released number errs by less than "
        f"{number(accuracy['alpha'])}. The expected error, added up over all numbers, is "
        f"{number(certificate['expected_l1_error'])}."
    )
    caption = "The released numbers. What stands to their right follows from them and the model, not from the data"
    rows = tuple(zip(*columns, strict=True))
    return (
        said,
        Table(caption=caption, head=tuple(head), rows=rows),
        Shown(chart=release_chart(certificate), caption="The released numbers and the range of the true ones."),
    )


def plan_page(plan: Plan, brief: bool = False) -> Page:
    """A plan: before any data is read."""
    found, problem = plan.to_dict(), plan.problem
    best = next(c for c in found["candidates"] if c["mechanism"] == found["best"])
    longest = problem.longest if problem.records else None
    own, asked = problem.secrets is not None, None if problem.query.clip else problem.query.name
    who, this = str(problem.adversary), "a release by this plan"
    otherwise = () if brief else leaks_otherwise(problem.model, problem.epsilon, who, longest, asked, this, own)
    records = f"{found['records']:,} records, " if found["records"] else ""
    about = protected(problem.model, own, problem.query.clip)
    limit = found["limit"]
    reasons = tuple(f"{c['mechanism']}: {c['reason']}." for c in found["candidates"] if c["reason"])
    return Page(
        title=f"Plan: {found['query']}",
        lead=f"{records}epsilon {number(found['epsilon'])}; no data was read",
        sections=(
            Section(
                title="The promise",
                blocks=(promise(problem.epsilon, problem.adversary.knows, "an answer released by this plan", **about),),
            ),
            Section(title="The accuracy", blocks=_candidates(found, best)),
            *otherwise,
        ),
        words=(
            f"A release by this plan bounds the shift of odds by a factor of at most {odds(problem.epsilon)}, for "
            f"whoever believes the model and knows {problem.adversary.knows}. The certificate of the release has the "
            "exact words; a plan promises nothing yet.",
        ),
        facts=(
            ("adversary", f"{found['adversary']}: knows {problem.adversary.knows}"),
            ("model", f"SHA-256 {model_digest(problem.model)}"),
            ("what decides", what_decides(best)),
            *(("does not apply", reason) for reason in reasons),
        ),
        warnings=(hopeless(limit),) if limit is not None and limit["hopeless"] else (),
        data=found,
        certified=False,
    )


def _candidates(found: dict[str, Any], best: dict[str, Any]) -> tuple[Block, ...]:
    beta = best["accuracy"]["beta"] if best["accuracy"] else 0.05
    rows = []
    for c in shown_candidates(found["candidates"])[0]:
        mark = "best" if c["mechanism"] == found["best"] else "yes" if c["applies"] else "no"
        alpha = c["accuracy"]["alpha"] if c["accuracy"] else None
        rows.append((c["mechanism"], mark, number(c["scale"]), number(c["expected_l1_error"]), number(alpha)))
    said = (
        f"The best mechanism is {best['mechanism']}: its error, added up over all numbers of the answer, is expected "
    )
    said += f"to be {number(best['expected_l1_error'])}."
    head = ("mechanism", "keeps the promise", "noise scale", "expected error", f"error below, {1 - beta:.4g} sure")
    return (
        said,
        Table(caption="Every mechanism on this problem", head=head, rows=tuple(rows)),
        Shown(chart=plan_comparison(found), caption="Striped: a mechanism that does not keep the promise."),
    )
