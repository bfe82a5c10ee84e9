"""A measurement from outside as a kind of publication: its stated DP loss, and what that leaks by a curve."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from pufferdp.basics.errors import CertificateError
from pufferdp.basics.progress import Progress, silent
from pufferdp.bounds.approximate import Approximate, approximate_leakage
from pufferdp.bounds.curve_forms import Curve, Lowest
from pufferdp.bounds.tight.series import TOLERANCE
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.ledger.charge import Charge
from pufferdp.models.base import Model
from pufferdp.publish.answers.certificate import guarantee, public_facts, statement
from pufferdp.publish.answers.mechanisms.baselines import CURVE, curve_of_every_algorithm
from pufferdp.publish.answers.problem import Problem, check_series
from pufferdp.publish.answers.queries import HistogramQuery, Query
from pufferdp.publish.certificate import MEASUREMENT_SCHEMA
from pufferdp.publish.kind import Kind, Made, stated_ranges
from pufferdp.publish.measurements.certificate import AUTHOR, TRUSTED, MeasurementCertificate
from pufferdp.publish.measurements.outside import MEASURES, MOVES
from pufferdp.publish.reading import assumption_text, moves_fact

FROM_STATES: Final = "the value of its state"
FROM_DATA: Final = "the number in the data, clipped"


@dataclass(frozen=True, kw_only=True)
class MeasurementProblem(Problem):
    """A DP algorithm with the pair that its map states, on chains of a model."""

    query: Query = field(default_factory=HistogramQuery)
    """Not asked: the measurement is. It says that the algorithm reads states."""
    epsilon: float = 1.0
    """Not asked either: it follows from the pair."""
    metric: str
    measure: str
    dp_loss: float
    dp_delta: float
    clip: tuple[float, float] | None = None
    """The range of numbers that are read from the data; None where each record has the value of its state."""
    curve: str | None = None
    """By name, as a certificate states it; None: the lowest."""
    ranges: Ranges = EVERYTHING

    def __post_init__(self) -> None:
        check_series(self.model, "a measurement")
        super().__post_init__()

    @property
    def within_bins(self) -> bool:
        """Whether numbers are read of which the model knows no more than their bins."""
        return self.clip is not None and self.model.bins is not None


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What the pair leaks, and by which curve."""

    curve: str
    theorem: str
    epsilon: float
    delta: float


