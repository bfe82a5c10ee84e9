"""A period as the unit: what any algorithm leaks about a block of records, if it has one DP loss for a whole block.

Blocks are m records that follow each other; the first and the last may be shorter. Beside the target block the worst
algorithm asks one question of each block, and of its record nearest to the target alone: given that record, the rest
of the block says nothing more (docs/theory/units.md, Theorem 1). So a side of a block is a side of its last record, or
of its first one, in a series where every m-th record spends the whole loss and the others nothing. Known records may
lie inside other blocks too: they are ends like others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats, Mask
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.inverse import LeakageBound
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.inputs import Chain
from pufferdp.bounds.tight.odds import STEPS, contraction, largest_log_odds, side_bound
from pufferdp.bounds.tight.recursion import Rows, Side
from pufferdp.bounds.tight.search import ENDLESS
from pufferdp.bounds.tight.series import TOLERANCE, Problem, reversed_kernel, solve

_SHORT: Final = 24
"""Records up to which every position of a block in the series is bounded by itself."""
_LONGEST: Final = 1 << 12
"""Records of a block that are followed one by one; longer blocks are bounded by blocks of this length."""
BEFORE, AFTER = range(2)


class BlockCurve(LeakageBound):
    """What any algorithm with one loss for each block of m records leaks about a block of a chain.

    >>> activity = [[0.882, 0.118], [0.305, 0.695]]
    >>> curve = BlockCurve(activity, block=2, adversary="pufferfish")
    >>> round(curve(0.5), 2)
    1.44
    """

    tolerance = TOLERANCE

    def __init__(
        self,
        transition: npt.ArrayLike,
        *,
        block: int,
        start: str | npt.ArrayLike = "stationary",
        length: int | None = None,
        adversary: str = "bdp",
    ) -> None:
        """Blocks of a chain.

        Args:
            transition: the table of a step.
            block: records in a block.
            start: "stationary"; other starts are rejected, and the closed form bounds them.
            length: records in the series; None: without end.
            adversary: bdp, pufferfish or dp.
        """
        chain = inputs.chain(transition, start)
        self.block, self.adversary = checks.length(block, "block"), checks.adversary(adversary)
        self.length = None if length is None else checks.length(length)
        if chain.start is None or not chain.stationary:
            raise NotApplicableError("of a whole block is worked out for a stationary start; the odds curve bounds any")
        self.chain = chain = chain.restricted(np.flatnonzero(chain.start > 0))
        self._alone = self.adversary is Adversary.DP or chain.independent or chain.size == 1 or self.length == 1

    def _value(self, tau: float) -> float:
        if self._alone:
            return tau
        if self.length is not None and self.length <= _SHORT:
            added = self._explicit(tau, self.length)
        elif not self.chain.primitive:  # it never forgets where it was: a known record of one block shows in all
            added = math.inf
        else:
            added = self._long(tau, None if self.length is None else self.length - 1)
        return max(tau, min(tau + added, tau * most_blocks(self.length, self.block)))

    def _long(self, tau: float, records: int | None) -> float:
        """A block between two sides of so many records. Sides never fall as they grow, so the longest bound all."""
        before, after = (self.stationary_side(lane, tau, records) for lane in (BEFORE, AFTER))
        # Without an end a block may also lie in two series, where one begins anew: then its ends go with any others.
        reach = self.reach(self.block)
        both = worst_pair(before, after, np.ones_like(reach) if records is None else reach)
        # The first and the last block have one side alone, and may be shorter.
        return max(both, float(before.max()), float(after.max()))

    def stationary_side(self, lane: int, tau: float, records: int | None) -> Floats:
        """The most that one side of a block of a stationary chain adds, by the values (x, y) of its nearest record."""
        return np.asarray(side_tables(self.chain, self._losses(tau), str(self.adversary), lane, [records])[1][0])

    def _losses(self, tau: float) -> Floats:
        """Losses outwards from a block. Shorter blocks spend the loss more often, so they leak no less."""
        losses = np.zeros(min(self.block, _LONGEST))
        losses[0] = tau
        return losses

    def _explicit(self, tau: float, n: int) -> float:
        """Every position of a block in a short series; the first and the last block may have fewer records."""
        losses, most = self._losses(tau), 0.0
        before, after = (side_tables(self.chain, losses, str(self.adversary), lane, range(n))[1] for lane in (0, 1))
        for first, last in itertools.combinations_with_replacement(range(n), 2):
            records = last - first + 1
            if records == self.block or (records < self.block and (first == 0 or last == n - 1)):
                most = max(most, worst_pair(before[first], after[n - 1 - last], self.reach(records)))
        return most

    def reach(self, records: int) -> Mask:
        """Which first and last values a block of so many records can have."""
        return np.asarray(np.linalg.matrix_power(self.chain.kernels[0] > 0, records - 1))


def side_tables(
    chain: Chain, losses: Floats, adversary: str, lane: int, records: Sequence[int | None], tolerance: float = TOLERANCE
) -> tuple[Floats, Floats]:
    """What one side of a stationary chain adds at least and at most, by the values of the target, (n, k, k) each.

    Lane 0 is the side before the target, 1 the side after it. Losses are those of the records outwards, used again from
    the first. The side has one of some numbers of ``records`` (None: without end), or ends before.
    """
    assert chain.start is not None
    k, n = chain.size, len(records)
    kernel = chain.kernels[0] if lane else reversed_kernel(chain.start, chain.kernels[0])
    side = Side(kernel[None], losses, np.ones(k), adversary == "bdp")
    at, x, y = np.nonzero(np.broadcast_to(~np.eye(k, dtype=bool), (n, k, k)))
    rows, counts = Rows(np.zeros_like(x), x, y), np.array([ENDLESS if m is None else m for m in records])[at]
    fixed = np.stack([counts, np.zeros_like(counts)])
    found = solve(Problem((side, side), (rows, rows), np.zeros(len(x)), np.arange(len(x)), fixed, None), tolerance)
    lower, upper = np.zeros((n, k, k)), np.zeros((n, k, k))
    lower[at, x, y], upper[at, x, y] = found.lower, found.upper
    return lower, upper


def worst_pair(before: Floats, after: Floats, possible: Mask) -> float:
    """The most that both sides add, over blocks (first, last) against (first', last') that are possible."""
    blocks = np.argwhere(possible)
    first, last = blocks.T
    return float((before[first[:, None], first] + after[last[:, None], last]).max(initial=0.0))


def most_blocks(length: int | None, block: int) -> float:
    """The most blocks that a series can touch, wherever their borders are."""
    return math.inf if length is None else (length + 2 * block - 2) // block if length > 1 else 1


@dataclass(frozen=True, eq=False)
class BlockOdds(LeakageBound):
    """The closed form for blocks: any start, any adversary, classes of chains, clocks (Theorem 4 of tight.md).

    A side is C(Δ, τ + R) behind the first step, where R = C(Δ_m, τ + R) is a side from block to block.
    """

    log_odds: float
    """Δ of a step, the largest of the class."""
    of_blocks: tuple[float, ...]
    """Δ of 1, 2, … blocks at once."""
    block: int
    length: int | None

    @classmethod
    def of_chains(cls, kernels: list[Floats], block: int, length: int | None) -> BlockOdds:
        """The worst of several chains; each is one table, or several in turn, (p, k, k)."""
        one = max(_log_odds(tables, 1) for tables in kernels)
        many = tuple(max(_log_odds(tables, block * n) for tables in kernels) for n in range(1, STEPS + 1))
        return cls(one, many, block, length)

    @classmethod
    def of_steps(cls, log_odds: float, block: int, length: int | None) -> BlockOdds:
        """From Δ of a step alone, which may change from step to step: tanh(Δ/4) is multiplied at each of them."""
        many = 4 * math.atanh(min(math.tanh(log_odds / 4) ** block * (1 + 1e-12), 1 - 2.0**-53))
        return cls(log_odds, (min(log_odds, many) if math.isfinite(log_odds) else math.inf,), block, length)

    def _value(self, tau: float) -> float:
        side = float(contraction(self.log_odds, tau + side_bound(tau, self.of_blocks)))
        return min(tau + 2 * side, tau * most_blocks(self.length, self.block))


def _log_odds(kernels: Floats, steps: int) -> float:
    """Δ of so many steps at once, from the worst phase; with a margin for rounding where steps nearly forget.

    Δ never rises with the number of steps: after a thousand no more are taken.
    """
    power, pattern = kernels, (kernels > 0).astype(float)
    for step in range(1, min(steps, 1000)):
        following = np.roll(kernels, -step, axis=0)
        power, pattern = power @ following, np.minimum(pattern @ (following > 0), 1.0)
    if ((power > 0) != (pattern > 0)).any():  # a probability was lost to rounding
        return math.inf
    return largest_log_odds(power) + float(4 * kernels.shape[-1] * min(steps, 1000) * 2.0**-53)
