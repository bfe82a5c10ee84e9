"""Priors that an audit draws from: every kind of model against enumeration, and what cannot be is refused.

Frequencies of 4,000 draws are held against exact distributions; all of one check together miss with probability below
1e-9 (tests/models/test_simulate.py). Chains and normal records are checked there as well.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.assess.audit.priors import ChainPrior, NormalPrior, Prior, TablePrior, priors_of
from pufferdp.basics.errors import ModelError, NotApplicableError, ParameterError
from pufferdp.models.base import Model, RecordModel
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import BinaryInterval, MarkovClass, MarkovInterval
from pufferdp.models.gaussian import Gaussian, LimitedCorrelation
from pufferdp.models.groups import AnyGroups
from pufferdp.models.model_class import ModelClass
from pufferdp.models.pedigree import Member, Pedigree
from tests.models.test_simulate import DRAWS, assert_follows
from tests.strategies import SEEDS, examples, groups, networks, tables

TRIO = Pedigree(
    members=(Member("m"), Member("f"), Member("c", father="f", mother="m"), Member("alone")),
    major_allele_frequency=0.7,
)
STICKY = MarkovChain(transition=[[0.9, 0.1], [0.1, 0.9]])


def written_out(model: RecordModel) -> np.ndarray:
    """The joint distribution, one axis a record, by adding up outcomes."""
    distribution = np.zeros(model.sizes)
    rows, chances = model.outcomes()
    np.add.at(distribution, tuple(rows.T), chances)
    return distribution


@given(model=st.one_of(networks(most_nodes=4), tables(), groups(), st.just(TRIO)), listed=st.booleans(), seed=SEEDS)
@settings(max_examples=examples(60))
def test_records_follow_their_distribution_given_what_is_known(model: RecordModel, listed: bool, seed: int) -> None:
    """From the list of outcomes and record by record."""
    prior = TablePrior(model)
    if not listed:
        prior.__dict__["_listed"] = None
    generator = np.random.default_rng(seed)
    distribution = written_out(model)
    known = {j: int(generator.integers(k)) for j, k in enumerate(model.sizes) if generator.random() < 0.4}
    fits = np.ones(distribution.shape, dtype=bool)
    for j, x in known.items():
        fits &= np.indices(distribution.shape)[j] == x
    total = float(distribution[fits].sum())
    if total == 0:
        assert prior.log_probability(known) == -math.inf
        with pytest.raises(ModelError, match="probability 0"):
            prior.draw(known, 10, generator)
        return
    assert prior.log_probability(known) == pytest.approx(math.log(total), abs=1e-9)
    assert_follows(prior.draw(known, DRAWS, generator), np.where(fits, distribution / total, 0.0))


def test_the_nearest_come_first() -> None:
    assert ChainPrior(STICKY, 5).near(1) == ((0, 2), (3,), (4,))
    assert ChainPrior(STICKY, 1).near(0) == ()
    family = TablePrior(TRIO)
    assert family.near(0) == ((1, 2),)  # parents of a child are linked
    assert family.near(3) == ()
    heights = NormalPrior(Gaussian(mean=[0, 0, 0], covariance=[[1, 0.1, 0.6], [0.1, 1, 0], [0.6, 0, 1]]), (-1.0, 1.0))
    assert heights.near(0) == ((2,), (1,))


def test_densities_of_normal_records() -> None:
    prior = NormalPrior(Gaussian(mean=[1, 2], covariance=[[4, 1], [1, 1]]), (0.0, 1.0))
    assert prior.log_probability({}) == 0
    assert prior.log_probability({0: 3.0}) == pytest.approx(-0.5 - math.log(2 * math.sqrt(2 * math.pi)))
    both = np.array([2.0, -1.0]) @ np.linalg.solve([[4, 1], [1, 1]], [2.0, -1.0])
    assert prior.log_probability({0: 3.0, 1: 1.0}) == pytest.approx(-both / 2 - math.log(2 * math.pi * math.sqrt(3)))


def chains_of(model: Model) -> list[MarkovChain]:
    return [prior.chain for prior in priors_of(model, 7) if isinstance(prior, ChainPrior)]


def test_priors_of_a_class_lie_in_it() -> None:
    other = MarkovChain(transition=[[0.5, 0.5], [0.4, 0.6]], start="any")
    found = chains_of(MarkovClass(models=[STICKY, other]))
    assert [chain.start for chain in found] == ["stationary", "stationary"]
    for chain in chains_of(BinaryInterval(low=0.2, high=0.8)):
        assert 0.2 <= chain.transition[0, 0] <= 0.8
    box = MarkovInterval(
        low=[[0.5, 0.1, 0.1], [0.0, 0.2, 0.1], [0.1, 0.1, 0.1]],
        high=[[0.7, 0.4, 0.4], [0.6, 0.9, 0.3], [0.8, 0.3, 0.7]],
    )
    (chain,) = chains_of(box)
    assert (chain.transition >= box.low - 1e-12).all()
    assert (chain.transition <= box.high + 1e-12).all()
    assert len(priors_of(ModelClass(models=[TRIO, TRIO]))) == 2
    (normal,) = priors_of(LimitedCorrelation(records=3, rho=0.2), clip=(0.0, 8.0))
    assert isinstance(normal, NormalPrior)
    assert normal.model.pearson((0, 1, 2)) == pytest.approx(0.2)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ParameterError, match="length is missing"):
        priors_of(STICKY)
    with pytest.raises(ParameterError, match="clip is missing"):
        priors_of(Gaussian(mean=[0], covariance=[[1]]))
    with pytest.raises(NotApplicableError, match="no distribution to draw from"):
        priors_of(AnyGroups(largest=3))


def test_names_and_values() -> None:
    named: list[tuple[Prior, str, str]] = [
        (
            ChainPrior(MarkovChain(transition=[[0.5, 0.5], [0.5, 0.5]], states=["rest", "active"]), 3),
            "record 2",
            "active",
        ),
        (TablePrior(TRIO), "record f", "Bb"),
        (NormalPrior(Gaussian(mean=[0, 0], covariance=[[1, 0], [0, 1]]), (-1.0, 1.0)), "record 2", "1"),
    ]
    for prior, record, value in named:
        assert prior.name(1) == record
        assert prior.value(1, 1.0) == value
