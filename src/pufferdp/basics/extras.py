"""How to install what an extra needs, from where the package was installed: there need be no index that has it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit


def install_advice(extra: str) -> str:
    """The command that installs an extra.

    Packages know where they were installed from (PEP 610). From a checkout that is still there it is named; otherwise
    the command names what the extra needs, which every index has.
    """
    import importlib.metadata  # it loads the standard library's mail and sockets

    try:
        installed = importlib.metadata.distribution("pufferdp")
    except importlib.metadata.PackageNotFoundError:
        return f"pip install '.[{extra}]' in the checkout"
    checkout = _checkout(installed.read_text("direct_url.json"))
    if checkout is not None:
        return f"pip install '{checkout}[{extra}]'"
    needed = re.compile(rf"""^(.*?)\s*;.*\bextra\s*==\s*['"]{re.escape(extra)}['"]""")
    names = [match[1] for line in installed.requires or () if (match := needed.match(line))]
    return "pip install " + " ".join(f"'{name}'" for name in names)


def _checkout(direct_url: str | None) -> Path | None:
    """The folder that the package was installed from, where it is one and still there."""
    try:
        content = json.loads(direct_url or "")
        address = urlsplit(content["url"])
    except (ValueError, KeyError, TypeError):
        return None
    folder = Path(unquote(address.path))
    return folder if address.scheme == "file" and (folder / "pyproject.toml").is_file() else None
