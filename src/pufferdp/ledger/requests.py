"""Charges as messages between processes: what is asked for, and the receipts or the refusal that come back.

JSON, like everything a ledger keeps. Whoever settles a request makes its charges anew from their contents, so that
what is checked is what is written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pufferdp import errors
from pufferdp.ledger.charges import Charge

MOST: Final = 64
"""Charges of one request that another process is asked to settle; a fleet has its own transaction."""


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """Where a charge stands in its ledger: the part ``ledger`` of a certificate."""

    dataset: str
    position: int
    """Its row, counted from 1."""
    previous: str
    """Hash of the row before."""
    head: str
    """Hash of its own row: the head of the ledger at that moment."""
    charged: str
    """When, in universal time."""

    def to_dict(self) -> dict[str, Any]:
        """As in a certificate."""
        return {name: getattr(self, name) for name in ("dataset", "position", "previous", "head", "charged")}


def encode(charges: Sequence[tuple[str, Charge]]) -> bytes:
    """A request."""
    asked = [(name, charge.content, charge.model, charge.adversary) for name, charge in charges]
    return json.dumps(asked).encode()


def decode(request: bytes) -> list[tuple[str, Charge]]:
    """The charges of a request."""
    return [(name, _charge(content, model, adversary)) for name, content, model, adversary in json.loads(request)]


@lru_cache(maxsize=256)
def _charge(content: str, model: str | None, adversary: str | None) -> Charge:
    """Releases of the same kind, size and noise share it."""
    return Charge.from_content(content, model, adversary)


def answer(made: Sequence[Receipt]) -> bytes:
    """Receipts on their way back."""
    return json.dumps([receipt.to_dict() for receipt in made]).encode()


def refusal(error: errors.PufferdpError) -> bytes:
    """A refusal on its way back."""
    value = error.value if isinstance(error.value, (str, int, float)) else None
    return json.dumps({"error": type(error).__name__, "message": str(error), "value": value}).encode()


def receipts(said: bytes) -> list[Receipt]:
    """The receipts that came back; a refusal is raised as it was."""
    raw = json.loads(said)
    if isinstance(raw, dict):
        kind = getattr(errors, raw["error"])
        raise kind(raw["message"], value=raw["value"])
    return [Receipt(**receipt) for receipt in raw]
