"""What a model file says of the fit that made it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from pufferdp.publish.certificate import CertificatePart


class Fitted(CertificatePart):
    """The part ``fitted`` of a model file. Keys that do not apply are left out."""

    column: str
    records: int
    chains: int
    dp_epsilon: float = Field(default=0.0, description="of a private fit: the DP loss that it has spent")
    left_out: list[str] = Field(description="states that were never left, so they have no row")
    prior: float = Field(default=0.0, description="added to every transition count before rows were made of them")
    confidence: float = Field(default=0.0, description="of a class: the probability that it contains the truth")

    def to_dict(self) -> dict[str, Any]:
        """As in a model file: without the keys that do not apply."""
        return self.model_dump(exclude_unset=True)
