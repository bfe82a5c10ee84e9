"""Queries and their Lipschitz constants, checked against every change of one record."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pufferdp.basics.errors import ParameterError, QueryError
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.noise import NoiseKind

CHAIN = MarkovChain(transition=np.full((3, 3), 1 / 3), states=["low", "mid", "high"], values=[-1.0, 2.0, 7.5])
T = 4


def exact(query: Query, path):
    counts = np.array([path.count(j) for j in range(3)], float)
    values = np.array(CHAIN.values)
    if query.clip:
        values = np.clip(values, *query.clip)
    return {
        "count": lambda: counts[[CHAIN.labels.index(query.state or "low")]],
        "histogram": lambda: counts,
        "frequency": lambda: counts / T,
        "sum": lambda: np.array([counts @ values]),
        "mean": lambda: np.array([counts @ values / T]),
    }[query.word]()


@pytest.mark.parametrize(
    "query",
    [
        *(Query.parse(name) for name in ("count:mid", "histogram", "frequency", "sum", "mean")),
        Query.parse("sum", clip=(0, 5)),
        Query.parse("mean", clip=(0, 100)),
    ],
    ids=lambda q: f"{q.name}{q.clip or ''}",
)
def test_the_constant_is_the_largest_move_of_the_answer(query):
    moves = []
    for path in itertools.product(range(3), repeat=T):
        for i, x in itertools.product(range(T), range(3)):
            other = (*path[:i], x, *path[i + 1 :])
            moves.append(np.abs(exact(query, path) - exact(query, other)).sum())
    assert query.on(CHAIN, T).lipschitz == pytest.approx(max(moves), rel=1e-12)


def test_counts_get_discrete_noise_and_numbers_continuous_noise():
    kinds = {
        name: Query.parse(name).on(CHAIN, T).noise for name in ("count:low", "histogram", "frequency", "sum", "mean")
    }
    assert kinds == {
        "count:low": NoiseKind.DISCRETE_LAPLACE,
        "histogram": NoiseKind.DISCRETE_LAPLACE,
        "frequency": NoiseKind.DISCRETE_LAPLACE,
        "sum": NoiseKind.LAPLACE,
        "mean": NoiseKind.LAPLACE,
    }


@pytest.mark.parametrize("text", ["", "median", "histogram:low", "sum:3", "Count:low"])
def test_unknown_queries_are_refused_with_the_list(text):
    with pytest.raises(QueryError, match="count:STATE, histogram, frequency, sum, mean"):
        Query.parse(text)


@pytest.mark.parametrize("text", ["count", "count:"])
def test_a_count_names_its_state(text):
    with pytest.raises(QueryError, match="a count names its state, as in count:active"):
        Query.parse(text)


def test_refusals():
    with pytest.raises(QueryError, match="'top' is not in the model; it has low, mid, high"):
        Query.parse("count:top").on(CHAIN, T)
    named = MarkovChain(transition=np.eye(2), states=["a", "b"])
    with pytest.raises(QueryError, match="clip="):
        Query.parse("sum").on(named, T)
    with pytest.raises(QueryError, match="nothing to clip"):
        Query.parse("histogram", clip=(0, 1))
    with pytest.raises(ParameterError, match="lower one first"):
        Query.parse("sum", clip=(2, 1))
    with pytest.raises(QueryError, match="declared"):
        Query.of_function(len, float("nan"))
    with pytest.raises(QueryError, match="tells nothing"):
        Query.parse("sum", clip=(100, 200)).on(CHAIN, T)


def test_states_without_names_stand_for_their_numbers():
    plain = MarkovChain(transition=np.full((4, 4), 0.25))
    assert Query.parse("sum").on(plain, T).lipschitz == 3
