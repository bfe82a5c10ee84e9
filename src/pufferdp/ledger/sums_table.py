"""The sums of a data set in a ledger's tables: read where a charge overlaps them, and written back.

They follow from the rows of the ledger, and ledger verify computes them again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pufferdp.data.ranges import Moment
from pufferdp.ledger.record_sums import DELTA, END, LOSS, START, Cut, RecordSums, Span, Steps
from pufferdp.ledger.store.base import Row, Session

_FEW: Final = 500
"""So many people are looked up by name; of more, all are read."""
_BITS: Final = 64
_BIAS: Final = 2048
"""Exponents of doubles lie between -1074 and 1024."""
_NEGATIVE, _ZERO, _POSITIVE = b"\x10", b"\x20", b"\x30"
_LAST: Final = b"\xff"
_SUMS: Final = (
    "INSERT INTO ledger_sums (dataset, quantity, crowd, cut, value) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (dataset, quantity, crowd, cut) DO UPDATE SET value = excluded.value"
)
_MEMBERS: Final = (
    "INSERT INTO ledger_members (dataset, person, crowd) VALUES (?, ?, ?) "
    "ON CONFLICT (dataset, person) DO UPDATE SET crowd = excluded.crowd"
)
_OF_CROWD: Final = "FROM ledger_sums WHERE dataset = ? AND quantity = ? AND crowd = ?"


def cut_key(cut: Cut) -> bytes:
    """Bytes that are in the order of cuts: sign, exponent, mantissa, and whether it lies after the value."""
    moment, after = cut
    if math.isinf(moment):
        return b"" if moment < 0 else _LAST
    if moment == 0:
        return _ZERO + bytes([after])
    if isinstance(moment, int):
        exponent = abs(moment).bit_length()
        mantissa = abs(moment) << (_BITS - exponent)
    else:
        fraction, exponent = math.frexp(abs(moment))
        mantissa = int(math.ldexp(fraction, 53)) << (_BITS - 53)
    size = (exponent + _BIAS).to_bytes(2, "big") + mantissa.to_bytes(8, "big")
    if moment < 0:
        return _NEGATIVE + bytes(255 - byte for byte in size) + bytes([after])
    return _POSITIVE + size + bytes([after])


def key_cut(key: bytes) -> Cut:
    """The cut that bytes stand for; whole numbers come back as such."""
    if not key or key == _LAST:
        return START if not key else END
    after = key[-1]
    if key[:1] == _ZERO:
        return 0, after
    size = key[1:-1] if key[:1] == _POSITIVE else bytes(255 - byte for byte in key[1:-1])
    exponent, mantissa = int.from_bytes(size[:2], "big") - _BIAS, int.from_bytes(size[2:], "big")
    sign = 1 if key[:1] == _POSITIVE else -1
    low = (mantissa & -mantissa).bit_length() - 1
    whole = exponent - _BITS + low >= 0
    moment: Moment
    if whole and exponent <= _BITS:
        moment = sign * (mantissa >> (_BITS - exponent))
    else:
        moment = sign * math.ldexp(mantissa >> (_BITS - 53), exponent - 53)
    return moment, after


class TableSums(RecordSums):
    """The sums of a data set inside a transaction. Nothing is written before ``write``."""

    def __init__(self, session: Session, dataset: str, crowds: int) -> None:
        super().__init__(crowds)
        self._session, self._dataset, self._before = session, dataset, crowds
        self._stored: dict[tuple[str, int], dict[Cut, float]] = {}
        self._moved: list[tuple[Sequence[str], int]] = []
        self._hull: Span = (START, END)

    def write(self) -> None:
        """Write the sums and members that have changed."""
        rows: list[Row] = []
        for (quantity, crowd), function in self.functions.items():
            stored = self._stored.get((quantity, crowd), {})
            rows += [
                (self._dataset, quantity, crowd, cut_key(cut), value)
                for cut, value in zip(function.cuts, function.values, strict=True)
                if stored.get(cut) != value
            ]
        members = ((self._dataset, person, crowd) for people, crowd in self._moved for person in people)
        self._session.many(_MEMBERS, members)
        self._session.many(_SUMS, rows)

    def _look_at(self, hull: Span) -> None:
        self._hull = hull

    def _function(self, quantity: str, crowd: int) -> Steps:
        key = quantity, crowd
        if key not in self.functions:
            rows = [] if crowd > self._before else self._read(quantity, crowd, self._hull)
            self.functions[key] = Steps(*zip(*rows, strict=True)) if rows else Steps()
            self._stored[key] = dict(rows)
        return self.functions[key]

    def _whole(self, quantity: str, crowd: int) -> Steps:
        which = self._dataset, quantity, crowd
        rows = list(self._session.rows(f"SELECT cut, value {_OF_CROWD} ORDER BY cut", *which))
        return Steps((key_cut(bytes(key)) for key, _ in rows), (value for _, value in rows))

    def _read(self, quantity: str, crowd: int, hull: Span) -> list[tuple[Cut, float]]:
        """The rows of a function from the last one at or before the hull to the end of the hull."""
        which = self._dataset, quantity, crowd
        begin, end = cut_key(hull[0]), cut_key(hull[1])
        before = f"SELECT cut, value {_OF_CROWD} AND cut <= ? ORDER BY cut DESC LIMIT 1"
        inside = f"SELECT cut, value {_OF_CROWD} AND cut > ? AND cut <= ?"
        rows = [*self._session.rows(before, *which, begin), *self._session.rows(inside, *which, begin, end)]
        return sorted((key_cut(bytes(key)), value) for key, value in rows)

    def _some_cuts(self, crowd: int) -> list[Cut]:
        rows = self._session.rows(f"SELECT cut {_OF_CROWD} LIMIT 3", self._dataset, LOSS, crowd)
        return [key_cut(bytes(key)) for (key,) in list(rows)]

    def _crowds_of(self, people: Sequence[str]) -> list[int]:
        if not self._before or not people:
            return [0] * len(people)
        sql = "SELECT person, crowd FROM ledger_members WHERE dataset = ?"
        if len(people) > _FEW:
            self.member = self.member or dict(self._session.rows(sql, self._dataset))
            return super()._crowds_of(people)
        found: dict[str, int] = dict(
            self._session.rows(f"{sql} AND person IN ({_marks(people)})", self._dataset, *people)
        )
        return [found.get(person, 0) for person in people]

    def _sizes(self, crowds: set[int]) -> dict[int, int]:
        if self.member:
            count = Counter(self.member.values())
            return {crowd: count[crowd] for crowd in crowds}
        sizes, ordered = Counter[int](), sorted(crowds)
        for some in (ordered[n : n + _FEW] for n in range(0, len(ordered), _FEW)):
            sql = f"SELECT crowd, count(*) FROM ledger_members WHERE dataset = ? AND crowd IN ({_marks(some)}) "
            sizes.update(dict(self._session.rows(sql + "GROUP BY crowd", self._dataset, *some)))
        return sizes

    def _move(self, people: Sequence[str], before: int, crowd: int) -> None:
        self._moved.append((people, crowd))
        for quantity in (LOSS, DELTA):
            if before and (function := self._whole(quantity, before)).cuts:
                self.functions[quantity, crowd] = function


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def load_sums(session: Session, dataset: str) -> RecordSums:
    """All sums of a data set in memory."""
    sums = RecordSums()
    for quantity, crowd, cut, value in stored_sums(session, dataset):
        function = sums.functions.setdefault((quantity, crowd), Steps())
        function.cuts.append(key_cut(cut))
        function.values.append(value)
    sums.member = dict(session.rows("SELECT person, crowd FROM ledger_members WHERE dataset = ?", dataset))
    return sums


def stored_sums(session: Session, dataset: str) -> Iterator[Row]:
    """All sums of a data set as rows (quantity, crowd, cut, value)."""
    sql = "SELECT quantity, crowd, cut, value FROM ledger_sums WHERE dataset = ? ORDER BY quantity, crowd, cut"
    return ((quantity, crowd, bytes(cut), value) for quantity, crowd, cut, value in session.rows(sql, dataset))


def sums_rows(sums: RecordSums) -> Iterable[Row]:
    """The rows of sums in memory, in the same order."""
    for (quantity, crowd), function in sorted(sums.functions.items(), key=lambda item: item[0]):
        for cut, value in zip(function.cuts, function.values, strict=True):
            yield quantity, crowd, cut_key(cut), value
