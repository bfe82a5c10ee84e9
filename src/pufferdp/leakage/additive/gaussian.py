"""How much more a clipped sum leaks about one record when the records are jointly normal.

Changing record i by d shifts the mean of the unknown records U by d·Σ_{U,A} Σ_A^{-1} e_i, where A is i with the known
records K; nothing else of their law changes. So an algorithm that loses tau/M for every unit that the records move in
L1 (a sum clipped to a width of M, with Laplace noise) leaks at most factor·tau about two values that lie at most M
apart, and the factor is 1 plus the L1 norm of the shift (Lange 2024, Proposition 6.1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import NotApplicableError
from pufferdp.models.inference import connected

Sets = npt.NDArray[np.bool_]

MOST_ENUMERATED: Final = 15
"""All sets of so many records are tried."""
_BATCH: Final = 10
"""Sets of so many records are swept at once; the rest one after the other, so memory stays small."""
_EPS: Final = 2.0**-52
"""Twice the rounding of one operation; sums of n products are then off by less than n times this."""
_ROUNDING: Final = 1e-12
"""Ends of a bracket that differ by no more than this share differ by rounding."""
_SEARCH: Final = 5 * 10**8
"""Operations that the search for a lower end may take: some seconds."""


@dataclass(frozen=True)
class Shift:
    """The largest shift, and who reaches the lower end; ``upper`` is 1 + the bound."""

    lower: float
    upper: float
    target: int
    known: tuple[int, ...]
    exact: bool


@dataclass(frozen=True, eq=False)
class _Scaled:
    """A covariance matrix with variances from 1 to 4."""

    sigma: Floats
    weight: Floats
    """A unit of the scaled record in the units of the record."""
    least: float
    """No more than the least eigenvalue."""


def nothing_known(sigma: Floats) -> Shift:
    """The adversary who knows no record: Σ_u |Σ_ui|/Σ_ii, a sum of n quotients."""
    shifts = (np.abs(sigma).sum(axis=0) - np.diag(sigma)) / np.diag(sigma)
    i = int(shifts.argmax())
    spare = (len(sigma) + 4) * _EPS * (1 + float(shifts[i]))
    return Shift(max(0.0, float(shifts[i]) - spare), 1 + float(shifts[i]) + spare, i, (), True)


def enumerate_all(sigma: Floats) -> Shift:
    """Every set of known records and every target."""
    n, scaled = len(sigma), _scale(sigma)
    low, high, target, known = 0.0, 0.0, 0, np.zeros(n, dtype=bool)
    for swept, chosen in _all_sets(scaled.sigma):
        shifts, spare = _shifts(scaled, swept, chosen)
        below, above = shifts - spare, shifts + spare
        place = int(below.argmax())
        if below.flat[place] > low:
            low, target, known = float(below.flat[place]), place % n, chosen[place // n]
        high = max(high, float(above.max()))
    others = tuple(int(j) for j in np.flatnonzero(known) if j != target)
    return Shift(low, (1 + high) * (1 + _EPS), target, others, True)


def bracket(sigma: Floats, first: Shift) -> Shift:
    """More records than can be enumerated: the best that a search finds, and what is proved."""
    scaled = _scale(sigma)
    upper = min(bound for bound in (_dominance(scaled), _spectral(scaled)) if bound is not None)
    if upper <= first.upper * (1 + _ROUNDING):  # whoever knows nothing reaches the bound
        return replace(first, upper=max(upper, first.upper))
    target, known = _climb(scaled, first.target)
    shifts, spare = _shifts(scaled, *_one_set(scaled.sigma, [target, *known]))
    low = float(shifts[0, target] - spare[0, target])
    if low <= first.lower:
        low, target, known = first.lower, first.target, ()
    return Shift(low, upper, target, known, upper <= (1 + low) * (1 + _ROUNDING))


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


def _sweep(stack: Floats, k: int, back: bool = False) -> Floats:
    """Each matrix swept on record k, or swept back (Goodnight 1979), with the signs that keep it symmetric."""
    pivot, column = stack[..., k, k], stack[..., :, k] / stack[..., k, k, None]
    swept = stack - stack[..., :, k, None] * column[..., None, :]
    swept[..., :, k] = swept[..., k, :] = -column if back else column
    swept[..., k, k] = -1 / pivot
    return swept


def _more(stack: Floats, sets: Sets, records: range) -> tuple[Floats, Sets]:
    """With and without each of the records."""
    for j in records:
        wider = sets.copy()
        wider[:, j] = True
        stack, sets = np.concatenate([stack, _sweep(stack, j)]), np.concatenate([sets, wider])
    return stack, sets


def _all_sets(sigma: Floats) -> Iterator[tuple[Floats, Sets]]:
    n = len(sigma)
    head = max(0, n - _BATCH)
    for matrix, chosen in zip(*_more(sigma[None], np.zeros((1, n), dtype=bool), range(head)), strict=True):
        yield _more(matrix[None], chosen[None], range(head, n))


def _one_set(sigma: Floats, records: list[int]) -> tuple[Floats, Sets]:
    chosen, swept = np.zeros((1, len(sigma)), dtype=bool), sigma[None]
    for j in records:
        chosen[0, j], swept = True, _sweep(swept, j)
    return swept, chosen


def _shifts(scaled: _Scaled, swept: Floats, chosen: Sets) -> tuple[Floats, Floats]:
    """For each set A and each i in it, the L1 norm of the shift, and how far rounding can have moved it.

    The computed W = Σ_{U,A} Σ_A^{-1} has a residual E = W Σ_A − Σ_{U,A}. Its error is E Σ_A^{-1}, and no eigenvalue of
    Σ_A^{-1} is above 1/λ_min(Σ): the eigenvalues of a principal submatrix lie between those of the matrix.
    """
    sigma, weight, n = scaled.sigma, scaled.weight, len(scaled.sigma)
    block = ~chosen[:, :, None] & chosen[:, None, :]
    shift = np.where(block, swept, 0.0)
    residual = np.where(block, shift @ sigma - sigma, 0.0)
    norm = np.linalg.norm(sigma)
    off = np.linalg.norm(residual, axis=(1, 2)) + (n + 2) * _EPS * norm * (1 + np.linalg.norm(shift, axis=(1, 2)))
    total = np.einsum("u,aui->ai", weight, np.abs(shift)) / weight
    spare = off[:, None] * (np.linalg.norm(weight) / scaled.least) / weight + (n + 4) * _EPS * total
    return total, np.where(chosen, spare, 0.0)


def _dominance(scaled: _Scaled) -> float | None:
    """A bound by diagonal dominance; None where the matrix is not dominant under any weights.

    Let g ≥ w, the weights, with g_l Σ_ll ≥ Σ_{j≠l} g_j |Σ_jl| for all l, and M the comparison matrix (Σ_ll, −|Σ_jl|).
    Then |Σ_A^{-1}| ≤ M_A^{-1} (Ostrowski 1937), and g_A M_A ≥ w_U |Σ_UA|, so w_U |Σ_UA Σ_A^{-1}| ≤ g_A for every A.
    The least such g is the value of an optimal stopping problem: walk on (the record is known) or stop (it is not).
    With g = w the bound is the shift of whoever knows nothing. With equal correlations it is the class factor.
    """
    off, weight, n = np.abs(scaled.sigma), scaled.weight, len(scaled.sigma)
    variance = np.diag(scaled.sigma)
    np.fill_diagonal(off, 0.0)
    compare, g, walk = np.diag(variance) - off, weight, np.zeros(n, dtype=bool)
    while True:  # policy iteration: the set only grows, so it ends after at most n rounds
        further = walk | (off @ g > variance * weight)
        if (further == walk).all():
            break
        walk, g = further, weight.copy()
        g[walk] = _solved(compare[np.ix_(walk, walk)], off[np.ix_(walk, ~walk)] @ weight[~walk])
        if not (np.isfinite(g).all() and (g > 0).all()):
            return None
    # Rounding may break the inequalities by a little. A multiple of p with M p = 1 mends them; this is checked.
    g = np.maximum(g, weight)
    for mend in (True, False):
        lacking = float((off @ g - variance * g + (n + 2) * _EPS * (variance * g + off @ g)).max())
        if lacking <= 0:
            return float(1 + (off @ g / variance / weight).max() * (1 + (n + 4) * _EPS)) * (1 + _EPS)
        if mend:
            g = g + 2 * lacking * np.maximum(_solved(compare, np.ones(n)), 0.0)
    return None


def _solved(matrix: Floats, right: Floats) -> Floats:
    """The solution, or nan throughout where the matrix is singular."""
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        return np.full(len(right), np.nan)


def _spectral(scaled: _Scaled) -> float:
    """Two bounds for every positive definite matrix; the smaller.

    The shift c of U satisfies c·cᵀ·Var(i | K) ≤ Cov(U | K) ≤ Cov(U), so (s·c)² ≤ sᵀ Cov(U) s / Var(i | all others) for
    every choice of signs s; the last variance is the reciprocal of a diagonal entry of Σ^{-1}. And where the
    eigenvalues of the correlations lie in [m, M], ‖R_UA R_A^{-1}‖ ≤ (M−m)/(2√(mM)): for unit vectors x and y with
    z = R_A^{-1} x it is yᵀRz ≤ yᵀRz·|z|/zᵀx, which is b/a of R seen in the plane of z (a = zᵀRz/zᵀz) and y.
    """
    sigma, weight, n = scaled.sigma, scaled.weight, len(scaled.sigma)
    inverse = np.linalg.inv(sigma)
    rounding = n * _EPS * float(np.linalg.norm(inverse) * np.linalg.norm(sigma))
    off = (float(np.linalg.norm(inverse @ sigma - np.eye(n))) + rounding) / scaled.least
    spread = np.abs(sigma) * np.outer(weight, weight)
    total = float(spread.sum())
    each = total * (1 + n**2 * _EPS) - 2 * spread.sum(axis=0) + np.diag(spread)  # over all pairs without i
    bound = float((np.sqrt(each * (np.diag(inverse) + off)) / weight).max())
    sd = np.sqrt(np.diag(sigma))
    least, most = _eigenvalues(sigma / sd[:, None] / sd)
    if least > 0:
        sd = sd * weight
        longest = float((np.sqrt((sd**2).sum() * (1 + 2 * n * _EPS) - sd**2) / sd).max())
        bound = min(bound, longest * (most - least) / (2 * np.sqrt(least * most)))
    return float(1 + bound * (1 + n**2 * _EPS))


def _eigenvalues(matrix: Floats) -> tuple[float, float]:
    """No more than the least, no less than the largest.

    LAPACK's are those of a matrix that differs by a small multiple of n·eps of the norm, entries by a few eps.
    """
    values = np.linalg.eigvalsh(matrix)
    off = 16 * len(matrix) * _EPS * values[-1]
    return float(values[0] - off), float(values[-1] + off)


def _climb(scaled: _Scaled, start: int) -> tuple[int, tuple[int, ...]]:
    """From one target and nothing known: add or drop the record that helps most, while one helps and time is left."""
    n, weight = len(scaled.sigma), scaled.weight
    chosen = np.zeros(n, dtype=bool)
    chosen[start], swept, target, best = True, _sweep(scaled.sigma, start), start, 0.0
    for _ in range(int(_SEARCH / n**3)):
        tried: list[tuple[float, int, int]] = []
        for j in range(n):
            others = chosen.copy()
            others[j] = not chosen[j]
            if others.any() and not others.all():
                flipped = _sweep(swept, j, back=bool(chosen[j]))[np.ix_(~others, others)]
                shifts = weight[~others] @ np.abs(flipped) / weight[others]
                tried.append((float(shifts.max()), j, int(np.flatnonzero(others)[shifts.argmax()])))
        value, j, wanted = max(tried)
        if value <= best:
            break
        best, target, swept = value, wanted, _sweep(swept, j, back=bool(chosen[j]))
        chosen[j] = not chosen[j]
    return target, tuple(int(k) for k in np.flatnonzero(chosen) if k != target)


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

    Correlated records are taken apart from the rest. Sets of up to 15 are enumerated: all 2^15 of them in about
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
    lower, upper, exact = _WorstRecord(), 1.0, True
    for where in connected([np.flatnonzero(row).tolist() for row in sigma]):
        part = _of_component(sigma[np.ix_(where, where)], adversary)
        if part.lower > lower.value:
            target, known = int(where[part.target]), tuple(int(where[j]) for j in part.known)
            lower = _WorstRecord(part.lower, target, known)
        if part.upper > upper:
            upper, exact = part.upper, part.exact
    return ShiftFactor(1 + lower.value, upper, lower.target, lower.known, exact)


@dataclass(frozen=True)
class _WorstRecord:
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
