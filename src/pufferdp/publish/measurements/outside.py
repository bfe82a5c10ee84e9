"""An OpenDP measurement over the values of a column: what its map says that it loses when one record changes.

A record that changes is one change for the metrics that count changes, and a removal and an addition for those that
count these. Pure DP gives a loss. Approximate DP gives a pair of loss and delta, or a profile of such pairs, of which
the best is chosen by what it leaks (docs/guide/approximate.md, Theorem 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pufferdp.basics.errors import MechanismError, NotApplicableError, ParameterError
from pufferdp.basics.words import a_kind
from pufferdp.bounds.approximate import Approximate, PrivacyProfile, approximate_leakage, least_epsilon
from pufferdp.bounds.curve_forms import Curve
from pufferdp.models.base import Model
from pufferdp.publish.answers.queries import state_values

MOVES: Final = {"SymmetricDistance": 2, "InsertDeleteDistance": 2, "ChangeOneDistance": 1, "HammingDistance": 1}
"""How far apart data sets are in which one record differs, for each metric on vectors."""
_PURE: Final = "MaxDivergence"
_PAIRS: Final = ("Approximate(MaxDivergence)", "FixedSmoothedMaxDivergence")
_PROFILE: Final = "SmoothedMaxDivergence"
_ZCDP: Final = ("ZeroConcentratedDivergence", "Approximate(ZeroConcentratedDivergence)")
MEASURES: Final = (_PURE, *_PAIRS, _PROFILE, *_ZCDP)
_PROFILE_PAIRS: Final = 200
"""Pairs that are read off a profile; between two of them their chord is above it."""
_LEAST: Final = 1e-8
"""Whatever loses less loses this much too: a delta must stand beside a loss above 0."""
_FLOATS: Final = ("f32", "f64")
_INTEGERS: Final = tuple(f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64, 128))
Output = None | bool | int | float | str | list[Any] | dict[str, Any]
"""What can be released: whatever JSON can hold."""


@dataclass(frozen=True, kw_only=True)
class StatedLoss:
    """What the map of a measurement says of one record that changes: public, and its author's word."""

    metric: str
    moves: int
    """How far apart data sets are in which one record differs."""
    measure: str
    losses: tuple[tuple[float, float], ...]
    """Pairs (loss, delta) that all hold; a single one where the map gives one."""

    @property
    def profile(self) -> PrivacyProfile:
        """The pairs of loss and delta as a privacy profile."""
        return PrivacyProfile.of(self.losses)

    def carried(self, curve: Curve, delta: float) -> Approximate:
        """What it leaks, with at most this delta: the best pair of the profile."""
        if len(self.losses) == 1:
            return approximate_leakage(curve, *self.losses[0])
        best = least_epsilon(curve, self.profile, delta) if delta > 0 else None
        if best is None:
            what = f"{delta:g} is too small for it" if delta > 0 else "it has none that is 0: give one, such as 1e-6"
            raise NotApplicableError(f"the measurement keeps a guarantee with a delta, and {what}", value=delta)
        return best


def stated_loss(measurement: Any) -> StatedLoss:
    """Ask the map of a measurement; refuses metrics, measures and losses that cannot be carried over."""
    try:
        metric, measure = str(measurement.input_metric).removesuffix("()"), str(measurement.output_measure)
        ask = measurement.map
    except AttributeError:
        raise ParameterError(
            f"measurement is {a_kind(measurement)}; it must be an OpenDP measurement, such as space >> "
            "dp.t.then_sum() >> dp.m.then_laplace(scale=2.0)"
        ) from None
    if metric not in MOVES:
        raise ParameterError(
            f"the measurement's metric is {metric}; it must be one on vectors: {', '.join(MOVES)}", value=metric
        )
    if measure not in MEASURES:
        raise ParameterError(
            f"the measurement's measure is {measure}; it must be one of {', '.join(MEASURES)}", value=measure
        )
    try:
        losses = _losses(measure, ask(MOVES[metric]))
    except ParameterError:
        raise
    except Exception as error:
        raise ParameterError(
            f"the measurement's map does not say what {MOVES[metric]} costs: {type(error).__name__}"
        ) from None
    return StatedLoss(metric=metric, moves=MOVES[metric], measure=measure, losses=losses)


def _losses(measure: str, stated: Any) -> tuple[tuple[float, float], ...]:
    if measure == _PURE:
        return (_pair(float(stated), 0.0),)
    if measure in _PAIRS:
        return (_pair(float(stated[0]), float(stated[1])),)
    if measure == _PROFILE:
        return _pairs_of(stated)
    rho, delta = (float(stated), 0.0) if measure == _ZCDP[0] else (float(stated[0]), float(stated[1]))
    if rho == 0:
        return (_pair(0.0, delta),)
    profile = PrivacyProfile.of_zcdp(_pair(rho, delta)[0])
    # Approximate zCDP fails with its own delta, and otherwise as zCDP does (Bun & Steinke 2016, Definition 8.1).
    pairs = zip(profile.losses.tolist(), (profile.deltas + delta).tolist(), strict=True)
    return tuple((loss, failing) for loss, failing in pairs if failing < 1)


