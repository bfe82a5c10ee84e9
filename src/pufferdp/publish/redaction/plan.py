"""Before a series is redacted: which records to hide, and with which probabilities."""

from __future__ import annotations

from collections.abc import Sequence

from pufferdp.basics import checks
from pufferdp.bounds.redaction.design import RedactionProblem, redactable
from pufferdp.models.files.json import ModelLike, as_model
from pufferdp.publish.redaction.kind import check_mark, redaction_mechanism
from pufferdp.publish.redaction.private import Named, PrivateRecords
from pufferdp.publish.redaction.result import MARK, Redaction


def plan_redaction(
    model: ModelLike,
    *,
    length: int,
    private: Named | Sequence[Named],
    epsilon: float,
    method: str | None = None,
    adversary: str = "bdp",
    known: Sequence[int] = (),
    whole: bool = False,
    mark: str = MARK,
) -> Redaction:
    """Design a redaction before any data is read.

    Args:
        model: a Markov chain with a stationary start.
        length: records in the series.
        private: the rows to hide, counted from 1; a design has no times.
        epsilon: the guarantee for each of them, or for each segment of them with ``whole``.
        method: ``window``, ``3r-numerical`` or ``3r-optimal``, the default and the best.
        adversary: ``bdp`` (knows any set of other records), ``pufferfish`` (none) or ``dp`` (all others).
        known: rows that the adversary knows; only with ``pufferfish``.
        whole: hide private records that follow each other as a whole, what they hold together, and not each for itself.
        mark: what stands for a redacted record.
    """
    model = as_model(model)
    hiding = RedactionProblem(
        chain=redactable(model),
        length=length,
        private=PrivateRecords.parse(private).only_rows,
        epsilon=epsilon,
        adversary=checks.adversary(adversary),
        known=tuple(known),
        whole=checks.flag(whole, "whole"),
    )
    check_mark(mark, hiding.chain)
    return Redaction(designs=((1, redaction_mechanism(method).design(hiding)),), rows=hiding.length, mark=mark)
