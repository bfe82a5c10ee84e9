"""What a certificate must say about where its model came from. It follows from the model alone, never from the data.

Whether a model was fitted on the very records that are released is a fact about those records: a warning that depended
on it would tell one bit of them without noise. So the warning is conditional, every model that was fitted has it, and
whoever verifies can demand it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pufferdp.basics.files import found_text

FITTED: Final = (
    "the model was fitted without differential privacy; if on this data, it is part of what leaks, and the promise is "
    "weaker"
)
EARLIER: Final = (
    "the model was fitted on the very data released here: it is part of what leaks, and the promise is weaker",
    "the model was fitted on another machine; if it was fitted on this data, the promise is weaker",
    "the model was fitted on data; if on this stream, the promise is weaker",
)
"""What earlier versions said in its place."""
_FACTS: Final = frozenset(("column", "records", "chains"))
"""What ``fit`` writes of every model."""


def fitted_warning(fitted: Mapping[str, Any] | None, charged: bool = False) -> str | None:
    """The sentence about the fit of a model, if it needs one; ``charged`` says that a ledger has counted the fit."""
    if not fitted:
        return None
    if "dp_epsilon" not in fitted:
        return FITTED
    if charged:
        return None
    loss = fitted["dp_epsilon"]
    spent = f"{loss:g}" if isinstance(loss, (int, float)) else found_text(loss)
    return (
        f"the model was fitted with a DP loss of {spent}; if it was fitted on this data, that loss counts as a release "
        "too: keep a ledger"
    )


def accepted_warnings(fitted: Mapping[str, Any] | None, has_ledger: bool) -> tuple[str, ...]:
    """The sentences of which a certificate should have one; none where nothing need be said.

    Whether a ledger has counted a private fit does not follow from a certificate that names a row of one.
    """
    text = fitted_warning(fitted, charged=has_ledger)
    return () if text is None else (text, *EARLIER)


def demanded_warnings(fitted: Mapping[str, Any] | None, has_ledger: bool) -> tuple[str, ...]:
    """Those without which a certificate does not hold.

    Versions that kept a digest of the data in the model left the warning out where the model was fitted on other data,
    and what they certified holds on; whoever verifies it is told what it does not say.
    """
    by_fit = fitted is not None and fitted.keys() >= _FACTS and "digest" not in fitted
    return accepted_warnings(fitted, has_ledger) if by_fit else ()


def untold(fitted: Mapping[str, Any] | None, has_ledger: bool, warnings: Sequence[str]) -> list[str]:
    """What a certificate should have said of the fit of its model, and has not."""
    accepted = accepted_warnings(fitted, has_ledger)
    return [accepted[0]] if accepted and not any(text in warnings for text in accepted) else []
