"""Odd but valid input is answered: exit 0, the guaranteed keys, finite numbers."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest

from tests.apps.cli.conftest import CHAIN, Run, write

USUAL = [[0.9, 0.1], [0.4, 0.6]]
FOUR = [[0.4, 0.3, 0.2, 0.1], [0.1, 0.5, 0.2, 0.2], [0.3, 0.1, 0.4, 0.2], [0.25, 0.25, 0.25, 0.25]]
CYCLE = [[0, 1], [1, 0]]
IDENTITY = [[1, 0], [0, 1]]
ABSORBING = [[0.5, 0.5], [0, 1]]
TRANSIENT = [[0.2, 0.4, 0.4], [0, 0.5, 0.5], [0, 0.3, 0.7]]
STICKY = [[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]]
TINY = [[1 - 1e-200, 1e-200], [0.5, 0.5]]
SIXTY = [[(1 + (7 * x + 3 * y) % 5) for y in range(60)] for x in range(60)]
PLAN_KEYS = {
    "query", "verdict", "records", "longest_chain", "epsilon", "adversary", "secrets", "candidates", "best", "limit",
    "model_checks", "multiplies",
}  # fmt: skip
CANDIDATE_KEYS = {
    "mechanism", "applies", "reason", "scale", "sigma", "lipschitz", "noise", "balanced", "expected_l1_error",
    "mean_squared_error", "factor", "accuracy", "quilt", "transport",
}  # fmt: skip
CERTIFICATE_KEYS = {
    "schema", "pufferdp", "created", "guarantee", "model", "model_sha256", "query", "mechanism", "calibration", "noise",
    "expected_l1_error", "accuracy", "data", "public", "labels", "answer", "estimate", "model_estimate", "warnings",
    "ledger", "model_checks", "sha256",
}  # fmt: skip


def chain(transition: Any, start: Any = "stationary", **more: Any) -> dict[str, Any]:
    return {"type": "markov_chain", "transition": transition, "start": start, **more}


def finite(value: Any) -> bool:
    """Whether every number inside is finite."""
    if isinstance(value, dict):
        return all(finite(v) for v in value.values())
    if isinstance(value, list):
        return all(finite(v) for v in value)
    return not isinstance(value, float) or math.isfinite(value)


PLANS: dict[str, tuple[dict[str, Any], int, str]] = {
    "one record": (chain(USUAL), 1, "1"),
    "two records": (chain(USUAL), 2, "1"),
    "one state": (chain([[1]]), 10, "1"),
    "cycle": (chain(CYCLE), 12, "1"),
    "identity": (chain(IDENTITY), 12, "1"),
    "absorbing, any start": (chain(ABSORBING, "any"), 20, "1"),
    "transient state": (chain(TRANSIENT), 50, "1"),
    "transient state, any start": (chain(TRANSIENT, "any"), 50, "1"),
    "independent records": (chain([[0.3, 0.7], [0.3, 0.7]]), 100, "1"),
    "two states, 10^9 records": (chain(USUAL), 10**9, "1"),
    "four states, 10^9 records": (chain(FOUR), 10**9, "1"),
    "four states, 10^9 records, any start": (chain(FOUR, "any"), 10**9, "1"),
    "epsilon 1e-6": (chain(USUAL), 1000, "1e-6"),
    "epsilon 1e-9, 10^9 records": (chain(USUAL), 10**9, "1e-9"),
    "epsilon 50": (chain(USUAL), 1000, "50"),
    "epsilon 1e100": (chain(USUAL), 1000, "1e100"),
    "epsilon 1000, 10^9 records": (chain(USUAL), 10**9, "1000"),
    "very sticky": (chain(STICKY), 10**6, "1"),
    "probabilities of 1e-200": (chain(TINY), 1000, "1"),
    "a start of 1e-300": (chain(TINY, [1e-300, 1]), 1000, "1"),
    "sixty states": (chain([[v / sum(row) for v in row] for row in SIXTY]), 5000, "1"),
    "class of unlike chains": (
        {"type": "markov_class", "models": [chain(USUAL), chain(IDENTITY, "any"), chain(CYCLE, [1, 0])]},
        12,
        "1",
    ),
    "binary interval, 10^9 records": ({"type": "binary_interval", "low": 0.2, "high": 0.8}, 10**9, "1"),
    "binary interval of all": ({"type": "binary_interval", "low": 0, "high": 1}, 12, "1"),
    "interval of all": ({"type": "markov_interval", "low": [[0, 0]] * 2, "high": [[1, 1]] * 2}, 12, "1"),
    "interval, 10^9 records": (
        {"type": "markov_interval", "low": [[0.2] * 3] * 3, "high": [[0.5] * 3] * 3},
        10**9,
        "1",
    ),
}
SLOW = (
    "epsilon 50", "epsilon 1000", "epsilon 1e100", "sixty states",
    "very sticky", "very sticky, any start", "transient state, any start", "transient state, given start",
    "probabilities of 1e-200", "probabilities of 1e-200, any start", "a start of 1e-300",
    "four states, 10^9 records, any start",
)  # fmt: skip


@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
@pytest.mark.parametrize(
    ("model", "length", "epsilon"),
    [pytest.param(*PLANS[name], id=name, marks=[pytest.mark.slow] * (name in SLOW)) for name in PLANS],
)
def test_a_plan_is_made(
    model: dict[str, Any], length: int, epsilon: str, adversary: str, run: Run, folder: Path
) -> None:
    write(folder, {"m.json": model})
    usual = ["plan", "m.json", "--query", "histogram", "--length", length, "--epsilon", epsilon]
    result = run(*usual, "--adversary", adversary, "--json")
    assert result.code == 0, result.err
    plan = result.json
    assert set(plan) == PLAN_KEYS
    assert plan["records"] == plan["longest_chain"] == length
    assert finite(plan)
    best = None
    for candidate in plan["candidates"]:
        assert set(candidate) == CANDIDATE_KEYS
        assert candidate["applies"] == (candidate["reason"] is None)
        if candidate["applies"]:
            assert candidate["scale"] == pytest.approx(candidate["lipschitz"] * candidate["sigma"])
            # The answer of a chain that cannot vary needs no noise, and only the distributions of the answer can tell.
            assert candidate["scale"] > 0 or candidate["mechanism"] in ("wasserstein", "exact-laplace")
            assert set(candidate["accuracy"]) == {"alpha", "beta"}
            best = best or candidate
    assert best is not None
    assert plan["best"] == best["mechanism"]


@pytest.mark.parametrize(
    ("name", "query"),
    [
        *itertools.product(("one record", "cycle", "identity"), ("count:0", "mean")),
        *itertools.product(("absorbing, any start", "two states, 10^9 records"), ("frequency", "sum")),
    ],
)
def test_every_query_is_planned(name: str, query: str, run: Run, folder: Path) -> None:
    model, length, epsilon = PLANS[name]
    write(folder, {"m.json": model})
    result = run("plan", "m.json", "--query", query, "--length", length, "--epsilon", epsilon, "--json")
    assert result.code == 0, result.err
    assert finite(result.json)


def test_many_chains_are_planned(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN})
    lengths = ",".join(["288", "1", "17"] * 500)
    result = run("plan", "m.json", "--query", "histogram", "--lengths", lengths, "--epsilon", "1", "--json")
    assert result.code == 0, result.err
    assert result.json["records"] == 500 * (288 + 1 + 17)
    assert result.json["longest_chain"] == 288


RELEASES: dict[str, tuple[dict[str, Any], str | bytes, list[str]]] = {
    "one record": (CHAIN, "activity\nrest\n", []),
    "one state": (chain([[1]], states=["on"]), "activity\non\non\n", []),
    "identity": (chain(IDENTITY, states=["a", "b"]), "activity\na\na\na\n", []),
    "absorbing, given start": (chain(ABSORBING, [1, 0], states=["a", "b"]), "activity\na\na\nb\nb\n", []),
    "transient state, any start": (chain(TRANSIENT, "any"), "activity\n0\n1\n2\n1\n2\n2\n", []),
    "numbers as states, written 1.0": (chain(USUAL), "activity\n0.0\n1.0\n1.0\n", []),
    "epsilon 50": (CHAIN, "activity\nrest\nactive\n", ["--epsilon", "50"]),
    "states with spaces, commas and umlauts": (
        chain(USUAL, states=["at rest, lying", 'läuft "schnell" 🏃']),
        'activity\n"at rest, lying"\n"läuft ""schnell"" 🏃"\n"at rest, lying"\n',
        [],
    ),
    "byte order mark and Windows line ends": (
        CHAIN,
        b"\xef\xbb\xbfactivity,n\r\nrest,1\r\nactive,2\r\nrest,3\r\n",
        ["--order", "n"],
    ),
    "missing values are unobserved steps": (CHAIN, "n,activity\n1,rest\n2,\n3,active\n", ["--missing", "keep"]),
    "one record a person": (CHAIN, "who,activity\na,rest\nb,rest\nc,active\n", ["--by", "who", "--independent"]),
}


@pytest.mark.parametrize("adversary", ["bdp"])
@pytest.mark.parametrize(
    ("model", "data", "more"),
    [pytest.param(*RELEASES[name], id=name, marks=[pytest.mark.slow] * (name in SLOW)) for name in RELEASES],
)
def test_a_release_is_made(
    model: dict[str, Any], data: str | bytes, more: list[str], adversary: str, run: Run, folder: Path
) -> None:
    write(folder, {"m.json": model, "d.csv": data})
    usual = ["release", "d.csv", "--model", "m.json", "--column", "activity", "--query", "histogram"]
    epsilon = [] if "--epsilon" in more else ["--epsilon", "1"]
    result = run(*usual, *epsilon, *more, "--adversary", adversary, "--json", "--out", "r.json")
    large = "--epsilon" in more and float(more[more.index("--epsilon") + 1]) > 20
    assert result.code == 0, result.err
    assert ("guarantees next to nothing" in result.err) == bool(result.err) == large
    release = result.json
    assert set(release) == {"verdict", "answer", "intervals", "estimate", "model_estimate", "labels", "certificate"}
    assert set(release["certificate"]) == CERTIFICATE_KEYS
    assert finite(release)
    names = model.get("states") or [str(n) for n in range(len(model["transition"]))]
    assert release["labels"] == names
    assert len(release["answer"]) == len(release["estimate"]) == len(names)
    assert run("verify", "r.json", "--seconds", "60").code == 0
    assert run("plan", "m.json", "--query", "histogram", "--length", "2", "--epsilon", "1").code == 0


ODD_NAMES = ['how "active"?', "heart rate", "it's", "a;b", "größe", "select", "x.y", "value", "order", "person", "code"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_column_names_may_be_odd(name: str, run: Run, folder: Path) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    write(folder, {"m.json": CHAIN, "d.csv": f"{quoted},when it was,n\nrest,1,1\nactive,2,2\nrest,4,3\nrest,5,4\n"})
    usual = ["release", "d.csv", "--model", "m.json", "--column", name, "--epsilon", "1", "--json"]
    result = run(*usual, "--query", "count:active", "--order", "when it was", "--restart", "1")
    assert (result.code, result.err) == (0, "")
    assert result.json["certificate"]["data"]["column"] == name
    assert result.json["certificate"]["data"]["lengths"] == [[2, 2]]


def test_a_given_start_serves_one_chain_in_order(run: Run, folder: Path) -> None:
    write(folder, {"m.json": {**CHAIN, "start": [0.5, 0.5]}, "d.csv": "n,activity\n1,rest\n2,active\n"})
    usual = ["release", "d.csv", "--model", "m.json", "--column", "activity", "--query", "histogram", "--epsilon", "1"]
    assert run(*usual, "--order", "n", "--json").code == 0


def test_a_model_file_may_begin_with_a_byte_order_mark(run: Run, folder: Path) -> None:
    write(folder, {"m.json": b'\xef\xbb\xbf{"type": "binary_interval", "low": 0.2, "high": 0.8}'})
    assert run("plan", "m.json", "--query", "histogram", "--length", "9", "--epsilon", "1").code == 0
