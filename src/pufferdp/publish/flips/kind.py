"""A privatised series as a kind of publication: its channel must keep the guarantee under the model it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.checks import MOST_RECORDS
from pufferdp.basics.errors import CertificateError, LedgerError
from pufferdp.basics.progress import Progress, silent
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.ledger.charge import Charge, flip_charge
from pufferdp.models.base import Model
from pufferdp.models.files.json import model_digest, model_from_dict
from pufferdp.publish.certificate import SERIES_SCHEMA, guarantee_part
from pufferdp.publish.flips.certificate import (
    BRACKET,
    SeriesCertificate,
    series_guarantee,
    series_once,
    series_public,
)
from pufferdp.publish.flips.plan import (
    THEOREMS,
    FlipDesign,
    describe,
    design_flips,
    flip_bound,
    flippable,
)
from pufferdp.publish.kind import Kind, Made, stated_ranges
from pufferdp.publish.model_checks import CheckedGuarantee
from pufferdp.publish.noise import ROUNDING
from pufferdp.publish.reading import assumption_text, moves_fact
from pufferdp.publish.stated_reading import stated_lengths

Thresholds = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class FlipProblem:
    """A series that is to be flipped, for whom and how well; with thresholds, by that very channel."""

    model: Model
    epsilon: float
    adversary: Adversary
    length: int | None
    """Records of the longest chain; None: any number."""
    mechanism: str | None = None
    thresholds: Thresholds | None = None
    part: bool = False
    """Whether the series goes on before and after what was read; the length is None then. Flips of a part are those of
    the whole series, all but some of them left out, so that they leak no more."""
    ranges: Ranges = EVERYTHING
    """Which records were read, by time and by person."""


class FlipKind(Kind[FlipProblem, FlipDesign, SeriesCertificate]):
    """Series each of whose records passed a channel."""

    schema = SERIES_SCHEMA
    certificate = SeriesCertificate
    ledger_kinds = ("flip",)
    row_unprovable: ClassVar[Mapping[str, str]] = {
        "ranges": "which records were read",
        "longest": "how long the longest chain is; the guarantee must hold for it",
        "epsilon": "a guarantee may be weaker than what follows from the channel, and none need be made",
    }

    def problem(self, certificate: SeriesCertificate, **more: Any) -> FlipProblem:
        """The guarantee, and the channel that was drawn from."""
        c = certificate
        model = model_from_dict(c.model)
        if c.mechanism.name not in THEOREMS:
            raise CertificateError(f"mechanism {c.mechanism.name!r} is not known to this version")
        part, lost = c.data.part is True, c.data.dropped + c.data.unobserved
        longest = max((length for length, _ in stated_lengths(c.data.lengths)), default=0)
        if c.channel.length is not None and (part or lost or c.channel.length < longest):
            longer = f"{lost} are missing between those read" if lost else f"the data has a chain of {longest}"
            longer = "this one goes on before and after what was read" if part else longer
            raise CertificateError(f"the loss is for series of {c.channel.length} records, and {longer}")
        return FlipProblem(
            model=model,
            epsilon=c.guarantee.epsilon,
            adversary=checks.adversary(c.guarantee.adversary),
            length=c.channel.length,
            mechanism=c.mechanism.name,
            thresholds=_thresholds(c.channel.thresholds, flippable(model).size),
            part=part,
            ranges=stated_ranges(c.data),
        )

    def solve(self, problem: FlipProblem, progress: Progress) -> FlipDesign:
        """The channel of least noise; of one that is given, what it guarantees."""
        model, epsilon, length, adversary = flippable(problem.model), problem.epsilon, problem.length, problem.adversary
        if problem.thresholds is not None and problem.mechanism is not None:
            return describe(model, epsilon, adversary, length, problem.mechanism, problem.thresholds)
        progress("choosing the channel")
        return design_flips(model, epsilon, length=length, adversary=adversary)

    def content(self, problem: FlipProblem, solution: FlipDesign, made: Made) -> dict[str, Any]:
        """The content of the certificate, made from the design."""
        design = solution
        words = series_guarantee(design.model, design.epsilon, design.adversary, part=problem.part)
        checked = CheckedGuarantee(model=design.model, epsilon=design.epsilon, adversary=design.adversary)
        words += assumption_text(made.data) + checked.misfit
        records = sum(length * count for length, count in made.data["lengths"])
        return {
            **self.common(problem, solution, made, design.model, checked=checked),
            "guarantee": guarantee_part(design.adversary, design.epsilon, words),
            "mechanism": {"name": design.mechanism, "theorem": THEOREMS[design.mechanism]},
            "channel": {
                "matrix": design.channel.tolist(),
                "thresholds": [[str(share) for share in row] for row in design.thresholds],
                "loss": design.loss,
                "dp_loss": design.dp_loss,
                "expected_noise": design.expected_noise,
                "length": design.length,
            },
            "public": [*series_public(records, part=problem.part), *moves_fact(made.data, design.model)],
            "labels": list(design.model.labels),
            "once": series_once(made.ledger),
        }

    def streamed(self, certificate: Mapping[str, Any]) -> bool:
        """A stream is one chain whose channel is for any length."""
        chains = sum(count for _, count in certificate["data"]["lengths"])
        return chains == 1 and certificate["channel"]["length"] is None

    def beside(self, certificate: Mapping[str, Any], output: Mapping[str, Any]) -> dict[str, Any]:
        """The channel and the guarantee, with the numbers that are stated."""
        design = self.solve(self.problem(SeriesCertificate.model_validate(certificate)), silent)
        return {
            **design.to_dict(),
            **{key: certificate["channel"][key] for key in ("loss", "expected_noise", "dp_loss")},
        }

    def charge(self, problem: FlipProblem, solution: FlipDesign) -> Charge:
        """The DP loss of its channel; a stream counts as long as any chain may be."""
        about: dict[str, Any] = {
            "longest": MOST_RECORDS if solution.length is None else solution.length,
            "epsilon": solution.epsilon,
            "model": model_digest(solution.model),
            "adversary": str(solution.adversary),
        }
        return flip_charge(solution.channel.tolist(), **about, ranges=problem.ranges)

    def recompute(self, charge: Charge, model: Model | None) -> Charge | None:
        """From the channel; a guarantee of its own must follow from it and the model."""
        about: dict[str, Any] = {
            "longest": charge.longest,
            "epsilon": charge.epsilon,
            "model": charge.model,
            "adversary": charge.adversary,
        }
        length = None if charge.longest == MOST_RECORDS else charge.longest
        adversary = None if charge.adversary is None else checks.adversary(charge.adversary)
        channel = np.array(charge.facts["channel"], dtype=float)
        if (channel < 0).any() or not np.allclose(channel.sum(axis=1), 1, rtol=0, atol=ROUNDING):
            raise LedgerError("the channel of a flipped series has a row that does not sum to 1")
        if charge.epsilon is not None and model is not None and adversary is not None:
            leaks = flip_bound(flippable(model).chains, channel, length, adversary)
            if not leaks <= charge.epsilon * (1 + BRACKET):
                raise LedgerError(
                    f"a flipped series guarantees {charge.epsilon:g}; recomputed it leaks up to {leaks:.6g}"
                )
        return flip_charge(charge.facts["channel"], **about, ranges=charge.ranges)


KIND: Final = FlipKind()


def _thresholds(stated: Sequence[Sequence[str]], size: int) -> Thresholds:
    shares = tuple(tuple(int(share) for share in row) for row in stated)
    if len(shares) != size or any(len(row) != size or sum(row) != 2**64 for row in shares):
        raise CertificateError("channel.thresholds must have a row for each state, whole numbers that add up to 2^64")
    if any(share < 0 for row in shares for share in row):
        raise CertificateError("channel.thresholds has a negative share")
    return shares
