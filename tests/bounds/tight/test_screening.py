"""Quick proofs in blocks of records: never of less than a pair of values leaks, and soon of little more."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.long.jumps import Jumps
from pufferdp.bounds.tight.many_states import ManyStates
from pufferdp.bounds.tight.screening import _KnownEnds
from pufferdp.bounds.tight.sides import solve
from pufferdp.bounds.tight.steady import whole_series

LOSS = 0.004


def slow(seed: int, states: int = 4) -> np.ndarray:
    rows = np.random.default_rng(seed).dirichlet(np.ones(states) / 2, size=states) + 1e-4
    return 0.97 * np.eye(states) + 0.03 * rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("block", "step"), [(1, False), (4, False), (8, False), (4, True), (8, True)])
@pytest.mark.parametrize("seed", range(2))
def test_blocks_prove_no_less_than_is_leaked(seed: int, block: int, step: bool) -> None:
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
            return screen._closely(everyone, levels, first, near // block, 8 * chain.first_depth, block, step=step)

        for share in (0.999, 0.99, 0.9):
            assert not proved(exact[lane] * share).any()
        assert proved(np.full(len(rows), 1.5 * exact[lane].max())).any()


def _followed(kernel: np.ndarray, gain: float, vector: np.ndarray, steps: int) -> np.ndarray:
    """Signed vectors before each gain, one step after the other."""
    out = []
    for _ in range(steps):
        out.append(vector @ kernel)
        vector = np.maximum(out[-1], gain * out[-1])
    return np.array(out)


@pytest.mark.parametrize("steps", [2, 8, 32, 128])
def test_many_steps_at_once_are_those_steps_where_questions_stay_the_same(steps: int) -> None:
    proved_some, refused_some = 0, 0
    for seed in range(12 if steps <= 32 else 4):
        generator = np.random.default_rng([seed, steps])
        kernel = slow(seed, int(generator.integers(3, 7)))
        if steps > 32:  # slow enough that questions are kept so long
            kernel = np.eye(len(kernel)) * 0.99 + 0.01 * kernel
        jumps = Jumps(kernel, float(np.exp(generator.uniform(0.001, 0.2) / steps)))
        assert jumps.longest >= 32
        vectors = generator.normal(size=(40, 2, len(kernel)))
        for row in range(0, 40, 2):  # and far away, where one mode is left
            vectors[row, 0] = vectors[row, 0] @ np.linalg.matrix_power(kernel, 60)
        last, lines, proved = jumps.made(vectors, steps)
        walked, every = jumps.walk(vectors, steps), jumps.every(vectors, steps)
        share = np.linspace(0.0, 1.0, steps)[:, None]
        proved_some, refused_some = proved_some + proved.sum(), refused_some + (~proved).sum()
        for row in range(40):
            steps_made = _followed(kernel, jumps.gain, vectors[row, 0], steps)
            changes = ((steps_made > 0) != (steps_made[:1] > 0)).any()
            assert not (proved[row] and changes)
            if proved[row]:
                assert last[row, 0] == pytest.approx(steps_made[-1], rel=1e-9, abs=1e-12)
                assert (steps_made <= lines[0, row] * (1 - share) + lines[1, row] * share + 1e-12).all()
            assert walked[0][row, 0] == pytest.approx(steps_made[-1], rel=1e-9, abs=1e-12)
            assert (steps_made <= walked[1][0, row] * (1 - share) + walked[1][1, row] * share + 1e-12).all()
            assert every[row, 0] == pytest.approx(steps_made, rel=1e-9, abs=1e-12)
            slowly = jumps.step_by_step(vectors[row : row + 1], steps)
            assert slowly[0][0, 0] == pytest.approx(steps_made[-1], rel=1e-12, abs=1e-15)
            assert slowly[1][0] == pytest.approx(steps_made.max(axis=0), rel=1e-12, abs=1e-15)
    assert min(proved_some, refused_some) > (5 if steps <= 32 else 2)


def test_the_bound_within_a_block_is_needed() -> None:
    """A weight may rise and fall again between two steps that look alike: the chord alone would say it is negative."""
    kernel = np.array([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.1, 0.0, 0.9]])
    jumps = Jumps(kernel, 1.0 + 1e-12)
    vectors = np.array([[[1.0, -0.15, -0.9], [0.0, 0.0, 0.0]]])
    steps = _followed(kernel, jumps.gain, vectors[0, 0], 16)
    _, lines, proved = jumps.made(vectors, 16)
    risen = (steps.max(axis=0) > np.maximum(steps[0], steps[-1]) + 1e-6).any()
    assert risen
    assert (steps <= lines[0, 0] + (lines[1, 0] - lines[0, 0]) * np.linspace(0.0, 1.0, 16)[:, None]).all()
    assert not proved[0] or ((steps > 0) == (steps[:1] > 0)).all()


def test_a_slow_chain_rises_above_its_chord_by_nearly_all_that_is_allowed() -> None:
    """Second differences hardly change within a block: a twentieth less for the bend would be too little."""
    kernel = 0.9999 * np.eye(4) + 0.0001 * slow(5) ** 0.2 / (slow(5) ** 0.2).sum(axis=1, keepdims=True)
    jumps, steps = Jumps(kernel, 1.0 + 1e-14), 64
    vectors = np.random.default_rng(6).normal(size=(30, 2, 4))
    _, lines, _ = jumps.made(vectors, steps)
    share, nearest = np.linspace(0.0, 1.0, steps)[:, None], 0.0
    for row in range(30):
        made = _followed(kernel, jumps.gain, vectors[row, 0], steps)
        chord, line = (low * (1 - share) + high * share for low, high in ((made[0], made[-1]), lines[:, row]))
        assert (made <= line).all()
        nearest = max(nearest, float(((made - chord) / (line - chord)).max()))
    assert 0.95 < nearest <= 1


@pytest.mark.slow
@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_a_slow_chain_leaks_as_much_step_by_step(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of steps and of ends change how long it takes, not what is found."""
    table = 0.8 * np.eye(4) + 0.2 * slow(3)
    jumped, made = [], Jumps.made
    monkeypatch.setattr(Jumps, "made", lambda self, vectors, steps: (jumped.append(1), made(self, vectors, steps))[1])
    quick = TightCurve(table, adversary=who).leakage(0.001)
    monkeypatch.setattr(Jumps, "longest", 0)
    plain = TightCurve(table, adversary=who).leakage(0.001)
    assert jumped
    assert quick.lower <= plain.upper
    assert plain.lower <= quick.upper
    assert quick.upper <= quick.lower * (1 + 1e-6)


