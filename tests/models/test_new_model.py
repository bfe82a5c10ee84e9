"""A model of another type, written in one class here: planned, released, verified, measured and charged.

Nothing else in the house knows it. Its numbers are those of enumeration.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp import (
    JointTable,
    Ledger,
    MarkovChain,
    MarkovClass,
    ModelClass,
    ModelError,
    NotApplicableError,
    RefusedError,
    attack_simulated,
    audit_mechanism,
    design_flips,
    flip,
    flow,
    leakage_of,
    leakage_of_losses,
    load_model,
    plan,
    plan_flow,
    plan_redaction,
    plan_table,
    release,
    robustness,
    save_model,
    secret_leakage,
    stream_budget,
    stream_leakage,
    verify,
)
from pufferdp.models.base import Model, RecordModel
from pufferdp.models.chain import SeriesModel
from pufferdp.models.files.json import model_digest, model_from_dict, model_to_dict
from pufferdp.models.inference import Factor
from pufferdp.models.simulate import sample, seeded
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.noise import SeededSampler
from tests.oracles import records as brute
from tests.strategies import epsilons

ROUNDING = 1e-9
"""Leakage by enumeration is itself computed in doubles."""


@dataclass(frozen=True, kw_only=True)
class NoisyCopies(RecordModel):
    """The first record is a coin; each other one copies it, and is right with the same probability."""

    file_type: ClassVar[str | None] = "noisy_copies"
    copies: int
    right: float

    def __post_init__(self) -> None:
        if not 0 <= self.copies <= 10 or not 0 <= self.right <= 1:
            raise ModelError(f"{self!r} cannot be; there are 0 to 10 copies, each right with a probability")

    @property
    def records(self):
        return tuple(str(n) for n in range(1, self.copies + 2))

    @property
    def domains(self):
        return (("0", "1"),) * (self.copies + 1)

    def outcomes(self):
        rows = np.array(list(itertools.product((0, 1), repeat=self.copies + 1)))
        alike = (rows[:, 1:] == rows[:, :1]).sum(axis=1)
        distribution = 0.5 * self.right**alike * (1 - self.right) ** (self.copies - alike)
        return rows[distribution > 0], distribution[distribution > 0]


class DrawnCopies(NoisyCopies):
    """The same belief, which also says who depends on whom: better noise follows."""

    file_type: ClassVar[str | None] = "drawn_copies"

    @property
    def factors(self):
        copy = np.array([[self.right, 1 - self.right], [1 - self.right, self.right]])
        return (Factor((0,), np.array([0.5, 0.5])), *(Factor((0, i), copy) for i in range(1, self.copies + 1)))


@dataclass(frozen=True, kw_only=True)
class TwoTempers(SeriesModel):
    """A series that is calm or restless for good, and nobody knows which: a class of two chains."""

    file_type: ClassVar[str | None] = "two_tempers"
    calm: float
    restless: float

    @property
    def labels(self):
        return ("0", "1")

    @property
    def chains(self):
        return tuple(MarkovChain(transition=[[p, 1 - p], [1 - p, p]]) for p in (self.calm, self.restless))


def written_out(model: NoisyCopies):
    """The joint distribution in Fractions, from the two numbers that made the model."""
    copy = [[model.right, 1 - model.right], [1 - model.right, model.right]]
    parents = [[], *([0] for _ in range(model.copies))]
    return brute.network_joint(parents, [[0.5, 0.5], *(copy for _ in range(model.copies))]), brute.moral(parents)


def answers(model: NoisyCopies, query: str):
    return brute.answers(model.domains, model.labels, query, [0, 1])


RIGHT = st.sampled_from([0.0, 0.125, 0.5, 0.75, 0.9, 1.0]) | st.floats(0.01, 0.99)
models = st.builds(NoisyCopies, copies=st.integers(0, 4), right=RIGHT)


@given(model=models, query=st.sampled_from(["count:1", "sum", "mean"]), epsilon=epsilons)
def test_what_is_planned_leaks_at_most_epsilon(model, query, epsilon):
    joint, _ = written_out(model)
    for adversary in ("pufferfish", "bdp"):
        made = plan(model, query, epsilon=epsilon, adversary=adversary)
        for candidate in made.candidates:
            if candidate.applies:
                leaked = brute.leakage(
                    joint, answers(model, query), candidate.calibration.scale, everyone=adversary == "bdp"
                )
                assert leaked <= epsilon + ROUNDING, (candidate.mechanism, adversary)
        assert made.candidate("group").calibration.sigma == pytest.approx((model.copies + 1) / epsilon)


@given(model=models, epsilon=epsilons)
def test_the_distance_of_distributions_is_that_of_enumeration(model, epsilon):
    joint, _ = written_out(model)
    found = plan(model, "count:1", epsilon=epsilon, adversary="pufferfish").candidate("wasserstein")
    literal = float(brute.wasserstein(joint, answers(model, "count:1"))) / epsilon
    if found.applies:  # with a tiny epsilon rounding may cost too much of it
        assert found.calibration.sigma == pytest.approx(literal, rel=1e-9)
    else:
        assert "rounding" in found.reason


@given(model=models, tau=st.sampled_from([0.05, 0.4, 2.0]), adversary=st.sampled_from(["bdp", "pufferfish"]))
def test_the_leakage_is_that_of_enumeration(model, tau, adversary):
    joint, _ = written_out(model)
    found = leakage_of(model, dp_epsilon=tau, query="count:1", adversary=adversary)
    literal = brute.leakage(joint, answers(model, "count:1"), 1 / tau, everyone=adversary == "bdp")
    assert found.exact == pytest.approx(literal, rel=1e-8, abs=1e-9)
    assert found.curves["general"] == pytest.approx((model.copies + 1) * tau)
    assert found.exact <= found.curves[found.best] * (1 + 1e-9) + 1e-9


@given(
    copies=st.integers(1, 4),
    right=st.floats(0.05, 0.95),
    epsilon=st.sampled_from([0.5, 1.0, 3.0]),
)
def test_a_model_that_knows_its_graph_has_quilts(copies, right, epsilon):
    model = DrawnCopies(copies=copies, right=right)
    joint, links = written_out(model)
    found = plan(model, "count:1", epsilon=epsilon, adversary="pufferfish")
    literal = brute.quilt_sigma(joint, links, [1.0] * joint.ndim, epsilon)
    assert found.candidate("quilt-exact").calibration.sigma == pytest.approx(literal, rel=1e-9)
    plain = plan(NoisyCopies(copies=copies, right=right), "count:1", epsilon=epsilon, adversary="pufferfish")
    assert "needs a graph" in plain.candidate("quilt-exact").reason
    same = [made.candidate("wasserstein").calibration.sigma for made in (found, plain)]
    assert same[0] == pytest.approx(same[1], rel=1e-9)


def test_released_verified_and_charged(tmp_path):
    model = NoisyCopies(copies=3, right=0.9)
    rows = pd.DataFrame({"who": ["2", "1", "4", "3"], "state": ["1", "1", "0", "1"]})
    books = tmp_path / "books.db"
    with Ledger(books, create=True) as ledger:
        ledger.create("copies", model=model, adversary="bdp", budget=3.0)
    read = {"model": model, "column": "state", "id": "who", "query": "count:1", "epsilon": 1.0}
    done = release(rows, **read, sampler=SeededSampler(1), ledger=books, dataset="copies")
    text = json.dumps(done.certificate.to_dict())
    assert verify(json.loads(text)).problems == ()
    assert done.certificate.model == {"type": "noisy_copies", "copies": 3, "right": 0.9}
    assert done.certificate.public[0] == "which records there are (4)"
    assert "any model of the class" not in done.certificate.guarantee.statement
    with Ledger(books) as ledger:
        found = ledger.dataset("copies")
        assert (found.releases, found.leakage) == (1, 1.0)
        assert ledger.verify(found.head).problems == ()
    assert verify(done.certificate, head=found.head).valid
    other = NoisyCopies(copies=3, right=0.8)
    with pytest.raises(RefusedError, match="release with that one"):
        release(rows, **{**read, "model": other}, ledger=books, dataset="copies")
    with pytest.raises(RefusedError, match="budget"):
        release(rows, **{**read, "epsilon": 10.0}, ledger=books, dataset="copies")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"right": 0.5}, "not the digest"),
        ({"right": 1.5}, "cannot be; there are 0 to 10 copies"),
        ({"right": "much"}, "makes no noisy_copies"),
        ({"wrong": 0.1}, "wrong is not a key known here"),
        ({"type": "noisy_copy"}, "it must be one of"),
    ],
)
def test_a_certificate_with_another_model_does_not_hold(change, words):
    done = release(
        pd.DataFrame({"state": ["1", "0"]}),
        model=NoisyCopies(copies=1, right=0.9),
        column="state",
        query="count:1",
        epsilon=1.0,
    )
    raw = done.certificate.to_dict()
    raw["model"] = {**raw["model"], **change}
    raw["sha256"] = content_hash(raw)
    found = verify(raw)
    assert not found.valid
    assert any(words in problem for problem in found.problems), found.problems


@pytest.mark.slow
def test_a_class_of_series_is_planned_as_its_chains_are():
    model = TwoTempers(calm=0.9, restless=0.4)
    listed = MarkovClass(models=model.chains)
    asked = {"query": "count:1", "epsilon": 1.0, "length": 30}
    for adversary in ("bdp", "pufferfish", "dp"):
        ours, theirs = (plan(m, **asked, adversary=adversary).to_dict() for m in (model, listed))
        assert ours == theirs
        losses = [leakage_of(m, dp_epsilon=0.3, length=30, adversary=adversary).to_dict() for m in (model, listed)]
        assert losses[0] == losses[1]
    done = release(pd.DataFrame({"state": ["1", "0"] * 15}), model=model, column="state", query="count:1", epsilon=1.0)
    assert verify(json.loads(json.dumps(done.certificate.to_dict()))).problems == ()
    assert "uses any model of the class" in done.certificate.guarantee.statement


@pytest.mark.slow
def test_a_class_of_series_is_flipped_as_its_chains_are():
    model = TwoTempers(calm=0.9, restless=0.4)
    listed = MarkovClass(models=model.chains)
    assert design_flips(model, 1.0, length=30).rho == design_flips(listed, 1.0, length=30).rho


def test_files(tmp_path):
    model = NoisyCopies(copies=2, right=0.75)
    save_model(model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    assert again == model
    assert model_digest(again) == model_digest(model)
    several = ModelClass(models=(model, NoisyCopies(copies=2, right=0.25)))
    back = model_from_dict(model_to_dict(several))
    assert model_to_dict(back) == model_to_dict(several)
    assert plan(back, "count:1", epsilon=1).best.applies
    rows = pd.DataFrame({"state": ["1", "0", "1"]})
    done = release(rows, model=several, column="state", query="count:1", epsilon=1.0)
    assert "uses any model of the class" in done.certificate.guarantee.statement
    assert verify(done.certificate).problems == ()
    for kind in ("markov_chain", None, ["joint"], "class"):
        with pytest.raises(ModelError, match=r"models\.1\.type is .*; it must be one of .*noisy_copies"):
            model_from_dict({"type": "class", "models": [model_to_dict(model), {"type": kind}]})
    with pytest.raises(ModelError, match=r"right is missing; it is needed \(in a noisy_copies file\)"):
        model_from_dict({"type": "noisy_copies", "copies": 2})


def test_a_type_has_one_class():
    with pytest.raises(ModelError, match="has the file type 'joint', which JointTable has"):

        class Other(NoisyCopies):
            file_type: ClassVar[str | None] = "joint"

    assert isinstance(model_from_dict({"type": "noisy_copies", "copies": 0, "right": 1}), NoisyCopies)


def test_the_rest_of_the_house_takes_it_too():
    model = NoisyCopies(copies=1, right=0.75)
    table = JointTable(
        values=["0", "1"], outcomes=[(0, 0), (0, 1), (1, 0), (1, 1)], probabilities=[0.375, 0.125, 0.125, 0.375]
    )
    assert robustness(model, table, epsilon=1).delta == 0
    drawn = sample(model, 4000, seeded(5), given={"1": "1"})
    # Hoeffding: 4000 draws miss 0.75 by 0.05 with a probability of at most 2 exp(-2·4000·0.05²) < 5e-9.
    assert abs(drawn[:, 1].mean() - 0.75) < 0.05
    with pytest.raises(NotApplicableError, match="NoisyCopies"):
        design_flips(model, 1.0)
    assert isinstance(model, Model)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sticky(SeriesModel):
    """Two states that are kept with the same probability: a chain, by one number."""

    file_type: ClassVar[str | None] = "sticky"
    stay: float

    @property
    def labels(self):
        return ("rest", "active")

    @property
    def chain(self):
        return MarkovChain(
            transition=[[self.stay, 1 - self.stay], [1 - self.stay, self.stay]], states=["rest", "active"]
        )

    @property
    def chains(self):
        return (self.chain,)


COMMANDS = {
    "plan": lambda model, rows: plan(model, "count:active", epsilon=1.0, length=12).to_dict()["candidates"],
    "plan_table": lambda model, rows: plan_table(model, ["histogram"], epsilon=1.0, length=12, per="day").to_dict(),
    "plan_flow": lambda model, rows: plan_flow(model, eta=0.05, tau=0.5, length=60).to_dict()["constants"],
    "flip": lambda model, rows: design_flips(model, 1.0, length=12).to_dict(),
    "redact": lambda model, rows: plan_redaction(model, length=24, private=[12], epsilon=1.0).to_dict(),
    "leakage": lambda model, rows: leakage_of(model, dp_epsilon=0.3, length=12, query="count:active").to_dict(),
    "unit": lambda model, rows: leakage_of(model, dp_epsilon=0.3, length=12, unit=3).to_dict(),
    "every": lambda model, rows: leakage_of(model, dp_epsilon=0.1, every=4, window=8).to_dict(),
    "stream": lambda model, rows: stream_leakage(model, 0.2, length=12).to_dict(),
    "stream target": lambda model, rows: stream_budget(model, 1.0, length=12).to_dict(),
    "losses": lambda model, rows: leakage_of_losses(model, [0.1, 0.0, 0.3]).to_dict(),
    "secret": lambda model, rows: secret_leakage(model, "ever:active:2..4", dp_epsilon=0.5, length=6).to_dict(),
    "robustness": lambda model, rows: robustness(model, MarkovChain(
        transition=[[0.8, 0.2], [0.2, 0.8]], states=["rest", "active"]), epsilon=1.0, length=12).to_dict(),
    "attack": lambda model, rows: attack_simulated(model, length=20, epsilon=1.0, runs=3).to_dict(),
    "audit": lambda model, rows: audit_mechanism(
        model, "laplace:count:active", length=3, dp_epsilon=1.0, calls=2000, seconds=600).to_dict(),
    "flipped": lambda model, rows: flip(
        rows, model=model, column="state", epsilon=1.0, sampler=SeededSampler(1)).to_dict()["certificate"]["channel"],
    "released": lambda model, rows: release(
        rows, model=model, column="state", query="histogram", epsilon=1.0, sampler=SeededSampler(1)).answer,
    "flow": lambda model, rows: flow(
        rows, model=model, column="state", eta=0.05, tau=0.5, sampler=SeededSampler(1)).to_dict()["flow"],
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_a_series_model_of_another_type(command):
    """Its results are those of the chain that it is."""
    model = Sticky(stay=0.8)
    rows = pd.DataFrame({"state": ["rest", "active", "active"] * 20})
    ours, theirs = (COMMANDS[command](member, rows) for member in (model, model.chain))
    assert ours == theirs
