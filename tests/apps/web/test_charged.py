"""What is charged reaches its owner: whoever stops, closes or kills, at whichever step."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest

import pufferdp
from pufferdp.apps.web import jobs, pictures
from pufferdp.apps.web.charged import AnswerFolder
from pufferdp.apps.web.inputs import Inputs
from pufferdp.apps.web.worker import StoppedError, WorkerContext, framed
from pufferdp.apps.web.workers import Message, Worker
from pufferdp.basics.progress import CHARGING
from pufferdp.data.memory import MemoryFile
from pufferdp.publish.answers import plan as planning
from tests.apps.web.conftest import DEMO

WEEK = MemoryFile("week.csv", (DEMO / "week.csv").read_bytes())
WEARER = json.loads((DEMO / "wearer.json").read_text())
NEEDS: dict[str, object] = {"week": WEEK, "wearer": WEARER}
READING = {"column": "activity", "order": "time", "by": None, "restart": None, "missing": "refuse"}


@pytest.fixture
def books(tmp_path: Path) -> Path:
    """A ledger with a data set that nothing was charged to."""
    return new_books(tmp_path)


def new_books(folder: Path) -> Path:
    """A ledger in a folder of its own."""
    place = folder / "books.db"
    with pufferdp.Ledger(place, create=True) as ledger:
        ledger.create("week", model=pufferdp.load_model(DEMO / "wearer.json"), budget=8.0)
    return place


def arguments(job: str, books: Path) -> dict[str, Any]:
    """What the server sends for a job that is charged."""
    common = {"data": "week", "model": "wearer", "epsilon": 1.0, "adversary": "bdp", "theme": "light"}
    common |= {"ledger": str(books), "dataset": "week"}
    if job == "redact":
        return common | {"column": "activity", "order": "rows", "private": [500]}
    if job == "table":
        asked = {"queries": ["histogram", "mean"], "per": ["day"], "split": None, "clip": None}
        return common | asked | {"reading": READING}
    if job == "flip":
        return common | {"reading": READING}
    return common | {"reading": READING, "id": None, "query": "histogram", "clip": None, "mechanism": "curve-tight"}


def rows(books: Path) -> int:
    """How often the data set was charged."""
    with pufferdp.Ledger(books) as ledger:
        return ledger.dataset("week").releases


def check_kept(books: Path, job: str) -> None:
    """Every charge has its answer beside the ledger, for its owner alone, with a certificate that holds."""
    kept = sorted(books.parent.glob("books.db-week-row-*.json"))
    assert len(kept) == rows(books)
    for file in kept:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        content = json.loads(file.read_text())
        assert pufferdp.verify(content["certificate"]).valid
        assert file.name == f"books.db-week-row-{content['certificate']['ledger']['position']}.json"
        if job == "flip":
            assert len(file.with_suffix(".csv").read_text().splitlines()) == len(WEEK.content.splitlines())
        if job == "redact":
            series = file.with_suffix(".csv").read_text().splitlines()
            assert series[500] == "*"  # no column but the one that was named comes out
            assert len(series) == len(WEEK.content.splitlines())


class Stopping(WorkerContext):
    """A context whose job is stopped at a step; the server says go unless the job is stopped by then."""

    def __init__(self, at: str) -> None:
        super().__init__(io.BytesIO())
        self.at, self.steps = at, list[str]()

    def __call__(self, words: str) -> None:
        self.steps.append(words)
        if words == self.at:
            self.stop()
        elif words == CHARGING:
            self.allow()
        super().__call__(words)


def inputs() -> Inputs:
    """What a process was sent."""
    kept = Inputs()
    kept.keep(NEEDS, list(NEEDS))
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("job", ["release", "redact", "table", "flip"])
def test_a_job_that_is_stopped_at_any_step(job: str, books: Path, tmp_path: Path) -> None:
    """Before the charge nothing is charged. After it the job ends with its answer, which is on disk too."""
    whole = Stopping("never")
    jobs.JOBS[job](inputs(), whole, **arguments(job, books))
    border = whole.steps.index(CHARGING)
    assert border > 0 and len(whole.steps) > border + 1
    near = range(border - 1, border + 2)  # of one job every step, of the others those beside the charge
    for n, step in enumerate(whole.steps):
        if job != "release" and n not in near:
            continue
        folder = tmp_path / str(n)
        folder.mkdir()
        books = new_books(folder)
        planning.CALIBRATED.clear()  # an equal model is calibrated once, and the second time without that step
        if n <= border:
            with pytest.raises(StoppedError):
                jobs.JOBS[job](inputs(), Stopping(step), **arguments(job, books))
            assert rows(books) == 0
        else:
            made = jobs.JOBS[job](inputs(), Stopping(step), **arguments(job, books))
            assert rows(books) == 1
            assert all(Path(file).exists() for file in made["kept"])
        check_kept(books, job)


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["vega", "report"])
def test_a_picture_that_fails_loses_no_charged_answer(
    broken: str, books: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(pictures, broken, fail)
    made = jobs.release(inputs(), Stopping("never"), **arguments("release", books))
    assert made["chart" if broken == "vega" else "report"] is None
    check_kept(books, "release")


@pytest.mark.slow
def test_an_answer_replaces_nothing_and_can_go_elsewhere(
    books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / "books.db-week-row-1.json"
    taken.write_text("mine")
    made = jobs.release(inputs(), Stopping("never"), **arguments("release", books))
    assert [Path(file).name for file in made["kept"]] == ["books.db-week-row-1-2.json"]
    assert taken.read_text() == "mine"
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spare))
    gone = AnswerFolder(tmp_path / "gone", "books.db")
    assert gone.keep({"dataset": "week", "position": 2}, {}) == [str(spare / "books.db-week-row-2.json")]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    assert gone.keep({"dataset": "week", "position": 2}, {}) == []


def test_a_ledger_on_a_server_has_its_answers_in_a_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUFFERDP_HOME", str(tmp_path / "home"))
    answers = AnswerFolder.of("postgresql://books@there/ledger")
    answers.check()
    (file,) = answers.keep({"dataset": "a/b", "position": 3}, {"answer": 1})
    assert Path(file).parent == tmp_path / "home" / "answers"
    assert stat.S_IMODE(Path(file).parent.stat().st_mode) == 0o700
    assert Path(file).name == "pufferdp-ledger-a%2Fb-row-3.json"


def test_a_folder_that_takes_no_answer_is_refused_before_the_charge(
    books: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setattr(AnswerFolder, "of", lambda ledger: AnswerFolder(file / "folder", "books.db"))
    with pytest.raises(pufferdp.ParameterError, match="cannot be made"):
        jobs.release(inputs(), Stopping("never"), **arguments("release", books))
    assert rows(books) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("until", "charged", "end", "job"),
    [
        ("progress", 0, "leave", "release"),
        ("progress", 0, "close", "redact"),
        (CHARGING, 1, "leave", "redact"),
        (CHARGING, 1, "close", "release"),
    ],
)
def test_whoever_leaves_or_ends_the_server(job: str, end: str, until: str, charged: int, books: Path) -> None:
    """Leaving at the first word charges nothing; once go was said the process is waited for and its answer is kept."""

    async def go() -> None:
        worker = Worker()
        messages = worker.run(job, arguments(job, books), NEEDS)
        async for kind, _ in messages:
            if kind == until:
                break
        if end == "leave":
            await messages.aclose()
            async with aclosing(worker.run("values", {"data": "week", "column": "activity"}, NEEDS)) as others:
                last: Message = ("", None)
                async for message in others:  # the next one gets its own answer
                    last = message
                assert last[0] == "done" and "distinct" in last[1]
        await worker.close()
        await messages.aclose()

    asyncio.run(go())
    assert rows(books) == charged
    check_kept(books, job)


def _message(process: subprocess.Popen[bytes]) -> Message:
    assert process.stdout is not None
    size = int.from_bytes(process.stdout.read(8), "big")
    message: Message = pickle.loads(process.stdout.read(size))
    return message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "blow"),
    [("nothing", "pipes"), ("nothing", "SIGTERM"), ("go", "pipes"), ("go", "SIGTERM"), ("go", "SIGINT")],
)
def test_a_server_that_is_killed(said: str, blow: str, books: Path) -> None:
    """Its worker sees both pipes end. Without go nothing is charged; with it the answer is written all the same."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pufferdp.apps.web.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(framed(("run", "release", arguments("release", books), NEEDS, list(NEEDS))))
    process.stdin.flush()
    while _message(process)[0] != CHARGING:
        pass
    if said == "go":
        process.stdin.write(framed(("go",)))
        process.stdin.flush()
    if blow == "pipes":
        process.stdin.close()
        process.stdout.close()
    else:
        process.send_signal(getattr(signal, blow))
        process.stdin.close()
        process.stdout.read()
        process.stdout.close()
    process.wait(60)
    assert rows(books) == (said == "go")
    check_kept(books, "release")


