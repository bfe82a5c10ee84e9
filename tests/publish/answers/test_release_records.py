"""Releases about named records: frames of every kind, queries of every kind, certificates that verify."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from pufferdp import (
    AnyGroups,
    BayesianNetwork,
    JointTable,
    MarkovChain,
    Node,
    ParameterError,
    Query,
    Secret,
    Secrets,
    answer_distribution,
    plan,
    release,
    verify,
)
from pufferdp.basics.errors import DataError
from pufferdp.publish.noise import SeededSampler
from tests.publish.answers.test_release import NoNoise
from tests.strategies import examples

NETWORK = BayesianNetwork(
    nodes=(
        Node(name="smoke", states=("no", "yes"), table=[0.7, 0.3]),
        Node(name="cough", states=("no", "yes"), parents=("smoke",), table=[[0.9, 0.1], [0.4, 0.6]]),
        Node(name="fever", states=("none", "mild", "high"), parents=("smoke",), table=[[0.8, 0.1, 0.1]] * 2),
        Node(name="bed", states=("no", "yes"), parents=("cough", "fever"), table=np.full((2, 3, 2), 0.5)),
    ),
    values={"no": 0, "yes": 1, "none": 0, "mild": 1.5, "high": 3},
)
ROWS = pd.DataFrame({"who": ["fever", "bed", "smoke", "cough"], "state": ["mild", "no", "yes", "yes"]})
EXACT = {"count:yes": 2, "histogram": [1, 2, 0, 1, 0], "frequency": [0.25, 0.5, 0, 0.25, 0], "sum": 3.5, "mean": 0.875}


@pytest.mark.parametrize("query", EXACT)
@pytest.mark.parametrize("adversary", ["pufferfish", "bdp"])
def test_what_is_asked_is_what_is_answered(query, adversary):
    read = {"model": NETWORK, "column": "state", "id": "who", "epsilon": 1, "adversary": adversary}
    done = release(ROWS, query=query, sampler=NoNoise(), **read)
    assert done.answer == EXACT[query]
    seeded = release(ROWS, query=query, sampler=SeededSampler(3), **read)
    assert verify(seeded.certificate).problems == ()
    assert seeded.certificate.data.id == "who"
    best = plan(NETWORK, query, epsilon=1, adversary=adversary).best
    assert seeded.certificate.mechanism.name == best.mechanism
    if adversary == "bdp":
        assert best.mechanism == ("group" if query in ("histogram", "frequency") else "exact-laplace")
    assert seeded.certificate.noise.scale == best.calibration.scale


@pytest.mark.parametrize("kind", ["polars", "lazy", "pyarrow", "duckdb", "csv"])
def test_every_source(kind, tmp_path):
    ROWS.to_csv(tmp_path / "r.csv", index=False)
    source = {
        "polars": pl.from_pandas(ROWS),
        "lazy": pl.from_pandas(ROWS).lazy(),
        "pyarrow": pa.Table.from_pandas(ROWS),
        "duckdb": duckdb.from_df(ROWS),
        "csv": tmp_path / "r.csv",
    }[kind]
    done = release(source, model=NETWORK, column="state", id="who", query="histogram", epsilon=1, sampler=NoNoise())
    assert done.answer == EXACT["histogram"]


def test_a_function_of_ones_own_needs_no_declared_constant_to_be_tight():
    """Wasserstein uses the distributions of the answer, so a product of two copies moves by 1."""
    twins = JointTable(values=[0, 1], outcomes=[(0, 0), (1, 1)], probabilities=[0.5, 0.5])
    query = Query.of_function(lambda chains: float(chains[0][0] * chains[0][1]), lipschitz=5.0)
    done = release(pd.DataFrame({"x": [1, 1]}), model=twins, column="x", query=query, epsilon=1, adversary="pufferfish")
    assert done.certificate.noise.scale == pytest.approx(1.0)
    assert "hand it over" in verify(done.certificate).problems[0]
    assert verify(done.certificate, query=query).valid
    other = Query.of_function(lambda chains: 2.0 * float(chains[0][0]), lipschitz=5.0)
    assert not verify(done.certificate, query=other).valid


def test_own_secrets_are_in_the_certificate():
    secrets = Secrets(
        secrets=(
            Secret(name="smokes", when={"smoke": "yes"}),
            Secret(name="does not", when={"smoke": "no"}),
        ),
        pairs=(("smokes", "does not"),),
    )
    done = release(
        ROWS,
        model=NETWORK,
        column="state",
        id="who",
        query="count:yes",
        epsilon=1,
        adversary="pufferfish",
        secrets=secrets,
    )
    c = done.certificate
    assert c.guarantee.framework == secrets.to_dict()
    assert "smokes against does not" in c.guarantee.secrets
    assert "two secrets of any pair" in c.guarantee.statement
    assert verify(c).valid
    changed = c.to_dict()
    changed["guarantee"]["framework"]["pairs"] = [["does not", "smokes"]]
    assert not verify(changed).valid


def test_groups_of_any_kind_sum_numbers_as_they_are():
    rows = pd.DataFrame({"family": [1, 1, 2, 2, 2], "height": [60.0, 70.5, 66.0, 200.0, 61.0]})
    read = {"column": "height", "query": "sum", "clip": (50, 80), "epsilon": 1}
    done = release(rows, model=AnyGroups(largest=3), by="family", sampler=NoNoise(), **read)
    assert done.answer == pytest.approx(60 + 70.5 + 66 + 80 + 61, abs=1e-6)
    assert done.certificate.noise.scale == pytest.approx(3 * 30)
    assert verify(done.certificate).valid
    with pytest.raises(DataError, match="has 3 records; the model allows at most 2"):
        release(rows, model=AnyGroups(largest=2), by="family", **read)


def test_the_distribution_of_an_answer_needs_one_belief():
    chain = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], start="any")
    with pytest.raises(ParameterError, match="definite start"):
        answer_distribution(chain, "count:1", length=3)
    distribution = answer_distribution(NETWORK, "count:yes", given={"smoke": "yes", "cough": ["no", "yes"]})
    # smoke counts for sure; cough is 0.6; bed is a fair coin.
    assert distribution.probabilities == pytest.approx([0, 0.4 * 0.5, 0.5, 0.6 * 0.5])


def test_estimates_are_answers_that_could_be_true():
    """Only two records can be mild or high between them, and no more than three can be yes."""
    for seed in range(examples(30)):
        read = {"model": NETWORK, "column": "state", "id": "who", "epsilon": 0.3, "sampler": SeededSampler(seed)}
        histogram = release(ROWS, query="histogram", **read).estimate
        most = [3, 3, 1, 1, 1]
        assert sum(histogram) == pytest.approx(4)
        assert all(-1e-12 <= v <= top + 1e-12 for v, top in zip(histogram, most, strict=True))
        assert 0 <= release(ROWS, query="count:yes", **read).estimate <= 3
        assert 0 <= release(ROWS, query="sum", **read).estimate <= 6


def test_what_the_model_rules_out_is_not_published_exactly():
    one_of_two = JointTable(values=[0, 1], outcomes=[(0, 1), (1, 0)], probabilities=[0.5, 0.5])
    asked = {"model": one_of_two, "column": "x", "query": "sum", "epsilon": 1, "adversary": "pufferfish"}
    done = release(pd.DataFrame({"x": [1, 0]}), **asked)
    assert done.answer == 1
    assert "the answer is exact" in done.certificate.warnings[0]
    silent = done.certificate.to_dict() | {"warnings": []}
    assert any("exact" in problem for problem in verify(silent).problems)
    with pytest.raises(DataError, match="the model rules out"):
        release(pd.DataFrame({"x": [1, 1]}), **asked)
    turns = MarkovChain(transition=[[0, 1], [1, 0]])
    asked["model"] = turns
    assert release(pd.DataFrame({"x": [1, 0, 1, 0]}), **asked).answer == 2
    with pytest.raises(DataError, match="the model calls that impossible"):
        release(pd.DataFrame({"x": [1, 1, 1, 0]}), **asked)
