"""What there is to say of a series that was flipped record by record, and of the design of one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.words import number, rounded, shorten, up_to
from pufferdp.models.files.json import model_from_dict
from pufferdp.publish.flips.plan import ConstantAnswer, flippable
from pufferdp.publish.model_checks import CheckedGuarantee
from pufferdp.report.charts import Axis, Bars, Chart, HeatMap, Range, Text
from pufferdp.report.page import Block, Figure, Medium, Page, Section, Table, Words
from pufferdp.report.pages import common

if TYPE_CHECKING:
    from pufferdp.assess.comparison import PlainFlips
    from pufferdp.publish.flips.estimate import FlipEstimate, Interval
    from pufferdp.publish.flips.plan import FlipDesign

_MOST_CELLS: Final = 100


def page_from_certificate(certificate: dict[str, Any], comparison: PlainFlips | None = None) -> Page:
    """A series that was flipped, from its certificate."""
    design = _design(certificate)
    words = Words(_statement(certificate), Medium.TERMINAL)
    return common.certificate_page(
        certificate,
        title=f"Privatised series: {certificate['data']['column']}",
        lead=f", epsilon {number(certificate['guarantee']['epsilon'])}",
        opening=(_title(design),),
        sections=(
            *_sections(design, "the series", comparison),
            Section(title="In the words of the certificate", blocks=(words,)),
        ),
        words=(_once(certificate),),
    )


def guarantee_blocks(certificate: dict[str, Any]) -> tuple[Block, ...]:
    """What the certificate of a flipped series guarantees."""
    design = _design(certificate)
    return Words((_title(design),)), *_channel(design), Words(_statement(certificate))


def _once(certificate: dict[str, Any]) -> str:
    once: str = certificate["once"]
    return f"{once[0].upper()}{once[1:]}."


def _statement(certificate: dict[str, Any]) -> tuple[str, ...]:
    return common.certificate_sentences({**certificate, "ledger": None}, _once(certificate))


def _design(certificate: dict[str, Any]) -> dict[str, Any]:
    """The design of a certified series, as ``FlipDesign`` has it."""
    guarantee, channel = certificate["guarantee"], certificate["channel"]
    return {
        "labels": certificate["labels"],
        "matrix": channel["matrix"],
        "length": channel["length"],
        "mechanism": certificate["mechanism"]["name"],
        "epsilon": guarantee["epsilon"],
        "adversary": guarantee["adversary"],
        "constant": vars(ConstantAnswer.best(flippable(model_from_dict(certificate["model"])))),
        **{name: channel[name] for name in ("loss", "expected_noise", "dp_loss")},
    }


def flip_design_page(design: FlipDesign, comparison: PlainFlips | None = None) -> Page:
    """A channel, before any data is read."""
    made = {**design.to_dict(), "matrix": design.channel.tolist()}
    length = f"chains of up to {design.length:,} records" if design.length else "series of any length"
    digest = () if comparison is None else (("model", f"SHA-256 {comparison.model_sha256}"),)
    return Page(
        title="Plan: a privatised series",
        lead=f"{length}, epsilon {number(design.epsilon)}; no data was read",
        opening=(
            _title(made),
            CheckedGuarantee(model=design.model, epsilon=design.epsilon, adversary=design.adversary).sentence,
        ),
        sections=_sections(made, "a series privatised by this plan", comparison),
        words=("The certificate of the series has the exact words; a plan guarantees nothing yet.",),
        facts=(
            ("mechanism", design.mechanism),
            ("adversary", f"{design.adversary}: knows {design.adversary.knows}"),
            *digest,
        ),
        data=design.to_dict(),
    )


def _title(design: dict[str, Any]) -> str:
    long = f"up to {design['length']:,} records" if design["length"] else "any number of records"
    adversary = f"for an adversary who knows {Adversary(design['adversary']).knows}"
    return f"{design['mechanism']}, {long}, epsilon {number(design['epsilon'])}, {adversary}"


def _sections(design: dict[str, Any], sees: str, comparison: PlainFlips | None) -> tuple[Section, ...]:
    labels, matrix = design["labels"], design["matrix"]
    changes = (
        f"{100 * design['expected_noise']:.4g} % of the records change, in the long run; which ones is not said. What "
        "is counted from the series can be corrected, because the probabilities are known."
    )
    shades = Figure(
        make=lambda: _channel_map(labels, matrix), caption="The same as shades: the diagonal stays as it is."
    )
    knows = Adversary(design["adversary"]).knows
    return (
        Section(title="The guarantee", blocks=(common.guarantee_words(design["epsilon"], knows, sees),)),
        Section(
            title="The accuracy",
            blocks=(Words((changes, *_constant(design)), Medium.PAGES), *_channel(design), shades),
        ),
        *(() if comparison is None else (_otherwise(design, comparison),)),
    )


def _channel(design: dict[str, Any]) -> tuple[Block, ...]:
    labels, matrix = design["labels"], design["matrix"]
    if len(labels) == 2:
        head: tuple[str, ...] = ("state", "flips with probability")
        rows: list[tuple[str, ...]] = [(labels[0], number(matrix[0][1])), (labels[1], number(matrix[1][0]))]
    else:
        head = ("state", *(f"becomes {name}" for name in labels))
        rows = [(name, *(number(p) for p in row)) for name, row in zip(labels, matrix, strict=True)]
    leaks = (
        f"One record leaks at most {number(design['loss'])}; {100 * design['expected_noise']:.4g} % of the records "
        f"change. DP loss of each record: {number(design['dp_loss'])}."
    )
    caption = "Probability of each published state, given the true one"
    words = Words((leaks, *_constant(design)), Medium.TERMINAL)
    return Table(caption=caption, head=head, rows=tuple(rows)), words


def _constant(design: dict[str, Any]) -> tuple[str, ...]:
    """What to do instead, where flips change more records than one state for all of them would be wrong about."""
    state, error = design["constant"]["state"], design["constant"]["error"]
    if not design["expected_noise"] > error:
        return ()
    return (
        f"One word would do better: {state!r} for every record is wrong for {100 * error:.4g} % of them, and leaks "
        "nothing. Publish that, or allow a larger epsilon; flips are worth it where shares or changes are estimated.",
    )


def _channel_map(labels: list[str], matrix: list[list[float]]) -> Chart:
    stays = "; ".join(
        f"{name} stays {number(row[n])}" for n, (name, row) in enumerate(zip(labels, matrix, strict=True))
    )
    return Chart(
        title="",
        x=Axis(name="published", scale="names", names=tuple(labels)),
        y=Axis(name="true", scale="names", names=tuple(labels)),
        layers=(
            HeatMap(
                values=tuple(map(tuple, matrix)), top=1.0, label="probability", written=len(labels) ** 2 <= _MOST_CELLS
            ),
        ),
        alt=f"Probability of each published state, given the true one: {stays}.",
        width=5.0,
        height=4.0,
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
            Section(
                title="States",
                blocks=(table, Figure(make=lambda: estimate_chart(estimate), caption="The same, drawn.")),
            ),
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
    shares, at = estimate.frequencies, tuple(float(n) for n in range(len(estimate.labels)))
    low, high = (tuple(map(float, part)) for part in (shares.low, shares.high))
    told = "; ".join(
        f"{label} {number(a)} to {number(b)}" for label, a, b in zip(estimate.labels, low, high, strict=True)
    )
    return Chart(
        title=f"Share of {estimate.records:,} true records, {100 * estimate.confidence:g} % ranges",
        x=Axis(scale="names", names=estimate.labels),
        y=Axis(name="share of the records", low=0.0, high=1.0),
        layers=(
            Bars(at=at, values=tuple(0.0 if math.isnan(v) else float(v) for v in shares.value), kind="pale"),
            Range(at=at, low=low, high=high),
        ),
        alt=f"Share of the true records in each state: {told}.",
        height=3.4,
    )


def _otherwise(design: dict[str, Any], plain: PlainFlips) -> Section:
    epsilon, much = design["epsilon"], "exactly" if plain.exact else "at most"
    bars = (
        ("DP claims", epsilon),
        (f"DP, {much}", plain.leakage),
        (f"this series, {much}", design["loss"]),
    )
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
        make=lambda: _leakage_bars([(name, value) for name, value in bars if math.isfinite(value)]),
        caption=f"What plain randomised response claims, and what it and this series leak, {much}.",
    )
    return Section(title=common.OTHERWISE, blocks=(Words((words,)), table, figure, Words((common.OTHER,))))


def _leakage_bars(shown: Sequence[tuple[str, float]]) -> Chart:
    return Chart(
        title="",
        x=Axis(scale="names", names=tuple(name for name, _ in shown)),
        y=Axis(name="leakage about one record", low=0.0, high=1.25 * max(value for _, value in shown)),
        layers=(
            Bars(at=tuple(float(n) for n in range(len(shown))), values=tuple(v for _, v in shown), kind="pale"),
            *(Text(x=n, y=value, words=up_to(value), up=8) for n, (_, value) in enumerate(shown)),
        ),
        alt="Leakage about one record: " + "; ".join(f"{name} {up_to(value)}" for name, value in shown) + ".",
        height=3.4,
    )
