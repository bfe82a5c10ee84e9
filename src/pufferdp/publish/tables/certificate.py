"""The certificate of a table, and its words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from pufferdp.data.ranges import zone_text
from pufferdp.publish.answers.certificate import public_facts as chain_facts
from pufferdp.publish.certificate import (
    GOES_ON,
    AccuracyPart,
    CertificatePart,
    Guarantee,
    SealedCertificate,
    odds_guarantee,
)
from pufferdp.publish.fields import Near, Stated
from pufferdp.publish.reading import assumption_text, moves_fact
from pufferdp.publish.tables.problem import TableProblem

MOST_CELLS: Final = 10_000
"""A certificate has the numbers of a table with up to so many cells, and of a larger one their hash."""

HIDDEN: Final = (
    "How many records each group has is not published. The guarantee does not protect it: noisy counts of a group add "
    "up to about that number."
)
IRREGULAR: Final = (
    "records do not come at a regular time step, so the number of records of a group is informative itself (beats per "
    "hour are the heart rate), and this table publishes it exactly; set sizes to hidden to leave it out"
)


class QuestionNoisePart(CertificatePart):
    """The noise of one question, before anything is divided by the records of a group."""

    kind: str = Field(description="the distribution of the noise")
    scale: Annotated[float, Near()] = Field(description="its scale")
    balanced: bool = Field(description="whether the noise of the numbers of one group adds up to 0")
    divided: bool = Field(description="whether answer, scale and alpha are divided by the records of the group")


class QuestionAccuracyPart(AccuracyPart):
    """With probability 1−beta every number of one group's answer errs by less than alpha."""

    about: str = Field(description="what alpha is measured in")


class QuestionPart(CertificatePart):
    """A question, its share of the DP loss and its noise."""

    name: str = Field(description="the query, as on the command line")
    clip: Annotated[list[float] | None, Stated("the range that was chosen; the noise must follow from its width")]
    share: float = Field(description="of the DP loss of the table")
    dp_loss: Annotated[float, Near()] = Field(description="of each record of a group, by this question")
    labels: list[str] = Field(description="what each of its numbers is about")
    noise: QuestionNoisePart
    accuracy: QuestionAccuracyPart
    theorem: str = Field(description="what its noise rests on")


class GroupsPart(CertificatePart):
    """What tells groups apart. Which group a record is in is public."""

    per: list[str] = Field(description="what the rows of the table are")
    keys: list[str] = Field(description="the columns of the table that say which group a row is")
    named: Annotated[bool, Stated("whether the groups were listed; what is public must follow from it")] = Field(
        description="whether the groups were listed; otherwise they are those of the data"
    )
    count: Annotated[int, Stated("of a table that is not in the certificate: how many groups there are")] = Field(ge=1)
    sizes: Literal["exact", "hidden"] = Field(description="whether the table has the number of records of each group")


class TablePart(CertificatePart):
    """The released table, or of a large one its hash alone."""

    columns: list[str] = Field(description="the names of the columns")
    rows: list[list[str | int | float | None]] | None = Field(description="the released numbers; null: hash alone")
    sha256: str = Field(description="SHA-256 of the table as CSV")


class TableCertificate(SealedCertificate):
    """Everything needed to check a table later, without the data."""

    schema_: Literal["pufferdp-table-certificate/2"] = Field(alias="schema")
    guarantee: Guarantee
    dp_loss: Annotated[float, Near()] = Field(description="of the whole table, for each record")
    questions: list[QuestionPart]
    groups: GroupsPart
    table: Annotated[
        TablePart,
        Stated("the released numbers; where they are there, their hash must be theirs and they must be possible"),
    ]


def statement(problem: TableProblem, facts: Mapping[str, Any]) -> str:
    """The guarantee of a table, with the facts that it takes to be public and its assumptions."""
    between, knows = "any two values of any single record", problem.adversary.knows
    sentences = [odds_guarantee("this whole table", between, problem.epsilon, knows, single=problem.model.single)]
    if problem.part:
        sentences.append(GOES_ON)
    grouping = problem.grouping
    if grouping.column is not None:
        sentences.append(
            f"Which value of {grouping.column!r} a record has is taken to be public, and to say nothing of the records "
            "that the model does not say."
        )
    if grouping.per:
        sentences.append(HIDDEN if problem.hides_sizes else "How many records each group has is public.")
    if grouping.period is not None:
        unit = (facts.get("ranges") or {}).get("unit", "time")
        sentences.append(zone_text(grouping.period, unit, facts["order"]))
    return " ".join(sentences) + assumption_text(facts)


def public_facts(problem: TableProblem, facts: Mapping[str, Any]) -> list[str]:
    """What a table takes to be known to everyone."""
    grouping, model = problem.grouping, problem.model
    out = chain_facts(problem)
    if grouping.per:
        shown = "; that number is not in the table" if problem.hides_sizes else ""
        out.append(f"which group each record is in, and so how many records each group has{shown}")
    if (grouping.person or grouping.column is not None) and grouping.named is None:
        out.append(f"which values of {(facts['by'] if grouping.person else grouping.column)!r} are in the data")
    if grouping.period is not None:
        out.append(f"the first and the last {grouping.period}")
    if within_bins(problem):
        out.append("given its state, a number is taken to be independent of all other records")
    return [*out, *moves_fact(facts, model)]


def within_bins(problem: TableProblem) -> bool:
    """Whether numbers are released of which the model knows no more than their bins."""
    reads = any(question.reads_numbers(problem.model) for question in problem.questions)
    return reads and problem.model.bins is not None
