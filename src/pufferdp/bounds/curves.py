"""Leakage curves: from the DP loss of any algorithm to a bound on its leakage about one record of correlated data.

A curve takes tau and bounds the leakage of every tau-DP algorithm, for one class of models, one length and one
adversary; curves for real-valued records hold for fewer algorithms and say for which. DP is pure here, and neighbours
differ in the value of one record. DP losses add up, leakages do not: add the losses first, then read the curve once.
Its inverse is the DP loss that may be spent. Modules that few models need are imported where they are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import ModelError, NotApplicableError, ParameterError
from pufferdp.bounds.chains.mixing import box_contraction
from pufferdp.bounds.curve_forms import (
    EVERY_ALGORITHM,
    Absent,
    Curve,
    Line,
    Lowest,
    OddsBound,
    OtherKindError,
    QuiltCurve,
    TightBound,
    Worst,
    WorstBound,
)
from pufferdp.bounds.quilts.chains import worst_of_chains, worst_record_by_distance
from pufferdp.bounds.quilts.networks import worst_network_record
from pufferdp.bounds.tight.chain import MOST_ANY_START, TightCurve
from pufferdp.bounds.tight.odds import OddsCurve, TreeOdds
from pufferdp.models.ar1 import ar1_of
from pufferdp.models.base import Model, RecordModel
from pufferdp.models.chain import SeriesModel, series_of
from pufferdp.models.gaussian import NumberModel, numbers_of
from pufferdp.models.hidden import HiddenMarkov, hidden_of, is_hidden

_ROUNDING: Final = 1e-14
"""More than the rounding of a logarithm of a ratio, as a share of it; counted against the bound."""

CLIPPED: Final = (
    "sums and means clipped to [a, b] with Laplace noise, and other algorithms that lose at most tau/(b-a) "
    "for each unit that the records move in L1; between values at most b-a apart"
)
"""What the Gaussian curves hold for (Lange 2024, Lemma 6.3)."""


def curve(
    name: str, model: Model, length: int | None = None, adversary: str = "bdp", *, unit: int | None = None
) -> Curve:
    """One curve by name; an absent one where it does not apply. With a unit it is about blocks of so many records."""
    kind = checks.adversary(adversary)
    if unit is not None:
        from pufferdp.bounds.units.curves import unit_curve

        return unit_curve(name, model, length, kind, checks.length(unit, "unit"))
    if model.needs_length and length is None:
        raise ParameterError("length is missing; a chain needs the number of records in the series")
    try:
        return _MAKERS[name](model, length or 0, kind)
    except NotApplicableError as error:
        return Absent(name, "", str(error), foreign=isinstance(error, OtherKindError))


def curves(
    model: Model, length: int | None = None, adversary: str = "bdp", *, unit: int | None = None
) -> dict[str, Curve]:
    """Every curve by name, those that do not apply among them.

    Args:
        model: the model or class.
        length: records in the longest chain of a series; other models know their records.
        adversary: whom the bound is for: bdp, pufferfish or dp.
        unit: records in a block: losses are then those of whole blocks, and so is what leaks. A series may have any
            length then.
    """
    return {name: curve(name, model, length, adversary, unit=unit) for name in CURVES}


def best_curve(model: Model, length: int | None = None, adversary: str = "bdp") -> Lowest:
    """The lowest of the curves that apply, at every tau. The general one applies to every model.

    >>> from pufferdp import MarkovChain
    >>> chain = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
    >>> best = best_curve(chain, length=50)
    >>> round(best(0.1), 2), best.which(0.1).name, round(best.inverse(1.0), 2)
    (0.39, 'tight', 0.25)
    """
    return lowest(curves(model, length, adversary))


def lowest(candidates: Mapping[str, Curve]) -> Lowest:
    """The lowest of some curves at every tau."""
    applying = tuple(curve for curve in candidates.values() if curve.applies)
    if not applying:
        reasons = "; ".join(
            f"{c.name} {c.reason}" for c in candidates.values() if isinstance(c, Absent) and not c.foreign
        )
        raise NotApplicableError(f"no curve applies: {reasons}")
    narrow = [curve.holds_for for curve in applying if curve.holds_for != EVERY_ALGORITHM]
    holds_for = narrow[0] if narrow else EVERY_ALGORITHM
    return Lowest("best", "the least of several upper bounds", applying, holds_for=holds_for)


def small_loss_slopes(curves_by_name: Mapping[str, Curve], example: bool = True) -> dict[str, float]:
    """By how much correlation multiplies any DP loss at most (``odds``), and one of 0.01, an ``example`` (``tight``).

    Nothing where records are independent. The closed form is concave, so that its slope at 0 bounds it everywhere.
    """
    if "independent" in curves_by_name and curves_by_name["independent"].applies:
        return {}
    odds, tight = (curves_by_name.get(name) for name in ("odds", "tight"))
    general = curves_by_name.get("general")
    slopes = {"odds": odds.factor} if isinstance(odds, OddsBound) else {}
    if general is not None and general.applies and slopes.get("odds", 0.0) >= general(1.0) * (1 - 1e-6):
        del slopes["odds"]  # group privacy says as much, and of correlation nothing
    if example and isinstance(tight, TightBound):
        slopes["tight"] = tight.slope
    return {name: slope for name, slope in slopes.items() if math.isfinite(slope)}


def _independent(model: Model, longest: int, adversary: Adversary) -> Curve:
    if adversary is not Adversary.DP and model.dependent(longest) > 1:
        raise NotApplicableError("does not apply, because the records are correlated")
    theorem = "Dwork, McSherry, Nissim & Smith 2006 (independent records, or all others known)"
    return Line("independent", theorem, 1.0)


def _general(model: Model, longest: int, adversary: Adversary) -> Curve:
    theorem = "group privacy over the largest set of dependent records (Dwork & Roth 2014, Theorem 2.2)"
    return Line("general", theorem, float(model.dependent(longest)))


def _numbers(model: Model) -> NumberModel:
    numbers = numbers_of(model)
    if numbers is None:
        raise OtherKindError("is about jointly normal records, and those of the model are not")
    return numbers


def _gaussian(model: Model, longest: int, adversary: Adversary) -> Curve:
    theorem = "n²/(4(1/rho-n+2)) + 1, equal variances and |Pearson| ≤ rho (Lange 2024, Proposition 6.4)"
    families = _numbers(model).correlations()
    if any(spread > 1 for _, _, spread in families):
        raise NotApplicableError("is proved for records of equal variance, and these differ")
    from pufferdp.bounds.additive.gaussian import thesis_factor

    return Line("gaussian", theorem, max(thesis_factor(n, rho) for n, rho, _ in families), holds_for=CLIPPED)


def _gaussian_class(model: Model, longest: int, adversary: Adversary) -> Curve:
    theorem = "1 + (n-1)·rho, |Pearson| ≤ rho, by diagonal dominance (docs/theory/gaussian.md)"
    families = _numbers(model).correlations()
    from pufferdp.bounds.additive.gaussian import class_factor

    factor = max(class_factor(n, rho, adversary, spread) for n, rho, spread in families)
    return Line("gaussian-class", theorem, factor, holds_for=CLIPPED)


def _gaussian_exact(model: Model, longest: int, adversary: Adversary) -> Curve:
    normal = _numbers(model).normal
    if normal is None:
        raise NotApplicableError("needs one covariance matrix, and the class has many")
    from pufferdp.bounds.additive.gaussian import shift_factor

    factor = shift_factor(normal.covariance, adversary)
    theorem = "1 + the largest shift of the unknown records (Lange 2024, Proposition 6.1), "
    theorem += "over every adversary" if factor.exact else "bounded (docs/theory/gaussian.md)"
    many = f"too many records for every adversary: the factor is a proved bound, and one has {factor.lower:.6g}"
    return Line("gaussian-exact", theorem, factor.upper, holds_for=CLIPPED, note="" if factor.exact else many)


def _ar1(model: Model, longest: int, adversary: Adversary) -> Curve:
    series = ar1_of(model)
    if series is None:
        raise OtherKindError("is about series of real numbers, and the model is not one")
    from pufferdp.bounds.additive.gaussian import ar1_factor

    theorem = "1 + the shifts |phi|^k of the other records, at most (1+|phi|)/(1-|phi|) (docs/theory/ar1.md)"
    return Line("ar1", theorem, ar1_factor(series.strongest, longest, adversary), holds_for=CLIPPED)


def _series(model: Model) -> SeriesModel:
    series = series_of(model)
    if series is None:
        raise OtherKindError("is about chains, and the model is not one")
    return series


def _without_clock(model: Model) -> SeriesModel:
    series = _series(model)
    if series.rhythm is not None:
        raise NotApplicableError("is proved for one transition table, and a clock has several")
    return series


def _markov(model: Model, longest: int, adversary: Adversary) -> Curve:
    series = _without_clock(model)
    if hidden_of(model) is not None:
        raise NotApplicableError(series.not_listed)
    if not series.chains or any(chain.any_start or chain.given_start is not None for chain in series.chains):
        raise NotApplicableError("is proved for chains that start in their stationary distribution")
    gamma = max(_largest_ratio(chain.transition.max(), chain.transition) for chain in series.chains)
    theorem = "tau + 4 ln(gamma), gamma the largest over the least transition probability (Lange 2024, Corollary 7.4)"
    return Line("markov", theorem, 1.0, 4 * math.log(gamma) * (1 + _ROUNDING))


def _zhao(model: Model, longest: int, adversary: Adversary) -> Curve:
    series = _without_clock(model)
    box = series.box
    pairs = [(c.transition, c.transition) for c in series.chains] if box is None else [(box.high, box.low)]
    if not pairs:
        raise NotApplicableError(series.not_listed)
    k = len(pairs[0][0])
    # The largest ratio inside a column, between different rows.
    ratios = (_largest_ratio(np.delete(high, y, axis=0), low[y]) for high, low in pairs for y in range(k))
    omega = max(ratios) if k > 1 else 1.0
    # The paper's proof was not published. The quilt of both neighbours gives one, for any start: a side costs at most
    # two ratios inside a column of P, since rows of its powers are means of its rows. 4 ln(omega) would do.
    theorem = "tau + 6 ln(omega), omega the largest ratio inside a column of P (Zhao, Zhang & Poor 2017)"
    return Line("zhao", theorem, 1.0, 6 * math.log(omega) * (1 + _ROUNDING))


def _largest_ratio(high: Floats, low: Floats) -> float:
    """The largest high/low, entry by entry; rejected where a probability is 0 or a ratio too large for a double."""
    if not (low > 0).all():
        raise NotApplicableError("needs transition probabilities that are all above 0")
    with np.errstate(over="ignore"):
        ratio = float((high / low).max())
    if not math.isfinite(ratio):
        raise NotApplicableError("rests on a ratio of probabilities that is too large for a double")
    return ratio


def _quilt(model: Model, longest: int, adversary: Adversary) -> Curve:
    theorem = "the quilt curve: group privacy inside a quilt, influence on its ends (docs/theory/search.md)"
    return QuiltCurve("quilt", theorem, _worst(model, longest, adversary))


def _worst(model: Model, longest: int, adversary: Adversary) -> Worst:
    if model.arbitrary is not None:
        raise NotApplicableError("anything may hold inside a group; the general curve is all that can be said")
    if model.real_valued:
        raise OtherKindError("is worked out for records with states, and those of the model are real numbers")
    series = series_of(model)
    if series is None:
        return _worst_of_networks(model, adversary)
    _without_clock(model)
    chains = series.deciding
    if chains:
        known = Adversary.PUFFERFISH if adversary is Adversary.PUFFERFISH else Adversary.BDP
        return lambda objective: worst_of_chains(chains, longest, objective, known).value
    if series.box is None:
        raise NotApplicableError(series.not_listed)
    side = box_contraction(series.box).side
    return lambda objective: worst_record_by_distance(side, side, longest, objective).value


def _worst_of_networks(model: Model, adversary: Adversary) -> Worst:
    trees = [member.tree for member in model.record_models if member.tree is not None]
    if not trees or len(trees) < len(model.record_models):
        raise NotApplicableError("needs a graph of who depends on whom: a chain or a Bayesian network")
    if adversary is not Adversary.PUFFERFISH:
        raise NotApplicableError("over a network it holds only for an adversary who knows no record (pufferfish)")
    weights = (1.0,) * len(trees[0].sizes)
    return lambda objective: max(worst_network_record(tree, weights, objective).value for tree in trees)


def _tight(model: Model, longest: int, adversary: Adversary) -> Curve:
    theorem = "what the worst DP algorithm leaks on the chain itself (docs/theory/tight.md, Theorems 1 and 2)"
    rhythm, chains, hidden = _series(model).rhythm, _series(model).chains, hidden_of(model)
    if rhythm is not None:
        clock = TightCurve.of_clock(rhythm, length=longest, adversary=str(adversary))
        note = ""
        if clock.bounded:
            theorem = "from the largest odds ratios of many steps at once (docs/theory/tight.md, Theorem 4)"
            note = "an upper bound in closed form: so many slots and states are not worked out pair by pair"
        return TightBound("tight", f"{theorem}, whatever slot it begins with", clock, note=note)
    if hidden is not None:
        return _hidden_tight(hidden, longest, adversary)
    if not chains:
        raise NotApplicableError("needs chains that can be listed; the odds curve bounds a class given by bounds")
    if any(chain.any_start and chain.size > MOST_ANY_START for chain in chains):
        raise NotApplicableError(
            f"any start with more than {MOST_ANY_START} states takes too long; the odds curve bounds it"
        )
    members = [(chain.transition, chain.start) for chain in chains]
    return TightBound("tight", theorem, TightCurve.of_class(members, length=longest, adversary=str(adversary)))


def _hidden_tight(model: HiddenMarkov, longest: int, adversary: Adversary) -> Curve:
    if adversary is not Adversary.PUFFERFISH:
        raise NotApplicableError("is worked out here for an adversary who knows no record; the odds curve is for all")
    if model.any_start or model.hidden_chain.given_start is not None:
        raise NotApplicableError("needs a stationary start; the odds curve bounds any start")
    from pufferdp.bounds.hidden.uninformed import UninformedBound

    bound = UninformedBound(model.transition, model.emission, model.start_distribution, length=longest)
    note = "" if bound.exact else "an upper bound; for two hidden states it would be reached"
    return WorstBound("tight", "a recursion on pairs of hidden states (docs/theory/hidden.md)", (bound,), note=note)


def _potential(model: Model, longest: int, adversary: Adversary) -> Curve:
    if not is_hidden(model):
        raise OtherKindError("is about hidden states, and the model has none")
    from pufferdp.bounds.hidden.potential import potential_bound

    theorem = "from the evidence between pairs of hidden states (docs/theory/hidden.md, Theorem 5)"
    return WorstBound("potential", theorem, (potential_bound(model, longest, str(adversary)),))


def _odds(model: Model, longest: int, adversary: Adversary) -> Curve:
    theorem = "from the largest odds ratio of a step, by Birkhoff's contraction (docs/theory/tight.md, Theorem 4)"
    series = series_of(model)
    if series is None:
        return OddsBound("odds", theorem, _odds_of_records(model))
    hidden = hidden_of(model)
    if hidden is not None:
        theorem = "from the largest odds ratios of hidden chains and their records (docs/theory/hidden.md)"
        from pufferdp.bounds.hidden.odds import HiddenOdds

        bound = HiddenOdds.of(hidden.transition, hidden.emission, length=longest)
        return OddsBound("odds", theorem, (bound,))
    if series.box is not None:
        return OddsBound("odds", theorem, (OddsCurve.of_box(series.box.low, series.box.high, length=longest),))
    if series.rhythm is not None:
        return OddsBound("odds", theorem, (OddsCurve.of_chains([series.rhythm], length=longest),))
    if not series.chains:
        raise NotApplicableError("needs chains that can be listed, or bounds on their entries")
    tables = [chain.transition for chain in series.chains]
    return OddsBound("odds", theorem, (OddsCurve.of_chains(tables, length=longest),))


def _odds_of_records(model: Model) -> tuple[TreeOdds, ...]:
    if not model.record_models or any(member.factors is None for member in model.record_models):
        raise OtherKindError("is about chains and trees, and the model is neither")
    return tuple(_odds_along(member) for member in model.record_models)


def _odds_along(model: RecordModel) -> TreeOdds:
    """The odds of all records that share a table."""
    tables: dict[tuple[int, ...], Floats] = {}
    for factor in model.factors or ():
        scope = tuple(sorted(factor.scope))
        table = factor.table.transpose([factor.scope.index(i) for i in scope])
        tables[scope] = tables[scope] * table if scope in tables else table
    try:
        return TreeOdds([(*scope, table) for scope, table in tables.items()], nodes=range(len(model.records)))
    except ModelError:
        raise NotApplicableError("needs a tree, and some records lie on a cycle") from None


def _pedigree(model: Model, longest: int, adversary: Adversary) -> Curve:
    if not model.hereditary:
        raise OtherKindError("is about families, and the model is not one")
    theorem = "group privacy over the largest family; two parents and m-2 children reach (m-1) tau "
    return Line("pedigree", theorem + "(Lange 2024, Theorem 5.1)", float(model.dependent(longest)))


_MAKERS: Final[dict[str, Callable[[Model, int, Adversary], Curve]]] = {
    "independent": _independent,
    "general": _general,
    "gaussian": _gaussian,
    "gaussian-class": _gaussian_class,
    "gaussian-exact": _gaussian_exact,
    "ar1": _ar1,
    "markov": _markov,
    "zhao": _zhao,
    "quilt": _quilt,
    "odds": _odds,
    "potential": _potential,
    "tight": _tight,
    "pedigree": _pedigree,
}
CURVES: Final = tuple(_MAKERS)
"""The names of all curves, in the order they are shown."""
