"""The certificate and the charge of a redaction, and earlier redactions of the same data that it goes with."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pufferdp.basics.errors import ParameterError
from pufferdp.data.layout import Layout
from pufferdp.data.rewrite import Found
from pufferdp.leakage.redaction.design import Design, Hiding
from pufferdp.leakage.redaction.optimal import again
from pufferdp.models.files.json import model_digest, model_to_dict
from pufferdp.publish.certificate import REDACTION_SCHEMA
from pufferdp.publish.redaction.certificate import (
    RedactionCertificate,
    knows_text,
    public_facts,
    read_designs,
    redaction_charge,
    rows_text,
    statement,
)
from pufferdp.publish.redaction.methods import redaction_mechanism
from pufferdp.publish.redaction.result import Redaction

if TYPE_CHECKING:
    from pufferdp.ledger.balance import Receipt
    from pufferdp.ledger.charge import Charge


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """An earlier redaction of the same data."""

    certificate: RedactionCertificate
    design: Design

    @classmethod
    def of(cls, after: RedactionCertificate | dict[str, Any], published: object, hiding: Hiding) -> Earlier:
        """From its certificate, which must hold and be of one chain, for the same model and adversary."""
        if published is None:
            raise ParameterError("after names an earlier redaction; published must be the series it published")
        content = after if isinstance(after, dict) else after.to_dict()
        designs = read_designs(content)
        if len(designs) != 1 or model_digest(designs[0].hiding.chain) != model_digest(hiding.chain):
            raise ParameterError("the earlier redaction must be of one chain, under the same model")
        before = designs[0].hiding
        if before.adversary is not hiding.adversary or hiding.known:
            raise ParameterError(
                f"the earlier redaction is for the adversary {before.adversary}, and so is one designed together with "
                f"it: name that one with --adversary {before.adversary}, and no known rows",
                value=hiding.adversary,
            )
        return cls(certificate=RedactionCertificate.model_validate(content), design=designs[0])

    def design_with(self, whole: Hiding, found: Found, *, window: bool) -> Design:
        """The design of both publications."""
        if found.missing or len(found.chains) != 1 or self.design.hiding.length != found.count:
            raise ParameterError(
                f"the earlier redaction is of {self.design.hiding.length} records in one chain; the data has "
                f"{found.count} rows, {found.missing} of them without a value: it must be the same series"
            )
        return again(self.design, whole.private, whole.epsilon, window=window)


def charge_of(result: Redaction, earlier: Earlier | None, dataset: str) -> Charge:
    """What the redaction charges; one that was charged to the same data set before is part of it."""
    before = None
    paid = None if earlier is None else earlier.certificate.ledger
    if earlier is not None and paid is not None and paid.dataset == dataset:
        before = rows_text(earlier.certificate.guarantee.private), earlier.certificate.leakage
    return redaction_charge(
        [design for _, design in result.designs],
        model=model_digest(result.hiding.chain),
        private=result.private,
        positions=result.positions,
        rows=result.rows,
        chains=result.chains,
        earlier=before,
    )


def certify(
    result: Redaction,
    layout: Layout,
    earlier: Earlier | None,
    receipt: Receipt | None,
    warning: str | None,
) -> RedactionCertificate:
    """What was promised, by which design, and where it was charged."""
    who = result.hiding
    before = None if earlier is None else earlier.certificate
    return RedactionCertificate.seal(
        {
            "schema": REDACTION_SCHEMA,
            "pufferdp": importlib.metadata.version("pufferdp"),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "guarantee": {
                "adversary": str(who.adversary),
                "knows": knows_text(who.adversary, result.known),
                "epsilon": who.epsilon,
                "private": list(result.private),
                "known": list(result.known),
                "statement": statement(
                    who.adversary, result.known, who.epsilon, len(result.private), after=before is not None
                ),
            },
            "model": model_to_dict(who.chain),
            "model_sha256": model_digest(who.chain),
            "mechanism": {"name": result.method, "theorem": redaction_mechanism(result.method).theorem},
            "leakage": result.leakage,
            "utility": result.utility,
            "blocks": [{"first": b.first, "redaction_probabilities": b.marks.tolist()} for b in result.stretches],
            "data": {
                "column": layout.column,
                "order": layout.order,
                "by": layout.by,
                "gap": layout.gap if layout.gap is None or isinstance(layout.gap, str) else float(layout.gap),
                "missing": layout.missing,
                "rows": result.rows,
                "records": result.records,
                "private": list(result.positions),
                "known": list(result.known_positions),
                "chains": [list(span) for span in result.chains],
            },
            "after": None
            if before is None
            else {
                "sha256": before.sha256,
                "private": before.guarantee.private,
                "leakage": before.leakage,
                "dataset": None if before.ledger is None else before.ledger.dataset,
            },
            "mark": result.mark,
            "public": public_facts(who.chain, result.rows),
            "warnings": [] if warning is None else [warning],
            "ledger": None if receipt is None else receipt.to_dict(),
        }
    )
