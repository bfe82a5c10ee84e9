"""What lies beside the targets of a series: kernels, losses and ends outwards, and what ends say by themselves.

A target has two sides, called lanes: 0 before it, 1 after it. Rows are targets with a pair of values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.bounds.tight.long.jumps import Jumps

MOST_LOSS: Final = 200.0
"""Losses are cut to this inside a pass, so that e^loss and its square are numbers; the rest is added to the bound."""
_SETTLED: Final = 1e-15
_AT_ONCE: Final = 64
"""Steps that are made at once where nothing changes any more."""
_DEEP: Final = 1024
"""The same so far from the target."""
_FEW: Final = 16
"""Rows up to which that is worth its memory."""
_FAR_BELOW: Final = -0.5
"""What is reached so far below μ has lost its digits."""
OPEN_END: Final = -1
"""In place of a known value: the series ends there."""
LASTING: Final = -2
"""In place of a known value: the algorithm goes on with lasting questions, and the series with it."""
_LEAST_POSITIVE: Final = 1e-200
"""Where positive entries of vectors on one scale are kept from vanishing."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """What lies beside targets: the record at distance d from offset o is reached by kernel o + d − 1 of its lane."""

    kernels: Floats
    """(2, m, k, k); behind the last the first follows."""
    end: Floats
    """(2, k) weights at the end of the series: 1 after the target; the law of the first record before it, or 1 where
    the kernels are those of the chain read backwards."""
    known: bool
    """Whether records may be known."""
    anywhere: bool
    """Whether the series may end behind any record; otherwise only behind a row's last one."""
    alike: bool = False
    """Whether the one lane stands for both sides."""
    last_loss: Floats | None = None
    """(lanes,) what the last record spends, where that is more than the others."""
    side: int | None = None
    """Records on either side of the target that an algorithm can go on asking; None: without end."""
    tends_to: Floats | None = None
    """(lanes, k) what the end of a very long series says, where that is not 1: the law that the chain tends to."""
    _memory: dict[bytes, tuple[Floats, Floats, Floats]] = field(default_factory=dict, repr=False)
    _jumps: dict[tuple[int, float], Jumps] = field(default_factory=dict, repr=False)

    @property
    def plain(self) -> bool:
        """Whether the end of the series says nothing by itself."""
        return bool((self.end == 1).all())

    @property
    def far(self) -> Floats:
        """(lanes, k) what the end of a very long series says."""
        return np.ones_like(self.end) if self.tends_to is None else self.tends_to

    @property
    def lanes(self) -> int:
        """2, or 1 where one side is asked about, or both are alike."""
        return len(self.kernels)

    @property
    def size(self) -> int:
        """Number of states."""
        return int(self.kernels.shape[-1])

    def kernels_at(self, offsets: Ints, distance: int) -> Floats:
        """(2, 1, k, k) where all targets share their kernels, otherwise (2, R, k, k)."""
        m = self.kernels.shape[1]
        if m == 1:
            return self.kernels
        at = (offsets + (distance - 1)) % m
        return np.stack([kernels[at[lane]] for lane, kernels in enumerate(self.kernels)])

    def kernels_ahead(self, offsets: Ints, distance: int, steps: int) -> Floats:
        """Kernels of the steps behind a distance, (steps, 2, R, k, k)."""
        at = (offsets + (distance + np.arange(steps))[:, None, None]) % self.kernels.shape[1]
        return np.asarray(self.kernels[np.arange(self.lanes)[:, None], at])

    def steady(self, rows: Rows) -> bool:
        """Whether nothing changes from record to record, for ever."""
        return self.kernels.shape[1] == 1 and rows.losses.shape[1] == 1 and bool((rows.records < 0).all())

    def times(self, depth: int, cycle: int) -> int:
        """How often a cycle of questions can be repeated beyond a depth."""
        return 1 << 30 if self.side is None else max(0, (self.side - depth) // cycle)

    def jumps(self, lane: int, gain: float) -> Jumps:
        """Many steps of the one kernel of a lane at once; those of the last gain are kept."""
        key = lane, gain
        if key not in self._jumps:
            for old in [old for old in self._jumps if old[0] == lane]:
                del self._jumps[old]
            self._jumps[key] = Jumps(self.kernels[lane, 0], gain)
        return self._jumps[key]

    def slowest(self, rows: Rows, depth: int) -> Floats | None:
        """Weights of lasting questions along the slowest mode, one way and the other: (lanes, R, k, 2)."""
        if not self.steady(rows):
            return None
        found = []
        for lane, cycles in enumerate(self._slow):
            if not cycles:
                return None
            loss = float(rows.losses[lane, 0])
            rounds = np.array([one_round(self.kernels[lane, 0], loss, cycle) for cycle in cycles])
            found.append(tends_to(rounds, self.times(depth, len(cycles[0])), self.far[lane]).T)
        return np.broadcast_to(np.array(found)[:, None], (self.lanes, len(rows), self.size, 2))

    @cached_property
    def _slow(self) -> list[list[list[Mask]]]:
        """Questions along the slowest mode of each lane."""
        return [slow_questions(kernels[0]) for kernels in self.kernels]

    @cached_property
    def _powers(self) -> Floats:
        """Of the one kernel of each lane: (lanes, steps, k, k)."""
        out = [self.kernels[:, 0]]
        for _ in range(_AT_ONCE - 1):
            out.append(out[-1] @ self.kernels[:, 0])
        return np.stack(out, axis=1)

    @cached_property
    def _many_powers(self) -> Floats:
        """The same where sides are long."""
        out = self._powers
        while out.shape[1] < _DEEP:
            out = np.concatenate([out, out @ out[:, -1:]], axis=1)
        return out

    def let_go(self) -> None:
        """Keep nothing that can be worked out again."""
        self._memory.clear()

    def priors(self, rows: Rows, depth: int) -> tuple[Floats, Floats, Floats]:
        """What ends say by themselves, z(y)/z(x), as (2, R, depth, C): known values first, then the end of the series.

        0 stands for an end that one of the two values rules out. With it the most that any end beyond the depth says,
        (2, R), and the distance at which the first probability was lost to rounding, (2, R).
        """
        key = rows.key + depth.to_bytes(4, "little")
        if key not in self._memory:
            while len(self._memory) >= 4:
                del self._memory[next(iter(self._memory))]
            self._memory[key] = self._priors(rows, depth)
        return self._memory[key]

    def _priors(self, rows: Rows, depth: int) -> tuple[Floats, Floats, Floats]:
        n, k = len(rows), self.size
        ratio = np.zeros((self.lanes, n, depth, k * self.known + 1))
        distance = np.arange(1, depth + 1)
        inside = (rows.records[..., None] < 0) | (distance <= rows.records[..., None])
        last = inside.copy() if self.anywhere else distance == rows.records[..., None]
        # Before the target a series of several kernels begins with the first of them. Where the end says nothing by
        # itself, whoever asks nothing of the records before some other one has a series that begins there.
        if self.anywhere and not self.plain:
            last[0] &= (rows.offsets[0][:, None] + distance) % self.kernels.shape[1] == 0
        lost = np.full((self.lanes, n), np.inf)
        if not self.known and self.plain:
            ratio[..., 0] = last
            return ratio, np.ones((self.lanes, n)), lost
        law = np.zeros((self.lanes, n, 2, k))
        law[:, np.arange(n), 0, rows.x] = law[:, np.arange(n), 1, rows.y] = 1.0
        support = law > 0
        one_kernel, positive, some_rows = self.kernels.shape[1] == 1, bool((self.kernels > 0).all()), range(1, _FEW + 1)
        d = -1
        while d + 1 < depth:
            d += 1
            if n * self.known in some_rows and one_kernel and (law.all() or (d == 0 and positive)):
                powers = self._powers if d < _DEEP else self._many_powers
                steps = min(powers.shape[1], depth - d)  # many steps at a time, where nothing can be lost
                laws = law[:, :, :, None, None] @ powers[:, None, None, :steps]
                laws = laws[..., 0, :]  # (lanes, R, 2, steps, k)
                if laws.all():
                    said = (laws @ self.end[:, None, None, :, None])[..., 0]
                    ratio[:, :, d : d + steps, :-1] = laws[:, :, 1] / laws[:, :, 0]
                    ratio[:, :, d : d + steps, -1] = quotient(said[:, :, 1], said[:, :, 0])
                    law, d = scaled(laws[:, :, :, -1], (2, 3)), d + steps - 1
                    continue
            kernels = self.kernels_at(rows.offsets, d + 1)
            law = law @ kernels
            law = scaled(law, (2, 3))
            if law.all():
                support = law > 0
            else:
                support = support.astype(float) @ (kernels > 0) > 0
                lost = np.minimum(lost, np.where((support & (law == 0)).any(axis=(2, 3)), d, np.inf))
            said = law @ self.end[:, None, :, None]
            ratio[:, :, d, -1] = quotient(said[:, :, 1, 0], said[:, :, 0, 0])
            if self.known:
                ratio[:, :, d, :-1] = quotient(law[:, :, 1], law[:, :, 0])
        ratio[..., :-1] *= inside[..., None]
        ratio[..., -1] *= last
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = np.where(law[:, :, 1] > 0, law[:, :, 1] / law[:, :, 0], 0.0).max(axis=2)
        return ratio, beyond, lost


@dataclass(frozen=True, eq=False)
class Rows:
    """Targets and pairs of values that are asked about."""

    offsets: Ints
    """(2, R) where the kernels of each lane begin."""
    records: Ints
    """(2, R) records on each side; a negative number: without end."""
    losses: Floats
    """(2, n) losses of records by offset, or (2, 1): the same for all."""
    x: Ints
    """(R,) the value that algorithms speak for."""
    y: Ints
    """(R,) the other."""
    repeats: bool = False
    """Whether the losses come again and again, behind the last the first."""

    def __len__(self) -> int:
        return len(self.x)

    @property
    def key(self) -> bytes:
        """What the rows are, losses apart."""
        return b"".join(a.tobytes() for a in (self.offsets, self.records, self.x, self.y))

    def pick(self, at: Ints | Mask) -> Rows:
        """Some of them."""
        return Rows(self.offsets[:, at], self.records[:, at], self.losses, self.x[at], self.y[at], self.repeats)

    def losses_at(self, depth: int) -> Floats:
        """Losses of the records up to a distance, (2, R, depth)."""
        n = self.losses.shape[1]
        if n == 1:
            return np.broadcast_to(self.losses[:, :, None], (len(self.offsets), len(self), depth))
        at = self.offsets[..., None] + np.arange(depth)
        at = at % n if self.repeats else at
        losses = np.stack([losses[np.minimum(at[lane], n - 1)] for lane, losses in enumerate(self.losses)])
        return np.where(at < n, losses, 0.0)

    def spent(self) -> Floats:
        """All losses of a side, (2, R); infinite where it has no end."""
        n = self.losses.shape[1]
        if n == 1:
            loss = np.broadcast_to(self.losses, self.records.shape)
            return np.where(self.records < 0, np.where(loss > 0, np.inf, 0.0), loss * np.maximum(self.records, 0))
        sums = np.concatenate([np.zeros((len(self.losses), 1)), np.cumsum(self.losses, axis=1)], axis=1)
        if self.repeats:
            first, last = self.offsets, self.offsets + np.maximum(self.records, 0)
            upto = [end // n * sums[:, -1:] + np.take_along_axis(sums, end % n, axis=1) for end in (first, last)]
            return np.where((self.records < 0) & (sums[:, -1:] > 0), np.inf, upto[1] - upto[0])
        last = np.where(self.records < 0, n, np.minimum(self.offsets + self.records, n))
        first = np.minimum(self.offsets, n)
        return np.asarray(np.take_along_axis(sums, last, axis=1) - np.take_along_axis(sums, first, axis=1))


@dataclass(frozen=True, eq=False)
class Lasting:
    """Algorithms that go on with the same few questions for ever: what they reach makes lower ends better, no more."""

    weights: Floats
    """(2, n, q, k) by the offset of the next record; n = 1: the same everywhere."""

    def at(self, offsets: Ints, distance: int, steps: int) -> Floats:
        """Weights behind some distances, (2, R or 1, steps or 1, k, q)."""
        n = self.weights.shape[1]
        if n == 1:
            return self.weights.swapaxes(2, 3)[:, :, None]
        at = np.minimum(offsets[..., None] + np.arange(distance, distance + steps), n - 1)
        return np.stack([weights[at[lane]] for lane, weights in enumerate(self.weights)]).swapaxes(3, 4)


@dataclass(eq=False)
class Bracket:
    """What both sides add, row by row: logs, (2, R)."""

    lower: Floats
    """Reached by some algorithm, for some adversary."""
    upper: Floats
    """Passed by none."""
    distance: Ints
    """Of the known record or of the last one, behind ``lower``; 0 where the side adds nothing."""
    state: Ints
    """The known record's value, or OPEN_END, or LASTING."""
    mu: Floats
    """log μ of the pass behind ``lower``: its signs are the algorithm's questions."""
    asked: Mask | None = None
    """(2, R, 2, k) the last questions of a pass, which may last; None: not known."""
    prior: Floats | None = None
    """(2, R) what the ends behind ``lower`` say by themselves, in logs; infinite or None: not known."""

    def likely_mu(self, lower: Floats) -> Floats:
        """(2, R) log μ at which other lower ends are likely to be reached, at a loss nearby."""
        found = self.mu + lower - self.lower
        return found if self.prior is None else np.where(np.isfinite(self.prior), lower - self.prior, found)

    def copy(self) -> Bracket:
        """Another one that can be written."""
        return self.pick(np.arange(self.lower.shape[1]))

    def pick(self, at: Ints | Mask) -> Bracket:
        """Some rows."""
        ends = self.distance[:, at], self.state[:, at]
        asked = None if self.asked is None else self.asked[:, at]
        prior = None if self.prior is None else self.prior[:, at]
        return Bracket(self.lower[:, at], self.upper[:, at], *ends, self.mu[:, at], asked, prior)


def tends_to(rounds: Floats, times: int, end: Floats) -> Floats:
    """Weights after so many rounds behind an end, scaled to 1."""
    first = before = rounds
    for bit in range(0, times.bit_length(), 3):  # entries of at most 1 stay numbers when they are squared three times
        rounds = scaled(rounds, (-1, -2))
        if bit and np.abs(rounds - before).max() <= _SETTLED:  # more rounds change nothing
            return scaled((rounds @ end[..., None])[..., 0], (-1,))
        before = rounds
        for _ in range(3):
            rounds = rounds @ rounds
    weights, rounds = np.broadcast_to(end, first.shape[:-1]), first
    for bit in range(times.bit_length()):
        rounds = scaled(rounds, (-1, -2)) if bit % 3 == 0 else rounds
        if times >> bit & 1:
            weights = scaled((rounds @ weights[..., None])[..., 0], (-1,))
        rounds = rounds @ rounds
    return np.asarray(weights)


def scaled(table: Floats, axes: tuple[int, ...]) -> Floats:
    """Scaled to a largest entry of 1 along some axes, where there is one."""
    largest = np.abs(table).max(axis=axes, keepdims=True)
    return np.asarray(table / np.where(largest > 0, largest, 1.0))


def scaled_alike(vectors: Floats) -> Floats:
    """Signed vectors of a row at several μ, (R, G, k), on one scale, for proofs: positive entries are never lost.

    Larger entries only make it harder to prove that none is left.
    """
    out = scaled(vectors, (1, 2))
    return np.where((out > 0) & (out < _LEAST_POSITIVE), _LEAST_POSITIVE, out)


def quotient(top: Floats, bottom: Floats) -> Floats:
    """top/bottom where the bottom is positive, 0 elsewhere."""
    out = np.zeros(np.broadcast_shapes(top.shape, bottom.shape))
    with np.errstate(over="ignore"):  # what is too large for a double is infinite
        np.divide(top, bottom, out=out, where=bottom > 0)
    return out


def slow_questions(kernel: Floats) -> list[list[Mask]]:
    """Questions that are worth asking again and again: two cycles of sets of states.

    Far from the target the signed vector points along the slowest mode of the chain, one way or the other, and its
    signs are the questions. Only lower ends depend on them.
    """
    values, vectors = np.linalg.eig(kernel.T)
    order = np.argsort(-np.abs(values))
    if len(order) < 2 or values[order[1]].imag != 0:
        return []
    ahead = vectors[:, order[1]].real > 0
    ways = ahead, ~ahead
    return [[way] if values[order[1]].real > 0 else [way, ~way] for way in ways]


def one_round(kernel: Floats, loss: float, cycle: list[Mask]) -> Floats:
    """One round of a cycle of questions as a matrix, scaled."""
    product = np.eye(len(kernel))
    for states in cycle:
        product = product @ (kernel * np.exp(min(loss, MOST_LOSS) * states))
    return scaled(product, (0, 1))


def on_chords(vectors: Floats, mu: Floats, asked: Floats) -> Floats:
    """At least the vectors at other μ than those they were followed at, (R, k) from (R, G, k): they are convex in μ.

    Above the last μ they are no larger than there; below the first nothing is known.
    """
    rows, last, k = len(mu), mu.shape[1] - 1, asked.shape[1]
    at = count(mu[:, :, None] <= asked[:, None, :], axis=1) - 1
    under, over = np.maximum(at, 0), np.minimum(at + 1, last)
    row = np.arange(rows)[:, None] * (last + 1)
    under, over = row + under, row + over
    low, high = (mu.ravel().take(end) for end in (under, over))
    column, flat = np.arange(k), vectors.ravel()
    first, second = (flat.take(end * k + column) for end in (under, over))
    share = np.where(high > low, asked - low, 0.0) / np.where(high > low, high - low, 1.0)
    return np.where(at < 0, np.inf, first + share * (second - first))


def picked(table: Floats, at: Ints) -> Floats:
    """Entries of (lanes, R, G, …) at one of G each, (lanes, R, …); what has fewer axes is the same along the others."""
    places = (slice(None),) + (None,) * (at.ndim - 1)
    index = [np.arange(n)[places[: at.ndim - axis]] for axis, n in enumerate(at.shape)]
    return np.asarray(table[(*index[:2], at, *index[2 : table.ndim - 1])])


def chord_root(signed: tuple[Floats, Floats], size: tuple[Floats, Floats], mu: tuple[Floats, Floats]) -> Floats:
    """At most the μ at which signed weights, convex and falling, change their signs: where the chord does.

    Given at the last μ where they are positive and at the next one, each on a scale of its own, in logs.
    """
    (up, down), (low, high) = signed, mu
    down = down * np.exp(np.clip(size[1] - size[0], -700.0, 700.0))
    with np.errstate(invalid="ignore", over="ignore"):  # no number fails both comparisons
        root = np.where(up > 0, low + (high - low) * quotient(up, up - down), np.where(up <= 0, low, np.inf))
        return np.where(down <= 0, root, np.inf)


def reached_at(signed: Floats, below: Floats, limit: Floats) -> Floats:
    """What the questions of a pass reach at an end, below μ too; far below it has lost its digits and is left out."""
    some = below > 0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = signed / below
        share = share if some.all() else np.where(some, share, np.where(signed > 0, 0.0, -1.0))
        reached = limit + limit * share
        # What is too large for a double is not known to be reached.
        return np.where((share > _FAR_BELOW) & (reached < np.inf), reached, 0.0)


def some_true(table: Mask) -> Mask:
    """Whether any is true along the last axis: one column after another, which is faster where there are few."""
    if table.shape[-1] > _FEW:
        return np.asarray(table.any(axis=-1))
    out = table[..., 0].copy()
    for column in range(1, table.shape[-1]):
        out |= table[..., column]
    return out


def asked_later(mu: Floats, low: Floats, high: Floats) -> Mask:
    """Which μ of some rows, (R, G) rising, are still needed where ends ask for none beyond two bounds, (R,) each.

    Quotients of ends farther away are mediants of those here. One μ more is kept on either side. Whatever is dropped
    proves less, never more.
    """
    spare = np.zeros((len(mu), 2), dtype=bool)
    under = np.concatenate([mu[:, 2:] <= low[:, None], spare], axis=1)[:, : mu.shape[1]]
    over = np.concatenate([spare, mu[:, :-2] >= high[:, None]], axis=1)[:, : mu.shape[1]]
    return np.asarray(~(under | over).all(axis=0))


def count(table: Mask, axis: int) -> Ints:
    """How many are true along an axis of fewer than 2^15."""
    return np.asarray(np.add.reduce(table.view(np.int8), axis=axis, dtype=np.int16), dtype=np.int64)
