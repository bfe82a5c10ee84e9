"""What an algorithm of any DP library guarantees, as a privacy profile: pairs (epsilon, delta) that all hold for it.

Neighbours differ in the value of one record. Where a library adds or removes records, a change is one record out and
another one in: (ε, δ) twice makes (2ε, (1 + e^ε)·δ).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import ParameterError
from pufferdp.basics.words import a_kind
from pufferdp.bounds.approximate import PrivacyProfile
from pufferdp.data.number_files import read_numbers

DISTANCES: Final = {
    "AbsoluteDistance": 1.0,  # a count moves by 1
    "SymmetricDistance": 2,  # one value out, another one in
    "InsertDeleteDistance": 2,
    "ChangeOneDistance": 1,
    "HammingDistance": 1,
    "DiscreteDistance": 1,
}
"""How far apart data sets are, in OpenDP's metrics, that differ in the value of one record."""
_GRID: Final = 300
"""Pairs that are asked of an accountant, evenly on a logarithmic scale."""
_LEAST_DELTAS: Final = (1e-15, 1e-12, 1e-9, 1e-6, 1e-3)
"""The largest epsilon that is asked for has the first of these deltas that an accountant can give."""
_LARGEST: Final = 50.0
"""The same for an accountant that gives no epsilon for a delta."""


@dataclass(frozen=True)
class ZCdp:
    """Zero-concentrated DP (Bun & Steinke 2016), towards a change of one record's value.

    >>> ZCdp(rho=0.1)
    ZCdp(rho=0.1)
    """

    rho: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", checks.epsilon(self.rho, "rho"))


@dataclass(frozen=True)
class DpGuarantee:
    """A privacy profile, and where it comes from in words."""

    profile: PrivacyProfile
    words: str

    @property
    def pair(self) -> tuple[float, float] | None:
        """The one pair, where there is only one."""
        return (float(self.profile.losses[0]), float(self.profile.deltas[0])) if len(self.profile.losses) == 1 else None


def dp_guarantee(privacy: object, d_in: float | None = None) -> DpGuarantee:
    """What an algorithm guarantees: a pair, rho of zCDP, a profile, an OpenDP measurement or an accountant.

    Args:
        privacy: (epsilon, delta); ``ZCdp(rho)``; a ``PrivacyProfile``; an OpenDP measurement; an accountant of
            dp_accounting, or its privacy loss distribution (a PLD does not say what its neighbours are: it must be
            that of a change of one record).
        d_in: for an OpenDP measurement: how far one record moves its input.
    """
    if d_in is not None and not is_opendp(privacy):
        raise ParameterError(f"d_in is {d_in}; it goes with an OpenDP measurement: leave it out", value=d_in)
    if isinstance(privacy, PrivacyProfile):
        return DpGuarantee(privacy, f"a privacy profile of {len(privacy.losses):,} pairs")
    if isinstance(privacy, ZCdp):
        return DpGuarantee(PrivacyProfile.of_zcdp(privacy.rho), f"zCDP with rho {privacy.rho:g}")
    if is_opendp(privacy):
        return _of_opendp(privacy, d_in)
    if isinstance(privacy, Sequence) and not isinstance(privacy, (str, bytes)) and len(privacy) == 2:
        return _of_pair(privacy[0], privacy[1], "a pair (epsilon, delta)")
    for asks, gives in (("get_delta_for_epsilon", "get_epsilon_for_delta"), ("get_delta", "get_epsilon")):
        delta_at = getattr(privacy, asks, None)
        if callable(delta_at):
            epsilon_at = getattr(privacy, gives, None)
            return _of_accountant(privacy, delta_at, epsilon_at if callable(epsilon_at) else None)
    raise ParameterError(
        f"privacy is {a_kind(privacy)}; it must be a pair (epsilon, delta), ZCdp(rho), a PrivacyProfile, an "
        "OpenDP measurement, or an accountant or PLD of dp_accounting",
        value=privacy,
    )


def _of_pair(epsilon: float, delta: float, words: str) -> DpGuarantee:
    return DpGuarantee(PrivacyProfile.of([(checks.epsilon(epsilon), checks.delta(delta))]), words)


def _of_accountant(
    accountant: object, delta_at: Callable[[float], Any], epsilon_at: Callable[[float], Any] | None
) -> DpGuarantee:
    kind = type(accountant).__name__
    relation = getattr(accountant, "neighboring_relation", None)
    name = str(getattr(relation, "name", relation))
    sampled = _sampled(delta_at, epsilon_at, kind)
    if relation is None or name == "REPLACE_ONE":
        return DpGuarantee(sampled, f"{kind}, one record changes")
    if name not in ("ADD_OR_REMOVE_ONE", "REPLACE_SPECIAL"):
        raise ParameterError(
            f"the accountant's neighbours are {name}; they must be REPLACE_ONE, ADD_OR_REMOVE_ONE or REPLACE_SPECIAL",
            value=name,
        )
    # One record out, another one in; or one made special, and a special one made another.
    deltas = np.minimum.accumulate((1 + np.exp(sampled.losses)) * sampled.deltas)
    doubled = _profile(2 * sampled.losses, deltas, f"{kind} gives no delta below 1 for a record that changes")
    return DpGuarantee(doubled, f"{kind}, whose neighbours ({name}) count twice")


