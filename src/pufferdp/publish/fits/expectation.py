"""Fit a chain on hidden states by expectation and maximisation (Baum et al. 1970), segments of the series side by side.

Every record value has the same number of hidden states, and a record shows its value without error. Random numbers
serve as starting points of the search only; they have fixed seeds and are not noise that protects anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pufferdp.basics.arrays import Floats, Matrix
from pufferdp.basics.progress import Progress, silent
from pufferdp.models.chain import MarkovChain
from pufferdp.models.recursions.filtering import Codes, Kernels, Recursion, Segments, cut
from pufferdp.models.simulate import Generator, seeded


@dataclass(frozen=True, kw_only=True, eq=False)
class Observed:
    """Series of record values that are fitted: -1 is a missing observation. Never printed."""

    series: Sequence[Codes]
    values: int
    """The number of record values."""
    first_slots: Sequence[int] | None = None
    """The time step of the period at which each series begins; None without times."""
    period: int = 1
    """Time steps in a period; 1 without times."""

    @property
    def records(self) -> int:
        """The number of records, without missing observations."""
        return sum(int((codes >= 0).sum()) for codes in self.series)

    def segments(self, slots: int, kinds: int, one_thread: int = 2**18) -> Segments:
        """Segments that are filtered side by side, whose columns have one slot each where there are several.

        ``one_thread`` multiplications in a matrix product are what OpenBLAS does not divide among threads, which would
        wait for each other.
        """
        steps = sum(map(len, self.series))
        if slots > 1:
            made = cut(self.series, longest=self.period, first_slots=self.first_slots, period=self.period)
            return replace(made, slots=made.slots // (self.period // slots))
        # Steps are made one after the other and segments at once, as many as one thread of BLAS multiplies by itself.
        side_by_side = one_thread // (self.values * kinds) ** 2
        return cut(self.series, longest=max(50, steps // max(1, side_by_side)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """Transition matrices between hidden states, with the log-likelihood that the search ended with."""

    kernels: Kernels
    """(slots, h, h): the transition matrices."""
    of: tuple[int, ...]
    """The record value of each hidden state."""
    log_likelihood: float
    """Of the records, by the filter that begins every series in the fitted distribution."""
    steps: int
    """The number of steps that the search took."""


def fit_hidden(
    observed: Observed,
    kinds: int,
    *,
    slots: int = 1,
    begin: Estimate | None = None,
    steps: int = 100,
    restarts: int = 3,
    prior: float = 0.0,
    progress: Progress = silent,
) -> Estimate:
    """The most likely matrices that the search finds, with ``kinds`` hidden states for each record value.

    Args:
        observed: the series.
        kinds: hidden states for each record value.
        slots: matrices that share the period evenly.
        begin: matrices to begin with, of as many or fewer hidden states; further starting points are random.
        steps: the largest number of steps of expectation and maximisation.
        restarts: the number of starting points; each has a tenth of the steps before the best one goes on.
        prior: added to the expected count of every transition between record values.
        progress: called with a few words.
    """
    of = tuple(np.repeat(np.arange(observed.values), kinds).tolist())
    segments = observed.segments(slots, kinds)
    many = 1 if kinds == 1 else restarts
    searches = [
        _Search(segments, of, _starting_point(observed, kinds, slots, begin, n), prior / kinds) for n in range(many)
    ]
    for n, search in enumerate(searches):
        progress(f"fitting {kinds} hidden states a value, start {n + 1} of {many}")
        search.run(max(1, steps // 10))
    best = max(searches, key=lambda search: search.log_likelihood)
    progress(f"fitting {kinds} hidden states a value")
    best.run(steps)
    return Estimate(kernels=best.kernels, of=of, log_likelihood=best.log_likelihood, steps=best.steps)


class _Search:
    """One search from one starting point."""

    def __init__(self, segments: Segments, of: tuple[int, ...], kernels: Kernels, prior: float) -> None:
        self.segments, self.of, self.kernels, self.prior = segments, of, kernels, prior
        self.starts = np.full((len(kernels), len(of)), 1 / len(of))
        self.log_likelihood, self.steps = -np.inf, 0
        self._entries: Floats | None = None
        self._exits: Floats | None = None
        self._records = max(1, int((segments.codes >= 0).sum()))

    def run(self, steps: int, gain: float = 2e-6) -> None:
        """Take steps until a step gains fewer nats a record than ``gain``."""
        while self.steps < steps:
            before = self.log_likelihood
            self._step()
            if 0 <= self.log_likelihood - before < gain * self._records:
                return

    def _step(self) -> None:
        recursion = Recursion(self.kernels, self.of, self.starts)
        # Segments that continue others begin with what those ended with one step earlier: the error vanishes as the
        # search settles, and each step costs one pass forwards and one backwards.
        entries = recursion.first_entries(self.segments) if self._entries is None else self._entries
        forward = recursion.forward(self.segments, entries)
        exits = np.ones_like(entries) if self._exits is None else self._exits
        backward = recursion.backward(self.segments, forward, exits)
        self.log_likelihood = forward.log_likelihood(self.segments)
        self.kernels = maximised(recursion.counts(self.segments, forward, backward), self.prior)
        begins = self.segments.previous < 0
        first = forward.weights[self.segments.first, np.arange(len(begins))] * exits_of(backward, self.segments)
        first = first[begins] / first[begins].sum(axis=1, keepdims=True)
        self.starts = np.tile(first.mean(axis=0), (len(self.kernels), 1))
        following = Recursion(self.kernels, self.of, self.starts)
        self._entries = following.next_entries(self.segments, forward)
        self._exits = following.next_exits(self.segments, backward)
        self.steps += 1


def exits_of(backward: Floats, segments: Segments) -> Floats:
    """The backward weights of the first record of each segment."""
    return np.asarray(backward[segments.first, np.arange(len(segments.first))])


def maximised(counts: Kernels, prior: float = 0.0, shared: float = 64.0) -> Kernels:
    """Transition matrices from expected counts, without small entries.

    Args:
        counts: (slots, h, h), expected transitions.
        prior: added to every count.
        shared: transitions from all slots that count in each slot beside its own. Of 2, 4, 8, 16, 32 and 64 the last
            has the fewest held-out bits on the power data, and on the activity data with two hidden states a value;
            held-out bits of time-of-day models on these data are a little too small for that reason.
    """
    pooled = _rows(counts.sum(axis=0) + prior)
    rows = pooled[None] if len(counts) == 1 else _rows(counts + shared * pooled)
    return _without_small(rows)


def _without_small(rows: Kernels, least: float = 1e-6) -> Kernels:
    """Rows without entries below ``least``: a bound on the leakage rests on ratios of them."""
    return np.asarray(rows * (1 - rows.shape[-1] * least) + least)


def _rows(counts: Floats) -> Floats:
    total = counts.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(counts, total, out=np.full(counts.shape, 1 / counts.shape[-1]), where=total > 0))


def _starting_point(observed: Observed, kinds: int, slots: int, begin: Estimate | None, number: int) -> Kernels:
    """Matrices to begin with: those given first, then random ones that differ in how long a value stays."""
    generator = seeded(1000 * kinds + number)
    if begin is not None and number == 0:
        kernel = begin.kernels if len(begin.kernels) == slots else np.repeat(begin.kernels[:1], slots, axis=0)
        have = len(begin.of) // observed.values
        table = kernel if have == kinds else _split(kernel, observed.values, have, kinds, generator)
    else:
        table = np.repeat(_random_split(_first_order(observed), kinds, generator)[None], slots, axis=0)
    return _without_small(table)


def _first_order(observed: Observed) -> Matrix:
    """The transition matrix of the records, every transition counted half a time more."""
    counts = np.full((observed.values, observed.values), 0.5)
    for codes in observed.series:
        seen = (codes[:-1] >= 0) & (codes[1:] >= 0)
        np.add.at(counts, (codes[:-1][seen], codes[1:][seen]), 1)
    return _rows(counts)


def _random_split(chain: Matrix, kinds: int, generator: Generator) -> Matrix:
    """A matrix between hidden states whose record values follow the chain on average, kinds staying unequally long."""
    k = len(chain)
    out = np.empty((k, kinds, k, kinds))
    for x in range(k):
        leave = max(1 - chain[x, x], 1e-3)
        rates = np.clip(leave * 4.0 ** np.linspace(1, -1, kinds), 1e-3, 0.9) if kinds > 1 else np.array([leave])
        away = chain[x].copy()
        away[x] = 0
        away = away / away.sum() if away.sum() > 0 else np.ones(k) / k
        for i in range(kinds):
            # Half of the stays keep their kind; the rest, and arrivals, are dealt at random.
            out[x, i] = rates[i] * away[:, None] * generator.dirichlet(np.ones(kinds), size=k)
            out[x, i, x] += (1 - rates[i]) * (0.9 * (np.arange(kinds) == i) + 0.1 * generator.dirichlet(np.ones(kinds)))
    table = out.reshape(k * kinds, k * kinds)
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def _split(kernels: Kernels, values: int, have: int, kinds: int, generator: Generator) -> Kernels:
    """Matrices with more hidden states a value: the most frequent one of each value is divided, unequally."""
    usual = MarkovChain(transition=_rows(kernels.mean(axis=0))).stationary
    origin, share = [], []
    for x in range(values):
        own = list(range(x * have, (x + 1) * have))
        frequent = own[int(np.argmax(usual[own]))]
        origin += own + [frequent] * (kinds - have)
        share += [1.0 if z != frequent else 1 / (kinds - have + 1) for z in own] + [1 / (kinds - have + 1)] * (
            kinds - have
        )
    table = kernels[:, origin][:, :, origin] * np.array(share)
    table = table * np.exp(0.5 * generator.standard_normal(table.shape[1:]))
    return np.asarray(table / table.sum(axis=2, keepdims=True))


def log_scores(estimate: Estimate, observed: Observed) -> list[Floats]:
    """For each series the log-likelihood of each record given those before it; 0 for missing observations."""
    slots = len(estimate.kernels)
    segments = observed.segments(slots, len(estimate.of) // observed.values)
    usual = MarkovChain(transition=_rows(estimate.kernels.mean(axis=0))).stationary
    recursion = Recursion(estimate.kernels, estimate.of, np.tile(usual, (slots, 1)), tolerance=1e-6)
    return segments.joined(np.log(recursion.forward(segments).likelihoods))
