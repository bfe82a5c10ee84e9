"""The closed form for chains of second order: any start, any adversary (docs/theory/hidden.md).

Sides are independent given two neighbours. D(z, z') bounds what the records of a side tell of the pair of neighbours z
beside it. Pairs that share their nearer record move to pairs that differ in the next one, by Theorem 4: what is known
weights both alike. Pairs that differ in it pay twice: for what the farther record still does behind the next one, and
for the law of the next one, whose odds ratio what is known can raise by as much as two records can.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats
from pufferdp.bounds.hidden.odds import HiddenOdds
from pufferdp.bounds.inverse import largest_loss
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.odds import SLACK, contraction

_MOST_STATES: Final = 4
"""More take minutes."""
_SHARE: Final = 1e-6
"""How near to the largest loss the inverse comes."""
_FEW: Final = 64
"""Records on a side up to which they are passed one by one."""
_ROUNDS: Final = 400
_SETTLED: Final = 1e-12
_LEAP: Final = 4
"""After so many steps the rest of the way is guessed: chains that forget slowly would need hundreds of steps."""
_MOST_SHARE: Final = 0.99
_LARGEST: Final = 700.0
"""Sides that grow beyond this do not settle."""


@dataclass(frozen=True, eq=False)
class _Side:
    """Log odds ratios of one side, at most. Pairs are (nearer, farther) record, whichever side it is."""

    same: Floats
    """(farther, farther', nearer; u, u'): of the next record, where the nearer one is shared."""
    other: Floats
    """(nearer, farther, nearer', farther'; u, u'): where it is not, with what knowledge of others can add."""

    def step(self, table: Floats, loss: float) -> Floats:
        """D of one more record: ``table`` is (nearer, farther, nearer', farther')."""
        k = len(table)
        each = np.arange(k)
        # (b; u, u'): pairs that are reached from a pair with nearer record b, told apart by the next record.
        room = np.einsum("ubvb->buv", table) + loss * (1 - np.eye(k))
        shared = contraction(self.same, room[None, None]).max(axis=(3, 4))  # (a, a', b)
        # What a different record behind the next one still does, at most over the next one: pairs (u, b), (u, b').
        behind = np.einsum("ubuc->ubc", table).max(axis=0)
        changed = [
            contraction(self.other, room[:, None, None, None]).max(axis=(4, 5)),
            contraction(self.other, room[None, None, :, None]).max(axis=(4, 5)),
        ]
        out = np.minimum(*changed) + behind[:, None, :, None]
        for b in range(k):
            out[b, :, b, :] = shared[:, :, b]
            out[b, each, b, each] = 0.0
        return np.asarray(out * (1 + SLACK))


@dataclass(frozen=True, eq=False)
class MemoryOdds:
    """An upper bound on the leakage of any algorithm with loss τ on every record, for any adversary."""

    blocks: HiddenOdds
    """The bound on pairs of neighbours as hidden states; it holds with zeros too."""
    sides: tuple[_Side, _Side] | None
    """After and before the target, where all probabilities are above 0."""
    middle: Floats | None
    """(x, x'; u, u'): log odds ratios of the record before the target."""
    length: int | None = None

    @classmethod
    def of(cls, transition: npt.ArrayLike, hidden: tuple[Floats, Floats], *, length: int | None = None) -> MemoryOdds:
        """From the table of second order, and its pairs as a hidden chain: transition and emission."""
        table = np.asarray(transition, dtype=float)
        length = None if length is None else checks.length(length)
        blocks = HiddenOdds.of(*hidden, length=length, pairwise=False)
        if not (table > 0).all() or len(table) > _MOST_STATES:
            return cls(blocks, None, None, length)
        logs = np.log(table)
        return cls(blocks, (_after(logs), _before(logs)), _middle(logs), length)

    def __call__(self, loss: float) -> float:
        """No algorithm with this DP loss on every record leaks more about any of them, to anybody."""
        tau = inputs.loss(loss)
        if tau == 0:
            return 0.0
        return min(self.blocks(tau), tau + self._both_sides(tau))

    def inverse(self, epsilon: float) -> float:
        """The largest loss whose bound is at most ``epsilon``."""
        return largest_loss(self, inputs.target(epsilon), _SHARE)

    def _both_sides(self, tau: float) -> float:
        if self.sides is None or self.middle is None:
            return math.inf
        after, before = (_settled(side, tau, self.length) for side in self.sides)
        if after is None or before is None:
            return math.inf
        k = len(self.middle)
        # After the target the nearer record of the pair (u, x) is x; before it, u.
        right, left = after.transpose(1, 0, 3, 2), before
        both = right + left  # (u, x, u', x')
        told = np.einsum("uxuy->uxy", both).max(axis=0)  # (x, x')
        room = np.einsum("uxvx->xuv", both) + tau * (1 - np.eye(k))
        moved = np.minimum(
            contraction(self.middle, room[:, None]).max(axis=(2, 3)),
            contraction(self.middle, room[None, :]).max(axis=(2, 3)),
        )
        total = told + moved
        np.fill_diagonal(total, 0.0)
        return float(total.max()) * (1 + SLACK)


def _settled(side: _Side, tau: float, length: int | None) -> Floats | None:
    """D of a side of so many records, or of any number: whatever a step does not raise bounds them all."""
    k = side.same.shape[2]
    table = np.zeros((k,) * 4)
    if length is not None and length - 1 <= _FEW:
        for _ in range(length - 1):
            table = np.maximum(table, side.step(table, tau))
        return table
    last = math.inf
    for n in range(1, _ROUNDS + 1):
        higher = side.step(table, tau)
        rise = higher - table
        change, largest = float(np.abs(rise).max()), float(higher.max())
        table = higher
        if largest > _LARGEST:
            return None
        if change <= _SETTLED * largest:
            break
        if n % _LEAP == 0 and change < last:
            # Where each step changes as large a share as the one before; where that is too far the next ones go back.
            share = min(change / last, _MOST_SHARE)
            ahead = np.maximum(table + rise * (share / (1 - share)), 0.0)
            table = ahead if float(ahead.max()) <= _LARGEST else table
        last = change
    # A step is concave and adds the loss, so that what is a little above where it settles is not raised.
    for room in (1e-9, 1e-8, 1e-7, 1e-6):
        bound = table * (1 + room)
        if (side.step(bound, tau) <= bound).all():
            return np.asarray(bound)
    return None


def _after(logs: Floats) -> _Side:
    """Records after a pair (a, b): b is nearer, and the next record c has the law T[a][b]."""
    # log T[a][b][c1]/T[a][b][c2], by (b, a; c1, c2)
    rows = (logs[:, :, :, None] - logs[:, :, None, :]).transpose(1, 0, 2, 3)
    # What is known behind c weights it by a mean of T[b][c][d] over d: quotients of b and b' lie between the extremes.
    quotients = (logs[:, None] - logs[None, :]).max(axis=3)  # (b, b'; c)
    known = quotients[:, :, :, None] + quotients.transpose(1, 0, 2)[:, :, None, :]  # (b, b'; c1, c2)
    return _side(rows, np.maximum(known, 0.0))


def _before(logs: Floats) -> _Side:
    """Records before a pair (u, x): u is nearer, and the record v before it is weighted by T[v][u][x]."""
    turned = logs.transpose(2, 1, 0)  # (x, u, v)
    rows = (turned[:, :, :, None] - turned[:, :, None, :]).transpose(1, 0, 2, 3)  # (u, x; v1, v2)
    # The law of (v, u) with all that is known before is a mean of T[s][v][u] over s.
    quotients = (logs[:, :, :, None] - logs[:, :, None, :]).max(axis=0).transpose(1, 2, 0)  # (u, u'; v)
    known = quotients[:, :, :, None] + quotients.transpose(1, 0, 2)[:, :, None, :]
    return _side(rows, known)


def _side(rows: Floats, known: Floats) -> _Side:
    """From log quotients of two next records by (nearer, farther), and what others add by (nearer, nearer')."""
    same = rows[:, :, None] - rows[:, None, :]  # (b; a, a'; u, u')
    other = rows[:, :, None, None] - rows[None, None] + known[:, None, :, None]
    return _Side(np.maximum(same.transpose(1, 2, 0, 3, 4), 0.0), np.maximum(other, 0.0))


def _middle(logs: Floats) -> Floats:
    """The record u before the target x: weighted by a mean of T[v][u][x], and by what is known after x."""
    before = (logs[:, :, :, None] - logs[:, :, None, :]).max(axis=0).transpose(1, 2, 0)  # (x, x'; u)
    law = before[:, :, :, None] + before.transpose(1, 0, 2)[:, :, None, :]
    after = (logs[:, None] - logs[None, :]).max(axis=3).transpose(2, 0, 1)  # (x; u1, u2)
    known = after[:, None] + after.transpose(0, 2, 1)[None, :]  # (x, x'; u1, u2)
    return np.asarray(np.maximum(law + np.maximum(known, 0.0), 0.0))
