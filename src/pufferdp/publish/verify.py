"""A certificate recomputed by its kind: everything must follow from what it states."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pufferdp.basics import checks
from pufferdp.basics.cpu_limit import run_with_cpu_limit
from pufferdp.basics.errors import CertificateError, ParameterError
from pufferdp.basics.files import check_values
from pufferdp.basics.frames import frame
from pufferdp.basics.paged import Paged
from pufferdp.models.base import Model
from pufferdp.models.files.json import ModelLike, as_model, model_digest
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.certificate import TABLE_SCHEMA, SealedCertificate, content_of, read_signed, unwrapped
from pufferdp.publish.kind import kind_of
from pufferdp.publish.signatures import Key, signer_of
from pufferdp.publish.tables.table import ReleasedTable, read_released

SECONDS: Final = 7.0
"""Processor time that a certificate may take: a stranger's may state a problem that takes hours."""

_LONGEST: Final = 2000
"""Letters of a problem, at most: a stranger's names may be as long as the file, and a sentence quotes them."""


@dataclass(frozen=True)
class Verification(Paged):
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
    content: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The certificate that was verified: its file may have changed when it is read again."""

    def to_frame(self, *, backend: str | None = None) -> Any:
        """The numbers that the certificate vouches for, as a pandas or polars frame; its problems where it has some."""
        vouched = self.vouched
        if not self.valid:
            return frame(("problem",), [(problem,) for problem in self.problems], backend)
        if "rows" in vouched:
            return frame(vouched["columns"], vouched["rows"], backend)
        if "flow" in vouched:
            names = vouched["labels"]
            shares = [
                (a, b, p)
                for a, row in zip(names, vouched["flow"], strict=True)
                for b, p in zip(names, row, strict=True)
            ]
            return frame(("from", "to", "share"), shares, backend)
        parts = [vouched.get(name) for name in ("answer", "estimate")]
        listed = [part if isinstance(part, list) else [part] for part in parts]
        if "answer" in vouched and len(listed[0]) == len(listed[1]) == len(vouched.get("labels") or ()):
            return frame(("label", "answer", "estimate"), list(zip(vouched["labels"], *listed, strict=True)), backend)
        return frame(tuple(vouched), [tuple(vouched.values())], backend)

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
    certificate: SealedCertificate | dict[str, Any] | str | os.PathLike[str] | object,
    *,
    query: Query | None = None,
    head: str | None = None,
    table: ReleasedTable | str | os.PathLike[str] | None = None,
    model: ModelLike | None = None,
    signature: object = None,
    signer: Key | None = None,
    seconds: float = SECONDS,
) -> Verification:
    """Recompute every field of a certificate but those that nobody can (see docs/guide/certificate.md).

    ``certificate`` is a certificate, its content, a release that has one, or the path of a file with either; no file
    that a certificate names is opened.
    With ``head``, the release must have been charged as that row of a ledger. A release of a function of one's own by
    ``wasserstein`` needs that function again: hand it over as ``query``. ``signature`` is what stands beside a signed
    certificate, and must hold; with ``signer``, a file with a public key, it must have been made with that key. A table
    that is too large for its certificate is compared with it where it is handed over (``read_released``). With
    ``model`` the certificate must be for that very model, with all of its checks. What takes more than ``seconds`` of
    processor time is refused, neither valid nor not: a stranger can state a problem that takes hours.
    """
    seconds = checks.epsilon(seconds, "seconds")

    def work() -> Verification:
        raw, beside = _content(certificate)
        if table is not None and raw.get("schema") != TABLE_SCHEMA:
            raise ParameterError("table= is for certificates of tables, and this is of another kind: leave it out")
        more: dict[str, Any] = {"query": query}
        if table is not None:
            more["table"] = table if isinstance(table, ReleasedTable) else read_released(table)
        found = _verify(raw, beside if signature is None else signature, signer, head, more)
        return found if model is None else _compared(found, raw, as_model(model))

    # Reading is a part of the work: a stranger's file may be made of millions of lists.
    return run_with_cpu_limit(seconds, work, lambda: _too_long(seconds))


def _verify(
    raw: dict[str, Any], signature: object, signer: Key | None, head: str | None, more: dict[str, Any]
) -> Verification:
    check_values(raw, CertificateError, "the certificate")
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
    problems = [text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…" for text in problems]
    return Verification(not problems, tuple(problems), tuple(warnings), signed_by, vouched, kind.unprovable, raw)


def _compared(found: Verification, raw: dict[str, Any], model: Model) -> Verification:
    """The verification of a certificate that must be for a model, with all of its checks."""
    if raw.get("model_sha256") == model_digest(model):
        return found
    stated = raw.get("model")
    stated_checks = stated.get("checks") if isinstance(stated, dict) else None
    changed = "is for another model"
    if stated_checks != model.checks:
        changed = "does not have the checks of the model: they were left out or changed"
    return replace(found, valid=False, problems=(*found.problems, f"the certificate {changed}"), vouched={})


def _too_long(seconds: float) -> CertificateError:
    return CertificateError(
        f"recomputing the certificate takes more than {seconds:g} s, so nothing is known of it; if you know where it "
        "comes from, allow more with seconds="
    )


def _content(certificate: object) -> tuple[dict[str, Any], object]:
    """The content of what was handed over, and the signature beside it; None where there is none."""
    if isinstance(certificate, (str, os.PathLike)):
        return read_signed(certificate)
    signature = None
    if isinstance(certificate, dict) and "schema" not in certificate:
        signature, certificate = certificate.get("signature"), unwrapped(certificate)
    return content_of(certificate, "the certificate"), signature
