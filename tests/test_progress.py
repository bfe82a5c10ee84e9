"""What is told on stderr while something takes long."""

from __future__ import annotations

import io
import time

import pytest

from pufferdp.apps.cli.options import Progress, _bar
from pufferdp.apps.outputs import put
from pufferdp.data.files import scanned


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("share", "shown"),
    [(None, ""), (0.0, " [....]   0%"), (0.5, " [##..]  50%"), (1.0, " [####] 100%")],
)
def test_a_bar(share: float | None, shown: str) -> None:
    assert _bar(share, width=4) == shown


@pytest.mark.slow
def test_a_bar_is_shown_after_two_seconds_and_cleared() -> None:
    stream = Terminal()
    watch = Progress(stream, lambda: 0.25)
    watch.start()
    watch("reading")
    time.sleep(0.2)
    assert stream.getvalue() == ""
    deadline = time.monotonic() + 100
    while "reading" not in stream.getvalue() and time.monotonic() < deadline:
        time.sleep(0.1)
    watch.stop()
    assert "reading [######..................]  25%" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


@pytest.mark.slow
def test_a_result_begins_on_a_line_of_its_own() -> None:
    screen = Terminal()  # stdout and stderr are the same terminal
    watch = Progress(screen)
    watch.start()
    watch("reading")
    deadline = time.monotonic() + 100
    while "reading" not in screen.getvalue() and time.monotonic() < deadline:
        time.sleep(0.1)
    put("the result", screen)
    watch.stop()
    assert " s\r\x1b[Kthe result\n" in screen.getvalue()


def test_nothing_is_scanned_when_nothing_runs() -> None:
    assert scanned() is None
