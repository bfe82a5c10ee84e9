"""``pufferdp demo``: the whole tour on data the package carries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pufferdp.apps.cli import options


def demo(
    out: Annotated[str, typer.Option("--out", help="Folder for the files of the tour.")] = "pufferdp-demo",
    as_json: options.AsJson = False,
) -> None:
    """Plan, release and verify on a simulated week of one wearer's activity."""
    from pufferdp.apps import demo as bundled
    from pufferdp.basics.errors import ParameterError
    from pufferdp.basics.files import write_whole
    from pufferdp.models.files.json import load_model
    from pufferdp.publish.answers.plan import plan
    from pufferdp.publish.answers.release import release
    from pufferdp.publish.verify import verify
    from pufferdp.report.pages.answers import plan_comparison, release_chart

    here, folder = Path(bundled.__file__).parent, Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"folder {out!r} cannot be made: {error.strerror}", value=out) from None
    with options.progress() as progress:
        model = load_model(here / "wearer.json")
        for name in ("week.csv", "wearer.json"):
            write_whole(folder / name, (here / name).read_text(encoding="utf-8"))
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
        progress("drawing figures")
        try:
            plan_comparison(planned.to_dict()).save(folder / "plan.png")
            release_chart(done.certificate.to_dict()).save(folder / "release.png")
            figures = ", plan.png, release.png."
        except ParameterError as error:  # matplotlib is an extra; the tour goes on without it
            figures = f". No figures: {error}."
        write_whole(folder / "release.json", json.dumps(done.to_dict(), indent=1) + "\n")
    text = f"""SIMULATED DATA: one wearer's activity every five minutes for a week, drawn from {folder}/wearer.json.

1. Before: how accurate will it be, and by which mechanism?

{planned}

{planned.chart()}

2. The release.

{done}

3. The certificate, recomputed: {"valid" if checked.valid else "NOT valid"}.

Files in {folder}/: week.csv, wearer.json, release.json (answer and certificate){figures}
The same by hand:
  pufferdp plan {folder}/wearer.json --query histogram --length 2016 --epsilon 1
  pufferdp release {folder}/week.csv --model {folder}/wearer.json --column activity --order time \\
    --query histogram --epsilon 1 --out mine.json
  pufferdp verify mine.json"""
    result = {
        "plan": planned.to_dict(),
        "release": done.to_dict(),
        "verification": checked.to_dict(),
        "folder": str(folder),
    }
    options.show(result, text, as_json)
    if not checked.valid:
        raise typer.Exit(3)
