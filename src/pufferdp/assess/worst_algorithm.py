"""The worst-case DP algorithm and adversary, in words and as plain values.

By Theorem 1 of docs/theory/tight.md the worst-case algorithm asks one yes/no question of each record: is it in this set
of states? A yes makes the output e^tau times as likely as a no.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.paged import json_values
from pufferdp.bounds.tight.attack import SideAttack, TightLeakage

ASSUMPTION: Final = "under this model: the adversary's prior is the given model, or any model of the given class"
"""The condition of every leakage bound, as JSON states it."""
_MOST_RUNS: Final = 3
"""Changes of the question on a side that a sentence lists."""
_MOST_STATES: Final = 6
"""States of a question that a sentence names."""


@dataclass(frozen=True)
class Question:
    """Records on one side of the target that are asked the same, from one distance to another."""

    first: int
    last: int | None
    """None where the records go on without end."""
    states: tuple[str, ...]
    """The states that count as a yes."""

    def to_dict(self) -> dict[str, Any]:
        """The distances of the records and the states asked for."""
        return {"from": self.first, "to": self.last, "states": list(self.states)}

    @property
    def words(self) -> str:
        """The question in quotation marks."""
        if len(self.states) > _MOST_STATES:
            return f'"is it one of {len(self.states)} states ({", ".join(self.states[:3])}, …)?"'
        return f'"is it {" or ".join(self.states)}?"'

    def place(self, side: str) -> str:
        """The records on a side, such as "before it"."""
        first, last = self.first, self.last
        if last is None:
            return f"all records from the {_ordinal(first)} {side}" if first > 1 else f"all records {side}"
        if first == last:
            return f"the {_ordinal(first)} record {side}" if first > 1 else f"the next record {side}"
        if first == 1:
            return f"the {last:,} records {side}"
        return f"the {_ordinal(first)} to {_ordinal(last)} record {side}"


@dataclass(frozen=True, kw_only=True)
class WorstSide:
    """The records on one side of the target."""

    known: tuple[int, str] | None
    """The known record: its distance from the target, and its state."""
    questions: tuple[Question, ...]
    """From the target outwards; records that are asked nothing are left out."""
    first_distribution: tuple[tuple[str, float], ...]
    """Where the first record may have any distribution: the worst one."""

    @classmethod
    def of(cls, side: SideAttack, labels: Sequence[str]) -> WorstSide:
        """A side in the words of the model."""
        return cls(
            known=None if side.known is None else (side.known[0], labels[side.known[1]]),
            questions=_questions(side, labels),
            first_distribution=tuple((labels[state], chance) for state, chance in side.first_distribution),
        )

    @property
    def known_dict(self) -> dict[str, Any] | None:
        """The known record by name."""
        return None if self.known is None else {"distance": self.known[0], "state": self.known[1]}


@dataclass(frozen=True, kw_only=True)
class WorstAlgorithm:
    """The worst-case adversary, and the yes/no questions of the worst algorithm."""

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
            **json_values(self, "record likelier other"),
            **{name: side.known_dict for name, side in sides.items()},
            "questions": {name: [run.to_dict() for run in side.questions] for name, side in sides.items()},
            "first_distribution": dict(self.before.first_distribution) or None,
        }

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the worst-case adversary knows and wants, and what is asked; nothing where nothing leaks."""
        if self.likelier == self.other:
            return ()
        wants = f"and wants to decide whether the target is {self.likelier} or {self.other}"
        learns = f"Worst-case adversary: knows {self._known()}, {wants}."
        asked = self._asked()
        return (learns, asked) if asked else (learns,)

    def _known(self) -> str:
        """The known records in words."""
        before, after = self.before.known, self.after.known
        if before is not None and before == after:
            words = f"that the records {_steps(before[0])} before and after the target are both {before[1]}"
        else:
            sides = [(side, known) for side, known in (("before", before), ("after", after)) if known is not None]
            records = [f"the record {_steps(steps)} {side} the target is {state}" for side, (steps, state) in sides]
            nothing = "all other records" if self.knows_all else "no other record"
            words = f"that {' and '.join(records)}" if records else nothing
        if self.before.first_distribution:
            chances = " or ".join(
                f"{state} (probability {chance:.3g})" for state, chance in self.before.first_distribution
            )
            words += f", has the prior that the first record is {chances}"
        return words

    def _asked(self) -> str:
        """The questions in a sentence; empty where there are none, or too many."""
        before, after = self.before.questions, self.after.questions
        if not (before or after) or max(len(before), len(after)) > _MOST_RUNS:
            return ""
        places = {Question(0, 0, (self.likelier,)).words: ["the target"]}
        sides = [("on each side", before)] if before == after else [("before it", before), ("after it", after)]
        for side, runs in sides:
            for run in runs:
                places.setdefault(run.words, []).append(run.place(side))
        questions = [f"{question} for {' and '.join(records)}" for question, records in places.items()]
        return f"The worst-case DP algorithm answers, with noise, {'; '.join(questions)}."


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


def _steps(n: int) -> str:
    return f"{n:,} step{'s' * (n != 1)}"


def _ordinal(n: int) -> str:
    return f"{n:,}" + ("th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th"))
