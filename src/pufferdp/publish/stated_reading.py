"""Whether the fields of a certificate that say how the data was read are possible together.

The more independent pieces a series has, the less noise a release needs. A verifier has no data to count the
pieces, but the records, the pieces, the gaps, the time step and the time ranges bound each other: 2,016 pieces with 8
hours between them do not fit into a week. Every release type states its reading in ``data``, and all of them are
checked here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pufferdp.basics.errors import CertificateError, PufferdpError
from pufferdp.basics.files import canonical_json, found_text
from pufferdp.data.layout import duration_text, read_distance
from pufferdp.data.ranges import EVERYTHING, MOST_PARTS, Ranges
from pufferdp.models.ar1 import ar1_of
from pufferdp.models.base import Model
from pufferdp.models.chain import series_of


def reading_problems(
    data: Mapping[str, Any], model: Model, *, pieces: bool = False, streamed: bool = False
) -> list[str]:
    """Every rule that the reading of a certificate breaks, with the fields and their values.

    Args:
        data: the part ``data`` of a certificate, whose shape was checked.
        model: the model of the certificate.
        pieces: whether missing records cut a chain as well, as in a flow.
        streamed: whether the ranges may be those that were requested, because the data was not read yet.
    """
    try:
        ranges = EVERYTHING if data.get("ranges") is None else Ranges.from_dict(data["ranges"])
        problems = [*_fit_problems(model.fitted or {}), *_range_problems(data, ranges, streamed)]
        if series_of(model) is None and ar1_of(model) is None:
            return problems
        problems += _field_problems(data, model.step, streamed)
        if ranges == EVERYTHING and (data["order"] is not None or data["by"] is not None):
            return problems  # nothing says how long or whose the series is; where that matters it is a problem already
        pairs, unobserved = stated_lengths(data["lengths"]), data["unobserved"] if pieces else 0
        stated = _Stated(
            data=data,
            ranges=ranges,
            records=sum(length * count for length, count in pairs),
            chains=sum(count for _, count in pairs),
            cuts=unobserved,
            people=1 if data["by"] is None else sum(len(part.people or ()) for part in ranges.parts),
            tight=not streamed,
        )
        return problems + stated.problems()
    except PufferdpError as error:
        return [str(error)]


def stated_lengths(lengths: list[list[int]]) -> tuple[tuple[int, int], ...]:
    """Chain lengths as a certificate states them; rejects what is not pairs of a length and a number of chains."""
    rising = [pair[0] for pair in lengths if pair]
    if any(len(pair) != 2 or min(pair) < 1 for pair in lengths) or rising != sorted(set(rising)):
        raise CertificateError(
            f"data.lengths is {found_text(lengths)}; it must be pairs: a chain length and how many chains have it, "
            "both 1 or more, with the lengths rising"
        )
    return tuple((pair[0], pair[1]) for pair in lengths)


def _fit_problems(fitted: Mapping[str, Any]) -> Iterator[str]:
    """What a model file says of the data that it was fitted on."""
    records, chains = fitted.get("records"), fitted.get("chains")
    if isinstance(records, int) and isinstance(chains, int) and not 1 <= chains <= records:
        yield f"model.fitted.chains is {chains}; it must be from 1 to model.fitted.records, which is {records}"


def _range_problems(data: Mapping[str, Any], ranges: Ranges, streamed: bool) -> Iterator[str]:
    """The ranges by themselves, and with the columns that they are about."""
    if data.get("ranges") is None:
        return
    parts, listed = ranges.parts, [name for part in ranges.parts for name in part.people or ()]
    if ranges == EVERYTHING or canonical_json(ranges.to_dict()) != canonical_json(data["ranges"]):
        yield "data.ranges is not written as a release writes it"
    if (ranges.order, ranges.by) != (data["order"], data["by"]):
        yield "data.ranges is about other columns than data.order and data.by"
    if ranges.order is None and ranges.unit != "number":
        yield f"data.ranges has the unit {ranges.unit!r}, and no column that is measured in it"
    if len(listed) != len(set(listed)):
        yield "data.ranges names a person twice; each person has one range"
    if not listed and len(parts) > 1:
        yield f"data.ranges has {len(parts)} ranges and names nobody; without people there is one range"
    if ranges.order is not None and not streamed and any(part.first is None or part.last is None for part in parts):
        yield "data.ranges has a range without ends, and data.order says where the records lie"
    if ranges.by is not None and not streamed and any(part.people is None for part in parts):
        yield "data.ranges does not say whose the ranges are, and data.by identifies people"


def _field_problems(data: Mapping[str, Any], step: str | float | None, streamed: bool) -> Iterator[str]:
    """Fields that must be there, or may not, because of others."""
    needed = None if data["order"] is None else float(step) if isinstance(step, int) else step
    if data.get("step") != needed:
        yield f"data.step is {data.get('step')!r}; the model's step and data.order require {needed!r}"
    for name in ("order", "by"):
        if data[name] is not None and data.get("ranges") is None and not streamed:
            yield f"data.ranges is missing; data.{name} is {data[name]!r}, and so the ranges must be stated"
    if data.get("rows_in_order") and data["order"] is not None:
        yield f"data.rows_in_order is true, and data.order is {data['order']!r}: rows that are sorted need no order"
    if data.get("part") and data["order"] is None:
        yield "data.part is true, and data.order is null: only a column can say which part was read"
    if data.get("independent") and data["by"] is None and data["gap"] is None:
        yield "data.independent is true, and neither data.by nor data.gap cuts the series"


@dataclass(frozen=True, kw_only=True)
class _Stated:
    """The numbers of a reading, which bound each other."""

    data: Mapping[str, Any]
    ranges: Ranges
    records: int
    chains: int
    cuts: int
    """Chains that missing records may have cut, at most."""
    people: int
    tight: bool
    """Whether the ranges end where the records do, and name the people."""

    @property
    def restarts(self) -> int:
        """The least number of chains that can begin after a gap."""
        return max(0, self.chains - self.cuts - self.people)

    def problems(self) -> list[str]:
        """One sentence for each rule that is broken."""
        if self.tight:
            return [*self._cut_problems(), *self._independence_problems(), *self._time_problems()]
        return list(self._time_problems()) if self.data["by"] is None else []

    def _cut_problems(self) -> Iterator[str]:
        """Chains need something that cuts the series: a person, a gap, or, in a flow, a missing record."""
        data, most = self.data, self.people + self.cuts
        if data["gap"] is None and self.chains > most:
            why = "no column identifies people" if data["by"] is None else f"data.ranges names {self.people} people"
            yield (
                f"data.lengths is {found_text(data['lengths'])}: there are {self.chains} chains, and nothing cuts the "
                f"series into more than {most}: {why}, and data.gap is null"
            )
        if self.people > self.chains + data["dropped"]:
            yield (
                f"data.ranges names {self.people} people; data.lengths has {self.chains} chains, and data.dropped is "
                f"{data['dropped']}"
            )

    def _independence_problems(self) -> Iterator[str]:
        """Many short pieces count as independent only where the certificate says that this is assumed."""
        data, by, records = self.data, self.data["by"], self.records
        if data.get("independent"):
            return
        need = "that these are independent is an assumption, and data.independent must state it"
        # Where chains are people all are known; elsewhere people may have missing values alone.
        whole = data["gap"] is None and not self.cuts
        people = self.chains if whole else max(1, self.people - data["dropped"])
        if by is not None and people > 1 and 10 * people > records:
            yield f"data.by is {by!r} and cuts {records} records into {people} people: {need}"
        alone = sum(count for length, count in data["lengths"] if length == 1)
        if by is not None and whole and people > 1 and alone:
            yield f"data.by is {by!r}, and {alone} of {people} people have one record: {need}"
        if self.restarts and 2 * (self.restarts + 1) > records:
            yield f"data.gap is {data['gap']} and cuts {records} records into {self.chains} chains: {need}"

    def _time_problems(self) -> Iterator[str]:
        """Records and gaps must fit into the ranges."""
        data, people, unobserved, parts = self.data, self.people, self.data["unobserved"], self.ranges.parts
        if data["order"] is None or any(part.first is None or part.last is None for part in parts):
            return
        ends = [(Fraction(p.first or 0), Fraction(p.last or 0), len(p.people or (1,))) for p in parts]
        span = sum(((last - first) * count for first, last, count in ends), Fraction(0))
        gap, step = self._distance("gap"), self._distance("step")
        # Distances between doubles are compared up to rounding when the data is read (data/expressions.py).
        farthest = max(max(abs(first), abs(last)) for first, last, _ in ends)
        slack = farthest * people * Fraction(1, 2**49) + step * (self.records + unobserved) * Fraction(1, 2**40)
        if self.restarts * gap > span + slack:
            yield (
                f"data.lengths has {self.chains} chains with more than {data['gap']} (data.gap) between them; "
                f"data.ranges spans {self._words(span)}, in which at most {people + int(span / gap)} fit"
            )
        # How many chains missing records have cut is not known: the number that takes the least time counts.
        chains = min(max(people, self.chains - self.cuts), self.chains)
        needed = step * (self.records + unobserved - chains) + gap * max(0, chains - people)
        rows = self.records + data["dropped"]
        tight = self.tight and people <= MOST_PARTS  # one range stands for all of so many people
        if step and needed > span + slack:
            yield (
                f"data.records is {self.records} with data.unobserved {unobserved} in {self.chains} chains: at "
                f"data.step {data['step']} that takes {self._words(needed)}, and data.ranges spans {self._words(span)}"
            )
        elif step and not gap and not data["dropped"] and tight and needed < span - slack:
            slots = int((span + slack) / step) + people
            yield (
                f"data.unobserved is {unobserved}; data.ranges has {slots} steps of {data['step']} (data.step), and "
                f"data.records is {self.records}, so {slots - self.records} must be missing"
            )
        # Two rows of one person never have the same time. Times are written to the microsecond unless they have more
        # digits; numbers may lie as close as they like.
        fine = 1 if any(end % 1000 for first, last, _ in ends for end in (first, last)) else 1000
        headroom = span / fine if self.ranges.unit != "number" else Fraction(rows if span else 0)
        if rows - people > headroom:
            yield f"data.records is {self.records}; that many records do not lie in data.ranges of {self._words(span)}"
        least = sum(count * (1 if first == last else 2) for first, last, count in ends)
        if tight and rows < least:
            yield f"data.records is {self.records}; data.ranges has the ends of {least} rows"

    def _distance(self, name: str) -> Fraction:
        """A gap or a step in the unit of the ranges, which is nanoseconds for times; 0 where there is none."""
        if self.data.get(name) is None:
            return Fraction(0)
        distance = read_distance(self.data[name], f"data.{name}")
        if distance.is_duration == (self.ranges.unit == "number"):
            raise CertificateError(
                f"data.{name} is {self.data[name]!r}, and data.ranges has the unit {self.ranges.unit!r}: a duration "
                "goes with times, and a number with numbers"
            )
        return distance.amount * (1000 if distance.is_duration else 1)

    def _words(self, length: Fraction) -> str:
        return f"{float(length):g}" if self.ranges.unit == "number" else duration_text(length / 1000)
