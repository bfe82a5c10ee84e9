"""Groups of records: nothing is shared between groups, and inside a group the distribution is given or arbitrary."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np

from pufferdp.basics.arrays import read_only
from pufferdp.basics.errors import DataError, ModelError, ParameterError
from pufferdp.models.base import (
    Distribution,
    Evidence,
    LayoutOptions,
    Lengths,
    Model,
    Outcomes,
    RecordModel,
    label_values,
    named_states,
    record_names,
    refuse_many,
)
from pufferdp.models.chain import check_distribution, number_array, scaled
from pufferdp.models.files.json import File, Row

MOST_MEMBERS: Final = 1000
"""Beyond this many members the probability of one assignment can be too small for a double."""


class _GroupsFile(File):
    type: Literal["groups"]
    largest: int | None = None
    sizes: list[int] | None = None
    positives: list[Row] | None = None
    states: list[str | int] | None = None
    values: dict[str, float] | None = None
    fitted: dict[str, Any] | None = None


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Groups(RecordModel):
    """Independent groups of two-state records; inside a group only the number of ones matters.

    >>> Groups(sizes=[4, 4, 3], positives=[[0.1, 0.15, 0.5, 0.15, 0.1]] * 2 + [[0.25] * 4])
    Groups(11 records in 3 groups of 3 to 4)
    """

    file_type: ClassVar[str | None] = "groups"

    group_sizes: tuple[int, ...]
    """Number of records in each group."""
    positives: tuple[Distribution, ...]
    """For each group the distribution of the number of its records in the second state."""
    states: tuple[str, ...]
    """The two states; the second is the one that is counted."""
    values: tuple[float, ...] | None = None
    """A number for each state, for sums and means."""
    fitted: dict[str, Any] | None = None
    """Where the model was estimated from, if it was."""

    def __init__(
        self,
        *,
        sizes: Sequence[int],
        positives: Sequence[Sequence[float] | Distribution],
        states: Sequence[str] | None = None,
        values: Mapping[str, float] | Sequence[float] | None = None,
        fitted: dict[str, Any] | None = None,
    ) -> None:
        names = _states(states)
        if len(names) != 2:
            raise ModelError(f"states has {len(names)} names; a record of a group has two states", value=states)
        counts = _sizes(sizes)
        fields = {
            "group_sizes": counts,
            "positives": _positives(positives, counts),
            "states": names,
            "values": label_values(values, names),
            "fitted": fitted,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @cached_property
    def records(self) -> tuple[str, ...]:
        """The records are numbered from 1, group after group."""
        return record_names(None, sum(self.group_sizes))

    @cached_property
    def domains(self) -> tuple[tuple[str, ...], ...]:
        """Two states, which every record has."""
        return (self.states,) * sum(self.group_sizes)

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """The groups, by positions of their records."""
        ends = itertools.accumulate(self.group_sizes)
        return tuple(tuple(range(end - m, end)) for end, m in zip(ends, self.group_sizes, strict=True))

    @cached_property
    def _group(self) -> tuple[int, ...]:
        return tuple(g for g, m in enumerate(self.group_sizes) for _ in range(m))

    def group_of(self, record: int) -> int:
        """The group in which a record stands, both counted from 0."""
        return self._group[record]

    def joint(self, records: Sequence[int], evidence: Evidence) -> Distribution:
        """P(these records, evidence), in closed form."""
        refuse_many(2 ** len(records), "a distribution of these records")
        if any(not states for states in evidence.values()):
            return np.zeros((2,) * len(records))
        wanted = set(records)
        fixed = {i: states[0] for i, states in evidence.items() if len(set(states)) == 1}
        axes: list[int] = []
        table = np.ones(())
        for g in sorted({self.group_of(i) for i in wanted | set(fixed)}):
            inside = [i for i in records if self.group_of(i) == g]
            known = [x for i, x in fixed.items() if self.group_of(i) == g and i not in wanted]
            distribution, told, least = self.positives[g], len(inside) + len(known), sum(known)
            by_ones = np.array(
                [distribution @ shares(len(distribution) - 1, told, least + t) for t in range(len(inside) + 1)]
            )
            ones = np.indices((2,) * len(inside)).sum(axis=0) if inside else 0
            table = np.multiply.outer(table, by_ones[ones])
            axes += inside
        table = np.transpose(table, [axes.index(i) for i in records])
        for axis, i in enumerate(records):
            if i in fixed:
                allowed = np.arange(2) == fixed[i]
                table = table * allowed.reshape([-1 if a == axis else 1 for a in range(len(records))])
        return np.asarray(table)

    def outcomes(self) -> tuple[Outcomes, Distribution]:
        """Every outcome of positive probability and its probability; refused where there are too many."""
        counts = [
            sum(math.comb(m, j) for j in np.flatnonzero(distribution).tolist())
            for m, distribution in zip(self.group_sizes, self.positives, strict=True)
        ]
        refuse_many(math.prod(counts), "the model", sum(self.group_sizes))
        return reduce(_beside, (_group_outcomes(distribution) for distribution in self.positives))

    def to_dict(self) -> dict[str, Any]:
        """The sizes of the groups and their distributions."""
        distributions = [distribution.tolist() for distribution in self.positives]
        return _to_dict(self, sizes=list(self.group_sizes), positives=distributions, states=list(self.states))

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> Groups | AnyGroups:
        """The groups of a file: with distributions, or only with a largest size."""
        content = _GroupsFile.model_validate(raw)
        states = None if content.states is None else [str(state) for state in content.states]
        common: dict[str, Any] = {"states": states, "values": content.values, "fitted": content.fitted}
        if content.largest is not None and content.sizes is None and content.positives is None:
            return AnyGroups(largest=content.largest, **common)
        if content.largest is None and content.sizes is not None and content.positives is not None:
            return cls(sizes=content.sizes, positives=content.positives, **common)
        raise ModelError("groups are given by largest alone, or by sizes and positives; this is neither")

    def __repr__(self) -> str:
        n, groups = sum(self.group_sizes), len(self.group_sizes)
        least, most = min(self.group_sizes), max(self.group_sizes)
        return (
            f"Groups({n} record{'s' * (n != 1)} in {groups} group{'s' * (groups != 1)} of "
            f"{least if least == most else f'{least} to {most}'})"
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AnyGroups(Model):
    """Every distribution in which no group of dependent records is larger than this.

    It does not know its records, so it is no `RecordModel`: it says only how many may depend on each other.
    """

    takes_length: ClassVar[bool] = True

    largest: int
    """Most records in a group; anything may hold inside a group."""
    states: tuple[str, ...] = ("0", "1")
    """Names of the states; 0 and 1 stand for whatever numbers are in the data."""
    values: tuple[float, ...] | None = None
    """A number for each state: given by the state's name or in their order."""
    fitted: dict[str, Any] | None = None
    """Where the model was estimated from, if it was."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "largest", _whole(self.largest, "largest"))
        object.__setattr__(self, "states", _states(self.states))
        object.__setattr__(self, "values", label_values(self.values, self.states))

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the states, which every record has."""
        return self.states

    @property
    def placeholder_states(self) -> bool:
        """States that were not named stand for whatever the numbers are."""
        return self.states == ("0", "1")

    @property
    def arbitrary(self) -> int:
        """The largest group, within which nothing is assumed."""
        return self.largest

    def dependent(self, longest: int) -> int:
        """The largest group, however many records there are."""
        return self.largest

    def lengths(self, given: Lengths, divided: str | None = None) -> Lengths:
        """As given; left open where nothing is divided: the noise does not depend on how many groups there are."""
        if not given and divided is not None:
            raise ParameterError(f"a {divided} divides by the number of records; give it with length=")
        return given

    def check_reading(self, layout: LayoutOptions, missing: str, id: str | None) -> None:
        """A column says who is together, and nothing may cut a group: each piece would pass for one of its own."""
        if id is not None:
            raise ParameterError(f"id is {id!r}; groups do not name their records: say who is together with by=")
        if layout["restart"] is not None:
            raise ParameterError(
                f"restart is {layout['restart']!r}; it is for series, and a group has no gaps: leave it out"
            )
        if missing == "keep" and layout["by"] is not None:
            raise ParameterError(
                f"missing is {missing!r}; it is for series, and a group has no unobserved steps: drop those rows"
            )

    def check_groups(self, by: str | None, lengths: Sequence[Sequence[int]]) -> None:
        """Refuse groups that are larger than the largest, where a column tells them apart."""
        longest = max((length for length, _ in lengths), default=0)
        if by is not None and longest > self.largest:
            raise DataError(
                f"a group of {by!r} has {longest} records; the model allows at most {self.largest}: "
                f"raise its largest to {longest}, or name the column of smaller groups",
                value=longest,
            )

    def check_secrets(self) -> None:
        """It has no names for records."""
        raise ParameterError("secrets of your own name records, and groups of any kind do not know theirs")

    def public_facts(self, records: int) -> list[str]:
        """How many there are, and who is together."""
        return [f"how many records there are ({records}), and their groups where --by names them"]

    def to_dict(self) -> dict[str, Any]:
        """The largest size, and how the states are called."""
        return _to_dict(self, largest=self.largest, states=list(self.states))

    def __repr__(self) -> str:
        return f"AnyGroups(groups of at most {self.largest} record{'s' * (self.largest != 1)}, {self.size} states)"


