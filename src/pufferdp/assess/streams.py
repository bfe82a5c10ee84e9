"""For those who publish at every step: what a stream with a DP loss for each step leaks, and what a step may spend.

At step t record t is used, and no other; the algorithm may look at what was published before. Its DP loss at that step
is e_t. Every record is then protected by e_t on its own, and leaks more through the records before and after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.basics.paged import Paged
from pufferdp.basics.progress import Progress
from pufferdp.basics.words import number
from pufferdp.leakage.additive.inverse import largest_loss
from pufferdp.leakage.curves import best_curve
from pufferdp.leakage.streams.attacks import REACH
from pufferdp.leakage.streams.profile import Profile, StreamAttack, StreamModel
from pufferdp.models.base import Model
from pufferdp.models.chain import MarkovChain, chains_of

_TIGHT: Final = 1e-8
"""An attack that comes as near as this to the bound shows that it is exact."""
_SHOWN: Final = 1000
"""Steps listed in JSON; of longer streams both ends and some between."""
_EDGE: Final = 100


@dataclass(frozen=True, kw_only=True)
class StreamReport(Paged):
    """What a stream leaks about the record of each step. Prints as a table."""

    losses: Floats
    """DP loss of each step; one number where the stream has no end."""
    backward: Floats
    """From all outputs up to the record's own, step by step."""
    forward: Floats
    """From the record's own output and all that follow."""
    total: Floats
    """From the outputs of all steps, before and after."""
    length: int | None
    """Steps; None: for ever, and each list has one number, the largest at any step."""
    adversary: Adversary
    attack: StreamAttack
    """Who learns most that was found, about the worst step's record."""
    labels: tuple[str, ...]
    """Names of the states, for the words of ``attack``."""
    curve: float | None
    """What the best leakage curve says of any algorithm with the largest of the losses; None without end."""

    @property
    def worst(self) -> int | None:
        """The step whose record leaks most, counted from 1; None without end."""
        return None if self.length is None else self._at + 1

    @property
    def _at(self) -> int:
        return worst_step(self.total)

    @property
    def upper(self) -> float:
        """No algorithm with these losses leaks more about any record."""
        return float(self.total.max())

    @property
    def lower(self) -> float:
        """Some algorithm with these losses leaks as much."""
        return min(self.attack.leaks, self.upper)

    @property
    def exact(self) -> float | None:
        """The leakage of the worst algorithm, where the attack reaches the bound."""
        return self.upper if self.upper - self.attack.leaks <= _TIGHT * (1 + self.upper) else None

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp leakage --stream … --json`` prints."""
        steps = self._steps()
        parts = {"backward": self.backward, "forward": self.forward, "total": self.total}
        known = {"before": self.attack.before, "after": self.attack.after}
        return {
            "length": self.length,
            "adversary": str(self.adversary),
            "steps": None if self.length is None else (steps + 1).tolist(),
            "dp_epsilon": self.losses[steps].tolist(),
            **{name: part[steps].tolist() for name, part in parts.items()},
            "largest": {name: float(part.max()) for name, part in parts.items()},
            "worst": self.worst,
            "lower": self.lower,
            "exact": self.exact,
            "upper": self.upper,
            "attack": {
                "likelier": self.labels[self.attack.likelier],
                "other": self.labels[self.attack.other],
                **{
                    side: None if place is None else {"distance": place[0], "state": self.labels[place[1]]}
                    for side, place in known.items()
                },
            },
            "curve": self.curve,
        }

    def _steps(self) -> npt.NDArray[np.int64]:
        n = len(self.total)
        if n <= _SHOWN:
            return np.arange(n)
        between = np.linspace(0, n - 1, _EDGE).astype(np.int64)
        ends = np.concatenate([np.arange(_EDGE), np.arange(n - _EDGE, n)])
        return np.unique(np.concatenate([ends, between, np.array([self._at])]))


@dataclass(frozen=True, kw_only=True)
class StreamBudget(Paged):
    """What each step may spend so that no record leaks more than the target."""

    target: float
    length: int | None
    """Steps; None: for ever."""
    adversary: Adversary
    constant: float
    """What each step may spend where all spend the same."""
    ends: tuple[float, float, float] | None
    """More at the ends: the first step, every one between, the last; safe for any number of steps. None where a
    stream without end has no budget."""

    def losses(self, length: int | None = None) -> Floats:
        """What each step spends, the ends more than the others where they may."""
        n = length or self.length
        if n is None:
            raise ParameterError("length is missing; say how many steps to list")
        if n == 1:
            return np.array([self.target])
        if self.ends is None or (self.length is not None and self.constant * n > self._sum(n)):
            return np.full(n, self.constant)
        first, middle, last = self.ends
        return np.array([first, *[middle] * (n - 2), last])

    def _sum(self, n: int) -> float:
        assert self.ends is not None
        return self.ends[0] + self.ends[1] * (n - 2) + self.ends[2]

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp leakage --stream-target … --json`` prints."""
        ends = None if self.ends is None else dict(zip(("first", "middle", "last"), self.ends, strict=True))
        return {
            "target": self.target,
            "length": self.length,
            "adversary": str(self.adversary),
            "constant": self.constant,
            "ends": ends,
        }


def worst_step(total: Floats) -> int:
    """The first step that leaks as much as any, up to rounding; counted from 0."""
    most = float(total.max())
    return int(np.argmax(total >= most - _TIGHT / 10 * (1 + most)))


