"""What there is to say of a fitted model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pufferdp.basics.words import number
from pufferdp.models.files.json import model_to_dict
from pufferdp.report.page import Page, Section, Words

if TYPE_CHECKING:
    from pufferdp.publish.fits.fit import Fit


def fit_page(fit: Fit) -> Page:
    """A fitted model, what was left out of it, and what it costs."""
    words = [repr(fit.model)]
    if fit.left_out:
        words.append(f"Left out, because the data never leaves them: {', '.join(fit.left_out)}.")
    if fit.prior is not None:
        words.append(
            f"Added to every transition count: {number(fit.prior)}. Moves that were never seen are possible then."
        )
    if fit.lent_rows:
        shown = ", ".join(fit.lent_rows[:6]) + (", …" if len(fit.lent_rows) > 6 else "")
        words.append(f"Nothing was seen to follow {shown}: what follows the last state alone stands in its place.")
    if fit.unvisited:
        words.append(f"Not visited: {', '.join(fit.unvisited)}.")
    if fit.dp_epsilon is None:
        words.append("A model fitted on the data that is released weakens the promise; the certificate will say so.")
    else:
        where = "keep a ledger" if fit.receipt is None else f"charged to data set {fit.receipt.dataset!r}"
        words.append(f"The fit has spent a DP loss of {fit.dp_epsilon:g} on the data: {where}.")
    return Page(
        title="A fitted model",
        sections=(Section(title="The model", blocks=(Words(tuple(words)),)),),
        data=model_to_dict(fit.model),
        kind="model",
    )
