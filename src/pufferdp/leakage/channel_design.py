"""The least noise that keeps a promise for many states: k-ary randomised response, or a channel made for the chain.

Every channel here keeps a record with probability 1−λ and otherwise draws a state from a law μ: uniform for k-ary
randomised response. A larger λ is the same as passing the output through another such channel, so the true loss falls
with λ. Only upper ends of brackets are calibrated to, and the channel that is returned was looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize

from pufferdp.checks import Adversary
from pufferdp.errors import NotApplicableError
from pufferdp.leakage.channels import channel_loss
from pufferdp.models.markov import MarkovChain, Matrix

_INSIDE: Final = 1e-9
_LEAST: Final = 1e-9
"""A record kept with a smaller probability than this tells nothing."""
_NEAR: Final = 1e-6
_TRIALS: Final = 40
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
    searched = minimize(cost, first, method="Nelder-Mead", options={"maxfev": _TRIALS, "xatol": 1e-2, "fatol": 1e-4})
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
    target = epsilon * (1 - _INSIDE)
    seen: dict[float, float] = {}

    def over(keep: float) -> float:
        if keep not in seen:
            seen[keep] = min(upper_loss(chains, keep_or_draw(law, 1 - keep), length, adversary, **how), 10 * target)
        return seen[keep] - target

    if over(_LEAST) > 0:
        raise NotApplicableError(
            "no channel short of pure noise keeps this promise: the model lets a record show in all others for ever; "
            "use a chain that mixes, or give the length of the series"
        )
    low, high = 0.5, 1.0
    while over(low) > 0:
        low, high = low / 2, low
    if high == 1.0:
        while over(tried := 1 - (1 - low) / 16) <= 0:  # little noise: close in on 1 from below
            low = tried
        high = tried
    brentq(over, low, high, xtol=min(low, 1 - low) * near, rtol=1e-12)
    keep = max(k for k, loss in seen.items() if loss <= target)
    return keep_or_draw(law, 1 - keep)
