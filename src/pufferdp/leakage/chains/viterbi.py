"""The best whole path through a hidden chain (Viterbi), fast without a compiler; and many short series at once.

Three ways, each of them exact:

- Few states: what leads from state to state is multiplied, with largest sums in place of sums of products, pair by pair
  in a tree. That costs the same for every chain. Outputs have few values, so that the lowest levels are tables.
- More states: blocks of records are passed side by side as if nothing came before them, and mended where something did.
  The largest sums of a step are largest distances, for which scipy has compiled code.
- Chains that hardly ever leave a state forget too late for blocks. But a path that stays weighs a cumulative sum, so
  that all first moves in a window are found at once; then all second ones, as long as there are any.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Matrix, Vector
from pufferdp.basics.errors import DataError
from pufferdp.leakage.chains.forward_backward import Codes

_FEW_STATES: Final = 7
"""So many states are multiplied in trees: k cubed sums a product, where a step of a block needs k squared."""
_TABLE: Final = 2**21
"""Entries of a table of products, at most."""
_REUSED: Final = 4
"""Places at which an entry of such a table is used, at least, if all are used equally often."""
_TREES: Final = 16
"""The series is cut into so many trees, at least: the last one is filled up."""
_TOGETHER: Final = 2**15
_WIDTH: Final = 512
"""Entries of products that are made together, what is in the cache; and places, at least."""
_NO_BUFFER: Final = 16
"""So small a buffer is not used by numpy, which else copies into it whatever is broadcast."""

_BLOCK: Final = 512
"""Records of a block, at least, where there are more blocks than one."""
_MOST_BLOCKS: Final = 256
_LEVEL: Final = 32
"""Weights are levelled, and compared, at every such place."""
_ROUNDING: Final = 1e-11
"""Levelled weights are exact to this. A path that is not the best by no more than this a block counts as the best."""
_TURNS: Final = 6
_FEW: Final = 8
"""Blocks are too short when they are wrong after so many turns, or one in so many after the first."""
_LONGER: Final = 4
"""How many times as long they become then."""
_BEFORE_WINDOWS: Final = 2
"""So many lengths of blocks are tried before windows."""

_RARE: Final = 1e-4
"""Chains that leave no state more often than this are passed in windows first."""
_WINDOW: Final = 256
_WINDOWS: Final = (64, 1024)
"""Records of the first window, and of the shortest and the longest one."""
_ROUNDS: Final = (2, 4, 12)
"""Moves in a window after which the next is longer, those after which it is shorter, and those that are too many."""

_SEGMENT: Final = 64
"""Records of a segment in which a path is traced back that moves often: more often than once in _OFTEN records."""
_OFTEN: Final = 64
_SOME: Final = 8
"""One record in so many tells how often it moves."""
States = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


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
    blocks = max(1, min(_MOST_BLOCKS, len(codes) // _BLOCK))
    path = _by_windows(codes, *model) if rare else None
    tried = 0
    while path is None:
        path = _by_blocks(codes, *model, blocks)  # a single block is always right
        tried += 1
        if path is None and tried == _BEFORE_WINDOWS and positive and not rare:
            path = _by_windows(codes, *model)
        blocks = max(1, blocks // _LONGER)
    return path


def path_log_probability(path: Codes, outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> float:
    """Log P(path and outputs)."""
    with np.errstate(divide="ignore"):
        moves, says = np.log(transition)[path[:-1], path[1:]], np.log(channel)[path, outputs]
        return float(np.log(start)[path[0]] + moves.sum() + says.sum())


def _impossible() -> DataError:
    return DataError("the series cannot come from this model: an output it rules out is in it")


# ---- few states: trees of products ----


def _by_trees(codes: States, first: Floats, moves: Floats, says: Floats) -> States:
    """The best path by products [state before, state after, place] of what leads from state to state.

    A product holds the largest sum over the state between its factors. Which state that is, is asked only of the pairs
    that the path goes through, from the roots of the trees down.
    """
    k, kinds = says.shape
    steps = moves[:, :, None] + says
    table, between, sizes = steps, list[npt.NDArray[np.int8]](), list[int]()
    while _REUSED * kinds**2 <= (len(codes) - 1) >> len(sizes) and k * k * kinds**2 <= _TABLE:
        table, middle = _pairs(table)
        between.append(middle)
        sizes.append(kinds)
        kinds **= 2
    single = (len(codes) - 1) % (1 << len(sizes))  # records that fill no code of the table come first
    weights, came = _one_by_one(first + says[:, codes[0]], steps[:, :, codes[1 : single + 1]])
    pairs = [codes[single + 1 :]]
    for size in sizes:
        pairs.append(pairs[-1][0::2] * size + pairs[-1][1::2])
    states = _through_trees(pairs[-1], weights, table)
    for code, middle in zip(pairs[:0:-1], between[::-1], strict=True):
        finer = np.empty(2 * len(code) + 1, dtype=np.intp)
        finer[0::2], finer[1::2] = states, middle.take((code * k + states[:-1]) * k + states[1:])
        states = finer
    return np.concatenate([_traced(came, int(states[0]))[:-1], states])


def _pairs(table: Floats) -> tuple[Floats, npt.NDArray[np.int8]]:
    """The products of all pairs of entries, and the states between them by [pair, state before, state after]."""
    k, _, kinds = table.shape
    best = np.full((k, k, kinds, kinds), -np.inf)
    middle = np.zeros(best.shape, dtype=np.int8)
    for i in range(k):
        sums = table[:, i, None, :, None] + table[i, :, None, :]
        np.copyto(middle, i, where=sums > best)
        np.maximum(best, sums, out=best)
    return best.reshape(k, k, -1), middle.transpose(2, 3, 0, 1).ravel()


def _through_trees(codes: States, weights: Floats, table: Floats) -> States:
    """The states before, between and after places with these codes of a table; ``weights`` are those before."""
    k = len(weights)
    depth = max(0, (len(codes) // _TREES).bit_length() - 1)
    trees = -(-len(codes) // (1 << depth))
    order = np.zeros(1, dtype=np.intp)
    for _ in range(depth):  # with bits reversed, the first factors are the first half at every level
        order = np.concatenate([2 * order, 2 * order + 1])
    filled = np.full(trees << depth, table.shape[2])
    filled[: len(codes)] = codes
    nothing = np.where(np.eye(k, dtype=bool), 0.0, -np.inf)[:, :, None]
    factors, places = np.concatenate([table, nothing], axis=2), filled.reshape(trees, 1 << depth).T[order].ravel()
    levels = list[tuple[Floats, States]]()
    for _ in range(depth):
        levels.append((factors, places))
        factors = _products(factors, None if len(levels) > 1 else places)
        places = np.arange(factors.shape[2])
    weights, came = _one_by_one(weights, factors.take(places, axis=2))
    if not np.isfinite(weights.max()):
        raise _impossible()
    ends = _traced(came, int(weights.argmax()))
    before, after = ends[:-1], ends[1:]
    for factors, places in reversed(levels):
        flat, row = factors.ravel(), factors.shape[2]
        state = np.arange(k)[:, None] * row
        sums = flat.take(before * (k * row) + places[: len(before)] + state)
        sums += flat.take(after * row + places[len(before) :] + k * state)
        middle = sums.argmax(axis=0)
        before, after = np.concatenate([before, middle]), np.concatenate([middle, after])
    return np.append(ends[0], after.reshape(1 << depth, trees)[order].T.ravel()[: len(codes)])


def _products(factors: Floats, places: States | None) -> Floats:
    """The largest ``left[i, l] + right[l, j]`` over l, for each i, j and place: those on the left are the first half.

    ``factors`` lie as they are needed, or else where ``places`` says.
    """
    k, half = len(factors), (factors.shape[2] if places is None else len(places)) // 2
    out = np.empty((k, k, half))
    together = min(half, max(_WIDTH, _TOGETHER // (k * k)))
    buffers = np.empty((2, k, k, together))
    with np.errstate():  # restores the size of the buffer
        np.setbufsize(_NO_BUFFER)
        for low in range(0, half, together):
            high = min(low + together, half)
            left, right = (
                factors[:, :, begin:end] if places is None else factors.take(places[begin:end], axis=2)
                for begin, end in ((low, high), (half + low, half + high))
            )
            best, sums = buffers[:, :, :, : high - low]
            np.add(left[:, 0, None], right[0], out=best)
            for i in range(1, k):
                np.add(left[:, i, None], right[i], out=sums)
                np.maximum(best, sums, out=best)
            out[:, :, low:high] = best
    return out


def _one_by_one(weights: Floats, steps: Floats) -> tuple[Floats, list[States]]:
    """The weights after a few steps, and the best state before each state at each of them."""
    came = list[States]()
    for place in range(steps.shape[2]):
        sums = weights[:, None] + steps[:, :, place]
        came.append(sums.argmax(axis=0))
        weights = sums.max(axis=0)
    return weights, came


def _traced(came: list[States], end: int) -> States:
    """The states before, between and after such steps."""
    states = [end]
    for before in reversed(came):
        states.append(int(before[states[-1]]))
    return np.array(states[::-1], dtype=np.intp)


# ---- more states: blocks side by side ----


def _by_blocks(codes: States, first: Floats, moves: Floats, says: Floats, blocks: int) -> States | None:
    """The best path by so many blocks of records, all passed at once; none where too many of them are too short.

    From where the best paths from all states pass through one, the weights differ from the true ones by a constant,
    which decides nothing. So a second pass, from the end of the block before, soon meets the first one and can stop.
    """
    n, k = len(codes), len(moves)
    length = -(-n // (blocks * _LEVEL)) * _LEVEL
    blocks = -(-n // length)
    filled = np.full(blocks * length, says.shape[1])
    filled[:n] = codes
    places = np.ascontiguousarray(filled.reshape(blocks, length).T)
    step = _Step(first, moves, says)
    begins = np.zeros((blocks, k))
    begins[0] = first
    begins += step.shift
    weights = np.empty((length, blocks, k))
    left = np.empty((length, blocks, k), dtype=np.bool_)
    ends = begins
    for low in range(0, length, _LEVEL):
        part = slice(low, low + _LEVEL)
        left[part], ends = step.passed(places[part], ends, weights[part])
    late, turn = np.arange(1, blocks), 0
    while len(late := late[~_same(ends[late - 1], begins[late])]):
        if turn >= _TURNS or (turn and len(late) > blocks // _FEW):
            return None
        turn += 1
        current = begins[late] = ends[late - 1]
        for low in range(0, length, _LEVEL):
            part = slice(low, low + _LEVEL)
            passed = np.empty((_LEVEL, *current.shape))
            gone, current = step.passed(places[part, late], current, passed)
            off = ~_same(passed[-1], weights[low + _LEVEL - 1, late])
            weights[part, late], left[part, late] = passed, gone
            late, current = late[off], current[off]
            if len(late) == 0:
                break
        ends[late] = current
        late = late[late < blocks - 1] + 1
    return _traced_back(weights, left, moves, n)


class _Step:
    """From the weights of one record to those of the next, for many blocks: [block, state].

    The largest sum weights[i] + moves[i, j] is the largest distance |weights[i] − (−moves[i, j])| where no sum is
    negative. So ``shift`` is added to all sums, and taken away again with what the next record says.
    """

    def __init__(self, first: Floats, moves: Floats, says: Floats) -> None:
        from scipy.spatial.distance import cdist  # a third of a second to import

        self.distances = cdist
        self.positive = all(np.isfinite(table).all() for table in (first, moves, says))
        # No weight falls by more than the least move and the least that an output says, at each of _LEVEL records.
        lost = -(_LEVEL + 1) * (moves.min() + says.min()) - first.min() if self.positive else 0.0
        self.shift = float(lost)
        self.moves = moves
        self.stay = np.diagonal(moves) + self.shift
        self.opposite = -(moves.T + self.shift)
        self.says = np.concatenate([says.T, np.zeros((1, len(moves)))]) - self.shift  # past the end nothing is said

    def best(self, weights: Floats, out: Floats) -> Floats:
        """The largest ``weights[i] + moves[i, j]`` over i, and ``shift``, for each j."""
        if self.positive:
            self.distances(weights, self.opposite, "chebyshev", out=out)
        else:
            np.maximum.reduce(weights[:, :, None] + self.moves, axis=1, out=out)
        return out

    def passed(self, places: States, begins: Floats, weights: Floats) -> tuple[Flags, Floats]:
        """Find the weights at some places. Returns whether a state comes from another, and the sums behind them."""
        self.says.take(places, axis=0, out=weights, mode="clip")
        sums = np.empty((len(weights) + 1, *begins.shape))
        sums[0] = begins
        rows, before = list(weights), list(sums)
        for t, row in enumerate(rows[:-1]):
            np.add(row, before[t], out=row)
            self.best(row, before[t + 1])
        rows[-1] += before[-2]
        most = rows[-1].max(axis=1, keepdims=True)
        if not np.isfinite(most).all():
            # A block that nothing was known of had every state before it: no series gives its outputs.
            raise _impossible()
        rows[-1] -= most
        self.best(rows[-1], before[-1])
        return weights + self.stay < sums[1:], before[-1]


def _same(a: Floats, b: Floats) -> Flags:
    """Whether two rows of weights differ by a constant. States that both rule out count for nothing."""
    with np.errstate(invalid="ignore"):
        gap = a - b
        neither = np.isnan(gap)
        spread = np.where(neither, -np.inf, gap).max(axis=1) - np.where(neither, np.inf, gap).min(axis=1)
    return np.asarray(spread <= _ROUNDING)


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
    with np.errstate():
        np.setbufsize(_NO_BUFFER)
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
    return _traced_back(weights[:, None], left[:, None], moves, n)


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


# ---- back from the weights to the path ----


def _traced_back(weights: Floats, left: Flags, moves: Floats, n: int) -> States:
    """The best path of n records from their weights [place, block, state], block after block.

    ``left`` tells whether the best way to a state at the next record comes from another state.
    """
    some = np.arange(0, n - 1, _SOME)
    length = len(weights)
    likely = weights[(some + 1) % length, (some + 1) // length].argmax(axis=1)
    often = np.count_nonzero(left[some % length, some // length, likely]) * _OFTEN > len(some)
    return _traced_in_segments(weights, moves, n) if often else _traced_by_moves(weights, left, moves, n)


def _traced_by_moves(weights: Floats, left: Flags, moves: Floats, n: int) -> States:
    """From each move to the one before it."""
    length, end = len(weights), n - 1
    state = int(weights[end % length, end // length].argmax())
    path = np.empty(n, dtype=np.intp)
    places = dict[int, States]()
    while True:
        if state not in places:
            places[state] = np.flatnonzero(left[:, :, state].T)
        earlier = int(places[state].searchsorted(end))
        last = int(places[state][earlier - 1]) if earlier else -1
        path[last + 1 : end + 1] = state
        if last < 0:
            return path
        state, end = int((weights[last % length, last // length] + moves[:, state]).argmax()), last


def _traced_in_segments(weights: Floats, moves: Floats, n: int) -> States:
    """All segments at once, each from its best end, then again from the segment after it until both agree."""
    length, blocks, k = weights.shape
    rows, into = weights.reshape(-1, k), np.ascontiguousarray(moves.T)

    def before(at: States, state: States) -> States:
        sums = rows.take(at % length * blocks + at // length, axis=0, mode="wrap")
        sums += into.take(state, axis=0)
        return np.asarray(sums.argmax(axis=1))

    at = np.arange(n - 1, -1, -_SEGMENT)  # the last segment first
    state = rows[at % length * blocks + at // length].argmax(axis=1)
    path = np.empty(n + _SEGMENT, dtype=np.intp)  # what is before the first record is not used
    for _ in range(_SEGMENT):
        path[at] = state
        at = at - 1
        state = before(at, state)
    at, state = at[:-1], state[:-1]  # each is in the segment before, and may disagree with it
    while len(at):
        off = (path[at] != state) & (at >= 0)
        at, state = at[off], state[off]
        path[at] = state
        at = at - 1
        state = before(at, state)
    return path[:n]


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
