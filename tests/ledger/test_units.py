"""Budgets about whole periods: losses of records count as often as a period has records."""

from __future__ import annotations

import pytest

from pufferdp.basics.errors import BudgetError, ParameterError, RefusedError
from pufferdp.bounds.units.blocks import BlockCurve
from pufferdp.ledger.charge import Charge, redaction
from pufferdp.ledger.flow_budget import FlowBudget
from pufferdp.ledger.history import history
from pufferdp.ledger.ledger import Ledger
from pufferdp.models.chain import MarkovChain
from pufferdp.models.files.json import model_digest
from pufferdp.models.hidden import HiddenMarkov
from pufferdp.publish.noise import SeededSampler
from pufferdp.publish.release import release
from pufferdp.publish.verify import verify
from tests.tolerance import safe_loss

W = [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]
HOURS = MarkovChain(transition=W, states=["home", "work", "hospital"], step="1h")


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "books.db", create=True) as made:
        yield made


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "hours.csv"
    rows = [f"2024-05-{1 + h // 24:02d} {h % 24:02d}:00,{HOURS.labels[h * h % 3]}" for h in range(24 * 7)]
    path.write_text("time,place\n" + "\n".join(rows) + "\n")
    return path


def test_losses_of_records_count_for_all_records_of_a_day(ledger):
    made = ledger.create("days", model=HOURS, budget=2.0, unit="day")
    assert made.to_dict()["period"] == {"name": "day", "records": 24}
    for n in (1, 2):
        ledger.charge("days", Charge(kind="dp", dp_loss=0.01, longest=168))
        assert ledger.dataset("days").leakage == pytest.approx(BlockCurve(W, block=24)(24 * 0.01 * n), rel=1e-6)
    shown = ledger.dataset("days")
    assert "about a whole day" in str(shown)
    assert "24 times for the records of one day" in str(shown).replace("\n", " ")
    assert [round(row["leakage"], 6) for row in history(ledger, "days")][-1] == pytest.approx(shown.leakage, abs=1e-6)
    assert ledger.verify().problems == ()


@pytest.mark.slow
def test_a_release_for_a_day_spends_the_budget_of_days_once_and_no_more(ledger, place):
    ledger.create("days", model=HOURS, budget=1.0, unit="day")

    def one():
        return release(
            place, model=HOURS, column="place", order="time", query="histogram", epsilon=1.0, unit="day",
            mechanism="curve-tight", sampler=SeededSampler(1), ledger=ledger, dataset="days",
        )  # fmt: skip

    made = one()
    assert verify(made.certificate).valid
    assert ledger.dataset("days").leakage == safe_loss(1.0)
    assert ledger.verify().problems == ()
    with pytest.raises(BudgetError):
        one()


def test_a_guarantee_about_single_records_is_none_about_a_day(ledger, place):
    ledger.create("days", model=HOURS, budget=1.0, unit="day")
    with pytest.raises(BudgetError):
        release(
            place, model=HOURS, column="place", order="time", query="histogram", epsilon=1.0,
            sampler=SeededSampler(1), ledger=ledger, dataset="days",
        )  # fmt: skip


def test_a_release_for_a_day_is_charged_to_a_budget_of_records_by_its_loss(ledger, place):
    ledger.create("hours", model=HOURS, budget=1.0)
    release(
        place, model=HOURS, column="place", order="time", query="histogram", epsilon=1.0, unit="day",
        mechanism="curve-tight", sampler=SeededSampler(1), ledger=ledger, dataset="hours",
    )  # fmt: skip
    spent = ledger.dataset("hours").spent_dp
    assert spent == pytest.approx(BlockCurve(W, block=24, length=168).inverse(1.0) / 24, rel=1e-6)
    assert ledger.verify().problems == ()


def test_another_number_of_records_in_a_day_is_found_out(ledger):
    ledger.create("days", model=HOURS, budget=2.0, unit="day")
    ledger.charge("days", Charge(kind="dp", dp_loss=0.01, longest=168))
    with ledger.store.writing() as session:
        session.run("UPDATE ledger_datasets SET definition = replace(definition, '24', '12')")
    assert ledger.verify().problems


def test_what_is_not_worked_out_for_days_is_refused(ledger):
    with pytest.raises(ParameterError, match="is pure"):
        ledger.create("a", model=HOURS, budget=1.0, delta=1e-6, unit="day")
    with pytest.raises(ParameterError, match="in epsilon"):
        ledger.create("a", model=HOURS, budget=FlowBudget(tau=0.1, eta=0.1), unit="day")
    hidden = HiddenMarkov(transition=[[0.0, 1.0], [1.0, 0.0]], emission=[[0.8, 0.2], [0.3, 0.7]], step="1h")
    with pytest.raises(ParameterError, match="not worked out for this model"):
        ledger.create("a", model=hidden, budget=1.0, unit="day")
    ledger.create("days", model=HOURS, budget=1.0, unit="day")
    charge = redaction(
        window=True, leakage=0.1, private="record 3", longest=5, model=model_digest(HOURS), adversary="bdp"
    )
    with pytest.raises(RefusedError, match="whole periods"):
        ledger.charge("days", charge)
