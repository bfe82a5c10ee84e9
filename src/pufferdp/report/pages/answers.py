"""What a report says of a plan and of a released answer."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.basics.words import number
from pufferdp.leakage.laws.wasserstein import Pairs, coupling
from pufferdp.models.files.json import model_digest, model_from_dict
from pufferdp.publish.answers.denoise import PROBABILITY, answer_prior, posterior, summary
from pufferdp.publish.answers.problem import Problem
from pufferdp.report.charts import Axis, BarKind, Bars, Chart, Layer, Line, Points, Range, Rule, Text
from pufferdp.report.draw.matplotlib import drawing, write
from pufferdp.report.page import Block, Page, Section, Shown, Table
from pufferdp.report.pages.common import leaks_otherwise, made_by, odds, promise, protected
from pufferdp.report.text import hopeless, listed, shown_candidates, surprise, what_decides
from pufferdp.report.theme import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pufferdp.publish.answers.laws import AnswerLaw
    from pufferdp.publish.answers.plan import Plan


def plan_comparison(plan: dict[str, Any]) -> Chart:
    """Expected error of each mechanism as bars: the best full, striped where there is no guarantee. Flows, too."""
    shown = [c for c in shown_candidates(plan["candidates"])[0] if c["expected_l1_error"]][::-1]
    errors = [c["expected_l1_error"] for c in shown]
    low = 10.0 ** math.floor(math.log10(min(errors, default=1.0)) - 0.1)
    layers: list[Layer] = []
    said = []
    for y, (c, error) in enumerate(zip(shown, errors, strict=True)):
        best = c["mechanism"] == plan["best"]
        kind: BarKind = "full" if best else "pale" if c["applies"] else "hatched"
        note = {"full": "best", "hatched": "no guarantee"}.get(kind, "")
        layers.append(Bars(at=(y,), values=(error,), kind=kind, start=low))
        layers.append(Text(x=error, y=y, words="  ".join(filter(None, (number(error), note))), align="left", right=5))
        said.append(f"{c['mechanism']} {number(error)}" + (f" ({note})" if note else ""))
    title = plan["query"] + (f", {plan['records']:,} records" if plan["records"] else "")
    if "tau" in plan:
        title += f", tau {plan['tau']:g}, eta {plan['eta']:g}, {plan['privacy']} privacy"
    else:
        title += f", epsilon {plan['epsilon']:g}, adversary {plan['adversary']}"
    return Chart(
        title=title,
        x=Axis(
            name="expected error (sum over all numbers of the answer)",
            scale="log",
            low=low,
            # Room for the number beside the longest bar.
            high=low * (max(errors, default=10 * low) / low) ** 1.45,
        ),
        y=Axis(scale="names", names=tuple(c["mechanism"] for c in shown)),
        layers=tuple(layers),
        alt=f"Expected error of each mechanism for {title}: {'; '.join(reversed(said))}.",
        height=1.3 + 0.42 * len(shown),
    )


def release_chart(certificate: dict[str, Any]) -> Chart:
    """The released numbers with the range in which, all together, the true ones lie."""
    answer = certificate["answer"] if isinstance(certificate["answer"], list) else [certificate["answer"]]
    labels, accuracy, guarantee = certificate["labels"], certificate["accuracy"], certificate["guarantee"]
    alpha, sure = accuracy["alpha"], f"{1 - accuracy['beta']:.4g}"
    places = tuple(float(n) for n in range(len(answer)))
    said = "; ".join(f"{label} {number(value)}" for label, value in zip(labels, answer, strict=True))
    return Chart(
        title=f"epsilon {guarantee['epsilon']:g}, adversary {guarantee['adversary']}, "
        f"{certificate['mechanism']['name']}; whiskers: all true values, {sure} sure",
        x=Axis(scale="names", names=tuple(labels)),
        y=Axis(name=certificate["query"]["name"]),
        layers=(
            Bars(at=places, values=tuple(answer), kind="pale"),
            Range(at=places, low=tuple(v - alpha for v in answer), high=tuple(v + alpha for v in answer)),
            Rule(at=0.0),
        ),
        alt=f"The released {certificate['query']['name']}: {said}. With probability {sure} every number errs by less "
        f"than {number(alpha)}.",
        width=min(max(5.0, 1.6 + 0.5 * len(answer)), 11.0),
        height=4.0,
    )


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


def denoising_chart(problem: Problem, noisy: float, scale: float) -> Chart:
    """Prior and posterior of an answer of one number, as bars; the noisy answer as a line."""
    if len(problem.bound.labels) > 1:
        raise ParameterError("the answer is several numbers; a figure of a posterior needs an answer of one number")
    prior = answer_prior(problem)
    law = None if prior is None or scale == 0 else posterior(prior, np.abs(noisy - prior.points), scale)
    if prior is None or law is None:
        raise NotApplicableError("the answer has no posterior to draw: no one law, no noise, or far beyond the model")
    mean, low, high = summary(prior.points, law)
    # Only where something is to be seen.
    seen = np.flatnonzero((prior.law.masses > 1e-4 * prior.law.masses.max()) | (law > 1e-4 * law.max()))
    shown = slice(seen[0], seen[-1] + 1)
    points = prior.points[shown]
    width = float(np.diff(points).min()) if len(points) > 1 else 1.0
    at, before, after = (tuple(map(float, values)) for values in (points, prior.law.masses[shown], law[shown]))
    height = float(law.max()) * 1.08
    found = f"denoised, {number(mean)}; {100 * PROBABILITY:g} % between {number(low)} and {number(high)}"
    what = f"{problem.query.name}, {problem.records:,} records, noise of scale {number(scale)}"
    return Chart(
        title="pale: what the model alone expects",
        x=Axis(name=what),
        y=Axis(name="probability", low=0.0, high=height * 1.45),
        layers=(
            Bars(at=at, values=before, kind="pale", width=width),
            Line(x=at, y=after, step=True, label="the model and the noisy answer together"),
            Rule(at=noisy, along="x", series=1, label=f"the noisy answer, {number(noisy)}"),
            Range(at=(height,), low=(float(low),), high=(float(high),), along="x"),
            Points(x=(float(mean),), y=(height,), label=found),
        ),
        alt=f"What is believed of {what}, before and after the noisy answer {number(noisy)}: {found}.",
        legend="upper left",
    )


MOST_ANSWERS: Final = 200
"""More bars than this are a grey block."""
_FEW: Final = 20
"""Up to here every bar has its number."""
_INK: Final = LIGHT.series[0]
_ROUNDING: Final = 1e-11
"""Masses that are equal in truth may differ by this factor; it is a picture, nobody's noise depends on it."""


