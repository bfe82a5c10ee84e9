"""Fifty processes against one budget, half of them killed with SIGKILL at random points; two rounds on each engine.

``make soak`` runs two hundred.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pufferdp import Ledger
from tests.ledger.conftest import fresh_database
from tests.ledger.forks import in_child
from tests.ledger.races import CHAIN, race

ROUNDS = 2

pytestmark = [pytest.mark.races, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]


def test_sqlite_keeps_the_budget_whoever_dies(tmp_path: Path) -> None:
    killed = sum(race(str(tmp_path / f"{n}.db"), tmp_path / f"answers{n}", n) for n in range(ROUNDS))
    assert killed >= 3 * ROUNDS  # otherwise little was tried


def test_postgresql_keeps_the_budget_whoever_dies(postgres: str, tmp_path: Path) -> None:
    place = fresh_database(postgres)
    killed = sum(race(place, tmp_path / f"answers{n}", n) for n in range(ROUNDS))
    assert killed >= 3 * ROUNDS


def test_ledgers_made_at_the_same_moment(place: str) -> None:
    """Several processes make the tables and a data set each: every one succeeds, once."""
    import multiprocessing

    def make(n: int) -> None:
        with Ledger(place, create=True) as ledger:
            ledger.create(f"set {n}", model=CHAIN, budget=1.0)
        os._exit(0)

    workers = [multiprocessing.get_context("fork").Process(target=make, args=(n,)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 8
    with Ledger(place) as ledger:
        assert len(ledger.names()) == 8
        assert ledger.verify().valid


def test_an_open_ledger_survives_a_fork(place: str) -> None:
    """A child does not use its parent's connection."""
    from pufferdp import Charge

    charge = Charge(kind="dp", dp_loss=0.001, longest=50)
    with Ledger(place, create=True) as ledger:
        ledger.create("raced", model=CHAIN, budget=1.0)
        ledger.charge("raced", charge)
        assert in_child(lambda: ledger.charge("raced", charge)) == 0
        ledger.charge("raced", charge)
        assert ledger.dataset("raced").releases == 3
        assert ledger.verify().valid
