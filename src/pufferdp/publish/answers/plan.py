"""Before a release: every mechanism on the same problem, ranked by error, with reasons where one does not apply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypedDict, TypeVar, Unpack

from pufferdp.basics import checks
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.basics.frames import frame
from pufferdp.basics.paged import Paged, rendered
from pufferdp.basics.progress import Progress
from pufferdp.basics.words import a_kind
from pufferdp.bounds.curve_forms import SMALL_LOSS
from pufferdp.bounds.curves import small_loss_slopes
from pufferdp.bounds.quilts.networks import NetworkQuilt
from pufferdp.models.base import Lengths, Model
from pufferdp.models.files.json import ModelLike, as_model
from pufferdp.models.units import Unit
from pufferdp.publish.answers.mechanisms import MECHANISMS
from pufferdp.publish.answers.mechanisms.baselines import PerRecord, problem_curve
from pufferdp.publish.answers.problem import Calibration, Mechanism, Problem, Remembered
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.answers.secrets import SecretsLike, as_secrets
from pufferdp.publish.noise import Accuracy
from pufferdp.publish.verdict import Verdict, answer_verdict

if TYPE_CHECKING:
    from pufferdp.bounds.units.secrets import SegmentSecret
    from pufferdp.publish.answers.limits import Limit
    from pufferdp.publish.series import Series

_QUICK_STATES: Final = 8
"""Up to so many states the slope of the tight curve takes milliseconds."""

CALIBRATED: Final[Remembered[tuple[Candidate, ...]]] = Remembered(32)
"""The candidates of the latest problems."""
SLOPES: Final[Remembered[dict[str, float]]] = Remembered(32)
"""What the latest problems say about any epsilon."""


class Ranked(Protocol):
    """A mechanism on a problem."""

    @property
    def mechanism(self) -> str:
        """The name that ``--mechanism`` takes."""

    @property
    def applies(self) -> bool:
        """Whether it keeps the guarantee."""


C = TypeVar("C", bound=Ranked)


@dataclass(frozen=True, kw_only=True)
class Ranking(Paged, Generic[C]):
    """What a plan is: candidates, those with the least expected error first."""

    candidates: tuple[C, ...]

    @property
    def best(self) -> C:
        """The least expected error among those that keep the guarantee."""
        return next(c for c in self.candidates if c.applies)

    def text(self, *, verbose: bool = False) -> str:
        """What ``print`` shows; verbose with what does not apply, and why, and with what the noise rests on."""
        return rendered(self, "terminal", verbose=verbose)

    def candidate(self, mechanism: str) -> C:
        """The candidate of this mechanism; refuses a name that was not tried."""
        for candidate in self.candidates:
            if candidate.mechanism == mechanism:
                return candidate
        known = ", ".join(sorted(c.mechanism for c in self.candidates))
        raise ParameterError(f"mechanism is {mechanism!r}; it must be one of {known}", value=mechanism)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One mechanism on the problem."""

    mechanism: str
    applies: bool
    """Whether the guarantee holds."""
    reason: str | None
    """Why it does not apply; None where it does."""
    calibration: Calibration | None
    """The noise; for per-record-dp it is shown even where it is not enough."""
    accuracy: Accuracy | None
    epsilon: float

    @property
    def factor(self) -> float | None:
        """How many times as wide the noise is as for independent records."""
        return self.calibration.sigma * self.epsilon if self.calibration else None

    def to_dict(self) -> dict[str, Any]:
        """The keys of the command line's JSON."""
        c = self.calibration
        return {
            "mechanism": self.mechanism,
            "applies": self.applies,
            "reason": self.reason,
            "scale": c.scale if c else None,
            "sigma": c.sigma if c else None,
            "lipschitz": c.lipschitz if c else None,
            "noise": str(c.distribution.kind) if c else None,
            "balanced": c.distribution.balanced if c else None,
            "expected_l1_error": c.distribution.expected_l1_error if c else None,
            "mean_squared_error": c.distribution.mean_squared_error if c else None,
            "factor": self.factor,
            "accuracy": {"alpha": self.accuracy.alpha, "beta": self.accuracy.beta} if self.accuracy else None,
            "quilt": quilt_to_dict(c) if c else None,
            "transport": transport_to_dict(c) if c else None,
            **({"delta": c.delta} if c and c.delta else {}),
        }


