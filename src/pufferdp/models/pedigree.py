"""Families and one gene: every member has two alleles, one from each parent (Mendel's first distribution)."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np

from pufferdp.basics.errors import ModelError
from pufferdp.models.base import Distribution, Evidence, Outcomes, RecordModel, label_values, record_names
from pufferdp.models.files.json import File, beside
from pufferdp.models.files.ped import read_ped
from pufferdp.models.network import BayesianNetwork, Node

GENOTYPES: Final = ("BB", "Bb", "bb")
"""The states of every member; B is the major allele."""
_PASSES: Final = np.array([1.0, 0.5, 0.0])
"""The probability that a parent of each genotype passes on B."""
_SMALLEST: Final = 1e-100
"""The square of a smaller frequency is near the end of doubles, and what is possible would look impossible."""


@dataclass(frozen=True)
class Member:
    """One person of a pedigree, and the parents that are members too; an unknown parent is None."""

    id: str
    """Name of the record, by which children name a parent."""
    father: str | None = None
    mother: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise ModelError(f"a member's id is {self.id!r}; it must be a text that is not empty", value=self.id)
        for what in ("father", "mother"):
            parent = getattr(self, what)
            if parent is not None and (not isinstance(parent, str) or not parent):
                raise ModelError(
                    f"the {what} of member {self.id!r} is {parent!r}; it must be the id of a member, "
                    "or none where unknown",
                    value=parent,
                )
            if parent == self.id:
                raise ModelError(f"member {self.id!r} is its own {what}; name another, or none", value=parent)
        if self.father is not None and self.father == self.mother:
            raise ModelError(
                f"member {self.id!r} has {self.father!r} as father and as mother; a child has two different parents",
                value=self.father,
            )

    @property
    def parents(self) -> tuple[str, ...]:
        """The parents that are known."""
        return tuple(p for p in (self.father, self.mother) if p is not None)


class _MemberFile(File):
    id: str | int
    father: str | int | None = None
    mother: str | int | None = None

    def build(self) -> Member:
        father, mother = (None if parent is None else str(parent) for parent in (self.father, self.mother))
        return Member(str(self.id), father, mother)


class _PedigreeFile(File):
    type: Literal["pedigree"]
    members: list[_MemberFile] | None = None
    ped: str | None = None
    major_allele_frequency: float
    values: dict[str, float] | None = None
    fitted: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Pedigree(RecordModel):
    """Families in which one gene is inherited. Parents that are unknown are all different, and from the population.

    >>> trio = (Member("mother"), Member("father"), Member("child", father="father", mother="mother"))
    >>> family = Pedigree(members=trio, major_allele_frequency=0.7)
    >>> family
    Pedigree(3 records, the largest family has 3; major allele frequency 0.7)
    >>> family.distribution("child", given={"mother": "BB", "father": "bb"}).tolist()
    [0.0, 1.0, 0.0]
    """

    file_type: ClassVar[str | None] = "pedigree"

    members: tuple[Member, ...]
    """Everybody whose genotype is a record, in any order."""
    major_allele_frequency: float
    """How often the allele is B in the population that founders and unknown parents come from."""
    values: tuple[float, ...] | None = None
    """A number for each genotype, for sums and means: given by its name, kept in the order BB, Bb, bb."""
    fitted: dict[str, Any] | None = field(default=None)
    """Where the model was estimated from, if it was."""

    def __post_init__(self) -> None:
        members = tuple(self.members)
        if not members:
            raise ModelError("members is empty; a pedigree needs at least one member")
        for member in members:
            if not isinstance(member, Member):
                raise ModelError(
                    f"members holds {member!r}; it must be a list of members, each a Member with an id", value=member
                )
        ids = set(record_names([member.id for member in members], len(members)))
        for member in members:
            for parent in member.parents:
                if parent not in ids:
                    raise ModelError(
                        f"member {member.id!r} has the parent {parent!r}, who is not a member; "
                        "add this person to the members, or leave the parent out where it is unknown",
                        value=parent,
                    )
        object.__setattr__(self, "members", members)
        object.__setattr__(self, "major_allele_frequency", _frequency(self.major_allele_frequency))
        object.__setattr__(self, "values", label_values(self.values, GENOTYPES))
        _ = self.network  # refuses a cycle

    @classmethod
    def from_ped(
        cls, path: str | os.PathLike[str], major_allele_frequency: float, values: Mapping[str, float] | None = None
    ) -> Pedigree:
        """Read who is whose child from a PLINK .ped or .fam file; sex, phenotype and genotypes are not looked at."""
        members = []
        for row in read_ped(path):
            try:
                members.append(Member(row.id, row.father, row.mother))
            except ModelError as error:
                raise ModelError(f"{os.fspath(path)}, line {row.line}: {error}", value=row.line) from None
        numbers = label_values(values, GENOTYPES)
        try:
            return cls(members=tuple(members), major_allele_frequency=major_allele_frequency, values=numbers)
        except ModelError as error:
            raise ModelError(f"{os.fspath(path)}: {error}", value=error.value) from None

    @cached_property
    def network(self) -> BayesianNetwork:
        """The model as a network: parents above their children."""
        return BayesianNetwork(
            nodes=tuple(
                Node(name=m.id, states=GENOTYPES, parents=m.parents, table=_inherited(m, self.major_allele_frequency))
                for m in self.members
            ),
            values=self.values,
        )

    @property
    def hereditary(self) -> bool:
        """A pedigree is what the word means."""
        return True

    @property
    def record_models(self) -> tuple[RecordModel, ...]:
        """The network: what works for networks works for families."""
        return (self.network,)

    @property
    def records(self) -> tuple[str, ...]:
        """The members, in the order given."""
        return self.network.records

    @property
    def domains(self) -> tuple[tuple[str, ...], ...]:
        """The genotypes, for every member."""
        return self.network.domains

    @property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """The families: members joined by parents and children."""
        return self.network.components

    def joint(self, records: Sequence[int], evidence: Evidence) -> Distribution:
        """P(these records, evidence), one axis a record."""
        return self.network.joint(records, evidence)

    def outcomes(self) -> tuple[Outcomes, Distribution]:
        """Every outcome of positive probability and its probability; refused where there are too many."""
        return self.network.outcomes()

    def to_dict(self) -> dict[str, Any]:
        """Who is whose child, and how often the allele is met."""
        members = [{"id": m.id, "father": m.father, "mother": m.mother} for m in self.members]
        out: dict[str, Any] = {
            "type": self.file_type,
            "members": members,
            "major_allele_frequency": self.major_allele_frequency,
        }
        if self.values is not None:
            out["values"] = dict(zip(self.labels, self.values, strict=True))
        return out if self.fitted is None else {**out, "fitted": self.fitted}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> Pedigree:
        """The families of a file, or of the PED file that it names."""
        content = _PedigreeFile.model_validate(raw)
        if (content.members is None) == (content.ped is None):
            problem = (
                "neither members nor ped is given" if content.members is None else "members and ped are both given"
            )
            raise ModelError(f"{problem}; a pedigree has its members in this file or in a PED file")
        if content.ped is not None:
            family = cls.from_ped(beside(folder, content.ped), content.major_allele_frequency, values=content.values)
            return replace(family, fitted=content.fitted)
        given: dict[str, Any] = {"values": content.values, "fitted": content.fitted}
        members = tuple(member.build() for member in content.members or [])
        return cls(members=members, major_allele_frequency=content.major_allele_frequency, **given)

    def __repr__(self) -> str:
        n, most = len(self.members), max(len(family) for family in self.components)
        return (
            f"Pedigree({n} record{'s' * (n != 1)}, the largest family has {most}; "
            f"major allele frequency {self.major_allele_frequency:g})"
        )


def _inherited(member: Member, frequency: float) -> Distribution:
    """The genotype of a member given its known parents: one allele from each parent, or from the population."""
    # Lange 2024, Table 3, where both parents are known; Hardy-Weinberg where none is; p in place of one unknown parent.
    known = len(member.parents)
    first = _PASSES.reshape(3, 1) if known == 2 else _PASSES if known == 1 else np.array(frequency)
    second = _PASSES if known == 2 else np.array(frequency)
    return np.stack([first * second, first * (1 - second) + (1 - first) * second, (1 - first) * (1 - second)], axis=-1)


def _frequency(value: object) -> float:
    number = float(value) if isinstance(value, (int, float, np.floating)) and not isinstance(value, bool) else math.nan
    if not 0 <= number <= 1 or 0 < number < _SMALLEST:
        rule = "it must be a number from 0 to 1" if not 0 <= number <= 1 else f"it must be 0, or {_SMALLEST:g} or more"
        raise ModelError(f"major_allele_frequency is {value!r}; {rule}", value=value)
    return number
