"""Checks of an AR(1) fit: memory of one number, normal shape, one mean and variance over time and over the day.

Residuals are what a number has beyond its mean and the share of the number before it, one step ago. Under the model
they are independent and normal with one variance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints
from pufferdp.publish.fits.checks import LEAST_P, LEVEL, QUESTIONS, Check, unchecked

LEAST_STEPS: Final = 20
"""A fit needs so many pairs of numbers one step apart."""
_ADVICE: Final = {
    "second-order": "the number before the last one matters, and a guarantee under this model may be too good: put the "
    "numbers into bins and fit a chain of second order (with bins and memory 2), or read them at a longer step",
    "shape": "residuals are not normal, and the model is about normal numbers: take logarithms or ranks of the "
    "numbers, or put them into bins",
    "drift": "the mean changes with time: fit the interval that you will release, or differences of neighbours",
    "variance": "residuals vary more at some times: fit the interval that you will release, or take logarithms",
    "clock": "the mean changes with the hour: put the numbers into bins and fit a time-of-day model",
}
_QUESTIONS: Final = {
    "shape": "residuals normal",
    "drift": "mean of residuals, first half against second half",
    "variance": "size of residuals, first half against second half",
    "clock": "mean of residuals, by the hour",
}


def check_ar1(
    series: Sequence[tuple[Floats, Floats]], coefficient: float, mean: float, hours: Sequence[Ints] | None
) -> Iterator[Check]:
    """Every check that the numbers allow.

    Args:
        series: the numbers of each series, and how many steps each lies behind the one before.
        coefficient: the fitted coefficient.
        mean: the fitted mean.
        hours: the hour of each number from any hour on, if the order holds times.
    """
    yield check_second_order(series)
    residuals, late, slots = list[Floats](), list[Ints](), list[Ints]()
    for n, (numbers, steps) in enumerate(series):
        last = np.flatnonzero(steps[1:] == 1) + 1
        residuals.append(numbers[last] - mean - coefficient * (numbers[last - 1] - mean))
        late.append((2 * last >= len(numbers)).astype(np.int64))
        slots.append(np.zeros(len(last), dtype=np.int64) if hours is None else hours[n][last] % 24)
    values, half = np.concatenate(residuals), np.concatenate(late)
    if len(values) < LEAST_STEPS or np.ptp(values) == 0:
        return
    yield _shape(values)
    yield _by_group("drift", values, half)
    # The median of each half: a few large residuals do not look like a larger variance (Brown & Forsythe 1974).
    middle = np.array([np.median(values[half == part]) if (half == part).any() else 0.0 for part in (0, 1)])
    yield _by_group("variance", np.abs(values - middle[half]), half)
    if hours is not None:
        yield _by_group("clock", values, np.concatenate(slots))


def _shape(values: Floats) -> Check:
    """Skewness and kurtosis together (D'Agostino & Pearson 1973)."""
    from scipy.stats import normaltest

    statistic, p_value = (float(part) for part in normaltest(values))
    return _made("shape", statistic, 2, p_value, len(values))


def _by_group(name: str, values: Floats, groups: Ints) -> Check:
    """Whether groups have the same mean: Welch's test for groups of unlike variance, with its F as a chi-square."""
    sizes = np.bincount(groups)
    kept = np.flatnonzero(sizes >= 5)
    if len(kept) < 2:
        return unchecked(name, "too few residuals in each group", _QUESTIONS[name])
    parts = [values[groups == group] for group in kept]
    count, mean = np.array([len(part) for part in parts]), np.array([part.mean() for part in parts])
    spread = np.array([part.var(ddof=1) for part in parts])
    if not (spread > 0).all():
        return unchecked(name, "a group has equal residuals", _QUESTIONS[name])
    from scipy.special import fdtrc

    weight = count / spread
    centre = float((weight * mean).sum() / weight.sum())
    degrees = len(kept) - 1
    rest = float(((1 - weight / weight.sum()) ** 2 / (count - 1)).sum())
    welch = float((weight * (mean - centre) ** 2).sum()) / degrees
    welch /= 1 + 2 * (degrees - 1) / ((degrees + 1) ** 2 - 1) * rest
    p_value = float(fdtrc(degrees, ((degrees + 1) ** 2 - 1) / (3 * rest), welch))
    return _made(name, welch * degrees, degrees, p_value, int(count.sum()))


def _made(name: str, statistic: float, freedom: int, p_value: float, records: int) -> Check:
    return Check(
        name=name,
        question=_QUESTIONS[name],
        statistic=statistic,
        degrees_of_freedom=freedom,
        p_value=max(LEAST_P, p_value),
        effect=math.sqrt(max(0.0, statistic - freedom) / records),
        advice=_ADVICE[name],
    )


def check_second_order(series: Sequence[tuple[Floats, Floats]]) -> Check:
    """Whether the number before the last one helps to foretell the next: series of numbers, and of steps before each.

    Least squares on both numbers before, over all that follow two others at single steps, each series with a mean of
    its own. Under AR(1) the t-statistic of the farther one is normal for many records, near a coefficient of 1 too.
    """
    from scipy.special import stdtr

    check = Check(name="second-order", question=QUESTIONS["second-order"], advice=_ADVICE["second-order"])
    triples, means = [], 0
    for numbers, steps in series:
        last = np.flatnonzero((steps[1:-1] == 1) & (steps[2:] == 1)) + 2
        if len(last) > 1:
            own = np.stack([numbers[last], numbers[last - 1], numbers[last - 2]])
            triples.append(own - own.mean(axis=1, keepdims=True))
            means += 1
    freedom = sum(own.shape[1] for own in triples) - means - 2
    if freedom < LEAST_STEPS:
        return replace(check, reason="too few numbers follow two others at single steps")
    now, one, two = np.concatenate(triples, axis=1)
    rest, after = two - one * (one @ two) / (one @ one), now - one * (one @ now) / (one @ one)
    if rest @ rest <= 1e-18 * (two @ two):
        return replace(check, reason="each number is the one before it times a constant")
    slope = (rest @ after) / (rest @ rest)
    noise = after - slope * rest
    statistic = float(slope**2 * (rest @ rest) / max(float(noise @ noise) / freedom, 1e-300))
    p_value = max(LEAST_P, 2 * float(stdtr(freedom, -math.sqrt(statistic))))
    effect = math.sqrt(max(0.0, statistic - 1) / freedom)
    return replace(check, statistic=statistic, degrees_of_freedom=1, p_value=p_value, effect=effect, level=LEVEL)
