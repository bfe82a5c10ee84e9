"""The loss for a leakage: what is returned leaks no more than allowed, and hardly more would leak too much."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pufferdp.bounds.inverse import largest_loss

SHAPES = {
    "line": lambda tau: 7.3 * tau,
    "flat": lambda tau: 1.4 * tau if tau < 0.01 else 0.014 + 1e-3 * tau,
    "steep": lambda tau: tau**4 * 1e3,
    "jump": lambda tau: tau if tau < 0.125 else 50 * tau,
    "endless": lambda tau: tau if tau < 0.03 else math.inf,
    "stairs": lambda tau: math.ceil(tau * 40) / 8,
}


@pytest.mark.parametrize("shape", SHAPES)
@example(allowed=1.25, tolerance=1e-12)
@given(allowed=st.floats(0.01, 5), tolerance=st.sampled_from([1e-12, 1e-7, 1e-4]))
def test_the_loss_is_the_largest(shape, allowed, tolerance):
    leak, most = SHAPES[shape], 2.0
    loss = largest_loss(leak, allowed, tolerance, most)
    assert leak(loss) <= allowed
    reached = leak(loss) >= allowed * (1 - 2 * tolerance)  # then a larger loss may leak as much, on a stair
    assert loss == most or reached or leak(loss * (1 + 2 * tolerance) or 1e-299) > allowed


@given(chop=st.integers(0, 2**32))
def test_a_bound_that_wavers_is_looked_at_where_it_counts(chop):
    def leak(tau: float) -> float:  # up and down by a thousandth, at a different place each time
        return 4 * tau * (1 + 1e-3 * math.sin(1e5 * tau + chop))

    assert leak(largest_loss(leak, 1.0, 1e-7)) <= 1.0
