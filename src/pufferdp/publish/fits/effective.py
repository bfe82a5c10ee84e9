"""The effective leakage of a model: what its noise reveals on data to an adversary who knows how the data behave.

The first half of the data teaches a richer family, and the second half says whether that family describes the data
better than the model in use. Where it does, the leakage under the richer family is the estimate. A lower bound that
needs no model is computed from all records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from pufferdp.basics.arrays import Floats, Mask
from pufferdp.basics.errors import NotApplicableError
from pufferdp.basics.progress import Progress, silent
from pufferdp.data.series import StatePath
from pufferdp.models.base import Lengths, Model
from pufferdp.models.chain import MarkovChain, SeriesModel, series_of
from pufferdp.models.clock import clock_of, distance_amount
from pufferdp.models.hidden_states import HiddenStates
from pufferdp.publish.answers.plan import plan_problem
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.fits.checks import HOURS
from pufferdp.publish.fits.coverage import estimate_coverage
from pufferdp.publish.fits.expectation import Estimate, Observed, fit_hidden
from pufferdp.publish.fits.families import RULES, Comparison, FamilyScore, Rival, day_steps
from pufferdp.publish.fits.leakage_estimate import HiddenChain, LeakageEstimate, estimate_leakage, held_out_bits
from pufferdp.publish.fits.lower_bound import Codes, Records, lower_bound, number_blocks
from pufferdp.publish.model_checks import EffectiveLeakage

S = TypeVar("S", bound=SeriesModel)


@dataclass(frozen=True, kw_only=True, repr=False)
class Observations:
    """Records with their person and hour, people one after the other and each in order. Never printed."""

    codes: Codes
    """The state of each record, as a number of the model's states."""
    joined: Mask
    """Whether a record comes one time step after the record before it."""
    persons: Codes
    times: Codes | None
    """Microseconds since 1970; None where the order column holds no times."""

    @classmethod
    def of(cls, path: StatePath, states: Sequence[int]) -> Observations:
        """The records of a path whose states the model has, in numbers of the model's states."""
        place = np.full(max(int(path.codes.max(initial=0)), *states) + 1, -1)
        place[list(states)] = np.arange(len(states))
        everything = cls(codes=place[path.codes], joined=path.joined, persons=path.persons, times=path.microseconds)
        return everything.take(everything.codes >= 0)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def hours(self) -> Codes | None:
        """Hours since 1970; None where the order column holds no times."""
        return None if self.times is None else self.times // 3_600_000_000

    @property
    def has_people(self) -> bool:
        """Whether there are enough people to treat each of them as one independent block."""
        return int(self.persons.max(initial=0)) + 1 >= 20

    @property
    def held_out(self) -> Mask:
        """The second half: of the people where there are many, otherwise of the records of each person."""
        if self.has_people:
            return np.asarray(2 * self.persons > self.persons.max())
        sizes = np.bincount(self.persons)
        place = np.arange(len(self)) - (np.cumsum(sizes) - sizes)[self.persons]
        return np.asarray(2 * place >= sizes[self.persons])

    def take(self, chosen: Mask) -> Observations:
        """Some of the records; a record is joined to the one before it where both were taken."""
        joined = self.joined & np.concatenate([[False], chosen[:-1]])
        times = None if self.times is None else self.times[chosen]
        return Observations(codes=self.codes[chosen], joined=joined[chosen], persons=self.persons[chosen], times=times)

    @property
    def records(self) -> Records:
        """The records in blocks: people, days, or parts of equal length."""
        day = np.zeros_like(self.persons) if self.hours is None or self.has_people else self.hours // 24
        key = self.persons * (int(day.max(initial=0)) + 1) + day
        return Records(codes=self.codes, joined=self.joined, blocks=number_blocks(key))

    @property
    def series(self) -> list[Codes]:
        """The records in runs without an interruption."""
        return np.split(self.codes, np.flatnonzero(~self.joined)[1:])

    def observed(self, model: SeriesModel) -> Observed:
        """The records for a fit; with their time step of the day where there are days enough for a rhythm."""
        step, day = day_steps(model.step)
        if step is None or day is None or self.times is None or self.hours is None:
            return Observed(series=self.series, values=model.size)
        if day % HOURS or len(np.unique(self.hours // HOURS)) < RULES.days:
            return Observed(series=self.series, values=model.size)
        first = self.times[~self.joined] // step % day
        return Observed(series=self.series, values=model.size, first_slots=first.tolist(), period=day)

    def slots(self, tables: int, model: Model | None = None) -> Codes:
        """The table that leads from each record to the next, where tables share the period of a model, or the day."""
        if tables == 1 or self.hours is None:
            return np.zeros(len(self), dtype=np.int64)
        amount, timed = distance_amount(getattr(model, "period", None) or "24h")
        hours = int(amount / 3_600_000_000) if timed else HOURS
        return np.asarray((self.hours - 4 * HOURS) % hours * tables // hours)  # periods begin on a Monday


def measure_leakage(
    data: Observations,
    model: SeriesModel,
    lengths: Lengths,
    *,
    epsilon: float = 1.0,
    planned: Model | None = None,
    states: Sequence[int] | None = None,
    compare: bool = True,
    rival: Rival | None = None,
    least: int = 2_000,
    progress: Progress = silent,
) -> tuple[EffectiveLeakage, RicherFamily | None]:
    """The effective leakage of counts with the noise that the model asks for, and the comparison behind it.

    Args:
        data: the records.
        model: the model whose noise is used.
        lengths: the series for which the noise is planned.
        epsilon: the guarantee for which the noise is planned.
        planned: the list of models for which the noise is planned, where the model is one of several.
        states: the states that are counted, by number; every state by default.
        compare: whether richer families are fitted; False where held-out records have chosen the model's family.
        rival: a family fitted on the first half that predicts the second half better than the model.
        least: fewer records say too little about a model.
        progress: called with a few words before each step.
    """
    if model.fitted is not None and "dp_epsilon" in model.fitted:
        return EffectiveLeakage(epsilon=epsilon, reason="left out, because the model was fitted privately"), None
    if len(data) < least:
        reason = f"{len(data):,} records are too few to say"
        return EffectiveLeakage(epsilon=epsilon, reason=reason, records=len(data)), None
    progress("planning the noise")
    try:
        counted = range(model.size) if states is None else states
        scales = noise_scales(model if planned is None else planned, lengths, epsilon, counted)
    except NotApplicableError as error:
        return EffectiveLeakage(epsilon=epsilon, reason=str(error), records=len(data)), None
    progress("measuring the leakage")
    comparison = RicherFamily.of(data, model) if compare and rival is None else None
    if comparison is not None:
        found = comparison.leakage(scales, epsilon)
    elif rival is not None:
        found = _leakage_to_rival(data, model, scales, epsilon, rival)
    else:
        found = prove_leakage(data, model, scales, epsilon)
    progress("simulating releases")
    covered = estimate_coverage(model, data.take(data.held_out).records, scales, epsilon)
    return replace(found, coverage=covered), comparison


def _leakage_to_rival(
    data: Observations, model: Model, scales: Mapping[int, float], epsilon: float, rival: Rival
) -> EffectiveLeakage:
    """The effective leakage to an adversary who uses a time-of-day family, whose matrices share the 24 hours."""
    found = replace(prove_leakage(data, model, scales, epsilon), family=rival.name, gain=rival.gain, z=rival.z)
    held, chain = data.take(data.held_out), _hidden(rival.estimate)
    estimate = estimate_leakage(chain, held.records, held.slots(len(chain.tables)), scales)
    return found if estimate is None else _with_estimate(found, estimate)


def _with_estimate(found: EffectiveLeakage, estimate: LeakageEstimate) -> EffectiveLeakage:
    windows = {str(half): value for half, value in estimate.windows.items()}
    return replace(found, estimate=estimate.epsilon, interval=estimate.interval, windows=windows)


def family_costs(
    data: Observations, model: Model, comparison: Comparison, lengths: Lengths, state: int
) -> dict[str, tuple[float, float | None]]:
    """The noise of a count at epsilon 1 under the chain and under the chosen family, and what it reveals, by name.

    The adversary uses the chosen family, which predicts held-out records best; the records are the held-out half.
    """
    adversary, held, costs = hidden_chain(model), data.take(data.held_out), dict[str, tuple[float, float | None]]()
    chosen = comparison.chosen
    if chosen is None or adversary is None:
        return costs
    families: list[tuple[str, Model]] = [(chosen.name, model)]
    if comparison.chain is not None and (chosen.kinds, chosen.slots) != (1, 1):
        families.append(("chain", MarkovChain(transition=comparison.chain.kernels[0], states=model.labels)))
    for name, family in families:
        try:
            scales = noise_scales(family, lengths, 1.0, [state])
        except NotApplicableError:
            continue
        slots = held.slots(len(adversary.tables), model)
        found = estimate_leakage(adversary, held.records, slots, scales) if scales else None
        costs[name] = scales.get(state, 0.0), None if found is None else found.epsilon
    return costs


def noise_scales(model: Model, lengths: Lengths, epsilon: float, states: Sequence[int]) -> dict[int, float]:
    """The scale of the noise of the best mechanism for a count of each state.

    Noise is planned for series of up to 1,000 records: windows are shorter, and longer series need hardly more.
    """
    lengths = tuple((min(length, 1000), count) for length, count in lengths)
    scales: dict[int, float] = {}
    for state in states:
        query = Query.parse(f"count:{model.labels[state]}")
        problem = Problem(model=model, query=query, lengths=lengths, epsilon=epsilon)
        # Where it applies, exact-laplace has the least noise that a count with Laplace noise can have.
        plans = (plan_problem(problem, only=only) for only in (["exact-laplace"], None))
        candidates = (candidate for plan in plans for candidate in plan.candidates if candidate.applies)
        best = next((candidate.calibration for candidate in candidates), None)
        if best is None:
            raise NotApplicableError(f"no mechanism gives a guarantee of epsilon {epsilon:g} for {query.name}")
        if best.scale > 0:
            scales[state] = best.scale
    return scales


@dataclass(frozen=True, kw_only=True, repr=False)
class RicherFamily:
    """A richer family beside the model in use, on the half of the data that taught neither."""

    model: Model
    data: Observations
    family: str
    rich: HiddenChain
    gain: float
    """Bits that the richer family saves on each held-out record."""
    z: float
    """The gain divided by its standard error over blocks."""

    @classmethod
    def of(cls, data: Observations, model: SeriesModel, most: int = 3) -> RicherFamily:
        """The family of up to ``most`` hidden states a value, by time of day or not, with the fewest held-out bits.

        It is compared with the model, and with the model's own family fitted on the same half: a model from other
        data may predict as badly as a family that is too small. It counts in the second comparison only if it is not
        significantly worse than the model.
        """
        held, teaching = data.take(data.held_out), data.take(~data.held_out).observed(model)
        records, sizes = held.records, np.bincount(held.records.blocks)

        def bits(chain: HiddenChain) -> Floats:
            return held_out_bits(chain, records, held.slots(len(chain.tables)))

        in_use = hidden_chain(model)
        kinds = 1 if in_use is None else min(int(np.bincount(in_use.of).max()), most + 1)
        own = kinds, HOURS if in_use is not None and len(in_use.tables) > 1 and teaching.period > 1 else 1
        families = [(many, 1) for many in range(1, max(most, kinds) + 1)]
        if teaching.period > 1:
            large = len(data) / (RULES.records_a_slot_row * model.size * HOURS)
            families += [(many, HOURS) for many, _ in families if many <= large or (many, HOURS) == own]
        estimates: dict[tuple[int, int], Estimate] = {}
        for many, slots in families:
            begin = estimates.get((many, 1) if slots > 1 else (many - 1, 1))
            estimates[many, slots] = fit_hidden(teaching, many, slots=slots, begin=begin)
        needed = {family: bits(_hidden(estimate)) for family, estimate in estimates.items()}
        best = min(needed, key=lambda family: float(needed[family].sum()))
        used = needed[own] if in_use is None else held_out_bits(in_use, records, held.slots(len(in_use.tables), model))
        against_model, against_own = (_clustered(other - needed[best], sizes) for other in (used, needed[own]))
        counts = best[0] * best[1] > own[0] * own[1] and against_own[1] > against_model[1] > -2
        gain, z = against_own if counts else against_model
        name = FamilyScore.of(model.size, *best).name
        return cls(model=model, data=data, family=name, rich=_hidden(estimates[best]), gain=gain, z=z)

    def leakage(self, scales: Mapping[int, float], epsilon: float) -> EffectiveLeakage:
        """The effective leakage of counts with noise of these scales, which guarantee epsilon under the model."""
        proven = prove_leakage(self.data, self.model, scales, epsilon)
        found = replace(proven, family=self.family, gain=self.gain, z=self.z)
        if self.z <= 2:
            return found
        held = self.data.take(self.data.held_out)
        estimate = estimate_leakage(self.rich, held.records, held.slots(len(self.rich.tables)), scales)
        return found if estimate is None else _with_estimate(found, estimate)


def prove_leakage(data: Observations, model: Model, scales: Mapping[int, float], epsilon: float) -> EffectiveLeakage:
    """The lower bound for counts with noise of these scales, without a comparison with richer families."""
    records = data.records
    bound = lower_bound(records, scales, _parts_of_day(data))
    found = EffectiveLeakage(epsilon=epsilon, records=len(records), blocks=records.block_count)
    if bound is None:
        return found
    query, scale = f"count:{model.labels[bound.state]}", scales[bound.state]
    return replace(found, proven=bound.epsilon, half_window=bound.half_window, query=query, scale=scale)


def hidden_chain(model: Model) -> HiddenChain | None:
    """The model as a chain on hidden states; None where it is a class of models or no series of states."""
    if isinstance(model, HiddenStates):
        tables = np.asarray(model.transition).reshape(-1, len(model.of), len(model.of))
        return _chain_of(tables, np.array(model.of))
    series = series_of(model)
    if series is None:
        return None
    if series.chain is not None:
        return _chain_of(series.chain.transition[None], np.arange(model.size))
    clock = clock_of(model)
    return None if clock is None else _chain_of(np.asarray(clock.transitions), np.arange(model.size))


def _hidden(estimate: Estimate) -> HiddenChain:
    return _chain_of(estimate.kernels, np.array(estimate.of))


def _chain_of(tables: Floats, of: Codes) -> HiddenChain:
    """A chain that begins in the stationary distribution of its average table."""
    start = MarkovChain(transition=tables.mean(axis=0)).stationary
    return HiddenChain(tables=np.asarray(tables, dtype=float), of=of, start=np.asarray(start))


def _clustered(saved: Floats, sizes: Codes) -> tuple[float, float]:
    """The mean over records of what blocks save, and its ratio to the standard error."""
    mean = float(saved.sum() / sizes.sum())
    error = float(np.sqrt(((saved - mean * sizes) ** 2).sum()) / sizes.sum())
    return mean, mean / error if error > 0 else 0.0


def _parts_of_day(data: Observations) -> Codes | None:
    """The six hours that each record lies in; None without times."""
    return None if data.hours is None else data.hours % 24 // 6


def with_checks(model: S, found: dict[str, Any]) -> S:
    """The model with these checks in its file; of a list of models each has them."""
    members = tuple(with_checks(member, found) for member in getattr(model, "models", ()))
    made: S = replace(model, models=members) if members else replace(model, checks=found or None)  # type: ignore
    return made
