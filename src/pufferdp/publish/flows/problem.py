"""The transition flow of a chain with Gaussian noise, made a point of the simplex again.

Two repairs. ``log`` (the poster's): noise on log(F+kappa), then softmax; the logarithm moves up to 1/kappa times as far
as the flow, so the noise is as much wider. ``simplex``: noise on the flow, then the nearest point of the simplex.
Which one errs less, and at which kappa, is found by simulation under the model. No data is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import ParameterError
from pufferdp.bounds.orbits import FlowNoise, Privacy, dobrushin, our_noise, poster_noise
from pufferdp.ledger.flow_budget import FlowBudget
from pufferdp.models.base import Lengths
from pufferdp.models.chain import MarkovChain
from pufferdp.models.simulate import sample_flows, seeded
from pufferdp.publish.answers.estimate import simplex
from pufferdp.publish.noise import Accuracy, NoiseDistribution, NoiseKind

SEED: Final = 8
"""Of the simulation that compares repairs; it touches no release."""
MOST_DRAWS: Final = 2000
_MOST_NUMBERS: Final = 500 * MOST_DRAWS
"""Numbers of a simulation: of its noise, so that 22 states have all draws, and transitions that are drawn."""
_LONGEST: Final = 20_000
"""Longer chains are not drawn: their flow lies so near its mean that the mean stands for it."""
_KAPPAS: Final = np.logspace(-5, 2, 29)
THEOREM: Final = (
    "coupling by the Dobrushin coefficient, and the total variation of two normal distributions (docs/theory/flow.md)"
)
POSTER: Final = "Wasserstein to total variation for Gaussian noise (orbit and record privacy, poster)"


class Repair(StrEnum):
    """How a noisy flow becomes a point of the simplex."""

    SIMPLEX = "simplex"
    LOG = "log"


@dataclass(frozen=True, kw_only=True)
class FlowProblem:
    """One flow to be released: the centre of the orbit, the chains, the guarantee."""

    model: MarkovChain
    """K0, the centre of the orbit."""
    lengths: Lengths
    """Records in a chain, how many such chains."""
    eta: float
    """Radius of the orbit in total variation."""
    tau: float
    """The guarantee: total variation between the distributions of two releases."""
    privacy: Privacy = Privacy.JOINT
    add: bool = False
    """Noise for the sum of both distances, as in the poster; the larger one is enough."""
    centre_only: bool = False
    """The record guarantee for data made by K0 alone, and not by any kernel of the orbit."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "privacy", privacy_of(self.privacy))
        object.__setattr__(self, "eta", self.guarantee.eta)
        object.__setattr__(self, "tau", self.guarantee.tau)
        for length, count in self.lengths:
            checks.length(length)
            checks.length(count, "number of chains")
        if self.add and self.privacy is not Privacy.JOINT:
            raise ParameterError(f"a sum adds the two parts of joint; privacy is {self.privacy}", value=self.privacy)
        if self.transitions == 0:
            raise ParameterError("no chain has two records or more; a flow needs at least one transition")
        _ = self.ours  # a chain that never forgets is refused here, before any data is read

    @cached_property
    def guarantee(self) -> FlowBudget:
        """What is guaranteed, as a ledger takes it."""
        return FlowBudget(tau=self.tau, eta=self.eta, privacy=str(self.privacy), centre_only=self.centre_only)

    @property
    def transitions(self) -> int:
        """The n of the flow: a chain of T records has T−1 transitions, and those of all chains are put together."""
        return sum((length - 1) * count for length, count in self.lengths)

    @property
    def records(self) -> int:
        """Records in all chains together."""
        return sum(length * count for length, count in self.lengths)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the states: the rows and columns of the flow."""
        return self.model.labels

    @cached_property
    def dobrushin(self) -> float:
        """alpha(K0): the largest total variation between two rows of the matrix."""
        return dobrushin(self.model.transition)

    @cached_property
    def ours(self) -> FlowNoise:
        """The noise that keeps the guarantee."""
        return our_noise(
            self.model.transition,
            self.transitions,
            eta=self.eta,
            tau=self.tau,
            privacy=self.privacy,
            add=self.add,
            centre_only=self.centre_only,
        )

    @cached_property
    def poster(self) -> FlowNoise:
        """The poster's noise for the same numbers."""
        return poster_noise(self.model.transition, self.transitions, eta=self.eta, tau=self.tau, privacy=self.privacy)

    @cached_property
    def trial(self) -> Trial:
        """Flows under the model and noise to try repairs on."""
        return _trial(self)

    def distribution(self, noise: FlowNoise, kappa: float | None) -> NoiseDistribution:
        """The noise that is drawn: on the flow, or with a kappa on log(F+kappa)."""
        d = self.model.size
        if kappa is None:
            return NoiseDistribution(
                kind=NoiseKind.GAUSSIAN, scale=noise.sigma, coordinates=d * d, unit=1 / self.transitions
            )
        # A computed logarithm is off by a few units in its last place; over d² numbers and both sides that adds this
        # much to the distance.
        rounding = 2 * d * 2.0**-51 * (2 + max(abs(math.log(kappa)), math.log1p(kappa)))
        scale = noise.sigma / kappa + rounding / (self.tau * noise.factor)
        return NoiseDistribution(kind=NoiseKind.GAUSSIAN, scale=scale, coordinates=d * d)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Flows drawn from the model and standard normal noise: the same for every repair, so that they compare."""

    flows: Floats
    noise: Floats
    drawn: int
    """How many of the flows are different."""
    guess: float | None
    """Expected L1 error of publishing the model's own flow, without data; None where flows were not drawn."""

    def errors(self, released: Floats) -> Floats:
        """The L1 error of each draw."""
        return np.asarray(np.abs(released - self.flows).sum(axis=1))


