"""Whom to try: what adversaries know, the worst first.

In a series, revealing every record beyond the unknown segment around the target only helps, whatever the mechanism: the
distribution of the output given less is a mixture of those given more, with the same weights for both values of the
target. So windows come first: nothing known, all but the neighbours, all but a window, all known. Then the values of
the known records next to it, and last what lies around the best.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.assess.audit.priors import Known, Prior, SeriesPrior, possible
from pufferdp.assess.worst_algorithm import WorstAlgorithm
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.words import shorten

MOST_VALUES: Final = 6
"""Values of a record that are distinguished; of more, some from end to end."""
_MOST_TARGETS: Final = 12
"""Records looked at in models that are no series."""


@dataclass(frozen=True, eq=False)
class Situation:
    """An adversary's prior, the records they know, and the one they target."""

    prior: Prior
    target: int
    known: tuple[tuple[int, float], ...]
    """Positions and values, sorted."""

    @property
    def key(self) -> tuple[int, int, tuple[tuple[int, float], ...]]:
        """Alike for situations that are the same."""
        return id(self.prior), self.target, self.known

    def given(self, value: float) -> dict[int, float]:
        """All that is known, were this the value of the target."""
        return {**dict(self.known), self.target: value}

    def values(self) -> list[float]:
        """Values of the target that what is known leaves possible, a few of them where there are many."""
        every = self.prior.values(self.target)
        chosen = sorted({every[round(n)] for n in np.linspace(0, len(every) - 1, min(len(every), MOST_VALUES))})
        return [value for value in chosen if possible(self.prior, self.given(value))]

    def knows(self) -> str:
        """Which records the adversary knows, in words."""
        n = self.prior.records
        if not self.known:
            return "no record"
        if len(self.known) == n - 1:
            return "all other records"
        held = dict(self.known)
        if isinstance(self.prior, SeriesPrior):
            left, right = unknown_segment(self)
            window = f"every record except the {left} before it and the {right} after it"
            ends = [
                f"the record {side} these is {self.prior.value(at, held[at])}"
                for side, at in (("before", self.target - left - 1), ("after", self.target + right + 1))
                if at in held
            ]
            return f"{window}; {' and '.join(ends)}"
        return shorten([f"{self.prior.name(j)} = {self.prior.value(j, x)}" for j, x in self.known], 6)


def first_wave(
    prior: Prior, adversary: Adversary, targets: Sequence[int], generator: np.random.Generator
) -> Iterator[Situation]:
    """Windows of growing width around each target; every other record has one value, or is drawn."""
    for target in targets:
        rings = prior.near(target)
        widths = {
            Adversary.PUFFERFISH: [len(rings)],
            Adversary.DP: [0],
            Adversary.BDP: [0, *_doubling(len(rings))],
        }[adversary]
        for width in dict.fromkeys(widths):
            inside = {target, *itertools.chain.from_iterable(rings[:width])}
            outside = [j for j in range(prior.records) if j not in inside]
            if adversary is Adversary.PUFFERFISH:
                outside = []
            yield from _constant_fills(prior, target, outside, generator)


def _doubling(most: int) -> list[int]:
    widths = [1]
    while widths[-1] < most:
        widths.append(2 * widths[-1])
    return [min(width, most) for width in widths]


def _constant_fills(
    prior: Prior, target: int, outside: Sequence[int], generator: np.random.Generator
) -> Iterator[Situation]:
    """The known records all at one value, each value in turn; where none can be, as they are drawn."""
    if not outside:
        yield Situation(prior, target, ())
        return
    every = prior.values(outside[0])
    fills = [
        [(j, values[n]) for j in outside if (values := prior.values(j)) and n < len(values)] for n in range(len(every))
    ]
    situations = [
        s for fill in fills if len(fill) == len(outside) if (s := _situation(prior, target, dict(fill))) is not None
    ]
    if not situations:
        drawn = prior.draw({}, 4, generator)
        rows = [_situation(prior, target, {j: float(row[j]) for j in outside}) for row in drawn]
        situations = [s for s in rows if s is not None]
    yield from situations[:MOST_VALUES]


def _situation(prior: Prior, target: int, known: Known) -> Situation | None:
    """The situation, where it leaves two values of the target possible."""
    situation = Situation(prior, target, tuple(sorted(known.items())))
    return situation if len(situation.values()) > 1 else None


