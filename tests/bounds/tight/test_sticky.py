"""Two states that hardly move: some numbers of records stand for all."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.two_states import Lane, rounding, worst_sides, worst_split


def lanes(generator: np.random.Generator) -> tuple[Lane, Lane]:
    """Both sides of a chain whose states attract each other, with any kind of start."""
    b, c = 10.0 ** generator.uniform(-generator.choice([1, 3, 9]), -0.5, size=2)
    kernel, known = np.array([[1 - b, b], [c, 1 - c]]), bool(generator.random() < 0.6)
    after = Lane(kernel, np.ones(2), known, apart=c - b)
    kind, share = int(generator.integers(4)), float(10 ** generator.uniform(-6, -0.01))
    ends = [None, np.array([share, 1 - share]), np.array([1.0, 0.0])]
    possible = np.array([[True, False], [True, True]]) if kind == 2 else None
    return (after if kind == 3 else Lane(kernel.T, ends[kind], known, possible, c - b)), after


@pytest.mark.parametrize("seed", range(30))
def test_a_few_numbers_of_records_stand_for_all(seed):
    generator = np.random.default_rng(seed)
    before, after = lanes(generator)
    if not after.followed:
        pytest.skip("forgets at once")
    records = int(generator.integers(130, 1500))
    loss = float(10 ** generator.uniform(-9, 1.7))
    left, right = (lane.reach(loss, lane.plain(records)) for lane in (before, after))
    every = float((left.by_length + right.by_length[:, ::-1]).max())
    found, room = worst_split(before, after, loss, records, 1e-11), rounding(records)
    assert every - room <= found.upper
    assert found.lower <= every + room
    assert found.upper - found.lower <= 1e-10 * (loss + every) + 1e-10
    # The ends named are those of a series of so many records, and add up to what is said of them.
    assert sum(end.records for end in found.ends) == records - 1
    assert sum(end.added for end in found.ends) == pytest.approx(found.lower, abs=1e-12)
    # A series without end leaks no less than those looked at one by one, and no more than they bound.
    endless = worst_sides((before, after), loss, 1e-11)
    assert endless.upper >= float((left.by_length.max(axis=1) + right.by_length.max(axis=1)).max()) - room
    assert endless.lower <= float((left.upper + right.upper).max()) + room


@pytest.mark.parametrize("leave", [1e-5, 1e-9])
def test_many_records_as_one_by_one_in_thirty_digits(leave):
    # Nothing known, stationary: with ρ = e^side − 1 and σ = (1 + ρ)e^τ − 1 a record more is ρ' = σ(1 − 2p)/(1 + pσ).
    curve = TightCurve([[1 - leave, leave], [leave, 1 - leave]], length=200_000, adversary="pufferfish")
    loss = curve.inverse(1.0)
    with localcontext(prec=30):
        p, gain = Decimal(leave), Decimal(loss).exp()
        stays, side, before = 1 - 2 * p, Decimal(0), Decimal(0)
        for _ in range(100_000):
            before, more = side, (1 + side) * gain - 1
            side = more * stays / (1 + p * more)
        value = float(Decimal(loss) + (1 + before).ln() + (1 + side).ln())  # a record in the middle
    worst = curve.leakage(loss)
    assert value == pytest.approx(1.0, abs=1e-10)
    assert worst.lower - 1e-14 <= value <= worst.upper
    assert worst.upper - worst.lower <= 1e-11
