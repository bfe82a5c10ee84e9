"""Pairs of values that leak no more than is asked: a quick proof for many at once, where it succeeds.

One kernel or several in turn, the same loss on every record, no end. Only signed vectors are followed (see ``sides``),
at a few μ in each row. An end with prior quotient r is harmless at a level where the vector is not positive at
μ = level/r. Between two μ that are followed the vector lies below its chord; beyond some distance nothing is positive
any more, and all ends farther away are harmless as well. Rows without such a proof are left to ``sides.solve``.

Where a chain forgets slowly, m records are passed at once, as one block that spends mτ: an algorithm may then tell any
two blocks apart, which is more than it can (docs/theory/tight.md, "Blocks of records").
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.bounds.tight.long.jumps import kept_law
from pufferdp.bounds.tight.outlook import (
    MOST_LOSS,
    Outlook,
    Rows,
    asked_later,
    on_chords,
    scaled,
    scaled_alike,
)

_BELOW: Final = np.array([1.02, 0.55, 0.3, 0.14, 0.05])
"""Where μ lie between what the nearest ends ask for and the level."""
_CLOSE: Final = np.array([0.06, 0.02, 0.005])
"""And just below the level, as shares of it: for all ends that are far away."""
_ABOVE: Final = np.array([0.12, 0.4, 1.001])
"""And above it."""
_COARSE: Final = (np.array([1.02, 0.3, 0.1]), np.array([0.1]), np.array([0.3, 1.001]))
_FINE: Final = (_BELOW, _CLOSE, _ABOVE)
"""Where many rows are easy, few μ are tried first."""
_SOON: Final = 12
"""Blocks behind the first that matters within which few μ prove what they can."""
_FEW: Final = 64
_SOME: Final = 48
"""Rows up to which it costs as much to try few μ."""
_VERY_FEW: Final = 4
"""Rows that are followed step by step, so that nothing is lost."""
_SHALLOW: Final = 512
"""Up to this distance so few rows are worked out as quickly, where nobody knows a record."""
_DENSE: Final = np.geomspace(_BELOW[0], 1e-4, 28)
"""Where few rows are left, their μ lie closer."""
_DENSE_ABOVE: Final = np.geomspace(1e-3, _ABOVE[-1], 12)
_TRIES: Final = 4
_GIVEN: Final = 0.02
"""What a side without a proof is given by the other, as a share of both."""
_ROWS: Final = 512
"""Rows followed at a time, so that they stay in the cache."""
_EVERY: Final = 4
_SELDOM: Final = 8
"""Steps after which the μ that no end asks for any more are dropped."""
_OFTEN: Final = 1e20
"""Gains beyond this are scaled back after every step."""
_BLOCKS: Final = 7
"""A side is passed in about 2^7 blocks first."""
_FINEST: Final = 6
"""Known ends are looked at in blocks of up to 1/2^5 of the distance at which they begin to matter."""
_FINER: Final = 4
"""And in blocks that are shorter by 2^4."""
_BENDS: Final = 1.001
"""With room for rounding."""
_FEW_STATES: Final = 12
"""States up to which rows of different phases are followed together."""
_TOGETHER: Final = 2048
_LEAST_PRODUCT: Final = 1e-290


def harmless(look: Outlook, rows: Rows, levels: Floats, deepest: int) -> Mask:
    """Rows whose lanes are proved to add at most the sum of these levels, (lanes, R) logs, in all."""
    proved = np.zeros(len(rows), dtype=bool)
    endless = rows.losses.shape[1] == 1 and bool((rows.records < 0).all())
    if not endless or look.last_loss is not None or not look.plain:
        return proved
    ways = (_TurningEnds if look.known else _Turning) if look.kernels.shape[1] > 1 else None
    kind = ways or (_KnownEnds if look.known else _NoEnds)
    lanes = [kind(look, lane, rows) for lane in range(look.lanes)]
    left = np.arange(len(rows))
    for _ in range(_TRIES):
        kept = np.stack([lane.all(left, levels[i, left], deepest) for i, lane in enumerate(lanes)])
        proved[left] = kept.all(axis=0)
        if len(lanes) == 1:
            break
        # Where one side alone has no proof, the other may have room to give.
        one = kept.sum(axis=0) == 1
        left, kept = left[one], kept[:, one]
        if not len(left) or (len(left) <= _VERY_FEW and deepest <= _SHALLOW and not look.known):
            break
        given = _GIVEN * levels[:, left].sum(axis=0)
        levels[:, left] += np.where(kept, -given, given)
    return proved


class _NoEnds:
    """Nobody knows a record: a vector without positive entries is all that is asked."""

    def __init__(self, look: Outlook, lane: int, rows: Rows) -> None:
        self.kernel, self.rows = look.kernels[lane, 0], rows
        self.loss = float(rows.losses[lane, 0])
        self.gain = math.exp(min(self.loss, MOST_LOSS))

    def all(self, at: Ints, levels: Floats, deepest: int) -> Mask:
        """Which of many rows are proved: some at a time."""
        parts = [slice(low, low + _ROWS) for low in range(0, len(at), _ROWS)]
        return np.concatenate([self.settle(at[part], levels[part], deepest) for part in parts])

    def settle(self, at: Ints, levels: Floats, deepest: int) -> Mask:
        """Which of some rows are proved: in long blocks first, then in shorter ones."""
        proved, block = np.zeros(len(at), dtype=bool), max(1, deepest >> _BLOCKS)
        while True:
            left = np.flatnonzero(~proved)
            proved[left] = self._dies(at[left], levels[left], deepest, block)
            if block == 1 or proved.all():
                return proved
            block = max(1, block // 4)

    def _dies(self, at: Ints, levels: Floats, deepest: int, block: int) -> Mask:
        """Where no entry is positive after some blocks; what is positive forever would never be seen."""
        proved, left = np.zeros(len(at), dtype=bool), np.arange(len(at))
        vectors = _vectors(self.rows, at, levels[:, None], len(self.kernel))[:, 0]
        rest = np.linalg.matrix_power(self.kernel, block - 1)
        gain = math.exp(min(self.loss * block, MOST_LOSS))
        every = _EVERY if gain < _OFTEN else 1
        for d in range(1, deepest // block + 1):
            vectors = vectors @ self.kernel
            np.maximum(vectors, vectors * gain, out=vectors)
            vectors = vectors @ rest if block > 1 else vectors
            if d % every == 0:
                dead = (vectors <= 0).all(axis=1)
                proved[left[dead]] = True
                left, vectors = left[~dead], scaled(vectors[~dead], (1,))
                if not len(left):
                    break
        return proved


class _KnownEnds(_NoEnds):
    """Records may be known: every known end is looked at, from the distance on where group privacy is not enough."""

    def settle(self, at: Ints, levels: Floats, deepest: int) -> Mask:
        """Which of some rows are proved: in long blocks first, then in shorter ones."""
        proved = np.zeros(len(at), dtype=bool)
        near = int(np.floor(levels.min() / self.loss)) + 1 if self.loss > 0 else deepest
        block = 1 << max(0, near.bit_length() - _FINEST)
        longest, finest = block, max(1, block >> _FINER)
        if block > 1 and len(at) > _FEW:  # most rows are far from what is asked
            block *= 4
        tried = False
        while near < deepest:
            left = np.flatnonzero(~proved)
            step = 1 < block < longest and len(left) <= _VERY_FEW
            if step:
                block = longest
            power = np.linalg.matrix_power(self.kernel, near // block * block)
            if not (power > 0).all():
                break
            first = np.log(power[self.rows.y[at[left]]]) - np.log(power[self.rows.x[at[left]]])
            if not tried:
                # What dies at the lowest μ that any end may ask for, before group privacy ends, needs no closer look.
                proved[left] = self._dies(at[left], levels[left] - first.max(axis=1), near, block)
                first, left, tried = first[~proved[left]], left[~proved[left]], True
            for grid in (_COARSE, _FINE) if block == 1 or self._law is not None else ():
                if grid is _FINE or (block == 1 and len(left) > _SOME):
                    far = deepest if grid is _FINE else min(deepest, near + _SOON * block)
                    proved[left] = self._closely(
                        at[left], levels[left], first, near // block, far, block, grid=grid, step=step
                    )
                    first, left = first[~proved[left]], left[~proved[left]]
                if not len(left):
                    break
            if block == finest or proved.all() or step:
                break
            block = max(finest, block // 4)
        return proved

    @cached_property
    def _law(self) -> Floats | None:
        """A law that the kernel keeps, up to rounding; None: not found."""
        return kept_law(self.kernel)

    def _closely(
        self,
        at: Ints,
        levels: Floats,
        first: Floats,
        near: int,
        deepest: int,
        block: int,
        *,
        grid: tuple[Floats, ...] = _FINE,
        step: bool = False,
    ) -> Mask:
        """End by end, at several μ, from the block ``near`` on; if wanted ``step`` by step, and ends in blocks.

        Why blocks and chords prove it: docs/theory/tight.md, "Blocks of records".
        """
        if self.loss * block > MOST_LOSS:  # its gain would be no number, and a smaller one proves nothing
            return np.zeros(len(at), dtype=bool)
        x, y, kernel = self.rows.x[at], self.rows.y[at], self.kernel
        most, least = (np.maximum(way, 1e-9)[:, None] for way in (first.max(axis=1), (-first).max(axis=1)))
        below, close, above = grid
        steps = [-most * below, -levels[:, None] * close, np.zeros((len(at), 1)), least * above]
        if len(at) <= _FEW and grid is _FINE:  # shorter chords
            steps = [-most * _DENSE, np.zeros((len(at), 1)), least * _DENSE_ABOVE]
        logs = np.sort(levels[:, None] + np.concatenate(steps, axis=1), axis=1)
        mu = np.exp(logs)
        vectors = _vectors(self.rows, at, logs, len(kernel))
        proved, left = np.zeros(len(at), dtype=bool), np.arange(len(at))
        limit = np.exp(levels)
        rest, gain = np.linalg.matrix_power(kernel, block - 1), math.exp(self.loss * block)
        curve = (kernel - np.eye(len(kernel))) @ (kernel - np.eye(len(kernel)))
        power, whole = np.linalg.matrix_power(kernel, near * block + 1), rest @ kernel
        every = _EVERY if gain < _OFTEN else 1
        for n in range(deepest // block + 1):
            dead = None
            if step:
                seen, vectors = self._walked(vectors, block)
            else:
                vectors = vectors @ kernel
                seen = vectors
                if block > 1:
                    np.maximum(vectors, vectors * gain, out=vectors)
                    seen, vectors = vectors, vectors @ rest
            if n >= near:
                ratio = self._said(power, rest, curve, x[left], y[left], block)
                power = power @ whole
                dead = (seen <= 0).all(axis=2)
                if block > 1 and not step:
                    bend = self._bend(-(seen @ curve), block)
                    seen = np.maximum(seen, vectors) + bend
                fine = (on_chords(seen, mu[left], limit[left, None] / ratio) <= 0).all(axis=1)
                # What died at this μ or a smaller one never rises again: no end beyond says more than those here.
                lowest = np.where(dead, mu[left], np.inf).min(axis=1)
                over = fine & (lowest * ratio.max(axis=1) <= limit[left])
                proved[left[over]] = True
                keep = fine & ~over
                if not keep.all():
                    left, vectors = left[keep], vectors[keep]
                    if not len(left):
                        break
                    ratio = ratio[keep]
                if (n - near) % _SELDOM == 0:
                    asked = asked_later(mu[left], limit[left] / ratio.max(axis=1), limit[left] / ratio.min(axis=1))
                    if not asked.all():
                        mu, vectors = mu[:, asked], vectors[:, asked]
            if block == 1:
                np.maximum(vectors, vectors * gain, out=vectors)
            if n % every == 0:
                vectors = scaled_alike(vectors)
        return proved

    def _walked(self, vectors: Floats, steps: int) -> tuple[Floats, Floats]:
        """The largest that vectors become before each gain, and what they are behind the last step."""
        most = None
        for _ in range(steps):
            vectors = vectors @ self.kernel
            most = vectors.copy() if most is None else np.maximum(most, vectors, out=most)
            np.maximum(vectors, vectors * self.gain, out=vectors)
        assert most is not None
        return most, vectors

    def _bend(self, seconds: Floats, block: int) -> Floats:
        """How far a sequence may rise above its chord within a block, from minus its second differences."""
        assert self._law is not None
        most = np.maximum(seconds / self._law, 0.0).max(axis=-1, keepdims=True)
        return np.asarray(most * self._law * (_BENDS * block**2 / 8))

    def _said(self, power: Floats, rest: Floats, curve: Floats, x: Ints, y: Ints, block: int) -> Floats:
        """The most that known ends in a block say by themselves, from where it begins: (R, k)."""
        if block == 1:
            return np.asarray(power[y] / power[x])
        last, second = power @ rest, power @ curve
        high = np.maximum(power, last) + self._bend(-second, block)
        low = np.minimum(power, last) - self._bend(second, block)
        with np.errstate(divide="ignore"):
            return np.where(low[x] > 0, high[y] / np.maximum(low[x], 0.0), np.inf)


class _Turning:
    """Several kernels in turn, nobody knows a record: rows of one phase share their kernels, record by record."""

    def __init__(self, look: Outlook, lane: int, rows: Rows) -> None:
        self.kernels, self.rows, self.offsets = look.kernels[lane], rows, rows.offsets[lane]
        self.loss = float(rows.losses[lane, 0])
        self.gain = math.exp(min(self.loss, MOST_LOSS))

    def all(self, at: Ints, levels: Floats, deepest: int) -> Mask:
        """Which of many rows are proved: some at a time, of one phase each where there are many states."""
        order, alike = np.arange(len(at)), self.kernels.shape[-1] > _FEW_STATES
        cuts = np.arange(_TOGETHER, len(at), _TOGETHER)
        if alike:
            order = np.argsort(self.offsets[at], kind="stable")
            phases = np.flatnonzero(np.diff(self.offsets[at[order]])) + 1
            cuts = np.union1d(phases, np.arange(_ROWS, len(at), _ROWS))
        proved = np.zeros(len(at), dtype=bool)
        for part in np.split(order, cuts):
            if len(part):
                proved[part] = self.settle(at[part], levels[part], deepest)
        return proved

    def _step(self, vectors: Floats, at: Ints, d: int) -> Floats:
        """From distance d − 1 to d."""
        offsets = self.offsets[at]
        if self.kernels.shape[-1] > _FEW_STATES:
            # Row by row: one large product would be spread over all processors, which costs more than it gains.
            return np.asarray(vectors @ self.kernels[(offsets[0] + d - 1) % len(self.kernels)])
        return np.asarray(vectors @ self.kernels[(offsets + d - 1) % len(self.kernels)])

    def settle(self, at: Ints, levels: Floats, deepest: int) -> Mask:
        """Where no entry is positive after some records."""
        return self._dies(at, levels, deepest)

    def _dies(self, at: Ints, levels: Floats, deepest: int) -> Mask:
        proved, left = np.zeros(len(at), dtype=bool), np.arange(len(at))
        vectors = _vectors(self.rows, at, levels[:, None], self.kernels.shape[-1])
        every = _EVERY if self.gain < _OFTEN else 1
        for d in range(1, deepest + 1):
            vectors = self._step(vectors, at[left], d)
            np.maximum(vectors, vectors * self.gain, out=vectors)
            if d % every == 0:
                dead = (vectors <= 0).all(axis=(1, 2))
                proved[left[dead]] = True
                left, vectors = left[~dead], scaled(vectors[~dead], (1, 2))
                if not len(left):
                    break
        return proved


class _TurningEnds(_Turning):
    """Several kernels in turn, and records may be known."""

    def settle(self, at: Ints, levels: Floats, deepest: int) -> Mask:
        """Every known end is looked at, from the distance on where group privacy is not enough."""
        proved, left = np.zeros(len(at), dtype=bool), np.arange(len(at))
        near = int(np.floor(levels.min() / self.loss)) + 1 if self.loss > 0 else deepest
        if near >= deepest or self.loss > MOST_LOSS:
            return proved
        laws = self._laws(at, near)
        if laws is None:
            return proved
        first = _log_quotients(laws)
        # What dies at the lowest μ that any end may ask for, before group privacy ends, needs no closer look. A value
        # that only the other one allows here may say anything about ends beyond.
        most = np.nanmax(np.where(np.isnan(first), -np.inf, first), axis=1, initial=0.0)
        some = np.flatnonzero(np.isfinite(most))
        proved[some] = self._dies(at[some], levels[some] - most[some], near)
        for grid in (_COARSE, _FINE):
            left = np.flatnonzero(~proved)
            if len(left):
                proved[left] = self._closely(at[left], levels[left], laws[left], first[left], near, deepest, grid)
            if len(left) <= _FEW:  # whatever the grid, few rows have the closest μ: to look again would find the same
                break
        return proved

    @cached_property
    def _least(self) -> float:
        """The smallest entry above 0."""
        return float(self.kernels[self.kernels > 0].min())

    def _laws(self, at: Ints, distance: int) -> Floats | None:
        """Laws of the record at a distance given either value, (R, 2, k); None where a double may have lost some."""
        index, laws = np.arange(len(at)), np.zeros((len(at), 2, self.kernels.shape[-1]))
        laws[index, 0, self.rows.x[at]] = laws[index, 1, self.rows.y[at]] = 1.0
        for d in range(1, distance + 1):
            laws = self._step(laws, at, d)
            if self._lost(laws):
                return None
        return laws

    def _lost(self, laws: Floats) -> bool:
        """Whether a product of what is above 0 may be too small for a double: then 0 may not mean impossible."""
        least = float(laws.min(initial=1.0))
        if least == 0:
            least = float(np.min(laws, initial=1.0, where=laws > 0))
        return least * self._least < _LEAST_PRODUCT

    def _closely(
        self, at: Ints, levels: Floats, laws: Floats, first: Floats, near: int, deepest: int, grid: tuple[Floats, ...]
    ) -> Mask:
        """End by end, at several μ, from the distance ``near`` on."""
        k = self.kernels.shape[-1]
        finite = np.isfinite(first)
        most = np.maximum(np.max(first, axis=1, initial=0.0, where=finite), 1e-9)[:, None]
        least = np.maximum(-np.min(first, axis=1, initial=0.0, where=finite), 1e-9)[:, None]
        below, close, above = grid
        steps = [-most * below, -levels[:, None] * close, np.zeros((len(at), 1)), least * above]
        if len(at) <= _FEW:  # shorter chords
            steps = [-most * _DENSE, np.zeros((len(at), 1)), least * _DENSE_ABOVE]
        logs = np.sort(levels[:, None] + np.concatenate(steps, axis=1), axis=1)
        mu, limit = np.exp(logs), np.exp(levels)
        vectors = _vectors(self.rows, at, logs, k)
        proved, left = np.zeros(len(at), dtype=bool), np.arange(len(at))
        for d in range(1, deepest + 1):
            vectors = self._step(vectors, at[left], d)
            if d >= near:
                if d > near:
                    laws = self._step(laws, at[left], d)
                    if self._lost(laws):
                        break
                both = (laws > 0).all(axis=1)
                ratio = np.where(both, laws[:, 1], 1.0) / np.where(both, laws[:, 0], 1.0)
                fine = ((on_chords(vectors, mu[left], limit[left, None] / ratio) <= 0) | ~both).all(axis=1)
                keep = fine
                if (d - near) % _EVERY == 0:
                    # What died at this μ or a smaller one never rises again: no end beyond says more than values here
                    # do, those included that only one of the two allows.
                    beyond = np.where(((laws[:, 1] > 0) & (laws[:, 0] == 0)).any(axis=1), np.inf, ratio.max(axis=1))
                    dead = vectors.max(axis=2) <= 0
                    lowest = np.where(dead, mu[left], np.inf).min(axis=1)
                    over = fine & (lowest * np.maximum(beyond, 1.0) <= limit[left])
                    proved[left[over]] = True
                    keep = fine & ~over
                if not keep.all():
                    left, vectors, laws, ratio = left[keep], vectors[keep], laws[keep], ratio[keep]
                    if not len(left):
                        break
                if (d - near) % _SELDOM == 0:
                    asked = asked_later(mu[left], limit[left] / ratio.max(axis=1), limit[left] / ratio.min(axis=1))
                    if not asked.all():
                        mu, vectors = mu[:, asked], vectors[:, asked]
            np.maximum(vectors, vectors * self.gain, out=vectors)
            if d % _EVERY == 0 or self.gain >= _OFTEN:
                vectors = scaled_alike(vectors)
        return proved


def _log_quotients(laws: Floats) -> Floats:
    """Log of the second law over the first, (R, k); not finite where a value is impossible."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(laws[:, 1]) - np.log(laws[:, 0])


def _vectors(rows: Rows, at: Ints, logs: Floats, k: int) -> Floats:
    """δ_x − μ δ_y, scaled alike within a row: (R, G, k)."""
    vectors = np.zeros((*logs.shape, k))
    scale = np.exp(-np.maximum(logs.max(axis=1, keepdims=True), 0.0))
    index = np.arange(len(at))
    vectors[index, :, rows.x[at]] += scale
    vectors[index, :, rows.y[at]] -= np.exp(logs) * scale
    return vectors
