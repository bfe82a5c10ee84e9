"""Series whose flips are a chain: drawn along the rows, certified with the exact loss, charged and recomputed."""

from __future__ import annotations

import copy
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import pufferdp
from pufferdp import Ledger, MarkovChain, verify
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import BudgetError, ModelError, NotApplicableError
from pufferdp.bounds.channels.noise_chain import noise_chain_loss
from pufferdp.ledger.charge import noise_chain as noise_charge
from pufferdp.models.files.json import model_digest
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.noise import SeededSampler
from tests.oracles import flips as oracle

CHAIN = MarkovChain(transition=[[0.95, 0.05], [0.05, 0.95]], states=["rest", "active"])
NOISE = MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]], states=["keep", "flip"])
USUAL: dict[str, Any] = {"model": CHAIN, "column": "state", "epsilon": 7.0, "noise_chain": NOISE}


def series(rows: int) -> pandas.DataFrame:
    generator = np.random.default_rng(5)
    changes = generator.random(rows) < 0.05
    return pandas.DataFrame({"state": np.array(["rest", "active"])[np.cumsum(changes) % 2]})


@pytest.fixture
def made() -> dict[str, Any]:
    return pufferdp.flip(series(300), sampler=SeededSampler(2), **USUAL).certificate.to_dict()


def test_the_design_is_that_of_enumeration():
    found = pufferdp.design_flips(CHAIN, 7.0, length=5, noise_chain=NOISE)
    table = oracle.xor_joint(CHAIN.transition, NOISE.transition, 5, [CHAIN.stationary, NOISE.stationary])
    assert found.loss == pytest.approx(max(oracle.table_loss(table, 5, 2).values()), abs=1e-9)
    assert found.dp_loss == pytest.approx(oracle.noise_dp(NOISE.transition, NOISE.stationary, 5), abs=1e-9)
    assert found.expected_noise == pytest.approx(0.25)
    assert found.to_dict()["noise"]["transition"] == pytest.approx(np.array(NOISE.transition), abs=1e-15)
    assert found.rho == pytest.approx([0.25, 0.25])


def test_noise_that_leaks_more_than_guaranteed_is_refused():
    loss = noise_chain_loss(CHAIN, NOISE, 300, Adversary.BDP).upper.worst
    assert pufferdp.design_flips(CHAIN, loss * (1 + 1e-9), length=300, noise_chain=NOISE).loss <= loss * (1 + 1e-9)
    with pytest.raises(NotApplicableError, match=r"leaks up to .* choose noise that flips more"):
        pufferdp.flip(series(300), **{**USUAL, "epsilon": loss * (1 - 1e-6)})


def test_flips_follow_each_other_as_the_chain_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A file line by line, a frame, a stream: 60,000 flips, each share within five standard deviations; fixed seeds."""
    monkeypatch.chdir(tmp_path)
    data = series(60_000)
    data.to_csv("in.csv", index=False)
    pufferdp.flip("in.csv", out="out.csv", sampler=SeededSampler(3), **USUAL)
    sink = io.BytesIO()
    with Path("in.csv").open("rb") as source:
        pufferdp.flip_stream(source, sink, sampler=SeededSampler(4), **USUAL)
    made = {
        "lines": pandas.read_csv("out.csv")["state"].tolist(),
        "stream": sink.getvalue().decode().split()[1:],
        "frame": pufferdp.flip(data, sampler=SeededSampler(5), **USUAL).values,
    }
    for name, values in made.items():
        flips = np.array(values) != data["state"].to_numpy()
        for last, expected in ((False, 0.1), (True, 0.7)):
            after = flips[1:][flips[:-1] == last]
            assert abs(after.mean() - expected) < 5 * math.sqrt(expected * (1 - expected) / len(after)), name


def test_certificates_verify(made: dict[str, Any]):
    assert verify(made).valid, verify(made).problems
    assert made["mechanism"]["name"] == "noise-chain"
    assert made["channel"]["thresholds"] == []
    plain = pufferdp.flip(series(9), model=CHAIN, column="state", epsilon=7.0).certificate.to_dict()
    assert "noise" not in plain["channel"]


def leaves(part: Any, path: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Every leaf with the keys that lead to it."""
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in items:
        at = f"{path}.{key}" if path and not isinstance(part, list) else path or str(key)
        if isinstance(value, (dict, list)) and value:
            yield from ((name, [key, *keys]) for name, keys in leaves(value, at))
        else:
            yield at, [key]


def test_parts_that_do_not_belong_together(made: dict[str, Any]):
    def refused(change: Any) -> None:
        other = copy.deepcopy(made)
        change(other)
        other["sha256"] = content_hash(other)
        assert not verify(other).valid

    refused(lambda c: c["channel"].pop("noise"))
    refused(lambda c: c["mechanism"].update(name="flips"))
    refused(lambda c: c["data"].update(lengths=[[150, 2]]))
    refused(lambda c: c["data"].update(by="who"))
    refused(lambda c: c["channel"]["noise"].update(thresholds=[["1", "1"], ["1", "1"]]))
    refused(lambda c: c["channel"]["noise"].update(start_thresholds=[str(2**64 + 1), "-1"]))
    plain = pufferdp.flip(series(9), model=CHAIN, column="state", epsilon=7.0).certificate.to_dict()
    plain["channel"]["noise"] = None
    plain["sha256"] = content_hash(plain)
    assert not verify(plain).valid


