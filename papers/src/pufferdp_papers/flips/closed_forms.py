"""Chakrabarti et al. 2020: closed forms for lazy chains, an adversary who knows no record, and endless series."""

from __future__ import annotations

import itertools
import math

from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.channels.design import largest
from pufferdp.bounds.channels.two_states import FlipLoss, Flips, flip_loss
from pufferdp.models.chain import MarkovChain


def least_rho(chain: MarkovChain, epsilon: float, length: int | None, adversary: Adversary) -> float:
    """The least ρ = ρ0 = ρ1 that satisfies epsilon, by the exact loss."""
    h = largest(lambda h: flip_loss(chain, Flips(h, -h), length, adversary).worst, epsilon * (1 - 1e-12))
    return 1 / (1 + math.exp(h))


def closed_loss(q: float, r: float, rho0: float, rho1: float) -> FlipLoss:
    """The loss by Theorem 1: a²/(c·d) for both directions. Needs 0 < q, r, ρ0, ρ1 < ½."""

    def one_way(q: float, r: float, rho0: float, rho1: float) -> float:
        x, y = (1 - rho0) * (1 - q), rho1 * (1 - r)
        a = math.sqrt((x - y) ** 2 + 4 * q * r * (1 - rho0) * rho1) + x - y
        return math.log(a * a / (4 * r * r * rho1 * (1 - rho0)))

    return FlipLoss(one_way(q, r, rho0, rho1), one_way(r, q, rho1, rho0))


def closed_rho(theta: float, epsilon: float) -> float:
    """The ρ of Corollary 2, for q = r = θ and an adversary who knows no record. Not enough for every adversary."""
    e = theta * math.exp(epsilon)
    return (4 + theta * (e - 2) - math.sqrt(theta * e * (4 + theta * (e - 4)))) / (8 + 2 * theta * (e + theta - 4))


def zhao_rho(theta: float, epsilon: float, length: int | None = None) -> float:
    """The noise after Zhao et al. (2017), adapted as Proposition 1 of the paper: every adversary, q = r = θ.

    The best t is taken: (ε − 6·ln((1+(1−2θ)^t)/(1−(1−2θ)^t)))/(2t−1), where positive; ½ where none is.
    """
    lam, best = 1 - 2 * theta, 0.0
    for t in itertools.count(1):
        if (length is not None and t > length / 2) or epsilon / (2 * t - 1) <= best or t > 10**6:
            break
        spread = 6 * math.log((1 + lam**t) / (1 - lam**t))
        best = max(best, (epsilon - spread) / (2 * t - 1))
    return 1 / (1 + math.exp(best))
