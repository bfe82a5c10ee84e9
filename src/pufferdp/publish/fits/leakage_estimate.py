"""An estimate of what a noisy count reveals to an adversary who knows a richer model of the data.

The adversary knows every record outside a window around the target, uses a chain on hidden states, and sees the count
of one state inside the window with Laplace noise. The distribution of the count for each value of the target follows
from the filter of the records before the window and the backward pass of the records after it. The change of the
adversary's odds is a ratio of expectations over these distributions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pufferdp.basics.arrays import Floats, Mask
from pufferdp.models.simulate import seeded
from pufferdp.publish.fits.lower_bound import Codes, Records


@dataclass(frozen=True, kw_only=True)
class HiddenChain:
    """A chain on hidden states, each of which shows one value, possibly with a table for each slot of the day."""

    tables: Floats
    """The transition table of each slot, (slots, hidden, hidden)."""
    of: Codes
    """The value that each hidden state shows."""
    start: Floats
    """The distribution of the first hidden state."""
    memory: int = 500
    """Records on either side of a window that the adversary uses; records farther away add next to nothing."""

    def shows(self, codes: Codes) -> Mask:
        """Which hidden states show each of these values, (values, hidden)."""
        return np.asarray(codes[:, None] == self.of)


@dataclass(frozen=True, kw_only=True)
class LeakageEstimate:
    """The leakage that 99 % of the targets stay below, for the worst window and the worst count."""

    epsilon: float
    interval: tuple[float, float]
    """A confidence interval of 95 % for the quantile, given the model that the adversary uses."""
    windows: Mapping[int, float]
    """The quantile for each half-window."""
    state: int
    """The state whose count reveals most."""


def estimate_leakage(
    chain: HiddenChain, records: Records, slots: Codes, scales: Mapping[int, float], targets: int = 300
) -> LeakageEstimate | None:
    """The estimated leakage of a count with Laplace noise; None where no window lies within the records.

    Args:
        chain: what the adversary knows about the data, from other records than these.
        records: the records from which targets are drawn.
        slots: the table of the chain that leads from each record to the next.
        scales: the scale of the noise for a count of each state; the count that reveals most is reported.
        targets: records that are drawn for each window; 300 are enough for a quantile of 99 %.
    """
    random = seeded(0)
    worst: tuple[float, tuple[float, float], int] | None = None
    windows: dict[int, float] = {}
    for half in (7, 30, 100):
        possible = records.windows(half)
        if not len(possible):
            continue
        drawn = random.choice(possible, min(targets, len(possible)), replace=False)
        before, after = _known(chain, records, slots, drawn, half)
        for state, scale in scales.items():
            changes = np.sort(_changes(chain, slots, drawn, half, before, after, state, scale))
            quantile = float(np.quantile(changes, 0.99))
            windows[half] = max(quantile, windows.get(half, 0.0))
            if worst is None or quantile > worst[0]:
                worst = quantile, _quantile_interval(changes), state
    if worst is None:
        return None
    return LeakageEstimate(epsilon=worst[0], interval=worst[1], windows=windows, state=worst[2])


def held_out_bits(chain: HiddenChain, records: Records, slots: Codes) -> Floats:
    """The bits that the chain needs for the records of each block, given the records before them."""
    first = np.flatnonzero(np.concatenate([[True], np.diff(records.blocks) > 0]))
    sizes = np.diff(np.concatenate([first, [len(records)]]))
    bits = np.zeros(len(first))
    hidden = np.tile(chain.start, (len(first), 1))
    for step in range(-chain.memory, int(sizes.max())):
        hidden, probability = _forward(chain, records, slots, hidden, first + step)
        counted = (step >= 0) & (step < sizes)
        bits[counted] -= np.log2(probability[counted])
    return bits


def _forward(chain: HiddenChain, records: Records, slots: Codes, hidden: Floats, at: Codes) -> tuple[Floats, Floats]:
    """The filter after one more record of each series, and the probability of the record before it was seen.

    A record that the chain rules out has the probability 1e-6, and the filter begins anew with it.
    """
    at = np.clip(at, 0, len(records) - 1)
    joined = records.joined[at] & (at > 0)
    moved = np.einsum("mh,mhg->mg", hidden, chain.tables[slots[at - 1]])
    shows = chain.shows(records.codes[at])
    weights = np.where(joined[:, None], moved, chain.start) * shows
    probability = weights.sum(axis=1)
    possible = probability > 0
    weights = np.where(
        possible[:, None], weights / np.where(possible, probability, 1.0)[:, None], shows / shows.sum(1)[:, None]
    )
    return weights, np.maximum(probability, 1e-6)


def _known(chain: HiddenChain, records: Records, slots: Codes, targets: Codes, half: int) -> tuple[Floats, Floats]:
    """What the records outside a window say: the distribution of its first hidden state, and weights of its last."""
    first, last = targets - half, targets + half
    hidden = np.tile(chain.start, (len(targets), 1))
    for step in range(chain.memory, 0, -1):
        hidden, _ = _forward(chain, records, slots, hidden, first - step)
    moved = np.einsum("mh,mhg->mg", hidden, chain.tables[slots[first - 1]])
    joined = records.joined[first] & (first > 0)
    before = np.where(joined[:, None], moved, chain.start)
    after = np.ones_like(before)
    for step in range(chain.memory, 0, -1):
        at = np.minimum(last + step, len(records) - 1)
        joined = records.joined[at] & (last + step < len(records))
        seen = np.einsum("mhg,mg->mh", chain.tables[slots[at - 1]], after * chain.shows(records.codes[at]))
        after = np.where(joined[:, None], seen, 1.0)
        after /= after.max(axis=1, keepdims=True)
    return before, after


def _changes(
    chain: HiddenChain,
    slots: Codes,
    targets: Codes,
    half: int,
    before: Floats,
    after: Floats,
    state: int,
    scale: float,
) -> Floats:
    """The largest change of the log odds between two values of each target, over all outputs."""
    counted = chain.of == state
    left = np.zeros((len(targets), half + 1, len(counted)))  # the count of the records before the target
    left[:, 0] = before
    right = np.zeros_like(left)  # the count of the records after the target
    right[:, 0] = after
    for step in range(half, 0, -1):
        left[..., counted] = _shift(left[..., counted])
        left = left @ chain.tables[slots[targets - step]]
        right[..., counted] = _shift(right[..., counted])
        right = right @ chain.tables[slots[targets + step - 1]].transpose(0, 2, 1)
    joint = np.zeros((len(targets), 2 * half + 2, len(counted)))
    for count in range(half + 1):
        joint[:, count : count + half + 1] += left[:, count, None] * right
    joint[..., counted] = _shift(joint[..., counted])

    outputs = np.arange(2 * half + 2)
    noise = np.exp(-np.abs(outputs[:, None] - outputs) / scale)
    values = np.unique(chain.of)
    by_value = np.stack([joint[..., chain.of == value].sum(axis=-1) for value in values], axis=1)
    total = by_value.sum(axis=2, keepdims=True)
    possible = total[..., 0] > 1e-9 * total.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_odds = np.log((by_value / total) @ noise)
    largest = np.where(possible[..., None], log_odds, -np.inf).max(axis=1)
    smallest = np.where(possible[..., None], log_odds, np.inf).min(axis=1)
    return np.asarray((largest - smallest).max(axis=1))


def _shift(counts: Floats) -> Floats:
    """The distribution of a count after one more record that is counted."""
    return np.concatenate([np.zeros_like(counts[:, :1]), counts[:, :-1]], axis=1)


def _quantile_interval(ordered: Floats) -> tuple[float, float]:
    """The order statistics that contain the quantile of 99 % with probability 95 %."""
    size = len(ordered)
    spread = 1.96 * (0.99 * 0.01 * size) ** 0.5
    low, high = int(0.99 * size - spread), int(np.ceil(0.99 * size + spread))
    return float(ordered[max(low - 1, 0)]), float(ordered[min(high, size) - 1])
