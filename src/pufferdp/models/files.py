"""Model files: JSON in and out, one key a property."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from pufferdp.errors import ModelError, ParameterError
from pufferdp.models.classes import BinaryInterval, MarkovClass, MarkovInterval, Model
from pufferdp.models.collection import ModelClass
from pufferdp.models.gaussian import Gaussian, LimitedCorrelation
from pufferdp.models.groups import AnyGroups, Groups
from pufferdp.models.joint import JointTable, value_text
from pufferdp.models.markov import MarkovChain
from pufferdp.models.network import BayesianNetwork
from pufferdp.models.pedigree import Pedigree
from pufferdp.models.records import RecordModel
from pufferdp.models.schemas import CONTENT, TYPES


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model file."""
    raw = read_json(path, "model file")
    try:
        return model_from_dict(raw, Path(path).parent)
    except ModelError as error:
        raise ModelError(f"{path}: {error}", value=error.value) from None


def read_json(path: str | os.PathLike[str], what: str) -> object:
    """The content of a JSON file that a person wrote."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # some editors put a byte order mark first
    except FileNotFoundError:
        raise ModelError(f"{what} {str(path)!r} does not exist", value=path) from None
    except IsADirectoryError:
        raise ModelError(f"{what} {str(path)!r} is a folder; name the JSON file in it", value=path) from None
    except UnicodeDecodeError:
        raise ModelError(f"{what} {str(path)!r} is not text; it must be JSON in UTF-8", value=path) from None
    except OSError as error:
        raise ModelError(f"{what} {str(path)!r} cannot be read: {error.strerror}", value=path) from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ModelError(f"{what} {str(path)!r} is not JSON: it breaks off at {where}", value=path) from None
    except (ValueError, RecursionError):
        raise ModelError(f"{what} {str(path)!r} is not JSON: a number is too long or the nesting too deep") from None


def model_from_dict(raw: object, folder: str | os.PathLike[str] = ".") -> Model:
    """A model from the content of its file; a BIF or PED file it names is looked for from the folder."""
    if not isinstance(raw, dict):
        raise ModelError(f"a model file holds one JSON object; this one holds {_kind(raw)}", value=raw)
    kind = raw.get("type")
    if kind is None:
        raise ModelError(f"type is missing; it must be one of {', '.join(TYPES)}", value=raw)
    if not isinstance(kind, str) or kind not in TYPES:
        raise ModelError(f"type is {found_text(kind)}; it must be one of {', '.join(TYPES)}", value=kind)
    try:
        return CONTENT.validate_python(raw).build(Path(folder))
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
    if endings and not target.name.lower().endswith(endings):
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
