"""Certificates of models that are not chains: every change is found, and the exact answer stays inside."""

from __future__ import annotations

import copy
import json
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pufferdp.models.files.json import model_digest, model_from_dict
from pufferdp.publish import noise
from pufferdp.publish.answers.estimate import MISFIT
from pufferdp.publish.certificate import content_hash
from tests.apps.cli.conftest import Run, listing, write
from tests.apps.cli.records import ANY, ILL, NETWORK, WEATHER, csv, line
from tests.apps.cli.test_bad_input import JARGON, check_sentence
from tests.apps.cli.test_output import EXACT, leaks, without_digests

Change = Callable[[dict[str, Any]], None]
HOURS = [f"hour {letter}" for letter in "abcdefghijkl"]
SECRETS = {"secrets": {"flood": {"street": "yes"}, "none": {"street": "no"}}, "pairs": [["flood", "none"]]}
USUAL = ["--column", "state", "--epsilon", "2", "--adversary", "pufferfish", "--out", "r.json"]


MADE: dict[str, dict[str, Any]] = {}
"""Certificates by mechanism, made once."""


def make(run: Run, folder: Path, kind: str) -> dict[str, Any]:
    """The certificate of a release by one mechanism."""
    model, data, more = {
        "wasserstein": (NETWORK, WEATHER, ["--query", "count:yes", "--id", "who", "--secrets", "s.json"]),
        "quilt-exact": (
            line(HOURS),
            csv("h,state", *(f"{h},no" for h in HOURS)),
            ["--query", "count:yes", "--id", "h"],
        ),
        "group": (ANY, ILL, ["--query", "count:ill", "--by", "house"]),
    }[kind]
    write(folder, {"m.json": model, "d.csv": data, "s.json": SECRETS})
    result = run("release", "d.csv", "--model", "m.json", *more, *USUAL, "--mechanism", kind)
    assert result.code == 0, result.err
    content = json.loads((folder / "r.json").read_text(encoding="utf-8"))
    return dict(content["certificate"])


def put(*path: str | int, to: Any) -> Change:
    """Change one value."""

    def change(content: dict[str, Any]) -> None:
        inner: Any = content
        for key in path[:-1]:
            inner = inner[key]
        assert inner[path[-1]] != to
        inner[path[-1]] = to

    return change


def other_model(content: dict[str, Any]) -> None:
    """Another table, with the digest that belongs to it."""
    content["model"]["nodes"][4]["table"] = [[0.5, 0.5], [0.5, 0.5]]
    content["model_sha256"] = model_digest(model_from_dict(content["model"]))


def other_file(content: dict[str, Any]) -> None:
    """A class whose model is kept in a file of the one who verifies."""
    content["model"] = {"type": "class", "models": [{"type": "bayesian_network", "bif": "secret.bif"}]}


def wider(content: dict[str, Any]) -> None:
    """One group instead of two."""
    content["data"]["lengths"] = [[5, 1]]


