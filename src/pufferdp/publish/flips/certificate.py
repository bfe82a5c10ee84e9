"""Certificates of privatised series: the same guarantee as for an answer, and the channel every record went through."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from pufferdp.basics.adversary import Adversary
from pufferdp.models.chain import SeriesModel
from pufferdp.publish.certificate import (
    GOES_ON,
    CertificatePart,
    Guarantee,
    SealedCertificate,
    odds_guarantee,
)
from pufferdp.publish.fields import Near, Stated

ONCE: Final = (
    "the guarantee is for one release: two flips of the same series can be averaged to remove noise, and each "
    "further release adds its dp_loss for every record"
)

CHARGED: Final = (
    "the guarantee is for this release alone; the data set of the ledger adds the dp_loss of each further release for "
    "every record, and its budget is the guarantee for all of them together"
)


BRACKET: Final = 1e-6
"""Brackets of more than two states stop within it, and another machine may stop elsewhere."""
_BRACKETED: Final = Near(rel=BRACKET)


class ChannelPart(CertificatePart):
    """The distribution of the output of a record, given its state."""

    matrix: list[list[float]] = Field(description="one row a state, one column an output")
    thresholds: list[list[str]] = Field(description="the same in whole 2^-64ths, as it was drawn")
    loss: Annotated[float, _BRACKETED] = Field(
        description="how much one record leaks at most: the worst output, record and adversary"
    )
    dp_loss: Annotated[float, _BRACKETED] = Field(
        description="largest log-ratio of the channel: what a ledger of DP losses adds"
    )
    expected_noise: Annotated[float, _BRACKETED] = Field(description="share of records that change, in the long run")
    length: Annotated[int | None, Stated("the guarantee may be for longer chains than there are")] = Field(
        description="records of the longest chain the loss is for; null: any number"
    )


class SeriesCertificate(SealedCertificate):
    """Everything needed to check a privatised series later, without the data."""

    schema_: Literal["pufferdp-series-certificate/2"] = Field(alias="schema")
    guarantee: Guarantee
    channel: ChannelPart
    labels: list[str] = Field(description="the states, in the order of the channel")
    once: str = Field(description="what a second release from the series costs")


def series_guarantee(model: SeriesModel, epsilon: float, adversary: Adversary, *, part: bool = False) -> str:
    """The guarantee of a privatised series, or of a part of one, in words."""
    between = "any two values of any single record"
    words = odds_guarantee("this series", between, epsilon, adversary.knows, single=model.single)
    return words + (f" {GOES_ON}" if part else "")


def series_once(row: object) -> str:
    """What the certificate says of a second release: whether a ledger counts it."""
    return ONCE if row is None else CHARGED


def series_public(records: int, *, part: bool = False) -> list[str]:
    """What a privatised series takes to be known to everyone."""
    return [
        *(["which segment of the series was read"] if part else []),
        f"how many records there are ({records}) and how they fall into chains",
        "where gaps and missing values lie",
        "the model, the channel and every number in this certificate but the records",
        "the columns that say whose and when a record is, where they are written beside it",
    ]