def stream_leakage(
    model: Model,
    epsilons: float | Sequence[float] | Floats,
    *,
    length: int | None = None,
    adversary: str = "bdp",
    progress: Progress | None = None,
) -> StreamReport:
    """What a stream leaks about the record of each step, whatever the algorithm.

    >>> chain = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["rest", "active"])
    >>> report = stream_leakage(chain, 0.1, length=288)
    >>> round(report.upper, 4), report.exact is not None
    (0.3893, True)

    Args:
        model: a chain with a start, or a class of them.
        epsilons: the DP loss of each step; one number: of every step.
        length: steps, for one number; without it the stream has no end.
        adversary: bdp, pufferfish or dp.
        progress: called with a few words now and then.
    """
    adversary, chains = checks.adversary(adversary), _chains(model)
    losses = _losses(epsilons, length)
    endless = np.ndim(epsilons) == 0 and length is None
    models = [StreamModel(chain, adversary) for chain in chains]
    if endless:
        profiles = [_endless(stream, float(losses[0])) for stream in models]
    else:
        profiles = [stream.profile(losses, _percent_progress(progress, len(losses))) for stream in models]
    worst = max(range(len(models)), key=lambda n: float(profiles[n].total.max()))
    if endless:
        attack = models[worst].attack(np.full(2 * REACH + 1, losses[0]), REACH)
    else:
        attack = models[worst].attack(losses, worst_step(profiles[worst].total))
    profile = reduce(or_, profiles)
    return StreamReport(
        losses=losses,
        backward=profile.backward,
        forward=profile.forward,
        total=profile.total,
        length=None if endless else len(losses),
        adversary=adversary,
        attack=attack,
        labels=chains[worst].labels,
        curve=None if endless else _curve(model, losses, adversary),
    )


def stream_budget(model: Model, target: float, *, length: int | None = None, adversary: str = "bdp") -> StreamBudget:
    """What each step of a stream may spend so that no record leaks more than the target; without a length: for ever.

    >>> chain = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
    >>> budget = stream_budget(chain, 1.0)
    >>> round(budget.constant, 4), [round(e, 4) for e in budget.ends]
    (0.2503, [0.6252, 0.2503, 0.6252])
    """
    adversary, chains, most = checks.adversary(adversary), _chains(model), checks.epsilon(target, "target")
    steps = None if length is None else checks.length(length)
    models = [StreamModel(chain, adversary) for chain in chains]
    lasting: float | None = None
    ends: tuple[float, float, float] | None = None
    if all(stream.settles or stream.alone for stream in models):
        lasting = _largest(models, most, None)
    if lasting is not None:
        both = [stream.ends(lasting, most) for stream in models]
        ends = min(first for first, _ in both), lasting, min(last for _, last in both)
    constant = lasting if steps is None else _largest(models, most, steps)
    if constant is None:
        raise NotApplicableError(
            "no constant loss keeps a stream without end within a target here: outputs say ever more about where the "
            "chain is in its cycle, or in which part; give a length"
        )
    return StreamBudget(target=most, length=steps, adversary=adversary, constant=constant, ends=ends)


def _largest(models: Sequence[StreamModel], target: float, steps: int | None) -> float | None:
    """The largest constant loss within the target; None where none is found."""

    def leaks(loss: float) -> float:
        if steps is None:
            return max(float(stream.ever(loss).total.max()) for stream in models)
        return max(float(stream.profile(np.full(steps, loss)).total.max()) for stream in models)

    try:
        return largest_loss(leaks, target, target)
    except NotApplicableError:
        return None


def _endless(model: StreamModel, loss: float) -> Profile:
    profile = model.ever(loss)
    if not math.isfinite(float(profile.total[0])):
        raise NotApplicableError(
            f"at {number(loss)} a step no bound on a stream without end was found: what it leaks may grow for ever; "
            "give a length"
        )
    return profile


def _chains(model: Model) -> tuple[MarkovChain, ...]:
    chains = chains_of(model)
    if not chains:
        raise NotApplicableError(
            f"the model is a {type(model).__name__}; streams are worked out for chains with one start: give a "
            "markov_chain or a markov_class"
        )
    return chains


def _losses(epsilons: float | Sequence[float] | Floats, length: int | None) -> Floats:
    try:
        given = np.atleast_1d(np.asarray(epsilons, dtype=float))
    except (TypeError, ValueError):
        raise ParameterError(f"stream is {epsilons!r}; it must be DP losses, one a step", value=epsilons) from None
    if given.ndim != 1 or len(given) == 0:
        raise ParameterError(f"stream has {given.size} losses; it must be one a step", value=epsilons)
    bad = given[~((given >= 0) & (given <= checks.LARGEST))]
    if len(bad):
        raise ParameterError(f"stream has a loss of {bad[0]:g}; it must be a finite number, 0 or more", value=epsilons)
    if length is None:
        return given
    steps = checks.length(length)
    if len(given) not in (1, steps):
        raise ParameterError(f"stream has {len(given):,} losses and length is {steps:,}; leave the length out")
    if steps > 100_000_000:
        raise ParameterError(f"length is {steps:,}; leave it out for a stream without end", value=length)
    return np.full(steps, given[0]) if len(given) == 1 else given


def _curve(model: Model, losses: Floats, adversary: Adversary) -> float:
    """Each record is used once, so the whole stream is one algorithm with the largest of the losses."""
    return best_curve(model, len(losses), adversary)(float(losses.max()))


def _percent_progress(progress: Progress | None, n: int) -> Callable[[int], None]:
    if progress is None:
        return lambda m: None

    reported = -1

    def step_progress(m: int) -> None:
        nonlocal reported
        if (share := 100 * m // (2 * n)) > reported:
            reported = share
            progress(f"following the stream: {share}%")

    return step_progress
