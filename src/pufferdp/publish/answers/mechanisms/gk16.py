"""Ghosh & Kleinberg 2016 (GK16): noise from how much each record moves its neighbours' conditional laws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Mask
from pufferdp.basics.errors import NotApplicableError
from pufferdp.leakage.chains.powers import largest_ratios, ratios_of
from pufferdp.leakage.chains.starts import start_of
from pufferdp.models.chain import MarkovChain, series_of
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
        if not series.chains:
            raise NotApplicableError("the class is given by bounds; gk16 needs chains one can list")
        rows = max(_largest_row_sum(chain, problem.longest) for chain in series.chains)
        return Calibrated(sigma=2 * rows / problem.epsilon)


@dataclass(frozen=True)
class _Band:
    """Γ of a chain: γ_{i,i−1} and γ_{i,i+1} for every record."""

    before: npt.NDArray[np.float64]
    after: npt.NDArray[np.float64]


def _largest_row_sum(chain: MarkovChain, length: int) -> float:
    from scipy.linalg import eig_banded, solve_banded  # half a second to import, and not every plan needs it

    band = _band(chain, min(length, _LONGEST))
    n = len(band.before)
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
    law = chain.stationary if chain.given_start is None else chain.given_start
    after = np.log((law @ chain.transition)[second])
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
