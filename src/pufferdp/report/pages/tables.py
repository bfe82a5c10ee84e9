"""What there is to say of a released table and of the plan of one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.words import line_width, number
from pufferdp.models.base import PAIR_MARK
from pufferdp.publish.certificate import odds_guarantee
from pufferdp.publish.tables.classic import cross_table
from pufferdp.publish.tables.transitions import ARROW
from pufferdp.publish.verdict import Verdict, certified_table_verdicts
from pufferdp.report.charts import Axis, Chart, Rule, interval_chart
from pufferdp.report.page import Block, Figure, Medium, Page, Table, Words
from pufferdp.report.pages.common import certificate_page, parts, plain_dp, plan_facts, planned_page, rows_left_out

if TYPE_CHECKING:
    from pufferdp.assess.comparison import PlainDp
    from pufferdp.publish.tables.plan import TablePlan
    from pufferdp.publish.tables.publication import TableRelease

MOST_ROWS: Final = 12
"""Of a longer table the first rows are shown."""
MOST_COLUMNS: Final = 20
"""Of a wider one the first columns; in a terminal as many as fit."""
MOST_DRAWN: Final = 1_000
"""Groups in a figure: each then has two pixels of the widest figure."""
_PAIRS: Final = {"transitions": (ARROW, "from \\ to"), "cross": (PAIR_MARK, "")}
"""Questions whose numbers are about pairs: what stands between the two names, and what the corner says."""


def table_release_page(release: TableRelease, comparison: PlainDp | None = None) -> Page:
    """A released table, with its rows also where its certificate has their hash alone."""
    content = release.certificate.to_dict()
    return _page(content, {**content["table"], "rows": release.table.rows}, comparison)


def page_from_certificate(certificate: dict[str, Any], comparison: PlainDp | None = None) -> Page:
    """A released table, from its certificate."""
    return _page(certificate, certificate["table"], comparison)


def table_chart(certificate: dict[str, Any], rows: Any = None) -> Chart:
    """The first number of the first question for the first groups, with the range in which each true one lies."""
    table, question = certificate["table"], certificate["questions"][0]
    rows = table["rows"] if rows is None else rows
    keys = len(certificate["groups"]["keys"])
    column = table["columns"][keys + 1]
    present = [row for row in rows or () if row[keys + 1] is not None]
    drawn = present[:MOST_DRAWN]
    values = [float(row[keys + 1]) for row in drawn]
    names = [" ".join(map(str, row[:keys])) or "all" for row in drawn]
    alpha, divided = question["accuracy"]["alpha"], question["noise"]["divided"]
    # How far off a quantile is depends on how close records are, and a mean on how many there are.
    unknown = question["accuracy"]["about"] == "ranks" or (divided and certificate["groups"]["sizes"] == "hidden")
    intervals = None
    if not unknown:
        alphas = [alpha / row[keys] if divided else alpha for row in drawn]
        low, high = ([value + sign * a for value, a in zip(values, alphas, strict=True)] for sign in (-1, 1))
        intervals = low, high
    sure = f"{1 - question['accuracy']['beta']:.4g}"
    title = f"{column}, epsilon {certificate['guarantee']['epsilon']:g}"
    title += "" if unknown else f"; whiskers hold each true value with probability {sure}"
    title += f"; {left_out(len(present))}" if len(present) > len(drawn) else ""
    spoken = "; ".join(f"{name} {number(value)}" for name, value in zip(names[:30], values, strict=False))
    spoken += "; …" if len(drawn) > 30 else ""
    alt = f"The released {column} of {len(drawn)} of {certificate['groups']['count']} groups: {spoken}."
    return interval_chart(names, values, intervals, Axis(name=column), Rule(at=0.0), title=title, alt=alt, widest=14.0)


def left_out(groups: int) -> str:
    """What a figure of so many groups leaves out; empty where it has them all."""
    return f"the first {MOST_DRAWN:,} of {groups:,} groups" if groups > MOST_DRAWN else ""


def _page(certificate: dict[str, Any], table: dict[str, Any], comparison: PlainDp | None) -> Page:
    g = certificate["guarantee"]
    rows, asked = table["rows"], ", ".join(question["name"] for question in certificate["questions"])
    per = certificate["groups"]["per"]
    figure = Figure(
        make=lambda: table_chart(certificate, rows),
        caption="The first numbers of the table and the range of the true ones.",
    )
    shown: tuple[Block, ...] = ()
    if rows is not None:
        keys = len(certificate["groups"]["keys"])
        alone = not keys and len(rows) == 1
        of_rows = _one_group(certificate["questions"], rows[0]) if alone else _shown(table["columns"], rows, keys)
        shown = (*of_rows, figure)
    together = ", all its queries together," if len(certificate["questions"]) > 1 else ""
    spends = (
        f"The table{together} spends a DP loss of {number(certificate['dp_loss'])} on each record, by "
        f"{certificate['mechanism']['name']}; its groups share no record."
    )
    return certificate_page(
        certificate,
        title=f"Private table: {asked} of {certificate['data']['column']}" + (f" per {', '.join(per)}" if per else ""),
        lead=f" in {certificate['groups']['count']:,} groups, epsilon {number(g['epsilon'])}",
        verdict=_verdicts(certified_table_verdicts(certificate)),
        accuracy=(*shown, _questions(certificate["questions"])),
        own=(spends,),
        otherwise=plain_dp(comparison, g["epsilon"], "this table"),
    )


def _one_group(questions: list[dict[str, Any]], row: Any) -> tuple[Table, ...]:
    """The numbers of all records together, question by question; those about pairs as tables of their own."""
    blocks, lines, at, wide = [], [], 1, 8  # so many pairs in a row
    for question in questions:
        labels, name = question["labels"], question["name"]
        numbers = row[at : at + len(labels)]
        at += len(labels)
        if name in _PAIRS:
            mark, first = _PAIRS[name]
            columns, cells = cross_table(labels, numbers, mark)
            body = [(before, *map(_cell, cells[before])) for before in list(cells)[:MOST_ROWS]]
            blocks.append(
                Table(
                    caption=f"The released {name}",
                    head=(first, *columns[:wide]),
                    rows=tuple(line[: wide + 1] for line in body),
                    below=rows_left_out(len(cells) - MOST_ROWS, len(columns) - wide),
                )
            )
        else:
            lines += [
                (name if len(labels) == 1 else f"{name.partition(':')[0]} {label}", _cell(cell))
                for label, cell in zip(labels, numbers, strict=True)
            ]
    if lines:
        head, more = ("query", "answer"), len(lines) - 2 * MOST_ROWS
        below, shown = rows_left_out(more, thing="number"), tuple(lines[: 2 * MOST_ROWS])
        blocks.insert(0, Table(caption="The released numbers", head=head, rows=shown, below=below))
    return tuple(blocks)


def _shown(columns: list[str], rows: Any, keys: int) -> tuple[Table, Table]:
    """The first rows, with as many columns as fit: a terminal is narrow."""
    cells = [tuple(_cell(cell) for cell in row) for row in rows[:MOST_ROWS]]
    names = [_cut(name) for name in columns]
    widths = [max(len(name), *(len(row[n]) for row in cells)) + 2 for n, name in enumerate(names)]
    fits = max(1, sum(total <= line_width() + 2 for total in itertools.accumulate(widths)))
    return _first(names, cells, len(rows), keys, fits, Medium.TERMINAL), _first(
        names, cells, len(rows), keys, MOST_COLUMNS, Medium.PAGES
    )


def _first(names: list[str], cells: list[tuple[str, ...]], rows: int, keys: int, most: int, medium: Medium) -> Table:
    """So many columns of the first rows, and how many there are besides."""
    return Table(
        caption="The released numbers, a row for each group",
        head=tuple(names[:most]),
        rows=tuple(row[:most] for row in cells),
        media=medium,
        left=min(keys, most),
        below=rows_left_out(rows - len(cells), len(names) - most),
    )


def _cut(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:39]}…"


def _cell(cell: Any) -> str:
    return "" if cell is None else _cut(cell) if isinstance(cell, str) else number(cell)


def _questions(questions: list[dict[str, Any]]) -> Table:
    """What each question spends: its share and DP loss, the scale of its noise and its error bound."""
    rows = []
    for question in questions:
        values = question["noise"]["scale"], question["accuracy"]["alpha"]
        unit = " ranks" if question["accuracy"]["about"] == "ranks" else ""
        unit = "/records" if question["noise"]["divided"] else unit
        share, loss = f"{100 * question['share']:.4g} %", number(question["dp_loss"])
        rows.append((question["name"], share, loss, *(f"{number(value)}{unit}" for value in values)))
    sure = f"{100 * (1 - questions[0]['accuracy']['beta']):.4g} % error bound"
    return Table(
        caption="What each question spends, its noise, and how far all its numbers of a group are off at most",
        head=("query", "share", "DP loss", "noise scale", sure),
        rows=tuple(rows),
    )


def table_plan_page(plan: TablePlan, comparison: PlainDp | None = None) -> Page:
    """The plan of a table: before any data is read."""
    content = plan.to_dict()
    per = f" per {', '.join(content['per'])}" if content["per"] else ""
    table = _questions([_certified(query) for query in content["queries"]])
    size = content["group_records"]
    over = "" if size is None else f" Shares and means are those of a group of {size:,} records."
    divided = any("undivided" in query for query in content["queries"])
    words = (
        *((content["zone"],) if "zone" in content else ()),
        plan.problem.checked.sentence,
        f"All queries together spend a DP loss of {number(content['dp_loss'])} on each record, by "
        f"{content['mechanism']}; groups share no record, so any number of them costs the same.{over * divided}",
    )
    problem, epsilon, sees = plan.problem, content["epsilon"], "a table released by this plan"
    between, knows = "any two values of any single record", problem.adversary.knows
    guarantee = odds_guarantee(sees, between, epsilon, knows, single=problem.model.single)
    size = f"{content['records']:,} records, epsilon {number(epsilon)}"
    return planned_page(
        f"a table of {', '.join(query['query'] for query in content['queries'])}{per}",
        size,
        parts((guarantee,), (table, Words(words)), *plain_dp(comparison, epsilon, "a table by this plan")),
        content,
        verdict=_verdicts(plan.verdicts),
        opening=(f"Table{per}, {size}, adversary {content['adversary']}",),
        facts=(
            *plan_facts(problem.adversary, comparison),
            ("mechanism", content["mechanism"]),
            ("rests on", plan.noise.theorem),
        ),
    )


def _verdicts(verdicts: list[Verdict]) -> tuple[str, ...]:
    """A sentence for each question, those that are not useful first."""
    return tuple(verdict.sentence for verdict in sorted(verdicts, key=lambda verdict: verdict.useful is not False))


def _certified(query: dict[str, Any]) -> dict[str, Any]:
    """A question of a plan as a certificate has it."""
    divided = query["scale"] is None
    numbers = query["undivided"] if divided else {"scale": query["scale"], "alpha": query["accuracy"]["alpha"]}
    accuracy, noise = {**query["accuracy"], "alpha": numbers["alpha"]}, {"scale": numbers["scale"], "divided": divided}
    return {**query, "name": query["query"], "noise": noise, "accuracy": accuracy}
