"""A class of beliefs about the same records: the guarantee must hold for every one of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pufferdp.basics.errors import ModelError
from pufferdp.models.base import RecordModel
from pufferdp.models.inference import connected


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelClass:
    """A list of models over the same records, states and values."""

    models: tuple[RecordModel, ...]
    """The beliefs; the guarantee holds for each."""

    def __post_init__(self) -> None:
        models = tuple(self.models)
        if not models:
            raise ModelError("models is empty; a class needs at least one model")
        for n, model in enumerate(models, start=1):
            if not isinstance(model, RecordModel):
                raise ModelError(
                    f"model {n} of the class is {model!r}; a class holds models that know their records", value=model
                )
            for name, what in (("records", "records"), ("domains", "states"), ("values", "values")):
                if getattr(model, name) != getattr(models[0], name):
                    raise ModelError(f"model {n} of the class has other {what} than model 1; they must agree")
        object.__setattr__(self, "models", models)

    @property
    def beliefs(self) -> tuple[RecordModel, ...]:
        """The models of the class."""
        return tuple(belief for model in self.models for belief in model.beliefs)

    @property
    def records(self) -> tuple[str, ...]:
        """Names of the records."""
        return self.models[0].records

    @property
    def domains(self) -> tuple[tuple[str, ...], ...]:
        """The states of each record."""
        return self.models[0].domains

    @property
    def labels(self) -> tuple[str, ...]:
        """All states of all records."""
        return self.models[0].labels

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states of each record."""
        return self.models[0].sizes

    @property
    def size(self) -> int:
        """Number of different states."""
        return self.models[0].size

    @property
    def values(self) -> tuple[float, ...] | None:
        """A number for each label."""
        return self.models[0].values

    @property
    def bins(self) -> None:
        """Only series have bins."""
        return None

    @property
    def fitted(self) -> dict[str, Any] | None:
        """Where a model of the class was estimated from, if one was."""
        return next((m.fitted for m in self.models if m.fitted is not None), None)

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """The finest sets of records that are independent of each other under every model."""
        links: list[set[int]] = [set() for _ in self.records]
        for model in self.models:
            for together in model.components:
                for i in together:  # a star is enough to keep them together
                    links[together[0]].add(i)
                    links[i].add(together[0])
        return tuple(connected(links))

    def states_of(self, position: int) -> tuple[str, ...]:
        """The states of the record that stands there."""
        return self.domains[position]

    def position(self, record: str) -> int:
        """Where a record stands."""
        return self.models[0].position(record)

    def __repr__(self) -> str:
        n, m = len(self.models), len(self.records)
        return f"ModelClass({n} model{'s' * (n != 1)} of {m} record{'s' * (m != 1)})"
