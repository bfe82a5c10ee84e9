"""The figure of a transport: what it draws is a transport, its longest move is W, and it is written whole or not."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from pufferdp import (
    AnswerDistribution,
    Groups,
    MarkovChain,
    ModelError,
    NotApplicableError,
    ParameterError,
    answer_distribution,
    plan,
    transport_figure,
)
from pufferdp.publish.answers.distributions import moves_between
from tests.strategies import chains

CLIQUE = Groups(sizes=[4], positives=[[0.1, 0.15, 0.5, 0.15, 0.1]])
WELL = answer_distribution(CLIQUE, "count:1", given={"1": "0"})
ILL = answer_distribution(CLIQUE, "count:1", given={"1": "1"})


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_file_is_written(ending: str, tmp_path: Path) -> None:
    transport_figure(WELL, ILL, tmp_path / f"flu.{ending}", labels=("given well", "given ill"))
    assert (tmp_path / f"flu.{ending}").stat().st_size > 1000
    assert len(list(tmp_path.iterdir())) == 1


def test_the_words_are_in_the_figure(tmp_path: Path) -> None:
    transport_figure(WELL, ILL, tmp_path / "flu.svg", labels=("given well", "given ill"))
    drawn = (tmp_path / "flu.svg").read_text(encoding="utf-8")
    assert all(f">{words}</text>" in drawn for words in ("W = 2", "given well", "given ill", "0.225"))


@pytest.mark.parametrize("name", ["flu.gif", "flu", "no/flu.png"])
def test_other_places_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="figure"):
        transport_figure(WELL, ILL, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_the_clique_moves_by_two() -> None:
    found = moves_between(WELL, ILL)
    assert found.distance == 2
    assert max(found.length(move) for move in found.moves) == 2
    transport = plan(CLIQUE, "count:1", epsilon=1, adversary="pufferfish").candidate("wasserstein").calibration
    assert transport is not None
    assert transport.transport is not None
    assert transport.transport.distance == found.distance


def check(found) -> None:
    """The masses leave the one distribution and arrive at the other."""
    leaving, arriving = np.zeros(len(found.answers)), np.zeros(len(found.answers))
    for i, j, mass in found.moves:
        leaving[i] += mass
        arriving[j] += mass
    np.testing.assert_allclose(leaving, found.first, atol=1e-12)
    np.testing.assert_allclose(arriving, found.second, atol=1e-12)
    assert max(found.length(move) for move in found.moves) <= found.distance


def test_the_masses_add_up() -> None:
    check(moves_between(WELL, ILL))
    check(moves_between(ILL, WELL))
    assert moves_between(WELL, WELL).distance == 0


@given(chain=chains(most_states=3, starts=("stationary", "given")))
def test_over_chains_the_masses_add_up_and_nothing_goes_farther_than_w(chain: MarkovChain) -> None:
    distributions = []
    for state in chain.labels:
        with contextlib.suppress(ModelError, NotApplicableError):  # the state is impossible, or all but impossible
            distributions.append(answer_distribution(chain, "count:0", length=5, given={"3": state}))
    for first, second in itertools.combinations(distributions, 2):
        check(moves_between(first, second))


@pytest.mark.slow
@pytest.mark.parametrize(("record", "distance"), [("1", 3), ("60", 4)])
def test_dust_is_not_carried(record: str, distance: int, tmp_path: Path) -> None:
    """A chain on which the plain walk in doubles finds about 100. The distances are those of the walk in rationals."""
    chain = MarkovChain(transition=[[0.999, 0.001], [0.9, 0.1]])
    distributions = [answer_distribution(chain, "count:1", length=120, given={record: state}) for state in ("0", "1")]
    found = moves_between(*distributions)
    assert found.distance == distance
    check(found)
    transport_figure(*distributions, tmp_path / "chain.svg")
    assert f">W = {distance}" in (tmp_path / "chain.svg").read_text(encoding="utf-8")


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    pairs = AnswerDistribution(np.array([[0.0, 2.0], [1.0, 1.0]]), np.array([0.5, 0.5]))
    with pytest.raises(ParameterError, match="one number"):
        transport_figure(pairs, pairs, tmp_path / "flu.png")
    many = AnswerDistribution(np.arange(200 + 1.0), np.full(200 + 1, 1 / (200 + 1)))
    with pytest.raises(ParameterError, match="201"):
        transport_figure(many, many, tmp_path / "flu.png")
    assert not list(tmp_path.iterdir())
