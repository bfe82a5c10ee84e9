"""The certificate of a private flow, recomputed: the same noise must follow from what it says."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from pufferdp.basics.errors import PufferdpError
from pufferdp.basics.files import canonical_json
from pufferdp.models.chain import MarkovChain
from pufferdp.models.files.json import model_digest, model_from_dict, plain_errors
from pufferdp.publish.certificate import content_hash, row_problems
from pufferdp.publish.flows.calibrate import SEED, FlowProblem, Repair, calibrate, privacy_of
from pufferdp.publish.flows.certificate import FlowCertificate, calibration_part, charge_of, guarantee, public_facts
from pufferdp.publish.flows.estimate import estimate_chain
from pufferdp.publish.flows.flow import shortfall
from pufferdp.publish.reading import check_reading
from pufferdp.publish.verify import names_a_file

_ERRORS: Final = 6.0
"""Another version of numpy may draw other numbers; two simulations then differ by more than this many standard errors
of their difference once in 10^8 times."""
_ROUNDING: Final = 1e-6
"""Of estimates on another machine: eigenvalues and quantiles of the same draws."""


def flow_problems(raw: dict[str, Any], head: str | None = None) -> tuple[list[str], list[str]]:
    """What is wrong with a certificate, nothing when it holds; and its warnings."""
    try:
        parsed = FlowCertificate.model_validate(raw)
    except ValidationError as error:
        return plain_errors(error)[:5], []
    try:
        canonical_json(raw)
    except ValueError:
        return ["a number is infinite or nan; every number of a certificate must be finite"], []
    if any(len(pair) != 2 for pair in parsed.data.lengths):
        return ["data.lengths must be pairs: a chain length and how many chains have it"], []
    problems = []
    if content_hash(raw) != parsed.sha256:
        problems.append("the hash does not match: the certificate was changed after it was made")
    try:
        problems += _recompute(parsed, head)
    except (PufferdpError, ValueError) as error:
        problems.append(str(error))
    return problems, parsed.warnings


def _recompute(c: FlowCertificate, head: str | None) -> Iterator[str]:
    if names_a_file(c.model):
        yield "the model names a file; a certificate holds its model by value"
        return
    model = model_from_dict(c.model)
    if not isinstance(model, MarkovChain):
        yield "the model is not one Markov chain; an orbit has one in its centre"
        return
    if model_digest(model) != c.model_sha256:
        yield "model_sha256 is not the digest of the model"
    problem = FlowProblem(
        model=model,
        lengths=tuple((a, b) for a, b in c.data.lengths),
        eta=c.guarantee.eta,
        tau=c.guarantee.tau,
        privacy=privacy_of(c.guarantee.privacy),
        add=c.calibration.sum,
        centre_only=c.guarantee.kernels == "centre",
    )
    if (c.repair.name == "log") != (c.repair.kappa is not None and c.repair.kappa > 0):
        yield "repair.kappa must be a number above 0 for the repair log, and null otherwise"
        return
    noise = problem.ours if c.calibration.rule == "ours" else problem.poster
    short = shortfall(problem, noise)
    if short is not None:
        yield f"{c.mechanism.name} does not apply: {short}"
    ours = calibrate(problem, noise, Repair(c.repair.name), c.accuracy.beta, c.repair.kappa)
    constants = calibration_part(problem, ours)
    numbers = {f"calibration.{k}": (getattr(c.calibration, k), v) for k, v in constants.items() if k not in _WORDS}
    numbers["noise.scale"] = (c.noise.scale, ours.law.scale)
    numbers["budget.tau"] = (c.budget.tau, problem.tau)
    for name, (stated, true) in numbers.items():
        if not math.isclose(stated, true, rel_tol=1e-9):
            yield f"{name} is {stated:.10g}; recomputed it is {true:.10g}"
    near = _ERRORS * math.sqrt(2) * ours.standard_error
    if abs(c.expected_l1_error - ours.expected_l1_error) > near:
        yield f"expected_l1_error is {c.expected_l1_error:.6g}; simulated again it is {ours.expected_l1_error:.6g}"
    # A quantile of one number errs no more than about the sum of all does.
    if abs(c.accuracy.alpha - ours.accuracy.alpha) > near:
        yield f"accuracy.alpha is {c.accuracy.alpha:.6g}; simulated again it is {ours.accuracy.alpha:.6g}"
    for text_name, said, recomputed in (
        ("guarantee", c.guarantee.model_dump(), guarantee(problem)),
        ("mechanism.name", c.mechanism.name, ours.mechanism),
        ("mechanism.theorem", c.mechanism.theorem, ours.theorem),
        ("noise.kind", c.noise.kind, str(ours.law.kind)),
        ("query.transitions", c.query.transitions, problem.transitions),
        ("query.coordinates", c.query.coordinates, model.size**2),
        ("simulation.seed", c.simulation.seed, SEED),
        ("simulation.draws", c.simulation.draws, len(problem.trial.noise)),
        ("public", c.public, public_facts(problem)),
        ("labels", c.labels, list(problem.labels)),
        ("data.records", c.data.records, problem.records),
    ):
        if said != recomputed:
            yield f"{text_name} is {said!r}; it should be {recomputed!r}"
    yield from row_problems(c.ledger, charge_of(problem, ours), head)
    yield from _reading_problems(c, model)
    yield from _flow_problems(c, model.size, ours.law, c.repair.kappa)


_WORDS: Final = ("rule", "sum")


def _reading_problems(c: FlowCertificate, model: MarkovChain) -> Iterator[str]:
    data = c.data
    try:
        check_reading(model, {"order": data.order, "by": data.by, "gap": data.gap}, data.missing, data.id)
    except PufferdpError as error:
        yield f"the data cannot have been read like this: {error}"


def _flow_problems(c: FlowCertificate, k: int, law: Any, kappa: float | None) -> Iterator[str]:
    """The flow is a point of the simplex, and the estimates follow from it."""
    if len(c.flow) != k or any(len(row) != k for row in c.flow):
        yield f"the flow must have {k} rows of {k} shares, one for each pair of states"
        return
    flow = np.array(c.flow)
    if (flow < 0).any() or abs(float(flow.sum()) - 1) > k * k * 2.0**-50:
        yield "the flow is not in the simplex: its shares must be 0 or more and add up to 1"
        return
    if not _same(c.estimates, estimate_chain(flow, law, kappa).to_dict()):
        yield "the estimates do not follow from the flow"


def _same(stated: Any, ours: Any) -> bool:
    if isinstance(ours, dict):
        return (
            isinstance(stated, dict) and stated.keys() == ours.keys() and all(_same(stated[k], ours[k]) for k in ours)
        )
    if isinstance(ours, list):
        return isinstance(stated, list) and len(stated) == len(ours) and all(map(_same, stated, ours))
    if ours is None or stated is None:
        return ours is stated
    return isinstance(stated, (int, float)) and math.isclose(stated, ours, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
