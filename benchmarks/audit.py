"""Audits of counts, flips, histograms and streams: how much is proved in a minute; how fast data is drawn.

One number a case: the leakage that was counted over the exact one, or over its upper bound where nobody knows it. The
goals are .8 for counts on sticky chains within 60 seconds, .9 for outputs of many numbers and of other libraries within
60 seconds of one core. ``PUFFERDP_BENCH_SECONDS=20,40,60`` shows these for less time too.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from benchmarks.timing import Report, processor_clock, seconds, sized
from pufferdp import leakage_of, outside_mechanism
from pufferdp.assess.audit.audit import AuditReport, audit_mechanism
from pufferdp.assess.audit.mechanisms.process import OutsideMechanism
from pufferdp.assess.audit.search import Budget
from pufferdp.models.chain import MarkovChain
from pufferdp.models.simulate import sample_chain

CALLS = sized(40_000_000, 20_000)
STEPS = sized(2_000_000, 2000)
ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
W = MarkovChain(transition=[[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])


def sticky(stay: float) -> MarkovChain:
    """Both states are kept with this probability."""
    return MarkovChain(transition=[[stay, 1 - stay], [1 - stay, stay]])


def run(report: Report) -> None:
    """All of it."""
    report.title("series drawn given three of a hundred records: steps a second")
    generator = np.random.default_rng(1)
    for states in (2, 3, 8):
        chain = MarkovChain(transition=np.full((states, states), 0.1 / states) + 0.9 * np.eye(states))
        took = seconds(lambda c=chain: sample_chain(c, 100, STEPS // 100, generator, {0: 0, 50: 1, 99: 0}))
        report.row(f"{states} states", STEPS / took, "1/s", 1e7, at_least=True)
    report.title(f"noisy counts on sticky chains, every adversary: proved over exact, {CALLS:,} runs")
    for stay in sized((0.9, 0.95), (0.9,)):
        for n in sized((10, 30, 100), (10,)):
            for tau in (0.5, 1.0):
                began = time.perf_counter()
                found = audit_mechanism(
                    sticky(stay), "laplace:count:1", length=n, dp_epsilon=tau, calls=CALLS, seconds=sized(55, 0.5)
                )
                took = time.perf_counter() - began
                assert found.exact is not None
                report.row(f"stay {stay:g}, n = {n}, DP loss {tau:g}: exact", found.exact, "")
                report.row("  proved over exact", found.lower / found.exact, "", 0.8, at_least=True)
                report.row("  seconds", took, "s", 60)
    _outputs(report)


SECONDS = [float(part) for part in os.environ.get("PUFFERDP_BENCH_SECONDS", sized("60", "0.5")).split(",")]
"""Seconds of one core that each audit has: 20,40,60 shows how it grows."""
LENGTHS = sized((10, 30, 100), (10,))


def _outputs(report: Report) -> None:
    """Everything that is published elsewhere: what is counted in runs, over what is known to be true."""
    report.title("counted over exact, or over the tight curve, by seconds of one core; goal at 60")
    for name, make in CASES.items():
        for n in LENGTHS:
            for limit in SECONDS:
                case = make(n)
                if case is None:
                    print(f"{name}: left out, its library is missing")
                    break
                budget = Budget(1, 1.0, clock=processor_clock)
                began = time.perf_counter()
                audit = audit_mechanism(
                    case.model,
                    case.mechanism,
                    length=n,
                    dp_epsilon=case.loss,
                    dp_delta=case.delta,
                    calls=CALLS,
                    seconds=limit,
                    budget=budget,
                )
                took = time.perf_counter() - began
                if isinstance(case.mechanism, OutsideMechanism):
                    case.mechanism.close()
                assert limit < 20 or budget.elapsed <= 1.2 * limit
                _row(report, f"{name}, n = {n}", limit, audit, case, took)


def _row(report: Report, name: str, limit: float, audit: AuditReport, case: Case, took: float) -> None:
    goal = 0.9 if limit >= 60 else None
    most = case.exact if case.exact is not None else audit.exact if audit.exact is not None else audit.upper
    assert most is not None
    claim = f"claim {(audit.claim_lower or 0.0) / (audit.dp_epsilon or 1.0):.3f}"
    words = f"{name}, {limit:g} s ({audit.calls:,} runs, {took:.0f} s by the clock, {claim})"
    if case.delta and case.exact is None:  # nobody knows what it leaks beside a delta: its claim is what is exact
        report.row(
            f"{name}, {limit:g} s: the claim, over it", (audit.claim_lower or 0.0) / case.loss, "", goal, at_least=True
        )
        return
    report.row(words, audit.counted / most, "", goal, at_least=True)


@dataclass(frozen=True)
class Case:
    """A mechanism, its claim, and what it leaks where the audit does not say so itself."""

    model: MarkovChain
    mechanism: Any
    loss: float | None = None
    delta: float = 0.0
    exact: float | None = None


class Responses:
    """A stream: randomised response at every step, whose distribution an audit has to learn."""

    name, dp_loss = "randomised response", 1.0

    def __init__(self) -> None:
        self._generator = np.random.default_rng(5)

    def run(self, records: np.ndarray) -> np.ndarray:
        """A lie now and then."""
        lies = self._generator.random(records.shape) < 1 / (1 + np.e)
        return np.where(lies, 1 - records, records).astype(float)


class GaussianSums:
    """Gaussian noise on a count, or on a histogram, with the delta that it has at a DP loss (Balle & Wang 2018)."""

    name, dp_loss = "Gaussian", None

    def __init__(self, sigma: float, loss: float, states: int) -> None:
        self.sigma, self.states, self._generator = sigma, states, np.random.default_rng(6)
        ratio = sigma / (1.0 if states == 2 else math.sqrt(2))
        near, far = (sign / (2 * ratio) - loss * ratio for sign in (1, -1))
        self.delta = NormalDist().cdf(near) - math.exp(loss) * NormalDist().cdf(far)

    def run(self, records: np.ndarray) -> np.ndarray:
        """On a grid, as a sampler has it."""
        exact = np.stack([(records == x).sum(axis=1) for x in range(1 if self.states == 2 else 0, self.states)], axis=1)
        return np.round((exact + self._generator.normal(0.0, self.sigma, exact.shape)) * 2**20) / 2**20


def _gaussian_count(n: int) -> Case:
    noise = GaussianSums(4.0, 0.5, 2)
    follows = leakage_of(ACTIVITY, dp_epsilon=0.5, dp_delta=noise.delta, length=n)
    return Case(ACTIVITY, noise, 0.5, noise.delta, _beside(ACTIVITY, n, noise.sigma, follows.delta))


def _gaussian_histogram(n: int) -> Case:
    noise = GaussianSums(6.0, 0.5, 3)
    return Case(W, noise, 0.5, noise.delta)


def _beside(chain: MarkovChain, n: int, sigma: float, delta: float) -> float:
    """What a count with Gaussian noise leaks beside a delta, by half-lines of the output, to the worst adversary.

    Of two states whose records attract each other the likelihood ratio grows with the output, so no event says more.
    The distribution of the count given the target is the sum of its sides'; each side ends at a known state or with the
    series.
    """
    table, start, i = chain.transition, chain.stationary, n // 2
    distributions = []
    for steps, kernel in ((i, start[:, None] * table / start), (n - 1 - i, table.T)):
        # Backwards from the target: joint weights of (state, count) after each step; known ends stop it early.
        weights = np.zeros((2, 2, steps + 1))  # target, state, count
        weights[[0, 1], [0, 1], 0] = 1.0
        side = []
        for width in range(steps + 1):
            if width:
                moved = np.einsum("us,tsc->tuc", kernel, weights)
                weights = np.stack([moved[:, 0], np.roll(moved[:, 1], 1, axis=-1)], axis=1)
            if width == steps:
                side.append(weights.sum(axis=1))
            else:
                side += list(np.einsum("us,tsc->utc", kernel, weights))
        distributions.append([distribution / distribution.sum(axis=1, keepdims=True) for distribution in side])
    at = np.arange(-6 * sigma, n + 6 * sigma, sigma / 8)
    tail = np.array([[1 - NormalDist(c, sigma).cdf(y) for c in range(n + 1)] for y in at])
    best = 0.0
    for before in distributions[0]:
        for after in distributions[1]:
            counts = [np.convolve(before[x], after[x])[:n] for x in (0, 1)]
            over = tail[:, 1:] @ counts[1], tail[:, :-1] @ counts[0]
            for likelier, other in (over, (1 - over[1], 1 - over[0])):
                left = likelier > delta
                best = max(best, float(np.log((likelier[left] - delta) / other[left]).max()))
    return best


def _opendp(n: int, states: int) -> Case | None:
    try:
        import opendp.prelude as dp
    except ModuleNotFoundError:
        return None
    dp.enable_features("contrib")
    one = dp.atom_domain(T=float, nan=False)
    if states == 2:
        noise = dp.m.make_laplace(one, dp.absolute_distance(T=float), scale=2.0)
        exact = leakage_of(ACTIVITY, dp_epsilon=0.5, length=n, query="count:1").exact
        return Case(ACTIVITY, outside_mechanism(noise, query=lambda row: float(row.sum())), exact=exact)
    noise = dp.m.make_laplace(dp.vector_domain(one), dp.l1_distance(T=float), scale=2.0)
    counts = outside_mechanism(noise, d_in=2.0, query=lambda row: np.bincount(row, minlength=3).astype(float))
    return Case(W, counts)


def _diffprivlib(n: int) -> Case | None:
    try:
        import diffprivlib.mechanisms
    except ModuleNotFoundError:
        return None
    noise = outside_mechanism(diffprivlib.mechanisms.Laplace(epsilon=0.5, sensitivity=1), query="count:1")
    return Case(ACTIVITY, noise, exact=leakage_of(ACTIVITY, dp_epsilon=0.5, length=n, query="count:1").exact)


CASES: dict[str, Callable[[int], Case | None]] = {
    "flips of .1, two states that stay with .9": lambda n: Case(sticky(0.9), "flip:0.1,0.1"),
    "flips of .2, activity": lambda n: Case(ACTIVITY, "flip:0.2,0.2"),
    "changes of .3, three states": lambda n: Case(W, "flip:0.3"),
    "histogram, three states": lambda n: Case(W, "laplace:histogram", 1.0),
    "stream, activity": lambda n: Case(ACTIVITY, Responses()),
    "OpenDP count": lambda n: _opendp(n, 2),
    "OpenDP histogram": lambda n: _opendp(n, 3),
    "diffprivlib count": _diffprivlib,
    "Gaussian count": _gaussian_count,
    "Gaussian histogram": _gaussian_histogram,
}
