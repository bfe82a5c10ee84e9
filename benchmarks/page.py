"""The local page in a browser: how long until it can be used, and from a slider to the answer on a 51-state chain."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks.timing import Report, seconds, sized
from pufferdp import MarkovChain, plan
from pufferdp.models.files.json import model_to_dict

STATES, LENGTH, LOADS, MOVES = sized((51, 100_000, 7, 40), (5, 100, 1, 3))
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
    """Load and move."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        chromium = None
    if chromium is None:
        print("\nthe page: left out, playwright or chromium is missing")
        return
    command = [sys.executable, "-c", "from pufferdp.apps.cli import main; main()", "serve", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        try:
            _load(report, browser, url)
            _slide(report, browser, url)
        finally:
            browser.close()
            server.terminate()


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
        page.get_by_label("Someone who wants to find out a record").first.select_option(adversary)
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
