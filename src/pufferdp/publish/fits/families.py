"""Choose how much memory a model of a series has, by records that were not used to fit it.

Every family is fitted on the first half of the data and predicts each record of the second half from those before it.
A family is better where it needs fewer bits a record by more than two standard errors. Days, people or independent
segments are taken to be independent of each other in this comparison, single records are not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.basics.progress import Progress, silent
from pufferdp.bounds.hidden.potential import has_few_pairs
from pufferdp.data.series import StatePath
from pufferdp.models.clock import distance_amount
from pufferdp.models.recursions.filtering import Codes
from pufferdp.publish.fits.expectation import Estimate, Observed, fit_hidden, log_scores


@dataclass(frozen=True, kw_only=True)
class ComparisonRules:
    """What the comparison needs to be made at all."""

    records: int = 2000
    """The smallest number of records: fewer do not show longer memory."""
    most_records: int = 2_000_000
    """Records beyond which families are not compared: the search keeps two numbers for each and each hidden state."""
    records_a_row: int = 200
    """Records for each row of a transition matrix."""
    records_a_slot_row: int = 20
    """Records for each row of each matrix of a time-of-day model, whose slots share what they have in common."""
    days: int = 14
    """Days for a time-of-day model."""
    hidden: int = 24
    """The largest number of hidden states: bounds on the leakage of more take minutes."""
    sequences: int = 1024
    """The largest number of hidden states of a chain of higher order."""
    clusters: int = 6
    """Days, people or segments that a standard error rests on."""
    people: int = 10
    """People with one series each that are divided among both halves, each with the whole series."""
    gap: int = 1000
    """Missing observations in a row after which a series is fitted as a new one."""


RULES: Final = ComparisonRules()


@dataclass(frozen=True, kw_only=True)
class FamilyScore:
    """A family of models and how well it predicted records that it was not fitted on."""

    family: str
    """``chain``, ``hidden``, ``clock`` (a chain by time of day) or ``hidden by time of day``."""
    kinds: int
    """Hidden states for each record value."""
    slots: int = 1
    """Transition matrices that share a period."""
    internal_states: int
    """The number of hidden states of all values together."""
    bits: float | None = None
    """Held-out bits a record; None where the family was not fitted."""
    gain: float | None = None
    """Bits a record that it needs fewer than the chain; None for the chain."""
    error: float | None = None
    """The standard error of the gain, by days, people or segments."""
    bounded: bool = True
    """Whether a bound on the leakage is computed: not for many hidden states at many times of a day."""
    chosen: bool = False
    """Whether no larger family that has a bound is better by more than two standard errors, nor a smaller one as good.
    """
    reason: str = ""
    """Why the family was not fitted, where it was not."""
    noise: float | None = None
    """The scale of the noise on a count at epsilon 1, where it was computed."""
    effective: float | None = None
    """The estimated leakage of that noise on held-out records, where it was computed."""

    @classmethod
    def of(cls, values: int, kinds: int, slots: int) -> FamilyScore:
        """A family for so many record values, before it is fitted."""
        timed = slots > 1
        family = ("clock" if timed else "chain") if kinds == 1 else "hidden by time of day" if timed else "hidden"
        return cls(family=family, kinds=kinds, slots=slots, internal_states=kinds * values)

    @property
    def name(self) -> str:
        """The family with its number of hidden states a value, as in a table."""
        return self.family if self.kinds == 1 else self.family.replace("hidden", f"hidden, {self.kinds} a value", 1)

    def to_dict(self) -> dict[str, Any]:
        """The content of one entry of ``families`` in ``fit --json``."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class Rival:
    """A family without a bound on the leakage that predicts better than the chosen one. Never printed."""

    name: str
    estimate: Estimate
    """The family fitted on the first half."""
    gain: float
    """Bits a record that it needs fewer than the chosen family."""
    z: float
    """The gain divided by its standard error."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All families, the one chosen, and the sentence that says what could not be compared."""

    scores: tuple[FamilyScore, ...] = ()
    note: str = ""
    """What the comparison cannot know, or why there was none."""
    clusters: str = ""
    """What was taken to be independent: days, people or segments."""
    rival: Rival | None = field(default=None, repr=False, compare=False)
    """The best family without a bound that beats the chosen one by more than two standard errors."""
    chain: Estimate | None = field(default=None, repr=False, compare=False)
    """The chain of the first half."""

    def with_costs(self, costs: Mapping[str, tuple[float, float | None]]) -> Comparison:
        """The comparison with the noise and the effective leakage of some families, by name."""
        scores = [
            replace(score, noise=costs[score.name][0], effective=costs[score.name][1]) if score.name in costs else score
            for score in self.scores
        ]
        return replace(self, scores=tuple(scores))

    @property
    def chosen(self) -> FamilyScore | None:
        """The family that was chosen; None where none was compared."""
        return next((score for score in self.scores if score.chosen), None)


