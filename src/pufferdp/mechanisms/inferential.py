"""Ghosh & Kleinberg 2016 (GK16): noise from how much each record moves its neighbours' conditional laws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.errors import NotApplicableError
from pufferdp.leakage.influence import largest_ratios, ratios_of
from pufferdp.leakage.quilts import WorstRecord
from pufferdp.leakage.starts import start_of
from pufferdp.mechanisms.base import Mechanism, Problem, refuse_known_records
from pufferdp.models.classes import BinaryInterval, MarkovInterval
from pufferdp.models.markov import MarkovChain, Mask

_LONGEST: Final = 4096
"""Longer chains repeat in the middle; what the ends do is settled by then, or the mechanism declines."""


class Inferential(Mechanism):
    """Noise 2·(largest row sum of (I−Γ)^-1)/ε, if the spectral norm of Γ is below 1."""

    name = "gk16"
    theorem = "Ghosh & Kleinberg 2016, as used by Song et al. 2017, Section 5"

    def multiplier(self, problem: Problem) -> tuple[float, WorstRecord | None]:
        """The worst chain of the class decides."""
        refuse_known_records(problem)
        if isinstance(problem.model, (BinaryInterval, MarkovInterval)):
            raise NotApplicableError("the class is given by bounds; gk16 needs chains one can list")
        rows = max(_largest_row_sum(chain, problem.longest) for chain in problem.model.chains)
        return 2 * rows / problem.epsilon, None


@dataclass(frozen=True)
class _Band:
    """Γ of a chain: γ_{i,i−1} and γ_{i,i+1} for every record."""

    before: npt.NDArray[np.float64]
    after: npt.NDArray[np.float64]


def _largest_row_sum(chain: MarkovChain, length: int) -> float:
    from scipy.linalg import eig_banded, solve_banded  # half a second to import, and not every plan needs it

    band = _band(chain, min(length, _LONGEST))
    n = len(band.before)
    if not (np.isfinite(band.before).all() and np.isfinite(band.after).all()):
        raise NotApplicableError("a neighbour can rule a value out: the influence matrix is infinite")
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
    supports = start_of(chain, ratios_of(chain), 1).supports
    before, after = np.zeros(length), np.zeros(length)
    if length > 1:
        after[0] = _first(chain)
        # The last record: P(x_T|l) = P(l,x_T).
        before[-1] = 0.5 * float(largest_ratios(_logs(chain)[supports.at(length - 1)].T).max())
    inner: dict[bytes, tuple[float, float]] = {}
    for i in range(2, length):
        seen = supports.at(i - 1)
        key = seen.tobytes()
        if key not in inner:
            inner[key] = _inner(chain, seen)
        before[i - 1], after[i - 1] = inner[key]
    return _Band(before, after)


def _logs(chain: MarkovChain) -> npt.NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        return np.log(chain.transition)


def _first(chain: MarkovChain) -> float:
    """γ_12: P(x_1|r) ∝ m(x_1)·P(x_1,r), when r changes; for any start the worst one."""
    logs = _logs(chain)
    law = chain.given_start
    if chain.any_start:
        possible = np.ones(chain.size, dtype=bool)
    else:
        law = chain.stationary if law is None else law
        possible = law > 0
    rows = logs[possible]
    gain = largest_ratios(rows).reshape(chain.size, chain.size)  # max_x log P(x,r)/P(x,r')
    reachable = np.isfinite(rows).any(axis=0)
    if chain.any_start:
        total = gain + gain.T  # sup over starts of log m_2(r')/m_2(r) is the largest ratio itself
    else:
        assert law is not None
        with np.errstate(divide="ignore"):
            second = np.log(law @ chain.transition)
        with np.errstate(invalid="ignore"):
            total = gain + second[None, :] - second[:, None]
    return 0.5 * float(total[np.ix_(reachable, reachable)].max())


def _inner(chain: MarkovChain, seen: Mask) -> tuple[float, float]:
    """γ for a record with neighbours l and r: P(x|l,r) = P(l,x)·P(x,r)/P²(l,r), when one of them changes."""
    with np.errstate(divide="ignore"):
        two = np.log(chain.transition @ chain.transition)
    logs, k = _logs(chain), chain.size
    before = after = 0.0
    for r in range(k):  # l changes to l', r stays
        x = np.isfinite(logs[:, r])
        possible = np.flatnonzero(seen & np.isfinite(two[:, r]))
        if len(possible) < 2:
            continue
        gain = largest_ratios(logs[possible][:, x].T).reshape(len(possible), len(possible))  # log P(l,x)/P(l',x)
        before = max(before, float((gain + two[possible, r][None, :] - two[possible, r][:, None]).max()))
    for left in np.flatnonzero(seen):  # r changes to r', l stays
        x = np.isfinite(logs[left])
        possible = np.flatnonzero(np.isfinite(two[left]))
        if len(possible) < 2:
            continue
        gain = largest_ratios(logs[x][:, possible]).reshape(len(possible), len(possible))  # log P(x,r)/P(x,r')
        after = max(after, float((gain + two[left, possible][None, :] - two[left, possible][:, None]).max()))
    return before / 2, after / 2
