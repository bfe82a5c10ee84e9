"""An answer as a kind of publication: the noise that its problem needs, what it guarantees and what it costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from pufferdp.basics import checks
from pufferdp.basics.errors import CertificateError, NotApplicableError, QueryError
from pufferdp.basics.files import found_text
from pufferdp.basics.progress import Progress, silent
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.ledger.charge import Charge, additive
from pufferdp.models.base import Model
from pufferdp.models.chain import chain_of
from pufferdp.models.files.json import model_digest, model_from_dict
from pufferdp.models.units import Unit
from pufferdp.publish.answers.certificate import (
    DECLARED,
    EXACT_ANSWER,
    NEARLY_EXACT,
    Certificate,
    public_facts,
    secrets_text,
    statement,
)
from pufferdp.publish.answers.estimate import (
    MISFIT,
    ModelEstimate,
    feasible,
    hardly_explained,
    left_out,
    model_estimate_of,
)
from pufferdp.publish.answers.intervals import intervals
from pufferdp.publish.answers.mechanisms.optimal import ExactOptimal
from pufferdp.publish.answers.plan import Candidate, plan_problem, quilt_to_dict, transport_to_dict
from pufferdp.publish.answers.problem import Calibration, Problem, StatedNoise
from pufferdp.publish.answers.queries import Query, QueryKind, check_released
from pufferdp.publish.answers.secrets import Secrets
from pufferdp.publish.certificate import SCHEMA
from pufferdp.publish.kind import (
    UNPROVABLE,
    Claim,
    Claims,
    Exact,
    Kind,
    Made,
    Near,
    Part,
    Stated,
    data_claims,
    model_claims,
    stated_ranges,
)
from pufferdp.publish.noise import Accuracy, NoiseDistribution
from pufferdp.publish.noise_table import NoiseTable
from pufferdp.publish.pipeline import Reading
from pufferdp.publish.reading import assumption_text, moves_fact
from pufferdp.publish.stated_reading import stated_lengths
from pufferdp.publish.verdict import certified_verdict


@dataclass(frozen=True, kw_only=True)
class AnswerProblem:
    """An answer that is asked for, and by which mechanism."""

    problem: Problem
    mechanism: str | None = None
    """By name; the best that applies where none is named."""
    beta: float = 0.05
    """Accuracy is certified at probability 1−beta."""
    ranges: Ranges = EVERYTHING
    """Which records were read."""


@dataclass(frozen=True, kw_only=True)
class AnswerNoise:
    """The mechanism that was chosen, with its calibration."""

    calibration: Calibration
    accuracy: Accuracy

    @classmethod
    def of(cls, candidate: Candidate) -> AnswerNoise:
        """From a candidate of a plan that applies."""
        assert candidate.calibration is not None
        assert candidate.accuracy is not None
        return cls(calibration=candidate.calibration, accuracy=candidate.accuracy)


class AnswerKind(Kind[AnswerProblem, AnswerNoise, Certificate]):
    """Noisy answers to queries."""

    schema = SCHEMA
    certificate = Certificate
    ledger_kinds = ("additive",)
    released = "answer"
    unprovable: ClassVar[Mapping[str, str]] = {
        **UNPROVABLE,
        "answer": "the released numbers; estimate and model_estimate must follow from them",
        "accuracy.beta": "the probability that was chosen; alpha must follow from it",
        "query.clip": "the range that was chosen; the noise must follow from its width, and the estimate lie in it",
        **dict.fromkeys(
            ("calibration.quilt.node", "calibration.quilt.ends"),
            "in a series any record may stand for those whose quilt is as good",
        ),
    }
    row_unprovable: ClassVar[Mapping[str, str]] = {
        "ranges": "which records were read",
        "facts.query": "the noise is often the same for several queries",
        "facts.lengths": "how many chains were read; the longest must be the one charged for",
        "facts.coordinates": "of a function of your own: its author's word; otherwise it follows from the query",
        "facts.lipschitz": "of a function of your own: its author's word; otherwise it follows from the query",
    }
    row_words: ClassVar[Mapping[str, str]] = {
        "dp_loss": "a release was charged {stated}; recomputed it is {true}",
        "facts.sigma": "a release had noise of sigma {stated}; recomputed it is {true}",
        **dict.fromkeys(
            ("longest", "width", "epsilon"), "the facts of a release do not go with its length, width or guarantee"
        ),
    }

    def problem(self, certificate: Certificate, *, query: Query | None = None, **more: Any) -> AnswerProblem:
        """What was asked; a function of your own that decides the noise is handed over as ``query``."""
        c = certificate
        model, lengths = model_from_dict(c.model), stated_lengths(c.data.lengths)
        query_facts = c.query.model_dump()
        pair = c.calibration.approximate
        if pair is not None:
            query_facts["euclidean"] = pair.move
        if c.query.name == QueryKind.FUNCTION and c.mechanism.name == "wasserstein" and query is None:
            raise CertificateError("the noise depends on a function of your own: hand it over with verify(…, query=…)")
        problem = Problem(
            model=model,
            query=query if query is not None and c.query.name == QueryKind.FUNCTION else _query(query_facts),
            lengths=lengths,
            epsilon=c.guarantee.epsilon,
            adversary=checks.adversary(c.guarantee.adversary),
            secrets=None if c.guarantee.framework is None else Secrets.from_dict(c.guarantee.framework),
            independent_noise=c.noise.balanced is None,
            delta=c.guarantee.delta or 0.0,
            unit=None if c.guarantee.unit is None else Unit.of(c.guarantee.unit.name, model),
            part=c.data.part is True,
            unobserved=c.data.dropped + c.data.unobserved > 0,
            stated=StatedNoise(
                sigma=c.calibration.sigma, pair=None if pair is None else (pair.dp_epsilon, pair.dp_delta)
            ),
            table=None if c.calibration.table is None else NoiseTable.from_dict(c.calibration.table.model_dump()),
        )
        if (problem.table is not None) != (c.mechanism.name == ExactOptimal.name):
            raise CertificateError("calibration.table goes with the mechanism exact-optimal, and with no other")
        Reading.stated(c.data).check_stated(model, lengths, problem.unit)
        return AnswerProblem(
            problem=problem, mechanism=c.mechanism.name, beta=c.accuracy.beta, ranges=stated_ranges(c.data)
        )

    def solve(self, problem: AnswerProblem, progress: Progress) -> AnswerNoise:
        """The noise of the mechanism that is named, or of the best."""
        name = problem.mechanism
        only = None if name is None else [name]
        plan = plan_problem(problem.problem, beta=problem.beta, progress=progress, only=only)
        if not plan.candidates:
            raise NotApplicableError(f"mechanism {name!r} is not known to this version", value=name)
        candidate = plan.best if name is None else plan.candidates[0]
        if not candidate.applies:
            raise NotApplicableError(f"{name} does not apply: {candidate.reason}", value=name)
        return AnswerNoise.of(candidate)

    def claims(self, problem: AnswerProblem, solution: AnswerNoise, made: Made) -> Claims:
        """Every field of the certificate, in its order."""
        query_problem, noise = problem.problem, solution.calibration
        query, bound, answer = query_problem.query, query_problem.bound, made.released
        _check_answer(query_problem, noise.distribution, answer)
        posterior = model_estimate_of(query_problem, answer, noise.distribution)
        stated = None if made.stated is None else made.stated["model_estimate"]
        # By the surprise that is stated, which must be near ours: rounding must not decide what is left out.
        surprise = stated["surprise"] if stated is not None else 1.0 if posterior is None else posterior.surprise
        misfit = hardly_explained(surprise)
        warnings = [*made.warnings, MISFIT] if made.stated is None and misfit else list(made.warnings)
        exact = exactness(noise, query_problem.epsilon)
        implied = {text: text in exact for text in (EXACT_ANSWER, NEARLY_EXACT)}
        implied[DECLARED] = query.kind is QueryKind.FUNCTION
        checked = query_problem.checked
        return {
            **self.head_claims(made),
            "guarantee": {
                "adversary": Exact(str(query_problem.adversary)),
                "knows": Exact(query_problem.adversary.knows),
                "epsilon": Exact(query_problem.epsilon),
                **({"delta": Exact(noise.delta)} if noise.delta else {}),
                **({} if query_problem.unit is None else {"unit": _unit(query_problem.unit)}),
                "secrets": Exact(secrets_text(query_problem)),
                "framework": Exact(None if query_problem.secrets is None else query_problem.secrets.to_dict()),
                "statement": Exact(statement(query_problem, noise.delta) + assumption_text(made.data) + checked.misfit),
            },
            **model_claims(query_problem.model, checked),
            "query": {
                "name": Exact(query.name),
                "clip": Exact(list(query.clip) if query.clip else None),
                "lipschitz": Near(bound.lipschitz),
                "coordinates": Exact(len(bound.labels)),
            },
            "mechanism": {"name": Exact(noise.mechanism), "theorem": Exact(noise.theorem)},
            "calibration": {
                "sigma": Near(noise.sigma),
                "quilt": QuiltClaim(quilt_to_dict(noise), mirrored=_same_backwards(query_problem.model)),
                "transport": _transport(transport_to_dict(noise)),
                **_approximate(noise),
                **({"table": _table(noise.distribution.table)} if noise.distribution.table is not None else {}),
            },
            "noise": {
                "kind": Exact(str(noise.distribution.kind)),
                "scale": Near(noise.scale),
                **({"balanced": Exact(True)} if noise.distribution.balanced else {}),
            },
            "expected_l1_error": Near(noise.distribution.expected_l1_error),
            "accuracy": {"alpha": Near(solution.accuracy.alpha), "beta": Exact(solution.accuracy.beta)},
            "data": data_claims(
                made.data,
                query_problem.model,
                within_bins=query.reads_numbers(query_problem.model) and query_problem.model.bins is not None,
            ),
            "public": Exact([*public_facts(query_problem), *moves_fact(made.data, query_problem.model)]),
            "labels": Exact(list(bound.labels)),
            "answer": Stated(answer),
            "estimate": Exact(
                feasible(bound, query_problem.records, answer), words="the estimate does not follow from the answer"
            ),
            "model_estimate": _model_estimate(posterior, noise.scale, misfit),
            "warnings": self.warning_claims(
                replace(made, warnings=warnings),
                query_problem.model,
                must=[text for text, holds in implied.items() if holds] + [MISFIT] * misfit,
                never=[text for text, holds in implied.items() if not holds] + [MISFIT] * (not misfit),
            ),
            "ledger": self.row_claims(problem, solution, made),
        }

    def vouched(self, certificate: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """The answer and its estimate, with their labels."""
        return {name: certificate[name] for name in ("labels", "answer", "estimate")}

    def beside(self, certificate: Mapping[str, Any]) -> Claims:
        """The numbers, the ranges that follow from them, and whether they are useful."""
        repeated = {key: Exact(certificate[key]) for key in ("answer", "estimate", "model_estimate", "labels")}
        verdict = Near(certified_verdict(certificate).to_dict())
        parts = (certificate["data"].get("ranges") or {}).get("parts", ())
        people = [name for part in parts for name in part.get("by") or ()]
        person = {"person": Exact(people[0])} if len(people) == 1 else {}
        return {**repeated, **person, "verdict": verdict, "intervals": Near(intervals(certificate).to_dict())}

    def charge(self, problem: AnswerProblem, solution: AnswerNoise) -> Charge:
        """Its DP loss, and the guarantee it makes alone."""
        query_problem, noise = problem.problem, solution.calibration
        ours = noise.approximation
        return additive(
            model=model_digest(query_problem.model),
            adversary=str(query_problem.adversary),
            query=query_problem.query.name,
            clip=query_problem.query.clip,
            lipschitz=noise.lipschitz,
            coordinates=len(query_problem.bound.labels),
            mechanism=noise.mechanism,
            sigma=noise.sigma,
            epsilon=query_problem.epsilon,
            lengths=query_problem.lengths,
            framework=None if query_problem.secrets is None else query_problem.secrets.to_dict(),
            numbers=query_problem.model.real_valued,
            part=query_problem.part,
            unobserved=query_problem.unobserved,
            ranges=problem.ranges,
            table=None if noise.distribution.table is None else noise.distribution.table.to_dict(),
            table_loss=noise.dp_loss,
            approximate=None
            if ours is None
            else {"delta": ours.delta, "dp_loss": ours.dp_loss, "dp_delta": ours.dp_delta, "move": ours.move},
            unit=None if query_problem.unit is None else query_problem.unit.to_dict(),
        )

    def recompute(self, charge: Charge, model: Model | None) -> Charge | None:
        """From the query, the mechanism and the guarantee of a charge; None where a function of your own decides."""
        facts = charge.facts
        own = facts["query"] == QueryKind.FUNCTION and facts["mechanism"] == "wasserstein"
        if model is None or own:
            return None
        query_problem = Problem(
            model=model,
            query=_query({"name": facts["query"], **facts}),
            lengths=tuple((a, b) for a, b in facts["lengths"]),
            epsilon=facts["epsilon"],
            adversary=checks.adversary(charge.adversary),
            secrets=None if facts["framework"] is None else Secrets.from_dict(facts["framework"]),
            part=facts.get("part") is True,
            unobserved=facts.get("unobserved") is True,
            delta=facts.get("delta", 0.0),
            unit=None if facts.get("unit") is None else Unit.of(facts["unit"]["name"], model),
            stated=StatedNoise(sigma=facts["sigma"], pair=(charge.dp_loss, charge.dp_delta)),
            table=NoiseTable.from_dict(facts["table"]) if "table" in facts else None,
        )
        problem = AnswerProblem(problem=query_problem, mechanism=facts["mechanism"], ranges=charge.ranges)
        return self.charge(problem, self.solve(problem, silent))


KIND: Final = AnswerKind()


def _unit(unit: Unit) -> Claims:
    return {name: Exact(value) for name, value in unit.to_dict().items()}


def exactness(noise: Calibration, epsilon: float) -> list[str]:
    """What must be said of an answer that is published exactly, or nearly so."""
    if not noise.nearly_exact(epsilon):
        return []
    return [EXACT_ANSWER if noise.scale == 0 else NEARLY_EXACT]


def _check_answer(problem: Problem, distribution: NoiseDistribution, answer: Any) -> None:
    """Refuse an answer that no draw could have made."""
    numbers = answer if isinstance(answer, list) else [answer]
    several = problem.query.kind in (QueryKind.HISTOGRAM, QueryKind.FREQUENCY) or len(problem.bound.labels) > 1
    if len(numbers) != len(problem.bound.labels) or isinstance(answer, list) != several:
        raise CertificateError("the answer does not have one number for each label of the query")
    try:
        check_released(problem.query, problem.records, numbers, distribution.balanced)
    except QueryError as error:
        raise CertificateError(str(error)) from None
    if distribution.scale == 0:
        nearest = feasible(problem.bound, problem.records, answer)
        pairs = zip(numbers, nearest if isinstance(nearest, list) else [nearest], strict=True)
        if not all(math.isclose(number, near, rel_tol=1e-9, abs_tol=1e-9) for number, near in pairs):
            raise CertificateError("the answer has no noise, and it cannot be true")


def charge_of(problem: Problem, candidate: Candidate) -> Charge:
    """What a release by a candidate of a plan would charge."""
    return KIND.charge(AnswerProblem(problem=problem), AnswerNoise.of(candidate))


def _query(facts: Mapping[str, Any]) -> Query:
    """The query of a certificate or a charge; in place of a function of your own, one that moves as far."""
    if facts["name"] == QueryKind.FUNCTION:
        return Query.of_function(lambda chains: 0.0, facts["lipschitz"], facts["coordinates"], facts.get("euclidean"))
    clip = facts["clip"]
    if clip is not None and len(clip) != 2:
        raise CertificateError(f"query.clip is {found_text(clip)}; it must be two numbers")
    return Query.parse(facts["name"], clip=None if clip is None else (clip[0], clip[1]))


@dataclass(frozen=True)
class QuiltClaim(Claim):
    """The record that decides and its active quilt, or a record whose quilt is as good."""

    mirrored: bool = field(kw_only=True)
    """Whether a quilt's mirror image is as good."""

    def holds(self, stated: Any, true: Any) -> bool:
        """Whether the quilts are as good as each other."""
        return self.difference("", stated) is None

    def difference(self, path: str, stated: Any) -> str | None:
        """In a series a quilt may be moved along, so only distances count; elsewhere names do."""
        ours = self.value
        if stated is None or ours is None:
            return None if stated is ours else f"{path} does not belong to this mechanism"
        if stated["nearby"] != ours["nearby"] or len(stated["ends"]) != len(ours["ends"]):
            return f"the active quilt has {stated['nearby']} records inside; recomputed it has {ours['nearby']}"
        shapes = [_shape(ours["node"], ours["ends"])]
        if self.mirrored:
            shapes.append([-distance for distance in reversed(shapes[0]) if isinstance(distance, int)])
        if _shape(stated["node"], stated["ends"]) not in shapes:
            ends, true = (", ".join(map(str, quilt["ends"])) or "no record" for quilt in (stated, ours))
            return (
                f"the active quilt of record {stated['node']} ends at {ends}; "
                f"recomputed it is the one of record {ours['node']} that ends at {true}"
            )
        if stated["skipped"] != ours["skipped"]:
            return f"{stated['skipped']} quilts are said to be left out; recomputed it is {ours['skipped']}"
        if not math.isclose(stated["influence"], ours["influence"], rel_tol=1e-6, abs_tol=1e-9):
            return f"the influence is {stated['influence']:.10g}; recomputed it is {ours['influence']:.10g}"
        return None


