"""What each kind of release charges. The table ``KINDS`` is the one in docs/guide/budget.md.

DP losses add up whatever the model, so a charge is a DP loss: how far the odds of any output can move when the value of
one record changes, all others held fixed. It is charged on the records that were read, and a ledger reads the leakage
curve of its data set at the largest sum of any record.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from pufferdp.basics import checks
from pufferdp.basics.checks import LARGEST
from pufferdp.basics.errors import LedgerError, ParameterError
from pufferdp.basics.files import canonical_json
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.ledger.hash_chain import digest

KINDS: Final = {
    "additive": "the Lipschitz constant of the query over the noise scale",
    "table": "the sum over its queries of their DP losses, once: its groups share no record",
    "measurement": "the loss, and the delta if any, that the map of an OpenDP measurement states",
    "fit": "4 over the scale of the noise on transition counts: its --dp-epsilon",
    "flip": "the largest log-ratio inside a column of its channel, for each record",
    "dp": "the loss, and the delta if any, that the author of a DP algorithm states",
    "window-redaction": "its leakage about the private records, added to the total; its released records become known",
    "3r": "all: it closes the data set for releases not made for the tilted chain",
    "transition-flow": "its tau, from a separate total-variation budget, which cannot be combined with epsilon",
}
"""Every kind of release, and what it costs, by which rule."""


_REDACTIONS: Final = ("window-redaction", "3r")
FLOW: Final = "transition-flow"
_LISTED: Final = 50
"""Longer lists of people are kept apart and named by their digest: the same people are often charged every day."""


@dataclass(frozen=True, kw_only=True)
class Charge:
    """One release to be charged: what it costs, and the public facts from which the cost follows."""

    kind: str
    """Which kind of release: a name in ``KINDS``."""
    dp_loss: float
    """Infinite for a release that no DP loss bounds, such as an exact answer; it uses up its data set."""
    longest: int
    """Records in the longest chain; for other models as many as belong together."""
    epsilon: float | None = None
    """The release's own guarantee about single records under ``model``; None where it makes none."""
    width: float | None = None
    """The clipping width of a sum or mean of real numbers: the Gaussian curves hold for these alone."""
    leakage: float = 0.0
    """Of a redaction by window: what it leaks about the private records, added to the total."""
    private: str | None = None
    """Of a redaction: which records stay private, in words; the data set's guarantee is about these from then on."""
    together: str | None = None
    """Of a redaction that was designed together with the one before: which records that one kept private, in words.
    Its leakage is part of this one's."""
    tau: float | None = None
    """Of a transition flow: the total variation that it spends. Its Gaussian noise has no DP loss."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """From what the loss follows. Public, and in JSON's types."""
    model: str | None = None
    """Digest of the model that the release was made for; None where it was made for none."""
    adversary: str | None = None
    """The adversary that the release was made for; None where it was made for none."""
    ranges: Ranges = EVERYTHING
    """The records that were read; it is charged on these."""
    dp_delta: float = 0.0
    """Beside the DP loss, where the release is approximate DP."""
    delta: float = 0.0
    """Beside ``epsilon``, where the release's own guarantee is approximate."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParameterError(f"kind is {self.kind!r}; it must be one of {', '.join(KINDS)}", value=self.kind)
        if (self.kind in _REDACTIONS) != (self.private is not None):
            raise ParameterError("a redaction names its private records, and no other release does", value=self.private)
        if self.together is not None and self.private is None:
            raise ParameterError("only a redaction is designed together with another", value=self.together)
        if (self.kind == FLOW) != (self.tau is not None):
            raise ParameterError("a transition flow has a tau, and no other release does", value=self.tau)
        if self.tau is not None:
            checks.total_variation(self.tau)
            object.__setattr__(self, "dp_loss", math.inf)
        window = self.kind == "window-redaction"
        if window:
            # What it publishes is exact, but about records that are no secret any more; the others move nothing.
            object.__setattr__(self, "dp_loss", 0.0)
        if not 0 <= self.leakage < math.inf or (self.leakage and not window):
            raise ParameterError(f"leakage is {self.leakage:g}; it must be a number from 0, for window redactions only")
        if self.private is not None and (self.model is None or self.adversary is None):
            raise ParameterError("a redaction is made for a model and an adversary: a charge must name them")
        if not (self.dp_loss > 0 or window):  # NaN too
            raise ParameterError(f"dp_loss is {self.dp_loss:g}; it must be a number above 0", value=self.dp_loss)
        if self.dp_loss > LARGEST:
            object.__setattr__(self, "dp_loss", math.inf)
        checks.length(self.longest, "longest")
        checks.delta(self.dp_delta, "dp_delta")
        if (checks.delta(self.delta) > 0 and self.epsilon is None) or (self.dp_delta and math.isinf(self.dp_loss)):
            raise ParameterError("a delta stands beside an epsilon, and a dp_delta beside a finite DP loss")
        if self.epsilon is not None:
            checks.epsilon(self.epsilon)
            if self.model is None or self.adversary is None:
                raise ParameterError(
                    "a guarantee of its own is about a model and an adversary: a charge must name them"
                )

    @cached_property
    def content(self) -> str:
        """What a ledger keeps of it, as canonical JSON; the model and the adversary are the data set's."""
        content = {
            "kind": self.kind,
            "dp_loss": self.dp_loss if math.isfinite(self.dp_loss) else None,
            "longest": self.longest,
            "epsilon": self.epsilon,
            "width": self.width,
            "leakage": self.leakage,
            "private": self.private,
            "facts": dict(self.facts),
        }
        content |= {} if self.tau is None else {"tau": self.tau}
        content |= {} if self.together is None else {"together": self.together}
        content |= {name: value for name in ("dp_delta", "delta") if (value := getattr(self, name))}
        return canonical_json(content | ({} if self.ranges == EVERYTHING else {"ranges": self._ranges}))

    @cached_property
    def _ranges(self) -> dict[str, Any]:
        """The ranges as they are kept, with a digest in place of each long list of people."""
        raw = self.ranges.to_dict()
        for part, kept in zip(self.ranges.parts, raw["parts"], strict=True):
            if part.people is not None and len(part.people) > _LISTED:
                kept["by"] = {"people": len(part.people), "sha256": digest(part.people_json)}
        return raw

    @cached_property
    def people(self) -> dict[str, str]:
        """Long lists of people by their digest, as canonical JSON."""
        texts = (p.people_json for p in self.ranges.parts if p.people and len(p.people) > _LISTED)
        return {digest(text): text for text in texts}

    @cached_property
    def problem(self) -> str:
        """Digest of the content: releases of the same kind, size and noise share it."""
        return digest(self.content)

    @property
    def alone(self) -> Charge:
        """The same charge, wherever it was made: what it costs does not depend on the records."""
        return replace(self, ranges=EVERYTHING)

    def assumptions(self, dataset: str) -> list[str]:
        """What the total of its data set rests on besides the model: that the same record is known by the same."""
        columns = [repr(name) for name in (self.ranges.order, self.ranges.by) if name is not None]
        if not columns:
            return []
        return [f"a record has the same {' and '.join(columns)} in everything that is charged to data set {dataset!r}"]

    @classmethod
    def from_content(
        cls, content: str, model: str | None, adversary: str | None, people: Callable[[str], str] | None = None
    ) -> Charge:
        """A charge as a ledger kept it; ``people`` finds a long list of people by its digest."""
        raw = json.loads(content)
        raw["dp_loss"] = math.inf if raw["dp_loss"] is None else raw["dp_loss"]
        if "ranges" in raw:
            for part in raw["ranges"]["parts"]:
                if isinstance(part["by"], dict):
                    if people is None:
                        raise LedgerError("the charge names people by their digest alone")
                    part["by"] = json.loads(people(part["by"]["sha256"]))
            raw["ranges"] = Ranges.from_dict(raw["ranges"])
        return cls(**raw, model=model, adversary=adversary)


