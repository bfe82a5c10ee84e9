"""Whole periods as the unit of a guarantee: plans, releases, certificates, and all algorithms with as much noise."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.bounds.units.blocks import BlockCurve
from pufferdp.ledger.ledger import Ledger
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import BinaryInterval
from pufferdp.publish.answers.mechanisms import MECHANISMS
from pufferdp.publish.answers.plan import plan
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.noise import SeededSampler
from pufferdp.publish.release import release
from pufferdp.publish.series import Series
from pufferdp.publish.verify import verify
from tests.oracles.algorithms import table
from tests.oracles.blocks import block_leakage, cut
from tests.tolerance import SEARCHED

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
W = [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]
HOURS = MarkovChain(transition=W, states=["home", "work", "hospital"], step="1h")
PAIRS = MarkovChain(transition=ACTIVITY, states=["rest", "active"])
DISTRIBUTION = np.array([0.305, 0.118]) / 0.423


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "hours.csv"
    rows = [f"2024-05-{1 + h // 24:02d} {h % 24:02d}:00,{HOURS.labels[h * h % 3]}" for h in range(7, 24 * 7)]
    path.write_text("time,place\n" + "\n".join(rows) + "\n")
    return path


def test_noise_is_as_often_as_wide_as_a_day_has_records():
    planned = plan(HOURS, "histogram", epsilon=1.0, length=672, unit="day")
    best = planned.best
    loss = BlockCurve(W, block=24, length=672).inverse(1.0)
    assert best.mechanism == "curve-tight"
    assert best.calibration.scale == pytest.approx(2 * 24 / loss)
    assert planned.to_dict()["unit"] == {"name": "day", "records": 24}
    assert "epsilon 1 about a whole day" in str(planned)
    assert {c.mechanism for c in planned.candidates if c.applies} == {
        "curve-tight",
        "curve-odds",
        "curve-general",
        "group",
    }
    for c in planned.candidates:
        assert (
            c.applies or c.mechanism.startswith(("curve", "per-record")) or "not worked out for a whole day" in c.reason
        )
    assert planned.candidate("per-record-dp").calibration.scale == pytest.approx(2 * 24)
    assert planned.candidate("group").calibration.scale == pytest.approx(2 * 672)


def test_noise_does_not_grow_with_the_series_and_a_day_is_no_longer_than_it():
    scales = [
        plan(HOURS, "histogram", epsilon=1.0, length=n, unit="day").best.calibration.scale for n in (10**4, 10**9)
    ]
    assert scales[0] == pytest.approx(scales[1], rel=1e-6)
    short = plan(HOURS, "count:work", epsilon=1.0, length=5, unit="day")
    assert short.best.calibration.scale <= 5 / BlockCurve(W, block=24, length=5).inverse(1.0) * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
def test_all_algorithms_with_this_noise_keep_the_guarantee_and_with_a_tenth_less_some_do_not(adversary):
    candidate = plan(PAIRS, "histogram", epsilon=1.0, length=4, unit=2, adversary=adversary).candidate("curve-tight")
    # Of any algorithm that loses as much about a block as this noise does.
    loss = 2 * candidate.calibration.lipschitz / candidate.calibration.scale
    leaks = [
        max(block_leakage(ACTIVITY, DISTRIBUTION, 4, 2, phase, spent, adversary) for phase in (0, 1))
        for spent in (loss, loss / 0.9)
    ]
    assert leaks[0] <= 1.0 + 1e-9 < 1.05 < leaks[1]


@pytest.mark.parametrize("query", ["count:active", "histogram"])
def test_the_answer_itself_leaks_no_more_than_guaranteed_about_any_block(query):
    calibration = plan(PAIRS, query, epsilon=1.0, length=4, unit=2).best.calibration
    # A noisy count of integers; a histogram of two states is one, and each record moves both numbers by 1.
    per_count = calibration.lipschitz / calibration.scale
    joint, outputs = table([ACTIVITY], DISTRIBUTION, 4), np.arange(-60, 65)
    weights = {s: np.exp(-per_count * abs(outputs - sum(s))) for s in itertools.product((0, 1), repeat=4)}
    worst = 0.0
    for phase in (0, 1):
        for here in cut(4, 2, phase):
            others = [t for t in range(4) if t not in here]
            for size in range(len(others) + 1):
                for known in itertools.combinations(others, size):
                    worst = max(worst, _shift(joint, weights, here, known))
    assert 0.3 < worst <= 1.0


def _shift(joint, weights, here, known):
    distributions: dict = {}
    for series, chance in np.ndenumerate(joint):
        key = tuple(series[t] for t in known), tuple(series[t] for t in here)
        seen, total = distributions.get(key, (0.0, 0.0))
        distributions[key] = seen + chance * weights[series], total + chance
    most = 0.0
    for (a, x), (b, y) in itertools.permutations(distributions, 2):
        if a == b and x != y:
            first, second = (distributions[a, v][0] / distributions[a, v][1] for v in (x, y))
            most = max(most, float(np.log(first / second).max()))
    return most


def test_a_release_states_its_unit_and_is_verified(place):
    made = release(
        place, model=HOURS, column="place", order="time", query="histogram", epsilon=1.0, unit="day",
        sampler=SeededSampler(1),
    )  # fmt: skip
    content = made.certificate.to_dict()
    assert content["guarantee"]["unit"] == {"name": "day", "records": 24}
    assert "a whole day" in content["guarantee"]["statement"]
    assert "a whole day" in content["guarantee"]["secrets"]
    assert "about a whole day" in made._repr_html_()
    assert verify(made.certificate).problems == ()
    assert verify(json.loads(json.dumps(content))).valid


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda g: g["unit"].update(records=12), "unit"),
        (lambda g: g["unit"].update(name="week"), "sigma|unit|scale"),
        (lambda g: g.pop("unit"), "sigma|scale|statement|secrets"),
    ],
    ids=["fewer records", "another unit", "no unit"],
)
def test_a_certificate_with_another_unit_is_found_out(place, change, words):
    made = release(
        place, model=HOURS, column="place", order="time", query="histogram", epsilon=1.0, unit="day",
        sampler=SeededSampler(1),
    )  # fmt: skip
    content = made.certificate.to_dict()
    change(content["guarantee"])
    content["sha256"] = content_hash(content)
    problems = verify(content).problems
    assert any(word in problem for problem in problems for word in words.split("|")), problems


def test_a_record_is_no_unit_of_less_noise():
    record = plan(HOURS, "histogram", epsilon=1.0, length=672).candidate("curve-tight").calibration.scale
    alone = plan(HOURS, "histogram", epsilon=1.0, length=672, unit=1).candidate("curve-tight").calibration.scale
    assert alone == pytest.approx(record, rel=SEARCHED)


def test_classes_and_parts_have_units_too():
    model = BinaryInterval(low=0.2, high=0.8)
    planned = plan(model, "count:1", epsilon=1.0, length=100, unit=10)
    assert planned.best.mechanism == "curve-odds"
    part = plan(HOURS, "count:work", epsilon=1.0, length=480, unit="day", part=True).best
    assert part.calibration.scale == pytest.approx(24 / BlockCurve(W, block=24).inverse(1.0))


def test_records_with_holes_between_them_may_lie_in_many_periods():
    planned = plan(HOURS, "count:work", epsilon=1.0, length=10, unit="day", unobserved=True)
    assert not planned.candidate("curve-general").applies
    assert planned.candidate("curve-tight").calibration.scale == pytest.approx(
        10 / BlockCurve(W, block=24).inverse(1.0)
    )


def test_a_unit_that_cannot_be_kept_is_refused(place):
    with pytest.raises(ParameterError, match="leave restart= out"):
        release(
            place,
            model=HOURS,
            column="place",
            order="time",
            query="histogram",
            epsilon=1.0,
            unit="person",
            restart="8h",
        )
    with pytest.raises(NotApplicableError, match="quilt-exact does not apply: is not worked out for a whole day"):
        release(
            place, model=HOURS, column="place", order="time", query="histogram", epsilon=1.0, unit="day",
            mechanism="quilt-exact",
        )  # fmt: skip


def test_gaussian_noise_is_not_worked_out_for_units():
    planned = plan(HOURS, "histogram", epsilon=1.0, length=100, unit="day", delta=1e-6)
    approximate = [m.name for m in MECHANISMS if m.approximate]
    assert all(not planned.candidate(name).applies for name in approximate)
    assert math.isfinite(planned.best.calibration.scale)


def test_a_day_may_lie_in_several_chains(place, tmp_path):
    """From six in the evening to three at night: chains of ten hours, and a day has records of two of them."""
    head, *rows = place.read_text().splitlines()
    nights = tmp_path / "nights.csv"
    nights.write_text("\n".join([head, *(row for row in rows if row[11:13] in "00 01 02 03 18 19 20 21 22 23")]) + "\n")
    series = Series(nights, column="place", order="time", restart="8h")
    needed = 24 / BlockCurve(W, block=24).inverse(1.0)
    planned = plan(HOURS, "count:work", epsilon=1.0, series=series, unit="day")
    assert planned.best.calibration.scale == pytest.approx(needed)
    assert not planned.candidate("group").applies
    assert not planned.candidate("curve-general").applies
    assert (
        planned.best.calibration.scale
        > 2 * plan(HOURS, "count:work", epsilon=1.0, lengths=[10] * 6, unit="day").best.calibration.scale
    )
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("nights", model=HOURS, budget=3.0)
    done = release(
        series, model=HOURS, query="count:work", epsilon=1.0, unit="day", ledger=tmp_path / "books.db", dataset="nights"
    )
    assert done.certificate.noise.scale == pytest.approx(needed)
    assert verify(done.certificate).problems == ()
    with Ledger(tmp_path / "books.db") as ledger:
        assert ledger.verify().valid
