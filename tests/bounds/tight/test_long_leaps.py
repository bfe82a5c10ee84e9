"""Leaps against single steps: entries of the signed vector that change their signs, often or only for a step or two."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.bounds.tight.long.leaps import Leaps
from tests.oracles import signed
from tests.strategies import examples

CLOSE = 1e-10
"""As a share of the largest entry; a step rounds to about 1e-16 of it, and there are a few thousand."""
SHORT = 8
"""Steps after which an entry has its sign again, at most, in cases where it hardly loses it."""
KINDS = ("usual", "zeros", "sticky", "uneven", "rotating", "uneven rotating", "periodic", "left", "negative", "apart")


def kernel_of(generator: np.random.Generator, k: int, kind: str) -> np.ndarray:
    """Rotating chains have complex eigenvalues; where stays are uneven some states are left soon."""
    rows = generator.dirichlet(np.full(k, generator.choice([0.3, 1.0, 3.0])), size=k)
    rows = rows / rows.sum(axis=1, keepdims=True)
    ahead = np.roll(np.eye(k), 1, axis=1)
    moves = 10.0 ** generator.uniform(-6, 0, size=(k, 1) if kind.startswith("uneven") else ())
    if kind == "zeros":
        rows = np.where((generator.random((k, k)) < 0.5) & (ahead == 0), 0.0, rows)
    elif kind in ("sticky", "uneven"):
        rows = (1 - moves) * np.eye(k) + moves * rows
    elif kind.endswith("rotating"):
        other, moves = 10.0 ** generator.uniform(-6, -0.5), np.maximum(moves, 1e-4)
        rows = (1 - moves) * np.eye(k) + moves * ((1 - other) * ahead + other * rows)
    elif kind == "periodic":
        part = np.arange(k) % generator.integers(2, k + 1)
        rows = rows * (part[None] == (part[:, None] + 1) % (part.max() + 1))
    elif kind == "left":
        first = int(generator.integers(1, k))
        rows[first:, :first] = 0.0
        rows = (1 - moves) * np.eye(k) + moves * rows
    elif kind == "negative":
        rows = 1 - np.eye(k) + generator.uniform(0.02, 0.3) * rows
    elif kind == "apart":
        part = np.arange(k) < k // 2
        rows = np.where(part[:, None] == part[None], rows, 0.01 * moves * rows)
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def check(kernel, loss, x, y, logs, distances, steps, sizes, case):
    """All log μ at all distances: vectors and parts below, and logs of their scales."""
    row, distance = (part.ravel() for part in np.meshgrid(np.arange(len(logs)), distances, indexing="ij"))
    pair = np.full(len(row), x), np.full(len(row), y)
    found = Leaps(kernel, loss).ask(*pair, logs[row], distance)
    largest = np.abs(np.stack(found[:2])).max(axis=(0, 2))
    for part in (0, 1):
        error = np.abs(found[part] / largest[:, None] - steps[distance - 1, row, part]).max()
        assert error <= CLOSE, (case, part, error)
    exact = sizes[distance - 1, row]
    # Where leaps are single steps, a large log is rounded at each of them.
    error = np.abs(found[2] + np.log(largest) - exact) - distance * np.spacing(np.abs(exact) + distance * loss)
    assert error.max() <= CLOSE, (case, error.max())


def check_random(seed: int) -> tuple[str, int]:
    """One random chain at many μ and distances; how often some entry changes its sign."""
    generator = np.random.default_rng([seed, 91])
    kind, k = KINDS[seed % len(KINDS)], int(generator.integers(3, 9))
    kernel, loss = kernel_of(generator, k, kind), float(10 ** generator.uniform(-6, np.log10(5.0)))
    x, y = (int(value) for value in generator.choice(k, 2, replace=False))
    logs = np.concatenate([generator.uniform(-30, 30, 5), generator.normal(size=8), [0.0, -np.inf, loss, -loss]])
    last = int(10 ** generator.uniform(1.0, 3.6))
    distances = np.unique([1, *generator.integers(1, last + 1, size=8), last])
    steps, sizes = signed.followed(kernel, loss, x, y, logs, last)
    check(kernel, loss, x, y, logs, distances, steps, sizes, (seed, kind))
    return kind, int(signed.changes(steps)[0].max())


def returns_at_once(kernel, loss, x, y, last):
    """Log μ at which some entry changes its sign and has it again within a few steps, after many without a change.

    Such μ lie between two at which the numbers of changes differ by two.
    """
    logs, found = np.linspace(-4.0, 4.0, 48), []
    counts, _ = signed.changes(signed.followed(kernel, loss, x, y, logs, last)[0])
    for entry, at in zip(*np.nonzero(np.abs(np.diff(counts, axis=0)).T == 2), strict=True):
        low, high = logs[at], logs[at + 1]
        for _ in range(6):
            tried = np.linspace(low, high, 16)
            steps, _ = signed.followed(kernel, loss, x, y, tried, last)
            count, shortest = signed.changes(steps)
            here = np.flatnonzero(np.abs(np.diff(count[:, entry])) == 2)
            if not len(here):
                break
            low, high = tried[here[0]], tried[here[0] + 1]
            more = here[0] + int(count[here[0] + 1, entry] > count[here[0], entry])
            asked = steps[:, more, 0, entry] > 0
            turned = np.flatnonzero(asked[1:] != asked[:-1])
            if shortest[more, entry] <= SHORT and turned[np.diff(turned).argmin()] > 2 * SHORT:
                found.append(float(tried[more]))
    return np.array(found)


def check_returns(seed: int) -> int:
    """The same where an entry hardly loses its sign; how many such μ there are."""
    generator = np.random.default_rng([seed, 92])
    kind, k = ("rotating", "uneven rotating", "sticky", "uneven")[seed % 4], int(generator.integers(3, 7))
    kernel, loss = kernel_of(generator, k, kind), float(10 ** generator.uniform(-4, 0))
    x, y = (int(value) for value in generator.choice(k, 2, replace=False))
    last = 400
    logs = returns_at_once(kernel, loss, x, y, last)
    if len(logs):
        steps, sizes = signed.followed(kernel, loss, x, y, logs, last)
        for stops in ([last], np.unique([*generator.integers(1, last, size=6), last])):
            check(kernel, loss, x, y, logs, np.asarray(stops), steps, sizes, (seed, kind))
    return len(logs)


def test_leaps_are_single_steps_for_any_chain():
    """One of each kind; a proof that asks for a tenth less would be wrong in half of them."""
    seen = dict(check_random(seed) for seed in (50, 11, 102, 23, 74, 95, 46, 87, 28, 119))
    assert set(seen) == set(KINDS)
    assert max(seen.values()) >= 3


def test_no_leap_passes_over_an_entry_that_changes_its_sign_twice():
    """Signs at both ends of a leap do not say what they are between: who asked for no more would fail here."""
    for seed in (8, 49, 96, 109):
        assert check_returns(seed)


def test_chains_that_turn_are_not_leapt_round():
    """Half of the records move on to the next of four values: what keeps its sign for a quarter of a turn does not for
    ten of them."""
    for seed in range(12):
        generator = np.random.default_rng([seed, 94])
        rows = generator.dirichlet(np.full(4, 0.5), size=4)
        kernel = 0.5 * np.roll(np.eye(4), 1, axis=1) + 0.3 * np.eye(4) + 0.2 * rows
        loss, logs, last = float(10 ** generator.uniform(-4, 0)), generator.uniform(-1, 1, size=40), 60
        steps, sizes = signed.followed(kernel, loss, 0, 2, logs, last)
        check(kernel, loss, 0, 2, logs, np.array([last]), steps, sizes, seed)


@pytest.mark.slow
def test_leaps_are_single_steps_for_many_chains():
    seen = [check_random(seed) for seed in range(examples(200))]
    assert all(max(count for one, count in seen if one == kind) >= 2 for kind in KINDS)


@pytest.mark.slow
def test_no_leap_passes_over_a_double_change_in_many_chains():
    assert sum(check_returns(seed) for seed in range(examples(120))) >= examples(120)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sticky", "uneven rotating", "rotating", "left"])
def test_leaps_over_a_hundred_thousand_steps(kind):
    generator = np.random.default_rng([KINDS.index(kind), 93])
    last, loss, logs = 100_000, 3e-5, np.array([-3.0, -0.4, 0.0, 0.1, 0.9, 4.0])
    kernel = 0.999 * np.eye(4) + 0.001 * kernel_of(generator, 4, kind)
    steps, sizes = signed.followed(kernel, loss, 0, 1, logs, last)
    check(kernel, loss, 0, 1, logs, np.array([1000, 33_333, last]), steps, sizes, kind)
