"""The algorithm that leaks most at a DP loss, and the adversary who learns most from it, in words and as plain values.

By Theorem 1 of docs/theory/tight.md the worst algorithm asks one yes/no question of each record: is it in this set of
states? A yes makes the output e^tau times as likely as a no.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pufferdp.basics.adversary import Adversary
from pufferdp.leakage.tight.attack import SideAttack, TightLeakage

_LISTED: Final = 3
"""Runs of equal questions that are said in words."""
_QUESTIONS: Final = 16
"""Questions on a side that JSON lists."""


@dataclass(frozen=True, kw_only=True)
class WorstSide:
    """The records on one side of the target."""

    known: tuple[int, str] | None
    """The known record: its distance from the target, and its state."""
    records: int | None
    """Unknown records that are asked; None: all there are, without end."""
    questions: tuple[tuple[str, ...], ...]
    """For the record at distance 1, 2, …: the states that count as a yes; none: the record is not asked."""
    first_law: tuple[tuple[str, float], ...]
    """Where the first record may have any law: the worst one."""

    @classmethod
    def of(cls, side: SideAttack, labels: Sequence[str]) -> WorstSide:
        """A side in the words of the model."""
        return cls(
            known=None if side.known is None else (side.known[0], labels[side.known[1]]),
            records=side.records,
            questions=tuple(tuple(labels[state] for state in states) for states in side.questions),
            first_law=tuple((labels[state], chance) for state, chance in side.first_law),
        )

    def to_dict(self) -> dict[str, Any]:
        """The known record, how many are asked, and the first questions."""
        return {
            "known": None if self.known is None else {"distance": self.known[0], "state": self.known[1]},
            "records": self.records,
            "questions": [list(states) for states in self.questions[:_QUESTIONS]],
            "first_law": dict(self.first_law) or None,
        }

    @property
    def asked(self) -> str:
        """The questions in words, from the target outwards; empty where none is asked."""
        runs = [(states, len(list(run))) for states, run in itertools.groupby(self.questions)]
        if not any(states for states, _ in runs):
            return ""
        if len(runs) == 1:
            return f"whether it is {_any_of(runs[0][0])}"
        if len(runs) > _LISTED and all(
            states == runs[n % 2][0] and count == 1 for n, (states, count) in enumerate(runs)
        ):
            first, second = (_any_of(states) for states, _ in runs[:2])
            return f"in turns whether it is {first} and whether it is {second}"
        parts, distance = [], 1
        for states, count in runs[:_LISTED]:
            place = "next to the target" if distance == 1 else f"from the {_ordinal(distance)} on"
            parts.append(f"{place} {f'whether it is {_any_of(states)}' if states else 'nothing'}")
            distance += count
        return ", ".join([*parts, *(["and so on"] if len(runs) > _LISTED else [])])


@dataclass(frozen=True, kw_only=True)
class WorstAlgorithm:
    """Who learns most, from which yes/no questions."""

    record: int | None
    """A record that leaks most, counted from 1; None: any that is far from both ends."""
    likelier: str
    other: str
    """The algorithm speaks for the first value against the second."""
    before: WorstSide
    after: WorstSide
    knows_all: bool
    """Whether the adversary knows all other records."""

    @classmethod
    def of(cls, worst: TightLeakage, labels: Sequence[str]) -> WorstAlgorithm | None:
        """In the words of the model; None where nothing leaks."""
        if worst.likelier == worst.other:
            return None
        return cls(
            record=worst.record,
            likelier=labels[worst.likelier],
            other=labels[worst.other],
            before=WorstSide.of(worst.before, labels),
            after=WorstSide.of(worst.after, labels),
            knows_all=worst.adversary == Adversary.DP,
        )

    def to_dict(self) -> dict[str, Any]:
        """What JSON says of it."""
        return {
            "record": self.record,
            "likelier": self.likelier,
            "other": self.other,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
        }

    @property
    def sentence(self) -> str:
        """Who knows what, and what is asked."""
        sides = (("before", self.before), ("after", self.after))
        known = [
            f"the record {side.known[0]} {where} it is {side.known[1]}"
            for where, side in sides
            if side.known is not None
        ]
        who = f"someone who knows {'all other records' if self.knows_all else 'no other record'}"
        if known:
            who = f"someone who knows that {' and '.join(known)}".replace("it is", "the target is", 1)
        if self.before.first_law:
            chances = ", ".join(f"{state} with probability {chance:.3g}" for state, chance in self.before.first_law)
            who += f" and that the series began as {chances}"
        before, after = self.before.asked, self.after.asked
        if before == after:
            asked = f" every unknown record{' between' if len(known) == 2 else ''} {after}" if after else ""
        else:
            parts = [f"the records {where} the target {side.asked}" for where, side in sides if side.asked]
            asked = f" {', and '.join(parts)}"
        asks = f"The worst algorithm asks{asked}, and" if asked.strip() else "The worst algorithm"
        return f"Most is learnt by {who}. {asks} speaks for the target being {self.likelier} and not {self.other}."


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _any_of(states: Sequence[str]) -> str:
    if len(states) == 1:
        return states[0]
    if len(states) > 6:
        return f"one of {len(states)} states ({', '.join(states[:3])}, …)"
    return f"{', '.join(states[:-1])} or {states[-1]}"
