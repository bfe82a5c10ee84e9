"""The closed form: bounds from the largest odds ratio, for every class, start and adversary (Birkhoff's contraction).

For a kernel P let Δ be the log of its largest odds ratio P(s,u)P(s',u') / (P(s,u')P(s',u)). If the log of a positive
function g varies by at most D, then log E[g | s, any known records] varies over s by at most

    C(Δ, D) = 4 artanh(tanh(Δ/4) tanh(D/4)).

Known records behind multiply numerator and normaliser by one common weight; two values and an odds ratio decide, and
the best weight gives the formula (Theorem 4). A side of a chain is the fixed point R = C(Δ, τ + R), and an algorithm
leaks at most τ + 2R: for small τ that is τ·e^{Δ/2}.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats, Mask
from pufferdp.basics.errors import ModelError
from pufferdp.bounds.inverse import LeakageBound
from pufferdp.bounds.tight import inputs

STEPS: Final = 8
"""Steps that are taken at once at most, where one step has zeros."""
PAIRWISE: Final = 16
"""States up to which every pair of values has a bound of its own; its cost grows with their fourth power."""
_LARGEST: Final = 700.0
"""Losses and log odds up to which products of their exponentials are doubles."""


def contraction(log_odds: npt.ArrayLike, variation: npt.ArrayLike) -> Floats:
    """C(Δ, D), rounded up: what is left of a variation D behind a kernel whose largest log odds ratio is Δ.

    >>> round(float(contraction(np.inf, 2.0)), 6), round(float(contraction(2.0, 3.0)), 6)
    (2.0, 1.209626)
    """
    a, b = np.asarray(log_odds, dtype=float) / 2, np.asarray(variation, dtype=float) / 2
    least = 2 * np.minimum(a, b)
    with np.errstate(divide="ignore"):
        # e^{C/2} − 1, with every term above 0: small losses keep their digits.
        growth = np.expm1(-a) * np.expm1(-b) / (np.exp(-a) + np.exp(-b))
    return np.where(least > _LARGEST, least, np.minimum(least, 2 * np.log1p(growth) * (1 + 1e-12)))


def largest_log_odds(tables: npt.ArrayLike) -> float:
    """Δ of a kernel, or the largest of several, (…, k, m); infinite where zeros differ.

    Rows and columns of zeros do not occur and do not count.

    >>> round(math.exp(largest_log_odds([[0.882, 0.118], [0.305, 0.695]])), 4)
    17.0322
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.asarray(tables, dtype=float))
        # The largest P(s,u)/P(s',u) over u, one row s at a time: all at once take 8 GB with a thousand states.
        ratios = (logs[..., s, None, :] - logs for s in range(logs.shape[-2]))
        top = np.stack([np.where(np.isnan(r), -np.inf, r).max(axis=-1) for r in ratios], axis=-2)
        return float(np.fmax(top + np.swapaxes(top, -1, -2), 0.0).max())


def side_bound(loss: float, log_odds: Sequence[float]) -> float:
    """R = (m − 1)τ + C(Δ_m, τ + R), solved, with the best m: the most that a side of any length adds.

    ``log_odds`` are Δ of 1, 2, … steps at once. With s = e^{(τ + R)/2} − 1, g = e^{mτ/2} − 1 and e = e^{−Δ/2} the
    equation is e·s² + (2e − g)·s = g(1 + e).
    """
    best = math.inf if loss > 0 else 0.0
    for steps, odds in enumerate(log_odds, start=1):
        variation = steps * loss + odds  # C(Δ, D) ≤ Δ
        if variation < _LARGEST:
            gain, rest = math.expm1(steps * loss / 2), math.exp(-odds / 2)
            linear = 2 * rest - gain
            root = math.sqrt(linear**2 + 4 * rest * gain * (1 + rest))
            growth = 2 * gain * (1 + rest) / (root + linear) if linear > 0 else (root - linear) / (2 * rest)
            variation = 2 * math.log1p(growth) * (1 + 1e-12)
        best = min(best, (steps - 1) * loss + float(contraction(odds, variation)))
    return best


def log_quotients(low: Floats, high: Floats) -> Floats:
    """The largest log P(s,u)/P(s,u') of each row s between two tables, (k, m, m); −∞ where P(s,u) is 0.

    Rows sum to 1: where one entry is as large as it may be, the others must be able to make up for it.
    """
    u, v = np.s_[:, :, None], np.s_[:, None, :]
    most, least = (1 - (table.sum(axis=1)[:, None, None] - table[u] - table[v]) for table in (low, high))
    numerator = np.maximum(np.minimum(high[u], most - low[v]), low[u])
    denominator = np.minimum(np.maximum(low[v], least - high[u]), high[v])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(numerator > 0, np.log(numerator) - np.log(denominator), -np.inf)
    return np.where(np.eye(low.shape[1], dtype=bool), 0.0, found)


def pair_odds(quotients: Sequence[Floats]) -> Floats:
    """The largest log odds ratio of rows x, x' and columns u, u', (k, k, m, m), of several kernels; 0 at least."""
    table = np.zeros(1)
    for each in quotients:
        with np.errstate(invalid="ignore"):  # an impossible numerator says nothing
            table = np.fmax(table, each[:, None] + each.swapaxes(1, 2)[None])
    return table


