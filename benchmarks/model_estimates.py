"""Gains of model-based estimates: mean squared errors under the model, summed over every answer and noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.timing import Report, seconds, sized
from pufferdp.basics.words import number
from pufferdp.bounds.chains.sums import chain_total
from pufferdp.models.chain import MarkovChain
from pufferdp.models.groups import Groups
from pufferdp.publish.answers.estimate import answer_prior, model_estimate_of
from pufferdp.publish.answers.mechanisms import MECHANISMS
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query

ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
STICKY = MarkovChain(transition=[[0.95, 0.05], [0.05, 0.95]])
CLIQUE = Groups(sizes=[4], positives=[[0.1, 0.15, 0.5, 0.15, 0.1]])
CASES = (
    ("activity, 288 records", ACTIVITY, ((288, 1),), "exact-laplace"),
    ("sticky, 288 records", STICKY, ((288, 1),), "exact-laplace"),
    ("clique of four", CLIQUE, (), "exact-laplace"),
)
EPSILONS = sized((0.2, 1.0, 5.0), (1.0,))
_BEYOND = 25
"""Scales beyond the range of the answer up to which noise is summed: what is left out has probability 1e-11."""


@dataclass(frozen=True)
class Gain:
    """Mean squared errors of one count."""

    what: str
    mechanism: str
    epsilon: float
    scale: float
    raw: float
    clamped: float
    model: float
    """Of the model's own mean, which looks at no answer."""
    model_estimate: float

    def row(self) -> str:
        """As in the table of the guide."""
        errors = " | ".join(number(e) for e in (self.raw, self.clamped, self.model, self.model_estimate))
        return f"| {self.what} | {self.mechanism} | {self.epsilon:g} | {number(self.scale)} | {errors} |"


def gain(what: str, problem: Problem, mechanism: str) -> Gain:
    """Every true count with every noisy one, weighed by the model and the noise."""
    scale = next(m for m in MECHANISMS if m.name == mechanism).calibrate(problem).scale
    prior = answer_prior(problem)
    assert prior is not None
    points, distribution = prior.points, prior.distribution.masses
    far = math.ceil(_BEYOND * scale)
    noisy = np.arange(-far, problem.records + far + 1)
    q = math.exp(-1 / scale)
    joint = distribution[:, None] * (1 - q) / (1 + q) * q ** np.abs(noisy - points[:, None])
    found = [model_estimate_of(problem, int(y), problem.noise(scale)) for y in noisy]
    # Answers so far out that there is no estimate keep the clamped one; all together they are rarer than 1e-6.
    means = [
        d.mean if d and isinstance(d.mean, float) else min(max(y, 0), problem.records)
        for d, y in zip(found, noisy.tolist(), strict=True)
    ]
    errors = [
        float((joint * (guess - points[:, None]) ** 2).sum())
        for guess in (
            noisy,
            np.clip(noisy, 0, problem.records),
            np.full(len(noisy), distribution @ points),
            np.array(means),
        )
    ]
    return Gain(what, mechanism, problem.epsilon, scale, *errors)


def gains(epsilons: Sequence[float] = EPSILONS) -> list[Gain]:
    """The table of the guide."""
    count = Query.parse("count:1")
    return [
        gain(what, Problem(model=model, query=count, lengths=lengths, epsilon=epsilon), mechanism)
        for what, model, lengths, mechanism in CASES
        for epsilon in epsilons
    ]


def run(report: Report) -> None:
    """All of it."""
    report.title(
        "model-based estimates of counts: mean squared error, over the better of the clamped answer and the model alone"
    )
    found = gains()
    for g in found:
        report.row(
            f"{g.what}, epsilon {g.epsilon:g}, {g.mechanism}", g.model_estimate / min(g.clamped, g.model), "", 1.0
        )
    print("\n" + "\n".join(g.row() for g in found))

    report.title("the distribution of a count: seconds")
    steps = np.array([0, 1])
    for records in sized((10**4, 10**5, 10**6), (100,)):
        took = seconds(lambda n=records: chain_total(ACTIVITY, ((n, 1),), steps), 1)
        report.row(f"a chain of two states, {records:,} records", took, "s", 10.0)
