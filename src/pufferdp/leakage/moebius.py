"""The ratio of two weights while hidden records are passed: its extremes over all outputs, in logarithms."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pufferdp.models.markov import Matrix


@dataclass(frozen=True)
class Pair:
    """Log-ratios for a 0 over a 1 and for a 1 over a 0."""

    zero: float
    one: float

    def __or__(self, other: Pair) -> Pair:
        return Pair(max(self.zero, other.zero), max(self.one, other.one))


@dataclass(frozen=True)
class Rows:
    """A two-by-two table of weights, T(x,y): what the new weight of x takes from the old weight of y."""

    a: float
    b: float
    c: float
    d: float
    logs: tuple[float, float, float, float]

    @classmethod
    def of(cls, table: Matrix) -> Rows:
        """From an array."""
        a, b, c, d = (float(v) for v in table.ravel())
        return cls(a, b, c, d, (log(a), log(b), log(c), log(d)))

    @property
    def rising(self) -> bool:
        """Whether a larger ratio goes to a larger one: det ≥ 0."""
        return self.a * self.d >= self.b * self.c

    def __call__(self, ratio: float) -> float:
        """Log of (a·R+b)/(c·R+d) for R = exp(ratio), either end included."""
        a, b, c, d = self.logs
        if ratio == math.inf:
            return a - c if a > -math.inf or c > -math.inf else math.nan
        top, bottom = log_add(a, ratio, b), log_add(c, ratio, d)
        return top - bottom if top > -math.inf or bottom > -math.inf else math.nan

    def attractor(self, first: float, second: float | None = None) -> float | None:
        """Where the ratio tends when it is multiplied by exp(first) before each step, or by first and second in turn.

        Log of the fixed point that attracts positive ratios; None where every ratio stays as it is.
        """
        a, b, c, d = self.a * math.exp(first), self.b, self.c * math.exp(first), self.d
        if second is not None:
            # One step after exp(second), the next after exp(first): the product of both tables.
            e, f, g, h = self.a * math.exp(second), self.b, self.c * math.exp(second), self.d
            a, b, c, d = a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h
        spread = a - d
        root = math.hypot(spread, 2 * math.sqrt(b) * math.sqrt(c))
        if spread >= 0:
            top, bottom = spread + root, 2 * c
        else:
            top, bottom = 2 * b, root - spread
        if top == 0 and bottom == 0:
            return None
        return log(top) - log(bottom)


class Ratios:
    """The ratio of the weights of 0 and 1 from a start: largest and smallest over all outputs of the hidden records.

    What the start says by itself, without any output, is divided out.
    """

    def __init__(self, rows: Rows, start: tuple[float, ...], high: float, low: float) -> None:
        self._rows, self._high, self._low = rows, high, low
        self.top = self.bottom = self.base = log(float(start[0])) - log(float(start[1]))
        rising = rows.rising
        self._limits = (
            rows.attractor(high) if rising else rows.attractor(low, high),
            rows.attractor(low) if rising else rows.attractor(high, low),
            rows.attractor(0.0) if rising else rows.attractor(0.0, 0.0),
        )

    @property
    def value(self) -> Pair:
        """The most that outputs add for a 0 over a 1, and for a 1 over a 0."""
        if not math.isfinite(self.base):
            return Pair(-math.inf, -math.inf)  # given the start, the record has one possible value
        return Pair(self.top - self.base, self.base - self.bottom)

    @property
    def beyond(self) -> Pair:
        """A bound on this value and all that follow.

        Each of the three ratios moves by one and the same map, rising where det ≥ 0: it then moves one way for ever,
        from where it is to its attractor. Where det < 0 this holds for every other step.
        """
        top, bottom, low, high = self.spans
        if low == high and not math.isfinite(low):
            return Pair(-math.inf, -math.inf)  # it stays impossible to have two values
        if not (math.isfinite(low) and math.isfinite(high)):
            return Pair(math.inf, math.inf)  # the second value is about to become possible, or impossible
        return Pair(top - low, high - bottom)

    @property
    def spans(self) -> tuple[float, float, float, float]:
        """From here on: the largest top, the smallest bottom, the smallest and the largest base."""
        now, then = (self.top, self.bottom, self.base), self._next()
        tops, bottoms, bases = (
            [v for v in values if v is not None] for values in zip(now, then, self._limits, strict=True)
        )
        return max(tops), min(bottoms), min(bases), max(bases)

    def _next(self) -> tuple[float, float, float]:
        rows = self._rows
        up, down = rows(self.top + self._high), rows(self.bottom + self._low)
        if not rows.rising:
            # A falling map turns the smallest into the largest.
            up, down = down, up
        return up, down, rows(self.base)

    def step(self) -> None:
        """One more hidden record."""
        self.top, self.bottom, self.base = self._next()


def log(x: float) -> float:
    """Log, with log 0 = -inf."""
    return math.log(x) if x > 0 else -math.inf


def log_add(a: float, ratio: float, b: float) -> float:
    """log(exp(a + ratio) + exp(b))."""
    if a == -math.inf or ratio == -math.inf:
        return b
    a += ratio
    if a < b:
        a, b = b, a
    return a if b == -math.inf or a == math.inf else a + math.log1p(math.exp(b - a))
