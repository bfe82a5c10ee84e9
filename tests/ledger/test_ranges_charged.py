"""Budgets that count record by record: days, people, deltas, old ledgers, and what `ledger show` says of them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from pufferdp.basics.checks import MOST_RECORDS
from pufferdp.basics.errors import BudgetError, ParameterError, RefusedError
from pufferdp.data.ranges import Range, Ranges
from pufferdp.ledger.charge import Charge
from pufferdp.ledger.flow_budget import FlowBudget
from pufferdp.ledger.history import export_ledger, history, import_ledger, read_export
from pufferdp.ledger.ledger import Ledger
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.release import release
from pufferdp.publish.verify import verify
from pufferdp.report.pages.ledger import budget_calendar
from tests.tolerance import SEARCHED, both_upper_ends, safe_loss

W = MarkovChain(transition=[[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])
DAY = 86_400 * 10**9
GOLDEN = Path(__file__).parents[1] / "golden"


def day(number: int, people: tuple[str, ...] | None = None, count: int = 1) -> Ranges:
    part = Range(first=number * DAY, last=(number + count) * DAY - 1, people=people)
    return Ranges(order="time", unit="time", by=None if people is None else "who", parts=(part,))


def charge(loss: float, ranges: Ranges, delta: float = 0.0) -> Charge:
    return Charge(kind="dp", dp_loss=loss, dp_delta=delta, longest=288, ranges=ranges)


@pytest.fixture
def ledger(place: str):
    with Ledger(place, create=True) as made:
        made.create("week", model=W, budget=1.0)
        yield made


def test_a_year_of_days_fits_the_budget_of_one(ledger: Ledger) -> None:
    ledger.charge("week", Charge(kind="dp", dp_loss=0.1, longest=MOST_RECORDS, ranges=day(0)))
    loss = ledger.dataset("week").left_dp or 0.0
    ledger.charge("week", charge(loss, day(0)))
    ledger.charge_many([("week", charge(0.1 + loss, day(n))) for n in range(1, 365)])
    shown = ledger.dataset("week")
    assert shown.releases == 366
    assert shown.leakage is not None
    assert 1 - SEARCHED < shown.leakage <= 1
    assert shown.curve == "tight"
    assert shown.calendar is not None
    assert shown.calendar.count <= 2  # days side by side with the same sum are one segment
    # One more, on any day: refused with the day and what is left there. On another day it fits.
    with pytest.raises(BudgetError, match=r"on 1970-04-11, .* is left there") as refusal:
        ledger.charge("week", charge(0.05, day(100)))
    assert "in DP loss nothing is left" in str(refusal.value)
    with pytest.raises(BudgetError, match="is left there"):
        ledger.charge("week", charge(0.05, day(364, count=3)))
    with pytest.raises(BudgetError):
        ledger.charge("week", charge(0.05, Ranges()))
    ledger.charge("week", charge(0.1 + loss, day(365)))
    assert ledger.verify().valid


@pytest.mark.slow
def test_daily_histograms_of_one_series(tmp_path: Path) -> None:
    path, rows = tmp_path / "series.csv", ["time,state"]
    for n in range(4 * 24):
        rows.append(f"2024-05-{1 + n // 24:02d}T{n % 24:02d}:00:00,{W.labels[(n * n) % 3]}")
    path.write_text("\n".join(rows), encoding="utf-8")
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", model=W, budget=1.0)

        def publish(date: str) -> dict[str, object]:
            made = release(
                path,
                model=W,
                column="state",
                order="time",
                query="histogram",
                epsilon=1,
                first=date,
                last=date,
                ledger=ledger,
                dataset="week",
            )
            return made.certificate.to_dict()

        certificates = [publish(f"2024-05-0{n}") for n in range(1, 5)]
        assert all(verify(c).valid for c in certificates)
        with pytest.raises(BudgetError, match="from 2024-05-02 to 2024-05-02T23:00:00"):
            publish("2024-05-02")
        shown = ledger.dataset("week")
        assert shown.releases == 4
        assert shown.leakage == safe_loss(1.0)
        check = ledger.verify()
        assert check.valid
        assert check.recomputed == 1  # the same problem every day
        assert history(ledger, "week")[-1]["leakage"] == both_upper_ends(shown.leakage)


def test_people_have_budgets_of_their_own(ledger: Ledger) -> None:
    crowd = tuple(sorted(f"person {n}" for n in range(60)))  # too many to list: kept by their digest
    ledger.charge("week", charge(0.2, day(0, crowd)))
    ledger.charge("week", charge(0.1, day(0, ("person 7", "zoe"))))
    ledger.charge("week", charge(0.2, day(0, ("zoe",))))
    shown = ledger.dataset("week")
    assert shown.spent_dp == pytest.approx(0.3)
    assert shown.calendar is not None
    (segment,) = shown.calendar.segments
    assert (segment.by, segment.people) in ((("person7", "zoe"), 2), (("person7",), 1), (("zoe",), 1))
    with pytest.raises(BudgetError):
        ledger.charge("week", charge(0.1, day(0, ("zoe",))))
    ledger.charge("week", charge(0.1, day(0, ("person 8",))))
    asked = ledger.ranges("week", first="1970-01-01", last="1970-01-01", people=["person 9"])
    assert ledger.dataset("week", asked).to_dict()["asked"]["dp_loss"] == 0.2
    assert ledger.verify().valid


def test_losses_on_everything_and_on_segments_add_up(ledger: Ledger) -> None:
    ledger.charge("week", charge(0.1, day(3)))
    ledger.charge("week", Charge(kind="dp", dp_loss=0.05, longest=10))
    ledger.charge("week", charge(0.1, day(4)))
    shown = ledger.dataset("week").to_dict()
    assert shown["spent_dp"] == pytest.approx(0.15)
    assert shown["everywhere"] == 0.05
    assert shown["longest"] == MOST_RECORDS
    assert [r["dp_loss"] for r in shown["ranges"]] == [pytest.approx(0.15)]
    assert shown["ranges"][0]["from"] == "1970-01-04T00:00:00"
    assert shown["ranges"][0]["to"] == "1970-01-05T23:59:59.999999999"


def test_one_segment_keeps_the_length_that_it_was_charged_with(ledger: Ledger) -> None:
    ledger.charge("week", charge(0.1, day(3)))
    ledger.charge("week", charge(0.1, day(3)))
    assert ledger.dataset("week").longest == 288
    ledger.charge("week", charge(0.1, day(4)))
    assert ledger.dataset("week").longest == MOST_RECORDS


def test_records_are_known_by_the_same_columns_in_every_charge(ledger: Ledger) -> None:
    ledger.charge("week", charge(0.1, day(3, ("ann",))))
    other = Ranges(order="row", parts=(Range(first=1, last=2),))
    with pytest.raises(RefusedError, match="order is 'row', and data set 'week' knows its records by 'time'"):
        ledger.charge("week", charge(0.1, other))
    zone = Ranges(order="time", unit="utc", parts=(Range(first=1, last=2),))
    with pytest.raises(RefusedError, match="holds times in universal time"):
        ledger.charge("week", charge(0.1, zone))
    wearer = Ranges(by="wearer", parts=(Range(people=("ann",)),))
    with pytest.raises(RefusedError, match="by is 'wearer'"):
        ledger.charge("week", charge(0.1, wearer))
    assert ledger.dataset("week").releases == 1


def test_spellings_of_a_person_share_one_budget(ledger: Ledger) -> None:
    pairs = (
        ("1", "1.0"),
        ("-3.0", "-3"),
        ("Ann", "ann"),
        ("Ann Lee", " ann\u00a0lee "),
        ("José", "JOSE\u0301"),
        ("an\u200bn", "ann"),
        ("Straße", "STRASSE"),
        ("１２", "12"),
        ("\ufeffann", "ann"),
    )
    for n, (one, other) in enumerate(pairs):  # on a day of their own
        for names in ((one,), (other, "x"), {one, other}):  # the last: read once, under two names
            ledger.charge("week", charge(0.1, day(n, tuple(sorted(names)))))
        for name in (one, other):
            assert ledger.dataset("week", day(n, (name,))).to_dict()["asked"]["dp_loss"] == pytest.approx(0.3), name
    assert ledger.verify().valid


def test_other_people_have_budgets_of_their_own(ledger: Ledger) -> None:
    for n, pair in enumerate((("1", "1.5"), ("ann", "anna"), ("1", "01"), ("x.0", "x"))):
        for person in pair:
            ledger.charge("week", charge(0.1, day(n, (person,))))
    assert ledger.dataset("week").spent_dp == 0.1


@pytest.mark.slow
def test_certificates_say_what_the_total_believes(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("t,x\n" + "".join(f"{t},{t % 3}\n" for t in range(9)), encoding="utf-8")
    with Ledger(tmp_path / "books.db", create=True) as books:
        books.create("week", model=W, budget=9.0)
        known = {"model": W, "column": "x", "query": "histogram", "epsilon": 1, "ledger": books, "dataset": "week"}
        raw = release(rows, order="t", last=5, **known).certificate.to_dict()
        everything = release(rows, **known).certificate.to_dict()
        words = str(books.dataset("week"))
    assert raw["ledger"]["assumptions"] == [
        "a record has the same 't' in everything that is charged to data set 'week'"
    ]
    assert "A record is known by 't'" in words
    assert "assumptions" not in everything["ledger"]
    assert verify(raw).valid
    for assumptions in ([], ["records come and go"]):
        changed = {**raw, "ledger": {**raw["ledger"], "assumptions": assumptions}}
        problems = verify({**changed, "sha256": content_hash(changed)}).problems
        assert any("ledger.assumptions" in problem for problem in problems)


def test_a_budget_with_a_delta_takes_pure_and_approximate_releases(ledger: Ledger) -> None:
    ledger.create("both", model=W, budget=1.0, delta=1e-6)
    with pytest.raises(RefusedError, match="keeps a pure budget"):
        ledger.charge("week", charge(0.1, day(0), delta=1e-9))
    for n in range(5):
        ledger.charge("both", charge(0.1, day(n), delta=1e-8))
        ledger.charge("both", charge(0.2, day(n)))
    shown = ledger.dataset("both").to_dict()
    assert (shown["spent_dp"], shown["spent_delta"]) == (pytest.approx(0.3), 1e-8)
    assert 0 < shown["delta"] <= 1e-6
    assert shown["left_delta"] > 1e-7
    with pytest.raises(BudgetError, match=r"leaves .* in DP; this release needs 5e-07"):
        ledger.charge("both", charge(0.001, day(2), delta=5e-7))
    assert ledger.verify().valid
    with pytest.raises(ParameterError, match="has no delta"):
        ledger.create("flows", model=W, budget=FlowBudget(tau=0.1, eta=0.01), delta=1e-6)


@pytest.mark.slow
def test_gaussian_noise_every_day(tmp_path: Path) -> None:
    path = tmp_path / "series.csv"
    rows = [f"{n},{W.labels[(n * n) % 3]}" for n in range(60)]
    path.write_text("\n".join(["n,state", *rows]), encoding="utf-8")
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", model=W, budget=1.0, delta=1e-6)
        options = {"model": W, "column": "state", "order": "n", "query": "histogram", "epsilon": 1, "delta": 1e-6}
        options |= {"mechanism": "gaussian-tight", "ledger": ledger, "dataset": "week"}
        for n in range(3):
            made = release(path, **options, first=20 * n, last=20 * n + 19)
            assert verify(made.certificate.to_dict()).valid
        shown = ledger.dataset("week")
        assert (shown.releases, shown.spent_delta > 0) == (3, True)
        assert ledger.verify().valid


def test_changed_sums_are_found(tmp_path: Path) -> None:
    place = tmp_path / "books.db"
    with Ledger(place, create=True) as ledger:
        ledger.create("week", model=W, budget=1.0)
        ledger.charge("week", charge(0.2, day(0, ("ann", "bob"))))
        ledger.charge("week", charge(0.1, day(1, ("ann",))))
    for statement in (
        "UPDATE ledger_sums SET value = value / 2 WHERE value > 0",
        "DELETE FROM ledger_sums WHERE crowd = -1",
        "UPDATE ledger_members SET crowd = 1 WHERE person = 'ann'",
        "INSERT INTO ledger_members VALUES ('week', 'zoe', 1)",
        "INSERT INTO ledger_sums VALUES ('weak', 'loss', 0, x'20', 1.0)",
    ):
        copy = tmp_path / "copy.db"
        shutil.copy(place, copy)
        with sqlite3.connect(copy) as connection:
            connection.execute(statement)
        connection.close()
        with Ledger(copy) as ledger:
            assert not ledger.verify().valid, statement


def test_an_export_brings_the_sums_back(ledger: Ledger, tmp_path: Path) -> None:
    crowd = tuple(sorted(f"person {n}" for n in range(60)))
    ledger.charge("week", charge(0.2, day(0, crowd)))
    ledger.charge("week", charge(0.1, day(0, crowd[:3])))
    export_ledger(ledger, tmp_path / "export.json")
    with Ledger(tmp_path / "again.db", create=True) as again:
        import_ledger(again, read_export(tmp_path / "export.json"))
        ours, theirs = (books.dataset("week").to_dict() for books in (ledger, again))
        left, more = ours.pop("left_dp"), theirs.pop("left_dp")
        assert left == pytest.approx(more, abs=SEARCHED * 0.31)  # an inverse, found on another way
        assert ours.pop("leakage") == both_upper_ends(theirs.pop("leakage"))
        assert ours.pop("left") == pytest.approx(theirs.pop("left"), abs=SEARCHED)
        assert ours == theirs
        assert again.verify().valid
        again.charge("week", charge(0.005, day(0, crowd[:1])))
        assert again.verify().valid


def test_what_is_left_is_what_fits(ledger: Ledger) -> None:
    ledger.charge("week", charge(0.1, day(0)))
    for ranges in (day(0), day(1), Ranges()):
        remaining = ledger.remaining("week", ranges, 288)
        assert ledger.would_refuse("week", charge(remaining.dp_loss * (1 - 1e-12), ranges)) is None
        refusal = ledger.would_refuse("week", charge(remaining.dp_loss + SEARCHED * 0.31, ranges))
        assert isinstance(refusal, BudgetError)
    assert ledger.dataset("week").releases == 1
    assert ledger.remaining("week", day(9), 288).epsilon == 1.0


def test_the_calendar_is_drawn(ledger: Ledger) -> None:
    ledger.charge_many([("week", charge(0.0001 * (n % 7 + 1), day(2 * n))) for n in range(450)])
    chart = budget_calendar(ledger.dataset("week"))
    assert "largest sum of any record is 7.000e-04" in chart.alt
    assert len(json.dumps(chart.to_vega_lite())) < 400_000
    calendar = ledger.dataset("week").calendar
    assert calendar is not None
    assert max(loss for _, _, loss in calendar.steps()) == 0.0007
    assert len(calendar.steps()) <= 400
