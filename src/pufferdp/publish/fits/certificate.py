"""What a model file says of the fit that made it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from pufferdp.publish.certificate import CertificatePart
from pufferdp.publish.fields import Stated


class Fitted(CertificatePart):
    """The part ``fitted`` of a model file. Keys that do not apply are left out."""

    column: Annotated[str, Stated("the name of a column")]
    records: Annotated[int, Stated("how many records were read")]
    chains: Annotated[int, Stated("how many chains were read")]
    dp_epsilon: float = Field(default=0.0, description="of a private fit: the DP loss that it has spent")
    left_out: Annotated[list[str], Stated("which states were never left")] = Field(
        description="states that were never left, so they have no row"
    )
    prior: float = Field(default=0.0, description="added to every transition count before rows were made of them")
    confidence: float = Field(default=0.0, description="of a class: the probability that it contains the truth")

    def to_dict(self) -> dict[str, Any]:
        """As in a model file: without the keys that do not apply."""
        return self.model_dump(exclude_unset=True)
