"""The certificate inside a file that was dropped on the page: JSON, or a report that carries it."""

from __future__ import annotations

import json
from typing import Any

from pufferdp.certificate import embedded_certificate, is_report
from pufferdp.errors import CertificateError


def certificate_in(name: str, content: bytes) -> dict[str, Any]:
    """The content of a certificate; of a release its certificate, of a report the one that is embedded."""
    try:
        text = content.decode("utf-8-sig")
        raw = json.loads(embedded_certificate(text) if is_report(text) else text)
    except (ValueError, RecursionError):
        raise CertificateError(
            f"{name!r} is neither a certificate nor a report that carries one; drop the .json or the .html file"
        ) from None
    if isinstance(raw, dict) and isinstance(raw.get("certificate"), dict) and "schema" not in raw:
        raw = raw["certificate"]
    if not isinstance(raw, dict):
        raise CertificateError(f"{name!r} holds no certificate: it must be a JSON object with a schema")
    return raw
