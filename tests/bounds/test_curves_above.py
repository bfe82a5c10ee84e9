"""Every curve that applies lies above what a DP algorithm leaks, by enumeration of all adversaries.

Three algorithms with a DP loss of tau on a count: Laplace noise, discrete Laplace noise, and randomised response of
each record. Models are random chains, families, groups and networks, the ugly ones included.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.curves import curves
from tests.oracles.leakage import (
    channel_leakage,
    flipped_channel,
    geometric_channel,
    laplace_channel,
    path_distribution,
)
from tests.publish.answers.mechanisms.record_suite import case_of
from tests.publish.answers.mechanisms.suite import literal_start
from tests.strategies import chains, examples, groups, networks, pedigrees

ALGORITHMS = {"laplace": laplace_channel, "geometric": geometric_channel, "flipped": flipped_channel}
TAUS = st.sampled_from([0.01, 0.2, 1.0, 3.0])
ADVERSARIES = st.sampled_from([Adversary.BDP, Adversary.PUFFERFISH])


def above(model, longest, distribution, counts, tau, adversary) -> dict[str, float]:
    """Check the curves of a model; returns their values."""
    found = {n: c(tau) for n, c in curves(model, longest, adversary).items() if c.applies}
    assert "general" in found
    for name, channel in ALGORITHMS.items():
        leak = channel_leakage(distribution, channel(counts, tau), adversary)
        for curve, value in found.items():
            # Enumeration and curve are both sums in doubles: 1e-9 is above what they round.
            assert leak <= value * (1 + 1e-9) + 1e-9, (name, curve)
    if "quilt" in found:
        for other in ("general", "markov", "zhao"):
            # Influences are rounded up, by less than this.
            assert found["quilt"] <= found.get(other, np.inf) * (1 + 1e-10) + 1e-10, other
    return found


@given(chain=chains(3, ("stationary", "given")), n=st.integers(1, 5), tau=TAUS, adversary=ADVERSARIES)
@settings(max_examples=examples(200))
def test_over_chains(chain, n, tau, adversary):
    assume(chain.size > 1)
    counts = (np.indices((chain.size,) * n) == 0).sum(axis=0)
    found = above(chain, n, path_distribution(chain.transition, literal_start(chain), n), counts, tau, adversary)
    assert "quilt" in found


@pytest.mark.parametrize(
    ("models", "names"),
    [(pedigrees(5), {"general", "pedigree"}), (groups(2, 3), {"general"}), (networks(4), {"general"})],
    ids=["families", "groups", "networks"],
)
@given(tau=TAUS, adversary=ADVERSARIES, data=st.data())
@settings(max_examples=examples(100))
def test_over_records(models, names, tau, adversary, data):
    model = data.draw(models)
    case = case_of(model, f"count:{data.draw(st.sampled_from(model.labels))}")
    found = above(model, None, case.joint.astype(float), case.answers[..., 0], tau, adversary)
    assert names <= set(found)


@pytest.mark.parametrize("channel", ALGORITHMS)
@pytest.mark.parametrize("tau", [0.3, 2.0])
def test_the_algorithms_have_the_dp_loss_they_are_said_to_have(channel, tau):
    """All values possible and all others known: never above tau, and for one record tau itself."""
    for n in (1, 2, 4):
        counts = (np.indices((2,) * n) == 0).sum(axis=0)
        found = channel_leakage(np.full((2,) * n, 0.5**n), ALGORITHMS[channel](counts, tau), "dp")
        assert found <= tau * (1 + 1e-9)
        assert n > 1 or found == pytest.approx(tau, rel=1e-9)
