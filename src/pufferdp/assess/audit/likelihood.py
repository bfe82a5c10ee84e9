"""How much likelier an output is for one value of a record than for another: the score that events are best made of.

By Neyman and Pearson's lemma no event of the same probability tells two values apart better than a range of the
likelihood ratio. It is computed where the distribution of the output is known, and estimated from runs where it is not.
Either way events are tested on fresh runs, so a poor estimate costs power and never truth.

Two kinds of outputs with many numbers have a ratio here: one number for each record, drawn for it alone (flips,
redactions, streams), where it is a forward-backward pass; and the number of records in each state with noise
(histograms), where it is a mixture over the counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from pufferdp.assess.attack.attackers import first_distribution
from pufferdp.assess.audit.mechanisms.ours import (
    AuditedMechanism,
    FlippedSeries,
    NoisyQuery,
    Outputs,
    Records,
    RedactedSeries,
)
from pufferdp.assess.audit.priors import ChainPrior, Prior
from pufferdp.assess.audit.situations import Situation, unknown_segment
from pufferdp.basics.arrays import Floats

Codes = npt.NDArray[np.int64]

_CELLS: Final = 4_000_000
"""Numbers of one table while a mixture is summed, so that memory stays bounded."""
_DRAWN: Final = 20_000
"""Data sets drawn for the distribution of the counts."""
_MIXED: Final = 200
"""Counts that a mixture is summed over, the most frequent first: so many are all there are of a window."""


class OutputDistribution(Protocol):
    """What is known, or was learnt, about how outputs come from records."""

    @property
    def words(self) -> str:
        """What the ratio is, as the subject of a sentence."""

    @property
    def exact(self) -> bool:
        """Whether the ratio is computed from the mechanism's own distribution."""

    def log_ratio(self, situation: Situation, first: float, second: float, outputs: Outputs) -> Floats:
        """For each row how much likelier it is where the target has the first value."""


