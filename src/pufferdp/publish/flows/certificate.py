"""The certificate of a private flow: a sibling of the one for answers, with a guarantee in total variation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from pufferdp.bounds.orbits import Privacy
from pufferdp.publish.certificate import (
    AccuracyPart,
    CertificatePart,
    NoisePart,
    SealedCertificate,
)
from pufferdp.publish.fields import Near, Stated
from pufferdp.publish.flows.problem import FlowProblem


class FlowGuarantee(CertificatePart):
    """The guarantee of a flow, in total variation."""

    privacy: Literal["orbit", "record", "joint"] = Field(description="what is protected")
    tau: float = Field(description="largest total variation between the distributions of two releases")
    eta: float = Field(description="radius of the orbit: largest total variation between rows")
    kernels: Literal["orbit", "centre"] = Field(description="which kernels the record guarantee holds for")
    start: str = Field(description="how the distributions start")
    statement: str = Field(description="the guarantee and its assumptions in words")
    not_guaranteed: str = Field(description="what the guarantee does not cover")


class FlowQueryPart(CertificatePart):
    """The flow that was asked for."""

    name: Literal["flow"] = Field(description="the query")
    transitions: int = Field(ge=1, description="n, in all chains together")
    coordinates: int = Field(description="how many shares it returns")


class FlowCalibrationPart(CertificatePart):
    """The constants the noise rests on."""

    rule: Literal["ours", "poster"] = Field(description="which sensitivity was used")
    dobrushin: Annotated[float, Near()] = Field(description="alpha(K0)")
    alpha_orbit: Annotated[float, Near()] = Field(description="the coefficient for a change of the chain")
    alpha_record: Annotated[float, Near()] = Field(description="the coefficient for a change of a record")
    orbit: Annotated[float, Near()] = Field(description="b_orb: how far the flow moves, on average, with the kernel")
    record: Annotated[float, Near()] = Field(description="b_rec: how far it moves with one transition")
    sum: bool = Field(description="whether both are added; the larger is enough")
    distance: Annotated[float, Near()] = Field(description="how far the flow moves in all")
    sigma: Annotated[float, Near()] = Field(description="standard deviation of the noise for the flow itself")


class RepairPart(CertificatePart):
    """How the noisy numbers became a point of the simplex."""

    name: Literal["simplex", "log"] = Field(description="how the shares were made to add up to 1")
    kappa: float | None = Field(description="for log: noise of sigma/kappa on log(flow+kappa)")


ERRORS: Final = 6.0
"""Another version of numpy may draw other numbers; two simulations then differ by more than this many standard errors
of their difference once in 10^8 times."""
_WHY: Final = "simulated; it must be within six standard errors of what is simulated again"


def _error_of(content: Mapping[str, Any]) -> float:
    """How far two simulations of a mean may differ."""
    return ERRORS * math.sqrt(2) * float(content["simulation"]["standard_error"])


_SIMULATED: Final = Near(_WHY, rel=0.0, abs=_error_of)


def _error_of_errors(content: Mapping[str, Any]) -> float:
    """How far two standard errors may differ: a standard deviation of n numbers errs by about 1/√n of itself."""
    return _error_of(content) / math.sqrt(content["simulation"]["draws"])


class SimulationPart(CertificatePart):
    """Where the errors come from: flows drawn from the model. No data was looked at."""

    seed: int = Field(description="of the simulation, not of the noise")
    draws: int = Field(description="how many flows were drawn")
    standard_error: Annotated[float, Near(_WHY, rel=0.0, abs=_error_of_errors)]


class SimulatedAccuracyPart(AccuracyPart):
    """With probability 1−beta every coordinate errs by less than alpha, by simulation."""

    # A quantile of one number errs no more than about the sum of all does.
    alpha: Annotated[float, _SIMULATED]


class BudgetPart(CertificatePart):
    """What a ledger writes down."""

    kind: Literal["total-variation"] = Field(description="the unit of the budget")
    tau: float = Field(description="what the flow spends")


class FlowCertificate(SealedCertificate):
    """Everything needed to check a private flow later, without the data."""

    schema_: Literal["pufferdp-flow-certificate/2"] = Field(alias="schema")
    guarantee: FlowGuarantee
    budget: BudgetPart
    query: FlowQueryPart
    calibration: FlowCalibrationPart
    noise: NoisePart
    repair: RepairPart
    expected_l1_error: Annotated[float, _SIMULATED] = Field(
        description="of the released flow under the model, simulated"
    )
    accuracy: SimulatedAccuracyPart
    simulation: SimulationPart
    labels: list[str] = Field(description="the states, in the order of the flow")
    flow: Annotated[list[list[float]], Stated("the released numbers; the estimates must follow from them")]
    estimates: Annotated[dict[str, Any], Near(rel=1e-6, abs=1e-6)] = Field(
        description="what the flow says of the chain, with ranges for the noise"
    )
    """On another machine eigenvalues and quantiles of the same draws differ by rounding."""


def guarantee(problem: FlowProblem) -> dict[str, Any]:
    """The guarantee, in numbers and in words."""
    own = isinstance(problem.model.start, str) and problem.model.start == "stationary"
    kernels = "centre" if problem.centre_only else "orbit"
    eta, tau = f"{problem.eta:g}", f"{problem.tau:g}"
    parts = []
    if problem.privacy is not Privacy.RECORD:
        parts.append(
            f"For every chain with rows within a total variation of {eta} of the model's, the distribution of this "
            f"release differs from that under the model by a total variation of at most {tau}."
        )
    if problem.privacy is not Privacy.ORBIT:
        made = "the model" if problem.centre_only else f"any chain with rows within {eta} of the model's"
        parts.append(
            f"For data made by {made}: for two values of any one record given the record before it, the distributions "
            f"of this release differ by a total variation of at most {tau}."
        )
    parts.append(
        f"An adversary who guesses between the two distributions is right with probability at most {_success(problem)}."
    )
    return {
        "privacy": str(problem.privacy),
        "tau": problem.tau,
        "eta": problem.eta,
        "kernels": kernels,
        "start": "each distribution starts in its own stationary distribution"
        if own
        else "both distributions start alike",
        "statement": " ".join(parts),
        "not_guaranteed": NOT_GUARANTEED[problem.privacy],
    }


_LATER: Final = "nothing is guaranteed against an adversary who knows records after the target"
NOT_GUARANTEED: Final = {
    Privacy.ORBIT: "nothing is guaranteed about single records, nor about chains outside the orbit",
    Privacy.RECORD: f"nothing is guaranteed about the chain itself, whose transition matrix may be learnt; {_LATER}",
    Privacy.JOINT: (
        "each guarantee holds on its own; none covers a change of both the chain and a record, because conditioning on "
        f"a record changes the distribution of earlier records, so the two distances need not add up; {_LATER}"
    ),
}


def public_facts(problem: FlowProblem) -> list[str]:
    """What a release of a flow takes to be known to everyone."""
    return [
        f"how many records there are ({problem.records}), how they fall into chains, and so how many transitions "
        f"({problem.transitions})",
        "where gaps and missing values lie",
        "the model, the radius of the orbit and every number in this certificate but the records",
    ]


def _success(problem: FlowProblem) -> str:
    return f"(1+{problem.tau:g})/2 = {(1 + problem.tau) / 2:.4g}"
