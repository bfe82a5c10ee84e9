"""Attack a privatised series, or many drawn from a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.assess.attack.attackers import ATTACKERS, Attacker, Codes, Learned, posteriors
from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Matrix
from pufferdp.basics.errors import DataError, ModelError, NotApplicableError, ParameterError
from pufferdp.basics.paged import Paged, json_values
from pufferdp.basics.progress import Progress, silent
from pufferdp.basics.words import a_kind, quoted_value
from pufferdp.bounds.channels.many_states import randomised_response
from pufferdp.data.series import open_series
from pufferdp.models.base import Model
from pufferdp.models.chain import MarkovChain, chain_of
from pufferdp.models.files.json import ModelLike, as_model
from pufferdp.models.simulate import draw_moves, sample_chain
from pufferdp.publish.flips.plan import design_flips, flip_bound
from pufferdp.publish.reading import coding_of
from pufferdp.publish.series import Series

CONFIDENCE: Final = 0.95
BLOCKS: Final = 40
"""Blocks that a series is cut into, to see how much success varies between them."""


def dp_success(epsilon: float, odds: float = 1.0) -> float:
    """The most often anyone is right about a record whose odds a release moves by at most e^epsilon.

    m·e^ε/(1 + m·e^ε), m the prior odds of the likelier guess. Chakrabarti et al. (2020) print e^ε/(max(q/r, r/q) + e^ε)
    under BDP. That is no bound: m = max(q/r, r/q) gives e^ε/(min(q/r, r/q) + e^ε).
    """
    return 1 / (1 + math.exp(-epsilon) / odds)


def implied_epsilon(success: float) -> float:
    """The ε at which plain DP would allow this success, log p/(1−p); infinite where success is sure."""
    if not 0 < success < 1:
        return math.copysign(math.inf, success - 0.5)
    return math.log(success) - math.log1p(-success)


def prior_odds(model: MarkovChain, length: int) -> float:
    """The largest odds π(x)/(1−π(x)) of a state of a record, before anything is seen."""
    distribution = model.stationary if model.given_start is None else model.given_start
    worst = float(distribution.max())
    if model.any_start:
        return math.inf
    if model.given_start is not None:
        for step in range(1, length):
            after = distribution @ model.transition
            worst = max(worst, float(after.max()))
            if abs(after - distribution).max() < 1e-13:  # it has settled
                break
            distribution = after
            if step == 4096:  # it may still change after as many records as are looked at
                return math.inf
    return worst / (1 - worst) if worst < 1 else math.inf


@dataclass(frozen=True, kw_only=True)
class Success:
    """How often one attacker is right."""

    attacker: str
    success: float
    low: float | None
    """The lower end of the interval; None where the truth is not at hand and the model says how often to expect it."""
    high: float | None
    records: int
    confidence: float = CONFIDENCE

    @property
    def charged(self) -> float:
        """The ε that this success charges."""
        return implied_epsilon(self.success)

    def to_dict(self) -> dict[str, Any]:
        """As ``pufferdp attack --json`` prints it; null for infinite."""
        ends = {"charged_low": self.low, "charged_high": self.high}
        charges = {name: implied_epsilon(p) if p is not None and 0 < p < 1 else None for name, p in ends.items()}
        return {**json_values(self, "attacker success low high charged records"), **charges}


def measure(attacker: str, hits: npt.NDArray[np.bool_], confidence: float = CONFIDENCE) -> Success:
    """Success over hits, one series a row, with an interval that allows for correlated records of a series.

    One record a series: hits are independent, and the interval is Clopper and Pearson's. Otherwise it is theirs at the
    effective number of records p·(1−p)/variance of the mean, after Korn and Graubard (1998). The variance is that
    between series, or with fewer than ``BLOCKS`` series between blocks of each; blocks are taken to be independent, so
    they must be longer than the correlation reaches.
    """
    rows, n = hits.shape
    p = float(hits.mean())
    independent = n == 1
    effective = float(hits.size)
    if not independent:
        parts = 1 if rows >= BLOCKS else min(n, -(-BLOCKS // rows))
        means = np.array([block.mean() for row in hits for block in np.array_split(row, parts)])
        effective = _effective(p, means, hits.size, confidence)
    low, high = clopper_pearson(p * effective, effective, confidence)
    return Success(attacker=attacker, success=p, low=low, high=high, records=hits.size, confidence=confidence)


def _effective(p: float, means: npt.NDArray[np.float64], records: int, confidence: float) -> float:
    """How many independent records would say as much."""
    from scipy.stats import norm, t

    count = len(means)
    if count < 2:
        return 1.0
    variance = float(means.var(ddof=1)) / count
    if variance == 0:
        return float(count)  # no variation seen: each block counts once
    level = (1 + confidence) / 2
    few = (float(norm.ppf(level)) / float(t.ppf(level, count - 1))) ** 2
    return min(float(records), max(1.0, p * (1 - p) / variance * few))


def clopper_pearson(hits: float, trials: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact interval of a probability from independent trials; numbers need not be whole."""
    from scipy.stats import beta

    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, hits, trials - hits + 1)) if hits > 0 else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high


