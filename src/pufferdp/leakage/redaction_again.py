"""A second redaction of the same data, for more private records: designed for both publications together.

What was released stays released. A record that was redacted may be released now, with a fresh draw: it is then redacted
in both with the product of the two probabilities, and which of the two released it says nothing more than its value.
So both publications together are one design, and its exact leakage about old and new private records is the promise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pufferdp.errors import NotApplicableError
from pufferdp.leakage.redaction import Block, Design, Hiding, blocks_of, design_of
from pufferdp.leakage.redaction_optimal import optimal
from pufferdp.leakage.redaction_runs import Run


def again(previous: Design, private: Sequence[int], epsilon: float, *, window: bool = False) -> Design:
    """The design of both publications: old and new private records hidden, no record less released than before.

    With ``window`` records are released whatever they hold, or not.
    """
    before = previous.hiding
    hiding = Hiding(
        chain=before.chain,
        length=before.length,
        private=(*before.private, *private),
        epsilon=epsilon,
        adversary=before.adversary,
        known=before.known,
    )
    for p in hiding.private:
        if not (previous.of(p) == 1).all():
            raise NotApplicableError(
                f"record {p} may have been released by the earlier publication; what is known cannot be hidden", value=p
            )
    earlier = Design(hiding=hiding, method=previous.method, blocks=previous.blocks)
    if earlier.leakage > epsilon:
        raise NotApplicableError(
            f"the earlier publication alone leaks {earlier.leakage:.4g} about these records, more than epsilon = "
            f"{epsilon:g}; only a larger epsilon can still be promised",
            value=earlier.leakage,
        )
    method = "window" if window else "3r-optimal"
    parts = [_released(previous, hiding)] + ([] if window else [_towards(previous, optimal(hiding), hiding)])
    found = [design for part in parts if (design := design_of(hiding, method, part)) is not None]
    best = max([earlier, *found], key=lambda design: design.utility)
    return Design(hiding=hiding, method=method, blocks=best.blocks)


def _towards(previous: Design, wanted: Design, hiding: Hiding) -> list[Block]:
    """The way from what was published to the joint design, as far as both together keep the promise."""
    out: list[Block] = []
    for b in previous.blocks:
        run = Run(hiding=hiding, private=tuple(p for p in hiding.private if b.first <= p <= b.last))
        aim = np.minimum(b.marks, np.array([wanted.of(row) for row in range(b.first, b.last + 1)]))
        back = run.least(b.first, aim, b.marks - aim)
        out += blocks_of(hiding, b.first, np.minimum(aim + back * (b.marks - aim), b.marks))
    return out


def _released(previous: Design, hiding: Hiding) -> list[Block]:
    """Whole records released, those farthest from a private one first, where that keeps the promise."""
    out: list[Block] = []
    for b in previous.blocks:
        run = Run(hiding=hiding, private=tuple(p for p in hiding.private if b.first <= p <= b.last))
        marks = np.array(b.marks)
        rows = [row for row in range(b.first, b.last + 1) if row not in hiding.private]
        for row in sorted(rows, key=lambda row: -min(abs(row - p) for p in run.private)):
            tried = marks.copy()
            tried[row - b.first] = 0.0
            if run.keeps(b.first, tried):
                marks = tried
        out += blocks_of(hiding, b.first, marks)
    return out
