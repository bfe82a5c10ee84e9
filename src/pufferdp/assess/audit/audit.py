"""What a mechanism really leaks about one record: proved by attack, exactly where that is known, at most by theory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pufferdp.assess.audit import search
from pufferdp.assess.audit.events import Bound, proved_leakage
from pufferdp.assess.audit.likelihood import ComputedEvent, RecordDistributions
from pufferdp.assess.audit.mechanisms.ours import (
    AuditedMechanism,
    FlippedSeries,
    KnownMechanism,
    NoisyQuery,
    RedactedSeries,
    known_mechanism,
)
from pufferdp.assess.audit.mechanisms.outside import outside_mechanism
from pufferdp.assess.audit.mechanisms.process import OutsideMechanism, RunBudget, RunsEndedError
from pufferdp.assess.audit.priors import Prior, opposite_records, priors_of, states_handed_over
from pufferdp.assess.audit.situations import Situation, informed_by
from pufferdp.assess.dp import EVERY_APPROXIMATE, LeakageReport, leakage_of
from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import MechanismError, ParameterError
from pufferdp.basics.paged import Paged, json_values
from pufferdp.basics.progress import Progress, silent
from pufferdp.bounds.curve_forms import EVERY_ALGORITHM
from pufferdp.models.base import Model
from pufferdp.models.files.json import ModelLike, as_model


@dataclass(frozen=True, kw_only=True)
class AuditAttack(Paged):
    """An adversary who looks for one event in the output, and what they learn from it."""

    adversary: Adversary
    """The kind of adversary that was played."""
    record: str
    """The record that they want to know, by name."""
    knows: str
    event: str
    """The event that they look for in the output, in words."""
    concludes: str
    """The value they take the record to have where they see the event."""
    instead: str
    """The value that ``concludes`` is told from."""
    shares: tuple[float, float]
    """How often the event was seen, for either value."""
    low: float
    """With ``high``: the probabilities that leak least of all pairs that the test does not rule out."""
    high: float
    runs: tuple[int, int] = (0, 0)
    """Fresh runs, for either value."""
    lower: float
    """The leakage that this proves, beside the delta where there is one."""
    delta: float = 0.0
    """What the claim allows the event to be likelier by; 0 where it is pure."""
    before: float
    """How likely the value is before the release, of the two, to an adversary who knows that much."""
    right: float
    """How often they are right, at least, when they see the event."""
    computed: bool = False
    """Whether the shares are probabilities from the distribution of a mechanism of this package, not counted."""
    bound: Bound | None = field(default=None, repr=False)
    """What was counted, and how it is weighed."""

    def proves(self, delta: float) -> float:
        """The leakage that the same counts prove beside another delta."""
        return proved_leakage(self.low, self.high, delta) if self.bound is None else self.bound.beside(delta)

    def to_dict(self) -> dict[str, Any]:
        """As ``pufferdp audit --json`` prints it."""
        names = "adversary record knows event concludes instead shares low high runs lower computed delta before right"
        return json_values(self, names)


@dataclass(frozen=True, kw_only=True)
class AuditReport(Paged):
    """What an audit found. Prints as a table and a few sentences."""

    mechanism: str
    adversary: Adversary
    length: int | None
    records: int
    dp_epsilon: float | None
    """The DP loss that the mechanism claims."""
    dp_delta: float
    """The delta beside it; 0 where the claim is pure."""
    exact: float | None
    """The exact leakage, for mechanisms of this package that have one."""
    upper: float | None
    """No mechanism that keeps the claim leaks more; None without a claim."""
    upper_delta: float
    """The delta beside the upper bound: whatever keeps the claim keeps both."""
    curve: str | None
    """The curve that the upper bound is from."""
    holds_for: str | None
    """The algorithms it bounds, in words."""
    attacks: tuple[AuditAttack, ...]
    """One for each test: first those on the adversary that was played, the one that proves most before the others."""
    confidence: float
    tests: int
    """Events tested on fresh runs; all of them together are as sure as ``confidence``."""
    tried: int
    """Adversaries tried with few runs, to find the worst. They cost no confidence."""
    calls: int
    """Data sets put through the mechanism."""
    responds: bool = True
    """False where nothing showed that the output depends on the data, not even between data sets of no common record.
    """
    complete: bool = True
    """False where the time limit ended the search or the test: what is proved holds, and more time may prove more."""

    @property
    def worst(self) -> AuditAttack | None:
        """What proves most about the adversary that was played."""
        own = [attack for attack in self.attacks if self._played(attack)]
        return max(own, key=lambda attack: attack.proves(self.upper_delta), default=None)

    @property
    def lower(self) -> float:
        """To the adversary that was played the mechanism leaks at least this beside ``upper_delta``.

        What tests the DP claim is about another adversary, who knows all other records. Only an adversary who may know
        any records may be that one too.
        """
        return 0.0 if self.worst is None else self.worst.proves(self.upper_delta)

    @property
    def counted(self) -> float:
        """The part of ``lower`` that was counted in runs, whatever is known of the mechanism."""
        runs = [attack for attack in self.attacks if self._played(attack) and not attack.computed]
        return max((attack.proves(self.upper_delta) for attack in runs), default=0.0)

    def _played(self, attack: AuditAttack) -> bool:
        return self.adversary is not Adversary.PUFFERFISH or attack.adversary is self.adversary or self.records == 1

    @property
    def claim_attack(self) -> AuditAttack | None:
        """What proves most about those who know all other records."""
        informed = [a for a in self.attacks if a.adversary is Adversary.DP and not a.computed]
        return max(informed, key=lambda attack: attack.proves(self.dp_delta), default=None)

    @property
    def claim_lower(self) -> float | None:
        """What is proved about those who know all other records, whom the DP claim is for; None without a claim."""
        if self.dp_epsilon is None:
            return None
        return 0.0 if self.claim_attack is None else self.claim_attack.proves(self.dp_delta)

    @property
    def refuted(self) -> bool:
        """Whether the claim is proved wrong."""
        claim = self.claim_lower
        wrong = claim is not None and self.dp_epsilon is not None and claim > self.dp_epsilon
        return wrong or (self.upper is not None and self.lower > self.upper)

    @property
    def universal(self) -> bool:
        """Whether the upper bound holds for every DP algorithm."""
        return self.holds_for in (EVERY_ALGORITHM, EVERY_APPROXIMATE)

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp audit --json`` prints."""
        claim = {**json_values(self, "dp_epsilon dp_delta refuted"), "lower": self.claim_lower}
        names = (
            "lower counted exact upper attacks upper_delta refuted responds complete mechanism adversary length "
            "records curve holds_for confidence tests tried calls"
        )
        return {**json_values(self, names), "claim": claim}


