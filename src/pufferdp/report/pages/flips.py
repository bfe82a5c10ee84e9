"""What there is to say of a series that was flipped record by record, and of the design of one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.words import number, rounded, shorten, up_to
from pufferdp.models.files.json import model_from_dict
from pufferdp.publish.flips.certificate import series_guarantee
from pufferdp.publish.flips.plan import ConstantAnswer, flippable
from pufferdp.publish.model_checks import CheckedGuarantee
from pufferdp.report.charts import Axis, Bar, Chart, bar_chart, heat_map, interval_chart
from pufferdp.report.page import Figure, Medium, Page, Section, Table, Words
from pufferdp.report.pages import common

if TYPE_CHECKING:
    from pufferdp.assess.comparison import PlainFlips
    from pufferdp.publish.flips.certificate import series_guarantee
    from pufferdp.publish.flips.estimate import FlipEstimate, Interval
from pufferdp.publish.flips.plan import FlipDesign


def page_from_certificate(certificate: dict[str, Any], comparison: PlainFlips | None = None) -> Page:
    """A series that was flipped, from its certificate."""
    guarantee, channel = certificate["guarantee"], certificate["channel"]
    design = {
        **channel,
        "labels": certificate["labels"],
        "mechanism": certificate["mechanism"]["name"],
        "epsilon": guarantee["epsilon"],
        "adversary": guarantee["adversary"],
        "constant": vars(ConstantAnswer.best(flippable(model_from_dict(certificate["model"])))),
    }
    once, table = f"{certificate['once'][0].upper()}{certificate['once'][1:]}.", _channel(design)
    return common.certificate_page(
        certificate,
        title=f"Privatised series: {certificate['data']['column']}",
        lead=f", epsilon {number(guarantee['epsilon'])}",
        accuracy=(_changes(design), replace(table, media=Medium.PAGES), _shades(design)),
        opening=(_title(design),),
        own=(*_leaks(design), once),
        otherwise=_otherwise(design, comparison),
        words=(once,),
        stated=(replace(table, media=Medium.TERMINAL),),
    )


def flip_design_page(design: FlipDesign, comparison: PlainFlips | None = None) -> Page:
    """A channel, before any data is read."""
    made = {**design.to_dict(), "matrix": design.channel.tolist()}
    adversary, leaks = design.adversary, Words(_leaks(made), Medium.TERMINAL)
    statement = series_guarantee(design.model, design.epsilon, adversary)
    length = f"chains of up to {design.length:,} records" if design.length else "series of any length"
    return common.planned_page(
        "a privatised series",
        f"{length}, epsilon {number(design.epsilon)}",
        common.parts(
            (statement,), (_changes(made), _channel(made), leaks, _shades(made)), *_otherwise(made, comparison)
        ),
        design.to_dict(),
        opening=(
            _title(made),
            CheckedGuarantee(model=design.model, epsilon=design.epsilon, adversary=adversary).sentence,
        ),
        facts=(("mechanism", design.mechanism), *common.plan_facts(adversary, comparison)),
    )


def _title(design: dict[str, Any]) -> str:
    long = f"up to {design['length']:,} records" if design["length"] else "any number of records"
    knows = Adversary(design["adversary"]).knows
    return f"{design['mechanism']}, {long}, epsilon {number(design['epsilon'])}, for an adversary who knows {knows}"


def _leaks(design: dict[str, Any]) -> tuple[str, ...]:
    """What the channel leaks and changes, in words."""
    leaks = (
        f"One record leaks at most {number(design['loss'])}; {100 * design['expected_noise']:.4g} % of the records "
        f"change. DP loss of each record: {number(design['dp_loss'])}."
    )
    return leaks, *_constant(design)


def _changes(design: dict[str, Any]) -> Words:
    changes = (
        f"{100 * design['expected_noise']:.4g} % of the records change, in the long run; which ones is not said. What "
        "is counted from the series can be corrected, because the probabilities are known."
    )
    return Words((changes, *_constant(design)), Medium.PAGES)


def _channel(design: dict[str, Any]) -> Table:
    labels, matrix = design["labels"], design["matrix"]
    if len(labels) == 2:
        head: tuple[str, ...] = ("state", "flips with probability")
        rows: list[tuple[str, ...]] = [(labels[0], number(matrix[0][1])), (labels[1], number(matrix[1][0]))]
    else:
        head = ("state", *(f"becomes {name}" for name in labels))
        rows = [(name, *(number(p) for p in row)) for name, row in zip(labels, matrix, strict=True)]
    return Table(caption="Probability of each published state, given the true one", head=head, rows=tuple(rows))


def _constant(design: dict[str, Any]) -> tuple[str, ...]:
    """What to do instead, where flips change more records than one state for all of them would be wrong about."""
    state, error = design["constant"]["state"], design["constant"]["error"]
    if not design["expected_noise"] > error:
        return ()
    return (
        f"One word would do better: {state!r} for every record is wrong for {100 * error:.4g} % of them, and leaks "
        "nothing. Publish that, or allow a larger epsilon; flips are worth it where shares or changes are estimated.",
    )


def _shades(design: dict[str, Any]) -> Figure:
    """The channel as a heat map."""
    labels, matrix = design["labels"], design["matrix"]
    stays = "; ".join(
        f"{name} stays {number(row[n])}" for n, (name, row) in enumerate(zip(labels, matrix, strict=True))
    )
    alt = f"Probability of each published state, given the true one: {stays}."
    return Figure(
        make=lambda: heat_map(labels, matrix, ("published", "true"), "probability", alt=alt),
        caption="The same as shades: the diagonal stays as it is.",
    )


def estimate_page(estimate: FlipEstimate) -> Page:
    """What flipped series say of the true ones."""
    labels, shares, sure = estimate.labels, estimate.frequencies, f"{100 * estimate.confidence:g} %"
    some = "1 series" if estimate.devices == 1 else f"{estimate.devices:,} series"
    opening = (
        f"{estimate.records:,} records of {some}. Each true number lies in its range with a confidence of {sure}, by "
        "itself. This is made from what was published: it costs no budget.",
    )
    words = (
        "Ranges are about the true records that were sent, whatever the model; those of transitions are approximate."
    )
    table = Table(
        caption="Share of the records in each state",
        head=("state", "share", f"{sure} interval"),
        rows=tuple((label, *_ranged(shares, n)) for n, label in enumerate(labels)),
    )
    drawn = Figure(make=lambda: estimate_chart(estimate), caption="The same, drawn.")
    moves = Table(
        caption="How often each state follows each, with ranges",
        head=("state", *(f"then {label}" for label in labels)),
        rows=tuple(
            (label, *("{} ({})".format(*_ranged(estimate.transitions, (a, b))) for b in range(len(labels))))
            for a, label in enumerate(labels)
        ),
    )
    return Page(
        title="Estimates from flipped series",
        lead=f"{estimate.records:,} records, {some}",
        verdict=_not_estimable(estimate),
        opening=opening,
        sections=(
            Section(title="States", blocks=(table, drawn)),
            Section(title="Transitions", blocks=(moves, Words((words,)))),
        ),
        data=estimate.to_dict(),
    )


def _ranged(part: Interval, place: int | tuple[int, int]) -> tuple[str, str]:
    """A share and its interval, with the decimals that its error supports."""
    value, low, high = (float(numbers[place]) for numbers in (part.value, part.low, part.high))
    error = (high - low) / 2
    shown = "not estimable" if math.isnan(value) else rounded(value, error)
    return shown, f"{rounded(low, error)}–{rounded(high, error)}"


def _not_estimable(estimate: FlipEstimate) -> tuple[str, ...]:
    """Which shares and transitions the series say nothing of, and what would help."""
    labels, moves = estimate.labels, estimate.transitions.value
    names = [f"share of {label}" for label, v in zip(labels, estimate.frequencies.value, strict=True) if math.isnan(v)]
    names += [f"{a} then {b}" for n, a in enumerate(labels) for m, b in enumerate(labels) if math.isnan(moves[n, m])]
    if not names:
        return ()
    return (
        f"Not estimable: {shorten(names, 8)}. The noise leaves intervals that cover nearly all of "
        "[0, 1]. Flip with a larger ε, or pool more series.",
    )


def estimate_chart(estimate: FlipEstimate) -> Chart:
    """The share of each state with its range."""
    shares, labels = estimate.frequencies, estimate.labels
    told = "; ".join(
        f"{label} {number(float(a))} to {number(float(b))}"
        for label, a, b in zip(labels, shares.low, shares.high, strict=True)
    )
    return interval_chart(
        labels,
        [0.0 if math.isnan(value) else value for value in shares.value],
        (shares.low.tolist(), shares.high.tolist()),
        Axis(name="share of the records", low=0.0, high=1.0),
        title=f"Share of {estimate.records:,} true records, {100 * estimate.confidence:g} % ranges",
        alt=f"Share of the true records in each state: {told}.",
    )


def _otherwise(design: dict[str, Any], plain: PlainFlips | None) -> tuple[Section, ...]:
    if plain is None:
        return ()
    epsilon, much = design["epsilon"], "exactly" if plain.exact else "at most"
    named = (
        ("DP claims", epsilon),
        (f"DP, {much}", plain.leakage),
        (f"this series, {much}", design["loss"]),
    )
    bars = [Bar(name=name, value=value, words=up_to(value)) for name, value in reversed(named) if math.isfinite(value)]
    axis = Axis(name="leakage about one record", low=0.0, high=1.25 * max(bar.value for bar in bars))
    noise = f"{100 * plain.expected_noise:.4g} %"
    rows = (
        ("plain randomised response: what it claims", number(epsilon), noise),
        (f"plain randomised response: leaks, {much}", common.leak(plain.leakage), noise),
        (f"this series: leaks, {much}", up_to(design["loss"]), f"{100 * design['expected_noise']:.4g} %"),
    )
    words = (
        f"Flips with a DP loss of {number(epsilon)} hide a record as long as nobody looks at the records around it. "
        f"An adversary who knows {Adversary(design['adversary']).knows} and the model learns {much} "
        f"{common.leak(plain.leakage)} from the whole series."
        if plain.leakage > epsilon * (1 + 1e-9)
        else "Under this model flips with the same DP loss leak no more than they claim."
    )
    table = Table(
        caption="The same epsilon, with flips for independent records and with flips for this model",
        head=("series", "leakage about one record", "records that change"),
        rows=rows,
    )
    figure = Figure(
        make=lambda: bar_chart(bars, axis, alt="Leakage about one record"),
        caption=f"What plain randomised response claims, and what it and this series leak, {much}.",
    )
    return (Section(title=common.OTHERWISE, blocks=(Words((words,)), table, figure, Words((common.OTHER,)))),)
