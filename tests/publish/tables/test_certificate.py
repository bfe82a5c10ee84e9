"""The certificate of a table: it covers every number, in itself or by their hash, and the ledger charges it once."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pufferdp import Charge, Ledger, PufferdpError, RefusedError, Release, ReleasedTable, TableRelease, release, verify
from pufferdp.basics.files import canonical_json
from pufferdp.basics.progress import silent
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.noise import SeededSampler
from pufferdp.publish.tables import certificate as certificates
from pufferdp.publish.tables.kind import KIND
from tests.publish.tables.test_tables import MODEL, people
from tests.publish.test_leaves import changes, is_listed, path_of, put

REQUEST: dict[str, Any] = {"model": MODEL, "column": "x", "order": "t", "by": "who", "epsilon": 1.0}


def table(data: Any = None, **more: Any) -> TableRelease:
    request = {**REQUEST, "query": ["histogram", "mean"], "per": "day", "sampler": SeededSampler(1), **more}
    made = release(people() if data is None else data, **request)
    assert isinstance(made, TableRelease)
    return made


def forged(raw: dict[str, Any]) -> dict[str, Any]:
    return {**raw, "sha256": content_hash(raw)}


def test_a_small_table_is_in_its_certificate() -> None:
    made = table()
    raw = made.certificate.to_dict()
    assert raw["table"]["rows"] == [list(row) for row in made.table.rows]
    assert raw["table"]["sha256"] == made.table.sha256
    assert verify(raw, table=made.table).valid


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows[0].__setitem__(2, rows[0][2] + 1), "does not add up"),
        (lambda rows: rows[0].__setitem__(1, rows[0][1] + 1), "do not add up to 72"),
        (lambda rows: rows[0].__setitem__(4, 0.5), "table.sha256 is"),
        (lambda rows: rows[0].__setitem__(0, rows[1][0]), "two rows of the table are of one group"),
        (lambda rows: rows[0].__setitem__(4, None), "is missing in a group with records"),
        (lambda rows: rows.pop(), "do not add up to 72"),
        (lambda rows: rows[0].append(1), "one cell for each column"),
    ],
)
def test_no_number_can_be_changed(change: Any, words: str) -> None:
    raw = copy.deepcopy(table().certificate.to_dict())
    change(raw["table"]["rows"])
    checked = verify(forged(raw))
    assert not checked.valid
    assert any(words in problem for problem in checked.problems), checked.problems


def test_a_large_table_is_covered_by_its_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pufferdp.publish.tables.publication.MOST_CELLS", 20)
    monkeypatch.setattr("pufferdp.publish.tables.kind.MOST_CELLS", 20)
    made = table()
    raw = made.certificate.to_dict()
    assert raw["table"]["rows"] is None
    assert raw["groups"]["count"] == len(made.table.rows)
    assert verify(raw).valid
    assert verify(raw, table=made.table).valid
    changed = ReleasedTable(made.table.columns, (made.table.rows[1], *made.table.rows[1:]))
    assert verify(raw, table=changed).problems == ("the table is not the one of the certificate: its hash differs",)
    # Whoever changes the hash with the table is left with numbers that must be possible.
    hashed = {**raw, "table": {**raw["table"], "sha256": changed.sha256}}
    assert any("two rows" in problem for problem in verify(forged(hashed), table=changed).problems)
    assert "more rows" not in str(made) and made.table.rows[0][0] in str(made)


def test_up_to_so_many_cells_are_in_the_certificate() -> None:
    data = people(2_100, "x", every=1)
    made = table(data, by=None, per="hour", query="histogram")
    assert len(made.table.rows) * len(made.table.columns) == 8_400 <= certificates.MOST_CELLS
    assert made.certificate.table.rows is not None
    longer = table(people(3_000, "x", every=1), by=None, per="hour", query="histogram")
    assert longer.certificate.table.rows is None
    assert verify(longer.certificate, table=longer.table).valid


def test_people_and_everybody_share_one_budget(tmp_path: Path) -> None:
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("sleep", model=MODEL, budget=5.0)
        each = table(per="person", query="histogram", ledger=ledger, dataset="sleep")
        overall = release(people(), **{**REQUEST, "query": "histogram", "epsilon": 0.5}, ledger=ledger, dataset="sleep")
        assert isinstance(overall, Release)
        found = ledger.dataset("sleep")
        spent = each.certificate.dp_loss + 1 / overall.certificate.calibration.sigma
        assert found.spent_dp == pytest.approx(spent, rel=1e-9)
        assert found.releases == 2
        (segment,) = found.to_dict()["ranges"]
        assert (segment["people"], segment["dp_loss"]) == (3, pytest.approx(spent, rel=1e-9))
        assert ledger.verify().valid
        assert verify(each.certificate).valid
        part = table(
            per="person", first="2024-01-02", last="2024-01-02", independent=True, ledger=ledger, dataset="sleep"
        )
        losses = [piece["dp_loss"] for piece in ledger.dataset("sleep").to_dict()["ranges"]]
        assert max(losses) == pytest.approx(spent + part.certificate.dp_loss, rel=1e-9)
        assert min(losses) == pytest.approx(spent, rel=1e-9)


def test_groups_cost_what_one_costs(tmp_path: Path) -> None:
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        for name, per in (("a", "person"), ("b", "day"), ("c", None), ("d", "person,day")):
            ledger.create(name, model=MODEL, budget=5.0)
            table(per=per, ledger=ledger, dataset=name)
        assert len({ledger.dataset(name).spent_dp for name in "abcd"}) == 1


def test_a_table_over_budget_is_refused_before_it_is_drawn(tmp_path: Path) -> None:
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("sleep", model=MODEL, budget=1.5)
        table(ledger=ledger, dataset="sleep")
        with pytest.raises(RefusedError, match=r"epsilon=.* would fit") as refused:
            table(ledger=ledger, dataset="sleep")
        assert ledger.dataset("sleep").releases == 1
        epsilon = float(str(refused.value).split("epsilon=")[1].split()[0])
        table(ledger=ledger, dataset="sleep", epsilon=epsilon)


def test_every_leaf_of_a_charge() -> None:
    """A ledger finds whatever is changed in the row of a table, unless it is listed as nobody's to recompute."""
    passed = []
    made = table(split=[2, 1])
    problem = KIND.problem(made.certificate)
    charge = KIND.charge(problem, KIND.solve(problem, silent))
    assert KIND.recheck(charge, MODEL) == []
    assert KIND.recheck(charge, None) is None
    content = json.loads(charge.content)
    for place, value in changes(content):
        path = path_of(place)
        try:
            forged = Charge.from_content(canonical_json(put(content, place, value)), charge.model, charge.adversary)
            problems = KIND.recheck(forged, MODEL)
        except (PufferdpError, ValueError, TypeError, KeyError, AttributeError, IndexError):
            continue
        if not problems and forged.content != charge.content:
            assert is_listed(path, KIND.row_unprovable), (path, value)
            passed.append(path)
    assert "facts.per" in passed
    other = {**content, "facts": {**content["facts"], "queries": ["frequency", "sum"]}}
    assert not KIND.recheck(Charge.from_content(canonical_json(other), charge.model, charge.adversary), MODEL)


def test_every_engine_gives_the_same_table(tmp_path: Path) -> None:
    data = people()
    path = tmp_path / "d.csv"
    data.write_csv(path)
    data.write_parquet(tmp_path / "d.parquet")
    frames = (data, data.to_pandas(), data.to_arrow(), pl.LazyFrame(data))
    made = [
        table(source, per=["ward", "day"], sampler=SeededSampler(4)).table
        for source in (*frames, str(path), str(tmp_path / "d.parquet"))
    ]
    assert all(other == made[0] for other in made)
