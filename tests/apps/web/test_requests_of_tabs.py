"""Tables, flips, streams, flows and audits over a real connection: what the page is told, and what is charged."""

from __future__ import annotations

import io
from typing import Any

import httpx
import pytest

import pufferdp
from tests.apps.cli.conftest import Run, folder, run  # noqa: F401
from tests.apps.web.conftest import DEMO, Served
from tests.apps.web.test_jobs import follow

pytestmark = pytest.mark.slow
READING = {"column": "activity", "order": "time"}
WEEK: dict[str, Any] = {"model": "wearer", "data": "week", "reading": READING}


def download(served: Served, made: dict[str, Any], name: str) -> httpx.Response:
    """A file that was made."""
    return httpx.get(f"{served.url}api/made/{made['made']['key']}/{name}")


def test_a_table_of_several_questions(served: Served, run: Run) -> None:  # noqa: F811
    asked = {**WEEK, "queries": ["histogram", "mean", "transitions", "median"], "per": ["day"], "epsilon": 2.0}
    asked["split"] = [2, 1, 1, 1]
    planned = served.done("table_plan", **asked)
    assert [query["query"] for query in planned["queries"]] == asked["queries"]
    assert "no data was read" not in planned["page"]["lead"]
    model = pufferdp.load_model(DEMO / "wearer.json")
    ours = pufferdp.plan_table(
        model, asked["queries"], epsilon=2.0, per=["day"], split=[2, 1, 1, 1], length=2016
    ).to_dict()
    assert [query["scale"] for query in planned["queries"]] == [query["scale"] for query in ours["queries"]]
    made = served.done("table", **asked, dataset="ward")
    assert made["certificate"]["ledger"]["dataset"] == "ward"
    assert len(made["kept"]) == 1
    lines = download(served, made, "table.csv").text.splitlines()
    assert len(lines) == 1 + 7
    assert pufferdp.verify(download(served, made, "release.json").json()["certificate"]).valid
    printed = follow(planned["commands"], run)
    assert printed[-1].startswith("valid")
    alone = served.done("table_plan", **{**asked, "queries": ["histogram"], "per": [], "split": None})
    assert "release.json" in alone["commands"]["shell"]  # one question of all records is no table


def test_a_table_per_person_and_of_two_columns(served: Served) -> None:
    rows = [f"{who},{n},{'ab'[n // 3 % 2]},{'xy'[n // 5 % 2]}" for who in ("ann", "bob") for n in range(200)]
    data = served.upload("data", "two.csv", "\n".join(["who,minute,left,right", *rows]).encode())["done"]["key"]
    reading = {"column": "left,right", "order": "minute", "by": "who"}
    model = served.done("fit", data=data, reading=reading)["key"]
    asked = {"model": model, "data": data, "reading": reading, "queries": ["cross"], "epsilon": 1.0}
    assert served.done("table", **asked)["page"]["sections"]
    per = served.done("table", **{**asked, "queries": ["histogram"], "per": ["person"]})
    assert len(download(served, per, "table.csv").text.splitlines()) == 3


def test_a_series_is_flipped_charged_and_estimated(served: Served, run: Run) -> None:  # noqa: F811
    asked = {**WEEK, "epsilon": 2.0}
    planned = served.done("flip_plan", **asked)
    made = served.done("flip", **asked, dataset="ward")
    assert made["certificate"]["channel"]["loss"] == pytest.approx(planned["loss"])
    assert [name.rpartition(".")[2] for name in made["kept"]] == ["csv", "json"]
    text = download(served, made, "flipped-week.csv").text
    assert text.splitlines()[0] == "time,activity" and len(text.splitlines()) == 2017
    found = served.done("estimate", **made["flipped"])
    assert found["records"] == 2016
    series = served.upload("data", "flipped-week.csv", text.encode())["done"]["key"]
    content = download(served, made, "certificate.json").content
    certificate = served.upload("certificate", "certificate.json", content)["done"]["key"]
    again = served.done("estimate", data=series, certificate=certificate)
    assert again["frequencies"] == found["frequencies"]
    wrong = served.upload("certificate", "c.json", b'{"schema": "x"}')
    assert "no certificate of a flipped series" in wrong["error"]
    follow(planned["commands"], run)