@dataclass(frozen=True, kw_only=True)
class FlowCalibration:
    """A noise and a repair, and what they are expected to cost."""

    mechanism: str
    theorem: str
    noise: FlowNoise
    repair: Repair
    kappa: float | None
    """For the repair ``log``; None for the other."""
    distribution: NoiseDistribution
    expected_l1_error: float
    """Of the released flow under the model, simulated."""
    standard_error: float
    """How far the simulation leaves ``expected_l1_error`` open: one standard deviation."""
    accuracy: Accuracy
    """With probability 1−beta every number of the released flow errs by less than alpha, simulated."""

    @property
    def lipschitz(self) -> float:
        """How much farther the numbers that get noise move than the flow does."""
        return 1.0 if self.kappa is None else 1 / self.kappa


def mechanism_name(rule: str, repair: str) -> str:
    """A noise and a repair by name: ``flow-…`` for our noise, ``poster-…`` for the poster's; then the repair."""
    return f"{'flow' if rule == 'ours' else rule}-{repair}"


def constants(noise: FlowNoise) -> dict[str, float]:
    """What the width of a noise rests on, as plans and certificates have it."""
    names = ("alpha_orbit", "alpha_record", "orbit", "record", "distance", "sigma")
    return {name: getattr(noise, name) for name in names}


def repaired(noisy: Floats, kappa: float | None) -> Floats:
    """A noisy flow, or with a kappa noisy logarithms, as a point of the simplex. Along the last axis."""
    shifted = noisy - noisy.max(axis=-1, keepdims=True)  # moves neither, and keeps large noise from rounding the sum
    points = simplex(shifted, 1.0) if kappa is None else np.exp(shifted)
    return np.asarray(points / points.sum(axis=-1, keepdims=True))


def try_repair(trial: Trial, sigma: float, kappa: float | None) -> Floats:
    """Released flows of a trial."""
    if kappa is None:
        return repaired(trial.flows + sigma * trial.noise, None)
    return repaired(np.log(trial.flows + kappa) + sigma / kappa * trial.noise, kappa)


def best_kappa(error: Callable[[float], float]) -> float:
    """The kappa of the least error: a grid first, then a search between its neighbours."""
    from scipy.optimize import minimize_scalar

    on_grid = [error(float(kappa)) for kappa in _KAPPAS]
    at = int(np.argmin(on_grid))
    low, high = _KAPPAS[max(0, at - 1)], _KAPPAS[min(len(_KAPPAS) - 1, at + 1)]
    optimum = minimize_scalar(
        lambda log: error(math.exp(log)), bounds=(math.log(low), math.log(high)), options={"maxiter": 12}
    )
    refined = float(math.exp(optimum.x)) if optimum.fun < on_grid[at] else float(_KAPPAS[at])
    return float(f"{refined:.4g}")  # as it is printed, so that a certificate can be read


def calibrate(
    problem: FlowProblem, noise: FlowNoise, repair: Repair, beta: float, kappa: float | None = None
) -> FlowCalibration:
    """A repair tried out under the model; its kappa is optimised where none is given."""
    trial = problem.trial
    if repair is Repair.LOG and kappa is None:
        kappa = best_kappa(lambda k: float(trial.errors(try_repair(trial, noise.sigma, k)).mean()))
    if repair is Repair.SIMPLEX and kappa is not None:
        raise ParameterError(f"kappa is {kappa:g}; it belongs to the repair log", value=kappa)
    released = try_repair(trial, noise.sigma, kappa)
    errors = trial.errors(released)
    return FlowCalibration(
        mechanism=mechanism_name(noise.rule, repair),
        theorem=THEOREM if noise.rule == "ours" else POSTER,
        noise=noise,
        repair=repair,
        kappa=kappa,
        distribution=problem.distribution(noise, kappa),
        expected_l1_error=float(errors.mean()),
        standard_error=float(errors.std(ddof=1)) / math.sqrt(trial.drawn),
        accuracy=Accuracy(
            alpha=float(np.quantile(np.abs(released - trial.flows).max(axis=1), 1 - checks.probability(beta, "beta"))),
            beta=beta,
        ),
    )


def _trial(problem: FlowProblem) -> Trial:
    k, generator = problem.model.size, seeded(SEED)
    draws = int(min(MOST_DRAWS, max(100, _MOST_NUMBERS // (k * k))))
    centre = (problem.model.stationary[:, None] * problem.model.transition).ravel()
    size = min(draws, _MOST_NUMBERS // problem.transitions)
    guess = None
    if max(length for length, _ in problem.lengths) > _LONGEST or size < 8:
        flows = np.tile(centre, (draws, 1))
        size = draws
    else:
        lengths = [(length, count) for length, count in problem.lengths if length > 1]
        drawn = sample_flows(problem.model, lengths, size, generator).reshape(size, k * k) / problem.transitions
        flows = np.resize(drawn, (draws, k * k))
        guess = float(np.abs(drawn - centre).sum(axis=1).mean())
    return Trial(flows=flows, noise=generator.standard_normal((draws, k * k)), drawn=size, guess=guess)


def privacy_of(value: object) -> Privacy:
    """Orbit, record or joint by name."""
    try:
        return Privacy(str(value))
    except ValueError:
        raise ParameterError(f"privacy is {value!r}; it must be orbit, record or joint", value=value) from None
