"""What the page keeps and what it forgets: without a process."""

from __future__ import annotations

import asyncio
import io
import socket

import pytest

from pufferdp.apps.web import app, jobs, session
from pufferdp.apps.web.inputs import Inputs
from pufferdp.apps.web.session import Session, SessionModel
from pufferdp.apps.web.worker import WorkerContext
from pufferdp.data.memory import MemoryFile


def test_what_is_bundled_is_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MOST", 100)
    monkeypatch.setattr(session, "RESULTS", 3)
    kept = Session()
    kept.files.keep(MemoryFile("week.csv", b"a" * 90), "week")
    kept.models.keep(SessionModel("wearer.json", {}), "wearer")
    keys = [kept.files.keep(MemoryFile("a.csv", b"a" * 60)) for _ in range(3)]
    assert list(kept.files.things) == ["week", keys[-1]]
    models = [kept.models.keep(SessionModel("m.json", {})) for _ in range(5)]
    assert list(kept.models.things) == ["wearer", *models[-2:]]


def test_inputs_forget() -> None:
    inputs = Inputs()
    model = {"type": "markov_chain", "transition": [[0.5, 0.5], [0.5, 0.5]]}
    inputs.keep({"a": model, "b": model}, ["a", "b"])
    for key in ("a", "b"):
        inputs.model(key)
    inputs.keep({}, ["b"])
    assert list(inputs.things) == list(inputs.models) == ["b"]


def test_the_same_question_of_a_file_is_scanned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred ask what stands in a column: one scan; another after the file was forgotten and sent again."""
    scans = list[str]()
    scanned = jobs.open_series
    monkeypatch.setattr(jobs, "open_series", lambda *given, **more: (scans.append("scan"), scanned(*given, **more))[1])
    inputs = Inputs()
    inputs.keep({"a": MemoryFile("a.csv", b"state,n\nx,1\ny,2\n")}, "a")
    context = WorkerContext(io.BytesIO())
    seen = [jobs.values(inputs, context, data="a", column="state") for _ in range(100)]
    assert len(scans) == 1 and all(said == seen[0] for said in seen)
    assert seen[0]["states"] == ["x", "y"]
    jobs.values(inputs, context, data="a", column="n")
    assert len(scans) == 2
    inputs.keep({}, "")
    inputs.keep({"a": MemoryFile("a.csv", b"state\nz\n")}, "a")
    assert jobs.values(inputs, context, data="a", column="state")["states"] == ["z"]
    assert len(inputs.looks) == 1


def test_small_packets_are_sent_at_once() -> None:
    """Every answer took 40 ms more where asyncio did not see that the connection was TCP."""

    async def go() -> int:
        accepted = asyncio.Queue[int]()

        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            accepted.put_nowait(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = app.bound(0)
        async with await asyncio.start_server(serve, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            writer.close()
            return await accepted.get()

    assert asyncio.run(go()) != 0
