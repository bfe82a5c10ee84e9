"""Likelihood ratios of outputs with many numbers: right by enumeration, and worth what audits of vectors prove.

Seeds are fixed. What is proved by counting passes the truth once in twenty audits at most, and not with these seeds.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.assess.audit import events
from pufferdp.assess.audit.audit import audit_mechanism
from pufferdp.assess.audit.events import Feature, choose_by_ratio
from pufferdp.assess.audit.likelihood import (
    CountDistributions,
    RecordDistributions,
    known_distribution,
    learnt_distribution,
)
from pufferdp.assess.audit.mechanisms.ours import FlippedSeries
from pufferdp.assess.audit.priors import ChainPrior, possible
from pufferdp.assess.audit.search import Budget
from pufferdp.assess.audit.situations import Situation, informed_by
from pufferdp.assess.dp import leakage_of
from pufferdp.models.chain import MarkovChain
from tests.oracles.leakage import path_distribution
from tests.strategies import examples

ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
W = MarkovChain(transition=[[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])
PATIENCE = 600.0


def enumerated(chain, tables, situation, value, codes):
    """The probability of the outputs of all records given what is known and a value of the target."""
    n, distribution = (
        situation.prior.records,
        path_distribution(chain.transition, chain.stationary, situation.prior.records),
    )
    held = situation.given(value)
    total = weighted = 0.0
    for path in itertools.product(range(chain.size), repeat=n):
        if all(path[t] == x for t, x in held.items()):
            total += distribution[path]
            weighted += distribution[path] * math.prod(tables[t, path[t], codes[t]] for t in range(n))
    return weighted / total


@st.composite
def cases(draw):
    """A chain that may have zeros and repel, tables that may have zeros, a window with known records beyond it."""
    k, n, kinds = draw(st.integers(2, 3)), draw(st.integers(1, 4)), draw(st.integers(2, 3))
    generator = np.random.default_rng(draw(st.integers(0, 10**6)))
    transition = generator.random((k, k)) * (generator.random((k, k)) < 0.8) + 0.05 * np.roll(np.eye(k), 1, axis=1)
    chain = MarkovChain(transition=transition / transition.sum(axis=1, keepdims=True))
    tables = generator.random((n, k, kinds)) * (generator.random((n, k, kinds)) < 0.9) + 1e-3 * np.eye(k, kinds)
    tables += 1e-3 * (tables.sum(axis=2, keepdims=True) == 0)
    tables /= tables.sum(axis=2, keepdims=True)
    target = int(generator.integers(n))
    low, high = int(generator.integers(target + 1)), int(generator.integers(target, n))
    known = tuple((t, float(generator.integers(k))) for t in range(n) if not low <= t <= high)
    return chain, tables, Situation(ChainPrior(chain, n), target, known)


@given(cases())
@settings(max_examples=examples(60), deadline=None)
def test_the_ratio_is_that_of_enumeration(case):
    chain, tables, situation = case
    values = [v for v in situation.prior.values(situation.target) if possible(situation.prior, situation.given(v))]
    if len(values) < 2:
        return
    a, b = values[:2]
    distributions = RecordDistributions(tables, np.arange(1.0, tables.shape[2]) - 0.5, exact=True)
    rows = np.array(list(itertools.product(range(tables.shape[2]), repeat=len(tables))), dtype=float)
    ratios = distributions.log_ratio(situation, a, b, rows)
    worst = 0.0
    for row, ratio in zip(rows.astype(int), ratios, strict=True):
        first, second = (enumerated(chain, tables, situation, v, row) for v in (a, b))
        if first > 0 and second > 0:
            assert ratio == pytest.approx(math.log(first / second), abs=1e-9)
        elif first > 0:
            assert ratio > 1e299
        worst = max(worst, math.inf if first > 0 == second else math.log(first / second) if first > 0 else 0.0)
    event = distributions.worst_output(situation, a, b)
    # Climbing may stop early, and never passes what there is. Its probabilities are those of the output it names.
    assert event.leakage <= worst + 1e-9
    if event.leakage > 0:
        codes = np.zeros(len(tables), dtype=int)
        codes[event.first : event.first + len(event.codes)] = event.codes
        unknown = [t for t in range(len(tables)) if event.first <= t < event.first + len(event.codes)]
        only = np.ones_like(tables)
        only[unknown] = tables[unknown]
        shares = [enumerated(chain, only, situation, v, codes) for v in (a, b)]
        assert event.chances == pytest.approx(shares, abs=1e-12)


@pytest.mark.parametrize(
    ("rho", "adversary"), [("0.05,0.05", "bdp"), ("0.3,0.2", "pufferfish"), ("0.378,0.378", "bdp")]
)
def test_the_worst_output_of_flips_is_computed(adversary, rho):
    """Whatever runs can prove of rare events, the distribution is known: what is computed is the exact leakage."""
    report = audit_mechanism(ACTIVITY, f"flip:{rho}", length=12, adversary=adversary, calls=2_000, seconds=PATIENCE)
    assert report.exact is not None
    assert report.exact * (1 - 1e-6) <= report.lower <= report.exact
    assert report.counted < report.lower
    (computed,) = (attack for attack in report.attacks if attack.computed)
    assert report.worst is computed
    assert computed.runs == (0, 0)
    assert "computed, not counted" in str(report)
    assert "published as" in computed.event
    assert report.to_dict()["counted"] == report.counted


def test_for_someone_who_knows_all_others_the_claim_is_what_is_computed():
    report = audit_mechanism(ACTIVITY, "flip:0.3,0.2", length=6, adversary="dp", calls=2_000, seconds=PATIENCE)
    assert report.exact is not None
    assert report.lower == pytest.approx(report.exact, abs=1e-6)
    assert report.lower <= report.exact
    assert not report.refuted


def test_one_sample_tells_both_probabilities():
    """The other value's probability, from draws for the first: what is expected is what a million fresh runs prove.

    Their counts and the sample's vary by a few hundredths each; the bounds take off less than 1.
    """
    generator = np.random.default_rng(3)
    first, second = (generator.normal(m, 1.0, (200_000, 1)) for m in (1.0, 0.0))
    feature = Feature(words="ratio", kind="ratio", compute=lambda rows: rows[:, 0] - 0.5)
    choice = choose_by_ratio(feature, first, second, 1_000_000, 0.0)
    assert choice is not None
    means = (0.0, 1.0) if choice.swapped else (1.0, 0.0)
    fresh = [int(choice.event(generator.normal(m, 1.0, (1_000_000, 1))).sum()) for m in means]
    assert 2.5 < choice.score < math.log(fresh[0] / fresh[1]) < choice.score + 1.0


def test_the_edge_of_a_ratio_is_the_best_one():
    """2,000 draws for either value choose an edge that proves .998 of what the best does, by the exact distributions.

    Fixed seeds. Where a ratio is nearly the same for all outputs in an event, few draws tell it; taken to be as unsure
    as the event's probability, it was sought .985 of the way.
    """
    at = np.linspace(-8.0, 8.0, 20_001)
    logs = 3 * np.tanh(at - 1.5)
    distributions = np.exp(-(at**2) / 2 + logs), np.exp(-(at**2) / 2)
    shift = math.log(distributions[0].sum() / distributions[1].sum())
    tails = [np.cumsum(distribution[::-1])[::-1] / distribution.sum() for distribution in distributions]
    guaranteed = events._expected_bound(tails[0], tails[1], 2_000_000, 0.0)
    feature = Feature(words="ratio", kind="ratio", compute=lambda rows: 3 * np.tanh(rows[:, 0] - 1.5) - shift)
    for seed in range(10):
        generator = np.random.default_rng(seed)
        first, second = (
            generator.choice(at, (2000, 1), p=distribution / distribution.sum()) for distribution in distributions
        )
        choice = choose_by_ratio(feature, first, second, 2_000_000, 0.0)
        assert choice is not None
        assert not choice.swapped
        edge = int(np.searchsorted(logs - shift, choice.event.low))
        assert guaranteed[edge] > 0.998 * np.nanmax(guaranteed)


def test_an_estimated_ratio_is_doubted_where_hits_show_it_is_wrong():
    """Draws that are alike, and a ratio that says they are not: nothing is guaranteed."""
    generator = np.random.default_rng(3)
    first, second = generator.normal(0, 1, (20_000, 1)), generator.normal(0, 1, (20_000, 1))
    feature = Feature(words="ratio", kind="ratio", compute=lambda rows: 3 * rows[:, 0])
    choice = choose_by_ratio(feature, first, second, 20_000, 0.0)
    assert choice is None or choice.score < 0.5


def test_what_is_learnt_is_the_channel():
    """Shares of 20,000 runs: within five standard deviations, of 240 shares."""
    generator = np.random.default_rng(1)
    channel = np.array([[0.7, 0.3], [0.2, 0.8]])
    flips = FlippedSeries(model=ACTIVITY, channel=channel, records=60, generator=generator)
    prior = ChainPrior(ACTIVITY, 60)
    records = prior.draw({}, 20_000, generator)
    distribution = learnt_distribution(prior, records, flips.run(records), generator)
    assert isinstance(distribution, RecordDistributions)
    assert np.abs(distribution.tables - channel).max() < 5 * 0.5 / math.sqrt(5_000)
    assert not distribution.exact
    known = known_distribution(flips, prior, generator)
    assert known is not None
    assert known.exact


def test_the_worst_adversary_of_the_curve_is_tried_first():
    worst = leakage_of(ACTIVITY, dp_epsilon=0.1, length=60).attack
    assert worst is not None
    situation, *narrower = informed_by(ChainPrior(ACTIVITY, 60), worst, np.random.default_rng(0))
    assert worst.before.known is not None
    held = dict(situation.known)
    assert situation.target - worst.before.known[0] in held
    assert all(len(s.known) > len(situation.known) for s in narrower)
    # Who knows all others is somebody else; a window would lie about what they know.
    informed = leakage_of(ACTIVITY, dp_epsilon=0.1, length=60, adversary="dp").attack
    assert informed is None or informed_by(ChainPrior(ACTIVITY, 60), informed, np.random.default_rng(0)) == []


class Vector:
    """A function of many data sets."""

    def __init__(self, name, make, dp_loss):
        self.name, self._make, self.dp_loss = name, make, dp_loss

    def run(self, records):
        return self._make(np.asarray(records))


def histogram(records, states):
    return np.stack([(records == x).sum(axis=1) for x in range(states)], axis=1).astype(float)


def noisy_histogram(scale, generator, states=3):
    def make(records):
        noise = generator.laplace(0.0, scale, (len(records), states))
        return np.round((histogram(records, states) + noise) * 2**20) / 2**20

    return make


def responses(loss, generator):
    def make(records):
        lies = generator.random(records.shape) < 1 / (1 + math.exp(loss))
        return np.where(lies, 1 - records, records).astype(float)

    return make


@pytest.mark.slow
def test_histograms_are_proved_to_nearly_nine_tenths():
    """Of what any mechanism of the claim leaks: so of the exact leakage too, which nobody knows here."""
    outside = Vector("histogram", noisy_histogram(2.0, np.random.default_rng(5)), 1.0)
    report = audit_mechanism(W, outside, length=30, calls=2_000_000, seconds=PATIENCE)
    assert report.upper is not None
    assert 0.85 * report.upper <= report.counted <= report.upper
    assert "as estimated" in report.attacks[0].event


@pytest.mark.slow
def test_streams_from_outside_are_proved_to_nearly_nine_tenths():
    stream = Vector("stream", responses(1.0, np.random.default_rng(5)), 1.0)
    report = audit_mechanism(ACTIVITY, stream, length=20, calls=2_000_000, seconds=PATIENCE)
    assert report.upper is not None
    assert 0.85 * report.upper <= report.counted <= report.upper


def test_vectors_that_keep_their_claim_are_not_accused():
    """Two audits at 99.9 %."""
    for make in (noisy_histogram(2.0, np.random.default_rng(0), 2), responses(1.0, np.random.default_rng(0))):
        report = audit_mechanism(
            ACTIVITY, Vector("right", make, 1.0), length=6, calls=6_000, seconds=PATIENCE, confidence=0.999, seed=0
        )
        assert not report.refuted


def test_vectors_with_too_little_noise_are_caught():
    for make in (noisy_histogram(0.5, np.random.default_rng(1), 2), responses(2.0, np.random.default_rng(1))):
        report = audit_mechanism(ACTIVITY, Vector("wrong", make, 1.0), length=6, calls=20_000, seconds=PATIENCE)
        assert report.refuted
        assert report.claim_lower is not None
        assert report.claim_lower > 1.0


def test_a_vector_that_never_depends_on_the_data_is_said_to():
    generator = np.random.default_rng(1)
    for width in (2, 6, 9):
        constant = Vector("noise", lambda records, d=width: generator.integers(0, 3, (len(records), d)) * 1.0, 1.0)
        report = audit_mechanism(
            ACTIVITY, constant, length=6, calls=6_000, seconds=PATIENCE, confidence=0.999, adversary="bdp"
        )
        assert not report.responds
        assert not report.refuted
        assert "never depended on the data" in str(report)


def noisy_count(scale, generator):
    def make(records):
        return np.round((records.sum(axis=1) + generator.laplace(scale=scale, size=len(records))) * 2**20) / 2**20

    return make


def longest_run(records):
    """No sum over the records, however noisy."""
    run = best = np.zeros(len(records))
    for column in records.T:
        run = (run + 1) * column
        best = np.maximum(best, run)
    return best + np.random.default_rng(3).laplace(scale=0.3, size=len(records))


def test_sums_with_noise_are_emulated_and_nothing_else():
    generator = np.random.default_rng(7)
    prior = ChainPrior(ACTIVITY, 12)
    records = prior.draw({}, 4000, generator)
    outputs = noisy_count(2.0, generator)(records)[:, None]
    distribution = learnt_distribution(prior, records, outputs, generator)
    assert isinstance(distribution, CountDistributions)
    assert distribution.fits(outputs - distribution.sums(records))
    assert distribution.laplace
    assert distribution.scale == pytest.approx(2.0, rel=0.1)  # 4,000 draws: five deviations
    np.testing.assert_allclose(distribution.columns[1] - distribution.columns[0], [1.0])
    assert abs(distribution.run(records).mean() - outputs.mean()) < 6 * 2.0 * math.sqrt(2 * 2 / 4000)
    other = longest_run(records)[:, None]
    strange = learnt_distribution(prior, records, other, generator)
    assert isinstance(strange, CountDistributions)
    assert not strange.fits(other - strange.sums(records))


class SlowVector(Vector):
    """With a clock of its own: 100,000 runs take 700 seconds."""

    now = 0.0

    def run(self, records):
        self.now += 0.007 * len(records)
        return super().run(records)

    def audit(self, calls, confidence=0.95):
        budget = Budget(1, 1.0, clock=lambda: self.now)
        return audit_mechanism(
            ACTIVITY, self, length=20, calls=calls, seconds=0.006 * calls, confidence=confidence, budget=budget
        )


@pytest.mark.slow
def test_slow_mechanisms_are_emulated_and_tested_on_their_own_runs():
    """Four fifths are proved in the time for 86,000 runs, and what is broken is still seen.

    Were the emulation taken for the mechanism, a count that never depends on the data would seem to leak.
    """
    report = SlowVector("count", noisy_count(2.0, np.random.default_rng(5)), 0.5).audit(100_000)
    exact = leakage_of(ACTIVITY, dp_epsilon=0.5, length=20, query="count:1").exact
    assert 0.8 * exact <= report.counted <= exact
    assert not report.refuted
    assert SlowVector("count", noisy_count(1.0, np.random.default_rng(5)), 0.5).audit(30_000, 0.999).refuted
    noise = np.random.default_rng(5)
    idle = SlowVector("idle", lambda records: noise.laplace(scale=2.0, size=len(records)), 0.5)
    assert idle.audit(20_000, 0.999).lower < 0.5
