"""Model files: JSON in and out, one key a property."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pufferdp.basics.errors import ModelError
from pufferdp.basics.files import canonical_json, found_text, read_json, write_whole
from pufferdp.models.base import RecordModel
from pufferdp.models.chain import MarkovChain, number_array
from pufferdp.models.chain_classes import BinaryInterval, MarkovClass, MarkovInterval, Model
from pufferdp.models.gaussian import Gaussian, LimitedCorrelation
from pufferdp.models.groups import AnyGroups, Groups
from pufferdp.models.joint import JointTable, value_text
from pufferdp.models.model_class import ModelClass
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.models.pedigree import Member, Pedigree

Row = list[float]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=True)


class _Part(Protocol):
    def build(self, folder: Path | None) -> Model:
        """The model; files it names are looked for from the folder, and refused without one."""


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

    def build(self, folder: Path | None) -> MarkovChain:
        table = number_array(self.transition, "transition")
        return MarkovChain(transition=table, start=self.start, **self.common())


class _Chains(_File):
    type: Literal["markov_class"]
    models: list[_Chain]

    def build(self, folder: Path | None) -> MarkovClass:
        built = _members(self.models, folder)
        return MarkovClass(models=tuple(m for m in built if isinstance(m, MarkovChain)))


class _Binary(_States):
    type: Literal["binary_interval"]
    low: float
    high: float

    def build(self, folder: Path | None) -> BinaryInterval:
        return BinaryInterval(low=self.low, high=self.high, **self.common())


class _Interval(_States):
    type: Literal["markov_interval"]
    low: list[Row]
    high: list[Row]

    def build(self, folder: Path | None) -> MarkovInterval:
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

    def build(self, folder: Path | None) -> BayesianNetwork:
        if (self.nodes is None) == (self.bif is None):
            found = "neither nodes nor bif is given" if self.nodes is None else "nodes and bif are both given"
            raise ModelError(f"{found}; a network has its nodes in this file or in a BIF file")
        if self.bif is not None:
            network = BayesianNetwork.from_bif(_beside(folder, self.bif), values=self.values)
            return replace(network, fitted=self.fitted)
        given: dict[str, Any] = {"values": self.values, "fitted": self.fitted}
        return BayesianNetwork(nodes=tuple(node.build() for node in self.nodes or []), **given)


class _Member(_File):
    id: str | int
    father: str | int | None = None
    mother: str | int | None = None

    def build(self) -> Member:
        """The member."""
        father, mother = (None if parent is None else str(parent) for parent in (self.father, self.mother))
        return Member(str(self.id), father, mother)


class _Pedigree(_File):
    type: Literal["pedigree"]
    members: list[_Member] | None = None
    ped: str | None = None
    major_allele_frequency: float
    values: dict[str, float] | None = None
    fitted: dict[str, Any] | None = None

    def build(self, folder: Path | None) -> Pedigree:
        if (self.members is None) == (self.ped is None):
            found = "neither members nor ped is given" if self.members is None else "members and ped are both given"
            raise ModelError(f"{found}; a pedigree has its members in this file or in a PED file")
        if self.ped is not None:
            family = Pedigree.from_ped(_beside(folder, self.ped), self.major_allele_frequency, values=self.values)
            return replace(family, fitted=self.fitted)
        given: dict[str, Any] = {"values": self.values, "fitted": self.fitted}
        members = tuple(member.build() for member in self.members or [])
        return Pedigree(members=members, major_allele_frequency=self.major_allele_frequency, **given)


class _Outcome(_File):
    records: list[str | int | float]
    probability: float


class _Joint(_File):
    type: Literal["joint"]
    values: list[str | int | float]
    outcomes: list[_Outcome]
    records: list[str | int] | None = None
    fitted: dict[str, Any] | None = None

    def build(self, folder: Path | None) -> JointTable:
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

    def build(self, folder: Path | None) -> Groups | AnyGroups:
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

    def build(self, folder: Path | None) -> Gaussian:
        names = None if self.records is None else [str(name) for name in self.records]
        table = number_array(self.covariance, "covariance")
        return Gaussian(mean=self.mean, covariance=table, records=names, fitted=self.fitted)


class _Limited(_File):
    type: Literal["limited_correlation"]
    records: int
    rho: float
    fitted: dict[str, Any] | None = None

    def build(self, folder: Path | None) -> LimitedCorrelation:
        return LimitedCorrelation(records=self.records, rho=self.rho, fitted=self.fitted)


class _Class(_File):
    type: Literal["class"]
    models: list[Annotated[_Network | _Pedigree | _Joint | _Groups, Field(discriminator="type")]]

    def build(self, folder: Path | None) -> ModelClass:
        built = _members(self.models, folder)
        for n, model in enumerate(built, start=1):
            if not isinstance(model, RecordModel):
                raise ModelError(f"model {n} of the class does not know its records; give sizes and positives")
        return ModelClass(models=tuple(m for m in built if isinstance(m, RecordModel)))


def _beside(folder: Path | None, name: str) -> Path:
    """A file that a model file names; only who owns the model file says where it lies."""
    if folder is None:
        raise ModelError(
            f"the model names another file, {name!r}, and only a model file may do so: give the model by value, with "
            "its tables in it",
            value=name,
        )
    return folder / name


def _members(models: Sequence[_Part], folder: Path | None) -> list[Model]:
    built = []
    for n, model in enumerate(models, start=1):
        try:
            built.append(model.build(folder))
        except ModelError as error:
            raise ModelError(f"model {n} of the class: {error}", value=error.value) from None
    return built


_Any = _Chain | _Chains | _Binary | _Interval | _Network | _Pedigree | _Joint | _Groups | _Gaussian | _Limited | _Class
CONTENT: TypeAdapter[_Any] = TypeAdapter(Annotated[_Any, Field(discriminator="type")])
"""The content of any model file."""
TYPES = (
    "markov_chain",
    "markov_class",
    "binary_interval",
    "markov_interval",
    "bayesian_network",
    "pedigree",
    "joint",
    "groups",
    "gaussian",
    "limited_correlation",
    "class",
)
"""The types a file can have."""


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model file."""
    raw = read_json(path, "model file")
    try:
        return model_from_dict(raw, Path(path).parent)
    except ModelError as error:
        raise ModelError(f"{path}: {error}", value=error.value) from None


