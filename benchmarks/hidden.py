"""Hidden states: a fit of half a million records, and the inverse of their bound at epsilon 1."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.tight import reference
from benchmarks.timing import Report, processor_seconds, sized
from pufferdp.bounds.hidden.potential import PotentialBound
from pufferdp.models.hidden_states import HiddenStates
from pufferdp.models.simulate import seeded
from pufferdp.publish.fits.expectation import Observed, fit_hidden


def regimes(values: int, kinds: int) -> tuple[np.ndarray, np.ndarray]:
    """A chain whose values each have kinds of stay, from short to long; where to, is random."""
    shown = np.repeat(np.arange(values), kinds)
    rows = np.random.default_rng(values).dirichlet(np.ones(len(shown)), size=len(shown))
    stay = np.tile(np.linspace(0.5, 0.95, kinds), values)
    return np.diag(stay) + (1 - stay)[:, None] * rows, shown


def run(report: Report) -> None:
    """Measure processor seconds, and their ratio to a product of two tables in the same run."""
    unit = reference()

    def row(what: str, seconds: float, goal: float) -> None:
        report.row(what, seconds, "s", goal)
        report.row("  over the reference", seconds / unit, "times")

    report.title("hidden states, bound for every adversary: inverse at epsilon 1, n = 10^5, processor seconds")
    for values, kinds, goal in sized(((2, 3, 3.0), (4, 3, 10.0), (5, 4, 20.0)), ((2, 2, 3.0),)):
        bound = PotentialBound(*regimes(values, kinds), length=100_000)
        row(f"{values * kinds} hidden states", processor_seconds(partial(bound.inverse, 1.0), 1), goal)

    report.title("hidden states, fit: processor seconds")
    transition, shown = regimes(5, 3)
    model = HiddenStates(transition=transition, of=tuple(shown.tolist()))
    records = sized((500, 1000), (5, 100))
    observed = Observed(series=[model.draw(*records, seeded(1)).ravel()], values=5)
    fit = partial(fit_hidden, observed, 3, steps=sized(40, 2), restarts=1)
    row(f"{records[0] * records[1]:,} records, 3 hidden states a value, 40 steps", processor_seconds(fit, 1), 40.0)