def _shape(node: int | str, ends: list[int] | list[str]) -> list[object]:
    if isinstance(node, int):
        return [end - node if isinstance(end, int) else end for end in ends]
    return [node, *ends]


def _same_backwards(model: Model) -> bool:
    """A chain with two states is reversible."""
    chain = chain_of(model)
    return chain is not None and chain.size == 2 and not chain.any_start and chain.given_start is None


def _transport(ours: Mapping[str, Any] | None) -> Part:
    """The distance and the pair of secrets that decides."""
    words = "calibration.transport does not belong to this mechanism"
    if ours is None:
        return Part.of(None, words)
    pair = " and ".join(repr(ours[name] or "nobody") for name in ("first", "second"))
    decides = f"the pair that decides is {pair}; the certificate names another"
    first, second = (Exact(ours[name], words=decides) for name in ("first", "second"))
    return Part.of({"distance": Near(ours["distance"]), "first": first, "second": second}, words)


def _approximate(noise: Calibration) -> dict[str, Claims]:
    """The approximate DP of the noise; nothing where the guarantee is pure."""
    ours = noise.approximation
    if ours is None:
        return {}
    # The delta falls fast as the loss grows: rounding of the loss shows in it some hundred times as much.
    delta = Near(ours.dp_delta, rel=1e-6)
    pair: Claims = {"dp_epsilon": Near(ours.dp_loss), "dp_delta": delta}
    return {"approximate": {"move": Near(ours.move), "rho": Near(ours.rho), **pair}}


def _table(table: NoiseTable) -> Claims:
    """The distribution of the noise: what was checked is what is stated."""
    return {name: Exact(value) for name, value in table.to_dict().items()}


def _model_estimate(ours: ModelEstimate | None, scale: float, misfit: bool) -> Part:
    """The posterior that follows from the answer; left out where the model fails its test.

    Another machine may round the distribution of the answer otherwise. There is no estimate where that could move more
    than 1e-6 of the posterior, which is about as wide as the noise; surprises are told down to 1e-9 only.
    """
    words = "a model-based estimate is given where there is none, or the reverse"
    if ours is None:
        return Part.of(None, words)
    near = {"mean": 1e-6 * scale, "low": 1e-6 * scale, "high": 1e-6 * scale, "surprise": 1e-9}
    claims: dict[str, Claim | Claims] = {
        name: Near(value, rel=1e-6, abs=near[name]) if name in near else Exact(value)
        for name, value in (left_out(ours) if misfit else ours).to_dict().items()
    }
    return Part.of(claims, words)
