"""Checks of what every chain assumes beside its transitions: independent people, months alike, a usual beginning.

Given the state before it, a record of one person says nothing about another person. Let A be how many records of a
person equal the record of another at the same time, and P the transition matrix. Given the other person's series, A has
mean Σ P(x_t, y_{t+1}) and variance Σ P(1 − P), so (A − mean)/deviation is about normal. Two people under one name too
many (twins, a wearer with two devices) show in their pair; what moves all people at once shows in the sum of all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.data.series import StatePath
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.fits.checks import LEAST_P, QUESTIONS, Check, Codes, independence, of_pearson, unchecked


def check_assumptions(path: StatePath, hidden: bool = False) -> Iterator[Check]:
    """The checks for which these records say enough to be asked; of hidden states only those without a chain."""
    counts = _moves(path)
    if path.by_person and path.persons.max(initial=0) > 0:
        yield _together(path, counts, hidden)
    if hidden:
        return
    if path.microseconds is not None:
        yield from _months(path, path.microseconds)
    yield from _start(path, counts)


def _moves(path: StatePath) -> Floats:
    """Transition probabilities as counted; rows that were never left are uniform."""
    size = int(path.codes.max(initial=0)) + 1
    before = np.flatnonzero(path.joined[1:])
    counts = np.bincount(path.codes[before] * size + path.codes[before + 1], minlength=size**2).reshape(size, size)
    counts = np.where(counts.any(axis=1, keepdims=True), counts, 1)
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def _together(
    path: StatePath, moves: Floats, hidden: bool, most: int = 1 << 23, least: float = 9.0, parts: int = 20
) -> Check:
    """Records of two people at the same time, given the record before of one of them.

    Args:
        path: the records.
        moves: transition probabilities.
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
    now[when, path.persons] = path.codes
    follows = np.flatnonzero(path.joined[1:]) + 1
    before[when[follows], path.persons[follows]] = path.codes[follows - 1]
    apart = range(1, min(people // 2, max(1, most // (times * people))) + 1)
    excess, variance, records = (
        np.concatenate(found)
        for found in zip(*(_pairs(now, before, moves, s, parts if hidden else 0) for s in apart), strict=True)
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


def _pairs(now: Codes, before: Codes, moves: Floats, apart: int, parts: int) -> tuple[Floats, Floats, Floats]:
    """For each person and the one so many places on: agreements beyond chance, their variance, and records."""
    other = np.roll(now, -apart, axis=1)
    both = (before >= 0) & (other >= 0)
    chance = np.where(both, moves[before, other], 0.0)
    excess, variance = (both & (now == other)) - chance, (chance * (1 - chance)).sum(axis=0)
    if parts:
        sums = np.add.reduceat(excess, np.arange(parts) * len(excess) // parts, axis=0)
        variance = np.maximum(variance, parts * sums.var(axis=0, ddof=1))
    return excess.sum(axis=0), variance, both.sum(axis=0)


def _months(path: StatePath, microseconds: Codes) -> Iterator[Check]:
    """Given a state, the month and the state after it; from three months on."""
    months = microseconds.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
    months -= months.min()
    if len(np.unique(months)) < 3:
        return
    before = np.flatnonzero(path.joined[1:])
    found = independence(path.codes[before], months[before], path.codes[before + 1], ordered=True)
    advice = "the moves change with the month: fit the months that you will release, or a class that holds for each"
    yield of_pearson("season", "one matrix against one for each month", found, advice)


def _start(path: StatePath, moves: Floats, least: int = 20) -> Iterator[Check]:
    """First records of series against the stationary distribution; where there are at least so many series."""
    first = np.diff(path.persons, prepend=-1) > 0 if path.apart is None else path.apart == 0
    starts = path.codes[first]
    if len(starts) < least:
        return
    name, question = "start", "first records against the stationary distribution"
    expected = MarkovChain(transition=moves).stationary
    # The distribution is estimated as well as by so many independent records.
    slow = float(np.sort(np.abs(np.linalg.eigvals(moves)))[-2]) if len(moves) > 1 else 0.0
    known = len(path.codes) * (1 - slow) / (1 + slow)
    counts, order = np.bincount(starts, minlength=len(expected)), np.argsort(expected)
    large = np.flatnonzero(np.cumsum(expected[order]) * len(starts) >= 5)  # rare states are one cell
    if not len(large) or len(order) - large[0] < 2 or known <= 0:
        yield unchecked(name, "too few series begin in different states", question)
        return
    cells = np.add.reduceat(np.stack([counts[order], len(starts) * expected[order]]), [0, *large[1:]], axis=1)
    cells = cells[:, cells[1] >= 5]
    statistic = float(((cells[0] - cells[1]) ** 2 / cells[1]).sum()) / (1 + len(starts) / known)
    freedom = cells.shape[1] - 1
    from scipy.special import gammaincc

    yield Check(
        name=name,
        question=question,
        statistic=statistic,
        degrees_of_freedom=freedom,
        p_value=max(LEAST_P, float(gammaincc(freedom / 2, statistic / 2))),
        effect=math.sqrt(max(0.0, statistic - freedom) / len(starts)),
        advice='series do not begin as they go on: fit with start="any", which holds for every first record',
    )
