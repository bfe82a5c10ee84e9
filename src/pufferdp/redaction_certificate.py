"""Certificates of redacted series: what was promised, and the design that is enough to check it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field

from pufferdp import checks
from pufferdp.certificate import CertificatePart, MechanismPart, content_hash
from pufferdp.checks import Adversary
from pufferdp.errors import CertificateError, PufferdpError
from pufferdp.leakage.redaction import Block, Design, Hiding
from pufferdp.mechanisms.redaction import redaction_mechanism
from pufferdp.models.files import model_digest, model_from_dict
from pufferdp.models.markov import MarkovChain


class HidingPart(CertificatePart):
    """The promise."""

    adversary: str
    knows: str
    epsilon: float
    private: list[int] = Field(description="private rows, counted from 1")
    known: list[int] = Field(description="rows that the adversary knows")
    statement: str


class BlockPart(CertificatePart):
    """A stretch that is not all released."""

    first: int = Field(ge=1, description="its first row")
    redaction_probabilities: list[list[float]] = Field(description="one list a row, one probability a value")


class SeriesPart(CertificatePart):
    """What was read, and how. All of it is public."""

    column: str
    missing: str
    rows: int = Field(ge=1)
    records: int = Field(ge=1)
    chains: list[list[int]] = Field(description="first and last row of each chain with private records")


class RedactionCertificate(CertificatePart):
    """Everything needed to check a redaction later, without the data."""

    schema_: Literal["pufferdp-redaction-certificate/1"] = Field(alias="schema")
    pufferdp: str = Field(description="package version")
    created: str
    guarantee: HidingPart
    model: dict[str, Any] = Field(description="the model by value, as in a model file")
    model_sha256: str
    mechanism: MechanismPart
    leakage: float = Field(description="exact, about the private record that is hardest to hide")
    utility: float = Field(description="expected fraction of records released")
    blocks: list[BlockPart] = Field(description="every other row is released")
    data: SeriesPart
    mark: str
    public: list[str]
    warnings: list[str]
    sha256: str = Field(description="SHA-256 over the canonical JSON of everything else")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON content."""
        return self.model_dump(by_alias=True)

    def _repr_html_(self) -> str:
        from pufferdp.report.notebook import page_html

        return page_html(self)


def seal_redaction(content: dict[str, Any]) -> RedactionCertificate:
    """A certificate from its content, with its hash."""
    return RedactionCertificate.model_validate({**content, "sha256": content_hash(content)})


def knows_text(adversary: Adversary, known: Sequence[int]) -> str:
    """What the adversary knows, in words."""
    if not known:
        return adversary.knows
    listed = ", ".join(map(str, known[:10])) + (" and others" if len(known) > 10 else "")
    return f"row{'s' * (len(known) > 1)} {listed}"


def statement(adversary: Adversary, known: Sequence[int], epsilon: float, private: int) -> str:
    """The promise in one sentence."""
    which = "the private record" if private == 1 else "any one private record"
    factor = math.exp(epsilon) if epsilon < 700 else math.inf
    return (
        f"Whoever believes the model, knows {knows_text(adversary, known)} and sees the redacted series can shift "
        f"their odds between two values of {which} by a factor of at most e^{epsilon:g} = {factor:.4g}."
    )


def public_facts(chain: MarkovChain, rows: int) -> list[str]:
    """What a redaction takes to be known to everyone."""
    facts = [
        f"how many records there are ({rows}) and where values are missing",
        "which records are private, the model, the redaction probabilities and every number in this certificate",
        "the other columns of the data, which are copied as they are and not protected",
        "a mark says that its record was redacted, and so something about its value: later releases from the same "
        "data must be calibrated on the tilted model",
    ]
    if chain.bins is not None:
        facts.append("given its state, a number is taken to be independent of all other records")
    return facts


