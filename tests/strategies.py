"""Random small problems, the ugly ones included: zero entries, deterministic states, negative correlation, length 1."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from pufferdp.models.chain import MarkovChain
from pufferdp.models.groups import Groups
from pufferdp.models.joint import JointTable
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.models.pedigree import Member, Pedigree

SEEDS = st.integers(0, 2**32 - 1)


def examples(count: int) -> int:
    """How many random cases a test tries: ``count`` for forty of the profile, in proportion for others.

    At least three, where ``count`` is not less than that.
    """
    return max(count * settings().max_examples // 40, min(count, 3))


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


def random_distribution(generator: np.random.Generator, k: int) -> np.ndarray:
    distribution = generator.dirichlet(np.ones(k))
    distribution = np.where(generator.random(k) < 0.4, 0.0, distribution)
    if distribution.sum() == 0:
        distribution[generator.integers(k)] = 1.0
    return distribution / distribution.sum()


@st.composite
def chains(draw, most_states: int = 4, starts: tuple[str, ...] = ("stationary", "any", "given")) -> MarkovChain:
    generator = np.random.default_rng(draw(SEEDS))
    k = draw(st.integers(1, most_states))
    P = random_transition(generator, k)
    start = draw(st.sampled_from(starts))
    return MarkovChain(transition=P, start=random_distribution(generator, k) if start == "given" else start)


def random_rows(generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Distributions along the last axis: smooth, with zero entries, or deterministic."""
    k = shape[-1]
    kind = generator.choice(["smooth", "zeros", "deterministic"])
    rows = generator.dirichlet(np.ones(k), size=shape[:-1])
    if kind == "zeros":
        rows = np.where(generator.random(shape) < 0.4, 0.0, rows)
        rows = np.where(rows.sum(axis=-1, keepdims=True) == 0, np.eye(k)[generator.integers(k)], rows)
    elif kind == "deterministic":
        rows = np.eye(k)[generator.integers(k, size=shape[:-1])]
    return rows / rows.sum(axis=-1, keepdims=True)


@st.composite
def networks(draw, most_nodes: int = 5) -> BayesianNetwork:
    """Any graph without cycles, colliders and unlinked nodes included; children may stand before their parents."""
    generator = np.random.default_rng(draw(SEEDS))
    n = draw(st.integers(1, most_nodes))
    pools = (("a", "b", "c"), ("no", "yes", "maybe"), ("0", "1", "2"), ("yes", "no", "a"))
    domains = [pools[generator.integers(4)][: generator.integers(1, 4)] for _ in range(n)]
    nodes = []
    for v in range(n):
        above = np.flatnonzero(generator.random(v) < 0.6)
        parents = [int(u) for u in generator.permutation(above)]
        table = random_rows(generator, *(len(domains[u]) for u in parents), len(domains[v]))
        nodes.append(Node(name=f"n{v}", states=domains[v], parents=tuple(f"n{u}" for u in parents), table=table))
    return BayesianNetwork(nodes=tuple(nodes[v] for v in generator.permutation(n)))


@st.composite
def tables(draw) -> JointTable:
    """A few records with any dependence; some outcomes are missing, some are listed with probability 0."""
    generator = np.random.default_rng(draw(SEEDS))
    n, k = draw(st.integers(1, 4)), draw(st.integers(2, 3))
    every = np.argwhere(np.ones((k,) * n))
    kept = generator.permutation(every)[: generator.integers(1, len(every) + 1)]
    values = [list(range(k)), [0.5, -1, 2.25][:k], ["low", "mid", "high"][:k]][generator.integers(3)]
    outcomes = [tuple(values[x] for x in row) for row in kept]
    return JointTable(values=values, outcomes=outcomes, probabilities=random_distribution(generator, len(kept)))


@st.composite
def groups(draw, most_groups: int = 3, most_members: int = 4) -> Groups:
    """Independent groups of exchangeable records, those of one record included."""
    generator = np.random.default_rng(draw(SEEDS))
    sizes = draw(st.lists(st.integers(1, most_members), min_size=1, max_size=most_groups))
    return Groups(sizes=sizes, positives=[random_distribution(generator, m + 1) for m in sizes])


@st.composite
def pedigrees(draw, most_members: int = 5) -> Pedigree:
    """Families with both, one or no parent known, of any shape; children may stand before their parents."""
    generator = np.random.default_rng(draw(SEEDS))
    n = draw(st.integers(1, most_members))
    members = []
    for v in range(n):
        parents = [f"p{u}" for u in generator.permutation(v)[:2]]
        kept = [p if generator.random() < 0.75 else None for p in [*parents, None, None][:2]]
        father, mother = generator.permutation(np.array(kept, dtype=object))
        members.append(Member(f"p{v}", father, mother))
    frequency = draw(st.sampled_from([0.0, 1e-3, 0.3, 0.5, 0.7, 0.95, 1.0]))
    return Pedigree(members=tuple(members[v] for v in generator.permutation(n)), major_allele_frequency=frequency)


epsilons = st.sampled_from([0.1, 0.5, 1.0, 2.0, 5.0])
