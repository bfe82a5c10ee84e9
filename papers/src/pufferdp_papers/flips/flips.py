"""Chakrabarti et al. 2020, figures 1 and 3: which flips keep a guarantee, and the least noise; section 3.3: chains."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from scipy.optimize import brentq

from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.channels.design import largest
from pufferdp.bounds.channels.many_states import randomised_response
from pufferdp.bounds.channels.two_states import Flips, flip_loss
from pufferdp.models.chain import MarkovChain
from pufferdp_papers.base import Drawing, ExperimentResult, Setting
from pufferdp_papers.flips.closed_forms import closed_loss, closed_rho, least_rho, zhao_rho
from pufferdp_papers.flips.noise_chain import noise_chain_loss

Q, R = 0.2, 0.35
THETA: Final = 0.35
RECORDS: Final = 30


def figure_1(setting: Setting, *, epsilons: Sequence[float] = (0.5, 2.0), steps: int = 10) -> ExperimentResult:
    """The least ρ1 for each ρ0: two straight lines an adversary."""
    chain = MarkovChain(transition=np.array([[1 - Q, Q], [R, 1 - R]]))
    rows = []
    for epsilon in epsilons:
        paper = _closed_lines(epsilon)
        ours, everyone = (_lines(chain, epsilon, adversary) for adversary in (Adversary.PUFFERFISH, Adversary.BDP))
        for n in range(1, steps + 1):
            rho0 = 0.5 * n / steps
            least = {name: _least(pair, rho0) for name, pair in (("paper", paper), ("ours", ours), ("bdp", everyone))}
            if least["ours"] is not None:
                rows.append({"epsilon": epsilon, "rho0": rho0, **least})
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "epsilon": "epsilon",
            "rho0": "rho0",
            "paper": "paper: least rho1",
            "ours": "ours, K empty",
            "bdp": "every adversary",
        },
        notes=(
            f"q = {Q}, r = {R}, an endless series; the least probability rho1 of flipping a 1, for each rho0. paper: "
            "its Theorem 1, a closed form. ours: the recursion over all outputs, for an adversary who knows no record; "
            "both are the same lines.",
            "The paper takes this adversary for the worst. It is not: the last column holds for one who knows any set "
            "of records, and needs more noise. A dash: no rho1 up to 1/2 is enough.",
        ),
        drawing=Drawing(
            x="rho0",
            y="least rho1",
            by="epsilon",
            lines={"paper": "paper: Theorem 1", "ours": "ours, knows no record", "bdp": "ours, every adversary"},
        ),
    )


def figure_3(
    setting: Setting, *, epsilons: Sequence[float] = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
) -> ExperimentResult:
    """Noise–privacy curves of a symmetric chain."""
    chain = MarkovChain(transition=randomised_response(2, THETA))
    rows = [
        {
            "epsilon": epsilon,
            "zhao": zhao_rho(THETA, epsilon, RECORDS),
            "paper": closed_rho(THETA, epsilon),
            "ours": least_rho(chain, epsilon, RECORDS, Adversary.PUFFERFISH),
            "bdp": least_rho(chain, epsilon, RECORDS, Adversary.BDP),
            "dp": 1 / (1 + math.exp(epsilon)),
        }
        for epsilon in epsilons
    ]
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "epsilon": "epsilon",
            "zhao": "Zhao",
            "paper": "paper: closed form",
            "ours": "ours, K empty",
            "bdp": "every adversary",
            "dp": "plain DP",
        },
        notes=(
            f"theta = {THETA}, {RECORDS} records: the probability of a flip. Zhao: Zhao et al. (2017), as the paper's "
            "Proposition 1, best t up to half the records. paper: its closed form, Corollary 2.",
            "ours: exactly, for the adversary who knows no record, whom the paper's formulas protect against. every "
            "adversary: exactly, for one who knows any set of records. plain DP would use 1/(1+e^epsilon), which keeps "
            "neither guarantee.",
        ),
        drawing=Drawing(
            x="epsilon",
            y="probability of a flip",
            lines={
                "zhao": "Zhao",
                "paper": "paper: closed form",
                "ours": "ours, knows no record",
                "bdp": "ours, every adversary",
                "dp": "plain DP, not enough",
            },
        ),
    )


def correlated_noise(
    setting: Setting,
    *,
    thetas: Sequence[float] = (0.05, 0.2, 0.3),
    noises: Sequence[tuple[float, float]] = ((0.07, 0.3), (0.1, 0.2), (0.25, 0.4), (0.35, 0.45), (0.35, 0.65)),
) -> ExperimentResult:
    """Section 3.3: noise that is a chain itself against independent noise of the same average."""
    rows = []
    for theta in thetas:
        data = MarkovChain(transition=randomised_response(2, theta))
        for rho0, rho1 in noises:
            if not theta < rho0:
                continue  # the paper's assumption
            average = rho0 / (rho0 + rho1)
            noise = MarkovChain(transition=np.array([[1 - rho0, rho0], [rho1, 1 - rho1]]))
            setting.progress(f"theta {theta:g}, noise {rho0:g}, {rho1:g}")
            alone, both = Flips.of(average, average), (Adversary.PUFFERFISH, Adversary.BDP)
            independent = [flip_loss(data, alone, None, adversary).worst for adversary in both]
            correlated = [noise_chain_loss(data, noise, adversary) for adversary in both]
            rows.append(
                {
                    "theta": theta,
                    "rho0": rho0,
                    "rho1": rho1,
                    "average": average,
                    "paper": independent[0],
                    "ours": correlated[0],
                    "independent": independent[1],
                    "bdp": correlated[1],
                }
            )
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "theta": "theta",
            "rho0": "rho0",
            "rho1": "rho1",
            "average": "flipped",
            "paper": "paper",
            "ours": "ours, K empty",
            "independent": "independent, any K",
            "bdp": "ours, any K",
        },
        notes=(
            "The loss of an endless series of a symmetric chain (theta) whose flips are a chain too: a flip follows "
            "none with rho0, none follows a flip with rho1. paper: its section 3.3 finds the same average noise at the "
            "same loss as with independent flips, for theta < rho0 < rho1 and rho0 + rho1 at most 1; so its column is "
            "the loss of independent flips of that average. ours: exactly, for the adversary who knows no record.",
            "The claim holds. Short series with slow noise leak less than with independent flips, because it takes "
            "them longer to reach the limit.",
            "It says nothing about adversaries who know other records, and with them the noise there. For them "
            "correlated "
            "noise leaks more where data changes quickly, and less where it changes slowly: the last two columns. With "
            "rho0 + rho1 = 1 the flips are independent.",
        ),
        drawing=Drawing(
            x="average",
            y="loss",
            by="theta",
            lines={
                "paper": "paper: as independent",
                "ours": "ours, knows no record",
                "independent": "independent, every adversary",
                "bdp": "ours, every adversary",
            },
        ),
    )


def _lines(chain: MarkovChain, epsilon: float, adversary: Adversary) -> tuple[float, float]:
    """The slopes s and s' of ρ1 ≥ s·(1−ρ0) and ρ0 ≥ s'·(1−ρ1)."""
    high = largest(lambda h: flip_loss(chain, Flips(h, 0.0), None, adversary).zero, epsilon)
    low = largest(lambda h: flip_loss(chain, Flips(0.0, -h), None, adversary).one, epsilon)
    return math.exp(-high), math.exp(-low)


def _closed_lines(epsilon: float) -> tuple[float, float]:
    """The slopes of ``_lines`` by Theorem 1 in closed form; a loss depends on its own slope only."""

    def slope(loss: Callable[[float], float]) -> float:
        return float(brentq(lambda s: loss(s) - epsilon, 1e-12, 1 - 1e-12, xtol=1e-15, rtol=1e-14))

    # ρ0 = ½·s' and ρ1 = ½·s with the other at ½ have these slopes.
    return (slope(lambda s: closed_loss(Q, R, 0.5, 0.5 * s).zero), slope(lambda s: closed_loss(Q, R, 0.5 * s, 0.5).one))


def _least(slopes: tuple[float, float], rho0: float) -> float | None:
    rho1 = max(slopes[0] * (1 - rho0), 1 - rho0 / slopes[1], 0.0)
    return rho1 if rho1 <= 0.5 else None
