"""Charges applied in one transaction: all of them are checked against rule and budget, then every row is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from pufferdp.ledger import hash_chain, refusals
from pufferdp.ledger.balance import Receipt
from pufferdp.ledger.charge import Charge
from pufferdp.ledger.flow_budget import FlowBudget, refuse_flow, refuse_other_kind
from pufferdp.ledger.nested_datasets import NestedDatasets, wholes_of
from pufferdp.ledger.record_sums import RecordSums
from pufferdp.ledger.store.base import Row, Session
from pufferdp.ledger.sums_table import TableSums
from pufferdp.ledger.totals import Rule, State

_ENTRY: Final = (
    "INSERT INTO ledger_entries (dataset, position, created, problem, identity, hash) VALUES (?, ?, ?, ?, ?, ?)"
)
_STATE: Final = "UPDATE ledger_datasets SET state = ? WHERE name = ?"


@dataclass(frozen=True)
class Account:
    """A data set inside a transaction."""

    name: str
    definition: dict[str, Any]
    state: State
    rule: Rule | None
    """How leakage is computed; None for transition flows."""

    def sums(self, session: Session) -> TableSums:
        """What its records were charged."""
        return TableSums(session, self.name, self.state.crowds)

    def after(
        self, charge: Charge, created: str, identity: str, sums: RecordSums, before: Callable[[], RecordSums]
    ) -> Account:
        """The data set after one more charge, which is added to its sums; or its refusal.

        ``before`` gives the sums once more, as they were.
        """
        name, definition, state, rule = self.name, self.definition, self.state, self.rule
        flows = FlowBudget.of(definition["budget"])
        refuse_other_kind(name, flows, charge.kind)
        refusals.refuse_other_model(name, definition, state, charge.model, charge.adversary)
        refusals.refuse_other_width(name, state, charge)
        refusals.refuse_other_secrets(name, definition, state, charge)
        refusals.refuse_other_ranges(name, state, charge.ranges)
        refusals.refuse_delta(name, definition, charge.dp_delta or charge.delta)
        head = hash_chain.link(state.head, state.position + 1, created, charge.problem, identity)
        then = state.after(charge, head, sums)
        if flows is not None:
            refuse_flow(name, flows, state.tau, state.reading, charge)
        elif rule is not None and not rule.in_budget(then):
            raise refusals.over_budget(name, definition, state, then, charge, rule, before())
        return replace(self, state=then)


def apply_charges(
    session: Session,
    charges: Sequence[tuple[str, Charge]],
    identities: Sequence[str],
    find: Callable[[str], Account],
    look: Callable[[str], Account | None],
    stored: set[str],
) -> list[Receipt]:
    """Charge all of them, or none.

    Args:
        session: the transaction.
        charges: pairs of a data set's name and a charge.
        identities: of the charges, one for each.
        find: a data set by name, kept from others until the transaction ends.
        look: a data set that may not be there, as it stands.
        stored: digests of problems that are in the ledger; those that are written here are added.
    """
    # In one order, so that two fleets cannot wait for each other.
    names = {name for name, _ in charges}
    # A charge on a part holds the whole too: so the parts of a data set that is kept stand still.
    wholes = {whole for name in names for whole in wholes_of(name)} - names
    accounts = {name: find(name) for name in sorted(names | {whole for whole in wholes if look(whole) is not None})}
    refuse_shared(session, charges, lambda name: accounts.get(name) or look(name))
    created, rows, receipts = now(), list[Row](), list[Receipt]()
    for (name, charge), identity in zip(charges, identities, strict=True):
        account = accounts[name]
        before, sums = account.state, account.sums(session)
        accounts[name] = account.after(charge, created, identity, sums, partial(account.sums, session))
        state = accounts[name].state
        sums.write()
        rows.append((name, state.position, created, charge.problem, identity, state.head))
        receipts.append(
            Receipt(
                dataset=name,
                position=state.position,
                previous=before.head,
                head=state.head,
                charged=created,
                identity=identity,
            )
        )
    for _, charge in charges:
        if charge.problem not in stored:
            for people in charge.people.values():
                keep(session, "ledger_people", people)
            keep(session, "ledger_problems", charge.content)
            stored.add(charge.problem)
    session.many(_ENTRY, rows)
    session.many(_STATE, [(accounts[name].state.to_json(), name) for name in sorted(names)])
    return receipts


def refuse_shared(
    session: Session, charges: Sequence[tuple[str, Charge]], look: Callable[[str], Account | None]
) -> None:
    """Refuse charges that pass the budget of any data set that has the same records by its name."""
    nested = NestedDatasets(session, lambda name: found_in(look(name)), charges)
    nested.refuse_mixed()
    for name in nested.touched():
        shared, account = nested.shared(name), look(name)
        if shared is None or account is None or account.rule is None:
            continue
        definition, then, rule = account.definition, shared.state, account.rule
        if not rule.in_budget(then):
            before = nested.before().shared(name)
            state, sums = (account.state, account.sums(session)) if before is None else (before.state, before.sums)
            charged, largest = max(charges, key=lambda pair: (pair[0] == name, pair[1].dp_loss))
            made_for = None if charged == name or (found := look(charged)) is None else found.rule
            raise refusals.over_budget(name, definition, state, then, largest, rule, sums, made_for)


def found_in(account: Account | None) -> tuple[dict[str, Any], State] | None:
    """The definition and the state of a data set, for those that have the same records."""
    return None if account is None else (account.definition, account.state)


def keep(session: Session, table: str, content: str) -> str:
    """Store a content once, by its digest."""
    sha = hash_chain.digest(content)
    session.run(f"INSERT INTO {table} (sha256, content) VALUES (?, ?) ON CONFLICT DO NOTHING", sha, content)
    return sha


def now() -> str:
    """Universal time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
