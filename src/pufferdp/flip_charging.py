"""A flipped series and its ledger: charged before a record is flipped, and what would fit where it is too much."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pufferdp.errors import BudgetError, PufferdpError
from pufferdp.ledger import charged, opened
from pufferdp.mechanisms.flips import FlipDesign
from pufferdp.models.classes import Model
from pufferdp.models.files import model_digest
from pufferdp.series_certificate import series_charge

if TYPE_CHECKING:
    from pufferdp.ledger.accounts import Ledger
    from pufferdp.ledger.standing import Receipt

DesignOf = Callable[[float, int | None], FlipDesign]
"""The design for an epsilon and a length."""
_TRIES: Final = 4
"""Designs that are tried to find what would fit; with many states each takes seconds."""


@dataclass(frozen=True)
class Account:
    """Where a series is charged, if anywhere."""

    ledger: Ledger | str | os.PathLike[str] | None
    dataset: str | None
    tell: Callable[[str], None] = field(default=lambda words: None, repr=False)

    @property
    def kept(self) -> bool:
        """Whether there is a ledger."""
        return self.ledger is not None

    def expect(self, model: Model, adversary: str) -> None:
        """Refuse another model or adversary than the data set's before any data is read."""
        with opened(self.ledger, self.dataset) as books:
            if books is not None and self.dataset is not None:
                books.expect(self.dataset, model=model, adversary=adversary)

    def charge(self, design: FlipDesign, design_of: DesignOf) -> tuple[Receipt | None, bool]:
        """Charge a series; over budget, say at which epsilon it would fit."""
        try:
            return charged(
                self.ledger,
                self.dataset,
                lambda: series_charge(
                    design.channel.tolist(),
                    design.length,
                    design.epsilon,
                    model_digest(design.model),
                    str(design.adversary),
                ),
            )
        except BudgetError as error:
            if error.left is None:
                raise
            self.tell("looking for what would fit")
            fits = _fitting(design, design_of, error.left)
            said = "" if fits is None else f", as with --epsilon {fits:.10g}"
            raise BudgetError(f"{error}{said}", value=error.value, left=error.left) from None


def _fitting(design: FlipDesign, design_of: DesignOf, left: float) -> float | None:
    """An epsilon, in three digits, whose flips spend no more than what is left: the loss is nearly a multiple of it."""
    epsilon, loss, best = design.epsilon, design.dp_loss, None
    for _ in range(_TRIES):
        if not 0 < loss < math.inf or 0.98 * left < loss < left:
            break
        epsilon *= left / loss * (1 - 1e-9)
        places = 2 - math.floor(math.log10(epsilon))
        epsilon = math.floor(epsilon * 10.0**places) / 10.0**places
        try:
            loss = design_of(epsilon, design.length).dp_loss * (1 + 1e-9)  # what is charged is rounded up
        except PufferdpError:
            break
        if loss < left:
            best = max(epsilon, best or 0.0)
    return best
