"""Flips of a binary chain: enumeration over all outputs and adversaries, check values, and where the paper is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import ModelError, NotApplicableError
from pufferdp.bounds.channels.design import best_flips
from pufferdp.bounds.channels.two_states import Flips, class_loss, flip_loss
from pufferdp.models.chain import MarkovChain
from pufferdp_papers.flips.closed_forms import closed_loss, closed_rho, least_rho, zhao_rho
from tests.oracles import flips as oracle
from tests.strategies import SEEDS, examples, random_distribution, random_transition

BDP, PUFFERFISH, DP = Adversary.BDP, Adversary.PUFFERFISH, Adversary.DP


def chain(q: float, r: float, start: object = "stationary") -> MarkovChain:
    return MarkovChain(transition=[[1 - q, q], [r, 1 - r]], start=start)


def symmetric(theta: float, rho: float, length: int | None, adversary: Adversary) -> float:
    return flip_loss(chain(theta, theta), Flips.of(rho, rho), length, adversary).worst


# ---- where the paper is wrong ----


def test_erratum_theorem_2_an_adversary_who_knows_a_record_of_the_other_value_learns_more():
    """The paper's Theorem 2 says that the adversary who knows nothing is the worst, at most 7.232200 here."""
    P, B = [[0.9, 0.1], [0.1, 0.9]], oracle.flips(0.05, 0.05)
    assert oracle.loss(P, [0.5, 0.5], B, 5)[0, 1] == pytest.approx(7.857455, abs=5e-7)
    assert oracle.loss(P, [0.5, 0.5], B, 5, everyone=False)[0, 1] == pytest.approx(7.192226, abs=5e-7)
    assert symmetric(0.1, 0.05, 5, BDP) == pytest.approx(7.857455, abs=5e-7)
    assert symmetric(0.1, 0.05, 5, PUFFERFISH) == pytest.approx(7.192226, abs=5e-7)
    assert closed_loss(0.1, 0.1, 0.05, 0.05).worst == pytest.approx(7.232200, abs=5e-7)


def test_erratum_corollary_2_its_rho_is_not_enough_for_every_adversary():
    rho = closed_rho(0.1, 5)
    assert rho == pytest.approx(0.249034, abs=5e-7)
    assert symmetric(0.1, rho, None, PUFFERFISH) <= 5
    assert symmetric(0.1, rho, None, BDP) == pytest.approx(5.541767, abs=5e-7)


def test_erratum_equation_6_has_a_stray_factor_of_two():
    """ε₃ = ε − 6·ln((1−θ)/θ) is t = 1 of Zhao's bound: its noise is (1−θ)^6/(θ^6·e^ε + (1−θ)^6)."""
    theta, epsilon = 0.4, 4.0
    once = (1 - theta) ** 6 / (theta**6 * math.exp(epsilon) + (1 - theta) ** 6)
    assert 1 / (1 + math.exp(epsilon - 6 * math.log((1 - theta) / theta))) == pytest.approx(once, rel=1e-12)
    assert zhao_rho(theta, epsilon) <= once
    assert 2 * once > zhao_rho(theta, epsilon, length=2) == pytest.approx(once, rel=1e-12)


def test_erratum_success_bound_needs_the_smaller_prior_ratio():
    """Under ε-BDP the odds of a guess are at most m·e^ε, m the prior odds of the commoner state; not e^ε/m.

    The posterior of one flipped record reaches more than the printed bound and not more than the corrected one.
    """
    q, r, rho = 0.1, 0.4, 0.3
    epsilon = flip_loss(chain(q, r), Flips.of(rho, rho), 1, BDP).worst
    prior = r / (q + r)
    success = prior * (1 - rho) / (prior * (1 - rho) + (1 - prior) * rho)
    odds = max(q / r, r / q)
    assert success > math.exp(epsilon) / (odds + math.exp(epsilon))
    assert success <= odds * math.exp(epsilon) / (1 + odds * math.exp(epsilon)) + 1e-12


# ---- check values ----


def test_check_values():
    lazy, flips = chain(0.2, 0.35), Flips.of(0.3, 0.25)
    nothing, everyone = (flip_loss(lazy, flips, None, who) for who in (PUFFERFISH, BDP))
    assert (nothing.zero, nothing.one) == (pytest.approx(2.137107, abs=5e-7), pytest.approx(2.302585, abs=5e-7))
    assert flip_loss(lazy, flips, 11, PUFFERFISH).worst == pytest.approx(2.293813, abs=5e-7)
    assert (everyone.zero, everyone.one) == (pytest.approx(2.279812, abs=5e-7), pytest.approx(2.306179, abs=5e-7))
    assert symmetric(0.1, 0.3, None, BDP) == pytest.approx(4.745328, abs=5e-7)
    assert symmetric(0.1, 0.3, None, PUFFERFISH) == pytest.approx(4.154162, abs=5e-7)
    assert closed_rho(0.35, 1) == pytest.approx(0.432784, abs=5e-7)
    assert zhao_rho(0.1, 1) == pytest.approx(0.49440, abs=5e-6)
    assert zhao_rho(0.1, 4) == pytest.approx(0.46445, abs=5e-6)


