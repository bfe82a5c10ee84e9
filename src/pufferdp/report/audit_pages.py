"""What a report says of an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pufferdp.report.audit import audit_panels
from pufferdp.report.blocks import Shown, Table
from pufferdp.report.pages import DP, Page, Section
from pufferdp.report.text import number

if TYPE_CHECKING:
    from pufferdp.audit.audit_report import AuditReport


def audit_page(audit: AuditReport) -> Page:
    """What a mechanism claims, what was proved about it, and who learns that much."""
    found, claim = audit.to_dict(), audit.dp_epsilon
    if claim is None:
        said = "The mechanism claims no DP loss. The audit says what it leaks about one record."
    else:
        said = (
            f"The mechanism claims a DP loss of {number(claim)}: somebody who knows all other records learns no more "
            "than that about the last one. The audit asks what somebody learns who knows "
            f"{audit.adversary.knows}, and how records hang together."
        )
    rows = [("at least", f"proved by attack, {100 * audit.confidence:g} % sure", number(audit.lower))]
    if audit.exact is not None:
        rows.append(("exactly", "computed", number(audit.exact)))
    if audit.upper is not None:
        rows.append(("at most", "by theory" if audit.curve is None else f"{audit.curve} curve", number(audit.upper)))
    if claim is not None:
        rows.append(("claimed", "DP, towards someone who knows all other records", number(claim)))
    table = Table(caption="Leakage about one record", head=("leakage", "how it is known", "number"), rows=tuple(rows))
    verdict, *more = audit.sentences()
    return Page(
        title=f"Audit: {audit.mechanism}",
        lead=f"{audit.records:,} records, {audit.calls:,} runs of the mechanism",
        sections=(
            Section(title="The claim", blocks=(said, DP)),
            Section(
                title="What was found",
                blocks=(verdict, table, Shown(chart=audit_panels(found), caption="Striped: what is claimed.")),
            ),
            Section(title="Who learns that much", blocks=tuple(more)),
        ),
        words=(
            "What is proved holds for this mechanism, this model and this adversary, as sure as is said. What was not "
            "found may still leak: an audit proves leakage, never its absence.",
        ),
        facts=(
            ("adversary", f"{audit.adversary}: knows {audit.adversary.knows}"),
            ("tested on fresh runs", f"{audit.tests:,} events"),
            ("adversaries tried", f"{audit.tried:,}"),
            ("the upper bound holds for", audit.holds_for or ""),
        ),
        warnings=("the claim is proved wrong",) if audit.refuted else (),
        data=found,
        certified=False,
        kind="audit",
    )
