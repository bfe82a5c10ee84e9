"""The factor of AR(1) series: every adversary by matrices, and the leakage itself by integration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp import Ar1, plan
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.checks import MOST_RECORDS
from pufferdp.bounds.additive.gaussian import ar1_factor
from tests.oracles import ar1 as oracle
from tests.strategies import examples

PHIS = st.sampled_from([0.0, 0.5, -0.5, 0.9, -0.9, 0.999, -0.999]) | st.floats(-0.99, 0.99)


@given(phi=PHIS, n=st.integers(1, 6))
def test_in_a_row_it_is_the_worst_of_all_adversaries(phi, n):
    literal = oracle.factor(phi, range(n), range(n), everyone=True)
    assert ar1_factor(phi, n) >= literal * (1 - 1e-13)
    assert ar1_factor(phi, n) == pytest.approx(literal, rel=1e-9)
    nobody = oracle.factor(phi, range(n), range(n), everyone=False)
    assert ar1_factor(phi, n, Adversary.PUFFERFISH) == pytest.approx(nobody, rel=1e-9)
    assert ar1_factor(phi, n, Adversary.DP) == 1


@pytest.mark.parametrize("phi", [0.8, -0.8, 0.3, 0.97])
def test_no_hole_and_no_known_record_passes_it(phi):
    """All sets of up to five of six places that are read, all targets and known records, those not read among them."""
    for size in range(1, 6):
        for read in itertools.combinations(range(6), size):
            assert oracle.factor(phi, read, range(6), everyone=True) <= ar1_factor(phi, size) * (1 + 1e-12)


@given(phi=PHIS, steps=st.lists(st.floats(1, 4), min_size=1, max_size=4))
def test_times_that_are_not_whole_steps_apart(phi, steps):
    places = np.concatenate([[0], np.cumsum(steps)])
    assert oracle.factor(abs(phi), places, places, everyone=True) <= ar1_factor(phi, len(places)) * (1 + 1e-12)


def test_closer_than_a_step_would_pass_it():
    """So such rows are refused."""
    assert oracle.factor(0.9, [0, 0.2, 0.4], [0, 0.2, 0.4], everyone=True) > ar1_factor(0.9, 3) * 1.02


@pytest.mark.parametrize("phi", [0.5, 0.9, 0.999, 1 - 2.0**-40, 1e-30, 0.2])
def test_it_never_falls_and_ends_at_the_closed_factor(phi):
    values = [ar1_factor(phi, n) for n in (1, 2, 3, 10, 100, 10**4, MOST_RECORDS)]
    assert values == sorted(values)
    assert values[0] == 1
    assert all(v <= n for v, n in zip(values, (1, 2, 3, 10, 100, 10**4, MOST_RECORDS), strict=True))
    assert values[-1] == pytest.approx(min((1 + phi) / (1 - phi), MOST_RECORDS), rel=1e-6)
    terms = 1 + 2 * math.fsum(phi**k for k in range(1, 5000))
    assert terms <= ar1_factor(phi, 9999) <= terms * (1 + 1e-12)


CLIP = (0.0, 1.0)


@pytest.mark.parametrize(("phi", "n"), [(0.5, 1), (0.5, 2), (0.5, 5), (0.8, 7), (0.8, 3), (0.0, 4)])
def test_the_noise_is_enough_and_a_tenth_less_is_not(phi, n):
    """The deviation is small against the range, and the two values are its ends: the bound is reached."""
    scale = plan(Ar1(coefficient=phi), "sum", length=n, clip=CLIP, epsilon=1).best.calibration.scale
    assert scale == pytest.approx(ar1_factor(phi, n))
    left = (n - 1) // 2
    places = np.arange(n) - left

    def leaks(noise):
        return oracle.tail_leakage(phi, 0.5, 0.02, CLIP, noise, places, (0.0, 1.0))

    assert 0.98 < leaks(scale) <= 1 + 1e-6
    assert leaks(0.9 * scale) > 1.05


def test_no_output_far_out_leaks_more():
    """By integration along the series: unobserved steps, negative coefficients, any deviation, an end that is known."""
    rng = np.random.default_rng(20)
    for _ in range(examples(60)):
        phi, sd, mean = rng.uniform(-0.9, 0.9), 10 ** rng.uniform(-1.3, -0.2), rng.uniform(-0.5, 1.5)
        left, right = (np.cumsum(rng.integers(1, 4, rng.integers(0, 4))) for _ in range(2))
        places = np.concatenate([-left[::-1], [0], right])
        scale, value = ar1_factor(phi, len(places)), rng.uniform(-0.5, 0.5)
        ends = ((int(places[-1]) + 2, mean + sd * rng.choice([-2, 0, 3])),) if rng.random() < 0.5 else ()
        found = oracle.tail_leakage(phi, mean, sd, CLIP, scale, places, (value, value + 1), ends)
        assert found <= 1 + 1e-5  # of the integration
        if phi < 0:  # neighbours move against each other, and in one sum a part cancels
            assert found <= ar1_factor(phi**2, len(places)) / scale + 1e-5


@pytest.mark.parametrize("phi", [0.9, 0.4, -0.7])
@pytest.mark.parametrize("sd", [0.05, 0.3, 1.0])
def test_no_output_leaks_more_where_every_one_is_tried(phi, sd):
    scale = ar1_factor(phi, 3)
    for value in (-0.5, 0.0, 0.4):
        assert oracle.leakage_of_three(phi, 0.5, sd, CLIP, scale, (value, value + 1)) <= 1 + 1e-3


def test_a_class_is_as_bad_as_its_strongest_coefficient():
    asked = {"length": 50, "clip": CLIP, "epsilon": 1.0}
    wide = plan(Ar1(coefficient=(-0.9, 0.5)), "sum", **asked).best.calibration.scale
    assert wide == plan(Ar1(coefficient=0.9), "sum", **asked).best.calibration.scale
