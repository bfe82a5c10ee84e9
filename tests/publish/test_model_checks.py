"""What the data said about a model: every release states it, nobody can strip it, and it stops a refuted release."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pufferdp import EffectiveLeakage, Ledger, MarkovChain, flip, flip_stream, leakage_of, plan, redact, release, verify
from pufferdp.basics.errors import ModelError, ParameterError, RefusedError
from pufferdp.models.files.json import model_digest, model_from_dict, model_to_dict, save_model
from pufferdp.publish.answers.fleet import release_fleet
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.model_checks import ModelChecks
from tests.publish.measurements.test_measurements import counts

STATES = ["rest", "rest", "rest", "active", "active", "rest"] * 20
FRAME = pd.DataFrame({"state": STATES, "t": range(len(STATES)), "who": ["a"] * 60 + ["b"] * 60})
READ: dict[str, Any] = {"column": "state", "order": "t"}
PLAIN = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]], states=("rest", "active"), step=1)
FITS = EffectiveLeakage(estimate=1.1, interval=(1.0, 1.2), proven=0.914, half_window=15, records=9000, blocks=60)
MISFIT = replace(FITS, estimate=2.9, interval=(2.7, 3.1), proven=2.318)


def with_checks(effective: EffectiveLeakage, **more: Any) -> MarkovChain:
    return replace(PLAIN, checks={"effective_leakage": effective.to_dict(), **more})


def stream(model: MarkovChain, **more: Any) -> Any:
    return flip_stream(
        io.BytesIO(FRAME.to_csv(index=False).encode()), io.BytesIO(), model=model, epsilon=2.0, **READ, **more
    )


RELEASES: dict[str, Callable[..., Any]] = {
    "answer": lambda model, **more: release(FRAME, model=model, query="histogram", epsilon=1.0, **READ, **more),
    "table": lambda model, **more: release(FRAME, model=model, query=["histogram"], epsilon=1.0, **READ, **more),
    "flip": lambda model, **more: flip(FRAME, model=model, epsilon=2.0, **READ, **more),
    "stream": stream,
    "redaction": lambda model, **more: redact(FRAME, model=model, private=[10], epsilon=2.0, **READ, **more),
    "measurement": lambda model, **more: release(
        FRAME, measurement=counts(20.0), model=model, epsilon=3.0, **READ, **more
    ),
    "each person": lambda model, **more: release_fleet(
        FRAME, models={"a": model, "b": model}, by="who", query="histogram", epsilon=1.0, **READ, **more
    ).releases["a"],
}


def test_the_sentence() -> None:
    asked: dict[str, Any] = {"query": "count:rest", "length": 50}
    assert plan(PLAIN, epsilon=1, **asked).to_dict()["model_checks"] == (
        "Guarantee e^1 under this model, not checked against data."
    )
    line = "Guarantee e^1 under this model. On held-out data: estimated e^1.1; proven at least e^0.91 (95 %)."
    checked = plan(with_checks(FITS), epsilon=1, **asked)
    assert checked.to_dict()["model_checks"] == line
    assert line in " ".join(str(checked).split())
    assert "in proportion to epsilon 1: estimated e^0.55; proven at least e^0.45 (95 %)" in " ".join(
        str(plan(with_checks(FITS), epsilon=0.5, **asked)).split()
    )
    nothing = EffectiveLeakage(reason="1,200 records are too few to say")
    assert ModelChecks.of(with_checks(nothing)).effective == nothing
    assert "Not checked against data: 1,200 records are too few to say." in str(
        plan(with_checks(nothing), epsilon=1, **asked)
    )


@pytest.mark.parametrize("kind", RELEASES)
def test_every_release_states_what_the_data_said(kind: str) -> None:
    made = RELEASES[kind](with_checks(FITS))
    content = made.certificate.to_dict()
    assert "On held-out data" in content["model_checks"]["statement"]
    assert content["model_checks"]["accepted_misfit"] is False
    assert "contradict" not in content["guarantee"]["statement"]
    assert verify(content).valid
    assert verify(content, model=with_checks(FITS)).valid
    if kind != "each person":
        assert "On held-out data" in str(made)


@pytest.mark.parametrize("kind", RELEASES)
def test_every_release_states_that_a_model_was_not_checked(kind: str) -> None:
    made = RELEASES[kind](PLAIN)
    content = made.certificate.to_dict()
    assert "not checked against data" in content["model_checks"]["statement"]
    assert kind == "each person" or "not checked against data" in " ".join(str(made).split())
    stripped = {key: value for key, value in content.items() if key != "model_checks"}
    assert verify(content).valid
    assert not verify({**stripped, "sha256": content_hash(stripped)}).valid


@pytest.mark.parametrize("kind", RELEASES)
def test_checks_cannot_be_stripped_or_changed(kind: str) -> None:
    content = RELEASES[kind](with_checks(FITS)).certificate.to_dict()

    def forged(change: Callable[[dict[str, Any]], object], *, digest: bool = False) -> dict[str, Any]:
        new = copy.deepcopy(content)
        change(new)
        if digest:
            new["model_sha256"] = model_digest(model_from_dict(new["model"]))
        new["sha256"] = content_hash(new)
        return new

    changes: list[Callable[[dict[str, Any]], object]] = [
        lambda c: c.pop("model_checks"),
        lambda c: c["model_checks"].update(statement="Guarantee e^1 under this model."),
        lambda c: c["model_checks"].update(accepted_misfit=True),
        lambda c: c["model"].pop("checks"),
        lambda c: c["model"]["checks"]["effective_leakage"].update(proven=0.1),
    ]
    for change in changes:
        assert not verify(forged(change)).valid
    # A whole certificate can be made up for the model without checks; the model file tells.
    without = forged(lambda c: (c.pop("model_checks"), c["model"].pop("checks")), digest=True)
    problems = verify(without, model=with_checks(FITS)).problems
    assert "the certificate does not have the checks of the model: they were left out or changed" in problems


@pytest.mark.parametrize("kind", RELEASES)
def test_a_rejected_model_is_released_from_only_on_request(kind: str) -> None:
    model = with_checks(MISFIT)
    with pytest.raises(RefusedError, match=r"proven at least e\^.*Ways out: .*accept_misfit=True") as refused:
        RELEASES[kind](model)
    assert refused.value.exit_code == 3
    content = RELEASES[kind](model, accept_misfit=True).certificate.to_dict()
    assert content["model_checks"]["accepted_misfit"] is True
    warning = "Warning: the data contradict the model, which was accepted"
    assert warning in content["guarantee"]["statement"]
    assert kind == "each person" or warning in " ".join(str(RELEASES[kind](model, accept_misfit=True)).split())
    assert verify(content).valid


def test_nothing_is_charged_where_a_model_is_rejected(tmp_path: Path) -> None:
    model = with_checks(MISFIT)
    with Ledger(tmp_path / "books.db", create=True) as books:
        books.create("week", model=model, budget=3.0)
        with pytest.raises(RefusedError):
            release(FRAME, model=model, query="histogram", epsilon=1.0, ledger=books, dataset="week", **READ)
        assert books.dataset("week").releases == 0
        release(
            FRAME,
            model=model,
            query="count:rest",
            epsilon=1.0,
            ledger=books,
            dataset="week",
            accept_misfit=True,
            **READ,
        )
        assert books.dataset("week").releases == 1
        assert books.verify().valid


def test_planning_always_works_and_longer_periods_are_a_way_out() -> None:
    model = with_checks(MISFIT)
    assert "proven at least e^2.31" in str(plan(model, "histogram", epsilon=1, length=50))
    blocks = release(FRAME, model=model, query="histogram", epsilon=1.0, unit=31, **READ)
    others = release(FRAME, model=model, query="histogram", epsilon=1.0, adversary="dp", **READ)
    # What the data said is about single records and the noise for them, and about adversaries who need the model.
    statements = [made.certificate.to_dict()["model_checks"]["statement"] for made in (blocks, others)]
    assert "Not checked against data: checks are about single records." in statements[0]
    assert "and without it: this adversary knows all other records" in statements[1]
    assert not any("proven" in statement for statement in statements)
    with pytest.raises(RefusedError):
        release(FRAME, model=model, query="histogram", epsilon=1.0, unit=5, **READ)


def test_whole_people_are_a_way_out(tmp_path: Path) -> None:
    """Whatever the model, everything that a person's records hold is one secret: group privacy."""
    asked: dict[str, Any] = {"query": "count:rest", "epsilon": 2.0, "unit": "person", "by": "who", **READ}
    made = release(FRAME, model=with_checks(MISFIT), **asked)
    content = made.certificate.to_dict()
    assert made.certificate.noise.scale == 60 / 2
    assert "between any two possible sequences for a person's whole series" in content["guarantee"]["statement"]
    assert content["guarantee"]["secrets"].startswith("a person's whole series:")
    assert content["model_checks"]["accepted_misfit"] is False
    assert verify(content).valid
    with pytest.raises(ParameterError, match="unit is person, and all records of a person"):
        release(FRAME, model=PLAIN, **asked, restart=5)
    with (
        Ledger(tmp_path / "books.db", create=True) as books,
        pytest.raises(ParameterError, match="unit is person; a person's series has any number of records"),
    ):
        books.create("week", model=PLAIN, budget=3.0, unit="person")
    with pytest.raises(ParameterError, match="leaks that loss about a person"):
        leakage_of(PLAIN, dp_epsilon=1.0, length=10, unit="person")


