"""What the noisy answer says about the true one: its posterior under the model, and intervals from the noise alone.

The model is public, so this costs no privacy: everything here follows from the released answer and from facts that are
public already. No function of this module is given an exact answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, distinct
from pufferdp.basics.errors import NotApplicableError, ParameterError, PufferdpError
from pufferdp.bounds.chains.sums import SumDistribution, chain_total, clock_total
from pufferdp.models.ar1 import ar1_of
from pufferdp.models.base import Model
from pufferdp.models.chain import chains_of, series_of
from pufferdp.models.clock import clock_of
from pufferdp.models.files.json import model_from_dict
from pufferdp.models.gaussian import Gaussian, numbers_of
from pufferdp.models.hidden import hidden_of, is_hidden
from pufferdp.publish.answers.distributions import Grid, distributions_of_records, grid_of
from pufferdp.publish.answers.problem import Problem, Remembered
from pufferdp.publish.answers.queries import BoundQuery, FunctionQuery, Query
from pufferdp.publish.model_checks import ModelChecks
from pufferdp.publish.noise import NoiseDistribution, NoiseKind

Answer = int | float | list[int] | list[float]
LEAST_SURPRISE: Final = 1e-12
"""Smaller probabilities are rounding, and are given as this."""

HARDLY: Final = 1e-3
"""Below this probability of an answer at least as extreme, the model is said to fit poorly."""
MISFIT: Final = (
    "poor fit: under the model, an answer this extreme has probability below 0.001. Do not rely on the model-based "
    "estimates; the intervals from the noise alone stay valid"
)
"""The warning of its certificate."""


def feasible(bound: BoundQuery, records: int, answer: Answer) -> Answer:
    """The nearest answer that could be true: counts between 0 and T, histograms that add up to T, sums in range."""
    query, limits = bound.query, bound.query.limits(bound.range, records)
    if limits is None:
        return answer
    values = np.asarray(answer if isinstance(answer, list) else [answer], dtype=float)
    if query.each_state:
        total = limits[1]
        values = simplex(values, total) if bound.extent is None else _box(values, total, np.array(bound.extent))
    elif bound.extent is not None:
        values = np.clip(values, *bound.extent[0])
    else:
        values = np.clip(values, *limits)
    numbers = [float(v) for v in values]
    return numbers if isinstance(answer, list) else numbers[0]


def _box(values: Floats, total: float, extent: Floats) -> Floats:
    """Euclidean projection onto {low ≤ v ≤ high, Σv = total}: move all by one amount, cut at both ends."""
    low, high = extent.T
    # The sum falls as the amount rises, by straight lines between these bends.
    bends = distinct(np.concatenate([values - low, values - high]))
    sums = np.array([np.clip(values - bend, low, high).sum() for bend in bends])
    amount = np.interp(-total, -sums, bends)
    return np.asarray(np.clip(values - amount, low, high))


def simplex(values: Floats, total: float | Floats) -> Floats:
    """Euclidean projection onto {v ≥ 0, Σv = total}: lower all by one amount, cut at 0 (Held, Wolfe & Crowder 1974).

    Along the last axis: one vector, or many at once, each with a total of its own above 0.
    """
    ordered = np.sort(values, axis=-1)[..., ::-1]
    excess = np.cumsum(ordered, axis=-1) - total
    rank = np.arange(1, values.shape[-1] + 1)
    last = len(rank) - 1 - np.argmax((ordered - excess / rank > 0)[..., ::-1], axis=-1, keepdims=True)
    amount = np.take_along_axis(excess, last, axis=-1) / (last + 1)
    return np.asarray(np.maximum(values - amount, 0.0))


PROBABILITY: Final = 0.95
"""What a credible interval holds at least."""
LEAST_COVERAGE: Final = 0.9
"""A model whose credible intervals contain the truth less often, on held-out data, gives no estimates."""
_TAIL: Final = (1 - PROBABILITY) / 2 - 1e-9
"""Mass that may be cut off at each end: a little less, so that ties are not decided by rounding."""
_MOST_SHIFT: Final = 1e-6
"""The share of the posterior that rounding of the prior may move. Where it could be more, there is no estimate."""
Numbers = float | None | list[float | None]


@dataclass(frozen=True, kw_only=True)
class ModelEstimate:
    """The posterior of the true answer given the noisy one: a number each, or one for each label.

    ``mean``, ``low`` and ``high`` are None where the answer lies so far out that nothing can be said under the model,
    and in a release wherever the model hardly explains the answer.
    """

    mean: Numbers
    """The posterior mean: of all estimates the one with the least expected squared error, if the model is right."""
    low: Numbers
    high: Numbers
    """The ends of the credible interval: equal-tailed, both ends inside. It holds at least ``probability``."""
    probability: float = PROBABILITY
    surprise: float | list[float] = 1.0
    """How likely the model thinks an answer at least this far out, on either side. A free check of the model."""

    def to_dict(self) -> dict[str, Any]:
        """As in the part ``model_estimate`` of a certificate."""
        return asdict(self)


def hardly_explained(surprise: float | Sequence[float]) -> bool:
    """Whether the model fails its test. Several numbers get as many chances to look odd, so each counts less."""
    far = [surprise] if isinstance(surprise, (int, float)) else list(surprise)
    return min(far) * len(far) < HARDLY


def left_out(posterior: ModelEstimate) -> ModelEstimate:
    """The surprise alone: where the model fails its test, its posterior tells nothing."""
    none: Numbers = [None] * len(posterior.mean) if isinstance(posterior.mean, list) else None
    return replace(posterior, mean=none, low=none, high=none)


@dataclass(frozen=True, eq=False)
class AnswerPrior:
    """The distribution of one coordinate of the exact answer under the model, in the answer's units."""

    points: Floats
    distribution: SumDistribution


