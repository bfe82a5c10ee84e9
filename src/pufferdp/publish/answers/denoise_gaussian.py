"""What an answer with Gaussian noise says about the true one: its posterior under the model."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import NotApplicableError
from pufferdp.publish.answers.denoise import (
    LEAST_SURPRISE,
    Answer,
    AnswerPrior,
    Denoised,
    answer_prior,
    posterior,
    summary,
)
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import QueryKind
from pufferdp.publish.discrete_gaussian import DiscreteGaussianLaw
from pufferdp.publish.noise import NoiseKind, NoiseLaw


def denoise_gaussian(problem: Problem, answer: Answer, law: NoiseLaw) -> Denoised | None:
    """The posterior of the true answer given the noisy one; None where the answer has no one law, or a costly one."""
    labels = problem.bound.labels
    noisy = [float(v) for v in answer] if isinstance(answer, list) else [float(answer)]
    try:
        if problem.query.kind not in (QueryKind.HISTOGRAM, QueryKind.FREQUENCY):
            prior = answer_prior(problem)
            return None if prior is None else _number(prior, noisy[0], law)
        if len(labels) == 2:
            prior = answer_prior(problem, labels[1])
            return None if prior is None else _pair(prior, noisy, law, problem.records * problem.bound.unit)
        numbers = []
        for label, value in zip(labels, noisy, strict=True):
            prior = answer_prior(problem, label)
            if prior is None:
                return None
            numbers.append(_number(prior, value, law))
    except NotApplicableError:
        return None
    mean, low, high, far = ([getattr(d, name) for d in numbers] for name in ("mean", "low", "high", "surprise"))
    return Denoised(mean=mean, low=low, high=high, surprise=far)


def _number(prior: AnswerPrior, noisy: float, law: NoiseLaw) -> Denoised:
    weights = posterior(prior, _halved_squares(noisy - prior.points, law), 1.0)
    mean, low, high = (None, None, None) if weights is None else summary(prior.points, weights)
    return Denoised(mean=mean, low=low, high=high, surprise=_surprise(prior, noisy, law))


def _pair(prior: AnswerPrior, noisy: list[float], law: NoiseLaw, total: float) -> Denoised:
    """Two labels: c of the second and total − c of the first, each with its own noise. Both tell of c."""
    other = replace(prior, points=total - prior.points)
    far = [_surprise(other, noisy[0], law), _surprise(prior, noisy[1], law)]
    distances = _halved_squares(noisy[1] - prior.points, law) + _halved_squares(noisy[0] - other.points, law)
    weights = posterior(prior, distances, 1.0)
    if weights is None:
        none: list[float | None] = [None, None]
        return Denoised(mean=none, low=none, high=none, surprise=far)
    mean, low, high = summary(prior.points, weights)
    return Denoised(mean=[total - mean, mean], low=[total - high, low], high=[total - low, high], surprise=far)


def _halved_squares(gaps: Floats, law: NoiseLaw) -> Floats:
    """Noise that moves by a gap has a probability proportional to the exponential of minus this."""
    return np.asarray((gaps / law.scale) ** 2 / 2)


def _surprise(prior: AnswerPrior, noisy: float, law: NoiseLaw) -> float:
    """P(an answer at least this far out, on the side where it lies), twice: under the model, noise included."""
    above, below = (float(prior.law.masses @ _at_least(sign * (noisy - prior.points), law)) for sign in (1.0, -1.0))
    return min(1.0, max(LEAST_SURPRISE, 2 * min(above, below)))


def _at_least(gaps: Floats, law: NoiseLaw) -> Floats:
    """P(noise ≥ gap) for each gap, in the answer's units; counts are rounded to whole ones."""
    if law.kind is NoiseKind.GAUSSIAN:
        return np.array([math.erfc(gap / (law.scale * math.sqrt(2))) / 2 for gap in gaps])
    return DiscreteGaussianLaw(law.counts_scale).at_least(np.rint(gaps / law.unit))
