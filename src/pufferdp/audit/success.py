"""How often an attacker is right, what that charges, and how often a promise lets anyone be right."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.models.markov import MarkovChain

CONFIDENCE: Final = 0.95
BLOCKS: Final = 40
"""Blocks that a series is cut into, to see how much success varies between them."""
_LAWS: Final = 4096
"""Records whose laws are looked at where the start is not stationary."""
_SETTLED: Final = 1e-13


def dp_success(epsilon: float, odds: float = 1.0) -> float:
    """The most often anyone is right about a record whose odds a release moves by at most e^epsilon.

    m·e^ε/(1 + m·e^ε), m the prior odds of the likelier guess. Chakrabarti et al. (2020) print e^ε/(max(q/r, r/q) + e^ε)
    under BDP. That is no bound: m = max(q/r, r/q) gives e^ε/(min(q/r, r/q) + e^ε).
    """
    return 1 / (1 + math.exp(-epsilon) / odds)


def charged(success: float) -> float:
    """The ε at which plain DP would allow this success, log p/(1−p); infinite where success is sure."""
    if not 0 < success < 1:
        return math.copysign(math.inf, success - 0.5)
    return math.log(success) - math.log1p(-success)


def prior_odds(model: MarkovChain, length: int) -> float:
    """The largest odds π(x)/(1−π(x)) of a state of a record, before anything is seen."""
    law = model.stationary if model.given_start is None else model.given_start
    worst = float(law.max())
    if model.any_start:
        return math.inf
    if model.given_start is not None:
        for step in range(1, length):
            after = law @ model.transition
            worst = max(worst, float(after.max()))
            if abs(after - law).max() < _SETTLED:
                break
            law = after
            if step == _LAWS:
                return math.inf
    return worst / (1 - worst) if worst < 1 else math.inf


@dataclass(frozen=True, kw_only=True)
class Success:
    """How often one attacker is right."""

    attacker: str
    success: float
    low: float | None
    """The lower end of the interval; None where the truth is not at hand and the model says how often to expect it."""
    high: float | None
    records: int
    confidence: float = CONFIDENCE

    @property
    def charged(self) -> float:
        """The ε that this success charges."""
        return charged(self.success)

    def to_dict(self) -> dict[str, Any]:
        """As ``pufferdp attack --json`` prints it; null for infinite."""

        def finite(value: float | None) -> float | None:
            return None if value is None or not math.isfinite(value) else value

        return {
            "attacker": self.attacker,
            "success": self.success,
            "low": self.low,
            "high": self.high,
            "charged": finite(self.charged),
            "charged_low": finite(None if self.low is None else charged(self.low)),
            "charged_high": finite(None if self.high is None else charged(self.high)),
            "records": self.records,
        }


def measure(attacker: str, hits: npt.NDArray[np.bool_], confidence: float = CONFIDENCE) -> Success:
    """Success over hits, one series a row, with an interval that allows for records of a series hanging together.

    One record a series: hits are independent, and the interval is Clopper and Pearson's. Otherwise it is theirs at the
    effective number of records p·(1−p)/variance of the mean, after Korn and Graubard (1998). The variance is that
    between series, or with fewer than ``BLOCKS`` series between blocks of each; blocks are taken to be independent, so
    they must be longer than the correlation reaches.
    """
    rows, n = hits.shape
    p = float(hits.mean())
    independent = n == 1
    effective = float(hits.size)
    if not independent:
        parts = 1 if rows >= BLOCKS else min(n, -(-BLOCKS // rows))
        means = np.array([block.mean() for row in hits for block in np.array_split(row, parts)])
        effective = _effective(p, means, hits.size, confidence)
    low, high = clopper_pearson(p * effective, effective, confidence)
    return Success(attacker=attacker, success=p, low=low, high=high, records=hits.size, confidence=confidence)


def _effective(p: float, means: npt.NDArray[np.float64], records: int, confidence: float) -> float:
    """How many independent records would say as much."""
    from scipy.stats import norm, t

    count = len(means)
    if count < 2:
        return 1.0
    variance = float(means.var(ddof=1)) / count
    if variance == 0:
        return float(count)  # no variation seen: each block counts once
    level = (1 + confidence) / 2
    few = (float(norm.ppf(level)) / float(t.ppf(level, count - 1))) ** 2
    return min(float(records), max(1.0, p * (1 - p) / variance * few))


def clopper_pearson(hits: float, trials: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact interval of a probability from independent trials; numbers need not be whole."""
    from scipy.stats import beta

    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, hits, trials - hits + 1)) if hits > 0 else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high
