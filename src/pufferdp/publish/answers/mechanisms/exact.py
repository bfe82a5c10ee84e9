"""The least Laplace noise that keeps the guarantee: the leakage computed exactly, and the loss it allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Matrix
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.additive.tables import RecordAdversary, TableLeakage
from pufferdp.bounds.additive.uninformed import SeriesLeakage, UninformedLeakage
from pufferdp.bounds.additive.windows import TOLERANCE, WindowAdversary, WindowLeakage, Work, is_closed
from pufferdp.bounds.chains.sums import ChainSums
from pufferdp.bounds.curve_forms import SMALL_LOSS
from pufferdp.bounds.curves import curve
from pufferdp.bounds.inverse import largest_loss
from pufferdp.bounds.tight import series as tight_series
from pufferdp.bounds.tight.attack import TightLeakage
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.models.base import Model, records_of
from pufferdp.models.chain import MarkovChain, chains_of, series_of
from pufferdp.models.clock import clock_of
from pufferdp.models.hidden import HiddenSeries, hidden_of, is_hidden
from pufferdp.publish.answers.distributions import Given, Grid, answer_distributions, grid
from pufferdp.publish.answers.problem import Calibrated, Mechanism, Problem, refuse_own_secrets
from pufferdp.publish.answers.queries import CountQuery
from pufferdp.publish.noise import ROUNDING

MOST_LOSS: Final = 100.0
"""Beyond it there is hardly any noise, and densities of the output fall below what a double can hold."""
_MOST_STATES: Final = 8
"""Windows of chains with more states take minutes."""
_MOST_WINDOWS: Final = 50
"""Chains of a class times different lengths: each takes some ten milliseconds, some ten times."""
_SPARE: Final = 1e-10
"""More than rounding can take from a leakage: it is left over, so the noise is wider by it."""
_LEAST_SPARE: Final = 2e-12
"""The same for small leakages. Most are the log of a quotient near 1, which rounding moves by about as much however
small it is: a part of epsilon would be less than that. Brackets of two states that attract each other have their own
a margin for rounding, and guarantees this small are read off them (see ``leaks_most``)."""


class ExactLaplace(Mechanism):
    """The least scale at which the leakage, over all adversaries of the kind, is epsilon."""

    name = "exact-laplace"
    theorem = "exact leakage of a noisy number, over every adversary of the kind (docs/theory/windows.md)"

    def hides(self, what: str, problem: Problem) -> bool:
        """A part where a count leaks its loss alone, which is so for any segment (see ``leaks_its_loss``)."""
        return what == "parts" and leaks_its_loss(problem) and not problem.unobserved

    def find(self, problem: Problem) -> Calibrated:
        """One over the largest DP loss whose leakage is at most epsilon, under the worst model."""
        refuse_own_secrets(problem)
        if leaks_its_loss(problem) and problem.epsilon <= MOST_LOSS:
            loss = problem.epsilon
        elif leaks_most(problem):
            tight = curve("tight", problem.model, problem.longest, problem.adversary)
            loss = problem.allowed_loss(tight, tight.inverse)
        else:
            leakage = ExactLeakage(problem)
            if leakage.nothing_to_learn:
                return Calibrated(sigma=0.0)
            loss = problem.allowed_loss(lambda loss: leakage.bracket(loss)[1], leakage.inverse)
        _refuse_too_wide(problem, loss)
        return Calibrated(sigma=1 / loss)


def _refuse_too_wide(problem: Problem, loss: float) -> None:
    if problem.balanced and not problem.noise(problem.bound.lipschitz / loss).balanced:
        raise NotApplicableError("needs noise that adds up to 0, and as wide as this none is drawn")


def rounding_share(problem: Problem) -> float:
    """How far rounding brings two answers apart, as a share of L: sums and means are doubles before noise is added."""
    least, most = problem.answer_range
    return 0.0 if problem.query.counts_states else math.ulp(most - least) / problem.bound.lipschitz


def is_one_count(problem: Problem) -> bool:
    """Whether the answer is a count: asked for by name, or as a histogram of two states whose noise adds up to 0."""
    return isinstance(problem.query, CountQuery) or (problem.balanced and len(problem.bound.labels) == 2)


def leaks_its_loss(problem: Problem) -> bool:
    """Whether a noisy count leaks its DP loss and no more: two states that repel each other, to those who know records.

    Take both values of the target and let the records of one side follow from it, coupled as well as possible. In a
    chain whose odds ratio P(0,0)·P(1,1)/(P(0,1)·P(1,0)) is at most 1, two states that differ lead to states that are
    equal, and stay so, or differ the other way round. So the sums over a side differ by 0 or by -1, and with both sides
    and the target counts differ by at most 1: any DP algorithm of the count leaks its loss at most. The differences
    alternate, so their sum over any segment is -1, 0 or 1, also where the target lies outside. Known records and
    starts keep the odds ratio of every step. Who knows all other records learns the loss itself.
    """
    tables = _tables(problem.model)
    informed = problem.adversary is not Adversary.PUFFERFISH
    return informed and is_one_count(problem) and bool(tables) and all(_odds_ratio(table, "repels") for table in tables)


def leaks_most(problem: Problem) -> bool:
    """Whether a noisy count leaks as much as any algorithm of its DP loss: two states that attract each other.

    There the worst algorithm asks every record the same question (docs/theory/tight.md), and so does a count: an output
    beyond all counts is likelier by e^τ for every record in the state that is counted, or in the other.
    """
    chains = chains_of(problem.model)
    # A count with a definite start is computed by itself, a little more closely; but where epsilon is small, what that
    # leaves over for rounding is too much.
    small = problem.epsilon < _LEAST_SPARE / _SPARE
    new = small or problem.balanced or any(chain.any_start for chain in chains)
    return new and is_one_count(problem) and bool(chains) and all(_odds_ratio(c.transition, "attracts") for c in chains)


def _tables(model: Model) -> list[Matrix]:
    """Every transition table of a class of chains that can be listed, or of a clock."""
    clock = clock_of(model)
    return [chain.transition for chain in chains_of(model)] if clock is None else list(clock.transitions)


def _odds_ratio(table: Matrix, how: str) -> bool:
    """Whether two states repel each other (an odds ratio of at most 1) or attract each other (at least 1), exactly."""
    if len(table) != 2 or (how == "repels" and not (table > 0).all()):
        return False
    (a, b), (c, d) = (tuple(Fraction(float(p)) for p in row) for row in table)
    return a * d <= b * c if how == "repels" else a * d >= b * c


def _attracts(chain: MarkovChain) -> bool:
    """Whether a chain has a definite start and two states that attract each other."""
    return not chain.any_start and _odds_ratio(chain.transition, "attracts")


@dataclass(frozen=True, kw_only=True)
class Witness:
    """The worst-case adversary, in words, and the output that reveals most to them."""

    record: str
    """The record that they want to know, by name where records have names."""
    knows: str
    likelier: str
    """The value of the record that the output speaks for."""
    other: str
    """The value that the output speaks against."""
    output: float
    """The noisy answer over the records named in ``over``, in its units."""
    over: str


class ExactLeakage:
    """The leakage of an answer with Laplace noise of scale L/tau, by tau, under the worst model of a class."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._grid, self._work = problem, number_grid(problem), Work()
        by_tight = problem.adversary is Adversary.BDP and any(map(_attracts, chains_of(problem.model)))
        self._tolerance = tight_series.TOLERANCE if by_tight else 0.0
        self._adversaries = _by_adversary(problem, self._grid, self._work)
        self._share = (float(self._grid.unit) + self._grid.inexact) / problem.bound.lipschitz
        self._rounding = rounding_share(problem)

    def __call__(self, dp_loss: float) -> float:
        """The leakage at a DP loss. Raises NotApplicableError where only a bracket is known."""
        return _closed(dp_loss, *self.bracket(dp_loss))

    def bracket(self, dp_loss: float) -> tuple[float, float]:
        """Between what the leakage at a DP loss lies. Raises NotApplicableError where it would take too long."""
        self._work.begin()
        return self._bracket(dp_loss)

    def _bracket(self, dp_loss: float) -> tuple[float, float]:
        if dp_loss > MOST_LOSS:
            raise NotApplicableError(f"is computed for a DP loss of at most {MOST_LOSS:g}; beyond it there is no noise")
        reached, rounding = [worst(dp_loss * self._share) for worst in self._adversaries], dp_loss * self._rounding
        upper = max(member.upper for member in reached) + rounding
        if not math.isfinite(upper):
            raise NotApplicableError("the leakage is not a number that a double can hold")
        return max(member.lower for member in reached) + rounding, upper

    @property
    def nothing_to_learn(self) -> bool:
        """Whether the model leaves no record two values: even the exact answer then tells nothing."""
        self._work.begin(ROUNDING)
        if any(worst(SMALL_LOSS * self._share).lower > ROUNDING for worst in self._adversaries):
            return False
        return all(worst(MOST_LOSS * self._share).upper == 0 for worst in self._adversaries)

    def inverse(self, epsilon: float) -> float:
        """The largest DP loss that leaks no more than epsilon; it has been checked."""
        most = min(epsilon, MOST_LOSS)
        # Another machine may end on another upper end within the tolerance of the tight bound: it fits as well.
        allowed = (epsilon - min(_SPARE, max(_SPARE * epsilon, _LEAST_SPARE))) / (1 + self._tolerance)
        if allowed <= 0:
            raise NotApplicableError(f"a leakage of {epsilon:g} is too near to what rounding can take")
        self._work.begin(allowed)
        # More loss than epsilon may do: values that would move the answer most may be impossible, and to an adversary
        # who knows no record, records that make up for each other hide each other.
        while most < MOST_LOSS and self._bracket(most)[1] <= allowed:
            most = min(2 * most, MOST_LOSS)

        def leak(dp_loss: float) -> float:
            """An end of the bracket that decides; where none does, the exact leakage, or the reason why not."""
            lower, upper = self._bracket(dp_loss)
            return lower if lower > allowed else upper if upper <= allowed else _closed(dp_loss, lower, upper)

        loss = largest_loss(leak, allowed, TOLERANCE, most)
        if loss == 0:
            raise NotApplicableError("no DP loss was found to be small enough")
        return loss

    def witness(self, dp_loss: float) -> Witness | None:
        """Who reaches the leakage; None where nothing leaks."""
        self._work.begin()
        reached = [worst(dp_loss * self._share) for worst in self._adversaries]
        adversary = max(reached, key=lambda member: member.lower).adversary
        if isinstance(adversary, WindowAdversary):
            return self._in_series(adversary)
        if isinstance(adversary, _AllOthersKnown):
            return self._among_known(adversary)
        return None if adversary is None else self._among_records(adversary)

    def _in_series(self, informed: WindowAdversary) -> Witness:
        labels = self._problem.model.labels
        alone = informed.left == informed.right == 0
        knowledge = f"all but {informed.left} records before the target and {informed.right} after it"
        knowledge, these = ("all other records", "it") if alone else (knowledge, "these")
        ends = [
            f"the record {side} {these} is {labels[end]}" if end is not None else f"the series {edge} with {these}"
            for side, edge, end in (("before", "begins", informed.left_end), ("after", "ends", informed.right_end))
        ]
        return Witness(
            record="the target",
            knows=f"{knowledge}; {' and '.join(ends)}",
            likelier=labels[informed.likelier],
            other=labels[informed.other],
            output=self._value((0,) * (informed.left + informed.right + 1), informed.output),
            over="the target" if alone else "the target and the unknown records",
        )

    def _among_known(self, known: _AllOthersKnown) -> Witness:
        problem, states = self._problem, self._problem.states_at(known.record)
        return Witness(
            record="any record" if records_of(problem.model) is None else f"record {problem.record_name(known.record)}",
            knows="all other records",
            likelier=states[known.likelier],
            other=states[known.other],
            output=self._value((known.record,), known.output),
            over="the record",
        )

    def _among_records(self, learner: RecordAdversary) -> Witness:
        problem = self._problem
        states, nobody = problem.states_at(learner.record), problem.adversary is Adversary.PUFFERFISH
        home = tuple(range(problem.records)) if nobody else self._component(learner.record)
        known = [f"that {problem.value_name(i, x)}" for i, x in learner.known]
        if len(home) < problem.records:
            known.append("all records that are independent of these" if known else "all independent records")
        return Witness(
            record=f"record {problem.record_name(learner.record)}",
            knows=", ".join(known) or "no record",
            likelier=states[learner.likelier],
            other=states[learner.other],
            output=self._value(home, int(learner.output)),
            over="all records" if len(home) == problem.records else "the record and those that depend on it",
        )

    def _component(self, record: int) -> tuple[int, ...]:
        model = records_of(self._problem.model)
        assert model is not None
        return next(component for component in model.components if record in component)

    def _value(self, records: tuple[int, ...], steps: int) -> float:
        """An answer over some records, in its units: their least possible sum, and so many steps more."""
        problem = self._problem
        if problem.balanced:  # the bin of the last state stands for both
            return steps * problem.bound.unit
        numbers = problem.query.numbers(problem.model) or ()
        value = dict(zip(problem.model.labels, numbers, strict=True))
        least = math.fsum(min(value[s] for s in problem.states_at(i)) for i in records)
        share = float(problem.query.share(problem.records))
        return least * share + steps * float(self._grid.unit)


