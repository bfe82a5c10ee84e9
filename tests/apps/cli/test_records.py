"""The whole way for models that are not chains: plan, release, verify."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pufferdp.publish import noise
from pufferdp.publish.answers.estimate import MISFIT
from tests.apps.cli.conftest import Run, write
from tests.apps.cli.records import ANY, ILL, NETWORK, SUBJECTS, WEATHER, Subject, csv, joint
from tests.apps.cli.test_odd_input import CANDIDATE_KEYS, CERTIFICATE_KEYS, PLAN_KEYS, finite

SECRETS = {
    "secrets": {"flood": {"rain": "yes", "street": "yes"}, "drought": [{"season": "dry"}, {"rain": "no"}]},
    "pairs": [["flood", "drought"]],
}


def prepare(folder: Path, subject: Subject) -> None:
    """The model in a folder of its own, the data in the working folder."""
    for name in ("models", "nets"):
        (folder / name).mkdir()
    write(folder, {"models/m.json": subject.model, "d.csv": subject.data, **subject.files})


def release(query: str, *more: str) -> list[str]:
    usual = ["release", "d.csv", "--model", "models/m.json", "--column", "state", "--epsilon", "1", "--json"]
    return [*usual, "--query", query, *more]


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler that returns the exact answer: only tests can see it."""
    for name in ("discrete_laplace", "laplace"):
        monkeypatch.setattr(noise.SystemSampler, name, lambda self, exact, scale: list(exact))


CASES = [(name, query) for name, subject in SUBJECTS.items() for query in subject.answers]
EVERYONE = [(name, query, "pufferfish") for name, query in CASES if query[:5] == "count"]
EVERYONE += [(name, "frequency", ("bdp", "dp")[n % 2]) for n, name in enumerate(SUBJECTS)]


@pytest.mark.parametrize(("name", "query", "adversary"), EVERYONE)
def test_what_is_planned_is_released_and_verified(
    name: str, query: str, adversary: str, run: Run, folder: Path
) -> None:
    subject = SUBJECTS[name]
    prepare(folder, subject)
    usual = ["plan", "models/m.json", "--query", query, "--epsilon", "1", *subject.size, "--json"]
    planned = run(*usual, "--adversary", adversary)
    assert planned.code == 0, planned.err
    assert set(planned.json) == PLAN_KEYS
    assert finite(planned.json)
    for candidate in planned.json["candidates"]:
        assert set(candidate) == CANDIDATE_KEYS
        assert candidate["applies"] == (candidate["reason"] is None)
        applied = candidate["applies"] and candidate["mechanism"]
        assert (candidate["transport"] is not None) == (applied == "wasserstein")
        assert (candidate["quilt"] is not None) == (applied == "quilt-exact")
    best = next(c for c in planned.json["candidates"] if c["mechanism"] == planned.json["best"])
    done = run(*release(query, *subject.reading, "--adversary", adversary, "--out", "r.json"))
    assert done.code == 0, done.err
    certificate = done.json["certificate"]
    assert set(certificate) == CERTIFICATE_KEYS
    assert certificate["mechanism"]["name"] == planned.json["best"]
    assert certificate["noise"]["scale"] == best["scale"]
    assert certificate["calibration"]["transport"] == best["transport"]
    assert certificate["calibration"]["quilt"] == best["quilt"]
    assert certificate["guarantee"]["framework"] is None
    assert certificate["data"]["id"] == (subject.reading[1] if subject.reading[0] == "--id" else None)
    found = run("verify", "r.json", "--json").json
    assert found["valid"]
    assert set(found["warnings"]) <= {MISFIT}  # the noise is drawn anew, and once in a thousand times it is far out


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(("name", "query"), CASES)
def test_the_records_are_the_right_ones(name: str, query: str, run: Run, folder: Path) -> None:
    subject = SUBJECTS[name]
    prepare(folder, subject)
    done = run(*release(query, *subject.reading))
    assert done.code == 0, done.err
    assert done.json["answer"] == pytest.approx(subject.answers[query])


@pytest.mark.usefixtures("no_noise")
def test_groups_of_any_kind_need_no_column_of_groups(run: Run, folder: Path) -> None:
    write(folder, {"models": None, "models/m.json": ANY, "d.csv": ILL})
    assert run(*release("count:ill")).json["answer"] == 3
    # Numbers of any kind, clipped: a model that names no states has no part in them.
    numbers = csv("house,state", "a,2.5", "a,70", "b,-1")
    write(folder, {"models/m.json": {"type": "groups", "largest": 3}, "d.csv": numbers})
    done = run(*release("sum", "--by", "house", "--clip", "0", "10", "--out", "r.json"))
    assert done.json["answer"] == pytest.approx(12.5, abs=1e-6)
    assert done.json["certificate"]["noise"]["scale"] == 30
    assert run("verify", "r.json").code == 0


