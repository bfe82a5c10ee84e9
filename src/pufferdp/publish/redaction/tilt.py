"""What a later release from the same data may assume: the model of the marked records given what a redaction has shown.

Released records are known, so they are no records of the model any more. A mark is soft evidence: it stands for value v
with weight Pr(mark | v), so the chain is tilted by these weights and becomes inhomogeneous. Given the released records,
segments of marks are independent of each other. A release calibrated on the tilted model adds to the leakage of the
redaction. One calibrated on the plain chain does not: marks make rare values likelier than it says.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from pufferdp.basics.arrays import Vector
from pufferdp.basics.errors import DataError, NotApplicableError
from pufferdp.bounds.redaction.design import Design
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.rewrite import Placement
from pufferdp.data.series import open_series
from pufferdp.models.base import Model
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.publish.redaction.publication import spans_of
from pufferdp.publish.redaction.result import Redaction

Output = Mapping[int, int | None]
"""What was seen of some records, counted from 1: the position of the value among the states, or None for a mark."""


def tilted_model(design: Design, output: Output) -> BayesianNetwork:
    """The distribution of the marked records given the redacted output: a network with one node per mark.

    Args:
        design: the design that was applied.
        output: every record that is marked, and the records next to those.
    """
    nodes = tilted_nodes(design, output, {})
    if not nodes:
        raise DataError("no record is marked; everything is known, and there is nothing left to protect")
    return BayesianNetwork(nodes=tuple(nodes), values=design.hiding.chain.values)


def tilted_nodes(design: Design, output: Output, names: Mapping[int, str], missing: Collection[int] = ()) -> list[Node]:
    """The nodes of one chain; ``names`` says what to call a record, its number by default.

    A ``missing`` record shows nothing, whatever its value: the chain goes on past it, and it has no node.
    """
    chain, length = design.hiding.chain, design.hiding.length
    for t, value in output.items():
        if not 1 <= t <= length:
            raise DataError(f"the output has a record {t}; the design is for {length}", value=t)
        if value is not None and design.of(t)[value] == 1:
            raise DataError("this output is impossible under the model and the design; check both")
    marks = {t for t, value in output.items() if value is None}
    weights = {t: design.of(t) for t in marks} | {t: np.ones(chain.size) for t in missing}
    unknown = sorted(weights)
    nodes: list[Node] = []
    for run in np.split(np.array(unknown, dtype=int), np.flatnonzero(np.diff(unknown) > 1) + 1) if unknown else []:
        first, last = int(run[0]), int(run[-1])
        if marks.isdisjoint(range(first, last + 1)):
            continue
        # Backwards: how likely what is seen after t is, given the value at t.
        after = [np.ones(chain.size)]
        if last < length:
            after = [chain.transition[:, _known(output, last + 1)]]
        for t in range(last, first, -1):
            back = chain.transition @ (weights[t] * after[0])
            after.insert(0, np.asarray(back / (back.max() or 1.0)))
        start = chain.stationary if first == 1 else chain.transition[_known(output, first - 1)]
        # Forwards: from the last marked record, or what is known before the first one, to this one.
        moves, parent, possible = start[None, :], None, np.ones(1, dtype=bool)
        for t in range(first, last + 1):
            if t in marks:
                joint = moves * (weights[t] * after[t - first])[None, :]
                # Rows of values that cannot have been are never used; any distribution will do.
                anything = np.full(chain.size, 1 / chain.size)
                table = np.array(
                    [_distribution(row) if p else anything for row, p in zip(joint, possible, strict=True)]
                )
                possible = np.asarray((table[possible] > 0).any(axis=0))
                name = names.get(t, str(t))
                given = {"table": table[0]} if parent is None else {"table": table, "parents": (parent,)}
                nodes.append(Node(name=name, states=chain.labels, **given))
                moves, parent = np.eye(chain.size), name
            moves = moves @ chain.transition
    return nodes


def tilted_from_file(redaction: Redaction, path: str | os.PathLike[str], layout: Layout) -> BayesianNetwork:
    """The tilted model of a redacted file: one node for each marked row, named by its number, in the order of time."""
    check_tiltable(redaction.hiding.chain)
    labels, layout = redaction.hiding.chain.labels, replace(layout, step=redaction.hiding.chain.step)
    ordered = layout.order is not None or layout.by is not None
    placement = Placement(
        series=open_series(os.fspath(path), layout, rows=ordered),
        coding=Coding(labels=(*labels, redaction.mark)),
    )
    nodes: list[Node] = []
    for first, design in redaction.designs:
        seen, names = _around(design, placement, first)
        output = {t: None if n == len(labels) else n for t, n in seen.items() if n >= 0}
        missing = [t for t, n in seen.items() if n < 0]
        nodes += tilted_nodes(design, output, names, missing)
    return BayesianNetwork(nodes=tuple(nodes), values=redaction.hiding.chain.values)


def _around(design: Design, placement: Placement, first: int) -> tuple[dict[int, int], dict[int, str]]:
    """States and names of the records of all blocks, and on either side up to the next one that is not missing."""
    length, reach = design.hiding.length, 1
    near = [(max(1, b.first - 1), min(length, b.last + 1)) for b in design.blocks]
    while True:
        records = sorted({t for low, high in near for t in range(low, high + 1)})  # two blocks may share some
        rows, codes = placement.states_at(spans_of(first - 1 + t for t in records))
        seen = dict(zip(records, codes.tolist(), strict=True))
        wider = [
            (max(1, low - reach) if seen[low] < 0 else low, min(length, high + reach) if seen[high] < 0 else high)
            for low, high in near
        ]
        if wider == near:
            return seen, {t: str(row) for t, row in zip(records, rows.tolist(), strict=True)}
        near, reach = wider, 2 * reach


def check_tiltable(model: Model, bins: str | None = None) -> None:
    """Refuse what has no tilted model of its own."""
    if model.bins is not None or bins is not None:
        raise NotApplicableError(
            "numbers are put into bins; a tilted model is written for named states: turn the numbers into those first"
        )


def _known(output: Output, record: int) -> int:
    value = output.get(record)
    if value is None:
        raise DataError(f"the output lacks record {record}, which is next to a mark", value=record)
    return value


def _distribution(weights: Vector) -> Vector:
    total = weights.sum()
    if not total > 0:
        raise DataError("this output is impossible under the model and the design; check both")
    return np.asarray(weights / total)
