"""What every mechanism does: turn a problem into a calibration, or say why it does not apply."""

from __future__ import annotations

import math
import threading
from abc import ABC
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.checks import MOST_RECORDS
from pufferdp.basics.errors import ModelError, NotApplicableError, ParameterError
from pufferdp.basics.words import quoted_value
from pufferdp.bounds.quilts.chains import WorstRecord
from pufferdp.bounds.quilts.networks import NetworkQuilt
from pufferdp.ledger.charge import Charge
from pufferdp.models.base import Lengths, Model, records_of
from pufferdp.models.chain import series_of
from pufferdp.models.files.json import model_digest, model_from_dict
from pufferdp.models.hidden import is_hidden
from pufferdp.models.units import Unit
from pufferdp.publish.answers.queries import BoundQuery, FunctionQuery, Query
from pufferdp.publish.answers.secrets import Domains, Secrets
from pufferdp.publish.model_checks import CheckedGuarantee
from pufferdp.publish.noise import ROUNDING, NoiseDistribution
from pufferdp.publish.noise_distributions import LARGEST_SCALE
from pufferdp.publish.stated_reading import stated_lengths

if TYPE_CHECKING:
    from pufferdp.bounds.units.secrets import SegmentSecret

SEARCHED: Final = 5e-3
"""Relative: more than the tolerance of a search for noise (1e-3), on the machine of the release and on this one."""
_HARDLY_ANY: Final = 0.1
"""Noise that is so small a part of what one record needs alone publishes the answer nearly as it is."""


