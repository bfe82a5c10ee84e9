"""Budgets in total variation, which transition flows spend. They never mix with an epsilon.

Why the taus of flows from the same records add up. A flow's tau bounds more than the total variation between the
distributions of its release: it bounds the mean, over one coupling of the two cases, of the total variation between the
noisy flows of two data sets (docs/theory/flow.md). The coupling is of the data alone, so it is the same for every flow.
Given the two data sets the noises are independent, total variations of independent noises add up, and so do their
means. It stays true where the tau of a flow is chosen after earlier ones were seen, as long as all are flows of the
same records. (Total variations between releases as such need not add up: two coins that are each fair may still always
agree.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from pufferdp.basics import checks
from pufferdp.basics.errors import BudgetError, ModelError, ParameterError, RefusedError
from pufferdp.basics.files import canonical_json
from pufferdp.bounds.orbits import Privacy, our_noise
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.ledger.charge import FLOW, Charge
from pufferdp.ledger.hash_chain import digest
from pufferdp.models.base import Model
from pufferdp.models.chain import chain_of

TOTAL_VARIATION: Final = "total-variation"
"""The kind of a budget that flows spend."""


@dataclass(frozen=True, kw_only=True)
class FlowBudget:
    """The most total variation that all flows of a data set may spend, and the guarantee that it is about."""

    tau: float
    eta: float
    """Radius of the orbit around the data set's model."""
    privacy: str = "joint"
    """``orbit``, ``record`` or ``joint``."""
    centre_only: bool = False
    """The record guarantee for data made by the model alone."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", checks.total_variation(self.tau))
        object.__setattr__(self, "eta", checks.radius(self.eta))
        if self.privacy not in list(Privacy):
            raise ParameterError(f"privacy is {self.privacy!r}; it must be orbit, record or joint", value=self.privacy)
        if self.privacy == Privacy.ORBIT and self.eta == 0:
            raise ParameterError(
                "eta is 0, so the orbit is K0 alone and there is nothing to hide; give a radius, or ask for record",
                value=self.eta,
            )

    @property
    def options(self) -> str:
        """The guarantee as the command line takes it."""
        only = ", centre_only=True" if self.centre_only else ""
        return f"eta={self.eta!r}, privacy='{self.privacy}'{only}"

    def to_dict(self) -> dict[str, Any]:
        """As the definition of a data set keeps it."""
        kernels = "centre" if self.centre_only else "orbit"
        guarantee = {"eta": self.eta, "privacy": str(self.privacy), "kernels": kernels}
        return {"kind": TOTAL_VARIATION, "tau": self.tau, **guarantee}

    @classmethod
    def of(cls, budget: object) -> FlowBudget | None:
        """The budget that a definition has; None where it is an epsilon."""
        if not isinstance(budget, dict):
            return None
        centre_only = budget["kernels"] == "centre"
        return cls(tau=budget["tau"], eta=budget["eta"], privacy=budget["privacy"], centre_only=centre_only)


def flow_charge(
    *,
    model: str,
    guarantee: FlowBudget,
    add: bool,
    mechanism: str,
    kappa: float | None,
    sigma: float,
    lengths: Sequence[Sequence[int]],
    part: bool = False,
    ranges: Ranges = EVERYTHING,
) -> Charge:
    """What a transition flow charges, as its certificate describes it.

    Args:
        model: digest of the centre of the orbit.
        guarantee: its tau and what it is about.
        add: whether the noise is for the sum of both parts of joint.
        mechanism: the rule of the noise and the repair.
        kappa: of the repair ``log``.
        sigma: standard deviation of the noise for the flow itself.
        lengths: pairs of a chain length and how many chains have it.
        part: whether the chains are parts of series that go on; flows of other parts are flows of other records.
        ranges: which records were read.
    """
    facts = {"guarantee": guarantee.to_dict(), "sum": add, "mechanism": mechanism, "kappa": kappa, "sigma": sigma}
    facts |= {"segment": digest(canonical_json(ranges.to_dict()))} if part else {}
    return Charge(
        kind=FLOW,
        dp_loss=math.inf,
        tau=guarantee.tau,
        longest=max(length for length, _ in lengths),
        facts={**facts, "lengths": [list(pair) for pair in lengths]},
        model=model,
        ranges=ranges,
    )


def reading_of(facts: Mapping[str, Any]) -> str:
    """Which records a flow is of, as far as is public: digest of the lengths of its chains, and of its segment."""
    segment = {"segment": facts["segment"]} if "segment" in facts else {}
    return digest(canonical_json({"lengths": facts.get("lengths"), **segment}))


def add_taus(a: float, b: float) -> float:
    """A sum of decimals as they are written, so that three times 0.1 is 0.3; rounded up where it has too many digits.

    A tau is a decimal that a user typed; noise is rounded up by more than what a double makes of it.
    """
    exact = Decimal(repr(a)) + Decimal(repr(b))
    near = float(exact)
    return near if Decimal(repr(near)) >= exact else math.nextafter(near, math.inf)


def tau_left(budget: FlowBudget, spent: float) -> float:
    """What further flows may spend, rounded down."""
    exact = Decimal(repr(budget.tau)) - Decimal(repr(spent))
    near = float(max(exact, Decimal(0)))
    return near if Decimal(repr(near)) <= max(exact, Decimal(0)) else math.nextafter(near, 0.0)


def refuse_other_kind(name: str, budget: FlowBudget | None, kind: str) -> None:
    """An epsilon and a total variation never mix: a data set has a budget of one kind."""
    if budget is not None and kind != FLOW:
        raise RefusedError(
            f"data set {name!r} keeps a budget in total variation, for transition flows, and a release of kind {kind} "
            "spends epsilon, which never mixes with it: charge it to a data set that was made with budget=",
            value=kind,
        )
    if budget is None and kind == FLOW:
        raise RefusedError(
            f"data set {name!r} keeps a budget in epsilon, and a transition-flow spends total variation, which never "
            "mixes with it: charge it to a data set that was made with tau=",
            value=kind,
        )


def refuse_other_guarantee(name: str, budget: FlowBudget, guarantee: FlowBudget) -> None:
    """The taus of a data set are about one orbit and one guarantee."""
    if budget.options != guarantee.options:
        raise RefusedError(
            f"the flow guarantees {guarantee.options}, and data set {name!r} keeps its budget for {budget.options}: "
            "release with these, or make another data set",
            value=guarantee.options,
        )


def refuse_no_flow(model: Model, budget: FlowBudget) -> None:
    """A budget that no flow could ever be charged to is not made."""
    chain = chain_of(model)
    if chain is None:
        raise ModelError(f"the model is {model!r}; a budget for flows needs one Markov chain, the centre of the orbit")
    our_noise(
        chain.transition,
        1,
        eta=budget.eta,
        tau=budget.tau,
        privacy=Privacy(budget.privacy),
        centre_only=budget.centre_only,
    )


def refuse_flow(name: str, budget: FlowBudget, spent: float, reading: str | None, charge: Charge) -> None:
    """Refuse a flow that does not go with the others, or is too much."""
    guarantee = FlowBudget.of(charge.facts.get("guarantee"))
    if guarantee is None or charge.tau != guarantee.tau:
        raise ParameterError("a transition flow must say in its facts what it guarantees, at its tau", value=charge.tau)
    refuse_other_guarantee(name, budget, guarantee)
    if reading is not None and reading != reading_of(charge.facts):
        # Means add up for fixed readings alone: which records to read could be chosen by what earlier flows showed.
        raise RefusedError(
            f"the flow covers other chains than those that data set {name!r} was charged for: total variations add "
            "up for flows of the same records, so read the data as before, or make another data set",
            value=name,
        )
    if add_taus(spent, guarantee.tau) <= budget.tau:
        return
    left = tau_left(budget, spent)
    sentence = f"data set {name!r} has spent {spent!r} of its total variation {budget.tau!r}, {left!r} is left"
    fits = "no flow fits" if left < checks.SMALLEST_EPSILON else f"release it with tau={left!r}"
    raise BudgetError(f"{sentence}; this flow needs {guarantee.tau!r}: {fits}", value=name)


def refuse_mixed(charge: Charge, budget: object) -> None:
    """Refuse a row of another kind, or of another guarantee, than the budget of its data set."""
    flow_budget, guarantee = FlowBudget.of(budget), FlowBudget.of(charge.facts.get("guarantee"))
    if charge.tau is None or flow_budget is None or guarantee is None:
        raise RefusedError("a flow and an epsilon were charged to the same data set")
    if guarantee.options != flow_budget.options:
        raise RefusedError(f"a flow guarantees {guarantee.options}, and the budget is for {flow_budget.options}")
