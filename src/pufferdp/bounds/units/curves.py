"""Curves whose secrets are not single records: whole blocks of a series, and intervals and events in it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.checks import MOST_RECORDS
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.bounds.curve_forms import Absent, Curve, Line, OtherKindError, WorstBound
from pufferdp.bounds.hidden.odds import HiddenBlockOdds, HiddenOdds
from pufferdp.bounds.hidden.potential import IntervalPotential, potential_bound
from pufferdp.bounds.tight.odds import OddsCurve
from pufferdp.bounds.units.blocks import BlockCurve, BlockOdds, most_blocks
from pufferdp.bounds.units.events import EventCurve, SegmentCurve
from pufferdp.bounds.units.secrets import SegmentSecret
from pufferdp.models.base import Model
from pufferdp.models.chain import SeriesModel, series_of
from pufferdp.models.hidden import HiddenSeries, hidden_of, is_hidden

_EVIDENCE: Final = "from the evidence between hidden states"
_INTERVALS: Final = "(docs/theory/hidden.md, Intervals)"


def unit_curve(name: str, model: Model, length: int | None, adversary: Adversary, unit: int, spread: int = 1) -> Curve:
    """The named bound for blocks of records, or the reason why it does not apply.

    The loss of a block is spread evenly over ``spread`` of its records, as by a sum with noise; 1: any algorithm.
    """
    series = series_of(model)
    if series is None:
        raise ParameterError("a unit is an interval of a series, and the model has records without an order")
    try:
        if name not in _MAKERS:
            raise OtherKindError("is not worked out for units of several records")
        return _MAKERS[name](series, length, adversary, unit, spread)
    except NotApplicableError as error:
        return Absent(name, "", str(error), foreign=isinstance(error, OtherKindError))


def _independent(series: SeriesModel, length: int | None, adversary: Adversary, unit: int, spread: int) -> Curve:
    if adversary is not Adversary.DP and series.dependent(length or MOST_RECORDS) > 1:
        raise NotApplicableError("does not apply, because the records are correlated")
    return Line("independent", "a block's own loss (independent records, or all others known)", 1.0)


def _general(series: SeriesModel, length: int | None, adversary: Adversary, unit: int, spread: int) -> Curve:
    if length is None:
        raise NotApplicableError("adds up the losses of all blocks, and a series without end has too many")
    blocks = most_blocks(length, unit) if series.dependent(length) > 1 else 1
    return Line("general", "group privacy over all blocks (Dwork & Roth 2014, Theorem 2.2)", float(blocks))


def _odds(series: SeriesModel, length: int | None, adversary: Adversary, unit: int, spread: int) -> Curve:
    hidden = hidden_of(series)
    if hidden is not None:
        theorem = "from the largest odds ratio of hidden states (docs/theory/hidden.md)"
        records = HiddenOdds.of(hidden.transition, hidden.emission, length=length, pairwise=False)
        if all(math.isinf(odds) for odds in records.hidden):
            raise NotApplicableError("odds ratios of hidden states are infinite, however many steps are taken at once")
        return WorstBound("odds", theorem, (HiddenBlockOdds(records),))
    theorem = "from the largest odds ratios of a step and of a block (docs/theory/units.md, Theorem 3)"
    if series.box is not None:
        step = OddsCurve.of_box(series.box.low, series.box.high).log_odds[0]
        return WorstBound("odds", theorem, (BlockOdds.of_steps(step, unit, length),))
    kernels = [series.rhythm] if series.rhythm is not None else [chain.transition[None] for chain in series.chains]
    if not kernels:
        raise NotApplicableError("needs chains that can be listed, or bounds on their entries")
    return WorstBound("odds", theorem, (BlockOdds.of_chains(kernels, unit, length),))


def _potential(series: SeriesModel, length: int | None, adversary: Adversary, unit: int, spread: int) -> Curve:
    if not is_hidden(series):
        raise OtherKindError("is about hidden states, and the model has none")
    bound = IntervalPotential(potential_bound(series, length, str(adversary)), spread=spread)
    return WorstBound("potential", f"{_EVIDENCE} on both sides of a block {_INTERVALS}", (bound,))


def _tight(series: SeriesModel, length: int | None, adversary: Adversary, unit: int, spread: int) -> Curve:
    theorem = "what the worst algorithm with a loss for each block leaks (docs/theory/units.md, Theorems 1 and 2)"
    if series.rhythm is not None or hidden_of(series) is not None or not series.chains:
        raise NotApplicableError("of a whole block is worked out for chains that can be listed; the odds curve bounds")
    bounds = tuple(
        BlockCurve(chain.transition, block=unit, start=chain.start, length=length, adversary=str(adversary))
        for chain in series.chains
    )
    return WorstBound("tight", theorem, bounds)


def secret_curve(model: Model, secret: SegmentSecret, adversary: str = "bdp") -> Curve:
    """The bound on the leakage of any algorithm about an interval of records, or about an event in it."""
    series = series_of(model)
    if series is not None and is_hidden(series):
        return _potential_of_secret(series, secret, adversary)
    if series is None or series.rhythm is not None or not series.chains:
        raise NotApplicableError("secrets in an interval are worked out for chains that can be listed")
    if any(chain.any_start or chain.given_start is not None for chain in series.chains):
        raise NotApplicableError(
            "secrets in an interval are worked out for chains that start in their stationary distribution"
        )
    records, before, after = secret.records, secret.before, secret.after
    bounds: list[SegmentCurve] = []
    for chain in series.chains:
        table = chain.transition
        if secret.state is None:
            bounds.append(SegmentCurve(table, records=records, before=before, after=after, adversary=adversary))
        else:
            state = model.labels.index(secret.state)
            bounds.append(
                EventCurve(table, state=state, records=records, before=before, after=after, adversary=adversary)
            )
    exact = all(bound.exact for bound in bounds)
    note = "" if exact else "an upper bound, which need not be reached"
    theorem = "what the worst DP algorithm leaks about an interval, or a plan from record to record for an event in it "
    return WorstBound("tight", f"{theorem}(docs/theory/units.md, Theorem 4)", tuple(bounds), note=note)


def _potential_of_secret(series: HiddenSeries, secret: SegmentSecret, adversary: str) -> Curve:
    """For the contents of the interval, which bounds every event in it."""
    before, after = (MOST_RECORDS if side is None else side for side in (secret.before, secret.after))
    length = None if None in (secret.before, secret.after) else before + secret.records + after
    records = potential_bound(series, length, adversary)
    bounds = (IntervalPotential(records, secret.records, place=(before, after)),)
    note = "an upper bound, which need not be reached"
    return WorstBound("potential", f"{_EVIDENCE} on both sides of an interval {_INTERVALS}", bounds, note=note)


_MAKERS: Final[dict[str, Callable[[SeriesModel, int | None, Adversary, int, int], Curve]]] = {
    "independent": _independent,
    "general": _general,
    "odds": _odds,
    "potential": _potential,
    "tight": _tight,
}
