"""Who learns most about one record of a series, and from which questions, where losses differ from record to record."""

from __future__ import annotations

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.leakage.tight.attack import SideAttack, TightLeakage, questions_of, two_state_questions
from pufferdp.leakage.tight.inputs import Chain
from pufferdp.leakage.tight.series import Lanes, SeriesLeakage, lanes


def attack_on(chain: Chain, found: SeriesLeakage, record: int) -> TightLeakage:
    """The worst algorithm and adversary behind the lower end of one record, counted from 1."""
    at, n = record - 1, len(found.losses)
    both = lanes(chain, n)
    pair = int(found.likelier[at]), int(found.other[at])
    before, after = (
        _side(chain, found, at, lane, _outward(both, lane, n - 1 - at if lane == 0 else at)) for lane in (0, 1)
    )
    return TightLeakage(
        dp_loss=float(found.losses[at]),
        lower=float(found.lower[at]),
        upper=float(found.upper[at]),
        adversary=found.adversary,
        length=n,
        model=0,
        record=record,
        phase=at % chain.period if chain.period > 1 else None,
        likelier=pair[0],
        other=pair[1],
        before=before,
        after=after,
    )


def _outward(both: Lanes, lane: int, offset: int) -> Floats:
    """Kernels from a record on, outwards."""
    kernels = both.after if lane else both.before
    return np.roll(kernels, -offset, axis=0) if len(kernels) > 1 else kernels


def _side(chain: Chain, found: SeriesLeakage, at: int, lane: int, kernels: Floats) -> SideAttack:
    """One side: the end that was found to be worst, and the questions up to it."""
    losses = found.losses[at + 1 :] if lane else found.losses[:at][::-1]
    pair = int(found.likelier[at]), int(found.other[at])
    distance, state = int(found.ends[0][lane, at]), int(found.ends[1][lane, at])
    added = float(found.added[lane, at])
    count = max(distance - 1, 0) if state >= 0 else len(losses)
    if pair[0] == pair[1] or added <= 0:
        count = 0
    questions: tuple[tuple[int, ...], ...] = ()
    if count and chain.size == 2 and chain.period == 1:
        (a, b), (c, d) = chain.kernels[0]
        asked = two_state_questions(bool(a * d >= b * c), pair[0], count)
        questions = tuple(one if loss > 0 else () for one, loss in zip(asked, losses, strict=False))
    elif count and chain.size > 2 and not (chain.start is None and lane == 0 and state < 0):
        # The worst law of the first record has questions of its own, which are not followed.
        # The end of the series says nothing by itself: what is added is the quotient that its questions reach.
        log_mu = float(found.mu[lane, at]) if state >= 0 else added
        questions = questions_of(kernels, losses[:count], *pair, log_mu, count)
    return SideAttack(
        added=added,
        known=(distance, state) if state >= 0 else None,
        records=count,
        questions=questions,
    )
