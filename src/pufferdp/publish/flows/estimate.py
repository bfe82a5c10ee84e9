"""Estimates from a released flow: transition matrix, stationary distribution and mixing, with intervals for the noise.

Nothing but the release and what is public goes in, so it costs no privacy. The repair ``log`` flattens a flow in a
known way, and that is undone first. The ranges come from a simulation: the flow found stands for the true one, gets the
noise of the release again and again, and the middle 95 % of what is then found is the range. That is an approximation,
good where noise is small beside the flow. It is about the noise alone: another year's data would differ by more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.bounds.orbits import dobrushin
from pufferdp.models.chain import MarkovChain, irreducible_distribution
from pufferdp.models.simulate import seeded
from pufferdp.publish.answers.estimate import PROBABILITY
from pufferdp.publish.fits.publication import states_with_rows
from pufferdp.publish.flows.problem import repaired
from pufferdp.publish.noise import NoiseDistribution
from pufferdp.publish.verdict import NOT_ESTIMABLE, estimable_share

Table = tuple[tuple[float | None, ...], ...]

COVERAGE: Final = PROBABILITY
_CELL: Final = ("value", "low", "high", "reason")
_SEED: Final = 88
_MOST_DRAWS: Final = 400
_MOST_NUMBERS: Final = 1000 * _MOST_DRAWS


@dataclass(frozen=True, kw_only=True)
class Range:
    """A number found from the release, and where the noise leaves it; no value where it is not estimable."""

    value: float | None
    low: float | None
    high: float | None

    @property
    def reason(self) -> str | None:
        """Why there is no value; None where there is one."""
        undetermined = "not estimable: the released flow does not determine it"
        return None if self.value is not None else undetermined if self.low is None else NOT_ESTIMABLE

    def to_dict(self) -> dict[str, float | str | None]:
        """As one cell of the estimates in a certificate."""
        return {name: getattr(self, name) for name in _CELL}


@dataclass(frozen=True, kw_only=True)
class FlowEstimates:
    """What the release says of the chain. A state without any released mass has no row: None."""

    transition: tuple[tuple[Range, ...], ...]
    stationary: tuple[Range, ...]
    dobrushin: Range
    """The coefficient of the matrix found: 1/(1−it) is how long a change is remembered, at most."""
    relaxation_time: Range
    """1/(1−|second eigenvalue|): steps in which what is left of the past falls by about a factor of e."""
    draws: int

    def to_dict(self) -> dict[str, Any]:
        """As in the part ``estimates`` of a certificate."""
        return {
            "transition": {name: [[getattr(cell, name) for cell in row] for row in self.transition] for name in _CELL},
            "stationary": {name: [getattr(cell, name) for cell in self.stationary] for name in _CELL},
            "dobrushin": self.dobrushin.to_dict(),
            "relaxation_time": self.relaxation_time.to_dict(),
            "coverage": COVERAGE,
            "draws": self.draws,
        }


def estimate_chain(flow: Floats, distribution: NoiseDistribution, kappa: float | None) -> FlowEstimates:
    """Estimates from a released flow (k×k), given the noise and the repair it was made with."""
    k = len(flow)
    estimate = _flattened_back(flow.ravel(), kappa)
    draws = int(min(_MOST_DRAWS, max(50, _MOST_NUMBERS // (k * k))))
    noise = distribution.scale * seeded(_SEED).standard_normal((draws, k * k))
    if kappa is None:
        simulated = repaired(estimate + noise, None)
    else:
        simulated = _flattened_back(repaired(np.log(estimate + kappa) + noise, kappa), kappa)
    value, *others = _read(np.concatenate([estimate[None], simulated]).reshape(-1, k, k))
    low, high = _quantiles(np.array(others))
    cells = [_range(*numbers) for numbers in zip(value, low, high, strict=True)]
    cells[:-1] = map(_share, cells[:-1])
    return FlowEstimates(
        transition=tuple(tuple(cells[x * k : (x + 1) * k]) for x in range(k)),
        stationary=tuple(cells[k * k : k * k + k]),
        dobrushin=cells[-2],
        relaxation_time=cells[-1],
        draws=draws,
    )


def _flattened_back(flow: Floats, kappa: float | None) -> Floats:
    """Softmax of log(F+kappa) is (F+kappa)/(1+d²·kappa) without noise; solved for F, and onto the simplex."""
    if kappa is None:
        return flow
    return repaired(flow * (1 + flow.shape[-1] * kappa) - kappa, None)


def _read(flows: Floats) -> Floats:
    """Matrix, stationary distribution, coefficient and relaxation time of each flow; nan where there is none."""
    flows = np.where(flows < 2.0**-45, 0.0, flows)  # so little is what rounding leaves of nothing
    k = flows.shape[-1]
    reach = ((flows > 0) | np.eye(k, dtype=bool)).astype(float)
    for _ in range(k.bit_length()):
        reach = np.minimum(reach @ reach, 1.0)
    whole = reach.all(axis=(1, 2)) & (flows.sum(axis=2) > 0).all(axis=1)
    out = np.full((len(flows), k * k + k + 2), np.nan)
    out[whole] = _of_irreducible(flows[whole])
    for n in np.flatnonzero(~whole):
        out[n] = _of_any(flows[n])
    return out


def _of_irreducible(flows: Floats) -> Floats:
    """Of flows in which every state is reached from every other: all at once."""
    k = flows.shape[-1]
    transition = flows / flows.sum(axis=2, keepdims=True)
    apart = [np.abs(transition - transition[:, x, None]).sum(axis=2).max(axis=1) for x in range(k)]
    coefficient = np.minimum(1.0, np.max(apart, axis=0) / 2)
    numbers = transition.reshape(-1, k * k), irreducible_distribution(transition), coefficient[:, None]
    return np.concatenate([*numbers, _relaxation_times(transition)[:, None]], axis=1)


def _of_any(flow: Floats) -> Floats:
    """Of one flow, some of whose states may be left for ever or never reached."""
    k = len(flow)
    out = np.full(k * k + k + 2, np.nan)
    states = np.array(states_with_rows(flow), dtype=np.int64)
    if not len(states):
        return out
    inside = flow[np.ix_(states, states)]
    chain = MarkovChain(transition=inside / inside.sum(axis=1, keepdims=True))
    matrix = out[: k * k].reshape(k, k)
    matrix[states] = 0.0
    matrix[np.ix_(states, states)] = chain.transition
    distribution = np.zeros(k)
    distribution[states] = chain.stationary
    out[k * k : k * k + k] = distribution
    out[-2] = dobrushin(chain.transition)
    out[-1] = _relaxation_times(chain.transition[None])[0]
    return out


def _relaxation_times(transition: Floats) -> Floats:
    if transition.shape[-1] == 1:
        return np.ones(len(transition))
    second = np.sort(np.abs(np.linalg.eigvals(transition)), axis=1)[:, -2]
    forgets = second < 1 - 1e-12
    return np.where(forgets, 1 / (1 - np.where(forgets, second, 0.0)), np.nan)


def _quantiles(values: Floats) -> tuple[Floats, Floats]:
    """Outer quantiles of each column, those without an answer left out; nan where no row has one."""
    tail = (1 - COVERAGE) / 2
    some = ~np.isnan(values).all(axis=0)
    low, high = np.full(values.shape[1], np.nan), np.full(values.shape[1], np.nan)
    low[some], high[some] = np.nanquantile(values[:, some], [tail, 1 - tail], axis=0)
    return low, high


def _share(cell: Range) -> Range:
    """A share without its value where it is not estimable."""
    if cell.value is None or cell.low is None or cell.high is None:
        return cell
    value = estimable_share(cell.value, cell.low, cell.high)
    return replace(cell, value=None if np.isnan(value) else value)


def _range(value: float, low: float, high: float) -> Range:
    if np.isnan(value):
        return Range(value=None, low=None, high=None)
    # The number found is always inside, also where the repair pushes all others to one side.
    return Range(value=float(value), low=float(np.fmin(value, low)), high=float(np.fmax(value, high)))
