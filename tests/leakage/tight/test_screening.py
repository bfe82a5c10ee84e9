"""Quick proofs in blocks of records: never of less than a pair of values leaks, and soon of little more."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.leakage.tight import inputs
from pufferdp.leakage.tight.chain import TightCurve
from pufferdp.leakage.tight.many_states import ManyStates
from pufferdp.leakage.tight.screening import _KnownEnds
from pufferdp.leakage.tight.sides import solve

LOSS = 0.004


def slow(seed: int, states: int = 4) -> np.ndarray:
    rows = np.random.default_rng(seed).dirichlet(np.ones(states) / 2, size=states) + 1e-4
    return 0.97 * np.eye(states) + 0.03 * rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("block", [1, 4, 8])
@pytest.mark.parametrize("seed", range(2))
def test_blocks_prove_no_less_than_is_leaked(seed: int, block: int) -> None:
    chain = ManyStates(inputs.chain(slow(seed), "stationary"), True, None)
    everyone = np.arange(len(chain.rows))
    rows = chain._rows(everyone, LOSS)
    exact = solve(chain.look, rows, own=LOSS, width=1e-7).lower
    for lane in range(chain.look.lanes):
        screen = _KnownEnds(chain.look, lane, rows)

        def proved(levels: np.ndarray, screen: _KnownEnds = screen) -> np.ndarray:
            near = int(levels.min() / LOSS) + 1
            power = np.linalg.matrix_power(screen.kernel, near // block * block)
            first = np.log(power[rows.y]) - np.log(power[rows.x])
            return screen._closely(everyone, levels, first, near // block, 8 * chain.first_depth, block)

        for share in (0.999, 0.99, 0.9):
            assert not proved(exact[lane] * share).any()
        assert proved(np.full(len(rows), 1.5 * exact[lane].max())).any()


def test_known_ends_of_a_slow_line_of_states_are_settled() -> None:
    i = np.arange(12)
    weight = 0.5 ** np.abs(i[:, None] - i[None, :])
    np.fill_diagonal(weight, 0.0)
    table = np.eye(12) * 0.97 + weight * 0.03 / weight.sum(axis=1, keepdims=True)
    worst = TightCurve(table, length=10**6).leakage(0.005)
    assert worst.lower <= worst.upper <= worst.lower * (1 + 1e-6)
    assert {worst.likelier, worst.other} == {0, 11}
