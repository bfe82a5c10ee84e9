"""What must stay indistinguishable: secrets and the pairs of them that count (S and Q of a Pufferfish framework).

Without secrets of one's own every record is a secret: "record i has value a", in pairs of values of the same record. A
framework of one's own names events over records and the pairs that matter; the model is the third part, Θ.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pufferdp.basics.errors import ModelError
from pufferdp.basics.files import found_text, read_json
from pufferdp.basics.words import a_kind
from pufferdp.models.base import value_text

Condition = Mapping[str, "str | Sequence[str]"]
"""A state, or a set of states, for each of some records: all must hold."""
Cell = dict[int, tuple[int, ...]]
"""A condition in positions: record → states."""

_MOST_CELLS: Final = 4096


class Domains(Protocol):
    """What a secret must know of a model: which records there are and which states each has."""

    def position(self, record: str) -> int:
        """The position of a record, counted from 0."""

    def states_of(self, position: int) -> tuple[str, ...]:
        """The states of the record that stands there."""


@dataclass(frozen=True, kw_only=True)
class Secret:
    """An event over records: at least one of its conditions holds.

    >>> Secret(name="alice ill", when={"alice": "yes"})
    Secret('alice ill')
    """

    name: str
    when: Condition | Sequence[Condition]
    """One condition, or several of which at least one must hold."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ModelError(f"a secret is named {self.name!r}; it needs a text that is not empty", value=self.name)
        several: object = (self.when,) if isinstance(self.when, Mapping) else self.when
        if isinstance(several, str) or not isinstance(several, Sequence):
            several = (several,)
        if not several:
            raise ModelError(f"secret {self.name!r} has no condition; say when it holds", value=self.when)
        conditions = []
        for condition in several:
            if not isinstance(condition, Mapping) or not condition:
                raise ModelError(
                    f"secret {self.name!r}: a condition is {found_text(condition)}; it must name records, "
                    'as in {"alice": "yes"}',
                    value=condition,
                )
            conditions.append({str(r): _states(self.name, str(r), s) for r, s in condition.items()})
        object.__setattr__(self, "when", tuple(conditions))

    @classmethod
    def of(cls, name: str, predicate: Callable[[dict[str, str]], bool], domains: Mapping[str, Sequence[str]]) -> Secret:
        """A secret from a predicate over some records, written out over all their states.

        >>> both = Secret.of("both ill", lambda r: r["a"] == r["b"] == "yes", {"a": ["yes", "no"], "b": ["yes", "no"]})
        >>> both.when
        ({'a': ('yes',), 'b': ('yes',)},)
        """
        if math.prod(len(states) for states in domains.values()) > _MOST_CELLS:
            raise ModelError(f"secret {name!r} is a predicate over too many records; at most {_MOST_CELLS} cases")
        cases = [dict(zip(domains, states, strict=True)) for states in itertools.product(*domains.values())]
        holds = [case for case in cases if predicate(case)]
        if not holds:
            raise ModelError(f"secret {name!r} never holds; it cannot be told from anything")
        return cls(name=name, when=holds)

    @property
    def records(self) -> tuple[str, ...]:
        """The records it speaks of."""
        return tuple(dict.fromkeys(record for condition in self._conditions for record in condition))

    @property
    def _conditions(self) -> tuple[dict[str, tuple[str, ...]], ...]:
        assert isinstance(self.when, tuple)
        return self.when

    def cells(self, model: Domains) -> list[Cell]:
        """The event as conditions of which no two hold together."""
        conditions = [self._cell(condition, model) for condition in self._conditions]
        if all(_exclude(a, b) for a, b in itertools.combinations(conditions, 2)):
            return conditions
        scope = sorted({i for condition in conditions for i in condition})
        count = math.prod(len(model.states_of(i)) for i in scope)
        if count > _MOST_CELLS:
            raise ModelError(
                f"secret {self.name!r} overlaps with itself over {count:,} cases; the limit is {_MOST_CELLS}: "
                "write conditions of which no two hold together",
                value=self.name,
            )
        cases = itertools.product(*(range(len(model.states_of(i))) for i in scope))
        return [
            {i: (x,) for i, x in zip(scope, case, strict=True)}
            for case in cases
            if any(_holds(c, dict(zip(scope, case, strict=True))) for c in conditions)
        ]

    def _cell(self, condition: dict[str, tuple[str, ...]], model: Domains) -> Cell:
        cell = {}
        for record, states in condition.items():
            try:
                i = model.position(record)
            except ModelError as error:
                raise ModelError(f"secret {self.name!r}: {error}", value=record) from None
            for state in states:
                if state not in model.states_of(i):
                    known = ", ".join(model.states_of(i)[:10])
                    raise ModelError(
                        f"secret {self.name!r}: record {record!r} has no state {state!r}; it has {known}", value=state
                    )
            cell[i] = tuple(sorted({model.states_of(i).index(state) for state in states}))
        return cell

    def __repr__(self) -> str:
        return f"Secret({self.name!r})"


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """Named secrets and the pairs of them that must stay indistinguishable."""

    secrets: tuple[Secret, ...]
    pairs: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        secrets = tuple(self.secrets)
        names = [secret.name for secret in secrets]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ModelError(f"secret {twice[0]!r} is named twice; every secret needs its own name", value=twice[0])
        for pair in self.pairs:
            if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
                raise ModelError(f"a pair is {found_text(pair)}; it must be a list of two names of secrets", value=pair)
        pairs = tuple((str(a), str(b)) for a, b in self.pairs)
        if not pairs:
            raise ModelError(
                "there is no pair of secrets; nothing would be protected: name two or more secrets in pairs"
            )
        for pair in pairs:
            for name in pair:
                if name not in names:
                    raise ModelError(
                        f"a pair names {name!r}, which is no secret; the secrets are {', '.join(names) or 'none'}",
                        value=name,
                    )
            if pair[0] == pair[1]:
                raise ModelError(f"a pair sets {pair[0]!r} against itself; name two secrets", value=pair)
        object.__setattr__(self, "secrets", secrets)
        object.__setattr__(self, "pairs", pairs)

    def __getitem__(self, name: str) -> Secret:
        return next(secret for secret in self.secrets if secret.name == name)

    @classmethod
    def from_dict(cls, raw: object) -> Secrets:
        """Secrets from the content of their file: {"secrets": {name: condition(s)}, "pairs": [[name, name], …]}."""
        if not isinstance(raw, Mapping) or set(raw) != {"secrets", "pairs"}:
            content = (
                f"the keys are {', '.join(raw)}" if isinstance(raw, Mapping) else f"the content is {found_text(raw)}"
            )
            raise ModelError(f'{content}; it must be one JSON object with the keys "secrets" and "pairs"', value=raw)
        named, pairs = raw["secrets"], raw["pairs"]
        if not isinstance(named, Mapping):
            raise ModelError(
                f"secrets is {found_text(named)}; it must be an object: a condition for each name", value=raw
            )
        if not isinstance(pairs, Sequence) or isinstance(pairs, str):
            raise ModelError(f"pairs is {found_text(pairs)}; it must be a list of pairs of names", value=pairs)
        return cls(
            secrets=tuple(Secret(name=name, when=when) for name, when in named.items()),
            pairs=tuple(pairs),
        )

    def to_dict(self) -> dict[str, Any]:
        """The content of their file."""
        return {
            "secrets": {s.name: [{r: list(x) for r, x in c.items()} for c in s._conditions] for s in self.secrets},
            "pairs": [list(pair) for pair in self.pairs],
        }


