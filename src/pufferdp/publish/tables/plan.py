"""Before a table is released: the noise of each question, from their one budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Unpack

from pufferdp.basics import checks
from pufferdp.basics.paged import Paged
from pufferdp.basics.progress import Progress, silent
from pufferdp.data.layout import read_distance
from pufferdp.models.files.json import ModelLike, as_model
from pufferdp.publish.answers.mechanisms.baselines import CURVE
from pufferdp.publish.answers.plan import PlannedChains, count_lengths, planned
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.tables.groups import PERIODS, Grouping
from pufferdp.publish.tables.parsing import as_queries, parse_questions
from pufferdp.publish.tables.problem import (
    TableNoise,
    TableProblem,
    check_sizes,
    question_part,
    shares_of,
    solve_table,
)
from pufferdp.publish.tables.questions import Question
from pufferdp.publish.verdict import Verdict, table_verdicts


@dataclass(frozen=True, kw_only=True)
class TablePlan(Paged):
    """How accurate every question of a table will be."""

    problem: TableProblem
    noise: TableNoise
    group_records: int | None
    """Records of a group, of the smallest where they differ; None where nobody knows before the data is read."""

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp plan --json`` prints of a table."""
        p = self.problem
        return {
            "per": p.grouping.per,
            **({} if p.grouping.zone is None else {"zone": p.grouping.zone}),
            "records": p.records,
            "longest_chain": p.longest,
            "group_records": self.group_records,
            "epsilon": p.epsilon,
            **({"part": True} if p.part else {}),
            **({"unobserved": True} if p.unobserved else {}),
            "adversary": str(p.adversary),
            "mechanism": f"{CURVE}{self.noise.curve}",
            "dp_loss": self.noise.dp_loss,
            "sizes": p.sizes,
            "queries": [self._question(n) for n in range(len(p.questions))],
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
        }

    @property
    def verdicts(self) -> list[Verdict]:
        """Whether each question is accurate enough to be useful, for a group of ``group_records`` records."""
        stated = [question_part(self.problem, self.noise, n) for n in range(len(self.problem.questions))]
        return table_verdicts(stated, self.group_records, bool(self.problem.grouping.per))

    def _question(self, n: int) -> dict[str, Any]:
        question, noise, p = self.problem.questions[n], self.noise.questions[n], self.problem
        over = 1 if not noise.divided else self.group_records
        return {
            "query": question.name,
            "share": p.split[n],
            "dp_loss": self.noise.losses[n],
            "noise": noise.kind,
            "balanced": noise.balanced,
            "scale": None if over is None else noise.scale / over,
            "accuracy": {
                "alpha": None if over is None else noise.alpha / over,
                "beta": noise.beta,
                "about": noise.about,
            },
            **({"undivided": {"scale": noise.scale, "alpha": noise.alpha}} if noise.divided else {}),
        }


def plan_table(
    model: ModelLike,
    query: str | Query | Question | Sequence[str | Query | Question],
    *,
    epsilon: float,
    per: str | Sequence[str] | None = None,
    split: Sequence[float] | None = None,
    adversary: str = "bdp",
    beta: float = 0.05,
    clip: tuple[float, float] | None = None,
    sizes: str = "exact",
    progress: Progress | None = None,
    **chains: Unpack[PlannedChains],
) -> TablePlan:
    """Plan a table: all its questions together, on one budget.

    Args:
        model: a chain, a clock, a hidden chain or a class of them.
        query: one question or several, by name as on the command line.
        epsilon: the guarantee of the whole table.
        per: ``person``, a public column, ``day``, ``hour`` or ``week``, as for a release.
        split: the weight of each question in the DP loss; all the same by default.
        adversary: ``bdp`` (knows any set of records), ``pufferfish`` (none) or ``dp`` (all others).
        beta: accuracy is shown at probability 1−beta.
        clip: range of the numbers of sums and means.
        sizes: ``hidden`` for a table without the number of records of each group.
        progress: called with a few words before each step.
        chains: ``length``, ``lengths``, ``part`` and ``unobserved``, as in ``PlannedChains``.
    """
    model, (part, unobserved) = as_model(model), planned(chains)
    questions = parse_questions(as_queries(query), clip=clip)
    problem = TableProblem(
        model=model,
        questions=questions,
        grouping=Grouping.parse(per, "person"),
        split=shares_of(split or (), len(questions)),
        lengths=count_lengths(model, chains.get("length"), chains.get("lengths")),
        epsilon=epsilon,
        adversary=checks.adversary(adversary),
        part=part,
        unobserved=unobserved,
        beta=beta,
        sizes=check_sizes(sizes),
    )
    problem.columns()
    (progress or silent)("calibrating")
    return TablePlan(problem=problem, noise=solve_table(problem), group_records=_group_records(problem))


def _group_records(problem: TableProblem) -> int | None:
    """Records of a group as far as they are known: of people those of the shortest chain, of periods by the step."""
    grouping, step = problem.grouping, problem.model.step
    if grouping.column is not None:
        return None
    if grouping.period is None:
        return min(length for length, _ in problem.lengths) if grouping.person else problem.records
    if not grouping.person and sum(count for _, count in problem.lengths) > 1:
        return None
    distance = None if step is None else read_distance(step, "step")
    if distance is None or not distance.is_duration:
        return None
    return int(Fraction(PERIODS[grouping.period] * 10**6) / distance.amount) or None
