"""Charges as messages between processes: what is asked for, and the receipts or the refusal that come back.

JSON, like everything a ledger keeps. Whoever settles a request makes its charges anew from their contents, so that
what is checked is what is written.
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


def encode(charges: Sequence[tuple[str, Charge]]) -> bytes:
    """A request."""
    asked = [(name, charge.content, charge.model, charge.adversary) for name, charge in charges]
    return json.dumps(asked).encode()


def decode(request: bytes) -> list[tuple[str, Charge]]:
    """The charges of a request."""
    asked = json.loads(request.decode())
    return [(name, _charge(content, model, adversary)) for name, content, model, adversary in asked]


@lru_cache(maxsize=256)
def _charge(content: str, model: str | None, adversary: str | None) -> Charge:
    """Releases of the same kind, size and noise share it."""
    return Charge.from_content(content, model, adversary)


def answer(made: Sequence[Receipt]) -> bytes:
    """Receipts on their way back."""
    return json.dumps([receipt.to_dict() for receipt in made]).encode()


def refusal(error: errors.PufferdpError) -> bytes:
    """A refusal on its way back."""
    said: dict[str, object] = {"value": error.value if isinstance(error.value, (str, int, float)) else None}
    if isinstance(error, errors.BudgetError):
        said["left"] = error.left
    return json.dumps({"error": type(error).__name__, "message": str(error), "more": said}).encode()


def receipts(said: bytes) -> list[Receipt]:
    """The receipts that came back; a refusal is raised as it was."""
    raw = json.loads(said.decode())
    if isinstance(raw, dict):
        kind = getattr(errors, raw["error"])
        raise kind(raw["message"], **raw["more"])
    return [Receipt(**receipt) for receipt in raw]
