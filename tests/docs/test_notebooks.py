"""The notebooks run, cell by cell, as they stand."""

import ast
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"


def run(path):
    """The last value of each cell of code, shown as a notebook shows it."""
    space: dict[str, object] = {}
    shown = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        body = ast.parse("".join(cell["source"])).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), path.name, "exec"), space)
        value = None if last is None else eval(compile(ast.Expression(last.value), path.name, "eval"), space)
        html = getattr(value, "_repr_html_", None)
        shown.append((value, html() if callable(html) else repr(value)))
    return shown


@pytest.mark.slow
def test_from_a_csv_to_a_table_with_its_certificate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = FOLDER / "first-table.ipynb"
    shown = run(path)
    assert len(shown) <= 10
    verification = shown[-1][0]
    assert verification.valid and not verification.problems
    frame, page = shown[5][0], shown[6][1]
    assert len(frame) == 14 and "<table" in page
    assert (tmp_path / "week.table.csv").exists() and (tmp_path / "week-release.json").exists()
