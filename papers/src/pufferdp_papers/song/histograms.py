"""Song et al. 2017, Tables 1 and 3: errors of relative-frequency histograms over real series, by mechanism."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pufferdp.data.layout import ROWS, Layout
from pufferdp.data.series import open_series
from pufferdp.models.base import Lengths
from pufferdp.models.chain import MarkovChain, chain_of
from pufferdp.publish.fits.publication import fit
from pufferdp.publish.reading import coding_of
from pufferdp_papers.base import Drawing, ExperimentResult, Setting
from pufferdp_papers.flows import POWER, SLEEP
from pufferdp_papers.flows.data import sleepers
from pufferdp_papers.song.published import COMPARED, histogram_of, laplace_error, noise_multiplier
from pufferdp_papers.thesis import ACTIVITY

STEP_BINS: Final = "0,1,50,250,100000"
"""Steps in five minutes: none, below 10 a minute, below 50, more. Four classes, as many as the paper's activities."""
POWER_BINS: Final = "width:0.2:0:10.2"
"""51 bins of 200 W, as in the paper."""
MINUTES: Final = 1_000_000
"""About as many as the paper has."""
EPSILONS: Final = (0.2, 1.0, 5.0)

AGGREGATE, INDIVIDUAL = "aggregate", "individual"
TABLE_1: Final[Mapping[tuple[str, str], tuple[float, float, float]]] = {
    (AGGREGATE, "DP"): (0.2918, 0.8746, 0.4763),
    (AGGREGATE, "GroupDP"): (0.0834, 0.1138, 0.0458),
    (INDIVIDUAL, "GroupDP"): (2.3157, 1.7860, 1.1492),
    (AGGREGATE, "MQMApprox"): (0.0107, 0.0156, 0.0048),
    (INDIVIDUAL, "MQMApprox"): (0.6319, 0.2790, 0.1967),
    (AGGREGATE, "MQMExact"): (0.0074, 0.0098, 0.0033),
    (INDIVIDUAL, "MQMExact"): (0.4077, 0.1742, 0.1316),
}
"""As printed: cyclists, older women, overweight women. GK16 does not apply."""
TABLE_3: Final[Mapping[tuple[float, str], float]] = {
    (0.2, "GroupDP"): 516.1555,
    (1.0, "GroupDP"): 102.8868,
    (5.0, "GroupDP"): 19.8712,
    (0.2, "MQMApprox"): 0.3369,
    (1.0, "MQMApprox"): 0.0614,
    (5.0, "MQMApprox"): 0.0113,
    (0.2, "MQMExact"): 0.1298,
    (1.0, "MQMExact"): 0.0188,
    (5.0, "MQMExact"): 0.0022,
}
"""As printed. GK16 does not apply."""


def steps(path: Path) -> tuple[MarkovChain, Lengths]:
    """One person's steps in four classes; a missing value ends a chain."""
    return _fitted(path, Layout(column="steps", order=ROWS, missing="keep"), STEP_BINS)


def household(path: Path) -> tuple[MarkovChain, Lengths]:
    """A household's power in bins of 200 W."""
    return _fitted(path, Layout(column="global_active_power_kw", order="datetime", missing="keep"), POWER_BINS)


def _fitted(path: Path, layout: Layout, bins: str) -> tuple[MarkovChain, Lengths]:
    """The chain of the data itself with its stationary start, as the paper has it, and the lengths of the series."""
    order = ROWS if layout.rows_in_order else layout.order
    column, missing = layout.column, layout.missing
    model = fit(path, column=column, order=order, missing=missing, bins=bins, family="chain", checks=False).model
    chain = chain_of(model)
    assert chain is not None
    return chain, open_series(path, layout).counts(coding_of(chain), pieces=True).lengths


