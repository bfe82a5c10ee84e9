"""Certificates: what was promised, under which model, by which mechanism, at which parameters, from which version."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pufferdp import checks
from pufferdp.errors import CertificateError, PufferdpError
from pufferdp.estimate import feasible
from pufferdp.mechanisms import Problem
from pufferdp.models.files import canonical_json, found_text, model_digest, model_from_dict, plain_errors
from pufferdp.planning import plan_problem, quilt_to_dict
from pufferdp.queries import Query, QueryKind

SCHEMA = "pufferdp-certificate/1"
SECRETS = "each record's value: for every record, any two values of positive probability are kept hard to tell apart"
Answer = int | float | list[int] | list[float]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Guarantee(_Part):
    """The promise."""

    adversary: str
    knows: str
    epsilon: float
    secrets: str
    statement: str


class QueryPart(_Part):
    """What was asked."""

    name: str
    clip: list[float] | None
    lipschitz: float
    coordinates: int


class MechanismPart(_Part):
    """How the noise was chosen."""

    name: str
    theorem: str


class QuiltPart(_Part):
    """The record that decides and its active quilt, in positions counted from 1."""

    node: int
    ends: list[int]
    nearby: int
    influence: float


class CalibrationPart(_Part):
    """What the noise rests on."""

    sigma: float
    quilt: QuiltPart | None


class NoisePart(_Part):
    """The noise that was drawn."""

    kind: str
    scale: float


class AccuracyPart(_Part):
    """With probability 1−beta every coordinate errs by less than alpha."""

    alpha: float
    beta: float


class DataPart(_Part):
    """What was read, and how. All of it is public."""

    column: str
    order: str | None
    by: str | None
    gap: str | float | None
    missing: str
    records: int
    lengths: list[list[int]] = Field(description="chain length, how many chains")
    dropped: int = Field(ge=0, description="records dropped because their value is missing")


class Certificate(_Part):
    """Everything needed to check a release later, without the data."""

    schema_: Literal["pufferdp-certificate/1"] = Field(alias="schema")
    pufferdp: str = Field(description="package version")
    created: str
    guarantee: Guarantee
    model: dict[str, Any] = Field(description="the model or class by value, as in a model file")
    model_sha256: str
    query: QueryPart
    mechanism: MechanismPart
    calibration: CalibrationPart
    noise: NoisePart
    expected_l1_error: float
    accuracy: AccuracyPart
    data: DataPart
    public: list[str]
    labels: list[str]
    answer: Answer
    estimate: Answer
    warnings: list[str]
    sha256: str = Field(description="SHA-256 over the canonical JSON of everything else")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON content."""
        return self.model_dump(by_alias=True)


def seal(content: dict[str, Any]) -> Certificate:
    """A certificate from its content, with its hash."""
    return Certificate.model_validate({**content, "sha256": content_hash(content)})


def content_hash(content: dict[str, Any]) -> str:
    """SHA-256 over the canonical form of everything but the hash itself."""
    return hashlib.sha256(canonical_json({k: v for k, v in content.items() if k != "sha256"}).encode()).hexdigest()


@dataclass(frozen=True)
class Verification:
    """Whether a certificate holds, and if not, why."""

    valid: bool
    problems: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp verify --json`` prints."""
        return {"valid": self.valid, "problems": list(self.problems), "warnings": list(self.warnings)}


def read_certificate(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a certificate file; of a ``release --json`` output its certificate."""
    try:
        raw = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise CertificateError(f"certificate {str(path)!r} does not exist", value=path) from None
    except IsADirectoryError:
        raise CertificateError(f"certificate {str(path)!r} is a folder; name the JSON file in it", value=path) from None
    except (ValueError, RecursionError):  # bad UTF-8 and bad JSON are ValueErrors, and so is a number that is too long
        raise CertificateError(f"certificate {str(path)!r} is not JSON", value=path) from None
    except OSError as error:
        raise CertificateError(f"certificate {str(path)!r} cannot be read: {error.strerror}", value=path) from None
    if isinstance(raw, dict) and isinstance(raw.get("certificate"), dict) and "schema" not in raw:
        raw = raw["certificate"]
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        schema = raw.get("schema") if isinstance(raw, dict) else None
        found = "no schema" if schema is None else f"schema {found_text(schema)}"
        raise CertificateError(f"{str(path)!r} is not a certificate: it has {found}, not {SCHEMA!r}", value=path)
    return raw


def verify(certificate: Certificate | dict[str, Any]) -> Verification:
    """Recompute the hash, the calibration and the estimate of a certificate."""
    raw = certificate.to_dict() if isinstance(certificate, Certificate) else certificate
    problems: list[str] = []
    try:
        parsed = Certificate.model_validate(raw)
    except ValidationError as error:
        return Verification(False, tuple(plain_errors(error)[:5]), ())
    problems += _misshapen(raw)
    if problems:
        return Verification(False, tuple(problems), ())
    try:
        if content_hash(raw) != parsed.sha256:
            problems.append("the hash does not match: the certificate was changed after it was made")
        problems += _recompute(parsed)
    except (PufferdpError, ValueError) as error:
        problems.append(str(error))
    return Verification(not problems, tuple(problems), tuple(parsed.warnings))


