"""For those who use differential privacy already: what a DP loss leaks under a model, and what loss may be spent.

The curves hold under the model, for every DP algorithm of any library. For one noisy number, a count, a sum or a mean
with Laplace noise, the leakage is computed exactly as well. Where DP has a delta, as with Gaussian noise, the bound has
one too: the algorithm's times (e^epsilon − 1)/(e^dp_epsilon − 1), whatever the curve (docs/guide/approximate.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pufferdp.assess.aggregates import Aggregates
from pufferdp.assess.privacy import DpGuarantee, dp_guarantee
from pufferdp.assess.worst_algorithm import ASSUMPTION, WorstAlgorithm
from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.checks import MOST_RECORDS
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.basics.paged import Paged, json_values
from pufferdp.basics.words import number
from pufferdp.bounds.additive.windows import is_closed
from pufferdp.bounds.approximate import (
    Approximate,
    allowed_loss,
    carried_delta,
    least_delta,
    least_epsilon,
)
from pufferdp.bounds.curve_forms import EVERY_ALGORITHM, Absent, Curve, TightBound
from pufferdp.bounds.curves import curves, lowest, small_loss_slopes
from pufferdp.models.base import Model
from pufferdp.models.files.json import ModelLike, as_model
from pufferdp.models.units import Unit
from pufferdp.publish.answers.mechanisms.exact import ExactLeakage, Witness
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query

Curves = Mapping[str, Curve]
_QUICK_STATES: Final = 8
"""Up to so many states a point of the tight curve takes milliseconds; beyond them figures have fewer points."""
EVERY_APPROXIMATE: Final = "every DP algorithm with this epsilon and delta"


@dataclass(frozen=True, kw_only=True)
class LeakageReport(Paged):
    """The leakage of a DP loss under a model, by every curve, or the loss that may be spent. Prints as a table.

    >>> from pufferdp import MarkovChain
    >>> chain = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["rest", "active"])
    >>> report = leakage_of(chain, dp_epsilon=0.1, length=50, query="count:active")
    >>> report.best, round(report.curves["tight"], 2), round(report.exact, 2)
    ('tight', 0.39, 0.39)
    """

    given: float
    """The DP loss, or the leakage that is allowed."""
    inverse: bool
    """False: leakages for a DP loss. True: DP losses for a leakage."""
    curves: dict[str, float | None]
    """A number for every curve; None where it does not apply, or allows no DP loss at all."""
    reasons: dict[str, str]
    """Why the number of a curve is missing."""
    exact: float | None
    """The exact leakage, or loss, of the query with Laplace noise; None without a query, or where it is not known."""
    witness: Witness | None
    """Who learns that much, and from what."""
    attack: WorstAlgorithm | None
    """The worst-case adversary and DP algorithm, whatever the query; None where the tight curve does not apply."""
    multiplies: dict[str, float]
    """By how much correlation multiplies any DP loss at most (``odds``), and one of 0.01 exactly (``tight``)."""
    best: str
    """The curve that says most: the lowest leakage, or the largest loss."""
    query: str | None
    adversary: Adversary
    length: int | None
    epsilon: float
    """Towards an adversary who knows the correlation: by the best curve, or the leakage that is allowed."""
    delta: float = 0.0
    """The delta beside it; 0 for pure DP."""
    dp_delta: float = 0.0
    """The delta of the DP algorithm, or the one that it may have."""
    privacy: str | None = None
    """Where the pair of the DP algorithm comes from, if it was chosen from several."""
    holds_for: str = EVERY_ALGORITHM
    """The algorithms that the best curve bounds, in words."""
    notes: dict[str, str] = field(default_factory=dict)
    """What else must be said of a curve."""
    states: tuple[str, ...] = ()
    """Names of the model's states, for what is asked."""
    between: tuple[float, float] | None = None
    """Between what the leakage of the query lies, where more would take too long; None where it is exact."""
    foreign: frozenset[str] = frozenset()
    """Curves about another kind of model; a table leaves them out."""
    unit: Unit | None = None
    """A period whose records change together: losses and leakages are about whole periods then."""
    aggregates: Aggregates | None = None
    """Aggregates that come again and again, for ever; ``given`` is then what all of them lose of a record."""

    @property
    def universal(self) -> bool:
        """Whether the best curve bounds every DP algorithm."""
        return self.holds_for in (EVERY_ALGORITHM, EVERY_APPROXIMATE)

    @property
    def reads(self) -> int:
        """The most aggregates that read one record, or one period; 1 without aggregates."""
        return 1 if self.aggregates is None else self.aggregates.reads

    @property
    def each(self) -> float | None:
        """The DP loss of one aggregate, or what one may spend by the best curve."""
        total = self.curves[self.best] if self.inverse else self.given
        return None if total is None or self.aggregates is None else total / self.reads

    @property
    def approximate(self) -> bool:
        """Whether there is a delta."""
        return self.dp_delta > 0 or self.delta > 0

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp leakage --json`` prints."""
        names = (
            "multiplies reasons best query adversary length epsilon delta dp_delta privacy holds_for notes attack exact"
        )
        about = {**json_values(self, names), "assumption": ASSUMPTION}
        about["witness"] = None if self.witness is None else asdict(self.witness)
        if self.unit is not None:
            about["unit"] = self.unit.to_dict()
        if self.aggregates is not None:
            each = {"each": self.each, "each_delta": self.dp_delta / self.reads}
            about["aggregates"] = {**self.aggregates.to_dict(), **each}
        if self.inverse:
            return {"target": self.given, "dp_epsilon": dict(self.curves), **about}
        between = {} if self.between is None else {"between": list(self.between)}
        return {"spent": self.given, "curves": dict(self.curves), **between, **about}


def leakage_of(
    model: ModelLike,
    *,
    dp_epsilon: float | None = None,
    target: float | None = None,
    length: int | None = None,
    query: str | Query | None = None,
    adversary: str = "bdp",
    dp_delta: float | None = None,
    delta: float | None = None,
    privacy: object = None,
    d_in: float | None = None,
    unit: str | int | Unit | None = None,
    every: str | int | None = None,
    window: str | int | None = None,
) -> LeakageReport:
    """The leakage of algorithms with a DP loss under a model, or the DP loss that keeps the leakage within a target.

    Args:
        model: the model, or class of models, that the adversary uses.
        dp_epsilon: the DP loss of all that was released, added up, where one record changes its value; or
        target: the leakage that is allowed.
        length: records in the longest series, for chains; other models know their records.
        query: a count, sum or mean that is answered with Laplace noise: its leakage is computed exactly as well.
        adversary: bdp, pufferfish or dp.
        dp_delta: the delta of the DP algorithm; or
        delta: with ``target`` or ``privacy``, the delta that is allowed towards the adversary.
        privacy: in place of ``dp_epsilon``: (epsilon, delta), ``ZCdp(rho)``, a ``PrivacyProfile``, an OpenDP
            measurement, or an accountant or PLD of dp_accounting. Where it allows several pairs, the best one is
            taken: for a ``target`` the one with the least delta, for a ``delta`` the one with the least epsilon.
        d_in: for an OpenDP measurement whose input is no data set: how far one record moves it.
        unit: a period whose records are one secret together: hour, day, week, a duration, or a number of records. The
            DP loss is then that of an algorithm where all records of one period change.
        every: an aggregate with this DP loss comes every so often, for ever: a period, or a number of records.
        window: how far back each of them reads; as far as ``every`` if it is left out.
    """
    model = as_model(model)
    period = None if unit is None else Unit.of(unit, model)
    if period is not None and period.unlimited:
        raise ParameterError(
            "unit is person; an algorithm whose DP loss is about whole people leaks that loss about a person, whatever "
            "the model: leave the unit out, or give a period",
            value=unit,
        )
    aggregates = _aggregates(model, every, window, period, length, privacy)
    if aggregates is not None:
        dp_epsilon = None if dp_epsilon is None else checks.epsilon(dp_epsilon, "dp_epsilon") * aggregates.reads
        dp_delta = None if dp_delta is None else checks.delta(dp_delta, "dp_delta") * aggregates.reads
    guarantee = _guarantee(dp_epsilon, dp_delta, target, delta, privacy, d_in)
    adversary = checks.adversary(adversary)
    records = MOST_RECORDS if aggregates is not None else _records(model, length, period)
    if period is not None and query is not None:
        raise ParameterError("the exact leakage of a query is about single records: leave query= or unit= out")
    allowed = None if target is None else checks.epsilon(target, "target")
    failing = None if delta is None else checks.delta(delta)
    spent_delta = 0.0 if dp_delta is None else checks.delta(dp_delta, "dp_delta")
    approximate = spent_delta > 0 or bool(failing) or (guarantee is not None and bool(guarantee.profile.deltas.any()))
    curves_by_name = _curves(model, records, adversary, period)
    if approximate:
        curves_by_name = {name: _for_every_algorithm(curve) for name, curve in curves_by_name.items()}
        if query is not None:
            raise ParameterError(
                "the exact leakage is that of Laplace noise, which has no delta: leave query= or the delta out"
            )
    best_of_all = lowest(curves_by_name)
    pair = None if guarantee is None else _best_pair(best_of_all, guarantee, allowed, failing)
    inverse = guarantee is None
    given = allowed if pair is None else pair.dp_loss
    assert given is not None
    values: dict[str, float | None] = dict.fromkeys(curves_by_name)
    reasons = {name: curve.reason for name, curve in curves_by_name.items() if isinstance(curve, Absent)}
    for name, curve in curves_by_name.items():
        if curve.applies:
            value = curve.inverse(given) if inverse else curve(given)
            values[name] = None if inverse and not value > 0 else value
            if values[name] is None:
                reasons[name] = f"is above {number(given)} however little DP loss is spent"
    exact: float | None = None
    witness: Witness | None = None
    between: tuple[float, float] | None = None
    if query is not None and model.real_valued:
        raise ParameterError("the leakage of real-valued records is bounded by curves alone: leave query= out")
    if query is not None:
        problem = _problem(model, Query.of(query), records, given, adversary)
        try:
            leak = ExactLeakage(problem)
            if inverse:
                exact = leak.inverse(given)
            else:
                least, most = leak.bracket(given)
                # Every algorithm is bounded by the curves, so this one is.
                most = max(least, min(most, best_of_all(given)))
                exact, between = (most, None) if is_closed(least, most) else (None, (least, most))
            witness = leak.witness(given if exact is None or not inverse else exact)
        except NotApplicableError as error:
            reasons["exact"] = str(error)
    tight = curves_by_name["tight"]
    spent = values["tight"] if inverse else given
    attack = None
    if isinstance(tight, TightBound) and spent is not None:
        attack = WorstAlgorithm.of(tight.worst(spent), model.labels)
    apply = {name: value for name, value in values.items() if value is not None}
    if inverse and not apply:
        raise NotApplicableError(f"it leaks more than {given:g} however little DP loss is spent", value=target)
    best = max(apply, key=lambda name: apply[name]) if inverse else best_of_all.which(given).name
    if pair is None:
        pair = _inverse_pair(curves_by_name[best], given, apply[best], spent_delta, failing)
    return LeakageReport(
        given=given,
        inverse=inverse,
        curves=values,
        reasons=reasons,
        exact=exact,
        witness=witness,
        between=between,
        attack=attack,
        multiplies=small_loss_slopes(curves_by_name, example=not inverse),
        best=best,
        query=None if query is None else Query.of(query).name,
        adversary=adversary,
        length=None if aggregates is not None else records,
        epsilon=pair.epsilon,
        delta=pair.delta,
        dp_delta=pair.dp_delta,
        privacy=None if guarantee is None or guarantee.pair is not None else guarantee.words,
        holds_for=EVERY_APPROXIMATE if approximate else curves_by_name[best].holds_for,
        notes={c.name: c.note for c in curves_by_name.values() if c.note},
        states=model.labels,
        foreign=frozenset(name for name, c in curves_by_name.items() if isinstance(c, Absent) and c.foreign),
        unit=period,
        aggregates=aggregates,
    )


def _aggregates(
    model: Model, every: object, window: object, unit: Unit | None, length: int | None, privacy: object
) -> Aggregates | None:
    """How often records are read, where aggregates come again and again."""
    if every is None:
        if window is not None:
            raise ParameterError(f"window is {window}; it goes with every=: say how often it is read", value=window)
        return None
    if length is not None:
        raise ParameterError(f"length is {length}; with every= the series has no end: leave it out", value=length)
    if privacy is not None:
        raise ParameterError("every= takes the loss of one aggregate: give dp_epsilon= instead of a profile")
    return Aggregates.of(model, every, window, unit)


def _curves(model: Model, records: int | None, adversary: Adversary, unit: Unit | None) -> dict[str, Curve]:
    """Every curve; of a series without end those that add up all its records are left out."""
    endless = records == MOST_RECORDS
    length = None if endless and unit is not None else records
    found = curves(model, length, adversary, unit=None if unit is None else unit.records)
    if endless and unit is None:
        reason = "adds up the losses of all records, and a series without end has too many"
        found["general"] = Absent("general", "", reason) if not found["independent"].applies else found["general"]
    return found


def _guarantee(
    dp_epsilon: float | None,
    dp_delta: float | None,
    target: float | None,
    delta: float | None,
    privacy: object,
    d_in: float | None,
) -> DpGuarantee | None:
    """What the algorithm guarantees; None where that is the question."""
    if privacy is not None:
        if dp_epsilon is not None or dp_delta is not None:
            raise ParameterError("privacy says what is spent: leave dp_epsilon and dp_delta out")
        if target is not None and delta is not None:
            raise ParameterError("a profile is read at one end: give either target= or delta=")
        guarantee = dp_guarantee(privacy, d_in)
        if guarantee.pair is None and target is None and delta is None:
            raise ParameterError(
                f"{guarantee.words} has many pairs: say with target= (an epsilon) or delta= which one is wanted"
            )
        return guarantee
    if d_in is not None:
        raise ParameterError(f"d_in is {d_in}; it goes with privacy: leave it out", value=d_in)
    if (dp_epsilon is None) == (target is None):
        raise ParameterError("give either dp_epsilon= (what was spent) or target= (what may leak)")
    if target is not None:
        if dp_delta is not None and delta is not None:
            raise ParameterError("give either dp_delta= (of the DP algorithm) or delta= (towards the adversary)")
        return None
    if delta is not None:
        raise ParameterError(
            f"delta is {delta}; the delta towards the adversary follows from dp_epsilon= and dp_delta=: leave it out",
            value=delta,
        )
    failing = 0.0 if dp_delta is None else checks.delta(dp_delta, "dp_delta")
    return dp_guarantee((checks.epsilon(dp_epsilon or 0.0, "dp_epsilon"), failing))


def _for_every_algorithm(curve: Curve) -> Curve:
    """The curve; without it, where it is proved for some algorithms with pure DP alone, as Theorem 3 needs all."""
    if not curve.applies or curve.holds_for == EVERY_ALGORITHM:
        return curve
    return Absent(
        curve.name, curve.theorem, f"with a delta nothing is proved; without one it holds for {curve.holds_for}"
    )


def _best_pair(curve: Curve, guarantee: DpGuarantee, allowed: float | None, failing: float | None) -> Approximate:
    """The pair of the algorithm that serves best, carried over."""
    profile = guarantee.profile
    if allowed is None and failing is None:
        loss, spent = guarantee.pair or (0.0, 0.0)
        epsilon = curve(loss)
        return Approximate(epsilon, carried_delta(loss, spent, epsilon), loss, spent)
    if allowed is not None:
        best, wanted = least_delta(curve, profile, allowed), f"leaks at most {number(allowed)}"
    else:
        best, wanted = least_epsilon(curve, profile, failing or 0.0), f"has a delta of at most {number(failing)}"
    if best is None:
        raise NotApplicableError(
            f"no pair of {guarantee.words} {wanted} towards this adversary: allow more, or give pairs further out"
        )
    return best


def _inverse_pair(curve: Curve, allowed: float, loss: float, spent: float, failing: float | None) -> Approximate:
    """What may be spent, and what it makes of the delta that is given: the algorithm's, or the adversary's."""
    if failing is not None:
        loss, spent = allowed_loss(curve, allowed, failing)
        return Approximate(allowed, failing, loss, spent)
    return Approximate(allowed, carried_delta(loss, spent, curve(loss)) if loss > 0 else 0.0, loss, spent)


def leakage_lines(model: Model, report: LeakageReport, query: str | Query | None = None) -> dict[str, Any]:
    """Curves over a range of DP losses around a report, and exact points: what the figure shows."""
    records = MOST_RECORDS if report.aggregates is not None else report.length
    curves_by_name = _curves(model, records, report.adversary, report.unit)
    middle = report.curves[report.best] if report.inverse else report.given
    assert middle is not None
    steps = 20 if model.size <= _QUICK_STATES else 4
    losses = [middle * 10 ** (n / steps - 1.5) for n in range(3 * steps + 1)]
    lines = {name: [curve(dp_loss) for dp_loss in losses] for name, curve in curves_by_name.items() if curve.applies}
    points: list[dict[str, float]] = []
    if query is not None and report.exact is not None:
        parsed_query = Query.parse(query) if isinstance(query, str) else query
        leak = ExactLeakage(_problem(model, parsed_query, report.length, middle, report.adversary))
        for dp_loss in losses[:: max(1, steps * 3 // 10)]:
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


def _records(model: Model, length: int | None, unit: Unit | None = None) -> int | None:
    if length is None and unit is not None:
        return None  # a series of any length
    if model.needs_length and length is None:
        raise ParameterError("length is missing; a chain needs the number of records: give it with length=")
    if length is not None and not model.takes_length:
        raise ParameterError(f"length is {length}; the model knows its records: leave the length out", value=length)
    return None if length is None else checks.length(length)
