"""The tight curve of a Markov chain: what the worst algorithm with a DP loss τ on every record leaks, and its inverse.

q*(τ) = τ + the most that both sides add, over all pairs of values, positions and adversaries (Theorems 1 and 2). It is
the leakage of some algorithm, so no curve that holds for every algorithm can be smaller. Where it has no closed form it
is a bracket, and the upper end is what is given out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.bounds.inverse import power_root
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.attack import Place, TightLeakage
from pufferdp.bounds.tight.inputs import Chain
from pufferdp.bounds.tight.long.apart import tells_apart
from pufferdp.bounds.tight.many_states import ManyStates
from pufferdp.bounds.tight.ways.any_slot import AnySlotCurve, any_slot
from pufferdp.bounds.tight.ways.many import EXPLICIT, ManyStateCurve
from pufferdp.bounds.tight.ways.plain import AloneCurve, GroupedCurve
from pufferdp.bounds.tight.ways.two import TwoStateCurve

_PHASES: Final = 256
"""Records times slots up to which a clock is worked out for each slot that its first record may have."""
_TRIES: Final = 60
_OTHER: Final = 1e-5
_BELOW: Final = 2.5
"""So many widths of a bracket below what is allowed the lower end is looked for."""
_KEPT: Final = 32
"""Chains of a class that may keep what they were asked last."""


class _Curve(Protocol):
    """One chain, one length, one adversary."""

    @property
    def place(self) -> Place:
        """Which."""

    @property
    def share(self) -> float:
        """How narrow brackets are."""

    def likely(self, epsilon: float) -> float:
        """A loss that leaks about so much: where a search may begin."""

    def quick(self, loss: float) -> float:
        """The leakage, without a proof."""

    def worst(self, loss: float) -> TightLeakage:
        """The leakage, and who learns it."""

    def misled(self, loss: float) -> bool:
        """Whether ``quick`` said too much at a loss that was last asked for, and has learned to say less."""


class TightCurve:
    """The leakage of the worst algorithm, as a function of its DP loss; it never falls.

    >>> activity = TightCurve([[0.882, 0.118], [0.305, 0.695]])
    >>> round(activity(0.1), 6), round(activity.inverse(1.0), 6)
    (0.389344, 0.250326)
    """

    def __init__(
        self,
        transition: npt.ArrayLike,
        *,
        start: str | npt.ArrayLike = "stationary",
        length: int | Sequence[int] | None = None,
        adversary: str = "bdp",
    ) -> None:
        """The curve of one chain.

        Args:
            transition: one table, or several that follow each other again and again.
            start: the law of the first record, "stationary" or "any".
            length: number of records; several numbers: the worst of them; None: without end.
            adversary: bdp, pufferfish or dp.
        """
        chain = inputs.chain(transition, start)
        self.adversary = inputs.adversary(adversary)
        self._last: dict[int, TightLeakage] = {}
        self._parts: list[tuple[int, int | None, _Curve]] = [
            (0, n, _curve(chain, self.adversary, n)) for n in _lengths(length)
        ]

    @classmethod
    def of_class(
        cls,
        models: Sequence[tuple[npt.ArrayLike, str | npt.ArrayLike]],
        *,
        length: int | Sequence[int] | None = None,
        adversary: str = "bdp",
    ) -> TightCurve:
        """The worst of several chains, each a transition and a start."""
        if not models:
            raise ParameterError("the class has no chain; give one or more", value=models)
        curves = [cls(transition, start=start, length=length, adversary=adversary) for transition, start in models]
        curves[0]._parts = [(i, n, part) for i, curve in enumerate(curves) for _, n, part in curve._parts]
        return curves[0]

    @classmethod
    def of_clock(
        cls, transitions: npt.ArrayLike, *, length: int | Sequence[int] | None = None, adversary: str = "bdp"
    ) -> TightCurve:
        """Kernels that follow each other again and again, in the law that they keep, wherever the series begins.

        Short series are worked out for each first slot. Others take what a series without end leaks: as much up to
        rounding where the chain forgets within the series, and more where it does not.
        """
        chain = inputs.chain(inputs.one_round(inputs.kernels_of(transitions)), "stationary")
        if not inputs.told_apart(chain):
            raise NotApplicableError(
                "some value is possible, and rarer than a double can tell; make the clock coarser, or leave such moves "
                "out of it"
            )
        curve = cls.__new__(cls)
        curve.adversary, curve._last, curve._parts = inputs.adversary(adversary), {}, []
        for n in _lengths(length):
            parts = [_curve(chain, curve.adversary, n)]
            if n is not None and chain.period > 1:
                parts = _anywhere(parts[0], n) or [
                    _curve(inputs.turned(chain, phase), curve.adversary, n) for phase in range(chain.period)
                ]
            curve._parts += [(0, n, part) for part in parts]
        return curve

    @property
    def bounded(self) -> bool:
        """Whether it is the closed form of a clock that has too many slots and states to look at every pair."""
        many = (part.search for _, _, part in self._parts if isinstance(part, ManyStateCurve))
        return any(search is not None and search.bounded for search in many)

    def __call__(self, loss: float) -> float:
        """No algorithm with this DP loss leaks more."""
        return self.leakage(loss).upper

    def leakage(self, loss: float) -> TightLeakage:
        """The leakage of the worst algorithm: a bracket, and who learns most from which questions."""
        number = inputs.loss(loss)
        found = [replace(self._worst(i, number), model=model, length=n) for i, (model, n, _) in enumerate(self._parts)]
        worst = max(found, key=lambda one: one.lower)
        upper = max(one.upper for one in found)
        return replace(worst, lower=min(worst.lower, upper), upper=upper)  # rounding may put group privacy below

    def _worst(self, part: int, loss: float) -> TightLeakage:
        """Of one part; kept, because whoever inverts a curve reads it again at the loss that was found."""
        if part not in self._last or self._last[part].dp_loss != loss:
            self._last[part] = self._parts[part][2].worst(loss)
            self._let_go(part)
        return self._last[part]

    def _let_go(self, part: int) -> None:
        """Of many chains each would keep megabytes for the next loss that is asked for, gigabytes together."""
        curve = self._parts[part][2]
        if len(self._parts) > _KEPT and isinstance(curve, ManyStateCurve):
            for search in (curve.long, curve.endless):
                if search is not None:
                    search.look.let_go()
            if curve.whole is not None:
                curve.whole.let_go()

    def inverse(self, epsilon: float) -> float:
        """The largest DP loss that leaks at most ``epsilon``, rounded down; 0 where there is none.

        The curve itself says of the value given back that it leaks no more; one larger by a share of about 1e-9 (1e-6
        where the chain forgets slowly) leaks too much.
        """
        allowed = inputs.target(epsilon)
        many = [part for _, _, part in self._parts if isinstance(part, ManyStateCurve)]
        for _, _, part in self._parts:  # what was asked before changes nothing
            if isinstance(part, ManyStateCurve | AnySlotCurve):
                part.forget()
        open_brackets = [part.search for part in many if part.search]
        candidates = [_largest(part, partial(self._worst, i), allowed) for i, (_, _, part) in enumerate(self._parts)]
        loss, step = min(candidates), max(part.share for _, _, part in self._parts) + 2.0**-53
        while loss > 0 and (leaks := self(loss)) > allowed:
            loss, step = loss * (allowed / leaks) * (1 - step), min(1.0, 2 * step)
            for search in open_brackets:  # what had no quick proof will hardly have one at a slightly smaller loss
                search.closed_form = leaks > allowed * (1 + _OTHER)
        for search in open_brackets:
            search.closed_form = False
        return loss


def tight_leakage(
    transition: npt.ArrayLike,
    loss: float,
    *,
    start: str | npt.ArrayLike = "stationary",
    length: int | Sequence[int] | None = None,
    adversary: str = "bdp",
) -> TightLeakage:
    """What the worst algorithm with a DP loss on every record leaks, and to whom.

    >>> tight_leakage([[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]], 0.5, length=3).value.__round__(6)
    1.044115
    """
    return TightCurve(transition, start=start, length=length, adversary=adversary).leakage(loss)


def _lengths(length: int | Sequence[int] | None) -> list[int | None]:
    if length is None:
        return [None]
    found = sorted({checks.length(n) for n in np.ravel(np.asarray(length)).tolist()})
    if not found:
        raise ParameterError("length is an empty list; give the number of records, or leave it out", value=length)
    return [*found]


def _curve(chain: Chain, adversary: str, length: int | None) -> _Curve:
    """The way to work it out."""
    chain, states = inputs.visited(chain, length)
    place = Place(chain, adversary, inputs.uncertain_length(chain, length), states)
    certain = chain.stationary and bool(((chain.marginals > 0).sum(axis=1) < 2).all())
    if adversary == "dp" or chain.independent or length == 1 or certain:
        return AloneCurve(place)
    if inputs.tells_all(chain):
        # Other moves may be so rare that a double says 1: then it is a bound, and two states say how good a one.
        sure = all(((chain.kernels > 0).sum(axis=axis) == 1).all() for axis in (1, 2))
        if sure or chain.size > 2 or chain.period > 1:
            return GroupedCurve(place, exact=sure)
    if chain.stationary and not chain.primitive:
        return GroupedCurve(place)
    if place.length is not None and not chain.primitive:
        apart = tells_apart(chain, place.length)
        if apart is not None:
            return GroupedCurve(place, apart=apart)
    if (place.length is None or place.length > EXPLICIT) and inputs.tells_ever_more(chain):
        curve = None if place.length is None else ManyStateCurve(place)
        # Where nothing better is known, group privacy is a bound.
        return GroupedCurve(place, exact=place.length is None) if curve is None or curve.drained is None else curve
    if chain.size == 2 and chain.period == 1:
        return TwoStateCurve(place)
    return ManyStateCurve(place)


def _anywhere(curve: _Curve, length: int) -> list[_Curve]:
    """The same series, wherever it begins; nothing where each slot is better worked out by itself."""
    place = curve.place
    if isinstance(curve, ManyStateCurve):
        short = any_slot(place, length)
        if short is not None:
            return [short]
        # Bounded by a series without end.
        curve.short, curve.anywhere, curve.endless = False, True, ManyStates(place.chain, place.known, None)
    elif length * place.chain.period <= _PHASES:
        return []
    elif isinstance(curve, AloneCurve):  # some record has two values, if any has
        return [AloneCurve(replace(place, length=None))]
    return [curve]


def _largest(curve: _Curve, worst_at: Callable[[float], TightLeakage], epsilon: float) -> float:
    """The largest loss whose leakage is at most ``epsilon``, up to a last check: found without a proof, then proved."""
    loss = curve.likely(epsilon)
    if loss >= epsilon * (1 - 1e-9) and worst_at(epsilon).upper <= epsilon:
        return epsilon
    for _ in range(_TRIES):
        share = max(curve.share, 1e-13)
        loss = power_root(curve.quick, epsilon * (1 - _BELOW * share), loss, share / 2)
        if loss <= 0:
            return 0.0
        worst, most = worst_at(loss), epsilon * (1 + _OTHER)
        if worst.lower <= most and not curve.misled(loss) and (worst.upper <= most or curve.quick(loss) <= most):
            break
        # Another pair of values leaks more, of this series or of the one that bounds it: begin again, from there.
    return loss if math.isfinite(worst.upper) else 0.0
