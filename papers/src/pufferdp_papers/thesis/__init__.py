"""Lange 2024: what its bounds say, and what the curves and the exact leakage of this package say beside them."""

from __future__ import annotations

from typing import Final

from pufferdp_papers.base import DataFile, Experiment, late

PAPER: Final = "Lange 2024, Utility of Semantic Privacy Notions for Correlated Data (thesis)"

ACTIVITY: Final = DataFile("activity/activity.csv", "github.com/rdpeng/RepData_PeerAssessment1 (activity.zip)")
GALTON: Final = DataFile("galton/galton.csv", "vincentarelbundock.github.io/Rdatasets (mosaicData, Galton)")

EXPERIMENTS: Final = (
    Experiment(
        name="thesis-figure-3",
        paper=PAPER,
        about="any correlation: how often a count errs by half its range",
        run=late("thesis.limits", "figure_3"),
    ),
    Experiment(
        name="thesis-figure-5",
        paper=PAPER,
        about="any correlation: how often every mechanism must err by half",
        run=late("thesis.limits", "figure_5"),
    ),
    Experiment(
        name="thesis-figure-7",
        paper=PAPER,
        about="families: error of a noisy count of BB, and the least one",
        run=late("thesis.families", "figure_7"),
    ),
    Experiment(
        name="thesis-figure-8",
        paper=PAPER,
        about="normal records: leakage of a clipped sum, by correlation",
        run=late("thesis.gaussian", "figure_8"),
    ),
    Experiment(
        name="thesis-figure-9",
        paper=PAPER,
        about="normal records: leakage by bounds, simulated, exactly",
        run=late("thesis.gaussian", "figure_9"),
    ),
    Experiment(
        name="thesis-figure-11",
        paper=PAPER,
        about="chains: paper's bound and Zhao's where they meet, and ours",
        run=late("thesis.chains", "figure_11"),
    ),
    Experiment(
        name="thesis-figure-13",
        paper=PAPER,
        about="chains: paper's and general bound where they meet, and ours",
        run=late("thesis.chains", "figure_13"),
    ),
    Experiment(
        name="thesis-figure-15",
        paper=PAPER,
        about="chains: leakage of a count by bounds, simulated, exactly",
        run=late("thesis.simulation", "figure_15"),
    ),
    Experiment(
        name="thesis-figure-16",
        paper=PAPER,
        about="chains: how unequal moves may be for an error h times DP's",
        run=late("thesis.chains", "figure_16"),
    ),
    Experiment(
        name="thesis-figure-17",
        paper=PAPER,
        about="families: squared error of a noisy count of BB",
        run=late("thesis.families", "figure_17"),
        also="thesis-genome",
    ),
    Experiment(
        name="thesis-figure-18",
        paper=PAPER,
        about="heights: squared error of a noisy sum over three people",
        run=late("thesis.gaussian", "figure_18"),
        needs=(GALTON,),
        also="thesis-height",
    ),
    Experiment(
        name="thesis-figure-19",
        paper=PAPER,
        about="activity: squared error of a noisy count of active steps",
        run=late("thesis.data", "figure_19"),
        needs=(ACTIVITY,),
        also="thesis-activity",
    ),
)
