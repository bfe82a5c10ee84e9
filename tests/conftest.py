"""Fixed randomness: examples are derived from the tests themselves, so a run can be repeated."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A suite that several mechanisms inherit runs under several classes; without a database that is harmless.
unworried = [HealthCheck.too_slow, HealthCheck.differing_executors]
common = {"deadline": None, "derandomize": True, "database": None, "suppress_health_check": unworried}
settings.register_profile("default", max_examples=60, **common)
settings.register_profile("ci", max_examples=100, **common)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    """No test touches the user's own secret."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("PUFFERDP_HOME", str(folder))
    return folder


@pytest.fixture
def shared_data():
    """Real data, where it is at hand."""
    folder = os.environ.get("PUFFERDP_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("PUFFERDP_DATA does not name a folder with the real data")
    return Path(folder)
