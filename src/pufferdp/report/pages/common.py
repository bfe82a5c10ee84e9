"""What pages share.

Every report has the same three parts: the guarantee, the accuracy, and what leaks otherwise. Then come the exact words,
for a lawyer, and how it was made, for a reviewer. Whatever it says follows from what is public.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.words import number, up_to
from pufferdp.models.units import Unit
from pufferdp.publish.certificate import adversary_text
from pufferdp.report.page import Figure, Medium, Page, Section, Table, Words
from pufferdp.report.pages.leakage import leakage_curves

if TYPE_CHECKING:
    from pufferdp.assess.comparison import PlainDp

DP: Final = (
    "Differential privacy is not broken; it guarantees something else. It bounds what one record adds for an adversary "
    "who knows all others."
)
OTHER: Final = f"{DP} This bounds what anyone can learn about one record, given how the records are correlated."
OTHERWISE: Final = "Comparison with standard DP noise"


def odds(epsilon: float) -> str:
    """The factor behind an epsilon, in words."""
    return f"e^{epsilon:g} = {math.exp(epsilon):.4g}" if epsilon < 700 else f"e^{epsilon:g}"


def guarantee_words(
    epsilon: float,
    knows: str,
    sees: str,
    secret: str = "any single record",
    between: str = "any two values of it",
    delta: float = 0.0,
) -> Words:
    """The guarantee, for a reader who is new to it; with a delta it bounds probabilities instead of odds."""
    bound = f"the odds between {between} change by at most a factor of {odds(epsilon)}"
    if delta:
        secret = "any single record"
        bound = f"any set of answers is at most {odds(epsilon)} times as likely under one value of it as under another"
        bound += f", plus a delta of {delta:g}"
    return Words((f"Seeing {sees} reveals little about {secret}: {bound}. {adversary_text(knows)}",), Medium.PAGES)


def secret_words(
    own: bool, width: float | None, unit: dict[str, Any] | None = None, secret: dict[str, Any] | None = None
) -> dict[str, str]:
    """What the guarantee is about, in words: secrets of one's own, a period, numbers within a width, or any record."""
    if unit is not None:
        return {"secret": Unit(**unit).words, "between": "any two possible sequences of it"}
    if secret is not None:
        return {"secret": secret["words"], "between": "the two cases" if secret["state"] else "any two of its values"}
    if own:
        return {"secret": "the secrets that were named", "between": "the two secrets of any pair"}
    if width is not None:
        return {"between": f"any two values of it that differ by at most {number(width)}"}
    return {}


def plain_dp(comparison: PlainDp | None, epsilon: float, this: str) -> tuple[Section, ...]:
    """What the same epsilon of plain DP leaks under the model, beside what it claims and what is guaranteed here."""
    if comparison is None:
        return ()
    if comparison.own_secrets:
        return (Section(title=OTHERWISE, blocks=(Words((OTHER,)),)),)
    leakage, lines = comparison.leakage, comparison.lines
    if leakage is None or lines is None:
        unknown = (
            "What plain differential privacy with the same epsilon leaks under this model is not known: "
            f"{comparison.unknown}."
        )
        return (Section(title=OTHERWISE, blocks=(Words((unknown, OTHER)),)),)
    best = leakage.curves[leakage.best]
    claimed = number(math.exp(epsilon)) if epsilon < 700 else "any factor"
    rows = [("plain DP: what it claims", number(epsilon), claimed)]
    if leakage.exact is not None:
        noise = f"plain DP: {leakage.query} with Laplace noise, exactly"
        rows.append((noise, up_to(leakage.exact), _factor(leakage.exact)))
    rows.append((f"plain DP: any algorithm, at most ({leakage.best} curve)", up_to(best), _factor(best)))
    rows.append((f"{this}, at most", number(epsilon), claimed))
    real = leakage.exact if leakage.exact is not None else best
    assert real is not None
    noise = (
        f"Noise for plain differential privacy with epsilon {number(epsilon)} is chosen as if records had nothing to "
        "do with each other."
    )
    knows = f"about one record to an adversary who knows {leakage.adversary.knows}"
    if real <= epsilon * (1 + 1e-9):
        words = "Under this model plain differential privacy with the same epsilon leaks no more than it claims."
    elif leakage.exact is not None:
        words = (
            f"{noise} Under this model the same noise leaks {up_to(real)} {knows}: odds shift by a factor of "
            f"{_factor(real)}, not {claimed}."
        )
    else:  # a bound for any algorithm says nothing of this noise
        words = (
            f"{noise} Under this model an algorithm with that loss may leak more {knows}: the bound for any algorithm "
            f"is {up_to(real)}, a factor of {_factor(real)} and not {claimed}. How much of it this noise leaks is not "
            "computed here."
        )
    table = Table(
        caption="The same epsilon, with noise for independent records and with noise for this model",
        head=("what is released", "leakage about one record", "odds shift by"),
        rows=tuple(rows),
    )
    curves = Figure(
        make=lambda: leakage_curves({**leakage.to_dict(), "lines": lines}),
        caption="How much a DP loss leaks under this model. The upright line is the epsilon of this report.",
    )
    return (Section(title=OTHERWISE, blocks=(Words((words,)), table, curves, Words((OTHER,)))),)


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
        *(("model and data", sentence) for sentence in check_sentences(certificate)),
        ("made", f"{certificate['created']} by pufferdp {certificate['pufferdp']}"),
        ("certificate", f"{certificate['schema']}, SHA-256 {certificate['sha256']}"),
    ]
    ranges = certificate["data"].get("ranges")
    if ranges:
        facts.append(("records read", ranges_words(ranges)))
    row = certificate.get("ledger")
    if row:
        facts.append(("charged", f"data set {row['dataset']!r}, row {row['position']}, {row['head']}"))
    return facts


