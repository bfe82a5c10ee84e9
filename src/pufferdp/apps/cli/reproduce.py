"""``pufferdp reproduce``: a paper's table or figure, ours beside theirs."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs
from pufferdp.basics.errors import ParameterError

_GROUP: Final = "pufferdp.experiments"


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

    papers = _installed_papers()
    if name is None or list_all:
        if name is not None or figure is not None:
            raise ParameterError("--list goes with no name and no --figure; leave it out to run an experiment")
        stated = [entry.to_dict() for entry in papers.EXPERIMENTS]
        options.show({"experiments": stated}, papers.listing(), as_json)
        return
    chosen = papers.experiment(name)
    outputs = Outputs({"figure": figure}, sources={"the data": data}, overwrite=overwrite)
    with options.progress() as progress:
        progress(f"computing {chosen.name}")
        result = chosen.run(papers.Setting(None if data is None else Path(data), progress))
        text = f"{chosen.paper}\n{chosen.name}: {chosen.about}\n\n{result}"
        progress("drawing")
        outputs.show(papers.to_dict(chosen, result), text, as_json, lambda path: result.panels(chosen.about).save(path))


def _installed_papers() -> Any:
    """The module of the distribution ``pufferdp-papers``, found by its entry point."""
    from pufferdp.basics.plugins import names, plugin

    if "papers" not in names(_GROUP):
        from pufferdp.basics.extras import checkout_folder

        checkout = checkout_folder()
        source = "pufferdp-papers" if checkout is None else f"'{checkout / 'papers'}'"
        raise ParameterError(f"reproduce needs the package pufferdp-papers: pip install {source}")
    return plugin(_GROUP, "papers")
