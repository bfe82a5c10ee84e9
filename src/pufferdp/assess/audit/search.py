"""From few runs of many situations to many runs of one: the search for the worst-case adversary.

Windows are tried with few runs each, then other values of the known records and steps around the best with more. A few
finalists are compared, the event of the best is chosen anew on a large sample, and fresh runs bound its probabilities.
Only these last runs carry the proof, so what was tried before costs nothing: the correction is for the final tests.

The clock, or a mechanism that refuses further runs, may end an audit at any point. A search that is cut short hands its
best trial so far to the test, and a test that is cut short gives the bound of its last completed checkpoint.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from pufferdp.assess.audit import events, likelihood
from pufferdp.assess.audit.mechanisms.ours import AuditedMechanism, Outputs, Records
from pufferdp.assess.audit.mechanisms.process import OutsideMechanism, RunsEndedError
from pufferdp.assess.audit.priors import Prior
from pufferdp.assess.audit.situations import Situation, first_wave, neighbours, targets_of
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import DataError
from pufferdp.basics.progress import Progress

_KEPT: Final = 2_000_000
"""Numbers of records or outputs held at once, so that memory stays bounded."""
LEAST: Final = 100
"""Runs of one value of one situation; fewer only where the whole audit has time for few."""
CHECKPOINTS: Final = ((1 / 16, 0.02), (1 / 8, 0.02), (1 / 4, 0.02), (1 / 2, 0.02), (3 / 4, 0.02), (1.0, 0.9))
"""Shares of the planned runs after which a test may end, and the share of the error that each of these bounds takes.

