"""How much likelier an output is for one value of a record than for another: the score that events are best made of.

By Neyman and Pearson's lemma no event of the same probability tells two values apart better than a range of the
likelihood ratio. It is computed where the law of the output is known, and estimated from runs where it is not. Either
way events are tested on fresh runs, so a poor estimate costs power and never truth.

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

from pufferdp.assess.attack.attackers import first_law
from pufferdp.assess.audit.beliefs import Belief, ChainBelief
from pufferdp.assess.audit.mechanisms.ours import (
    AuditedMechanism,
    FlippedSeries,
    NoisyQuery,
    Outputs,
    Records,
    RedactedSeries,
)
from pufferdp.assess.audit.situations import Situation, unknown_stretch
from pufferdp.basics.arrays import Floats
from pufferdp.publish.answers.queries import QueryKind

Codes = npt.NDArray[np.int64]

_BINS: Final = 16
"""Into so many ranges of equal share numbers are cut that hardly ever repeat."""
_DRAWN: Final = 20_000
"""Data sets drawn for the law of the counts."""
_CELLS: Final = 4_000_000
"""Numbers of one table while a mixture is summed, so that memory stays bounded."""
_ASKED: Final = 64
"""Records on either side of the target whose outputs make up a computed event."""
_ROUNDING: Final = 1e-9
"""A step must do better by so much: sums of logarithms err by less."""
_MIXED: Final = 200
"""Counts that a mixture is summed over, the most frequent first: so many are all there are of a window."""
_REMEMBERED: Final = 64
"""Laws of counts that are kept."""
_HEAVY_TAILS: Final = 4.5
"""Half way between the kurtosis of normal noise, 3, and of Laplace noise, 6."""


class OutputLaw(Protocol):
    """What is known, or was learnt, about how outputs come from records."""

    @property
    def words(self) -> str:
        """What the ratio is, as the subject of a sentence."""

    @property
    def exact(self) -> bool:
        """Whether the ratio is computed from the mechanism's own law."""

    def log_ratio(self, situation: Situation, first: float, second: float, outputs: Outputs) -> Floats:
        """For each row how much likelier it is where the target has the first value."""


