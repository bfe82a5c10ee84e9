"""What pages share.

Every report has the same three parts: the guarantee, the accuracy, and what leaks otherwise. Then come the exact words,
for a lawyer, and how it was made, for a reviewer. Whatever it says follows from what is public.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.words import number, up_to
from pufferdp.report.page import IN_WORDS, Block, Figure, Medium, Page, Section, Table, Words
from pufferdp.report.pages.leakage import leakage_curves

if TYPE_CHECKING:
    from pufferdp.assess.comparison import PlainDp, PlainFlips

DP: Final = (
    "Differential privacy is not broken; it guarantees something else. It bounds what one record adds for an adversary "
    "who knows all others."
)
OTHER: Final = f"{DP} This bounds what anyone can learn about one record, given how the records are correlated."
OTHERWISE: Final = "Comparison with standard DP noise"


def plain_dp(comparison: PlainDp | None, epsilon: float, this: str) -> tuple[Section, ...]:
    """What the same epsilon of plain DP leaks under the model, beside what it claims and what is guaranteed here."""
    if comparison is None:
        return ()
    leakage, lines = comparison.leakage, comparison.lines
    if leakage is None or lines is None:
        unknown = "What plain differential privacy with the same epsilon leaks under this model is not known: "
        said = () if comparison.own_secrets else (f"{unknown}{comparison.unknown}.",)
        return (Section(title=OTHERWISE, blocks=(Words((*said, OTHER)),)),)
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
        "do with each other. Under this model"
    )
    knows = f"about one record to an adversary who knows {leakage.adversary.knows}"
    if real <= epsilon * (1 + 1e-9):
        words = "Under this model plain differential privacy with the same epsilon leaks no more than it claims."
    elif leakage.exact is not None:
        words = f"{noise} the same noise leaks {up_to(real)} {knows}: odds shift by a factor of {_factor(real)}, not "
        words += f"{claimed}."
    else:  # a bound for any algorithm says nothing of this noise
        words = (
            f"{noise} an algorithm with that loss may leak more {knows}: the bound for any algorithm is {up_to(real)}, "
            f"a factor of {_factor(real)} and not {claimed}. How much of it this noise leaks is not computed here."
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


def certificate_sentences(certificate: dict[str, Any], *own: str) -> tuple[str, ...]:
    """What a certificate guarantees, assumes and warns of, with some sentences of its release type between."""
    row, warnings = certificate.get("ledger"), (f"Warning: {warning}." for warning in certificate["warnings"])
    where = () if row is None else (f"data set {row['dataset']!r} as row {row['position']}, {row['head'][:12]}…",)
    return (*guarantee_lines(certificate), *own, *(f"Charged to {place}" for place in where), *warnings)


def guarantee_lines(certificate: dict[str, Any]) -> tuple[str, ...]:
    """The guarantee of a certificate, each of its assumptions on a line of its own, and what the data said of them."""
    statement, checks = certificate["guarantee"]["statement"], certificate.get("model_checks")
    said = () if checks is None or checks["statement"] in statement else (checks["statement"],)
    return (*re.split(" (?=Assumption: |Warning: )", f"Guarantee: {statement}"), *said)


def noise_sentence(certificate: dict[str, Any]) -> str:
    """The noise of a certificate of noisy numbers, and how far they may be off: answers and flows."""
    accuracy, noise = certificate["accuracy"], certificate["noise"]
    return (
        f"Noise: {noise['kind']}, scale {number(noise['scale'])} ({certificate['mechanism']['name']}). Simultaneous "
        f"{100 * (1 - accuracy['beta']):.4g} % error bound: {number(accuracy['alpha'])}."
    )


def parts(guarantee: Iterable[str], accuracy: tuple[Block, ...], *others: Section) -> tuple[Section, ...]:
    """The parts of every report, in their order. A terminal has the guarantee among its sentences."""
    first = Section(title="The guarantee", blocks=(Words(tuple(guarantee), Medium.PAGES),))
    return first, Section(title="The accuracy", blocks=accuracy), *others


def certificate_page(
    certificate: dict[str, Any],
    *,
    title: str,
    lead: str,
    accuracy: tuple[Block, ...],
    own: tuple[str, ...],
    otherwise: tuple[Section, ...] = (),
    verdict: tuple[str, ...] = (),
    opening: tuple[str, ...] = (),
    words: tuple[str, ...] = (),
    stated: tuple[Block, ...] = (),
) -> Page:
    """The page of a release, from its certificate.

    Args:
        certificate: its content.
        title: of the page.
        lead: what it is about, after the number of records.
        accuracy: the released numbers, and how far they may be off.
        own: sentences of the release type, printed between the guarantee and the warnings.
        otherwise: what leaks otherwise.
        verdict: whether the numbers are useful.
        opening: what a terminal prints first.
        words: the limits of the guarantee that are the release type's own.
        stated: what a terminal prints before the sentences, also where the certificate is verified.
    """
    secrets = certificate["guarantee"].get("secrets")
    sentences = Words(certificate_sentences(certificate, *own), Medium.TERMINAL)
    return Page(
        title=title,
        lead=f"{certificate['data']['records']:,} records{lead}, {certificate['created'][:10]}",
        verdict=verdict,
        opening=opening,
        sections=parts(
            guarantee_lines(certificate), accuracy, Section(title=IN_WORDS, blocks=(*stated, sentences)), *otherwise
        ),
        words=(
            *words,
            *(() if secrets is None else (f"Protected: {secrets}.",)),
            *(f"Taken to be public: {fact}." for fact in certificate["public"]),
        ),
        warnings=tuple(certificate["warnings"]),
        data=certificate,
        certified=True,
    )


def planned_page(
    title: str,
    lead: str,
    sections: tuple[Section, ...],
    data: dict[str, Any],
    *,
    verdict: tuple[str, ...] = (),
    opening: tuple[str, ...] = (),
    words: tuple[str, ...] = (),
    facts: tuple[tuple[str, str], ...] = (),
    warnings: tuple[str, ...] = (),
) -> Page:
    """The page of a plan: no data was read, and nothing is guaranteed yet."""
    return Page(
        title=f"Plan: {title}",
        lead=f"{lead}; no data was read",
        verdict=verdict,
        opening=opening,
        sections=sections,
        words=(*words, "The certificate of the release has the exact guarantee; a plan guarantees nothing."),
        facts=facts,
        warnings=warnings,
        data=data,
    )


def plan_facts(adversary: Adversary, comparison: PlainDp | PlainFlips | None) -> tuple[tuple[str, str], ...]:
    """What every plan says of its adversary and of its model."""
    digest = () if comparison is None else (("model", f"SHA-256 {comparison.model_sha256}"),)
    return ("adversary", f"{adversary}: knows {adversary.knows}"), *digest


def single_page(
    title: str, heading: str, *blocks: Block, data: dict[str, Any], kind: str, opening: bool = False
) -> Page:
    """A page of one section; with ``opening`` a terminal begins with its title."""
    first = (title,) if opening else ()
    return Page(title=title, opening=first, sections=(Section(title=heading, blocks=blocks),), data=data, kind=kind)


def rows_left_out(rows: int, columns: int = 0, thing: str = "row") -> str:
    """The line below a table that leaves out rows or columns; empty where it has them all."""
    counts = ((rows, thing), (columns, "column"))
    left_out = [f"{count:,} more {name}{'s' * (count > 1)}" for count, name in counts if count > 0]
    return f"… and {' and '.join(left_out)}" if left_out else ""


def leak(value: float) -> str:
    """A leakage in words, rounded up."""
    return up_to(value) if math.isfinite(value) else "everything"
