"""What all beliefs about a fixed list of records share: names, states, laws given what is known."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.errors import ModelError

Law = npt.NDArray[np.float64]
Outcomes = npt.NDArray[np.int64]
Known = Mapping[str, "str | Sequence[str]"]
"""What is known of some records: a state, or a set of states, for each."""
Evidence = Mapping[int, tuple[int, ...]]
"""The same in positions: for each record the states it may have."""

MOST_OUTCOMES: Final = 2**20
"""Tables of outcomes are never larger than this."""
_MOST_CELLS: Final = 2**26
"""Nor do they have more cells, one for each record of each outcome: half a gigabyte."""


class RecordModel(ABC):
    """A belief about a fixed list of records, each with its own states. Subclasses are frozen dataclasses."""

    fitted: dict[str, Any] | None
    """Where the model was estimated from, if it was."""
    bins: None = None
    """Only series have bins."""

    @property
    @abstractmethod
    def records(self) -> tuple[str, ...]:
        """Names of the records."""

    @property
    @abstractmethod
    def domains(self) -> tuple[tuple[str, ...], ...]:
        """The states of each record."""

    @property
    @abstractmethod
    def values(self) -> tuple[float, ...] | None:
        """A number for each label, for sums and means."""

    @property
    @abstractmethod
    def components(self) -> tuple[tuple[int, ...], ...]:
        """The records in sets that are independent of each other, whatever the numbers."""

    @abstractmethod
    def joint(self, records: Sequence[int], evidence: Evidence) -> Law:
        """P(these different records, evidence), one axis a record in the order given; not divided by P(evidence)."""

    @abstractmethod
    def outcomes(self) -> tuple[Outcomes, Law]:
        """Every outcome of positive probability (one row of state numbers each) and its probability."""

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All states of all records, in the order they are first met."""
        return tuple(dict.fromkeys(state for domain in self.domains for state in domain))

    @property
    def size(self) -> int:
        """Number of different states."""
        return len(self.labels)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states of each record."""
        return tuple(len(domain) for domain in self.domains)

    @property
    def beliefs(self) -> tuple[RecordModel, ...]:
        """The models of the class: a model is a class of one."""
        return (self,)

    def states_of(self, position: int) -> tuple[str, ...]:
        """The states of the record that stands there."""
        return self.domains[position]

    def position(self, record: str) -> int:
        """Where a record stands."""
        if record not in self._positions:
            known = ", ".join(self.records[:10]) + (", …" if len(self.records) > 10 else "")
            raise ModelError(f"there is no record {record!r}; the model has {known}", value=record)
        return self._positions[record]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: n for n, name in enumerate(self.records)}

    def evidence(self, known: Known) -> dict[int, tuple[int, ...]]:
        """Names of records and states as positions."""
        out = {}
        for record, states in known.items():
            i = self.position(record)
            domain = self.domains[i]
            several = (states,) if isinstance(states, str) else tuple(states)
            if not several:
                raise ModelError(f"record {record!r} is left no state; name one or more", value=states)
            for state in several:
                if state not in domain:
                    raise ModelError(
                        f"record {record!r} has no state {state!r}; it has {', '.join(domain)}", value=state
                    )
            out[i] = tuple(sorted({domain.index(state) for state in several}))
        return out

    def probability(self, known: Known) -> float:
        """The probability of what is known."""
        return float(self.joint((), self.evidence(known)))

    def law(self, *records: str, given: Known | None = None) -> Law:
        """The joint law of some records, one axis each, given what is known of others."""
        known = given or {}
        if len(set(records)) < len(records):
            twice = next(r for r in records if records.count(r) > 1)
            raise ModelError(f"record {twice!r} is named twice; a law has one axis for each record", value=records)
        found = self.joint([self.position(r) for r in records], self.evidence(known))
        total = float(found.sum())
        if total <= 0:
            raise impossible(known)
        return np.asarray(found / total)


def impossible(known: Known) -> ModelError:
    """The error for what cannot be known, because it never happens."""
    said = ", ".join(f"{r} = {s if isinstance(s, str) else ' or '.join(s)}" for r, s in known.items())
    return ModelError(f"{said} has probability 0; nothing can be said given it", value=dict(known))


def most_outcomes(records: int) -> int:
    """How many outcomes of so many records can be listed."""
    return min(MOST_OUTCOMES, _MOST_CELLS // records)


def refuse_many(count: int, what: str, records: int = 1) -> None:
    """Refuse a table of outcomes that would be too large."""
    most = most_outcomes(records)
    if count > most:
        found = f"{count:,}" if count < 10**15 else f"about 10^{math.floor(math.log10(count))}"
        raise ModelError(f"{what} has {found} joint states; at most {most:,} can be listed", value=count)


def record_names(value: object, count: int) -> tuple[str, ...]:
    """Names of the records: given, all different and not empty, or their numbers from 1."""
    if value is None:
        return tuple(str(n) for n in range(1, count + 1))
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)):
        raise ModelError(f"records is {value!r}; it must be a list of {count} names", value=value)
    names = tuple(str(v) for v in value)
    if len(names) != count:
        raise ModelError(f"records has {len(names)} names; there are {count} records", value=value)
    repeated = sorted(name for name, n in Counter(names).items() if n > 1)
    if repeated or "" in names:
        what = f"record {repeated[0]!r} is named twice" if repeated else "a record has an empty name"
        raise ModelError(f"{what}; every record needs its own name", value=value)
    return names


def named_states(value: object, owner: str) -> tuple[str, ...]:
    """The states of one record or of all: one or more different names that are not empty."""
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)) or len(value) == 0:
        raise ModelError(f"the states of {owner} are {value!r}; they must be a list of names", value=value)
    names = tuple(str(v) for v in value)
    repeated = sorted({n for n in names if names.count(n) > 1})
    if repeated or "" in names:
        what = f"state {repeated[0]!r} is named twice" if repeated else "a state has an empty name"
        raise ModelError(f"{owner}: {what}; every state needs its own name", value=value)
    return names


def label_values(value: object, labels: Sequence[str]) -> tuple[float, ...] | None:
    """A finite number for each label: given by name or in their order, or read off labels that are all numbers."""
    if value is None:
        try:
            numbers = [float(label) for label in labels]
        except ValueError:
            return None
        return tuple(numbers) if np.isfinite(numbers).all() else None
    if isinstance(value, (list, tuple, np.ndarray)) and len(value) == len(labels):
        value = dict(zip(labels, value, strict=True))
    if not isinstance(value, Mapping) or set(value) != set(labels):
        raise ModelError(f"values must give a number for each of {', '.join(labels[:10])}", value=value)
    try:
        numbers = [float(value[label]) for label in labels]
    except (TypeError, ValueError):
        numbers = [np.nan]
    if not np.isfinite(numbers).all():
        raise ModelError("values must be finite numbers, one for each state", value=value)
    return tuple(numbers)
