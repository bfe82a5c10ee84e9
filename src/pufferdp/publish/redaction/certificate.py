"""Certificates of redacted series: what was promised, and the design that is enough to check it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import CertificateError, LedgerError, PufferdpError
from pufferdp.data.layout import Layout
from pufferdp.leakage.redaction.design import Design, Hiding, designs_of, shown_alike
from pufferdp.ledger.charge import Charge, redaction
from pufferdp.models.chain import MarkovChain
from pufferdp.models.files.json import model_digest, model_from_dict
from pufferdp.publish.certificate import (
    CertificatePart,
    LedgerPart,
    MechanismPart,
    SealedCertificate,
    content_hash,
    row_problems,
)
from pufferdp.publish.redaction.methods import redaction_mechanism


def redaction_charge(
    designs: Sequence[Design],
    *,
    model: str,
    private: Sequence[int],
    positions: Sequence[int],
    rows: int,
    chains: Sequence[Sequence[int]],
    earlier: tuple[str, float] | None = None,
) -> Charge:
    """The charge of a redaction.

    Args:
        designs: the design of each chain with private records.
        model: digest of the model.
        private: the private rows.
        positions: where they stand in the series.
        rows: how many rows there are.
        chains: first and last position of each chain.
        earlier: of a redaction that was designed together with one before it, in the same data set: the private
            records of that one in words, and what it leaked. Its leakage is contained in this one's.
    """
    who = designs[0].hiding
    leakage = max(design.leakage for design in designs)
    facts = {
        "method": designs[0].method,
        "epsilon": who.epsilon,
        "private": list(private),
        "positions": list(positions),
        "rows": rows,
        "chains": [list(span) for span in chains],
        "blocks": [
            [first - 1 + block.first, _runs(block.marks.tolist())]
            for (first, _), design in zip(chains, designs, strict=True)
            for block in design.blocks
        ],
        "earlier": None if earlier is None else earlier[1],
    }
    return redaction(
        window=all(map(shown_alike, designs)),
        leakage=leakage,
        private=rows_text(private),
        longest=max(last - first + 1 for first, last in chains),
        model=model,
        adversary=str(who.adversary),
        facts=facts,
        together=None if earlier is None else earlier[0],
    )


def recomputed(charge: Charge, model: object) -> Charge | None:
    """The charge that follows from the facts; None where there are none."""
    facts = charge.facts
    if not facts or charge.model is None:
        return None
    if not isinstance(model, MarkovChain):
        raise LedgerError("a redaction is charged under a model that is no Markov chain")
    hiding = Hiding(
        chain=model,
        length=facts["rows"],
        private=tuple(facts["positions"]),
        epsilon=facts["epsilon"],
        adversary=checks.adversary(charge.adversary),
    )
    blocks = [(first, [row for count, row in runs for _ in range(count)]) for first, runs in facts["blocks"]]
    designs = designs_of(hiding, method=facts["method"], chains=facts["chains"], blocks=blocks)
    earlier = None if charge.together is None else (charge.together, float(facts["earlier"]))
    found = redaction_charge(
        designs,
        model=charge.model,
        private=facts["private"],
        positions=facts["positions"],
        rows=facts["rows"],
        chains=facts["chains"],
        earlier=earlier,
    )
    for name in ("kind", "private", "longest", "together"):
        if getattr(found, name) != getattr(charge, name):
            raise LedgerError(f"the facts of a redaction do not go with its {name}")
    own, true = charge.epsilon or 0.0, found.epsilon or 0.0
    for stated, leaks in ((charge.leakage, found.leakage), (own, true)):
        if not math.isclose(stated, leaks, rel_tol=1e-9, abs_tol=1e-12):
            raise LedgerError(f"a redaction was charged {stated:.10g}; recomputed it leaks {leaks:.10g}")
    return found


def rows_text(rows: Sequence[int]) -> str:
    """Rows in words: row 7, or rows 3-5 and 9."""
    ordered = sorted(set(rows))
    parts = []
    for _, group in itertools.groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0]):
        found = [row for _, row in group]
        parts.append(str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}")
    word = "row" if len(ordered) == 1 else "rows"
    return f"{word} {', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else f"{word} {parts[0]}"


def _runs(marks: list[list[float]]) -> list[Any]:
    """Redaction probabilities, those of alike records once, with how many there are."""
    return [[len(list(group)), row] for row, group in itertools.groupby(marks)]


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
