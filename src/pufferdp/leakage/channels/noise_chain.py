"""Correlated noise: the output is the data XOR a second binary chain, which does not depend on the data. Exact loss.

The pair (data, noise) is a chain of four states, and an output leaves two of them: once z_t is seen the noise is x_t
XOR z_t. So the weights of x = 0 and x = 1 move by a two-by-two table that depends on the outputs on both sides of the
step, P(x,x')·N(x⊕z, x'⊕z'). Its ratio moves by a Möbius map, rising or falling with the sign of the determinant. The
largest and the smallest ratio for either current output follow from those one step before: four numbers. An adversary
who knows a record knows the noise there as well, because the output shows their XOR; what lies beyond it is then
without weight, and what its value says by itself is divided out.

Chakrabarti et al. (2020, section 3.3) look at the adversary who knows no record and find the same average noise as
that of independent flips. For who knows others it is not so: see docs/theory/flips.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Mask, Matrix
from pufferdp.basics.errors import ModelError, NotApplicableError
from pufferdp.leakage.channels.two_states import FlipLoss, Rows, log
from pufferdp.models.chain import MarkovChain

_MOST: Final = 4096
"""Records on a side that are passed one by one; beyond, the bound on all that follow is taken."""
_SURE: Final = 1e-13
"""A side is passed no further once nothing beyond adds more than this; it is added all the same."""
_SETTLED: Final = 8
"""Supports of two chains of two states repeat with period two from the fourth record on."""

_Span = dict[int, tuple[float, float]]
"""For the current output: the smallest and the largest log-ratio of the weights of 0 and 1; without the outputs that
cannot be."""


@dataclass(frozen=True)
class NoiseChainLoss:
    """What a release with correlated noise leaks: attained by some output, and at most."""

    lower: FlipLoss
    """Attained by some output of the records that were passed."""
    upper: FlipLoss
    """Proved; above ``lower`` by what longer series may add beyond the records that were passed."""


def noise_chain_loss(data: MarkovChain, noise: MarkovChain, length: int | None, adversary: Adversary) -> NoiseChainLoss:
    """The loss of a series of this length, or of an endless one.

    Exact up to 4096 records. Beyond, lower and upper differ by what slow chains add, most often by nothing. Raises
    NotApplicableError for longer series where a step is impossible in either chain: nothing is then known to settle.
    """
    _check_chains(data, noise)
    positions = _secret_records(data, length)
    if not positions:
        return _exactly(FlipLoss(0.0, 0.0))  # no record has two possible values
    if any(not law.all() for law in _supports(noise, positions[-1])[positions[0] - 1 :]):
        return _exactly(FlipLoss(math.inf, math.inf))  # the noise of such a record is known, and so is the record
    if adversary is Adversary.DP:
        return _exactly(_known_neighbours(data, noise, length))
    everyone = adversary is Adversary.BDP
    passed = _MOST if length is None else min(length - 1, _MOST)
    left, right = _before(data, noise, positions[0], passed, everyone), _after(data, noise, passed, everyone)
    endless = length is None or length - 1 > passed
    if endless and not (left.settles and right.settles):
        raise NotApplicableError(
            f"some step is impossible in the data or in the noise, and the loss of more than {_MOST} records is not "
            f"known then; cut the series into chains of at most {_MOST + 1} records, or choose noise that can change "
            "and stay in either state",
            value=length,
        )
    if not endless and length is not None:
        # Two possible values once, at the first record, or from some record on.
        secret = range(positions[0], positions[-1] + 1) if len(positions) == 1 else range(positions[0], length + 1)
        return _exactly(_joined(left, right, secret, length))
    # Every step is possible, so every record is secret. The loss never falls when records are added at the end.
    lower = _joined(left, right, range(1, passed + 2), passed + 1)
    far = len(right.spans)
    return NoiseChainLoss(lower, lower | _worst(left, right, [(m, far) for m in range(len(left.spans) + 1)]))


def class_noise_loss(
    chains: Sequence[MarkovChain], noise: MarkovChain, length: int | None, adversary: Adversary
) -> NoiseChainLoss:
    """The loss for the worst model of a class."""
    losses = [noise_chain_loss(chain, noise, length, adversary) for chain in chains]
    lower, upper = FlipLoss(0.0, 0.0), FlipLoss(0.0, 0.0)
    for loss in losses:
        lower, upper = lower | loss.lower, upper | loss.upper
    return NoiseChainLoss(lower, upper)


def noise_dp_loss(start: Sequence[int], shares: Sequence[Sequence[int]], length: int | None) -> float:
    """The largest change of the log-likelihood of an output when one record changes, rounded up: a DP loss.

    The likelihood of an output z given the data x is that of the noise path x⊕z. One record changes one step into it
    and one out of it. ``start`` and ``shares`` are whole numbers, in any unit: the law of the first flip, and of the
    next one given the last.
    """
    reached = [np.array([share > 0 for share in start])]
    moves = np.array([[share > 0 for share in row] for row in shares])
    for _ in range(_SETTLED):
        reached.append(reached[-1] @ moves)
    largest = 0.0
    for record, last in _places(length):
        before: list[int | None] = [None] if record == 1 else [n for n in (0, 1) if reached[record - 2][n]]
        after: list[int | None] = [None] if last else [0, 1]
        for u, v, n in itertools.product(before, after, (0, 1)):
            top, bottom = (
                (start[m] if u is None else shares[u][m]) * (1 if v is None else shares[m][v]) for m in (n, 1 - n)
            )
            if top > 0:
                largest = max(largest, _log_ratio(top, bottom))
    return largest


def _places(length: int | None) -> Iterator[tuple[int, bool]]:
    """Records of every sort, and whether they are the last: of a long series two of the first eight stand for it."""
    for record in range(1, (_SETTLED if length is None else min(length, _SETTLED)) + 1):
        if length is None or record < length:
            yield record, False
        if record == length or (length is not None and length > _SETTLED - 2 < record and (length - record) % 2 == 0):
            yield record, True


def _log_ratio(top: int, bottom: int) -> float:
    """Log of a ratio of whole numbers, rounded up by more than both logs and their difference are off."""
    if bottom == 0:
        return math.inf
    if top <= bottom:
        return 0.0
    high, low = math.log(top), math.log(bottom)
    return math.nextafter(high - low + 2**-51 * (1 + high + low), math.inf)


def _check_chains(data: MarkovChain, noise: MarkovChain) -> None:
    for name, chain in (("data", data), ("noise", noise)):
        if chain.size != 2:
            raise ModelError(f"the {name} has {chain.size} states; correlated noise is for two", value=chain.size)
        if chain.any_start:
            raise ModelError(f'the {name} has start "any"; correlated noise needs a start: stationary, or a law')


def _law(chain: MarkovChain) -> Matrix:
    return np.asarray(chain.stationary if chain.given_start is None else chain.given_start, dtype=float)


def _supports(chain: MarkovChain, records: int) -> list[Mask]:
    """Which states each of the first records may have; from the fourth on they repeat with period two."""
    out = [_law(chain) > 0]
    for _ in range(min(records, _SETTLED) - 1):
        out.append(out[-1] @ (chain.transition > 0))
    return out


def _secret_records(data: MarkovChain, length: int | None) -> list[int]:
    """The records, from 1, that have two possible values; of long series the first eight speak for all."""
    supports = _supports(data, _SETTLED if length is None else length)
    return [t for t, support in enumerate(supports, start=1) if support.all()]


def _exactly(loss: FlipLoss) -> NoiseChainLoss:
    return NoiseChainLoss(loss, loss)


class _Walk:
    """From a start on, one record at a time: the extremes for each output, and what the start says by itself."""

    def __init__(self, tables: dict[tuple[int, int], Rows], span: _Span, base: Rows, prior: float) -> None:
        self._tables, self.span, self._base, self.prior = tables, span, base, prior
        self._moved = self._prior_moved = math.inf

    def step(self) -> None:
        span, prior = self.span, self.prior
        self.span, self.prior = _step(self._tables, span), self._base(prior)
        self._moved = _distance(span, self.span)
        self._prior_moved = abs(self.prior - prior) if math.isfinite(prior) and math.isfinite(self.prior) else math.inf

    @property
    def value(self) -> _Span:
        """What outputs add: nothing where the start leaves the record one possible value."""
        if not math.isfinite(self.prior):
            return {}
        return {z: (low - self.prior, high - self.prior) for z, (low, high) in self.span.items()}

    def tail(self, contraction: float, prior_contraction: float) -> float:
        """How far the value can still move: each step moves it by at most a share of the step before."""
        return _series(self._moved, contraction) + _series(self._prior_moved, prior_contraction)


def _series(step: float, contraction: float) -> float:
    if step == 0:
        return 0.0
    return step * contraction / (1 - contraction) if math.isfinite(step) and contraction < 1 else math.inf


def _distance(old: _Span, new: _Span) -> float:
    if old.keys() != new.keys():
        return math.inf
    ends = [(a, b) for z in new for a, b in zip(old[z], new[z], strict=True)]
    return max((abs(a - b) if a != b else 0.0 for a, b in ends), default=0.0)


def _contraction(table: Matrix) -> float:
    """The steepest that a Möbius map of positive entries is in log-ratios (Birkhoff); 1 where one of them is 0."""
    (a, b), (c, d) = np.asarray(table, dtype=float)
    along, across = math.sqrt(a) * math.sqrt(d), math.sqrt(b) * math.sqrt(c)
    return 1.0 if along == 0 or across == 0 else abs(along - across) / (along + across)


@dataclass
class _Side:
    """What a side adds: item m is for m records on it, or for the m-th record from the first secret one."""

    spans: list[_Span]
    tail: float
    """How much more than the last item any later one may be, or less."""
    settles: bool

    def item(self, m: int) -> _Span:
        """That item; beyond the last, a bound on all that follow."""
        if m < len(self.spans):
            return self.spans[m]
        return {z: (low - self.tail, high + self.tail) for z, (low, high) in self.spans[-1].items()}


def _tables(data: MarkovChain, noise: MarkovChain) -> dict[tuple[int, int], Matrix]:
    """For two outputs in a row: the weight of a step of the data together with that of the noise."""
    moves, flips = np.asarray(data.transition), np.asarray(noise.transition)
    return {
        (z, w): np.array([[moves[a, b] * flips[a ^ z, b ^ w] for b in (0, 1)] for a in (0, 1)])
        for z, w in itertools.product((0, 1), repeat=2)
    }


def _after(data: MarkovChain, noise: MarkovChain, passed: int, everyone: bool) -> _Side:
    """The records after the target: none known, or the nearest known one at any distance with any value."""
    tables = _tables(data, noise)
    rows = {pair: Rows.of(table) for pair, table in tables.items()}
    base = Rows.of(data.transition)
    nothing = _Walk(rows, dict.fromkeys((0, 1), (0.0, 0.0)), base, 0.0)
    known = [_Walk(rows, {w: (end, end)}, base, end) for w in (0, 1) for end in (math.inf, -math.inf) if everyone]
    return _pass_records(nothing, known, passed, tables, data)


def _before(data: MarkovChain, noise: MarkovChain, first: int, passed: int, everyone: bool) -> _Side:
    """The records before the target. What comes before ``first`` has one possible value: knowing it says nothing."""
    tables = _tables(data, noise)
    # Read the other way: the later output is the new one.
    rows = {(w, z): Rows.of(table.T) for (z, w), table in tables.items()}
    base = Rows.of(data.transition.T)
    x, y = _law(data), _law(noise)
    span = {}
    for z in (0, 1):
        ratio = _difference(log(x[0] * y[z]), log(x[1] * y[1 ^ z]))
        if not math.isnan(ratio):
            span[z] = (ratio, ratio)
    nothing = _Walk(rows, span, base, log(x[0]) - log(x[1]))
    for _ in range(first - 1):
        nothing.step()
    known = [_Walk(rows, {w: (end, end)}, base, end) for w in (0, 1) for end in (math.inf, -math.inf) if everyone]
    return _pass_records(nothing, known, passed - (first - 1), tables, data)


def _difference(top: float, bottom: float) -> float:
    return math.nan if top == bottom == -math.inf else top - bottom


def _pass_records(
    nothing: _Walk, known: list[_Walk], passed: int, tables: dict[tuple[int, int], Matrix], data: MarkovChain
) -> _Side:
    """One record at a time, until all are passed or until nothing beyond adds anything."""
    contraction = max(_contraction(table) for table in tables.values())
    prior_contraction = _contraction(data.transition)
    settles = contraction < 1 and prior_contraction < 1
    spans, met, tail = list[_Span](), _Span(), math.inf
    for _ in range(passed + 1):
        spans.append(_union(nothing.value, met))
        tail = max(walk.tail(contraction, prior_contraction) for walk in (nothing, *known)) if settles else math.inf
        if tail <= _SURE:
            break
        for walk in (nothing, *known):
            walk.step()
        for walk in known:
            met = _union(met, walk.value)
    return _Side(spans, tail, settles)


def _union(span: _Span, other: _Span) -> _Span:
    out = dict(span)
    for z, (low, high) in other.items():
        out[z] = (min(low, out[z][0]), max(high, out[z][1])) if z in out else (low, high)
    return out


def _step(tables: dict[tuple[int, int], Rows], span: _Span) -> _Span:
    """One more record: for each new output the extremes over the old one.

    A map without inverse is constant but where it is 0/0, an output that cannot be: the other end then has its value.
    """
    out = {}
    for z in (0, 1):
        ends = [tables[z, w](end) for w, pair in span.items() for end in pair]
        ends = [end for end in ends if not math.isnan(end)]
        if ends:
            out[z] = (min(ends), max(ends))
    return out


def _joined(left: _Side, right: _Side, secret: range, length: int) -> FlipLoss:
    """The worst of the records that have two possible values, in a series of this length."""
    near = (i for i in secret if i - secret.start <= len(left.spans) or length - i <= len(right.spans))
    return _worst(left, right, [(i - secret.start, length - i) for i in near])


def _worst(left: _Side, right: _Side, places: Sequence[tuple[int, int]]) -> FlipLoss:
    """The worst of records with so many items on either side. A record's own noise is counted before it."""
    loss = FlipLoss(0.0, 0.0)
    for before, after in places:
        a, b = left.item(before), right.item(after)
        for z in a.keys() & b.keys():
            loss = loss | FlipLoss(_sum(a[z][1], b[z][1]), _sum(-a[z][0], -b[z][0]))
    return loss


