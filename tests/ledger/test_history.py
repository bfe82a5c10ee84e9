"""The history of a data set: after each release what the ledger itself said then."""

from __future__ import annotations

from pathlib import Path

import pytest

from pufferdp import Charge, Ledger, MarkovChain
from pufferdp.ledger.history import history

CHAIN = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]])


def test_every_total_is_the_one_of_its_moment(tmp_path: Path) -> None:
    with Ledger(tmp_path / "books.db", create=True) as books:
        books.create("week", model=CHAIN, budget=20.0)
        assert history(books, "week") == []
        said = []
        for n in range(5):
            receipt = books.charge("week", Charge(kind="dp", dp_loss=0.01 * (n + 1), longest=10 + n))
            now = books.dataset("week")
            said.append((n + 1, receipt.charged, now.spent_dp, now.leakage))
        found = history(books, "week")
        assert [(r["release"], r["charged"], r["spent_dp"], r["leakage"]) for r in found] == said
        assert {r["kind"] for r in found} == {"dp"}
        few = history(books, "week", most=2)
        assert [r["release"] for r in few] == [1, 5]
        assert few[-1] == found[-1]


def test_without_a_model_and_without_a_bound(tmp_path: Path) -> None:
    with Ledger(tmp_path / "books.db", create=True) as books:
        books.create("unknown", model=None, budget=2.0)
        books.charge("unknown", Charge(kind="dp", dp_loss=0.5, longest=10))
        (one,) = history(books, "unknown")
        assert (one["spent_dp"], one["leakage"]) == (0.5, None)
        # A model that is adopted is no release, and says afterwards what was leaked.
        books.adopt("unknown", CHAIN)
        (one,) = history(books, "unknown")
        assert one["leakage"] == pytest.approx(books.dataset("unknown").leakage)