def _to_dict(model: Groups | AnyGroups, **own: Any) -> dict[str, Any]:
    out = {"type": Groups.file_type, **own}
    if model.values is not None:
        out["values"] = dict(zip(model.labels, model.values, strict=True))
    return out if model.fitted is None else {**out, "fitted": model.fitted}


@lru_cache(maxsize=4096)
def shares(members: int, told: int, ones: int) -> Distribution:
    """For j = 0..members ones in a group: the share of choices in which told members are as told, with these ones."""
    # Whole numbers of any length divide to the nearest double, so nothing overflows and nothing is lost.
    share, rest = np.zeros(members + 1), _choices(members - told)
    for s, count in enumerate(rest):
        share[s + ones] = count / _choices(members)[s + ones]
    return read_only(share)


@lru_cache(maxsize=64)
def _choices(members: int) -> tuple[int, ...]:
    return tuple(math.comb(members, j) for j in range(members + 1))


def _group_outcomes(distribution: Distribution) -> tuple[Outcomes, Distribution]:
    """The outcomes of one group."""
    members = len(distribution) - 1
    rows, chances = [], []
    for j in np.flatnonzero(distribution).tolist():
        for ones in itertools.combinations(range(members), j):
            row = np.zeros(members, dtype=np.int64)
            row[list(ones)] = 1
            rows.append(row)
        chances += [float(distribution[j]) / math.comb(members, j)] * math.comb(members, j)
    return np.array(rows), np.array(chances)


