"""Differential privacy does not ask the model; where only the model makes hardly any noise enough, one rule holds."""

from __future__ import annotations

import itertools

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp import JointTable, MarkovChain, leakage_of, plan, release, verify
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import DataError, NotApplicableError
from pufferdp.publish.answers.certificate import EXACT_ANSWER, NEARLY_EXACT
from pufferdp.publish.answers.mechanisms import MECHANISMS
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.certificate import content_hash
from tests.strategies import chains, examples

BIRTH_DEATH = MarkovChain(
    transition=[
        [0.5, 0.5, 0.0, 0.0, 0.0],
        [0.3, 0.4, 0.3, 0.0, 0.0],
        [0.0, 0.3, 0.4, 0.3, 0.0],
        [0.0, 0.0, 0.3, 0.4, 0.3],
        [0.0, 0.0, 0.0, 0.5, 0.5],
    ]
)


def test_a_record_of_a_birth_death_chain_moves_the_sum_by_four():
    """Between neighbours that are known it could move by two only; differential privacy knows of no neighbours."""
    plans = plan(BIRTH_DEATH, "sum", epsilon=1.0, length=50, adversary="dp")
    for candidate in plans.candidates:
        if candidate.applies:
            assert candidate.calibration.scale >= 4.0 * (1 - 1e-12), candidate.mechanism
    assert plans.candidate("exact-laplace").calibration.scale == pytest.approx(4.0, rel=1e-6)
    report = leakage_of(BIRTH_DEATH, dp_epsilon=0.5, length=50, query="sum", adversary="dp")
    assert report.exact == pytest.approx(0.5, rel=1e-12)
    assert (report.witness.knows, report.witness.likelier, report.witness.other) == ("all other records", "4", "0")


@settings(max_examples=examples(40))
@given(
    chain=chains(4),
    length=st.integers(1, 6),
    query=st.sampled_from(["count:0", "sum", "histogram"]),
    epsilon=st.sampled_from([0.3, 1.0, 3.0]),
)
def test_under_dp_no_mechanism_has_less_noise_than_one_record_needs(chain, length, query, epsilon):
    if chain.size == 1:
        return
    problem = Problem(
        model=chain, query=Query.parse(query), lengths=((length, 1),), epsilon=epsilon, adversary=Adversary.DP
    )
    for mechanism in MECHANISMS:
        if mechanism.approximate:
            continue
        try:
            sigma = mechanism.calibrate(problem).sigma
        except NotApplicableError:
            continue
        assert sigma >= (1 - 1e-12) / epsilon, mechanism.name


class NoNoise:
    """A sampler that returns the exact answer."""

    warning = None

    def discrete_laplace(self, exact, scale):
        return list(exact)

    def laplace(self, exact, scale):
        return list(exact)


FIXED = JointTable(values=[0, 1], outcomes=[(0, 1, 1)], probabilities=[1.0])
SURE = pd.DataFrame({"who": ["1", "2", "3"], "ill": [0, 1, 1]})
OTHER = pd.DataFrame({"who": ["1", "2", "3"], "ill": [0, 0, 1]})


@pytest.mark.parametrize(("mechanism", "adversary"), [("wasserstein", "pufferfish"), ("exact-laplace", "bdp")])
def test_what_the_model_fixes_is_published_by_one_rule(mechanism, adversary):
    """The answer is exact, the certificate says so, and data that the model rules out are refused."""
    done = release(
        SURE,
        model=FIXED,
        column="ill",
        id="who",
        query="count:1",
        epsilon=1.0,
        adversary=adversary,
        mechanism=mechanism,
    )
    assert (done.answer, done.certificate.noise.scale) == (2, 0.0)
    assert EXACT_ANSWER in done.certificate.warnings
    assert verify(done.certificate).valid
    with pytest.raises(DataError, match="rules out what is in the data"):
        release(
            OTHER,
            model=FIXED,
            column="ill",
            id="who",
            query="count:1",
            epsilon=1.0,
            adversary=adversary,
            mechanism=mechanism,
        )


def test_an_answer_that_is_nearly_exact_says_so_and_is_for_possible_data():
    """One or two of three are ill, all cases alike: the exact count shifts odds by 2, and epsilon 1 allows e."""
    some = [row for row in itertools.product((0, 1), repeat=3) if 0 < sum(row) < 3]
    model = JointTable(values=[0, 1], outcomes=some, probabilities=[1 / 6] * 6)
    arguments = {
        "model": model,
        "column": "ill",
        "id": "who",
        "query": "count:1",
        "epsilon": 1.0,
        "adversary": "pufferfish",
        "mechanism": "exact-laplace",
    }
    done = release(SURE, **arguments)
    assert done.certificate.noise.scale == pytest.approx(0.01)
    assert NEARLY_EXACT in done.certificate.warnings
    assert verify(done.certificate).valid
    without = done.certificate.to_dict() | {"warnings": []}
    assert not verify(without | {"sha256": content_hash(without)}).valid
    with pytest.raises(DataError, match="rules out"):
        release(SURE.assign(ill=[0, 0, 0]), **arguments)


def test_noise_that_one_record_needs_is_not_called_nearly_exact():
    """At epsilon 90 noise of scale 1/90 is what differential privacy asks for; the model plays no role in it."""
    chain = MarkovChain(transition=[[0.2, 0.8], [0.7, 0.3]])
    frame = pd.DataFrame({"state": [0, 1, 0, 1]})
    done = release(frame, model=chain, column="state", query="count:1", epsilon=90.0, sampler=NoNoise())
    assert NEARLY_EXACT not in done.certificate.warnings
    assert EXACT_ANSWER not in done.certificate.warnings
