"""A redaction as text that fits a terminal. Works from plain dictionaries: the same data as ``--json``."""

from __future__ import annotations

import textwrap
from typing import Any

from pufferdp.report.text import number, table

MOST_ROWS = 24


def redaction_table(result: dict[str, Any]) -> str:
    """The rows that are not simply released, and what the design leaks and releases."""
    rows = []
    for block in result["blocks"]:
        for n, chances in enumerate(block["redaction_probabilities"]):
            row = block["first"] + n
            note = "private" if row in result["private"] else ""
            rows.append([f"{row:,}", note, *(_chance(q) for q in chances)])
    hidden = len(rows) - MOST_ROWS
    if hidden > 0:
        keep = MOST_ROWS // 2
        rows = [*rows[:keep], ["…", f"{hidden:,} rows", *("" for _ in result["states"])], *rows[-keep:]]
    names = result["states"] if len(result["states"]) <= 6 else [str(n) for n in range(len(result["states"]))]
    head = ["row", "", *(f"redact {name}" for name in names)]
    who = {"pufferfish": "knows no record", "bdp": "may know any others", "dp": "knows all others"}
    private = result["private"]
    hide = f"row {private[0]:,}" if len(private) == 1 else f"{len(private):,} rows"
    said = [
        f"Hides {hide} of {result['records']:,} records, epsilon {number(result['epsilon'])}, by {result['method']}, "
        f"from somebody who {who[result['adversary']]}"
        + (f" but rows {', '.join(map(str, result['known'][:10]))}." if result["known"] else "."),
        f"Leaks {number(result['leakage'])}, exactly. Releases {100 * result['utility']:.6g} % of the records on "
        f"average; all rows that are not listed are released.",
    ]
    if result["adversary"] == "pufferfish" and not result["known"]:
        most = result["leakage_to"]["bdp"]
        much = "everything" if most is None else f"up to {number(most)}"
        said.append(f"Somebody who already knows other records may learn {much}; --adversary bdp bounds that.")
    return "\n".join([*(textwrap.fill(s, 96) for s in said), "", table(head, rows, left=2)])


def redaction_promise(certificate: dict[str, Any]) -> str:
    """What a certificate promises, in sentences."""
    sentences = [
        certificate["guarantee"]["statement"],
        f"Redacted by {certificate['mechanism']['name']}: leaks {number(certificate['leakage'])}, releases "
        f"{100 * certificate['utility']:.6g} % of the records on average.",
        *(f"Warning: {w}." for w in certificate["warnings"]),
    ]
    return "\n".join(textwrap.fill(s, 96) for s in sentences)


def _chance(q: float) -> str:
    return "always" if q == 1 else "never" if q == 0 else f"{q:.4f}"
