"""A certificate of a sanitised series recomputed: the channel must keep the promise under the model it names."""

from __future__ import annotations

import math
from typing import Any

from pydantic import ValidationError

from pufferdp.basics import checks
from pufferdp.basics.errors import PufferdpError
from pufferdp.basics.files import canonical_json
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import MarkovClass
from pufferdp.models.files.json import model_digest, model_from_dict, plain_errors
from pufferdp.publish.certificate import content_hash, row_problems
from pufferdp.publish.flips.certificate import (
    SeriesCertificate,
    series_charge,
    series_guarantee,
    series_once,
    series_public,
)
from pufferdp.publish.flips.design import THEOREMS, describe, flip_chains
from pufferdp.publish.reading import check_reading


def series_problems(raw: dict[str, Any], head: str | None = None) -> tuple[list[str], list[str]]:
    """What is wrong with a certificate, and its warnings."""
    try:
        c = SeriesCertificate.model_validate(raw)
        canonical_json(raw)
    except ValidationError as error:
        return plain_errors(error)[:5], []
    except ValueError:
        return ["a number is infinite or nan; every number of a certificate must be finite"], []
    problems = []
    try:
        if content_hash(raw) != c.sha256:
            problems.append("the hash does not match: the certificate was changed after it was made")
        problems += _recompute(c)
        matrix, length, who = c.channel.matrix, c.channel.length, c.guarantee.adversary
        charge = series_charge(matrix, length, c.guarantee.epsilon, c.model_sha256, who)
        problems += row_problems(c.ledger, charge, head)
    except (PufferdpError, ValueError) as error:
        problems.append(str(error))
    return problems, list(c.warnings)


def _recompute(c: SeriesCertificate) -> list[str]:
    model = model_from_dict(c.model)
    problems = []
    if model_digest(model) != c.model_sha256:
        problems.append("model_sha256 is not the digest of the model")
    if c.mechanism.name not in THEOREMS:
        return [*problems, f"mechanism {c.mechanism.name!r} is not known to this version"]
    flip_chains(model)
    assert isinstance(model, (MarkovChain, MarkovClass))
    shares = tuple(tuple(int(share) for share in row) for row in c.channel.thresholds)
    if len(shares) != model.size or any(len(row) != model.size or sum(row) != 2**64 for row in shares):
        return [*problems, "channel.thresholds must have a row for each state, whole numbers that add up to 2^64"]
    if any(share < 0 for row in shares for share in row):
        return [*problems, "channel.thresholds has a negative share"]
    longest = max((length for length, _ in c.data.lengths), default=0)
    if c.channel.length is not None and c.channel.length < longest:
        problems.append(f"the loss is for chains of {c.channel.length} records; the data has one of {longest}")
    who = checks.adversary(c.guarantee.adversary)
    ours = describe(model, c.guarantee.epsilon, who, c.channel.length, c.mechanism.name, shares)
    for name, stated, true in (
        ("channel.loss", c.channel.loss, ours.loss),
        ("channel.dp_loss", c.channel.dp_loss, ours.dp_loss),
        ("channel.expected_noise", c.channel.expected_noise, ours.expected_noise),
    ):
        # 1e-6: brackets of more than two states stop within it, and another machine may stop elsewhere.
        if not math.isclose(stated, true, rel_tol=1e-6):
            problems.append(f"{name} is {stated:.10g}; recomputed it is {true:.10g}")
    if c.channel.matrix != ours.channel.tolist():
        problems.append("channel.matrix does not follow from channel.thresholds")
    guarantee = series_guarantee(model, c.guarantee.epsilon, who)
    for text_name, said, recomputed in (
        ("mechanism.theorem", c.mechanism.theorem, THEOREMS[c.mechanism.name]),
        ("guarantee", c.guarantee.model_dump(), guarantee),
        ("labels", c.labels, list(model.labels)),
        ("once", c.once, series_once(c.ledger)),
        ("public", c.public, series_public(c.data.records)),
    ):
        if said != recomputed:
            problems.append(f"{text_name} is {said!r}; it should be {recomputed!r}")
    if sum(a * b for a, b in c.data.lengths) != c.data.records:
        problems.append(f"data.records is {c.data.records}; the chain lengths add up to another number")
    try:
        ways = {"order": c.data.order, "by": c.data.by, "gap": c.data.gap}
        check_reading(model, ways, c.data.missing, c.data.id)
    except PufferdpError as error:
        problems.append(f"the data cannot have been read like this: {error}")
    return problems
