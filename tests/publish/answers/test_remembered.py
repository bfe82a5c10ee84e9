"""A release in a loop: calibrated once, and never by what was found for another problem."""

from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pufferdp import MarkovChain, Query, plan, release
from pufferdp.basics.errors import DataError
from pufferdp.publish.answers import plan as planning
from pufferdp.publish.answers.problem import Problem, Remembered
from pufferdp.publish.answers.secrets import Secrets

TABLE = [[0.9, 0.1], [0.2, 0.8]]
FRAME = pd.DataFrame({"state": ["0", "1", "1", "0", "0"] * 10})


@pytest.fixture
def calibrations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the mechanisms that were calibrated, one after the other."""
    names: list[str] = []
    attempt = planning._try

    def counted(mechanism: Any, *rest: Any) -> Any:
        names.append(mechanism.name)
        return attempt(mechanism, *rest)

    monkeypatch.setattr(planning, "_try", counted)
    planning.CALIBRATED.clear()
    return names


def test_the_same_problem_is_calibrated_once(calibrations: list[str]) -> None:
    model = MarkovChain(transition=TABLE)
    first = release(FRAME, model=model, column="state", query="count:1", epsilon=1.0)
    once = len(calibrations)
    assert once > 1
    again = release(FRAME, model=model, column="state", query="count:1", epsilon=1.0)
    assert len(calibrations) == once
    assert again.certificate.noise == first.certificate.noise
    assert again.certificate.mechanism == first.certificate.mechanism


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.5}, {"query": "histogram"}, {"adversary": "pufferfish"}, {"length": 51}, {"beta": 0.1},
        {"delta": 1e-6}, {"unit": 3},
        {"model": MarkovChain(transition=[[0.99, 0.01], [0.2, 0.8]])},
    ],
)  # fmt: skip
def test_another_problem_is_calibrated_anew(change: dict[str, Any], calibrations: list[str]) -> None:
    asked: dict[str, Any] = {"model": MarkovChain(transition=TABLE), "query": "count:1", "epsilon": 1.0, "length": 50}
    before = plan(**asked)
    once = len(calibrations)
    after = plan(**{**asked, **change})
    assert len(calibrations) > once
    planning.CALIBRATED.clear()
    assert plan(**{**asked, **change}).candidates == after.candidates
    assert plan(**asked).candidates == before.candidates


def _problem(model: Any, query: Query) -> Problem:
    return Problem(model=model, query=query, lengths=((5, 1),), epsilon=1.0)


def test_nothing_is_kept_of_what_can_change() -> None:
    """A function need not do the same twice, and a model that is not frozen may have changed."""

    class Loose(MarkovChain):
        """No data class itself: it may have attributes that change."""

    class Open:
        def __getattr__(self, name: str) -> Any:
            return getattr(MarkovChain(transition=TABLE), name)

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

    count, function = Query.parse("count:1"), Query.of_function(lambda chains: 0.0, lipschitz=1.0)
    for model, query, made in (
        (MarkovChain(transition=TABLE), count, [1]),
        (MarkovChain(transition=TABLE), function, [1, 2]),
        (Loose(transition=TABLE), count, [1, 2]),
        (Open(), count, [1, 2]),
    ):
        memory: Remembered[int] = Remembered(4)
        calls: list[int] = []

        def make(calls: list[int] = calls) -> int:
            calls.append(len(calls) + 1)
            return calls[-1]

        problem = _problem(model, query)
        assert [memory.get(problem, None, make) for _ in range(2)][-1] == made[-1]
        assert calls == made


def test_the_oldest_is_forgotten_and_errors_are_not_kept() -> None:
    memory: Remembered[int] = Remembered(2)
    problem = _problem(MarkovChain(transition=TABLE), Query.parse("count:1"))
    for more in (1, 2, 1, 3):
        memory.get(problem, more, lambda more=more: more)
    assert memory.get(problem, 1, lambda: -1) == 1
    assert memory.get(problem, 2, lambda: -1) == -1  # asked for least lately

    def fails() -> int:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        memory.get(problem, 9, fails)
    assert memory.get(problem, 9, lambda: 9) == 9
    assert memory.get(problem, 10, lambda: 1, keep=lambda _: False) == 1
    assert memory.get(problem, 10, lambda: 2) == 2


def _in_a_fork(answers: Any) -> None:
    answers.put(
        release(FRAME, model=MarkovChain(transition=TABLE), column="state", query="count:1", epsilon=1.0).answer
    )


def test_frames_are_read_in_a_process_that_was_forked() -> None:
    """The database of frames belongs to the process that made it."""
    release(FRAME, model=MarkovChain(transition=TABLE), column="state", query="count:1", epsilon=1.0)
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_in_a_fork, args=(answers,))
    child.start()
    child.join(60)
    alive = child.is_alive()
    if alive:
        child.kill()
    assert not alive
    assert isinstance(answers.get(), int)


def test_a_frame_with_an_index_of_its_own_is_read_row_by_row() -> None:
    """Row numbers do not follow the index of a pandas frame. One that falls is rejected, unless rows are in order."""
    frame = FRAME.set_index(np.arange(len(FRAME))[::-1] // 2)
    with pytest.raises(DataError, match="does not rise"):
        release(frame, model=MarkovChain(transition=TABLE), column="state", query="count:1", epsilon=1.0)
    made = release(
        frame, model=MarkovChain(transition=TABLE), column="state", order="rows", query="count:1", epsilon=1.0
    )
    assert [tuple(pair) for pair in made.certificate.data.lengths] == [(50, 1)]


def test_secrets_of_ones_own_are_planned_although_nothing_is_kept_of_them() -> None:
    """They cannot be looked up by."""
    secrets = Secrets.from_dict({"secrets": {"a": {"1": ["0"]}, "b": {"1": ["1"]}}, "pairs": [["a", "b"]]})
    model = MarkovChain(transition=TABLE)
    made = [plan(model, "count:1", epsilon=1.0, length=4, adversary="pufferfish", secrets=secrets) for _ in range(2)]
    assert made[0].best == made[1].best
