"""From few runs of many situations to many runs of one: the search for whoever learns most.

Windows are tried with few runs each, then other values of the known records and steps around the best with more. A few
finalists are compared, the event of the best is chosen anew on a large sample, and fresh runs bound its probabilities.
Only these last runs carry the proof, so what was tried before costs nothing: the correction is for the final tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pufferdp.audit.conditional import Belief
from pufferdp.audit.events import Bound
from pufferdp.audit.situations import Situation, around, first_wave, targets_of
from pufferdp.audit.trials import LEAST, Laboratory, Trial
from pufferdp.checks import Adversary

_KEPT: Final = 8
"""Situations of the first wave that are run again."""
_FINALISTS: Final = 3
_ROUNDS: Final = 4
"""Steps around the best, at most."""
_FIRST, _AGAIN, _STEPS, _FINAL, _CHOICE, _TEST = 0.08, 0.08, 0.16, 0.12, 0.16, 0.4
"""Shares of the budget: first wave, its best again, steps around the best, finalists, choice of the event, test."""
_MOST_RUNS: Final = 20_000
"""For one value of one situation while exploring."""

Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False, kw_only=True)
class Finding:
    """The worst situation that was found, its event and what fresh runs prove; no trial where nothing shows."""

    trial: Trial | None
    bound: Bound | None
    tried: int
    """Situations that were run."""

    @property
    def lower(self) -> float:
        """The leakage that is proved."""
        return 0.0 if self.bound is None else self.bound.lower


def find(
    laboratory: Laboratory,
    beliefs: Sequence[Belief],
    adversary: Adversary,
    *,
    targets: Sequence[int] | None,
    share: float,
    delta: float,
    progress: Progress,
) -> Finding:
    """Search, choose, test: with this share of the budget, wrong with probability at most delta."""
    progress("trying windows")
    wave = [
        situation
        for belief in beliefs
        for situation in first_wave(belief, adversary, targets or targets_of(belief), laboratory.generator)
        if len(situation.values()) > 1
    ]
    if not wave:
        return Finding(trial=None, bound=None, tried=0)
    if not laboratory.budget.timed:
        laboratory.pilot(wave[0])
    laboratory.tested = max(2 * LEAST, laboratory.budget.runs(_TEST * share))
    search = _Search(laboratory, adversary, targets is None, share)
    first = search.again(search.run(wave, _FIRST, least=1)[:_KEPT], _AGAIN)
    if not first:
        return Finding(trial=None, bound=None, tried=len(search.seen))
    path = search.steps(first[0], progress)
    progress("choosing the event")
    finalists = search.again([*path[:2], *first[1:_FINALISTS]], _FINAL)
    best = laboratory.refine(finalists[0], laboratory.budget.runs(_CHOICE * share))
    progress("testing the event on fresh runs")
    tested = laboratory.test(best, laboratory.budget.runs(_TEST * share), delta)
    return Finding(trial=best, bound=tested, tried=len(search.seen))


def _spread(wave: Sequence[Situation], most: int) -> Sequence[Situation]:
    """No more situations than the budget has runs for, taken evenly."""
    return wave if len(wave) <= most else [wave[n * len(wave) // most] for n in range(most)]


class _Search:
    """Situations run so far. Scores of unlike numbers of runs are not compared: fewer runs score less."""

    def __init__(self, laboratory: Laboratory, adversary: Adversary, movable: bool, share: float) -> None:
        self.laboratory, self.adversary, self.movable, self.share = laboratory, adversary, movable, share
        self.seen: set[object] = set()

    def run(self, situations: Sequence[Situation], part: float, least: int = 0) -> list[Trial]:
        """Each with an equal number of runs from this part of the budget, as many as it has runs for; best first."""
        budget, out = self.laboratory.budget, list[Trial]()
        until = budget.elapsed + 2 * part * self.share * budget.seconds
        runs = budget.runs(part * self.share)
        situations = _spread(situations, max(least, runs // (2 * LEAST)))
        values = sum(len(s.values()) for s in situations)
        size = min(_MOST_RUNS, max(LEAST, runs // max(1, values)))
        for situation in situations:
            if out and budget.elapsed > until:
                break
            self.seen.add(situation.key)
            trial = self.laboratory.explore(situation, size)
            if trial is not None:
                out.append(trial)
        return sorted(out, key=_score, reverse=True)

    def again(self, trials: Sequence[Trial], part: float) -> list[Trial]:
        """With more runs each, as far as there are: what looked good by chance falls back."""
        runs = self.laboratory.budget.runs(part * self.share)
        top = trials[: runs // (2 * LEAST)]
        if len(top) < 2:
            return list(trials[:1])
        return sorted((self.laboratory.refine(trial, runs // len(top)) for trial in top), key=_score, reverse=True)

    def steps(self, best: Trial, progress: Progress) -> list[Trial]:
        """From the best to better ones around it, as long as there are any; where it ended first."""
        path = [best]
        for _ in range(_ROUNDS):
            progress(f"looking around the best of {len(self.seen)} adversaries")
            near = around(path[0].situation, self.adversary, self.movable, self.laboratory.generator)
            fresh = [s for s in near if s.key not in self.seen]
            found = self.run(fresh, _STEPS / _ROUNDS / 2)[: _KEPT // 2]
            if not found:
                break
            winner = self.again([path[0], *found], _STEPS / _ROUNDS / 2)[0]
            if winner.situation is path[0].situation:
                break
            path.insert(0, winner)
        return path


def _score(trial: Trial) -> float:
    return trial.score
