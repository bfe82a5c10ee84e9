"""A sanitised series as a kind of publication: its channel must keep the promise under the model it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.checks import MOST_RECORDS
from pufferdp.basics.errors import CertificateError, LedgerError
from pufferdp.basics.progress import Progress
from pufferdp.ledger.charge import Charge, flip_charge
from pufferdp.models.base import Model
from pufferdp.models.files.json import model_digest, model_from_dict
from pufferdp.publish.certificate import SERIES_SCHEMA
from pufferdp.publish.flips.certificate import SeriesCertificate, series_guarantee, series_once, series_public
from pufferdp.publish.flips.design import THEOREMS, FlipDesign, describe, design_flips, flip_bound, flippable
from pufferdp.publish.kind import (
    ROUNDING,
    UNPROVABLE,
    Claims,
    Exact,
    Kind,
    Made,
    Near,
    Stated,
    data_claims,
    model_claims,
    stated_lengths,
)
from pufferdp.publish.pipeline import Reading

BRACKET: Final = 1e-6
"""Brackets of more than two states stop within it, and another machine may stop elsewhere."""
Thresholds = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class FlipProblem:
    """A series that is to be flipped, for whom and how well; with thresholds, by that very channel."""

    model: Model
    epsilon: float
    adversary: Adversary
    length: int | None
    """Records of the longest chain; None: any number."""
    optimise: bool = False
    """With more than two states, search for a better channel than k-ary randomised response."""
    mechanism: str | None = None
    thresholds: Thresholds | None = None


class FlipKind(Kind[FlipProblem, FlipDesign, SeriesCertificate]):
    """Series each of whose records passed a channel."""

    schema = SERIES_SCHEMA
    certificate = SeriesCertificate
    ledger_kinds = ("flip",)
    unprovable: ClassVar[Mapping[str, str]] = {
        **UNPROVABLE,
        "channel.length": "the promise may be for longer chains than there are",
    }
    row_unprovable: ClassVar[Mapping[str, str]] = {
        "longest": "how long the longest chain is; the promise must hold for it",
        "epsilon": "a promise may be weaker than what follows from the channel, and none need be made",
    }
    row_words: ClassVar[Mapping[str, str]] = {"dp_loss": "a release was charged {stated}; recomputed it is {true}"}

    def problem(self, certificate: SeriesCertificate, **more: Any) -> FlipProblem:
        """The promise, and the channel that was drawn from."""
        c = certificate
        model = model_from_dict(c.model)
        if c.mechanism.name not in THEOREMS:
            raise CertificateError(f"mechanism {c.mechanism.name!r} is not known to this version")
        longest = max((length for length, _ in stated_lengths(c.data.lengths)), default=0)
        if c.channel.length is not None and c.channel.length < longest:
            raise CertificateError(
                f"the loss is for chains of {c.channel.length} records; the data has one of {longest}"
            )
        Reading.stated(c.data).check_stated(model)
        return FlipProblem(
            model=model,
            epsilon=c.guarantee.epsilon,
            adversary=checks.adversary(c.guarantee.adversary),
            length=c.channel.length,
            mechanism=c.mechanism.name,
            thresholds=_thresholds(c.channel.thresholds, flippable(model).size),
        )

    def solve(self, problem: FlipProblem, progress: Progress) -> FlipDesign:
        """The channel of least noise; of one that is given, what it promises."""
        model, epsilon, length, who = flippable(problem.model), problem.epsilon, problem.length, problem.adversary
        if problem.thresholds is not None and problem.mechanism is not None:
            return describe(model, epsilon, who, length, problem.mechanism, problem.thresholds)
        progress("choosing the channel")
        return design_flips(model, epsilon, length=length, adversary=who, optimise=problem.optimise)

    def claims(self, problem: FlipProblem, solution: FlipDesign, made: Made) -> Claims:
        """Every field of the certificate, in its order."""
        design = solution
        promise = series_guarantee(design.model, design.epsilon, design.adversary)
        return {
            **self.head_claims(made),
            "guarantee": {name: Exact(value) for name, value in promise.items()},
            **model_claims(design.model),
            "mechanism": {"name": Exact(design.mechanism), "theorem": Exact(THEOREMS[design.mechanism])},
            "channel": {
                "matrix": Exact(design.channel.tolist()),
                "thresholds": Exact([[str(share) for share in row] for row in design.thresholds]),
                "loss": Near(design.loss, rel=BRACKET),
                "dp_loss": Near(design.dp_loss, rel=BRACKET),
                "expected_noise": Near(design.expected_noise, rel=BRACKET),
                "length": Stated(design.length),
            },
            "data": data_claims(made.data, made.data["lengths"]),
            "public": Exact(series_public(sum(length * count for length, count in made.data["lengths"]))),
            "labels": Exact(list(design.model.labels)),
            "once": Exact(series_once(made.ledger)),
            "warnings": Stated(list(made.warnings)),
            "ledger": self.row_claims(problem, solution, made),
        }

    def charge(self, problem: FlipProblem, solution: FlipDesign) -> Charge:
        """The DP loss of its channel; a stream counts as long as any chain may be."""
        return flip_charge(
            solution.channel.tolist(),
            longest=MOST_RECORDS if solution.length is None else solution.length,
            epsilon=solution.epsilon,
            model=model_digest(solution.model),
            adversary=str(solution.adversary),
        )

    def recompute(self, charge: Charge, model: Model | None) -> Charge | None:
        """From the channel; a promise of its own must follow from it and the model."""
        channel = np.array(charge.facts["channel"], dtype=float)
        if (channel < 0).any() or not np.allclose(channel.sum(axis=1), 1, rtol=0, atol=ROUNDING):
            raise LedgerError("the channel of a flipped series has a row that does not sum to 1")
        if charge.epsilon is not None and model is not None:
            length = None if charge.longest == MOST_RECORDS else charge.longest
            leaks = flip_bound(flippable(model).chains, channel, length, checks.adversary(charge.adversary))
            if not leaks <= charge.epsilon * (1 + BRACKET):
                raise LedgerError(
                    f"a flipped series promises {charge.epsilon:g}; recomputed it leaks up to {leaks:.6g}"
                )
        return flip_charge(
            charge.facts["channel"],
            longest=charge.longest,
            epsilon=charge.epsilon,
            model=charge.model,
            adversary=charge.adversary,
        )


KIND: Final = FlipKind()


def _thresholds(stated: Sequence[Sequence[str]], size: int) -> Thresholds:
    shares = tuple(tuple(int(share) for share in row) for row in stated)
    if len(shares) != size or any(len(row) != size or sum(row) != 2**64 for row in shares):
        raise CertificateError("channel.thresholds must have a row for each state, whole numbers that add up to 2^64")
    if any(share < 0 for row in shares for share in row):
        raise CertificateError("channel.thresholds has a negative share")
    return shares
