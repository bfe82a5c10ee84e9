"""What is left of a guarantee against another alternative: it bounds the leakage there, for every kind of class."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pufferdp import (
    Ar1,
    BinaryInterval,
    Gaussian,
    HiddenMarkov,
    HiddenStates,
    MarkovChain,
    MarkovClass,
    MarkovClock,
    MarkovInterval,
    ModelError,
    NotApplicableError,
    ParameterError,
    leakage_of,
    robustness,
)
from pufferdp.assess.robustness import closest, drift_towards
from pufferdp.basics.adversary import Adversary
from pufferdp.models.groups import AnyGroups, Groups
from pufferdp.models.joint import JointTable
from pufferdp.models.model_class import ModelClass
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.publish.answers.mechanisms.baselines import Group
from pufferdp.publish.answers.mechanisms.quilt import QuiltExact
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.answers.secrets import Secret, Secrets
from tests.bounds.distributions.test_divergence import distribution_of, pairs
from tests.oracles import divergence as oracle
from tests.oracles.leakage import leakage
from tests.publish.answers.mechanisms.suite import starts_of
from tests.strategies import SEEDS, epsilons
from tests.tolerance import safe_loss


def two(p: float, q: float, **more) -> MarkovChain:
    """Two states with these stay-probabilities."""
    return MarkovChain(transition=[[p, 1 - p], [1 - q, q]], **more)


# ---- the guarantee ----


@pytest.mark.parametrize("mechanism", [Group(), QuiltExact()], ids=["group", "quilt-exact"])
@given(pair=pairs(), T=st.integers(1, 5), epsilon=epsilons, seed=SEEDS)
def test_epsilon_plus_twice_delta_bounds_the_leakage_under_the_belief(mechanism, pair, T, epsilon, seed):
    alternative, model = pair
    left = robustness(model, alternative, epsilon=epsilon, length=T)
    assume(math.isfinite(left.epsilon))
    problem = Problem(
        model=model,
        query=Query.parse("count:0"),
        lengths=((T, 1),),
        epsilon=epsilon,
        adversary=Adversary.PUFFERFISH,
    )
    scale = mechanism.calibrate(problem).scale
    for start in starts_of(alternative, np.random.default_rng(seed)):
        assert leakage(alternative.transition, start, T, "count:0", scale, everyone=False) <= left.epsilon + 1e-9


def test_without_conditioning_the_guarantee_would_be_broken():
    """The distance of the distributions as a whole gives a number that the leakage under the alternative passes."""
    alternative = MarkovChain(transition=[[0.99, 0.01], [0.8, 0.2]], start=[0.6, 0.4])
    model = MarkovChain(transition=[[0.97, 0.03], [0.96, 0.04]], start=[0.2, 0.8])
    scale = 0.16
    guaranteed, found = (
        leakage(c.transition, distribution_of(c), 2, "count:0", scale, everyone=False) for c in (model, alternative)
    )
    whole = oracle.both_ways(
        *(list(oracle.paths(c.transition, distribution_of(c), 2).values()) for c in (alternative, model))
    )
    assert found > guaranteed + 2 * whole + 0.3
    assert found <= robustness(model, alternative, epsilon=guaranteed, length=2).epsilon


# ---- what the same noise leaks under the other model ----


@given(pair=pairs(), T=st.integers(1, 5), epsilon=epsilons, seed=SEEDS)
def test_noise_for_the_guarantee_leaks_no_more_than_is_said_under_the_other_model(pair, T, epsilon, seed):
    """A count with Laplace noise of that DP epsilon: by enumeration, under both models."""
    other, model = pair
    left = robustness(model, other, epsilon=epsilon, length=T)
    assert left.leakage_under_other is not None
    scale = 1 / left.dp_epsilon
    generator = np.random.default_rng(seed)
    for chain, bound in ((model, epsilon), (other, left.leakage_under_other)):
        for start in starts_of(chain, generator):
            assert leakage(chain.transition, start, T, "count:0", scale, everyone=False) <= bound + 1e-6
    assert left.guarantee == min(left.epsilon, left.leakage_under_other)


def test_the_noise_leaks_little_where_the_distance_says_nothing():
    """A day of a wearer: the bound for every mechanism grows with the series, what the noise leaks does not."""
    table = [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]
    model, other = (MarkovChain(transition=rows) for rows in (table, [[0.73, 0.18, 0.09], *table[1:]]))
    left = robustness(model, other, epsilon=1, length=288)
    assert left.epsilon == pytest.approx(31.34, abs=0.01)
    assert left.leakage_under_other == safe_loss(1.068, digits=1e-3)
    assert left.guarantee == left.leakage_under_other
    assert re.search(r"leaks at most 1\.06\d under the alternative model", " ".join(str(left).split()))
    again = leakage_of(other, dp_epsilon=left.dp_epsilon, length=288, adversary="pufferfish")
    assert left.leakage_under_other == again.epsilon
    louder = robustness(model, other, epsilon=1, length=288, dp_epsilon=0.1)
    assert (louder.dp_epsilon, louder.epsilon) == (0.1, left.epsilon)
    assert louder.guarantee < left.guarantee


def test_the_noise_leaks_also_where_one_model_rules_out_what_the_other_allows():
    left = robustness(two(0.9, 0.6), two(0.9, 0.0), epsilon=1, length=5)
    assert left.epsilon == math.inf
    assert left.guarantee == left.leakage_under_other < 5
    content = json.loads(json.dumps(left.to_dict(), allow_nan=False))
    assert (content["epsilon"], content["leakage_reason"]) == (None, None)
    assert content["leakage_under_other"] == content["guarantee"] == left.guarantee


def test_where_no_leakage_bound_is_known_there_is_a_reason():
    secrets = Secrets(
        secrets=(Secret(name="a", when={"1": "0"}), Secret(name="b", when={"1": "1"})), pairs=(("a", "b"),)
    )
    left = robustness(TWINS, OTHER, epsilon=1, secrets=secrets)
    assert (left.leakage_under_other, left.dp_epsilon) == (None, None)
    assert "secrets of your own" in left.to_dict()["leakage_reason"]
    assert left.guarantee == left.epsilon
    assert "no bound under the alternative model, because" in " ".join(str(left).split())


# ---- classes of chains ----


def test_a_belief_of_the_class_keeps_the_whole_guarantee():
    inside = two(0.7, 0.6, start=[0.3, 0.7])
    classes = [
        inside,
        two(0.7, 0.6, start="any"),
        MarkovClass(models=(two(0.2, 0.3), inside)),
        BinaryInterval(low=0.6, high=0.7),
        MarkovInterval(low=[[0.6, 0.2], [0.4, 0.5]], high=[[0.8, 0.4], [0.5, 0.6]]),
    ]
    for model in classes:
        left = robustness(model, inside, epsilon=1, length=10_000)
        assert (left.delta, left.epsilon, left.exact, left.record) == (0, 1, True, None), model
        assert "holds in full" in str(left)


def test_a_listed_class_takes_its_nearest_chain():
    near, far, alternative = two(0.72, 0.6), two(0.9, 0.9), two(0.7, 0.6)
    alone = robustness(near, alternative, epsilon=1, length=9)
    for models in ((near, far), (far, near)):
        left = robustness(MarkovClass(models=models), alternative, epsilon=1, length=9)
        assert (left.delta, left.record, left.value, left.exact) == (alone.delta, alone.record, alone.value, True)
        assert left.dp_epsilon < alone.dp_epsilon  # noise for the whole class
    assert alone.exact
    # A chain with any start in the list: its own distance is only bounded, so nothing is exact any more.
    mixed = MarkovClass(models=(near, two(0.9, 0.9, start="any")))
    assert not robustness(mixed, alternative, epsilon=1, length=9).exact


def test_several_beliefs_are_as_bad_as_the_worst():
    near, far, model = two(0.72, 0.6), two(0.9, 0.9), two(0.7, 0.6)
    worst = robustness(model, far, epsilon=1, length=9)
    assert robustness(model, MarkovClass(models=(near, far)), epsilon=1, length=9) == worst


@given(seed=SEEDS, T=st.integers(1, 5))
def test_the_chain_taken_from_a_box_lies_in_it_and_has_the_distance_that_is_said(seed, T):
    generator = np.random.default_rng(seed)
    k = int(generator.integers(2, 4))
    centre, table = generator.dirichlet(np.ones(k), size=(2, k))
    width = 10 ** generator.uniform(-3, -0.5)
    box = MarkovInterval(low=np.maximum(centre - width, 0), high=np.minimum(centre + width, 1))
    alternative = MarkovChain(transition=table, start=generator.dirichlet(np.ones(k)))
    near = closest(box, alternative, T)
    member = near.chain.transition
    assert ((member >= box.low - 1e-12) & (member <= box.high + 1e-12)).all()
    expected = oracle.chain_delta(table, alternative.start, member, alternative.start, T)
    assert near.divergence.value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert near.divergence.exact == (near.divergence.value in (0, math.inf))


@given(seed=SEEDS)
def test_no_row_of_the_box_is_nearer_in_its_largest_ratio(seed):
    generator = np.random.default_rng(seed)
    centre, row = generator.dirichlet(np.ones(3), size=2)
    width = 10 ** generator.uniform(-2, -0.5)
    low, high = np.maximum(centre - width, 0), np.minimum(centre + width, 1)
    box = MarkovInterval(low=[low] * 3, high=[high] * 3)
    alternative = MarkovChain(transition=[row] * 3)
    nearest = abs(np.log(closest(box, alternative, 2).chain.transition[0] / row)).max()
    for other in generator.dirichlet(300 * centre + 0.1, size=200):
        if (other >= box.low[0]).all() and (other <= box.high[0]).all():
            assert abs(np.log(other / row)).max() >= nearest - 1e-9


@pytest.mark.parametrize(
    ("interval", "alternative", "nearest"),
    [
        (BinaryInterval(low=0.3, high=0.6), two(0.7, 0.5), two(0.6, 0.5)),
        (BinaryInterval(low=0.3, high=0.6), two(0.2, 0.9), two(0.3, 0.6)),
        (MarkovInterval(low=[[0.3, 0.4], [0.4, 0.3]], high=[[0.6, 0.7], [0.7, 0.6]]), two(0.7, 0.5), two(0.6, 0.5)),
    ],
)
def test_the_nearest_chain_of_an_interval_by_hand(interval, alternative, nearest):
    start = distribution_of(alternative)
    expected = oracle.chain_delta(alternative.transition, start, nearest.transition, start, 4)
    found = robustness(interval, alternative, epsilon=1, length=4)
    assert found.delta == pytest.approx(expected, rel=1e-9)
    assert not found.exact
    assert "upper bound" in str(found)


def test_a_box_row_is_rescaled_inside_its_bounds():
    box = MarkovInterval(
        low=[[0.0, 0.2, 0.2], [0.2, 0.2, 0.2], [0.2, 0.2, 0.2]], high=[[0.5, 0.6, 0.6], [0.6] * 3, [0.6] * 3]
    )
    alternative = MarkovChain(transition=[[0.8, 0.15, 0.05], [0.4, 0.3, 0.3], [0.4, 0.3, 0.3]], start=[1.0, 0, 0])
    nearest = [[0.5, 0.3, 0.2], [0.4, 0.3, 0.3], [0.4, 0.3, 0.3]]
    expected = oracle.chain_delta(alternative.transition, [1, 0, 0], nearest, [1, 0, 0], 3)
    assert robustness(box, alternative, epsilon=1, length=3).delta == pytest.approx(expected, rel=1e-9)


def test_a_box_that_needs_a_step_the_belief_rules_out():
    box = MarkovInterval(low=[[0.1, 0.5], [0.1, 0.5]], high=[[0.5, 0.9], [0.5, 0.9]])
    left = robustness(box, MarkovChain(transition=[[1.0, 0.0], [0.5, 0.5]], start=[1.0, 0.0]), epsilon=1, length=3)
    assert left.delta == math.inf
    assert left.exact


def test_states_may_come_in_another_order():
    model = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], states=["rest", "active"], start=[0.2, 0.8])
    alternative = MarkovChain(transition=[[0.65, 0.35], [0.15, 0.85]], states=["active", "rest"], start=[0.7, 0.3])
    turned = MarkovChain(transition=[[0.85, 0.15], [0.35, 0.65]], states=["rest", "active"], start=[0.3, 0.7])
    one, other = (robustness(model, each, epsilon=1, length=7) for each in (alternative, turned))
    assert one.leakage_under_other == pytest.approx(other.leakage_under_other, rel=1e-9)
    assert replace(one, leakage_under_other=None) == replace(other, leakage_under_other=None)
    with pytest.raises(ModelError, match="the alternative has the states rest, run; the model has rest, active"):
        robustness(model, two(0.5, 0.5, states=["rest", "run"]), epsilon=1, length=7)


def test_nothing_is_left_and_why():
    model, alternative = two(0.9, 0.6, states=["rest", "active"]), two(0.9, 0.0, states=["rest", "active"])
    left = robustness(model, alternative, epsilon=1, length=5)
    assert (left.delta, left.epsilon) == (math.inf, math.inf)
    content = json.loads(json.dumps(left.to_dict(), allow_nan=False))
    assert content["delta"] is None
    assert content["epsilon"] is None
    assert content["reason"] == "the model lets active follow active; the alternative rules it out"
    assert "no guarantee follows" in str(left)


def test_an_open_start_against_a_known_one():
    model, alternative = two(0.9, 0.6), two(0.9, 0.6, start="any")
    assert robustness(model, alternative, epsilon=1, length=1).delta == 0
    left = robustness(model, alternative, epsilon=1, length=2)
    assert left.delta == math.inf
    assert "leaves the first record open" in str(left.reason)
    assert robustness(alternative, model, epsilon=1, length=2).delta == 0


# ---- tables ----

TWINS = JointTable(values=[0, 1], outcomes=[(0, 0), (0, 1), (1, 0), (1, 1)], probabilities=[0.4, 0.1, 0.1, 0.4])
OTHER = JointTable(values=[0, 1], outcomes=[(0, 0), (0, 1), (1, 0), (1, 1)], probabilities=[0.3, 0.1, 0.2, 0.4])


def test_tables_by_hand():
    """Given that the second is 0, the first is 0 or 1 with (.6, .4) for the alternative and (.8, .2) for the model."""
    left = robustness(TWINS, OTHER, epsilon=0.5)
    assert left.delta == pytest.approx(math.log(2), rel=1e-12)
    assert left.epsilon == pytest.approx(0.5 + 2 * math.log(2), rel=1e-12)
    assert (left.record, left.value, left.exact) == ("2", "0", True)
    assert robustness(ModelClass(models=(TWINS, OTHER)), OTHER, epsilon=0.5).delta == 0
    assert robustness(TWINS, ModelClass(models=(TWINS, OTHER)), epsilon=0.5) == left


def test_a_network_and_a_table_of_the_same_distribution_agree():
    network = BayesianNetwork(
        nodes=[
            Node(name="rain", states=["no", "yes"], table=[0.8, 0.2]),
            Node(name="wet", states=["yes", "no"], parents=["rain"], table=[[0.1, 0.9], [0.95, 0.05]]),
        ]
    )
    rows = [("no", "no"), ("no", "yes"), ("yes", "no"), ("yes", "yes")]
    turned = JointTable(
        values=["no", "yes"],
        records=["wet", "rain"],
        outcomes=[(wet, rain) for rain, wet in rows],
        probabilities=[0.72, 0.08, 0.01, 0.19],
    )
    assert robustness(network, turned, epsilon=1).delta == pytest.approx(0, abs=1e-12)


def test_groups_of_exchangeable_records():
    model, alternative = (
        Groups(sizes=[3], positives=[distribution]) for distribution in ([0.25] * 4, [0.3, 0.2, 0.2, 0.3])
    )
    distributions = [
        dict(zip(map(tuple, rows.tolist()), p.tolist(), strict=True))
        for rows, p in (alternative.outcomes(), model.outcomes())
    ]
    assert robustness(model, alternative, epsilon=1).delta == pytest.approx(
        oracle.table_delta(*distributions), rel=1e-12
    )


def test_a_class_that_only_bounds_the_groups():
    alternative = Groups(sizes=[3, 2], positives=[[0.25] * 4, [0.2, 0.3, 0.5]])
    assert robustness(AnyGroups(largest=3), alternative, epsilon=1).epsilon == 1
    with pytest.raises(NotApplicableError, match="3 records depend on each other and the model at most 2"):
        robustness(AnyGroups(largest=2), alternative, epsilon=1)
    with pytest.raises(ModelError, match="the alternative has a state '1'; the model has only 0, 2"):
        robustness(AnyGroups(largest=3, states=("0", "2")), alternative, epsilon=1)


SENSOR = HiddenMarkov(transition=[[0.9, 0.1], [0.2, 0.8]], emission=[[0.8, 0.2], [0.3, 0.7]])
HIDDEN = HiddenStates(transition=[[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.3, 0.1, 0.6]], of=(0, 0, 1))
CLOCK = MarkovClock(transitions=[[[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.2, 0.8]]], step="12h", period="24h")
GAUSSIAN = Gaussian(mean=[0, 0], covariance=[[1, 0.3], [0.3, 1]])


@pytest.mark.parametrize(
    ("model", "alternative"),
    [
        (two(0.9, 0.8), SENSOR),
        (SENSOR, HIDDEN),
        (HIDDEN, CLOCK),
        (CLOCK, BinaryInterval(low=0.3, high=0.7)),
        (BinaryInterval(low=0.2, high=0.8), SENSOR),
    ],
)
def test_the_noise_is_bounded_under_every_model_of_states(model, alternative):
    """No distance is known, and what DP noise leaks under the alternative is what ``leakage`` says of it."""
    left = robustness(model, alternative, epsilon=1, length=6)
    assert (left.delta, left.exact) == (math.inf, False)
    assert left.reason.startswith("distances are computed between chains, and the ")
    again = leakage_of(alternative, dp_epsilon=left.dp_epsilon, length=6, adversary="pufferfish")
    assert left.guarantee == left.leakage_under_other == again.epsilon
    assert "no guarantee follows" in " ".join(str(left).split())


@pytest.mark.parametrize(
    ("model", "alternative", "length"),
    [
        (Ar1(coefficient=0.5, sd=1.0), Ar1(coefficient=0.9, sd=1.0), 20),
        (GAUSSIAN, Gaussian(mean=[0, 0], covariance=[[1, 0.6], [0.6, 1]]), None),
    ],
)
def test_noise_for_numbers_is_bounded_under_another_model_of_numbers(model, alternative, length):
    left = robustness(model, alternative, epsilon=1, length=length)
    again = leakage_of(alternative, dp_epsilon=left.dp_epsilon, length=length, adversary="pufferfish")
    assert 1 < left.guarantee == left.leakage_under_other == again.epsilon
    assert "sums and means" in left.holds_for
    assert "for sums and means" in " ".join(str(left).split())


@pytest.mark.parametrize(
    ("model", "alternative", "options", "error", "words"),
    [
        (two(0.5, 0.6), two(0.5, 0.5), {}, ParameterError, "length is missing"),
        (two(0.5, 0.6), two(0.5, 0.5), {"length": 0}, ParameterError, "length is 0"),
        (two(0.5, 0.6), two(0.5, 0.5), {"length": 2**50}, ParameterError, "at most 1,073,741,824"),
        (TWINS, OTHER, {"length": 2}, ParameterError, "knows its own records"),
        (two(0.5, 0.6), OTHER, {"length": 2}, ModelError, "about a series"),
        (TWINS, two(0.5, 0.6), {}, ModelError, "about single records"),
        (TWINS, AnyGroups(largest=2), {}, ModelError, "about single records"),
        (two(0.5, 0.6), Ar1(coefficient=0.9, sd=1.0), {"length": 2}, ModelError, "compare models of the same records"),
        (Ar1(coefficient=0.9, sd=1.0), GAUSSIAN, {"length": 2}, ModelError, "compare two series, or two lists"),
        (SENSOR, two(0.5, 0.6, states=["a", "b"]), {"length": 2}, ModelError, "they must agree"),
        (
            TWINS,
            JointTable(values=[0, 1], outcomes=[(0,), (1,)], probabilities=[0.5, 0.5]),
            {},
            ModelError,
            "the alternative has no record '2'",
        ),
        (
            TWINS,
            JointTable(values=[0, 2], outcomes=[(0, 0), (2, 2)], probabilities=[0.5, 0.5]),
            {},
            ModelError,
            "record '1' has the states 0, 2 in the alternative and 0, 1 in the model",
        ),
    ],
)
def test_refusals_name_what_is_wrong(model, alternative, options, error, words):
    with pytest.raises(error, match=words):
        robustness(model, alternative, epsilon=1, **options)


# ---- drift ----


def test_drift_starts_at_the_guarantee_and_wears_out():
    model, other = (two(p, 0.6, states=["rest", "active"]) for p in (0.9, 0.8))
    line = drift_towards(model, other, epsilon=1, length=20, entry="rest:active")
    bounds = {p.probability: p.epsilon for p in line.points}
    assert bounds[line.probability] == 1
    rising = [epsilon for probability, epsilon in sorted(bounds.items()) if probability >= line.probability]
    falling = [epsilon for probability, epsilon in sorted(bounds.items()) if probability <= line.probability]
    assert rising == sorted(rising)
    assert falling == sorted(falling, reverse=True)
    assert line.alternative.epsilon == pytest.approx(robustness(model, other, epsilon=1, length=20).epsilon, rel=1e-9)


def test_drift_inside_an_interval_costs_nothing():
    box = MarkovInterval(low=[[0.4, 0.4], [0.4, 0.4]], high=[[0.6, 0.6], [0.6, 0.6]])
    for model in (BinaryInterval(low=0.4, high=0.6), box):
        line = drift_towards(model, two(0.7, 0.5), epsilon=1, length=20, entry="0:0")
        assert {p.epsilon for p in line.points if 0.4 <= p.probability <= 0.6} == {1}
        outside = [p.epsilon for p in line.points if p.probability > 0.6 + 1e-9]
        assert outside[0] > 1
        assert outside == sorted(outside)


def test_the_line_through_the_model_meets_a_belief_that_lies_on_it():
    states = ["a", "b:c", "d"]
    table = [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]
    model = MarkovChain(transition=table, states=states)
    alternative = MarkovChain(transition=[[0.73, 0.18, 0.09], *table[1:]], states=states)
    line = drift_towards(model, alternative, epsilon=1, length=12)
    assert (line.state_from, line.state_to) == ("a", "a")
    assert line.alternative is not None
    assert line.alternative.epsilon == robustness(model, alternative, epsilon=1, length=12).epsilon
    assert line.points[0].probability < 0.7 < 0.73 < line.points[-1].probability
    assert [p.probability for p in line.points] == sorted({p.probability for p in line.points})
    aside = drift_towards(model, alternative, epsilon=1, length=12, entry="b:c:d")
    assert (aside.state_from, aside.state_to, aside.alternative) == ("b:c", "d", None)


@pytest.mark.parametrize(
    ("entry", "error", "words"),
    [
        ("rest", ParameterError, "must be FROM:TO"),
        ("rest:run", ParameterError, "must be FROM:TO"),
        ("active:rest", ParameterError, "gives it probability 1; choose one that is neither 0 nor 1"),
        ("active:active", ParameterError, "gives it probability 0; choose one that is neither 0 nor 1"),
    ],
)
def test_a_drift_that_cannot_be_followed(entry, error, words):
    model = two(0.9, 0.0, states=["rest", "active"])
    with pytest.raises(error, match=words):
        drift_towards(model, model, epsilon=1, length=5, entry=entry)


def test_a_chain_of_certain_steps_cannot_drift():
    with pytest.raises(ParameterError, match="every step of the model is certain"):
        drift_towards(two(0.0, 0.0), two(0.0, 0.0), epsilon=1, length=5)


def test_secrets_of_ones_own_are_what_is_given():
    """The check values: log 90 with nothing given, log 90.9474 given that it is not the third."""
    ours, theirs = (
        JointTable(values=[0, 1, 2], outcomes=[[0], [1], [2]], probabilities=distribution)
        for distribution in ([0.9, 0.05, 0.05], [0.01, 0.95, 0.04])
    )
    anything, not_third = (
        Secret(name="anything", when={"1": ["0", "1", "2"]}),
        Secret(name="not", when={"1": ["0", "1"]}),
    )
    for first, value in ((anything, 90), (not_third, (0.9 / 0.95) / (0.01 / 0.96))):
        other = Secret(name="third", when={"1": "2"})
        left = robustness(
            ours, theirs, epsilon=1, secrets=Secrets(secrets=(first, other), pairs=((first.name, "third"),))
        )
        assert left.delta == pytest.approx(math.log(value), rel=1e-12)
        assert left.secret == first.name
        assert first.name in str(left)
    alone = robustness(ours, theirs, epsilon=1)  # given the one record there is nothing left to differ in
    assert alone.delta == 0
