"""``pufferdp verify``: recompute a certificate."""

from __future__ import annotations

from typing import Annotated

import typer

from pufferdp.apps.cli import options


def verify(
    certificate: Annotated[
        str,
        typer.Argument(help="Certificate (JSON), as release --out or flip --certificate has it, or a report (HTML)."),
    ],
    head: Annotated[str | None, typer.Option("--head", help="The row of the ledger that it must have.")] = None,
    table: Annotated[
        str | None, typer.Option("--table", help="The table that it must be of: CSV, Parquet or JSON, as released.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Recompute hash, noise and accuracy of a certificate. Exit 3 when it does not hold."""
    from pufferdp.basics.errors import ParameterError, RefusedError
    from pufferdp.publish.certificate import TABLE_SCHEMA, read_certificate
    from pufferdp.publish.tables.table import read_released, released_with
    from pufferdp.publish.verify import verify as check
    from pufferdp.report.registry import promise_of
    from pufferdp.report.text import blocks_text

    raw = read_certificate(certificate)
    is_table = raw["schema"] == TABLE_SCHEMA
    if table is not None and not is_table:
        raise ParameterError("--table is for certificates of tables, and this is of another kind: leave it out")
    # JSON holds the table beside its certificate, and then both must agree.
    released = read_released(table) if table is not None else released_with(certificate) if is_table else None
    with options.progress() as progress:
        progress("recomputing the noise")
        result = check(raw, head=head, table=released)
    lines = ["valid" if result.valid else "NOT valid", *(f"- {p}" for p in result.problems)]
    if result.valid:
        lines.append(blocks_text(promise_of(raw)))
    options.show(result.to_dict(), "\n".join(lines), as_json)
    if not result.valid:
        count = len(result.problems)
        raise RefusedError(f"certificate {certificate!r} does not hold; it has {count} problem{'s' * (count != 1)}")
