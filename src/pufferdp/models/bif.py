"""Bayesian networks from BIF files, in the dialect of the bnlearn repository."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.errors import ModelError
from pufferdp.models.bif_blocks import MOST_ROUNDING, BifBlocks, Block, Row
from pufferdp.models.markov import ROW_TOLERANCE, scaled
from pufferdp.models.network import MOST_PARENTS, Node
from pufferdp.models.records import Law

LARGEST_FILE: Final = 64 * 2**20
"""Files above this many bytes are refused."""
MOST_ENTRIES: Final = 2**24
"""A default row can stand for any number of rows; tables above this many entries are refused."""


def read_bif(path: str | os.PathLike[str]) -> tuple[Node, ...]:
    """The nodes of a network, in the order in which the file declares them."""
    file = BifBlocks(os.fspath(path), file_text(path, "BIF"))
    if not file.variables:
        file.fail(1, "the file declares no variable; expected variable blocks")
    for name, block in file.blocks.items():
        if name not in file.variables:
            file.fail(block.line, f"a probability block for {name!r}, which is no variable; declare it")
    return tuple(_node(file, name) for name in file.variables)


def file_text(path: str | os.PathLike[str], kind: str) -> str:
    """The text of a file that a model file names, in UTF-8."""
    name = f"{kind} file {os.fspath(path)!r}"
    try:
        with Path(path).open("rb") as source:
            content = source.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise ModelError(f"{name} is larger than {LARGEST_FILE >> 20} MB; larger files are not read", value=path)
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise ModelError(f"{name} does not exist", value=path) from None
    except IsADirectoryError:
        raise ModelError(f"{name} is a folder; name the file in it", value=path) from None
    except UnicodeDecodeError:
        raise ModelError(f"{name} is not text; it must be {kind} in UTF-8", value=path) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "this is no name of a file"
        raise ModelError(f"{name} cannot be read: {reason}", value=path) from None


def _node(file: BifBlocks, name: str) -> Node:
    variable = file.variables[name]
    if name not in file.blocks:
        file.fail(variable.line, f"variable {name!r} has no probability block; give it one")
    block = file.blocks[name]
    for parent in block.parents:
        if parent.text not in file.variables:
            file.fail(parent.line, f"{name!r} has the parent {parent.text!r}, which is no variable; declare it")
    if len(block.parents) > MOST_PARENTS:
        file.fail(block.line, f"{name!r} has {len(block.parents)} parents; at most {MOST_PARENTS} are allowed")
    domains = [file.variables[parent.text].states for parent in block.parents]
    shape = (*(len(domain) for domain in domains), len(variable.states))
    entries = math.prod(shape)
    if entries > MOST_ENTRIES:
        said = f"{entries:,}" if entries < 10**15 else f"about 10^{math.floor(math.log10(entries))}"
        file.fail(block.line, f"the table of {name!r} has {said} entries; at most {MOST_ENTRIES:,} are read")
    table = _rows(file, name, domains, shape) if block.table is None else _whole(file, name, block.table, shape)
    try:
        return Node(name=name, states=variable.states, parents=tuple(p.text for p in block.parents), table=table)
    except ModelError as error:
        file.fail(variable.line, str(error))


def _rows(file: BifBlocks, name: str, domains: Sequence[tuple[str, ...]], shape: tuple[int, ...]) -> Law:
    """A block of rows, one for each combination of the parents' states, or a default for those left out."""
    block = file.blocks[name]
    table = np.zeros(shape)
    if block.default is not None:
        table[...] = _law(file, name, block.default, shape[-1])
    seen: dict[tuple[int, ...], int] = {}
    for row in block.rows:
        index = _index(file, name, row, domains)
        if index in seen:
            said = f"row ({', '.join(row.states)}) of {name!r}"
            file.fail(row.line, f"{said} is given twice, first on line {seen[index]}; leave one out")
        seen[index] = row.line
        table[index] = _law(file, name, row, shape[-1])
    if block.default is None and len(seen) < math.prod(shape[:-1]):
        places = itertools.product(*(range(n) for n in shape[:-1]))
        missing = next(place for place in places if place not in seen)
        states = ", ".join(domain[x] for domain, x in zip(domains, missing, strict=True))
        what = f"row ({states}); expected it, or a default row" if states else "numbers; expected a table"
        file.fail(block.line, f"the block of {name!r} has no {what}")
    return table


def _index(file: BifBlocks, name: str, row: Row, domains: Sequence[tuple[str, ...]]) -> tuple[int, ...]:
    said = f"row ({', '.join(row.states)}) of {name!r}"
    if len(row.states) != len(domains):
        file.fail(row.line, f"{said} names {len(row.states)} states; expected {len(domains)}, one for each parent")
    for parent, domain, state in zip(file.blocks[name].parents, domains, row.states, strict=True):
        if state not in domain:
            known = ", ".join(domain)
            file.fail(row.line, f"{said}: {parent.text!r} has no state {state!r}; expected one of {known}")
    return tuple(domain.index(state) for domain, state in zip(domains, row.states, strict=True))


def _whole(file: BifBlocks, name: str, row: Row, shape: tuple[int, ...]) -> Law:
    """A block with ``table``: one law, or the laws for all states of the parents in one list."""
    block: Block = file.blocks[name]
    if block.rows or block.default is not None:
        file.fail(row.line, f"{name!r} has a table and other rows; expected one or the other")
    if len(shape) == 1:
        return _law(file, name, row, shape[0])
    if len(row.numbers) != math.prod(shape):
        file.fail(row.line, f"found {len(row.numbers)} numbers; expected {math.prod(shape)} in the table of {name!r}")
    # Programs disagree on the order of such a list: a record's own states change fastest, or slowest. Rows sum to 1 in
    # one order only, unless the table is a special one; then it is not for us to guess.
    fastest = row.numbers.reshape(shape), row.rounding.reshape(shape)
    turned = (shape[-1], *shape[:-1])
    slowest = np.moveaxis(row.numbers.reshape(turned), 0, -1), np.moveaxis(row.rounding.reshape(turned), 0, -1)
    orders = [scaled(np.array(laws)) for laws, rounding in (fastest, slowest) if _sums_to_one(laws, rounding).all()]
    if not orders:
        file.fail(row.line, f"the table of {name!r} has rows that do not sum to 1, in whichever order it is read")
    if not np.array_equal(orders[0], orders[-1]):
        file.fail(
            row.line,
            f"the table of {name!r} sums to 1 in both orders in which programs write it; "
            "expected a row (state, …) for each combination of the parents' states",
        )
    return orders[0]


def _law(file: BifBlocks, name: str, row: Row, count: int) -> Law:
    if len(row.numbers) != count:
        file.fail(row.line, f"found {len(row.numbers)} numbers; expected {count}, one for each state of {name!r}")
    if not _sums_to_one(row.numbers, row.rounding):
        total = math.fsum(row.numbers)
        file.fail(row.line, f"the numbers of {name!r} sum to {total:.12g}; expected 1, but for rounding")
    return scaled(row.numbers)


def _sums_to_one(laws: Law, rounding: Law) -> npt.NDArray[np.bool_]:
    """Whether laws along the last axis sum to 1, but for what rounding their numbers to the digits printed can do."""
    allowed = np.maximum(ROW_TOLERANCE, np.minimum(rounding.sum(axis=-1), MOST_ROUNDING))
    # A double is not quite the decimal it was read from: a row that is off by exactly what is allowed is let in.
    return np.asarray(abs(laws.sum(axis=-1) - 1) <= allowed * (1 + 1e-6))
