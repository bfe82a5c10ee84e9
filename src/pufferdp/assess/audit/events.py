"""An event that tells two samples of outputs apart, chosen on some draws; its probabilities bounded on fresh ones.

Choosing: in every feature, ranges between quantiles and unions of single values are tried on a first part, and the best
of each family are compared on a second part, so a family that only learnt its draws by heart does not win. Bounding:
one test of both probabilities together, on draws that had no say in the choice, so no correction is due for what was
tried. Where a claim has a delta, P(event|x) ≤ e^epsilon·P(event|x') + delta: it is taken off the first probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from pufferdp.assess.audit.mechanisms.ours import Outputs
from pufferdp.basics.arrays import Floats

_SIMPLER: Final = 0.02
"""Leakage that is given up for an event that is easier to say."""
_SAMPLE: Final = 200_000
"""Draws looked at in features beside the first."""
_CARE: Final = (2.0, 4.0, 8.0)
"""Deviations taken off a log-ratio while events are learnt: thousands are compared, and the best looks better than it
is."""


Compute = Callable[[Outputs], Floats]


@dataclass(frozen=True, eq=False, kw_only=True)
class Feature:
    """One number for each output."""

    words: str
    """What it is, as the subject of a sentence."""
    compute: Compute
    """The number for each row of outputs."""
    kind: Literal["coordinate", "part", "row", "score", "ratio"] = "part"
    """A number of the output itself, a part of it, a whole row, the score of a classifier, or a likelihood ratio."""
    atoms: bool = False
    """Only single values count, not their order."""
    spread: bool = True
    """Whether ranges of it are worth trying."""


def _coordinate(at: int, words: str) -> Feature:
    return Feature(words=words, compute=lambda outputs: outputs[:, at], kind="coordinate", atoms=True)


def _difference(at: int) -> Compute:
    return lambda outputs: outputs[:, at] - outputs[:, at + 1]


def _digits(places: int) -> Compute:
    """What the first number of an output has after so many decimal places."""
    return lambda outputs: outputs[:, 0] * 10.0**places - np.round(outputs[:, 0] * 10.0**places)


def _last_bits(outputs: Outputs) -> Floats:
    return (np.ascontiguousarray(outputs).view(np.int64)[:, 0] & 255).astype(float)


def _hashes(outputs: Outputs) -> Floats:
    """52 bits for each row, which rows that differ hardly ever share: multiplied and folded, number after number."""
    out = np.zeros(len(outputs), dtype=np.uint64)
    for column in np.ascontiguousarray(outputs).view(np.uint64).T:
        out = (out ^ column) * np.uint64(0x9E3779B97F4A7C15)
        out ^= out >> np.uint64(29)
    return np.asarray(out >> np.uint64(12), dtype=float)


def expanded(outputs: Outputs, width: int) -> Outputs:
    """Coordinates and, where the classifier has weights for them, products of neighbouring ones."""
    return outputs if width == outputs.shape[1] else np.hstack([outputs, outputs[:, :-1] * outputs[:, 1:]])


def features(first: Outputs, second: Outputs) -> Iterator[Feature]:
    """What to look at in outputs like these: two samples, one for each value of the record."""
    d = first.shape[1]
    if d == 1:
        yield _coordinate(0, "the output")
        for places in range(0, 12, 2):
            after = f"after {places} decimal places" if places else "after the point"
            yield Feature(words=f"what the output has {after}", compute=_digits(places))
        words = "the number in the last eight bits of the output"
        yield Feature(words=words, compute=_last_bits, atoms=True, spread=False)
        return
    gap = np.abs(first.mean(axis=0) - second.mean(axis=0))
    noise = first.std(axis=0) + second.std(axis=0)
    apart = np.divide(gap, noise, out=np.where(gap > 0, np.inf, 0.0), where=noise > 0)
    for j in np.argsort(-apart, kind="stable")[:4]:
        yield _coordinate(int(j), f"number {j + 1} of the output")
    yield Feature(words="the sum of the output", compute=lambda outputs: np.asarray(outputs.sum(axis=1)))
    differences = np.abs(np.diff(first, axis=1).mean(axis=0) - np.diff(second, axis=1).mean(axis=0))
    for j in np.argsort(-differences, kind="stable")[:4].tolist():
        words = f"number {j + 1} of the output less number {j + 2}"
        yield Feature(words=words, compute=_difference(j), atoms=True)
    yield Feature(words="the output as a whole", compute=_hashes, kind="row", atoms=True, spread=False)
    weights = discriminant(first, second)

    def score(outputs: Outputs) -> Floats:
        return np.asarray(expanded(outputs, len(weights)) @ weights)

    yield Feature(words="the score of a linear classifier", compute=score, kind="score")


def discriminant(first: Outputs, second: Outputs) -> Floats:
    """Fisher's linear discriminant, with products of neighbouring numbers where there are few; slightly shrunk.

    It is the direction of a ridge regression of +1 and −1 on centred outputs, by conjugate gradients: those need no
    table of covariances, which has as many columns as an output has numbers.
    """
    from scipy.sparse.linalg import lsqr

    d = first.shape[1]
    rows = [expanded(sample[: _SAMPLE // 10], 2 * d - 1 if d <= 128 else d) for sample in (first, second)]
    table = np.vstack(rows)
    table -= table.mean(axis=0)
    shrunk = math.sqrt(1e-3 * float((table * table).sum()) / table.shape[1] + 1e-300)
    return np.asarray(lsqr(table, np.repeat([1.0, -1.0], [len(part) for part in rows]), damp=shrunk, iter_lim=100)[0])


Counts = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Event:
    """A set of outputs: a range of a feature, or single values of it."""

    feature: Feature
    low: float = -math.inf
    high: float = math.inf
    values: Floats | None = None
    """Sorted single values; a range where there are none."""

    def __call__(self, outputs: Outputs) -> npt.NDArray[np.bool_]:
        """Which outputs are in the event."""
        numbers = self.feature.compute(outputs)
        if self.values is None:
            return np.asarray((numbers >= self.low) & (numbers < self.high))
        at = np.minimum(np.searchsorted(self.values, numbers), len(self.values) - 1)
        return np.asarray(self.values[at] == numbers)

    def __str__(self) -> str:
        what = self.feature.words
        if self.values is not None:
            if self.feature.kind == "row" or len(self.values) > 3:
                return f"{what} is one of {len(self.values):,} that were seen before"
            return f"{what} is exactly {' or '.join(f'{v:.10g}' for v in self.values)}"
        if self.low == -math.inf:
            return f"{what} is below {self.high:.6g}"
        return f"{what} is {self.low:.6g} or more" + (f" and below {self.high:.6g}" if self.high < math.inf else "")


@dataclass(frozen=True, eq=False, kw_only=True)
class Choice:
    """An event, for which value of the record it speaks, and how well it did on draws of the second part."""

    event: Event
    swapped: bool
    """It speaks for the second value."""
    score: float
    """The lower bound that a test is likely to prove."""
    shares: tuple[float, float]
    """How likely the event seems, for the value it speaks for and for the other."""


def deviation(share: Floats | float, slack: float = 0.0) -> Floats:
    """Of the logarithm of a share less a slack, estimated from one run."""
    sure = np.clip(share, 1e-12, 1 - 1e-12)
    return np.asarray(np.sqrt((1 - sure) * sure) / np.maximum(sure - slack, 1e-12))


def split_runs(shares: tuple[Floats | float, Floats | float], slack: float) -> Floats:
    """The part of the runs that goes to the value an event speaks for.

    The variance a/m + b/n of the log-ratio is least, for m + n fixed, where n/m is the root of b/a.
    """
    return np.asarray(1 / (1 + np.clip(deviation(shares[1]) / deviation(shares[0], slack), 1.0, 50.0)))


def choose_event(first: Outputs, second: Outputs, tested: int, slack: float = 0.0) -> Choice | None:
    """The event that tells two samples apart best when it is tested on so many runs; None where they look alike.

    ``slack`` is what a claim lets every event be likelier by: rare events say nothing then.
    """
    half, other = len(first) // 2, len(second) // 2
    best: Choice | None = None
    for feature in features(first[:half], second[:other]):
        most = None if best is None and feature.kind in ("coordinate", "score") else _SAMPLE
        pair = [feature.compute(first), feature.compute(second)]
        learn = [np.sort(pair[0][:half][:most]), np.sort(pair[1][:other][:most])]
        check = [first[half:][:most], second[other:][:most]]
        for swapped in (False, True):
            a, b = learn[::-1] if swapped else learn
            for event in _candidates(feature, a, b, slack):
                score, shares = _guarantee(event, check[int(swapped)], check[1 - int(swapped)], tested, slack)
                needed = 0.0 if best is None else best.score + _SIMPLER * (feature.kind == "score")
                if score > needed:
                    best = Choice(event=event, swapped=swapped, score=score, shares=shares)
    return best


def choose_by_ratio(feature: Feature, first: Outputs, second: Outputs, tested: int, slack: float) -> Choice | None:
    """From where on the likelihood ratio proves most, where it is known: no other event does better (Neyman–Pearson).

    With L the logarithm of the ratio, P(L ≥ t | x') is the mean of e^−L over outputs for x with L ≥ t. So outputs for
    one value tell both probabilities, and the second even where it is too small to be seen.
    """
    best: Choice | None = None
    ratios = feature.compute(first), -feature.compute(second)
    for swapped, own, other in ((False, ratios[0], -ratios[1]), (True, ratios[1], -ratios[0])):
        downwards = np.sort(own)[::-1]
        ranks = np.unique(np.geomspace(min(30, len(own)), len(own), 80).astype(int))
        edges = downwards[ranks - 1]
        # Ratios that differ by rounding alone lie on one side of the edge.
        edges = edges - 1e-9 * np.maximum(1.0, np.abs(edges))
        odds = np.exp(np.minimum(-downwards, 700.0))
        mean, square = (np.cumsum(powers)[ranks - 1] / ranks for powers in (odds, np.minimum(odds, 1e150) ** 2))
        hits = len(other) - np.searchsorted(np.sort(other), edges)
        over, under, scores = _guaranteed(ranks, len(own), mean, square, hits, len(other), tested, slack)
        at = int(np.argmax(scores))
        if scores[at] > 0 and (best is None or scores[at] > best.score):
            edge = float(edges[at])
            low, high = (-math.inf, -edge) if swapped else (edge, math.inf)
            event = Event(feature=feature, low=low, high=high)
            shares = float(over[at]), float(under[at])
            best = Choice(event=event, swapped=swapped, score=float(scores[at]), shares=shares)
    return best


def as_range(event: Event, outputs: Outputs) -> Event:
    """The same as a range of the output itself, where outputs of one number say that it is one; or the event.

    It is easier to say, and looked for much faster.
    """
    if outputs.shape[1] != 1 or event.feature.kind != "ratio":
        return event
    numbers = np.sort(outputs[:, 0])
    inside = event(numbers[:, None])
    # The segment that holds most of the event, less what else it holds: nothing is cut off for one odd output.
    gained = np.concatenate([[0], np.cumsum(np.where(inside, 1, -1))])
    begins = np.minimum.accumulate(gained)
    last = int(np.argmax(gained - begins))
    first = int(np.argmax(gained[: last + 1] == begins[last]))
    if gained[last] - begins[last] < (1 - _SIMPLER) * inside.sum() or last - first in (0, len(numbers)):
        return event
    ends = [
        math.inf if at == len(numbers) else -math.inf if at == 0 else float((numbers[at - 1] + numbers[at]) / 2)
        for at in (first, last)
    ]
    return Event(feature=_coordinate(0, "the output"), low=ends[0], high=ends[1])


def scored_by_ratio(event: Event, ratios: Floats, first: Outputs, second: Outputs, tested: int, slack: float) -> Choice:
    """An event of a ratio that was chosen elsewhere, by outputs for the value it speaks for and for the other.

    Args:
        event: a range of the ratio.
        ratios: logarithms of the ratio for the first outputs.
        first: outputs for the value that the event speaks for.
        second: outputs for the other value.
        tested: runs that it will be tested on.
        slack: what a claim allows every event to be likelier by.
    """
    seen = event(first)
    odds = np.exp(np.minimum(-ratios[seen], 700.0)) if seen.any() else np.ones(1)
    rank, hits = np.array([max(1, int(seen.sum()))]), np.array([int(event(second).sum())])
    mean, square = (np.array([powers.mean()]) for powers in (odds, np.minimum(odds, 1e150) ** 2))
    over, under, score = _guaranteed(rank, len(first), mean, square, hits, len(second), tested, slack)
    return Choice(event=event, swapped=False, score=float(score[0]), shares=(float(over[0]), float(under[0])))


def _guaranteed(
    ranks: npt.NDArray[np.int64],
    size: int,
    mean: Floats,
    square: Floats,
    hits: npt.NDArray[np.int64],
    other_size: int,
    tested: int,
    slack: float,
) -> tuple[Floats, Floats, Floats]:
    """Shares of events for both values, and the bounds that tests are likely to prove, by a likelihood ratio.

    ``ranks`` of ``size`` outputs for the first value are in the event, where e^−L has this mean and mean square;
    ``hits`` of the other's.
    """
    over = ranks / size
    # What is not known of a mean of e^−L is little where L hardly differs: both shares are off by the same factor.
    # Many edges and situations are compared, and the best looks better than it is.
    unsure, apart = 1 / np.sqrt(ranks), np.sqrt(np.maximum(square / mean**2 - 1, 0.0) / ranks)
    # An estimated ratio may guarantee what does not come: more hits for the other value than it allows.
    least = (hits - 3 * np.sqrt(hits)) / other_size
    under = np.clip(np.maximum(over * mean * (1 + apart), least), 0.0, 1.0)
    return over, under, _expected_bound(over * (1 - unsure), under * (1 - unsure), tested, slack)


def _expected_bound(over: Floats, under: Floats, tested: int, slack: float) -> Floats:
    """What a test at 97.5 % proves of events with these probabilities, if counts are as expected.

    Where the least favourable pair lies for large counts: each probability off by as many deviations as its part in the
    deviation of the log-ratio. Runs are split as ``Trial.split`` does it.
    """
    from scipy.special import betaincinv, ndtr

    with np.errstate(divide="ignore", invalid="ignore"):
        top = tested * split_runs((over, under), slack)
        bottom = tested - top
        apart = deviation(over, slack) / np.sqrt(top), deviation(under) / np.sqrt(bottom)
        away = 2.5 / np.hypot(*apart)
        low = betaincinv(over * top, top - over * top + 1, ndtr(-away * apart[0]))
        high = betaincinv(under * bottom + 1, bottom - under * bottom, ndtr(away * apart[1]))
        bounds = np.where(low > slack, np.log(np.maximum(low - slack, 1e-300)) - np.log(high), -np.inf)
    return np.asarray(np.nan_to_num(bounds, nan=-np.inf))


def _guarantee(
    event: Event, top: Outputs, bottom: Outputs, tested: int, slack: float
) -> tuple[float, tuple[float, float]]:
    """The bound that a test on so many runs is likely to prove, by how often the event is seen in these samples."""
    hits = float(event(top).sum()), float(event(bottom).sum())
    shares = (hits[0] + 0.5) / (len(top) + 1), (hits[1] + 0.5) / (len(bottom) + 1)
    if shares[0] <= slack:
        return -math.inf, shares
    part = float(split_runs(shares, slack))
    sizes = part * tested, (1 - part) * tested
    taken = math.hypot(
        float(deviation(shares[0], slack)) / math.sqrt(sizes[0]), float(deviation(shares[1])) / math.sqrt(sizes[1])
    )
    counts = np.array(hits[0]), np.array(hits[1])
    seen = float(careful_ratio(*counts, len(top), len(bottom), 1.0, slack))
    # So few hits are expected of a test that they are as well as none: no more than this can be proved.
    most = math.log(shares[0] - slack) + math.log(sizes[1] / 3) if shares[0] > slack else -math.inf
    return min(seen - 2.5 * taken, most), shares


def careful_ratio(
    top: Counts, bottom: Counts, top_size: int, bottom_size: int, careful: float, slack: float = 0.0
) -> Counts:
    """The log-ratio of two shares from counts, the first less a slack, less some standard deviations of it."""
    share = (top + 0.5) / top_size
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(share > slack, share - slack, 0.0)
        noise = np.sqrt((share / left) ** 2 / (top + 0.5) + 1 / (bottom + 0.5))
        ratio = np.log(left) - np.log((bottom + 0.5) / bottom_size) - careful * noise
    return np.asarray(np.where(left > 0, ratio, -np.inf))


def _candidates(feature: Feature, top: Floats, bottom: Floats, slack: float) -> Iterator[Event]:
    """The best range and the best union of single values, on sorted samples."""
    if feature.spread:
        for low, high in _best_ranges(top, bottom, slack):
            yield Event(feature=feature, low=low, high=high)
    if feature.atoms:
        for values in _best_atoms(top, bottom, slack):
            yield Event(feature=feature, values=values)


def _best_ranges(top: Floats, bottom: Floats, slack: float = 0.0) -> list[tuple[float, float]]:
    """Where one sample has most more than the other, by several degrees of care: with much, wider ranges win."""
    pooled = np.sort(np.concatenate([top, bottom]))
    n, count = len(pooled), 64  # quantiles; more of them in the tails
    tails = 2 ** np.arange(2, max(2, n // count).bit_length())
    at = np.unique(pooled[np.concatenate([tails, n - 1 - tails, np.arange(count) * (n - 1) // (count - 1)])])
    # Between the quantiles: values that lie in heaps, a little apart by rounding, stay together.
    edges = np.concatenate([[-np.inf], (at[1:] + at[:-1]) / 2, [np.inf]])
    over, under = (np.searchsorted(sample, edges).astype(float) for sample in (top, bottom))
    begin, end = np.triu_indices(len(edges), 1)
    scores, ranges = np.full((len(edges), len(edges)), -np.inf), set()
    for careful in _CARE:
        counts = over[end] - over[begin], under[end] - under[begin]
        scores[begin, end] = careful_ratio(*counts, len(top), len(bottom), careful, slack)
        i, j = divmod(int(np.argmax(scores)), len(edges))
        # One limit is easier to say than two, where the other hardly matters.
        if scores[0, j] >= scores[i, j] - _SIMPLER:
            i = 0
        elif scores[i, -1] >= scores[i, j] - _SIMPLER:
            j = len(edges) - 1
        ranges.add((float(edges[i]), float(edges[j])))
    return sorted(ranges - {(-math.inf, math.inf)})


def _best_atoms(top: Floats, bottom: Floats, slack: float = 0.0) -> list[Floats]:
    """Values by how much likelier they are, the best first, as many as do best together; nothing where few repeat."""
    values, where = np.unique(np.concatenate([top, bottom]), return_inverse=True)
    if len(values) > 0.9 * (len(top) + len(bottom)):
        return []
    over = np.bincount(where[: len(top)], minlength=len(values))
    under = np.bincount(where[len(top) :], minlength=len(values))
    order = np.argsort(-(over + 0.5) / (under + 0.5), kind="stable")
    counts = np.cumsum(over[order]).astype(float), np.cumsum(under[order]).astype(float)
    # The whole of them is no event.
    sizes = {int(np.argmax(careful_ratio(*counts, len(top), len(bottom), careful, slack))) + 1 for careful in _CARE}
    return [np.sort(values[order[:size]]) for size in sorted(sizes - {len(values)})]


def proved_leakage(low: float, high: float, delta: float) -> float:
    """The least epsilon with low ≤ e^epsilon·high + delta."""
    if low <= delta:
        return 0.0
    return max(0.0, math.log(low - delta) - math.log(high)) if high > 0 else math.inf


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What fresh draws prove about an event, by a test of both probabilities together.

    A pair (p, p') of probabilities is rejected where the counts are too far from it: z = Φ⁻¹(1 − P) for the
    probability P of as many hits or more by p, z' for that of as few or fewer by p', and w·z + w'·z' passes what a
    normal variable does with the error allowed (Stouffer), or z or z' alone passes what it does with a small part of
    it. P and P' are independent and never too small too often, so the true pair is kept as often as guaranteed.
    What is proved is the least leakage of the pairs that are kept. With weights in proportion to the deviations of
    the two logarithms that is √2 times nearer to the truth than a bound for each, and more. Weights are set before.
    """

    hits: tuple[int, int]
    """Outputs in the event, for the value it speaks for and for the other."""
    runs: tuple[int, int]
    delta: float
    """It is wrong with probability at most this."""
    weights: tuple[float, float] = (1.0, 1.0)
    """Of either count, whatever their sum."""
    slack: float = 0.0
    """The delta that a claim allows."""

    def pair(self, slack: float) -> tuple[float, float]:
        """Probabilities that leak least beside a slack among those that are kept; (0, 1) where they leak nothing.

        The border z = a, z' = (c − w·a)/w' is cut into pieces. In each the first probability is at least what it is at
        one end and the second at most what it is at the other, so no pair between two ends is overlooked.
        """
        if self.hits[0] == 0 or self.hits[1] == self.runs[1]:
            return 0.0, 1.0
        with np.errstate(divide="ignore"):
            low, high = self._border
            leaks = np.log(np.maximum(low - slack, 0.0)) - np.log(high)
        at = int(np.argmin(leaks))
        return float(low[at]), float(high[at])

    @cached_property
    def _border(self) -> tuple[Floats, Floats]:
        from scipy.special import betaincinv, ndtr, ndtri

        # Either probability on its own may take a twentieth of the error. No weight is below a fiftieth of their norm:
        # the border is cut evenly along the first.
        w, v = (max(weight / math.hypot(*self.weights), 0.02) for weight in self.weights)
        most, limit = -ndtri(0.05 * self.delta), -ndtri(0.9 * self.delta) * math.hypot(w, v)
        first = np.linspace((limit - v * most) / w, most, 257)
        second = (limit - w * first) / v
        low = betaincinv(self.hits[0], self.runs[0] - self.hits[0] + 1, ndtr(-first[1:]))
        high = betaincinv(self.hits[1] + 1, self.runs[1] - self.hits[1], ndtr(second[:-1]))
        return np.asarray(low), np.asarray(high)

    def beside(self, slack: float) -> float:
        """The leakage that is proved beside a slack: P ≤ e^leakage·P' + slack holds for no smaller one."""
        return proved_leakage(*self.pair(slack), slack)

    @property
    def lower(self) -> float:
        """The leakage that is proved beside the slack of the claim."""
        return self.beside(self.slack)

    @property
    def shares(self) -> tuple[float, float]:
        """How often the event was seen."""
        return self.hits[0] / self.runs[0], self.hits[1] / self.runs[1]


def weights_of(shares: tuple[float, float], runs: tuple[int, int], slack: float) -> tuple[float, float]:
    """What a test should weigh two counts by: the deviations of the logarithms of these shares."""
    first, second = float(deviation(shares[0], slack)), float(deviation(shares[1]))
    return first / math.sqrt(runs[0]), second / math.sqrt(runs[1])
