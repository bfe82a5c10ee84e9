"""Streams over time: at step t an algorithm uses record t alone, and what it published before, and spends e_t on it.

That is Theorem 2 with losses τ_t = e_t. Backward leakage comes from the outputs up to the record's own, forward leakage
from its own on, total leakage from all: the record's loss with one side, the other, or both. Exact for any number of
states, so never above the recursion of Cao, Yoshikawa, Xiao and Xiong (2017), which keeps one number for a side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.bounds.inverse import largest_loss
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.attack import TightLeakage
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.inputs import Chain, visited
from pufferdp.bounds.tight.many_states import ManyStates
from pufferdp.bounds.tight.outlook import Outlook, Rows
from pufferdp.bounds.tight.series import WIDTH, attack_on, series_leakage, worst_pairs
from pufferdp.bounds.tight.sides import solve
from pufferdp.bounds.tight.two_states import Lane

_PARTS: Final = ("before", "after", "both")
_LONGEST: Final = 100_000_000
EACH: Final = 1000
"""Steps of many states up to which each has a narrow bracket; of more the worst has, and the others are bounded."""
_FEW_STATES: Final = 8
"""States up to which the ends of a stream are looked at apart."""
_EDGE: Final = 256
"""Steps at either end of a long stream that are looked at one by one, at most."""
_ENDS: Final = 1e-4
"""What the ends may spend is rounded down by no more than this share; for two states by much less."""
_TWO_ENDS: Final = 1e-7


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamLeakage:
    """What a stream leaks about the record of each step, at most; all but rounding is reached by some algorithm."""

    losses: Floats
    """DP loss of each step; one number where the stream has no end."""
    backward: Floats
    """From all outputs up to the record's own, step by step; one number, the largest, where there is no end."""
    forward: Floats
    """From the record's own output and all that follow."""
    total: Floats
    """From all outputs."""
    lower: float
    """Some algorithm leaks as much about the worst step's record."""
    attack: TightLeakage
    """Who learns it, and from which questions."""
    length: int | None
    adversary: str

    @property
    def upper(self) -> float:
        """No algorithm with these losses leaks more about any record."""
        return float(self.total.max())

    @property
    def worst(self) -> int | None:
        """The first step whose record leaks most, up to rounding, counted from 1; None without end."""
        if self.length is None:
            return None
        return int(np.argmax(self.total >= self.upper - WIDTH * (1 + self.upper))) + 1


def stream_leakage(
    transition: npt.ArrayLike,
    losses: float | npt.ArrayLike,
    *,
    length: int | None = None,
    start: str | npt.ArrayLike = "stationary",
    adversary: str = "bdp",
    tell: Callable[[int], None] = lambda part: None,
) -> StreamLeakage:
    """What a stream leaks about the record of each step, whatever the algorithm.

    >>> found = stream_leakage([[0.882, 0.118], [0.305, 0.695]], 0.1, length=288)
    >>> round(found.upper, 4), found.worst
    (0.3893, 10)

    Args:
        transition: one table, or several that follow each other again and again.
        losses: the DP loss of each step; one number: of every step.
        length: steps, for one number; without it the stream has no end.
        start: the law of the first record, "stationary" or "any".
        adversary: bdp, pufferfish or dp.
        tell: called before each of three parts of the work, 0, 1 and 2.
    """
    chain, who = inputs.chain(transition, start), inputs.adversary(adversary)
    if np.ndim(losses) == 0:
        loss = inputs.loss(float(np.asarray(losses)), "the loss of a step")
        if length is None:
            return _forever(chain, loss, who)
        steps = checks.length(length)
        if steps > _LONGEST:
            raise ParameterError(f"length is {steps:,}; leave it out for a stream without end", value=length)
        return _constant(chain, loss, steps, who, tell)
    spent = inputs.losses(losses, length, "stream")
    return _steps(chain, spent, who, tell)


