"""Whether released numbers are accurate enough to be useful: one rule for plans, answers, tables and flows.

Everything here follows from what a plan or a certificate states, so that a verifier can repeat it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from pufferdp.basics.words import number

LEAST_USELESS: Final = 0.5
"""An error bound of this share of the range of an answer, or more, makes the answer useless: an interval of that width
around the middle covers the whole range."""
WIDEST_INTERVAL: Final = 0.9
"""A share whose interval covers this part of [0, 1], or more, is not estimable."""
NOT_ESTIMABLE: Final = "not estimable: the noise leaves an interval that covers nearly all of [0, 1]"
_NOUNS: Final = {
    **dict.fromkeys(("histogram", "transitions", "cross"), "count"),
    **dict.fromkeys(("frequency", "flow"), "share"),
    "function": "number",
}
"""What the numbers of a query are called, where its own name does not say it."""
_IN_RANGE: Final = {"sum": 1.0, "mean": 1.0, "variance": 0.25}
"""Queries whose answers lie in a range, and its width, as a share of what one record moves times the records."""
_REMEDY: Final = "Raise ε or use more records."
_FLOW_REMEDY: Final = "Raise τ, lower η or use more transitions."
_TABLE_REMEDY: Final = "Raise ε, use more records or ask fewer queries."


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether an answer is useful, with the error bound that decides and the sentence that says so."""

    query: str
    useful: bool | None
    """None where the range of the answer is not known."""
    error: float
    """Every number of the answer errs by less, with the probability that accuracy is stated for."""
    largest: float | None
    """What the error is compared with: the largest count, share or rank, or the width of the range of a sum or mean."""
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON of plans and releases."""
        return asdict(self)


def answer_verdict(
    query: str, *, numbers: int, lipschitz: float, records: int, alpha: float, beta: float, exact: bool = False
) -> Verdict:
    """The verdict on one answer of so many numbers, from so many records; 0 where their number is open."""
    if exact:
        sentence = "Exact: the answer does not depend on any secret, so no noise is needed."
        return Verdict(query=query, useful=True, error=alpha, largest=None, sentence=sentence)
    kind = query.partition(":")[0]
    widths = {"count": float(records), "histogram": float(records), "frequency": 1.0}
    largest = widths.get(kind, records * lipschitz * _IN_RANGE.get(kind, 0.0))
    return _judge(query, alpha, beta, largest or None, several=numbers > 1, remedy=_REMEDY)


def certified_verdict(certificate: Mapping[str, Any]) -> Verdict:
    """The verdict on the answer of a certificate."""
    query = certificate["query"]
    return answer_verdict(
        query["name"],
        numbers=query["coordinates"],
        lipschitz=query["lipschitz"],
        records=certificate["data"]["records"],
        exact=certificate["noise"]["scale"] == 0,
        **certificate["accuracy"],
    )


def table_verdicts(questions: list[dict[str, Any]], records: int | None, grouped: bool) -> list[Verdict]:
    """The verdict on each question of a table, as its certificate has them, for groups of so many records."""
    return [_question_verdict(question, records or 0, grouped) for question in questions]


def certified_table_verdicts(certificate: Mapping[str, Any]) -> list[Verdict]:
    """The verdict on each question of a certificate, for a group of the average number of records."""
    groups = certificate["groups"]
    return table_verdicts(
        certificate["questions"], certificate["data"]["records"] // groups["count"], bool(groups["per"])
    )


def flow_verdict(*, alpha: float, beta: float, expected: float, guess: float | None) -> Verdict:
    """The verdict on a flow: it is useful where it errs less than the model's own flow, which reads no data."""
    if guess is None or guess > expected:
        return _judge("flow", alpha, beta, 1.0, several=True, remedy=_FLOW_REMEDY)
    sentence = (
        f"Not useful at this τ: the model's own flow, published without reading the data, errs by {number(guess)} in "
        f"all shares together, and this flow by {number(expected)}. {_FLOW_REMEDY}"
    )
    return Verdict(query="flow", useful=False, error=alpha, largest=1.0, sentence=sentence)


def estimable_share(value: float, low: float, high: float) -> float:
    """The share in its interval that is nearest to an unbiased estimate; nan where it is not estimable.

    An estimate that lies outside of its interval by more than the interval is wide is not one either.
    """
    nearest = min(max(value, low), high)
    if not high - low < WIDEST_INTERVAL or not abs(value - nearest) <= high - low:
        return math.nan
    return nearest


def _question_verdict(question: Mapping[str, Any], size: int, grouped: bool) -> Verdict:
    name, alpha, divided = question["name"], question["accuracy"]["alpha"], question["noise"]["divided"]
    # The most that one record moves a sum, or a number before it is divided.
    width = question["noise"]["scale"] * question["dp_loss"] * _IN_RANGE[name] if name in _IN_RANGE else 1.0
    verdict = _judge(
        name,
        alpha / size if divided and size else alpha,
        question["accuracy"]["beta"],
        (width if divided else size * width) if size else None,
        several=len(question["labels"]) > 1,
        ranks=question["accuracy"]["about"] == "ranks",
        in_table=True,
        group="" if not grouped else f"a group of {size:,} records" if divided and size else "a group",
        over="/records" if divided and not size else "",
        remedy=_TABLE_REMEDY,
    )
    if not grouped or verdict.useful is False:
        return verdict  # otherwise it is on a group of the average size, and others may be smaller
    smaller = f"Not useful in groups of fewer than {math.ceil(alpha / LEAST_USELESS / width):,} records."
    return replace(verdict, sentence=f"{verdict.sentence} {smaller}")


def _judge(
    query: str,
    error: float,
    beta: float,
    largest: float | None,
    *,
    several: bool,
    remedy: str,
    ranks: bool = False,
    in_table: bool = False,
    group: str = "",
    over: str = "",
) -> Verdict:
    """The verdict on numbers that err by less than ``error``, where they vary by ``largest``."""
    kind = query.partition(":")[0]
    noun, in_range = _NOUNS.get(kind, kind), kind in _IN_RANGE
    sure = f"{100 * (1 - beta):.4g} %"
    how_far = f"{number(error)}{over}{' ranks' * ranks}"
    share = None if largest is None else error / largest
    useful = None if share is None else share < LEAST_USELESS
    if share is None or useful:
        asked = f" ({query})" if in_table and query != noun else ""
        subject = f"{'every' if several else 'the'} {noun}{asked}{f' of {group}' * bool(group)}"
        whole = "its range" if in_range else "the whole" if noun == "share" else f"{largest or 0:,.0f} records"
        part = "" if share is None else f" ({percent(share)} of {whole})"
        opening = "Accurate enough to be useful" if useful else "Error bound"
        sentence = f"{opening}: with {sure} probability {subject} is within {how_far} of the true {noun}{part}."
    else:
        of_whole = f"the range of the {noun}" if in_range else f"the largest possible {noun}"
        of_whole = "the number of records" if ranks else of_whole
        more = f"{percent(share)} of" if share < 1 else "as large as" if share == 1 else "larger than"
        bound = f"error bound{f' of {query}' * in_table}{f' in {group}' * bool(group)} ({how_far})"
        guarantee = "τ" if kind == "flow" else "ε"
        sentence = (
            f"Not useful at this {guarantee}: the {sure} {bound} is {more} {of_whole} ({number(largest)}). {remedy}"
        )
    return Verdict(query=query, useful=useful, error=error, largest=largest, sentence=sentence)


def percent(share: float) -> str:
    """A share in percent with one decimal."""
    return f"{number(round(100 * share, 1))} %" if share >= 0.0005 or not share else "less than 0.1 %"
