"""Exact records + calibration + noise → a table and its certificate. Exact numbers never leave this module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Unpack

from pufferdp.basics import checks
from pufferdp.basics.errors import ParameterError
from pufferdp.basics.paged import Paged
from pufferdp.models.base import Model
from pufferdp.models.files.json import ModelLike
from pufferdp.publish.answers.queries import Query, state_values
from pufferdp.publish.pipeline import Charged, OddsPublication
from pufferdp.publish.reading import WasRead, read_keyed
from pufferdp.publish.series import Run, Series
from pufferdp.publish.tables.certificate import IRREGULAR, MOST_CELLS, TableCertificate
from pufferdp.publish.tables.groups import Grouping, Groups, check_period, group_records, regular_step
from pufferdp.publish.tables.kind import KIND, nearest_table
from pufferdp.publish.tables.parsing import parse_questions
from pufferdp.publish.tables.problem import TableNoise, TableProblem, check_sizes, shares_of
from pufferdp.publish.tables.questions import Question
from pufferdp.publish.tables.table import RECORDS, Cell, ReleasedTable
from pufferdp.publish.verdict import Verdict, certified_table_verdicts

ReserveSpace = Callable[[int], object]
"""Reserves space on disk for so many bytes; called before the charge, and refuses where there is none."""


@dataclass(frozen=True, kw_only=True)
class TableRelease(Paged):
    """A released table with its certificate."""

    table: ReleasedTable
    """A row for each group: its names, its records, and the released numbers of every question."""
    certificate: TableCertificate
    """What was guaranteed and how, for anyone to verify without the data."""
    questions: tuple[Question, ...] = field(repr=False)
    """What was asked, in the order of the columns."""
    model: Model = field(repr=False)
    """The model of the records."""

    @property
    def verdicts(self) -> list[Verdict]:
        """Whether each question is accurate enough to be useful, for a group of the average number of records."""
        return certified_table_verdicts(self.certificate.to_dict())

    @cached_property
    def estimate(self) -> ReleasedTable:
        """The table with the nearest numbers that could be true; follows from the table and what is public."""
        return nearest_table(self.questions, self.model, self.table)

    def to_frame(self, *, estimate: bool = False, backend: str | None = None) -> Any:
        """The released numbers as a pandas or polars frame, or the nearest that could be true."""
        return (self.estimate if estimate else self.table).to_frame(backend)

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp release --json`` prints of a table."""
        return {
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            "table": self.table.to_dict(),
            "estimate": self.estimate.to_dict(),
            "certificate": self.certificate.to_dict(),
        }


def release_table(
    series: Series,
    *,
    model: ModelLike,
    query: str | Query | Question | Sequence[str | Query | Question],
    epsilon: float,
    per: str | Sequence[str] | None = None,
    groups: str | Sequence[str] | None = None,
    split: Sequence[float] | None = None,
    sizes: str = "exact",
    adversary: str = "bdp",
    clip: tuple[float, float] | None = None,
    beta: float = 0.05,
    reserved_space: ReserveSpace | None = None,
    **run: Unpack[Run],
) -> TableRelease:
    """Release the answers to one or several questions for every group, as one table.

    ``reserved_space`` is called with about how many bytes the table has as CSV, before it is charged, and may refuse.
    The other parameters are those of ``pufferdp.release``.
    """
    several: list[Any] = list(query) if isinstance(query, (list, tuple)) else [query]
    prior = series.model(model)
    reading = series.reading(prior)
    asked = TableProblem(
        model=prior,
        questions=parse_questions(several, clip=clip),
        grouping=Grouping.parse(per, series.by, groups),
        split=shares_of(split or (), len(several)),
        lengths=((1, 1),),
        epsilon=epsilon,
        adversary=checks.adversary(adversary),
        part=reading.is_part,
        beta=beta,
        sizes=check_sizes(sizes),
    )
    return TablePublication(
        data=series.data,
        model=prior,
        reading=reading,
        asked=asked,
        epsilon=asked.epsilon,
        adversary=asked.adversary,
        reserve_space=reserved_space or (lambda size: None),
        **run,
    ).publish()


@dataclass(frozen=True, kw_only=True, repr=False)
class ExactTable(WasRead):
    """What a table reads: the records of each group."""

    groups: Groups
    regular: bool
    """Whether records come at a regular time step, as far as times are known."""


