"""A private fit: noise on transition counts, bounds that allow for it, and its charge."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pufferdp import BudgetError, Ledger, MarkovChain, MarkovInterval, ModelError, ParameterError, fit, release, verify
from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.curves import curve
from pufferdp.publish.fits.bounds import TRANSITIONS_MOVE, Bounds, noisy_box, noisy_counts, tail_bound, transition_scale
from pufferdp.publish.noise import SeededSampler
from tests.ledger.conftest import place
from tests.servers import postgres
from tests.tolerance import both_upper_ends

__all__ = ["place", "postgres"]

P = np.array([[0.8, 0.2], [0.35, 0.65]])
GENERATOR = np.random.default_rng(5)


def walk(length: int, generator: np.random.Generator = GENERATOR) -> list[int]:
    path = [0]
    for _ in range(length - 1):
        path.append(int(generator.random() < P[path[-1], 1]))
    return path


FRAME = pd.DataFrame({"state": [["rest", "active"][x] for x in walk(5000)]})
OPTIONS = {"column": "state", "states": ["rest", "active"]}


def test_one_record_moves_the_counts_by_four_at_most() -> None:
    """By enumeration over all series of six records with three states."""
    worst = 0

    def counts(path: tuple[int, ...]) -> np.ndarray:
        out = np.zeros((3, 3), dtype=int)
        for a, b in itertools.pairwise(path):
            out[a, b] += 1
        return out

    for path in itertools.product(range(3), repeat=6):
        for at, value in itertools.product(range(6), range(3)):
            other = (*path[:at], value, *path[at + 1 :])
            worst = max(worst, int(np.abs(counts(path) - counts(other)).sum()))
    assert worst == TRANSITIONS_MOVE


def test_the_noise_is_no_narrower_than_the_loss_allows() -> None:
    from fractions import Fraction

    for loss in (0.1, 0.3, 1.0, 1e-9, 7.7):
        assert Fraction(transition_scale(loss)) * Fraction(loss) >= 4


def test_a_private_fit_is_near_the_truth_and_says_what_it_cost() -> None:
    done = fit(FRAME, **OPTIONS, dp_epsilon=1.0, sampler=SeededSampler(3))
    assert isinstance(done.model, MarkovChain)
    assert np.abs(done.model.transition - P).max() < 0.03
    assert done.dp_epsilon == 1.0
    assert done.model.fitted is not None
    assert done.model.fitted["dp_epsilon"] == 1.0
    # A keyed digest of exact counts has no place beside noisy ones.
    assert "digest" not in done.model.fitted
    warned = release(FRAME, model=done.model, column="state", query="histogram", epsilon=1.0).certificate.warnings
    assert any("fitted with a DP loss of 1" in w for w in warned)


@pytest.mark.parametrize("seed", range(2))
def test_noise_makes_no_move_impossible(seed: int) -> None:
    """A count of 0 or less came out for most seeds, and a release with the model was charged and then rejected."""
    done = fit(FRAME[:40], **OPTIONS, dp_epsilon=0.05, sampler=SeededSampler(seed))
    assert isinstance(done.model, MarkovChain)
    assert done.model.labels == ("rest", "active") and done.model.transition.min() > 0
    assert done.prior == 0.5 and done.model.fitted is not None and done.model.fitted["prior"] == 0.5


def test_which_states_occur_is_not_told() -> None:
    """Two data sets that differ in one record give models of the same shape and facts."""
    quiet = pd.DataFrame({"state": ["a", "b"] * 50})
    odd = pd.DataFrame({"state": ["a", "b"] * 49 + ["a", "c"]})
    made = [
        fit(f, column="state", states=["a", "b", "c"], dp_epsilon=1.0, confidence=0.9, sampler=SeededSampler(1))
        for f in (quiet, odd)
    ]
    assert [m.unvisited for m in made] == [(), ()]
    assert [m.model.labels for m in made] == [("a", "b", "c")] * 2
    assert made[0].model.fitted == made[1].model.fitted


def test_a_lower_bound_grows_with_successes_and_falls_with_failures() -> None:
    """What noisy_box rests on, on a grid."""
    bounds = Bounds(np.log(200))
    for s, f in itertools.product([1, 2, 3, 5, 10, 40, 200, 1000], repeat=2):
        low, high = bounds(s, f)
        assert bounds(s + 1, f)[0] >= low - 2e-12 and bounds(s + 1, f)[1] >= high - 2e-12
        assert bounds(s, f + 1)[0] <= low + 2e-12 and bounds(s, f + 1)[1] <= high + 2e-12


@pytest.mark.parametrize("terms", [1, 3])
def test_far_is_far_enough(terms: int) -> None:
    """Against the distribution of the sum, by convolution."""
    scale = 8.0
    q, reach = np.exp(-1 / scale), 600
    distribution = (1 - q) / (1 + q) * q ** np.abs(np.arange(-reach, reach + 1))
    total = distribution
    for _ in range(terms - 1):
        total = np.convolve(total, distribution)
    middle = len(total) // 2
    for risk in (0.1, 1e-3, 1e-6):
        t = tail_bound(scale, terms, risk)
        outside = total[: middle - t].sum() + total[middle + t + 1 :].sum()
        assert outside <= risk
        assert t <= terms * scale * np.log(100 / risk)


def test_the_class_contains_the_truth_as_often_as_it_says() -> None:
    """200 walks at confidence .8; were it kept in 80 % only, fewer than 143 of them would be with probability 2e-3."""
    generator, held = np.random.default_rng(8), 0
    for seed in range(200):
        path, moves = walk(400, generator), np.zeros((2, 2), dtype=np.int64)
        for a, b in itertools.pairwise(path):
            moves[a, b] += 1
        scale = transition_scale(2.0)
        low, high = noisy_box(noisy_counts(moves, scale, SeededSampler(seed)), 0.8, scale)
        held += bool((low <= P).all() and (high >= P).all())
        assert (low <= high).all()
    assert held >= 143


def test_bounds_close_in_with_more_data() -> None:
    done = fit(FRAME, **OPTIONS, dp_epsilon=1.0, confidence=0.95, sampler=SeededSampler(3))
    assert isinstance(done.model, MarkovInterval)
    assert (done.model.low <= P).all() and (done.model.high >= P).all()
    assert (done.model.high - done.model.low).max() < 0.25


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "states is missing"),
        ({"bins": "width:2"}, "from where to where"),
        ({"bins": "0,1,2", "states": ["a"]}, "both given"),
    ],
)
def test_what_a_private_fit_must_be_told(options: dict[str, object], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        fit(pd.DataFrame({"x": [0.5, 1.5, 0.5]}), column="x", dp_epsilon=1.0, **options)


class Forbidden(SeededSampler):
    """Noise that must not be drawn."""

    def discrete_laplace(self, exact, scale):
        raise AssertionError("drawn before the ledger was asked")


def test_a_fit_is_charged_what_it_leaks_under_the_model_of_the_data_set(place: str) -> None:
    """It was charged its DP loss alone, and then 19.45 of a budget of 1 was spent."""
    model = MarkovChain(transition=[[0.99, 0.01], [0.01, 0.99]], states=["rest", "active"])
    with Ledger(place, create=True) as ledger:
        ledger.create("week", model=model, adversary="bdp", budget=1.0)
        options = {**OPTIONS, "ledger": ledger, "dataset": "week"}
        with pytest.raises(BudgetError, match=r"leaked at most 0 of its budget 1.* needs a DP loss of 0\.5") as refused:
            fit(FRAME, **options, dp_epsilon=0.5, sampler=Forbidden(1))
        assert ledger.dataset("week").releases == 0
        left = refused.value.left
        assert left is not None and left < 0.02
        done = fit(FRAME, **options, dp_epsilon=left, sampler=SeededSampler(3))
        found = ledger.dataset("week")
        assert done.receipt is not None and done.receipt.position == 1
        assert (found.releases, found.spent_dp, found.curve) == (1, left, "tight")
        assert 0.9 < found.leakage <= 1.0
        assert found.leakage == both_upper_ends(curve("tight", model, 5000, Adversary.BDP)(left))
        with pytest.raises(BudgetError):
            fit(FRAME, **options, dp_epsilon=left, sampler=Forbidden(1))
        assert ledger.verify(done.receipt.head).valid


def test_what_a_fit_was_charged_counts_for_a_part_with_the_fitted_model(tmp_path: Path) -> None:
    model = MarkovChain(transition=P, states=["rest", "active"])
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", model=model, budget=4.0)
        done = fit(FRAME, **OPTIONS, dp_epsilon=0.2, ledger=ledger, dataset="week", sampler=SeededSampler(3))
        ledger.create("week/fitted", model=done.model, budget=4.0)
        assert ledger.dataset("week/fitted").spent_dp == 0.2
        options = {"model": done.model, "column": "state", "query": "histogram", "epsilon": 0.5}
        made = release(FRAME, **options, ledger=ledger, dataset="week/fitted")
        assert any("charge it to the same ledger" in text for text in made.certificate.warnings)
        assert verify(made.certificate.to_dict()).valid
        for name in ("week", "week/fitted"):
            assert ledger.dataset(name).spent_dp > 0.2
        assert ledger.verify().valid


def test_a_data_set_without_a_model_cannot_be_made(tmp_path: Path) -> None:
    with Ledger(tmp_path / "books.db", create=True) as ledger, pytest.raises(ModelError):
        ledger.create("week", model=None, budget=1.0)


def test_a_fit_is_charged_before_its_noise(tmp_path: Path) -> None:
    class Crash(SeededSampler):
        def discrete_laplace(self, exact, scale):
            raise KeyboardInterrupt

    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", model=MarkovChain(transition=P, states=["rest", "active"]), budget=9.0)
        with pytest.raises(KeyboardInterrupt):
            fit(FRAME, **OPTIONS, dp_epsilon=0.5, ledger=ledger, dataset="week", sampler=Crash(1))
        assert ledger.dataset("week").spent_dp == 0.5
        fit(FRAME, **OPTIONS, dp_epsilon=0.5, ledger=ledger, dataset="week")
        assert ledger.dataset("week").spent_dp == 1.0
        assert ledger.verify().valid


def test_a_fit_that_is_not_private_is_not_charged(tmp_path: Path) -> None:
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", model=MarkovChain(transition=P, states=["rest", "active"]), budget=9.0)
        with pytest.raises(ParameterError, match="not private"):
            fit(FRAME, column="state", ledger=ledger, dataset="week")
