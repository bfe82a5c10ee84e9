"""Losses that differ from record to record: what algorithms leak that spend a DP loss of its own on each record.

A release over some records spends its loss on these and nothing on the others, so the losses of many releases add up
record by record. What the worst algorithm with these losses leaks is known exactly for chains that can be listed, and
bounded by odds ratios for classes given by bounds. For hidden states and time-of-day chains the leakage curve is read
once, at the largest loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from pufferdp.assess.worst_algorithm import ASSUMPTION, WorstAlgorithm
from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats, Ints
from pufferdp.basics.errors import NotApplicableError
from pufferdp.basics.frames import frame
from pufferdp.basics.paged import Paged, json_values
from pufferdp.basics.progress import Progress
from pufferdp.basics.words import a_kind
from pufferdp.bounds.curves import best_curve
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.attack import TightLeakage
from pufferdp.bounds.tight.chain import MOST_ANY_START, TightCurve
from pufferdp.bounds.tight.odds import OddsCurve, odds_series
from pufferdp.bounds.tight.series import TOLERANCE, series_leakage
from pufferdp.bounds.tight.streams import EACH
from pufferdp.models.base import Model
from pufferdp.models.chain import Box, MarkovChain, series_of
from pufferdp.models.files.json import ModelLike, as_model
from pufferdp.models.hidden import is_hidden

_SHOWN: Final = 1000
"""Records listed in JSON; of longer series both ends and some between."""
_ANY_START: Final = 240
"""Records times pairs of values up to which any distribution of the first record is looked at exactly."""


@dataclass(frozen=True, kw_only=True)
class LossesReport(Paged):
    """What algorithms with a DP loss of its own on each record leak about the records. Prints as a table.

    >>> chain = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], start=[0.9, 0.1])
    >>> report = leakage_of_losses(chain, [0.1, 0, 0.3, 0.2, 0, 0.1])
    >>> round(report.upper, 6), report.worst
    (0.455593, 3)
    """

    losses: Floats
    """The DP loss that is spent on each record."""
    leakage: Floats
    """No algorithm with these losses leaks more about each record under the model. Of more than 200 records the worst
    one alone has a bracket, which bounds the others. For hidden states and time-of-day chains one bracket of both sides
    bounds all records."""
    lower: float
    """Some algorithm with these losses leaks as much about the worst record, under some chain of the class; 0 where
    nothing is known."""
    adversary: Adversary
    attack: WorstAlgorithm | None
    """Who learns that much, and from which questions; None where nothing is known."""

    @property
    def length(self) -> int:
        """Number of records in the series."""
        return len(self.losses)

    @property
    def upper(self) -> float:
        """No algorithm with these losses leaks more about any record under the model."""
        return float(self.leakage.max())

    @property
    def worst(self) -> int:
        """The record that leaks most, counted from 1."""
        first, attacked = first_of_worst(self.leakage) + 1, None if self.attack is None else self.attack.record
        return attacked if attacked is not None and self.length > EACH else first

    @property
    def exact(self) -> float | None:
        """The leakage of the worst algorithm, where it is known."""
        return exact_value(self.lower, self.upper)

    def to_frame(self, *, backend: str | None = None) -> Any:
        """A row for each record, as a pandas or polars frame."""
        rows = zip(range(1, self.length + 1), self.losses.tolist(), self.leakage.tolist(), strict=True)
        return frame(("record", "dp_epsilon", "leakage"), list(rows), backend)

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp leakage --losses … --json`` prints."""
        records = listed(self.length, self.worst - 1)
        return {
            **json_values(self, "length adversary worst lower exact upper attack"),
            "largest": self.upper,
            "records": (records + 1).tolist(),
            "dp_epsilon": self.losses[records].tolist(),
            "leakage": self.leakage[records].tolist(),
            "assumption": ASSUMPTION,
        }


