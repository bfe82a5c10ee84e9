"""What follows from a problem alone, kept for the next one that is the same: a release in a loop calibrates once.

A problem is public, so what is kept tells nothing of the data, nor does the time that it saves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import FunctionQuery

V = TypeVar("V")


class Remembered(Generic[V]):
    """The latest values by problem, and by whatever else they follow from.

    Two problems are the same where their models are equal and they agree in everything else. So the model must
    be frozen, or it could have changed meanwhile, and the query must not call a function, which need not do the same
    twice: for others nothing is kept.
    """

    def __init__(self, most: int) -> None:
        self._most, self._latest, self._lock = most, dict[tuple[Problem, Hashable], V](), threading.Lock()

    def get(
        self, problem: Problem, more: Hashable, make: Callable[[], V], keep: Callable[[V], bool] | None = None
    ) -> V:
        """The value that was kept, or a new one, which is kept unless ``keep`` says otherwise. Errors are not kept."""
        if not _never_changes(problem):
            return make()
        key = problem, more
        with self._lock:
            if key in self._latest:
                self._latest[key] = value = self._latest.pop(key)  # the latest is the last
                return value
        value = make()
        if keep is None or keep(value):
            with self._lock:
                self._latest[key] = value
                if len(self._latest) > self._most:
                    del self._latest[next(iter(self._latest))]
        return value

    def clear(self) -> None:
        """Forget everything: for those who measure how long it takes to find anew."""
        with self._lock:
            self._latest.clear()


def _never_changes(problem: Problem) -> bool:
    try:
        hash(problem)
    except TypeError:  # secrets of one's own, or a table: nothing to look up by
        return False
    parameters = vars(type(problem.model)).get("__dataclass_params__")  # not those of a class it extends
    return parameters is not None and parameters.frozen and not isinstance(problem.query, FunctionQuery)
