"""Ledgers and their data sets: made, charged, shown.

A charge is one transaction, and it is on disk before noise is drawn. So an answer never exists without its charge; a
crash in between loses the answer, not the budget.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pufferdp.basics import checks
from pufferdp.basics.errors import InputError, LedgerError, ModelError, ParameterError, PufferdpError, RefusedError
from pufferdp.basics.files import canonical_json
from pufferdp.basics.unexpected import describe_unexpected
from pufferdp.basics.words import a_kind, normalised_identity
from pufferdp.bounds.curves import curves
from pufferdp.data.ranges import Ranges
from pufferdp.ledger import hash_chain
from pufferdp.ledger.apply import Account, apply_charges, found_in, keep, now, refuse_shared
from pufferdp.ledger.balance import DataSet, Receipt, balance, flow_balance
from pufferdp.ledger.budget_calendar import Calendar
from pufferdp.ledger.charge import FLOW, Charge
from pufferdp.ledger.flow_budget import FlowBudget, refuse_no_flow, refuse_other_guarantee, refuse_other_kind
from pufferdp.ledger.identity import check_identity, find_receipts, new_identity, repeated, row_identities
from pufferdp.ledger.nested_datasets import NestedDatasets, all_names, refuse_taken_name
from pufferdp.ledger.record_sums import RecordSums
from pufferdp.ledger.refusals import Remaining, refuse_delta, refuse_other_model, refuse_other_ranges, remaining_for
from pufferdp.ledger.segments import named_ranges
from pufferdp.ledger.store import open_store
from pufferdp.ledger.store.base import WAIT, Session, unknown_charge
from pufferdp.ledger.sums_table import TableSums, load_sums
from pufferdp.ledger.totals import Rule, State
from pufferdp.models.base import Model
from pufferdp.models.files.json import ModelLike, as_model, model_digest, model_from_dict, model_to_dict
from pufferdp.models.units import Unit

if TYPE_CHECKING:
    from pufferdp.ledger.verify import LedgerCheck


class Ledger:
    """Budgets in a SQLite file, or in PostgreSQL by URL.

    >>> from pufferdp import MarkovChain
    >>> import tempfile, pathlib
    >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "books.db", create=True)
    >>> chain = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
    >>> made = ledger.create("week", model=chain, adversary="bdp", budget=2.0)
    >>> receipt = ledger.charge("week", Charge(kind="dp", dp_loss=0.01, longest=50))
    >>> found = ledger.dataset("week")
    >>> found.releases, round(found.leakage, 4), found.head == receipt.head
    (1, 0.0381, True)
    >>> ledger.close()
    """

    def __init__(self, place: str | os.PathLike[str], *, create: bool = False, wait: float = WAIT) -> None:
        self.store = open_store(place, create=create, wait=wait)
        self._models: dict[str, Model] = {}
        self._rules: dict[str, Rule] = {}
        self._stored: set[str] = set()
        self._definitions: dict[str, dict[str, Any]] = {}
        self._names: list[str] = []
        self._seen: dict[str, Receipt] = {}
        """The last charge of each data set that was acknowledged here: it must be there the next time."""

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self.store.place!r})"

    def close(self) -> None:
        """Let go of the file or the server."""
        self.store.close()

    def create(
        self,
        name: str,
        *,
        model: ModelLike,
        adversary: str = "bdp",
        budget: float | FlowBudget,
        delta: float | None = None,
        unit: str | int | Unit | None = None,
    ) -> DataSet:
        """A new data set with its model, its adversary and its budget; none of them can be changed later.

        With a delta the budget is approximate, and allows approximate releases. A data set for transition flows has
        a ``FlowBudget`` in total variation, and no adversary. With a unit, such as a day, the budget is about whole
        periods: what a record loses counts as often as a period has records.
        """
        model = as_model(model)
        if not hash_chain.can_be_name(name):
            raise ParameterError(f"dataset is {name!r}; it must be a name of printable characters", value=name)
        sha = model_digest(model)
        period = None if unit is None else _period(unit, model, delta, budget)
        if isinstance(budget, FlowBudget):
            if delta is not None:
                raise ParameterError("a budget in total variation has no delta: leave it out", value=delta)
            refuse_no_flow(model, budget)
            definition = hash_chain.definition(name, sha, None, budget.to_dict(), now())
        else:
            adversary, most = checks.adversary(adversary), checks.epsilon(budget, "budget")
            delta = (checks.delta(delta) or None) if delta is not None else None
            about = None if period is None else period.to_dict()
            definition = hash_chain.definition(name, sha, str(adversary), most, now(), delta, about)
        with self.store.writing() as session:
            refuse_taken_name(session, name)
            keep(session, "ledger_models", canonical_json(model_to_dict(model)))
            session.run(
                "INSERT INTO ledger_datasets (name, normalised, definition, state) VALUES (?, ?, ?, ?)",
                name,
                normalised_identity(name),
                definition,
                State(hash_chain.digest(definition), sha).to_json(),
            )
        return self.dataset(name)

    def names(self) -> tuple[str, ...]:
        """The names of all data sets, sorted."""
        with self.store.reading() as session:
            names = [row[0] for row in session.rows("SELECT name FROM ledger_datasets")]
        if not all(isinstance(name, str) for name in names):
            raise LedgerError("a data set has no name; the ledger is damaged: restore a backup")
        return tuple(sorted(names))

    def dataset(self, name: str, asked: Ranges | None = None) -> DataSet:
        """A data set as it stands now; with ``asked`` it says too what is left for these records."""
        with self.store.reading() as session:
            definition, state = self._find(session, name)
            flows = FlowBudget.of(definition["budget"])
            if flows is not None:
                return flow_balance(name, definition, state, flows, self.model(session, state.model))
            rule = self._rule(session, definition, state)
            assert rule is not None  # there is a model, and the budget is in epsilon
            if asked is not None:
                refuse_other_ranges(name, state, asked)
            shared = self.nested(session, names=self._all_names(session)).shared(name)
            if shared is None:
                sums = load_sums(session, name) if state.has_ranges else RecordSums()
                return balance(name, definition, state, rule, Calendar.of(state, sums, asked))
            if asked is not None:
                refuse_other_ranges(name, shared.state, asked)
            calendar = Calendar.of(shared.state, shared.sums, asked)
            return replace(
                balance(name, definition, shared.state, rule, calendar),
                releases=state.releases,
                position=state.position,
                others=shared.others,
                others_releases=shared.releases,
            )

    def ranges(
        self,
        name: str,
        *,
        first: str | None = None,
        last: str | None = None,
        people: Sequence[str] | None = None,
        order: str | None = None,
        by: str | None = None,
        otherwise: str | None = None,
    ) -> Ranges:
        """The records that a caller names, in the columns by which the data set knows its records.

        Args:
            name: of the data set.
            first: a number, a date or a time; None: from the beginning.
            last: the last place, itself included, of a date the whole day; None: to the end.
            people: whose records; None: everybody's.
            order: the order column, where the data set has none yet or another is to be refused.
            by: the column of people, likewise.
            otherwise: the order column where none was named, for a query.
        """
        with self.store.reading() as session:
            _, state = self._find(session, name)
        columns = {"order": order or state.order or otherwise, "by": by or state.by}
        return named_ranges(name, state.unit, first=first, last=last, people=people, **columns)

    def remaining(self, name: str, ranges: Ranges, longest: int) -> Remaining:
        """What is left for one more release on some records of chains of this length, without charging it."""
        with self.store.reading() as session:
            definition, state = self._find(session, name)
            refuse_other_kind(name, FlowBudget.of(definition["budget"]), "additive")
            refuse_other_ranges(name, state, ranges)
            rule = self._rule(session, definition, state)
            assert rule is not None  # there is a model, and the budget is in epsilon
            sums = TableSums(session, name, state.crowds)
            spent = state.spent_on(ranges, sums)
            # A release of next to nothing shows for which length the curve will be read; of real numbers it is clipped.
            width = (state.width or 1.0) if rule.model.real_valued else None
            tiny = Charge(kind="dp", dp_loss=1e-300, longest=longest, ranges=ranges, width=width)
            then = state.after(tiny, "", sums)
            most = self._remaining_beside(session, name, tiny)
        return remaining_for(rule, then, spent, most)

    def _remaining_beside(self, session: Session, name: str, tiny: Charge) -> float:
        """The DP loss that all data sets of the same records have left for one more release."""
        nested, most = self.nested(session, [(name, tiny)]), math.inf
        nested.refuse_mixed()
        for other in nested.touched():
            then, before, account = nested.shared(other), nested.before().shared(other), self._look(session, other)
            if then is None or account is None or account.rule is None:
                continue
            state, sums = (account.state, account.sums(session)) if before is None else (before.state, before.sums)
            most = min(most, max(0.0, account.rule.allowed(then.state) - state.spent_on(tiny.ranges, sums)))
        return most

    def would_refuse(self, name: str, charge: Charge) -> RefusedError | None:
        """What a charge would be refused for, without charging it; None where it fits."""
        with self.store.reading() as session:
            definition, state = self._find(session, name)
            account = Account(name, definition, state, self._rule(session, definition, state))
            try:
                account.after(charge, now(), "", account.sums(session), lambda: account.sums(session))
                refuse_shared(session, [(name, charge)], lambda other: self._look(session, other))
            except RefusedError as error:
                return error
        return None

    def expect(self, name: str, *, model: Model, adversary: str, delta: float = 0.0) -> None:
        """Refuse early what a charge would refuse: another model or adversary, or a delta of which there is none."""
        with self.store.reading() as session:
            definition, state = self._find(session, name)
        refuse_other_kind(name, FlowBudget.of(definition["budget"]), "additive")
        refuse_other_model(name, definition, state, model_digest(model), str(checks.adversary(adversary)))
        refuse_delta(name, definition, delta)

    def expect_flow(self, name: str, *, model: Model, guarantee: FlowBudget) -> None:
        """Refuse early what the charge of a flow would refuse: another kind, model or guarantee than the data set's."""
        with self.store.reading() as session:
            definition, state = self._find(session, name)
        budget = FlowBudget.of(definition["budget"])
        refuse_other_kind(name, budget, FLOW)
        refuse_other_model(name, definition, state, model_digest(model), None)
        if budget is not None:
            refuse_other_guarantee(name, budget, guarantee)

    def charge(self, name: str, charge: Charge, *, identity: str | None = None) -> Receipt:
        """Charge one release, before its noise is drawn. When this returns the charge is on disk.

        With an identity of one's own, a charge that was made under it already is not made again: its receipt is
        returned. ``UnknownChargeError`` says the identity to ask for with ``find``.
        """
        return self.charge_many([(name, charge)], identity=identity)[0]

    def charge_many(self, charges: Sequence[tuple[str, Charge]], *, identity: str | None = None) -> list[Receipt]:
        """Charge releases from one or several data sets together: all of them, or none, under one identity."""
        for _, charge in charges:
            if not isinstance(charge, Charge):
                raise LedgerError(f"the charge is {a_kind(charge)}; it must be a Charge", value=type(charge))
        token = new_identity() if identity is None else check_identity(identity)

        applied = False

        def work(session: Session, again: bool) -> list[Receipt]:
            nonlocal applied
            applied = False
            earlier = repeated(session, charges, token) if again or identity is not None else []
            if again:
                self._stored.clear()
            identities = row_identities(token, len(charges))
            receipts = earlier or apply_charges(
                session,
                charges,
                identities,
                lambda name: self._account(session, name),
                lambda name: self._look(session, name),
                self._stored,
            )
            applied = True
            return receipts

        try:
            receipts = self.store.commit(work, token)
        except BaseException as error:
            self._stored.clear()  # what was kept in a transaction that failed is not there
            if applied and isinstance(error, Exception) and not isinstance(error, PufferdpError):
                raise unknown_charge(self.store.place, describe_unexpected(error), token) from None
            raise
        self._seen |= {receipt.dataset: receipt for receipt in receipts}
        return receipts

    def find(self, identity: str) -> tuple[Receipt, ...]:
        """The receipts of a charge by its identity; none means that it was not made, and that nobody is at it now."""
        with self.store.settled(identity) as session:
            return tuple(find_receipts(session, identity))

    def _account(self, session: Session, name: str) -> Account:
        definition, state = self._find(session, name, lock=True)
        self._refuse_older(session, name, state)
        return Account(name, definition, state, self._rule(session, definition, state))

    def _look(self, session: Session, name: str) -> Account | None:
        """A data set that may not be there."""
        if not list(session.rows("SELECT name FROM ledger_datasets WHERE name = ?", name)):
            return None
        definition, state = self._find(session, name)
        return Account(name, definition, state, self._rule(session, definition, state))

    def nested(
        self, session: Session, pending: Sequence[tuple[str, Charge]] = (), names: Sequence[str] | None = None
    ) -> NestedDatasets:
        """What data sets of the same records were charged, inside a transaction."""
        return NestedDatasets(session, lambda name: found_in(self._look(session, name)), pending, names)

    def _all_names(self, session: Session) -> list[str]:
        """The names of all data sets, read again where there are more: none is ever taken out."""
        ((count,),) = session.rows("SELECT count(*) FROM ledger_datasets")
        if count != len(self._names):
            self._names = all_names(session)
        return self._names

    def _refuse_older(self, session: Session, name: str, state: State) -> None:
        """A ledger without a charge that was acknowledged here is an older copy of itself, or damaged."""
        sql = "SELECT hash FROM ledger_entries WHERE dataset = ? AND position = ?"
        if state.position and list(session.rows(sql, name, state.position)) != [(state.head,)]:
            raise LedgerError(
                f"data set {name!r} is damaged: its last row is not the one that its total is for, and nothing was "
                "charged; look with Ledger.verify(), and restore a backup",
                value=name,
            )
        last = self._seen.get(name)
        if last is None or (state.position, state.head) == (last.position, last.head):
            return
        if list(session.rows(sql, name, last.position)) != [(last.head,)]:
            raise LedgerError(
                f"data set {name!r}: row {last.position}, which was charged here, is no longer in the ledger: it "
                f"was replaced by an older copy. Nothing was charged; look with Ledger.verify(head={last.head!r})",
                value=name,
            )

    def verify(self, head: str | None = None) -> LedgerCheck:
        """Recompute every hash and every charge; with ``head``, look for the row that a certificate names."""
        from pufferdp.ledger.verify import check_ledger  # a charge does without it

        return check_ledger(self.store, head)

    def _find(self, session: Session, name: str, lock: bool = False) -> tuple[dict[str, Any], State]:
        sql = "SELECT definition, state FROM ledger_datasets WHERE name = ?" + (self.store.locked if lock else "")
        for definition, state in session.rows(sql, name) if hash_chain.can_be_name(name) else ():
            try:
                if definition not in self._definitions:
                    self._definitions[definition] = _definition(definition)
                return self._definitions[definition], State.from_json(state)
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError, InputError):
                raise LedgerError(
                    f"data set {name!r} is damaged: look with Ledger.verify(), and restore a backup"
                ) from None
        known = ", ".join(sorted(row[0] for row in session.rows("SELECT name FROM ledger_datasets"))[:10])
        raise LedgerError(f"there is no data set {name!r} in the ledger; it has {known or 'none'}", value=name)

    def _rule(self, session: Session, definition: dict[str, Any], state: State) -> Rule | None:
        if isinstance(definition["budget"], dict):
            return None
        key = repr((state.model, *(definition.get(name) for name in ("adversary", "budget", "delta", "unit"))))
        if key not in self._rules:
            self._rules[key] = Rule.of(definition, self.model(session, state.model))
        return self._rules[key]

    def model(self, session: Session, sha: str) -> Model:
        """The model that has a digest."""
        if sha not in self._models:
            for (content,) in session.rows("SELECT content FROM ledger_models WHERE sha256 = ?", sha):
                try:
                    self._models[sha] = model_from_dict(json.loads(content))
                except (ValueError, TypeError, RecursionError, InputError) as error:
                    why = f" ({error})" if isinstance(error, ModelError) else ""
                    raise LedgerError(
                        f"the model {sha} in the ledger is damaged{why}; restore a backup", value=sha
                    ) from None
                break
            else:
                raise LedgerError(f"the model {sha} is missing from the ledger; restore a backup", value=sha)
        return self._models[sha]


