"""The law of a sum over a Markov chain given the value of one record, by carrying the running sum along.

Steps are whole numbers, so the sum of a chain lives on a grid. Masses are logarithms. Where the chain may start
anywhere, the laws for each start are kept apart: whatever the start, an adversary's law is a mixture of them, and a
mixture is carried onto another by carrying each part onto each, so the largest distance between parts bounds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pufferdp.leakage.laws import UNIT, Cell, RecordLaws, normal
from pufferdp.leakage.logs import Logs, log_convolve, log_step, log_sum
from pufferdp.models.markov import MarkovChain


class ChainLaws:
    """Sums of ``steps[state]`` over a chain of given length, and over other chains, whose law is ``rest``."""

    def __init__(self, chain: MarkovChain, length: int, steps: Sequence[int], rest: Logs | None = None) -> None:
        self.chain, self.length, self.rest = chain, length, rest
        self.steps = np.asarray(steps, dtype=np.int64)
        self.width = int(self.steps.max()) * length + 1

    @property
    def points(self) -> npt.NDArray[np.int64]:
        """The values of the sum."""
        return np.arange(self.width + (0 if self.rest is None else len(self.rest) - 1))

    @property
    def error(self) -> float:
        """A bound on the relative error of every mass: rounding of products and sums, and of logarithms."""
        moves, starts = self.chain.transition, np.exp(np.concatenate(self.starts))
        deepest = -self.length * float(np.log(moves[moves > 0].min())) - float(np.log(starts[starts > 0].min()))
        products = self.length * (self.chain.size + 6) + 2 * len(self.points)
        return (products + 2 * (self.length + 8) * (deepest + 1)) * UNIT

    @property
    def starts(self) -> tuple[Logs, ...]:
        """Log laws of the first record: one, or every point where the chain may start anywhere."""
        with np.errstate(divide="ignore"):
            if self.chain.any_start:
                return tuple(np.log(np.eye(self.chain.size)))
            law = self.chain.stationary if self.chain.given_start is None else self.chain.given_start
            return (np.log(law),)

    def records(self) -> Iterator[RecordLaws]:
        """The laws given each value of each record in turn."""
        after = self._backward()
        before = [self._forward(start) for start in self.starts]
        for i in range(self.length):
            states, rows = [], []
            for forward in [next(walk) for walk in before]:
                for a in range(self.chain.size):
                    if np.isfinite(forward[a]).any():
                        states.append(a)
                        rows.append(self._with_rest(log_convolve(forward[a], after[i][a])[: self.width]))
            yield RecordLaws(i, tuple(states), normal(np.array(rows)))

    def event(self, cells: Sequence[Cell]) -> Logs | None:
        """The laws given that one of these conditions holds: one for each start under which it can."""
        rows = []
        for start in self.starts:
            found = [log_sum(list(self._forward(start, cell))[-1], axis=0) for cell in cells]
            row = np.logaddexp.reduce(found)
            if np.isfinite(row).any():
                rows.append(self._with_rest(row))
        return normal(np.array(rows)) if rows else None

    def total(self) -> Logs:
        """The law of the sum with nothing known; needs a definite start."""
        found = self.event([{}])
        assert found is not None
        return np.asarray(found[0])

    def _with_rest(self, row: Logs) -> Logs:
        return row if self.rest is None else log_convolve(row, self.rest)

    def _forward(self, start: Logs, evidence: Mapping[int, Sequence[int]] | None = None) -> Iterator[Logs]:
        """Log P(X_i = state, sum up to i) for i = 0, 1 and so on."""
        known = evidence or {}
        now = np.full((self.chain.size, self.width), -np.inf)
        for x, step in enumerate(self.steps):
            now[x, step] = start[x]
        for i in range(self.length):
            if i:
                now = self._shift(log_step(now, self.chain.transition))
            if i in known:
                others = [x for x in range(self.chain.size) if x not in known[i]]
                now[others] = -np.inf
            yield now

    def _backward(self) -> list[Logs]:
        """Log P(sum after i | X_i = state) for every i."""
        now = np.full((self.chain.size, self.width), -np.inf)
        now[:, 0] = 0.0
        out = [now]
        for _ in range(self.length - 1):
            now = log_step(self._shift(now), self.chain.transition.T)
            out.append(now)
        return out[::-1]

    def _shift(self, logs: Logs) -> Logs:
        """Add each state's step to the sum."""
        out = np.full_like(logs, -np.inf)
        for x, step in enumerate(self.steps):
            out[x, step:] = logs[x, : self.width - step]
        return out
