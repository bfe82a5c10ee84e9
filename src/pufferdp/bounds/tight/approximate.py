"""Approximate DP on correlated data: any (τ, δ)-DP algorithm leaks at most (q, δ·(e^q − 1)/(e^τ − 1)), q = q*(τ).

Proof (Theorem 3). The dual of the programme behind q gives a plan that turns the law given x into that given x', moves
data sets at a price of e^{τd} for d records that differ, and costs no more than e^q. Group privacy says
P(E|X) ≤ e^{τd} P(E|X') + δ(e^{τd} − 1)/(e^τ − 1); average over the plan. It is reached where all losses are equal.
Any curve that bounds q* may stand in its place, with its own larger q in the formula: both numbers of the pair grow.

So accountants do their work for DP, and their privacy profile is carried over once, at the end. The profile δ(τ) of one
algorithm is a convex function of e^τ, so that between two pairs it lies below their chord.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import ParameterError
from pufferdp.bounds.inverse import largest_loss
from pufferdp.bounds.tight import inputs

_BETWEEN: Final = 16
"""Losses that are tried between two pairs of a profile."""
_PAIRS: Final = 500
"""Pairs of a profile of zCDP, down to a delta of 1e-15: a chord between two of them is at most 0.3 % too high."""
_HALVINGS: Final = 30
"""Between the last loss that fails too often and the first that does not."""
_ROUNDING: Final = 1e-14
"""More than the rounding of a quotient of a few exponentials, as a share of it; counted against the promise."""
_SMALL: Final = 1e-8
"""The slope at 0 is read at this loss."""


class Invertible(Protocol):
    """A curve with its inverse, as TightCurve and OddsCurve are."""

    def __call__(self, loss: float, /) -> float:
        """The most that is leaked with a DP loss on every record."""

    def inverse(self, epsilon: float, /) -> float:
        """The largest loss that leaks at most epsilon."""


Leakage = Callable[[float], float]
"""q*: the DP loss of all records to the most that is leaked, as TightCurve and OddsCurve have it."""


@dataclass(frozen=True)
class Approximate:
    """A promise towards somebody who knows the correlation."""

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


def approximate_leakage(leakage: Leakage, loss: float, delta: float) -> Approximate:
    """What any (loss, delta)-DP algorithm leaks, as (epsilon, delta).

    A loss of 0 is read as a very small one: an algorithm that is (0, δ)-DP is (τ, δ)-DP for every τ.
    """
    tau, failing = inputs.loss(loss), checks.delta(delta)
    used = max(tau, _SMALL) if failing > 0 else tau
    epsilon = leakage(used)
    return Approximate(epsilon, carried_delta(used, failing, epsilon), tau, failing)


def approximate_of_losses(epsilon: float, losses: npt.ArrayLike, deltas: npt.ArrayLike) -> float:
    """The delta beside a leakage that holds for these losses, where records have losses and deltas of their own.

    max over t of δ_t/(e^τ_t − 1) · (e^ε − 1): sound, and not always reached. A record without loss must have no delta.
    """
    spent = inputs.losses(losses)
    failing = np.array([checks.delta(d, f"the delta of record {t + 1:,}") for t, d in enumerate(np.ravel(deltas))])
    if len(failing) != len(spent):
        raise ParameterError(
            f"deltas has {len(failing):,} numbers and losses {len(spent):,}; give one of each a record", value=deltas
        )
    bad = np.flatnonzero((spent == 0) & (failing > 0))
    if len(bad):
        raise ParameterError(
            f"record {int(bad[0]) + 1:,} has a loss of 0 and a delta of {failing[bad[0]]:g}; give it a small loss, for "
            "example 1e-3, or no delta",
            value=float(failing[bad[0]]),
        )
    found = [carried_delta(float(t), float(d), epsilon) for t, d in zip(spent, failing, strict=True) if d > 0]
    return max(found, default=0.0)


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
    def of_zcdp(cls, rho: float, losses: npt.ArrayLike | None = None) -> PrivacyProfile:
        """The profile of any algorithm with ρ-zCDP (Bun & Steinke 2016; Canonne, Kamath & Steinke 2020, Prop. 7)."""
        number = inputs.target(rho, "rho")
        if losses is None:
            most = number + 2 * math.sqrt(number * math.log(1e15))
            grid = np.linspace(most / _PAIRS, most, _PAIRS)
        else:
            grid = inputs.losses(losses)
        deltas = np.minimum.accumulate([_zcdp_delta(number, float(loss)) for loss in np.sort(grid)])
        keep = deltas < 1
        if not keep.any():
            raise ParameterError(
                f"rho is {number:g}; no delta below 1 holds at these losses: try larger ones", value=rho
            )
        return cls(np.sort(grid)[keep], deltas[keep])

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
        """Losses that are worth trying: the given ones, and some between each two."""
        out = [float(loss) for loss in self.losses]
        if len(out) > 1:
            many = max(1, min(_BETWEEN, 400 // len(out)))
            for low, high in zip(self.losses[:-1], self.losses[1:], strict=True):
                out += [float(loss) for loss in np.linspace(low, high, many + 2)[1:-1]]
        return sorted(loss for loss in out if loss > 0)


def _zcdp_delta(rho: float, loss: float) -> float:
    """Inf over α > 1 of exp((α − 1)(αρ − ε)) / (α − 1) · (1 − 1/α)^α: any α is sound, the best is looked for."""

    def log_delta(log_excess: float) -> float:
        excess = math.exp(log_excess)
        alpha = 1 + excess
        return excess * (alpha * rho - loss) - log_excess + alpha * math.log1p(-1 / alpha)

    low, high = math.log(1e-6), math.log(max(4 * (loss / rho + 1), 4.0) + 1e3)
    for _ in range(90):  # the exponent is convex in α: one minimum, by golden sections
        first, second = high - 0.618034 * (high - low), low + 0.618034 * (high - low)
        if log_delta(first) < log_delta(second):
            high = second
        else:
            low = first
    best = min(log_delta(low), log_delta(high))
    return min(1.0, math.exp(best) * (1 + 1e-12)) if best < 0 else 1.0


def least_epsilon(curve: Invertible, profile: PrivacyProfile, delta: float) -> Approximate | None:
    """The smallest epsilon that was found to hold with at most this delta; None where no pair of the profile has one.

    Args:
        curve: q*, or a bound of it.
        profile: of the algorithm.
        delta: that is wanted.
    """
    wanted = checks.delta(delta)
    tries = _Tries(curve, profile)
    best = tries.first(wanted)
    if best is None:
        return None
    # A larger loss leaks more, so the first that fits is the best; between it and the one before lie better ones.
    at = tries.losses.index(best.dp_loss)
    low = tries.losses[at - 1] if at else best.dp_loss
    for _ in range(_HALVINGS if at else 0):
        tried = _carried(curve, profile, (low + best.dp_loss) / 2)
        if tried.delta <= wanted:
            best = tried
        else:
            low = tried.dp_loss
    return best


def least_delta(curve: Invertible, profile: PrivacyProfile, epsilon: float) -> Approximate | None:
    """The smallest delta that was found to hold with this epsilon; None where every pair of the profile leaks more."""
    allowed = inputs.target(epsilon)
    return _Tries(curve, profile, curve.inverse(allowed)).least()


class _Tries:
    """Losses of a profile in rising order, each carried over at most once.

    q never falls, so at every loss behind τ the delta is at least δ·(e^q(τ) − 1)/(e^loss − 1): most losses are ruled
    out without asking the curve.
    """

    def __init__(self, curve: Invertible, profile: PrivacyProfile, most: float = math.inf) -> None:
        self.curve, self.profile = curve, profile
        inside = [most] if profile.losses[0] <= most < math.inf else []
        self.losses = sorted({*(loss for loss in profile.grid() if loss <= most), *inside} - {0.0})
        self._deltas = [profile.delta(loss) for loss in self.losses]
        # Some algorithm tells one record with a loss of τ: q(τ) ≥ τ, but for data without any secret, where q is 0.
        self._secrets = bool(self.losses) and curve(self.losses[-1]) > 0

    def first(self, wanted: float) -> Approximate | None:
        """The smallest loss whose delta is at most the one that is wanted."""
        return self._first(0, len(self.losses), 0.0, wanted)

    def least(self) -> Approximate | None:
        """The loss whose delta is smallest."""
        if not self.losses:
            return None
        # The largest loss first: it is the best, but for profiles that hardly fall.
        last = len(self.losses) - 1
        return self._least(0, last, 0.0, self._try(last))

    def _first(self, begin: int, end: int, leaked: float, wanted: float) -> Approximate | None:
        hopeful = [at for at in range(begin, end) if self._bound(at, leaked) <= wanted]
        if not hopeful:
            return None
        middle = (hopeful[0] + hopeful[-1] + 1) // 2
        tried = self._try(middle)
        before = self._first(hopeful[0], middle, leaked, wanted)
        if before is not None:
            return before
        return tried if tried.delta <= wanted else self._first(middle + 1, end, tried.epsilon, wanted)

    def _least(self, begin: int, end: int, leaked: float, best: Approximate) -> Approximate:
        hopeful = [at for at in range(begin, end) if self._bound(at, leaked) < best.delta]
        if not hopeful:
            return best
        middle = (hopeful[0] + hopeful[-1] + 1) // 2
        tried = self._try(middle)
        best = tried if tried.delta < best.delta else best
        best = self._least(middle + 1, end, tried.epsilon, best)
        return self._least(begin, middle, leaked, best)

    def _try(self, at: int) -> Approximate:
        return _carried(self.curve, self.profile, self.losses[at])

    def _bound(self, at: int, leaked: float) -> float:
        """A delta that the loss has at least, where a smaller one leaks so much."""
        least = max(leaked, self.losses[at]) if self._secrets else 0.0
        return carried_delta(self.losses[at], self._deltas[at], least) * (1 - 1e-12)


def _carried(leakage: Leakage, profile: PrivacyProfile, loss: float) -> Approximate:
    failing, epsilon = profile.delta(loss), leakage(loss)
    return Approximate(epsilon, carried_delta(loss, failing, epsilon), loss, failing)


def allowed_loss(curve: Invertible, epsilon: float, delta: float) -> tuple[float, float]:
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


def largest_zcdp(curve: Invertible, epsilon: float, delta: float) -> ZCdpBudget | None:
    """The largest ρ, with the pair of its profile that keeps the promise; None where there is none."""
    allowed, failing = inputs.target(epsilon), checks.delta(delta)
    most = curve.inverse(allowed)
    if most <= 0 or failing <= 0:
        return None
    # A smaller loss leaks less but fails more often: the best one is near the largest.
    losses = [most, *(most * share for share in (0.97, 0.9, 0.75))]
    room = [(loss, _spent_delta(loss, curve(loss), failing)) for loss in losses]

    def fitting(rho: float) -> tuple[float, float] | None:
        return next((pair for pair in room if _zcdp_delta(rho, pair[0]) <= pair[1]), None)

    rho = largest_loss(lambda rho: math.inf if fitting(rho) is None else rho, allowed)
    pair = fitting(rho) if rho > 0 else None
    return None if pair is None else ZCdpBudget(rho, *pair)
