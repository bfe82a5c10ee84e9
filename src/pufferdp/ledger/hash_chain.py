"""The chain of hashes that makes a ledger's rows a history: each row is hashed with the one before it.

A data set begins with the digest of its definition. A copy of a later hash, such as the one in a certificate, can
tell whether any row before it was changed, taken out or put in.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

from pufferdp.basics.files import canonical_json

VERSION: Final = "pufferdp-ledger/2"
TOKEN: Final = "[A-Za-z0-9][A-Za-z0-9._:-]{0,99}"
"""What a caller may choose as the identity of a charge."""


def digest(text: str) -> str:
    """SHA-256 of a text in UTF-8, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def can_be_name(name: object) -> bool:
    """Whether a data set may have this name: one line of text that every database can keep."""
    return isinstance(name, str) and name.isprintable() and name == name.strip() != ""


def can_be_identity(text: str) -> bool:
    """Whether a row may have this identity: a token, with the row's number where several were charged together."""
    return re.fullmatch(rf"{TOKEN}(/[1-9][0-9]{{0,9}})?", text) is not None


def definition(
    name: str,
    model: str,
    adversary: str | None,
    budget: float | dict[str, Any],
    created: str,
    delta: float | None = None,
    unit: dict[str, Any] | None = None,
) -> str:
    """What a data set is, as canonical JSON. Its digest is the head of an empty data set.

    A budget in total variation is a part of its own, and has no adversary. A pure one has no delta, and one about
    single records no unit.
    """
    content = {"dataset": name, "model": model, "adversary": adversary, "budget": budget, "created": created}
    more = {name: value for name, value in {"delta": delta, "unit": unit}.items() if value is not None}
    return canonical_json({"schema": VERSION, **content, **more})


def link(previous: str, position: int, created: str, problem: str, identity: str) -> str:
    """The hash of a row: of the one before, its place, when it was made, what it charges and its identity."""
    # None of the five can hold a line break, so no two rows have the same text.
    return digest("\n".join(map(str, (previous, position, created, problem, identity))))