TOUCHED: list[tuple[str, str, Change, str]] = [
    ("transport", "wasserstein", put("calibration", "transport", "distance", to=1.0), "transport.distance is 1"),
    ("first secret", "wasserstein", put("calibration", "transport", "first", to="none"), "the pair that decides"),
    ("second secret", "wasserstein", put("calibration", "transport", "second", to=None), "the pair that decides"),
    ("transport removed", "wasserstein", put("calibration", "transport", to=None), "transport is null"),
    ("framework removed", "wasserstein", put("guarantee", "framework", to=None), "guarantee.secrets"),
    ("framework broken", "wasserstein", put("guarantee", "framework", to={"secrets": {}}), "pairs"),
    (
        "framework with an empty state",
        "wasserstein",
        put("guarantee", "framework", "secrets", "flood", to=[{"street": None}]),
        "'street' is null",
    ),
    ("framework on nobody", "wasserstein", put("guarantee", "framework", "secrets", "flood", to={"x": "y"}), "'x'"),
    ("pairs", "wasserstein", put("guarantee", "framework", "pairs", to=[["none", "flood"]]), "guarantee.secrets"),
    ("id removed", "wasserstein", put("data", "id", to=None), "id is missing"),
    ("id of a group", "group", put("data", "id", to="who"), "id is 'who'"),
    ("order", "wasserstein", put("data", "order", to="time"), "order is 'time'"),
    ("missing values", "wasserstein", put("data", "missing", to="keep"), "missing is 'keep'"),
    ("lengths removed", "wasserstein", put("data", "lengths", to=[]), "data.records is 5; recomputed it is 0"),
    ("lengths", "wasserstein", put("data", "lengths", to=[[7, 1]]), "7"),
    ("records", "wasserstein", put("data", "records", to=6), "data.records is 6"),
    ("table", "wasserstein", put("model", "nodes", 4, "table", to=[[0.5, 0.5], [0.2, 0.8]]), "model_sha256"),
    ("table with its digest", "wasserstein", other_model, "recomputed"),
    ("table that is none", "wasserstein", put("model", "nodes", 4, "table", to=[0.5, 0.5]), "'street'"),
    ("model in a file", "wasserstein", put("model", to={"type": "bayesian_network", "bif": "a.bif"}), "by value"),
    ("class in files", "wasserstein", other_file, "by value"),
    ("scale", "wasserstein", put("noise", "scale", to=0.25), "noise.scale is 0.25"),
    ("no noise", "wasserstein", put("noise", "scale", to=0.0), "noise.scale is 0"),
    ("mechanism", "wasserstein", put("mechanism", "name", to="group"), "transport is {"),
    ("adversary", "wasserstein", put("guarantee", "adversary", to="bdp"), "pufferfish"),
    ("node", "quilt-exact", put("calibration", "quilt", "node", to="hour x"), "hour x"),
    ("node by number", "quilt-exact", put("calibration", "quilt", "node", to=3), "quilt.node is 3"),
    ("ends", "quilt-exact", put("calibration", "quilt", "ends", to=["hour a", "hour l"]), "hour l"),
    ("ends removed", "quilt-exact", put("calibration", "quilt", "ends", to=[]), "quilt"),
    ("skipped", "quilt-exact", put("calibration", "quilt", "skipped", to=4), "skipped is 4"),
    ("skipped below 0", "quilt-exact", put("calibration", "quilt", "skipped", to=-1), "skipped is -1"),
    ("nearby", "quilt-exact", put("calibration", "quilt", "nearby", to=2.0), "nearby is 2"),
    ("influence", "quilt-exact", put("calibration", "quilt", "influence", to=0.0), "influence"),
    ("quilt removed", "quilt-exact", put("calibration", "quilt", to=None), "quilt"),
    ("quilt of another mechanism", "quilt-exact", put("mechanism", "name", to="group"), "quilt"),
    ("groups too large", "group", wider, "at most 3"),
    ("groups without a limit", "group", put("model", "largest", to=4), "model_sha256"),
]


@pytest.mark.parametrize(("kind", "change", "word"), [t[1:] for t in TOUCHED], ids=[t[0] for t in TOUCHED])
def test_a_touched_certificate_is_not_valid(kind: str, change: Change, word: str, run: Run, folder: Path) -> None:
    if kind not in MADE:
        MADE[kind] = make(run, folder, kind)
    changed = copy.deepcopy(MADE[kind])
    change(changed)
    for resealed in (False, True):
        if resealed:  # what a careful forger does: mend the hash as well
            changed["sha256"] = content_hash(changed)
        write(folder, {"cert.json": changed})
        before = listing(folder)
        result = run("verify", "cert.json", "--json")
        assert result.code == 3, (result.out, result.err)
        problems = result.json["problems"]
        assert result.json["valid"] is False
        assert word in " ".join(problems)
        assert not any(JARGON.search(problem) for problem in problems), problems
        check_sentence(result, ("cert.json", "does not hold"))
        assert listing(folder) == before


