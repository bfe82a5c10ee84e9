"""A Bayesian network: each record depends on its parents through a table."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np
from pydantic import Field

from pufferdp.basics.arrays import read_only
from pufferdp.basics.errors import ModelError
from pufferdp.basics.words import quoted_value, shape_text
from pufferdp.models.base import (
    Distribution,
    Evidence,
    Outcomes,
    RecordModel,
    label_values,
    most_outcomes,
    named_states,
    record_names,
    refuse_many,
)
from pufferdp.models.chain import ROW_TOLERANCE, MarkovChain, check_distribution, number_array, scaled
from pufferdp.models.files.bif import read_bif
from pufferdp.models.files.json import File, beside
from pufferdp.models.inference import MOST_PARENTS, Factor, JunctionTree, connected, neighbours

_MOST_NAMED: Final = 20
_LONGEST_NAMED: Final = 60
"""Nodes of a circle that a sentence names, and letters of such a name: a stranger may have thousands of either."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Node:
    """One record of a network. Its table is checked by the network, which knows the parents' states."""

    name: str
    """Name of the record, by which children name it as a parent."""
    states: tuple[str, ...]
    """Names of its states, in the order of the last axis of the table."""
    parents: tuple[str, ...] = ()
    """Names of the records it depends on."""
    table: Distribution
    """Its distribution given its parents: one axis a parent, in their order, and its own states last."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ModelError(f"a node's name is {self.name!r}; it must be a text that is not empty", value=self.name)
        parents = _names(self.parents, self.name)
        object.__setattr__(self, "states", named_states(self.states, f"node {self.name!r}"))
        object.__setattr__(self, "parents", parents)
        object.__setattr__(self, "table", read_only(number_array(self.table, f"the table of node {self.name!r}")))

    def __repr__(self) -> str:
        given = f" given {', '.join(self.parents)}" if self.parents else ""
        return f"Node({self.name}{given}; {len(self.states)} state{'s' * (len(self.states) != 1)})"


class _NodeFile(File):
    name: str
    states: list[str | int]
    parents: list[str] = Field(default_factory=list)
    table: list[Any]  # as deep as the node has parents; the node itself looks into it

    def build(self) -> Node:
        table = number_array(self.table, f"the table of node {self.name!r}")
        return Node(name=self.name, states=tuple(map(str, self.states)), parents=tuple(self.parents), table=table)


class _NetworkFile(File):
    type: Literal["bayesian_network"]
    nodes: list[_NodeFile] | None = None
    bif: str | None = None
    values: dict[str, float] | None = None
    fitted: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class BayesianNetwork(RecordModel):
    """Records that depend on each other along a graph without cycles.

    >>> rain = Node(name="rain", states=["no", "yes"], table=[0.8, 0.2])
    >>> wet = Node(name="wet", states=["no", "yes"], parents=["rain"], table=[[0.9, 0.1], [0, 1]])
    >>> BayesianNetwork(nodes=(rain, wet))
    BayesianNetwork(2 records, 2 to 2 states, at most 1 parent)
    """

    file_type: ClassVar[str | None] = "bayesian_network"

    nodes: tuple[Node, ...]
    """The records, in any order."""
    values: tuple[float, ...] | None = None
    """A number for each state, for sums and means: given by the state's name, kept in the order of ``labels``."""
    fitted: dict[str, Any] | None = field(default=None, repr=False)
    """Where the model was estimated from, if it was."""

    def __post_init__(self) -> None:
        if not isinstance(self.nodes, Iterable):
            raise ModelError(f"nodes is {quoted_value(self.nodes)}; it must be a list of nodes", value=self.nodes)
        nodes = tuple(self.nodes)
        if not nodes:
            raise ModelError("nodes is empty; a network needs at least one node")
        for node in nodes:
            if not isinstance(node, Node):
                raise ModelError(f"nodes holds {node!r}; it must be a list of nodes", value=node)
        record_names([node.name for node in nodes], len(nodes))
        domains = {node.name: node.states for node in nodes}
        for node in nodes:
            for parent in node.parents:
                if parent not in domains:
                    known = ", ".join(map(_cut, list(domains)[:10])) + (", …" if len(domains) > 10 else "")
                    raise ModelError(
                        f"node {quoted_value(node.name)} has the parent {quoted_value(parent)}, which is not a node; "
                        f"the nodes are {known}",
                        value=parent,
                    )
        checked = tuple(replace(node, table=_distributions(node, domains)) for node in nodes)
        object.__setattr__(self, "nodes", checked)
        object.__setattr__(self, "values", label_values(self.values, self.labels))
        _ = self.order  # refuses a cycle

    @classmethod
    def from_bif(cls, path: str | os.PathLike[str], values: Mapping[str, float] | None = None) -> BayesianNetwork:
        """Read a network from a BIF file."""
        nodes = []
        for block in read_bif(path):
            try:
                nodes.append(
                    Node(name=block.name, states=block.states, parents=block.parents, table=np.asarray(block.table))
                )
            except ModelError as error:
                raise ModelError(f"{os.fspath(path)}, line {block.line}: {error}") from None
        try:
            return cls(nodes=tuple(nodes), values=label_values(values, _labels(nodes)))
        except ModelError as error:
            raise ModelError(f"{os.fspath(path)}: {error}", value=error.value) from None

    @cached_property
    def records(self) -> tuple[str, ...]:
        """Names of the nodes, in the order given."""
        return tuple(node.name for node in self.nodes)

    @cached_property
    def domains(self) -> tuple[tuple[str, ...], ...]:
        """The states of each node, in the order of the nodes."""
        return tuple(node.states for node in self.nodes)

    @cached_property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """The parents of each node, as positions."""
        return tuple(tuple(self.position(p) for p in node.parents) for node in self.nodes)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The nodes, parents before children."""
        children: list[list[int]] = [[] for _ in self.nodes]
        for v, above in enumerate(self.parents):
            for u in above:
                children[u].append(v)
        waits = [len(above) for above in self.parents]
        order = [v for v, n in enumerate(waits) if n == 0]
        for v in order:  # grows while it is read
            for w in children[v]:
                waits[w] -= 1
                if waits[w] == 0:
                    order.append(w)
        if len(order) < len(self.nodes):
            self._refuse_cycle([v for v, n in enumerate(waits) if n > 0])
        return tuple(order)

    def _refuse_cycle(self, left: list[int]) -> None:
        # Every node that is left has a parent that is left, so walking up must come back.
        waiting, places, at = set(left), dict[int, int](), left[0]
        while at not in places:
            places[at] = len(places)
            at = next(u for u in self.parents[at] if u in waiting)
        cycle = [at, *list(places)[places[at] :][::-1]]
        names = [_cut(self.records[v]) for v in cycle]
        if len(names) > _MOST_NAMED:
            names[_MOST_NAMED // 2 : -_MOST_NAMED // 2] = [f"… ({len(names) - _MOST_NAMED} more) …"]
        circle = " -> ".join(names)
        raise ModelError(f"the parents go round in a circle: {circle}; take one of these links out", value=circle)

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """One table a node, over its parents and itself; their product is the joint distribution."""
        return tuple(
            Factor((*above, v), node.table)
            for v, (above, node) in enumerate(zip(self.parents, self.nodes, strict=True))
        )

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """The parts of the graph that no link joins."""
        return tuple(connected(neighbours(len(self.nodes), self.factors)))

    @cached_property
    def tree(self) -> JunctionTree:
        """The tree along which questions are answered, compiled once."""
        return JunctionTree(self.sizes, self.factors, self.records)

    def joint(self, records: Sequence[int], evidence: Evidence) -> Distribution:
        """P(these records, evidence), one axis a record."""
        return self.tree.joint(records, evidence)

    def outcomes(self) -> tuple[Outcomes, Distribution]:
        """Every outcome of positive probability and its probability; refused where there are too many."""
        rows = np.zeros((1, len(self.nodes)), dtype=np.int64)
        distribution = np.ones(1)
        for v in self.order:
            # A row always goes on to one row or more, so their number never falls again.
            chances = distribution[:, None] * self.nodes[v].table[tuple(rows[:, u] for u in self.parents[v])]
            origins, states = np.nonzero(chances)
            if len(origins) > most_outcomes(len(self.nodes)):
                refuse_many(math.prod(self.sizes), "the network", len(self.nodes))
            distribution = chances[origins, states]
            rows = rows[origins]
            rows[:, v] = states
        return rows, distribution

    def to_dict(self) -> dict[str, Any]:
        """Every node with its table."""
        nodes = [
            {"name": n.name, "states": list(n.states), "parents": list(n.parents), "table": _nested(n.table)}
            for n in self.nodes
        ]
        out: dict[str, Any] = {"type": self.file_type, "nodes": nodes}
        if self.values is not None:
            out["values"] = dict(zip(self.labels, self.values, strict=True))
        return out if self.fitted is None else {**out, "fitted": self.fitted}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> BayesianNetwork:
        """The network of a file, or of the BIF file that it names."""
        content = _NetworkFile.model_validate(raw)
        if (content.nodes is None) == (content.bif is None):
            problem = "neither nodes nor bif is given" if content.nodes is None else "nodes and bif are both given"
            raise ModelError(f"{problem}; a network has its nodes in this file or in a BIF file")
        if content.bif is not None:
            network = cls.from_bif(beside(folder, content.bif), values=content.values)
            return replace(network, fitted=content.fitted)
        given: dict[str, Any] = {"values": content.values, "fitted": content.fitted}
        return cls(nodes=tuple(node.build() for node in content.nodes or []), **given)

    def __repr__(self) -> str:
        n, most = len(self.nodes), max(len(node.parents) for node in self.nodes)
        return (
            f"BayesianNetwork({n} record{'s' * (n != 1)}, {min(self.sizes)} to {max(self.sizes)} states, "
            f"at most {most} parent{'s' * (most != 1)})"
        )


def as_network(chain: MarkovChain, length: int) -> BayesianNetwork:
    """A chain with a definite start as a network whose records are named 1, 2, and so on."""
    distribution = chain.stationary if chain.given_start is None else chain.given_start
    nodes = [Node(name="1", states=chain.labels, table=distribution)]
    nodes += [
        Node(name=str(t), states=chain.labels, parents=(str(t - 1),), table=chain.transition)
        for t in range(2, length + 1)
    ]
    return BayesianNetwork(nodes=tuple(nodes))


def _names(value: object, node: str) -> tuple[str, ...]:
    """The names of the parents of a node."""
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)):
        raise ModelError(f"the parents of node {node!r} are {value!r}; they must be a list of names", value=value)
    parents = tuple(str(p) for p in value)
    twice = [p for p in parents if parents.count(p) > 1]
    if twice:
        raise ModelError(f"node {node!r} has the parent {twice[0]!r} twice; name it once", value=parents)
    if len(parents) > MOST_PARENTS:
        raise ModelError(f"node {node!r} has {len(parents)} parents; at most {MOST_PARENTS} are allowed", value=parents)
    if node in parents:
        raise ModelError(f"node {node!r} is its own parent; leave it out of its parents", value=parents)
    return parents


def _cut(name: str) -> str:
    """A name as it stands in a sentence."""
    return name if len(name) <= _LONGEST_NAMED else f"{name[:_LONGEST_NAMED]}…"


def _nested(table: Distribution) -> list[Any]:
    """What ``tolist`` gives, in steps: it is seconds for a table of a million rows, and nothing ends it in between."""
    entries: list[Any] = table.ravel().tolist()
    for size in table.shape[:0:-1]:
        entries = [entries[at : at + size] for at in range(0, len(entries), size)]
    return entries


def _labels(nodes: Sequence[Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(state for node in nodes for state in node.states))


def _distributions(node: Node, domains: Mapping[str, tuple[str, ...]]) -> Distribution:
    """The table of a node, every row a distribution that sums to 1."""
    table, shape = node.table, tuple(len(domains[name]) for name in (*node.parents, node.name))
    if table.shape != shape:
        rows = "".join(f"one row for each of the {len(domains[p])} states of {p!r}, " for p in node.parents)
        raise ModelError(
            f"the table of node {node.name!r} is {shape_text(table.shape)}; it must be {shape_text(shape)}: "
            f"{rows}one entry for each of its own {shape[-1]} states",
            value=table.shape,
        )
    possible = (np.isfinite(table) & (table >= 0)).all(axis=-1)
    with np.errstate(invalid="ignore", over="ignore"):
        wrong = ~possible | (abs(table.sum(axis=-1) - 1) > ROW_TOLERANCE)
    for row in np.argwhere(wrong)[:1]:
        given = ", ".join(f"{p} = {domains[p][int(x)]}" for p, x in zip(node.parents, row, strict=True))
        check_distribution(table[tuple(row)], f"{f'row ({given})' if given else 'the table'} of node {node.name!r}")
    return scaled(table)
