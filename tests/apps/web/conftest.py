"""One server a module, started as a user starts it, and one browser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

import pufferdp
from pufferdp.apps import demo
from pufferdp.ledger.flow_budget import flow_charge
from pufferdp.models.files.json import model_digest

DEMO = Path(demo.__file__).parent
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
JSON = {"content-type": "application/json"}
BYTES = {"content-type": "application/octet-stream"}


@dataclass(frozen=True)
class Served:
    """A running page."""

    url: str
    ledger: Path

    def do(self, job: str, **asked: Any) -> list[dict[str, Any]]:
        """What a job says, line by line; or the one refusal."""
        return _lines(httpx.post(f"{self.url}api/do/{job}", json=asked, timeout=60))

    def done(self, job: str, **asked: Any) -> dict[str, Any]:
        """What a job comes to."""
        last = self.do(job, **asked)[-1]
        assert "done" in last, last
        found: dict[str, Any] = last["done"]
        return found

    def upload(self, what: str, name: str, content: bytes) -> dict[str, Any]:
        """The last word on an upload."""
        sent = httpx.post(
            f"{self.url}api/upload/{what}", params={"name": name}, content=content, headers=BYTES, timeout=60
        )
        return _lines(sent)[-1]


def _lines(answer: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """``pufferdp serve`` with a ledger that has a data set of each kind."""
    folder = tmp_path_factory.mktemp("served")
    ledger = folder / "books.db"
    model = pufferdp.load_model(DEMO / "wearer.json")
    guarantee = pufferdp.FlowBudget(tau=0.5, eta=0.05, privacy="joint")
    planned = pufferdp.plan_flow(model, eta=0.05, tau=0.1, length=2016).to_dict()["candidates"]
    sigma = next(one["sigma"] for one in planned if one["mechanism"] == "flow-simplex")
    with pufferdp.Ledger(ledger, create=True) as books:
        books.create("ward", model=model, budget=8.0)
        books.create("series", model=model, budget=2.0)
        books.create("tiny", model=model, budget=0.05)
        books.create("ward, how it moves", model=model, budget=guarantee)
        for _ in range(2):
            charge = flow_charge(
                model=model_digest(model),
                guarantee=replace(guarantee, tau=0.1),
                add=False,
                mechanism="flow-simplex",
                kappa=None,
                sigma=sigma,
                lengths=[(2016, 1)],
            )
            books.charge("ward, how it moves", charge)
    command = [
        sys.executable,
        "-c",
        "from pufferdp.apps.cli import main; main()",
        "serve",
        "--json",
        "--ledger",
        ledger,
    ]
    home = {"PUFFERDP_HOME": str(folder / "home"), "TMPDIR": str(folder)}
    with subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, text=True, env=os.environ | home, cwd=folder
    ) as process:
        try:
            assert process.stdout is not None
            yield Served(json.loads(process.stdout.readline())["url"], ledger)
        finally:
            process.terminate()
            process.wait(20)
    left = sorted(path.name for path in folder.iterdir() if not path.name.startswith("books.db"))
    assert left in ([], ["home"]), f"left behind: {left}"  # uploads are nowhere on the disk


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's chromium, headless."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where screenshots go: PUFFERDP_SCREENSHOTS, or a temporary folder."""
    folder = Path(os.environ.get("PUFFERDP_SCREENSHOTS") or tempfile.mkdtemp(prefix="pufferdp-screenshots-"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
