"""How far apart two answers can be that must be indistinguishable, whatever the mechanism.

An adversary knows some records and wants one more. If every data set with its first value has an answer of at most a,
and every data set with its second value one of at least b, then telling b from a would tell the record. An output
beyond the middle has probability at least 1−β in the second case and at most β in the first, when errors of (b−a)/2 or
more have probability at most β; so 1−β ≤ e^ε·β. Whatever the mechanism, β is at least 1/(e^ε+1) for one of the data
sets (Lange 2024, Theorem 4.6, for pairs of data sets). Only what is possible counts, not how likely it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats
from pufferdp.bounds.chains.starts import first_distribution
from pufferdp.bounds.distributions.base import Steps
from pufferdp.models.base import RecordModel
from pufferdp.models.chain import MarkovChain

_MOST_CELLS: Final = 2**20
"""Sets of records that have more are not looked into: what is found then is a smaller distance, and still true."""


def apart_records(model: RecordModel, steps: Steps, adversary: Adversary) -> int:
    """The largest distance between answers in steps, over components that are small enough; 0 where there is none."""
    ranges = {part: sum(int(np.ptp(steps[i])) for i in part) for part in model.components}
    worst = 0.0
    for part in model.components:
        if math.prod(1 + model.sizes[i] for i in part) > _MOST_CELLS:
            continue
        possible = model.joint(part, {}) > 0
        answers = reduce(np.add.outer, (steps[i] for i in part)).astype(float)
        # Who knows no record does not know the other components either, and they move the answer as they like.
        blur = sum(ranges.values()) - ranges[part] if adversary is Adversary.PUFFERFISH else 0
        least, most = np.where(possible, answers, np.inf), np.where(possible, answers, -np.inf)
        for low, high in _known_sets(least, most, adversary):
            worst = max(worst, _gap(low, high) - blur)
    return int(worst)


def _known_sets(least: Floats, most: Floats, adversary: Adversary) -> Iterator[tuple[Floats, Floats]]:
    """The least and the most an answer can be, one axis for each record that is known or wanted."""
    if adversary is Adversary.DP:
        yield least, most
    elif adversary is Adversary.PUFFERFISH:
        for i in range(least.ndim):
            others = tuple(j for j in range(least.ndim) if j != i)
            yield least.min(axis=others), most.max(axis=others)
    else:
        yield from _forgotten(least, most, 0)


def _forgotten(least: Floats, most: Floats, first: int) -> Iterator[tuple[Floats, Floats]]:
    yield least, most
    if least.ndim > 1:
        for axis in range(first, least.ndim):  # those before were forgotten in other calls
            yield from _forgotten(least.min(axis=axis), most.max(axis=axis), axis)


def _gap(low: Floats, high: Floats) -> float:
    """The largest distance from the most of one value to the least of another, over targets and what is known."""
    possible = low <= high
    up, down = np.where(possible, low, -np.inf), np.where(possible, high, np.inf)
    return max(float((up.max(axis=i) - down.min(axis=i)).max()) for i in range(low.ndim))


def apart_series(chain: MarkovChain, length: int, steps: npt.NDArray[np.int64]) -> int:
    """The largest distance for a chain whose first record decides all others; 0 where moves are random."""
    if not ((chain.transition == 0) | (chain.transition == 1)).all():
        return 0
    state = np.arange(chain.size) if chain.any_start else np.flatnonzero(first_distribution(chain) > 0)
    total = np.zeros(len(state), dtype=np.int64)
    # The state after 2^n records and the sum over them, doubled for every bit of the length.
    jump, along = chain.transition.argmax(axis=1), np.array(steps)
    for bit in range(length.bit_length()):
        if length >> bit & 1:
            total, state = total + along[state], jump[state]
        along, jump = along + along[jump], jump[jump]
    return int(total.max() - total.min())
