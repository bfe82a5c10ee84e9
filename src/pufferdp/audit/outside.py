"""Mechanisms from outside, made ready for an audit: a function, a command, an object of another library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pufferdp.audit.adapters import Asked, import_function, library_of, loaded, parts_of
from pufferdp.audit.commands import CommandMechanism
from pufferdp.audit.guard import GuardedFunction, Progress, RunBudget
from pufferdp.audit.worker import Loaded
from pufferdp.errors import ParameterError


def outside_mechanism(
    thing: str | Callable[..., Any] | Any,
    *,
    dp_loss: float | None = None,
    query: Asked = None,
    values: Sequence[object] | None = None,
    batched: bool = False,
    d_in: float | None = None,
    name: str | None = None,
    budget: RunBudget | None = None,
    progress: Progress | None = None,
) -> GuardedFunction | CommandMechanism:
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
    limits = budget or RunBudget()
    load: Callable[[], Loaded]
    if isinstance(thing, str):
        kind, parts = parts_of(thing)
        if kind == "command":
            if query is not None or batched:
                raise ParameterError("a command reads the data sets themselves: leave query and batched out")
            return CommandMechanism(parts[0], name or "", dp_loss, values, limits, progress)
        called = name or parts[-1]
        load = partial(_imported, parts[0], parts[1], query, batched, d_in)
    else:
        ready = loaded(thing, query, batched, d_in)  # what cannot be run is refused before anything is started
        called = name or _name_of(thing)

        def load() -> Loaded:
            return ready

    return GuardedFunction(called, load, dp_loss, values, limits, progress)


def _imported(where: str, name: str, query: Asked, batched: bool, d_in: float | None) -> Loaded:
    return loaded(import_function(where, name), query, batched, d_in)


def _name_of(thing: Any) -> str:
    library = library_of(thing)
    if library == "opendp":
        return "OpenDP measurement"
    if library == "diffprivlib":
        return f"diffprivlib {type(thing).__name__}"
    return str(getattr(thing, "__name__", type(thing).__name__))
