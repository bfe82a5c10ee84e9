"""Results that have a page: printed, and shown by a notebook, without knowing who words or sets it.

A page is found by the name of the result's class in the entry points ``pufferdp.pages``, or that of a class it derives
from; what sets it in ``pufferdp.renderers``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pufferdp.basics.plugins import names, plugin


class Paged:
    """A result that is put into words by its page."""

    def __str__(self) -> str:
        return rendered(self, "terminal")

    def _repr_html_(self) -> str:
        return rendered(self, "notebook")


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
