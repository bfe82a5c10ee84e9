"""How a data set came to stand where it stands: what all its releases leaked together, after each of them."""

from __future__ import annotations

import json
import math
import os
import re
from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.errors import LedgerError, ModelError, PufferdpError
from pufferdp.basics.files import check_values, found_text, read_json, write_whole
from pufferdp.basics.words import normalised_identity
from pufferdp.data.ranges import EVERYTHING
from pufferdp.ledger.charge import Charge
from pufferdp.ledger.hash_chain import can_be_name
from pufferdp.ledger.nested_datasets import add, refuse_taken_name
from pufferdp.ledger.record_sums import RecordSums
from pufferdp.ledger.store.base import Session
from pufferdp.ledger.store.schema import INTEGER, TABLES
from pufferdp.ledger.sums_table import sums_rows
from pufferdp.ledger.totals import Rule, State, amounts_of, charged_on
from pufferdp.ledger.verify import check_contents

if TYPE_CHECKING:
    from pufferdp.ledger.ledger import Ledger


MOST: Final = 200
"""So many places of a long history are computed: enough for a figure."""


def history(ledger: Ledger, name: str, most: int = MOST) -> list[dict[str, Any]]:
    """Releases in order, the totals after each; of very many, ``most`` evenly spread ones and always the last.

    A flow has ``spent_tau``, every other release ``spent_dp`` and ``leakage``: None where no number bounds it. Releases
    of other data sets on the same records are among them, with ``dataset``.
    """
    now = ledger.dataset(name)
    rule = None
    if now.adversary is not None:
        rule = Rule(now.model, now.adversary, now.budget, now.delta_budget, now.unit)
    with ledger.store.reading() as session:
        charged = ledger.nested(session).entries(name)
    state, sums, out = State("", now.model_sha256), RecordSums(), []
    shown = {round(n * (len(charged) - 1) / max(1, most - 1)) for n in range(most)}
    for n, (when, dataset, _, charge) in enumerate(charged):
        state = add(state, charge, sums)
        if n in shown:
            record = {"release": n + 1, "charged": when, "kind": charge.kind}
            record |= {} if dataset == name else {"dataset": dataset}
            if now.flows is not None:
                out.append({**record, "spent_tau": state.tau})
                continue
            leakage = math.inf if rule is None else rule.leakage(state)
            out.append({**record, "spent_dp": _finite(state.spent), "leakage": _finite(leakage)})
    return out


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def latest(ledger: Ledger, name: str, most: int = 100) -> list[dict[str, Any]]:
    """The latest rows of a data set, the newest first: when, what kind, and what was charged."""
    sql = (
        "SELECT e.position, e.created, e.hash, p.content FROM ledger_entries e JOIN ledger_problems p "
        "ON p.sha256 = e.problem WHERE e.dataset = ? ORDER BY e.position DESC LIMIT ?"
    )
    with ledger.store.reading() as session:
        return [_row(*row) for row in session.rows(sql, name, most)]


def _row(position: int, created: str, head: str, content: str) -> dict[str, Any]:
    raw = json.loads(content)
    facts = raw.get("facts") or {}
    return {
        "position": position,
        "created": created,
        "head": head,
        "kind": raw.get("kind"),
        "query": facts.get("query"),
        "mechanism": facts.get("mechanism"),
        "epsilon": raw.get("epsilon"),
        "tau": raw.get("tau"),
        "dp_loss": raw.get("dp_loss"),  # None for a loss that nothing bounds
    }


SCHEMA: Final = "pufferdp-ledger-export/2"
_TABLES: Final = {
    name.removeprefix("ledger_"): table
    for name, table in TABLES.items()
    if name != "ledger_version" and not table.derived
}
_UNKEPT: Final = re.compile("[\\0\\ud800-\\udfff]")
"""Characters that JSON can spell and no database keeps."""


