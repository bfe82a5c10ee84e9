"""Laplace noise on a count, a sum or a mean of records that show hidden states: a bound on what it leaks, inverted."""

from __future__ import annotations

import math
from typing import Final

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.inverse import largest_loss
from pufferdp.models.hidden import HiddenSeries, is_hidden
from pufferdp.publish.answers.mechanisms.exact import number_grid
from pufferdp.publish.answers.problem import Calibrated, Mechanism, Problem, refuse_own_secrets
from pufferdp.publish.answers.queries import CountQuery

_MOST_PAIRS: Final = 400
"""Pairs of hidden states, over all slots of a period: 20 hidden states take about ten seconds."""
_MANY_PAIRS: Final = _MOST_PAIRS // 4
"""Pairs from which on the bound for any algorithm takes minutes, so that plans of a count do without it."""
_MOST_STEPS: Final = 16
"""Steps between the values of two records: the time grows with them."""
_TOLERANCE: Final = 2e-3
"""Relative tolerance of the privacy loss."""


def bounds_count(problem: Problem) -> bool:
    """Whether this is a count over so many hidden states that the bound for any algorithm takes minutes."""
    model, plain = problem.model, problem.unit is None and problem.secret is None and not problem.endless
    if not (plain and isinstance(model, HiddenSeries) and is_hidden(model)):
        return False
    kernels, shown, _ = model.hidden_steps
    pairs = len(kernels) * len(shown) ** 2
    return isinstance(problem.query, CountQuery) and _MANY_PAIRS < pairs <= _MOST_PAIRS


class LaplaceHidden(Mechanism):
    """The least scale at which the bound for Laplace noise on sums over hidden states is epsilon."""

    name = "laplace-hidden"
    theorem = "the evidence of a noisy sum between pairs of hidden states (docs/theory/hidden.md, Theorem 6)"

    def find(self, problem: Problem) -> Calibrated:
        """One over the largest privacy loss whose leakage is at most epsilon."""
        refuse_own_secrets(problem)
        model = problem.model
        if not isinstance(model, HiddenSeries) or not is_hidden(model):
            raise NotApplicableError("is about hidden states, and the model has none")
        if problem.adversary is Adversary.DP:
            raise NotApplicableError("the model plays no role for an adversary who knows all other records")
        kernels, shown, start = model.hidden_steps
        grid = number_grid(problem)
        pairs, span = len(kernels) * len(shown) ** 2, int(grid.steps[0].max())
        if pairs > _MOST_PAIRS or span > _MOST_STEPS:
            raise NotApplicableError(
                f"{pairs:,} pairs of hidden states and values {span:,} steps apart take too long; the limits are "
                f"{_MOST_PAIRS} and {_MOST_STEPS}"
            )
        from pufferdp.bounds.hidden.counts import CountBound  # for other models it is not needed

        who = str(problem.adversary)
        bound = CountBound(kernels, shown, grid.steps[0], start=start, length=problem.longest, adversary=who)
        lipschitz = problem.bound.lipschitz
        share = (float(grid.unit) + grid.inexact) / lipschitz
        # Sums and means are rounded to doubles before noise is added: two answers may come apart by one unit more.
        least, most = problem.answer_range
        rounding = 0.0 if problem.query.counts_states else math.ulp(most - least) / lipschitz

        def leakage(loss: float) -> float:
            return bound(loss * share) + loss * rounding

        loss = problem.allowed_loss(leakage, lambda epsilon: largest_loss(leakage, epsilon, _TOLERANCE))
        if loss <= 0:
            raise NotApplicableError(f"is above {problem.epsilon:g} however little privacy loss is spent")
        if problem.balanced and not problem.noise(lipschitz / loss).balanced:
            raise NotApplicableError("needs noise that adds up to 0, and as wide as this none is drawn")
        # A loss of 1/σ that is not above the one that was checked.
        return Calibrated(sigma=math.nextafter(1 / loss, math.inf))
