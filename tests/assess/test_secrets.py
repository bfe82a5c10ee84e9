"""Segments and events as secrets: read, leaked, planned and put into words."""

from __future__ import annotations

import pytest

from pufferdp.assess.secrets import secret_leakage
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.bounds.units.events import EventCurve, SegmentCurve
from pufferdp.bounds.units.secrets import SegmentSecret
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import BinaryInterval, MarkovClass
from pufferdp.publish.answers.plan import plan

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
W = [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]
HOURS = MarkovChain(transition=W, states=["home", "work", "hospital"], step="1h")
PAIR = MarkovChain(transition=ACTIVITY, states=["rest", "active"])


def test_the_check_values_by_record_numbers():
    report = secret_leakage(PAIR, "ever:active:2..4", dp_epsilon=1.0, length=5, adversary="pufferfish")
    assert report.speaks_for == pytest.approx(3.279499, abs=1e-6)
    assert report.speaks_against == pytest.approx(2.065484, abs=1e-6)
    assert report.exact
    assert "Some DP algorithm leaks as much" in str(report)
    assert report.to_dict()["secret"]["records"] == 3


def test_a_date_is_a_day_of_the_series_wherever_it_is():
    report = secret_leakage(HOURS, "ever:hospital:2024-05-03", dp_epsilon=0.1, adversary="pufferfish")
    curve = EventCurve(W, state=2, records=24, adversary="pufferfish")
    assert report.leakage == pytest.approx(curve(0.1))
    assert report.probability == pytest.approx(curve.probability)
    inside = secret_leakage(HOURS, "ever:hospital:2024-05-03", dp_epsilon=0.1, adversary="pufferfish", length=672)
    assert inside.leakage == pytest.approx(report.leakage, rel=1e-6)
    assert "exact for two states" in str(report)


@pytest.mark.slow
def test_what_may_be_spent_is_safe_and_near():
    asked = "ever:hospital:2024-05-03 08:00..2024-05-03 12:00"
    report = secret_leakage(HOURS, asked, target=1.0, adversary="pufferfish")
    curve = EventCurve(W, state=2, records=5, adversary="pufferfish")
    assert curve(report.dp_epsilon) <= 1.0 < curve(report.dp_epsilon * 1.001)
    assert "it leaks no more than" in str(report)


def test_whoever_knows_records_is_bounded_by_the_whole_segment():
    event = secret_leakage(HOURS, "ever:hospital:2024-05-03", dp_epsilon=0.1)
    whole = secret_leakage(HOURS, "all:2024-05-03", dp_epsilon=0.1)
    assert event.leakage == pytest.approx(whole.leakage)
    assert (event.exact, whole.exact) == (False, True)
    assert "For the adversary pufferfish it is computed for the event itself" in " ".join(str(event).split())
    assert whole.leakage == pytest.approx(SegmentCurve(W, records=24)(0.1))


@pytest.mark.parametrize(
    ("text", "records", "words"),
    [
        ("ever:hospital:2024-05-03", 24, "whether it was hospital at some time on 2024-05-03"),
        (
            "ever:hospital:2024-05-03..2024-05-04",
            48,
            "whether it was hospital at some time from 2024-05-03 to 2024-05-04",
        ),
        ("ever:work:2024-05-03 08:00..2024-05-03 10:00", 3, "from 2024-05-03 08:00 to 2024-05-03 10:00"),
        ("ever:work:2024-05-03 08:00", 1, "whether it was work at 2024-05-03 08:00"),
        ("all:3..5", 3, "what the records from 3 to 5 hold together"),
        ("all:2024-05-03", 24, "what the records on 2024-05-03 hold together"),
    ],
)
def test_secrets_are_read(text, records, words):
    secret = SegmentSecret.parse(text, HOURS, None)
    assert secret.records == records
    assert words in secret.words


@pytest.mark.parametrize(
    ("text", "model", "words"),
    [
        ("ever:moon:3", HOURS, "one of home, work, hospital"),
        ("never:home:3", HOURS, "write ever:STATE:FROM..TO or all:FROM..TO"),
        ("all:", HOURS, "write ever:STATE"),
        ("ever:home:yesterday", HOURS, "write ever:STATE"),
        ("ever:home:5..3", HOURS, "counted from 1, and the first must not come after the last"),
        ("ever:home:0..3", HOURS, "counted from 1"),
        ("ever:home:2024-05-04..2024-05-02", HOURS, "comes after its last"),
        ("ever:home:2024-05-04T00:00+00:00..2024-05-05", HOURS, "both times with a zone"),
        ("ever:active:2024-05-04", PAIR, "add its step"),
        ("ever:home:3..30", HOURS, "take a shorter interval"),
    ],
)
def test_secrets_that_cannot_be_read_are_refused(text, model, words):
    with pytest.raises(ParameterError, match=words):
        SegmentSecret.parse(text, model, 20)


@pytest.mark.slow
def test_plans_hide_an_event_with_the_noise_that_its_curve_asks_for():
    planned = plan(
        HOURS, "count:hospital", epsilon=1.0, length=60, secret="ever:hospital:2024-05-03 08:00..2024-05-03 12:00",
        adversary="pufferfish",
    )  # fmt: skip
    loss = EventCurve(W, state=2, records=5, before=55, after=55, adversary="pufferfish").inverse(1.0)
    assert planned.best.mechanism == "curve-tight"
    assert planned.best.calibration.scale == pytest.approx(1 / loss, rel=1e-5)
    assert {c.mechanism for c in planned.candidates if c.applies} == {"curve-tight", "group"}
    assert "about whether it was hospital at some time from 2024-05-03 08:00" in str(planned).replace("\n", " ")
    assert planned.to_dict()["secret"]["state"] == "hospital"


def test_classes_that_can_be_listed_are_as_bad_as_their_worst_chain():
    both = MarkovClass(models=[PAIR, MarkovChain(transition=[[0.6, 0.4], [0.3, 0.7]], states=["rest", "active"])])
    worst = secret_leakage(both, "ever:active:2..4", dp_epsilon=0.5, length=5, adversary="pufferfish").leakage
    alone = secret_leakage(PAIR, "ever:active:2..4", dp_epsilon=0.5, length=5, adversary="pufferfish").leakage
    assert worst >= alone


def test_what_is_not_worked_out_says_so():
    with pytest.raises(NotApplicableError, match="chains that can be listed"):
        secret_leakage(BinaryInterval(low=0.2, high=0.8), "all:2..4", dp_epsilon=0.5, length=5)
    start = MarkovChain(transition=ACTIVITY, start=[1.0, 0.0])
    with pytest.raises(NotApplicableError, match="stationary distribution"):
        secret_leakage(start, "all:2..4", dp_epsilon=0.5, length=5)
    with pytest.raises(ParameterError, match="name one of them"):
        plan(HOURS, "histogram", epsilon=1.0, length=48, unit="day", secret="all:2..4")
    with pytest.raises(ParameterError, match="give either dp_epsilon="):
        secret_leakage(PAIR, "all:2..4", length=5)
