"""The identity of a charge: a token of its own, by which anybody can ask later whether it was made.

It is chosen before anything is sent, and is part of the hash of the row. A retry with the same identity finds the first
attempt and does not charge again. Charges that are made together share one: their rows have ``token/1``, ``token/2``, …
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import Final

from pufferdp.basics.errors import ParameterError, RefusedError
from pufferdp.ledger import hash_chain
from pufferdp.ledger.balance import Receipt
from pufferdp.ledger.charge import Charge
from pufferdp.ledger.store.base import Session

_FIND: Final = "SELECT dataset, position, created, hash, problem FROM ledger_entries WHERE identity = ?"


def new_identity() -> str:
    """A token that nobody else has: 128 random bits."""
    return secrets.token_hex(16)


def check_identity(identity: object) -> str:
    """A token as a caller may choose it."""
    if not isinstance(identity, str) or not re.fullmatch(hash_chain.TOKEN, identity):
        raise ParameterError(
            f"identity is {identity!r}; it must be up to 100 letters, digits and signs of . _ : -, the first a letter "
            "or a digit",
            value=identity,
        )
    return identity


def row_identities(identity: str, count: int) -> list[str]:
    """The identities of the rows of one charge, or of several that are made together."""
    return [identity] if count == 1 else [f"{identity}/{n}" for n in range(1, count + 1)]


def find_receipts(session: Session, identity: str) -> list[Receipt]:
    """The rows of an identity, as they were acknowledged; none where the charge was not made."""
    return [receipt for receipt, _ in _find(session, identity)]


def repeated(session: Session, charges: Sequence[tuple[str, Charge]], identity: str) -> list[Receipt]:
    """The receipts of an earlier attempt at the same charges; none where there is none, refused where it was another.

    An answer belongs to one charge. So a caller who charges again because no receipt came may go on with the first one;
    who has drawn an answer for it already may not draw another.
    """
    earlier = _find(session, identity)
    same = [(receipt.dataset, problem) for receipt, problem in earlier] == [(n, c.problem) for n, c in charges]
    if earlier and not same:
        raise RefusedError(
            f"identity {identity} belongs to another charge: row {earlier[0][0].position} of data set "
            f"{earlier[0][0].dataset!r}; a new charge needs an identity of its own, or none",
            value=identity,
        )
    return [receipt for receipt, _ in earlier]


def _find(session: Session, identity: str) -> list[tuple[Receipt, str]]:
    alone = _row(session, identity)
    if alone is not None:
        return [alone]
    rows = list[tuple[Receipt, str]]()
    while (row := _row(session, f"{identity}/{len(rows) + 1}")) is not None:
        rows.append(row)
    return rows


def _row(session: Session, identity: str) -> tuple[Receipt, str] | None:
    for dataset, position, created, head, problem in list(session.rows(_FIND, identity)):
        receipt = Receipt(
            dataset=dataset,
            position=position,
            previous=_previous(session, dataset, position),
            head=head,
            charged=created,
            identity=identity,
        )
        return receipt, problem
    return None


def _previous(session: Session, dataset: str, position: int) -> str:
    """Hash of the row before; of the definition before the first."""
    sql = "SELECT hash FROM ledger_entries WHERE dataset = ? AND position = ?"
    for (head,) in list(session.rows(sql, dataset, position - 1)):
        return str(head)
    ((definition,),) = session.rows("SELECT definition FROM ledger_datasets WHERE name = ?", dataset)
    return hash_chain.digest(definition)
