"""What one side of a record tells of it: the sum of the records there, and noise.

A side has so many unknown records, and behind them a known one or the end of the series. ``one_side`` looks at every
output. ``corner_side`` looks at two alone, below all sums and above them: there the density of the output is a mean of
products, so that powers of one small table give it for every number of records at once.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.basics.errors import NotApplicableError

TINY: Final = 1e-120
DEEP: Final = 400.0
"""Sides are no wider than exp(-400), so that a density times the smallest mass is well above the least double."""
_TOGETHER: Final = 30_000
"""Densities that are looked at together: few calls where there are few, and no more than a cache holds."""
_FAINT: Final = 1e-280
"""Densities below this may have lost digits."""


@dataclass(frozen=True)
class Side:
    """What one side leaks of the target, as log-ratios: [likelier, other, unknown, end].

    −∞ where one of the two is impossible, or both are the same.
    """

    most: Floats
    """At the worst output."""
    corners: Floats
    """At outputs below all sums, and above them: one more axis in front."""


def one_side(moves: Floats, ends: Floats, steps: Ints, dp_loss: float, wide: int) -> Side:
    """The leakage of the sum over one side, for every number of unknown records up to ``wide`` and every end.

    ``moves`` lead away from the target and ``ends`` are [last unknown record or target, end]. Beyond the sums that are
    possible densities fall geometrically, so that their ratios stay as they are: some numbers of records are looked at
    together, up to the largest sum of the last of them.
    """
    (k, kinds), span = ends.shape, int(steps.max())
    side = Side(np.full((k, k, wide + 1, kinds), -np.inf), np.full((2, k, k, wide + 1, kinds), -np.inf))
    fall = np.exp(-dp_loss * np.arange(span * wide + 1))
    now, mass, unknown = ends[..., None], ends, 0
    while unknown <= wide:
        # So many further that (further records)·(their largest sum) is what is looked at together.
        further = (math.sqrt(unknown**2 + 4 * _TOGETHER / (k * kinds * max(span, 1))) - unknown) / 2
        last = min(wide, unknown + int(further))
        more = span * last + 1 - now.shape[2]
        now = np.concatenate([now, now[..., -1:] * fall[1 : more + 1]], axis=2)
        densities, masses = list[Floats](), list[Floats]()
        for records in range(unknown, last + 1):
            if records:
                now, mass = (moves @ _moved_up(now, steps, fall).reshape(k, -1)).reshape(now.shape), moves @ mass
            densities.append(now)
            masses.append(mass)
        _compare(side, slice(unknown, last + 1), np.stack(densities, axis=1), np.stack(masses, axis=1))
        unknown = last + 1
    return side


def _moved_up(now: Floats, steps: Ints, fall: Floats) -> Floats:
    """Densities [state, end, sum], each state's moved up by its step; below its support one falls geometrically."""
    out = np.empty_like(now)
    for x, step in enumerate(steps.tolist()):
        out[x, :, step:] = now[x, :, : now.shape[2] - step]
        if step:
            out[x, :, :step] = now[x, :, :1] * fall[step:0:-1]
    return out


