"""Audited code that takes too long, too much memory or too many processes, and what it leaves behind."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pufferdp import MarkovChain, MechanismError, audit_mechanism

CHAIN = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]])
STARTING = 2.0
"""Seconds for starting processes on a machine that is busy with other things."""


def took(mechanism: Any, seconds: float, **more: Any) -> tuple[float, object]:
    """How long an audit took, and its result or its error."""
    started = time.monotonic()
    try:
        result: object = audit_mechanism(CHAIN, mechanism, length=6, dp_epsilon=1.0, seconds=seconds, **more)
    except MechanismError as error:
        result = error
    return time.monotonic() - started, result


def hang(row: Any) -> float:
    time.sleep(1000)
    return 0.0


def slow(row: Any) -> float:
    time.sleep(0.05)
    return float(row.sum() + np.random.laplace())


CALLS: list[int] = []


def stall(row: Any) -> float:
    CALLS.append(1)
    if len(CALLS) > 500:
        time.sleep(1000)
    return float(row.sum() + np.random.laplace())


def wide(row: Any) -> Any:
    return row.sum() + np.random.laplace(size=10_000)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [hang, slow, stall, wide])
def test_seconds_hold_for_functions(mechanism: Any) -> None:
    elapsed, result = took(mechanism, 6.0)
    assert elapsed < 1.2 * 6.0 + STARTING, (elapsed, result)
    if mechanism in (hang, stall):
        assert isinstance(result, MechanismError)
        assert result.exit_code == 2  # 3 is for a claim that is wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "sleep 1000",
        "yes >&2",
        "cat > /dev/null; exec >&-; sleep 1000",
        "while read -r line; do echo 1; sleep 0.2; done",
    ],
)
def test_seconds_hold_for_commands(script: str, tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(script + "\n")
    elapsed, result = took(f"command:sh {file}", 4.0)
    assert elapsed < 1.2 * 4.0 + STARTING, (elapsed, result)
    assert isinstance(result, MechanismError)
