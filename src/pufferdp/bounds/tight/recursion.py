"""One pass of the signed recursion (Theorem 1): sides of targets, followed outwards at several μ at a time.

Fix a side of the target, two of its values x and y, and μ > 0. With kernels K outwards, g = δ_x K − μ δ_y K is the
signed vector at the record next to the target, and

    g ← boost(g) K,    boost(g) = g where g > 0 and e^{−τ} g elsewhere,

takes it one record further. (Theorem 1 multiplies positive entries by e^τ; damping the others is the same up to one
factor, and does not overflow.) A side has one *end* for every distance t and state v, "the record at distance t is
known to be v", and one *open end* for every distance at which the series may end. Entry v of g belongs to the known
end, with prior ratio r = K^t(y, v)/K^t(x, v); the weighted sum of boost(g) belongs to the open end.

- g ≤ 0 at an end: no algorithm adds more than log(μ r) there. As a function of μ, g is convex and decreasing, so the
  root of the chord between a positive and a negative value is an upper bound too.
- Once every entry of g is at most 0, all later entries are. Farther ends then add at most log μ + log max r, because
  prior ratios at one distance are mediants of those at the distance before.
- Unknown records with losses τ_1, …, τ_t add at most τ_1 + … + τ_t (group privacy).

**Blocks of records.** Where kernel and loss stay the same, a block of j records is passed with one product. If no sign
changes within it, the product with the kernel whose rows of negative entries are damped is exact. Second differences
along the block are at most c = |δ| max_{i<j}(K^i) B, with δ = boost(g)K − g and B = |K − I| + (1 − e^{−τ})K. A second
bound follows from the second difference at the beginning of the block; the smaller one counts. An entry with values a
and b of one sign at both ends keeps that sign if √|a| + √|b| ≥ j√(c/2); otherwise the block is halved.
Blocks that are small compared with the distance are bounded instead, by the block lemma: a state whose entry is at
least j|δ| max_{i<j}(K^i) has a certain sign, and its damping is exact. At the other states the positive part of g is
not damped and the negative part is, at every record. The difference of both parts bounds the vector behind the block.
Values between the ends of a block lie below the chord plus c·i(j − i)/2. (docs/theory/tight.md has the proofs.)

**Rounding.** Positive and negative parts are multiplied apart, so that each product has a relative error of at most
(k + 8)u a record, u = 2^−53. The sum is rounded up by that share: by induction the computed vector bounds the exact one
from above. Entries that underflow while they are possible are set to the smallest number used, which is positive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Ints, Mask

UNIT: Final = float(np.finfo(float).eps) / 2
"""Half the distance between 1 and the next double."""
TINY: Final = 1e-290
"""Positive numbers below this may have lost digits: ends whose prior is as small are bounded by group privacy."""
_BLOCKS: Final = 12
"""Blocks in which a distance doubles: fewer are halved more often, more cost a product each."""
_CELLS: Final = 1 << 16
"""Numbers that are worked on together: enough to hide the cost of a call, few enough for the cache."""


@dataclass(frozen=True, eq=False)
class Side:
    """One direction from all targets of a series: kernels and losses in the order in which a target meets them."""

    kernels: Floats
    """(m, k, k), entries of 0 or more: a target with offset o meets kernel (o + d) mod m at its step d = 0, 1, …."""
    losses: Floats
    """(l,): the record behind step d has the DP loss number (o + d) mod l."""
    weights: Floats | None
    """(k,): weights of the values of the last record: 1, or the distribution of the first record; None: any one."""
    known: bool
    """Whether the adversary may know records."""
    last_loss: float | None = None
    """The DP loss of the last record of a series, where it differs from the others."""
    shown: Ints | None = None
    """(k,): the value that each state shows, where algorithms read values and not states; None: states are read."""
    mixes_values: bool = True
    """Whether a last record with any distribution may have states that show different values."""

    @property
    def size(self) -> int:
        """How many states a record can have."""
        return int(self.kernels.shape[-1])

    @property
    def uniform(self) -> bool:
        """Whether all targets see the same side, so that blocks of records can be passed at once."""
        return len(self.kernels) == 1 and len(self.losses) == 1

    @cached_property
    def mixtures(self) -> tuple[Ints, Ints]:
        """Pairs of states of which the last record may have any mixture; a state without a partner with itself."""
        alike = np.ones((self.size, self.size), dtype=bool)
        if self.shown is not None and not self.mixes_values:
            alike = self.shown[:, None] == self.shown
        u, v = np.nonzero(np.triu(alike, 1))
        alone = np.flatnonzero(alike.sum(axis=1) == 1)
        return np.concatenate([u, alone]), np.concatenate([v, alone])

    @cached_property
    def values(self) -> Floats | None:
        """(values, k): 1 where a state shows the value; None: every state has a value of its own."""
        return None if self.shown is None else (np.unique(self.shown)[:, None] == self.shown).astype(float)

    @cached_property
    def monotone(self) -> bool:
        """Whether a longer side with an open end never adds less: leaving out its last record is one more algorithm."""
        if self.weights is None or self.last_loss is not None:
            return False
        stochastic = np.abs(self.kernels.sum(axis=2) - 1).max() < 1e-9
        return bool((self.weights == 1).all() and stochastic)

    @cached_property
    def calm(self) -> bool:
        """Whether nothing lasts long and alternates: questions then stay the same for many records."""
        values = np.linalg.eigvals(self.kernels[0])
        slow = values[np.abs(values) > 0.9 * np.abs(values).max(initial=0.0)]
        return bool((np.abs(np.angle(slow)) < 0.1).all())

    @cached_property
    def powers(self) -> KernelPowers:
        """Powers of the kernel with some rows damped, of a uniform side."""
        return KernelPowers(self.kernels[0], float(self.losses[0]))

    def last_losses(self, losses: Floats) -> Floats:
        """The DP losses that records have if the series ends behind them."""
        return losses if self.last_loss is None else np.full_like(losses, self.last_loss)

    def neighbours(self, rows: Rows) -> Floats:
        """The distributions of the record next to each target given x, and given y: (Q, 2, k)."""
        kernels = self.kernels[rows.offsets % len(self.kernels)]
        return np.take_along_axis(kernels, np.stack([rows.x, rows.y], axis=1)[..., None], axis=1)

    def at_distance(self, distance: int) -> Floats:
        """The product of the kernels up to a distance, for every offset and up to factors: (m, k, k)."""
        m, shift = len(self.kernels), np.arange(len(self.kernels))
        # Of a long round its first kernels say enough about where to look.
        rounds, rest = divmod(distance, m) if m <= 64 else (0, min(distance, 64))
        part = whole = np.eye(self.size)[None].repeat(m, axis=0)
        for step in range(rest):
            part = _scaled(part @ self.kernels[(shift + step) % m])
        for step in range(m if rounds else 0):
            whole = _scaled(whole @ self.kernels[(shift + rest + step) % m])
        while rounds:
            if rounds % 2:
                part = _scaled(part @ whole)
            whole, rounds = _scaled(whole @ whole), rounds // 2
        return part

    def rounding(self, records: int) -> float:
        """The relative error of a vector after some records."""
        return (self.size + 8) * records * UNIT


def _scaled(kernels: Floats) -> Floats:
    """Kernels, (m, k, k), with a largest entry of 1."""
    return np.asarray(kernels / kernels.max(axis=(1, 2), keepdims=True).clip(TINY))


@dataclass(frozen=True, eq=False)
class Rows:
    """Targets, each with a pair of values: the side of each is followed."""

    offsets: Ints
    x: Ints
    """The value for which the algorithm speaks."""
    y: Ints
    """The value against which it speaks."""

    def __len__(self) -> int:
        return len(self.x)

    def pick(self, at: Ints | Mask) -> Rows:
        """Return some of the rows, by place or by mask."""
        return Rows(self.offsets[at], self.x[at], self.y[at])


def bool_product(first: Mask, second: Mask) -> Mask:
    """Which states are reached from which, by one step of either kind."""
    return np.asarray(first.astype(np.float32) @ second.astype(np.float32) > 0)


class KernelPowers:
    """Powers of (D K) for diagonals D of 1 and e^{−loss}, and bounds on the differences along a block."""

    def __init__(self, kernel: Floats, loss: float) -> None:
        self.kernel, self.damp = kernel, float(np.exp(-loss))
        self.drift = np.abs(kernel - np.eye(len(kernel))) + (1 - self.damp) * kernel
        self._damped: dict[tuple[bytes, int], Floats] = {}
        one = np.eye(len(kernel))
        self._plain: dict[int, tuple[Floats, Floats]] = {1: (kernel, one)}
        self._bends: dict[int, tuple[Floats, Floats, Floats]] = {}
        self._supports: dict[int, tuple[Mask, Mask]] = {1: (kernel > 0, one > 0)}

    def damped(self, signs: Mask, size: int) -> Floats:
        """(D K)^size, where rows without a sign are damped; the size is a power of two."""
        key = (signs.tobytes(), size)
        if key not in self._damped:
            if size == 1:
                self._damped[key] = np.where(signs[:, None], self.kernel, self.kernel * self.damp)
            else:
                half = self.damped(signs, size // 2)
                self._damped[key] = half @ half
        return self._damped[key]

    def plain(self, size: int) -> tuple[Floats, Floats]:
        """K^size, and a bound on the largest entries of I, K, …, K^(size − 1)."""
        if size not in self._plain:
            half, most = self.plain(size // 2)
            self._plain[size] = half @ half, np.maximum(most, half @ most)
        return self._plain[size]

    def bends(self, size: int) -> tuple[Floats, Floats, Floats]:
        """Factors of bounds on second differences along a block: of the first one, and of first differences (two)."""
        if size not in self._bends:
            most = self.plain(size)[1]
            steps = (1 - self.damp) * most @ self.kernel
            self._bends[size] = most, most @ self.drift, steps + size * steps @ self.drift @ most
        return self._bends[size]

    def supports(self, size: int) -> tuple[Mask, Mask]:
        """Where K^size is positive, and where one of I, K, …, K^(size − 1) is."""
        if size not in self._supports:
            half, some = self.supports(size // 2)
            self._supports[size] = bool_product(half, half), some | bool_product(half, some)
        return self._supports[size]

    def apply(self, vectors: Floats, signs: Mask, size: int) -> Floats:
        """Multiply each row, (R, a, k), with the power that belongs to its signs, (R, k)."""
        keys = np.packbits(signs, axis=1).view(f"S{-(-len(self.kernel) // 8)}").ravel().tolist()
        powers = {
            key: self.damped(signs[row], size) for key, row in dict(zip(keys, range(len(keys)), strict=True)).items()
        }
        if len(powers) == 1:
            return np.asarray(vectors @ powers[keys[0]])
        if len(keys) * self.kernel.size <= _CELLS // 16:
            return np.asarray(vectors @ np.array([powers[key] for key in keys]))
        out, which = np.empty_like(vectors), np.array(keys)
        for key, power in powers.items():
            rows = np.flatnonzero(which == key)
            out[rows] = vectors[rows] @ power
        return out


@dataclass(frozen=True, eq=False)
class Ends:
    """What a pass says about the ends of some steps, as logarithms; a step is one record or a block of records.

    Columns are the known states, and the open end last. Ends that are impossible have −∞.
    """

    upper: Floats
    """(c, Q, k + 1): no algorithm adds more at any end of the step."""
    prior: Floats
    """(c, Q, k + 1): log r at the first record of the step."""
    tail: Floats
    """(c, Q): no algorithm adds more at any end beyond the step."""
    largest: Floats
    """(c, Q): the log of the largest prior ratio of any state, behind the step."""
    spread: Floats
    """(c, Q): how much larger that is than the smallest one."""
    decided: Mask
    """(c, Q): whether every vector has one sign, so that farther ends say nothing new about these μ."""
    edge: Floats
    """(c, Q, k + 1): the smaller bound of the first and last record: bounds inside a block should not be far above."""


def block_size(side: Side, distance: int, records: int) -> int:
    """Records of the step that begins at a distance: 1, or a power of two that fits into what is left."""
    # Vectors of equal signs share the power of a block, which pays off from about as many records as there are states.
    if not side.uniform or distance < (_BLOCKS * min(side.size, 3 * _BLOCKS) if side.calm else 1 << 15):
        return 1
    return 1 << (min(distance // _BLOCKS, records).bit_length() - 1)


class Pass:
    """The vectors of some rows at rising μ, (Q, G), at one distance."""

    def __init__(self, side: Side, rows: Rows, log_mu: Floats, tolerance: float) -> None:
        self.side, self.rows, self.log_mu, self.tolerance = side, rows, log_mu, tolerance
        self.plain = side.neighbours(rows)
        # g is kept as g/√μ, so that neither of its parts loses its digits for μ far from 1.
        up, down = np.exp(-log_mu / 2)[..., None], np.exp(log_mu / 2)[..., None]
        self.vectors = up * self.plain[:, None, 0] * (1 + 4 * UNIT) - down * self.plain[:, None, 1]
        self.exponents = np.zeros(log_mu.shape, dtype=np.int64)
        self.reach: Mask = side.kernels > 0
        self.distance = self.scaled_at = 1
        self.spent, self.scaled_spent = np.zeros(len(rows)), 0.0
        self.losses = side.losses[rows.offsets % len(side.losses)]  # of the record at the current distance

    def keep(self, at: Mask) -> None:
        """Go on with some of the rows."""
        self.rows, self.log_mu, self.plain = self.rows.pick(at), self.log_mu[at], self.plain[at]
        self.vectors, self.exponents, self.spent = self.vectors[at], self.exponents[at], self.spent[at]
        self.losses = self.losses[at]

    def narrow(self, low: Floats, high: Floats) -> None:
        """Leave out μ that are not next to what is between two values of log μ, (Q,) each."""
        first = np.maximum((self.log_mu <= low[:, None]).sum(axis=1) - 1, 0)
        last = np.minimum((self.log_mu < high[:, None]).sum(axis=1), self.log_mu.shape[1] - 1)
        width = int((last - first).max(initial=0)) + 1
        if width > 0.75 * self.log_mu.shape[1]:
            return
        which = np.minimum(first, self.log_mu.shape[1] - width)[:, None] + np.arange(width)
        row = np.arange(len(first))[:, None]
        self.log_mu, self.exponents = self.log_mu[row, which], self.exponents[row, which]
        self.vectors = self.vectors[row, which]

    def _possible(self, size: int = 1) -> tuple[Mask, Mask]:
        """Which states the next records can have given x, and given y, (Q, k) each."""
        reach = self.reach if size == 1 else bool_product(self.reach, self.side.powers.supports(size)[1])
        reach = reach[self.rows.offsets % len(reach)]
        at = np.arange(len(self.rows))
        return reach[at, self.rows.x], reach[at, self.rows.y]

    def together(self) -> int:
        """How many records are read at once: few enough for the cache, and for the range of a double."""
        many = _CELLS // (max(1, self.log_mu.size) * (self.side.size + 1))
        return max(1, min(32, many, int(50 / max(float(self.side.losses.max()), 1e-3))))

    def singles(self, number: int) -> Ends:
        """Read the ends of some records one by one, and go to the record behind them."""
        read = []
        for _ in range(number):
            parts = self._parts()
            read.append(self._record(parts))
            self._one_record(parts)
        out = self._ends(*map(np.array, zip(*read, strict=True)))
        self._rescale()
        return out

    def _parts(self) -> Floats:
        """Positive and negative parts of the vectors, and the plain distributions, (Q, 2G + 2, k)."""
        many = self.log_mu.shape[1]
        parts = np.empty((len(self.rows), 2 * many + 2, self.side.size))
        positive = np.maximum(self.vectors, 0, out=parts[:, :many])
        np.subtract(positive, self.vectors, out=parts[:, many:-2])
        parts[:, -2:] = self.plain
        return parts

    def _record(self, parts: Floats) -> tuple[Floats, Floats, tuple[Mask, Mask], Floats, Floats]:
        """What ``_ends`` reads at the current record; columns are its states and the open end."""
        weights = np.zeros(self.side.size) if self.side.weights is None else self.side.weights
        many = self.log_mu.shape[1]
        if self.side.values is None:
            totals = parts @ weights
            last = totals[:, :many] - totals[:, many:-2] * self._last_damp[:, :, 0]
        else:  # an algorithm reads the value of the last record alone
            values = (self.vectors * weights) @ self.side.values.T
            last = np.maximum(values, values * self._last_damp).sum(axis=2)
        seen, plain = _append(self.vectors, last), _append(self.plain, self.plain @ weights)
        return seen, plain, self._possible(), self.spent, self.losses

    @property
    def _last_damp(self) -> Floats:
        """What the record at the current distance damps if the series ends there, (Q, 1, 1)."""
        return np.exp(-self.side.last_losses(self.losses))[:, None, None]

    def _group_privacy(self, spent: Floats, losses: Floats) -> Floats:
        """What group privacy allows at the ends of a record, (…, k + 1), from the losses before it and its own."""
        return _append(np.repeat(spent[..., None], self.side.size, axis=-1), spent + self.side.last_losses(losses))

    def _one_record(self, parts: Floats) -> None:
        """Go one record further; the parts are used up."""
        side, m, many = self.side, len(self.side.kernels), self.log_mu.shape[1]
        if side.values is not None:
            self._one_value(side.values)
            return
        parts[:, many:-2] *= np.exp(-self.losses)[:, None, None]
        if m > 1:
            parts = parts @ side.kernels[(self.rows.offsets + self.distance) % m]
        else:
            parts = (parts.reshape(-1, side.size) @ side.kernels[0]).reshape(parts.shape)
        self._move(1)
        self.plain = parts[:, -2:]
        self._set_vectors(parts[:, :many], parts[:, many:-2])

    def _set_vectors(self, positive: Floats, negative: Floats) -> None:
        """Set the vectors to the difference of two products, (Q, G, k), rounded up; the products are used up."""
        share, mass = self.side.rounding(1), positive + negative
        positive *= 1 + share
        negative *= 1 - share
        self.vectors = positive - negative
        if mass.min(initial=1.0) < TINY:
            possible = np.logical_or(*self._possible())
            self.vectors = np.where((mass < TINY) & possible[:, None], TINY, self.vectors)

    def _one_value(self, values: Floats) -> None:
        """Go one record further where algorithms read values: states that show one value are added up before boost.

        What an algorithm says about later records depends on a record's value and on the next state, not on the state
        itself (docs/theory/hidden.md).
        """
        kernels, share, shape = self.side.kernels, self.side.rounding(1), self.vectors.shape
        kernel = kernels[(self.rows.offsets + self.distance) % len(kernels)] if len(kernels) > 1 else kernels[0]
        damp = np.exp(-self.losses)[:, None, None]
        raised, lowered = np.zeros(shape), np.zeros(shape)
        for states in values > 0:
            own, moves = self.vectors[..., states], kernel[..., states, :]
            if len(kernels) == 1:
                own = own.reshape(-1, own.shape[-1])
            up, down = ((np.maximum(part, 0) @ moves).reshape(shape) for part in (own, -own))
            total = up * (1 + share) - down * (1 - share)
            raised += np.maximum(total, 0)
            lowered += np.maximum(-total, 0)
        self.plain = self.plain @ kernel
        self._move(1)
        self._set_vectors(raised, lowered * damp)

    def _move(self, size: int) -> None:
        """Count records and their losses, and follow which states are possible."""
        self.spent = self.spent + size * self.losses
        m = len(self.side.kernels)
        if m > 1:
            self.reach = bool_product(self.reach, self.side.kernels[(np.arange(m) + self.distance) % m] > 0)
        else:
            self.reach = bool_product(self.reach, self.side.powers.supports(size)[0])
        self.distance += size
        self.losses = self.side.losses[(self.rows.offsets + self.distance - 1) % len(self.side.losses)]

    def skip(self, size: int) -> None:
        """Go to the record behind a step without reading its ends."""
        if size == 1:
            self._one_record(self._parts())
        else:
            self._pass_block(size)
        self._rescale()

    def _pass_block(self, size: int) -> tuple[Mask, Mask]:
        """Go to the record behind a block; return which states its records can have given x, and given y."""
        inside = self._possible(size)
        possible = np.repeat(np.logical_or(*inside), self.log_mu.shape[1], axis=0)
        flat = self._advance(self.vectors.reshape(-1, self.side.size), size, possible)
        self.vectors = flat.reshape(self.vectors.shape)
        self.plain = self.plain @ self.side.powers.plain(size)[0]
        self._move(size)
        return inside

    def block(self, size: int) -> Ends:
        """Read the ends of a block of records, and go to the record behind it."""
        k, first, (bend, plain_bend) = self.side.size, self._record(self._parts()), self._bends(size)
        inside = self._pass_block(size)
        last = self._record(self._parts())
        read = self._ends(*map(np.array, zip(first, last, strict=True)))
        # Values between lie below the chord and a parabola: that is bounded on both halves of the block.
        halves = np.array([0.0, 0.5, 1.0])[:, None, None, None]
        hump = halves * (1 - halves) + 1 / 16
        curve, line = ((1 - halves) * first[i] + halves * last[i] for i in (0, 1))
        x, y = (line - hump * plain_bend)[:, :, 0], (line + hump * plain_bend)[:, :, 1]
        bound = self._between(curve + hump * bend, x, y, np.array(inside))
        group = self._group_privacy(self.spent - self.losses, self.losses)
        allowed = _append(inside[0] & inside[1] & self.side.known, np.ones(len(self.rows), dtype=bool))
        upper = np.where(allowed, np.minimum(bound + 2 * self.side.rounding(self.distance), group), -np.inf)
        least, most = read.upper.min(axis=0), read.upper.max(axis=0)
        at_ends = np.where(np.isneginf(least), most, least)
        if self.side.monotone:
            upper[:, k], at_ends[:, k] = read.upper[1, :, k], read.upper[0, :, k]
        self._rescale()
        tail, largest, spread = (part[1:2] for part in (read.tail, read.largest, read.spread))
        return Ends(upper[None], read.prior[:1], tail, largest, spread, read.decided[1:2], at_ends[None])

    def _between(self, curve: Floats, x: Floats, y: Floats, possible: Mask) -> Floats:
        """The largest root times prior ratio along a block, (Q, k + 1), from bounds at the ends of its halves.

        On each half numerator and denominator of the chord's root are linear, and so are the plain distributions. The
        logarithm of a linear function exceeds its chord by at most (change/least value)²/8.
        """
        side, k, many = self.side, self.side.size, self.log_mu.shape[1]
        columns = slice(0 if side.known else k, k + 1)
        out = np.full((len(self.rows), k + 1), np.inf)
        after = _after_positive((curve[:-1, ..., columns] > 0) | (curve[1:, ..., columns] > 0))
        row = np.arange(len(self.rows))[None, :, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratios = np.log(y[..., columns]) - np.log(np.maximum(x[..., columns], 0))
            bend_y = _relative_change(y[:-1, :, columns], y[1:, :, columns]) ** 2 / 8
            # No value is positive at the next μ, whatever the prior ratios on the way.
            bound = self.log_mu[row, np.minimum(after, many - 1)] + np.maximum(ratios[:-1], ratios[1:]) + bend_y
            for stride in (0, 6):  # chords between near μ bend much where a value changes more along the block
                low, high = np.maximum(after - 1 - stride, 0), np.minimum(after + stride, many - 1)
                tops, levels = [], []
                for half in (slice(None, -1), slice(1, None)):
                    above, below, width = _at_two(curve[half][..., columns], self.log_mu, self.exponents, low, high)
                    above = np.maximum(above, 0)
                    tops.append(np.where(after == 0, 1.0, above * np.exp(width) - below))
                    levels.append(np.log(tops[-1]) - np.log(np.where(after == 0, 1.0, above - below)) + ratios[half])
                bend = _relative_change(*tops) ** 2 / 8 + bend_y
                bound = np.fmin(bound, self.log_mu[row, low] + np.maximum(*levels) + bend)
        bound = np.where((after == many) | np.isnan(bound), np.inf, bound)
        out[:, columns] = bound.max(axis=0)
        if side.weights is None:
            seen = np.maximum(curve[:-1], curve[1:])[..., :k]
            boosted = np.maximum(seen, seen * self._last_damp)
            least, most = np.maximum(np.minimum(x[:-1], x[1:]), 0)[..., :k], np.maximum(y[:-1], y[1:])[..., :k]
            both, rounding = np.stack([possible, possible]), side.rounding(self.distance)
            bound = _any_start(boosted, least, most, both, self.log_mu, self.exponents, rounding, side.mixtures)[0]
            out[:, k] = bound.max(axis=0)
        return out

    def _bends(self, size: int) -> tuple[Floats, Floats]:
        """size²/2 times bounds on second differences along a block: of vectors and of plain distributions."""
        side, powers, share = self.side, self.side.powers, (1 + 1e-9) * size * size / 2
        weights = np.ones(side.size) if side.weights is None else side.weights
        most, flat = powers.plain(size)[1], self.vectors.reshape(-1, side.size)
        change, bend = (part.reshape(self.vectors.shape) for part in self._change(flat, size))
        # boost has two slopes: where a sign changes, the open end changes by the difference of them.
        last = (bend + change @ most * (1 - self._last_damp)) @ weights
        moved = self.plain @ powers.kernel
        noise, second = 16 * side.rounding(1) * (self.plain + moved), moved - self.plain
        plain = (np.abs(second @ powers.kernel - second) + noise + noise @ powers.kernel) @ most
        return _append(bend, last) * share, _append(plain, plain @ weights) * share

    def _change(self, vectors: Floats, size: int) -> tuple[Floats, Floats]:
        """Bounds on first and second differences of vectors, (R, k), along a block (two lemmas of tight.md)."""
        powers = self.side.powers
        slope = np.where(vectors > 0, 1.0, powers.damp)
        moved, mass = (vectors * slope) @ powers.kernel, np.abs(vectors)
        noise = 4 * self.side.rounding(1) * (mass + mass @ powers.kernel)
        change = moved - vectors
        second = np.abs((change * slope) @ powers.kernel - change) + 2 * (noise + noise @ powers.kernel)
        change = np.abs(change) + noise
        most, drift, kinks = powers.bends(size)
        return change, np.minimum(second @ most + change @ kinks, change @ drift)

    def _advance(self, vectors: Floats, size: int, possible: Mask) -> Floats:
        """Vectors, (R, k), behind a block: exact where signs are kept, halved where not, bounded where it is small."""
        powers, signs = self.side.powers, vectors > 0
        parts = np.stack([np.maximum(vectors, 0), np.maximum(-vectors, 0)], axis=1)
        parts = powers.apply(parts, signs, size)
        share = self.side.rounding(2 * size)
        out = parts[:, 0] * (1 + share) - parts[:, 1] * (1 - share)
        mixed = np.flatnonzero(signs.any(axis=1) & (vectors < 0).any(axis=1))  # vectors of one sign keep it
        if size > 1 and len(mixed):
            vectors, signs = vectors[mixed], signs[mixed]
            least = parts[mixed, 0] * (1 - share) - parts[mixed, 1] * (1 + share)
            near = np.where(signs, least, -out[mixed])
            root = np.sqrt(np.abs(vectors)) + np.sqrt(np.maximum(near, 0))
            change, bend = self._change(vectors, size)
            kept = ((near >= 0) & (root * root >= bend * ((1 + 1e-9) * size * size / 2))).all(axis=1)
            rest, vectors = mixed[~kept], vectors[~kept]
            if size <= 16 * self.distance * self.tolerance:
                out[rest] = self._bound_behind(vectors, change[~kept], size)
            elif len(rest):
                half = self._advance(vectors, size // 2, possible[rest])
                out[rest] = self._advance(half, size // 2, possible[rest])
        lost = parts.sum(axis=1) < TINY
        if lost.any():
            out = np.where(lost & possible & (np.abs(out) < TINY), TINY, out)
        return out

    def _bound_behind(self, vectors: Floats, change: Floats, size: int) -> Floats:
        """Upper bounds on vectors, (R, k), behind a block in which signs change: the block lemma."""
        if not len(vectors):
            return vectors
        powers, share = self.side.powers, self.side.rounding(2 * size)
        certain = np.abs(vectors) >= change @ powers.plain(size)[1] * ((1 + 1e-9) * size)
        positive = powers.apply(np.maximum(vectors, 0)[:, None], ~(certain & (vectors < 0)), size)[:, 0]
        negative = powers.apply(np.maximum(-vectors, 0)[:, None], certain & (vectors > 0), size)[:, 0]
        return positive * (1 + share) - negative * (1 - share)

    def _ends(self, seen: Floats, plain: Floats, possible: Mask, spent: Floats, losses: Floats) -> Ends:
        """Bounds from vectors, (c, Q, G, k + 1), and plain distributions, (c, Q, 2, k + 1), at some records."""
        side, k = self.side, self.side.size
        x, y = plain[:, :, 0], plain[:, :, 1]
        both = possible[:, 0] & possible[:, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(y) - np.log(x)
        ratio[..., :k] = np.where(both & ((x[..., :k] < TINY) | (y[..., :k] < TINY)), np.inf, ratio[..., :k])
        prior, upper = ratio.copy(), np.full(ratio.shape, -np.inf)
        if side.weights is None:
            boosted = np.maximum(seen, seen * np.exp(-side.last_losses(losses))[..., None, None])[..., :k]
            rounding, parts = side.rounding(self.distance), (boosted, x[..., :k], y[..., :k], possible)
            any_bound, prior[..., k] = _any_start(*parts, self.log_mu, self.exponents, rounding, side.mixtures)
        elif side.monotone:
            prior[..., k] = 0.0
        rounding = 2 * side.rounding(self.distance)
        columns = slice(0 if side.known else k, k + 1)
        with np.errstate(invalid="ignore"):
            bound = chord_root(seen[..., columns], self.log_mu, self.exponents) + prior[..., columns] + rounding
        upper[..., columns] = np.where(np.isnan(bound), np.inf, bound)
        if side.weights is None:
            upper[..., k] = any_bound + rounding
            open_end = np.ones(both.shape[:2], dtype=bool)
        else:
            weighted = possible & (side.weights > 0)
            open_end = np.all(np.any(weighted, axis=3), axis=1)
        upper = np.where(_append(both, open_end), np.minimum(upper, self._group_privacy(spent, losses)), -np.inf)
        either = possible[:, 0] | possible[:, 1]
        positive = (seen[..., :k] > 0).astype(np.float32) @ np.ones(k, dtype=np.float32)  # numpy adds short axes slowly
        dead = positive == 0
        least = np.where(dead, self.log_mu, np.inf).min(axis=2)  # +∞: no μ bounds the ends beyond
        largest = np.where(possible[:, 1], np.where(possible[:, 0], ratio[..., :k], np.inf), -np.inf).max(axis=2)
        smallest = np.where(possible[:, 0], np.where(possible[:, 1], ratio[..., :k], -np.inf), np.inf).min(axis=2)
        beyond = 0.0 if side.monotone and not side.known else largest  # open ends alone have a prior ratio of 1
        with np.errstate(invalid="ignore"):
            tail, spread = np.where(np.isinf(least), np.inf, least + beyond + rounding), largest - smallest
        decided = np.asarray((dead | (positive == either.sum(axis=2)[:, :, None])).all(axis=2))
        prior = np.where(np.isfinite(prior), prior, 0.0)
        return Ends(upper, prior, tail, largest, spread, decided, upper)

    def _rescale(self) -> None:
        """Scale each vector with a power of two from time to time, so that nothing leaves the range of a double."""
        spent = float(self.spent.max(initial=0.0))
        if self.distance < self.scaled_at + 8 and spent < self.scaled_spent + 50:
            return
        self.scaled_at, self.scaled_spent = self.distance, spent
        _, exponent = np.frexp(np.abs(self.vectors).max(axis=2))
        self.vectors = np.ldexp(self.vectors, -exponent[..., None])
        self.exponents = self.exponents + exponent
        _, exponent = np.frexp(self.plain.max(axis=(1, 2)))
        self.plain = np.ldexp(self.plain, -exponent[:, None, None])


def _append(columns: npt.NDArray[Any], last: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Columns, (…, k), with one more behind them."""
    return np.concatenate([columns, last[..., None]], axis=-1)