def scales(result: Any) -> dict[str, float | None]:
    return {c["mechanism"]: c["scale"] for c in result.json["candidates"]}


def test_secrets_of_ones_own(run: Run, folder: Path) -> None:
    write(folder, {"models": None, "models/m.json": NETWORK, "d.csv": WEATHER, "s.json": SECRETS})
    own = ["--secrets", "s.json", "--adversary", "pufferfish"]
    planned = run("plan", "models/m.json", "--query", "count:yes", "--epsilon", "1", *own, "--json")
    assert planned.code == 0, planned.err
    assert planned.json["best"] == "wasserstein"
    assert planned.json["secrets"] == [["flood", "drought"]]
    transport = planned.json["candidates"][0]["transport"]
    assert (transport["first"], transport["second"]) == ("flood", "drought")
    assert {c["mechanism"] for c in planned.json["candidates"] if c["applies"]} == {"wasserstein", "group"}
    done = run(*release("count:yes", *own, "--id", "who", "--out", "r.json"))
    assert done.code == 0, done.err
    guarantee = done.json["certificate"]["guarantee"]
    assert guarantee["framework"]["pairs"] == [["flood", "drought"]]
    assert guarantee["framework"]["secrets"]["flood"] == [{"rain": ["yes"], "street": ["yes"]}]
    assert "flood against drought" in guarantee["secrets"]
    assert "the two secrets of any pair" in guarantee["statement"]
    assert done.json["certificate"]["noise"]["scale"] == planned.json["candidates"][0]["scale"]
    assert run("verify", "r.json").out.startswith("valid\n")


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("query", ["count:1", "histogram", "mean"])
def test_an_answer_that_no_secret_moves_is_exact(query: str, run: Run, folder: Path) -> None:
    """Exactly one of two: nobody learns who from being told so again."""
    one_of_two = joint(([0, 1], 0.5), ([1, 0], 0.5))
    write(folder, {"models": None, "models/m.json": one_of_two, "d.csv": csv("state", "1", "0")})
    done = run(*release(query, "--adversary", "pufferfish", "--out", "r.json", "--seed", "3"))
    assert done.code == 0, done.err
    exact = {"count:1": 1, "histogram": [1, 1], "frequency": [0.5, 0.5], "sum": 1, "mean": 0.5}
    assert done.json["answer"] == exact[query]
    certificate = done.json["certificate"]
    assert certificate["noise"]["scale"] == certificate["expected_l1_error"] == 0
    assert certificate["calibration"]["transport"] == {"distance": 0, "first": None, "second": None}
    assert any(w.startswith("the answer is exact") for w in certificate["warnings"])
    checked = run("verify", "r.json", "--json")
    assert checked.json["valid"] is True
    assert checked.json["warnings"] == certificate["warnings"]
    assert "Warning: the answer is exact" in " ".join(run("verify", "r.json").out.split())
    # Whoever knows one record knows the other by the model; differential privacy asks no model, so there is noise.
    assert run(*release(query, "--adversary", "dp")).json["certificate"]["noise"]["scale"] > 0


@pytest.mark.parametrize("in_class", [False, True])
def test_the_network_is_kept_by_value(in_class: bool, run: Run, folder: Path) -> None:
    subject = SUBJECTS["bif"]
    prepare(folder, subject)
    if in_class:
        write(folder, {"models/m.json": {"type": "class", "models": [subject.model]}})
    assert run(*release("count:yes", *subject.reading, "--out", "r.json")).code == 0
    for path in ("models/m.json", "nets/rain.bif", "d.csv"):
        (folder / path).unlink()
    kept = json.loads((folder / "r.json").read_text(encoding="utf-8"))["certificate"]["model"]
    kept = kept["models"][0] if in_class else kept
    assert "bif" not in kept
    assert [node["name"] for node in kept["nodes"]] == ["season", "rain"]
    assert kept["nodes"][1]["table"] == [[0.9, 0.1], [0.4, 0.6]]
    assert run("verify", "r.json").code == 0


@pytest.mark.parametrize("name", ["network"])
def test_figures_and_text(name: str, run: Run, folder: Path) -> None:
    subject = SUBJECTS[name]
    prepare(folder, subject)
    plan = ["plan", "models/m.json", "--query", "histogram", "--epsilon", "1", *subject.size, "--figure", "p.svg"]
    spoken = run(*plan)
    assert spoken.code == 0, spoken.err
    done = run(*(a for a in release("histogram", *subject.reading, "--figure", "r.png") if a != "--json"))
    assert done.code == 0, done.err
    assert (folder / "p.svg").stat().st_size > 1000
    assert (folder / "r.png").stat().st_size > 1000
    for text in (spoken.out, done.out):
        assert all(len(row) <= 100 for row in text.splitlines())
