"""Exact inference on a product of tables: variable elimination along a tree that is compiled once.

Every record is eliminated once, in an order that adds few links (min-fill); its bucket holds the tables that meet it
first. Messages between neighbouring buckets are kept (Shafer & Shenoy 1990: products and sums only, so no accuracy is
lost to a division or a difference). A question about a few records then costs what the part of the tree between them
costs, however large the network is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import NotApplicableError
from pufferdp.basics.words import whole_number

MOST_ENTRIES: Final = 2**23
"""No table of the elimination may have more entries: 64 MiB."""
MOST_PARENTS: Final = 63
"""Arrays have at most 64 axes, and one of a table's axes is the record's own."""
_SMALLEST: Final = 1e-290
"""Products below this could underflow, and a possible value would look impossible."""


@dataclass(frozen=True, eq=False)
class Factor:
    """A table over some records: one axis each, in the order of ``scope``."""

    scope: tuple[int, ...]
    table: Floats


def neighbours(count: int, factors: Iterable[Factor]) -> list[set[int]]:
    """The moral graph: records that share a table are linked."""
    links: list[set[int]] = [set() for _ in range(count)]
    for factor in factors:
        for v in factor.scope:
            links[v].update(factor.scope)
    for v, others in enumerate(links):
        others.discard(v)
    return links


def connected(links: Sequence[Collection[int]], within: Collection[int] | None = None) -> list[tuple[int, ...]]:
    """Connected components of a graph, or of a part of it, each sorted."""
    left = set(range(len(links)) if within is None else within)
    out = []
    while left:
        component, stack = set(), [min(left)]
        while stack:
            v = stack.pop()
            if v not in component:
                component.add(v)
                stack.extend(w for w in links[v] if w in left and w not in component)
        left -= component
        out.append(tuple(sorted(component)))
    return out


class JunctionTree:
    """The compiled tree of one network."""

    def __init__(self, sizes: Sequence[int], factors: Sequence[Factor], names: Sequence[str]) -> None:
        self.sizes, self.names = tuple(sizes), tuple(names)
        self.links = neighbours(len(sizes), factors)
        self._compile()
        self._tables: list[list[Factor]] = [[] for _ in sizes]
        self._constant = 1.0
        for factor in factors:
            if factor.scope:
                self._tables[min(factor.scope, key=self.rank.__getitem__)].append(factor)
            else:
                self._constant *= float(factor.table)
        self._messages: dict[tuple[int, int], Factor] = {}
        self.work = 0
        """Entries computed so far: what a question cost, the same on every machine."""

    def _compile(self) -> None:
        """Order, buckets and the tree between them."""
        links = [set(others) for others in self.links]
        alive = set(range(len(links)))
        fill = {v: _fill(links, v) for v in alive}
        self.order: list[int] = []
        self.clique: dict[int, tuple[int, ...]] = {}
        while alive:
            v = min(alive, key=lambda u: (fill[u], self._states((u, *links[u])), u))
            around = links[v]
            self._refuse_large((v, *around), v)
            self.order.append(v)
            self.clique[v] = (v, *sorted(around))
            alive.discard(v)
            touched = set(around)
            for u in around:
                touched |= links[u]
                links[u] |= around - {u}
                links[u].discard(v)
            touched.discard(v)
            for u in touched & alive:
                fill[u] = _fill(links, u)
        self.rank = {v: n for n, v in enumerate(self.order)}
        roots = [v for v in self.order if len(self.clique[v]) == 1]
        self.parent: dict[int, int | None] = {}
        for v in self.order:
            above = self.clique[v][1:]
            self.parent[v] = min(above, key=self.rank.__getitem__) if above else None
        for v, w in itertools.pairwise(roots):
            self.parent[v] = w  # nothing is shared between components: the message is a number
        self.around: dict[int, list[int]] = {v: [] for v in self.order}
        for v, up in self.parent.items():
            if up is not None:
                self.around[v].append(up)
                self.around[up].append(v)
        self.depth: dict[int, int] = {}
        for v in reversed(self.order):
            above_v = self.parent[v]
            self.depth[v] = 0 if above_v is None else self.depth[above_v] + 1

    def _states(self, scope: Iterable[int]) -> int:
        return math.prod(self.sizes[v] for v in scope)

    def _refuse_large(self, scope: Sequence[int], v: int) -> None:
        entries = self._states(scope)
        if entries > MOST_ENTRIES:
            raise NotApplicableError(
                f"exact inference needs a table of {whole_number(entries, 10**12)} entries around record "
                f"{self.names[v]!r}; the limit is {MOST_ENTRIES:,}",
                value=self.names[v],
            )

    def joint(self, records: Sequence[int], evidence: Mapping[int, Sequence[int]] | None = None) -> Floats:
        """P(records, evidence) up to nothing: the tables multiplied and all other records summed out."""
        known = {v: tuple(states) for v, states in (evidence or {}).items()}
        part = self.between({*records, *known})
        tables = [f for v in part for f in self._tables[v]]
        tables += [self.message(u, v) for v in part for u in self.around[v] if u not in part]
        tables = [_restrict(f, {v: s for v, s in known.items() if v not in records}) for f in tables]
        for v in (v for v in known if v in records):
            mask = np.zeros(self.sizes[v])
            mask[list(known[v])] = 1.0
            tables.append(Factor((v,), mask))
        return self._eliminate(tables, tuple(records)).table * self._constant

    def between(self, records: Collection[int]) -> set[int]:
        """The buckets of the smallest part of the tree that holds these records."""
        part: set[int] = set()
        front = set(records) or {self.order[-1]}
        while len(front) > 1:  # the deepest buckets climb until all have met
            deepest = max(self.depth[v] for v in front)
            for v in [v for v in front if self.depth[v] == deepest]:
                part.add(v)
                front.discard(v)
                up = self.parent[v]
                assert up is not None
                front.add(up)
        return part | front

    def message(self, u: int, v: int) -> Factor:
        """What bucket u and everything behind it says to its neighbour v."""
        # Iterative: a chain of a thousand records would pass Python's recursion limit.
        stack = [(u, v)]
        while stack:
            a, b = stack[-1]
            if (a, b) in self._messages:
                stack.pop()
                continue
            missing = [(w, a) for w in self.around[a] if w != b and (w, a) not in self._messages]
            if missing:
                stack.extend(missing)
                continue
            tables = self._tables[a] + [self._messages[w, a] for w in self.around[a] if w != b]
            shared = tuple(sorted(set(self.clique[a]) & set(self.clique[b])))
            self._messages[a, b] = self._eliminate(tables, shared)
            stack.pop()
        return self._messages[u, v]

    def _eliminate(self, tables: list[Factor], keep: tuple[int, ...]) -> Factor:
        """Multiply tables and sum out all but ``keep``, in the order of the tree."""
        tables = list(tables)
        left = {v for f in tables for v in f.scope} - set(keep)
        for v in sorted(left, key=self.rank.__getitem__):
            product = self._product([f for f in tables if v in f.scope], v)
            tables = [f for f in tables if v not in f.scope]
            axis = product.scope.index(v)
            tables.append(Factor(product.scope[:axis] + product.scope[axis + 1 :], product.table.sum(axis=axis)))
        here = {v for f in tables for v in f.scope}
        ones = [Factor((v,), np.ones(self.sizes[v])) for v in keep if v not in here]
        product = self._product([*tables, *ones] or [Factor((), np.ones(()))], keep[0] if keep else 0)
        return Factor(keep, np.transpose(product.table, [product.scope.index(v) for v in keep]))

    def _product(self, tables: Sequence[Factor], around: int) -> Factor:
        ordered = sorted(tables, key=lambda f: f.table.size)
        out = ordered[0]
        for factor in ordered[1:]:
            scope = (*out.scope, *(v for v in factor.scope if v not in out.scope))
            self._refuse_large(scope, around)
            if _least(out.table) * _least(factor.table) < _SMALLEST:
                raise NotApplicableError(
                    f"probabilities around record {self.names[around]!r} fall below {_SMALLEST:g}, "
                    "too small for exact inference in double precision",
                    value=self.names[around],
                )
            out = Factor(scope, spread(out.scope, out.table, scope) * spread(factor.scope, factor.table, scope))
            self.work += out.table.size
        return out


def _fill(links: Sequence[set[int]], v: int) -> int:
    """How many links eliminating v would add (twice)."""
    around = links[v]
    return sum(len(around - links[u]) - 1 for u in around)


def spread(scope: tuple[int, ...], table: Floats, wider: tuple[int, ...]) -> Floats:
    """The table with its axes in the order of a wider scope; records it does not have get an axis of length 1.

    Axes beyond those of the scope stay where they are, at the end.
    """
    inside = [v for v in wider if v in scope]
    turned = np.transpose(table, [*(scope.index(v) for v in inside), *range(len(scope), table.ndim)])
    return turned[(*(slice(None) if v in scope else None for v in wider), ...)]


def _restrict(factor: Factor, known: Mapping[int, Sequence[int]]) -> Factor:
    table = factor.table
    for axis, v in enumerate(factor.scope):
        if v in known:
            table = np.take(table, list(known[v]), axis=axis)
    return Factor(factor.scope, table)


def _least(table: Floats) -> float:
    positive = table[table > 0]
    return float(positive.min()) if positive.size else 1.0
