"""Redactions charged to a ledger: before anything is drawn, with their facts, together with other releases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pufferdp
from pufferdp.basics.errors import BudgetError, ParameterError, RefusedError
from pufferdp.ledger import hash_chain
from pufferdp.ledger.charge import Charge
from pufferdp.ledger.ledger import Ledger
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.redaction.certificate import rows_text
from tests.oracles import redaction as oracle
from tests.tolerance import safe_loss

CHAIN = MarkovChain(transition=[[0.95, 0.05], [0.4, 0.6]], states=("rest", "active"))


@pytest.fixture
def books(tmp_path: Path) -> Path:
    values = [CHAIN.labels[int(v)] for v in np.random.default_rng(1).random(60) < 0.3]
    (tmp_path / "d.csv").write_text("activity\n" + "\n".join(values) + "\n")
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", model=CHAIN, adversary="bdp", budget=2.0)
        ledger.create("alone", model=CHAIN, adversary="pufferfish", budget=2.0)
    return tmp_path


def redact(books: Path, out: str = "o.csv", dataset: str = "week", **more: Any) -> pufferdp.Redaction:
    usual = {"model": CHAIN, "column": "activity", "private": [30], "epsilon": 0.8, "method": "window"}
    paid = {"ledger": books / "books.db", "dataset": dataset}
    return pufferdp.redact(books / "d.csv", out=books / out, **{**usual, **paid, **more})


def state(books: Path, dataset: str = "week") -> Any:
    with Ledger(books / "books.db") as ledger:
        return ledger.dataset(dataset)


def count(books: Path, **more: Any) -> pufferdp.Release:
    paid = {"ledger": books / "books.db", "dataset": "week"}
    usual = {"column": "activity", "query": "count:active", "epsilon": 0.5, "mechanism": "curve-tight"}
    return pufferdp.release(books / "d.csv", model=CHAIN, **{**usual, **paid, **more})


@pytest.mark.slow
def test_a_window_adds_what_it_leaks_and_leaves_room(books: Path) -> None:
    result = redact(books)
    found = state(books)
    assert (found.private, found.releases) == ("row 30", 1)
    assert found.leakage == pytest.approx(result.leakage) and result.leakage <= 0.8
    count(books)
    both = state(books)
    # The bound at the loss whose leakage is .5.
    assert both.leakage - result.leakage == safe_loss(0.5)
    assert result.certificate is not None and result.certificate.ledger is not None
    head = result.certificate.ledger.head
    assert head == found.head
    assert pufferdp.verify(result.certificate, head=head).valid
    assert "not as" in pufferdp.verify(result.certificate, head=both.head).problems[0]
    with Ledger(books / "books.db") as ledger:
        checked = ledger.verify(head)
        assert checked.valid
        assert checked.unchecked == ()
    with Ledger(books / "books.db") as ledger:
        ledger.create("once", model=CHAIN, adversary="bdp", budget=1.5 * result.leakage)
    redact(books, "p.csv", dataset="once")
    with pytest.raises(BudgetError, match="redact more"):
        redact(books, "q.csv", dataset="once")
    assert not (books / "q.csv").exists()


@pytest.mark.slow
def test_three_regions_close_the_data_set(books: Path) -> None:
    result = redact(books, method="3r-optimal", epsilon=1.2)
    assert any((b.marks != b.marks[:, :1]).any() for b in result.blocks)
    assert state(books).leakage == pytest.approx(result.leakage)
    with pytest.raises(BudgetError, match="the tilted model"):
        count(books)
    with Ledger(books / "books.db") as ledger:
        assert ledger.verify().valid
        assert ledger.verify().unchecked == ()
    count(books, ledger=None, dataset=None)
    with Ledger(books / "books.db") as ledger:
        ledger.create("after a count", model=CHAIN, adversary="bdp", budget=2.0)
    count(books, dataset="after a count")
    with pytest.raises(BudgetError, match="method='window'"):
        redact(books, "p.csv", dataset="after a count", method="3r-optimal", epsilon=1.2)
    redact(books, "p.csv", dataset="after a count")


def test_what_the_tilted_model_allows_after_three_regions(books: Path) -> None:
    """The way out that the refusal names: a data set of the tilted model with the budget that is left."""
    from pufferdp.data.layout import Layout
    from pufferdp.publish.redaction.tilt import tilted_from_file

    result = redact(books, method="3r-optimal", epsilon=1.2, adversary="pufferfish", dataset="alone")
    tilted = tilted_from_file(result, books / "o.csv", Layout(column="activity"))
    true, seen = ((books / name).read_text().split()[1:] for name in ("d.csv", "o.csv"))
    marked = [f"{n},{v}" for n, (v, w) in enumerate(zip(true, seen, strict=True), start=1) if w == "*"]
    (books / "hidden.csv").write_text("row,activity\n" + "\n".join(marked) + "\n")
    with Ledger(books / "books.db") as ledger:
        ledger.create("rest", model=tilted, adversary="pufferfish", budget=2.0 - result.leakage)
    release = pufferdp.release(
        books / "hidden.csv",
        model=tilted,
        column="activity",
        id="row",
        query="count:active",
        epsilon=0.5,
        adversary="pufferfish",
        ledger=books / "books.db",
        dataset="rest",
    )
    assert pufferdp.verify(release.certificate).valid


@pytest.mark.parametrize("dataset", ["week", "alone"])
@pytest.mark.parametrize("method", ["window", pytest.param("3r-optimal", marks=pytest.mark.slow)])
def test_a_second_redaction_designed_together_takes_the_place_of_the_first(
    books: Path, method: str, dataset: str
) -> None:
    how = {"dataset": dataset, "adversary": "bdp" if dataset == "week" else "pufferfish"}
    first = redact(books, method=method, **how)
    with pytest.raises(RefusedError, match="design both redactions together"):
        redact(books, "p.csv", private=[31], **how)
    assert not (books / "p.csv").exists()
    both = {"private": [31], "after": first.certificate, "published": books / "o.csv", "epsilon": 1.8}
    second = redact(books, "p.csv", method=method, **both, **how)
    found = state(books, dataset)
    assert (found.private, found.releases) == ("rows 30-31", 2)
    assert found.leakage == pytest.approx(second.leakage) and first.leakage <= second.leakage <= 1.8
    assert second.certificate is not None and second.certificate.ledger is not None
    content = json.loads(json.dumps(second.certificate.to_dict()))
    assert "this and the earlier redacted series" in content["guarantee"]["statement"]
    assert pufferdp.verify(content, head=found.head).valid
    with Ledger(books / "books.db") as ledger:
        assert ledger.verify(found.head).valid
        assert ledger.verify().unchecked == ()
    # The first certificate again: it is not the last redaction any more.
    with pytest.raises(RefusedError, match="the last redaction"):
        redact(books, "q.csv", method=method, **{**both, "private": [31]}, **how)


def test_a_second_window_and_a_count_leak_no_more_than_the_total(tmp_path: Path) -> None:
    """Five records, all outputs: record 2 was hidden, then 3 as well, and a noisy count was released besides."""
    chain_ = MarkovChain(transition=[[0.8, 0.2], [0.4, 0.6]])
    (tmp_path / "d.csv").write_text("x\n0\n1\n0\n0\n1\n")
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("five", model=chain_, adversary="pufferfish", budget=50.0)
        usual = {"model": chain_, "column": "x", "method": "window", "adversary": "pufferfish"}
        paid: dict[str, Any] = {"ledger": ledger, "dataset": "five"}
        data, one, two = (tmp_path / f"{name}.csv" for name in ("d", "one", "two"))
        first = pufferdp.redact(data, private=[2], epsilon=0.4, out=one, **usual, **paid)
        ledger.charge("five", Charge(kind="dp", dp_loss=1.0, longest=5))
        second = pufferdp.redact(
            data, private=[3], epsilon=0.9, out=two, after=first.certificate, published=one, **usual, **paid
        )
        total = ledger.dataset("five").leakage
    marks = np.array(second.probabilities())
    assert set(marks.ravel().tolist()) <= {0.0, 1.0}
    for p in (1, 2):
        true = oracle.noisy_count_after(chain_.transition, chain_.stationary, marks, p, 1, 1.0)
        assert second.leakage < true <= total


def test_nothing_is_charged_for_what_is_refused(books: Path) -> None:
    before = state(books).head
    for more, error in (
        ({"out": "o.xlsx"}, ParameterError),
        ({"out": "nowhere/o.csv"}, ParameterError),
        ({"out": "d.csv"}, ParameterError),
        ({"private": [99]}, ParameterError),
        ({"mark": "rest"}, ParameterError),
        ({"adversary": "pufferfish"}, RefusedError),
        ({"dataset": "alone", "adversary": "pufferfish", "known": [3]}, ParameterError),
        ({"model": MarkovChain(transition=[[0.5, 0.5], [0.4, 0.6]], states=CHAIN.states)}, RefusedError),
        ({"epsilon": 2.5}, BudgetError),
    ):
        if "epsilon" in more:
            more = {**more, "method": "window", "private": [30]}
            with Ledger(books / "books.db") as ledger:
                ledger.create("small", model=CHAIN, adversary="bdp", budget=0.01)
            more["dataset"] = "small"
        with pytest.raises(error):
            redact(books, **more)
    assert state(books).head == before
    assert not (books / "o.csv").exists()


def test_a_forged_charge_or_certificate_is_found(books: Path) -> None:
    certificate = redact(books).certificate
    assert certificate is not None
    raw = certificate.to_dict()

    def changed(change: Any) -> tuple[str, ...]:
        content = json.loads(json.dumps(raw))
        change(content)
        content["sha256"] = content_hash(content)
        return pufferdp.verify(content).problems

    assert "not the hash of a row" in changed(lambda c: c["ledger"].update(position=2))[0]
    assert any("not the hash of a row" in p for p in changed(lambda c: c["guarantee"].update(epsilon=0.9)))
    assert any("each private" in p for p in changed(lambda c: c["data"].update(private=[30, 31])))
    assert any("the rows themselves" in p for p in changed(lambda c: c["guarantee"].update(private=[31])))
    # A charge of less than the design leaks, with every hash made anew.
    with Ledger(books / "books.db") as ledger:
        with ledger.store.writing() as session:
            ((content,),) = list(session.rows("SELECT content FROM ledger_problems"))
            less = json.loads(content)
            less["leakage"], less["epsilon"] = less["leakage"] / 2, less["epsilon"] / 2
            charge = Charge.from_content(json.dumps(less), certificate.model_sha256, "bdp")
            ((definition,),) = list(session.rows("SELECT definition FROM ledger_datasets WHERE name = 'week'"))
            ((created,),) = list(session.rows("SELECT created FROM ledger_entries"))
            ((identity,),) = list(session.rows("SELECT identity FROM ledger_entries"))
            head = hash_chain.link(hash_chain.digest(definition), 1, created, charge.problem, identity)
            session.run("UPDATE ledger_problems SET content = ?, sha256 = ?", charge.content, charge.problem)
            session.run("UPDATE ledger_entries SET problem = ?, hash = ?", charge.problem, head)
        assert any("leakage is" in problem and "recomputed it is" in problem for problem in ledger.verify().problems)


def test_rows_in_words() -> None:
    assert rows_text([7]) == "row 7"
    assert rows_text([5, 3, 4, 9]) == "rows 3-5 and 9"
    assert rows_text([1, 3, 5]) == "rows 1, 3 and 5"
