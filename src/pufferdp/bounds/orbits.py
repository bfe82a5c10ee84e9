"""How far a chain's transition flow moves when its kernel or a transition changes, and the noise that hides it.

The flow of a path is F = (1/n)·Σ e(X_t, X_{t+1}). An orbit is every kernel whose rows lie within a total variation of
eta of those of a centre K0. Changes are measured in L2, the norm of Gaussian noise, by coupling two chains: a
transition that differs moves F by √2/n, so what counts is the expected number of transitions that differ.

- Another kernel of the orbit: eta/(1−alpha) + eta of all transitions differ.
- Another value of X_{r+1} given X_r: 1 + 1/(1−alpha) transitions differ (docs/theory/flow.md).

Here alpha is Dobrushin's coefficient. Both counts hold chain by chain, with n the transitions of all chains, and also
where a chain runs on unseen through a gap: what is not seen does not count. Two Gaussians delta apart have a total
variation of 2Φ(delta/2σ)−1 ≤ delta/(σ√(2π)), and a mixture no more than the mean of that over the coupling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Matrix, Vector, read_only
from pufferdp.basics.errors import NotApplicableError

_UNIT: Final = 2.0**-52


class Privacy(StrEnum):
    """What a flow must not give away."""

    ORBIT = "orbit"
    """Which kernel of the orbit made the data."""
    RECORD = "record"
    """Which of two values one transition had."""
    JOINT = "joint"
    """Both guarantees, each on its own; not a change of both at once."""


def dobrushin(kernel: Matrix) -> float:
    """The largest total variation between two rows: 0 for independent records, 1 where two rows never meet.

    >>> dobrushin(np.array([[0.9, 0.1], [0.4, 0.6]]))
    0.5
    """
    # Row by row: all pairs at once would need k³ numbers.
    most = max(float(np.abs(kernel - row).sum(axis=1).max()) for row in kernel)
    return min(1.0, most / 2)


def least_favourable(centre: Matrix, eta: float) -> Matrix:
    """The kernel of the orbit under which K0 explains the data least: each row minimises E log K0(i,·) over its ball.

    Mass eta goes from the likeliest states of a row to its least likely one. In a uniform row all states are equally
    likely and every choice is as bad; an impossible state has log 0 = −∞ and takes the mass first.
    """
    kernel = np.array(centre, dtype=float)
    for row in kernel:
        target = len(row) - 1 - int(np.argmin(row[::-1]))  # the last of the least, so that a uniform row changes too
        left = eta
        for j in np.argsort(-row, kind="stable"):
            if j != target:
                moved = min(left, float(row[j]))
                row[j] -= moved
                row[target] += moved
                left -= moved
    return read_only(kernel)


def tilted(centre: Matrix, eta: float) -> Matrix:
    """The poster's choice of K1: rows K1(i,·) ∝ K0(i,·)^(1−theta_i), tilted until their total variation is eta.

    A uniform row cannot be tilted and stays. Impossible states have no logarithm and stay impossible. A row that no
    tilt carries as far as eta is carried as far as doubles allow.
    """
    from scipy.optimize import brentq

    def excess(theta: float, row: Vector) -> float:
        """By how much the total variation of a tilted row passes eta."""
        return float(np.abs(_tilt(row, theta) - row).sum()) / 2 - eta

    rows = []
    for row in np.asarray(centre, dtype=float):
        positive, high = row[row > 0], 1.0
        while excess(high, row) < 0 and high < 1e9:
            high *= 2
        if eta == 0 or positive.max() == positive.min():
            high = 0.0
        elif excess(high, row) > 0:
            high = float(brentq(excess, 0.0, high, args=(row,), xtol=1e-14))
        rows.append(_tilt(row, high))
    return read_only(np.array(rows))


def _tilt(row: Vector, theta: float) -> Vector:
    if theta == 0:
        return np.array(row)
    with np.errstate(divide="ignore"):
        logs = np.where(row > 0, (1 - theta) * np.log(np.where(row > 0, row, 1.0)), -np.inf)
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class FlowNoise:
    """A noise level for the flow and the constants it rests on."""

    rule: str
    """``ours`` (the coupling above) or ``poster`` (kept for comparison)."""
    alpha_orbit: float
    """Dobrushin coefficient in the orbit part."""
    alpha_record: float
    """Dobrushin coefficient in the record part."""
    orbit: float
    """b_orb: how far the flow moves, on average, when the kernel changes inside the orbit."""
    record: float
    """b_rec: how far the flow moves when one transition changes."""
    factor: float
    """What total variation makes of a distance: sigma = distance/(tau·factor)."""
    distance: float
    """The part that decides, or the sum of both."""
    sigma: float
    """Standard deviation of the noise on each number of the flow."""


def our_noise(
    kernel: Matrix,
    transitions: int,
    *,
    eta: float,
    tau: float,
    privacy: Privacy,
    add: bool = False,
    centre_only: bool = False,
) -> FlowNoise:
    """The noise that keeps the guarantee, by the coupling above.

    Args:
        kernel: K0, the centre of the orbit.
        transitions: n, in all chains together.
        eta: radius of the orbit.
        tau: the guarantee, a total variation.
        privacy: orbit, record or both.
        add: for both, add the two distances as the poster does; the larger one is enough.
        centre_only: protect records for data made by K0 alone. By default the guarantee holds for every kernel of the
            orbit, whose coefficient is at most alpha(K0) + 2·eta.
    """
    alpha = _below_one(dobrushin(kernel), len(kernel), "alpha(K0)")
    of_record = alpha
    if privacy is not Privacy.ORBIT and not centre_only:
        name = f"alpha(K0) + 2·eta = {alpha:.6g} + {2 * eta:.6g}"
        of_record = _below_one(alpha + 2 * eta, 0, name, ", or protect records for the model alone with centre_only=")
    # Two flows of n transitions differ in n of them at most.
    orbit = math.sqrt(2) * min(1.0, eta * (2 - alpha) / (1 - alpha))
    record = math.sqrt(2) * min(float(transitions), (2 - of_record) / (1 - of_record)) / transitions
    distance = _combine(privacy, orbit, record, add)
    factor = math.sqrt(2 * math.pi)
    sigma = distance / (tau * factor) * (1 + 16 * _UNIT)  # rounded up by more than its own rounding
    return FlowNoise("ours", alpha, of_record, orbit, record, factor, distance, sigma)


def poster_noise(kernel: Matrix, transitions: int, *, eta: float, tau: float, privacy: Privacy) -> FlowNoise:
    """The poster's noise: both parts added, distances in L1 and twice the constant of total variation.

    Its line b_rec = 4·eta/(n(1−alpha)) is an error of the poster; a record change is not small, and its own
    factorisation has 4/(n(1−alpha)).
    """
    alpha = max(dobrushin(kernel), dobrushin(tilted(kernel, eta)))
    alpha = _below_one(alpha, len(kernel), "the poster's alpha, the larger one of K0 and K1,")
    orbit, record = 4 * eta / (1 - alpha), 4 / (transitions * (1 - alpha))
    distance, factor = _combine(privacy, orbit, record, True), math.sqrt(math.pi / 2)
    return FlowNoise("poster", alpha, alpha, orbit, record, factor, distance, distance / (tau * factor))


def _combine(privacy: Privacy, orbit: float, record: float, add: bool) -> float:
    if privacy is Privacy.ORBIT:
        return orbit
    if privacy is Privacy.RECORD:
        return record
    return orbit + record if add else max(orbit, record)


def _below_one(alpha: float, states: int, name: str, more: str = "") -> float:
    """A coefficient rounded up by what its sum can lose; refused at 1, where nothing is ever forgotten."""
    up = alpha + (states * _UNIT if alpha > 0 else 0.0)
    if up >= 1:
        raise NotApplicableError(
            f"{name} is 1 or more; a chain with a Dobrushin coefficient of 1 may never forget a change, and no noise "
            f"of this kind hides it: use a model whose rows overlap, or a smaller eta{more}",
            value=alpha,
        )
    return up
