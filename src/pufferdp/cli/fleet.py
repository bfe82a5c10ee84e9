"""``pufferdp release --models``: an answer for each person, with that person's model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pufferdp.cli import options
from pufferdp.errors import ParameterError


def release_each(data: str, models: str, asked: Mapping[str, Any], out: str | None, as_json: bool) -> None:
    """Release what was asked for each person; ``out`` is a file for all, or a folder with a file for each."""
    from pufferdp.data import scanned
    from pufferdp.fleets import release_fleet
    from pufferdp.models import load_models
    from pufferdp.models.files import check_file, write_whole

    if asked["by"] is None:
        raise ParameterError("--models needs --by: name the column that says whose record a row is")
    folder = Path(out) if out is not None and Path(out).is_dir() else None
    if out is not None and folder is None:
        check_file(out, "out")
    with options.progress(scanned) as progress:
        result = release_fleet(data, models=load_models(models), progress=progress, **asked)
        content = result.to_dict()
        if folder is not None:
            for one in content["releases"]:
                # A person may be called ../x.
                name = quote(one["person"], safe=" ").replace(".", "%2E") + ".json"
                write_whole(folder / name, json.dumps(one, indent=1, ensure_ascii=False) + "\n")
        elif out is not None:
            write_whole(out, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    where = f"\nCertificates: {out}" if out else "\nKeep the certificates with --out FILE or --out FOLDER."
    options.show(content, f"{result}{where}", as_json)
