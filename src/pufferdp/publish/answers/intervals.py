"""Where the true numbers lie, from the released ones and the distribution of their noise alone: no model is needed.

An interval is valid because the noise is known, for every distribution of the records. The module
``estimate`` has what the model adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.publish.answers.queries import FunctionQuery, Query
from pufferdp.publish.noise import NoiseDistribution, NoiseKind
from pufferdp.publish.noise_distributions import NoiseTable

Ends = float | list[float]
_WHOLE = (NoiseKind.DISCRETE_LAPLACE, NoiseKind.DISCRETE_GAUSSIAN, NoiseKind.TABLE)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A range for each number of an answer, both ends inside: a number each, or one for each label."""

    low: Ends
    high: Ends


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """The ranges of the true numbers that the noise alone implies."""

    probability: float
    """What each range of ``each`` holds at least, and what all ranges of ``all`` hold together."""
    each: Interval
    """Number by number: each true number lies in its range with this probability."""
    all: Interval
    """For all numbers together: with this probability no true number lies outside its range."""

    def to_dict(self) -> dict[str, Any]:
        """As in ``release --json``."""
        return asdict(self)


def intervals(certificate: Mapping[str, Any]) -> Intervals:
    """From the released numbers of a certificate and its noise; cut at what a count, a share or a clipped sum can be.

    Cutting loses nothing, because the true number lies within: where it is in the range, it is in what is left.
    """
    distribution, beta, records = noise_of(certificate), certificate["accuracy"]["beta"], certificate["data"]["records"]
    asked = stated_query(certificate["query"])
    limits = None if asked is None else asked.limits(asked.clip, records)
    answer = certificate["answer"]
    several = isinstance(answer, list)
    numbers = np.asarray(answer if several else [answer], dtype=float)
    shares = records if asked is not None and asked.counts_states and asked.averaged else 1

    def around(alpha: float) -> Interval:
        ends = _ends(distribution, numbers, alpha, shares)
        low, high = (end.tolist() if limits is None else np.clip(end, *limits).tolist() for end in ends)
        return Interval(low=low, high=high) if several else Interval(low=low[0], high=high[0])

    everything = around(certificate["accuracy"]["alpha"])
    each = around(distribution.accuracy_of_each(beta).alpha) if len(numbers) > 1 else everything
    return Intervals(probability=1 - beta, each=each, all=everything)


def noise_of(certificate: Mapping[str, Any]) -> NoiseDistribution:
    """The distribution of the noise that a certificate states."""
    noise, table = certificate["noise"], certificate["calibration"].get("table")
    asked, records = stated_query(certificate["query"]), certificate["data"]["records"]
    return NoiseDistribution(
        kind=NoiseKind(noise["kind"]),
        scale=noise["scale"],
        coordinates=len(certificate["labels"]),
        unit=1 / records if asked is not None and asked.counts_states and asked.averaged else 1.0,
        balanced=noise.get("balanced") is True,
        table=None if table is None else NoiseTable.from_dict(table),
    )


def _ends(distribution: NoiseDistribution, numbers: Floats, alpha: float, shares: int) -> tuple[Floats, Floats]:
    """All that lies less than alpha away. Whole noise errs by whole counts, the largest of which is the next smaller.

    Shares are counts divided by the number of records, as the true ones are: so both are rounded alike.
    """
    if distribution.kind not in _WHOLE:
        return numbers - alpha, numbers + alpha
    counts, most = np.rint(numbers * shares), round(alpha * shares) - 1
    return (counts - most) / shares, (counts + most) / shares


def stated_query(query: Mapping[str, Any]) -> Query | None:
    """The query of a certificate; None for a function of one's own, which has no name to ask by."""
    if query["name"] == FunctionQuery.word:
        return None
    return Query.parse(query["name"], clip=None if query["clip"] is None else tuple(query["clip"]))
