"""Quantiles, the median, and the least and the largest number but for a few, as questions of a table.

Each record is rounded to one of a few public candidates, and a candidate is chosen by how many ranks it is from being
the quantile. Let `below` records lie below a candidate and `up_to` not above it: it is a true quantile of every share
from below/n to up_to/n, and its distance from rank r is max(0, below − r, r − up_to). One record that changes moves
both counts by at most 1, so the distance by at most 1: OpenDP's noisy max of scale s, turned round to the least
distance, has a DP loss of 2/s (permute-and-flip, McKenna & Sheldon 2020).

How far off the choice is. Some candidate has distance 0, because candidates are all that records can be. In
permute-and-flip candidates come in a random order, each is taken with probability exp(−distance/s), and one of distance
0 for certain. So another is taken with probability at most exp(−distance/s)/2: it must come first. Of m candidates and
q quantiles, none is off by a ranks or more with probability 1 − q·(m−1)/2·exp(−a/s). No distribution of the data is
assumed.

OpenDP's own scores count (1−share)·below against share·above. Where many records have one value, their least score can
be at a candidate beside it that no record has, and nothing follows for the rank of what is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pufferdp.basics import checks
from pufferdp.basics.errors import QueryError
from pufferdp.models.base import Model
from pufferdp.models.chain import bin_names
from pufferdp.publish.answers.queries import state_values
from pufferdp.publish.noise import Sampler, selection_scale
from pufferdp.publish.tables.questions import GroupRecords, Question, QuestionNoise, Row

KINDS: Final = ("quantile", "median", "min", "max")
GRID: Final = 201
"""Candidates in a clipping range, half a percent of it apart. Ten times as many would add 2.3 times the noise's scale
to the error in ranks and take ten times as long; a narrower range is the better way to a finer answer."""
_FINEST: Final = 10**6
"""Shares are multiples of a millionth: distances are whole numbers of millionths of a rank, in 64 bits."""
_THEOREM: Final = "permute-and-flip on distances in ranks (McKenna & Sheldon 2020, Theorem 1; docs/guide/questions.md)"
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class QuantileQuestion(Question):
    """One or several quantiles of the numbers of a group."""

    kind: str
    """The word of the question, one of KINDS."""
    shares: tuple[Fraction, ...] = ()
    """Of ``quantile`` alone: which shares of the records lie below, rising."""
    range: tuple[float, float] | None = None
    """Numbers are clipped to it."""

    def __post_init__(self) -> None:
        if self.range is not None:
            object.__setattr__(self, "range", checks.clip_pair(self.range))

    @classmethod
    def parse(cls, text: str, clip: tuple[float, float] | None) -> QuantileQuestion:
        """Read ``quantile:.5,.9``, ``median``, ``min`` or ``max``."""
        kind, colon, rest = text.partition(":")
        if kind != "quantile" and colon:
            raise QueryError(f"query is {text!r}; {kind} takes nothing after it, and quantile takes shares", value=text)
        return cls(kind, _shares(text, rest) if kind == "quantile" else (), clip)

    @property
    def name(self) -> str:
        """The command line's spelling."""
        return f"quantile:{','.join(map(_text, self.shares))}" if self.shares else self.kind

    @property
    def clip(self) -> tuple[float, float] | None:
        """The range that numbers are clipped to."""
        return self.range

    def reads_numbers(self, model: Model) -> bool:
        """Whether they are quantiles of the numbers in the data, and not of those of the states."""
        return self.range is not None and state_values(model) is None

    def check(self, model: Model) -> None:
        """Refuse a model without numbers, and one whose numbers are all the same."""
        if model.real_valued or model.placeholder_states:
            raise QueryError(
                f"{self.name} is carried over for records with states, and those of this model are real numbers: ask "
                "for sum or mean with clip=(A, B), or fit a chain with bins=",
                value=self.name,
            )
        if len(self.candidates(model)) < 2:
            raise QueryError(f"every state has the same value; {self.name} tells nothing", value=self.name)

    def labels(self, model: Model) -> tuple[str, ...]:
        """The shares, or the word of the question."""
        return tuple(map(_text, self.shares)) or (self.kind,)

    def candidates(self, model: Model) -> tuple[float, ...]:
        """What can be released, rising: values of states, lower edges of bins, or a grid in the clipping range."""
        if self.reads_numbers(model):
            low, high = self.range or (0.0, 1.0)
            return (*(low + (high - low) * (j / (GRID - 1)) for j in range(GRID - 1)), high)
        return tuple(sorted(set(self._numbers(model))))

    def noise(self, model: Model, dp_loss: float, beta: float, records: int = 0) -> QuestionNoise:
        """The scale in ranks: the quantiles of a question share its loss."""
        many, candidates = len(self.labels(model)), len(self.candidates(model))
        scale = selection_scale(dp_loss / many * (1 - 2**-52), 1)
        alpha = scale * math.log(max(1.0, many * (candidates - 1) / (2 * beta)))
        return QuestionNoise(
            kind="permute-and-flip",
            scale=scale,
            # Distances are 0 or a millionth of a rank or more.
            alpha=max(alpha, 1 / _FINEST),
            beta=beta,
            about="ranks",
            theorem=_THEOREM,
        )

    def measure_each(
        self, model: Model, groups: Sequence[GroupRecords], noise: QuestionNoise, sampler: Sampler
    ) -> list[Row]:
        """One candidate for each quantile of each group, drawn one by one."""
        candidates, counts = self.candidates(model), self._counter(model)
        answers: list[Row] = []
        for group in groups:
            rounded, answer = counts(group), []
            for rank in self._ranks(group.size, noise):
                scores = rank_distances(rounded, rank)
                scale = noise.scale * rank.denominator * (1 + 2**-50)  # rounded up by more than the product's rounding
                answer.append(candidates[sampler.noisy_least(scores, scale)])
            answers.append(tuple(answer))
        return answers

    def estimate_each(self, model: Model, sizes: Sequence[int | None], answers: Sequence[Row]) -> list[Row]:
        """Quantiles rise with their shares, and putting them in order brings none farther from the true ones."""
        return [tuple(sorted(value for value in answer if value is not None)) for answer in answers]

    def check_answer(self, model: Model, records: int | None, answer: Row, balanced: bool = False) -> None:
        """Every number is a candidate."""
        super().check_answer(model, records, answer)
        candidates = set(self.candidates(model))
        strange = next((value for value in answer if value not in candidates), None)
        if strange is not None or None in answer:
            raise QueryError(f"{strange} is not one of the values that {self.name} can have", value=strange)

    def _ranks(self, records: int, noise: QuestionNoise) -> list[Fraction]:
        """Where each quantile lies among the records of a group.

        The least number itself would let one record decide. The one at rank alpha is, with the probability that alpha
        has, not below all records, and fewer than twice alpha are below it; the largest likewise.
        """
        if self.kind in ("min", "max"):
            inside = min(Fraction(math.ceil(noise.alpha)), Fraction(records, 2))
            return [inside if self.kind == "min" else records - inside]
        return [share * records for share in self.shares or (Fraction(1, 2),)]

    def _counter(self, model: Model) -> Callable[[GroupRecords], Counts]:
        """Counts how many records of a group are rounded to each candidate."""
        candidates = self.candidates(model)
        if self.reads_numbers(model):
            low, high = candidates[0], candidates[-1]

            def of_numbers(group: GroupRecords) -> Counts:
                assert group.numbers is not None
                places = np.rint((np.clip(group.numbers, low, high) - low) / (high - low) * (GRID - 1))
                return np.bincount(places.astype(np.int64), minlength=GRID)

            return of_numbers
        place = {value: at for at, value in enumerate(candidates)}
        places = np.array([place[value] for value in self._numbers(model)])

        def of_states(group: GroupRecords) -> Counts:
            out = np.zeros(len(candidates), dtype=np.int64)
            np.add.at(out, places, group.histogram)
            return out

        return of_states

    def _numbers(self, model: Model) -> tuple[float, ...]:
        """The number of each state of the model, in their order: its value, or the lower edge of its bin."""
        values = state_values(model)
        if values is None:
            values = _lower_edges(model)
        if values is None:
            raise QueryError(
                f"{self.name} needs numbers: give clip=(A, B), or a model with bins or with a value for each state",
                value=self.name,
            )
        low, high = self.range or (-math.inf, math.inf)
        return tuple(min(max(value, low), high) for value in values)


