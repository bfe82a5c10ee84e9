"""How often the class of ``fit --confidence`` contains the truth, by simulation.

Each case has 2,000 series. If the class holds with 95 %, more failures than allowed come once in a million times, and
the seeds are fixed. States that were never left count: a class that leaves them out cannot contain the truth.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from pufferdp import DataError, fit, plan
from pufferdp.data.layout import Coding, Counts
from pufferdp.publish.fits.publication import Counted, Family, FitPublication
from pufferdp.publish.pipeline import Account, Charged
from pufferdp.publish.reading import Reading

RUNS, CONFIDENCE = 2_000, 0.95
ALLOWED = int(binom.isf(1e-6, RUNS, 1 - CONFIDENCE))
SLOW_MIXING = np.array([[0.95, 0.05, 0.0], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]])
RARE = np.array([[0.97, 0.02, 0.01], [0.9, 0.1, 0.0], [0.6, 0.2, 0.2]])
STICKY = np.array([[0.99, 0.01], [0.02, 0.98]])


def walk(rng: np.random.Generator, table: NDArray[np.float64], length: int) -> NDArray[np.int64]:
    cumulated, state, path = np.cumsum(table, axis=1), int(rng.integers(len(table))), []
    for draw in rng.random(length):
        path.append(state)
        state = min(int(np.searchsorted(cumulated[state], draw, side="right")), len(table) - 1)
    return np.array(path)


def fitted(path: NDArray[np.int64], size: int, named: bool) -> Any:
    """The class that ``fit`` makes of these counts; named states are there whether or not they were seen."""
    known = range(size) if named else sorted({*path.tolist()})
    codes = np.array([known.index(state) for state in path.tolist()])
    moves = np.zeros((len(known), len(known)), dtype=np.int64)
    np.add.at(moves, (codes[:-1], codes[1:]), 1)
    histogram = tuple(np.bincount(codes, minlength=len(known)).tolist())
    labels = tuple(map(str, known))
    counts = Counts(records=len(path), histogram=histogram, lengths=((len(path), 1),), missing=0, restarts=0)
    options: dict[str, Any] = dict.fromkeys(("bins", "prior", "dp_epsilon"))
    publication = FitPublication(
        data=None,
        account=Account(),
        reading=Reading(column="s"),
        confidence=CONFIDENCE,
        start="stationary",
        states=labels if named else None,
        family=Family(name="chain"),
        **options,
    )
    exact = Counted(counts=counts, coding=Coding(labels=labels), moves=moves)
    return publication.draw(publication.problem(exact), 0.0, exact, Charged()).model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "length", "named"),
    [
        pytest.param(SLOW_MIXING, 8, True, id="short series of named states"),
        pytest.param(RARE, 60, True, id="rare states that are named"),
        pytest.param(RARE, 200, False, id="rare states that are found"),
        pytest.param(STICKY, 5, True, id="two sticky states"),
    ],
)
def test_the_class_holds_the_truth_as_often_as_it_says(table: NDArray[np.float64], length: int, named: bool) -> None:
    rng, failures = np.random.default_rng(22), 0
    for _ in range(RUNS):
        path = walk(rng, table, length)
        model = fitted(path, len(table), named)
        seen = sorted({*path.tolist()})
        if not named and len(seen) < len(table):
            continue  # nobody can know of a state that was neither named nor seen; the fit is about the others
        assert model.labels == tuple(map(str, range(len(table))))
        failures += not bool(((model.low <= table) & (table <= model.high)).all())
    assert failures <= ALLOWED


def test_named_states_that_were_never_left_have_free_rows() -> None:
    frame = pd.DataFrame({"s": ["a", "b", "a", "a", "b", "a", "c"]})
    found = fit(frame, column="s", states=("a", "b", "c", "d"), confidence=0.95)
    assert found.model.labels == ("a", "b", "c", "d")
    assert found.free_rows == ("c", "d")
    assert (found.left_out, found.unvisited) == ((), ())
    assert found.model.low[2:].tolist() == [[0.0] * 4] * 2
    assert found.model.high[2:].tolist() == [[1.0] * 4] * 2
    assert "Never left: c, d." in str(found)
    # Such a class has a plan: whatever applies says how much noise is needed, and the rest says why not.
    assert plan(found.model, "histogram", epsilon=1.0, length=7).best is not None
    assert fit(frame, column="s", confidence=0.95).free_rows == ("c",)
    with pytest.raises(DataError, match="at least one move"):
        fit(pd.DataFrame({"s": ["a"]}), column="s", states=("a", "b"), confidence=0.95)
