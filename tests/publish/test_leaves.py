"""Every leaf of a certificate, and of a charge that a ledger keeps, is recomputed or on a written list.

One leaf is changed, the hash is made anew as a careful forger would, and the certificate must be refused, unless the
kind of publication lists the field among those that nobody can recompute.
"""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from pufferdp import Charge, Ledger, LedgerError, PufferdpError, Query, verify
from pufferdp.basics.files import canonical_json
from pufferdp.ledger import hash_chain
from pufferdp.ledger.history import import_ledger
from pufferdp.ledger.totals import State
from pufferdp.publish.answers.certificate import DECLARED, EXACT_ANSWER
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.fields import differences, parts_of
from pufferdp.publish.fits.certificate import Fitted
from pufferdp.publish.fits.kind import KIND as FITS
from pufferdp.publish.flips.certificate import SeriesCertificate
from pufferdp.publish.flips.kind import KIND as FLIPS
from pufferdp.publish.flips.kind import FlipKind, FlipProblem
from pufferdp.publish.flips.plan import FlipDesign
from pufferdp.publish.flows import kind as flows
from pufferdp.publish.flows.estimate import estimate_chain
from pufferdp.publish.kind import Kind, Made, kind_of, kinds

GOLDEN = Path(__file__).parents[1] / "golden"
Step = str | int
Place = tuple[Step, ...]

ALIKE = (
    "answer-class", "answer-count-exact-laplace", "answer-fitted", "answer-frequency-curve", "answer-gk16",
    "answer-mean-gap", "answer-pedigree", "flip-two-states", "flow-record", "redaction-window",
)  # fmt: skip
"""These have the shape of others: with or without a ledger, a quilt, a transport, a posterior, a repair."""
CERTIFICATES = sorted(
    path.stem
    for path in GOLDEN.glob("*.json")
    if not path.stem.startswith(("fit-", "ledger-")) and path.stem not in ALIKE
)
SLOW = (
    "answer-clock-gaps", "answer-hidden", "answer-unit", "flip-three-states", "charged-answer",
    "charged-flow", "answer-gaussian-tight",
)  # fmt: skip
"""Each change is verified anew, and of these that takes a while. What is charged has a twin without a charge."""


FORMED = (
    "pufferdp", "created", "table.sha256", "measurement.values", "ledger.charged", "ledger.previous",
    "ledger.identity",
)  # fmt: skip


def golden(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return content


def changed_values(value: Any) -> list[Any]:
    """Other values of the same type, and of others."""
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, (int, float)):
        # By one per cent as well: what is only simulated, or follows from nothing, does not show it.
        return [value + 1, value - 2.5, *([value * 1.01] if value else []), str(value)]
    if isinstance(value, str):
        # The first digit is another one: a time is still a time, a version a version, and a hash a hash.
        alike = re.sub(r"\d", lambda digit: str(9 - int(digit[0])), value, count=1)
        return [f"{value}x", "", None, *([] if alike == value else [alike])]
    if isinstance(value, list):
        # Numbers are also moved together, as both ends of a range: noise often depends on its width alone.
        together = [[end + 1 for end in value]] if value and all(type(end) in (int, float) for end in value) else []
        return [[*value, copy.deepcopy(value[-1])], value[:-1], *together] if value else [["x"], [1]]
    return [1, "x", []]