@pytest.mark.parametrize(
    ("theta", "epsilon", "nothing", "everyone"),
    [(0.35, 1, 0.364922, 0.364992), (0.1, 1, 0.471099, 0.471140), (0.1, 4, 0.313112, 0.343653)],
)
def test_needed_noise(theta: float, epsilon: float, nothing: float, everyone: float):
    for who, needed in ((PUFFERFISH, nothing), (BDP, everyone)):
        rho = least_rho(chain(theta, theta), epsilon, None, who)
        assert rho == pytest.approx(needed, abs=5e-7)
        assert symmetric(theta, rho, None, who) <= epsilon
        assert best_flips([chain(theta, theta)], epsilon, None, who, (0.5, 0.5)) == pytest.approx((rho, rho), abs=1e-9)


@given(st.floats(0.01, 0.49), st.floats(0.01, 0.49), st.floats(0.01, 0.49), st.floats(0.01, 0.49))
def test_the_papers_closed_form_is_the_limit_for_an_adversary_who_knows_nothing(q, r, rho0, rho1):
    ours, paper = flip_loss(chain(q, r), Flips.of(rho0, rho1), None, PUFFERFISH), closed_loss(q, r, rho0, rho1)
    assert ours.zero == pytest.approx(paper.zero, abs=1e-9)
    assert ours.one == pytest.approx(paper.one, abs=1e-9)


# ---- enumeration ----


def compare(P: np.ndarray, distribution: np.ndarray | str, rho: np.ndarray, n: int) -> None:
    prior = MarkovChain(transition=P, start=distribution)
    if isinstance(distribution, str):
        if len(prior.closed_classes) > 1:
            return  # no one stationary distribution
        distribution = prior.stationary
    for who in (BDP, PUFFERFISH):
        exact = oracle.loss(P, distribution, oracle.flips(*rho), n, who is BDP)
        ours = flip_loss(prior, Flips.of(*rho), n, who)
        assert ours.zero == pytest.approx(exact[0, 1], abs=1e-9)
        assert ours.one == pytest.approx(exact[1, 0], abs=1e-9)
        limit = flip_loss(prior, Flips.of(*rho), None, who)
        assert limit.zero >= ours.zero - 1e-12
        assert limit.one >= ours.one - 1e-12


@given(SEEDS, st.integers(1, 2), st.sampled_from([2, 3]), st.booleans())
@settings(max_examples=examples(25))
def test_the_quick_oracle_is_the_slow_one(seed: int, n: int, k: int, everyone: bool):
    generator = np.random.default_rng(seed)
    P, distribution = random_transition(generator, k), random_distribution(generator, k)
    B = random_transition(generator, k) if seed % 2 else generator.dirichlet(np.ones(k), size=k)
    quick, slow = (found(P, distribution, B, n, everyone) for found in (oracle.loss, oracle.slow_loss))
    assert quick == pytest.approx(slow, abs=1e-9)


@given(SEEDS, st.integers(1, 7), st.booleans())
def test_loss_is_that_of_enumeration(seed: int, n: int, given_start: bool):
    """All outputs, all adversaries: zero entries, deterministic, negative correlation and single records among them."""
    generator = np.random.default_rng(seed)
    P = random_transition(generator, 2)
    distribution = random_distribution(generator, 2) if given_start else "stationary"
    compare(P, distribution, generator.uniform(0.01, 0.5, 2), n)


@given(SEEDS, st.integers(1, 4))
@settings(max_examples=examples(10))
def test_any_start_is_the_worst_of_many(seed: int, n: int):
    """Never below the worst of 61 distributions, and not above by more than their steps explain (0.4 in log-odds)."""
    generator = np.random.default_rng(seed)
    P, rho = random_transition(generator, 2), generator.uniform(0.05, 0.5, 2)
    distributions = [1 / (1 + math.exp(-e)) for e in np.linspace(-12, 12, 61)]
    ours = flip_loss(MarkovChain(transition=P, start="any"), Flips.of(*rho), n, BDP)
    found = oracle.worst_start(P, oracle.flips(*rho), n, True, distributions)
    for pair, value in (((0, 1), ours.zero), ((1, 0), ours.one)):
        assert found[pair] <= value + 1e-9
        assert value <= found[pair] + 0.02 + 0.02 * value


