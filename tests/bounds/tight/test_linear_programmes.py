"""Equal to linear programmes over all DP algorithms and all adversaries (Theorems 1 and 2)."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.series import TOLERANCE
from tests.bounds.tight import cases
from tests.bounds.tight.cases import leakage_of_losses
from tests.oracles import algorithms, newton
from tests.strategies import examples, random_distribution

ROOM = 1e-8
NARROW = 1e-9
"""The tolerance that short series are asked for."""
PARTS = 8
"""Each test tries its share of the cases, so that none takes long."""


def share(count, part):
    return range(part, examples(count), PARTS)


@pytest.mark.parametrize("part", range(PARTS))
def test_random_chains_with_losses_of_their_own(part):
    for seed in share(300, part):
        case = cases.case(seed)
        programme = algorithms.chain_leakage(
            [case.transition], case.distribution, case.losses, case.target, case.adversary
        )
        found = brackets(case, NARROW)
        assert found.lower[case.target] <= programme + ROOM, seed
        assert found.upper[case.target] >= programme - ROOM, seed
        wide = brackets(case, TOLERANCE)
        assert programme - ROOM <= wide.upper[case.target] <= programme * (1 + 1.1 * TOLERANCE) + ROOM, seed
        assert found.upper[case.target] == pytest.approx(programme, abs=ROOM), seed
        assert brackets(case, NARROW, each=False).value == pytest.approx(found.value, rel=2 * NARROW, abs=ROOM), seed
        if len({*case.losses}) == 1:
            # The curve is the worst record.
            assert whole(case, NARROW).upper == pytest.approx(found.value, abs=ROOM), seed


def brackets(case, tolerance, **options):
    options |= {"start": case.start, "adversary": case.adversary, "tolerance": tolerance}
    return leakage_of_losses(case.transition, case.losses, **options)


def whole(case, tolerance):
    options = {"start": case.start, "length": len(case.losses), "adversary": case.adversary, "tolerance": tolerance}
    return TightCurve(case.transition, **options).leakage(float(case.losses[0]))


@pytest.mark.parametrize("seed", [5, 64, 568, 742, 835])
def test_brackets_of_given_starts_close(seed):
    case = cases.case(seed)
    each = newton.leakage([case.transition], case.distribution, case.losses, case.adversary)
    found = brackets(case, NARROW)
    assert (found.upper <= each * (1 + 1e-7)).all()
    assert (found.lower >= each * (1 - 1e-7)).all()
    if len({*case.losses}) == 1:
        assert whole(case, NARROW).upper <= each.max() * (1 + 1e-7)


@pytest.mark.slow
def test_everybody_is_no_more_than_windows_and_dp_knows_all_others():
    for seed in range(examples(12)):
        generator = np.random.default_rng([seed, 1])
        k, n = int(generator.integers(2, 4)), 3
        P, losses, distribution = (
            cases.transition(generator, k),
            cases.losses(generator, n),
            random_distribution(generator, k),
        )
        joint = algorithms.table([P], distribution, n)
        for target in range(n):
            every = algorithms.joint_leakage(joint, losses, target, "every")
            nearest = algorithms.chain_leakage([P], distribution, losses, target, "bdp")
            assert nearest == pytest.approx(every, abs=ROOM), seed
            found = leakage_of_losses(P, losses, start=distribution, tolerance=NARROW).upper[target]
            assert found == pytest.approx(every, abs=ROOM), seed
            others = algorithms.joint_leakage(joint, losses, target, "dp")
            own = leakage_of_losses(P, losses, start=distribution, adversary="dp").upper[target]
            # Where all others leave one value only, nothing is leaked; the curve counts the record's own loss.
            assert others - ROOM <= own <= losses[target]


def test_kernels_that_change_from_step_to_step():
    for seed in range(examples(24)):
        generator = np.random.default_rng([seed, 2])
        k, n = int(generator.integers(2, 4)), 4
        steps = [cases.transition(generator, k) for _ in range(int(generator.integers(2, 4)))]
        losses, distribution, target = (
            cases.losses(generator, n),
            random_distribution(generator, k),
            int(generator.integers(n)),
        )
        for who in ("bdp", "pufferfish"):
            programme = algorithms.chain_leakage(steps, distribution, losses, target, who)
            found = leakage_of_losses(steps, losses, start=distribution, adversary=who, tolerance=NARROW)
            assert found.upper[target] == pytest.approx(programme, abs=ROOM), (seed, who)


@pytest.mark.slow
def test_any_start_is_reached_by_the_worst_start():
    for seed in range(examples(10)):
        generator = np.random.default_rng([seed, 3])
        k = int(generator.choice([2, 2, 3]))
        n = int(generator.integers(2, {2: 5, 3: 4}[k]))
        P, losses, target = cases.transition(generator, k), cases.losses(generator, n), int(generator.integers(n))
        who = str(generator.choice(["bdp", "pufferfish"]))
        found = leakage_of_losses(P, losses, start="any", adversary=who, tolerance=NARROW)
        reached = algorithms.any_start_leakage([P], losses, target, who)
        # The odds are searched for to about 1e-4, where what they change is as small as the square of that.
        assert found.upper[target] == pytest.approx(reached, abs=1e-6), seed


def test_ten_per_cent_less_noise_would_break_the_guarantee():
    """At 1.1 times the loss that the curve allows, some algorithm leaks more than epsilon."""
    for seed in range(examples(16)):
        generator = np.random.default_rng([seed, 4])
        k = int(generator.integers(2, 4))
        n = {2: 4, 3: 3}[k]
        P, distribution = cases.transition(generator, k), random_distribution(generator, k)
        curve = TightCurve(P, start=distribution, length=n, tolerance=NARROW)
        epsilon = float(generator.choice([0.1, 1.0, 3.0]))
        loss = curve.inverse(epsilon)
        if curve(1.0) == 0:  # every record is certain
            continue
        most = [
            max(algorithms.chain_leakage([P], distribution, np.full(n, share * loss), t, "bdp") for t in range(n))
            for share in (1.0, 1.1)
        ]
        assert most[0] <= epsilon + ROOM, seed
        assert most[0] == pytest.approx(epsilon, rel=1e-7), seed
        assert most[1] > epsilon * 1.01, seed


def any_start_case(seed):
    generator = np.random.default_rng([seed, 3])
    k = int(generator.choice([2, 2, 3]))
    n = int(generator.integers(2, {2: 5, 3: 4}[k]))
    P, losses = cases.transition(generator, k), cases.losses(generator, n)
    return generator, P, losses, int(generator.integers(n)), str(generator.choice(["bdp", "pufferfish"]))


@pytest.mark.parametrize("part", range(PARTS))
def test_any_start_is_never_below_what_some_start_reaches(part):
    for seed in share(60, part):
        generator, P, losses, target, who = any_start_case(seed)
        found = leakage_of_losses(P, losses, start="any", adversary=who, tolerance=NARROW)
        for distribution in (*np.eye(len(P)), *(random_distribution(generator, len(P)) for _ in range(4))):
            assert found.upper[target] >= algorithms.chain_leakage([P], distribution, losses, target, who) - ROOM, (
                seed,
                distribution,
            )
        if len({*losses}) == 1:
            curve = TightCurve(P, start="any", length=len(losses), adversary=who, tolerance=NARROW)
            assert curve(losses[0]) == pytest.approx(found.value, abs=ROOM)
