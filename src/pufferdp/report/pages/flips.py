"""What a report says of sanitised series: flipped and redacted ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.words import number, up_to
from pufferdp.leakage.channels.design import closed_rho, least_rho, zhao_rho
from pufferdp.leakage.redaction.design import Design, blocks_of
from pufferdp.models.chain import MarkovChain
from pufferdp.models.files.json import model_digest, model_from_dict
from pufferdp.publish.flips.design import design_flips, flip_bound, flip_chains
from pufferdp.publish.redaction.certificate import statement
from pufferdp.publish.redaction.kind import read_designs
from pufferdp.publish.redaction.result import Redaction
from pufferdp.report.charts import Axis, Bars, Chart, HeatMap, Line, Text
from pufferdp.report.page import Block, Page, Section, Shown, Table
from pufferdp.report.pages.common import OTHER, made_by, promise
from pufferdp.report.pages.redaction import redaction_map

if TYPE_CHECKING:
    from pufferdp.publish.flips.design import FlipDesign


_MOST_CELLS = 100


def series_page(certificate: dict[str, Any], brief: bool = False) -> Page:
    """A series that was flipped record by record."""
    g, channel, data = certificate["guarantee"], certificate["channel"], certificate["data"]
    made = {**channel, "labels": certificate["labels"], "epsilon": g["epsilon"], "adversary": g["adversary"]}
    once = certificate["once"]
    return Page(
        title=f"Sanitised series: {data['column']}",
        lead=f"{data['records']:,} records, epsilon {number(g['epsilon'])}, {certificate['created'][:10]}",
        sections=_flip_sections(made, certificate["model"], "the series", brief),
        words=(
            g["statement"],
            f"{once[0].upper()}{once[1:]}.",
            f"Protected: {g['secrets']}.",
            *(f"Taken to be public: {p}." for p in certificate["public"]),
        ),
        facts=(*made_by(certificate), ("adversary", f"{g['adversary']}: knows {g['knows']}")),
        warnings=tuple(certificate["warnings"]),
        data=certificate,
        certified=True,
    )


def flip_design_page(design: FlipDesign, brief: bool = False) -> Page:
    """A channel, before any data is read."""
    made = {**design.to_dict(), "matrix": design.channel.tolist()}
    return Page(
        title="Plan: a sanitised series",
        lead=f"{_length(design.length)}, epsilon {number(design.epsilon)}; no data was read",
        sections=_flip_sections(made, design.model, "a series sanitised by this plan", brief),
        words=("The certificate of the series has the exact words; a plan promises nothing yet.",),
        facts=(
            ("mechanism", design.mechanism),
            ("adversary", f"{design.adversary}: knows {design.adversary.knows}"),
            ("model", f"SHA-256 {model_digest(design.model)}"),
        ),
        data=design.to_dict(),
        certified=False,
    )


def _length(length: int | None) -> str:
    return f"chains of up to {length:,} records" if length else "series of any length"


def _flip_sections(made: dict[str, Any], model: Any, sees: str, brief: bool) -> tuple[Section, ...]:
    labels, matrix, who = made["labels"], made["matrix"], checks.adversary(made["adversary"])
    rows = tuple((name, *(number(p) for p in row)) for name, row in zip(labels, matrix, strict=True))
    said = (
        f"{100 * made['expected_noise']:.4g} % of the records change, in the long run; which ones is not said. What "
        "is counted from the series can be corrected, because the probabilities are known."
    )
    accuracy: tuple[Block, ...] = (
        said,
        Table(
            caption="Probability of each published state, given the true one",
            head=("true state", *(f"becomes {name}" for name in labels)),
            rows=rows,
        ),
        Shown(chart=_channel_map(labels, matrix), caption="The same as shades: the diagonal stays as it is."),
    )
    return (
        Section(title="The promise", blocks=(promise(made["epsilon"], who.knows, sees),)),
        Section(title="The accuracy", blocks=accuracy),
        *(() if brief else (_flip_otherwise(made, model),)),
    )


def _channel_map(labels: list[str], matrix: list[list[float]]) -> Chart:
    said = "; ".join(f"{name} stays {number(row[n])}" for n, (name, row) in enumerate(zip(labels, matrix, strict=True)))
    return Chart(
        title="",
        x=Axis(name="published", scale="names", names=tuple(labels)),
        y=Axis(name="true", scale="names", names=tuple(labels)),
        layers=(
            HeatMap(
                values=tuple(map(tuple, matrix)), top=1.0, label="probability", written=len(labels) ** 2 <= _MOST_CELLS
            ),
        ),
        alt=f"Probability of each published state, given the true one: {said}.",
        width=5.0,
        height=4.0,
    )


def _flip_otherwise(made: dict[str, Any], model: Any) -> Section:
    """Plain randomised response with the same epsilon as its DP loss, against the same adversary."""
    believed, epsilon = model_from_dict(model) if isinstance(model, dict) else model, made["epsilon"]
    chains, who, length = flip_chains(believed), checks.adversary(made["adversary"]), made["length"]
    plain = design_flips(believed, epsilon, length=length, adversary="dp")
    real = flip_bound(chains, plain.channel, length, who)
    much = "exactly" if len(made["labels"]) == 2 else "at most"
    bars = (("DP claims", epsilon), ("DP leaks", real), ("this series leaks", made["loss"]))
    rows = (
        ("plain randomised response: what it claims", number(epsilon), f"{100 * plain.expected_noise:.4g} %"),
        (f"plain randomised response: leaks, {much}", _leak(real), f"{100 * plain.expected_noise:.4g} %"),
        (f"this series: leaks, {much}", up_to(made["loss"]), f"{100 * made['expected_noise']:.4g} %"),
    )
    said = (
        f"Flips with a DP loss of {number(epsilon)} hide a record as long as nobody looks at the records around it. "
        f"Somebody who knows {who.knows} and how records follow each other learns {much} {_leak(real)} from the whole "
        "series."
        if real > epsilon * (1 + 1e-9)
        else "Under this model flips with the same DP loss leak no more than they claim."
    )
    table = Table(
        caption="The same epsilon, with flips for independent records and with flips for this model",
        head=("series", "leakage about one record", "records that change"),
        rows=rows,
    )
    shown = [(name, value) for name, value in bars if math.isfinite(value)]
    chart = Chart(
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
    caption = "What plain randomised response claims, what it leaks, and what this series leaks."
    return Section(title="What leaks otherwise", blocks=(said, table, Shown(chart=chart, caption=caption), OTHER))


def _leak(value: float) -> str:
    return up_to(value) if math.isfinite(value) else "everything"


def redaction_page(redaction: Redaction, brief: bool = False) -> Page:
    """A redacted series, or the design of one."""
    hiding, certificate = redaction.hiding, redaction.certificate
    raw = redaction.to_dict() if certificate is None else certificate.to_dict()
    knows = hiding.adversary.knows if not hiding.known else f"rows {', '.join(map(str, redaction.known[:10]))}"
    private = redaction.private
    hidden = f"row {private[0]}" if len(private) == 1 else f"any one of the {len(private)} private rows"
    facts = [("method", redaction.method), ("adversary", f"{hiding.adversary}: knows {knows}")]
    words = [statement(hiding.adversary, redaction.known, hiding.epsilon, len(private))]
    if certificate is not None:
        facts = [*made_by(raw), facts[1]]
        words += [f"Taken to be public: {p}." for p in certificate.public]
    else:
        words.append("The certificate of the redacted series has the exact words; a plan promises nothing yet.")
    sees = "the redacted series" if certificate is not None else "a series redacted by this plan"
    return Page(
        title="Plan: a redacted series" if certificate is None else f"Redacted series: {certificate.data.column}",
        lead=f"{redaction.records:,} records, epsilon {number(hiding.epsilon)}"
        + ("; no data was read" if certificate is None else f", {certificate.created[:10]}"),
        sections=(
            Section(title="The promise", blocks=(promise(hiding.epsilon, knows, sees, hidden),)),
            Section(title="The accuracy", blocks=_released(redaction)),
            *(() if brief else (_redaction_otherwise(redaction, knows),)),
        ),
        words=tuple(words),
        facts=tuple(facts),
        warnings=() if certificate is None else tuple(certificate.warnings),
        data=raw,
        certified=certificate is not None,
    )


def redaction_of(certificate: dict[str, Any]) -> Redaction:
    """A redaction from its certificate alone, without the series."""
    from pufferdp.publish.redaction.certificate import RedactionCertificate

    parsed = RedactionCertificate.model_validate(certificate)
    designs = zip(parsed.data.chains, read_designs(certificate), strict=True)
    return Redaction(
        designs=tuple((span[0], design) for span, design in designs),
        rows=parsed.data.rows,
        missing=parsed.data.rows - parsed.data.records,
        mark=parsed.mark,
        certificate=parsed,
    )


def _released(redaction: Redaction) -> tuple[Block, ...]:
    said = (
        f"{100 * redaction.utility:.6g} % of the records are released on average, exactly as they are. The rest is "
        f"replaced by {redaction.mark!r}; nothing is changed."
    )
    caption = "Around the first private row: what is always redacted, what only for some values, and why."
    return said, Shown(chart=redaction_map(redaction), caption=caption)


def _redaction_otherwise(redaction: Redaction, knows: str) -> Section:
    """The private rows taken out, and nothing else."""
    real = 0.0
    for _, design in redaction.designs:
        first, last = design.hiding.private[0], design.hiding.private[-1]
        blank = np.zeros((last - first + 1, design.hiding.chain.size))
        alone = Design(hiding=design.hiding, method=design.method, blocks=blocks_of(design.hiding, first, blank))
        real = max(real, alone.leakage)
    said = (
        f"Taking out the private rows alone would leak {_leak(real)} about them to somebody who knows {knows}: the "
        "records around them give them away."
    )
    to = {"pufferfish": "no record", "bdp": "any set of other records"}
    rows = [
        ("only the private rows taken out", knows, _leak(real)),
        ("this redaction", knows, up_to(redaction.leakage)),
    ]
    rows += [("this redaction", to[name], _leak(redaction.leakage_to(name))) for name in to if to[name] != knows]
    table = Table(
        caption="Leakage about a private row, exactly",
        head=("what is published", "to somebody who knows", "leakage"),
        rows=tuple(rows),
    )
    return Section(title="What leaks otherwise", blocks=(said, table))


def noise_chart(theta: float, *, most: float = 8.0, points: int = 24) -> Chart:
    """Probability of a flip that each promise needs, for a symmetric chain that moves with probability theta."""
    chain = MarkovChain(transition=np.array([[1 - theta, theta], [theta, 1 - theta]]))
    losses = tuple(most * (n + 1) / points for n in range(points))
    lines = (
        ("Zhao et al. 2017, every adversary", [zhao_rho(theta, e) for e in losses], 5),
        ("every adversary", [least_rho(chain, e, None, Adversary.BDP) for e in losses], 0),
        ("closed form of the paper", [closed_rho(theta, e) for e in losses], 2),
        ("adversary who knows no record", [least_rho(chain, e, None, Adversary.PUFFERFISH) for e in losses], 1),
        ("plain DP: adversary who knows all others", [1 / (1 + math.exp(e)) for e in losses], 3),
    )
    title = f"a chain that moves with probability {theta:g}, endless series"
    return Chart(
        title=title,
        x=Axis(name="epsilon: how much one record may leak"),
        y=Axis(name="probability of a flip", low=0.0, high=0.75),  # room for the legend
        layers=tuple(Line(x=losses, y=tuple(values), label=label, series=n) for label, values, n in lines),
        alt=f"Probability of a flip that each promise needs, {title}: {'; '.join(label for label, _, _ in lines)}.",
        height=4.6,
        legend="upper right",
    )
