"""``pufferdp verify`` and ``pufferdp sign``: recompute a certificate, and say where it comes from."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from pufferdp.apps.cli import options

_UNPROVABLE: Final = "Cannot be verified from a certificate: that the noise was unseeded, and which records were read."

_OWN: Final = 3600.0
"""Seconds that a certificate may take which is to be signed: it is one's own."""


def verify(
    certificate: Annotated[
        str,
        typer.Argument(help="Certificate (JSON), as release --out or flip --certificate has it, or a report (HTML)."),
    ],
    head: Annotated[str | None, typer.Option("--head", help="The row of the ledger that it must have.")] = None,
    table: Annotated[
        str | None, typer.Option("--table", help="The table that it must be of: CSV, Parquet or JSON, as released.")
    ] = None,
    signer: Annotated[
        str | None,
        typer.Option("--signer", help="Public key (PEM) that must have signed it; without it, any key may have."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Model file that it must be for, with all of its checks.")
    ] = None,
    seconds: Annotated[
        str, typer.Option("--seconds", help="Processor time that it may take, so that nobody can keep you busy.")
    ] = "7",
    as_json: options.AsJson = False,
) -> None:
    """Recompute hash, noise and accuracy of a certificate. Exit 3 when it does not hold."""
    from pufferdp.basics.errors import RefusedError
    from pufferdp.publish.noise import SEEDED
    from pufferdp.publish.verify import verify as recompute
    from pufferdp.report.pages.verification import verified_values
    from pufferdp.report.registry import guarantee_of
    from pufferdp.report.text import blocks_text, wrap_sentence

    allowed = options.number("seconds", seconds)
    with options.progress() as progress:
        progress("recomputing the noise")
        result = recompute(certificate, head=head, table=table, model=model, signer=signer, seconds=allowed)
    lines = ["valid" if result.valid else "NOT valid", *(f"- {p}" for p in result.problems)]
    if result.valid:
        lines.append(blocks_text(verified_values(result.vouched)))
        lines.append(blocks_text(guarantee_of({**result.content, "warnings": list(result.warnings)})))
        if SEEDED not in result.warnings:
            lines.append(wrap_sentence(_UNPROVABLE))
        if result.signed_by is not None:
            whose = (
                "as you asked" if signer is not None else "whose key that is, only you can tell: name it with --signer"
            )
            lines.append(f"Signed with the key {result.signed_by}: {whose}.")
    options.show(result.to_dict(), "\n".join(lines), as_json)
    if not result.valid:
        count = len(result.problems)
        raise RefusedError(f"certificate {certificate!r} does not hold; it has {count} problem{'s' * (count != 1)}")


def sign(
    certificate: Annotated[str, typer.Argument(help="Certificate (JSON), or the output of a release that holds one.")],
    key: Annotated[str, typer.Option("--key", help="Private Ed25519 key (PEM), as openssl genpkey makes it.")],
    out: Annotated[str, typer.Option("--out", help="Write certificate and signature to this JSON file.")],
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Sign a certificate that holds, so that others can tell where it comes from. Exit 3 when it does not hold."""
    from pufferdp.apps.outputs import Outputs
    from pufferdp.basics.errors import RefusedError
    from pufferdp.publish.certificate import read_signed
    from pufferdp.publish.signatures import Signer, signer_of
    from pufferdp.publish.verify import verify

    signer, (raw, _) = Signer(key), read_signed(certificate)
    sources = {"the certificate": certificate, "the key": key}
    outputs = Outputs({"out": out}, sources=sources, ledger=None, overwrite=overwrite)
    with options.progress() as progress:
        progress("recomputing the noise")
        found = verify(raw, seconds=_OWN)
    if not found.valid:
        raise RefusedError(f"certificate {certificate!r} does not hold, so it is not signed: {found.problems[0]}")
    signature = signer.sign(raw)
    content = {"certificate": raw, "signature": signature}
    with outputs.delivery(content) as delivery:
        delivery.json("out", content)
        delivery.show(content, lambda: f"Signed with the key {signer_of(raw, signature)}: {out}", as_json)
