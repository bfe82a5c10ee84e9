"""A certificate recomputed by its kind: everything must follow from what it states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pufferdp.basics.errors import CertificateError
from pufferdp.basics.files import check_values
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.certificate import SealedCertificate
from pufferdp.publish.kind import kind_of
from pufferdp.publish.signatures import Key, signer_of


@dataclass(frozen=True)
class Verification:
    """Whether a certificate holds, and if not, why."""

    valid: bool
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    signed_by: str | None = None
    """The fingerprint of the key that signed it; None where nobody did, or where the signature does not hold."""

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp verify --json`` prints."""
        return {
            "valid": self.valid,
            "problems": list(self.problems),
            "warnings": list(self.warnings),
            **({} if self.signed_by is None else {"signed_by": self.signed_by}),
        }


def verify(
    certificate: SealedCertificate | dict[str, Any],
    *,
    query: Query | None = None,
    head: str | None = None,
    signature: object = None,
    signer: Key | None = None,
) -> Verification:
    """Recompute every field of a certificate but those that nobody can (see docs/guide/certificate.md). Opens no file.

    With ``head``, the release must have been charged as that row of a ledger. A release of a function of one's own by
    ``wasserstein`` needs that function again: hand it over as ``query``. ``signature`` is what stands beside a signed
    certificate, and must hold; with ``signer``, a file with a public key, it must have been made with that key.
    """
    raw = certificate if isinstance(certificate, dict) else certificate.to_dict()
    check_values(raw, CertificateError, "the certificate")
    problems, warnings = kind_of(raw.get("schema")).verify(raw, head, query=query)
    signed_by = None
    if signature is not None:
        try:
            signed_by = signer_of(raw, signature, signer)
        except (CertificateError, ValueError) as error:
            problems.append(str(error))
    elif signer is not None:
        problems.append("the certificate is not signed, so nobody can tell whether it comes from that key")
    return Verification(not problems, tuple(problems), tuple(warnings), signed_by)