def _relative_change(first: Floats, second: Floats) -> Floats:
    return (first - second) / np.minimum(first, second)


def _after_positive(positive: Mask) -> Ints:
    """The number of the first μ behind all that are positive, (c, Q, v), of masks along rising μ, (c, Q, G, v)."""
    number = np.arange(1, positive.shape[2] + 1, dtype=np.int16)[:, None]
    return np.asarray((positive * number).max(axis=2, initial=0), dtype=np.int64)


def _at_two(signed: Floats, log_mu: Floats, exponents: Ints, low: Ints, high: Ints) -> tuple[Floats, Floats, Floats]:
    """Values at a lower and a higher μ, on the scale of the higher one, and the distance of both log μ, (c, Q, v)."""
    c, rows, many, columns = signed.shape
    row = np.arange(rows)[None, :, None]
    width = log_mu[row, high] - log_mu[row, low]
    first = np.arange(c * rows).reshape(c, rows, 1) * (many * columns) + np.arange(columns)
    above, below = (signed.reshape(-1)[first + at * columns] for at in (low, high))
    shift = np.clip(exponents[row, low] - exponents[row, high], -900, 900)
    return np.ldexp(above, shift) * np.exp(-width / 2), below, width


def chord_root(signed: Floats, log_mu: Floats, exponents: Ints) -> Floats:
    """The log of the root in μ of the chord between the last positive and the first negative value, (c, Q, v).

    Values, (c, Q, G, v), are divided by √μ and by 2^exponent. The smallest μ where none is positive; +∞ where the last
    one is.
    """
    many, after = signed.shape[2], _after_positive(signed > 0)
    low, high = np.maximum(after - 1, 0), np.minimum(after, many - 1)
    above, below, width = _at_two(signed, log_mu, exponents, low, high)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = above / (above - below)
    share = np.where(np.isfinite(share), np.clip(share * (1 + 16 * UNIT), 0.0, 1.0), 1.0)
    row = np.arange(len(log_mu))[None, :, None]
    root = log_mu[row, low] + np.log1p(np.expm1(np.minimum(width, 700.0)) * share)
    root = np.minimum(root, log_mu[row, high])
    return np.where(after == 0, log_mu[None, :, :1], np.where(after == many, np.inf, root))


