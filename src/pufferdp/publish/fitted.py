"""What a certificate must say about where its model came from. It follows from the model alone, never from the data.

Whether a model was fitted on the very records that are released is a fact about those records: a warning that depended
on it would tell one bit of them without noise. So the warning is conditional, every model that was fitted has it, and
whoever verifies can demand it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pufferdp.basics.files import found_text

FITTED: Final = (
    "the model was fitted without differential privacy; if on this data, it is part of what leaks, and the promise is "
    "weaker"
)


def fitted_warning(fitted: Mapping[str, Any] | None) -> str | None:
    """The sentence about the fit of a model, where it was fitted."""
    if not fitted:
        return None
    if "dp_epsilon" not in fitted:
        return FITTED
    loss = fitted["dp_epsilon"]
    spent = f"{loss:g}" if isinstance(loss, (int, float)) else found_text(loss)
    return (
        f"the model was fitted with a DP loss of {spent}; if it was fitted on this data, that loss counts as a release "
        "too: charge it to the same ledger"
    )
