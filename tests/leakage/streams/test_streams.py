"""What streams leak: above every algorithm, equal to the worst one for two states, and below Cao et al. (2017)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.leakage.streams.profile import StreamModel
from pufferdp.models.chain import MarkovChain
from tests.oracles import streams
from tests.strategies import SEEDS, examples, random_law, random_transition

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
THREE = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.25, 0.5]]
WHO = (Adversary.BDP, Adversary.PUFFERFISH)
ROOM = 1e-9


@st.composite
def problems(draw, states: int, most: int):
    """A chain, the law of its first record, and losses: equal, different, some of them 0."""
    generator = np.random.default_rng(draw(SEEDS))
    P = random_transition(generator, states)
    start = random_law(generator, states) if draw(st.booleans()) else "stationary"
    chain = MarkovChain(transition=P, start=start)
    n = draw(st.integers(1, most))
    equal = np.full(n, draw(st.sampled_from([0.1, 1.0])))
    losses = equal if draw(st.booleans()) else generator.choice([0.0, 0.1, 0.5, 1.0, 3.0], size=n)
    return chain, np.asarray(chain.stationary if isinstance(start, str) else start), losses


@given(problem=problems(2, 4))
@settings(max_examples=examples(60))
def test_two_states_are_exact_at_every_step(problem):
    chain, law, losses = problem
    channels = [streams.randomised_response(loss) for loss in losses]
    for who in WHO:
        found = StreamModel(chain, who).profile(losses)
        worst = streams.leakage(chain.transition, law, channels, who is Adversary.BDP)
        for part, brute in zip(found.parts, worst, strict=True):
            assert part == pytest.approx(brute, abs=ROOM)
        at = int(found.total.argmax())
        assert StreamModel(chain, who).attack(losses, at).leaks == pytest.approx(worst[2][at], abs=ROOM)


@given(problem=problems(3, 3))
@settings(max_examples=examples(40))
def test_three_states_lie_between_attack_and_bound(problem):
    chain, law, losses = problem
    channels = [streams.every_set(3, loss) for loss in losses]
    for who in WHO:
        found = StreamModel(chain, who).profile(losses)
        worst = streams.leakage(chain.transition, law, channels, who is Adversary.BDP)
        for part, brute in zip(found.parts, worst, strict=True):
            assert (part >= brute - ROOM).all()
        at = int(found.total.argmax())
        assert StreamModel(chain, who).attack(losses, at).leaks <= worst[2][at] + ROOM


@given(problem=problems(2, 3), seed=SEEDS)
@settings(max_examples=examples(40))
def test_no_algorithm_leaks_more_even_one_that_looks_at_what_it_published(problem, seed):
    chain, law, losses = problem

    def channel(loss):
        def rows(before):
            # Other noise for each past; a row's probabilities differ by e^(loss/2), and the scaling by as much again.
            generator = np.random.default_rng([seed, *before])
            weights = np.exp(generator.choice([0.0, 0.5, 1.0], size=(2, 3)) * loss / 2)
            return weights / weights.sum(axis=1, keepdims=True)

        return rows

    for who in WHO:
        found = StreamModel(chain, who).profile(losses)
        brute = streams.leakage(chain.transition, law, [channel(loss) for loss in losses], who is Adversary.BDP)
        for part, some in zip(found.parts, brute, strict=True):
            assert (part >= some - ROOM).all()


@pytest.mark.parametrize("P", [ACTIVITY, [[0.2, 0.8], [0.7, 0.3]], [[0.8, 0.2], [0.0, 1.0]], [[0, 1], [0.5, 0.5]]])
def test_laplace_steps_are_as_bad_as_any(P):
    """The cell of all outputs at most 0 speaks for 0 by exactly e^loss: nothing is lost by looking at three cells."""
    losses = np.array([0.5, 1.0, 0.25, 2.0])
    chain = MarkovChain(transition=P, start=[0.3, 0.7])
    for who in WHO:
        found = StreamModel(chain, who).profile(losses)
        channels = [streams.laplace_cells(loss) for loss in losses]
        brute = streams.leakage(P, [0.3, 0.7], channels, who is Adversary.BDP)
        for part, worst in zip(found.parts, brute, strict=True):
            assert part == pytest.approx(worst, abs=ROOM)


def test_the_recursion_of_cao_is_that_of_the_paper():
    """Figure 3 of Cao et al. (2017): rows (.8, .2) and (0, 1), a loss of .1 at each of ten steps."""
    found = streams.cao([[0.8, 0.2], [0.0, 1.0]], [0.1] * 10)
    assert [round(v, 2) for v in found] == [0.10, 0.18, 0.25, 0.30, 0.35, 0.39, 0.42, 0.45, 0.48, 0.50]


@given(problem=problems(3, 6))
@settings(max_examples=examples(40))
def test_never_above_cao(problem):
    chain, law, losses = problem
    model = StreamModel(chain, Adversary.PUFFERFISH)
    if not model.fixed or (law == 0).any():
        return  # their backward rows are those of a stationary chain read backwards
    found = model.profile(losses)
    backward, forward = streams.cao(chain.reversal, losses), streams.cao(chain.transition, losses[::-1])[::-1]
    assert (found.backward <= np.array(backward) + ROOM).all()
    assert (found.forward <= np.array(forward) + ROOM).all()
    assert (found.total <= np.array(backward) + np.array(forward) - losses + ROOM).all()


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("P", [ACTIVITY, [[0.2, 0.8], [0.7, 0.3]], [[0.99, 0.01], [0.02, 0.98]], THREE])
def test_long_streams_settle_and_are_what_short_ones_tend_to(P, who):
    model = StreamModel(MarkovChain(transition=P), who)
    ever = [float(part[0]) for part in model.ever(0.2).parts]
    long = model.profile(np.full(1_000_000, 0.2))
    assert [float(part.max()) for part in long.parts] == pytest.approx(ever, abs=1e-8)
    assert len(model.before.constant(0.2, None).tables) < 2000  # not one table a step
    short = model.profile(np.full(30, 0.2))
    for few, many in zip(short.parts, long.parts, strict=True):
        assert (few <= many[:30] + ROOM).all()
    assert np.array_equal(long.backward[:15], short.backward[:15])
    assert np.array_equal(long.forward[-15:], short.forward[-15:])
    attack = model.attack(np.full(1201, 0.2), 600).leaks
    assert attack <= ever[2] + ROOM
    if len(P) == 2:
        assert attack == pytest.approx(ever[2], abs=1e-7)  # outputs more than 600 steps away are left out


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("P", [ACTIVITY, [[0.2, 0.8], [0.7, 0.3]], [[0, 1], [0.5, 0.5]]])
@pytest.mark.parametrize("start", ["stationary", [0.3, 0.7], [0.0, 1.0]])
def test_runs_of_equal_losses_are_skipped_soundly(P, who, start):
    """Changing losses are followed step by step; a long run of equal ones is jumped over, and nothing is lost."""
    model = StreamModel(MarkovChain(transition=P, start=start), who)
    ends = [np.array([1.0, 0.1, 0.7]), np.array([0.4, 0.9])]
    short, long = (np.concatenate([ends[0], np.full(n, 0.3), ends[1]]) for n in (300, 100_000))
    a, b = model.profile(short), model.profile(long)
    for few, many in zip(a.parts, b.parts, strict=True):
        assert many[:150] == pytest.approx(few[:150], abs=1e-8)
        assert many[-150:] == pytest.approx(few[-150:], abs=1e-8)
        assert many[150:-150] == pytest.approx(few[150], abs=1e-8)
    told: list[int] = []
    model.profile(long, told.append)
    assert len(told) < 2000


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("start", ["stationary", [0.3, 0.7]])
@pytest.mark.parametrize("P", [ACTIVITY, [[0.2, 0.8], [0.7, 0.3]]])
def test_many_targets_at_once_are_as_one_after_the_other(P, start, who, monkeypatch):
    model = StreamModel(MarkovChain(transition=P, start=start), who)
    losses = np.random.default_rng(5).choice([0.0, 0.1, 0.5, 2.0], size=500)
    one_by_one = model.profile(losses)
    monkeypatch.setattr("pufferdp.leakage.streams.sides._LONG", 100)
    monkeypatch.setattr("pufferdp.leakage.streams.sides._BLOCKS", 7)
    monkeypatch.setattr("pufferdp.leakage.streams.sides._AT_ONCE", 2000)
    told: list[int] = []
    for slow, quick in zip(one_by_one.parts, model.profile(losses, told.append).parts, strict=True):
        assert (quick >= slow).all()
        assert quick == pytest.approx(slow, abs=1e-10)
    assert len(told) < 400  # not one by one


@pytest.mark.parametrize("who", WHO)
def test_equal_and_changing_losses_meet(who):
    """The same stream by both ways: one loss differs by nothing that shows."""
    for P in (ACTIVITY, [[0.2, 0.8], [0.7, 0.3]], [[0.97, 0.03], [0.05, 0.95]]):
        model = StreamModel(MarkovChain(transition=P), who)
        losses = np.full(400, 0.5)
        nearly = losses.copy()
        nearly[::2] += 1e-13
        for same, other in zip(model.profile(losses).parts, model.profile(nearly).parts, strict=True):
            assert other == pytest.approx(same, abs=1e-8)


def test_chains_that_never_forget():
    for P in (np.eye(2), [[0, 1], [1, 0]]):
        model = StreamModel(MarkovChain(transition=P), Adversary.PUFFERFISH)
        assert not model.settles
        assert np.isinf(model.ever(0.1).total[0])
        # Every output speaks of the same thing: losses add up, as in group privacy.
        assert model.profile(np.full(50, 0.1)).total == pytest.approx(np.full(50, 5.0), abs=ROOM)
        # Who knows any record knows them all, and nothing is left to be learnt by others.
        assert StreamModel(MarkovChain(transition=P), Adversary.BDP).profile(np.full(50, 0.1)).total.max() <= 5 + ROOM


def test_nothing_to_learn_and_nothing_else_to_learn_from():
    one = StreamModel(MarkovChain(transition=[[1.0]]), Adversary.BDP)
    assert one.profile(np.full(3, 0.5)).total.tolist() == [0, 0, 0]
    sure = StreamModel(MarkovChain(transition=[[0, 1], [0, 1]], start=[1, 0]), Adversary.BDP)
    assert sure.profile(np.full(3, 0.5)).total.tolist() == [0, 0, 0]
    for chain in (MarkovChain(transition=ACTIVITY), MarkovChain(transition=[[0.3, 0.7], [0.3, 0.7]])):
        who = Adversary.DP if chain.transition[0, 0] > 0.5 else Adversary.BDP
        assert StreamModel(chain, who).profile(np.array([0.5, 0.25])).total == pytest.approx([0.5, 0.25], abs=1e-14)
    assert StreamModel(MarkovChain(transition=ACTIVITY), Adversary.BDP).profile(np.array([0.5])).total.tolist() == [0.5]


@pytest.mark.parametrize("P", [ACTIVITY, THREE, [[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]]])
def test_large_losses_stay_within_numbers(P):
    """Where outputs are as good as the records, the chain's own ratios are all that its neighbours add."""
    for who in WHO:
        model = StreamModel(MarkovChain(transition=P), who)
        for losses in (np.full(6, 800.0), np.full(6, 90.0), np.array([700.0, 1.0, 800.0])):
            found = model.profile(losses)
            assert (found.total >= losses).all()
            assert (found.total <= losses.sum()).all()
            for at, loss in enumerate(losses):
                assert loss <= model.attack(losses, at).leaks <= found.total[at] * (1 + 1e-12)


def test_who_knows_all_others_learns_from_one_output():
    chain = MarkovChain(transition=[[0.5, 0.5, 0], [0.5, 0, 0.5], [0, 1, 0]], start=[0.5, 0.5, 0])
    attack = StreamModel(chain, Adversary.DP).attack(np.array([0.5, 1.0]), 0)
    assert (attack.leaks, {attack.likelier, attack.other}) == (0.5, {0, 1})


def test_any_start_is_refused():
    with pytest.raises(NotApplicableError, match='start is "any"'):
        StreamModel(MarkovChain(transition=ACTIVITY, start="any"), Adversary.BDP)
