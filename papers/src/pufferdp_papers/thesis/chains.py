"""Lange 2024, section 7: bounds for Markov chains beside our curves and the exact leakage of a count."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from pufferdp.assess.dp import LeakageReport, leakage_of
from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.curves import curve
from pufferdp.models.base import Model
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import BinaryInterval
from pufferdp.publish.answers.mechanisms.exact import ExactLeakage
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from pufferdp_papers.base import Drawing, ExperimentResult, Setting

RECORDS: Final = 100
"""Records in a series where the paper's bounds do not depend on their number."""


def leaks(chain: MarkovChain, dp_loss: float, records: int) -> LeakageReport:
    """What tau of DP leaks under a two-state chain, by every curve, and exactly for a count with Laplace noise."""
    return leakage_of(chain, dp_epsilon=dp_loss, length=records, query=f"count:{chain.labels[-1]}")


def even_chain(gamma: float) -> MarkovChain:
    """The paper's own example: both states are left with the same probability, gamma times less likely than to stay."""
    stay, leave = gamma / (gamma + 1), 1 / (gamma + 1)
    return MarkovChain(transition=np.array([[stay, leave], [leave, stay]]), states=("0", "1"))


def every_chain(gamma: float) -> BinaryInterval:
    """Every two-state chain whose largest transition probability is at most gamma times the least, with any start.

    Each probability has its complement in the same row, so the least of all, p, stands beside the largest, 1−p.
    """
    return BinaryInterval(low=1 / (gamma + 1), high=gamma / (gamma + 1))


def uneven_chain(gamma: float, omega: float) -> MarkovChain:
    """A two-state chain with these two ratios: gamma over all entries, omega inside a column."""
    least = 1 / (gamma + 1)
    moves = np.array([[1 - least, least], [1 - omega * least, omega * least]])
    return MarkovChain(transition=moves, states=("0", "1"))


def by_curve(name: str, model: Model, dp_loss: float, records: int) -> float:
    """What a curve says for every adversary."""
    return curve(name, model, records, Adversary.BDP)(dp_loss)


def figure_11(setting: Setting) -> ExperimentResult:
    """The Markov chain bound against Zhao's: where they cross, and two chains that each of them is better for."""
    crossing = [(omega, omega**1.5) for omega in (1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)]
    rows = []
    for where, places in (("they cross", crossing), ("figure 12", [(2.0, 9.0), (8.0, 9.0)])):
        for omega, gamma in places:
            leakage = leaks(uneven_chain(gamma, omega), 1.0, RECORDS)
            markov, zhao = leakage.curves["markov"], leakage.curves["zhao"]
            assert markov is not None
            assert zhao is not None
            least = {name: leakage.curves[name] for name in ("quilt", "tight")}
            both = {"markov": markov, "zhao": zhao, "paper": min(markov, zhao)}
            rows.append({"where": where, "omega": omega, "gamma": gamma, **both, **least, "ours": leakage.exact})
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "where": "where",
            "omega": "omega",
            "gamma": "gamma",
            "markov": "Markov bound",
            "zhao": "Zhao",
            "paper": "paper's best",
            "quilt": "our quilt",
            "tight": "our tight",
            "ours": "ours, exact",
        },
        notes=(
            "gamma is the largest ratio of two transition probabilities, omega the largest inside a column. The "
            "figure of the paper shows where its bound meets Zhao's: gamma = omega^1.5 (its formula).",
            f"Leakage when 1 of DP is spent over {RECORDS} records, on the two-state chain with these ratios. paper: "
            "the smaller of its bound and Zhao's, from their formulas. ours: exact for a count with Laplace noise. "
            "The quilt curve and the tight curve hold for any DP algorithm; none leaks more than the tight one says, "
            "and here the count is as bad as any.",
        ),
        drawing=Drawing(
            x="omega",
            y="leakage of 1 of DP",
            only=("where", "they cross"),
            lines={
                "paper": "paper: Markov or Zhao",
                "quilt": "quilt curve",
                "ours": "exact, count",
                "tight": "tight curve",
            },
            log_x=True,
        ),
    )


