"""The least whole noise: enumerated over all adversaries, never below what any mechanism needs, certified."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from benchmarks.optimum import CHAINS, optimum
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp import Ledger, MarkovChain, NotApplicableError, plan, release, verify
from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.additive.whole_noise import WholeNoise
from pufferdp.bounds.additive.windows import WindowCounts, Windows
from pufferdp.publish.answers.mechanisms.exact import ExactLaplace
from pufferdp.publish.answers.mechanisms.optimal import ExactOptimal
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.noise import SeededSampler
from pufferdp.publish.noise_distributions import NoiseTable
from tests.oracles.leakage import channel_leakage, path_distribution
from tests.publish.answers.mechanisms.suite import literal_start
from tests.strategies import chains, examples

ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["rest", "active"])
DEFINITE = ("stationary", "given")
ROUNDING = 1e-9


def stickier(chain: MarkovChain) -> MarkovChain:
    """A chain whose records attract each other: there geometric noise is not the best."""
    return replace(chain, transition=(chain.transition + np.eye(chain.size)) / 2)


def problem_of(chain, length, epsilon, adversary=Adversary.BDP):
    query = Query.parse(f"count:{chain.labels[-1]}")
    return Problem(model=chain, query=query, lengths=((length, 1),), epsilon=epsilon, adversary=adversary)


def leaked(chain, length: int, table: NoiseTable, adversary: str) -> float:
    """By enumeration: every series, every output out to where ratios stay as they are."""
    counts = (np.indices((chain.size,) * length) == chain.size - 1).sum(axis=0)
    outputs = np.arange(-table.reach - 2, table.reach + length + 3)
    channel = table.distribution.at(outputs - counts[..., None])
    return channel_leakage(path_distribution(chain.transition, literal_start(chain), length), channel, adversary)


def narrower(table: NoiseTable) -> NoiseTable:
    """A tenth less noise: every tenth draw has none at all."""
    distribution = table.distribution
    masses = 0.9 * distribution.masses
    masses[table.reach] += 0.1
    return NoiseTable.of(
        WholeNoise(masses, (0.9 * distribution.tails[0], 0.9 * distribution.tails[1]), distribution.ratio)
    )


@settings(max_examples=examples(60))
@given(
    chain=chains(3, DEFINITE).map(stickier),
    length=st.integers(2, 5),
    epsilon=st.sampled_from([0.5, 1.0, 2.0, 4.0]),
    adversary=st.sampled_from([Adversary.BDP, Adversary.PUFFERFISH]),
)
def test_every_adversary_by_enumeration(chain, length, epsilon, adversary):
    problem = problem_of(chain, length, epsilon, adversary)
    try:
        calibration = ExactOptimal().calibrate(problem)
    except NotApplicableError:  # one state, nothing to hide, or states that repel each other
        return
    table = calibration.distribution.table
    assert leaked(chain, length, table, str(adversary)) <= epsilon + ROUNDING
    assert calibration.dp_loss <= epsilon + 1e-6
    assert (
        calibration.distribution.expected_l1_error <= ExactLaplace().calibrate(problem).distribution.expected_l1_error
    )


@pytest.mark.parametrize("adversary", [Adversary.BDP, Adversary.PUFFERFISH])
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_a_tenth_less_noise_breaks_the_guarantee(epsilon, adversary):
    """The enumeration can fail, and so can the check of a stated distribution."""
    problem = problem_of(ACTIVITY, 5, epsilon, adversary)
    table = ExactOptimal().calibrate(problem).distribution.table
    assert epsilon * 0.999 < leaked(ACTIVITY, 5, table, str(adversary)) <= epsilon + ROUNDING
    assert leaked(ACTIVITY, 5, narrower(table), str(adversary)) > epsilon * 1.01
    with pytest.raises(NotApplicableError, match="leaks more than epsilon"):
        ExactOptimal().calibrate(problem.with_table(narrower(table)))
    assert ExactOptimal().calibrate(problem.with_table(table)).distribution.table == table


@pytest.mark.parametrize("name", ["activity", "sticky"])
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_never_below_the_optimum_over_all_mechanisms(name, epsilon):
    """The best estimate from the noisy count is a mechanism too, so no linear programme over all of them errs more."""
    chain, n = MarkovChain(transition=CHAINS[name]), 4
    table = ExactOptimal().calibrate(problem_of(chain, n, epsilon)).distribution.table
    distribution = path_distribution(chain.transition, chain.stationary, n).ravel()
    counts = np.indices((2,) * n).sum(axis=0).ravel()
    outputs = np.arange(-300, 300 + n)
    joint = distribution * table.distribution.at(outputs[:, None] - counts)
    by_count = np.stack([joint[:, counts == c].sum(axis=1) for c in range(n + 1)], axis=1)
    median = (np.cumsum(by_count, axis=1) >= by_count.sum(axis=1, keepdims=True) / 2).argmax(axis=1)
    model_estimate = float((joint * np.abs(median[:, None] - counts)).sum())
    best = optimum(chain, n, epsilon, count_only=True).error
    assert best <= model_estimate + 1e-6
    assert model_estimate <= table.expected_absolute + 1e-9


@given(chain=chains(3, DEFINITE), wide=st.integers(0, 5), epsilon=st.sampled_from([0.5, 2.0]))
def test_narrow_windows_bound_wider_ones(chain, wide, epsilon):
    """What eight records leak is no more than the bound from a few of their windows."""
    steps = np.array([0] * (chain.size - 1) + [1])
    q = math.exp(-epsilon / 4)
    masses = (1 - q) / (1 + q) * q ** np.abs(np.arange(-6, 7))
    tails = (1 - masses.sum()) / 2
    masses[4] += tails / 2  # no distribution with a name
    noise = WholeNoise(masses, (tails / 2, tails), q)
    windows = Windows(chain, 8, steps)
    truth = WindowCounts(windows, 7).upper(noise)
    assert WindowCounts(windows, wide).upper(noise) >= truth - 1e-9
    table = NoiseTable.of(noise)
    if chain.size == 2:
        assert leaked(chain, 8, table, "bdp") <= truth + 1e-9


def frame(seed: int, length: int = 60) -> pd.DataFrame:
    generator, state, out = np.random.default_rng(seed), 0, []
    for _ in range(length):
        state = int(generator.random() < ACTIVITY.transition[state, 1])
        out.append(ACTIVITY.labels[state])
    return pd.DataFrame({"state": out})


@pytest.mark.slow
def test_released_planned_verified_and_charged(tmp_path):
    chosen = plan(ACTIVITY, "count:active", epsilon=4.0, length=60).best
    assert chosen.mechanism == "exact-optimal"
    ledger = Ledger(tmp_path / "books.db", create=True)
    ledger.create("week", model=ACTIVITY, adversary="bdp", budget=5.0)
    done = release(
        frame(1),
        model=ACTIVITY,
        column="state",
        query="count:active",
        epsilon=4.0,
        ledger=ledger,
        dataset="week",
        sampler=SeededSampler(3),
    )
    certificate = done.certificate.to_dict()
    assert certificate["mechanism"]["name"] == "exact-optimal"
    assert certificate["expected_l1_error"] == pytest.approx(
        chosen.calibration.distribution.expected_l1_error, rel=1e-6
    )
    assert verify(done.certificate).valid
    assert done.intervals.all.low <= done.answer <= done.intervals.all.high
    assert done.model_estimate is not None
    assert ledger.dataset("week").spent_dp == pytest.approx(4.0, rel=1e-3)  # its largest step, and no more than epsilon
    assert ledger.dataset("week").leakage <= 4.0 + 1e-12  # the guarantee of a single release stands
    assert ledger.verify().problems == ()
    ledger.close()


def resealed(certificate):
    return certificate | {"sha256": content_hash(certificate)}


def test_a_certificate_with_another_distribution_is_refused():
    done = release(frame(2), model=ACTIVITY, column="state", query="count:active", epsilon=4.0)
    stated = done.certificate.to_dict()
    table = NoiseTable.from_dict(stated["calibration"]["table"])
    less = narrower(table)
    forged = stated | {
        "calibration": stated["calibration"] | {"table": less.to_dict(), "sigma": less.expected_absolute}
    }
    forged["noise"] = stated["noise"] | {"scale": less.expected_absolute}
    forged["expected_l1_error"] = less.expected_absolute
    assert any("leaks more than epsilon" in problem for problem in verify(resealed(forged)).problems)
    without = stated | {"calibration": {k: v for k, v in stated["calibration"].items() if k != "table"}}
    assert any("exact-optimal" in problem for problem in verify(resealed(without)).problems)
    smaller = stated | {"guarantee": stated["guarantee"] | {"epsilon": 3.9}}
    assert not verify(resealed(smaller)).valid


@pytest.mark.parametrize(
    ("chain", "adversary", "words"),
    [
        (MarkovChain(transition=[[0.2, 0.8], [0.7, 0.3]]), "bdp", "geometric noise is the best"),
        (ACTIVITY, "dp", "geometric noise is the best"),
        (MarkovChain(transition=ACTIVITY.transition, start="any"), "bdp", "definite start"),
        (MarkovChain(transition=[[0.9999, 0.0001], [0.0001, 0.9999]]), "bdp", "take too long"),
    ],
)
def test_what_it_does_not_apply_to(chain, adversary, words):
    with pytest.raises(NotApplicableError, match=words):
        ExactOptimal().calibrate(problem_of(chain, 5000, 2.0, Adversary(adversary)))


@pytest.mark.slow
def test_plans_leave_it_out_where_it_gains_little():
    names = [c.mechanism for c in plan(ACTIVITY, "count:active", epsilon=1.0, length=60).candidates]
    assert "exact-optimal" not in names
    assert "exact-optimal" not in [c.mechanism for c in plan(ACTIVITY, "histogram", epsilon=3.0, length=60).candidates]
    asked = release(
        frame(4, 12), model=ACTIVITY, column="state", query="count:active", epsilon=1.9, mechanism="exact-optimal"
    )
    assert verify(asked.certificate).valid
