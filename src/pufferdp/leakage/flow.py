"""W-infinity between laws of several numbers, in L1: the least c for which a transport uses no edge longer than c.

Whether one exists is a question of flow, answered here in whole numbers of any length, so that a mass of 1e-300 counts.
As on the line, a law may be exceeded by a factor 1+slack, which the noise pays for (see ``transport``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.leakage.transport import Logs, Worst

MOST_POINTS: Final = 250
"""Laws on more points are declined: the flow would take minutes."""
_ONE: Final = 2**1200
"""The whole number that stands for mass 1."""


def worst_flow(
    points: npt.NDArray[np.float64], first: Logs, second: Logs, slack: float, floor: float = 0.0
) -> Worst | None:
    """The largest distance among pairs of laws (row n against row n), if it passes ``floor``."""
    lengths = np.abs(points[:, None, :] - points[None, :, :]).sum(axis=-1)
    candidates = np.unique(lengths)
    found, reached = None, floor
    for pair, (f, g) in enumerate(zip(first, second, strict=True)):
        supply, demand = [_whole(p) for p in f], [_whole(p) for p in g]
        if _within(lengths <= reached, supply, demand, slack):
            continue
        low, high = int(np.searchsorted(candidates, reached, side="right")), len(candidates) - 1
        while low < high:
            middle = (low + high) // 2
            if _within(lengths <= candidates[middle], supply, demand, slack):
                high = middle
            else:
                low = middle + 1
        reached = float(candidates[low])
        found = Worst(reached, pair)
    return found


def _whole(log_mass: float) -> int:
    return 0 if np.isneginf(log_mass) else max(1, int(Fraction(float(np.exp(log_mass))) * _ONE))


def _within(near: npt.NDArray[np.bool_], supply: list[int], demand: list[int], slack: float) -> bool:
    more = Fraction(1 + slack)
    return _fits(near, supply, [int(d * more) for d in demand]) and _fits(
        near.T, demand, [int(s * more) for s in supply]
    )


def _fits(near: npt.NDArray[np.bool_], supply: Sequence[int], room: Sequence[int]) -> bool:
    """Whether all supply finds room along near edges: augmenting paths from any source that has some left."""
    left, free = list(supply), list(room)
    edges = [np.flatnonzero(row).tolist() for row in near]
    sent: list[dict[int, int]] = [{} for _ in free]  # for each sink: from which source how much
    for i, mass in enumerate(left):
        for j in edges[i]:
            moved = min(mass, free[j])
            if moved:
                sent[j][i] = sent[j].get(i, 0) + moved
                mass, free[j] = mass - moved, free[j] - moved
            if not mass:
                break
        left[i] = mass
        while left[i] and _augment(i, edges, left, free, sent):
            pass
        if left[i]:
            return False
    return True


def _augment(source: int, edges: list[list[int]], left: list[int], free: list[int], sent: list[dict[int, int]]) -> bool:
    """Send what one path can carry: to a sink with room, making others move over."""
    came: dict[int, int] = {}  # sink → source before it
    over: dict[int, int] = {}  # source → sink it moves over from
    queue = deque([source])
    end = -1
    while queue and end < 0:
        i = queue.popleft()
        for j in edges[i]:
            if j in came:
                continue
            came[j] = i
            if free[j]:
                end = j
                break
            for other in sent[j]:
                if other != source and other not in over:
                    over[other] = j
                    queue.append(other)
    if end < 0:
        return False
    amount, j = min(left[source], free[end]), end
    while came[j] != source:
        i = came[j]
        j = over[i]
        amount = min(amount, sent[j][i])
    free[end] -= amount
    left[source] -= amount
    j = end
    while True:
        i = came[j]
        sent[j][i] = sent[j].get(i, 0) + amount
        if i == source:
            return True
        j = over[i]
        sent[j][i] -= amount
        if not sent[j][i]:
            del sent[j][i]
