"""For those who publish at every step: what a stream with a DP loss for each step leaks, and what a step may spend.

At step t record t is used, and no other; the algorithm may look at what was published before. Its DP loss at that step
is e_t. Every record is then protected by e_t on its own, and leaks more through the records before and after it. That
is a series with a loss of its own for each record (``losses``), distinguished by what comes before and after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pufferdp.assess.losses import (
    chains_of,
    exact_value,
    first_of_worst,
    has_bound_only,
    leakage_at_largest,
    listed,
    odds_curve,
    solvable,
)
from pufferdp.assess.worst_algorithm import ASSUMPTION, WorstAlgorithm
from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats
from pufferdp.basics.checks import MOST_RECORDS
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.basics.frames import frame
from pufferdp.basics.paged import Paged, json_values
from pufferdp.basics.progress import Progress, silent
from pufferdp.basics.words import number
from pufferdp.bounds.curve_forms import Curve, TightBound
from pufferdp.bounds.curves import best_curve, curve
from pufferdp.bounds.tight import streams as tight
from pufferdp.bounds.tight.attack import TightLeakage
from pufferdp.bounds.tight.odds import OddsSeries, odds_forever, odds_series
from pufferdp.bounds.tight.series import TOLERANCE
from pufferdp.models.base import Model
from pufferdp.models.chain import Box, MarkovChain
from pufferdp.models.files.json import ModelLike, as_model

_NAMES = ("backward", "forward", "total")
_NO_BOUND = "at {} a step no bound on a stream without end was found: what it leaks may grow forever; give a length"


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
    """Steps; None: forever, and each list has one number, the largest at any step."""
    adversary: Adversary
    lower: float
    """Some algorithm with these losses leaks as much about the worst record, under some chain of the class; 0 where
    nothing is known."""
    attack: WorstAlgorithm | None
    """Who learns that much, and from which questions; None where nothing is known."""
    curve: float | None
    """What the best leakage curve says of any algorithm with the largest of the losses; None without end."""

    @property
    def worst(self) -> int | None:
        """The step whose record leaks most, counted from 1; None without end."""
        return None if self.length is None else first_of_worst(self.total) + 1

    @property
    def upper(self) -> float:
        """No algorithm with these losses leaks more about any record under the model."""
        return float(self.total.max())

    @property
    def exact(self) -> float | None:
        """The leakage of the worst algorithm, where it is known."""
        return exact_value(self.lower, self.upper)

    def to_frame(self, *, backend: str | None = None) -> Any:
        """A row for each step, as a pandas or polars frame; one row where the stream has no end."""
        steps = [None] if self.length is None else range(1, self.length + 1)
        parts = (self.losses, self.backward, self.forward, self.total)
        rows = zip(steps, *(part.tolist() for part in parts), strict=True)
        return frame(("step", "dp_epsilon", *_NAMES), list(rows), backend)

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp leakage --stream … --json`` prints."""
        steps = listed(len(self.total), 0 if self.worst is None else self.worst - 1)
        parts = {"backward": self.backward, "forward": self.forward, "total": self.total}
        return {
            **json_values(self, "length adversary worst lower exact upper attack curve"),
            "steps": None if self.length is None else (steps + 1).tolist(),
            "dp_epsilon": self.losses[steps].tolist(),
            **{name: part[steps].tolist() for name, part in parts.items()},
            "largest": {name: float(part.max()) for name, part in parts.items()},
            "assumption": ASSUMPTION,
        }


