"""Two beliefs about the same records, outcome by outcome."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pufferdp.errors import ModelError
from pufferdp.models.collection import ModelClass
from pufferdp.models.markov import Vector
from pufferdp.models.records import RecordModel


def side_by_side(
    model: RecordModel | ModelClass, belief: RecordModel
) -> Iterator[tuple[npt.NDArray[np.int64], Vector, Vector]]:
    """For each member of the class: all outcomes, and the laws of the belief and of the member over them."""
    order = _same_records(model, belief)
    rows, ours = belief.outcomes()
    columns = []
    for i, j in enumerate(order):
        domain, theirs = model.domains[i], belief.domains[j]
        columns.append(np.array([domain.index(state) for state in theirs])[rows[:, j]])
    rows = np.stack(columns, axis=1)
    for member in model.beliefs:
        others, theirs_law = member.outcomes()
        outcomes, place = np.unique(np.concatenate([rows, others]), axis=0, return_inverse=True)
        laws = np.zeros((2, len(outcomes)))
        np.add.at(laws[0], place.ravel()[: len(rows)], ours)
        np.add.at(laws[1], place.ravel()[len(rows) :], theirs_law)
        yield outcomes, laws[0], laws[1]


def _same_records(model: RecordModel | ModelClass, belief: RecordModel) -> list[int]:
    """Where the belief has the records of the model; refused where records or states differ."""
    for who, has, other in (("belief", belief, model), ("model", model, belief)):
        missing = [r for r in other.records if r not in has.records]
        if missing:
            raise ModelError(f"the {who} has no record {missing[0]!r}; model and belief must have the same records")
    order = [belief.position(record) for record in model.records]
    for i, j in enumerate(order):
        if set(model.domains[i]) != set(belief.domains[j]):
            ours, theirs = ", ".join(model.domains[i][:10]), ", ".join(belief.domains[j][:10])
            raise ModelError(
                f"record {model.records[i]!r} has the states {theirs} in the belief and {ours} in the model; "
                "they must agree"
            )
    return order