def _any_start(
    boosted: Floats,
    x: Floats,
    y: Floats,
    possible: Mask,
    log_mu: Floats,
    exponents: Ints,
    rounding: float,
    mixtures: tuple[Ints, Ints],
) -> tuple[Floats, Floats]:
    """What no algorithm passes at an open end whose record has any distribution s, and its prior ratio, (c, Q) each.

    For s with a root between two μ the chord bounds root times prior ratio by (s·A)(s·y)/((s·B)(s·x)), with A and B
    from the vectors at both μ. Other s have values of that quotient below their own. The quotient is largest for s with
    at most two states (docs/theory/tight.md, "Any start"), and there at an end or at a root of a quadratic.
    """
    either = (possible[:, 0] | possible[:, 1])[:, :, None]
    g = np.where(either, boosted, 0.0)
    width = np.minimum(np.diff(log_mu, axis=1), 700.0)[..., None]
    shift = np.clip(exponents[:, :-1] - exponents[:, 1:], -900, 900)[..., None]
    above, below = np.ldexp(g[:, :, :-1], shift) * np.exp(-width / 2), g[:, :, 1:]
    noise = 4 * rounding * (np.abs(above) + np.abs(below))
    top = np.exp(width) * (above + noise) - below  # A/μ, at least
    bottom = np.maximum(above - below - noise, 0.0)  # B, at most
    u, v = mixtures
    # A mixture that one of both values cannot have is no secret. Nothing is between equal μ.
    mixed = np.all(possible[..., u] | possible[..., v], axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(y > 0, y / x, 0.0)
        largest = np.where(mixed, np.maximum(ratio[..., u], ratio[..., v]), 0.0).max(axis=2)
        height, prior = log_mu[:, :-1, None] + np.log(top) - np.log(bottom), np.log(ratio)
        # Of few mixtures the root lies between two μ, and few may have more than the largest single state.
        positive, negative = above + noise >= 0, below <= noise
        single = positive & negative & np.all(possible, axis=1)[:, :, None] & (width > 0)
        alone = np.fmax.reduce(np.where(single, height + prior[:, :, None], -np.inf), axis=(2, 3), initial=-np.inf)
        real = _either(positive, u, v) & _either(negative, u, v) & _either(either, u, v)
        c, q, i, pair = np.nonzero(real & mixed[:, :, None] & (width > 0))
        u, v = u[pair], v[pair]
        most = np.fmax(height[c, q, i, u], height[c, q, i, v]) + np.fmax(prior[c, q, u], prior[c, q, v])
        c, q, i, u, v = (part[~(most < alone[c, q])] for part in (c, q, i, u, v))
        pairs = [np.array([part[c, q, i, u], part[c, q, i, v]]) for part in (top, bottom)]
        pairs += [np.array([part[c, q, u], part[c, q, v]]) for part in (x, y)]
        values, heights = [], []
        for first, second in _best_weights(*pairs):
            a, b, s, t = (part[0] * first + part[1] * second for part in pairs)
            heights.append(np.log(a) - np.log(b))
            value = heights[-1] + np.log(t) - np.log(s)
            values.append(np.where((t > 0) & (a > 0), np.where(np.isnan(value), np.inf, value), -np.inf))
        value, which = np.max(values, axis=0), np.argmax(values, axis=0)
        value = log_mu[q, i] + _above_mixtures(value, *pairs)
        root = log_mu[q, i] + np.where(np.isfinite(value), np.choose(which, heights), 0.0)
        best = log_mu[:, 0] + np.log(largest)
        roots = np.broadcast_to(log_mu[:, 0], best.shape).copy()
        np.maximum.at(best, (c, q), value)
        reached = value == best[c, q]
        roots[c[reached], q[reached]] = root[reached]
    positive = g[:, :, -1] > 0
    open_at_last = ((positive[..., mixtures[0]] | positive[..., mixtures[1]]) & mixed).any(axis=2)
    with np.errstate(invalid="ignore"):
        return np.where(open_at_last, np.inf, best), best - roots


def _either(which: Mask, u: Ints, v: Ints) -> Mask:
    """Whether one of two states is marked."""
    return np.asarray(which[..., u] | which[..., v])


def _best_weights(a: Floats, b: Floats, x: Floats, y: Floats) -> list[tuple[Floats | float, Floats | float]]:
    """Weights of two states, (2, N), at which (s·a)(s·y)/((s·b)(s·x)) may be largest; one may be far below 1e-16."""
    n0, n1, n2 = a[0] * y[0], a[0] * y[1] + a[1] * y[0], a[1] * y[1]
    d0, d1, d2 = b[0] * x[0], b[0] * x[1] + b[1] * x[0], b[1] * x[1]
    square, line, rest = n2 * d1 - n1 * d2, 2 * (n2 * d0 - n0 * d2), n1 * d0 - n0 * d1
    root = np.sqrt(np.maximum(line * line - 4 * square * rest, 0.0))
    half = -(line + np.where(line >= 0, root, -root)) / 2
    odds = (np.where(np.isfinite(t) & (t > 0), t, 0.0) for t in (half / square, rest / half))
    return [(1.0, 0.0), (0.0, 1.0), *((1 / (1 + t), t / (1 + t)) for t in odds)]


def _above_mixtures(value: Floats, a: Floats, b: Floats, x: Floats, y: Floats) -> Floats:
    """Logs that (s·a)(s·y)/((s·b)(s·x)) exceeds for no mixture s of two states, just above the largest ones found.

    It is at most λ where the quadratic form λ(s·b)(s·x) − (s·a)(s·y) is nowhere negative for s ≥ 0. Where rounding
    leaves that open, both factors are bounded by their values at one state.
    """
    size = np.sqrt(np.maximum(np.abs(a), b)) * np.sqrt(np.maximum(x, y))
    size = np.where(size > 0, size, 1.0)  # weights are scaled, so that no product underflows
    half = np.exp(-value / 2)
    (au, av), (bu, bv), (xu, xv), (yu, yv) = (part / size for part in (a, b, x, y))
    n0, n1, n2 = (half * part * half for part in (au * yu, au * yv + av * yu, av * yv))
    d0, d1, d2 = bu * xu, bu * xv + bv * xu, bv * xv
    out = np.log(np.fmax(au / bu, av / bv)) + np.log(np.fmax(yu / xu, yv / xv))
    noise = 16 * UNIT * (d1 + (np.abs(au) * yv + np.abs(av) * yu) * half * half)
    for margin in (1e-4, 1e-8, 1e-12):
        level = np.exp(margin)
        c0, c1, c2 = level * d0 - n0, level * d1 - n1, level * d2 - n2
        proved = (c0 >= 0) & (c2 >= 0) & (c1 + 2 * np.sqrt(c0) * np.sqrt(c2) >= noise)
        out = np.where(proved, value + margin, out)
    out = np.where((au <= 0) & (av <= 0), -np.inf, out)
    return np.where(np.isnan(out) | (value == np.inf), np.inf, out)


def follow(
    side: Side, rows: Rows, log_mu: Floats, sizes: Ints, tolerance: float
) -> Iterator[tuple[Floats, Floats, Floats, Ints]]:
    """Numerators and denominators of algorithms that ask the questions of one μ each, (c, Q, G, 2, k).

    They are read at the first record of some steps. Inside a step of several records the questions of its first record
    are asked; steps in which they change are halved down to a share, the tolerance, of the distance. Beside them
    distributions given either value, (c, Q, 2, k), losses of the records, (c, Q), and distances, (c,).
    """
    m, damps, plain = len(side.kernels), np.exp(-side.losses), side.neighbours(rows)
    asked = np.repeat(plain[:, None], log_mu.shape[1], axis=1)
    scale = np.exp(np.stack([-log_mu, log_mu], axis=2) / 2)[..., None]
    distances = 1 + np.cumsum(sizes) - sizes
    for first in range(0, len(sizes), 32):
        some, out = slice(first, first + 32), []
        which = (rows.offsets + distances[some, None] - 1) % len(side.losses)
        for size, distance, loss in zip(sizes[some].tolist(), distances[some].tolist(), which, strict=True):
            out.append((asked, plain))
            if size == 1:
                weighed = asked * scale
                damp = np.where(weighed[:, :, 0] > weighed[:, :, 1], 1.0, damps[loss][:, None, None])
                kernels = side.kernels[(rows.offsets + distance) % m] if m > 1 else side.kernels[0]
                asked = asked * damp[:, :, None]
                flat = asked.reshape(len(rows), -1, side.size) if m > 1 else asked.reshape(-1, side.size)
                asked, plain = (flat @ kernels).reshape(asked.shape), plain @ kernels
            else:
                smallest = max(1, int(2 * distance * tolerance))
                flat, weights = asked.reshape(-1, 2, side.size), scale.reshape(-1, 2, 1)
                asked = _ask(side.powers, flat, weights, size, smallest).reshape(asked.shape)
                plain = plain @ side.powers.plain(size)[0]
            top = asked.max(axis=(2, 3), keepdims=True)
            if top.min() < 1e-30:  # subnormal numbers have lost their digits
                asked = np.where(top < TINY, 0.0, asked / top.clip(TINY))
                plain = plain / plain.max(axis=(1, 2), keepdims=True).clip(TINY)
        yield np.array([a for a, _ in out]), np.array([b for _, b in out]), side.losses[which], distances[some]


def _ask(powers: KernelPowers, asked: Floats, scale: Floats, size: int, smallest: int) -> Floats:
    """Pass a block with the questions of its first record; halved where the questions of its last one differ."""
    weighed = asked * scale
    signs = weighed[:, 0] > weighed[:, 1]
    out = powers.apply(asked, signs, size)
    if size > smallest:
        weighed = out * scale
        changed = np.flatnonzero(((weighed[:, 0] > weighed[:, 1]) != signs).any(axis=1))
        if len(changed):
            middle = _ask(powers, asked[changed], scale[changed], size // 2, smallest)
            out[changed] = _ask(powers, middle, scale[changed], size // 2, smallest)
    return out


def reached(
    side: Side, log_mu: Floats, asked: Floats, plain: Floats, losses: Floats, distances: Ints
) -> tuple[Floats, Floats]:
    """What the algorithms of ``follow`` add at ends, (c, Q, G, k + 1), and log prior ratios, (c, Q, k + 1).

    These are lower bounds, because the algorithms exist.
    """
    half = np.exp(log_mu / 2)[..., None]
    k, rounding = side.size, 4 * side.rounding(1) * (distances - 1)[:, None, None]
    out = np.full((*asked.shape[:3], k + 1), -np.inf)
    n, d, x, y = asked[..., 0, :], asked[..., 1, :], plain[..., 0, :], plain[..., 1, :]
    damp = np.where(n / half > d * half, 1.0, np.exp(-side.last_losses(losses))[..., None, None])
    prior = np.zeros((*x.shape[:2], k + 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        prior[..., :k] = np.log(y) - np.log(x)
        if side.known:
            sound = (n > TINY) & (d > TINY) & ((x > TINY) & (y > TINY))[:, :, None]
            value = np.log(n) - np.log(d) + prior[:, :, None, :k] - rounding[..., None]
            out[..., :k] = np.where(sound, value, -np.inf)
        if side.weights is None:
            flat = [np.broadcast_to(part, n.shape).reshape(-1, k) for part in (x[:, :, None], y[:, :, None])]
            best = best_first_distribution((n * damp).reshape(-1, k), (d * damp).reshape(-1, k), *flat)[0]
            out[..., k] = best.reshape(n.shape[:3]) - rounding
        else:
            over, under = (n * damp) @ side.weights, (d * damp) @ side.weights
            first, second = x @ side.weights, y @ side.weights
            prior[..., k] = np.log(second) - np.log(first)
            value = np.log(over) - np.log(under) + prior[:, :, None, k] - rounding
            sound = (np.minimum(over, under) > TINY) & (np.minimum(first, second) > TINY)[:, :, None]
            out[..., k] = np.where(sound, value, -np.inf)
    return out, np.where(np.isfinite(prior), prior, 0.0)


def best_first_distribution(n: Floats, d: Floats, x: Floats, y: Floats) -> tuple[Floats, Ints, Floats]:
    """The best mixture of two states for (s·n)(s·y)/((s·d)(s·x)), (Q,): its log, the states (Q, 2), and the share."""
    u, v = np.triu_indices(n.shape[1])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        pairs = [np.array([part[:, u], part[:, v]]) for part in (n, d, x, y)]
        weights = np.array([np.broadcast_arrays(n[:, u], *pair)[1:] for pair in _best_weights(*pairs)])
        first, second = weights[:, 0], weights[:, 1]
        over, under, given_x, given_y = (part[0] * first + part[1] * second for part in pairs)
        value = np.log(over) - np.log(under) + np.log(given_y) - np.log(given_x)
    sound = np.isfinite(value) & (np.minimum(np.minimum(over, under), np.minimum(given_x, given_y)) > TINY)
    flat = np.where(sound, value, -np.inf).swapaxes(0, 1).reshape(len(n), -1)
    best = flat.argmax(axis=1)
    weight, pair = np.divmod(best, len(u))
    row = np.arange(len(n))
    return flat[row, best], np.stack([u[pair], v[pair]], axis=1), first[weight, row, pair]
