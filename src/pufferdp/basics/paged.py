"""Results that have a page: printed, and shown by a notebook, without knowing who words or sets it.

A page is found by the name of the result's class in the entry points ``pufferdp.pages``, or that of a class it derives
from; what sets it in ``pufferdp.renderers``.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sized
from dataclasses import fields, is_dataclass
from enum import Enum
from reprlib import Repr
from typing import Any, Final

from pufferdp.basics.files import write_whole
from pufferdp.basics.plugins import names, plugin

_SHORT: Final = Repr()
_SHORT.maxlist = _SHORT.maxtuple = 4
_SHORT.maxstring = 40


class Displayed:
    """Shown by a notebook as its page, and saved as JSON; it prints in its own way."""

    def _repr_html_(self) -> str:
        return rendered(self, "notebook")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what the command line writes: JSON, with the certificate where there is one; whole or not at all."""
        content = getattr(self, "to_dict", None)
        assert callable(content)  # everything that is displayed has one
        write_whole(path, json.dumps(content(), indent=1, ensure_ascii=False) + "\n")


class Paged(Displayed):
    """A result that is put into words by its page; ``repr`` is one short line."""

    def __init_subclass__(cls, **options: Any) -> None:
        # Here, because a dataclass writes a repr of its own, with every number in it, unless its class has one.
        super().__init_subclass__(**options)
        if "__repr__" not in cls.__dict__:
            type.__setattr__(cls, "__repr__", short_repr if cls.__repr__ is object.__repr__ else cls.__repr__)

    def __str__(self) -> str:
        return rendered(self, "terminal")


def json_values(thing: object, names: str) -> dict[str, Any]:
    """Some attributes by name as JSON has them; the names with blanks between."""
    return {name: json_value(getattr(thing, name)) for name in names.split()}


def json_value(value: Any) -> Any:
    """A value as JSON has it: null for infinite numbers, lists for tuples, what ``to_dict`` says of other objects."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, tuple | list):
        return [json_value(item) for item in value]
    if isinstance(value, Mapping):
        return {name: json_value(item) for name, item in value.items()}
    return str(value) if isinstance(value, Enum) else value


def short_repr(result: object) -> str:
    """The class and its fields, short enough for a line or two: ``str`` has the whole."""
    given = [(field, getattr(result, field.name)) for field in (fields(result) if is_dataclass(result) else ())]
    shown = [
        f"{field.name}={_brief(value)}"
        for field, value in given
        if field.repr and value is not None and not (isinstance(value, tuple) and not value)
    ]
    return f"{type(result).__name__}({', '.join(shown)})"


def _brief(value: object) -> str:
    if isinstance(value, (bool, int, float, str)):
        return _SHORT.repr(value)
    if isinstance(value, (list, tuple)) and all(isinstance(item, (bool, int, float, str)) for item in value):
        return _SHORT.repr(value)
    return f"{type(value).__name__}({'…' if not isinstance(value, Sized) else f'{len(value)} entries'})"


def page_maker(kind: type) -> Callable[..., Any] | None:
    """What makes the page of results of this type; None where nobody has one."""
    known = names("pufferdp.pages")
    for base in kind.__mro__:
        if base.__name__ in known:
            maker = plugin("pufferdp.pages", base.__name__)
            assert callable(maker)
            return maker
    return None


def rendered(result: object, renderer: str, **options: object) -> str:
    """The page of a result as text: for a terminal or a notebook."""
    maker, render = page_maker(type(result)), plugin("pufferdp.renderers", renderer)
    assert callable(render)
    if maker is None:
        raise TypeError(f"{type(result).__name__} has no page: register one in the entry points pufferdp.pages")
    return str(render(maker(result), **options))
