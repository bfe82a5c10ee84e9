"""Certificates of redacted series: what was guaranteed, and the design that is enough to check it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.redaction.design import RedactionProblem, runs_of
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.certificate import (
    CertificatePart,
    DataPart,
    MechanismPart,
    SealedCertificate,
    odds_guarantee,
)
from pufferdp.publish.fields import Near, Stated
from pufferdp.publish.reading import columns_text

LISTED: Final = 100_000
"""Up to so many records every one has its list in the JSON; beyond, only the blocks that are not all 0."""


ROUNDING: Final = 1e-12
"""Absolute: of a leakage or a share of records."""


class HidingPart(CertificatePart):
    """The guarantee of a redacted series, about its private records."""

    adversary: str = Field(description="bdp, pufferfish or dp")
    knows: str = Field(description="what the adversary knows of the other records")
    epsilon: float = Field(description="bound on the log of how far odds change")
    private: Annotated[
        list[int], Stated("which rows stand at the private positions, where a column says the order")
    ] = Field(description="private rows, counted from 1")
    known: list[int] = Field(description="rows that the adversary knows")
    whole: bool | None = Field(
        default=None, description="true where private records that follow each other are one secret; absent otherwise"
    )
    statement: str = Field(description="the guarantee and its assumptions in words")


class BlockPart(CertificatePart):
    """A segment that is not all released."""

    first: int = Field(ge=1, description="its first position")
    redaction_probabilities: list[list[float]] = Field(description="one list a record, one probability a value")


class SeriesPart(DataPart):
    """What was read, and how, with the positions of the rows that matter. All of it is public."""

    rows: int = Field(ge=1, description="positions: records, and records that are missing between them")
    private: Annotated[
        list[int],
        Stated("where the private rows stand, where a column says the order; the leakage must be right there"),
    ] = Field(description="positions of the private rows: rows sorted by person and order, from 1")
    known: list[int] = Field(description="positions of the known rows")
    chains: Annotated[list[list[int]], Stated("where the chains end; the leakage must be right for them")] = Field(
        description="first and last position of each chain with private records"
    )
    kept: Annotated[
        list[str], Stated("which other columns were written; the guarantee says what is assumed of them")
    ] = Field(description="other columns that were written as they are")


class EarlierPart(CertificatePart):
    """An earlier redaction of the same data, for which this one was designed as well: the guarantee is for both."""

    sha256: str = Field(description="the hash of its certificate")
    private: list[int] = Field(description="its private rows")
    leakage: float = Field(description="what it leaks, exactly")
    dataset: str | None = Field(description="the data set of the ledger that it was charged to")


class DesignPart(MechanismPart):
    """How the design was found."""

    name: Annotated[str, Stated("which of the methods found the design; what it leaks follows from the design itself")]


class RedactionCertificate(SealedCertificate):
    """Everything needed to check a redaction later, without the data."""

    schema_: Literal["pufferdp-redaction-certificate/2"] = Field(alias="schema")
    guarantee: HidingPart
    mechanism: DesignPart
    leakage: Annotated[float, Near(abs=ROUNDING)] = Field(
        description="exact, about the private record or segment that is hardest to hide"
    )
    utility: Annotated[float, Near(abs=ROUNDING)] = Field(description="expected fraction of records released")
    blocks: list[BlockPart] = Field(description="every other record is released")
    data: SeriesPart
    after: Annotated[
        EarlierPart | None, Stated("which redaction came before; its certificate can be verified by itself")
    ] = Field(description="null where this is the first redaction of the data")
    mark: Annotated[str, Stated("the word for a redacted record; it must be no state")]


def knows_text(adversary: Adversary, known: Sequence[int]) -> str:
    """What the adversary knows, in words."""
    if not known:
        return adversary.knows
    listed = ", ".join(map(str, known[:10])) + (" and others" if len(known) > 10 else "")
    return f"row{'s' * (len(known) > 1)} {listed}"


def statement(hiding: RedactionProblem, known: Sequence[int], *, after: bool = False) -> str:
    """The guarantee in one sentence; ``known`` are the rows that the adversary knows."""
    sees = "this and the earlier redacted series" if after else "the redacted series"
    one = len(hiding.secrets) == 1
    if hiding.whole:
        records = "the private records, taken together," if one else "any one private segment, taken as a whole,"
        between = f"any two possible sequences for {records}"
    else:
        between = f"any two values of {'the private record' if one else 'any one private record'}"
    return odds_guarantee(sees, between, hiding.epsilon, knows_text(hiding.adversary, known))


def public_facts(chain: MarkovChain, rows: int, kept: Sequence[str]) -> list[str]:
    """What a redaction takes to be known to everyone, with the columns that it keeps."""
    columns = "the columns that say whose and when a record is, where they are written beside it"
    if kept:
        columns += f", and the kept {columns_text(kept)}, which the guarantee does not cover"
    facts = [
        f"how many records there are ({rows}) and where values are missing",
        "which records are private, the model, the redaction probabilities and every number in this certificate",
        columns,
        "a mark says that its record was redacted, and so something about its value: later releases from the same "
        "data must be calibrated on the tilted model",
    ]
    if chain.bins is not None:
        facts.append("given its state, a number is taken to be independent of all other records")
    return facts


def rows_text(rows: Sequence[int]) -> str:
    """Rows in words: row 7, or rows 3-5 and 9."""
    ordered = sorted(set(rows))
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs_of(ordered)]
    word = "row" if len(ordered) == 1 else "rows"
    return f"{word} {', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else f"{word} {parts[0]}"