def ranges_words(ranges: dict[str, Any]) -> str:
    """Which records were read, from the part of a certificate that says it: one segment, or those of many people."""
    parts = ranges["parts"]
    firsts, lasts = ([part[end] for part in parts if part[end] is not None] for end in ("from", "to"))
    words = "" if ranges["order"] is None else ranges["order"]
    # Times are written so that their texts sort as they do, but for fractions of a second.
    words += f" from {min(firsts)}" if firsts else ""
    words += f" to {max(lasts)}" if lasts else ""
    people = sum(len(part["by"] or ()) for part in parts)
    if people:
        several = f" in {len(parts):,} different segments" if len(parts) > 1 else ""
        words += f"{', ' if words else ''}{people:,} {'person' if people == 1 else 'people'} by {ranges['by']}{several}"
    return words or "all"


def charge_sentences(row: dict[str, Any] | None) -> tuple[str, ...]:
    """Where a release was charged."""
    if row is None:
        return ()
    return (f"Charged to data set {row['dataset']!r} as row {row['position']}, {row['head'][:12]}…",)


def statement_lines(certificate: dict[str, Any]) -> list[str]:
    """The guarantee of a certificate, each of its assumptions and warnings on a line of its own."""
    return re.split(" (?=Assumption: |Warning: )", f"Guarantee: {certificate['guarantee']['statement']}")


def check_sentences(certificate: dict[str, Any]) -> tuple[str, ...]:
    """What the data said about the model of a release; nothing where the guarantee says it already."""
    checks = certificate.get("model_checks")
    return (
        () if checks is None or checks["statement"] in certificate["guarantee"]["statement"] else (checks["statement"],)
    )


def certificate_sentences(certificate: dict[str, Any], *own: str) -> tuple[str, ...]:
    """What a certificate guarantees and warns of, with some sentences of its release type between."""
    return (
        *statement_lines(certificate),
        *check_sentences(certificate),
        *own,
        *charge_sentences(certificate.get("ledger")),
        *(f"Warning: {warning}." for warning in certificate["warnings"]),
    )


def guarantee_sentences(certificate: dict[str, Any]) -> tuple[str, ...]:
    """What a certificate of noisy numbers guarantees and how far they may be off: answers and flows."""
    accuracy = certificate["accuracy"]
    return certificate_sentences(
        certificate,
        f"Noise: {certificate['noise']['kind']}, scale {number(certificate['noise']['scale'])} ("
        f"{certificate['mechanism']['name']}). Simultaneous {100 * (1 - accuracy['beta']):.4g} % error bound: "
        f"{number(accuracy['alpha'])}.",
    )


def certificate_page(
    certificate: dict[str, Any],
    *,
    title: str,
    lead: str,
    sections: tuple[Section, ...],
    verdict: tuple[str, ...] = (),
    opening: tuple[str, ...] = (),
    words: tuple[str, ...] = (),
    facts: tuple[tuple[str, str], ...] = (),
) -> Page:
    """The page of a release, from its certificate; what every certificate has comes with what is given."""
    g = certificate["guarantee"]
    protected = (f"Protected: {g['secrets']}.",) if "secrets" in g else ()
    adversary = (("adversary", f"{g['adversary']}: knows {g['knows']}"),) if "adversary" in g else ()
    return Page(
        title=title,
        lead=f"{certificate['data']['records']:,} records{lead}, {certificate['created'][:10]}",
        verdict=verdict,
        opening=opening,
        sections=sections,
        words=(
            *statement_lines(certificate),
            *words,
            *protected,
            *(f"Taken to be public: {fact}." for fact in certificate["public"]),
        ),
        facts=(*made_by(certificate), *adversary, *facts),
        warnings=tuple(certificate["warnings"]),
        data=certificate,
        certified=True,
    )


def rows_left_out(rows: int, columns: int = 0, thing: str = "row") -> str:
    """The line below a table that leaves out rows or columns; empty where it has them all."""
    counts = ((rows, thing), (columns, "column"))
    left_out = [f"{count:,} more {name}{'s' * (count > 1)}" for count, name in counts if count > 0]
    return f"… and {' and '.join(left_out)}" if left_out else ""


def leak(value: float) -> str:
    """A leakage in words, rounded up."""
    return up_to(value) if math.isfinite(value) else "everything"