def _steps(chain: Chain, losses: Floats, adversary: str, tell: Callable[[int], None]) -> StreamLeakage:
    parts = []
    for part, sides in enumerate(_PARTS):
        tell(part)
        parts.append(series_leakage(chain, losses, adversary, sides=sides, largest=len(losses) > EACH))
    backward, forward, total = parts
    return StreamLeakage(
        losses=losses,
        backward=backward.upper,
        forward=forward.upper,
        total=total.upper,
        lower=min(float(total.lower.max()), float(total.upper.max())),
        attack=attack_on(chain, total, total.worst),
        length=len(losses),
        adversary=adversary,
    )


def _forever(chain: Chain, loss: float, adversary: str) -> StreamLeakage:
    """The largest at any step of a stream without end."""
    backward, forward = (_largest(chain, loss, adversary, side) for side in (0, 1))
    total = _curve(chain, None, adversary).leakage(loss)
    if not all(math.isfinite(value) for value in (backward, forward, total.upper)):
        raise NotApplicableError(
            f"at {loss:g} a step no bound on a stream without end was found: what it leaks may grow forever; give a "
            "length"
        )
    return StreamLeakage(
        losses=np.array([loss]),
        backward=np.array([backward]),
        forward=np.array([forward]),
        total=np.array([total.upper]),
        lower=total.lower,
        attack=total,
        length=None,
        adversary=adversary,
    )


def _curve(chain: Chain, length: int | None, adversary: str) -> TightCurve:
    start = "any" if chain.start is None else "stationary" if chain.stationary else chain.start
    return TightCurve(chain.kernels, start=start, length=length, adversary=adversary)


def _largest(chain: Chain, loss: float, adversary: str, side: int) -> float:
    """The record's loss and what one side adds, at most, forever."""
    small, _ = visited(chain, None)
    if adversary == "dp" or small.size == 1:
        return loss if small.size > 1 else 0.0
    if loss == 0:
        return 0.0
    if small.stationary and not small.primitive:
        return math.inf
    if small.size == 2 and small.period == 1:
        return _two_forever(_two_lanes(small, adversary)[side], loss)
    if not small.primitive:
        return math.inf
    return ManyStates(small, adversary == "bdp", None, (side,)).at(loss).upper


def _two_lanes(chain: Chain, adversary: str) -> tuple[Lane, Lane]:
    kernel, known = chain.kernels[0], adversary == "bdp"
    after = Lane(kernel, np.ones(2), known)
    return (after if chain.stationary else Lane(kernel.T, chain.start, known)), after


def _two_forever(lane: Lane, loss: float) -> float:
    length = 64
    while True:
        reach = lane.reach(loss, lane.plain(length))
        lower, upper = (loss + float(part.max()) for part in (reach.by_length, reach.upper))
        if upper - lower <= WIDTH * lower or length >= 1 << 20:
            return upper + 1e-12
        length *= 4


def _constant(chain: Chain, loss: float, steps: int, adversary: str, tell: Callable[[int], None]) -> StreamLeakage:
    """Every step spends the same: both ends step by step, and one value for all steps between them."""
    small, _ = visited(chain, steps)
    spent = np.full(steps, loss)
    settles = small.stationary and small.primitive and small.size > 1 and adversary != "dp" and loss > 0
    if not settles or small.period > 1:
        return _steps(chain, spent, adversary, tell)
    if small.size == 2:
        return _two_constant(small, _curve(chain, steps, adversary).leakage(loss), loss, steps, adversary)
    long = ManyStates(small, adversary == "bdp", None)
    edge = min(2 * long.first_depth, _EDGE)
    if steps <= 2 * edge + 1:
        return _steps(chain, spent, adversary, tell)
    return _many_constant(small, _forever(chain, loss, adversary), long, loss, steps, edge)


