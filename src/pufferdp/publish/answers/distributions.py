"""For a problem: the distributions of its answer given a secret, in whole steps, whatever the model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.errors import ModelError, NotApplicableError, ParameterError
from pufferdp.bounds.chains.sums import ChainSums
from pufferdp.bounds.distributions.base import AnswerDistributions, Logs, TableDistributions, log_convolve
from pufferdp.bounds.distributions.networks import sum_distributions
from pufferdp.bounds.distributions.wasserstein import Pairs, coupling
from pufferdp.models.base import Model, RecordModel
from pufferdp.models.chain import MarkovChain, chains_of, series_of
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import FunctionQuery, Query
from pufferdp.publish.answers.secrets import Condition, Secret
from pufferdp.publish.noise import ROUNDING

_WIDEST: Final = 20_000
"""An answer with more possible values than this has no distribution that can be carried along."""
_LEAST: Final = 1e-30
"""Chains with smaller probabilities have distributions that fall too steeply to be carried along in reasonable time."""
_MOST_STEPS: Final = 5 * 10**9
"""Products that the distributions over a chain may take: a few seconds."""


@dataclass(frozen=True, eq=False)
class Grid:
    """An answer in whole steps."""

    steps: tuple[npt.NDArray[np.int64], ...]
    """For each record, or once for all: how many steps each of its states adds."""
    unit: Fraction
    """Size of a step in the answer's units, in L1."""
    inexact: float = 0.0
    """How far rounding of the values can move the answer, in its units."""
    least: Fraction = Fraction(0)
    """The answer at no step, for a sum of numbers."""

    def answers(self, outcomes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The answer in steps on each outcome (a row of state numbers, one for each record)."""
        return np.asarray(sum(steps[outcomes[:, i]] for i, steps in enumerate(self.steps)))


@dataclass(frozen=True, eq=False)
class Given:
    """Distributions of the answer under one model, and the unit of a distance between them."""

    distributions: AnswerDistributions
    unit: float
    inexact: float


def answer_distributions(problem: Problem) -> Iterator[Given]:
    """The distributions under every model of the class. Raises NotApplicableError where they cannot be had."""
    model = problem.model
    if model.arbitrary is not None:
        raise NotApplicableError("anything may hold inside a group, so no distribution of the answer can be given")
    if not (problem.query.adds_up or problem.query.each_state or isinstance(problem.query, FunctionQuery)):
        raise NotApplicableError(f"the distribution of a {problem.query.word} is not computed")
    if model.real_valued:
        raise NotApplicableError("compares distributions over states, and the records of this model are real numbers")
    series = series_of(model)
    if series is not None:
        if series.rhythm is not None:
            raise NotApplicableError("is worked out for one transition table, and a clock has several")
        if not series.chains:
            raise NotApplicableError(series.not_listed)
        for chain in series.chains:
            yield from _of_chain(problem, chain)
        return
    for member in model.record_models:
        yield _of_records(problem, member)


def grid(problem: Problem, domains: Sequence[Sequence[str]]) -> Grid | None:
    """The answer in whole steps, if it is one number or as good as one."""
    query, labels, share = problem.query, problem.model.labels, problem.query.share(problem.records)
    if query.each_state:
        if len(labels) > 2 or any(len(domain) != len(labels) for domain in domains):
            return None
        # Two bins that add up to the number of records: one count says it all, and moves twice in L1.
        return Grid(tuple(np.array([int(s == labels[-1]) for s in domain]) for domain in domains), 2 * share)
    numbers = query.numbers(problem.model)
    if numbers is None:
        return None
    return grid_of(dict(zip(labels, numbers, strict=True)), domains, problem.records, share)


def grid_of(
    numbers: Mapping[str, float], domains: Sequence[Sequence[str]], records: int, share: Fraction = Fraction(1)
) -> Grid:
    """A sum of the numbers of the states, times ``share``, in whole steps from its least value."""
    for exact in (True, False):
        # Decimal fractions such as 0.1 have a common step as they are written, not as doubles.
        value = {s: Fraction(v) if exact else Fraction(repr(v)) for s, v in numbers.items()}
        rows = [[value[s] for s in domain] for domain in domains]
        common_step = _common_step(rows)
        if common_step is not None:
            steps, unit = common_step
            largest = max(abs(v) for v in numbers.values())
            inexact = 0.0 if exact else 4 * records * largest * 2.0**-53 * float(share)
            least = sum((min(row) for row in rows), Fraction(0)) * (records if len(rows) == 1 else 1)
            return Grid(steps, unit * share, inexact, least * share)
    raise NotApplicableError(f"the values of the states have no common step that divides them into {_WIDEST} or fewer")


def _common_step(values: list[list[Fraction]]) -> tuple[tuple[npt.NDArray[np.int64], ...], Fraction] | None:
    above = [[v - least for v in row] for row, least in ((row, min(row)) for row in values)]
    places = [v for row in above for v in row if v]
    if not places:
        return tuple(np.zeros(len(row), dtype=np.int64) for row in above), Fraction(1)
    scale = math.lcm(*(v.denominator for v in places))
    unit = Fraction(math.gcd(*(int(v * scale) for v in places)), scale)
    if max(places) / unit > _WIDEST:
        return None
    return tuple(np.array([int(v / unit) for v in row]) for row in above), unit


def _of_chain(problem: Problem, chain: MarkovChain) -> Iterator[Given]:
    answer_grid = grid(problem, [chain.labels])
    if answer_grid is None:
        if isinstance(problem.query, FunctionQuery) and problem.records > problem.longest:
            raise NotApplicableError(
                "a function of your own sees all chains together; its distribution is known for one only"
            )
        for length, _ in problem.lengths:
            yield _of_paths(problem, chain, length)
        return
    least = min(
        float(distribution[distribution > 0].min())
        for distribution in (chain.transition, chain.stationary if chain.given_start is None else chain.given_start)
    )
    if least < _LEAST:
        raise NotApplicableError(
            f"a probability of the chain is {least:.1g}; distributions are compared down to {_LEAST:g}"
        )
    steps = answer_grid.steps[0]
    widest = int(steps.max()) * problem.records + 1
    starts = chain.size if chain.any_start else 1
    for length, _ in problem.lengths:
        width = int(steps.max()) * length + 1
        work = starts * _products(chain, length, steps)
        pairs = length * (starts * chain.size) ** 2 / 2 * width
        if work > _MOST_STEPS or width > _WIDEST or pairs * 40 > _MOST_STEPS:
            raise NotApplicableError(
                f"the distribution of the answer over {length:,} records of {chain.size} states takes too many steps "
                f"({max(work, pairs * 40):.1g}; the limit is {_MOST_STEPS:.0g})"
            )
        # Other chains only blur the answer: leaving them out is sound. So they are left out where they cost much, and
        # where their distribution is not known: another start, another chain of the class.
        known = not chain.any_start and problem.model.single
        together = known and widest <= _WIDEST and work * widest / width <= _MOST_STEPS
        rest = _rest(chain, problem.lengths, length, steps) if together else None
        yield Given(ChainSums(chain, length, steps.tolist(), rest), float(answer_grid.unit), answer_grid.inexact)


def _products(chain: MarkovChain, length: int, steps: npt.NDArray[np.int64]) -> float:
    """What the distributions of a sum given each value of each record take, by convolution of both sides."""
    return float(chain.size * length) * (int(steps.max()) * length + 1) ** 2


def chain_products(problem: Problem) -> float:
    """The work for the distributions of an answer that is one number, over all chains of a class together."""
    found = 0.0
    for chain in chains_of(problem.model):
        answer_grid = grid(problem, [chain.labels])
        if answer_grid is not None:
            found += sum(_products(chain, length, answer_grid.steps[0]) for length, _ in problem.lengths)
    return found


def _rest(
    chain: MarkovChain, lengths: Sequence[tuple[int, int]], own: int, steps: npt.NDArray[np.int64]
) -> Logs | None:
    """The distribution of the sum over all chains but one of length ``own``."""
    distribution: Logs | None = None
    for length, count in lengths:
        chain_distribution = ChainSums(chain, length, steps.tolist()).total() if count > (length == own) else None
        for _ in range(count - (length == own)):
            assert chain_distribution is not None
            distribution = (
                chain_distribution if distribution is None else log_convolve(distribution, chain_distribution)
            )
    return distribution


def _of_paths(problem: Problem, chain: MarkovChain, length: int) -> Given:
    """Answers of several numbers over a chain: every path, where there are few enough."""
    if chain.any_start:
        raise NotApplicableError("an answer of several numbers needs a chain with a definite start")
    if length * math.log2(chain.size) > 16:
        raise NotApplicableError(
            f"an answer of several numbers over {length} records of {chain.size} states has more than 65,536 paths"
        )
    from pufferdp.models.network import as_network  # seldom needed

    return _of_records(problem, as_network(chain, length))


def _of_records(problem: Problem, model: RecordModel) -> Given:
    answer_grid = grid(problem, model.domains)
    if answer_grid is not None:
        return Given(distributions_of_records(model, answer_grid), float(answer_grid.unit), answer_grid.inexact)
    try:
        rows, _ = model.outcomes()
    except ModelError as error:  # this way is closed; others need no list
        raise NotApplicableError(f"an answer that is not one number needs all outcomes: {error}") from error
    return Given(TableDistributions(model, _answers(problem, model, rows)), 1.0, 0.0)


def distributions_of_records(model: RecordModel, answer_grid: Grid) -> AnswerDistributions:
    """The distributions of an answer in whole steps. Raises NotApplicableError where they take too long."""
    return sum_distributions(model, answer_grid.steps)


def _answers(problem: Problem, model: RecordModel, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Answers of several numbers, or of a function of your own, on every outcome."""
    query = problem.query
    if isinstance(query, FunctionQuery):
        function = query.function
        values = [np.atleast_1d(np.asarray(function([row]), dtype=float)).ravel() for row in rows]
        answers = np.array(values)
        return answers[:, 0] if answers.shape[1] == 1 else answers
    place = {label: n for n, label in enumerate(problem.model.labels)}
    labels = [np.array([place[s] for s in domain]) for domain in model.domains]
    counts = np.zeros((len(rows), len(place)))
    for i, label in enumerate(labels):
        counts[np.arange(len(rows)), label[rows[:, i]]] += 1
    return counts * float(query.share(problem.records))


@dataclass(frozen=True, eq=False)
class AnswerDistribution:
    """The possible answers and their probabilities. Follows from the model alone; no data is read."""

    answers: npt.NDArray[np.float64]
    """The values of the answer, rising; one row each for an answer of several numbers. Sums count from their least."""
    probabilities: npt.NDArray[np.float64]

    def __repr__(self) -> str:
        return f"AnswerDistribution({len(self.answers)} answers)"


def answer_distribution(
    model: Model, query: Query | str, *, length: int | None = None, given: Condition | None = None
) -> AnswerDistribution:
    """The distribution of the exact answer to a query, given what is known of some records.

    >>> from pufferdp import Groups
    >>> clique = Groups(sizes=[4], positives=[[0.1, 0.15, 0.5, 0.15, 0.1]])
    >>> answer_distribution(clique, "count:1", given={"1": "0"}).probabilities.round(3).tolist()
    [0.2, 0.225, 0.5, 0.075, 0.0]
    """
    problem = Problem(
        model=model,
        query=Query.parse(query) if isinstance(query, str) else query,
        lengths=() if length is None else ((length, 1),),
        epsilon=1.0,
    )
    record_models = list(answer_distributions(problem))
    if len(record_models) > 1:
        raise ParameterError("the model is a class; the distribution of an answer needs one model")
    cells = [{}] if given is None else Secret(name="what is known", when=given).cells(problem.domains)
    log_distributions = record_models[0].distributions.event(cells)
    if log_distributions is None:
        raise ModelError(f"{given} has probability 0; nothing can be said given it", value=given)
    if len(log_distributions) > 1:
        raise ParameterError("the chain may have any start; the distribution of an answer needs a definite start")
    points = np.asarray(record_models[0].distributions.points, dtype=float) * record_models[0].unit
    return AnswerDistribution(points, np.exp(log_distributions[0]))


@dataclass(frozen=True)
class Moves:
    """A transport between two distributions on the same answers that carries nothing farther than it must."""

    answers: tuple[float, ...]
    """The answers that are possible under either distribution, rising."""
    first: tuple[float, ...]
    """Probability of each answer under the first distribution."""
    second: tuple[float, ...]
    """Probability of each answer under the second distribution."""
    moves: tuple[tuple[int, int, float], ...]
    """Moves as (from, to, mass), from and to as places among the answers."""
    distance: float
    """W-infinity: the length of the longest move, unless the mass that must go so far is lost in rounding."""

    def length(self, move: tuple[int, int, float]) -> float:
        """How far a move carries its mass."""
        return abs(self.answers[move[0]] - self.answers[move[1]])


def moves_between(
    distribution_first: AnswerDistribution, distribution_second: AnswerDistribution, most: int = 200
) -> Moves:
    """The quantile coupling of two distributions of an answer that is one number; too many bars are a grey block."""
    if distribution_first.answers.ndim != 1 or distribution_second.answers.ndim != 1:
        raise ParameterError("the answer is several numbers; a figure of a transport needs an answer of one number")
    distributions = [
        {float(x): float(p) for x, p in zip(distribution.answers, distribution.probabilities, strict=True) if p > 0}
        for distribution in (distribution_first, distribution_second)
    ]
    answers = sorted({x for distribution in distributions for x in distribution})
    if len(answers) > most:
        raise ParameterError(
            f"the distributions have {len(answers):,} possible answers; a figure shows at most {most}",
            value=len(answers),
        )
    first, second = ([distribution.get(x, 0.0) for x in answers] for distribution in distributions)
    points = np.array(answers)
    if all(x.is_integer() for x in answers):
        points = points.astype(np.int64)
    with np.errstate(divide="ignore"):  # masses that are equal in truth may differ by rounding: no noise depends on it
        worst = Pairs(points, np.log(first), np.log(second), ROUNDING).worst()
    distance = 0.0 if worst is None else worst.distance
    # Masses that differ in their last digits leave dust, which would be carried on to the next answer.
    moves = [
        (i, j, mass) for i, j, mass in coupling(answers, first, second) if abs(answers[i] - answers[j]) <= distance
    ]
    return Moves(tuple(answers), tuple(first), tuple(second), tuple(moves), distance)