_PRIORS: Final[Remembered[AnswerPrior | None]] = Remembered(64)
_MOST_PAIRS: Final = 2**12
"""Pairs of a hidden state and a record up to which their chain is made: of ten thousand its table takes 3 GB."""
_SMALL: Final = 2**16
"""Distributions of more places than this are not kept: 64 of them would take 100 MB and more."""


def model_estimate_of(problem: Problem, answer: Answer, noise: NoiseDistribution) -> ModelEstimate | None:
    """The posterior of the true answer given the noisy one; None where its prior is not unique or too costly.

    ``noise`` is that of the calibration. What is drawn is wider by what its rounding may cost: about 1e-15 of the
    scale, which shows in no digit that is printed.
    """
    query, labels = problem.query, problem.bound.labels
    noisy = [float(v) for v in answer] if isinstance(answer, list) else [float(answer)]
    try:
        numbers = numbers_of(problem.model)
        if numbers is not None and numbers.normal is not None:
            assert noise.kind is NoiseKind.LAPLACE  # no curve for real numbers carries a delta over
            return _of_numbers(problem, numbers.normal, noisy[0], noise.scale)
        if not query.each_state:
            prior = answer_prior(problem)
            return None if prior is None else _posterior_of_number(prior, noisy[0], noise)
        if len(labels) == 2:
            prior = answer_prior(problem, labels[1])
            return (
                None if prior is None else _posterior_of_pair(prior, noisy, noise, problem.records * problem.bound.unit)
            )
        posteriors = []
        for label, value in zip(labels, noisy, strict=True):
            prior = answer_prior(problem, label)
            if prior is None:
                return None
            posteriors.append(_posterior_of_number(prior, value, noise))
    except NotApplicableError:
        return None
    return _by_coordinate(posteriors)


def answer_prior(problem: Problem, label: str | None = None) -> AnswerPrior | None:
    """The distribution of the exact answer, or of one number of a histogram; None where the model leaves it open.

    Raises NotApplicableError where it takes too long.
    """
    return _PRIORS.get(problem, label, lambda: _answer_prior(problem, label), _is_small)