@dataclass(frozen=True, kw_only=True)
class StatedNoise:
    """The noise that a certificate or a ledger states: it is evaluated, not searched for."""

    sigma: float
    pair: tuple[float, float] | None = None
    """The privacy loss and the delta of approximate DP."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One release to be planned: model, query, guarantee and adversary."""

    model: Model
    query: Query
    lengths: Lengths = ()
    """For series, and for copies of a family of real numbers; other models know their records."""
    epsilon: float
    adversary: Adversary = Adversary.BDP
    secrets: Secrets | None = None
    """Secrets of one's own; without them every record's value is one."""
    independent_noise: bool = False
    """Whether each number of a histogram has noise of its own, which adds up to anything."""
    delta: float = 0.0
    """What mechanisms with approximate guarantees may add to every probability; the others do without."""
    part: bool = False
    """Whether the records are a part of a series that goes on before and after them: the guarantee is then about every
    record of the series, and the adversary may know those outside."""

    unobserved: bool = False
    """Whether records of a chain are missing, so that the chains are longer than what is read of them. A missing record
    is one that the answer spends nothing on, so whatever holds for every algorithm on the whole chain holds here."""
    restarted: bool = False
    """Whether chains begin anew behind gaps, so that a day may lie in several of them."""
    unit: Unit | None = None
    """A period whose records are one secret together; without it every record's value is one."""
    secret: SegmentSecret | None = None
    """The only secret: what a segment holds, or whether a state occurred in it. For plans."""

    stated: StatedNoise | None = None
    """The noise that a certificate or a ledger states, where it is verified."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checks.epsilon(self.epsilon))
        object.__setattr__(self, "delta", checks.delta(self.delta))
        object.__setattr__(self, "adversary", checks.adversary(self.adversary))
        object.__setattr__(self, "lengths", self.model.lengths(self.lengths, self.query.divided))
        for length, count in self.lengths:
            checks.length(length)
            checks.length(count, "number of chains")
        _ = self.bound  # a query that does not fit the model is refused here, before any data is read
        if sum(about is not None for about in (self.unit, self.secrets, self.secret)) > 1:
            raise ParameterError("a guarantee is about a unit, a secret or secrets of your own: name one of them")
        if self.secrets is not None:
            self.model.check_secrets()
            if self.adversary is not Adversary.PUFFERFISH:
                raise ParameterError(
                    f"adversary is {self.adversary}; secrets of your own are kept from an adversary who knows no "
                    "record: use pufferfish",
                    value=self.adversary,
                )
            if len(self.lengths) > 1 or self.lengths[0][1] > 1:
                raise ParameterError("secrets of your own need one chain; there are several")
            for secret in self.secrets.secrets:
                secret.cells(self.domains)  # refuses names the model does not have

    @classmethod
    def chains_stated(cls, certificate: Any) -> dict[str, Any]:
        """The model, the chains, the adversary and the epsilon that a certificate states, as fields of a problem."""
        data, guarantee = certificate.data, certificate.guarantee
        return {
            "model": model_from_dict(certificate.model),
            "lengths": stated_lengths(data.lengths),
            "epsilon": guarantee.epsilon,
            "adversary": checks.adversary(guarantee.adversary),
            "part": data.part is True,
            "unobserved": data.dropped + data.unobserved > 0,
            "restarted": data.gap is not None,
        }

    @classmethod
    def chains_charged(cls, charge: Charge, model: Model) -> dict[str, Any]:
        """The chains and the adversary that a charge is for, as fields of a problem."""
        return {
            "model": model,
            "lengths": tuple((a, b) for a, b in charge.facts["lengths"]),
            "adversary": checks.adversary(charge.adversary),
            "part": charge.facts.get("part") is True,
            "unobserved": charge.facts.get("unobserved") is True,
            "restarted": charge.facts.get("restarted") is True,
        }

    def charge(self, facts: Mapping[str, Any], **more: Any) -> Charge:
        """A charge on these chains, under this model and for this adversary."""
        chains = {
            "lengths": [list(pair) for pair in self.lengths],
            **({"part": True} if self.part else {}),
            **({"unobserved": True} if self.unobserved else {}),
            **({"restarted": True} if self.cut_units else {}),
        }
        return Charge(
            longest=self.charged_records,
            facts={**facts, **chains},
            model=model_digest(self.model),
            adversary=str(self.adversary),
            **more,
        )

    @property
    def charged_records(self) -> int:
        """Records of the longest chain that is charged: as many as there may be where it goes on unseen."""
        return MOST_RECORDS if self.part or self.unobserved else max((length for length, _ in self.lengths), default=1)

    @property
    def records(self) -> int:
        """Records in all chains together; 0 where a class of groups leaves it open."""
        return sum(length * count for length, count in self.lengths)

    @property
    def longest(self) -> int:
        """Records in the longest chain that is read. Noise never falls as a chain grows, so it decides."""
        return max(length for length, _ in self.lengths)

    @cached_property
    def endless(self) -> bool:
        """Whether noise must be enough for a series of any length, of which the records read are a part.

        Not for an adversary who knows no record, where chains start in their stationary distribution or in any: the
        part is such a chain itself then, and records outside show in the answer through its first or its last record
        only (docs/theory/parts.md).
        """
        series = series_of(self.model)
        if series is None or not (self.part or self.unobserved):
            return False
        if self.unobserved:
            return True  # how long the whole chain is need not be public: the bound holds for every length
        if is_hidden(series):  # what lies outside shows through the hidden state, not through a record read
            return True
        given = any(chain.given_start is not None for chain in series.chains)
        return given or self.adversary is not Adversary.PUFFERFISH

    @property
    def demands(self) -> dict[str, str]:
        """What noise must hide besides single records of the series read, and why a mechanism that does not is out."""
        unit = "" if self.unit is None else f"is not worked out for {self.unit.words} as the unit"
        segment = "protects the values of single records, not a segment or an event in it"
        reasons = {
            "parts": (UNOBSERVED if self.unobserved else PART) if self.endless else "",
            "units": unit,
            "secrets": segment if self.secret is not None else "",
        }
        return {what: reason for what, reason in reasons.items() if reason}

    @property
    def series_length(self) -> int:
        """Records of the longest series that the guarantee is for: those read, or as many as there may be at all.

        Curves and quilts never fall as a series grows, so the longest decides for all.
        """
        return MOST_RECORDS if self.endless else self.longest

    @property
    def block(self) -> int:
        """Records that change together, of those that are read."""
        if self.unit is None:
            return 1
        return min(self.unit.records, self.records if self.cut_units else self.longest)

    @property
    def cut_units(self) -> bool:
        """Whether all records of a unit may lie in several chains, of which each begins anew.

        Both sides of the unit are then those of different chains, and its first record goes with any last one: the
        bounds of a series without end cover that (docs/theory/units.md).
        """
        return self.restarted and self.unit is not None and not self.unit.counted

    def allowed_loss(self, leakage: Callable[[float], float], inverse: Callable[[float], float]) -> float:
        """The stated DP loss where its leakage is epsilon, and otherwise the largest that epsilon allows.

        A search ends at another loss on another machine, so a stated loss is evaluated. It may leak no more than
        epsilon, up to rounding, and hardly less: a ledger would be charged too little.
        """
        stated = 0.0 if self.stated is None or self.stated.sigma <= 0 else self.block / self.stated.sigma
        if 0 < stated <= checks.LARGEST and 1 - SEARCHED <= leakage(stated) / self.epsilon <= 1 + ROUNDING:
            return stated
        return inverse(min(self.epsilon, checks.LARGEST))

    @property
    def checked(self) -> CheckedGuarantee:
        """The guarantee beside what the data said about the model."""
        return CheckedGuarantee(
            model=self.model, epsilon=self.epsilon, adversary=self.adversary, unit=self.unit, widens=True
        )

    @property
    def widened(self) -> Problem:
        """The problem whose noise is drawn: for a smaller epsilon where the model was calibrated on data."""
        factor = self.checked.checks.factor
        return self if factor == 1 else replace(self, epsilon=self.epsilon / factor)

    @cached_property
    def bound(self) -> BoundQuery:
        """The query on this model and these records."""
        return self.query.on(self.model, self.records)

    @cached_property
    def answer_range(self) -> tuple[float, float]:
        """The least and the largest value of an answer of one number; equal where the number of records is open."""
        if self.bound.extent is not None:
            return self.bound.extent[0]
        return self.query.limits(self.bound.range, self.records) or (0.0, float(self.records))

    @property
    def rounding(self) -> float:
        """The spacing of doubles at the largest sum or mean: what rounding adds to the error. 0 for other queries."""
        if self.bound.range is None:
            return 0.0
        return math.ulp(max(map(abs, self.answer_range)))

    @cached_property
    def domains(self) -> Domains:
        """Records by name and their states."""
        return records_of(self.model) or _Positions(self.longest, self.model.labels)

    @property
    def balanced(self) -> bool:
        """Whether the noise of all numbers adds up to 0, because the numbers add up to what is public."""
        return self.bound.balanced and not self.independent_noise

    def noise(self, scale: float) -> NoiseDistribution:
        """The distribution of the noise at a scale; independent where it is too wide for another sampler."""
        bound = self.bound
        distribution = NoiseDistribution(
            kind=bound.noise,
            scale=scale,
            coordinates=len(bound.labels),
            unit=bound.unit,
            rounding=self.rounding,
        )
        return replace(distribution, balanced=self.balanced and distribution.counts_scale <= LARGEST_SCALE)

    @property
    def moves(self) -> tuple[float, ...]:
        """How far each record can move the answer, as a share of L, where the model knows its records."""
        return self.bound.moves or (1.0,) * self.records

    def value_name(self, record: int, state: int) -> str:
        """A value of a record in words; records counted from 0."""
        return f"record {self.record_name(record)} is {self.states_at(record)[state]}"

    def record_name(self, record: int) -> str:
        """A record by name, or by its position in a series."""
        records = records_of(self.model)
        return str(record + 1) if records is None else records.records[record]

    def states_at(self, record: int) -> tuple[str, ...]:
        """The states that a record can be in."""
        return self.model.labels if self.model.domains is None else self.model.domains[record]


@dataclass(frozen=True)
class _Positions:
    """The records of a series: their positions, counted from 1."""

    length: int
    labels: tuple[str, ...]

    def states_of(self, position: int) -> tuple[str, ...]:
        return self.labels

    def position(self, record: str) -> int:
        number = checks.digits(record)
        if number is None or not 1 <= number <= self.length:
            raise ModelError(
                f"there is no record {quoted_value(record)}; the series has 1 to {self.length}", value=record
            )
        return number - 1


@dataclass(frozen=True, kw_only=True)
class Transport:
    """The pair of secrets that is hardest to hide, and how far apart the distributions of the answer are."""

    distance: float
    """W-infinity, in the answer's units."""
    first: str | None
    second: str | None
    paid: float = 0.0
    """What rounding may take from epsilon; the noise is wider by it."""


