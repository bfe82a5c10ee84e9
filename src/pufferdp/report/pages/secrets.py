"""What a DP loss leaks about a segment, or about an event in it, in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.words import number, up_to
from pufferdp.report.page import Page, Table, Words
from pufferdp.report.pages.common import single_page

if TYPE_CHECKING:
    from pufferdp.assess.secrets import SecretReport


def secret_page(report: SecretReport) -> Page:
    """One secret: what leaks about it, or the loss that may be spent."""
    over = f" over {report.length:,} records" if report.length is not None else ""
    given = (
        f"A leakage of at most {number(report.leakage)}"
        if report.inverse
        else f"A DP loss of {number(report.dp_epsilon)}"
    )
    title = (
        f"{given}{over} about {report.secret.words}, under this model, for an adversary who knows "
        f"{report.adversary.knows}"
    )
    if report.inverse:
        rows = [("DP loss to spend", up_to(report.dp_epsilon, down=True))]
    else:
        rows = [("leaks at most", up_to(report.leakage))]
    if report.speaks_for is not None and not report.inverse and report.adversary is Adversary.PUFFERFISH:
        rows += [("speaking for it", up_to(report.speaks_for)), ("speaking against it", up_to(report.speaks_against))]
    table = Table(caption=title, head=("secret", report.secret.text), rows=tuple(rows))
    blocks = (table, Words(_sentences(report)))
    return single_page(title, "What leaks", *blocks, data=report.to_dict(), kind="secret", opening=True)


def _sentences(report: SecretReport) -> tuple[str, ...]:
    leaks = up_to(report.leakage)
    if report.inverse:
        spend = up_to(report.dp_epsilon, down=True)
        first = f"Under this model, it leaks no more than {leaks} if the DP ε is at most {spend} in total, with any DP "
        first += "library."
    else:
        factor = f" = {math.exp(report.leakage):.4g}" if report.leakage < 700 else ""
        first = "Under this model, any DP algorithm with this ε changes the odds about it by at most a factor of "
        first += f"e^{leaks}{factor}."
    sentences = [first]
    if report.probability is not None:
        sentences.append(f"Under this model its prior probability is {up_to(report.probability)}.")
    if report.exact:
        sentences.append("Some DP algorithm leaks as much, so this bound is exact.")
    elif report.speaks_for is None:
        sentences.append("This is an upper bound on the leakage about all records of the interval together.")
    elif report.adversary is Adversary.PUFFERFISH:
        sentences.append("This is an upper bound; it is exact for two states.")
    else:
        sentences.append(
            "For an adversary who may know records, this upper bound is the leakage about all records of the interval "
            "together. For the adversary pufferfish it is computed for the event itself."
        )
    sentences.append("Assumes pure DP under substitution (change-one) neighbours.")
    return tuple(sentences)
