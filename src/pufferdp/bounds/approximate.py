"""Approximate DP on correlated data: any (τ, δ)-DP algorithm leaks at most (q, δ·(e^q − 1)/(e^τ − 1)), q = q*(τ).

Proof (Theorem 3). The dual of the programme behind q gives a plan that turns the distribution given x into that given
x', moves data sets at a price of e^{τd} for d records that differ, and costs no more than e^q. Group privacy says
P(E|X) ≤ e^{τd} P(E|X') + δ(e^{τd} − 1)/(e^τ − 1); average over the plan. It is reached where all losses are equal.
Any curve that bounds q* may stand in its place, with its own larger q in the formula: both numbers of the pair grow.

So accountants do their work for DP, and their privacy profile is carried over once, at the end. The profile δ(τ) of one
algorithm is a convex function of e^τ, so that between two pairs it lies below their chord.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import ParameterError
from pufferdp.bounds.inverse import LeakageBound, largest_loss
from pufferdp.bounds.tight import inputs

_PAIRS: Final = 500
"""Pairs of a profile of zCDP, down to a delta of 1e-15: a chord between two of them is at most 0.3 % too high."""
_ROUNDING: Final = 1e-14
"""More than the rounding of a quotient of a few exponentials, as a share of it; counted against the guarantee."""


@dataclass(frozen=True)
class Approximate:
    """A guarantee against an adversary who knows the correlation."""

    epsilon: float
    delta: float
    dp_loss: float
    """The pair of the algorithm's profile behind it."""
    dp_delta: float


def carried_delta(loss: float, delta: float, epsilon: float) -> float:
    """δ·(e^ε − 1)/(e^τ − 1), at most 1; as τ goes to 0 with ε this is δ·ε/τ.

    >>> round(carried_delta(0.25, 1e-3, 0.721810), 6)
    0.003726
    """
    if delta == 0 or epsilon <= 0:
        return 0.0
    if loss <= 0 or epsilon - loss > 600:
        return 1.0
    return min(1.0, delta / _share(loss, epsilon) * (1 + _ROUNDING))


def _share(loss: float, epsilon: float) -> float:
    """(e^τ − 1)/(e^ε − 1), also where a double cannot hold either of them."""
    return math.exp(loss - epsilon) * (math.expm1(-loss) / math.expm1(-epsilon))


def approximate_leakage(leakage: Callable[[float], float], loss: float, delta: float) -> Approximate:
    """What any (loss, delta)-DP algorithm leaks, as (epsilon, delta).

    A loss of 0 is read as a very small one: an algorithm that is (0, δ)-DP is (τ, δ)-DP for every τ.
    """
    tau, failing = inputs.loss(loss), checks.delta(delta)
    used = max(tau, 1e-8) if failing > 0 else tau
    epsilon = leakage(used)
    return Approximate(epsilon, carried_delta(used, failing, epsilon), tau, failing)


