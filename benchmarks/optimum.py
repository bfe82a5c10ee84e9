"""The best mechanism of all for a count over a short chain, as a linear programme, and ours beside it.

A mechanism is M(y | x), y in 0..n: other outputs gain nothing, since one outside can be moved to the nearest end and
one between two whole numbers can be replaced by either, at random, without a larger expected error. It is ε-private for
every adversary when for each record i, set K of known records, their values and two values of i, and each output

    Σ_U P(x_U | x_K, x_i) M(y | x) ≤ e^ε Σ_U P(x_U | x_K, x_i') M(y | x').

The expected |y − count(x)| under the model is minimised: everything is linear.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import linprog

from benchmarks.timing import Report, seconds, sized
from pufferdp.assess.dp import leakage_of
from pufferdp.models.chain import MarkovChain

Floats = npt.NDArray[np.float64]

CHAINS = {
    "activity": [[0.882, 0.118], [0.305, 0.695]],
    "sticky": [[0.9, 0.1], [0.1, 0.9]],
    "alternating": [[0.2, 0.8], [0.7, 0.3]],
}
EPSILONS = sized((0.5, 1.0, 2.0), (2.0,))
LENGTH = 5


@dataclass(frozen=True)
class Optimum:
    """The best mechanism."""

    error: float
    """Expected absolute error under the model."""
    mechanism: Floats
    """M(y | x): [output, series], series counted in binary with the first record first."""


@dataclass(frozen=True)
class Ours:
    """Discrete Laplace noise of the least scale that is private for every adversary, and its expected errors."""

    scale: float
    raw: float
    clamped: float
    """Cut to 0..n."""
    model_estimate: float
    """The posterior median of the count given the noisy one, under the model: of all estimates the best."""


def series_of(n: int) -> npt.NDArray[np.int64]:
    """All series of two states, one a row."""
    return np.array(list(itertools.product((0, 1), repeat=n)))


def distribution_of(chain: MarkovChain, n: int) -> Floats:
    """The probability of each series, from a stationary start."""
    series = series_of(n)
    moves = chain.transition[series[:, :-1], series[:, 1:]]
    return np.asarray(chain.stationary[series[:, 0]] * moves.prod(axis=1))


def adversaries(chain: MarkovChain, n: int) -> Floats:
    """One row an adversary and a value of the target: P(series | what is known, the value); rows come in pairs."""
    series, distribution = series_of(n), distribution_of(chain, n)
    rows = []
    for target in range(n):
        others = [j for j in range(n) if j != target]
        for known in itertools.chain.from_iterable(itertools.combinations(others, m) for m in range(n)):
            for values in itertools.product((0, 1), repeat=len(known)):
                fits = (series[:, list(known)] == values).all(axis=1)
                pair = [distribution * (fits & (series[:, target] == x)) for x in (0, 1)]
                if all(row.sum() > 0 for row in pair):
                    rows += [row / row.sum() for row in pair]
    return np.array(rows)


def optimum(chain: MarkovChain, n: int, epsilon: float, *, count_only: bool = False) -> Optimum:
    """The linear programme over M(y | x), flat as [output, series]; with ``count_only`` over M(y | count of x)."""
    distribution, counts = distribution_of(chain, n), series_of(n).sum(axis=1)
    columns = np.eye(n + 1)[counts] if count_only else np.eye(len(distribution))  # [series, what the mechanism sees]
    cost = (np.abs(np.arange(n + 1)[:, None] - counts) * distribution) @ columns
    told = adversaries(chain, n)
    first, second = told[0::2], told[1::2]
    gaps = np.concatenate([first - math.exp(epsilon) * second, second - math.exp(epsilon) * first]) @ columns
    private = sparse.kron(sparse.eye_array(n + 1), gaps, format="csr")
    whole = sparse.kron(np.ones((1, n + 1)), sparse.eye_array(columns.shape[1]), format="csr")
    found = linprog(
        cost.ravel(),
        A_ub=private,
        b_ub=np.zeros(private.shape[0]),
        A_eq=whole,
        b_eq=np.ones(whole.shape[0]),
        method="highs",
    )
    if found.status != 0:
        raise RuntimeError(f"the linear programme was not solved: {found.message}")
    return Optimum(float(found.fun), found.x.reshape(n + 1, -1) @ columns.T)


def ours(chain: MarkovChain, n: int, epsilon: float) -> Ours:
    """The errors by summation, none by sampling."""
    loss = leakage_of(chain, target=epsilon, length=n, query="count:1").exact
    assert loss is not None
    counts, q = np.arange(n + 1), math.exp(-loss)
    distribution = np.bincount(series_of(n).sum(axis=1), weights=distribution_of(chain, n), minlength=n + 1)
    # Beyond 0 and n all outputs say the same of the count as 0 and n themselves: the clamped one loses nothing.
    noisy = q ** np.abs(counts[:, None] - counts) * (1 - q) / (1 + q)  # [output, count]
    noisy[0], noisy[n] = q**counts / (1 + q), q ** (n - counts) / (1 + q)
    joint, misses = noisy * distribution, np.abs(counts[:, None] - counts)
    estimates = joint @ misses  # [output, estimate]
    return Ours(1 / loss, 1 / math.sinh(loss), float((joint * misses).sum()), float(estimates.min(axis=1).sum()))


def without_data(chain: MarkovChain, n: int) -> float:
    """The expected error of the best guess from the model alone."""
    counts = series_of(n).sum(axis=1)
    return min(float(distribution_of(chain, n) @ np.abs(counts - guess)) for guess in range(n + 1))


def run(report: Report) -> None:
    """A table of expected errors, and the two numbers that are known."""
    report.title(f"how far from the best possible: count over {LENGTH} records, expected absolute error")
    columns = ("epsilon", "scale", "raw", "clamped", "model_estimate", "count only", "optimum", "guess")
    print(f"{'chain':<12}" + "".join(f"{name:>11}" for name in columns))
    for name, transition in CHAINS.items():
        chain = MarkovChain(transition=transition)
        for epsilon in EPSILONS:
            we = ours(chain, LENGTH, epsilon)
            best = [optimum(chain, LENGTH, epsilon, count_only=only).error for only in (True, False)]
            found = (epsilon, we.scale, we.raw, we.clamped, we.model_estimate, *best, without_data(chain, LENGTH))
            print(f"{name:<12}" + "".join(f"{value:>11.4f}" for value in found), flush=True)
    print("count only: the best that sees nothing but the count; guess: the best from the model alone, without data")
    chain = MarkovChain(transition=CHAINS["activity"])
    report.row("activity, epsilon 2: optimum, off .5348", abs(optimum(chain, 5, 2.0).error - 0.5348), "", 5e-5)
    report.row("activity, epsilon 2: ours clamped, off .8419", abs(ours(chain, 5, 2.0).clamped - 0.8419), "", 1e-3)
    report.row("one linear programme", seconds(lambda: optimum(chain, 5, 2.0), 3), "s")
