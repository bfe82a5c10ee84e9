"""How each field of a certificate is checked: declared beside its type, and used by everything that reads certificates.

A verifier solves the stated problem again, makes the certificate again and compares both leaf by leaf. A field must be
the same (``Exact``, where nothing else is declared), agree up to rounding (``Near``), or is copied because nobody can
recompute it (``Stated``, with the reason). A check of a part holds for its fields, unless they declare their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Final, get_args

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from pufferdp.basics.files import canonical_json
from pufferdp.publish.noise import ROUNDING


@dataclass(frozen=True)
class Exact:
    """A field that must have the same canonical JSON, since that is what is hashed."""

    why: str | None = None
    """Why nobody can recompute it; None for a field that follows from the rest."""
    wrong: str | None = field(default=None, kw_only=True)
    """What is wrong where it does not hold; without it both values are given."""

    def problem(self, path: str, stated: Any, true: Any, content: Mapping[str, Any]) -> str | None:
        """What is wrong with one leaf; None where nothing is.

        Args:
            path: the field.
            stated: what the certificate has there.
            true: what it has there when it is made again.
            content: the whole certificate as it is made again.
        """
        if _is_same(stated, true):
            return None
        should = f"{'recomputed it is' if is_number(true) else 'it should be'} {_text(true)}"
        return f"{path} is {_text(stated)}; {self.wrong or should}"

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The JSON schema of the field, with how it is checked."""
        return {**handler(core), "checked": self.words}

    @property
    def words(self) -> str:
        """How the field is checked, in words."""
        return type(self).__name__.lower() if self.why is None else f"not verifiable: {self.why}"


@dataclass(frozen=True, kw_only=True)
class Near(Exact):
    """Numbers that must agree up to rounding, or up to the error of a simulation; all else must be the same."""

    rel: float = ROUNDING
    abs: float | Callable[[Mapping[str, Any]], float] = 0.0
    """The absolute tolerance, or how it follows from the certificate as it is made again."""

    def problem(self, path: str, stated: Any, true: Any, content: Mapping[str, Any]) -> str | None:
        """What is wrong with one leaf: whole numbers must be the same."""
        whole = type(stated) is type(true) is int and abs(true) < 2**53  # JSON writes larger doubles as whole numbers
        if is_number(stated) and is_number(true) and not whole:
            tolerance = self.abs(content) if callable(self.abs) else self.abs
            if math.isclose(stated, true, rel_tol=self.rel, abs_tol=tolerance):
                return None
        return super().problem(path, stated, true, content)


@dataclass(frozen=True)
class Stated(Exact):
    """What nobody can recompute; with a form, what can only be written in one way."""

    form: Callable[[Any], bool] | None = None
    """Whether it is written as it must be; ``wrong`` says how that is."""

    def problem(self, path: str, stated: Any, true: Any, content: Mapping[str, Any]) -> str | None:
        """Something that stands in its place and cannot be it."""
        if self.form is not None and not self.form(stated):
            return f"{path} is {_text(stated)}; {self.wrong}"
        return super().problem(path, stated, true, content)


EXACT: Final = Exact()
NEAR: Final = Near()


@cache
def declared_checks(part: type[BaseModel], path: str = "") -> Mapping[str, Exact]:
    """The check of each field of a certificate and of its parts that declares one, by path."""
    out: dict[str, Exact] = {}
    for name, info in part.model_fields.items():
        at = join(path, info.alias or name)
        out.update((at, check) for check in info.metadata if isinstance(check, Exact))
        for inner in parts_of(info.annotation):
            out |= declared_checks(inner, at)
    return MappingProxyType(out)


def parts_of(annotation: Any) -> list[type[BaseModel]]:
    """The parts of a certificate in a type, such as the part in a list of parts."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [part for inner in get_args(annotation) for part in parts_of(inner)]


def unprovable_fields(part: type[BaseModel]) -> dict[str, str]:
    """The fields that nobody can recompute, and why."""
    return {path: check.why for path, check in declared_checks(part).items() if check.why is not None}


def differences(
    stated: Mapping[str, Any],
    true: Mapping[str, Any],
    checks: Mapping[str, Exact] = MappingProxyType({}),
    path: str = "",
) -> list[str]:
    """Where a content is not what it is when it is made again: the first leaf of each field, numbers first.

    Sentences and digests follow from numbers, so a wrong number says more than they do.
    """
    first: dict[str, tuple[bool, str]] = {}
    for at, leaf, problem in _problems(stated, true, true, checks, path, checks.get("", EXACT)):
        first.setdefault(at, (not is_number(leaf), problem))
    return [text for _, text in sorted(first.values(), key=lambda pair: pair[0])]


def _problems(
    stated: Any, true: Any, content: Mapping[str, Any], checks: Mapping[str, Exact], path: str, check: Exact
) -> Iterator[tuple[str, Any, str]]:
    """Path, value and problem of each leaf that has one."""
    check = checks.get(path, check)
    if isinstance(stated, Mapping) and isinstance(true, Mapping):
        for key in dict.fromkeys([*true, *stated]):
            at = join(path, key)
            if key not in stated:
                yield at, None, f"{at} is missing; it is needed"
            elif key not in true:
                yield at, None, f"{at} is a field that nothing is known about"
            else:
                yield from _problems(stated[key], true[key], content, checks, at, check)
    elif isinstance(stated, (list, tuple)) and isinstance(true, (list, tuple)) and len(stated) == len(true):
        for one, other in zip(stated, true, strict=True):
            yield from _problems(one, other, content, checks, path, check)
    elif isinstance(stated, (list, tuple)) and isinstance(true, (list, tuple)):
        yield path, None, f"{path} {_odd_entry(stated, true)}"
    else:
        problem = check.problem(path, stated, true, content)
        if problem is not None:
            yield path, true, problem


def _odd_entry(stated: Sequence[Any], true: Sequence[Any]) -> str:
    """How two lists of different lengths differ: by a sentence, or in their number of entries."""
    for entry in true:
        if isinstance(entry, str) and entry not in stated:
            return f"must have the entry {_text(entry)}"
    for entry in stated:
        if isinstance(entry, str) and entry not in true:
            return f"must not have the entry {_text(entry)}: it does not follow from the rest"
    return f"has {len(stated)} entries; it should have {len(true)}"


def join(path: str, key: str) -> str:
    """The path of a field of a part."""
    return f"{path}.{key}" if path else key


def is_number(value: object) -> bool:
    """Whether a value of a certificate is a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_same(stated: Any, true: Any) -> bool:
    return (type(stated) is type(true) and stated == true) or canonical_json(stated) == canonical_json(true)


def _text(value: object) -> str:
    if is_number(value):
        return f"{value:.10g}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}…"
