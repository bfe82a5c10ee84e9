"""The verbs, put together. Only the verb that is asked for is loaded, and heavy modules by the verb that needs them."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from pufferdp.basics.errors import ParameterError

VERBS: Final = (
    "plan",
    "release",
    "flip",
    "estimate",
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
"""Each is a module of the folder ``cli``, with a function or, of several verbs, an application of the same name."""
_SHELLS: Final = ("bash", "zsh", "fish")
COMPLETE: Final = "_PUFFERDP_COMPLETE"
"""What a shell sets that asks how a word may go on."""
_MODULES: Final = {"sign": "verify"}
"""Verbs that share a module with another."""


class OneQuery(TyperCommand):
    """A verb that refuses a second --query where it answers one: it would be dropped in silence.

    Of other options the last counts, as everywhere: aliases and scripts rely on that.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Count the queries, then read the options."""
        queries = sum(text == "--query" or text.startswith("--query=") for text in args)
        if queries > 1 and any(
            "--query" in param.opts and not getattr(param, "multiple", False) for param in self.params
        ):
            raise ParameterError(f"--query is given {queries} times, and one is answered here: leave the others out")
        return list(super().parse_args(ctx, args))


def command_line(arguments: Sequence[str]) -> typer.Typer:
    """The application for these arguments: the verb that is named first; without arguments, all of them."""
    app = typer.Typer(
        name="pufferdp",
        help="Publish statistics from correlated data with a guarantee that survives the correlation.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    if COMPLETE in os.environ:  # a shell asks how a word may go on
        from typer.completion import get_completion_inspect_parameters

        get_completion_inspect_parameters()  # teaches typer the shells
    named = arguments[0] if arguments else None
    # Without a verb in front nothing can run, unless options end before it: --help and typing errors need names alone.
    listed = named is not None and named not in VERBS and "--" not in arguments and COMPLETE not in os.environ
    for verb in (named,) if named in VERBS else VERBS:
        command = getattr(importlib.import_module(f"pufferdp.apps.cli.{_MODULES.get(str(verb), verb)}"), str(verb))
        if listed:
            words = command.info.help if isinstance(command, typer.Typer) else command.__doc__
            app.command(name=verb, help=words)(_nothing)
        elif isinstance(command, typer.Typer):
            for registered in command.registered_commands:
                registered.cls = OneQuery
            app.add_typer(command, name=verb)
        else:
            app.command(cls=OneQuery)(command)
    return app


def _nothing() -> None:
    """Stands for a verb that is only named; the options of all verbs take longer to set up than the rest of --help."""


def _version(value: bool) -> None:
    if value:
        import pufferdp

        print(pufferdp.__version__)
        raise typer.Exit


def _completion(context: typer.Context, shell: str | None) -> None:
    if shell is None:
        return
    if shell not in _SHELLS:
        raise ParameterError(f"completion is {shell!r}; it must be one of {', '.join(_SHELLS)}", value=shell)
    from typer.completion import get_completion_inspect_parameters, shell_complete

    get_completion_inspect_parameters()  # teaches typer the shells
    shell_complete(context.command, {}, "pufferdp", COMPLETE, f"source_{shell}")
    raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    completion: Annotated[
        str | None,
        typer.Option(
            "--completion",
            callback=_completion,
            is_eager=True,
            metavar="SHELL",
            help='Print what lets bash, zsh or fish complete words: eval "$(pufferdp --completion bash)".',
        ),
    ] = None,
) -> None:
    """Publish statistics from correlated data with a guarantee that survives the correlation."""
