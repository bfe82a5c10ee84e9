"""The certificate of an answer, and its words."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.certificate import (
    GOES_ON,
    SECRETS,
    AccuracyPart,
    CertificatePart,
    Guarantee,
    NoisePart,
    SealedCertificate,
    adversary_text,
    factor_text,
    guarantee_part,
    odds_guarantee,
)
from pufferdp.publish.fields import Exact, Near, Stated

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

    move: Annotated[float, Near()] = Field(description="the most that one record moves the answer in L2")
    rho: Annotated[float, Near()] = Field(description="of zero-concentrated DP")
    dp_epsilon: Annotated[float, Near()] = Field(description="the epsilon of the pair")
    dp_delta: Annotated[float, Near(rel=1e-6)] = Field(description="the delta of the pair")
    """It falls fast as the loss grows: rounding of the loss shows in it some hundred times as much."""


class QueryPart(CertificatePart):
    """The query that was asked."""

    name: str = Field(description="the query, as on the command line")
    clip: Annotated[
        list[float] | None,
        Stated("the range that was chosen; the noise must follow from its width, and the estimate lie in it"),
    ]
    lipschitz: Annotated[float, Near()] = Field(description="the most that one record moves the answer in L1")
    coordinates: int = Field(description="how many numbers it returns")


_AS_GOOD: Final = Stated("in a series any record may stand for those whose quilt is as good")


class QuiltPart(CertificatePart):
    """The record that decides and its active quilt: positions counted from 1 in a series, names otherwise."""

    node: Annotated[int | str, _AS_GOOD]
    ends: Annotated[list[int] | list[str], _AS_GOOD]
    nearby: int | float = Field(description="records inside the quilt, weighed by how far each can move the answer")
    influence: Annotated[float, Near(rel=1e-6, abs=1e-9)] = Field(
        description="how much of epsilon the records beyond the quilt use"
    )
    skipped: int = Field(ge=0, description="quilts left out because they are too large for exact inference")


_DECIDES: Final = Exact(wrong="the pair that decides is another")


class TransportPart(CertificatePart):
    """The pair of secrets that is hardest to hide, and how far apart the distributions of the answer are."""

    distance: Annotated[float, Near()] = Field(description="the largest move of the transport, W∞")
    first: Annotated[str | None, _DECIDES] = Field(description="the one secret")
    second: Annotated[str | None, _DECIDES] = Field(description="the other secret")


class CalibrationPart(CertificatePart):
    """What the width of the noise rests on."""

    sigma: Annotated[float, Near()] = Field(description="the scale of the noise for a Lipschitz constant of 1")
    quilt: QuiltPart | None
    transport: TransportPart | None
    approximate: ApproximatePart | None = Field(default=None, description="only where the guarantee has a delta")


_POSTERIOR: Final = Near(rel=1e-6, abs=lambda content: 1e-6 * float(content["noise"]["scale"]))
"""Another machine may round the distribution of the answer otherwise. There is no estimate where that could move more
than 1e-6 of the posterior, which is about as wide as the noise; surprises are stated down to 1e-9 only."""


class ModelEstimatePart(CertificatePart):
    """The posterior of the true answer under the model: mean and credible interval. Follows from what is public."""

    mean: Annotated[float | list[float | None] | None, _POSTERIOR] = Field(
        description="null where the model hardly explains the answer"
    )
    low: Annotated[float | list[float | None] | None, _POSTERIOR] = Field(description="lower ends of the intervals")
    high: Annotated[float | list[float | None] | None, _POSTERIOR] = Field(description="upper ends of the intervals")
    probability: float = Field(description="what the interval from low to high holds at least, both ends included")
    surprise: Annotated[float | list[float], Near(rel=1e-6, abs=1e-9)] = Field(
        description="probability, under the model, of an answer this far out"
    )


class Certificate(SealedCertificate):
    """Everything needed to check a release later, without the data."""

    schema_: Literal["pufferdp-certificate/2"] = Field(alias="schema")
    guarantee: AnswerGuarantee
    query: QueryPart
    calibration: CalibrationPart
    noise: AnswerNoisePart
    expected_l1_error: Annotated[float, Near()] = Field(description="expected error, added up over all numbers")
    accuracy: AccuracyPart
    labels: list[str] = Field(description="what each number is about")
    answer: Annotated[Answer, Stated("the released numbers; estimate and model_estimate must follow from them")]
    estimate: Annotated[Answer, Exact(wrong="the estimate does not follow from the answer")] = Field(
        description="the nearest possible answer"
    )
    model_estimate: ModelEstimatePart | None = Field(
        description="null where the answer has no one distribution under the model"
    )


def guarantee(problem: Problem, words: str) -> dict[str, Any]:
    """The part of a certificate on the guarantee, with its words."""
    framework = None if problem.secrets is None else problem.secrets.to_dict()
    stated = guarantee_part(problem.adversary, problem.epsilon, words, secrets_text(problem))
    return {**stated, "framework": framework}


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
    if problem.secret is not None:
        between = f"any two possibilities for {problem.secret.words}"
    if problem.model.real_valued:
        between += f" that differ by at most {_width(problem)} (the clipping width)"
    if delta > 0:
        return (
            f"Any set of answers is at most {factor_text(problem.epsilon)} times as likely given one of {between} as "
            f"given the other, plus a delta of {delta:g}. "
            + adversary_text(problem.adversary.knows, single=problem.model.single)
        )
    return odds_guarantee("this answer", between, problem.epsilon, problem.adversary.knows, single=problem.model.single)
