"""How much more a clipped sum leaks about one record when the records are jointly normal.

Changing record i by d shifts the mean of the unknown records U by d·Σ_{U,A} Σ_A^{-1} e_i, where A is i with the known
records K; nothing else of their law changes. So an algorithm that loses tau/M for every unit that the records move in
L1 (a sum clipped to a width of M, with Laplace noise) leaks at most factor·tau about two values that lie at most M
apart, and the factor is 1 plus the L1 norm of the shift (Lange 2024, Proposition 6.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pufferdp.checks import Adversary
from pufferdp.errors import NotApplicableError
from pufferdp.leakage.shifts import MOST_ENUMERATED, Floats, Shift, bracket, enumerate_all, nothing_known
from pufferdp.models.junction import connected


@dataclass(frozen=True)
class ShiftFactor:
    """The factor of the worst adversary over one covariance matrix: between lower and upper, for certain."""

    lower: float
    """What the adversary below reaches, less rounding."""
    upper: float
    """What no adversary passes, rounding added."""
    target: int
    """The record that this adversary wants, counted from 0."""
    known: tuple[int, ...]
    """The records that they know."""
    exact: bool
    """True: lower and upper differ by rounding alone. False: they are a bracket."""


def thesis_factor(n: int, rho: float) -> float:
    """n²/(4(1/ρ−n+2)) + 1 for n records of equal variance and |Pearson| at most rho (Lange 2024, Theorem 6.2).

    The theorem needs three records or more; for two its formula is 1+ρ, which is what two records reach.
    """
    _limited(n, rho)
    if n == 1 or rho == 0:
        return 1.0
    return _rounded_up(Fraction(n**2) / (4 * (1 / Fraction(rho) - n + 2)) + 1)


def class_factor(n: int, rho: float, adversary: Adversary = Adversary.BDP, spread: float = 1.0) -> float:
    """The largest factor that n records with |Pearson| at most rho can have: 1+(n−1)ρ where ρ ≤ 1/(n−1).

    With k records known, Σ_A is strictly diagonally dominant, so a column of its inverse has an L1 norm of at most
    1/((1−kρ)σ²) (Varah 1975), and the n−k−1 unknown records shift by at most (n−k−1)ρ/(1−kρ) together. The expression
    is monotone in k. Whoever knows nothing has k = 0, for any rho.

    Args:
        n: records.
        rho: limit of |Pearson| between any two.
        adversary: whom the bound is for.
        spread: the largest over the least standard deviation; shifts grow by no more than that.
    """
    if n == 1 or rho == 0 or adversary is Adversary.DP:
        return 1.0
    most = Fraction(rho)  # exact, since 1−kρ may be next to nothing
    if adversary is Adversary.PUFFERFISH:
        return _rounded_up(1 + Fraction(spread) * (n - 1) * most)
    _limited(n, rho)
    return _rounded_up(1 + Fraction(spread) * max((n - k - 1) * most / (1 - k * most) for k in {0, n - 2}))


def _rounded_up(value: Fraction) -> float:
    return float(value) if Fraction(float(value)) >= value else math.nextafter(float(value), math.inf)


def _limited(n: int, rho: float) -> None:
    if n > 2 and Fraction(rho) * (n - 2) >= 1:
        raise NotApplicableError(
            f"the largest correlation is {rho:.6g}; over {n} records it must be below 1/{n - 2} = {1 / (n - 2):.6g}",
            value=rho,
        )


def shift_factor(covariance: Floats, adversary: Adversary) -> ShiftFactor:
    """1 + the largest L1 norm of a shift, over all adversaries (K, i) of the kind.

    Records that hang together are taken apart from the rest. Sets of up to 15 are enumerated: all 2^15 of them in about
    a second, with the rounding of each bounded through its residual. Larger ones get a bracket: below, the best of a
    search over K; above, a bound that is proved (``leakage/shifts.py``). Who knows nothing needs no search.

    Args:
        covariance: a positive definite matrix.
        adversary: what may be known.
    """
    sigma = np.asarray(covariance, dtype=float)
    n = len(sigma)
    if adversary is Adversary.DP:
        return ShiftFactor(1.0, 1.0, 0, tuple(range(1, n)), True)
    lower, upper, exact = _Worst(), 1.0, True
    for where in connected([np.flatnonzero(row).tolist() for row in sigma]):
        found = _of_component(sigma[np.ix_(where, where)], adversary)
        if found.lower > lower.value:
            target, known = int(where[found.target]), tuple(int(where[j]) for j in found.known)
            lower = _Worst(found.lower, target, known)
        if found.upper > upper:
            upper, exact = found.upper, found.exact
    return ShiftFactor(1 + lower.value, upper, lower.target, lower.known, exact)


@dataclass(frozen=True)
class _Worst:
    value: float = 0.0
    target: int = 0
    known: tuple[int, ...] = ()


def _of_component(sigma: Floats, adversary: Adversary) -> Shift:
    first = nothing_known(sigma)
    if adversary is Adversary.PUFFERFISH or len(sigma) == 1:
        return first
    if len(sigma) <= MOST_ENUMERATED:
        return enumerate_all(sigma)
    return bracket(sigma, first)
