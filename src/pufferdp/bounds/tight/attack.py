"""The worst-case adversary and the worst-case algorithm, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints

LISTED: Final = 1000
"""Questions that are listed; those beyond go on like the last ones."""


@dataclass(frozen=True, kw_only=True)
class SideAttack:
    """One side of the record that is attacked."""

    added: float = 0.0
    """What this side adds to the record's own loss: reached by these questions."""
    known: tuple[int, int] | None = None
    """The known record: its distance and its state; None: no record of this side is known."""
    records: int | None = 0
    """Unknown records that are asked, up to the known one or the end of the series; None: without end."""
    questions: tuple[tuple[int, ...], ...] = ()
    """By distance 1, 2, …: the states whose likelihood is e^loss times that of the others; empty: nothing is asked."""
    first_distribution: tuple[tuple[int, float], ...] = ()
    """Where the first record may have any distribution: the worst one, as (state, probability)."""

    def renamed(self, states: Ints) -> SideAttack:
        """The side with states numbered as in a larger chain."""
        known = None if self.known is None else (self.known[0], int(states[self.known[1]]))
        questions = tuple(tuple(int(states[v]) for v in asked) for asked in self.questions)
        first = tuple((int(states[v]), chance) for v, chance in self.first_distribution)
        return replace(self, known=known, questions=questions, first_distribution=first)


@dataclass(frozen=True, kw_only=True)
class TightLeakage:
    """What the worst-case algorithm with a DP loss on every record leaks, and to which adversary."""

    dp_loss: float
    lower: float
    """Some algorithm leaks as much."""
    upper: float
    """None leaks more: the value to use."""
    adversary: str
    length: int | None
    """Number of records; None: without end."""
    model: int = 0
    """Which of several chains, counted from 0."""
    record: int | None = None
    """The record that leaks most, counted from 1; None: any that is far from both ends."""
    phase: int | None = None
    """For kernels that follow each other again and again: the kernel behind the record, counted from 0."""
    likelier: int = 0
    other: int = 0
    """The algorithm speaks for the first state against the second; equal where nothing leaks."""
    before: SideAttack = SideAttack()
    after: SideAttack = SideAttack()

    def renamed(self, states: Ints) -> TightLeakage:
        """The leakage with states numbered as in a larger chain."""
        before, after = self.before.renamed(states), self.after.renamed(states)
        x, y = int(states[self.likelier]), int(states[self.other])
        return replace(self, likelier=x, other=y, before=before, after=after)


def questions_of(
    kernels: Floats, losses: Floats, x: int, y: int, log_mu: float, count: int
) -> tuple[tuple[int, ...], ...]:
    """The signs of the pass at μ (Theorem 1): kernels and losses outwards, used again from the first where they end."""
    vector = np.zeros(kernels.shape[-1])
    vector[x] += np.exp(min(0.0, -log_mu))
    vector[y] -= np.exp(min(0.0, log_mu))
    out: list[tuple[int, ...]] = []
    damps, spent = np.exp(-losses).tolist(), losses.tolist()
    for d in range(min(count, LISTED)):
        vector = vector @ kernels[d % len(kernels)]
        vector = vector / max(np.abs(vector).max(), 1e-300)
        asked = vector > 0
        out.append(() if spent[d % len(spent)] == 0 or asked.all() else tuple(asked.nonzero()[0].tolist()))
        vector = np.where(asked, vector, vector * damps[d % len(damps)])
    return tuple(out)
