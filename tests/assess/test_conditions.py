"""Every sentence that states a leakage bound says under which condition it holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pufferdp import MarkovChain, leakage_of, leakage_of_losses, secret_leakage, stream_budget, stream_leakage

CHAIN = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["rest", "active"], step="1h")
BOUND = re.compile(
    r"factor of e\^|leaks? at most|leaks? (no )?more than|leak no more|guarantees ε|would leak|keeps it|DP ε of"
)
REPORTS: dict[str, Callable[[], Any]] = {
    "loss": lambda: leakage_of(CHAIN, dp_epsilon=0.1, length=50),
    "query": lambda: leakage_of(CHAIN, dp_epsilon=0.1, length=50, query="count:active"),
    "target": lambda: leakage_of(CHAIN, target=1, length=50, query="count:active"),
    "delta": lambda: leakage_of(CHAIN, dp_epsilon=0.1, dp_delta=1e-6, length=50),
    "unit": lambda: leakage_of(CHAIN, dp_epsilon=0.1, unit="day"),
    "unit-target": lambda: leakage_of(CHAIN, target=1, unit="day"),
    "every": lambda: leakage_of(CHAIN, dp_epsilon=0.1, every="1d", window="7d"),
    "every-target": lambda: leakage_of(CHAIN, target=1, every="1d", window="7d"),
    "every-delta": lambda: leakage_of(CHAIN, dp_epsilon=0.1, dp_delta=1e-6, every="1d", window="7d"),
    "every-target-delta": lambda: leakage_of(CHAIN, target=1, delta=1e-6, every="1d", window="7d"),
    "losses": lambda: leakage_of_losses(CHAIN, [0.1, 0, 0.3, 0.2, 0, 0.1]),
    "stream": lambda: stream_leakage(CHAIN, [0.1, 0.2, 0.1]),
    "endless": lambda: stream_leakage(CHAIN, 0.1),
    "budget": lambda: stream_budget(CHAIN, 1.0, length=5),
    "secret": lambda: secret_leakage(CHAIN, "ever:active:2..4", dp_epsilon=0.5, length=5),
    "secret-target": lambda: secret_leakage(CHAIN, "ever:active:2..4", target=1, length=5),
}


@pytest.mark.parametrize("name", REPORTS)
def test_bounds_are_stated_under_the_model(name: str) -> None:
    report = REPORTS[name]()
    blocks = [" ".join(block.split()) for block in str(report).split("\n\n")]
    assert "under this model" in blocks[0]  # the title of the table
    words = [block for block in blocks if "----" not in block]  # tables stand under the title
    sentences = [s for block in words for s in re.split(r"(?<=\.) (?=[A-Z])", block) if BOUND.search(s)]
    assert len(sentences) >= 1
    assert [s for s in sentences if "under this model" not in s.lower()] == []
    assert report.to_dict()["assumption"].startswith("under this model")


def test_with_a_delta_the_pair_of_each_aggregate_is_stated() -> None:
    """Seven windows of a week, one a day, hold each record: each has a seventh of the pair that is allowed in total."""
    report = leakage_of(CHAIN, target=1, delta=1e-6, every="1d", window="7d")
    each = report.to_dict()["aggregates"]
    assert each["reads"] == 7
    assert 7 * each["each"] == pytest.approx(report.curves[report.best])
    assert 7 * each["each_delta"] == pytest.approx(report.dp_delta)
    words = " ".join(str(report).split())
    assert "on each aggregate guarantees ε = 1" in words
    assert "in total" not in words
    back = leakage_of(CHAIN, dp_epsilon=each["each"], dp_delta=each["each_delta"], every="1d", window="7d")
    assert back.epsilon <= 1 + 1e-9
    assert back.delta <= 1e-6 * (1 + 1e-6)