@dataclass(frozen=True, kw_only=True)
class AttackReport(Paged):
    """How often each attacker is right, beside what the channel's loss allows."""

    attacks: tuple[Success, ...]
    length: int
    """Records of the longest series."""
    runs: int
    record: int | None
    """The record that is guessed, counted from 1; None: all."""
    channel: Matrix
    losses: dict[str, float]
    """Loss of the channel by adversary: exact for two states, an upper bound otherwise."""
    odds: float
    """The largest prior odds of a state."""
    lower: float | None
    """The attackers prove, as sure as the confidence, that the loss is at least this; None without the truth."""
    confidence: float = CONFIDENCE

    @property
    def exact(self) -> float | None:
        """The loss towards an adversary who knows no record, like the attackers; None with more than two states."""
        return self.losses["pufferfish"] if len(self.channel) == 2 else None

    @property
    def upper(self) -> float:
        """No attacker who knows no record gets more."""
        return self.losses["pufferfish"]

    @property
    def bounds(self) -> dict[str, float]:
        """The most often anyone is right: from the record's own output, and from the whole series."""
        return {adversary: dp_success(self.losses[adversary], self.odds) for adversary in ("dp", "pufferfish")}

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp attack --json`` prints."""
        rho = self.channel.tolist()
        values = json_values(self, "attacks lower exact upper losses bounds length runs record confidence")
        odds = self.odds if math.isfinite(self.odds) else None
        return {**values, "prior_odds": odds, "rho": [rho[0][1], rho[1][0]] if len(rho) == 2 else rho}


def proved_loss(successes: Sequence[Success], hits: Sequence[npt.NDArray[np.bool_]], odds: float) -> float:
    """The largest loss that success proves: p ≤ m·e^ε/(1+m·e^ε), so ε ≥ log(p/(1−p)/m). One side, all at once."""
    tail = (1 - CONFIDENCE) / len(successes)
    lows = [measure(s.attacker, h, 1 - 2 * tail).low or 0.0 for s, h in zip(successes, hits, strict=True)]
    best = max(lows)
    if not math.isfinite(odds) or best <= 0:
        return 0.0
    return max(0.0, math.log(best / (1 - best)) - math.log(odds)) if best < 1 else math.inf


_AT_ONCE: Final = 2_000_000
"""Records attacked at a time, so that memory stays bounded."""


def attack_simulated(
    model: ModelLike,
    *,
    length: int,
    epsilon: float,
    channel: str = "bdp",
    runs: int = 100,
    record: int | None = None,
    seed: int = 0,
    learned: Learned | None = None,
    attackers: Sequence[Attacker] = ATTACKERS,
    progress: Progress | None = None,
) -> AttackReport:
    """Draw series from a chain, sanitise each, and see how often attackers are right.

    Args:
        model: a chain with a start.
        length: records of a series.
        epsilon: the guarantee the channel is made for.
        channel: the guarantee's adversary, ``dp`` (plain randomised response), ``pufferfish`` or ``bdp``.
        runs: series drawn.
        record: the record to guess, counted from 1; by default all.
        seed: of the experiment.
        learned: also train this attacker, by cross-validation.
        attackers: who attacks.
        progress: called with a few words before each step.
    """
    model = as_model(model)
    progress = progress or silent
    chain, length = one_chain(model), checks.length(length)
    runs, seed = checks.length(runs, "runs"), checks.length(seed, "seed", least=0)
    if record is not None and not 1 <= record <= length:
        raise ParameterError(f"record is {record}; it must lie between 1 and {length}", value=record)
    progress("choosing the channel")
    made = design_flips(chain, epsilon, length=length, adversary=checks.adversary(channel, "channel")).channel
    generator = np.random.default_rng(seed)
    progress("drawing series")
    truth = sample_chain(chain, length, runs, generator)
    outputs = draw_moves(truth, made, generator)
    return _report(chain, made, outputs, truth, record, learned, attackers, progress)


def attack_series(
    outputs: Codes,
    truth: Codes | None,
    *,
    model: ModelLike,
    channel: Matrix,
    learned: Learned | None = None,
    attackers: Sequence[Attacker] = ATTACKERS,
    progress: Progress | None = None,
) -> AttackReport:
    """Attack one privatised series, in state numbers. Without the truth, success is what the model expects."""
    model = as_model(model)
    chain, table = one_chain(model), channel_of(channel, model)
    rows = _codes("outputs", outputs, table)
    if rows.size == 0:
        raise DataError("there is no record to attack")
    if learned is not None and truth is None:
        raise ParameterError("the learned attacker learns from the truth; name its column with truth=, or leave it out")
    progress = progress or silent
    return _report(
        chain, table, rows, None if truth is None else _codes("truth", truth, table), None, learned, attackers, progress
    )


def _codes(name: str, series: Codes, channel: Matrix) -> Codes:
    """A series in state numbers, as one row."""
    rows = np.atleast_2d(np.asarray(series))
    if rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= len(channel)):
        raise DataError(
            f"{name} is {quoted_value(series)}; it must be the numbers of states, from 0 to {len(channel) - 1}"
        )
    return rows


def attack_file(
    data: object,
    *,
    model: ModelLike,
    column: str,
    rho: Sequence[float],
    truth: str | None = None,
    order: str | None = None,
    learned: Learned | None = None,
    progress: Progress | None = None,
) -> AttackReport:
    """Attack a file or frame with a column of privatised states and, at will, one with the true ones.

    ``order`` is the column to sort by, or ``"rows"``, as in ``Series``.
    """
    model = as_model(model)
    chain = one_chain(model)
    coding = coding_of(chain)
    if coding.labels != chain.labels:
        raise ModelError("the model leaves out some bins; attack with a model of all of them")
    states = []
    for name in (column, truth):
        series = None if name is None else Series(data, name, order=order)
        opened = None if series is None else open_series(series.data, series.reading())
        states.append(None if opened is None else opened.states(coding)[0])
    assert states[0] is not None
    return attack_series(
        states[0],
        states[1],
        model=chain,
        channel=channel_of(rho, chain),
        learned=learned,
        progress=progress,
    )


def one_chain(model: Model) -> MarkovChain:
    """The chain that attackers use."""
    chain = chain_of(model)
    if chain is None:
        raise NotApplicableError(f"the model is {a_kind(model)}; attackers use one chain: give a markov_chain")
    if chain.size < 2:
        raise ModelError("the chain has one state; there is nothing to guess")
    return chain


def channel_of(rho: Sequence[float] | Matrix, model: Model) -> Matrix:
    """A channel from flips (two probabilities), one probability of a change (all others alike), or a matrix."""
    k = one_chain(model).size
    if rho is None:
        raise ParameterError("rho is None; it must be probabilities of a flip")
    try:
        given = np.atleast_1d(np.asarray(rho, dtype=float))
    except (TypeError, ValueError):
        raise ParameterError(f"rho is {quoted_value(rho)}; it must be probabilities of a flip", value=rho) from None
    if given.ndim == 2:
        if len(given) != k:
            raise ParameterError(f"the channel has {len(given)} rows; the model has {k} states")
        made = given
    elif given.shape == (2,) and k == 2:
        made = np.array([[1 - given[0], given[0]], [given[1], 1 - given[1]]])
    elif given.shape == (1,):
        made = randomised_response(k, float(given[0]))
    else:
        expected = "one or two probabilities" if k == 2 else "one probability, or a matrix"
        raise ParameterError(f"rho has {given.size} numbers; with {k} states it must be {expected}", value=rho)
    if not (np.isfinite(made).all() and (made >= 0).all()):
        numbers = ", ".join(f"{p:g}" for p in np.ravel(given))
        raise ParameterError(f"rho is {numbers}; probabilities lie between 0 and 1", value=rho)
    return made


def _report(
    chain: MarkovChain,
    channel: Matrix,
    outputs: Codes,
    truth: Codes | None,
    record: int | None,
    learned: Learned | None,
    attackers: Sequence[Attacker],
    progress: Progress,
) -> AttackReport:
    runs, length = outputs.shape
    at = slice(None) if record is None else slice(record - 1, record)
    losses = {str(adversary): flip_bound((chain,), channel, length, adversary) for adversary in Adversary}
    successes: list[Success] = []
    hits: list[npt.NDArray[np.bool_]] = []
    for attacker in attackers:
        progress(f"attacking: {attacker.name}")
        guesses = _guesses(attacker, outputs, chain, channel)
        if truth is None:
            # The chance of being right, given all outputs: nothing is estimated here.
            distribution = posteriors(outputs if runs > 1 else outputs[0], chain, channel).reshape(runs, length, -1)
            right = float(np.take_along_axis(distribution, guesses[..., None], axis=-1).mean())
            successes.append(Success(attacker=attacker.name, success=right, low=None, high=None, records=outputs.size))
        else:
            hits.append((guesses == truth)[:, at])
            successes.append(measure(attacker.name, hits[-1]))
    if learned is not None and truth is not None:
        hits.append((learned.cross_validate(outputs, truth, channel, progress) == truth)[:, at])
        successes.append(measure(learned.name, hits[-1]))
    odds = prior_odds(chain, length)
    return AttackReport(
        attacks=tuple(successes),
        length=length,
        runs=runs,
        record=record,
        channel=channel,
        losses=losses,
        odds=odds,
        lower=proved_loss(successes, hits, odds) if truth is not None else None,
    )


def _guesses(attacker: Attacker, outputs: Codes, chain: MarkovChain, channel: Matrix) -> npt.NDArray[np.intp]:
    runs, length = outputs.shape
    if runs == 1 or length > 50_000:  # long series one by one, short ones many at a time
        return np.stack([attacker.guess(row, chain, channel) for row in outputs])
    rows = max(1, _AT_ONCE // length)
    return np.concatenate([attacker.guess(outputs[i : i + rows], chain, channel) for i in range(0, runs, rows)])
