"""Series of a chain that keeps its law: one pass for all records says what the general way says of each."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.series import of_steady, series_leakage, steady_series
from tests.strategies import examples

SCHOOL = np.array(
    [
        [0.981, 0.004, 0.002, 0.009, 0.001, 0.003],
        [0.024, 0.951, 0.010, 0.010, 0.003, 0.002],
        [0.012, 0.002, 0.984, 0.002, 0.000, 0.000],
        [0.045, 0.014, 0.001, 0.918, 0.003, 0.019],
        [0.013, 0.017, 0.014, 0.006, 0.948, 0.002],
        [0.031, 0.004, 0.000, 0.013, 0.001, 0.951],
    ]
)
"""Six states that are kept for years, some moves never made: from school to work, month by month."""


@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
def test_each_record_is_within_what_the_general_way_says(adversary: str) -> None:
    draw = np.random.default_rng(22)
    for _ in range(examples(24)):
        k, n = int(draw.integers(3, 5)), int(draw.integers(2, 10))
        moves = draw.dirichlet(np.ones(k), size=k) * (draw.random((k, k)) > 0.2) + 0.5 * np.eye(k)
        chain = inputs.chain(moves / moves.sum(axis=1, keepdims=True), "stationary")
        series = steady_series(chain, n, adversary)
        if series is None:
            continue
        loss = float(draw.choice([0.01, 0.3, 2.0]))
        found, each = of_steady(series, loss, adversary, 1e-10), series_leakage(chain, np.full(n, loss), adversary)
        assert found is not None
        assert float(found.upper.max()) == pytest.approx(float(each.upper.max()), rel=3e-10)
        assert (found.lower <= each.upper * (1 + 1e-10)).all()
        assert (found.upper >= each.lower * (1 - 1e-10)).all()


@pytest.mark.parametrize(("length", "scale"), [(60, 49.047406588), (100, 71.143042673), (200, 107.5228252)])
def test_states_that_are_kept_for_long(length: int, scale: float) -> None:
    """The scales are those of the general way, which took 15 s to read the curve at a hundred records."""
    curve = TightCurve(SCHOOL / SCHOOL.sum(axis=1, keepdims=True), length=length)
    assert 1 / curve.inverse(1.0) == pytest.approx(scale, rel=2e-7)


def test_the_questions_reach_what_is_said() -> None:
    """The questions of the worst algorithm, asked of all records at once by enumeration of what each side adds."""
    chain = SCHOOL / SCHOOL.sum(axis=1, keepdims=True)
    found = TightCurve(chain, length=12).leakage(0.4)
    law = inputs.chain(chain, "stationary").start
    assert law is not None
    back = (law[:, None] * chain).T / law[:, None]
    total = found.dp_loss
    for kernel, side in ((back, found.before), (chain, found.after)):
        weight = np.ones(6)
        plain = np.ones(6)
        if side.known is not None:
            distance, state = side.known
            weight, plain = kernel[:, state].copy(), np.linalg.matrix_power(kernel, distance)[:, state]
        for asked in reversed(side.questions):
            gains = np.ones(6)
            gains[list(asked)] = np.exp(found.dp_loss)
            weight = kernel @ (gains * weight)
        total += np.log(weight[found.likelier] * plain[found.other] / (weight[found.other] * plain[found.likelier]))
    assert total == pytest.approx(found.lower, rel=1e-9)
    assert found.upper == pytest.approx(found.lower, rel=1e-9)
