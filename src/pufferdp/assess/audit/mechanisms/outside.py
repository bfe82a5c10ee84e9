"""Mechanisms from outside, made ready for an audit: a function, a command, an object of another library."""

from __future__ import annotations

import importlib.util
import math
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import numpy.typing as npt

from pufferdp.assess.audit.mechanisms.process import Loaded, OutsideMechanism, RunBudget, batches, command_answers
from pufferdp.assess.privacy import is_opendp, opendp_loss
from pufferdp.basics.errors import MechanismError, ParameterError
from pufferdp.basics.progress import Progress, silent
from pufferdp.basics.words import a_kind

QueryLike = str | Callable[[Any], Any] | None
"""A query that is answered before an object adds its noise: count:STATE, sum, mean, or a function."""


def load_thing(thing: Any, query: QueryLike = None, batched: bool = False, d_in: float | None = None) -> Loaded:
    """A callable, an OpenDP measurement or a diffprivlib mechanism, made ready to run."""
    library, answer = library_of(thing), _answering(query)
    if library is not None:
        function, loss, batched = thing, _opendp_loss(thing, d_in) if library == "opendp" else None, False
        if library == "diffprivlib":
            if query is None:
                raise ParameterError(
                    "a diffprivlib mechanism adds noise to an answer; say which one: query='count:1', 'sum', or a "
                    "function"
                )
            # Its epsilon, where delta is 0: for answers that move by no more than the mechanism's sensitivity.
            function, loss = thing.randomise, None if getattr(thing, "delta", 0.0) else float(thing.epsilon)
        return Loaded(lambda rows: (function(_plain(answer(row))) for row in rows), loss)
    if not callable(thing):
        raise ParameterError(
            f"the mechanism is {a_kind(thing)}; it must be a function, an OpenDP measurement, a diffprivlib mechanism "
            "or a text such as python:FILE:FUNCTION"
        )
    loss = getattr(thing, "dp_loss", None)
    if batched or getattr(thing, "batched", False):
        if query is None:
            return Loaded(batches(thing), loss, batched=True)
        return Loaded(batches(lambda rows: thing(np.array([answer(row) for row in rows]))), loss, batched=True)
    # A copy: what the mechanism does to its data is its own affair.
    return Loaded(lambda rows: (thing(answer(row.copy())) for row in rows), loss)


def library_of(thing: Any) -> str | None:
    """The library an object belongs to, where it is one that is known here."""
    library = type(thing).__module__.partition(".")[0]
    if is_opendp(thing):
        return "opendp"
    return library if library == "diffprivlib" and hasattr(thing, "randomise") else None


