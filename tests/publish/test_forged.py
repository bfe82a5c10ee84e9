"""Certificates that are whole in themselves and yet lie: a careful forger makes the hash anew."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import pufferdp
from pufferdp.basics.errors import CertificateError
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.certificate import content_hash, read_certificate

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
    said = f" This believes that {', and that '.join(data['beliefs'])}."
    data |= {"by": None, "beliefs": plain["beliefs"]}
    data.pop("ranges", None)
    believed = f" This believes that {', and that '.join(plain['beliefs'])}." if plain["beliefs"] else ""
    guarantee = forged["guarantee"]
    assert said in guarantee["statement"]
    guarantee["statement"] = guarantee["statement"].replace(said, believed)
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
    said = f" This believes that {', and that '.join(data['beliefs'])}."
    data["by"] = None
    data["beliefs"] = [belief for belief in data["beliefs"] if "independent" not in belief]
    believed = f" This believes that {', and that '.join(data['beliefs'])}." if data["beliefs"] else ""
    forged["guarantee"]["statement"] = forged["guarantee"]["statement"].replace(said, believed)
    found = pufferdp.verify(sealed(forged))
    assert not found.valid
    assert "nothing cuts the series" in " ".join(found.problems)


@pytest.mark.parametrize("key", ["answer", "estimate", "labels", "intervals", "denoised"])
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
        output[key] = {"answer": 10**6, "estimate": 3, "labels": ["active"], "denoised": None}[key]
    path.write_text(json.dumps(output))
    with pytest.raises(CertificateError, match=f"beside the certificate does not follow from it .*{key}"):
        read_certificate(path)
