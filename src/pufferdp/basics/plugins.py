"""What packages add by entry points of Python packaging: kinds of publication, pages, renderers, mechanisms.

A lower layer finds an upper one here by name, so that it need not import it, and a package from outside adds its own in
the same way. Ours are listed in pyproject.toml.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pufferdp.basics.errors import ParameterError


@cache
def plugins(group: str) -> dict[str, object]:
    """Everything registered in a group, loaded, by name and in the order of names."""
    return {name: plugin(group, name) for name in _registered(group)}


@cache
def plugin(group: str, name: str) -> object:
    """One thing of a group, loaded; the others stay where they are."""
    registered = _registered(group)
    if name not in registered:
        known = ", ".join(registered) or "nothing"
        raise ParameterError(
            f"{name!r} is not registered in {group}, which has {known}; reinstall pufferdp if it was added since",
            value=name,
        )
    entry = registered[name]
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        package = "an unknown package" if entry.dist is None else entry.dist.name
        raise ParameterError(
            f"{name!r} of {group} cannot be loaded from {entry.value!r}: {error}; install {package} again, or "
            f"remove it",
            value=name,
        ) from error


def names(group: str) -> tuple[str, ...]:
    """What a group has, without loading it."""
    return tuple(_registered(group))


@cache
def _registered(group: str) -> dict[str, EntryPoint]:
    entries: dict[str, EntryPoint] = {}
    for entry in sorted(_installed().select(group=group), key=lambda entry: entry.name):
        other = entries.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise ParameterError(
                f"{entry.name!r} is registered twice in {group}: as {other.value!r} and as {entry.value!r}; "
                "remove one of the packages",
                value=entry.name,
            )
    return entries


@cache
def _installed() -> Any:
    """Those of all packages, whose files are read once. Their type depends on the version of Python; all can select."""
    return entry_points()
