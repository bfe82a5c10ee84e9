"""What a report says of an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pufferdp.basics.words import number
from pufferdp.report.charts import Axis, BarKind, Bars, Chart, Layer, Line, Panels, Points, Range, Rule, Text
from pufferdp.report.page import Block, Page, Section, Shown, Table
from pufferdp.report.pages.common import DP

if TYPE_CHECKING:
    from pufferdp.assess.audit.audit import AuditReport


def audit_panels(report: dict[str, Any]) -> Panels:
    """Above, what is proved, known, bounded and claimed; below, the event that proves most, under both values."""
    title = f"{report['mechanism']}, {report['records']:,} records, adversary {report['adversary']}"
    parts = [_leakage(report)]
    if report["attacks"]:
        parts.append(_event(report["attacks"][0], report["confidence"]))
    return Panels(title=title, parts=tuple(parts), alt=f"{title}. {' '.join(part.alt for part in parts)}")


def _leakage(report: dict[str, Any]) -> Chart:
    rows: list[tuple[str, float | None, BarKind]] = [
        ("claimed as DP", report["claim"]["dp_epsilon"], "hatched"),
        ("at most, by theory", report["upper"], "pale"),
        ("exactly", report["exact"], "pale"),
        ("at least, by attack", report["lower"], "full"),
    ]
    shown = [(name, value, kind) for name, value, kind in rows if value is not None]
    layers: list[Layer] = []
    for place, (_, value, kind) in enumerate(shown):
        layers.append(Bars(at=(place,), values=(value,), kind=kind))
        layers.append(Text(x=value, y=place, words=number(value), align="left", right=5))
    said = "; ".join(f"{name} {number(value)}" for name, value, _ in reversed(shown))
    return Chart(
        title="",
        x=Axis(name="leakage about one record", low=0.0, high=1.2 * max(value for _, value, _ in shown) or 1.0),
        y=Axis(scale="names", names=tuple(name for name, _, _ in shown)),
        layers=tuple(layers),
        alt=f"Leakage about one record: {said}.",
        height=1.0 + 0.42 * len(shown),
    )


def _event(attack: dict[str, Any], confidence: float) -> Chart:
    """How often the event is seen for either value, on a logarithmic axis, with the bounds that carry the proof."""
    shares, edges = attack["shares"][::-1], (attack["high"], attack["low"])  # the first value stands above
    least = min(share for share in (*shares, *edges) if share > 0) / 3
    values = (attack["instead"], attack["concludes"])
    layers: list[Layer] = []
    for place, (share, edge) in enumerate(zip(shares, edges, strict=True)):
        layers.append(Bars(at=(place,), values=(max(share, least),), kind="pale", start=least))
        layers.append(Text(x=max(share, edge, least), y=place, words=number(share), align="left", right=9))
    bounds = tuple(max(edge, least) for edge in edges)
    layers.append(Points(x=bounds, y=(0.0, 1.0), series=3, label="bound used in the proof"))
    said = f"Event: {attack['event']}. Seen, they say {attack['concludes']} and are right at least "
    said += f"{number(attack['right'])} of the time ({number(attack['before'])} before); {100 * confidence:g} % sure."
    return Chart(
        title=said,
        x=Axis(name="how often the event is seen", scale="log", low=least, high=3.0),
        y=Axis(scale="names", names=tuple(f"{attack['record']} is {value}" for value in values)),
        layers=tuple(layers),
        alt=f"{said} It is seen in {number(shares[1])} of the runs where {attack['record']} is {values[1]}, in "
        f"{number(shares[0])} where it is {values[0]}.",
        height=2.6,
        legend="lower right",
    )


def audit_page(audit: AuditReport) -> Page:
    """What a mechanism claims, what was proved about it, and who learns that much."""
    found, claim = audit.to_dict(), audit.dp_epsilon
    if claim is None:
        said = "The mechanism claims no DP loss. The audit says what it leaks about one record."
    else:
        said = (
            f"The mechanism claims a DP loss of {number(claim)}: somebody who knows all other records learns no more "
            "than that about the last one. The audit asks what somebody learns who knows "
            f"{audit.adversary.knows}, and how records hang together."
        )
    rows = [("at least", f"proved by attack, {100 * audit.confidence:g} % sure", number(audit.lower))]
    if audit.exact is not None:
        rows.append(("exactly", "computed", number(audit.exact)))
    if audit.upper is not None:
        rows.append(("at most", "by theory" if audit.curve is None else f"{audit.curve} curve", number(audit.upper)))
    if claim is not None:
        rows.append(("claimed", "DP, towards someone who knows all other records", number(claim)))
    table = Table(caption="Leakage about one record", head=("leakage", "how it is known", "number"), rows=tuple(rows))
    verdict, *more = audit.sentences()
    return Page(
        title=f"Audit: {audit.mechanism}",
        lead=f"{audit.records:,} records, {audit.calls:,} runs of the mechanism",
        sections=(
            Section(title="The claim", blocks=(said, DP)),
            Section(
                title="What was found",
                blocks=(verdict, table, Shown(chart=audit_panels(found), caption="Striped: what is claimed.")),
            ),
            Section(title="Who learns that much", blocks=tuple(more)),
        ),
        words=(
            "What is proved holds for this mechanism, this model and this adversary, as sure as is said. What was not "
            "found may still leak: an audit proves leakage, never its absence.",
        ),
        facts=(
            ("adversary", f"{audit.adversary}: knows {audit.adversary.knows}"),
            ("tested on fresh runs", f"{audit.tests:,} events"),
            ("adversaries tried", f"{audit.tried:,}"),
            ("the upper bound holds for", audit.holds_for or ""),
        ),
        warnings=("the claim is proved wrong",) if audit.refuted else (),
        data=found,
        certified=False,
        kind="audit",
    )


def attack_success(report: dict[str, Any]) -> Chart:
    """A bar for each attacker with its interval; what the record's own output and the series allow, across."""
    attacks, bounds = report["attacks"], report["bounds"]
    places = tuple(float(n) for n in range(len(attacks)))
    layers: list[Layer] = [Bars(at=places, values=tuple(a["success"] for a in attacks), kind="pale", width=0.55)]
    if attacks[0]["low"] is not None:
        # An interval at an effective number of records need not hold the rate to the last digit.
        low, high = (tuple(pick(a["success"], a[end]) for a in attacks) for pick, end in ((min, "low"), (max, "high")))
        layers.append(Range(at=places, low=low, high=high))
    for place, attack in zip(places, attacks, strict=True):
        if attack["charged"] is not None:
            layers.append(Text(x=place, y=0.0, words=f"charges {number(attack['charged'])}", up=9))
    layers.append(Rule(at=bounds["dp"], series=1, label="bound from the record's own output (DP)"))
    layers.append(Rule(at=bounds["pufferfish"], label="bound from the whole series"))
    said = "; ".join(f"{a['attacker']} {number(a['success'])}" for a in attacks)
    title = f"{report['runs']:,} series of {report['length']:,} records"
    return Chart(
        title=title,
        x=Axis(scale="names", names=tuple(a["attacker"] for a in attacks)),
        y=Axis(name="right, share of records", low=0.0, high=1.25),
        layers=tuple(layers),
        alt=f"How often attackers are right on {title}: {said}. A record's own output allows {number(bounds['dp'])}, "
        f"the whole series {number(bounds['pufferfish'])}.",
        legend="upper left",
    )


