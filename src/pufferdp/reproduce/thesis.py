"""Lange 2024: what its bounds say, and what the curves and the exact leakage of this package say beside them."""

from __future__ import annotations

from typing import Final

from pufferdp.reproduce.base import DataFile, Experiment, late

PAPER: Final = "Lange 2024, Utility of Semantic Privacy Notions for Correlated Data (thesis)"

ACTIVITY: Final = DataFile("activity/activity.csv", "github.com/rdpeng/RepData_PeerAssessment1 (activity.zip)")
GALTON: Final = DataFile("galton/galton.csv", "vincentarelbundock.github.io/Rdatasets (mosaicData, Galton)")

EXPERIMENTS: Final = (
    Experiment(
        name="thesis-figure-11",
        paper=PAPER,
        about="chains: the paper's bound and Zhao's where they meet, and ours",
        run=late("thesis_chains", "figure_11"),
    ),
    Experiment(
        name="thesis-figure-13",
        paper=PAPER,
        about="chains: the paper's bound and the general one where they meet, and ours",
        run=late("thesis_chains", "figure_13"),
    ),
    Experiment(
        name="thesis-figure-15",
        paper=PAPER,
        about="chains: leakage of a count by bounds, by simulation and exactly",
        run=late("thesis_simulation", "figure_15"),
    ),
    Experiment(
        name="thesis-figure-16",
        paper=PAPER,
        about="chains: how unequal transitions may be for an error h times that of DP",
        run=late("thesis_chains", "figure_16"),
    ),
    Experiment(
        name="thesis-figure-19",
        paper=PAPER,
        about="activity data: error of a noisy count of active steps, by bound",
        run=late("thesis_data", "figure_19"),
        needs=(ACTIVITY,),
        also="thesis-activity",
    ),
)
