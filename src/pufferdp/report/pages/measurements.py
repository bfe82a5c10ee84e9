"""What there is to say of the release of a measurement from outside."""

from __future__ import annotations

import json
from typing import Any

from pufferdp.assess.comparison import PlainDp
from pufferdp.basics.words import number
from pufferdp.report.page import Block, Page, Section, Words
from pufferdp.report.pages import common


def page_from_certificate(certificate: dict[str, Any], comparison: PlainDp | None = None) -> Page:
    """The release of a measurement, from its certificate."""
    guarantee, data = certificate["guarantee"], certificate["data"]
    epsilon, delta, sees = guarantee["epsilon"], guarantee.get("delta") or 0.0, "this answer"
    shown = common.guarantee_words(epsilon, guarantee["knows"], sees, delta=delta)
    measured = certificate["measurement"]
    return common.certificate_page(
        certificate,
        title=f"Release: a measurement of {data['column']}",
        lead=f", epsilon {number(epsilon)}",
        opening=(_answer(certificate), *_sentences(certificate)),
        sections=(
            Section(title="The guarantee", blocks=(shown,)),
            Section(title="The accuracy", blocks=(Words(("The author of the measurement knows how exact it is.",)),)),
            *common.plain_dp(comparison, epsilon, "this release"),
        ),
        facts=(("measurement", f"{measured['metric']} to {measured['measure']}"),),
    )


def guarantee_blocks(certificate: dict[str, Any]) -> tuple[Block, ...]:
    """What the certificate of a measurement guarantees."""
    return (Words(_sentences(certificate)),)


def _sentences(certificate: dict[str, Any]) -> tuple[str, ...]:
    return common.certificate_sentences(certificate, _carried(certificate))


def _answer(certificate: dict[str, Any]) -> str:
    answer = json.dumps(certificate["answer"], ensure_ascii=False)
    return f"Answer: {answer if len(answer) <= 400 else f'{answer[:400]}…'}"


def _carried(certificate: dict[str, Any]) -> str:
    measured, guarantee = certificate["measurement"], certificate["guarantee"]
    beside = f" and a delta of {number(measured['dp_delta'])}" if measured["dp_delta"] else ""
    becomes = f" and a delta of {number(guarantee['delta'])}" if guarantee.get("delta") else ""
    stated, name = f"a DP loss of {number(measured['dp_loss'])}{beside}", certificate["mechanism"]["name"]
    return (
        f"The measurement's own privacy map states {stated} for one record that changes; by {name} that is an epsilon "
        f"of {number(guarantee['epsilon'])}{becomes} here."
    )
