"""Designs of redactions: the check values, who beats whom, and that every guarantee is kept."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferdp
from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import ModelError, NotApplicableError, ParameterError
from pufferdp.bounds.redaction.design import Design, RedactionProblem, leakages
from pufferdp.bounds.redaction.methods import (
    PrivateCluster,
    numerical,
    pointwise,
    private_clusters,
    reach,
    regions,
    splits,
    window,
)
from pufferdp.bounds.redaction.optimal import optimal
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.redaction.kind import REDACTIONS
from pufferdp_papers.redaction.independent import independent_bound
from pufferdp_papers.redaction.relaxed import relaxed, relaxed_designs
from tests.bounds.redaction.test_redaction_exact import random_chain
from tests.oracles import redaction as oracle
from tests.strategies import SEEDS, examples


def binary(alpha: float, beta: float) -> MarkovChain:
    return MarkovChain(transition=[[1 - alpha, alpha], [beta, 1 - beta]])


def hide(alpha: float, beta: float, n: int, p: int, epsilon: float, **more: Any) -> RedactionProblem:
    """As in the paper: from somebody who knows no record, unless another adversary is named."""
    more = {"adversary": Adversary.PUFFERFISH, **more}
    return RedactionProblem(chain=binary(alpha, beta), length=n, private=(p,), epsilon=epsilon, **more)


# ---- check values of the notes ----


def test_two_records_of_the_paper() -> None:
    hiding = hide(0.25, 0.5, 2, 1, 0.5)
    marks = np.array([[1.0, 1.0], [1 / 8, 1.0]])
    assert math.isclose(float(leakages(hiding, (1, 1), 1, marks)), 0.492476, abs_tol=5e-7)
    assert math.isclose(1 - float((marks @ hiding.chain.stationary).sum()) / 2, 7 / 24)
    assert window(hiding).utility == independent_bound(hiding.chain, 2, 1, 0.5) == 0
    assert optimal(hiding).utility >= 7 / 24


def test_ten_records_of_the_paper() -> None:
    hiding = hide(0.01, 0.8, 10, 1, 1)
    side = hiding.sides((1, 1))[1]
    zone = regions(side, 1)
    large = 1 + int((~zone.allowed.any(axis=1)).sum())  # the record itself is in L
    sizes = side.records - zone.small + 1, int(zone.allowed.any(axis=1).sum()), large
    assert sizes == (7, 2, 1)
    plain = relaxed(hiding)
    assert math.isclose(plain.of(2)[0], 0.757415, abs_tol=5e-7)
    assert math.isclose(plain.leakage, 0.679971, abs_tol=5e-7)
    assert math.isclose(plain.utility, 0.747918, abs_tol=5e-7)
    constant = numerical(hiding)
    assert math.isclose(constant.of(2)[0], 0.546926, abs_tol=1e-6)
    assert math.isclose(constant.utility, 0.7895, abs_tol=5e-5)
    assert math.isclose(independent_bound(hiding.chain, 10, 1, 1), 0.7)
    assert optimal(hiding).utility >= 0.7923  # per-record probabilities on a grid reach so much
    larger = hide(0.01, 0.8, 10, 1, 2)
    assert math.isclose(relaxed(larger).of(2)[0], 0.545890, abs_tol=5e-7)
    assert math.isclose(relaxed(larger).utility, 0.844850, abs_tol=5e-7)
    assert numerical(larger).of(2)[0] <= 0.3871 + 5e-5
    assert math.isclose(numerical(larger).utility, 0.8605, abs_tol=5e-5)
    assert math.isclose(independent_bound(larger.chain, 10, 1, 2), 0.8)


def test_closed_forms_of_the_influence() -> None:
    for alpha, beta in ((0.25, 0.5), (0.4, 0.1), (0.7, 0.9), (0.3, 0.3)):
        side = hide(alpha, beta, 12, 1, 1).sides((1, 1))[1]
        found, turn = pointwise(side, 11), 1 - alpha - beta
        for d in range(1, 12):
            low = abs(math.log((1 + alpha / beta * turn**d) / (1 - turn**d)))
            high = abs(math.log((1 + beta / alpha * turn**d) / (1 - turn**d)))
            assert np.allclose(found[d - 1], [low, high], atol=1e-12)
        smallest = next(d for d in range(1, 13) if d == 12 or found[d - 1].max() <= 0.5)
        assert reach(side, 0.5) == smallest


def test_equal_values_leave_no_middle_region() -> None:
    side = hide(0.3, 0.3, 30, 10, 1).sides((10, 10))[1]
    assert not regions(side, 0.4).allowed.any()


# ---- errata ----


def test_erratum_the_printed_bound_for_data_independent_designs_is_beaten() -> None:
    """Redacting only records 3 and 4 of 6 keeps the guarantee and releases 4; the printed bound allows 3."""
    hiding = hide(0.2, 0.4, 6, 3, 1.6)
    marks = np.zeros((6, 2))
    marks[2:4] = 1.0
    leak = oracle.leakage(hiding.chain.transition, hiding.chain.stationary, marks, 2)
    assert math.isclose(leak, 1.550597, abs_tol=5e-7)
    assert math.isclose(independent_bound(hiding.chain, 6, 3, 1.6, printed=True), 3 / 6)
    assert math.isclose(independent_bound(hiding.chain, 6, 3, 1.6), 4 / 6)
    assert math.isclose(window(hiding).utility, 4 / 6)


def test_erratum_the_papers_window_redacts_one_more_on_each_side_than_it_needs() -> None:
    hiding = hide(0.1, 0.3, 60, 30, 1)
    radius = reach(hiding.sides((30, 30))[1], 0.5)
    narrower = np.ones((2 * radius - 1, 2))
    assert float(leakages(hiding, (30, 30), 30 - radius + 1, narrower)) <= 1
    assert window(hiding).redacted <= 2 * radius - 1


def test_erratum_utility_falls_with_the_probabilities() -> None:
    hiding = hide(0.01, 0.8, 10, 1, 1)
    assert relaxed(hiding).of(2)[0] > numerical(hiding).of(2)[0]
    assert relaxed(hiding).utility < numerical(hiding).utility


# ---- who beats whom ----

GRID = [
    (0.05, 0.4, 1, 1, 1.0),
    (0.2, 0.3, 4, 2, 0.2),
    (0.4, 0.1, 9, 1, 2.5),
    (0.7, 0.9, 12, 5, 1.0),
    (0.01, 0.8, 40, 33, 2.5),
    (0.95, 0.6, 12, 5, 0.2),
]


def compare(hiding: RedactionProblem, p: int) -> None:
    """Every guarantee is kept, by enumeration too, and ours releases at least as much as every other method."""
    n, chain, epsilon = hiding.length, hiding.chain, hiding.epsilon
    plain = hiding.adversary is Adversary.PUFFERFISH
    designs = {one.name: one.design(hiding) for one in REDACTIONS}
    if plain:
        designs["3r-relaxed"] = relaxed(hiding)
    for design in designs.values():
        assert design.leakage <= epsilon
        assert (design.of(p) == 1).all()
        assert 0 <= design.utility <= 1 - 1 / n + 1e-12
        if n <= 6:
            marks = np.array(design.probabilities())
            enumerate_ = oracle.leakage if plain else oracle.worst_leakage
            true = enumerate_(chain.transition, chain.stationary, marks, p - 1)
            assert math.isclose(design.leakage, true, rel_tol=1e-9, abs_tol=1e-9)
    ours = designs["3r-optimal"].utility
    assert all(ours >= other.utility for other in designs.values())
    if not plain:
        return
    # The same number of records may be summed in another order: rounding, no more.
    assert designs["3r-numerical"].utility >= designs["3r-relaxed"].utility - 1e-12
    assert designs["window"].utility <= independent_bound(chain, n, p, epsilon) + 1e-12
    (cluster,) = private_clusters(hiding)
    for split, (first, marks) in zip(splits(cluster), relaxed_designs(cluster), strict=True):
        narrow = sum(
            min(reach(side, e) - 1, side.records) if e else side.records
            for side, e in zip(cluster.sides, split, strict=True)
        )
        assert cluster.released(first, marks) >= -(narrow + 1) - 1e-12  # the window of the same split


@pytest.mark.parametrize(("alpha", "beta", "n", "p", "epsilon"), GRID)
def test_on_a_grid(alpha: float, beta: float, n: int, p: int, epsilon: float) -> None:
    compare(hide(alpha, beta, n, p, epsilon), p)


@settings(max_examples=examples(20))
@given(
    alpha=st.floats(0.001, 0.999),
    beta=st.floats(0.001, 0.999),
    n=st.integers(1, 30),
    place=st.floats(0, 1),
    epsilon=st.floats(0.01, 4),
    adversary=st.sampled_from([Adversary.PUFFERFISH, Adversary.BDP]),
)
def test_anywhere(alpha: float, beta: float, n: int, place: float, epsilon: float, adversary: Adversary) -> None:
    """The same off the grid: any chain, negative correlation too, the private record anywhere, both adversaries."""
    p = 1 + round(place * (n - 1))
    compare(hide(alpha, beta, n, p, epsilon, adversary=adversary), p)


@pytest.mark.parametrize(("alpha", "beta"), [(0.2, 0.4), (0.6, 0.8), (0.05, 0.3), (0.9, 0.3)])
def test_no_window_at_all_beats_the_corrected_bound(alpha: float, beta: float) -> None:
    for n, epsilon in itertools.product((3, 6, 7), (0.3, 0.8, 1.6, 3.0)):
        for p in range(1, n + 1):
            hiding = hide(alpha, beta, n, p, epsilon)
            least = n
            for i, j in itertools.product(range(p), range(n - p + 1)):
                if float(leakages(hiding, (p, p), p - i, np.ones((i + j + 1, 2)))) <= epsilon:
                    least = min(least, i + j + 1)
            # Every set of records, not only windows. A probability between 0 and 1 leaks as its worst draw does.
            sets = np.array([which for which in itertools.product((0.0, 1.0), repeat=n) if which[p - 1]])
            kept = leakages(hiding, (p, p), 1, np.repeat(sets[:, :, None], 2, axis=2)) <= epsilon
            assert sets.sum(axis=1)[kept].min() == least
            assert 1 - least / n <= independent_bound(hiding.chain, n, p, epsilon) + 1e-12
            assert math.isclose(window(hiding).utility, 1 - least / n, abs_tol=1e-12)


# ---- several records, several states, known records ----


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(seed=SEEDS, data=st.data())
def test_every_method_keeps_its_guarantee_and_never_shows_a_private_record(seed: int, data: st.DataObject) -> None:
    generator = np.random.default_rng(seed)
    size, length = data.draw(st.sampled_from([(1, 3), (2, 5), (2, 6), (3, 4)]))
    private = tuple(data.draw(st.sets(st.integers(1, length), min_size=1, max_size=2)))
    epsilon = data.draw(st.sampled_from([0.1, 0.7, 2.0]))
    adversary = data.draw(st.sampled_from(list(Adversary)))
    chain = random_chain(generator, size)
    hiding = RedactionProblem(chain=chain, length=length, private=private, epsilon=epsilon, adversary=adversary)
    for one in REDACTIONS:
        design = one.design(hiding)
        marks = np.array(design.probabilities())
        for p in private:
            assert (marks[p - 1] == 1).all()
            if adversary is Adversary.BDP:
                leak = oracle.worst_leakage(chain.transition, chain.stationary, marks, p - 1)
            else:
                others = [t for t in range(length) if t != p - 1] if adversary is Adversary.DP else []
                leak = oracle.leakage(chain.transition, chain.stationary, marks, p - 1, others)
            assert leak <= epsilon + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("adversary", [Adversary.PUFFERFISH, Adversary.BDP])
def test_several_private_records_are_hidden_together(adversary: Adversary) -> None:
    chain = binary(0.05, 0.3)
    plain = adversary is Adversary.PUFFERFISH
    for private in ((20, 26), (20, 21, 22), (5, 60), (1, 80))[: 4 if plain else 2]:
        hiding = RedactionProblem(chain=chain, length=80, private=private, epsilon=1, adversary=adversary)
        designs = [one.design(hiding) for one in REDACTIONS]
        assert all(d.leakage <= 1 for d in designs)
        assert designs[-1].utility == max(d.utility for d in designs)
        alone = [optimal(hiding.only(p)) for p in private]
        careful = np.maximum.reduce([np.array(d.probabilities()) for d in alone])
        together = Design(hiding=hiding, method="any", blocks=designs[-1].blocks)
        # At least as good as the more careful of both, wherever that keeps the guarantee.
        run = PrivateCluster(hiding=hiding, private=private)
        if float(run.leakage(1, careful)) <= 1:
            assert together.redacted <= -run.released(1, careful) + 1e-6


def test_known_records_cut_the_series() -> None:
    hiding = hide(0.05, 0.3, 80, 40, 1, known=(38, 42))
    design = optimal(hiding)
    assert design.leakage <= 1
    assert all(b.first > 37 and b.last < 43 for b in design.blocks)
    assert optimal(hide(0.05, 0.3, 80, 40, 1, adversary="dp")).redacted == 1


@pytest.mark.slow
def test_somebody_who_knows_records_learns_more_so_the_default_redacts_more() -> None:
    everybody = RedactionProblem(chain=binary(0.05, 0.3), length=80, private=(40,), epsilon=1)
    assert everybody.adversary is Adversary.BDP
    careful, plain = optimal(everybody), optimal(hide(0.05, 0.3, 80, 40, 1))
    assert careful.redacted > plain.redacted
    assert plain.leakage <= 1 < plain.leakage_to(Adversary.BDP)
    assert careful.leakage_to(Adversary.PUFFERFISH) <= careful.leakage <= 1


def test_a_long_series_costs_no_more() -> None:
    short, long = optimal(hide(0.1, 0.3, 200, 100, 1)), optimal(hide(0.1, 0.3, 10**12, 10**11, 1))
    assert math.isclose(short.redacted, long.redacted, rel_tol=1e-9)


# ---- ugly cases ----


def test_chains_that_never_change_release_nothing() -> None:
    for table, adversary in itertools.product(([[1, 0], [0, 1]], [[0, 1], [1, 0]]), ("pufferfish", "bdp")):
        chain = MarkovChain(transition=table)
        hiding = RedactionProblem(chain=chain, length=6, private=(3,), epsilon=5, adversary=checks.adversary(adversary))
        for one in REDACTIONS:
            # A known record tells such a chain already, and then nothing is left to learn: released or not, 0 leaks.
            assert one.design(hiding).leakage == 0
            assert one.design(hiding).utility == 0


def test_independent_records_are_all_released() -> None:
    for one in REDACTIONS:
        assert one.design(hide(0.3, 0.7, 6, 3, 0.001)).redacted == 1


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan])
def test_an_epsilon_that_guarantees_nothing_is_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        hide(0.3, 0.4, 5, 1, epsilon)


@pytest.mark.parametrize(("private", "said"), [((0,), "private row is 0"), ((6,), "5 records"), ((), "no private")])
def test_private_rows_outside_are_refused(private: tuple[int, ...], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        RedactionProblem(chain=binary(0.3, 0.4), length=5, private=private, epsilon=1)


def test_models_without_a_stationary_chain_are_refused() -> None:
    with pytest.raises(NotApplicableError, match="stationary"):
        RedactionProblem(
            chain=MarkovChain(transition=[[0.5, 0.5], [0.2, 0.8]], start="any"), length=5, private=(1,), epsilon=1
        )
    with pytest.raises(ModelError, match="probability 0"):
        RedactionProblem(chain=MarkovChain(transition=[[0.5, 0.5], [0, 1]]), length=5, private=(1,), epsilon=1)
    with pytest.raises(ParameterError, match="private and known"):
        hide(0.3, 0.4, 5, 1, 1, known=(1,))
    with pytest.raises(ParameterError, match="known records are listed"):
        hide(0.3, 0.4, 5, 1, 1, known=(2,), adversary="bdp")
    with pytest.raises(NotApplicableError, match="two states"):
        independent_bound(MarkovChain(transition=np.full((3, 3), 1 / 3)), 5, 1, 1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_known_records_may_rule_values_out(epsilon: float) -> None:
    """A chain with zeros: some values of the private record cannot be beside what is known, and their odds are 0."""
    chain = MarkovChain(transition=[[0, 0.54, 0.46], [0, 0, 1], [1, 0, 0]])
    found = pufferdp.plan_redaction(
        chain, length=6, private=[3], epsilon=epsilon, adversary="pufferfish", known=[5, 6], method="3r-optimal"
    )
    marks = np.array(found.probabilities())
    assert oracle.leakage(chain.transition, chain.stationary, marks, 2, [4, 5]) <= epsilon + 1e-9
    assert found.leakage <= epsilon