@dataclass(frozen=True, kw_only=True)
class Approximation:
    """The delta of a guarantee, and the approximate DP of the noise behind it."""

    delta: float
    """Towards the adversary who knows the correlation."""
    dp_loss: float
    """Of the pair (loss, delta) of DP that is carried over."""
    dp_delta: float
    rho: float
    """Of zCDP, by OpenDP's map."""
    move: float
    """The most that one record moves the answer in L2, in its units."""


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """A noise multiplier and what it rests on."""

    sigma: float
    quilt: WorstRecord | NetworkQuilt | None = None
    transport: Transport | None = None
    theorem: str | None = None
    """Where this very finding comes from, if the mechanism has several theorems."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The noise that keeps a guarantee, and everything that explains it."""

    mechanism: str
    theorem: str
    """Where the guarantee comes from."""
    sigma: float
    """Noise multiplier: the scale for a query with Lipschitz constant 1."""
    lipschitz: float
    """L: the most that one record moves the answer, in L1."""
    distribution: NoiseDistribution
    """The noise that will be drawn."""
    quilt: WorstRecord | NetworkQuilt | None = None
    """The record that decides and its active quilt, for quilt mechanisms."""
    transport: Transport | None = None
    """The pair of secrets that decides, for the Wasserstein mechanism."""
    approximation: Approximation | None = None
    """The delta of the guarantee; None where it is pure."""

    @property
    def delta(self) -> float:
        """The delta of the guarantee; 0 where it is pure."""
        return 0.0 if self.approximation is None else self.approximation.delta

    def nearly_exact(self, epsilon: float) -> bool:
        """Whether there is hardly any noise, or none: it is a tenth of what one record needs alone, or less.

        Only the model makes so little enough. So data that it rules out are refused, and the certificate warns,
        whatever the mechanism.
        """
        return self.approximation is None and self.dp_loss * _HARDLY_ANY >= epsilon

    @property
    def dp_loss(self) -> float:
        """What differential privacy counts for one record, of noise without a delta; infinite where there is none."""
        return 1 / self.sigma if self.sigma > 0 else math.inf

    @property
    def scale(self) -> float:
        """Noise scale of one coordinate in the answer's units: L·σ."""
        return self.distribution.scale


