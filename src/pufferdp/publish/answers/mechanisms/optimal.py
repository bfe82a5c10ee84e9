"""The least whole noise on one count: its distribution found by a linear programme, and checked by exact windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.additive.whole_noise import ConditionalCounts, counts_given_records, least_error
from pufferdp.bounds.additive.windows import WindowCounts, Windows, window_width
from pufferdp.models.chain import chains_of
from pufferdp.publish.answers.distributions import Grid, answer_distributions, chain_products, grid
from pufferdp.publish.answers.mechanisms.exact import ExactLaplace, leaks_its_loss
from pufferdp.publish.answers.problem import Calibrated, Calibration, Mechanism, Problem, refuse_own_secrets
from pufferdp.publish.answers.queries import CountQuery
from pufferdp.publish.noise_distributions import MOST_SHARES, NoiseTable

WORTH_IT: Final = 2.0
"""From this epsilon on plans try it: below, it gains a tenth or so, and takes seconds."""
_MOST_EPSILON: Final = 12.0
"""Beyond, the numbers of the programme are too far apart for its solver."""
_MARGIN: Final = 0.99
"""Tails fall by this factor more slowly than Laplace noise that keeps the guarantee, so that they keep it; and a table
is worth its size where its error is by this factor less."""
_DEPTH: Final = 16.0
"""Shares are listed down to about e^-16: a rounded one is then off by less than 1e-11."""
_SHARES: Final = (0.05, 1e-3, 1e-5)
"""How much of epsilon windows may add that are wider than those looked at; with less if that is too much."""
_TRIES: Final = 8
"""Programmes solved for one epsilon, each with a little less of it, until exact windows say that it is kept."""
_MOST_PRODUCTS: Final = 1e8
"""For one look at all adversaries and outputs: a tenth of a second."""
_TOO_MANY: Final = "there are too many adversaries and outputs to look at"


class ExactOptimal(Mechanism):
    """Whole noise of the least expected error, among all distributions, on a count over a chain."""

    name = "exact-optimal"
    theorem = "whole noise by linear programme, checked by exact windows (docs/theory/optimal-noise.md)"

    def tried(self, problem: Problem) -> bool:
        """In plans for a count over a chain, from the epsilon on where it is worth it."""
        series = isinstance(problem.query, CountQuery) and bool(chains_of(problem.model))
        return series and problem.epsilon >= WORTH_IT

    def calibrate(self, problem: Problem) -> Calibration:
        """The distribution of the least expected error; one that is given is checked in its place."""
        _refuse(problem)
        table = problem.table or _found(problem)
        if problem.table is not None and not _keeps(problem, table):
            raise NotApplicableError(f"the distribution of the noise leaks more than epsilon {problem.epsilon:g}")
        sigma = table.expected_absolute / problem.bound.lipschitz
        return self.with_finding(problem.with_table(table), Calibrated(sigma=sigma))


def _refuse(problem: Problem) -> None:
    refuse_own_secrets(problem)
    if not isinstance(problem.query, CountQuery):
        raise NotApplicableError("is worked out for one count")
    chains = chains_of(problem.model)
    if not chains:
        raise NotApplicableError("is worked out for chains that can be listed")
    if any(chain.any_start for chain in chains):
        raise NotApplicableError("needs chains with a definite start")
    if problem.adversary is Adversary.DP or leaks_its_loss(problem):
        raise NotApplicableError("a count leaks its DP loss and no more here, and then geometric noise is the best")
    if problem.epsilon > _MOST_EPSILON:
        raise NotApplicableError(f"is worked out up to epsilon {_MOST_EPSILON:g}")


def _found(problem: Problem) -> NoiseTable:
    """The best table, and a little less of epsilon where wider windows or rounding need it."""
    first = _adversaries(problem, _SHARES[0])  # says at once where there are too many
    laplace = ExactLaplace().calibrate(problem)
    if laplace.scale == 0:
        raise NotApplicableError("no record has two values under the model, and no noise is needed")
    loss = _MARGIN / laplace.sigma
    reach = max(2, math.ceil(_DEPTH / loss))
    if 2 * reach + 1 > MOST_SHARES:
        raise NotApplicableError(
            f"needs a table of {2 * reach + 1} shares at this epsilon; the limit is {MOST_SHARES}, and little is gained"
        )
    for share in _SHARES:
        tables = first if share == _SHARES[0] else _adversaries(problem, share)
        _refuse_many(tables, reach)
        epsilon = problem.epsilon
        for _ in range(_TRIES):
            noise = NoiseTable.of(least_error(tables, epsilon * (1 - 1e-6), loss, reach))
            excess = max(table.upper(noise.distribution) for table in tables) - problem.epsilon
            if excess <= 0:
                if noise.expected_absolute >= _MARGIN * laplace.distribution.expected_l1_error:
                    raise NotApplicableError("gains less than a hundredth over exact-laplace here")
                return noise
            if excess > 1e-3 * problem.epsilon:
                break  # wider windows say more than a smaller epsilon
            epsilon -= 2 * excess
    raise NotApplicableError("the linear programme found no distribution that exact windows confirm")


def _keeps(problem: Problem, table: NoiseTable) -> bool:
    """Whether exact windows confirm the guarantee of a table."""
    for share in _SHARES:
        tables = _adversaries(problem, share)
        _refuse_many(tables, table.reach)
        if max(distributions.upper(table.distribution) for distributions in tables) <= problem.epsilon:
            return True
    return False


def _grid_of(problem: Problem) -> Grid:
    answer_grid = grid(problem, [problem.model.labels])
    assert answer_grid is not None  # a count always has one
    return answer_grid


def _adversaries(problem: Problem, share: float) -> list[ConditionalCounts]:
    """The adversaries of the guarantee: one for each model and length of a chain."""
    if problem.adversary is Adversary.PUFFERFISH:
        # Records with two values at least: before distributions are made that would be too many.
        if 2 / problem.model.size * chain_products(problem) > _MOST_PRODUCTS:
            raise NotApplicableError(_TOO_MANY)
        return [counts_given_records(given.distributions) for given in answer_distributions(problem)]
    # Other chains only blur the answer, and the adversary may know them: each chain by itself.
    (steps,) = _grid_of(problem).steps
    series = [Windows(chain, n, steps) for chain in chains_of(problem.model) for n, _ in problem.lengths]
    return [WindowCounts(windows, window_width(windows, share * problem.epsilon)) for windows in series]


def _refuse_many(tables: Sequence[ConditionalCounts], reach: int) -> None:
    if sum(table.products(reach) for table in tables) > _MOST_PRODUCTS:
        raise NotApplicableError(_TOO_MANY)
