"""Records drawn from a belief, for tests and experiments. A release never draws from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pufferdp.checks import length as whole
from pufferdp.errors import ModelError
from pufferdp.models.groups import Groups, shares
from pufferdp.models.joint import JointTable
from pufferdp.models.markov import MarkovChain
from pufferdp.models.network import BayesianNetwork
from pufferdp.models.records import Evidence, Known, Law, Outcomes, RecordModel, impossible


def sample(model: RecordModel, size: int, generator: np.random.Generator, given: Known | None = None) -> Outcomes:
    """Independent outcomes of a model, given what is known: one row each, one column a record, in state numbers."""
    size = whole(size, "size", least=0)
    evidence = model.evidence(given or {})
    if given and not float(model.joint((), evidence)) > 0:
        raise impossible(given)
    drawn = np.zeros((size, len(model.records)), dtype=np.int64)
    if size == 0:
        return drawn
    (model,) = model.beliefs  # a family is drawn as the network it is
    if isinstance(model, JointTable):
        rows, law = (model.given(given) if given else model).outcomes()
        return rows[_draw_alike(law, size, generator)]
    if isinstance(model, Groups):
        _draw_groups(model, drawn, evidence, generator)
    elif isinstance(model, BayesianNetwork):
        _draw_network(model, drawn, evidence, generator)
    else:
        for component in model.components:
            _one_by_one(model, component, drawn, evidence, generator)
    return drawn


def sample_chain(chain: MarkovChain, length: int, size: int, generator: np.random.Generator) -> Outcomes:
    """Independent series of a chain: one row each, one column a time step, in state numbers."""
    if chain.any_start:
        raise ModelError('start is "any", which is no law to draw from; give the chain a start or "stationary"')
    size, length = whole(size, "size", least=0), whole(length)
    start = chain.stationary if chain.given_start is None else chain.given_start
    drawn = np.zeros((size, length), dtype=np.int64)
    drawn[:, 0] = _draw_alike(start, size, generator)
    for t in range(1, length):
        drawn[:, t] = _draw(chain.transition[drawn[:, t - 1]], generator)
    return drawn


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


def seeded(seed: int) -> np.random.Generator:
    """Randomness that anyone can repeat, for what is simulated and never released."""
    return np.random.default_rng(seed)


def _draw(laws: Law, generator: np.random.Generator) -> Outcomes:
    """One state for each row of laws (which need not sum to 1), never one of probability 0."""
    reached = laws.cumsum(axis=1)
    drawn = (reached <= generator.random((len(laws), 1)) * reached[:, -1:]).sum(axis=1)
    # Rounding can carry a draw to the very end of a row, past its last possible state.
    last = laws.shape[1] - 1 - np.argmax(laws[:, ::-1] > 0, axis=1)
    return np.asarray(np.minimum(drawn, last), dtype=np.int64)


def _draw_alike(law: Law, size: int, generator: np.random.Generator) -> Outcomes:
    """The same for one law and many draws."""
    reached = law.cumsum()
    drawn = np.searchsorted(reached, generator.random(size) * reached[-1], side="right")
    return np.asarray(np.minimum(drawn, np.flatnonzero(law)[-1]), dtype=np.int64)


def _draw_network(model: BayesianNetwork, drawn: Outcomes, evidence: Evidence, generator: np.random.Generator) -> None:
    """Parents before children; only what is known and its ancestors have other laws than their tables say."""
    told = set(evidence)
    for v in reversed(model.order):
        if v in told:
            told.update(model.parents[v])
    _one_by_one(model, [v for v in model.order if v in told], drawn, evidence, generator)
    for v in model.order:
        if v not in told:
            table, above = model.nodes[v].table, tuple(drawn[:, u] for u in model.parents[v])
            drawn[:, v] = _draw(table[above], generator) if above else _draw_alike(table, len(drawn), generator)


def _draw_groups(model: Groups, drawn: Outcomes, evidence: Evidence, generator: np.random.Generator) -> None:
    """The number of ones in each group, then which of its records they are: all choices are equally likely."""
    for members, law in zip(model.components, model.positives, strict=True):
        fixed = {i: evidence[i][0] for i in members if len(evidence.get(i, (0, 1))) == 1}
        free = [i for i in members if i not in fixed]
        told = sum(fixed.values())
        # The law of all ones given the fixed: that of all ones, times the share of choices that has the fixed so.
        ones = _draw_alike(law * shares(len(members), len(fixed), told), len(drawn), generator)
        for i, state in fixed.items():
            drawn[:, i] = state
        chosen = np.arange(len(free)) < (ones - told)[:, None]
        drawn[:, free] = generator.permuted(chosen, axis=1)


def _one_by_one(
    model: RecordModel, order: Sequence[int], drawn: Outcomes, evidence: Evidence, generator: np.random.Generator
) -> None:
    """Each record by its law given those before it and what is known; equal beginnings are asked about once."""
    for n, v in enumerate(order):
        before = list(order[:n])
        beginnings, which = np.unique(drawn[:, before], axis=0, return_inverse=True)
        laws = [
            model.joint([v], {**evidence, **{u: (int(x),) for u, x in zip(before, row, strict=True)}})
            for row in beginnings
        ]
        drawn[:, v] = _draw(np.stack(laws)[which.reshape(-1)], generator)
