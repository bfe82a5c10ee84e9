"""Leakage of a count plus integer-valued noise of any distribution, and the distribution with the least expected error.

The distribution of the noise has a probability for each integer up to a reach, and geometric tails beyond it, so that
finitely many outputs decide: further out all likelihood ratios are constant. Given the target and what an adversary
knows, the count has a known distribution. The density of an output is linear in the distribution of the noise, and so
is the guarantee: density given x ≤ e^ε · density given x'. The least expected error is therefore a linear programme
with one row for every adversary, output and pair of values. Rows are added as solutions violate them. The caller checks
the result against every adversary (``ConditionalCounts.upper``), whatever the solver returns.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.distributions.base import AnswerDistributions

ROUNDING: Final = 1e-11
"""Larger than the rounding error of a log-ratio of sums of some hundred positive products; added to every bound."""
_BLOCK: Final = 2_000_000
"""Densities computed together: 16 MB."""
_ROUNDS: Final = 40
"""Linear programmes solved at most; most problems need 5 to 15. The caller checks the last solution."""


class Noise(Protocol):
    """Noise that turns distributions of a count into densities of an output."""

    def densities(self, pmf: Floats) -> Floats:
        """Densities of the outputs that can have the largest likelihood ratio: […, output] from pmf […, count]."""


@dataclass(frozen=True)
class LaplaceNoise:
    """Laplace noise of scale 1/dp_loss; discrete Laplace noise has the same likelihood ratios."""

    dp_loss: float

    def densities(self, pmf: Floats) -> Floats:
        """Densities at the possible counts, up to a common factor: two exponential filters, one from either end."""
        fall, out = math.exp(-self.dp_loss), pmf.copy()
        above = np.zeros(pmf.shape[:-1])
        for s in range(1, pmf.shape[-1]):
            out[..., s] += fall * out[..., s - 1]
        for s in range(pmf.shape[-1] - 2, -1, -1):
            above = fall * (above + pmf[..., s + 1])
            out[..., s] += above
        return out


@dataclass(frozen=True, eq=False)
class WholeNoise:
    """Integer-valued noise: a probability for each integer from −reach to reach, and geometric tails beyond."""

    masses: Floats
    """Probabilities of −reach to reach."""
    tails: tuple[float, float]
    """Probability of everything below −reach, and of everything above reach."""
    ratio: float
    """Probability of an integer in a tail over that of its inner neighbour."""

    @property
    def reach(self) -> int:
        """The largest integer with a probability of its own."""
        return len(self.masses) // 2

    def at(self, numbers: Ints) -> Floats:
        """The probabilities of integers."""
        inside = np.clip(numbers + self.reach, 0, len(self.masses) - 1)
        beyond = np.abs(numbers) - self.reach - 1
        outer = np.where(numbers < 0, *self.tails) * (1 - self.ratio) * self.ratio ** np.maximum(beyond, 0)
        return np.asarray(np.where(beyond < 0, self.masses[inside], outer))

    def densities(self, pmf: Floats) -> Floats:
        """Densities of the outputs from −reach−1 to one beyond the largest count plus the reach."""
        counts = np.arange(pmf.shape[-1])
        return np.asarray(pmf @ self.at(outputs_of(self.reach, len(counts))[None, :] - counts[:, None]))

    @cached_property
    def dp_loss(self) -> float:
        """The largest log-ratio of neighbouring probabilities: the privacy loss ε of DP for a count."""
        around = np.arange(-self.reach - 2, self.reach + 3)
        with np.errstate(divide="ignore"):
            logs = np.log(self.at(around))
        return float(np.abs(np.diff(logs)).max()) + ROUNDING

    @property
    def expected_absolute(self) -> float:
        """The expected absolute value E|Z|."""
        inner = float(np.abs(np.arange(-self.reach, self.reach + 1)) @ self.masses)
        return inner + sum(self.tails) * (self.reach + 1 + self.ratio / (1 - self.ratio))


def outputs_of(reach: int, counts: int) -> Ints:
    """Every output that matters: beyond them likelihood ratios are constant."""
    return np.arange(-reach - 1, reach + counts + 1)


class ConditionalCounts:
    """Distributions of a count given each value of a target, one set for each adversary.

    Args:
        pmf: [adversary, value, count].
        possible: whether the adversary considers the value possible: [adversary, value].
        rounding: a bound on the relative error of every probability.
    """

    def __init__(self, pmf: Floats, possible: Mask, rounding: float = 0.0) -> None:
        self.pmf, self.possible, self.rounding = pmf, possible, rounding
        self.pairs = tuple(itertools.permutations(range(pmf.shape[1]), 2))

    def products(self, reach: int) -> float:
        """The number of multiplications that one evaluation of ``largest`` takes."""
        return float(self.pmf.size * len(outputs_of(reach, self.pmf.shape[2])))

    def log_ratios(self, noise: Noise) -> Iterator[tuple[slice, int, Floats]]:
        """Log-likelihood ratios, in blocks: adversaries, index of the pair of values, [adversary, output]."""
        block = max(1, _BLOCK // max(1, self.pmf[:1].size))
        for first in range(0, len(self.pmf), block):
            here = slice(first, first + block)
            with np.errstate(divide="ignore"):
                logs = np.log(noise.densities(self.pmf[here]))
            for pair, (x, y) in enumerate(self.pairs):
                both = self.possible[here, x] & self.possible[here, y]
                with np.errstate(invalid="ignore"):
                    yield here, pair, np.where(both[:, None], logs[:, x] - logs[:, y], -np.inf)

    def largest(self, noise: Noise) -> Floats:
        """The largest log-likelihood ratio of every pair of values and adversary: [pair, adversary]."""
        out = np.full((len(self.pairs), len(self.pmf)), -np.inf)
        for here, pair, ratios in self.log_ratios(noise):
            out[pair, here] = ratios.max(axis=1)
        return out

    def upper(self, noise: Noise) -> float:
        """An upper bound on the leakage."""
        return max(0.0, float(self.largest(noise).max(initial=0.0))) + 2 * self.rounding + ROUNDING


def counts_given_records(answer: AnswerDistributions) -> ConditionalCounts:
    """The distributions of an answer given each value of each record, for an adversary who knows no record."""
    rows = list(answer.records())
    values, points = max(len(row.states) for row in rows), np.asarray(answer.points, dtype=np.int64)
    pmf, possible = np.zeros((len(rows), values, int(points.max()) + 1)), np.zeros((len(rows), values), dtype=bool)
    for n, row in enumerate(rows):
        pmf[n, : len(row.states), points] = np.exp(row.logs).T
        possible[n, : len(row.states)] = True
    return ConditionalCounts(pmf, possible, answer.error)


def least_error(tables: Sequence[ConditionalCounts], epsilon: float, loss: float, reach: int) -> WholeNoise:
    """The noise with the least expected error that satisfies epsilon, up to what the caller's check finds.

    Args:
        tables: the adversaries that the guarantee covers.
        epsilon: the largest leakage, and the largest log-ratio of neighbouring probabilities of the noise.
        loss: a DP loss at which geometric noise satisfies epsilon; the tails fall at this rate.
        reach: the largest integer with a probability of its own.
    """
    programme = _Programme(epsilon, loss, reach)
    noise = programme.solve()
    for _ in range(_ROUNDS):
        if sum(programme.add_violated_rows(table, noise) for table in tables) == 0:
            break
        noise = programme.solve()
    return noise


class _Programme:
    """The linear programme for the probabilities of the noise, with the rows added so far.

    The unknowns are probabilities divided by those of the last solution. They are of one size, so the solver, which
    treats coefficients below 1e-9 as 0 and lets a row be violated by 1e-7, handles small probabilities as well as large
    ones. A probability beyond the reach is a fixed multiple of the unknown at the nearest end.
    """

    def __init__(self, epsilon: float, loss: float, reach: int) -> None:
        self._epsilon, self._reach, self._ratio = epsilon, reach, math.exp(-loss)
        size = 2 * reach + 1
        self._numbers = np.abs(np.arange(-reach, reach + 1)).astype(float)
        self._sizes = np.exp(-loss * self._numbers)
        self._sizes /= self._sizes.sum()
        # Geometric noise satisfies epsilon, so a small share of it is harmless and keeps every probability above 0.
        self._least = 1e-6 * self._sizes
        # An adversary who knows all other records: neighbours differ by a factor of at most e^epsilon.
        one, following = np.eye(size - 1, size), np.eye(size - 1, size, 1)
        self._rows = np.concatenate([one - math.exp(epsilon) * following, following - math.exp(epsilon) * one])

    def add_violated_rows(self, table: ConditionalCounts, noise: WholeNoise) -> int:
        """Add the worst adversary of every output and pair of values that violates epsilon; the number of rows."""
        outputs, limit = outputs_of(self._reach, table.pmf.shape[2]), self._epsilon + 2e-7  # the solver's tolerance
        rows = []
        for here, pair, ratios in table.log_ratios(noise):
            violated = np.flatnonzero(ratios.max(axis=0) > limit)
            worst = here.start + ratios[:, violated].argmax(axis=0)
            x, y = table.pairs[pair]
            difference = table.pmf[worst, x] - math.exp(self._epsilon) * table.pmf[worst, y]
            rows.append(self._coefficients(difference, outputs[violated]))
        added = np.concatenate(rows)
        self._rows = np.concatenate([self._rows, added])
        return len(added)

    def _coefficients(self, difference: Floats, outputs: Ints) -> Floats:
        """Coefficients of the probabilities of the noise in Σ_c difference[row, c]·P(noise = output − c)."""
        numbers = outputs[:, None] - np.arange(difference.shape[1])
        inside = np.clip(numbers, -self._reach, self._reach)
        rows = np.zeros((len(difference), 2 * self._reach + 1))
        falls = self._ratio ** np.abs(numbers - inside)
        np.add.at(rows, (np.arange(len(difference))[:, None], inside + self._reach), difference * falls)
        return rows

    def solve(self) -> WholeNoise:
        """The distribution with the least expected error under the rows added so far."""
        from scipy.optimize import linprog  # half a second to import

        beyond = np.zeros_like(self._sizes)
        beyond[[0, -1]] = self._ratio / (1 - self._ratio)
        rows = self._rows * self._sizes
        rows /= np.abs(rows).max(axis=1, keepdims=True)
        solution = linprog(
            (self._numbers * (1 + beyond) + beyond / (1 - self._ratio)) * self._sizes,
            A_ub=rows,
            b_ub=np.zeros(len(rows)),
            A_eq=((1 + beyond) * self._sizes)[None],
            b_eq=[1.0],
            bounds=[(float(least), None) for least in self._least / self._sizes],
            method="highs",
        )
        if solution.x is None:
            raise NotApplicableError(f"the linear programme of the noise has no solution: {solution.message}")
        masses = _limit_slope(np.maximum(solution.x * self._sizes, self._least), self._epsilon)
        tails = masses[[0, -1]] * self._ratio / (1 - self._ratio)
        total = float(masses.sum() + tails.sum())
        self._sizes = masses / total
        return WholeNoise(self._sizes, (float(tails[0]) / total, float(tails[1]) / total), self._ratio)


def _limit_slope(masses: Floats, loss: float) -> Floats:
    """The least probabilities, from these on, whose neighbours differ by a factor of at most e^loss."""
    out, fall = masses.copy(), math.exp(-loss)
    for n in range(1, len(out)):
        out[n] = max(out[n], out[n - 1] * fall)
    for n in range(len(out) - 2, -1, -1):
        out[n] = max(out[n], out[n + 1] * fall)
    return out
