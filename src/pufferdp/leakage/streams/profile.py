"""The leakage of a stream over time under one chain: from the outputs so far, from those to come, from all."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import NotApplicableError
from pufferdp.leakage.streams.attacks import REACH, Attack, attack_side
from pufferdp.leakage.streams.bounds import Deep, Products, every_set, pair_logs, scaled
from pufferdp.leakage.streams.sides import Reach, StreamSide, largest
from pufferdp.models.chain import MarkovChain

_PATIENT: Final = 5_000


@dataclass(frozen=True)
class Profile:
    """Upper bounds by step: outputs up to the record's own, from its own on, and all; exact for two states."""

    backward: Floats
    forward: Floats
    total: Floats

    def __or__(self, other: Profile) -> Profile:
        """The worst of two models, step by step."""
        return Profile(*(np.maximum(a, b) for a, b in zip(self.parts, other.parts, strict=True)))

    @property
    def parts(self) -> tuple[Floats, Floats, Floats]:
        """The three, in this order."""
        return self.backward, self.forward, self.total


@dataclass(frozen=True)
class StreamAttack:
    """Outputs and an adversary that were found: a lower bound on the worst algorithm."""

    leaks: float
    likelier: int
    other: int
    """The two values, as state numbers of the model."""
    before: tuple[int, int] | None
    """The known record before the target: its distance and value."""
    after: tuple[int, int] | None


class StreamModel:
    """A chain as an adversary sees it: the states that occur, and both sides of a record."""

    def __init__(self, chain: MarkovChain, adversary: Adversary) -> None:
        if chain.any_start:
            raise NotApplicableError(
                'start is "any", and what a stream leaks is worked out for one law of the first record; '
                'use start "stationary", or give the law'
            )
        given = chain.given_start
        law = chain.stationary if given is None else given
        states = law > 0
        while True:
            wider = states | (states @ (chain.transition > 0))
            if (wider == states).all():
                break
            states = wider
        self.states = np.flatnonzero(states)
        self.table = np.array(chain.transition[np.ix_(self.states, self.states)])
        self.law, self.fixed, self.adversary = np.array(law[self.states]), given is None, adversary
        everyone = adversary is Adversary.BDP
        self.before = StreamSide(self.table.T, self.law, everyone, self.fixed)
        self.after = StreamSide(self.table, np.ones(len(self.law)), everyone, True)

    @cached_property
    def alone(self) -> bool:
        """Whether no other record says anything: one state, or an adversary who knows all others."""
        return len(self.law) == 1 or self.adversary is Adversary.DP

    @property
    def settles(self) -> bool:
        """Whether a stream without end can have a bound: every value is forgotten in time."""
        return MarkovChain(transition=self.table).primitive

    def possible(self, length: int) -> npt.NDArray[np.bool_]:
        """Which values each record can have. Patterns repeat sooner or later."""
        seen: dict[bytes, int] = {}
        rows: list[npt.NDArray[np.bool_]] = []
        now = self.law > 0
        while len(rows) < length and now.tobytes() not in seen:
            seen[now.tobytes()] = len(rows)
            rows.append(now)
            now = np.asarray(now @ (self.table > 0), dtype=np.bool_)
        first = seen.get(now.tobytes(), 0)
        at = np.arange(length)
        at = np.where(at < len(rows), at, first + (at - first) % max(1, len(rows) - first))
        return np.array(rows)[at]

    def profile(self, losses: Floats, tell: Callable[[int], None] = lambda m: None) -> Profile:
        """Step by step, for the losses of all steps."""
        n, possible = len(losses), self.possible(len(losses))
        if self.alone:
            found = np.where(possible.sum(axis=1) > 1, losses, 0.0)
            return Profile(found, found, found)
        if (losses == losses[0]).all() and possible.all():
            return self._constant(float(losses[0]), n)
        left = self.before.varying(losses[:-1], possible[:-1], tell)
        right = self.after.varying(losses[:0:-1], possible[:0:-1], lambda m: tell(n + m))
        return _combined(losses, left, right[::-1])

    def _constant(self, loss: float, n: int) -> Profile:
        """Where every step spends the same: both ends, and one value for all steps between them."""
        before, after = self.before.constant(loss, n - 1), self.after.constant(loss, n - 1)
        head, tail = len(before.tables) + 1, len(after.tables) + 1
        if head + tail >= n or before.ever is None or after.ever is None:
            at = np.arange(n)
        else:
            at = np.concatenate([np.arange(head), [head], np.arange(n - tail, n)])
        left = np.array([before.at(int(t), loss) for t in at])
        right = np.array([after.at(n - 1 - int(t), loss) for t in at])
        found = _combined(np.full(len(at), loss), left, right)
        if len(at) == n:
            return found
        times = np.ones(len(at), dtype=np.int64)
        times[head] = n - head - tail
        return Profile(*(np.repeat(part, times) for part in found.parts))

    def ever(self, loss: float) -> Profile:
        """The largest at any step of a stream without end; infinite where no bound is found."""
        if self.alone:
            one = np.array([loss if len(self.law) > 1 else 0.0])
            return Profile(one, one, one)
        before, after = self.reaches(loss)
        if before.ever is None or after.ever is None:
            endless = np.array([math.inf])
            return Profile(endless, endless, endless)
        return _combined(np.array([loss]), before.ever[None], after.ever[None])

    def reaches(self, loss: float) -> tuple[Reach, Reach]:
        """Both sides where every step spends the same, for ever."""
        if self.fixed and not self.settles and loss > 0:
            # Outputs say ever more about where the chain is in its cycle, or in which part.
            return Reach([], None), Reach([], None)
        return self.before.constant(loss, None), self.after.constant(loss, None)

    def ends(self, loss: float, target: float) -> tuple[float, float]:
        """What the first and the last step may spend where all others spend ``loss``, for ever within the target."""
        before, after = self.reaches(loss)
        if self.alone or not self.fixed or before.ever is None or after.ever is None:
            return loss, loss
        left, right = _End(self.before, before.ever, loss), _End(self.after, after.ever, loss)

        def fits(first: float, last: float) -> bool:
            adds = left.most(first), right.most(last)
            if adds[0] is None or adds[1] is None:
                return False
            leaks = max(loss + largest(adds[0] + adds[1]), first + largest(adds[1]), last + largest(adds[0]))
            return leaks <= target

        both = _largest(lambda own: fits(own, own), loss, target)
        first = _largest(lambda own: fits(own, both), both, target)
        return first, _largest(lambda own: fits(first, own), both, target)

    def attack(self, losses: Floats, at: int) -> StreamAttack:
        """The best attack that is found on the record of one step, counted from 0."""
        possible = self.possible(len(losses))
        skipped = max(0, at - REACH)
        law = self.law if self.fixed else np.linalg.matrix_power(self.table.T, skipped) @ self.law
        near, far = slice(skipped, at), slice(at + 1, at + 1 + REACH)
        ones = np.ones(len(self.law))
        if self.alone:
            none = np.where(np.outer(possible[at], possible[at]), 0.0, -np.inf)
            sides = [Attack(none, {})] * 2
        else:
            sides = [
                attack_side(self.before, law, losses[near], possible[near]),
                attack_side(self.after, ones, losses[far][::-1], possible[far][::-1]),
            ]
        found = losses[at] + sides[0].added + sides[1].added
        np.fill_diagonal(found, -np.inf)
        x, y = (int(v) for v in np.unravel_index(int(found.argmax()), found.shape))
        leaks = max(0.0, float(found[x, y]))
        known = [side.known.get((x, y)) for side in sides]
        before, after = (None if one is None else (one[0], int(self.states[one[1]])) for one in known)
        return StreamAttack(leaks, int(self.states[x]), int(self.states[y]), before, after)


