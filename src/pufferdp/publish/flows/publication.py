"""A private transition flow: exact transitions + calibration + noise → a flow and its certificate.

The exact flow never leaves this module.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import NotApplicableError
from pufferdp.basics.paged import Paged
from pufferdp.models.files.json import ModelLike
from pufferdp.publish.flows.certificate import FlowCertificate
from pufferdp.publish.flows.estimate import FlowEstimates, estimate_chain
from pufferdp.publish.flows.kind import KIND, FlowRequest, shortfall
from pufferdp.publish.flows.plan import centre_chain
from pufferdp.publish.flows.problem import FlowCalibration, FlowProblem, privacy_of, repaired
from pufferdp.publish.noise import Sampler, draw
from pufferdp.publish.pipeline import Charged, Publication
from pufferdp.publish.reading import ExactFlow, Reading, read_flow
from pufferdp.publish.series import ReleaseOptions, as_asked

if TYPE_CHECKING:
    from pufferdp.ledger.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class FlowRelease(Paged):
    """A private flow with its certificate."""

    flow: Floats
    """Shares of transitions, row: from, column: to. Never below 0, and 1 in all."""
    estimates: FlowEstimates
    """What it says of the chain; follows from ``flow`` and what is public."""
    certificate: FlowCertificate
    guess: float | None
    """Expected L1 error of the model's own flow, published without looking at the data; None where nobody knows."""

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp flow --json`` prints."""
        c = self.certificate
        return {
            "sigma": c.calibration.sigma,
            "dobrushin": c.calibration.dobrushin,
            "flow": self.flow.tolist(),
            "labels": c.labels,
            "repair": c.repair.model_dump(),
            "estimates": self.estimates.to_dict(),
            "guess": self.guess,
            "certificate": c.to_dict(),
        }


def flow(
    data: object,
    *,
    model: ModelLike,
    eta: float,
    tau: float,
    privacy: str = "joint",
    add: bool = False,
    centre_only: bool = False,
    mechanism: str | None = None,
    beta: float = 0.05,
    **options: Unpack[ReleaseOptions],
) -> FlowRelease:
    """Release the transition flow of one or several chains.

    Args:
        data: a CSV or Parquet file, or a frame, as for a release.
        model: the chain in the centre of the orbit.
        eta: radius of the orbit: the largest total variation between rows.
        tau: the guarantee, a total variation between the distributions of two releases.
        privacy: ``orbit``, ``record`` or ``joint``.
        add: noise for the sum of both parts of joint, as in the poster.
        centre_only: the record guarantee for data made by the centre alone.
        mechanism: a candidate of the plan by name; the best by default.
        beta: accuracy is certified at probability 1−beta.
        options: how the data are read, as for ``Series``; ``sampler``, ``ledger``, ``dataset``, ``accept_misfit`` and
            ``progress``, as for ``release``.
    """
    series, run = as_asked(data, options)
    prior = series.model(model)
    asked = FlowRequest(
        model=centre_chain(prior),
        lengths=((2, 1),),
        eta=eta,
        tau=tau,
        privacy=privacy_of(privacy),
        add=add,
        centre_only=centre_only,
        mechanism=mechanism,
        beta=checks.probability(beta, "beta"),
    )
    return FlowPublication(data=series.data, reading=series.reading(prior), asked=asked, **run).publish()


@dataclass(frozen=True, kw_only=True)
class FlowPublication(Publication[FlowRequest, FlowCalibration, ExactFlow, FlowRelease]):
    """A flow that is about to be released."""

    reading: Reading
    asked: FlowRequest
    """What is asked, of chains that nobody has read yet."""

    kind = KIND

    def check(self) -> None:
        """Refuse a way of reading that does not go with the model."""
        self.reading.check(self.asked.model)

    def expect(self, ledger: Ledger, dataset: str) -> None:
        """The data set must keep a budget for this very guarantee."""
        ledger.expect_flow(dataset, model=self.asked.model, guarantee=self.asked.guarantee)

    def read(self) -> ExactFlow:
        """The exact transitions of all chains."""
        self.progress("reading")
        return read_flow(self.data, self.asked.model, self.reading, self.asked.centre_only)

    def problem(self, exact: ExactFlow) -> FlowRequest:
        """For the chains that were read."""
        return replace(self.asked, lengths=exact.lengths, part=self.reading.is_part, ranges=exact.ranges)

    def solve(self, problem: FlowRequest, exact: ExactFlow) -> FlowCalibration:
        """The noise; one that is named must keep the guarantee."""
        solution = super().solve(problem, exact)
        short = shortfall(problem, solution.noise)
        if short is not None:
            name = problem.mechanism
            raise NotApplicableError(f"{name} does not apply: {short}; leave mechanism= out", value=name)
        return solution

    def draw(self, problem: FlowRequest, solution: FlowCalibration, exact: ExactFlow, charged: Charged) -> FlowRelease:
        """The noisy flow with its certificate."""
        self.announce("drawing noise")
        released = _noisy(problem, solution, exact.transitions, self.sampler)
        flow = released.tolist()
        with charged.certifying(flow, lambda: f"the noisy flow is {flow}"):
            made = self.made(exact.facts, charged, flow)
            certificate = self.kind.certify(problem, solution, made)
            estimates = estimate_chain(released, solution.distribution, solution.kappa)
            guess = problem.trial.guess
            return FlowRelease(flow=released, estimates=estimates, certificate=certificate, guess=guess)


def _noisy(
    problem: FlowProblem, calibration: FlowCalibration, transitions: npt.NDArray[np.int64], sampler: Sampler
) -> Floats:
    counts, kappa = transitions.ravel(), calibration.kappa
    if kappa is None:
        noisy = np.asarray(draw(calibration.distribution, [int(c) for c in counts], sampler)) / problem.transitions
    else:
        scores = np.log(counts / problem.transitions + kappa)
        noisy = np.asarray(draw(calibration.distribution, [float(s) for s in scores], sampler))
    return repaired(noisy, kappa).reshape(transitions.shape)
