"""The certificate inside a file that was dropped on the page: JSON, or a report that carries it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

from pufferdp.errors import CertificateError


def certificate_in(name: str, content: bytes) -> dict[str, Any]:
    """The content of a certificate; of a release its certificate, of a report the one that is embedded."""
    try:
        text = content.decode("utf-8-sig")
        if not text.lstrip().startswith("{"):
            finder = _Finder()
            finder.feed(text)
            finder.close()
            text = finder.found or ""
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise CertificateError(
            f"{name!r} is neither a certificate nor a report that carries one; drop the .json or the .html file"
        ) from None
    if isinstance(raw, dict) and isinstance(raw.get("certificate"), dict) and "schema" not in raw:
        raw = raw["certificate"]
    if not isinstance(raw, dict):
        raise CertificateError(f"{name!r} holds no certificate: it must be a JSON object with a schema")
    return raw


class _Finder(HTMLParser):
    """Reads the element with id certificate, once; nothing of the report is run or shown."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: str | None = None
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script" and dict(attrs).get("id") == "certificate" and self.found is None

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found = (self.found or "") + data