@dataclass(frozen=True, kw_only=True)
class TablePublication(OddsPublication[TableProblem, TableNoise, ExactTable, TableRelease]):
    """A table that is about to be released."""

    asked: TableProblem
    """What is asked, of chains that nobody has read yet."""
    reserve_space: ReserveSpace = field(default=lambda size: None)

    kind = KIND
    widens = True

    def check(self) -> None:
        """Refuse questions, groups, a guarantee or a way of reading that do not go with the model."""
        names = (*self.asked.grouping.keys(self.reading.by), RECORDS, *self.asked.columns())
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ParameterError(f"the table would have two columns {twice!r}; rename the one in the data", value=twice)
        check_period(self.asked.grouping, self.reading.order)
        self.reading.check(self.model)
        replace(self.reading, group=self.asked.grouping.column)

    def read(self) -> ExactTable:
        """The records of each group; they stay inside the publication."""
        self.progress("reading")
        layout = replace(self.reading, group=self.asked.grouping.column)
        clip = self._data_clip
        exact, keyed = read_keyed(self.data, self.model, layout, clip)
        self.progress("grouping")
        values = None if clip is not None else state_values(self.model)
        range_ = next((question.clip for question in self.asked.questions if question.clip is not None), None)
        if values is not None and range_ is not None:
            values = tuple(min(max(value, range_[0]), range_[1]) for value in values)
        groups = group_records(self.asked.grouping, keyed, len(self.model.labels), values)
        return ExactTable(groups=groups, regular=regular_step(keyed), **exact.public)

    @property
    def _data_clip(self) -> tuple[float, float] | None:
        """The range of numbers that are read from the data; None where no question reads any."""
        return next((q.clip for q in self.asked.questions if q.reads_numbers(self.model)), None)

    def problem(self, exact: ExactTable) -> TableProblem:
        """For the chains that were read."""
        return replace(
            self.asked,
            questions=tuple(q.for_groups(self.model, len(exact.groups.keys)) for q in self.asked.questions),
            lengths=exact.lengths,
            unobserved=exact.unobserved,
            ranges=exact.ranges,
        )

    def reserved_space(self, exact: ExactTable) -> AbstractContextManager[object]:
        """About what the table needs as CSV."""
        self.reserve_space(
            24 * len(exact.groups.keys) * (len(self.asked.grouping.per) + 1 + len(self.asked.columns())) + 65_536
        )
        return nullcontext()

    def draw(self, problem: TableProblem, solution: TableNoise, exact: ExactTable, charged: Charged) -> TableRelease:
        """The noisy answers of all groups with their certificate."""
        self.announce("drawing noise")
        groups = exact.groups
        answers = [
            question.measure_each(self.model, groups.records, noise, self.sampler)
            for question, noise in zip(problem.questions, solution.questions, strict=True)
        ]
        columns = (*self.asked.grouping.keys(self.reading.by), RECORDS, *problem.columns())
        sizes = [None] * len(groups.keys) if problem.hides_sizes else groups.sizes
        table = ReleasedTable(columns, _rows(groups.keys, sizes, answers))
        with charged.certifying(table, lambda: f"the noisy table is {[list(columns), *map(list, table.rows)]}"):
            inline = len(table.rows) * len(columns) <= MOST_CELLS
            released = {
                "columns": list(columns),
                "rows": [list(row) for row in table.rows] if inline else None,
                "sha256": table.sha256,
                "count": len(table.rows),
            }
            self.announce("certifying")
            informative = bool(self.asked.grouping.per) and not exact.regular and not problem.hides_sizes
            made = self.made(exact.facts, charged, released, [IRREGULAR] * informative)
            certificate = self.kind.certify(problem, solution, made)
            return TableRelease(table=table, certificate=certificate, questions=problem.questions, model=self.model)


def _rows(
    keys: Sequence[tuple[str, ...]], sizes: Sequence[int | None], answers: Sequence[Sequence[Sequence[Cell]]]
) -> tuple[tuple[Cell, ...], ...]:
    """A row for each group from the answers of each question."""
    return tuple(
        (*key, size, *(number for numbers in of_group for number in numbers))
        for key, size, *of_group in zip(keys, sizes, *answers, strict=True)
    )
