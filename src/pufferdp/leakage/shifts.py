"""Shifts of jointly normal records: all adversaries by sweeping, or a bracket where they are too many.

Sweeping a covariance matrix on a set A of records leaves Σ_{U,A} Σ_A^{-1} in the rows of the others (U) and the columns
of A: what every record of A, taken as the target, does to the unknown ones when the rest of A is known. Sweeping on one
more record is a rank-one update, so 2^n sets cost O(2^n·n²).

Records are scaled by powers of two, which is exact, so that variances lie between 1 and 4. A factor is 1 + a shift.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.errors import NotApplicableError

Floats = npt.NDArray[np.float64]
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
        g[walk] = np.linalg.solve(compare[np.ix_(walk, walk)], off[np.ix_(walk, ~walk)] @ weight[~walk])
        if not (np.isfinite(g).all() and (g > 0).all()):
            return None
    # Rounding may break the inequalities by a little. A multiple of p with M p = 1 mends them; this is checked.
    g = np.maximum(g, weight)
    for mend in (True, False):
        lacking = float((off @ g - variance * g + (n + 2) * _EPS * (variance * g + off @ g)).max())
        if lacking <= 0:
            return float(1 + (off @ g / variance / weight).max() * (1 + (n + 4) * _EPS)) * (1 + _EPS)
        if mend:
            g = g + 2 * lacking * np.maximum(np.linalg.solve(compare, np.ones(n)), 0.0)
    return None


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
