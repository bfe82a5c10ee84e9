"""The command line: one small file a verb, no logic of its own."""

from __future__ import annotations

import os
import sys
from typing import Any


def main() -> None:
    """Run the command line, and end quietly when whoever reads the output goes away."""
    try:
        _main()
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain once more when it closes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _main() -> None:
    """Run the command line; errors are one sentence on stderr, with exit 2 (bad input) or 3 (refused)."""
    import typer

    from pufferdp.apps.cli.app import command_line
    from pufferdp.basics.errors import PufferdpError

    # Some releases of typer carry a click of their own, others use the one that is installed. What typer exports
    # leads to the right one: BadParameter < UsageError < ClickException.
    usage_error: type[Any] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
    try:
        code = command_line(sys.argv[1:])(standalone_mode=False, prog_name="pufferdp")
    except PufferdpError as error:
        _say(str(error))
        sys.exit(error.exit_code)
    except usage_error as error:
        message = error.format_message()
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message)
        else:
            _say(message)
        sys.exit(2)
    except (typer.Abort, KeyboardInterrupt):
        _say("stopped")
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _say(message: str) -> None:
    print(f"pufferdp: {' '.join(message.split())}", file=sys.stderr)
