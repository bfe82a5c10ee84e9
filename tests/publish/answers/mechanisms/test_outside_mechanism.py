"""A mechanism of another package, registered as an entry point of ``pufferdp.mechanisms``: tried, ranked, verified."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import pufferdp
from pufferdp import verify

MODULE = '''
from pufferdp.publish.answers.problem import Calibrated, Mechanism, refuse_own_secrets


class Cautious(Mechanism):
    """Half as much again as group privacy needs."""

    name = "cautious-group"
    theorem = "group privacy, and more noise than it needs"

    def find(self, problem):
        refuse_own_secrets(problem)
        return Calibrated(sigma=1.5 * problem.model.group_size(problem.longest) / problem.epsilon)


CAUTIOUS = Cautious()
'''
USE = """
import json, pathlib
import pandas as pd
from pufferdp import Ledger, MarkovChain, plan, release, verify
chain = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]])
made = plan(chain, "count:1", epsilon=1, length=20)
read = dict(model=chain, column="state", query="count:1", epsilon=1, mechanism="cautious-group")
with Ledger("books.db", create=True) as ledger:
    ledger.create("week", model=chain, adversary="bdp", budget=2.0)
done = release(pd.DataFrame({"state": ["0", "1"] * 10}), **read, ledger="books.db", dataset="week")
with Ledger("books.db") as ledger:
    charged = ledger.verify()
print(json.dumps({
    "plan": made.to_dict(),
    "certificate": done.certificate.to_dict(),
    "problems": verify(done.certificate).problems,
    "ledger": charged.problems,
}))
"""


def install(folder: Path, value: str, name: str = "cautious-group") -> None:
    """What an installer leaves behind: a module, and metadata that name its entry point."""
    (folder / "cautious.py").write_text(MODULE)
    about = folder / "cautious-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: cautious\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[pufferdp.mechanisms]\n{name} = {value}\n")


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter, for entry points are looked for once."""
    source = str(Path(pufferdp.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), source])},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("value", ["cautious:CAUTIOUS", "cautious:Cautious"])
def test_it_is_ranked_released_verified_and_charged(tmp_path, value):
    install(tmp_path, value)
    done = run(tmp_path, USE)
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)
    applying = [c["mechanism"] for c in out["plan"]["candidates"] if c["applies"]]
    scales = {c["mechanism"]: c["scale"] for c in out["plan"]["candidates"]}
    assert scales["cautious-group"] == pytest.approx(1.5 * scales["group"]) == pytest.approx(30)
    assert applying.index("group") < applying.index("cautious-group")
    assert out["plan"]["best"] != "cautious-group"
    assert out["problems"] == out["ledger"] == []
    assert out["certificate"]["mechanism"]["name"] == "cautious-group"
    assert out["certificate"]["noise"]["scale"] == pytest.approx(30)
    # Here, where the package is not installed, nobody can say whether the noise is enough.
    assert verify(out["certificate"]).problems == ("mechanism 'cautious-group' is not known to this version",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "name", "words"),
    [
        ("cautious:NOTHING", "cautious-group", "cannot be loaded from 'cautious:NOTHING'"),
        ("nowhere:Cautious", "cautious-group", "cannot be loaded from 'nowhere:Cautious'"),
        ("cautious:Cautious", "bold-group", "it must be a Mechanism whose name is 'bold-group'"),
        ("cautious:MODULE", "x", "cannot be loaded"),
        ("json:dumps", "dumps", "it must be a Mechanism"),
    ],
)
def test_what_cannot_be_loaded_is_named(tmp_path, value, name, words):
    install(tmp_path, value, name)
    code = """
    from pufferdp import MarkovChain, ParameterError, plan
    try:
        plan(MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]]), "count:1", epsilon=1, length=20)
    except ParameterError as error:
        print(error)
    """
    done = run(tmp_path, code)
    assert done.returncode == 0, done.stderr
    assert words in done.stdout


def test_a_name_of_ours_is_not_taken_over(tmp_path):
    install(tmp_path, "cautious:GROUP", "group")
    module = tmp_path / "cautious.py"
    module.write_text(module.read_text() + "GROUP = Cautious()\nGROUP.name = 'group'\n")
    code = """
    from pufferdp import ParameterError
    from pufferdp.publish.answers.mechanisms import MECHANISMS
    try:
        list(MECHANISMS)
    except ParameterError as error:
        print(error)
    """
    assert "has the name of one of our mechanisms" in run(tmp_path, code).stdout
