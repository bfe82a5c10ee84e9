"""How results look in a notebook: their table and a small figure, as HTML. Without matplotlib the table alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from html import escape

from pufferdp.errors import ParameterError
from pufferdp.report.blocks import Block, Shown, Table


def page_html(subject: object) -> str:
    """A plan, a release, a series, a flow or a certificate in brief: what is promised, and how accurate it is."""
    from pufferdp.report.subjects import page_of

    page = page_of(subject, brief=True)
    warnings = [f"Warning: {warning}" for warning in page.warnings]
    blocks = (block for section in page.sections for block in section.blocks)
    return notebook_html(page.title, [page.lead, *warnings, *blocks])


def notebook_html(title: str, blocks: Iterable[Block]) -> str:
    """A title and what stands below it. Everything is escaped; nothing is loaded and nothing runs."""
    shown = "".join(_block(block) for block in blocks)
    return f'<div style="max-width: 50em"><p><strong>{escape(title)}</strong></p>{shown}</div>'


def _block(block: Block) -> str:
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Shown):
        # Several figures of one notebook share a page, and their ids must differ.
        name = "chart-" + hashlib.sha256(repr(block.chart).encode()).hexdigest()[:12]
        try:
            return f'<div style="max-width: 40em">{block.chart.svg(name)}</div>'
        except ParameterError:  # no matplotlib: the table has it all
            return ""
    return f"<p>{escape(block)}</p>"


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.head)
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in table.rows
    )
    caption = f"<caption>{escape(table.caption)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
