"""Gaussian noise with an (epsilon, delta) guarantee: zCDP by OpenDP's own map, carried over by a leakage curve.

Noise of scale s on an answer that one record moves by at most D in L2 is (D²/2s²)-zCDP, so (τ, δ(τ))-DP for every τ. An
adversary who uses the correlation model then has (q(τ), δ(τ)·(e^q(τ) − 1)/(e^τ − 1)), for every curve q that bounds the
leakage of every algorithm (docs/guide/approximate.md). The largest rho that keeps the guarantee for some τ decides.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pufferdp.basics.checks import LARGEST
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.approximate import carried_delta, largest_zcdp
from pufferdp.bounds.curve_forms import Curve
from pufferdp.publish.answers.mechanisms.baselines import curve_of_every_algorithm
from pufferdp.publish.answers.problem import (
    SEARCHED,
    Approximation,
    Calibrated,
    Calibration,
    Mechanism,
    Problem,
    refuse_own_secrets,
)
from pufferdp.publish.answers.queries import CountQuery, FunctionQuery
from pufferdp.publish.noise import ROUNDING, NoiseDistribution, NoiseKind, gaussian_delta, gaussian_rho


class GaussianTight(Mechanism):
    """Gaussian noise on counts, histograms, frequencies, sums, means and functions of one's own."""

    name = "gaussian-tight"
    theorem = "Gaussian noise (zCDP), carried over by a leakage curve (docs/guide/approximate.md, Theorem 3)"
    approximate = True
    covers = ("parts",)

    def calibrate(self, problem: Problem) -> Calibration:
        """The least scale at which OpenDP's map and the curve together keep the guarantee."""
        refuse_own_secrets(problem)
        if problem.delta <= 0:
            raise NotApplicableError("keeps a guarantee with a delta: give one with delta=, for example 1e-6")
        if problem.model.real_valued:
            raise NotApplicableError("is worked out for records with states, and those of this model are real numbers")
        bound, whole, move = problem.bound, problem.query.counts_states, _move(problem)
        scale, loss, dp_delta = _noise(problem, move)
        distribution = NoiseDistribution(
            kind=NoiseKind.DISCRETE_GAUSSIAN if whole else NoiseKind.GAUSSIAN,
            scale=scale * bound.unit,
            coordinates=len(bound.labels),
            unit=bound.unit,
            rounding=problem.rounding,
        )
        rho = gaussian_rho(scale, move, whole)
        pair = Approximation(delta=problem.delta, dp_loss=loss, dp_delta=dp_delta, rho=rho, move=move * bound.unit)
        pure = self.with_finding(problem, Calibrated(sigma=distribution.scale / bound.lipschitz))
        return replace(pure, distribution=distribution, approximation=pair)


def _move(problem: Problem) -> float:
    """The most that one record moves the answer in L2, counts in counts, rounded up."""
    if not problem.query.counts_states:
        euclidean = problem.query.euclidean if isinstance(problem.query, FunctionQuery) else None
        return euclidean or problem.bound.lipschitz
    # A record that changes leaves one bin and enters another.
    return 1.0 if isinstance(problem.query, CountQuery) else math.nextafter(math.sqrt(2), math.inf)


def _noise(problem: Problem, move: float) -> tuple[float, float, float]:
    """The scale with its DP pair: as stated where they keep the guarantee, otherwise those of the largest rho.

    A search ends at other numbers on another machine, so stated ones are evaluated. They may not differ much: a ledger
    would be charged too little.
    """
    curve, whole, stated = curve_of_every_algorithm(problem), problem.query.counts_states, problem.stated
    largest = scale, _, _ = _largest(curve, problem, move)
    if stated is None or stated.pair is None or not 0 < stated.pair[0] <= LARGEST:
        return largest
    wide, loss, delta = stated.sigma * problem.bound.lipschitz / problem.bound.unit, *stated.pair
    leaked = curve(loss)
    # The delta falls fast as the loss grows: rounding of the loss shows in it some hundred times as much.
    keeps = (
        math.isclose(wide, scale, rel_tol=SEARCHED)
        and leaked <= (1 + ROUNDING) * problem.epsilon
        and carried_delta(loss, delta, leaked) <= (1 + 1e-6) * problem.delta
        and gaussian_delta(wide, move, whole, loss) <= (1 + 1e-6) * delta
    )
    return (wide, loss, delta) if keeps else largest


def _largest(curve: Curve, problem: Problem, move: float) -> tuple[float, float, float]:
    """The scale and the DP pair of the largest rho; the scale is rounded up until OpenDP's map allows the pair."""
    budget = largest_zcdp(curve, problem.epsilon, problem.delta)
    if budget is None:
        raise NotApplicableError(f"is above {problem.epsilon:g} however little DP loss is spent")
    scale, step = move / math.sqrt(2 * budget.rho), 2.0**-52
    while step < 1:  # rounded up until the map agrees, each time by twice as much
        if gaussian_delta(scale, move, problem.query.counts_states, budget.loss) <= budget.delta:
            return scale, budget.loss, budget.delta
        scale, step = scale * (1 + step), 2 * step
    raise NotApplicableError("OpenDP's map gives no delta that is small enough; guarantee a larger delta")
