"""What a report sets beside a result: what the same epsilon leaks without noise that is chosen for the model.

Whatever it says follows from what is public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pufferdp.assess.dp import LeakageReport, leakage_lines, leakage_of
from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import PufferdpError
from pufferdp.bounds.redaction.design import Design, blocks_of
from pufferdp.models.base import Model
from pufferdp.models.files.json import model_digest, model_from_dict
from pufferdp.publish.answers.plan import Plan
from pufferdp.publish.answers.publication import Release
from pufferdp.publish.certificate import REDACTION_SCHEMA, SCHEMA, SERIES_SCHEMA, TABLE_SCHEMA, SealedCertificate
from pufferdp.publish.flips.plan import FlipDesign, design_flips, flip_bound, flip_chains
from pufferdp.publish.flips.publication import Flip
from pufferdp.publish.redaction.result import Redaction, redaction_of
from pufferdp.publish.tables.plan import TablePlan
from pufferdp.publish.tables.publication import TableRelease

EXACT_UP_TO: Final = 5000
"""Records in a chain up to which a report computes leakage exactly; beyond, the curves have to do."""


@dataclass(frozen=True, kw_only=True)
class PlainDp:
    """Noise for plain differential privacy with the same epsilon, under the same model."""

    model_sha256: str
    own_secrets: bool
    """Secrets of one's own: DP makes its claim about records, so there is nothing to compare."""
    leakage: LeakageReport | None = None
    lines: Mapping[str, Any] | None = None
    """Curves around it, as ``leakage_lines`` has them."""
    unknown: str = ""
    """Why there is no leakage to compare with."""


@dataclass(frozen=True, kw_only=True)
class PlainFlips:
    """Randomised response with the same epsilon as its DP loss, against the same adversary."""

    model_sha256: str
    leakage: float
    expected_noise: float
    exact: bool
    """With two states; an upper bound otherwise."""


@dataclass(frozen=True, kw_only=True)
class OnlyPrivateRows:
    """The private rows taken out, and nothing else."""

    leakage: float
    leakage_to: Mapping[Adversary, float]
    """What the redaction itself leaks to adversaries, exactly."""


Comparison = PlainDp | PlainFlips | OnlyPrivateRows


def comparison_of(subject: object) -> Comparison | None:
    """What to compare a result or a certificate with; None where there is nothing."""
    if isinstance(subject, Plan):
        problem = subject.problem
        return _plain_dp(
            problem.model,
            problem.epsilon,
            str(problem.adversary),
            problem.longest if problem.records else None,
            None if problem.query.clip else problem.query.name,
            problem.secrets is not None,
        )
    if isinstance(subject, TablePlan):
        table = subject.problem
        return _plain_dp(table.model, table.epsilon, str(table.adversary), table.longest, None, False)
    if isinstance(subject, FlipDesign):
        return _plain_flips(subject.model, subject.epsilon, str(subject.adversary), subject.length)
    if isinstance(subject, Redaction):
        return _only_private_rows(subject)
    if isinstance(subject, Release | TableRelease | Flip):
        return _certified(subject.certificate.to_dict())
    if isinstance(subject, SealedCertificate):
        return _certified(subject.to_dict())
    return _certified(subject) if isinstance(subject, dict) else None


def _certified(certificate: dict[str, Any]) -> Comparison | None:
    schema = certificate.get("schema")
    if schema == REDACTION_SCHEMA:
        return _only_private_rows(redaction_of(certificate))
    if schema not in (SCHEMA, SERIES_SCHEMA, TABLE_SCHEMA):
        return None
    model, guarantee = model_from_dict(certificate["model"]), certificate["guarantee"]
    if schema == SERIES_SCHEMA:
        return _plain_flips(model, guarantee["epsilon"], guarantee["adversary"], certificate["channel"]["length"])
    # Of a table any algorithm will do: what its queries leak together has no closed form.
    query = certificate.get("query", {"clip": None, "name": None})
    return _plain_dp(
        model,
        guarantee["epsilon"],
        guarantee["adversary"],
        max((length for length, _ in certificate["data"]["lengths"]), default=None),
        None if query["clip"] else query["name"],
        guarantee["framework"] is not None,
    )


def _plain_dp(
    model: Model, epsilon: float, adversary: str, longest: int | None, query: str | None, own: bool
) -> PlainDp:
    """With the exact leakage where it is quick to have."""
    digest = model_digest(model)
    if own:
        return PlainDp(model_sha256=digest, own_secrets=True)
    series = model.needs_length
    short = not series or (longest or 0) <= EXACT_UP_TO
    scalar = query is not None and (query.startswith("count:") or query in ("sum", "mean"))
    exact_query = query if scalar and short and not model.real_valued else None
    length = longest if series else None
    try:
        leakage = leakage_of(model, dp_epsilon=epsilon, length=length, adversary=adversary, query=exact_query)
    except PufferdpError as error:
        return PlainDp(model_sha256=digest, own_secrets=False, unknown=str(error))
    lines = leakage_lines(model, leakage, exact_query)
    return PlainDp(model_sha256=digest, own_secrets=False, leakage=leakage, lines=lines)


def _plain_flips(model: Model, epsilon: float, adversary: str, length: int | None) -> PlainFlips:
    plain = design_flips(model, epsilon, length=length, adversary="dp")
    return PlainFlips(
        model_sha256=model_digest(model),
        leakage=flip_bound(flip_chains(model), plain.channel, length, checks.adversary(adversary)),
        expected_noise=plain.expected_noise,
        exact=len(model.labels) == 2,
    )


def _only_private_rows(redaction: Redaction) -> OnlyPrivateRows:
    leakage = 0.0
    for _, design in redaction.designs:
        first, last = design.hiding.private[0], design.hiding.private[-1]
        blank = np.zeros((last - first + 1, design.hiding.chain.size))
        alone = Design(hiding=design.hiding, method=design.method, blocks=blocks_of(design.hiding, first, blank))
        leakage = max(leakage, alone.leakage)
    others = (Adversary.PUFFERFISH, Adversary.BDP)
    return OnlyPrivateRows(
        leakage=leakage, leakage_to={adversary: redaction.leakage_to(adversary) for adversary in others}
    )
