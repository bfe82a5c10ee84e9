"""Families from PLINK files: .ped and .fam begin alike."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple, NoReturn

from pufferdp.basics.errors import ModelError
from pufferdp.models.files.bif import file_text

_UNKNOWN: Final = "0"
_COLUMNS: Final = "family, individual, father, mother, sex and phenotype"


class PedRow(NamedTuple):
    """A person and the parents that are known, as plain data."""

    line: int
    """Where the file has the person."""
    id: str
    father: str | None
    mother: str | None


def read_ped(path: str | os.PathLike[str]) -> Iterator[PedRow]:
    """The members, in the order of the file, each looked at when it is asked for.

    Ids are unique within a family only, so where two families share one, their members are named family:individual.
    """
    rows: dict[tuple[str, str], tuple[int, str, str]] = {}
    for number, line in enumerate(file_text(path, "PED").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        columns = line.split(None, 6)
        if '"' in line:
            _fail(path, number, f"the line holds quotes; take them out, and the header with them: a row has {_COLUMNS}")
        if len(columns) < 6:
            _fail(path, number, f"the line has {len(columns)} columns; it must begin with {_COLUMNS}")
        family, person, father, mother = columns[:4]
        if person == _UNKNOWN:
            _fail(path, number, "the individual is 0, which stands for an unknown parent; give it another id")
        if (family, person) in rows:
            first = rows[family, person][0]
            _fail(path, number, f"individual {person!r} of family {family!r} has a row already, line {first}")
        rows[family, person] = (number, father, mother)
    if not rows:
        raise ModelError(f"{os.fspath(path)}: the file has no rows; a row has {_COLUMNS}", value=path)
    shared = Counter(person for _, person in rows)
    names = {(family, person): person if shared[person] == 1 else f"{family}:{person}" for family, person in rows}
    for (family, person), (number, *parents) in rows.items():
        for parent, what in zip(parents, ("father", "mother"), strict=True):
            if parent != _UNKNOWN and (family, parent) not in names:
                # Unknown parents are taken to be different people; this one has a name, and may have other children.
                _fail(
                    path,
                    number,
                    f"individual {person!r} has the {what} {parent!r}, who has no row in family {family!r}; "
                    f"add a row for {parent!r}, or set the {what} to 0 if nobody else is a child of {parent!r}",
                )
        known = [names.get((family, parent)) for parent in parents]
        yield PedRow(number, names[family, person], *known)


def _fail(path: str | os.PathLike[str], line: int, problem: str) -> NoReturn:
    raise ModelError(f"{os.fspath(path)}, line {line}: {problem}", value=line)