@pytest.mark.slow
@pytest.mark.parametrize("blow", ["twice", "kill"])
def test_ending_the_page_while_it_charges(blow: str, books: Path) -> None:
    """Ctrl-C twice, or kill -9: once the page has heard that it is charged, the answer will be beside the ledger."""
    command = "from pufferdp.apps.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", command, "serve", "--json", "--ledger", str(books)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PUFFERDP_HOME": str(books.parent / "home")},
    ) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        asked = {"model": "wearer", "data": "week", "reading": {"column": "activity", "order": "time"}}
        asked |= {"query": "histogram", "epsilon": 1.0, "dataset": "week"}
        assert httpx.get(f"{url}api/start").json()["answers"] == str(books.parent / "books.db-DATASET-row-N.json")
        with httpx.stream("POST", f"{url}api/do/release", json=asked, timeout=60) as answer:
            for line in answer.iter_lines():
                if CHARGING in json.loads(line):
                    break
            if blow == "kill":
                process.kill()
            else:
                process.send_signal(signal.SIGINT)
                process.send_signal(signal.SIGINT)
        process.wait(60)
    if blow == "kill":
        _wait(lambda: any(_is_whole(file) for file in books.parent.glob("books.db-week-row-*.json")))
    assert rows(books) == 1
    check_kept(books, "release")


def _is_whole(file: Path) -> bool:
    """Whether a file is filled: it is made first."""
    return file.read_bytes().endswith(b"}\n")


def _wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not until() and time.monotonic() < deadline:
        time.sleep(0.05)
