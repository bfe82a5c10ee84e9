"""How numbers become states: edges people write down, never edges computed from the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from decimal import Decimal, InvalidOperation
from typing import Final

from pufferdp.basics.errors import ModelError, ParameterError
from pufferdp.basics.words import a_kind
from pufferdp.models.base import Model
from pufferdp.models.chain import bin_edges, series_of

_MOST: Final = 10_000


Bins = str | Iterable[float]
"""Edges as text, ``"0,200,400"`` or ``"width:200"``, or as numbers."""


def bins_text(bins: Bins | None) -> str | None:
    """Edges as text, as the command line takes them."""
    if bins is None or isinstance(bins, str):
        return bins
    try:
        if isinstance(bins, (Mapping, Set)):
            raise TypeError("edges have an order")
        return ",".join(format(float(edge), ".17g") for edge in bins)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(
            f"bins is {a_kind(bins)}; it must be rising edges such as [0, 200, 400], or text such as 'width:200'",
            value=bins,
        ) from None


def parse_bins(text: str, *, count: int | None = None, span: tuple[float, float] | None = None) -> tuple[float, ...]:
    """Edges from ``0,200,400``, ``width:200:LOW:HIGH`` or ``width:200``.

    With a bare width the bins are multiples of it: ``count`` of them from 0, or those that touch ``span``.
    """
    word, colon, rest = text.partition(":")
    if not colon:
        try:
            edges = bin_edges([float(part) for part in text.split(",")])
        except (ValueError, ModelError):
            raise _not_edges(text) from None
        assert edges is not None
        return edges
    if word != "width":
        raise _not_edges(text)
    try:
        numbers = [Decimal(part) for part in rest.split(":")]
    except InvalidOperation:
        raise _not_edges(text) from None
    if len(numbers) not in (1, 3) or not all(n.is_finite() for n in numbers) or numbers[0] <= 0:
        raise _not_edges(text)
    width = numbers[0]
    if len(numbers) == 3:
        low, high = numbers[1], numbers[2]
        steps = (high - low) / width
        if steps < 1 or steps != int(steps):
            raise ParameterError(
                f"bins is {text!r}; the range must be a whole number of widths, one or more", value=text
            )
        first, n = low, int(steps)
    elif count is not None:
        first, n = Decimal(0), count
    elif span is not None:
        start = math.floor(Decimal(repr(span[0])) / width)
        first, n = start * width, math.floor(Decimal(repr(span[1])) / width) - start + 1
    else:
        raise ParameterError(f"bins is {text!r}; say from where to where, as in width:{width}:0:1000", value=text)
    if n > _MOST:
        raise ParameterError(f"bins is {text!r}, which makes {n} states; at most {_MOST} are allowed", value=text)
    # Decimal steps: 3 × 0.2 is 0.6 here, as it is in the file, and not 0.6000000000000001.
    return tuple(float(first + width * j) for j in range(n + 1))


def _not_edges(text: str) -> ParameterError:
    return ParameterError(
        f"bins is {text!r}; it must be rising edges such as 0,200,400, or width:200 - "
        "edges computed from the data (quantiles, automatic) would leak it and are refused",
        value=text,
    )


def with_bins(model: Model, bins: Bins | None) -> Model:
    """The model with the bins that were asked for; refused when it has others."""
    text = bins_text(bins)
    if text is None:
        return model
    series = series_of(model)
    if series is None:
        raise ParameterError(f"bins is {text!r}; bins are for series, and the model is not a chain", value=text)
    edges = parse_bins(text, count=series.size)
    if series.bins is not None:
        if edges != series.bins and not set(edges) <= set(series.bins):
            raise ParameterError(
                f"bins is {text!r}, but the model was made with other edges; leave bins= out", value=text
            )
        return model
    return series.with_bins(edges)
