"""Records drawn from a model, for tests and experiments. A release never draws from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Matrix
from pufferdp.basics.checks import length as whole
from pufferdp.basics.errors import ModelError
from pufferdp.models.base import Distribution, Evidence, Known, Outcomes, RecordModel, impossible
from pufferdp.models.chain import MarkovChain
from pufferdp.models.clock import MarkovClock
from pufferdp.models.gaussian import Gaussian
from pufferdp.models.groups import Groups, shares
from pufferdp.models.hidden import HiddenMarkov
from pufferdp.models.joint import JointTable
from pufferdp.models.network import BayesianNetwork

Generator = np.random.Generator


def sample(model: RecordModel, size: int, generator: np.random.Generator, given: Known | None = None) -> Outcomes:
    """Independent outcomes of a model, given what is known: one row each, one column a record, in state numbers."""
    size = whole(size, "size", least=0)
    evidence = model.evidence(given or {})
    if given and not float(model.joint((), evidence)) > 0:
        raise impossible(given)
    drawn = np.zeros((size, len(model.records)), dtype=np.int64)
    if size == 0:
        return drawn
    (model,) = model.record_models  # a family is drawn as the network it is
    if isinstance(model, JointTable):
        rows, distribution = (model.given(given) if given else model).outcomes()
        return rows[draw_alike(distribution, size, generator)]
    if isinstance(model, Groups):
        _draw_groups(model, drawn, evidence, generator)
    elif isinstance(model, BayesianNetwork):
        _draw_network(model, drawn, evidence, generator)
    else:
        for component in model.components:
            _one_by_one(model, component, drawn, evidence, generator)
    return drawn


def sample_chain(
    chain: MarkovChain,
    length: int,
    size: int,
    generator: np.random.Generator,
    given: Mapping[int, int] | None = None,
) -> Outcomes:
    """Independent series of a chain, given the states of some records: one row each, one column a time step."""
    size, length = whole(size, "size", least=0), whole(length)
    start = _start(chain)
    drawn = np.zeros((length, size), dtype=np.int64)  # a step writes one segment of memory
    if not given:
        drawn[0] = draw_alike(start, size, generator)
        for t in range(1, length):
            drawn[t] = draw_moves(drawn[t - 1], chain.transition, generator)
        return drawn.T
    ahead, reached = _look_ahead(chain, length, given)
    if not reached > -np.inf:
        raise impossible({f"record {t + 1}": chain.labels[x] for t, x in sorted(given.items())})
    drawn[0] = given[0] if 0 in given else draw_alike(start * ahead[0], size, generator)
    for t in range(1, length):
        if t in given:
            drawn[t] = given[t]
        else:
            drawn[t] = draw_moves(drawn[t - 1], _towards(chain.transition, ahead[t]), generator)
    return drawn.T


def sample_clock(
    clock: MarkovClock, length: int, size: int, generator: np.random.Generator, first: int = 0
) -> Outcomes:
    """Independent series of a clock, whose first record lies in the step ``first`` of the period, counted from 0."""
    size, length = whole(size, "size", least=0), whole(length)
    drawn = np.zeros((length, size), dtype=np.int64)
    drawn[0] = draw_alike(clock.distributions[first % clock.steps], size, generator)
    for t in range(1, length):
        drawn[t] = draw_moves(drawn[t - 1], clock.tables[(first + t - 1) % clock.steps], generator)
    return drawn.T


def sample_hidden(
    model: HiddenMarkov,
    length: int,
    size: int,
    generator: np.random.Generator,
    given: Mapping[int, int] | None = None,
) -> Outcomes:
    """Independent series of a hidden chain, given some records: one row each; hidden states are drawn and forgotten."""
    size, length = whole(size, "size", least=0), whole(length)
    known = given or {}
    ahead, reached = _look_ahead(model.hidden_chain, length, known, model.emission)
    if not reached > -np.inf:
        raise impossible({f"record {t + 1}": model.labels[x] for t, x in sorted(known.items())})
    hidden = np.zeros(size, dtype=np.int64)
    drawn = np.zeros((length, size), dtype=np.int64)
    for t in range(length):
        if t == 0:
            hidden = draw_alike(_start(model.hidden_chain) * ahead[0], size, generator)
        else:
            hidden = draw_moves(hidden, _towards(model.transition, ahead[t]), generator)
        drawn[t] = known[t] if t in known else draw_moves(hidden, model.emission, generator)
    return drawn.T


def _towards(transition: Matrix, ahead: Distribution) -> Matrix:
    """The distribution of the next state given what is known there and later."""
    moves = transition * ahead
    total = moves.sum(axis=1, keepdims=True)
    # Series are never in a state from which nothing leads to what is known: its row stays as it was.
    return np.asarray(np.divide(moves, total, out=np.array(transition), where=total > 0))


def hidden_log_probability(model: HiddenMarkov, length: int, given: Mapping[int, int]) -> float:
    """The logarithm of the probability that these records have these values; minus infinity where it is 0."""
    return _look_ahead(model.hidden_chain, length, given, model.emission)[1]


def chain_log_probability(chain: MarkovChain, length: int, given: Mapping[int, int]) -> float:
    """The logarithm of the probability that these records have these states; minus infinity where it is 0."""
    return _look_ahead(chain, length, given)[1]


def _look_ahead(
    chain: MarkovChain, length: int, given: Mapping[int, int], shown: Matrix | None = None
) -> tuple[Matrix, float]:
    """For each record and state the probability of what is known there and later, scaled; and the logarithm of all.

    ``shown`` has the probability of each record (column) in each state of the chain (row), where records are drawn from
    hidden states; without it a record is the state itself.
    """
    shown = np.eye(chain.size) if shown is None else shown
    for t, x in given.items():
        if not (0 <= t < length and 0 <= x < shown.shape[1]):
            raise ModelError(
                f"record {t + 1} = {x} is known, and a series has {length} records with states 0 to "
                f"{shown.shape[1] - 1}",
                value=dict(given),
            )
    ahead, logs = np.ones((length, chain.size)), 0.0
    for t in range(length - 1, -1, -1):
        if t + 1 < length:
            ahead[t] = chain.transition @ ahead[t + 1]
        if t in given:
            ahead[t] *= shown[:, given[t]]
        most = float(ahead[t].max())
        if most == 0:
            return ahead, -np.inf
        ahead[t] /= most
        logs += float(np.log(most))
    first = float(_start(chain) @ ahead[0])
    return ahead, logs + float(np.log(first)) if first > 0 else -np.inf


def _start(chain: MarkovChain) -> Distribution:
    if chain.any_start:
        raise ModelError(
            'start is "any", which is not a distribution to draw from; give the chain a start or "stationary"'
        )
    return chain.stationary if chain.given_start is None else chain.given_start


def draw_moves(states: npt.NDArray[np.integer], table: Matrix, generator: np.random.Generator) -> Outcomes:
    """Every state passed on by its row of the table on its own: one step of a chain, or a channel."""
    reached = np.cumsum(table, axis=1)
    drawn = generator.random(states.shape)
    if table.shape[1] == 2:
        out = (reached[:, 0][states] <= drawn).astype(np.int64)
    else:
        out = np.zeros(states.shape, dtype=np.int64)
        for edge in reached.T[:-1]:
            out += edge[states] <= drawn
    # Rounding must not carry a draw past the last state of probability above 0.
    last = table.shape[1] - 1 - np.argmax(table[:, ::-1] > 0, axis=1)
    return out if (last == table.shape[1] - 1).all() else np.asarray(np.minimum(out, last[states]), dtype=np.int64)


def sample_flows(
    chain: MarkovChain, lengths: Sequence[tuple[int, int]], size: int, generator: np.random.Generator
) -> Outcomes:
    """How often each transition occurs in all chains together, drawn ``size`` times: one k×k table a draw.

    ``lengths`` holds pairs: records in a chain, how many such chains. A start that is left open is drawn as stationary.
    """
    k = chain.size
    known = replace(chain, start="stationary") if chain.any_start else chain
    counts = np.zeros((size, k * k), dtype=np.int64)
    for length, count in lengths:
        series = sample_chain(known, length, size * count, generator)
        moves = (series[:, :-1] * k + series[:, 1:]).reshape(size, -1) + np.arange(size)[:, None] * k * k
        counts += np.bincount(moves.ravel(), minlength=size * k * k).reshape(size, k * k)
    return counts.reshape(size, k, k)


def sample_normal(
    model: Gaussian, size: int, generator: np.random.Generator, given: Mapping[int, float] | None = None
) -> npt.NDArray[np.float64]:
    """Independent families of jointly normal records, given the values of some: one row each."""
    known = sorted(given or {})
    free = [i for i in range(model.family) if i not in known]
    drawn = np.empty((whole(size, "size", least=0), model.family))
    drawn[:, known] = [(given or {})[i] for i in known]
    cross = model.covariance[np.ix_(known, free)]
    weights = np.linalg.solve(model.covariance[np.ix_(known, known)], cross) if known else cross
    if free:
        rest = model.covariance[np.ix_(free, free)] - cross.T @ weights
        noise = generator.standard_normal((len(drawn), len(free))) @ np.linalg.cholesky(rest).T
        drawn[:, free] = model.mean[free] + (drawn[:, known] - model.mean[known]) @ weights + noise
    return drawn


def seeded(seed: int | Generator | None) -> Generator:
    """Numpy's generator, for what is simulated and never released; None draws another series each time."""
    return np.random.default_rng(seed)


