"""Exact answer + calibration + noise → a release and its certificate. The exact answer never leaves this module."""

from __future__ import annotations

import importlib.metadata
import math
import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.errors import NotApplicableError, QueryError
from pufferdp.basics.paged import Paged
from pufferdp.basics.progress import Progress
from pufferdp.data.layout import Layout
from pufferdp.ledger import charged, opened
from pufferdp.models.base import Model, RecordModel
from pufferdp.models.bins import with_bins
from pufferdp.models.files.json import model_digest, model_to_dict
from pufferdp.models.gaussian import NumberModel
from pufferdp.models.model_class import ModelClass
from pufferdp.publish.answers.denoise import Answer, Denoised, denoise, feasible
from pufferdp.publish.answers.mechanisms import MECHANISMS
from pufferdp.publish.answers.plan import Candidate, plan_problem, quilt_to_dict, transport_to_dict
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import BoundQuery, Query, QueryKind, state_values
from pufferdp.publish.answers.secrets import Secrets
from pufferdp.publish.certificate import EXACT_ANSWER, SCHEMA, Certificate, public_facts, secrets_text, statement
from pufferdp.publish.fingerprint import fitted_warning
from pufferdp.publish.noise import Sampler, SystemSampler, draw
from pufferdp.publish.reading import Exact, check_reading, read_exact, refuse_impossible

