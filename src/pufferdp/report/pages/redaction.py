"""What there is to say of a redacted series, and the map of its regions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pufferdp.assess.surroundings import Output, Surroundings, surroundings
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.words import number, up_to
from pufferdp.publish.model_checks import CheckedGuarantee
from pufferdp.publish.reading import columns_text
from pufferdp.publish.redaction.certificate import knows_text, statement
from pufferdp.publish.redaction.result import redaction_of
from pufferdp.report.charts import Axis, Band, Chart, Layer, Line, Panels, Rule, points
from pufferdp.report.page import Block, Figure, Medium, Page, Section, Table, Words
from pufferdp.report.pages.common import OTHERWISE, certificate_page, leak, parts, planned_page

if TYPE_CHECKING:
    from pufferdp.assess.comparison import OnlyPrivateRows
    from pufferdp.publish.redaction.result import Redaction

MOST_LINES: Final = 6
MOST_ROWS: Final = 24
_WIDTH: Final = 8.0


def page_from_certificate(certificate: dict[str, Any], comparison: OnlyPrivateRows | None = None) -> Page:
    """A redacted series, from its certificate."""
    return redaction_page(redaction_of(certificate), comparison)


def redaction_page(redaction: Redaction, comparison: OnlyPrivateRows | None = None) -> Page:
    """A redacted series, or the design of one."""
    content, hiding, certificate = redaction.to_dict(), redaction.hiding, redaction.certificate
    knows, opening, accuracy = knows_text(hiding.adversary, redaction.known), _opening(content), _released(redaction)
    otherwise = () if comparison is None else (_otherwise(redaction, comparison, knows),)
    if certificate is None:
        checked = CheckedGuarantee(model=hiding.chain, epsilon=hiding.epsilon, adversary=hiding.adversary)
        return planned_page(
            "a redacted series",
            f"{redaction.records:,} records, epsilon {number(hiding.epsilon)}",
            parts((statement(hiding, redaction.known),), accuracy, *otherwise),
            content,
            opening=(*opening, checked.sentence),
            facts=(("method", redaction.method), ("adversary", f"{hiding.adversary}: knows {knows}")),
        )
    raw = content["certificate"]
    return certificate_page(
        raw,
        title=f"Redacted series: {certificate.data.column}",
        lead=f", epsilon {number(hiding.epsilon)}",
        opening=opening,
        accuracy=accuracy,
        own=(),
        otherwise=otherwise,
    )


def _opening(content: dict[str, Any]) -> tuple[str, ...]:
    private, known = content["private"], content["known"]
    hidden = f"row {private[0]:,}" if len(private) == 1 else f"{len(private):,} rows"
    if content["whole"]:
        hidden += ", those that follow each other as a whole,"
    sentences = [
        f"Hides {hidden} of {content['records']:,} records, epsilon {number(content['epsilon'])}, by "
        f"{content['method']}, from an adversary who knows {Adversary(content['adversary']).knows}"
        + (f" but rows {', '.join(map(str, known[:10]))}." if known else "."),
        f"Leaks {number(content['leakage'])}, exactly. Releases {100 * content['utility']:.6g} % of the records on "
        "average; all rows that are not listed are released.",
    ]
    if content["adversary"] == "pufferfish" and not known:
        most = content["leakage_to"]["bdp"]
        much = "everything" if most is None else f"up to {number(most)}"
        sentences.append(
            f"An adversary who knows other records may learn {much}; a guarantee for the adversary bdp bounds that."
        )
    if content["columns"] is not None:
        sentences.append(f"Writes the {columns_text(content['columns'])}.")
    if content["kept"]:
        sentences.append(
            f"The guarantee does not cover the kept {columns_text(content['kept'])}, written as found: nothing hides "
            "what can be told from there."
        )
    return tuple(sentences)


def _released(redaction: Redaction) -> tuple[Block, ...]:
    share = (
        f"{100 * redaction.utility:.6g} % of the records are released on average, exactly as they are. The rest is "
        f"replaced by {redaction.mark!r}; nothing is changed."
    )
    caption = "Around the first private row: what is always redacted, what only for some values, and why."
    return (
        Words((share,), Medium.PAGES),
        _probabilities(redaction.to_dict()),
        Figure(make=lambda: redaction_map(redaction), caption=caption),
    )


def _probabilities(content: dict[str, Any]) -> Table:
    """The rows that are not simply released."""
    states, private = content["states"], set(content["private"])
    rows: list[tuple[str, ...]] = []
    for block in content["blocks"]:
        for row, chances in enumerate(block["redaction_probabilities"], start=block["first"]):
            shown = ({1: "always", 0: "never"}.get(q, f"{q:.4f}") for q in chances)
            rows.append((f"{row:,}", "private" if row in private else "", *shown))
    hidden = len(rows) - MOST_ROWS
    if hidden > 0:
        half = MOST_ROWS // 2
        rows = [*rows[:half], ("…", f"{hidden:,} rows", *("" for _ in states)), *rows[-half:]]
    names = states if len(states) <= 6 else [str(n) for n in range(len(states))]
    return Table(
        caption="How often each value is redacted; rows that are not listed are released",
        head=("row", "", *(f"redact {name}" for name in names)),
        rows=tuple(rows),
        left=2,
    )


def _otherwise(redaction: Redaction, comparison: OnlyPrivateRows, knows: str) -> Section:
    words = (
        f"Taking out the private rows alone would leak {leak(comparison.leakage)} about them to an adversary who knows "
        f"{knows}: the records around them give them away."
    )
    rows = [
        ("only the private rows taken out", knows, leak(comparison.leakage)),
        ("this redaction", knows, up_to(redaction.leakage)),
    ]
    others = comparison.leakage_to.items()
    rows += [
        ("this redaction", adversary.knows, leak(value)) for adversary, value in others if adversary.knows != knows
    ]
    table = Table(
        caption="Leakage about a private row, exactly",
        head=("what is published", "to an adversary who knows", "leakage"),
        rows=tuple(rows),
    )
    return Section(title=OTHERWISE, blocks=(Words((words,)), table))


def redaction_map(redaction: Redaction, output: Output | None = None) -> Panels:
    """The block around the first private row; ``output`` is the redacted file and its layout, if there is one."""
    around, hiding = surroundings(redaction, output), redaction.hiding
    parts = [_chances(redaction, around), _influence(redaction, around)]
    if around.published is not None:
        parts.insert(0, _series(redaction, around, around.published))
    title = (
        f"epsilon {hiding.epsilon:g}, adversary {hiding.adversary}, {redaction.method}: leaks "
        f"{number(redaction.leakage)}, releases {100 * redaction.utility:.4g} % of {redaction.records:,} records"
    )
    alt = (
        f"Redaction around private row {around.private}. {title}. Rows {_listed(around.always)} are always redacted; "
        f"of rows {around.first} to {around.last} the others are redacted for some values; all further rows are "
        "released."
    )
    return Panels(title=title, parts=tuple(parts), alt=alt)


def _regions(around: Surroundings) -> tuple[Layer, ...]:
    """Always redacted dark, some values pale, released plain; private rows striped."""
    return (
        *(Band(low=run[0] - 0.5, high=run[-1] + 0.5, kind="shade") for run in _runs(around.always)),
        *(Band(low=run[0] - 0.5, high=run[-1] + 0.5, kind="pale") for run in _runs(around.sometimes)),
        *(Band(low=run[0] - 0.5, high=run[-1] + 0.5, kind="hatched") for run in _runs(around.all_private)),
    )


def _rows(around: Surroundings, name: str = "") -> Axis:
    return Axis(name=name, low=around.low - 0.5, high=around.high + 0.5, whole=True)


def _series(redaction: Redaction, around: Surroundings, published: tuple[tuple[int, int | None], ...]) -> Chart:
    """What was published: points for values, crosses for marks, which have a line of their own."""
    values = [(place, state + 1) for place, state in published if state is not None]
    marks = [(place, 0) for place, state in published if state is None]
    shown = [points(places, series=series) for places, series in ((values, 0), (marks, 1)) if places]
    return Chart(
        title="published series (crosses: redacted)",
        x=_rows(around),
        y=Axis(scale="names", names=(redaction.mark, *redaction.hiding.chain.labels)),
        layers=(*_regions(around), *shown),
        alt=f"The published series, rows {around.low} to {around.high}: {_listed([x for x, _ in marks])} are redacted.",
        width=_WIDTH,
        height=1.9,
    )


def _chances(redaction: Redaction, around: Surroundings) -> Chart:
    labels = redaction.hiding.chain.labels[:MOST_LINES]
    lines = [
        Line(x=tuple(around.places), y=tuple(row[v] for row in around.probabilities), label=label, series=v, step=True)
        for v, label in enumerate(labels)
    ]
    return Chart(
        title="how often a value is redacted",
        x=_rows(around),
        y=Axis(name="probability", low=-0.05, high=1.08),
        layers=(*_regions(around), *lines),
        alt=f"Redaction probability of each value, rows {around.low} to {around.high}.",
        width=_WIDTH,
        height=2.3,
        legend="center right",
    )


def _influence(redaction: Redaction, around: Surroundings) -> Chart:
    private, epsilon = around.private, redaction.hiding.epsilon
    top = 2.5 * epsilon
    what = "row" if redaction.row_at is None else "place in the order of the series"
    sides = (
        (range(private - 1, around.low - 1, -1), around.before),
        (range(private + 1, around.high + 1), around.after),
    )
    lines: list[Layer] = []
    for v in range(min(redaction.hiding.chain.size, MOST_LINES)):
        for places, influence in sides:
            heights = tuple(min(row[v], 2 * top) for row in influence)  # infinite ones leave the chart
            lines.append(Line(x=tuple(places), y=heights, series=v, marked=True))
    return Chart(
        title="how much a row would say of the private one, and the budget",
        x=_rows(around, f"{what} (dark: always redacted, pale: some values, striped: private)"),
        y=Axis(name="influence", low=0.0, high=top),
        layers=(*_regions(around), *lines, Rule(at=epsilon, label="budget", series=3)),
        alt=f"Influence of private row {private} on the values of rows around it, beside the budget of {epsilon:g}.",
        width=_WIDTH,
        height=2.5,
        legend="upper right",
    )


def _runs(places: Sequence[int]) -> list[list[int]]:
    """Row numbers, those that follow each other together."""
    numbered = itertools.groupby(enumerate(places), key=lambda pair: pair[1] - pair[0])
    return [[place for _, place in run] for _, run in numbered]


def _listed(places: Sequence[int]) -> str:
    """Row numbers in words: 4 to 7, 9."""
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]} to {r[-1]}" for r in _runs(places)) or "none"
