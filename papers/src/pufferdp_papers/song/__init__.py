"""Song, Wang & Chaudhuri 2017: its figure and its three tables, the tight curve beside the published mechanisms."""

from __future__ import annotations

from typing import Final

from pufferdp_papers.base import Experiment, late
from pufferdp_papers.flows import POWER, SLEEP
from pufferdp_papers.thesis import ACTIVITY

PAPER: Final = "Song, Wang & Chaudhuri 2017, Pufferfish Privacy Mechanisms for Correlated Data"

EXPERIMENTS: Final = (
    Experiment(
        name="song-figure-4",
        paper=PAPER,
        about="intervals of chains: error of a share, by mechanism and width",
        run=late("song.synthetic", "figure_4"),
        also="song-synthetic",
    ),
    Experiment(
        name="song-table-1",
        paper=PAPER,
        about="activity: error of histograms, of one person and of groups",
        run=late("song.histograms", "table_1"),
        needs=(ACTIVITY, SLEEP),
        also="song-activity",
    ),
    Experiment(
        name="song-table-2",
        paper=PAPER,
        about="time to find the noise, by mechanism and data",
        run=late("song.times", "table_2"),
        needs=(ACTIVITY, POWER),
        also="song-times",
    ),
    Experiment(
        name="song-table-3",
        paper=PAPER,
        about="electricity: error of a histogram of power, by epsilon",
        run=late("song.histograms", "table_3"),
        needs=(POWER,),
        also="song-power",
    ),
)
