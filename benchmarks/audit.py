"""Audits of counts, flips, histograms and streams: how much is proved in a minute; how fast data is drawn.

One number a case: the leakage that was counted over the exact one, or over its upper bound where nobody knows it. The
goals are .8 for counts, .9 for outputs of many numbers, within 60 seconds on two cores.
"""

from __future__ import annotations

import math
import time
from statistics import NormalDist

import numpy as np

from benchmarks.timing import Report, seconds, sized
from pufferdp import leakage_of, outside_mechanism
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
    _libraries(report)


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


class GaussianCount:
    """Gaussian noise on a count, with the delta that it has at a DP loss of 1 (Balle & Wang 2018)."""

    name, dp_loss, sigma = "Gaussian count", None, 1.0

    def __init__(self) -> None:
        self._generator = np.random.default_rng(6)
        near, far = (sign / (2 * self.sigma) - self.sigma for sign in (1, -1))
        self.delta = NormalDist().cdf(near) - math.e * NormalDist().cdf(far)

    def run(self, records: np.ndarray) -> np.ndarray:
        """On a grid, as a sampler has it."""
        exact = records.sum(axis=1, keepdims=True)
        return np.round((exact + self._generator.normal(0.0, self.sigma, exact.shape)) * 2**20) / 2**20


def _libraries(report: Report) -> None:
    """Noise of other libraries, called from Python once a run: only what they publish is seen."""
    try:
        import diffprivlib.mechanisms
        import opendp.prelude as dp
    except ModuleNotFoundError:
        print("\nother libraries: left out, diffprivlib or opendp is missing")
        return
    dp.enable_features("contrib")
    noise = dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=2.0)
    report.title("counts of other libraries, DP loss .5, activity, 20 records: counted over exact")
    exact = leakage_of(ACTIVITY, dp_epsilon=0.5, length=20, query="count:1").exact
    assert exact is not None
    for name, mechanism in (
        ("diffprivlib", outside_mechanism(diffprivlib.mechanisms.Laplace(epsilon=0.5, sensitivity=1), query="count:1")),
        ("OpenDP", outside_mechanism(noise, query=lambda row: float(row.sum()))),
    ):
        found = audit_mechanism(ACTIVITY, mechanism, length=20, calls=CALLS, seconds=sized(55, 2))
        mechanism.close()
        report.row(name, found.counted / exact, "", 0.9, at_least=True)
    gaussian = GaussianCount()
    report.title(f"Gaussian counts, DP loss 1 with delta {gaussian.delta:.3g}: what is proved of the claim, over it")
    audit = audit_mechanism(
        sticky(0.9), gaussian, length=10, dp_epsilon=1.0, dp_delta=gaussian.delta, calls=CALLS, seconds=sized(55, 2)
    )
    assert not audit.refuted
    report.row("n = 10", audit.claim_lower or 0.0, "", 0.9, at_least=True)
