"""The least noise that keeps a promise: two states, independent flips, any linear cost; and the paper's closed forms.

Each loss depends on (ρ0, ρ1) through s = ρ1/(1−ρ0) and s' = ρ0/(1−ρ1) only, and falls with both. Where no chain of the
class has negative correlation, the 0-over-1 loss depends on s alone and the 1-over-0 loss on s' alone: each constraint
is a straight line, and the cheapest flips are a vertex of a polygon. With negative correlation both losses depend on
both ratios. For a fixed s the least s' follows by bisection, and the best s by a search in one dimension; what is
returned is always checked against the loss.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Matrix
from pufferdp.basics.errors import NotApplicableError
from pufferdp.leakage.channels.many_states import channel_loss
from pufferdp.leakage.channels.two_states import FlipLoss, Flips, class_loss
from pufferdp.models.chain import MarkovChain

_INSIDE: Final = 1e-12
"""The share of epsilon kept back for rounding."""
_LOUDEST: Final = 700.0
"""The largest promise that flips are designed for. A smaller promise keeps a larger one; and of a share of flips below
e^-700 a double holds nothing, so that no search for it would end."""
_SMALLEST: Final = 1e-13
"""As a share of epsilon: a record's own output that may say less than this says nothing."""
_TRIALS: Final = 17
_COIN_TOSS: Final = 1e-6
"""Flips that may say no more than this are coin tosses but for as small a share of the records: no search along the
frontier can spare more of them, and of chains that hardly ever break their turns it would take minutes."""


def best_flips(
    chains: Sequence[MarkovChain],
    epsilon: float,
    length: int | None,
    adversary: Adversary,
    cost: tuple[float, float],
) -> tuple[float, float]:
    """The cheapest (ρ0, ρ1), both at most ½, with a loss of at most epsilon for every chain."""
    target = min(epsilon, _LOUDEST) * (1 - _INSIDE)

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
    """The largest h up to ``target`` with loss(h) ≤ target, to a share; the loss is at least h and rises with it."""
    from scipy import optimize

    loss = cache(loss)  # of chains that hardly move it takes a while, and the search asks for its ends again
    if loss(target) <= target:
        return target
    if loss(_SMALLEST * target) > target:
        raise NotApplicableError(
            "no flips short of a coin toss keep this promise: the model lets a record show in all others forever; "
            "use a chain that mixes, or give the length of the series"
        )
    high = target
    # Losses rise more slowly than h, so that what is too much by a factor needs an h that is smaller by more than it
    # (infinite ones say nothing).
    while loss(tried := high * (min(0.5, target / loss(high)) or 0.5)) > target:
        high = tried
    # Infinite losses are cut: the search for a root cannot use them.
    root = float(optimize.brentq(lambda h: min(loss(h) - target, 1.0), tried, high, xtol=tried * near, rtol=near))
    while loss(root) > target:
        root = max(tried, root * (1 - 10 * near))
    return root


def _cheapest(high: float, low: float, cost: tuple[float, float]) -> tuple[float, float]:
    """The cheapest vertex of {ρ1 ≥ s·(1−ρ0), ρ0 ≥ s'·(1−ρ1), both at most ½}, s = exp(−high), s' = exp(low)."""
    s, t = math.exp(-high), math.exp(low)
    # a·ρ0 + b·ρ1 ≥ c, one line each.
    lines = ((s, 1.0, s), (1.0, t, t), (-1.0, 0.0, -0.5), (0.0, -1.0, -0.5))
    corners = [(-math.expm1(-high) * t / -math.expm1(low - high), -math.expm1(low) * s / -math.expm1(low - high))]
    for first, second in itertools.combinations(lines, 2):
        if (first, second) != (lines[0], lines[1]) and (det := first[0] * second[1] - first[1] * second[0]) != 0:
            corners.append(
                (
                    (first[2] * second[1] - first[1] * second[2]) / det,
                    (first[0] * second[2] - first[2] * second[0]) / det,
                )
            )
    inside = [p for p in corners if all(a * p[0] + b * p[1] >= c - 1e-15 for a, b, c in lines)]
    x, y = min(inside, key=lambda p: cost[0] * p[0] + cost[1] * p[1])
    return min(x, 0.5), min(y, 0.5)


