"""A model for each person: one JSON object, a folder of files, or a table of JSON lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pufferdp.basics.errors import ModelError
from pufferdp.basics.files import JsonRuleError, found_text, parse_json, read_json
from pufferdp.models.base import Model
from pufferdp.models.files.json import load_model, model_from_dict

_LINES = (".jsonl", ".ndjson")


def load_models(path: str | os.PathLike[str]) -> dict[str, Model]:
    """Read the models of a fleet, by person.

    - a folder: ``PERSON.json`` for each person
    - a JSON file: ``{"PERSON": model, …}``
    - a ``.jsonl`` file: ``{"person": "PERSON", "model": model}`` in each line, or ``"people": ["A", "B"]`` for a model
      that several people share
    """
    where, models = Path(path), dict[str, Model]()
    if where.is_dir():
        pairs: Iterator[tuple[str, Model]] = ((file.stem, load_model(file)) for file in sorted(where.glob("*.json")))
    elif where.name.lower().endswith(_LINES):
        pairs = _of_lines(where)
    else:
        pairs = _of_object(where)
    for person, model in pairs:
        if person in models:
            raise ModelError(f"{str(path)!r} has two models for {person!r}; a person has one", value=person)
        models[person] = model
    if not models:
        raise ModelError(f"{str(path)!r} holds no model; one for each person is needed", value=path)
    return models


def _of_object(path: Path) -> Iterator[tuple[str, Model]]:
    raw = read_json(path, "file of models")
    if not isinstance(raw, dict) or isinstance(raw.get("type"), str):
        what = "one model" if isinstance(raw, dict) else found_text(raw)
        raise ModelError(
            f'{str(path)!r} holds {what}; it must hold a model for each person, {{"PERSON": {{…}}, …}}: '
            "for one model for all use model=",
            value=path,
        )
    for person, content in raw.items():
        yield person, _model(content, path, f"the model of {person!r}")


def _of_lines(path: Path) -> Iterator[tuple[str, Model]]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield from _of_line(line, path, number)
    except FileNotFoundError:
        raise ModelError(f"file of models {str(path)!r} does not exist", value=path) from None
    except UnicodeDecodeError:
        raise ModelError(f"{str(path)!r} is not text; it must be JSON in UTF-8", value=path) from None
    except OSError as error:
        raise ModelError(f"{str(path)!r} cannot be read: {error.strerror}", value=path) from None


def _of_line(line: str, path: Path, number: int) -> Iterator[tuple[str, Model]]:
    try:
        raw = parse_json(line)
    except JsonRuleError as error:
        raise ModelError(f"line {number} of {str(path)!r}: {error}", value=number) from None
    except (ValueError, RecursionError):
        raise ModelError(f"line {number} of {str(path)!r} is not JSON", value=number) from None
    people = [raw.get("person")] if isinstance(raw, dict) and "person" in raw else None
    if isinstance(raw, dict) and people is None:
        people = raw.get("people")
    if not isinstance(people, list) or not people or not all(isinstance(name, (str, int)) for name in people):
        raise ModelError(
            f"line {number} of {str(path)!r} is {found_text(raw)}; it must be "
            '{"person": "NAME", "model": {…}}, or have "people": ["NAME", …] for a model that they share',
            value=number,
        )
    model = _model(raw.get("model"), path, f"line {number}")
    for name in people:
        yield str(name), model


def _model(content: object, path: Path, where: str) -> Model:
    try:
        return model_from_dict(content, path.parent)
    except ModelError as error:
        raise ModelError(f"{path}, {where}: {error}", value=error.value) from None
