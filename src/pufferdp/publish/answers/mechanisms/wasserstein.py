"""The Wasserstein mechanism: noise as wide as the distribution of the answer must be carried when a secret changes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import ModelError, NotApplicableError
from pufferdp.bounds.distributions.base import Logs, RecordDistributions, pairs_of
from pufferdp.bounds.distributions.wasserstein import MOST_POINTS, Pairs, WorstPair, worst_flow
from pufferdp.models.chain import chains_of
from pufferdp.publish.answers.distributions import Given, answer_distributions, chain_products
from pufferdp.publish.answers.problem import Calibrated, Mechanism, Problem, Transport, refuse_known_records

_BATCH: Final = 2_000_000
"""Masses looked at together."""

_MOMENT: Final = 2e8
"""Products: about a quarter of a second."""


class Wasserstein(Mechanism):
    """Noise W/ε, W the largest W∞ between the distributions of the answer given two secrets of a pair."""

    name = "wasserstein"
    theorem = "Song et al. 2017, Theorem 3.2"

    def tried(self, problem: Problem) -> bool:
        """In plans where its distributions take a moment: exact-laplace never needs more noise, and does without them.

        Laplace noise of scale W/ε keeps the guarantee, and exact-laplace is the least that does.
        """
        chains = chains_of(problem.model)
        number = problem.query.adds_up and problem.secrets is None
        if not number or not chains or any(chain.any_start for chain in chains):
            return True
        return problem.adversary is not Adversary.PUFFERFISH or chain_products(problem) <= _MOMENT

    def find(self, problem: Problem) -> Calibrated:
        """The worst pair of secrets under the worst model."""
        refuse_known_records(problem)
        worst: Transport | None = None
        paid = 0.0
        for given in answer_distributions(problem):
            if given.distributions.points.ndim == 2 and len(given.distributions.points) > MOST_POINTS:
                raise NotApplicableError(
                    f"the answer has {len(given.distributions.points):,} possible values of several numbers; "
                    f"the limit is {MOST_POINTS}"
                )
            search = _Search(problem, given, worst)
            worst = search.own_secrets() if problem.secrets is not None else search.records()
            paid = max(paid, search.paid)
        if worst is None:
            return Calibrated(sigma=0.0, transport=Transport(distance=0.0, first=None, second=None))
        sigma = worst.distance / (problem.epsilon - paid) / problem.bound.lipschitz
        return Calibrated(sigma=sigma, transport=replace(worst, paid=paid))  # whichever model has the worst rounding


class _Search:
    """The worst pair under one model, if it is worse than the worst so far."""

    def __init__(self, problem: Problem, given: Given, worst: Transport | None) -> None:
        self.problem, self.given, self.worst = problem, given, worst
        # Two masses that are equal in truth may each be off by the error, and so may their logarithms.
        self.slack = 4 * given.distributions.error
        self.paid = math.log1p(self.slack) + 2 * given.distributions.error
        if self.paid > problem.epsilon / 1000:
            raise NotApplicableError(
                f"rounding may cost {self.paid:.1g} of epsilon {problem.epsilon:g}, more than a thousandth"
            )
        self._first: list[Logs] = []
        self._second: list[Logs] = []
        self._names: list[tuple[str, str]] = []

    def records(self) -> Transport | None:
        """Every two values of every record."""
        for distributions in self.given.distributions.records():
            p, q = pairs_of(distributions)
            if p:
                self._first.append(distributions.logs[p])
                self._second.append(distributions.logs[q])
                self._names += [
                    (self._name(distributions, a), self._name(distributions, b)) for a, b in zip(p, q, strict=True)
                ]
            if len(self._names) * len(self.given.distributions.points) > _BATCH:
                self._compare()
        self._compare()
        return self.worst

    def own_secrets(self) -> Transport | None:
        """The pairs that were named."""
        secrets = self.problem.secrets
        assert secrets is not None
        distributions: dict[str, Logs] = {}
        for secret in secrets.secrets:
            rows = self.given.distributions.event(secret.cells(self.problem.domains))
            if rows is None:
                raise ModelError(
                    f"secret {secret.name!r} has probability 0 under the model; it cannot be a secret",
                    value=secret.name,
                )
            distributions[secret.name] = rows
        for a, b in secrets.pairs:
            for row in distributions[a]:
                for other in distributions[b]:
                    self._first.append(row[None])
                    self._second.append(other[None])
                    self._names.append((a, b))
        self._compare()
        return self.worst

    def _name(self, distributions: RecordDistributions, row: int) -> str:
        return self.problem.value_name(distributions.record, distributions.states[row])

    def _compare(self) -> None:
        if not self._names:
            return
        points, unit, inexact = self.given.distributions.points, self.given.unit, self.given.inexact
        first, second = np.concatenate(self._first), np.concatenate(self._second)
        floor = 0.0 if self.worst is None else max(0.0, (self.worst.distance - inexact) / unit)
        pair: WorstPair | None
        if points.ndim == 2:
            pair = worst_flow(np.asarray(points, dtype=float), first, second, self.slack, floor)
        else:
            pairs = Pairs(points, first, second, self.slack)
            pair = pairs.worst(floor)
            if pair is not None:
                # Several pairs are often equally far apart. The first of them is named, so that rounding never decides.
                nearer = pairs.within_distance(np.nextafter(pair.distance, 0.0), np.arange(len(first)))
                pair = WorstPair(pair.distance, int(np.argmin(nearer)))
        if pair is not None:
            a, b = self._names[pair.pair]
            self.worst = Transport(distance=pair.distance * unit + inexact, first=a, second=b)
        self._first, self._second, self._names = [], [], []
