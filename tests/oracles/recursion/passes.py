"""One pass of the signed recursion (Theorem 1): sides of targets, followed record by record, at several μ at a time.

Fix a side of the target, two of its values x and y, and μ > 0. Two rows of length k, n = δ_x and d = δ_y, are followed:

    n, d ← n K, d K                            one record further
    w = n − μ d                                a signed vector
    where w ≤ 0: n, d ← n e^{−τ}, d e^{−τ}     the worst algorithm asks whether the record is one of the others

A side has one *end* for every distance t and state v, "the record at distance t is known to be v", and one for every
distance at which the series may end. Entry v of w before the third line belongs to the end (t, v), whose prior ratio is
r = K^t(y, v)/K^t(x, v). The weighted sum of w after it belongs to the end of the series.

- n/d · r is reached by an explicit algorithm: a lower bound of e^R at this end, whatever μ.
- w ≤ 0 means that no algorithm reaches μ·r at this end. As a function of μ, w is convex and decreasing, so the chord
  between a positive and a negative value has its root above the root of w: an upper bound of e^R.
- Once all entries of w are at most 0 they stay so: farther ends have at most μ · max r, because prior ratios are
  mediants of those one step nearer.
- Unknown records with losses τ_1, …, τ_t give at most e^(τ_1 + … + τ_t).

**Rounding.** The products n K and d K have no negative terms, so each step changes n and d by a relative error of at
most (k + 2)u, and a multiplication by e^{−τ} by at most 2u, with u = 2^−53. After t steps both are known to a relative
error below η/2 with η = 2(k + 6)tu. The pass uses w̄ = n(1 + η) − μ d ≥ w wherever it decides a sign. By induction
w̄ bounds the exact vector from above: the exact step is monotone, an undecided sign counts as positive, and replacing a
negative entry by a larger one only raises later entries. Lower bounds are lowered by 2η.

**Slow chains.** Let w = w⁺ − w⁻ after some record. j steps of the recursion are entrywise at most
(e^{jτ} w⁺ − w⁻) K^j. Proof: one step gives boost(wK) ≤ (e^τ w⁺ − w⁻)K, because (wK)⁺ ≤ w⁺K and boosting raises positive
parts only; the step is monotone, so induction gives the rest. A block of j records then costs one product with K^j, and
the ends inside it one product with K, …, K^j each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask

UNIT: Final = 2.0**-53
"""Half the distance between 1 and the next double."""
_TINY: Final = 1e-290
"""Smaller numbers may have lost digits: an end that is possible and has such a prior is not bounded by a pass."""
_CELLS: Final = 1 << 16
"""Numbers for which ends are worked out together: enough to hide the cost of a call, few enough for the cache."""


@dataclass(frozen=True, eq=False)
class Lane:
    """One side of all targets of a series: kernels outwards, in the order in which the side meets them."""

    kernels: Floats
    """(m, k, k), entries of 0 or more; for the side before a target the transposes, or the kernels read backwards.

    A target with offset o meets kernel (o + d) mod m at its step d = 0, 1, …."""
    weights: Floats
    """(k,): weights of the values of the last record of the side: 1, or the distribution of the first record."""
    known: bool
    """Whether the adversary may know records."""

    @property
    def size(self) -> int:
        """Number of states."""
        return int(self.kernels.shape[-1])

    @property
    def uniform(self) -> bool:
        """Whether all steps are alike, so that blocks of steps can be passed at once."""
        return len(self.kernels) == 1

    @cached_property
    def supports(self) -> list[Mask]:
        """Which states are reached from which in 1, 2, … steps from any offset, (k, k) each, until nothing changes."""
        pattern = (self.kernels > 0).any(axis=0)
        found, power = [pattern], pattern
        while len(found) < 4 * self.size * self.size:
            power = (power.astype(float) @ pattern) > 0
            if (power == found[-1]).all():
                break
            found.append(power)
        return found

    @cached_property
    def _powers(self) -> dict[int, Floats]:
        return {}

    def powers_up_to(self, count: int) -> Floats:
        """K, K², …, K^count of a lane whose steps are all alike, (count, k, k)."""
        if count not in self._powers:
            out = np.empty((count, self.size, self.size))
            out[0] = self.kernels[0]
            have = 1
            while have < count:
                more = min(have, count - have)
                out[have : have + more] = out[:more] @ out[have - 1]
                have += more
            self._powers[count] = out
        return self._powers[count]


@dataclass(frozen=True, eq=False)
class Rows:
    """Targets with a pair of values each: those whose side is followed."""

    offsets: Ints
    x: Ints
    """The value for which the algorithm speaks."""
    y: Ints
    """The value against which it speaks."""
    losses: Floats
    """The DP loss of each record of the side."""

    def __len__(self) -> int:
        return len(self.x)

    def pick(self, at: Ints | Mask) -> Rows:
        """Return some of the rows."""
        return Rows(self.offsets[at], self.x[at], self.y[at], self.losses[at])


@dataclass(frozen=True, eq=False)
class Ends:
    """What a pass says about the ends at some steps, as logarithms; a step is one record or a block of records.

    The last column belongs to the end of the series, the others to known states. Ends that are impossible have −∞.
    """

    first: int
    """The number of the first step."""
    lower: Floats
    """(c, Q, k + 1): some algorithm adds as much."""
    upper: Floats
    """(c, Q, k + 1): no algorithm adds more."""
    prior: Floats
    """(c, Q, k + 1): log r, at the last record of a block."""
    best: Floats
    """(c, Q, k + 1): log μ of the pass behind ``lower``."""
    tail: Floats
    """(c, Q): no algorithm adds more at any farther end."""
    spread: Floats
    """(c, Q): the log of the largest prior ratio of any state."""
    decided: bool
    """Whether every vector has one sign: passes at these μ say no more about farther ends than their prior ratios."""


def schedule(depth: int, resolution: int) -> list[tuple[int, int]]:
    """Steps to a distance as (number, size): single ones, then blocks of 1/(2r) to 1/r of the distance."""
    single = min(depth, 2 * resolution)
    steps, distance, size = [(single, 1)] if single else [], single, 2
    while distance < depth:
        number = min(resolution, -(-(depth - distance) // size))
        steps.append((number, size))
        distance += number * size
        size *= 2
    return steps


def follow(lane: Lane, rows: Rows, log_mu: Floats, steps: list[tuple[int, int]]) -> Iterator[Ends]:
    """Follow rows outwards at rising μ, (Q, G), and yield what the steps say about their ends, some at a time."""
    walk, first = _Pass(lane, rows, log_mu), 0
    for number, size in steps:
        done = 0
        while done < number:
            some = min(
                number - done,
                max(
                    1,
                    _CELLS // (log_mu.size * (lane.size + 1) if size == 1 else len(rows) * (lane.size + 1) * 4 * size),
                ),
                64,
            )
            yield walk.singles(first, some) if size == 1 else walk.blocks(first, some, size)
            first, done = first + some, done + some


class _Pass:
    """The vectors of one pass, scaled row by row with powers of two."""

    def __init__(self, lane: Lane, rows: Rows, log_mu: Floats) -> None:
        count, many, k = len(rows), log_mu.shape[1], lane.size
        self.lane, self.rows, self.log_mu, self.many = lane, rows, log_mu, many
        at = np.arange(count)
        # Numerators, denominators, and the plain distributions from x and y.
        self.vectors = np.zeros((count, 2 * many + 2, k))
        self.vectors[at, :many, rows.x] = 1.0
        self.vectors[at, many : 2 * many, rows.y] = 1.0
        self.vectors[at, 2 * many, rows.x] = self.vectors[at, 2 * many + 1, rows.y] = 1.0
        self.distance = 0
        # w is kept as w/√μ, so that neither term loses its digits for μ far from 1.
        self.scale_n, self.scale_d = np.exp(-log_mu / 2)[..., None], np.exp(log_mu / 2)[..., None]
        self.exponents = np.zeros((count, many), dtype=np.int64)
        self._after: Ints | None = None

    def _multiply(self, vectors: Floats) -> Floats:
        """One record further."""
        kernels = self.lane.kernels
        if len(kernels) > 1:
            return np.asarray(vectors @ kernels[(self.rows.offsets + self.distance) % len(kernels)])
        return (vectors.reshape(-1, self.lane.size) @ kernels[0]).reshape(vectors.shape)

    def _rounding(self, distance: int) -> float:
        return 2 * (self.lane.size + 6) * max(distance, 1) * UNIT

    def singles(self, first: int, number: int) -> Ends:
        """Pass some records one by one."""
        many, k = self.many, self.lane.size
        seen = np.empty((number, *self.vectors.shape[:2], k + 1))
        rounding = self._rounding(self.distance + number)
        scale_n, gain = self.scale_n * (1 + rounding), np.exp(-self.rows.losses)[:, None, None]
        vectors = self.vectors
        for c in range(number):
            vectors = self._multiply(vectors)
            self.distance += 1
            seen[c, ..., :k] = vectors
            n, d = vectors[:, :many], vectors[:, many : 2 * many]
            positive = n * scale_n > d * self.scale_d
            damp = np.where(positive, 1.0, gain)
            n *= damp
            d *= damp
            seen[c, ..., k] = vectors @ self.lane.weights
        self.vectors = vectors
        distances = np.arange(self.distance - number + 1, self.distance + 1)
        out = self._ends(first, seen, distances, rounding)
        self._rescale()
        return out

    def blocks(self, first: int, number: int, size: int) -> Ends:
        """Pass some blocks of records, each with one product: bounds from above only, by the lemma on slow chains."""
        many, k = self.many, self.lane.size
        powers = self.lane.powers_up_to(size)
        rounding = self._rounding(self.distance + 2 * number * size)
        scale_n, gain = self.scale_n * (1 + rounding), np.exp(-size * self.rows.losses)[:, None, None]
        starts, seen = np.empty((number, *self.vectors.shape)), np.empty((number, *self.vectors.shape[:2], k + 1))
        vectors = self.vectors
        for c in range(number):
            n, d = vectors[:, :many], vectors[:, many : 2 * many]
            damp = np.where(n * scale_n > d * self.scale_d, 1.0, gain)
            n *= damp
            d *= damp
            starts[c] = vectors
            vectors = (vectors.reshape(-1, k) @ powers[-1]).reshape(vectors.shape)
            seen[c, ..., :k] = vectors
        seen[..., k] = seen[..., :k] @ self.lane.weights
        self.vectors = vectors
        distances = self.distance + size * np.arange(1, number + 1)
        out = self._ends(first, seen, distances, rounding)
        inside = self._inside(starts, seen, powers[:-1], distances, rounding)
        self.distance += number * size
        self._rescale()
        nothing = np.full_like(out.lower, -np.inf)
        return Ends(
            first, nothing, np.maximum(out.upper, inside), out.prior, nothing, out.tail, out.spread, out.decided
        )

    def _inside(self, starts: Floats, seen: Floats, powers: Floats, distances: Ints, rounding: float) -> Floats:
        """Upper bounds of the ends inside blocks: the largest of each block, (c, Q, k + 1).

        The chord is taken between the μ next to the roots at both ends of a block: few of all that are followed.
        """
        k, many = self.lane.size, self.many
        ends = np.concatenate([powers, (powers @ self.lane.weights)[..., None]], axis=2)  # (i, k, k + 1)
        columns = np.arange(k + 1) if self.lane.known else np.array([k])
        table = np.ascontiguousarray(ends[..., columns].transpose(2, 1, 0))  # (V, k, i)
        positive = seen[:, :, :many] * self.scale_n > seen[:, :, many : 2 * many] * self.scale_d
        after = np.where(positive.any(axis=2), many - np.argmax(positive[:, :, ::-1], axis=2), 0)[..., columns]
        before = np.concatenate([after[:1] if self._after is None else self._after[None], after[:-1]])
        self._after = after[-1]
        least, most = np.minimum(before, after), np.maximum(before, after)
        rows = np.stack([least - 2, least - 1, most, most + 1], axis=2).clip(0, many - 1)  # (c, Q, 4, V)
        at, q = np.arange(len(starts))[:, None, None, None], np.arange(len(self.rows))[None, :, None, None]
        n, d = (
            np.swapaxes(np.swapaxes(starts[at, q, part + rows], 2, 3) @ table, 2, 3) for part in (0, many)
        )  # (c, Q, 4, V, i)
        x, y = (np.squeeze(starts[:, :, part, None, None] @ table, axis=3) for part in (-2, -1))  # (c, Q, V, i)
        logs, exponents = (part[q, rows][..., None] for part in (self.log_mu, self.exponents))
        signed = n * (np.exp(-logs / 2) * (1 + rounding)) - d * np.exp(logs / 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            prior = np.where((x > 0) & (y > 0), np.log(y) - np.log(x), -np.inf)
        lost = (x < _TINY) | (y < _TINY)
        if lost.any():
            prior = np.where(lost & self._possible(distances)[..., columns, None], np.inf, prior)
        with np.errstate(invalid="ignore"):
            bound = np.where(np.isneginf(prior), -np.inf, _chord_root(signed, logs, exponents) + prior + rounding)
        group = distances[:, None, None] * self.rows.losses[None, :, None] * (1 + 4 * UNIT)
        out = np.full((*bound.shape[:2], k + 1), -np.inf)
        out[..., columns] = np.minimum(bound.max(axis=3, initial=-np.inf), group)
        return out

    def _ends(self, first: int, seen: Floats, distances: Ints, rounding: float) -> Ends:
        """Bounds from vectors at some distances, (c, Q, 2G + 2, k + 1)."""
        many, k = self.many, self.lane.size
        n, d, x, y = seen[:, :, :many], seen[:, :, many : 2 * many], seen[:, :, -2], seen[:, :, -1]
        signed = n * (self.scale_n * (1 + rounding)) - d * self.scale_d
        positive = signed > 0
        prior = self._prior(x, y, distances)
        logs = self.log_mu[None, :, :, None]
        root = _chord_root(signed, logs, self.exponents[None, :, :, None])
        after = np.where(positive.any(axis=2), many - np.argmax(positive[:, :, ::-1], axis=2), 0)
        high, low = np.minimum(after, many - 1)[:, :, None], np.maximum(after - 1, 0)[:, :, None]
        spent = distances[:, None] * self.rows.losses * (1 + 4 * UNIT)
        group = np.repeat((spent - self.rows.losses)[..., None], k + 1, axis=2)
        group[..., k] = spent
        impossible = np.isneginf(prior)
        with np.errstate(invalid="ignore", divide="ignore"):
            upper = np.where(impossible, -np.inf, np.minimum(root + prior + rounding, group))
            # The two μ next to the root come nearest to it.
            ratios = [
                (np.log(np.take_along_axis(n, at, axis=2)) - np.log(np.take_along_axis(d, at, axis=2)))[:, :, 0]
                for at in (low, high)
            ]
        ratios = [np.where(np.isfinite(ratio), ratio, -np.inf) for ratio in ratios]
        nearer = ratios[0] >= ratios[1]
        lower = np.where(nearer, *ratios) + np.where(np.isposinf(prior), -np.inf, prior) - 2 * rounding
        logs = np.broadcast_to(logs, signed.shape)
        best = np.where(nearer, *(np.take_along_axis(logs, at, axis=2)[:, :, 0] for at in (low, high)))
        positive = positive[..., :k]
        dead = ~positive.any(axis=3)
        least = np.where(dead, self.log_mu, np.inf).min(axis=2)
        spread = self._largest_prior(x[..., :k], y[..., :k], distances)
        with np.errstate(invalid="ignore"):
            tail = least + spread + rounding
        tail = np.where(np.isnan(tail), np.inf, tail)
        decided = bool((dead[-1] | positive[-1].all(axis=2)).all())
        return Ends(first, np.minimum(lower, upper), upper, prior, best, tail, spread, decided)

    def _prior(self, x: Floats, y: Floats, distances: Ints) -> Floats:
        """log r of every end; −∞ where it is impossible for x or y, +∞ where a double cannot tell."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where((x > 0) & (y > 0), np.log(y) - np.log(x), -np.inf)
        lost = (x < _TINY) | (y < _TINY)
        if lost.any():
            found = np.where(lost & self._possible(distances), np.inf, found)
        if not self.lane.known:
            found[..., :-1] = -np.inf
        return found

    def _largest_prior(self, x: Floats, y: Floats, distances: Ints) -> Floats:
        """The log of the largest prior ratio of known states, (c, Q), whether or not records may be known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.log(y) - np.log(x)
        lost = (x < _TINY) & (y < _TINY)
        if lost.any():
            ratios = np.where(lost, np.where(self._possible(distances)[..., :-1], np.inf, -np.inf), ratios)
        return np.asarray(ratios.max(axis=2))

    def _possible(self, distances: Ints) -> Mask:
        """Which ends are possible for both values, whatever doubles say, (c, Q, k + 1)."""
        supports = np.array(self.lane.supports)
        pattern = supports[np.minimum(distances, len(supports)) - 1]
        x, y = pattern[:, self.rows.x], pattern[:, self.rows.y]
        has_weight = self.lane.weights > 0
        open_end = (x & has_weight).any(axis=2) & (y & has_weight).any(axis=2)
        return np.concatenate([x & y, open_end[..., None]], axis=2)

    def _rescale(self) -> None:
        """Scale each row with a power of two, so that nothing leaves the range of a double."""
        n, d = self.vectors[:, : self.many], self.vectors[:, self.many : 2 * self.many]
        _, exponent = np.frexp(np.maximum(n.max(axis=2), d.max(axis=2)))
        n[:], d[:] = np.ldexp(n, -exponent[..., None]), np.ldexp(d, -exponent[..., None])
        self.exponents = self.exponents + exponent
        plain = self.vectors[:, 2 * self.many :]
        _, exponent = np.frexp(plain.max(axis=(1, 2)))
        plain[:] = np.ldexp(plain, -exponent[:, None, None])


def _chord_root(signed: Floats, log_mu: Floats, exponents: Ints) -> Floats:
    """The log of the root of the chord of w̄, rows of rising μ along axis 2: +∞ where w̄ is positive at the last μ."""
    positive, many = signed > 0, signed.shape[2]
    after = np.where(positive.any(axis=2), many - np.argmax(positive[:, :, ::-1], axis=2), 0)[:, :, None]
    high, low = np.minimum(after, many - 1), np.maximum(after - 1, 0)
    logs, scales = np.broadcast_to(log_mu, signed.shape), np.broadcast_to(exponents, signed.shape)
    above, below, log_low, log_high, low_scale, high_scale = (
        np.take_along_axis(values, at, axis=2)[:, :, 0]
        for values, at in ((signed, low), (-signed, high), (logs, low), (logs, high), (scales, low), (scales, high))
    )
    # w̄ was divided by √μ, and scaled by a power of two for each row.
    above = np.ldexp(above, np.clip(low_scale - high_scale, -900, 900)) * np.exp((log_low - log_high) / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = above / (above + below)
    share = np.where(np.isfinite(share), np.clip(share * (1 + 16 * UNIT), 0.0, 1.0), 1.0)
    root = np.minimum(log_low + np.log1p(np.expm1(np.minimum(log_high - log_low, 700.0)) * share), log_high)
    return np.where(after[:, :, 0] == 0, logs[:, :, 0], np.where(after[:, :, 0] == many, np.inf, root))


def reach(lane: Lane, rows: Rows, log_mu: Floats, steps: list[tuple[int, int]]) -> Floats:
    """What explicit algorithms add at the last record of each step, one μ a row: (Q, S, k + 1), as logarithms.

    All records of a block are asked the question of its first record, so that a block costs a matrix power.
    """
    k, at, weights = lane.size, np.arange(len(rows)), lane.weights
    sizes = [size for number, size in steps for _ in range(number)]
    asking, plain = np.zeros((len(rows), 2, k)), np.zeros((len(rows), 2, k))
    asking[at, 0, rows.x] = asking[at, 1, rows.y] = plain[at, 0, rows.x] = plain[at, 1, rows.y] = 1.0
    kernel, gain, mu = lane.kernels[0], np.exp(-rows.losses)[:, None], np.exp(log_mu)[:, None]
    powers = {size: np.linalg.matrix_power(kernel, size) for size in set(sizes)}
    seen = np.empty((len(sizes), len(rows), 4, k + 1))
    for s, size in enumerate(sizes):
        moved = asking @ kernel if size == 1 else asking
        damp = np.where(moved[:, 0] > mu * moved[:, 1], 1.0, gain)[:, None]
        if size > 1:
            moved = moved @ np.linalg.matrix_power(kernel * damp, size - 1) @ kernel
        plain = plain @ powers[size]
        asking = moved * damp
        seen[s, :, :2, :k], seen[s, :, 2:, :k] = moved, plain
        seen[s, :, :2, k], seen[s, :, 2:, k] = asking @ weights, plain @ weights
        asking /= asking[:, :1].max(axis=2, keepdims=True) + _TINY
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(seen)
        found = logs[:, :, 0] - logs[:, :, 1] + logs[:, :, 3] - logs[:, :, 2]
    possible = (seen > _TINY).all(axis=2)
    if not lane.known:
        possible[..., :-1] = False
    rounding = 4 * (k + 6) * np.cumsum(sizes)[:, None, None] * UNIT
    return np.swapaxes(np.where(possible, found - rounding, -np.inf), 0, 1)
