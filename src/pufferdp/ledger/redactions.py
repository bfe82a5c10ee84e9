"""What a redacted series charges, from the facts that its certificate has too; and the same recomputed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from pufferdp import checks
from pufferdp.errors import LedgerError
from pufferdp.leakage.redaction import Design, Hiding
from pufferdp.leakage.redaction_parts import designs_of, shown_alike
from pufferdp.ledger.charges import Charge, redaction
from pufferdp.models.markov import MarkovChain


def redaction_charge(
    designs: Sequence[Design],
    *,
    model: str,
    private: Sequence[int],
    positions: Sequence[int],
    rows: int,
    chains: Sequence[Sequence[int]],
    earlier: tuple[str, float] | None = None,
) -> Charge:
    """The charge of a redaction.

    Args:
        designs: the design of each chain with private records.
        model: digest of the model.
        private: the private rows.
        positions: where they stand in the series.
        rows: how many rows there are.
        chains: first and last position of each chain.
        earlier: of a redaction that was designed together with one before it, in the same data set: the private
            records of that one in words, and what it leaked. Its leakage is contained in this one's.
    """
    who = designs[0].hiding
    leakage = max(design.leakage for design in designs)
    facts = {
        "method": designs[0].method,
        "epsilon": who.epsilon,
        "private": list(private),
        "positions": list(positions),
        "rows": rows,
        "chains": [list(span) for span in chains],
        "blocks": [
            [first - 1 + block.first, _runs(block.marks.tolist())]
            for (first, _), design in zip(chains, designs, strict=True)
            for block in design.blocks
        ],
        "earlier": None if earlier is None else earlier[1],
    }
    return redaction(
        window=all(map(shown_alike, designs)),
        leakage=leakage,
        private=rows_text(private),
        longest=max(last - first + 1 for first, last in chains),
        model=model,
        adversary=str(who.adversary),
        facts=facts,
        together=None if earlier is None else earlier[0],
    )


def recomputed(charge: Charge, model: object) -> Charge | None:
    """The charge that follows from the facts; None where there are none."""
    facts = charge.facts
    if not facts or charge.model is None:
        return None
    if not isinstance(model, MarkovChain):
        raise LedgerError("a redaction is charged under a model that is no Markov chain")
    hiding = Hiding(
        chain=model,
        length=facts["rows"],
        private=tuple(facts["positions"]),
        epsilon=facts["epsilon"],
        adversary=checks.adversary(charge.adversary),
    )
    blocks = [(first, [row for count, row in runs for _ in range(count)]) for first, runs in facts["blocks"]]
    designs = designs_of(hiding, method=facts["method"], chains=facts["chains"], blocks=blocks)
    earlier = None if charge.together is None else (charge.together, float(facts["earlier"]))
    found = redaction_charge(
        designs,
        model=charge.model,
        private=facts["private"],
        positions=facts["positions"],
        rows=facts["rows"],
        chains=facts["chains"],
        earlier=earlier,
    )
    for name in ("kind", "private", "longest", "together"):
        if getattr(found, name) != getattr(charge, name):
            raise LedgerError(f"the facts of a redaction do not go with its {name}")
    own, true = charge.epsilon or 0.0, found.epsilon or 0.0
    for stated, leaks in ((charge.leakage, found.leakage), (own, true)):
        if not math.isclose(stated, leaks, rel_tol=1e-9, abs_tol=1e-12):
            raise LedgerError(f"a redaction was charged {stated:.10g}; recomputed it leaks {leaks:.10g}")
    return found


def rows_text(rows: Sequence[int]) -> str:
    """Rows in words: row 7, or rows 3-5 and 9."""
    ordered = sorted(set(rows))
    parts = []
    for _, group in itertools.groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0]):
        found = [row for _, row in group]
        parts.append(str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}")
    word = "row" if len(ordered) == 1 else "rows"
    return f"{word} {', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else f"{word} {parts[0]}"


def _runs(marks: list[list[float]]) -> list[Any]:
    """Redaction probabilities, those of alike records once, with how many there are."""
    return [[len(list(group)), row] for row, group in itertools.groupby(marks)]
