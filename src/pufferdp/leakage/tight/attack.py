"""Who learns most, and from which questions: the worst algorithm and the worst adversary as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.leakage.tight.outlook import MOST_LOSS, scaled

LISTED: Final = 1000
"""Questions that are listed; those beyond go on like the last ones."""


@dataclass(frozen=True, kw_only=True)
class SideAttack:
    """One side of the record that is attacked."""

    added: float
    """What this side adds to the record's own loss: reached by these questions."""
    known: tuple[int, int] | None
    """The known record: its distance and its state; None: no record of this side is known."""
    records: int | None
    """Unknown records that are asked, up to the known one or the end of the series; None: without end."""
    questions: tuple[tuple[int, ...], ...]
    """By distance 1, 2, …: the states whose likelihood is e^loss times that of the others; empty: nothing is asked."""
    first_law: tuple[tuple[int, float], ...] = ()
    """Where the first record may have any law: the worst one, as (state, probability)."""


@dataclass(frozen=True, kw_only=True)
class TightLeakage:
    """What the worst algorithm with a DP loss on every record leaks, and to whom."""

    dp_loss: float
    lower: float
    """Some algorithm leaks as much."""
    upper: float
    """None leaks more: the value to use."""
    adversary: str
    length: int | None
    """Records; None: without end."""
    model: int
    """Which of several chains, counted from 0."""
    record: int | None
    """A record that leaks most, counted from 1; None: any that is far from both ends."""
    phase: int | None
    """For kernels that follow each other again and again: the kernel behind the record, counted from 0."""
    likelier: int
    other: int
    """The algorithm speaks for the first state against the second."""
    before: SideAttack
    after: SideAttack

    @property
    def value(self) -> float:
        """The upper end."""
        return self.upper

    @property
    def exact(self) -> bool:
        """Whether both ends agree to a share of 10⁻⁸."""
        return self.upper - self.lower <= 1e-8 * self.upper


NOTHING: Final = SideAttack(added=0.0, known=None, records=0, questions=())


def two_state_questions(stays: bool, x: int, count: int) -> tuple[tuple[int, ...], ...]:
    """For two states: always the value itself where the chain tends to stay, in turns with the other where not."""
    return tuple((x if stays or d % 2 else 1 - x,) for d in range(min(count, LISTED)))


def questions_of(
    kernels: Floats, losses: Floats, x: int, y: int, log_mu: float, count: int
) -> tuple[tuple[int, ...], ...]:
    """The signs of the pass at μ: kernels and losses outwards, used again from the first where they end."""
    vector = np.zeros(kernels.shape[-1])
    vector[x] += np.exp(min(0.0, -log_mu))
    vector[y] -= np.exp(min(0.0, log_mu))
    out: list[tuple[int, ...]] = []
    gains, spent, turns = np.exp(np.minimum(losses, MOST_LOSS)).tolist(), losses.tolist(), len(kernels)
    for d in range(min(count, LISTED)):
        vector = scaled(vector @ kernels[d % turns], (0,))
        asked, gain = vector > 0, gains[d % len(gains)]
        out.append(() if spent[d % len(gains)] == 0 or asked.all() else tuple(asked.nonzero()[0].tolist()))
        vector = np.maximum(vector, vector * gain)
    return tuple(out)
