"""A model: a distribution of records, and the interface for the layers above.

`Model` has the generic way of answering, `RecordModel` that of a fixed list of records; series are in ``chain`` and
real numbers in ``gaussian``. A model overrides what it can do better. Questions are asked by what a model can do
(a method, a property, or one of the three interfaces: `records_of`, `series_of`, `numbers_of`), never by its type, so
a new model is one class.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.errors import ModelError, ParameterError
from pufferdp.basics.files import canonical_json, found_text
from pufferdp.basics.frames import frame
from pufferdp.basics.paged import Displayed
from pufferdp.basics.words import whole_number
from pufferdp.models.inference import Factor, JunctionTree

Distribution = npt.NDArray[np.float64]
Outcomes = npt.NDArray[np.int64]
Known = Mapping[str, "str | Sequence[str]"]
"""What is known of some records: a state, or a set of states, for each."""
Evidence = Mapping[int, tuple[int, ...]]
"""The same in positions: for each record the states it may have."""
Lengths = tuple[tuple[int, int], ...]
"""Independent chains or families: (length, how many of that length)."""
LayoutOptions = Mapping[str, "str | float | None"]
"""How rows are laid out: ``order``, ``by`` and ``restart``, each None where it was not given."""

PAIR_MARK: Final = "|"
"""Stands between the two states of a pair, where a record is read from two columns, as in rest|home."""
MOST_OUTCOMES: Final = 2**20
"""Tables of outcomes are never larger than this."""
_MOST_CELLS: Final = 2**26
"""Tables of outcomes never have more cells, one for each record of each outcome: half a gigabyte."""

_OURS: Final = {
    "markov_chain": "chain",
    "gaussian": "gaussian",
    "limited_correlation": "gaussian",
    "ar1": "ar1",
    "markov_class": "chain_classes",
    "markov_interval": "chain_classes",
    "binary_interval": "chain_classes",
    "markov_clock": "clock",
    "groups": "groups",
    "hidden_markov": "hidden",
    "hidden_states": "hidden_states",
    "joint": "joint",
    "class": "model_class",
    "bayesian_network": "network",
    "pedigree": "pedigree",
}
"""The module of each of our types of model, which is loaded when a file names it."""
_TYPES: Final[dict[str, type[Model]]] = {}
"""The classes that were loaded, ours and those from outside."""


def type_names() -> tuple[str, ...]:
    """What may stand under ``type`` in a model file: ours first, then those from outside."""
    return tuple(_OURS | dict.fromkeys(_TYPES))


def model_type(name: str) -> type[Model]:
    """The class that reads files of a type."""
    if name not in _TYPES:
        importlib.import_module(f"pufferdp.models.{_OURS[name]}")
    return _TYPES[name]


def model_types() -> dict[str, type[Model]]:
    """Every class that reads model files, by the type that stands in the file."""
    return {name: model_type(name) for name in type_names()}


class Model(Displayed, ABC):
    """One distribution of the records, or a class of distributions; a guarantee holds for each.

    A class with a ``file_type`` of its own is known to model files, certificates and ledgers from then on. Subclasses
    are frozen dataclasses; the fields that their constructor takes are then the content of the file, unless they say
    otherwise.
    """

    file_type: ClassVar[str | None] = None
    """What stands under ``type`` in files of such models."""
    real_valued: ClassVar[bool] = False
    """Whether records are real numbers, which have no states to count."""
    needs_length: ClassVar[bool] = False
    """Whether it leaves open how many records there are, and distributions and noise depend on it."""
    takes_length: ClassVar[bool] = False
    """Whether the number of records may be told to it at all."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        name = cls.__dict__.get("file_type")
        if name is None:
            return
        known = _TYPES.get(name)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ModelError(
                f"{cls.__qualname__} has the file type {name!r}, which {known.__qualname__} has; choose another",
                value=name,
            )
        _TYPES[name] = cls

    # What a record may be.

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """All states of all records."""

    @property
    def size(self) -> int:
        """Number of different states."""
        return len(self.labels)

    @property
    def values(self) -> tuple[float, ...] | None:
        """A number for each label, for sums and means."""
        return None

    @property
    def bins(self) -> tuple[float, ...] | None:
        """Edges that turned numbers into states; only series have them."""
        return None

    @property
    def fitted(self) -> dict[str, Any] | None:
        """Where the model was estimated from, if it was."""
        return None

    @property
    def checks(self) -> dict[str, Any] | None:
        """What the data said about the model, where ``fit`` or ``check`` compared them."""
        return None

    @property
    def domains(self) -> tuple[tuple[str, ...], ...] | None:
        """The states of each record, where the model knows its records."""
        return None

    @property
    def placeholder_states(self) -> bool:
        """Whether the states stand for whatever numbers are in the data."""
        return False

    # The members of the class, and which records depend on each other.

    @property
    def record_models(self) -> tuple[RecordModel, ...]:
        """The members of the class as distributions of a fixed list of records; none where they cannot be listed so."""
        return ()

    @property
    def single(self) -> bool:
        """Whether it is one model, and not a class of several."""
        return len(self.record_models) == 1

    @property
    def arbitrary(self) -> int | None:
        """Records in the largest set within which anything may hold; None where more is assumed."""
        return None

    @property
    def hereditary(self) -> bool:
        """Whether the records are genotypes of families."""
        return False

    @abstractmethod
    def dependent(self, longest: int) -> int:
        """Records in the largest set that may depend on each other; ``longest`` is the longest chain of a series."""

    def group_size(self, longest: int) -> int:
        """Records that group privacy lets change at once."""
        return self.dependent(longest)

    def possible(self, rows: Sequence[npt.NDArray[np.int64]]) -> bool:
        """Whether these records, in state numbers, have positive probability under a member; False where unknown."""
        return False

    # How many records there are, and how they are read.

    @abstractmethod
    def lengths(self, given: Lengths, divided: str | None = None) -> Lengths:
        """The number of records: as given, or as known; ``divided`` names a query that divides by it."""

    @property
    def step(self) -> str | float | None:
        """The time from one record to the next, where the model says it: a duration, or a number of the order."""
        return None

    @abstractmethod
    def check_reading(self, layout: LayoutOptions, missing: str, id: str | None) -> None:
        """Refuse ways of reading that do not go with the model, before any data is read."""

    def check_groups(self, by: str | None, lengths: Sequence[Sequence[int]]) -> None:
        """Refuse chains, groups or families as they were read, where the model does not allow them."""
        return

    def check_secrets(self) -> None:
        """Refuse secrets of one's own where the model cannot say what they name."""
        return

    @abstractmethod
    def public_facts(self, records: int) -> list[str]:
        """What a release takes to be known to everyone about so many records."""

    # Equality by value.

    def __eq__(self, other: object) -> bool:
        """Whether both models have the same file content; where they come from does not matter."""
        if not isinstance(other, Model):
            return NotImplemented
        return self is other or self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @cached_property
    def _content(self) -> str:
        """The model's file without ``fitted`` and ``checks``, as text; a model that has no file is equal to itself."""
        try:
            return f"{type(self).__qualname__} {canonical_json(_without_origin(self.to_dict()))}"
        except ModelError:
            return f"{type(self).__qualname__} {id(self)}"

    # Files.

    def to_dict(self) -> dict[str, Any]:
        """The content of the model's file: everything needed to make it again, without any other file."""
        fields = _fields(type(self))
        if self.file_type is None or fields is None:
            raise ModelError(f"{self!r} has no form as a file", value=self)
        given = {name: getattr(self, name) for name in fields}
        return {"type": self.file_type, **{name: _plain(v, name) for name, v in given.items() if v is not None}}

    def to_frame(self, *, backend: str | None = None) -> Any:
        """A row for each move with its probability, as a pandas or polars frame.

        A class has the least and the largest probability, or which of its models; a clock its slots; hidden states are
        numbered within their value. A model without moves has a row for each number or name of its file.
        """
        columns, rows = _rows(self.to_dict(), self.labels)
        return frame(columns, rows, backend)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> Model:
        """The model of a file; another file that it names is looked for from the folder, and refused without one."""
        fields = _fields(cls)
        if fields is None:
            raise ModelError(f"a {cls.file_type} file cannot be read: {cls.__qualname__} does not say how")
        for name in raw:
            if name != "type" and name not in fields:
                raise ModelError(f"{name} is not a key known here (in a {cls.file_type} file)", value=raw)
        for name, f in fields.items():
            if name not in raw and f.default is f.default_factory is dataclasses.MISSING:
                raise ModelError(f"{name} is missing; it is needed (in a {cls.file_type} file)", value=raw)
        try:
            return cls(**{name: _frozen(value) for name, value in raw.items() if name != "type"})
        except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
            raise ModelError(
                f"{found_text(dict(raw))} makes no {cls.file_type}: {error}; correct the file", value=raw
            ) from None