def redaction_problems(c: RedactionCertificate, raw: dict[str, Any]) -> list[str]:
    """Why a certificate does not hold; nothing where it does."""
    problems = []
    if content_hash(raw) != c.sha256:
        problems.append("the hash does not match: the certificate was changed after it was made")
    model = model_from_dict(c.model)
    if not isinstance(model, MarkovChain):
        return [*problems, "the model is no Markov chain"]
    if model_digest(model) != c.model_sha256:
        problems.append("model_sha256 is not the digest of the model")
    adversary = checks.adversary(c.guarantee.adversary)
    try:
        theorem = redaction_mechanism(c.mechanism.name).theorem
        designs = _designs(c, model, adversary)
    except PufferdpError as error:
        return [*problems, str(error)]
    if isinstance(designs, str):
        return [*problems, designs]
    leakage = max(design.leakage for design in designs)
    utility = 1 - math.fsum(design.redacted for design in designs) / c.data.records
    if leakage > c.guarantee.epsilon * (1 + 1e-12):
        problems.append(f"the design leaks {leakage:.10g}, more than the epsilon of {c.guarantee.epsilon:g}")
    for name, stated, true in (("leakage", c.leakage, leakage), ("utility", c.utility, utility)):
        if not math.isclose(stated, true, rel_tol=1e-9, abs_tol=1e-12):
            problems.append(f"{name} is {stated:.10g}; recomputed it is {true:.10g}")
    g = c.guarantee
    for text_name, said, recomputed in (
        ("mechanism.theorem", c.mechanism.theorem, theorem),
        ("guarantee.knows", g.knows, knows_text(adversary, g.known)),
        ("guarantee.statement", g.statement, statement(adversary, g.known, g.epsilon, len(g.private))),
        ("public", c.public, public_facts(model, c.data.rows)),
    ):
        if said != recomputed:
            problems.append(f"{text_name} is {said!r}; it should be {recomputed!r}")
    if c.mark in model.labels:
        problems.append(f"mark is {c.mark!r}, which is a state")
    return problems


def read_designs(raw: dict[str, Any]) -> list[Design]:
    """The designs of a certificate, one for each chain with private records; refused where it does not hold."""
    try:
        parsed = RedactionCertificate.model_validate(raw)
        problems = redaction_problems(parsed, raw)
    except ValueError:
        raise CertificateError("this is not the certificate of a redaction") from None
    if problems:
        raise CertificateError(f"the certificate does not hold: {problems[0]}")
    model = model_from_dict(parsed.model)
    assert isinstance(model, MarkovChain)
    found = _designs(parsed, model, checks.adversary(parsed.guarantee.adversary))
    assert not isinstance(found, str)
    return found


def _designs(c: RedactionCertificate, model: MarkovChain, adversary: Adversary) -> list[Design] | str:
    """The design of each chain, or what is wrong with it."""
    g, out, placed = c.guarantee, [], 0
    blocks = [Block(b.first, np.array(b.redaction_probabilities, dtype=float)) for b in c.blocks]
    for b in blocks:
        if b.marks.ndim != 2 or b.marks.shape[1] != model.size or not ((b.marks >= 0) & (b.marks <= 1)).all():
            return f"the block at row {b.first} must have a probability for each of the {model.size} states in each row"
    for a, b in itertools.pairwise(blocks):
        if b.first <= a.last:
            return f"the blocks at rows {a.first} and {b.first} overlap or are out of order"
    for span in c.data.chains:
        if len(span) != 2 or not 1 <= span[0] <= span[1] <= c.data.rows:
            return f"data.chains holds {span}; it must be the first and the last row of a chain"
        first, last = span
        inside = tuple(p - first + 1 for p in g.private if first <= p <= last)
        hiding = Hiding(
            chain=model,
            length=last - first + 1,
            private=inside,
            epsilon=g.epsilon,
            adversary=adversary,
            known=tuple(p - first + 1 for p in g.known if first <= p <= last),
        )
        mine = [Block(b.first - first + 1, b.marks) for b in blocks if first <= b.first and b.last <= last]
        placed += len(mine)
        design = Design(hiding=hiding, method=c.mechanism.name, blocks=tuple(mine))
        for p in inside:
            if not (design.of(p) == 1).all():
                return f"private row {p + first - 1} is not always redacted"
        out.append(design)
    if placed < len(blocks):
        return "a block lies outside the chains with private records"
    if sum(len(d.hiding.private) for d in out) != len(g.private) or not out:
        return "a private row lies in no chain, or in two"
    return out
