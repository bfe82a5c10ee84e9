"""Export and import: the same rows, from a file to a server and back, and refused where they do not hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pufferdp import Charge, Ledger, LedgerError, MarkovChain
from pufferdp.ledger.charge import flip_charge
from pufferdp.ledger.history import export_ledger, import_ledger, read_export

CHAIN = MarkovChain(transition=[[0.7, 0.3], [0.4, 0.6]], states=["Ruhe", "tätig"])


@pytest.fixture
def exported(place: str, tmp_path: Path) -> Path:
    with Ledger(place, create=True) as ledger:
        ledger.create("Woche", model=CHAIN, budget=5.0)
        ledger.create("month", model=CHAIN, adversary="dp", budget=5.0)
        for _ in range(3):
            ledger.charge("Woche", flip_charge([[0.6, 0.4], [0.4, 0.6]], longest=5))
        ledger.charge("month", Charge(kind="dp", dp_loss=0.1, longest=5))
        assert export_ledger(ledger, tmp_path / "out.json") == {"datasets": ["Woche", "month"], "rows": 4}
    return tmp_path / "out.json"


def test_there_and_back(exported: Path, place: str, tmp_path: Path) -> None:
    with Ledger(tmp_path / "copy.db", create=True) as copy, Ledger(place) as first:
        assert import_ledger(copy, read_export(exported))["rows"] == 4
        assert [copy.dataset(n).to_dict() for n in copy.names()] == [first.dataset(n).to_dict() for n in first.names()]
        assert copy.verify(first.dataset("Woche").head).valid
        export_ledger(copy, tmp_path / "again.json")
        assert (tmp_path / "again.json").read_text() == exported.read_text()
        copy.charge("Woche", flip_charge([[0.6, 0.4], [0.4, 0.6]], longest=5))
        assert copy.verify().valid
        with pytest.raises(LedgerError, match="already"):
            import_ledger(copy, read_export(exported))


@pytest.mark.parametrize(
    ("table", "row", "column", "value"),
    [
        ("entries", 1, 2, "2020-01-01T00:00:00+00:00"),
        ("datasets", 0, 2, "{}"),
        ("models", 0, 1, "{}"),
        ("entries", 0, 1, 7),
    ],
)
def test_an_export_that_was_changed_is_refused_whole(
    exported: Path, tmp_path: Path, table: str, row: int, column: int, value: object
) -> None:
    raw = json.loads(exported.read_text())
    raw[table][row][column] = value
    exported.write_text(json.dumps(raw))
    with Ledger(tmp_path / "copy.db", create=True) as copy:
        with pytest.raises(LedgerError, match="nothing was imported"):
            import_ledger(copy, read_export(exported))
        assert copy.names() == ()
        assert copy.verify().valid


@pytest.mark.parametrize(("name", "why"), [(" Woche", "printable"), ("Wo\nche", "printable"), ("month", "twice, or")])
def test_names_that_cannot_be_imported(exported: Path, tmp_path: Path, name: str, why: str) -> None:
    raw = json.loads(exported.read_text())
    raw["datasets"][0][0] = name
    exported.write_text(json.dumps(raw))
    with Ledger(tmp_path / "copy.db", create=True) as copy:
        with pytest.raises(LedgerError, match=why):
            import_ledger(copy, read_export(exported))
        assert copy.names() == ()


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{}",
        "nothing",
        '{"schema": "pufferdp-ledger-export/1", "models": [[1, 2]]}',
        '{"schema": "pufferdp-ledger-export/1", "models": [["\\udcff", ""]]}',
        '{"schema": "pufferdp-ledger-export/1", "models": [["a", "\\u0000"]]}',
    ],
)
def test_files_that_are_no_export(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(LedgerError):
        read_export(tmp_path / "x.json")
    with pytest.raises(LedgerError):
        read_export(tmp_path / "none.json")
