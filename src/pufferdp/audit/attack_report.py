"""What attackers got, beside what the channel's loss allows, and what their success proves."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.audit.success import CONFIDENCE, Success, dp_success, measure
from pufferdp.models.markov import Matrix
from pufferdp.report.text import number, table

_WIDTH: Final = 96


@dataclass(frozen=True, kw_only=True)
class AttackReport:
    """How often each attacker is right, beside what the channel's loss allows."""

    attacks: tuple[Success, ...]
    length: int
    """Records of the longest series."""
    runs: int
    record: int | None
    """The record that is guessed, counted from 1; None: all."""
    channel: Matrix
    losses: dict[str, float]
    """Loss of the channel by adversary: exact for two states, an upper bound otherwise."""
    odds: float
    """The largest prior odds of a state."""
    lower: float | None
    """The attackers prove, as sure as the confidence, that the loss is at least this; None without the truth."""
    confidence: float = CONFIDENCE

    @property
    def exact(self) -> float | None:
        """The loss towards someone who knows no record, like the attackers; None with more than two states."""
        return self.losses["pufferfish"] if len(self.channel) == 2 else None

    @property
    def upper(self) -> float:
        """No attacker who knows no record gets more."""
        return self.losses["pufferfish"]

    @property
    def bounds(self) -> dict[str, float]:
        """The most often anyone is right: from the record's own output, and from the whole series."""
        return {who: dp_success(self.losses[who], self.odds) for who in ("dp", "pufferfish")}

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp attack --json`` prints."""
        rho = self.channel.tolist()
        return {
            "attacks": [attack.to_dict() for attack in self.attacks],
            "lower": self.lower,
            "exact": _finite(self.exact),
            "upper": _finite(self.upper),
            "losses": {name: _finite(loss) for name, loss in self.losses.items()},
            "bounds": self.bounds,
            "prior_odds": _finite(self.odds),
            "rho": [rho[0][1], rho[1][0]] if len(rho) == 2 else rho,
            "length": self.length,
            "runs": self.runs,
            "record": self.record,
            "confidence": self.confidence,
        }

    def __str__(self) -> str:
        sure = self.attacks[0].low is not None
        head = ["attacker", "right", *([f"{100 * self.confidence:g} % between", "and"] if sure else []), "charges"]
        rows = [
            [
                a.attacker,
                number(a.success),
                *([number(a.low), number(a.high)] if sure else []),
                number(a.charged) if math.isfinite(a.charged) else "no bound",
            ]
            for a in self.attacks
        ]
        return "\n".join([table(head, rows), "", *(textwrap.fill(s, _WIDTH) for s in self._sentences())])

    def _repr_html_(self) -> str:
        from pufferdp.report.attacks import attack_blocks
        from pufferdp.report.notebook import notebook_html

        return notebook_html("How often attackers are right", [*attack_blocks(self.to_dict()), *self._sentences()])

    def _sentences(self) -> list[str]:
        own, whole = self.bounds["dp"], self.bounds["pufferfish"]
        what = "exactly" if self.exact is not None else "at most"
        said = [
            f"The channel's DP loss is {number(self.losses['dp'])}: from a record's own output nobody is right more "
            f"often than {number(own)}. The whole series leaks {what} {number(self.upper)} to someone who knows no "
            f"record, so nobody of that kind is right more often than {number(whole)}; to someone who knows some it "
            f"leaks {what} {number(self.losses['bdp'])}."
        ]
        if self.lower is None:
            said.append("The truth is not at hand: the numbers are what the model expects of these outputs.")
            return said
        said.append(f"The attacks prove a loss of at least {number(self.lower)}, {100 * self.confidence:g} % sure.")
        if self.lower > self.upper:
            said.append(
                "Warning: that is more than the model allows. The data does not follow the model, and a promise made "
                "under it does not hold."
            )
        return said


def proved(found: Sequence[Success], hits: Sequence[npt.NDArray[np.bool_]], odds: float) -> float:
    """The largest loss that success proves: p ≤ m·e^ε/(1+m·e^ε), so ε ≥ log(p/(1−p)/m). One side, all at once."""
    tail = (1 - CONFIDENCE) / len(found)
    lows = [measure(s.attacker, h, 1 - 2 * tail).low or 0.0 for s, h in zip(found, hits, strict=True)]
    best = max(lows)
    if not math.isfinite(odds) or best <= 0:
        return 0.0
    return max(0.0, math.log(best / (1 - best)) - math.log(odds)) if best < 1 else math.inf


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
