"""Publications of several kinds on one data set: what all their outputs together leak, beside what the ledger says.

The distributions of the outputs are worked out here, from the noise that each certificate states, for every series of
states and every output; ledgers and curves have no part in it.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pufferdp
from pufferdp import Charge, Ledger, MarkovChain
from pufferdp.data.ranges import Range, Ranges

RECORDS = 4
SERIES = np.array(list(itertools.product((0, 1), repeat=RECORDS)))
DAY = 86_400 * 10**9
FIRST = 19_723 * DAY  # 2024-01-01
OUTSIDE = 0.4

Floats = NDArray[np.float64]


def answers_distribution(noise: dict[str, Any]) -> Floats:
    """Log of the probability of each noisy histogram, (outputs, series), up to a constant: it adds up to the records.

    Answers beyond the possible counts say no more than those next to them.
    """
    assert (noise["kind"], noise["balanced"]) == ("discrete-laplace", True)
    counts, noisy = SERIES.sum(axis=1), np.arange(-1, RECORDS + 2)
    return np.asarray(-2.0 * np.abs(noisy[:, None] - counts[None, :]) / noise["scale"])


def record_distribution(*matrices: Floats) -> Floats:
    """Log of the probability of what is said about one record, (outputs, states), by independent channels."""
    outputs = itertools.product(*(range(matrix.shape[1]) for matrix in matrices))
    return np.array([sum(np.log(m[:, o]) for m, o in zip(matrices, some, strict=True)) for some in outputs])


def all_outputs(answers: Floats, records: list[Floats]) -> Floats:
    """Log of the probability of all outputs together, (outputs, series)."""
    distribution = answers
    for t, record in enumerate(records):
        distribution = (distribution[:, None, :] + record[:, SERIES[:, t]][None]).reshape(-1, len(SERIES))
    return distribution


def leakage(model: MarkovChain, outputs: Floats, adversary: str) -> float:
    """The largest log ratio over all outputs, records and, for bdp, sets of other records that are known."""
    distribution = model.stationary[SERIES[:, 0]] * model.transition[SERIES[:, :-1], SERIES[:, 1:]].prod(axis=1)
    joint = np.exp(outputs) * distribution
    most = 0.0
    for t in range(RECORDS):
        others = [s for s in range(RECORDS) if s != t]
        for known in itertools.product((None, 0, 1), repeat=RECORDS - 1):
            if adversary == "pufferfish" and any(value is not None for value in known):
                continue
            fits = np.ones(len(SERIES), dtype=bool)
            for s, value in zip(others, known, strict=True):
                if value is not None:
                    fits &= SERIES[:, s] == value
            sides = [fits & (SERIES[:, t] == value) for value in (0, 1)]
            ratio = (joint[:, sides[0]].sum(axis=1) / distribution[sides[0]].sum()) / (
                joint[:, sides[1]].sum(axis=1) / distribution[sides[1]].sum()
            )
            most = max(most, float(np.abs(np.log(ratio)).max()))
    return most


def response(loss: float) -> Floats:
    """Randomised response with a DP loss: for two states, and for one noisy count of one record."""
    true = math.exp(loss) / (1 + math.exp(loss))
    return np.array([[true, 1 - true], [1 - true, true]])


STICKY, ALTERNATING = [[0.882, 0.118], [0.305, 0.695]], [[0.2, 0.8], [0.7, 0.3]]


@pytest.mark.parametrize(
    ("transition", "adversary"),
    [
        (STICKY, "bdp"),
        pytest.param(ALTERNATING, "pufferfish", marks=pytest.mark.slow),
    ],
)
def test_all_outputs_together_leak_no_more_than_the_ledger_says(
    transition: list[list[float]], adversary: str, tmp_path: Path
) -> None:
    """An answer, a table of days, a flipped series and an algorithm from outside on the last two days."""
    model = MarkovChain(transition=transition, states=["a", "b"])
    data = tmp_path / "d.csv"
    data.write_text("time,x\n" + "".join(f"2024-01-0{n + 1},{state}\n" for n, state in enumerate("abaa")))
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("series", model=model, adversary=adversary, budget=50.0)
        options: dict[str, Any] = {"model": model, "column": "x", "order": "time", "adversary": adversary}
        options |= {"ledger": ledger, "dataset": "series"}
        answer = pufferdp.release(data, query="histogram", epsilon=1.0, **options).certificate.to_dict()
        table = pufferdp.release(data, query="histogram", per="day", epsilon=0.8, **options).certificate.to_dict()
        flipped = pufferdp.flip(data, epsilon=0.7, **options).certificate.to_dict()
        without = ledger.dataset("series").leakage
        last = Ranges(unit="time", order="time", parts=(Range(first=FIRST + 2 * DAY, last=FIRST + 3 * DAY),))
        ledger.charge("series", Charge(kind="dp", dp_loss=OUTSIDE, longest=2, ranges=last))
        says = ledger.dataset("series")
        assert ledger.verify().valid
    (question,) = table["questions"]
    assert question["noise"]["balanced"]
    # Of one record a noisy count is 1 or more, or 0 or less: that is all that it says.
    day, channel = response(2 / question["noise"]["scale"]), np.array(flipped["channel"]["matrix"])
    early, late = record_distribution(day, channel), record_distribution(day, channel, response(OUTSIDE))
    outputs = all_outputs(answers_distribution(answer["noise"]), [early, early, late, late])
    leaks = leakage(model, outputs, adversary)
    assert leaks <= says.leakage * (1 + 1e-9)
    assert leaks > 0.5 * says.leakage
    if transition is STICKY:  # its records say the same: a ledger that forgot the last charge would say too little
        assert leaks > 1.2 * without
    spent = [2 / answer["noise"]["scale"], 2 / question["noise"]["scale"], flipped["channel"]["dp_loss"], OUTSIDE]
    assert says.spent_dp == pytest.approx(sum(spent), rel=1e-9)