def targets_of(prior: Prior) -> list[int]:
    """Records to begin with: the middle and the ends of a series; elsewhere those with most company."""
    n = prior.records
    if isinstance(prior, SeriesPrior):
        return list(dict.fromkeys([n // 2, 0, n - 1]))
    company = [sum(len(ring) for ring in prior.near(j)) for j in range(n)]
    return sorted(sorted(range(n), key=lambda j: -company[j])[:_MOST_TARGETS])


def neighbours(
    situation: Situation, adversary: Adversary, movable: bool, generator: np.random.Generator
) -> list[Situation]:
    """Situations a step away: other known values first, then a window wider or narrower, then another target."""
    steps = _series_steps if isinstance(situation.prior, SeriesPrior) else _table_steps
    seen = {situation.key}
    out = []
    for near in steps(situation, adversary, movable, generator):
        if near is not None and near.key not in seen:
            seen.add(near.key)
            out.append(near)
    return out


def unknown_segment(situation: Situation) -> tuple[int, int]:
    """How many records next to the target are unknown, before and after it."""
    held, i = dict(situation.known), situation.target
    left = next((d for d in range(i) if i - 1 - d in held), i)
    n = situation.prior.records
    return left, next((d for d in range(n - 1 - i) if i + 1 + d in held), n - 1 - i)


def informed_by(prior: Prior, worst: WorstAlgorithm, generator: np.random.Generator) -> list[Situation]:
    """The worst-case adversary for the worst algorithm of the same DP loss, with windows around it down to a quarter.

    Whatever the mechanism, they are a good guess. Narrower windows leave less to chance: fewer outputs must agree.
    """
    if not isinstance(prior, SeriesPrior) or worst.likelier == worst.other or worst.knows_all:
        return []
    n, i = prior.records, prior.records // 2 if worst.record is None else worst.record - 1
    labels = list(prior.chain.labels)
    sides = [
        (headroom if side.known is None else min(headroom, side.known[0] - 1), side.known)
        for side, headroom in ((worst.before, i), (worst.after, n - 1 - i))
    ]
    ends = tuple(None if known is None else float(labels.index(known[1])) for _, known in sides)
    out = dict[object, Situation]()
    for share in (1.0, 0.75, 0.5, 0.25):
        widths = [width if known is None else min(width, math.ceil(share * width)) for width, known in sides]
        situation = _window(prior, i, widths[0], widths[1], ends, generator)
        if situation is not None:
            out.setdefault(situation.key, situation)
    return list(out.values())


def _series_steps(
    situation: Situation, adversary: Adversary, movable: bool, generator: np.random.Generator
) -> Iterator[Situation | None]:
    prior, i, n = situation.prior, situation.target, situation.prior.records
    held, (left, right) = dict(situation.known), unknown_segment(situation)
    states = prior.values(i)
    ends = [held.get(i - left - 1), held.get(i + right + 1)]
    choices = [states if end is not None else (None,) for end in ends]
    if adversary is not Adversary.PUFFERFISH:
        for pair in itertools.product(*choices):
            yield _window(prior, i, left, right, pair, generator)
    if adversary is Adversary.BDP:
        for a, b in ((1, 0), (0, 1), (1, 1), (-1, 0), (0, -1), (-1, -1), (1, -1), (-1, 1)):
            for share in (0.0, 0.25):
                width = [
                    min(max(w + s * max(1, round(w * share)), 0), m)
                    for w, s, m in ((left, a, i), (right, b, n - 1 - i))
                ]
                known_ends = [end if end is not None else states[0] for end in ends]
                yield _window(prior, i, width[0], width[1], (known_ends[0], known_ends[1]), generator)
    if movable:
        for j in {i - 1, i + 1, i // 2, (i + n) // 2}:
            if 0 <= j < n:
                whole = adversary is Adversary.PUFFERFISH
                width = [j, n - 1 - j] if whole else [min(left, j), min(right, n - 1 - j)]
                known_ends = [end if end is not None else states[0] for end in ends]
                yield _window(prior, j, width[0], width[1], (known_ends[0], known_ends[1]), generator)


def _window(
    prior: Prior, i: int, left: int, right: int, ends: tuple[float | None, ...], generator: np.random.Generator
) -> Situation | None:
    """All but a window known: each side at one state as far as it goes, or drawn where that cannot be."""
    before, after = range(i - left), range(i + right + 1, prior.records)
    sides = [(j, end) for side, end in ((before, ends[0]), (after, ends[1])) for j in side if end is not None]
    alike = _situation(prior, i, dict(sides))
    if alike is not None:
        return alike
    border = {j: x for j, x in sides if j in (i - left - 1, i + right + 1)}
    if not possible(prior, border):
        return None
    row = prior.draw(border, 1, generator)[0]
    return _situation(prior, i, {j: float(row[j]) for j, _ in sides})


def _table_steps(
    situation: Situation, adversary: Adversary, movable: bool, generator: np.random.Generator
) -> Iterator[Situation | None]:
    """One record known otherwise, no longer or newly; or another target in place of it."""
    prior, i, held = situation.prior, situation.target, dict(situation.known)
    company = list(itertools.chain.from_iterable(prior.near(i)))[:_MOST_TARGETS]
    if adversary is not Adversary.PUFFERFISH:
        for j in company:
            rest = {k: x for k, x in held.items() if k != j}
            if adversary is Adversary.BDP and j in held:
                yield _situation(prior, i, rest)
            if adversary is Adversary.BDP or j in held:
                for x in prior.values(j):
                    yield _situation(prior, i, {**rest, j: x})
    if movable:
        for j in company:
            rest = {k: x for k, x in held.items() if k != j}
            if adversary is Adversary.DP or (adversary is Adversary.BDP and j in held):
                for x in prior.values(i):
                    yield _situation(prior, j, {**rest, i: x})
            else:
                yield _situation(prior, j, rest)