def stepped_losses(P: np.ndarray, distribution: np.ndarray, flips: Flips, n: int, everyone: bool) -> list[float]:
    """The loss of a series by one step of the recursion a record, in logs; nothing is shared with the closed form."""

    def move(table: np.ndarray, weights: np.ndarray, output: float) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.logaddexp.reduce(np.log(table) + weights + np.array([output, 0.0]), axis=1)

    def side(table: np.ndarray, start: np.ndarray) -> np.ndarray:
        """(n, 2): what 0, 1, … hidden records add, for a 0 and for a 1."""
        with np.errstate(divide="ignore"):
            top = bottom = bare = np.log(start)
        out = []
        for _ in range(n):
            high, low, base = (w[0] - w[1] for w in (top, bottom, bare))
            out.append((high - base, base - low) if np.isfinite(base) else (-np.inf, -np.inf))
            up, down = move(table, top, flips.high), move(table, bottom, flips.low)
            top, bottom = (up, down) if np.linalg.det(table) >= 0 else (down, up)
            bare = move(table, bare, 0.0)
        return np.array(out)

    sides = []
    for table, start in ((P.T, distribution), (P, np.ones(2))):
        values = side(table, start)
        for known in table.T if everyone else ():
            if known.any():
                values[1:] = np.maximum(values[1:], np.maximum.accumulate(side(table, known))[:-1])
        sides.append(values)
    both = (sides[0] + sides[1][::-1]).max(axis=0)
    return [flips.high + both[0], both[1] - flips.low]


@given(
    st.sampled_from([0.99, 0.999, 0.9999, 0.99999]),
    st.sampled_from([0.99, 0.99999, 0.5, 0.02, 0.0, 1.0]),
    st.booleans(),
    st.floats(1e-4, 0.3),
    st.floats(1e-4, 0.3),
    st.sampled_from([BDP, PUFFERFISH]),
)
@settings(max_examples=examples(12))
def test_nearly_deterministic_chains_leak_what_single_steps_add_up_to(stay, other, turned, high, low, who):
    """Chains that hardly ever move, or hardly ever stay, some with zeros: 300 records one by one, and an endless series
    that is never below them."""
    P = np.array([[stay, 1 - stay], [1 - other, other]])
    P = P[:, ::-1].copy() if turned else P
    distribution, flips = np.array([0.4, 0.6]), Flips(high, -low)
    prior = MarkovChain(transition=P, start=distribution)
    ours, endless = (flip_loss(prior, flips, n, who) for n in (300, None))
    assert [ours.zero, ours.one] == pytest.approx(stepped_losses(P, distribution, flips, 300, who is BDP), rel=1e-10)
    assert endless.zero >= ours.zero - 1e-12
    assert endless.one >= ours.one - 1e-12


@pytest.mark.parametrize("stay", [0.99, 0.999])
@pytest.mark.parametrize("start", ["stationary", "any"])
def test_an_endless_series_that_mixes_slowly_leaks_what_a_very_long_one_does(stay: float, start: str):
    """Within 20,000 records such a chain forgets its start up to rounding: ranges of records bound what each does."""
    prior = MarkovChain(transition=[[stay, 1 - stay], [2 - 2 * stay, 2 * stay - 1]], start=start)
    for flips in (Flips(1 - stay, 0.0), Flips(1 - stay, stay - 1), Flips(0.02, -0.01)):
        long, endless = (flip_loss(prior, flips, n, BDP) for n in (20_000, None))
        assert (endless.zero, endless.one) == pytest.approx((long.zero, long.one), abs=1e-12)


def test_a_state_that_is_left_for_good_weighs_something_after_thousands_of_records():
    """A state that is left with probability ½ a record: 2^-5000 is too small for a double, and still a secret."""
    leaving = MarkovChain(transition=[[1.0, 0.0], [0.5, 0.5]], start=[0.5, 0.5])
    short, long = (flip_loss(leaving, Flips(0.01, -0.01), n, PUFFERFISH) for n in (1000, 5000))
    assert long.zero - short.zero == pytest.approx(4000 * 0.01, rel=1e-6)
    assert flip_loss(leaving, Flips(0.01, -0.01), None, PUFFERFISH).worst == math.inf