CALLS: Final = 1_000_000
SECONDS: Final = 60.0
_CLAIM: Final = 0.2
"""Share of the runs and of the error for the claim itself: many mechanisms leak just what they claim, and are seldom
accused so."""
_OUTSIDE: Final = ("python", "command")


def audit_mechanism(
    model: ModelLike,
    mechanism: AuditedMechanism | Callable[..., Any] | str,
    *,
    length: int | None = None,
    dp_epsilon: float | None = None,
    dp_delta: float = 0.0,
    adversary: str = "bdp",
    confidence: float = 0.95,
    calls: int = CALLS,
    seconds: float = SECONDS,
    record: int | None = None,
    clip: tuple[float, float] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    budget: search.Budget | None = None,
) -> AuditReport:
    """Attack a mechanism on data drawn from a model, and say what it leaks at least, exactly and at most.

    Args:
        model: the assumed distribution of the data.
        mechanism: an object with ``name``, ``dp_loss`` and ``run``; a function of one data set; or a text:
            ``laplace:QUERY``, ``flip:R0,R1``, ``redact:ROW:EPSILON``, ``python:MODULE:FUNCTION``, ``command:COMMAND``.
            Functions and commands get states by their names, as data has them; an object made by
            ``outside_mechanism`` gets what it was made for.
        length: records of a series; other models know their records.
        dp_epsilon: the DP loss that is claimed; by default what the mechanism says of itself.
        dp_delta: the delta that is claimed beside ``dp_epsilon``. An event then proves no more than what is left of its
            probability above the delta; towards those who know the correlation, above the larger one that follows.
        adversary: whom to play: bdp (knows any records), pufferfish (none) or dp (all others).
        confidence: the confidence of the lower bound.
        calls: data sets put through the mechanism, in all.
        seconds: time in all, within a fifth.
        record: the record to go for, counted from 1; by default any.
        clip: the range of real-valued records, whose ends are distinguished.
        seed: of the data drawn and of the noise of built-in mechanisms; not of a mechanism from outside.
        progress: called with a few words before each step.
        budget: where spending is kept, for a progress bar; made anew by default.
    """
    model = as_model(model)
    adversary, progress = checks.adversary(adversary), progress or silent
    confidence = checks.probability(confidence, "confidence")
    length = None if length is None else checks.length(length)
    claimed = None if dp_epsilon is None else checks.epsilon(dp_epsilon, "dp_epsilon")
    failing = checks.delta(dp_delta, "dp_delta")
    if failing > 0 and claimed is None:
        raise ParameterError(
            f"dp_delta is {failing:g}; a claim with a delta has an epsilon too: give dp_epsilon=", value=dp_delta
        )
    budget = budget or search.Budget(1, 1.0)
    budget.calls, budget.seconds = checks.length(calls, "calls", least=2000), checks.epsilon(seconds, "seconds")
    data, noise = np.random.default_rng(checks.length(seed, "seed", least=0)).spawn(2)
    priors = priors_of(model, length, clip)
    # The audit ends its runs by the clock; the mechanism's own budget is there for those who run it elsewhere.
    allowed = RunBudget(seconds=2 * budget.seconds, calls=2 * budget.calls)
    made = _mechanism(mechanism, model, length, claimed, noise, clip, allowed, states_handed_over(priors[0]))
    laboratory = search.Experiment(made, budget, data)
    laboratory.allow_until(budget.seconds)
    try:
        if claimed is None and made.dp_loss is not None and math.isfinite(made.dp_loss):
            claimed = checks.epsilon(made.dp_loss, "dp_loss")
        progress("computing bounds")
        known = made if isinstance(made, (NoisyQuery, FlippedSeries, RedactedSeries)) else None
        exact, most = (None, None) if known is None else known.leakage(adversary)
        curve = None
        if claimed is not None:
            curve = leakage_of(model, dp_epsilon=claimed, dp_delta=failing, length=length, adversary=str(adversary))
        # Towards those who know all others the claim itself, towards the rest what follows from it (Theorem 3).
        slacks = {Adversary.DP: failing, adversary: failing if curve is None else curve.delta}
        targets = _targets(record, known, priors[0])
        # The claim is about those who know all others; it is tested on its own, whomever the audit plays.
        kinds = [adversary] if claimed is None or adversary is Adversary.DP else [Adversary.DP, adversary]
        shares = [1.0] if len(kinds) == 1 else [_CLAIM, 1 - _CLAIM]
        worst = None if curve is None else curve.attack
        likely = [] if worst is None else informed_by(priors[min(worst.model, len(priors) - 1)], worst, data)
        if targets is not None:
            likely = [situation for situation in likely if situation.target in targets]
        findings = [
            search.find(
                laboratory,
                priors,
                kind,
                targets=targets,
                share=share,
                end=end,
                delta=share * (1 - confidence),
                progress=progress,
                slack=slacks[kind],
                likely=likely if kind is adversary else (),
            )
            for kind, share, end in zip(kinds, shares, itertools.accumulate(shares), strict=True)
        ]
        computed = None
        if known is not None and isinstance(laboratory.distribution, RecordDistributions) and failing == 0:
            progress("computing the worst output")
            ends = budget.elapsed + budget.seconds / 10
            computed = search.computed_worst(
                laboratory.distribution,
                priors,
                adversary,
                targets=targets,
                likely=likely,
                generator=data,
                until=lambda: budget.elapsed > ends,
            )
        responds = True
        if budget.spent == 0 and not all(finding.complete for finding in findings):
            raise RunsEndedError("not one run was finished")
        if known is None and all(finding.lower == 0 for finding in findings):
            progress("asking whether it depends on the data at all")
            with suppress(RunsEndedError):  # without time for it, nothing is said
                responds = laboratory.responds(opposite_records(priors[0]), 1 - confidence)
    except RunsEndedError:  # not even loaded, or not one run
        raise MechanismError(
            f"{made.name}: no run finished within {budget.seconds:g} s, so nothing was tested; give it more seconds"
        ) from None
    finally:
        laboratory.allow_until(math.inf)
        if made is not mechanism and isinstance(made, OutsideMechanism):
            made.close()
    attacks = [
        _tested_attack(finding.trial, finding.bound, kind)
        for finding, kind in zip(findings, kinds, strict=True)
        if finding.trial is not None and finding.bound is not None
    ]
    if computed is not None and computed.event.leakage > 0:
        attacks.append(_computed_attack(computed, adversary, hidden=isinstance(known, RedactedSeries)))
    # What is about the claim alone, and not about the adversary that was played, comes last.
    last = Adversary.DP if adversary is Adversary.PUFFERFISH else None
    return AuditReport(
        mechanism=made.name,
        adversary=adversary,
        length=length,
        records=priors[0].records,
        dp_epsilon=claimed,
        dp_delta=failing,
        exact=exact,
        upper=_upper(curve, exact, most),
        upper_delta=0.0 if curve is None else curve.delta,
        curve=None if curve is None else curve.best,
        holds_for=None if curve is None else curve.holds_for,
        attacks=tuple(sorted(attacks, key=lambda attack: (attack.adversary is last, -attack.lower))),
        confidence=confidence,
        tests=sum(finding.bound is not None for finding in findings),
        tried=sum(finding.tried for finding in findings),
        calls=budget.spent,
        responds=responds,
        complete=all(finding.complete for finding in findings),
    )