The moment at which the clock stops a test may depend on its results, as a mechanism can be slow for some outputs. So
these bounds are valid at any time: the sizes are fixed beforehand, the shares of the error add up to 1, and by a union
bound all of them hold together with the stated confidence, whichever one is reported and for whatever reason.
"""


@dataclass(frozen=True)
class SearchPlan:
    """How a search divides its budget, chosen so that counts on sticky chains are proved to four fifths and more."""

    preparation: float = 0.03
    """Share of each step of the pilot, of learning a distribution, and of timing the test."""
    first_wave: float = 0.07
    first_again: float = 0.06
    """Share for the best of the first wave once more."""
    neighbours: float = 0.12
    """Share for all rounds of looking around the best."""
    finalists: float = 0.08
    choice: float = 0.12
    """Share for choosing the event of the winner."""
    test: float = 0.5
    """Share that is left for the test, at least."""
    emulation: float = 0.15
    """Share of the time for drawing from an emulation, in place of the mechanism up to here."""
    confirmation: float = 0.04
    """Share for a look at an event that was chosen by emulation."""
    searching: float = 0.75
    """Share of the time after which a search is cut short, so that its best trial is tested."""
    late: float = 0.08
    """Share by which a mechanism may be ended later than planned: ending it takes time too."""
    sample: int = 20_000
    """Runs that show how outputs are distributed, which value of one situation they tell, or how long they take."""
    kept: int = 8
    """Situations of the first wave that are run again; half as many in each round."""
    rounds: int = 4


PLAN: Final = SearchPlan()


@dataclass
class Budget:
    """Runs and seconds, spent and left. One run is one data set through the mechanism."""

    calls: int
    seconds: float
    spent: int = 0
    clock: Callable[[], float] = time.monotonic
    """What tells seconds: one that counts processor time measures alike on a busy machine."""
    started: float = 0.0
    """Seconds that starting took before it was made: they are spent."""
    began: float = field(init=False)
    timed: int = 0
    """Runs whose time is known."""
    inside: float = 0.0
    """Seconds that the timed runs took, drawing included."""
    looked: int = 0
    """Outputs in which an event was looked for."""
    looking: float = 0.0
    """Seconds that looking for events took."""

    def __post_init__(self) -> None:
        self.began = self.clock() - self.started

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self.clock() - self.began

    @property
    def share(self) -> float:
        """How much is spent: of runs or of seconds, whichever is more."""
        return min(1.0, max(self.spent / self.calls, self.elapsed / self.seconds))

    def runs(self, part: float) -> int:
        """How many runs fit into this part of all, at the speed so far and in the time that is left."""
        wanted = int(part * self.calls)
        if self.inside > 0 and self.timed:
            left = max(0.0, min(part * self.seconds, 0.9 * self.seconds - self.elapsed))
            wanted = min(wanted, int(left / (self.pace + self.looking / max(1, self.looked))))
        return wanted

    @property
    def pace(self) -> float:
        """Seconds that a run takes, so far."""
        return self.inside / max(1, self.timed)


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
    """What one situation showed: two values of the target, and the event that tells them apart."""

    situation: Situation
    likelier: float
    other: float
    choice: events.Choice

    @property
    def score(self) -> float:
        """How much it seems to leak, carefully."""
        return self.choice.score

    def with_choice(self, choice: events.Choice | None) -> Trial:
        """The same situation with another event, which may speak for the other value; None: with nothing to show."""
        if choice is None:
            return replace(self, choice=replace(self.choice, score=0.0))
        pair = (self.other, self.likelier) if choice.swapped else (self.likelier, self.other)
        return Trial(situation=self.situation, likelier=pair[0], other=pair[1], choice=choice)

    def split(self, runs: int, slack: float, least: int) -> tuple[int, int]:
        """Runs for the value that the event speaks for, and for the other, where it is rarer and harder to bound."""
        first = max(least, int(runs * float(events.split_runs(self.choice.shares, slack))))
        return first, max(least, runs - first)


@dataclass(eq=False)
class Experiment:
    """A mechanism, a budget and a source of data."""

    mechanism: AuditedMechanism
    budget: Budget
    generator: np.random.Generator
    tested: int = 1
    """Runs that the event will be tested on."""
    slack: float = 0.0
    """What the claim that is tested allows every event to be likelier by: its delta."""
    width: int = 1
    """Numbers in one output, as far as is known."""
    distribution: likelihood.OutputDistribution | None = None
    """How outputs come from records, where that is known or was learnt."""
    test_seconds: float = math.inf
    """Seconds that the test will have, about."""
    emulated: likelihood.CountDistributions | None = None
    """The distribution of a known sum, or one like that of a slow mechanism: many draws of it cost no runs."""
    least: int = LEAST
    """Runs of one value of one situation, at least."""
    deadline: float = math.inf
    """Seconds of the audit after which no run begins."""

    def allow_until(self, elapsed: float) -> None:
        """Raise RunsEndedError from runs that go on when so many seconds of the audit have passed."""
        self.deadline = elapsed
        if isinstance(self.mechanism, OutsideMechanism):
            self.mechanism.end_by(time.monotonic() + elapsed - self.budget.elapsed)

    def outputs(self, situation: Situation, value: float, size: int) -> Iterator[Outputs]:
        """Outputs on data drawn for this value of the target, in batches.

        Batches are alike all through an audit: noise that is seeded anew for each then repeats, and is seen.
        """
        cells = max(situation.prior.records, self.width)
        batch = max(1, min(max(20, self.budget.calls // 200), _KEPT // cells))
        for begin in range(0, size, batch):
            rows = min(batch, size - begin)
            if self.budget.spent and self.budget.elapsed > self.deadline:  # one run is always tried
                raise RunsEndedError(f"the time limit of {self.budget.seconds:g} s ended the audit early")
            started = self.budget.clock()
            outputs = self.mechanism.run(situation.prior.draw(situation.given(value), rows, self.generator))
            self.budget.spent += rows
            self.budget.timed += rows
            self.budget.inside += self.budget.clock() - started
            table = _checked(outputs, rows)
            self.width = table.shape[1]
            yield table

    def pilot(self, situation: Situation) -> None:
        """A few runs, to see how long they take before any are planned: one, then more where that was quick enough."""
        budget, size = self.budget, 1
        while size <= max(LEAST, min(PLAN.sample, budget.calls // 100)):
            # The first run may also start a process, so its time says little about the next ones.
            expected = budget.inside / 3 if budget.timed <= 1 else size * budget.pace
            if expected > PLAN.preparation * budget.seconds:
                break
            budget.timed, budget.inside = 0, 0.0
            list(self.outputs(situation, situation.values()[0], size))
            size *= 5
        self.least = max(10, min(LEAST, int(PLAN.preparation * budget.seconds / max(1e-9, 3 * budget.pace))))

    def learn(self, prior: Prior) -> None:
        """See whether the likelihood ratio of outputs can be computed, or estimated from a few runs."""
        slow = self.budget.pace * self.budget.calls > self.budget.seconds
        known = likelihood.known_distribution(self.mechanism, prior, self.generator)
        if known is None and (self.width > 1 or slow):
            runs = max(self.least, min(PLAN.sample, self.budget.runs(PLAN.preparation), _KEPT // self.width))
            records = prior.draw({}, runs, self.generator)
            outputs = _checked(self.mechanism.run(records), runs)
            self.budget.spent += runs
            known = likelihood.learnt_distribution(prior, records, outputs, self.generator)
            if slow and isinstance(known, likelihood.CountDistributions) and known.fits(outputs - known.sums(records)):
                self.emulated = known
        # One number shows by itself which event is best; what is known of it serves to compare situations.
        single = known if isinstance(known, likelihood.CountDistributions) and known.columns.shape[1] == 1 else None
        self.distribution = known if single is None else None
        if single is not None and single.exact:
            self.emulated = single

    def emulation(self, share: float) -> Experiment:
        """Where situations are compared: with what is drawn like the mechanism's outputs if that is slow, or itself."""
        if self.emulated is None:
            return self
        calls = min(200 * PLAN.sample, 10 * self.budget.calls)
        budget = Budget(calls, PLAN.emulation * share * self.budget.seconds, clock=self.budget.clock)
        return replace(self, mechanism=self.emulated, distribution=self.emulated, budget=budget, deadline=math.inf)

    def _choose(
        self, situation: Situation, pair: tuple[float, float], first: Outputs, second: Outputs
    ) -> events.Choice | None:
        """The event that distinguishes two values best, by a ratio where there is one."""
        started, distribution = self.budget.clock(), self.distribution
        choices = list[events.Choice | None]()
        if distribution is not None:
            ratio = events.Feature(
                words=distribution.words,
                compute=lambda outputs: distribution.log_ratio(situation, *pair, outputs),
                kind="ratio",
            )
            choices.append(events.choose_by_ratio(ratio, first, second, self._tested(ratio, first), self.slack))
        if distribution is None:
            choices.append(events.choose_event(first, second, self.tested, self.slack))
        elif not (distribution.exact or isinstance(self.mechanism, likelihood.CountDistributions)):
            choices.append(events.choose_event(first[: PLAN.sample], second[: PLAN.sample], self.tested, self.slack))
        self.budget.looking += self.budget.clock() - started
        self.budget.looked += len(first) + len(second)
        return max((choice for choice in choices if choice is not None), key=lambda choice: choice.score, default=None)

    def _tested(self, ratio: events.Feature, outputs: Outputs) -> int:
        """Runs that a test of this ratio has time for: those of wide windows take longer."""
        ratio.compute(outputs[:1])  # what is computed once is no part of it
        some, started = outputs[: 20 * LEAST], self.budget.clock()
        ratio.compute(some)
        pace = self.budget.pace + (self.budget.clock() - started) / len(some)
        return max(2 * self.least, int(min(self.tested, self.test_seconds / max(1e-9, pace))))

    def explore(self, situation: Situation, size: int) -> Trial | None:
        """Run so often for each value of the target, and look for the event that tells two values apart best."""
        values, size = situation.values(), max(self.least, min(size, _KEPT // self.width))
        outputs = {v: np.concatenate(list(self.outputs(situation, v, size))) for v in values}
        best: Trial | None = None
        for a, b in itertools.combinations(values, 2):
            choice = self._choose(situation, (a, b), outputs[a], outputs[b])
            if choice is not None and (best is None or choice.score > best.score):
                likelier, other = (b, a) if choice.swapped else (a, b)
                best = Trial(situation=situation, likelier=likelier, other=other, choice=choice)
        return best

    def refine(self, trial: Trial, runs: int) -> Trial:
        """Choose the event of a trial again, on more draws of its two values alone."""
        if self.distribution is not None:
            runs = min(runs, 10 * PLAN.sample)  # they tell probabilities that are too small to be seen
        outputs = self._two_samples(trial, runs)
        choice = self._choose(trial.situation, (trial.likelier, trial.other), outputs[0], outputs[1])
        return trial.with_choice(choice)

    def confirm(self, trial: Trial, runs: int) -> Trial:
        """An event that was chosen by emulation, or one that does better on runs of the mechanism itself."""
        distribution, pair = self.emulated, (trial.likelier, trial.other)
        outputs = self._two_samples(trial, runs)
        choices = [self._choose(trial.situation, pair, outputs[0], outputs[1])]
        if distribution is not None:
            ratios = distribution.log_ratio(trial.situation, *pair, outputs[0])
            event = events.as_range(trial.choice.event, np.concatenate(outputs))
            choices.append(events.scored_by_ratio(event, ratios, outputs[0], outputs[1], self.tested, self.slack))
        best = max((c for c in choices if c is not None), key=lambda choice: choice.score, default=None)
        return trial.with_choice(best)

    def _two_samples(self, trial: Trial, runs: int) -> tuple[Outputs, Outputs]:
        """Outputs for either value, as many as are kept."""
        outputs = []
        for value, size in zip((trial.likelier, trial.other), trial.split(runs, self.slack, self.least), strict=True):
            parts, headroom = [], _KEPT
            for part in self.outputs(trial.situation, value, size):
                parts.append(part[: max(0, headroom // part.shape[1])])
                headroom -= part.size
            outputs.append(np.concatenate(parts))
        return outputs[0], outputs[1]

    def test(self, trial: Trial, end: float, delta: float) -> tuple[events.Bound | None, bool]:
        """What fresh draws prove of the event, wrong with probability at most delta, and whether all runs were done.

        All runs and seconds that are left until this part of the budget is spent go into it. Where it is cut short, the
        bound is that of the last completed checkpoint; None before the first.
        """
        pair = (trial.likelier, trial.other)
        bound, hits, done = None, [0, 0], (0, 0)
        try:
            sizes = trial.split(self._affordable(trial, end), self.slack, self.least)
            for share, error in CHECKPOINTS:
                runs = math.ceil(share * sizes[0]), math.ceil(share * sizes[1])
                for n, value in enumerate(pair):
                    for part in self.outputs(trial.situation, value, runs[n] - done[n]):
                        hits[n] += int(trial.choice.event(part).sum())
                done, weights = runs, events.weights_of(trial.choice.shares, runs, self.slack)
                bound = events.Bound(
                    hits=(hits[0], hits[1]), runs=runs, delta=error * delta, weights=weights, slack=self.slack
                )
        except RunsEndedError:
            return bound, False
        return bound, True

    def _affordable(self, trial: Trial, end: float) -> int:
        """Runs that are left and have time; looking at outputs may take longer than making them."""
        budget = self.budget
        started = budget.clock()
        size = max(self.least, min(PLAN.sample // 4, budget.runs(PLAN.preparation / 3)))
        for outputs in self.outputs(trial.situation, trial.other, size):
            trial.choice.event(outputs)
        pace = max(1e-9, budget.clock() - started) / size
        left = end * (1 - PLAN.late / 2) * budget.seconds - budget.elapsed
        return max(2 * self.least, min(int(end * budget.calls) - budget.spent, int(left / pace)))

    def responds(self, records: Sequence[Records], delta: float) -> bool:
        """Whether outputs on data sets that have nothing in common can be distinguished; wrong with delta at most.

        An event is chosen on half of the runs and tested on the other half, for each data set and the first.
        """
        runs = max(LEAST, min(1000, self.budget.runs(0.1) // (2 * len(records))))
        if self.budget.elapsed + 2 * len(records) * runs * self.budget.pace > self.deadline:
            raise RunsEndedError("there is no time left for it")
        halves = [[self._repeated(row, runs) for _ in range(2)] for row in records]
        for other in halves[1:]:
            choice = events.choose_event(halves[0][0], other[0], runs)
            if choice is None:
                continue
            pair = (other[1], halves[0][1]) if choice.swapped else (halves[0][1], other[1])
            hits = tuple(int(choice.event(part).sum()) for part in pair)
            shown = events.Bound(hits=(hits[0], hits[1]), runs=(runs, runs), delta=delta / max(1, len(halves) - 1))
            if shown.lower > 0:
                return True
        return False

    def _repeated(self, row: Records, runs: int) -> Outputs:
        same: Records = row[np.zeros(runs, dtype=np.int64)]
        outputs = _checked(self.mechanism.run(same), runs)
        self.budget.spent += runs
        return outputs


def _checked(outputs: Outputs, rows: int) -> Outputs:
    """One finite output a row, as floats; a single number a row may come without its axis."""
    table = np.asarray(outputs, dtype=float)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != rows or table.shape[1] == 0:
        raise DataError(
            f"the mechanism gave outputs of shape {np.shape(outputs)} for {rows} data sets; it must give one row each"
        )
    if np.isnan(table).any():
        raise DataError("the mechanism gave an output that is no number; an audit needs numbers")
    return table


def prior_odds(situation: Situation, likelier: float, other: float) -> float:
    """The prior odds of the value against the other, for this adversary."""
    logs = [situation.prior.log_probability(situation.given(value)) for value in (likelier, other)]
    return math.exp(min(700.0, logs[0] - logs[1]))


@dataclass(frozen=True, eq=False, kw_only=True)
class AuditFinding:
    """The worst situation that was found, its event and what fresh runs prove; no trial where nothing shows."""

    trial: Trial | None
    bound: events.Bound | None
    tried: int
    """Situations that were run."""
    complete: bool = True
    """Whether it ended as planned, and not by the time limit."""

    @property
    def lower(self) -> float:
        """The leakage that is proved."""
        return 0.0 if self.bound is None else self.bound.lower


@dataclass(frozen=True, eq=False, kw_only=True)
class ComputedFinding:
    """A situation and an output whose probabilities are known."""

    situation: Situation
    likelier: float
    other: float
    event: likelihood.ComputedEvent


def find(
    laboratory: Experiment,
    priors: Sequence[Prior],
    adversary: Adversary,
    *,
    targets: Sequence[int] | None,
    share: float,
    end: float,
    delta: float,
    progress: Progress,
    slack: float = 0.0,
    likely: Sequence[Situation] = (),
) -> AuditFinding:
    """Search, choose, test: with this share of the budget, wrong with probability at most delta.

    ``end`` is the part of the budget that is spent when it ends, ``likely`` are situations to begin with beside
    windows.
    """
    budget = laboratory.budget
    laboratory.slack = slack
    laboratory.allow_until(budget.elapsed + PLAN.searching * max(0.0, end * budget.seconds - budget.elapsed))
    progress("trying windows")
    wave = [
        situation
        for prior in priors
        for situation in first_wave(prior, adversary, targets or targets_of(prior), laboratory.generator)
        if len(situation.values()) > 1
    ]
    if not wave:
        return AuditFinding(trial=None, bound=None, tried=0)
    keys = {situation.key for situation in likely}
    wave = [*likely, *(situation for situation in wave if situation.key not in keys)]
    search = _Search(laboratory, adversary, targets is None, share)
    complete = True
    try:
        search.find_best(wave, priors[0], progress)
    except RunsEndedError:
        complete = False
    if search.best is None:
        return AuditFinding(trial=None, bound=None, tried=len(search.seen), complete=complete)
    progress("testing the event on fresh runs")
    laboratory.allow_until((end + PLAN.late) * budget.seconds)
    bound, tested = laboratory.test(search.best, end, delta)
    trial = None if bound is None else search.best
    return AuditFinding(trial=trial, bound=bound, tried=len(search.seen), complete=complete and tested)


def computed_worst(
    distribution: likelihood.RecordDistributions,
    priors: Sequence[Prior],
    adversary: Adversary,
    *,
    targets: Sequence[int] | None,
    likely: Sequence[Situation],
    generator: np.random.Generator,
    until: Callable[[], bool],
) -> ComputedFinding | None:
    """The most revealing output by the mechanism's own distribution: searched like events, without runs."""
    best: ComputedFinding | None = None
    seen = set[object]()

    def look(situations: Iterable[Situation]) -> bool:
        nonlocal best
        better = False
        for situation in situations:
            if situation.key in seen or until():
                continue
            seen.add(situation.key)
            for a, b in itertools.permutations(situation.values(), 2):
                event = distribution.worst_output(situation, a, b)
                if best is None or event.leakage > best.event.leakage:
                    best, better = ComputedFinding(situation=situation, likelier=a, other=b, event=event), True
        return better

    look(likely)
    for prior in priors:
        look(first_wave(prior, adversary, targets or targets_of(prior), generator))
    while best is not None and not until():
        if not look(neighbours(best.situation, adversary, targets is None, generator)):
            break
    return best


class _Search:
    """Situations run so far. Scores of unlike numbers of runs are not compared: fewer runs score less."""

    def __init__(self, laboratory: Experiment, adversary: Adversary, movable: bool, share: float) -> None:
        self.itself, self.adversary, self.movable, self.share = laboratory, adversary, movable, share
        self.laboratory = laboratory
        self.seen: set[object] = set()
        self.best: Trial | None = None
        """The trial to test, also where the search is cut short."""

    def find_best(self, wave: Sequence[Situation], prior: Prior, progress: Progress) -> None:
        """From windows over steps around the best to the choice of the event."""
        itself, share = self.itself, self.share
        if not itself.budget.timed:
            itself.pilot(wave[0])
            itself.learn(prior)
        itself.tested = max(2 * itself.least, itself.budget.runs(PLAN.test * share))
        itself.test_seconds = PLAN.test * share * itself.budget.seconds
        # Those who know all others test the claim: whatever is wrong with a mechanism must be seen, so it runs itself.
        laboratory = itself if self.adversary is Adversary.DP else itself.emulation(share)
        if laboratory is not itself:
            self.laboratory, self.share = laboratory, 1.0
        first = self.refine_best(self.run(wave, PLAN.first_wave, least=1)[: PLAN.kept], PLAN.first_again)
        least = laboratory.least
        while not first and laboratory.least < LEAST:  # few runs show nothing: fewer situations with more runs each
            laboratory.least = min(LEAST, 2 * laboratory.least)
            first = self.run(wave, PLAN.first_wave, least=1)[:1]
        laboratory.least = least
        if not first:
            return
        self.best = first[0]
        path = self.steps(first[0], progress)
        progress("choosing the event")
        self.best = self.refine_best([*path[:2], *first[1:3]], PLAN.finalists)[0]
        self.best = laboratory.refine(self.best, laboratory.budget.runs(PLAN.choice * self.share))
        if laboratory is not itself:
            self.best = itself.confirm(self.best, itself.budget.runs(PLAN.confirmation * share))

    def run(self, situations: Sequence[Situation], part: float, least: int = 0) -> list[Trial]:
        """Each with an equal number of runs from this part of the budget, as many as it has runs for; best first."""
        budget, out = self.laboratory.budget, list[Trial]()
        until = budget.elapsed + 2 * part * self.share * budget.seconds
        runs = budget.runs(part * self.share)
        fits = max(least, runs // (2 * self.laboratory.least))
        if len(situations) > fits:  # some of them, taken evenly
            situations = [situations[n * len(situations) // fits] for n in range(fits)]
        values = sum(len(s.values()) for s in situations)
        most = (
            PLAN.sample if self.laboratory.distribution is None else PLAN.sample // 5
        )  # ratios tell more, and take longer
        size = min(most, max(self.laboratory.least, runs // max(1, values)))
        for situation in situations:
            if out and budget.elapsed > until:
                break
            self.seen.add(situation.key)
            trial = self.laboratory.explore(situation, size)
            if trial is not None:
                out.append(trial)
                self.best = self.best or trial
        return sorted(out, key=lambda trial: trial.score, reverse=True)

    def refine_best(self, trials: Sequence[Trial], part: float) -> list[Trial]:
        """With more runs each, as far as there are: what looked good by chance falls back."""
        runs = self.laboratory.budget.runs(part * self.share)
        top = trials[: runs // (2 * self.laboratory.least)]
        if len(top) < 2:
            return list(trials[:1])
        return sorted(
            (self.laboratory.refine(trial, runs // len(top)) for trial in top),
            key=lambda trial: trial.score,
            reverse=True,
        )

    def steps(self, best: Trial, progress: Progress) -> list[Trial]:
        """From the best to better ones around it, as long as there are any; where it ended first."""
        path = [best]
        for _ in range(PLAN.rounds):
            progress(f"looking around the best of {len(self.seen)} adversaries")
            near = neighbours(path[0].situation, self.adversary, self.movable, self.laboratory.generator)
            fresh = [s for s in near if s.key not in self.seen]
            trials = self.run(fresh, PLAN.neighbours / PLAN.rounds / 2)[: PLAN.kept // 2]
            if not trials:
                break
            winner = self.refine_best([path[0], *trials], PLAN.neighbours / PLAN.rounds / 2)[0]
            if winner.situation is path[0].situation:
                break
            path.insert(0, winner)
            self.best = winner
        return path
