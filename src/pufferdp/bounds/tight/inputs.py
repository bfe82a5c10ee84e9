"""What comes in, checked once: transitions, starts, losses, deltas, adversaries; and what a chain tells by itself.

Messages name value and rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.basics.checks import LARGEST
from pufferdp.basics.errors import ModelError, ParameterError
from pufferdp.models.chain import ROW_TOLERANCE, MarkovChain, check_distribution, number_array, scaled

_RAREST: Final = 1e-250
"""Values that are rarer are not told from those that are impossible."""


@dataclass(frozen=True, eq=False)
class Chain:
    """A Markov chain: how records follow each other, and the distribution of the first one."""

    kernels: Floats
    """(m, k, k): the step behind record t is kernel (t − 1) mod m."""
    start: Floats | None
    """The distribution of the first record; None: any."""
    stationary: bool
    """Whether the start is the distribution that the chain keeps."""

    @property
    def size(self) -> int:
        """How many states the chain has."""
        return int(self.kernels.shape[-1])

    @property
    def period(self) -> int:
        """Number of kernels, after which the first comes again."""
        return len(self.kernels)

    @cached_property
    def independent(self) -> bool:
        """Whether no record says anything about the next one: all rows are equal."""
        return bool((self.kernels == self.kernels[:, :1]).all())

    @cached_property
    def marginals(self) -> Floats:
        """Distributions of the first m records of a chain with a start that is kept, (m, k)."""
        assert self.start is not None
        return np.array(list(accumulate(self.kernels[:-1], np.matmul, initial=self.start)))

    @cached_property
    def period_kernel(self) -> Floats:
        """The kernel of a whole period, from one first slot to the next."""
        return np.asarray(reduce(np.matmul, self.kernels))

    @cached_property
    def primitive(self) -> bool:
        """Whether every state is reached from every other after some number of periods, and after any larger one.

        Of several kernels that are kept in turn only the states that the first record can have are asked.
        """
        pattern = (self.period_kernel > 0).astype(float)
        if self.stationary and self.start is not None:
            pattern = pattern[self.start > 0][:, self.start > 0]
        for _ in range(int((self.size - 1) ** 2 + 1).bit_length()):  # Wielandt
            pattern = ((pattern @ pattern) > 0).astype(float)
        return bool(pattern.all())

    @cached_property
    def interchangeable(self) -> Ints:
        """(k,): the first state with which each can be swapped without changing the chain; its own number if none."""
        out, tables = np.arange(self.size), self.kernels
        for state, other in ((b, a) for b in range(self.size) for a in range(b)):
            starts_alike = self.start is None or self.stationary or self.start[state] == self.start[other]
            if out[state] == state and starts_alike and (tables[:, state, state] == tables[:, other, other]).all():
                swap = np.arange(self.size)
                swap[[state, other]] = other, state
                if (tables[:, swap[:, None], swap] == tables).all():
                    out[state] = other
        return out

    def restricted(self, states: Ints) -> Chain:
        """The chain on states that it does not leave."""
        kernels = self.kernels[:, states[:, None], states]
        return Chain(kernels, None if self.start is None else self.start[states], self.stationary)


def chain(transition: npt.ArrayLike, start: str | npt.ArrayLike) -> Chain:
    """A chain from a table of transitions, or from several that follow each other again and again."""
    kernels = kernels_of(transition)
    if isinstance(start, str):
        if start == "any":
            return Chain(kernels, None, False)
        if start == "stationary":
            found = Chain(kernels, None, False)
            return Chain(kernels, stationary_distribution(found.period_kernel), True)
        raise ModelError(
            f'start is {start!r}; it must be "stationary", "any" or a distribution over the states', value=start
        )
    return Chain(kernels, distribution(start, kernels.shape[-1], "start"), False)


def kernels_of(transition: npt.ArrayLike, name: str = "transition") -> Floats:
    """Tables of transitions, (m, k, k), each row summing to 1."""
    tables = number_array(transition, name)
    if tables.ndim == 2:
        tables = tables[None]
    if tables.ndim != 3 or tables.shape[1] != tables.shape[2] or tables.size == 0:
        shape = "×".join(str(n) for n in tables.shape)
        raise ModelError(f"{name} is {shape}; it must be a square table, or several of one size", value=transition)
    wrong = ~(np.isfinite(tables) & (tables >= 0)).all(axis=2) | (np.abs(tables.sum(axis=2) - 1) > ROW_TOLERANCE)
    for t, x in np.argwhere(wrong)[:1].tolist():
        check_distribution(tables[t, x], f"row {x + 1} of {name}")
    return scaled(tables)


def one_round(kernels: Floats) -> Floats:
    """The shortest round of kernels that gives the same when it is repeated: one where all are equal."""
    m = len(kernels)
    for steps in range(1, m):
        if m % steps == 0 and (kernels == np.tile(kernels[:steps], (m // steps, 1, 1))).all():
            return kernels[:steps]
    return kernels


def is_representable(found: Chain) -> bool:
    """Whether doubles hold all that is possible within a period: no product of what is above 0 has become 0."""
    pattern = np.eye(found.size)
    for kernel in found.kernels:
        pattern = np.minimum(pattern @ (kernel > 0), 1.0)
    distributions = found.marginals
    rarest = float(np.min(distributions, initial=1.0, where=distributions > 0))
    same = ((pattern > 0) == (found.period_kernel > 0)).all() and (
        supports(found, found.period) == (distributions > 0)
    ).all()
    return bool(same) and rarest > _RAREST


def distribution(value: npt.ArrayLike, k: int, name: str) -> Floats:
    """Probabilities of k states."""
    found = number_array(value, name)
    if found.shape != (k,):
        raise ModelError(f"{name} has {found.size} probabilities; it must have one for each of the {k} states")
    check_distribution(found, name)
    return scaled(found)


def stationary_distribution(transition: Floats) -> Floats:
    """The stationary distribution; with several closed classes the mean of theirs: any mixture gives the same bound."""
    return np.array(MarkovChain(transition=scaled(transition)).stationary)


def supports(found: Chain, length: int) -> Mask:
    """Which values each of the first records can have, (length, k)."""
    out = np.empty((length, found.size), dtype=np.bool_)
    now = np.ones(found.size, dtype=bool) if found.start is None else found.start > 0
    patterns = (found.kernels > 0).astype(float)
    for t in range(length):
        out[t] = now
        if t and found.period == 1 and (out[t] == out[t - 1]).all():
            out[t:] = now
            break
        now = (now.astype(float) @ patterns[t % found.period]) > 0
    return out


def adversary(value: object) -> str:
    """An adversary by name: bdp, pufferfish or dp."""
    return str(checks.adversary(value))


def loss(value: float, name: str = "loss") -> float:
    """A DP loss: a number of 0 or more."""
    number = checks.any_number(name, value)
    if not 0 <= number <= LARGEST:
        raise ParameterError(f"{name} is {number:g}; it must be a number from 0 to {LARGEST:g}", value=value)
    return number


def losses(value: npt.ArrayLike, records: int | None = None, name: str = "losses") -> Floats:
    """A DP loss for each record."""
    try:
        found = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be numbers, one for each record; found {value!r}", value=value) from None
    if found.ndim != 1 or len(found) == 0:
        raise ParameterError(
            f"{name} has the shape {found.shape}; it must be a list, one number for each record", value=value
        )
    bad = np.flatnonzero(~((found >= 0) & (found <= LARGEST)))
    if len(bad):
        at, number = int(bad[0]), float(found[bad[0]])
        raise ParameterError(
            f"{name} has {number:g} for record {at + 1:,}; a loss is a number from 0 to {LARGEST:g}", value=number
        )
    if records is not None and len(found) != records:
        raise ParameterError(
            f"{name} has {len(found):,} numbers and there are {records:,} records; give one loss per record",
            value=value,
        )
    return found


def target(value: float, name: str = "epsilon") -> float:
    """A leakage that is allowed: above 0, however small."""
    found = checks.any_number(name, value)
    if not (math.isfinite(found) and found > 0):
        raise ParameterError(f"{name} is {found:g}; it must be a finite number above 0, for example 1", value=value)
    return found


def leaks_without_bound(chain: Chain) -> bool:
    """Whether a series without end that has a beginning tells without bound about a record, however little is spent.

    Records to come tell all about two values that have no future in common. Records gone by tell all about a state that
    can be left for good after any number of returns: "were you always where this state is reached from?" is answered
    with yes by each of them, and by others with a chance that falls from record to record.
    """
    if chain.period > 1 or chain.stationary:
        return False
    moves = chain.kernels[0] > 0
    reach = moves  # in one step or more
    for _ in range(len(moves).bit_length()):
        reach = reach | (reach @ reach)
    transient = (reach & ~reach.T).any(axis=1)
    if (transient & np.diagonal(reach)).any():
        return True
    there = supports(chain, chain.size**2 + 1)
    return bool((there[:, :, None] & there[:, None, :] & ~_meet(moves)).any())


def keeps_apart(chain: Chain) -> bool:
    """Whether two values of the first record lead to different states at all times: each record adds its whole loss."""
    if chain.period > 1 or chain.stationary:
        return False
    first = np.ones(chain.size, dtype=bool) if chain.start is None else chain.start > 0
    return bool((first[:, None] & first & ~_meet(chain.kernels[0] > 0)).any())


def _meet(moves: Mask) -> Mask:
    """Whether two states lead to one state after some number of steps."""
    step, meets = moves.astype(float), np.eye(len(moves))
    while True:
        more = np.maximum(meets, step @ meets @ step.T > 0)
        if (more == meets).all():
            return meets > 0
        meets = more


def visited(chain: Chain, length: int | None) -> tuple[Chain, Ints]:
    """The chain on the states that it ever visits, and their numbers."""
    everything = np.arange(chain.size)
    if chain.start is None or length == 1:
        return chain, everything
    steps = chain.size * chain.period + chain.period
    seen = supports(chain, steps).any(axis=0)
    return (chain, everything) if seen.all() else (chain.restricted(np.flatnonzero(seen)), np.flatnonzero(seen))
