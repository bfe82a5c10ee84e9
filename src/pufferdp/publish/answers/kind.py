"""An answer as a kind of publication: the noise that its problem needs, what it guarantees and what it costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pufferdp.basics.errors import CertificateError, NotApplicableError, QueryError
from pufferdp.basics.progress import Progress, silent
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.ledger.charge import Charge, loss_of
from pufferdp.models.base import Model
from pufferdp.models.chain import chain_of
from pufferdp.models.units import Unit
from pufferdp.publish.answers.certificate import (
    DECLARED,
    EXACT_ANSWER,
    NEARLY_EXACT,
    Certificate,
    guarantee,
    public_facts,
    statement,
)
from pufferdp.publish.answers.estimate import (
    MISFIT,
    feasible,
    hardly_explained,
    intervals,
    left_out,
    model_estimate_of,
    stated_query,
)
from pufferdp.publish.answers.plan import plan_problem, quilt_to_dict, transport_to_dict
from pufferdp.publish.answers.problem import Calibration, Problem, StatedNoise
from pufferdp.publish.answers.queries import FunctionQuery, Query
from pufferdp.publish.answers.secrets import Secrets
from pufferdp.publish.certificate import SCHEMA
from pufferdp.publish.kind import Kind, Made, stated_ranges
from pufferdp.publish.noise import NoiseDistribution
from pufferdp.publish.reading import assumption_text, check_stated, moves_fact
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
    """Which records were read, by time and by person."""


class AnswerKind(Kind[AnswerProblem, Calibration, Certificate]):
    """Noisy answers to queries."""

    schema = SCHEMA
    certificate = Certificate
    ledger_kinds = ("additive",)
    released = "answer"
    row_unprovable: ClassVar[Mapping[str, str]] = {
        "ranges": "which records were read",
        "facts.query": "the noise is often the same for several queries",
        "facts.lengths": "how many chains were read; the longest must be the one charged for",
        "facts.coordinates": "of a function of your own: its author's word; otherwise it follows from the query",
        "facts.lipschitz": "of a function of your own: its author's word; otherwise it follows from the query",
    }

    def problem(self, certificate: Certificate, *, query: Query | None = None, **more: Any) -> AnswerProblem:
        """What was asked; a function of your own that decides the noise is handed over as ``query``."""
        c, chains = certificate, Problem.chains_stated(certificate)
        model, framework = chains["model"], c.guarantee.framework
        query_facts = c.query.model_dump()
        pair = c.calibration.approximate
        if pair is not None:
            query_facts["euclidean"] = pair.move
        if c.query.name == FunctionQuery.word and c.mechanism.name == "wasserstein" and query is None:
            raise CertificateError("the noise depends on a function of your own: hand it over with verify(…, query=…)")
        problem = Problem(
            **chains,
            query=query if query is not None and c.query.name == FunctionQuery.word else _query(query_facts),
            secrets=None if framework is None else Secrets.from_dict(framework),
            independent_noise=c.noise.balanced is None,
            delta=c.guarantee.delta or 0.0,
            unit=None if c.guarantee.unit is None else Unit.of(c.guarantee.unit.name, model),
            stated=StatedNoise(
                sigma=c.calibration.sigma, pair=None if pair is None else (pair.dp_epsilon, pair.dp_delta)
            ),
        )
        check_stated(c.data, model, problem.unit)
        return AnswerProblem(
            problem=problem, mechanism=c.mechanism.name, beta=c.accuracy.beta, ranges=stated_ranges(c.data)
        )

    def solve(self, problem: AnswerProblem, progress: Progress) -> Calibration:
        """The noise of the mechanism that is named, or of the best."""
        name = problem.mechanism
        only = None if name is None else [name]
        plan = plan_problem(problem.problem, beta=problem.beta, progress=progress, only=only)
        if not plan.candidates:
            raise NotApplicableError(f"mechanism {name!r} is not known to this version", value=name)
        candidate = plan.best if name is None else plan.candidates[0]
        if not candidate.applies:
            raise NotApplicableError(f"{name} does not apply: {candidate.reason}", value=name)
        assert candidate.calibration is not None
        return candidate.calibration

    def content(self, problem: AnswerProblem, solution: Calibration, made: Made) -> dict[str, Any]:
        """The content of the certificate, made from the problem and the answer."""
        query_problem, noise = problem.problem, solution
        query, bound, answer = query_problem.query, query_problem.bound, made.released
        _check_answer(query_problem, noise.distribution, answer)
        posterior = model_estimate_of(query_problem, answer, noise.distribution)
        stated = None if made.stated is None else made.stated["model_estimate"]
        # By the surprise that is stated, which must be near ours: rounding must not decide what is left out.
        surprise = stated["surprise"] if stated is not None else 1.0 if posterior is None else posterior.surprise
        misfit = hardly_explained(surprise)
        if misfit and posterior is not None:
            posterior = left_out(posterior)
        exact, checked = exactness(noise, query_problem.epsilon), query_problem.checked
        ours = noise.approximation
        words, accuracy = statement(query_problem, noise.delta), noise.distribution.accuracy(problem.beta)
        return {
            **self.common(
                problem,
                solution,
                made,
                query_problem.model,
                checked=checked,
                within_bins=query.reads_numbers(query_problem.model) and query_problem.model.bins is not None,
                implied={
                    **{text: text in exact for text in (EXACT_ANSWER, NEARLY_EXACT)},
                    DECLARED: isinstance(query, FunctionQuery),
                    MISFIT: misfit,
                },
            ),
            "guarantee": {
                **guarantee(query_problem, words + assumption_text(made.data) + checked.misfit),
                "delta": noise.delta or None,
                "unit": None if query_problem.unit is None else query_problem.unit.to_dict(),
            },
            "query": {
                "name": query.name,
                "clip": list(query.clip) if query.clip else None,
                "lipschitz": bound.lipschitz,
                "coordinates": len(bound.labels),
            },
            "mechanism": {"name": noise.mechanism, "theorem": noise.theorem},
            "calibration": {
                "sigma": noise.sigma,
                "quilt": _quilt(noise, query_problem.model, made.stated),
                "transport": transport_to_dict(noise),
                "approximate": None
                if ours is None
                else {"move": ours.move, "rho": ours.rho, "dp_epsilon": ours.dp_loss, "dp_delta": ours.dp_delta},
            },
            "noise": {
                "kind": str(noise.distribution.kind),
                "scale": noise.scale,
                "balanced": True if noise.distribution.balanced else None,
            },
            "expected_l1_error": noise.distribution.expected_l1_error,
            "accuracy": {"alpha": accuracy.alpha, "beta": accuracy.beta},
            "public": [*public_facts(query_problem), *moves_fact(made.data, query_problem.model)],
            "labels": list(bound.labels),
            "answer": answer,
            "estimate": feasible(bound, query_problem.records, answer),
            "model_estimate": None if posterior is None else posterior.to_dict(),
        }

    def beside(self, certificate: Mapping[str, Any], output: Mapping[str, Any]) -> dict[str, Any]:
        """The numbers, the ranges that follow from them, and whether they are useful."""
        parts = (certificate["data"].get("ranges") or {}).get("parts", ())
        people = [name for part in parts for name in part.get("by") or ()]
        return {
            **{key: certificate[key] for key in ("answer", "estimate", "model_estimate", "labels")},
            **({"person": people[0]} if len(people) == 1 else {}),
            "verdict": certified_verdict(certificate).to_dict(),
            "intervals": intervals(certificate).to_dict(),
        }

    def charge(self, problem: AnswerProblem, solution: Calibration) -> Charge:
        """Its DP loss, and the guarantee it makes alone."""
        asked, noise = problem.problem, solution
        ours, clip = noise.approximation, asked.query.clip
        facts = {
            "query": asked.query.name,
            "clip": None if clip is None else [float(end) for end in clip],
            "lipschitz": noise.lipschitz,
            "coordinates": len(asked.bound.labels),
            "mechanism": noise.mechanism,
            "sigma": noise.sigma,
            "epsilon": asked.epsilon,
            "framework": None if asked.secrets is None else asked.secrets.to_dict(),
            **({} if ours is None else {"delta": ours.delta, "euclidean": ours.move}),
            **({} if asked.unit is None else {"unit": asked.unit.to_dict()}),
        }
        return asked.charge(
            facts,
            kind="additive",
            dp_loss=loss_of(noise.sigma) if ours is None else ours.dp_loss,
            dp_delta=0.0 if ours is None else ours.dp_delta,
            delta=0.0 if ours is None else ours.delta,
            # A guarantee about secrets of one's own says nothing about single records, which a ledger is about.
            epsilon=asked.epsilon if asked.secrets is None else None,
            width=clip[1] - clip[0] if asked.model.real_valued and clip is not None else None,
            ranges=problem.ranges,
        )

    def recompute(self, charge: Charge, model: Model | None) -> Charge | None:
        """From the query, the mechanism and the guarantee of a charge; None where a function of your own decides."""
        facts = charge.facts
        own = facts["query"] == FunctionQuery.word and facts["mechanism"] == "wasserstein"
        if model is None or own:
            return None
        query_problem = Problem(
            **Problem.chains_charged(charge, model),
            query=_query({"name": facts["query"], **facts}),
            epsilon=facts["epsilon"],
            secrets=None if facts["framework"] is None else Secrets.from_dict(facts["framework"]),
            delta=facts.get("delta", 0.0),
            unit=None if facts.get("unit") is None else Unit.of(facts["unit"]["name"], model),
            stated=StatedNoise(sigma=facts["sigma"], pair=(charge.dp_loss, charge.dp_delta)),
        )
        problem = AnswerProblem(problem=query_problem, mechanism=facts["mechanism"], ranges=charge.ranges)
        return self.charge(problem, self.solve(problem, silent))


KIND: Final = AnswerKind()


def exactness(noise: Calibration, epsilon: float) -> list[str]:
    """What must be said of an answer that is published exactly, or nearly so."""
    if not noise.nearly_exact(epsilon):
        return []
    return [EXACT_ANSWER if noise.scale == 0 else NEARLY_EXACT]


def _check_answer(problem: Problem, distribution: NoiseDistribution, answer: Any) -> None:
    """Refuse an answer that no draw could have made."""
    numbers = answer if isinstance(answer, list) else [answer]
    several = problem.query.each_state or len(problem.bound.labels) > 1
    if len(numbers) != len(problem.bound.labels) or isinstance(answer, list) != several:
        raise CertificateError("the answer does not have one number for each label of the query")
    try:
        problem.query.check_released(problem.records, numbers, distribution.balanced)
    except QueryError as error:
        raise CertificateError(str(error)) from None
    if distribution.scale == 0:
        nearest = feasible(problem.bound, problem.records, answer)
        pairs = zip(numbers, nearest if isinstance(nearest, list) else [nearest], strict=True)
        if not all(math.isclose(number, near, rel_tol=1e-9, abs_tol=1e-9) for number, near in pairs):
            raise CertificateError("the answer has no noise, and it cannot be true")


def _query(facts: Mapping[str, Any]) -> Query:
    """The query of a certificate or a charge; in place of a function of your own, one that moves as far."""
    asked = stated_query({"clip": facts["clip"], "name": facts["name"]})
    if asked is not None:
        return asked
    return Query.of_function(lambda chains: 0.0, facts["lipschitz"], facts["coordinates"], facts.get("euclidean"))


def _quilt(noise: Calibration, model: Model, stated: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The record that decides and its active quilt; the stated ones where that quilt is as good.

    In a series a quilt may be moved along, so only distances count; elsewhere names do.
    """
    ours = quilt_to_dict(noise)
    other = None if stated is None else stated["calibration"]["quilt"]
    if ours is None or other is None:
        return ours
    shapes = [_shape(ours["node"], ours["ends"])]
    if _same_backwards(model):
        shapes.append([-distance for distance in reversed(shapes[0]) if isinstance(distance, int)])
    alike = _shape(other["node"], other["ends"]) in shapes
    return {**ours, "node": other["node"], "ends": other["ends"]} if alike else ours


def _shape(node: int | str, ends: list[int] | list[str]) -> list[object]:
    if isinstance(node, int):
        return [end - node if isinstance(end, int) else end for end in ends]
    return [node, *ends]


def _same_backwards(model: Model) -> bool:
    """A chain with two states is reversible."""
    chain = chain_of(model)
    return chain is not None and chain.size == 2 and not chain.any_start and chain.given_start is None
