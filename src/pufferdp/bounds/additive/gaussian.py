"""How much more a clipped sum leaks about one record when records are jointly normal than when they are independent.

Changing record i by d shifts the mean of the unknown records U by d·Σ_{U,A} Σ_A^{-1} e_i, where A is i with the known
records K; their covariance stays. An algorithm that loses tau/M for every unit that the records move in L1 (a sum
clipped to a width of M, with Laplace noise) leaks at most factor·tau about two values at most M apart. The factor is 1
plus the L1 norm of the shift (Lange 2024, Proposition 6.1).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import NotApplicableError
from pufferdp.models.inference import connected

_MOST_ENUMERATED: Final = 15
"""All sets of known records are enumerated for up to this many records: 2^15 sets take a second."""
_MOST_ROUNDS: Final = 10_000
"""Rounds of the iteration for weights of diagonal dominance: a tenth of a second; few matrices need more than 100."""
_EPS: Final = 2.0**-52
"""Twice the rounding error of one operation; a sum of n products is off by less than n times this."""


@dataclass(frozen=True)
class ShiftFactor:
    """A bracket around the factor of the worst-case adversary over one covariance matrix."""

    lower: float
    """The factor that the adversary below reaches, less rounding."""
    upper: float
    """An upper bound for every adversary, rounding added."""
    target: int
    """The record that this adversary wants to know, counted from 0."""
    known: tuple[int, ...]
    """The records that this adversary knows."""
    exact: bool
    """Whether lower and upper differ by rounding alone."""


@dataclass(frozen=True, eq=False)
class _Scaled:
    """A covariance matrix with every record divided by a power of 2, so that variances lie between 1 and 4."""

    sigma: Floats
    weight: Floats
    """The power of 2 that each record was divided by."""
    least: float
    """A lower bound on the least eigenvalue of ``sigma``."""


def shift_factor(covariance: Floats, adversary: Adversary) -> ShiftFactor:
    """1 + the largest L1 norm of a shift, over all adversaries (K, i).

    Sets of correlated records are treated separately. Sets of up to 15 records are enumerated, with the rounding error
    of each shift bounded through its residual. Larger ones get a bracket: the adversary who knows no record below, a
    proved bound above.

    Args:
        covariance: a positive definite matrix.
        adversary: ``bdp`` (any K), ``pufferfish`` (K empty) or ``dp`` (all others known).
    """
    sigma = np.asarray(covariance, dtype=float)
    worst = ShiftFactor(1.0, 1.0, 0, () if adversary is not Adversary.DP else tuple(range(1, len(sigma))), True)
    if adversary is Adversary.DP:
        return worst
    for where in connected([np.flatnonzero(row).tolist() for row in sigma]):
        block = sigma[np.ix_(where, where)]
        if adversary is Adversary.PUFFERFISH or len(block) == 1:
            factor = nothing_known(block)
        else:
            factor = (enumerate_all if len(block) <= _MOST_ENUMERATED else bracket)(block)
        lower, target, known = worst.lower, worst.target, worst.known
        if factor.lower > lower:
            lower, target = factor.lower, int(where[factor.target])
            known = tuple(int(where[j]) for j in factor.known)
        upper, exact = max((worst.upper, worst.exact), (factor.upper, factor.exact), key=lambda end: end[0])
        worst = ShiftFactor(lower, upper, target, known, exact)
    return worst


def nothing_known(sigma: Floats) -> ShiftFactor:
    """The factor of the adversary who knows no record: 1 + max over i of Σ_u |Σ_ui|/Σ_ii."""
    shifts = (np.abs(sigma).sum(axis=0) - np.diag(sigma)) / np.diag(sigma)
    i = int(shifts.argmax())
    spare = (len(sigma) + 4) * _EPS * (1 + float(shifts[i]))
    return ShiftFactor(1 + max(0.0, float(shifts[i]) - spare), 1 + float(shifts[i]) + spare, i, (), True)


def enumerate_all(sigma: Floats) -> ShiftFactor:
    """The factor over every set of known records and every target, with a bound on the rounding of each shift.

    The computed W = Σ_A^{-1} Σ_{A,U} has a residual E = Σ_A W − Σ_{A,U}. Its error is Σ_A^{-1} E, and no eigenvalue of
    Σ_A^{-1} is above 1/λ_min(Σ): the eigenvalues of a principal submatrix lie between those of the matrix.
    """
    n, scaled = len(sigma), _scale(sigma)
    weight, norm = scaled.weight, np.linalg.norm(scaled.sigma)
    low, high, target, known = 0.0, 0.0, 0, np.arange(0)
    for size in range(1, n):
        sets = np.array(list(itertools.combinations(range(n), size)))  # each is the target with the known records
        inside, rows = scaled.sigma[sets[:, :, None], sets[:, None, :]], scaled.sigma[sets]
        shift = np.linalg.solve(inside, rows)
        np.put_along_axis(shift, sets[:, None, :], 0.0, axis=2)
        np.put_along_axis(rows, sets[:, None, :], 0.0, axis=2)
        error = np.linalg.norm(inside @ shift - rows, axis=(1, 2))
        error += (n + 2) * _EPS * norm * (1 + np.linalg.norm(shift, axis=(1, 2)))
        total = np.abs(shift) @ weight / weight[sets]
        spare = error[:, None] * (np.linalg.norm(weight) / scaled.least) / weight[sets] + (n + 4) * _EPS * total
        high = max(high, float((total + spare).max()))
        at, i = np.unravel_index(int((total - spare).argmax()), total.shape)
        if total[at, i] - spare[at, i] > low:
            low, target, known = float(total[at, i] - spare[at, i]), int(sets[at, i]), np.delete(sets[at], i)
    return ShiftFactor(1 + low, (1 + high) * (1 + _EPS), target, tuple(known.tolist()), True)


def bracket(sigma: Floats) -> ShiftFactor:
    """A bracket for more records than can be enumerated: nothing known below, the smaller of two bounds above."""
    scaled, first = _scale(sigma), nothing_known(sigma)
    upper = max(first.upper, min(_dominance(scaled), _spectral(scaled)))
    if not math.isfinite(upper):
        raise NotApplicableError(
            "the correlation matrix is singular up to rounding, and no bound on the factor is known"
        )
    exact = upper <= first.upper * (1 + 1e-12)  # up to rounding
    return ShiftFactor(first.lower, upper, first.target, (), exact)


def _scale(sigma: Floats) -> _Scaled:
    weight = 2.0 ** np.floor(np.log2(np.diag(sigma)) / 2)
    scaled = sigma / weight[:, None] / weight
    least, _ = _eigenvalues(scaled)
    if least <= 0:
        raise NotApplicableError(
            f"the covariance matrix is singular up to rounding: its least eigenvalue is at most {least:.3g} where "
            "variances are 1 to 4; leave out records that the others determine"
        )
    return _Scaled(scaled, weight, least)


def _dominance(scaled: _Scaled) -> float:
    """A bound on the factor by diagonal dominance; infinite where the matrix is not dominant under any weights.

    Weights g ≥ w with g_l Σ_ll ≥ Σ_{j≠l} g_j |Σ_jl| for all l bound w_U |Σ_UA Σ_A^{-1}| for every A, by comparison
    matrices (Ostrowski 1937; docs/theory/gaussian.md). The least g is the limit of g_l ← max(w_l, Σ_j g_j |Σ_jl|/Σ_ll).
    """
    off, variance = np.abs(scaled.sigma), np.diag(scaled.sigma)
    np.fill_diagonal(off, 0.0)
    g, spare = scaled.weight, 1 + (2 * len(off) + 8) * _EPS  # so that rounding does not break the inequalities
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_MOST_ROUNDS):
            shifted = spare * (off @ g) / variance
            if (shifted <= g).all():
                return float((1 + (shifted / scaled.weight).max()) * spare)
            g = np.maximum(scaled.weight, shifted)
    return math.inf


def _spectral(scaled: _Scaled) -> float:
    """A bound on the factor from the eigenvalues of the correlation matrix R, all of which lie in [m, M].

    ‖R_UA R_A^{-1}‖ ≤ (M−m)/(2√(mM)): for unit vectors x and y with z = R_A^{-1} x the product yᵀRz/(zᵀx) is b/a of R
    restricted to the plane of z and y, where a = zᵀRz/zᵀz (Kantorovich). The L1 norm follows by Cauchy-Schwarz.
    """
    n, sd = len(scaled.sigma), np.sqrt(np.diag(scaled.sigma))
    least, most = _eigenvalues(scaled.sigma / sd[:, None] / sd)
    if least <= 0:
        return math.inf
    sd = sd * scaled.weight
    longest = float((np.sqrt((sd**2).sum() * (1 + 2 * n * _EPS) - sd**2) / sd).max())
    return float(1 + longest * (most - least) / (2 * np.sqrt(least * most)) * (1 + n**2 * _EPS))


def _eigenvalues(matrix: Floats) -> tuple[float, float]:
    """A lower bound on the least eigenvalue and an upper bound on the largest.

    LAPACK returns the eigenvalues of a matrix that differs by a small multiple of n·eps of the norm.
    """
    values = np.linalg.eigvalsh(matrix)
    off = 16 * len(matrix) * _EPS * values[-1]
    return float(values[0] - off), float(values[-1] + off)


def thesis_factor(n: int, rho: float) -> float:
    """n²/(4(1/ρ−n+2)) + 1 for n records of equal variance and |Pearson| at most rho (Lange 2024, Theorem 6.2).

    The theorem needs three records or more; for two its formula is 1+ρ, which is what two records reach.
    """
    _check_limit(n, rho)
    if n == 1 or rho == 0:
        return 1.0
    return _round_up(Fraction(n**2) / (4 * (1 / Fraction(rho) - n + 2)) + 1)


def class_factor(n: int, rho: float, adversary: Adversary = Adversary.BDP, spread: float = 1.0) -> float:
    """The largest factor that n records with |Pearson| at most rho can have: 1+(n−1)ρ where ρ ≤ 1/(n−1).

    With k records known, Σ_A is strictly diagonally dominant, so a column of its inverse has an L1 norm of at most
    1/((1−kρ)σ²) (Varah 1975), and the n−k−1 unknown records shift by at most (n−k−1)ρ/(1−kρ) together. The expression
    is monotone in k. The adversary who knows no record has k = 0, for any rho.

    Args:
        n: records.
        rho: limit of |Pearson| between any two.
        adversary: ``bdp``, ``pufferfish`` or ``dp``.
        spread: the largest over the least standard deviation; shifts grow by no more than that.
    """
    if n == 1 or rho == 0 or adversary is Adversary.DP:
        return 1.0
    limit = Fraction(rho)  # exact, since 1−kρ may be tiny
    if adversary is Adversary.PUFFERFISH:
        return _round_up(1 + Fraction(spread) * (n - 1) * limit)
    _check_limit(n, rho)
    return _round_up(1 + Fraction(spread) * max((n - k - 1) * limit / (1 - k * limit) for k in {0, n - 2}))


def _round_up(value: Fraction) -> float:
    return float(value) if Fraction(float(value)) >= value else math.nextafter(float(value), math.inf)


def _check_limit(n: int, rho: float) -> None:
    if n > 2 and Fraction(rho) * (n - 2) >= 1:
        raise NotApplicableError(
            f"the largest correlation is {rho:.6g}; over {n} records it must be below 1/{n - 2} = {1 / (n - 2):.6g}",
            value=rho,
        )


def ar1_factor(coefficient: float, records: int, adversary: Adversary = Adversary.BDP) -> float:
    """The factor of an AR(1) series: 1 + S(⌊(n−1)/2⌋) + S(⌈(n−1)/2⌉), S(m) = |φ| + … + |φ|^m (docs/theory/ar1.md).

    Changing record i by d moves the mean of a record j steps away by d·φ^j, or by less where a record between the two
    or behind it is known; the covariance stays. Missing records move nothing. So the record in the middle is the worst,
    where no record is known and none is missing. The factor rises with n to (1+|φ|)/(1−|φ|) and never exceeds n.

    Args:
        coefficient: φ, between -1 and 1.
        records: n, the number of records read; other records, known or not, add nothing.
        adversary: ``bdp`` and ``pufferfish`` have the same factor, since knowing records never helps.
    """
    strength = abs(coefficient)
    if records == 1 or strength == 0 or adversary is Adversary.DP:
        return 1.0
    half = (records - 1) // 2
    shift = _geometric(strength, half) + _geometric(strength, records - 1 - half)
    return min(float(records), (1 + shift) * (1 + 16 * _EPS))


def _geometric(ratio: float, terms: int) -> float:
    """The sum ratio + ratio² + … of m terms: ratio·(1 − ratio^m)/(1 − ratio), without losing digits near 1."""
    rest = 1 - ratio  # exact for ratios of ½ and more
    log = math.log(ratio) if ratio < 0.5 else math.log1p(-rest)
    return ratio * -math.expm1(terms * log) / rest
