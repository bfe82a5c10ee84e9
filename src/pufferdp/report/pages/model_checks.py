"""What the data said about a model, as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pufferdp.basics.words import number
from pufferdp.report.charts import Axis, Chart, Layer, Line, Rule
from pufferdp.report.page import Block, Figure, Page, Section, Table, Words
from pufferdp.report.pages.fits import checks_chart, goodness_of_fit

if TYPE_CHECKING:
    from pufferdp.publish.fits.check import ModelCheck

RAW: Final = (
    "The checks are computed from the raw data without noise. They become part of the model file and of every "
    "certificate made with it."
)
_REJECTED: Final = (
    "Rejected: the data prove more than 1.25 times the guaranteed epsilon. Releases from this model stop unless the "
    "misfit is accepted. Fit a richer family, widen the noise for the data, or protect longer periods."
)


def model_check_page(check: ModelCheck) -> Page:
    """A model compared with data: one sentence, the leakage by window, and what was compared."""
    effective = check.effective
    words = [_REJECTED if check.rejected else "", effective.coverage_sentence, "" if check.tests else RAW]
    blocks: list[Block] = [Words(tuple(filter(None, words)))]
    if check.members:
        blocks.append(_members(check))
    if effective.windows is not None:
        blocks.append(_windows(check))
        blocks.append(Figure(make=lambda: windows_chart(check), caption="The estimated leakage by window."))
    blocks.extend(goodness_of_fit(check.tests))
    return Page(
        title="A model compared with data",
        opening=(check.sentence,),
        sections=(Section(title="What the data say about the model", blocks=tuple(blocks)),),
        facts=tuple((name, text) for name, text in _facts(check) if text),
        data=check.to_dict(),
    )


def _facts(check: ModelCheck) -> list[tuple[str, str]]:
    effective = check.effective
    gain = "" if effective.gain is None or effective.z is None else f"{effective.gain:.4f} bits, z = {effective.z:.1f}"
    noise = "" if effective.scale is None else f"{effective.query}, scale {number(effective.scale)}"
    return [
        ("records", f"{effective.records:,} in {effective.blocks:,} blocks" if effective.records else ""),
        ("compared with", effective.family),
        ("gain on each held-out record", gain),
        ("noise", noise),
        ("noise planned for", f"e^{check.epsilon / check.factor:.3g}" if check.factor > 1 else ""),
        ("adversary", effective.adversary),
    ]


def _members(check: ModelCheck) -> Table:
    """What the data said about each model of a list."""
    rows = tuple(
        (str(n), *("-" if value is None else number(value) for value in (member.estimate, member.proven)))
        for n, member in enumerate(check.members, start=1)
    )
    caption = "Each model of the list, under the noise for all of them; the worst counts"
    return Table(caption=caption, head=("model", "estimated leakage", "proven at least"), rows=rows)


def _windows(check: ModelCheck) -> Table:
    """The estimate for each number of unknown records on either side of the target."""
    widened = (check.widened.windows or {}) if check.widened is not None else {}
    head = ("unknown records on either side", "estimated leakage", *(("widened noise",) if widened else ()))
    rows = tuple(
        (half, number(value), *((number(widened.get(half)),) if widened else ()))
        for half, value in (check.effective.windows or {}).items()
    )
    caption = "What 99 % of the held-out records stay below, for the count that reveals most"
    return Table(caption=caption, head=head, rows=rows)


def check_chart(check: ModelCheck) -> Chart:
    """The figure of a check: the tests of an AR(1) series, otherwise the leakage by window."""
    return checks_chart(check.tests) if check.tests else windows_chart(check)


def windows_chart(check: ModelCheck) -> Chart:
    """The estimated leakage by window, with the guarantee and the proven bound as lines."""
    effective = check.effective
    windows = effective.windows or {}
    halves, values = tuple(float(half) for half in windows), tuple(windows.values())
    layers: list[Layer] = [
        Line(x=halves, y=values, label="estimated", marked=True),
        Rule(at=check.epsilon, label=f"guarantee, {number(check.epsilon)}"),
    ]
    if effective.proven is not None:
        layers.append(Rule(at=effective.proven, series=1, label=f"proven at least, {number(effective.proven)}"))
    return Chart(
        title="Leakage on held-out data (change of the log odds)",
        x=Axis(name="unknown records on either side of the target"),
        y=Axis(name="leakage", low=0.0),
        layers=tuple(layers),
        alt=check.sentence,
    )