def _misshapen(raw: dict[str, Any]) -> list[str]:
    """What the types of the parts cannot say: finite numbers, and pairs where pairs are meant."""
    try:
        canonical_json(raw)
    except ValueError:
        return ["a number is infinite or nan; every number of a certificate must be finite"]
    clip, lengths = raw["query"]["clip"], raw["data"]["lengths"]
    out = [] if clip is None or len(clip) == 2 else [f"query.clip is {found_text(clip)}; it must be two numbers"]
    if any(len(pair) != 2 for pair in lengths):
        out.append(
            f"data.lengths is {found_text(lengths)}; it must be pairs: a chain length and how many chains have it"
        )
    return out


def _recompute(c: Certificate) -> list[str]:
    problems = []
    model = model_from_dict(c.model)
    if model_digest(model) != c.model_sha256:
        problems.append("model_sha256 is not the digest of the model")
    if c.query.name == QueryKind.FUNCTION:
        query = Query.of_function(lambda chains: 0.0, c.query.lipschitz, c.query.coordinates)
    else:
        clip = (c.query.clip[0], c.query.clip[1]) if c.query.clip else None
        query = Query.parse(c.query.name, clip=clip)
    problem = Problem(
        model=model,
        query=query,
        lengths=tuple((a, b) for a, b in c.data.lengths),
        epsilon=c.guarantee.epsilon,
        adversary=checks.adversary(c.guarantee.adversary),
    )
    plan = plan_problem(problem, beta=c.accuracy.beta, only=[c.mechanism.name])
    if not plan.candidates:
        return [*problems, f"mechanism {c.mechanism.name!r} is not known to this version"]
    candidate = plan.candidates[0]
    if not candidate.applies or candidate.calibration is None or candidate.accuracy is None:
        return [*problems, f"{c.mechanism.name} does not apply: {candidate.reason}"]
    ours = candidate.calibration
    for name, stated, true in (
        ("calibration.sigma", c.calibration.sigma, ours.sigma),
        ("query.lipschitz", c.query.lipschitz, ours.lipschitz),
        ("noise.scale", c.noise.scale, ours.scale),
        ("expected_l1_error", c.expected_l1_error, ours.law.expected_l1_error),
        ("accuracy.alpha", c.accuracy.alpha, candidate.accuracy.alpha),
    ):
        if not math.isclose(stated, true, rel_tol=1e-9):
            problems.append(f"{name} is {stated:.10g}; recomputed it is {true:.10g}")
    problems += _quilt_problems(c.calibration.quilt, quilt_to_dict(ours))
    for text_name, said, recomputed in (
        ("noise.kind", c.noise.kind, str(ours.law.kind)),
        ("mechanism.theorem", c.mechanism.theorem, ours.theorem),
        ("guarantee.statement", c.guarantee.statement, statement(problem)),
        ("guarantee.secrets", c.guarantee.secrets, SECRETS),
        ("query.coordinates", c.query.coordinates, len(problem.bound.labels)),
        ("public", c.public, public_facts(problem)),
        ("guarantee.knows", c.guarantee.knows, problem.adversary.knows),
    ):
        if said != recomputed:
            problems.append(f"{text_name} is {said!r}; it should be {recomputed!r}")
    if sum(a * b for a, b in c.data.lengths) != c.data.records:
        problems.append(f"data.records is {c.data.records}; the chain lengths add up to {problem.records}")
    answer = c.answer if isinstance(c.answer, list) else [c.answer]
    if list(problem.bound.labels) != c.labels or len(answer) != len(c.labels):
        problems.append("the answer does not have one number for each label of the query")
    elif c.estimate != feasible(problem.bound, problem.records, c.answer):
        problems.append("the estimate does not follow from the answer")
    return problems


def _quilt_problems(stated: QuiltPart | None, ours: dict[str, Any] | None) -> list[str]:
    """The record and the quilt that decide must be those that were found, or as good as those."""
    if stated is None or ours is None:
        return [] if stated is None and ours is None else ["calibration.quilt does not belong to this mechanism"]
    if stated.nearby != ours["nearby"] or len(stated.ends) != len(ours["ends"]):
        return [f"the active quilt has {stated.nearby} records inside; recomputed it has {ours['nearby']}"]
    if [e - stated.node for e in stated.ends] != [e - ours["node"] for e in ours["ends"]]:
        return [f"the active quilt ends at {stated.ends}; recomputed at {ours['ends']}"]
    if not math.isclose(stated.influence, ours["influence"], rel_tol=1e-6, abs_tol=1e-9):
        return [f"the influence is {stated.influence:.10g}; recomputed it is {ours['influence']:.10g}"]
    return []


def public_facts(problem: Problem) -> list[str]:
    """What a release takes to be known to everyone."""
    facts = [
        f"how many records there are ({problem.records}) and how they fall into chains",
        "where gaps and missing values lie",
        "the model, the query and every number in this certificate but the records",
    ]
    if problem.model.bins is not None and problem.bound.range is not None:
        facts.append("given its state, a number is taken to be independent of all other records")
    return facts


def statement(problem: Problem) -> str:
    """The promise in one sentence."""
    several = "" if problem.model.__class__.__name__ == "MarkovChain" else ", whichever model of the class is true"
    factor = math.exp(problem.epsilon) if problem.epsilon < 700 else math.inf
    return (
        f"Whoever believes the model{several}, knows {problem.adversary.knows} and sees this answer can shift their "
        f"odds between two values of any one record by a factor of at most e^{problem.epsilon:g} = {factor:.4g}."
    )
