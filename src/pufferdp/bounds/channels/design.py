"""The channel with the least noise that satisfies epsilon.

Two states. Each loss depends on (ρ0, ρ1) through s = ρ1/(1−ρ0) and s' = ρ0/(1−ρ1) only, and falls with both. Where no
chain of the class has negative correlation, the 0-over-1 loss depends on s alone and the 1-over-0 loss on s' alone:
each constraint is a straight line, and the cheapest flips are a vertex of a polygon. With negative correlation both
losses depend on both ratios: the best share of each in the evidence follows by a search in one dimension. More states.
A record is kept with probability 1−λ and otherwise drawn uniformly; the least λ follows by root finding. What is
returned has always been checked against the loss.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Matrix
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.channels.many_states import channel_loss, randomised_response
from pufferdp.bounds.channels.two_states import FlipLoss, Flips, class_loss
from pufferdp.bounds.inverse import largest_loss
from pufferdp.models.chain import MarkovChain

_INSIDE: Final = 1e-12
"""The share of epsilon kept back for rounding."""
_LARGEST_EPSILON: Final = 700.0
"""Larger epsilons are treated as this one: a double cannot hold flip probabilities below e^-700."""


def best_flips(
    chains: Sequence[MarkovChain], epsilon: float, length: int | None, adversary: Adversary, cost: tuple[float, float]
) -> tuple[float, float]:
    """The cheapest (ρ0, ρ1), both at most ½, with a loss of at most epsilon for every chain."""
    target = min(epsilon, _LARGEST_EPSILON) * (1 - _INSIDE)

    def losses(flips: Flips) -> FlipLoss:
        return class_loss(chains, flips, length, adversary)

    if losses(Flips(math.inf, -math.inf)).worst == 0:
        raise NotApplicableError(
            "under the model every record has one possible value, so there is nothing to hide and nothing to flip; "
            "correct the model"
        )
    if adversary is Adversary.DP:
        rho = _cheapest(target, -target, cost)
    elif all(np.linalg.det(chain.transition) >= 0 for chain in chains):
        high = largest(lambda h: losses(Flips(h, 0.0)).zero, target)
        low = largest(lambda h: losses(Flips(0.0, -h)).one, target)
        rho = _cheapest(high, -low, cost)
    else:
        rho = _frontier(losses, target, cost)
    while losses(Flips.of(*rho)).worst > epsilon:  # rounding of (ρ0, ρ1) themselves, where they are tiny
        rho = (min(0.5, rho[0] * (1 + 1e-12)), min(0.5, rho[1] * (1 + 1e-12)))
    return rho


def largest(loss: Callable[[float], float], target: float, near: float = 1e-13) -> float:
    """The largest h up to ``target`` with loss(h) ≤ target, up to a share ``near`` and never above it."""
    found = largest_loss(loss, target, near)
    if found < 1e-13 * target:
        raise NotApplicableError(
            "no flips short of a coin toss satisfy this epsilon: under the model a record shows in all others forever; "
            "use a chain that mixes, or give the length of the series"
        )
    return found


def _cheapest(high: float, low: float, cost: tuple[float, float]) -> tuple[float, float]:
    """The cheapest vertex of {ρ1 ≥ s·(1−ρ0), ρ0 ≥ s'·(1−ρ1), both at most ½}, s = exp(−high), s' = exp(low)."""
    s, t = math.exp(-high), math.exp(low)
    # a·ρ0 + b·ρ1 ≥ c, one line each.
    lines = ((s, 1.0, s), (1.0, t, t), (-1.0, 0.0, -0.5), (0.0, -1.0, -0.5))
    corners = [(-math.expm1(-high) * t / -math.expm1(low - high), -math.expm1(low) * s / -math.expm1(low - high))]
    for (a, b, c), (d, e, f) in itertools.combinations(lines, 2):
        if ((a, b, c), (d, e, f)) != lines[:2] and (det := a * e - b * d) != 0:
            corners.append(((c * e - b * f) / det, (a * f - c * d) / det))
    inside = [p for p in corners if all(a * p[0] + b * p[1] >= c - 1e-15 for a, b, c in lines)]
    x, y = min(inside, key=lambda p: cost[0] * p[0] + cost[1] * p[1])
    return min(x, 0.5), min(y, 0.5)


def _frontier(losses: Callable[[Flips], FlipLoss], target: float, cost: tuple[float, float]) -> tuple[float, float]:
    """The cheapest flips where both ratios enter both losses, by a search over the share of one in the evidence."""
    from scipy.optimize import minimize_scalar

    def flips(share: float) -> tuple[float, float]:
        high, low = min(1.0, 2 - 2 * share), min(1.0, 2 * share)
        most = largest(lambda h: losses(Flips(h * high, -h * low)).worst, target, 1e-6)
        return _cheapest(most * high, -most * low, cost)

    def price(share: float) -> float:
        return float(np.dot(cost, flips(share)))

    best = min(np.linspace(0, 1, 11).tolist(), key=price)
    bounds = max(0.0, best - 0.1), min(1.0, best + 0.1)
    found = float(minimize_scalar(price, bounds=bounds, method="bounded", options={"xatol": 1e-3}).x)
    return flips(min(best, found, key=price))


# ---- more than two states ----


def expected_noise(chains: Sequence[MarkovChain], channel: Matrix) -> float:
    """The share of records that change, in the long run, for the chain where it is largest."""
    return max(float(chain.stationary @ (1 - np.diag(channel))) for chain in chains)


def upper_loss(chains: Sequence[MarkovChain], channel: Matrix, length: int | None, adversary: Adversary) -> float:
    """An upper bound on the loss for the worst chain."""
    return max(channel_loss(chain, channel, length, adversary) for chain in chains)


def least_response(chains: Sequence[MarkovChain], epsilon: float, length: int | None, adversary: Adversary) -> Matrix:
    """The k-ary randomised response with the least noise, up to a millionth, that satisfies epsilon for every chain."""
    k = chains[0].size

    def channel(log_noise: float) -> Matrix:
        return randomised_response(k, math.exp(-log_noise) * (1 - 1 / k))

    target = epsilon * (1 - 1e-9)  # the share that the bound itself adds for rounding
    found = largest_loss(lambda h: upper_loss(chains, channel(h), length, adversary), target, 1e-6, most=36.0)
    if found < 1e-9:  # e^-36 is no noise to a double
        raise NotApplicableError(
            "no channel short of pure noise satisfies this epsilon: under the model a record shows in all others "
            "forever; use a chain that mixes, or give the length of the series"
        )
    return channel(found)
