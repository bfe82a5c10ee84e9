"""A certificate recomputed by its kind: everything must follow from what it states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pufferdp.basics.errors import CertificateError
from pufferdp.basics.files import check_values
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.certificate import SealedCertificate
from pufferdp.publish.kind import kind_of
from pufferdp.publish.signatures import Key, signer_of
from pufferdp.publish.tables.table import ReleasedTable


@dataclass(frozen=True)
class Verification:
    """Whether a certificate holds, and if not, why."""

    valid: bool
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    signed_by: str | None = None
    """The fingerprint of the key that signed it; None where nobody did, or where the signature does not hold."""

    vouched: Mapping[str, Any] = field(default_factory=dict)
    """The numbers that a certificate which holds is about, so that nobody reads others beside it; none otherwise."""
    unprovable: Mapping[str, str] = field(default_factory=dict)
    """What the certificate says that nobody can recompute, and why."""

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp verify --json`` prints."""
        return {
            "valid": self.valid,
            "problems": list(self.problems),
            "warnings": list(self.warnings),
            "vouched": dict(self.vouched),
            "unprovable": dict(self.unprovable),
            **({} if self.signed_by is None else {"signed_by": self.signed_by}),
        }


def verify(
    certificate: SealedCertificate | dict[str, Any],
    *,
    query: Query | None = None,
    head: str | None = None,
    table: ReleasedTable | None = None,
    signature: object = None,
    signer: Key | None = None,
) -> Verification:
    """Recompute every field of a certificate but those that nobody can (see docs/guide/certificate.md). Opens no file.

    With ``head``, the release must have been charged as that row of a ledger. A release of a function of one's own by
    ``wasserstein`` needs that function again: hand it over as ``query``. ``signature`` is what stands beside a signed
    certificate, and must hold; with ``signer``, a file with a public key, it must have been made with that key. A table
    that is too large for its certificate is compared with it where it is handed over (``read_released``).
    """
    raw = certificate if isinstance(certificate, dict) else certificate.to_dict()
    check_values(raw, CertificateError, "the certificate")
    more = {"query": query} if table is None else {"query": query, "table": table}
    kind = kind_of(raw.get("schema"))
    problems, warnings = kind.verify(raw, head, **more)
    signed_by = None
    if signature is not None:
        try:
            signed_by = signer_of(raw, signature, signer)
        except (CertificateError, ValueError) as error:
            problems.append(str(error))
    elif signer is not None:
        problems.append("the certificate is not signed, so nobody can tell whether it comes from that key")
    vouched = {} if problems else kind.vouched(raw, **more)
    return Verification(not problems, tuple(problems), tuple(warnings), signed_by, vouched, kind.unprovable)
