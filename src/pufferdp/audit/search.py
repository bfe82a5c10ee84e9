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
_ROUNDS: Final = 8
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
    laboratory.pilot(wave[0])
    search = _Search(laboratory, adversary, targets is None, share)
    search.run(wave, _FIRST, least=1)
    search.again(_KEPT, _AGAIN)
    search.steps(progress)
    if not search.found:
        return Finding(trial=None, bound=None, tried=len(search.seen))
    progress("choosing the event")
    search.again(_FINALISTS, _FINAL)
    best, values = search.found[0], 2
    best = laboratory.refine(best, max(LEAST, laboratory.budget.runs(_CHOICE * share) // values))
    progress("testing the event on fresh runs")
    size = max(LEAST, laboratory.budget.runs(_TEST * share) // values)
    return Finding(trial=best, bound=laboratory.test(best, size, delta), tried=len(search.seen))


def _spread(wave: Sequence[Situation], most: int) -> Sequence[Situation]:
    """No more situations than the budget has runs for, taken evenly."""
    return wave if len(wave) <= most else [wave[n * len(wave) // most] for n in range(most)]


class _Search:
    """Situations run so far, the best on top."""

    def __init__(self, laboratory: Laboratory, adversary: Adversary, movable: bool, share: float) -> None:
        self.laboratory, self.adversary, self.movable, self.share = laboratory, adversary, movable, share
        self.found: list[Trial] = []
        self.seen: set[object] = set()

    def run(self, situations: Sequence[Situation], part: float, least: int = 0) -> None:
        """Each with an equal number of runs from this part of the budget, as many situations as it has runs for."""
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
        self.found = sorted([*self.found, *out], key=lambda trial: -trial.score)

    def steps(self, progress: Progress) -> None:
        """Around the best, until nothing better is found or the share is spent."""
        budget = self.laboratory.budget
        limit = budget.spent + _STEPS * self.share * budget.calls
        until = budget.elapsed + _STEPS * self.share * budget.seconds
        for _ in range(_ROUNDS):
            if not self.found or budget.spent >= limit or budget.elapsed >= until:
                return
            best = self.found[0]
            progress(f"looking around the best of {len(self.seen)} adversaries")
            near = around(best.situation, self.adversary, self.movable, self.laboratory.generator)
            fresh = [s for s in near if s.key not in self.seen]
            self.run(fresh, _STEPS / 4)
            if not fresh or self.found[0] is best:
                return

    def again(self, most: int, part: float) -> None:
        """The best few with more runs each: what looked good by chance falls back."""
        runs = self.laboratory.budget.runs(part * self.share)
        top = self.found[: min(most, runs // (2 * LEAST))]
        if len(top) > 1:
            size = runs // (2 * len(top))
            self.found = sorted((self.laboratory.refine(t, size) for t in top), key=lambda trial: -trial.score)
