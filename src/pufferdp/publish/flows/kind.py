"""A private flow as a kind of publication: its noise must follow from the orbit and the guarantee."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import CertificateError, LedgerError, ParameterError, PufferdpError
from pufferdp.basics.progress import Progress
from pufferdp.bounds.orbits import FlowNoise
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.ledger.charge import FLOW, Charge
from pufferdp.ledger.flow_budget import TOTAL_VARIATION, FlowBudget, flow_charge
from pufferdp.models.base import Model
from pufferdp.models.chain import chain_of
from pufferdp.models.files.json import model_digest, model_from_dict
from pufferdp.publish.certificate import FLOW_SCHEMA
from pufferdp.publish.flows.certificate import ERRORS, FlowCertificate, guarantee, public_facts
from pufferdp.publish.flows.estimate import estimate_chain
from pufferdp.publish.flows.problem import (
    SEED,
    FlowCalibration,
    FlowProblem,
    Repair,
    Trial,
    calibrate,
    constants,
    mechanism_name,
    privacy_of,
)
from pufferdp.publish.kind import Kind, Made, stated_ranges
from pufferdp.publish.reading import assumption_text
from pufferdp.publish.stated_reading import stated_lengths


@dataclass(frozen=True, kw_only=True)
class FlowRequest(FlowProblem):
    """A flow that is asked for, and by which noise and which repair."""

    beta: float = 0.05
    """Accuracy is certified at probability 1−beta."""
    mechanism: str | None = None
    """By name; the best that keeps the guarantee where none is named."""
    kappa: float | None = None
    """Of the repair ``log`` of a mechanism that is named; the best where none is given."""
    part: bool = False
    """Whether the series goes on before and after what was read."""
    ranges: Ranges = EVERYTHING
    """Which records were read, by time and by person."""


class FlowKind(Kind[FlowRequest, FlowCalibration, FlowCertificate]):
    """Transition flows with a guarantee in total variation."""

    schema = FLOW_SCHEMA
    certificate = FlowCertificate
    ledger_kinds = (FLOW,)
    released = "flow"
    cut_where_unobserved = True
    row_unprovable: ClassVar[Mapping[str, str]] = {
        "ranges": "which records were read",
        "facts.kappa": "of the repair log; the noise of the flow itself does not depend on it",
    }

    def problem(self, certificate: FlowCertificate, **more: Any) -> FlowRequest:
        """The orbit, the guarantee and the chains that were read."""
        c = certificate
        model = chain_of(model_from_dict(c.model))
        if model is None:
            raise CertificateError("the model is not one Markov chain; an orbit has one in its centre")
        if (Repair(c.repair.name) is Repair.LOG) != (c.repair.kappa is not None and c.repair.kappa > 0):
            raise CertificateError("repair.kappa must be a number above 0 for the repair log, and null otherwise")
        return FlowRequest(
            model=model,
            lengths=stated_lengths(c.data.lengths),
            eta=c.guarantee.eta,
            tau=c.guarantee.tau,
            privacy=privacy_of(c.guarantee.privacy),
            add=c.calibration.sum,
            centre_only=c.guarantee.kernels == "centre",
            beta=c.accuracy.beta,
            mechanism=mechanism_name(c.calibration.rule, c.repair.name),
            kappa=c.repair.kappa,
            part=c.data.part is True,
            ranges=stated_ranges(c.data),
        )

    def solve(self, problem: FlowRequest, progress: Progress) -> FlowCalibration:
        """The noise and the repair that are named, or the best that keep the guarantee."""
        progress("simulating flows under the model")
        if problem.mechanism is not None:
            noise, repair = mechanism_named(problem, problem.mechanism)
            return calibrate(problem, noise, repair, problem.beta, problem.kappa)
        candidates = [pair for pair in mechanisms(problem).values() if shortfall(problem, pair[0]) is None]
        tried = [calibrate(problem, noise, repair, problem.beta) for noise, repair in candidates]
        return min(tried, key=lambda calibration: calibration.expected_l1_error)

    def content(self, problem: FlowRequest, solution: FlowCalibration, made: Made) -> dict[str, Any]:
        """The content of the certificate, made from the noise and the flow; refused where the noise is too small."""
        ours, noise = solution, solution.noise
        flow = _in_simplex(made.released, problem.model.size)
        short = shortfall(problem, noise)
        if short is not None:
            raise CertificateError(f"{ours.mechanism} does not apply: {short}")
        stated = guarantee(problem)
        stated["statement"] += assumption_text(made.data)
        return {
            **self.common(problem, solution, made, problem.model),
            "guarantee": stated,
            "budget": {"kind": TOTAL_VARIATION, "tau": problem.tau},
            "query": {
                "name": "flow",
                "transitions": problem.transitions,
                "coordinates": problem.model.size**2,
            },
            "mechanism": {"name": ours.mechanism, "theorem": ours.theorem},
            "calibration": {
                "rule": noise.rule,
                "dobrushin": problem.dobrushin,
                "sum": problem.add,
                **constants(noise),
            },
            "noise": {"kind": str(ours.distribution.kind), "scale": ours.distribution.scale},
            "repair": {"name": str(ours.repair), "kappa": ours.kappa},
            "expected_l1_error": ours.expected_l1_error,
            "accuracy": {"alpha": ours.accuracy.alpha, "beta": ours.accuracy.beta},
            "simulation": {
                "seed": SEED,
                "draws": len(problem.trial.noise),
                "standard_error": ours.standard_error,
            },
            "public": public_facts(problem),
            "labels": list(problem.labels),
            "flow": flow.tolist(),
            "estimates": estimate_chain(flow, ours.distribution, ours.kappa).to_dict(),
        }

    def beside(self, certificate: Mapping[str, Any], output: Mapping[str, Any]) -> dict[str, Any]:
        """The flow, what follows from it, and its noise; the guess that is stated where another simulation gives it."""
        simulation, trial = certificate["simulation"], self._trial(certificate)
        # Like the error a mean of sums over all cells, of fewer draws where chains are long.
        near = ERRORS * math.sqrt(2 * simulation["draws"] / trial.drawn) * simulation["standard_error"]
        guess, stated = trial.guess, output.get("guess")
        if guess is not None and isinstance(stated, (int, float)) and abs(stated - guess) <= near:
            guess = stated
        return {
            **{key: certificate[key] for key in ("flow", "labels", "repair", "estimates")},
            **{key: certificate["calibration"][key] for key in ("sigma", "dobrushin")},
            "guess": guess,
        }

    def _trial(self, certificate: Mapping[str, Any]) -> Trial:
        return self.problem(FlowCertificate.model_validate(certificate)).trial

    def guess(self, certificate: Mapping[str, Any]) -> float | None:
        """The error of the model's own flow in all shares together; None where it is not simulated."""
        try:
            return self._trial(certificate).guess
        except (PufferdpError, ValueError):  # the certificate does not hold
            return None

    def as_stated(self, solution: FlowCalibration, stated: Mapping[str, Any]) -> FlowCalibration:
        """With the sigma of the certificate."""
        return replace(solution, noise=replace(solution.noise, sigma=stated["calibration"]["sigma"]))

    def charge(self, problem: FlowRequest, solution: FlowCalibration) -> Charge:
        """Its tau, with what the guarantee is about."""
        return _charge(problem, solution.noise, solution.mechanism, solution.kappa)

    def recompute(self, charge: Charge, model: Model | None) -> Charge | None:
        """From the guarantee and the chains that the facts hold."""
        facts, guarantee = charge.facts, FlowBudget.of(charge.facts.get("guarantee"))
        chain = None if model is None else chain_of(model)
        if guarantee is None or chain is None:
            raise LedgerError("a flow was charged without its guarantee, or under a model that is no Markov chain")
        problem = FlowRequest(
            model=chain,
            lengths=tuple((a, b) for a, b in facts["lengths"]),
            eta=guarantee.eta,
            tau=guarantee.tau,
            privacy=privacy_of(guarantee.privacy),
            add=facts["sum"] is True,
            centre_only=guarantee.centre_only,
            part="segment" in facts,
            ranges=charge.ranges,
        )
        noise, repair = mechanism_named(problem, facts["mechanism"])
        if noise.sigma < problem.ours.sigma:
            raise LedgerError(
                f"a flow had noise of sigma {noise.sigma:.10g}; its guarantee needs {problem.ours.sigma:.10g}"
            )
        if (repair is Repair.LOG) != (facts["kappa"] is not None and facts["kappa"] > 0):
            raise LedgerError("a flow has a kappa above 0 for the repair log, and none otherwise")
        return _charge(problem, noise, facts["mechanism"], facts["kappa"])