@dataclass(frozen=True)
class Moves:
    """A transport between two laws on the same answers that carries nothing farther than it must."""

    answers: tuple[float, ...]
    """The answers that are possible under either law, rising."""
    first: tuple[float, ...]
    """Probability of each answer under the first law,"""
    second: tuple[float, ...]
    """and under the second."""
    moves: tuple[tuple[int, int, float], ...]
    """(from, to, mass), as places among the answers."""
    distance: float
    """W-infinity: the length of the longest move, unless the mass that must go so far is lost in rounding."""

    def length(self, move: tuple[int, int, float]) -> float:
        """How far a move carries its mass."""
        return abs(self.answers[move[0]] - self.answers[move[1]])


def moves_between(law_first: AnswerLaw, law_second: AnswerLaw) -> Moves:
    """The quantile coupling of two laws of an answer that is one number."""
    if law_first.answers.ndim != 1 or law_second.answers.ndim != 1:
        raise ParameterError("the answer is several numbers; a figure of a transport needs an answer of one number")
    laws = [
        {float(x): float(p) for x, p in zip(law.answers, law.probabilities, strict=True) if p > 0}
        for law in (law_first, law_second)
    ]
    answers = sorted({x for law in laws for x in law})
    if len(answers) > MOST_ANSWERS:
        raise ParameterError(
            f"the laws have {len(answers):,} possible answers; a figure shows at most {MOST_ANSWERS}",
            value=len(answers),
        )
    first, second = ([law.get(x, 0.0) for x in answers] for law in laws)
    points = np.array(answers)
    if all(x.is_integer() for x in answers):
        points = points.astype(np.int64)
    with np.errstate(divide="ignore"):
        worst = Pairs(points, np.log(first), np.log(second), _ROUNDING).worst()
    distance = 0.0 if worst is None else worst.distance
    # Masses that differ in their last digits leave dust, which would be carried on to the next answer.
    kept = [(i, j, mass) for i, j, mass in coupling(answers, first, second) if abs(answers[i] - answers[j]) <= distance]
    return Moves(tuple(answers), tuple(first), tuple(second), tuple(kept), distance)