def _is_small(prior: AnswerPrior | None) -> bool:
    return prior is None or len(prior.points) <= _SMALL


def _answer_prior(problem: Problem, label: str | None) -> AnswerPrior | None:
    model, query = problem.model, problem.query
    if _no_one_distribution(model, query, unobserved=problem.unobserved, part=problem.part):
        return None
    numbers = query.numbers(model) if label is None else [float(other == label) for other in model.labels]
    if numbers is None:
        return None
    chains, clock, hidden = chains_of(model), clock_of(model), hidden_of(model)
    if hidden is not None:
        if len(hidden.pair_records) > _MOST_PAIRS:
            raise NotApplicableError(f"there are more than {_MOST_PAIRS:,} pairs of a hidden state and a record")
        chains = (hidden.pair_chain,)
    value = dict(zip(model.labels, numbers, strict=True))
    if chains or clock is not None:
        grid = grid_of(value, [model.labels], problem.records)
        shares = 1 if label is None or len(model.labels) == 2 else len(model.labels)
        steps = grid.steps[0] if hidden is None else grid.steps[0][hidden.pair_records]
        if clock is None:
            distribution = chain_total(chains[0], problem.lengths, steps, shares)
        else:
            distribution = clock_total(clock, problem.lengths, steps, shares)
        places = np.arange(len(distribution.masses))
    else:
        member = model.record_models[0]
        grid = grid_of(value, member.domains, problem.records)
        try:
            distributions = distributions_of_records(member, grid)
            logs = distributions.event([{}])
        except PufferdpError as error:  # too many outcomes to list, too large a table
            raise NotApplicableError(str(error)) from error
        assert logs is not None
        # These distributions are sums of products of positive numbers: right to many digits however small.
        distribution, places = SumDistribution(np.exp(logs[0])), np.asarray(distributions.points)
    share = problem.records if query.averaged else 1
    return AnswerPrior(_answers(grid, places) / share, distribution)


def why_no_model_estimate(certificate: Mapping[str, Any]) -> str:
    """Why a certificate has no posterior."""
    query, data = certificate["query"], certificate["data"]
    asked = stated_query(query)
    if asked is None:
        return _FUNCTION
    unobserved = data.get("assumptions") is not None and data["dropped"] + (data.get("unobserved") or 0) > 0
    model = model_from_dict(certificate["model"])
    return _no_one_distribution(model, asked, unobserved=unobserved, part=data.get("part") is True) or _TOO_LONG


def why_not_shown(certificate: Mapping[str, Any]) -> str:
    """Why no page shows the posterior of a certificate; empty where its model is known to be right often enough."""
    checked = ModelChecks.of(model_from_dict(certificate["model"])).effective
    if checked is None:
        return "the model was not checked against data (pufferdp fit or check)"
    return "" if checked.coverage is not None else "the checks of the model do not say how often it would be right"


_TOO_LONG: Final = "its distribution has too many values, or takes too long to work out"
_FUNCTION: Final = "the distribution of a function of your own is not known"


