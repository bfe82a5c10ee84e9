"""Which page belongs to what: results by the entry points ``pufferdp.pages``, certificates by their schema."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.errors import ParameterError
from pufferdp.basics.paged import page_maker
from pufferdp.basics.words import a_kind
from pufferdp.publish.certificate import (
    FLOW_SCHEMA,
    MEASUREMENT_SCHEMA,
    REDACTION_SCHEMA,
    SCHEMA,
    SERIES_SCHEMA,
    TABLE_SCHEMA,
)
from pufferdp.report.page import IN_WORDS, Block, Page, Words

if TYPE_CHECKING:
    from pufferdp.assess.comparison import Comparison

_PAGES: Final = {
    SCHEMA: "answers",
    SERIES_SCHEMA: "flips",
    FLOW_SCHEMA: "flows",
    REDACTION_SCHEMA: "redaction",
    MEASUREMENT_SCHEMA: "measurements",
    TABLE_SCHEMA: "tables",
}
"""The module of ``report.pages`` for each schema; only the one that is needed is loaded."""


def page_of(subject: object, comparison: Comparison | None = None) -> Page:
    """What there is to say about a result or a certificate; with a comparison, what leaks otherwise as well."""
    maker = certificate_page if isinstance(subject, dict) else page_maker(type(subject))
    if maker is None:
        raise ParameterError(f"there is no report of {a_kind(subject)}; give a plan, a release or a certificate")
    page = maker(subject) if comparison is None else maker(subject, comparison)
    assert isinstance(page, Page)
    return page


def certificate_page(subject: Any, comparison: Comparison | None = None) -> Page:
    """The page of a certificate, or of a release with its certificate, by its schema."""
    raw = subject if isinstance(subject, dict) else getattr(subject, "certificate", subject).to_dict()
    page: Page = _module(raw).page_from_certificate(raw, comparison)
    return page


def guarantee_of(certificate: dict[str, Any]) -> tuple[Block, ...]:
    """What a certificate that holds guarantees: what ``verify`` prints."""
    page = certificate_page(certificate)
    stated = next(section.blocks for section in page.sections if section.title == IN_WORDS)
    return (Words(page.opening), *stated) if page.opening else stated


def _module(certificate: dict[str, Any]) -> Any:
    schema = certificate.get("schema")
    if schema not in _PAGES:
        raise ParameterError(f"schema is {schema!r}; a certificate has one of {', '.join(_PAGES)}", value=schema)
    return import_module(f"pufferdp.report.pages.{_PAGES[schema]}")
