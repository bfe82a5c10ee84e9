"""How a data set came to stand where it stands: what all its releases leaked together, after each of them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from pufferdp.ledger.charges import Charge
from pufferdp.ledger.totals import Rule, State

if TYPE_CHECKING:
    from pufferdp.ledger.accounts import Ledger

MOST: Final = 200
"""So many places of a long history are computed: enough for a figure."""


def history(ledger: Ledger, name: str, most: int = MOST) -> list[dict[str, Any]]:
    """Releases in order, the totals after each; of very many, ``most`` evenly spread ones and always the last.

    A flow has ``spent_tau``, every other release ``spent_dp`` and ``leakage``: None where no number bounds it, or where
    there is no model.
    """
    now = ledger.dataset(name)
    rule = None if now.model is None or now.adversary is None else Rule(now.model, now.adversary, now.budget)
    with ledger.store.reading() as session:
        sql = "SELECT position, created, problem FROM ledger_entries WHERE dataset = ? ORDER BY position"
        rows = list(session.rows(sql, name))
        problems = {problem for _, _, problem in rows}
        contents = {p: _content(session, p) for p in sorted(problems)}
    charged = [(when, contents[problem]) for _, when, problem in rows if contents[problem]["kind"] != "model"]
    who = None if now.adversary is None else str(now.adversary)
    state, out = State("", now.model_sha256), []
    shown = {round(n * (len(charged) - 1) / max(1, most - 1)) for n in range(most)}
    for n, (when, content) in enumerate(charged):
        state = state.after(Charge.from_content(json.dumps(content), now.model_sha256, who), "")
        if n in shown:
            one = {"release": n + 1, "charged": when, "kind": content["kind"]}
            if now.flows is not None:
                out.append({**one, "spent_tau": state.tau})
                continue
            leakage = math.inf if rule is None else rule.leakage(state)
            out.append({**one, "spent_dp": _finite(state.spent), "leakage": _finite(leakage)})
    return out


def _content(session: Any, problem: str) -> dict[str, Any]:
    ((content,),) = session.rows("SELECT content FROM ledger_problems WHERE sha256 = ?", problem)
    found: dict[str, Any] = json.loads(content)
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
