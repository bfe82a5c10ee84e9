"""A running server under load: memory, slow connections, many questions at once, and how a browser is opened."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import pytest

from pufferdp.apps.web import app as page
from pufferdp.apps.web import connections
from tests.apps.web.conftest import Served

pytestmark = pytest.mark.slow
WEEK = {"model": "wearer", "data": "week", "reading": {"column": "activity", "order": "time"}, "epsilon": 1.0}
QUICKLY = "from pufferdp.apps.web import connections, app\nconnections.SLOW = app.SLOW = 1.0\n"
START = "from pufferdp.apps.cli import main\nmain()\n"


@contextmanager
def server(folder: Path, *options: str, before: str = "", **environment: str) -> Iterator[tuple[str, int]]:
    """The address and the process of a server of its own."""
    command = [sys.executable, "-c", before + START, "serve", "--json", *options]
    own = os.environ | {"PUFFERDP_HOME": str(folder / "home"), "TMPDIR": str(folder)} | environment
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"], process.pid
        finally:
            process.terminate()
            process.wait(30)


def resident(parent: int) -> dict[int, float]:
    """Megabytes of each process below a server."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    sizes = {}
    for process in map(int, children):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        sizes[process] = int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024
    return sizes


def test_workers_forget_uploads(tmp_path: Path) -> None:
    """Four uploads of 20 MB, each read: what the workers hold does not grow with their number."""
    rows = b"1,active\n" * (20 * 2**20 // 9)
    with server(tmp_path) as (url, process):
        served, sizes = Served(url, tmp_path), []
        for n in range(4):
            key = served.upload("data", "big.csv", b"n%d,state\n" % n + rows)["done"]["key"]
            served.done("values", data=key, column="state")
            sizes.append(sum(resident(process).values()))
        assert sizes[-1] - sizes[1] < 30, sizes  # two uploads of 20 MB were added
        assert served.done("plan", **WEEK, query="histogram")["best"] == "curve-tight"  # the bundled week is there


def test_slow_connections_are_cut(tmp_path: Path) -> None:
    with server(tmp_path, before=QUICKLY) as (url, _):
        parts = urlsplit(url)
        address = (str(parts.hostname), int(parts.port or 0))
        head = f"POST {parts.path}api/do/plan HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        beginnings = [b"", b"GET / HT", head.encode(), head.encode() + b"Content-Length: 1000\r\n\r\n{"]
        for beginning in beginnings:
            with socket.create_connection(address, timeout=20) as connection:
                started, heard = time.monotonic(), b""
                connection.sendall(beginning)
                connection.settimeout(0.2)
                while time.monotonic() - started < 100:
                    try:
                        piece = connection.recv(1000)
                    except TimeoutError:
                        if beginning:  # a byte from time to time buys nothing
                            try:
                                connection.sendall(b"x")
                            except OSError:
                                break
                        continue
                    except OSError:
                        break
                    if not piece:
                        break
                    heard += piece
                assert time.monotonic() - started < 100, beginning
                assert heard == b"" or b" 408 " in heard, heard
        assert httpx.get(url).status_code == 200


def test_who_does_not_listen_does_not_hold_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "SLOW", 0.2)

    async def lines() -> AsyncGenerator[bytes]:
        yield b"1\n"
        yield b"2\n"

    async def go() -> float:
        async def receive() -> dict[str, object]:
            await asyncio.sleep(1000)
            return {"type": "http.request"}

        async def send(message: object) -> None:
            if isinstance(message, dict) and message.get("more_body"):
                await asyncio.sleep(1000)  # full: nobody reads

        started = time.monotonic()
        response: Any = page.Lines(lines())
        await response({"type": "http"}, receive, send)
        return time.monotonic() - started

    assert asyncio.run(go()) < 100


def test_many_questions_at_once_are_all_answered(tmp_path: Path) -> None:
    """Each worker takes them in the order in which they come; workers do not wait for each other."""

    async def go(url: str) -> None:
        async with httpx.AsyncClient(timeout=600, limits=httpx.Limits(max_connections=300)) as client:

            async def ask(n: int) -> None:
                job, asked = QUESTIONS[n % len(QUESTIONS)]
                answer = await client.post(f"{url}api/do/{job}", json=asked)
                assert "done" in json.loads(answer.text.splitlines()[-1]), answer.text[-300:]

            await asyncio.gather(*(ask(n) for n in range(20)))

    with server(tmp_path) as (url, _):
        asyncio.run(go(url))


QUESTIONS = [
    ("design", {"model": "wearer", "length": 2016, "private": [500], "epsilon": 1.0}),
    ("values", {"data": "week", "column": "activity"}),
    ("plan", {**WEEK, "query": "histogram"}),
    ("series", {"data": "week", "model": "wearer", "column": "activity"}),
    ("values", {"data": "week", "column": "time"}),
]


def test_the_token_is_on_no_command_line(tmp_path: Path) -> None:
    """``--open`` starts the browser with a file that only its owner can read, and that leads to the page."""
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {seen}.part\nmv {seen}.part {seen}\n')
    browser.chmod(0o700)
    with server(tmp_path, "--open", BROWSER=f"{browser} %s") as (url, _):
        deadline = time.monotonic() + 30
        while not seen.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        given = seen.read_text().strip()
        token = urlsplit(url).path.strip("/")
        assert token not in given
        file = Path(unquote(urlsplit(given).path))
        assert url in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        led = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}  # as from a file
        assert httpx.get(url, headers=led).status_code == 200
    assert not file.parent.exists()


def test_a_body_has_its_time() -> None:
    assert connections.body_time(0) == connections.SLOW
    assert connections.body_time(64 * 2**20) == connections.SLOW + 64
