"""A plan for a series is the plan that its release will use."""

import pytest

import pufferdp
from pufferdp import MarkovChain, Series
from pufferdp.basics.errors import ParameterError

CHAIN = MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]], states=["rest", "active"], step="5min")
TIMES = [
    f"2024-01-{day:02} {hour:02}:{minute:02}" for day in (1, 2) for hour in range(24) for minute in range(0, 60, 5)
]
MOODS = ["rest", "rest", "active", "active"] * (len(TIMES) // 4)


def series(missing="refuse", gone=(), **more):
    kept = [n for n in range(len(TIMES)) if n not in gone]
    data = {
        "time": [TIMES[n] for n in kept],
        "mood": [MOODS[n] for n in kept],
        "who": ["ann" if TIMES[n] < "2024-01-02" else "bob" for n in kept],
    }
    return Series(data, "mood", order="time", missing=missing, **more)


@pytest.mark.parametrize(
    "read",
    [
        series(),
        series(by="who"),
        series(first="2024-01-02"),
        series(missing="keep", gone=(40, 41)),
    ],
    ids=["whole", "people", "part", "unobserved"],
)
@pytest.mark.parametrize("query", ["histogram", "count:active"])
def test_it_is_the_plan_of_the_release(read, query):
    plan = pufferdp.plan(CHAIN, query, epsilon=1, series=read)
    made = pufferdp.release(read, model=CHAIN, query=query, epsilon=1)
    assert plan.best.mechanism == made.certificate.mechanism.name
    assert plan.best.calibration.scale == made.certificate.noise.scale
    assert plan.problem.lengths == tuple(map(tuple, made.certificate.data.lengths))


def test_bins_of_the_series_go_to_the_model():
    numbers = Series([1.0, 5.0, 1.0, 7.0] * 9, bins=[0, 2, 8])
    model = MarkovChain(transition=[[0.5, 0.5], [0.4, 0.6]])
    assert pufferdp.plan(model, "histogram", epsilon=1, series=numbers).problem.records == 36


def test_a_length_beside_a_series_and_bare_data_are_refused():
    with pytest.raises(ParameterError, match="either series= or length="):
        pufferdp.plan(CHAIN, "histogram", epsilon=1, length=5, series=series())
    with pytest.raises(ParameterError, match="series is a list; it must be a Series"):
        pufferdp.plan(CHAIN, "histogram", epsilon=1, series=MOODS)
