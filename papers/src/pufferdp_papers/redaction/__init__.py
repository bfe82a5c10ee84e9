"""Maßny et al. 2024 (3R): its figures and its table, and one hour of real data hidden."""

from __future__ import annotations

from typing import Final

from pufferdp_papers.base import DataFile, Experiment, late
from pufferdp_papers.thesis import ACTIVITY

PAPER: Final = "Maßny et al. 2024, Between Close Enough to Reveal and Far Enough to Protect (3R)"

SLEEP: Final = DataFile("sleep/hypnograms.csv", "physionet.org/content/sleep-edfx (stages of each night as a string)")

EXPERIMENTS: Final = (
    Experiment(
        name="redaction-table-1",
        paper=PAPER,
        about="two records: likelihood ratios, and what may be released",
        run=late("redaction.figures", "table_1"),
    ),
    Experiment(
        name="redaction-figure-2",
        paper=PAPER,
        about="influence on each value by distance, and the three regions",
        run=late("redaction.figures", "figure_2"),
    ),
    Experiment(
        name="redaction-figure-3",
        paper=PAPER,
        about="share released by epsilon: the bound, the paper's, ours",
        run=late("redaction.figures", "figure_3"),
    ),
    Experiment(
        name="redaction-figure-4",
        paper=PAPER,
        about="redaction probabilities of each record, by mechanism",
        run=late("redaction.figures", "figure_4"),
    ),
    Experiment(
        name="redaction-sleep",
        paper=PAPER,
        about="one hour of a night hidden: five sleep stages",
        run=late("redaction.data", "sleep"),
        needs=(SLEEP,),
    ),
    Experiment(
        name="redaction-activity",
        paper=PAPER,
        about="one hour of a day hidden: active or not, every five minutes",
        run=late("redaction.data", "activity"),
        needs=(ACTIVITY,),
    ),
)
