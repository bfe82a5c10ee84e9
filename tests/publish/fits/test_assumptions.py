"""Checks of independent people, months alike, usual beginnings, and of the numbers of an AR(1) fit.

Simulated data that are as the model says are accused at a level of 5 % in at most 20 of 200 runs: a right level fails
that once in a thousand times.
"""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp import MarkovChain, fit
from pufferdp.data.series import StatePath
from pufferdp.models.simulate import sample_chain, seeded
from pufferdp.publish.fits.ar1_checks import check_ar1
from pufferdp.publish.fits.assumptions import check_assumptions
from pufferdp.publish.fits.checks import Check

CHAIN = MarkovChain([[0.9, 0.08, 0.02], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])
RUNS, MOST = 200, 20
HOUR = 3_600_000_000


def path_of(rows, times=True) -> StatePath:
    """The records of some people, an hour apart from the same moment on."""
    sizes = [len(row) for row in rows]
    first = np.concatenate([np.arange(size) == 0 for size in sizes])
    when = np.concatenate([np.arange(size) for size in sizes]) * HOUR
    return StatePath(
        codes=np.concatenate(rows),
        joined=~first,
        persons=np.repeat(np.arange(len(rows)), sizes),
        by_person=True,
        hours=when // HOUR if times else None,
        numbers=None,
        apart=(~first).astype(np.int64),
        microseconds=when if times else None,
    )


def check(path: StatePath, name: str) -> Check:
    (found,) = [made for made in check_assumptions(path) if made.name == name]
    return found


def people(seed, count, records):
    return list(sample_chain(CHAIN, records, count, seeded(seed)))


@pytest.mark.parametrize("times", [True, False])
def test_one_person_under_two_names_is_found(times) -> None:
    rows = people(1, 12, 300)
    rows[9] = rows[2].copy()
    found = check(path_of(rows, times), "together")
    assert found.p_value is not None and found.p_value < 1e-6 and "there twice" in found.advice
    assert found.effect is not None and found.effect > 0.1


def test_people_who_move_together_a_little_are_found() -> None:
    together = np.random.default_rng(3).random(1000) < 0.1
    rows = [np.where(together, 0, row) for row in people(2, 10, 1000)]
    assert check(path_of(rows), "together").p_value < 1e-6


@pytest.mark.slow
def test_independent_people_are_not_accused() -> None:
    values = [check(path_of(people(seed, 6, 200)), "together").p_value for seed in range(RUNS)]
    assert sum(value < 0.05 for value in values) <= MOST


def hidden_people(seed, count, records):
    """People who are active for long or short, which their records do not show."""
    long = sample_chain(MarkovChain([[0.97, 0.03], [0.03, 0.97]]), records, count, seeded(seed))
    return list((long ^ (np.random.default_rng(seed).random(long.shape) < 0.2)).astype(np.int64))


def together_of_hidden(rows) -> Check:
    (found,) = [made for made in check_assumptions(path_of(rows), hidden=True) if made.name == "together"]
    return found


def test_one_person_under_two_names_is_found_where_memory_is_long() -> None:
    rows = hidden_people(1, 6, 600)
    assert together_of_hidden(rows).p_value > 1e-3
    rows[4] = rows[2].copy()
    assert together_of_hidden(rows).p_value < 1e-6


@pytest.mark.slow
def test_independent_people_with_a_long_memory_are_not_accused() -> None:
    values = [together_of_hidden(hidden_people(seed, 4, 1000)).p_value for seed in range(RUNS)]
    assert sum(value < 0.05 for value in values) <= MOST


@pytest.mark.slow
@pytest.mark.parametrize("records", [30, 300])
def test_usual_beginnings_are_not_accused_and_others_are(records) -> None:
    values = [check(path_of(people(seed, 40, records)), "start").p_value for seed in range(RUNS)]
    assert sum(value < 0.05 for value in values) <= MOST
    late = MarkovChain(CHAIN.transition, start=[0.0, 0.0, 1.0])
    rows = list(sample_chain(late, records, 40, seeded(1)))
    assert check(path_of(rows), "start").p_value < 1e-6


