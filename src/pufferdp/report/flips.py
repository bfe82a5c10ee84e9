"""The figure of flipped series: noise against the promise, for each adversary and by each rule."""

from __future__ import annotations

import math
import os

import numpy as np

from pufferdp.checks import Adversary
from pufferdp.leakage.flip_design import closed_rho, least_rho, zhao_rho
from pufferdp.models.markov import MarkovChain
from pufferdp.report.figures import INK, PALE, new_figure, save_figure


def noise_figure(theta: float, path: str | os.PathLike[str], *, most: float = 8.0, points: int = 24) -> None:
    """Probability of a flip that each promise needs, for a symmetric chain that moves with probability theta."""
    chain = MarkovChain(transition=np.array([[1 - theta, theta], [theta, 1 - theta]]))
    losses = [most * (n + 1) / points for n in range(points)]
    figure = new_figure(7.0, 4.4)
    axes = figure.subplots()
    lines = (
        ("Zhao et al. 2017, every adversary", [zhao_rho(theta, e) for e in losses], (0, (1, 3)), INK),
        ("every adversary", [least_rho(chain, e, None, Adversary.BDP) for e in losses], "-", INK),
        ("closed form of the paper", [closed_rho(theta, e) for e in losses], ":", INK),
        ("adversary who knows no record", [least_rho(chain, e, None, Adversary.PUFFERFISH) for e in losses], "--", INK),
        ("plain DP: adversary who knows all others", [1 / (1 + math.exp(e)) for e in losses], "-", PALE),
    )
    for label, values, style, colour in lines:
        axes.plot(losses, values, linestyle=style, color=colour, label=label)
    axes.set_xlabel("epsilon: how much one record may leak")
    axes.set_ylabel("probability of a flip")
    axes.set_ylim(0, 0.68)  # room for the legend
    axes.set_title(f"a chain that moves with probability {theta:g}, endless series", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="upper center", ncols=2)
    save_figure(figure, path)
