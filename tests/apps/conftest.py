"""Signals as a terminal has them: whoever runs the tests in the background may have told them to ignore some."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

USUAL = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}


@pytest.fixture(autouse=True)
def usual_signals() -> Iterator[None]:
    """The handlers that a new process has."""
    before = {number: signal.signal(number, handler) for number, handler in USUAL.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
