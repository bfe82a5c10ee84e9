"""The history of a data set: after each release what the ledger itself said then."""

from __future__ import annotations

from pathlib import Path

from pufferdp import Charge, FlowBudget, Ledger, MarkovChain, release
from pufferdp.ledger.flow_budget import flow_charge
from pufferdp.ledger.history import history
from pufferdp.models.files.json import model_digest
from pufferdp.report.pages.ledger import budget_over_time
from tests.tolerance import both_upper_ends, safe_loss

CHAIN = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]])


def test_every_total_is_the_one_of_its_moment(tmp_path: Path) -> None:
    with Ledger(tmp_path / "books.db", create=True) as books:
        books.create("week", model=CHAIN, budget=20.0)
        assert history(books, "week") == []
        said = []
        for n in range(5):
            receipt = books.charge("week", Charge(kind="dp", dp_loss=0.01 * (n + 1), longest=10 + n))
            now = books.dataset("week")
            said.append((n + 1, receipt.charged, now.spent_dp, both_upper_ends(now.leakage)))
        found = history(books, "week")
        assert [(r["release"], r["charged"], r["spent_dp"], r["leakage"]) for r in found] == said
        assert {r["kind"] for r in found} == {"dp"}
        few = history(books, "week", most=2)
        assert [r["release"] for r in few] == [1, 5]
        assert few[-1] == found[-1]


def test_releases_of_our_own(tmp_path: Path) -> None:
    """The first keeps its own guarantee; from the second on it is the curve."""
    path = tmp_path / "series.csv"
    path.write_text("state\n" + "0\n0\n1\n" * 10, encoding="utf-8")
    with Ledger(tmp_path / "books.db", create=True) as books:
        books.create("week", model=CHAIN, budget=9.0)
        said = []
        for _ in range(2):
            release(path, model=CHAIN, column="state", query="count:1", epsilon=0.5, ledger=books, dataset="week")
            said.append(both_upper_ends(books.dataset("week").leakage))
        found = history(books, "week")
        assert [one["leakage"] for one in found] == said
        assert found[0]["leakage"] == safe_loss(0.5)
        assert {one["kind"] for one in found} == {"additive"}


def test_flows(tmp_path: Path) -> None:
    with Ledger(tmp_path / "books.db", create=True) as books:
        books.create("moves", model=CHAIN, budget=FlowBudget(tau=0.5, eta=0.05, privacy="joint"))
        said = []
        for tau in (0.1, 0.2):
            charge = flow_charge(
                model=model_digest(CHAIN),
                guarantee=FlowBudget(tau=tau, eta=0.05, privacy="joint"),
                add=False,
                mechanism="flow-simplex",
                kappa=None,
                sigma=0.1,
                lengths=[(30, 1)],
            )
            books.charge("moves", charge)
            said.append(books.dataset("moves").spent_tau)
        found = history(books, "moves")
        assert [one["spent_tau"] for one in found] == said
        chart = budget_over_time(books.dataset("moves").to_dict(), found)
        assert "0.3 of 0.5" in chart.alt
        assert chart.y.name == "total variation"
