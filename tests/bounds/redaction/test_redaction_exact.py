"""The linear-time leakage of a redaction equals enumeration of every output."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.redaction.design import Block, Design, RedactionProblem, blocks_of, leakages
from pufferdp.bounds.redaction.methods import numerical, window
from pufferdp.bounds.redaction.optimal import optimal
from pufferdp.models.chain import MarkovChain
from tests.oracles import redaction as oracle
from tests.strategies import SEEDS, examples, random_transition

ROUNDING = 1e-9
"""Both sides are sums of at most 256 products of 16 doubles: relative errors stay below 1e-12."""


def random_marks(generator: np.random.Generator, length: int, size: int) -> np.ndarray:
    """Probabilities strictly inside, and many that are 0 or 1."""
    marks = generator.random((length, size))
    marks = np.where(generator.random((length, size)) < 0.3, 1.0, marks)
    return np.where(generator.random((length, size)) < 0.25, 0.0, marks)


def random_chain(generator: np.random.Generator, size: int) -> MarkovChain:
    while True:
        chain = MarkovChain(transition=random_transition(generator, size))
        if (chain.stationary > 0).all():
            return chain


def near(a: float, b: float) -> bool:
    return a == b or math.isclose(a, b, rel_tol=ROUNDING, abs_tol=ROUNDING)


@pytest.mark.parametrize(("size", "most"), [(2, 8), (3, 8), (4, 5)])
@settings(max_examples=examples(100))
@given(seed=SEEDS, data=st.data())
def test_leakage_equals_enumeration(size: int, most: int, seed: int, data: st.DataObject) -> None:
    """All (k+1)^n outputs of random mechanisms on random chains, for one and two private records."""
    generator = np.random.default_rng(seed)
    length = data.draw(st.integers(1, most))
    private = data.draw(st.lists(st.integers(1, length), min_size=1, max_size=2, unique=True))
    chain = random_chain(generator, size)
    marks = random_marks(generator, length, size)
    marks[[p - 1 for p in private]] = 1.0
    hiding = RedactionProblem(
        chain=chain, length=length, private=tuple(private), epsilon=1, adversary=Adversary.PUFFERFISH
    )
    true = {p: oracle.leakage(chain.transition, chain.stationary, marks, p - 1) for p in private}
    for p in private:
        assert near(float(leakages(hiding, (p, p), 1, marks)), true[p])
    rounded = Design(hiding=hiding, method="any", blocks=blocks_of(hiding, 1, marks))
    assert near(rounded.leakage, max(true.values()))


@pytest.mark.parametrize("private", [(1,), (4,), (8,), (3, 6), (1, 8), (4, 5)])
def test_eight_records(private: tuple[int, ...]) -> None:
    """All 3^8 outputs: fifty random mechanisms on as many random chains for every place."""
    generator = np.random.default_rng(sum(private))
    for _ in range(50):
        chain, marks = random_chain(generator, 2), random_marks(generator, 8, 2)
        marks[[p - 1 for p in private]] = 1.0
        hiding = RedactionProblem(chain=chain, length=8, private=private, epsilon=1, adversary=Adversary.PUFFERFISH)
        for p in private:
            true = oracle.leakage(chain.transition, chain.stationary, marks, p - 1)
            assert near(float(leakages(hiding, (p, p), 1, marks)), true)


@pytest.mark.parametrize(("size", "length"), [(2, 4), (3, 3)])
def test_the_oracle_says_what_one_output_after_the_other_says(size: int, length: int) -> None:
    generator = np.random.default_rng(size)
    for _ in range(5):
        chain, marks = random_chain(generator, size), random_marks(generator, length, size)
        rows, distribution = oracle.series_distribution(chain.transition, chain.stationary, length)
        seen = oracle.output_distribution(rows, marks)
        found = oracle.joint_of_outputs(chain.transition, chain.stationary, marks, [0, 2])
        for x, y in itertools.product(range(size), repeat=2):
            chosen = (rows[:, 0] == x) & (rows[:, 2] == y)
            assert np.allclose(found[x, y].ravel(), seen[:, chosen] @ distribution[chosen], atol=1e-14)


@settings(max_examples=examples(100))
@given(seed=SEEDS, data=st.data())
def test_leakage_to_somebody_who_knows_records(seed: int, data: st.DataObject) -> None:
    """Listed records, the worst set of records, and all of them."""
    generator = np.random.default_rng(seed)
    length, size = data.draw(st.sampled_from([(1, 2), (2, 2), (3, 2), (5, 2), (6, 2), (4, 3), (5, 3)]))
    p = data.draw(st.integers(1, length))
    known = data.draw(st.sets(st.integers(1, length).filter(lambda t: t != p)))
    chain, marks = random_chain(generator, size), random_marks(generator, length, size)
    marks[p - 1] = 1.0
    P, distribution = chain.transition, chain.stationary
    listed = RedactionProblem(
        chain=chain, length=length, private=(p,), epsilon=1, adversary="pufferfish", known=tuple(known)
    )
    ours = float(leakages(listed, (p, p), 1, marks))
    assert near(ours, oracle.leakage(P, distribution, marks, p - 1, [t - 1 for t in sorted(known)]))
    anyone = RedactionProblem(chain=chain, length=length, private=(p,), epsilon=1, adversary=Adversary.BDP)
    assert near(float(leakages(anyone, (p, p), 1, marks)), oracle.worst_leakage(P, distribution, marks, p - 1))
    everything = RedactionProblem(chain=chain, length=length, private=(p,), epsilon=1, adversary=Adversary.DP)
    assert float(leakages(everything, (p, p), 1, marks)) == 0


@settings(max_examples=examples(60))
@given(seed=SEEDS, data=st.data())
def test_a_segment_as_a_whole(seed: int, data: st.DataObject) -> None:
    """Every pair of ways that the segment can have gone, every output, what is known listed, worst, and everything.

    Somebody may know records of the segment itself: what is left of it is then no easier to learn.
    """
    generator = np.random.default_rng(seed)
    length, size = data.draw(st.sampled_from([(1, 2), (2, 2), (4, 2), (6, 2), (3, 3), (5, 3)]))
    first = data.draw(st.integers(1, length))
    last = data.draw(st.integers(first, length))
    chain, marks = random_chain(generator, size), random_marks(generator, length, size)
    marks[first - 1 : last] = 1.0
    P, distribution, segment = chain.transition, chain.stationary, list(range(first - 1, last))
    others = [t for t in range(length) if t not in segment]
    known = data.draw(st.sets(st.sampled_from(others))) if others else set()
    private = tuple(range(first, last + 1))

    def hiding(adversary: str, known: tuple[int, ...] = ()) -> RedactionProblem:
        return RedactionProblem(
            chain=chain, length=length, private=private, epsilon=1, adversary=adversary, known=known, whole=True
        )

    listed = hiding("pufferfish", tuple(t + 1 for t in known))
    assert listed.secrets == ((first, last),)
    ours = float(leakages(listed, (first, last), 1, marks))
    assert near(ours, oracle.segment_leakage(P, distribution, marks, segment, sorted(known)))
    anyone = float(leakages(hiding("bdp"), (first, last), 1, marks))
    assert near(anyone, oracle.worst_segment_leakage(P, distribution, marks, segment))
    assert float(leakages(hiding("dp"), (first, last), 1, marks)) == 0
    each = RedactionProblem(chain=chain, length=length, private=private, epsilon=1, adversary="bdp")
    assert max(float(leakages(each, (p, p), 1, marks)) for p in private) <= anyone + ROUNDING
    inside = data.draw(st.sampled_from(segment))
    rest = [t for t in segment if t != inside]
    if rest:
        assert oracle.segment_leakage(P, distribution, marks, rest, [inside]) <= anyone + ROUNDING


@settings(max_examples=examples(20), deadline=None)
@given(seed=SEEDS, data=st.data())
def test_designs_for_a_segment_keep_the_guarantee(seed: int, data: st.DataObject) -> None:
    """Every method, by enumeration; and the window of single records, which is narrower, leaks too much somewhere."""
    generator = np.random.default_rng(seed)
    size, length = data.draw(st.sampled_from([(2, 6), (3, 5)]))
    first = data.draw(st.integers(1, length - 1))
    chain = random_chain(generator, size)
    adversary = data.draw(st.sampled_from(["bdp", "pufferfish"]))
    hiding = RedactionProblem(
        chain=chain,
        length=length,
        private=(first, first + 1),
        epsilon=data.draw(st.sampled_from([0.3, 1.0, 2.0])),
        adversary=adversary,
        whole=True,
    )
    worst = oracle.worst_segment_leakage if adversary == "bdp" else oracle.segment_leakage
    designs = {"window": window(hiding), "numerical": numerical(hiding), "optimal": optimal(hiding)}
    for design in designs.values():
        marks = np.array(design.probabilities())
        true = worst(chain.transition, chain.stationary, marks, [first - 1, first])
        assert near(design.leakage, true)
        assert true <= hiding.epsilon + ROUNDING
    assert designs["optimal"].utility >= max(d.utility for d in designs.values()) - ROUNDING


@pytest.mark.slow
def test_hiding_each_record_does_not_hide_the_segment() -> None:
    """The window for each of two records leaks more about both together than was guaranteed for one."""
    chain = MarkovChain(transition=np.array([[0.8, 0.2], [0.3, 0.7]]))
    each = RedactionProblem(chain=chain, length=9, private=(4, 5), epsilon=1.0)
    together = replace(each, whole=True)
    marks = np.array(window(each).probabilities())
    true = oracle.worst_segment_leakage(chain.transition, chain.stationary, marks, [3, 4])
    assert true > 1.05
    assert window(together).redacted > window(each).redacted


@settings(max_examples=examples(30))
@given(seed=SEEDS)
def test_the_largest_ratio_of_all_outcomes_is_the_leakage_of_a_side(seed: int) -> None:
    generator = np.random.default_rng(seed)
    size, length = int(generator.integers(2, 4)), int(generator.integers(2, 7))
    chain = MarkovChain(transition=generator.dirichlet(np.full(size, 2.0), size=size))
    adversary = generator.choice(["pufferfish", "bdp"])
    side = RedactionProblem(chain=chain, length=length, private=(1,), epsilon=1, adversary=adversary).sides((1, 1))[1]
    marks = generator.uniform(0.1, 0.9, (3, int(generator.integers(1, length)), size))
    assert np.allclose(side.ratios(marks).max(axis=-1), side.worst(marks), atol=1e-12)


def test_blocks_are_cut_at_sure_releases_and_private_records_stay_redacted() -> None:
    chain = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]])
    hiding = RedactionProblem(chain=chain, length=9, private=(3, 8), epsilon=1)
    marks = np.zeros((9, 2))
    marks[1] = [0.5, 0.25]
    first, second = blocks_of(hiding, 1, marks)
    assert (first.first, first.last, second.first, second.last) == (2, 3, 8, 8)
    assert first.marks.tolist() == [[0.5, 0.25], [1.0, 1.0]]
    assert isinstance(first, Block)
    design = Design(hiding=hiding, method="any", blocks=(first, second))
    assert design.probabilities() == [[0, 0], [0.5, 0.25], [1, 1], *[[0, 0]] * 4, [1, 1], [0, 0]]
    assert design.of(2).tolist() == [0.5, 0.25]
    assert design.of(9).tolist() == [0, 0]
    assert math.isclose(design.utility, 1 - (2 + 0.8 * 0.5 + 0.2 * 0.25) / 9)
