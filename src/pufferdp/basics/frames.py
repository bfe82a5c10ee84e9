"""Rows as a frame, of whichever library of frames is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pufferdp.basics.errors import ParameterError
from pufferdp.basics.extras import install_advice

_BACKENDS: Final = ("pandas", "polars", "pyarrow")


def frame(columns: Sequence[str], rows: Sequence[Sequence[Any]], backend: str | None = None) -> Any:
    """A frame of rows, of the library that is named, or that is there."""
    return frame_of({column: [row[n] for row in rows] for n, column in enumerate(columns)}, backend)


def frame_of(columns: Mapping[str, list[Any]], backend: str | None = None) -> Any:
    """A frame of columns, of the library that is named, or that is there."""
    import narwhals as nw

    if backend is not None and backend not in _BACKENDS:
        raise ParameterError(f"backend is {backend!r}; it must be one of {', '.join(_BACKENDS)}", value=backend)
    for name in _BACKENDS if backend is None else (backend,):
        try:
            return nw.from_dict(columns, backend=name).to_native()
        except ImportError:
            continue
    raise ParameterError(f"a frame needs pandas or polars; install one with: {install_advice('frames')}")
