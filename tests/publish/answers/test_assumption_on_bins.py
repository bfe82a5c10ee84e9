"""A sum of numbers under a model of their bins says what it believes of numbers inside a bin, and nothing else does."""

from __future__ import annotations

import pandas as pd
import pytest

from pufferdp import Ar1, MarkovChain, release, verify
from pufferdp.publish.certificate import content_hash

BINNED = MarkovChain(transition=[[0.9, 0.1], [0.2, 0.8]], bins=(0, 50, 100))
VALUED = MarkovChain(transition=[[0.9, 0.1], [0.2, 0.8]], bins=(0, 50, 100), values=(25, 75))
ROWS = pd.DataFrame({"x": [10.0, 20.0, 60.0, 55.5, 30.0] * 10})
BELIEF = "given the bins, where a number lies inside its bin is independent of everything else"
ASKED = {"column": "x", "epsilon": 1.0}


@pytest.mark.parametrize("query", ["sum", "mean"])
def test_numbers_in_bins_have_the_clause(query):
    certificate = release(ROWS, model=BINNED, query=query, clip=(0, 100), **ASKED).certificate
    assert BELIEF in certificate.data.assumptions
    assert BELIEF in certificate.guarantee.statement
    assert verify(certificate).problems == ()


@pytest.mark.parametrize(
    ("model", "query", "clip"),
    [
        (BINNED, "histogram", None),
        (BINNED, "count:0", None),
        (VALUED, "sum", None),
        (VALUED, "mean", (0, 100)),
        (Ar1(coefficient=0.5), "mean", (0, 100)),
    ],
)
def test_nothing_else_has_it(model, query, clip):
    certificate = release(ROWS, model=model, query=query, clip=clip, **ASKED).certificate
    assert BELIEF not in certificate.data.assumptions
    assert BELIEF not in certificate.guarantee.statement
    assert verify(certificate).problems == ()


def test_the_clause_cannot_be_left_out_or_added():
    with_it = release(ROWS, model=BINNED, query="sum", clip=(0, 100), **ASKED).certificate.to_dict()
    without = release(ROWS, model=BINNED, query="histogram", **ASKED).certificate.to_dict()
    kept = [text for text in with_it["data"]["assumptions"] if text != BELIEF]
    for content, listed in ((with_it, kept), (without, [*without["data"]["assumptions"], BELIEF])):
        changed = {**content, "data": {**content["data"], "assumptions": listed}}
        changed["sha256"] = content_hash(changed)
        assert any("assumptions" in text for text in verify(changed).problems)
