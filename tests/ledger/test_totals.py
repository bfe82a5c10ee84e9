"""The one rule: above the true joint leakage, and never above what the paper's own composition says."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp import Charge, Groups, MarkovChain, Query, plan
from pufferdp.basics.adversary import Adversary
from pufferdp.ledger.charge import flip_charge, redaction
from pufferdp.ledger.totals import Rule, State
from pufferdp.publish.answers.kind import KIND, AnswerProblem
from pufferdp.publish.answers.mechanisms.exact import ExactLeakage
from pufferdp.publish.answers.problem import Problem
from tests.strategies import chains, epsilons, examples
from tests.tolerance import SEARCHED

BDP, PUFFERFISH = Adversary.BDP, Adversary.PUFFERFISH
SMALL = Charge(kind="dp", dp_loss=0.001, longest=50)


def after(*charges: Charge) -> State:
    state = State("", "m")
    for charge in charges:
        state = state.after(charge, "")
    return state


def exact(model, tau, adversary):
    return ExactLeakage(Problem(model=model, query=Query.parse("count:1"), epsilon=1.0, adversary=adversary))(tau)


ONES = [math.comb(6, j) * 0.3**j * 0.7 ** (6 - j) for j in range(7)]
SELDOM = [0.998 * p + 0.002 * {0: 0.7, 6: 0.3}.get(j, 0.0) for j, p in enumerate(ONES)]


@pytest.mark.parametrize(
    ("model", "adversary", "once", "twice"),
    [
        (Groups(sizes=[6], positives=[SELDOM]), BDP, 1.1462, 2.3180),
        (Groups(sizes=[5], positives=[[0.3, 0.698, 0.0, 0.0, 0.0, 0.002]]), PUFFERFISH, 0.8133, 4.1231),
    ],
)
def test_the_total_covers_what_guarantees_that_do_not_add_up_leak_together(model, adversary, once, twice):
    """Two counts at scale 1 that agree are one at scale ½. Added up, their guarantees are below what they leak."""
    joint = exact(model, 2.0, adversary)
    assert joint == pytest.approx(twice, abs=5e-5)
    assert joint > 2 * once
    own = exact(model, 1.0, adversary)
    charge = Charge(kind="additive", dp_loss=1.0, longest=6, epsilon=own, model="m", adversary=str(adversary))
    rule = Rule(model, adversary, 100.0)
    assert rule.leakage(after(charge)) == own == pytest.approx(once, abs=5e-5)
    assert rule.leakage(after(charge, charge)) >= joint
    assert rule.leakage(after(charge, charge)) == 2 * len(model.records)  # docs/guide/budget.md says so


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(chains(), st.integers(1, 30), epsilons, st.integers(1, 5), st.sampled_from([BDP, PUFFERFISH]))
def test_the_rule_is_never_above_k_epsilon_for_quilt_releases(chain, length, epsilon, times, adversary):
    """Song et al. 2017, Theorem 4.4: K releases with the same quilts and epsilon leak at most K·epsilon."""
    made = plan(chain, "histogram", epsilon=epsilon, length=length, adversary=str(adversary))
    rule = Rule(chain, adversary, 1e6)
    for name in ("quilt-exact", "quilt-approx"):
        candidate = made.candidate(name)
        if not candidate.applies:
            continue
        charge = KIND.charge(AnswerProblem(problem=made.problem), candidate.calibration)
        total = rule.leakage(after(*[charge] * times))
        # 1/sigma is rounded up, and N·(1/sigma) + influence is computed in doubles.
        assert total <= times * epsilon * (1 + 1e-12)
        if times == 1:
            assert total <= epsilon


def joint_leakage(P, start, n, channels, adversary):
    """By enumeration: leakage about any record of several flipped copies of a series, over every adversary."""
    k = len(P)
    paths = list(itertools.product(range(k), repeat=n))
    prior = np.array([start[p[0]] * math.prod(P[a][b] for a, b in itertools.pairwise(p)) for p in paths])
    symbols = list(itertools.product(*(range(len(c[0])) for c in channels)))  # what all copies show of one record
    channel = np.array(
        [[math.prod(c[x][s] for c, s in zip(channels, sym, strict=True)) for sym in symbols] for x in range(k)]
    )
    outs = list(itertools.product(range(len(symbols)), repeat=n))
    likelihood = np.array([[math.prod(channel[x][y] for x, y in zip(p, o, strict=True)) for o in outs] for p in paths])
    worst = 0.0
    sets = [()] if adversary is PUFFERFISH else [s for r in range(n) for s in itertools.combinations(range(n), r)]
    for i in range(n):
        for known in sets:
            if i in known:
                continue
            for values in itertools.product(range(k), repeat=len(known)):
                distributions = []
                for x in range(k):
                    keep = np.array(
                        [p[i] == x and all(p[j] == v for j, v in zip(known, values, strict=True)) for p in paths]
                    )
                    mass = (prior * keep).sum()
                    if mass > 0:
                        distributions.append((prior * keep) @ likelihood / mass)
                for a, b in itertools.permutations(distributions, 2):
                    worst = max(worst, float(np.log(a / b).max()))
    return worst


@pytest.mark.parametrize("adversary", [BDP, PUFFERFISH])
@pytest.mark.parametrize("P", [[[0.9, 0.1], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]], [[1.0, 0.0], [0.5, 0.5]]])
def test_flipped_copies_of_a_series_leak_no_more_than_the_total(P, adversary):
    chain = MarkovChain(transition=P, start=[0.5, 0.5])
    first, second = [[0.7, 0.3], [0.3, 0.7]], [[0.6, 0.4], [0.45, 0.55]]
    charges = [flip_charge(channel, longest=3) for channel in (first, second)]
    rule = Rule(chain, adversary, 100.0)
    assert joint_leakage(P, [0.5, 0.5], 3, [first], adversary) <= rule.leakage(after(charges[0])) + 1e-12
    assert joint_leakage(P, [0.5, 0.5], 3, [first, second], adversary) <= rule.leakage(after(*charges)) + 1e-12


def test_wasserstein_releases_compose_through_the_curve_alone():
    """Each guarantees epsilon; together they may tell everything. The curve counts L/scale, however small W is."""
    model = Groups(sizes=[5], positives=[[0.3, 0.698, 0.0, 0.0, 0.0, 0.002]])
    made = plan(model, "count:1", epsilon=1.0, adversary="pufferfish")
    candidate = made.candidate("wasserstein")
    charge = KIND.charge(AnswerProblem(problem=made.problem), candidate.calibration)
    assert charge.dp_loss == pytest.approx(1 / candidate.calibration.scale)
    rule = Rule(model, PUFFERFISH, 100.0)
    assert rule.leakage(after(charge)) <= 1.0
    assert rule.leakage(after(charge, charge)) >= exact(model, 2 * charge.dp_loss, PUFFERFISH)


def test_an_answer_that_needs_no_noise_has_no_dp_loss():
    """Two records that are never equal: their count is always 1 and is published exactly."""
    model = Groups(sizes=[2], positives=[[0.0, 1.0, 0.0]])
    made = plan(model, "count:1", epsilon=1.0, adversary="pufferfish")
    candidate = made.candidate("wasserstein")
    assert candidate.calibration.scale == 0
    charge = KIND.charge(AnswerProblem(problem=made.problem), candidate.calibration)
    assert charge.dp_loss == math.inf
    rule = Rule(model, PUFFERFISH, 2.0)
    assert rule.in_budget(after(charge)) and rule.leakage(after(charge)) == 1.0
    assert not rule.in_budget(after(charge, charge)) and rule.leakage(after(charge, charge)) == math.inf


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(chains(), st.integers(1, 12), st.lists(st.floats(1e-4, 3.0), min_size=1, max_size=6), st.floats(0.05, 8.0))
def test_within_agrees_with_the_leakage(chain, length, losses, budget):
    """A state is let through only when its leakage keeps the budget, and totals never fall."""
    rule = Rule(chain, BDP, budget)
    seen = []
    for n in range(1, len(losses) + 1):
        state = after(*(Charge(kind="dp", dp_loss=loss, longest=length) for loss in losses[:n]))
        seen.append(rule.leakage(state))
        assert not rule.in_budget(state) or seen[-1] <= budget
    assert seen == sorted(seen)


def test_a_state_survives_json():
    for state in (
        State("h", None),
        after(Charge(kind="dp", dp_loss=math.inf, longest=3), Charge(kind="dp", dp_loss=0.1, longest=9)),
    ):
        assert State.from_json(state.to_json()) == state


def test_secrets_of_ones_own_have_no_guarantee_about_records():
    from pufferdp import Secret, Secrets

    chain = MarkovChain(transition=[[0.7, 0.3], [0.4, 0.6]])
    secrets = Secrets(
        secrets=(Secret(name="x", when={"1": "0"}), Secret(name="y", when={"2": "1"})), pairs=(("x", "y"),)
    )
    made = plan(chain, "count:1", epsilon=1.0, length=4, adversary="pufferfish", secrets=secrets)
    charge = KIND.charge(AnswerProblem(problem=made.problem), made.candidate("wasserstein").calibration)
    assert charge.epsilon is None


def redacted_leakage(P, start, n, i, released, channel, known):
    """By enumeration: what released records and a flipped copy of the series together tell of record i.

    ``known`` are sets of records that the adversary may know besides; records are counted from 0.
    """
    k = len(P)
    paths = list(itertools.product(range(k), repeat=n))
    prior = np.array([start[p[0]] * math.prod(P[a][b] for a, b in itertools.pairwise(p)) for p in paths])
    outs = list(itertools.product(range(len(channel[0])), repeat=n))
    copies = np.array([[math.prod(channel[x][y] for x, y in zip(p, o, strict=True)) for o in outs] for p in paths])
    worst = 0.0
    for some in known:
        for seen in itertools.product(range(k), repeat=len(some)):
            for shown in itertools.product(range(k), repeat=len(released)):
                distributions = []
                for x in range(k):
                    told = {i: x, **dict(zip(some, seen, strict=True))}
                    before = np.array([all(p[j] == v for j, v in told.items()) for p in paths])
                    told |= dict(zip(released, shown, strict=True))
                    now = before & np.array([all(p[j] == v for j, v in told.items()) for p in paths])
                    if (prior * before).sum() > 0:
                        distributions.append((prior * now) @ copies / (prior * before).sum())
                for a, b in itertools.permutations(distributions, 2):
                    if a.sum() > 0:
                        assert b.sum() > 0, "the redaction alone tells the value"
                        worst = max(worst, float(np.log(a / b).max()))
    return worst


@pytest.mark.parametrize("adversary", [BDP, PUFFERFISH])
@pytest.mark.parametrize("P", [[[0.9, 0.1], [0.3, 0.7]], [[0.2, 0.8], [0.7, 0.3]]])
@pytest.mark.parametrize("released", [(0, 3), (3,), (0,)])
def test_a_redaction_and_a_flipped_copy_leak_no_more_than_the_total(P, adversary, released):
    """Record 1 of four is private. The redaction's leakage is added to the curve for those who know records."""
    n, i, start, channel = 4, 1, [0.5, 0.5], [[0.65, 0.35], [0.4, 0.6]]
    others = [j for j in range(n) if j != i]
    known = [()] if adversary is PUFFERFISH else [s for r in range(n) for s in itertools.combinations(others, r)]
    nothing = [[1.0], [1.0]]
    alone = redacted_leakage(P, start, n, i, released, nothing, known)
    about = {"private": "row 2", "longest": n, "model": "m", "adversary": str(adversary)}
    charges = [redaction(window=True, leakage=alone, **about), flip_charge(channel, longest=n)]
    rule = Rule(MarkovChain(transition=P, start=start), adversary, 100.0)
    joint = redacted_leakage(P, start, n, i, released, channel, known)
    for order in (charges, charges[::-1]):
        assert joint <= rule.leakage(after(*order)) + 1e-12
    assert rule.leakage(after(charges[0])) == pytest.approx(alone)
    # Read for somebody who knows no record, the curve would not have to hold any more.
    assert rule.leakage(after(*charges)) == pytest.approx(alone + rule.curve(n, False, True)(charges[1].dp_loss))


