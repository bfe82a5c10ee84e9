"""Model files: JSON in and out, with the keys of the blueprint."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pufferdp.errors import ModelError
from pufferdp.models.classes import BinaryInterval, MarkovClass, MarkovInterval, Model
from pufferdp.models.markov import MarkovChain

Row = list[float]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=True)


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

    def build(self) -> MarkovChain:
        return MarkovChain(transition=self.transition, start=self.start, **self.common())  # type: ignore[arg-type]  # validated when made


class _Class(_File):
    type: Literal["markov_class"]
    models: list[_Chain]

    def build(self) -> MarkovClass:
        return MarkovClass(models=tuple(m.build() for m in self.models))


class _Binary(_States):
    type: Literal["binary_interval"]
    low: float
    high: float

    def build(self) -> BinaryInterval:
        return BinaryInterval(low=self.low, high=self.high, **self.common())


class _Interval(_States):
    type: Literal["markov_interval"]
    low: list[Row]
    high: list[Row]

    def build(self) -> MarkovInterval:
        return MarkovInterval(low=self.low, high=self.high, **self.common())  # type: ignore[arg-type]  # validated when made


_TYPES = {"markov_chain": _Chain, "markov_class": _Class, "binary_interval": _Binary, "markov_interval": _Interval}
_ANY: TypeAdapter[_Chain | _Class | _Binary | _Interval] = TypeAdapter(
    Annotated[_Chain | _Class | _Binary | _Interval, Field(discriminator="type")]
)


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ModelError(f"model file {str(path)!r} does not exist", value=path) from None
    except IsADirectoryError:
        raise ModelError(f"model file {str(path)!r} is a folder; name the JSON file in it", value=path) from None
    except UnicodeDecodeError:
        raise ModelError(f"model file {str(path)!r} is not text; it must be JSON in UTF-8", value=path) from None
    except OSError as error:
        raise ModelError(f"model file {str(path)!r} cannot be read: {error.strerror}", value=path) from None
    try:
        raw = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        where = f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "nesting"
        raise ModelError(f"model file {str(path)!r} is not JSON: it breaks off at {where}", value=path) from None
    try:
        return model_from_dict(raw)
    except ModelError as error:
        raise ModelError(f"{path}: {error}", value=error.value) from None


def model_from_dict(raw: object) -> Model:
    """A model from the content of its file."""
    if not isinstance(raw, dict):
        raise ModelError(f"a model file holds one JSON object; this one holds {_kind(raw)}", value=raw)
    if raw.get("type") not in _TYPES:
        raise ModelError(f"type is {raw.get('type')!r}; it must be one of {', '.join(_TYPES)}", value=raw.get("type"))
    try:
        return _ANY.validate_python(raw).build()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "the file"
        if first["type"] == "extra_forbidden":
            raise ModelError(f"{where} is not a key of a {raw['type']} file", value=where) from None
        if first["type"] == "missing":
            raise ModelError(f"{where} is missing; a {raw['type']} file needs it", value=where) from None
        found = json.dumps(first["input"], default=str)[:60]
        raise ModelError(f"{where} is {found}; {first['msg'].lower()}", value=first["input"]) from None


def model_to_dict(model: Model) -> dict[str, Any]:
    """The content of a model's file: everything needed to make it again."""
    if isinstance(model, MarkovClass):
        return {"type": "markov_class", "models": [model_to_dict(m) for m in model.models]}
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
    if model.fitted is not None:
        out["fitted"] = model.fitted
    return out


def model_digest(model: Model) -> str:
    """SHA-256 over the canonical form of a model."""
    return hashlib.sha256(canonical_json(model_to_dict(model)).encode()).hexdigest()


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces: one text for one content."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def save_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a model file, whole or not at all."""
    write_whole(path, json.dumps(model_to_dict(model), indent=1, ensure_ascii=False) + "\n")


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a file beside its place and move it there, so that nobody ever sees half of it."""
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with beside.open("w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ModelError(f"{str(target)!r} cannot be written: {error.strerror}", value=path) from None


def _kind(raw: object) -> str:
    return {list: "a list", str: "a text", type(None): "nothing"}.get(type(raw), "a number")
