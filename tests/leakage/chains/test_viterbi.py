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


def best_path_for_many(*problem: Any) -> Any:
    """As if there were many states, and in blocks of one place."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_FEW_STATES", 0), ("_MEMORY", 0), ("_LEVEL", 1), ("_TRACED", 1), ("_FEWER", 1)):
            patch.setattr(viterbi, name, value)
        return best_path(*problem)


@given(problem=problems())
def test_the_best_of_all_paths(problem: tuple[Any, ...]) -> None:
    outputs, _, transition, _ = problem
    all_paths = itertools.product(range(len(transition)), repeat=len(outputs))
    best = max(by_hand(path, *problem) for path in all_paths)
    if best == 0:
        for call in (best_path, best_path_for_many, posterior):
            with pytest.raises(DataError, match="cannot come from this model"):
                call(*problem)
        return
    for path in (best_path(*problem), best_path_for_many(*problem)):
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
@pytest.mark.parametrize("k", [2, 3, 9])
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


@pytest.mark.parametrize(
    ("way", "kinds"),
    [
        ("trees", ("mixing", "sticky", "stuck", "zeros", "apart")),
        ("blocks", ("mixing", "sticky", "stuck", "zeros", "apart")),
        ("windows", ("sticky", "stuck")),
    ],
)
@pytest.mark.parametrize("k", [1, 2, 4, 6, 17])
def test_each_way_finds_the_best_path(
    way: str, kinds: tuple[str, ...], k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each way on its own, in small pieces; none gives up here."""
    monkeypatch.setattr(viterbi, "_WINDOWS", (8, 64))
    monkeypatch.setattr(viterbi, "_MEMORY", 0)  # blocks are as short as can be
    monkeypatch.setattr(viterbi, "_LEVEL", 36)
    monkeypatch.setattr(viterbi, "_FEWER", 1)  # and mended, however many are wrong and however often
    for kind in kinds:
        for n in (2, 31, 700):
            problem = drawn(n, k, kind)
            plain = best_path_rows(problem[0][None], *problem[1:])[0]
            with np.errstate(divide="ignore"):
                model = [np.log(table) for table in problem[1:]]
            path = getattr(viterbi, f"_by_{way}")(problem[0], *model)
            assert path is not None
            ours, theirs = (path_log_probability(p, *problem) for p in (path, plain))
            assert ours == pytest.approx(theirs, rel=ROUNDING)


@pytest.mark.parametrize(("stay", "way"), [(0.6, "_by_blocks"), (1 - 1e-6, "_by_windows")])
def test_chains_of_many_states_are_passed_in_the_way_that_suits_them(stay: float, way: str) -> None:
    """With the sizes that are used: several blocks, windows that grow."""
    k, n, taken = 12, 4000, list[str]()
    generator = np.random.default_rng(k)
    transition = stay * np.eye(k) + (1 - stay) * generator.dirichlet(np.full(k, 5.0), size=k)
    channel = 0.08 * np.eye(k) + 0.92 / k
    truth = np.repeat(generator.integers(0, k, n // 800), 800)
    outputs = (channel[truth].cumsum(axis=1) < generator.random((n, 1))).sum(axis=1).clip(0, k - 1)
    problem = outputs, generator.dirichlet(np.ones(k)), transition, channel
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_by_blocks", "_by_windows"):
            used = getattr(viterbi, name)
            patch.setattr(viterbi, name, lambda *a, f=used, name=name, **b: (taken.append(name), f(*a, **b))[1])
        ours = best_path(*problem)
    plain = best_path_rows(outputs[None], *problem[1:])[0]
    assert path_log_probability(ours, *problem) == pytest.approx(path_log_probability(plain, *problem), rel=ROUNDING)
    assert taken[0] == way


def test_no_record_has_no_path() -> None:
    assert len(best_path(np.zeros(0, dtype=int), np.ones(2) / 2, np.full((2, 2), 0.5), np.eye(2))) == 0


@pytest.mark.parametrize("few", [0, 3])
def test_one_impossible_output_in_a_long_series_is_refused(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is: in a tree or a block, at its border, or at the end."""
    monkeypatch.setattr(viterbi, "_FEW_STATES", few)
    transition, channel = np.array([[0.9, 0.1, 0], [0, 0.9, 0.1], [0, 0, 1]]), np.eye(3)
    for n in (300, 2000):
        for place in (1, 127, 128, 129, n - 1):
            outputs = np.full(n, 2)
            outputs[:place], outputs[place] = 1, 0
            with pytest.raises(DataError, match="cannot come from this model"):
                best_path(outputs, np.full(3, 1 / 3), transition, channel)
