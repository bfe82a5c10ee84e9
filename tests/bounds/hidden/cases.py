"""Random models of hidden states, and what the worst algorithm leaks of them by linear programmes."""

from __future__ import annotations

import functools

import numpy as np

from pufferdp.models.chain import MarkovChain
from pufferdp.models.hidden_states import HiddenStates
from tests.bounds.tight import cases
from tests.oracles import algorithms
from tests.strategies import random_distribution, random_rows

ROOM = 1e-8


def hidden_case(seed):
    """Transition probabilities with zeros and certain states, the values shown, a start, a length and a loss."""
    generator = np.random.default_rng([seed, 97])
    kind = generator.choice(["regimes", "order", "sensor", "chain", "ages"])
    if kind == "order":
        model = HiddenStates.of_order(random_rows(generator, 4, 2).reshape(2, 2, 2), start="any")
        kernel, shown = model.kernels[0], np.array(model.of)
    elif kind == "ages":
        leave = np.round(generator.random((2, 2 + seed % 2)), 3)
        model = HiddenStates.semi_markov(leave, [[0.0, 1.0], [1.0, 0.0]])
        kernel, shown = model.kernels[0], np.array(model.of)
    elif kind == "sensor":
        hidden, emission = cases.transition(generator, 2), random_rows(generator, 2, 2)
        z, shown = np.nonzero(emission)
        kernel = hidden[np.ix_(z, z)] * emission[z, shown]
        kernel = kernel / kernel.sum(axis=1, keepdims=True)
    else:
        k = int(generator.integers(2, 4))
        more = generator.integers(0, k, size=int(generator.integers(1, 3)) * (kind == "regimes"))
        shown = np.concatenate([np.arange(k), more])
        kernel = cases.transition(generator, len(shown))
    n = int(generator.integers(1, 6 if shown.max() == 1 else 5))
    start = "stationary" if generator.random() < 0.7 else random_distribution(generator, len(kernel))
    return kernel, shown, start, n, min(cases.loss(generator), 5.0)


def timed_case(seed):
    """Transition probabilities of two or three times of a day, the values shown, a length and a loss."""
    generator = np.random.default_rng([seed, 98])
    slots = int(generator.integers(2, 4))
    if generator.random() < 0.3:  # order 2 by time of day
        tables = [random_rows(generator, 4, 2).reshape(2, 2, 2) for _ in range(slots)]
        models = [HiddenStates.of_order(table, start="any") for table in tables]
        kernels, shown = np.array([model.kernels[0] for model in models]), np.array(models[0].of)
    else:
        shown = np.array([0, 1, *generator.integers(0, 2, size=int(generator.integers(0, 2)))])
        kernels = np.array([cases.transition(generator, len(shown)) for _ in range(slots)])
    return kernels, shown, int(generator.integers(2, 5)), min(cases.loss(generator), 3.0)


def joints(kernel, shown, start, n):
    """Distributions of all records, one for each slot at which a series can begin."""
    kernels = np.asarray(kernel).reshape(-1, len(shown), len(shown))
    first = start
    if isinstance(start, str):
        first = MarkovChain(transition=functools.reduce(np.matmul, kernels)).stationary
    for slot in range(len(kernels)):
        shown_as = np.eye(int(max(shown)) + 1)[shown]
        yield algorithms.hidden_table(np.roll(kernels, -slot, axis=0), shown_as, first, n)
        first = first @ kernels[slot]


def programme(kernel, shown, start, n, loss, who):
    """The largest leakage of any algorithm, over all targets and, by time of day, all slots of the first record."""
    return max(
        algorithms.joint_leakage(joint, [loss] * n, t, who)
        for joint in joints(kernel, shown, start, n)
        for t in range(n)
    )
