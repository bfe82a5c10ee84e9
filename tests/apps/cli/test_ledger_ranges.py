"""``pufferdp ledger`` on segments and people: charged by hand, shown, planned against, refused with what is left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.apps.cli.conftest import CHAIN, Run, write

BOOKS = ["--ledger", "books.db", "--dataset", "week"]
CHARGE = ["ledger", "charge", "books.db", "--dataset", "week", "--note", "by hand"]
SHOW = ["ledger", "show", "books.db", "--dataset", "week"]


@pytest.fixture
def books(run: Run, folder: Path) -> Path:
    write(folder, {"m.json": CHAIN})
    made = run("ledger", "create", "books.db", "--dataset", "week", "--model", "m.json", "--budget", 1)
    assert made.code == 0
    first = run(*CHARGE, "--dp-epsilon", ".2", "--order", "time", "--from", "2024-05-01", "--to", "2024-05-02")
    assert first.code == 0
    return folder


def test_what_is_left_for_a_segment(run: Run, books: Path) -> None:
    assert run(*CHARGE, "--dp-epsilon", ".04", "--from", "2024-05-02", "--to", "2024-05-03").code == 0
    shown = json.loads(run(*SHOW, "--json", "--from", "2024-05-03", "--to", "2024-05-03").out)
    assert shown["spent_dp"] == pytest.approx(0.24)
    assert {"leakage", "budget", "left", "ranges"} <= shown.keys()
    assert [(r["from"], r["to"], r["by"], r["dp_loss"]) for r in shown["ranges"]] == [
        ("2024-05-01T00:00:00", "2024-05-01T23:59:59.999999999", None, 0.2),
        ("2024-05-02T00:00:00", "2024-05-02T23:59:59.999999999", None, pytest.approx(0.24)),
        ("2024-05-03T00:00:00", "2024-05-03T23:59:59.999999999", None, 0.04),
    ]
    assert shown["asked"]["dp_loss"] == 0.04
    assert shown["asked"]["left_dp"] == pytest.approx(shown["left_dp"] + 0.2)
    text = run(*SHOW, "--from", "2024-05-03", "--to", "2024-05-03").out
    assert "Records on 2024-05-03 were charged at most 0.04" in text
    assert "A record is known by 'time'" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_day_that_was_published_is_refused_with_what_is_left(run: Run, books: Path) -> None:
    refused = run(*CHARGE, "--dp-epsilon", ".2", "--from", "2024-05-02", "--to", "2024-05-04")
    assert refused.code == 3
    assert "from 2024-05-02 to 2024-05-02" in refused.err or "on 2024-05-02" in refused.err
    assert "is left there" in refused.err
    assert run(*CHARGE, "--dp-epsilon", ".2", "--from", "2024-05-03", "--to", "2024-05-04").code == 0


def test_plans_against_what_is_left(run: Run, books: Path) -> None:
    plan = ["plan", "m.json", "--query", "histogram", "--length", 50, *BOOKS, "--json"]
    taken = json.loads(run(*plan, "--from", "2024-05-01", "--to", "2024-05-01").out)
    free = json.loads(run(*plan, "--from", "2024-06-01", "--to", "2024-06-01").out)
    assert free["epsilon"] == 1
    assert taken["epsilon"] < 0.5
    assert "curve-tight" in taken["ledger"]["fits"]
    asked = json.loads(run(*plan, "--epsilon", 1, "--from", "2024-05-01", "--to", "2024-05-01").out)
    assert "curve-tight" in asked["ledger"]["refused"]
    said = run(*plan[:-1], "--epsilon", 1, "--from", "2024-05-01", "--to", "2024-05-01").out
    assert "quilt-exact fits the remaining budget; curve-tight does not." in said.partition("\n\n")[0]
    assert json.loads(run(*SHOW, "--json").out)["releases"] == 1


def test_left_is_not_an_epsilon(run: Run, books: Path) -> None:
    (books / "f.csv").write_text("time,activity\n2024-06-01,active\n", encoding="utf-8")
    release = ["release", "f.csv", "--model", "m.json", "--column", "activity", "--query", "histogram"]
    release += ["--order", "time"]
    refused = run(*release, "--epsilon", "left", *BOOKS, "--from", "2024-06-01")
    assert refused.code == 2
    assert "--epsilon 1 --mechanism curve-tight fits" in refused.err
    assert run(*release, "--epsilon", "left").code == 2


def test_the_calendar_is_a_figure(run: Run, books: Path) -> None:
    assert run(*SHOW, "--figure", "calendar.svg").code == 0
    assert "days since 2024-05-01" in (books / "calendar.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([*CHARGE, "--dp-epsilon", ".1", "--from", "5"], "'5' is not a date or a time"),
        ([*CHARGE, "--dp-epsilon", ".1", "--order", "row", "--from", "2024-05-09"], "order is 'row'"),
        ([*CHARGE, "--dp-epsilon", ".1", "--by-people", "ann"], "name the column with --by"),
        ([*CHARGE, "--dp-epsilon", ".1", "--by", "who", "--by-people", "ann,,bob"], "by-people is 'ann,,bob'"),
        ([*SHOW, "--from", "soon"], "'soon' is not a date or a time"),
        (["plan", "m.json", "--query", "histogram", "--length", "5", "--ledger", "books.db"], "--dataset"),
    ],
)
def test_refusals(run: Run, books: Path, args: list[str], words: str) -> None:
    refused = run(*args)
    assert refused.code in (2, 3)
    assert words in refused.err
    assert json.loads(run(*SHOW, "--json").out)["releases"] == 1


def test_a_charge_with_a_name_is_made_once(books: Path, run: Run) -> None:
    named = [*CHARGE, "--dp-epsilon", ".01", "--identity", "nightly-7", "--json"]
    first, again = run(*named), run(*named)
    assert (first.code, again.code) == (0, 0)
    assert first.json["charged"] == again.json["charged"]
    assert run(*SHOW, "--json").json["releases"] == 2
    other = run(*CHARGE, "--dp-epsilon", ".02", "--identity", "nightly-7")
    assert other.code == 3
    assert "nightly-7" in other.err
