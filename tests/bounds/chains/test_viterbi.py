"""The best path through a hidden chain: as good as the best of all paths, whatever the chain."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp.basics.errors import DataError
from pufferdp.bounds.chains.forward_backward import posterior
from pufferdp.bounds.chains.viterbi import best_path
from tests.oracles.chains import path_log_probability

ROUNDING = 1e-9
"""Log-probabilities of up to some thousand terms of order 1 to 40, added in another order."""


def weights(draw: Any, k: int, *, zeros: bool) -> list[float]:
    row = draw(st.lists(st.integers(0 if zeros else 1, 20), min_size=k, max_size=k).filter(any))
    return [w / sum(row) for w in row]


@st.composite
def problems(draw: Any, states: tuple[int, ...] = (2, 3), zeros: bool = True) -> tuple[Any, ...]:
    k = draw(st.sampled_from(states))
    start = np.array(weights(draw, k, zeros=zeros))
    transition, channel = (np.array([weights(draw, k, zeros=zeros) for _ in range(k)]) for _ in range(2))
    n = draw(st.integers(1, 7 if k == 2 else 5))
    outputs = np.array(draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)))
    return outputs, start, transition, channel


def by_hand(path: tuple[int, ...], outputs: Any, start: Any, transition: Any, channel: Any) -> float:
    p = start[path[0]] * math.prod(channel[x][z] for x, z in zip(path, outputs, strict=True))
    return float(p * math.prod(transition[a][b] for a, b in itertools.pairwise(path)))


def plain_path(outputs: Any, start: Any, transition: Any, channel: Any) -> Any:
    """The recursion as it is in textbooks, record by record."""
    with np.errstate(divide="ignore"):
        weights, moves, says = np.log(start) + np.log(channel)[:, outputs[0]], np.log(transition), np.log(channel)
    came = []
    for z in outputs[1:]:
        came.append((weights[:, None] + moves).argmax(axis=0))
        weights = (weights[:, None] + moves).max(axis=0) + says[:, z]
    path = [weights.argmax()]
    for before in reversed(came):
        path.append(before[path[-1]])
    return np.array(path[::-1])


@given(problem=problems())
def test_the_best_of_all_paths(problem: tuple[Any, ...]) -> None:
    outputs, _, transition, _ = problem
    all_paths = itertools.product(range(len(transition)), repeat=len(outputs))
    best = max(by_hand(path, *problem) for path in all_paths)
    if best == 0:
        for call in (best_path, posterior):
            with pytest.raises(DataError, match="cannot come from this model"):
                call(*problem)
        return
    path = best_path(*problem)
    assert by_hand(tuple(path), *problem) == pytest.approx(best, rel=ROUNDING)
    assert path_log_probability(path, *problem) == pytest.approx(math.log(best), rel=ROUNDING)


@given(problem=problems())
def test_the_posterior_of_enumeration(problem: tuple[Any, ...]) -> None:
    outputs, _, transition, _ = problem
    n, k = len(outputs), len(transition)
    sums = np.zeros((n, k))
    for path in itertools.product(range(k), repeat=n):
        sums[np.arange(n), list(path)] += by_hand(path, *problem)
    if not sums.sum() > 0:
        with pytest.raises(DataError, match="cannot come from this model"):
            posterior(*problem)
        return
    expected = sums / sums.sum(axis=1, keepdims=True)
    # What a record can be, summed over all paths; products of at most fourteen factors.
    assert posterior(*problem) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 16, 33, 65, 1000, 4099])
@pytest.mark.parametrize("k", [2, 9])
@pytest.mark.parametrize("kind", ["sticky", "stuck", "alternating", "random", "zeros", "flat"])
def test_blocks_change_nothing(n: int, k: int, kind: str) -> None:
    """Long series, cut into blocks, against the plain recursion over time."""
    generator = np.random.default_rng(n * 10 + k)
    transition, channel = generator.random((k, k)) + 0.05, generator.random((k, k)) + 0.05
    if kind == "sticky":
        transition += 5 * np.eye(k)
    elif kind == "stuck":  # no block forgets what came before it: each is run again
        transition += 5000 * np.eye(k)
        channel[:] = 1 + 0.01 * np.eye(k)
    elif kind == "alternating":
        transition += 5 * np.roll(np.eye(k), 1, axis=1)
    elif kind == "zeros":
        transition[0, 1] = 0
    elif kind == "flat":
        transition[:] = 1
    transition, channel = (t / t.sum(axis=1, keepdims=True) for t in (transition, channel))
    start = np.full(k, 1 / k)
    outputs = generator.integers(0, k, n)
    plain = plain_path(outputs, start, transition, channel)
    ours, theirs = (
        path_log_probability(p, outputs, start, transition, channel)
        for p in (best_path(outputs, start, transition, channel), plain)
    )
    assert ours == pytest.approx(theirs, rel=ROUNDING)


def drawn(n: int, k: int, kind: str) -> tuple[Any, ...]:
    """Outputs of a chain that mixes, stays for a while, or hardly ever moves; or of one with zeros, or in two parts."""
    generator = np.random.default_rng(1000 * k + n)
    stay = {"mixing": 0.1, "sticky": 0.97, "stuck": 1 - 1e-4, "zeros": 0.5, "apart": 0.5}[kind]
    transition = stay * np.eye(k) + (1 - stay) * generator.dirichlet(np.ones(k), size=k)
    if kind == "zeros" and k > 1:
        transition[np.arange(k), (np.arange(k) + 1) % k] = 0
        transition /= transition.sum(axis=1, keepdims=True)
    elif kind == "apart":  # what lies between the weights of the parts only grows, and nothing is forgotten
        transition *= (np.arange(k) % 2)[:, None] == np.arange(k) % 2
        transition /= transition.sum(axis=1, keepdims=True)
    channel = 0.3 * np.eye(k) + 0.7 * generator.dirichlet(np.full(k, 5.0), size=k)
    truth = [0]
    for _ in range(n - 1):
        truth.append(int(generator.choice(k, p=transition[truth[-1]])) if kind != "stuck" else len(truth) // 150 % k)
    outputs = (channel[truth].cumsum(axis=1) < generator.random((n, 1))).sum(axis=1).clip(0, k - 1)
    return outputs, generator.dirichlet(np.ones(k)), transition, channel


@pytest.mark.parametrize("kind", ["mixing", "sticky", "stuck", "zeros", "apart"])
@pytest.mark.parametrize("k", [1, 2, 4, 17])
def test_outputs_of_the_chain_itself(k: int, kind: str) -> None:
    for n in (2, 31, 700):
        problem = drawn(n, k, kind)
        ours, theirs = (path_log_probability(path, *problem) for path in (best_path(*problem), plain_path(*problem)))
        assert ours == pytest.approx(theirs, rel=ROUNDING)


@pytest.mark.parametrize(("rows", "n"), [(1, 50), (5, 1), (7, 40), (300, 12)])
def test_each_row_of_a_table_is_a_series(rows: int, n: int) -> None:
    outputs, *model = drawn(rows * n, 3, "sticky")
    table = outputs.reshape(rows, n)
    alone = [best_path(row, *model) for row in table]
    for path, expected, row in zip(best_path(table, *model), alone, table, strict=True):
        assert path_log_probability(path, row, *model) == pytest.approx(
            path_log_probability(expected, row, *model), rel=ROUNDING
        )
    assert posterior(table, *model) == pytest.approx(np.array([posterior(row, *model) for row in table]), abs=1e-10)


def test_no_record_has_no_path() -> None:
    assert len(best_path(np.zeros(0, dtype=int), np.ones(2) / 2, np.full((2, 2), 0.5), np.eye(2))) == 0


def test_one_impossible_output_in_a_long_series_is_rejected() -> None:
    """At any position: inside a block, at its border, or at the end."""
    transition, channel = np.array([[0.9, 0.1, 0], [0, 0.9, 0.1], [0, 0, 1]]), np.eye(3)
    for n in (300, 2000):
        for position in (1, 127, 128, 129, n - 1):
            outputs = np.full(n, 2)
            outputs[:position], outputs[position] = 1, 0
            for call in (best_path, posterior):
                with pytest.raises(DataError, match="cannot come from this model"):
                    call(outputs, np.full(3, 1 / 3), transition, channel)
