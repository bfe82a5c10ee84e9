"""Outputs of a hidden chain cut into blocks of equal length, so that one step runs in all blocks at once."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Mask
from pufferdp.basics.errors import DataError

Codes = npt.NDArray[np.integer]


def cut_into_blocks(outputs: Codes, most: int, filler: int) -> tuple[npt.NDArray[np.intp], int, Mask]:
    """Blocks of equal length as columns, the number of fillers before each row, and whether a block begins a row."""
    rows, n = outputs.shape
    length = -(-n // max(1, min(math.isqrt(n), most // rows)))
    blocks = -(-n // length)
    fill = blocks * length - n
    codes = np.pad(outputs, ((0, 0), (fill, 0)), constant_values=filler).reshape(-1, length).T
    return np.ascontiguousarray(codes, dtype=np.intp), fill, np.arange(rows * blocks) % blocks == 0


def impossible_outputs() -> DataError:
    """The error for outputs of probability 0."""
    return DataError("the series cannot come from this model: an output it rules out is in it")