def _compare(side: Side, here: slice, density: Floats, mass: Floats) -> None:
    """Enter what some numbers of unknown records tell: [target, unknown, end, sum], and the masses of the first three.

    A ratio of two densities is the log-ratio of what they say of the sum, and that of the masses.
    """
    refuse_below(mass, TINY)
    for x, y in itertools.combinations(range(len(mass)), 2):
        both = (mass[x] > 0) & (mass[y] > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio, share = density[x] / density[y], mass[y] / mass[x]
            largest, least = ratio.max(axis=2), ratio.min(axis=2)
            corners = np.moveaxis(ratio[..., [0, -1]], 2, 0)
            logs = [np.log(share * found) for found in (largest, corners, least)]
        side.most[x, y, here] = np.where(both, logs[0], -np.inf)
        side.most[y, x, here] = np.where(both, -logs[2], -np.inf)
        side.corners[:, x, y, here] = np.where(both, logs[1], -np.inf)
        side.corners[:, y, x, here] = np.where(both, -logs[1], -np.inf)


def corner_side(moves: Floats, ends: Floats, steps: Ints, dp_loss: float, wide: int) -> Floats | None:
    """The corners alone of the same side; None where a number is too small for a double.

    Below all sums an output is likelier by e^(-τ·step) for every record, above them by e^(τ·step). A factor that all
    states share changes no ratio: it keeps powers within the doubles.
    """
    weights = np.exp(dp_loss * np.stack([-steps, steps - steps.max()]).astype(float))
    tables = moves * weights[:, None, :]
    tables = tables / np.abs(np.linalg.eigvals(tables)).max(axis=1)[:, None, None]
    tables = np.concatenate([tables, moves[None]])  # the last one for the masses that they are shares of
    found = np.broadcast_to(ends, (3, 1, *ends.shape))
    while found.shape[1] <= wide:
        found = np.concatenate([found, tables[:, None] @ found], axis=1)
        tables = tables @ tables
    density, mass = found[:2, : wide + 1], found[2, : wide + 1]
    possible = mass > 0
    if (mass[possible] < TINY).any() or not ((density > _FAINT) & (density < 1 / _FAINT))[:, possible].all():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(density / mass)  # [corner, unknown, target, end]
        ratios = logs.transpose(0, 2, 1, 3)[:, :, None] - logs.transpose(0, 2, 1, 3)[:, None]
    both = possible.transpose(1, 0, 2)[:, None] & possible.transpose(1, 0, 2)[None]
    both[np.arange(len(moves)), np.arange(len(moves))] = False
    return np.where(both, ratios, -np.inf)


@dataclass(frozen=True, eq=False)
class Fit:
    """Ends on the left that go together with ends on the right, and with how many unknown records between them."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    unknown: Mask
    """Whether so many unknown records, of both sides together, do: 0, 1 and so on."""

    def largest(self, left: Floats, right: Floats) -> Floats:
        """The largest left[…, unknown, end] + right[…, unknown, end]."""
        lefts, rights = left[..., self.left].max(axis=-1), right[..., self.right].max(axis=-1)
        if self.unknown.all():
            return np.asarray(lefts.max(axis=-1) + rights.max(axis=-1))
        count, allowed = np.arange(lefts.shape[-1]), np.flatnonzero(self.unknown)
        if len(allowed) == 1:  # all records of the series
            here = count[(count <= allowed[0]) & (allowed[0] - count < len(count))]
            return np.asarray((lefts[..., here] + rights[..., allowed[0] - here]).max(axis=-1, initial=-np.inf))
        if len(allowed) and allowed[-1] == len(allowed) - 1:  # up to a number: the best of the first so many
            here = count[count <= allowed[-1]]
            best = np.maximum.accumulate(rights, axis=-1)[..., np.minimum(allowed[-1] - here, len(count) - 1)]
            return np.asarray((lefts[..., here] + best).max(axis=-1))
        totals, fits = np.full(lefts.shape[:-1], -np.inf), self.unknown[count[:, None] + count]
        for place in np.ndindex(totals.shape if len(allowed) else (0,)):
            totals[place] = np.where(fits, lefts[place][:, None] + rights[place], -np.inf).max()
        return totals

    def place(self, left: Floats, right: Floats, largest: float) -> tuple[int, int, int, int] | None:
        """Where left[unknown, end] + right[unknown, end] is that: unknown records and end left, and right; or None."""
        lefts, rights = left[:, self.left].max(axis=-1), right[:, self.right].max(axis=-1)
        for a in range(len(lefts)):
            fits = self.unknown[a : a + len(rights)]
            b = int(np.argmax(np.where(fits, rights, -np.inf)))
            if fits[b] and lefts[a] + rights[b] == largest:
                return (
                    a,
                    self.left[int(np.argmax(left[a, self.left]))],
                    b,
                    self.right[int(np.argmax(right[b, self.right]))],
                )
        return None


def refuse_below(probabilities: Floats, least: float) -> None:
    """What is smaller might be lost among the doubles, and with it a case that is possible."""
    if ((probabilities > 0) & (probabilities < least)).any():
        raise NotApplicableError(f"a probability is below {least:g}; exact leakage would not be exact")
