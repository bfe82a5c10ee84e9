"""The text of a BIF file as blocks: what it says, before anybody asks what that means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, NoReturn

import numpy as np

from pufferdp.errors import ModelError
from pufferdp.models.records import Law

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
    def said(self) -> str:
        """The token as an error names it."""
        if self.kind == "end":
            return self.text
        return repr(self.text if len(self.text) <= 60 else self.text[:60] + "…")


@dataclass(frozen=True)
class Row:
    """A line of numbers, and the states of the parents it is for."""

    line: int
    states: tuple[str, ...]
    numbers: Law
    rounding: Law
    """Half a unit of the last digit of each number."""


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
    """A variable block."""

    line: int
    states: tuple[str, ...]


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
                self.fail(token.line, f"found {token.said}; expected network, variable or probability")
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

    def fail(self, line: int, said: str) -> NoReturn:
        """Refuse the file for what stands on a line."""
        raise ModelError(f"{self.path}, line {line}: {said}")

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
            self.fail(token.line, f"found {token.said}; expected {mark!r}{also}")

    def _name(self, what: str) -> Token:
        token = self._take()
        if token.kind in ("mark", "end") or not token.text:
            self.fail(token.line, f"found {token.said}; expected {what}")
        return token

    def _names(self, end: str, what: str) -> tuple[Token, ...]:
        """Names up to a closing mark; commas may stand between them."""
        found = []
        while not self._at(end):
            found.append(self._name(f"{what} or {end!r}"))
            if self._at(","):
                self._take()
        self._take()
        return tuple(found)

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
                self.fail(token.line, f"found {token.said}; expected {'type' if states is None else repr('}')}")
            kind = self._name("discrete")
            if kind.text != "discrete":
                self.fail(kind.line, f"found {kind.said}; expected discrete, the only type that is read")
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
                self.fail(token.line, f"found {token.said}; expected table, default, a row '(' or '}}'")
        self._take()

    def _row(self, line: int, states: tuple[str, ...]) -> Row:
        numbers, rounding = [], []
        while not self._at(";"):
            token = self._name("a number or ';'")
            match = _NUMBER.fullmatch(token.text)
            if match is None:
                self.fail(token.line, f"found {token.said}; expected a number")
            numbers.append(float(token.text))
            if not 0 <= numbers[-1] <= 1 + MOST_ROUNDING:
                self.fail(token.line, f"found {token.said}; a probability lies between 0 and 1")
            digits = len(match["after"] or match["only"] or "") - int(match["exponent"] or 0)
            rounding.append(0.5 * 10.0 ** -max(digits, 0))
            if self._at(","):
                self._take()
        self._take()
        return Row(line, states, np.array(numbers, dtype=float), np.array(rounding, dtype=float))
