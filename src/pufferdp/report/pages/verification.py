"""What there is to say of a certificate that was recomputed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pufferdp.basics.words import number, shorten
from pufferdp.report.page import Block, Medium, Page, Table, Words
from pufferdp.report.pages.common import rows_left_out, single_page

if TYPE_CHECKING:
    from pufferdp.publish.verify import Verification


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
    blocks += verified_values(found.vouched)
    blocks += [warnings] if found.warnings else []
    blocks += [unprovable] if found.valid and found.unprovable else []
    page = single_page("A certificate, recomputed", "Does it hold?", *blocks, data=found.to_dict(), kind="verification")
    return replace(page, warnings=found.warnings)


def verified_values(vouched: Mapping[str, Any]) -> tuple[Block, ...]:
    """The numbers that a certificate vouches for, written out so that nobody reads others beside them."""
    if "rows" in vouched:
        cells = tuple(tuple("-" if cell is None else str(cell) for cell in row) for row in vouched["rows"])
        below = rows_left_out(vouched["groups"] - len(cells))
        return (Table(caption="The table", head=tuple(vouched["columns"]), rows=cells, below=below),)
    if "flow" in vouched:
        rows = tuple((name, *map(number, row)) for name, row in zip(vouched["labels"], vouched["flow"], strict=True))
        return (Table(caption="The flow", head=("", *vouched["labels"]), rows=rows),)
    if "answer" in vouched:
        answer, estimate = (_written(vouched.get(name), vouched.get("labels")) for name in ("answer", "estimate"))
        same = vouched.get("estimate") in (None, vouched["answer"])
        return (Words((f"Answer: {answer}" + ("." if same else f"; estimate: {estimate}."),)),)
    if "groups" in vouched:
        words = f"A table of {vouched['groups']:,} rows with the SHA-256 {vouched['sha256']}: "
        return (Words((f"{words}give verify the table to compare the two.",)),)
    if "records" not in vouched:
        return ()
    words = f"A series of {vouched['records']:,} records; the certificate has their distribution, and not the records."
    return (Words((words,)),)


def _written(numbers: Any, labels: Sequence[str] | None) -> str:
    """Each number with all its digits, and its label where there are several."""
    if not isinstance(numbers, list):
        return str(numbers)
    named = labels is not None and len(labels) == len(numbers)
    each = [f"{name} {n}" for name, n in zip(labels or (), numbers, strict=True)] if named else list(map(str, numbers))
    return shorten(each)
