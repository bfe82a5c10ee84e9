"""A distribution as a table: every possible outcome, and its probability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from pufferdp.basics.arrays import read_only
from pufferdp.basics.errors import ModelError
from pufferdp.models.base import (
    Distribution,
    Known,
    Outcomes,
    RecordModel,
    impossible,
    label_values,
    named_states,
    record_names,
    refuse_many,
    value_text,
)
from pufferdp.models.chain import check_distribution, number_array, scaled
from pufferdp.models.files.json import File

Value = str | int | float


class _OutcomeFile(File):
    records: list[str | int | float]
    probability: float


class _JointFile(File):
    type: Literal["joint"]
    values: list[str | int | float]
    outcomes: list[_OutcomeFile]
    records: list[str | int] | None = None
    fitted: dict[str, Any] | None = None


@dataclass(frozen=True, eq=False, init=False, repr=False)
class JointTable(RecordModel):
    """A few records with any dependence between them, given by their joint distribution.

    >>> twins = JointTable(values=[0, 1], outcomes=[(0, 0), (1, 1)], probabilities=[0.7, 0.3])
    >>> twins
    JointTable(2 records, 2 states, 2 outcomes)
    >>> twins.given({"1": "1"}).distribution("2")
    array([0., 1.])
    """

    file_type: ClassVar[str | None] = "joint"

    names: tuple[str, ...]
    """Names of the records, in the order of the columns of outcomes."""
    states: tuple[str, ...]
    """The values every record may take, as text."""
    listed: Outcomes
    """The outcomes as they were listed, in numbers of states: one row each."""
    probabilities: Distribution
    """The probability of each listed outcome."""
    fitted: dict[str, Any] | None = None
    """Where the model was estimated from, if it was."""

    def __init__(
        self,
        *,
        values: Sequence[Value],
        outcomes: Sequence[Sequence[Value]] | Outcomes,
        probabilities: Sequence[float] | Distribution,
        records: Sequence[str] | None = None,
        fitted: dict[str, Any] | None = None,
    ) -> None:
        states = _states(values)
        listed = _listed(outcomes, states)
        distribution = number_array(probabilities, "probabilities")
        if distribution.shape != (len(listed),):
            raise ModelError(
                f"there are {distribution.size} probabilities and {len(listed)} outcomes; every outcome needs one",
                value=distribution.size,
            )
        check_distribution(distribution, "the list of probabilities")
        fields = {
            "names": record_names(records, listed.shape[1]),
            "states": states,
            "listed": read_only(listed),
            "probabilities": read_only(scaled(distribution)),
            "fitted": fitted,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def records(self) -> tuple[str, ...]:
        """Names of the records, in the order of the columns of outcomes."""
        return self.names

    @cached_property
    def domains(self) -> tuple[tuple[str, ...], ...]:
        """The values, which every record may take."""
        return (self.states,) * len(self.names)

    @cached_property
    def values(self) -> tuple[float, ...] | None:
        """The values themselves, where all are numbers."""
        return label_values(None, self.states)

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """All records together, for any dependence may hold; but a record that never varies is on its own."""
        rows, _ = self.outcomes()
        varies = (rows != rows[0]).any(axis=0)
        together = tuple(int(i) for i in np.flatnonzero(varies))
        alone = [(int(i),) for i in np.flatnonzero(~varies)]
        return tuple(sorted([together, *alone] if together else alone))

    def outcomes(self) -> tuple[Outcomes, Distribution]:
        """Every outcome of positive probability and its probability."""
        return self._possible

    @cached_property
    def _possible(self) -> tuple[Outcomes, Distribution]:
        positive = self.probabilities > 0
        return read_only(self.listed[positive]), read_only(self.probabilities[positive])

    def given(self, known: Known) -> JointTable:
        """The posterior of an adversary who knows this of some records."""
        rows, distribution = self.outcomes()
        fits = np.ones(len(rows), dtype=bool)
        for i, states in self.evidence(known).items():
            fits &= np.isin(rows[:, i], states)
        if not fits.any():
            raise impossible(known)
        return JointTable(
            values=self.states,
            outcomes=[[self.states[x] for x in row] for row in rows[fits]],
            probabilities=distribution[fits] / distribution[fits].sum(),
            records=self.names,
            fitted=self.fitted,
        )

    def to_dict(self) -> dict[str, Any]:
        """Every listed outcome with its probability."""
        numbers = self.values
        plain = numbers is not None and tuple(map(value_text, numbers)) == self.states  # 1 and not 1.00
        values: Sequence[float | str] = (plain and numbers) or self.states
        outcomes = [
            {"records": [values[x] for x in row], "probability": p}
            for row, p in zip(self.listed.tolist(), self.probabilities.tolist(), strict=True)
        ]
        out = {"type": self.file_type, "values": list(values), "outcomes": outcomes, "records": list(self.records)}
        return out if self.fitted is None else {**out, "fitted": self.fitted}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> JointTable:
        """The table of a ``joint`` file."""
        content = _JointFile.model_validate(raw)
        return cls(
            values=content.values,
            outcomes=[outcome.records for outcome in content.outcomes],
            probabilities=[outcome.probability for outcome in content.outcomes],
            records=None if content.records is None else [str(name) for name in content.records],
            fitted=content.fitted,
        )

    def __repr__(self) -> str:
        n, k, m = len(self.names), len(self.states), len(self.listed)
        return f"JointTable({n} record{'s' * (n != 1)}, {k} state{'s' * (k != 1)}, {m} outcome{'s' * (m != 1)})"


def _states(values: object) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)) or len(values) == 0:
        raise ModelError(f"values is {values!r}; it must list the values a record may take", value=values)
    states = tuple(value_text(v) for v in values)
    repeated = next((s for s in states if states.count(s) > 1), None)
    if repeated is not None:
        raise ModelError(f"the value {repeated} is listed twice; list every value once", value=values)
    return named_states(states, "every record")


def _listed(outcomes: object, states: tuple[str, ...]) -> Outcomes:
    """The outcomes in numbers of states."""
    if isinstance(outcomes, str) or not isinstance(outcomes, (Sequence, np.ndarray)) or len(outcomes) == 0:
        raise ModelError("outcomes is empty; list every outcome that can happen, one value a record", value=outcomes)
    first = outcomes[0]
    refuse_many(
        len(outcomes), "the table", len(first) if isinstance(first, (Sequence, np.ndarray)) and len(first) else 1
    )
    number = {state: x for x, state in enumerate(states)}
    rows: dict[tuple[int, ...], int] = {}
    length = None
    for n, outcome in enumerate(outcomes, start=1):
        if isinstance(outcome, str) or not isinstance(outcome, (Sequence, np.ndarray)) or len(outcome) == 0:
            raise ModelError(
                f"outcome {n} is {outcome!r}; it must be a list of values, one for each record", value=outcome
            )
        length = len(outcome) if length is None else length
        if len(outcome) != length:
            raise ModelError(
                f"outcome {n} has {len(outcome)} values and outcome 1 has {length}; there must be one for each record",
                value=outcome,
            )
        texts = [value_text(v) for v in outcome]
        unknown = next((text for text in texts if text not in number), None)
        if unknown is not None:
            raise ModelError(f"outcome {n} has the value {unknown!r}; values lists {', '.join(states)}", value=outcome)
        row = tuple(number[text] for text in texts)
        if row in rows:
            raise ModelError(
                f"outcome {n} is the same as outcome {rows[row]} ({', '.join(texts)}); list it once", value=outcome
            )
        rows[row] = n
    return np.array(list(rows), dtype=np.int64)