def pair_side(odds: Floats, loss: float | Floats, length: int | None, most: float) -> Floats:
    """What a side adds for each pair of values: D'(x,x') = max over u, u' of C(log κ, D(u,u') + τ).

    Short series are passed record by record. Otherwise ``most``, a bound for every pair, is lowered: a step turns
    bounds into bounds, and any table that a step does not raise is a bound, so that longer strides are tried too.
    """
    if length is not None and length <= 64:
        return np.asarray(_pair_sides(odds, [loss] * length)[-1])
    bound, stride = np.full(odds.shape[:2], most), 1.0
    np.fill_diagonal(bound, 0.0)
    for _ in range(100 if math.isfinite(most) else 0):
        lower = np.minimum(bound, _pair_step(odds, bound, loss))
        fall = bound - lower
        if float(fall.max()) * stride <= 1e-9 * most:
            return np.asarray(lower)
        ahead = np.maximum(lower - stride * fall, 0.0)
        holds = bool((_pair_step(odds, ahead, loss) <= ahead).all())
        bound, stride = (ahead, 2 * stride) if holds else (lower, max(1.0, stride / 2))
    return bound


def _pair_sides(odds: Floats, losses: Sequence[float | Floats] | Floats) -> Floats:
    """What the records before each one add for every pair of values, (n, k, k)."""
    out = np.zeros((len(losses), *odds.shape[:2]))
    for t in range(1, len(losses)):
        out[t] = _pair_step(odds, out[t - 1], losses[t - 1])
    return out


def _pair_step(odds: Floats, table: Floats, loss: float | Floats) -> Floats:
    """The bound of a side that is longer by one record."""
    moved = contraction(odds, table + loss * (1 - np.eye(len(table)))).max(axis=(2, 3))
    np.fill_diagonal(moved, 0.0)
    return np.asarray(moved)


@dataclass(frozen=True, eq=False)
class OddsCurve(LeakageBound):
    """An upper bound on the leakage of any algorithm with loss τ on every record, for any adversary."""

    log_odds: tuple[float, ...]
    """Δ of 1, 2, … steps at once: the largest of the class."""
    length: int | None
    """Records; None: without end."""
    pairs: Floats | None = None
    """The largest log odds ratio of each pair of rows and of columns, where there are few states."""

    @classmethod
    def of_chains(cls, transitions: Sequence[npt.ArrayLike], *, length: int | None = None) -> OddsCurve:
        """The worst of several chains, any start. Each is one table, or several that follow each other in turn."""
        chains = [inputs.kernels_of(transition) for transition in transitions]
        log_odds, pairs = [0.0] * STEPS, None
        for kernels in chains:
            products = kernels  # of some steps, from every phase
            for step in range(STEPS):
                log_odds[step] = max(log_odds[step], largest_log_odds(products))
                products = products @ np.roll(kernels, -step - 1, axis=0)
        if chains[0].shape[-1] <= PAIRWISE:
            pairs = pair_odds([log_quotients(kernel, kernel) for kernels in chains for kernel in kernels])
        return cls(tuple(log_odds), None if length is None else checks.length(length), pairs)

    @classmethod
    def of_box(cls, low: npt.ArrayLike, high: npt.ArrayLike, *, length: int | None = None) -> OddsCurve:
        """Every chain whose entries lie between two tables, any start; entries may change from step to step.

        >>> curve = OddsCurve.of_box([[0.2, 0.2], [0.2, 0.2]], [[0.8, 0.8], [0.8, 0.8]])
        >>> round(1 / curve.inverse(1.0), 6)
        3.961264
        """
        quotients = log_quotients(np.asarray(low, dtype=float), np.asarray(high, dtype=float))
        log_odds = 0.0
        for row, own in enumerate(quotients):
            others = np.delete(quotients, row, axis=0).swapaxes(1, 2)
            with np.errstate(invalid="ignore"):
                log_odds = float(np.fmax.reduce(own + others, axis=None, initial=log_odds))
        pairs = pair_odds([quotients]) if len(quotients) <= PAIRWISE else None
        return cls((log_odds,), None if length is None else checks.length(length), pairs)

    def _value(self, tau: float) -> float:
        group = math.inf if self.length is None else tau * (self.length - 1)
        side = min(side_bound(tau, self.log_odds), group)
        bound = tau + min(2 * side, group)
        if self.pairs is None:
            return bound
        after = pair_side(self.pairs, tau, self.length, side)
        before = pair_side(self.pairs.transpose(2, 3, 0, 1), tau, self.length, side)
        return min(bound, tau + float((after + before).max()))


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
    side = min(loss + side_bound(loss, curve.log_odds), total)
    return OddsSeries(np.array([side]), np.array([side]), np.array([total]))


