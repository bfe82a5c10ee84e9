"""Sums of single records: step functions beside a plain count of every record, in memory and in a ledger's tables."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.data.ranges import EVERYTHING, Range, Ranges
from pufferdp.ledger.charge import Charge
from pufferdp.ledger.ledger import Ledger
from pufferdp.ledger.record_sums import DELTA, END, LOSS, START, Reading, RecordSums, envelope
from pufferdp.ledger.sums_table import cut_key, key_cut
from pufferdp.models.chain import MarkovChain
from tests.strategies import examples

PEOPLE = ("ann", "bob", "cem", "dee")
PLACES = [Fraction(n, 4) for n in range(-12, 13)]
"""Records lie at, between and around the ends of ranges, which are whole and half numbers."""
CHAIN = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
ENDS = st.one_of(st.none(), st.integers(-2, 2), st.sampled_from([-1.5, 0.5, 1.5]))


@st.composite
def ranges(draw: st.DrawFn, people: bool = True) -> Ranges:
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        first, last = draw(ENDS), draw(ENDS)
        if first is not None and last is not None and first > last:
            first, last = last, first
        names = draw(st.one_of(st.none(), st.sets(st.sampled_from(PEOPLE), min_size=1))) if people else None
        parts.append(Range(first=first, last=last, people=None if names is None else tuple(sorted(names))))
    return Ranges(order="time", by="person" if people else None, parts=tuple(parts))


def reads(found: Ranges, person: str, place: Fraction) -> bool:
    """Whether a record was read, from the definition."""
    return any(
        (part.people is None or person in part.people)
        and (part.first is None or Fraction(part.first) <= place)
        and (part.last is None or place <= Fraction(part.last))
        for part in found.parts
    )


def largest(charges: list[tuple[Ranges, float]], asked: Ranges = EVERYTHING) -> Fraction:
    """The largest sum of any record that is asked about; somebody called zoe is nowhere named."""
    return max(
        sum((Fraction(loss) for found, loss in charges if reads(found, person, place)), Fraction(0))
        for person, place in itertools.product((*PEOPLE, "zoe"), PLACES)
        if reads(asked, person, place)
    )


LOSSES = st.sampled_from([0.5, 0.25, 0.125, 1.0, 3.0])
"""Their sums are exact, so that nothing is rounded."""


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.tuples(ranges(), LOSSES), min_size=1, max_size=5), ranges())
def test_sums_are_those_of_every_record_counted_by_itself(charges: list[tuple[Ranges, float]], asked: Ranges) -> None:
    sums, spent = RecordSums(), 0.0
    for found, loss in charges:
        spent = max(spent, sums.charge(found, {LOSS: loss, DELTA: loss / 1e6})[LOSS])
    assert Fraction(spent) == largest(charges)
    assert Fraction(sums.largest(asked)[2]) == largest(charges, asked)
    assert sums.largest(asked, DELTA)[2] == pytest.approx(float(largest(charges, asked)) / 1e6, rel=1e-12)


@pytest.mark.slow
@settings(max_examples=examples(12), deadline=None)
@given(st.lists(st.tuples(ranges(), LOSSES), min_size=1, max_size=4), ranges())
def test_a_ledger_keeps_the_same_sums_in_its_tables(
    tmp_path_factory: pytest.TempPathFactory, charges: list[tuple[Ranges, float]], asked: Ranges
) -> None:
    place = tmp_path_factory.mktemp("sums") / "books.db"
    with Ledger(place, create=True) as ledger:
        ledger.create("week", model=CHAIN, budget=1000.0)
        for found, loss in charges:
            ledger.charge("week", Charge(kind="dp", dp_loss=loss, longest=5, ranges=found))
        shown = ledger.dataset("week", asked)
        assert Fraction(shown.spent_dp) == largest(charges)
        assert shown.calendar is not None
        assert Fraction(shown.calendar.asked_loss or 0.0) == largest(charges, asked)
        for segment in shown.calendar.segments:
            where = Ranges(order="time", parts=(Range(first=segment.first, last=segment.last),))
            assert Fraction(segment.dp_loss) <= largest(charges, where)
            inside = [p for p in PLACES if _inside(p, segment.first, segment.last)]
            ends = [Fraction(p) for p in (segment.first, segment.last) if p is not None]
            everybody = (*PEOPLE, "zoe")
            sums = {
                person: [
                    sum(Fraction(loss) for found, loss in charges if reads(found, person, p)) for p in inside + ends
                ]
                for person in everybody
            }
            assert max(sums[person][n] for person in everybody for n in range(len(inside))) <= segment.dp_loss
            # Each has that sum somewhere in the segment: neighbours with the same largest sum are one segment.
            assert all(Fraction(segment.dp_loss) in sums[person] for person in segment.by or everybody)
        assert ledger.verify().valid


def _inside(place: Fraction, first: float | None, last: float | None) -> bool:
    if first is not None and first == last:
        return place == Fraction(first)
    return (first is None or place > Fraction(first)) and (last is None or place < Fraction(last))


def test_segments_that_share_an_end_overlap_there_and_others_do_not() -> None:
    sums = RecordSums()
    for first, last in ((0, 1), (1, 2), (math.nextafter(2.0, 3.0), 3)):
        found = sums.charge(Ranges(order="t", parts=(Range(first=first, last=last),)), {LOSS: 1.0})
    assert found == {LOSS: 1.0}
    assert sums.largest(Ranges(order="t", parts=(Range(first=1, last=1),)))[2] == 2.0
    assert sums.largest(Ranges(order="t", parts=(Range(first=1.5, last=9),)))[2] == 1.0


def test_a_record_in_several_parts_of_one_release_was_read_once() -> None:
    found = Ranges(
        order="t",
        by="who",
        parts=(
            Range(first=0, last=5),
            Range(first=3, last=9, people=("ann", "bob")),
            Range(first=4, last=7, people=("bob",)),
        ),
    )
    assert RecordSums().charge(found, {LOSS: 1.0}) == {LOSS: 1.0}
    reading = Reading.of(found)
    assert reading.everybody == (((0, 0), (5, 1)),)
    assert set(reading.groups) == {(("ann",), (((5, 1), (9, 1)),)), (("bob",), (((5, 1), (9, 1)),))}


def test_sums_are_never_rounded_down() -> None:
    sums, day = RecordSums(), Ranges(order="t", parts=(Range(first=0, last=1),))
    for _ in range(1000):
        spent = sums.charge(day, {LOSS: 0.1})[LOSS]
    assert Fraction(spent) >= 1000 * Fraction(0.1)
    assert spent == pytest.approx(100, rel=1e-12)


NUMBERS = st.one_of(
    st.integers(-(2**63) + 1, 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.integers(-3, 3)
)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.tuples(NUMBERS, st.integers(0, 1)), min_size=2, max_size=4))
def test_keys_are_in_the_order_of_cuts_and_come_back(cuts: list[tuple[float, int]]) -> None:
    cuts = [START, *cuts, END]
    assert [key_cut(cut_key(cut)) for cut in cuts] == cuts
    assert sorted(cuts) == [key_cut(key) for key in sorted(map(cut_key, cuts))]


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 4), st.integers(1, 3)), max_size=6))
def test_the_envelope_is_the_pointwise_largest(raw: list[tuple[int, int, int]]) -> None:
    pieces = [((first, 0), (first + length, 0), float(value)) for first, length, value in raw]
    found = list(envelope(pieces))
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(found))
    for place in range(13):
        wanted = max((v for (a, _), (b, _), v in pieces if a <= place < b), default=0.0)
        assert max((v for (a, _), (b, _), v in found if a <= place < b), default=0.0) == wanted


def test_whole_numbers_that_no_double_holds_are_rounded_outwards() -> None:
    far = 2**70 + 1
    reading = Reading.of(Ranges(order="t", parts=(Range(first=far, last=far),)))
    (((first, _), (last, _)),) = reading.everybody
    assert first < far < last
