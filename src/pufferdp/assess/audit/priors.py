"""The prior of an adversary, ready to draw from: the unknown records given those they know and the one they want.

Every kind of model answers the same three questions: which values a record may have, how likely some values are, and
what the other records look like given these. Draws are exact: nothing is rejected and nothing is approximate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from pufferdp.assess.audit.mechanisms.ours import Records
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.models import simulate
from pufferdp.models.ar1 import ar1_of
from pufferdp.models.base import Model, RecordModel, impossible, label_values, most_outcomes, records_of
from pufferdp.models.chain import MarkovChain, series_of
from pufferdp.models.gaussian import Gaussian, numbers_of
from pufferdp.models.hidden import HiddenMarkov, hidden_of

Known = Mapping[int, float]
"""Values of some records by position, from 0: state numbers, or real numbers."""

_LISTED: Final = 2**16
"""Models with no more outcomes are drawn from a list of them."""


class Prior(Protocol):
    """One prior for a number of records."""

    @property
    def records(self) -> int:
        """How many records a data set has."""

    def name(self, record: int) -> str:
        """What a report calls a record."""

    def value(self, record: int, value: float) -> str:
        """What it calls a value of the record."""

    def values(self, record: int) -> tuple[float, ...]:
        """The values that are distinguished."""

    def near(self, record: int) -> tuple[tuple[int, ...], ...]:
        """The records correlated with this one, the nearest first; the record itself is not among them."""

    def log_probability(self, known: Known) -> float:
        """Of these values together: minus infinity where they cannot be, a log-density for real numbers."""

    def draw(self, known: Known, size: int, generator: np.random.Generator) -> Records:
        """So many data sets given these values, one row each; impossible values are refused."""


@dataclass(frozen=True, eq=False)
class SeriesPrior:
    """What series share: records are counted, and near ones are correlated."""

    chain: MarkovChain | HiddenMarkov
    records: int

    def name(self, record: int) -> str:
        """Records are counted from 1."""
        return f"record {record + 1}"

    def value(self, record: int, value: float) -> str:
        """The name of the record's state."""
        return self.chain.labels[int(value)]

    def values(self, record: int) -> tuple[float, ...]:
        """Every state, by its number."""
        return tuple(map(float, range(self.chain.size)))

    def near(self, record: int) -> tuple[tuple[int, ...], ...]:
        """The record before and the one after it, then those farther away, two by two."""
        far = range(1, max(record, self.records - 1 - record) + 1)
        return tuple(tuple(j for j in (record - d, record + d) if 0 <= j < self.records) for d in far)


@dataclass(frozen=True, eq=False)
class ChainPrior(SeriesPrior):
    """A series of a chain with a start."""

    chain: MarkovChain

    def log_probability(self, known: Known) -> float:
        """By one pass over the series."""
        return simulate.chain_log_probability(self.chain, self.records, _whole(known))

    def draw(self, known: Known, size: int, generator: np.random.Generator) -> Records:
        """Step by step, each by its distribution given the one before and what is known later."""
        return simulate.sample_chain(self.chain, self.records, size, generator, _whole(known))


@dataclass(frozen=True, eq=False)
class HiddenPrior(SeriesPrior):
    """A series of records drawn from hidden states, with a start."""

    chain: HiddenMarkov

    def log_probability(self, known: Known) -> float:
        """By one pass over the hidden states."""
        return simulate.hidden_log_probability(self.chain, self.records, _whole(known))

    def draw(self, known: Known, size: int, generator: np.random.Generator) -> Records:
        """Hidden states given what is known, then the records that are not."""
        return simulate.sample_hidden(self.chain, self.records, size, generator, _whole(known))


