"""The Markov Quilt Mechanism: records far away are paid by their influence, records nearby by noise."""

from __future__ import annotations

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.chains.mixing import box_contraction, contraction, eigen_gap
from pufferdp.bounds.quilts.chains import WorstRecord, worst_of_chains, worst_record_by_distance
from pufferdp.bounds.quilts.networks import NetworkQuilt, worst_network_record
from pufferdp.bounds.quilts.search import Score
from pufferdp.models.chain import series_of
from pufferdp.publish.answers.problem import (
    Calibrated,
    Mechanism,
    Problem,
    refuse_endless_search,
    refuse_known_records,
    refuse_own_secrets,
)


class QuiltExact(Mechanism):
    """Influence computed exactly, for an adversary who knows no record or for one who knows any set of them."""

    name = "quilt-exact"
    theorem = (
        "Song et al. 2017, Theorem 4.3; for an adversary who knows records, the quilt curve (docs/theory/search.md)"
    )

    covers = ("parts",)
    """Its quilts are those of the whole series, which the answer is a function of."""

    def find(self, problem: Problem) -> Calibrated:
        """Max over models and records of min over quilts of nearby/(ε − influence)."""
        model = problem.model
        refuse_own_secrets(problem)
        if model.arbitrary is not None:
            raise NotApplicableError("anything may hold inside a group; group privacy is all that can be said")
        if model.real_valued:
            raise NotApplicableError("is worked out for records with states, and those of this model are real numbers")
        series = series_of(model)
        if series is None:
            return _on_records(problem)
        if series.rhythm is not None:
            raise NotApplicableError("is worked out for one transition table, and a clock has several")
        if not series.deciding:
            raise NotApplicableError(series.not_listed + ("; quilt-approx bounds it" if series.box is not None else ""))
        refuse_endless_search(problem)
        adversary = Adversary.PUFFERFISH if problem.adversary is Adversary.PUFFERFISH else Adversary.BDP
        worst = worst_of_chains(series.deciding, problem.series_length, Score(problem.epsilon), adversary)
        return Calibrated(sigma=worst.value, quilt=worst)


def _on_records(problem: Problem) -> Calibrated:
    record_models = problem.model.record_models
    if not record_models or any(member.factors is None for member in record_models):
        raise NotApplicableError("needs a graph of who depends on whom: a chain or a Bayesian network")
    refuse_known_records(problem)
    worst: NetworkQuilt | None = None
    for tree in (member.tree for member in record_models if member.tree is not None):
        candidate = worst_network_record(tree, problem.moves, Score(problem.epsilon))
        worst = candidate if worst is None or candidate.value > worst.value else worst
    assert worst is not None
    return Calibrated(sigma=worst.value, quilt=worst)


class QuiltApprox(Mechanism):
    """Influence bounded by mixing: the eigen-gap, or the Hilbert metric for boxes and for those who know records."""

    name = "quilt-approx"
    theorem = "Song et al. 2017, Lemmas 4.8 and C.1; Birkhoff 1957 for boxes and for an adversary who knows records"

    covers = ("parts",)
    """Its quilts are those of the whole series, which the answer is a function of."""

    def find(self, problem: Problem) -> Calibrated:
        """The worst chain of the class decides."""
        refuse_own_secrets(problem)
        worst: WorstRecord | None = None
        series, objective = series_of(problem.model), Score(problem.epsilon)
        if series is None:
            raise NotApplicableError("bounds influence by the mixing of a chain, and the model is not a chain")
        if series.rhythm is not None:
            raise NotApplicableError("is worked out for one transition table, and a clock has several")
        if series.box is not None:
            side = box_contraction(series.box).side
            worst = worst_record_by_distance(side, side, problem.series_length, objective)
            return Calibrated(sigma=worst.value, quilt=worst)
        for chain in series.chains:
            if problem.adversary is Adversary.PUFFERFISH:
                gap = eigen_gap(chain)
                left, right = gap.left, gap.right
            else:
                left = right = contraction(chain).side
            candidate = worst_record_by_distance(left, right, problem.series_length, objective)
            worst = candidate if worst is None or candidate.value > worst.value else worst
        if worst is None:
            raise NotApplicableError(series.not_listed)
        return Calibrated(sigma=worst.value, quilt=worst)