class Mechanism(ABC):
    """A way to choose noise. Subclasses say how much, or raise NotApplicableError with the reason."""

    name: str
    theorem: str
    approximate: bool = False
    """Whether its guarantee has a delta; it is tried where one is allowed."""

    def tried(self, problem: Problem) -> bool:
        """Whether a plan tries it where nobody names it; without a delta nothing is said of those that need one."""
        return problem.delta > 0 or not self.approximate

    def spared_by(self, problem: Problem) -> str | None:
        """A faster mechanism that hardly ever needs more noise: where that one applies, plans leave this one out."""
        return None

    covers: Collection[str] = ()
    """What its noise hides besides single records of the series that is read: ``units`` (all records of a period),
    ``secrets`` (a segment, or an event in it), and ``parts``, where the records are a part of an endless series
    (``Problem.endless``). It hides these where ``find`` looks at ``series_length`` and no other length, or lets all
    records change that are read."""

    def hides(self, what: str, problem: Problem) -> bool:
        """Whether its noise hides this of a problem; see ``covers``."""
        return what in self.covers

    def find(self, problem: Problem) -> Calibrated:
        """σ and what it rests on; mechanisms that override ``calibrate`` need none. Raises NotApplicableError."""
        raise NotImplementedError

    def calibrate(self, problem: Problem) -> Calibration:
        """The noise for this problem. Raises NotApplicableError when there is no guarantee."""
        return self.with_finding(problem, self.find(problem))

    def with_finding(self, problem: Problem, finding: Calibrated) -> Calibration:
        """A calibration at a given σ."""
        bound, sigma = problem.bound, finding.sigma
        if problem.stated is not None and math.isclose(problem.stated.sigma, sigma, rel_tol=ROUNDING):
            sigma = problem.stated.sigma  # the ledger was charged for it, to the last digit
        return Calibration(
            mechanism=self.name,
            theorem=finding.theorem or self.theorem,
            sigma=sigma,
            lipschitz=bound.lipschitz,
            distribution=problem.noise(bound.lipschitz * sigma),
            quilt=finding.quilt,
            transport=finding.transport,
        )


