"""What a redaction is: the design for each chain, what it leaks and releases, and the rule for single owners."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import read_only
from pufferdp.basics.paged import Paged
from pufferdp.bounds.redaction.design import Block, Design, RedactionProblem
from pufferdp.publish.noise import mark_thresholds
from pufferdp.publish.redaction.certificate import LISTED, RedactionCertificate
from pufferdp.publish.redaction.kind import leakage_to_each, read_designs

MARK: Final = "*"
"""What stands for a redacted record, unless another word is given."""


@dataclass(frozen=True, kw_only=True)
class Redaction(Paged):
    """A redaction of one series: its design and, where data was redacted, the certificate."""

    designs: tuple[tuple[int, Design], ...]
    """The first position of each chain with private records, and the design for that chain."""
    rows: int
    """Rows of the series, missing ones included."""
    row_at: Mapping[int, int] | None = None
    """The row of each position that matters, where the series is in another order than its rows; None: the same.

    Positions of rows that are not there have none.
    """
    missing: int = 0
    """Rows without a value, which are no records."""
    mark: str = MARK
    """What stands for a redacted record."""
    certificate: RedactionCertificate | None = None
    """What was guaranteed, where data was redacted."""
    data: Any = field(default=None, repr=False)
    """The redacted frame, where a frame was given and no file was named."""

    @property
    def hiding(self) -> RedactionProblem:
        """The guarantee and the model, as for the first chain."""
        return self.designs[0][1].hiding

    @property
    def method(self) -> str:
        """Which method found the design."""
        return self.designs[0][1].method

    @property
    def private(self) -> tuple[int, ...]:
        """The private rows, counted from 1."""
        return self._rows(self.positions)

    @property
    def known(self) -> tuple[int, ...]:
        """Rows that the adversary is known to know."""
        return self._rows(self.known_positions)

    @property
    def positions(self) -> tuple[int, ...]:
        """Where the private rows stand in the series."""
        return tuple(first - 1 + p for first, design in self.designs for p in design.hiding.private)

    @property
    def known_positions(self) -> tuple[int, ...]:
        """Where the known rows stand."""
        return tuple(first - 1 + p for first, design in self.designs for p in design.hiding.known)

    @property
    def chains(self) -> tuple[tuple[int, int], ...]:
        """First and last position of each chain with private records."""
        return tuple((first, first - 1 + design.hiding.length) for first, design in self.designs)

    def _rows(self, positions: Iterable[int]) -> tuple[int, ...]:
        return tuple(positions) if self.row_at is None else tuple(self.row_at[position] for position in positions)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that were written; None where nothing was."""
        if self.certificate is None:
            return None
        data = self.certificate.data
        return tuple(name for name in (data.by, data.order, data.column) if name is not None) + self.kept

    @property
    def kept(self) -> tuple[str, ...]:
        """Other columns that were written as they are, which the guarantee does not cover."""
        return () if self.certificate is None else tuple(self.certificate.data.kept)

    @property
    def records(self) -> int:
        """Records that have a value."""
        return self.rows - self.missing

    @property
    def leakage(self) -> float:
        """The exact leakage about the private record, or segment, that is hardest to hide."""
        return max(design.leakage for _, design in self.designs)

    def leakage_to(self, adversary: Adversary | str) -> float:
        """The exact leakage of the same design to another adversary."""
        return max(design.leakage_to(checks.adversary(adversary)) for _, design in self.designs)

    @property
    def utility(self) -> float:
        """Expected fraction of records released."""
        return 1 - math.fsum(design.redacted for _, design in self.designs) / self.records

    @property
    def segments(self) -> tuple[Block, ...]:
        """The segments that are not all released, in positions of the series."""
        return tuple(Block(first - 1 + b.first, b.marks) for first, design in self.designs for b in design.blocks)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The segments that are not all released, in rows of the data."""
        if self.row_at is None:
            return self.segments
        each = [(b.first + n, row) for b in self.segments for n, row in enumerate(b.marks)]
        there = [(self.row_at[position], row) for position, row in each if position in self.row_at]
        lines = sorted((number, tuple(row.tolist())) for number, row in there)
        parts: list[Block] = []
        for _, group in itertools.groupby(enumerate(lines), key=lambda pair: pair[1][0] - pair[0]):
            run = [line for _, line in group]
            parts.append(Block(run[0][0], read_only(np.array([marks for _, marks in run]))))
        return tuple(parts)

    def probabilities(self) -> list[list[float]]:
        """One list a row, one redaction probability a value; rows outside the blocks are always released."""
        out = [[0.0] * self.hiding.chain.size] * self.rows
        for block in self.blocks:
            out[block.first - 1 : block.last] = [[float(q) for q in row] for row in block.marks]
        return out

    def rule(self) -> dict[str, Any]:
        """What an owner needs to decide about one record alone, without this package."""
        return {
            "type": "redaction_rule",
            "how": "draw a fresh uniform 64-bit integer for each record; redact when it is below the threshold of the "
            "record's value; rows outside the blocks are released",
            "mark": self.mark,
            "states": list(self.hiding.chain.labels),
            "bins": None if self.hiding.chain.bins is None else list(self.hiding.chain.bins),
            "rows": self.rows,
            # As text: they go up to 2^64, more than most JSON readers hold exactly.
            "blocks": [
                {"first": b.first, "thresholds": [[str(t) for t in mark_thresholds(row)] for row in b.marks]}
                for b in self.blocks
            ],
        }

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp redact --json`` prints."""
        hiding = self.hiding
        return {
            "method": self.method,
            "epsilon": hiding.epsilon,
            "adversary": str(hiding.adversary),
            "leakage": self.leakage,
            "leakage_to": leakage_to_each([design for _, design in self.designs]),
            "utility": self.utility,
            "records": self.records,
            "private": list(self.private),
            "whole": hiding.whole,
            "known": list(self.known),
            "mark": self.mark,
            "columns": None if self.columns is None else list(self.columns),
            "kept": list(self.kept),
            "states": list(hiding.chain.labels),
            "redaction_probabilities": self.probabilities() if self.rows <= LISTED else None,
            "blocks": [{"first": b.first, "redaction_probabilities": b.marks.tolist()} for b in self.blocks],
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
        }


def redaction_of(certificate: dict[str, Any]) -> Redaction:
    """A redaction from its certificate alone, without the series."""
    parsed = RedactionCertificate.model_validate(certificate)
    designs = zip(parsed.data.chains, read_designs(certificate), strict=True)
    return Redaction(
        designs=tuple((span[0], design) for span, design in designs),
        rows=parsed.data.rows,
        missing=parsed.data.rows - parsed.data.records,
        mark=parsed.mark,
        certificate=parsed,
    )
