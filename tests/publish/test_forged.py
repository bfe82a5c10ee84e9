"""Certificates that are whole in themselves and yet lie: a careful forger makes the hash anew."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import pufferdp
from pufferdp.basics import files
from pufferdp.basics.errors import CertificateError, ModelError, ParameterError
from pufferdp.ledger.history import read_export
from pufferdp.models.chain import MarkovChain
from pufferdp.publish import certificate
from pufferdp.publish.certificate import content_hash, read_certificate
from pufferdp.publish.tables.table import ReleasedTable
from tests.publish.measurements.test_measurements import counts

GOLDEN = Path(__file__).parents[1] / "golden"
ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["rest", "active"])
PEOPLE = pl.DataFrame({"who": [f"p{n:02}" for n in range(20)], "state": ["rest", "active"] * 10})
WHOLE = pl.DataFrame({"state": ["rest", "active"] * 10})


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "sha256": content_hash(content)}


def without_people(content: dict[str, Any]) -> dict[str, Any]:
    """The same with nobody told apart, and no belief in it: one series that is said to be cut."""
    forged = copy.deepcopy(content)
    whole = pufferdp.release(WHOLE.with_row_index("t"), model=ACTIVITY, column="state", query="histogram", epsilon=1)
    data, plain = forged["data"], whole.certificate.to_dict()["data"]
    said = "".join(f" Assumption: {text}." for text in data["assumptions"])
    data |= {"by": None, "assumptions": plain["assumptions"]}
    for name in ("ranges", "independent"):
        data.pop(name, None)
    if data["order"] is not None:
        part = {"from": 0, "to": 39, "by": None}
        data["ranges"] = {"order": data["order"], "unit": "number", "by": None, "parts": [part]}
    alone = "".join(f" Assumption: {text}." for text in plain["assumptions"])
    guarantee = forged["guarantee"]
    assert said in guarantee["statement"]
    guarantee["statement"] = guarantee["statement"].replace(said, alone)
    return sealed(forged)


@pytest.mark.parametrize("verb", ["release", "flip", "flow"])
def test_cuts_that_nothing_makes(verb: str) -> None:
    options: dict[str, Any] = {"model": ACTIVITY, "column": "state", "by": "who", "independent": True}
    if verb == "release":
        made = pufferdp.release(PEOPLE, query="histogram", epsilon=1, **options).certificate
    elif verb == "flip":
        made = pufferdp.flip(PEOPLE, epsilon=1, **options).certificate
    else:
        twice = pl.concat([PEOPLE, PEOPLE]).with_row_index("t")
        made = pufferdp.flow(twice, eta=0.05, tau=0.1, order="t", **options).certificate
    content = made.to_dict()
    assert pufferdp.verify(content).valid
    found = pufferdp.verify(without_people(content))
    assert not found.valid
    assert "there are 20 chains, and nothing cuts the series into more than 1" in " ".join(found.problems)


def test_a_border_beside_what_is_hidden() -> None:
    people = pl.DataFrame({"who": ["a"] * 10 + ["b"] * 10, "state": ["rest"] * 20})
    made = pufferdp.redact(people, model=ACTIVITY, column="state", by="who", private=[10], epsilon=1)
    content = made.certificate.to_dict()
    assert pufferdp.verify(content).valid
    assert content["data"]["chains"] == [[1, 10]]
    forged = copy.deepcopy(content)
    data = forged["data"]
    said = "".join(f" Assumption: {text}." for text in data["assumptions"])
    data["by"] = None
    del data["ranges"]
    data["assumptions"] = [member for member in data["assumptions"] if "independent" not in member]
    fewer = "".join(f" Assumption: {text}." for text in data["assumptions"])
    forged["guarantee"]["statement"] = forged["guarantee"]["statement"].replace(said, fewer)
    found = pufferdp.verify(sealed(forged))
    assert not found.valid
    assert "nothing cuts the series" in " ".join(found.problems)


@pytest.mark.parametrize("kind", ["answer", "table", "flip", "redact", "flow", "measurement"])
@pytest.mark.parametrize("signed", [True, False])
def test_nothing_unknown_stands_beside_a_certificate(tmp_path: Path, kind: str, signed: bool) -> None:
    """Readers of a signed file believe whatever stands in it."""
    output = json.loads(json.dumps(_made(kind).to_dict()))
    if signed:
        output |= {"signature": {"algorithm": "ed25519", "public_key": "00" * 32, "signature": "00" * 64}}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(output))
    assert read_certificate(path) == output["certificate"]
    for content in ({**output, "true_answer": 7}, {"certificate": output["certificate"], "note": "for any data"}):
        path.write_text(json.dumps(content))
        with pytest.raises(CertificateError, match="is a field that nothing is known about"):
            read_certificate(path)
        with pytest.raises(CertificateError, match="is a field that nothing is known about"):
            pufferdp.verify(content)


@pytest.mark.parametrize("key", ["answer", "estimate", "labels", "intervals", "model_estimate"])
def test_numbers_beside_the_certificate(tmp_path: Path, key: str) -> None:
    frame = WHOLE.with_row_index("t")
    made = pufferdp.release(frame, model=ACTIVITY, column="state", order="t", query="count:rest", epsilon=1)
    output = json.loads(json.dumps(made.to_dict()))
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(output))
    assert read_certificate(path) == output["certificate"]
    if key == "intervals":
        output[key]["each"]["low"] += 1
    else:
        output[key] = {"answer": 10**6, "estimate": 10**6, "labels": ["active"], "model_estimate": None}[key]
    path.write_text(json.dumps(output))
    with pytest.raises(CertificateError, match=f"beside the certificate does not follow from it .*{key}"):
        read_certificate(path)


def _made(kind: str) -> Any:
    frame = WHOLE.with_row_index("t")
    options: dict[str, Any] = {"model": ACTIVITY, "column": "state", "order": "t"}
    if kind in ("answer", "table"):
        return pufferdp.release(frame, query="count:rest" if kind == "answer" else ["count:rest"], epsilon=1, **options)
    if kind == "measurement":
        return pufferdp.release(frame, measurement=counts(20.0), epsilon=3, **options)
    if kind == "flip":
        return pufferdp.flip(frame, epsilon=1, **options)
    if kind == "redact":
        return pufferdp.redact(frame, private=[10], epsilon=1, **options)
    return pufferdp.flow(frame, eta=0.05, tau=0.1, **options)


BESIDE = {
    "flip": ("rho", "loss", "expected_noise", "dp_loss", "length", "mechanism", "epsilon", "adversary", "labels",
             "constant"),
    "redact": ("method", "epsilon", "adversary", "leakage", "utility", "records", "private", "mark", "blocks",
               "redaction_probabilities", "leakage_to", "whole", "known", "columns", "kept", "states"),
    "flow": ("flow", "sigma", "dobrushin", "labels", "repair", "estimates", "guess"),
}  # fmt: skip


def _other(value: Any) -> Any:
    """The same shape with one value changed."""
    if isinstance(value, dict):
        key = next(iter(value))
        return {**value, key: _other(value[key])}
    if isinstance(value, list):
        return [*value[:-1], _other(value[-1])] if value else ["x"]
    return f"{value}x" if isinstance(value, str) else (value or 0) + 1


@pytest.mark.parametrize("kind", BESIDE)
def test_series_and_flows_are_not_said_to_be_others_beside_their_certificates(tmp_path: Path, kind: str) -> None:
    """Only answers and tables were compared: a flow could be replaced by another one, and a flip's epsilon."""
    output, path = json.loads(json.dumps(_made(kind).to_dict())), tmp_path / "mine.json"
    path.write_text(json.dumps(output))
    assert read_certificate(path) == output["certificate"]
    for key in BESIDE[kind]:
        path.write_text(json.dumps({**output, key: _other(output[key])}))
        with pytest.raises(CertificateError, match=f"beside the certificate does not follow from it .*{key}"):
            read_certificate(path)


