"""Compare a model with data: what its noise reveals to an adversary who knows how the data behave."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Unpack

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import ModelError, ParameterError, QueryError
from pufferdp.basics.frames import frame
from pufferdp.basics.paged import Paged
from pufferdp.basics.progress import Progress, silent
from pufferdp.models.ar1 import ar1_of
from pufferdp.models.base import Lengths, Model
from pufferdp.models.chain import SeriesModel, series_of
from pufferdp.models.files.json import ModelLike, model_to_dict, save_model
from pufferdp.publish.answers.queries import CountQuery, Query
from pufferdp.publish.fits.ar1 import check_numbers
from pufferdp.publish.fits.checks import Check
from pufferdp.publish.fits.effective import Observations, RicherFamily, measure_leakage, noise_scales, with_checks
from pufferdp.publish.model_checks import KEY, CheckedGuarantee, EffectiveLeakage
from pufferdp.publish.reading import read_keyed
from pufferdp.publish.series import Series, SeriesOptions


@dataclass(frozen=True, kw_only=True)
class ModelCheck(Paged):
    """A model with what the data said about it. The numbers are computed from the raw data without noise."""

    model: Model
    """The model with its checks, as ``save`` writes it."""
    epsilon: float
    """The guarantee for which the noise was planned."""
    effective: EffectiveLeakage
    """What the planned noise reveals on the data."""
    members: tuple[EffectiveLeakage, ...] = ()
    """Of a list of models what the data said about each, in its order; the worst is the effective leakage."""
    tests: tuple[Check, ...] = ()
    """Of an AR(1) series the tests of its numbers."""
    widened: EffectiveLeakage | None = None
    """What the noise reveals after it was widened for the data."""
    factor: float = 1.0
    """Noise for epsilon divided by this keeps the estimate within epsilon."""

    @property
    def sentence(self) -> str:
        """The guarantee and what the data said about it, in one line."""
        return self._guarantee.sentence

    @property
    def rejected(self) -> bool:
        """Whether a release from the model stops because the data contradict it."""
        return self._guarantee.rejected

    @property
    def _guarantee(self) -> CheckedGuarantee:
        return CheckedGuarantee(model=self.model, epsilon=self.epsilon, adversary=Adversary.BDP, widens=True)

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp check --json`` prints."""
        return {
            "sentence": self.sentence,
            "rejected": self.rejected,
            **({"members": [member.to_dict() for member in self.members]} if self.members else {}),
            **({"tests": [test.to_dict() for test in self.tests]} if self.tests else {}),
            "checks": dict(self.model.checks or {}),
            "model": model_to_dict(self.model),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file with its checks, whole or not at all."""
        save_model(self.model, path)

    def to_frame(self, *, backend: str | None = None) -> Any:
        """The estimate for each number of unknown records on either side of the target, as a pandas or polars frame."""
        rows = [(int(half), value) for half, value in (self.effective.windows or {}).items()]
        return frame(("half_window", "estimate"), rows, backend)


def check(
    data: object,
    model: ModelLike,
    query: str | Query | None = None,
    *,
    epsilon: float = 1.0,
    calibrate: str | None = None,
    progress: Progress | None = None,
    **options: Unpack[SeriesOptions],
) -> ModelCheck:
    """Compare a model with data that it was not fitted on, or on which it will be used.

    The result has the model with its checks. They are computed from the raw data without noise and become part of the
    model file and of every certificate; for a model that was fitted privately they are left out.

    Args:
        data: a Series, or what it is made of, as for ``release``.
        model: the model of a series: a model, the path of its file, its content, or a fit. Of a list of models each is
            compared with the data, under the noise for all of them, and the worst counts. Of an AR(1) series the
            numbers are tested.
        query: a count, such as ``"count:active"``; by default the count of every state, of which the worst is kept.
        epsilon: the guarantee for which the noise is planned.
        calibrate: ``"data"`` widens the noise until the estimate is at most epsilon; releases from the model follow it.
        progress: called with a few words before each step.
        options: how the data are read, as for ``Series``.
    """
    checks.refuse_unknown(options, SeriesOptions)
    report, epsilon = progress or silent, checks.epsilon(epsilon)
    if calibrate not in (None, "data"):
        raise ParameterError(f"calibrate is {calibrate!r}; it must be 'data'", value=calibrate)
    series = Series.of(data, **options)
    given = series.model(model)
    numbers = ar1_of(given)
    if numbers is not None:
        for name, value in (("query", query), ("calibrate", calibrate)):
            if value is not None:
                raise ParameterError(f"{name} is {value!r}; {_NUMBERS}: leave it out", value=value)
        report("testing the numbers")
        tests = check_numbers(series.data, series.reading(numbers), numbers)
        unknown = EffectiveLeakage(epsilon=epsilon, reason=_NUMBERS)
        marked = replace(numbers, checks={**(numbers.checks or {}), KEY: unknown.to_dict()})
        return ModelCheck(model=marked, epsilon=epsilon, effective=unknown, tests=tests)
    plain = _without_checks(given)
    states = _counted_states(plain, query)
    report("reading")
    observations, lengths = _observations(series, plain)
    several = plain.chains if len(plain.chains) > 1 else (plain,)
    measured = [
        measure_leakage(observations, member, lengths, epsilon=epsilon, planned=plain, states=states, progress=report)
        for member in several
    ]
    effective, comparison = max(measured, key=lambda each: each[0].largest)
    members = tuple(each for each, _ in measured) if len(measured) > 1 else ()
    found = {**(plain.checks or {}), KEY: effective.to_dict()}
    result = ModelCheck(model=with_checks(plain, found), epsilon=epsilon, effective=effective, members=members)
    if calibrate is None or comparison is None:
        return result
    report("widening the noise")
    factor, widened = calibrate_noise(replace(comparison, model=plain), lengths, effective, states)
    found["calibrated"] = {"factor": factor, KEY: widened.to_dict()}
    return replace(result, model=with_checks(plain, found), widened=widened, factor=factor)


_NUMBERS: Final = "the effective leakage is computed for counts of states, and not for AR(1) series of numbers"


def calibrate_noise(
    comparison: RicherFamily, lengths: Lengths, effective: EffectiveLeakage, states: Sequence[int]
) -> tuple[float, EffectiveLeakage]:
    """The factor by which epsilon is divided so that the estimated leakage is at most epsilon, and what is left then.

    The leakage falls about as fast as the epsilon of the noise, so each step divides by what is still too much.
    """
    factor, left = 1.0, effective
    for _ in range(10):
        excess = max(left.estimate or 0.0, left.proven or 0.0) / effective.epsilon
        if excess <= 1:
            break
        factor *= 1.01 * excess
        scales = noise_scales(comparison.model, lengths, effective.epsilon / factor, states)
        left = comparison.leakage(scales, effective.epsilon)
    return factor, left


def _counted_states(model: Model, query: str | Query | None) -> Sequence[int]:
    """The states whose counts are looked at; rejects other queries."""
    if query is None:
        return range(model.size)
    asked = Query.of(query)
    if not isinstance(asked, CountQuery) or asked.state not in model.labels:
        raise QueryError(
            f"query is {asked.name!r}; a model is checked for a count of one of its states, such as "
            f"count:{model.labels[0]}",
            value=query,
        )
    return (model.labels.index(asked.state),)


def _observations(series: Series, model: Model) -> tuple[Observations, Lengths]:
    """The records, and the longest series for which noise is planned."""
    reading = series.reading(model)
    reading.check(model)
    exact, keyed = read_keyed(series.data, model, reading, None)
    times = None if keyed.ticks is None else keyed.ticks // (keyed.ticks_per_second // 1_000_000)
    observations = Observations(codes=keyed.codes, joined=keyed.joined, persons=keyed.persons, times=times)
    return observations, ((max(length for length, _ in exact.lengths), 1),)


def _without_checks(model: Model) -> SeriesModel:
    """The model of a series of states without an earlier effective leakage; rejects other models."""
    series = series_of(model)
    if series is None or not {field.name for field in fields(series)} & {"checks", "models"}:  # type: ignore[arg-type]
        raise ModelError(
            "a check compares models of a series with data: chains, hidden states, a list of chains or AR(1) series; "
            "other models have no checks of their own",
            value=model,
        )
    kept = {key: value for key, value in (model.checks or {}).items() if key not in (KEY, "calibrated")}
    return with_checks(series, kept)
