"""One hour of real data hidden, by every method: sleep stages of a night, steps of a day."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.redaction.design import RedactionProblem
from pufferdp.models.chain import MarkovChain, chain_of
from pufferdp.publish.fits.publication import fit
from pufferdp.publish.redaction.kind import REDACTIONS
from pufferdp_papers.base import Drawing, ExperimentResult, Setting
from pufferdp_papers.redaction import SLEEP
from pufferdp_papers.redaction.relaxed import relaxed
from pufferdp_papers.thesis import ACTIVITY

EPSILONS: Final = (0.5, 1.0, 2.0)
STAGES: Final = ("W", "1", "2", "3", "R")
"""Stages 3 and 4 are one, as sleep medicine has it today."""
HOUR, NIGHT = 120, 960
"""Epochs of 30 seconds in an hour, and in eight hours."""
DAY: Final = 288


def sleep(setting: Setting, *, epsilons: Sequence[float] = EPSILONS, hour: int = HOUR) -> ExperimentResult:
    """The fourth hour of an eight-hour night is private."""
    setting.progress("reading the hypnograms")
    chain, nights = sleep_chain(setting)
    first = 3 * HOUR + 1
    rows = _hidden(setting, chain, NIGHT, range(first, first + hour), epsilons)
    return _result(
        rows,
        f"One hour of eight, {hour} epochs of 30 seconds, of which each is hidden; five stages, chain from {nights} "
        "nights.",
    )


def activity(setting: Setting, *, epsilons: Sequence[float] = EPSILONS) -> ExperimentResult:
    """From noon to one o'clock is private."""
    setting.progress("reading the activity data")
    chain = chain_of(
        fit(
            setting.file(ACTIVITY),
            column="steps",
            order="rows",
            bins="0,1,100000",
            missing="keep",
            family="chain",
            checks=False,
        ).model
    )
    assert chain is not None
    rows = _hidden(setting, chain, DAY, range(145, 157), epsilons)
    return _result(rows, "One hour of a day, 12 steps of five minutes, of which each is hidden; active or not.")


def sleep_chain(setting: Setting) -> tuple[MarkovChain, int]:
    """How often a stage follows another, over all nights; an epoch without a stage breaks the chain."""
    places = {stage: n for n, stage in enumerate(STAGES)}
    counts, nights = np.zeros((len(STAGES), len(STAGES))), 0
    with setting.file(SLEEP).open(encoding="utf-8", newline="") as lines:
        for night in csv.DictReader(lines):
            nights += 1
            stages = [places.get("3" if s == "4" else s) for s in night["stages"]]
            for a, b in itertools.pairwise(stages):
                if a is not None and b is not None:
                    counts[a, b] += 1
    return MarkovChain(transition=counts / counts.sum(axis=1, keepdims=True), states=STAGES), nights


def _hidden(
    setting: Setting, chain: MarkovChain, length: int, private: range, epsilons: Sequence[float]
) -> list[dict[str, float | str | None]]:
    rows: list[dict[str, float | str | None]] = []
    for epsilon in epsilons:
        hiding = RedactionProblem(
            chain=chain, length=length, private=tuple(private), epsilon=epsilon, adversary=Adversary.PUFFERFISH
        )
        designs = {}
        for redaction in REDACTIONS:
            setting.progress(f"designing {redaction.name} for epsilon {epsilon:g}")
            designs[redaction.name] = redaction.design(hiding)
        rows.append(
            {
                "epsilon": epsilon,
                "window": designs["window"].utility,
                "relaxed": relaxed(hiding).utility,
                "paper": designs["3r-numerical"].utility,
                "ours": designs["3r-optimal"].utility,
                "leakage": designs["3r-optimal"].leakage,
                "most": 1 - len(private) / length,
            }
        )
    return rows


def _result(rows: list[dict[str, float | str | None]], what: str) -> ExperimentResult:
    return ExperimentResult(
        rows=tuple(rows),
        columns={
            "epsilon": "epsilon",
            "window": "window",
            "relaxed": "3R relaxed",
            "paper": "paper: 3R numerical",
            "ours": "ours",
            "leakage": "our leakage",
            "most": "all but the hour",
        },
        notes=(
            f"{what} Expected share of the records released, for an adversary who knows no record; the last column is "
            "the share outside the hour.",
            "paper: its mechanism, with our extension to several private records and several states, on data that the "
            "paper does not have.",
        ),
        drawing=Drawing(
            x="epsilon",
            y="share of records released",
            lines={"window": "window", "relaxed": "3R, relaxed", "paper": "3R, one probability", "ours": "ours"},
        ),
    )
