"""How to install what an extra needs, from where the package was installed: no index need have it."""

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

    checkout = checkout_folder()
    if checkout is not None:
        return f"pip install '{checkout}[{extra}]'"
    needed = re.compile(rf"""^(.*?)\s*;.*\bextra\s*==\s*['"]{re.escape(extra)}['"]""")
    requirements = importlib.metadata.distribution("pufferdp").requires or ()
    names = [match[1] for line in requirements if (match := needed.match(line))]
    return "pip install " + " ".join(f"'{name}'" for name in names)


def checkout_folder() -> Path | None:
    """The folder that the package was installed from, where it is one and still there."""
    import importlib.metadata

    direct_url = importlib.metadata.distribution("pufferdp").read_text("direct_url.json")
    try:
        content = json.loads(direct_url or "")
        address = urlsplit(content["url"])
    except (ValueError, KeyError, TypeError):
        return None
    folder = Path(unquote(address.path))
    return folder if address.scheme == "file" and (folder / "pyproject.toml").is_file() else None
