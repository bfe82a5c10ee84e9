"""A page as text that fits a terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable

from pufferdp.basics.words import line_width, number, table, visible
from pufferdp.report.charts import Bars, Chart
from pufferdp.report.page import Block, Figure, Medium, Page, Table


def terminal(page: Page, verbose: bool = False) -> str:
    """The verdict and what opens it, then its words and tables, with an empty line between them."""
    medium = Medium.VERBOSE if verbose else Medium.BRIEF
    shown = [block for section in page.sections_for(medium) for block in section.blocks]
    first = ("\n".join(map(wrap_sentence, sentences)) for sentences in (page.verdict, page.opening))
    return visible("\n\n".join([*filter(None, first), *_each(shown)]))


def blocks_text(blocks: Iterable[Block]) -> str:
    """Parts of a page on their own."""
    return "\n\n".join(_each(block for block in blocks if Medium.BRIEF in block.media))


def wrap_sentence(sentence: str) -> str:
    """A sentence in lines that fit."""
    return textwrap.fill(sentence, line_width())


def _each(blocks: Iterable[Block]) -> list[str]:
    return [_block(block) for block in blocks]


def _block(block: Block) -> str:
    if isinstance(block, Figure):
        return _bars(block.make())
    if isinstance(block, Table):
        cells = table(list(block.head), [list(row) for row in block.rows], left=block.left, least=block.least)
        return f"{cells}\n{block.below}" if block.below else cells
    if block.heading:
        items = (textwrap.fill(sentence, line_width(), subsequent_indent="  ") for sentence in block.sentences)
        return "\n".join([block.heading, *items])
    return "\n".join(map(wrap_sentence, block.sentences))


def bars(page: Page, width: int = 60) -> str:
    """The first figure of a page as bars on a logarithmic scale, striped without a guarantee; nothing without one."""
    figures = (block for section in page.sections for block in section.blocks if isinstance(block, Figure))
    first = next(figures, None)
    return "" if first is None else _bars(first.make(), width)


def _bars(chart: object, width: int = 60) -> str:
    assert isinstance(chart, Chart)
    layers = [layer for layer in chart.layers if isinstance(layer, Bars)]
    logs = [math.log10(layer.values[0]) for layer in layers]
    low, high = min(logs, default=0.0) - 0.3, max(logs, default=0.0)
    wide = max(map(len, chart.y.names), default=0)
    lines = [f"{chart.x.name.partition(' (')[0]} (logarithmic)"]
    for layer, log in reversed(list(zip(layers, logs, strict=True))):
        bar = max(1, round((log - low) / max(high - low, 1e-9) * min(width, line_width() - 36)))
        mark, note = ("░", "  no guarantee") if layer.kind == "hatched" else ("█", "")
        name = chart.y.names[int(layer.at[0])].ljust(wide)
        lines.append(f"{name}  {mark * bar} {number(layer.values[0])}{note}")
    return "\n".join(lines)
