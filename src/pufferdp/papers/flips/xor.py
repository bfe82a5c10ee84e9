"""Correlated noise: the output is the data XOR a second binary chain. The exact loss, two states each.

The pair (data, noise) is a chain of four states, and an output leaves two of them: once z_t is seen the noise is x_t
XOR z_t. So the weights of x = 0 and x = 1 move by a two-by-two table that depends on the outputs on both sides of the
step, P(x,x')·N(x⊕z, x'⊕z'). Its ratio moves by a Möbius map, rising or falling with the sign of the determinant. The
largest and the smallest ratio for either current output follow from those one step before: four numbers. An adversary
who knows a record knows the noise there as well, because the output shows their XOR.
"""

from __future__ import annotations

import itertools
import math
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Matrix
from pufferdp.basics.errors import ModelError
from pufferdp.leakage.channels.two_states import FlipLoss, Rows, log
from pufferdp.models.chain import MarkovChain

_MOST: Final = 4000
_SETTLED: Final = 1e-15
_Span = dict[int, tuple[float, float]]
"""For the current output: the smallest and the largest log-ratio of the weights of 0 and 1."""


def xor_loss(data: MarkovChain, noise: MarkovChain, length: int, adversary: Adversary) -> FlipLoss:
    """The loss of ``length`` records; both chains stationary with positive transitions."""
    for name, chain in (("data", data), ("noise", noise)):
        if chain.size != 2 or not (chain.transition > 0).all() or chain.given_start is not None:
            raise ModelError(f"the {name} must be a stationary chain of two states with positive transitions")
        if chain.any_start:
            raise ModelError(f'the {name} has start "any"; correlated noise is for stationary series')
    moves, flips = np.asarray(data.transition), np.asarray(noise.transition)
    x, y = data.stationary, noise.stationary
    tables = {
        (z, w): np.array([[moves[a, b] * flips[a ^ z, b ^ w] for b in (0, 1)] for a in (0, 1)])
        for z, w in itertools.product((0, 1), repeat=2)
    }
    # After the target: from output z to output w the new weight of a takes T(a,b) from the old weight of b.
    # Before it the table is read the other way: the later output is the new one.
    ahead = {(z, w): Rows.of(t) for (z, w), t in tables.items()}
    back = {(w, z): Rows.of(t.T) for (z, w), t in tables.items()}
    start = {z: (log(x[0] * y[z]) - log(x[1] * y[1 ^ z]),) * 2 for z in (0, 1)}
    if adversary is Adversary.DP:
        # Everything else is known, the noise of both neighbours included.
        return _known_neighbours(tables, moves, length, y)
    everyone = adversary is Adversary.BDP
    m = min(length - 1, _MOST)
    left = _side(back, start, log(x[0]) - log(x[1]), moves.T if everyone else None, m)
    right = _side(ahead, dict.fromkeys((0, 1), (0.0, 0.0)), 0.0, moves if everyone else None, m)
    found = [-math.inf, -math.inf]
    for i in range(length):
        before, after = left[min(i, len(left) - 1)], right[min(length - 1 - i, len(right) - 1)]
        for z in (0, 1):
            found[0] = max(found[0], before[z][1] + after[z][1])
            found[1] = max(found[1], -before[z][0] - after[z][0])
    return FlipLoss(found[0], found[1])


def _side(rows: dict[tuple[int, int], Rows], start: _Span, prior: float, base: Matrix | None, most: int) -> list[_Span]:
    """For 0, 1, … records on a side: the extremes over outputs, and over adversaries where ``base`` is given."""
    nothing, out = start, []
    # A known value v: certain weights one step away, divided by what the value says by itself.
    sure: list[_Span] = [dict.fromkeys((0, 1), (s * math.inf,) * 2) for s in (1, -1)] if base is not None else []
    power = np.eye(2)
    met: _Span = dict.fromkeys((0, 1), (math.inf, -math.inf))
    for _ in range(most + 1):
        now = {z: (nothing[z][0] - prior, nothing[z][1] - prior) for z in (0, 1)}
        out.append({z: (min(now[z][0], met[z][0]), max(now[z][1], met[z][1])) for z in (0, 1)})
        settled = len(out) > 8 and all(
            abs(out[-1][z][e] - out[-2 - d][z][e]) <= _SETTLED for z in (0, 1) for e in (0, 1) for d in range(6)
        )
        if settled:
            break
        nothing = _step(rows, nothing)
        if base is not None:
            sure, power = [_step(rows, span) for span in sure], base @ power
            for v, span in enumerate(sure):
                said = log(power[0, v]) - log(power[1, v])
                met = {z: (min(met[z][0], span[z][0] - said), max(met[z][1], span[z][1] - said)) for z in (0, 1)}
    return out


def _step(rows: dict[tuple[int, int], Rows], span: _Span) -> _Span:
    """One more record: for each new output the extremes over the old one."""
    out = {}
    for z in (0, 1):
        ends = [rows[z, w](end) for w in (0, 1) for end in span[w]]
        out[z] = (min(ends), max(ends))
    return out


def _known_neighbours(tables: dict[tuple[int, int], Matrix], moves: Matrix, length: int, law: Matrix) -> FlipLoss:
    """All other records known: the record's noise between the noise of its neighbours."""
    found = [-math.inf, -math.inf]
    for z, left, right in itertools.product((0, 1), (None, 0, 1), (None, 0, 1)):
        if (left is None and right is None) != (length == 1) or (length == 2 and None not in (left, right)):
            continue
        for u, v in itertools.product((0, 1), repeat=2):
            weights = []
            for a in (0, 1):
                before = law[a ^ z] if left is None else tables[left, z][u, a] / moves[u, a]
                after = 1.0 if right is None else tables[z, right][a, v] / moves[a, v]
                weights.append(log(before * after))
            found = [max(found[0], weights[0] - weights[1]), max(found[1], weights[1] - weights[0])]
    return FlipLoss(found[0], found[1])