@pytest.mark.parametrize("change", ["rows", "rows alone", "columns", "text", "estimate", "estimate alone"])
def test_a_table_is_not_said_to_be_another_beside_its_certificate(tmp_path: Path, change: str) -> None:
    """Without an estimate beside it, or with one that is no table, any other table was taken."""
    people = pl.DataFrame({"who": ["a"] * 10 + ["b"] * 10, "state": ["rest"] * 20})
    options: dict[str, Any] = {"model": ACTIVITY, "column": "state", "by": "who", "independent": True, "epsilon": 1}
    made = pufferdp.release(people, per=["person"], query=["count:rest"], **options)
    output, path = json.loads(json.dumps(made.to_dict())), tmp_path / "mine.json"
    path.write_text(json.dumps(output))
    assert read_certificate(path) == output["certificate"]
    part = "estimate" if change.startswith("estimate") else "table"
    if change == "text":
        output[part] = "a table"
    elif change == "columns":
        del output[part]["columns"]
    else:
        output[part]["rows"][0][-1] += 1
    if change.endswith("alone"):
        del output["table" if part == "estimate" else "estimate"]
    path.write_text(json.dumps(output))
    with pytest.raises(CertificateError, match="beside the certificate does not follow from it"):
        read_certificate(path)


@pytest.mark.parametrize("where", ["first", "inside", "beside"])
def test_a_name_that_comes_twice(tmp_path: Path, where: str) -> None:
    """Readers differ in which value they take: ``verify`` vouched for the last, and a person reads the first."""
    golden = (GOLDEN / "answer-gk16.json").read_text()
    forged = {
        "first": golden.replace("{", '{"answer": 99999,', 1),
        "inside": golden.replace('"epsilon":', '"epsilon": 0.001, "epsilon":', 1),
        "beside": f'{{"answer": 99999, "answer": {json.loads(golden)["answer"]}, "certificate": {golden}}}',
    }[where]
    path = tmp_path / "mine.json"
    path.write_text(forged)
    with pytest.raises(CertificateError, match="is given twice"):
        read_certificate(path)


