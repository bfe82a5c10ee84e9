"""Gaussian noise with an (epsilon, delta) promise: zCDP by OpenDP's own map, carried over by a leakage curve.

Noise of scale s on an answer that one record moves by at most D in L2 is (D²/2s²)-zCDP, so (τ, δ(τ))-DP for every τ.
Whoever knows the correlation then has (q(τ), δ(τ)·(e^q(τ) − 1)/(e^τ − 1)), for every curve q that bounds the leakage of
every algorithm (docs/guide/approximate.md). The largest rho that keeps the promise for some τ decides.
"""

from __future__ import annotations

import math
from typing import Final

from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.tight.approximate import ZCdpBudget, largest_zcdp
from pufferdp.publish.answers.mechanisms.baselines import curve_of_every_algorithm
from pufferdp.publish.answers.problem import (
    Approximation,
    Calibrated,
    Calibration,
    Mechanism,
    Problem,
    refuse_own_secrets,
)
from pufferdp.publish.answers.queries import QueryKind
from pufferdp.publish.noise import NoiseKind, NoiseLaw, gaussian_delta, gaussian_rho

_TRIES: Final = 40
"""How often the scale is rounded up until OpenDP's map agrees; each time by twice as much."""


class GaussianTight(Mechanism):
    """Gaussian noise on counts, histograms, frequencies, sums, means and functions of one's own."""

    name = "gaussian-tight"
    theorem = "Gaussian noise (zCDP), carried over by a leakage curve (docs/guide/approximate.md, Theorem 3)"
    approximate = True

    def holds_for_parts(self, problem: Problem) -> bool:
        """It is carried over by a curve of the whole series."""
        return True

    def find(self, problem: Problem) -> Calibrated:
        """The scale of the noise over the Lipschitz constant in L1, which other mechanisms count in."""
        return Calibrated(sigma=self.calibrate(problem).sigma)

    def calibrate(self, problem: Problem) -> Calibration:
        """The least scale at which OpenDP's map and the curve together keep the promise."""
        refuse_own_secrets(problem)
        if problem.delta <= 0:
            raise NotApplicableError("keeps a promise with a delta: give one with delta=, for example 1e-6")
        if problem.model.real_valued:
            raise NotApplicableError("is worked out for records with states, and those of this model are real numbers")
        budget = largest_zcdp(curve_of_every_algorithm(problem), problem.epsilon, problem.delta)
        if budget is None:
            raise NotApplicableError(f"is above {problem.epsilon:g} however little DP loss is spent")
        bound = problem.bound
        whole = problem.query.counts_states
        move = _move(problem)
        scale = _scale(budget, move, whole)
        law = NoiseLaw(
            kind=NoiseKind.DISCRETE_GAUSSIAN if whole else NoiseKind.GAUSSIAN,
            scale=scale * bound.unit,
            coordinates=len(bound.labels),
            unit=bound.unit,
            rounding=problem.rounding,
        )
        return Calibration(
            mechanism=self.name,
            theorem=self.theorem,
            sigma=law.scale / bound.lipschitz,
            lipschitz=bound.lipschitz,
            law=law,
            approximation=Approximation(
                delta=problem.delta,
                dp_loss=budget.loss,
                dp_delta=budget.delta,
                rho=gaussian_rho(scale, move, whole),
                move=move * bound.unit,
            ),
        )


def _move(problem: Problem) -> float:
    """The most that one record moves the answer in L2, counts in counts, rounded up."""
    if not problem.query.counts_states:
        return problem.query.euclidean or problem.bound.lipschitz
    # A record that changes leaves one bin and enters another.
    return 1.0 if problem.query.kind is QueryKind.COUNT else math.nextafter(math.sqrt(2), math.inf)


def _scale(budget: ZCdpBudget, move: float, whole: bool) -> float:
    """The scale of this rho, rounded up until OpenDP's own map says that the DP pair holds."""
    scale, step = move / math.sqrt(2 * budget.rho), 2.0**-52
    for _ in range(_TRIES):
        if gaussian_delta(scale, move, whole, budget.loss) <= budget.delta:
            return scale
        scale, step = scale * (1 + step), 2 * step
    raise NotApplicableError("OpenDP's map gives no delta that is small enough; promise a larger delta")
