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
from pufferdp.publish.flows.certificate import FlowCertificate, guarantee, public_facts
from pufferdp.publish.flows.estimate import estimate_chain
from pufferdp.publish.flows.problem import SEED, FlowCalibration, FlowProblem, Repair, Trial, calibrate, privacy_of
from pufferdp.publish.kind import (
    UNPROVABLE,
    Claims,
    Exact,
    Kind,
    Made,
    Near,
    Simulated,
    Stated,
    data_claims,
    model_claims,
    stated_ranges,
)
from pufferdp.publish.pipeline import Reading
from pufferdp.publish.reading import assumption_text
from pufferdp.publish.stated_reading import stated_lengths

_ERRORS: Final = 6.0
"""Another version of numpy may draw other numbers; two simulations then differ by more than this many standard errors
of their difference once in 10^8 times."""
_ROUNDING: Final = 1e-6
"""Of estimates on another machine: eigenvalues and quantiles of the same draws."""


@dataclass(frozen=True, kw_only=True)
class FlowRequest:
    """A flow that is asked for, and by which noise and which repair."""

    problem: FlowProblem
    beta: float = 0.05
    """Accuracy is certified at probability 1−beta."""
    mechanism: str | None = None
    """By name; the best that keeps the guarantee where none is named."""
    kappa: float | None = None
    """Of the repair ``log`` of a mechanism that is named; the best where none is given."""
    part: bool = False
    """Whether the series goes on before and after what was read."""
    ranges: Ranges = EVERYTHING
    """Which records were read."""