def model_from_dict(raw: object, folder: str | os.PathLike[str] | None = None) -> Model:
    """A model by value. Whoever owns the model file may give its folder, where a BIF or PED file it names is read.

    Without a folder no file is opened: a certificate or a ledger from a stranger could name any file of the reader.
    """
    if not isinstance(raw, dict):
        raise ModelError(f"a model file holds one JSON object; this one holds {_kind(raw)}", value=raw)
    kind = raw.get("type")
    if kind is None:
        raise ModelError(f"type is missing; it must be one of {', '.join(TYPES)}", value=raw)
    if not isinstance(kind, str) or kind not in TYPES:
        raise ModelError(f"type is {found_text(kind)}; it must be one of {', '.join(TYPES)}", value=kind)
    try:
        return CONTENT.validate_python(raw).build(None if folder is None else Path(folder))
    except ValidationError as error:
        first = plain_errors(error, skip=1)[0]
        raise ModelError(f"{first} (in a {kind} file)", value=raw) from None


_RULES: Final = {
    "float_type": "a number",
    "int_type": "a whole number",
    "string_type": "text",
    "list_type": "a list",
    "greater_than_equal": "0 or more",
    "dict_type": "an object in braces",
    "model_type": "an object in braces",
    "model_attributes_type": "an object in braces",
}


def plain_errors(error: ValidationError, skip: int = 0) -> list[str]:
    """What is wrong with a file, key by key, in our own words; ``skip`` leading parts of each place are left out."""
    out: list[str] = []
    for one in error.errors(include_url=False):
        # Where a value may be of several kinds, each kind adds its own name to the place; people did not write it.
        loc = [p for p in one["loc"][skip:] if p not in TYPES]
        parts = [p for p in loc if isinstance(p, int) or re.fullmatch(r"(?!(str|int|float)$)\w+", p)]
        where, kinds = ".".join(str(p) for p in parts) or "the content", len(parts) < len(loc)
        if one["type"] == "extra_forbidden":
            said = f"{where} is not a key that is known here"
        elif one["type"] == "missing":
            said = f"{where} is missing; it is needed"
        elif where == "start" or (kinds and where.startswith("start.")):
            said = f'{where} is {found_text(one["input"])}; it must be "stationary", "any" or a list of numbers'
        elif one["type"] in ("union_tag_invalid", "union_tag_not_found"):  # only in a class of models
            found = one["input"].get("type") if isinstance(one["input"], dict) else None
            said = f"{where}.type is {found_text(found)}; it must be one of bayesian_network, pedigree, joint, groups"
        elif one["type"] == "literal_error":
            said = f"{where} is {found_text(one['input'])}; it must be {one['ctx']['expected']}"
        else:
            rule = "of another kind" if kinds else _RULES.get(one["type"], "of another kind")
            said = f"{where} is {found_text(one['input'])}; it must be {rule}"
        if said not in out:
            out.append(said)
    return out


