"""Series of two states whose losses or kernels change: every record at once.

Ends are carried towards their targets: from a known record, or from the end of the series, the quotient of the weights
of the two states moves by a Möbius map at each step, as large and as small as questions can make it (see
``two_states``). A step of all ends at once is a handful of operations on arrays. Ends farther away than a distance lie
between the known ones at that distance, so that these bound them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.bounds.tight.outlook import MOST_LOSS, OPEN_END
from pufferdp.bounds.tight.two_states import worst_law

_EVERY: Final = 8
"""Distances between two looks at whether those beyond matter."""
_NEAR: Final = 1024
"""Where records may be known, the end of the series is looked at from this far first."""
_LEAST: Final = 1e-3
"""Leakages below this are known to a share of it."""
_MOST: Final = 1e200
"""Quotients of weights are kept below this, and above its inverse."""
_ROUNDING: Final = 64 * 2.0**-53
"""More than the rounding of one step."""
_ROUNDING_OF_LOGS: Final = 16 * 2.0**-53
"""More than the rounding of one step in logs, as a share of the largest of them."""
_SAFE: Final = 200.0
"""Logs of quotients up to which weights are followed as they are; where they could pass it, their logs are."""
_SPREAD: Final = 1e-70
"""Products of four entries of a matrix with a largest entry of 1 are numbers where no entry is smaller."""


@dataclass(frozen=True, eq=False)
class SideTables:
    """What one side adds for the pairs (0, 1) and (1, 0) at every target: logs, (2, n); −∞: impossible."""

    lower: Floats
    upper: Floats
    distance: Ints
    """Of the end behind ``lower``: of the known record, or of the last one."""
    state: Ints
    """Its value, or OPEN_END."""


def side_tables(
    kernels: Floats, losses: Floats, end: Floats | None, known: bool, alive: Mask, width: float
) -> SideTables:
    """One lane of every target.

    Args:
        kernels: (m, 2, 2) outwards from the target of the first place; behind the last the first follows.
        losses: (n,) of all records in the lane's order: target i has the records i+1, i+2, … beside it.
        end: weights at the end of the series; None: any law there.
        known: whether records may be known.
        alive: (n,) whether both values are possible at each target.
        width: ends beyond a distance are left out where they add no more than this share.
    """
    n = len(losses)
    widest = _widest(kernels, losses)
    if end is not None and widest > _SAFE:
        return _in_logs(kernels, losses, end, known, alive, width)
    gains = np.exp(np.minimum(losses, MOST_LOSS))
    for near in (_NEAR, n):
        lower, distance, state = _last_ends(kernels, gains, end, near if known else n)
        upper, closed = lower, True
        if known and n > 1:
            lower, upper, distance, state, reach = _known_ends(kernels, gains, lower, distance, state, width)
            closed = reach < near or near >= n
        if closed:
            break
    cut = np.maximum(losses - MOST_LOSS, 0.0)
    rest = np.concatenate([np.cumsum(cut[::-1])[::-1][1:], [0.0]])
    spent = np.concatenate([np.cumsum(losses[::-1])[::-1][1:], [0.0]])
    upper = np.minimum(upper + _ROUNDING * np.maximum(distance, 1) + rest, spent)
    if end is None and widest > _SAFE:
        # Whatever was lost to rounding, here or farther away: group privacy is left, and nothing is said below.
        lost = _lost(kernels, gains, n)
        lower, upper = np.where(lost, 0.0, lower), np.where(lost, spent, upper)
    lower = np.minimum(lower, upper)
    lower, upper = (np.where(alive, table, -np.inf) for table in (lower, upper))
    return SideTables(lower, upper, distance, state)


def _widest(kernels: Floats, losses: Floats) -> float:
    """No log of a quotient of weights gets larger: each step adds its loss and its rarest move, until all mix."""
    rarest = float(-np.log(kernels[kernels > 0].min()))
    mixes = np.flatnonzero((kernels > 0).all(axis=(1, 2)))
    longest = len(losses)
    if len(mixes):  # the longest run of kernels with a zero; behind the last of them the first follows
        longest = int(np.diff(np.concatenate([mixes, [mixes[0] + len(kernels)]])).max())
    return min(longest, len(losses)) * (rarest + float(losses.max()))


def _in_logs(kernels: Floats, losses: Floats, end: Floats, known: bool, alive: Mask, width: float) -> SideTables:
    """The same where weights are too far apart for a double: a few times slower, and no loss is cut."""
    n = len(losses)
    with np.errstate(divide="ignore"):
        steps, last = np.log(kernels[np.arange(max(n - 1, 1)) % len(kernels)]), np.log(end)
    lower, size = _last_in_logs(steps, losses, last)
    distance = np.broadcast_to(np.arange(n)[::-1], (2, n)).copy()
    state = np.full((2, n), OPEN_END)
    upper = lower
    if known and n > 1:
        upper, more = _known_in_logs(steps, losses, lower, distance, state, width)
        size = max(size, more)
    # A step changes no quotient's error: each adds the rounding of its own logs.
    size += max(float(losses.max()), 1.0)
    spent = np.concatenate([np.cumsum(losses[::-1])[::-1][1:], [0.0]])
    upper = np.minimum(upper + _ROUNDING_OF_LOGS * np.maximum(distance, 1) * size, spent)
    lower, upper = (np.where(alive, table, -np.inf) for table in (np.minimum(lower, upper), upper))
    return SideTables(lower, upper, distance, state)


def _moved(step: Floats, weights: Floats) -> tuple[Floats, float]:
    """Logs of weights (2, …) one record nearer to the target, the larger of them 0; and how large they were."""
    moved = np.logaddexp(step[:, 0] + weights[0], step[:, 1] + weights[1])
    most = moved.max(axis=0)
    size = float(np.abs(moved).max(initial=0.0, where=np.isfinite(moved)))
    return np.asarray(moved - np.where(np.isfinite(most), most, 0.0)), size


def _asked(step: Floats, loss: Floats | float, high: Floats, low: Floats) -> tuple[Floats, Floats]:
    """Weights after the two questions: the one that makes the quotient behind the step large, and the other."""
    nothing = np.zeros_like(loss)
    up, down = high + np.stack([loss, nothing]), low + np.stack([nothing, loss])
    turns = step[0, 0] + step[1, 1] < step[0, 1] + step[1, 0]
    return np.where(turns, down, up), np.where(turns, up, down)


def _last_in_logs(steps: Floats, losses: Floats, end: Floats) -> tuple[Floats, float]:
    """The end of the series, and the largest log."""
    n, largest = len(losses), 0.0
    out = np.zeros((2, n))
    high = low = bare = end
    for t in range(n - 2, -1, -1):
        up, down = _asked(steps[t], losses[t + 1], high, low)
        moved, size = _moved(steps[t][..., None], np.stack([up, down, bare], axis=1))
        (high, low, bare), largest = np.moveaxis(moved, 1, 0), max(largest, size)
        if np.isfinite(bare).all():
            said = bare[0] - bare[1]
            out[:, t] = high[0] - high[1] - said, low[1] - low[0] + said
    return out, largest


def _known_in_logs(
    steps: Floats, losses: Floats, best: Floats, distance: Ints, state: Ints, width: float
) -> tuple[Floats, float]:
    """Known records at every distance; what is found is written into the tables. A bound for all; the largest log."""
    n, largest = len(losses), 0.0
    tail = np.full((2, n), -np.inf)
    steps = steps.transpose(1, 2, 0)
    high = low = bare = steps  # (state, known value, target)
    for d in range(1, n):
        ends = n - d
        with np.errstate(invalid="ignore"):
            said, up, down = (part[0] - part[1] for part in (bare, high, low))
            added = np.where(np.isfinite(bare).all(axis=0), np.stack([up - said, said - down]), -np.inf)
        which, most = added.argmax(axis=1), added.max(axis=1)
        better = most > best[:, :ends]
        for table, new in ((best, most), (distance, np.full_like(which, d)), (state, which)):
            table[:, :ends] = np.where(better, new, table[:, :ends])
        if d % _EVERY == 0:
            # Of weights of which one is impossible for every known value here, it is farther away too.
            with np.errstate(invalid="ignore"):
                beyond = np.stack([_most(up) - _least(said), _most(said) - _least(down)])
            beyond = np.where(np.isnan(beyond), -np.inf, beyond)
            room = best[:, :ends] + np.log1p(width * np.maximum(best[:, :ends], _LEAST))
            if (beyond <= room).all():
                tail[:, :ends] = beyond
                break
        if ends > 1:
            here = steps[:, :, : ends - 1]
            up, down = _asked(here[:, :, None], losses[None, 1:ends], high[..., 1:], low[..., 1:])
            moved = [_moved(here[:, :, None], part) for part in (up, down, bare[..., 1:])]
            high, low, bare = (part for part, _ in moved)
            largest = max(largest, *(size for _, size in moved))
    return np.maximum(best, tail), largest


def _most(quotients: Floats) -> Floats:
    """Over known values that are possible."""
    return np.asarray(np.where(np.isnan(quotients), -np.inf, quotients).max(axis=0))


def _least(quotients: Floats) -> Floats:
    return -_most(-quotients)


def _lost(kernels: Floats, gains: Floats, n: int) -> Mask:
    """Targets from which the end of the series is too far away for products of matrices, (n,)."""
    steps = kernels[np.arange(max(n - 1, 1)) % len(kernels)]
    out = np.zeros(n, dtype=bool)
    support, plain, passed = np.eye(2) > 0, np.eye(2), np.stack([np.eye(2), np.eye(2)])
    for t in range(n - 2, -1, -1):
        plain, passed = _normal(steps[t] @ plain), _passed(steps[t], gains[t + 1], passed)
        support = (steps[t] > 0) @ support
        out[t] = out[t + 1] or bool(((plain < _SPREAD) & support).any() or ((passed < _SPREAD) & support).any())
    return out


def _last_ends(kernels: Floats, gains: Floats, end: Floats | None, near: int) -> tuple[Floats, Ints, Ints]:
    """The end of the series, seen from the last targets; others learn nothing from it here."""
    n = len(gains)
    distance = np.broadcast_to(np.arange(n)[::-1], (2, n)).copy()
    state = np.full((2, n), OPEN_END)
    steps = kernels[np.arange(max(n - 1, 1)) % len(kernels)]
    if end is None:
        return np.maximum(_any_law(steps, gains, n), 0.0), distance, state
    out = np.zeros((2, n))
    high = low = bare = (float(end[0]), float(end[1]))
    first = max(0, n - 1 - near)
    entries, spent = steps[first : n - 1].reshape(-1, 4).tolist(), gains[first + 1 :].tolist()
    logs = []
    for (a, b, c, d), gain in zip(reversed(entries), reversed(spent), strict=True):
        up, down = (high[0] * gain, high[1]), (low[0], low[1] * gain)
        if a * d < b * c:
            up, down = down, up
        high = _scaled(a * up[0] + b * up[1], c * up[0] + d * up[1])
        low = _scaled(a * down[0] + b * down[1], c * down[0] + d * down[1])
        bare = _scaled(a * bare[0] + b * bare[1], c * bare[0] + d * bare[1])
        logs.append((*high, *low, *bare))
    if logs:
        with np.errstate(divide="ignore", invalid="ignore"):
            h0, h1, l0, l1, b0, b1 = np.log(np.array(logs[::-1])).T
            found = np.stack([(h0 - h1) - (b0 - b1), (l1 - l0) - (b1 - b0)])
        out[:, first : n - 1] = np.where(np.isfinite(b0) & np.isfinite(b1), found, 0.0)
    return out, distance, state


def _scaled(first: float, second: float) -> tuple[float, float]:
    if first >= second:
        return 1.0, (second / first if first > 0 else 0.0)
    return first / second, 1.0


def _any_law(steps: Floats, gains: Floats, n: int) -> Floats:
    """Any law of the record at the end: the worst one for each target, in closed form."""
    plain, passed = np.empty((n, 2, 2)), np.empty((2, n, 2, 2))
    plain[n - 1] = passed[:, n - 1] = np.eye(2)
    for t in range(n - 2, -1, -1):
        passed[:, t] = _passed(steps[t], gains[t + 1], passed[:, t + 1])
        plain[t] = _normal(steps[t] @ plain[t + 1])
    turned = worst_law(passed[1:, :, ::-1], plain[None, :, ::-1])
    return np.concatenate([worst_law(passed[:1], plain[None]), turned])


def _passed(kernel: Floats, gain: float, behind: Floats) -> Floats:
    """Products that speak for state 0 and for state 1, (2, 2, 2), with one record more."""
    favours = np.array([[gain, 1.0], [1.0, gain]])
    if kernel[0, 0] * kernel[1, 1] < kernel[0, 1] * kernel[1, 0]:
        favours, behind = favours[::-1], behind[::-1]
    return _normal((kernel * favours[:, None, :]) @ behind)


def _normal(matrices: Floats) -> Floats:
    return np.asarray(matrices / matrices.max(axis=(-1, -2), keepdims=True))


@dataclass
class _Carried:
    """Known records at one distance from their targets: quotients of the weights of states 0 and 1, (value, target)."""

    steps: Floats
    """(2, 2, n − 1) or (2, 2, 1): the kernel from each target to the record behind it."""
    high: Floats
    """The largest quotient that questions reach."""
    low: Floats
    """The smallest."""
    bare: Floats
    """Without any question."""
    possible: Mask
    """(state, value, target): which values of the target each known record leaves."""

    @classmethod
    def first(cls, kernels: Floats, n: int) -> _Carried:
        """Known records next to their targets."""
        steps = kernels if len(kernels) == 1 else kernels[np.arange(n - 1) % len(kernels)]
        steps = steps.transpose(1, 2, 0)
        wide = np.broadcast_to(steps, (2, 2, n - 1))
        bare = _clipped(steps[0], steps[1])
        return cls(steps, _clipped(wide[0], wide[1]), _clipped(wide[0], wide[1]), bare, steps > 0)

    @property
    def added(self) -> Floats:
        """What each known record adds for the pairs (0, 1) and (1, 0): quotients, 0 where it leaves one value."""
        return np.where(self.possible.all(axis=0), np.stack([self.high / self.bare, self.bare / self.low]), 0.0)

    @property
    def beyond(self) -> Floats:
        """A bound for every end farther away, (pair, target): its weights are mixtures of those of known ends here."""
        up = np.stack([self.high.max(axis=0), 1 / self.low.min(axis=0)])
        with np.errstate(over="ignore"):
            return np.asarray(up * np.stack([1 / self.bare.min(axis=0), self.bare.max(axis=0)]))

    def step(self, gains: Floats) -> _Carried:
        """Targets move on by one; what they were before is asked a question and spends log ``gains``."""
        many = self.high.shape[1] - 1
        steps = self.steps[:, :, :many]
        (a, b), (c, d) = steps
        up, down = self.high[:, 1:] * gains, self.low[:, 1:] / gains
        turns = a * d < b * c
        if turns.any():
            up, down = np.where(turns, down, up), np.where(turns, up, down)
        bare = self.bare if self.bare.shape[1] == 1 else self.bare[:, 1:]
        possible = self.possible if self.possible.shape[2] == 1 else self.possible[:, :, 1:]
        if not possible.all():
            possible = np.stack([((p > 0) & possible[0]) | ((q > 0) & possible[1]) for p, q in ((a, b), (c, d))])
        up, down, bare = (_clipped(a * w + b, c * w + d) for w in (up, down, bare))
        return _Carried(self.steps, up, down, bare, possible)


def _clipped(top: Floats, bottom: Floats) -> Floats:
    """Quotients kept away from 0 and infinity; ``possible`` knows which of them are."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.clip(np.nan_to_num(top / bottom, nan=1.0, posinf=_MOST), 1 / _MOST, _MOST)


def _known_ends(
    kernels: Floats, gains: Floats, open_end: Floats, distance: Ints, state: Ints, width: float
) -> tuple[Floats, Floats, Ints, Ints, int]:
    """Known records at every distance, each carried from where it is known towards its targets; and how far."""
    n = len(gains)
    best, tail = np.exp(open_end), np.zeros((2, n))
    carried = _Carried.first(kernels, n)
    for d in range(1, n):
        added = carried.added
        ends = n - d
        which, most = added.argmax(axis=1), added.max(axis=1)
        better = most > best[:, :ends]
        if better.any():
            best[:, :ends] = np.where(better, most, best[:, :ends])
            distance[:, :ends] = np.where(better, d, distance[:, :ends])
            state[:, :ends] = np.where(better, which, state[:, :ends])
        if d % _EVERY == 0:
            room = best[:, :ends] * (1 + width * np.maximum(np.log(best[:, :ends]), _LEAST))
            if (carried.beyond <= room).all():
                tail[:, :ends] = carried.beyond
                break
        if ends > 1:
            carried = carried.step(gains[1:ends])
    return np.log(best), np.log(np.maximum(best, tail)), distance, state, d
