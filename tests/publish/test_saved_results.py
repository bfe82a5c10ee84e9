"""Results are saved as the command line writes them, and shown as frames."""

import subprocess
import sys

import pufferdp
from pufferdp import MarkovChain

CHAIN = MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]], states=["rest", "active"])
VALUES = ["rest", "rest", "active", "active"] * 20


def test_a_saved_release_verifies_from_its_file(tmp_path):
    made = pufferdp.release(VALUES, model=CHAIN, query="histogram", epsilon=1)
    made.save(tmp_path / "r.json")
    assert pufferdp.verify(tmp_path / "r.json").valid
    assert pufferdp.verify(made).valid and pufferdp.verify(made.to_dict()).valid
    frame = made.to_frame()
    assert list(frame["label"]) == ["rest", "active"] and list(frame["answer"]) == made.answer
    assert all(frame["low"] <= frame["high"])
    assert len(pufferdp.release(VALUES, model=CHAIN, query="count:rest", epsilon=1).to_frame(backend="polars")) == 1


def test_a_saved_fit_is_a_model_file(tmp_path):
    fitted = pufferdp.fit(VALUES)
    fitted.save(tmp_path / "m.json")
    assert pufferdp.load_model(tmp_path / "m.json").to_dict() == fitted.model.to_dict()


def test_a_plan_is_a_frame_with_the_best_first():
    plan = pufferdp.plan(CHAIN, "histogram", epsilon=1, length=60)
    frame = plan.to_frame()
    assert frame["mechanism"][0] == plan.best.mechanism and len(frame) == len(plan.candidates)


def test_streams_and_leakage_are_saved(tmp_path):
    results = pufferdp.stream_budget(CHAIN, 1.0), pufferdp.leakage_of(CHAIN, length=5, dp_epsilon=1)
    for n, result in enumerate(results):
        result.save(tmp_path / f"{n}.json")
        assert (tmp_path / f"{n}.json").read_text().startswith("{") and "<" in result._repr_html_()


def test_a_fit_is_a_frame_of_its_moves():
    fitted = pufferdp.fit(VALUES)
    frame = fitted.to_frame()
    assert list(frame.columns) == ["from", "to", "probability"]
    table = fitted.model.to_dict()["transition"]
    assert list(frame["probability"]) == [p for row in table for p in row]
    assert list(frame["from"]) == [a for a in fitted.model.labels for _ in fitted.model.labels]
    checks = fitted.to_frame(checks=True)
    assert list(checks["check"]) == [check.name for check in fitted.checks]


def test_fits_of_other_models_are_frames():
    bounds = pufferdp.fit(VALUES, confidence=0.9).to_frame()
    assert list(bounds.columns) == ["from", "to", "low", "high"] and all(bounds["low"] <= bounds["high"])
    second = pufferdp.fit(VALUES, memory=2)
    rows = second.to_frame(backend="polars").rows()
    table = second.model.to_dict()["transition"]
    assert [p for _, _, p in rows] == [p for row in table for p in row]
    assert {name for name, _, _ in rows} == {f"{x} {n}" for x in second.model.labels for n in (1, 2)}
    numbers = pufferdp.fit([60 + (7 * n) % 11 for n in range(60)], family="ar1")
    (row,) = numbers.to_frame(backend="polars").to_dicts()
    assert row["low"] == row["high"] == numbers.model.to_dict()["coefficient"]


def test_models_are_frames_of_their_moves_or_of_their_file():
    both = pufferdp.MarkovClass([CHAIN, CHAIN]).to_frame()
    assert list(both.columns) == ["model", "from", "to", "probability"] and len(both) == 2 * len(CHAIN.to_frame())
    hidden = pufferdp.HiddenMarkov(transition=[[0.9, 0.1], [0.3, 0.7]], emission=[[0.8, 0.2], [0.1, 0.9]])
    for model in (
        pufferdp.Groups(sizes=(2,), positives=((0.2, 0.3, 0.5),)),
        pufferdp.BinaryInterval(low=0.2, high=0.8),
        hidden,
    ):
        rows = dict(model.to_frame(backend="polars").select("name", "value").rows())
        assert rows["type"] == model.file_type
    assert rows["emission[1][0]"] == "0.1"


def test_a_verification_is_a_frame_of_what_it_vouches_for():
    made = pufferdp.release(VALUES, model=CHAIN, query="histogram", epsilon=1)
    frame = pufferdp.verify(made).to_frame()
    assert list(frame["answer"]) == list(made.answer) and list(frame["label"]) == list(CHAIN.labels)
    table = pufferdp.release(VALUES, model=CHAIN, query=["histogram", "count:rest"], epsilon=1)
    assert len(pufferdp.verify(table).to_frame().columns) == len(table.to_frame().columns)
    forged = {**made.certificate.to_dict(), "answer": [0, 0]}
    assert list(pufferdp.verify(forged).to_frame().columns) == ["problem"]
    moved = pufferdp.flow(VALUES, model=CHAIN, eta=0.01, tau=0.5)
    assert len(pufferdp.verify(moved).to_frame()) == 4


def test_streams_and_losses_are_frames_of_every_step():
    report = pufferdp.stream_leakage(CHAIN, 0.1, length=1500)  # JSON lists some of so many steps
    frame = report.to_frame()
    assert list(frame["step"]) == list(range(1, 1501)) and list(frame["total"]) == report.total.tolist()
    assert len(pufferdp.stream_leakage(CHAIN, 0.1).to_frame()) == 1
    budget = pufferdp.stream_budget(CHAIN, 1.0)
    assert list(budget.to_frame(4)["dp_epsilon"]) == budget.losses(4).tolist()
    losses = pufferdp.leakage_of_losses(CHAIN, [0.1, 0.0, 0.2])
    assert list(losses.to_frame()["leakage"]) == losses.leakage.tolist()


def test_streams_do_not_load_what_reads_data():
    script = "import sys, pufferdp.assess.streams, pufferdp.assess.losses; assert 'duckdb' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
