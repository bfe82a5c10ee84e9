"""For those who use differential privacy already: what a DP loss leaks under a model, and what loss may be spent.

The curves hold for every DP algorithm, of any library. For one noisy number, a count, a sum or a mean with Laplace
noise, the leakage is computed exactly as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from pufferdp.assess.worst_algorithm import WorstAlgorithm
from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.basics.paged import Paged
from pufferdp.basics.words import number
from pufferdp.leakage.curves import EVERY_ALGORITHM, Absent, Curve, TightBound, curves, lowest, small_loss_slopes
from pufferdp.models.base import Model
from pufferdp.publish.answers.mechanisms.exact import ExactLeakage, Witness
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query

Curves = Mapping[str, Curve]


@dataclass(frozen=True, kw_only=True)
class LeakageReport(Paged):
    """What a DP loss leaks, by every curve, or the loss that may be spent. Prints as a table.

    >>> from pufferdp import MarkovChain
    >>> chain = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["rest", "active"])
    >>> report = leakage_of(chain, dp_epsilon=0.1, length=50, query="count:active")
    >>> report.best, round(report.curves["tight"], 4), round(report.exact, 4)
    ('tight', 0.3893, 0.3893)
    """

    given: float
    """The DP loss, or the leakage that is allowed."""
    inverse: bool
    """False: leakages for a DP loss. True: DP losses for a leakage."""
    curves: dict[str, float | None]
    """A number for every curve; None where it does not apply, or allows no DP loss at all."""
    reasons: dict[str, str]
    """Why a number is missing."""
    exact: float | None
    """The exact leakage, or loss, of the query with Laplace noise; None without a query."""
    witness: Witness | None
    """Who learns that much, and from what."""
    attack: WorstAlgorithm | None
    """Who learns most from which yes/no questions, whatever the query; None where the tight curve does not apply."""
    multiplies: dict[str, float]
    """By how much correlation multiplies any DP loss at most (``odds``), and one that goes to 0 (``tight``)."""
    best: str
    """The curve that says most: the lowest leakage, or the largest loss."""
    query: str | None
    adversary: Adversary
    length: int | None
    holds_for: str = EVERY_ALGORITHM
    """The algorithms that the best curve bounds, in words."""
    notes: dict[str, str] = field(default_factory=dict)
    """What else must be said of a curve."""
    states: tuple[str, ...] = ()
    """Names of the model's states, for what is asked."""
    foreign: frozenset[str] = frozenset()
    """Curves about another kind of model; a table leaves them out."""

    @property
    def universal(self) -> bool:
        """Whether the best curve bounds every DP algorithm."""
        return self.holds_for == EVERY_ALGORITHM

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp leakage --json`` prints."""
        about = {
            "witness": None if self.witness is None else asdict(self.witness),
            "attack": None if self.attack is None else self.attack.to_dict(),
            "multiplies": dict(self.multiplies),
            "reasons": dict(self.reasons),
            "best": self.best,
            "query": self.query,
            "adversary": str(self.adversary),
            "length": self.length,
            "holds_for": self.holds_for,
            "notes": dict(self.notes),
        }
        if self.inverse:
            return {"target": self.given, "dp_epsilon": dict(self.curves), "exact": self.exact, **about}
        return {"spent": self.given, "curves": dict(self.curves), "exact": self.exact, **about}


def leakage_of(
    model: Model,
    *,
    dp_epsilon: float | None = None,
    target: float | None = None,
    length: int | None = None,
    query: str | Query | None = None,
    adversary: str = "bdp",
) -> LeakageReport:
    """What algorithms with a DP loss leak about one record, or the DP loss that keeps the leakage within a target.

    Args:
        model: what is believed about the data.
        dp_epsilon: the DP loss of all that was released, added up, where one record changes its value; or
        target: the leakage that is allowed.
        length: records in the longest series, for chains; other models know their records.
        query: a count, sum or mean that is answered with Laplace noise: its leakage is computed exactly as well.
        adversary: bdp, pufferfish or dp.
    """
    if dp_epsilon is not None and target is None:
        given = checks.epsilon(dp_epsilon, "dp_epsilon")
    elif target is not None and dp_epsilon is None:
        given = checks.epsilon(target, "target")
    else:
        raise ParameterError("give either --dp-epsilon (what was spent) or --target (what may leak)")
    adversary, records = checks.adversary(adversary), _records(model, length)
    curves_by_name = curves(model, records, adversary)
    values: dict[str, float | None] = dict.fromkeys(curves_by_name)
    reasons = {name: curve.reason for name, curve in curves_by_name.items() if isinstance(curve, Absent)}
    for name, curve in curves_by_name.items():
        if curve.applies:
            value = curve(given) if target is None else curve.inverse(given)
            values[name] = value if value > 0 else None
            if not value > 0:
                reasons[name] = f"is above {number(given)} however little DP loss is spent"
    exact: float | None = None
    witness: Witness | None = None
    if query is not None and model.real_valued:
        raise ParameterError("the leakage of real-valued records is bounded by curves alone: leave --query out")
    if query is not None:
        parsed_query = Query.parse(query) if isinstance(query, str) else query
        problem = _problem(model, parsed_query, records, given, adversary)
        try:
            leak = ExactLeakage(problem)
            exact = leak(given) if target is None else leak.inverse(given)
            witness = leak.witness(given if target is None else exact)
        except NotApplicableError as error:
            reasons["exact"] = str(error)
    tight = curves_by_name["tight"]
    spent = given if target is None else values["tight"]
    attack = None
    if isinstance(tight, TightBound) and spent is not None:
        attack = WorstAlgorithm.of(tight.worst(spent), model.labels)
    apply = {name: value for name, value in values.items() if value is not None}
    best = lowest(curves_by_name).which(given).name if target is None else max(apply, key=lambda name: apply[name])
    return LeakageReport(
        given=given,
        inverse=target is not None,
        curves=values,
        reasons=reasons,
        exact=exact,
        witness=witness,
        attack=attack,
        multiplies=small_loss_slopes(curves_by_name),
        best=best,
        query=None if query is None else parsed_query.name,
        adversary=adversary,
        length=records,
        holds_for=curves_by_name[best].holds_for,
        notes={c.name: c.note for c in curves_by_name.values() if c.note},
        states=model.labels,
        foreign=frozenset(name for name, c in curves_by_name.items() if isinstance(c, Absent) and c.foreign),
    )


def leakage_lines(model: Model, report: LeakageReport, query: str | Query | None = None) -> dict[str, Any]:
    """Curves over a range of DP losses around a report, and exact points: what the figure shows."""
    curves_by_name = curves(model, report.length, report.adversary)
    middle = report.curves[report.best] if report.inverse else report.given
    assert middle is not None
    losses = [middle * 10 ** (n / 20 - 1.5) for n in range(61)]
    lines = {name: [curve(dp_loss) for dp_loss in losses] for name, curve in curves_by_name.items() if curve.applies}
    points: list[dict[str, float]] = []
    if query is not None and report.exact is not None:
        parsed_query = Query.parse(query) if isinstance(query, str) else query
        leak = ExactLeakage(_problem(model, parsed_query, report.length, middle, report.adversary))
        for dp_loss in losses[::6]:
            with suppress(NotApplicableError):
                points.append({"dp_epsilon": dp_loss, "leakage": leak(dp_loss)})
    return {"dp_epsilon": losses, "curves": lines, "exact": points}


def curve_lines(curves: Curves, least: float, most: float) -> tuple[tuple[float, ...], dict[str, tuple[float, ...]]]:
    """DP losses between two ends, evenly on a logarithmic scale, and what each curve that applies says of them."""
    losses = tuple(least * (most / least) ** (n / 60) for n in range(61))
    return losses, {name: tuple(curve(loss) for loss in losses) for name, curve in curves.items() if curve.applies}


def _problem(model: Model, query: Query, records: int | None, epsilon: float, adversary: Adversary) -> Problem:
    lengths = ((records, 1),) if records is not None else ()
    return Problem(model=model, query=query, lengths=lengths, epsilon=epsilon, adversary=adversary)


def _records(model: Model, length: int | None) -> int | None:
    if model.needs_length and length is None:
        raise ParameterError("length is missing; a chain needs the number of records: give it with --length")
    if length is not None and not model.takes_length:
        raise ParameterError(f"length is {length}; the model knows its records: leave the length out", value=length)
    return None if length is None else checks.length(length)
