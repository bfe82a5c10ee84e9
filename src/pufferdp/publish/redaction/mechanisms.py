"""The four ways to redact around private records, by name, with the theorem each rests on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pufferdp.basics.errors import ParameterError
from pufferdp.bounds.redaction.design import Design, RedactionProblem
from pufferdp.bounds.redaction.methods import numerical, relaxed, window
from pufferdp.bounds.redaction.optimal import optimal

EXACT: Final = "exact leakage: the first release on each side decides, and the two sides add for each pair of values"


@dataclass(frozen=True)
class RedactionMechanism:
    """Turns what is to be hidden into redaction probabilities."""

    name: str
    about: str
    theorem: str
    design: Callable[[RedactionProblem], Design]


REDACTIONS: Final = (
    RedactionMechanism("window", "redacts the fewest records, whatever they hold", EXACT, window),
    RedactionMechanism(
        "3r-relaxed",
        "three regions, one probability in closed form",
        "Maßny et al. 2024, equation 4; its leakage recomputed exactly",
        relaxed,
    ),
    RedactionMechanism("3r-numerical", "three regions, the smallest constant probability", EXACT, numerical),
    RedactionMechanism("3r-optimal", "regions, split and probabilities chosen together", EXACT, optimal),
)
"""From the plainest to the best, which is the default."""


def redaction_mechanism(name: str | None) -> RedactionMechanism:
    """The mechanism of this name; the best without one."""
    for mechanism in REDACTIONS:
        if mechanism.name == (name or "3r-optimal"):
            return mechanism
    known = ", ".join(mechanism.name for mechanism in REDACTIONS)
    raise ParameterError(f"method is {name!r}; it must be one of {known}", value=name)
