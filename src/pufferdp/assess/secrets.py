"""What a DP loss leaks about a segment of a series, or about an event in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pufferdp.assess.worst_algorithm import ASSUMPTION
from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.basics.paged import Paged, json_values
from pufferdp.bounds.curve_forms import WorstBound
from pufferdp.bounds.units.curves import secret_curve
from pufferdp.bounds.units.events import EventCurve
from pufferdp.bounds.units.secrets import SegmentSecret
from pufferdp.models.files.json import ModelLike, as_model


@dataclass(frozen=True, kw_only=True)
class SecretReport(Paged):
    """The leakage about a secret in an interval under a model, or the loss that may be spent. Prints as a table.

    >>> from pufferdp.models.chain import MarkovChain
    >>> chain = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["rest", "active"])
    >>> report = secret_leakage(chain, "ever:active:2..4", dp_epsilon=0.5, length=5, adversary="pufferfish")
    >>> round(report.leakage, 6), report.exact
    (1.493921, True)
    """

    secret: SegmentSecret
    dp_epsilon: float
    """The DP loss that is spent, or that may be."""
    leakage: float
    """Under the model, no DP algorithm with this loss changes the odds about the secret by more; or the target."""
    inverse: bool
    speaks_for: float | None
    """Of an event: what algorithms leak that speak for it; None for a whole segment."""
    speaks_against: float | None
    probability: float | None
    """Of the event, before anything is released; the largest of a class."""
    exact: bool
    """Whether some algorithm leaks as much."""
    adversary: Adversary
    length: int | None
    theorem: str

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp leakage --secret --json`` prints."""
        names = "secret dp_epsilon leakage inverse speaks_for speaks_against probability exact adversary length theorem"
        return {**json_values(self, names), "assumption": ASSUMPTION}


def secret_leakage(
    model: ModelLike,
    secret: str | SegmentSecret,
    *,
    dp_epsilon: float | None = None,
    target: float | None = None,
    length: int | None = None,
    adversary: str = "bdp",
) -> SecretReport:
    """The leakage of a DP loss about a secret in an interval under a model, or the loss that keeps it within a target.

    Args:
        model: a chain, or a list of chains, that start in their stationary distribution.
        secret: ``ever:STATE:FROM..TO``, in a state at some time in a segment against never; or ``all:FROM..TO``, what
            all records of the segment hold. Places are numbers of records, dates, or times.
        dp_epsilon: the DP loss of all that was released, where one record changes its value; or
        target: the leakage that is allowed.
        length: records in the series; without it the series goes on before and after the segment.
        adversary: bdp, pufferfish or dp.
    """
    model = as_model(model)
    if (dp_epsilon is None) == (target is None):
        raise ParameterError("give either dp_epsilon= (what was spent) or target= (what may leak)")
    kind, records = checks.adversary(adversary), None if length is None else checks.length(length)
    parsed = secret if isinstance(secret, SegmentSecret) else SegmentSecret.parse(secret, model, records)
    curve = secret_curve(model, parsed, str(kind))
    assert isinstance(curve, WorstBound)
    if target is not None:
        allowed = checks.epsilon(target, "target")
        spent = curve.inverse(allowed)
        if spent <= 0:
            raise NotApplicableError(f"it leaks more than {allowed:g} however little DP loss is spent", value=target)
    else:
        spent = checks.epsilon(dp_epsilon or 0.0, "dp_epsilon")
    events = [member for member in curve.members if isinstance(member, EventCurve)]
    ways = [member.ways(spent) for member in events]
    return SecretReport(
        secret=parsed,
        dp_epsilon=spent,
        leakage=curve(spent) if target is None else target,
        inverse=target is not None,
        speaks_for=max((way[0] for way in ways), default=None),
        speaks_against=max((way[1] for way in ways), default=None),
        probability=max((member.probability for member in events), default=None),
        exact=not curve.note,
        adversary=kind,
        length=records,
        theorem=curve.theorem,
    )
