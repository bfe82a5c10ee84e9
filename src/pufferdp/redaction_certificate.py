"""Certificates of redacted series: what was promised, and the design that is enough to check it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from pufferdp import checks
from pufferdp.certificate import (
    CertificatePart,
    LedgerPart,
    MechanismPart,
    SealedCertificate,
    content_hash,
    row_problems,
)
from pufferdp.checks import Adversary
from pufferdp.data.layout import Layout
from pufferdp.errors import CertificateError, PufferdpError
from pufferdp.leakage.redaction import Design, Hiding
from pufferdp.leakage.redaction_parts import designs_of
from pufferdp.ledger.charges import Charge
from pufferdp.ledger.redactions import redaction_charge, rows_text
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

    first: int = Field(ge=1, description="its first position")
    redaction_probabilities: list[list[float]] = Field(description="one list a record, one probability a value")


class SeriesPart(CertificatePart):
    """What was read, and how. All of it is public."""

    column: str
    order: str | None
    by: str | None
    gap: str | float | None
    missing: str
    rows: int = Field(ge=1)
    records: int = Field(ge=1)
    private: list[int] = Field(description="positions of the private rows: rows sorted by person and order, from 1")
    known: list[int] = Field(description="positions of the known rows")
    chains: list[list[int]] = Field(description="first and last position of each chain with private records")


class EarlierPart(CertificatePart):
    """An earlier redaction of the same data, for which this one was designed as well: the promise is for both."""

    sha256: str = Field(description="the hash of its certificate")
    private: list[int] = Field(description="its private rows")
    leakage: float
    dataset: str | None = Field(description="the data set of the ledger that it was charged to")


class RedactionCertificate(SealedCertificate):
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
    blocks: list[BlockPart] = Field(description="every other record is released")
    data: SeriesPart
    after: EarlierPart | None = Field(description="null where this is the first redaction of the data")
    mark: str
    public: list[str]
    warnings: list[str]
    ledger: LedgerPart | None = Field(description="null where no budget was kept")
    sha256: str = Field(description="SHA-256 over the canonical JSON of everything else")


def knows_text(adversary: Adversary, known: Sequence[int]) -> str:
    """What the adversary knows, in words."""
    if not known:
        return adversary.knows
    listed = ", ".join(map(str, known[:10])) + (" and others" if len(known) > 10 else "")
    return f"row{'s' * (len(known) > 1)} {listed}"


def statement(adversary: Adversary, known: Sequence[int], epsilon: float, private: int, *, after: bool = False) -> str:
    """The promise in one sentence."""
    sees = "this and the earlier redacted series" if after else "the redacted series"
    which = "the private record" if private == 1 else "any one private record"
    factor = math.exp(epsilon) if epsilon < 700 else math.inf
    return (
        f"Whoever believes the model, knows {knows_text(adversary, known)} and sees {sees} can shift "
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


def redaction_problems(c: RedactionCertificate, raw: dict[str, Any], head: str | None = None) -> list[str]:
    """Why a certificate does not hold; nothing where it does. With ``head`` it must name that row of a ledger."""
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
        layout = Layout(column=c.data.column, order=c.data.order, by=c.data.by, gap=c.data.gap, missing=c.data.missing)
    except PufferdpError as error:
        return [*problems, str(error)]
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
        (
            "guarantee.statement",
            g.statement,
            statement(adversary, g.known, g.epsilon, len(g.private), after=c.after is not None),
        ),
        ("public", c.public, public_facts(model, c.data.rows)),
    ):
        if said != recomputed:
            problems.append(f"{text_name} is {said!r}; it should be {recomputed!r}")
    if c.mark in model.labels:
        problems.append(f"mark is {c.mark!r}, which is a state")
    if layout.order is None and layout.by is None and (c.data.private, c.data.known) != (g.private, g.known):
        problems.append("data.private and data.known must be the rows themselves where nothing says another order")
    if c.after is not None and not set(c.after.private) <= set(g.private):
        problems.append("a record that the earlier redaction kept private is private no more")
    return problems + row_problems(c.ledger, certificate_charge(c, designs), head)


def certificate_charge(c: RedactionCertificate, designs: Sequence[Design]) -> Charge:
    """What a redaction charges, as its certificate describes it."""
    earlier = None
    if c.after is not None and c.ledger is not None and c.after.dataset == c.ledger.dataset:
        earlier = rows_text(c.after.private), c.after.leakage
    return redaction_charge(
        designs,
        model=c.model_sha256,
        private=c.guarantee.private,
        positions=c.data.private,
        rows=c.data.rows,
        chains=c.data.chains,
        earlier=earlier,
    )


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
    return _designs(parsed, model, checks.adversary(parsed.guarantee.adversary))


def _designs(c: RedactionCertificate, model: MarkovChain, adversary: Adversary) -> list[Design]:
    """The design of each chain; refused where it is none."""
    hiding = Hiding(
        chain=model,
        length=c.data.rows,
        private=tuple(c.data.private),
        epsilon=c.guarantee.epsilon,
        adversary=adversary,
        known=tuple(c.data.known),
    )
    if len(c.data.private) != len(c.guarantee.private) or len(c.data.known) != len(c.guarantee.known):
        raise CertificateError("data must have one position for each private and each known row")
    blocks = [(b.first, b.redaction_probabilities) for b in c.blocks]
    return designs_of(hiding, method=c.mechanism.name, chains=c.data.chains, blocks=blocks)
