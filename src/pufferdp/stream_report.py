"""What a stream leaks and what its steps may spend: results, for people and machines."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.checks import Adversary
from pufferdp.errors import ParameterError
from pufferdp.leakage.stream_profile import StreamAttack
from pufferdp.report.text import number, table

Floats = npt.NDArray[np.float64]
_TIGHT: Final = 1e-8
"""An attack that comes as near as this to the bound shows that it is exact."""
_SHOWN: Final = 1000
"""Steps listed in JSON; of longer streams both ends and some between."""
_EDGE: Final = 100
_WIDTH: Final = 96


@dataclass(frozen=True, kw_only=True)
class StreamReport:
    """What a stream leaks about the record of each step. Prints as a table."""

    losses: Floats
    """DP loss of each step; one number where the stream has no end."""
    backward: Floats
    """From all outputs up to the record's own, step by step."""
    forward: Floats
    """From the record's own output and all that follow."""
    total: Floats
    """From all outputs."""
    length: int | None
    """Steps; None: for ever, and each list has one number, the largest at any step."""
    adversary: Adversary
    attack: StreamAttack
    """Who learns most that was found, about the worst step's record."""
    labels: tuple[str, ...]
    """Names of the states."""
    curve: float | None
    """What the best leakage curve says of any algorithm with the largest of the losses; None without end."""

    @property
    def worst(self) -> int | None:
        """The step whose record leaks most, counted from 1; None without end."""
        return None if self.length is None else self._at + 1

    @property
    def _at(self) -> int:
        return worst_step(self.total)

    @property
    def upper(self) -> float:
        """No algorithm with these losses leaks more about any record."""
        return float(self.total.max())

    @property
    def lower(self) -> float:
        """Some algorithm with these losses leaks as much."""
        return min(self.attack.leaks, self.upper)

    @property
    def exact(self) -> float | None:
        """The leakage of the worst algorithm, where the attack reaches the bound."""
        return self.upper if self.upper - self.attack.leaks <= _TIGHT * (1 + self.upper) else None

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp leakage --stream … --json`` prints."""
        steps = self._steps()
        parts = {"backward": self.backward, "forward": self.forward, "total": self.total}
        known = {"before": self.attack.before, "after": self.attack.after}
        return {
            "length": self.length,
            "adversary": str(self.adversary),
            "steps": None if self.length is None else (steps + 1).tolist(),
            "dp_epsilon": self.losses[steps].tolist(),
            **{name: part[steps].tolist() for name, part in parts.items()},
            "largest": {name: float(part.max()) for name, part in parts.items()},
            "worst": self.worst,
            "lower": self.lower,
            "exact": self.exact,
            "upper": self.upper,
            "attack": {
                "likelier": self.labels[self.attack.likelier],
                "other": self.labels[self.attack.other],
                **{
                    side: None if one is None else {"distance": one[0], "state": self.labels[one[1]]}
                    for side, one in known.items()
                },
            },
            "curve": self.curve,
        }

    def _steps(self) -> npt.NDArray[np.int64]:
        n = len(self.total)
        if n <= _SHOWN:
            return np.arange(n)
        between = np.linspace(0, n - 1, _EDGE).astype(np.int64)
        ends = np.concatenate([np.arange(_EDGE), np.arange(n - _EDGE, n)])
        return np.unique(np.concatenate([ends, between, np.array([self._at])]))

    def __str__(self) -> str:
        who = f"for an adversary who knows {self.adversary.knows}"
        same = bool((self.losses == self.losses[0]).all())
        spent = f"{number(float(self.losses[0]))} of DP at each step" if same else "a DP loss of its own at each step"
        over = "without end" if self.length is None else f"of {self.length:,} step{'s' * (self.length != 1)}"
        parts = [textwrap.fill(f"A stream {over}, {spent}, {who}", _WIDTH), ""]
        head = ["step", "spends", "backward", "forward", "total"]
        rows = [[name, *(number(float(part[at])) for part in self._columns)] for name, at in self._rows()]
        parts += [table(head, rows), "", *(textwrap.fill(s, _WIDTH) for s in self._sentences())]
        return "\n".join(parts)

    @property
    def _columns(self) -> tuple[Floats, Floats, Floats, Floats]:
        return self.losses, self.backward, self.forward, self.total

    def _rows(self) -> list[tuple[str, int]]:
        if self.length is None:
            return [("any, at most", 0)]
        n, worst = self.length, self._at
        at = sorted({0, 1, worst, n // 2, n - 2, n - 1} & set(range(n)) if n > 8 else set(range(n)))
        return [(f"{t + 1:,}" + (" worst" if t == worst else ""), t) for t in at]

    def _sentences(self) -> list[str]:
        where = "any record" if self.worst is None else f"record {self.worst:,}"
        said = f"Whatever the algorithm, the odds about {where} shift by at most e^{_up(self.upper)}"
        own = float(self.losses[0 if self.worst is None else self.worst - 1])
        said += f"; its own output alone shifts them by e^{number(own)}."
        if self.upper > 0:
            found = f"An attack on the worst algorithm reaches {number(self.lower)}"
            said += f" {found}, so the number is exact." if self.exact is not None else f" {found}."
        out = [said]
        if self.attack.before or self.attack.after:
            known = [
                f"the record {one[0]:,} step{'s' * (one[0] != 1)} {side} it to be {self.labels[one[1]]}"
                for side, one in (("before", self.attack.before), ("after", self.attack.after))
                if one is not None
            ]
            out.append(
                f"Most is learnt by someone who knows {' and '.join(known)}, about the record being "
                f"{self.labels[self.attack.likelier]} and not {self.labels[self.attack.other]}."
            )
        if self.curve is not None:
            out.append(
                f"Read as any algorithm with a DP loss of {number(float(self.losses.max()))}, a curve allows "
                f"{_up(self.curve)}."
            )
        return out


@dataclass(frozen=True, kw_only=True)
class StreamBudget:
    """What each step may spend so that no record leaks more than the target."""

    target: float
    length: int | None
    """Steps; None: for ever."""
    adversary: Adversary
    constant: float
    """The same at each step."""
    ends: tuple[float, float, float] | None
    """More at the ends: the first step, every one between, the last; safe for any number of steps. None where a
    stream without end has no budget."""

    def losses(self, length: int | None = None) -> Floats:
        """What each step spends, the ends more than the others where they may."""
        n = length or self.length
        if n is None:
            raise ParameterError("length is missing; say how many steps to list")
        if n == 1:
            return np.array([self.target])
        if self.ends is None or (self.length is not None and self.constant * n > self._sum(n)):
            return np.full(n, self.constant)
        first, middle, last = self.ends
        return np.array([first, *[middle] * (n - 2), last])

    def _sum(self, n: int) -> float:
        assert self.ends is not None
        return self.ends[0] + self.ends[1] * (n - 2) + self.ends[2]

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp leakage --stream-target … --json`` prints."""
        ends = None if self.ends is None else dict(zip(("first", "middle", "last"), self.ends, strict=True))
        return {
            "target": self.target,
            "length": self.length,
            "adversary": str(self.adversary),
            "constant": self.constant,
            "ends": ends,
        }

    def __str__(self) -> str:
        over = "a stream without end" if self.length is None else f"a stream of {self.length:,} steps"
        said = [
            f"A leakage of at most {number(self.target)} from {over}, for an adversary who knows "
            f"{self.adversary.knows}.",
            f"Spend a DP epsilon of {_down(self.constant)} at each step, with any DP library that uses the step's "
            "record alone.",
        ]
        if self.ends is not None and max(self.ends) > self.ends[1]:
            first, middle, last = (_down(e) for e in self.ends)
            said.append(
                f"Or spend {first} at the first step, {middle} at those between and {last} at the last: whatever the "
                "number of steps, no record leaks more."
            )
        return "\n".join(textwrap.fill(s, _WIDTH) for s in said)


def worst_step(total: Floats) -> int:
    """The first step that leaks as much as any, up to rounding; counted from 0."""
    most = float(total.max())
    return int(np.argmax(total >= most - _TIGHT / 10 * (1 + most)))


def _up(value: float) -> str:
    """Four digits, rounded up."""
    return number(_rounded(value, math.ceil))


def _down(value: float) -> str:
    """Four digits, rounded down."""
    return number(_rounded(value, math.floor))


def _rounded(value: float, towards: Callable[[float], int]) -> float:
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    off = 1e-9 if towards is math.floor else -1e-9
    return towards(value / unit + off) * unit