def table_1(setting: Setting, *, epsilon: float = 1.0) -> ExperimentResult:
    """Histograms of a person and of groups of people."""
    setting.progress("reading steps and sleep stages")
    walker, days = steps(setting.file(ACTIVITY))
    stages, nights, people = sleepers(setting.file(SLEEP))
    rows: list[dict[str, float | str | None]] = []
    for task in (AGGREGATE, INDIVIDUAL):
        for name in (*(("DP",) if task == AGGREGATE else ()), *COMPARED):
            setting.progress(f"computing errors of {name}, {task}")
            walked = expected_error(walker, [days], epsilon, COMPARED[name]) if task == INDIVIDUAL else None
            if name == "DP":
                slept: float | None = whole_person_error(stages, people, epsilon)
            else:
                slept = expected_error(stages, [nights] if task == AGGREGATE else people, epsilon, COMPARED[name])
            printed = TABLE_1.get((task, name), (None, None, None))
            rows.append(
                {
                    "task": task,
                    "mechanism": name,
                    **dict(zip(("paper", "older", "overweight"), printed, strict=True)),
                    "steps": walked,
                    "ours": slept,
                }
            )
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "task": "task",
            "mechanism": "mechanism",
            "paper": "paper: cyclists",
            "older": "older women",
            "overweight": "overweight",
            "steps": "here: steps",
            "ours": "here: sleepers",
        },
        notes=(
            f"L1 error of a relative-frequency histogram, epsilon {epsilon:g}, for an adversary who knows no record. "
            "paper: its Table 1, averages over 20 trials. here: expected errors, 2 * bins * sigma/T, of the published "
            "mechanisms and of the tight curve, with the same independent Laplace noise in every bin.",
            "The paper's data is not available, so these are other people: its 40 cyclists, 16 older and 36 overweight "
            "women have four activities every 12 seconds. steps: one person, "
            f"{_records(days):,} records of five minutes, in {walker.size} classes of steps ({STEP_BINS}). sleepers: "
            f"{len(people)} people, {_records(nights):,} epochs of 30 seconds, in {stages.size} stages. Each has one "
            "chain, fitted to all its records, which starts in its stationary distribution.",
            "aggregate: one histogram of a group. individual: one of each person, errors averaged. DP hides everything "
            "about a person, so its noise is for as many records as one of them has (as we read the paper). GK16 does "
            "not apply, here or in the paper. MQMExact looks at all quilts here, and at those up to a length in "
            "the paper.",
        ),
        drawing=Drawing(
            x="mechanism",
            y="L1 error of a histogram",
            by="task",
            lines={
                "paper": "paper: cyclists",
                "older": "paper: older women",
                "overweight": "paper: overweight women",
                "steps": "here: steps",
                "ours": "here: sleepers",
            },
            log_y=True,
        ),
    )


def table_3(setting: Setting, *, epsilons: Sequence[float] = EPSILONS) -> ExperimentResult:
    """Histograms of a household's power."""
    setting.progress("reading power")
    chain, lengths = household(setting.file(POWER))
    rows: list[dict[str, float | str | None]] = []
    for epsilon in epsilons:
        for name, mechanism in COMPARED.items():
            setting.progress(f"computing errors of {name}, epsilon {epsilon:g}")
            rows.append(
                {
                    "epsilon": epsilon,
                    "mechanism": name,
                    "paper": TABLE_3.get((epsilon, name)),
                    "ours": expected_error(chain, [((MINUTES, 1),)], epsilon, mechanism),
                    "here": expected_error(chain, [lengths], epsilon, mechanism),
                }
            )
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "epsilon": "epsilon",
            "mechanism": "mechanism",
            "paper": "paper, about 10^6 minutes",
            "ours": "here, for 10^6 minutes",
            "here": f"here, {_records(lengths):,} minutes",
        },
        notes=(
            "L1 error of a relative-frequency histogram of power in bins of 200 W, for an adversary who knows no "
            "record. paper: its Table 3, averages over 20 trials. here: expected errors, 2 * bins * sigma/T.",
            f"It is another household, so the paper's numbers cannot be met: {chain.size} of 51 bins occur here, and "
            f"{_records(lengths):,} minutes lie in {_pieces(lengths)} series, cut at missing values. An error falls "
            "as 1/T, so the chain fitted here is also put to a series of the paper's length: another chain, the same "
            "task. GroupDP errs by 2 * bins/epsilon there, which is what the paper prints for 51 bins; its text says "
            "half of that.",
            "GK16 does not apply: there its spectral norm is too large, here a minute can rule out what the next one "
            "is.",
        ),
        drawing=Drawing(
            x="mechanism",
            y="L1 error of a histogram",
            by="epsilon",
            lines={"paper": "paper", "ours": "here, as long a series", "here": "here, all data"},
            log_y=True,
        ),
    )


def expected_error(chain: MarkovChain, groups: Sequence[Lengths], epsilon: float, mechanism: str) -> float | None:
    """The error of a histogram of each group of series, averaged; None where the mechanism does not apply."""
    errors = []
    for lengths in groups:
        problem = histogram_of(chain, lengths, epsilon)
        error = laplace_error(problem, noise_multiplier(problem, mechanism))
        if error is None:
            return None
        errors.append(error)
    return statistics.fmean(errors)


def whole_person_error(chain: MarkovChain, people: Sequence[Lengths], epsilon: float) -> float:
    """DP for a whole person: all their records may change at once, and they are so many of all."""
    return 2 * chain.size * max(map(_records, people)) / sum(map(_records, people)) / epsilon


def _records(lengths: Lengths) -> int:
    return sum(length * count for length, count in lengths)


def _pieces(lengths: Lengths) -> int:
    return sum(count for _, count in lengths)
