"""Charges settled in one transaction: each request all or nothing, then every row and every state written at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from pufferdp.basics import errors
from pufferdp.basics.errors import PufferdpError
from pufferdp.basics.files import canonical_json
from pufferdp.ledger import charge as chain
from pufferdp.ledger.balance import Receipt
from pufferdp.ledger.charge import Charge
from pufferdp.ledger.flow_budget import FlowBudget, refuse_flow, refuse_other_kind
from pufferdp.ledger.store.base import Row, Session
from pufferdp.ledger.totals import (
    Rule,
    State,
    over_budget,
    refuse_other_model,
    refuse_other_secrets,
    refuse_other_width,
)

MOST: Final = 64
"""Charges of one request that another process is asked to settle; a fleet has its own transaction."""
_ASKED: Final = 4
"""Lines of one charge."""
_MADE: Final = 5
"""Lines of one receipt."""
_REFUSED: Final = b"{"
"""What a refusal begins with. Receipts begin with a number."""


class UnreadableError(Exception):
    """A request of another version, or noise."""


def encode(charges: Sequence[tuple[str, Charge]]) -> bytes | None:
    """A request; None where it is too long for a message, or a part of it is one that no ledger can know."""
    if not 0 < len(charges) <= MOST:
        return None
    lines = []
    for name, charge in charges:
        lines += [name, charge.model or "", charge.adversary or "", charge.content]
    text = "\n".join(lines)
    if text.count("\n") != _ASKED * len(charges) - 1:
        return None
    return text.encode()


def decode(request: bytes) -> list[tuple[str, Charge]]:
    """The charges of a request. Raises UnreadableError where it is none."""
    try:
        lines = request.decode().split("\n")
        names, models, adversaries, contents = (lines[at::_ASKED] for at in range(_ASKED))
        asked = zip(names, models, adversaries, contents, strict=True)
        return [(name, _charge(content, model, adversary)) for name, model, adversary, content in asked]
    except (ValueError, TypeError, LookupError) as error:
        raise UnreadableError from error


@lru_cache(maxsize=256)
def _charge(content: str, model: str, adversary: str) -> Charge:
    """Releases of the same kind, size and noise share it."""
    return Charge.from_content(content, model or None, adversary or None)


def answer(made: Sequence[Receipt]) -> bytes:
    """Receipts on their way back."""
    return "\n".join(
        f"{one.position}\n{one.dataset}\n{one.previous}\n{one.head}\n{one.charged}" for one in made
    ).encode()


def refusal(error: errors.PufferdpError) -> bytes:
    """A refusal on its way back."""
    said: dict[str, object] = {"value": error.value if isinstance(error.value, (str, int, float)) else None}
    if isinstance(error, errors.BudgetError):
        said["left"] = error.left
    return json.dumps({"error": type(error).__name__, "message": str(error), "more": said}).encode()


def receipts(said: bytes) -> list[Receipt]:
    """The receipts that came back; a refusal is raised as it was."""
    if said.startswith(_REFUSED):
        raw = json.loads(said)
        kind = getattr(errors, raw["error"])
        raise kind(raw["message"], **raw["more"])
    lines = said.decode().split("\n")
    return [
        Receipt(
            position=int(lines[at]),
            dataset=lines[at + 1],
            previous=lines[at + 2],
            head=lines[at + 3],
            charged=lines[at + 4],
        )
        for at in range(0, len(lines), _MADE)
    ]


_ENTRY: Final = "INSERT INTO ledger_entries (dataset, position, created, problem, hash) VALUES (?, ?, ?, ?, ?)"
_STATE: Final = "UPDATE ledger_datasets SET state = ? WHERE name = ?"

Found = tuple[dict[str, Any], State, Rule | None]
"""A data set: what it is, where it stands, and its rule where it has one."""


class Settlement:
    """The charges of one transaction.

    Args:
        session: the transaction.
        find: a data set by name, kept from others until the transaction ends.
        known: digests of problems that are in the ledger; those that are written here are added.
    """

    def __init__(self, session: Session, find: Callable[[str], Found], known: set[str]) -> None:
        self._session, self._find, self._known = session, find, known
        self._found: dict[str, Found] = {}
        self._rows: list[Row] = []
        self._when = now()

    def settle(self, asked: Sequence[bytes]) -> list[bytes]:
        """Requests of several processes; their answers, in order."""
        answers = []
        for request in asked:
            try:
                answers.append(answer(self.charge(decode(request))))
            except PufferdpError as error:
                answers.append(refusal(error))
            except UnreadableError:  # it has to take its own turn
                answers.append(b"")
        self.write()
        return answers

    def charge(self, charges: Sequence[tuple[str, Charge]]) -> list[Receipt]:
        """Charge all of them, or none; ``write`` must follow."""
        # In one order, so that two fleets cannot wait for each other.
        for name in sorted({name for name, _ in charges} - self._found.keys()):
            self._found[name] = self._find(name)
        after: dict[str, Found] = {}
        receipts: list[Receipt] = []
        rows: list[Row] = []
        for name, charge in charges:
            definition, state, rule = after.get(name) or self._found[name]
            then = self._after(name, charge, definition, state, rule)
            rows.append((name, then.position, self._when, charge.problem, then.head))
            receipts.append(
                Receipt(dataset=name, position=then.position, previous=state.head, head=then.head, charged=self._when)
            )
            after[name] = definition, then, rule
        for _, charge in charges:
            if charge.problem not in self._known:
                keep(self._session, "ledger_problems", charge.content)
                self._known.add(charge.problem)
        self._rows += rows
        self._found.update(after)
        return receipts

    def write(self) -> None:
        """The rows, and how the data sets stand after them."""
        self._session.many(_ENTRY, self._rows)
        self._session.many(_STATE, [(state.to_json(), name) for name, (_, state, _) in self._found.items()])

    def _after(self, name: str, charge: Charge, definition: dict[str, Any], state: State, rule: Rule | None) -> State:
        """The state after one more charge, or its refusal."""
        flows = FlowBudget.of(definition["budget"])
        refuse_other_kind(name, flows, charge.kind)
        refuse_other_model(name, definition, state, charge.model, charge.adversary)
        refuse_other_width(name, state, charge)
        refuse_other_secrets(name, definition, state, charge)
        head = chain.link(state.head, state.position + 1, self._when, charge.problem)
        then = state.after(charge, head)
        if flows is not None:
            refuse_flow(name, flows, state.tau, state.reading, charge)
        # No curve lies below the DP loss itself; without a model that is all that can be said.
        elif not (then.spent <= definition["budget"] if rule is None else rule.within(then)):
            raise over_budget(name, definition, state, charge, rule)
        return then


def adopt(session: Session, name: str, state: State, model: str) -> Receipt:
    """A row that gives a data set its model, and the state after it."""
    when = now()
    problem = keep(session, "ledger_problems", canonical_json({"kind": "model", "model": model}))
    head = chain.link(state.head, state.position + 1, when, problem)
    after = state.adopting(model, head)
    session.run(_ENTRY, name, after.position, when, problem, head)
    session.run(_STATE, after.to_json(), name)
    return Receipt(dataset=name, position=after.position, previous=state.head, head=head, charged=when)


def keep(session: Session, table: str, content: str) -> str:
    """Store a content once, by its digest."""
    sha = chain.digest(content)
    session.run(f"INSERT INTO {table} (sha256, content) VALUES (?, ?) ON CONFLICT DO NOTHING", sha, content)
    return sha


def now() -> str:
    """Universal time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