def _pairs_of(profile: Any) -> tuple[tuple[float, float], ...]:
    """Pairs of OpenDP's profile, from losses that fail often to those that hardly ever do."""
    most = next(
        (loss for tail in (1e-15, 1e-12, 1e-9, 1e-6) if math.isfinite(loss := float(profile.epsilon(tail)))), None
    )
    if most is None:
        raise ParameterError("the measurement's profile has no finite loss with a delta of 1e-6 or less")
    losses = np.linspace(most / _PROFILE_PAIRS, most, _PROFILE_PAIRS) if most > 0 else np.zeros(1)
    deltas = np.minimum.accumulate([float(profile.delta(float(loss))) for loss in losses])
    return tuple(_pair(loss, delta) for loss, delta in zip(losses.tolist(), deltas.tolist(), strict=True) if delta < 1)


def _pair(loss: float, delta: float) -> tuple[float, float]:
    if not (0 <= loss < math.inf and 0 <= delta < 1):
        raise ParameterError(
            f"the measurement's map says ({loss:g}, {delta:g}); its loss must be finite and its delta below 1: give it "
            "a larger noise scale",
            value=loss,
        )
    return max(loss, _LEAST), delta


@dataclass(frozen=True, kw_only=True)
class ColumnValues:
    """What a measurement gets for each record."""

    of_state: tuple[Any, ...] | None
    """The value of each state of the model; None: the numbers of the data, clipped."""
    clip: tuple[float, float] | None

    @property
    def possible(self) -> tuple[Any, ...]:
        """Values that every domain must have: all of the states, or both ends of the range."""
        return self.of_state if self.of_state is not None else self.clip or ()


def column_values(measurement: Any, model: Model, clip: tuple[float, float] | None) -> ColumnValues:
    """Which values of the column go with the measurement's domain; refuses a domain that has not all of them."""
    domain = measurement.input_domain
    kind = str(getattr(getattr(domain, "element_domain", None), "carrier_type", ""))
    values = _values_of(kind, str(getattr(domain, "type", domain)), model, clip)
    size = getattr(domain, "size", None) or 1
    strange = next((value for value in values.possible if not _is_member(domain, [value] * size)), None)
    if strange is not None:
        raise ParameterError(
            f"the measurement's domain is {domain}, and a record can be {strange!r}: widen the domain, or clip to it",
            value=strange,
        )
    return values


def _values_of(kind: str, domain: str, model: Model, clip: tuple[float, float] | None) -> ColumnValues:
    numbers = state_values(model)
    if kind == "String" and clip is None:
        return ColumnValues(of_state=model.labels, clip=None)
    if kind == "bool" and clip is None and set(model.labels) <= {"true", "false"}:
        return ColumnValues(of_state=tuple(label == "true" for label in model.labels), clip=None)
    if kind in _FLOATS and (numbers is not None or clip is not None):
        if numbers is None:
            return ColumnValues(of_state=None, clip=clip)
        low, high = clip or (-math.inf, math.inf)
        return ColumnValues(of_state=tuple(float(min(max(value, low), high)) for value in numbers), clip=clip)
    if kind in _INTEGERS and clip is None and numbers is not None and all(value.is_integer() for value in numbers):
        return ColumnValues(of_state=tuple(int(value) for value in numbers), clip=None)
    raise ParameterError(
        f"the measurement's domain is {domain}, and the column has no such values: states are text (String), states "
        "with values are numbers (f64, or integers where these are whole), states true and false are bool, and with "
        "clip=(a, b) the numbers of the data are f64",
        value=domain,
    )


def _is_member(domain: Any, values: list[Any]) -> bool:
    try:
        return bool(domain.member(values))
    except Exception:
        return False


def check_size(measurement: Any, records: int) -> None:
    """Refuse a domain for another number of records; how many there are is public."""
    size = getattr(measurement.input_domain, "size", None)
    if size is not None and size != records:
        raise ParameterError(
            f"the measurement's domain is for {size} records, and {records} were read: leave its size out, or use "
            "theirs",
            value=size,
        )


def run(measurement: Any, values: list[Any], what: str) -> Output:
    """What a measurement returns, as JSON has it; its own errors may repeat data and are not passed on."""
    try:
        output = measurement(values)
    except Exception as error:
        raise MechanismError(f"the measurement fails on {what}: {type(error).__name__}") from None
    return _plain(output)


def _plain(output: Any) -> Output:
    """Numbers, texts, lists and dictionaries; numpy's become Python's."""
    if isinstance(output, (np.ndarray, np.generic)):
        output = output.tolist()
    if output is None or isinstance(output, (bool, int, str)):
        return output
    if isinstance(output, float) and math.isfinite(output):
        return output
    if isinstance(output, (list, tuple)):
        return [_plain(part) for part in output]
    if isinstance(output, dict):
        return {str(key): _plain(part) for key, part in output.items()}
    raise MechanismError(
        f"the measurement returns {a_kind(output)}, and a certificate holds finite numbers, texts, lists and "
        "dictionaries of them: let it return these, and ask a queryable yourself"
    )
