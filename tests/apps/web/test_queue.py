"""Whose turn it is, what is kept and what is forgotten: without a process."""

from __future__ import annotations

import asyncio
import io

import pytest

from pufferdp.apps.web import jobs, queue, session
from pufferdp.apps.web.inputs import Inputs
from pufferdp.apps.web.queue import CHEAP, Costs, Turns
from pufferdp.apps.web.session import Session, SessionModel
from pufferdp.apps.web.worker import WorkerContext
from pufferdp.data.memory import MemoryFile


def order(costs: list[float]) -> list[int]:
    """In which order those get their turn who come while the first is at work."""
    done = list[int]()

    async def one(turns: Turns, n: int, cost: float) -> None:
        async with turns.turn(lambda: cost):
            done.append(n)
            await asyncio.sleep(0)

    async def go() -> None:
        turns = Turns()
        await asyncio.gather(*(one(turns, n, cost) for n, cost in enumerate(costs)))
        assert turns.load == 0

    asyncio.run(go())
    return done


def test_a_cheap_question_goes_before_sixty_dear_ones() -> None:
    assert order([5.0] * 60 + [0.1])[:2] == [0, 60]
    assert order([0.1, 0.1, 0.1]) == [0, 1, 2]


def test_a_dear_question_is_not_put_off_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time goes on by a second with every question: the dear one of a second is due before the twelfth cheap one."""
    clock = iter(range(1000))
    monkeypatch.setattr(queue.time, "monotonic", lambda: next(clock))
    done = order([0.0, 1.0] + [0.0] * 20)
    assert 8 <= done.index(1) <= 12


def test_who_stops_waiting_passes_the_turn_on() -> None:
    async def go() -> None:
        turns = Turns()

        async def take() -> None:
            async with turns.turn():
                pass

        async with turns.turn():
            gone, next_one = asyncio.create_task(take()), asyncio.create_task(take())
            await asyncio.sleep(0)
            gone.cancel()
            await asyncio.sleep(0)
        late = asyncio.create_task(take())
        await asyncio.wait_for(asyncio.gather(next_one, late), 5)
        async with turns.turn():
            first, second = asyncio.create_task(take()), asyncio.create_task(take())
            await asyncio.sleep(0)
        first.cancel()  # its turn has come, and it has not noticed yet
        await asyncio.wait_for(second, 5)

    asyncio.run(go())


def test_costs_are_learned_by_question_and_model() -> None:
    costs = Costs()
    dear = {"query": "sum", "model": "a"}
    assert costs.expected("plan", dear) <= CHEAP
    costs.learn("plan", dear, 8.0)
    assert costs.expected("plan", dear) == 8.0
    assert costs.expected("plan", {"query": "sum", "model": "b"}) == 8.0
    costs.learn("plan", {"query": "histogram", "model": "a"}, 0.1)
    assert costs.expected("plan", {"query": "histogram", "model": "b"}) == 0.1
    for n in range(2000):
        costs.learn("plan", {"query": n, "model": n}, 0.1)
    assert len(costs._seconds) <= 1000


def test_what_is_bundled_is_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MOST", 100)
    monkeypatch.setattr(session, "RESULTS", 3)
    kept = Session()
    kept.keep_file(MemoryFile("week.csv", b"a" * 90), "week")
    kept.keep_model(SessionModel("wearer.json", {}), "wearer")
    keys = [kept.keep_file(MemoryFile("a.csv", b"a" * 60)) for _ in range(3)]
    assert list(kept.files) == ["week", keys[-1]]
    models = [kept.keep_model(SessionModel("m.json", {})) for _ in range(5)]
    assert list(kept.models) == ["wearer", *models[-2:]]


def test_inputs_forget() -> None:
    inputs = Inputs()
    model = {"type": "markov_chain", "transition": [[0.5, 0.5], [0.5, 0.5]]}
    for key in ("a", "b"):
        inputs.keep(key, model)
        inputs.model(key)
    inputs.forget("a")
    inputs.forget("never there")
    assert list(inputs.things) == list(inputs.models) == ["b"]


def test_the_same_question_of_a_file_is_scanned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred ask what stands in a column: one scan; another after the file was forgotten and sent again."""
    scans = list[str]()
    scanned = jobs.open_series
    monkeypatch.setattr(jobs, "open_series", lambda *given, **more: (scans.append("scan"), scanned(*given, **more))[1])
    inputs = Inputs()
    inputs.keep("a", MemoryFile("a.csv", b"state,n\nx,1\ny,2\n"))
    context = WorkerContext(io.BytesIO())
    seen = [jobs.values(inputs, context, data="a", column="state") for _ in range(100)]
    assert len(scans) == 1 and all(said == seen[0] for said in seen)
    assert seen[0]["states"] == ["x", "y"]
    jobs.values(inputs, context, data="a", column="n")
    assert len(scans) == 2
    inputs.forget("a")
    inputs.keep("a", MemoryFile("a.csv", b"state\nz\n"))
    assert jobs.values(inputs, context, data="a", column="state")["states"] == ["z"]
    assert len(inputs.looks) == 1
