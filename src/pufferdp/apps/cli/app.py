"""The verbs, put together. Heavy modules are imported by the verb that needs them, so ``--help`` is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from pufferdp.apps.cli.attack import attack
from pufferdp.apps.cli.audit import audit
from pufferdp.apps.cli.demo import demo
from pufferdp.apps.cli.fit import fit
from pufferdp.apps.cli.flip import flip
from pufferdp.apps.cli.flow import flow
from pufferdp.apps.cli.leakage import leakage
from pufferdp.apps.cli.ledger import ledger
from pufferdp.apps.cli.plan import plan
from pufferdp.apps.cli.redact import redact
from pufferdp.apps.cli.release import release
from pufferdp.apps.cli.reproduce import reproduce
from pufferdp.apps.cli.robustness import robustness
from pufferdp.apps.cli.serve import serve
from pufferdp.apps.cli.verify import verify

app = typer.Typer(
    name="pufferdp",
    help="Publish statistics from correlated data with a guarantee that survives the correlation.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(value: bool) -> None:
    if value:
        import importlib.metadata

        print(importlib.metadata.version("pufferdp"))
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Publish statistics from correlated data with a guarantee that survives the correlation."""


for verb in (
    plan, release, flip, redact, flow, verify, leakage, robustness, attack, audit, fit, reproduce, serve, demo,
):  # fmt: skip
    app.command()(verb)
app.add_typer(ledger, name="ledger")
