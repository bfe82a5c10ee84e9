"""``pufferdp demo``: the whole tour on data the package carries."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.flags import methods
from pufferdp.apps.outputs import Outputs

if TYPE_CHECKING:
    from pufferdp.publish.answers.plan import Plan
    from pufferdp.publish.answers.publication import Release


def demo(
    out: Annotated[
        str, typer.Option("--out", metavar="FOLDER", help="Folder for the files of the tour.")
    ] = "pufferdp-demo",
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Plan, release and verify on a simulated week of one wearer's activity."""
    from pufferdp.apps import demo as bundled
    from pufferdp.basics.errors import ParameterError
    from pufferdp.models.files.json import load_model
    from pufferdp.publish.answers.plan import plan
    from pufferdp.publish.release import release
    from pufferdp.publish.verify import verify
    from pufferdp.report.pages.answers import plan_comparison, release_chart

    here, folder = Path(bundled.__file__).parent, Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "it is a file" if folder.is_file() else error.strerror
        raise ParameterError(f"folder {out!r} cannot be made: {reason}; name another with --out", value=out) from None
    inputs = {name: (here / name).read_bytes() for name in ("week.csv", "wearer.json")}
    # Inputs of an earlier tour are as good as new ones.
    new = [name for name, content in inputs.items() if not (folder / name).is_file() or _read(folder / name) != content]
    outputs = Outputs(
        {name: str(folder / name) for name in (*new, "plan.png", "release.png", "release.json")}, overwrite=overwrite
    )
    with options.progress() as progress:
        model = load_model(here / "wearer.json")
        planned = plan(model, "histogram", epsilon=1.0, length=7 * 288, progress=progress)
        done = release(
            here / "week.csv",
            model=model,
            column="activity",
            order="time",
            query="histogram",
            epsilon=1.0,
            progress=progress,
        )
        checked = verify(done.certificate)
        result = {
            "plan": planned.to_dict(),
            "release": done.to_dict(),
            "verification": checked.to_dict(),
            "folder": str(folder),
        }
        with outputs.delivery(result) as delivery:
            for name in new:
                delivery.write(name, partial(Path.write_bytes, data=inputs[name]))
            delivery.json("release.json", result["release"])
            progress("drawing figures")
            try:
                delivery.write("plan.png", plan_comparison(planned.to_dict()).save)
                delivery.write("release.png", release_chart(done.certificate.to_dict()).save)
                figures = ", plan.png, release.png."
            except ParameterError as error:  # matplotlib is an extra; the tour goes on without it
                figures = f". No figures: {error}."
            delivery.show(result, lambda: _text(folder, planned, done, checked.valid, figures), as_json)
    if not checked.valid:
        raise typer.Exit(3)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _text(folder: Path, planned: Plan, done: Release, valid: bool, figures: str) -> str:
    from pufferdp.report.text import wrap_sentence

    data = f"SIMULATED DATA: one wearer's activity every five minutes for a week, from {folder}/wearer.json."
    files = f"Files in {folder}/: week.csv, wearer.json, release.json (answer and certificate){figures}"
    return f"""{wrap_sentence(data)}

1. Before: how accurate will it be, and by which mechanism?

{methods(str(planned))}

{planned.chart()}

2. The release.

{done}

3. The certificate, recomputed: {"valid" if valid else "NOT valid"}.

{wrap_sentence(files)}
The same by hand:
  pufferdp plan {folder}/wearer.json --query histogram --length 2016 --epsilon 1
  pufferdp release {folder}/week.csv --model {folder}/wearer.json \\
    --column activity --order time --query histogram --epsilon 1 --out mine.json
  pufferdp verify mine.json"""
