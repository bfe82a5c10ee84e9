"""Redaction around private records: the problem, a design, its exact leakage and its utility.

A design gives each record and value a probability of being replaced by a mark; each owner decides alone. The leakage
about a private record is the largest log-ratio of the probability of the output between two of its values. Private
records are always redacted. Probabilities differ from 0 only near private records, so nothing grows with the series.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Matrix, Vector, read_only
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.bounds.redaction.sides import ANY, RedactionSide
from pufferdp.models.base import Model
from pufferdp.models.chain import MarkovChain, chain_of

Span = tuple[int, int]
"""A first and a last record."""


def redactable(model: Model) -> MarkovChain:
    """The model, if it is a chain that starts in its stationary distribution; rejected otherwise."""
    chain = chain_of(model)
    if chain is None or chain.any_start or chain.given_start is not None:
        raise NotApplicableError(
            'redaction needs one Markov chain with "start": "stationary"; this model is '
            f"{model!r}: fit such a chain, or list the records that are known instead",
            value=model,
        )
    return chain


@dataclass(frozen=True, kw_only=True)
class RedactionProblem:
    """What is to be hidden: private records of one series, from whom, and how well."""

    chain: MarkovChain
    """The model; it must be stationary, with every state possible."""
    length: int
    """The number of records in the series, private ones included."""
    private: tuple[int, ...]
    """The private records, counted from 1."""
    epsilon: float
    """The guarantee: odds between two values of a private record shift by at most e^epsilon."""
    adversary: Adversary = Adversary.BDP
    """What else the adversary knows: any set of other records, nothing, or all of them."""
    known: tuple[int, ...] = ()
    """Records that the adversary is known to know, counted from 1; only with ``pufferfish``."""
    whole: bool = False
    """Whether private records that follow each other are one secret, hidden as a whole, and not each for itself."""

    def __post_init__(self) -> None:
        redactable(self.chain)
        _ = self.chain.reversal  # refuses states of probability 0
        set_field = object.__setattr__
        set_field(self, "length", checks.length(self.length))
        set_field(self, "epsilon", _guarantee(self.epsilon))
        set_field(self, "adversary", checks.adversary(self.adversary))
        set_field(self, "private", self._rows(self.private, "private"))
        set_field(self, "known", self._rows(self.known, "known"))
        if not self.private:
            raise ParameterError("no private record is named; name at least one row with private=")
        both = sorted(set(self.private) & set(self.known))
        if both:
            raise ParameterError(
                f"record {both[0]} is private and known; what is known cannot be hidden: leave it out of one of them",
                value=both[0],
            )
        if self.known and self.adversary is not Adversary.PUFFERFISH:
            raise ParameterError(
                f"known records are listed, and the adversary is {self.adversary}, who may know any: leave them out, "
                "or give the guarantee against this adversary alone with adversary='pufferfish'",
                value=self.known,
            )

    def _rows(self, rows: Sequence[int], name: str) -> tuple[int, ...]:
        out = set()
        for row in rows:
            number = checks.length(row, f"{name} row")
            if number > self.length:
                raise ParameterError(
                    f"{name} row is {number}; the series has {self.length} records, and rows are counted from 1",
                    value=row,
                )
            out.add(number)
        return tuple(sorted(out))

    @cached_property
    def secrets(self) -> tuple[Span, ...]:
        """First and last record of each secret: the private records one by one, or their runs as a whole."""
        if not self.whole:
            return tuple((p, p) for p in self.private)
        return tuple((run[0], run[-1]) for run in runs_of(self.private))

    def sides(self, secret: Span) -> tuple[RedactionSide, RedactionSide]:
        """What lies to the left and to the right of a secret."""
        first, last = secret
        left, right = first - 1, self.length - last
        if self.adversary is Adversary.BDP:
            near: tuple[int | None, int | None] = ANY, ANY
        elif self.adversary is Adversary.DP:
            near = (1 if left else None, 1 if right else None)
        else:
            before, after = [r for r in self.known if r < first], [r for r in self.known if r > last]
            near = (first - before[-1] if before else None, after[0] - last if after else None)
        return RedactionSide(self.chain.reversal, left, near[0]), RedactionSide(self.chain.transition, right, near[1])

    def only(self, *private: int) -> RedactionProblem:
        """The problem of hiding other records of the series, from the same adversary."""
        return replace(self, private=private)

    def both_sides(self, secret: Span, left: Matrix, right: Matrix) -> Matrix:
        """The leakage about a secret, from the largest log-ratios of each side about its nearest record.

        Given all records of a secret its two sides are independent. So their largest log-ratios add, over all pairs of
        ways in which the secret can have gone: those are what its first and its last record can be together.
        """
        if secret[0] < secret[1]:
            # (y, y') of the last record counts for (x, x') of the first where y can follow x, and y' can follow x'.
            possible = np.linalg.matrix_power(self.chain.transition > 0, secret[1] - secret[0])
            for _ in range(2):
                right = np.stack([right[..., row, :].max(axis=-2) for row in possible], axis=-1)
        with np.errstate(invalid="ignore"):  # a pair that one side never compares is not compared
            worst = np.where(np.isneginf(left) | np.isneginf(right), -np.inf, left + right)
        return np.asarray(worst.max(axis=(-1, -2)))


@dataclass(frozen=True, eq=False)
class Block:
    """An interval of records that are not all surely released, with a released record or an end on either side."""

    first: int
    """Its first record, counted from 1."""
    marks: Matrix
    """Redaction probabilities, one row a record, one column a value."""

    @property
    def last(self) -> int:
        """Its last record, counted from 1."""
        return self.first + len(self.marks) - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """Redaction probabilities for a series; records outside the blocks are always released."""

    hiding: RedactionProblem
    method: str
    """The name of the method that found it, such as ``3r-optimal``."""
    blocks: tuple[Block, ...]

    @cached_property
    def leakage(self) -> float:
        """The exact leakage about the private record that is hardest to hide."""
        return self._leakage(self.hiding)

    def leakage_to(self, adversary: Adversary) -> float:
        """The exact leakage to an adversary who knows more, or less."""
        return self._leakage(replace(self.hiding, adversary=adversary, known=()))

    def _leakage(self, hiding: RedactionProblem) -> float:
        blocks = [(s, next(b for b in self.blocks if b.first <= s[0] <= b.last)) for s in hiding.secrets]
        return max(float(leakages(hiding, secret, block.first, block.marks)) for secret, block in blocks)

    @cached_property
    def redacted(self) -> float:
        """Expected number of redacted records."""
        # A distribution sums to 1 but for rounding; a record that is always redacted counts as one.
        rows = (row for block in self.blocks for row in block.marks)
        return math.fsum(1.0 if (row == 1).all() else float(row @ self.hiding.chain.stationary) for row in rows)

    @property
    def utility(self) -> float:
        """Expected fraction of records that are released."""
        return 1 - self.redacted / self.hiding.length

    def probabilities(self) -> list[list[float]]:
        """One list a record, one redaction probability a value."""
        out = [[0.0] * self.hiding.chain.size] * self.hiding.length
        for block in self.blocks:
            out[block.first - 1 : block.last] = [[float(q) for q in row] for row in block.marks]
        return out

    def of(self, record: int) -> Vector:
        """The redaction probabilities of one record."""
        rows = (b.marks[record - b.first] for b in self.blocks if b.first <= record <= b.last)
        return np.asarray(next(rows, np.zeros(self.hiding.chain.size)))


def _guarantee(epsilon: float) -> float:
    """A finite epsilon above 0. The two ends have a plain answer, and need no design."""
    if epsilon in (0, math.inf):
        raise ParameterError(
            f"epsilon is {epsilon:g}; it must be finite and above 0. For 0 hold the series back; without a guarantee "
            "take the private records out and publish the others; otherwise name the largest leakage, for example 1",
            value=epsilon,
        )
    return checks.epsilon(epsilon)


def leakages(hiding: RedactionProblem, secret: Span, first: int, marks: Matrix) -> Matrix:
    """The exact leakage about one secret, of several designs: leading axes of ``marks`` are designs."""
    left, right = hiding.sides(secret)
    start, end = secret[0] - first, secret[1] - first
    if hiding.chain.size == 1:
        return np.zeros(marks.shape[:-2])
    before, after = left.worst(marks[..., :start, :][..., ::-1, :]), right.worst(marks[..., end + 1 :, :])
    # Two values that no value of a known record goes with are never compared.
    before, after = np.where(left.comparable, before, -np.inf), np.where(right.comparable, after, -np.inf)
    return hiding.both_sides(secret, before, after)


def runs_of(records: Sequence[int]) -> list[list[int]]:
    """Runs of consecutive records."""
    numbered = itertools.groupby(enumerate(records), key=lambda pair: pair[1] - pair[0])
    return [[record for _, record in group] for _, group in numbered]


def drawable(marks: Matrix) -> Matrix:
    """Probabilities rounded up to multiples of 2^-64, which doubles hold exactly: what is certified is drawn."""
    return np.asarray(np.clip(np.ceil(np.ldexp(np.asarray(marks, dtype=float), 64)), 0, 2.0**64) / 2.0**64)


def blocks_of(hiding: RedactionProblem, first: int, marks: Matrix) -> tuple[Block, ...]:
    """Blocks of an interval, cut where records are surely released; private records are redacted in any case."""
    marks = drawable(marks)
    for p in hiding.private:
        if first <= p < first + len(marks):
            marks[p - first] = 1.0
    held = np.flatnonzero((marks > 0).any(axis=1))
    if not len(held):
        return ()
    parts = np.split(held, np.flatnonzero(np.diff(held) > 1) + 1)
    return tuple(Block(first + int(part[0]), read_only(marks[part[0] : part[-1] + 1].copy())) for part in parts)


def design_of(hiding: RedactionProblem, method: str, blocks: Sequence[Block]) -> Design | None:
    """The design, if it keeps the guarantee."""
    design = Design(hiding=hiding, method=method, blocks=tuple(blocks))
    return design if design.leakage <= hiding.epsilon else None


def designs_of(
    hiding: RedactionProblem,
    *,
    method: str,
    chains: Sequence[Sequence[int]],
    blocks: Sequence[tuple[int, Sequence[Sequence[float]]]],
) -> list[Design]:
    """The design of each chain with private records.

    Args:
        hiding: the problem of the whole series: its length, the private records and those that are known.
        method: which method found the designs.
        chains: first and last position of each chain with private records.
        blocks: first position of an interval, and the redaction probabilities of each record in it.
    """
    designs: list[Design] = []
    parts = [Block(first, _marks(first, rows, hiding.chain.size)) for first, rows in blocks]
    for a, b in itertools.pairwise(parts):
        if b.first <= a.last:
            raise ParameterError(f"the blocks at rows {a.first} and {b.first} overlap or are out of order")
    placed = 0
    for span in chains:
        if len(span) != 2 or not 1 <= span[0] <= span[1] <= hiding.length:
            raise ParameterError(f"data.chains holds {span}; it must be the first and the last row of a chain")
        first, last = span
        own = restrict_to(hiding, first, last)
        mine = tuple(Block(b.first - first + 1, b.marks) for b in parts if first <= b.first and b.last <= last)
        placed += len(mine)
        design = Design(hiding=own, method=method, blocks=mine)
        for p in own.private:
            if not (design.of(p) == 1).all():
                raise ParameterError(f"private row {p + first - 1} is not always redacted")
        designs.append(design)
    if placed < len(parts):
        raise ParameterError("a block lies outside the chains with private records")
    if sum(len(d.hiding.private) for d in designs) != len(hiding.private) or not designs:
        raise ParameterError("a private row lies in no chain, or in two")
    return designs


def restrict_to(hiding: RedactionProblem, first: int, last: int) -> RedactionProblem:
    """The part of a problem that is about one chain, its records counted from 1."""
    private, known = (
        tuple(p - first + 1 for p in rows if first <= p <= last) for rows in (hiding.private, hiding.known)
    )
    return replace(hiding, length=last - first + 1, private=private, known=known)


def _marks(first: int, rows: Sequence[Sequence[float]], size: int) -> Matrix:
    """The stated redaction probabilities of a block; rejected where they are none."""
    widths = {len(row) for row in rows}
    if widths == {size}:
        marks = np.array(rows, dtype=float)
        if ((marks >= 0) & (marks <= 1)).all():
            return marks
    raise ParameterError(f"the block at row {first} must have a probability for each of the {size} states in each row")


def shown_alike(design: Design) -> bool:
    """Whether redaction ignores the data: in each record all values are redacted with one probability."""
    return all(bool((block.marks == block.marks[:, :1]).all()) for block in design.blocks)
