"""The public names: sorted, there, and lazily the same objects."""

import subprocess
import sys

import pufferdp


def test_all_is_sorted_and_complete():
    assert pufferdp.__all__ == sorted(pufferdp.__all__)
    for name in pufferdp.__all__:
        assert getattr(pufferdp, name).__doc__, name
    assert dir(pufferdp) == pufferdp.__all__


def test_functions_are_not_shadowed_by_modules():
    script = "import pufferdp as p; p.release; assert all(callable(f) for f in (p.release, p.plan, p.fit, p.verify))"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_unknown_names_are_attribute_errors():
    assert not hasattr(pufferdp, "wasserstein_everything")
