"""A certificate recomputed: the same noise must follow from what it says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pufferdp.basics import checks
from pufferdp.basics.errors import PufferdpError
from pufferdp.basics.files import canonical_json, found_text
from pufferdp.ledger.charge import additive
from pufferdp.models.base import Model
from pufferdp.models.chain import MarkovChain
from pufferdp.models.files.json import model_digest, model_from_dict, plain_errors
from pufferdp.models.gaussian import NumberModel
from pufferdp.publish.answers.denoise import Denoised, denoise, feasible
from pufferdp.publish.answers.plan import plan_problem, quilt_to_dict, transport_to_dict
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query, QueryKind
from pufferdp.publish.answers.secrets import Secrets
from pufferdp.publish.certificate import (
    EXACT_ANSWER,
    FLOW_SCHEMA,
    REDACTION_SCHEMA,
    SERIES_SCHEMA,
    Certificate,
    DataPart,
    DenoisedPart,
    QuiltPart,
    TransportPart,
    content_hash,
    public_facts,
    row_problems,
    secrets_text,
    statement,
)
from pufferdp.publish.flips.certificate import SeriesCertificate
from pufferdp.publish.flips.kind import series_problems
from pufferdp.publish.reading import check_groups, check_reading
from pufferdp.publish.redaction.certificate import RedactionCertificate, redaction_problems

if TYPE_CHECKING:
    from pufferdp.publish.flows.certificate import FlowCertificate


@dataclass(frozen=True)
class Verification:
    """Whether a certificate holds, and if not, why."""

    valid: bool
    problems: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp verify --json`` prints."""
        return {"valid": self.valid, "problems": list(self.problems), "warnings": list(self.warnings)}


def verify(
    certificate: Certificate | FlowCertificate | RedactionCertificate | SeriesCertificate | dict[str, Any],
    *,
    query: Query | None = None,
    head: str | None = None,
) -> Verification:
    """Recompute the hash, the calibration and the estimates of a certificate; of a redaction its leakage and utility.

    With ``head``, the release must have been charged as that row of a ledger. A release of a function of one's own by
    ``wasserstein`` needs that function again: hand it over as ``query``.
    """
    raw = certificate if isinstance(certificate, dict) else certificate.to_dict()
    if raw.get("schema") == FLOW_SCHEMA:
        from pufferdp.publish.flows.kind import flow_problems

        found, warnings = flow_problems(raw, head)
        return Verification(not found, tuple(found), tuple(warnings))
    if raw.get("schema") == REDACTION_SCHEMA:
        return _verify_redaction(raw, head)
    if raw.get("schema") == SERIES_SCHEMA:
        found, warnings = series_problems(raw, head)
        return Verification(not found, tuple(found), tuple(warnings))
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
        problems += _recompute(parsed, query)
        problems += _ledger_problems(parsed, head)
    except (PufferdpError, ValueError) as error:
        problems.append(str(error))
    return Verification(not problems, tuple(problems), tuple(parsed.warnings))


def _verify_redaction(raw: dict[str, Any], head: str | None) -> Verification:
    try:
        parsed = RedactionCertificate.model_validate(raw)
        canonical_json(raw)
        problems = redaction_problems(parsed, raw, head)
    except ValidationError as error:
        return Verification(False, tuple(plain_errors(error)[:5]), ())
    except (PufferdpError, ValueError) as error:
        return Verification(False, (str(error),), ())
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


def _recompute(c: Certificate, own: Query | None) -> list[str]:
    problems = []
    if names_a_file(c.model):
        return ["the model names a file; a certificate holds its model by value"]
    model = model_from_dict(c.model)
    if model_digest(model) != c.model_sha256:
        problems.append("model_sha256 is not the digest of the model")
    if c.query.name == QueryKind.FUNCTION and own is not None:
        query = own
    elif c.query.name == QueryKind.FUNCTION:
        if c.mechanism.name == "wasserstein":
            return [*problems, "the noise depends on a function of one's own: hand it over with verify(…, query=…)"]
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
        secrets=None if c.guarantee.framework is None else Secrets.from_dict(c.guarantee.framework),
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
    if (ours.scale == 0) != (EXACT_ANSWER in c.warnings):
        problems.append("warnings must say that the answer is exact where no noise is drawn, and only there")
    problems += _quilt_problems(c.calibration.quilt, quilt_to_dict(ours), _same_backwards(model))
    problems += _transport_problems(c.calibration.transport, transport_to_dict(ours))
    for text_name, said, recomputed in (
        ("noise.kind", c.noise.kind, str(ours.law.kind)),
        ("mechanism.theorem", c.mechanism.theorem, ours.theorem),
        ("guarantee.statement", c.guarantee.statement, statement(problem)),
        ("guarantee.secrets", c.guarantee.secrets, secrets_text(problem)),
        ("query.coordinates", c.query.coordinates, len(problem.bound.labels)),
        ("public", c.public, public_facts(problem)),
        ("guarantee.knows", c.guarantee.knows, problem.adversary.knows),
    ):
        if said != recomputed:
            problems.append(f"{text_name} is {said!r}; it should be {recomputed!r}")
    total = sum(a * b for a, b in c.data.lengths)
    if total != c.data.records:
        problems.append(f"data.records is {c.data.records}; the chain lengths add up to {total}")
    problems += _reading_problems(c.data, model)
    answer = c.answer if isinstance(c.answer, list) else [c.answer]
    if list(problem.bound.labels) != c.labels or len(answer) != len(c.labels):
        problems.append("the answer does not have one number for each label of the query")
    elif c.estimate != feasible(problem.bound, problem.records, c.answer):
        problems.append("the estimate does not follow from the answer")
    else:
        problems += _denoised_problems(c.denoised, denoise(problem, c.answer, ours.scale), ours.scale)
    return problems


