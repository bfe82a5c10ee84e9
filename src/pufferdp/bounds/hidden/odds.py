"""The closed-form bound for hidden Markov chains: any start, any adversary, any length (docs/theory/hidden.md).

Hidden states have the transition matrix A, and a record has the distribution O given its hidden state. Δ is the largest
log odds ratio of a matrix and C(Δ, τ) Birkhoff's contraction of a log-ratio τ. The output for one record is evidence of
at most e = C(Δ(O), τ) about its hidden state, one side of a record gives at most the fixed point R = C(Δ(A), e + R),
and an algorithm leaks at most τ + C(Δ(O), 2R) about a record (Theorem 4).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import ModelError
from pufferdp.bounds.inverse import LeakageBound
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.odds import (
    PAIRWISE,
    STEPS,
    contraction,
    largest_log_odds,
    log_quotients,
    pair_odds,
    pair_side,
    side_bound,
)

_MOST_PATHS: Final = 512
"""Combinations of known and unknown records between two hidden states that are all tried."""
_MOST_WORK: Final = 2 * 10**8
"""Combinations times the cube of the number of hidden states: some seconds."""


@dataclass(frozen=True, eq=False)
class HiddenOdds(LeakageBound):
    """An upper bound on the leakage of any algorithm with privacy loss τ for every record, for any adversary."""

    hidden: tuple[float, ...]
    """Δ of 1, 2, … steps of the hidden chain at once, for the worst set of known records in between."""
    shown: float
    """Δ of the distribution of a record given its hidden state."""
    length: int | None = None
    """The number of records; None for an endless series."""
    pairs: _HiddenPairs | None = None
    """Bounds for each pair of hidden states, where there are few of them."""

    @classmethod
    def of(
        cls, transition: npt.ArrayLike, emission: npt.ArrayLike, *, length: int | None = None, pairwise: bool = True
    ) -> HiddenOdds:
        """The bound of two tables; without ``pairwise`` one number stands for all pairs of hidden states."""
        (kernel,) = inputs.kernels_of(transition)
        shown = emission_table(emission, len(kernel))
        pairs = None
        if pairwise and max(shown.shape) <= PAIRWISE:
            pairs = _HiddenPairs(*(pair_odds([log_quotients(table, table)]) for table in (kernel, shown)))
        length = None if length is None else checks.length(length)
        return cls(_steps_at_once(kernel, shown), largest_log_odds(shown), length, pairs)

    def _value(self, tau: float) -> float:
        side = side_bound(float(contraction(self.shown, tau)), self.hidden)
        bound = tau + float(contraction(self.shown, 2 * side))
        if self.pairs is not None:
            bound = min(bound, tau + self.pairs.both_sides(tau, self.length, side))
        return bound if self.length is None else min(bound, tau * self.length)


@dataclass(frozen=True, eq=False)
class HiddenBlockOdds(LeakageBound):
    """An upper bound on the leakage about a block of records, from privacy loss τ for every block: τ + 2R.

    A change of one hidden state changes the distribution of one record, so that it costs τ at most, and R = C(Δ(A),
    τ + R). Given the first and the last hidden state of the block, both sides are independent of its records.
    """

    records: HiddenOdds

    def _value(self, tau: float) -> float:
        return tau + 2 * side_bound(tau, self.records.hidden)


@dataclass(frozen=True, eq=False)
class _HiddenPairs:
    """The sharper bound: by pairs of hidden states, and by pairs of values of the target."""

    steps: Floats
    """Log odds ratios of pairs of hidden states, from ``pair_odds``."""
    shown: Floats
    """Log odds ratios of records, given pairs of hidden states."""

    def both_sides(self, loss: float, length: int | None, most: float) -> float:
        """The largest evidence of both sides; ``most`` bounds each for every pair of hidden states."""
        visible = contraction(self.shown, loss * (1 - np.eye(self.shown.shape[-1]))).max(axis=(2, 3))
        after = pair_side(self.steps, visible, length, most)
        before = pair_side(self.steps.transpose(2, 3, 0, 1), visible, length, most)
        values = contraction(self.shown.transpose(2, 3, 0, 1), after + before).max(axis=(2, 3))
        np.fill_diagonal(values, 0.0)
        return float(values.max())


def emission_table(emission: npt.ArrayLike, hidden: int) -> Floats:
    """The distributions of a record given each hidden state, checked."""
    shown = np.array(emission, dtype=float)
    if shown.ndim != 2 or len(shown) != hidden:
        raise ModelError(
            f"emission is {shown.shape}; it must have a row for each of the {hidden} hidden states", value=emission
        )
    for z, row in enumerate(shown):
        inputs.distribution(row, len(row), f"row {z + 1} of emission")
    return shown


def _steps_at_once(kernel: Floats, shown: Floats) -> tuple[float, ...]:
    """Δ of 1, 2, … steps at once; a known record in between weights its hidden state, so all combinations count."""
    weights = np.vstack([np.ones(len(kernel)), shown.T])
    odds = [largest_log_odds(kernel)]
    for steps in range(2, STEPS + 1):
        if len(weights) ** (steps - 1) > max(1, min(_MOST_PATHS, _MOST_WORK // len(kernel) ** 3)):
            break
        most = 0.0
        for known in itertools.product(weights, repeat=steps - 1):
            product = kernel
            for weight in known:
                product = (product * weight) @ kernel
            most = max(most, largest_log_odds(product))
            if math.isinf(most):
                break
        odds.append(most)
    return tuple(odds)
