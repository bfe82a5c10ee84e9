"""Whether a chain describes its data: what a fit asks of the records that it was made from.

Each check but the last asks whether, given a state, its successor is independent of something else: the state before
it, the hour, the half of the series, the person. Under a chain the successors of a state are independent draws from its
row, so a table of the successors by that other thing is as if its rows were dealt at random (Anderson & Goodman 1957).
Pearson's statistic is added up over the states. Its mean and variance, given the margins, are exact (Haldane 1940;
Dawson 1954), and its distribution is taken to be the gamma distribution with this mean and variance. Where all counts
are large that is the chi-square distribution with the degrees of freedom given; where some are small it stays honest.
Rare rows and columns are pooled until no cell expects less than ``LEAST`` records, by the margins alone, so that
pooling favours neither answer.

The last check is for numbers that were put into bins: given their states, numbers are taken to be independent.

All of this reads the exact data. It is for the owner of the data, and it is no part of the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats
from pufferdp.data.expressions import STEPS
from pufferdp.data.series import StatePath

Codes = npt.NDArray[np.int64]

LEVEL: Final = 0.01
"""No check accuses a true chain more often."""
TOGETHER: Final = 0.02
"""All checks together accuse a true chain no more often: with more than two, each gets a smaller level (Bonferroni)."""
LEAST: Final = 2.0
"""Records that each cell of a table expects at least."""
LEAST_P: Final = 1e-300
"""Smaller p-values are given as this."""
HOURS: Final = 24
_LEAST_DAYS: Final = 3
_LEAST_PRODUCTS: Final = 50
"""Pairs of numbers that differ inside their bins: fewer say too little."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One question to the data."""

    name: str
    """``second-order``, ``clock``, ``drift``, ``people``, ``together``, ``season``, ``start``, ``inside-bins``,
    ``row-order``, and of numbers ``shape`` and ``variance``."""
    question: str
    """What is compared, in words."""
    statistic: float | None = None
    degrees_of_freedom: int | None = None
    p_value: float | None = None
    """How likely a true chain is to look at least as odd; None where it was not checked."""
    effect: float | None = None
    """How far the data are from the model, however many they are: the root of the chi-square above its mean for each
    record (0.1 is small, 0.3 medium, 0.5 large); for people together the share of records that agree beyond chance."""
    level: float | None = None
    """Below this p-value the model fails."""
    reason: str = ""
    """Why the check was not run; empty where it was."""
    advice: str = ""
    """What to do where the model fails."""

    @property
    def holds(self) -> bool | None:
        """Whether the model passes; None where it was not checked."""
        return None if self.p_value is None or self.level is None else self.p_value >= self.level

    def to_dict(self) -> dict[str, Any]:
        """As in ``fit --json``: the advice where it is needed alone."""
        out = {**asdict(self), "holds": self.holds}
        return out if self.holds is False else {**out, "advice": ""}


ADVICE: Final = {
    "second-order": "the state before the last one matters: hidden states describe these data better: "
    'fit(family="hidden")',
    "clock": 'the transitions depend on the hour: fit a time-of-day model, fit(clock="hour"), or hidden states by '
    'hour, fit(family="hidden", clock="hour")',
    "drift": "the moves change with time: fit the segment that you will release, or use a class that holds for "
    "both halves (a fit with a confidence on each, or a markov_class of the two)",
    "people": "people move differently: fit a model for each person and release with them, or with a class of them",
    "inside-bins": "numbers inside a bin follow their neighbours, and the guarantee for a sum or a mean through these "
    'bins assumes that they do not: model the numbers themselves (fit(family="ar1")), or release counts of the bins',
}
QUESTIONS: Final = {
    "second-order": "first order against second",
    "clock": "one matrix against a clock of 24 hours",
    "drift": "first half against second half",
    "people": "people alike",
    "together": "people independent of each other",
    "inside-bins": "numbers inside bins, given their states",
}


def check_model(path: StatePath | None, others: Iterable[Check] = ()) -> tuple[Check, ...]:
    """Every check that the records allow, and others, each at its level; without a path the others alone."""
    tests = list(others)
    if path is not None:
        tests = [_second_order(path), *_clock(path), _drift(path), *_people(path), *_inside_bins(path), *tests]
    made = sum(test.p_value is not None for test in tests)
    level = min(LEVEL, TOGETHER / max(made, 1))
    return tuple(
        replace(
            test, level=level if test.p_value is not None else None, advice=test.advice or ADVICE.get(test.name, "")
        )
        for test in tests
    )


def _second_order(path: StatePath) -> Check:
    """Given a state, the one before it and the one after it."""
    middle = np.flatnonzero(path.joined[1:-1] & path.joined[2:]) + 1
    codes = path.codes
    return _test("second-order", independence(codes[middle], codes[middle - 1], codes[middle + 1]))