def _ledger_problems(c: Certificate, head: str | None) -> list[str]:
    charge = additive(
        model=c.model_sha256,
        adversary=c.guarantee.adversary,
        query=c.query.name,
        clip=c.query.clip,
        lipschitz=c.query.lipschitz,
        coordinates=c.query.coordinates,
        mechanism=c.mechanism.name,
        sigma=c.calibration.sigma,
        epsilon=c.guarantee.epsilon,
        lengths=c.data.lengths,
        framework=c.guarantee.framework,
        numbers=isinstance(model_from_dict(c.model), NumberModel),
    )
    return row_problems(c.ledger, charge, head)


def names_a_file(model: object) -> bool:
    """Whether a model, or one of a class, is kept in another file."""
    if not isinstance(model, dict):
        return False
    inside = model.get("models")
    return "bif" in model or (isinstance(inside, list) and any(map(names_a_file, inside)))


def _reading_problems(data: DataPart, model: Model) -> list[str]:
    """The data must have been read in a way that goes with the model."""
    try:
        check_reading(model, {"order": data.order, "by": data.by, "gap": data.gap}, data.missing, data.id)
        check_groups(model, data.by, data.lengths)
    except PufferdpError as error:
        return [f"the data cannot have been read like this: {error}"]
    return []


def _same_backwards(model: Model) -> bool:
    """Whether a quilt's mirror image is as good: a chain with two states is reversible."""
    return isinstance(model, MarkovChain) and model.size == 2 and not model.any_start and model.given_start is None


def _quilt_problems(stated: QuiltPart | None, ours: dict[str, Any] | None, mirrored: bool = False) -> list[str]:
    """The record and the quilt that decide must be those that were found, or as good as those."""
    if stated is None or ours is None:
        return [] if stated is None and ours is None else ["calibration.quilt does not belong to this mechanism"]
    if stated.nearby != ours["nearby"] or len(stated.ends) != len(ours["ends"]):
        return [f"the active quilt has {stated.nearby} records inside; recomputed it has {ours['nearby']}"]
    shapes = [_shape(ours["node"], ours["ends"])]
    if mirrored:
        shapes.append([-distance for distance in reversed(shapes[0]) if isinstance(distance, int)])
    if _shape(stated.node, stated.ends) not in shapes:
        ends, found = ", ".join(map(str, stated.ends)), ", ".join(map(str, ours["ends"]))
        return [
            f"the active quilt of record {stated.node} ends at {ends or 'no record'}; "
            f"recomputed it is the one of record {ours['node']} that ends at {found or 'no record'}"
        ]
    if stated.skipped != ours["skipped"]:
        return [f"{stated.skipped} quilts are said to be left out; recomputed it is {ours['skipped']}"]
    if not math.isclose(stated.influence, ours["influence"], rel_tol=1e-6, abs_tol=1e-9):
        return [f"the influence is {stated.influence:.10g}; recomputed it is {ours['influence']:.10g}"]
    return []


def _shape(node: int | str, ends: list[int] | list[str]) -> list[object]:
    """In a series a quilt may be moved along, so only distances count; elsewhere names do."""
    if isinstance(node, int):
        return [e - node if isinstance(e, int) else e for e in ends]
    return [node, *ends]


def _transport_problems(stated: TransportPart | None, ours: dict[str, Any] | None) -> list[str]:
    """The distance and the pair of secrets must be those that were found."""
    if stated is None or ours is None:
        return [] if stated is None and ours is None else ["calibration.transport does not belong to this mechanism"]
    if not math.isclose(stated.distance, ours["distance"], rel_tol=1e-9):
        return [f"calibration.transport.distance is {stated.distance:.10g}; recomputed it is {ours['distance']:.10g}"]
    pairs = (stated.first, stated.second), (ours["first"], ours["second"])
    if pairs[0] != pairs[1]:
        said, found = (f"{a or 'nobody'!r} and {b or 'nobody'!r}" for a, b in pairs)
        return [f"the pair that decides is {said}; recomputed it is {found}"]
    return []


def _denoised_problems(stated: DenoisedPart | None, ours: Denoised | None, scale: float) -> list[str]:
    """The posterior must be the one that follows from the answer.

    Another machine may round the law of the answer otherwise. There is no estimate where that could move more than
    1e-6 of the posterior, which is about as wide as the noise; surprises are told down to 1e-9 only.
    """
    if stated is None or ours is None:
        return [] if stated is None and ours is None else ["denoised is given where it cannot be had, or the reverse"]
    if stated.probability != ours.probability:
        return [f"denoised.probability is {stated.probability:g}; it is {ours.probability:g} in every certificate"]
    for name, near in (("mean", 1e-6 * scale), ("low", 1e-6 * scale), ("high", 1e-6 * scale), ("surprise", 1e-9)):
        said, found = (_listed(getattr(part, name)) for part in (stated, ours))
        if len(said) != len(found):
            return [f"denoised.{name} has {len(said)} numbers; the answer has {len(found)}"]
        for a, b in zip(said, found, strict=True):
            if a is None or b is None:
                if a is not b:
                    return [f"denoised.{name} is {a}; recomputed it is {b}"]
            elif not math.isclose(a, b, rel_tol=1e-6, abs_tol=near):
                return [f"denoised.{name} is {a:.10g}; recomputed it is {b:.10g}"]
    return []


def _listed(value: float | list[float] | list[float | None] | None) -> Sequence[float | None]:
    return value if isinstance(value, list) else [value]
