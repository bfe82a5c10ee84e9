"""A ledger recomputed: every hash, every charge (each distinct problem once), every total.

What is found without help: a row edited, taken out, put in or moved without also computing every hash
after it anew. Doing so makes a consistent ledger; the head in a certificate, kept elsewhere, gives it away.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Protocol, cast

from pufferdp.basics.errors import LedgerError, PufferdpError
from pufferdp.basics.paged import Paged
from pufferdp.basics.plugins import plugins
from pufferdp.basics.words import normalised_identity
from pufferdp.ledger import hash_chain
from pufferdp.ledger.charge import Charge
from pufferdp.ledger.flow_budget import FlowBudget, reading_of, refuse_mixed
from pufferdp.ledger.nested_datasets import NestedDatasets, all_names
from pufferdp.ledger.record_sums import RecordSums
from pufferdp.ledger.refusals import refuse_delta, refuse_other_ranges, refuse_other_secrets, refuse_other_width
from pufferdp.ledger.store.base import Session, Store
from pufferdp.ledger.sums_table import stored_sums, sums_rows
from pufferdp.ledger.totals import Rule, State
from pufferdp.models.base import Model
from pufferdp.models.files.json import model_from_dict
from pufferdp.models.units import Unit

_ROWS = "SELECT position, created, problem, hash, identity FROM ledger_entries WHERE dataset = ? ORDER BY position"
_MOST = 20
"""Problems that are told; a broken chain would have one for every row."""


@dataclass(frozen=True, kw_only=True)
class LedgerCheck(Paged):
    """Whether a ledger holds, and if not, why."""

    valid: bool
    problems: tuple[str, ...]
    unchecked: tuple[str, ...]
    """Charges that are stated and cannot be recomputed."""
    releases: int
    recomputed: int
    """Distinct problems whose charge was computed anew."""

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp ledger verify --json`` prints."""
        return asdict(self) | {"problems": list(self.problems), "unchecked": list(self.unchecked)}


def check_ledger(store: Store, head: str | None = None) -> LedgerCheck:
    """Recompute a ledger; with ``head``, the row of that hash must be there."""
    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        raise LedgerError(f"head is {head!r}; it must be the 64 hexadecimal digits of a certificate", value=head)
    check = _Check(head)
    try:
        with store.snapshot() as session:
            check.problems += store.problems(session)
            if not check.problems:
                check.everything(session)
    except LedgerError as error:  # such as text that is none
        check.problems.append(str(error))
    if head is not None and not check.seen:
        check.problems.append(
            f"no row has the hash {head}: the ledger was cut off before it, or is not the certificate's ledger"
        )
    return LedgerCheck(
        valid=not check.problems,
        problems=tuple(check.problems[:_MOST]),
        unchecked=tuple(check.unchecked),
        releases=check.releases,
        recomputed=len(check.recomputed),
    )


def check_contents(session: Session) -> list[str]:
    """What is wrong with the rows that a transaction sees."""
    check = _Check(None)
    check.everything(session)
    return check.problems


