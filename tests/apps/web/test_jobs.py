"""What the page is told, over a real connection: wrong uploads, cancelled work, and commands that do the same."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from contextlib import aclosing
from pathlib import Path

import httpx
import pytest

import pufferdp
from pufferdp.apps.web import workers
from pufferdp.apps.web.workers import Worker
from pufferdp.report.pages.answers import plan_guarantee, plan_verdict
from tests.apps.cli.conftest import Run, folder, run  # noqa: F401
from tests.apps.web.conftest import DEMO, Served

READING = {"column": "activity", "order": "time"}
WEEK = {"model": "wearer", "data": "week", "reading": READING, "query": "histogram", "epsilon": 1.0}


@pytest.mark.parametrize("module", ["numpy", "pufferdp"])
def test_workers_run_no_module_of_the_current_folder(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{module}.py").write_text("open('ran', 'w').close()\n")
    monkeypatch.chdir(tmp_path)

    async def start() -> None:
        worker = Worker()
        try:
            await asyncio.wait_for(worker.ready(), 30)
        finally:
            await worker.close()

    asyncio.run(start())
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"", "empty"),
        ("a.csv", b"   \n", "empty"),
        ("a.csv", "a\nmäßig\n".encode("latin-1"), "UTF-8"),
        ("a.csv.gz", b"\x1f\x8b", "must end in"),
    ],
)  # fmt: skip
def test_data_that_is_wrong_is_refused_in_words(served: Served, name: str, content: bytes, words: str) -> None:
    said = served.upload("data", name, content)
    if "done" in said:  # the header is fine; the rest is not
        said = served.do("values", data=said["done"]["key"], column=said["done"]["columns"][0])[-1]
    assert words in said["error"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[" * 100_000, "not JSON"),
        (b'{"type": "bayesian_network", "bif": "/etc/passwd"}', "names another file"),
        (b'{"type": "markov_chain", "transition": [[0.5, 0.6], [0.5, 0.5]]}', "1.1"),
    ],
)
def test_models_that_are_wrong_are_refused_in_words(served: Served, content: bytes, words: str) -> None:
    assert words in served.upload("model", "m.json", content)["error"]


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"{" * 100_000, b"<html></html>", b"[]", b'<!doctype html><script id="certificate">{</script>'],
)
def test_certificates_that_are_none_are_refused_in_words(served: Served, content: bytes) -> None:
    assert "certificate" in served.upload("verify", "c.html", content)["error"]


def test_names_are_only_names(served: Served) -> None:
    kept = served.upload("data", "../../etc/\x07pass\nwd.csv", b"a\n1\n")["done"]
    assert kept["name"] == "passwd.csv"
    assert served.upload("data", r"C:\secret\w.csv", b"a\n1\n")["done"]["name"] == "w.csv"


@pytest.mark.slow
def test_slow_mechanisms_come_later(served: Served) -> None:
    said = served.do("plan", **{**WEEK, "query": "count:active"})
    (part,) = [line["part"] for line in said if "part" in line]
    last = said[-1]["done"]
    assert part["best"] == "curve-tight"
    assert "exact-laplace" in part["waiting"]
    assert (last["best"], last["waiting"]) == ("exact-laplace", [])
    ours = pufferdp.plan(pufferdp.load_model(DEMO / "wearer.json"), "count:active", epsilon=1.0, length=2016)
    assert [c["mechanism"] for c in last["candidates"]] == [c.mechanism for c in ours.candidates]
    assert tuple(last["verdict"]) == (*plan_verdict(ours), ours.problem.checked.sentence)
    assert last["guarantee"] == str(plan_guarantee(ours))
    assert [c["scale"] for c in last["candidates"]] == [c["scale"] for c in ours.to_dict()["candidates"]]


@pytest.mark.slow
def test_a_release_says_what_the_command_line_says_and_no_more(served: Served, run: Run) -> None:  # noqa: F811
    found = served.done("release", **WEEK, dataset="ward")
    result = run(
        "release", DEMO / "week.csv", "--model", DEMO / "wearer.json", "--column", "activity", "--order", "time",
        "--query", "histogram", "--epsilon", "1", "--json",
    )  # fmt: skip
    assert set(found) - {"chart", "made", "written", "kept", "hidden_estimate"} == set(result.json)
    certificate = found["certificate"]
    with pufferdp.Ledger(served.ledger) as books:
        assert certificate["ledger"]["head"] == books.dataset("ward").head
    kept = httpx.get(f"{served.url}api/made/{found['made']['key']}/release.json")
    assert kept.headers["content-disposition"].startswith("attachment")
    assert kept.json()["certificate"] == certificate
    assert pufferdp.verify(certificate).valid
    checked = served.upload("verify", "release.json", kept.content)["done"]
    assert checked["valid"]
    assert checked["ledger"]["valid"]
    certificate["answer"][0] += 1
    assert not served.upload("verify", "c.json", json.dumps(certificate).encode())["done"]["valid"]


def test_a_release_over_budget_is_refused_and_charges_nothing(served: Served) -> None:
    with pufferdp.Ledger(served.ledger) as books:
        before = books.dataset("ward").head
        said = served.do("release", **{**WEEK, "epsilon": 100.0}, dataset="ward")[-1]
        assert (said["kind"], said["exit"]) == ("BudgetError", 3)
        assert books.dataset("ward").head == before


@pytest.mark.slow
def test_who_goes_away_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is slow to end is ended with its process; one that is quick leaves it alone.

    What is slow depends on the machine, so the patience is set: more than the plan takes, then none.
    """

    async def go() -> tuple[int, int, int]:
        worker = Worker()
        needs = {"m": json.loads((DEMO / "wearer.json").read_text())}
        quick = {"model": "m", "data": None, "reading": None, "id": None, "query": "histogram", "clip": None,
                 "epsilon": 1.0, "adversary": "bdp", "length": 2016, "theme": "light"}  # fmt: skip

        slow = {**quick, "query": "count:active", "adversary": "pufferfish", "length": 1000}

        async def first(arguments: dict[str, object], stop: str, patience: float) -> int:
            monkeypatch.setattr(workers, "PATIENCE", patience)
            async with aclosing(worker.run("plan", arguments, needs)) as messages:
                async for kind, _ in messages:
                    if kind == stop:
                        break
            process = (await worker.ready()).pid
            if worker.settling is not None:
                await worker.settling
            return process

        try:
            return await first(quick, "part", 60), await first(slow, "part", 0), await first(quick, "done", 60)
        finally:
            await worker.close()

    a, b, c = asyncio.run(go())
    assert a == b != c


