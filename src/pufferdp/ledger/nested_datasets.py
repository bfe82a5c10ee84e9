"""Data sets that have the same records by their names: ``sleep`` and its parts ``sleep/ann``, ``sleep/bob``.

A fleet charges a data set for each person, and a release of all records charges the whole. Each has a model, an
adversary and a budget of its own, and each keeps its own guarantee: a data set stands as if everything that was charged
on its records had been charged to itself, be it to the data set, to one that it is a part of, or to its parts. DP
losses add up record by record whatever the model, so the total is the curve of the data set's own model at the largest
sum. A charge has to keep the budgets of all data sets that it touches.

Parts of one data set have no record in common. Whose records a charge read is what its ranges say; a charge that names
no people, or knows records by other columns, is counted on every record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pufferdp.basics.errors import LedgerError, RefusedError
from pufferdp.basics.words import normalised_identity
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.ledger.charge import Charge
from pufferdp.ledger.flow_budget import FlowBudget
from pufferdp.ledger.record_sums import RecordSums
from pufferdp.ledger.refusals import refuse_delta, refuse_other_ranges
from pufferdp.ledger.store.base import Session
from pufferdp.ledger.totals import State, charged_on

_ROWS: Final = (
    "SELECT e.created, e.position, p.content FROM ledger_entries e JOIN ledger_problems p ON p.sha256 = e.problem "
    "WHERE e.dataset = ? ORDER BY e.position"
)
_FEW: Final = 10
"""Parts of so many data sets are looked for one by one; of more, every name is read once."""
_LATER: Final = "~"
"""In place of a time: after every row there is."""

Look = Callable[[str], tuple[dict[str, Any], State] | None]
"""The definition and the state of a data set; None where there is none of that name."""
Entry = tuple[str, str, int, Charge]
"""When, which data set, which of its rows, and what was charged."""


def wholes_of(name: str) -> list[str]:
    """The data sets that one is a part of by its name: of a/b/c these are a and a/b."""
    return [name[:at] for at, sign in enumerate(str(name)) if sign == "/" and at]


def all_names(session: Session) -> list[str]:
    """The names of all data sets, sorted."""
    return sorted(row[0] for row in session.rows("SELECT name FROM ledger_datasets"))


def refuse_taken_name(session: Session, name: str) -> None:
    """Reject the name of a data set that is in the ledger, and one that spells a data set or its part otherwise.

    The same records would get a second budget under the other spelling.
    """
    normalised = normalised_identity(name)
    begins = f"{normalised}/"
    sql = "SELECT name FROM ledger_datasets WHERE normalised = ?"
    for (other,) in list(session.rows(sql, normalised)):
        how = "is in the ledger already" if other == name else f"is in the ledger already, as {other!r}"
        raise LedgerError(f"data set {name!r} {how}; choose another name", value=name)
    found = [(whole, other) for whole in wholes_of(name) for (other,) in session.rows(sql, normalised_identity(whole))]
    sql = "SELECT name FROM ledger_datasets WHERE substr(normalised, 1, ?) = ?"
    parts = (other for (other,) in session.rows(sql, len(begins), begins))
    found += [(name, "/".join(other.split("/")[: name.count("/") + 1])) for other in parts]
    for written, other in found:
        if written != other:
            raise LedgerError(
                f"data set {name!r} writes {written!r}, and the ledger has {other!r}: the same records would get a "
                f"second budget; write {other!r}, or choose another name",
                value=name,
            )


@dataclass(frozen=True)
class Shared:
    """Where a data set stands with all that was charged on its records."""

    state: State
    sums: RecordSums
    others: tuple[str, ...]
    """The other data sets whose charges count."""
    releases: int
    """How many charges of theirs count."""


class NestedDatasets:
    """What the data sets of a ledger were charged together, inside one transaction.

    Args:
        session: the transaction.
        look: finds a data set.
        pending: charges that are about to be made, with their data sets; they count as made.
        names: of all data sets, sorted, for callers that look at many of them.
    """

    def __init__(
        self,
        session: Session,
        look: Look,
        pending: Sequence[tuple[str, Charge]] = (),
        names: Sequence[str] | None = None,
    ) -> None:
        self._session, self._look, self._names = session, look, names
        self._pending: dict[str, list[Charge]] = {}
        for name, charge in pending:
            self._pending.setdefault(name, []).append(charge)
        self._found: dict[str, tuple[dict[str, Any], State] | None] = {}
        self._charges: dict[str, list[Entry]] = {}
        self._readers: dict[tuple[str, str, int], list[frozenset[str] | None]] = {}

    def before(self) -> NestedDatasets:
        """The same without the charges that are about to be made."""
        return NestedDatasets(self._session, self._look, names=self._names)

    def find(self, name: str) -> tuple[dict[str, Any], State] | None:
        """The definition and the state of a data set."""
        if name not in self._found:
            self._found[name] = self._look(name)
        return self._found[name]

    def wholes(self, name: str) -> list[str]:
        """The data sets that one is a part of, as far as they are there."""
        return [whole for whole in wholes_of(name) if self.find(whole) is not None]

    def parts(self, name: str) -> list[str]:
        """The names of the parts of a data set."""
        begins = f"{name}/"
        if self._names is None and len(self._pending) > _FEW:
            self._names = all_names(self._session)
        if self._names is None:
            sql = "SELECT name FROM ledger_datasets WHERE substr(name, 1, ?) = ? ORDER BY name"
            return [row[0] for row in list(self._session.rows(sql, len(begins), begins))]
        first, last = (bisect_left(self._names, begins[:-1] + sign) for sign in ("/", "0"))
        return list(self._names[first:last])  # 0 comes next after the slash

    def touched(self) -> Iterator[str]:
        """The data sets whose records are charged, and have others beside them, each once."""
        out = dict[str, None]()
        for name in self._pending:
            relatives = [*self.wholes(name), *self.parts(name)]
            out |= dict.fromkeys([name, *relatives] if relatives else [])
        return iter(out)

    def refuse_mixed(self) -> None:
        """Refuse what does not add up with a data set of the same records: flows, redactions, other columns, deltas."""
        for name, charges in self._pending.items():
            relatives = [(other, found) for other in self._relatives(name) if (found := self.find(other)) is not None]
            for other, (definition, state) in relatives:
                mine = self.find(name)
                flows = FlowBudget.of(definition["budget"]) is not None
                flows |= mine is not None and FlowBudget.of(mine[0]["budget"]) is not None
                for charge in charges:
                    if state.position and (flows or state.private is not None or charge.private is not None):
                        raise _two_budgets(name, other)
                    if not flows:
                        refuse_other_ranges(other, state, charge.ranges)
                        refuse_delta(other, definition, charge.dp_delta)

    def _relatives(self, name: str) -> list[str]:
        return [*self.wholes(name), *self.parts(name)]

    def charges(self, name: str) -> list[Entry]:
        """What was charged to a data set itself."""
        if name not in self._charges:
            found = self.find(name)
            model, adversary = (None, None) if found is None else (found[1].model, found[0]["adversary"])
            rows = list(self._session.rows(_ROWS, name))
            contents = dict.fromkeys(content for _, _, content in rows)
            read = {content: Charge.from_content(content, model, adversary, self._listed) for content in contents}
            self._charges[name] = [(created, name, position, read[content]) for created, position, content in rows]
            last = len(self._charges[name])
            for n, charge in enumerate(self._pending.get(name, ())):
                self._charges[name].append((_LATER, name, last + n, charge))
        return self._charges[name]

    def _listed(self, sha: str) -> str:
        for (content,) in self._session.rows("SELECT content FROM ledger_people WHERE sha256 = ?", sha):
            return str(content)
        raise KeyError(sha)

    def entries(self, name: str) -> list[Entry]:
        """Everything that was charged on the records of a data set, in order, as far as it is on these."""
        found = self.find(name)
        assert found is not None
        whose = self._whose(name)
        out = list(self.charges(name))
        flows = FlowBudget.of(found[0]["budget"]) is not None
        for other in () if flows else self._relatives(name):
            out += [seen for entry in self.charges(other) if (seen := self._seen(entry, whose, *found)) is not None]
        return sorted(out, key=lambda entry: entry[:3])

    def shared(self, name: str) -> Shared | None:
        """Where a data set stands; None where nothing else was charged on its records, and for flows."""
        found = self.find(name)
        if found is None or FlowBudget.of(found[0]["budget"]) is not None:
            return None
        if not any(self.charges(other) for other in self._relatives(name)):
            return None
        entries = self.entries(name)
        state, sums = State("", found[1].model), RecordSums()
        for entry in entries:
            state = add(state, entry[3], sums)
        others = [entry[1] for entry in entries if entry[1] != name]
        state = replace(state, head=found[1].head)
        return Shared(state, sums, tuple(dict.fromkeys(others)), len(others))

    def _whose(self, name: str) -> tuple[str, frozenset[str]] | None:
        """The column and the people whose records a data set has; None where its charges do not say."""
        charges = [entry[3] for other in (name, *self.parts(name)) for entry in self.charges(other)]
        columns = {charge.ranges.by for charge in charges}
        if len(columns) != 1 or None in columns:
            return None
        people = set[str]()
        for charge in charges:
            for part in charged_on(charge).parts:
                if part.people is None:
                    return None
                people.update(map(normalised_identity, part.people))
        return str(columns.pop()), frozenset(people)

    def _seen(
        self, entry: Entry, whose: tuple[str, frozenset[str]] | None, definition: dict[str, Any], own: State
    ) -> Entry | None:
        """The charge of another data set as far as it is on one's own records; None where it is not."""
        created, other, position, charge = entry
        found = self.find(other)
        assert found is not None
        if (found[1].model, found[0]["adversary"]) != (own.model, definition["adversary"]):
            # Its own guarantee is about another model. The DP loss is about none.
            charge = charge if charge.private is not None else replace(charge, epsilon=None, delta=0.0)
        if whose is not None and charge.ranges.by == whose[0] and charged_on(charge) != EVERYTHING:
            ranges = self._of_people(entry, whose[1])
            if ranges is None:
                return None
            charge = replace(charge, ranges=ranges)
        return created, other, position, charge

    def _of_people(self, entry: Entry, people: frozenset[str]) -> Ranges | None:
        """What a charge read of some people; None where it is nothing."""
        ranges, key = entry[3].ranges, entry[:3]
        if key not in self._readers:
            self._readers[key] = [
                None if part.people is None else frozenset(map(normalised_identity, part.people))
                for part in ranges.parts
            ]
        parts = []
        for part, readers in zip(ranges.parts, self._readers[key], strict=True):
            both = None if readers is None else readers & people
            if both is None:
                parts.append(part)
            elif both:
                parts.append(replace(part, people=tuple(sorted(both))))
        return replace(ranges, parts=tuple(parts)) if parts else None


def add(state: State, charge: Charge, sums: RecordSums) -> State:
    """The state after a charge of any data set that has the same records.

    It is on every record where it knows them by other columns, and not clipped where that was to another width.
    """
    try:
        refuse_other_ranges("", state, charge.ranges)
    except RefusedError:
        charge = replace(charge, ranges=EVERYTHING)
    if charge.width is not None and state.width is not None and charge.width != state.width:
        charge = replace(charge, width=None)
    return state.after(charge, "", sums)


def _two_budgets(one: str, other: str) -> RefusedError:
    whole, part = sorted((one, other), key=len)
    return RefusedError(
        f"by its name data set {part!r} is a part of {whole!r}, and what a redaction or a flow releases does not add "
        f"up with DP losses of the same records: charge {whole!r} alone, or choose a name that does not begin with "
        f"{whole + '/'!r}",
        value=part,
    )