def test_calibrated_noise_is_wider_and_stated() -> None:
    model = with_checks(MISFIT, calibrated={"factor": 2.5, "effective_leakage": FITS.to_dict()})
    wide = release(FRAME, model=model, query="count:rest", epsilon=1.0, **READ)
    narrow = plan(PLAIN, "count:rest", epsilon=0.4, length=len(FRAME)).best.calibration
    assert narrow is not None
    assert math.isclose(wide.certificate.noise.scale, narrow.scale, rel_tol=1e-9)
    content = wide.certificate.to_dict()
    assert content["guarantee"]["epsilon"] == 1
    assert "Noise widened for the data, as for e^0.4 under this model." in content["model_checks"]["statement"]
    assert verify(content).valid
    table = release(FRAME, model=model, query=["histogram"], epsilon=1.0, **READ).certificate.to_dict()
    plain = release(FRAME, model=PLAIN, query=["histogram"], epsilon=0.4, **READ).certificate.to_dict()
    assert table["dp_loss"] == pytest.approx(plain["dp_loss"])
    assert verify(table).valid
    with pytest.raises(RefusedError):  # flips are not widened
        flip(FRAME, model=model, epsilon=1.0, **READ)


def test_noise_that_was_wide_enough_is_not_called_widened() -> None:
    model = with_checks(FITS, calibrated={"factor": 1.0, "effective_leakage": FITS.to_dict()})
    made = release(FRAME, model=model, query="count:rest", epsilon=1.0, **READ)
    assert made.certificate.to_dict()["model_checks"]["statement"].startswith("Guarantee e^1 under this model. On held")