def _sum(before: float, after: float) -> float:
    """What both sides say together; nothing where one of them rules the value out, because that output cannot be."""
    return -math.inf if -math.inf in (before, after) else before + after


def _known_neighbours(data: MarkovChain, noise: MarkovChain, length: int | None) -> FlipLoss:
    """All other records known, and with them the noise: that of the record lies between that of its neighbours."""
    moves, flips = np.asarray(data.transition), np.asarray(noise.transition)
    x, y = _law(data), _law(noise)
    states, reached = _supports(data, _SETTLED), _supports(noise, _SETTLED)
    loss = FlipLoss(0.0, 0.0)
    for record, last in _places(length):
        before: list[tuple[int, int] | None] = [None]
        if record > 1:
            before = [(u, n) for u in (0, 1) for n in (0, 1) if states[record - 2][u] and reached[record - 2][n]]
        after: list[tuple[int, int] | None] = [None] if last else [(v, n) for v in (0, 1) for n in (0, 1)]
        for come, go, z in itertools.product(before, after, (0, 1)):
            weights, possible = [], True
            for a in (0, 1):
                possible &= bool((x[a] if come is None else moves[come[0], a]) > 0)
                possible &= bool(go is None or moves[a, go[0]] > 0)
                flip = y[a ^ z] if come is None else flips[come[1], a ^ z]
                weights.append(log(float(flip)) + (0.0 if go is None else log(float(flips[a ^ z, go[1]]))))
            if possible and max(weights) > -math.inf:
                loss = loss | FlipLoss(weights[0] - weights[1], weights[1] - weights[0])
    return loss
