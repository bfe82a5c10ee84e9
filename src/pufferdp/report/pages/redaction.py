"""The map of a redaction: the series, the private record, the three regions, probabilities, influence and budget."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pufferdp.basics.words import number, table
from pufferdp.data.layout import Layout
from pufferdp.data.series import open_series
from pufferdp.data.sources import rows
from pufferdp.leakage.redaction.regions import pointwise
from pufferdp.report.charts import Axis, Band, Chart, Layer, Line, Panels, Points, Rule

if TYPE_CHECKING:
    from pufferdp.publish.redaction.result import Redaction


MARGIN: Final = 4
"""Released rows shown on either side of a block."""
MOST_LINES: Final = 6
_WIDTH: Final = 8.0


def redaction_map(redaction: Redaction, output: tuple[str | os.PathLike[str], Layout] | None = None) -> Panels:
    """The block around the first private row; ``output`` is the redacted file and its layout, if there is one."""
    private, hiding = redaction.positions[0], redaction.hiding
    block = next(b for b in redaction.stretches if b.first <= private <= b.last)
    low, high = max(1, block.first - MARGIN), min(redaction.rows, block.last + MARGIN)
    parts = [_chances(redaction, low, high), _influence(redaction, private, low, high)]
    if output:
        parts.insert(0, _series(redaction, output, low, high))
    title = (
        f"epsilon {hiding.epsilon:g}, adversary {hiding.adversary}, {redaction.method}: leaks "
        f"{number(redaction.leakage)}, releases {100 * redaction.utility:.4g} % of {redaction.records:,} records"
    )
    sure = [row for row in range(low, high + 1) if _surely(redaction, row)]
    alt = (
        f"Redaction around private row {private}. {title}. Rows {_listed(sure)} are always redacted; of rows "
        f"{block.first} to {block.last} the others are redacted for some values; all further rows are released."
    )
    return Panels(title=title, parts=tuple(parts), alt=alt)


def _regions(redaction: Redaction, low: int, high: int) -> tuple[Layer, ...]:
    """Always redacted dark, some values pale, released plain; private rows striped."""
    places = range(low, high + 1)
    sure = [row for row in places if _surely(redaction, row)]
    some = [row for row in places if _of(redaction, row).any() and row not in sure]
    private = [row for row in places if row in redaction.positions]
    return (
        *(Band(low=run[0] - 0.5, high=run[-1] + 0.5, kind="shade") for run in _runs(sure)),
        *(Band(low=run[0] - 0.5, high=run[-1] + 0.5, kind="pale") for run in _runs(some)),
        *(Band(low=run[0] - 0.5, high=run[-1] + 0.5, kind="hatched") for run in _runs(private)),
    )


def _rows(low: int, high: int, name: str = "") -> Axis:
    return Axis(name=name, low=low - 0.5, high=high + 0.5, whole=True)


def _series(redaction: Redaction, output: tuple[str | os.PathLike[str], Layout], low: int, high: int) -> Chart:
    """What was published: points for values, crosses for marks, which have a line of their own."""
    path, layout = output
    keys = ["order"] if layout.by is None else ["person", "order"]
    found = rows(open_series(os.fspath(path), layout).table.frame.sort(*keys).select("value").head(high))
    labels, bins = redaction.hiding.chain.labels, redaction.hiding.chain.bins
    values: list[tuple[float, float]] = []
    marks: list[tuple[float, float]] = []
    for row, (value,) in enumerate(found[low - 1 :], start=low):
        name = str(value)
        if name == redaction.mark:
            marks.append((row, 0))
        elif bins is not None:
            at = np.clip(np.searchsorted(bins, float(name), side="right") - 1, 0, len(labels) - 1)
            values.append((row, float(at) + 1))
        elif name in labels:
            values.append((row, labels.index(name) + 1))
    shown = [
        Points(x=tuple(x for x, _ in places), y=tuple(y for _, y in places), series=series)
        for places, series in ((values, 0), (marks, 1))
        if places
    ]
    return Chart(
        title="published series (crosses: redacted)",
        x=_rows(low, high),
        y=Axis(scale="names", names=(redaction.mark, *labels)),
        layers=(*_regions(redaction, low, high), *shown),
        alt=f"The published series, rows {low} to {high}: {_listed([int(x) for x, _ in marks])} are redacted.",
        width=_WIDTH,
        height=1.9,
    )


def _chances(redaction: Redaction, low: int, high: int) -> Chart:
    places = tuple(range(low, high + 1))
    marks = np.array([_of(redaction, row) for row in places])
    labels = redaction.hiding.chain.labels[:MOST_LINES]
    lines = [
        Line(x=places, y=tuple(map(float, marks[:, v])), label=label, series=v, step=True)
        for v, label in enumerate(labels)
    ]
    return Chart(
        title="how often a value is redacted",
        x=_rows(low, high),
        y=Axis(name="probability", low=-0.05, high=1.08),
        layers=(*_regions(redaction, low, high), *lines),
        alt=f"Redaction probability of each value, rows {low} to {high}.",
        width=_WIDTH,
        height=2.3,
        legend="center right",
    )


def _influence(redaction: Redaction, private: int, low: int, high: int) -> Chart:
    first, design = next((a, d) for a, d in redaction.designs if private - a + 1 in d.hiding.private)
    left, right = design.hiding.sides(private - first + 1)
    before, after = (pointwise(side, reach) for side, reach in ((left, private - low), (right, high - private)))
    epsilon = redaction.hiding.epsilon
    top = 2.5 * epsilon
    what = "row" if redaction.row_at is None else "place in the order of the series"
    lines: list[Layer] = []
    for v in range(min(redaction.hiding.chain.size, MOST_LINES)):
        for places, found in (
            (range(private - 1, low - 1, -1), before),
            (range(private + 1, high + 1), after),
        ):
            lines.append(Line(x=tuple(places), y=_up_to(found[:, v], 2 * top), series=v, marked=True))
    return Chart(
        title="how much a row would say of the private one, and the budget",
        x=_rows(low, high, f"{what} (dark: always redacted, pale: some values, striped: private)"),
        y=Axis(name="influence", low=0.0, high=top),
        layers=(*_regions(redaction, low, high), *lines, Rule(at=epsilon, label="budget", series=3)),
        alt=f"Influence of private row {private} on the values of rows around it, beside the budget of {epsilon:g}.",
        width=_WIDTH,
        height=2.5,
        legend="upper right",
    )


def _up_to(values: Any, most: float) -> tuple[float, ...]:
    return tuple(map(float, np.minimum(values, most)))


def _of(redaction: Redaction, row: int) -> Any:
    for block in redaction.stretches:
        if block.first <= row <= block.last:
            return block.marks[row - block.first]
    return np.zeros(redaction.hiding.chain.size)


def _surely(redaction: Redaction, row: int) -> bool:
    return bool((_of(redaction, row) == 1).all())


def _runs(places: Sequence[int]) -> list[list[int]]:
    """Row numbers, those that follow each other together."""
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


def _listed(places: Sequence[int]) -> str:
    """Row numbers in words: 4 to 7, 9."""
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]} to {r[-1]}" for r in _runs(places)) or "none"


MOST_ROWS = 24


def redaction_table(result: dict[str, Any]) -> str:
    """The rows that are not simply released, and what the design leaks and releases."""
    rows = []
    for block in result["blocks"]:
        for n, chances in enumerate(block["redaction_probabilities"]):
            row = block["first"] + n
            note = "private" if row in result["private"] else ""
            rows.append([f"{row:,}", note, *(_chance(q) for q in chances)])
    hidden = len(rows) - MOST_ROWS
    if hidden > 0:
        keep = MOST_ROWS // 2
        rows = [*rows[:keep], ["…", f"{hidden:,} rows", *("" for _ in result["states"])], *rows[-keep:]]
    names = result["states"] if len(result["states"]) <= 6 else [str(n) for n in range(len(result["states"]))]
    head = ["row", "", *(f"redact {name}" for name in names)]
    who = {"pufferfish": "knows no record", "bdp": "may know any others", "dp": "knows all others"}
    private = result["private"]
    hide = f"row {private[0]:,}" if len(private) == 1 else f"{len(private):,} rows"
    said = [
        f"Hides {hide} of {result['records']:,} records, epsilon {number(result['epsilon'])}, by {result['method']}, "
        f"from somebody who {who[result['adversary']]}"
        + (f" but rows {', '.join(map(str, result['known'][:10]))}." if result["known"] else "."),
        f"Leaks {number(result['leakage'])}, exactly. Releases {100 * result['utility']:.6g} % of the records on "
        f"average; all rows that are not listed are released.",
    ]
    if result["adversary"] == "pufferfish" and not result["known"]:
        most = result["leakage_to"]["bdp"]
        much = "everything" if most is None else f"up to {number(most)}"
        said.append(f"Somebody who already knows other records may learn {much}; --adversary bdp bounds that.")
    return "\n".join([*(textwrap.fill(s, 96) for s in said), "", table(head, rows, left=2)])


def redaction_promise(certificate: dict[str, Any]) -> str:
    """What a certificate promises, in sentences."""
    sentences = [
        certificate["guarantee"]["statement"],
        f"Redacted by {certificate['mechanism']['name']}: leaks {number(certificate['leakage'])}, releases "
        f"{100 * certificate['utility']:.6g} % of the records on average.",
        *(f"Warning: {w}." for w in certificate["warnings"]),
    ]
    return "\n".join(textwrap.fill(s, 96) for s in sentences)


def _chance(q: float) -> str:
    return "always" if q == 1 else "never" if q == 0 else f"{q:.4f}"