def export_ledger(ledger: Ledger, out: str | os.PathLike[str]) -> dict[str, Any]:
    """Write every row, as of one moment."""
    content: dict[str, Any] = {"schema": SCHEMA}
    with ledger.store.snapshot() as session:
        for name, table in _TABLES.items():
            sql = f"SELECT {', '.join(table.columns)} FROM ledger_{name} ORDER BY {', '.join(table.key)}"
            content[name] = [list(row) for row in session.rows(sql)]
    write_whole(out, json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n")
    return _summary(content)


def read_export(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of an export, its shape checked."""
    try:
        raw = read_json(path, "ledger export")
    except ModelError as error:
        raise LedgerError(str(error), value=path) from None
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        schema = raw.get("schema") if isinstance(raw, dict) else None
        raise LedgerError(f"{str(path)!r} is not a ledger export: its schema is {found_text(schema)}, not {SCHEMA!r}")
    check_values(raw, LedgerError, repr(str(path)))
    for name, table in _TABLES.items():
        rows = raw.get(name)
        kinds: list[type] = [int if kind == INTEGER else str for kind in table.columns.values()]
        if not isinstance(rows, list) or not all(_is_row(row, kinds) for row in rows):
            columns = ", ".join(table.columns)
            raise LedgerError(f"{str(path)!r}: {name} must be a list of rows of {columns}", value=path)
    return raw


def _is_row(row: object, kinds: list[type]) -> bool:
    if not isinstance(row, list) or [type(value) for value in row] != kinds:
        return False
    return not any(isinstance(value, str) and _UNKEPT.search(value) for value in row)


def import_ledger(ledger: Ledger, content: dict[str, Any]) -> dict[str, Any]:
    """Add the data sets of an export. It is refused whole where a hash or a charge does not hold."""
    with ledger.store.writing() as session:
        for name, table in _TABLES.items():
            again = " ON CONFLICT DO NOTHING" if "sha256" in table.columns else ""
            marks = ", ".join("?" * len(table.columns))
            sql = f"INSERT INTO ledger_{name} ({', '.join(table.columns)}) VALUES ({marks}){again}"
            if name == "datasets":
                _refuse_names(session, content[name])
            session.many(sql, content[name])
        for row in content["datasets"]:
            write_sums(session, row[0])
        problems = check_contents(session)
        if problems:
            raise LedgerError(f"the export does not hold, and nothing was imported: {problems[0]}")
    return _summary(content)


def write_sums(session: Session, name: str) -> None:
    """The sums of single records, from the rows of a data set; whether these hold is for ``check_contents`` to say."""
    people: dict[str, str] = dict(session.rows("SELECT sha256, content FROM ledger_people"))
    sql = (
        "SELECT p.content FROM ledger_entries e JOIN ledger_problems p ON p.sha256 = e.problem WHERE e.dataset = ? "
        "ORDER BY e.position"
    )
    sums = RecordSums()
    try:
        for (text,) in list(session.rows(sql, name)):
            if '"ranges"' in text:
                charge = Charge.from_content(text, "", "", people.__getitem__)
                if charged_on(charge) != EVERYTHING:
                    sums.charge(charge.ranges, amounts_of(charge))
    except (PufferdpError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise LedgerError(f"the export does not hold, and nothing was imported: data set {name!r}: {error}") from None
    session.many(
        "INSERT INTO ledger_members (dataset, person, crowd) VALUES (?, ?, ?)",
        [(name, person, crowd) for person, crowd in sums.member.items()],
    )
    session.many(
        "INSERT INTO ledger_sums (dataset, quantity, crowd, cut, value) VALUES (?, ?, ?, ?, ?)",
        [(name, *row) for row in sums_rows(sums)],
    )


def _refuse_names(session: Session, rows: list[list[str]]) -> None:
    before = set[str]()
    for name, normalised, *_ in rows:
        if not can_be_name(name):
            raise LedgerError(f"the export has a data set {name!r}; a name must be printable characters", value=name)
        refuse_taken_name(session, name)
        if normalised in before or normalised != normalised_identity(name):
            raise LedgerError(f"the export has data set {name!r} twice, or under another normalised name", value=name)
        before.add(normalised)


def _summary(content: dict[str, Any]) -> dict[str, Any]:
    return {"datasets": [row[0] for row in content["datasets"]], "rows": len(content["entries"])}
