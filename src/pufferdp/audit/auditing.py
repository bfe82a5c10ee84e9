"""What a mechanism really leaks about one record: proved by attack, exactly where that is known, at most by theory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from pufferdp import checks
from pufferdp.audit.audit_report import AuditAttack, AuditReport
from pufferdp.audit.conditional import Belief, beliefs_of
from pufferdp.audit.guard import RunBudget
from pufferdp.audit.known import FlippedSeries, KnownMechanism, NoisyQuery, RedactedSeries, known_mechanism
from pufferdp.audit.mechanism import AuditedMechanism
from pufferdp.audit.outside import outside_mechanism
from pufferdp.audit.search import Finding, find
from pufferdp.audit.trials import Budget, Laboratory, prior_odds
from pufferdp.checks import Adversary
from pufferdp.errors import ParameterError
from pufferdp.leaking import LeakageReport, leakage_of
from pufferdp.models.classes import Model

CALLS: Final = 1_000_000
SECONDS: Final = 60.0
_CLAIM: Final = 0.25
"""Share of the runs that goes into the DP claim itself."""
_OUTSIDE: Final = ("python", "command")

Progress = Callable[[str], None]


def audit_mechanism(
    model: Model,
    mechanism: AuditedMechanism | Callable[..., Any] | str,
    *,
    length: int | None = None,
    dp_epsilon: float | None = None,
    adversary: str = "bdp",
    confidence: float = 0.95,
    calls: int = CALLS,
    seconds: float = SECONDS,
    record: int | None = None,
    clip: tuple[float, float] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    budget: Budget | None = None,
) -> AuditReport:
    """Attack a mechanism on data drawn from a model, and say what it leaks at least, exactly and at most.

    Args:
        model: what is believed about the data.
        mechanism: an object with ``name``, ``dp_loss`` and ``run``; a function of one data set; or a text:
            ``laplace:QUERY``, ``flip:R0,R1``, ``redact:ROW:EPSILON``, ``python:MODULE:FUNCTION``, ``command:COMMAND``.
        length: records of a series; other models know their records.
        dp_epsilon: the DP loss that is claimed; by default what the mechanism says of itself.
        adversary: whom to play: bdp (knows any records), pufferfish (none) or dp (all others).
        confidence: how sure the lower bound is to hold.
        calls: data sets put through the mechanism, in all.
        seconds: time in all, roughly.
        record: the record to go for, counted from 1; by default any.
        clip: the range of real-valued records, whose ends are told apart.
        seed: of the data drawn and of the noise of built-in mechanisms; not of a mechanism from outside.
        progress: called with a few words before each step.
        budget: where spending is kept, for a progress bar; made anew by default.
    """
    who, tell = checks.adversary(adversary), progress or (lambda words: None)
    confidence = checks.probability(confidence, "confidence")
    length = None if length is None else checks.length(length)
    claimed = None if dp_epsilon is None else checks.epsilon(dp_epsilon, "dp_epsilon")
    budget = budget or Budget(1, 1.0)
    budget.calls, budget.seconds = checks.length(calls, "calls", least=2000), checks.epsilon(seconds, "seconds")
    data, noise = np.random.default_rng(checks.length(seed, "seed", least=0)).spawn(2)
    beliefs = beliefs_of(model, length, clip)
    # Twice the audit's own: it plans with what runs take, and a mechanism that suddenly takes longer is ended.
    allowed = RunBudget(seconds=2 * budget.seconds + RunBudget.patience, calls=2 * budget.calls)
    made = _mechanism(mechanism, model, length, claimed, noise, clip, allowed)
    try:
        if claimed is None and made.dp_loss is not None and math.isfinite(made.dp_loss):
            claimed = checks.epsilon(made.dp_loss, "dp_loss")
        tell("computing bounds")
        known = made if isinstance(made, (NoisyQuery, FlippedSeries, RedactedSeries)) else None
        exact, most = (None, None) if known is None else known.leakage(who)
        curve = None if claimed is None else leakage_of(model, dp_epsilon=claimed, length=length, adversary=str(who))
        targets = _targets(record, known, beliefs[0])
        laboratory = Laboratory(made, budget, data)
        # The claim is about those who know all others; it is tested on its own, whomever the audit plays.
        kinds = [who] if claimed is None or who is Adversary.DP else [Adversary.DP, who]
        delta = (1 - confidence) / len(kinds)
        shares = [1.0] if len(kinds) == 1 else [_CLAIM, 1 - _CLAIM]
        found = [
            find(laboratory, beliefs, kind, targets=targets, share=share, delta=delta, progress=tell)
            for kind, share in zip(kinds, shares, strict=True)
        ]
    finally:
        if made is not mechanism and hasattr(made, "close"):
            made.close()
    attacks = [_attack(one, kind) for one, kind in zip(found, kinds, strict=True) if one.trial is not None]
    return AuditReport(
        mechanism=made.name,
        adversary=who,
        length=length,
        records=beliefs[0].records,
        dp_epsilon=claimed,
        exact=exact,
        upper=_upper(curve, exact, most),
        curve=None if curve is None else curve.best,
        holds_for=None if curve is None else curve.holds_for,
        attacks=tuple(sorted(attacks, key=lambda attack: -attack.lower)),
        confidence=confidence,
        tests=len(kinds),
        tried=sum(one.tried for one in found),
        calls=budget.spent,
    )


def _mechanism(
    given: AuditedMechanism | Callable[..., Any] | str,
    model: Model,
    length: int | None,
    claimed: float | None,
    noise: np.random.Generator,
    clip: tuple[float, float] | None,
    allowed: RunBudget,
) -> AuditedMechanism:
    if isinstance(given, str) and given.partition(":")[0] not in _OUTSIDE:
        return known_mechanism(given, model, length, claimed, noise, clip)
    if isinstance(given, AuditedMechanism):
        return given
    return outside_mechanism(given, dp_loss=claimed, budget=allowed)


def _targets(record: int | None, known: KnownMechanism | None, belief: Belief) -> tuple[int, ...] | None:
    if record is None:
        return None if known is None else known.targets
    if not 1 <= record <= belief.records:
        raise ParameterError(f"record is {record}; it must lie between 1 and {belief.records}", value=record)
    return (record - 1,)


def _upper(curve: LeakageReport | None, exact: float | None, most: float | None) -> float | None:
    """What theory allows: the curve of the claimed DP loss, or a bound of the mechanism itself where it is lower."""
    best = None if curve is None else curve.curves[curve.best]
    if best is None:
        return most
    return best if exact is not None or most is None else min(best, most)


def _attack(found: Finding, kind: Adversary) -> AuditAttack:
    trial, bound = found.trial, found.bound
    assert trial is not None
    assert bound is not None
    situation, odds = trial.situation, prior_odds(trial)
    belief, i = situation.belief, situation.target
    # Whoever knows all other records tests the claim, in whatever search they were found.
    return AuditAttack(
        adversary=Adversary.DP if len(situation.known) == belief.records - 1 else kind,
        record=belief.name(i),
        knows=situation.knows(),
        event=str(trial.choice.event),
        concludes=belief.value(i, trial.likelier),
        instead=belief.value(i, trial.other),
        shares=bound.shares,
        low=bound.low,
        high=bound.high,
        runs=bound.runs,
        lower=bound.lower,
        before=odds / (1 + odds),
        right=1 / (1 + math.exp(-bound.lower) / odds),
    )
