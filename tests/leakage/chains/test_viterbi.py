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
from pufferdp.leakage.chains import viterbi
from pufferdp.leakage.chains.forward_backward import posterior
from pufferdp.leakage.chains.viterbi import best_path, best_path_rows, path_log_probability, posterior_rows

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
    rows = best_path_rows(outputs[None], *problem[1:])
    assert by_hand(tuple(rows[0]), *problem) == pytest.approx(best, rel=ROUNDING)


@given(problem=problems())
def test_rows_have_the_posterior_of_enumeration(problem: tuple[Any, ...]) -> None:
    outputs, _, transition, _ = problem
    n, k = len(outputs), len(transition)
    sums = np.zeros((n, k))
    for path in itertools.product(range(k), repeat=n):
        sums[np.arange(n), list(path)] += by_hand(path, *problem)
    if not sums.sum() > 0:
        with pytest.raises(DataError, match="cannot come from this model"):
            posterior_rows(outputs[None], *problem[1:])
        return
    expected = sums / sums.sum(axis=1, keepdims=True)
    # What a record can be, summed over all paths; products of at most fourteen factors.
    assert posterior_rows(outputs[None], *problem[1:])[0] == pytest.approx(expected, abs=1e-12)
    assert posterior(*problem) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 15, 16, 33, 64, 65, 100, 1000, 4099, pytest.param(20_001, marks=pytest.mark.slow)])
@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("kind", ["sticky", "stuck", "alternating", "random", "zeros", "flat"])
def test_blocks_change_nothing(n: int, k: int, kind: str) -> None:
    """Long series, cut into blocks, against the plain recursion over time."""
    generator = np.random.default_rng(n * 10 + k)
    transition, channel = generator.random((k, k)) + 0.05, generator.random((k, k)) + 0.05
    if kind == "sticky":
        transition += 5 * np.eye(k)
    elif kind == "stuck":  # blocks never meet what came before them: they must grow
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
    plain = best_path_rows(outputs[None], start, transition, channel)[0]
    ours, theirs = (
        path_log_probability(p, outputs, start, transition, channel)
        for p in (best_path(outputs, start, transition, channel), plain)
    )
    assert ours == pytest.approx(theirs, rel=ROUNDING)
    assert posterior_rows(outputs[None], start, transition, channel)[0] == pytest.approx(
        posterior(outputs, start, transition, channel), abs=1e-9
    )


@pytest.mark.parametrize("k", [5, 7, 12])
@pytest.mark.parametrize("n", [300, 6000, 12_001])
def test_chains_that_hardly_ever_leave_a_state(n: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks with one move at most: outputs that speak for another state from time to time, so that there are moves."""
    taken, blocks = list[bool](), viterbi._stuck

    def watched(*args: Any) -> Any:
        found = blocks(*args)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(viterbi, "_stuck", watched)
    generator = np.random.default_rng(n + k)
    transition = (1 - 1e-7) * np.eye(k) + 1e-7 * generator.dirichlet(np.full(k, 5.0), size=k)
    channel = 0.08 * np.eye(k) + 0.92 / k
    truth = np.repeat(generator.integers(0, k, n // 2500 + 1), 2500)[:n]
    outputs = (channel[truth].cumsum(axis=1) < generator.random((n, 1))).sum(axis=1).clip(0, k - 1)
    start = generator.dirichlet(np.ones(k))
    problem = outputs, start, transition, channel
    ours, plain = best_path(*problem), best_path_rows(outputs[None], *problem[1:])[0]
    assert path_log_probability(ours, *problem) == pytest.approx(path_log_probability(plain, *problem), rel=ROUNDING)
    assert any(taken)
    assert len(set(plain.tolist())) > 1 or n == 300


def test_no_record_has_no_path() -> None:
    assert len(best_path(np.zeros(0, dtype=int), np.ones(2) / 2, np.full((2, 2), 0.5), np.eye(2))) == 0


def test_one_impossible_output_in_a_long_series_is_refused() -> None:
    """Wherever it is: in a block, at its border, or at the end."""
    transition, channel = np.array([[0.9, 0.1, 0], [0, 0.9, 0.1], [0, 0, 1]]), np.eye(3)
    for n in (300, 2000):
        for place in (1, 127, 128, 129, n - 1):
            outputs = np.full(n, 2)
            outputs[:place], outputs[place] = 1, 0
            with pytest.raises(DataError, match="cannot come from this model"):
                best_path(outputs, np.full(3, 1 / 3), transition, channel)
