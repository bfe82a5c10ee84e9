"""Certificates that are kept verify, and are read byte for byte: a change of the schema is a change of these files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pufferdp import Ledger, Query, load_model, read_certificate, verify
from pufferdp.models.files.json import model_to_dict
from tests.golden.make import MADE, length_of

GOLDEN = Path(__file__).parents[1] / "golden"
CERTIFICATES = sorted(p for p in GOLDEN.glob("*.json") if not p.name.startswith(("fit-", "ledger-")))


@pytest.mark.parametrize("path", CERTIFICATES, ids=lambda p: p.stem)
def test_certificates_verify(path: Path):
    content = json.loads(path.read_text(encoding="utf-8"))
    own = content.get("query", {}).get("name") == "function"
    query = Query.of_function(length_of, 1.0, 1) if own else None
    found = verify(content, query=query)
    assert found.valid, found.problems
    assert json.dumps(read_certificate(path), indent=1, ensure_ascii=False) + "\n" == path.read_text(encoding="utf-8")


def test_every_kept_certificate_can_be_made_again() -> None:
    assert {path.stem for path in CERTIFICATES} == set(MADE)


def test_the_ledger_holds(tmp_path: Path):
    shutil.copy(GOLDEN / "ledger.db", tmp_path / "books.db")
    with Ledger(tmp_path / "books.db") as ledger:
        found = ledger.verify()
    assert found.valid, found.problems
    assert found.releases == 7


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("fit-*.json")), ids=lambda p: p.stem)
def test_fitted_models_load(path: Path):
    assert model_to_dict(load_model(path)) == json.loads(path.read_text(encoding="utf-8"))