@dataclass(frozen=True)
class _AllOthersKnown:
    """The adversary of differential privacy, who knows all other records: the model plays no role."""

    record: int
    likelier: int
    """The state that adds most to the answer."""
    other: int
    """The state that adds least."""
    output: int
    """What the record adds in the likelier state, in steps."""

    @classmethod
    def of(cls, steps: Grid) -> _AllOthersKnown:
        """The record that can move the answer farthest."""
        record = max(range(len(steps.steps)), key=lambda i: int(np.ptp(steps.steps[i])))
        own = steps.steps[record]
        return cls(record, int(np.argmax(own)), int(np.argmin(own)), int(np.ptp(own)))

    def worst(self, dp_loss: float) -> Reached:
        """Its DP loss: noise of scale 1/tau steps on an answer that the record moves so far."""
        return Reached(dp_loss * self.output, dp_loss * self.output, self)


@dataclass(frozen=True)
class Reached:
    """A bracket around the leakage under one model, and the adversary at its lower end."""

    lower: float
    upper: float
    adversary: RecordAdversary | WindowAdversary | _AllOthersKnown | None


def _closed(dp_loss: float, lower: float, upper: float) -> float:
    """The leakage, or the reason why only a bracket is known."""
    if not is_closed(lower, upper):
        raise NotApplicableError(
            f"at a DP loss of {dp_loss:.4g} it lies between {lower:.4g} and {upper:.4g}, and it would take too "
            "long to say where"
        )
    return upper


