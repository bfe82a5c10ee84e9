"""Certificates and ledgers of another machine, whose searches and rounding end elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pufferdp import Ledger, MarkovChain, plan, release, verify
from pufferdp.bounds import curve_forms
from pufferdp.bounds.distributions.wasserstein import Pairs
from pufferdp.publish.answers.mechanisms.exact import ExactLeakage
from pufferdp.publish.answers.plan import CALIBRATED

TWO = MarkovChain(transition=[[0.88, 0.12], [0.3, 0.7]], states=["rest", "active"])
THREE = MarkovChain(
    transition=[[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]], states=["rest", "walk", "active"]
)
HOURS = pl.DataFrame({"t": range(60), "s": ["rest", "rest", "active"] * 20})
READ: dict[str, Any] = {"column": "s", "order": "t", "epsilon": 1.0}
RELEASES: dict[str, Callable[..., Any]] = {
    "curve": lambda **more: release(HOURS, model=THREE, query="histogram", mechanism="curve-tight", **READ, **more),
    "odds": lambda **more: release(HOURS, model=TWO, query="histogram", mechanism="curve-odds", **READ, **more),
    "exact": lambda **more: release(HOURS, model=THREE, query="count:rest", mechanism="exact-laplace", **READ, **more),
    "gaussian": lambda **more: release(
        HOURS, model=THREE, query="histogram", mechanism="gaussian-tight", delta=1e-6, **READ, **more
    ),
    "table": lambda **more: release(HOURS, model=THREE, query=["histogram", "transitions"], **READ, **more),
}


def made_elsewhere(name: str, share: float, **more: Any) -> Any:
    """A release on a machine whose searches end at a loss that is this many times as large."""
    with pytest.MonkeyPatch.context() as elsewhere:
        for searched in (curve_forms.Curve, ExactLeakage):
            best = searched.inverse
            elsewhere.setattr(searched, "inverse", lambda self, epsilon, best=best: share * best(self, epsilon))
        CALIBRATED.clear()
        made = RELEASES[name](**more)
    CALIBRATED.clear()
    return made


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize(("share", "valid"), [(1 - 1e-6, True), (1 - 1e-3, True), (1.01, False), (0.98, False)])
def test_a_search_that_ends_elsewhere(name: str, share: float, valid: bool) -> None:
    """A little more noise verifies. Less noise never does, nor does so much that a ledger is charged too little."""
    assert verify(made_elsewhere(name, share).certificate.to_dict()).valid is valid


@pytest.mark.parametrize("name", ["odds", "exact"])
def test_a_bound_without_tolerance_allows_no_more_loss_than_it_says(name: str) -> None:
    assert not verify(made_elsewhere(name, 1 + 1e-6).certificate.to_dict()).valid


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize(("share", "valid"), [(1 - 1e-3, True), (0.98, False)])
def test_a_ledger_that_was_charged_elsewhere(tmp_path: Path, name: str, share: float, valid: bool) -> None:
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        model = TWO if name == "odds" else THREE
        ledger.create("week", model=model, budget=5.0, delta=1e-5 if name == "gaussian" else 0.0)
        made_elsewhere(name, share, ledger=ledger, dataset="week")
        assert ledger.verify().valid is valid


def test_rounding_does_not_choose_among_pairs_that_are_equally_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """By symmetry records 6 and 7 of twelve decide alike; the last digit of a sum named one of them."""
    shift = Pairs._shift.func  # type: ignore[attr-defined]
    named = []
    for nudge in (-1e-15, 1e-15):
        nudged = property(lambda self, nudge=nudge: shift(self) * (1 + nudge * np.arange(len(self.first))))
        monkeypatch.setattr(Pairs, "_shift", nudged)
        CALIBRATED.clear()
        plans = plan(TWO, "count:active", epsilon=1.0, length=12, adversary="pufferfish")
        calibration = plans.candidate("wasserstein").calibration
        assert calibration is not None and calibration.transport is not None
        named.append(calibration.transport.first)
    assert named[0] == named[1]
