"""What a later release from the same data may assume: the model given what a redaction has shown.

Released records are known. A mark is soft evidence: it stands for value v with weight Pr(mark | v), so the chain is
tilted by these weights and becomes inhomogeneous. A release calibrated on the tilted model adds to the leakage of the
redaction. One calibrated on the plain chain does not: marks make rare values likelier than it says.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import narwhals as nw
import numpy as np

from pufferdp.data import Layout, open_series
from pufferdp.data.sources import rows
from pufferdp.errors import DataError, NotApplicableError
from pufferdp.leakage.redaction import Design
from pufferdp.models.markov import Vector
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.redaction_result import Redaction

MOST_TILTED: Final = 2000
"""Longer networks take too long to plan with."""


def tilted_model(design: Design, output: Sequence[int | None]) -> BayesianNetwork:
    """The law of a series given its redacted output, as a network with one node a record, named 1, 2 and so on.

    Args:
        design: the design that was applied.
        output: for each record the position of its value among the states, or None for a mark.
    """
    hiding, chain = design.hiding, design.hiding.chain
    if len(output) != hiding.length:
        raise DataError(f"the output has {len(output)} records; the design is for {hiding.length}", value=len(output))
    if hiding.length > MOST_TILTED:
        raise NotApplicableError(
            f"the series has {hiding.length} records; a tilted model is written for at most {MOST_TILTED}: "
            "release from the stretch around the private records alone",
            value=hiding.length,
        )
    weights = np.zeros((hiding.length, chain.size))
    for t, value in enumerate(output):
        chances = design.of(t + 1)
        if value is None:
            weights[t] = chances
        else:
            weights[t, value] = 1.0 - chances[value]
    # Backwards: how likely what is seen after t is, given the value at t.
    after = np.ones((hiding.length, chain.size))
    for t in range(hiding.length - 2, -1, -1):
        after[t] = chain.transition @ (weights[t + 1] * after[t + 1])
        after[t] /= after[t].max() or 1.0
    states = chain.labels
    first = _law(chain.stationary * weights[0] * after[0])
    nodes = [Node(name="1", states=states, table=first)]
    possible = first > 0
    for t in range(1, hiding.length):
        joint = chain.transition * (weights[t] * after[t])[None, :]
        # Rows of values that cannot have been are never used; any law will do.
        anything = np.full(chain.size, 1 / chain.size)
        table = np.array([_law(row) if p else anything for row, p in zip(joint, possible, strict=True)])
        possible = np.asarray((table[possible] > 0).any(axis=0))
        nodes.append(Node(name=str(t + 1), states=states, parents=(str(t),), table=table))
    return BayesianNetwork(nodes=tuple(nodes), values=chain.values)


def tilted_from_file(redaction: Redaction, path: str | os.PathLike[str], column: str) -> BayesianNetwork:
    """The tilted model of a redacted file that is one chain."""
    if len(redaction.designs) != 1 or redaction.missing:
        raise NotApplicableError("the series has missing values; a tilted model is written for one whole chain")
    ((_, design),) = redaction.designs
    labels = design.hiding.chain.labels
    if design.hiding.chain.bins is not None:
        raise NotApplicableError("the model has bins; a tilted model is written for named states")
    series = open_series(os.fspath(path), Layout(column=column))
    found = rows(series.table.frame.sort("order").select(nw.col("value")))
    places = {label: n for n, label in enumerate(labels)}
    return tilted_model(design, [None if v == redaction.mark else places[str(v)] for (v,) in found])


def _law(weights: Vector) -> Vector:
    total = weights.sum()
    if not total > 0:
        raise DataError("this output is impossible under the model and the design; check both")
    return np.asarray(weights / total)
