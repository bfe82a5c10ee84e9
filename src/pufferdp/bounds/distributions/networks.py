"""The distribution of a sum over the records of a network given the value of one, along its junction tree.

Every table gets one more axis, the sum over all records that were summed out so far. A record adds its step when it is
summed out, so each adds it once. Only products and sums of positive numbers: no accuracy is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.distributions.base import (
    UNIT,
    AnswerDistributions,
    Cell,
    GroupDistributions,
    Logs,
    RecordDistributions,
    Steps,
    TableDistributions,
    log_sum,
    normal,
)
from pufferdp.models.base import RecordModel
from pufferdp.models.groups import Groups
from pufferdp.models.inference import Factor, JunctionTree, spread

_MOST_ENTRIES: Final = 2**23
"""A table with its sums has at most this many entries: 64 MiB."""
_MOST_WORK: Final = 10**10
"""Multiplications, about half a minute."""
_SMALLEST: Final = math.log(1e-290)
_MOST_GROUPED: Final = 5000
"""Records in groups whose sums are added one group after the other."""


class NetworkDistributions:
    """Sums of ``steps[record][state]`` over the records of a network."""

    def __init__(self, tree: JunctionTree, factors: Sequence[Factor], steps: Steps) -> None:
        self.tree, self.steps = tree, steps
        self.width = 1 + sum(int(s.max()) for s in steps)
        self.points = np.arange(self.width)
        # Each record is summed out once, over at most so many terms.
        self.error = (8 * len(steps) * (self.width + max(tree.sizes)) + 2000) * UNIT
        least = sum(float(np.log(f.table[f.table > 0].min())) for f in factors if (f.table > 0).any())
        if least < _SMALLEST:
            raise NotApplicableError("an outcome of the network is less likely than 1e-290, too little for doubles")
        self._given = tuple(factors)
        self._factors: list[list[Factor]] = [[] for _ in tree.sizes]
        for f in factors:
            if f.scope:
                self._factors[min(f.scope, key=tree.rank.__getitem__)].append(f)
        self._messages: dict[tuple[int, int], tuple[tuple[int, ...], Floats]] = {}
        self._refuse_large()

    def _refuse_large(self) -> None:
        """Costs, before any work: a clique's table times the sums that meet in it."""
        work = 0.0
        for v in self.tree.order:
            states = math.prod(self.tree.sizes[u] for u in self.tree.clique[v])
            if states * self.width > _MOST_ENTRIES:
                raise NotApplicableError(
                    f"the distribution of the answer needs a table of {states * self.width:,} entries around record "
                    f"{self.tree.names[v]!r}; the limit is {_MOST_ENTRIES:,}",
                    value=self.tree.names[v],
                )
            work += len(self.tree.around[v]) ** 2 * states * self.width**2
        if work > _MOST_WORK:
            raise NotApplicableError(
                f"the distribution of the answer needs {work:,.0f} products; the limit is {_MOST_WORK:,}"
            )

    def records(self) -> Iterator[RecordDistributions]:
        """The distributions given each possible value of each record."""
        for v in range(len(self.steps)):
            rows = self._record(v)
            possible = tuple(int(x) for x in np.flatnonzero(np.isfinite(rows).any(axis=1)))
            yield RecordDistributions(v, possible, normal(rows[list(possible)]))

    def event(self, cells: Sequence[Cell]) -> Logs | None:
        """The distributions given that one of these conditions holds."""
        row = np.logaddexp.reduce([self._total(cell) for cell in cells])
        return normal(row[None]) if np.isfinite(row).any() else None

    def _record(self, v: int) -> Logs:
        """Log P(record = state, sum): one row a state."""
        out = np.zeros((self.tree.sizes[v], self.width))
        table = self._bucket(v, None, (v,))
        for x, step in enumerate(self.steps[v]):
            out[x, step : step + table.shape[-1]] = table[x]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(out))

    def _total(self, cell: Cell) -> Logs:
        """Log P(sum, condition): once more through the tree, with the tables cut to what the condition allows."""
        masks = []
        for v, states in cell.items():
            mask = np.zeros(self.tree.sizes[v])
            mask[list(states)] = 1.0
            masks.append(Factor((v,), mask))
        rows = NetworkDistributions(self.tree, [*self._given, *masks], self.steps)._record(self.tree.order[-1])
        return log_sum(rows, axis=0)

    def _message(self, a: int, b: int) -> tuple[tuple[int, ...], Floats]:
        stack = [(a, b)]
        while stack:
            u, v = stack[-1]
            missing = [(w, u) for w in self.tree.around[u] if w != v and (w, u) not in self._messages]
            if (u, v) not in self._messages and missing:
                stack.extend(missing)
                continue
            if (u, v) not in self._messages:
                shared = tuple(sorted(set(self.tree.clique[u]) & set(self.tree.clique[v])))
                self._messages[u, v] = (shared, self._bucket(u, v, shared))
            stack.pop()
        return self._messages[a, b]

    def _bucket(self, u: int, to: int | None, keep: tuple[int, ...]) -> Floats:
        """Everything that meets in a bucket, all but ``keep`` summed out: axes as in ``keep``, then the sum."""
        scope = self.tree.clique[u]
        product = np.ones((*(1 for _ in scope), 1))
        for factor in self._factors[u]:
            product = product * spread(factor.scope, factor.table[..., None], scope)
        for w in self.tree.around[u]:
            if w != to:
                shared, table = self._message(w, u)
                product = _multiply(product, spread(shared, table, scope))
        left = list(scope)
        for v in [v for v in scope if v not in keep]:
            product = self._sum_out(product, left.index(v), v)
            left.remove(v)
        sizes = tuple(self.tree.sizes[v] for v in left)
        product = np.broadcast_to(product, (*sizes, product.shape[-1]))
        return np.transpose(product, [*(left.index(v) for v in keep), len(left)])

    def _sum_out(self, table: Floats, axis: int, v: int) -> Floats:
        """Sum a record out; each of its states moves the sum by its step."""
        steps = self.steps[v]
        if table.shape[axis] == 1 and len(steps) > 1:
            table = np.repeat(table, len(steps), axis=axis)
        moved = np.moveaxis(table, axis, 0)
        out = np.zeros((*moved.shape[1:-1], moved.shape[-1] + int(steps.max())))
        for x, step in enumerate(steps):
            out[..., step : step + moved.shape[-1]] += moved[x]
        return out


