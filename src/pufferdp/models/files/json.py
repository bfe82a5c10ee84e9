"""Model files: JSON in and out, one key a property. Each model says how its own file is read and written."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from pufferdp.basics.errors import ModelError
from pufferdp.basics.files import canonical_json, check_values, found_text, read_json, write_whole
from pufferdp.basics.words import a_kind
from pufferdp.models.base import Model, model_type, type_names

Row = list[float]


class File(BaseModel):
    """The content of a file, or a part of it: keys that are not known are refused, and nothing is converted."""

    # Many kinds of content are declared, and one run reads a few of them: each is prepared when it is first read.
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=True, defer_build=True)


def beside(folder: Path | None, name: str) -> Path:
    """A file that a model file names; only who owns the model file says where it lies."""
    if folder is None:
        raise ModelError(
            f"the model names another file, {name!r}, and only a model file may do so: give the model by value, with "
            "its tables in it",
            value=name,
        )
    return folder / name


def load_model(path: str | os.PathLike[str]) -> Model:
    """The model of a JSON file; a BIF or PED file that it names is read from the same folder."""
    raw = read_json(path, "model file")
    if isinstance(raw, dict):
        raw = _model_keys(raw)
    try:
        return model_from_dict(raw, Path(path).parent)
    except ModelError as error:
        raise ModelError(f"{path}: {error}", value=error.value) from None


ModelLike = Model | str | os.PathLike[str] | dict[str, Any]
"""A model, the path of its file, or its content; a fit has a model too."""


def as_model(model: object, name: str = "model") -> Model:
    """The model that is meant: itself, that of a file, of a file's content, or of a fit."""
    if isinstance(model, Model):
        return model
    if isinstance(model, (str, os.PathLike)):
        return load_model(model)
    if isinstance(model, dict):
        return model_from_dict(_model_keys(model))
    fitted = getattr(model, "model", None)
    if isinstance(fitted, Model):
        return fitted
    raise ModelError(
        f"{name} is {a_kind(model)}; it must be a model, the path of a model file, its content as a dict, or a fit",
        value=model,
    )


def _model_keys(content: dict[str, Any]) -> dict[str, Any]:
    """The content without the tests and families that ``fit --json`` prints beside the model."""
    return {key: value for key, value in content.items() if key not in ("families", "tests")}


def model_from_dict(raw: object, folder: str | os.PathLike[str] | None = None) -> Model:
    """A model by value. The owner of a model file may give its folder, where a BIF or PED file it names is read.

    Without a folder no file is opened: a certificate or a ledger from a stranger could name any file of the reader.
    """
    if not isinstance(raw, dict):
        raise ModelError(f"a model file holds one JSON object; this one holds {_kind(raw)}", value=raw)
    kind, types = raw.get("type"), type_names()
    if kind is None:
        raise ModelError(f"type is missing; it must be one of {', '.join(types)}", value=raw)
    if not isinstance(kind, str) or kind not in types:
        raise ModelError(f"type is {found_text(kind)}; it must be one of {', '.join(types)}", value=kind)
    try:
        model = model_type(kind).from_dict(raw, None if folder is None else Path(folder))
    except ValidationError as error:
        raise ModelError(f"{plain_errors(error)[0]} (in a {kind} file)", value=raw) from None
    # What its own checks have passed over: names and facts that could not be written down again.
    check_values(raw, ModelError, "the model")
    check_values(raw.get("fitted"), ModelError, "fitted", finite=True)
    return model


_MOST_ERRORS: Final = 1000
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


def plain_errors(error: ValidationError, within: str = "") -> list[str]:
    """What is wrong with a file, key by key, in our own words; ``within`` is the place of what was looked at."""
    out: list[str] = []
    if error.error_count() > _MOST_ERRORS:  # listing a million takes a gigabyte
        return [f"{within or 'the content'} has {error.error_count():,} values that do not belong there"]
    for problem in error.errors(include_url=False):
        # Where a value may be of several kinds, each kind adds its own name to the place; people did not write it.
        loc = problem["loc"]
        parts = [p for p in loc if isinstance(p, int) or re.fullmatch(r"(?!(str|int|float)$)\w+", p)]
        where, kinds = ".".join([*filter(None, [within]), *map(str, parts)]) or "the content", len(parts) < len(loc)
        if problem["type"] == "extra_forbidden":
            sentence = f"{where} is not a key known here"
        elif problem["type"] == "missing":
            sentence = f"{where} is missing; it is needed"
        elif where == "start" or (kinds and where.startswith("start.")):
            sentence = f'{where} is {found_text(problem["input"])}; it must be "stationary", "any" or a list of numbers'
        elif problem["type"] == "literal_error":
            sentence = f"{where} is {found_text(problem['input'])}; it must be {problem['ctx']['expected']}"
        else:
            rule = "of another kind" if kinds else _RULES.get(problem["type"], "of another kind")
            sentence = f"{where} is {found_text(problem['input'])}; it must be {rule}"
        if sentence not in out:
            out.append(sentence)
    return out


def model_to_dict(model: Model) -> dict[str, Any]:
    """The content of a model's file: everything needed to make it again, without any other file."""
    return model.to_dict()


def model_digest(model: Model) -> str:
    """SHA-256 over the canonical form of a model."""
    return hashlib.sha256(canonical_json(model_to_dict(model)).encode()).hexdigest()


def save_model(model: ModelLike, path: str | os.PathLike[str]) -> None:
    """Write a model file, whole or not at all."""
    write_whole(path, json.dumps(model_to_dict(as_model(model)), indent=1, ensure_ascii=False) + "\n")


def _kind(raw: object) -> str:
    return {list: "a list", str: "a text", type(None): "nothing", bool: "true or false"}.get(type(raw), "a number")
