"""The poster on orbit and record privacy: its noise and its repair, beside ours."""

from __future__ import annotations

from typing import Final

from pufferdp_papers.base import DataFile, Experiment, late

PAPER: Final = "Orbit and record privacy for Markov chains (poster)"

SLEEP: Final = DataFile("sleep/hypnograms.csv", "physionet.org, Sleep-EDF Expanded (stages of each night as a string)")
POWER: Final = DataFile("power/household_minute.csv.gz", "archive.ics.uci.edu, individual household power consumption")

EXPERIMENTS: Final = (
    Experiment(
        name="poster-noise",
        paper=PAPER,
        about="flows: noise against tau, for five Dobrushin coefficients",
        run=late("flows.figures", "noise"),
    ),
    Experiment(
        name="poster-flow",
        paper=PAPER,
        about="flows: empirical against private, both noises and repairs",
        run=late("flows.figures", "heat_maps"),
    ),
    Experiment(
        name="poster-errors",
        paper=PAPER,
        about="flows: expected errors under the poster's chains",
        run=late("flows.figures", "errors"),
    ),
    Experiment(
        name="poster-data",
        paper=PAPER,
        about="flows: expected errors for sleep stages and household power",
        run=late("flows.data", "errors"),
        needs=(SLEEP, POWER),
    ),
)
