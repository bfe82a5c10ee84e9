"""The releases of a data set as rows, the newest first."""

from __future__ import annotations

from pathlib import Path

from pufferdp import Charge, Ledger, MarkovChain, plan
from pufferdp.ledger.history import latest
from pufferdp.publish.answers.kind import KIND, AnswerProblem

CHAIN = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]])


def test_rows_come_newest_first(tmp_path: Path) -> None:
    made = plan(CHAIN, "histogram", epsilon=0.5, length=20)
    with Ledger(tmp_path / "books.db", create=True) as books:
        books.create("a", model=CHAIN, budget=5.0)
        books.create("b", model=CHAIN, budget=5.0)
        assert latest(books, "a") == []
        first = books.charge("a", KIND.charge(AnswerProblem(problem=made.problem), made.best.calibration))
        books.charge("b", Charge(kind="dp", dp_loss=0.2, longest=20))
        second = books.charge("a", Charge(kind="dp", dp_loss=0.1, longest=20))
        rows = latest(books, "a")
        assert latest(books, "a", most=1) == rows[:1]
    assert [(row["position"], row["head"]) for row in rows] == [(2, second.head), (1, first.head)]
    assert (rows[0]["kind"], rows[0]["dp_loss"], rows[0]["epsilon"]) == ("dp", 0.1, None)
    assert (rows[1]["query"], rows[1]["mechanism"], rows[1]["epsilon"]) == ("histogram", made.best.mechanism, 0.5)