def leakage_of_losses(
    model: ModelLike,
    losses: Sequence[float] | Floats,
    *,
    adversary: str = "bdp",
    progress: Progress | None = None,
) -> LossesReport:
    """The leakage about each record of a series under a model, for algorithms with one DP loss for each record.

    Args:
        model: a chain, a class of chains, a time-of-day chain or hidden states.
        losses: the DP loss of each record, over all that was released; in the order of the series.
        adversary: bdp, pufferfish or dp.
        progress: called with a few words now and then.
    """
    model = as_model(model)
    who, spent = checks.adversary(adversary), inputs.losses(losses)
    tell = progress or (lambda words: None)
    if has_bound_only(model):
        leakage, _ = leakage_at_largest(model, spent, who, len(spent))
        return LossesReport(losses=spent, leakage=leakage, lower=0.0, adversary=who, attack=None)
    chains, box = chains_of(model)
    parts: list[Floats] = []
    attacks: list[TightLeakage] = []
    for n, chain in enumerate(chains):
        tell(f"following {len(spent):,} records" + (f": chain {n + 1} of {len(chains)}" if len(chains) > 1 else ""))
        exact = box is None and (who is Adversary.DP or solvable(chain, len(spent)))
        checked = inputs.chain(chain.transition, "stationary" if chain.any_start and not exact else chain.start)
        found = series_leakage(checked, spent, str(who), each=len(spent) <= EACH)
        attacks.append(replace(found.attack, model=n))
        if exact:
            parts.append(found.upper)
        elif box is None:
            parts.append(np.minimum(odds_series(odds_curve(chain, len(spent)), spent).total, _equal(chain, spent, who)))
    if box is not None:
        tell("bounding by odds ratios")
        parts.append(spent if who is Adversary.DP else odds_series(odds_curve(box, len(spent)), spent).total)
    leakage = np.max(parts, axis=0)
    worst = max(attacks, key=lambda attack: attack.lower)
    return LossesReport(
        losses=spent,
        leakage=leakage,
        lower=min(worst.lower, float(leakage.max())),
        adversary=who,
        attack=WorstAlgorithm.of(worst, chains[worst.model].labels),
    )


def chains_of(model: Model) -> tuple[tuple[MarkovChain, ...], Box | None]:
    """The chains of a class that can be listed; of one given by bounds some chains in it, and the bounds."""
    series = series_of(model)
    if series is None or not (series.chains or series.box is not None):
        raise NotApplicableError(
            f"the model is {a_kind(model)}; losses of single records are worked out for chains: give a "
            "markov_chain, a markov_class, a markov_interval or a binary_interval"
        )
    return (series.definite_chains, series.box) if series.box is not None else (series.chains, None)


def has_bound_only(model: Model) -> bool:
    """Whether records have no single transition matrix, so that a leakage curve is all that is known of them."""
    series = series_of(model)
    return series is not None and (is_hidden(series) or series.rhythm is not None)


def leakage_at_largest(model: Model, losses: Floats, who: Adversary, length: int) -> tuple[Floats, float]:
    """Bounds on the leakage about each record from a leakage curve at the largest loss, and what the curve says.

    An algorithm with loss e about the target may answer one more question about it alone, with the rest of the largest
    loss. Then the curve bounds both, and that answer leaks its own loss, whatever else is known.
    """
    most = float(losses.max())
    allowed = best_curve(model, length, who)(most)
    leakage = np.maximum(allowed - (most - losses), 0.0)  # a record with one possible value leaks nothing
    return (leakage if length > len(losses) else np.minimum(leakage, losses.sum())), allowed


def odds_curve(member: MarkovChain | Box, length: int | None) -> OddsCurve:
    """The closed form of a class given by bounds, or of a chain with any start."""
    if isinstance(member, MarkovChain):
        return OddsCurve.of_chains([member.transition], length=length)
    return OddsCurve.of_box(member.low, member.high, length=length)


def _equal(chain: MarkovChain, losses: Floats, who: Adversary) -> float:
    """What the worst algorithm leaks that spends the largest of the losses on every record, where that is known."""
    if not solvable(chain, 0):
        return math.inf
    curve = TightCurve(chain.transition, start=chain.start, length=len(losses), adversary=str(who))
    return curve(float(losses.max()))


def solvable(chain: MarkovChain, records: int) -> bool:
    """Whether the worst distribution of the first record is looked for exactly; two states have a closed form."""
    if not chain.any_start or chain.size <= 2:
        return True
    return chain.size <= MOST_ANY_START and records * chain.size * (chain.size - 1) <= _ANY_START


def first_of_worst(leakage: Floats) -> int:
    """The first record that leaks as much as any, up to rounding; counted from 0."""
    most = float(leakage.max())
    return int(np.argmax(leakage >= most * (1 - TOLERANCE)))


def exact_value(lower: float, upper: float) -> float | None:
    """The leakage, where both ends of its bracket agree to the tolerance."""
    return upper if upper - lower <= TOLERANCE * upper else None


def listed(n: int, worst: int) -> Ints:
    """Which of n records JSON has, counted from 0: all, or both ends, some between and the worst."""
    if n <= _SHOWN:
        return np.arange(n)
    edge = _SHOWN // 10
    between = np.linspace(0, n - 1, edge).astype(np.int64)
    ends = np.concatenate([np.arange(edge), np.arange(n - edge, n)])
    return np.unique(np.concatenate([ends, between, np.array([worst])]))
