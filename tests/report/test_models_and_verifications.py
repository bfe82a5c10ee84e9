"""Models and verifications in a notebook: well-formed, escaped, with the numbers they hold; saved as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import pufferdp
from pufferdp.models.base import model_types
from tests.report.examples import EVIL, subject

STAY = [[0.9, 0.1], [0.3, 0.7]]
FILES: dict[str, dict[str, Any]] = {
    "markov_chain": {"transition": STAY, "states": [EVIL, "active"], "values": [0, 1]},
    "markov_class": {"models": [{"type": "markov_chain", "transition": STAY}]},
    "markov_interval": {"low": [[0.8, 0.05], [0.2, 0.6]], "high": [[0.95, 0.2], [0.4, 0.8]]},
    "binary_interval": {"low": 0.3, "high": 0.8},
    "markov_clock": {"transitions": [STAY, STAY], "period": "1d", "step": "12h"},
    "hidden_markov": {"transition": STAY, "emission": [[0.9, 0.1, 0.0], [0.1, 0.2, 0.7]]},
    "hidden_states": {"transition": STAY, "of": [0, 1]},
    "groups": {"sizes": [4], "positives": [[0.1, 0.15, 0.5, 0.15, 0.1]]},
    "joint": {
        "values": [0, 1],
        "outcomes": [{"records": [0, 0], "probability": 0.5}, {"records": [1, 1], "probability": 0.5}],
    },
    "bayesian_network": {"nodes": [{"name": "a", "states": ["no", "yes"], "table": [0.5, 0.5]}]},
    "pedigree": {"members": [{"id": "Eva"}, {"id": "Ida", "mother": "Eva"}], "major_allele_frequency": 0.7},
    "gaussian": {"covariance": [[1.0, 0.2], [0.2, 1.0]], "mean": [0.0, 0.0]},
    "limited_correlation": {"records": 3, "rho": 0.275},
    "ar1": {"coefficient": [0.8, 0.9], "step": "1min"},
    "class": {"models": [{"type": "groups", "sizes": [2], "positives": [[0.5, 0.2, 0.3]]}]},
}


def cells(shown: str) -> list[str]:
    root = ElementTree.fromstring(shown)  # well-formed
    assert not {element.tag for element in root.iter()} & {"script", "img", "link"}
    return ["".join(element.itertext()) for element in root.iter() if element.tag in ("td", "th")]


def test_every_model_file_has_an_example() -> None:
    assert set(FILES) == {name for name, kind in model_types().items() if kind.__module__.startswith("pufferdp.")}


@pytest.mark.parametrize("name", FILES)
def test_a_model_is_shown_and_saved(name: str, tmp_path: Path) -> None:
    source = tmp_path / "source.json"
    source.write_text(json.dumps({"type": name, **FILES[name]}), encoding="utf-8")
    model = pufferdp.load_model(source)
    shown = model._repr_html_()
    assert name in cells(shown)
    assert EVIL not in shown
    model.save(tmp_path / "saved.json")
    pufferdp.save_model(model, tmp_path / "by-function.json")
    assert (tmp_path / "saved.json").read_bytes() == (tmp_path / "by-function.json").read_bytes()
    assert pufferdp.load_model(tmp_path / "saved.json").to_dict() == model.to_dict()
    assert str(model) == repr(model)  # a model prints as one line


def test_a_chain_shows_its_probabilities_and_a_large_one_its_size() -> None:
    assert {"0.9", "0.1", "0.3", "0.7"} <= set(cells(pufferdp.MarkovChain(transition=STAY)._repr_html_()))
    large = pufferdp.MarkovChain(transition=[[1 / 40] * 40] * 40)
    assert "40 × 40 numbers" in cells(large._repr_html_())


def test_a_fitted_model_says_from_what() -> None:
    fitted = pufferdp.fit({"mood": ["a", "b", "a", "a", "b"] * 9}, column="mood", checks=False)
    assert "fitted from the column &#x27;mood&#x27;, 45 records" in fitted.model._repr_html_()


def test_a_verification_shows_its_verdict_and_the_numbers(tmp_path: Path) -> None:
    made = subject("release")
    found = pufferdp.verify(made.certificate)
    cells(found._repr_html_())
    assert all(f" {n}" in found._repr_html_() for n in made.answer)
    assert str(found).startswith("valid\n")
    found.save(tmp_path / "v.json")
    assert json.loads((tmp_path / "v.json").read_text(encoding="utf-8")) == json.loads(json.dumps(found.to_dict()))


def test_a_verification_that_fails_says_why_and_vouches_for_nothing() -> None:
    forged = subject("release").certificate.to_dict()
    forged["guarantee"]["epsilon"] = 0.1
    found = pufferdp.verify(forged)
    assert str(found).startswith("NOT valid\n- the hash does not match")
    shown = found._repr_html_()
    assert "NOT valid" in shown
    assert "<table" not in shown


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flip", "redaction", "flow"])
def test_every_kind_of_certificate_has_a_verification(name: str) -> None:
    found = pufferdp.verify(subject(name, evil=True).certificate)
    cells(found._repr_html_())
    assert EVIL not in found._repr_html_()
    assert str(found).startswith("valid\n")
