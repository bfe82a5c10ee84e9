"""The certificate of a measurement from outside, and its words."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from pufferdp.bounds.tight.series import TOLERANCE
from pufferdp.publish.answers.certificate import ApproximateGuarantee
from pufferdp.publish.certificate import CertificatePart, SealedCertificate
from pufferdp.publish.fields import Near, Stated

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

    metric: str = Field(description="the input distance of the map")
    moves: int = Field(ge=1, description="how far apart data sets are in which one record differs")
    measure: str = Field(description="the privacy measure of the map")
    dp_loss: float = Field(gt=0, description="of the pair that is carried over; all of it where the delta is 0")
    dp_delta: float = Field(ge=0, lt=1)
    values: str = Field(description="what the measurement gets for each record")
    clip: list[float] | None = Field(description="the range that values are clipped to")


class CarriedGuarantee(ApproximateGuarantee):
    """The guarantee that follows from what the map states."""

    # Another machine may end on another upper end within the tolerance; the delta follows from it.
    epsilon: Annotated[float, Near(rel=TOLERANCE)] = Field(description="bound on the log of how far odds change")
    delta: Annotated[float | None, Near(rel=1e-6)] = Field(
        default=None, description="only where it is added to every probability"
    )


class MeasurementCertificate(SealedCertificate):
    """Everything needed to check later how a stated DP loss became a guarantee, without the data."""

    schema_: Literal["pufferdp-measurement-certificate/2"] = Field(alias="schema")
    guarantee: CarriedGuarantee
    measurement: Annotated[MeasurementPart, Stated("what its map states; the guarantee must follow from it")]
    answer: Annotated[Any, Stated("what the measurement returned")]
