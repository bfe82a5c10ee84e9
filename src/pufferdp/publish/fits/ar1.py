"""Estimate an AR(1) series from numbers, or an interval of coefficients that contains the true one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats, Ints
from pufferdp.basics.errors import DataError
from pufferdp.data.families import NumberSeries, read_number_series
from pufferdp.data.layout import Coding
from pufferdp.models.ar1 import Ar1
from pufferdp.models.chain import bin_names
from pufferdp.models.clock import distance_amount
from pufferdp.publish.fits.ar1_checks import LEAST_STEPS, check_ar1
from pufferdp.publish.fits.checks import LEAST_P, Check, check_model
from pufferdp.publish.fits.kind import KIND, FitProblem
from pufferdp.publish.fits.row_order import check_row_order
from pufferdp.publish.kind import Made
from pufferdp.publish.reading import Reading

_GRID: Final = 4001
_EDGE: Final = 1e-4
"""The grid of angles ends this far from a right one: at coefficients 5e-9 from 1."""
_SPARE: Final = 1.03
"""The limit of the test is larger by this factor than in theory, which holds up to 1/n (see the simulations)."""


def fit_ar1(data: object, reading: Reading, confidence: float | None) -> tuple[Ar1, tuple[Check, ...]]:
    """The process that explains the numbers best; with ``confidence`` an interval that contains the true coefficient.

    How the interval is made, and how often it fails, is in docs/theory/ar1.md. And whether the last number alone says
    all that the next one depends on, and whether the rows are in time order.
    """
    if confidence is not None:
        confidence = checks.probability(confidence, "confidence")
    # How an ar1 series is read does not depend on its numbers, so any one says what is refused.
    reading.check(Ar1(coefficient=0.0))
    layout = reading
    read, step, series, likelihood = _read(data, reading)
    if any(np.ptp(s.numbers) == 0 for s in series if len(s.numbers) > 1):
        raise DataError(
            f"all numbers of a series of {layout.column!r} are the same, so nothing is learnt about how they "
            "are correlated; leave that series out, or choose another column"
        )
    best = likelihood.best
    interval = None if confidence is None else likelihood.interval(confidence)
    if (1 - abs(best) if interval is None else 1 - max(map(abs, interval))) < 2 * _EDGE**2:
        raise DataError(
            f"the numbers of {layout.column!r} cannot be told from a series that wanders off (a coefficient of 1): no "
            "finite noise would follow for a long one; read more records, or fit the differences of neighbours"
        )
    mean, sd = likelihood.moments(best)
    facts = {
        "column": layout.column,
        "records": len(read.numbers),
        "chains": sum(n for _, n in read.counts.lengths),
        "left_out": [],
    }
    problem = FitProblem(dp_epsilon=None, confidence=confidence)
    fitted = KIND.certify(problem, 0.0, Made(data=facts)).to_dict()
    known = None if layout.order is None else read.series.table.distance(step)
    model = Ar1(coefficient=best if interval is None else interval, mean=mean, sd=sd, step=known, fitted=fitted)
    return model, check_model(None, _tests(data, layout, read, series, best, mean))


def check_numbers(data: object, reading: Reading, model: Ar1) -> tuple[Check, ...]:
    """Whether numbers behave as the model says: its coefficient, and the checks of a fit."""
    reading.check(model)
    read, step, series, likelihood = _read(data, reading)
    usual = None if reading.order is None else read.series.table.distance(step)
    if usual is not None and model.step is not None and distance_amount(usual) != distance_amount(model.step):
        raise DataError(
            f"the model has a step of {model.step}, and numbers of {reading.column!r} are {usual} apart; read them at "
            "the step of the model",
            value=usual,
        )
    low, high = model.coefficients
    nearest = min(max(likelihood.best, low), high)
    tests = _tests(data, reading, read, series, nearest, likelihood.moments(nearest)[0])
    return check_model(None, [likelihood.test(nearest), *tests])


def _read(data: object, reading: Reading) -> tuple[NumberSeries, float, list[_Series], Ar1Likelihood]:
    """Numbers, their usual step, a series for each person, and their likelihood; rejects too few."""
    read = read_number_series(data, reading)
    step = _usual_step(read)
    series = _split(read, step)
    likelihood = Ar1Likelihood.of(series)
    if likelihood.single_steps < LEAST_STEPS:
        raise DataError(
            f"{likelihood.single_steps} pairs of numbers of {reading.column!r} are one step apart; an ar1 series needs "
            f"at least {LEAST_STEPS}: read more records",
            value=likelihood.single_steps,
        )
    return read, step, series, likelihood


def _tests(
    data: object,
    reading: Reading,
    read: NumberSeries,
    series: Sequence[_Series],
    coefficient: float,
    mean: float,
) -> list[Check]:
    """The tests of the residuals, and of the order of the rows."""
    edges = tuple(np.unique(np.quantile(read.numbers, (0, 0.25, 0.5, 0.75, 1))).tolist())
    row_order = check_row_order(data, reading, Coding(labels=bin_names(edges), bins=edges))
    own = check_ar1([(s.numbers, s.steps) for s in series], coefficient, mean, _hours(read))
    return [*own, *row_order]


def _hours(read: NumberSeries) -> list[Ints] | None:
    """The hour of each number of each series, counted from its first number; None where the order holds no times."""
    ticks = {"us": 3_600_000_000, "ns": 3_600_000_000_000}.get(read.series.table.ticks)
    if ticks is None:
        return None
    first = np.flatnonzero(read.distances < 0)[1:]
    return [(np.cumsum(np.maximum(part, 0)) // ticks).astype(np.int64) for part in np.split(read.distances, first)]


@dataclass(frozen=True)
class _Series:
    """The numbers of one person, and how many steps each lies behind the one before."""

    numbers: Floats
    steps: Floats


def _usual_step(read: NumberSeries) -> float:
    """The distance between neighbours that is the most frequent."""
    apart = read.distances[read.distances > 0]
    if not len(apart):
        raise DataError(f"there are no two numbers in a row; an ar1 fit needs at least {LEAST_STEPS} pairs")
    found, count = np.unique(apart, return_counts=True)
    return float(found[count.argmax()])


def _split(read: NumberSeries, step: float) -> list[_Series]:
    """One series a person; refuses distances that are no whole number of steps."""
    shares = read.distances / step
    whole = np.rint(shares)
    off = (read.distances > 0) & ((np.abs(shares - whole) > 1e-9 * np.maximum(1, shares)) | (whole < 1))
    if off.any():
        number, far = int(np.argmax(off)), read.series.table.distance
        raise DataError(
            f"number {number + 1} comes {far(read.distances[number])} after the one before, and the usual step is "
            f"{far(step)}: an ar1 fit needs whole steps, so bring the times to a grid",
            value=number + 1,
        )
    first = np.flatnonzero(read.distances < 0)[1:]
    return [_Series(x, d) for x, d in zip(np.split(read.numbers, first), np.split(whole, first), strict=True)]


@dataclass(frozen=True, eq=False)
class _Sums:
    """What the likelihood needs of one series: sums over its steps, those of each length by themselves."""

    records: int
    first: float
    lengths: Floats
    """How many steps of the model each kind spans."""
    counts: Floats
    moved: Floats
    """Sum of the differences d of neighbours."""
    before: Floats
    """Sum of the numbers x before them."""
    moved_squares: Floats
    products: Floats
    """Sum of the products d·x of both."""
    before_squares: Floats

    @classmethod
    def of(cls, numbers: Floats, steps: Floats) -> _Sums:
        before, moved = numbers[:-1], np.diff(numbers)
        lengths, which = np.unique(steps[1:], return_inverse=True)

        def added(values: Floats) -> Floats:
            return np.asarray(np.bincount(which, values, len(lengths)), dtype=float)

        return cls(
            records=len(numbers),
            first=float(numbers[0]),
            lengths=lengths,
            counts=added(np.ones_like(moved)),
            moved=added(moved),
            before=added(before),
            moved_squares=added(moved**2),
            products=added(moved * before),
            before_squares=added(before**2),
        )

    def parts(self, phi: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """log|R|, 1ᵀR⁻¹1, 1ᵀR⁻¹x and xᵀR⁻¹x for each coefficient."""
        power = np.abs(phi)[:, None] ** self.lengths * np.where(self.lengths % 2, np.sign(phi)[:, None], 1.0)
        rest = 1 - power  # x_t − r·x_{t−1} is d + (1−r)·x_{t−1}: no digits are lost near 1
        variance = rest * (1 + power)
        squares = self.moved_squares + rest * (2 * self.products + rest * self.before_squares)
        return (
            (self.counts * np.log(variance)).sum(axis=1),
            1 + (self.counts * rest**2 / variance).sum(axis=1),
            self.first + (rest * (self.moved + rest * self.before) / variance).sum(axis=1),
            self.first**2 + (squares / variance).sum(axis=1),
        )


class Ar1Likelihood:
    """The density of numbers up to their mean and deviation, by coefficient: L of docs/theory/ar1.md."""

    def __init__(self, series: Sequence[_Sums], centre: Sequence[float], scale: Sequence[float]) -> None:
        self._series, self._centre, self._scale = series, centre, scale
        self.records = sum(s.records for s in series)
        self.single_steps = int(sum(float(s.counts[s.lengths == 1].sum()) for s in series))

    @classmethod
    def of(cls, series: Sequence[_Series]) -> Ar1Likelihood:
        """From series of numbers; those of one record say nothing of a coefficient."""
        several = [s for s in series if len(s.numbers) > 1]
        centre = [float(s.numbers.mean()) for s in several]
        scale = [float(s.numbers.std()) or 1.0 for s in several]
        sums = [_Sums.of((s.numbers - m) / k, s.steps) for s, m, k in zip(several, centre, scale, strict=True)]
        return cls(sums, centre, scale)

    def log(self, phi: Floats) -> Floats:
        """The logarithm of L, up to a constant."""
        total = np.zeros_like(phi)
        for s in self._series:
            determinant, ones, cross, square = s.parts(phi)
            residual = square - cross**2 / ones
            total -= (determinant + np.log(ones) + (s.records - 1) * np.log(residual)) / 2
        return total

    @property
    def best(self) -> float:
        """The coefficient with the largest L."""
        return math.sin(self._peak())

    def test(self, coefficient: float) -> Check:
        """Whether the numbers contradict a coefficient: the restricted likelihood ratio test."""
        fits = self.log(np.array([self.best, coefficient]))
        statistic = 2 * max(0.0, float(fits[0] - fits[1])) / _SPARE
        return Check(
            name="coefficient",
            question="coefficient of the model",
            statistic=statistic,
            degrees_of_freedom=1,
            p_value=max(LEAST_P, math.erfc(math.sqrt(statistic / 2))),
            effect=math.sqrt(max(0.0, statistic - 1) / self.records),
            advice="neighbours are correlated otherwise than under the model: fit these data, or use all coefficients "
            "that contain the true one with a confidence, fit(confidence=0.95)",
        )

    def interval(self, confidence: float) -> tuple[float, float]:
        """The coefficients whose L is not too far below the largest: the restricted likelihood ratio test."""
        from scipy.special import ndtri

        deviate = float(ndtri((1 + confidence) / 2))
        peak, width = self._peak(), 1 / math.sqrt(self.records)
        least = float(self.log(np.array([math.sin(peak)]))[0]) - _SPARE * deviate**2 / 2
        reach = (2 * deviate + 4) * width
        near = np.linspace(max(peak - reach, -_END), min(peak + reach, _END), _GRID)
        angles = np.union1d(near, np.linspace(-_END, _END, _GRID))
        inside = np.flatnonzero(self.log(np.sin(angles)) >= least)
        # One point further out on either side: the true ends lie in between.
        low, high = max(int(inside[0]) - 1, 0), min(int(inside[-1]) + 1, len(angles) - 1)
        return math.sin(float(angles[low])), math.sin(float(angles[high]))

    def moments(self, phi: float) -> tuple[float, float]:
        """Mean and deviation of the records; over all series, each with its weight."""
        means, squares, freedom = 0.0, 0.0, 0
        for s, centre, scale in zip(self._series, self._centre, self._scale, strict=True):
            _, ones, cross, square = (float(part[0]) for part in s.parts(np.array([phi])))
            means += s.records * (centre + scale * cross / ones)
            squares += scale**2 * (square - cross**2 / ones)
            freedom += s.records - 1
        return means / self.records, math.sqrt(squares / freedom)

    def _peak(self) -> float:
        """The angle whose sine has the largest L."""
        from scipy.optimize import minimize_scalar

        angles = np.linspace(-_END, _END, _GRID)
        middle = int(self.log(np.sin(angles)).argmax())
        low, high = angles[max(middle - 1, 0)], angles[min(middle + 1, _GRID - 1)]
        found = minimize_scalar(
            lambda t: -float(self.log(np.array([math.sin(t)]))[0]),
            bounds=(low, high),
            method="bounded",
            options={"xatol": 1e-10},
        )
        return float(found.x)


_END: Final = math.pi / 2 - _EDGE
