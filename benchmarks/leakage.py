"""Exact leakage and the quilt curve: how long they take, the estimate by simulation beside them, and the optimum.

``PUFFERDP_FULL=1 python -m benchmarks leakage`` simulates all adversaries of the thesis, some minutes; otherwise 20.
"""

from __future__ import annotations

import os
from functools import partial

import numpy as np

from benchmarks import optimum
from benchmarks.quilts import STATES, falling
from benchmarks.timing import Report, ratio, seconds, sized
from pufferdp.assess.audit.mechanisms.ours import NoisyQuery
from pufferdp.assess.audit.priors import ChainPrior
from pufferdp.assess.dp import leakage_of
from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.additive.windows import Leakage, WindowLeakage
from pufferdp.bounds.curve_forms import Curve
from pufferdp.bounds.curves import curve
from pufferdp.bounds.inverse import largest_loss
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.answers.queries import Query
from pufferdp_papers.thesis.density import ADVERSARIES, DRAWS, simulate_leakage

ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
GAMMA = 5
SIMULATED = {
    "activity": ACTIVITY,
    f"[[γ,1],[1,γ]]/(γ+1), γ = {GAMMA}": MarkovChain(transition=np.array([[GAMMA, 1], [1, GAMMA]]) / (GAMMA + 1)),
}
FEW = sized(20, 1)


def exact(chain: MarkovChain, n: int, tau: float) -> Leakage:
    """A window nobody has used before; the chain is known."""
    return WindowLeakage(chain, n, [0, 1]).at(tau)


def least_scale(n: int) -> float:
    """The scale for epsilon 1, every adversary, as the leakage verb finds it."""
    loss = leakage_of(ACTIVITY, target=1.0, length=n, query="count:1").exact
    assert loss is not None
    return 1 / loss


def least_scale_by_bisection(n: int) -> float:
    """The same to the same accuracy, halving the bracket: what the search for a root is measured against."""
    window, low, high = WindowLeakage(ACTIVITY, n, [0, 1]), 0.0, 1.0
    while high > low * (1 + 1e-7):
        middle = (low + high) / 2
        low, high = (middle, high) if window.at(middle).upper <= 1.0 else (low, middle)
    return 1 / low


def least_scale_by_root(n: int) -> float:
    """By Brent's method."""
    window = WindowLeakage(ACTIVITY, n, [0, 1])
    return 1 / largest_loss(lambda tau: window.at(tau).upper, 1.0, 1e-7)


def quilt_curve(P: np.ndarray) -> Curve:
    """The curve of a chain nobody has seen before: nothing is cached from an earlier call."""
    return curve("quilt", MarkovChain(transition=P), 10**6, Adversary.BDP)


def estimate(chain: MarkovChain, n: int, tau: float, count: int) -> float:
    """The thesis's estimate of so many adversaries."""
    generator = np.random.default_rng(1)
    query = Query.parse("count:1")
    noisy = NoisyQuery(model=chain, query=query, records=n, dp_loss=tau, generator=generator)
    return simulate_leakage(noisy, ChainPrior(chain, n), generator, adversaries=count)


def simulate(report: Report, name: str, chain: MarkovChain, tau: float, count: int) -> None:
    """The exact number, the estimate of so many adversaries, and the time of both."""
    truth, estimates = exact(chain, 10, tau).lower, []
    took = seconds(lambda: estimates.append(estimate(chain, 10, tau, count)), 1)
    report.row(f"{name}: exact", truth, "")
    report.row("  seconds", seconds(partial(exact, chain, 10, tau), 200), "s")
    report.row(f"  estimate of {count} adversaries", estimates[0], "")
    report.row("  its error", estimates[0] - truth, "")
    report.row("  seconds", took, "s")
    if count < ADVERSARIES:
        whole = took * ADVERSARIES / count
        report.row(f"  extrapolated to {ADVERSARIES} adversaries, not measured", whole, "s")


def run(report: Report) -> None:
    """All of it."""
    exact(ACTIVITY, 10, 1.0)  # warm: imports, BLAS threads
    report.title("exact leakage of a count, activity chain, every adversary: seconds")
    for n, goal, repeats in ((10, 1e-3, 1000), (288, 0.3, 20), (sized(10**6, 400), 0.5, 20)):
        for tau in (0.25, 1.0):
            took = seconds(partial(exact, ACTIVITY, n, tau), repeats)
            report.row(f"n = {n:,}, DP loss {tau:g}", took, "s", goal)
    found = exact(ACTIVITY, 10**6, 0.25)
    report.row("n = 1,000,000, DP loss 0.25: width of the bracket", found.upper - found.lower, "", 1e-9)

    report.title("the least scale of a count, activity chain, epsilon 1, every adversary")
    for n in sized((288, 15264), (288,)):
        report.row(f"n = {n:,}, curves included", seconds(partial(least_scale, n), 3), "s", 2.0)
        report.row("  the scale itself, off 3.9948", abs(least_scale(n) - 3.9948), "", 5e-5)
    times = ratio(partial(least_scale_by_bisection, 288), partial(least_scale_by_root, 288), 3)
    report.row("bisection over Brent's method, n = 288", times, "times", 1.5, at_least=True)

    report.title(f"quilt curve, {STATES} states, n = 10^6, every adversary: seconds, a new chain each time")
    i = np.arange(STATES)
    weight = 0.5 ** np.abs(i[:, None] - i)
    chains = {
        "stay .8, rest falling": falling(0.8),
        "stay .95, rest falling": falling(0.95),
        "all falling as ½^|i−j|": weight / weight.sum(axis=1, keepdims=True),
    }
    for name, P in chains.items():
        for tau in sized((0.001, 0.01, 0.1, 1.0), (0.1,)):
            report.row(f"{name}, at {tau:g}", seconds(lambda P=P, tau=tau: quilt_curve(P)(tau), 3), "s", 0.5)
        report.row(f"{name}, inverse at 1", seconds(lambda P=P: quilt_curve(P).inverse(1.0), 3), "s", 0.5)

    everyone = os.environ.get("PUFFERDP_FULL") == "1"
    count = ADVERSARIES if everyone else FEW
    report.title(f"simulation of Lange 2024, n = 10: {count} adversaries × {DRAWS:,} draws")
    for name, chain in SIMULATED.items():
        for tau in sized((0.5, 1.0, 2.0), (1.0,)):
            simulate(report, f"{name}, DP loss {tau:g}", chain, tau, count)
    optimum.run(report)
