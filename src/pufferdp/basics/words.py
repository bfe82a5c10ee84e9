"""Numbers and tables as people read them."""

from __future__ import annotations

import math
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import unquote

WIDEST: Final = 96
"""Lines of text are never wider."""


def line_width() -> int:
    """How wide a line may be: as a terminal is, where that is narrower; in files and pipes always the same."""
    with suppress(ValueError, AttributeError):  # stdout is closed, or there is none
        if sys.stdout.isatty():
            return max(40, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))
    return WIDEST


def number(value: float | None) -> str:
    """A number with four significant digits, as short as it can be."""
    if value is None:
        return "-"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
        text = f"{value:,.{min(digits, 6)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.3e}"


def rounded(value: float, error: float) -> str:
    """A share with the decimals that its error supports, four at most.

    >>> rounded(0.73304, 0.2), rounded(0.73304, 0.0042), rounded(0.73304, 1e-9)
    ('0.7', '0.733', '0.7330')
    """
    decimals = min(4, max(1, -math.floor(math.log10(error)))) if error > 0 else 4
    return f"{value:.{decimals}f}"


def whole_number(count: int, most: int = 10**15) -> str:
    """A whole number in full, and from ``most`` on its power of ten."""
    return f"{count:,}" if count < most else f"about 10^{math.floor(math.log10(count))}"


def interval_text(low: float, high: float) -> str:
    """An interval in words, as 842–866."""
    return f"{number(low)} to {number(high)}" if low < 0 else f"{number(low)}–{number(high)}"


def up_to(value: float | None, down: bool = False) -> str:
    """Four digits, rounded to the safe side: what is spent up, what is left down."""
    if value is None or not 1e-300 < value < math.inf:  # the fourth digit of anything smaller is no double
        return number(value)
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    steps = math.floor(value / unit + 1e-9) if down else math.ceil(value / unit - 1e-9)
    return number(steps * unit)


def table(head: list[str], rows: list[list[str]], left: int = 1, least: int = 0) -> str:
    """Columns padded to their widest cell; the first ``left`` flush left, the rest flush right and ``least`` wide.

    On a terminal that is too narrow columns stand closer together.
    """
    widths = [max(len(line[n]) for line in [head, *rows]) for n in range(len(head))]
    widths = [w if n < left else max(w, least) for n, w in enumerate(widths)]
    gap = " " if sum(widths) + 2 * len(widths) - 2 > line_width() < WIDEST else "  "

    def line(cells: list[str]) -> str:
        padded = [c.ljust(w) if n < left else c.rjust(w) for n, (c, w) in enumerate(zip(cells, widths, strict=True))]
        return gap.join(padded).rstrip()

    return "\n".join([line(head), gap.join("-" * w for w in widths), *(line(r) for r in rows)])


def a_kind(value: object) -> str:
    """What a value is, as a sentence has it: ``an int``, ``a DataFrame``, ``None``."""
    kind = type(value).__name__
    return "None" if value is None else f"{'an' if kind[0] in 'aeiouAEIO' or kind == 'ndarray' else 'a'} {kind}"


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """``; did you mean 'histogram'?``, or nothing where no known word is near."""
    from difflib import get_close_matches  # only where something is wrong

    names = {name.lower(): name for name in known}
    near = get_close_matches(str(word).lower(), names, n=1)
    return f"; did you mean {names[near[0]]!r}?" if near else ""


def quoted_value(value: object, most: int = 60) -> str:
    """A value as Python writes it, on one line and cut where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[:most]}…"


def shorten(names: object, most: int = 10) -> str:
    """The first few of many names, for a message."""
    listed = [str(name) for name in names] if isinstance(names, (tuple, list)) else [str(names)]
    rest = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {rest} more" if rest > 0 else "")


def shape_text(shape: Sequence[int]) -> str:
    """The shape of numbers, as a sentence has it: ``2×3``, ``a list of 2 numbers``, ``a single number``."""
    if len(shape) == 1:
        return f"a list of {shape[0]:,} number{'s' * (shape[0] != 1)}"
    return "×".join(map(str, shape)) or "a single number"


def rows_text(count: int) -> str:
    """So many rows: ``1 row``, ``2,016 rows``."""
    return f"{count:,} row{'s' * (count != 1)}"


_HIDDEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What moves the cursor, clears the screen or turns letters round."""


def visible(text: str) -> str:
    """A text as a terminal may print it, with its control characters spelt out.

    A stranger's file has names and warnings in it, and those must not write over what we say of the file.
    """
    return _HIDDEN.sub(lambda found: ascii(found[0])[1:-1], text)


def normalised_identity(name: str) -> str:
    """The form in which IDs are compared: Unicode NFKC, casefolded, without whitespace and format characters.

    A whole number that a tool has written as 1.0 is 1.
    """
    if not name.isascii():
        kept = (sign for sign in unicodedata.normalize("NFKC", name) if unicodedata.category(sign) != "Cf")
        name = unicodedata.normalize("NFKC", "".join(kept).casefold())
    name = "".join(name.split()).casefold()
    whole = name.removesuffix(".0")
    return whole if whole.removeprefix("-").isdecimal() else name


def is_address(text: str) -> bool:
    """Whether a text is a URL or connection string, which may hold a password; a ``Path`` of a URL has one slash."""
    return "://" in text or "password=" in text or text.strip().lower().startswith(("postgres:", "postgresql:"))


def redacted_url(text: str) -> str:
    """A URL without its password, wherever the password stands in it; any other text as it is."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        return text
    # A password may hold any sign that nobody has escaped, so that all from the first colon to the last @ is left out.
    user, at, address = rest.rpartition("@")
    host, *options = re.split("[?&]", address)
    known = re.split("[:/?&]", user, maxsplit=1)
    shown = known[0] + ":…" * (len(known) > 1) + at
    shown += re.sub(r"^([^\[:/]*):(?!\d*(/|,|$))[^/]*", r"\1:…", host)  # a port is a number
    for n, option in enumerate(options):
        name, equals, value = option.partition("=")
        secret = "pass" in unquote(name).lower() or not equals
        shown += ("&" if n else "?") + name * bool(equals) + equals + ("…" if secret else value)
    return f"{scheme}://{shown}"


def redacted_message(error: BaseException, url: str) -> str:
    """The words of a driver's error on one line; its kind alone where they repeat what a shown URL leaves out."""
    words = " ".join(str(error).split())
    parts = {form for part in re.split("[:/@?&=]", url) for form in (part, unquote(part))}
    secrets = parts - set(re.split("[:/@?&=]", redacted_url(url)))
    return type(error).__name__ if any(secret and secret in words for secret in secrets) else words
