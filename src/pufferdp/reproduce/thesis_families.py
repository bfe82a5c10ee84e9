"""Lange 2024, figures 7 and 17: a count of BB over families, by the general bound and exactly for given families."""

from __future__ import annotations

import math
from functools import cache
from typing import Final

from pufferdp.leaking import leakage_of
from pufferdp.reproduce.base import Drawing, Result, Setting
from pufferdp.reproduce.thesis_data import EPSILONS, squared_error
from pufferdp.reproduce.thesis_limits import least_beta

FREQUENCY: Final = math.sqrt(40.29 / 2504)
"""Share of the allele B: the paper's 2,504 people have 40.29 BB on average, and unrelated people have BB with its
square."""

Links = tuple[tuple[str, str | None, str | None], ...]
"""Members of a family: name, father, mother."""


def core_family(size: int) -> Links:
    """Two parents and their children."""
    return (("f", None, None), ("m", None, None), *((f"c{n}", "f", "m") for n in range(size - 2)))


GENERATIONS: Final[Links] = (
    *((name, None, None) for name in ("ff", "fm", "mf", "mm")),
    ("f", "ff", "fm"),
    ("m", "mf", "mm"),
    ("c", "f", "m"),
)
"""Four grandparents, their two children, one child of these."""

FAMILIES: Final[dict[str, Links]] = {
    **{f"parents and {n} child{'ren' * (n > 1)}": core_family(n + 2) for n in (1, 2, 3, 5)},
    "three generations": GENERATIONS,
}
