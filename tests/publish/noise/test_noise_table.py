"""Noise by a table: what is drawn is what the shares say, to the last of 2^64; moments and tails against plain sums."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp.basics.errors import ParameterError
from pufferdp.bounds.additive.whole_noise import WholeNoise
from pufferdp.publish.noise import NoiseDistribution, NoiseKind, SeededSampler, draw
from pufferdp.publish.noise_distributions import NoiseTable

WHOLE = 2**64


@st.composite
def tables(draw) -> NoiseTable:
    reach = draw(st.integers(1, 6))
    weights = np.array(draw(st.lists(st.floats(0.01, 1), min_size=2 * reach + 3, max_size=2 * reach + 3)))
    weights /= weights.sum()
    ratio = draw(st.floats(0.01, 0.9))
    return NoiseTable.of(WholeNoise(weights[1:-1], (weights[0], weights[-1]), ratio))


def plain(table: NoiseTable, far: int = 600) -> dict[int, float]:
    """The probability of every whole number out to where hardly any is left."""
    q, (low, high) = table.ratio / WHOLE, (tail / WHOLE for tail in table.tails)
    out = {z - table.reach: share / WHOLE for z, share in enumerate(table.shares)}
    for n in range(far):
        out[table.reach + 1 + n] = high * (1 - q) * q**n
        out[-table.reach - 1 - n] = low * (1 - q) * q**n
    return out


@given(table=tables())
def test_moments_and_tails(table):
    distribution = plain(table)
    numbers = np.array(sorted(distribution))
    masses = np.array([distribution[z] for z in numbers])
    assert masses.sum() == pytest.approx(1, rel=1e-12)
    assert table.distribution.at(numbers) == pytest.approx(masses, rel=1e-12)
    assert table.expected_absolute == pytest.approx(float(np.abs(numbers) @ masses), rel=1e-9)
    assert table.variance == pytest.approx(float(numbers**2 @ masses), rel=1e-9)
    near = np.abs(numbers) <= table.reach + 30
    assert table.log_probability(numbers[near]) == pytest.approx(np.log(masses[near]), rel=1e-9)
    assert np.isfinite(table.log_probability(np.array([-(10**6), 10**6]))).all()
    some = np.arange(-table.reach - 4, table.reach + 5)
    truth = [masses[numbers >= m].sum() for m in some]
    assert table.at_least(some) == pytest.approx(np.array(truth), abs=1e-12)
    for beta in (0.5, 0.05, 1e-4):
        alpha = table.least_error(beta)
        beyond = [float(masses[np.abs(numbers) >= m].sum()) for m in (alpha, alpha - 1)]
        assert beyond[0] <= beta * (1 + 1e-9)
        assert alpha == 1 or beyond[1] > beta * (1 - 1e-9)
    steep = max(abs(np.log(a / b)) for a, b in itertools.pairwise(masses[np.abs(numbers) <= table.reach + 5]))
    assert steep <= table.distribution.dp_loss <= steep + 1e-9
    assert NoiseTable.from_dict(table.to_dict()) == table


@given(table=tables())
def test_every_word_means_what_its_share_says(table):
    """The first and the last word of every share; in a tail the next words say whether to go on."""
    reached = 0
    for z, share in enumerate(table.shares):
        for word in (reached, reached + share - 1):
            assert table.draw(lambda count, word=word: word.to_bytes(count, "little")) == z - table.reach
        reached += share
    for side, share in zip((-1, 1), table.tails, strict=True):
        for first in (reached, reached + share - 1):
            words = iter([first, table.ratio - 1, 0, table.ratio])
            drawn = table.draw(lambda count, words=words: next(words).to_bytes(count, "little"))
            assert drawn == side * (table.reach + 3)
        reached += share
    assert reached == WHOLE


def test_noise_comes_through_the_one_door():
    table = NoiseTable.of(WholeNoise(np.array([0.2, 0.4, 0.2]), (0.1, 0.1), 0.5))
    distribution = NoiseDistribution(kind=NoiseKind.TABLE, scale=table.expected_absolute, coordinates=1, table=table)
    sampler, count = SeededSampler(5), 20_000
    drawn = np.array([draw(distribution, [100], sampler)[0] - 100 for _ in range(count)])
    for z, p in plain(table, 4).items():
        # Five standard deviations, eleven numbers: a failure has a probability below 1e-5, and the seed is fixed.
        assert abs((drawn == z).mean() - p) < 5 * np.sqrt(p * (1 - p) / count) + 1e-12


@pytest.mark.parametrize(
    "raw",
    [
        {"shares": ["1", "2", "3"], "tails": ["1", "1"], "ratio": "5"},
        {"shares": [str(WHOLE - 2), "0", "0"], "tails": ["1", "1"], "ratio": "5"},
        {"shares": ["1", str(WHOLE - 4)], "tails": ["1", "2"], "ratio": "5"},
        {"shares": ["1", str(WHOLE - 4), "1"], "tails": ["1", "1"], "ratio": str(WHOLE)},
        {"shares": ["1", str(WHOLE - 4), "1"], "tails": ["1", "1"], "ratio": "-5"},
        {"shares": ["1", "9" * 4000, "1"], "tails": ["1", "1"], "ratio": "5"},
    ],
)
def test_what_is_no_distribution_is_refused(raw):
    with pytest.raises(ParameterError, match="noise table"):
        NoiseTable.from_dict(raw)
