"""Values of a column + an OpenDP measurement → its answer and a certificate. The values never leave this module."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.basics.paged import Paged
from pufferdp.basics.progress import Progress, silent
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.models.base import Lengths, Model
from pufferdp.models.files.json import ModelLike, as_model
from pufferdp.publish.answers.mechanisms.baselines import curve_of_every_algorithm
from pufferdp.publish.measurements.certificate import MeasurementCertificate
from pufferdp.publish.measurements.kind import KIND, Carried, MeasurementProblem, carried_by, check_series
from pufferdp.publish.measurements.outside import (
    ColumnValues,
    Output,
    StatedLoss,
    check_size,
    column_values,
    run,
    stated_loss,
)
from pufferdp.publish.model_checks import CheckedGuarantee
from pufferdp.publish.pipeline import Account, Charged, Publication, Reading
from pufferdp.publish.reading import read_keyed
from pufferdp.publish.series import Series

if TYPE_CHECKING:
    from pufferdp.ledger.ledger import Ledger


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
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    accept_misfit: bool = False,
    progress: Progress | None = None,
) -> MeasurementRelease:
    """Release what an OpenDP measurement returns, with the guarantee that its stated DP loss makes here.

    Args:
        series: the data, and how they are read.
        measurement: an OpenDP measurement on a vector of the column's values.
        model: a chain, a clock, a hidden chain or a class of them.
        epsilon: the most that may be guaranteed; refused where the measurement leaks more.
        delta: the most that may be guaranteed beside it.
        adversary: ``bdp`` (knows any set of records), ``pufferfish`` (none) or ``dp`` (all others).
        clip: the measurement gets the numbers of the data, clipped to this range, where the states have none.
        ledger: where it is charged before it is run: a Ledger, its file or its URL.
        dataset: which data set of the ledger.
        accept_misfit: release although the data contradict the model; the guarantee and the certificate state it.
        progress: called with a few words before each step.
    """
    check_series(as_model(model))
    prior = series.model(model)
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
        account=Account(ledger, dataset),
        accept_misfit=accept_misfit,
        progress=progress or silent,
    ).publish()


@dataclass(frozen=True, kw_only=True, repr=False)
class ExactValues:
    """What was read. Never printed: ``facts`` alone is public."""

    codes: npt.NDArray[np.int64]
    """The state of each record, in numbers of the model's."""
    numbers: npt.NDArray[np.float64] | None
    lengths: Lengths
    unobserved: bool
    facts: dict[str, Any]
    """How the data was read: public."""
    ranges: Ranges

    def __repr__(self) -> str:
        return f"ExactValues({self.facts})"

    def values(self, column: ColumnValues) -> list[Any]:
        """What the measurement gets, a value for each record."""
        if column.of_state is None:
            assert self.numbers is not None
            return [float(number) for number in self.numbers]
        return [column.of_state[code] for code in self.codes.tolist()]


@dataclass(frozen=True, kw_only=True)
class MeasurementPublication(Publication[MeasurementProblem, Carried, ExactValues, MeasurementRelease]):
    """A measurement on its way out."""

    model: Model
    reading: Reading
    measurement: Any
    stated: StatedLoss
    values: ColumnValues
    epsilon: float
    delta: float
    adversary: Adversary

    kind = KIND

    def check(self) -> None:
        """Refuse a way of reading, a size or a loss that cannot be, also on the shortest series."""
        self.reading.check(self.model)
        self._carried(((1, 1),))

    @property
    def checked(self) -> CheckedGuarantee:
        """The guarantee beside what the data said about the model."""
        return CheckedGuarantee(model=self.model, epsilon=self.epsilon, adversary=self.adversary)

    def expect(self, ledger: Ledger, dataset: str) -> None:
        """The data set must be for this model and this adversary."""
        ledger.expect(dataset, model=self.model, adversary=self.adversary, delta=self.delta)

    def read(self) -> ExactValues:
        """The value of each record; they stay inside the publication."""
        self.progress("reading")
        clip = self.values.clip if self.values.of_state is None else None
        exact, keyed = read_keyed(self.data, self.model, self.reading.layout, clip)
        check_size(self.measurement, len(keyed.codes))
        return ExactValues(
            codes=keyed.codes,
            numbers=keyed.numbers,
            lengths=exact.lengths,
            unobserved=exact.unobserved,
            facts=exact.facts,
            ranges=exact.ranges,
        )

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
        curve = curve_of_every_algorithm(blank.chains)
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
