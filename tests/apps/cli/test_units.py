"""``--unit``, ``--every``, ``--window`` and ``--secret``: numbers of the library, and a sentence for a refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from pufferdp import leakage_of, plan, secret_leakage
from pufferdp.models.chain import MarkovChain
from tests.apps.cli.conftest import CHAIN, Run, write
from tests.apps.cli.test_bad_input import check_sentence

HOURS = {**CHAIN, "step": "1h"}
EVENT = "ever:active:2024-05-03 08:00..2024-05-03 12:00"


@pytest.fixture(autouse=True)
def models(folder: Path) -> None:
    write(folder, {"hours.json": HOURS, "rows.json": CHAIN})


def chain() -> MarkovChain:
    return MarkovChain(transition=CHAIN["transition"], states=CHAIN["states"], step="1h")


def test_a_day_and_a_stream_of_aggregates(run: Run) -> None:
    day = run("leakage", "hours.json", "--dp-epsilon", "1", "--unit", "day", "--json")
    assert (day.code, day.err) == (0, "")
    assert day.json == leakage_of(chain(), dp_epsilon=1, unit="day").to_dict()
    week = run("leakage", "hours.json", "--dp-epsilon", ".1", "--every", "1d", "--window", "7d", "--json")
    assert week.json == leakage_of(chain(), dp_epsilon=0.1, every="1d", window="7d").to_dict()
    assert week.json["aggregates"]["reads"] == 7


@pytest.mark.slow
def test_an_event_is_leaked_and_planned(run: Run) -> None:
    result = run(
        "leakage", "hours.json", "--dp-epsilon", ".1", "--secret", EVENT, "--adversary", "pufferfish", "--json"
    )
    assert (result.code, result.err) == (0, "")
    assert result.json == secret_leakage(chain(), EVENT, dp_epsilon=0.1, adversary="pufferfish").to_dict()
    options = ["--query", "count:active", "--epsilon", "1", "--length", "100", "--adversary", "pufferfish"]
    planned = run("plan", "hours.json", *options, "--secret", EVENT, "--json")
    ours = plan(chain(), "count:active", epsilon=1, length=100, adversary="pufferfish", secret=EVENT)
    assert planned.json == ours.to_dict()


def test_a_plan_for_a_unit(run: Run) -> None:
    result = run(
        "plan", "rows.json", "--query", "histogram", "--epsilon", "1", "--length", "100", "--unit", "5", "--json"
    )
    assert result.json["unit"] == {"name": "5", "records": 5}
    assert result.json["best"] == "curve-tight"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["leakage", "rows.json", "--dp-epsilon", "1", "--every", "1d"], "give every as a number of records"),
        (["leakage", "hours.json", "--dp-epsilon", "1", "--window", "1d"], "it goes with --every"),
        (["leakage", "hours.json", "--stream", ".1", "--unit", "day"], "leave it out"),
        (
            ["leakage", "hours.json", "--dp-epsilon", "1", "--secret", EVENT, "--unit", "day"],
            "does not go with --secret",
        ),
        (["leakage", "hours.json", "--secret", EVENT], "give either --dp-epsilon"),
        (
            ["plan", "hours.json", "--query", "flow", "--eta", ".1", "--tau", ".1", "--unit", "day"],
            "leave --unit out",
        ),
        (
            ["ledger", "create", "books.db", "--dataset", "a", "--budget", "1", "--unit", "day"],
            "--model is missing",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(run: Run, arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.code != 0
    check_sentence(result, (words,))