def _profile(losses: Floats, deltas: Floats, problem: str) -> PrivacyProfile:
    """The pairs whose delta says anything."""
    keep = deltas < 1
    if not keep.any():
        raise ParameterError(f"{problem}; spend less")
    return PrivacyProfile.of(np.stack([losses[keep], deltas[keep]], axis=1))


def _sampled(delta_at: Callable[[float], Any], epsilon_at: Callable[[float], Any] | None, kind: str) -> PrivacyProfile:
    """Pairs of an accountant on a grid. Each holds, so that nothing is lost but a little between them."""
    top = _LARGEST
    if epsilon_at is not None:
        ends = (float(epsilon_at(delta)) for delta in _LEAST_DELTAS)
        top = next((end for end in ends if math.isfinite(end) and 0 < end <= checks.LARGEST), 0.0)
    if not top > 0:
        raise ParameterError(f"{kind} gives no finite epsilon above 0 for a delta of {_LEAST_DELTAS[-1]:g}")
    losses = np.geomspace(top / 1000, top, _GRID)
    asked = [float(delta_at(float(loss))) for loss in losses]
    wrong = next((delta for delta in asked if not 0 <= delta <= 1), None)
    if wrong is not None:
        raise ParameterError(f"{kind} gives a delta of {wrong:g}; it must lie between 0 and 1", value=wrong)
    # An accountant may round one pair more than the one before; what holds at a loss holds at every larger one.
    deltas = np.minimum.accumulate(asked)
    return _profile(losses, deltas, f"{kind} gives no delta below 1 up to an epsilon of {top:g}")


def is_opendp(thing: object) -> bool:
    """Whether it is an OpenDP measurement."""
    library = type(thing).__module__.partition(".")[0]
    return library == "opendp" and hasattr(thing, "map") and hasattr(thing, "output_measure")


def opendp_loss(measurement: Any, d_in: float | None) -> Any:
    """What a measurement says of data sets that differ in one record, in its own measure."""
    if d_in is None:
        metric = str(measurement.input_metric).partition("(")[0]
        if metric not in DISTANCES:
            raise ParameterError(
                f"the measurement measures distance by {metric}; say with d_in how far apart data sets are that "
                "differ in one record"
            )
        d_in = DISTANCES[metric]
    for number in (d_in, int(d_in)) if float(d_in).is_integer() else (d_in,):
        try:
            return measurement.map(number)
        except Exception as error:  # whole numbers are asked for by some measurements, doubles by others
            refusal: Exception = error
    raise ParameterError(f"the measurement gives no loss at a distance of {d_in:g}: {' '.join(str(refusal).split())}")


def _of_opendp(measurement: Any, d_in: float | None) -> DpGuarantee:
    measure, words = str(measurement.output_measure), "an OpenDP measurement"
    loss = opendp_loss(measurement, d_in)
    if measure == "MaxDivergence":
        return _of_pair(float(loss), 0.0, words)
    if measure == "Approximate(MaxDivergence)":
        return _of_pair(float(loss[0]), float(loss[1]), words)
    if measure == "ZeroConcentratedDivergence":
        return DpGuarantee(PrivacyProfile.of_zcdp(ZCdp(float(loss)).rho), f"{words}, zCDP with rho {float(loss):g}")
    if measure == "Approximate(ZeroConcentratedDivergence)":
        rho, delta = ZCdp(float(loss[0])).rho, checks.delta(float(loss[1]))
        bare = PrivacyProfile.of_zcdp(rho)
        # But for an event of this probability it is zCDP.
        pairs = _profile(bare.losses, bare.deltas + delta, f"{words} gives no delta below 1")
        return DpGuarantee(pairs, f"{words}, zCDP with rho {rho:g} and delta {delta:g}")
    if measure == "SmoothedMaxDivergence":
        return DpGuarantee(_sampled(loss.delta, loss.epsilon, words), words)
    raise ParameterError(
        f"the measurement's privacy is measured by {measure}; turn it into pure, approximate or zero-concentrated DP "
        "first, with OpenDP's own combinators",
        value=measure,
    )


def read_profile(path: str | os.PathLike[str]) -> PrivacyProfile:
    """A privacy profile from a file: pairs (epsilon, delta), as CSV with or without a header, or as a JSON list."""
    pairs = read_numbers(path, "profile", ("epsilon", "delta"), "give pairs of an epsilon and a delta below 1")
    try:
        return PrivacyProfile.of([(epsilon, delta) for epsilon, delta in pairs])
    except ParameterError as error:
        raise ParameterError(f"profile {str(path)!r}: {error}", value=error.value) from None
