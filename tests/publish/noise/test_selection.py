"""A noisy choice of a small score: OpenDP's distribution is the one the accuracy is proved for."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.publish.noise import SeededSampler, SystemSampler, selection_scale
from tests.oracles.selection import choice_distribution
from tests.strategies import examples

SCORES = [0, 2, 5, 5, 1, 30]


def test_distribution_of_oracle_by_every_permutation():
    scale, scores = 3.0, [4, 0, 1, 7]
    weights = [math.exp(-score / scale) for score in scores]
    tally = np.zeros(4)
    for order in itertools.permutations(range(4)):
        left = 1 / 24
        for i in order:
            tally[i] += left * weights[i]
            left *= 1 - weights[i]
    assert choice_distribution(scores, scale) == pytest.approx(tally, rel=1e-13)


@pytest.mark.parametrize("sampler", [SystemSampler(), SeededSampler(5)], ids=["system", "seeded"])
def test_both_samplers_have_the_distribution(sampler):
    draws, scale = 4_000, 2.5
    distribution = choice_distribution(SCORES, scale)
    counts = np.bincount([sampler.noisy_least(SCORES, scale) for _ in range(draws)], minlength=len(SCORES))
    # Choices that are expected less than five times are counted as one with the rarest of the others: a single draw of
    # one that is expected .008 times would otherwise decide alone, once in 130 runs.
    order = np.argsort(distribution)
    rare = int(np.searchsorted(np.cumsum(draws * distribution[order]), 5.0)) + 1
    counts, distribution = (np.append(part[order][rare:], part[order][:rare].sum()) for part in (counts, distribution))
    assert len(distribution) == 5 and (draws * distribution > 100).all()
    # Pearson's statistic with 4 degrees of freedom is above 52 with probability 1.4e-10.
    assert ((counts - draws * distribution) ** 2 / (draws * distribution)).sum() < 52


@settings(max_examples=examples(60))
@given(st.floats(1e-6, 50.0), st.integers(1, 10**6))
def test_scale_is_the_least_whose_map_allows_the_loss(loss, move):
    scale = selection_scale(loss, move)
    assert scale >= 2 * move / loss * (1 - 1e-15)
    assert scale <= 2 * move / loss * (1 + 1e-12)


def test_loss_of_a_choice_is_reached_and_not_passed():
    # Many candidates get better by 1 while a lone one gets worse by 1: the worst that scores can do.
    loss = 1.3
    scale = selection_scale(loss, 1)
    before, after = [3, *[4] * 400], [4, *[3] * 400]

    def spent(by: float) -> float:
        return float(np.abs(np.log(choice_distribution(before, by) / choice_distribution(after, by))).max())

    assert 0.99 * loss < spent(scale) <= loss
    assert spent(0.9 * scale) > loss
