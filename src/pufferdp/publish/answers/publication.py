"""Exact answer + calibration + noise → a release and its certificate. The exact answer never leaves this module."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.errors import NotApplicableError, QueryError
from pufferdp.basics.frames import frame
from pufferdp.basics.paged import Paged
from pufferdp.basics.words import did_you_mean
from pufferdp.models.base import Model
from pufferdp.models.files.json import ModelLike
from pufferdp.models.units import Unit
from pufferdp.publish.answers.certificate import Answer, Certificate
from pufferdp.publish.answers.estimate import Intervals, ModelEstimate, intervals
from pufferdp.publish.answers.kind import KIND, AnswerProblem
from pufferdp.publish.answers.mechanisms import MECHANISMS
from pufferdp.publish.answers.problem import Calibration, Problem
from pufferdp.publish.answers.queries import CountQuery, FunctionQuery, NumberQuery, Query
from pufferdp.publish.answers.secrets import Secrets, SecretsLike, as_secrets
from pufferdp.publish.noise import Sampler, draw
from pufferdp.publish.pipeline import Charged, OddsPublication
from pufferdp.publish.reading import Exact, read_exact, refuse_impossible
from pufferdp.publish.series import Series
from pufferdp.publish.verdict import Verdict, certified_verdict


@dataclass(frozen=True, kw_only=True)
class Release(Paged):
    """One private answer with its certificate."""

    answer: Answer
    """The noisy answer, one number or one for each label."""
    estimate: Answer
    """The nearest answer that could be true; follows from ``answer`` and what is public."""
    model_estimate: ModelEstimate | None
    """The posterior of the true answer if the model is right; None where it cannot be had. Follows from the same.

    Its numbers are None where the model hardly explains the answer."""
    certificate: Certificate
    """What was guaranteed and how, for anyone to verify without the data."""

    @property
    def intervals(self) -> Intervals:
        """Intervals for the true numbers from the noise distribution alone; valid whether or not the model is right."""
        return intervals(self.certificate.to_dict())

    @property
    def verdict(self) -> Verdict:
        """Whether the answer is accurate enough to be useful."""
        return certified_verdict(self.certificate.to_dict())

    def to_frame(self, *, backend: str | None = None) -> Any:
        """A row for each number, with the range in which the true one lies, as a pandas or polars frame."""
        each = self.intervals.each
        parts = (self.answer, each.low, each.high, self.estimate)
        numbers = [list(part) if isinstance(part, (list, tuple)) else [part] for part in parts]
        rows = zip(self.certificate.labels, *numbers, strict=True)
        return frame(("label", "answer", "low", "high", "estimate"), list(rows), backend)

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp release --json`` prints."""
        return {
            "verdict": self.verdict.to_dict(),
            "answer": self.answer,
            "intervals": self.intervals.to_dict(),
            "estimate": self.estimate,
            "model_estimate": None if self.model_estimate is None else self.model_estimate.to_dict(),
            "labels": self.certificate.labels,
            "certificate": self.certificate.to_dict(),
        }


def release(
    series: Series,
    *,
    model: ModelLike,
    query: Query | str,
    adversary: str = "bdp",
    secrets: SecretsLike | None = None,
    clip: tuple[float, float] | None = None,
    unit: str | int | Unit | None = None,
    **asked: Any,
) -> Release:
    """Release one answer; the parameters are those of ``pufferdp.release``, and the fields of a publication."""
    prior = series.model(model)
    return AnswerPublication(
        data=series.data,
        model=prior,
        reading=series.reading(prior),
        query=Query.parse(query, clip=clip) if isinstance(query, str) else query,
        adversary=checks.adversary(adversary),
        secrets=as_secrets(secrets),
        unit=None if unit is None else Unit.of(unit, prior),
        **asked,
    ).publish()


