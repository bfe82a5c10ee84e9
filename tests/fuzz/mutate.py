"""Files that somebody has broken: bytes, words and JSON values changed at random, from a fixed seed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any, Final

TOKENS: Final = (
    b"", b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\r\n", b"\n\n", b'"', b"'", b",", b";", b"{", b"}", b"[", b"]", b"(",
    b"nan", b"-inf", b"1e999", b"-1", b"0", b"9" * 400, b"1e-320", b"..", b":", b"T", b"%", b"|", b"\\", b"/*", b"//",
    b"null", b"true", b"2024-13-40", b"0000-00-00T99:99", b"9999-12-31T23:59:59", b"9999-12-31", b"\xf0\x9f\x90\xa1",
    b" ", b"\t", b"A" * 5000, b"7" * 5000,
)  # fmt: skip
VALUES: Final = (
    "\ud800", 2**70, -(2**70), 10**400, 1e308, -1e308, 5e-324, float("nan"), float("inf"), None, "", [], {}, True, 0,
    -1, 0.5, "x", [[1e308, 1e308], [1e308, 1e308]], [[0, 0], [0, 0]], [10**400], [None], {"": None}, "9" * 400, [[[]]],
    1, 2, [1], "a", [0.5, 0.5], "1970-01-01", 10**9, 10**18,
)  # fmt: skip


def changed_bytes(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with one to four changes."""
    out = bytearray(draw.choice(seeds))
    for _ in range(draw.randint(1, 4)):
        at, until = sorted((draw.randint(0, len(out)), draw.randint(0, len(out))))
        until = min(until, at + 64) if draw.random() < 0.8 else until
        kind = draw.randrange(7)
        if kind == 0 and out:
            out[min(at, len(out) - 1)] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del out[at:until]
        elif kind == 2:
            out[at:at] = out[at:until]
        elif kind == 3:
            del out[at:]
        elif kind == 4:
            other = draw.choice(seeds)
            start = draw.randint(0, len(other))
            out[at:until] = other[start : start + 64]
        else:
            out[at : at + draw.randrange(3)] = draw.choice(TOKENS)
    return bytes(out)


def changed_json(draw: random.Random, content: Any) -> Any:
    """A copy with one to three values changed, taken out or put elsewhere."""
    out = copy.deepcopy(content)
    for _ in range(draw.randint(1, 3)):
        inner = out
        while isinstance(inner, (dict, list)) and inner:
            key = draw.choice(list(inner)) if isinstance(inner, dict) else draw.randrange(len(inner))
            if not isinstance(inner[key], (dict, list)) or not inner[key] or draw.random() < 0.2:
                _change(draw, inner, key)
                break
            inner = inner[key]
    return out


def _change(draw: random.Random, inner: Any, key: Any) -> None:
    kind, value = draw.randrange(8), inner[key]
    if kind == 0:
        del inner[key]
    elif kind == 1 and isinstance(inner, list):
        inner.insert(key, copy.deepcopy(value))
    elif kind == 1:
        inner[f"{key}x"] = inner.pop(key)
    elif kind == 2 and isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300:
        inner[key] = draw.choice((-value, value + 1, value / 2, value * 1e12, float(value)))
    elif kind == 3 and isinstance(value, str):
        inner[key] = draw.choice((value[:-1], value + value, value.upper(), f" {value}"))
    else:
        inner[key] = copy.deepcopy(draw.choice(VALUES))


def json_bytes(content: Any) -> bytes:
    """As a file has it; lone surrogates are escaped."""
    return json.dumps(content).encode()
