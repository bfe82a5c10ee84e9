"""What a report says, apart from how it is set: sections of plain words, tables and charts, and the certificate.

Every report has the same three parts: the promise, the accuracy, and what leaks otherwise. Then come the exact words,
for a lawyer, and how it was made, for a reviewer. Whatever it says follows from what is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from pufferdp.assess.dp import LeakageReport, leakage_lines, leakage_of
from pufferdp.basics.errors import PufferdpError
from pufferdp.basics.words import number, up_to
from pufferdp.models.base import Model
from pufferdp.report.page import Section, Shown, Table
from pufferdp.report.pages.leakage import leakage_curves

DP: Final = (
    "Differential privacy is not broken; it promises something else. It bounds what one record adds for somebody who "
    "knows all others."
)
OTHER: Final = f"{DP} This bounds what anyone can learn about one record, given how the records hang together."
EXACT_UP_TO: Final = 5000
"""Records in a chain up to which a report computes leakage exactly; beyond, the curves have to do."""


def odds(epsilon: float) -> str:
    """The factor behind an epsilon, in words."""
    return f"e^{epsilon:g} = {math.exp(epsilon):.4g}" if epsilon < 700 else f"e^{epsilon:g}"


def promise(epsilon: float, knows: str, sees: str, secret: str = "any one record", between: str = "") -> str:
    """The promise for somebody who has never heard of it."""
    between = between or "two values of it"
    return (
        f"Whoever sees {sees} learns little about {secret}: their odds between {between} shift by a factor of at most "
        f"{odds(epsilon)}. This holds for somebody who knows how the records hang together, as the model says, and who "
        f"knows {knows}."
    )


def protected(model: Model, own: bool, clip: Sequence[float] | None) -> dict[str, str]:
    """What the promise is about, in words: secrets of one's own, numbers within a width, or any record."""
    if own:
        return {"secret": "the secrets that were named", "between": "the two secrets of any pair"}
    if model.real_valued and clip is not None:
        return {"between": f"two values of it that differ by at most {number(clip[1] - clip[0])}"}
    return {}


def leaks_otherwise(
    model: Model, epsilon: float, adversary: str, longest: int | None, query: str | None, this: str, own: bool
) -> tuple[Section, ...]:
    """What the same epsilon of plain DP leaks under the model, beside what it claims and what is promised here.

    About secrets of one's own no such thing can be said: DP makes its claim about records.
    """
    title = "What leaks otherwise"
    if own:
        return (Section(title=title, blocks=(OTHER,)),)
    try:
        found, exact = _leakage(model, epsilon, adversary, longest, query)
    except PufferdpError as error:
        said = f"What plain differential privacy with the same epsilon leaks under this model is not known: {error}."
        return (Section(title=title, blocks=(said, OTHER)),)
    best = found.curves[found.best]
    claimed = number(math.exp(epsilon)) if epsilon < 700 else "any factor"
    rows = [("plain DP: what it claims", number(epsilon), claimed)]
    if found.exact is not None:
        rows.append((f"plain DP: {found.query} with Laplace noise, exactly", up_to(found.exact), _factor(found.exact)))
    rows.append((f"plain DP: any algorithm, at most ({found.best} curve)", up_to(best), _factor(best)))
    rows.append((f"{this}, at most", number(epsilon), claimed))
    real = found.exact if found.exact is not None else best
    assert real is not None
    much, shift = ("leaks", "shift") if found.exact is not None else ("may leak up to", "may shift")
    said = (
        f"Noise for plain differential privacy with epsilon {number(epsilon)} is chosen as if records had nothing to "
        f"do with each other. Under this model the same noise {much} {up_to(real)} about one record to somebody who "
        f"knows {found.adversary.knows}: odds {shift} by a factor of {_factor(real)}, not {claimed}."
        if real > epsilon * (1 + 1e-9)
        else "Under this model plain differential privacy with the same epsilon leaks no more than it claims."
    )
    table = Table(
        caption="The same epsilon, with noise for independent records and with noise for this model",
        head=("what is released", "leakage about one record", "odds shift by"),
        rows=tuple(rows),
    )
    content = {**found.to_dict(), "lines": leakage_lines(model, found, query if exact else None)}
    curves = Shown(
        chart=leakage_curves(content),
        caption="How much a DP loss leaks under this model. The upright line is the epsilon of this report.",
    )
    return (Section(title=title, blocks=(said, table, curves, OTHER)),)


def _leakage(
    model: Model, epsilon: float, adversary: str, longest: int | None, query: str | None
) -> tuple[LeakageReport, bool]:
    """With the exact leakage where it is quick to have."""
    series = model.needs_length
    short = not series or (longest or 0) <= EXACT_UP_TO
    one = query is not None and (query.startswith("count:") or query in ("sum", "mean"))
    exact = one and short and not model.real_valued
    length = longest if series else None
    found = leakage_of(model, dp_epsilon=epsilon, length=length, adversary=adversary, query=query if exact else None)
    return found, exact


def _factor(leakage: float | None) -> str:
    if leakage is None or leakage > 700:
        return "any factor"
    return up_to(math.exp(leakage))


def made_by(certificate: dict[str, Any]) -> list[tuple[str, str]]:
    """Facts that every certificate has."""
    mechanism = certificate["mechanism"]
    facts = [
        ("mechanism", mechanism["name"]),
        ("rests on", mechanism["theorem"]),
        ("model", f"{certificate['model']['type']}, SHA-256 {certificate['model_sha256']}"),
        ("made", f"{certificate['created']} by pufferdp {certificate['pufferdp']}"),
        ("certificate", f"{certificate['schema']}, SHA-256 {certificate['sha256']}"),
    ]
    row = certificate.get("ledger")
    if row:
        facts.append(("charged", f"data set {row['dataset']!r}, row {row['position']}, {row['head']}"))
    return facts