PART: Final = "holds for the records read alone, and the series goes on before and after them"
"""Why a mechanism does not apply to a part of a series."""
UNOBSERVED: Final = "holds for records that follow each other, and some are missing between those read"
"""Why a mechanism does not apply to a series with unobserved steps."""


def refuse_known_records(problem: Problem) -> None:
    """For mechanisms whose proof is for an adversary who knows no record."""
    if problem.adversary is not Adversary.PUFFERFISH:
        raise NotApplicableError("holds only for an adversary who knows no record (pufferfish)")


def check_series(model: Model, what: str) -> None:
    """Refuse a model that is no series of states for what any DP algorithm may be."""
    if series_of(model) is None:
        raise NotApplicableError(
            f"{what} needs a series of states (a chain, a clock, a hidden chain or a class of them): for records of "
            "other models no curve says what every algorithm leaks; release one query at a time"
        )


def refuse_own_secrets(problem: Problem) -> None:
    """For mechanisms whose proof is for the values of single records."""
    if problem.secrets is not None:
        raise NotApplicableError("protects the values of single records, not secrets of your own")


def refuse_endless_search(problem: Problem) -> None:
    """For mechanisms that look for the quilts of each record: from a given start on each has quilts of its own.

    They do until the chain forgets how it began, which takes minutes to search where it is slow to.
    """
    series = series_of(problem.model)
    if series is not None and problem.endless and any(chain.given_start is not None for chain in series.deciding):
        raise NotApplicableError(
            "is searched record by record from the first on, and the series has no end; curve-tight needs no more noise"
        )


V = TypeVar("V")


class Remembered(Generic[V]):
    """The latest values by problem, and by whatever else they follow from.

    Two problems are the same where their models are equal and they agree in everything else. So the model must
    be frozen, or it could have changed meanwhile, and the query must not call a function, which need not do the same
    twice: for others nothing is kept.
    """

    def __init__(self, most: int) -> None:
        self._most, self._latest, self._lock = most, dict[tuple[Problem, Hashable], V](), threading.Lock()

    def get(
        self, problem: Problem, more: Hashable, make: Callable[[], V], keep: Callable[[V], bool] | None = None
    ) -> V:
        """The value that was kept, or a new one, which is kept unless ``keep`` says otherwise. Errors are not kept."""
        if not _never_changes(problem):
            return make()
        key = problem, more
        with self._lock:
            if key in self._latest:
                self._latest[key] = value = self._latest.pop(key)  # the latest is the last
                return value
        value = make()
        if keep is None or keep(value):
            with self._lock:
                self._latest[key] = value
                if len(self._latest) > self._most:
                    del self._latest[next(iter(self._latest))]
        return value

    def clear(self) -> None:
        """Forget everything: for those who measure how long it takes to find anew."""
        with self._lock:
            self._latest.clear()


def _never_changes(problem: Problem) -> bool:
    try:
        hash(problem)
    except TypeError:  # secrets of one's own, or a table: nothing to look up by
        return False
    parameters = vars(type(problem.model)).get("__dataclass_params__")  # not those of a class it extends
    return parameters is not None and parameters.frozen and not isinstance(problem.query, FunctionQuery)
