"""The signed vector of a pair of values far from its target: steps of any length where the questions do not change.

While the same values are asked for, J steps are one product with the J-th power of A = K D, where D divides what is not
asked for by e^loss. That they are asked for all the way is proved, not tried. Let f(j) be one entry of v A^j.

- Split v into p − q, what is asked for and what is not. A value u that is asked for keeps its sign through all of J
  steps if p_u A_uu^J ≥ (q A^J)_u, because (p A^j)_u ≥ p_u A_uu^j, and (q A^J)_u ≥ (q A^j)_u A_uu^{J−j}, where A_uu > 0;
  and if nothing in q ever leads to u. The same with p and q exchanged holds for the other values.
- Or else f has the same sign at both ends, and f(j)/c^j rises all the way or falls all the way, for some c > 0. It does
  where g(j) = f(j + 1) − c f(j), an entry of v (A − c) A^j, keeps its sign. So one asks the same of g.
- f is a sum of as many powers of eigenvalues of A as there are states. Where c is one of them, g is a sum of one fewer.
- A sum of m such powers has at most m − 1 zeros within π/θ steps, where no eigenvalue has a larger angle than θ (it is
  a solution of an equation that Pólya 1922 factorises there). Let f be a sum of three, and c = f(1)/f(0) > 0: then g is
  0 at 0 and once more at most. So if g has one sign at 1 and at J it has it all the way between them. With
  d(j) = f(j + 1) − f(j) the sign is that of d(j) f(0) − d(0) f(j).

Where nothing of that is so a shorter leap is tried, and one step needs no proof. So a chain that hardly moves is
followed in few leaps: to every change of a question in as many as the distance has digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask

_BITS: Final = 4
"""Of a digit of a number of steps."""
_DIGITS: Final = (1 << _BITS) - 1
"""All but zero."""
_PLACES: Final = 9
"""Digits of the longest leap."""
_MODES: Final = 3
"""Eigenvalues whose powers are judged by two steps and the end."""
_ROUNDING: Final = 16 * 2.0**-53
_LEAST: Final = 1e-250
"""Smaller powers may have lost what they are compared with."""
_TURN: Final = 3.0
"""Less than π: the angle through which powers of eigenvalues may turn meanwhile."""
_NEGATIVE: Final = -1 + 1e-6
"""Eigenvalues, less 1, that are no larger cannot be quotients of what rises and falls."""
_ANGLE: Final = 1e-7
"""More than the rounding of the angle of an eigenvalue, also where two are the same."""


@dataclass(frozen=True, eq=False)
class _Questions:
    """What is known of some patterns of questions, (patterns, ...)."""

    powers: Floats
    """Of A, on a scale of their own: (patterns, place, k, digit · k), so that one product tries all digits."""
    logs: Floats
    """Of that scale, and the gain."""
    stays: Floats
    """A_uu to the same powers, on the same scale."""
    drift: Floats
    """A − 1, to the last digit."""
    roots: Floats
    """c − 1 for the first differences."""
    most: Floats
    """Steps within which zeros are counted."""

    def joined(self, others: _Questions) -> _Questions:
        names = [field.name for field in fields(self)]
        return _Questions(*(np.concatenate([getattr(self, name), getattr(others, name)]) for name in names))


class Leaps:
    """One side of targets, outwards: one kernel and one loss for all records."""

    def __init__(self, kernel: Floats, loss: float) -> None:
        k = len(kernel)
        self.kernel, self.loss = np.ascontiguousarray(kernel), loss
        self._bits = 1 << np.arange(k)
        self._place = np.full(1 << k, -1)
        reach = self.kernel > 0
        for _ in range(k.bit_length()):
            reach = reach | (reach @ reach)
        self._leads = reach.astype(float)
        """Which values ever lead to which."""
        self._above = max(k - _MODES, 0)
        """Differences until three modes are left."""
        self._questions = self._look_at(np.zeros(0, dtype=np.int64))
        steps = [self.kernel]
        for _ in range(_BITS * _PLACES - 1):
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
        rows, points = np.flatnonzero(new_row), np.flatnonzero(new)
        last = np.append(rows[1:], len(x)) - 1
        trail = self._follow(x[rows], y[rows], logs[rows], distance[last])
        vectors, sizes = self._between(trail, np.cumsum(new_row)[points] - 1, distance[points])
        back = np.empty(len(x), dtype=np.int64)
        back[order] = np.cumsum(new) - 1
        return vectors[back, 0], vectors[back, 1], sizes[back]

    def _follow(self, x: Ints, y: Ints, logs: Floats, last: Ints) -> _Trail:
        """Where each row's leaps begin, up to its last distance."""
        k, row = len(self.kernel), np.arange(len(x))
        size = np.maximum(logs, 0.0)
        now = np.zeros((len(x), 2, k))
        now[row, 1, y] = np.exp(logs - size)
        now[row, 0, x] = np.exp(-size)
        now[row, 0, y] -= now[row, 1, y]
        at = np.zeros(len(x), dtype=np.int64)
        trail = [(row, at, now, size, np.zeros_like(at))]
        top = min(_PLACES, -(-int(last.max(initial=1)).bit_length() // _BITS)) - 1
        going = last > 0
        row, last, at = (part[going] for part in (row, last, at + 1))
        now, size = self._step(now[going], size[going])
        place = np.full(len(row), top)
        while len(row):
            which = self._find((now[:, 0] > 0) @ self._bits)
            trail.append((row, at, now, size, which))
            left = np.flatnonzero(at < last)
            row, last, at, which, place = (part[left] for part in (row, last, at, which, place))
            now, size = now[left], size[left]
            fine = self._keeps(now[:, 0], which, place)
            digit = np.where(fine.any(axis=1), _DIGITS - fine[:, ::-1].argmax(axis=1), 0)
            leaps, steps = np.flatnonzero(digit), np.flatnonzero(digit + place == 0)
            at += digit << (_BITS * place)
            if len(leaps):
                now[leaps], size[leaps] = self._leap(now[leaps], size[leaps], which[leaps], place[leaps], digit[leaps])
            place = np.minimum(np.maximum(place + np.where(digit == _DIGITS, 1, -1), 0), top)
            if len(steps):
                at[steps] += 1
                now[steps], size[steps] = self._step(now[steps], size[steps])
                place[steps] = top
        rows, ats, vectors, sizes, patterns = (np.concatenate(part) for part in zip(*trail, strict=True))
        return _Trail(rows, ats, vectors, sizes, patterns)

    def _step(self, now: Floats, size: Floats) -> tuple[Floats, Floats]:
        """One step, whatever is asked for behind it."""
        step = now @ self.kernel
        return _scaled(np.where(step[:, :1] > 0, step, step * math.exp(-self.loss)), size + self.loss)

    def _leap(self, now: Floats, size: Floats, which: Ints, place: Ints, digit: Ints) -> tuple[Floats, Floats]:
        """Many steps with the same questions."""
        k, asked = len(self.kernel), self._questions
        powers = asked.powers.reshape(len(asked.powers), _PLACES, k, _DIGITS, k)[which, place, :, digit - 1]
        return _scaled(now @ powers, size + asked.logs[which, place, digit - 1])

    def _keeps(self, vectors: Floats, which: Ints, place: Ints) -> Mask:
        """Whether the questions stay the same through so many steps, for all digits at one place: (rows, digit)."""
        asked, above, (rows, k) = self._questions, self._above, vectors.shape
        drift, stays = asked.drift[which], asked.stays[which, place]
        spread, lasts = np.abs(drift), stays > _LEAST
        parts = np.empty((rows, 3 + 2 * above, k))
        parts[:, 0] = np.maximum(vectors, 0.0)
        parts[:, 1] = parts[:, 0] - vectors
        now, size = vectors, np.abs(vectors)
        for i in range(above):
            root = asked.roots[which, i, None]
            now, size = _times(now, drift) - root * now, _times(size, spread) + np.abs(root) * size
            parts[:, 2 + 2 * i], parts[:, 3 + 2 * i] = now, np.abs(now)
        rise = parts[:, -1] = _times(now, drift)
        then = (parts @ asked.powers[which, place]).reshape(rows, 3 + 2 * above, _DIGITS, k)
        # Three modes: how the rise compares with what there is, behind one step and at the end.
        bend, wide = _times(rise, drift), _times(size, spread)
        wider = _times(wide, spread)
        first = bend * now - rise * rise
        room = _ROUNDING * (wider * (np.abs(now) + size) + 2 * wide * np.abs(rise))
        first[(np.abs(first) <= room) | ((now + rise) * now < 0)] = 0.0
        end = then[:, 0] - then[:, 1] if above == 0 else then[:, 2 * above]
        even = (then[:, -1] * now[:, None] - rise[:, None] * end) * first[:, None] > 0
        steps = np.arange(1, _DIGITS + 1) << (_BITS * place)[:, None]
        even &= (steps <= asked.most[which, None])[..., None]
        for i in reversed(range(above)):
            now, end, whole = parts[:, None, 2 + 2 * i], then[:, 2 + 2 * i], then[:, 3 + 2 * i]
            even = (even & (end * now > 0)) | (lasts & (2 * np.abs(now) * stays >= whole - np.sign(now) * end))
        above_zero, up, down = (vectors > 0)[:, None], then[:, 0], then[:, 1]
        alone = lasts & np.where(above_zero, parts[:, None, 0] * stays >= down, parts[:, None, 1] * stays >= up)
        led = parts[:, :2] @ self._leads > 0
        alone |= ~np.where(above_zero, led[:, None, 1], led[:, None, 0])
        ends = np.where(above_zero, up >= down, down >= up)
        return np.asarray((alone | (ends & even)).all(axis=2))

    def _between(self, trail: _Trail, row: Ints, distance: Ints) -> tuple[Floats, Floats]:
        """Vectors and their parts below at some distances of each row, (P, 2, k), and logs of their scales."""
        base = 1 + int(max(trail.at.max(initial=0), distance.max(initial=0)))
        keys = trail.row * base + trail.at
        order = np.argsort(keys, kind="stable")
        near = order[np.searchsorted(keys[order], row * base + distance, side="right") - 1]
        now, size, which, rest = trail.vectors[near], trail.sizes[near], trail.which[near], distance - trail.at[near]
        place = 0
        while rest.any():
            digit = rest & _DIGITS
            some = np.flatnonzero(digit)
            here = np.full(len(some), place)
            now[some], size[some] = self._leap(now[some], size[some], which[some], here, digit[some])
            rest, place = rest >> _BITS, place + 1
        return now, size

    def _find(self, codes: Ints) -> Ints:
        """Where the powers for these questions are; they are made when they are first asked for."""
        place = self._place[codes]
        if (place >= 0).all():
            return np.asarray(place)
        new = np.unique(codes[place < 0])
        self._place[new] = len(self._questions.logs) + np.arange(len(new))
        self._questions = self._questions.joined(self._look_at(new))
        return np.asarray(self._place[codes])

    def _look_at(self, codes: Ints) -> _Questions:
        k, count = len(self.kernel), len(codes)
        asked, diagonal = (codes[:, None] & self._bits) > 0, np.arange(k)
        moves = self.kernel * np.where(asked, 1.0, math.exp(-self.loss))[:, None, :]
        stay = np.diag(self.kernel)
        drift = moves.copy()
        drift[:, diagonal, diagonal] = (stay - 1) + np.where(asked, 0.0, math.expm1(-self.loss)) * stay
        values = np.linalg.eigvals(drift)
        order = np.argsort(-values.real, axis=1)
        roots = np.take_along_axis(values, order, axis=1)[:, : self._above]
        most = np.floor(_TURN / (np.abs(np.angle(1 + values)).max(axis=1, initial=0.0) + _ANGLE))
        fit = (roots.imag == 0) & (roots.real > _NEGATIVE)
        most[~fit.all(axis=1)] = 0  # more than three modes are left
        powers, logs = np.empty((count, _PLACES, k, _DIGITS, k)), np.empty((count, _PLACES, _DIGITS))
        stays = np.empty((count, _PLACES, _DIGITS, k))
        power, log = moves[:, None], np.full((count, 1), self.loss)
        alone = moves[:, None, diagonal, diagonal]
        for place in range(_PLACES):
            for _ in range(_BITS):
                longer = power @ power[:, -1:]
                scale = longer.max(axis=(2, 3))
                scale[scale == 0] = 1.0
                power = np.concatenate([power, longer / scale[..., None, None]], axis=1)
                alone = np.concatenate([alone, alone * alone[:, -1:] / scale[..., None]], axis=1)
                log = np.concatenate([log, log + log[:, -1:] + np.log(scale)], axis=1)
            powers[:, place], logs[:, place] = power[:, :_DIGITS].swapaxes(1, 2), log[:, :_DIGITS]
            stays[:, place] = alone[:, :_DIGITS]
            power, log, alone = power[:, _DIGITS:], log[:, _DIGITS:], alone[:, _DIGITS:]
        return _Questions(
            powers.reshape(count, _PLACES, k, _DIGITS * k),
            logs,
            stays,
            drift,
            np.where(roots.real > _NEGATIVE, roots.real, -0.5),
            most,
        )


@dataclass(frozen=True, eq=False)
class _Trail:
    """Where leaps begin: of which row, behind how many steps, with which vectors and questions."""

    row: Ints
    at: Ints
    vectors: Floats
    sizes: Floats
    which: Ints


def _times(vectors: Floats, matrices: Floats) -> Floats:
    """Each with its own."""
    return np.asarray((vectors[:, None] @ matrices)[:, 0])


def _scaled(vectors: Floats, size: Floats) -> tuple[Floats, Floats]:
    """The largest entry is 1, and the log of what it was is added."""
    scale = np.abs(vectors).max(axis=(1, 2), initial=0.0)
    scale[scale == 0] = 1.0
    return vectors / scale[:, None, None], size + np.log(scale)