Worst = Callable[[float], Reached]
"""The leakage when the noise has scale 1/tau steps."""


def _by_adversary(problem: Problem, steps: Grid, work: Work) -> list[Worst]:
    """One leakage for each model, and each length of a series."""
    model = problem.model
    if problem.adversary is Adversary.DP:
        return [_AllOthersKnown.of(steps).worst]
    if any(chain.any_start for chain in chains_of(model)):
        raise NotApplicableError("needs chains with a definite start; with any start the tight curve holds")
    if problem.adversary is Adversary.PUFFERFISH:
        return [_of_distributions(given) for given in answer_distributions(problem)]
    chains = chains_of(model)
    if chains:
        # Other chains only blur the answer, and the adversary may know them: each chain by itself.
        lengths = [length for length, _ in problem.lengths]
        if model.size > _MOST_STATES or len(lengths) * len(chains) > _MOST_WINDOWS:
            raise NotApplicableError(
                f"{model.size} states, {len(chains)} chain(s) and {len(lengths)} length(s) take too long; the "
                f"limits are {_MOST_STATES} states and {_MOST_WINDOWS} chains times lengths"
            )
        return [_of_series(chain, n, steps.steps[0], work) for chain in chains for n in lengths]
    series = series_of(model)
    if series is not None and hidden_of(model) is not None:
        raise NotApplicableError(series.not_listed)
    if model.record_models:
        return [_exactly(TableLeakage(member, steps.steps).worst) for member in model.record_models]
    if clock_of(model) is not None:
        raise NotApplicableError(
            "is worked out for one transition table, and a clock has several; only of two states that repel each other "
            "in every slot is it known"
        )
    raise NotApplicableError("the class cannot be listed, so its leakage cannot be computed model by model")


