"""Leakage estimated by drawing outputs, as Lange 2024, section 3.1.2, does it, with fewer adversaries.

Two samples of the output are compared, one for each value of the target. Their densities are estimated, and the largest
log-ratio between the quantiles is the estimate for this adversary; a high percentile over adversaries is the estimate.
It is no bound in either direction: tails are left out, few adversaries are tried, and densities are uncertain.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter1d

Singles = npt.NDArray[np.float32]
"""Four bytes a draw are enough here, and draw faster."""

TAIL: Final = 0.005
"""Outputs beyond this quantile at either end, of either sample, are not looked at."""
PERCENTILE: Final = 99.0
_CELLS: Final = 1024


def laplace(scale: float, draws: int, generator: np.random.Generator) -> Singles:
    """Laplace noise for a simulation: the difference of two exponentials."""
    first, second = (generator.standard_exponential(draws, dtype=np.float32) for _ in range(2))
    return np.float32(scale) * (first - second)


def largest_log_ratio(first: Singles, second: Singles) -> float:
    """The largest log-ratio, either way, of two densities, between the outer quantiles of both samples."""
    low = min(first.min(), second.min())
    cell = (max(first.max(), second.max()) - low) / _CELLS * 1.0001  # the largest lies in the last cell
    counts = [np.bincount(((sample - low) / cell).astype(np.int64), minlength=_CELLS) for sample in (first, second)]
    levels = [_level(count) for count in counts]
    inside = np.logical_and.reduce([(level >= TAIL) & (level <= 1 - TAIL) for level in levels])
    densities = [_smooth(count, level)[inside] for count, level in zip(counts, levels, strict=True)]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.abs(np.log(densities[0]) - np.log(densities[1]))
    return float(ratios.max()) if len(ratios) else math.nan


def percentile(estimates: list[float]) -> float:
    """What the paper takes for the largest: robust against single estimates that went wrong."""
    return float(np.nanpercentile(estimates, PERCENTILE))


def _level(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The share of a sample up to each cell."""
    return np.asarray(np.cumsum(counts) / counts.sum())


def _smooth(counts: npt.NDArray[np.int64], level: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A density by a Gaussian kernel with Silverman's bandwidth, the spread taken from the quartiles; in cells."""
    spread = max(1, int(np.searchsorted(level, 0.75) - np.searchsorted(level, 0.25))) / 1.349
    width = 0.9 * spread * float(counts.sum()) ** -0.2
    return np.asarray(gaussian_filter1d(counts.astype(float), width, mode="constant") / counts.sum())
