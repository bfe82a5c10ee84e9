"""The figure of flipped series: noise against the promise, for each adversary and by each rule."""

from __future__ import annotations

import math

import numpy as np

from pufferdp.checks import Adversary
from pufferdp.leakage.flip_design import closed_rho, least_rho, zhao_rho
from pufferdp.models.markov import MarkovChain
from pufferdp.report.charts import Axis, Chart, Line


def noise_chart(theta: float, *, most: float = 8.0, points: int = 24) -> Chart:
    """Probability of a flip that each promise needs, for a symmetric chain that moves with probability theta."""
    chain = MarkovChain(transition=np.array([[1 - theta, theta], [theta, 1 - theta]]))
    losses = tuple(most * (n + 1) / points for n in range(points))
    lines = (
        ("Zhao et al. 2017, every adversary", [zhao_rho(theta, e) for e in losses], 5),
        ("every adversary", [least_rho(chain, e, None, Adversary.BDP) for e in losses], 0),
        ("closed form of the paper", [closed_rho(theta, e) for e in losses], 2),
        ("adversary who knows no record", [least_rho(chain, e, None, Adversary.PUFFERFISH) for e in losses], 1),
        ("plain DP: adversary who knows all others", [1 / (1 + math.exp(e)) for e in losses], 3),
    )
    title = f"a chain that moves with probability {theta:g}, endless series"
    return Chart(
        title=title,
        x=Axis(name="epsilon: how much one record may leak"),
        y=Axis(name="probability of a flip", low=0.0, high=0.75),  # room for the legend
        layers=tuple(Line(x=losses, y=tuple(values), label=label, series=n) for label, values, n in lines),
        alt=f"Probability of a flip that each promise needs, {title}: {'; '.join(label for label, _, _ in lines)}.",
        height=4.6,
        legend="upper right",
    )