def loss_of(sigma: float) -> float:
    """1/sigma, rounded up where it is not exact."""
    if sigma <= 0:
        return math.inf
    loss = 1 / sigma
    if not math.isfinite(loss):
        return math.inf
    return loss if Fraction(loss) * Fraction(sigma) >= 1 else math.nextafter(loss, math.inf)


def flip_charge(
    channel: Sequence[Sequence[float]],
    *,
    longest: int,
    epsilon: float | None = None,
    model: str | None = None,
    adversary: str | None = None,
    ranges: Ranges = EVERYTHING,
) -> Charge:
    """A series each of whose records went through a channel: P(out | in), one row for each state."""
    rows = [[float(p) for p in row] for row in channel]
    return Charge(
        kind="flip",
        dp_loss=channel_loss(rows),
        longest=longest,
        epsilon=epsilon,
        facts={"channel": rows},
        model=model,
        adversary=adversary,
        ranges=ranges,
    )


def channel_loss(channel: Sequence[Sequence[float]]) -> float:
    """The largest log-ratio of two entries of a column, rounded up; infinite where one of them is 0."""
    widest = 0.0
    for column in zip(*channel, strict=True):
        if max(column) > 0:
            if min(column) <= 0:
                return math.inf
            widest = max(widest, math.log(max(column) / min(column)))
    # The entries, their quotient and its logarithm are each off by half an ulp; below 1 all but the last count in full.
    return math.nextafter(widest + 2**-51 * (1 + widest), math.inf)


def redaction(
    *,
    window: bool,
    leakage: float,
    private: str,
    longest: int,
    model: str,
    adversary: str,
    facts: Mapping[str, Any] | None = None,
    together: str | None = None,
) -> Charge:
    """A redacted series: what it leaks about its private records to the adversary.

    By window, which records are released does not depend on the data: given those, whatever else is released leaks no
    more than to an adversary who knows them, so leakages add. With three regions redaction depends on values, the
    hidden records follow another chain from then on, and no curve of the model holds: nothing else may be released.
    """
    return Charge(
        kind="window-redaction" if window else "3r",
        dp_loss=math.inf,
        longest=longest,
        epsilon=max(leakage, checks.SMALLEST_EPSILON),
        leakage=leakage if window else 0.0,
        private=private,
        together=together,
        facts=dict(facts or {}),
        model=model,
        adversary=adversary,
    )