def _rows(content: Mapping[str, Any], names: Sequence[str]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """What a model's file has, as the columns and rows of a table."""
    pairs = [(x, y) for x in range(len(names)) for y in range(len(names))]
    if isinstance(content.get("low"), list):
        low, high = content["low"], content["high"]
        return ("from", "to", "low", "high"), [(names[x], names[y], low[x][y], high[x][y]) for x, y in pairs]
    ahead = ""
    if "of" in content:
        kinds = [f"{names[x]} {content['of'][: z + 1].count(x)}" for z, x in enumerate(content["of"])]
        pairs, names = [(x, y) for x in range(len(kinds)) for y in range(len(kinds))], kinds
    if "of" in content and "period" in content:
        tables, ahead = content["transition"], "slot"
    elif "transition" in content and "emission" not in content:  # hidden states have no names
        tables = [content["transition"]]
    elif "transitions" in content:
        tables, ahead = content["transitions"], "slot"
    elif content["type"] == "markov_class":
        tables, ahead = [chain["transition"] for chain in content["models"]], "model"
    elif content["type"] == "ar1":
        ends = content["coefficient"] if isinstance(content["coefficient"], list) else [content["coefficient"]] * 2
        return ("low", "high", "mean", "sd"), [(*ends, content.get("mean"), content.get("sd"))]
    else:
        return ("name", "value"), [row for key in content for row in _entries(key, content[key])]
    rows = [(n, names[x], names[y], table[x][y]) for n, table in enumerate(tables, start=1) for x, y in pairs]
    columns = (ahead, "from", "to", "probability")
    return (columns, rows) if ahead else (columns[1:], [row[1:] for row in rows])


def _without_origin(content: Any) -> Any:
    """The content of a model file, and of models in it, without what the data said."""
    if isinstance(content, list):
        return [_without_origin(part) for part in content]
    if not isinstance(content, dict):
        return content
    return {name: _without_origin(part) for name, part in content.items() if name not in ("fitted", "checks")}


def _entries(name: str, value: Any) -> list[tuple[str, str]]:
    """Every number and name in a value as text, of which a column can be, with the path to it."""
    if isinstance(value, dict):
        return [row for key in value for row in _entries(f"{name}.{key}", value[key])]
    if isinstance(value, list):
        return [row for n, inner in enumerate(value) for row in _entries(f"{name}[{n}]", inner)]
    return [(name, str(value))]


def _fields(made: Any) -> dict[str, dataclasses.Field[Any]] | None:
    """What the constructor of a dataclass takes; None for other classes."""
    return {f.name: f for f in dataclasses.fields(made) if f.init} if dataclasses.is_dataclass(made) else None


def _plain(value: object, name: str) -> object:
    """A field as it stands in JSON."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, name) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, name) for inner in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ModelError(f"{name} is {value!r}; a file holds numbers, texts, lists and objects", value=value)


def _frozen(value: object) -> object:
    """Lists of a JSON file as tuples, which nobody can change."""
    return tuple(_frozen(inner) for inner in value) if isinstance(value, list) else value


class RecordModel(Model):
    """A model of a fixed list of records, each with its own states, or a class of such models.

    Listing the outcomes is enough: the rest follows by adding them up.
    """

    @property
    @abstractmethod
    def records(self) -> tuple[str, ...]:
        """Names of the records, in the order of all distributions and outcomes."""

    @property
    @abstractmethod
    def domains(self) -> tuple[tuple[str, ...], ...]:
        """The states of each record."""

    @abstractmethod
    def outcomes(self) -> tuple[Outcomes, Distribution]:
        """Every outcome of positive probability (one row of state numbers each) and its probability."""

    def joint(self, records: Sequence[int], evidence: Evidence) -> Distribution:
        """P(these different records, evidence), one axis a record in the order given; not divided by P(evidence)."""
        sizes = tuple(self.sizes[i] for i in records)
        refuse_many(math.prod(sizes), "a distribution of these records")
        rows, distribution = self.outcomes()
        fits = np.ones(len(rows), dtype=bool)
        for i, states in evidence.items():
            fits &= np.isin(rows[:, i], states)
        if not sizes:
            return np.asarray(distribution[fits].sum())
        cells = np.ravel_multi_index(tuple(rows[fits][:, i] for i in records), sizes)
        return np.bincount(cells, distribution[fits], math.prod(sizes)).astype(float, copy=False).reshape(sizes)

    @property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """The records in sets that are independent of each other, whatever the numbers; here all in one."""
        return (tuple(range(len(self.records))),)

    @property
    def factors(self) -> tuple[Factor, ...] | None:
        """Tables whose product is the joint distribution, where it is known who depends on whom."""
        return None

    @cached_property
    def tree(self) -> JunctionTree | None:
        """The tree along which questions are answered, where there are such tables; compiled once."""
        return None if self.factors is None else JunctionTree(self.sizes, self.factors, self.records)

    @property
    def alternatives(self) -> tuple[RecordModel, ...]:
        """The models of the class, each as it was given: a model is a class of one."""
        return (self,)

    @property
    def record_models(self) -> tuple[RecordModel, ...]:
        """The models of the class, each in the form that distributions are worked out in."""
        return (self,)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All states of all records, in the order they are first met."""
        return tuple(dict.fromkeys(state for domain in self.domains for state in domain))

    @property
    def values(self) -> tuple[float, ...] | None:
        """A number for each label: the labels themselves, where all are numbers."""
        return label_values(None, self.labels)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states of each record."""
        return tuple(len(domain) for domain in self.domains)

    def states_of(self, position: int) -> tuple[str, ...]:
        """The states of the record that stands there."""
        return self.domains[position]

    def position(self, record: str) -> int:
        """The position of a record by its name."""
        if record not in self._positions:
            known = ", ".join(self.records[:10]) + (", …" if len(self.records) > 10 else "")
            raise ModelError(f"there is no record {record!r}; the model has {known}", value=record)
        return self._positions[record]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: n for n, name in enumerate(self.records)}

    def dependent(self, longest: int) -> int:
        """Records in the largest set that is not known to fall apart into independent ones."""
        return max(len(component) for component in self.components)

    def possible(self, rows: Sequence[npt.NDArray[np.int64]]) -> bool:
        """Whether some member gives the records these states positive probability."""
        (row,) = rows
        known = {i: (int(state),) for i, state in enumerate(row)}
        return any(float(member.joint((), known)) > 0 for member in self.record_models)

    def lengths(self, given: Lengths, divided: str | None = None) -> Lengths:
        """The records it knows; any other number is refused."""
        known = ((len(self.records), 1),)
        if given and given != known:
            listed = ", ".join(str(length) for length, count in given for _ in range(min(count, 10)))
            raise ParameterError(
                f"length is {listed}; the model knows its {len(self.records)} records: leave the length out",
                value=given,
            )
        return known

    def check_reading(self, layout: LayoutOptions, missing: str, id: str | None) -> None:
        """A column says which record a row is; order, groups and gaps are for series."""
        for name, value in layout.items():
            if value is not None:
                raise ParameterError(
                    f"{name} is {value!r}; it is for series, and this model names its records: use id=", value=value
                )
        if missing == "keep":
            raise ParameterError(f"missing is {missing!r}; every record of this model needs its value: fill it in")
        if id is None:
            refuse_unnamed(self.records)

    def public_facts(self, records: int) -> list[str]:
        """The list of records is public."""
        return [f"which records there are ({records})"]

    def evidence(self, known: Known) -> dict[int, tuple[int, ...]]:
        """Names of records and states as positions."""
        out = {}
        for record, states in known.items():
            i = self.position(record)
            domain = self.domains[i]
            several = (states,) if isinstance(states, str) else tuple(states)
            if not several:
                raise ModelError(f"record {record!r} is left no state; name one or more", value=states)
            for state in several:
                if state not in domain:
                    raise ModelError(
                        f"record {record!r} has no state {state!r}; it has {', '.join(domain)}", value=state
                    )
            out[i] = tuple(sorted({domain.index(state) for state in several}))
        return out

    def probability(self, known: Known) -> float:
        """The probability of what is known."""
        return float(self.joint((), self.evidence(known)))

    def distribution(self, *records: str, given: Known | None = None) -> Distribution:
        """The joint distribution of some records, one axis each, given what is known of others."""
        known = given or {}
        if len(set(records)) < len(records):
            twice = next(r for r in records if records.count(r) > 1)
            raise ModelError(
                f"record {twice!r} is named twice; a distribution has one axis for each record", value=records
            )
        joint = self.joint([self.position(r) for r in records], self.evidence(known))
        total = float(joint.sum())
        if total <= 0:
            raise impossible(known)
        return np.asarray(joint / total)


def records_of(model: Model) -> RecordModel | None:
    """The model as one that knows its list of records; None where it does not."""
    return model if isinstance(model, RecordModel) else None


def impossible(known: Known) -> ModelError:
    """The error for what cannot be known, because it never happens."""
    evidence = ", ".join(f"{r} = {s if isinstance(s, str) else ' or '.join(s)}" for r, s in known.items())
    return ModelError(f"{evidence} has probability 0; nothing can be said given it", value=dict(known))


def refuse_unnamed(records: Sequence[str]) -> None:
    """Refuse rows without a column of names where the records are not simply numbered from 1."""
    if any(name != str(n) for n, name in enumerate(records, start=1)):
        raise ParameterError(
            f"id is missing; name the column that says which record a row is ({records[0]}, …) with id="
        )


def most_outcomes(records: int) -> int:
    """How many outcomes of so many records can be listed."""
    return min(MOST_OUTCOMES, _MOST_CELLS // records)


def refuse_many(count: int, what: str, records: int = 1) -> None:
    """Refuse a table of outcomes that would be too large."""
    most = most_outcomes(records)
    if count > most:
        raise ModelError(f"{what} has {whole_number(count)} joint states; at most {most:,} can be listed", value=count)


def record_names(value: object, count: int) -> tuple[str, ...]:
    """Names of the records: given, all different and not empty, or their numbers from 1."""
    if value is None:
        return tuple(str(n) for n in range(1, count + 1))
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)):
        raise ModelError(f"records is {value!r}; it must be a list of {count} names", value=value)
    names = tuple(str(v) for v in value)
    if len(names) != count:
        raise ModelError(f"records has {len(names)} names; there are {count} records", value=value)
    repeated = sorted(name for name, n in Counter(names).items() if n > 1)
    if repeated or "" in names:
        what = f"record {repeated[0]!r} is named twice" if repeated else "a record has an empty name"
        raise ModelError(f"{what}; every record needs its own name", value=value)
    return names


def named_states(value: object, owner: str) -> tuple[str, ...]:
    """The states of one record or of all: one or more different names that are not empty."""
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)) or len(value) == 0:
        raise ModelError(f"the states of {owner} are {value!r}; they must be a list of names", value=value)
    names = tuple(str(v) for v in value)
    repeated = sorted({n for n in names if names.count(n) > 1})
    if repeated or "" in names:
        what = f"state {repeated[0]!r} is named twice" if repeated else "a state has an empty name"
        raise ModelError(f"{owner}: {what}; every state needs its own name", value=value)
    return names


def label_values(value: object, labels: Sequence[str]) -> tuple[float, ...] | None:
    """A finite number for each label: given by name or in their order, or read off labels that are all numbers."""
    if value is None:
        try:
            numbers = [float(label) for label in labels]
        except ValueError:
            return None
        return tuple(numbers) if np.isfinite(numbers).all() else None
    if isinstance(value, (list, tuple, np.ndarray)) and len(value) == len(labels):
        value = dict(zip(labels, value, strict=True))
    if not isinstance(value, Mapping) or set(value) != set(labels):
        raise ModelError(f"values must give a number for each of {', '.join(labels[:10])}", value=value)
    try:
        numbers = [float(value[label]) for label in labels]
    except (TypeError, ValueError):
        numbers = [np.nan]
    if not np.isfinite(numbers).all():
        raise ModelError("values must be finite numbers, one for each state", value=value)
    return tuple(numbers)


def value_text(value: object) -> str:
    """A value as the name of a state: whole numbers without a point, so that 1 and 1.0 are one state."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ModelError(f"a value is {value!r}; it must be a number or a name", value=value)
    try:
        finite = math.isfinite(float(value))
    except OverflowError:
        finite = False
    if not finite:
        raise ModelError(
            "a value is no number, infinite or too large; it must be a finite number or a name", value=value
        )
    return str(int(value)) if int(value) == value else repr(float(value))
