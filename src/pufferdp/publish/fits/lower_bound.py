"""A lower bound on what a noisy count reveals, from data alone, without a model of the data.

An adversary who knows the records just before and just after a window sees the count of one state inside the window
with Laplace noise. The change of the odds that the record in the middle has this state is a ratio of two means over
the data. A guarantee with epsilon for a correct model bounds the change by epsilon, so a change that is significantly
larger proves that the model is wrong where it matters.

The window, the known records and the output are chosen on every other block (day, night or person), and the bound is
computed on the remaining blocks. Blocks are treated as independent: the standard error comes from their influence
functions, and a cell needs an effective number of blocks in both groups. Without that rule a few blocks decide, and
false alarms are frequent.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Mask

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, repr=False)
class Records:
    """The states of a series with what the checks need to know about each record. Never printed."""

    codes: Codes
    """The state of each record, counted from 0."""
    joined: Mask
    """Whether a record comes one time step after the record before it."""
    blocks: Codes
    """The day, night or person of each record, counted from 0 in the order of the records."""

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def block_count(self) -> int:
        """How many blocks there are."""
        return int(self.blocks[-1]) + 1 if len(self) else 0

    def windows(self, half: int, margin: int = 0) -> Codes:
        """The records whose window of ``half`` records on either side, and ``margin`` more, has no interruption."""
        reach = half + margin
        breaks = np.concatenate([[0], np.cumsum(~self.joined)])
        middle = np.arange(reach, len(self) - reach)
        return np.asarray(middle[breaks[middle + reach + 1] == breaks[middle - reach + 1]])


def number_blocks(days: Codes, least: int = 20, parts: int = 48) -> Codes:
    """The block of each record: its day, night or person; where there are fewer than ``least``, equal parts.

    48 parts are long enough to be nearly independent, and enough for the bound on real series of 15,000 records.
    """
    blocks = np.concatenate([[0], np.cumsum(np.diff(days) != 0)])
    if blocks[-1] + 1 >= least:
        return np.asarray(blocks, dtype=np.int64)
    return np.asarray(np.arange(len(days)) * parts // len(days), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """The leakage that the data prove, and the adversary for whom it was found."""

    epsilon: float
    """At this confidence the change of the log odds is at least this large; 0 where nothing is proven."""
    estimate: float
    """The change of the log odds itself, without the margin for chance."""
    state: int
    """The state that is counted, and that the adversary tells from all others."""
    half_window: int
    """Records on either side of the target that the adversary does not know."""


@dataclass(frozen=True)
class _Cells:
    """The log odds of the target for known records and outputs, from some of the blocks."""

    change: Floats
    """The estimated change of the log odds, (contexts, outputs)."""
    margin: Floats
    """What the change may be off by at the confidence; infinite where too few blocks contribute."""


def lower_bound(
    records: Records, scales: Mapping[int, float], slots: Codes | None = None, confidence: float = 0.95
) -> LowerBound | None:
    """The proven leakage of a count with Laplace noise; None where the data are too few to say.

    Args:
        records: the records, in blocks that are independent of each other.
        scales: the scale of the noise for a count of each state; the state with the strongest evidence is reported.
        slots: what else the adversary may know about the target, such as the part of the day; nothing by default.
        confidence: the probability that the bound is not above the truth.
    """
    best, bound = -math.inf, None
    knowledge = (None,) if slots is None else (None, slots)
    for half, state, known in itertools.product(_half_windows(records), scales, knowledge):
        chosen, reported = _cells(records, state, scales[state], half, known, confidence)
        value = np.where(np.isfinite(reported.margin), np.abs(chosen.change) - chosen.margin, -np.inf)
        cell = np.unravel_index(int(np.argmax(value)), value.shape)
        if value[cell] > best:
            best = float(value[cell])
            change = float(np.sign(chosen.change[cell]) * reported.change[cell])
            proven = max(0.0, change - float(reported.margin[cell]))
            bound = LowerBound(epsilon=proven, estimate=change, state=state, half_window=half)
    return bound


def _half_windows(records: Records) -> Iterator[int]:
    """The half-windows that are at most a third of a typical block."""
    halves = (3, 7, 15, 30, 60, 120)
    typical = float(np.median(np.bincount(records.blocks))) if len(records) else 0.0
    return (half for half in halves if 2 * half + 1 <= typical / 3)


def _cells(
    records: Records, state: int, scale: float, half: int, slots: Codes | None, confidence: float
) -> tuple[_Cells, _Cells]:
    """The cells of one window on even and on odd blocks."""
    target = records.windows(half, margin=1)
    states = int(records.codes.max()) + 1
    context = records.codes[target - half - 1] * states + records.codes[target + half + 1]
    contexts = states**2
    if slots is not None:
        context, contexts = context + contexts * slots[target], contexts * (int(slots.max()) + 1)
    totals = np.concatenate([[0], np.cumsum(records.codes == state)])
    counts = totals[target + half + 1] - totals[target - half]
    outputs = np.unique(np.linspace(0, 2 * half + 1, 9).round())
    weights = np.exp(-np.abs(outputs[:, None] - np.arange(2 * half + 2)) / scale)

    blocks = records.block_count
    group = (records.codes[target] == state).astype(np.int64)
    key = (group * blocks + records.blocks[target]) * contexts + context
    shape = (2, blocks, contexts)
    cells = 2 * blocks * contexts
    sizes = np.bincount(key, minlength=cells).reshape(shape)
    sums = np.stack([np.bincount(key, row[counts], cells).astype(float).reshape(shape) for row in weights], axis=-1)
    enough = 20 if blocks >= 80 else 6
    parity = np.arange(blocks) % 2
    even, odd = (_summarise(sizes[:, parity == p], sums[:, parity == p], enough, confidence) for p in (0, 1))
    return even, odd


def _summarise(sizes: Codes, sums: Floats, enough: int, confidence: float) -> _Cells:
    """The change of the log odds and its margin from (group, block, context) sizes and the sums for each output.

    The standard error of a ratio of sums over blocks follows from the influence of each block on its logarithm.
    """
    from scipy.special import stdtrit

    total, count = sums.sum(axis=1), sizes.sum(axis=1)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        log_means = np.log(total / count)
        influence = sums / total[:, None] - (sizes / count[..., 0][:, None])[..., None]
        effective = (total**2 / (sums**2).sum(axis=1)).min(axis=0)
    error = np.sqrt(((influence[1] - influence[0]) ** 2).sum(axis=0))
    usable = effective >= enough
    quantile = stdtrit(np.where(usable, effective, 2.0) - 1, confidence)
    change = np.where(usable, log_means[1] - log_means[0], 0.0)
    return _Cells(change, np.where(usable, quantile * error, np.inf))