def test_a_flow_is_planned_released_and_charged(served: Served, run: Run) -> None:  # noqa: F811
    asked = {**WEEK, "eta": 0.05, "tau": 0.1}
    planned = served.done("flow_plan", **asked)
    assert planned["best"]
    made = served.done("flow", **asked, dataset="ward, how it moves")
    assert made["certificate"]["ledger"]["dataset"] == "ward, how it moves"
    assert pufferdp.verify(made["certificate"]).valid
    assert follow(planned["commands"], run)[-1].startswith("valid")


def test_what_a_stream_leaks_and_may_spend(served: Served, run: Run) -> None:  # noqa: F811
    model = pufferdp.load_model(DEMO / "wearer.json")
    found = served.done("stream", model="wearer", losses=[0.1], length=288)
    assert any("chart" in block for section in found["page"]["sections"] for block in section["blocks"])
    shown = str(pufferdp.stream_leakage(model, 0.1, length=288))
    cells = [cell for s in found["page"]["sections"] for b in s["blocks"] if "table" in b for row in b["table"]["rows"]
             for cell in row]  # fmt: skip
    assert cells and all(cell in shown for cell in cells)
    follow(found["commands"], run)
    budget = served.done("stream", model="wearer", target=1.0)
    follow(budget["commands"], run)
    assert "give either" in served.do("stream", model="wearer")[-1]["error"]


def test_an_audit_attacks_our_mechanisms_and_runs_nobodys_code(served: Served, run: Run) -> None:  # noqa: F811
    asked = {"model": "wearer", "mechanism": "laplace:count:active", "dp_epsilon": 1.0, "length": 20, "seconds": 2}
    found = served.done("audit", **asked)
    assert found["refuted"] is False
    proved = download(served, found, "audit.json").json()
    assert 0 <= proved["lower"] <= proved["upper"]  # two seconds of a busy machine prove little
    follow(found["commands"], run)
    for mechanism in ("python:os:getcwd", "command:id", "laplace"):
        assert "mechanism" in served.do("audit", **{**asked, "mechanism": mechanism})[-1]["error"]


def test_leakage_under_a_model_of_ones_own(served: Served, run: Run) -> None:  # noqa: F811
    found = served.done("leakage", model="wearer", length=50, dp_epsilon=0.1, query="count:active")
    model = pufferdp.load_model(DEMO / "wearer.json")
    ours = pufferdp.leakage_of(model, dp_epsilon=0.1, length=50, query="count:active")
    assert found["exact"] == ours.exact
    follow(found["commands"], run)


def test_times_are_hidden_as_rows_are(served: Served, run: Run) -> None:  # noqa: F811
    times = "2024-01-01 00:00..2024-01-01 00:05"
    named = {"model": "wearer", "data": "week", "column": "activity", "order": "time", "epsilon": 1.0}
    found = served.done("design", **named, private=[times, 500], length=2016)
    assert found["private"][-1] == 500 and found["private"][:2] == [1, 2]
    made = served.done("redact", **named, private=[times, 500])
    assert {*found["private"]} <= set(made["marked"])
    assert "valid" in follow(made["commands"], run)[-1]
    assert "no row has" in served.do("design", **named, private=["1999-01-01"], length=2016)[-1]["error"]
    without = {**named, "order": None}
    assert "no column says when" in served.do("design", **without, private=[times], length=2016)[-1]["error"]


def test_parquet_goes_wherever_csv_goes(served: Served) -> None:
    frame = pytest.importorskip("polars").read_csv(DEMO / "week.csv", try_parse_dates=True)
    content = io.BytesIO()
    frame.write_parquet(content)
    upload = served.upload("data", "week.parquet", content.getvalue())["done"]
    assert upload["columns"] == ["time", "activity"]
    week = {**WEEK, "data": upload["key"], "epsilon": 1.0}
    planned = served.done("plan", **week, query="histogram")
    assert planned["lengths"] == [[2016, 1]]
    made = served.done("release", **week, query="histogram")
    assert pufferdp.verify(made["certificate"]).valid
    assert served.done("values", data=upload["key"], column="activity")["distinct"] == 3
    asked = {"model": "wearer", "data": upload["key"], "column": "activity", "private": [500], "order": "rows"}
    asked["epsilon"] = 1.0
    hidden = served.done("redact", **asked, keep=["time"])
    lines = download(served, hidden, "redacted-week.csv").text.splitlines()
    assert lines[500].endswith(",*") and len(lines) == 2017
    flipped = served.done("flip", **week)
    assert "flipped-week.csv" in flipped["made"]["names"]
    assert served.done("estimate", **flipped["flipped"])["records"] == 2016
    assert "not a complete Parquet file" in served.upload("data", "a.parquet", content.getvalue()[:-20])["error"]
