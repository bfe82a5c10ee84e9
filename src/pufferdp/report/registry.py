"""Which page belongs to what: results by the entry points ``pufferdp.pages``, certificates by their schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pufferdp.assess.comparison import Comparison
from pufferdp.basics.errors import ParameterError
from pufferdp.basics.paged import page_maker
from pufferdp.basics.words import a_kind, number, table
from pufferdp.publish.certificate import (
    FLOW_SCHEMA,
    MEASUREMENT_SCHEMA,
    REDACTION_SCHEMA,
    SCHEMA,
    SERIES_SCHEMA,
    TABLE_SCHEMA,
)
from pufferdp.report.page import Block, Page
from pufferdp.report.pages.answers import answer_guarantee, answer_page
from pufferdp.report.pages.flips import flip_guarantee, series_page
from pufferdp.report.pages.flows import flow_guarantee, flow_page
from pufferdp.report.pages.measurements import measurement_certificate_page, measurement_guarantee
from pufferdp.report.pages.redaction import redaction_certificate_page, redaction_guarantee
from pufferdp.report.pages.tables import table_guarantee, table_page
from pufferdp.report.text import wrap_sentence

_PAGES: dict[str, Callable[[dict[str, Any], Any], Page]] = {
    SCHEMA: answer_page,
    SERIES_SCHEMA: series_page,
    FLOW_SCHEMA: flow_page,
    REDACTION_SCHEMA: redaction_certificate_page,
    MEASUREMENT_SCHEMA: measurement_certificate_page,
    TABLE_SCHEMA: table_page,
}
_GUARANTEES: dict[str, Callable[[dict[str, Any]], tuple[Block, ...]]] = {
    SCHEMA: answer_guarantee,
    SERIES_SCHEMA: flip_guarantee,
    FLOW_SCHEMA: flow_guarantee,
    REDACTION_SCHEMA: redaction_guarantee,
    MEASUREMENT_SCHEMA: measurement_guarantee,
    TABLE_SCHEMA: table_guarantee,
}


def page_of(subject: object, comparison: Comparison | None = None) -> Page:
    """What there is to say about a result or a certificate; with a comparison, what leaks otherwise as well."""
    if isinstance(subject, dict):
        return certificate_page(subject, comparison)
    maker = page_maker(type(subject))
    if maker is None:
        raise ParameterError(f"there is no report of {a_kind(subject)}; give a plan, a release or a certificate")
    page = maker(subject) if comparison is None else maker(subject, comparison)
    assert isinstance(page, Page)
    return page


def certificate_page(certificate: Any, comparison: Comparison | None = None) -> Page:
    """The page of a certificate, by its schema."""
    raw = certificate if isinstance(certificate, dict) else certificate.to_dict()
    schema = raw.get("schema")
    if schema not in _PAGES:
        raise ParameterError(f"schema is {schema!r}; a certificate has one of {', '.join(_PAGES)}", value=schema)
    return _PAGES[schema](raw, comparison)


def guarantee_of(certificate: dict[str, Any]) -> tuple[Block, ...]:
    """What a certificate that holds guarantees: what ``verify`` prints."""
    return _GUARANTEES[certificate["schema"]](certificate)


_MOST_NAMED = 10
"""Numbers of an answer that are written out."""


def vouched_words(vouched: Mapping[str, Any]) -> str:
    """The numbers that ``verify`` vouches for, written out so that nobody reads others beside them."""
    if "rows" in vouched:
        rows = vouched["rows"]
        more = f"\n… and {vouched['groups'] - len(rows)} more" if vouched["groups"] > len(rows) else ""
        cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
        return f"Table:\n{table(vouched['columns'], cells)}{more}"
    if "flow" in vouched:
        cells = [[name, *map(number, row)] for name, row in zip(vouched["labels"], vouched["flow"], strict=True)]
        return f"Flow:\n{table(['', *vouched['labels']], cells)}"
    if "answer" in vouched:
        answer, estimate = (_written(vouched.get(name), vouched.get("labels")) for name in ("answer", "estimate"))
        same = vouched.get("estimate") in (None, vouched["answer"])
        return wrap_sentence(f"Answer: {answer}" + ("." if same else f"; estimate: {estimate}."))
    if "groups" in vouched:
        return wrap_sentence(
            f"A table of {vouched['groups']:,} rows with the SHA-256 {vouched['sha256']}: "
            "give verify the table to compare the two."
        )
    return f"A series of {vouched['records']:,} records; the certificate has their distribution, and not the records."


def _written(numbers: Any, labels: Sequence[str] | None) -> str:
    """Each number with all its digits, and its label where there are several."""
    if not isinstance(numbers, list):
        return str(numbers)
    named = labels is not None and len(labels) == len(numbers)
    each = [f"{name} {n}" for name, n in zip(labels or (), numbers, strict=True)] if named else list(map(str, numbers))
    more = f" and {len(each) - _MOST_NAMED} more" if len(each) > _MOST_NAMED else ""
    return ", ".join(each[:_MOST_NAMED]) + more
