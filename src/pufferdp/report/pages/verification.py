"""What there is to say of a certificate that was recomputed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pufferdp.report.page import Block, Medium, Page, Section, Table, Words

if TYPE_CHECKING:
    from pufferdp.publish.verify import Verification

MOST_ROWS: Final = 20
"""Numbers of an answer that are written out."""


def verification_page(found: Verification) -> Page:
    """Whether a certificate holds, why not, and which numbers it vouches for."""
    verdict = "valid" if found.valid else "NOT valid"
    words = tuple(f"- {problem}" for problem in found.problems)
    if found.signed_by is not None:
        words += (f"Signed with the key {found.signed_by}.",)
    warnings = Words(tuple(f"Warning: {warning}" for warning in found.warnings), media=Medium.TERMINAL)
    unprovable = Table(
        caption="Cannot be verified from the certificate",
        head=("field", "why"),
        rows=tuple(found.unprovable.items()),
        media=Medium.PAGES,
        left=2,
    )
    blocks: list[Block] = [Words((verdict, *words))]
    blocks += _vouched(found.vouched)
    blocks += [warnings] if found.warnings else []
    blocks += [unprovable] if found.valid and found.unprovable else []
    return Page(
        title="A certificate, recomputed",
        sections=(Section(title="Does it hold?", blocks=tuple(blocks)),),
        warnings=found.warnings,
        data=found.to_dict(),
        kind="verification",
    )


def _vouched(vouched: Mapping[str, Any]) -> list[Block]:
    """The numbers that the certificate is about, as a table where they are one."""
    if "rows" in vouched:
        cells = tuple(tuple("-" if cell is None else str(cell) for cell in row) for row in vouched["rows"])
        left_out = vouched["groups"] - len(cells)
        below = f"… and {left_out:,} more" if left_out > 0 else ""
        return [Table(caption="What it vouches for", head=tuple(vouched["columns"]), rows=cells, below=below)]
    if "flow" in vouched:
        rows = tuple((name, *map(str, row)) for name, row in zip(vouched["labels"], vouched["flow"], strict=True))
        return [Table(caption="What it vouches for", head=("from", *vouched["labels"]), rows=rows)]
    if "answer" in vouched:
        return [_answer(vouched)]
    if "groups" in vouched:
        return [Words((f"A table of {vouched['groups']:,} rows with the SHA-256 {vouched['sha256']}.",))]
    if "records" in vouched:
        return [Words((f"A series of {vouched['records']:,} records; the certificate holds their distribution only.",))]
    return []


def _answer(vouched: Mapping[str, Any]) -> Table:
    """Each number with all its digits, beside its estimate."""
    answers, nearest = (_listed(vouched.get(name)) for name in ("answer", "estimate"))
    labels = vouched.get("labels") or []
    names = labels if len(labels) == len(answers) else [str(n + 1) for n in range(len(answers))]
    nearest = nearest if len(nearest) == len(answers) else ["-"] * len(answers)
    rows = tuple(
        (str(name), str(answer), str(near)) for name, answer, near in zip(names, answers, nearest, strict=True)
    )
    below = f"… and {len(rows) - MOST_ROWS:,} more" if len(rows) > MOST_ROWS else ""
    return Table(
        caption="What it vouches for", head=("label", "answer", "estimate"), rows=rows[:MOST_ROWS], below=below
    )


def _listed(numbers: Any) -> list[Any]:
    return [] if numbers is None else numbers if isinstance(numbers, list) else [numbers]
