"""What an adversary knows besides the model."""

from __future__ import annotations

from enum import StrEnum


class Adversary(StrEnum):
    """What the adversary knows besides the model."""

    BDP = "bdp"
    """Any set of records: Bayesian differential privacy, the strongest guarantee and the default."""
    PUFFERFISH = "pufferfish"
    """No record: the Pufferfish framework with per-record secrets."""
    DP = "dp"
    """All other records: what differential privacy guarantees."""

    @property
    def knows(self) -> str:
        """What this adversary knows, in words."""
        return {"bdp": "any set of other records", "pufferfish": "no record", "dp": "all other records"}[self.value]