def _draw(distributions: Distribution, generator: np.random.Generator) -> Outcomes:
    """One state for each row of distributions (which need not sum to 1), never one of probability 0."""
    reached = distributions.cumsum(axis=1)
    drawn = (reached <= generator.random((len(distributions), 1)) * reached[:, -1:]).sum(axis=1)
    # Rounding can carry a draw to the very end of a row, past its last possible state.
    last = distributions.shape[1] - 1 - np.argmax(distributions[:, ::-1] > 0, axis=1)
    return np.asarray(np.minimum(drawn, last), dtype=np.int64)


def draw_alike(distribution: Distribution, size: int, generator: np.random.Generator) -> Outcomes:
    """Many draws from one distribution, never a state of probability 0."""
    reached = distribution.cumsum()
    drawn = np.searchsorted(reached, generator.random(size) * reached[-1], side="right")
    return np.asarray(np.minimum(drawn, np.flatnonzero(distribution)[-1]), dtype=np.int64)


def _draw_network(model: BayesianNetwork, drawn: Outcomes, evidence: Evidence, generator: np.random.Generator) -> None:
    """Parents before children; only what is known and its ancestors have other distributions than their tables say."""
    told = set(evidence)
    for v in reversed(model.order):
        if v in told:
            told.update(model.parents[v])
    _one_by_one(model, [v for v in model.order if v in told], drawn, evidence, generator)
    for v in model.order:
        if v not in told:
            table, above = model.nodes[v].table, tuple(drawn[:, u] for u in model.parents[v])
            drawn[:, v] = _draw(table[above], generator) if above else draw_alike(table, len(drawn), generator)