def changes(content: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every way to change one leaf, one list or one set of keys; ``...`` stands for a key that is taken out."""
    if isinstance(content, dict):
        yield (*place, "extra"), 1
        if place:
            yield place, None
        for key, inner in content.items():
            if (*place, key) != ("sha256",):
                yield (*place, key), ...
                yield from changes(inner, (*place, key))
        return
    for value in changed_values(content):
        yield place, value
    if isinstance(content, list):
        # Of a long list its ends: what lies between is checked as they are.
        for n in sorted({0, len(content) - 1} if content else set()):
            yield from changes(content[n], (*place, n))


def put(content: Any, place: Place, value: Any) -> Any:
    if not place:
        return value
    out, (step, *rest) = copy.copy(content), place
    if value is ... and not rest:
        del out[step]
    else:
        out[step] = put(content[step], tuple(rest), value) if rest else value
    return out


def value_at(content: Any, place: Place) -> Any:
    for step in place:
        content = content[step]
    return content


def is_listed(path: str, listed: dict[str, str]) -> bool:
    """Whether a field, or a part that it is in, is on a list of unprovable fields."""
    return any(path == name or path.startswith(f"{name}.") for name in listed)


def path_of(place: Place) -> str:
    """As claims name it: without the numbers of entries."""
    return ".".join(str(step) for step in place if isinstance(step, str))


def solve_once(kind: Kind[Any, Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Solve what is the same to the last bit once: most leaves are none of the problem, and it would be solved anew."""
    problems: dict[bytes, Any] = {}
    solutions: dict[int, Any] = {}
    state, solve = kind.problem, kind.solve

    def problem(certificate: Any, **more: Any) -> Any:
        fresh = state(certificate, **more)
        try:
            return problems.setdefault(pickle.dumps(fresh), fresh)
        except (pickle.PicklingError, AttributeError):  # it has a function of the test
            return fresh

    def solution(problem: Any, progress: Any) -> Any:
        if not any(problem is kept for kept in problems.values()):
            return solve(problem, progress)
        if id(problem) not in solutions:
            solutions[id(problem)] = solve(problem, progress)
        return solutions[id(problem)]

    monkeypatch.setattr(kind, "problem", problem)
    monkeypatch.setattr(kind, "solve", solution)

    # The estimates of a flow follow from what was published, not from the problem.
    estimates: dict[bytes, Any] = {}

    def estimate(*given: Any) -> Any:
        key = pickle.dumps(given)
        if key not in estimates:
            estimates[key] = estimate_chain(*given)
        return estimates[key]

    monkeypatch.setattr(flows, "estimate_chain", estimate)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CERTIFICATES]
)
def test_every_leaf_of_a_certificate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = golden(name)
    kind = kind_of(content["schema"])
    solve_once(kind, monkeypatch)
    query = Query.of_function(lambda chains: 0.0, 1.0, 1) if name == "answer-function" else None
    assert verify(content, query=query).valid
    passed = set()
    for place, value in changes(content):
        forged = put(content, place, value)
        forged["sha256"] = content_hash(forged)
        if verify(forged, query=query).valid:
            path = path_of(place)
            assert is_listed(path, kind.unprovable), (path, value)
            passed.add(path)
            # What nobody can recompute can still be written in one way only.
            assert path not in ("ledger.dataset", "data.id") or value != ""
            assert path not in FORMED or value not in (f"{value_at(content, place)}x", ""), (path, value)
    # The list is what it says: some of it did pass, and it is short.
    assert {"pufferdp", "created", "data.column"} <= passed
    assert len(kind.unprovable) <= 25


def declared(part: type[BaseModel], path: str = "") -> Iterator[str]:
    """Every field of a certificate and of its parts, as claims name it."""
    for name, field in part.model_fields.items():
        at = f"{path}.{field.alias or name}".removeprefix(".")
        yield at
        for inner in parts_of(field.annotation):
            yield from declared(inner, at)


def filled(content: Any, path: str = "") -> Iterator[str]:
    """The fields of a certificate that are there, also where they are null."""
    if isinstance(content, list):
        for entry in content:
            yield from filled(entry, path)
    else:
        yield path
        for key, inner in content.items() if isinstance(content, dict) else ():
            yield from filled(inner, f"{path}.{key}".removeprefix("."))