def _exactly(leak: Callable[[float], tuple[float, RecordAdversary | None]]) -> Worst:
    def worst(dp_loss: float) -> Reached:
        value, learner = leak(dp_loss)
        return Reached(value, value, learner)

    return worst


def _of_distributions(given: Given) -> Worst:
    """For an adversary who knows no record."""
    distributions = given.distributions
    return _exactly(
        SeriesLeakage(distributions).worst
        if isinstance(distributions, ChainSums)
        else UninformedLeakage(distributions).worst
    )


def _of_series(chain: MarkovChain, length: int, steps: npt.NDArray[np.int64], work: Work) -> Worst:
    """Who may know any set of records of one chain.

    Of two states that attract each other no window need be looked at: a sum leaks as much as any algorithm of its DP
    loss (see ``leaks_most``), which is known for every length and however long a state is kept.
    """
    if _attracts(chain):
        tight, span = TightCurve(chain.transition, start=chain.start, length=length), int(np.ptp(steps))

        def two_states(dp_loss: float) -> Reached:
            leakage = tight.leakage(dp_loss * span)  # known to the tolerance of the tight bound
            return Reached(leakage.upper, leakage.upper, _informed(leakage, length, steps))

        return two_states
    window = WindowLeakage(chain, length, steps, work)

    def worst(dp_loss: float) -> Reached:
        bracket = window.at(dp_loss)
        return Reached(bracket.lower, bracket.upper, bracket.adversary)

    return worst