@dataclass(frozen=True, kw_only=True)
class AnswerPublication(OddsPublication[AnswerProblem, Calibration, Exact, Release]):
    """One answer on its way out."""

    query: Query
    secrets: Secrets | None = None
    mechanism: str | None = None
    beta: float = 0.05
    delta: float = 0.0
    unit: Unit | None = None

    kind = KIND
    widens = True

    @property
    def period(self) -> Unit | None:
        """The period whose records are one secret."""
        return self.unit

    @property
    def may_fail(self) -> float:
        """The delta that the guarantee may have."""
        return checks.delta(self.delta)

    def check(self) -> None:
        """Refuse a query, a guarantee or a way of reading that does not go with the model."""
        known = not self.model.takes_length
        if self.secrets is None or known:
            self._problem_for(() if known else ((1, 1),))
        checks.probability(self.beta, "beta")
        check_mechanism(self.mechanism)
        self.reading.check(self.model, self.unit)

    def read(self) -> Exact:
        """The exact counts; they stay inside the publication."""
        self.progress("reading")
        return read_exact(self.data, self.model, self.query, self.reading)

    def problem(self, exact: Exact) -> AnswerProblem:
        """For the chains that were read."""
        problem = self._problem_for(exact.lengths, exact.unobserved)
        return AnswerProblem(problem=problem, mechanism=self.mechanism, beta=self.beta, ranges=exact.ranges)

    def _problem_for(self, lengths: tuple[tuple[int, int], ...], unobserved: bool = False) -> Problem:
        return Problem(
            model=self.model,
            query=self.query,
            lengths=lengths,
            epsilon=self.epsilon,
            adversary=self.adversary,
            secrets=self.secrets,
            delta=self.delta,
            part=self.reading.is_part,
            unobserved=unobserved,
            restarted=self.reading.restart is not None,
            unit=self.unit,
        )

    def solve(self, problem: AnswerProblem, exact: Exact) -> Calibration:
        """The noise; a mechanism that is named must apply."""
        try:
            return super().solve(problem, exact)
        except NotApplicableError as error:
            raise NotApplicableError(f"{error}; leave mechanism= out", value=error.value) from None

    def draw(self, problem: AnswerProblem, solution: Calibration, exact: Exact, charged: Charged) -> Release:
        """The noisy answer with its certificate; hardly any noise only where the model allows the data."""
        if solution.nearly_exact(self.epsilon):
            refuse_impossible(self.model, exact)
        self.announce("drawing noise")
        answer = _noisy(problem.problem, solution, exact, self.sampler)
        with charged.certifying(answer, lambda: f"the noisy answer is {answer}"):
            self.announce("model-based estimation")
            made = self.made(exact.facts, charged, answer)
            certificate = self.kind.certify(problem, solution, made)
            model_estimate = (
                None if certificate.model_estimate is None else ModelEstimate(**certificate.model_estimate.model_dump())
            )
            return Release(
                answer=answer, estimate=certificate.estimate, model_estimate=model_estimate, certificate=certificate
            )


def check_mechanism(name: str | None) -> None:
    """Refuse a mechanism that nobody knows."""
    if name is not None and name not in [m.name for m in MECHANISMS]:
        known = [m.name for m in MECHANISMS]
        hint = did_you_mean(name, known)
        raise QueryError(f"mechanism is {name!r}; it must be one of {', '.join(known)}{hint}", value=name)


def _noisy(problem: Problem, noise: Calibration, read: Exact, sampler: Sampler) -> Answer:
    distribution, query = noise.distribution, problem.query
    if isinstance(query, CountQuery):
        return draw(distribution, [read.histogram[problem.model.labels.index(query.state)]], sampler)[0]
    if query.each_state:
        noisy = draw(distribution, list(read.histogram), sampler)
        return [n / problem.records for n in noisy] if query.averaged else list(noisy)
    if isinstance(query, FunctionQuery):  # its author declares how far the doubles it returns move
        out = [float(v) for v in draw(distribution, _function(query, read), sampler)]
        return out if len(out) > 1 else out[0]
    assert isinstance(query, NumberQuery)
    exact = _total(query, problem.model, read) * query.share(problem.records)
    # The least possible answer is public: without it the exact answer is no larger than the range of answers, and
    # rounding it to a double adds little to its moves. The noise covers what it adds.
    least, most = problem.answer_range
    gaussian = noise.approximation
    spread = noise.sigma if gaussian is None else distribution.scale / gaussian.move
    more = 2 * math.ulp(most - least) * (spread + 2 / problem.epsilon)
    wider = replace(distribution, scale=distribution.scale + more if distribution.scale else 0.0)
    above = draw(wider, [float(exact - Fraction(least))], sampler)[0]
    return float(Fraction(above) + Fraction(least))


def _total(query: NumberQuery, model: Model, read: Exact) -> Fraction:
    """The exact answer before it is divided, from the numbers of the data or of the states."""
    values = None if query.reads_numbers(model) else query.clipped_values(model)
    if values is not None:
        return query.total(np.array(values), read.histogram)
    if query.reads_each:
        assert read.numbers is not None
        return query.total(read.numbers)
    assert read.clipped is not None
    return read.clipped


def _function(query: FunctionQuery, read: Exact) -> list[float]:
    chains = read.states()
    try:
        result = query.function(chains)
        values = [float(v) for v in np.atleast_1d(np.asarray(result, dtype=float)).ravel()]
    except Exception as error:  # its words may repeat data
        raise QueryError(
            f"the function failed on the data: {type(error).__name__}; try it on made-up data first"
        ) from None
    if len(values) != query.coordinates or not all(math.isfinite(v) for v in values):
        raise QueryError(f"the function must return {query.coordinates} finite number(s); it returned {len(values)}")
    return values