def _frontier(losses: Callable[[Flips], FlipLoss], target: float, cost: tuple[float, float]) -> tuple[float, float]:
    """Both ratios in both losses: the frontier, one ratio at a time."""
    from scipy import optimize

    if losses(Flips(_COIN_TOSS, 0.0)).worst > target:
        both = largest(lambda h: losses(Flips(h, -h)).worst, target, _COIN_TOSS)
        return _cheapest(both, -both, cost)
    most = largest(lambda h: losses(Flips(h, 0.0)).worst, target)
    seen: dict[float, tuple[float, float]] = {}

    def price(high: float) -> float:
        def worst(other: float) -> float:
            return losses(Flips(high, -other)).worst

        # At −0 the loss is that of `high` alone, within the target; it rises with the other ratio.
        reach = _largest_ratio(worst, target)
        seen[high] = _cheapest(high, -reach, cost)
        return cost[0] * seen[high][0] + cost[1] * seen[high][1]

    tried = [most * n / _TRIALS for n in range(1, _TRIALS + 1)]
    best = min(tried, key=price)
    step = most / _TRIALS
    optimize.minimize_scalar(price, bounds=(max(best - step, step * 1e-3), min(best + step, most)), method="bounded")
    return min(seen.values(), key=lambda p: cost[0] * p[0] + cost[1] * p[1])


def _largest_ratio(loss: Callable[[float], float], target: float) -> float:
    """The largest ratio up to ``target`` whose loss is within it; 0 is taken to be."""
    from scipy import optimize

    if loss(target) <= target:
        return target
    if loss(0.0) >= target:
        return 0.0
    root = float(optimize.brentq(lambda h: min(loss(h) - target, 1.0), 0.0, target, xtol=target * 1e-12, rtol=1e-12))
    return max(0.0, root - target * 4e-12)


def least_rho(chain: MarkovChain, epsilon: float, length: int | None, adversary: Adversary) -> float:
    """The least ρ = ρ0 = ρ1."""
    target = min(epsilon, _LOUDEST) * (1 - _INSIDE)
    h = largest(lambda h: class_loss([chain], Flips(h, -h), length, adversary).worst, target)
    return 1 / (1 + math.exp(h))


# ---- closed forms of Chakrabarti et al. (2020), lazy chains, adversary who knows no record, endless series ----


def closed_loss(q: float, r: float, rho0: float, rho1: float) -> FlipLoss:
    """Theorem 1: a²/(c·d) for both directions. Needs 0 < q, r, ρ0, ρ1 < ½."""

    def one_way(q: float, r: float, rho0: float, rho1: float) -> float:
        x, y = (1 - rho0) * (1 - q), rho1 * (1 - r)
        a = math.sqrt((x - y) ** 2 + 4 * q * r * (1 - rho0) * rho1) + x - y
        return math.log(a * a / (4 * r * r * rho1 * (1 - rho0)))

    return FlipLoss(one_way(q, r, rho0, rho1), one_way(r, q, rho1, rho0))


def closed_rho(theta: float, epsilon: float) -> float:
    """Corollary 2: a ρ that suffices for q = r = θ and an adversary who knows no record. Not for every adversary."""
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


_INSIDE_SIMPLEX: Final = 1e-9
_LEAST: Final = 1e-9
"""A record kept with a smaller probability than this tells nothing."""
_NEAR: Final = 1e-6
_CHANNEL_TRIALS: Final = 40
_SHORT: Final = 12
"""Length of the series while a law is searched for."""
_COARSE: Final = 1
"""Products of matrices while a law is searched for: a looser bound, quickly."""


def keep_or_draw(law: npt.ArrayLike, lam: float) -> Matrix:
    """Keep a record with probability 1−λ, otherwise draw from the law."""
    mu = np.asarray(law, dtype=float)
    return np.asarray((1 - lam) * np.eye(len(mu)) + lam * mu[None, :])