@dataclass(frozen=True, eq=False)
class PrivacyProfile:
    """Pairs (loss, delta) that all hold for one algorithm, losses rising and deltas falling."""

    losses: Floats
    deltas: Floats

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]] | npt.ArrayLike) -> PrivacyProfile:
        """From pairs in any order.

        >>> PrivacyProfile.of([(0.5, 1e-3), (1.0, 1e-5)]).delta(0.5)
        0.001
        """
        try:
            table = np.asarray(pairs, dtype=float)
        except (TypeError, ValueError):
            raise ParameterError("the profile must be pairs of numbers, a loss and a delta each", value=pairs) from None
        if table.ndim != 2 or table.shape[1] != 2 or len(table) == 0:
            raise ParameterError(
                f"the profile has the shape {table.shape}; it must be pairs (loss, delta), one or more", value=pairs
            )
        table = table[np.argsort(table[:, 0], kind="stable")]
        for loss, delta in table.tolist():
            inputs.loss(loss, "a loss of the profile")
            checks.delta(delta, f"the delta of the profile at loss {loss:g}")
        same = np.flatnonzero(np.diff(table[:, 0]) == 0)
        if len(same):
            raise ParameterError(
                f"the profile has two deltas for the loss {table[same[0], 0]:g}; give each loss once", value=pairs
            )
        rises = np.flatnonzero(np.diff(table[:, 1]) > 0)
        if len(rises):
            at = int(rises[0])
            raise ParameterError(
                f"the profile rises from delta {table[at, 1]:g} at loss {table[at, 0]:g} to {table[at + 1, 1]:g} at "
                f"{table[at + 1, 0]:g}; a larger loss never needs a larger delta: leave out the larger delta",
                value=float(table[at + 1, 1]),
            )
        return cls(table[:, 0], table[:, 1])

    @classmethod
    def of_zcdp(cls, rho: float) -> PrivacyProfile:
        """The profile of any algorithm with ρ-zCDP (Bun & Steinke 2016; Canonne, Kamath & Steinke 2020, Prop. 7)."""
        number = inputs.target(rho, "rho")
        most = number + 2 * math.sqrt(number * math.log(1e15))
        losses = np.linspace(most / _PAIRS, most, _PAIRS)
        deltas = np.minimum.accumulate([_zcdp_delta(number, float(loss)) for loss in losses])
        return cls(losses[deltas < 1], deltas[deltas < 1])

    def delta(self, loss: float) -> float:
        """The delta at a loss: on the chord between two pairs, 1 below the first, the last one beyond the last."""
        tau = inputs.loss(loss)
        if tau < self.losses[0]:
            return 1.0
        at = int(np.searchsorted(self.losses, tau, side="right")) - 1
        if at == len(self.losses) - 1 or tau == self.losses[at]:
            return float(self.deltas[at])
        low, high = float(self.losses[at]), float(self.losses[at + 1])
        share = math.expm1(tau - low) / math.expm1(high - low)
        return float((1 - share) * self.deltas[at] + share * self.deltas[at + 1]) * (1 + 1e-15)

    def grid(self) -> list[float]:
        """Losses that are worth trying: the given ones, and up to 16 between each two."""
        between = max(1, min(16, 400 // len(self.losses)))
        places = np.linspace(0, len(self.losses) - 1, (len(self.losses) - 1) * (between + 1) + 1)
        tries = np.interp(places, np.arange(len(self.losses)), self.losses)
        return sorted({*self.losses.tolist(), *tries.tolist()} - {0.0})


def _zcdp_delta(rho: float, loss: float) -> float:
    """Inf over α > 1 of exp((α − 1)(αρ − ε)) / (α − 1) · (1 − 1/α)^α, where the slope of its logarithm is 0."""
    from scipy.optimize import brentq

    def slope(alpha: float) -> float:
        return (2 * alpha - 1) * rho - loss + math.log1p(-1 / alpha)

    low, high = 1 + 1e-6, 1 + loss / (2 * rho) + 1 / math.sqrt(2 * rho)
    alpha = brentq(slope, low, high) if slope(low) < 0 else low
    exponent = (alpha - 1) * (alpha * rho - loss) - math.log(alpha - 1) + alpha * math.log1p(-1 / alpha)
    return math.exp(exponent) * (1 + 1e-12) if exponent < 0 else 1.0


def least_epsilon(curve: LeakageBound, profile: PrivacyProfile, delta: float) -> Approximate | None:
    """The smallest epsilon found to hold with at most this delta; None where no pair of the profile has one."""
    wanted, low, leaked, best = checks.delta(delta), float(profile.losses[0]), 0.0, None
    for loss in profile.grid():
        # q never falls: most losses are ruled out by what a smaller one leaks, without asking the curve.
        if carried_delta(loss, profile.delta(loss), leaked) <= wanted:
            tried = _carried(curve, profile, loss)
            if tried.delta <= wanted:
                best = tried
                break
            leaked = tried.epsilon
        low = loss
    # A larger loss leaks more, so the first that fits is the best; between it and the one before lie better ones.
    while best is not None and best.dp_loss - low > 1e-4 * best.dp_loss:
        tried = _carried(curve, profile, (low + best.dp_loss) / 2)
        if tried.delta <= wanted:
            best = tried
        else:
            low = tried.dp_loss
    return best


def least_delta(curve: LeakageBound, profile: PrivacyProfile, epsilon: float) -> Approximate | None:
    """The smallest delta that was found to hold with this epsilon; None where every pair of the profile leaks more."""
    most = curve.inverse(inputs.target(epsilon))
    if most <= 0 or most < profile.losses[0]:
        return None
    best, leaked = _carried(curve, profile, most), 0.0
    for loss in profile.grid():
        if loss < most and carried_delta(loss, profile.delta(loss), leaked) < best.delta:
            tried = _carried(curve, profile, loss)
            best, leaked = min(best, tried, key=lambda pair: pair.delta), tried.epsilon
    return best


def _carried(leakage: LeakageBound, profile: PrivacyProfile, loss: float) -> Approximate:
    failing, epsilon = profile.delta(loss), leakage(loss)
    return Approximate(epsilon, carried_delta(loss, failing, epsilon), loss, failing)


def allowed_loss(curve: LeakageBound, epsilon: float, delta: float) -> tuple[float, float]:
    """The (loss, delta) that an algorithm may spend so that (epsilon, delta) holds; (0, 0) where there is none."""
    allowed, failing = inputs.target(epsilon), checks.delta(delta)
    loss = curve.inverse(allowed)
    if loss <= 0:
        return 0.0, 0.0
    return loss, _spent_delta(loss, curve(loss), failing)


def _spent_delta(loss: float, epsilon: float, delta: float) -> float:
    """The delta of DP that is carried over to this one; never more than it."""
    return delta if epsilon <= loss else delta * _share(loss, epsilon) * (1 - _ROUNDING)


@dataclass(frozen=True)
class ZCdpBudget:
    """What an algorithm may spend, as ρ of zCDP, and the pair (loss, delta) through which it is carried over."""

    rho: float
    loss: float
    delta: float


def largest_zcdp(curve: LeakageBound, epsilon: float, delta: float) -> ZCdpBudget | None:
    """The largest ρ, with the pair of its profile that keeps the guarantee; None where there is none."""
    allowed, failing = inputs.target(epsilon), checks.delta(delta)
    most = curve.inverse(allowed)
    if most <= 0 or failing <= 0:
        return None
    # A smaller loss leaks less but fails more often: the best one is near the largest.
    losses = [most, *(most * share for share in (0.97, 0.9, 0.75))]
    headroom = [(loss, _spent_delta(loss, curve(loss), failing)) for loss in losses]

    def fitting(rho: float) -> tuple[float, float] | None:
        return next((pair for pair in headroom if _zcdp_delta(rho, pair[0]) <= pair[1]), None)

    rho = largest_loss(lambda rho: math.inf if fitting(rho) is None else rho, allowed)
    pair = fitting(rho) if rho > 0 else None
    return None if pair is None else ZCdpBudget(rho, *pair)
