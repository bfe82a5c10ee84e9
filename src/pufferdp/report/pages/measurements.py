"""What there is to say of the release of a measurement from outside."""

from __future__ import annotations

import json
from typing import Any

from pufferdp.assess.comparison import PlainDp
from pufferdp.basics.words import number
from pufferdp.report.page import Medium, Page, Words
from pufferdp.report.pages.common import certificate_page, plain_dp


def page_from_certificate(certificate: dict[str, Any], comparison: PlainDp | None = None) -> Page:
    """The release of a measurement, from its certificate."""
    measured, guarantee = certificate["measurement"], certificate["guarantee"]
    answer, epsilon = json.dumps(certificate["answer"], ensure_ascii=False), guarantee["epsilon"]
    shown = f"Answer: {answer if len(answer) <= 400 else f'{answer[:400]}…'}"
    beside = f" and a delta of {number(measured['dp_delta'])}" if measured["dp_delta"] else ""
    becomes = f" and a delta of {number(guarantee['delta'])}" if guarantee.get("delta") else ""
    carried = (
        f"The measurement's own privacy map states a DP loss of {number(measured['dp_loss'])}{beside} for one record "
        f"that changes; by {certificate['mechanism']['name']} that is an epsilon of {number(epsilon)}{becomes} here."
    )
    return certificate_page(
        certificate,
        title=f"Release: a measurement of {certificate['data']['column']}",
        lead=f", epsilon {number(epsilon)}",
        accuracy=(Words((shown,), Medium.TERMINAL), Words(("The author of the measurement knows how exact it is.",))),
        own=(carried,),
        otherwise=plain_dp(comparison, epsilon, "this release"),
    )
