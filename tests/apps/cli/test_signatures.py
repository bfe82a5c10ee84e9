"""A certificate signed by release or sign, and what verify says of it; and of one that would keep it busy."""

from __future__ import annotations

import json
from pathlib import Path

from pufferdp.publish.certificate import read_signed
from tests.apps.cli.conftest import Run
from tests.publish.test_cpu_limit import GOLDEN, forged
from tests.publish.test_signatures import CHAIN, keys


def test_on_the_command_line(run: Run) -> None:
    keys(Path(), "hospital")
    keys(Path(), "stranger")
    Path("d.csv").write_text("state\nrest\nactive\nrest\n")
    Path("m.json").write_text(json.dumps(CHAIN.to_dict()))
    ask = ["release", "d.csv", "--model", "m.json", "--column", "state", "--query", "count:rest", "--epsilon", "1"]
    refused = run(*ask, "--out", "x.json", "--sign", "nobody.pem")
    assert refused.code == 2
    assert not Path("x.json").exists()
    assert run(*ask, "--out", "mine.json", "--sign", "hospital.pem").code == 0
    found = run("verify", "mine.json", "--signer", "hospital.pub")
    assert found.code == 0
    assert "Signed with the key" in found.out
    assert run("verify", "mine.json").code == 0
    assert run("verify", "mine.json", "--signer", "stranger.pub").code == 3
    assert run(*ask, "--out", "plain.json").code == 0
    assert run("verify", "plain.json", "--signer", "hospital.pub").code == 3
    assert run("sign", "plain.json", "--key", "hospital.pem", "--out", "signed.json").code == 0
    assert run("verify", "signed.json", "--signer", "hospital.pub").code == 0
    assert run("sign", "plain.json", "--key", "hospital.pem", "--out", "signed.json").code == 2  # it is there
    content = json.loads(Path("signed.json").read_text())
    content["certificate"]["answer"] += 1
    Path("changed.json").write_text(json.dumps(content))
    assert run("sign", "changed.json", "--key", "stranger.pem", "--out", "y.json").code == 3
    assert read_signed("signed.json")[1] == content["signature"]


def test_a_certificate_that_takes_too_long(run: Run) -> None:
    Path("forged.json").write_text(json.dumps(forged(60)))
    found = run("verify", "forged.json", "--seconds", "0.2")
    assert found.code == 2
    assert "takes more than 0.2 s" in found.err
    assert "allow more with --seconds" in found.err
    assert run("verify", GOLDEN / "answer-gk16.json", "--seconds", "x").code == 2
    assert run("verify", GOLDEN / "answer-gk16.json").code == 0
