"""Counts, histograms, frequencies, sums and means as questions of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pufferdp.basics.errors import QueryError
from pufferdp.models.base import PAIR_MARK, Model
from pufferdp.publish.answers.estimate import simplex
from pufferdp.publish.answers.queries import (
    BoundQuery,
    CountQuery,
    FlowQuery,
    FunctionQuery,
    HistogramQuery,
    NumberQuery,
    Query,
)
from pufferdp.publish.noise import NoiseDistribution, NoiseKind, Sampler, draw, in_doubles
from pufferdp.publish.noise_distributions import LARGEST_SCALE
from pufferdp.publish.tables.questions import GroupRecords, Question, QuestionNoise, Row

_THEOREM: Final = "Laplace noise of scale L/tau (Dwork, McSherry, Nissim & Smith 2006, Proposition 1)"
_MOST_DRAWS: Final = 1_000_000
"""So many draws for noise that adds up to 0 take about ten seconds."""


@dataclass(frozen=True)
class ClassicQuestion(Question):
    """A query of ``publish/answers``, asked of each group with Laplace noise."""

    query: Query
    independent: bool = False
    """Whether each number of a histogram has noise of its own also where three or more could add up: of very many
    groups, whose noise would take long to draw otherwise."""
    sized: bool = True
    """Whether the number of records of each group is published."""

    def __post_init__(self) -> None:
        if isinstance(self.query, (FunctionQuery, FlowQuery)):
            raise QueryError(
                f"{self.query.name} cannot be a question of a table; it must be count:STATE, histogram, frequency, "
                "sum, mean or variance",
                value=self.query.name,
            )

    @property
    def name(self) -> str:
        """The command line's spelling."""
        return self.query.name

    @property
    def clip(self) -> tuple[float, float] | None:
        """The range of a sum or mean."""
        return self.query.clip

    def reads_numbers(self, model: Model) -> bool:
        """Whether a sum or mean is of the numbers in the data."""
        return self.query.reads_numbers(model)

    def check(self, model: Model) -> None:
        """Refuse a query that does not fit the model."""
        self._bound(model)

    def labels(self, model: Model) -> tuple[str, ...]:
        """The states that are counted, or the name of the query."""
        return self._bound(model).labels

    def noise(self, model: Model, dp_loss: float, beta: float, records: int = 0) -> QuestionNoise:
        """Noise of scale L/tau, rounded up."""
        bound = self._bound(model)
        distribution = self._distribution(bound, scale_of(bound.lipschitz, dp_loss))
        if bound.range is not None:  # released totals are doubles, and no larger than that of all records
            distribution = replace(distribution, rounding=math.ulp(max(map(abs, self._totals(bound, records)))))
        return QuestionNoise(
            kind=str(distribution.kind),
            scale=distribution.scale,
            alpha=float(distribution.accuracy(beta).alpha),
            beta=beta,
            about="counts" if self.query.counts_states else "values",
            theorem=_THEOREM,
            balanced=distribution.balanced,
            divided=self.query.divided is not None,
        )

    def measure_each(
        self, model: Model, groups: Sequence[GroupRecords], noise: QuestionNoise, sampler: Sampler
    ) -> list[Row]:
        """One draw for all groups, whose noise is independent."""
        distribution, sizes = self._distribution(self._bound(model), noise.scale), [group.size for group in groups]
        if self.query.each_state:
            exact = np.array([group.histogram for group in groups]).reshape(len(groups), -1)
            noisy = noisy_rows(distribution, exact, sampler)
            return [self._divide(row, size) for row, size in zip(noisy, sizes, strict=True)]
        if isinstance(self.query, CountQuery):
            state = model.labels.index(self.query.state)
            return [(v,) for v in draw(distribution, [int(group.histogram[state]) for group in groups], sampler)]
        bound = self._bound(model)
        limits = [self._totals(bound, size) for size in sizes]
        # Without its least value a total is no larger than its range, and rounding it adds little to a move.
        above = [float(self._total(group) - Fraction(low)) for group, (low, _) in zip(groups, limits, strict=True)]
        # Totals are rounded to doubles, and what that can add to a move is added to the noise.
        ulp = math.ulp(max([bound.lipschitz, *(high - low for low, high in limits)]))
        wider = NoiseDistribution(
            kind=distribution.kind, scale=distribution.scale * (1 + 6 * ulp / bound.lipschitz), coordinates=1
        )
        drawn = zip(draw(wider, above, sampler), sizes, limits, strict=True)
        return [self._divide((float(Fraction(v) + Fraction(low)),), size) for v, size, (low, _) in drawn]

    def for_groups(self, model: Model, groups: int) -> Question:
        """With noise that can be drawn for so many groups."""
        return replace(self, independent=self.query.each_state and takes_long(len(self.labels(model)), groups))

    def stated(self, balanced: bool) -> Question:
        """With the noise that a certificate states."""
        return replace(self, independent=self.query.each_state and not balanced)

    def hiding_sizes(self) -> Question:
        """With noise of its own for each count, and a mean also where a group has no record."""
        return replace(self, independent=self.query.each_state, sized=False)

    def estimate_each(self, model: Model, sizes: Sequence[int | None], answers: Sequence[Row]) -> list[Row]:
        """Counts between 0 and the records of a group, histograms that add up to them, sums and means in range."""
        share = self.query.divided is not None
        if None in sizes:
            return self._estimate_unsized(model, answers)
        present = [n for n, size in enumerate(sizes) if size or not share]
        values = np.array([answers[n] for n in present], dtype=float).reshape(len(present), -1)
        records = np.array([sizes[n] for n in present], dtype=float)[:, np.newaxis]
        total = np.ones_like(records) if share else records
        if self.query.each_state:
            nearest = np.where(total > 0, simplex(values, total), 0.0)
        else:
            low, high = self.query.limits(self._bound(model).range, 1) or (0.0, 1.0)
            nearest = np.clip(values, low * total, high * total)
        out = list(answers)
        for n, row in zip(present, nearest.tolist(), strict=True):
            out[n] = tuple(row)
        return out

    def _estimate_unsized(self, model: Model, answers: Sequence[Row]) -> list[Row]:
        """Counts of 0 or more and means in range, where nobody knows how many records a group has."""
        low, high = self.query.limits(self._bound(model).range, 1) or (0.0, 1.0)
        if not self.query.averaged:
            low, high = (0.0 if low >= 0 else -math.inf), (0.0 if high <= 0 else math.inf)
        values = np.clip(np.array(answers, dtype=float), low, high)
        return [tuple(row) for row in values.tolist()]

    def check_answer(self, model: Model, records: int | None, answer: Row, balanced: bool = False) -> None:
        """Counts are whole, and balanced ones add up; means and shares of nobody are not there."""
        super().check_answer(model, records, answer)
        if self.query.divided is not None and records == 0:
            if any(value is not None for value in answer):
                raise QueryError(f"a group without records has a {self.name}; there is none")
            return
        if any(value is None for value in answer):
            raise QueryError(f"the answer to {self.name} is missing in a group with records")
        self.query.check_released(records or 0, answer, balanced)

    def _bound(self, model: Model) -> BoundQuery:
        """The query before it is divided by the records of a group: as if there were one."""
        return self.query.on(model, 1)

    def _distribution(self, bound: BoundQuery, scale: float) -> NoiseDistribution:
        return noise_of_scale(bound.noise, scale, len(bound.labels), bound.balanced and not self.independent)

    def _totals(self, bound: BoundQuery, records: int) -> tuple[float, float]:
        """Between what the answer lies before it is divided by the records of its group."""
        low, high = self.query.limits(bound.range, records) or (0.0, 1.0)
        times = records if self.query.averaged else 1
        return low * times, high * times

    def _total(self, group: GroupRecords) -> Fraction:
        """The exact answer for a group before it is divided."""
        assert isinstance(self.query, NumberQuery)
        assert group.numbers is not None
        return self.query.total(group.numbers)

    def _divide(self, numbers: Row, size: int) -> Row:
        if self.query.divided is None:
            return numbers
        size = size if self.sized else max(size, 1)
        return tuple(None if value is None or not size else value / size for value in numbers)


