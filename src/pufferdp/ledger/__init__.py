"""Budgets that survive crashes and races: what was spent on a data set, kept in SQLite or PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pufferdp.basics.errors import ParameterError
from pufferdp.basics.words import a_kind

if TYPE_CHECKING:
    from pufferdp.ledger.balance import Receipt
    from pufferdp.ledger.charge import Charge
    from pufferdp.ledger.ledger import Ledger


@contextmanager
def open_ledger(place: Ledger | str | os.PathLike[str] | None, dataset: str | None) -> Iterator[Ledger | None]:
    """The ledger that a release is charged to, if any; closed at the end where it was opened here."""
    if place is None:
        if dataset is not None:
            raise ParameterError(f"dataset is {dataset!r}, but there is no ledger: name it with ledger=", value=dataset)
        yield None
        return
    if dataset is None:
        raise ParameterError("dataset is missing; say which data set of the ledger is charged with dataset=")
    from pufferdp.ledger.ledger import Ledger

    if isinstance(place, Ledger):
        yield place
    elif not isinstance(place, (str, os.PathLike)):
        raise ParameterError(
            f"ledger is {a_kind(place)}; it must be a Ledger, the path of its file, or its URL", value=place
        )
    else:
        ledger = Ledger(place)
        try:
            yield ledger
        finally:
            with suppress(Exception):  # what was charged is on disk: an answer is not lost for a file that stays open
                ledger.close()


def charge_release(
    place: Ledger | str | os.PathLike[str] | None, dataset: str | None, charge: Callable[[], Charge]
) -> Receipt | None:
    """Charge a release before anything random is drawn; its receipt, or None where there is no ledger.

    When this returns the charge is on disk: a crash from here on loses the release, never the charge.
    """
    with open_ledger(place, dataset) as ledger:
        return None if ledger is None or dataset is None else ledger.charge(dataset, charge())
