"""The public names: sorted, there, lazily the same objects; the version; ``python -m pufferdp``; short reprs."""

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pufferdp
from pufferdp.apps.verbs import VERBS

HELPERS = (
    "Success",
    "SingleBit",
    "curves",
    "Charge",
    "tilted_model",
    "dobrushin",
    "answer_distribution",
    "AnyGroups",
    "flow_map",
)


def test_all_is_sorted_and_complete():
    assert pufferdp.__all__ == sorted(pufferdp.__all__)
    for name in pufferdp.__all__:
        assert getattr(pufferdp, name).__doc__, name
    assert dir(pufferdp) == pufferdp.__all__


def test_dir_has_the_names_people_use_and_old_names_can_be_imported():
    assert 35 <= len(dir(pufferdp)) <= 50
    assert not set(HELPERS) & set(dir(pufferdp))
    for name in HELPERS:
        assert getattr(pufferdp, name).__doc__, name


def test_the_version_is_that_of_the_package_and_is_written_once():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert pufferdp.__version__ == importlib.metadata.version("pufferdp") == project["version"]


def test_functions_are_not_shadowed_by_modules():
    script = "import pufferdp as p; p.release; assert all(callable(f) for f in (p.release, p.plan, p.fit, p.verify))"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_unknown_names_are_attribute_errors():
    assert not hasattr(pufferdp, "wasserstein_everything")


def run(*arguments, **environment):
    command = [sys.executable, "-m", "pufferdp", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def test_the_package_can_be_run():
    assert run("--version").stdout.strip() == pufferdp.__version__


@pytest.mark.parametrize("arguments", [["-h"], ["plan", "-h"], ["ledger", "show", "-h"]])
def test_h_is_help_everywhere(arguments):
    done = run(*arguments)
    assert done.returncode == 0 and "Usage: pufferdp" in done.stdout and "-h, --help" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell):
    done = run("--completion", shell)
    assert done.returncode == 0 and f"complete_{shell}" in done.stdout


def test_an_unknown_shell_is_refused_in_a_sentence():
    done = run("--completion", "tcsh")
    assert done.returncode == 2
    assert done.stderr == "pufferdp: completion is 'tcsh'; it must be one of bash, zsh, fish\n"


def test_words_are_completed():
    asks = {"_PUFFERDP_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    assert run(COMP_WORDS="pufferdp rel", **asks).stdout.split() == ["release"]
    assert "--epsilon" in run(COMP_WORDS="pufferdp plan --ep", **{**asks, "COMP_CWORD": "2"}).stdout.split()
    asked = {**asks, "COMP_CWORD": "3"}
    assert run(COMP_WORDS="pufferdp plan --adversary p", **asked).stdout.split() == ["pufferfish"]


def test_the_list_of_verbs_is_not_cut_off():
    listed = run("--help").stdout
    assert all(words in listed for words in VERBS.values()) and "..." not in listed.partition("Commands:")[2]


def test_results_have_a_short_repr():
    chain = pufferdp.MarkovChain(transition=[[0.9, 0.1], [0.2, 0.8]])
    plan = pufferdp.plan(chain, "histogram", epsilon=1, length=20)
    assert repr(plan).startswith("Plan(candidates=tuple(") and len(repr(plan)) < 200 < len(str(plan))
    assert repr(pufferdp.design_flips(chain, length=5, epsilon=1)).startswith("FlipDesign(")


def test_what_verbs_return_can_be_shown_and_saved():
    from pufferdp.basics.paged import Displayed

    shown = [kind for kind in map(pufferdp.__getattr__, pufferdp._public_names()) if isinstance(kind, type)]
    models = [kind for kind in shown if hasattr(kind, "file_type")]
    assert len(models) >= 12
    for kind in (*models, pufferdp.Verification, pufferdp.Fit, pufferdp.StreamReport, pufferdp.StreamBudget):
        assert issubclass(kind, Displayed), kind
    for kind in (pufferdp.Fit, pufferdp.StreamReport, pufferdp.StreamBudget, pufferdp.LossesReport, pufferdp.Plan):
        assert callable(kind.to_frame), kind