class MeasurementKind(Kind[MeasurementProblem, Carried, MeasurementCertificate]):
    """What OpenDP measurements return."""

    schema = MEASUREMENT_SCHEMA
    certificate = MeasurementCertificate
    ledger_kinds = ("measurement",)
    released = "answer"
    row_unprovable: ClassVar[Mapping[str, str]] = {
        "ranges": "which records were read",
        "dp_loss": "what the map of the measurement states",
        "dp_delta": "what the map of the measurement states",
        "facts.lengths": "how many chains were read; the longest must be the one charged for",
        "facts.metric": "of the measurement",
        "facts.measure": "of the measurement",
    }

    def problem(self, certificate: MeasurementCertificate, **more: Any) -> MeasurementProblem:
        """The pair that the map of the measurement stated, on the chains that were read."""
        stated = certificate.measurement
        if MOVES.get(stated.metric) != stated.moves or stated.measure not in MEASURES:
            raise CertificateError(f"measurement has the metric {stated.metric!r} and the measure {stated.measure!r}")
        known = stated.values in (FROM_STATES, FROM_DATA) and len(stated.clip or [0, 1]) == 2
        if not known or (stated.values == FROM_DATA) != (stated.clip is not None):
            raise CertificateError("measurement.values and measurement.clip do not go together")
        return MeasurementProblem(
            **Problem.chains_stated(certificate),
            metric=stated.metric,
            measure=stated.measure,
            dp_loss=stated.dp_loss,
            dp_delta=stated.dp_delta,
            clip=None if stated.clip is None else (stated.clip[0], stated.clip[1]),
            curve=certificate.mechanism.name.removeprefix(CURVE),
            ranges=stated_ranges(certificate.data),
        )

    def solve(self, problem: MeasurementProblem, progress: Progress) -> Carried:
        """What the pair leaks by the curve."""
        progress("carrying the DP loss over")
        curve = curve_of_every_algorithm(problem, problem.curve)
        return carried_by(curve, approximate_leakage(curve, problem.dp_loss, problem.dp_delta))

    def content(self, problem: MeasurementProblem, solution: Carried, made: Made) -> dict[str, Any]:
        """The content of the certificate, made from what the map states."""
        # In words it is the guarantee that is stated, which must be near ours: rounding must not decide a sentence.
        stated = {} if made.stated is None else made.stated["guarantee"]
        epsilon = stated.get("epsilon", solution.epsilon)
        delta = (stated.get("delta") or 0.0) if stated else solution.delta
        in_words = replace(problem, epsilon=epsilon)
        checked = replace(in_words.checked, widens=False)
        words = f"{statement(in_words, delta)} {TRUSTED}{assumption_text(made.data)}{checked.misfit}"
        return {
            **self.common(
                problem,
                solution,
                made,
                problem.model,
                checked=checked,
                within_bins=problem.within_bins,
                implied={AUTHOR: True},
            ),
            "guarantee": {
                **guarantee(problem, words),
                "epsilon": solution.epsilon,
                "delta": self._delta(problem, epsilon) if solution.delta else None,
            },
            "mechanism": {"name": f"{CURVE}{solution.curve}", "theorem": solution.theorem},
            "measurement": {
                "metric": problem.metric,
                "moves": MOVES[problem.metric],
                "measure": problem.measure,
                "dp_loss": problem.dp_loss,
                "dp_delta": problem.dp_delta,
                "values": FROM_STATES if problem.clip is None else FROM_DATA,
                "clip": None if problem.clip is None else [float(end) for end in problem.clip],
            },
            "public": [*public_facts(problem), *moves_fact(made.data, problem.model)],
            "answer": made.released,
        }

    @staticmethod
    def _delta(problem: MeasurementProblem, epsilon: float) -> float:
        """The delta that belongs to an epsilon."""
        return approximate_leakage(lambda _: epsilon, problem.dp_loss, problem.dp_delta).delta

    def as_stated(self, solution: Carried, stated: Mapping[str, Any]) -> Carried:
        """With the guarantee of the certificate."""
        guarantee = stated["guarantee"]
        return replace(solution, epsilon=guarantee["epsilon"], delta=guarantee.get("delta") or 0.0)

    def charge(self, problem: MeasurementProblem, solution: Carried) -> Charge:
        """The pair that its map states, on every record that was read."""
        mechanism = f"{CURVE}{solution.curve}"
        return problem.charge(
            {"metric": problem.metric, "measure": problem.measure, "mechanism": mechanism},
            kind="measurement",
            dp_loss=problem.dp_loss,
            dp_delta=problem.dp_delta,
            epsilon=solution.epsilon,
            delta=solution.delta,
            ranges=problem.ranges,
        )

    def recompute(self, charge: Charge, model: Model | None) -> Charge | None:
        """The guarantee that follows from the pair of a charge."""
        if model is None:
            return None
        facts = charge.facts
        problem = MeasurementProblem(
            **Problem.chains_charged(charge, model),
            metric=facts["metric"],
            measure=facts["measure"],
            dp_loss=charge.dp_loss,
            dp_delta=charge.dp_delta,
            curve=facts["mechanism"].removeprefix(CURVE),
            ranges=charge.ranges,
        )
        found = self.solve(problem, silent)
        if charge.epsilon is not None and math.isclose(charge.epsilon, found.epsilon, rel_tol=TOLERANCE):
            found = replace(found, epsilon=charge.epsilon, delta=self._delta(problem, charge.epsilon))
        return self.charge(problem, found)


KIND: Final = MeasurementKind()


def carried_by(curve: Curve, leaked: Approximate) -> Carried:
    """What is leaked, with the name of the curve that decides."""
    decisive = curve.which(leaked.dp_loss) if isinstance(curve, Lowest) else curve
    return Carried(curve=decisive.name, theorem=decisive.theorem, epsilon=leaked.epsilon, delta=leaked.delta)
