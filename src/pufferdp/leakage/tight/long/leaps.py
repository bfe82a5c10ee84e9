"""The signed vector of a pair of values far from its target: steps of any length where the questions do not change.

While the same values are asked for, J steps are one product with the J-th power of A = K D, where D divides what is not
asked for by e^loss. That they are asked for all the way is proved, not tried: split the vector into p − q, what is
asked for and what is not. A value u that is asked for keeps its sign through all of J steps if

    p_u A_uu^J ≥ (q A^J)_u,

because (p A^j)_u ≥ p_u A_uu^j, and (q A^J)_u ≥ (q A^j)_u A_uu^{J−j}, so that (p A^j)_u − (q A^j)_u is at least
A_uu^j (p_u − (q A^J)_u A_uu^{−J}) =: l_u A_uu^j, for every u. The same with p and q exchanged holds for the other
values. Or else if what flows in does not take the sign away: from the other values at least Σ_w l_w A_wu a step, with
l_w A_ww^J in place of l_w where it is positive, so that p_u A_uu^J ≥ J·(what flows out) is enough. Where that is not so
either a shorter leap is tried, and one step needs no proof. So a chain that hardly moves is followed in few leaps, a
number that grows with the log of the distance.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask

_LARGEST: Final = 36
"""Leaps are of 2^this steps at most."""


class Leaps:
    """One side of targets, outwards: one kernel and one loss for all records."""

    def __init__(self, kernel: Floats, loss: float) -> None:
        k = len(kernel)
        self.kernel, self.loss = np.ascontiguousarray(kernel), loss
        self._bits = 1 << np.arange(k)
        self._place = np.full(1 << k, -1)
        self._powers = np.zeros((0, _LARGEST, k, k))
        self._logs = np.zeros((0, _LARGEST))
        self._stays = np.zeros((0, _LARGEST, k))
        self._keeps = np.zeros((0, _LARGEST, k))
        self._others = self.kernel * ~np.eye(k, dtype=bool)
        steps = [self.kernel]
        for _ in range(_LARGEST - 1):
            steps.append(steps[-1] @ steps[-1])
        self._plain = np.stack(steps)

    def plain(self, distance: Ints) -> Floats:
        """The kernel to these powers, (Q, k, k)."""
        each, which = np.unique(distance, return_inverse=True)
        out = np.broadcast_to(np.eye(len(self.kernel)), (len(each), *self.kernel.shape)).copy()
        for bit in range(int(each.max(initial=0)).bit_length()):
            some = (each >> bit) & 1 == 1
            out[some] = out[some] @ self._plain[bit]
        return np.asarray(out[which])

    def ask(self, x: Ints, y: Ints, logs: Floats, distance: Ints) -> tuple[Floats, Floats, Floats]:
        """Vectors at log μ behind the gain at a distance, their parts below, (Q, k), and logs of their scales."""
        order = np.lexsort((distance, logs, y, x))
        x, y, logs, distance = x[order], y[order], logs[order], distance[order]
        new_row = np.ones(len(x), dtype=bool)
        new_row[1:] = (x[1:] != x[:-1]) | (y[1:] != y[:-1]) | (logs[1:] != logs[:-1])
        new = new_row.copy()
        new[1:] |= distance[1:] != distance[:-1]
        rows = np.flatnonzero(new_row)
        points = np.flatnonzero(new)
        first = np.append(np.searchsorted(points, rows), len(points))
        vectors, sizes = self._follow(x[rows], y[rows], logs[rows], first, distance[points])
        back = np.empty(len(x), dtype=np.int64)
        back[order] = np.cumsum(new) - 1
        return vectors[back, 0], vectors[back, 1], sizes[back]

    def _follow(self, x: Ints, y: Ints, logs: Floats, first: Ints, distance: Ints) -> tuple[Floats, Floats]:
        """Vectors and their parts below at the points of each row, (P, 2, k), and logs of their scales."""
        k, less, rows = len(self.kernel), math.exp(-self.loss), np.arange(len(x))
        size = np.maximum(logs, 0.0)
        now = np.zeros((len(x), 2, k))
        now[rows, 1, y] = np.exp(logs - size)
        now[rows, 0, x] = np.exp(-size)
        now[rows, 0, y] -= now[rows, 1, y]
        out, sizes = np.empty((len(distance), 2, k)), np.empty(len(distance))
        at, point, last = np.zeros(len(x), dtype=np.int64), first[:-1].copy(), first[1:]
        wish = np.zeros(len(x), dtype=np.int64)
        while len(at):
            asked = now[:, 0] > 0
            room = np.frexp((distance[point] - at).astype(float))[1] - 1
            leap = np.minimum(np.minimum(wish, room), _LARGEST - 1)
            place = self._find(asked @ self._bits)
            parts = np.empty((len(at), 3, k))
            parts[:, 0] = np.maximum(now[:, 0], 0.0)
            parts[:, 1] = parts[:, 0] - now[:, 0]
            parts[:, 2] = now[:, 1]
            then = parts @ self._powers[place, leap]
            stays = self._stays[place, leap]
            fine = np.where(asked, parts[:, 0] * stays >= then[:, 1], parts[:, 1] * stays >= then[:, 0])
            kept = fine.all(axis=1)
            some = np.flatnonzero(~kept & (leap > 0))
            if len(some):
                keeps = self._keeps[place[some], leap[some]]
                drifts = self._drifts(
                    asked[some], now[some, 0], parts[some], then[some], stays[some], leap[some], keeps
                )
                kept[some] = (fine[some] | drifts).all(axis=1)
            fine = kept
            moved = np.empty_like(now)
            moved[:, 0] = then[:, 0] - then[:, 1]
            moved[:, 1] = then[:, 2]
            grown = self._logs[place, leap]
            short = np.flatnonzero(~fine)
            if len(short):
                step = now[short] @ self.kernel
                moved[short] = np.where(step[:, :1] > 0, step, step * less)
                grown[short] = self.loss
            wish = np.where(fine, np.where(leap == wish, wish + 1, wish), np.maximum(leap - 1, 0))
            scale = np.abs(moved).max(axis=(1, 2))
            scale[scale == 0] = 1.0
            now, size = moved / scale[:, None, None], size + grown + np.log(scale)
            at = at + np.where(fine, 1 << leap, 1)
            there = np.flatnonzero(distance[point] == at)
            if len(there):
                out[point[there]], sizes[point[there]] = now[there], size[there]
                point[there] += 1
                going = point < last
                if not going.all():
                    now, size = now[going], size[going]
                    at, point, last, wish = (part[going] for part in (at, point, last, wish))
        return out, sizes

    def _drifts(
        self, asked: Mask, vectors: Floats, parts: Floats, then: Floats, stays: Floats, leap: Ints, keeps: Floats
    ) -> Mask:
        """Which entries keep their signs because what flows in does not take them away."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            low = parts[:, 0] - then[:, 1] / stays
            high = then[:, 0] / stays - parts[:, 1]
            ends = np.stack([np.where(low > 0, low * keeps, low), np.where(high < 0, high * keeps, high)], axis=1)
            flow = (ends @ self._others) * np.where(asked, 1.0, math.exp(-self.loss))[:, None]
            steps, left = np.ldexp(1.0, leap)[:, None], vectors * keeps
            up = left + steps * np.minimum(flow[:, 0], 0.0) >= 0
            down = left + steps * np.maximum(flow[:, 1], 0.0) <= 0
        return np.asarray(np.where(asked, up, down))

    def _find(self, codes: Ints) -> Ints:
        """Where the powers for these questions are; they are made when they are first asked for."""
        place = self._place[codes]
        if (place >= 0).all():
            return np.asarray(place)
        new = np.unique(codes[place < 0])
        asked = (new[:, None] & self._bits) > 0
        power = self.kernel * np.where(asked, 1.0, math.exp(-self.loss))[:, None, :]
        stay, log = np.diagonal(power, axis1=1, axis2=2), np.full(len(new), self.loss)
        keep = stay
        powers, logs, stays, keeps = [], [], [], []
        for _ in range(_LARGEST):
            powers.append(power)
            logs.append(log)
            stays.append(stay)
            keeps.append(keep)
            keep = keep * keep
            power = power @ power
            scale = power.max(axis=(1, 2))
            scale[scale == 0] = 1.0
            power, log, stay = power / scale[:, None, None], 2 * log + np.log(scale), stay * stay / scale[:, None]
        self._place[new] = len(self._powers) + np.arange(len(new))
        self._powers = np.concatenate([self._powers, np.stack(powers, axis=1)])
        self._logs = np.concatenate([self._logs, np.stack(logs, axis=1)])
        self._stays = np.concatenate([self._stays, np.stack(stays, axis=1)])
        self._keeps = np.concatenate([self._keeps, np.stack(keeps, axis=1)])
        return np.asarray(self._place[codes])