def test_three_regions_close_their_data_set():
    about = {"private": "row 2", "longest": 4, "model": "m", "adversary": "pufferfish"}
    chain = MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]])
    rule, small = Rule(chain, PUFFERFISH, 2.0), Charge(kind="dp", dp_loss=1e-6, longest=4)
    regions = redaction(window=False, leakage=0.8, **about)
    assert rule.in_budget(after(regions)) and rule.leakage(after(regions)) == 0.8
    assert not rule.in_budget(after(regions, small)) and not rule.in_budget(after(small, regions))
    window = redaction(window=True, leakage=0.8, **about)
    assert rule.in_budget(after(window, small)) and rule.in_budget(after(small, window))
    assert not rule.in_budget(after(window, redaction(window=True, leakage=1.3, **about)))


@pytest.mark.parametrize("adversary", [BDP, PUFFERFISH])
@pytest.mark.parametrize("length", [5, 50])
def test_what_is_left_is_accepted_and_verified_whichever_way_it_is_searched(adversary, length):
    """A bound that was read before ends its next search elsewhere, within the tolerance."""
    moves = 0.4 * np.eye(3) + 0.6 * np.random.default_rng(length % 7).dirichlet(np.ones(3), size=3)
    first = Charge(kind="dp", dp_loss=0.02, longest=length)
    shown, charging, verifying = (Rule(MarkovChain(transition=moves), adversary, 1.0) for _ in range(3))
    shown.leakage(after(first))
    left = shown.left(after(first))
    assert left > 0.1
    then = after(first, Charge(kind="dp", dp_loss=left, longest=length))
    assert charging.in_budget(then)
    assert not charging.in_budget(after(first, Charge(kind="dp", dp_loss=left * (1 + 2 * SEARCHED), longest=length)))
    assert verifying.leakage(then) <= 1.0
    assert verifying.in_budget(then, charged=True)
    assert verifying.left(then) == shown.left(then) == 0.0


def test_a_remainder_below_the_tolerance_is_nothing_left():
    loss = Rule(MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]]), BDP, 1.0).left(after(SMALL))
    for model, spent, rest in [
        (MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]]), 0.001 + loss * (1 - SEARCHED / 2), 0.0),
        (MarkovChain(transition=[[0.5, 0.5], [0.5, 0.5]]), 1 - SEARCHED / 2, SEARCHED / 2),  # its bound is exact
    ]:
        charged = after(Charge(kind="dp", dp_loss=spent, longest=50))
        assert Rule(model, BDP, 1.0).left(charged) == pytest.approx(rest, abs=1e-12)
