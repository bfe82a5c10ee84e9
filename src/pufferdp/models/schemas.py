"""What may stand in a model file, type by type, and the model each makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from pufferdp.errors import ModelError
from pufferdp.models.classes import BinaryInterval, MarkovClass, MarkovInterval, Model
from pufferdp.models.collection import ModelClass
from pufferdp.models.gaussian import Gaussian, LimitedCorrelation
from pufferdp.models.groups import AnyGroups, Groups
from pufferdp.models.joint import JointTable
from pufferdp.models.markov import MarkovChain, number_array
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.models.records import RecordModel

Row = list[float]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=True)


class _Part(Protocol):
    def build(self, folder: Path) -> Model:
        """The model; files it names are looked for from the folder."""


class _States(_File):
    states: list[str | int] | None = None
    values: Row | None = None
    bins: Row | None = None
    fitted: dict[str, Any] | None = None

    def common(self) -> dict[str, Any]:
        """What all kinds of chains share."""
        return {"states": self.states, "values": self.values, "bins": self.bins, "fitted": self.fitted}


class _Chain(_States):
    type: Literal["markov_chain"]
    transition: list[Row]
    start: str | Row = "stationary"

    def build(self, folder: Path) -> MarkovChain:
        table = number_array(self.transition, "transition")
        return MarkovChain(transition=table, start=self.start, **self.common())


class _Chains(_File):
    type: Literal["markov_class"]
    models: list[_Chain]

    def build(self, folder: Path) -> MarkovClass:
        built = _members(self.models, folder)
        return MarkovClass(models=tuple(m for m in built if isinstance(m, MarkovChain)))


class _Binary(_States):
    type: Literal["binary_interval"]
    low: float
    high: float

    def build(self, folder: Path) -> BinaryInterval:
        return BinaryInterval(low=self.low, high=self.high, **self.common())


class _Interval(_States):
    type: Literal["markov_interval"]
    low: list[Row]
    high: list[Row]

    def build(self, folder: Path) -> MarkovInterval:
        low, high = number_array(self.low, "low"), number_array(self.high, "high")
        return MarkovInterval(low=low, high=high, **self.common())


class _Node(_File):
    name: str
    states: list[str | int]
    parents: list[str] = []
    table: list[Any]  # as deep as the node has parents; the node itself looks into it

    def build(self) -> Node:
        """The node."""
        table = number_array(self.table, f"the table of node {self.name!r}")
        return Node(name=self.name, states=tuple(map(str, self.states)), parents=tuple(self.parents), table=table)


class _Network(_File):
    type: Literal["bayesian_network"]
    nodes: list[_Node] | None = None
    bif: str | None = None
    values: dict[str, float] | None = None
    fitted: dict[str, Any] | None = None

    def build(self, folder: Path) -> BayesianNetwork:
        if (self.nodes is None) == (self.bif is None):
            found = "neither nodes nor bif is given" if self.nodes is None else "nodes and bif are both given"
            raise ModelError(f"{found}; a network has its nodes in this file or in a BIF file")
        if self.bif is not None:
            network = BayesianNetwork.from_bif(folder / self.bif, values=self.values)
            return replace(network, fitted=self.fitted)
        given: dict[str, Any] = {"values": self.values, "fitted": self.fitted}
        return BayesianNetwork(nodes=tuple(node.build() for node in self.nodes or []), **given)


class _Outcome(_File):
    records: list[str | int | float]
    probability: float


class _Joint(_File):
    type: Literal["joint"]
    values: list[str | int | float]
    outcomes: list[_Outcome]
    records: list[str | int] | None = None
    fitted: dict[str, Any] | None = None

    def build(self, folder: Path) -> JointTable:
        return JointTable(
            values=self.values,
            outcomes=[outcome.records for outcome in self.outcomes],
            probabilities=[outcome.probability for outcome in self.outcomes],
            records=None if self.records is None else [str(name) for name in self.records],
            fitted=self.fitted,
        )


class _Groups(_File):
    type: Literal["groups"]
    largest: int | None = None
    sizes: list[int] | None = None
    positives: list[Row] | None = None
    states: list[str | int] | None = None
    values: dict[str, float] | None = None
    fitted: dict[str, Any] | None = None

    def build(self, folder: Path) -> Groups | AnyGroups:
        states = None if self.states is None else [str(state) for state in self.states]
        common: dict[str, Any] = {"states": states, "values": self.values, "fitted": self.fitted}
        if self.largest is not None and self.sizes is None and self.positives is None:
            return AnyGroups(largest=self.largest, **common)
        if self.largest is None and self.sizes is not None and self.positives is not None:
            return Groups(sizes=self.sizes, positives=self.positives, **common)
        raise ModelError("groups are given by largest alone, or by sizes and positives; this is neither")


class _Gaussian(_File):
    type: Literal["gaussian"]
    mean: Row
    covariance: list[Row]
    records: list[str | int] | None = None
    fitted: dict[str, Any] | None = None

    def build(self, folder: Path) -> Gaussian:
        names = None if self.records is None else [str(name) for name in self.records]
        table = number_array(self.covariance, "covariance")
        return Gaussian(mean=self.mean, covariance=table, records=names, fitted=self.fitted)


class _Limited(_File):
    type: Literal["limited_correlation"]
    records: int
    rho: float
    fitted: dict[str, Any] | None = None

    def build(self, folder: Path) -> LimitedCorrelation:
        return LimitedCorrelation(records=self.records, rho=self.rho, fitted=self.fitted)


class _Class(_File):
    type: Literal["class"]
    models: list[Annotated[_Network | _Joint | _Groups, Field(discriminator="type")]]

    def build(self, folder: Path) -> ModelClass:
        built = _members(self.models, folder)
        for n, model in enumerate(built, start=1):
            if not isinstance(model, RecordModel):
                raise ModelError(f"model {n} of the class does not know its records; give sizes and positives")
        return ModelClass(models=tuple(m for m in built if isinstance(m, RecordModel)))


def _members(models: Sequence[_Part], folder: Path) -> list[Model]:
    built = []
    for n, model in enumerate(models, start=1):
        try:
            built.append(model.build(folder))
        except ModelError as error:
            raise ModelError(f"model {n} of the class: {error}", value=error.value) from None
    return built


_Any = _Chain | _Chains | _Binary | _Interval | _Network | _Joint | _Groups | _Gaussian | _Limited | _Class
CONTENT: TypeAdapter[_Any] = TypeAdapter(Annotated[_Any, Field(discriminator="type")])
"""The content of any model file."""
TYPES = (
    "markov_chain",
    "markov_class",
    "binary_interval",
    "markov_interval",
    "bayesian_network",
    "joint",
    "groups",
    "gaussian",
    "limited_correlation",
    "class",
)
"""The types a file can have."""