@dataclass(frozen=True, kw_only=True)
class StreamBudget(Paged):
    """What each step may spend so that no record leaks more than the target."""

    target: float
    length: int | None
    """Number of steps; None for a stream without end."""
    adversary: Adversary
    constant: float
    """What each step may spend where all spend the same."""
    ends: tuple[float, float, float] | None
    """More at the ends: the first step, every one between, the last; safe for any number of steps. None where a
    stream without end has no budget."""

    def losses(self, length: int | None = None) -> Floats:
        """What each step spends, the ends more than the others where they may."""
        steps = self.length if length is None else length
        if steps is None:
            raise ParameterError("length is missing; say how many steps to list")
        n = checks.length(steps)
        if n == 1:
            return np.array([self.target])
        if self.ends is None or (self.length is not None and self.constant * n > self._sum(n)):
            return np.full(n, self.constant)
        first, middle, last = self.ends
        return np.array([first, *[middle] * (n - 2), last])

    def _sum(self, n: int) -> float:
        assert self.ends is not None
        return self.ends[0] + self.ends[1] * (n - 2) + self.ends[2]

    def to_frame(self, length: int | None = None, *, backend: str | None = None) -> Any:
        """A row for each step with what it may spend, as a pandas or polars frame."""
        return frame(("step", "dp_epsilon"), list(enumerate(self.losses(length).tolist(), 1)), backend)

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp leakage --stream-target … --json`` prints."""
        ends = None if self.ends is None else dict(zip(("first", "middle", "last"), self.ends, strict=True))
        return {**json_values(self, "target length adversary constant"), "ends": ends, "assumption": ASSUMPTION}


def stream_leakage(
    model: ModelLike,
    epsilons: float | Sequence[float] | Floats,
    *,
    length: int | None = None,
    adversary: str = "bdp",
    progress: Progress | None = None,
) -> StreamReport:
    """The leakage of a stream about the record of each step under a model, whatever the algorithm.

    >>> chain = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["rest", "active"])
    >>> report = stream_leakage(chain, 0.1, length=288)
    >>> round(report.upper, 2), report.exact is not None
    (0.39, True)

    Args:
        model: a chain with a start, or a class of them.
        epsilons: the DP loss of each step; one number: of every step.
        length: steps, for one number; without it the stream has no end.
        adversary: bdp, pufferfish or dp.
        progress: called with a few words now and then.
    """
    model = as_model(model)
    who, losses = checks.adversary(adversary), _losses(epsilons, length)
    endless = np.ndim(epsilons) == 0 and length is None
    if has_bound_only(model):
        return _by_curve(model, losses, endless, who)
    chains, box = chains_of(model)
    parts: list[tight.StreamLeakage | OddsSeries] = []
    attacks: list[TightLeakage] = []
    for n, chain in enumerate(chains):
        exact = box is None and (who is Adversary.DP or solvable(chain, 0 if endless else len(losses)))
        tell = partial(_tell, progress or silent, n, len(chains))
        one = chain if exact or not chain.any_start else replace(chain, start="stationary")
        found = _tight(one, losses, endless, who, tell)
        attacks.append(replace(found.attack, lower=found.lower, model=n))
        if exact:
            parts.append(found)
        elif box is None:
            parts.append(_odds(chain, losses, endless, who))
    if box is not None:
        parts.append(_odds(box, losses, endless, who))
    backward, forward, total = (np.max([getattr(part, name) for part in parts], axis=0) for name in _NAMES)
    allowed = None
    if not endless:  # each record is used once, so the stream is one algorithm with the largest of the losses
        best: Curve = curve("tight", model, len(losses), who)
        if not best.applies:
            best = best_curve(model, len(losses), who)
        allowed = best(float(losses.max()))
        backward, forward, total = (np.minimum(part, allowed) for part in (backward, forward, total))
        if isinstance(best, TightBound) and (losses == losses[0]).all():
            attacks.append(best.worst(float(losses[0])))
    worst = max(attacks, key=lambda attack: attack.lower)
    return StreamReport(
        losses=losses,
        backward=backward,
        forward=forward,
        total=total,
        length=None if endless else len(losses),
        adversary=who,
        lower=min(worst.lower, float(total.max())),
        attack=WorstAlgorithm.of(worst, chains[worst.model].labels),
        curve=allowed,
    )


def _by_curve(model: Model, losses: Floats, endless: bool, who: Adversary) -> StreamReport:
    """What a leakage curve says of a stream; fewer outputs leak no more than all, and no more than all their losses."""
    total, allowed = leakage_at_largest(model, losses, who, MOST_RECORDS if endless else len(losses))
    if endless and 0 < MOST_RECORDS * losses[0] <= allowed * (1 + TOLERANCE):  # group privacy alone
        raise NotApplicableError(_NO_BOUND.format(number(float(losses[0]))))
    parts = [total, total] if endless else [np.cumsum(losses), np.cumsum(losses[::-1])[::-1]]
    return StreamReport(
        losses=losses,
        backward=np.minimum(total, parts[0]),
        forward=np.minimum(total, parts[1]),
        total=total,
        length=None if endless else len(losses),
        adversary=who,
        lower=0.0,
        attack=None,
        curve=None if endless else allowed,
    )


def _tight(
    chain: MarkovChain, losses: Floats, endless: bool, who: Adversary, tell: Callable[[int], None]
) -> tight.StreamLeakage:
    """What the worst algorithm leaks under one chain."""
    same = bool((losses == losses[0]).all())
    return tight.stream_leakage(
        chain.transition,
        float(losses[0]) if same else losses,
        length=None if endless else len(losses),
        start=chain.start,
        adversary=str(who),
        tell=tell,
    )


def _odds(member: MarkovChain | Box, losses: Floats, endless: bool, who: Adversary) -> OddsSeries:
    """The closed form, for any start."""
    if who is Adversary.DP:
        return OddsSeries(losses, losses, losses)
    if not endless:
        return odds_series(odds_curve(member, len(losses)), losses)
    found = odds_forever(odds_curve(member, None), float(losses[0]))
    if not math.isfinite(float(found.total[0])):
        raise NotApplicableError(_NO_BOUND.format(number(float(losses[0]))))
    return found


def stream_budget(
    model: ModelLike, target: float, *, length: int | None = None, adversary: str = "bdp"
) -> StreamBudget:
    """The DP loss that each step may spend so that no record leaks more than the target under a model.

    Without a length the stream has no end.

    >>> chain = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
    >>> budget = stream_budget(chain, 1.0)
    >>> round(budget.constant, 2), 0.62 < min(budget.ends[0], budget.ends[2]) < 0.626
    (0.25, True)
    """
    model = as_model(model)
    who, most = checks.adversary(adversary), checks.epsilon(target, "target")
    steps = None if length is None else checks.length(length)
    if has_bound_only(model):
        found = [_budget_by_curve(model, most, steps, who)]
    else:
        chains, box = chains_of(model)
        if box is None:
            found = [_budget(chain, most, steps, who) for chain in chains]
        else:
            found = [_budget_by_odds(box, most, steps, who)]
    constant = min(one for one, _ in found)
    if constant <= 0:
        raise NotApplicableError(
            "no constant loss keeps a stream without end within a target here: outputs say ever more about where the "
            "chain is in its cycle, or in which part; give a length"
        )
    # Leakage grows with every loss: what is no more than each chain allows keeps the target under all of them.
    triples = [one for _, one in found if one is not None]
    ends = None
    if len(triples) == len(found):
        first, middle, last = (min(spent) for spent in zip(*triples, strict=True))
        ends = first, middle, last
    return StreamBudget(target=most, length=steps, adversary=who, constant=constant, ends=ends)


def _budget(
    chain: MarkovChain, target: float, steps: int | None, who: Adversary
) -> tuple[float, tuple[float, float, float] | None]:
    """What each step may spend under one chain; 0 where a stream without end has no budget."""
    if not solvable(chain, 0):
        return _budget_by_odds(chain, target, steps, who)
    try:
        found = tight.stream_budget(chain.transition, target, length=steps, start=chain.start, adversary=str(who))
    except NotApplicableError:
        return 0.0, None
    return found.constant, found.ends


def _budget_by_curve(
    model: Model, target: float, steps: int | None, who: Adversary
) -> tuple[float, tuple[float, float, float] | None]:
    """The same by a leakage curve; 0 where group privacy alone bounds a stream without end."""
    constant = best_curve(model, steps or MOST_RECORDS, who).inverse(target)
    unbounded = steps is None and constant * MOST_RECORDS <= target * (1 + TOLERANCE)
    return 0.0 if unbounded else constant, None


def _budget_by_odds(
    member: MarkovChain | Box, target: float, steps: int | None, who: Adversary
) -> tuple[float, tuple[float, float, float] | None]:
    """The same by the closed form: ends are not distinguished."""
    if who is Adversary.DP:
        return target, (target, target, target)
    lasting = odds_curve(member, None).inverse(target)
    ends = (lasting, lasting, lasting) if lasting > 0 else None
    return (lasting if steps is None else odds_curve(member, steps).inverse(target)), ends


def _losses(epsilons: float | Sequence[float] | Floats, length: int | None) -> Floats:
    try:
        given = np.atleast_1d(np.asarray(epsilons, dtype=float))
    except (TypeError, ValueError):
        raise ParameterError(
            f"stream is {epsilons!r}; it must be DP losses, one for each step", value=epsilons
        ) from None
    if given.ndim != 1 or len(given) == 0:
        raise ParameterError(f"stream has {given.size} losses; it must be one for each step", value=epsilons)
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


def _tell(progress: Progress, chain: int, chains: int, part: int) -> None:
    """Say how much is done; each chain has three parts."""
    progress(f"following the stream: {100 * (3 * chain + part) // (3 * chains)}%")
