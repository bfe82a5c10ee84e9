"""Coverage of model-based estimates on held-out data: near 95 % under the true model, low where memory is longer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

import pufferdp
from pufferdp import MarkovChain
from pufferdp.publish.fits.coverage import estimate_coverage
from pufferdp.publish.fits.lower_bound import Records, number_blocks
from pufferdp.publish.noise import SeededSampler

CHAIN = MarkovChain(transition=[[0.9, 0.1], [0.2, 0.8]], states=["rest", "active"])


def path(active: Sequence[float], stay: float, records: int, seed: int) -> np.ndarray:
    """Records that are active with a probability that depends on a regime; regimes last 1/(1 − stay) records."""
    random = np.random.default_rng(seed)
    regime = np.cumsum(random.random(records) > stay) % len(active)
    return (random.random(records) < np.array(active)[regime]).astype(np.int64)


def first_order(records: int, seed: int) -> np.ndarray:
    """A path of the chain."""
    random, state, out = np.random.default_rng(seed), 0, np.zeros(records, dtype=np.int64)
    for n, draw in enumerate(random.random(records)):
        out[n] = state
        state = int(draw < CHAIN.transition[state][1])
    return out


def blocks(codes: np.ndarray) -> Records:
    """One series without interruptions."""
    return Records(codes=codes, joined=np.arange(len(codes)) > 0, blocks=number_blocks(codes * 0))


@pytest.mark.parametrize("scale", [1.0, 8.0, 40.0])
def test_the_true_model_covers_as_it_says(scale: float) -> None:
    """400 releases of 40 independent blocks: below 90 % with probability 0.001 for a true coverage of 95 %."""
    found = estimate_coverage(CHAIN, blocks(first_order(20_000, 5)), {1: scale}, 1.0)
    assert found is not None and 0.9 <= found <= 1.0


def test_a_model_without_the_long_memory_of_the_data_does_not_cover() -> None:
    codes = path([0.1, 0.9], 0.998, 20_000, 3)
    share = float(codes.mean())
    independent = MarkovChain(transition=[[1 - share, share]] * 2, states=["rest", "active"])
    found = estimate_coverage(independent, blocks(codes), {1: 40.0}, 1.0)
    assert found is not None and found < 0.5


def test_estimates_are_left_out_where_they_do_not_cover() -> None:
    states = np.array(["rest", "active"])[path([0.1, 0.9], 0.998, 8_000, 4)]
    rows = pl.DataFrame({"t": range(8_000), "s": states})
    model = pufferdp.fit(rows, column="s", order="t", family="chain").model
    assert isinstance(model, MarkovChain) and model.checks is not None
    assert model.checks["effective_leakage"]["coverage"] < 0.9
    asked = {"column": "s", "order": "t", "query": "count:active", "epsilon": 1.0, "accept_misfit": True}
    done = pufferdp.release(rows.head(500), model=model, sampler=SeededSampler(1), **asked)
    assert done.model_estimate is None
    assert "No model-based estimate: on held-out data its 95 % credible intervals" in " ".join(str(done).split())
    assert pufferdp.verify(done.certificate).valid


def test_estimates_are_shown_where_they_cover() -> None:
    rows = pl.DataFrame({"t": range(6_000), "s": np.array(["rest", "active"])[first_order(6_000, 6)]})
    model = pufferdp.fit(rows, column="s", order="t", family="chain").model
    assert isinstance(model, MarkovChain) and model.checks is not None
    assert model.checks["effective_leakage"]["coverage"] >= 0.9
    done = pufferdp.release(rows.head(500), model=model, column="s", order="t", query="count:active", epsilon=1.0)
    assert done.model_estimate is not None
