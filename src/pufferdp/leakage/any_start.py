"""The records before a target when nothing is known of the start: the worst law of the first record, exactly.

Two states. Which outputs are worst does not depend on the start, because they push the ratio one way whatever it was.
For these the likelihood ratio is a quotient of two quadratics in t = P(X_1=0)/P(X_1=1), largest at an end or where the
derivative, again a quadratic, is zero.
"""

from __future__ import annotations

import math

import numpy as np

from pufferdp.leakage.moebius import Pair, Ratios, Rows
from pufferdp.models.markov import Matrix


class AnyStart:
    """Like :class:`pufferdp.leakage.moebius.Ratios`, for the worst start."""

    def __init__(self, transition: Matrix, high: float, low: float) -> None:
        self._P, rows = np.asarray(transition), Rows.of(transition.T)
        self._ends = [Ratios(rows, tuple(self._P[u]), high, low) for u in (0, 1)]
        # exp(high), exp(low) as weights of a 0 against a 1; how both are scaled does not matter.
        self._up, self._down = _weights(high), _weights(low)
        self._rising = rows.rising
        self._zero, self._one, self._bare, self._passed = np.eye(2), np.eye(2), np.eye(2), 0

    @property
    def value(self) -> Pair:
        """The most that outputs add for a 0 over a 1, and for a 1 over a 0."""
        return Pair(
            _largest(self._zero[:, 0], self._zero[:, 1], self._bare[:, 0], self._bare[:, 1]),
            _largest(self._one[:, 1], self._one[:, 0], self._bare[:, 1], self._bare[:, 0]),
        )

    @property
    def beyond(self) -> Pair:
        """The ratio from any start lies between those from the two certain ones; so does what the start says."""
        if self._passed == 0:
            return Pair(math.inf, math.inf)  # the ends are those after the first record
        now = self.value
        spans = [end.spans for end in self._ends]
        top, bottom = max(s[0] for s in spans), min(s[1] for s in spans)
        low, high = min(s[2] for s in spans), max(s[3] for s in spans)
        return now | Pair(top - low, high - bottom)

    def step(self) -> None:
        """One more hidden record, put before the others: what it does to the last ratio alternates if det P < 0."""
        up, down = self._up, self._down
        if not self._rising and self._passed % 2 == 0:
            up, down = down, up
        self._zero = _scaled(up[:, None] * (self._P @ self._zero))
        self._one = _scaled(down[:, None] * (self._P @ self._one))
        self._bare = self._P @ self._bare
        if self._passed:
            for end in self._ends:
                end.step()
        self._passed += 1


def _weights(ratio: float) -> Matrix:
    return np.array([1.0, math.exp(-ratio)]) if ratio >= 0 else np.array([math.exp(ratio), 1.0])


def _scaled(table: Matrix) -> Matrix:
    return np.asarray(table / table.max())


def _largest(g: Matrix, h: Matrix, p: Matrix, q: Matrix) -> float:
    """Log of the largest (m·g)(m·q)/((m·h)(m·p)) over laws m of the first record that leave both values possible."""
    # Quadratics in t, from the constant up.
    n = np.array([g[1] * q[1], g[0] * q[1] + g[1] * q[0], g[0] * q[0]])
    d = np.array([h[1] * p[1], h[0] * p[1] + h[1] * p[0], h[0] * p[0]])
    if not (n.any() and d.any()):
        return math.inf  # too small for doubles, and too far apart to matter
    slope = [n[2] * d[1] - n[1] * d[2], 2 * (n[2] * d[0] - n[0] * d[2]), n[1] * d[0] - n[0] * d[1]]
    values = []
    for t in np.roots(slope):
        if abs(t.imag) <= 1e-9 * abs(t) and t.real > 0:
            powers = t.real ** np.arange(3)
            values.append(float(n @ powers) / float(d @ powers))
    # Both ends are limits of starts: the lowest, and the highest, power that is there decides.
    for order in (slice(None), slice(None, None, -1)):
        lead = int(np.flatnonzero((n[order] > 0) | (d[order] > 0))[0])
        top, bottom = float(n[order][lead]), float(d[order][lead])
        values.append(top / bottom if bottom > 0 else math.inf)
    return math.log(max(values))
