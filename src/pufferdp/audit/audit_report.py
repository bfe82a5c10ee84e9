"""The report of an audit: what leaks at least, exactly and at most; who learns it, from what, and how often right."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import Any, Final

from pufferdp.checks import Adversary
from pufferdp.leakage.curves import EVERY_ALGORITHM
from pufferdp.report.paged import Paged
from pufferdp.report.text import number, table

_WIDTH: Final = 96


@dataclass(frozen=True, kw_only=True)
class AuditAttack:
    """Somebody who looks for one event in the output, and what they learn from it."""

    adversary: Adversary
    """The kind of adversary that was played."""
    record: str
    """The record they want."""
    knows: str
    event: str
    """What they look for."""
    concludes: str
    """The value they then take the record to have, and"""
    instead: str
    """the one it is told from."""
    shares: tuple[float, float]
    """How often the event was seen, for either value."""
    low: float
    """A lower bound of the first, and"""
    high: float
    """an upper bound of the second, both as sure as the test."""
    runs: tuple[int, int]
    """Fresh runs, for either value."""
    lower: float
    """The leakage that this proves."""
    before: float
    """How likely the value is before the release, of the two, to somebody who knows that much."""
    right: float
    """How often they are right, at least, when they see the event."""

    def to_dict(self) -> dict[str, Any]:
        """As ``pufferdp audit --json`` prints it."""
        return {
            "adversary": str(self.adversary),
            "record": self.record,
            "knows": self.knows,
            "event": self.event,
            "concludes": self.concludes,
            "instead": self.instead,
            "shares": list(self.shares),
            "low": self.low,
            "high": self.high,
            "runs": list(self.runs),
            "lower": self.lower,
            "before": self.before,
            "right": self.right,
        }

    def __str__(self) -> str:
        return (
            f"Someone wants {self.record} and knows {self.knows}. They look whether {self.event}. Where the record is "
            f"{self.concludes} that happened in {number(self.shares[0])} of the runs, where it is {self.instead} in "
            f"{number(self.shares[1])}. When they see it and say {self.concludes}, they are right at least "
            f"{number(self.right)} of the time; before the release it was {number(self.before)}."
        )


@dataclass(frozen=True, kw_only=True)
class AuditReport(Paged):
    """What an audit found. Prints as a table and a few sentences."""

    mechanism: str
    adversary: Adversary
    length: int | None
    records: int
    dp_epsilon: float | None
    """The DP loss that the mechanism claims."""
    exact: float | None
    """The exact leakage, for mechanisms of this package that have one."""
    upper: float | None
    """No mechanism that keeps the claim leaks more; None without a claim."""
    curve: str | None
    """The curve that the upper bound is from."""
    holds_for: str | None
    """The algorithms it bounds, in words."""
    attacks: tuple[AuditAttack, ...]
    """One for each test, the one that proves most first."""
    confidence: float
    tests: int
    """Events tested on fresh runs: each is as sure as 1 − (1 − confidence)/tests."""
    tried: int
    """Adversaries tried with few runs, to find the worst. They cost no confidence."""
    calls: int
    """Data sets put through the mechanism."""

    @property
    def lower(self) -> float:
        """The mechanism leaks at least this, as sure as the confidence."""
        return max((attack.lower for attack in self.attacks), default=0.0)

    @property
    def claim_lower(self) -> float | None:
        """What is proved about those who know all other records, whom the DP claim is for; None without a claim."""
        if self.dp_epsilon is None:
            return None
        return max((attack.lower for attack in self.attacks if attack.adversary is Adversary.DP), default=0.0)

    @property
    def refuted(self) -> bool:
        """Whether the claim is proved wrong."""
        claim = self.claim_lower
        wrong = claim is not None and self.dp_epsilon is not None and claim > self.dp_epsilon
        return wrong or (self.upper is not None and self.lower > self.upper)

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp audit --json`` prints."""
        return {
            "lower": self.lower,
            "exact": _finite(self.exact),
            "upper": _finite(self.upper),
            "attacks": [attack.to_dict() for attack in self.attacks],
            "claim": {"dp_epsilon": self.dp_epsilon, "lower": self.claim_lower, "refuted": self.refuted},
            "mechanism": self.mechanism,
            "adversary": str(self.adversary),
            "length": self.length,
            "records": self.records,
            "curve": self.curve,
            "holds_for": self.holds_for,
            "confidence": self.confidence,
            "tests": self.tests,
            "tried": self.tried,
            "calls": self.calls,
        }

    def __str__(self) -> str:
        title = f"{self.mechanism} over {self.records:,} records, for an adversary who knows {self.adversary.knows}"
        rows = [["at least", f"proved by attack, {100 * self.confidence:g} % sure", number(self.lower)]]
        if self.exact is not None:
            rows.append(["exactly", "computed", number(self.exact)])
        if self.upper is not None:
            rows.append(["at most", self._source(), number(self.upper)])
        if self.dp_epsilon is not None:
            rows.append(["claimed", "DP, towards someone who knows all other records", number(self.dp_epsilon)])
        lines = table(["leakage", "", "about one record"], rows, left=2).splitlines()
        return "\n".join(
            [textwrap.fill(title, _WIDTH), "", *lines, "", *(textwrap.fill(s, _WIDTH) for s in self.sentences())]
        )

    def _source(self) -> str:
        if self.curve is None:
            return "by theory"
        only = "" if self.holds_for == EVERY_ALGORITHM else ", for clipped sums and their like"
        return f"whatever keeps the claim ({self.curve} curve{only})"

    def sentences(self) -> list[str]:
        """The verdict, who learns that much, and how sure it is."""
        said = [self._verdict()]
        said += [str(attack) for attack in self.attacks[:1]]
        claim = self.claim_lower
        if claim is not None and self.adversary is not Adversary.DP and self.refuted:
            said += [str(attack) for attack in self.attacks[1:] if attack.lower == claim]
        tests = "1 event was tested" if self.tests == 1 else f"{self.tests} events were tested"
        each = 1 - (1 - self.confidence) / max(1, self.tests)
        account = (
            f"{self.tried:,} adversaries were tried with few runs each to find the worst; then {tests} on fresh runs"
        )
        account += f", each {100 * each:g} % sure. {self.calls:,} runs in all, which are taken to be independent."
        return [*said, account]

    def _verdict(self) -> str:
        claim = self.claim_lower
        if claim is not None and self.dp_epsilon is not None and claim > self.dp_epsilon:
            return (
                f"The claim is wrong: to someone who knows all other records the mechanism leaks at least "
                f"{number(claim)}, and it claims {number(self.dp_epsilon)}."
            )
        if self.upper is not None and self.lower > self.upper:
            return f"The claim is wrong: no mechanism that keeps it leaks more than {number(self.upper)}."
        if self.dp_epsilon is None:
            return (
                "The mechanism claims no DP loss, so theory sets no upper bound."
                if self.exact is None
                else (f"It leaks at least {number(self.lower)}, and exactly {number(self.exact)}.")
            )
        held = f"Nothing was found against the claim of {number(self.dp_epsilon)}"
        if self.lower <= self.dp_epsilon:
            return f"{held}, and no attack got more than that."
        return (
            f"{held}: DP bounds what one record adds for someone who knows all others. But records hang together, and "
            f"someone who knows the model learns more: at least {number(self.lower)}."
        )


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
