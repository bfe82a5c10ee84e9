"""A fit as a kind of publication: its model file says what was fitted, and a private one is charged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pufferdp.basics.progress import Progress, silent
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.ledger.charge import Charge
from pufferdp.models.base import Model
from pufferdp.publish.fits.bounds import TRANSITIONS_MOVE, transition_scale
from pufferdp.publish.fits.certificate import Fitted
from pufferdp.publish.kind import Kind, Made


@dataclass(frozen=True, kw_only=True)
class FitProblem:
    """A chain that is to be fitted."""

    dp_epsilon: float | None
    """The DP loss that it may spend; None for a fit that is not private."""
    confidence: float | None = None
    """Of a class: the probability that it contains the truth."""
    prior: float | None = None
    """What is added to every transition count."""
    longest: int = 1
    """Records in the longest chain; as many as there may be where it is a part of a longer series."""
    states: int | None = None
    """Whose transitions are counted; None where a charge does not say."""
    ranges: Ranges = EVERYTHING
    """Which records were read, where it is charged."""


class FitKind(Kind[FitProblem, float, Fitted]):
    """Models from data. What is solved is the scale of the noise on each transition count; 0 without noise."""

    schema = ""
    certificate = Fitted
    ledger_kinds = ("fit",)
    row_unprovable: ClassVar[Mapping[str, str]] = {
        "ranges": "which records were read",
        "longest": "how long the longest chain is",
        "facts.states": "how many states were counted",
    }

    def problem(self, certificate: Fitted, **more: Any) -> FitProblem:
        """What a model file says of its fit."""
        content = certificate.to_dict()
        prior = content.get("prior")
        return FitProblem(dp_epsilon=content.get("dp_epsilon"), confidence=content.get("confidence"), prior=prior)

    def solve(self, problem: FitProblem, progress: Progress) -> float:
        """The scale of the noise on each count of transitions; 0 for a fit without noise."""
        return 0.0 if problem.dp_epsilon is None else transition_scale(problem.dp_epsilon)

    def content(self, problem: FitProblem, solution: float, made: Made) -> dict[str, Any]:
        """The part ``fitted`` of the model file, without the keys that do not apply."""
        stated = {name: made.data[name] for name in ("column", "records", "chains", "left_out")}
        asked = {"dp_epsilon": problem.dp_epsilon, "prior": problem.prior, "confidence": problem.confidence}
        return stated | {name: value for name, value in asked.items() if value is not None}

    def charge(self, problem: FitProblem, solution: float) -> Charge:
        """The DP loss that it spends."""
        assert problem.dp_epsilon is not None
        states = {} if problem.states is None else {"states": problem.states}
        facts = {**states, "lipschitz": TRANSITIONS_MOVE, "scale": solution}
        return Charge(
            kind="fit", dp_loss=problem.dp_epsilon, longest=problem.longest, facts=facts, ranges=problem.ranges
        )

    def recompute(self, charge: Charge, model: Model | None) -> Charge | None:
        """From the DP loss: so much noise it needs."""
        states = charge.facts.get("states")
        problem = FitProblem(dp_epsilon=charge.dp_loss, longest=charge.longest, states=states, ranges=charge.ranges)
        return self.charge(problem, self.solve(problem, silent))


KIND: Final = FitKind()
