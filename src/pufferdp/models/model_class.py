"""A class of models of the same records: the guarantee holds for every member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn

from pydantic import ValidationError

from pufferdp.basics.errors import ModelError
from pufferdp.basics.files import found_text
from pufferdp.models.base import Evidence, Model, RecordModel, model_types, records_of
from pufferdp.models.files.json import File, plain_errors
from pufferdp.models.inference import connected


class _ClassFile(File):
    type: Literal["class"]
    models: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelClass(RecordModel):
    """A list of models over the same records, states and values."""

    file_type: ClassVar[str | None] = "class"

    models: tuple[RecordModel, ...]
    """The members; the guarantee holds for each."""

    def __post_init__(self) -> None:
        models = tuple(self.models)
        if not models:
            raise ModelError("models is empty; a class needs at least one model")
        for n, model in enumerate(models, start=1):
            if not isinstance(model, RecordModel) or not model.single:
                raise ModelError(
                    f"model {n} of the class is {model!r}; a class holds models that know their records", value=model
                )
            for name, what in (("records", "records"), ("domains", "states"), ("values", "values")):
                if getattr(model, name) != getattr(models[0], name):
                    raise ModelError(f"model {n} of the class has different {what} from model 1; they must agree")
        object.__setattr__(self, "models", models)

    @property
    def alternatives(self) -> tuple[RecordModel, ...]:
        """The models of the class, as they were given."""
        return self.models

    @property
    def record_models(self) -> tuple[RecordModel, ...]:
        """The models of the class, each in the form that distributions are worked out in."""
        return tuple(member for model in self.models for member in model.record_models)

    @property
    def records(self) -> tuple[str, ...]:
        """Names of the records, which all models share."""
        return self.models[0].records

    @property
    def domains(self) -> tuple[tuple[str, ...], ...]:
        """The states of each record, which all models share."""
        return self.models[0].domains

    @property
    def values(self) -> tuple[float, ...] | None:
        """A number for each label, for sums and means."""
        return self.models[0].values

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

    @property
    def single(self) -> bool:
        """A class stays one, however few models it has."""
        return False

    @property
    def hereditary(self) -> bool:
        """Whether every model of the class is a pedigree."""
        return all(model.hereditary for model in self.models)

    def joint(self, records: Sequence[int], evidence: Evidence) -> NoReturn:
        """A class has no distribution of its own."""
        self._refuse()

    def outcomes(self) -> NoReturn:
        """A class has no distribution of its own."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ModelError(
            f"{self!r} is a class, and distributions are those of its models: ask each of them", value=self
        )

    def to_dict(self) -> dict[str, Any]:
        """The content of the file: every model by itself."""
        return {"type": self.file_type, "models": [model.to_dict() for model in self.models]}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> ModelClass:
        """The models of a file, each of a type that knows its records."""
        content = _ClassFile.model_validate(raw)
        types = {
            name: made for name, made in model_types().items() if issubclass(made, RecordModel) and made is not cls
        }
        for n, part in enumerate(content.models):
            kind = part.get("type")
            if not isinstance(kind, str) or kind not in types:
                raise ModelError(
                    f"models.{n}.type is {found_text(kind)}; it must be one of {', '.join(types)} "
                    f"(in a {cls.file_type} file)",
                    value=raw,
                )
        return cls(models=tuple(_member(types, part, n, folder) for n, part in enumerate(content.models)))

    def __repr__(self) -> str:
        n, m = len(self.models), len(self.records)
        return f"ModelClass({n} model{'s' * (n != 1)} of {m} record{'s' * (m != 1)})"


def _member(types: Mapping[str, type[Model]], raw: dict[str, Any], n: int, folder: Path | None) -> RecordModel:
    """One model of the class, from its part of the file."""
    try:
        built = records_of(types[raw["type"]].from_dict(raw, folder))
    except ValidationError as error:
        raise ModelError(f"{plain_errors(error, f'models.{n}')[0]} (in a class file)", value=raw) from None
    except ModelError as error:
        raise ModelError(f"model {n + 1} of the class: {error}", value=error.value) from None
    if built is None:
        raise ModelError(f"model {n + 1} of the class does not know its records; give sizes and positives")
    return built
