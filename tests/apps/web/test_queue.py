"""Whose turn it is, what is kept and what is forgotten: without a process."""

from __future__ import annotations

import asyncio
import io
import socket
import statistics
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from pufferdp.apps.web import app, jobs, queue, session
from pufferdp.apps.web.inputs import Inputs
from pufferdp.apps.web.queue import CHEAP, Costs, Turns
from pufferdp.apps.web.session import Session, SessionModel
from pufferdp.apps.web.worker import WorkerContext
from pufferdp.apps.web.workers import LATER, Message, Worker, Workers
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
        assert not turns._processors.running

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


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time goes on by as much as everybody sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        select = self._selector.select

        def at_once(timeout: float | None = None) -> Any:
            self.now += timeout or 0.0
            return select(0)

        self._selector.select = at_once

    def time(self) -> float:
        return self.now


class Machine:
    """Workers without a process on two processors, which are shared by all who are at work."""

    def __init__(self, first: dict[str, float], later: dict[str, float]) -> None:
        self.first, self.later = first, later
        self.weights = list[float]()

    def speed(self, weight: float) -> float:
        """The share of a processor: by weight, and never more than one; what others leave is for the nice."""
        heavy = self.weights.count(1.0)
        return min(1.0, max(2 - heavy, 2 * weight / sum(self.weights)))

    def worker(self, turns: Turns, nice: int) -> Worker:
        machine, known, weight = self, set[str](), 0.8**nice  # as Linux weighs

        class KnownCosts(Worker):
            async def run(self, job: str, *_: object, longest: float | None = None) -> AsyncGenerator[Message]:
                yield "progress", "starting"
                left = machine.later[job] if job in known else machine.first[job]
                machine.weights.append(weight)
                try:
                    while left > 1e-9 and (longest is None or longest > 0):
                        wait = min(left, 0.01)
                        await asyncio.sleep(wait)
                        left -= wait * machine.speed(weight)
                        longest = None if longest is None else longest - wait
                finally:
                    machine.weights.remove(weight)
                if left > 1e-9:
                    yield LATER, None
                else:
                    known.add(job)
                    yield "done", None

        return KnownCosts(turns, nice)


def simulated(
    monkeypatch: pytest.MonkeyPatch, asked: list[str], first: dict[str, float], later: dict[str, float]
) -> list[float]:
    """When each of the questions that are asked at once is answered, by workers that know nothing of their costs."""
    loop, own = VirtualLoop(), {"design": "side", "plan": "plan", "values": "work", "series": "work"}
    monkeypatch.setattr(queue.time, "monotonic", loop.time)
    monkeypatch.setattr(queue.os, "cpu_count", lambda: 2)
    machine = Machine(first, later)

    async def go() -> list[float]:
        workers = Workers()
        for name in ("plan", "side", "work", "express"):
            worker = getattr(workers, name)
            setattr(workers, name, machine.worker(worker.turns, worker.nice))

        async def ask(job: str) -> float:
            messages = [kind async for kind, _ in workers.run(getattr(workers, own[job]), job, {}, {})]
            assert messages[-1] == "done"
            return loop.time()

        return await asyncio.gather(*map(ask, asked))

    try:
        return loop.run_until_complete(go())
    finally:
        loop.close()


def test_two_hundred_different_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs about as measured. The cheap ones end within two seconds of the half of all, whatever is asked first.

    Dear ones are not put off for longer than that: designs follow each other in one worker, and it is seldom idle.
    """
    first = {"design": 1.5, "plan": 0.6, "values": 0.15, "series": 0.2}
    later = {"design": 0.17, "plan": 0.07, "values": 0.002, "series": 0.002}
    kinds = ["design", "values", "plan", "series", "values"]
    for asked in (kinds * 40, sorted(kinds * 40), sorted(kinds * 40, reverse=True)):
        with monkeypatch.context() as patch:
            times = simulated(patch, asked, first, later)
        cheap = [time for job, time in zip(asked, times, strict=True) if job != "design"]
        assert max(cheap) <= statistics.median(times) + 2
        assert max(times) <= max(cheap) + first["design"] + 40 * later["design"]


def test_dear_work_leaves_the_processors_to_cheap_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever costs are known, dear work begins where a processor is left, and at the latest when it is due."""
    now = 0.0
    monkeypatch.setattr(queue.time, "monotonic", lambda: now)

    async def settled() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def go() -> list[str]:
        nonlocal now
        processors, begun = queue.Processors(2), list[str]()
        places = {name: Turns(processors) for name in ("a", "b", "c", "d")}
        ends = {name: asyncio.Event() for name in places}

        async def work(name: str, cost: float) -> None:
            async with places[name].turn(lambda: cost):
                begun.append(name)
                await ends[name].wait()

        tasks = [asyncio.create_task(work(name, cost)) for name, cost in (("a", 1.0), ("b", 0.1), ("c", 5.0))]
        await settled()
        assert begun == ["a", "b"]  # both processors are taken by what is cheaper
        now = 2.0  # a has taken two seconds, and counts as no cheaper than two
        tasks.append(asyncio.create_task(work("d", 3.0)))
        await settled()
        assert begun == ["a", "b"]
        ends["b"].set()
        await settled()
        assert begun == ["a", "b", "d"]
        now = 50.0
        processors.pass_on()
        await settled()
        for event in ends.values():
            event.set()
        await asyncio.gather(*tasks)
        return begun

    assert asyncio.run(go()) == ["a", "b", "d", "c"]


def test_what_is_done_for_the_first_time_is_not_cheap_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(queue.time, "monotonic", lambda: now)
    costs, asked = Costs(), {"query": "sum", "model": "a"}
    with costs.doing("plan", asked):
        now = 3.0
        with costs.doing("plan", asked):
            assert costs.expected("plan", asked) == 3.0
        assert costs.expected("plan", asked) == 3.0
        assert costs.expected("plan", {"query": "sum", "model": "b"}) <= CHEAP
    assert costs.expected("plan", asked) <= CHEAP


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