def import_function(where: str, name: str) -> Any:
    """An object by name, from a file or a module."""
    if where.endswith(".py") or "/" in where or "\\" in where:
        path = Path(where)
        if not path.is_file():
            raise ParameterError(f"there is no file {where!r}", value=where)
        spec = importlib.util.spec_from_file_location(f"_audited_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise ParameterError(f"{where!r} is not a Python file", value=where)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, "")  # a module beside the user, as with python -m
        module = importlib.import_module(where)
    try:
        return getattr(module, name)
    except AttributeError:
        raise MechanismError(f"{where} has no {name!r}") from None


def _answering(query: QueryLike) -> Callable[[Any], Any]:
    """A query as a function of one data set: state numbers, or what stands for them."""
    if query is None:
        return lambda row: row
    if callable(query):
        return query
    kind, _, state = query.partition(":")
    if kind == "count" and state:
        return lambda row: _count(row, state)
    if kind == "sum" and not state:
        return lambda row: row.sum().item()
    if kind == "mean" and not state:
        return lambda row: float(row.mean())
    raise ParameterError(f"query is {query!r}; it must be count:STATE, sum, mean or a function", value=query)


def _count(row: npt.NDArray[Any], state: str) -> int:
    """How many records have the state, by its name or number."""
    if row.dtype.kind not in "iuf":
        return int(np.count_nonzero(row.astype(str) == state))
    try:
        return int(np.count_nonzero(row == float(state)))
    except ValueError:
        raise ParameterError(f"query is count:{state}; the records are numbers, and none is {state!r}") from None


def _plain(value: Any) -> Any:
    """Numbers of Python itself: other libraries look at types."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _opendp_loss(measurement: Any, d_in: float | None) -> float | None:
    """The loss between data sets that differ in one record; None where it is not pure DP."""
    if str(measurement.output_measure).partition("(")[0] != "MaxDivergence":
        return None
    loss = float(opendp_loss(measurement, d_in))
    return loss if math.isfinite(loss) else None


def parts_of(spec: str) -> tuple[str, str, str]:
    """The kind, place and name in python:FILE_OR_MODULE:FUNCTION or command:COMMAND."""
    kind, _, rest = spec.partition(":")
    if kind == "command" and rest.strip():
        return kind, rest.strip(), shorten(rest.strip(), 60, placeholder=" …")
    if kind == "python":
        where, _, name = rest.rpartition(":")
        if where and name.isidentifier():
            return kind, where, name
    raise ParameterError(
        f"the mechanism is {spec!r}; it must be python:FILE_OR_MODULE:FUNCTION or command:COMMAND", value=spec
    )


def outside_mechanism(
    thing: str | Callable[..., Any] | Any,
    *,
    dp_loss: float | None = None,
    query: QueryLike = None,
    values: Sequence[object] | None = None,
    batched: bool = False,
    d_in: float | None = None,
    name: str | None = None,
    budget: RunBudget | None = None,
    progress: Progress = silent,
) -> OutsideMechanism:
    """Anything that turns data into numbers, as a mechanism that can be audited.

    >>> import numpy as np
    >>> def noisy(row):
    ...     return row.sum() + np.random.laplace(scale=2.0)
    >>> mechanism = outside_mechanism(noisy, dp_loss=0.5)
    >>> mechanism.run(np.zeros((3, 10), dtype=int)).shape
    (3, 1)

    Args:
        thing: a function of one data set (an array of state numbers, or of values) that gives back a number or a
            list of numbers; an OpenDP measurement; a diffprivlib mechanism; or a text, ``python:FILE:FUNCTION``,
            ``python:MODULE:FUNCTION`` or ``command:COMMAND`` (one data set a line in, one output a line out).
        dp_loss: the DP loss that is claimed, towards a change of one record. Without it: what the object says, an
            attribute ``dp_loss`` of a function included.
        query: what is answered before the object adds its noise: ``count:STATE``, ``sum``, ``mean`` or a function.
        values: what stands for each state: names or numbers. Without it state numbers are handed over.
        batched: the function takes many data sets at once, one a row, and gives back one row each.
        d_in: for OpenDP: how far apart data sets are that differ in one record; by default 1, and 2 for metrics that
            count records added and removed.
        name: what reports call it.
        budget: time, calls and patience.
        progress: called with a few words while it runs.
    """
    limits, unit = budget or RunBudget(), "call"
    if isinstance(thing, str):
        kind, where, called = parts_of(thing)
    else:
        kind, where, called = "object", "", _name_of(thing)
    if kind == "python":

        def load() -> Loaded:
            return load_thing(import_function(where, called), query, batched, d_in)
    else:
        if kind == "object":
            loaded = load_thing(thing, query, batched, d_in)  # what cannot be run is rejected before anything starts
        elif query is not None or batched:
            raise ParameterError("a command reads the data sets themselves: leave query and batched out")
        else:
            loaded, unit = Loaded(command_answers(_words_of(where, values), limits.memory)), "line"

        def load() -> Loaded:
            return loaded

    return OutsideMechanism(
        name=name or called, load=load, declared=dp_loss, values=values, unit=unit, budget=limits, progress=progress
    )


def _words_of(command: str, values: Sequence[object] | None) -> list[str]:
    """The words of a command that can be started and that gets a data set a line."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ParameterError(f"the command {command!r} cannot be read: {error}", value=command) from None
    if not words or shutil.which(words[0]) is None:
        first = words[0] if words else ""
        reason = "Permission denied" if first and Path(first).exists() else "No such file or directory"
        raise ParameterError(f"{first!r} cannot be started: {reason}", value=command)
    if any(set(str(value)) & set(",\n\r") for value in values or ()):
        raise ParameterError("a value has a comma or a line break in it; a line holds one data set, with commas")
    return words


def _name_of(thing: Any) -> str:
    library = library_of(thing)
    if library == "opendp":
        return "OpenDP measurement"
    if library == "diffprivlib":
        return f"diffprivlib {type(thing).__name__}"
    return str(getattr(thing, "__name__", type(thing).__name__))
