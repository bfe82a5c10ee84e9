"""Leakage about one record (the target) from the records on one side of it, plus Laplace noise.

A side is a number of unknown records next to the target, and behind them an end: a known record, or the end of the
series. Arrays are indexed [likelier, other, unknown, end]: what the output of the side says for one value of the target
against another, with that number of unknown records and that end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints
from pufferdp.basics.errors import NotApplicableError

TINY: Final = 1e-120
"""Smaller probabilities of an end are rejected: products of them with densities would underflow."""
DEEP: Final = 400.0
"""Sides are cut where the noise has fallen to exp(-400): a density times ``TINY`` is then still a normal double."""


@dataclass(frozen=True)
class Side:
    """Log-likelihood ratios of a side: -inf where one of the two values is impossible, or both are the same."""

    largest: Floats
    """At the worst output: [likelier, other, unknown, end]."""
    corners: Floats
    """At outputs below all sums, and above all sums: [corner, likelier, other, unknown, end]."""


def one_side(moves: Floats, ends: Floats, steps: Ints, dp_loss: float, wide: int) -> Side:
    """The log-likelihood ratios of the noisy sum over one side, for up to ``wide`` unknown records and every end.

    The density of the output is carried along at the whole numbers of the support. Between two of them the ratio of two
    densities is monotone, and beyond the support it is constant, so the largest ratio is at one of them.

    Args:
        moves: transition probabilities [from, to], away from the target.
        ends: probability of each end given the state of the record next to it: [state, end].
        steps: what each state adds to the sum, from 0.
        dp_loss: one over the scale of the noise.
        wide: the largest number of unknown records.
    """
    (k, kinds), span = ends.shape, int(steps.max())
    largest = np.full((k, k, wide + 1, kinds), -np.inf)
    corners = np.full((2, k, k, wide + 1, kinds), -np.inf)
    fall = np.exp(-dp_loss * np.arange(span * wide + 1))
    density, mass = ends[..., None], ends
    for unknown in range(wide + 1):
        if unknown:
            longer = np.concatenate([density, density[..., -1:] * fall[1 : span + 1]], axis=2)
            density = (moves @ _shift(longer, steps, fall).reshape(k, -1)).reshape(longer.shape)
            mass = moves @ mass
        reject_below(mass, TINY)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(density / mass[..., None])
            ratios = logs[:, None] - logs[None]
        possible = mass > 0
        both = possible[:, None] & possible[None] & ~np.eye(k, dtype=bool)[:, :, None]
        largest[:, :, unknown] = np.where(both, ratios.max(axis=3), -np.inf)
        corners[:, :, :, unknown] = np.where(both, np.moveaxis(ratios[..., [0, -1]], 3, 0), -np.inf)
    return Side(largest, corners)


def _shift(density: Floats, steps: Ints, fall: Floats) -> Floats:
    """Densities [state, end, sum] with the step of the state added; below its support a density falls geometrically."""
    out = np.empty_like(density)
    for x, step in enumerate(steps.tolist()):
        out[x, :, step:] = density[x, :, : density.shape[2] - step]
        out[x, :, :step] = density[x, :, :1] * fall[step:0:-1]
    return out


def reject_below(probabilities: Floats, least: float) -> None:
    """Raise NotApplicableError for a positive probability below ``least``, which later products could lose."""
    if ((probabilities > 0) & (probabilities < least)).any():
        raise NotApplicableError(f"a probability is below {least:g}; exact leakage would not be exact")
