"""Errors name the value, the rule and the way out."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from pufferdp.basics.errors import ModelError, ParameterError
from pufferdp.bounds.approximate import (
    approximate_leakage,
)
from pufferdp.bounds.hidden.odds import HiddenOdds
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.odds import OddsCurve, TreeOdds
from pufferdp.bounds.tight.streams import stream_leakage
from tests.bounds.tight.cases import leakage_of_losses

P = [[0.9, 0.1], [0.2, 0.8]]


@pytest.mark.parametrize(
    ("losses", "says"),
    [
        ([0.1, -0.2], "-0.2 for record 2"),
        ([0.1, math.nan], "nan for record 2"),
        ([math.inf], "inf for record 1"),
        ([], "shape"),
        ([[0.1]], "shape"),
        (["much"], "numbers"),
    ],
)
def test_losses(losses, says):
    with pytest.raises(ParameterError, match=says):
        leakage_of_losses(P, losses)


def test_losses_of_another_length():
    with pytest.raises(ParameterError, match="3 numbers and there are 5 records"):
        stream_leakage(P, [0.1, 0.1, 0.1], length=5)


@pytest.mark.parametrize("loss", [-0.1, math.nan, math.inf, 1e200])
def test_one_loss(loss):
    for curve in (TightCurve(P), OddsCurve.of_chains([P]), TreeOdds([(0, 1, P)])):
        with pytest.raises(ParameterError, match=re.escape(f"is {loss:g}")):
            curve(loss)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_target(epsilon):
    for curve in (TightCurve(P), OddsCurve.of_chains([P]), TreeOdds([(0, 1, P)])):
        with pytest.raises(ParameterError, match=f"epsilon is {epsilon:g}"):
            curve.inverse(epsilon)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2.0, math.nan])
def test_delta(delta):
    with pytest.raises(ParameterError, match=f"is {delta:g}"):
        approximate_leakage(TightCurve(P, length=5), 0.1, delta)


@pytest.mark.parametrize("length", [0, -3, 2.5, True, "many"])
def test_length(length):
    with pytest.raises(ParameterError, match=re.escape(f"length is {length!r}")):
        TightCurve(P, length=length)


def test_models():
    with pytest.raises(ModelError, match=r"row 2 of transition sums to 0\.9"):
        TightCurve([[0.9, 0.1], [0.2, 0.7]])
    with pytest.raises(ModelError, match=r"entry 2 of row 1 of transition is -0\.1"):
        TightCurve([[1.1, -0.1], [0.2, 0.8]])
    with pytest.raises(ModelError, match="start has 3 probabilities"):
        TightCurve(P, start=[0.2, 0.3, 0.5])
    with pytest.raises(ModelError, match="start is 'somewhere'"):
        TightCurve(P, start="somewhere")
    with pytest.raises(ParameterError, match="adversary is 'everyone'"):
        TightCurve(P, adversary="everyone")
    with pytest.raises(ParameterError, match="the class has no chain"):
        TightCurve.of_class([])
    with pytest.raises(ModelError, match="emission"):
        HiddenOdds.of(P, np.ones((3, 2)) / 2)
    with pytest.raises(ModelError, match="lies on a cycle"):
        TreeOdds([(0, 1, P), (1, 2, P), (2, 0, P)])