def _no_one_distribution(model: Model, query: Query, *, unobserved: bool, part: bool) -> str:
    """Why the exact answer has no one distribution under the model, in words; empty where it has one."""
    if isinstance(query, FunctionQuery):
        return _FUNCTION
    if not (query.adds_up or query.each_state):
        return f"the distribution of a {query.word} is not computed"
    checked = ModelChecks.of(model).effective
    if checked is not None and checked.coverage is not None and checked.coverage < LEAST_COVERAGE:
        return (
            f"on held-out data its {100 * PROBABILITY:g} % credible intervals contained the truth in "
            f"{100 * checked.coverage:.0f} % of simulated releases"
        )
    if ar1_of(model) is not None:
        return "the guarantee rests on the coefficient alone, and assumes nothing about the mean and spread of records"
    numbers = numbers_of(model)
    if numbers is not None:
        return (
            ""
            if numbers.normal is not None
            else "the guarantee is for many models, each with a distribution of its own"
        )
    if query.reads_numbers(model):
        return "the model says nothing about how numbers lie within their states"
    clock, series = clock_of(model), series_of(model)
    if is_hidden(model) and series is not None and series.rhythm is not None:
        return "the distribution of an answer is not computed for hidden states by time of day"
    hidden = hidden_of(model)
    chains = chains_of(model) if hidden is None else (hidden.hidden_chain,)
    if len(chains) + len(model.record_models) + (clock is not None) != 1:
        return "the guarantee is for many models, each with a distribution of its own"
    if chains and chains[0].any_start:
        return "the guarantee is for every start, and each has a distribution of its own"
    if unobserved and (chains or clock is not None):
        return "records are missing between those read, and where they are missing is not part of the certificate"
    if part and chains and chains[0].given_start is not None:
        return "the distribution of the first record read depends on how far it is from the start"
    return ""


def _answers(grid: Grid, places: npt.NDArray[Any]) -> Floats:
    return np.asarray(float(grid.least) + float(grid.unit) * places, dtype=float)


def posterior(prior: AnswerPrior, heights: Floats) -> Floats | None:
    """P(true answer | noisy answer), from the logs of how likely the noisy answer is given each true one.

    None where the weight rests on masses that are rounding. That is a matter of use, not of privacy: a wrong
    distribution here would make a poor estimate, but still one that follows from the noisy answer and public facts
    alone.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(prior.distribution.masses) + heights
    if not np.isfinite(logs).any():
        return None
    # What every mass could add by rounding, against what there is; largest terms first, so that nothing underflows.
    top = heights.max()
    possible = prior.distribution.rounding * float(np.exp(heights - top).sum())
    if possible > _MOST_SHIFT * float(np.exp(logs - top).sum()):
        return None
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def surprise(prior: AnswerPrior, noisy: float, noise: NoiseDistribution) -> float:
    """P(an answer at least this far out, on the side where it lies), twice: under the model, noise included."""
    above = float(prior.distribution.masses @ _at_least(prior, noisy - prior.points, noise))
    below = float(prior.distribution.masses @ _at_least(prior, prior.points - noisy, noise))
    return min(1.0, max(LEAST_SURPRISE, 2 * min(above, below)))


def _at_least(prior: AnswerPrior, gaps: Floats, noise: NoiseDistribution) -> Floats:
    """P(noise ≥ gap) for each gap, in the answer's units; counts are rounded to whole ones."""
    if noise.scale == 0:
        # The answer is one of the points, up to the rounding of a sum.
        return np.asarray(gaps <= 1e-9 * max(1.0, float(np.abs(prior.points).max())), dtype=float)
    with np.errstate(over="ignore"):
        return noise.at_least(gaps)


def summary(points: Floats, distribution: Floats) -> tuple[float, float, float]:
    """Mean and equal-tailed interval: at most 2.5 % lie below ``low`` and at most 2.5 % above ``high``."""
    low = int(np.searchsorted(np.cumsum(distribution), _TAIL, side="right"))
    high = len(distribution) - 1 - int(np.searchsorted(np.cumsum(distribution[::-1]), _TAIL, side="right"))
    mean = min(max(float(points @ distribution), float(points[0])), float(points[-1]))
    return mean, float(points[low]), float(points[high])


def _posterior_of_number(prior: AnswerPrior, noisy: float, noise: NoiseDistribution) -> ModelEstimate:
    far = surprise(prior, noisy, noise)
    if noise.scale == 0:
        return ModelEstimate(mean=noisy, low=noisy, high=noisy, surprise=far)
    distribution = posterior(prior, _log_weights(noise, noisy - prior.points))
    mean, low, high = (None, None, None) if distribution is None else summary(prior.points, distribution)
    return ModelEstimate(mean=mean, low=low, high=high, surprise=far)


