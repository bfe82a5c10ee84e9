"""Chakrabarti et al. 2020: series flipped record by record, and attackers on them; corrected where the paper errs."""

from __future__ import annotations

from typing import Final

from pufferdp_papers.base import DataFile, Experiment, late

PAPER: Final = "Chakrabarti et al. 2020, Optimal Local Bayesian Differential Privacy over Markov Chains"

_ORIGIN: Final = "physionet.org/content/meditation (data/metron, beats of N5 and N10)"
HEART: Final = (DataFile("heart/N10.txt", _ORIGIN), DataFile("heart/N5.txt", _ORIGIN))

EXPERIMENTS: Final = (
    Experiment(
        name="local-figure-1",
        paper=PAPER,
        about="flips: the least rho1 for each rho0, by adversary",
        run=late("flips.flips", "figure_1"),
    ),
    Experiment(
        name="local-figure-2",
        paper=PAPER,
        about="flips: attackers on one record of a series with DP noise",
        run=late("flips.attacks", "figure_2"),
    ),
    Experiment(
        name="local-figure-3",
        paper=PAPER,
        about="flips: noise for a guarantee, by Zhao, closed form, exactly",
        run=late("flips.flips", "figure_3"),
    ),
    Experiment(
        name="local-figure-4",
        paper=PAPER,
        about="heart rates: attackers on flipped series, and the bound",
        run=late("flips.attacks", "figure_4"),
        needs=HEART,
        also="local-heart",
    ),
    Experiment(
        name="local-correlated-noise",
        paper=PAPER,
        about="flips that are a chain: their loss, and independent ones",
        run=late("flips.flips", "correlated_noise"),
    ),
)
