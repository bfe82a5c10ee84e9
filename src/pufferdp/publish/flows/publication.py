"""A private transition flow: exact transitions + calibration + noise → a flow and its certificate.

The exact flow never leaves this module.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import NotApplicableError
from pufferdp.basics.paged import Paged
from pufferdp.basics.progress import Progress, silent
from pufferdp.bounds.orbits import Privacy
from pufferdp.data.layout import Place
from pufferdp.models.base import Lengths
from pufferdp.models.bins import Bins
from pufferdp.models.chain import MarkovChain
from pufferdp.models.files.json import ModelLike
from pufferdp.publish.flows.certificate import FlowCertificate
from pufferdp.publish.flows.estimate import FlowEstimates, estimate_chain
from pufferdp.publish.flows.kind import KIND, FlowRequest, shortfall
from pufferdp.publish.flows.plan import centre_chain
from pufferdp.publish.flows.problem import FlowCalibration, FlowProblem, privacy_of, repaired
from pufferdp.publish.noise import Sampler, SystemSampler, draw
from pufferdp.publish.pipeline import Account, Charged, Publication, Reading
from pufferdp.publish.reading import ExactFlow, read_flow
from pufferdp.publish.series import Series

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
    column: str | None = None,
    eta: float,
    tau: float,
    privacy: str = "joint",
    order: str | None = None,
    by: str | None = None,
    restart: str | float | timedelta | None = None,
    missing: str = "refuse",
    independent: bool = False,
    first: Place | None = None,
    last: Place | None = None,
    bins: Bins | None = None,
    add: bool = False,
    centre_only: bool = False,
    mechanism: str | None = None,
    beta: float = 0.05,
    sampler: Sampler | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    progress: Progress | None = None,
) -> FlowRelease:
    """Release the transition flow of one or several chains.

    Args:
        data: a CSV or Parquet file, or a frame, as for a release.
        model: the chain in the centre of the orbit.
        column: the column with states or numbers.
        eta: radius of the orbit: the largest total variation between rows.
        tau: the guarantee, a total variation between the distributions of two releases.
        privacy: ``orbit``, ``record`` or ``joint``.
        order: the column to sort by, or ``"rows"``, as in ``Series``.
        by: the column that tells people apart: one independent chain each.
        restart: what follows a longer gap in ``order`` is assumed to be independent of what went before: ``"8h"`` or a
            number in its unit. Without it the chain goes on past every gap.
        missing: ``"refuse"``, or ``"keep"``: a missing value is an unobserved time step.
        independent: that the values of ``by`` are independent, although they do not look like people.
        first: read only the records from this place of ``order`` on, itself included: a number, a date or a time.
        last: read only those up to this place, itself included; a date is the whole day. The noise is the
            same: both bounds hold for a chain that goes on unseen before and after (docs/theory/flow.md).
        bins: edges that turn numbers into states, where the model has none.
        add: noise for the sum of both parts of joint, as in the poster.
        centre_only: the record guarantee for data made by the centre alone.
        mechanism: a candidate of the plan by name; the best by default.
        beta: accuracy is certified at probability 1−beta.
        sampler: where noise comes from; the operating system by default.
        ledger: where the flow is charged before its noise is drawn: a Ledger, its file or its URL.
        dataset: which data set of the ledger; one with a budget in total variation.
        progress: called with a few words before each step.
    """
    series = Series.of(
        data,
        column=column,
        order=order,
        by=by,
        restart=restart,
        missing=missing,
        independent=independent,
        first=first,
        last=last,
        bins=bins,
    )
    prior = series.model(model)
    return FlowPublication(
        data=series.data,
        model=centre_chain(prior),
        reading=series.reading(prior),
        eta=eta,
        tau=tau,
        privacy=privacy_of(privacy),
        add=add,
        centre_only=centre_only,
        mechanism=mechanism,
        beta=beta,
        account=Account(ledger, dataset),
        sampler=sampler or SystemSampler(),
        progress=progress or silent,
    ).publish()


@dataclass(frozen=True, kw_only=True)
class FlowPublication(Publication[FlowRequest, FlowCalibration, ExactFlow, FlowRelease]):
    """A flow on its way out."""

    model: MarkovChain
    reading: Reading
    eta: float
    tau: float
    privacy: Privacy
    add: bool
    centre_only: bool
    mechanism: str | None
    beta: float

    kind = KIND

    def check(self) -> None:
        """Refuse a guarantee or a way of reading that does not go with the model."""
        self._problem_for(((2, 1),))
        checks.probability(self.beta, "beta")
        self.reading.check(self.model)

    def expect(self, ledger: Ledger, dataset: str) -> None:
        """The data set must keep a budget for this very guarantee."""
        ledger.expect_flow(dataset, model=self.model, guarantee=self._problem_for(((2, 1),)).guarantee)

    def read(self) -> ExactFlow:
        """The exact transitions."""
        self.progress("reading")
        return read_flow(self.data, self.model, self.reading.layout, self.centre_only)

    def problem(self, exact: ExactFlow) -> FlowRequest:
        """For the chains that were read."""
        problem = self._problem_for(exact.lengths)
        return FlowRequest(
            problem=problem,
            beta=self.beta,
            mechanism=self.mechanism,
            part=self.reading.is_part,
            ranges=exact.ranges,
        )

    def _problem_for(self, lengths: Lengths) -> FlowProblem:
        return FlowProblem(
            model=self.model,
            lengths=lengths,
            eta=self.eta,
            tau=self.tau,
            privacy=self.privacy,
            add=self.add,
            centre_only=self.centre_only,
        )

    def solve(self, problem: FlowRequest, exact: ExactFlow) -> FlowCalibration:
        """The noise; one that is named must keep the guarantee."""
        solution = super().solve(problem, exact)
        short = shortfall(problem.problem, solution.noise)
        if short is not None:
            name = self.mechanism
            raise NotApplicableError(f"{name} does not apply: {short}; leave mechanism= out", value=name)
        return solution

    def draw(self, problem: FlowRequest, solution: FlowCalibration, exact: ExactFlow, charged: Charged) -> FlowRelease:
        """The noisy flow with its certificate."""
        self.announce("drawing noise")
        flow_problem = problem.problem
        released = _noisy(flow_problem, solution, exact.transitions, self.sampler)
        flow = released.tolist()
        with charged.certifying(flow, lambda: f"the noisy flow is {flow}"):
            made = self.made(exact.facts, charged, flow)
            certificate = self.kind.certify(problem, solution, made)
            estimates = estimate_chain(released, solution.distribution, solution.kappa)
            guess = flow_problem.trial.guess
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
