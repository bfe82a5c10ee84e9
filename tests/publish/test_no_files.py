"""Nothing that a stranger wrote makes us open a file: certificates, ledgers and uploads hold their models by value."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pufferdp import (
    Ledger,
    LedgerError,
    MarkovChain,
    ModelError,
    PufferdpError,
    load_model,
    posterior_of_flips,
    redact,
    verify,
)
from pufferdp.apps.web import jobs
from pufferdp.basics.files import canonical_json
from pufferdp.ledger import hash_chain
from pufferdp.ledger.history import import_ledger
from pufferdp.ledger.totals import State
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.kind import kinds
from pufferdp.report.registry import page_of

GOLDEN = Path(__file__).parents[1] / "golden"
KINDS = ["charged-answer", "charged-flip", "charged-redaction", "charged-flow", "table-charged", "measurement-charged"]
BIF = """network unknown {}
variable rain { type discrete [ 2 ] { no, yes }; }
probability ( rain ) { table 0.8, 0.2; }
"""
PED = "fam 1 0 0 1 0\nfam 2 0 0 2 0\nfam 3 1 2 1 0\n"
Hostile = Callable[[Path], dict[str, Any]]


def network(folder: Path) -> dict[str, Any]:
    return {"type": "bayesian_network", "bif": str(folder / "secret.bif")}


def family(folder: Path) -> dict[str, Any]:
    return {"type": "pedigree", "ped": str(folder / "secret.ped"), "major_allele_frequency": 0.5}


def inside(model: Hostile) -> Hostile:
    def several(folder: Path) -> dict[str, Any]:
        return {"type": "class", "models": [model(folder), model(folder)]}

    several.__name__ = f"class_of_{model.__name__}"
    return several


HOSTILE = [network, family, inside(network), inside(family)]
_watched: list[list[str]] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched and event == "open" and isinstance(arguments[0], (str, bytes, Path)):
        _watched[-1].append(str(arguments[0]))


sys.addaudithook(_watch)  # it stays for good, and looks only inside ``opened``


@contextmanager
def opened() -> Iterator[list[str]]:
    """The names of the files that are opened."""
    _watched.append([])
    try:
        yield _watched[-1]
    finally:
        _watched.pop()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files that could be read, also by their bare names."""
    (tmp_path / "secret.bif").write_text(BIF)
    (tmp_path / "secret.ped").write_text(PED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def quiet(words: str) -> None:
    """A voice that says nothing."""


def touched(names: list[str]) -> list[str]:
    return [name for name in names if "secret" in name]


@pytest.mark.parametrize("model", HOSTILE, ids=lambda model: model.__name__)
def test_whoever_owns_a_model_file_may_name_another(folder: Path, model: Hostile) -> None:
    """The same models in files of one's own are read: what is refused below could be."""
    (folder / "m.json").write_text(json.dumps(model(folder)))
    with opened() as names:
        load_model(folder / "m.json")
    assert touched(names)


def hostile(name: str, model: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    content["model"] = model
    content["model_sha256"] = hash_chain.digest(canonical_json(model))
    return {**content, "sha256": content_hash(content)}


def uses(name: str, content: dict[str, Any], folder: Path) -> Iterator[Callable[[], object]]:
    """Everything that takes a certificate."""
    sealed = json.dumps(content).encode()
    yield lambda: verify(content)
    yield lambda: page_of(content)
    yield lambda: jobs.verify(None, quiet, name="c.json", content=sealed, place=None)
    if name == "charged-flip":
        yield lambda: posterior_of_flips({"s": ["rest"] * 60, "t": list(range(60))}, content)
    if name == "charged-redaction":
        chain = MarkovChain(transition=[[0.8, 0.2], [0.4, 0.6]], states=["rest", "active"])
        about: dict[str, Any] = {"column": "s", "private": [31], "epsilon": 2.0, "after": content, "published": "o.csv"}
        yield lambda: redact("d.csv", model=chain, out="p.csv", **about)


@pytest.mark.parametrize("model", HOSTILE, ids=lambda model: model.__name__)
@pytest.mark.parametrize("name", KINDS)
def test_a_certificate_opens_no_file(folder: Path, name: str, model: Hostile) -> None:
    content = hostile(name, model(folder))
    with opened() as names:
        found = verify(content)
        for use in uses(name, content, folder):
            try:
                use()
            except PufferdpError as error:
                assert "d.csv" not in str(error)
    assert not found.valid
    assert any("names another file" in problem and "by value" in problem for problem in found.problems)
    assert touched(names) == []


def test_every_kind_is_tried() -> None:
    schemas = {json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))["schema"] for name in KINDS}
    assert schemas == {kind.schema for kind in kinds() if kind.schema}


@pytest.mark.parametrize("model", HOSTILE, ids=lambda model: model.__name__)
def test_a_ledger_opens_no_file(folder: Path, model: Hostile) -> None:
    text = canonical_json(model(folder))
    sha = hash_chain.digest(text)
    definition = hash_chain.definition("week", sha, "bdp", 5.0, "2026-01-01T00:00:00+00:00")
    state = State(hash_chain.digest(definition), sha).to_json()
    export = {"models": [[sha, text]], "problems": [], "people": [], "entries": []}
    export["datasets"] = [["week", "week", definition, state]]
    with opened() as names, Ledger(folder / "books.db", create=True) as ledger:
        with pytest.raises(LedgerError, match="names another file"):
            import_ledger(ledger, export)
        with ledger.store.writing() as session:  # whoever has the file itself can put it there
            session.run("INSERT INTO ledger_models (sha256, content) VALUES (?, ?)", sha, text)
            row = "INSERT INTO ledger_datasets (name, normalised, definition, state) VALUES (?, ?, ?, ?)"
            session.run(row, "week", "week", definition, state)
        assert any("names another file" in problem for problem in ledger.verify().problems)
        with pytest.raises(LedgerError, match="names another file"):
            ledger.dataset("week")
    assert touched(names) == []


@pytest.mark.parametrize("model", HOSTILE, ids=lambda model: model.__name__)
def test_the_page_opens_no_file(folder: Path, model: Hostile) -> None:
    sealed = json.dumps(model(folder)).encode()
    with opened() as names, pytest.raises(ModelError, match="names another file"):
        jobs.model(None, quiet, name="m.json", content=sealed)
    assert touched(names) == []
