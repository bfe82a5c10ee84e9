"""Noise on a count by a table: a share of 2^64 for each whole number, and geometric tails.

Every probability is a whole number over 2^64, so the distribution that is drawn is the distribution that was checked: a
word of 64 random bits is compared with whole thresholds, and in a tail one word after the other says whether to go on.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.basics.bisection import least_count
from pufferdp.basics.errors import ParameterError
from pufferdp.bounds.additive.whole_noise import WholeNoise

_WHOLE: Final = 2**64
MOST_SHARES: Final = 1001
"""A table has no more shares than this."""


@dataclass(frozen=True)
class NoiseTable:
    """The distribution of whole noise in 2^-64ths."""

    shares: tuple[int, ...]
    """Of the whole numbers from −reach to reach."""
    tails: tuple[int, int]
    """Of everything below −reach, and of everything above reach."""
    ratio: int
    """Of neighbours in either tail, the outer to the inner, in 2^-64ths."""

    def __post_init__(self) -> None:
        if len(self.shares) % 2 == 0 or not 3 <= len(self.shares) <= MOST_SHARES:
            raise ParameterError(
                f"a noise table has {len(self.shares)} shares; it must be an odd number from 3 to {MOST_SHARES}"
            )
        everything = [*self.shares, *self.tails]
        if min(everything) < 1 or sum(everything) != _WHOLE or not 0 < self.ratio < _WHOLE:
            raise ParameterError("the shares of a noise table must be above 0 and add up to 2^64, its ratio lie below")

    @classmethod
    def of(cls, noise: WholeNoise) -> NoiseTable:
        """Rounded to whole shares; 0 gets what is left."""
        shares = [max(1, math.floor(Fraction(float(p)) * _WHOLE)) for p in noise.masses]
        low, high = (max(1, math.floor(Fraction(tail) * _WHOLE)) for tail in noise.tails)
        shares[noise.reach] += _WHOLE - sum(shares) - low - high
        return cls(tuple(shares), (low, high), math.floor(Fraction(noise.ratio) * _WHOLE))

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> NoiseTable:
        """As a certificate or a ledger keeps it."""
        low, high = raw["tails"]
        return cls(tuple(_share(text) for text in raw["shares"]), (_share(low), _share(high)), _share(raw["ratio"]))

    def to_dict(self) -> dict[str, Any]:
        """In JSON's types: shares are text, because JSON's numbers are doubles."""
        return {
            "shares": [str(share) for share in self.shares],
            "tails": [str(share) for share in self.tails],
            "ratio": str(self.ratio),
        }

    @cached_property
    def distribution(self) -> WholeNoise:
        """The same in doubles."""
        low, high = (share / _WHOLE for share in self.tails)
        return WholeNoise(np.array([share / _WHOLE for share in self.shares]), (low, high), self.ratio / _WHOLE)

    @property
    def reach(self) -> int:
        """The largest whole number with a share of its own."""
        return len(self.shares) // 2

    @property
    def expected_absolute(self) -> float:
        """E|Z|."""
        return self.distribution.expected_absolute

    @property
    def variance(self) -> float:
        """E Z², about 0 and not about the mean: the expected squared error."""
        q, numbers = self.distribution.ratio, np.arange(-self.reach, self.reach + 1, dtype=float)
        first = self.reach + 1
        # With J geometric, E(first + J)² = first² + 2·first·q/(1−q) + q(1+q)/(1−q)².
        tail = first**2 + 2 * first * q / (1 - q) + q * (1 + q) / (1 - q) ** 2
        return float(numbers**2 @ self.distribution.masses) + sum(self.distribution.tails) * tail

    def log_probability(self, numbers: Floats) -> Floats:
        """Of whole numbers, also so far out that their probability is less than a double holds."""
        whole, distribution = np.asarray(numbers, dtype=np.int64), self.distribution
        beyond = np.abs(whole) - self.reach - 1
        near = np.log(distribution.masses)[np.clip(whole + self.reach, 0, 2 * self.reach)]
        low, high = (math.log(tail) + math.log1p(-distribution.ratio) for tail in distribution.tails)
        tails = np.where(whole < 0, low, high)
        return np.asarray(np.where(beyond < 0, near, tails + beyond * math.log(distribution.ratio)))

    def at_least(self, numbers: Floats) -> Floats:
        """P(Z ≥ m) for whole numbers m."""
        whole, reach = np.asarray(numbers, dtype=np.int64), self.reach
        (low, high), q = self.distribution.tails, self.distribution.ratio
        above = np.append(np.cumsum(self.distribution.masses[::-1])[::-1], 0.0) + high  # from each number inside on
        inside = above[np.clip(whole + reach, 0, 2 * reach + 1)]
        right = high * q ** np.maximum(whole - reach - 1, 0).astype(float)
        left = 1 - low * q ** np.maximum(-reach - whole, 0).astype(float)
        return np.asarray(np.where(whole > reach, right, np.where(whole < -reach, left, inside)))

    def least_error(self, probability: float) -> int:
        """The least whole m ≥ 1 with P(|Z| ≥ m) at most this probability."""
        return least_count(lambda m: self._beyond(m) <= probability)

    def _beyond(self, m: int) -> float:
        up, down = self.at_least(np.array([m, 1 - m]))
        return float(up) + float(1 - down)

    def draw(self, random_bytes: Callable[[int], bytes]) -> int:
        """One number: exactly by the shares."""
        word = int.from_bytes(random_bytes(8), "little")
        place = bisect_right(self._reached, word)
        if place < len(self.shares):
            return place - self.reach
        steps = self.reach + 1
        while int.from_bytes(random_bytes(8), "little") < self.ratio:
            steps += 1
        return -steps if place == len(self.shares) else steps

    @cached_property
    def _reached(self) -> Sequence[int]:
        """Words below the first mean −reach, those below the next one more, and so on; then the tails."""
        return list(itertools.accumulate((*self.shares, self.tails[0])))


def _share(text: object) -> int:
    if not isinstance(text, str) or not text.isdecimal() or len(text) > 20:
        raise ParameterError(f"a share of a noise table is {str(text)[:40]!r}; it must be a whole number as text")
    return int(text)
