"""The local page: two hundred questions at once; how long until it can be used, and from a slider to the answer."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from functools import partial
from typing import Any
from urllib.parse import SplitResult, urlsplit

import numpy as np

from benchmarks.timing import Report, seconds, sized
from pufferdp import MarkovChain, plan
from pufferdp.models.files.json import model_to_dict

STATES, LENGTH, LOADS, MOVES = sized((51, 100_000, 7, 40), (5, 100, 1, 3))
COMMAND = [sys.executable, "-c", "from pufferdp.apps.cli import main; main()", "serve", "--json"]
CROWD = sized(200, 10)
QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("design", {"model": "wearer", "length": 2016, "private": [500], "epsilon": 1.0}),
    ("values", {"data": "week", "column": "activity"}),
    ("plan", {"model": "wearer", "data": "week", "reading": {"column": "activity", "order": "time"}, "epsilon": 1.0,
              "query": "histogram"}),
    ("series", {"data": "week", "model": "wearer", "column": "activity"}),
    ("values", {"data": "week", "column": "time"}),
)  # fmt: skip
"""Asked in turn; the first is the dear one."""
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip

MOVE = """value => new Promise(resolve => {
  const slider = document.querySelector('#plan input[type=range]');
  const answer = document.querySelector('#plan .answer');
  const began = performance.now(), before = answer.dataset.epsilon;
  const watch = new MutationObserver(() => {
    if (answer.dataset.epsilon === before) return;
    watch.disconnect();
    resolve(performance.now() - began);
  });
  watch.observe(answer, { attributes: true });
  slider.value = value;
  slider.dispatchEvent(new Event('input', { bubbles: true }));
})"""
"""Moves the slider as a hand would, and waits until the table shows the answer for the new epsilon."""


def run(report: Report) -> None:
    """Crowd, load and move."""
    for different in (False, True):
        _crowd(report, different)
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        chromium = None
    if chromium is None:
        print("\nthe page: left out, playwright or chromium is missing")
        return
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        try:
            _load(report, browser, url)
            _slide(report, browser, url)
        finally:
            browser.close()
            server.terminate()


def _crowd(report: Report, different: bool) -> None:
    """Two hundred questions in one moment, one in five of them dear; ``different``: each with an epsilon of its own.

    Asked by plain sockets: a client that needs more of the processors than the server would measure itself.
    """
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = urlsplit(json.loads(server.stdout.readline())["url"])
            times = asyncio.run(_ask_all(url, different))
        finally:
            server.terminate()
    kinds = [[took for n, took in enumerate(times) if (n % len(QUESTIONS) == 0) is dear] for dear in (False, True)]
    half = statistics.median(times)
    report.title(
        f"{CROWD} {'different ' * different}questions to the page in one moment, one in five dear: all answered"
    )
    report.row("half of all within", half, "s")
    report.row("half of the cheap ones within", statistics.median(kinds[0]), "s")
    report.row("the last cheap one within", max(kinds[0]), "s")
    report.row("the last cheap one, behind the half of all", max(kinds[0]) - half, "s", 2.0)
    report.row("the last dear one within", max(kinds[1]), "s")
    report.row("processes that wanted a processor in the last minute, on average", os.getloadavg()[0], "")


async def _ask_all(url: SplitResult, different: bool) -> list[float]:
    """Seconds until each question is answered."""

    async def ask(n: int) -> float:
        job, asked = QUESTIONS[n % len(QUESTIONS)]
        if different and "epsilon" in asked:
            asked = {**asked, "epsilon": 1 + n / CROWD}
        body = json.dumps(asked).encode()
        began = time.perf_counter()
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        head = f"POST {url.path}api/do/{job} HTTP/1.0\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.read()
        took = time.perf_counter() - began
        writer.close()
        assert "done" in json.loads(answer.splitlines()[-1]), answer[-300:]
        return took

    return await asyncio.gather(*(ask(n) for n in range(CROWD)))


def _load(report: Report, browser: Any, url: str) -> None:
    ready, first = [], []
    for _ in range(LOADS):
        page = browser.new_page()
        began = time.perf_counter()
        page.goto(url)
        page.wait_for_selector("html[data-ready]")
        ready.append(time.perf_counter() - began)
        page.wait_for_selector("#plan tr.best", timeout=60_000)
        first.append(time.perf_counter() - began)
        sizes = page.evaluate("performance.getEntriesByType('resource').map(r => r.decodedBodySize)")
        page.close()
    report.title("the page in headless chromium, a new window each time")
    report.row("from the address until it can be used, median", statistics.median(ready), "s", 1.0)
    report.row("until the first plan stands on it, median", statistics.median(first), "s")
    report.row("all that is loaded, from this machine", sum(sizes) / 1e6, "MB")


def _slide(report: Report, browser: Any, url: str) -> None:
    page = browser.new_page()
    page.goto(url)
    page.wait_for_selector("#plan tr.best")
    near = np.exp(-np.abs(np.subtract.outer(np.arange(STATES), np.arange(STATES))) / 3)
    chain = MarkovChain(transition=near / near.sum(axis=1, keepdims=True))
    page.get_by_label("File", exact=True).first.select_option("")
    page.locator("#plan input[type=file]").nth(1).set_input_files(
        {"name": "chain.json", "mimeType": "application/json", "buffer": json.dumps(model_to_dict(chain)).encode()}
    )
    page.wait_for_function("() => document.querySelector('#plan .code').textContent.includes('chain.json')")
    page.get_by_label("How many records will there be?").fill(str(LENGTH))
    page.wait_for_function(f"() => document.querySelector('#plan .code').textContent.includes('--length {LENGTH}')")
    report.title(f"slider to answer: a chain with {STATES} states, {LENGTH:,} records, histogram")
    for adversary in ("bdp", "pufferfish"):
        page.get_by_label("Adversary's background knowledge").first.select_option(adversary)
        page.wait_for_timeout(500)
        _plans(chain, adversary)
        took = [page.evaluate(MOVE, -1 + 2 * n / MOVES + 0.013) for n in range(MOVES)]
        report.row(f"{adversary}: from moving the slider to the new answer, median", statistics.median(took), "ms", 150)
        alone = seconds(partial(_plans, chain, adversary), 3) / 5
        report.row("  as a multiple of plan() alone, in the same run", statistics.median(took) / 1e3 / alone, "")
        report.row(f"{adversary}: one in ten takes longer than", sorted(took)[-MOVES // 10], "ms")
    page.close()


def _plans(chain: MarkovChain, adversary: str) -> None:
    """Five plans by the library alone; what it keeps of a model is there already."""
    for n in range(5):
        plan(chain, "histogram", epsilon=0.5 + 0.1 * n, length=LENGTH, adversary=adversary)
