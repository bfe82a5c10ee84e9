"""Checks of what every chain assumes beside its transitions: independent people, months alike, a usual beginning.

Given the state before it, a record of one person says nothing about another person. Let A be how many records of a
person equal the record of another at the same time, and P the transition matrix. Given the other person's series, A has
mean Σ P(x_t, y_{t+1}) and variance Σ P(1 − P), so (A − mean)/deviation is about normal. Two people under one name too
many (twins, a wearer with two devices) show in their pair; what moves all people at once shows in the sum of all pairs.
A time-of-day model has a matrix for each slot, so a night that all people share is no reason to reject it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pufferdp.basics.arrays import Floats, Mask
from pufferdp.data.series import StatePath
from pufferdp.models.chain import MarkovChain
from pufferdp.models.clock import distance_amount, rhythm_of
from pufferdp.publish.fits.checks import LEAST_P, QUESTIONS, Check, Codes, independence, of_pearson, unchecked


def check_assumptions(path: StatePath, hidden: bool = False, clock: str | int | None = None) -> Iterator[Check]:
    """The checks for which these records say enough to be asked.

    Args:
        path: the records.
        hidden: whether records depend on more than the record before.
        clock: of a time-of-day model its rhythm.
    """
    time, slots = path.microseconds, np.zeros_like(path.codes)
    if clock is not None and time is not None:
        many, period = rhythm_of(clock)
        length = int(distance_amount(period)[0])
        monday = np.datetime64("1970-01-05", "us").astype(np.int64)
        time_of_period = (time - monday) % length
        slots = time_of_period * many // length
    moves = _moves(path, slots)
    # Hidden states by time of day share their rhythm with every other person.
    if path.by_person and path.persons.max(initial=0) > 0 and not (hidden and clock is not None):
        yield _together(path, moves, slots, hidden)
    if time is not None:
        yield from _months(path, time, None if hidden else slots, moves)
    if clock is not None and time is not None:
        yield from _start_of_day(path, time_of_period)
    else:
        yield from _start(path, moves[0], hidden)


def _moves(path: StatePath, slots: Codes) -> Floats:
    """Transition probabilities from each slot on as counted, (slots, k, k); rows that were never left are uniform."""
    size, many = int(path.codes.max(initial=0)) + 1, int(slots.max(initial=0)) + 1
    before = np.flatnonzero(path.joined[1:])
    keys = (slots[before] * size + path.codes[before]) * size + path.codes[before + 1]
    counts = np.bincount(keys, minlength=many * size**2).reshape(many, size, size)
    counts = np.where(counts.any(axis=2, keepdims=True), counts, 1)
    return np.asarray(counts / counts.sum(axis=2, keepdims=True))


def _together(
    path: StatePath,
    moves: Floats,
    slots: Codes,
    hidden: bool,
    most: int = 1 << 23,
    least: float = 9.0,
    parts: int = 20,
) -> Check:
    """Records of two people at the same time, given the record before of one of them.

    Args:
        path: the records.
        moves: transition probabilities of each slot.
        slots: the slot of each record.
        hidden: whether records depend on more than the record before. A − mean has mean 0 then, too, but its terms are
            correlated: its variance is estimated from parts of the series as well, and the larger one counts.
        most: records compared with a record of another person, a second; of very many people those nearest in order.
        least: the variance below which a pair is left out, because its deviate is not normal.
        parts: parts of the time whose sums are taken to be independent where records depend on more.
    """
    name, people = "together", int(path.persons.max()) + 1
    sizes = np.bincount(path.persons, minlength=people)
    place = np.arange(len(path.codes)) - (np.cumsum(sizes) - sizes)[path.persons]
    # Without times, records of the same number in each series are compared.
    _, when = np.unique(place if path.microseconds is None else path.microseconds, return_inverse=True)
    times = int(when.max()) + 1
    if times * people > most:
        return unchecked(name, f"{people:,} people at {times:,} times are too many to compare")
    now = np.full((times, people), -1)
    before = np.full((times, people), -1)
    slot = np.zeros((times, people), dtype=np.int64)
    now[when, path.persons] = path.codes
    follows = np.flatnonzero(path.joined[1:]) + 1
    before[when[follows], path.persons[follows]] = path.codes[follows - 1]
    slot[when[follows], path.persons[follows]] = slots[follows - 1]
    apart = range(1, min(people // 2, max(1, most // (times * people))) + 1)
    excess, variance, records = (
        np.concatenate(found)
        for found in zip(*(_pairs(now, before, slot, moves, s, parts if hidden else 0) for s in apart), strict=True)
    )
    enough = variance >= least
    from scipy.special import stdtr

    if not enough.any():
        return unchecked(name, "people have too few records at the same times")
    deviates = np.abs(excess[enough]) / np.sqrt(variance[enough])
    pair = int(np.argmax(deviates))
    tests = [
        (float(deviates[pair]), len(deviates), np.flatnonzero(enough)[[pair]]),
        (abs(float(excess[enough].sum())) / math.sqrt(float(variance[enough].sum())), 1, np.flatnonzero(enough)),
    ]
    # The worst pair and the sum of all pairs are two tests.
    tail = 2 * stdtr(parts - 1, [-z for z, _, _ in tests]) if hidden else [math.erfc(z / 2**0.5) for z, _, _ in tests]
    values = [min(1.0, 2 * many * float(p)) for p, (_, many, _) in zip(tail, tests, strict=True)]
    z, _, which = tests[int(np.argmin(values))]
    return Check(
        name=name,
        question=QUESTIONS[name],
        statistic=z**2,
        degrees_of_freedom=1,
        p_value=max(LEAST_P, min(values)),
        effect=abs(float(excess[which].sum())) / float(records[which].sum()),
        advice="people move together: a release about one tells about another. Read what belongs together as one "
        "series, or leave out people who are there twice",
    )


def _pairs(
    now: Codes, before: Codes, slot: Codes, moves: Floats, apart: int, parts: int
) -> tuple[Floats, Floats, Floats]:
    """For each person and the one so many places on: agreements beyond chance, their variance, and records."""
    other = np.roll(now, -apart, axis=1)
    both = (before >= 0) & (other >= 0)
    chance = np.where(both, moves[slot, before, other], 0.0)
    excess, variance = (both & (now == other)) - chance, (chance * (1 - chance)).sum(axis=0)
    if parts:
        sums = np.add.reduceat(excess, np.arange(parts) * len(excess) // parts, axis=0)
        variance = np.maximum(variance, parts * sums.var(axis=0, ddof=1))
    return excess.sum(axis=0), variance, both.sum(axis=0)


def _months(path: StatePath, time: Codes, slots: Codes | None, moves: Floats) -> Iterator[Check]:
    """Given a state, and the slot of a time-of-day model, the month and the state after it; from three months on."""
    months = time.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
    months -= months.min()
    if len(np.unique(months)) < 3:
        return
    before = np.flatnonzero(path.joined[1:])
    question, advice = (
        "one matrix against one for each month",
        ("the moves change with the month: fit the months that you will release, or a class that holds for each"),
    )
    if slots is None:
        yield _months_of_hidden(
            path,
            before,
            time.astype("datetime64[us]").astype("datetime64[D]").astype(np.int64) // 5,
            months,
            moves[0],
            question,
            advice,
        )
        return
    strata = slots[before] * moves.shape[1] + path.codes[before]
    found = independence(strata, months[before], path.codes[before + 1], ordered=True)
    yield of_pearson("season", question, found, advice)


def _months_of_hidden(
    path: StatePath, before: Codes, part: Codes, months: Codes, moves: Floats, question: str, advice: str
) -> Check:
    """For each state, whether the share of moves to its most usual successors is the same in every month.

    Records depend on more than the record before. So parts of five days in a month are taken to be independent, and
    their shares are compared with those of other months by an analysis of variance; of all states the worst counts.
    """
    from scipy.special import fdtrc

    _, parts = np.unique(months * (int(part.max()) + 1) + part, return_inverse=True)
    month_of = np.zeros(int(parts.max()) + 1, dtype=np.int64)
    month_of[parts] = np.unique(months, return_inverse=True)[1]
    tests = list[tuple[float, float, int, float]]()
    for state, row in enumerate(moves):
        chance = float(row[np.argmax(row * (1 - row))])
        at = before[path.codes[before] == state]
        moved = (path.codes[at + 1] == np.argmax(row * (1 - row))) - chance
        sizes, sums = (np.bincount(parts[at], values, len(month_of)) for values in (None, moved))
        used = sizes * chance * (1 - chance) >= 2  # below it their number is not about normal
        size, total, month = sizes[used], sums[used], month_of[used]
        sizes_of, totals_of = np.bincount(month, size), np.bincount(month, total)
        seen = np.bincount(month) > 0
        freedom, rest = int(seen.sum()) - 1, len(size) - int(seen.sum())
        if freedom < 1 or rest < 8:
            continue
        of_months = float((totals_of[seen] ** 2 / sizes_of[seen]).sum())
        between = of_months - float(total.sum()) ** 2 / float(size.sum())
        within = (float((total**2 / size).sum()) - of_months) / rest
        beyond = max(0.0, between - freedom * within) / (float(size.sum()) * chance * (1 - chance))
        ratio = between / freedom / max(within, 1e-300)
        tests.append((float(fdtrc(freedom, rest, ratio)), ratio * freedom, freedom, math.sqrt(beyond)))
    if not tests:
        return unchecked("season", "too few records for it", question)
    p_value, statistic, freedom, effect = min(tests)
    return Check(
        name="season",
        question=question,
        statistic=statistic,
        degrees_of_freedom=freedom,
        p_value=max(LEAST_P, min(1.0, len(tests) * p_value)),
        effect=effect,
        advice=advice,
    )


def _firsts(path: StatePath) -> Mask:
    """The first record of each series."""
    return np.diff(path.persons, prepend=-1) > 0 if path.apart is None else path.apart == 0


def _start(path: StatePath, moves: Floats, hidden: bool, least: int = 20) -> Iterator[Check]:
    """First records of series against the stationary distribution; where there are at least so many series."""
    first = _firsts(path)
    starts = path.codes[first]
    if len(starts) < least:
        return
    question = "first records against the stationary distribution"
    if not hidden:
        expected = MarkovChain(transition=moves).stationary
        # The distribution is estimated as well as by so many independent records.
        slow = float(np.sort(np.abs(np.linalg.eigvals(moves)))[-2]) if len(moves) > 1 else 0.0
        known = len(path.codes) * (1 - slow) / (1 + slow)
    else:
        later = path.codes[~first]
        expected = np.bincount(later, minlength=len(moves)) / max(1, len(later))
        known = _independent_records(path, ~first, expected)
    yield _of_starts(question, starts, len(starts) * expected, 1 + len(starts) / known if known > 0 else math.inf)


def _independent_records(path: StatePath, later: Mask, expected: Floats) -> float:
    """As how many independent records the later ones tell the distribution, from the variance of 20 parts of them."""
    part = np.arange(len(path.codes)) * 20 // len(path.codes)
    sizes = np.bincount(part[later], minlength=20)
    least = float(len(path.codes))
    for state in np.flatnonzero((expected > 0) & (expected < 1)):
        sums = np.bincount(part[later], path.codes[later] == state, 20) - sizes * expected[state]
        variance = expected[state] * (1 - expected[state])
        least = min(least, len(path.codes) ** 2 * variance / max(20 * float(sums.var(ddof=1)), 1e-300))
    return least


def _start_of_day(path: StatePath, time_of_period: Codes, least: int = 20) -> Iterator[Check]:
    """First records of series against later records at the same time of the period."""
    first = _firsts(path)
    if int(first.sum()) < least:
        return
    question = "first records against later ones at the same time of day"
    _, place = np.unique(time_of_period, return_inverse=True)
    sizes, begin = np.bincount(place[~first], minlength=place.max() + 1), np.bincount(place[first], minlength=1)
    begin = np.pad(begin, (0, len(sizes) - len(begin)))
    used = (begin > 0) & (sizes >= 10 * begin)
    if int(begin[used].sum()) < least:
        yield unchecked("start", "too few later records lie at the times at which series begin", question)
        return
    states = int(path.codes.max()) + 1
    shares = np.zeros((len(sizes), states))
    np.add.at(shares, (place[~first], path.codes[~first]), 1.0)
    expected = (begin[used, None] * shares[used] / sizes[used, None]).sum(axis=0)
    factor = float((begin[used] * (1 + begin[used] / sizes[used])).sum() / begin[used].sum())
    yield _of_starts(question, path.codes[first & used[place]], expected, factor)


def _of_starts(question: str, starts: Codes, expected: Floats, factor: float) -> Check:
    """Compare counts of first records with expected ones; ``factor`` widens the variance of independent counts."""
    from scipy.special import gammaincc

    counts, order = np.bincount(starts, minlength=len(expected)), np.argsort(expected)
    large = np.flatnonzero(np.cumsum(expected[order]) >= 5)  # rare states are one cell
    if not len(large) or len(order) - large[0] < 2 or not math.isfinite(factor):
        return unchecked("start", "too few series begin in different states", question)
    cells = np.add.reduceat(np.stack([counts[order], expected[order]]), [0, *large[1:]], axis=1)
    cells = cells[:, cells[1] >= 5]
    statistic = float(((cells[0] - cells[1]) ** 2 / cells[1]).sum()) / factor
    freedom = cells.shape[1] - 1
    return Check(
        name="start",
        question=question,
        statistic=statistic,
        degrees_of_freedom=freedom,
        p_value=max(LEAST_P, float(gammaincc(freedom / 2, statistic / 2))),
        effect=math.sqrt(max(0.0, statistic - freedom) / len(starts)),
        advice='series do not begin as they go on: fit with start="any", which holds for every first record',
    )
