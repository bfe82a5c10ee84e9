"""Bayesian networks from BIF files, in the dialect of the bnlearn repository."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from pufferdp.basics.errors import ModelError
from pufferdp.basics.words import whole_number
from pufferdp.models.base import Distribution
from pufferdp.models.chain import ROW_TOLERANCE, scaled
from pufferdp.models.inference import MOST_PARENTS

MOST_ROUNDING: Final = 1e-6
"""Numbers in BIF files are rounded to the digits printed: that may move the sum of a row from 1, but not by more."""

_PIECE: Final = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/) | "(?P<quoted>[^"\n]*)" | (?P<mark>[{}()\[\];,|])
    | (?P<word>(?:[^\s{}()\[\];,|"/]|/(?![/*]))+) | (?P<open>.)""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9]+\.?(?P<after>[0-9]*)|\.(?P<only>[0-9]+))(?:[eE](?P<exponent>[+-]?[0-9]{1,4}))?"
)


class Token(NamedTuple):
    """A piece of the text: a mark, a word, a quoted name or the end."""

    text: str
    line: int
    kind: str

    @property
    def quoted(self) -> str:
        """The token as an error names it."""
        if self.kind == "end":
            return self.text
        return repr(self.text if len(self.text) <= 60 else self.text[:60] + "…")


@dataclass(frozen=True)
class Row:
    """A line of numbers, and the states of the parents it is for."""

    line: int
    states: tuple[str, ...]
    numbers: Distribution
    rounding: Distribution
    """Half a unit of the last digit of each number."""

    def named(self, name: str) -> str:
        """The row of a variable as an error names it."""
        return f"row ({', '.join(self.states)}) of {name!r}"


@dataclass
class Block:
    """A probability block as it stands in the file."""

    line: int
    parents: tuple[Token, ...]
    rows: list[Row] = field(default_factory=list)
    table: Row | None = None
    default: Row | None = None


@dataclass(frozen=True)
class Variable:
    """The states of a variable, and the line that declares it."""

    line: int
    states: tuple[str, ...]


class BifNode(NamedTuple):
    """A variable and its distribution given its parents, as plain data."""

    line: int
    """Where the file declares it."""
    name: str
    states: tuple[str, ...]
    parents: tuple[str, ...]
    table: Distribution
    """One axis a parent, in their order, and its own states last."""


class BifBlocks:
    """All blocks of one file, by the name of their variable."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.variables, self.blocks = path, dict[str, Variable](), dict[str, Block]()
        self._tokens = self._split(text)
        self._next = next(self._tokens)
        kinds = {"network": self._network, "variable": self._variable, "probability": self._probability}
        while self._next.kind != "end":
            token = self._take()
            if token.kind == "mark" or token.text not in kinds:
                self.fail(token.line, f"found {token.quoted}; expected network, variable or probability")
            kinds[token.text](token.line)

    def _split(self, text: str) -> Iterator[Token]:
        line = 1
        for match in _PIECE.finditer(text):
            kind = match.lastgroup or ""
            if kind == "open":
                what = "a quote" if match["open"] == '"' else "a comment"
                self.fail(line, f"{what} is opened and never closed; close it")
            if kind != "skip":
                yield Token(match[kind], line, kind)
            line += match[0].count("\n")
        yield Token("the end of the file", line, "end")

    def fail(self, line: int, problem: str) -> NoReturn:
        """Refuse the file for what stands on a line."""
        raise ModelError(f"{self.path}, line {line}: {problem}")

    def _take(self) -> Token:
        token = self._next
        if token.kind != "end":
            self._next = next(self._tokens)
        return token

    def _at(self, mark: str) -> bool:
        return self._next.kind == "mark" and self._next.text == mark

    def _expect(self, mark: str, also: str = "") -> None:
        token = self._take()
        if token.kind != "mark" or token.text != mark:
            self.fail(token.line, f"found {token.quoted}; expected {mark!r}{also}")

    def _name(self, what: str) -> Token:
        token = self._take()
        if token.kind in ("mark", "end") or not token.text:
            self.fail(token.line, f"found {token.quoted}; expected {what}")
        return token

    def _names(self, end: str, what: str) -> tuple[Token, ...]:
        """Names up to a closing mark; commas may stand between them."""
        names = []
        while not self._at(end):
            names.append(self._name(f"{what} or {end!r}"))
            if self._at(","):
                self._take()
        self._take()
        return tuple(names)

    def _property(self) -> bool:
        """Skip a property, if one is next: it says nothing about probabilities."""
        if self._next.kind != "word" or self._next.text != "property":
            return False
        line = self._take().line
        while not self._at(";"):
            if self._take().kind == "end":
                self.fail(line, "a property has no end; expected ';'")
        self._take()
        return True

    def _network(self, line: int) -> None:
        if not self._at("{"):
            self._name("the name of the network or '{'")
        self._expect("{")
        while self._property():
            pass
        self._expect("}")

    def _variable(self, line: int) -> None:
        name = self._name("the name of a variable").text
        if name in self.variables:
            self.fail(line, f"variable {name!r} is declared twice; it was on line {self.variables[name].line}")
        self._expect("{")
        states: tuple[Token, ...] | None = None
        while not self._at("}"):
            if self._property():
                continue
            token = self._take()
            if token.text != "type" or token.kind != "word" or states is not None:
                self.fail(token.line, f"found {token.quoted}; expected {'type' if states is None else repr('}')}")
            kind = self._name("discrete")
            if kind.text != "discrete":
                self.fail(kind.line, f"found {kind.quoted}; expected discrete, the only type that is read")
            self._expect("[")
            count = self._name("the number of states")
            self._expect("]")
            self._expect("{")
            states = self._names("}", "the name of a state")
            if count.text != str(len(states)):
                self.fail(
                    token.line, f"variable {name!r} is declared with [{count.text}] states and names {len(states)}"
                )
            self._expect(";")
        self._take()
        if states is None:
            self.fail(line, f"variable {name!r} has no states; expected type discrete [ … ] {{ … }};")
        self.variables[name] = Variable(line, tuple(token.text for token in states))

    def _probability(self, line: int) -> None:
        self._expect("(")
        name = self._name("the name of a variable").text
        parents: tuple[Token, ...] = ()
        if self._at("|"):
            self._take()
            parents = self._names(")", "the name of a parent")
        else:
            self._expect(")", " or '|'")
        if name in self.blocks:
            self.fail(line, f"{name!r} has two probability blocks; the first is on line {self.blocks[name].line}")
        self._expect("{")
        block = self.blocks[name] = Block(line, parents)
        while not self._at("}"):
            if self._property():
                continue
            token = self._take()
            if token.kind == "mark" and token.text == "(":
                states = tuple(state.text for state in self._names(")", "the state of a parent"))
                block.rows.append(self._row(token.line, states))
            elif token.kind == "word" and token.text in ("table", "default"):
                if getattr(block, token.text) is not None:
                    self.fail(token.line, f"{token.text} of {name!r} is given twice; give it once")
                setattr(block, token.text, self._row(token.line, ()))
            else:
                self.fail(token.line, f"found {token.quoted}; expected table, default, a row '(' or '}}'")
        self._take()

    def _row(self, line: int, states: tuple[str, ...]) -> Row:
        numbers, rounding = [], []
        while not self._at(";"):
            token = self._name("a number or ';'")
            match = _NUMBER.fullmatch(token.text)
            if match is None:
                self.fail(token.line, f"found {token.quoted}; expected a number")
            numbers.append(float(token.text))
            if not 0 <= numbers[-1] <= 1 + MOST_ROUNDING:
                self.fail(token.line, f"found {token.quoted}; a probability lies between 0 and 1")
            digits = len(match["after"] or match["only"] or "") - int(match["exponent"] or 0)
            rounding.append(0.5 * 10.0 ** -max(digits, 0))
            if self._at(","):
                self._take()
        self._take()
        return Row(line, states, np.array(numbers, dtype=float), np.array(rounding, dtype=float))


