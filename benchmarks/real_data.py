"""Real series: fit on the first half, plan a daily count, and attack releases of the second half with other families.

``python -m benchmarks real_data``, with PUFFERDP_DATA naming the folder of the data. The adversary knows every record
outside a window around the target and uses a chain of higher order, or more hidden states than were fitted. Both are
taught on the first half, like the model.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pandas as pd

import pufferdp
from benchmarks.timing import Report, sized
from pufferdp.models.hidden_states import HiddenStates
from pufferdp.models.simulate import seeded
from pufferdp.publish.fits.effective import hidden_chain
from pufferdp.publish.fits.expectation import Observed, fit_hidden
from pufferdp.publish.fits.leakage_estimate import HiddenChain, _changes, _known
from pufferdp.publish.fits.lower_bound import Records
from pufferdp.publish.model_checks import ModelChecks

ALLOWED = 1.35
"""Of 1,000 releases 999 may change the odds by e to this power."""


def power(folder: Path) -> tuple[pd.DataFrame, dict[str, object], int]:
    """Household power by minute."""
    table = pd.read_csv(folder / "power" / "household_minute.csv.gz", parse_dates=["datetime"]).dropna()
    table = table.rename(columns={"datetime": "time", "global_active_power_kw": "value"})
    return table, {"bins": [0, 0.3, 0.6, 1.2, 2.4, 20], "missing": "keep"}, 1440


def activity(folder: Path) -> tuple[pd.DataFrame, dict[str, object], int]:
    """Steps in five minutes; days without a record interrupt the series."""
    table = pd.read_csv(folder / "activity" / "activity.csv").dropna()
    minutes = table["interval"] // 100 * 60 + table["interval"] % 100
    when = pd.to_datetime(table["date"]) + pd.to_timedelta(minutes, unit="min")
    made = pd.DataFrame({"time": when, "value": table["steps"]})
    return made, {"bins": [0, 1, 50, 200, 2000], "restart": "10min"}, 288


def sleep(folder: Path) -> tuple[pd.DataFrame, dict[str, object], int]:
    """Sleep stages of nights, every half minute."""
    rows = [
        (night, epoch, stage.replace("4", "3"))
        for night, stages in enumerate(pd.read_csv(folder / "sleep" / "hypnograms.csv")["stages"])
        for epoch, stage in enumerate(stages)
        if stage != "?"
    ]
    table = pd.DataFrame(rows, columns=["who", "time", "value"])
    return table, {"by": "who", "independent": True, "missing": "keep"}, 1000


def heart(folder: Path) -> tuple[pd.DataFrame, dict[str, object], int]:
    """A heart rate beat by beat."""
    beats = pd.read_csv(folder / "heart" / "N10.txt", sep=r"\s+", header=None, names=["t", "value"]).dropna()
    return pd.DataFrame({"time": np.arange(len(beats)), "value": beats["value"]}), {"bins": [0, 70, 80, 90, 300]}, 1000


Halves = tuple[pd.DataFrame, pd.DataFrame]


def halves(table: pd.DataFrame) -> Halves:
    """The first and the second half: of the people, or of the records."""
    if "who" in table:
        early = table["who"] < (int(table["who"].max()) + 1) // 2
        return table[early], table[~early]
    half = len(table) // 2
    return table.iloc[:half], table.iloc[half:]


def series_of(table: pd.DataFrame, model: pufferdp.MarkovChain) -> list[np.ndarray]:
    """The records as numbers of states, in runs without an interruption."""
    if model.bins is None:
        codes = table["value"].map({name: n for n, name in enumerate(model.labels)}).to_numpy(dtype=float)
    else:
        codes = np.searchsorted(model.bins, table["value"], side="right") - 1.0
    step = table["time"].diff()
    breaks = (step != step.mode().iloc[0]).to_numpy() | ~np.isfinite(codes)
    if "who" in table:
        breaks |= (table["who"].diff() != 0).to_numpy()
    runs = np.split(codes, np.flatnonzero(breaks)[1:])
    return [run.astype(np.int64) for run in runs if len(run) and np.isfinite(run).all()]


def higher_order(series: list[np.ndarray], states: int, order: int) -> HiddenChain:
    """What follows so many records, counted; half a record is added to each."""
    counts = np.full((states,) * (order + 1), 0.5)
    for row in series:
        np.add.at(counts, tuple(row[n : len(row) - order + n] for n in range(order + 1)), 1)
    made = hidden_chain(HiddenStates.of_order(counts / counts.sum(axis=-1, keepdims=True)))
    assert made is not None
    return made


def shifts(chain: HiddenChain, series: list[np.ndarray], state: int, scale: float, targets: int) -> np.ndarray:
    """How much releases change the odds of targets, (3, targets), for three widths of the window."""
    codes = np.concatenate(series)
    joined = np.concatenate([np.arange(len(row)) > 0 for row in series])
    records = Records(codes=codes, joined=joined, blocks=np.zeros_like(codes))
    slots, out = np.zeros_like(codes), []
    for half in (7, 30, 100):
        drawn = seeded(half).choice(records.windows(half), targets)
        parts = [
            _changes(chain, slots, at, half, *_known(chain, records, slots, at, half), state, scale)
            for at in np.array_split(drawn, max(1, targets // 500))
        ]
        out.append(np.concatenate(parts))
    return np.array(out)


def attack(report: Report, name: str, model: pufferdp.MarkovChain, parts: Halves, day: int) -> None:
    """Plan a daily count under a model, and let adversaries with other families see it for the second half."""
    taught, attacked = (series_of(half, model) for half in parts)
    state = int(np.argmax(np.bincount(np.concatenate(taught), minlength=model.size)))
    planned = pufferdp.plan(model, f"count:{model.labels[state]}", epsilon=1, length=day).best
    scale = planned.calibration.scale
    kinds = len(getattr(model, "of", range(model.size))) // model.size
    other = fit_hidden(Observed(series=taught, values=model.size), kinds + 1, steps=sized(60, 3))
    other_model = HiddenStates(transition=other.kernels[0], of=tuple(int(x) for x in other.of))
    order = 3 if model.size < 5 else 2  # an attack with 125 states takes minutes
    chains = {
        f"order {order}": higher_order(taught, model.size, order),
        f"{kinds + 1} a value": hidden_chain(other_model),
    }
    effective = ModelChecks.of(model).effective
    said = "not checked" if effective is None else effective.sentence(1.0)
    print(f"{name}: {model!r}\n  {planned.mechanism}, noise {scale:.4g} (a day: {day}); {said}")
    for adversary, chain in chains.items():
        assert chain is not None
        found = shifts(chain, attacked, state, scale, sized(2000, 50))
        report.row(f"{name}, {adversary}: exponent of 99.9 %", float(np.quantile(found, 0.999, axis=1).max()), "")
        report.row(f"{name}, {adversary}: share above e^{ALLOWED}", float((found > ALLOWED).mean(axis=1).max()), "")


def run(report: Report) -> None:
    """The first-order chain and the family that fit chooses, their noise, and what adversaries reach who use others."""
    report.title("real data: models of the first half, daily counts of the second half, attacks with other families")
    if "PUFFERDP_DATA" not in os.environ:
        print("left out: PUFFERDP_DATA does not name the folder with the data")
        return
    folder = Path(os.environ["PUFFERDP_DATA"])
    for load in sized((activity, heart, sleep, power), (heart,)):
        table, options, day = load(folder)
        if sized(0, 1):
            table = table.iloc[:1500]
        both = halves(table)
        for family in ("chain", "auto"):
            began = time.perf_counter()
            model = pufferdp.fit(both[0], column="value", order="time", family=family, **options).model
            report.row(f"{load.__name__}, {family}: fit", time.perf_counter() - began, "s", None)
            attack(report, f"{load.__name__}, {family}", model, both, day)
