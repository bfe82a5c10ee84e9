"""What there is to say of losses that differ from record to record, and who learns most from which questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.words import number, up_to
from pufferdp.report.charts import Axis, Chart, Line
from pufferdp.report.page import Figure, Page, Section, Table, Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pufferdp.assess.losses import LossesReport
    from pufferdp.leakage.tight.attack import SideAttack, TightLeakage

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
    sentences = (_answer(report), *attack_words(report.attack, report.labels))
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


def attack_words(attack: TightLeakage, labels: Sequence[str]) -> tuple[str, ...]:
    """Who learns most, and from which yes/no questions to the records around."""
    if attack.likelier == attack.other:
        return ()
    about = f"about the record being {labels[attack.likelier]} and not {labels[attack.other]}"
    known = [
        f"the record {side.known[0]:,} step{'s' * (side.known[0] != 1)} {place} it to be {labels[side.known[1]]}"
        for place, side in (("before", attack.before), ("after", attack.after))
        if side.known is not None
    ]
    out = [f"Most is learnt by someone who knows {' and '.join(known)}, {about}."] if known else []
    asked = _questions(attack, labels)
    return (*out, asked) if asked else tuple(out)


def _questions(attack: TightLeakage, labels: Sequence[str]) -> str | None:
    """The questions of the worst algorithm in a sentence; None where there are none, or too many."""
    before, after = _runs(attack.before), _runs(attack.after)
    if not (before or after) or max(len(before), len(after)) > _MOST_RUNS:
        return None
    if before == after:
        parts = [_asked(first, last, states, "on either side", labels) for first, last, states in before]
    else:
        parts = [_asked(first, last, states, "before it", labels) for first, last, states in before]
        parts += [_asked(first, last, states, "after it", labels) for first, last, states in after]
    return f"The worst algorithm asks {' It asks '.join(parts)}"


def _asked(first: int, last: int | None, states: tuple[int, ...], side: str, labels: Sequence[str]) -> str:
    if last is None:
        where = f"all records from the {_ordinal(first)} {side}" if first > 1 else f"all records {side}"
    elif first == last:
        where = f"the {_ordinal(first)} record {side}" if first > 1 else f"the next record {side}"
    elif first == 1:
        where = f"the next {last:,} records {side}"
    else:
        where = f"the {_ordinal(first)} to {_ordinal(last)} record {side}"
    return f"{where}: is it {' or '.join(labels[s] for s in states)}?"


def _ordinal(n: int) -> str:
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{ending}"


def _runs(side: SideAttack) -> list[tuple[int, int | None, tuple[int, ...]]]:
    """First and last distance that are asked about the same states; None: without end."""
    runs: list[tuple[int, int | None, tuple[int, ...]]] = []
    for distance, states in enumerate(side.questions, start=1):
        if runs and runs[-1][2] == states and runs[-1][1] == distance - 1:
            runs[-1] = runs[-1][0], distance, states
        elif states:
            runs.append((distance, distance, states))
    if runs and runs[-1][1] == len(side.questions) and (side.records is None or side.records > len(side.questions)):
        runs[-1] = runs[-1][0], None, runs[-1][2]
    return runs


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
