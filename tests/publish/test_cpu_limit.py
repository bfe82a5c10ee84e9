"""A stranger's certificate may state a problem that takes hours: recomputing it has an end."""

from __future__ import annotations

import gc
import inspect
import json
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pufferdp
from pufferdp.basics import cpu_limit
from pufferdp.basics.cpu_limit import run_with_cpu_limit
from pufferdp.basics.errors import CertificateError
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.verify import SECONDS

GOLDEN = Path(__file__).parents[1] / "golden"


def forged(states: int) -> dict[str, Any]:
    """A histogram by the tight curve over a chain of many states with a start of its own: a minute and more."""
    draw = np.random.default_rng(0)
    content = json.loads((GOLDEN / "answer-histogram-balanced.json").read_text())
    content["model"] = {
        "type": "markov_chain",
        "transition": draw.dirichlet(np.ones(states), size=states).tolist(),
        "start": draw.dirichlet(np.ones(states)).tolist(),
        "states": [f"s{n}" for n in range(states)],
    }
    content["mechanism"]["name"] = "curve-tight"
    content["data"] |= {"lengths": [[1000, 1]], "records": 1000}
    return {**content, "sha256": content_hash(content)}


def spin() -> None:
    while True:
        pass


def too_long() -> CertificateError:
    return CertificateError("takes too long")


def test_what_never_ends_is_ended() -> None:
    began = time.thread_time()
    with pytest.raises(CertificateError, match="takes too long"):
        run_with_cpu_limit(0.2, spin, too_long)
    assert time.thread_time() - began >= 0.2


def test_in_any_thread() -> None:
    raised: list[BaseException] = []

    def work() -> None:
        try:
            run_with_cpu_limit(0.1, spin, too_long)
        except CertificateError as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    assert len(raised) == 1


def test_waiting_is_not_working_and_what_has_ended_is_left_alone() -> None:
    run_with_cpu_limit(0.1, lambda: time.sleep(0.3), too_long)
    began = time.thread_time()
    while time.thread_time() - began < 0.3:  # the time of the block is over, and so is the block
        pass


def test_what_catches_errors_does_not_catch_it() -> None:
    def stubborn() -> None:
        while True:
            with suppress(Exception):
                spin()

    with pytest.raises(CertificateError, match="takes too long"):
        run_with_cpu_limit(0.1, stubborn, too_long)


def test_what_becomes_another_error_on_its_way() -> None:
    """As in numpy, which says of whatever comes up while it compares that it cannot compare."""

    def stubborn() -> None:
        try:
            spin()
        except BaseException:
            raise TypeError("cannot be compared") from None

    with pytest.raises(CertificateError, match="takes too long"):
        run_with_cpu_limit(0.1, stubborn, too_long)
    with pytest.raises(TypeError, match="of its own"):
        run_with_cpu_limit(5.0, own_error, too_long)


@pytest.mark.parametrize("time_is_over", [False, True])
def test_a_profiler_works_behind_it(time_is_over: bool) -> None:
    """In Python 3.11 everything that was profiled, debugged or measured for coverage behind ``verify`` hung."""
    work = "spin" if time_is_over else "int"
    code = f"""
import sys
from pufferdp.basics.errors import CertificateError
from pufferdp.basics.cpu_limit import run_with_cpu_limit
def spin():
    while True: pass
try:
    run_with_cpu_limit(0.05, {work}, lambda: CertificateError("takes too long"))
except CertificateError as error:
    print(error)
sys.setprofile(lambda *event: None)
(lambda: None)()
print("done")
"""
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert made.stdout.split("\n") == [*(["takes too long"] if time_is_over else []), "done", ""]


def own_error() -> None:
    raise TypeError("of its own")


@pytest.mark.slow
def test_time_that_ends_while_a_block_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Much is let go of where a block ends, without a step of Python in between: what comes then comes behind it."""

    def fill() -> int:
        for _ in range(80):  # long enough for several looks at the clock
            sum(range(100_000))
        return len([[] for _ in range(800_000)])

    monkeypatch.setattr(cpu_limit, "_INTERVAL", 0.001)  # several looks at the clock, however fast the machine is
    ended = 0
    gc.disable()  # whoever listens to it (Hypothesis does) would be stopped instead, and say so
    try:
        times = []
        for _ in range(3):  # the first is slower: it asks the system for memory
            began = time.thread_time()
            fill()
            times.append(time.thread_time() - began)
        alone = min(times)
        for share in (0.1, 0.5, 0.7, 0.8, 0.9, 0.95):
            try:
                run_with_cpu_limit(share * alone, fill, too_long)
            except CertificateError:
                ended += 1
    finally:
        gc.enable()
    assert ended > 0


def test_a_forged_certificate_keeps_nobody_busy() -> None:
    with pytest.raises(CertificateError, match=r"takes more than 0\.3 s, so nothing is known of it"):
        pufferdp.verify(forged(100), seconds=0.3)


def test_nor_with_the_time_that_it_has_by_default() -> None:
    assert SECONDS == inspect.signature(pufferdp.verify).parameters["seconds"].default < 10
