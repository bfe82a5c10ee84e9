"""The law of a sum over Markov chains with nothing known, at a cost that grows with the range of the sum alone.

Steps are whole numbers, so the sum S has a generating function E[z^S] = start·Z·(PZ)^(n−1)·1 with Z = diag(z^step). Its
values at the roots of unity are the Fourier transform of the law: matrix powers by repeated squaring, or one record
after the other where chains are short, and one transform back. Independent chains multiply theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.errors import NotApplicableError
from pufferdp.models.markov import MarkovChain

Masses = npt.NDArray[np.float64]
Transform = npt.NDArray[np.complex128]

_WIDEST: Final = 2**22
"""Sums with more possible values than this are refused: their laws alone would take tens of megabytes each."""
_MOST_WORK: Final = 10**10
"""Products, counted with what a call costs besides: a few seconds, enough for a million records of two states."""
_CALL: Final = 350
"""What the product of two small matrices costs besides its multiplications, in multiplications (measured)."""
_COPY: Final = 16
"""What copying a number costs besides, in the same."""
_CHUNK: Final = 2**14
"""Entries of the matrices that are raised together: they stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class TotalLaw:
    """Masses of the sums 0, 1, 2 and so on."""

    masses: Masses
    rounding: float = 0.0
    """How far each mass may be off. Masses below it cannot be told from 0, and are 0."""


def work(size: int, lengths: Sequence[tuple[int, int]], widest: int) -> float:
    """What the law costs, in products, for chains of ``size`` states whose records add at most ``widest`` steps."""
    width = widest * sum(length * count for length, count in lengths) + 1
    if _is_short(size, lengths):
        return (width // 2 + 1) * max(length for length, _ in lengths) * size * (size + _COPY)
    bits = max(length for length, _ in lengths).bit_length()
    rows = len(lengths) * (bits * size * (size + _COPY) + _CALL)
    return (width // 2 + 1) * (bits * (size**3 + _CALL) + rows)


def _is_short(size: int, lengths: Sequence[tuple[int, int]]) -> bool:
    """Whether passing every record costs fewer products than raising matrices."""
    longest = max(length for length, _ in lengths)
    return longest <= size * longest.bit_length()


def chain_total(
    chain: MarkovChain, lengths: Sequence[tuple[int, int]], steps: npt.NDArray[np.int64], share: int = 1
) -> TotalLaw:
    """The law of the sum of ``steps[state]`` over independent chains: (length, how many).

    Needs a definite start. Raises NotApplicableError where it would take more than a ``share``-th of the time allowed.
    """
    if chain.any_start:
        raise NotApplicableError("the chain may start anywhere, so the answer has no one law")
    records = sum(length * count for length, count in lengths)
    width = int(steps.max()) * records + 1
    cost = work(chain.size, lengths, int(steps.max())) * share
    if width > _WIDEST or cost > _MOST_WORK:
        raise NotApplicableError(
            f"the law of the answer over {records:,} records of {chain.size} states takes too many products "
            f"({cost:.1g}; the limit is {_MOST_WORK:.0g}) or has more than {_WIDEST:,} places"
        )
    from scipy.fft import irfft, next_fast_len

    points = int(next_fast_len(width, real=True))
    # The law is real, so half of the roots are enough.
    half = np.arange(points // 2 + 1)
    short = _is_short(chain.size, lengths)
    transform = _passed if short else _raised
    together = max(1, _CHUNK // (chain.size * (1 if short else chain.size + len(lengths))))
    parts = []
    for at in range(0, len(half), together):
        # Whole turns are taken off in whole numbers: no accuracy is lost to large angles.
        z = np.exp(-2j * np.pi / points * (half[at : at + together, None] * steps % points))
        parts.append(transform(chain, lengths, z))
    masses = irfft(np.concatenate(parts), points)[:width]
    # Every record adds rounding of about k·2^-53 to the transform, relative to its size, and the mean size of the
    # transform is about the largest mass. An estimate, not a bound; tests hold it against laws known to all digits.
    rounding = float(4 * (records + 16) * chain.size * 2.0**-53 * masses.max())
    masses = np.where(masses > rounding, masses, 0.0)
    return TotalLaw(masses / masses.sum(), rounding)


def _raised(chain: MarkovChain, lengths: Sequence[tuple[int, int]], z: Transform) -> Transform:
    """E[z^S] for each row of ``z``, the factors of the states: powers of a matrix by repeated squaring."""
    power = chain.transition * z[:, None, :]
    rows = np.repeat((_start(chain) * z)[:, None, :], len(lengths), axis=1)
    moves = np.array([length - 1 for length, _ in lengths])
    for bit in range(int(moves.max()).bit_length()):
        if bit:
            power = power @ power
        now = np.flatnonzero(moves >> bit & 1)
        if len(now):
            rows[:, now] = rows[:, now] @ power
    return np.asarray(np.prod(rows.sum(axis=2) ** [count for _, count in lengths], axis=1))


def _passed(chain: MarkovChain, lengths: Sequence[tuple[int, int]], z: Transform) -> Transform:
    """The same, one record after the other, for all rows of ``z`` at once."""
    out, rows, at = np.ones(len(z), dtype=complex), _start(chain) * z, 1
    transition = chain.transition.astype(complex)
    for length, count in sorted(lengths):
        for _ in range(length - at):
            rows = rows @ transition * z
        at = length
        out *= rows.sum(axis=1) ** count
    return out


def _start(chain: MarkovChain) -> Masses:
    return chain.stationary if chain.given_start is None else chain.given_start
