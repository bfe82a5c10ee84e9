"""Before a flow is released: both noises and both repairs on the same problem, ranked by error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pufferdp.basics import checks
from pufferdp.basics.errors import ModelError
from pufferdp.basics.progress import Progress, silent
from pufferdp.models.base import Lengths, Model
from pufferdp.models.chain import MarkovChain, chain_of
from pufferdp.models.files.json import ModelLike, as_model
from pufferdp.publish.answers.plan import Ranking, count_lengths
from pufferdp.publish.flows.kind import mechanisms, shortfall
from pufferdp.publish.flows.problem import FlowCalibration, FlowProblem, calibrate, constants, privacy_of
from pufferdp.publish.verdict import Verdict, flow_verdict


@dataclass(frozen=True, kw_only=True)
class FlowCandidate:
    """One noise and one repair on the problem."""

    calibration: FlowCalibration
    reason: str | None
    """Why it does not keep the guarantee; None where it does."""

    @property
    def mechanism(self) -> str:
        """``flow-…`` for ours, ``poster-…`` for the poster's noise; then the repair."""
        return self.calibration.mechanism

    @property
    def applies(self) -> bool:
        """Whether the guarantee holds."""
        return self.reason is None

    def to_dict(self) -> dict[str, Any]:
        """The keys of the command line's JSON."""
        c = self.calibration
        return {
            "mechanism": self.mechanism,
            "applies": self.applies,
            "reason": self.reason,
            "scale": c.distribution.scale,
            "sigma": c.noise.sigma,
            "lipschitz": c.lipschitz,
            "noise": str(c.distribution.kind),
            "repair": str(c.repair),
            "kappa": c.kappa,
            "expected_l1_error": c.expected_l1_error,
            "standard_error": c.standard_error,
            "accuracy": {"alpha": c.accuracy.alpha, "beta": c.accuracy.beta},
        }


@dataclass(frozen=True, kw_only=True)
class FlowPlan(Ranking[FlowCandidate]):
    """Both noises and both repairs on one problem, the best first. Prints as a table."""

    problem: FlowProblem
    beta: float

    @property
    def verdict(self) -> Verdict:
        """Whether a flow by the best candidate would be accurate enough to be useful."""
        best = self.best.calibration
        expected, guess = best.expected_l1_error, self.problem.trial.guess
        return flow_verdict(alpha=best.accuracy.alpha, beta=self.beta, expected=expected, guess=guess)

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp plan --query flow --json`` prints."""
        p = self.problem
        return {
            "query": "flow",
            "verdict": self.verdict.to_dict(),
            "records": p.records,
            "transitions": p.transitions,
            "privacy": str(p.privacy),
            "tau": p.tau,
            "eta": p.eta,
            "sum": p.add,
            "centre_only": p.centre_only,
            "dobrushin": p.dobrushin,
            "constants": {"ours": constants(p.ours), "poster": constants(p.poster)},
            "candidates": [c.to_dict() for c in self.candidates],
            "best": self.best.mechanism,
            "guess": p.trial.guess,
        }


def plan_flow(
    model: ModelLike,
    *,
    eta: float,
    tau: float,
    privacy: str = "joint",
    length: int | None = None,
    lengths: Sequence[int] | Lengths | None = None,
    add: bool = False,
    centre_only: bool = False,
    beta: float = 0.05,
    progress: Progress | None = None,
) -> FlowPlan:
    """How accurate a private flow will be, with our noise and with the poster's, by both repairs.

    Args:
        model: the chain in the centre of the orbit.
        eta: radius of the orbit: the largest total variation between rows.
        tau: the guarantee, a total variation between the distributions of two releases.
        privacy: ``orbit``, ``record`` or ``joint``.
        length: records in one chain; or
        lengths: records in each of several chains.
        add: noise for the sum of both parts of joint, as in the poster.
        centre_only: the record guarantee for data made by the centre alone.
        beta: accuracy is shown at probability 1−beta.
        progress: called with a few words before each step.
    """
    model = as_model(model)
    problem = FlowProblem(
        model=centre_chain(model),
        lengths=count_lengths(model, length, lengths),
        eta=eta,
        tau=tau,
        privacy=privacy_of(privacy),
        add=add,
        centre_only=centre_only,
    )
    beta = checks.probability(beta, "beta")
    (progress or silent)("simulating flows under the model")
    candidates = [
        FlowCandidate(calibration=calibrate(problem, noise, repair, beta), reason=shortfall(problem, noise))
        for noise, repair in mechanisms(problem).values()
    ]
    ranked = sorted(candidates, key=lambda c: (not c.applies, c.calibration.expected_l1_error))
    return FlowPlan(problem=problem, beta=beta, candidates=tuple(ranked))


def centre_chain(model: Model) -> MarkovChain:
    """The one chain that a flow is about, in the centre of its orbit."""
    chain = chain_of(model)
    if chain is None:
        raise ModelError(f"the model is {model!r}; a flow needs one Markov chain, the centre of the orbit", value=model)
    return chain
