"""The closed-form bound for chains of second order: any start, any adversary (docs/theory/hidden.md).

The two sides of a record are independent given a pair of neighbours. D(z, z') bounds the log-likelihood ratio of the
records of a side between two pairs of neighbours z and z' next to it. Pairs that share their nearer record lead to
pairs that differ in the next record; Theorem 4 of tight.md bounds that step, since known records weight both alike.
Pairs that differ in their nearer record pay twice: for the influence of the farther record beyond the next one, and
for the distribution of the next record, whose odds ratio known records can raise by as much as two records can.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats
from pufferdp.bounds.hidden.iteration import TOLERANCE, iterate_monotone
from pufferdp.bounds.hidden.odds import HiddenOdds
from pufferdp.bounds.inverse import largest_loss
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.odds import contraction

_MOST_STATES: Final = 4
"""Chains with more states take minutes; they are bounded as hidden chains of pairs alone."""
_MOST_STEPS: Final = 400
"""Records of a side that are passed one by one."""


@dataclass(frozen=True, eq=False)
class _Side:
    """Upper bounds on log odds ratios of the next record of one side, for pairs (nearer, farther) of records."""

    same: Floats
    """[farther, farther', nearer; u, u'] where both pairs share the nearer record."""
    other: Floats
    """[nearer, farther, nearer', farther'; u, u'] where they do not, with what known records can add."""

    def step(self, table: Floats, loss: float) -> Floats:
        """D of one more record, from D = ``table``: [nearer, farther, nearer', farther']."""
        k = len(table)
        each = np.arange(k)
        # [b; u, u']: pairs that follow a pair with nearer record b and differ in the next record.
        differing = np.einsum("ubvb->buv", table) + loss * (1 - np.eye(k))
        shared = contraction(self.same, differing[None, None]).max(axis=(3, 4))  # [a, a', b]
        # The influence of a different record beyond the next one, the largest over the next one: pairs (u, b), (u, b').
        behind = np.einsum("ubuc->ubc", table).max(axis=0)
        changed = [
            contraction(self.other, differing[:, None, None, None]).max(axis=(4, 5)),
            contraction(self.other, differing[None, None, :, None]).max(axis=(4, 5)),
        ]
        out = np.minimum(*changed) + behind[:, None, :, None]
        for b in range(k):
            out[b, :, b, :] = shared[:, :, b]
            out[b, each, b, each] = 0.0
        return np.asarray(out)


@dataclass(frozen=True, eq=False)
class MemoryOdds:
    """An upper bound on the leakage of any algorithm with privacy loss τ for every record, for any adversary."""

    blocks: HiddenOdds
    """The bound with pairs of neighbours as hidden states; it holds where some transitions are impossible too."""
    sides: tuple[_Side, _Side] | None
    """After and before the target, where all probabilities are above 0."""
    middle: Floats | None
    """[x, x'; u, u']: log odds ratios of the record before the target."""
    length: int | None = None

    @classmethod
    def of(cls, transition: npt.ArrayLike, hidden: tuple[Floats, Floats], *, length: int | None = None) -> MemoryOdds:
        """The bound from transition probabilities of second order, and from the hidden chain of its pairs."""
        table = np.asarray(transition, dtype=float)
        length = None if length is None else checks.length(length)
        blocks = HiddenOdds.of(*hidden, length=length, pairwise=False)
        if not (table > 0).all() or len(table) > _MOST_STATES:
            return cls(blocks, None, None, length)
        logs = np.log(table)
        return cls(blocks, (_after(logs), _before(logs)), _middle(logs), length)

    def __call__(self, loss: float) -> float:
        """The bound at this privacy loss for every record."""
        tau = inputs.loss(loss)
        if tau == 0:
            return 0.0
        return min(self.blocks(tau), tau + self._both_sides(tau))

    def inverse(self, epsilon: float) -> float:
        """The largest privacy loss whose bound is at most ``epsilon``."""
        return largest_loss(self, inputs.target(epsilon), TOLERANCE)

    def _both_sides(self, tau: float) -> float:
        if self.sides is None or self.middle is None:
            return math.inf
        after, before = (_side_bound(side, tau, self.length) for side in self.sides)
        if after is None or before is None:
            return math.inf
        k = len(self.middle)
        # After the target the nearer record of the pair (u, x) is x; before it, u.
        both = after.transpose(1, 0, 3, 2) + before  # [u, x, u', x']
        same_neighbour = np.einsum("uxuy->uxy", both).max(axis=0)  # [x, x']
        differing = np.einsum("uxvx->xuv", both) + tau * (1 - np.eye(k))
        moved = np.minimum(
            contraction(self.middle, differing[:, None]).max(axis=(2, 3)),
            contraction(self.middle, differing[None, :]).max(axis=(2, 3)),
        )
        total = same_neighbour + moved
        np.fill_diagonal(total, 0.0)
        return float(total.max())


def _side_bound(side: _Side, tau: float, length: int | None) -> Floats | None:
    """D of a side of up to ``length`` − 1 records, or of any number; None where no bound was found."""
    count = _MOST_STEPS + 1 if length is None else length
    zeros = np.zeros((side.same.shape[2],) * 4)
    iterates, bounded = iterate_monotone(lambda table: side.step(table, tau), zeros, count, _MOST_STEPS)
    return iterates[-1] if bounded or len(iterates) == length else None


def _after(logs: Floats) -> _Side:
    """Records after a pair (a, b): b is nearer, and the next record c has the distribution T[a][b]."""
    # log T[a][b][c1]/T[a][b][c2], by [b, a; c1, c2]
    rows = (logs[:, :, :, None] - logs[:, :, None, :]).transpose(1, 0, 2, 3)
    # Known records beyond c weight it by a mean of T[b][c][d] over d: ratios of b and b' lie between the extremes.
    ratios = (logs[:, None] - logs[None, :]).max(axis=3)  # [b, b'; c]
    known = ratios[:, :, :, None] + ratios.transpose(1, 0, 2)[:, :, None, :]  # [b, b'; c1, c2]
    return _side(rows, np.maximum(known, 0.0))


def _before(logs: Floats) -> _Side:
    """Records before a pair (u, x): u is nearer, and the record v before it is weighted by T[v][u][x]."""
    reverse = logs.transpose(2, 1, 0)  # [x, u, v]
    rows = (reverse[:, :, :, None] - reverse[:, :, None, :]).transpose(1, 0, 2, 3)  # [u, x; v1, v2]
    # The distribution of (v, u) given records before is a mean of T[s][v][u] over s.
    ratios = (logs[:, :, :, None] - logs[:, :, None, :]).max(axis=0).transpose(1, 2, 0)  # [u, u'; v]
    known = ratios[:, :, :, None] + ratios.transpose(1, 0, 2)[:, :, None, :]
    return _side(rows, known)


def _side(rows: Floats, known: Floats) -> _Side:
    """A side from log-ratios of two next records [nearer, farther], and what known records add [nearer, nearer']."""
    same = rows[:, :, None] - rows[:, None, :]  # [b; a, a'; u, u']
    other = rows[:, :, None, None] - rows[None, None] + known[:, None, :, None]
    return _Side(np.maximum(same.transpose(1, 2, 0, 3, 4), 0.0), np.maximum(other, 0.0))


def _middle(logs: Floats) -> Floats:
    """The record u before the target x: weighted by a mean of T[v][u][x], and by known records after x."""
    before = (logs[:, :, :, None] - logs[:, :, None, :]).max(axis=0).transpose(1, 2, 0)  # [x, x'; u]
    prior = before[:, :, :, None] + before.transpose(1, 0, 2)[:, :, None, :]
    after = (logs[:, None] - logs[None, :]).max(axis=3).transpose(2, 0, 1)  # [x; u1, u2]
    known = after[:, None] + after.transpose(0, 2, 1)[None, :]  # [x, x'; u1, u2]
    return np.asarray(np.maximum(prior + np.maximum(known, 0.0), 0.0))
