"""Who learns most, and from which questions: the worst algorithm and the worst adversary as plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints
from pufferdp.bounds.tight.inputs import Chain
from pufferdp.bounds.tight.odds import largest_log_odds, side_bound
from pufferdp.bounds.tight.outlook import LASTING, MOST_LOSS, scaled

_DOUBLINGS: Final = 7
"""The closed form is tried with up to 2^6 steps at once."""
_ROUNDING: Final = 1e-12
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


@dataclass(frozen=True, eq=False)
class Place:
    """What a curve is about."""

    chain: Chain
    adversary: str
    length: int | None
    states: Ints
    """Numbers of the states that the chain visits."""

    @property
    def known(self) -> bool:
        """Whether records may be known."""
        return self.adversary == "bdp"

    def result(
        self,
        loss: float,
        bracket: tuple[float, float],
        pair: tuple[int, int],
        sides: tuple[SideAttack, SideAttack] = (NOTHING, NOTHING),
        record: int | None = None,
        phase: int | None = None,
    ) -> TightLeakage:
        """In the numbers of all states."""
        before, after = (self._named(side) for side in sides)
        x, y = (int(self.states[v]) for v in pair)
        return TightLeakage(
            dp_loss=loss,
            lower=bracket[0],
            upper=bracket[1],
            adversary=self.adversary,
            length=self.length,
            model=0,
            record=record,
            phase=phase,
            likelier=x,
            other=y,
            before=before,
            after=after,
        )

    def _named(self, side: SideAttack) -> SideAttack:
        known = None if side.known is None else (side.known[0], int(self.states[side.known[1]]))
        questions = tuple(tuple(int(self.states[v]) for v in asked) for asked in side.questions)
        law = tuple((int(self.states[v]), chance) for v, chance in side.first_law)
        return replace(side, known=known, questions=questions, first_law=law)

    def by_odds(self, loss: float) -> float:
        """What the closed form says (Theorem 4): where losses are large it is nearly all there is to say."""
        if self.chain.period > 1:
            return math.inf
        sides, power = [], self.chain.kernels[0]
        for doublings in range(_DOUBLINGS):
            sides.append(side_bound(loss, largest_log_odds(power), 1 << doublings))
            power = power @ power
        return (loss + 2 * min(sides)) * (1 + _ROUNDING)

    def room(self, distance: int, state: int) -> int | None:
        """Records that are asked on a side with an end: up to the known record, or all there are."""
        if state == LASTING:
            return None if self.length is None else (self.length - 1) // 2
        return distance - 1 if state >= 0 else distance


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