def _draw_groups(model: Groups, drawn: Outcomes, evidence: Evidence, generator: np.random.Generator) -> None:
    """The number of ones in each group, then which of its records they are: all choices are equally likely."""
    for members, distribution in zip(model.components, model.positives, strict=True):
        fixed = {i: evidence[i][0] for i in members if len(evidence.get(i, (0, 1))) == 1}
        free = [i for i in members if i not in fixed]
        told = sum(fixed.values())
        # The distribution of all ones given the fixed: that of all ones, times the share of choices that has the fixed
        # so.
        ones = draw_alike(distribution * shares(len(members), len(fixed), told), len(drawn), generator)
        for i, state in fixed.items():
            drawn[:, i] = state
        chosen = np.arange(len(free)) < (ones - told)[:, None]
        drawn[:, free] = generator.permuted(chosen, axis=1)


def _one_by_one(
    model: RecordModel, order: Sequence[int], drawn: Outcomes, evidence: Evidence, generator: np.random.Generator
) -> None:
    """Draw each record given those before it and the known ones; equal beginnings share one inference."""
    for n, v in enumerate(order):
        before = list(order[:n])
        beginnings, which = np.unique(drawn[:, before], axis=0, return_inverse=True)
        distributions = [
            model.joint([v], {**evidence, **{u: (int(x),) for u, x in zip(before, row, strict=True)}})
            for row in beginnings
        ]
        drawn[:, v] = _draw(np.stack(distributions)[which.reshape(-1)], generator)