def _definition(text: str) -> dict[str, Any]:
    """What a data set was made with; whatever of it does not have its form is an error."""
    definition: dict[str, Any] = json.loads(text)
    flows = FlowBudget.of(definition["budget"])
    if flows is None:
        checks.adversary(definition["adversary"])
        numbers = definition["budget"], definition.get("delta", 0.0)
        if not all(isinstance(n, (int, float)) and math.isfinite(n) for n in numbers):
            raise TypeError("a number is none")
    if definition.get("unit") is not None:
        Unit(**definition["unit"])
    if not isinstance(definition["created"], str) or not isinstance(definition["model"], str):
        raise TypeError("a text is none")
    return definition


def _period(unit: object, model: Model, delta: float | None, budget: float | FlowBudget) -> Unit:
    """The period that a budget is about; refuses what is not worked out for periods."""
    if delta is not None or isinstance(budget, FlowBudget):
        raise ParameterError("a budget about whole periods is pure, and in epsilon: leave the unit out", value=unit)
    period = Unit.of(unit, model)
    if period.unlimited:
        raise ParameterError(
            "unit is person; a person's series has any number of records, and a budget counts records: give the unit "
            "as a period, or leave it out and charge releases with that unit",
            value=unit,
        )
    best_of = [c for c in curves(model, None, unit=period.records).values() if c.applies]
    if not best_of:
        raise ParameterError(
            f"what leaks about {period.words} is not worked out for this model: leave the unit out", value=unit
        )
    return period
