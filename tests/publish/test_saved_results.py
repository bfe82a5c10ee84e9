"""Results are saved as the command line writes them, and shown as frames."""

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
