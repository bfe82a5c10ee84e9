"""What there is to say about a result: words, tables and figures, each with the media it is for.

A page is data. The terminal, a notebook and a report set the same page: ``report/text.py`` and ``report/html.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, Final

from pufferdp.report.charts import Chart, Panels

IN_WORDS: Final = "In the words of the certificate"
"""The title of the section that ``verify`` prints."""


class Medium(Flag):
    """Where something is shown."""

    BRIEF = auto()
    """A terminal with the short form."""
    VERBOSE = auto()
    """A terminal that was asked for everything."""
    TERMINAL = BRIEF | VERBOSE
    NOTEBOOK = auto()
    REPORT = auto()
    """A report in an HTML file of its own."""
    PAGES = NOTEBOOK | REPORT
    ALL = TERMINAL | NOTEBOOK | REPORT


@dataclass(frozen=True)
class Words:
    """Sentences that belong together: lines of a terminal, paragraphs elsewhere."""

    sentences: tuple[str, ...]
    media: Medium = Medium.ALL
    heading: str = ""
    """A line above them; what follows is a list, then."""

    def __str__(self) -> str:
        return "\n".join((self.heading, *self.sentences) if self.heading else self.sentences)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells with a heading each; the first cell of a row is its heading."""

    caption: str
    """Not for a terminal, where the words above say it."""
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    media: Medium = Medium.ALL
    left: int = 1
    """Columns of words, which come first; the others hold numbers."""
    least: int = 0
    """Columns of numbers are at least so wide in a terminal."""
    below: str = ""
    """A line that ends it: how many rows were left out."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A chart with what is said below it, drawn where it is seen. A terminal has none."""

    make: Callable[[], Chart | Panels]
    caption: str = ""
    media: Medium = Medium.PAGES


Block = Words | Table | Figure


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: tuple[Block, ...]

    def blocks_for(self, medium: Medium) -> tuple[Block, ...]:
        """The blocks that a medium shows."""
        return tuple(block for block in self.blocks if medium in block.media)


@dataclass(frozen=True, kw_only=True)
class Page:
    """All there is to say about a result or a certificate, in the order in which it is read."""

    title: str
    lead: str = ""
    """What it is about, in one line."""
    verdict: tuple[str, ...] = ()
    """What the reader came for, in a sentence or two: it stands first, in every medium."""
    opening: tuple[str, ...] = ()
    """What opens the text of a terminal, in place of title and lead."""
    sections: tuple[Section, ...]
    words: tuple[str, ...] = ()
    """The exact words, for a lawyer."""
    facts: tuple[tuple[str, str], ...] = ()
    """How it was made, for a reviewer."""
    warnings: tuple[str, ...] = ()
    """For notebooks and reports; a terminal has them among its sentences."""
    data: dict[str, Any]
    """What is embedded: a certificate, or the result as JSON."""
    certified: bool = False
    """Whether it is a certificate, which can be verified."""
    kind: str = "plan"
    """What it is where it is no certificate: a plan, a data set, an attack."""

    def sections_for(self, medium: Medium) -> tuple[Section, ...]:
        """The sections that a medium shows, with the blocks that are for it."""
        shown = (Section(title=section.title, blocks=section.blocks_for(medium)) for section in self.sections)
        return tuple(section for section in shown if section.blocks)
