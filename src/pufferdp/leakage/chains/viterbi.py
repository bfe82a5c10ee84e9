"""The best whole path through a hidden chain (Viterbi), fast without a compiler; and many short series at once.

Three ways, each of them exact:

- Few states: what leads from state to state is multiplied, with largest sums in place of sums of products, pair by pair
  in a tree. That costs the same for every chain.
- More states: blocks of records are passed side by side as if nothing came before them, and mended where something did.
- Chains that hardly ever leave a state forget too late for blocks. But a path that stays weighs a cumulative sum, so
  that all first moves in a window are found at once; then all second ones, as long as there are any.

Outputs have few values. So for trees and blocks a few records are one place, and what leads over it is in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Matrix, Vector
from pufferdp.basics.errors import DataError
from pufferdp.leakage.chains.forward_backward import Codes

_FEW_STATES: Final = 7
"""So many states are multiplied in trees: k cubed sums a product, where a step of a block needs k squared."""
_TABLE: Final = 2**19
"""Numbers in a table of what leads over a place, at most."""
_REUSED: Final = 3
"""Places that an entry of such a table saves, at least, if all are used equally often."""
_TREES: Final = 16
"""The series is cut into so many trees, at least: the last one is filled up."""
_TOGETHER: Final = 2**15
_WIDTH: Final = 512
"""Entries of products that are made together, what is in the cache; and places, at least."""

_MEMORY: Final = 200
"""Records after which many chains have forgotten where they began."""
_STEP: Final = 3000
"""A step takes as long as so many of its sums."""
_SIDE_BY_SIDE: Final = 2**15
"""Sums of a step, at most: what is in the cache."""
_LEVEL: Final = 144
"""Weights are levelled, and compared, at about every such record."""
_TRACED: Final = 12
"""Bits below a unit, for the last states on a path."""
_RULED_OUT: Final = -(2**60)
"""Weights up to this are those of states that cannot be."""
_FEWER: Final = 0.75
"""Blocks are too short when more of them than this are wrong after another turn."""
_LONGER: Final = 4
"""How many times as long they become then."""
_BEFORE_WINDOWS: Final = 2
"""So many lengths of blocks are tried before windows."""

_RARE: Final = 1e-4
"""Chains that leave no state more often than this are passed in windows first."""
_WINDOW: Final = 512
_WINDOWS: Final = (64, 2048)
"""Records of the first window, and of the shortest and the longest one."""
_ROUNDS: Final = (2, 4, 12)
"""Moves in a window after which the next is longer, those after which it is shorter, and those that are too many."""

States = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int8 | np.int16]
Whole = npt.NDArray[np.int64]


def best_path(outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> States:
    """The most probable series of states given all outputs. ``start`` is the law of the first record."""
    if len(outputs) == 0:
        return np.zeros(0, dtype=np.intp)
    codes = np.asarray(outputs, dtype=np.intp)
    with np.errstate(divide="ignore"):
        model = np.log(start), np.log(transition), np.log(channel)
    if len(transition) <= _FEW_STATES:
        return _by_trees(codes, *model)
    positive = all(np.isfinite(table).all() for table in model)
    rare = positive and float(np.diagonal(transition).min()) > 1 - _RARE
    path = _by_windows(codes, *model) if rare else None
    tried = 0
    while path is None:
        path = _by_blocks(codes, *model, longer=_LONGER**tried)  # a single block is always right
        tried += 1
        if path is None and tried == _BEFORE_WINDOWS and positive and not rare:
            path = _by_windows(codes, *model)
    return path


def path_log_probability(path: Codes, outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> float:
    """Log P(path and outputs)."""
    with np.errstate(divide="ignore"):
        moves, says = np.log(transition)[path[:-1], path[1:]], np.log(channel)[path, outputs]
        return float(np.log(start)[path[0]] + moves.sum() + says.sum())


@contextmanager
def _without_buffers() -> Iterator[None]:
    """So small a buffer is not used by numpy, which else copies into it whatever is broadcast."""
    with np.errstate():  # restores the size of the buffer
        np.setbufsize(16)
        yield


def _impossible() -> DataError:
    return DataError("the series cannot come from this model: an output it rules out is in it")


# ---- places: a few records at once ----


@dataclass(frozen=True)
class _Places:
    """A series in places of a few records each. What leads over a place has an entry for each series of its outputs.

    That is, for each of those but the last: what the last one says is added for the state after it. Records that fill
    no place come first.
    """

    came: list[States]
    """The best states before each state, at the records that come first."""
    weights: Floats
    """The weights after them."""
    table: Floats
    """The largest sums by [state before, state after, entry]; the last entry leads from each state to itself."""
    says: Floats
    """What the last output says, by [state after, output]; that behind all others says nothing."""
    entries: States
    last: States
    """Entry and last output of each place."""
    between: list[Indices]
    """The best state at each record but the last, by [state before, state after it, entry up to it]."""

    @classmethod
    def of(cls, codes: States, first: Floats, moves: Floats, says: Floats) -> _Places:
        """As many records a place as pay."""
        k, kinds = says.shape
        steps = says[:, None, :] + moves[:, :, None]
        table, between, size = moves[:, :, None], list[Indices](), 1
        while (more := table.shape[2] * kinds) * k * k <= _TABLE and _REUSED * more * size * (size + 1) <= len(codes):
            table, middle = _one_more(table, steps)
            between.append(middle)
            size += 1
        alone = (len(codes) - 1) % size
        came, weights = list[States](), first + says[:, codes[0]]
        for code in codes[1 : alone + 1]:
            sums = weights[:, None] + moves
            came.append(sums.argmax(axis=0))
            weights = sums.max(axis=0) + says[:, code]
        parts = codes[alone + 1 :].reshape(-1, size)
        nothing = np.where(np.eye(k, dtype=bool), 0.0, -np.inf)[:, :, None]
        return cls(
            came,
            weights,
            np.concatenate([table, nothing], axis=2),
            np.concatenate([says, np.zeros((k, 1))], axis=1),
            parts[:, :-1] @ kinds ** np.arange(size - 1),
            np.ascontiguousarray(parts[:, -1]),
            between,
        )

    def path(self, states: States) -> States:
        """The states of all records from those before, between and after the places."""
        k, kinds = len(self.says), self.says.shape[1] - 1
        path = np.empty((len(self.last), len(self.between) + 1), dtype=np.intp)
        before, path[:, -1] = states[:-1] * k, states[1:]
        for place, middle in reversed(list(enumerate(self.between))):
            up_to = kinds ** (place + 1)
            path[:, place] = middle.take((before + path[:, place + 1]) * up_to + self.entries % up_to)
        return np.concatenate([_traced(self.came, int(states[0])), path.ravel()])


def _one_more(table: Floats, steps: Floats) -> tuple[Floats, Indices]:
    """All entries with all steps behind them, and the state between."""
    k, _, kinds = steps.shape
    left, right = np.tile(table, kinds), np.repeat(steps, table.shape[2], axis=2)
    best, sums = np.full((2, *left.shape), -np.inf)
    middle = np.zeros(best.shape, dtype=np.int8 if k < 2**7 else np.int16)
    with _without_buffers():
        for i in range(k):
            np.add(left[:, i, None], right[i], out=sums)
            np.maximum(middle, (sums > best).view(np.int8) * middle.dtype.type(i), out=middle)
            np.maximum(best, sums, out=best)
    return best, middle.ravel()


def _traced(came: list[States], end: int) -> States:
    """The states before, between and after steps, from the best ones before each."""
    states = [end]
    for before in reversed(came):
        states.append(int(before[states[-1]]))
    return np.array(states[::-1], dtype=np.intp)


# ---- few states: trees of products ----


def _by_trees(codes: States, first: Floats, moves: Floats, says: Floats) -> States:
    """The best path by products [state before, state after, place] of what leads from state to state.

    A product holds the largest sum over the state between its factors. Which state that is, is asked only of the pairs
    that the path goes through, from the roots of the trees down.
    """
    places = _Places.of(codes, first, moves, says)
    k, n = len(moves), len(places.last)
    depth = max(0, (n // _TREES).bit_length() - 1)
    trees = -(-n // (1 << depth))
    order = np.zeros(1, dtype=np.intp)
    for _ in range(depth):  # with bits reversed, the first factors are the first half at every level
        order = np.concatenate([2 * order, 2 * order + 1])
    entries, last = (
        np.append(of, np.full((trees << depth) - n, rest)).reshape(trees, 1 << depth).T[order].ravel()
        for of, rest in ((places.entries, places.table.shape[2] - 1), (places.last, places.says.shape[1] - 1))
    )

    levels = list[Floats]()

    def factors(level: int, low: int, high: int) -> Floats:
        if level:
            return levels[level - 1][:, :, low:high]
        leaves = places.table.take(entries[low:high], axis=2)
        leaves += places.says.take(last[low:high], axis=1)
        return leaves

    store = np.empty(k * k * (trees << depth))  # at once: what is taken and given back piece by piece is paged in anew
    for level in range(depth):
        half = len(entries) >> (level + 1)
        out, store = store[: k * k * half].reshape(k, k, half), store[k * k * half :]
        _products(partial(factors, level), out)
        levels.append(out)
    roots = factors(depth, 0, trees)
    weights, came = places.weights, list[States]()
    for tree in range(trees):
        sums = weights[:, None] + roots[:, :, tree]
        came.append(sums.argmax(axis=0))
        weights = sums.max(axis=0)
    if not np.isfinite(weights.max()):
        raise _impossible()
    ends = _traced(came, int(weights.argmax()))
    before, after = ends[:-1], ends[1:]
    for level in range(depth - 1, -1, -1):
        half = len(before)
        table, at = (levels[level - 1], np.arange(2 * half)) if level else (places.table, entries)
        flat, row = table.ravel(), table.shape[2]
        state = np.arange(k)[:, None] * row
        sums = flat.take(before * (k * row) + at[:half] + state)
        sums += flat.take(after * row + at[half:] + k * state)
        if level == 0:
            sums += places.says.take(last[:half], axis=1)
        middle = _largest(sums)
        before, after = np.concatenate([before, middle]), np.concatenate([middle, after])
    return places.path(np.append(ends[0], after.reshape(1 << depth, trees)[order].T.ravel()[:n]))


def _largest(sums: Floats) -> States:
    """The row that is largest, in each column: an argmax for few rows that are long."""
    best, row = sums[0].copy(), np.zeros(sums.shape[1], dtype=np.int8)
    for i in range(1, len(sums)):
        np.maximum(row, (sums[i] > best).view(np.int8) * np.int8(i), out=row)
        np.maximum(best, sums[i], out=best)
    return row.astype(np.intp)


def _products(factors: Callable[[int, int], Floats], out: Floats) -> None:
    """The largest ``left[i, l] + right[l, j]`` over l, for each i, j and place: the first half are on the left."""
    k, _, half = out.shape
    together = min(half, max(_WIDTH, _TOGETHER // (k * k)))
    buffers = np.empty((2, k, k, together))
    with _without_buffers():
        for low in range(0, half, together):
            high = min(low + together, half)
            left, right = factors(low, high), factors(half + low, half + high)
            best, sums = buffers[:, :, :, : high - low]
            np.add(left[:, 0, None], right[0], out=best)
            for i in range(1, k):
                np.add(left[:, i, None], right[i], out=sums)
                np.maximum(best, sums, out=best)
            out[:, :, low:high] = best


# ---- more states: blocks side by side ----


def _by_blocks(codes: States, first: Floats, moves: Floats, says: Floats, longer: int = 1) -> States | None:
    """The best path by blocks of places, all passed at once; none where too many of them are too short.

    From where the best paths from all states pass through one, the weights differ from the true ones by a constant,
    which decides nothing. So a second pass, from the end of the block before, soon meets the first one and can stop.
    """
    places = _Places.of(codes, first, moves, says)
    step, (k, n) = _Step(places), (len(moves), len(places.last))
    if n == 0:
        return places.path(places.weights[None].argmax(axis=1))
    length = longer * max((_MEMORY * n * n / len(codes) * k * k / _STEP) ** 0.5, n * k * k / _SIDE_BY_SIDE)
    length = -(-min(int(length) + 1, n) // step.size) * step.size
    blocks = -(-n // length)
    fill = blocks * length - n  # the first block is filled up with places before the series
    entries, last = (
        np.concatenate([np.zeros(fill, dtype=np.intp), of]).reshape(blocks, length).T.copy()
        for of in (places.entries, places.last)
    )
    parts = [slice(low, low + step.size) for low in range(0, length, step.size)]
    traces = np.empty((len(parts), step.size // step.traced, k, blocks), dtype=np.int16 if k <= 2**15 else np.int64)
    borders = np.empty((len(parts) + 1, k, blocks), dtype=np.int64)
    weights = borders[0] = np.repeat(step.own[0], blocks, axis=1)
    for i, part in enumerate(parts):
        traces[i], weights = step.passed(entries[part], last[part], weights, fill - part.start)
        borders[i + 1] = weights
    late, turn = np.arange(1, blocks), 0
    while len(late := late[~step.same(borders[-1][:, late - 1], borders[0][:, late])]):
        if len(late) > blocks * _FEWER**turn:
            return None
        turn += 1
        weights = borders[0][:, late] = borders[-1][:, late - 1]
        for i, part in enumerate(parts):
            traces[i][:, :, late], weights = step.passed(entries[part, late], last[part, late], weights)
            off = ~step.same(weights, borders[i + 1][:, late])
            borders[i + 1][:, late] = weights
            late, weights = late[off], weights[:, off]
            if len(late) == 0:
                break
        late = late[late < blocks - 1] + 1
    end = int(borders[-1][:, -1].argmax())
    if borders[-1][end, -1] <= _RULED_OUT:
        raise _impossible()
    states = _traced_in_blocks(traces.reshape(-1, k * blocks), step, blocks, end)
    return places.path(np.append(states[fill:], end))


class _Step:
    """From the weights before a place to those after it, for many blocks: [state, block].

    Weights are whole numbers. So they are the same up to a constant or not, without a tolerance; and the bits below a
    unit hold the last states on the best path, which a maximum hands on. A unit is so small that numbers of 62 bits are
    just large enough: for as many places as are passed before weights are levelled, or for the whole series where there
    are zeros, because then nothing bounds what lies between two weights.
    """

    def __init__(self, places: _Places) -> None:
        table, says, first = places.table[:, :, :-1], places.says[:, :-1], places.weights
        if not np.isfinite(first.max()):
            raise _impossible()
        first = first - first.max()
        k = len(says)
        fall = sum(float(-of[np.isfinite(of)].min(initial=0.0)) for of in (table, says, first))
        self.positive = all(np.isfinite(of).all() for of in (table, says, first))
        bits = max(1, (k - 1).bit_length())
        self.traced = max(1, _TRACED // bits) if self.positive else 1
        self.size = max(1, _LEVEL // (len(places.between) + 1) // self.traced) * self.traced
        self.shift, self.mask = bits, (1 << bits) - 1
        below = bits * self.traced
        self.below = (1 << below) - 1
        span = fall * (self.size + 2) if self.positive else 4 * fall * (len(places.last) + 2)
        unit = 2.0 ** (62 - below) / max(span, 1.0)

        def whole(of: Floats) -> Whole:
            return np.rint(np.maximum(of * unit, 2 * _RULED_OUT >> below)).astype(np.int64) << below

        state, phase = np.arange(k), np.arange(self.size)[:, None, None] % self.traced
        self.own = state[:, None] << bits * phase[: self.traced]
        self.table, self.first = whole(table), whole(first)
        self.says = whole(says) + np.roll(self.own, -1, axis=0)  # with the state itself, for the place behind it
        self.rows, self.repeated = (phase * k + state[:, None]) * says.shape[1], np.repeat(state, k)

    def passed(self, entries: States, last: States, weights: Whole, first: int = -1) -> tuple[Whole, Whole]:
        """Pass some places. Returns the states on the best paths, a few places each, and the weights behind the last.

        The first block has no place before ``first``.
        """
        k, blocks = weights.shape
        said = self.says.take(last[:, None] + self.rows)
        sums, before = np.empty((2, k, k, blocks), dtype=np.int64)
        behind = np.empty((len(entries) // self.traced, k, blocks), dtype=np.int64)
        rows, now = before.reshape(k * k, blocks), weights.copy()
        add, largest, take, repeated = np.add, np.maximum.reduce, self.table.take, self.repeated
        for t, (entry, adds) in enumerate(zip(entries, said, strict=True)):
            here = t % self.traced
            if t == first:
                now[:, 0] = self.first + self.own[here, :, 0]
            take(entry, 2, sums, "clip")
            now.take(repeated, 0, rows, "clip")
            add(sums, before, sums)
            if here < self.traced - 1:
                largest(sums, axis=0, out=now)
            else:
                full = behind[t // self.traced]
                largest(sums, axis=0, out=full)
                np.bitwise_and(full, ~self.below, now)
            add(now, adds, now)
            if not self.positive:
                np.maximum(now, 2 * _RULED_OUT, out=now)
        if self.positive:
            now -= now.max(axis=0) & ~self.below
        return behind & self.below, now

    def same(self, a: Whole, b: Whole) -> Flags:
        """Whether two columns of weights differ by a constant. States that both rule out count for nothing."""
        if self.positive:
            return np.asarray((a == b).all(axis=0))
        high = a.max(axis=0), b.max(axis=0)
        equal = (a - high[0] == b - high[1]) | (np.maximum(a, b) <= _RULED_OUT)
        return np.asarray(equal.all(axis=0) & ((high[0] > _RULED_OUT) == (high[1] > _RULED_OUT)))


def _traced_in_blocks(traces: Whole, step: _Step, blocks: int, end: int) -> States:
    """The states before all places, block after block, of the path that ends in a state."""

    def before(trace: Whole, block: States) -> States:
        return np.asarray((trace & step.mask).astype(np.intp) * blocks + block)

    block = np.arange(blocks)
    at = np.arange(traces.shape[1])  # where each block begins, for each state that it may end in
    every = np.tile(block, len(at) // blocks)
    for row in traces[::-1]:
        at = before(row.take(at), every)
    begins = (at // blocks).reshape(-1, blocks).T.tolist()
    ends = [end]
    for begin in begins[:0:-1]:
        ends.append(begin[ends[-1]])
    at = np.array(ends[::-1]) * blocks + block
    path = np.empty((len(traces), blocks), dtype=traces.dtype)
    for i in range(len(traces) - 1, -1, -1):
        path[i] = traces[i].take(at)
        at = before(path[i], block)
    states = path.T[:, :, None] >> step.shift * np.arange(step.traced) & step.mask
    return states.astype(np.intp).ravel()


# ---- chains that hardly ever leave a state: windows ----


def _by_windows(codes: States, first: Floats, moves: Floats, says: Floats) -> States | None:
    """The best path by windows of records, one after the other; none where it moves too often in the shortest.

    Say C_j(t) is what staying in j up to record t of a window weighs, e_ij what a move weighs beside staying in j, and
    v_j = w_j − C_j, which never falls. Then v_j(t) is the largest v_i(u) + C_i(u) − C_j(u) + e_ij over all earlier u
    and i ≠ j, or v_j(0). With v(0) in place of v on the right this holds for paths of one move; put in again, for two;
    and so on until nothing grows. A state i that lies below some a by max_j (m_ij − m_aj) or more leads to nothing that
    a does not lead to as well.
    """
    n, k = len(codes), len(moves)
    extra = moves - np.diagonal(moves)
    np.fill_diagonal(extra, -np.inf)
    lead = np.empty((k, k))  # of i over a
    for a in range(k):
        gain = moves - moves[a]
        np.fill_diagonal(gain, -np.inf)
        lead[:, a] = gain.max(axis=1)
    adds = says + np.diagonal(moves)[:, None]
    weights = np.empty((n, k))
    left = np.empty((n, k), dtype=np.bool_)
    weights[0] = first + says[:, codes[0]]
    at, longest = 0, _WINDOW
    with _without_buffers():
        while at < n - 1:
            size = min(longest, n - 1 - at)
            window = slice(at, at + size)
            stays = np.zeros((k, size + 1))
            np.cumsum(adds.take(codes[at + 1 : at + size + 1], axis=1), axis=1, out=stays[:, 1:])
            found, rounds = _window(weights[at] - weights[at].max(), stays, extra, lead)
            if rounds > _ROUNDS[1]:
                longest = size // 2
                if longest < _WINDOWS[0]:
                    return None
            elif rounds <= _ROUNDS[0]:
                longest = min(_WINDOWS[1], 2 * longest)
            if rounds <= _ROUNDS[2]:
                left[window] = (found[:, 1:] > found[:, :-1]).T
                found += stays
                weights[at + 1 : at + size + 1] = found[:, 1:].T
                at += size
    return _traced_by_moves(weights, left, moves)


def _window(start: Floats, stays: Floats, extra: Floats, lead: Floats) -> tuple[Floats, int]:
    """v_j(t) of a window [state, record], and the number of rounds that it took."""
    best = np.repeat(start[:, None], stays.shape[1], axis=1)
    weights = best + stays
    open_ = np.arange(len(start))  # states whose weights have grown since they were asked for moves
    rounds = 0
    while True:
        for a in {int(weights[:, 0].argmax()), int(weights[:, -1].argmax())}:
            near = (weights[open_] - weights[a]).max(axis=1) > -lead[open_, a]
            open_ = open_[near | (open_ == a)]
        if len(open_) == 0 or rounds > _ROUNDS[2]:
            return best, rounds
        rounds += 1
        moved = np.full((len(start), stays.shape[1] - 1), -np.inf)
        for i in open_:
            np.maximum(moved, weights[i, :-1] + extra[i][:, None], out=moved)
        moved -= stays[:, :-1]
        np.maximum.accumulate(moved, axis=1, out=moved)
        open_ = np.flatnonzero((moved > best[:, 1:]).any(axis=1))
        np.maximum(best[:, 1:], moved, out=best[:, 1:])
        np.add(best, stays, out=weights)


def _traced_by_moves(weights: Floats, left: Flags, moves: Floats) -> States:
    """From each move to the one before it: ``left`` tells whether the best way to a state at the next record moves."""
    end = len(weights) - 1
    state = int(weights[end].argmax())
    path = np.empty(len(weights), dtype=np.intp)
    places = dict[int, States]()
    while True:
        if state not in places:
            places[state] = np.flatnonzero(left[:, state])
        earlier = int(places[state].searchsorted(end))
        last = int(places[state][earlier - 1]) if earlier else -1
        path[last + 1 : end + 1] = state
        if last < 0:
            return path
        state, end = int((weights[last] + moves[:, state]).argmax()), last


# ---- many series of one length ----


def posterior_rows(outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> Floats:
    """P(X_t = x | all outputs of its row): one series a row, states along the last axis."""
    likely = np.asarray(channel).T[outputs]
    out = np.empty(likely.shape)
    out[:, 0] = _scaled(start * likely[:, 0])
    for t in range(1, outputs.shape[1]):
        out[:, t] = _scaled((out[:, t - 1] @ transition) * likely[:, t])
    after = np.ones(out[:, 0].shape)
    for t in range(outputs.shape[1] - 2, -1, -1):
        after = _scaled((after * likely[:, t + 1]) @ transition.T)
        out[:, t] = _scaled(out[:, t] * after)
    return out


def best_path_rows(outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> States:
    """The most probable series of states of each row."""
    with np.errstate(divide="ignore"):
        moves, says = np.log(transition), np.log(channel).T[outputs]
        weights = np.log(start) + says[:, 0]
    rows, n = outputs.shape
    came = np.empty((n, rows, len(moves)), dtype=np.intp)
    for t in range(1, n):
        sums = weights[:, :, None] + moves
        came[t] = sums.argmax(axis=1)
        weights = sums.max(axis=1) + says[:, t]
    if not np.isfinite(weights.max(axis=1)).all():
        raise _impossible()
    path = np.empty((rows, n), dtype=np.intp)
    path[:, -1] = weights.argmax(axis=1)
    for t in range(n - 1, 0, -1):
        path[:, t - 1] = came[t, np.arange(rows), path[:, t]]
    return path


def _scaled(weights: Floats) -> Floats:
    total = weights.sum(axis=1, keepdims=True)
    if not (total > 0).all():
        raise _impossible()
    return np.asarray(weights / total)
