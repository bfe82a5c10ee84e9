"""Audits of noisy counts on sticky chains: how much of the exact leakage is proved in a minute; how fast data is drawn.

One number a case: the proved leakage over the exact one. The goal is .8 within 60 seconds on two cores.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.timing import Report, seconds, sized
from pufferdp.assess.audit.audit import audit_mechanism
from pufferdp.models.chain import MarkovChain
from pufferdp.models.simulate import sample_chain

CALLS = sized(40_000_000, 20_000)
STEPS = sized(2_000_000, 2000)


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
                    sticky(stay), "laplace:count:1", length=n, dp_epsilon=tau, calls=CALLS, seconds=sized(55, 2)
                )
                took = time.perf_counter() - began
                assert found.exact is not None
                report.row(f"stay {stay:g}, n = {n}, DP loss {tau:g}: exact", found.exact, "")
                report.row("  proved over exact", found.lower / found.exact, "", 0.8, at_least=True)
                report.row("  seconds", took, "s", 60)
