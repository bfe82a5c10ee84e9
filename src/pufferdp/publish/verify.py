"""A certificate recomputed by its kind: everything must follow from what it states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pufferdp.basics.errors import CertificateError
from pufferdp.basics.files import check_values
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.certificate import SealedCertificate
from pufferdp.publish.kind import kind_of


@dataclass(frozen=True)
class Verification:
    """Whether a certificate holds, and if not, why."""

    valid: bool
    problems: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp verify --json`` prints."""
        return {"valid": self.valid, "problems": list(self.problems), "warnings": list(self.warnings)}


def verify(
    certificate: SealedCertificate | dict[str, Any], *, query: Query | None = None, head: str | None = None
) -> Verification:
    """Recompute every field of a certificate but those that nobody can (see docs/guide/certificate.md). Opens no file.

    With ``head``, the release must have been charged as that row of a ledger. A release of a function of one's own by
    ``wasserstein`` needs that function again: hand it over as ``query``.
    """
    raw = certificate if isinstance(certificate, dict) else certificate.to_dict()
    check_values(raw, CertificateError, "the certificate")
    problems, warnings = kind_of(raw.get("schema")).verify(raw, head, query=query)
    return Verification(not problems, tuple(problems), tuple(warnings))
