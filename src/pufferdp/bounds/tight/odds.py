"""The closed form: bounds from the largest odds ratio, for every class, start and adversary (Birkhoff's contraction).

For a kernel P let Δ be the log of its largest odds ratio P(s,u)P(s',u') / (P(s,u')P(s',u)). If the log of a positive
function g varies by at most D, then log E[g | s, whatever else is known] varies over s by at most

    C(Δ, D) = 4 artanh(tanh(Δ/4) tanh(D/4)).

What is known of the records behind multiplies numerator and normaliser by one common weight; two values and an odds
ratio decide, and the best weight gives the formula (Theorem 4). A side of a chain is the fixed point R = C(Δ, τ + R),
and an algorithm leaks at most τ + 2R: for small τ that is τ·e^{Δ/2}.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats, Mask, distinct
from pufferdp.basics.errors import ModelError, ParameterError
from pufferdp.bounds.inverse import largest_loss
from pufferdp.bounds.tight import inputs

STEPS: Final = 8
"""Steps that are taken at once at most, where one step has zeros."""
PAIRWISE: Final = 16
"""States up to which every pair of values has a bound of its own."""
_ROUNDS: Final = 200
_FEW: Final = 64
"""Records on a side up to which they are passed one by one."""
SLACK: Final = 1e-12
_LARGEST_LOG: Final = 1000.0
"""Losses and log odds up to which quotients are numbers."""
_SMALL: Final = 0.5
"""Below it the closed form loses no digits."""
_PAIRED: Final = 1_000_000
"""Records times entries of a table of pairs up to which every pair of values has a bound of its own."""


def contraction(log_odds: npt.ArrayLike, variation: npt.ArrayLike) -> Floats:
    """C(Δ, D): what is left of a variation D behind a kernel whose largest log odds ratio is Δ.

    >>> round(float(contraction(np.inf, 2.0)), 6), round(float(contraction(2.0, 3.0)), 6)
    (2.0, 1.209626)
    """
    a, b = np.broadcast_arrays(np.asarray(log_odds, dtype=float), np.asarray(variation, dtype=float))
    product = np.tanh(a / 4) * np.tanh(b / 4)
    least = np.minimum(a, b)
    with np.errstate(invalid="ignore"):
        apart = np.where(np.isinf(a) | np.isinf(b), np.inf, np.abs(a - b))
        # Both forms are one: each is used where it loses no digits.
        large = least + 2 * (np.log1p(np.exp(-(a + b) / 2)) - np.log1p(np.exp(-apart / 2)))
        small = 4 * np.arctanh(np.minimum(product, 0.9))
    return np.asarray(np.where(product < _SMALL, small, np.where(np.isinf(least), np.inf, np.minimum(large, least))))


def contracted(odds: float, variation: float) -> float:
    """C(Δ, D) of two numbers: thirty times as fast as of arrays with one entry."""
    product = math.tanh(odds / 4) * math.tanh(variation / 4)
    if product < _SMALL:
        return 4 * math.atanh(product)
    if math.isinf(odds) or math.isinf(variation):
        return min(odds, variation)
    far, near = (odds + variation) / 2, abs(odds - variation) / 2
    least = min(odds, variation)
    return min(least, least + 2 * (math.log1p(math.exp(-far)) - math.log1p(math.exp(-near))))


_MOST_RATIOS: Final = 1 << 23
"""Ratios of a table that are held at a time."""


def largest_log_odds(table: npt.ArrayLike) -> float:
    """Δ of a kernel, or of any table of a pair: the same whichever of the two is given. Infinite where zeros differ.

    Rows and columns of zeros do not occur and are left out.

    >>> round(math.exp(largest_log_odds([[0.882, 0.118], [0.305, 0.695]])), 4)
    17.0322
    """
    found = np.asarray(table, dtype=float)
    found = found[found.any(axis=1)][:, found.any(axis=0)]
    if found.size == 0 or min(found.shape) < 2:
        return 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        logs, top = np.log(found), np.empty((len(found), len(found)))
        some = max(1, _MOST_RATIOS // found.size)  # rows at a time: with a thousand states all of them are 8 GB
        for at in range(0, len(found), some):
            ratios = logs[at : at + some, None, :] - logs[None, :, :]  # (s, s', u)
            top[at : at + some] = np.nanmax(np.where(np.isnan(ratios), -np.inf, ratios), axis=2)
    most = top + top.T
    return float(most.max())


def small_loss_factor(log_odds: float) -> float:
    """Correlation multiplies a small epsilon by at most this: the square root of the largest odds ratio."""
    return math.exp(log_odds / 2) if log_odds < 1400 else math.inf


def side_bound(loss: float, log_odds: float, steps: int = 1) -> float:
    """R = (m − 1)τ + C(Δ_m, τ + R), solved: what a side of any length adds where Δ_m is that of m steps at once."""
    if loss == 0:
        return 0.0
    if math.isinf(log_odds):
        return math.inf
    total = steps * loss
    kept = math.tanh(log_odds / 4)
    lost = 2 / (math.exp(min(log_odds / 2, 700.0)) + 1)  # 1 − kept
    spent = math.tanh(total / 4)
    root = math.sqrt(lost * lost + 4 * kept * spent * spent)
    share = min(2 * spent / (lost + root), 1 - 2.0**-53)
    # u = τ + R satisfies u = mτ + C(Δ, u). Whatever a step does not raise bounds every side.
    reached = max(4 * math.atanh(share), total)
    for _ in range(_ROUNDS):
        above = reached * (1 + SLACK)
        if total + contracted(log_odds, above) <= above:
            return above - loss
        reached = total + contracted(log_odds, reached * (1 + 1e3 * SLACK))
    return total + log_odds - loss


def closed_side(kernel: Floats, loss: float, records: float, doublings: int) -> float:
    """What a side of so many records adds at most: group privacy, or one step, two, four … at once."""
    bounds = [loss * records]
    for doubled in range(doublings):
        bounds.append(side_bound(loss, largest_log_odds(kernel), 1 << doubled))
        kernel = kernel @ kernel
    return min(bounds) * (1 + 1e-12)


@dataclass(frozen=True, eq=False)
class OddsCurve:
    """An upper bound on the leakage of any algorithm with loss τ on every record, for any adversary."""

    log_odds: tuple[float, ...]
    """Δ of 1, 2, … steps at once: the largest of the class."""
    length: int | None
    """Records; None: without end."""
    pairs: PairOdds | None = None
    """Bounds pair by pair, where the kernels of the class are known so well."""

    @classmethod
    def of_chains(
        cls, transitions: Sequence[npt.ArrayLike], *, length: int | None = None, steps: int = STEPS
    ) -> OddsCurve:
        """The worst of several chains, any start. Each is one table, or several that follow each other in turn."""
        if not len(transitions):
            raise ParameterError("the class has no chain; give one or more", value=transitions)
        kernels = [inputs.kernels_of(one) for one in transitions]
        log_odds = tuple(max(each) for each in zip(*(_of_steps(one, steps) for one in kernels), strict=True))
        pairs = None
        if all(one.shape[-1] <= PAIRWISE for one in kernels):
            logs = [log_quotients(kernel) for one in kernels for kernel in distinct(one, axis=0)]
            pairs = PairOdds.of(logs) if len({one.shape for one in logs}) == 1 else None
        return cls(log_odds, _length(length), pairs)

    @classmethod
    def of_box(cls, low: npt.ArrayLike, high: npt.ArrayLike, *, length: int | None = None) -> OddsCurve:
        """Every chain whose entries lie between two tables, any start; entries may change from step to step.

        >>> curve = OddsCurve.of_box([[0.2, 0.2], [0.2, 0.2]], [[0.8, 0.8], [0.8, 0.8]])
        >>> round(1 / curve.inverse(1.0), 6)
        3.961264
        """
        quotients = _box_quotients(*_box(low, high))
        pairs = PairOdds.of([quotients]) if len(quotients) <= PAIRWISE else None
        return cls((_largest_of(quotients),), _length(length), pairs)

    @classmethod
    def of_binary_interval(cls, low: float, high: float, *, length: int | None = None) -> OddsCurve:
        """Two states that stay with any probability between low and high, any start."""
        if not 0 <= low <= high <= 1:
            raise ModelError(f"low is {low:g} and high is {high:g}; it must be 0 ≤ low ≤ high ≤ 1", value=(low, high))
        return cls.of_box([[low, 1 - high], [1 - high, low]], [[high, 1 - low], [1 - low, high]], length=length)

    @property
    def factor(self) -> float:
        """A small epsilon is multiplied by no more than this."""
        return small_loss_factor(self.log_odds[0])

    def __call__(self, loss: float) -> float:
        """No algorithm with this DP loss leaks more."""
        tau = inputs.loss(loss)
        if tau == 0:
            return 0.0
        group = math.inf if self.length is None else tau * self.length
        sides = min(side_bound(tau, odds, m) for m, odds in enumerate(self.log_odds, start=1))
        bound = min(group, tau + 2 * sides)
        return bound if self.pairs is None else min(bound, tau + self.pairs.both_sides(tau, self.length, sides))

    def inverse(self, epsilon: float) -> float:
        """The largest loss whose bound is at most ``epsilon``; 0 where there is none."""
        return largest_loss(self, inputs.target(epsilon))


@dataclass(frozen=True, eq=False)
class PairOdds:
    """Log odds ratios κ of rows x, x' and columns u, u', at most: (k, k, k, k), and for columns turned round."""

    after: Floats
    before: Floats

    @classmethod
    def of(cls, quotients: Sequence[Floats]) -> PairOdds:
        """From the largest log P(s,u)/P(s,u') of each row s, (k, k, k), for several kernels."""
        after = np.full((1, 1, 1, 1), -np.inf)
        for one in quotients:
            with np.errstate(invalid="ignore"):
                # P(x,u)/P(x,u') · P(x',u')/P(x',u); an impossible numerator says nothing.
                table = one[:, None] + one.swapaxes(1, 2)[None]
                after = np.maximum(after, np.where(np.isnan(table), -np.inf, table))
        return cls(after, after.transpose(2, 3, 0, 1))

    def both_sides(self, loss: float, length: int | None, most: float) -> float:
        """The most that both sides add, over all pairs of values; ``most`` is a bound on either for every pair."""
        sides = self.side(self.after, loss, length, most) + self.side(self.before, loss, length, most)
        np.fill_diagonal(sides, 0.0)
        return float(sides.max())

    @staticmethod
    def side(odds: Floats, loss: float | Floats, length: int | None, most: float) -> Floats:
        """D'(x,x') = max over u, u' of C(log κ, D(u,u') + τ), or a loss for each pair (u, u').

        Record by record where they are few. Otherwise from above: a step turns bounds into bounds, and whatever a
        step does not raise bounds every side, so that guesses far ahead can be tried as well.
        """
        k = len(odds)
        room, possible = loss * (1 - np.eye(k)), np.maximum(odds, 0.0)
        halves = np.tanh(possible / 4)

        def step(table: Floats) -> Floats:
            product = (halves * np.tanh((table + room) / 4)).max(axis=(2, 3))
            if product.max() < _SMALL:  # the same number, at a third of the cost
                moved = 4 * np.arctanh(product)
            else:
                moved = contraction(possible, table + room).max(axis=(2, 3))
            np.fill_diagonal(moved, 0.0)
            return np.asarray(moved) * (1 + SLACK)

        if length is not None and length - 1 <= _FEW:
            bound = np.zeros((k, k))
            for _ in range(length - 1):
                bound = step(bound)
            return bound
        bound, before = most * (1 - np.eye(k)) if math.isfinite(most) else np.where(np.eye(k) > 0, 0.0, most), math.inf
        for _ in range(_ROUNDS):
            new = np.minimum(bound, step(bound))
            finite = np.isfinite(bound)
            fell = np.where(finite, bound, 0.0) - np.where(finite, new, 0.0)
            change = float(fell.max())
            if np.array_equal(np.isfinite(new), finite) and change <= 1e-13 * float(np.where(finite, new, 0.0).max()):
                return new
            if change < before < math.inf:  # as many steps at once as would be left if all were alike
                ahead = np.maximum(new - fell * (change / (before - change)), 0.0)
                if (step(ahead) <= ahead).all():
                    new, change = ahead, math.inf
            bound, before = new, change
        return bound


def _length(value: int | None) -> int | None:
    return None if value is None else checks.length(value)


def _of_steps(kernels: Floats, most: int) -> list[float]:
    """Δ of 1, 2, … steps at once, from the worst phase. Phases before which the same kernels lie are looked at once."""
    phases = len(kernels)
    _, which = np.unique(kernels.reshape(phases, -1), axis=0, return_inverse=True)
    ahead = np.stack([np.roll(which.ravel(), -d) for d in range(most)], axis=1)
    first = np.unique(ahead, axis=0, return_index=True)[1]
    products, out = kernels[first], []
    for d in range(1, most + 1):
        out.append(max(_largest_log_odds_of(part) for part in np.array_split(products, _parts(products))))
        products = products @ kernels[(first + d) % phases]
    return out


def _parts(products: Floats) -> int:
    """In how many parts the quotients of all entries fit into a few tens of megabytes."""
    return int(min(len(products), 1 + products.size * products.shape[-1] // 2**22))


def _largest_log_odds_of(kernels: Floats) -> float:
    """The largest Δ of several kernels. A column of zeros makes no quotients."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(kernels)
        ratios = logs[:, :, None, :] - logs[:, None, :, :]
    top = np.where(np.isnan(ratios), -np.inf, ratios).max(axis=3)
    return float((top + np.swapaxes(top, 1, 2)).max())


def log_quotients(kernel: Floats) -> Floats:
    """Log P(s,u)/P(s,u') of one kernel; −∞ where the numerator is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(kernel)
        found = logs[:, :, None] - logs[:, None, :]
    return np.where(np.isneginf(logs)[:, :, None], -np.inf, found)


def _box(low: npt.ArrayLike, high: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Two tables between which rows of probabilities lie."""
    try:
        least, most = (np.array(part, dtype=float) for part in (low, high))
    except (TypeError, ValueError):
        raise ModelError(
            "low and high must be tables of numbers, every row of the same length", value=(low, high)
        ) from None
    if least.ndim != 2 or least.shape[0] != least.shape[1] or least.shape != most.shape:
        raise ModelError(f"low is {least.shape} and high is {most.shape}; both must be one square", value=(low, high))
    bad = np.argwhere(~((least >= 0) & (least <= most) & (most <= 1)))
    if len(bad):
        x, y = (int(v) for v in bad[0])
        raise ModelError(
            f"entry {y + 1} of row {x + 1} is {least[x, y]:g} to {most[x, y]:g}; it must be 0 ≤ low ≤ high ≤ 1"
        )
    for x in range(len(least)):
        if least[x].sum() > 1 + inputs.ROW_TOLERANCE or most[x].sum() < 1 - inputs.ROW_TOLERANCE:
            raise ModelError(
                f"row {x + 1} sums to between {least[x].sum():.6g} and {most[x].sum():.6g}; 1 must lie between"
            )
    return least, most


def _box_quotients(low: Floats, high: Floats) -> Floats:
    """The largest log a/b over rows in the box, a = P(s,u) and b = P(s,u'): rows sum to 1, and the rest has room."""
    k = len(low)
    out = np.zeros((k, k, k))
    for s in range(k):
        for u in range(k):
            for v in range(k):
                if u != v:
                    out[s, u, v] = _largest_quotient(low[s], high[s], u, v)
    return out


def _largest_quotient(low: Floats, high: Floats, u: int, v: int) -> float:
    most = 1 - (low.sum() - low[u] - low[v])
    least = 1 - (high.sum() - high[u] - high[v])
    a, b = high[u], low[v]
    if a + b > most:  # the others need their share
        a = max(most - b, low[u])
    elif a + b < least:  # the others cannot take so much
        b = min(least - a, high[v])
    if a <= 0:
        return -math.inf
    return math.log(a / b) if b > 0 else math.inf


def _largest_of(quotients: Floats) -> float:
    """Δ from the largest quotients of rows."""
    k = len(quotients)
    found = [
        quotients[s, u, v] + quotients[r, v, u]
        for s in range(k)
        for r in range(k)
        for u in range(k)
        for v in range(k)
        if s != r and u != v
    ]
    return float(max((value for value in found if not math.isnan(value)), default=0.0))


def odds_of_losses(log_odds: float | npt.ArrayLike, losses: npt.ArrayLike) -> Floats:
    """A bound for each record of a chain whose records have losses of their own: one pass from either end.

    Args:
        log_odds: Δ of every step, or one for each step between two records.
        losses: one a record.
    """
    spent = inputs.losses(losses)
    steps = np.broadcast_to(np.asarray(log_odds, dtype=float), (max(len(spent) - 1, 0),))
    _check_log_odds(steps)
    before, after = odds_sides(spent, steps)
    return np.asarray(spent + before + after)


def odds_sides(losses: Floats, log_odds: Floats) -> tuple[Floats, Floats]:
    """What the records before each one add, and those after it: Δ of each step is given."""
    return _passed(losses, log_odds), _passed(losses[::-1], log_odds[::-1])[::-1]


def _check_log_odds(values: Floats) -> None:
    bad = np.flatnonzero(~(values >= 0))
    if len(bad):
        raise ParameterError(f"log_odds has {float(values[bad[0]]):g}; the log of a largest odds ratio is 0 or more")


def _passed(losses: Floats, steps: Floats) -> Floats:
    """What the records before each one add: D_t = τ_t + C(Δ, D_{t−1})."""
    if float(np.max(steps, initial=0.0)) + float(np.max(losses, initial=0.0)) < _LARGEST_LOG:
        return _passed_in_quotients(losses, steps)
    out, added = [0.0], 0.0
    for loss, odds in zip(losses.tolist(), steps.tolist(), strict=False):
        added = contracted(odds, loss + added) * (1 + SLACK)
        out.append(added)
    return np.array(out[: len(losses)])


def _passed_in_quotients(losses: Floats, steps: Floats) -> Floats:
    """The same: with v = e^{C/2}, w = e^{D/2} and e = e^{−Δ/2} the contraction is v = (w + e)/(1 + e·w).

    What is followed is v − 1 = (w − 1)(1 − e)/(1 + e + e·(w − 1)) and w − 1: sums of what is not negative, so that
    small losses keep their digits.
    """
    many = min(len(losses), len(steps))
    gains, grows = np.exp(losses[:many] / 2).tolist(), np.expm1(losses[:many] / 2).tolist()
    odds, kept = np.exp(-steps[:many] / 2).tolist(), (-np.expm1(-steps[:many] / 2) * (1 + SLACK)).tolist()
    out, more = [0.0], 0.0
    for gain, grow, less, share in zip(gains, grows, odds, kept, strict=True):
        more = more * gain + grow
        more = more * share / (1.0 + less + less * more)
        out.append(more)
    return np.asarray(2 * np.log1p(out[: len(losses)]) * (1 + SLACK))


@dataclass(frozen=True, eq=False)
class OddsSeries:
    """Upper bounds for any start and any adversary, record by record; one number each where a series has no end."""

    backward: Floats
    """The record's loss and the side before it."""
    forward: Floats
    total: Floats


def odds_forever(curve: OddsCurve, loss: float) -> OddsSeries:
    """A series without end, all of whose records spend the same: the largest at any record."""
    total = curve(loss)
    side = loss + min(side_bound(loss, odds, m) for m, odds in enumerate(curve.log_odds, start=1))
    side = min(side, total) if loss > 0 else 0.0
    return OddsSeries(np.array([side]), np.array([side]), np.array([total]))


def odds_series(curve: OddsCurve, losses: Floats) -> OddsSeries:
    """A series of records that spend these losses."""
    before, after = _losses_side(curve.log_odds, losses), _losses_side(curve.log_odds, losses[::-1])[::-1]
    backward, forward, total = losses + before, losses + after, losses + before + after
    pairs = curve.pairs
    if pairs is not None and len(losses) * pairs.after.size <= _PAIRED:
        left, right = _pair_sides(pairs.before, losses), _pair_sides(pairs.after, losses[::-1])[::-1]
        backward = np.minimum(backward, losses + left.max(axis=(1, 2)))
        forward = np.minimum(forward, losses + right.max(axis=(1, 2)))
        total = np.minimum(total, losses + (left + right).max(axis=(1, 2)))
    most = curve(float(losses.max()))  # leakage grows with every loss
    return OddsSeries(*(np.minimum(part, most) for part in (backward, forward, total)))


def _losses_side(log_odds: tuple[float, ...], losses: Floats) -> Floats:
    """What the records before each one add: R_t = τ_{t−1} + … + τ_{t−m+1} + C(Δ_m, τ_{t−m} + R_{t−m}), the best m."""
    spent, added, group = losses.tolist(), [0.0], 0.0
    finite = [(m, odds) for m, odds in enumerate(log_odds, start=1) if math.isfinite(odds)]
    for t in range(1, len(spent)):
        group += spent[t - 1]
        least, near, passed = group, 0.0, 1
        for m, odds in finite:
            if m > t:
                break
            while passed < m:
                near += spent[t - passed]
                passed += 1
            if near >= least:
                break
            least = min(least, near + contracted(odds, spent[t - m] + added[t - m]) * (1 + SLACK))
        added.append(least)
    return np.array(added)


def _pair_sides(odds: Floats, losses: Floats) -> Floats:
    """The same for every pair of values, (n, k, k): D'(x,x') = max over u, u' of C(log κ, D(u,u') + τ)."""
    k, n = len(odds), len(losses)
    out, now, positive = np.zeros((n, k, k)), np.zeros((k, k)), np.maximum(odds, 0.0)
    apart = 1 - np.eye(k)
    for t in range(1, n):
        now = contraction(positive, now + losses[t - 1] * apart).max(axis=(2, 3)) * (1 + SLACK)
        np.fill_diagonal(now, 0.0)
        out[t] = now
    return out


class TreeOdds:
    """Records on a tree: networks and fields whose tables and records together form no cycle.

    A table of more than two records is passed like a pair: all records but one count as one, which spends what they
    spend together. What is known of them multiplies the table's columns by common weights, as in Theorem 4.
    """

    def __init__(self, tables: Sequence[tuple[Any, ...]], nodes: Sequence[Hashable] = ()) -> None:
        """A tree from its tables.

        Args:
            tables: some records and a table of them, one axis a record: their law, a kernel or weights. A table of one
                record says with zeros which of its values never occur.
            nodes: records that have no table.
        """
        self.records: list[Hashable] = list(dict.fromkeys([*nodes, *(v for *scope, _ in tables for v in scope)]))
        self._scopes: list[tuple[Hashable, ...]] = [tuple(scope) for *scope, _ in tables]
        weights = [np.asarray(table, dtype=float) for *_, table in tables]
        for scope, table in zip(self._scopes, weights, strict=True):
            if table.ndim != len(scope):
                names = ", ".join(repr(v) for v in scope)
                raise ModelError(
                    f"the table of {names} has {table.ndim} axes; it needs one for each record", value=scope
                )
        self._order = self._checked()
        self._odds = self._log_odds(weights)

    def _checked(self) -> list[tuple[int, Hashable, list[Hashable]]]:
        """Tables from the roots on: each with the record it is reached from, and those it leads to."""
        at: dict[Hashable, list[int]] = {node: [] for node in self.records}
        for i, scope in enumerate(self._scopes):
            if len(set(scope)) < len(scope):
                raise ModelError("a table has the same record twice; give each once", value=scope)
            for node in scope:
                at[node].append(i)
        order: list[tuple[int, Hashable, list[Hashable]]] = []
        seen: set[Hashable] = set()
        for root in self.records:
            waiting = [] if root in seen else [(root, -1)]
            seen.add(root)
            while waiting:
                node, above = waiting.pop()
                for i in at[node]:
                    if i == above:
                        continue
                    children = [v for v in self._scopes[i] if v != node]
                    again = [v for v in children if v in seen]
                    if again:
                        raise ModelError(
                            f"record {again[0]!r} lies on a cycle, or a pair has two tables; the closed form is for "
                            "trees, with one table for correlated records",
                            value=again[0],
                        )
                    seen.update(children)
                    order.append((i, node, children))
                    waiting += [(v, i) for v in children]
        return order

    def _log_odds(self, weights: list[Floats]) -> list[dict[Hashable, float]]:
        """Δ between each record of a table and all others of it, over the values that occur together with all tables.

        On a tree values that have a partner in every table occur: from the leaves to the roots, then back.
        """
        passes = [i for i, _, _ in self._order]
        possible: dict[Hashable, Mask] = {}
        for i in [*reversed(passes), *passes]:
            scope, table = self._scopes[i], weights[i]
            for axis, node in enumerate(scope):
                kept = possible.setdefault(node, np.ones(table.shape[axis], dtype=bool))
                if len(kept) != table.shape[axis]:
                    raise ModelError(
                        f"record {node!r} has {len(kept)} values in one table and {table.shape[axis]} in another",
                        value=node,
                    )
                table = table * kept.reshape([-1 if a == axis else 1 for a in range(table.ndim)])
            weights[i] = table
            for axis, node in enumerate(scope):
                possible[node] = possible[node] & (np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1) > 0).any(
                    axis=1
                )
        return [
            {
                node: largest_log_odds(np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1))
                for axis, node in enumerate(scope)
            }
            for scope, table in zip(self._scopes, weights, strict=True)
        ]

    def of_losses(self, losses: dict[Hashable, float] | float) -> dict[Hashable, float]:
        """A bound for each record; losses by record, or one for all."""
        spent = self._losses(losses)
        # From the leaves to the roots and back: what lies behind each table, seen from each of its records.
        behind: dict[Hashable, float] = dict.fromkeys(self.records, 0.0)
        up: dict[int, float] = {}
        for i, parent, children in reversed(self._order):
            varies = sum(spent[v] + behind[v] for v in children)
            up[i] = contracted(self._odds[i][parent], varies) * (1 + SLACK)
            behind[parent] += up[i]
        below = dict(behind)
        for i, parent, children in self._order:
            above = spent[parent] + behind[parent] - up[i]
            for child in children:
                others = sum(spent[v] + below[v] for v in children if v != child)
                behind[child] += contracted(self._odds[i][child], above + others) * (1 + SLACK)
        return {node: spent[node] + behind[node] for node in self.records}

    def _losses(self, losses: dict[Hashable, float] | float) -> dict[Hashable, float]:
        if not isinstance(losses, dict):
            return dict.fromkeys(self.records, inputs.loss(losses))
        if set(losses) != set(self.records):
            odd = next(iter(set(losses) ^ set(self.records)))
            raise ParameterError(f"losses and records do not agree on {odd!r}; give one loss per record", value=odd)
        return {node: inputs.loss(value, f"the loss of {node!r}") for node, value in losses.items()}

    def __call__(self, loss: float) -> float:
        """No algorithm with this DP loss on every record leaks more about any of them."""
        return max(self.of_losses(loss).values(), default=0.0)

    def inverse(self, epsilon: float) -> float:
        """The largest loss whose bound is at most ``epsilon``."""
        return largest_loss(self, inputs.target(epsilon))
