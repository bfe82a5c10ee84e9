"""AR(1) series by matrices and by integration: every adversary and unobserved step, and what a noisy sum leaks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def factor(phi: float, read: Sequence[float], places: Sequence[float], *, everyone: bool) -> float:
    """The largest L1 move of the records that are read, over all targets and sets of known records among places."""
    at = np.array(sorted(set(places) | set(read)), dtype=float)
    sigma = _power(phi, np.abs(np.subtract.outer(at, at)))
    seen = np.isin(at, np.array(list(read), dtype=float))
    worst = 0.0
    for i in range(len(at)):
        others = [j for j in range(len(at)) if j != i]
        for size in range(len(at) if everyone else 1):
            for known in combinations(others, size):
                given = [*known, i]
                unknown = [j for j in others if j not in known]
                moves = sigma[np.ix_(unknown, given)] @ np.linalg.inv(sigma[np.ix_(given, given)])[:, -1]
                worst = max(worst, float(seen[i]) + float(np.abs(moves)[seen[unknown]].sum()))
    return worst


def _power(phi: float, distances: Floats) -> Floats:
    """Whole powers of any coefficient, and other powers of those above 0; 0 to the 0 is 1."""
    return np.asarray(phi**distances if phi >= 0 else phi ** distances.astype(int))


def tail_leakage(
    phi: float,
    mean: float,
    sd: float,
    clip: tuple[float, float],
    scale: float,
    places: Sequence[int],
    values: tuple[float, float],
    ends: Sequence[tuple[int, float]] = (),
) -> float:
    """The log-ratio of a clipped sum with Laplace noise at outputs beyond all sums, below or above; the larger.

    There exp(−|s − S|/scale) is a product over the records, so it is integrated record by record. The target is at
    place 0; ``ends`` are known records, at most one on a side and behind all that are read.
    """
    worst = 0.0
    for sign in (1.0, -1.0):
        logs = [sign * float(np.clip(v, *clip)) / scale for v in values]
        for direction in (1, -1):
            side = sorted(abs(p) for p in places if p * direction > 0)
            known = [(abs(p), v) for p, v in ends if p * direction > 0]
            for n, v in enumerate(values):
                logs[n] += _side(phi, mean, sd, clip, sign / scale, side, v, known)
        worst = max(worst, abs(logs[0] - logs[1]))
    return worst


def _side(
    phi: float,
    mean: float,
    sd: float,
    clip: tuple[float, float],
    slope: float,
    side: Sequence[int],
    value: float,
    known: Sequence[tuple[int, float]],
) -> float:
    """The logarithm of E exp(slope·(sum of the clipped records of a side)), given the target and the known end."""
    if not side:
        return 0.0
    centre = sorted([mean, value])
    step = min(sd * np.sqrt(1 - phi**2) / 6, (clip[1] - clip[0]) / 80)
    # The ends of the range lie on the grid, where the integrand has its kinks.
    step = (clip[1] - clip[0]) / np.ceil((clip[1] - clip[0]) / step)
    first = clip[0] + step * np.floor((centre[0] - 8 * sd - clip[0]) / step)
    grid = np.arange(first, centre[1] + 8 * sd + step, step)
    weight = np.exp(slope * np.clip(grid, *clip))
    logs = []
    for counted in (weight, np.ones_like(weight)):  # numerator, and the probability of what is known
        ahead = np.ones_like(grid)
        for far, other in known:
            ahead = _density(other, grid, phi ** (far - side[-1]), mean, sd)
        for k in range(len(side) - 1, -1, -1):
            ahead = ahead * counted
            distance = side[k] - (side[k - 1] if k else 0)
            start = grid if k else np.array([value])
            ahead = _density(grid[None, :], start[:, None], phi**distance, mean, sd) @ ahead * step
        logs.append(float(np.log(ahead[0])))
    return logs[0] - logs[1]


def _density(to: Floats | float, start: Floats, power: float, mean: float, sd: float) -> Floats:
    spread = sd * np.sqrt(1 - power**2)
    z = (to - mean - power * (start - mean)) / spread
    return np.asarray(np.exp(-(z**2) / 2) / (spread * np.sqrt(2 * np.pi)))


def leakage_of_three(
    phi: float, mean: float, sd: float, clip: tuple[float, float], scale: float, values: tuple[float, float]
) -> float:
    """The largest log-ratio of the noisy sum of three records over outputs, the middle one wanted, nobody known."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    pair = np.multiply.outer(weights, weights)
    outputs = np.linspace(3 * clip[0] - 1, 3 * clip[1] + 1, 61)
    logs = []
    for value in values:
        other = np.clip(mean + phi * (value - mean) + sd * np.sqrt(1 - phi**2) * nodes, *clip)
        total = np.clip(value, *clip) + np.add.outer(other, other)
        density = [float((pair * np.exp(-np.abs(s - total) / scale)).sum()) for s in outputs]
        logs.append(np.log(density))
    return float(np.abs(logs[0] - logs[1]).max())
