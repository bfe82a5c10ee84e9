"""House rules that import-linter (``make lint``) cannot check: knots, where randomness enters, what is loaded when."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import grimp
import pytest

import pufferdp
from pufferdp.apps.verbs import VERBS

SOURCE = Path(pufferdp.__file__).parent
PAPERS = sorted((SOURCE.parents[1] / "papers" / "src").rglob("*.py"))
LARGEST_ROOT = 12
LARGEST_FOLDER = 20


@functools.cache
def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def files(*parts: str) -> list[Path]:
    return sorted(SOURCE.joinpath(*parts).rglob("*.py"))


def offenders(where: list[Path], forbidden: tuple[str, ...]) -> list[str]:
    return [
        f"{path} imports {name}"
        for path in where
        for name in sorted(imports_of(path))
        if any(name == f or name.startswith(f + ".") for f in forbidden)
    ]


def test_no_module_imports_itself_by_way_of_others():
    """No strongly connected group of more than one module. Imports inside functions and for type checkers count."""
    graph = grimp.build_graph("pufferdp", cache_dir=None)
    knotted = sorted(
        module
        for module in graph.modules
        if any(
            graph.chain_exists(importer=imported, imported=module)
            for imported in graph.find_modules_directly_imported_by(module)
        )
    )
    assert not knotted


def test_rooms_stay_small():
    def entries(folder: Path) -> list[Path]:
        return [path for path in folder.iterdir() if path.name != "__pycache__"]

    assert len(entries(SOURCE)) <= LARGEST_ROOT
    folders = [path for path in SOURCE.rglob("*") if path.is_dir() and "static" not in path.parts]
    assert not [folder for folder in folders if len(list(folder.glob("*.py"))) > LARGEST_FOLDER]


@pytest.mark.slow
def test_randomness_enters_through_one_door():
    allowed = {
        SOURCE / "publish" / "noise.py",
        SOURCE / "apps" / "demo" / "simulate.py",
        SOURCE / "models" / "simulate.py",
    }
    allowed |= set(files("assess"))  # with fixed seeds, as experiments have
    assert not offenders([*PAPERS, *files("assess")], ("random", "opendp", "pufferdp.publish.noise"))
    where = [p for p in files() if p not in allowed]
    assert not offenders(where, ("random", "numpy.random", "opendp"))
    assert not [p for p in where if "np.random" in p.read_text(encoding="utf-8")]


def loaded(code: str) -> set[str]:
    """The modules that a program has loaded at its end."""
    done = subprocess.run([sys.executable, "-c", f"{code}{SHOW}"], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


SHOW = "\nimport sys\nprint(*sorted(sys.modules))"
HEAVY = {"numpy", "scipy", "opendp", "matplotlib", "pandas", "polars", "duckdb", "pydantic", "psycopg"}
HEAVY |= {"starlette", "uvicorn", "jinja2", "rich", "importlib.metadata"}
RUN = """
import sys
from pufferdp.apps.cli import main
sys.argv[1:] = {arguments}
try:
    main()
except SystemExit as end:
    assert not end.code
"""
DEMO = SOURCE / "apps" / "demo"
QUERY = ["--query", "histogram", "--epsilon", "1"]
OTHER_MODELS = {f"pufferdp.models.{name}" for name in ("chain_classes", "joint", "memory", "network", "pedigree")}
OTHER_MODELS |= {"pufferdp.bounds.additive.gaussian", "pufferdp.bounds.hidden.odds", "pufferdp.bounds.units.blocks"}
DRAWS = {"matplotlib", "pufferdp.report.draw.matplotlib", "pufferdp.report.draw.vega", "pufferdp.assess.dp"}


def test_imports_are_quick_to_come_by():
    """What ``import pufferdp`` and ``--help`` load: nothing heavy. A list of modules, not a stopwatch."""
    assert not HEAVY & loaded("import pufferdp")
    assert not HEAVY & loaded(RUN.format(arguments=["--help"]))


def test_help_needs_no_options_of_verbs():
    """Setting up the options of all verbs took longer than all the rest of ``--help``."""
    counted = "import typer.utils as u\nold, asked = u.get_params_from_function, []\n"
    counted += "import typer.main as m\nm.get_params_from_function = lambda f: (asked.append(f), old(f))[1]\n"
    script = counted + RUN.format(arguments=["--help"]) + "print({f.__module__ for f in asked})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "{'pufferdp.apps.verbs'}"
    assert all(f"  {verb} " in done.stdout for verb in VERBS)


def test_a_plan_waits_for_nothing_it_does_not_need():
    """scipy takes half a second to load; numpy does for the bundled model. A plan reads no data and draws no noise.

    What is loaded stays. By default Python looked for garbage in it some hundred times, 5 % of a plan's time. And typer
    would set up a validator for each option, though all are texts or flags.
    """
    plan = ["plan", str(DEMO / "wearer.json"), "--length", "2016", *QUERY]
    counted = "import gc\nlooks = []\ngc.callbacks.append(lambda phase, _: looks.append(phase))\n"
    script = counted + RUN.format(arguments=plan) + "print(looks.count('start'))" + SHOW
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    *_, looks, modules = done.stdout.splitlines()
    assert int(looks) < 60
    needless = {"scipy", "opendp", "duckdb", "narwhals", "typer._adapters"}
    assert not (needless | DRAWS | OTHER_MODELS) & set(modules.split())


def test_a_release_waits_for_nothing_it_does_not_need():
    """Neither for tables and measurements, which are other kinds of release, nor for what draws figures."""
    data = [str(DEMO / "week.csv"), "--model", str(DEMO / "wearer.json"), "--column", "activity", "--order", "time"]
    modules = loaded(RUN.format(arguments=["release", *data, *QUERY]))
    others = {
        "pufferdp.publish.tables.publication",
        "pufferdp.publish.measurements.publication",
        "pandas",
        "polars",
        "scipy",
    }
    assert not (others | DRAWS | OTHER_MODELS) & modules


def test_every_kind_of_publication_has_the_same_files():
    """A newcomer who knows one slice of publish/ knows where to look in all of them."""
    slices = {entry.value.split(".")[2] for entry in metadata.entry_points(group="pufferdp.kinds")}
    folders = {path.parent.name: path.parent for path in (SOURCE / "publish").glob("*/__init__.py")}
    assert slices == set(folders)
    for folder in folders.values():
        assert {"kind.py", "certificate.py", "publication.py"} <= {path.name for path in folder.iterdir()}, folder
        planned = [
            path for path in folder.glob("*.py") if re.search(r"^def (plan|design)_?\w*\(", path.read_text(), re.M)
        ]
        assert [path.name for path in planned] in ([], ["plan.py"])


def test_actions_are_pinned_by_commit():
    """A tag of an action can be moved to other code; the version stands in a comment."""
    workflows = list((SOURCE.parents[1] / ".github" / "workflows").glob("*.yml"))
    uses = [line.strip() for path in workflows for line in path.read_text().splitlines() if "uses:" in line]
    assert uses
    assert [line for line in uses if not re.fullmatch(r"- uses: [\w./-]+@[0-9a-f]{40} # v[\d.]+", line)] == []
