"""Cross tables: how often each pair of states of two columns occurs together.

A record is then the pair, and the guarantee is about both: an adversary who knows how moods follow each other and where
a person goes knows more than from either column alone. So the model must be about pairs, and its states are called
first|second (docs/guide/questions.md). A cross table is their histogram; one record that changes moves it by 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pufferdp.basics.errors import QueryError
from pufferdp.models.base import PAIR_MARK, Model
from pufferdp.publish.answers.queries import HistogramQuery, Query
from pufferdp.publish.tables.classic import ClassicQuestion


@dataclass(frozen=True)
class CrossQuestion(ClassicQuestion):
    """The histogram of pairs, shown with a row for each state of the first column."""

    query: Query = field(default_factory=HistogramQuery)

    @classmethod
    def parse(cls, text: str, clip: tuple[float, float] | None) -> CrossQuestion:
        """Read ``cross``; the range is for others that are asked with it."""
        if text != "cross":
            raise QueryError(f"query is {text!r}; cross takes nothing after it", value=text)
        return cls()

    @property
    def name(self) -> str:
        """The command line's spelling."""
        return "cross"

    def check(self, model: Model) -> None:
        """Refuse a model whose states are no pairs."""
        super().check(model)
        if any(label.count(PAIR_MARK) != 1 for label in model.labels):
            raise QueryError(
                "cross is a table of pairs of states, and the model is about single ones: a model of one column says "
                "nothing of the other; fit it with column='first,second'",
                value=self.name,
            )


def cross_table(
    labels: Sequence[str], numbers: Sequence[object], mark: str = PAIR_MARK
) -> tuple[list[str], dict[str, list[object]]]:
    """States of the second column, and a row of numbers for each of the first; None where a pair is not in the model.

    >>> cross_table(("a|x", "a|y", "b|y"), (1, 2, 3))
    (['x', 'y'], {'a': [1, 2], 'b': [None, 3]})
    """
    pairs = [label.partition(mark)[::2] for label in labels]
    columns = list(dict.fromkeys(second for _, second in pairs))
    rows: dict[str, list[object]] = {first: [None] * len(columns) for first, _ in pairs}
    for (first, second), number in zip(pairs, numbers, strict=True):
        rows[first][columns.index(second)] = number
    return columns, rows