def load_secrets(path: str | os.PathLike[str]) -> Secrets:
    """Secrets from a JSON file, with the same content as ``Secrets.from_dict`` takes."""
    raw = read_json(path, "secrets file")
    try:
        return Secrets.from_dict(raw)
    except ModelError as error:
        raise ModelError(f"{path}: {error}", value=error.value) from None


SecretsLike = Secrets | str | os.PathLike[str] | dict[str, Any]
"""Secrets, the path of their file, or its content."""


def as_secrets(secrets: object) -> Secrets | None:
    """The secrets that are meant; None where every record is one."""
    if secrets is None or isinstance(secrets, Secrets):
        return secrets
    if isinstance(secrets, (str, os.PathLike)):
        return load_secrets(secrets)
    if isinstance(secrets, dict):
        return Secrets.from_dict(secrets)
    raise ModelError(
        f"secrets is {a_kind(secrets)}; it must be Secrets, the path of a secrets file, or its content as a dict",
        value=secrets,
    )


def _states(secret: str, record: str, given: object) -> tuple[str, ...]:
    """The states a condition allows a record: one, or a list of them; a number is a state by its name."""
    several = given if isinstance(given, (list, tuple, set, frozenset)) else (given,)
    if not several or not all(isinstance(s, (str, int, float)) and not isinstance(s, bool) for s in several):
        raise ModelError(
            f"secret {secret!r}: the state of record {record!r} is {found_text(given)}; "
            'it must be a state or a list of states, as in {"alice": "yes"}',
            value=given,
        )
    return tuple(value_text(s) for s in several)


def _exclude(a: Cell, b: Cell) -> bool:
    """Whether two conditions cannot hold together."""
    return any(i in b and not set(a[i]) & set(b[i]) for i in a)


def _holds(condition: Cell, case: dict[int, int]) -> bool:
    return all(case[i] in states for i, states in condition.items())