def odds_series(curve: OddsCurve, losses: Floats) -> OddsSeries:
    """A series of records that spend these losses."""
    before, after = odds_side(losses, curve.log_odds), odds_side(losses[::-1], curve.log_odds)[::-1]
    backward, forward, total = losses + before, losses + after, losses + before + after
    if curve.pairs is not None and len(losses) * curve.pairs.size <= 10**6:  # some seconds
        left = _pair_sides(curve.pairs.transpose(2, 3, 0, 1), losses)
        right = _pair_sides(curve.pairs, losses[::-1])[::-1]
        backward = np.minimum(backward, losses + left.max(axis=(1, 2)))
        forward = np.minimum(forward, losses + right.max(axis=(1, 2)))
        total = np.minimum(total, losses + (left + right).max(axis=(1, 2)))
    most = curve(float(losses.max()))  # leakage grows with every loss
    return OddsSeries(*(np.minimum(part, most) for part in (backward, forward, total)))


def odds_side(losses: Floats, log_odds: Sequence[float]) -> Floats:
    """What the records before each one add: R_t = τ_{t−1} + … + τ_{t−m+1} + C(Δ_m, τ_{t−m} + R_{t−m}), the best m."""
    added = np.zeros(len(losses))
    for t in range(1, len(losses)):
        near = slice(max(t - len(log_odds), 0), t)
        spent, behind = losses[near][::-1], added[near][::-1]  # the nearest record first
        added[t] = (np.cumsum(spent) - spent + contraction(log_odds[: len(spent)], spent + behind)).min()
    return added


class TreeOdds(LeakageBound):
    """Records on a tree: networks and fields whose tables and records together form no cycle.

    A table of more than two records is passed like a pair: all records but one count as one, which spends what they
    spend together. Known records among them multiply the table's columns by common weights, as in Theorem 4.
    """

    def __init__(self, tables: Sequence[tuple[Any, ...]], nodes: Sequence[Hashable] = ()) -> None:
        """A tree from tables, each behind its records, one axis a record; ``nodes`` are records that have no table.

        A table of one record says with zeros which of its values never occur.
        """
        self.records: list[Hashable] = list(dict.fromkeys([*nodes, *(v for *scope, _ in tables for v in scope)]))
        self._scopes: list[tuple[Hashable, ...]] = [tuple(scope) for *scope, _ in tables]
        self._order = self._from_roots()
        self._odds = self._log_odds([np.array(table, dtype=float) for *_, table in tables])

    def _from_roots(self) -> list[tuple[int, Hashable, list[Hashable]]]:
        """Tables from the roots on: each with the record it is reached from, and those it leads to."""
        tables_at: dict[Hashable, list[int]] = {node: [] for node in self.records}
        for i, scope in enumerate(self._scopes):
            for node in scope:
                tables_at[node].append(i)
        order: list[tuple[int, Hashable, list[Hashable]]] = []
        seen, passed = set[Hashable](), set[int]()
        for root in self.records:
            reached = [] if root in seen else [root]
            seen.update(reached)
            for node in reached:  # grows meanwhile
                for i in [i for i in tables_at[node] if i not in passed]:
                    children = [v for v in self._scopes[i] if v != node]
                    if not seen.isdisjoint(children):
                        raise ModelError(f"a record of {self._scopes[i]} lies on a cycle; the closed form needs a tree")
                    seen.update(children)
                    passed.add(i)
                    order.append((i, node, children))
                    reached += children
        return order

    def _log_odds(self, weights: list[Floats]) -> list[dict[Hashable, float]]:
        """Δ between each record of a table and all others of it, over the values that occur together with all tables.

        On a tree values that have a partner in every table occur: from the leaves to the roots, then back.
        """
        passes = [i for i, _, _ in self._order]
        possible: dict[Hashable, Mask] = {}
        for i in [*reversed(passes), *passes]:
            for axis, node in enumerate(self._scopes[i]):
                if node in possible:
                    np.moveaxis(weights[i], axis, 0)[~possible[node]] = 0.0
            for axis, node in enumerate(self._scopes[i]):
                possible[node] = np.any(_flat(weights[i], axis) > 0, axis=1)
        return [
            {node: largest_log_odds(_flat(weights[i], axis)) for axis, node in enumerate(scope)}
            for i, scope in enumerate(self._scopes)
        ]

    def of_losses(self, losses: Mapping[Hashable, float]) -> dict[Hashable, float]:
        """A bound for each record from the losses of all: from the leaves to the roots and back."""
        behind: dict[Hashable, float] = dict.fromkeys(self.records, 0.0)
        up: dict[int, float] = {}
        for i, parent, children in reversed(self._order):
            varies = sum(losses[v] + behind[v] for v in children)
            up[i] = float(contraction(self._odds[i][parent], varies))
            behind[parent] += up[i]
        below = dict(behind)
        for i, parent, children in self._order:
            above = losses[parent] + behind[parent] - up[i]
            for child in children:
                others = sum(losses[v] + below[v] for v in children if v != child)
                behind[child] += float(contraction(self._odds[i][child], above + others))
        return {node: losses[node] + behind[node] for node in self.records}

    def _value(self, tau: float) -> float:
        return max(self.of_losses(dict.fromkeys(self.records, tau)).values(), default=0.0)


def _flat(table: Floats, axis: int) -> Floats:
    """A table with one row for each value of one record."""
    return np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1)
