"""Fixed randomness, two tiers of tests, and a home of their own for all of them.

``make test`` runs the first tier: the tests that bear none of the markers below. ``make test-all`` runs everything,
with more examples.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

# Before numpy is imported. Tests run beside each other: threads of linear algebra on top would wait for each other, and
# count as processor time meanwhile.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

# A shell lets its background jobs ignore these, and tests send them to themselves and to processes that inherit them.
for interrupt, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(interrupt) is signal.SIG_IGN:
        signal.signal(interrupt, handler)

# A suite that several mechanisms inherit runs under several classes; without a database that is harmless.
unworried = [HealthCheck.too_slow, HealthCheck.differing_executors]
# Examples are derived from the tests themselves, so a run can be repeated.
common = {"deadline": None, "derandomize": True, "database": None, "suppress_health_check": unworried}
# What ``make test`` tries, what ``make test-all`` tries, and what a night allows. Tests that want a number of their own
# take ``tests.strategies.examples``, which follows these. Examples are the same in every run: what the twentieth does
# not show, a night of six hundred does rather than twenty more each time.
settings.register_profile("dev", max_examples=10, **common)
settings.register_profile("ci", max_examples=20, **common)
settings.register_profile("soak", max_examples=600, **common)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

SECOND_TIER = ("slow", "servers", "races", "docs", "browser")
MARKER_OF_FIXTURE = {"postgres": "servers", "spark": "servers", "browser": "browser"}
"""Whoever asks for one of these is marked, so that nobody can forget to."""

HEAVY_IMPORTS = (
    "scipy.stats", "scipy.optimize", "opendp.prelude", "duckdb", "narwhals", "pandas", "polars", "pyarrow.parquet",
    "matplotlib.figure", "jinja2", "starlette.applications", "sklearn.linear_model", "diffprivlib.mechanisms",
)  # fmt: skip
"""What tests or the code they call import late, and which takes a tenth of a second or more."""


class TimeLimit:
    """Fails a first-tier test that takes too long, so that the tier stays quick.

    What counts is processor time, in this process and in the children it waited for: it hardly depends on what else
    the machine does. Only the test itself counts. Fixtures are made once for many tests, and whichever comes first
    would pay for the rest; so it would for libraries that are imported late, which is why they are imported before
    the first test.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Import what the first test that needs it would otherwise pay for."""
        if session.items and not session.config.option.collectonly:
            for name in HEAVY_IMPORTS:
                with contextlib.suppress(ImportError):  # the tests that need it are skipped
                    importlib.import_module(name)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        began = processor_seconds()
        result = yield
        taken = processor_seconds() - began
        if taken > self.seconds and not any(item.get_closest_marker(name) for name in SECOND_TIER):
            pytest.fail(
                f"{item.nodeid} took {taken:.1f} s of processor time; a test of the first tier may take "
                f"{self.seconds:g} s. Make it smaller, or mark it slow: then `make test-all` alone runs it.",
                pytrace=False,
            )
        return result


def processor_seconds() -> float:
    """Processor time of this process and of those it started and waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def pytest_configure(config: pytest.Config) -> None:
    # Set by ``make test``. Absent or 0: no limit, as in ``make test-all``, which has more examples, and wherever a few
    # tests are run by hand. As a plugin it covers the examples in docstrings too, which are outside this folder.
    seconds = float(os.environ.get("PUFFERDP_TEST_SECONDS") or 0)
    if seconds > 0:
        config.pluginmanager.register(TimeLimit(seconds))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Thousands of tests and all that they import stay to the end: nobody need look for garbage among them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, *gc.get_threshold()[1:])


def pytest_sessionfinish(session: pytest.Session) -> None:
    gc.unfreeze()  # libraries that look for what was left over at the end would find it all


def pytest_itemcollected(item: pytest.Item) -> None:
    for fixture in getattr(item, "fixturenames", ()):
        if fixture in MARKER_OF_FIXTURE:
            item.add_marker(MARKER_OF_FIXTURE[fixture])


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """New folders, one after the other."""
    above = tmp_path_factory.mktemp("homes")
    return (above / str(n) for n in itertools.count())


@pytest.fixture(autouse=True)
def home(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test touches the user's own secret."""
    folder = next(homes)
    folder.mkdir()
    monkeypatch.setenv("PUFFERDP_HOME", str(folder))
    return folder


@pytest.fixture
def shared_data():
    """Real data, where it is at hand."""
    folder = os.environ.get("PUFFERDP_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("PUFFERDP_DATA does not name a folder with the real data")
    return Path(folder)
