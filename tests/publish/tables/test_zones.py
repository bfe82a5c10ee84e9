"""Every grouping by time says whose hours, days and weeks it has."""

from __future__ import annotations

import polars as pl
import pytest

from pufferdp import Ledger, MarkovChain, leakage_of, plan, plan_table, release, verify

CHAIN = MarkovChain(transition=[[0.6, 0.4], [0.4, 0.6]], states=("a", "b"), step="1h")
ZONED = "Days are UTC days."
WRITTEN = "Days as written in 'time' (no time zone)."


def hours(zone: str) -> pl.DataFrame:
    times = [f"2024-01-{1 + n // 24:02d} {n % 24:02d}:00:00{zone}" for n in range(72)]
    return pl.DataFrame({"time": times, "x": ["a", "b", "b"] * 24})


@pytest.mark.parametrize(("zone", "words"), [("+01:00", ZONED), ("Z", ZONED), ("", WRITTEN)])
@pytest.mark.parametrize("period", ["hour", "day", "week"])
def test_a_table_says_whose_periods_it_has(zone: str, words: str, period: str) -> None:
    made = release(hours(zone), column="x", order="time", model=CHAIN, per=period, query=["histogram"], epsilon=1)
    words = words.replace("Day", period.capitalize()).replace("day", period)
    assert words in made.certificate.guarantee.statement
    assert words in " ".join(str(made).split())
    content = made.to_dict()["certificate"]
    assert verify(content).valid
    content["guarantee"]["statement"] = content["guarantee"]["statement"].replace(f" {words}", "")
    assert not verify(content).valid


def test_a_plan_of_a_table_says_which_it_will_be() -> None:
    made = plan_table(CHAIN, "histogram", per="day", length=72, epsilon=1)
    words = "Days are UTC days where the times have a zone, and as written otherwise."
    assert made.to_dict()["zone"] == words
    assert words in " ".join(str(made).split())
    assert "zone" not in plan_table(CHAIN, "histogram", length=72, epsilon=1).to_dict()


def test_a_unit_may_begin_at_any_time() -> None:
    words = "A day is any 24 hours in a row, whatever the time zone; a day in which clocks go back is longer."
    made = plan(CHAIN, "histogram", length=72, epsilon=1, unit="day")
    assert made.to_dict()["zone"] == words
    assert words in " ".join(str(made).split())
    done = release(hours("Z"), column="x", order="time", model=CHAIN, query="histogram", epsilon=1, unit="day")
    assert words in done.certificate.guarantee.statement
    assert words in " ".join(str(done).split())
    assert words in " ".join(str(leakage_of(CHAIN, dp_epsilon=0.1, unit="day")).split())
    counted = release(hours("Z"), column="x", order="time", model=CHAIN, query="histogram", epsilon=1, unit=24)
    assert "time zone" not in counted.certificate.guarantee.statement
    hour = plan(CHAIN, "histogram", length=72, epsilon=1, unit="hour").to_dict()["zone"]
    assert hour == "An hour is any 60 minutes in a row, whatever the time zone."


@pytest.mark.parametrize(("zone", "words"), [("+01:00", ZONED), ("", WRITTEN)])
def test_a_ledger_says_whose_days_it_shows(tmp_path, zone: str, words: str) -> None:
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("d", model=CHAIN, budget=2)
        release(
            hours(zone), column="x", order="time", model=CHAIN, query="histogram", epsilon=1, ledger=ledger, dataset="d"
        )
        assert words in " ".join(str(ledger.dataset("d")).split())
