"""Audits of counts, flips, histograms and streams: how much is proved in a minute; how fast data is drawn.

One number a case: the leakage that was counted over the exact one, or over its upper bound where nobody knows it. The
goals are .8 for counts, .9 for outputs of many numbers, within 60 seconds on two cores.
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
                    sticky(stay), "laplace:count:1", length=n, dp_epsilon=tau, calls=CALLS, seconds=sized(55, 2)
                )
                took = time.perf_counter() - began
                assert found.exact is not None
                report.row(f"stay {stay:g}, n = {n}, DP loss {tau:g}: exact", found.exact, "")
                report.row("  proved over exact", found.lower / found.exact, "", 0.8, at_least=True)
                report.row("  seconds", took, "s", 60)
    _vectors(report)


class Responses:
    """A stream: randomised response at every step, whose law an audit has to learn."""

    name, dp_loss = "randomised response", 1.0

    def __init__(self) -> None:
        self._generator = np.random.default_rng(5)

    def run(self, records: np.ndarray) -> np.ndarray:
        """A lie now and then."""
        lies = self._generator.random(records.shape) < 1 / (1 + np.e)
        return np.where(lies, 1 - records, records).astype(float)


def _vectors(report: Report) -> None:
    report.title(f"outputs of many numbers, every adversary: counted over exact or at most, {CALLS:,} runs at most")
    for n in sized((10, 30, 100), (10,)):
        for name, model, mechanism, loss in (
            ("flips of .1, stay .9", sticky(0.9), "flip:0.1,0.1", None),
            ("flips of .2, activity", ACTIVITY, "flip:0.2,0.2", None),
            ("histogram, three states", W, "laplace:histogram", 1.0),
            ("stream, activity", ACTIVITY, Responses(), None),
        ):
            began = time.perf_counter()
            audit = audit_mechanism(model, mechanism, length=n, dp_epsilon=loss, calls=CALLS, seconds=sized(55, 2))
            took = time.perf_counter() - began
            most = audit.upper if audit.exact is None else audit.exact
            assert most is not None
            report.row(f"{name}, n = {n}: counted over at most", audit.counted / most, "", 0.9, at_least=True)
            report.row("  with what is computed", audit.lower / most, "")
            report.row("  seconds", took, "s", 60)