class FlowKind(Kind[FlowRequest, FlowCalibration, FlowCertificate]):
    """Transition flows with a guarantee in total variation."""

    schema = FLOW_SCHEMA
    certificate = FlowCertificate
    ledger_kinds = (FLOW,)
    released = "flow"
    cut_where_unobserved = True
    unprovable: ClassVar[Mapping[str, str]] = {
        **UNPROVABLE,
        "flow": "the released numbers; the estimates must follow from them",
        "accuracy.beta": "the probability that was chosen; alpha must follow from it",
        **dict.fromkeys(
            ("accuracy.alpha", "expected_l1_error", "simulation.standard_error"),
            "simulated; it must be within six standard errors of what is simulated again",
        ),
    }
    row_unprovable: ClassVar[Mapping[str, str]] = {
        "ranges": "which records were read",
        "facts.kappa": "of the repair log; the noise of the flow itself does not depend on it",
    }
    row_words: ClassVar[Mapping[str, str]] = {
        "facts.sigma": "a flow had noise of sigma {stated}; recomputed it is {true}",
        **dict.fromkeys(("tau", "longest"), "the facts of a flow do not go with its tau or its length"),
    }

    def problem(self, certificate: FlowCertificate, **more: Any) -> FlowRequest:
        """The orbit, the guarantee and the chains that were read."""
        c = certificate
        model = chain_of(model_from_dict(c.model))
        if model is None:
            raise CertificateError("the model is not one Markov chain; an orbit has one in its centre")
        lengths = stated_lengths(c.data.lengths)
        if (Repair(c.repair.name) is Repair.LOG) != (c.repair.kappa is not None and c.repair.kappa > 0):
            raise CertificateError("repair.kappa must be a number above 0 for the repair log, and null otherwise")
        Reading.stated(c.data).check_stated(model)
        problem = FlowProblem(
            model=model,
            lengths=lengths,
            eta=c.guarantee.eta,
            tau=c.guarantee.tau,
            privacy=privacy_of(c.guarantee.privacy),
            add=c.calibration.sum,
            centre_only=c.guarantee.kernels == "centre",
        )
        rule = "flow" if c.calibration.rule == "ours" else c.calibration.rule
        name = f"{rule}-{c.repair.name}"
        return FlowRequest(
            problem=problem,
            beta=c.accuracy.beta,
            mechanism=name,
            kappa=c.repair.kappa,
            part=c.data.part is True,
            ranges=stated_ranges(c.data),
        )

    def solve(self, problem: FlowRequest, progress: Progress) -> FlowCalibration:
        """The noise and the repair that are named, or the best that keep the guarantee."""
        progress("simulating flows under the model")
        flow_problem = problem.problem
        if problem.mechanism is not None:
            noise, repair = mechanism_named(flow_problem, problem.mechanism)
            return calibrate(flow_problem, noise, repair, problem.beta, problem.kappa)
        candidates = [pair for pair in mechanisms(flow_problem).values() if shortfall(flow_problem, pair[0]) is None]
        tried = [calibrate(flow_problem, noise, repair, problem.beta) for noise, repair in candidates]
        return min(tried, key=lambda calibration: calibration.expected_l1_error)

    def claims(self, problem: FlowRequest, solution: FlowCalibration, made: Made) -> Claims:
        """Every field of the certificate, in its order."""
        flow_problem, ours, noise = problem.problem, solution, solution.noise
        flow, draws = _in_simplex(made.released, flow_problem.model.size), len(flow_problem.trial.noise)
        near = _ERRORS * math.sqrt(2) * ours.standard_error
        short = shortfall(flow_problem, noise)
        stated = guarantee(flow_problem)
        stated["statement"] += assumption_text(made.data)
        rule = Exact(noise.rule) if short is None else Exact("ours", words=f"{ours.mechanism} does not apply: {short}")
        return {
            **self.head_claims(made),
            "guarantee": {name: Exact(value) for name, value in stated.items()},
            "budget": {"kind": Exact(TOTAL_VARIATION), "tau": Exact(flow_problem.tau)},
            **model_claims(flow_problem.model),
            "query": {
                "name": Exact("flow"),
                "transitions": Exact(flow_problem.transitions),
                "coordinates": Exact(flow_problem.model.size**2),
            },
            "mechanism": {"name": Exact(ours.mechanism), "theorem": Exact(ours.theorem)},
            "calibration": {
                "rule": rule,
                "dobrushin": Near(flow_problem.dobrushin),
                "alpha_orbit": Near(noise.alpha_orbit),
                "alpha_record": Near(noise.alpha_record),
                "orbit": Near(noise.orbit),
                "record": Near(noise.record),
                "sum": Exact(flow_problem.add),
                "distance": Near(noise.distance),
                "sigma": Near(noise.sigma),
            },
            "noise": {"kind": Exact(str(ours.distribution.kind)), "scale": Near(ours.distribution.scale)},
            "repair": {"name": Exact(str(ours.repair)), "kappa": Exact(ours.kappa)},
            "expected_l1_error": Simulated(ours.expected_l1_error, rel=0.0, abs=near),
            # A quantile of one number errs no more than about the sum of all does.
            "accuracy": {
                "alpha": Simulated(ours.accuracy.alpha, rel=0.0, abs=near),
                "beta": Exact(ours.accuracy.beta),
            },
            "simulation": {
                "seed": Exact(SEED),
                "draws": Exact(draws),
                # A standard deviation of n numbers errs by about 1/√n of itself.
                "standard_error": Simulated(ours.standard_error, rel=_ERRORS * math.sqrt(2 / draws)),
            },
            "data": data_claims(made.data, flow_problem.model),
            "public": Exact(public_facts(flow_problem)),
            "labels": Exact(list(flow_problem.labels)),
            "flow": Stated(flow.tolist()),
            "estimates": Near(
                estimate_chain(flow, ours.distribution, ours.kappa).to_dict(), rel=_ROUNDING, abs=_ROUNDING
            ),
            "warnings": self.warning_claims(made, flow_problem.model),
            "ledger": self.row_claims(problem, solution, made),
        }

    def vouched(self, certificate: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """The flow, with a row and a column for each label."""
        return {name: certificate[name] for name in ("labels", "flow")}

    def beside(self, certificate: Mapping[str, Any]) -> Claims:
        """The flow, what follows from it, and its noise."""
        repeated = {key: Exact(certificate[key]) for key in ("flow", "labels", "repair", "estimates")}
        simulation = certificate["simulation"]
        trial = self._trial(certificate)
        # Like the error a mean of sums over all cells, of fewer draws where chains are long.
        near = _ERRORS * math.sqrt(2 * simulation["draws"] / trial.drawn) * simulation["standard_error"]
        return {
            **repeated,
            **{key: Exact(certificate["calibration"][key]) for key in ("sigma", "dobrushin")},
            "guess": Exact(None) if trial.guess is None else Near(trial.guess, rel=0.0, abs=near),
        }

    def _trial(self, certificate: Mapping[str, Any]) -> Trial:
        return self.problem(FlowCertificate.model_validate(certificate)).problem.trial

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
        problem = FlowProblem(
            model=chain,
            lengths=tuple((a, b) for a, b in facts["lengths"]),
            eta=guarantee.eta,
            tau=guarantee.tau,
            privacy=privacy_of(guarantee.privacy),
            add=facts["sum"] is True,
            centre_only=guarantee.centre_only,
        )
        noise, repair = mechanism_named(problem, facts["mechanism"])
        if noise.sigma < problem.ours.sigma:
            raise LedgerError(
                f"a flow had noise of sigma {noise.sigma:.10g}; its guarantee needs {problem.ours.sigma:.10g}"
            )
        if (repair is Repair.LOG) != (facts["kappa"] is not None and facts["kappa"] > 0):
            raise LedgerError("a flow has a kappa above 0 for the repair log, and none otherwise")
        request = FlowRequest(problem=problem, part="segment" in facts, ranges=charge.ranges)
        return _charge(request, noise, facts["mechanism"], facts["kappa"])


KIND: Final = FlowKind()


def mechanisms(problem: FlowProblem) -> dict[str, tuple[FlowNoise, Repair]]:
    """Both noises with both repairs, by name."""
    return {
        f"{'flow' if noise.rule == 'ours' else noise.rule}-{repair}": (noise, repair)
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


def _charge(request: FlowRequest, noise: FlowNoise, mechanism: str, kappa: float | None) -> Charge:
    problem = request.problem
    return flow_charge(
        model=model_digest(problem.model),
        guarantee=problem.guarantee,
        add=problem.add,
        mechanism=mechanism,
        kappa=kappa,
        sigma=noise.sigma,
        lengths=problem.lengths,
        part=request.part,
        ranges=request.ranges,
    )


def _in_simplex(flow: Sequence[Sequence[float]], size: int) -> Floats:
    """A released flow; refused where it is no point of the simplex."""
    if len(flow) != size or any(len(row) != size for row in flow):
        raise CertificateError(f"the flow must have {size} rows of {size} shares, one for each pair of states")
    shares = np.array(flow, dtype=float)
    if (shares < 0).any() or abs(float(shares.sum()) - 1) > size * size * 2.0**-50:
        raise CertificateError("the flow is not in the simplex: its shares must be 0 or more and add up to 1")
    return shares
