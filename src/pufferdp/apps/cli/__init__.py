"""The command line: one small file a verb, no logic of its own."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress
from typing import Any, Final

_NEW_OBJECTS: Final = 400_000
"""New objects after which Python looks for garbage. What is loaded stays, and by default it is looked through hundreds
of times, for a tenth of the time that a plan takes; a release of a small file makes fewer than this."""


def program() -> None:
    """What the script ``pufferdp`` runs: the command line, and with it the process.

    At its end Python takes apart all that was loaded, object by object, for a quarter of the time of a plan; the
    operating system does it at once. By then threads have ended and what others left to do at the end is done:
    of such functions, the first that is registered is called last.
    """
    from pufferdp.apps.start_up import note_start, tell_without_words

    note_start()
    tell_without_words()
    codes: list[int] = []
    atexit.register(_end, codes)
    try:
        main()
    except SystemExit as leaving:
        codes += [leaving.code] if isinstance(leaving.code, int) else []
        raise


def _end(codes: list[int]) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # closed by now, or never there
            stream.flush()
    if codes:  # none where something else than the command line ends the process
        os._exit(codes[0])


def main() -> None:
    """Run the command line; from a charge until its answer is out, Ctrl-C and its like wait."""
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    from pufferdp.apps.outputs import reason_of, silence
    from pufferdp.apps.signs import teach
    from pufferdp.basics.interrupts import anything_held, until_delivered

    _fill_closed()
    teach(sys.stdout, sys.stderr)
    with until_delivered() as signals:
        code = 0
        try:
            code = _run()
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError:  # the reader of the output has gone: end quietly
            silence(sys.stdout)
            code = code or 141
        except OSError as error:
            if error.filename is not None or anything_held():  # of a file, which no verb leaves to us
                code = _unexpected(error)
            else:
                silence(sys.stdout)
                _say(f"stdout cannot be written: {reason_of(error)}")
                code = code or 1
        except Exception as error:
            code = _unexpected(error)
    if signals and code == 0:
        _say("stopped; what was charged had been delivered by then")
        code = 128 + signals[0]
    sys.exit(code)


def _run() -> int:
    """Run the command line; errors are one sentence on stderr, with exit 1, 2 (bad input) or 3 (refused)."""
    import typer

    from pufferdp.apps.verbs import command
    from pufferdp.basics.errors import PufferdpError

    # Some releases of typer carry a click of their own, others use the one that is installed. What typer exports
    # leads to the right one: BadParameter < UsageError < ClickException.
    usage_error: type[Any] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
    try:
        code = command(sys.argv[1:])(standalone_mode=False, prog_name="pufferdp")
    except PufferdpError as error:
        _say(str(error))
        return error.exit_code
    except usage_error as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message())
        else:
            _say(_usage(error))
        return 2
    except (typer.Abort, KeyboardInterrupt):
        _say("stopped")
        return 130
    return code if isinstance(code, int) else 0


def _unexpected(error: Exception) -> int:
    """Say where it happened, and not in which words: those of a library may repeat data, exact counts among them."""
    from pufferdp.basics.interrupts import anything_held
    from pufferdp.basics.unexpected import describe_unexpected, stack_text

    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(stack_text(error))
    charged = "; it may have been charged, see pufferdp ledger show" if anything_held() else ""
    words = f"{describe_unexpected(error)}{charged}"
    _say(f"{words}; its words may repeat data and are left out: please report the lines above")
    return 1


def _usage(error: Any) -> str:
    """What typer finds wrong with a line, in the words of all other messages."""
    kind, message = type(error).__name__, str(error.format_message())
    help_of = f"see {error.ctx.command_path} --help" if getattr(error, "ctx", None) else "see pufferdp --help"
    if kind == "MissingParameter" and error.param is not None:
        name = error.param.opts[0] if error.param.param_type_name == "option" else str(error.param.name).upper()
        return f"{name} is missing; {help_of}"
    if kind == "NoSuchOption":
        from difflib import get_close_matches

        params = error.ctx.command.params if getattr(error, "ctx", None) else []
        first = [p for p in params if p.param_type_name == "argument" and f"--{p.name}" == error.option_name]
        if first:
            return f"there is no option {error.option_name}; {first[0].name.upper()} goes without one, {help_of}"
        near = get_close_matches(error.option_name, [name for param in params for name in param.opts], n=1, cutoff=0.7)
        return f"there is no option {error.option_name}; {f'did you mean {near[0]}?' if near else help_of}"
    if message.startswith("No such command"):
        from pufferdp.basics.words import did_you_mean

        word = message.partition("'")[2].partition("'")[0]
        known = error.ctx.command.list_commands(error.ctx)
        return f"there is no command {word!r}{did_you_mean(word, known) or f'; {help_of}'}"
    if kind == "BadOptionUsage" and "requires" in message:
        return f"{error.option_name} needs a value after it"
    if message.startswith("Got unexpected extra argument"):
        return f"{message.partition(' (')[2].rpartition(')')[0].strip('()') or 'a word'} was not expected; {help_of}"
    return message


def _say(message: str) -> None:
    if sys.stderr is not None:  # print would take stdout instead
        with suppress(OSError, ValueError):
            from pufferdp.apps.flags import flags
            from pufferdp.basics.words import visible

            print(f"pufferdp: {visible(flags(' '.join(message.splitlines())))}", file=sys.stderr, flush=True)


def _fill_closed() -> None:
    """Put nothing where stdin, stdout or stderr is closed: the next file that is opened would become it."""
    for handle in (0, 1, 2):
        try:
            os.fstat(handle)
        except OSError:
            with suppress(OSError):
                os.open(os.devnull, os.O_RDWR)
