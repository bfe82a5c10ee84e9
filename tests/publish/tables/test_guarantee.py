"""The guarantee of a table, by enumeration through ``release`` itself: all groups and all questions together."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp import HiddenMarkov, MarkovClass, MarkovClock
from pufferdp.publish.tables.parsing import parse_questions
from pufferdp.publish.tables.problem import TableProblem, shares_of, solve_table
from tests.oracles import algorithms
from tests.oracles.chains import stationary
from tests.oracles.leakage import path_distribution
from tests.publish.tables.tables import chain, table_leakage
from tests.strategies import SEEDS, examples, random_distribution, random_transition
from tests.tolerance import safe_loss

TWO = chain([[0.8, 0.2], [0.3, 0.7]])
TWO_DISTRIBUTION = path_distribution(TWO.transition, [0.6, 0.4], 3)
QUESTIONS = [["histogram"], ["histogram", "count:b"], ["mean"], ["frequency", "sum"]]
ROUNDING = 1e-9


@pytest.mark.parametrize("adversary", ["bdp", "pufferfish", pytest.param("dp", marks=pytest.mark.slow)])
@pytest.mark.parametrize("queries", QUESTIONS)
def test_a_table_leaks_its_epsilon_and_no_more(adversary: str, queries: list[str]) -> None:
    for group in ([0, 1, 2], [0, 0, 1], [0, 1, 0]):
        leaked = table_leakage(TWO, TWO_DISTRIBUTION, group, queries, 1.0, adversary=adversary)
        assert leaked == safe_loss(1.0, digits=ROUNDING)
    # Noise that is 10 % too small is seen, whatever the questions.
    assert table_leakage(TWO, TWO_DISTRIBUTION, [0, 1, 2], queries, 1.0, shrink=1.1, adversary=adversary) > 1.09


def test_any_split_leaks_the_same() -> None:
    for split in ([1, 1], [5, 1], [1, 100]):
        leaked = table_leakage(TWO, TWO_DISTRIBUTION, [0, 1, 0], ["histogram", "mean"], 0.7, split=split)
        assert leaked == safe_loss(0.7, digits=ROUNDING)


@pytest.mark.slow
def test_three_states() -> None:
    model = chain([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])
    distribution = path_distribution(model.transition, stationary(model.transition), 3)
    leaked = table_leakage(model, distribution, [0, 1, 0], ["histogram", "sum"], 1.0)
    assert 0.5 < leaked <= 1 + ROUNDING


def test_a_class_and_a_given_start() -> None:
    models = (chain([[0.8, 0.2], [0.3, 0.7]]), chain([[0.9, 0.1], [0.5, 0.5]]))
    prior = MarkovClass(models=models)
    for model in models:
        distribution = path_distribution(model.transition, stationary(model.transition), 3)
        assert table_leakage(prior, distribution, [0, 0, 1], ["histogram", "count:a"], 1.0) <= 1 + ROUNDING
    given_start = chain([[0.8, 0.2], [0.3, 0.7]], [0.1, 0.9])
    distribution = path_distribution(given_start.transition, [0.1, 0.9], 3)
    assert table_leakage(given_start, distribution, [0, 1, 1], ["mean"], 1.0) <= 1 + ROUNDING


def test_a_hidden_chain() -> None:
    hidden, shown = np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([[0.9, 0.1], [0.2, 0.8]])
    model = HiddenMarkov(transition=hidden, emission=shown, states=("a", "b"), values=(0, 1), start=(0.6, 0.4))
    distribution = algorithms.hidden_table(hidden, shown, [0.6, 0.4], 3)
    for adversary in ("bdp", "pufferfish"):
        leaked = table_leakage(model, distribution, [0, 1, 0], ["histogram", "mean"], 1.0, adversary=adversary)
        assert 0.3 < leaked <= 1 + ROUNDING


def test_a_clock() -> None:
    tables = [[[0.8, 0.2], [0.3, 0.7]], [[0.6, 0.4], [0.1, 0.9]]]
    model = MarkovClock(transitions=tables, states=("a", "b"), values=(0, 1), step=1, period=2, start="stationary")
    start = np.linalg.matrix_power(np.array(tables[0]) @ np.array(tables[1]), 200)[0]
    distribution = algorithms.table(tables, start, 3)
    assert table_leakage(model, distribution, [0, 1, 1], ["histogram"], 1.0) <= 1 + ROUNDING


@pytest.mark.slow
@given(seed=SEEDS, data=st.data())
@settings(max_examples=examples(25), deadline=None)
def test_random_chains(seed: int, data: st.DataObject) -> None:
    generator = np.random.default_rng(seed)
    k = data.draw(st.integers(2, 3))
    n = data.draw(st.integers(1, 4 if k == 2 else 3))
    transition, start = random_transition(generator, k), random_distribution(generator, k)
    model = chain(transition, start)
    group = data.draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))
    queries = data.draw(st.sampled_from(QUESTIONS[:3] if k == 3 else QUESTIONS))
    epsilon = data.draw(st.floats(0.1, 3.0))
    adversary = data.draw(st.sampled_from(["bdp", "pufferfish", "dp"]))
    split = data.draw(st.lists(st.floats(0.1, 10), min_size=len(queries), max_size=len(queries)))
    leaked = table_leakage(
        model, path_distribution(transition, start, n), group, queries, epsilon, adversary=adversary, split=split
    )
    assert leaked <= epsilon * (1 + ROUNDING)


@given(seed=SEEDS, length=st.integers(1, 4), epsilon=st.floats(0.05, 3.0))
@settings(max_examples=examples(20), deadline=None)
def test_no_algorithm_of_that_loss_leaks_more(seed: int, length: int, epsilon: float) -> None:
    generator = np.random.default_rng(seed)
    transition, start = random_transition(generator, 2), random_distribution(generator, 2)
    problem = TableProblem(
        model=chain(transition, start),
        questions=parse_questions(["histogram", "mean"]),
        lengths=((length, 1),),
        epsilon=epsilon,
    )
    noise = solve_table(problem)
    worst = algorithms.leakage([transition], start, [noise.dp_loss] * length, "every")
    assert max(worst) <= epsilon * (1 + 1e-7)  # the linear programme is solved to 1e-10, and its logarithm is taken


@given(
    weights=st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=4),
    epsilon=st.floats(1e-3, 50.0),
    length=st.integers(1, 1000),
)
@settings(max_examples=examples(100), deadline=None)
def test_shares_add_up_to_no_more_than_the_whole(weights: list[float], epsilon: float, length: int) -> None:
    names = ["histogram", "mean", "sum", "count:b"][: len(weights)]
    problem = TableProblem(
        model=TWO,
        questions=parse_questions(names),
        split=shares_of(weights, len(weights)),
        lengths=((length, 1),),
        epsilon=epsilon,
    )
    noise = solve_table(problem)
    assert sum(map(Fraction, noise.losses)) <= Fraction(noise.dp_loss)
    assert math.fsum(noise.losses) == pytest.approx(noise.dp_loss, rel=1e-12)
    moves = {"histogram": 2, "mean": 1, "sum": 1, "count:b": 1}
    for name, loss, distribution in zip(names, noise.losses, noise.questions, strict=True):
        # What each spends by its own scale is no more than its share.
        assert Fraction(moves[name]) <= Fraction(distribution.scale) * Fraction(loss)
        assert distribution.scale * loss == pytest.approx(moves[name], rel=1e-12)


def test_people_cost_what_the_longest_chain_costs() -> None:
    for lengths in itertools.permutations([3, 5, 8]):
        chains = tuple((length, 1) for length in sorted(lengths))
        questions = parse_questions(["histogram"])
        several = solve_table(TableProblem(model=TWO, questions=questions, lengths=chains, epsilon=1.0))
        alone = solve_table(TableProblem(model=TWO, questions=questions, lengths=((8, 1),), epsilon=1.0))
        assert several.dp_loss == alone.dp_loss
