"""Values of a column + an OpenDP measurement → its answer and a certificate. The values never leave this module."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.errors import NotApplicableError
from pufferdp.basics.paged import Paged
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.models.base import Lengths
from pufferdp.models.files.json import ModelLike
from pufferdp.publish.answers.mechanisms.baselines import curve_of_every_algorithm
from pufferdp.publish.answers.problem import check_series
from pufferdp.publish.measurements.certificate import MeasurementCertificate
from pufferdp.publish.measurements.kind import KIND, Carried, MeasurementProblem, carried_by
from pufferdp.publish.measurements.outside import (
    ColumnValues,
    Output,
    StatedLoss,
    check_size,
    column_values,
    run,
    stated_loss,
)
from pufferdp.publish.pipeline import Charged, OddsPublication
from pufferdp.publish.reading import WasRead, read_keyed
from pufferdp.publish.series import Run, Series


@dataclass(frozen=True, kw_only=True)
class MeasurementRelease(Paged):
    """What a measurement returned, with its certificate."""

    answer: Output
    certificate: MeasurementCertificate
    """What was guaranteed and how, for anyone to verify without the data."""

    def to_dict(self) -> dict[str, Any]:
        """The answer and the certificate."""
        return {"answer": self.answer, "certificate": self.certificate.to_dict()}


def release_measurement(
    series: Series,
    *,
    measurement: Any,
    model: ModelLike,
    epsilon: float,
    delta: float = 0.0,
    adversary: str = "bdp",
    clip: tuple[float, float] | None = None,
    **run: Unpack[Run],
) -> MeasurementRelease:
    """Release what an OpenDP measurement returns, with the guarantee that its stated DP loss makes here.

    ``measurement`` takes a vector of the column's values; ``epsilon`` and ``delta`` are the most that may be
    guaranteed. The other parameters are those of ``pufferdp.release``.
    """
    prior = series.model(model)
    check_series(prior, "a measurement")
    clipped = None if clip is None else checks.clip_pair(clip)
    return MeasurementPublication(
        data=series.data,
        model=prior,
        reading=series.reading(prior),
        measurement=measurement,
        stated=stated_loss(measurement),
        values=column_values(measurement, prior, clipped),
        epsilon=checks.epsilon(epsilon),
        delta=checks.delta(delta),
        adversary=checks.adversary(adversary),
        **run,
    ).publish()


@dataclass(frozen=True, kw_only=True, repr=False)
class ExactValues(WasRead):
    """What the measurement reads of each record."""

    codes: npt.NDArray[np.int64]
    """The state of each record, in numbers of the model's."""
    numbers: npt.NDArray[np.float64] | None

    def values(self, column: ColumnValues) -> list[Any]:
        """What the measurement gets, a value for each record."""
        if column.of_state is None:
            assert self.numbers is not None
            return [float(number) for number in self.numbers]
        return [column.of_state[code] for code in self.codes.tolist()]


@dataclass(frozen=True, kw_only=True)
class MeasurementPublication(OddsPublication[MeasurementProblem, Carried, ExactValues, MeasurementRelease]):
    """A measurement on its way out."""

    measurement: Any
    stated: StatedLoss
    values: ColumnValues
    delta: float

    kind = KIND

    @property
    def may_fail(self) -> float:
        """The delta that the guarantee may have."""
        return self.delta

    def check(self) -> None:
        """Refuse a way of reading, a size or a loss that cannot be, also on the shortest series."""
        self.reading.check(self.model)
        self._carried(((1, 1),))

    def read(self) -> ExactValues:
        """The value of each record; they stay inside the publication."""
        self.progress("reading")
        clip = self.values.clip if self.values.of_state is None else None
        exact, keyed = read_keyed(self.data, self.model, self.reading, clip)
        check_size(self.measurement, len(keyed.codes))
        return ExactValues(codes=keyed.codes, numbers=keyed.numbers, **exact.public)

    def problem(self, exact: ExactValues) -> MeasurementProblem:
        """With the pair of the measurement's profile that leaks least on the chains that were read."""
        problem = self._carried(exact.lengths, exact.unobserved, exact.ranges)
        # It must run and return what a certificate can hold; what it gets here is not the data.
        run(self.measurement, [self.values.possible[0]] * len(exact.codes), "records that all have one value")
        return problem

    def _carried(self, lengths: Lengths, unobserved: bool = False, ranges: Ranges = EVERYTHING) -> MeasurementProblem:
        """The problem, with its pair; refused where the pair leaks more than may be guaranteed."""
        blank = MeasurementProblem(
            model=self.model,
            lengths=lengths,
            adversary=self.adversary,
            metric=self.stated.metric,
            measure=self.stated.measure,
            dp_loss=0.0,
            dp_delta=0.0,
            clip=self.values.clip if self.values.of_state is None else None,
            part=self.reading.is_part,
            unobserved=unobserved,
            ranges=ranges,
        )
        curve = curve_of_every_algorithm(blank)
        leaked = self.stated.carried(curve, self.delta)
        if leaked.epsilon > self.epsilon or leaked.delta > self.delta:
            guaranteed, allowed = (
                f"{epsilon:g}" + (f" with a delta of {delta:g}" if leaked.delta else "")
                for epsilon, delta in ((leaked.epsilon, leaked.delta), (self.epsilon, self.delta))
            )
            pair = f"({leaked.dp_loss:g}, {leaked.dp_delta:g})" if leaked.dp_delta else f"{leaked.dp_loss:g}"
            raise NotApplicableError(
                f"the measurement's map states a DP loss of {pair}, which leaks {guaranteed} here, more than the "
                f"{allowed} allowed: a loss of {curve.inverse(self.epsilon):.6g} would fit",
                value=leaked.epsilon,
            )
        decisive = carried_by(curve, leaked).curve
        return replace(blank, dp_loss=leaked.dp_loss, dp_delta=leaked.dp_delta, curve=decisive)

    def draw(
        self, problem: MeasurementProblem, solution: Carried, exact: ExactValues, charged: Charged
    ) -> MeasurementRelease:
        """Run the measurement, once."""
        self.announce("measuring")
        answer = run(self.measurement, exact.values(self.values), "the data")
        with charged.certifying(answer, lambda: f"the measurement gave {answer}"):
            made = self.made(exact.facts, charged, answer)
            return MeasurementRelease(answer=answer, certificate=self.kind.certify(problem, solution, made))