@pytest.mark.parametrize("kind", ["wasserstein", "quilt-exact", "group"])
def test_an_untouched_certificate_is_valid(kind: str, run: Run, folder: Path) -> None:
    assert make(run, folder, kind)["mechanism"]["name"] == kind
    found = run("verify", "r.json", "--json").json
    assert found["valid"]
    assert set(found["warnings"]) <= {MISFIT}  # the noise is drawn anew, and once in a thousand times it is far out


def test_another_id_column_is_found_by_the_hash(run: Run, folder: Path) -> None:
    content = make(run, folder, "wasserstein")
    content["data"]["id"] = "whom"
    write(folder, {"cert.json": content})
    result = run("verify", "cert.json", "--json")
    assert result.code == 3
    assert ["hash" in problem for problem in result.json["problems"]] == [True]


# ---- the exact answer stays inside ----

NAMES = [f"home {a}{b}" for a in string.ascii_lowercase for b in string.ascii_lowercase][: sum(EXACT)]
MODELS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "network": (line(NAMES), ["--id", "who"]),
    # The distribution keeps the credible interval, which the constant noise decides alone, away from the exact counts.
    "groups": (
        {"type": "groups", "sizes": [4] * 100, "positives": [[0.3, 0.3, 0.2, 0.1, 0.1]] * 100, "states": ["no", "yes"]},
        ["--adversary", "pufferfish"],
    ),
    "groups of any kind": ({"type": "groups", "largest": 2, "states": ["no", "yes"]}, []),
}


def counted() -> str:
    """So many no and yes, mixed."""
    no, yes = EXACT
    states = ["no", "yes"] * no + ["yes"] * (yes - no)
    return csv("who,state", *(f"{name},{state}" for name, state in zip(NAMES, states, strict=True)))


@pytest.fixture
def constant_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler that forgets what it was given."""
    monkeypatch.setattr(noise.SystemSampler, "discrete_laplace", lambda self, exact, scale: [424242] * len(exact))
    monkeypatch.setattr(noise.SystemSampler, "laplace", lambda self, exact, scale: [424242.0] * len(exact))


@pytest.mark.slow
@pytest.mark.usefixtures("constant_noise")
@pytest.mark.parametrize(
    ("name", "query"),
    [
        *((name, query) for name in ("network", "groups of any kind") for query in ("histogram", "count:no", "sum")),
        ("network", "mean"),
        ("groups", "count:no"),
    ],
)
def test_a_release_never_shows_the_exact_answer(name: str, query: str, run: Run, folder: Path) -> None:
    model, reading = MODELS[name]
    write(folder, {"m.json": {**model, "values": {"no": 0, "yes": 1}}, "d.csv": counted()})
    usual = ["release", "d.csv", "--model", "m.json", "--column", "state", "--epsilon", "1", "--query", query]
    for form in (["--json"], ["--overwrite"]):
        result = run(*usual, *reading, "--out", "r.json", *form)
        assert result.code == 0, result.err
        kept = (folder / "r.json").read_text(encoding="utf-8")
        certificate = json.loads(kept)["certificate"]
        assert "424" in result.out or query == "mean"
        for text in (result.out, result.err, kept):
            assert leaks(without_digests(text, certificate)) == []
        assert sorted(p.name for p in folder.iterdir()) == ["d.csv", "m.json", "r.json"]


def test_a_refusal_shows_no_counts(run: Run, folder: Path) -> None:
    write(folder, {"m.json": line(NAMES), "d.csv": counted().removesuffix("yes\n") + "may\n"})
    usual = ["release", "d.csv", "--model", "m.json", "--column", "state", "--epsilon", "1", "--query", "count:no"]
    result = run(*usual, "--id", "who", "--json")
    assert result.code == 2
    assert "'may'" in result.err
    assert leaks(result.err) == []
