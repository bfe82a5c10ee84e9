"""``pufferdp reproduce``: a paper's table or figure, ours beside theirs."""

from __future__ import annotations

from typing import Annotated

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs
from pufferdp.basics.errors import ParameterError


def reproduce(
    name: Annotated[str | None, typer.Argument(help="An experiment, as --list shows them.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the experiments, as without a name.")] = False,
    data: Annotated[
        str | None, typer.Option("--data", envvar="PUFFERDP_DATA", help="Folder with the papers' data files.")
    ] = None,
    figure: options.FigureFile = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Recompute a paper's table or figure, with our numbers beside the paper's."""
    from pathlib import Path

    from pufferdp.apps.papers import EXPERIMENTS, experiment, listing, to_dict
    from pufferdp.apps.papers.base import Setting
    from pufferdp.apps.papers.page import experiment_panels

    if name is None or list_all:
        if name is not None or figure is not None:
            raise ParameterError("--list goes with no name and no --figure; leave it out to run an experiment")
        options.show({"experiments": [entry.to_dict() for entry in EXPERIMENTS]}, listing(), as_json)
        return
    chosen = experiment(name)
    outputs = Outputs({"figure": figure}, sources={"the data": data}, overwrite=overwrite)
    with options.progress() as progress:
        progress(f"computing {chosen.name}")
        result = chosen.run(Setting(None if data is None else Path(data), progress))
        text = f"{chosen.paper}\n{chosen.name}: {chosen.about}\n\n{result}"
        progress("drawing")
        outputs.show(
            to_dict(chosen, result), text, as_json, lambda path: experiment_panels(result, chosen.about).save(path)
        )