@pytest.mark.slow
def test_closing_the_connection_ends_the_work(served: Served) -> None:
    """The next question is answered by a new process, long before the old one would have been done."""
    slow = {**WEEK, "query": "sum"}
    with httpx.stream("POST", f"{served.url}api/do/plan", json=slow, timeout=60) as answer:
        for line in answer.iter_lines():
            if "part" in json.loads(line):
                break
    assert served.done("plan", **WEEK)["best"] == "curve-tight"


def follow(script: dict[str, str], run: Run) -> list[str]:  # noqa: F811
    """Run the lines of a shell script in this process, then the Python; what the commands print."""
    printed = []
    for line in script["shell"].replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        if words[0] == "echo":
            assert words[2] == ">"
            Path(words[3]).write_text(words[1])
            continue
        assert words[0] == "pufferdp"
        result = run(*words[1:])
        assert result.code == 0, (line, result.err)
        printed.append(result.out)
    for name in ("redacted.csv", "flipped.csv"):
        Path(name).unlink(missing_ok=True)  # the Python is for those who have not run the commands
    exec(script["python"], {})
    return printed


@pytest.mark.slow
def test_the_commands_of_the_first_room_are_right(served: Served, run: Run) -> None:  # noqa: F811
    found = served.done("plan", **WEEK)
    printed = follow(found["commands"], run)
    assert re.search(r"curve-tight +best", printed[1])
    assert "valid" in printed[3]


@pytest.mark.slow
def test_the_commands_for_an_upload_are_right(served: Served, run: Run) -> None:  # noqa: F811
    rows = [f"{n},{'ann' if n < 150 else 'bob'},{(n * 7) % 50}" for n in range(1, 300)]
    content = "\n".join(["minute,who is it,a 'value'", *rows]).encode()
    Path("my data.csv").write_bytes(content)
    data = served.upload("data", "my data.csv", content)["done"]
    reading = {"column": "a 'value'", "order": "minute", "by": "who is it", "restart": "4", "missing": "keep"}
    model = served.done("fit", data=data["key"], reading=reading, bins="0,25,50")
    asked = {"model": model["key"], "data": data["key"], "reading": reading, "epsilon": 0.5, "adversary": "pufferfish"}
    found = served.done("plan", **asked, query="mean", clip=[0, 40])
    assert follow(found["commands"], run)[-1].startswith("valid")
    assert "--lengths 149,150" in found["commands"]["shell"].replace("150,149", "149,150")


