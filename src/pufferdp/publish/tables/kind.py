"""A table as a kind of publication: its noise, what it guarantees and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, cast

from pufferdp.basics import checks
from pufferdp.basics.errors import CertificateError, PufferdpError
from pufferdp.basics.progress import Progress, silent
from pufferdp.ledger.charge import Charge
from pufferdp.models.base import Model
from pufferdp.publish.answers.certificate import guarantee
from pufferdp.publish.answers.mechanisms.baselines import CURVE
from pufferdp.publish.answers.problem import Problem, StatedNoise
from pufferdp.publish.certificate import TABLE_SCHEMA, is_digest
from pufferdp.publish.kind import Kind, Made, stated_ranges
from pufferdp.publish.tables.certificate import (
    MOST_CELLS,
    TableCertificate,
    public_facts,
    statement,
    within_bins,
)
from pufferdp.publish.tables.groups import Grouping
from pufferdp.publish.tables.parsing import parse_question
from pufferdp.publish.tables.problem import TableNoise, TableProblem, clip_list, question_part, solve_table
from pufferdp.publish.tables.questions import Question, QuestionNoise, Row
from pufferdp.publish.tables.table import RECORDS, Cell, ReleasedTable
from pufferdp.publish.verdict import certified_table_verdicts


class TableKind(Kind[TableProblem, TableNoise, TableCertificate]):
    """Tables: several questions of every group."""

    schema = TABLE_SCHEMA
    certificate = TableCertificate
    ledger_kinds = ("table",)
    released = "table"
    row_unprovable: ClassVar[Mapping[str, str]] = {
        "ranges": "which records were read",
        "facts.per": "disjoint groups cost what one costs, whatever tells them apart",
        "facts.queries": "all queries together have the same loss, whatever they are",
        "facts.clip": "the loss does not depend on it",
        "facts.split": "the loss is that of all queries together",
        "facts.lengths": "how many chains were read; the longest must be the one charged for",
    }

    def problem(self, certificate: TableCertificate, **more: Any) -> TableProblem:
        """The questions, their groups and the guarantee."""
        c = certificate
        if not c.questions:
            raise CertificateError("questions is empty; a table has at least one")
        grouping = Grouping.of_words(c.groups.per)
        if grouping.person and c.data.by is None:
            raise CertificateError("groups.per is person, and data.by names no column that tells people apart")
        if c.groups.named:
            grouping = replace(grouping, named=_stated_names(c))
        return TableProblem(
            **Problem.chains_stated(c),
            questions=tuple(parse_question(q.name, clip=_clip(q.clip)).stated(q.noise.balanced) for q in c.questions),
            grouping=grouping,
            split=tuple(q.share for q in c.questions),
            beta=c.questions[0].accuracy.beta,
            stated=StatedNoise(sigma=1 / c.dp_loss if c.dp_loss > 0 else 0.0),
            curve=c.mechanism.name.removeprefix(CURVE),
            ranges=stated_ranges(c.data),
            sizes=c.groups.sizes,
        )

    def solve(self, problem: TableProblem, progress: Progress) -> TableNoise:
        """The DP loss that the guarantee allows, and the noise of each question."""
        progress("calibrating")
        return solve_table(problem)

    def content(self, problem: TableProblem, solution: TableNoise, made: Made) -> dict[str, Any]:
        """The content of the certificate, made from the problem and the table."""
        facts, grouping, stated, released = made.data, problem.grouping, made.stated, made.released
        table = None if released["rows"] is None else _table(released)
        columns = (*grouping.keys(facts["by"]), RECORDS, *problem.columns())
        if table is not None:
            check_rows(problem, solution, table, facts["records"])
        elif not is_digest(released["sha256"]):
            raise CertificateError(f"table.sha256 is {released['sha256']!r}; it must be the hash of a table")
        count = released.get("count") if stated is None else stated["groups"]["count"]
        count = count if table is None else len(table.rows)
        cells = (count or 1) * len(columns)
        if (table is None) != (cells > MOST_CELLS) and stated is not None:
            raise CertificateError(
                f"a table of {cells:,} cells is in its certificate up to {MOST_CELLS:,}, or its hash"
            )
        return {
            **self.common(
                problem, solution, made, problem.model, checked=problem.checked, within_bins=within_bins(problem)
            ),
            "guarantee": guarantee(problem, statement(problem, facts) + problem.checked.misfit),
            "mechanism": {"name": f"{CURVE}{solution.curve}", "theorem": solution.theorem},
            "dp_loss": solution.dp_loss,
            "questions": [question_part(problem, solution, n) for n in range(len(problem.questions))],
            "groups": {
                "per": grouping.per,
                "keys": list(grouping.keys(facts["by"])),
                "named": grouping.named is not None,
                "count": count,
                "sizes": problem.sizes,
            },
            "public": public_facts(problem, facts),
            "table": {
                "columns": list(columns),
                "rows": released["rows"],
                "sha256": released["sha256"] if table is None else table.sha256,
            },
        }

    def verify(
        self, raw: dict[str, Any], head: str | None = None, *, table: ReleasedTable | None = None, **more: Any
    ) -> tuple[list[str], list[str]]:
        """As every kind; a table that is handed over must be the one of the certificate."""
        problems, warnings = super().verify(raw, head, **more)
        if table is None or problems:
            return problems, warnings
        if table.sha256 != raw["table"]["sha256"]:
            return ["the table is not the one of the certificate: its hash differs"], warnings
        try:
            problem = self.problem(TableCertificate.model_validate(raw))
            check_rows(problem, self.solve(problem, silent), table, raw["data"]["records"])
            if len(table.rows) != raw["groups"]["count"]:
                problems.append(f"groups.count is {raw['groups']['count']}; the table has {len(table.rows)} rows")
        except PufferdpError as error:
            problems.append(str(error))
        return problems, warnings

    def vouched(
        self, certificate: Mapping[str, Any], *, table: ReleasedTable | None = None, **more: Any
    ) -> dict[str, Any]:
        """The first rows; of a table that is not in the certificate those of the one that is handed over, if any."""
        kept = certificate["table"]["rows"] if table is None else [list(row) for row in table.rows]
        first = {} if kept is None else {"columns": certificate["table"]["columns"], "rows": kept[:MOST_SHOWN]}
        return {"groups": certificate["groups"]["count"], **first, "sha256": certificate["table"]["sha256"]}

    def beside(self, certificate: Mapping[str, Any], output: Mapping[str, Any]) -> dict[str, Any]:
        """The table, of a large one that in the output, with its estimate and the verdicts."""
        problem, released = self.problem(TableCertificate.model_validate(certificate)), certificate["table"]
        verdicts = [verdict.to_dict() for verdict in certified_table_verdicts(certificate)]
        if released["rows"] is None and not {"table", "estimate"} & output.keys():
            return {"verdicts": verdicts}
        try:
            table = _table(output.get("table", released))
            if table.sha256 != released["sha256"]:
                raise CertificateError("the table is not the one of the certificate: its hash differs")
            nearest = nearest_table(problem.questions, problem.model, table)
        except (LookupError, TypeError, ValueError) as error:
            raise CertificateError(f"the table beside it cannot be read: {type(error).__name__}") from None
        return {"verdicts": verdicts, "table": table.to_dict(), "estimate": nearest.to_dict()}

    def as_stated(self, solution: TableNoise, stated: Mapping[str, Any]) -> TableNoise:
        """With the DP loss of the certificate."""
        return replace(solution, dp_loss=stated["dp_loss"])

    def charge(self, problem: TableProblem, solution: TableNoise) -> Charge:
        """Its DP loss on every record that was read, once: groups share none."""
        facts = {
            "per": problem.grouping.per,
            "queries": [question.name for question in problem.questions],
            "clip": [clip_list(question.clip) for question in problem.questions],
            "split": list(problem.split),
            "mechanism": f"{CURVE}{solution.curve}",
            "epsilon": problem.epsilon,
        }
        epsilon, ranges = problem.epsilon, problem.ranges
        return problem.charge(facts, kind="table", dp_loss=solution.dp_loss, epsilon=epsilon, ranges=ranges)

    def recompute(self, charge: Charge, model: Model | None) -> Charge | None:
        """From the questions, the curve and the guarantee of a charge."""
        if model is None:
            return None
        facts = charge.facts
        clips = [_clip(clip) for clip in facts["clip"]]
        problem = TableProblem(
            **Problem.chains_charged(charge, model),
            questions=tuple(parse_question(q, clip=clip) for q, clip in zip(facts["queries"], clips, strict=True)),
            grouping=Grouping.of_words(facts["per"]),
            split=tuple(facts["split"]),
            epsilon=facts["epsilon"],
            stated=StatedNoise(sigma=1 / charge.dp_loss if charge.dp_loss > 0 else 0.0),
            curve=facts["mechanism"].removeprefix(CURVE),
            ranges=charge.ranges,
        )
        return self.charge(problem, self.solve(problem, silent))


MOST_SHOWN: Final = 10
"""Rows of a table that ``verify`` shows."""
KIND: Final = TableKind()


def check_rows(problem: TableProblem, noise: TableNoise, table: ReleasedTable, records: int) -> None:
    """Refuse a table that no release could have made: other columns, sizes that do not add up, impossible numbers."""
    by = problem.ranges.by
    keys, columns = len(problem.grouping.per), problem.columns()
    if table.columns[keys:] != (RECORDS, *columns):
        raise CertificateError("the columns of the table are not those of its groups and questions")
    if any(len(row) != len(table.columns) for row in table.rows):
        raise CertificateError("a row of the table does not have one cell for each column")
    names = [row[:keys] for row in table.rows]
    if len(set(names)) < len(names) or not all(isinstance(name, str) for row in names for name in row):
        raise CertificateError("two rows of the table are of one group, or one has no name")
    sizes: list[Any] = [row[keys] for row in table.rows]
    if problem.hides_sizes:
        if any(size is not None for size in sizes):
            raise CertificateError("the table has the number of records of a group, and its sizes are hidden")
    elif not all(type(size) is int and size >= 0 for size in sizes) or sum(sizes) != records:
        raise CertificateError(f"the records of the groups of {by!r} do not add up to {records}")
    at = keys + 1
    for question, distribution in zip(problem.questions, noise.questions, strict=True):
        width = len(question.labels(problem.model))
        for row, size in zip(table.rows, sizes, strict=True):
            _check_answer(problem.model, question, distribution, size, row[at : at + width])
        at += width


def nearest_table(questions: Sequence[Question], model: Model, table: ReleasedTable) -> ReleasedTable:
    """A table with the nearest numbers that could be true; follows from the released one and what is public."""
    at = table.columns.index(RECORDS) + 1
    sizes: list[Any] = [row[at - 1] for row in table.rows]
    parts: list[Sequence[tuple[Cell, ...]]] = [[row[:at] for row in table.rows]]
    for question in questions:
        width = len(question.labels(model))
        answers: list[Row] = [cast(Row, row[at : at + width]) for row in table.rows]
        parts.append(question.estimate_each(model, sizes, answers))
        at += width
    rows = tuple(tuple(cell for part in row for cell in part) for row in zip(*parts, strict=True))
    return ReleasedTable(table.columns, rows)


def _check_answer(
    model: Model, question: Question, noise: QuestionNoise, size: int | None, cells: Sequence[Any]
) -> None:
    numbers = tuple(cells)
    if any(isinstance(cell, (str, bool)) for cell in numbers):
        raise CertificateError(f"the answer to {question.name} is no number")
    try:
        question.check_answer(model, size, numbers, noise.balanced)
    except PufferdpError as error:
        raise CertificateError(str(error)) from None


def _table(released: Mapping[str, Any]) -> ReleasedTable:
    return ReleasedTable(tuple(released["columns"]), tuple(tuple(row) for row in released["rows"]))


def _stated_names(certificate: TableCertificate) -> tuple[str, ...]:
    """The named groups of a certificate: those of its rows, or a stand-in where it has none."""
    rows = certificate.table.rows
    names = ["hidden"] if rows is None else [str(row[0]) for row in rows if row]
    return tuple(dict.fromkeys(names))


def _clip(clip: Sequence[float] | None) -> tuple[float, float] | None:
    return None if clip is None else checks.clip_pair(clip)