def _combined(losses: Floats, left: Floats, right: Floats) -> Profile:
    """Both sides and the record's own output, the worst pair of values each time."""
    k = left.shape[-1]
    off = ~np.eye(k, dtype=bool)
    alive = left[:, off] > -np.inf  # after the target nobody needs to know a record, so every pair is possible
    own = losses[:, None]

    def worst(table: Floats) -> Floats:
        found = np.where(alive, table, -np.inf).max(axis=1, initial=-np.inf)
        return np.where(found > -np.inf, found, 0.0)

    return Profile(worst(own + left[:, off]), worst(own + right[:, off]), worst(own + left[:, off] + right[:, off]))


class _End:
    """A side whose farthest record spends more than the others. Only who knows no record of the side sees that."""

    def __init__(self, side: StreamSide, ever: Floats, loss: float) -> None:
        self._side, self._ever, self._products = side, ever, Products(side.table, loss)
        self._loss, self._sets = loss, every_set(len(side.table))
        self._found: dict[float, Floats | None] = {loss: ever}

    def most(self, own: float) -> Floats | None:
        """What the side adds at most where its farthest record spends ``own``; None where no bound is found."""
        if own not in self._found:
            self._found[own] = None if self._sets is None else self._followed(own, self._sets)
        return self._found[own]

    def _followed(self, own: float, sets: Floats) -> Floats | None:
        # After that record the weights are a mean of those that its extreme likelihoods lead to: these are the starts.
        starts = scaled((self._side.nothing * np.exp((sets - 1) * own)) @ self._side.table.T)
        bounds, worst, said = Deep(self._products, starts), self._ever, pair_logs(self._side.nothing)
        for _ in range(_PATIENT):
            worst = np.maximum(worst, bounds.now.max(axis=0) - said)
            ceiling = bounds.ceiling(slice(None))
            if ceiling is not None:
                return np.asarray(np.maximum(worst, ceiling - said))
            bounds.step()
        return None


def _largest(fits: Callable[[float], bool], low: float, high: float) -> float:
    """The largest number that fits, where ``low`` is returned if none does."""
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