class _Check:
    def __init__(self, head: str | None) -> None:
        self.head, self.seen, self.releases = head, False, 0
        self.problems: list[str] = []
        self.unchecked: list[str] = []
        self.recomputed: set[tuple[str | None, str | None, str]] = set()
        self.rules: dict[str, Rule] = {}

    def everything(self, session: Session) -> None:
        models = self._contents(session, "ledger_models", "model")
        self.contents = self._contents(session, "ledger_problems", "charge")
        self.people = self._contents(session, "ledger_people", "list of people")
        self.models: dict[str, Model] = {}
        for sha, content in models.items():
            try:
                self.models[sha] = model_from_dict(json.loads(content))
            except (PufferdpError, ValueError, RecursionError) as error:
                self.problems.append(f"model {sha[:12]}… cannot be read: {error}")
        names = []
        self.nested = NestedDatasets(session, partial(_found, session), names=all_names(session))
        sql = "SELECT name, normalised, definition, state FROM ledger_datasets ORDER BY name"
        for name, normalised, definition, state in list(session.rows(sql)):
            names.append(name)
            if normalised != normalised_identity(name):
                self.problems.append(f"data set {name!r}: its normalised name was changed")
            try:
                self._dataset(session, name, definition, state)
            except (PufferdpError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
                self.problems.append(f"data set {name!r} cannot be read: {error}")
        for table in ("ledger_entries", "ledger_members", "ledger_sums"):
            for (other,) in session.rows(f"SELECT DISTINCT dataset FROM {table}"):
                if other not in names:
                    self.problems.append(f"there are rows of a data set {other!r} that is not in the ledger")

    def _contents(self, session: Session, table: str, what: str) -> dict[str, str]:
        contents = {}
        for sha, content in session.rows(f"SELECT sha256, content FROM {table} ORDER BY sha256"):
            if not isinstance(content, str) or hash_chain.digest(content) != sha:
                self.problems.append(f"{what} {str(sha)[:12]}… was changed: its digest differs")
            else:
                contents[sha] = content
        return contents

    def _dataset(self, session: Session, name: str, definition: str, stated: str) -> None:
        raw = json.loads(definition)
        model, adversary, budget = raw["model"], raw["adversary"], raw["budget"]
        more = raw.get("delta"), raw.get("unit")
        if definition != hash_chain.definition(name, model, adversary, budget, raw["created"], *more):
            self.problems.append(f"data set {name!r}: its definition was changed")
        state = State(hash_chain.digest(definition), model)
        self.seen |= state.head == self.head
        charges: dict[str, Charge | None] = {}
        sums = RecordSums()
        for position, created, problem, hash, identity in session.rows(_ROWS, name):
            if position != state.position + 1:
                self.problems.append(f"data set {name!r}: row {state.position + 1} is missing or moved")
                return
            if hash != hash_chain.link(state.head, position, created, problem, identity):
                self.problems.append(f"data set {name!r}: row {position} was changed, or the row before it was")
                return
            if problem not in charges:
                charges[problem] = self._charge(name, problem, state.model, adversary, budget)
            charge = charges[problem]
            if charge is None:
                self.problems.append(f"data set {name!r}: row {position} charges what is not in the ledger")
                return
            if charge.tau is not None and state.reading not in (None, reading_of(charge.facts)):
                self.problems.append(f"data set {name!r}: row {position} covers different chains from the first")
            self._refusals(name, raw, state, charge)
            state = state.after(charge, hash, sums)
            if hash == self.head:
                self.seen = True
        if state.to_json() != stated:
            self.problems.append(f"data set {name!r}: its rows do not add up to the totals that are kept")
        self._sums(session, name, sums)
        self.releases += state.releases
        shared = self.nested.shared(name)
        if shared is not None or state.releases:
            self._total(name, raw, state if shared is None else shared.state)

    def _sums(self, session: Session, name: str, sums: RecordSums) -> None:
        """The sums of single records must be those that follow from the rows."""
        same = set(stored_sums(session, name)) == set(sums_rows(sums))
        sql = "SELECT person, crowd FROM ledger_members WHERE dataset = ?"
        if not same or dict(session.rows(sql, name)) != sums.member:
            self.problems.append(
                f"data set {name!r}: its rows do not add up to the sums of single records that are kept"
            )

    def _refusals(self, name: str, definition: dict[str, Any], state: State, charge: Charge) -> None:
        """What would have been refused at that place."""
        try:
            refuse_other_width(name, state, charge)
            refuse_other_secrets(name, definition, state, charge)
            refuse_other_ranges(name, state, charge.ranges)
            refuse_delta(name, definition, charge.dp_delta or charge.delta)
        except PufferdpError as error:
            self.problems.append(f"data set {name!r}: {error}")

    def _total(self, name: str, raw: dict[str, Any], state: State) -> None:
        """Totals never fall, so the last one answers for all."""
        if state.model not in self.models:
            self.problems.append(f"data set {name!r}: its model is not in the ledger")
            return
        flows = FlowBudget.of(raw["budget"])
        if flows is not None:
            if state.tau > flows.tau:
                self.problems.append(f"data set {name!r}: its flows spend {state.tau!r}, over the budget {flows.tau!r}")
            return
        prior, unit = self.models[state.model], raw.get("unit")
        key = repr((state.model, *(raw.get(name) for name in ("adversary", "budget", "delta", "unit"))))
        if key not in self.rules:
            self.rules[key] = Rule.of(raw, prior)
        rule = self.rules[key]
        if unit is not None and (true := Unit.of(unit["name"], prior)).to_dict() != unit:
            self.problems.append(f"data set {name!r}: a {true.noun} has {true.records:,} records")
        if not rule.in_budget(state, charged=True):
            self.problems.append(
                f"data set {name!r}: its releases leak up to {rule.leakage(state):.6g}, "
                f"over the budget {raw['budget']:g}"
            )

    def _charge(self, name: str, problem: str, model: str, adversary: str | None, budget: object) -> Charge | None:
        """A charge as it is kept, recomputed when first seen; None where the ledger does not have it."""
        content = self.contents.get(problem)
        if content is None:
            return None
        charge = Charge.from_content(content, model, adversary, self.people.__getitem__)
        try:
            if charge.content != content:
                raise LedgerError(f"a charge of kind {charge.kind} is not written as a ledger writes it")
            if charge.tau is not None or FlowBudget.of(budget) is not None:
                refuse_mixed(charge, budget)
            # A loss does not depend on where it was charged: a year of daily releases is one problem.
            alone = charge if charge.tau is not None else charge.alone
            key = model, adversary, alone.problem
            if key not in self.recomputed:
                self.recomputed.add(key)
                self._recheck(name, alone)
        except PufferdpError as error:
            self.problems.append(f"data set {name!r}: {error}")
        return charge

    def _recheck(self, name: str, charge: Charge) -> None:
        """What a charge says must follow from its facts and its model; its kind of publication knows how."""
        kind = rechecks().get(charge.kind)
        if kind is None and charge.kind != "dp":
            raise LedgerError(f"nothing that is installed recomputes a charge of the kind {charge.kind}")
        problems = None if kind is None else kind.recheck(charge, self.models.get(str(charge.model)))
        if problems is None:
            self.unchecked.append(f"data set {name!r}: {charge.kind} of DP loss {charge.dp_loss:g} is taken as stated")
        else:
            self.problems += [f"data set {name!r}: {text}" for text in problems]


def _found(session: Session, name: str) -> tuple[dict[str, Any], State] | None:
    """A data set, for those that have the same records."""
    for definition, state in session.rows("SELECT definition, state FROM ledger_datasets WHERE name = ?", name):
        return json.loads(definition), State.from_json(state)
    return None


class Recheck(Protocol):
    """What a ledger asks of a kind of publication."""

    ledger_kinds: tuple[str, ...]
    """The names of the charges that it makes."""

    def recheck(self, charge: Charge, model: Model | None) -> list[str] | None:
        """What is wrong with a charge, recomputed; None where nothing but its author's word can be had."""


def rechecks() -> dict[str, Recheck]:
    """Who recomputes a charge, by the name of its kind: kinds of publication are found as plugins."""
    kinds = cast("dict[str, Recheck]", plugins("pufferdp.kinds"))
    return {name: kind for kind in kinds.values() for name in kind.ledger_kinds}
