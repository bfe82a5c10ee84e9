"""Random chains and losses, the ugly ones included: zeros, deterministic, periodic, absorbing and slow chains."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.series import SeriesLeakage, series_leakage
from pufferdp.models.chain import MarkovChain
from tests.strategies import random_distribution, random_transition

RECORDS = {1: 6, 2: 6, 3: 5, 4: 4}
"""The most records for which a linear programme over all algorithms stays small, by number of states."""

LEAST = 1e-3
"""Smaller probabilities are zeros here: linear programmes drop coefficients below 1e-9."""


@dataclass(frozen=True)
class Case:
    """A chain, the losses of its records, one of them, and who looks."""

    transition: np.ndarray
    start: str | np.ndarray
    losses: np.ndarray
    target: int
    adversary: str

    @property
    def distribution(self) -> np.ndarray:
        """Of the first record."""
        return first_distribution(self.transition, self.start)


def leakage_of_losses(transition, losses, *, start="stationary", adversary="bdp", **options) -> SeriesLeakage:
    """What is leaked about each record, for a chain and losses that are checked first."""
    chain = inputs.chain(transition, start)
    return series_leakage(chain, inputs.losses(losses), inputs.adversary(adversary), **options)


def first_distribution(transition: np.ndarray, start: str | np.ndarray) -> np.ndarray:
    """The stationary distribution, or the one that is given."""
    return np.asarray(MarkovChain(transition=transition).stationary if isinstance(start, str) else start)


def transition(generator: np.random.Generator, k: int) -> np.ndarray:
    """One of many kinds of tables."""
    kind = generator.choice(["usual", "usual", "usual", "periodic", "absorbing", "slow"])
    P = random_transition(generator, k)
    if kind == "periodic":  # from each part of the states into the next one
        part = generator.integers(2, size=k)
        P = np.where(part[:, None] != part[None, :], P, 0.0)
    elif kind == "absorbing":
        P[generator.integers(k)] = np.eye(k)[generator.integers(k)]
    elif kind == "slow":
        P = 0.9 * np.eye(k) + 0.1 * P
    P = np.where(P < LEAST, 0.0, P)
    empty = P.sum(axis=1) == 0
    P[empty] = np.eye(k)[generator.integers(k, size=int(empty.sum()))]
    return P / P.sum(axis=1, keepdims=True)


def loss(generator: np.random.Generator) -> float:
    """Small, usual or large."""
    return float(math.exp(generator.uniform(math.log(1e-3), math.log(5.0))))


def losses(generator: np.random.Generator, n: int) -> np.ndarray:
    """Equal, or different, some of them 0."""
    if generator.random() < 0.4:
        return np.full(n, loss(generator))
    found = np.array([loss(generator) for _ in range(n)])
    return np.where(generator.random(n) < 0.2, 0.0, found)


def case(seed: int) -> Case:
    """One case for each number."""
    generator = np.random.default_rng(seed)
    k = int(generator.choice([2, 2, 3, 3, 4]))
    n = int(generator.integers(1, RECORDS[k] + 1))
    start = "stationary" if generator.random() < 0.4 else random_distribution(generator, k)
    who = generator.choice(["bdp", "pufferfish"])
    return Case(transition(generator, k), start, losses(generator, n), int(generator.integers(n)), str(who))