LARGEST_FILE: Final = 64 * 2**20
"""Files above this many bytes are refused."""
MOST_ENTRIES: Final = 2**24
"""A default row can stand for any number of rows; tables above this many entries are refused."""


def read_bif(path: str | os.PathLike[str]) -> Iterator[BifNode]:
    """The variables of a network, in the order in which the file declares them, each looked at when it is asked for."""
    file = BifBlocks(os.fspath(path), file_text(path, "BIF"))
    if not file.variables:
        file.fail(1, "the file declares no variable; expected variable blocks")
    for name, block in file.blocks.items():
        if name not in file.variables:
            file.fail(block.line, f"a probability block for {name!r}, which is not a variable; declare it")
    yield from (_node(file, name) for name in file.variables)


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
        reason = error.strerror if isinstance(error, OSError) else "this is not a file name"
        raise ModelError(f"{name} cannot be read: {reason}", value=path) from None


def _node(file: BifBlocks, name: str) -> BifNode:
    variable = file.variables[name]
    if name not in file.blocks:
        file.fail(variable.line, f"variable {name!r} has no probability block; give it one")
    block = file.blocks[name]
    for parent in block.parents:
        if parent.text not in file.variables:
            file.fail(parent.line, f"{name!r} has the parent {parent.text!r}, which is not a variable; declare it")
    if len(block.parents) > MOST_PARENTS:
        file.fail(block.line, f"{name!r} has {len(block.parents)} parents; at most {MOST_PARENTS} are allowed")
    domains = [file.variables[parent.text].states for parent in block.parents]
    shape = (*(len(domain) for domain in domains), len(variable.states))
    entries = math.prod(shape)
    if entries > MOST_ENTRIES:
        file.fail(
            block.line, f"the table of {name!r} has {whole_number(entries)} entries; at most {MOST_ENTRIES:,} are read"
        )
    table = _rows(file, name, domains, shape) if block.table is None else _whole(file, name, block.table, shape)
    return BifNode(variable.line, name, variable.states, tuple(p.text for p in block.parents), table)