def _clock(path: StatePath) -> Iterator[Check]:
    """Given a state, the hour and the state after it; only where the order column holds times."""
    if path.hours is None:
        return
    days = len(np.unique(path.hours // HOURS))
    if days < _LEAST_DAYS:
        yield unchecked("clock", f"the records lie on {days} day(s), and a daily rhythm shows from {_LEAST_DAYS} on")
        return
    before = np.flatnonzero(path.joined[1:])
    slots = path.hours[before] % HOURS
    yield _test("clock", independence(path.codes[before], slots, path.codes[before + 1], ordered=True))


def _drift(path: StatePath) -> Check:
    """Given a state, the half of its person's series and the state after it."""
    before = np.flatnonzero(path.joined[1:])
    return _test("drift", independence(path.codes[before], path.halves[before], path.codes[before + 1], ordered=True))


def _people(path: StatePath) -> Iterator[Check]:
    """Given a state, the person and the state after it; only where people are distinguished."""
    if not path.by_person:
        return
    before = np.flatnonzero(path.joined[1:])
    yield _test("people", independence(path.codes[before], path.persons[before], path.codes[before + 1], ordered=True))


@dataclass(frozen=True, kw_only=True)
class Pearson:
    """Pearson's statistic over several tables, with the moments that it has when rows are dealt at random."""

    statistic: float
    degrees_of_freedom: int
    mean: float
    variance: float
    records: int

    @property
    def effect(self) -> float:
        """The root of what the statistic has above its mean, for each record."""
        return math.sqrt(max(0.0, self.statistic - self.mean) / self.records)

    @property
    def p_value(self) -> float:
        """By the gamma distribution of this mean and variance."""
        from scipy.special import gammaincc

        shape, scale = self.mean**2 / self.variance, self.variance / self.mean
        return max(LEAST_P, float(gammaincc(shape, self.statistic / scale)))


def independence(strata: Codes, rows: Codes, columns: Codes, ordered: bool = False) -> Pearson | None:
    """Whether rows and columns are independent in each stratum; None where too few records say anything.

    Rows that are ``ordered`` are pooled with their neighbours, others with rows that are about as rare. The latter is
    not for people: how often a person is seen in a state depends on how soon they leave it, and to pool them by it
    would accuse true chains.
    """
    statistic = mean = variance = 0.0
    freedom = records = 0
    for table in _tables(strata, rows, columns):
        pooled = pool(table, ordered)
        if pooled is None:
            continue
        high, wide = pooled.shape
        statistic += pearson(pooled)
        expected, spread = moments(pooled.sum(axis=1), pooled.sum(axis=0))
        mean, variance, freedom = mean + expected, variance + spread, freedom + (high - 1) * (wide - 1)
        records += int(pooled.sum())
    if not freedom:
        return None
    return Pearson(statistic=statistic, degrees_of_freedom=freedom, mean=mean, variance=variance, records=records)


def _tables(strata: Codes, rows: Codes, columns: Codes) -> Iterator[npt.NDArray[np.int64]]:
    """The counts of each stratum, without rows and columns that do not occur in it."""
    if not len(strata):
        return
    high, wide = int(rows.max()) + 1, int(columns.max()) + 1
    keys = (strata * high + rows) * wide + columns
    cells, numbers = np.unique(keys, return_counts=True)
    stratum, rest = np.divmod(cells, high * wide)
    row, column = np.divmod(rest, wide)
    for part in np.split(np.arange(len(cells)), np.flatnonzero(np.diff(stratum)) + 1):
        row_names, row_at = np.unique(row[part], return_inverse=True)
        column_names, column_at = np.unique(column[part], return_inverse=True)
        table = np.zeros((len(row_names), len(column_names)), dtype=np.int64)
        table[row_at, column_at] = numbers[part]
        yield table


def pool(table: npt.NDArray[np.int64], ordered: bool) -> npt.NDArray[np.int64] | None:
    """The table with rare rows and columns pooled: of several ways the one with the most degrees of freedom.

    None where no two rows and two columns are left.
    """
    total = int(table.sum())
    if min(table.shape) < 2 or total <= 3:
        return None
    table = table[:, np.argsort(-table.sum(axis=0), kind="stable")]
    table = table if ordered else table[np.argsort(-table.sum(axis=1), kind="stable")]
    widths = table.sum(axis=0)
    wide, best = len(widths), (0, 0, [0])
    for kept in sorted({wide, *(min(wide, 2 + round(1.5**step)) for step in range(-2, 12)), 2}):
        # The most frequent columns as they are, the others as one.
        least = min(int(widths[: kept - 1].min()), int(widths[kept - 1 :].sum()))
        starts = _packed(table.sum(axis=1), LEAST * total / least)
        best = max(best, ((len(starts) - 1) * (kept - 1), kept, starts), key=lambda way: way[0])
    freedom, kept, starts = best
    if not freedom:
        return None
    merged = np.add.reduceat(table, starts, axis=0)
    return np.asarray(np.column_stack([merged[:, : kept - 1], merged[:, kept - 1 :].sum(axis=1)]))


def _packed(sizes: npt.NDArray[np.int64], least: float) -> list[int]:
    """Where groups of neighbouring rows begin, each of at least so many records; what is left joins the last."""
    starts, filled = [0], 0.0
    for place, size in enumerate(sizes.tolist()):
        if filled >= least:
            starts.append(place)
            filled = 0.0
        filled += size
    return starts[:-1] if filled < least and len(starts) > 1 else starts


def pearson(table: npt.NDArray[np.int64]) -> float:
    """Pearson's statistic: N·(Σ n²/(R·C) − 1)."""
    total = table.sum()
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / total
    return float(((table - expected) ** 2 / expected).sum())


def moments(rows: Sequence[int] | npt.NDArray[np.int64], columns: Sequence[int] | npt.NDArray[np.int64]) -> Any:
    """Mean and variance of Pearson's statistic over all tables with these margins, dealt at random (Dawson 1954)."""
    n = float(np.sum(rows))
    r, c = len(rows), len(columns)
    v = [(k - 1) * (n - k) / (n - 1) for k in (r, c)]
    w = [(float((n / np.asarray(s, dtype=float)).sum()) - len(s) ** 2) / (n - 2) for s in (rows, columns)]
    mean = n / (n - 1) * (r - 1) * (c - 1)
    return mean, 2 * n / (n - 3) * (v[0] - w[0]) * (v[1] - w[1]) + n * n / (n - 1) * w[0] * w[1]


def _inside_bins(path: StatePath) -> Iterator[Check]:
    """Whether the rank of a number within its bin goes along with the number that follows; only where there are bins.

    Given the states, ranks within a bin have mean 0 whatever follows, so the sum of their products with anything that
    is made of the next record has mean 0, and its variance is estimated by the sum of the squares. Ranks make it
    robust: no number weighs more than another.
    """
    if path.numbers is None:
        return
    before = np.flatnonzero(path.joined[1:])
    inside, overall = _ranks(path.codes, path.numbers)
    following = _centred(overall[before + 1], path.codes[before])
    products = inside[before] * following
    squares = float((products**2).sum())
    if np.count_nonzero(products) < _LEAST_PRODUCTS:
        yield unchecked("inside-bins", "too few numbers differ inside their bins")
        return
    statistic = float(products.sum()) ** 2 / squares
    yield Check(
        name="inside-bins",
        question=QUESTIONS["inside-bins"],
        statistic=statistic,
        degrees_of_freedom=1,
        p_value=max(LEAST_P, math.erfc(math.sqrt(statistic / 2))),
        effect=math.sqrt(max(0.0, statistic - 1) / np.count_nonzero(products)),
    )


def _ranks(codes: Codes, numbers: Codes) -> tuple[Floats, Floats]:
    """The rank of each number within its bin and among all, ties in the middle, from -1/2 to 1/2.

    Bins rise with their numbers, so one order serves for both.
    """
    key = codes * (STEPS + 1) + numbers
    order = np.argsort(key)
    ordered, groups = key[order], codes[order]
    edges = np.concatenate([[0], np.flatnonzero(np.diff(ordered)) + 1, [len(key)]])
    middle = np.repeat((edges[:-1] + edges[1:]) / 2, np.diff(edges))
    firsts = np.concatenate([[0], np.flatnonzero(np.diff(groups)) + 1, [len(key)]])
    sizes = np.diff(firsts)
    inside, overall = np.empty(len(key)), np.empty(len(key))
    inside[order] = (middle - np.repeat(firsts[:-1], sizes)) / np.repeat(sizes, sizes) - 0.5
    overall[order] = middle / len(key) - 0.5
    return inside, overall


def _centred(values: Floats, groups: Codes) -> Floats:
    """Each value less the mean of its group."""
    sums, sizes = np.bincount(groups, values), np.bincount(groups)
    return np.asarray(values - (sums / np.maximum(sizes, 1))[groups])


def _test(name: str, result: Pearson | None) -> Check:
    return of_pearson(name, QUESTIONS[name], result)


def of_pearson(name: str, question: str, result: Pearson | None, advice: str = "") -> Check:
    """The check of a table, or that too few records say anything."""
    if result is None:
        return unchecked(name, "too few records for it", question)
    return Check(
        name=name,
        question=question,
        statistic=result.statistic,
        degrees_of_freedom=result.degrees_of_freedom,
        p_value=result.p_value,
        effect=result.effect,
        advice=advice,
    )


def unchecked(name: str, reason: str, question: str = "") -> Check:
    """A check that was not made, and why."""
    return Check(name=name, question=question or QUESTIONS[name], reason=reason)
