"""The tight curve of a Markov chain: what the worst algorithm with a DP loss τ on every record leaks, and its inverse.

q*(τ) = τ + the most that both sides add, over all pairs of values, positions and adversaries (Theorems 1 and 2). It is
the leakage of some algorithm, so no curve that holds for every algorithm can be smaller. Where it has no closed form it
is a bracket, and the upper end is what is given out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.leakage.inverse import power_root
from pufferdp.leakage.tight import inputs
from pufferdp.leakage.tight.attack import (
    NOTHING,
    Place,
    SideAttack,
    TightLeakage,
    questions_of,
    two_state_questions,
)
from pufferdp.leakage.tight.inputs import Chain
from pufferdp.leakage.tight.long.any_start import any_start_series
from pufferdp.leakage.tight.long.apart import tells_apart
from pufferdp.leakage.tight.long.turns import turns
from pufferdp.leakage.tight.many_states import Found, ManyStates
from pufferdp.leakage.tight.odds import OddsCurve
from pufferdp.leakage.tight.outlook import LASTING, MOST_LOSS
from pufferdp.leakage.tight.series import (
    SeriesLeakage,
    attack_on,
    beyond_cut,
    of_records,
    of_steady,
    of_whole,
    series_leakage,
    steady_series,
)
from pufferdp.leakage.tight.steady import LONG_WIDTH, MOST_SPENT, whole_series
from pufferdp.leakage.tight.two_states import (
    End,
    Lane,
    LostError,
    Reach,
    TwoSides,
    rounding,
    worst_sides,
    worst_split,
)

_EXPLICIT: Final = 512
"""Series of many states up to this length are worked out record by record."""
_FORGOTTEN: Final = 64
"""Series of so many times the distance at which most is forgotten have no end for whoever stands in the middle."""
_REMEMBERED: Final = {"bdp": 24, "pufferfish": 40}
"""Series of fewer forgetting times are worked out record by record at once: their end is felt in the middle. Of longer
ones that is done where what a series without end leaks is too much. Known records leave what is beyond them aside."""
_FOLLOWED: Final = 48
"""Series of so many records are followed for all pairs of values at once, where the first may have any law."""
_QUICK: Final = 64
"""Chains of few states that forget within so many records are looked at without their ends first."""
_FEW_STATES: Final = 3
_EXACT: Final = 1e-9
"""How narrow brackets of short series are at least, as a share."""
_CLOSED: Final = 4e-7
"""Brackets that are wider, as a share, are worked out record by record where that can be done."""
_PHASES: Final = 256
"""Records times slots up to which a clock is worked out for each slot that its first record may have."""
_STORED: Final = 1 << 22
"""Records on a side of two states that repel each other that are looked at one by one."""
_ONE_BY_ONE: Final = 1 << 11
"""And of those that attract each other; of more some are looked at that stand for all."""
_DIGITS: Final = 1e-15
"""Brackets cannot become narrower than rounding lets them."""
_TRIES: Final = 60
_OTHER: Final = 1e-5
_BELOW: Final = 2.5
"""So many widths of a bracket below what is allowed the lower end is looked for."""
_FILLS: Final = 2
"""Records after which a chain of two states has been everywhere, if it ever is."""
_KEPT: Final = 32
"""Chains of a class that may keep what they were asked last."""
_LISTED: Final = 64
"""Questions listed where they go on without end."""


class _Curve(Protocol):
    """One chain, one length, one adversary."""

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

        Short series are worked out for each first slot. Longer ones take what a series without end leaks, which is as
        much up to rounding where the chain forgets within the series, and more than that never leaks.
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
            if n is None or chain.period == 1:
                parts = [_curve(chain, curve.adversary, n)]
            elif n * chain.period <= _PHASES:
                parts = [_curve(inputs.turned(chain, phase), curve.adversary, n) for phase in range(chain.period)]
            else:
                parts = [_anywhere(_curve(chain, curve.adversary, n))]
            curve._parts += [(0, n, part) for part in parts]
        return curve

    @property
    def bounded(self) -> bool:
        """Whether it is the closed form of a clock that has too many slots and states to look at every pair."""
        many = (part.search for _, _, part in self._parts if isinstance(part, _ManyStates))
        return any(search is not None and search.bounded for search in many)

    def __call__(self, loss: float) -> float:
        """No algorithm with this DP loss leaks more."""
        return self.leakage(loss).upper

    def leakage(self, loss: float) -> TightLeakage:
        """The leakage of the worst algorithm: a bracket, and who learns most from which questions."""
        number = inputs.loss(loss)
        found = [replace(self._worst(i, number), model=model, length=n) for i, (model, n, _) in enumerate(self._parts)]
        worst = max(found, key=lambda one: one.lower)
        return replace(worst, upper=max(one.upper for one in found))

    def _worst(self, part: int, loss: float) -> TightLeakage:
        """Of one part; kept, because whoever inverts a curve reads it again at the loss that was found."""
        if part not in self._last or self._last[part].dp_loss != loss:
            self._last[part] = self._parts[part][2].worst(loss)
            self._let_go(part)
        return self._last[part]

    def _let_go(self, part: int) -> None:
        """Of many chains each would keep megabytes for the next loss that is asked for, gigabytes together."""
        curve = self._parts[part][2]
        if len(self._parts) > _KEPT and isinstance(curve, _ManyStates):
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
        many = [part for _, _, part in self._parts if isinstance(part, _ManyStates)]
        for part in many:  # what was asked before changes nothing
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
        return _Alone(place)
    if inputs.tells_all(chain):
        # Other moves may be so rare that a double says 1: then it is a bound, and two states say how good a one.
        sure = all(((chain.kernels > 0).sum(axis=axis) == 1).all() for axis in (1, 2))
        if sure or chain.size > 2 or chain.period > 1:
            return _Grouped(place, exact=sure)
    if chain.stationary and not chain.primitive:
        return _Grouped(place)
    if place.length is not None and not chain.primitive:
        apart = tells_apart(chain, place.length)
        if apart is not None:
            return _Grouped(place, apart=apart)
    if (place.length is None or place.length > _EXPLICIT) and inputs.tells_ever_more(chain):
        return _Grouped(place, exact=place.length is None)
    if chain.size == 2 and chain.period == 1:
        return _TwoStates(place)
    return _ManyStates(place)


def _anywhere(curve: _Curve) -> _Curve:
    """The same series, wherever it begins: bounded by one without end."""
    if isinstance(curve, _ManyStates):
        place = curve.place
        curve.short, curve.anywhere, curve.endless = False, True, ManyStates(place.chain, place.known, None)
    return curve


@dataclass(frozen=True, eq=False)
class _Alone:
    """Nobody learns from other records: each leaks its own loss, if it has two values."""

    place: Place
    share: float = 0.0

    def likely(self, epsilon: float) -> float:
        return epsilon

    def quick(self, loss: float) -> float:
        return self.worst(loss).upper

    def worst(self, loss: float) -> TightLeakage:
        chain, length = self.place.chain, self.place.length
        steps = chain.size * chain.period + chain.period
        possible = inputs.supports(chain, min(steps, length) if length else steps)
        two = possible.sum(axis=1) > 1
        if not two.any():
            return self.place.result(loss, (0.0, 0.0), (0, 0), record=1)
        at = int(two.argmax())
        x, y = (int(v) for v in np.flatnonzero(possible[at])[:2])
        return self.place.result(loss, (loss, loss), (x, y), record=at + 1)

    def misled(self, _: float) -> bool:
        return False


@dataclass(frozen=True, eq=False)
class _Grouped:
    """A chain that never forgets its class, or where it is in its cycle: every record says the same again.

    So does one in which each state leads to another one for sure, whatever its start. Values of different classes have
    no future and no past in common, so that all losses add up, as in group privacy.
    """

    place: Place
    share: float = 0.0
    exact: bool = True
    """Whether as much is leaked; otherwise it is a bound, and what is spent on a record alone is leaked."""
    apart: tuple[int, int, int] | None = None
    """A record and two of its values that all other records tell apart."""

    def likely(self, epsilon: float) -> float:
        return epsilon / (self.place.length or 2)

    def quick(self, loss: float) -> float:
        length = self.place.length
        if loss == 0:
            return 0.0
        return math.inf if length is None else loss * length

    def worst(self, loss: float) -> TightLeakage:
        value, length = self.quick(loss), self.place.length
        reach = (self.place.chain.whole > 0).astype(float)
        for _ in range(self.place.chain.size.bit_length() * 2 + 8):
            reach = np.minimum(reach @ reach, 1.0)
        apart = np.argwhere(reach @ reach.T == 0)
        x, y = (int(v) for v in apart[0]) if len(apart) else (0, 1)
        records = None if length is None else length - 1
        after = SideAttack(
            added=math.inf if length is None else loss * (length - 1), known=None, records=records, questions=()
        )
        bracket, before, record = (value if self.exact else loss, value), NOTHING, 1
        if self.apart is not None and length is not None:
            record, x, y = self.apart
            before, after = (
                SideAttack(added=loss * count, known=None, records=count, questions=())
                for count in (record - 1, length - record)
            )
        return self.place.result(loss, bracket, (x, y), (before, after), record=record)

    def misled(self, _: float) -> bool:
        return False


class _TwoStates:
    """Two states and one kernel: closed forms."""

    def __init__(self, place: Place) -> None:
        self.place = place
        kernel, start = place.chain.kernels[0], place.chain.start
        apart = float(kernel[1, 0] - kernel[0, 1])
        self.after = Lane(kernel, np.ones(2), place.known, apart=apart)
        # A stationary chain of two states reads the same backwards.
        possible = inputs.supports(place.chain, _FILLS)
        self.before = (
            self.after
            if place.chain.stationary
            else Lane(kernel.T, start, place.known, None if possible.all() else possible, apart)
        )
        slow = abs(float(kernel[0, 0] + kernel[1, 1] - 1))
        self._first = max(64, 1 << math.ceil(math.log2(min(24 / max(1 - slow, 1e-9), _STORED))))
        self._most = _ONE_BY_ONE if self.after.followed else _STORED
        # No search gets nearer than the rounding of its products, and a slow chain needs many.
        self.share = max(1e-11, rounding(min(self._first, place.length or _STORED, self._most)))
        self._plain: dict[tuple[int, int], Floats] = {}

    def likely(self, epsilon: float) -> float:
        slope = self.quick(1e-6) / 1e-6
        return epsilon / max(slope, 1.0) if math.isfinite(slope) else epsilon / 2

    def quick(self, loss: float) -> float:
        try:
            return self._at(loss, proof=False).upper
        except LostError:
            return self._in_logs(loss).upper

    def _in_logs(self, loss: float) -> TightLeakage:
        """Where weights are too far apart for a double: record by record; of a long series, what bounds it."""
        length, chain = self.place.length, self.place.chain
        if length is not None and length <= _EXPLICIT:
            each = series_leakage(chain, np.full(length, loss), self.place.adversary)
            one = attack_on(chain, each, each.worst)
            bracket = float(each.lower.max()), float(each.upper.max())
            return self.place.result(
                loss, bracket, (one.likelier, one.other), (one.before, one.after), record=one.record
            )
        group = math.inf if length is None else loss * length
        return self.place.result(loss, (loss, min(group, self.place.by_odds(loss))), (0, 1))

    def _reaches(self, loss: float, records: int) -> tuple[Reach, Reach]:
        out = []
        for lane in (self.before, self.after):
            key = id(lane), records
            if key not in self._plain:
                self._plain[key] = lane.plain(records)
            out.append(lane.reach(loss, self._plain[key]))
            if self.before is self.after:
                return out[0], out[0]
        return out[0], out[1]

    def _at(self, loss: float, proof: bool = True) -> TwoSides:
        """What is leaked, and at which ends of both sides."""
        length = self.place.length
        if loss > MOST_LOSS:  # its exponential would be no number: a record adds no more than it spends
            if length is not None and length <= _EXPLICIT:
                raise LostError
            cut, rest, records = self._at(MOST_LOSS, proof), loss - MOST_LOSS, length or math.inf
            upper = min(cut.upper + rest * records, loss * records, self.place.by_odds(loss)) if cut.upper > 0 else 0.0
            return replace(cut, lower=cut.lower + rest * (upper > 0), upper=upper)
        most, records = min(length or self._most, self._most), self._first
        while True:
            if records * 2 > most:
                records = most
            if records == _ONE_BY_ONE != length and self.after.followed:
                return self._some(loss, proof)
            left, right = self._reaches(loss, records)
            if left.lost or right.lost:
                raise LostError
            if length == records:
                sums = left.by_length + right.by_length[:, ::-1]
                pair, at = (int(v) for v in np.unravel_index(int(sums.argmax()), sums.shape))
                ends = left.end(pair, at), right.end(pair, length - 1 - at)
                value = loss + float(sums[pair, at])
                if value == -math.inf:
                    return TwoSides(0.0, 0.0, 0, ends)
                return TwoSides(value, min(value + rounding(records), loss * length), pair, ends)
            both = left.by_length.max(axis=1) + right.by_length.max(axis=1)
            pair = int(both.argmax())
            lower, upper = loss + float(both[pair]), loss + float((left.upper + right.upper).max())
            # What rounding is given anyway is no reason to look at more records.
            if upper - lower <= max(self.share * lower, _DIGITS, rounding(records)) or records == most:
                upper += rounding(records)
                ends = (
                    left.end(pair, int(left.by_length[pair].argmax())),
                    right.end(pair, int(right.by_length[pair].argmax())),
                )
                return TwoSides(lower, upper if length is None else min(upper, loss * length), pair, ends)
            records *= 4

    def _some(self, loss: float, proof: bool) -> TwoSides:
        """Chains that hardly move: some numbers of records stand for all."""
        length = self.place.length
        if length is None:
            sides = worst_sides((self.before, self.after), loss, self.share, proof)
        else:
            sides = worst_split(self.before, self.after, loss, length, self.share, proof)
        upper = loss + (sides.upper if proof else sides.lower)
        return replace(sides, lower=loss + sides.lower, upper=upper if length is None else min(upper, loss * length))

    def worst(self, loss: float) -> TightLeakage:
        try:
            found = self._at(loss)
        except LostError:
            return self._in_logs(loss)
        pair = found.pair
        x, y = (pair, 1 - pair) if found.upper > 0 or self.place.chain.start is None else (0, 0)
        before, after = (
            self._side(lane, end, x) for lane, end in zip((self.before, self.after), found.ends, strict=True)
        )
        record = found.ends[0].records + 1
        return self.place.result(loss, (found.lower, found.upper), (x, y), (before, after), record=record)

    def misled(self, _: float) -> bool:
        return False

    def _side(self, lane: Lane, end: End, x: int) -> SideAttack:
        known = (end.distance, end.state) if end.state >= 0 else None
        count = end.distance - 1 if end.state >= 0 else end.distance
        return SideAttack(
            added=end.added, known=known, records=count, questions=two_state_questions(lane.stays, x, count)
        )


class _ManyStates:
    """Many states: one by one where the series is short, as a chain without end where it is long."""

    def __init__(self, place: Place) -> None:
        self.place = place
        chain, length = place.chain, place.length
        self.long = ManyStates(chain, place.known, length) if chain.primitive else None
        self.short = length is not None and (self.long is None or length <= 2 * self.long.first_depth)
        self.endless: ManyStates | None = None
        """The series without end, where it may begin with any kernel: one that begins with the first proves nothing.
        And where the series itself ends before the chain has forgotten."""
        self.anywhere = False
        """Whether the series may begin with any kernel: records of one that begins with the first say nothing then."""
        self.share = self.long.width if self.long is not None else 1e-9
        self.steady = None
        if self.short and length is not None and length <= _EXPLICIT:
            self.share = min(self.share, _EXACT)
            self.steady = steady_series(chain, length, place.adversary)
        forgets = self.long.first_depth if self.long is not None and chain.stationary and chain.period == 1 else 0
        if length is not None and _EXPLICIT < length <= _FORGOTTEN * forgets:
            # Too long to be worked out record by record, and too short for the chain to forget: one that goes on
            # without end leaks no less, and is known exactly.
            self.short, self.endless = False, ManyStates(chain, place.known, None)
        self.whole = None
        if self.long is not None and length is not None and _EXPLICIT < length <= _FORGOTTEN * self.long.first_depth:
            self.whole = whole_series(chain, length, place.adversary)
        self.at_once = (
            self.whole is not None
            and self.long is not None
            and self.whole.n < _REMEMBERED[place.adversary] * self.long.forgets
        )
        """Whether the series ends before the chain has forgotten, so that no other way needs to be tried."""
        if self.at_once:
            self.share = LONG_WIDTH
        self.free = any_start_series(chain, length, place.known) if length is None or length >= _FOLLOWED else None
        """The worst law of the first record, where it may have any."""
        forgets_soon = self.long is not None and self.long.first_depth <= _QUICK
        if self.free is not None and (forgets_soon or (length is not None and length <= _EXPLICIT)):
            self.free.width = _EXACT
        self.turns = turns(chain, length, place.adversary) if length is None or length > _EXPLICIT else None
        """All records of a chain that goes round in a cycle, where it begins in one part of it."""
        if self.turns is not None:
            self.share = LONG_WIDTH
        self.free_at_once = self.free is not None and (self.short or not forgets_soon or chain.size > _FEW_STATES)
        if self.free is not None and self.free_at_once:
            self.share = self.free.width
        self._stays_open, self._by_records, self._own_share = -1.0, False, self.share
        """The loss at which a series without end was last found to leak too much, and whether a search knows that."""

    def forget(self) -> None:
        """A search begins anew."""
        if self._by_records:
            self._by_records, self.share = False, self._own_share
        for search in (self.search, self.whole):
            if search is not None:
                search.forget()

    def misled(self, loss: float) -> bool:
        if self._by_records or self._stays_open != loss:
            return False
        self._by_records, self._own_share, self.share = True, self.share, LONG_WIDTH
        return True

    def likely(self, epsilon: float) -> float:
        return epsilon / 4 if self.long is None else self.long.likely(epsilon)

    def quick(self, loss: float) -> float:
        if loss > MOST_LOSS:
            return self.worst(loss).upper
        if (self.at_once or self._by_records) and self.whole is not None and self.whole.serves(loss):
            return self.whole.quick(loss)
        if self.free_at_once and self.free is not None and self.free.serves(loss):
            return self.free.quick(loss)
        if self.turns is not None and self.turns.serves(loss):
            return self.turns.quick(loss)
        if self.endless is not None and self.place.length is not None:
            return min(self.endless.quick(loss), self.place.length * loss)
        if self.short or self.long is None:
            if self.steady is not None and 0 < loss <= MOST_SPENT / self.steady.n:
                return self.steady.quick(loss, self.share)
            if self.place.length is not None and self.place.length > _EXPLICIT and self.place.chain.start is not None:
                return self._long_bound(loss, self.place.length)
            return float(self._each(loss)[0].lower.max())
        return self.long.quick(loss)

    def _each(self, loss: float) -> tuple[SeriesLeakage, float]:
        """Every record; of a series that does not forget its first ones, and what group privacy says of the rest."""
        length = self.place.length
        if self.steady is not None:
            steady = of_steady(self.steady, loss, self.place.adversary, self.share)
            if steady is not None:
                return steady, float(steady.upper.max())
        some = min(length or _EXPLICIT, _EXPLICIT)
        found = series_leakage(self.place.chain, np.full(some, loss), self.place.adversary, self.share, largest=True)
        if length is None:
            return found, math.inf if loss > 0 else 0.0
        if some == length:
            return found, float(found.upper.max())
        upper = self._long_bound(loss, length)
        if self.place.chain.start is not None:
            return found, upper
        # Any law is allowed: also that of the first of so many records around a target, wherever it is.
        return found, min(float(found.upper.max()) + (length - some) * loss, upper)

    def _long_bound(self, loss: float, length: int) -> float:
        """Of a series that is not worked out record by record: group privacy and the closed form."""
        return min(length * loss, self._closed_form(loss))

    @cached_property
    def _beyond_cut(self) -> float:
        """What both sides may add where records spend more than is counted."""
        chain = self.place.chain
        if chain.start is None or not (chain.kernels > 0).all():
            return math.inf
        least = min(float(chain.kernels.min()), float(chain.start[chain.start > 0].min()))
        return 2 * beyond_cut(chain.size, least)

    @cached_property
    def _closed_form(self) -> OddsCurve:
        kernels = self.place.chain.kernels
        return OddsCurve.of_chains([kernels if len(kernels) > 1 else kernels[0]], length=self.place.length)

    def worst(self, loss: float) -> TightLeakage:
        if loss > MOST_LOSS:  # more than a pass can count: a record adds no more than it spends
            cut, rest, length = self.worst(MOST_LOSS), loss - MOST_LOSS, self.place.length
            upper = math.inf if length is None else min(cut.upper + rest * length, loss * length)
            upper = min(upper, self.place.by_odds(loss), cut.upper + rest + self._beyond_cut)
            return replace(cut, dp_loss=loss, lower=cut.lower + rest, upper=upper) if cut.upper > 0 else cut
        if self.at_once and (exact := self._recorded(loss)) is not None:
            return exact
        if self.free_at_once and (exact := self._of_any_start(loss)) is not None:
            return exact
        if self.turns is not None and self.turns.serves(loss):
            found_turns, upper = self.turns.at(loss)
            return self._of_records(loss, of_records(found_turns, loss, self.place.adversary), upper)
        if self.long is not None and not self.short:
            if not self.long.closed_form:
                self.long.forget()
            if self.endless is not None and self.place.length is not None:
                found = self._of_endless(loss, self.endless, self.place.length)
            else:
                found = self.long.at(loss)
            length = self.place.length
            closed = found.upper <= found.lower * (1 + max(10 * self.long.width, _CLOSED))
            if not closed and (exact := self._recorded(loss)) is not None:
                self._stays_open = loss
                return exact
            if not closed and (exact := self._of_any_start(loss)) is not None:
                return exact
            if not closed and length is not None and length > _EXPLICIT:
                return self._attack(loss, replace(found, upper=min(found.upper, self._long_bound(loss, length))))
            if closed or length is None or self.anywhere:
                return self._attack(loss, found)
        each, upper = self._each(loss)
        return self._of_records(loss, each, upper)

    def _recorded(self, loss: float) -> TightLeakage | None:
        """Every record of a long series; None where that cannot be done."""
        each = None if self.whole is None else of_whole(self.whole, loss)
        return None if each is None else self._of_records(loss, each, float(each.upper.max()))

    def _of_any_start(self, loss: float) -> TightLeakage | None:
        """The worst law of the first record; None where that cannot be done."""
        if self.free is None or not self.free.serves(loss):
            return None
        found, length = self.free.at(loss), self.place.length
        (x, y), (distance, state, log_mu) = found.pair, found.after
        rest = None if length is None else length - 1 - found.records
        count = distance - 1 if state >= 0 else rest
        asked = questions_of(
            self.place.chain.kernels,
            np.array([loss]),
            x,
            y,
            log_mu if state >= 0 else found.added[1],
            _LISTED if count is None else count,
        )
        sides = (
            SideAttack(added=found.added[0], known=None, records=found.records, questions=(), first_law=found.law),
            SideAttack(
                added=found.added[1],
                known=(distance, state) if state >= 0 else None,
                records=count,
                questions=asked if found.added[1] > 0 else (),
            ),
        )
        record = None if length is None else found.records + 1
        return self.place.result(loss, (found.lower, found.upper), (x, y), sides, record=record)

    def _of_records(self, loss: float, each: SeriesLeakage, upper: float) -> TightLeakage:
        """The worst of all records."""
        one = attack_on(self.place.chain, each, each.worst)
        pair, sides = (one.likelier, one.other), (one.before, one.after)
        bracket = float(each.lower.max()), upper
        return self.place.result(loss, bracket, pair, sides, record=one.record, phase=one.phase)

    def _of_endless(self, loss: float, endless: ManyStates, length: int) -> Found:
        """What a series without end leaks, and what this one does at least, wherever it begins."""
        assert self.long is not None
        if not endless.closed_form:
            endless.forget()
        found = endless.at(loss)
        upper = min(found.upper, length * loss)  # group privacy
        # Otherwise a record in the middle has as much around it.
        if found.distance.max() > (length - 1) // 2 or (found.state == LASTING).any():
            reached = self.long.climb(loss)
            if upper > reached * (1 + _CLOSED):
                reached = max(reached, self.long.reached_by(loss, found))
            found = replace(found, lower=min(reached, upper))
        return replace(found, upper=upper)

    @property
    def search(self) -> ManyStates | None:
        """What is asked for brackets of long series."""
        return self.long if self.endless is None else self.endless

    def _attack(self, loss: float, found: Found) -> TightLeakage:
        assert self.long is not None
        rows, chain = self.long.rows, self.place.chain
        x, y = int(rows.x[found.row]), int(rows.y[found.row])
        phase = int(rows.offsets[-1, found.row])
        kernels = (
            np.roll(self.long.before, -((-phase) % chain.period), axis=0),
            np.roll(chain.kernels, -phase, axis=0),
        )
        sides = []
        for lane in (0, 1):
            distance, state = int(found.distance[lane]), int(found.state[lane])
            count = self.place.room(distance, state)
            log_mu = float(found.mu[lane])
            if state == LASTING:  # what goes on for ever is best asked at the quotient that it reaches
                log_mu, count_listed = self.long.reached(lane, x, y, float(found.added[lane])), _LISTED
            else:
                count_listed = int(count or 0)
            asked = questions_of(kernels[lane], np.array([loss]), x, y, log_mu, count_listed)
            law = found.starts if lane == 0 else ()
            sides.append(
                SideAttack(
                    added=float(found.added[lane]),
                    known=(distance, state) if state >= 0 else None,
                    records=count,
                    questions=() if law else asked,
                    first_law=law,
                )
            )
        length = self.place.length
        record = None
        if length is not None:
            far = (found.state == LASTING).any()
            record = (length + 1) // 2 if far else int(found.distance[0]) + 1
        return self.place.result(
            loss,
            (found.lower, found.upper),
            (x, y),
            (sides[0], sides[1]),
            record=record,
            phase=phase if chain.period > 1 else None,
        )


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
        worst = worst_at(loss)
        if worst.lower <= epsilon * (1 + _OTHER) and not curve.misled(loss):
            break
        # Another pair of values leaks more: begin again, from there.
    return loss if math.isfinite(worst.upper) else 0.0