@dataclass(frozen=True, kw_only=True)
class ComputedEvent:
    """The outputs of some records together, and how likely they are by the law of the mechanism."""

    leakage: float
    """How much likelier they are for one value of the target than for another: nothing is estimated."""
    chances: tuple[float, float]
    first: int
    """The first of these records, counted from 0."""
    codes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RecordLaws:
    """Each number of the output is drawn for its own record, independently given the records."""

    tables: Floats
    """By record, state and code: how likely the code is."""
    cuts: Floats
    """Between these numbers outputs have the same code."""
    exact: bool

    @property
    def words(self) -> str:
        """Computed or estimated."""
        how = "computed" if self.exact else "as estimated"
        return f"the logarithm of the likelihood ratio ({how})"

    def codes(self, outputs: Outputs) -> Codes:
        """Which code each number has."""
        return np.asarray(np.searchsorted(self.cuts, outputs, side="right"), dtype=np.int64)

    def log_ratio(self, situation: Situation, first: float, second: float, outputs: Outputs) -> Floats:
        """The target's posterior odds over its prior odds, by one pass from either side."""
        logs = self._log_weights(situation, self.codes(outputs), 0, len(self.tables))
        prior = self._log_weights(situation, np.zeros((1, len(self.tables)), dtype=np.int64), 0, 0)
        with np.errstate(invalid="ignore"):  # a value that is impossible beforehand is no number here, and never asked
            logs = logs - prior
            ratio = logs[:, int(first)] - logs[:, int(second)]
        return np.asarray(np.nan_to_num(ratio, nan=0.0, posinf=1e300, neginf=-1e300))

    def _log_weights(self, situation: Situation, codes: Codes, low: int, high: int) -> Floats:
        """Of each value of the target, together with what is known and the outputs of records low to high − 1."""
        belief = situation.belief
        assert isinstance(belief, ChainBelief)
        table, held, i = belief.chain.transition, dict(situation.known), situation.target
        left, right = unknown_stretch(situation)
        begin, end = i - left, i + right
        law = first_law(belief.chain) if begin == 0 else table[int(held[begin - 1])]
        ahead, logs = np.tile(np.asarray(law), (len(codes), 1)), np.zeros((len(codes), 1))
        for t in range(begin, i + 1):
            if t > begin:
                ahead = ahead @ table
            ahead, logs = self._seen(ahead, logs, t, codes, low, high)
        last = np.ones(len(table)) if end == belief.records - 1 else table[:, int(held[end + 1])]
        back = np.tile(np.asarray(last), (len(codes), 1))
        for t in range(end, i, -1):
            back, logs = self._seen(back, logs, t, codes, low, high)
            back = back @ table.T
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(ahead) + np.log(back) + logs)

    def _seen(self, weights: Floats, logs: Floats, t: int, codes: Codes, low: int, high: int) -> tuple[Floats, Floats]:
        """With the output of a record, where it is looked at; scaled, so that nothing gets too small."""
        if low <= t < high:
            weights = weights * self.tables[t].T[codes[:, t]]
        most = weights.max(axis=1, keepdims=True)
        most = np.where(most > 0, most, 1.0)
        return weights / most, logs + np.log(most)

    def worst_output(self, situation: Situation, first: float, second: float) -> ComputedEvent:
        """The outputs near the target that speak most for the first value.

        Begun with those that do so record by record, and changed one at a time as long as the ratio grows. Wherever
        that ends, the probabilities are those of the mechanism.
        """
        i, n, kinds = situation.target, len(self.tables), self.tables.shape[2]
        left, right = unknown_stretch(situation)
        low, high = max(0, i - min(left, _ASKED)), min(n, i + min(right, _ASKED) + 1)
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
            if not ratios[at] > best + _ROUNDING:
                seen = tuple(int(code) for code in codes[low:high])
                return ComputedEvent(leakage=max(0.0, best), chances=chances, first=low, codes=seen)
            best, codes = float(ratios[at]), rows[at]
            chances = float(np.exp(logs[at, a])), float(np.exp(logs[at, b]))