def test_a_ledger_accepts_calibrated_noise(tmp_path: Path) -> None:
    model = with_checks(MISFIT, calibrated={"factor": 2.5, "effective_leakage": FITS.to_dict()})
    with Ledger(tmp_path / "books.db", create=True) as books:
        books.create("week", model=model, budget=3.0)
        made = release(FRAME, model=model, query="count:rest", epsilon=1.0, ledger=books, dataset="week", **READ)
        assert books.verify().valid
    assert verify(made).valid


@pytest.mark.parametrize(
    "checks",
    [
        {"effective_leakage": 3},
        {"effective_leakage": {"proven": "much"}},
        {"effective_leakage": {"proven": -1.0}},
        {"effective_leakage": {"epsilon": 0.0}},
        {"effective_leakage": {"interval": [1.0]}},
        {"effective_leakage": {"unknown": 1.0}},
        {"calibrated": {"factor": 0.5}},
        {"calibrated": 7},
    ],
)
def test_checks_that_cannot_be_are_rejected(checks: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="checks"):
        plan(replace(PLAIN, checks=checks), "histogram", epsilon=1, length=50)


def test_checks_survive_files(tmp_path: Path) -> None:
    save_model(with_checks(MISFIT), tmp_path / "m.json")
    content = model_to_dict(with_checks(MISFIT))
    assert model_to_dict(model_from_dict(content)) == content
    with pytest.raises(RefusedError):
        release(FRAME, model=tmp_path / "m.json", query="histogram", epsilon=1.0, **READ)
