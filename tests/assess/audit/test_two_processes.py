"""Slow functions run in two processes: the answers stay in order, all ends together, and shared noise is seen."""

from __future__ import annotations

import math
import os
import time
from typing import Any

import numpy as np
import pytest

from pufferdp import MarkovChain, MechanismError, RunBudget, audit_mechanism, outside_mechanism
from pufferdp.assess.audit.mechanisms import function
from pufferdp.assess.audit.mechanisms.function import GuardedFunction, shares_noise
from tests.strategies import examples

CHAIN = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]])
ROWS = np.arange(40).reshape(20, 2)
SEEDED = np.random.default_rng(7)


def fresh(row: Any) -> list[float]:
    return [float(row.sum()), np.random.laplace(), os.getpid()]


def seeded(row: Any) -> float:
    return float(row.sum() + SEEDED.laplace())


def mostly_seeded(row: Any) -> float:
    return float(row.sum() + SEEDED.laplace() + 0.3 * np.random.laplace())


def constant(row: Any) -> float:
    return 1.0


def divided(thing: Any, **more: Any) -> GuardedFunction:
    mechanism = outside_mechanism(thing, **more)
    assert isinstance(mechanism, GuardedFunction)
    mechanism.divide(ROWS[:1])
    return mechanism


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function, "_cores", lambda: 2)


def alive(pid: float) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return True


def test_two_processes_share_the_runs_in_order_and_end_together() -> None:
    mechanism = divided(fresh)
    assert mechanism.processes == 2
    out = mechanism.run(ROWS)
    assert out[:, 0].tolist() == ROWS.sum(axis=1).tolist()
    pids = set(out[:, 2])
    assert len(pids) == 2
    assert mechanism.run(ROWS[:1])[0, 0] == 1.0  # one run is for one of them
    assert mechanism.calls == 2 * function.TWIN_RUNS + 21
    mechanism.close()
    assert not any(map(alive, pids))


@pytest.mark.parametrize("noise", [seeded, mostly_seeded, constant])
def test_noise_that_two_processes_would_share_stays_in_one(noise: Any) -> None:
    """A generator that was seeded before: runs in two processes would not be independent, and the innocent accused."""
    mechanism = divided(noise)
    assert mechanism.processes == 1
    mechanism.close()


def test_one_core_has_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function, "_cores", lambda: 1)
    mechanism = divided(fresh)
    assert mechanism.processes == 0
    assert mechanism.run(ROWS).shape == (20, 3)
    mechanism.close()


def test_independent_noise_is_hardly_ever_taken_for_shared() -> None:
    """300 pairs of a hundred runs, three numbers each: .5 is five deviations of such a correlation. Fixed seed."""
    generator = np.random.default_rng(1)
    first, second = generator.laplace(size=(2, 300, 100, 3))
    assert not any(shares_noise(a, b) for a, b in zip(first, second, strict=True))
    assert shares_noise(first[0], first[0] + 0.5 * second[0])
    same = np.ones((100, 1))
    assert not shares_noise(np.hstack([same, first[0]]), np.hstack([same, second[0]]))


def wrong_in_the_second(row: Any) -> float:
    """The process that gets the second half of the runs meets a row that the first never sees."""
    if row[0] == 38:
        raise ValueError("late")
    return float(np.random.laplace())


def hangs_in_the_second(row: Any) -> float:
    if row[0] == 38:
        time.sleep(1000)
    return float(np.random.laplace())


@pytest.mark.parametrize(
    ("thing", "words"), [(wrong_in_the_second, "ValueError: late"), (hangs_in_the_second, "did not return within")]
)
def test_what_fails_in_one_process_ends_both(thing: Any, words: str) -> None:
    mechanism = divided(thing, budget=RunBudget(patience=0.3))
    pids = [child.pid for child in mechanism._children]
    assert len(pids) == 2
    with pytest.raises(MechanismError, match=words):
        mechanism.run(ROWS)
    assert mechanism.processes == 0
    assert not any(map(alive, pids))


def truth_in_most(row: Any) -> float:
    """Leaks just ln 3 about the first record, told as it is three times in four. Slow enough for two processes."""
    end = time.perf_counter() + 5e-5
    told = float(row[0]) if np.random.random() < 0.75 else float(1 - row[0])
    while time.perf_counter() < end:
        pass
    return told


@pytest.mark.parametrize(("calls", "processes"), [(11_000, 2), (5_000, 1)])
def test_slow_functions_are_divided_where_there_are_runs_for_it(calls: int, processes: int) -> None:
    mechanism = outside_mechanism(truth_in_most, dp_loss=math.log(3))
    assert isinstance(mechanism, GuardedFunction)
    found = audit_mechanism(CHAIN, mechanism, length=3, adversary="dp", calls=calls, seconds=600)
    assert mechanism.processes == processes
    assert mechanism.calls == found.calls <= calls
    mechanism.close()


@pytest.mark.slow
def test_two_processes_accuse_as_seldom_as_promised() -> None:
    """60 audits at 90 % (in the profile ``ci``): were each wrong with probability .1, more than a tenth and four
    deviations of them would be with probability below 1e-4. The noise has no seed."""
    audits, accused, twice = examples(60), 0, 0
    for seed in range(audits):
        mechanism = outside_mechanism(truth_in_most, dp_loss=math.log(3))
        assert isinstance(mechanism, GuardedFunction)
        mechanism.divide(np.zeros((1, 3), dtype=int))
        found = audit_mechanism(
            CHAIN, mechanism, length=3, adversary="dp", calls=3_000, seconds=60, confidence=0.9, seed=seed
        )
        accused, twice = accused + found.refuted, twice + (mechanism.processes == 2)
        mechanism.close()
    assert twice >= 0.9 * audits
    assert accused <= 0.1 * audits + 4 * math.sqrt(0.09 * audits)
