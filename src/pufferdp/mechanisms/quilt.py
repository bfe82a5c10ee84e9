"""The Markov Quilt Mechanism: records far away are paid by their influence, records nearby by noise."""

from __future__ import annotations

from pufferdp.checks import Adversary
from pufferdp.errors import NotApplicableError
from pufferdp.leakage.mixing import box_contraction, contraction, eigen_gap
from pufferdp.leakage.quilts import WorstRecord, worst_record, worst_record_by_distance
from pufferdp.leakage.screening import worst_first
from pufferdp.leakage.search import Score
from pufferdp.mechanisms.base import Mechanism, Problem
from pufferdp.models.classes import BinaryInterval, MarkovInterval


class QuiltExact(Mechanism):
    """Influence computed exactly, for an adversary who knows no record or for one who knows any set of them."""

    name = "quilt-exact"
    theorem = (
        "Song et al. 2017, Theorem 4.3; for an adversary who knows records, the quilt curve (docs/theory/search.md)"
    )

    def multiplier(self, problem: Problem) -> tuple[float, WorstRecord | None]:
        """Max over chains and records of min over quilts of nearby/(ε − influence)."""
        model = problem.model
        if isinstance(model, MarkovInterval):
            raise NotApplicableError("the class is a box of chains, which cannot be listed; quilt-approx bounds it")
        chains = model.corners if isinstance(model, BinaryInterval) else model.chains
        adversary = Adversary.PUFFERFISH if problem.adversary is Adversary.PUFFERFISH else Adversary.BDP
        objective = Score(problem.epsilon)
        worst: WorstRecord | None = None
        for bound, chain in worst_first(chains, problem.longest, objective, adversary):
            floor = worst.value if worst else float("-inf")
            if bound <= floor:
                break
            worst = worst_record(chain, problem.longest, objective, adversary, floor) or worst
        assert worst is not None
        return worst.value, worst


class QuiltApprox(Mechanism):
    """Influence bounded by mixing: the eigen-gap, or the Hilbert metric for boxes and for those who know records."""

    name = "quilt-approx"
    theorem = "Song et al. 2017, Lemmas 4.8 and C.1; Birkhoff 1957 for boxes and for an adversary who knows records"

    def multiplier(self, problem: Problem) -> tuple[float, WorstRecord | None]:
        """The worst chain of the class decides."""
        worst: WorstRecord | None = None
        model, objective = problem.model, Score(problem.epsilon)
        if isinstance(model, (BinaryInterval, MarkovInterval)):
            side = box_contraction(model if isinstance(model, MarkovInterval) else model.box).side
            worst = worst_record_by_distance(side, side, problem.longest, objective)
            return worst.value, worst
        for chain in model.chains:
            if problem.adversary is Adversary.PUFFERFISH:
                gap = eigen_gap(chain)
                left, right = gap.left, gap.right
            else:
                left = right = contraction(chain).side
            found = worst_record_by_distance(left, right, problem.longest, objective)
            worst = found if worst is None or found.value > worst.value else worst
        assert worst is not None
        return worst.value, worst
