"""What certificates say of a model that was fitted: it follows from the model, cannot be left out, tells no bit."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pufferdp import Ledger, fit, flip, flip_stream, flow, redact, release, verify
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.model_checks import FITTED
from pufferdp.publish.noise import SeededSampler
from tests.publish.measurements.test_measurements import counts

STATES = ["rest", "rest", "rest", "active", "active", "rest"] * 20
FRAME = pd.DataFrame({"state": STATES, "t": range(len(STATES))})
NEIGHBOUR = pd.DataFrame({"state": ["active", *STATES[1:]], "t": range(len(STATES))})
"""One record is another: whoever tells the two frames apart without noise knows that record."""
MODEL = fit(FRAME, column="state", order="t").model
READ: dict[str, Any] = {"column": "state", "order": "t"}


def _stream(frame: pd.DataFrame) -> Any:
    text = frame.to_csv(index=False).encode()
    return flip_stream(io.BytesIO(text), io.BytesIO(), model=MODEL, epsilon=2.0, **READ)


KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "answer": lambda frame: release(frame, model=MODEL, query="histogram", epsilon=1.0, **READ),
    "table": lambda frame: release(frame, model=MODEL, query=["histogram"], epsilon=1.0, **READ),
    "flow": lambda frame: flow(frame, model=MODEL, eta=0.1, tau=0.5, privacy="record", **READ),
    "flip": lambda frame: flip(frame, model=MODEL, epsilon=2.0, **READ),
    "stream": _stream,
    "redaction": lambda frame: redact(frame, model=MODEL, private=[10], epsilon=2.0, **READ),
    "measurement": lambda frame: release(frame, measurement=counts(20.0), model=MODEL, epsilon=3.0, **READ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_warnings_do_not_depend_on_the_data_and_cannot_be_left_out(kind: str) -> None:
    own, other = (KINDS[kind](frame).certificate.to_dict() for frame in (FRAME, NEIGHBOUR))
    assert FITTED in own["warnings"]
    assert own["warnings"] == other["warnings"]
    assert verify(own).valid
    silent = {**own, "warnings": [text for text in own["warnings"] if text != FITTED]}
    silent["sha256"] = content_hash(silent)
    assert any(FITTED in text for text in verify(silent).problems)


def test_a_private_fit_says_what_it_has_spent(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"query": "histogram", "epsilon": 1.0, "sampler": SeededSampler(3), **READ}
    private: dict[str, Any] = {"states": ["rest", "active"], "dp_epsilon": 2.0, "sampler": SeededSampler(2), **READ}
    own = release(FRAME, model=fit(FRAME, **private).model, **asked).certificate.to_dict()
    (words,) = [text for text in own["warnings"] if "DP loss of 2" in text]
    silent = {**own, "warnings": [text for text in own["warnings"] if text != words]}
    silent["sha256"] = content_hash(silent)
    assert any(words in text for text in verify(silent).problems)
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        model = fit(FRAME, **private).model
        ledger.create("week", model=model, budget=50.0, adversary="bdp")
        charged = release(FRAME, model=model, ledger=ledger, dataset="week", **asked).certificate
    assert words in charged.warnings  # whether the ledger has counted it does not follow from the certificate
    assert verify(charged).valid