def _multiply(a: Floats, b: Floats) -> Floats:
    """Products of all but the last axis, convolution along the last."""
    if a.shape[-1] > b.shape[-1]:
        a, b = b, a
    shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    out = np.zeros((*shape, a.shape[-1] + b.shape[-1] - 1))
    for s in range(a.shape[-1]):
        out[..., s : s + b.shape[-1]] += a[..., s : s + 1] * b
    return out


@singledispatch
def sum_distributions(model: RecordModel, steps: Steps) -> AnswerDistributions:
    """The distributions of a sum of ``steps[record][state]``: along the graph of a model, or by its outcomes.

    A model for which there is a shorter way registers it here. Raises NotApplicableError where it takes too long.
    """
    if model.tree is not None and model.factors is not None:
        return NetworkDistributions(model.tree, model.factors, steps)
    rows, _ = model.outcomes()
    return TableDistributions(model, np.asarray(sum(step[rows[:, i]] for i, step in enumerate(steps))))


@sum_distributions.register
def _(model: Groups, steps: Steps) -> AnswerDistributions:
    if len(model.records) > _MOST_GROUPED:
        raise NotApplicableError(
            f"the distribution over {len(model.records):,} records takes too long; the limit is {_MOST_GROUPED:,}"
        )
    return GroupDistributions(model, int(steps[0][1] - steps[0][0]))
