"""Random small problems, the ugly ones included: zero entries, deterministic states, negative correlation, length 1."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from pufferdp.models.markov import MarkovChain

SEEDS = st.integers(0, 2**32 - 1)


def random_transition(generator: np.random.Generator, k: int) -> np.ndarray:
    kind = generator.choice(["smooth", "spiky", "zeros", "deterministic", "alternating", "equal rows"])
    P = generator.dirichlet(np.full(k, {"spiky": 0.3}.get(kind, 1.5)), size=k)
    if kind == "zeros":
        P = np.where(generator.random((k, k)) < 0.4, 0.0, P)
    elif kind == "deterministic":
        P = np.eye(k)[generator.integers(k, size=k)]
    elif kind == "alternating" and k > 1:
        P = 0.15 * P + 0.85 * (1 - np.eye(k)) / (k - 1)
    elif kind == "equal rows":
        P = np.tile(P[:1], (k, 1))
    for x in range(k):
        if P[x].sum() == 0:
            P[x, generator.integers(k)] = 1.0
    return P / P.sum(axis=1, keepdims=True)


def random_law(generator: np.random.Generator, k: int) -> np.ndarray:
    law = generator.dirichlet(np.ones(k))
    law = np.where(generator.random(k) < 0.4, 0.0, law)
    if law.sum() == 0:
        law[generator.integers(k)] = 1.0
    return law / law.sum()


@st.composite
def chains(draw, most_states: int = 4, starts: tuple[str, ...] = ("stationary", "any", "given")) -> MarkovChain:
    generator = np.random.default_rng(draw(SEEDS))
    k = draw(st.integers(1, most_states))
    P = random_transition(generator, k)
    start = draw(st.sampled_from(starts))
    return MarkovChain(transition=P, start=random_law(generator, k) if start == "given" else start)


epsilons = st.sampled_from([0.1, 0.5, 1.0, 2.0, 5.0])
