"""Exact leakage of additive noise over small models: against enumeration of all adversaries, and who reaches it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.additive.tables import TableLeakage
from pufferdp.bounds.additive.uninformed import UninformedLeakage
from pufferdp.bounds.distributions.base import TableDistributions
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.models.pedigree import Member, Pedigree
from pufferdp.publish.answers.distributions import answer_distributions, grid
from tests.oracles.leakage import channel_leakage, likelihoods
from tests.publish.answers.mechanisms.record_suite import case_of, cases, written_out
from tests.strategies import examples, groups, networks, pedigrees, tables

TAUS = st.sampled_from([0.05, 0.3, 1.0, 2.5])
SMALL = st.one_of(networks(4), tables(), groups(2, 3), pedigrees(4))


def family(children: int, frequency: float = 0.7) -> Pedigree:
    members = (Member("mother"), Member("father"), *(Member(str(n), "father", "mother") for n in range(children)))
    return Pedigree(members=members, major_allele_frequency=frequency)


def counted(model: Pedigree) -> list[np.ndarray]:
    return [np.array([1, 0, 0])] * len(model.records)


@given(model=pedigrees(5), state=st.sampled_from(["BB", "Bb", "bb"]), tau=TAUS)
def test_families_by_enumeration(model, state, tau):
    """To 1e-9, relative: all adversaries, and those who know no record."""
    case = case_of(model, f"count:{state}")
    distribution, channel = case.joint.astype(float), likelihoods(case.answers, 1 / tau)
    problem = case.problem(1.0)
    steps = grid(problem, model.domains).steps
    found = {
        "bdp": TableLeakage(model, steps).worst(tau)[0],
        "pufferfish": UninformedLeakage(next(answer_distributions(problem)).distributions).worst(tau)[0],
    }
    for adversary, value in found.items():
        assert value == pytest.approx(channel_leakage(distribution, channel, adversary), rel=1e-9, abs=1e-12), adversary


@settings(max_examples=examples(40))
@given(case=cases(SMALL), tau=TAUS)
def test_other_small_models_by_enumeration(case, tau):
    problem = case.problem(1.0)
    steps = grid(problem, case.model.domains)
    assume(steps is not None and not case.query.startswith(("histogram", "frequency")))
    channel = likelihoods(case.answers, float(steps.unit) / tau)
    found = {
        "bdp": TableLeakage(case.model, steps.steps).worst(tau)[0],
        "pufferfish": UninformedLeakage(next(answer_distributions(problem)).distributions).worst(tau)[0],
    }
    for adversary, value in found.items():
        truth = channel_leakage(case.joint.astype(float), channel, adversary)
        assert value == pytest.approx(truth, rel=1e-9, abs=1e-11), adversary


def seen_by(model, steps, who, tau, everything: bool) -> float:
    """The log-ratio that one adversary gets from one output, from the joint distribution and nothing else."""
    distribution = written_out(model)[0].astype(float)
    grid_ = np.indices(distribution.shape)
    component = next(c for c in model.components if who.record in c)
    counts = sum(steps[i][grid_[i]] for i in (component if everything else range(distribution.ndim)))
    density = distribution * np.exp(-tau * abs(counts - who.output))
    for i, state in who.known:
        distribution, density = (np.where(grid_[i] == state, table, 0.0) for table in (distribution, density))
    both = [
        density[grid_[who.record] == x].sum() / distribution[grid_[who.record] == x].sum()
        for x in (who.likelier, who.other)
    ]
    return float(np.log(both[0] / both[1]))


@settings(max_examples=examples(40))
@given(model=SMALL, tau=TAUS, data=st.data())
def test_who_is_said_to_reach_it_does(model, tau, data):
    steps = [np.array(data.draw(st.lists(st.integers(0, 3), min_size=k, max_size=k))) for k in model.sizes]
    rows, _ = model.outcomes()
    distributions = TableDistributions(model, sum(steps[i][rows[:, i]] for i in range(len(steps))))
    for found, who, everything in (
        (*TableLeakage(model, steps).worst(tau), True),
        (*UninformedLeakage(distributions).worst(tau), False),
    ):
        assert (who is None) == (found < 1e-11)
        if who is not None:
            assert seen_by(model, steps, who, tau, everything) == pytest.approx(found, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("children", [3, 4, 6])
@pytest.mark.parametrize("tau", [0.1, 0.5, 2.0])
def test_the_family_of_the_thesis(children, tau):
    """One parent is known to be BB. If the other is BB too all children are, if it is bb none is: (m-1) tau."""
    value, who = TableLeakage(family(children), counted(family(children))).worst(tau)
    assert value == pytest.approx((children + 1) * tau, rel=1e-12)
    assert (who.record, who.known, {who.likelier, who.other}) == (0, ((1, 0),), {0, 2})


def test_a_trio_leaks_more_than_the_example_of_the_thesis():
    """Who knows nothing learns more about the child than (m-1) tau: three BB against none."""
    value, who = TableLeakage(family(1), counted(family(1))).worst(0.5)
    assert 1.0 < value < 1.5
    assert (who.record, who.known, who.likelier, who.other) == (2, (), 0, 2)
    case = case_of(family(1), "count:BB")
    truth = channel_leakage(case.joint.astype(float), likelihoods(case.answers, 2.0), "bdp")
    assert value == pytest.approx(truth, rel=1e-12)


def test_families_are_looked_at_one_by_one():
    """Forty trios have 3^120 outcomes, and leak what one of them leaks."""
    trios = [
        m
        for n in range(40)
        for m in (Member(f"{n}a"), Member(f"{n}b"), Member(f"{n}c", father=f"{n}a", mother=f"{n}b"))
    ]
    many = Pedigree(members=tuple(trios), major_allele_frequency=0.7)
    leak = TableLeakage(many, counted(many))
    assert leak.worst(0.5) == pytest.approx(TableLeakage(family(1), counted(family(1))).worst(0.5))
    assert len(leak._parts) == 1


def test_hardly_any_noise_is_no_trouble():
    """Densities far below the end of doubles are still told apart."""
    assert TableLeakage(family(3), counted(family(3))).worst(1000.0)[0] == pytest.approx(4000.0)


def test_what_is_not_counted_does_not_leak_by_itself():
    alone = Pedigree(members=(Member("a"), Member("b")), major_allele_frequency=0.7)
    steps = [np.array([1, 0, 0]), np.array([0, 0, 0])]
    assert TableLeakage(alone, steps).worst(0.4)[0] == pytest.approx(0.4)
    assert TableLeakage(alone, steps[1:] * 2).worst(0.4) == (0.0, None)


def test_what_cannot_be_computed_is_refused():
    with pytest.raises(NotApplicableError, match="11 dependent records have too many"):
        TableLeakage(family(9), counted(family(9)))
    wide = [str(x) for x in range(20)]  # 20^10 outcomes cannot be listed
    nodes = [Node(name="0", states=wide, table=[0.05] * 20)]
    nodes += [
        Node(name=str(n), states=wide, parents=(str(n - 1),), table=np.full((20, 20), 0.05)) for n in range(1, 10)
    ]
    with pytest.raises(NotApplicableError, match="10 dependent records have too many"):
        TableLeakage(BayesianNetwork(nodes=tuple(nodes)), [np.arange(20)] * 10)
