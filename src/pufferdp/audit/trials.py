"""Running a mechanism on drawn data: batches, a budget of calls and seconds, and what one situation shows."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from pufferdp.audit.events import Bound, Choice, bound, choose_event
from pufferdp.audit.mechanism import AuditedMechanism, Outputs
from pufferdp.audit.situations import Situation
from pufferdp.errors import DataError

_CELLS: Final = 2_000_000
"""Records in one call, so that memory stays bounded."""
_BATCHES: Final = 200
"""Calls that an audit is cut into, or more where they would grow too large,"""
_LEAST_BATCH: Final = 20
"""or fewer where they would grow too small."""
_KEPT: Final = 20_000_000
"""Numbers of output kept while an event is chosen."""
_MOST_UNEVEN: Final = 9.0
"""Beyond this log-ratio runs are split no more unevenly: about 20 to 1."""
LEAST: Final = 100
"""Fewer runs than this say nothing about an event."""


@dataclass
class Budget:
    """Runs and seconds, spent and left. One run is one data set through the mechanism."""

    calls: int
    seconds: float
    spent: int = 0
    began: float = field(default_factory=time.monotonic)
    timed: int = 0
    """Runs whose time is known, and"""
    inside: float = 0.0
    """the seconds they took, with drawing."""

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    @property
    def share(self) -> float:
        """How much is spent: of runs or of seconds, whichever is more."""
        return min(1.0, max(self.spent / self.calls, self.elapsed / self.seconds))

    def runs(self, part: float) -> int:
        """How many runs fit into this part of all, at the speed so far and in the time that is left."""
        wanted = int(part * self.calls)
        if self.inside > 0 and self.timed:
            left = max(0.0, min(part * self.seconds, 0.9 * self.seconds - self.elapsed))
            wanted = min(wanted, int(left * self.timed / self.inside))
        return wanted


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
    """What one situation showed: two values of the target, and the event that tells them apart."""

    situation: Situation
    likelier: float
    other: float
    choice: Choice

    @property
    def score(self) -> float:
        """How much it seems to leak, carefully."""
        return self.choice.score

    def split(self, runs: int) -> tuple[int, int]:
        """Runs for the value that the event speaks for, and for the other, where it is rarer and harder to bound.

        1/√(p·m) + 1/√(q·n) is least, for m + n fixed, where n/m is the cube root of p/q.
        """
        share = 1 / (1 + math.exp(min(self.score, _MOST_UNEVEN) / 3))
        first = max(LEAST, int(runs * share))
        return first, max(LEAST, runs - first)


@dataclass(eq=False)
class Laboratory:
    """A mechanism, a budget and a source of data."""

    mechanism: AuditedMechanism
    budget: Budget
    generator: np.random.Generator
    tested: int = 1
    """Runs that the event will be tested on."""

    def outputs(self, situation: Situation, value: float, size: int) -> Iterator[Outputs]:
        """Outputs on data drawn for this value of the target, in batches.

        Batches are alike all through an audit: noise that is seeded anew for each then repeats, and is seen.
        """
        batch = max(1, min(max(_LEAST_BATCH, self.budget.calls // _BATCHES), _CELLS // situation.belief.records))
        for begin in range(0, size, batch):
            rows = min(batch, size - begin)
            started = time.monotonic()
            found = self.mechanism.run(situation.belief.draw(situation.given(value), rows, self.generator))
            self.budget.spent += rows
            self.budget.timed += rows
            self.budget.inside += time.monotonic() - started
            yield _checked(found, rows)

    def pilot(self, situation: Situation) -> None:
        """A few runs, to see how long they take before any are planned: one, then more where that was quick enough."""
        for size in (1, LEAST):
            if self.budget.inside < 0.1 * self.budget.seconds:
                self.budget.timed, self.budget.inside = 0, 0.0  # the first may start something; it counts only alone
                list(self.outputs(situation, situation.values()[0], size))

    def explore(self, situation: Situation, size: int) -> Trial | None:
        """Run so often for each value of the target, and look for the event that tells two values apart best."""
        values = situation.values()
        kept = {v: np.concatenate(list(self.outputs(situation, v, size))) for v in values}
        best: Trial | None = None
        for a, b in itertools.combinations(values, 2):
            choice = choose_event(kept[a], kept[b], self.tested)
            if choice is not None and (best is None or choice.score > best.score):
                one, two = (b, a) if choice.swapped else (a, b)
                best = Trial(situation=situation, likelier=one, other=two, choice=choice)
        return best

    def refine(self, trial: Trial, runs: int) -> Trial:
        """Choose the event of a trial again, on more draws of its two values alone."""
        kept = []
        for value, size in zip((trial.likelier, trial.other), trial.split(runs), strict=True):
            parts, room = [], _KEPT
            for part in self.outputs(trial.situation, value, size):
                parts.append(part[: max(0, room // part.shape[1])])
                room -= part.size
            kept.append(np.concatenate(parts))
        choice = choose_event(kept[0], kept[1], self.tested)
        if choice is None:
            return replace(trial, choice=replace(trial.choice, score=0.0))
        pair = (trial.other, trial.likelier) if choice.swapped else (trial.likelier, trial.other)
        return Trial(situation=trial.situation, likelier=pair[0], other=pair[1], choice=choice)

    def test(self, trial: Trial, runs: int, delta: float) -> Bound:
        """The event's probabilities on fresh draws, wrong with probability at most delta. Sizes are fixed before."""
        sizes = trial.split(runs)
        hits = [
            sum(int(trial.choice.event(part).sum()) for part in self.outputs(trial.situation, value, size))
            for value, size in zip((trial.likelier, trial.other), sizes, strict=True)
        ]
        return bound((hits[0], hits[1]), sizes, delta)


def _checked(found: Outputs, rows: int) -> Outputs:
    """One finite output a row, as floats; a single number a row may come without its axis."""
    table = np.asarray(found, dtype=float)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != rows or table.shape[1] == 0:
        raise DataError(
            f"the mechanism gave outputs of shape {np.shape(found)} for {rows} data sets; it must give one row each"
        )
    if np.isnan(table).any():
        raise DataError("the mechanism gave an output that is no number; an audit needs numbers")
    return table


def prior_odds(trial: Trial) -> float:
    """How much likelier the value is than the other before anything is released, to somebody who knows that much."""
    s = trial.situation
    logs = [s.belief.log_probability(s.given(value)) for value in (trial.likelier, trial.other)]
    return math.exp(min(700.0, logs[0] - logs[1]))
