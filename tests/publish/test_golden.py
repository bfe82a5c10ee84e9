"""What an earlier version certified and charged must verify for ever, and come out of this version byte for byte."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pufferdp import Ledger, Query, load_model, read_certificate, verify
from pufferdp.models.files.json import model_to_dict
from pufferdp.publish.certificate import content_hash

GOLDEN = Path(__file__).parents[1] / "golden"
CERTIFICATES = sorted(p for p in GOLDEN.glob("*.json") if not p.name.startswith(("fit-", "ledger-")))


def own_function(chains: list[object]) -> float:
    return float(sum(len(list(chain)) for chain in chains))


@pytest.mark.parametrize("path", CERTIFICATES, ids=lambda p: p.stem)
def test_certificates_verify(path: Path):
    content = json.loads(path.read_text(encoding="utf-8"))
    own = content.get("query", {}).get("name") == "function"
    query = Query.of_function(own_function, 1.0, 1) if own else None
    found = verify(content, query=query)
    assert found.valid, found.problems
    assert json.dumps(read_certificate(path), indent=1, ensure_ascii=False) + "\n" == path.read_text(encoding="utf-8")


def without_beliefs(path: Path) -> dict[str, Any]:
    """The certificate of a plain chain as an earlier version would have made it."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for key in ("beliefs", "holes"):
        content["data"].pop(key)
    promise = content["guarantee"]
    promise["statement"] = promise["statement"].partition(" This believes that")[0]
    content["sha256"] = content_hash(content)
    return content


def test_whoever_strips_a_certificate_of_its_beliefs_gains_nothing():
    found = verify(without_beliefs(GOLDEN / "answer-optimal.json"))
    assert found.valid
    rests = "its promise rests on it that rows that follow each other are one step of the model apart"
    assert [text for text in found.warnings if text.endswith(rests)]
    for name in ("table-charged", "measurement-charged"):  # there is no earlier version of these
        (problem,) = verify(without_beliefs(GOLDEN / f"{name}.json")).problems
        assert "have always stated beliefs" in problem


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("charged-*.json")), ids=lambda p: p.stem)
def test_charged_certificates_are_rows_of_the_ledger(path: Path, tmp_path: Path):
    shutil.copy(GOLDEN / "ledger-v1.db", tmp_path / "books.db")
    row = json.loads(path.read_text(encoding="utf-8"))["ledger"]
    with Ledger(tmp_path / "books.db") as ledger:
        found = ledger.verify(head=row["head"])
        assert found.valid, found.problems
        assert found.releases == 7


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("fit-*.json")), ids=lambda p: p.stem)
def test_fitted_models_load(path: Path):
    assert model_to_dict(load_model(path)) == json.loads(path.read_text(encoding="utf-8"))
