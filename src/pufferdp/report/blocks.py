"""What stands in a report or a notebook: paragraphs, tables and charts."""

from __future__ import annotations

from dataclasses import dataclass

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
