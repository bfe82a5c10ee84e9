"""Song et al. 2017, Figure 4, upper row: a share over every two-state chain whose stay-probabilities lie in a range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.chains.mixing import EigenGap
from pufferdp.bounds.quilts.chains import worst_record_by_distance
from pufferdp.bounds.quilts.search import Score
from pufferdp.models.chain import MarkovChain, SeriesModel
from pufferdp.models.chain_classes import BinaryInterval
from pufferdp.publish.answers.plan import plan_problem
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from pufferdp_papers.base import Drawing, ExperimentResult, Setting
from pufferdp_papers.song.published import PUBLISHED, noise_multiplier

RECORDS: Final = 100
EPSILONS: Final = (0.2, 1.0, 5.0)
ALPHAS: Final = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)


def share_of_ones(model: SeriesModel, epsilon: float) -> Problem:
    """The paper's query: with two states the share of one of them is the whole histogram."""
    return Problem(
        model=model,
        query=Query.parse("mean"),
        lengths=((RECORDS, 1),),
        epsilon=epsilon,
        adversary=Adversary.PUFFERFISH,
    )


def interval(alpha: float) -> BinaryInterval:
    """Every chain that stays in either state with a probability from alpha to 1-alpha, with any start."""
    return BinaryInterval(low=alpha, high=1 - alpha, values=(0.0, 1.0))


def class_gap(alpha: float) -> EigenGap:
    """The smallest stationary probability and the eigen-gap over a whole class (Song et al. 2017, (6) and (14)).

    A chain that stays with p0 and p1 has stationary probabilities (1-p1)/(2-p0-p1) and (1-p0)/(2-p0-p1), the least of
    which is alpha, at p0 = 1-p1 = 1-alpha; its other eigenvalue p0+p1-1 is at most 1-2·alpha in size.
    """
    return EigenGap(least=alpha, gap=4 * alpha)


def published_approx(alpha: float, epsilon: float) -> float:
    """Sigma of MQMApprox over a class (Lemma C.1); our quilt-approx bounds a class by other means."""
    gap = class_gap(alpha)
    return worst_record_by_distance(gap.left, gap.right, RECORDS, Score(epsilon)).value


def least_scale(alpha: float, epsilon: float) -> float:
    """The exact Laplace noise for one chain of the class, the slowest with an even start: the class needs no less."""
    slowest = np.array([[1 - alpha, alpha], [alpha, 1 - alpha]])
    chain = MarkovChain(transition=slowest, values=(0.0, 1.0))
    problem = share_of_ones(chain, epsilon)
    sigma = noise_multiplier(problem, "exact-laplace")
    assert sigma is not None
    return problem.bound.lipschitz * sigma


def figure_4(
    setting: Setting, *, epsilons: Sequence[float] = EPSILONS, alphas: Sequence[float] = ALPHAS
) -> ExperimentResult:
    """The share of ones among 100 records: expected error by mechanism."""
    rows: list[dict[str, float | str | None]] = []
    for epsilon in epsilons:
        for alpha in alphas:
            setting.progress(f"computing scales for epsilon {epsilon:g}, alpha {alpha:g}")
            # One number with Laplace noise errs by its scale on average.
            ranked = plan_problem(share_of_ones(interval(alpha), epsilon))
            scales = {c.mechanism: c.calibration.scale for c in ranked.candidates if c.applies and c.calibration}
            rows.append(
                {
                    "epsilon": epsilon,
                    "alpha": alpha,
                    "group": scales[PUBLISHED["GroupDP"]],
                    "gk16": scales.get(PUBLISHED["GK16"]),
                    "approx": published_approx(alpha, epsilon) / RECORDS,
                    "paper": scales[PUBLISHED["MQMExact"]],
                    "odds": scales["curve-odds"],
                    "ours": scales[ranked.best.mechanism],
                    "least": least_scale(alpha, epsilon),
                }
            )
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "epsilon": "epsilon",
            "alpha": "alpha",
            "group": "GroupDP",
            "gk16": "GK16 (2016)",
            "approx": "MQMApprox",
            "paper": "MQMExact",
            "odds": "our odds",
            "ours": "our best",
            "least": "no less",
        },
        notes=(
            f"Expected error of the share of ones among {RECORDS} records with Laplace noise, which is its scale; the "
            "class has every two-state chain that stays with probabilities from alpha to 1-alpha, with any start; "
            "the adversary knows no record.",
            "The paper draws averages over 500 trials and prints none but those of GroupDP, around 5, 1 and 0.2 "
            "(its caption says epsilon 0.5 where its text has 0.2). MQMApprox and MQMExact follow its formulas: the "
            "least stationary probability of the class is alpha and its eigen-gap 4 alpha; two chains decide MQMExact.",
            "our odds: the closed form from the largest odds ratio; it holds for any DP algorithm, and for an "
            "adversary who knows any records too. our best: the least noise of all that keep the paper's guarantee. no "
            "less: one chain of the class alone needs as much Laplace noise.",
        ),
        drawing=Drawing(
            x="alpha",
            y="expected error of a share",
            by="epsilon",
            lines={
                "approx": "MQMApprox",
                "gk16": "GK16",
                "paper": "paper: MQMExact",
                "ours": "ours",
                "least": "no less",
            },
            log_y=True,
        ),
    )