@pytest.mark.parametrize("stay", [0.999, pytest.param(0.99999, marks=pytest.mark.slow)])
def test_the_cheapest_flips_of_a_chain_that_hardly_moves(stay: float):
    """Stepping record by record took over four minutes of processor time; the closed form takes a second or two."""
    prior = [MarkovChain(transition=[[stay, 1 - stay], [1 - stay, stay]])]
    found = best_flips(prior, 1.0, None, BDP, (0.5, 0.5))
    assert 1 - 1e-6 <= class_loss(prior, Flips.of(*found), None, BDP).worst <= 1 + 1e-9
    assert class_loss(prior, Flips.of(*found), None, BDP).worst <= 1.0


@pytest.mark.parametrize("who", [BDP, PUFFERFISH])
@pytest.mark.parametrize(("q", "r"), [(0.3, 0.1), (1e-5, 1e-3), (0.9, 0.7), (1e-3, 1.0), (1e-9, 1e-9)])
def test_a_stationary_chain_reads_the_same_backwards(q: float, r: float, who: Adversary):
    """Its past is taken from its future; with the same distribution as a given start it is worked out by itself."""
    distribution, flips = [r / (q + r), q / (q + r)], Flips(0.03, -0.2)
    for length in (7, None):
        once, twice = (flip_loss(chain(q, r, start), flips, length, who) for start in ("stationary", distribution))
        assert (once.zero, once.one) == pytest.approx((twice.zero, twice.one), rel=1e-11)


@pytest.mark.slow
def test_a_chain_that_hardly_ever_breaks_its_turns_is_answered():
    """It gave no answer within a minute."""
    prior = [chain(1 - 1e-8, 1 - 1e-8)]
    found = best_flips(prior, 1.0, None, BDP, (0.5, 0.5))
    assert 0.9 <= class_loss(prior, Flips.of(*found), None, BDP).worst <= 1.0


@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_a_chain_that_takes_turns_leaks_as_one_that_stays(who: Adversary):
    """Every second record renamed, one is the other. Their difference was 2.5e-9 of the loss where both hardly err."""
    for rare in (0.2, 1e-3, 1e-5, 1e-7, 1e-9):
        stays = MarkovChain(transition=[[1 - rare, rare], [rare, 1 - rare]])
        turns = MarkovChain(transition=[[rare, 1 - rare], [1 - rare, rare]])
        flips = Flips.of(0.5 - rare / 10, 0.5 - rare / 10)
        assert flip_loss(turns, flips, None, who).worst == pytest.approx(
            flip_loss(stays, flips, None, who).worst, rel=1e-12
        )


def test_two_classes_of_states_leak_more_with_every_record():
    still = MarkovChain(transition=np.eye(2), start=[0.5, 0.5])
    for n in (1, 7, 1000):
        assert flip_loss(still, Flips.of(0.2, 0.2), n, BDP).worst == pytest.approx(n * math.log(4), rel=1e-9)
    anywhere = MarkovChain(transition=np.eye(2), start="any")
    assert flip_loss(anywhere, Flips(1.5, -2.0), 300, BDP).worst == pytest.approx(300 * 2.0, rel=1e-9)
    assert flip_loss(still, Flips.of(0.2, 0.2), None, BDP).worst == math.inf
    with pytest.raises(NotApplicableError, match="coin toss"):
        best_flips([still], 1.0, None, BDP, (0.5, 0.5))


@pytest.mark.parametrize("start", ["any", [0.4, 0.6]])
def test_a_state_that_nothing_leads_to_is_a_secret_of_the_first_record_only(start: object):
    prior, flips = MarkovChain(transition=[[0, 1], [0, 1]], start=start), Flips.of(0.3, 0.2)
    for n in (1, 2, 5, None):
        found = flip_loss(prior, flips, n, BDP)
        assert (found.zero, found.one) == pytest.approx((math.log(0.7 / 0.2), math.log(0.8 / 0.3)), rel=1e-12)


@pytest.mark.parametrize("P", [[[1, 0], [0.3, 0.7]], [[0, 1], [0.3, 0.7]], [[0.3, 0.7], [1, 0]], [[0, 1], [1, 0]]])
@pytest.mark.parametrize("start", ["any", "stationary", [0.4, 0.6], [1, 0]])
def test_endless_series_of_chains_with_zeros_are_never_below_long_ones(P: list[list[float]], start: object):
    prior, flips = MarkovChain(transition=P, start=start), Flips.of(0.3, 0.2)
    for who in (BDP, PUFFERFISH):
        endless, long = (flip_loss(prior, flips, n, who) for n in (None, 60))
        assert endless.zero >= long.zero - 1e-12
        assert endless.one >= long.one - 1e-12
        if (np.linalg.matrix_power(np.array(P), 4) > 0).all():
            assert endless.worst == pytest.approx(long.worst, abs=1e-3)