def _mechanism(
    given: AuditedMechanism | Callable[..., Any] | str,
    model: Model,
    length: int | None,
    claimed: float | None,
    noise: np.random.Generator,
    clip: tuple[float, float] | None,
    allowed: RunBudget,
    values: Sequence[object] | None,
) -> AuditedMechanism:
    if isinstance(given, str) and given.partition(":")[0] not in _OUTSIDE:
        return known_mechanism(given, model, length, claimed, noise, clip)
    if isinstance(given, AuditedMechanism):
        return given
    return outside_mechanism(given, dp_loss=claimed, values=values, budget=allowed)


def _targets(record: int | None, known: KnownMechanism | None, prior: Prior) -> tuple[int, ...] | None:
    if record is None:
        return None if known is None else known.targets
    if not 1 <= record <= prior.records:
        raise ParameterError(f"record is {record}; it must lie between 1 and {prior.records}", value=record)
    return (record - 1,)


def _upper(curve: LeakageReport | None, exact: float | None, most: float | None) -> float | None:
    """What theory allows: the curve of the claimed DP loss, or a bound of the mechanism itself where it is lower."""
    best = None if curve is None else curve.curves[curve.best]
    if best is None:
        return most
    return best if exact is not None or most is None else min(best, most)


def _tested_attack(trial: search.Trial, bound: Bound, kind: Adversary) -> AuditAttack:
    """An attack whose event was counted on fresh runs."""
    low, high = bound.pair(bound.slack)
    return _attack(
        trial.situation,
        (trial.likelier, trial.other),
        kind,
        bound.beside(0.0),
        event=str(trial.choice.event),
        shares=bound.shares,
        low=low,
        high=high,
        runs=bound.runs,
        lower=bound.lower,
        delta=bound.slack,
        bound=bound,
    )


