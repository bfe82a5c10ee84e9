"""The verbs, put together. Only the verb that is asked for is loaded, and heavy modules by the verb that needs them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Annotated, Final

import typer

VERBS: Final = (
    "plan",
    "release",
    "flip",
    "redact",
    "flow",
    "verify",
    "sign",
    "leakage",
    "robustness",
    "attack",
    "audit",
    "fit",
    "reproduce",
    "serve",
    "demo",
    "ledger",
)
"""Each is a module of this folder, with a function or, of several verbs, an application of the same name."""
_MODULES: Final = {"sign": "verify"}
"""Verbs that share a module with another."""


def command_line(arguments: Sequence[str]) -> typer.Typer:
    """The application for these arguments: the verb that is named first, or all of them where none is."""
    app = typer.Typer(
        name="pufferdp",
        help="Publish statistics from correlated data with a guarantee that survives the correlation.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    named = arguments[0] if arguments else None
    for verb in (named,) if named in VERBS else VERBS:
        command = getattr(importlib.import_module(f"pufferdp.apps.cli.{_MODULES.get(str(verb), verb)}"), str(verb))
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=verb)
        else:
            app.command()(command)
    return app


def _version(value: bool) -> None:
    if value:
        import importlib.metadata

        print(importlib.metadata.version("pufferdp"))
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Publish statistics from correlated data with a guarantee that survives the correlation."""
