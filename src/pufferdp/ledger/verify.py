"""A ledger recomputed: every hash, every charge (each distinct problem once), every total.

What is found without help: a row edited, taken out, put in or moved by somebody who did not also compute every hash
after it anew. Somebody who did has made a consistent ledger; the head in a certificate, kept elsewhere, gives it away.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.errors import LedgerError, PufferdpError
from pufferdp.ledger import hash_chain
from pufferdp.ledger.charge import Charge, channel_loss, loss_of
from pufferdp.ledger.flow_budget import FlowBudget, flow_problems, reading_of
from pufferdp.ledger.store.base import Session
from pufferdp.ledger.totals import Rule, State
from pufferdp.models.chain_classes import Model, NumberModel
from pufferdp.models.files.json import model_from_dict
from pufferdp.publish.answers.plan import plan_problem
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query, QueryKind
from pufferdp.publish.answers.secrets import Secrets
from pufferdp.publish.flips.design import flip_bound, flip_chains

if TYPE_CHECKING:
    from pufferdp.ledger.ledger import Ledger


_MOST = 20
"""Problems that are told; a broken chain would have one for every row."""


@dataclass(frozen=True, kw_only=True)
class LedgerCheck:
    """Whether a ledger holds, and if not, why."""

    valid: bool
    problems: tuple[str, ...]
    unchecked: tuple[str, ...]
    """Charges that are somebody's word and cannot be recomputed."""
    releases: int
    recomputed: int
    """Distinct problems whose charge was computed anew."""

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp ledger verify --json`` prints."""
        return {
            "valid": self.valid,
            "problems": list(self.problems),
            "unchecked": list(self.unchecked),
            "releases": self.releases,
            "recomputed": self.recomputed,
        }


def check(ledger: Ledger, head: str | None = None) -> LedgerCheck:
    """Recompute a ledger; with ``head``, the row of that hash must be there."""
    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        raise LedgerError(f"head is {head!r}; it must be the 64 hexadecimal digits of a certificate", value=head)
    found = _Check(head)
    found.problems += ledger.store.problems()
    if not found.problems:
        with ledger.store.reading() as session:
            found.everything(session)
    if head is not None and not found.seen:
        found.problems.append(
            f"no row has the hash {head}: the ledger was cut off before it, or is another ledger than the certificate's"
        )
    return LedgerCheck(
        valid=not found.problems,
        problems=tuple(found.problems[:_MOST]),
        unchecked=tuple(found.unchecked),
        releases=found.releases,
        recomputed=len(found.recomputed),
    )


def check_contents(session: Session) -> list[str]:
    """What is wrong with the rows that a transaction sees."""
    found = _Check(None)
    found.everything(session)
    return found.problems


class _Check:
    def __init__(self, head: str | None) -> None:
        self.head, self.seen, self.releases = head, False, 0
        self.problems: list[str] = []
        self.unchecked: list[str] = []
        self.recomputed: set[tuple[str | None, str | None, str]] = set()

    def everything(self, session: Session) -> None:
        models = self._contents(session, "ledger_models", "model")
        self.contents = self._contents(session, "ledger_problems", "charge")
        self.models: dict[str, Model] = {}
        for sha, content in models.items():
            try:
                self.models[sha] = model_from_dict(json.loads(content))
            except (PufferdpError, ValueError, RecursionError) as error:
                self.problems.append(f"model {sha[:12]}… cannot be read: {error}")
        names = []
        sql = "SELECT name, definition, state FROM ledger_datasets ORDER BY name"
        for name, definition, state in list(session.rows(sql)):
            names.append(name)
            try:
                self._dataset(session, name, definition, state)
            except (PufferdpError, ValueError, TypeError, KeyError, AttributeError) as error:
                self.problems.append(f"data set {name!r} cannot be read: {error}")
        for (other,) in session.rows("SELECT DISTINCT dataset FROM ledger_entries"):
            if other not in names:
                self.problems.append(f"there are rows of a data set {other!r} that is not in the ledger")

    def _contents(self, session: Session, table: str, what: str) -> dict[str, str]:
        found = {}
        for sha, content in session.rows(f"SELECT sha256, content FROM {table} ORDER BY sha256"):
            if not isinstance(content, str) or hash_chain.digest(content) != sha:
                self.problems.append(f"{what} {str(sha)[:12]}… was changed: its digest is another")
            else:
                found[sha] = content
        return found

    def _dataset(self, session: Session, name: str, definition: str, stated: str) -> None:
        raw = json.loads(definition)
        model, adversary, budget = raw["model"], raw["adversary"], raw["budget"]
        if definition != hash_chain.definition(name, model, adversary, budget, raw["created"]):
            self.problems.append(f"data set {name!r}: its definition was changed")
        state = State(hash_chain.digest(definition), model)
        self.seen |= state.head == self.head
        kept: dict[str, Charge | None] = {}
        fits = 0  # charged before there was a model, when nobody could know what they leak
        sql = "SELECT position, created, problem, hash FROM ledger_entries WHERE dataset = ? ORDER BY position"
        for position, created, problem, hash in session.rows(sql, name):
            if position != state.position + 1:
                self.problems.append(f"data set {name!r}: row {state.position + 1} is missing or moved")
                return
            if hash != hash_chain.link(state.head, position, created, problem):
                self.problems.append(f"data set {name!r}: row {position} was changed, or the row before it was")
                return
            if problem not in kept:
                kept[problem] = self._charge(name, problem, state.model, adversary, budget)
            charge = kept[problem]
            if charge is not None:
                if charge.tau is not None and state.reading not in (None, reading_of(charge.facts)):
                    self.problems.append(f"data set {name!r}: row {position} is a flow of other chains than the first")
                state = state.after(charge, hash)
            else:
                content = json.loads(self.contents.get(problem, "{}"))
                if content.get("kind") != "model":
                    self.problems.append(f"data set {name!r}: row {position} charges what is not in the ledger")
                    return
                state, fits = state.adopting(content["model"], hash), state.releases
            if hash == self.head:
                self.seen = True
        if state.to_json() != stated:
            self.problems.append(f"data set {name!r}: its rows add up to other totals than those that are kept")
        self.releases += state.releases
        if state.releases > fits:
            self._total(name, raw, state)

    def _total(self, name: str, raw: dict[str, Any], state: State) -> None:
        """Totals never fall, so the last one answers for all."""
        if state.model is None:
            return
        if state.model not in self.models:
            self.problems.append(f"data set {name!r}: its model is not in the ledger")
            return
        flows = FlowBudget.of(raw["budget"])
        if flows is not None:
            if state.tau > flows.tau:
                self.problems.append(f"data set {name!r}: its flows spend {state.tau!r}, over the budget {flows.tau!r}")
            return
        rule = Rule(self.models[state.model], checks.adversary(raw["adversary"]), raw["budget"])
        if not rule.within(state):
            self.problems.append(
                f"data set {name!r}: its releases leak up to {rule.leakage(state):.6g}, "
                f"over the budget {raw['budget']:g}"
            )

    def _charge(
        self, name: str, problem: str, model: str | None, adversary: str | None, budget: object
    ) -> Charge | None:
        """A charge as it is kept, recomputed when first seen; None for a row that is not one."""
        content = self.contents.get(problem)
        if content is None or json.loads(content).get("kind") == "model":
            return None
        charge = Charge.from_content(content, model, adversary)
        if charge.tau is not None or FlowBudget.of(budget) is not None:
            self.recomputed.add((model, adversary, problem))
            found = flow_problems(charge, self.models.get(str(model)), budget)
            self.problems += [f"data set {name!r}: {text}" for text in found]
        elif (model, adversary, problem) not in self.recomputed:
            self.recomputed.add((model, adversary, problem))
            true = self._loss(charge)
            if true is None:
                self.unchecked.append(
                    f"data set {name!r}: {charge.kind} of DP loss {charge.dp_loss:g} is taken at its word"
                )
            elif not math.isclose(charge.dp_loss, true, rel_tol=1e-9):
                self.problems.append(
                    f"data set {name!r}: a release was charged {charge.dp_loss:.10g}; recomputed it is {true:.10g}"
                )
        return charge

    def _flip_promise(self, charge: Charge) -> None:
        """The promise of its own that a flipped series makes must follow from its channel and the model."""
        if charge.epsilon is None or charge.model not in self.models:
            return
        length = None if charge.longest == checks.MOST_RECORDS else charge.longest
        chains, who = flip_chains(self.models[charge.model]), checks.adversary(charge.adversary)
        found = flip_bound(chains, np.array(charge.facts["channel"]), length, who)
        # 1e-6: brackets of more than two states stop within it, and another machine may stop elsewhere.
        if not found <= charge.epsilon * (1 + 1e-6):
            self.problems.append(f"a flipped series promises {charge.epsilon:g}; recomputed it leaks up to {found:.6g}")

    def _loss(self, charge: Charge) -> float | None:
        """The DP loss that follows from the facts; None where nothing but the author's word does."""
        facts = charge.facts
        if charge.kind == "flip":
            self._flip_promise(charge)
            return channel_loss(facts["channel"])
        if charge.kind == "fit":
            return float(facts["lipschitz"] / facts["scale"])
        if charge.private is not None and charge.model in self.models:
            from pufferdp.publish.redaction.certificate import recomputed

            found = recomputed(charge, self.models[charge.model])
            return None if found is None else found.dp_loss
        if charge.kind != "additive" or charge.model not in self.models:
            return None
        model = self.models[charge.model]
        if facts["query"] == QueryKind.FUNCTION:
            if facts["mechanism"] == "wasserstein":
                return None
            query = Query.of_function(lambda chains: 0.0, facts["lipschitz"], facts["coordinates"])
        else:
            query = Query.parse(facts["query"], clip=tuple(facts["clip"]) if facts["clip"] else None)
        lengths = tuple((a, b) for a, b in facts["lengths"])
        longest = max((a for a, _ in lengths), default=1)
        width = facts["clip"][1] - facts["clip"][0] if isinstance(model, NumberModel) else None
        own = facts["epsilon"] if facts["framework"] is None else None
        if (charge.longest, charge.width, charge.epsilon) != (longest, width, own):
            raise LedgerError("the facts of a release do not go with its length, width or promise")
        asked = Problem(
            model=model,
            query=query,
            lengths=lengths,
            epsilon=facts["epsilon"],
            adversary=checks.adversary(charge.adversary),
            secrets=None if facts["framework"] is None else Secrets.from_dict(facts["framework"]),
        )
        candidate = plan_problem(asked, beta=0.05, only=[facts["mechanism"]]).candidates[0]
        if not candidate.applies or candidate.calibration is None:
            raise LedgerError(f"{facts['mechanism']} does not apply: {candidate.reason}")
        sigma = candidate.calibration.sigma
        if not math.isclose(sigma, facts["sigma"], rel_tol=1e-9):
            self.problems.append(f"a release had noise of sigma {facts['sigma']:.10g}; recomputed it is {sigma:.10g}")
        return loss_of(sigma)
