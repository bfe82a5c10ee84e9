"""The certificate of an answer, and its words."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.certificate import (
    GOES_ON,
    SECRETS,
    AccuracyPart,
    CertificatePart,
    DataPart,
    Guarantee,
    LedgerPart,
    MechanismPart,
    ModelChecksPart,
    NoisePart,
    SealedCertificate,
    adversary_text,
    factor_text,
    odds_guarantee,
)

Answer = int | float | list[int] | list[float]
EXACT_ANSWER: Final = (
    "the answer is exact: under the model it does not depend on any secret, so no noise is needed for this guarantee"
)
NEARLY_EXACT: Final = (
    "the answer is nearly exact: the noise is at most a tenth of what differential privacy would need for one record, "
    "and only the model makes it enough"
)
DECLARED: Final = "the Lipschitz constant was declared by the author of the function and cannot be checked"


class AnswerNoisePart(NoisePart):
    """The noise that was drawn."""

    balanced: Literal[True] | None = Field(
        default=None, description="the noise of all numbers adds up to 0; not there where each has noise of its own"
    )


class UnitPart(CertificatePart):
    """The period whose records are one secret together."""

    name: str = Field(description="day, 6h, person, or a number of records")
    records: int = Field(description="most records of a whole period; the first and the last may have fewer")


class ApproximateGuarantee(Guarantee):
    """The guarantee, with a delta where it has one."""

    delta: float | None = Field(default=None, description="only where it is added to every probability")


class AnswerGuarantee(ApproximateGuarantee):
    """The guarantee about records, or about all records of a period together."""

    unit: UnitPart | None = Field(default=None, description="only where all records of a period are one secret")


class ApproximatePart(CertificatePart):
    """The approximate DP of the noise: rho of zCDP, and its pair (epsilon, delta) that is carried over."""

    move: float = Field(description="the most that one record moves the answer in L2")
    rho: float
    dp_epsilon: float
    dp_delta: float


class QueryPart(CertificatePart):
    """What was asked."""

    name: str
    clip: list[float] | None
    lipschitz: float
    coordinates: int


class QuiltPart(CertificatePart):
    """The record that decides and its active quilt: positions counted from 1 in a series, names otherwise."""

    node: int | str
    ends: list[int] | list[str]
    nearby: int | float = Field(description="records inside the quilt, weighed by how far each can move the answer")
    influence: float
    skipped: int = Field(ge=0, description="quilts left out because they are too large for exact inference")


class TransportPart(CertificatePart):
    """The pair of secrets that is hardest to hide, and how far apart the distributions of the answer are."""

    distance: float
    first: str | None
    second: str | None


class TablePart(CertificatePart):
    """The distribution of whole noise in 2^-64ths, as text: JSON's numbers are doubles."""

    shares: list[str] = Field(description="of the whole numbers around 0, from the least to the largest")
    tails: list[str] = Field(min_length=2, max_length=2, description="of everything below them, and above them")
    ratio: str = Field(description="of neighbours in a tail, the outer to the inner")


class CalibrationPart(CertificatePart):
    """What the noise rests on."""

    sigma: float
    quilt: QuiltPart | None
    transport: TransportPart | None
    approximate: ApproximatePart | None = Field(default=None, description="only where the guarantee has a delta")
    table: TablePart | None = Field(default=None, description="only where the noise is drawn by one")


class ModelEstimatePart(CertificatePart):
    """The posterior of the true answer under the model: mean and credible interval. Follows from what is public."""

    mean: float | list[float | None] | None = Field(description="null where the model hardly explains the answer")
    low: float | list[float | None] | None
    high: float | list[float | None] | None
    probability: float = Field(description="what the interval from low to high holds at least, both ends included")
    surprise: float | list[float] = Field(description="probability, under the model, of an answer this far out")


class Certificate(SealedCertificate):
    """Everything needed to check a release later, without the data."""

    schema_: Literal["pufferdp-certificate/2"] = Field(alias="schema")
    pufferdp: str = Field(description="package version")
    created: str
    guarantee: AnswerGuarantee
    model: dict[str, Any] = Field(description="the model or class by value, as in a model file")
    model_sha256: str
    model_checks: ModelChecksPart | None = Field(default=None, description="what the data said about the model")
    query: QueryPart
    mechanism: MechanismPart
    calibration: CalibrationPart
    noise: AnswerNoisePart
    expected_l1_error: float
    accuracy: AccuracyPart
    data: DataPart
    public: list[str]
    labels: list[str]
    answer: Answer
    estimate: Answer
    model_estimate: ModelEstimatePart | None = Field(
        description="null where the answer has no one distribution under the model"
    )
    warnings: list[str]
    ledger: LedgerPart | None = Field(description="null where no budget was kept")
    sha256: str = Field(description="SHA-256 over the canonical JSON of everything else")


def secrets_text(problem: Problem) -> str:
    """What the guarantee protects, in words."""
    if problem.model.real_valued:
        return (
            f"each record's value: for every record, any two values that differ by at most {_width(problem)}, the "
            "width of the clipping range, remain indistinguishable up to epsilon"
        )
    if problem.unit is not None and problem.unit.unlimited:
        return f"{problem.unit.words}: of what its records hold any two remain indistinguishable up to epsilon"
    if problem.unit is not None:
        return (
            f"{problem.unit.words} of each series: of what its records hold ({problem.unit.records:,} of "
            "them, perhaps fewer in the first and the last) any two remain indistinguishable up to epsilon"
        )
    if problem.secrets is None:
        return SECRETS
    pairs = "; ".join(f"{a} against {b}" for a, b in problem.secrets.pairs)
    return f"the user's own secrets, indistinguishable in pairs: {pairs}"


def _width(problem: Problem) -> str:
    low, high = problem.bound.range or (0.0, 0.0)
    return f"{high - low:.15g}"


def public_facts(problem: Problem) -> list[str]:
    """What a release takes to be known to everyone."""
    facts = problem.model.public_facts(problem.records)
    if problem.part:
        facts.append("which segment of the series was read")
    facts.append("the model, the query and every number in this certificate but the records")
    if problem.model.bins is not None and problem.bound.range is not None:
        facts.append("given its state, a number is taken to be independent of all other records")
    return facts


def statement(problem: Problem, delta: float = 0.0) -> str:
    """The guarantee, that the series goes on where a part of it was read, and where a period may begin."""
    goes_on = problem.part and problem.model.needs_length
    zone = None if problem.unit is None else problem.unit.zone
    return " ".join(filter(None, (_guarantee(problem, delta), GOES_ON if goes_on else "", zone)))


def _guarantee(problem: Problem, delta: float) -> str:
    between = "any two values of any single record" if problem.secrets is None else "the two secrets of any pair"
    if problem.unit is not None:
        between = f"any two possible sequences for {problem.unit.words}{' of a series' * (not problem.unit.unlimited)}"
    if problem.model.real_valued:
        between += f" that differ by at most {_width(problem)} (the clipping width)"
    if delta > 0:
        return (
            f"Any set of answers is at most {factor_text(problem.epsilon)} times as likely given one of {between} as "
            f"given the other, plus a delta of {delta:g}. "
            + adversary_text(problem.adversary.knows, single=problem.model.single)
        )
    return odds_guarantee("this answer", between, problem.epsilon, problem.adversary.knows, single=problem.model.single)