def test_known_ends_of_a_slow_line_of_states_are_settled() -> None:
    i = np.arange(12)
    weight = 0.5 ** np.abs(i[:, None] - i[None, :])
    np.fill_diagonal(weight, 0.0)
    table = np.eye(12) * 0.97 + weight * 0.03 / weight.sum(axis=1, keepdims=True)
    worst = TightCurve(table, length=10**6).leakage(0.005)
    assert worst.lower <= worst.upper <= worst.lower * (1 + 1e-6)
    assert {worst.likelier, worst.other} == {0, 11}


@pytest.mark.slow
@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_long_jumps_find_what_a_look_at_every_record_finds(who: str) -> None:
    """A series of thirty forgetting times ends so late that its middle does not notice."""
    table = 0.998 * np.eye(3) + 0.002 * np.array([[0.2, 0.6, 0.2], [0.3, 0.2, 0.5], [0.6, 0.3, 0.1]])
    chain = inputs.chain(table, "stationary")
    whole = whole_series(chain, 12_000, who)
    assert whole is not None
    for loss in (0.0003, 0.0012):
        each, endless = whole.at(loss), TightCurve(table, adversary=who).leakage(loss)
        assert each.lower.max() <= endless.upper <= endless.lower * (1 + 1e-6)
        assert endless.lower <= each.upper.max() * (1 + 1e-6)
