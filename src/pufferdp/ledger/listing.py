"""The releases of a data set, as they stand in its ledger."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pufferdp.ledger.accounts import Ledger


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
