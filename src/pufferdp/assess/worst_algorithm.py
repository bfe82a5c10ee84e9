"""The algorithm that leaks most at a DP loss, and the adversary who learns most from it, in words and as plain values.

By Theorem 1 of docs/theory/tight.md the worst algorithm asks one yes/no question of each record: is it in this set of
states? A yes makes the output e^tau times as likely as a no.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pufferdp.basics.adversary import Adversary
from pufferdp.leakage.tight.attack import SideAttack, TightLeakage

_MOST_RUNS: Final = 3
"""Changes of the question on a side that a sentence tells."""
_MOST_STATES: Final = 6
"""States of a question that a sentence names."""


@dataclass(frozen=True)
class Question:
    """Records on one side of the target that are asked the same, from one distance to another."""

    first: int
    last: int | None
    """None: without end."""
    states: tuple[str, ...]
    """What counts as a yes."""

    def to_dict(self) -> dict[str, Any]:
        """Distances and states."""
        return {"from": self.first, "to": self.last, "states": list(self.states)}

    def words(self, side: str) -> str:
        """The question to the records on a side, such as "before it"."""
        first, last = self.first, self.last
        if last is None:
            where = f"all records from the {_ordinal(first)} {side}" if first > 1 else f"all records {side}"
        elif first == last:
            where = f"the {_ordinal(first)} record {side}" if first > 1 else f"the next record {side}"
        elif first == 1:
            where = f"the next {last:,} records {side}"
        else:
            where = f"the {_ordinal(first)} to {_ordinal(last)} record {side}"
        if len(self.states) > _MOST_STATES:
            return f"{where}: is it one of {len(self.states)} states ({', '.join(self.states[:3])}, …)?"
        return f"{where}: is it {' or '.join(self.states)}?"


@dataclass(frozen=True, kw_only=True)
class WorstSide:
    """The records on one side of the target."""

    known: tuple[int, str] | None
    """The known record: its distance from the target, and its state."""
    questions: tuple[Question, ...]
    """From the target outwards; records that are asked nothing are left out."""
    first_law: tuple[tuple[str, float], ...]
    """Where the first record may have any law: the worst one."""

    @classmethod
    def of(cls, side: SideAttack, labels: Sequence[str]) -> WorstSide:
        """A side in the words of the model."""
        return cls(
            known=None if side.known is None else (side.known[0], labels[side.known[1]]),
            questions=_questions(side, labels),
            first_law=tuple((labels[state], chance) for state, chance in side.first_law),
        )

    @property
    def known_dict(self) -> dict[str, Any] | None:
        """The known record by name."""
        return None if self.known is None else {"distance": self.known[0], "state": self.known[1]}


@dataclass(frozen=True, kw_only=True)
class WorstAlgorithm:
    """Who learns most, from which yes/no questions."""

    record: int | None
    """A record that leaks most, counted from 1; None: any that is far from both ends."""
    model: int
    """The chain of a class that it is about, counted from 0."""
    likelier: str
    other: str
    """The algorithm speaks for the first value against the second; the same where nothing leaks."""
    before: WorstSide
    after: WorstSide
    knows_all: bool
    """Whether the adversary knows all other records."""

    @classmethod
    def of(cls, worst: TightLeakage, labels: Sequence[str]) -> WorstAlgorithm:
        """In the words of the model."""
        return cls(
            record=worst.record,
            model=worst.model,
            likelier=labels[worst.likelier],
            other=labels[worst.other],
            before=WorstSide.of(worst.before, labels),
            after=WorstSide.of(worst.after, labels),
            knows_all=worst.adversary == Adversary.DP,
        )

    def to_dict(self) -> dict[str, Any]:
        """Two values of the record, what is known of others, what they are asked."""
        sides = {"before": self.before, "after": self.after}
        return {
            "record": self.record,
            "likelier": self.likelier,
            "other": self.other,
            **{name: side.known_dict for name, side in sides.items()},
            "questions": {name: [run.to_dict() for run in side.questions] for name, side in sides.items()},
            "first_law": dict(self.before.first_law) or None,
        }

    @property
    def sentences(self) -> tuple[str, ...]:
        """Who knows what, and what is asked; nothing where nothing leaks."""
        if self.likelier == self.other:
            return ()
        sides = (("before", self.before), ("after", self.after))
        known = [
            f"the record {side.known[0]:,} step{'s' * (side.known[0] != 1)} {place} it to be {side.known[1]}"
            for place, side in sides
            if side.known is not None
        ]
        who = " and ".join(known) or ("all other records" if self.knows_all else "no other record")
        if self.before.first_law:
            chances = " or ".join(f"{state} (probability {chance:.3g})" for state, chance in self.before.first_law)
            who += f", and the first record to be {chances}"
        learns = (
            f"Most is learnt by someone who knows {who}, about the record being {self.likelier} and not {self.other}."
        )
        asked = self._asked()
        return (learns, asked) if asked else (learns,)

    def _asked(self) -> str:
        """The questions in a sentence; empty where there are none, or too many."""
        before, after = self.before.questions, self.after.questions
        if not (before or after) or max(len(before), len(after)) > _MOST_RUNS:
            return ""
        if before == after:
            parts = [run.words("on either side") for run in before]
        else:
            parts = [run.words("before it") for run in before] + [run.words("after it") for run in after]
        return f"The worst algorithm asks {' It asks '.join(parts)}"


def _questions(side: SideAttack, labels: Sequence[str]) -> tuple[Question, ...]:
    """Runs of equal questions. Questions beyond those that are listed go on like the last."""
    runs: list[Question] = []
    for distance, numbers in enumerate(side.questions, start=1):
        states = tuple(labels[state] for state in numbers)
        if runs and runs[-1].states == states and runs[-1].last == distance - 1:
            runs[-1] = Question(runs[-1].first, distance, states)
        elif states:
            runs.append(Question(distance, distance, states))
    if runs and runs[-1].last == len(side.questions) and (side.records is None or side.records > len(side.questions)):
        runs[-1] = Question(runs[-1].first, None, runs[-1].states)
    return tuple(runs)


def _ordinal(n: int) -> str:
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{ending}"
