"""Charges as messages between processes: what is asked for, and the receipts or the refusal that come back.

A line for each part: nothing that a ledger knows holds a line break. Whoever settles a request makes its charges anew
from their contents, so that what is checked is what is written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from pufferdp import errors
from pufferdp.ledger.charges import Charge
from pufferdp.ledger.standing import Receipt

MOST: Final = 64
"""Charges of one request that another process is asked to settle; a fleet has its own transaction."""
_ASKED: Final = 4
"""Lines of one charge."""
_MADE: Final = 5
"""Lines of one receipt."""
_REFUSED: Final = b"{"
"""What a refusal begins with. Receipts begin with a number."""


class UnreadableError(Exception):
    """A request of another version, or noise."""


def encode(charges: Sequence[tuple[str, Charge]]) -> bytes | None:
    """A request; None where it is too long for a message, or a part of it is one that no ledger can know."""
    if not 0 < len(charges) <= MOST:
        return None
    lines = []
    for name, charge in charges:
        lines += [name, charge.model or "", charge.adversary or "", charge.content]
    text = "\n".join(lines)
    if text.count("\n") != _ASKED * len(charges) - 1:
        return None
    return text.encode()


def decode(request: bytes) -> list[tuple[str, Charge]]:
    """The charges of a request. Raises UnreadableError where it is none."""
    try:
        lines = request.decode().split("\n")
        names, models, adversaries, contents = (lines[at::_ASKED] for at in range(_ASKED))
        asked = zip(names, models, adversaries, contents, strict=True)
        return [(name, _charge(content, model, adversary)) for name, model, adversary, content in asked]
    except (ValueError, TypeError, LookupError) as error:
        raise UnreadableError from error


@lru_cache(maxsize=256)
def _charge(content: str, model: str, adversary: str) -> Charge:
    """Releases of the same kind, size and noise share it."""
    return Charge.from_content(content, model or None, adversary or None)


def answer(made: Sequence[Receipt]) -> bytes:
    """Receipts on their way back."""
    return "\n".join(
        f"{one.position}\n{one.dataset}\n{one.previous}\n{one.head}\n{one.charged}" for one in made
    ).encode()


def refusal(error: errors.PufferdpError) -> bytes:
    """A refusal on its way back."""
    said: dict[str, object] = {"value": error.value if isinstance(error.value, (str, int, float)) else None}
    if isinstance(error, errors.BudgetError):
        said["left"] = error.left
    return json.dumps({"error": type(error).__name__, "message": str(error), "more": said}).encode()


def receipts(said: bytes) -> list[Receipt]:
    """The receipts that came back; a refusal is raised as it was."""
    if said.startswith(_REFUSED):
        raw = json.loads(said)
        kind = getattr(errors, raw["error"])
        raise kind(raw["message"], **raw["more"])
    lines = said.decode().split("\n")
    return [
        Receipt(
            position=int(lines[at]),
            dataset=lines[at + 1],
            previous=lines[at + 2],
            head=lines[at + 3],
            charged=lines[at + 4],
        )
        for at in range(0, len(lines), _MADE)
    ]
