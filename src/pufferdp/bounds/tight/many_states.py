"""Chains of many states with the same loss on every record, so long that they need no end.

Pairs of values are ranked by what they add where losses are small. The worst of them is followed to the end of its
bracket; the others only until they are proved to leak no more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.bounds.tight.any_start import Before, Starts, worst_starts
from pufferdp.bounds.tight.inputs import Chain
from pufferdp.bounds.tight.odds import largest_log_odds, side_bound
from pufferdp.bounds.tight.outlook import LASTING, OPEN_END, Bracket, Outlook, Rows
from pufferdp.bounds.tight.screening import harmless
from pufferdp.bounds.tight.sides import FIRST_DEPTH, climb, solve

FINE: Final = 1e-10
"""How narrow brackets are, as a share, where the chain forgets within a few hundred records."""
COARSE: Final = 4e-7
"""Where it takes longer."""
_CLIMBS: Final = 12
_FARTHER: Final = 1
"""Passes to see what ends far away add."""
_CLIMB: Final = 1e-5
"""A pass that gains no more than this share is the last: what is left is as small as its square."""
_ROUGH: Final = 0.05
_RUNGS: Final = 4.0
"""The losses at which rows are compared to find the one to begin with are powers of this."""
_BENDS: Final = 0.8
"""Where a curve has a value, as a share of where its slope at 0 says."""
_TRIED: Final = 8
"""Rows that are tried to find the one to begin with."""
_TRIED_PHASES: Final = 64
"""Where there are several phases, whose pairs leak much alike."""
_FAR: Final = 8
"""Where a chain forgets slowly, sides are looked at so many times farther than where it has forgotten most."""
_WORK: Final = 1 << 19
"""Rows times distance that are worked out one by one at most."""
_MANY: Final = 16
"""Rows from which on quick proofs are worth trying."""
_SOME: Final = 256
"""Rows without a quick proof of which the worst is looked for."""
_FEW_STATES: Final = 16
"""States up to which so many rows are no burden."""
_SCOUTED: Final = 10_000
"""Rows of several phases beyond which some phases are looked at first."""
_MOST_WORK: Final = 1 << 34
"""Rows of several phases times entries of a kernel times distance beyond which not all rows are looked at."""
_ALIGNED: Final = 4
"""Blocks of steps are looked at from each quarter of a block on."""
_FORGOTTEN: Final = 1e-6
"""Where the log odds of a block are no larger, longer blocks bound nothing better."""
_AROUND: Final = 0.002
"""How far around a loss pairs are proved to leak less than the worst one, as a share."""
_NEARLY: Final = 0.02
"""Losses that differ by no more than this share are nearly the same."""
_DEEP: Final = 512
_DEEPEST: Final = 1 << 16
_DEEPEST_OF_ONE: Final = 1 << 18
"""Records on a side that are looked at, of several kernels and of one."""
_NEAREST: Final = 32
_FARTHEST: Final = 1 << 13
"""Between these many records a chain of several kernels is taken to have forgotten most."""
_FARTHEST_OF_ONE: Final = 1 << 15
"""And so many of one kernel at most: it is followed in long jumps."""
_AT_ONCE: Final = 1 << 14
"""Rows compared at a time."""
_ALIKE: Final = 8 * 2.0**-52
"""Kernels that differ by no more than this share are one kernel: bounds have room for it."""


@dataclass(frozen=True, eq=False)
class Found:
    """What was found for one loss: logs."""

    lower: float
    upper: float
    row: int
    """The worst row."""
    added: Floats
    """(2,) what each side adds, at least."""
    distance: Ints
    state: Ints
    mu: Floats
    """(2,) each."""
    starts: tuple[tuple[int, float], ...] = ()
    """The worst law of the first record, where any is allowed."""


class ManyStates:
    """A chain with one kernel or several in turn, without end or with ``length`` records, for one adversary."""

    def __init__(
        self, chain: Chain, known: bool, length: int | None, sides: tuple[int, ...] = (0, 1), stride: int = 1
    ) -> None:
        """The chain, whether records may be known, its length, and which sides count: 0 before, 1 after the target.

        A ``stride`` leaves out phases that are no multiple of it.
        """
        self.chain, self.known, self.length, self.stride = chain, known, length, stride
        m, k = chain.period, chain.size
        self.any_start, self.sides = chain.start is None, sides
        after = chain.kernels
        if chain.stationary:
            laws = chain.marginals
            flow = laws[:, :, None] * after
            total = np.roll(laws, -1, axis=0) if m > 1 else laws
            backwards = np.divide(
                flow.swapaxes(1, 2), total[:, :, None], out=np.zeros_like(flow), where=total[:, :, None] > 0
            )
            before, end, tends_to = backwards[::-1], np.ones((2, k)), None
        else:
            before, end = after[::-1].swapaxes(1, 2), np.ones((2, k))
            end[0] = 0.0 if chain.start is None else chain.start
            tends_to = np.ones((2, k))
            tends_to[0] = chain.tends_to
        alike = chain.stationary and m == 1 and bool((np.abs(before - after) <= _ALIKE * after).all())
        self.any_start = self.any_start and 0 in sides
        if alike:
            lanes = [1]
            alike = len(sides) == 2
        else:
            lanes = [1] if self.any_start else list(sides)
        self.lanes = lanes
        self.only_starts = self.any_start and 1 not in sides
        kernels = np.stack([before, after])
        self.before = before
        self.look = Outlook(
            kernels[lanes],
            end[lanes],
            known,
            True,
            alike=alike,
            side=None if length is None else max(0, (length - 1) // 2),
            tends_to=None if tends_to is None else tends_to[lanes],
        )
        deepest = _DEEPEST if m > 1 else _DEEPEST_OF_ONE
        self.longest = deepest if length is None else max(1, min(deepest, (length - 1) // 2))
        self._before, self._farther = 0.0, (0.0, 1.0)
        self._chosen: dict[float, tuple[int, Bracket | None]] = {}
        self._proofs: dict[int, tuple[float, float]] = {}
        """Rows, losses, and what they leak at most."""
        self.bounded = m * k * (k - 1) * k**2 * self.first_depth > _MOST_WORK if m > 1 else False
        """Whether there are so many pairs and phases that all are bounded by the closed form, and some looked at."""
        if self.bounded:
            self.stride = max(stride, min(-(-m * k * (k - 1) // _SCOUTED), m))
        self.closed_form = False
        """Whether other pairs than the worst are bounded by the closed form at once: where quick proofs have failed."""
        self.forget()

    def forget(self) -> None:
        """Begin anew: what is found next depends on nothing that was asked before."""
        self._guess: tuple[float, Bracket] | None = None
        self._begun: Bracket | None = None
        # Of several kernels no lasting questions are known, so that sides must be followed until they add no more.
        self._climbs_to = min(self.longest, self.first_depth * (1 if self.chain.period == 1 else _FAR // 2))
        self.top: list[int] = []

    @cached_property
    def rows(self) -> Rows:
        """Pairs of values, at each phase; of those that cannot be told apart one."""
        m, k = self.chain.period, self.chain.size
        kinds = self._kinds
        x, y = np.nonzero(~np.eye(k, dtype=bool))
        if m == 1:
            same = kinds[x] * k + kinds[y]
            if self._mirrored:  # the other way round is the same chain
                same = np.minimum(same, kinds[k - 1 - x] * k + kinds[k - 1 - y])
            _, first = np.unique(same, return_index=True)
            x, y = x[first], y[first]
        phases = np.arange(0, m, self.stride)
        phase = np.repeat(phases, len(x))
        x, y = np.tile(x, len(phases)), np.tile(y, len(phases))
        if self.chain.stationary:
            alive = (self.chain.marginals[phase, x] > 0) & (self.chain.marginals[phase, y] > 0)
            phase, x, y = phase[alive], x[alive], y[alive]
        offsets = np.stack([(m - phase) % m, phase])[self.lanes]
        return Rows(offsets, np.full(offsets.shape, -1), np.zeros((len(self.lanes), 1)), x, y)

    @property
    def _kinds(self) -> Ints:
        """States that can be exchanged without changing anything have the same number."""
        kernel, k = self.chain.kernels[0], self.chain.size
        start = np.ones(k) if self.chain.start is None or self.chain.stationary else self.chain.start
        kinds = np.arange(k)
        for i in range(k):
            if kinds[i] < i:
                continue
            for j in range(i + 1, k):
                if kinds[j] == j and start[i] == start[j] and kernel[i, i] == kernel[j, j]:
                    swap = np.arange(k)
                    swap[[i, j]] = j, i
                    if (kernel[swap][:, swap] == kernel).all():
                        kinds[j] = i
        return kinds

    @property
    def _mirrored(self) -> bool:
        """Whether the chain is the same with its states in the opposite order, up to rounding."""
        kernel, start = self.chain.kernels[0], self.chain.start
        parts = [kernel] if start is None else [kernel, start]
        return all(bool((np.abs(part - np.flip(part)) <= _ALIKE * part).all()) for part in parts)

    @cached_property
    def first_depth(self) -> int:
        """Some times the distance at which the chain has forgotten most."""
        if self.chain.period > 1:
            return self._forgotten_after()
        return min(1 << max(5, math.ceil(math.log2(2 * self.forgets))), _FARTHEST_OF_ONE)

    @property
    def _near_depth(self) -> int:
        """The same, where every record is looked at."""
        return min(self.first_depth, _FARTHEST)

    @cached_property
    def forgets(self) -> float:
        """Records in which what one kernel remembers becomes e times less."""
        values = np.sort(np.abs(np.linalg.eigvals(self.chain.whole)))
        slow = float(values[-2]) if len(values) > 1 else 0.0
        return self.chain.period / max(1 - min(slow, 1.0), 1e-5)

    def _forgotten_after(self) -> int:
        """Records behind which the laws given two values differ by e^-2 at most, whatever the phase: a power of two."""
        possible = (
            self.chain.marginals > 0 if self.chain.stationary else np.ones(self.chain.kernels.shape[:2], dtype=bool)
        )
        phases, laws, steps = np.arange(self.chain.period), self.chain.kernels, 1
        while steps < _FARTHEST // 2:
            if steps >= _NEAREST and self._apart_at_most(laws, possible, math.exp(-2)):
                break
            laws, steps = laws @ laws[(phases + steps) % len(phases)], 2 * steps
        return steps

    @staticmethod
    def _apart_at_most(kernels: Floats, possible: Mask, most: float) -> bool:
        """Whether no two rows of any kernel differ by more, in total variation; each kernel is looked at once."""
        each = {
            (kernel.tobytes(), some.tobytes()): kernel[some] for kernel, some in zip(kernels, possible, strict=True)
        }
        return all(_most_apart(laws) <= most for laws in each.values())

    @property
    def width(self) -> float:
        """How narrow brackets are, as a share."""
        return FINE if self.first_depth <= _DEEP else COARSE

    def _harmless(self, at: Ints, loss: float, goal: float) -> Mask:
        """Rows that are quickly proved to leak no more than the goal."""
        if self.any_start or len(at) < _MANY or not math.isfinite(goal) or loss == 0:
            return np.zeros(len(at), dtype=bool)
        slopes = self._slopes[:, at]
        levels = (goal - loss) * slopes / slopes.sum(axis=0) / (1 + self.look.alike)
        return harmless(self.look, self._rows(at, loss), levels * (1 - 1e-12), _FAR * self._near_depth)

    @cached_property
    def _order(self) -> Ints:
        """Rows by what they add where losses are small, the most first."""
        return np.argsort(-self._slopes.sum(axis=0), kind="stable")

    @cached_property
    def _slopes(self) -> Floats:
        """What each lane adds where losses are small: sums of total variations at all distances, (lanes, R)."""
        rows, total = self.rows, np.zeros((len(self.lanes), len(self.rows)))
        phases = np.arange(self.chain.period)
        for lane in range(len(self.lanes)):
            power, far, before = self.look.kernels[lane], 1, 0
            while far <= 2 * self.first_depth:
                total[lane] += self._apart(power, rows, rows.offsets[lane]) * (far - before)
                power, far, before = power @ power[(phases + far) % len(phases)], 2 * far, far
        return total + 1e-12

    @staticmethod
    def _apart(power: Floats, rows: Rows, offsets: Ints) -> Floats:
        """Total variations between the laws behind both values of each row."""
        parts = [slice(low, low + _AT_ONCE) for low in range(0, len(rows), _AT_ONCE)]
        found = [np.abs(power[offsets[p], rows.x[p]] - power[offsets[p], rows.y[p]]).sum(axis=1) / 2 for p in parts]
        return np.concatenate(found) if found else np.zeros(0)

    def _rows(self, at: Ints, loss: float) -> Rows:
        picked = self.rows.pick(at)
        return Rows(picked.offsets, picked.records, np.full((len(self.lanes), 1), loss), picked.x, picked.y)

    def likely(self, epsilon: float) -> float:
        """A loss that leaks about so much, by its slope at 0."""
        return epsilon / (1 + (1 + self.look.alike) * float(self._slopes.sum(axis=0).max()))

    def climb(self, loss: float) -> float:
        """What the rows looked at so far leak at least; a first few of them where none was."""
        if loss == 0:
            return 0.0
        found, at = self._climbed(loss), np.array(self.top)
        added = (0 if self.only_starts else 1 + self.look.alike) * found.lower.sum(axis=0)
        if self.any_start:
            added = added + self._starts(at, loss).lower.max(axis=1)
        best = int(added.argmax())
        self._begun = found.pick(np.array([best]))
        self.top, self._guess = [self.top[best]], (loss, self._begun)
        return loss + float(added[best])

    def _climbed(self, loss: float, width: float = _CLIMB, depth: int = 0) -> Bracket:
        """Lower ends of both sides of the rows looked at so far."""
        before, passes = self._guess, _CLIMBS
        if not self.top:
            before = self._choose(loss)
        elif before is not None and self.known and self.width != FINE and abs(before[0] / loss - 1) <= _NEARLY:
            passes = 1  # Newton's method has nothing left to gain
        at = np.array(self.top)
        likely, guess, asked = self._slopes[:, at] * loss, None, None
        if before is not None and len(at) == 1:
            # What a side adds is nearly in proportion to the loss. What its end says by itself does not change, so
            # that μ moves alike.
            likely = before[1].lower * (loss / before[0])
            guess = before[1].mu + likely - before[1].lower
            if self.width == FINE:
                guess, asked = before[1].likely_mu(likely), before[1].asked
        return climb(
            self.look,
            self._rows(at, loss),
            own=loss,
            likely=likely,
            guess=guess,
            asked=asked,
            width=width,
            depth=depth or self._climbs_to,
            passes=passes if len(at) == 1 else _CLIMBS,
        )

    def reached_by(self, loss: float, found: Found) -> float:
        """What this series leaks at least where one without end leaks what was found.

        Newton's step from there: questions that are best without end are nearly as good up to an end that is far away.
        """
        at, lanes = np.array([found.row]), self.lanes if len(self.lanes) > 1 else [1]
        x, y = int(self.rows.x[found.row]), int(self.rows.y[found.row])
        asked = [
            self.reached(lane, x, y, float(found.added[lane])) if found.state[lane] == LASTING else found.mu[lane]
            for lane in lanes
        ]
        likely, guess = found.added[lanes][:, None], np.array(asked)[:, None]
        rows, depth = self._rows(at, loss), min(self.longest, 2 * _FAR * self.first_depth)
        reached = climb(self.look, rows, own=loss, likely=likely, guess=guess, width=_CLIMB, depth=depth)
        return loss + (1 + self.look.alike) * float(reached.lower.sum())

    def quick(self, loss: float) -> float:
        """The leakage without a proof, ends far away included: what they add changes little with the loss."""
        if self.bounded:
            return self._most(loss)
        if loss > 0 and not self.top:  # a curve bends: what is looked for is a somewhat smaller loss
            self._guess = self._choose(_BENDS * loss)
        last, self._before = self._before, loss
        nearly = loss > 0 and not self.any_start and abs(last / loss - 1) <= _NEARLY
        if nearly and self.width == FINE and not self.known:
            # Without known ends each pass gains a share of the last, and what a few leave out would be seen.
            if len(self.top) > 1:
                self.climb(loss)
            begun = self._climbed(loss, self.width / 10, min(self.longest, max(2 * self.first_depth, self._climbs_to)))
            if self.first_depth > _NEAREST:  # where much lies beyond that depth, only a proof goes far enough
                solved = self._solved(np.array(self.top), loss, -math.inf, 2 * self.first_depth, begun)
                self._guess = loss, solved.sides
                return float(solved.lower.max())
            self._guess = loss, begun
            return loss + (1 + self.look.alike) * float(begun.lower.sum())
        value = self.climb(loss)
        if not nearly:
            return value
        if not self.known or self.width == FINE:
            return value
        if abs(self._farther[0] / loss - 1) > _NEARLY / 10:
            depth, rows = min(self.longest, _FAR // 2 * self.first_depth), self._rows(np.array(self.top), loss)
            assert self._begun is not None
            likely, guess = self._begun.lower, self._begun.mu
            found = climb(
                self.look, rows, own=loss, likely=likely, guess=guess, width=_CLIMB, depth=depth, passes=_FARTHER
            )
            farther = loss + (1 + self.look.alike) * float(found.lower.sum())
            self._farther = loss, max(1.0, farther / value)
        return value * self._farther[1]

    def _choose(self, loss: float) -> tuple[float, Bracket] | None:
        """Take up the row to begin with; given back is a loss nearby, and what a few passes found of the row there.

        Rows are compared at few losses, each for all around it: so the choice depends on nothing that was asked before.
        """
        rung = _RUNGS ** round(math.log(loss, _RUNGS))
        if rung not in self._chosen:
            self._chosen[rung] = self._compared(rung)
        row, found = self._chosen[rung]
        self.top = [row]
        return None if found is None else (rung, found)

    def _compared(self, loss: float) -> tuple[int, Bracket | None]:
        """Of the rows with the steepest slopes the one that a few passes find to leak most, and what they found."""
        slopes, depth = self._slopes.sum(axis=0)[self._order], min(self.longest, self.first_depth, _DEEP)
        near = int((slopes >= (0.8 if self.known else 0.97) * slopes[0]).sum())
        at = self._order[: min(near, _TRIED if self.chain.period == 1 else _TRIED_PHASES)]
        if self._scouted is not None:
            x, y = self._scouted
            pair = np.flatnonzero((self.rows.x == x) & (self.rows.y == y))  # one row at each phase
            step = -(-len(pair) // _TRIED_PHASES)
            some, slopes = pair[::step], self._slopes[:, pair[::step]]
            found = climb(self.look, self._rows(some, loss), own=loss, likely=slopes * loss, width=_ROUGH, depth=depth)
            around = int(found.lower.sum(axis=0).argmax()) * step + np.arange(1 - step, step)
            at = np.union1d(at, pair[around % len(pair)])
        if len(at) == 1:
            return int(at[0]), None
        likely = self._slopes[:, at] * loss
        found = climb(self.look, self._rows(at, loss), own=loss, likely=likely, width=_ROUGH, depth=depth, passes=1)
        leaks = loss + (1 + self.look.alike) * found.lower.sum(axis=0)
        few = np.flatnonzero(leaks >= (1 - _ROUGH) * leaks.max())
        at, begun = at[few], found.pick(few)
        found = climb(
            self.look, self._rows(at, loss), own=loss, likely=begun.lower, begun=begun, width=_ROUGH, depth=depth
        )
        best = int(found.lower.sum(axis=0).argmax())
        return int(at[best]), found.pick(np.array([best]))

    @cached_property
    def _scouted(self) -> tuple[int, int] | None:
        """Where there are very many rows: the worst pair at some phases, at a loss that depends on the chain alone."""
        if self.chain.period == 1 or self.any_start or self.stride > 1 or len(self.rows) <= _SCOUTED:
            return None
        stride = min(-(-len(self.rows) // _SCOUTED), self.chain.period)
        scout = ManyStates(self.chain, self.known, self.length, self.sides, stride)
        found = scout.at(self.likely(1.0))
        return int(scout.rows.x[found.row]), int(scout.rows.y[found.row])

    def _starts(self, at: Ints, loss: float, depth: int | None = None) -> Starts:
        """The side before rows whose first record may have any law."""
        rows = self.rows.pick(at)
        reach = np.full(len(at), min(self.longest, depth or self.first_depth))
        offsets = -rows.offsets[-1] % self.chain.period
        before = Before(self.before, np.array([loss]), offsets, reach, True, rows.x, rows.y)
        return worst_starts(before, self.width, each=False)

    def at(self, loss: float, need: float = -math.inf) -> Found:
        """A bracket; where the leakage is at most ``need`` its upper end may be as large as that."""
        if self.closed_form or self.bounded:
            self.climb(loss)
            return self._bounded(loss)
        solved = self._first_solved(loss, need)
        goal = max(need, float(solved.upper.max()))
        every, last = np.arange(len(self.rows)), np.array(self.top)
        rest = self._not_harmless(every, loss, goal)
        while len(rest) >= _MANY and self._begin_with_worse(rest, loss):
            solved = self._first_solved(loss, need)
            proved, goal = goal, max(need, float(solved.upper.max()))
            # What leaks no more than a smaller goal needs no other proof.
            again = np.full(len(every), goal < proved)
            again[rest] = again[last] = True
            rest = self._not_harmless(np.flatnonzero(again), loss, goal)
            last = np.array(self.top)
        top = np.array(self.top)
        if len(rest) * self._near_depth > _WORK:
            return self._bounded(loss)
        parts = [(top, solved)]
        if len(rest):
            first = self.first_depth if self.width == FINE else _FAR * self.first_depth
            if self.width == FINE or len(rest) > _MANY:
                parts.append((rest, self._solved(rest, loss, goal, FIRST_DEPTH)))
            else:
                parts += [
                    (row, self._solved(row, loss, goal, first))
                    for row in rest[:, None]
                    if not self._leaks_less(row, loss, goal, first)
                ]
            found = [(leaks, int(row)) for some, part in parts[1:] for leaks, row in zip(part.lower, some, strict=True)]
            worse = sorted((one for one in found if one[0] > parts[0][1].lower.max()), reverse=True)
            self.top += [row for _, row in worse[:4]]
        rows, best = max(parts, key=lambda part: float(part[1].lower.max()))
        while self._climbs_to < min(int(best.sides.distance[:, best.lower.argmax()].max()), self.longest):
            self._climbs_to *= 2
        upper = max(goal if len(rest) < len(self.rows) - 1 else 0.0, *(float(part.upper.max()) for _, part in parts))
        row = int(best.lower.argmax())
        return self._found(best, row, int(rows[row]), upper)

    def _leaks_less(self, row: Ints, loss: float, goal: float, first: int) -> bool:
        """Whether a pair is proved to leak less than the goal at all losses nearby: a larger loss leaks no less.

        Such proofs are kept for the next loss of a search. They change how long it takes, not what is found.
        """
        if self.any_start:
            return False
        most, upper = self._proofs.get(int(row[0]), (0.0, math.inf))
        if not (loss <= most and upper <= goal):
            most = loss * (1 + _AROUND)
            upper = float(self._solved(row, most, goal * (1 - _AROUND), first).upper.max())
            self._proofs[int(row[0])] = most, upper
        return upper <= goal

    def _first_solved(self, loss: float, need: float) -> _Totals:
        """Brackets of the rows to begin with: all others are compared with them."""
        depth = 2 * self.first_depth
        if self.width == FINE and self.any_start and not self.top:
            self._begun = self._climbed(loss)
        else:
            self.climb(loss)
        if self.width != FINE:  # known ends far away may say more than was seen so far
            depth = _FAR * self.first_depth
        solved = self._solved(np.array(self.top), loss, need, depth, self._begun)
        self._begun = solved.sides
        return solved

    def _not_harmless(self, rows: Ints, loss: float, goal: float) -> Ints:
        """Some rows without a quick proof, besides those looked at first."""
        looked_at = np.zeros(len(self.rows), dtype=bool)
        looked_at[self.top] = True
        rest = rows[~looked_at[rows]]
        return np.asarray(rest[~self._harmless(rest, loss, goal)])

    def _begin_with_worse(self, rest: Ints, loss: float) -> bool:
        """Whether a few passes find a row that leaks clearly more: then that is looked at first."""
        if self.any_start:
            return False
        most = loss + (1 + self.look.alike) * (0.0 if self._begun is None else float(self._begun.lower.sum()))
        slopes = self._slopes[:, rest].sum(axis=0)
        many = _SOME if self.chain.period == 1 else _SOME * _FEW_STATES // max(self.chain.size, _FEW_STATES)
        some = rest[np.argsort(-slopes, kind="stable")[:many]]
        depth, likely = min(self.longest, FIRST_DEPTH), self._slopes[:, some] * loss
        found = climb(self.look, self._rows(some, loss), own=loss, likely=likely, width=_ROUGH, depth=depth)
        leaks = loss + (1 + self.look.alike) * found.lower.sum(axis=0)
        worst = int(leaks.argmax())
        if leaks[worst] <= most * (1 + _ROUGH / 10):
            return False
        self.top, self._guess = [int(some[worst])], None
        return True

    def _bounded(self, loss: float) -> Found:
        """Where too many pairs of a slow chain have no quick proof: the closed form, with many steps at once."""
        assert self._begun is not None
        begun = self._begun
        lower = loss + (1 + self.look.alike) * begun.lower.sum(axis=0)
        totals = _Totals(lower, lower, begun, None)
        return self._found(totals, 0, self.top[0], self._most(loss))

    def _most(self, loss: float) -> float:
        """What the closed form says of any pair at any phase."""
        return loss + 2 * min(side_bound(loss, log_odds, steps) for steps, log_odds in self._log_odds)

    @cached_property
    def _log_odds(self) -> list[tuple[int, float]]:
        """Numbers of steps, and the largest log odds ratio of so many steps, from whatever phase on.

        More steps have no larger odds ratio: rows of a product are mixtures of the rows of its last part, columns of
        the columns of its first. So blocks need not begin at every phase. Those that begin at every quarter of a block
        lie within all runs of five quarters.
        """
        out, blocks, steps, stride, m = [], self.chain.kernels, 1, 1, self.chain.period
        while steps <= _DEEPEST:
            each = {block.tobytes(): block for block in blocks}
            out.append((steps + stride - 1, max(largest_log_odds(block) for block in each.values())))
            if out[-1][1] <= _FORGOTTEN:
                break
            wider = math.gcd(max(1, 2 * steps // _ALIGNED), m)
            first = np.arange(0, m, wider)
            blocks = blocks[first // stride] @ blocks[(first + steps) % m // stride]
            steps, stride = 2 * steps, wider
        return out

    def reached(self, lane: int, x: int, y: int, added: float) -> float:
        """Log μ at which a side that goes on without end adds so much."""
        far = self.look.far[min(lane, len(self.look.far) - 1)]
        return added - math.log(far[y] / far[x])

    def _solved(self, at: Ints, loss: float, need: float, first: int, begun: Bracket | None = None) -> _Totals:
        """Brackets of some rows."""
        own = np.full(len(at), loss)
        starts = None
        if self.any_start:
            starts = self._starts_to_the_end(at, loss)
            own = own + np.maximum(starts.upper.max(axis=1), starts.beyond)
        sides = solve(
            self.look,
            self._rows(at, loss),
            own=own,
            need=need,
            begun=begun,
            width=self.width,
            first=min(first, self.longest),
            longest=self.longest,
        )
        both = 0 if self.only_starts else 1 + self.look.alike
        lower, upper = loss + both * sides.lower.sum(axis=0), own + both * sides.upper.sum(axis=0)
        if starts is not None:
            lower = lower + starts.lower.max(axis=1)
        return _Totals(lower, upper, sides, starts)

    def _starts_to_the_end(self, at: Ints, loss: float) -> Starts:
        """Records are added until those beyond say no more."""
        depth = self.first_depth
        while True:
            found = self._starts(at, loss, depth)
            most = found.lower.max(axis=1)
            if (found.beyond <= most * (1 + self.width)).all() or depth >= min(self.longest, _DEEP):
                return found
            depth *= 2

    def _found(self, totals: _Totals, row: int, number: int, upper: float) -> Found:
        """Both sides of one row."""
        sides = totals.sides.pick(np.array([row]))
        added, mu, distance, state = sides.lower[:, 0], sides.mu[:, 0], sides.distance[:, 0], sides.state[:, 0]
        law: tuple[tuple[int, float], ...] = ()
        if totals.starts is not None:
            starts = totals.starts
            at = int(starts.lower[row].argmax())
            added, mu = np.array([starts.lower[row, at], added[0]]), np.array([0.0, mu[0]])
            distance, state = np.array([at + 1, distance[0]]), np.array([OPEN_END, state[0]])
            law = _law(starts.values[row, at], float(starts.odds[row, at]))
        elif len(self.lanes) == 1:
            added, mu, distance, state = (np.repeat(added, 2), np.repeat(mu, 2), distance.repeat(2), state.repeat(2))
        return Found(float(totals.lower[row]), upper, number, added, distance, state, mu, law)


@dataclass(frozen=True, eq=False)
class _Totals:
    """Brackets of both sides and the record itself, row by row."""

    lower: Floats
    upper: Floats
    sides: Bracket
    starts: Starts | None


def _most_apart(laws: Floats) -> float:
    """The largest total variation between two of some laws."""
    return max((float(np.abs(laws - law).sum(axis=1).max()) / 2 for law in laws), default=0.0)


def _law(values: Ints, odds: float) -> tuple[tuple[int, float], ...]:
    """Two values and the odds between them, as probabilities."""
    first, second = (int(v) for v in values)
    if first == second or odds == 0:
        return ((first, 1.0),)
    if math.isinf(odds):
        return ((second, 1.0),)
    return (first, 1 / (1 + odds)), (second, odds / (1 + odds))
