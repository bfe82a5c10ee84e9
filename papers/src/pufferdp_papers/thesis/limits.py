"""Lange 2024, section 4: what arbitrary correlation over all records leaves of a count, whatever the mechanism."""

from __future__ import annotations

import math
from typing import Final

from pufferdp_papers.base import Drawing, ExperimentResult, Setting

EPSILONS: Final = (0.1, 0.5, *(float(n) for n in range(1, 11)))


def figure_3(setting: Setting) -> ExperimentResult:
    """How often a count errs by more than half its range, when any correlation over all records is allowed."""
    rows = [
        {"epsilon": e, "paper": math.exp(-e / 2), "ours": math.exp(-e / 2) / 2, "least": least_beta(e)}
        for e in EPSILONS
    ]
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "epsilon": "epsilon",
            "paper": "paper: Laplace",
            "ours": "ours: moved into 0..n",
            "least": "no mechanism below",
        },
        notes=(
            "Probability that a count over n records errs by more than n/2, whatever n. paper: Laplace noise of scale "
            "n/epsilon, exp(-epsilon/2) (its formula; its text says 60 % at epsilon 1, nearly 10 % at 5).",
            "ours: the same noise, then an answer outside 0..n is moved to its end, which costs no privacy: only "
            "errors to one side can still exceed n/2. Less noise than n/epsilon needs a model of the correlation, as "
            "in thesis-figure-19.",
            "The last column is figure 5: some data set errs by n/2 or more at least so often.",
        ),
        drawing=Drawing(
            x="epsilon",
            y="probability",
            lines={"paper": "paper: Laplace", "ours": "moved into 0..n", "least": "no mechanism below"},
        ),
    )


def figure_5(setting: Setting) -> ExperimentResult:
    """The least probability of an error of half the range, for any mechanism, and who reaches it."""
    rows = [
        {
            "epsilon": e,
            "paper": least_beta(e),
            # Tell the nearer of the two answers the truth with the odds that epsilon allows.
            "ours": 1 - math.exp(e) / (math.exp(e) + 1),
            "laplace": math.exp(-e / 2) / 2,
        }
        for e in EPSILONS
    ]
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "epsilon": "epsilon",
            "paper": "paper: at least",
            "ours": "ours: reached",
            "laplace": "Laplace, rounded",
        },
        notes=(
            "Probability of an error of at least half the distance between two data sets that must look alike up to "
            "epsilon. paper: 1/(e^epsilon + 1), its formula; no mechanism errs less often on both.",
            "ours: randomised response between the two answers, the true one with odds e^epsilon : 1, leaks exactly "
            "epsilon and errs exactly so often: the paper's limit is reached, not only approached. Laplace, rounded: "
            "noise of scale distance/epsilon, then the nearer of the two answers.",
        ),
        drawing=Drawing(
            x="epsilon",
            y="probability",
            lines={"paper": "paper: at least", "ours": "randomised response", "laplace": "Laplace, rounded"},
            log_y=True,
        ),
    )


def least_beta(epsilon: float) -> float:
    """Below this probability no mechanism errs by half the distance of two data sets that must look alike."""
    return 1 / (math.exp(epsilon) + 1)