def _beside(left: tuple[Outcomes, Distribution], right: tuple[Outcomes, Distribution]) -> tuple[Outcomes, Distribution]:
    """The outcomes of two independent sets of records."""
    (rows, distribution), (more, other) = left, right
    both = np.hstack([np.repeat(rows, len(more), axis=0), np.tile(more, (len(rows), 1))])
    return both, np.outer(distribution, other).ravel()


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ModelError(f"{name} is {value!r}; it must be a whole number of records, 1 or more", value=value)
    return int(value)


def _states(value: object) -> tuple[str, ...]:
    return ("0", "1") if value is None else named_states(value, "every record")


def _sizes(value: object) -> tuple[int, ...]:
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)) or len(value) == 0:
        raise ModelError(f"sizes is {value!r}; it must list how many records each group has", value=value)
    sizes = tuple(_whole(m, f"the size of group {g}") for g, m in enumerate(value, start=1))
    if max(sizes) > MOST_MEMBERS:
        raise ModelError(f"a group has {max(sizes)} records; at most {MOST_MEMBERS} are allowed", value=value)
    return sizes


def _positives(value: object, sizes: tuple[int, ...]) -> tuple[Distribution, ...]:
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)) or len(value) != len(sizes):
        count = len(value) if isinstance(value, (Sequence, np.ndarray)) else "no"
        raise ModelError(
            f"positives has {count} distributions; there are {len(sizes)} groups, one distribution each", value=value
        )
    distributions = []
    for g, (given, m) in enumerate(zip(value, sizes, strict=True), start=1):
        distribution = number_array(given, f"distribution {g} of positives")
        if distribution.shape != (m + 1,):
            raise ModelError(
                f"distribution {g} of positives has {distribution.size} entries; a group of {m} needs {m + 1}",
                value=given,
            )
        check_distribution(distribution, f"distribution {g} of positives")
        distributions.append(read_only(scaled(distribution)))
    return tuple(distributions)
