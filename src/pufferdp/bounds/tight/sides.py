"""One side of a record: what the records before or after it add, whatever the algorithm and whoever looks.

Fix a target, two of its values x and y, and one end of the unknown records w_1, w_2, … beside it: a known record, or
the end of the series. The most that any algorithm with loss τ_t on record w_t adds is the root in μ of a signed vector:

    α = δ_x − μ δ_y;   at each record  α ← α K_t,  and positive entries of α are multiplied by e^τ_t.

An algorithm reaches N(x)/N(y) ≥ μ exactly when α, weighed with the end, is not negative. What the end says by itself,
z(x)/z(y), is divided out. The vector knows nothing of the end: **one pass at one μ decides every end at once**. For an
end with prior quotient r = z(y)/z(x) it says whether the leakage e^R exceeds μ·r.

- Positive: numerator and denominator at that end are what an algorithm reaches (Dinkelbach's step).
- Otherwise no algorithm reaches μ·r at this end.
- Once no entry is positive none ever will be: the same holds for every end farther away, whose r are mediants of
  those here.

Each pass is made at the μ that decides the end with most to gain, until nothing is left to gain: the result is a
bracket as narrow as wanted. Many rows (target, x, y) are followed at a time, and both sides of each, called lanes:
0 before the target, 1 after it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.bounds.tight.long.jumps import Jumps
from pufferdp.bounds.tight.outlook import (
    LASTING,
    MOST_LOSS,
    OPEN_END,
    Bracket,
    Lasting,
    Outlook,
    Rows,
    chord_root,
    count,
    picked,
    quotient,
    reached_at,
    tends_to,
)

_LARGE: Final = 500.0
"""Leakages beyond this are bounded by group privacy alone."""
_LARGEST_LEVEL: Final = 600.0
"""Passes are made for no more than this, so that its exponential is a number."""
_BLOCK: Final = 32
"""Steps between two looks at the ends."""
FIRST_DEPTH: Final = 32
_PATIENT: Final = 100
"""Passes after which brackets are given out as they are."""
_LEAST: Final = 1e-3
"""Leakages below this are known to a share of it."""
_CLIMBS: Final = 12
_FEW_ROWS: Final = 64
_SLOW: Final = 0.3
"""Where a pass leaves more than this share of a bracket, ends farther away are looked at."""
_DEEP: Final = 512
"""Distance from which on it is worth dropping the μ that nobody asks for any more."""
_FEW_ENDS: Final = 12
"""Ends at one distance, of all rows, up to which twice as many steps are made."""
_FEW_ENTRIES: Final = 1 << 12
"""Rows times entries of a kernel up to which the kernels of some steps are picked at once."""
_MOST_ENTRIES: Final = 1 << 23
"""Of the vectors of one block of steps, of which ``_look`` holds some six copies: with 60 states they took 2.4 GB."""
_SPARSE: Final = 128
"""Where a chain is followed so far that it hardly changes within so many records, lower ends are looked at once in
them: first the best distance is found, then the best end."""
_NEAR: Final = 64
"""Distance up to which every step is looked at by itself: questions change there."""
_NARROWS: Final = 4
"""Blocks of steps are no longer than the distance to the target over this."""
_CELLS: Final = 128
"""Parts of a block whose ends are bounded together."""
_WALKED: Final = 512
"""Steps at once where each is looked at."""
_ROUGHLY: Final = 1
"""So many passes look at ends far away in blocks, before each that is left is looked at by itself."""
_OFTEN: Final = 1e4
"""Gains beyond this are scaled back after every step."""
_WITHIN: Final = 0.3
"""A side may keep half of what is left open. Where very many ends lie on chords, these need some of it."""
_LARGEST_LOG: Final = 700.0
"""No larger μ is asked for: its exponential would be no number. Any μ may be asked for."""
_CHORD: Final = 1e-14
"""Room for the rounding of a chord."""
_PROBES: Final = 8
"""Ends that a pass is aimed at, over all rows."""
_CHORDS: Final = 24
"""μ between which the open ends of one row lie."""
_SAMPLE: Final = 4096
_SHARES: Final = np.array([0.0, 1e-6, 1e-4, 1e-2, 0.1, 0.5])
"""Where between its bounds the tail is tried."""
_NEXT: Final = np.array([0.003, 0.01, 0.03, 0.06, 0.12, 0.25, 0.5])
"""What a pass gains, as shares of what the pass before it gained."""
_AROUND: Final = np.array([0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.05, 0.2, -1e-5, -1e-4, -1e-3, -1e-2, -0.05, -0.2])
"""And around what is expected, as shares of it."""
_FEW_STATES: Final = 16
"""Where there are more states each μ is costly."""
_AT_ONCE: Final = 2_000_000
"""Ends in a table, so that memory stays bounded."""
_ROOMS: Final = 4
"""Brackets are no narrower than so many times the room for rounding: what is left could not be decided."""
_ROUNDING: Final = 80 * 2.0**-53
"""More than the rounding of one step, as a share of the quotient."""


def solve(
    look: Outlook,
    rows: Rows,
    *,
    own: Floats | float = 0.0,
    need: Floats | float = -math.inf,
    guess: Floats | None = None,
    begun: Bracket | None = None,
    lasting: Lasting | None = None,
    width: float = 1e-10,
    first: int = FIRST_DEPTH,
    longest: int = 1 << 17,
) -> Bracket:
    """Brackets of both sides of every row.

    A row is followed until its leakage, own loss included, is known to a share ``width`` of it, or is proved to be at
    most ``need``. Ends farther than ``longest`` are not looked at: the upper end is then what group privacy says.

    Args:
        look: kernels and ends.
        rows: targets and pairs of values.
        own: the loss of each target.
        need: leakages that nobody has to know better than that.
        guess: (2, R) log μ that the first pass is made at; 0: none.
        begun: lower ends that were reached before.
        lasting: algorithms that are tried behind every record.
        width: of the bracket, as a share.
        first: distance that is looked at first; it is doubled as long as ends farther away matter.
        longest: distance.
    """
    n = len(rows)
    shape, out = (look.lanes, n), _empty(look.lanes, n) if begun is None else begun.copy()
    own, need = np.broadcast_to(np.asarray(own, float), n), np.broadcast_to(np.asarray(need, float), n)
    guess = np.zeros(shape) if guess is None else guess
    left, depth = np.arange(n), first
    while len(left):
        records = rows.records[:, left]
        depth = max(1, min(depth, longest, int(records.max()) if (records >= 0).all() else longest))
        size = max(1, _AT_ONCE // (2 * depth * (look.size + 1)))
        later: list[Ints] = []
        for low in range(0, len(left), size):
            at = left[low : low + size]
            search = _Search(look, rows.pick(at), lasting, at, depth, out)
            later.append(search.settle(own[at], need[at], guess[:, at], width, depth == longest))
        left = np.concatenate(later)
        depth, guess = 2 * depth, np.zeros(shape)
    _add_cut_losses(out, rows)
    return out


def climb(
    look: Outlook,
    rows: Rows,
    *,
    own: float,
    likely: Floats,
    guess: Floats | None = None,
    begun: Bracket | None = None,
    asked: Mask | None = None,
    width: float,
    depth: int,
    passes: int = _CLIMBS,
) -> Bracket:
    """Lower ends only, without a proof: what a search for the right loss needs.

    Args:
        look: kernels and ends.
        rows: targets and pairs of values.
        own: the loss of each target.
        likely: (lanes, R) logs of what sides are expected to add: the first pass is made around them.
        guess: (lanes, R) log μ that the first pass is made at too.
        begun: lower ends that were reached before.
        asked: (lanes, R, 2, k) questions that were found to last, at another loss.
        width: gains that end the search, as a share.
        depth: distance that is looked at.
        passes: so many at most.
    """
    n = len(rows)
    out = _empty(look.lanes, n) if begun is None else begun.copy()
    out.asked = asked if begun is None else begun.asked
    search = _Search(look, rows, None, np.arange(n), depth, out)
    search.climb(np.full(n, own), likely, np.zeros((look.lanes, n)) if guess is None else guess, width, passes)
    search.write(np.ones(n, dtype=bool))
    return out


def _empty(lanes: int, n: int) -> Bracket:
    shape = (lanes, n)
    ends = (np.zeros(shape, dtype=np.int64), np.full(shape, OPEN_END, dtype=np.int64))
    return Bracket(np.zeros(shape), np.zeros(shape), *ends, np.zeros(shape))


class _Search:
    """Bounds on every end of some rows while passes are made: quotients, not logs."""

    def __init__(self, look: Outlook, rows: Rows, lasting: Lasting | None, at: Ints, depth: int, out: Bracket) -> None:
        self.look, self.rows, self.lasting, self.at, self.depth, self.out = look, rows, lasting, at, depth, out
        self.copies = 1 + look.alike
        self.best = np.exp(out.lower[:, at])
        self.ratio, self.beyond, lost = look.priors(rows, depth)
        losses = rows.losses_at(depth)
        self.gains = np.exp(np.minimum(losses, MOST_LOSS))
        group = np.exp(np.minimum(np.cumsum(losses, axis=2), _LARGE))[..., None]  # group privacy: no end adds more
        self.open = np.where(self.ratio > 0, group, 0.0)
        if look.known:  # a known record adds nothing itself
            self.open[:, :, 0, :-1] = np.minimum(self.open[:, :, 0, :-1], 1.0)
            self.open[:, :, 1:, :-1] = np.minimum(self.open[:, :, 1:, :-1], group[:, :, :-1])
        whole = np.exp(np.minimum(rows.spent(), _LARGE))
        inside = (rows.records >= 0) & (rows.records <= depth)
        self.last = self.gains
        if look.last_loss is not None:
            self.last = np.broadcast_to(np.exp(look.last_loss)[:, None, None], self.gains.shape)
            self.open[..., -1] *= np.exp(np.maximum(look.last_loss[:, None, None] - losses, 0.0)) * (
                self.ratio[..., -1] > 0
            )
            whole = whole * np.exp(look.last_loss)[:, None]
        elif look.anywhere and look.plain:  # a longer series says no less: the tail stands for all of them
            self.open[..., -1] *= inside[..., None]
        self.tail = np.where(inside, 0.0, whole)
        self.lost = np.where(lost < depth, whole, 0.0)
        self.cycles = look.slowest(rows, depth) if lasting is None and len(rows) <= _FEW_ROWS else None
        self.repeated: Mask | None = None
        self.jumps = self._jumps() if len(rows) == 1 and depth >= _DEEP else None
        self.proves = True
        """Whether upper ends are asked for too."""
        self.gained = np.zeros(self.best.shape)
        """What the last pass raised the lower ends by, in logs."""
        if out.asked is not None and lasting is None and len(rows) <= _FEW_ROWS:
            self._add_cycles(out.asked[:, at])
        self.prior = np.full(self.best.shape, np.inf)
        """What the ends behind lower ends say by themselves, in logs; not where lasting questions are to be found."""

    def settle(self, own: Floats, need: Floats, guess: Floats, width: float, last: bool) -> Ints:
        """Make passes until every row is settled; rows that depend on ends farther away are given back."""
        later, rounds = [np.empty(0, dtype=np.int64)], 0
        room = self.copies * self.look.lanes * self._room
        need = need - room  # upper ends are given room for rounding
        while len(self.at):
            top, rounds = self._top(), rounds + 1
            lower = np.log(self.best)
            value = own + self.copies * lower.sum(axis=0)
            enough = np.maximum(np.maximum(width * np.maximum(value, _LEAST), _ROOMS * room), need - value)
            done = self.copies * (np.log(top) - lower).sum(axis=0) <= enough
            if done.any() or rounds > _PATIENT:
                done |= rounds > _PATIENT
                self.write(done)
                own, need, guess = own[~done], need[~done], guess[:, ~done]
                continue
            level = np.exp(np.minimum(lower + (0.49 if self.depth < _SAMPLE else _WITHIN) * enough, _LARGEST_LEVEL))
            far = self.tail > level
            self._pass(self._aim(level, guess, self._spread(level, _SHARES)), level, rounds <= _ROUGHLY)
            # Undecided at this depth: nothing was reached there, or too little was gained on either end.
            before = np.minimum(np.log(top) - lower, 1.0)
            slow = np.log(np.maximum(self.tail, self.best) / self.best) > _SLOW * before
            short = (far & (self.tail > level) & ((self.best <= level) | slow)).any(axis=0)
            guess = np.zeros_like(guess)
            if short.any():
                if not last:
                    later.append(self.at[short])
                self.write(short)
                own, need, guess = own[~short], need[~short], guess[:, ~short]
        return np.concatenate(later)

    def climb(self, own: Floats, likely: Floats, guess: Floats, width: float, passes: int) -> None:
        """Make passes while they raise the lower ends."""
        self.proves, few, gained = False, self.look.known or self.look.size > _FEW_STATES, own
        for n in range(passes):
            logs = np.log(self.best)
            lower = self.copies * logs.sum(axis=0)
            level = logs + 0.25 * width * (own + lower)
            if n == 0:
                level = np.maximum(level, likely)
                spread = level[..., None] * (_AROUND[:1] if few else _AROUND)
                aim = self._aim(np.exp(np.minimum(level, _LARGEST_LEVEL)), guess, spread)
            else:
                level = np.exp(np.minimum(level, _LARGEST_LEVEL))
                aim = self._aim(level, np.zeros_like(guess), self._spread(level, _SHARES[:1] if few else _SHARES))
            self._pass(aim)
            # What is left is as small as the square of Newton's step, or goes on falling as what passes gain does.
            step = np.abs((np.log(self.best) - self.prior)[..., None] - aim).min(axis=2)
            step = self.copies * step.sum(axis=0)
            before, gained = gained, self.copies * np.log(self.best).sum(axis=0) - lower
            left = gained * np.minimum(1.0, quotient(gained, before - gained)) if n > 1 else gained if n else step
            if (np.minimum(left, step) <= width * (own + lower)).all():
                break
        self.out.asked, self.out.prior = self.repeated, self.prior

    @property
    def _room(self) -> float:
        """For the rounding of a pass."""
        return _ROUNDING * (self.depth + self.look.size)

    def _top(self) -> Floats:
        return np.asarray(np.maximum(np.maximum(self.best, self.open.max(axis=(2, 3))), self.tail))

    def _spread(self, level: Floats, shares: Floats) -> Floats:
        """Where above the level the tail may be decided, in logs: (lanes, R, some).

        Between its bounds, and where the next pass is likely to end: each gains a small share of what the last did.
        """
        far = self.tail > level
        if not far.any():
            return np.zeros((*level.shape, 1))
        span = np.where(far, np.minimum(np.log(np.maximum(self.tail, level) / level), 1.0), 0.0)
        parts = [span[..., None] * shares]
        if len(shares) > 1:
            parts.append(np.minimum(self.gained, span)[..., None] * _NEXT)
        return np.concatenate(parts, axis=2)

    def _aim(self, level: Floats, guess: Floats, spread: Floats) -> Floats:
        """Log μ to try, rising, (lanes, R, G): some at which the tail may be decided, others at which open ends may."""
        with np.errstate(divide="ignore"):
            first = np.log(level / np.where(self.tail > level, self.beyond, 1.0))[..., None]
        logs = [np.where(guess != 0, guess, first[..., 0])[..., None], first + spread]
        if self.open.any():
            logs.extend(self._ends_to_try(level))
        return np.sort(np.concatenate(logs, axis=2), axis=2)

    def _ends_to_try(self, level: Floats) -> list[Floats]:
        """The ends with most to gain at what they may still reach; and the level at all others.

        What ends say by themselves fades geometrically with their distance: so do the steps between the μ tried.
        """
        ends, ratio = (table.reshape(*level.shape, -1) for table in (self.open, self.ratio))
        many = min(ends.shape[2], max(2, _PROBES // len(self.at)))
        at = np.argpartition(ends, -many, axis=2)[:, :, -many:]
        worth, prior = (np.take_along_axis(table, at, axis=2) for table in (ends, ratio))
        undecided = worth > level[..., None]
        logs = [
            np.log(
                np.where(
                    undecided, np.minimum(worth, level[..., None]) / np.where(prior > 0, prior, 1.0), level[..., None]
                )
            )
        ]
        if len(self.at) == 1 and self.depth >= _SAMPLE:
            # Signed weights are convex in μ: where most ends are open, chords must be shortest.
            chords = _CHORDS if self.proves else _PROBES
            spread = np.empty((*level.shape, chords))
            for lane, wanted in enumerate(level[:, 0]):
                asked = ratio[lane, 0][ends[lane, 0] > wanted]
                some = np.log(asked[:: 1 + len(asked) // _SAMPLE]) if len(asked) else np.zeros(1)
                spread[lane, 0] = math.log(wanted) - np.quantile(some, np.linspace(0.0, 1.0, chords))
            logs.append(spread)
        elif many < ends.shape[2]:
            priors = np.where(ends > level[..., None], np.log(np.where(ratio > 0, ratio, 1.0)), 0.0)
            for way in (priors, -priors):
                with np.errstate(divide="ignore"):
                    high = np.log(np.maximum(way.max(axis=2), 0.0))
                    low = np.log(np.where(way > 0, way, np.inf).min(axis=2))
                some = np.isfinite(high)
                high, low = (np.where(some, part, 0.0)[..., None] for part in (high, low))
                spread = np.exp(high + (low - high) * np.linspace(0.0, 1.0, many)) * some[..., None]
                logs.append(np.log(level)[..., None] - (spread if way is priors else -spread))
        return logs

    def _pass(self, logs: Floats, level: Floats | None = None, roughly: bool = True) -> None:
        """Follow the signed vectors of all rows at these μ, rising in each row, as far as ends are above the level.

        Where it is done ``roughly`` ends far away are looked at in blocks.
        """
        logs, before = np.minimum(logs, _LARGEST_LOG), self.best.copy()
        rows, mu, k = self.rows, np.exp(logs), self.look.size
        run, d = np.arange(len(rows)), 0
        vectors = np.zeros((*logs.shape, 2, k))
        scale = np.exp(-np.maximum(logs[:, :, -1:], 0.0))
        vectors[:, run, :, 0, rows.x] += scale.swapaxes(0, 1)
        vectors[:, run, :, 0, rows.y] -= (mu * scale).swapaxes(0, 1)
        vectors[:, run, :, 1, rows.y] = (mu * scale).swapaxes(0, 1)
        sizes = np.zeros(
            logs.shape
        )  # logs: each vector has a scale of its own, so that none is lost beside a larger one
        dying = np.full(self.best.shape, np.inf)  # the smallest μ without positive entries
        signs = np.zeros((self.look.lanes, len(rows), 2, k), dtype=bool)
        depth = self.depth
        if level is not None and not (self.tail > level).any():  # beyond the last open end nothing is asked
            depth = int(np.max(np.flatnonzero((self.open > level[..., None, None]).any(axis=(0, 1, 3))), initial=0)) + 1
        lowest = self._lowest(self.best if level is None else level) if len(rows) == 1 and depth >= _DEEP else None
        block = _BLOCK if self.ratio[0, :, 0].size > _FEW_ENDS else 2 * _BLOCK
        while block > 1 and block * vectors.size > _MOST_ENTRIES:
            block //= 2
        follows = len(rows) <= _FEW_ROWS and self.lasting is None and self.look.steady(rows)
        while d < depth and len(run):
            steps, far = (min(block, depth - d), False) if self.jumps is None else self._ahead(d, depth, level, roughly)
            if far:
                scales = sizes[None].copy()
                seen, lines = self._jump(vectors, sizes, steps)
                if d < _SAMPLE or steps >= _SPARSE or d % _SPARSE == 0 or d + steps == depth:
                    self._look(seen, scales, run, d + steps - 1, logs)
                self._bound_block(lines, scales[0], slice(d, d + steps), logs)
            else:
                seen, scales = self._walk(vectors, sizes, run, d, steps)
                self._look(seen, scales, run, d, logs[:, run])
            d += steps
            if follows and (d < _DEEP or d % _DEEP == 0 or d == depth):
                _last_signs(seen[..., 0, :], signs, run)
            dead: Mask = np.asarray((vectors[..., 0, :] <= 0).all(axis=3))  # what is no number proves nothing
            over = dead.all(axis=(0, 2))
            if over.any() or d == depth:
                gone = run[over]
                dying[:, run] = np.where(dead, mu[:, run], np.inf).min(axis=2)
                least = mu[:, gone, :1, None]
                self.open[:, gone, d:] = np.minimum(self.open[:, gone, d:], least * self.ratio[:, gone, d:])
                run, vectors, sizes = run[~over], vectors[:, ~over], sizes[:, ~over]
            elif lowest is not None:
                keep = _still_asked(dead, logs, lowest[:, d])
                if not keep.all():
                    vectors, sizes, logs, mu = (part[:, :, keep] for part in (vectors, sizes, logs, mu))
        with np.errstate(invalid="ignore", over="ignore"):
            self.tail = np.where(np.isfinite(dying), np.minimum(self.tail, dying * self.beyond), self.tail)
        self.gained = np.log(self.best / before)
        if signs.any() and not (self.repeated is not None and np.array_equal(signs, self.repeated)):
            self._add_cycles(signs)

    def _lowest(self, level: Floats) -> Floats:
        """The smallest log μ that ends beyond each distance, or the tail, ask for: one row, (lanes, depth)."""
        ends = self.open[:, 0] > level[:, :, None]
        with np.errstate(divide="ignore"):
            asked = np.where(ends, np.log(level)[:, :, None] - np.log(self.ratio[:, 0]), np.inf).min(axis=2)
            tail = np.where(self.tail > level, np.log(level) - np.log(self.beyond), np.inf)
        return np.minimum(np.minimum.accumulate(asked[:, ::-1], axis=1)[:, ::-1], tail)

    def _jumps(self) -> list[Jumps] | None:
        """For one row and one kernel: many steps at once; None where that cannot be done."""
        if not self.look.steady(self.rows) or self.lasting is not None or self.look.last_loss is not None:
            return None
        found = [self.look.jumps(lane, float(self.gains[lane, 0, 0])) for lane in range(self.look.lanes)]
        return found if all(jumps.longest for jumps in found) else None

    def _ahead(self, d: int, depth: int, level: Floats | None, roughly: bool) -> tuple[int, bool]:
        """How many steps to make behind a distance, and whether the ends there need no look at each of them."""
        assert self.jumps is not None
        block = min(jumps.longest for jumps in self.jumps)
        while block > _BLOCK and block > d // _NARROWS:  # questions change near the target
            block //= 2
        steps = min(block, depth - d)
        here = self.open[:, 0, d : d + steps]
        if d < _NEAR or steps < _BLOCK or here[..., -1].any():
            return min(_BLOCK, depth - d), False
        if not self.look.known or (roughly and self.depth >= _SAMPLE):
            return steps, True
        if level is None:
            return min(steps, _WALKED), False
        asked: Mask = np.asarray((here > level[:, 0, None, None]).any(axis=(0, 2)))
        first = int(asked.argmax()) if asked.any() else steps
        if first >= _BLOCK:  # as many as are a power of two: powers of kernels are kept
            return steps if first == steps else 1 << first.bit_length() - 1, True
        last = len(asked) - int(asked[::-1].argmax())
        return min(steps, _WALKED, max(_BLOCK, 1 << (last - 1).bit_length())), False

    def _jump(self, vectors: Floats, sizes: Floats, steps: int) -> tuple[Floats, Floats]:
        """A block of steps of one row: the last one as if it were the only one, and lines above all signed weights.

        The vectors are moved on.
        """
        assert self.jumps is not None
        seen, lines = np.empty((1, *vectors.shape)), np.empty((2, *vectors.shape[:3], self.look.size))
        for lane, jumps in enumerate(self.jumps):
            seen[0, lane, 0], lines[:, lane, 0] = jumps.walk(vectors[lane, 0], steps)
            vectors[lane, 0] = jumps.gained(seen[0, lane, 0])
        self._rescale(vectors, sizes)
        return seen, lines

    @staticmethod
    def _rescale(vectors: Floats, sizes: Floats) -> None:
        largest = np.abs(vectors).max(axis=(3, 4))
        largest[largest == 0] = 1.0
        vectors /= largest[..., None, None]
        sizes += np.log(largest)

    def _bound_block(self, lines: Floats, sizes: Floats, part: slice, logs: Floats) -> None:
        """Bounds on all known ends of a block, from lines above signed weights within it: (2, lanes, 1, G, k).

        Some ends at a time, each line taken where it is larger.
        """
        if not self.look.known or not (self.open[:, :, part, :-1] > self.best[..., None, None]).any():
            return
        steps = part.stop - part.start
        cells = min(_CELLS, steps)
        knots = (
            lines[0, :, :, :, None] + (lines[1] - lines[0])[:, :, :, None] * np.linspace(0.0, 1.0, cells + 1)[:, None]
        )
        most = np.maximum(knots[..., 1:, :], knots[..., :-1, :])  # (lanes, 1, G, cells, k)
        # They fall with μ and are convex: the chord between two μ lies above.
        turn, mu = count(most > 0, axis=2), np.exp(logs)
        pair = np.maximum(turn - 1, 0), np.minimum(turn, logs.shape[2] - 1)
        weights, size, tried = ([picked(table, at) for at in pair] for table in (most, sizes, mu))
        root = chord_root((weights[0], weights[1]), (size[0], size[1]), (tried[0], tried[1]))
        cell = np.minimum(np.arange(steps) * cells // max(steps - 1, 1), cells - 1)
        with np.errstate(invalid="ignore", over="ignore"):
            bounds = (root * (1 + _CHORD))[:, :, cell] * self.ratio[:, :, part, :-1]
        here = self.open[:, :, part, :-1]
        self.open[:, :, part, :-1] = np.minimum(here, np.where(np.isnan(bounds), np.inf, bounds))

    def _walk(self, vectors: Floats, sizes: Floats, run: Ints, d: int, steps: int) -> tuple[Floats, Floats]:
        """Some steps; what the vectors are before each gain, and logs of their scales. The vectors are moved on."""
        k = self.look.size
        seen, scales = np.empty((steps, *vectors.shape)), np.empty((steps, *sizes.shape))
        if self.jumps is not None:
            scales[:] = sizes
            for lane, jumps in enumerate(self.jumps):
                seen[:, lane, 0] = np.moveaxis(jumps.every(vectors[lane, 0], steps), 2, 0)
                vectors[lane, 0] = jumps.gained(seen[-1, lane, 0])
            self._rescale(vectors, sizes)
            return seen, scales
        offsets = self.rows.offsets[:, run]
        gains = self.gains[:, run, d : d + steps].transpose(2, 0, 1)[..., None, None, None]
        often = bool((gains > _OFTEN).any())
        scales[:] = sizes
        same, kernels = self.look.kernels.shape[1] == 1, self.look.kernels
        shape = (len(kernels), 1 if same else len(run), -1, k)
        # Of few rows all kernels are picked at once.
        ahead = None if same or len(run) * k**2 > _FEW_ENTRIES else self.look.kernels_ahead(offsets, d, steps)
        for j in range(steps):
            if not same:
                kernels = self.look.kernels_at(offsets, d + j + 1) if ahead is None else ahead[j]
            np.matmul(vectors.reshape(shape), kernels, out=seen[j].reshape(shape))
            np.multiply(seen[j], np.where(seen[j, ..., :1, :] > 0, gains[j], 1.0), out=vectors)
            if often or j + 1 == steps:
                self._rescale(vectors, sizes)
                scales[j + 1 :] = sizes
        return seen, scales

    def _look(self, seen: Floats, scales: Floats, run: Ints, d: int, logs: Floats) -> None:
        """What the vectors say of every end at the distances just passed."""
        part = slice(d, d + len(seen))
        here, ratio = self.open[:, run, part], self.ratio[:, run, part]
        if self.look.known and d and not (here > self.best[:, run, None, None]).any():
            return
        # Signed vectors and those below, (2, lanes, R, G, steps, k), each in one piece: what follows is faster then.
        both = np.ascontiguousarray(seen.transpose(4, 1, 2, 3, 0, 5))
        # Far away lower ends that lasting questions reach too need no look at every record.
        sparse = self.depth >= _DEEP and self.look.known and not here[..., -1].any()
        some = slice(-1, None) if sparse else slice(None)
        gain = np.where(both[0, ..., some, :] > 0, self.gains[:, run, None, part, None][..., some, :], 1.0)
        after, tables = both[..., some, :] * gain, both
        if sparse:
            here, ratio = here[..., :-1], ratio[..., :-1]
        else:
            asked = after
            if self.look.last_loss is not None:
                asked = both * np.where(both[0] > 0, self.last[:, run, None, part, None], 1.0)
            flat = asked.reshape(2, self.look.lanes, -1, self.look.size)
            ends = (flat @ self.look.end[:, :, None]).reshape(*asked.shape[:-1], 1)
            tables = np.concatenate([both, ends], axis=5) if self.look.known else ends
        signed, below = tables
        # The signed weight of an end falls with μ and is convex: where its sign changes, the chord lies above.
        turn, mu = count(signed > 0, axis=2), np.exp(logs)
        pair = np.maximum(turn - 1, 0), np.minimum(turn, logs.shape[2] - 1)
        values, tried = [picked(signed, at) for at in pair], [picked(mu, at) for at in pair]
        for value, at, mu_tried in zip(values, pair, tried, strict=True):
            with np.errstate(over="ignore"):
                limit = mu_tried * ratio
            self._better(reached_at(value, picked(below, at), limit), limit, at, run, d, logs)
        if here.any():  # ends that are bounded already cannot become better
            size = [picked(np.moveaxis(scales, 0, 3), at) for at in pair]
            root = chord_root((values[0], values[1]), (size[0], size[1]), (tried[0], tried[1]))
            with np.errstate(invalid="ignore", over="ignore"):
                bounds = root * (1 + _CHORD) * ratio
                bounds = np.where(np.isnan(bounds), np.inf, bounds)
            self.open[:, run, part, : here.shape[3]] = np.minimum(here, bounds)
        weights = self._weights(run, d + 1, len(seen))
        if weights is not None:
            weights = weights[:, :, :, some] if weights.shape[3] > 1 else weights
            if weights.shape[3] == 1:  # the same behind every step: one product
                flat = after.reshape(*after.shape[:3], -1, self.look.size) @ weights[:, :, 0, 0]
                value, base = flat.reshape(*after.shape[:-1], -1)
            else:
                value, base = (after[..., None, :] @ weights)[..., 0, :]
            far = self.look.far
            prior = far[:, self.rows.y[run]] / far[:, self.rows.x[run]]
            records = self.rows.records[:, run, None, None]
            distance = np.arange(d + 1, d + 1 + len(seen))[some]
            limit = (mu * prior[..., None])[..., None, None]
            reached = reached_at(value, base, limit)
            if (records >= 0).any():
                reached *= ((records < 0) | (distance <= records))[..., None]
            self._better(reached, limit, None, run, int(distance[0]) - 1, logs)

    def _weights(self, run: Ints, distance: int, steps: int) -> Floats | None:
        """Weights of lasting questions behind each step, (2, R, 1, steps or 1, k, q)."""
        if self.lasting is not None:
            return self.lasting.at(self.rows.offsets[:, run], distance, steps)[:, :, None]
        return None if self.cycles is None else self.cycles[:, run, None, None]

    def _add_cycles(self, signs: Mask) -> None:
        """Weights of algorithms that repeat the last two questions for ever join those of the slowest mode."""
        self.repeated = signs
        once, twice = (
            self.look.kernels * np.where(signs[:, :, i, None], self.gains[:, :, :1, None], 1.0) for i in (0, 1)
        )
        times = self.look.times(self.depth, 2)
        rounds = np.stack([once @ twice, twice @ once])
        new = np.moveaxis(tends_to(rounds, times, self.look.far[:, None]), 0, -1)
        self.cycles = new if self.cycles is None else np.concatenate([self.cycles[..., :2], new], axis=-1)

    def _better(self, reached: Floats, limit: Floats, probe: Ints | None, run: Ints, d: int, logs: Floats) -> None:
        """Keep what is larger than anything reached before: of ends at one μ each, of lasting questions at all."""
        flat = reached.reshape(*logs.shape[:2], -1)
        at = flat.argmax(axis=2)
        most = np.take_along_axis(flat, at[..., None], axis=2)[..., 0]
        lanes, rows = np.nonzero(most > self.best[:, run])
        if not len(rows):
            return
        *other, where, column = np.unravel_index(at[lanes, rows], reached.shape[2:])
        tried = other[0] if probe is None else probe[lanes, rows, where, column]
        self.best[lanes, run[rows]] = most[lanes, rows]
        asked = limit[lanes, rows, tried, 0, 0] if probe is None else limit[lanes, rows, where, column]
        told = probe is not None or self.repeated is not None
        self.prior[lanes, run[rows]] = np.log(asked) - logs[lanes, rows, tried] if told else np.inf
        to = self.at[run[rows]]
        self.out.distance[lanes, to] = d + 1 + where
        known = np.where(column == self.ratio.shape[3] - 1, OPEN_END, column)
        self.out.state[lanes, to] = LASTING if probe is None else known
        self.out.mu[lanes, to] = logs[lanes, rows, tried]

    def write(self, done: Mask) -> None:
        """Give out the brackets of settled rows and forget these rows."""
        at, top, group = self.at[done], self._top()[:, done], self.rows.spent()[:, done]
        self.out.lower[:, at] = np.log(self.best[:, done])
        upper = np.log(np.maximum(top, self.lost[:, done])) + self._room
        if self.look.last_loss is not None:
            group = group + self.look.last_loss[:, None]
        self.out.upper[:, at] = np.where(upper < _LARGE - 1, np.minimum(upper, group), group)
        keep = ~done
        self.rows, self.at = self.rows.pick(keep), self.at[keep]
        self.best, self.tail, self.lost, self.beyond, self.gained, self.prior = (
            part[:, keep] for part in (self.best, self.tail, self.lost, self.beyond, self.gained, self.prior)
        )
        self.ratio, self.open, self.gains, self.last = (
            part[:, keep] for part in (self.ratio, self.open, self.gains, self.last)
        )
        self.cycles = None if self.cycles is None else self.cycles[:, keep]


def _still_asked(dead: Mask, logs: Floats, lowest: Floats) -> Mask:
    """Which μ of one row still matter: above what is asked for or next to it, up to the first without positive entries.

    Whatever is dropped proves less, never more.
    """
    last = np.ones((len(logs), 1), dtype=bool)
    low = np.concatenate([(logs[:, 0, 1:] <= lowest[:, None]) & ~dead[:, 0, 1:], ~last], axis=1)
    high = np.concatenate([~last, dead[:, 0, 1:] & dead[:, 0, :-1]], axis=1)
    return np.asarray(~(low | high).all(axis=0))


def _last_signs(signed: Floats, signs: Mask, run: Ints) -> None:
    """Keep the questions of the last two steps at which some vector still had both signs: (steps, lanes, R, G, k)."""
    asked = signed > 0
    # Positive entries of each vector, some and not all: none is 0 as long as records matter.
    many = asked @ np.ones(signed.shape[-1], dtype=np.int8)
    both = ((many > 0) & (many < signed.shape[-1])).transpose(1, 2, 0, 3)  # (lanes, R, steps, probes)
    flat = both.reshape(*both.shape[:2], -1)
    last = flat.shape[2] - 1 - flat[:, :, ::-1].argmax(axis=2)
    for lane, row in zip(*np.nonzero(flat.any(axis=2)), strict=True):
        step, probe = divmod(int(last[lane, row]), both.shape[3])
        signs[lane, run[row], 1] = asked[step, lane, row, probe]
        signs[lane, run[row], 0] = asked[max(step - 1, 0), lane, row, probe]


def _add_cut_losses(out: Bracket, rows: Rows) -> None:
    """A record that spends more than the passes could count adds the rest at most."""
    if (rows.losses <= MOST_LOSS).all():
        return
    rest = replace(rows, losses=np.maximum(rows.losses - MOST_LOSS, 0.0))
    out.upper[:] = np.minimum(out.upper + rest.spent(), rows.spent())