def _computed_attack(finding: search.ComputedFinding, adversary: Adversary, hidden: bool) -> AuditAttack:
    """An attack whose probabilities follow from the mechanism's own distribution."""
    event, situation = finding.event, finding.situation
    # Rounded down and up by more than sums of logarithms err.
    low, high = event.chances[0] * (1 - 1e-9), event.chances[1] * (1 + 1e-9)
    lower = proved_leakage(low, high, 0.0)
    words = _output_words(situation.prior, event, hidden)
    seen = {"event": words, "shares": event.chances, "low": low, "high": high, "lower": lower}
    return _attack(situation, (finding.likelier, finding.other), adversary, lower, **seen, computed=True)


def _attack(
    situation: Situation, pair: tuple[float, float], kind: Adversary, proved: float, **seen: Any
) -> AuditAttack:
    """The adversary, the target and the guess, with what was seen."""
    prior, i, (likelier, other) = situation.prior, situation.target, pair
    odds = search.prior_odds(situation, likelier, other)
    return AuditAttack(
        # The adversary who knows all other records tests the claim, in whatever search it was found.
        adversary=Adversary.DP if len(situation.known) == prior.records - 1 else kind,
        record=prior.name(i),
        knows=situation.knows(),
        concludes=prior.value(i, likelier),
        instead=prior.value(i, other),
        before=odds / (1 + odds),
        right=odds / (odds + math.exp(-proved)),
        **seen,
    )


def _output_words(prior: Prior, event: ComputedEvent, hidden: bool) -> str:
    """The outputs of some records, equal ones after each other in one piece."""
    pieces, at = list[str](), event.first
    for code, run in itertools.groupby(event.codes):
        count = len(list(run))
        state = "hidden" if hidden and code == 0 else prior.value(at, float(code - hidden))
        where = f"record {at + 1}" if count == 1 else f"records {at + 1} to {at + count}"
        pieces.append(f"{where} {'is' if count == 1 else 'are'} published as {state}")
        at += count
    more = len(pieces) - 8
    return ", ".join(pieces[:8]) + (f" and so on ({more} more changes)" if more > 0 else "")