def attack_blocks(report: dict[str, Any]) -> list[Block]:
    """The same as a table and as bars, for a notebook."""
    sure = f"{100 * report['confidence']:g} % between"
    rows = tuple(
        (a["attacker"], *(number(a[key]) for key in ("success", "low", "high", "charged"))) for a in report["attacks"]
    )
    table = Table(
        caption="Share of records guessed right", head=("attacker", "right", sure, "and", "charges"), rows=rows
    )
    return [table, Shown(chart=attack_success(report), caption="")]


_NAMES = {
    "total": "all outputs",
    "backward": "outputs so far",
    "forward": "outputs from then on",
    "dp_epsilon": "DP loss of the step",
}


def stream_chart(stream: dict[str, Any]) -> Chart:
    """Leakage over time, beside the DP loss of each step."""
    steps, few = tuple(map(float, stream["steps"])), len(stream["steps"]) <= 40
    lines = [
        Line(x=steps, y=tuple(map(float, stream[part])), label=label, series=n, marked=few, bold=part == "total")
        for n, (part, label) in enumerate(_NAMES.items())
    ]
    title = f"{stream['length']:,} steps, adversary {stream['adversary']}"
    return Chart(
        title=title,
        x=Axis(name="step", whole=True),
        y=Axis(name="leakage about the step's record, at most", low=0.0),
        layers=tuple(lines),
        alt=f"Leakage over {title}: at most {number(max(stream['total']))} from all outputs, "
        f"{number(max(stream['backward']))} from those so far, {number(max(stream['forward']))} from those later.",
        height=4.2,
        legend="outside",
    )


def drift_chart(drift: dict[str, Any]) -> Chart:
    """A curve over the probability; the model is where it touches the promise, the belief a point on it."""
    points = [p for p in drift["points"] if p["epsilon"] is not None]
    belief, promised = drift["belief"], drift["promised"]
    layers: list[Layer] = [
        Line(x=tuple(p["probability"] for p in points), y=tuple(p["epsilon"] for p in points)),
        Rule(at=promised, pale=True, series=1),
        Points(x=(drift["probability"],), y=(promised,), label="the model", hollow=True),
    ]
    title = f"epsilon {promised:g} was promised, {drift['length']:,} records, adversary pufferfish"
    alt = f"What is kept of the promise while one probability drifts: {title}."
    if belief is not None and belief["epsilon"] is not None:
        at, kept = belief["probability"], belief["epsilon"]
        layers.append(Points(x=(at,), y=(kept,), label="the belief", series=3))
        layers.append(Text(x=at, y=kept, words=number(kept), align="left", right=8, up=-7))
        alt += f" The belief, at {number(at)}, keeps {number(kept)}."
    return Chart(
        title=title,
        x=Axis(name=f"probability that {drift['to']} follows {drift['from']}"),
        y=Axis(name="epsilon kept towards a belief at this place", low=0.0),
        layers=tuple(layers),
        alt=alt,
    )