@pytest.mark.slow
def test_months_that_differ_are_found_and_others_are_not_accused() -> None:
    year = 24 * 120
    values = [check(path_of(people(seed, 1, year)), "season").p_value for seed in range(RUNS)]
    assert sum(value < 0.05 for value in values) <= MOST
    other = MarkovChain([[0.8, 0.15, 0.05], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])
    rows = [sample_chain(chain, year // 4, 1, seeded(n))[0] for n, chain in enumerate((CHAIN, other, CHAIN, other))]
    found = check(path_of([np.concatenate(rows)]), "season")
    assert found.p_value < 1e-4 and 0.03 < found.effect < 0.3


def numbers(seed, records=400, phi=0.6):
    generator = np.random.default_rng([seed, 5])
    out = np.zeros(records)
    for n, shock in enumerate(generator.standard_normal(records)):
        out[n] = phi * out[n - 1] + shock if n else shock / np.sqrt(1 - phi**2)
    return out


def ar1_checks(values):
    steps = np.concatenate([[-1.0], np.ones(len(values) - 1)])
    return {made.name: made for made in check_ar1([(values, steps)], 0.6, 0.0, [np.arange(len(values)) // 4])}


@pytest.mark.slow
def test_numbers_of_the_model_are_not_accused() -> None:
    made = [ar1_checks(numbers(seed)) for seed in range(RUNS)]
    for name in ("shape", "drift", "variance", "clock"):
        assert sum(found[name].p_value < 0.05 for found in made) <= MOST, name


def test_numbers_of_other_models_are_found() -> None:
    plain, hour = numbers(1, 2000), np.arange(2000) // 4 % 24
    for name, values in (
        ("shape", np.exp(plain)),
        ("drift", plain + np.where(np.arange(2000) < 1000, 0.0, 1.0)),
        ("variance", plain * np.where(np.arange(2000) < 1000, 1.0, 1.5)),
        ("clock", plain + np.sin(2 * np.pi * hour / 24)),
    ):
        found = ar1_checks(values)[name]
        assert found.p_value < 1e-4 and found.effect > 0.05 and found.advice, name


def test_a_fit_shows_them_with_their_effect() -> None:
    rows = people(4, 3, 400)
    rows[2] = rows[0].copy()
    data = {
        "who": [n for n in range(3) for _ in range(400)],
        "when": list(range(400)) * 3,
        "state": [f"s{x}" for row in rows for x in row],
    }
    made = fit(data, column="state", order="when", by="who", independent=True)
    (found,) = [one for one in made.checks if one.name == "together"]
    assert found.holds is False
    assert "people independent of each other" in str(made) and f"{found.effect:.2f}" in str(made)


NIGHT = np.array([[0.97, 0.03], [0.3, 0.7]])
DAY = np.array([[0.7, 0.3], [0.1, 0.9]])


def clock_people(seed, count, days, late=False, winter=False):
    """People with a record an hour who sleep at night; in the periodic stationary distribution from the start on."""
    generator = np.random.default_rng([seed, 11])
    out, state = np.zeros((count, 24 * days), dtype=np.int64), np.zeros(count, dtype=np.int64)
    for hour in range(-48, 24 * days):
        slow = winter and hour >= 0 and hour // 720 % 2
        table = NIGHT if hour % 24 < 8 or (slow and hour % 24 < 12) else DAY
        state = (generator.random(count) < table[state, 1]).astype(np.int64)
        if late and hour == 0:
            state[:] = 1
        if hour >= 0:
            out[:, hour] = state
    return list(out)


def check_clock(rows, name) -> Check:
    (found,) = [made for made in check_assumptions(path_of(rows), clock="hour") if made.name == name]
    return found


@pytest.mark.slow
def test_people_with_a_clock_are_not_accused_of_a_common_night() -> None:
    """A table for all hours would find that all sleep at night."""
    assert check(path_of(clock_people(1, 4, 20)), "together").p_value < 1e-4
    values = [check_clock(clock_people(seed, 4, 20), "together").p_value for seed in range(RUNS)]
    assert sum(value < 0.05 for value in values) <= MOST
    rows = clock_people(1, 4, 20)
    rows[3] = rows[1].copy()
    assert check_clock(rows, "together").p_value < 1e-6


@pytest.mark.slow
def test_months_and_beginnings_of_a_clock() -> None:
    for name, count, days in (("season", 1, 120), ("start", 60, 15)):
        values = [check_clock(clock_people(seed, count, days), name).p_value for seed in range(RUNS)]
        assert sum(value < 0.05 for value in values) <= MOST, name
    assert check_clock(clock_people(1, 2, 120, winter=True), "season").p_value < 1e-4
    assert check_clock(clock_people(1, 60, 15, late=True), "start").p_value < 1e-4


def check_hidden(rows, name, clock=None) -> Check:
    (found,) = [made for made in check_assumptions(path_of(rows), hidden=True, clock=clock) if made.name == name]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count", "records"), [("season", 2, 24 * 120), ("start", 60, 300)])
def test_months_and_beginnings_of_hidden_states_are_not_accused(name, count, records) -> None:
    """A test for chains accuses them: records depend on more than the one before."""
    values = [check_hidden(hidden_people(seed, count, records), name).p_value for seed in range(RUNS)]
    assert sum(value < 0.05 for value in values) <= MOST


@pytest.mark.slow
def test_months_of_hidden_states_by_time_of_day_are_not_accused() -> None:
    values = [check_hidden(clock_people(seed, 2, 120), "season", "hour").p_value for seed in range(RUNS)]
    assert sum(value < 0.05 for value in values) <= MOST


def test_months_and_beginnings_of_hidden_states_that_differ_are_found() -> None:
    calm, busy = hidden_people(3, 4, 24 * 120), np.random.default_rng(4)
    month = np.arange(24 * 120) // 720 % 2
    rows = [np.where((month == 1) & (busy.random(len(row)) < 0.5), 1, row) for row in calm]
    found = check_hidden(rows, "season")
    assert found.p_value < 1e-4 and found.effect > 0.1
    rows = hidden_people(5, 60, 300)
    for row in rows[:45]:
        row[0] = 1
    assert check_hidden(rows, "start").p_value < 1e-4
