"""Maßny et al. 2024: the most that a design which ignores the data can release.

The paper prints 2Δ*(ε/2) − 1 where its proof gives 2Δ*(ε/2) − 2 besides the private record itself; the printed bound is
beaten by a lopsided window.
"""

from __future__ import annotations

from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.redaction.methods import peak, reach
from pufferdp.bounds.redaction.sides import RedactionSide
from pufferdp.models.chain import MarkovChain


def independent_bound(chain: MarkovChain, length: int, private: int, epsilon: float, *, printed: bool = False) -> float:
    """No data-independent design of a binary chain with one private record releases a larger share than this.

    Args:
        chain: a binary chain.
        length: records in the series.
        private: the private record, counted from 1.
        epsilon: the guarantee, against an adversary who knows no record.
        printed: the bound as the paper prints it, which is too small by one record in places.
    """
    if chain.size != 2:
        raise NotApplicableError(f"the bound is for two states; this chain has {chain.size}", value=chain)
    p = min(private, length + 1 - private)  # mirror: a binary chain is reversible
    side = RedactionSide(chain.transition, length - p)
    if side.records == 0 or epsilon < peak(side, length - p):
        return 0.0
    one_sided = reach(side, epsilon) + p - 1
    least = one_sided
    if p > 1 and epsilon >= peak(side, p - 1) + peak(side, length - p):
        least = min(one_sided, 2 * reach(side, epsilon / 2) - (1 if printed else 2))
    return 1 - max(least, 1) / length