@dataclass(frozen=True, kw_only=True)
class ComputedEvent:
    """The outputs of some records together, and how likely they are by the distribution of the mechanism."""

    leakage: float
    """How much likelier they are for one value of the target than for another: nothing is estimated."""
    chances: tuple[float, float]
    first: int
    """The first of these records, counted from 0."""
    codes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RecordDistributions:
    """Each number of the output is drawn for its own record, independently given the records."""

    tables: Floats
    """By record, state and code: how likely the code is."""
    cuts: Floats
    """Between these numbers outputs have the same code."""
    exact: bool

    @property
    def words(self) -> str:
        """Whether the ratio is computed or estimated."""
        how = "computed" if self.exact else "as estimated"
        return f"the logarithm of the likelihood ratio ({how})"

    def codes(self, situation: Situation, outputs: Outputs) -> Codes:
        """Which code each number has, where what is known leaves its record open; 0 elsewhere."""
        left, right = unknown_segment(situation)
        open_records = slice(situation.target - left, situation.target + right + 1)
        codes = np.zeros(outputs.shape, dtype=np.int64, order="F")
        for cut in self.cuts:
            codes[:, open_records] += outputs[:, open_records] >= cut
        return codes

    def log_ratio(self, situation: Situation, first: float, second: float, outputs: Outputs) -> Floats:
        """The target's posterior odds over its prior odds, by one pass from either side."""
        logs = self._log_weights(situation, self.codes(situation, outputs), 0, len(self.tables))
        prior = self._log_weights(situation, np.zeros((1, len(self.tables)), dtype=np.int64), 0, 0)
        with np.errstate(invalid="ignore"):  # a value that is impossible beforehand is no number here, and never asked
            logs = logs - prior
            ratio = logs[:, int(first)] - logs[:, int(second)]
        return np.asarray(np.nan_to_num(ratio, nan=0.0, posinf=1e300, neginf=-1e300))

    def _log_weights(self, situation: Situation, codes: Codes, low: int, high: int) -> Floats:
        """Of each value of the target, together with what is known and the outputs of records low to high − 1."""
        prior = situation.prior
        assert isinstance(prior, ChainPrior)
        table, held, i = prior.chain.transition, dict(situation.known), situation.target
        left, right = unknown_segment(situation)
        begin, end = i - left, i + right
        distribution = first_distribution(prior.chain) if begin == 0 else table[int(held[begin - 1])]
        ahead, logs = np.tile(np.asarray(distribution), (len(codes), 1)), np.zeros((len(codes), 1))
        for t in range(begin, i + 1):
            if t > begin:
                ahead = ahead @ table
            ahead, logs = self._seen(ahead, logs, t, codes, low, high)
        last = np.ones(len(table)) if end == prior.records - 1 else table[:, int(held[end + 1])]
        back = np.tile(np.asarray(last), (len(codes), 1))
        for t in range(end, i, -1):
            back, logs = self._seen(back, logs, t, codes, low, high)
            back = back @ table.T
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(ahead) + np.log(back) + logs)

    def _seen(self, weights: Floats, logs: Floats, t: int, codes: Codes, low: int, high: int) -> tuple[Floats, Floats]:
        """With the output of a record, where it is looked at; scaled now and then, so that nothing gets too small."""
        if low <= t < high:
            weights = weights * self.tables[t].T[codes[:, t]]
        if t % 8:
            return weights, logs
        most = weights.max(axis=1, keepdims=True)
        most = np.where(most > 0, most, 1.0)
        return weights / most, logs + np.log(most)

    def worst_output(self, situation: Situation, first: float, second: float) -> ComputedEvent:
        """The outputs near the target that speak most for the first value.

        Begun with those that do so record by record, and changed one at a time as long as the ratio grows. Wherever
        that ends, the probabilities are those of the mechanism.
        """
        i, n, kinds = situation.target, len(self.tables), self.tables.shape[2]
        left, right = unknown_segment(situation)
        low, high = max(0, i - min(left, 64)), min(n, i + min(right, 64) + 1)
        a, b = int(first), int(second)
        prior = self._log_weights(situation, np.zeros((1, n), dtype=np.int64), 0, 0)[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            start = np.log(self.tables[:, a]) - np.log(self.tables[:, b])
        codes = np.nan_to_num(start, nan=-np.inf).argmax(axis=1)
        best, chances = -math.inf, (0.0, 0.0)
        changes = [(t, code) for t in range(low, high) for code in range(kinds)]
        while True:
            rows = np.tile(codes, (1 + len(changes), 1))
            rows[np.arange(1, len(rows)), [t for t, _ in changes]] = [code for _, code in changes]
            # An output that neither value allows says nothing; one that only the first allows says all.
            with np.errstate(invalid="ignore"):  # values that are impossible beforehand are no numbers, and not asked
                logs = self._log_weights(situation, rows, low, high) - prior
                ratios = np.where(logs[:, a] > -np.inf, logs[:, a] - logs[:, b], -np.inf)
            at = int(np.argmax(ratios))
            if not ratios[at] > best + 1e-9:  # sums of logarithms err by less
                seen = tuple(int(code) for code in codes[low:high])
                return ComputedEvent(leakage=max(0.0, best), chances=chances, first=low, codes=seen)
            best, codes = float(ratios[at]), rows[at]
            chances = float(np.exp(logs[at, a])), float(np.exp(logs[at, b]))


@dataclass(frozen=True, eq=False)
class _Tally:
    """Sums that were drawn, by a number for each."""

    hashes: npt.NDArray[np.uint64]
    """One number for each sum that was drawn, sorted."""
    sums: Floats
    shares: Floats


@dataclass(frozen=True, eq=False)
class CountDistributions:
    """Sums of what each record adds by its state, with independent noise on each: a histogram, a count."""

    columns: Floats
    """What a record of each state (row) adds to each number of the output (column)."""
    scale: float
    laplace: bool
    exact: bool
    generator: np.random.Generator
    drawn: dict[object, _Tally] = field(default_factory=dict)
    """Sums that were drawn, by situation and value."""
    mixed: dict[object, tuple[Floats, Floats]] = field(default_factory=dict)
    """Sums and how often they were drawn for each of two values, by situation and values."""
    name: str = "an emulation"
    dp_loss: float | None = None

    @property
    def words(self) -> str:
        """The noise is known or fitted; the distribution of the counts is drawn."""
        how = "the noise is known" if self.exact else "as estimated"
        return f"the logarithm of the likelihood ratio ({how})"

    def sums(self, records: Records) -> Floats:
        """What a data set comes to without noise."""
        return np.asarray(counted(records, len(self.columns)) @ self.columns)

    def run(self, records: Records) -> Outputs:
        """Outputs drawn from this distribution, in place of the mechanism's."""
        exact = self.sums(records)
        noise = self.generator.laplace if self.laplace else self.generator.normal
        return np.asarray(exact + noise(0.0, self.scale, exact.shape))

    def fits(self, rest: Floats) -> bool:
        """Whether what is left of outputs beside the sums looks like this noise: Kolmogorov and Smirnov's distance."""
        from scipy.special import ndtr

        x = np.sort(rest.ravel()) / self.scale
        below = np.where(x < 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2) if self.laplace else ndtr(x)
        apart = np.abs(below - (np.arange(len(x)) + 0.5) / len(x)).max()
        return bool(apart < 2.5 / math.sqrt(len(x)))  # true noise lies farther off with probability 1e-5

    def log_ratio(self, situation: Situation, first: float, second: float, outputs: Outputs) -> Floats:
        """A mixture over the counts that were drawn for either value."""
        sums, chances = self._distributions(situation, first, second)
        step = max(1, _CELLS // (len(sums) * (2 + sums.shape[1])))
        parts = [self._mixtures(outputs[at : at + step], sums, chances) for at in range(0, len(outputs), step)]
        return np.concatenate(parts)

    def _distributions(self, situation: Situation, first: float, second: float) -> tuple[Floats, Floats]:
        """The most frequent sums for either value, and how often each was drawn for both."""
        key = (*situation.key, first, second)
        if key not in self.mixed:
            if len(self.mixed) > 64:
                self.mixed.clear()
                self.drawn.clear()
            tallies = [self._drawn(situation, value) for value in (first, second)]
            hashes, at = np.unique(np.concatenate([t.hashes for t in tallies]), return_index=True)
            chances = np.zeros((len(hashes), 2))
            for column, tally in enumerate(tallies):
                chances[np.searchsorted(hashes, tally.hashes), column] = tally.shares
            most = np.union1d(*(np.argsort(-shares, kind="stable")[:_MIXED] for shares in chances.T))
            self.mixed[key] = np.concatenate([t.sums for t in tallies])[at[most]], chances[most]
        return self.mixed[key]

    def _drawn(self, situation: Situation, value: float) -> _Tally:
        """What the sums are for one value of the target, and how often."""
        key = (*situation.key, value)
        if key not in self.drawn:
            counts = counted(situation.prior.draw(situation.given(value), _DRAWN, self.generator), len(self.columns))
            # Rows by one number each: that two share it is as good as impossible, and would cost power alone.
            factors = np.random.default_rng(0).integers(2**63, size=counts.shape[1], dtype=np.uint64)
            hashes, at, seen = np.unique(
                (counts.astype(np.uint64) * factors).sum(axis=1), return_index=True, return_counts=True
            )
            self.drawn[key] = _Tally(hashes, counts[at] @ self.columns, seen / _DRAWN)
        return self.drawn[key]

    def _mixtures(self, outputs: Outputs, sums: Floats, chances: Floats) -> Floats:
        """The logarithm of the ratio of two mixtures.

        Noise is independent from number to number, so its density is a product of one factor for each sum that a
        number may have: exponentials are taken of these alone, relative to the largest.
        """
        terms = np.ones((len(outputs), len(sums)))
        for number in range(sums.shape[1]):
            values, where = np.unique(sums[:, number], return_inverse=True)
            apart = np.abs(outputs[:, number, None] - values) / self.scale
            logs = -apart if self.laplace else -(apart**2) / 2
            terms *= np.exp(logs - logs.max(axis=1, keepdims=True))[:, where.ravel()]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(terms @ chances)
            # What is too small for a number on both sides says nothing; on one side, that it is hardly possible.
            return np.asarray(np.nan_to_num(logs[:, 0] - logs[:, 1], nan=0.0, posinf=1e300, neginf=-1e300))


def counted(records: Records, states: int) -> Codes:
    """How many records of each row are in each state."""
    return np.stack([(records == x).sum(axis=1) for x in range(states)], axis=1)


def known_distribution(
    mechanism: AuditedMechanism, prior: Prior, generator: np.random.Generator
) -> OutputDistribution | None:
    """The distribution of a mechanism of this package on a chain; None for others."""
    if not isinstance(prior, ChainPrior):
        return None
    states = prior.chain.size
    if isinstance(mechanism, FlippedSeries):
        tables = np.tile(mechanism.channel, (prior.records, 1, 1))
        return RecordDistributions(tables, np.arange(1.0, states) - 0.5, exact=True)
    if isinstance(mechanism, RedactedSeries):
        hidden = np.array(mechanism.design.probabilities())
        shown = (1 - hidden)[:, :, None] * np.eye(states)
        tables = np.concatenate([hidden[:, :, None], shown], axis=2)
        return RecordDistributions(tables, np.arange(0.0, states) - 0.5, exact=True)
    if isinstance(mechanism, NoisyQuery):
        return CountDistributions(mechanism.added, mechanism.scale, laplace=True, exact=True, generator=generator)
    return None


def learnt_distribution(
    prior: Prior, records: Records, outputs: Outputs, generator: np.random.Generator
) -> OutputDistribution | None:
    """The distribution that fits runs on a chain, where outputs have one number, or one for each record or state."""
    if not isinstance(prior, ChainPrior):
        return None
    if outputs.shape[1] == 1:
        return _learnt_sum(prior, records, outputs, generator)
    if outputs.shape[1] == prior.records:
        return _learnt_records(prior, records, outputs)
    if outputs.shape[1] == prior.chain.size:
        return _learnt_counts(prior, records, outputs, generator)
    return None


def _learnt_sum(
    prior: ChainPrior, records: Records, outputs: Outputs, generator: np.random.Generator
) -> CountDistributions | None:
    """One number that adds up over the records, by least squares; whole numbers, or shares of them, where these fit."""
    counts = counted(records, prior.chain.size).astype(float)
    added = np.linalg.lstsq(counts, outputs, rcond=None)[0]
    wide = float((outputs - counts @ added).std())
    for unit in (1.0, 1 / prior.records):
        whole = np.round(added / unit) * unit
        rest = float((outputs - counts @ whole).std())
        if rest <= wide * (1 + 2 / len(outputs) ** 0.5):
            added = whole
            break
    return _noisy_sums(added, outputs - counts @ added, generator)


def _learnt_records(prior: ChainPrior, records: Records, outputs: Outputs) -> RecordDistributions:
    """Shares of each code by record and state; half a run is added to each, so that none is 0."""
    values = np.unique(outputs)
    if len(values) <= 16:
        cuts = (values[1:] + values[:-1]) / 2
    else:  # numbers that hardly ever repeat, in sixteen ranges of equal share
        cuts = np.unique(np.quantile(outputs, np.linspace(0, 1, 17)))[1:-1]
    codes = np.searchsorted(cuts, outputs, side="right")
    kinds, states, n = len(cuts) + 1, prior.chain.size, prior.records
    cells = (np.arange(n) * states + records) * kinds + codes
    counts = np.bincount(cells.ravel(), minlength=n * states * kinds).reshape(n, states, kinds) + 0.5
    return RecordDistributions(counts / counts.sum(axis=2, keepdims=True), cuts, exact=False)


def _learnt_counts(
    prior: ChainPrior, records: Records, outputs: Outputs, generator: np.random.Generator
) -> CountDistributions | None:
    """Noise on counts or on shares of them, whichever leaves less; None where neither is like the outputs."""
    states = prior.chain.size
    counts = counted(records, states)
    fits = []
    for unit in (1.0, 1 / prior.records):
        rest = outputs - unit * counts
        fits.append((float(rest.std()) / unit, unit, rest - rest.mean()))
    _, unit, rest = min(fits, key=lambda fit: fit[0])
    return _noisy_sums(unit * np.eye(states), rest, generator)


def _noisy_sums(columns: Floats, rest: Floats, generator: np.random.Generator) -> CountDistributions | None:
    """With noise like what is left of the outputs; None where nothing is."""
    if float(rest.std()) == 0:
        return None
    # Half way between the kurtosis of normal noise, 3, and of Laplace noise, 6.
    laplace = float((rest**4).mean() / (rest**2).mean() ** 2) > 4.5
    scale = float(np.abs(rest).mean()) if laplace else float(rest.std())
    return CountDistributions(columns, scale, laplace=laplace, exact=False, generator=generator)