def _log_weights(noise: NoiseDistribution, gaps: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return noise.log_weights(gaps)


def _posterior_of_pair(prior: AnswerPrior, noisy: list[float], noise: NoiseDistribution, total: float) -> ModelEstimate:
    """Two labels: c of the second and total − c of the first. Both tell of c where each has noise of its own."""
    other = replace(prior, points=total - prior.points)
    far = [surprise(other, noisy[0], noise), surprise(prior, noisy[1], noise)]
    if noise.scale == 0:
        same: list[float | None] = [*noisy]
        return ModelEstimate(mean=same, low=same, high=same, surprise=far)
    heights = _log_weights(noise, noisy[1] - prior.points)
    if not noise.balanced:
        heights = heights + _log_weights(noise, noisy[0] - other.points)
    distribution = posterior(prior, heights)
    if distribution is None:
        none: list[float | None] = [None, None]
        return ModelEstimate(mean=none, low=none, high=none, surprise=far)
    mean, low, high = summary(prior.points, distribution)
    return ModelEstimate(mean=[total - mean, mean], low=[total - high, low], high=[total - low, high], surprise=far)


def normal_estimate(mean: float, variance: float, noisy: float, scale: float) -> ModelEstimate:
    """The posterior of an answer whose distribution is normal, given it with Laplace noise.

    A sum of jointly normal records is normal. Where records are clipped it is only nearly so (`clipped_moments`), and
    then the posterior is an approximation. Still, nothing but the noisy answer and public numbers goes into it.
    """
    from pufferdp.bounds.additive.posterior import normal_posterior, normal_surprise  # for real numbers alone

    far = max(LEAST_SURPRISE, normal_surprise(mean, variance, noisy, scale))
    middle, low, high = normal_posterior(mean, variance, noisy, scale, _TAIL)
    return ModelEstimate(mean=middle, low=low, high=high, surprise=far)


def _of_numbers(problem: Problem, model: Gaussian, noisy: float, scale: float) -> ModelEstimate | None:
    """A sum or mean of clipped numbers over independent copies of a family, taken as normal."""
    if problem.query.clip is None or problem.bound.range is None:
        return None
    from pufferdp.bounds.additive.posterior import clipped_moments

    mean, variance = clipped_moments(model.mean, model.covariance, *problem.query.clip)
    copies = sum(count for _, count in problem.lengths)
    share = float(problem.query.share(problem.records))
    normal = normal_estimate(copies * mean * share, copies * variance * share**2, noisy, scale)
    if scale == 0:
        return normal
    # The normal distribution has no ends and the answer has: what lies beyond them is moved to them.
    low, high = (end * problem.records * share for end in problem.bound.range)
    ends = [min(max(v, low), high) for v in (normal.mean, normal.low, normal.high) if isinstance(v, float)]
    return replace(normal, mean=ends[0], low=ends[1], high=ends[2])


def _by_coordinate(posteriors: Sequence[ModelEstimate]) -> ModelEstimate:
    mean, low, high, far = ([getattr(d, name) for d in posteriors] for name in ("mean", "low", "high", "surprise"))
    return ModelEstimate(mean=mean, low=low, high=high, surprise=far)


@dataclass(frozen=True, kw_only=True)
class AnswerPosterior:
    """Prior and posterior of an answer of one number; zero where both are tiny."""

    points: tuple[float, ...]
    before: tuple[float, ...]
    """Probability of each point under the model alone."""
    after: tuple[float, ...]
    """Probability of each point given the noisy answer as well."""
    mean: float
    low: float
    high: float


def answer_posterior(problem: Problem, noisy: float, scale: float) -> AnswerPosterior:
    """Prior and posterior of an answer of one number, for a figure."""
    if len(problem.bound.labels) > 1:
        raise ParameterError("the answer is several numbers; a figure of a posterior needs an answer of one number")
    prior = answer_prior(problem)
    noise = problem.noise(scale)
    distribution = None if prior is None or scale == 0 else posterior(prior, _log_weights(noise, noisy - prior.points))
    if prior is None or distribution is None:
        raise NotApplicableError(
            "the answer has no posterior to draw: no one distribution, no noise, or far beyond the model"
        )
    mean, low, high = summary(prior.points, distribution)
    seen = np.flatnonzero(
        (prior.distribution.masses > 1e-4 * prior.distribution.masses.max())
        | (distribution > 1e-4 * distribution.max())
    )
    shown = slice(seen[0], seen[-1] + 1)
    points, before, after = (
        tuple(map(float, v[shown])) for v in (prior.points, prior.distribution.masses, distribution)
    )
    return AnswerPosterior(points=points, before=before, after=after, mean=mean, low=low, high=high)


Ends = float | list[float]
_WHOLE = (NoiseKind.DISCRETE_LAPLACE, NoiseKind.DISCRETE_GAUSSIAN)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A range for each number of an answer, both ends inside: a number each, or one for each label."""

    low: Ends
    high: Ends


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """The ranges of the true numbers that the noise alone implies."""

    probability: float
    """What each range of ``each`` holds at least, and what all ranges of ``all`` hold together."""
    each: Interval
    """Number by number: each true number lies in its range with this probability."""
    all: Interval
    """For all numbers together: with this probability no true number lies outside its range."""

    def to_dict(self) -> dict[str, Any]:
        """As in ``release --json``."""
        return asdict(self)


def intervals(certificate: Mapping[str, Any]) -> Intervals:
    """From the released numbers of a certificate and its noise; cut at what a count, a share or a clipped sum can be.

    Cutting loses nothing, because the true number lies within: where it is in the range, it is in what is left.
    """
    distribution, beta, records = noise_of(certificate), certificate["accuracy"]["beta"], certificate["data"]["records"]
    asked = stated_query(certificate["query"])
    limits = None if asked is None else asked.limits(asked.clip, records)
    answer = certificate["answer"]
    several = isinstance(answer, list)
    numbers = np.asarray(answer if several else [answer], dtype=float)
    shares = records if asked is not None and asked.counts_states and asked.averaged else 1

    def around(alpha: float) -> Interval:
        ends = _ends(distribution, numbers, alpha, shares)
        low, high = (end.tolist() if limits is None else np.clip(end, *limits).tolist() for end in ends)
        return Interval(low=low, high=high) if several else Interval(low=low[0], high=high[0])

    everything = around(certificate["accuracy"]["alpha"])
    each = around(distribution.accuracy_of_each(beta).alpha) if len(numbers) > 1 else everything
    return Intervals(probability=1 - beta, each=each, all=everything)


def noise_of(certificate: Mapping[str, Any]) -> NoiseDistribution:
    """The distribution of the noise that a certificate states."""
    noise = certificate["noise"]
    asked, records = stated_query(certificate["query"]), certificate["data"]["records"]
    return NoiseDistribution(
        kind=NoiseKind(noise["kind"]),
        scale=noise["scale"],
        coordinates=len(certificate["labels"]),
        unit=1 / records if asked is not None and asked.counts_states and asked.averaged else 1.0,
        balanced=noise.get("balanced") is True,
    )


def _ends(distribution: NoiseDistribution, numbers: Floats, alpha: float, shares: int) -> tuple[Floats, Floats]:
    """All that lies less than alpha away. Whole noise errs by whole counts, the largest of which is the next smaller.

    Shares are counts divided by the number of records, as the true ones are: so both are rounded alike.
    """
    if distribution.kind not in _WHOLE:
        return numbers - alpha, numbers + alpha
    counts, most = np.rint(numbers * shares), round(alpha * shares) - 1
    return (counts - most) / shares, (counts + most) / shares


def stated_query(query: Mapping[str, Any]) -> Query | None:
    """The query of a certificate; None for a function of one's own, which has no name to ask by."""
    if query["name"] == FunctionQuery.word:
        return None
    return Query.parse(query["name"], clip=None if query["clip"] is None else tuple(query["clip"]))
