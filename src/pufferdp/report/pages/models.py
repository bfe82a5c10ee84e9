"""What there is to say of a model: what it is, and the tables in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.words import number
from pufferdp.report.certificate_table import shape_of, value_text
from pufferdp.report.page import Block, Page, Section, Table, Words

if TYPE_CHECKING:
    from pufferdp.models.base import Model

MOST_STATES: Final = 12
"""Larger tables are named, and not written out."""
_NAMES: Final = {
    "transition": "Probability of the next state",
    "emission": "Probability of each record, by hidden state",
    "low": "Least probability of the next state",
    "high": "Largest probability of the next state",
}


def model_page(model: Model) -> Page:
    """A model, as its file has it."""
    content = model.to_dict()
    tables: list[Block] = []
    facts: list[tuple[str, str]] = []
    for key, value in content.items():
        shape = shape_of(value)
        if len(shape) == 2 and max(shape) <= MOST_STATES:
            tables.append(_table(model, key, value, shape))
        elif key not in ("states", "fitted"):
            facts.append((key, value_text(value)))
    rest = Table(caption="The rest of its file", head=("key", "value"), rows=tuple(facts))
    sections = (
        Section(title="The model", blocks=(Words((repr(model), *_origin(model.fitted))), *tables)),
        Section(title="Its file", blocks=(rest,)),
    )
    return Page(title="A model", sections=sections, data=content, kind="model")


def _origin(fitted: dict[str, Any] | None) -> tuple[str, ...]:
    """Where it was estimated from, in the words that a fit uses."""
    if fitted is None:
        return ()
    place = "" if fitted.get("column") is None else f" from the column {fitted['column']!r}"
    count = "" if fitted.get("records") is None else f", {fitted['records']:,} records"
    return (f"It was fitted{place}{count}.",)


def _table(model: Model, key: str, value: Any, shape: tuple[int, ...]) -> Table:
    states = model.labels
    rows, columns = (states if size == len(states) else tuple(map(str, range(1, size + 1))) for size in shape)
    if key == "emission":  # its rows are hidden states, which have no names
        rows = tuple(map(str, range(1, shape[0] + 1)))
    return Table(
        caption=_NAMES.get(key, key),
        head=(key, *columns),
        rows=tuple((name, *map(number, row)) for name, row in zip(rows, value, strict=True)),
    )
