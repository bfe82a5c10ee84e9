"""What there is to say of losses that differ from record to record, with the worst-case adversary and questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pufferdp.basics.words import number, up_to
from pufferdp.report.charts import Axis, Chart, Line
from pufferdp.report.page import Figure, Page, Section, Table, Words

if TYPE_CHECKING:
    from pufferdp.assess.losses import LossesReport


def losses_page(report: LossesReport) -> Page:
    """What leaks about each record where every record has a DP loss of its own."""
    content, n, worst = report.to_dict(), report.length, report.worst - 1
    shown = sorted({0, 1, worst, n // 2, n - 2, n - 1} & set(range(n)) if n > 8 else set(range(n)))
    rows = tuple(
        (f"{t + 1:,}" + (" worst" if t == worst else ""), number(float(report.losses[t])), up_to(report.leakage[t]))
        for t in shown
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
    return Page(
        title=title,
        opening=(title,),
        sections=(
            Section(title="What leaks", blocks=(table, Figure(make=lambda: losses_chart(content)), Words(sentences))),
        ),
        data=content,
        kind="leakage",
    )


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


def losses_chart(report: dict[str, Any]) -> Chart:
    """DP loss and leakage along the records."""
    records, few = tuple(map(float, report["records"])), len(report["records"]) <= 40
    names = {"leakage": "leakage, at most", "dp_epsilon": "DP loss of the record"}
    lines = tuple(
        Line(x=records, y=tuple(map(float, report[part])), label=label, series=n, marked=few, bold=part == "leakage")
        for n, (part, label) in enumerate(names.items())
    )
    title = f"{report['length']:,} records, adversary {report['adversary']}"
    return Chart(
        title=title,
        x=Axis(name="record", whole=True),
        y=Axis(name="about one record", low=0.0),
        layers=lines,
        alt=f"DP loss and leakage along {title}: under this model at most {number(report['upper'])}, about record "
        f"{report['worst']:,}.",
        height=4.2,
        legend="outside",
    )
