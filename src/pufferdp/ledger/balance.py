"""Where a data set stands: what was spent, what is left, and on what the total rests."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.checks import LARGEST
from pufferdp.basics.paged import Paged, json_value, json_values
from pufferdp.ledger.budget_calendar import NAMED, Calendar
from pufferdp.ledger.flow_budget import FlowBudget, tau_left
from pufferdp.ledger.totals import SEARCHED, Rule, State, left_over
from pufferdp.models.base import Model
from pufferdp.models.units import Unit


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """Where a charge stands in its ledger: the part ``ledger`` of a certificate."""

    dataset: str
    position: int
    """The number of its row, counted from 1."""
    previous: str
    """The hash of the row before it."""
    head: str
    """Hash of its own row: the head of the ledger at that moment."""
    charged: str
    """When it was charged, in universal time."""
    identity: str
    """The token by which it can be found again."""

    def to_dict(self) -> dict[str, Any]:
        """As in the part ``ledger`` of a certificate."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class DataSet(Paged):
    """A data set at one moment: what it is, what was spent and what is left."""

    name: str
    model: Model
    model_sha256: str
    adversary: Adversary | None = None
    """None for flows, whose guarantee is in total variation."""
    budget: float
    """The most that may leak about one record, by all releases together; of flows the total variation."""
    created: str
    releases: int
    spent_dp: float
    """The largest DP loss that any record was charged, by all releases together; infinite after an exact answer."""
    leakage: float | None = None
    """What they leak at most; None for flows."""
    left_dp: float | None = None
    """The DP loss that further releases may have; None before anybody knows how long the chains are."""
    curve: str | None = None
    """The curve that the total rests on, or "own" where it is the guarantee of the only release."""
    longest: int
    private: str | None = None
    """The records that the guarantee is about, once a redaction has released others; None: all."""
    position: int
    head: str
    flows: FlowBudget | None = None
    """The budget of a data set for transition flows."""
    spent_tau: float | None = None
    """Of such a data set: the total variations of its flows, added up."""
    delta_budget: float = 0.0
    """The delta beside the budget; 0 where it is pure."""
    delta: float = 0.0
    """The delta beside ``leakage``."""
    spent_delta: float = 0.0
    """The largest delta of DP that any record was charged."""
    left_delta: float | None = 0.0
    """The delta of DP that further releases may have; None where ``left_dp`` is."""
    calendar: Calendar | None = None
    """What single records were charged; None where every charge was on every record."""
    asked_leakage: float | None = None
    """What leaks where no record was charged more than those that were asked about."""
    asked_left: float | None = None
    """The DP loss that one more release on them may have."""
    unit: Unit | None = None
    """The period that the budget is about; None: single records."""
    others: tuple[str, ...] = ()
    """Other data sets of the same records whose charges count here: those that it is a part of, and its parts."""
    others_releases: int = 0
    """How many releases of theirs count."""

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp ledger show --json`` prints."""
        content = {"dataset": self.name, **json_values(self, "model_sha256 releases longest created position head")}
        if self.flows is not None and self.spent_tau is not None:
            content |= {"budget": self.flows.to_dict(), "spent_tau": self.spent_tau}
            return content | {"left_tau": tau_left(self.flows, self.spent_tau)}
        content |= json_values(self, "adversary budget spent_dp left_dp curve private")
        content |= {"leakage": self.leakage, "left": self._left(self.leakage)}
        if self.unit is not None:
            content["period"] = self.unit.to_dict()
        if self.others:
            named = list(self.others[:NAMED])
            content["others"] = {"datasets": len(self.others), "names": named, "releases": self.others_releases}
        if self.delta_budget:
            content |= json_values(self, "delta_budget delta spent_delta left_delta")
        if self.calendar is None:
            return {**content, "ranges": []}
        content |= self.calendar.to_dict()
        if self.calendar.asked is not None:
            left, leaves = (
                self._left(self.asked_leakage),
                {"dp_loss": self.calendar.asked_loss, "left_dp": self.asked_left},
            )
            content["asked"] = {**self.calendar.asked.to_dict()["parts"][0], **json_value(leaves), "left": left}
        return content

    def _left(self, leakage: float | None) -> float | None:
        return None if leakage is None else left_over(self.budget, leakage, SEARCHED * (self.curve == "tight"))


def balance(
    name: str, definition: dict[str, Any], state: State, rule: Rule, calendar: Calendar | None = None
) -> DataSet:
    """A data set with a budget in epsilon at one moment."""
    leakage = rule.leakage(state)
    asked_leakage = asked_left = None
    if calendar is not None and calendar.asked_loss is not None:
        asked_leakage = rule.leakage(replace(state, spent=calendar.asked_loss))
        asked_left = rule.left(state, calendar.asked_loss)
    return DataSet(
        name=name,
        model=rule.model,
        model_sha256=state.model,
        adversary=rule.adversary,
        budget=rule.budget,
        created=definition["created"],
        releases=state.releases,
        spent_dp=state.spent,
        leakage=leakage,
        left_dp=rule.left(state),
        curve=_curve_name(rule, state, leakage),
        longest=state.longest,
        private=state.private,
        position=state.position,
        head=state.head,
        delta_budget=rule.delta,
        delta=rule.leaked_delta(state),
        spent_delta=state.deltas,
        left_delta=rule.left_delta(state),
        calendar=calendar,
        asked_leakage=asked_leakage,
        asked_left=asked_left,
        unit=rule.unit,
    )


def flow_balance(name: str, definition: dict[str, Any], state: State, budget: FlowBudget, model: Model) -> DataSet:
    """A data set for transition flows at one moment."""
    return DataSet(
        name=name,
        model=model,
        model_sha256=state.model,
        budget=budget.tau,
        created=definition["created"],
        releases=state.releases,
        spent_dp=state.spent,
        longest=state.longest,
        position=state.position,
        head=state.head,
        flows=budget,
        spent_tau=state.tau,
    )


def _curve_name(rule: Rule, state: State, leakage: float) -> str | None:
    if not state.releases:
        return None
    if state.epsilon is not None and leakage == rule.own_guarantee(state):
        return "own"
    if state.spent > LARGEST:
        return None
    return rule.curve_at(state).which(state.spent).name