@pytest.mark.slow
def test_the_commands_of_the_other_tabs_are_right(served: Served, run: Run) -> None:  # noqa: F811
    found = served.done("leakage", stay=[0.9, 0.7], length=50, dp_epsilon=0.1)
    (printed,) = follow(found["commands"], run)
    assert "0.4247" in printed
    assert round(found["exact"], 4) == 0.4247
    redaction = {"model": "wearer", "private": [500, 502], "epsilon": 1.0}
    follow(served.done("design", **redaction, length=2016)["commands"], run)
    made = served.done("redact", **redaction, data="week", column="activity", order="rows")
    assert "valid" in follow(made["commands"], run)[-1]
    assert {500, 502} <= set(made["marked"])
    books = httpx.get(served.url + "api/start").json()["commands"]["ledger"]
    assert "valid" in follow(books, run)[-1]


@pytest.mark.slow
def test_a_redacted_file_is_the_file_with_marks(served: Served) -> None:
    asked = {"model": "wearer", "data": "week", "column": "activity", "private": [500], "epsilon": 1.0, "order": "rows"}
    alone = served.done("redact", **asked)
    assert httpx.get(f"{served.url}api/made/{alone['made']['key']}/redacted-week.csv").text.startswith("activity\n")
    made = served.done("redact", **asked, keep=["time"])
    assert "--keep time" in made["commands"]["shell"] and "keep=['time']" in made["commands"]["python"]
    assert "the kept column 'time' tells nothing" in made["certificate"]["guarantee"]["statement"]
    sent = httpx.get(f"{served.url}api/made/{made['made']['key']}/redacted-week.csv").text.splitlines()
    original = (DEMO / "week.csv").read_text().splitlines()
    differ = [n for n, (a, b) in enumerate(zip(original, sent, strict=True)) if a != b]
    assert differ == made["marked"]
    assert all(sent[n] == original[n].split(",")[0] + ",*" for n in differ)
    assert pufferdp.verify(made["certificate"]).valid


@pytest.mark.slow
def test_a_redaction_is_charged(served: Served) -> None:
    asked = {"model": "wearer", "data": "week", "column": "activity", "private": [500], "epsilon": 1.0, "order": "rows"}
    made = served.done("redact", **asked, dataset="series")
    assert made["certificate"]["guarantee"]["adversary"] == "bdp"
    assert "--dataset series" in made["commands"]["shell"] and "dataset='series'" in made["commands"]["python"]
    with pufferdp.Ledger(served.ledger) as books:
        assert made["certificate"]["ledger"]["head"] == books.dataset("series").head
        again = served.do("redact", **{**asked, "private": [700]}, dataset="series")[-1]
        assert again["kind"] == "RefusedError" and "--after" in again["error"]
        assert books.dataset("series").releases == 1


TIMES = "time,x\n" + "".join(f"2024-01-01 {n:02d}:00,{'ab'[n * n % 7 % 2]}\n" for n in range(24))
READERS: dict[str, dict[str, object]] = {
    "fit": {},
    "plan": {"query": "histogram"},
    "release": {"query": "histogram"},
    "flip": {},
}


def test_a_file_with_times_needs_an_order(served: Served) -> None:
    data = served.upload("data", "x.csv", TIMES.encode())["done"]["key"]
    for job, asked in READERS.items():
        more = {} if job == "fit" else {"model": "wearer", "epsilon": 1.0}
        refused = served.do(job, data=data, reading={"column": "x"}, **asked, **more)[-1]["error"]
        for words in ("the column 'time' holds times", "--order time", "--rows-in-order"):
            assert words in refused, job
    private = {"data": data, "model": "wearer", "column": "x", "private": [3], "epsilon": 2.0}
    assert "the column 'time' holds times" in served.do("redact", **private)[-1]["error"]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["time", "rows"])
def test_a_file_with_times_is_read_in_the_order_that_is_given(served: Served, order: str) -> None:
    data = served.upload("data", "x.csv", TIMES.encode())["done"]["key"]
    reading = {"column": "x", "order": order}
    model = served.done("fit", data=data, reading=reading)["key"]
    for job, asked in READERS.items():
        more = {} if job == "fit" else {"model": model, "epsilon": 1.0}
        served.done(job, data=data, reading=reading, **asked, **more)
    served.done("redact", data=data, model=model, column="x", private=[3], epsilon=2.0, order=order)