def noise_of_scale(kind: NoiseKind, scale: float, coordinates: int, balanced: bool) -> NoiseDistribution:
    """Noise of a scale on each number of a group; balanced noise that is too wide for its sampler is independent."""
    distribution = NoiseDistribution(kind=kind, scale=scale, coordinates=coordinates)
    return replace(distribution, balanced=balanced and distribution.counts_scale <= LARGEST_SCALE)


def scale_of(lipschitz: float, dp_loss: float) -> float:
    """L/tau, rounded up until it costs no more than tau."""
    scale = lipschitz / dp_loss
    while Fraction(lipschitz) > Fraction(scale) * Fraction(dp_loss):
        scale = math.nextafter(scale, math.inf)
    return scale


def takes_long(numbers: int, groups: int) -> bool:
    """Whether noise that adds up to 0 takes long to draw: rejection takes some 4·√k tries for k numbers."""
    return numbers > 2 and groups * 4 * math.sqrt(numbers) * numbers > _MOST_DRAWS


def noisy_rows(distribution: NoiseDistribution, exact: NDArray[np.int64], sampler: Sampler) -> list[Row]:
    """Noisy counts, a row for each group."""
    states = exact.shape[1]
    if not distribution.balanced:
        flat = in_doubles(sampler.discrete_laplace([int(v) for v in exact.ravel()], distribution.counts_scale))
        return [tuple(flat[at : at + states]) for at in range(0, len(flat), states)]
    noise = distribution.in_counts.draw_many(
        len(exact), lambda count, scale: sampler.discrete_laplace([0] * count, scale)
    )
    return [tuple(row) for row in (exact + np.array(noise, dtype=np.int64)).tolist()]


@dataclass(frozen=True)
class CrossQuestion(ClassicQuestion):
    """The histogram of pairs, shown with a row for each state of the first column."""

    query: Query = field(default_factory=HistogramQuery)

    @property
    def name(self) -> str:
        """The command line's spelling."""
        return "cross"

    def check(self, model: Model) -> None:
        """Refuse a model whose states are no pairs."""
        super().check(model)
        if any(label.count(PAIR_MARK) != 1 for label in model.labels):
            raise QueryError(
                "cross is a table of pairs of states, and the model is about single ones: a model of one column says "
                "nothing of the other; fit it with column='first,second'",
                value=self.name,
            )


def cross_table(
    labels: Sequence[str], numbers: Sequence[object], mark: str = PAIR_MARK
) -> tuple[list[str], dict[str, list[object]]]:
    """States of the second column, and a row of numbers for each of the first; None where a pair is not in the model.

    >>> cross_table(("a|x", "a|y", "b|y"), (1, 2, 3))
    (['x', 'y'], {'a': [1, 2], 'b': [None, 3]})
    """
    pairs = [label.partition(mark)[::2] for label in labels]
    columns = list(dict.fromkeys(second for _, second in pairs))
    rows: dict[str, list[object]] = {first: [None] * len(columns) for first, _ in pairs}
    for (first, second), number in zip(pairs, numbers, strict=True):
        rows[first][columns.index(second)] = number
    return columns, rows
