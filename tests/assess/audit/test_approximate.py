"""Claims with a delta: right Gaussian mechanisms are never accused, wrong ones are caught, and delta is paid for.

Seeds are fixed. With fresh seeds a right mechanism would be accused in at most 5 % of audits, as their confidence says;
choosing events on other runs makes that far less.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from pufferdp import MarkovChain, ParameterError, audit_mechanism, leakage_of
from pufferdp.assess.audit.events import Bound, careful_ratio, choose_event

CHAIN = MarkovChain(transition=[[0.9, 0.1], [0.1, 0.9]], states=["rest", "active"])


class NoisyCount:
    """Gaussian noise on a count; drawn anew in each run."""

    name, dp_loss = "gaussian count", None

    def __init__(self, sigma: float, seed: int = 1) -> None:
        self.sigma, self._generator = sigma, np.random.default_rng(seed)

    def run(self, records):
        exact = records.sum(axis=1, keepdims=True)
        return np.round((exact + self._generator.normal(0.0, self.sigma, exact.shape)) * 2**20) / 2**20


class OftenExact(NoisyCount):
    """The exact count in a share of the runs: (0, share)-DP worse than the rest."""

    def __init__(self, sigma: float, share: float, seed: int = 1) -> None:
        super().__init__(sigma, seed)
        self.share = share

    def run(self, records):
        noisy = super().run(records)
        exact = records.sum(axis=1, keepdims=True)
        return np.where(self._generator.random(exact.shape) < self.share, exact + 1000.0, noisy)


def gaussian_delta(epsilon: float, sigma: float) -> float:
    """Balle & Wang 2018, for a count, which one record moves by 1."""
    near, far = 1 / (2 * sigma) - epsilon * sigma, -1 / (2 * sigma) - epsilon * sigma
    return float(norm.cdf(near) - math.exp(epsilon) * norm.cdf(far))


def audit(mechanism, dp_epsilon, dp_delta, **more):
    asked = {"length": 8, "calls": 40_000, "seconds": 60, "seed": 3, **more}
    return audit_mechanism(CHAIN, mechanism, dp_epsilon=dp_epsilon, dp_delta=dp_delta, **asked)


@pytest.mark.parametrize("epsilon", [0.5, 1.5])
def test_right_mechanisms_are_never_accused(epsilon):
    """The delta is exactly that of the noise: the claim could not be stronger."""
    found = audit(NoisyCount(1.0), epsilon, gaussian_delta(epsilon, 1.0))
    assert not found.refuted, found
    follows = leakage_of(CHAIN, dp_epsilon=epsilon, dp_delta=found.dp_delta, length=8)
    assert (found.upper, found.upper_delta, found.curve) == (follows.epsilon, follows.delta, "tight")


def test_the_same_noise_is_caught_where_it_claims_no_delta():
    """Gaussian noise is not pure DP, and its tails show it."""
    assert audit(NoisyCount(0.5), 1.0, 0.0).refuted
    assert not audit(NoisyCount(0.5), 1.0, gaussian_delta(1.0, 0.5)).refuted


def test_too_little_noise_is_caught():
    delta = gaussian_delta(1.0, 1.0)
    found = audit(NoisyCount(0.5), 1.0, delta)
    assert found.refuted
    assert found.claim_lower > 1.0
    assert "The claim is wrong" in str(found)
    assert found.to_dict()["claim"] == {
        "dp_epsilon": 1.0,
        "dp_delta": delta,
        "lower": found.claim_lower,
        "refuted": True,
    }


def test_an_exact_answer_now_and_then_is_what_a_delta_is_for():
    """A share of 5 % of exact answers breaks delta 1 % and keeps delta 10 %."""
    wide = gaussian_delta(1.0, 2.0)
    assert audit(OftenExact(2.0, 0.05, seed=2), 1.0, wide + 0.01, calls=80_000).refuted
    assert not audit(OftenExact(2.0, 0.05), 1.0, wide + 0.1).refuted


def test_the_delta_is_taken_off_before_the_ratio():
    """By a grid over pairs that the test believes: the least log((p − delta)/p'); nothing is left of a rare event."""
    counts = {"hits": (300, 100), "runs": (10_000, 10_000), "delta": 0.05}
    shares = np.linspace(0.005, 0.045, 1201)
    reached = norm.isf(binom.sf(300 - 1, 10_000, shares)), norm.isf(binom.cdf(100, 10_000, shares))
    together = np.add.outer(*reached) / math.sqrt(2) <= norm.isf(0.9 * 0.05)
    prior = together & np.logical_and.outer(*(z <= norm.isf(0.05 * 0.05) for z in reached))
    for delta in (0.0, 0.001, 0.02):
        with np.errstate(divide="ignore"):
            leaks = np.subtract.outer(np.log(np.maximum(shares - delta, 0.0)), np.log(shares))
        found = Bound(**counts, slack=delta).lower
        assert found == pytest.approx(max(0.0, float(leaks[prior].min())), abs=0.01)
    assert Bound(hits=(300, 0), runs=(10_000, 10_000), delta=0.05, slack=0.05).lower == 0.0


def test_rare_events_are_not_chosen_where_delta_covers_them():
    generator = np.random.default_rng(0)
    first, second = (generator.normal(shift, 1.0, (40_000, 1)) for shift in (1.0, 0.0))
    pure = choose_event(first, second, 40_000)
    slack = choose_event(first, second, 40_000, slack=0.05)
    shares = [float(choice.event(first).mean()) for choice in (pure, slack)]
    assert shares[0] < 0.05 < 0.1 < shares[1]
    assert pure.score > slack.score
    assert choose_event(first, second, 40_000, slack=0.9) is None
    counts = np.array([10.0]), np.array([5.0])
    assert careful_ratio(*counts, 100, 100, 0.0, slack=0.2)[0] == -math.inf


def test_bad_claims_are_refused():
    for delta, words in ((1.0, "dp_delta is 1"), (-0.1, "dp_delta is -0.1"), (math.nan, "dp_delta is nan")):
        with pytest.raises(ParameterError, match=words):
            audit(NoisyCount(1.0), 1.0, delta)
    with pytest.raises(ParameterError, match="give dp_epsilon="):
        audit(NoisyCount(1.0), None, 1e-3)
