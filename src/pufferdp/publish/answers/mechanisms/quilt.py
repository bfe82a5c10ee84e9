"""The Markov Quilt Mechanism: records far away are paid by their influence, records nearby by noise."""

from __future__ import annotations

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.leakage.chains.mixing import box_contraction, contraction, eigen_gap
from pufferdp.leakage.quilts.chains import WorstRecord, worst_of_chains, worst_record_by_distance
from pufferdp.leakage.quilts.networks import NetworkQuilt, worst_network_record
from pufferdp.leakage.quilts.search import Score
from pufferdp.models.base import RecordModel
from pufferdp.models.chain_classes import BinaryInterval, MarkovInterval, NumberModel
from pufferdp.models.groups import AnyGroups
from pufferdp.models.model_class import ModelClass
from pufferdp.models.network import BayesianNetwork
from pufferdp.publish.answers.problem import Finding, Mechanism, Problem, refuse_known_records, refuse_own_secrets


class QuiltExact(Mechanism):
    """Influence computed exactly, for an adversary who knows no record or for one who knows any set of them."""

    name = "quilt-exact"
    theorem = (
        "Song et al. 2017, Theorem 4.3; for an adversary who knows records, the quilt curve (docs/theory/search.md)"
    )

    def find(self, problem: Problem) -> Finding:
        """Max over models and records of min over quilts of nearby/(ε − influence)."""
        model = problem.model
        refuse_own_secrets(problem)
        if isinstance(model, AnyGroups):
            raise NotApplicableError("anything may hold inside a group; group privacy is all that can be said")
        if isinstance(model, NumberModel):
            raise NotApplicableError("is worked out for records with states, and those of this model are real numbers")
        if isinstance(model, (RecordModel, ModelClass)):
            return _on_records(problem, model)
        if isinstance(model, MarkovInterval):
            raise NotApplicableError("the class is a box of chains, which cannot be listed; quilt-approx bounds it")
        chains = model.corners if isinstance(model, BinaryInterval) else model.chains
        adversary = Adversary.PUFFERFISH if problem.adversary is Adversary.PUFFERFISH else Adversary.BDP
        worst = worst_of_chains(chains, problem.longest, Score(problem.epsilon), adversary)
        return Finding(sigma=worst.value, quilt=worst)


def _on_records(problem: Problem, model: RecordModel | ModelClass) -> Finding:
    networks = [member for member in model.beliefs if isinstance(member, BayesianNetwork)]
    if len(networks) < len(model.beliefs):
        raise NotApplicableError("needs a graph of who depends on whom: a chain or a Bayesian network")
    refuse_known_records(problem)
    worst: NetworkQuilt | None = None
    for member in networks:
        found = worst_network_record(member.tree, problem.moves, Score(problem.epsilon))
        worst = found if worst is None or found.value > worst.value else worst
    assert worst is not None
    return Finding(sigma=worst.value, quilt=worst)


class QuiltApprox(Mechanism):
    """Influence bounded by mixing: the eigen-gap, or the Hilbert metric for boxes and for those who know records."""

    name = "quilt-approx"
    theorem = "Song et al. 2017, Lemmas 4.8 and C.1; Birkhoff 1957 for boxes and for an adversary who knows records"

    def find(self, problem: Problem) -> Finding:
        """The worst chain of the class decides."""
        refuse_own_secrets(problem)
        worst: WorstRecord | None = None
        model, objective = problem.model, Score(problem.epsilon)
        if isinstance(model, (RecordModel, ModelClass, AnyGroups, NumberModel)):
            raise NotApplicableError("bounds influence by the mixing of a chain, and the model is not a chain")
        if isinstance(model, (BinaryInterval, MarkovInterval)):
            side = box_contraction(model if isinstance(model, MarkovInterval) else model.box).side
            worst = worst_record_by_distance(side, side, problem.longest, objective)
            return Finding(sigma=worst.value, quilt=worst)
        for chain in model.chains:
            if problem.adversary is Adversary.PUFFERFISH:
                gap = eigen_gap(chain)
                left, right = gap.left, gap.right
            else:
                left = right = contraction(chain).side
            found = worst_record_by_distance(left, right, problem.longest, objective)
            worst = found if worst is None or found.value > worst.value else worst
        assert worst is not None
        return Finding(sigma=worst.value, quilt=worst)
