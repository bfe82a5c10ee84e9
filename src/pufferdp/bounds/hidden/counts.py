"""A leakage bound for counts and sums with Laplace noise over hidden states (docs/theory/hidden.md, Theorem 6).

Each record adds a whole number of steps to the sum S, and the noise has scale 1/τ steps. An output c has the likelihood
e^{−τ|c − S|}, a *kernel*. Ratios of means of kernels are ratios of mixtures, and a mixture of ratios is at most the
largest one. So the *evidence* of one side of a record between two of its hidden states z and z',

    V(z, z') ≥ log E[e^{−τ|c − S|} | z, K] − log E[e^{−τ|c − S|} | z', K]   for every c and all K known on that side,

may replace that of the bound ``potential``. Between two sums a kernel is a mixture of the kernels of both, and beyond
all sums it is proportional to the kernel of the last one. So c among the possible sums decide, for real noise too.

- **Nothing known on a side**: the expectations are computed for every c.
- **Nearest known record at distance d, with a hidden state u**: w(z, u) = E[kernel; u | z] is computed for every c, and
  A(z, u) = P(u | z) over d records. The records beyond give each state u of the known value any weight h(u) and a
  mixture of kernels, which differs between two states u and v by V(u, v) at most. With the evidence given the end,

      X(u, v) = max over c of log w(z, u)/A(z, u) − log w(z', v)/A(z', v)   (+ V(u, v) where u and v differ),

  two states decide, and add at most x + C(Δ, X(u, v) − x), where x = max(X(u, u), X(v, v)), Δ is the log odds ratio of
  A with u likelier from z, and C is Birkhoff's contraction.
- **No record known up to distance d**: the same with all states in place of those of the known value.
- **V** is any table that is at least what is computed with it: induction on the number of records proves it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Ints
from pufferdp.bounds.hidden.potential import MOST_EVIDENCE, PotentialBound, SideClasses
from pufferdp.bounds.tight.odds import contraction
from pufferdp.bounds.tight.recursion import TINY, bool_product

_MOST_WORK: Final = 6e7
"""Ratios that are compared on one side, over all distances: they take about half a second."""
_NEAR: Final = 24
"""Distances up to which two ends and an output are compared together, and about how many are tried first."""
_MIXED: Final = 1e-4
"""The chain has mixed where transition probabilities over a distance have log odds ratios of this at most."""
_ATTEMPTS: Final = 100
"""Evidence that has not settled after being raised so often is taken to be unbounded."""
_MARGIN: Final = 1e-9
"""More than the rounding of evidence: that of 2,000 products of tables of 32 states is below 1e-10."""


@dataclass(frozen=True, eq=False)
class Ends:
    """Sets of hidden states that a record at some distance may have: those of one value each, or one set of all."""

    sets: tuple[Ints, ...]
    u: Ints
    """(P,): the first states of all pairs inside a set."""
    v: Ints
    """(P,): their second states."""
    owner: Ints
    """(P,): the number of the set of each pair."""

    @classmethod
    def of(cls, shown: Ints) -> Ends:
        """One set for each value shown."""
        sets = tuple(np.flatnonzero(shown == value) for value in np.unique(shown))
        pairs = [(*pair, n) for n, states in enumerate(sets) for pair in itertools.combinations(states.tolist(), 2)]
        return cls(sets, *np.array(pairs, dtype=np.int64).reshape(-1, 3).T)


@dataclass(frozen=True, eq=False)
class Stretch:
    """What the records up to some distances say of a target's hidden state, by offset; in logarithms."""

    ends: Ends
    distance: Ints
    """(D,), rising."""
    prior: Floats
    """(D, m, h, h): the probability of end u given z; −∞ where it is 0."""
    same: Floats
    """(D, m, h, h, h): X(u, u) between z and z'; −∞ where one of them never ends in u."""
    cross: Floats
    """(D, m, h, h, P): X(u, v) of each pair, from the end that is likelier from z than from z'."""

    @classmethod
    def at(cls, distance: int, prior: Floats, given: Floats, ends: Ends, group_privacy: float = math.inf) -> Stretch:
        """The records up to one distance.

        Args:
            distance: the distance.
            prior: log P(u | z), (m, h, h).
            given: log E[kernel | z, u] for every output, (m, h, C, h); NaN where it is not known.
            ends: the ends to compare.
            group_privacy: a bound on X(u, v). Where it is finite, X(u, v) is bounded by way of X(u, u) and X(v, v).
        """
        h, u, v = prior.shape[1], ends.u, ends.v
        with np.errstate(invalid="ignore"):
            same = np.stack([(given[:, z, None] - given).max(axis=2) for z in range(h)], axis=1)
            same = np.where(np.isnan(same), np.inf, same)
            if math.isinf(group_privacy):
                parts = [
                    [(given[:, z, None][..., a] - given[..., b]).max(axis=2) for z in range(h)]
                    for a, b in ((u, v), (v, u))
                ]
                cross = [np.stack(part, axis=1) for part in parts]
            else:
                spread = [(given[..., a] - given[..., b]).max(axis=2) for a, b in ((u, v), (v, u))]
                cross = [
                    np.fmin(np.fmin(one[:, :, None] + same[..., b], same[..., a] + one[:, None]), group_privacy)
                    for one, (a, b) in zip(spread, ((u, v), (v, u)), strict=True)
                ]
            joint = np.where(_log_odds(prior, u, v) > 0, *cross)
        reach = np.isfinite(prior)
        same = np.where(reach[:, :, None] & reach[:, None], same, -np.inf)
        joint = np.where(np.isnan(joint), np.inf, joint)
        return cls(ends, np.array([distance]), prior[None], same[None], joint[None])

    def pick(self, which: Ints) -> Stretch:
        """The same at some of the distances."""
        return Stretch(self.ends, self.distance[which], self.prior[which], self.same[which], self.cross[which])

    def evidence(self, beyond: Floats) -> Floats:
        """(D, sets, m, h, h): the evidence for each set of ends, if that of the records farther out is ``beyond``."""
        u, v, owner = self.ends.u, self.ends.v, self.ends.owner
        count, m, h, _ = self.prior.shape
        out = np.stack([self.same[..., states].max(axis=-1) for states in self.ends.sets], axis=1)
        many = max(1, int(_MOST_WORK / 256) // max(m * h * h * len(u), 1))
        for first in range(0, count if len(u) else 0, many):
            some = slice(first, first + many)
            farther = beyond[(np.arange(m) + self.distance[some, None]) % m][:, :, None, None]
            odds = _log_odds(self.prior[some], u, v)
            single = np.maximum(self.same[some][..., u], self.same[some][..., v])
            joint = self.cross[some] + np.where(odds > 0, farther[..., u, v], farther[..., v, u])
            with np.errstate(invalid="ignore"):
                value = single + contraction(np.abs(odds), np.maximum(joint - single, 0.0))
            value = np.where(np.isneginf(single) | np.isposinf(joint), joint, value)
            value = np.where(np.isnan(odds), -np.inf, value)  # one of z and z' reaches neither end
            for n in np.unique(owner).tolist():
                out[some, n] = np.maximum(out[some, n], value[..., owner == n].max(axis=-1))
        return out

    def classes(self, evidence: Floats) -> tuple[Ints, Floats, Floats]:
        """Distances, evidence and weights of the classes of a side: near ones one by one, farther ones in blocks."""
        with np.errstate(invalid="ignore"):
            ratios = self.prior[..., :, None, :] - self.prior[..., None, :, :]
        ratios = np.where(np.isnan(ratios), -np.inf, ratios)
        weights = np.stack([ratios[..., states].max(axis=-1) for states in self.ends.sets], axis=1)
        weights = np.where(np.isneginf(weights), 0.0, weights)  # neither is possible
        first = [0]
        while first[-1] < len(self.distance) - 1:
            first.append(first[-1] + 1 + first[-1] // _NEAR)
        first = first[: np.searchsorted(first, len(self.distance)).item()]
        tables = [np.maximum.reduceat(part, first, axis=0) for part in (evidence, weights)]
        distance = np.repeat(self.distance[first], len(self.ends.sets))
        return distance, *(part.reshape(-1, *part.shape[2:]) for part in tables)


class CountBound(PotentialBound):
    """The largest leakage about a record value of a sum of whole numbers with Laplace noise of scale 1/τ.

    The noise may be continuous or discrete. Sound for every adversary of the kind and any length; infinite where it is
    not computed.

    >>> bound = CountBound([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]], [0, 0, 1], [0, 1])
    >>> round(bound(0.1), 2)
    0.3
    """

    tolerance = 0.005

    def __init__(
        self,
        transition: npt.ArrayLike,
        shown: npt.ArrayLike,
        steps: npt.ArrayLike,
        *,
        start: str | npt.ArrayLike = "stationary",
        length: int | None = None,
        adversary: str = "bdp",
    ) -> None:
        """Prepare the bound for one chain of hidden states.

        Args:
            transition: transition probabilities of the hidden states, as for ``PotentialBound``.
            shown: the record value that each hidden state shows, as a number.
            steps: what each record value adds to the sum, as a whole number.
            start: the distribution of the first hidden state, "stationary" or "any"; a given one is bounded as any.
            length: the number of records; None: without end.
            adversary: bdp, pufferfish or dp.
        """
        super().__init__(transition, shown, start=start, length=length, adversary=adversary)
        whole = np.asarray(steps, dtype=np.int64)
        self._steps = whole - whole[self.shown].min()  # of values that occur
        self._added = self._steps[self.shown]

    def _own_losses(self, tau: float) -> Floats:
        return np.asarray(tau * np.abs(self._steps[:, None] - self._steps))

    def _side(self, number: int, tau: float) -> SideClasses:
        """The classes of the side before (0) or after (1) a record."""
        size, slots = len(self.shown), self._offsets(number)
        free_start = number == 0 and not self._stationary
        rows = self._pairs(number, ~np.eye(size, dtype=bool))
        possible = np.zeros((len(slots), size, size), dtype=bool)
        possible[rows.offsets, rows.x, rows.y] = True
        group_privacy = math.inf if self.length is None else tau * float(self._added.max()) * (self.length - 1)

        def bounded(evidence: Floats) -> Floats:
            """Evidence with a margin for rounding, and at most that of group privacy."""
            return np.where(possible, np.minimum(np.maximum(evidence, 0.0) + _MARGIN, group_privacy), 0.0)

        # A first record with any distribution is like a known record that may have any state.
        near, far, ended = self._stretches(number, tau, Ends.of(self.shown if not free_start else 0 * self.shown))
        records, ended = np.arange(len(ended)), bounded(np.maximum.accumulate(ended, axis=0))
        if free_start:
            records, ended = records[:0], ended[:0]
        elif self.adversary == "pufferfish":
            if far is not None:  # the evidence of a longer side is a mean over its states at the last distance
                longer = np.where(np.isneginf(far.same), np.inf, far.same).max(axis=-1)
                records, ended = np.append(records, len(records)), np.concatenate([ended, bounded(longer)])
            return SideClasses(records[:0], ended[:0], ended[:0], records, ended[:, slots])
        informed = float(self.adversary == "bdp")

        def largest(beyond: Floats, stretch: Stretch) -> Floats:
            """(m, h, h): the evidence of every class, with the distances of a stretch."""
            out = stretch.evidence(informed * beyond).max(axis=(0, 1))
            out = out if far is None else np.maximum(out, far.evidence(beyond).max(axis=(0, 1)))
            return np.maximum(bounded(out), ended[-1:].max(axis=0, initial=0.0))

        beyond = _not_raised(largest, near, bounded(np.full((len(slots), size, size), np.inf)))
        if not np.isfinite(beyond).all():  # everything may be learned
            free = np.where(np.eye(size, dtype=bool), 0.0, np.inf)[None, None].repeat(len(slots), axis=1)
            return SideClasses(np.zeros(1, dtype=np.int64), free, free, records, ended[:, slots])
        classes = [near.classes(bounded(near.evidence(informed * beyond)))]
        if far is not None:
            classes.append(far.classes(bounded(far.evidence(beyond))))
        if free_start:  # the target may be the first record
            free = np.where(np.eye(size, dtype=bool), 0.0, np.inf)[None, None].repeat(len(slots), axis=1)
            classes.append((np.zeros(1, dtype=np.int64), np.zeros_like(free), free))
        distance, evidence, weights = (np.concatenate(parts) for parts in zip(*classes, strict=True))
        return SideClasses(distance, evidence[:, slots], weights[:, slots], records, ended[:, slots])

    def _stretches(self, number: int, tau: float, ends: Ends) -> tuple[Stretch, Stretch | None, Floats]:
        """All distances up to the last one; this one with any state, where sides are longer; and open ends.

        Open ends are (D + 1, m, h, h): the evidence of 0, 1, … records of which none is known.
        """
        kernels, every, span = self._kernels[number], Ends.of(0 * self.shown), int(self._added.max())
        m, h, _ = kernels.shape
        most = 1 + int(min(math.sqrt(2 * _MOST_WORK / (m * h**3 * max(span, 1))), -math.log(TINY) / 2 / (tau * span)))
        most = most if self.length is None else min(most, self.length - 1)
        outputs = np.arange(span + 1)[:, None]
        table, power = kernels[:, :, None] * np.exp(-tau * np.abs(outputs - self._added)), kernels
        reach, parts, ended = kernels > 0, list[Stretch](), [np.zeros((m, h, h))]
        for d in range(1, most + 1):
            if d > 1:
                following = np.roll(kernels, 1 - d, axis=0)
                table, power = self._move_on(table, following, tau), power @ following
                reach = bool_product(reach, following > 0)
            lost = reach & ((power < TINY) | (table.min(axis=2) < TINY))
            with np.errstate(divide="ignore", invalid="ignore"):
                prior = np.where(reach, np.log(power), -np.inf)
                given = np.where(lost[:, :, None], np.nan, np.log(table) - np.log(power)[:, :, None])
                total = np.log(table.sum(axis=3))
                ended.append(np.stack([(total[:, z, None] - total).max(axis=2) for z in range(h)], axis=1))
            parts.append(Stretch.at(d, prior, given, ends, tau * span * d if d > _NEAR else math.inf))
            if reach.all() and np.ptp(prior - prior[..., :1], axis=1).max() < _MIXED:
                break
        longer = self.length is None or len(parts) < self.length - 1
        far = Stretch.at(len(parts), prior, given, every) if longer else None
        joined = (
            np.concatenate(part) for part in zip(*((p.distance, p.prior, p.same, p.cross) for p in parts), strict=True)
        )
        return Stretch(ends, *joined), far, np.array(ended)

    def _move_on(self, table: Floats, kernels: Floats, tau: float) -> Floats:
        """E[kernel; u | z] for every output c, (m, h, C, h), one record further."""
        m, h, many, _ = table.shape
        moved = (table.reshape(m, h * many, h) @ kernels).reshape(m, h, many, h)
        span = int(self._added.max())
        out = np.empty((m, h, many + span, h))
        for step in np.unique(self._added).tolist():
            part, which = moved[..., self._added == step], self._added == step
            below = np.exp(-tau * np.arange(step, 0, -1))[:, None] * part[:, :, :1]
            above = np.exp(-tau * np.arange(1, span - step + 1))[:, None] * part[:, :, -1:]
            out[..., which] = np.concatenate([below, part, above], axis=2)
        return out


def _not_raised(step: Callable[[Floats, Stretch], Floats], stretch: Stretch, most: Floats) -> Floats:
    """Evidence V with step(V) ≤ V; ``most``, which bounds every step, where none is found.

    V is raised from below. What it seems to approach is tried with some of the distances, and then with all of them.
    """
    some = stretch.pick(np.unique(np.geomspace(1, len(stretch.distance), _NEAR).astype(np.int64)) - 1)
    value, last_rise = step(np.zeros_like(most), stretch), math.inf
    for room in np.geomspace(1e-4, 0.05, _ATTEMPTS).tolist():
        raised = np.maximum(value, step(value, some))
        rise = float((raised - value).max())
        share = min(rise / max(last_rise, TINY), 0.99)
        trial = np.minimum((raised + (raised - value) * share / (1 - share)) * (1 + room), most)
        if (step(trial, some) <= trial).all():
            result = step(trial, stretch)
            if (result <= trial).all():
                return result
            raised = np.maximum(raised, step(raised, stretch))
        if not raised.max() < MOST_EVIDENCE:
            break
        value, last_rise = raised, rise
    return most


def _log_odds(prior: Floats, u: Ints, v: Ints) -> Floats:
    """(…, h, h, P): how much likelier end u than v is from z, compared with z'; NaN where z or z' reaches neither."""
    with np.errstate(invalid="ignore"):
        ratios = prior[..., :, None, :] - prior[..., None, :, :]
        return np.asarray(ratios[..., u] - ratios[..., v])
