"""The table of a certificate: each field with its value, its meaning and how it is checked, as its class declares."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel

from pufferdp.basics.words import number
from pufferdp.publish.fields import EXACT, Exact, is_number, join, parts_of
from pufferdp.publish.kind import kind_of
from pufferdp.report.page import Table

MOST_ENTRIES: Final = 12
"""A longer list is counted and not written out, as are the parts of a list beyond a quarter of it."""
_CAPTION: Final = (
    "exact: recomputed by verify, and equal. near: recomputed, and equal up to rounding or the error of a simulation. "
    "stated: not verifiable from the certificate, for the reason given."
)


def certificate_table(certificate: dict[str, Any]) -> Table:
    """Every field of a certificate, by the declaration of its release type."""
    rows = tuple(_rows(kind_of(certificate["schema"]).certificate, certificate, EXACT))
    return Table(caption=_CAPTION, head=("field", "value", "meaning", "checked"), rows=rows, left=4)


def _rows(part: type[BaseModel], content: dict[str, Any], check: Exact, path: str = "") -> Iterator[tuple[str, ...]]:
    for name, declared in part.model_fields.items():
        key = declared.alias or name
        if key not in content:
            continue
        value, at = content[key], join(path, key)
        own = next((item for item in declared.metadata if isinstance(item, Exact)), check)
        inner, entries = parts_of(declared.annotation), value if isinstance(value, list) else [value]
        if not inner or not entries or not isinstance(entries[0], dict):
            what = declared.description or next((part.__doc__ for part in inner), None)
            said = what, own.why if own is not check else None
            meaning = "; ".join(filter(None, said))
            yield at, value_text(value), meaning, "stated" if own.why else own.words
            continue
        several = f"{len(value):,} entries" if isinstance(value, list) else ""
        yield at, several, declared.description or inner[0].__doc__ or "", ""
        for n, entry in enumerate(entries[: MOST_ENTRIES // 4], start=1):
            yield from _rows(inner[0], entry, own, f"{at}.{n}" if several else at)


def value_text(value: Any) -> str:
    """A value of a certificate or a model file, in few words."""
    if isinstance(value, list):
        sides = shape_of(value)
        if len(sides) > 1 and math.prod(sides) > MOST_ENTRIES:
            return f"{' × '.join(map(str, sides))} numbers"
        few = len(value) <= MOST_ENTRIES and not any(isinstance(item, dict) for item in value)
        mark = ", " if len(sides) == 1 else "; "
        return mark.join(map(value_text, value)) if few else f"{len(value):,} entries"
    if isinstance(value, dict):
        return str(value.get("type", f"{len(value):,} entries"))
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return number(value) if is_number(value) else str(value)


def shape_of(value: Any) -> tuple[int, ...]:
    """The sides of a table of numbers, however deep; nothing where it is none."""
    if not isinstance(value, list) or not value:
        return ()
    inner = {shape_of(part) for part in value}
    if len(inner) != 1 or not (all(map(is_number, value)) or all(isinstance(part, list) for part in value)):
        return ()
    (sides,) = inner
    return () if isinstance(value[0], list) and not sides else (len(value), *sides)
