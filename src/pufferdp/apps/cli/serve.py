"""``pufferdp serve``: the local page."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from pufferdp.apps.cli import options
from pufferdp.basics.errors import ParameterError
from pufferdp.basics.extras import install_advice


def serve(
    ledger: Annotated[
        str | None, typer.Option("--ledger", help="Ledger that releases may be charged to: a file, or postgresql://…")
    ] = None,
    port: Annotated[str, typer.Option("--port", help="Port of 127.0.0.1; a free one by default.")] = "0",
    browse: Annotated[bool, typer.Option("--open", help="Open the page in your browser.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the local page: plan, release, redact, flip, audit and keep the ledger, on this machine only."""
    from pufferdp.basics import checks

    number = checks.length(port, "port", least=0)
    if ledger is not None:
        from pufferdp.ledger.ledger import Ledger

        with Ledger(ledger) as budget_ledger:  # one that is not there is refused now
            budget_ledger.names()
    try:
        from pufferdp.apps.web.app import doorway
        from pufferdp.apps.web.app import serve as start
    except ModuleNotFoundError as error:
        raise ParameterError(
            f"the page needs {error.name}; install it with: {install_advice('web')}", value=error.name
        ) from None

    def ready(url: str) -> None:
        if as_json:
            print(json.dumps({"url": url}), flush=True)
        else:
            print(f"pufferdp is at {url}\nIt answers on this machine only, to anyone who has this address.", flush=True)
            print("Nothing leaves the machine. Ctrl-C ends it, and what was uploaded is forgotten.", flush=True)
        if browse:
            import webbrowser

            webbrowser.open(doorway(url).as_uri())

    start(port=number, ledger=ledger, ready=ready)
    sys.stdout.flush()