def figure_13(setting: Setting, *, sizes: Sequence[int] = (10, 20, 40, 60, 80)) -> ExperimentResult:
    """The Markov chain bound against the general one: where they cross."""
    rows = []
    for dp_loss in (0.25, 0.5, 1.0):
        for records in sizes:
            setting.progress(f"computing leakages of {records} records")
            gamma = math.exp((records - 1) * dp_loss / 4)
            on_one = leaks(even_chain(gamma), dp_loss, records)
            on_every = {name: by_curve(name, every_chain(gamma), dp_loss, records) for name in ("quilt", "odds")}
            where = {"dp_epsilon": dp_loss, "records": float(records), "gamma": gamma, "paper": records * dp_loss}
            rows.append({**where, **on_every, "tight": on_one.curves["tight"], "ours": on_one.exact})
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "dp_epsilon": "DP epsilon",
            "records": "records",
            "gamma": "gamma there",
            "paper": "paper, both",
            "quilt": "our quilt",
            "odds": "our odds",
            "tight": "our tight",
            "ours": "ours, exact",
        },
        notes=(
            "The paper's bound is below the general one for gamma < exp((n-1) epsilon/4); there they cross, and both "
            "leak n epsilon (its formulas).",
            "quilt and odds: curves for any DP algorithm, on every two-state chain with this gamma and any start. "
            "tight: for any DP algorithm on the chain that leaves both states with probability 1/(gamma+1). ours: "
            "exact for a count with Laplace noise on that chain.",
        ),
        drawing=Drawing(
            x="records",
            y="leakage where the paper's two bounds meet",
            by="dp_epsilon",
            lines={
                "paper": "paper: general and Markov",
                "quilt": "quilt curve, every chain",
                "odds": "odds curve, every chain",
                "ours": "exact, count, one chain",
                "tight": "tight curve, one chain",
            },
        ),
    )


def figure_16(
    setting: Setting,
    *,
    epsilons: Sequence[float] = (1.0, 2.0, 5.0, 10.0),
    factors: Sequence[float] = (1.5, 2.0, 3.0, 5.0, 10.0),
) -> ExperimentResult:
    """How unequal transition probabilities may be when the error may be h times that of DP."""
    rows = []
    for epsilon in epsilons:
        for h in factors:
            setting.progress(f"computing the largest gamma for epsilon {epsilon:g}")
            paper, dp_loss = math.exp((h - 1) * epsilon / (4 * h)), epsilon / h
            quilt, odds = (
                largest(partial(_curve_keeps, name, every_chain, epsilon, dp_loss), paper) for name in ("quilt", "odds")
            )
            limits = {
                "paper": paper,
                "quilt": quilt,
                "ours": max(quilt, odds),
                "tight": largest(partial(_curve_keeps, "tight", even_chain, epsilon, dp_loss), paper),
                "exact": largest(partial(_even_chain_keeps, epsilon, dp_loss), paper),
            }
            rows.append({"epsilon": epsilon, "h": h, **limits})
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "epsilon": "epsilon",
            "h": "error factor h",
            "paper": "paper: gamma up to",
            "quilt": "our quilt",
            "ours": "our best",
            "tight": "our tight",
            "exact": "exact, one chain",
        },
        notes=(
            "How many times the least transition probability the largest may be, when an epsilon-BDP answer may err h "
            "times as much as an epsilon-DP answer. paper: exp((h-1) epsilon/(4h)), its formula.",
            "our quilt: by the quilt curve, for every two-state chain with any start and any DP algorithm, "
            f"{RECORDS} records. our best: by the odds curve or the quilt curve. tight: any DP algorithm on the chain "
            "that leaves both states equally often. exact: a count with Laplace noise on that chain. All are rounded "
            "down to a thousandth.",
        ),
        drawing=Drawing(
            x="h",
            y="gamma, at most",
            by="epsilon",
            lines={
                "paper": "paper",
                "quilt": "quilt curve, two states",
                "ours": "odds or quilt curve, two states",
                "exact": "exact, count, one chain",
                "tight": "tight curve, one chain",
            },
            log_y=True,
        ),
    )


def _curve_keeps(name: str, chains: Callable[[float], Model], epsilon: float, dp_loss: float, gamma: float) -> bool:
    return by_curve(name, chains(gamma), dp_loss, RECORDS) <= epsilon


def _even_chain_keeps(epsilon: float, dp_loss: float, gamma: float) -> bool:
    count = Problem(model=even_chain(gamma), query=Query.parse("count:1"), lengths=((RECORDS, 1),), epsilon=epsilon)
    return ExactLeakage(count)(dp_loss) <= epsilon


def largest(holds: Callable[[float], bool], guess: float) -> float:
    """The largest gamma up to which something holds that holds at 1 (independent records), to a thousandth."""
    low, high = 1.0, guess
    while holds(high):
        low, high = high, 1.5 * high
    while high / low - 1 > 1e-3:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