def _rows(file: BifBlocks, name: str, domains: Sequence[tuple[str, ...]], shape: tuple[int, ...]) -> Distribution:
    """A block of rows, one for each combination of the parents' states, or a default for those left out."""
    block = file.blocks[name]
    table = np.zeros(shape)
    if block.default is not None:
        table[...] = _distribution(file, name, block.default, shape[-1])
    seen: dict[tuple[int, ...], int] = {}
    for row in block.rows:
        index = _index(file, name, row, domains)
        if index in seen:
            file.fail(row.line, f"{row.named(name)} is given twice, first on line {seen[index]}; leave one out")
        seen[index] = row.line
        table[index] = _distribution(file, name, row, shape[-1])
    if block.default is None and len(seen) < math.prod(shape[:-1]):
        places = itertools.product(*(range(n) for n in shape[:-1]))
        missing = next(place for place in places if place not in seen)
        states = ", ".join(domain[x] for domain, x in zip(domains, missing, strict=True))
        what = f"row ({states}); expected it, or a default row" if states else "numbers; expected a table"
        file.fail(block.line, f"the block of {name!r} has no {what}")
    return table


def _index(file: BifBlocks, name: str, row: Row, domains: Sequence[tuple[str, ...]]) -> tuple[int, ...]:
    row_name = row.named(name)
    if len(row.states) != len(domains):
        file.fail(row.line, f"{row_name} names {len(row.states)} states; expected {len(domains)}, one for each parent")
    for parent, domain, state in zip(file.blocks[name].parents, domains, row.states, strict=True):
        if state not in domain:
            known = ", ".join(domain)
            file.fail(row.line, f"{row_name}: {parent.text!r} has no state {state!r}; expected one of {known}")
    return tuple(domain.index(state) for domain, state in zip(domains, row.states, strict=True))


def _whole(file: BifBlocks, name: str, row: Row, shape: tuple[int, ...]) -> Distribution:
    """A block with ``table``: one distribution, or the distributions for all states of the parents in one list."""
    block: Block = file.blocks[name]
    if block.rows or block.default is not None:
        file.fail(row.line, f"{name!r} has a table and other rows; expected one or the other")
    if len(shape) == 1:
        return _distribution(file, name, row, shape[0])
    if len(row.numbers) != math.prod(shape):
        file.fail(row.line, f"found {len(row.numbers)} numbers; expected {math.prod(shape)} in the table of {name!r}")
    # Programs disagree on the order of such a list: a record's own states change fastest, or slowest. Rows sum to 1 in
    # one order only, unless the table is a special one; then it is not for us to guess.
    fastest = row.numbers.reshape(shape), row.rounding.reshape(shape)
    turned = (shape[-1], *shape[:-1])
    slowest = np.moveaxis(row.numbers.reshape(turned), 0, -1), np.moveaxis(row.rounding.reshape(turned), 0, -1)
    orders = [
        scaled(np.array(distributions))
        for distributions, rounding in (fastest, slowest)
        if _sums_to_one(distributions, rounding).all()
    ]
    if not orders:
        file.fail(row.line, f"the table of {name!r} has rows that do not sum to 1, in whichever order it is read")
    if not np.array_equal(orders[0], orders[-1]):
        file.fail(
            row.line,
            f"the table of {name!r} sums to 1 in both orders in which programs write it; "
            "expected a row (state, …) for each combination of the parents' states",
        )
    return orders[0]


def _distribution(file: BifBlocks, name: str, row: Row, count: int) -> Distribution:
    if len(row.numbers) != count:
        file.fail(row.line, f"found {len(row.numbers)} numbers; expected {count}, one for each state of {name!r}")
    if not _sums_to_one(row.numbers, row.rounding):
        total = math.fsum(row.numbers)
        file.fail(row.line, f"the numbers of {name!r} sum to {total:.12g}; expected 1, but for rounding")
    return scaled(row.numbers)


def _sums_to_one(distributions: Distribution, rounding: Distribution) -> npt.NDArray[np.bool_]:
    """Whether distributions along the last axis sum to 1 within the rounding of their numbers to the digits printed."""
    allowed = np.maximum(ROW_TOLERANCE, np.minimum(rounding.sum(axis=-1), MOST_ROUNDING))
    # A double is not quite the decimal it was read from: a row that is off by exactly what is allowed is let in.
    return np.asarray(abs(distributions.sum(axis=-1) - 1) <= allowed * (1 + 1e-6))