def _two_constant(chain: Chain, worst: TightLeakage, loss: float, steps: int, adversary: str) -> StreamLeakage:
    lane, length = _two_lanes(chain, adversary)[1], min(64, steps)
    while True:
        reach = lane.reach(loss, lane.plain(length))
        settled = (reach.upper - reach.by_length.max(axis=1) <= WIDTH * loss).all()
        if settled or length == steps:
            break
        length = min(4 * length, steps)
    # A longer side never adds less: beyond what was looked at all sides are bounded alike.
    far = np.repeat(reach.upper[:, None], max(0, steps - length), axis=1)
    side = np.concatenate([reach.by_length, far], axis=1)[:, :steps] + 1e-12
    total = side + side[:, ::-1]
    backward = loss + side.max(axis=0)
    return StreamLeakage(
        losses=np.full(steps, loss),
        backward=np.minimum(backward, loss * np.arange(1, steps + 1)),
        forward=np.minimum(backward[::-1], loss * np.arange(steps, 0, -1)),
        total=np.minimum(loss + total.max(axis=0), loss * steps),
        lower=worst.lower,
        attack=worst,
        length=steps,
        adversary=adversary,
    )


def _many_constant(
    chain: Chain, middle: StreamLeakage, long: ManyStates, loss: float, steps: int, edge: int
) -> StreamLeakage:
    adversary = middle.adversary
    kernels = np.stack([long.before, chain.kernels])
    ends = {}
    for side in (0, 1):
        both = _near_an_end(kernels, chain.size, loss, edge, side, adversary, (0, 1))
        alone = _near_an_end(kernels, chain.size, loss, edge, side, adversary, (side,))
        ends[side] = both, alone
    return StreamLeakage(
        losses=np.full(steps, loss),
        backward=_filled(ends[0][1], float(middle.backward[0]), None, steps),
        forward=_filled(None, float(middle.forward[0]), ends[1][1], steps),
        total=_filled(ends[0][0], float(middle.total[0]), ends[1][0], steps),
        lower=middle.lower,
        attack=middle.attack,
        length=steps,
        adversary=adversary,
    )


def _filled(first: Floats | None, between: float, last: Floats | None, steps: int) -> Floats:
    """Values near both ends of a stream, and one for all between."""
    out = np.full(steps, between)
    if first is not None:
        out[: len(first)] = first
    if last is not None:
        out[steps - len(last) :] = last[::-1]
    return out


def _near_an_end(
    kernels: Floats, k: int, loss: float, edge: int, side: int, adversary: str, lanes: tuple[int, ...]
) -> Floats:
    """Upper ends for records with 0, 1, … others on one side, and no end on the other."""
    picked = list(lanes)
    look = Outlook(kernels[picked], np.ones((len(picked), k)), adversary == "bdp", True)
    x, y = np.nonzero(~np.eye(k, dtype=bool))
    record = np.repeat(np.arange(edge), len(x))
    records = np.full((2, len(record)), -1)
    records[side] = record
    rows = Rows(
        np.zeros((len(picked), len(record)), dtype=np.int64),
        records[picked],
        np.full((len(picked), 1), loss),
        np.tile(x, edge),
        np.tile(y, edge),
    )
    likely = np.zeros((len(picked), len(record)))
    own = np.full(len(record), loss)
    found = worst_pairs(look, rows, record, own, likely, None, WIDTH)
    out = np.zeros(edge)
    for at, bracket in found:
        np.maximum.at(out, record[at], own[at] + bracket.upper.sum(axis=0))
    return out


@dataclass(frozen=True, kw_only=True)
class StreamBudget:
    """What each step may spend so that no record leaks more than the target."""

    target: float
    length: int | None
    adversary: str
    constant: float
    """The same at each step."""
    ends: tuple[float, float, float] | None
    """The first step, every one between, the last: safe for any number of steps. None where a stream without end has
    no budget."""


