"""Model files: JSON in and out, one key a property."""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pufferdp.errors import ModelError, ParameterError
from pufferdp.models.classes import BinaryInterval, MarkovClass, MarkovInterval, Model
from pufferdp.models.markov import MarkovChain, number_array

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
        table = number_array(self.transition, "transition")
        return MarkovChain(transition=table, start=self.start, **self.common())


class _Class(_File):
    type: Literal["markov_class"]
    models: list[_Chain]

    def build(self) -> MarkovClass:
        return MarkovClass(models=tuple(self._member(n, m) for n, m in enumerate(self.models, start=1)))

    @staticmethod
    def _member(n: int, model: _Chain) -> MarkovChain:
        try:
            return model.build()
        except ModelError as error:
            raise ModelError(f"model {n} of the class: {error}", value=error.value) from None


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
        low, high = number_array(self.low, "low"), number_array(self.high, "high")
        return MarkovInterval(low=low, high=high, **self.common())


_TYPES = {"markov_chain": _Chain, "markov_class": _Class, "binary_interval": _Binary, "markov_interval": _Interval}
_ANY: TypeAdapter[_Chain | _Class | _Binary | _Interval] = TypeAdapter(
    Annotated[_Chain | _Class | _Binary | _Interval, Field(discriminator="type")]
)


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model file."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # some editors put a byte order mark first
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
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ModelError(f"model file {str(path)!r} is not JSON: it breaks off at {where}", value=path) from None
    except (ValueError, RecursionError):
        raise ModelError(
            f"model file {str(path)!r} is not JSON: a number is too long or the nesting too deep"
        ) from None
    try:
        return model_from_dict(raw)
    except ModelError as error:
        raise ModelError(f"{path}: {error}", value=error.value) from None


def model_from_dict(raw: object) -> Model:
    """A model from the content of its file."""
    if not isinstance(raw, dict):
        raise ModelError(f"a model file holds one JSON object; this one holds {_kind(raw)}", value=raw)
    kind = raw.get("type")
    if kind is None:
        raise ModelError(f"type is missing; it must be one of {', '.join(_TYPES)}", value=raw)
    if not isinstance(kind, str) or kind not in _TYPES:
        raise ModelError(f"type is {found_text(kind)}; it must be one of {', '.join(_TYPES)}", value=kind)
    try:
        return _ANY.validate_python(raw).build()
    except ValidationError as error:
        first = plain_errors(error, skip=1)[0]
        raise ModelError(f"{first} (in a {kind} file)", value=raw) from None


def found_text(value: object) -> str:
    """A value as it stands in a JSON file, cut where it is long."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:60] + "…"


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
        parts = [p for p in one["loc"][skip:] if isinstance(p, int) or re.fullmatch(r"(?!(str|int|float)$)\w+", p)]
        where, kinds = ".".join(str(p) for p in parts) or "the content", len(parts) < len(one["loc"]) - skip
        if one["type"] == "extra_forbidden":
            said = f"{where} is not a key that is known here"
        elif one["type"] == "missing":
            said = f"{where} is missing; it is needed"
        elif where == "start" or (kinds and where.startswith("start.")):
            said = f'{where} is {found_text(one["input"])}; it must be "stationary", "any" or a list of numbers'
        elif one["type"] == "literal_error":
            said = f"{where} is {found_text(one['input'])}; it must be {one['ctx']['expected']}"
        else:
            rule = "of another kind" if kinds else _RULES.get(one["type"], "of another kind")
            said = f"{where} is {found_text(one['input'])}; it must be {rule}"
        if said not in out:
            out.append(said)
    return out


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


def check_file(path: str | os.PathLike[str], name: str, endings: tuple[str, ...] = ()) -> None:
    """Refuse a place where no file can be written, before the work that would fill it."""
    text, target = os.fspath(path), Path(path)
    if not target.name or target.is_dir():
        raise ParameterError(
            f"{name} is {text!r}, which is not a file name but a folder; name a file in it", value=path
        )
    if endings and target.suffix.lower() not in endings:
        raise ParameterError(f"{name} is {text!r}; its name must end in one of {', '.join(endings)}", value=path)
    if not target.parent.is_dir():
        raise ParameterError(
            f"{name} is {text!r}, but there is no folder {str(target.parent)!r}; make it first", value=path
        )


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a file beside its place and move it there, so that nobody ever sees half of it."""
    check_file(path, "out")
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with beside.open("w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(target)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise ParameterError(f"{str(target)!r} cannot be written: {error.strerror}", value=path) from None


def _kind(raw: object) -> str:
    return {list: "a list", str: "a text", type(None): "nothing", bool: "true or false"}.get(type(raw), "a number")
