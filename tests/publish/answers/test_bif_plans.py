"""Plans for published networks, read from their files: every one is made, and the small one agrees with enumeration."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pufferdp import release, verify
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.publish.answers.plan import plan
from tests.oracles import records as brute
from tests.publish.answers.mechanisms.record_suite import written_out

NETWORKS = {
    "asia": ("count:yes", 8),
    "insurance": ("count:True", 27),
    "pigs": ("count:0", 441),
}


@pytest.fixture
def read(shared_data):
    """A network by name."""

    def network(name: str) -> BayesianNetwork:
        path = shared_data / "bif" / f"{name}.bif"
        if not path.is_file():
            pytest.skip(f"PUFFERDP_DATA has no bif/{name}.bif")
        return BayesianNetwork.from_bif(path)

    return network


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "pigs" else name for name in NETWORKS]
)
def test_a_plan_is_made_and_is_never_worse_than_group_privacy(name, read):
    network, (query, records) = read(name), NETWORKS[name]
    assert len(network.records) == records
    made = plan(network, query, epsilon=1, adversary="pufferfish")
    # Group privacy from the file alone: the records of a connected part that can have the state.
    names = [node.name for node in network.nodes]
    links = brute.moral([[names.index(p) for p in node.parents] for node in network.nodes])
    counted = [float(query.removeprefix("count:") in domain and len(domain) > 1) for domain in network.domains]
    together = brute.group_size(links, counted)
    assert made.candidate("group").calibration.sigma == pytest.approx(together, rel=1e-12)
    errors = {c.mechanism: c.calibration.distribution.expected_l1_error for c in made.candidates if c.applies}
    assert errors[made.best.mechanism] == min(errors.values()) <= errors["group"]
    assert made.candidate("quilt-exact").calibration.sigma <= together * (1 + 1e-12)
    wasserstein = made.candidate("wasserstein")
    if wasserstein.applies:
        assert wasserstein.calibration.sigma <= together * (1 + 1e-9)
        assert made.best.mechanism == "exact-laplace"
        assert made.best.calibration.sigma <= wasserstein.calibration.sigma
    else:
        assert "limit" in wasserstein.reason
    assert wasserstein.applies == (name != "pigs")  # 441 records are too many to carry their number along


@pytest.mark.parametrize("epsilon", [1.0, 5.0])
def test_asia_agrees_with_all_its_outcomes(epsilon, read):
    network = read("asia")
    joint, links = written_out(network)
    answers = brute.answers(network.domains, network.labels, "count:yes")
    assert joint.size == 256
    made = plan(network, "count:yes", epsilon=epsilon, adversary="pufferfish")
    found = {name: made.candidate(name).calibration for name in ("wasserstein", "quilt-exact")}
    distance = brute.wasserstein(joint, answers)
    assert distance == 5
    assert found["wasserstein"].transport.distance == 5.0
    assert found["wasserstein"].sigma == pytest.approx(5 / epsilon, rel=1e-9)
    literal = brute.quilt_sigma(joint, links, [1.0] * 8, epsilon)
    assert found["quilt-exact"].sigma == pytest.approx(literal, rel=1e-9)
    for calibration in found.values():
        assert brute.leakage(joint, answers, calibration.scale) <= epsilon + 1e-9


def test_a_quilt_helps_where_epsilon_is_large(read):
    """Of asia at 5: X-ray, dyspnoea, tub, lung and either stay inside; the other three know little."""
    quilt = (
        plan(read("asia"), "count:yes", epsilon=5, adversary="pufferfish").candidate("quilt-exact").calibration.quilt
    )
    assert (quilt.node, set(quilt.ends), quilt.nearby) == ("either", {"asia", "smoke", "bronc"}, 5.0)


def random_network(records: int, parents: int, states: int, seed: int) -> BayesianNetwork:
    """Of the size of link, munin and hepar2, with parents from anywhere: no tree for it is narrow; with zeros."""
    generator = np.random.default_rng(seed)
    sizes, nodes = generator.integers(2, states + 1, size=records), []
    for v in range(records):
        above = sorted(generator.choice(v, size=min(parents, v), replace=False).tolist())
        table = generator.dirichlet(np.ones(sizes[v]), size=[sizes[p] for p in above])
        table = np.where(generator.random(table.shape) < 0.3, 0.0, table) + 1e-3 * np.eye(sizes[v])[0]
        nodes.append(
            Node(
                name=f"n{v}",
                states=[str(s) for s in range(sizes[v])],
                parents=[f"n{p}" for p in above],
                table=table / table.sum(axis=-1, keepdims=True),
            )
        )
    return BayesianNetwork(nodes=tuple(nodes))


@pytest.mark.parametrize(
    ("records", "parents", "states", "adversary", "query"),
    [
        (70, 3, 4, "pufferfish", "histogram"),
        (70, 3, 4, "bdp", "count:0"),
        pytest.param(70, 6, 4, "pufferfish", "count:0", marks=pytest.mark.slow),
        pytest.param(724, 3, 4, "bdp", "histogram", marks=pytest.mark.slow),
    ],
)
def test_where_a_network_is_too_wide_the_rest_is_planned(records, parents, states, adversary, query):
    """Group privacy needs no inference; whatever needs it gives its reason, and a release keeps its guarantee."""
    network = random_network(records, parents, states, seed=1)
    made = plan(network, query, epsilon=1, adversary=adversary)
    assert made.best.mechanism == "group"
    assert made.best.calibration.sigma == pytest.approx(records, rel=1e-12)
    reasons = {c.mechanism: c.reason for c in made.candidates if not c.applies}
    limits = [name for name, reason in reasons.items() if "limit" in reason or "listed" in reason]
    assert "curve-quilt" in limits
    if adversary == "pufferfish":
        assert {"wasserstein", "quilt-exact"} <= set(limits)
    frame = pd.DataFrame({"id": network.records, "state": ["0"] * records})
    released = release(frame, model=network, column="state", id="id", query=query, epsilon=1, adversary=adversary)
    assert verify(released.certificate).valid