def expected_noise(chains: Sequence[MarkovChain], channel: Matrix) -> float:
    """The share of records that change, in the long run, for the chain where it is largest."""
    return max(float(chain.stationary @ (1 - np.diag(channel))) for chain in chains)


def upper_loss(
    chains: Sequence[MarkovChain], channel: Matrix, length: int | None, adversary: Adversary, **how: int
) -> float:
    """The upper end of the bracket for the worst chain."""
    return max(channel_loss(chain, channel, length, adversary, **how).upper for chain in chains)


def least_response(chains: Sequence[MarkovChain], epsilon: float, length: int | None, adversary: Adversary) -> Matrix:
    """K-ary randomised response with the least noise that keeps the promise for every chain."""
    return _least(np.full(chains[0].size, 1 / chains[0].size), chains, epsilon, length, adversary, _NEAR)


def better_channel(chains: Sequence[MarkovChain], epsilon: float, length: int | None, adversary: Adversary) -> Matrix:
    """A channel with less expected noise for these chains, where the search finds one; never with more.

    A record must be as likely to stay as to become any one other state, as with flips of at most ½: an output that is
    always the same changes few records of a state that is common, and is of no use.
    """
    from scipy import optimize

    k = chains[0].size
    plain = least_response(chains, epsilon, length, adversary)

    def law(logits: npt.NDArray[np.float64]) -> Matrix:
        weights = np.exp(np.append(logits, 0.0) - max(0.0, *logits))
        return np.asarray(0.999 * weights / weights.sum() + 0.001 / k)

    def cost(logits: npt.NDArray[np.float64]) -> float:
        mu = law(logits)
        most = 1 / (1 + mu.max() - mu.min())
        near = _SHORT if length is None else min(length, _SHORT)
        if upper_loss(chains, keep_or_draw(mu, most), near, adversary, products=_COARSE) > epsilon:
            return 1.0
        return expected_noise(chains, _least(mu, chains, epsilon, near, adversary, 1e-3, products=_COARSE))

    start = np.log(chains[0].stationary[:-1] + 1e-3) - np.log(chains[0].stationary[-1] + 1e-3)
    first = min((np.zeros(k - 1), start), key=cost)
    searched = optimize.minimize(
        cost, first, method="Nelder-Mead", options={"maxfev": _CHANNEL_TRIALS, "xatol": 1e-2, "fatol": 1e-4}
    )
    tried = _least(law(searched.x), chains, epsilon, length, adversary, _NEAR)
    stays = bool((np.diag(tried)[:, None] >= tried).all())
    return min([plain, tried] if stays else [plain], key=lambda channel: expected_noise(chains, channel))


def _least(
    law: Matrix,
    chains: Sequence[MarkovChain],
    epsilon: float,
    length: int | None,
    adversary: Adversary,
    near: float,
    **how: int,
) -> Matrix:
    """The least λ for a law, up to ``near``, by its upper end; the λ returned keeps the promise."""
    from scipy import optimize

    target = epsilon * (1 - _INSIDE_SIMPLEX)
    seen: dict[float, float] = {}

    def over(keep: float) -> float:
        if keep not in seen:
            seen[keep] = min(upper_loss(chains, keep_or_draw(law, 1 - keep), length, adversary, **how), 10 * target)
        return seen[keep] - target

    if over(_LEAST) > 0:
        raise NotApplicableError(
            "no channel short of pure noise keeps this promise: the model lets a record show in all others forever; "
            "use a chain that mixes, or give the length of the series"
        )
    low, high = 0.5, 1.0
    while over(low) > 0:
        low, high = low / 2, low
    if high == 1.0:
        while over(tried := 1 - (1 - low) / 16) <= 0:  # little noise: close in on 1 from below
            low = tried
        high = tried
    optimize.brentq(over, low, high, xtol=min(low, 1 - low) * near, rtol=1e-12)
    keep = max(k for k, loss in seen.items() if loss <= target)
    return keep_or_draw(law, 1 - keep)