def test_names_that_come_twice_in_models_and_exports(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"type": "binary_interval", "low": 0.2, "high": 0.8, "low": 0.45}')
    with pytest.raises(pufferdp.ModelError, match="'low' is given twice"):
        pufferdp.load_model(path)
    export = (GOLDEN / "ledger-export.json").read_text()
    path.write_text(export.replace("{", '{"schema": "another",', 1))
    with pytest.raises(pufferdp.LedgerError, match="'schema' is given twice"):
        read_export(path)


@pytest.mark.parametrize("name", ["measurement-zcdp", "measurement-charged"])
def test_what_a_measurement_returned_stands_there_once(tmp_path: Path, name: str) -> None:
    content, path = json.loads((GOLDEN / f"{name}.json").read_text()), tmp_path / "x.json"
    path.write_text(json.dumps({"answer": content["answer"], "certificate": content}))
    assert read_certificate(path) == content
    path.write_text(json.dumps({"answer": _other(content["answer"]), "certificate": content}))
    with pytest.raises(CertificateError, match=r"beside the certificate does not follow from it .*answer"):
        read_certificate(path)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("answer-count-exact-laplace", -7.2, "count:active must be whole numbers"),
        ("answer-count-exact-laplace", 20.0, "count:active must be whole numbers"),
        ("answer-count-exact-laplace", [20], "one number for each label"),
        ("answer-histogram-quilt-exact", [13.5, 20.5, 3.0], "histogram must be whole numbers"),
        ("answer-frequency-curve", [0.3001, 0.3, 0.3999], "whole numbers over the"),
        ("answer-mean-gap", 20, "mean must be decimal numbers"),
    ],
)
def test_answers_that_no_noise_gives(name: str, answer: Any, words: str) -> None:
    """Of a count -7.2 was believed, and everything that follows from it followed."""
    content = json.loads((GOLDEN / f"{name}.json").read_text())
    found = pufferdp.verify(sealed({**content, "answer": answer}))
    assert not found.valid
    assert any(words in problem for problem in found.problems), found.problems


def test_an_answer_without_noise_can_be_true() -> None:
    """Under a model that fixes the count it has none; 11 of 10 records is no count."""
    options: dict[str, Any] = {"query": "count:1", "epsilon": 1, "adversary": "pufferfish"}
    chain, frame = MarkovChain(transition=[[0, 1], [1, 0]]), pl.DataFrame({"s": [0, 1] * 5})
    content = pufferdp.release(frame, model=chain, column="s", **options).certificate.to_dict()
    assert content["noise"]["scale"] == 0
    assert pufferdp.verify(content).valid
    forged = sealed({**content, "answer": 11, "estimate": 10.0, "model_estimate": None})
    assert any("no noise, and it cannot be true" in problem for problem in pufferdp.verify(forged).problems)


def test_shares_of_a_table_are_of_whole_numbers() -> None:
    people = pl.DataFrame({"who": ["a"] * 10 + ["b"] * 10, "state": ["rest"] * 20})
    made = pufferdp.release(
        people, model=ACTIVITY, column="state", by="who", per=["person"], query=["frequency"], epsilon=1
    )
    content = made.certificate.to_dict()
    assert pufferdp.verify(content).valid
    rows = content["table"]["rows"]
    rows[0][2:] = [rows[0][2] + 0.05, rows[0][3] - 0.05]
    content["table"]["sha256"] = ReleasedTable(tuple(content["table"]["columns"]), tuple(map(tuple, rows))).sha256
    assert any("whole numbers over the 10" in problem for problem in pufferdp.verify(sealed(content)).problems)


def test_a_file_without_end_is_no_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of /dev/zero all memory was filled."""
    monkeypatch.setattr(certificate, "LARGEST", 1000)
    with pytest.raises(CertificateError, match="longer than 1,000 characters; none is"):
        read_certificate("/dev/zero")


def test_nor_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST", 1000)
    with pytest.raises(ModelError, match="longer than 1,000 characters"):
        pufferdp.load_model("/dev/zero")


def test_a_table_is_not_compared_with_the_certificate_of_an_answer(tmp_path: Path) -> None:
    """The command line refused it, and Python took it without a look."""
    golden = Path(__file__).parents[1] / "golden" / "answer-class.json"
    with pytest.raises(ParameterError, match="table= is for certificates of tables"):
        pufferdp.verify(golden, table=tmp_path / "none.csv")
