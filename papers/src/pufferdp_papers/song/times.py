"""Song et al. 2017, Table 2: how long it takes to find the scale of the noise, measured in the run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from pufferdp.models.base import Lengths
from pufferdp.models.chain import MarkovChain
from pufferdp_papers.base import Drawing, ExperimentResult, Setting
from pufferdp_papers.flows import POWER
from pufferdp_papers.song.histograms import household, steps
from pufferdp_papers.song.published import COMPARED, histogram_of, noise_multiplier
from pufferdp_papers.song.synthetic import RECORDS
from pufferdp_papers.thesis import ACTIVITY

EPSILON: Final = 1.0
SYNTHETIC, ACTIVE, ELECTRICITY = "synthetic", "activity", "electricity"
TABLE_2: Final[Mapping[tuple[str, str], float]] = {
    (SYNTHETIC, "GK16"): 6.3589e-4,
    (SYNTHETIC, "MQMApprox"): 1.8458e-4,
    (SYNTHETIC, "MQMExact"): 7.6794e-4,
    (ACTIVE, "MQMApprox"): 0.0064,
    (ACTIVE, "MQMExact"): 1.5186,
    (ELECTRICITY, "MQMApprox"): 0.0567,
    (ELECTRICITY, "MQMExact"): 282.2273,
}
"""As printed, in seconds; for activity the cyclists'."""
UNIT: Final = "MQMApprox"
"""What the others' times are divided by."""
GRID: Final = tuple(round(0.1 * n, 1) for n in range(1, 10))
"""Stay-probabilities of the synthetic chains; the paper's grid has steps of .01."""


def table_2(setting: Setting, *, grid: Sequence[float] = GRID, runs: int = 5) -> ExperimentResult:
    """Calibration times of each mechanism on chains of two, four and some fifty states."""
    setting.progress("reading steps and power")
    tasks: dict[str, list[tuple[MarkovChain, Lengths]]] = {
        SYNTHETIC: [(chain, ((RECORDS, 1),)) for chain in _chains_of(grid)],
        ACTIVE: [steps(setting.file(ACTIVITY))] * runs,
        ELECTRICITY: [household(setting.file(POWER))] * runs,
    }
    names = [name for name in COMPARED if name != "GroupDP"]  # nothing to compute
    rows: list[dict[str, float | str | None]] = []
    for data, cases in tasks.items():
        seconds, applies = {}, {}
        for name in names:
            setting.progress(f"timing {name}, {data}")
            seconds[name], applies[name] = _mean_time(cases, COMPARED[name])
        for name in names:
            printed, unit = TABLE_2.get((data, name)), TABLE_2[data, UNIT]
            rows.append(
                {
                    "data": data,
                    "mechanism": name,
                    "applies": applies[name],
                    "paper": printed,
                    "ours": seconds[name],
                    "paper_ratio": None if printed is None else printed / unit,
                    "ratio": seconds[name] / seconds[UNIT],
                }
            )
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "data": "data",
            "mechanism": "mechanism",
            "applies": "applies",
            "paper": "paper, seconds",
            "ours": "here, seconds",
            "paper_ratio": "paper, ratio",
            "ratio": "here, ratio",
        },
        notes=(
            f"Time to find the scale of the noise, epsilon {EPSILON:g}: CPU seconds of this run on this machine, so "
            "they differ from run to run. ratio: to MQMApprox on the same data. paper: its Table 2, a 3 GHz desktop "
            "of 2012; for activity its cyclists (older women 0.006 and 1.2786 s, overweight women 0.0028 and 0.6299 "
            "s).",
            f"Synthetic: the mean over {len(tasks[SYNTHETIC])} chains of two states and {RECORDS} records, any start "
            "(paper: 6,561). Activity and electricity: the mean of "
            f"{runs} runs on the chains of song-table-1 (steps) and song-table-3, each on a fresh copy of the chain. "
            "applies: on how many of them there is an answer; where there is none, the time to see that.",
        ),
        drawing=Drawing(
            x="mechanism",
            y="seconds",
            by="data",
            lines={"paper": "paper", "ours": "here"},
            log_y=True,
        ),
    )


def _chains_of(grid: Sequence[float]) -> Iterator[MarkovChain]:
    for first in grid:
        for second in grid:
            yield MarkovChain(transition=np.array([[first, 1 - first], [1 - second, second]]), start="any")


def _mean_time(cases: Sequence[tuple[MarkovChain, Lengths]], mechanism: str) -> tuple[float, str]:
    """CPU seconds of a calibration, and on how many of the cases it applies."""
    _seconds(*cases[0], mechanism)  # whatever is imported late is imported now
    timed = [_seconds(chain, lengths, mechanism) for chain, lengths in cases]
    answered = sum(sigma is not None for _, sigma in timed)
    return statistics.fmean(seconds for seconds, _ in timed), f"{answered} of {len(timed)}"


def _seconds(chain: MarkovChain, lengths: Lengths, mechanism: str) -> tuple[float, float | None]:
    fresh = replace(chain)  # powers and searches are kept with a chain: a copy has none
    problem = histogram_of(fresh, lengths, EPSILON)
    begin = time.process_time()
    sigma = noise_multiplier(problem, mechanism)
    return time.process_time() - begin, sigma
