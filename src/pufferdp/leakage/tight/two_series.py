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
from pufferdp.leakage.tight.outlook import MOST_LOSS, OPEN_END
from pufferdp.leakage.tight.two_states import worst_law

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
    lower = np.minimum(lower, upper)
    lower, upper = (np.where(alive, table, -np.inf) for table in (lower, upper))
    return SideTables(lower, upper, distance, state)


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
        kernel, gain = steps[t], gains[t + 1]
        favours, behind = np.array([[gain, 1.0], [1.0, gain]]), passed[:, t + 1]
        if kernel[0, 0] * kernel[1, 1] < kernel[0, 1] * kernel[1, 0]:
            favours, behind = favours[::-1], behind[::-1]
        passed[:, t] = _normal((kernel * favours[:, None, :]) @ behind)
        plain[t] = _normal(kernel @ plain[t + 1])
    turned = worst_law(passed[1:, :, ::-1], plain[None, :, ::-1])
    return np.concatenate([worst_law(passed[:1], plain[None]), turned])


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
