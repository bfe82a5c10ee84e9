"""The noise for secrets of one's own, against enumeration with the same events."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import ModelError, NotApplicableError, ParameterError
from pufferdp.models.chain import MarkovChain
from pufferdp.models.groups import AnyGroups, Groups
from pufferdp.models.joint import JointTable
from pufferdp.models.model_class import ModelClass
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.publish.answers.mechanisms import MECHANISMS
from pufferdp.publish.answers.mechanisms.baselines import Group
from pufferdp.publish.answers.mechanisms.wasserstein import Wasserstein
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.answers.secrets import Secret, Secrets
from tests.oracles import records as brute
from tests.publish.answers.mechanisms.record_suite import ROUNDING, case_of, cases
from tests.publish.answers.test_secrets import ILL, WELL, event_of, random_secret
from tests.strategies import SEEDS, chains, epsilons

GROUPS = Groups(sizes=[2, 1], positives=[[0.2, 0.3, 0.5], [0.4, 0.6]])
PAIR = Secrets(secrets=(ILL, WELL), pairs=(("ill", "well"),))


def problem_of(model, secrets, epsilon=1.0, adversary=Adversary.PUFFERFISH, lengths=()) -> Problem:
    return Problem(
        model=model,
        query=Query.parse("count:1"),
        lengths=lengths,
        epsilon=epsilon,
        adversary=adversary,
        secrets=secrets,
    )


def own_secrets(generator, records, domains):
    """Three secrets and some pairs of them; the same pairs as events; all events."""
    named = [random_secret(generator, f"s{n}", records, domains) for n in range(3)]
    several = list(itertools.combinations(range(3), 2))
    pairs = [several[n] for n in sorted(generator.permutation(3)[: generator.integers(1, 4)])]
    events = [event_of(secret, records, domains) for secret in named]
    secrets = Secrets(secrets=tuple(named), pairs=tuple((f"s{a}", f"s{b}") for a, b in pairs))
    return secrets, [(events[a], events[b]) for a, b in pairs], events


@given(case=cases(), epsilon=epsilons, seed=SEEDS)
def test_noise_is_that_of_the_same_events(case, epsilon, seed):
    """Networks, tables and groups; and group privacy, over all that the secrets touch, is never below."""
    model = case.model
    secrets, pairs, events = own_secrets(np.random.default_rng(seed), model.records, model.domains)
    problem = case.problem(epsilon, secrets=secrets)
    impossible = [f"s{n}" for n, event in enumerate(events) if not case.joint[event].sum()]
    if impossible:
        with pytest.raises(ModelError, match=f"'{impossible[0]}' has probability 0"):
            Wasserstein().calibrate(problem)
        return
    found = Wasserstein().calibrate(problem)
    literal = float(brute.wasserstein(case.joint, case.answers, pairs))
    assert found.scale == pytest.approx(literal / epsilon, rel=1e-9)
    assert brute.leakage(case.joint, case.answers, found.scale, pairs=pairs) <= epsilon + ROUNDING
    touched = [{model.position(r) for name in pair for r in secrets[name].records} for pair in secrets.pairs]
    together = max(brute.group_size(case.links, case.weights, some) for some in touched)
    group = Group().calibrate(problem)
    assert group.sigma == pytest.approx(together / epsilon, rel=1e-12)
    assert found.sigma <= group.sigma * (1 + 1e-9)


@given(chain=chains(most_states=3), T=st.integers(1, 5), epsilon=epsilons, seed=SEEDS)
def test_noise_over_a_chain_is_that_of_the_same_events(chain, T, epsilon, seed):
    generator = np.random.default_rng(seed)
    records, domains = tuple(str(t) for t in range(1, T + 1)), (chain.labels,) * T
    secrets, pairs, events = own_secrets(generator, records, domains)
    if chain.any_start:
        starts = [*np.eye(chain.size), np.full(chain.size, 1 / chain.size)]
    else:
        starts = [brute.exact_stationary(chain.transition) if chain.given_start is None else chain.given_start]
    joints = [brute.chain_joint(chain.transition, start, T) for start in starts]
    assume(all(any(joint[event].sum() for joint in joints) for event in events))
    problem = Problem(
        model=chain,
        query=Query.parse("count:0"),
        lengths=((T, 1),),
        epsilon=epsilon,
        adversary=Adversary.PUFFERFISH,
        secrets=secrets,
    )
    found, answers = Wasserstein().calibrate(problem).scale, brute.answers(domains, chain.labels, "count:0")
    literal = max(float(brute.wasserstein(joint, answers, pairs)) for joint in joints) / epsilon
    if not chain.any_start:
        assert found == pytest.approx(literal, rel=1e-9)
    assert found >= literal * (1 - 1e-9)
    assert all(brute.leakage(joint, answers, found, pairs=pairs) <= epsilon + ROUNDING for joint in joints)
    assert found <= Group().calibrate(problem).scale * (1 + 1e-9)


def test_a_class_protects_them_under_every_member():
    members = tuple(
        Groups(sizes=[3], positives=[distribution]) for distribution in ([0.1, 0.3, 0.4, 0.2], [0.25, 0.25, 0.0, 0.5])
    )
    both = Secret(name="both", when={"1": "1", "2": "1"})
    secrets = Secrets(secrets=(both, WELL), pairs=(("both", "well"),))
    axes = np.indices((2, 2, 2))
    pairs = [((axes[0] == 1) & (axes[1] == 1), axes[0] == 0)]
    literal = []
    for member in members:
        case = case_of(member, "count:1")
        literal.append(float(brute.wasserstein(case.joint, case.answers, pairs)))
    assert literal[0] < literal[1]
    for order in (members, members[::-1]):
        problem = problem_of(ModelClass(models=order), secrets)
        assert Wasserstein().calibrate(problem).sigma == pytest.approx(literal[1], rel=1e-9)
        assert Group().calibrate(problem).sigma == 3.0
    never = Groups(sizes=[3], positives=[[0.5, 0.5, 0.0, 0.0]])
    with pytest.raises(ModelError, match="'both' has probability 0"):
        Wasserstein().calibrate(problem_of(ModelClass(models=(*members, never)), secrets))


def test_no_noise_for_a_secret_that_the_answer_does_not_see():
    nodes = (
        Node(name="hidden", states=["x", "y"], table=[0.4, 0.6]),
        Node(name="counted", states=["0", "1"], table=[0.5, 0.5]),
    )
    secrets = Secrets(
        secrets=(Secret(name="a", when={"hidden": "x"}), Secret(name="b", when={"hidden": "y"})), pairs=(("a", "b"),)
    )
    problem = problem_of(BayesianNetwork(nodes=nodes), secrets)
    assert Wasserstein().calibrate(problem).scale == 0.0
    assert Group().calibrate(problem).scale == 0.0


def test_a_secret_about_two_people_needs_more_than_one_about_each():
    """Both ill or both well: their group moves by 2, while who of the two is ill says nothing to the count."""
    model = Groups(sizes=[2], positives=[[0.25, 0.5, 0.25]])

    def scale(first, second):
        secrets = Secrets(secrets=(Secret(name="a", when=first), Secret(name="b", when=second)), pairs=(("a", "b"),))
        return Wasserstein().calibrate(problem_of(model, secrets)).scale

    assert scale({"1": "1", "2": "1"}, {"1": "0", "2": "0"}) == pytest.approx(2.0, rel=1e-9)
    assert scale({"1": "1", "2": "0"}, {"1": "0", "2": "1"}) == 0.0
    assert scale({"1": "1"}, {"1": "0"}) == pytest.approx(1.0, rel=1e-9)


def test_a_secret_that_cannot_be_is_refused_by_name():
    twins = JointTable(values=[0, 1], outcomes=[(0, 0), (1, 1)], probabilities=[0.5, 0.5])
    odd = Secret(name="they differ", when={"1": "0", "2": "1"})
    problem = problem_of(twins, Secrets(secrets=(ILL, odd), pairs=(("ill", "they differ"),)))
    with pytest.raises(ModelError, match="'they differ' has probability 0"):
        Wasserstein().calibrate(problem)


@pytest.mark.parametrize("adversary", ["bdp", "dp"])
def test_only_for_an_adversary_who_knows_nothing(adversary):
    with pytest.raises(ParameterError, match="use pufferfish"):
        problem_of(GROUPS, PAIR, adversary=adversary)


@pytest.mark.parametrize(
    ("model", "lengths", "error", "message"),
    [
        (MarkovChain(transition=[[0.5, 0.5]] * 2), ((3, 2),), ParameterError, "need one chain"),
        (MarkovChain(transition=[[0.5, 0.5]] * 2), ((3, 1), (4, 1)), ParameterError, "need one chain"),
        (AnyGroups(largest=3), (), ParameterError, "do not know theirs"),
        (Groups(sizes=[1], positives=[[0.5, 0.5]]), (), ModelError, "no record '2'"),
        (MarkovChain(transition=[[0.5, 0.5]] * 2), ((1, 1),), ModelError, "no record '2'"),
        (Groups(sizes=[2], positives=[[0.2, 0.3, 0.5]], states=["1", "no"]), (), ModelError, "has no state '0'"),
    ],
)
def test_secrets_that_do_not_fit_the_model_are_refused(model, lengths, error, message):
    secrets = Secrets(
        secrets=(Secret(name="a", when={"2": "1"}), Secret(name="b", when={"2": "0"})), pairs=(("a", "b"),)
    )
    with pytest.raises(error, match=message):
        problem_of(model, secrets, lengths=lengths)


def test_mechanisms_that_protect_single_records_say_so():
    chain = MarkovChain(transition=[[0.5, 0.5], [0.4, 0.6]])
    for mechanism in MECHANISMS:
        problem = problem_of(chain, PAIR, lengths=((4, 1),))
        if mechanism.name in ("group", "wasserstein"):
            assert mechanism.calibrate(problem).sigma > 0
        else:
            with pytest.raises(NotApplicableError, match="not secrets of your own"):
                mechanism.calibrate(problem)
