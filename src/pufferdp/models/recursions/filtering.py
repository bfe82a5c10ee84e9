"""Forward and backward recursions over hidden states that each show one record value (Baum et al. 1970).

Many segments are filtered side by side: one matrix product a time step for all of them. A long series is cut into
segments, and a segment begins with the distribution that the segment before it ends with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Mask

Codes = npt.NDArray[np.int64]
Kernels = npt.NDArray[np.float64]
"""Transition matrices, (slots, h, h)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Segments:
    """Series cut into segments: one row each, of which the columns ``first`` to ``last`` are used."""

    codes: Codes
    """(steps, rows): record values by number, -1 for a missing observation."""
    first: Codes
    """(rows,): the column with the first record of each segment."""
    last: Codes
    """(rows,): the column with the last record of each segment."""
    previous: Codes
    """(rows,): the segment that each one continues, or -1 where it begins a series."""
    places: tuple[Codes, ...]
    """For each series the rows of its segments, in order."""
    slots: Codes
    """(steps,): the slot of each column, which says the matrix of the transition after it."""

    @property
    def used(self) -> Mask:
        """(steps, rows): which cells belong to a segment."""
        steps = np.arange(len(self.codes))[:, None]
        return np.asarray((steps >= self.first) & (steps <= self.last))

    def joined(self, cells: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
        """For each series the cells of its segments, one after the other."""
        return [
            np.concatenate([cells[self.first[row] : self.last[row] + 1, row] for row in rows]) for rows in self.places
        ]


def cut(
    series: Sequence[Codes], *, longest: int | None = None, first_slots: Sequence[int] | None = None, period: int = 1
) -> Segments:
    """Segments of at most ``longest`` steps; with a period, segments are cut where a period begins.

    All segments then have the same slot in the same column, so that one matrix serves all rows.
    """
    whole = max((len(codes) for codes in series), default=0) + period
    width = -(-min(longest or whole, whole) // period) * period
    rows: list[tuple[int, Codes]] = []
    previous: list[int] = []
    places: list[Codes] = []
    for number, codes in enumerate(series):
        column = 0 if first_slots is None else int(first_slots[number]) % period
        done = 0
        here = []
        while done < len(codes):
            part = codes[done : done + width - column]
            previous.append(len(rows) - 1 if done else -1)
            here.append(len(rows))
            rows.append((column, part))
            done, column = done + len(part), 0
        places.append(np.array(here, dtype=np.int64))
    steps = max((column + len(part) for column, part in rows), default=0)
    table = np.full((steps, len(rows)), -1, dtype=np.int64)
    for row, (column, part) in enumerate(rows):
        table[column : column + len(part), row] = part
    return Segments(
        codes=table,
        first=np.array([column for column, _ in rows], dtype=np.int64),
        last=np.array([column + len(part) - 1 for column, part in rows], dtype=np.int64),
        previous=np.array(previous, dtype=np.int64),
        places=tuple(places),
        slots=np.arange(steps) % period,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Forward:
    """Distributions of hidden states given the records up to each, and what the records said."""

    weights: Floats
    """(steps, rows, h): P(hidden state | records up to here)."""
    likelihoods: Floats
    """(steps, rows): P(record | records before it); 1 where there is no record, 0 where it is impossible."""
    entries: Floats
    """(rows, h): P(hidden state of the first record | records before the segment)."""

    def log_likelihood(self, segments: Segments) -> float:
        """The logarithm of the probability of all records; minus infinity where some are impossible."""
        values = self.likelihoods[segments.used]
        return float(np.log(values).sum()) if (values > 0).all() else -np.inf


class Recursion:
    """The recursions of one chain on hidden states, each of which shows one record value."""

    def __init__(self, kernels: Kernels, of: Sequence[int], starts: Floats, tolerance: float = 1e-10) -> None:
        """Prepare the recursions.

        Args:
            kernels: (slots, h, h), the transition matrix of each slot.
            of: the record value that each hidden state shows.
            starts: (slots, h), the distribution of the first hidden state of a series that begins in each slot.
            tolerance: segments are filtered again while their first distributions change by more.
        """
        self.tolerance = tolerance
        shown = np.asarray(of)
        self.kernels, self.starts = np.asarray(kernels), np.asarray(starts)
        # The last row belongs to a missing observation, whose code is -1: it is consistent with every hidden state.
        self.shows = np.vstack([shown == np.arange(shown.max() + 1)[:, None], np.ones(len(shown))]).astype(float)

    def forward(self, segments: Segments, entries: Floats | None = None) -> Forward:
        """The filter. With ``entries`` segments begin with these distributions, and are filtered once."""
        given = self.first_entries(segments) if entries is None else entries
        while True:
            result = self._forward(segments, given)
            following = self.next_entries(segments, result)
            if entries is not None or np.abs(following - given).max(initial=0.0) <= self.tolerance:
                return result
            given = following

    def backward(self, segments: Segments, forward: Forward, exits: Floats | None = None) -> Floats:
        """(steps, rows, h): P(records from here on | hidden state), divided by P(these records | records before them).

        With ``exits`` the weights behind the last record of each segment are these, and one pass is made.
        """
        given = np.ones((len(segments.first), self.kernels.shape[1])) if exits is None else exits
        while True:
            result = self._backward(segments, forward, given)
            following = self.next_exits(segments, result)
            if exits is not None or np.abs(following - given).max(initial=0.0) <= self.tolerance:
                return result
            given = following

    def next_exits(self, segments: Segments, backward: Floats) -> Floats:
        """The weights behind the last record of each segment, where those after them begin as they do here."""
        exits = np.ones((len(segments.first), self.kernels.shape[1]))
        after = np.flatnonzero(segments.previous >= 0)
        before = segments.previous[after]
        begins = backward[segments.first[after], after]
        kernels = self.kernels[segments.slots[segments.last[before]]]
        behind = np.einsum("bij,bj->bi", kernels, begins)
        largest = behind.max(axis=1, keepdims=True)
        exits[before] = np.divide(behind, largest, out=np.zeros_like(behind), where=largest > 0)
        return exits

    def counts(self, segments: Segments, forward: Forward, backward: Floats) -> Kernels:
        """(slots, h, h): expected transitions between hidden states given all records."""
        pairs = np.zeros_like(self.kernels)
        used = segments.used
        inside = (used[:-1] & used[1:]).astype(float)[..., None]
        # Column by column: one product over all records is handed to several threads, which wait for each other.
        for t, slot in enumerate(segments.slots[:-1].tolist()):
            pairs[slot] += (forward.weights[t] * inside[t]).T @ backward[t + 1]
        rows = np.flatnonzero(segments.previous >= 0)
        origin = segments.previous[rows]
        ends, begins = forward.weights[segments.last[origin], origin], backward[segments.first[rows], rows]
        slots = segments.slots[segments.last[origin]]
        across = ends[:, :, None] * begins[:, None, :]
        # One transition each: the two segments are scaled on their own.
        total = (across * self.kernels[slots]).sum(axis=(1, 2), keepdims=True)
        np.add.at(pairs, slots, np.divide(across, total, out=np.zeros_like(across), where=total > 0))
        return np.asarray(pairs * self.kernels)

    def first_entries(self, segments: Segments) -> Floats:
        """(rows, h): the distribution with which series begin, for every segment."""
        return np.asarray(self.starts[segments.slots[segments.first]])

    def next_entries(self, segments: Segments, forward: Forward) -> Floats:
        """(rows, h): the distributions with which segments begin, where those before them end as they do here."""
        entries = self.first_entries(segments)
        rows = np.flatnonzero(segments.previous >= 0)
        before = segments.previous[rows]
        last = segments.last[before]
        entries[rows] = np.einsum("bi,bij->bj", forward.weights[last, before], self.kernels[segments.slots[last]])
        return entries

    def _forward(self, segments: Segments, entries: Floats) -> Forward:
        steps, rows = segments.codes.shape
        weights = np.empty((steps, rows, self.kernels.shape[1]))
        likelihoods = np.ones((steps, rows))
        begins = _rows_by_column(segments.first, steps)
        now: Floats = entries
        for t, codes in enumerate(segments.codes):
            if t:
                now = now @ self.kernels[segments.slots[t - 1]]
            if len(begins[t]):
                now[begins[t]] = entries[begins[t]]
            now = np.multiply(now, self.shows[codes], out=weights[t])
            total = likelihoods[t] = now.sum(axis=1)
            if not (total > 0).all():
                total = np.where(total > 0, total, 1.0)
            now /= total[:, None]
        return Forward(weights=weights, likelihoods=likelihoods, entries=entries)

    def _backward(self, segments: Segments, forward: Forward, exits: Floats) -> Floats:
        steps, rows = segments.codes.shape
        weights = np.empty_like(forward.weights)
        ends = _rows_by_column(segments.last, steps)
        # Scaled so that P(hidden state | all records) sums to 1 in every segment.
        whole = (forward.weights[segments.last, np.arange(rows)] * exits).sum(axis=1, keepdims=True)
        exits = np.divide(exits, whole, out=np.zeros_like(exits), where=whole > 0)
        now: Floats = np.ones((rows, self.kernels.shape[1]))
        for t in range(steps - 1, -1, -1):
            if t < steps - 1:
                now = now @ self.kernels[segments.slots[t]].T
            if len(ends[t]):
                now[ends[t]] = exits[ends[t]]
            total = forward.likelihoods[t]
            if not (total > 0).all():
                total = np.where(total > 0, total, 1.0)
            now = np.multiply(now, self.shows[segments.codes[t]], out=weights[t])
            now /= total[:, None]
        return weights


def _rows_by_column(columns: Codes, steps: int) -> list[Codes]:
    order = np.argsort(columns, kind="stable")
    return np.split(order, np.searchsorted(columns[order], np.arange(1, steps)))


def smoothed(forward: Forward, backward: Floats) -> Floats:
    """(steps, rows, h): P(hidden state | all records of the series)."""
    both = forward.weights * backward
    total = both.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(both, total, out=np.zeros_like(both), where=total > 0))
