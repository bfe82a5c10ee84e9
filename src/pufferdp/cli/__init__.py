"""The command line: one small file a verb, no logic of its own."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; errors are one sentence on stderr, with exit 2 (bad input) or 3 (refused)."""
    import click

    from pufferdp.cli.app import app
    from pufferdp.errors import PufferdpError

    try:
        code = app(standalone_mode=False)
    except PufferdpError as error:
        _say(str(error))
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        sys.exit(2)
    except click.ClickException as error:
        _say(error.format_message())
        sys.exit(2)
    except (click.exceptions.Abort, KeyboardInterrupt):
        _say("stopped")
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
    sys.exit(code if isinstance(code, int) else 0)


def _say(message: str) -> None:
    print(f"pufferdp: {' '.join(message.split())}", file=sys.stderr)
