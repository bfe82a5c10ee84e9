"""Plans: all mechanisms, ranked, with reasons; as a table, as JSON, as a chart."""

from __future__ import annotations

import json

import pytest

from pufferdp import BinaryInterval, MarkovChain, ParameterError, plan
from pufferdp.publish.answers.mechanisms import MECHANISMS

CHAIN = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]], start=[0.9, 0.1])
KEYS = {
    "mechanism",
    "applies",
    "reason",
    "scale",
    "sigma",
    "lipschitz",
    "noise",
    "expected_l1_error",
    "accuracy",
}


@pytest.mark.parametrize("adversary", ["bdp", "pufferfish", "dp"])
@pytest.mark.parametrize("model", [CHAIN, BinaryInterval(low=0.3, high=0.7)], ids=["chain", "interval"])
def test_ranked_by_error_with_reasons(model, adversary):
    made = plan(model, "histogram", epsilon=1, length=50, adversary=adversary)
    # To six digits: mechanisms that differ by their searches alone keep the order of the list.
    errors = [float(f"{c.calibration.distribution.expected_l1_error:.6g}") for c in made.candidates if c.applies]
    assert errors == sorted(errors)
    assert made.best is made.candidates[0]
    assert {c.mechanism for c in made.candidates} == {m.name for m in MECHANISMS if m.tried(made.problem)}
    for c in made.candidates:
        assert c.applies == (c.reason is None)
        assert set(c.to_dict()) >= KEYS


def test_json_has_no_surprises():
    made = plan(CHAIN, "count:1", epsilon=1, lengths=[100, 40, 40], adversary="pufferfish").to_dict()
    again = json.loads(json.dumps(made, allow_nan=False))
    assert again["best"] == "exact-laplace"
    assert again["records"] == 180
    far = next(c for c in again["candidates"] if c["mechanism"] == "wasserstein")["transport"]["distance"]
    assert 1 < far < 10
    quilt = next(c for c in again["candidates"] if c["mechanism"] == "quilt-exact")["quilt"]
    assert quilt["node"] == 6
    assert quilt["ends"] == [10]
    per_record = next(c for c in again["candidates"] if c["mechanism"] == "per-record-dp")
    assert not per_record["applies"]
    assert per_record["scale"] == 1.0  # shown as what it is


def test_prints_as_a_table_and_as_a_chart():
    made = plan(CHAIN, "histogram", epsilon=1, length=100)
    short, table, chart = str(made), made.text(verbose=True), made.chart()
    assert max(len(line) for line in f"{short}\n{table}\n{chart}".splitlines()) <= 100
    for name in ("quilt-exact", "group"):
        assert name in short
    assert "per-record-dp" not in short
    for name in ("quilt-exact", "group", "per-record-dp"):
        assert name in table
        assert name in chart
    assert "holds only for an adversary who knows no record" in table
    assert "no guarantee" in chart


def test_lengths():
    with pytest.raises(ParameterError, match="either length="):
        plan(CHAIN, "histogram", epsilon=1)
    with pytest.raises(ParameterError, match="either length="):
        plan(CHAIN, "histogram", epsilon=1, length=3, lengths=[3])
    with pytest.raises(ParameterError, match="no chain"):
        plan(CHAIN, "histogram", epsilon=1, lengths=[])