def test_a_ledger_charges_and_recomputes_it(tmp_path: Path):
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", model=CHAIN, adversary="bdp", budget=9.0)
        first = pufferdp.flip(series(300), ledger=ledger, dataset="week", **USUAL)
        found = ledger.dataset("week")
        assert found.spent_dp == pytest.approx(first.design.dp_loss, rel=1e-12)
        assert found.spent_dp >= oracle.noise_dp(NOISE.transition, NOISE.stationary, 5) - 1e-12
        assert found.leakage == 7.0
        assert verify(first.certificate, head=found.head).valid
        with pytest.raises(BudgetError, match="week"):
            pufferdp.flip(series(300), ledger=ledger, dataset="week", **USUAL)
        checked = ledger.verify()
        assert (checked.valid, checked.recomputed, checked.unchecked) == (True, 1, ()), checked.problems


def test_a_ledger_finds_a_guarantee_that_does_not_follow(tmp_path: Path):
    one = 2**64
    start, rows = (one // 2, one // 2), ((one - one // 10, one // 10), (one // 10, one - one // 10))
    about = {"longest": 300, "model": model_digest(CHAIN), "adversary": "bdp"}
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", model=CHAIN, adversary="bdp", budget=90.0)
        ledger.charge("week", noise_charge(start, rows, epsilon=0.5, **about))
        assert "leaks up to" in ledger.verify().problems[0]


def test_a_fair_coin_costs_next_to_nothing():
    half = 2**63
    assert 0 < noise_charge((half, half), ((half, half), (half, half)), longest=9).dp_loss < 1e-15


@pytest.mark.parametrize("way", [{"order": "t"}, {"by": "who"}, {"missing": "keep"}, {"order": "t", "restart": 3.0}])
def test_rows_that_are_not_one_series_are_refused(way: dict[str, Any]):
    frame = series(9).assign(t=range(9), who="a")
    with pytest.raises(NotApplicableError, match="noise that is a chain"):
        pufferdp.flip(frame, **USUAL, **way)


def test_noise_that_cannot_be():
    def design(noise: Any, model: Any = CHAIN) -> None:
        pufferdp.design_flips(model, 7.0, length=9, noise_chain=noise)

    with pytest.raises(NotApplicableError, match="certain or impossible"):
        design(MarkovChain(transition=[[1.0, 0.0], [0.3, 0.7]], start=[0.5, 0.5]))
    with pytest.raises(NotApplicableError, match="certain or impossible"):
        design(MarkovChain(transition=[[0.7, 0.3], [0.3, 0.7]], start=[1.0, 0.0]))
    with pytest.raises(ModelError, match='start "any"'):
        design(MarkovChain(transition=[[0.7, 0.3], [0.3, 0.7]], start="any"))
    with pytest.raises(ModelError, match="one Markov chain of two states"):
        design(MarkovChain(transition=np.full((3, 3), 1 / 3)))
    with pytest.raises(NotApplicableError, match="has 3 states"):
        design(NOISE, MarkovChain(transition=np.full((3, 3), 1 / 3)))


def test_estimates_for_independent_flips_are_refused():
    result = pufferdp.flip(series(50), **USUAL)
    frame = pandas.DataFrame({"state": result.values})
    for estimate in (pufferdp.estimate, pufferdp.posterior_of_flips):
        with pytest.raises(NotApplicableError, match="are a chain"):
            estimate(frame, result.certificate)


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from typer.testing import CliRunner

    from pufferdp.apps.verbs import command_line

    app = command_line([])
    monkeypatch.chdir(tmp_path)
    pufferdp.save_model(CHAIN, "model.json")
    pufferdp.save_model(NOISE, "noise.json")
    series(100).to_csv("in.csv", index=False)
    asked = ["--model", "model.json", "--noise-chain", "noise.json", "--epsilon", "7"]
    design = CliRunner().invoke(app, ["flip", *asked, "--length", "100", "--json"])
    assert json.loads(design.stdout)["mechanism"] == "noise-chain"
    files = ["--out", "out.csv", "--certificate", "made.json"]
    done = CliRunner().invoke(app, ["flip", "in.csv", "--column", "state", *asked, *files])
    assert done.exit_code == 0, done.output
    assert verify(pufferdp.read_certificate("made.json")).valid
    assert CliRunner().invoke(app, ["verify", "made.json"]).exit_code == 0
    done = CliRunner().invoke(app, ["flip", "in.csv", "--column", "state", *asked, "--out", "again.csv", "--json"])
    Path("output.json").write_text(done.stdout)
    assert CliRunner().invoke(app, ["verify", "output.json"]).exit_code == 0  # with the noise beside the certificate
