"""Sums of large numbers: the stated error bound includes what rounding to doubles adds, and noise stays as it was."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pufferdp import Ar1, MarkovChain, Query, release
from pufferdp.publish.noise import SeededSampler

RECORDS = 400


class Offsets:
    """Noise of a seeded sampler that remembers the largest scale it was asked for."""

    def __init__(self) -> None:
        self._sampler = SeededSampler(5)
        self.scale = 0.0

    def __getattr__(self, name: str):
        return getattr(self._sampler, name)

    def laplace(self, exact: list[float], scale: float) -> list[float]:
        self.scale = max(self.scale, scale)
        return self._sampler.laplace(exact, scale)


def binned(start: float, width: float) -> MarkovChain:
    edges = (start, start + width / 2, start + width)
    return MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], bins=edges)


@pytest.mark.slow
@pytest.mark.parametrize("start", [-1e15, 2.0**59])
@pytest.mark.parametrize("per", [None, "half"])
def test_the_errors_of_large_sums_stay_within_the_stated_bound(start: float, per: str | None):
    """60 releases at beta .05: more than 11 errors beyond the bound have a probability below 1e-4."""
    width = 2048.0 if start == 2.0**59 else 1.0
    rng = np.random.default_rng(7)
    numbers = start + width * rng.integers(0, 2, RECORDS) / 2
    frame = pl.DataFrame({"x": numbers, "t": range(RECORDS), "half": ["first", "second"] * (RECORDS // 2)})
    true = sum(map(int, numbers[:: 1 if per is None else 2] * 2)) / 2
    model, sampler, beyond = binned(start, width), Offsets(), 0
    clip = (start, start + width)
    for _ in range(60):
        made = release(
            frame, model=model, column="x", order="t", query="sum", clip=clip, epsilon=1.0, sampler=sampler, per=per
        )
        if per is None:
            answer, alpha, scale = made.answer, made.certificate.accuracy.alpha, made.certificate.noise.scale
        else:
            question = made.certificate.questions[0]
            answer, alpha, scale = made.table.rows[0][2], question.accuracy.alpha, question.noise.scale
        beyond += abs(answer - true) >= alpha
    assert beyond <= 11
    # The noise is that of the width of the range, wherever the range lies.
    assert sampler.scale == pytest.approx(scale, rel=1e-9)


@pytest.mark.parametrize("query", ["sum", "mean"])
def test_the_bound_says_how_far_doubles_lie_apart(query: str):
    ar1 = Ar1(coefficient=0.5, sd=1.0, mean=1e15)
    frame = pl.DataFrame({"x": np.full(RECORDS, 1e15), "t": range(RECORDS)})
    made = release(frame, model=ar1, column="x", order="t", query=query, clip=(1e15 - 1, 1e15 + 1), epsilon=1e3)
    true = 1e15 * (RECORDS if query == "sum" else 1)
    spacing = np.spacing(true)
    assert made.certificate.accuracy.alpha >= spacing
    assert abs(made.answer - true) <= made.certificate.accuracy.alpha


def test_the_noise_of_a_function_does_not_depend_on_its_answer():
    model = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]])
    scales = []
    for offset in (0.0, 1e15):
        query = Query.of_function(lambda chains, offset=offset: offset + float(sum(map(sum, chains))), lipschitz=1.0)
        sampler = Offsets()
        release([0, 1, 1, 0], model=model, query=query, epsilon=1.0, sampler=sampler)
        scales.append(sampler.scale)
    assert scales[0] == scales[1]
