"""The tight curve: an inverse at epsilon 1, through the registry of curves, and series whose losses change.

Seconds are of the processor, so that other work on the machine hardly counts. Beside each goal stands the time over
that of a reference in the same run: a product of two tables of 400 × 400.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import pufferdp
from benchmarks.quilts import falling, uniform
from benchmarks.timing import Report, processor_seconds, sized
from pufferdp.bounds.curves import curve
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.odds import OddsCurve
from pufferdp.bounds.tight.series import TOLERANCE, series_leakage
from pufferdp.models.chain import MarkovChain

ACTIVITY = np.array([[0.882, 0.118], [0.305, 0.695]])
RECORDS = sized(10**6, 1000)
WHO = ("pufferfish", "bdp")


def reference() -> float:
    """A product of two tables, in the same unit."""
    table = np.random.default_rng(0).random((400, 400))
    return processor_seconds(lambda: table @ table, 20)


def some_chain(states: int) -> np.ndarray:
    """A chain that stays more often than not."""
    rows = np.random.default_rng(states).dirichlet(np.ones(states), size=states)
    return 0.6 * np.eye(states) + 0.4 * rows


def sticky(states: int, stay: float) -> np.ndarray:
    """A chain that hardly moves; where to, is random."""
    rows = np.random.default_rng(states).dirichlet(np.ones(states), size=states)
    return stay * np.eye(states) + (1 - stay) * rows


def day(slots: int, states: int) -> np.ndarray:
    """Kernels that change little by little from slot to slot, and come back to the first."""
    morning, evening = some_chain(states), sticky(states, 0.8)
    share = (1 + np.cos(2 * np.pi * np.arange(slots) / slots))[:, None, None] / 2
    return np.asarray(share * morning + (1 - share) * evening)


def fifty_one_states() -> dict[str, np.ndarray]:
    """Five unlike chains; ``power_chain`` is the sixth."""
    k, generator = 51, np.random.default_rng(5)
    near = np.exp(-np.abs(np.subtract.outer(np.arange(k), np.arange(k))) / 2)
    fall = np.tile(1 / np.arange(1, k + 1), (k, 1))
    sparse = generator.random((k, k)) * (generator.random((k, k)) < 0.15)
    found = {
        "banded": near,
        "uniform": generator.random((k, k)),
        "falling": fall / fall.sum(axis=1, keepdims=True) + np.eye(k),
        "sticky": fall / fall.sum(axis=1, keepdims=True) + 19 * np.eye(k),
        "sparse": sparse + 0.3 * np.eye(k) + 0.2 * np.roll(np.eye(k), 1, axis=1),
    }
    return {name: table / table.sum(axis=1, keepdims=True) for name, table in found.items()}


def power_chain(folder: Path) -> np.ndarray:
    """The chain of docs/guide/power.md: bins of 200 W, of which five are never visited."""
    path, options = folder / "power" / "household_minute.csv.gz", {"order": "datetime", "missing": "keep"}
    fitted = pufferdp.fit(
        path, column="global_active_power_kw", bins="width:0.2:0:10.2", family="chain", start="stationary", **options
    )
    return np.asarray(fitted.model.transition)


def inverse(table: np.ndarray, adversary: str, records: int = RECORDS) -> float:
    """A new curve each time: nothing is remembered."""
    return curve("tight", MarkovChain(transition=table), records, adversary).inverse(1.0)


def run(report: Report) -> None:
    """All of it."""
    inverse(some_chain(3), "bdp")  # warm: imports, BLAS threads
    unit = reference()

    def row(what: str, call: Callable[[], object], goal: float | None, repeats: int = 5) -> None:
        took = processor_seconds(call, repeats)
        report.row(what, took, "s", goal)
        report.row("  over the reference", took / unit, "times")

    report.title(f"tight curve, inverse at epsilon 1, n = {RECORDS:,}: processor seconds, a new chain each time")
    # Beside the goals of a plan in all: what eight solvers took that the recursion replaces (bdp, as measured then).
    chains = [("2 states (activity; before .002)", ACTIVITY, 0.6, 5)]
    chains += [(f"{k} states (before .02-.04)", some_chain(k), 0.6, 5) for k in sized(range(3, 9), (3,))]
    chains += [("20 states (before .27)", some_chain(20), 1.6, 2)]
    chains += [("51 states, stay .95, rest uniform (before .2)", uniform(0.95), 5.6, 1)]
    chains += [("51 states, stay .95, rest falling (before 5.6)", falling(0.95), 5.6, 1)]
    chains += [(f"51 states, {name}", table, 5.6, 1) for name, table in sized(fifty_one_states(), {}).items()]
    if "PUFFERDP_DATA" in os.environ:
        chains += [("46 states, fitted on the power data", power_chain(Path(os.environ["PUFFERDP_DATA"])), 5.6, 1)]
    for name, table, goal, repeats in chains:
        for who in WHO:
            row(f"{name}, {who}", partial(inverse, table, who), goal, repeats)

    report.title("hard cases, inverse at epsilon 1: chains that hardly move, processor seconds")
    for states, stay, goal in sized(
        ((2, 0.99, 0.6), (3, 0.999, 0.6), (5, 0.999, 1.6), (8, 0.999, 3.6), (3, 0.99999, 2.6), (6, 0.97, 2.0)),
        ((2, 0.99, 0.6),),
    ):
        for who in WHO:
            # Six states: as of a career by month, where years go by in one of them. Before: .4, 1.4, 4.4 s and 1.2 s.
            row(f"{states} states, stay {stay:g}, {who}", partial(inverse, sticky(states, stay), who), goal, 1)
    for records in sized((72, 200), (12,)):
        row(f"6 states, stay 0.97, n = {records}, bdp", partial(inverse, sticky(6, 0.97), "bdp", records), 2.0, 1)

    report.title("clocks of a day, inverse at epsilon 1, n = 10^5: processor seconds")
    for slots, states, goal in sized(((288, 4, 3.0), (24, 51, 30.0)), ((24, 3, None),)):
        for who in WHO:
            clock = partial(TightCurve.of_clock, day(slots, states), length=100_000, adversary=who)
            row(f"{slots} slots, {states} states, {who}", lambda clock=clock: clock().inverse(1.0), goal, 1)

    report.title("clocks of an hour each over a day of minutes, inverse at epsilon 1, n = 10^5: processor seconds")
    for states, goal in sized(((4, 3.0), (47, 30.0)), ((3, None),)):
        minutes = np.repeat(day(24, states), sized(60, 2), axis=0)
        for who in WHO:
            clock = partial(TightCurve.of_clock, minutes, length=100_000, adversary=who)
            row(
                f"24 tables over 1,440 steps, {states} states, {who}", lambda clock=clock: clock().inverse(1.0), goal, 1
            )

    report.title("cost must not grow with n: n = 10^6 over n = 10^4")
    for name, table in (("2 states", ACTIVITY), ("4 states", some_chain(4)), ("51 states, uniform", uniform(0.95))):
        for who in WHO:
            long, short = (processor_seconds(partial(inverse, table, who, n), 5) for n in (10**6, 10**4))
            report.row(f"{name}, {who}", long / short, "times", 1.5)

    report.title("how much is left open: upper over lower end of the bracket at the loss found, less 1")
    for name, table, _, _ in chains:
        for who in WHO:
            found = TightCurve(table, length=RECORDS, adversary=who)
            worst = found.leakage(found.inverse(1.0))
            report.row(f"{name}, {who}", worst.upper / worst.lower - 1, "", TOLERANCE)

    report.title("10^5 losses that change from record to record, the worst record: processor seconds")
    losses = np.random.default_rng(1).uniform(0.0, 0.5, size=sized(100_000, 200))
    for name, table, goal in (("2 states (before .4)", ACTIVITY, 20.0), ("4 states (before 3.2)", some_chain(4), 20.0)):
        for who in WHO:
            chain = inputs.chain(table, "stationary")
            row(f"{name}, {who}", partial(series_leakage, chain, losses, who, each=False), goal, 1)

    report.title("the closed form, inverse at epsilon 1: processor seconds")
    for k in (2, 4, 16):
        row(f"{k} states", lambda k=k: OddsCurve.of_chains([some_chain(k)], length=RECORDS).inverse(1.0), None, 3)
