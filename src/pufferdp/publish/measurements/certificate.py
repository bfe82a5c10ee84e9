"""The certificate of a measurement from outside, and its words."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from pufferdp.publish.answers.certificate import ApproximateGuarantee
from pufferdp.publish.certificate import (
    CertificatePart,
    DataPart,
    LedgerPart,
    MechanismPart,
    ModelChecksPart,
    SealedCertificate,
)

AUTHOR: Final = (
    "the DP loss of the measurement is what its own privacy map states; that map is trusted and not checked here, and "
    "an error in it is an error in this guarantee"
)
TRUSTED: Final = (
    "Assumption: the privacy map of the measurement is correct. It is the other library's own, trusted and not checked."
)
"""The sentence of the guarantee on what it is conditional on."""


class MeasurementPart(CertificatePart):
    """What the map of the measurement states of one record that changes."""

    metric: str
    moves: int = Field(ge=1, description="how far apart data sets are in which one record differs")
    measure: str
    dp_loss: float = Field(gt=0, description="of the pair that is carried over; all of it where the delta is 0")
    dp_delta: float = Field(ge=0, lt=1)
    values: str = Field(description="what the measurement gets for each record")
    clip: list[float] | None


class MeasurementCertificate(SealedCertificate):
    """Everything needed to check later how a stated DP loss became a guarantee, without the data."""

    schema_: Literal["pufferdp-measurement-certificate/2"] = Field(alias="schema")
    pufferdp: str = Field(description="package version")
    created: str
    guarantee: ApproximateGuarantee
    model: dict[str, Any] = Field(description="the model or class by value, as in a model file")
    model_sha256: str
    model_checks: ModelChecksPart | None = Field(default=None, description="what the data said about the model")
    mechanism: MechanismPart = Field(description="the leakage curve that carries the DP loss over")
    measurement: MeasurementPart
    data: DataPart
    public: list[str]
    answer: Any = Field(description="what the measurement returned")
    warnings: list[str]
    ledger: LedgerPart | None = Field(description="null where no budget was kept")
    sha256: str = Field(description="SHA-256 over the canonical JSON of everything else")