KIND: Final = FlowKind()


def mechanisms(problem: FlowProblem) -> dict[str, tuple[FlowNoise, Repair]]:
    """Both noises with both repairs, by name."""
    return {
        mechanism_name(noise.rule, repair): (noise, repair)
        for noise in (problem.ours, problem.poster)
        for repair in Repair
    }


def mechanism_named(problem: FlowProblem, name: str) -> tuple[FlowNoise, Repair]:
    """A noise and a repair by their name."""
    known = mechanisms(problem)
    if name not in known:
        raise ParameterError(f"mechanism is {name!r}; it must be one of {', '.join(sorted(known))}", value=name)
    return known[name]


def shortfall(problem: FlowProblem, noise: FlowNoise) -> str | None:
    """Why a noise does not keep the guarantee: it is below what our proof needs."""
    if noise.sigma >= problem.ours.sigma:
        return None
    return (
        f"its noise of {noise.sigma:.4g} is below the {problem.ours.sigma:.4g} that the guarantee needs: it takes the "
        "Dobrushin coefficient of two kernels only, and the record guarantee is for every kernel of the orbit"
    )


def _charge(problem: FlowRequest, noise: FlowNoise, mechanism: str, kappa: float | None) -> Charge:
    return flow_charge(
        model=model_digest(problem.model),
        guarantee=problem.guarantee,
        add=problem.add,
        mechanism=mechanism,
        kappa=kappa,
        sigma=noise.sigma,
        lengths=problem.lengths,
        part=problem.part,
        ranges=problem.ranges,
    )


def _in_simplex(flow: Sequence[Sequence[float]], size: int) -> Floats:
    """A released flow; refused where it is no point of the simplex."""
    if len(flow) != size or any(len(row) != size for row in flow):
        raise CertificateError(f"the flow must have {size} rows of {size} shares, one for each pair of states")
    shares = np.array(flow, dtype=float)
    if (shares < 0).any() or abs(float(shares.sum()) - 1) > size * size * 2.0**-50:
        raise CertificateError("the flow is not in the simplex: its shares must be 0 or more and add up to 1")
    return shares
