"""The verbs, put together. Only the verb that is asked for is loaded, and heavy modules by the verb that needs them."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from pufferdp.basics.errors import ParameterError

VERBS: Final = {
    "plan": "Say how accurate a release will be, before any data is read.",
    "release": "Release an answer or a table, with its certificate.",
    "flip": "Sanitise a series record by record.",
    "estimate": "Estimate shares and transitions from flipped series.",
    "redact": "Publish a series, and hide some of its records.",
    "flow": "Release how a process moves between states.",
    "verify": "Recompute a certificate and say whether it holds.",
    "sign": "Sign a certificate that holds.",
    "leakage": "Say what DP leaks when records are correlated.",
    "robustness": "Say what a guarantee is worth if the model is wrong.",
    "attack": "Attack a privatised series and count the hits.",
    "audit": "Test a mechanism: does it leak more than it claims?",
    "fit": "Estimate a model from data.",
    "check": "Compare a model with data: what does its noise reveal?",
    "reproduce": "Recompute the tables and figures of the papers.",
    "serve": "Open the local page.",
    "demo": "Take a tour on a simulated week.",
    "ledger": "Keep the budget of a data set.",
}
"""What each does, for the list of all. Each is a module of the folder ``cli``, with a function or, of several verbs,
an application of the same name."""
_SHELLS: Final = ("bash", "zsh", "fish")
COMPLETE: Final = "_PUFFERDP_COMPLETE"
"""What a shell sets that asks how a word may go on."""
_MODULES: Final = {"check": "robustness", "sign": "verify"}
"""Verbs that share a module with another."""


_TAKES: Final = {
    "COLUMN": "column order by id truth keep",
    "FILE": "model models secrets alternative out figure report certificate key table signer losses profile "
    "series sign source after published rule tilted",
    "FOLDER": "data",
    "DURATION": "restart every window",
    "PLACE": "first last ledger",
    "NAME": "dataset adversary mechanism privacy method channel identity",
    "WORD": "missing start unit mark calibrate family sizes",
    "HASH": "head charge",
    "QUERY": "query queries",
    "A B": "clip",
    "A,B,…": "lengths split states groups people rho bins stream",
    "WHAT": "per private secret clock drift",
    "TEXT": "note",
}
"""What stands behind an option in the help, by its parameter; a number where nothing else is said."""
_WORDS: Final = {name: word for word, names in _TAKES.items() for name in names.split()}


def _take_texts(params: list[Any]) -> list[Any]:
    """Hand on what was typed: every option is a text, several texts or a flag, and a verb reads them in its own words.

    Some versions of typer make a validator of each option first, and load pydantic for it: a fifth of a plan's time.
    """
    for param in params:
        if not isinstance(param.process_value, partial):
            param.process_value = partial(_typed, param, param.process_value)
    return params


def _typed(param: Any, otherwise: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    if param.multiple or param.nargs == -1:
        value = tuple(value or ())
    texts = value if isinstance(value, (list, tuple)) else (value,)
    if (param.required and not value) or not all(isinstance(text, str | bool | None) for text in texts):
        return otherwise(context, value)  # it is missing, or no text
    return value if param.callback is None else param.callback(context, param, value)


class Verbs(TyperGroup):
    """The command line application."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options, --help among them."""
        return _take_texts(super().get_params(ctx))


class Verb(TyperCommand):
    """A verb that refuses a second --query where it answers one: it would be dropped in silence.

    Of other options the last counts, as everywhere: aliases and scripts rely on that.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for param in self.params:
            if param.metavar is None and param.param_type_name == "option" and not getattr(param, "is_flag", False):
                param.metavar = _WORDS.get(str(param.name), "NUMBER")

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options, --help among them."""
        return _take_texts(super().get_params(ctx))

    def get_help(self, ctx: Any) -> str:
        """The help, with arguments in capitals, as messages have them, in place of the types that typer writes."""
        text = re.sub(r"\{(\w+)\}", lambda name: name[1].upper(), super().get_help(ctx))
        usage, rest = text.split("\n", 1)
        usage = re.sub(r"\[(\w+)\]", lambda name: name[0].upper(), usage)
        rest = re.sub(
            r"(?m)^(  [a-z.]+)( <(list\[)?str\]?>)?(?=  )",
            lambda name: name[1].upper() + " " * len(name[2] or ""),
            rest.partition("\nOptions:")[0],
        ) + "".join(rest.partition("\nOptions:")[1:])
        return f"{usage}\n{rest}"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Count the queries, then read the options."""
        queries = sum(text == "--query" or text.startswith("--query=") for text in args)
        if queries > 1 and any(
            "--query" in param.opts and not getattr(param, "multiple", False) for param in self.params
        ):
            raise ParameterError(f"--query is given {queries} times, and one is answered here: leave the others out")
        return list(super().parse_args(ctx, args))


def command(arguments: Sequence[str]) -> Any:
    """What runs these arguments."""
    return _command(command_line(arguments))


@cache
def _command(app: typer.Typer) -> Any:
    """Kept, because typer reads the annotations of every option anew: a tenth of a short call in a loop."""
    return get_command(app)


def command_line(arguments: Sequence[str]) -> typer.Typer:
    """The application for these arguments: the verb that is named first; without arguments, all of them."""
    named, completing = arguments[0] if arguments else None, COMPLETE in os.environ
    # Without a verb in front nothing can run, unless options end before it: --help and typing errors need names alone.
    listed = named is not None and named not in VERBS and "--" not in arguments and not completing
    return _application(named if named in VERBS else None, listed, completing)


@cache
def _application(named: str | None, listed: bool, completing: bool) -> typer.Typer:
    app = typer.Typer(
        name="pufferdp",
        help="Publish statistics from correlated data with a guarantee that survives the correlation.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(cls=Verbs)(_options)
    if completing:  # a shell asks how a word may go on
        from typer.completion import get_completion_inspect_parameters

        get_completion_inspect_parameters()  # teaches typer the shells
    for verb in VERBS if named is None else (named,):
        command = getattr(importlib.import_module(f"pufferdp.apps.cli.{_MODULES.get(verb, verb)}"), verb)
        if listed:
            words = command.info.help if isinstance(command, typer.Typer) else command.__doc__
            app.command(name=verb, help=words, short_help=VERBS[verb])(_nothing)
        elif isinstance(command, typer.Typer):
            from pufferdp.apps.cli.options import expanded

            for registered in command.registered_commands:
                assert registered.callback is not None
                registered.cls, registered.callback = Verb, expanded(registered.callback)
            app.add_typer(command, name=verb, short_help=VERBS[verb])
        else:
            from pufferdp.apps.cli.options import expanded

            app.command(cls=Verb, short_help=VERBS[verb])(expanded(command))
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
    if shell == "zsh":  # a zsh without settings has no completion yet
        print("(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }")
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
            help='Print what Tab completion needs, for bash, zsh or fish: eval "$(pufferdp --completion bash)".',
        ),
    ] = None,
) -> None:
    """Publish statistics from correlated data with a guarantee that survives the correlation."""