NOT_COMPARED: Final = Comparison()
"""Of a fit whose family was given."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """Which families are tried."""

    kinds: Sequence[int] = (1, 2, 3, 4)
    """Numbers of hidden states for each value."""
    slots: Sequence[int] = (1,)
    """Numbers of transition matrices: 1, and those of a time-of-day model."""


@dataclass(frozen=True, kw_only=True, eq=False)
class History:
    """The series of a fit with what the comparison needs to know of each time step. Never printed."""

    observed: Observed
    persons: Sequence[int]
    """The number of the person of each series."""
    by_person: bool
    """Whether people are named."""
    days: Sequence[Codes] | None
    """The day of each time step of each series; None where there are no times."""

    @classmethod
    def of(cls, path: StatePath, states: Sequence[int], step: int | None, period: int | None) -> History:
        """The series of a path, with missing observations; a gap longer than `ComparisonRules.gap` ends a series.

        Args:
            path: the records.
            states: the states that the model has, by number; records in others count as missing observations.
            step: microseconds between records, where the order column holds times.
            period: the time steps of a day; None where no whole number of them fits.
        """
        assert path.apart is not None
        day = 86_400_000_000
        place = np.full(max(int(path.codes.max(initial=0)), *states) + 1, -1)
        place[list(states)] = np.arange(len(states))
        codes = place[path.codes]
        begins = np.flatnonzero((path.apart == 0) | (path.apart > RULES.gap))
        series, days, persons, first = [], [], [], []
        for start, end in zip(begins, [*begins[1:], len(codes)], strict=True):
            at = np.cumsum(path.apart[start:end]) - path.apart[start]
            row = np.full(int(at[-1]) + 1, -1)
            row[at] = codes[start:end]
            series.append(row)
            persons.append(int(path.persons[start]))
            if path.microseconds is not None and step is not None:
                time = int(path.microseconds[start])
                days.append((time + np.arange(len(row)) * step) // day)
                first.append(time % day // step)
        timed = bool(days) and period is not None
        observed = Observed(
            series=series,
            values=len(states),
            first_slots=first if timed else None,
            period=period if timed and period is not None else 1,
        )
        return cls(observed=observed, persons=persons, by_person=path.by_person, days=days or None)

    @property
    def day_count(self) -> int:
        """The number of different days; 0 without times."""
        return 0 if self.days is None else len(np.unique(np.concatenate(self.days)))

    def test_steps(self) -> list[Mask]:
        """For each series the time steps of the second half.

        People with one series each are divided among both halves where there are enough of them; otherwise the later
        half of the records of each person, from the beginning of a series or a day where one is near the middle.
        """
        series = self.observed.series
        people = np.asarray(self.persons)
        masks = [np.zeros(len(row), dtype=bool) for row in series]
        if len(np.unique(people)) == len(series) >= RULES.people:
            for n, mask in enumerate(masks):
                mask[:] = n % 2 == 1
            return masks
        for person in np.unique(people):
            own = np.flatnonzero(people == person).tolist()
            ends = np.cumsum([len(series[n]) for n in own])
            half = self._middle(own, ends)
            for n, end in zip(own, ends.tolist(), strict=True):
                masks[n][max(0, half - end + len(series[n])) :] = True
        return masks

    def _middle(self, own: Sequence[int], ends: Ints) -> int:
        """The time step in the series of a person, one behind the other, at which the second half begins."""
        total = int(ends[-1])
        borders = [ends[:-1]]
        if self.days is not None:
            borders += [
                np.flatnonzero(np.diff(self.days[n])) + 1 + end - len(self.days[n])
                for n, end in zip(own, ends, strict=True)
            ]
        places = np.concatenate(borders)
        nearest = int(places[np.argmin(np.abs(2 * places - total))]) if len(places) >= 3 else 0
        return nearest if total <= 4 * nearest <= 3 * total else total // 2

    def training(self, tests: Sequence[Mask]) -> Observed:
        """The first half of the data."""
        kept = [(n, row[~mask]) for n, (row, mask) in enumerate(zip(self.observed.series, tests, strict=True))]
        kept = [(n, row) for n, row in kept if (row >= 0).any()]
        slots = self.observed.first_slots
        return replace(
            self.observed,
            series=[row for _, row in kept],
            first_slots=None if slots is None else [slots[n] for n, _ in kept],
        )

    def clusters(self, tests: Sequence[Mask]) -> tuple[str, Codes]:
        """What is taken to be independent, and the number of the cluster of each step of the second half."""
        people = np.repeat(self.persons, [int(mask.sum()) for mask in tests])
        if self.by_person and len(np.unique(people)) >= RULES.clusters:
            return "people", people
        if self.days is not None:
            days = np.concatenate([day[mask] for day, mask in zip(self.days, tests, strict=True)])
            if len(np.unique(days)) >= RULES.clusters:
                return "days", days + people * (int(days.max()) + 1)
        segments = np.repeat(np.arange(len(tests)), [int(mask.sum()) for mask in tests])
        if len(np.unique(segments)) >= RULES.clusters:
            return "independent segments", segments
        return "segments of equal length", np.arange(len(people)) * 5 * RULES.clusters // max(1, len(people))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scored:
    score: FamilyScore
    estimate: Estimate
    bits: Floats
    """Held-out bits of each record that was scored."""


@dataclass(eq=False)
class FamilyChoice:
    """The comparison of families on one history, and the fit of the family that it chooses."""

    history: History
    candidates: Candidates
    prior: float = 0.0
    progress: Progress = silent
    _scored: list[_Scored] = field(default_factory=list)

    def compare(self) -> Comparison:
        """Fit every candidate on the first half, predict the second half, and choose."""
        tests = self.history.test_steps()
        training = self.history.training(tests)
        scored_steps = self._scored_steps(tests)
        name, clusters = self.history.clusters(tests)
        keep = np.concatenate([scored[mask] for scored, mask in zip(scored_steps, tests, strict=True)])
        scores: list[FamilyScore] = []
        for slots in self.candidates.slots:
            previous: Estimate | None = None
            for kinds in self.candidates.kinds:
                score = self._empty_score(kinds, slots)
                reason = self._why_not(kinds, slots)
                if reason:
                    scores.append(replace(score, reason=reason))
                    continue
                self.progress(f"comparing families: {score.name}")
                begin = self._begin(kinds, slots, previous)
                previous = fit_hidden(training, kinds, slots=slots, begin=begin, prior=self.prior)
                logs = log_scores(previous, self.history.observed)
                bits = -np.concatenate([log[mask] for log, mask in zip(logs, tests, strict=True)])[keep] / math.log(2)
                self._scored.append(_Scored(score=score, estimate=previous, bits=bits))
        return self._chosen(scores, name, clusters[keep])

    def fit(self, kinds: int, slots: int, *, steps: int = 100) -> Estimate:
        """The family fitted on all data, from where the comparison left it."""
        known = [s.estimate for s in self._scored if (s.score.kinds, s.score.slots) == (kinds, slots)]
        begin = known[0] if known else None
        restarts = 1 if known else 3
        observed = self.history.observed
        if begin is None and slots > 1:
            begin = fit_hidden(observed, kinds, prior=self.prior, progress=self.progress)
            restarts = 1
        return fit_hidden(
            observed,
            kinds,
            slots=slots,
            begin=begin,
            steps=steps,
            restarts=restarts,
            prior=self.prior,
            progress=self.progress,
        )

    def _begin(self, kinds: int, slots: int, previous: Estimate | None) -> Estimate | None:
        """Where a search begins: with the family without time of day, or with one hidden state a value less."""
        if slots > 1:
            same = [s.estimate for s in self._scored if s.score.kinds == kinds and s.score.slots == 1]
            return same[0] if same else previous
        return previous

    def _scored_steps(self, tests: Sequence[Mask]) -> list[Mask]:
        """Records of the second half that have a record before them in their series."""
        out = []
        for row, mask in zip(self.history.observed.series, tests, strict=True):
            seen = row >= 0
            before = np.concatenate([[False], np.cumsum(seen)[:-1] > 0])
            out.append(seen & before & mask)
        return out

    def _empty_score(self, kinds: int, slots: int) -> FamilyScore:
        score = FamilyScore.of(self.history.observed.values, kinds, slots)
        period = self.history.observed.period if slots > 1 else 1
        return replace(score, bounded=kinds == 1 or has_few_pairs(score.internal_states, period))

    def _why_not(self, kinds: int, slots: int) -> str:
        """Why a family is not fitted; empty where it is."""
        if kinds == 1 and slots == 1:
            return ""
        records, hidden = self.history.observed.records, kinds * self.history.observed.values
        least = (RULES.records_a_row if slots == 1 else RULES.records_a_slot_row) * hidden * slots
        if records < least:
            return f"needs {least:,} records"
        if kinds > 1 and hidden > RULES.hidden:
            return f"has more than {RULES.hidden} hidden states"
        return ""

    def _chosen(self, unfitted: list[FamilyScore], name: str, clusters: Codes) -> Comparison:
        """The smallest family with a bound that no larger one beats by more than two standard errors."""
        by_size = sorted(self._scored, key=lambda s: s.score.slots * s.score.internal_states**2)
        smallest = by_size[0].bits
        candidates = [n for n, family in enumerate(by_size) if family.score.bounded]
        chosen = next(
            n
            for n in candidates
            if not any(_z(by_size[n].bits - by_size[m].bits, clusters) > 2 for m in candidates if m > n)
        )
        scores = []
        for n, family in enumerate(by_size):
            mean, error = _mean(smallest - family.bits, clusters) if n else (None, None)
            bits = float(family.bits.mean()) if len(family.bits) else None
            scores.append(replace(family.score, bits=bits, gain=mean, error=error, chosen=n == chosen))
        chains = [one.estimate for one in by_size if one.score.kinds == one.score.slots == 1]
        return Comparison(
            scores=(*scores, *unfitted),
            clusters=name,
            rival=_rival(by_size[chosen], self._scored, clusters),
            chain=chains[0] if chains else None,
        )


def _rival(chosen: _Scored, families: Sequence[_Scored], clusters: Codes) -> Rival | None:
    """The best family without a bound that beats the chosen one by more than two standard errors."""
    unbounded = (family for family in families if not family.score.bounded)
    best = min(unbounded, key=lambda family: float(family.bits.sum()), default=None)
    if best is None or not len(chosen.bits):
        return None
    saved = chosen.bits - best.bits
    z = _z(saved, clusters)
    return Rival(name=best.score.name, estimate=best.estimate, gain=float(saved.mean()), z=z) if z > 2 else None


def day_steps(step: str | float | None) -> tuple[int | None, int | None]:
    """Microseconds between records, and how many of these steps make a day; None without a whole number of them."""
    if not isinstance(step, str):
        return None, None
    amount, _ = distance_amount(step)
    day, _ = distance_amount("24h")
    whole = amount.denominator == 1 and (day / amount).denominator == 1
    return (int(amount), int(day / amount)) if whole else (None, None)


def _mean(values: Floats, clusters: Codes) -> tuple[float, float]:
    """The mean and its standard error, where clusters are independent of each other."""
    if not len(values):
        return 0.0, math.inf
    _, which = np.unique(clusters, return_inverse=True)
    mean = float(values.mean())
    sums = np.bincount(which, values - mean)
    many = len(sums)
    spread = math.sqrt(float((sums**2).sum()) * many / max(1, many - 1)) / len(values)
    return mean, spread if many > 1 else math.inf


def _z(values: Floats, clusters: Codes) -> float:
    """By how many standard errors the mean lies above 0."""
    mean, error = _mean(values, clusters)
    return mean / error if error > 0 else (math.inf if mean > 0 else 0.0)
