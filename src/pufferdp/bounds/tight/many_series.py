"""Long series of many states whose losses or kernels change: every record at once.

Records beyond the end of the series are records without loss: they change nothing. So every target has as many others
on its side as are looked at. First what is reached, by Newton's method with lasting questions behind the records that
are looked at (see ``sides``); then, for every record, the proof that no pair of values passes what its worst pair
reached. Rows without a proof are left to ``sides.solve``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.bounds.tight.outlook import (
    MOST_LOSS,
    OPEN_END,
    on_chords,
    quotient,
    scaled,
    scaled_alike,
    slow_questions,
    some_true,
)

_ROWS: Final = 4096
"""Numbers of vectors at a time, so that they stay in the cache."""
_FAR_BELOW: Final = -0.5
_EVERY: Final = 4
"""Steps after which vectors are scaled; after every one where gains are large."""
_LARGE_GAIN: Final = 1e4
_LARGEST_LEVEL: Final = 600.0
"""Passes are made for no more than this, so that its exponential is a number."""
_BLOCK: Final = 512
_WARM: Final = 64
_COARSE: Final = np.array([-1.0, -0.4, -0.12, 0.0, 0.25, 1.0])
_SPREAD: Final = np.array([-1.0, -0.55, -0.3, -0.15, -0.06, -0.02, 0.0, 0.1, 0.35, 1.0])
"""Where μ lie around the level, as shares of what ends say by themselves."""
_DENSE: Final = np.concatenate([-np.geomspace(1.0, 0.01, 14), [0.0], np.geomspace(0.02, 1.0, 10)])
_AROUND: Final = np.array([-1e-2, -1e-3, -1e-5, -1e-9, 0.0, 1e-9, 1e-5, 1e-3, 1e-2])
"""Close to what the worst end asks for, as shares of the level."""
_CLOSE: Final = np.array([0.03, 0.006])
"""And just below the level, as shares of it."""


@dataclass(frozen=True, eq=False)
class Reached:
    """What some rows reach: logs, and the end behind it."""

    lower: Floats
    distance: Ints
    state: Ints
    mu: Floats
    """log μ of the pass."""
    asks: Floats
    """log μ that the end asks for: where the next pass is made."""


def _log_gain(signed: Floats, below: Floats) -> Floats:
    """What the questions of a pass reach beyond its μ: a log; far below μ it has lost its digits and is left out."""
    share = quotient(signed, below)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((share > _FAR_BELOW) & ((below > 0) | (signed > 0)), np.log1p(share), -np.inf)


class _Priors:
    """z(y)/z(x) of known records at one distance after the other, for rows that may become fewer."""

    def __init__(self, lane: LongLane, at: Ints, x: Ints, y: Ints) -> None:
        self.lane, self.at, self.x, self.y, self.distance = lane, at, x, y, 0
        k = lane.size
        self.power = np.eye(k)
        self.law = np.zeros((0, 2, k)) if lane.steady else np.stack([np.eye(k)[x], np.eye(k)[y]], axis=1)

    def step(self) -> None:
        """One record farther away."""
        self.distance += 1
        if self.lane.steady:
            self.power = self.power @ self.lane.kernels[0]
        else:
            self.law = scaled(self.lane.step(self.law, self.at, self.distance), (1, 2))

    def keep(self, some: Mask) -> None:
        """Go on with some rows only."""
        self.at, self.x, self.y = self.at[some], self.x[some], self.y[some]
        if not self.lane.steady:
            self.law = self.law[some]

    @property
    def ratio(self) -> Floats:
        """(R, k); 0 where a known value rules out x or y, or where there is no such record."""
        if self.lane.steady:
            top, bottom = self.power[self.y], self.power[self.x]
        else:
            top, bottom = self.law[:, 1], self.law[:, 0]
        found = quotient(top, bottom) if not (top > 0).all() or not (bottom > 0).all() else top / bottom
        inside = self.at + self.distance < self.lane.n
        return found if inside.all() else found * inside[:, None]


class LongLane:
    """One side of all records of a series."""

    def __init__(self, kernels: Floats, losses: Floats, known: bool) -> None:
        """Kernels (m, k, k) and losses (n,) in the order in which the side is met: target i has i+1, i+2, … beside it.

        Args:
            kernels: m = 1: the same at every step; otherwise one for each step.
            losses: of all records.
            known: whether records may be known.
        """
        self.kernels, self.known, self.n = kernels, known, len(losses)
        self.size = kernels.shape[-1]
        self.losses = losses
        self.sums = np.concatenate([[0.0], np.cumsum(losses)])
        self.gains = np.exp(np.minimum(losses, MOST_LOSS))
        self.every = _EVERY if float(self.gains.max()) < _LARGE_GAIN else 1
        self.lasting = self._lasting()

    @property
    def steady(self) -> bool:
        """Whether all steps have one kernel."""
        return len(self.kernels) == 1

    def forgets(self, share: float) -> int:
        """A distance at which the chain has forgotten all but a share, by its second eigenvalue."""
        slow = float(np.sort(np.abs(np.linalg.eigvals(self.kernels.mean(axis=0))))[-2])
        return int(np.clip(np.log(share) / np.log(np.clip(slow, 1e-3, 1 - 1e-9)), 8, 256))

    def gain(self, at: Ints) -> Floats:
        """e^loss of some records; 1 beyond the end."""
        return np.where(at < self.n, self.gains[np.minimum(at, self.n - 1)], 1.0)

    def spent(self, at: Ints, distance: int) -> Floats:
        """Losses of the records nearer than a distance."""
        last = np.minimum(at + distance, self.n)
        return np.asarray(self.sums[last] - self.sums[np.minimum(at + 1, self.n)])

    def step(self, vectors: Floats, at: Ints, distance: int) -> Floats:
        """Vectors (R, …, k) moved to the record at a distance."""
        shape = vectors.shape
        if not len(at):
            return vectors
        if self.steady:
            return np.asarray(vectors.reshape(-1, self.size) @ self.kernels[0]).reshape(shape)
        index = np.minimum(at + distance - 1, len(self.kernels) - 1)
        moved = (vectors.reshape(len(at), -1, self.size) @ self.kernels[index]).reshape(shape)
        # Behind the last record nothing moves. Its values may be impossible one record nearer: the kernel that led to
        # it, read backwards, has rows of zeros for them, and another step would lose what was found.
        over = at + distance > len(self.kernels)
        return np.where(over.reshape(-1, *[1] * (len(shape) - 1)), vectors, moved) if over.any() else moved

    def _lasting(self) -> Floats:
        """Weights behind each record, (n + 1, q, k): of lasting questions, and of none. Blocks side by side."""
        n, k = self.n, self.size
        cycles = slow_questions(self.kernels.mean(axis=0))
        weights = np.ones((n + 1, len(cycles) + 1, k))
        firsts = np.arange(0, n, _BLOCK)
        now = np.ones((len(firsts), len(cycles), k))
        for step in range(min(_BLOCK, n) + _WARM - 1, -1, -1) if cycles else ():
            at = firsts + step
            inside = at + 1 < n
            asked = np.stack([cycle[step % len(cycle)] for cycle in cycles])
            moved = now * np.where(asked, self.gain(at + 1)[:, None, None], 1.0)
            index = np.minimum(at, len(self.kernels) - 1) if not self.steady else np.zeros_like(at)
            moved = (self.kernels[index][:, None] @ moved[..., None])[..., 0]
            now = np.where(inside[:, None, None], scaled(moved, (2,)), now)
            if step < _BLOCK:
                weights[at[at < n], 1:] = now[at < n]
        return weights

    def priors(self, at: Ints, x: Ints, y: Ints) -> _Priors:
        """What known records say by themselves, distance by distance."""
        return _Priors(self, at, x, y)

    def reach(self, at: Ints, x: Ints, y: Ints, log_mu: Floats, depth: int) -> Reached:
        """One pass of many rows: what the questions found at μ reach."""
        parts = [slice(low, low + _ROWS) for low in range(0, len(at), _ROWS)]
        log_mu = np.minimum(log_mu, _LARGEST_LEVEL)
        found = [self._reach(at[p], x[p], y[p], log_mu[p], depth) for p in parts]
        return Reached(*(np.concatenate([getattr(f, name) for f in found]) for name in Reached.__annotations__))

    def _reach(self, at: Ints, x: Ints, y: Ints, log_mu: Floats, depth: int) -> Reached:
        rows = np.arange(len(at))
        mu, best, lasting = np.exp(log_mu), np.zeros(len(at)), np.zeros(len(at))
        distance, state, said = self.n - 1 - at, np.full(len(at), OPEN_END), np.zeros(len(at))
        vectors = np.zeros((len(at), 2, self.size))
        vectors[rows, 0, x] += 1.0
        vectors[rows, 0, y] -= mu
        vectors[rows, 1, y] = mu
        priors = self.priors(at, x, y) if self.known else None
        for d in range(1, depth + 1):
            vectors = self.step(vectors, at, d)
            signed, below = vectors[:, 0], vectors[:, 1]
            if priors is not None:
                priors.step()
                with np.errstate(divide="ignore"):
                    prior = np.log(priors.ratio)
                found = log_mu[:, None] + prior + _log_gain(signed, below)
                which = found.argmax(axis=1)
                most = found[rows, which]
                better = most > best
                best, distance, state, said = (
                    np.where(better, new, old)
                    for new, old in ((most, best), (d, distance), (which, state), (prior[rows, which], said))
                )
            gain = np.where(signed > 0, self.gain(at + d)[:, None], 1.0)
            vectors = vectors * gain[:, None]
            # From here on lasting questions: the vector's own are lost once all its entries have one sign.
            value = vectors @ self.lasting[np.minimum(at + d, self.n)].swapaxes(1, 2)
            lasting = np.maximum(lasting, log_mu + _log_gain(value[:, 0], value[:, 1]).max(axis=1))
            if d % self.every == 0:
                vectors = scaled(vectors, (1, 2))
        better = lasting > best
        best = np.where(better, lasting, best)
        distance, state = np.where(better, self.n - 1 - at, distance), np.where(better, OPEN_END, state)
        asks = best - np.where(better, 0.0, said)
        spent = self.sums[-1] - self.sums[np.minimum(at + 1, self.n)]
        return Reached(np.minimum(best, spent), distance, state, log_mu, asks)

    def proves(self, at: Ints, x: Ints, y: Ints, levels: Floats, deepest: int, ends: tuple[Ints, Ints]) -> Mask:
        """Rows of which this side is proved to add at most its level (logs).

        Known ends are looked at on a few chords first, then on more of them and close to those that were found to be
        worst: ``ends`` has their distances and states.
        """
        proved = self.sums[-1] - self.sums[np.minimum(at + 1, self.n)] <= levels
        if self.known:
            for low in range(0, len(at), _ROWS):
                p = np.flatnonzero(~proved[low : low + _ROWS]) + low
                proved[p] = self._dies_soon(at[p], x[p], y[p], levels[p], deepest)
        for spread in (_COARSE, _SPREAD, _DENSE) if self.known else (_COARSE,):
            left = np.flatnonzero(~proved)
            size = max(64, _ROWS // (len(spread) if self.known else 1))
            for low in range(0, len(left), size):
                p = left[low : low + size]
                if not self.known:
                    proved[p] = self._dies(at[p], x[p], y[p], levels[p], deepest)
                else:
                    end = (ends[0][p], ends[1][p]) if spread is _DENSE else None
                    proved[p] = self._ends(at[p], x[p], y[p], levels[p], deepest, spread, end)
        return np.asarray(proved)

    def _dies(self, at: Ints, x: Ints, y: Ints, levels: Floats, deepest: int) -> Mask:
        """Nobody knows a record: rows whose vectors have no positive entry left."""
        proved, left = np.zeros(len(at), dtype=bool), np.arange(len(at))
        vectors = np.zeros((len(at), self.size))
        vectors[left, x] += np.exp(np.minimum(0.0, -levels))
        vectors[left, y] -= np.exp(np.minimum(0.0, levels))
        for d in range(1, deepest + 1):
            vectors = self.step(vectors, at[left], d)
            vectors = np.maximum(vectors, vectors * self.gain(at[left] + d)[:, None])
            if d % self.every == 0:
                # Behind the last record nothing gains any more: the sum decides.
                over = at[left] + d >= self.n - 1
                dead = ~some_true(vectors > 0) | (over & (vectors.sum(axis=1) <= 0))
                if dead.any():
                    proved[left[dead]] = True
                    left, vectors = left[~dead], vectors[~dead]
                if not len(left):
                    break
                vectors = scaled(vectors, (1,))
        return proved

    def _dies_soon(self, at: Ints, x: Ints, y: Ints, levels: Floats, deepest: int) -> Mask:
        """Rows that die at the lowest μ that any end may ask for, as long as group privacy bounds all nearer ones."""
        near = self._near(at, levels, deepest)
        most, order, priors = np.zeros(len(at)), np.arange(len(at)), self.priors(at, x, y)
        for d in range(1, int(near.max(initial=0)) + 1):
            priors.step()
            here = near[order] == d
            if here.any():
                ratio = priors.ratio[here]
                certain = ~some_true(~(ratio > 0))
                most[order[here]] = np.where(certain, np.log(np.maximum(ratio.max(axis=1), 1.0)), np.inf)
                priors.keep(~here)
                order = order[~here]
        logs = levels - most
        left = np.flatnonzero(np.isfinite(logs))
        proved = np.zeros(len(at), dtype=bool)
        vectors = np.zeros((len(left), self.size))
        index = np.arange(len(left))
        vectors[index, x[left]] += np.exp(np.minimum(0.0, -logs[left]))
        vectors[index, y[left]] -= np.exp(np.minimum(0.0, logs[left]))
        for d in range(1, int(near.max(initial=0)) + 1):
            vectors = self.step(vectors, at[left], d)
            dead = ~some_true(vectors > 0)
            proved[left[dead]] = True
            keep = ~dead & (near[left] > d)
            left, vectors = left[keep], vectors[keep]
            if not len(left):
                break
            vectors = np.maximum(vectors, vectors * self.gain(at[left] + d)[:, None])
            if d % self.every == 0:
                vectors = scaled(vectors, (1,))
        return proved

    def _ends(
        self,
        at: Ints,
        x: Ints,
        y: Ints,
        levels: Floats,
        deepest: int,
        spread: Floats,
        end: tuple[Ints, Ints] | None,
    ) -> Mask:
        """Records may be known: every known end at the μ it asks for, on chords between a few that are followed."""
        proved, left = np.zeros(len(at), dtype=bool), np.arange(len(at))
        levels = np.minimum(levels, _LARGEST_LEVEL)
        near = self._near(at, levels, deepest)
        first, own = np.zeros((2, len(at))), np.zeros(len(at))
        reach = int(near.max()) if end is None else int(max(near.max(), np.where(end[1] >= 0, end[0], 0).max()))
        priors = self.priors(at, x, y)
        for d in range(1, min(reach, deepest) + 1):
            priors.step()
            here = near == d
            asked = np.zeros(len(at), dtype=bool) if end is None else (end[0] == d) & (end[1] >= 0)
            if (here | asked).any():
                ratio = priors.ratio
                said = np.log(np.where(ratio > 0, ratio, 1.0))
                first = np.where(here, np.stack([said.max(axis=1), (-said).max(axis=1)]), first)
                if end is not None:
                    own = np.where(asked, said[left, np.maximum(end[1], 0)], own)
        first = np.maximum(first * 1.001, 1e-6)
        wide = np.where(spread < 0, first[0][:, None], first[1][:, None]) * spread
        steps = [wide, -levels[:, None] * _CLOSE]
        if end is not None:
            steps.append(-own[:, None] + levels[:, None] * _AROUND)
        logs = np.sort(np.minimum(levels[:, None] + np.concatenate(steps, axis=1), _LARGEST_LEVEL + 50), axis=1)
        mu, limit = np.exp(logs), np.exp(levels)
        scale = np.exp(-np.maximum(logs[:, -1:], 0.0))
        vectors = np.zeros((*logs.shape, self.size))
        vectors[left, :, x] += scale
        vectors[left, :, y] -= mu * scale
        priors = self.priors(at, x, y)
        for d in range(1, deepest + 1):
            here = at[left]
            vectors = self.step(vectors, here, d)
            priors.step()
            looked = d >= near[left]
            over, last = np.zeros(len(left), dtype=bool), here + d >= self.n - 1
            fine = np.ones(len(left), dtype=bool)
            if looked.any() or last.any():
                ratio = priors.ratio
                alive = ratio > 0
                asked = np.where(alive, limit[left, None] / np.where(alive, ratio, 1.0), np.inf)
                fine = ~some_true((on_chords(vectors, mu[left], asked) > 0) & alive) | ~looked
                # What died at this μ or a smaller one never rises again: no end beyond says more than those here.
                dead = ~some_true(vectors > 0)
                least = np.where(dead, mu[left], np.inf).min(axis=1)
                far = np.where(some_true(~alive), np.inf, ratio.max(axis=1))
                with np.errstate(invalid="ignore"):
                    over = fine & looked & (least * far <= limit[left])
                if last.any():  # the series ends: what is left is its own end
                    over |= last & fine & self._ends_below(vectors, here + d, logs[left], levels[left])
            proved[left[over]] = True
            keep = fine & ~over & ~last
            if not keep.all():
                left, vectors = left[keep], vectors[keep]
                priors.keep(keep)
            if not len(left):
                break
            vectors = np.maximum(vectors, vectors * self.gain(at[left] + d)[:, None, None])
            if d % self.every == 0:
                vectors = scaled_alike(vectors)
        return proved

    def _ends_below(self, vectors: Floats, record: Ints, logs: Floats, levels: Floats) -> Mask:
        """Whether the end of the series behind these records adds no more than the level."""
        after = np.maximum(vectors, vectors * self.gain(record)[:, None, None]).sum(axis=2)
        below = logs <= levels[:, None]
        # The largest μ that is followed up to the level.
        return np.asarray(np.where(below, after, np.inf).min(axis=1) <= 0)

    def _near(self, at: Ints, levels: Floats, deepest: int) -> Ints:
        """The first distance at which a known record could add more than the level, by group privacy."""
        near = np.searchsorted(self.sums, self.sums[np.minimum(at + 1, self.n)] + levels, side="right") - 1 - at
        return np.asarray(np.clip(near + 1, 1, deepest))
