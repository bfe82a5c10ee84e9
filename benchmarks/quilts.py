"""Calibrating quilt-exact: the goals of the project, each next to what this run found."""

from __future__ import annotations

import numpy as np

from benchmarks.literal import literal_sigma
from benchmarks.timing import Report, ratio, seconds, sized
from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.quilts.chains import worst_of_chains, worst_record
from pufferdp.bounds.quilts.search import TOLERANCE, Score
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import MarkovClass
from pufferdp.publish.answers.mechanisms.quilt import QuiltExact
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query

STATES = sized(51, 5)
EPSILONS = sized((0.2, 1.0, 5.0), (1.0,))
LITERAL = sized(400, 20)
BOTH = (Adversary.PUFFERFISH, Adversary.BDP)


def uniform(stay: float) -> np.ndarray:
    """Stay with this probability, otherwise go anywhere."""
    return np.eye(STATES) * stay + (1 - np.eye(STATES)) * (1 - stay) / (STATES - 1)


def falling(stay: float) -> np.ndarray:
    """Stay with this probability, otherwise go to j with weight ½^|i−j|."""
    i = np.arange(STATES)
    weight = 0.5 ** np.abs(i[:, None] - i[None, :])
    np.fill_diagonal(weight, 0.0)
    return np.eye(STATES) * stay + weight * (1 - stay) / weight.sum(axis=1, keepdims=True)


def calibrate(P: np.ndarray, start: object, T: int, epsilon: float, adversary: Adversary) -> float:
    """A chain nobody has seen before: nothing is cached from an earlier call."""
    chain = MarkovChain(transition=P, start=start)
    found = worst_record(chain, T, Score(epsilon), adversary)
    assert found is not None
    return found.value


def run(report: Report) -> None:
    """All of it."""
    calibrate(uniform(0.5), "stationary", 10**6, 1.0, Adversary.BDP)  # warm: imports, BLAS threads
    families = (
        ("stay .8, rest uniform", uniform(0.8), 0.5),
        ("stay .95, rest uniform", uniform(0.95), 0.5),
        ("stay .8, rest falling", falling(0.8), 2.0),
        ("stay .95, rest falling", falling(0.95), 3.0),
    )
    report.title("quilt-exact, 51 states, T = 10^6, stationary start: seconds, a new chain each time")
    for name, P, goal in families:
        for epsilon in EPSILONS:
            for adversary in BOTH:
                took = seconds(lambda P=P, e=epsilon, a=adversary: calibrate(P, "stationary", 10**6, e, a))
                report.row(f"{name}, epsilon {epsilon:g}, {adversary}", took, "s", goal)

    report.title("cost must not grow with T: T = 10^6 over T = 10^4 (chains that have mixed by then)")
    for name, P, _ in families[:3]:
        for adversary in BOTH:
            long, short = (lambda T=T, P=P, a=adversary: calibrate(P, "stationary", T, 1.0, a) for T in (10**6, 10**4))
            report.row(f"{name}, {adversary}", ratio(long, short), "times", 2.0)

    report.title("a given start (all mass on one state) over stationary, T = 10^6")
    for name, P, _ in families:
        for adversary in BOTH:
            for epsilon in EPSILONS:
                given, usual = (
                    lambda s=start, P=P, e=epsilon, a=adversary: calibrate(P, s, 10**6, e, a)
                    for start in (np.eye(STATES)[0], "stationary")
                )
                report.row(f"{name}, epsilon {epsilon:g}, {adversary}", ratio(given, usual), "times", 20.0)

    report.title("against the paper's Algorithm 3, literal and compiled: 4 states, T = 400, epsilon 1")
    generator = np.random.default_rng(4)
    P, start = 0.7 * np.eye(4) + 0.3 * generator.dirichlet(np.ones(4), size=4), generator.dirichlet(np.ones(4))
    literal_sigma(P, start, 20, 1.0)  # compile
    slow, fast = literal_sigma(P, start, LITERAL, 1.0), calibrate(P, start, LITERAL, 1.0, Adversary.PUFFERFISH)
    times = ratio(
        lambda: literal_sigma(P, start, LITERAL, 1.0),
        lambda: calibrate(P, start, LITERAL, 1.0, Adversary.PUFFERFISH),
        3,
    )
    report.row("literal over ours", times, "times", 5.0, at_least=True)
    report.row("relative difference of the two answers", abs(slow - fast) / slow, "", 3 * TOLERANCE)

    report.title("a class: the 81×81 grid of two-state chains, T = 100, any start")
    grid = np.arange(10, 91, sized(1, 40)) / 100
    models = tuple(MarkovChain(transition=[[a, 1 - a], [1 - b, b]], start="any") for a in grid for b in grid)
    for adversary in BOTH:
        problem = Problem(
            model=MarkovClass(models=models),
            query=Query.parse("count:1"),
            lengths=((100, 1),),
            epsilon=1.0,
            adversary=adversary,
        )
        took = seconds(lambda p=problem: (worst_of_chains.cache_clear(), QuiltExact().calibrate(p)), 3)
        report.row(f"6,561 chains, {adversary}", took, "s", 5.0)