def test_every_field_of_every_release_type_is_changed() -> None:
    """A field is forgotten where no certificate has it: each is filled in in one whose leaves are changed."""
    from tests.publish.test_every_mechanism import MADE
    from tests.publish.test_model_checks import FITS, RELEASES, with_checks

    made = [golden(name) for name in CERTIFICATES]
    made += [MADE[name]().certificate.to_dict() for name in ("secrets", "3r-optimal", "after")]
    made.append(RELEASES["answer"](with_checks(FITS)).certificate.to_dict())  # changed in test_model_checks.py
    # What was read, what was charged and what the data said are the same parts in every certificate.
    parts = ("data.", "ledger.", "model_checks")
    shared = {path for content in made for path in filled(content) if path.startswith(parts)}
    for kind in kinds():
        if kind.schema:
            there = {path for content in made if content["schema"] == kind.schema for path in filled(content)}
            assert set(declared(kind.certificate)) - there - shared == set(), kind.schema


@pytest.mark.parametrize("name", ["charged-answer", "charged-flip", "charged-redaction", "charged-flow"])
@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("missing", "refusex", "missing is 'refusex'"),
        ("missing", "break", "missing is 'break'"),
        ("gap", "10min", "restart is '10min'"),
        ("gap", -1.0, "restart is -1"),
    ],
)
def test_no_kind_can_be_read_in_a_way_that_there_is_not(name: str, field: str, value: Any, words: str) -> None:
    content = golden(name)
    content["data"] |= {field: value} | ({"order": None} if value == "10min" else {"order": "t"})
    found = verify({**content, "sha256": content_hash(content)})
    assert any("cannot have been read like this" in text and words in text for text in found.problems), found.problems


def test_a_field_that_is_not_made_again_cannot_be_verified() -> None:
    """A release type that forgets a field makes no certificate, and verifies none."""
    content = golden("charged-flip")
    problem = FLIPS.problem(SeriesCertificate.model_validate(content))
    design = FLIPS.solve(problem, lambda words: None)
    made = Made(
        data=content["data"], ledger=content["ledger"], created=content["created"], warnings=content["warnings"]
    )
    again = FLIPS.certify(problem, design, made).to_dict()
    # Recomputed by another formula than the one it was made by: the same up to rounding.
    assert again["channel"].pop("loss") == pytest.approx(content["channel"]["loss"], abs=1e-12)
    stated = {**content, "channel": {key: value for key, value in content["channel"].items() if key != "loss"}}
    assert {**again, "sha256": ""} == {**stated, "sha256": ""}

    class Silent(FlipKind):
        def content(self, problem: FlipProblem, solution: FlipDesign, made: Made) -> dict[str, Any]:
            return {key: value for key, value in super().content(problem, solution, made).items() if key != "once"}

    with pytest.raises(ValidationError, match="once"):
        Silent().certify(problem, design, made)
    assert any("once" in text for text in Silent().verify(content)[0])


def test_what_follows_is_said_in_the_warnings() -> None:
    """Warnings may be added by whoever makes a release, but those that follow are there, and only where they do."""
    function = golden("answer-function")
    assert DECLARED in function["warnings"]
    silent = {**function, "warnings": []}
    boast = {**golden("charged-answer"), "warnings": [EXACT_ANSWER]}
    for forged in (silent, boast):
        forged["sha256"] = content_hash(forged)
        problems = verify(forged, query=Query.of_function(lambda chains: 0.0, 1.0, 1)).problems
        assert len(problems) == 1
        assert problems[0].startswith(("warnings must have the entry", "warnings must not have the entry"))


@pytest.mark.parametrize("name", ["fit-private", "fit-class"])
def test_every_leaf_of_what_a_model_file_says_of_its_fit(name: str) -> None:
    """A fit has no certificate of its own: its model file says what was fitted, in fields that declare their checks."""
    fitted = golden(name)["fitted"]
    problem = FITS.problem(Fitted.model_validate(fitted))
    again = FITS.content(problem, FITS.solve(problem, lambda words: None), Made(data=fitted))
    assert differences(fitted, again) == []
    for place, value in changes(fitted):
        if not differences(put(fitted, place, value), again):
            assert is_listed(path_of(place), FITS.unprovable), place


# ---- what a ledger keeps ----

