"""Leakage by simulation, as in Lange 2024, section 3.1.2: what the exact number is measured against.

Random adversaries (target, known records, their values, two values of the target). For each, and for both values, the
unknown records are drawn from the chain given the known ones, and noise is added to the count. Two densities are
estimated from the outputs and compared at 1,000 random points between the .5 % and the 99.5 % quantiles. The largest
log-ratio is the adversary's leakage, the 99th percentile over adversaries the estimate.

The thesis estimates densities with fastKDE. Its estimate in one dimension, the self-consistent one of Bernacchia and
Pigolotti 2011, is written here with numpy's FFT on a fine grid: it takes milliseconds for 100,000 outputs, a Gaussian
kernel summed directly takes seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pufferdp.models.markov import MarkovChain

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ADVERSARIES, DRAWS, POINTS = 1000, 100_000, 1000
"""As many as the thesis takes."""
GRID = 2**14
"""Cells of the grid on which densities are estimated."""


@dataclass(frozen=True)
class Density:
    """A density at equal distances, read between them as a straight line."""

    at: Floats
    values: Floats

    def __call__(self, points: Floats) -> Floats:
        return np.interp(points, self.at, self.values)


def density_of(sample: Floats) -> Density:
    """The self-consistent estimate: the transform of the sample, each frequency kept as far as it stands out."""
    n = len(sample)
    low, high = sample.min(), sample.max()
    margin = (high - low) / 4  # the transform goes round in a circle; room keeps the ends apart
    cells, edges = np.histogram(sample, bins=GRID, range=(low - margin, high + margin))
    seen = np.fft.rfft(cells / n)
    power = np.abs(seen) ** 2
    noise = 4 * (n - 1) / n**2
    kept = int(np.argmax(power < noise)) or len(power)  # up to the first frequency that is lost in the noise
    clean = np.zeros_like(seen)
    clean[:kept] = seen[:kept] * n / (2 * (n - 1)) * (1 + np.sqrt(1 - noise / power[:kept]))
    return Density((edges[1:] + edges[:-1]) / 2, np.fft.irfft(clean, GRID) / (edges[1] - edges[0]))


def draw_counts(
    chain: MarkovChain, known: dict[int, int], n: int, draws: int, generator: np.random.Generator
) -> Ints | None:
    """Counts of state 1 over series drawn given some records; None where what is known cannot be."""
    ahead = np.ones((n, chain.size))  # what is known later, given each state now
    for t in range(n - 1, -1, -1):
        if t + 1 < n:
            ahead[t] = chain.transition @ ahead[t + 1]
        if t in known:
            ahead[t, np.arange(chain.size) != known[t]] = 0.0
    first = chain.stationary * ahead[0]
    if not first.sum() > 0:
        return None
    # Two states: state 1 where a uniform number falls below its probability given the state before.
    state = (generator.random(draws) < first[1] / first.sum()).astype(np.int64)
    counts = state.copy()
    for t in range(1, n):
        moves = chain.transition * ahead[t]
        with np.errstate(invalid="ignore"):
            up = moves[:, 1] / moves.sum(axis=1)
        state = (generator.random(draws) < up[state]).astype(np.int64)
        counts += state
    return counts


def one_adversary(chain: MarkovChain, n: int, tau: float, draws: int, generator: np.random.Generator) -> float:
    """The leakage to one random adversary; 0 where what they know cannot be."""
    target, value = int(generator.integers(n)), int(generator.integers(2))
    others = generator.permutation([j for j in range(n) if j != target])
    known = {int(j): int(generator.integers(2)) for j in others[: generator.integers(n)]}
    outputs = []
    for x in (value, 1 - value):
        counts = draw_counts(chain, {**known, target: x}, n, draws, generator)
        if counts is None:
            return 0.0
        outputs.append(counts + generator.laplace(scale=1 / tau, size=draws))
    # Inside the quantiles of both: with those of one alone the tail of the other decides, and estimates double.
    ends = np.quantile(outputs, [0.005, 0.995], axis=1)
    points = generator.uniform(ends[0].max(), ends[1].min(), POINTS)
    top, bottom = (density_of(sample)(points) for sample in outputs)
    fine = (top > 0) & (bottom > 0)  # an estimate of a density can fall below 0
    return float(np.log(top[fine] / bottom[fine]).max())


def estimate(chain: MarkovChain, n: int, tau: float, count: int, seed: int) -> float:
    """The 99th percentile over ``count`` adversaries."""
    generator = np.random.default_rng(seed)
    return float(np.quantile([one_adversary(chain, n, tau, DRAWS, generator) for _ in range(count)], 0.99))