if TYPE_CHECKING:
    from pufferdp.ledger.balance import Receipt
    from pufferdp.ledger.charge import Charge
    from pufferdp.ledger.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class Release(Paged):
    """One private answer with its certificate."""

    answer: Answer
    """The noisy answer, one number or one for each label."""
    estimate: Answer
    """The nearest answer that could be true; follows from ``answer`` and what is public."""
    denoised: Denoised | None
    """The posterior of the true answer under the model; None where it cannot be had. Follows from the same."""
    certificate: Certificate
    """What was promised."""

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp release --json`` prints."""
        return {
            "answer": self.answer,
            "estimate": self.estimate,
            "denoised": None if self.denoised is None else self.denoised.to_dict(),
            "labels": self.certificate.labels,
            "certificate": self.certificate.to_dict(),
        }


def release(
    data: object,
    *,
    model: Model,
    column: str,
    query: Query | str,
    epsilon: float,
    adversary: str = "bdp",
    order: str | None = None,
    by: str | None = None,
    gap: str | float | None = None,
    missing: str = "refuse",
    bins: str | None = None,
    id: str | None = None,
    secrets: Secrets | None = None,
    clip: tuple[float, float] | None = None,
    mechanism: str | None = None,
    beta: float = 0.05,
    sampler: Sampler | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    progress: Progress | None = None,
) -> Release:
    """Release one answer.

    Args:
        data: a CSV or Parquet file, a folder or pattern of them, the URL of a PostgreSQL table, a SQLite table
            (``FILE::TABLE``), or a pandas, polars, pyarrow, DuckDB or Spark frame.
        model: the model or class the guarantee is for.
        column: the column with states or numbers.
        query: a Query, or its name as on the command line.
        epsilon: the promise.
        adversary: ``bdp`` (knows any set of records), ``pufferfish`` (none) or ``dp`` (all others).
        order: the column to sort by; without it a file is taken in row order.
        by: the column that tells people apart: one independent chain each.
        gap: a longer step in ``order`` starts a new chain: ``"10min"`` or a number in its unit.
        missing: ``"refuse"`` or ``"break"`` (a missing value ends a chain).
        bins: edges that turn numbers into states, where the model has none.
        id: for models that are not chains, the column that says which record a row is.
        secrets: secrets of one's own and their pairs; by default every record's value is a secret.
        clip: range of the numbers of a sum or mean.
        mechanism: a mechanism by name; the best that applies by default.
        beta: accuracy is certified at probability 1−beta.
        sampler: where noise comes from; the operating system by default.
        ledger: where the release is charged before its noise is drawn: a Ledger, its file or its URL.
        dataset: which data set of the ledger.
        progress: called with a few words before each step.
    """
    tell = progress or (lambda words: None)
    sampler = sampler or SystemSampler()
    query = Query.parse(query, clip=clip) if isinstance(query, str) else query
    model = with_bins(model, bins)
    who, known = checks.adversary(adversary), isinstance(model, (RecordModel, ModelClass, NumberModel))
    # Whatever can be refused without the data is refused before it is read.
    if secrets is None or known:
        lengths = () if known else ((1, 1),)
        Problem(model=model, query=query, lengths=lengths, epsilon=epsilon, adversary=who, secrets=secrets)
    checks.probability(beta, "beta")
    check_mechanism(mechanism)
    check_reading(model, {"order": order, "by": by, "gap": gap}, missing, id)
    layout = Layout(column=column, order=order, by=by, gap=gap, missing=missing)
    with opened(ledger, dataset) as books:
        if books is not None and dataset is not None:
            books.expect(dataset, model=model, adversary=who)
    tell("reading")
    exact = read_exact(data, model, query, layout, id)
    problem = Problem(model=model, query=query, lengths=exact.lengths, epsilon=epsilon, adversary=who, secrets=secrets)
    candidate = choose(problem, mechanism, beta, tell)
    if candidate.calibration is not None and candidate.calibration.scale == 0:
        refuse_impossible(model, exact)
    receipt, counted = charged(ledger, dataset, lambda: charge_of(problem, candidate))
    return finish(problem, candidate, exact, sampler, tell, receipt, counted)


def finish(
    problem: Problem,
    candidate: Candidate,
    exact: Exact,
    sampler: Sampler,
    tell: Progress,
    receipt: Receipt | None = None,
    counted: bool = False,
) -> Release:
    """Draw the noise of a calibration that was chosen, and charged where there is a ledger; say what was promised."""
    assert candidate.calibration is not None
    model, no_noise = problem.model, candidate.calibration.scale == 0
    tell("drawing noise")
    answer = _noisy(problem, candidate, exact, sampler)
    warnings = [
        sampler.warning,
        fitted_warning(model.fitted, dict(zip(model.labels, exact.histogram, strict=False)), charged=counted),
        EXACT_ANSWER if no_noise else None,
        "the Lipschitz constant was declared by the author of the function and cannot be checked"
        if problem.query.kind is QueryKind.FUNCTION
        else None,
    ]
    tell("denoising")
    denoised = denoise(problem, answer, candidate.calibration.scale)
    certificate = _certify(problem, candidate, exact.facts, answer, denoised, [w for w in warnings if w], receipt)
    return Release(answer=answer, estimate=certificate.estimate, denoised=denoised, certificate=certificate)


def charge_of(problem: Problem, candidate: Candidate) -> Charge:
    """What a release charges."""
    from pufferdp.ledger.charge import additive

    calibration, query = candidate.calibration, problem.query
    assert calibration is not None
    return additive(
        model=model_digest(problem.model),
        adversary=str(problem.adversary),
        query=query.name,
        clip=query.clip,
        lipschitz=calibration.lipschitz,
        coordinates=len(problem.bound.labels),
        mechanism=calibration.mechanism,
        sigma=calibration.sigma,
        epsilon=problem.epsilon,
        lengths=problem.lengths,
        framework=None if problem.secrets is None else problem.secrets.to_dict(),
        numbers=isinstance(problem.model, NumberModel),
    )


def check_mechanism(name: str | None) -> None:
    """Refuse a mechanism that nobody knows."""
    if name is not None and name not in [m.name for m in MECHANISMS]:
        names = ", ".join(m.name for m in MECHANISMS)
        raise QueryError(f"mechanism is {name!r}; it must be one of {names}", value=name)


def choose(problem: Problem, mechanism: str | None, beta: float, tell: Progress) -> Candidate:
    """The mechanism that was named, or the best."""
    plan = plan_problem(problem, beta=beta, progress=tell, only=None if mechanism is None else [mechanism])
    if mechanism is None:
        return plan.best
    candidate = plan.candidate(mechanism)
    if not candidate.applies:
        raise NotApplicableError(
            f"{mechanism} does not apply: {candidate.reason}; leave --mechanism out", value=mechanism
        )
    return candidate


def _noisy(problem: Problem, candidate: Candidate, read: Exact, sampler: Sampler) -> Answer:
    assert candidate.calibration is not None
    law, bound, kind = candidate.calibration.law, problem.bound, problem.query.kind
    if kind is QueryKind.COUNT:
        state = problem.model.labels.index(problem.query.state or "")
        return draw(law, [read.histogram[state]], sampler)[0]
    if kind in (QueryKind.HISTOGRAM, QueryKind.FREQUENCY):
        noisy = draw(law, list(read.histogram), sampler)
        return list(noisy) if kind is QueryKind.HISTOGRAM else [n / problem.records for n in noisy]
    exact = _function(problem, read) if kind is QueryKind.FUNCTION else [_sum(problem, read)]
    # The answer is rounded to a double, and what that can add to its moves is added to the noise.
    ulp = math.ulp(_largest(bound, problem.records)) if kind is not QueryKind.FUNCTION else max(map(math.ulp, exact))
    more = 2 * len(exact) * ulp * (candidate.calibration.sigma + 2 / problem.epsilon)
    wider = replace(law, scale=law.scale + more if law.scale else 0.0)
    out = [float(v) for v in draw(wider, exact, sampler)]
    return out if len(out) > 1 else out[0]


def _largest(bound: BoundQuery, records: int) -> float:
    low, high = bound.range or (0.0, 1.0)
    return max(abs(low), abs(high)) * (records if bound.query.kind is QueryKind.SUM else 1)


def _sum(problem: Problem, read: Exact) -> float:
    values = state_values(problem.model)
    if values is None or problem.query.reads_numbers(problem.model):
        assert read.clipped is not None
        total = read.clipped
    else:
        low, high = problem.query.clip or (-math.inf, math.inf)
        # Fractions: the sum is exact, so the order of the records and their rounding cannot show in it.
        each = zip(read.histogram, values, strict=True)
        total = sum((n * Fraction(min(max(v, low), high)) for n, v in each), Fraction(0))
    return float(total / problem.records) if problem.query.kind is QueryKind.MEAN else float(total)


def _function(problem: Problem, read: Exact) -> list[float]:
    query = problem.query
    assert query.function is not None
    chains = read.states()
    result = query.function(chains)
    values = [float(v) for v in np.atleast_1d(np.asarray(result, dtype=float)).ravel()]
    if len(values) != query.coordinates or not all(math.isfinite(v) for v in values):
        raise QueryError(f"the function must return {query.coordinates} finite number(s); it returned {len(values)}")
    return values


@cache
def _version() -> str:
    return importlib.metadata.version("pufferdp")


def _certify(
    problem: Problem,
    candidate: Candidate,
    facts: dict[str, Any],
    answer: Answer,
    denoised: Denoised | None,
    warnings: list[str],
    receipt: Receipt | None,
) -> Certificate:
    calibration, accuracy = candidate.calibration, candidate.accuracy
    assert calibration is not None
    assert accuracy is not None
    query, bound = problem.query, problem.bound
    return Certificate.seal(
        {
            "schema": SCHEMA,
            "pufferdp": _version(),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "guarantee": {
                "adversary": str(problem.adversary),
                "knows": problem.adversary.knows,
                "epsilon": problem.epsilon,
                "secrets": secrets_text(problem),
                "framework": None if problem.secrets is None else problem.secrets.to_dict(),
                "statement": statement(problem),
            },
            "model": model_to_dict(problem.model),
            "model_sha256": model_digest(problem.model),
            "query": {
                "name": query.name,
                "clip": list(query.clip) if query.clip else None,
                "lipschitz": bound.lipschitz,
                "coordinates": len(bound.labels),
            },
            "mechanism": {"name": calibration.mechanism, "theorem": calibration.theorem},
            "calibration": {
                "sigma": calibration.sigma,
                "quilt": quilt_to_dict(calibration),
                "transport": transport_to_dict(calibration),
            },
            "noise": {"kind": str(calibration.law.kind), "scale": calibration.scale},
            "expected_l1_error": calibration.law.expected_l1_error,
            "accuracy": {"alpha": accuracy.alpha, "beta": accuracy.beta},
            "data": facts,
            "public": public_facts(problem),
            "labels": list(bound.labels),
            "answer": answer,
            "estimate": feasible(bound, problem.records, answer),
            "denoised": None if denoised is None else denoised.to_dict(),
            "warnings": warnings,
            "ledger": None if receipt is None else receipt.to_dict(),
        }
    )