EXPORT = golden("ledger-export")
CONTENTS = dict(EXPORT["problems"])
ROWS = {json.loads(CONTENTS[problem])["kind"]: (dataset, problem) for dataset, _, _, problem, _, _ in EXPORT["entries"]}


def forged_export(dataset: str, problem: str, content: dict[str, Any]) -> dict[str, Any]:
    """The export of one data set with another charge, every hash and every total made anew."""
    text = canonical_json(content)
    contents = {
        hash_chain.digest(text) if sha == problem else sha: text if sha == problem else c for sha, c in CONTENTS.items()
    }
    ((name, normalised, definition, _),) = [row for row in EXPORT["datasets"] if row[0] == dataset]
    raw = json.loads(definition)
    state, entries = State(hash_chain.digest(definition), raw["model"]), []
    for _, position, created, sha, identity, _ in [row for row in EXPORT["entries"] if row[0] == dataset]:
        sha = hash_chain.digest(text) if sha == problem else sha
        head = hash_chain.link(state.head, position, created, sha, identity)
        entries.append([dataset, position, created, sha, identity, head])
        state = state.after(Charge.from_content(contents[sha], state.model, raw["adversary"]), head)
    out = {**EXPORT, "datasets": [[name, normalised, definition, state.to_json()]], "entries": entries}
    return {**out, "problems": [list(item) for item in contents.items()]}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in ("additive", "dp", "fit", "flip") else name
        for name in ROWS
    ],
)
def test_every_leaf_of_a_charge(name: str, tmp_path: Path) -> None:
    """The ledger refuses to import a charge that does not follow from its facts, however well its hashes are mended."""
    dataset, problem = ROWS[name]
    content = json.loads(CONTENTS[problem])
    listed = {path: why for kind in kinds() if name in kind.ledger_kinds for path, why in kind.row_unprovable.items()}
    if name == "dp":  # the loss of an algorithm that nobody here knows is its author's word, and ``verify`` says so
        listed = {"dp_loss": "its author's word", "longest": "the same", "facts": "the same", "width": "the same"}
        listed |= {"epsilon": "the same"}
    imported = 0
    for place, value in [((), content), *changes(content)]:
        try:
            export = forged_export(dataset, problem, put(content, place, value))
        except (PufferdpError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
            continue  # no charge at all: nobody can compute the totals that the row would need
        with Ledger(tmp_path / f"{imported}.db", create=True) as ledger:
            try:
                import_ledger(ledger, export)
            except LedgerError:
                continue
        imported += 1
        assert place == () or is_listed(path_of(place), listed), (place, value)
    assert imported > 0


def test_the_guide_lists_what_nobody_can_recompute() -> None:
    """The tables in docs/guide/certificate.md are the lists in the code."""
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "certificate.md").read_text(encoding="utf-8")
    part = guide.split("## What nobody can recompute")[1].split("\n## ")[0]
    lines = re.findall(r"^\| (.*) \| (.*) \| (.*) \|$", part, re.M)
    names = {"pufferdp-certificate/2": "answer", "pufferdp-series-certificate/2": "flip"}
    names |= {"pufferdp-table-certificate/2": "table", "pufferdp-measurement-certificate/2": "measurement"}
    names |= {"pufferdp-redaction-certificate/2": "redaction", "pufferdp-flow-certificate/2": "flow", "": "fit"}
    listed: dict[tuple[str, str], set[str]] = {}
    for kind in kinds():
        for path, why in kind.unprovable.items():
            listed.setdefault((f"`{path}`", why), set()).add(names[kind.schema])
    everywhere = {*names.values()} - {"fit"}
    fields = {
        (path, "all" if who == everywhere else ", ".join(sorted(who)), why) for (path, why), who in listed.items()
    }
    facts = {
        (", ".join(kind.ledger_kinds), f"`{path}`", why)
        for kind in kinds()
        for path, why in kind.row_unprovable.items()
    }
    heads = {("field", "certificate of", "why"), ("charge", "field", "why"), ("---", "---", "---")}
    assert set(lines) == fields | facts | heads
