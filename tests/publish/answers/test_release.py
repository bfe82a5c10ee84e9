"""A release from every kind of frame to a certificate that verifies."""

from __future__ import annotations

import itertools
import math

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from pufferdp import MarkovChain, NotApplicableError, Query, plan, release, verify
from pufferdp.basics.errors import QueryError
from pufferdp.publish.noise import SeededSampler
from tests.strategies import examples

CHAIN = MarkovChain(transition=[[0.7, 0.3], [0.4, 0.6]], states=["rest", "active"], values=[1.0, 4.0])
GENERATOR = np.random.default_rng(11)
STATES = [CHAIN.labels[j] for j in GENERATOR.integers(2, size=400)]
FRAME = pd.DataFrame({"t": range(400), "state": STATES})


class NoNoise:
    """A sampler that returns the exact answer: only tests can see it."""

    warning = None

    def discrete_laplace(self, exact, scale):
        return list(exact)

    def laplace(self, exact, scale):
        return list(exact)


def frames(tmp_path):
    FRAME.to_csv(tmp_path / "f.csv", index=False)
    FRAME.to_parquet(tmp_path / "f.parquet")
    return {
        "csv": tmp_path / "f.csv",
        "parquet": str(tmp_path / "f.parquet"),
        "pandas": FRAME,
        "polars": pl.from_pandas(FRAME),
        "pyarrow": pa.Table.from_pandas(FRAME),
        "duckdb": duckdb.from_df(FRAME),
    }


@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas", "polars", "pyarrow", "duckdb"])
def test_every_source_gives_the_same_answer_and_certificate(kind, tmp_path):
    done = release(
        frames(tmp_path)[kind],
        model=CHAIN,
        column="state",
        order="t",
        query="histogram",
        epsilon=1.0,
        sampler=NoNoise(),
    )
    assert done.answer == [STATES.count("rest"), STATES.count("active")]
    assert verify(done.certificate).valid


@pytest.mark.parametrize(
    ("query", "exact"),
    [
        ("count:active", STATES.count("active")),
        ("frequency", [STATES.count("rest") / 400, STATES.count("active") / 400]),
        ("sum", STATES.count("rest") * 1.0 + STATES.count("active") * 4.0),
        ("mean", (STATES.count("rest") * 1.0 + STATES.count("active") * 4.0) / 400),
    ],
)
def test_queries(query, exact):
    done = release(FRAME, model=CHAIN, column="state", order="t", query=query, epsilon=1.0, sampler=NoNoise())
    assert done.answer == pytest.approx(exact, rel=1e-12)
    # One draw is zero with a probability of at most .13 (the count, scale 4); fifteen are with one below 1e-13.
    draws = (release(FRAME, model=CHAIN, column="state", order="t", query=query, epsilon=1.0) for _ in range(15))
    noisy = next(draw for draw in draws if draw.answer != done.answer)
    assert verify(noisy.certificate).valid
    scale = plan(CHAIN, query, epsilon=1.0, length=400).best.calibration.scale
    assert noisy.certificate.noise.scale == pytest.approx(scale, rel=1e-12)


def test_own_function_with_a_declared_constant():
    def switches(chains):
        return sum(int((c[1:] != c[:-1]).sum()) for c in chains)

    done = release(
        FRAME,
        model=CHAIN,
        column="state",
        order="t",
        query=Query.of_function(switches, 2.0),
        epsilon=1.0,
        sampler=NoNoise(),
    )
    assert done.answer == sum(a != b for a, b in itertools.pairwise(STATES))
    assert done.certificate.query.lipschitz == 2.0
    assert any("declared" in w for w in done.certificate.warnings)
    assert verify(done.certificate).valid
    with pytest.raises(QueryError, match="finite"):
        release(FRAME, model=CHAIN, column="state", query=Query.of_function(lambda c: math.nan, 1.0), epsilon=1.0)


def test_bins_and_clip_on_raw_numbers():
    frame = pd.DataFrame({"watt": [10.0, 250.0, 399.5, 120.0, 400.0, 0.0]})
    model = MarkovChain(transition=[[0.7, 0.3], [0.4, 0.6]], bins=[0, 200, 400])
    counted = release(frame, model=model, column="watt", query="histogram", epsilon=1.0, sampler=NoNoise())
    assert counted.answer == [3, 3]
    summed = release(frame, model=model, column="watt", query="sum", clip=(0, 300), epsilon=1.0, sampler=NoNoise())
    assert summed.answer == pytest.approx(10 + 250 + 300 + 120 + 300, abs=1e-5)
    assert summed.certificate.query.lipschitz == 300
    assert verify(summed.certificate).valid
    plain = MarkovChain(transition=[[0.7, 0.3], [0.4, 0.6]])
    again = release(
        frame, model=plain, column="watt", bins="width:200", query="histogram", epsilon=1.0, sampler=NoNoise()
    )
    assert again.answer == [3, 3]
    assert again.certificate.model["bins"] == [0, 200, 400]


def test_people_and_restarts_make_independent_chains():
    frame = pd.DataFrame(
        {"who": ["a"] * 6 + ["b"] * 3, "t": [0, 1, 2, 10, 11, 12, 0, 1, 2], "state": (["rest", "active", "rest"] * 3)}
    )
    asked = {"column": "state", "order": "t", "by": "who", "query": "histogram", "epsilon": 1.0, "independent": True}
    done = release(frame, model=CHAIN, restart=5, **asked)
    assert done.certificate.data.lengths == [[3, 3]]
    given = MarkovChain(transition=CHAIN.transition, states=CHAIN.states, start=[0.5, 0.5])
    with pytest.raises(NotApplicableError, match="after a gap"):
        release(frame, model=given, restart=5, **asked)
    release(frame, model=given, **asked)


def test_estimates_could_be_true():
    for seed in range(1, 1 + examples(8)):
        done = release(FRAME, model=CHAIN, column="state", query="histogram", epsilon=0.05, sampler=SeededSampler(seed))
        assert min(done.estimate) >= 0
        assert sum(done.estimate) == pytest.approx(400)
        one = release(FRAME, model=CHAIN, column="state", query="count:rest", epsilon=0.05, sampler=SeededSampler(seed))
        assert 0 <= one.estimate <= 400
        part = release(FRAME, model=CHAIN, column="state", query="mean", epsilon=0.05, sampler=SeededSampler(seed))
        assert 1 <= part.estimate <= 4


def test_a_mechanism_that_does_not_apply_is_refused():
    with pytest.raises(NotApplicableError, match="per-record-dp does not apply"):
        release(FRAME, model=CHAIN, column="state", query="histogram", epsilon=1.0, mechanism="per-record-dp")
