"""What there is to say of losses that differ from record to record, with the worst-case adversary and questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pufferdp.basics.words import number, up_to
from pufferdp.report.charts import Axis, Chart, Line
from pufferdp.report.page import Figure, Page, Table, Words
from pufferdp.report.pages.common import single_page

if TYPE_CHECKING:
    from pufferdp.assess.losses import LossesReport


def losses_page(report: LossesReport) -> Page:
    """What leaks about each record where every record has a DP loss of its own."""
    content, n = report.to_dict(), report.length
    rows = tuple(
        (name, number(float(report.losses[at])), up_to(report.leakage[at]))
        for name, at in shown_records(n, report.worst - 1)
    )
    title = (
        f"A DP loss of its own for each of {n:,} records, under this model, for an adversary who knows "
        f"{report.adversary.knows}"
    )
    table = Table(
        caption="Leakage about a record under this model, at most",
        head=("record", "DP loss", "leaks at most"),
        rows=rows,
    )
    sentences = (_answer(report), *(() if report.attack is None else report.attack.sentences))
    blocks = (table, Figure(make=lambda: losses_chart(content)), Words(sentences))
    return single_page(title, "What leaks", *blocks, data=content, kind="leakage", opening=True)


def _answer(report: LossesReport) -> str:
    own = float(report.losses[report.worst - 1])
    target = "any record" if report.attack is None else f"record {report.worst:,}"
    answer = (
        f"Under this model, any algorithms with these DP losses change the odds between two values of {target} by at "
        f"most a factor of e^{up_to(report.upper)}" + (";" if report.attack else ".")
    )
    answer += f" its own DP loss is {number(own)}." if report.attack else ""
    return f"{answer} {reached(report.lower, report.exact)}" if report.upper > 0 else answer


def reached(lower: float, exact: float | None) -> str:
    """How much of a bound some algorithm leaks."""
    if exact is not None:
        return "Some DP algorithm leaks as much, so this bound is exact."
    return f"Some DP algorithm leaks {number(lower)}." if lower else "This is one upper bound for all records."


def shown_records(n: int, worst: int) -> list[tuple[str, int]]:
    """The records that a table shows, by name and place: both ends, the middle and the worst."""
    places = sorted({0, 1, worst, n // 2, n - 2, n - 1} & set(range(n)) if n > 8 else set(range(n)))
    return [(f"{t + 1:,}" + (" worst" if t == worst else ""), t) for t in places]


def losses_chart(report: dict[str, Any]) -> Chart:
    """DP loss and leakage along the records."""
    parts = {"leakage, at most": report["leakage"], "DP loss of the record": report["dp_epsilon"]}
    title = f"{report['length']:,} records, adversary {report['adversary']}"
    alt = f"DP loss and leakage along {title}: under this model at most {number(report['upper'])}, about record "
    return along_records(title, ("record", "about one record"), report["records"], parts, f"{alt}{report['worst']:,}.")


def along_records(
    title: str, axes: tuple[str, str], records: list[int], parts: dict[str, list[float]], alt: str
) -> Chart:
    """A line along the records for each part, the first one bold."""
    lines = tuple(
        Line(
            x=tuple(map(float, records)),
            y=tuple(map(float, values)),
            label=label,
            series=n,
            marked=len(records) <= 40,
            bold=n == 0,
        )
        for n, (label, values) in enumerate(parts.items())
    )
    x, y = Axis(name=axes[0], whole=True), Axis(name=axes[1], low=0.0)
    return Chart(title=title, x=x, y=y, layers=lines, alt=alt, height=4.2, legend="outside")
