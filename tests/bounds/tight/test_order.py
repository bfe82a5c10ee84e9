"""The tight curve beside all others: below every curve for any algorithm, above every algorithm."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.additive.windows import WindowLeakage
from pufferdp.bounds.curves import curve
from pufferdp.bounds.tight.series import TOLERANCE
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import MarkovClass
from tests.bounds.tight import cases
from tests.strategies import examples, random_distribution

OTHERS = ("quilt", "markov", "zhao", "general", "odds")
ROOM = 1.1 * TOLERANCE
"""Upper ends are above what is leaked by at most this share."""


def check_order(seed):
    generator = np.random.default_rng([seed, 11])
    k = int(generator.choice([2, 2, 3, 4]))
    P, kind = cases.transition(generator, k), generator.choice(["stationary", "given", "any"], p=[0.6, 0.3, 0.1])
    start = random_distribution(generator, k) if kind == "given" else str(kind)
    lengths = {"any": [1, 2, 5, 20], "given": [1, 2, 5, 20, 60], "stationary": [1, 2, 5, 20, 100, 1000]}
    n = int(generator.choice(lengths[str(kind)]))
    model = MarkovChain(transition=P, start=start)
    who = Adversary(str(generator.choice(["bdp", "pufferfish"])))
    loss = cases.loss(generator)
    tight = curve("tight", model, n, who)(loss)
    for name in OTHERS:
        other = curve(name, model, n, who)
        if other.applies:
            assert tight <= other(loss) * (1 + ROOM) + 1e-12, (seed, name)


@pytest.mark.parametrize("part", range(2))
def test_below_every_other_curve(part):
    for seed in range(part, 40, 2):
        check_order(seed)


def test_above_the_exact_leakage_of_any_count_and_equal_for_two_attracting_states():
    for seed in range(examples(80)):
        generator = np.random.default_rng([seed, 12])
        k, n = int(generator.integers(2, 4)), int(generator.integers(1, 13))
        P = np.clip(cases.transition(generator, k), 0.01, None)
        chain = MarkovChain(transition=P / P.sum(axis=1, keepdims=True))
        loss = float(generator.uniform(0.05, 2.0))
        tight = curve("tight", chain, n)
        count = WindowLeakage(chain, n, [0] * (k - 1) + [1]).at(loss)
        assert tight(loss) >= count.lower * (1 - 1e-9), seed
        if k == 2 and chain.transition[0, 0] + chain.transition[1, 1] >= 1:
            assert tight(loss) == pytest.approx(count.upper, rel=ROOM), seed


@pytest.mark.slow
def test_a_class_is_its_worst_chain():
    for seed in range(examples(12)):
        generator = np.random.default_rng([seed, 13])
        k, n, loss = int(generator.integers(2, 4)), int(generator.integers(1, 12)), cases.loss(generator)
        models = tuple(
            MarkovChain(transition=cases.transition(generator, k), start=random_distribution(generator, k))
            for _ in range(3)
        )
        alone = [curve("tight", model, n) for model in models]
        together = curve("tight", MarkovClass(models=models), n)
        assert together(loss) == pytest.approx(max(one(loss) for one in alone), rel=ROOM)
        assert together.inverse(1.0) == pytest.approx(min(one.inverse(1.0) for one in alone), rel=2 * ROOM)
        worst = together.worst(loss)
        assert alone[worst.model](loss) == pytest.approx(max(worst.upper, loss), rel=ROOM)
