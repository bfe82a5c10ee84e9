"""Secrets of one's own: what is refused, and what an event means."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given

from pufferdp.basics.errors import ModelError
from pufferdp.models.groups import Groups
from pufferdp.publish.answers.secrets import Secret, Secrets, load_secrets
from tests.strategies import SEEDS

ILL, WELL = Secret(name="ill", when={"1": "1"}), Secret(name="well", when={"1": "0"})


@pytest.mark.parametrize(
    ("name", "when", "message"),
    [
        ("", {"a": "1"}, "named ''"),
        (3, {"a": "1"}, "named 3"),
        ("x", [], "'x' has no condition"),
        ("x", "alice", "it must name records"),
        ("x", [{}], "it must name records"),
        ("x", {}, "it must name records"),
        ("x", [{"a": "1"}, 5], "a condition is 5"),
        ("x", {"a": []}, "'a' is \\[\\]"),
        ("x", {"a": None}, "'a' is null"),
        ("x", {"a": [["1"]]}, "must be a state or a list of states"),
        ("x", {"a": True}, "must be a state or a list of states"),
    ],
)
def test_a_secret_that_is_none_is_refused(name, when, message):
    with pytest.raises(ModelError, match=message):
        Secret(name=name, when=when)


@pytest.mark.parametrize(
    ("secrets", "pairs", "message"),
    [
        ((ILL, ILL), (("ill", "ill"),), "'ill' is named twice"),
        ((ILL, WELL), (), "no pair of secrets"),
        ((ILL, WELL), (("ill", "dead"),), "'dead', which is no secret; the secrets are ill, well"),
        ((ILL, WELL), (("ill", "ill"),), "'ill' against itself"),
        ((ILL, WELL), (("ill",),), "a pair is"),
    ],
)
def test_pairs_that_protect_nothing_are_refused(secrets, pairs, message):
    with pytest.raises(ModelError, match=message):
        Secrets(secrets=secrets, pairs=pairs)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([], '"secrets" and "pairs"'),
        ({"secrets": {}}, '"secrets" and "pairs"'),
        ({"secrets": {}, "pairs": [], "more": 1}, '"secrets" and "pairs"'),
        ({"secrets": [], "pairs": []}, "must be an object"),
        ({"secrets": {"a": {"1": "0"}}, "pairs": "ab"}, "must be a list"),
        ({"secrets": {"a": {"1": "0"}}, "pairs": ["ab"]}, "a list of two names"),
        ({"secrets": {"a": {"1": "0"}}, "pairs": [["a"]]}, "a list of two names"),
        ({"secrets": {"a": {"1": []}}, "pairs": [["a", "b"]]}, "record '1'"),
    ],
)
def test_a_file_that_holds_no_secrets_is_refused_by_its_name(raw, message, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(ModelError, match=message) as refusal:
        load_secrets(path)
    assert str(path) in str(refusal.value)


def test_files_give_back_the_secrets(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(
        json.dumps(
            {
                "secrets": {"one": {"1": "1"}, "some": [{"1": ["0", "1"], "2": 1}, {"3": "1"}]},
                "pairs": [["one", "some"]],
            }
        ),
        encoding="utf-8",
    )
    secrets = load_secrets(path)
    assert secrets["some"].when == ({"1": ("0", "1"), "2": ("1",)}, {"3": ("1",)})  # 1 names the state "1"
    assert secrets["some"].records == ("1", "2", "3")
    path.write_text(json.dumps(secrets.to_dict()), encoding="utf-8")
    assert load_secrets(path) == secrets
    assert load_secrets(path).pairs == (("one", "some"),)


def test_a_predicate_is_written_out():
    domains = {"a": ["0", "1", "2"], "b": ["0", "1"]}
    more = Secret.of("more", lambda r: int(r["a"]) > int(r["b"]), domains)
    assert {(c["a"], c["b"]) for c in more.when} == {(("1",), ("0",)), (("2",), ("0",)), (("2",), ("1",))}
    with pytest.raises(ModelError, match="'never' never holds"):
        Secret.of("never", lambda _: False, domains)
    with pytest.raises(ModelError, match="4096"):
        Secret.of("wide", lambda _: True, {str(n): ["0", "1"] for n in range(13)})


def random_secret(generator, name, records, domains) -> Secret:
    """One to three conditions on one or two records each; they may overlap."""
    when = []
    for _ in range(generator.integers(1, 4)):
        chosen = generator.permutation(len(records))[: generator.integers(1, 3)]
        when.append(
            {
                records[i]: [str(s) for s in generator.permutation(domains[i])[: generator.integers(1, 3)]]
                for i in chosen.tolist()
            }
        )
    return Secret(name=name, when=when)


def event_of(secret: Secret, records, domains) -> np.ndarray:
    """Where the secret holds: one axis a record."""
    holds = np.zeros([len(domain) for domain in domains], dtype=bool)
    for outcome in np.ndindex(holds.shape):
        told = {r: domains[i][x] for i, (r, x) in enumerate(zip(records, outcome, strict=True))}
        holds[outcome] = any(all(told[r] in states for r, states in c.items()) for c in secret.when)
    return holds


@given(seed=SEEDS)
def test_cells_cover_the_event_and_do_not_overlap(seed):
    generator = np.random.default_rng(seed)
    records, domains = ("a", "b", "c"), (("0", "1"), ("x", "y", "z"), ("0", "1", "2"))
    secret = random_secret(generator, "it", records, domains)
    model = SimpleNamespace(position=records.index, states_of=domains.__getitem__, domains=domains)
    covered = np.zeros((2, 3, 3), dtype=int)
    for cell in secret.cells(model):
        inside = np.ones((2, 3, 3), dtype=bool)
        for i, states in cell.items():
            inside &= np.isin(np.indices((2, 3, 3))[i], states)
        covered += inside
    assert (covered == event_of(secret, records, domains)).all()


def test_too_many_overlapping_cases_are_refused_by_name():
    model = Groups(sizes=[13], positives=[[1 / 14] * 14])
    wide = Secret(name="wide", when=[{str(n): "1"} for n in range(1, 14)])
    with pytest.raises(ModelError, match="'wide' overlaps with itself over 8,192 cases; the limit is 4096"):
        wide.cells(model)
