"""Bounds on influence from how fast a chain forgets: the eigen-gap, and the Hilbert metric (Birkhoff).

Both give the influence as a function of the distance alone, for every start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Matrix
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.chains.powers import UNIT, Powers, largest_ratios
from pufferdp.models.chain import Box, MarkovChain


@dataclass(frozen=True)
class EigenGap:
    """π_min and g of Song et al. 2017, Lemma 4.8 and, for reversible chains, Lemma C.1."""

    least: float
    """Smallest stationary probability."""
    gap: float
    """2·min(1−|λ|) over the non-unit eigenvalues of P if reversible, else min(1−|λ|) over those of P·P*."""

    def left(self, distances: Ints) -> Floats:
        """Influence on a left end, where the bound counts twice: for the transition and for the marginal."""
        return 2 * self.right(distances)

    def right(self, distances: Ints) -> Floats:
        """Influence on a right end, in one column for all pairs of values: log (1+Δ_t)/(1−Δ_t), infinite at Δ_t ≥ 1.

        Δ_t = exp(−t·g/2)/π_min.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            delta = np.exp(-np.asarray(distances, dtype=float)[:, None] * self.gap / 2) / self.least
            return np.where(delta < 1, np.log1p(delta) - np.log1p(-np.minimum(delta, 1.0)), np.inf)


def eigen_gap(chain: MarkovChain) -> EigenGap:
    """The eigen-gap of a chain that mixes.

    Eigenvalues are counted with multiplicity and exactly one 1 is dropped: P·P* can have the eigenvalue 1 twice
    although P is irreducible and aperiodic, and then the bound says nothing.
    """
    if not chain.primitive:
        why = "reducible" if not chain.irreducible else "periodic"
        raise NotApplicableError(f"the chain is {why}; the eigen-gap bound needs one that mixes")
    root = np.sqrt(chain.stationary)
    symmetric = root[:, None] * chain.transition / root[None, :]
    if chain.size == 1:
        return EigenGap(1.0, np.inf)
    if chain.reversible:
        values = np.linalg.eigvalsh((symmetric + symmetric.T) / 2)[:-1]
        gap = 2 * float(1 - np.abs(values).max())
    else:
        gap = 1 - float(np.linalg.svd(symmetric, compute_uv=False)[1]) ** 2
    gap -= 64 * chain.size * UNIT  # the rounding of the eigenvalues counts against the bound
    if gap <= 0:
        raise NotApplicableError("the eigen-gap is 0: P·P* has the eigenvalue 1 twice, and the bound says nothing")
    return EigenGap(float(chain.stationary.min()), gap)


@dataclass(frozen=True)
class Contraction:
    """Birkhoff's contraction of the Hilbert metric: n ≥ block steps bring two distributions within Δ·κ^(⌊n/block⌋−1).

    A prior or a known record multiplies both by the same factors and cancels in the metric, so the bound holds
    on either side, for any start and whatever else is known.
    """

    diameter: float
    """Δ, the diameter in the Hilbert metric of what a block maps to."""
    block: int
    """Steps in a block: the first power that is positive."""

    def side(self, distances: Ints) -> Floats:
        """Influence on either end of a quilt at these distances; all pairs of values share one column."""
        blocks = np.asarray(distances)[:, None] // self.block
        shrink = np.tanh(self.diameter / 4)
        with np.errstate(invalid="ignore", over="ignore"):
            far = self.diameter * shrink ** np.maximum(blocks - 1, 0).astype(float)
        return np.where(blocks >= 1, far * (1 + 1e-14) + (1e-15 if self.diameter > 0 else 0.0), np.inf)


def contraction(chain: MarkovChain) -> Contraction:
    """The contraction of one chain, over blocks of its first positive power."""
    if not chain.primitive:
        why = "reducible" if not chain.irreducible else "periodic"
        raise NotApplicableError(f"the chain is {why}; the Hilbert-metric bound needs one that mixes")
    powers, block = Powers(chain.transition), 1
    while not np.isfinite(powers.log(block)).all():
        block += 1
    ratios = largest_ratios(powers.log(block).T).reshape(chain.size, chain.size)
    return Contraction(float((ratios + ratios.T).max()) + powers.slack(block), block)


def box_contraction(box: Box) -> Contraction:
    """A contraction that every chain of a box has, over blocks of the first power that is positive for all of them."""
    low, high, block = np.asarray(box.low), np.asarray(box.high), 1
    while (low <= 0).any():
        block += 1
        if block > 4 * len(low):
            x, y = (int(v) for v in max(np.argwhere(low <= 0), key=lambda at: at[0] != at[1]))
            raise NotApplicableError(
                f"the class has chains that never move from {box.labels[x]!r} to {box.labels[y]!r}; "
                "the Hilbert-metric bound needs lower bounds that keep all states connected"
            )
        # One more step in front: each entry of P·Q is linear in a row of P, so it is extreme where that row is.
        low, high = _extreme_rows(box, low, largest=False), _extreme_rows(box, high, largest=True)
    return Contraction(_box_diameter(low * (1 - 1e-14 * block), high * (1 + 1e-14 * block)), block)


def _extreme_rows(box: Box, values: Matrix, *, largest: bool) -> Matrix:
    """Smallest or largest of Σ_w p(w)·values(w,y) over the rows p of the box: fill up the best entries first."""
    out = np.empty_like(values)
    width, left_over = box.high - box.low, 1 - box.low.sum(axis=1, keepdims=True)
    for y in range(values.shape[1]):
        order = np.argsort(-values[:, y] if largest else values[:, y], kind="stable")
        before = np.cumsum(width[:, order], axis=1) - width[:, order]
        fill = np.clip(left_over - before, 0, width[:, order])
        out[:, y] = (box.low[:, order] + fill) @ values[order, y]
    return out


def _box_diameter(low: Matrix, high: Matrix) -> float:
    """Max over x≠x', y≠y' of log high(x,y)·high(x',y') / (low(x,y')·low(x',y))."""
    gain, worst = np.log(high)[:, None, :] - np.log(low)[None, :, :], 0.0  # gain[x,x',y]
    gain[np.eye(len(low), dtype=bool)] = -np.inf
    for y in range(len(low)):
        others = np.delete(gain, y, axis=2).max(axis=2, initial=-np.inf)
        worst = max(worst, float((gain[:, :, y] + others.T).max()))
    return worst
