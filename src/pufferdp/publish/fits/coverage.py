"""How often model-based estimates hold the truth on held-out data, by simulated releases of its blocks.

A credible interval is valid only if the model holds. On real data it may hold the truth in one case of ten while its
label says 95 %. So releases of counts are simulated on held-out days, nights, people or parts, and estimates by a model
are shown only where their intervals contain the true count often enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.models.base import Model
from pufferdp.publish.answers.estimate import model_estimate_of
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.fits.lower_bound import Records
from pufferdp.publish.noise import NoiseDistribution, NoiseKind

_BLOCKS = 40
"""Blocks that are simulated, evenly spread over the data: the share is then known to a few percent."""
_DRAWS = 10
"""Quantiles of the noise that are tried in each block, in place of random draws."""


def estimate_coverage(model: Model, records: Records, scales: Mapping[int, float], epsilon: float) -> float | None:
    """The share of simulated counts whose credible interval contains the truth; None where there is no estimate."""
    chosen = np.unique(np.linspace(0, records.block_count - 1, _BLOCKS).round().astype(np.int64))
    inside = [
        held
        for block in chosen
        for state, scale in scales.items()
        if (held := _in_one_block(model, records, int(block), state, scale, epsilon)) is not None
    ]
    return float(np.mean(inside)) if inside else None


def _in_one_block(model: Model, records: Records, block: int, state: int, scale: float, epsilon: float) -> float | None:
    """The share of releases of the count of one state in one block whose credible interval contains the truth."""
    rows = np.flatnonzero(records.blocks == block)
    starts = np.flatnonzero(~records.joined[rows] | (np.arange(len(rows)) == 0))
    lengths = Counter(np.diff(np.append(starts, len(rows))).tolist())
    query = Query.parse(f"count:{model.labels[state]}")
    problem = Problem(model=model, query=query, lengths=tuple(sorted(lengths.items())), epsilon=epsilon)
    noise = NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=scale, coordinates=1)
    truth, held = int((records.codes[rows] == state).sum()), 0
    for change in _noise_quantiles(scale).tolist():
        estimate = model_estimate_of(problem, truth + change, noise)
        if estimate is None:
            return None
        if isinstance(estimate.low, (int, float)) and isinstance(estimate.high, (int, float)):
            held += estimate.low <= truth <= estimate.high
    return held / _DRAWS


def _noise_quantiles(scale: float) -> Floats:
    """Whole numbers near the quantiles of Laplace noise, each of the same probability."""
    upper = (np.arange(_DRAWS // 2) + 0.5) / (_DRAWS // 2)
    sizes = np.round(-scale * np.log(1 - upper))
    return np.concatenate([-sizes, sizes])
