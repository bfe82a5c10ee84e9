"""What there is to say of losses that differ from record to record, and who learns most from which questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.words import number, up_to
from pufferdp.report.charts import Axis, Chart, Line
from pufferdp.report.page import Figure, Page, Section, Table, Words

if TYPE_CHECKING:
    from pufferdp.assess.losses import LossesReport

_MOST_RUNS: Final = 3
"""Changes of the question on a side that a sentence tells."""


def losses_page(report: LossesReport) -> Page:
    """What leaks about each record where every record has a DP loss of its own."""
    content, n, worst = report.to_dict(), report.length, report.worst - 1
    shown = sorted({0, 1, worst, n // 2, n - 2, n - 1} & set(range(n)) if n > 8 else set(range(n)))
    rows = tuple(
        (f"{t + 1:,}" + (" worst" if t == worst else ""), number(float(report.losses[t])), up_to(report.leakage[t]))
        for t in shown
    )
    title = f"A DP loss of its own for each of {n:,} records, for an adversary who knows {report.adversary.knows}"
    table = Table(caption="Leakage about a record, at most", head=("record", "DP loss", "leaks at most"), rows=rows)
    sentences = (_answer(report), *attack_words(content["attack"]))
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
    answer = (
        f"Whatever the algorithms, the odds about record {report.worst:,} shift by at most e^{up_to(report.upper)}; "
        f"its own DP loss is {number(own)}."
    )
    return f"{answer} {reached(report.lower, report.exact)}" if report.upper > 0 else answer


def reached(lower: float, exact: float | None) -> str:
    """How much of a bound some algorithm leaks."""
    if exact is not None:
        return "Some algorithm leaks as much: the number is exact."
    return f"Some algorithm leaks {number(lower)}."


def attack_words(attack: dict[str, Any]) -> tuple[str, ...]:
    """Who learns most, and from which yes/no questions to the records around."""
    if attack["likelier"] == attack["other"]:
        return ()
    known = [
        f"the record {side['distance']:,} step{'s' * (side['distance'] != 1)} {place} it to be {side['state']}"
        for place in ("before", "after")
        if (side := attack[place]) is not None
    ]
    about = f"about the record being {attack['likelier']} and not {attack['other']}"
    out = [f"Most is learnt by someone who knows {' and '.join(known)}, {about}."] if known else []
    before, after = attack["questions"]["before"], attack["questions"]["after"]
    if (before or after) and max(len(before), len(after)) <= _MOST_RUNS:
        sides = {"on either side": before} if before == after else {"before it": before, "after it": after}
        asked = [_asked(run, side) for side, runs in sides.items() for run in runs]
        out.append(f"The worst algorithm asks {' It asks '.join(asked)}")
    return tuple(out)


def _asked(run: dict[str, Any], side: str) -> str:
    first, last = run["from"], run["to"]
    if last is None:
        where = f"all records from the {_ordinal(first)} {side}" if first > 1 else f"all records {side}"
    elif first == last:
        where = f"the {_ordinal(first)} record {side}" if first > 1 else f"the next record {side}"
    elif first == 1:
        where = f"the next {last:,} records {side}"
    else:
        where = f"the {_ordinal(first)} to {_ordinal(last)} record {side}"
    return f"{where}: is it {' or '.join(run['states'])}?"


def _ordinal(n: int) -> str:
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{ending}"


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
        alt=f"DP loss and leakage along {title}: at most {number(report['upper'])}, about record {report['worst']:,}.",
        height=4.2,
        legend="outside",
    )