def test_without_noise_everything_leaks_and_without_secrets_nothing():
    assert flip_loss(chain(0.2, 0.3), Flips.of(0.0, 0.3), 3, BDP).worst == math.inf
    certain = MarkovChain(transition=[[0, 1], [1, 0]], start=[1, 0])
    assert flip_loss(certain, Flips.of(0.0, 0.0), 5, BDP).worst == 0
    with pytest.raises(NotApplicableError, match="nothing to hide"):
        best_flips([certain], 1.0, 5, BDP, (0.5, 0.5))
    with pytest.raises(ModelError, match="3 states"):
        flip_loss(MarkovChain(transition=np.full((3, 3), 1 / 3)), Flips.of(0.1, 0.1), 5, BDP)


def test_dp_is_the_log_ratio_of_the_channel():
    assert flip_loss(chain(0.1, 0.1), Flips.of(0.3, 0.2), 9, DP).zero == pytest.approx(math.log(0.7 / 0.2))
    rho = best_flips([chain(0.1, 0.1)], 1.0, None, DP, (0.5, 0.5))
    assert rho == pytest.approx((1 / (1 + math.e),) * 2, rel=1e-9)


# ---- the cheapest flips ----


def grid_cost(chains: list[MarkovChain], epsilon: float, length: int, cost: tuple[float, float], who: Adversary):
    """The best of a 400×400 grid. The loss falls with both, so the points that keep the guarantee end in a staircase.

    It is walked down from (the least ρ0, ½): 800 losses in place of 160,000.
    """
    steps, best, column = np.arange(1, 401) / 800, math.inf, 399
    for rho0 in steps:
        while column >= 0 and class_loss(chains, Flips.of(rho0, steps[column]), length, who).worst <= epsilon:
            best = min(best, cost[0] * rho0 + cost[1] * steps[column])
            column -= 1
    return best


def test_the_staircase_is_that_of_the_whole_grid():
    """Every point of a coarse grid of 20×20 that keeps the guarantee costs at least what the walk over it finds."""
    prior, cost = [chain(0.3, 0.8)], (0.6, 0.4)
    steps = np.arange(20, 401, 20) / 800
    kept = [(a, b) for a in steps for b in steps if class_loss(prior, Flips.of(a, b), 6, BDP).worst <= 1.0]
    best = grid_cost(prior, 1.0, 6, cost, BDP)
    assert kept
    assert best <= min(cost[0] * a + cost[1] * b for a, b in kept) <= best + 20 / 800


@pytest.mark.slow
@given(SEEDS, st.sampled_from([BDP, BDP, PUFFERFISH]))
@settings(max_examples=examples(20))
def test_the_cheapest_flips_beat_a_grid_and_keep_the_guarantee(seed: int, who: Adversary):
    """Random chains, lazy or not, and any linear cost."""
    generator = np.random.default_rng(seed)
    q, r = generator.uniform(0.03, 0.97, 2)
    epsilon, n, prior = float(generator.uniform(0.2, 4)), int(generator.integers(1, 13)), [chain(q, r)]
    cost = tuple(prior[0].stationary if seed % 2 else generator.dirichlet([1, 1]))
    found = best_flips(prior, epsilon, n, who, cost)
    assert max(found) <= 0.5
    assert class_loss(prior, Flips.of(*found), n, who).worst <= epsilon
    assert cost[0] * found[0] + cost[1] * found[1] <= grid_cost(prior, epsilon, n, cost, who)


@pytest.mark.slow
def test_the_worst_model_of_a_class_decides():
    chains = [chain(0.2, 0.35), chain(0.1, 0.4), chain(0.8, 0.7)]
    found = best_flips(chains, 2.0, 20, BDP, (0.5, 0.5))
    losses = [flip_loss(c, Flips.of(*found), 20, BDP).worst for c in chains]
    assert max(losses) <= 2.0
    assert max(losses) == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize(("theta", "epsilon"), [(0.05, 1.0), (0.1, 5.0), (0.35, 0.2), (0.45, 2.0)])
def test_noise_is_never_above_zhaos_nor_the_papers(theta: float, epsilon: float):
    prior = chain(theta, theta)
    assert least_rho(prior, epsilon, None, BDP) <= zhao_rho(theta, epsilon) + 1e-12
    assert least_rho(prior, epsilon, None, PUFFERFISH) <= closed_rho(theta, epsilon) + 1e-12
    assert least_rho(prior, epsilon, None, BDP) >= least_rho(prior, epsilon, None, PUFFERFISH) - 1e-12