@dataclass(frozen=True, eq=False)
class CountLaws:
    """The number of records in each state, times a unit, with independent noise on each."""

    states: int
    unit: float
    scale: float
    laplace: bool
    exact: bool
    generator: np.random.Generator
    drawn: dict[object, tuple[Codes, Codes]] = field(default_factory=dict)
    """Counts and how often they were drawn, by situation and value."""

    @property
    def words(self) -> str:
        """The noise is known or fitted; the law of the counts is drawn."""
        how = "the noise is known" if self.exact else "as estimated"
        return f"the logarithm of the likelihood ratio ({how})"

    def log_ratio(self, situation: Situation, first: float, second: float, outputs: Outputs) -> Floats:
        """A mixture over the counts that were drawn for either value."""
        top, bottom = (self._log_law(situation, value, outputs) for value in (first, second))
        return np.asarray(top - bottom)

    def _log_law(self, situation: Situation, value: float, outputs: Outputs) -> Floats:
        key = (*situation.key, value)
        if key not in self.drawn:
            if len(self.drawn) > _REMEMBERED:
                self.drawn.clear()
            rows = situation.belief.draw(situation.given(value), _DRAWN, self.generator)
            counts, seen = np.unique(counted(rows, self.states), axis=0, return_counts=True)
            most = np.argsort(-seen, kind="stable")[:_MIXED]
            self.drawn[key] = counts[most], seen[most]
        counts, seen = self.drawn[key]
        logs = np.log(seen / seen.sum())
        step = max(1, _CELLS // (len(counts) * self.states))
        return np.concatenate(
            [self._mixture(outputs[begin : begin + step], counts, logs) for begin in range(0, len(outputs), step)]
        )

    def _mixture(self, outputs: Outputs, counts: Codes, logs: Floats) -> Floats:
        apart = np.abs(outputs[:, None, :] - self.unit * counts) / self.scale
        terms = logs - (apart if self.laplace else apart**2 / 2).sum(axis=2)
        most = terms.max(axis=1)
        return np.asarray(most + np.log(np.exp(terms - most[:, None]).sum(axis=1)))


def counted(records: Records, states: int) -> Codes:
    """How many records of each row are in each state."""
    return np.stack([(records == x).sum(axis=1) for x in range(states)], axis=1)


def known_law(mechanism: AuditedMechanism, belief: Belief, generator: np.random.Generator) -> OutputLaw | None:
    """The law of a mechanism of this package on a chain; None for others."""
    if not isinstance(belief, ChainBelief):
        return None
    states = belief.chain.size
    if isinstance(mechanism, FlippedSeries):
        tables = np.tile(mechanism.channel, (belief.records, 1, 1))
        return RecordLaws(tables, np.arange(1.0, states) - 0.5, exact=True)
    if isinstance(mechanism, RedactedSeries):
        hidden = np.array(mechanism.design.probabilities())
        shown = (1 - hidden)[:, :, None] * np.eye(states)
        tables = np.concatenate([hidden[:, :, None], shown], axis=2)
        return RecordLaws(tables, np.arange(0.0, states) - 0.5, exact=True)
    if isinstance(mechanism, NoisyQuery) and mechanism.query.kind in (QueryKind.HISTOGRAM, QueryKind.FREQUENCY):
        unit = 1.0 if mechanism.query.kind is QueryKind.HISTOGRAM else 1 / belief.records
        return CountLaws(states, unit, mechanism.scale, laplace=True, exact=True, generator=generator)
    return None


def learnt_law(belief: Belief, records: Records, outputs: Outputs, generator: np.random.Generator) -> OutputLaw | None:
    """The law that fits runs on a chain, where outputs have as many numbers as there are records or states."""
    if not isinstance(belief, ChainBelief) or outputs.shape[1] < 2:
        return None
    if outputs.shape[1] == belief.records:
        return _learnt_records(belief, records, outputs)
    if outputs.shape[1] == belief.chain.size:
        return _learnt_counts(belief, records, outputs, generator)
    return None


def _learnt_records(belief: ChainBelief, records: Records, outputs: Outputs) -> RecordLaws:
    """Shares of each code by record and state; half a run is added to each, so that none is 0."""
    values = np.unique(outputs)
    if len(values) > _BINS:
        values = np.unique(np.quantile(outputs, np.linspace(0, 1, _BINS + 1)))
    cuts = (values[1:] + values[:-1]) / 2 if len(values) <= _BINS else values[1:-1]
    codes = np.searchsorted(cuts, outputs, side="right")
    kinds, states, n = len(cuts) + 1, belief.chain.size, belief.records
    cells = (np.arange(n) * states + records) * kinds + codes
    counts = np.bincount(cells.ravel(), minlength=n * states * kinds).reshape(n, states, kinds) + 0.5
    return RecordLaws(counts / counts.sum(axis=2, keepdims=True), cuts, exact=False)


def _learnt_counts(
    belief: ChainBelief, records: Records, outputs: Outputs, generator: np.random.Generator
) -> CountLaws | None:
    """Noise on counts or on shares of them, whichever leaves less; None where neither is like the outputs."""
    states = belief.chain.size
    counts = counted(records, states)
    fits = []
    for unit in (1.0, 1 / belief.records):
        rest = outputs - unit * counts
        fits.append((float(rest.std()) / unit, unit, rest - rest.mean()))
    wide, unit, rest = min(fits, key=lambda fit: fit[0])
    if wide == 0:
        return None
    laplace = float((rest**4).mean() / (rest**2).mean() ** 2) > _HEAVY_TAILS
    scale = float(np.abs(rest).mean()) if laplace else float(rest.std())
    return CountLaws(states, unit, scale, laplace=laplace, exact=False, generator=generator)