@dataclass(frozen=True, kw_only=True)
class Plan(Ranking[Candidate]):
    """All mechanisms on one problem, the best first. Prints as a table; ``chart()`` is a bar chart."""

    problem: Problem
    beta: float

    def with_more(self, other: Plan) -> Plan:
        """This plan with the mechanisms of another as well, for those that were tried later."""
        return replace(self, candidates=_ranked([*self.candidates, *other.candidates]))

    @property
    def verdict(self) -> Verdict | None:
        """Whether an answer of the best mechanism would be accurate enough to be useful; None where none applies."""
        best = next((c for c in self.candidates if c.applies), None)
        return None if best is None else self.verdict_on(best)

    def verdict_on(self, candidate: Candidate) -> Verdict:
        """Whether an answer of a candidate that applies would be accurate enough to be useful."""
        assert candidate.calibration is not None
        assert candidate.accuracy is not None
        return answer_verdict(
            self.problem.query.name,
            numbers=len(self.problem.bound.labels),
            lipschitz=candidate.calibration.lipschitz,
            records=self.problem.records,
            alpha=candidate.accuracy.alpha,
            beta=candidate.accuracy.beta,
            exact=candidate.calibration.scale == 0,
        )

    @cached_property
    def limit(self) -> Limit | None:
        """The error that no mechanism can avoid, where more is known of it than that one record is hidden."""
        from pufferdp.publish.answers.limits import limit_of  # a release does without it

        return None if self.problem.secret is not None else limit_of(self.problem)

    @cached_property
    def multiplies(self) -> dict[str, float]:
        """By how much correlation multiplies a small epsilon, by curve; empty where no such number is known."""
        p = self.problem
        if p.unit is not None or p.secret is not None:
            return {}
        # Where a DP loss of 0.01 leaks more than epsilon 1, about, how much more is of no use.
        slow = any(c.mechanism == "curve-tight" and (c.factor or 0.0) > 1 / SMALL_LOSS for c in self.candidates)
        quick = p.model.size <= _QUICK_STATES and not slow
        names = ("independent", "general", "odds", *(("tight",) if quick else ()))
        # The same for every epsilon, and it takes as long as a calibration.
        return SLOPES.get(
            replace(p, epsilon=1.0), None, lambda: small_loss_slopes({name: problem_curve(name, p) for name in names})
        )

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp plan --json`` prints."""
        p = self.problem
        return {
            "query": p.query.name,
            "verdict": None if self.verdict is None else self.verdict.to_dict(),
            "records": p.records or None,
            "longest_chain": p.longest if p.records else None,
            "epsilon": p.epsilon,
            **({"delta": p.delta} if p.delta else {}),
            **({"part": True} if p.part else {}),
            **({"unobserved": True} if p.unobserved else {}),
            **({} if p.unit is None else {"unit": p.unit.to_dict(), "zone": p.unit.zone}),
            **({} if p.secret is None else {"secret": p.secret.to_dict()}),
            "adversary": str(p.adversary),
            "model_checks": p.checked.sentence,
            "secrets": None if p.secrets is None else [list(pair) for pair in p.secrets.pairs],
            "candidates": [c.to_dict() for c in self.candidates],
            "best": next((c.mechanism for c in self.candidates if c.applies), None),
            "limit": None if self.limit is None else self.limit.to_dict(),
            "multiplies": dict(self.multiplies),
        }

    def to_frame(self, *, backend: str | None = None) -> Any:
        """A row for each mechanism, the best first, as a pandas or polars frame."""
        columns = ("mechanism", "applies", "scale", "expected_l1_error", "alpha", "reason")
        rows = [{**row, "alpha": (row["accuracy"] or {}).get("alpha")} for row in self.to_dict()["candidates"]]
        return frame(columns, [[row[name] for name in columns] for row in rows], backend)

    def chart(self, width: int = 60) -> str:
        """Expected error of each mechanism as bars, on a logarithmic scale."""
        return rendered(self, "bars", width=width)


def quilt_to_dict(calibration: Calibration) -> dict[str, Any] | None:
    """The record that decides and its active quilt: positions in a chain, names otherwise."""
    q = calibration.quilt
    if q is None:
        return None
    if isinstance(q, NetworkQuilt):
        ends: list[int] | list[str] = list(q.ends)
        return {"node": q.node, "ends": ends, "nearby": q.nearby, "influence": q.influence, "skipped": q.skipped}
    ends = [q.node - q.left] if q.left is not None else []
    ends += [q.node + q.right] if q.right is not None else []
    return {"node": q.node, "ends": ends, "nearby": q.nearby, "influence": q.influence, "skipped": 0}


def transport_to_dict(calibration: Calibration) -> dict[str, Any] | None:
    """The pair of secrets that decides and how far apart the distributions of the answer are."""
    t = calibration.transport
    return None if t is None else {"distance": t.distance, "first": t.first, "second": t.second}


class PlannedChains(TypedDict, total=False):
    """The chains that a plan is for, where no data says them."""

    length: int | None
    """Records in one chain, where there is one."""
    lengths: Sequence[int] | Lengths | None
    """Records in each of several independent chains or families."""
    part: bool
    """Whether the chains are parts of series that go on before and after them, as for a release from a segment."""
    unobserved: bool
    """Whether records will be missing between those that are read, as with ``missing="keep"``."""


def planned(chains: PlannedChains) -> tuple[bool, bool]:
    """Whether the chains are parts, and whether records will be missing; refuses what is no option of a plan."""
    checks.refuse_unknown(chains, PlannedChains)
    return chains.get("part", False), chains.get("unobserved", False)


def plan(
    model: ModelLike,
    query: Query | str,
    *,
    epsilon: float,
    series: Series | None = None,
    adversary: str = "bdp",
    beta: float = 0.05,
    clip: tuple[float, float] | None = None,
    secrets: SecretsLike | None = None,
    delta: float = 0.0,
    unit: str | int | Unit | None = None,
    secret: str | SegmentSecret | None = None,
    progress: Progress | None = None,
    **chains: Unpack[PlannedChains],
) -> Plan:
    """Try every mechanism.

    Args:
        model: the distribution of the records, one model or a class.
        query: a Query, or its name as on the command line.
        epsilon: the guarantee.
        series: the data that will be released, in place of ``length``. Only how many records each chain has, and
            whether some are missing or lie outside, is taken from it: that is public, and a release says it too.
        adversary: ``bdp`` (knows any set of records), ``pufferfish`` (none) or ``dp`` (all others).
        beta: accuracy is shown at probability 1−beta.
        clip: range of the numbers of a sum or mean.
        secrets: secrets of one's own and their pairs; by default every record's value is a secret.
        delta: what the guarantee may add to every probability; above 0 it lets Gaussian noise take part.
        unit: a period whose records are one secret together: hour, day, week, a duration, or a number of records.
        secret: the only secret, in place of every record's value: ``ever:STATE:FROM..TO``, in a state at some time in a
            segment against never; or ``all:FROM..TO``, what all records of the segment hold.
        progress: called with a few words before each mechanism.
        chains: ``length``, ``lengths``, ``part`` and ``unobserved``, as in ``PlannedChains``. Models that are not
            chains know their size.
    """
    asked = Query.of(query, clip=clip)
    part, unobserved = planned(chains)
    if series is None:
        model = as_model(model)
        counted = count_lengths(model, chains.get("length"), chains.get("lengths"))
    else:
        if chains.get("length") is not None or chains.get("lengths") is not None:
            raise ParameterError("give either series= or length=, not both: the records of a series are counted")
        model, counted, is_part, has_unobserved = _count_series(series, model, asked)
        part, unobserved = part or is_part, unobserved or has_unobserved
    problem = Problem(
        model=model,
        query=asked,
        lengths=counted,
        epsilon=epsilon,
        adversary=checks.adversary(adversary),
        secrets=as_secrets(secrets),
        delta=delta,
        part=part,
        unobserved=unobserved,
        restarted=series is not None and series.restart is not None,
        unit=None if unit is None else Unit.of(unit, model),
        secret=_segment_secret(secret, model, counted, endless=part or unobserved),
    )
    return plan_problem(problem, beta=beta, progress=progress)


def _count_series(series: Series, model: ModelLike, query: Query) -> tuple[Model, Lengths, bool, bool]:
    """The model with the bins of a series, its chains, and whether it is part of more or has unobserved steps."""
    from pufferdp.publish.reading import read_exact  # loads what reads data, which other plans do not need
    from pufferdp.publish.series import Series

    if not isinstance(series, Series):
        raise ParameterError(
            f"series is {a_kind(series)}; it must be a Series: pufferdp.Series(data, column=…)", value=series
        )
    prior = series.model(model)
    reading = series.reading(prior)
    reading.check(prior)
    exact = read_exact(series.data, prior, query, reading)
    return prior, exact.lengths, reading.is_part, exact.unobserved


def _segment_secret(
    secret: str | SegmentSecret | None, model: Model, lengths: Lengths, *, endless: bool
) -> SegmentSecret | None:
    """A secret in a segment of one of the chains; of a part the series goes on beside it."""
    if not isinstance(secret, str):
        return secret
    from pufferdp.bounds.units.secrets import SegmentSecret  # most plans are not about a segment

    longest = max((length for length, _ in lengths), default=None)
    return SegmentSecret.parse(secret, model, None if endless else longest)


def plan_problem(
    problem: Problem, *, beta: float = 0.05, progress: Progress | None = None, only: Sequence[str] | None = None
) -> Plan:
    """Try every mechanism, or those named, on a problem."""
    beta = checks.probability(beta, "beta")
    spared = (
        {} if only is not None else {m.name: name for m in MECHANISMS if (name := m.spared_by(problem)) is not None}
    )
    if only is None:
        only = [m.name for m in MECHANISMS if m.tried(problem)]
    # Mechanisms that others may make needless come last.
    chosen = tuple(sorted((m for m in MECHANISMS if m.name in only), key=lambda m: m.name in spared))

    def calibrated() -> tuple[Candidate, ...]:
        tried: list[Candidate] = []
        for mechanism in chosen:
            if any(other.mechanism == spared.get(mechanism.name) and other.applies for other in tried):
                continue
            if progress is not None:
                progress(f"calibrating {mechanism.name}")
            tried.append(_try(mechanism, solved, beta))
        return _ranked(tried)

    solved = problem.widened
    candidates = CALIBRATED.get(solved, (chosen, beta), calibrated)
    if solved is not problem:
        candidates = tuple(replace(candidate, epsilon=problem.epsilon) for candidate in candidates)
    return Plan(problem=problem, beta=beta, candidates=candidates)


def _ranked(tried: Sequence[Candidate]) -> tuple[Candidate, ...]:
    # In the order of the list first, and sorting is stable: mechanisms that do not apply keep their order.
    places = {mechanism.name: n for n, mechanism in enumerate(MECHANISMS)}
    listed = sorted(tried, key=lambda c: places[c.mechanism])
    return tuple(sorted(listed, key=lambda c: (not c.applies, _error(c) if c.applies else 0.0)))


def _try(mechanism: Mechanism, problem: Problem, beta: float) -> Candidate:
    calibration, reason = None, None
    try:
        for what, why in problem.demands.items():
            if not mechanism.hides(what, problem):
                raise NotApplicableError(why)
        calibration = mechanism.calibrate(problem)
    except NotApplicableError as error:
        reason = str(error)
        if isinstance(mechanism, PerRecord):
            calibration = mechanism.with_finding(problem, mechanism.nominal(problem))
    return Candidate(
        mechanism=mechanism.name,
        applies=reason is None,
        reason=reason,
        calibration=calibration,
        accuracy=None if calibration is None else calibration.distribution.accuracy(beta),
        epsilon=problem.epsilon,
    )


def _error(candidate: Candidate) -> float:
    """The expected error to six digits: of mechanisms that differ by their searches alone, the first listed is best."""
    return float(f"{candidate.calibration.distribution.expected_l1_error:.6g}") if candidate.calibration else 0.0


def count_lengths(model: Model, length: int | None, lengths: Sequence[int] | Lengths | None) -> Lengths:
    """Chain lengths as (length, how many chains), from either way of saying them."""
    if length is None and lengths is None and not model.needs_length:
        return ()
    if (length is None) == (lengths is None):
        raise ParameterError("give either length= (records in one chain) or lengths= (one number for each chain)")
    if length is not None:
        return ((checks.length(length), 1),)
    if isinstance(lengths, str) or not isinstance(lengths, Iterable):
        raise ParameterError(
            f"lengths is {lengths!r}; it must be a list with the records of each chain, as in [288, 288]", value=lengths
        )
    counted: dict[int, int] = {}
    for item in lengths:
        chain_length, count = item if isinstance(item, tuple) else (item, 1)
        chain_length = checks.length(chain_length)
        counted[chain_length] = counted.get(chain_length, 0) + checks.length(count, "number of chains")
    return tuple(sorted(counted.items()))
