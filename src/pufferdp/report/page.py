"""What stands in a report or a notebook: paragraphs, tables and charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pufferdp.report.charts import Chart, Panels


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells with a heading each; the first cell of a row is its heading."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A chart with what is said below it."""

    chart: Chart | Panels
    caption: str


Block = str | Table | Shown


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """A whole report."""

    title: str
    lead: str
    """What it is about, in one line."""
    sections: tuple[Section, ...]
    words: tuple[str, ...]
    """The exact words, for a lawyer."""
    facts: tuple[tuple[str, str], ...]
    """How it was made, for a reviewer."""
    warnings: tuple[str, ...] = ()
    data: dict[str, Any]
    """What is embedded: a certificate, or the plan."""
    certified: bool
    """Whether it is a certificate, which can be verified."""
    kind: str = "plan"
    """What it is otherwise."""