def model_to_dict(model: Model) -> dict[str, Any]:
    """The content of a model's file: everything needed to make it again, without any other file."""
    if isinstance(model, (MarkovClass, ModelClass)):
        kind = "markov_class" if isinstance(model, MarkovClass) else "class"
        return {"type": kind, "models": [model_to_dict(m) for m in model.models]}
    out: dict[str, Any]
    if isinstance(model, Gaussian):
        numbers = {"mean": model.mean.tolist(), "covariance": model.covariance.tolist()}
        out = {"type": "gaussian", **numbers, "records": list(model.records)}
    elif isinstance(model, LimitedCorrelation):
        out = {"type": "limited_correlation", "records": model.records, "rho": model.rho}
    else:
        out = _records_to_dict(model) if isinstance(model, (RecordModel, AnyGroups)) else _series_to_dict(model)
    if model.fitted is not None:
        out["fitted"] = model.fitted
    return out


def _series_to_dict(model: MarkovChain | BinaryInterval | MarkovInterval) -> dict[str, Any]:
    out: dict[str, Any]
    if isinstance(model, MarkovChain):
        start = model.start if isinstance(model.start, str) else [float(p) for p in model.start]
        out = {"type": "markov_chain", "transition": model.transition.tolist(), "start": start}
    elif isinstance(model, BinaryInterval):
        out = {"type": "binary_interval", "low": model.low, "high": model.high}
    else:
        out = {"type": "markov_interval", "low": model.low.tolist(), "high": model.high.tolist()}
    for name in ("states", "values", "bins"):
        if getattr(model, name) is not None:
            out[name] = list(getattr(model, name))
    return out


def _records_to_dict(model: RecordModel | AnyGroups) -> dict[str, Any]:
    out: dict[str, Any]
    if isinstance(model, JointTable):
        numbers = model.values
        plain = numbers is not None and tuple(map(value_text, numbers)) == model.states  # 1 and not 1.00
        values: Sequence[float | str] = (plain and numbers) or model.states
        outcomes = [
            {"records": [values[x] for x in row], "probability": p}
            for row, p in zip(model.listed.tolist(), model.probabilities.tolist(), strict=True)
        ]
        return {"type": "joint", "values": list(values), "outcomes": outcomes, "records": list(model.records)}
    if isinstance(model, BayesianNetwork):
        nodes = [
            {"name": n.name, "states": list(n.states), "parents": list(n.parents), "table": n.table.tolist()}
            for n in model.nodes
        ]
        out = {"type": "bayesian_network", "nodes": nodes}
    elif isinstance(model, Pedigree):
        members = [{"id": m.id, "father": m.father, "mother": m.mother} for m in model.members]
        out = {"type": "pedigree", "members": members, "major_allele_frequency": model.major_allele_frequency}
    elif isinstance(model, Groups):
        laws = [law.tolist() for law in model.positives]
        out = {"type": "groups", "sizes": list(model.group_sizes), "positives": laws, "states": list(model.states)}
    elif isinstance(model, AnyGroups):
        out = {"type": "groups", "largest": model.largest, "states": list(model.states)}
    else:
        raise ModelError(f"{model!r} has no form as a file", value=model)
    if model.values is not None:
        out["values"] = dict(zip(model.labels, model.values, strict=True))
    return out


def model_digest(model: Model) -> str:
    """SHA-256 over the canonical form of a model."""
    return hashlib.sha256(canonical_json(model_to_dict(model)).encode()).hexdigest()


def save_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a model file, whole or not at all."""
    write_whole(path, json.dumps(model_to_dict(model), indent=1, ensure_ascii=False) + "\n")


def _kind(raw: object) -> str:
    return {list: "a list", str: "a text", type(None): "nothing", bool: "true or false"}.get(type(raw), "a number")
