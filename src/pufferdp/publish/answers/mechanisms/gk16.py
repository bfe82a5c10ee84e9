"""Ghosh & Kleinberg 2016 (GK16): noise from how much each record moves its neighbours' conditional distributions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Mask
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.chains.powers import largest_ratios, ratios_of
from pufferdp.bounds.chains.starts import Start
from pufferdp.models.chain import Box, MarkovChain, series_of
from pufferdp.publish.answers.problem import Calibrated, Mechanism, Problem, refuse_known_records, refuse_own_secrets

_LONGEST: Final = 4096
"""Longer chains repeat in the middle; what the ends do is settled by then, or the mechanism declines."""


class Gk16(Mechanism):
    """Noise 2·(largest row sum of (I−Γ)^-1)/ε, if the spectral norm of Γ is below 1."""

    name = "gk16"
    theorem = "Ghosh & Kleinberg 2016, as used by Song et al. 2017, Section 5"

    def find(self, problem: Problem) -> Calibrated:
        """The worst chain of the class decides."""
        refuse_known_records(problem)
        refuse_own_secrets(problem)
        series = series_of(problem.model)
        if series is None:
            raise NotApplicableError("is worked out for chains only, and the model is not a chain")
        if series.rhythm is not None:
            raise NotApplicableError("is worked out for one transition table, and a clock has several")
        length = problem.longest
        if series.chains:
            bands = [_band(chain, min(length, _LONGEST)) for chain in series.chains]
        elif series.box is not None:
            bands = list(_box_bands(series.box, min(length, _LONGEST)))
        else:
            raise NotApplicableError(series.not_listed)
        # Every power of Γ ≥ 0 rises with its entries, and with them the norm and the row sums of (I−Γ)^-1.
        rows = max(_largest_row_sum(band, length) for band in bands)
        return Calibrated(sigma=2 * rows / problem.epsilon)


@dataclass(frozen=True)
class _Band:
    """Γ of a chain: γ_{i,i−1} and γ_{i,i+1} for every record."""

    before: npt.NDArray[np.float64]
    after: npt.NDArray[np.float64]


def _largest_row_sum(band: _Band, length: int) -> float:
    n = len(band.before)
    # No matrix has a smaller norm than it shows on one vector. That of ones mostly settles it where states are kept.
    shown = math.sqrt(float(np.mean((band.before + band.after) ** 2)))
    if shown >= 1:
        raise NotApplicableError(
            f"the influence matrix has a spectral norm of {shown:.3g} or more; gk16 needs it below 1"
        )
    from scipy.linalg import eig_banded, solve_banded  # half a second to import, and not every plan needs it

    # Γ'Γ has the diagonal Σ_i γ_ij² and, two places off it, γ_{j+1,j}·γ_{j+1,j+2}.
    gram = np.zeros((3, n))
    gram[0] = np.append(band.before[1:], 0.0) ** 2 + np.append(0.0, band.after[:-1]) ** 2
    if n > 2:
        gram[2, : n - 2] = band.before[1:-1] * band.after[1:-1]
    square = eig_banded(gram, lower=True, eigvals_only=True, select="i", select_range=(n - 1, n - 1))[0]
    norm = float(np.sqrt(max(square, 0.0)))
    if length > n:  # the middle of a longer chain: a Toeplitz band, whose norm tends to the sum of its two entries
        norm = max(norm, float(band.before[n // 2] + band.after[n // 2]))
    if norm >= 1:
        raise NotApplicableError(f"the influence matrix has spectral norm {norm:.3g}; gk16 needs it below 1")
    system = np.zeros((3, n))
    system[1] = 1.0
    system[0, 1:], system[2, :-1] = -band.after[:-1], -band.before[1:]
    rows = solve_banded((1, 1), system, np.ones(n))
    largest = float(rows.max())
    if length > n:
        limit = 1 / (1 - float(band.before[n // 2] + band.after[n // 2]))
        if abs(float(rows[n // 2]) - limit) > 1e-9 * limit:
            raise NotApplicableError(f"the influence matrix is too close to its limit to certify {length} records")
        largest = max(largest, limit)
    return largest


def _band(chain: MarkovChain, length: int) -> _Band:
    supports = Start(chain, ratios_of(chain), 1).supports
    before, after = np.zeros(length), np.zeros(length)
    inner: dict[bytes, tuple[float, float]] = {}
    for i in range(2, length + 1):
        seen = supports.at(i - 1)
        key = seen.tobytes()
        if key not in inner:
            # Where a neighbour rules a value out, conditionals given impossible neighbours do not exist, and what is
            # left of Γ misses that dependence: a chain that alternates would look independent.
            if not chain.transition[np.ix_(seen, supports.at(i))].all():
                raise NotApplicableError("a record can rule out a value of the next; gk16 needs all moves possible")
            inner[key] = _inner(chain, seen, supports.at(i), supports.at(i + 1))
        before[i - 1], after[i - 1] = inner[key]
    if length > 1:
        after[0], after[-1] = _first(chain, supports.at(1), supports.at(2)), 0.0
        # The last record: P(x_T|l) = P(l,x_T).
        logs = _logs(chain)[supports.at(length - 1)]
        before[-1] = 0.5 * float(largest_ratios(logs[:, supports.at(length)].T).max())
    return _Band(before, after)


def _logs(chain: MarkovChain) -> npt.NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        return np.log(chain.transition)


def _first(chain: MarkovChain, first: Mask, second: Mask) -> float:
    """γ_12: P(x_1|r) = m(x_1)·P(x_1,r)/m_2(r), when r changes; for any start the worst one."""
    n = int(second.sum())
    gain = largest_ratios(_logs(chain)[np.ix_(first, second)]).reshape(n, n)  # max_x log P(x,r)/P(x,r')
    if chain.any_start:
        return 0.5 * float((gain + gain.T).max())  # sup over starts of log m_2(r')/m_2(r) is the largest ratio itself
    distribution = chain.stationary if chain.given_start is None else chain.given_start
    after = np.log((distribution @ chain.transition)[second])
    return 0.5 * float((gain + after[None, :] - after[:, None]).max())


def _inner(chain: MarkovChain, before: Mask, here: Mask, after: Mask) -> tuple[float, float]:
    """γ for a record with neighbours l and r: P(x|l,r) = P(l,x)·P(x,r)/P²(l,r), when one of them changes."""
    logs = _logs(chain)
    two = np.log((chain.transition[before][:, here]) @ chain.transition[np.ix_(here, after)])  # over (l, r)
    m, n = two.shape
    from_left = largest_ratios(logs[np.ix_(before, here)].T).reshape(m, m)  # max_x log P(l,x)/P(l',x)
    from_right = largest_ratios(logs[np.ix_(here, after)]).reshape(n, n)  # max_x log P(x,r)/P(x,r')
    tilt_left = largest_ratios(two.T).reshape(m, m).T  # max_r log P²(l',r)/P²(l,r)
    tilt_right = largest_ratios(two).reshape(n, n).T  # max_l log P²(l,r')/P²(l,r)
    return 0.5 * float((from_left + tilt_left).max()), 0.5 * float((from_right + tilt_right).max())


def _box_bands(box: Box, length: int) -> Iterator[_Band]:
    """The Γ of chains such that no chain of the box has a larger one."""
    if len(box.low) != 2:
        raise NotApplicableError(
            f"the class is a box of chains of {len(box.low)} states, and which of them decide is worked out for two"
        )
    if not (box.low > 0).all():
        raise NotApplicableError("a chain of the class can rule out a value of the next record; gk16 needs all moves")
    yield from (_band(chain, length) for chain in _deciding_chains(box))


def _deciding_chains(box: Box) -> Iterator[MarkovChain]:
    """The chains of two states that decide: both states stay as long as they may, or both as briefly as they may.

    The log-odds of x given its neighbours l and r are u(l) + v(r), where u(1) − u(0) = v(1) − v(0) = Δ, the log of the
    odds ratio p0·p1/((1−p0)(1−p1)). Say Δ > 0. An entry of Γ is half of log σ(s+Δ)/σ(s), σ the logistic function. It
    rises with Δ and falls with s, and the least s over neighbours and values is the log of (1−p0)(1−p1) over p0² or
    p1². Δ rises with both stay-probabilities and s falls with both, so (high, high) is worst of all chains with Δ > 0.
    Where Δ < 0, let the neighbours' values change names: Δ is −Δ then, s the log of p0² or p1² over (1−p0)(1−p1), and
    (low, low) is worst. At the last record half of log p1/(1−p0) or log p0/(1−p1) counts, or of their inverses, at the
    first (any start) |Δ|/2: the same chains decide.
    """
    for p, q in (np.diag(box.low).tolist(), np.diag(box.high).tolist()):
        yield MarkovChain(transition=np.array([[p, 1 - p], [1 - q, q]]), start="any")
