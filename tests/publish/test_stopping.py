"""Whoever listens to the progress can stop a publication until it is charged, and not from there on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import pufferdp
from pufferdp.basics.progress import CHARGING

MODEL = pufferdp.MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]], states=["a", "b"])
FRAME = pd.DataFrame({"state": ["a", "a", "b", "a"] * 10, "who": ["x"] * 40})
Publish = Callable[..., object]


class StopError(Exception):
    """What a listener raises who wants to stop."""


def release(**more: Any) -> object:
    return pufferdp.release(FRAME, model=MODEL, query="count:a", column="state", epsilon=1.0, mechanism="group", **more)


def release_fleet(**more: Any) -> object:
    return pufferdp.release_fleet(
        FRAME, models={"x": MODEL}, query="count:a", column="state", by="who", epsilon=1.0, **more
    )


def flip(**more: Any) -> object:
    return pufferdp.flip(FRAME, model=MODEL, column="state", epsilon=1.0, **more)


def redact(**more: Any) -> object:
    return pufferdp.redact(FRAME, model=MODEL, column="state", private=[5], epsilon=1.0, **more)


def flow(**more: Any) -> object:
    return pufferdp.flow(FRAME, model=MODEL, column="state", eta=0.2, tau=0.2, **more)


def new_ledger(folder: Path, publish: Publish) -> Path:
    folder.mkdir()
    place = folder / "books.db"
    budget = pufferdp.FlowBudget(tau=0.5, eta=0.2, privacy="joint") if publish is flow else 8.0
    with pufferdp.Ledger(place, create=True) as ledger:
        ledger.create("d/x" if publish is release_fleet else "d", model=MODEL, budget=budget)
    return place


def charges(place: Path, publish: Publish) -> int:
    with pufferdp.Ledger(place) as ledger:
        return ledger.dataset("d/x" if publish is release_fleet else "d").releases


@pytest.mark.slow
@pytest.mark.parametrize("publish", [release, release_fleet, flip, redact, flow])
def test_progress_stops_what_is_not_charged_and_nothing_else(publish: Publish, tmp_path: Path) -> None:
    steps: list[str] = []
    publish()  # what is calibrated is remembered, and then has no steps of its own
    publish(ledger=new_ledger(tmp_path / "whole", publish), dataset="d", progress=steps.append)
    assert steps.count(CHARGING) == 1
    assert steps[-1] != CHARGING
    for n in range(len(steps)):
        place, heard = new_ledger(tmp_path / str(n), publish), list[str]()

        def listen(words: str, n: int = n, heard: list[str] = heard) -> None:
            heard.append(words)
            if len(heard) == n + 1:
                raise StopError

        if n <= steps.index(CHARGING):
            with pytest.raises(StopError):
                publish(ledger=place, dataset="d", progress=listen)
            assert charges(place, publish) == 0
        else:
            assert publish(ledger=place, dataset="d", progress=listen) is not None
            assert charges(place, publish) == 1
    plain: list[str] = []
    publish(progress=plain.append)
    assert CHARGING not in plain
