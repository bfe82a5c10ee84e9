"""Chains of which two values of a record have nothing in common: every other record tells them apart.

Let the values that any other record can have, given x and given y, have none in common. Who asks every record whether
it has a value that goes with x multiplies what is spent on each: n records leak n losses, and by group privacy no
algorithm leaks more. So it is for who starts in two parts of a cycle, in two classes that are never left, or in states
that are left for good where the first record may have any law.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pufferdp.basics.arrays import Mask
from pufferdp.bounds.tight.inputs import Chain

_STEPS: Final = 4096
"""Steps after which patterns that do not repeat are given up."""
_MOST_STATES: Final = 16
"""With more states there are too many pairs of starts."""


def tells_apart(chain: Chain, length: int) -> tuple[int, int, int] | None:
    """A record, counted from 1, and two of its values that every other record tells apart; None: not found."""
    if chain.period > 1 or chain.size > _MOST_STATES:
        return None
    moves = chain.kernels[0] > 0
    after = _meetings(moves, length)
    if chain.start is None:
        return _of_any_start(moves, after, length)
    return _of_start(chain.start > 0, moves, after, length)


def _meetings(moves: Mask, length: int) -> list[Mask]:
    """Which values may meet within so many steps, for 0, 1, 2, … steps; the last holds for all that are more."""
    out = [np.eye(len(moves), dtype=bool)]
    while len(out) < length:
        more = out[-1] | (moves @ out[-1] @ moves.T)
        if (more == out[-1]).all():
            break
        out.append(more)
    return out


def _of_start(first: Mask, moves: Mask, after: list[Mask], length: int) -> tuple[int, int, int] | None:
    """The first record has one of some values."""
    possible, met, seen = first, np.eye(len(moves), dtype=bool), dict[bytes, int]()
    record = 1
    while record <= length:
        clear = possible[:, None] & possible[None, :] & ~met & ~after[min(length - record, len(after) - 1)]
        if clear.any():
            x, y = (int(v) for v in np.argwhere(clear)[0])
            return record, x, y
        key = possible.tobytes() + met.tobytes()
        ahead = length - record - len(after)  # until then the same comes again
        if key in seen and ahead > 0:
            record += ahead // (record - seen[key]) * (record - seen[key])
            seen = {}
        elif len(seen) > _STEPS:
            return None
        else:
            seen[key] = record
        came = possible[:, None] & moves
        met = np.eye(len(moves), dtype=bool) | (came.T @ met @ came)
        possible = np.asarray(came.any(axis=0))
        record += 1
    return None


def _of_any_start(moves: Mask, after: list[Mask], length: int) -> tuple[int, int, int] | None:
    """The first record has value u or v: ever smaller odds of u leave it to x alone, where v does not lead to x."""
    k = len(moves)
    same = np.eye(k, dtype=bool)
    reach = same  # (start, value)
    met = same[:, None, :, None] & same[None, :, :, None] & same[None, None]  # (u, v, x, y)
    seen, record = dict[bytes, int](), 1
    while record <= length:
        both = reach[:, None, :, None] & reach[None, :, None, :]
        alone = ~reach[None, :, :, None]  # v does not lead to x
        clear = both & alone & ~met & ~after[min(length - record, len(after) - 1)]
        if clear.any():
            x, y = (int(v) for v in np.argwhere(clear)[0][2:])
            return record, x, y
        key = reach.tobytes() + met.tobytes()
        ahead = length - record - len(after)
        if key in seen and ahead > 0:
            record += ahead // (record - seen[key]) * (record - seen[key])
            seen = {}
        elif len(seen) > _STEPS:
            return None
        else:
            seen[key] = record
        reach = reach @ moves
        forward = np.einsum("uvab,ax->uvxb", met.astype(np.int64), moves.astype(np.int64)) > 0
        forward = np.einsum("uvab,by->uvay", forward.astype(np.int64), moves.astype(np.int64)) > 0
        here = reach[:, None, :] & reach[None, :, :]
        met = forward | (here[..., None] & same)
        record += 1
    return None