def rank_distances(counts: Counts, rank: Fraction) -> list[int]:
    """How far each candidate is from being at a rank, in whole parts of one: as many as the rank's denominator."""
    target, unit = rank.numerator, rank.denominator
    up_to = np.cumsum(counts)
    above = (up_to - counts) * unit - target
    distances: list[int] = np.maximum(np.maximum(above, target - up_to * unit), 0).tolist()
    return distances


def _lower_edges(model: Model) -> tuple[float, ...] | None:
    """Of the bin of each state; a model may leave bins out, so that its states are fewer."""
    if model.bins is None:
        return None
    if len(model.bins) == model.size + 1:
        return model.bins[:-1]
    names = bin_names(model.bins)
    return tuple(model.bins[names.index(label)] for label in model.labels)


def _shares(text: str, rest: str) -> tuple[Fraction, ...]:
    try:
        shares = tuple(sorted(checks.fraction(part.strip()) for part in rest.split(",")))
    except (ValueError, ZeroDivisionError):
        raise QueryError(f"query is {text!r}; shares are numbers, as in quantile:.5,.9", value=text) from None
    for share in shares:
        if not 0 < share < 1:
            raise QueryError(
                f"query is {text!r}; a share lies between 0 and 1, and for the ends there are min and max", value=text
            )
        if (share * _FINEST).denominator != 1:
            raise QueryError(f"query is {text!r}; a share has at most six decimals", value=text)
    if len(set(shares)) < len(shares):
        raise QueryError(f"query is {text!r}; it names a share twice", value=text)
    return shares


def _text(share: Fraction) -> str:
    return f"{float(share):.6f}".rstrip("0")