def stream_budget(
    transition: npt.ArrayLike,
    target: float,
    *,
    length: int | None = None,
    start: str | npt.ArrayLike = "stationary",
    adversary: str = "bdp",
) -> StreamBudget:
    """What each step of a stream may spend so that no record leaks more than the target; without a length: forever.

    >>> budget = stream_budget([[0.882, 0.118], [0.305, 0.695]], 1.0)
    >>> round(budget.constant, 4), [round(e, 4) for e in budget.ends]
    (0.2503, [0.6252, 0.2503, 0.6252])
    """
    most, who = inputs.target(target, "target"), inputs.adversary(adversary)
    steps = None if length is None else checks.length(length)
    chain = inputs.chain(transition, start)
    lasting = TightCurve(transition, start=start, adversary=who).inverse(most)
    ends = _ends(chain, lasting, most, who) if lasting > 0 else None
    constant = (
        lasting if steps is None else TightCurve(transition, start=start, length=steps, adversary=who).inverse(most)
    )
    if constant <= 0:
        raise NotApplicableError(
            "no constant loss keeps a stream without end within a target here: outputs say ever more about where the "
            "chain is in its cycle, or in which part; give a length"
        )
    return StreamBudget(target=most, length=steps, adversary=who, constant=constant, ends=ends)


def _ends(chain: Chain, loss: float, target: float, adversary: str) -> tuple[float, float, float]:
    """More at the ends: only those who know no record of a side see what its farthest record spends."""
    small, _ = visited(chain, None)
    many = small.size > _FEW_STATES or small.period > 1
    if adversary == "dp" or not small.stationary or small.size == 1 or many:
        return loss, loss, loss
    ends, share = _Ends(small, loss, target, adversary), _TWO_ENDS if small.size == 2 else _ENDS

    def largest(fits: Callable[[float], bool]) -> float:
        found = largest_loss(lambda own: own if own <= loss or fits(own) else math.inf, target, share)
        return max(found, loss)

    both = largest(lambda own: ends.fit(own, own))
    first = largest(lambda own: ends.fit(own, both))
    return first, loss, largest(lambda own: ends.fit(first, own))


class _Ends:
    """A stream without end whose first and last step spend more than the others."""

    def __init__(self, chain: Chain, loss: float, target: float, adversary: str) -> None:
        self.chain, self.loss, self.target, self.known = chain, loss, target, adversary == "bdp"
        self.long = ManyStates(chain, self.known, None)
        self.lanes = _two_lanes(chain, adversary) if chain.size == 2 else None

    def fit(self, first: float, last: float) -> bool:
        """Whether no record leaks more than the target, whatever the number of steps."""
        if self.lanes is not None:
            left, right = (self._of_two(lane, own) for lane, own in zip(self.lanes, (first, last), strict=True))
            leaks = self.loss + (left + right).max(), first + right.max(), last + left.max()
            return max(float(value) for value in leaks) <= self.target
        return (
            self._of_many(first, (1,), last, last)
            and self._of_many(last, (0,), first, first)
            and self._of_many(self.loss, (0, 1), first, last)
        )

    def _of_two(self, lane: Lane, own: float) -> Floats:
        """What a side adds at most, for both pairs of values."""
        length = 64
        while True:
            reach = lane.reach(self.loss, lane.plain(length))
            if (reach.upper <= reach.by_length.max(axis=1) * (1 + WIDTH)).all() or length >= 1 << 16:
                return np.maximum(reach.upper, lane.with_last(self.loss, own, length))
            length *= 4

    def _of_many(self, own: float, sides: tuple[int, ...], first: float, last: float) -> bool:
        """Whether a record that spends ``own`` leaks no more than the target, with these sides."""
        picked, k = list(sides), self.chain.size
        kernels = np.stack([self.long.before, self.chain.kernels])[picked]
        farthest = np.array([first, last])[picked]
        look = Outlook(kernels, np.ones((len(picked), k)), self.known, True, last_loss=farthest)
        x, y = np.nonzero(~np.eye(k, dtype=bool))
        shape = (len(picked), len(x))
        rows = Rows(np.zeros(shape, dtype=np.int64), np.full(shape, -1), np.full((len(picked), 1), self.loss), x, y)
        found = solve(look, rows, own=own, need=self.target, width=WIDTH, first=self.long.first_depth)
        return bool(own + float(found.upper.sum(axis=0).max()) <= self.target)
