"""What there is to say of a fitted model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.words import number
from pufferdp.models.files.json import model_to_dict
from pufferdp.publish.model_checks import CheckedGuarantee
from pufferdp.report.charts import Axis, Bar, BarKind, Chart, Layer, Range, Rule, bar_chart
from pufferdp.report.page import Block, Figure, Page, Section, Table, Words

if TYPE_CHECKING:
    from pufferdp.publish.fits.checks import Check
    from pufferdp.publish.fits.families import FamilyScore
    from pufferdp.publish.fits.publication import Fit

MOST_EVIDENCE: Final = 20.0
"""Bars of the figure end here: beyond a p-value of 1e-20 differences do not matter."""
OWNERS: Final = "These tests use the raw data. Keep them internal; they are not written to the model file."


def fit_page(fit: Fit) -> Page:
    """A fitted model, what was left out of it, whether it describes the data, and what it costs."""
    words = [repr(fit.model), *([] if fit.zone is None else [fit.zone])]
    if fit.left_out:
        words.append(f"Left out, because the data never leaves them: {', '.join(fit.left_out)}.")
    if fit.prior is not None:
        words.append(
            f"Added to every transition count: {number(fit.prior)}. Moves that were never seen are possible then."
        )
    if fit.lent_rows:
        shown = ", ".join(fit.lent_rows[:6]) + (", …" if len(fit.lent_rows) > 6 else "")
        words.append(f"Nothing was seen to follow {shown}: what follows the last state alone stands in its place.")
    if fit.free_rows:
        shown = ", ".join(fit.free_rows[:6]) + (", …" if len(fit.free_rows) > 6 else "")
        words.append(
            f"Never left: {shown}. Nothing is known of what follows, so the class allows anything, and much noise may "
            "be needed: read more data, or leave these states out of it."
        )
    if fit.unvisited:
        words.append(f"Not visited: {', '.join(fit.unvisited)}.")
    if fit.off_step is not None:
        off = fit.off_step.distances
        some = f"{off:,} distances between records are" if off > 1 else "1 distance between records is"
        words.append(
            f"The model has no step: {some} no whole number of the usual one, {fit.off_step.step}. Rows count as "
            "neighbours, whatever time lies between them, and unobserved steps are not recognised; bring the times to "
            "one step to have it."
        )
    if fit.dp_epsilon is None and not fit.checked:
        words.append("Goodness of fit was not tested.")
    if fit.dp_epsilon is None:
        words.append("A model fitted on the data that is released weakens the guarantee; the certificate will say so.")
    else:
        where = "keep a ledger" if fit.receipt is None else f"charged to data set {fit.receipt.dataset!r}"
        words.append(f"The fit has spent a DP loss of {fit.dp_epsilon:g} on the data: {where}.")
        words.append("The model was not checked: what the exact data say of it is not covered by that loss.")
    if fit.model.checks is not None:
        checked = CheckedGuarantee(model=fit.model, epsilon=1.0, adversary=Adversary.BDP)
        words += [checked.sentence, *([] if checked.effective is None else [checked.effective.coverage_sentence])]
    return Page(
        title="A fitted model",
        sections=(
            Section(title="The model", blocks=(Words(tuple(filter(None, words))),)),
            Section(title="Families compared", blocks=_families(fit)),
            Section(title="Goodness of fit", blocks=goodness_of_fit(fit.checks)),
        ),
        data=model_to_dict(fit.model),
        kind="model",
    )


def _families(fit: Fit) -> tuple[Block, ...]:
    """A table of the families, a figure of their held-out bits, and what the comparison cannot know."""
    comparison = fit.comparison
    note = (Words((comparison.note,)),) if comparison.note else ()
    compared = [score for score in comparison.scores if score.bits is not None]
    if not compared:
        return note
    rows = tuple(
        (
            score.name,
            f"{score.internal_states:,}" if score.slots == 1 else f"{score.internal_states:,} × {score.slots}",
            f"{score.bits:.4f}",
            "-" if score.gain is None else f"{score.gain:+.4f} ± {score.error:.4f}",
            "-" if score.noise is None else number(score.noise),
            "-" if score.effective is None else f"e^{score.effective:.2f}",
            "chosen" if score.chosen else "",
        )
        for score in compared
    )
    skipped = tuple(f"Not fitted: {score.name}: {score.reason}." for score in comparison.scores if score.bits is None)
    words = (
        f"Held-out bits: mean of −log2 P(record | records before it) over the second half of the data, after a fit on "
        f"the first half. Gain over the chain ± standard error by {comparison.clusters}. Chosen: the smallest family "
        "with a bound that no larger one beats by more than two standard errors, fitted again on all data. Noise: "
        "scale for a count of the most frequent state at ε = 1. Effective: by how much 99 % of such releases of the "
        "held-out half change the odds at most, for an adversary who uses the chosen family."
    )
    if comparison.rival is not None:
        skipped += (
            f"Warning: {comparison.rival.name} predicts better, and has no bound on the leakage yet. The guarantee "
            "does not cover an adversary who uses it; the estimate above is for that adversary.",
        )
    head = ("family", "states", "held-out bits", "gain over chain", "noise", "effective", "")
    return (
        Table(caption="Families of models by their predictions of held-out records", head=head, rows=rows),
        Figure(make=lambda: families_chart(compared), caption="To the right: better predictions than the chain."),
        Words((words, *skipped)),
        *note,
    )


def families_chart(scores: Sequence[FamilyScore]) -> Chart:
    """The gain of each family over the chain as bars, with two standard errors; the chosen family is full."""
    shown = [score for score in scores if score.bits is not None][::-1]
    gains = [(score.gain or 0.0, 2 * (score.error or 0.0)) for score in shown]
    low, high = min(gain - error for gain, error in gains), max(gain + error for gain, error in gains)
    margin = 0.3 * max(high - low, 1e-3)
    bars, errors = [], list[Layer]()
    for y, (score, (gain, error)) in enumerate(zip(shown, gains, strict=True)):
        name = score.name.replace(" a value", "").replace("by time of day", "by hour")
        words = f"{gain:+.4f}" if score.gain is not None else "0"
        kind: BarKind = "full" if score.chosen else "pale"
        bars.append(Bar(name=name, value=gain, kind=kind, words=words, place=max(gain + error, 0.0)))
        errors.append(Range(at=(y,), low=(gain - error,), high=(gain + error,), along="x", series=1))
    return bar_chart(
        bars,
        Axis(name="bits a record, ± two standard errors", low=min(low, 0.0) - margin / 4, high=max(high, 0.0) + margin),
        Rule(at=0.0, along="x", pale=True),
        *errors,
        title="Held-out bits saved over the chain",
        alt="Gain over the chain in held-out bits a record, by family",
    )


def fit_chart(fit: Fit) -> Chart:
    """The figure of a fit: gains in held-out bits where families were compared, otherwise the tests."""
    compared = [score for score in fit.families if score.bits is not None]
    return families_chart(compared) if len(compared) > 1 else checks_chart(fit.checks)


def goodness_of_fit(checks: Sequence[Check]) -> tuple[Block, ...]:
    """A table of the checks, a figure of them, and what to do where the model fails."""
    if not checks:
        return ()
    made = [check for check in checks if check.p_value is not None]
    rows = tuple(
        (
            check.question,
            number(check.statistic),
            "-" if check.degrees_of_freedom is None else f"{check.degrees_of_freedom:,}",
            "-" if check.p_value is None else _p(check.p_value),
            "-" if check.effect is None else f"{check.effect:.2f}",
            {True: "not rejected", False: "rejected", None: "not tested"}[check.holds],
        )
        for check in checks
    )
    head = ("goodness of fit", "chi-square", "df", "p-value", "effect", "result")
    advice = tuple(f"{check.advice[:1].upper()}{check.advice[1:]}." for check in checks if check.holds is False)
    reasons = tuple(f"Not tested: {check.question}: {check.reason}." for check in checks if check.p_value is None)
    level = f"Significance level of each test: {number(made[0].level)}." if made else ""
    return (
        Table(caption="Tests of the fitted chain against alternatives", head=head, rows=rows),
        Figure(make=lambda: checks_chart(checks), caption="Bars beyond the line: the chain is rejected."),
        Words(tuple(filter(None, (*advice, *reasons, f"{level} {OWNERS}".strip())))),
    )


def checks_chart(checks: Sequence[Check]) -> Chart:
    """The evidence against the model as bars, a check each; beyond the line the model fails."""
    made = [check for check in checks if check.p_value is not None][::-1]
    line = max((-math.log10(check.level) for check in made if check.level is not None), default=0.0)
    bars = []
    for check in made:
        assert check.p_value is not None
        words = f"p {_p(check.p_value)}, {'not rejected' if check.holds else 'rejected'}"
        evidence = min(MOST_EVIDENCE, -math.log10(check.p_value))
        kind: BarKind = "pale" if check.holds else "full"
        name = check.name.replace("-", " ")
        bars.append(Bar(name=name, value=evidence, kind=kind, words=words, place=max(evidence, line)))
    rule = (Rule(at=line, along="x", series=1, label=f"level {number(made[0].level)}"),) if made else ()
    axis = Axis(name="−log10(p)", low=0.0, high=MOST_EVIDENCE * 1.4)
    return bar_chart(bars, axis, *rule, title="Goodness of fit", alt="Evidence against the model")


def _p(value: float) -> str:
    """A p-value; below 1e-20 that alone."""
    return "below 1e-20" if value < 10**-MOST_EVIDENCE else f"{value:.2g}"
