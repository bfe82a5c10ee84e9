"""Questions by name, as the command line and certificates spell them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pufferdp.basics.errors import QueryError
from pufferdp.publish.answers.queries import NumberQuery, Query, near_query, query_kind, query_kinds
from pufferdp.publish.tables.classic import ClassicQuestion, CrossQuestion
from pufferdp.publish.tables.quantiles import KINDS, QuantileQuestion
from pufferdp.publish.tables.questions import Question
from pufferdp.publish.tables.transitions import TransitionsQuestion

Clip = tuple[float, float] | None


WORDS: Final[dict[str, Callable[[], Question]]] = {"transitions": TransitionsQuestion, "cross": CrossQuestion}
"""Questions that are a word alone. Queries of ``publish/answers`` come before them."""


def parse_question(text: str, *, clip: Clip = None) -> Question:
    """The question of this name; ``clip`` is for those that read numbers."""
    kind, colon, _ = text.partition(":")
    query = query_kind(kind)
    if query is not None:
        return ClassicQuestion(Query.parse(text, clip=clip if issubclass(query, NumberQuery) else None))
    if kind in KINDS:
        return QuantileQuestion.parse(text, clip)
    if kind not in WORDS:
        kinds = {**query_kinds(), **dict.fromkeys(KINDS), **WORDS}
        known = ", ".join(name for name in kinds if name not in ("count", "flow"))
        hint = near_query(text, kinds)
        raise QueryError(f"query is {text!r}; it must be one of count:STATE, {known}, flow{hint}", value=text)
    if colon:
        raise QueryError(f"query is {text!r}; {kind} takes nothing after it", value=text)
    return WORDS[kind]()


def as_queries(query: object) -> Sequence[Any]:
    """One query as a list of one, several as they are."""
    return query if isinstance(query, (list, tuple)) else [query]


def parse_questions(names: Sequence[str | Query | Question], *, clip: Clip = None) -> tuple[Question, ...]:
    """All questions of a table; refuses none, the same twice, and a range that none of them uses."""
    for wrong in (name for name in names if not isinstance(name, (str, Query, Question))):
        raise QueryError(f"query is {wrong!r}; it must be the name of a query, a Query, or a list of them", value=wrong)
    questions = tuple(
        parse_question(name, clip=clip)
        if isinstance(name, str)
        else ClassicQuestion(name)
        if isinstance(name, Query)
        else name
        for name in names
    )
    if not questions:
        raise QueryError("there is no query; a table needs at least one")
    listed = [question.name for question in questions]
    twice = next((name for name in listed if listed.count(name) > 1), None)
    if twice is not None:
        raise QueryError(f"{twice} is asked twice; ask once, with a larger share of split=", value=twice)
    if clip is not None and all(question.clip is None for question in questions):
        raise QueryError(f"clip is for numbers, and {', '.join(listed)} reads none; leave it out", value=clip)
    ranges = {question.clip for question in questions if question.clip is not None}
    if len(ranges) > 1:
        raise QueryError("two queries have different clipping ranges; a table has one")
    return questions