@dataclass(frozen=True, eq=False)
class TablePrior:
    """Records with states of their own: networks, families, groups, tables."""

    model: RecordModel

    @property
    def records(self) -> int:
        """All records of the model."""
        return len(self.model.records)

    def name(self, record: int) -> str:
        """The model's name for the record."""
        return f"record {self.model.records[record]}"

    def value(self, record: int, value: float) -> str:
        """The name of the record's state."""
        return self.model.domains[record][int(value)]

    def values(self, record: int) -> tuple[float, ...]:
        """Every state of the record."""
        return tuple(map(float, range(self.model.sizes[record])))

    def near(self, record: int) -> tuple[tuple[int, ...], ...]:
        """By distance in the graph of a network; in other models all that are correlated are equally near."""
        (model,) = self.model.record_models
        if model.tree is None:
            home = next(part for part in model.components if record in part)
            return (tuple(j for j in home if j != record),) if len(home) > 1 else ()
        seen, rings = {record}, list[tuple[int, ...]]()
        ring: tuple[int, ...] = (record,)
        while ring := tuple(sorted({w for v in ring for w in model.tree.links[v]} - seen)):
            seen.update(ring)
            rings.append(ring)
        return tuple(rings)

    def log_probability(self, known: Known) -> float:
        """By the model's own inference."""
        chance = float(self.model.joint((), {i: (int(x),) for i, x in known.items()}))
        return math.log(chance) if chance > 0 else -math.inf

    @cached_property
    def _listed(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]] | None:
        """Every outcome and its probability, where there are few."""
        if math.prod(self.model.sizes) > min(_LISTED, most_outcomes(self.records)):
            return None
        return self.model.outcomes()

    def draw(self, known: Known, size: int, generator: np.random.Generator) -> Records:
        """From the list of outcomes that fit, or record by record where there are too many."""
        names = {self.model.records[i]: self.model.domains[i][int(x)] for i, x in known.items()}
        if self._listed is None:
            return simulate.sample(self.model, size, generator, names)
        rows, distribution = self._listed
        fits = np.flatnonzero((rows[:, list(known)] == [int(x) for x in known.values()]).all(axis=1))
        if not len(fits):
            raise impossible(names)
        chosen = generator.choice(fits, size, p=distribution[fits] / distribution[fits].sum())
        return np.asarray(rows[chosen], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class NormalPrior:
    """Jointly normal records; two values of a record are distinguished that lie a clipping width apart."""

    model: Gaussian
    clip: tuple[float, float]

    @property
    def records(self) -> int:
        """The records of one family; families are independent."""
        return self.model.family

    def name(self, record: int) -> str:
        """The model's name for the record."""
        return f"record {self.model.records[record]}"

    def value(self, record: int, value: float) -> str:
        """The number, to six digits."""
        return f"{value:.6g}"

    def values(self, record: int) -> tuple[float, ...]:
        """Both ends of the clipping range."""
        return self.clip

    def near(self, record: int) -> tuple[tuple[int, ...], ...]:
        """The most correlated first."""
        home = next(part for part in self.model.components if record in part)
        spread = np.sqrt(np.diag(self.model.covariance))
        strength = np.abs(self.model.covariance[record]) / spread
        return tuple((j,) for j in sorted((j for j in home if j != record), key=lambda j: -strength[j]))

    def log_probability(self, known: Known) -> float:
        """The logarithm of their joint density."""
        from scipy.stats import multivariate_normal

        at = sorted(known)
        if not at:
            return 0.0
        distribution = multivariate_normal(self.model.mean[at], self.model.covariance[np.ix_(at, at)])
        return float(distribution.logpdf([known[i] for i in at]))

    def draw(self, known: Known, size: int, generator: np.random.Generator) -> Records:
        """The conditional distribution of normal records is normal."""
        return simulate.sample_normal(self.model, size, generator, known)


def priors_of(model: Model, length: int | None = None, clip: tuple[float, float] | None = None) -> tuple[Prior, ...]:
    """Priors of a class to draw from: all of a list, a few of those that are infinitely many.

    A lower bound under one prior of a class is one for the class.
    """
    series, numbers, records = series_of(model), numbers_of(model), records_of(model)
    autoregressive = ar1_of(model)
    if length is None and (series is not None or (autoregressive is not None and clip is not None)):
        raise ParameterError("length is missing; a series needs the number of records: give it with length=")
    if series is not None and length is not None:
        if series.rhythm is not None:
            raise NotApplicableError(
                "the model is a clock, and an audit draws series from one transition table: give a markov_chain"
            )
        hidden = hidden_of(model)
        if hidden is not None:
            return (HiddenPrior(replace(hidden, start="stationary") if hidden.any_start else hidden, length),)
        return tuple(ChainPrior(chain, length) for chain in series.definite_chains)
    if model.real_valued and clip is None:
        raise ParameterError("clip is missing; real numbers need the range that is distinguished: give clip=(A, B)")
    if numbers is not None and clip is not None:
        return (NormalPrior(numbers.example(clip), clip),)
    if autoregressive is not None and clip is not None and length is not None:
        return (NormalPrior(autoregressive.table(length, clip), clip),)
    if records is None:
        raise NotApplicableError(
            "the model says only how many records are correlated, and has no distribution to draw from: give groups "
            "with sizes and positives, or a joint table"
        )
    return tuple(TablePrior(member) for member in records.alternatives)


def states_handed_over(prior: Prior) -> tuple[object, ...] | None:
    """What stands for each state number in the data that a mechanism from outside is given: names, as data has them.

    Names that are all numbers are numbers. None hands over state numbers: where records are numbers themselves, or
    have states of different names.
    """
    if isinstance(prior, SeriesPrior):
        labels: tuple[str, ...] = tuple(prior.chain.labels)
    elif isinstance(prior, TablePrior) and len({tuple(domain) for domain in prior.model.domains}) == 1:
        labels = tuple(prior.model.domains[0])
    else:
        return None
    numbers = label_values(None, labels)
    if numbers is None:
        return labels
    return tuple(int(x) for x in numbers) if all(x.is_integer() for x in numbers) else numbers


def opposite_records(prior: Prior) -> list[Records]:
    """A few data sets, one row each, every two of which differ in every record that can: all in one state."""
    most = max(len(prior.values(i)) for i in range(prior.records))
    rows = [[prior.values(i)[n % len(prior.values(i))] for i in range(prior.records)] for n in range(min(most, 4))]
    if isinstance(prior, NormalPrior):
        return [np.array([row], dtype=np.float64) for row in rows]
    return [np.array([row], dtype=np.int64) for row in rows]


def _whole(known: Known) -> dict[int, int]:
    return {t: int(x) for t, x in known.items()}


def possible(prior: Prior, known: Known) -> bool:
    """Whether these values can be together."""
    return prior.log_probability(known) > -math.inf