def _informed(leakage: TightLeakage, length: int, steps: npt.NDArray[np.int64]) -> WindowAdversary | None:
    """The adversary of the tight curve as a window; None where nothing is learned."""
    if leakage.lower == 0:
        return None
    sides = (leakage.before, leakage.after)
    unknown = [length - 1 if side.records is None else side.records for side in sides]
    ends = [None if side.known is None else side.known[1] for side in sides]
    total = int(np.ptp(steps)) * (sum(unknown) + 1) if steps[leakage.likelier] == steps.max() else 0
    return WindowAdversary(unknown[0], unknown[1], ends[0], ends[1], leakage.likelier, leakage.other, total)


def number_grid(problem: Problem) -> Grid:
    """An answer of one number in whole steps, or the reason why its leakage is not computed."""
    if not problem.query.adds_up and not is_one_count(problem):
        raise NotApplicableError(
            "is worked out for one number: a count, a histogram of two states, a sum or a mean of states with values"
        )
    answer_grid = grid(problem, problem.model.domains or [problem.model.labels])
    if answer_grid is None:
        raise NotApplicableError(
            "needs records that all have both states"
            if problem.balanced
            else "needs states with values; the numbers are in the data alone"
        )
    return answer_grid


_MOST_PAIRS: Final = 400
"""Pairs of hidden states, over all slots of a period: 20 hidden states take about ten seconds."""
_MANY_PAIRS: Final = _MOST_PAIRS // 4
"""Pairs from which on the bound for any algorithm takes minutes, so that plans of a count do without it."""
_MOST_STEPS: Final = 16
"""Steps between the values of two records: the time grows with them."""
_HIDDEN_TOLERANCE: Final = 2e-3
"""Relative tolerance of the privacy loss."""


def bounds_count(problem: Problem) -> bool:
    """Whether this is a count over so many hidden states that the bound for any algorithm takes minutes."""
    model, plain = problem.model, problem.unit is None and problem.secret is None and not problem.endless
    if not (plain and isinstance(model, HiddenSeries) and is_hidden(model)):
        return False
    kernels, shown, _ = model.hidden_steps
    pairs = len(kernels) * len(shown) ** 2
    return isinstance(problem.query, CountQuery) and _MANY_PAIRS < pairs <= _MOST_PAIRS


class LaplaceHidden(Mechanism):
    """The least scale at which the bound for Laplace noise on sums over hidden states is epsilon."""

    name = "laplace-hidden"
    theorem = "the evidence of a noisy sum between pairs of hidden states (docs/theory/hidden.md, Theorem 6)"

    def find(self, problem: Problem) -> Calibrated:
        """One over the largest privacy loss whose leakage is at most epsilon."""
        refuse_own_secrets(problem)
        model = problem.model
        if not isinstance(model, HiddenSeries) or not is_hidden(model):
            raise NotApplicableError("is about hidden states, and the model has none")
        if problem.adversary is Adversary.DP:
            raise NotApplicableError("the model plays no role for an adversary who knows all other records")
        kernels, shown, start = model.hidden_steps
        grid = number_grid(problem)
        pairs, span = len(kernels) * len(shown) ** 2, int(grid.steps[0].max())
        if pairs > _MOST_PAIRS or span > _MOST_STEPS:
            raise NotApplicableError(
                f"{pairs:,} pairs of hidden states and values {span:,} steps apart take too long; the limits are "
                f"{_MOST_PAIRS} and {_MOST_STEPS}"
            )
        from pufferdp.bounds.hidden.counts import CountBound  # for other models it is not needed

        who = str(problem.adversary)
        bound = CountBound(kernels, shown, grid.steps[0], start=start, length=problem.longest, adversary=who)
        share, rounding = (float(grid.unit) + grid.inexact) / problem.bound.lipschitz, rounding_share(problem)

        def leakage(loss: float) -> float:
            return bound(loss * share) + loss * rounding

        loss = problem.allowed_loss(leakage, lambda epsilon: largest_loss(leakage, epsilon, _HIDDEN_TOLERANCE))
        if loss <= 0:
            raise NotApplicableError(f"is above {problem.epsilon:g} however little privacy loss is spent")
        _refuse_too_wide(problem, loss)
        # A loss of 1/σ that is not above the one that was checked.
        return Calibrated(sigma=math.nextafter(1 / loss, math.inf))