def transport_figure(
    law_first: AnswerLaw,
    law_second: AnswerLaw,
    path: str | os.PathLike[str],
    *,
    labels: tuple[str, str] = ("given the first secret", "given the second secret"),
) -> None:
    """Bars above and below for the two laws; between them every move, as wide as its mass, the longest one dark."""
    found = moves_between(law_first, law_second)
    answers, count = found.answers, len(found.answers)
    step = min(np.diff(answers), default=1.0)
    most = max(*found.first, *found.second)
    wide, band, head = 0.7 * step, 0.6 * most, 1.22 * most
    with drawing() as figures:
        figure = figures(figsize=(min(max(6.0, 2.0 + 0.75 * count), 11.0), 5.6), layout="constrained")
        axes = figure.subplots()
        for law, side in ((found.first, 1), (found.second, -1)):
            bars = [(x, p) for x, p in zip(answers, law, strict=True) if p]
            heights = [side * p for _, p in bars]
            axes.bar(
                [x for x, _ in bars], heights, wide, bottom=side * band, color=LIGHT.pale, edgecolor=_INK, linewidth=0.8
            )
            axes.axhline(side * band, color="black", linewidth=0.8)
            for x, p in bars if count <= _FEW else ():
                place = "bottom" if side > 0 else "top"
                axes.text(x, side * (band + p + 0.02 * most), f"{p:.3g}", ha="center", va=place, fontsize=9)
        _ribbons(axes, found, wide / most, band)
        axes.set_ylim(-band - head, band + head)
        axes.set_yticks([side * (band + head / 2) for side in (1, -1)], labels, rotation=90, va="center", fontsize=10)
        axes.tick_params(axis="y", length=0)
        if count <= _FEW:
            axes.set_xticks(answers, [number(x) for x in answers])
        axes.set_xlabel("exact answer")
        axes.spines[["left", "right", "top"]].set_visible(False)
        write(figure, path)


def _ribbons(axes: Axes, found: Moves, width: float, band: float) -> None:
    """The moves between the two rows of bars; at a bar they stand side by side."""
    leaving = _places([i for i, _, _ in found.moves], found)
    arriving = _places([j for _, j, _ in found.moves], found)
    longest = [n for n, move in enumerate(found.moves) if math.isclose(found.length(move), found.distance)]
    for n, (i, j, mass) in enumerate(found.moves):
        half = mass * width / 2  # a mass too small to see keeps its outline
        up, down = found.answers[i] + leaving[n] * width, found.answers[j] + arriving[n] * width
        dark = n in longest
        axes.fill(
            [up - half, up + half, down + half, down - half],
            [band, band, -band, -band],
            facecolor=_INK if dark else LIGHT.pale,
            edgecolor=_INK,
            linewidth=0.8,
            zorder=3 if dark else 2,
        )
    if not longest:
        axes.set_title(f"W = {number(found.distance)}, for a mass too small to be drawn", fontsize=10)
        return
    n = max(longest, key=lambda m: found.moves[m][2])
    i, j, _ = found.moves[n]
    middle = (found.answers[i] + found.answers[j] + (leaving[n] + arriving[n]) * width) / 2
    frame = {"facecolor": "white", "edgecolor": _INK, "boxstyle": "round,pad=0.3"}
    said = f"W = {number(found.distance)}"
    axes.text(middle, 0, said, ha="center", va="center", fontsize=11, fontweight="bold", zorder=4, bbox=frame)


def _places(bars: list[int], found: Moves) -> list[float]:
    """Where each move stands at its bar, in mass right of the bar's middle: side by side, in the order of the moves."""
    total: dict[int, float] = {}
    for bar, (_, _, mass) in zip(bars, found.moves, strict=True):
        total[bar] = total.get(bar, 0.0) + mass
    used, out = dict.fromkeys(total, 0.0), []
    for bar, (_, _, mass) in zip(bars, found.moves, strict=True):
        out.append(used[bar] + mass / 2 - total[bar] / 2)
        used[bar] += mass
    return out
